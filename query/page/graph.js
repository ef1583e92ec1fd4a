// A small graph: entities and what ties them, as a drawing and as a list that says the same.

import { get } from "./api.js";
import { h, s } from "./dom.js";
import { nameOf, plain, remember } from "./words.js";

const NEIGHBOURS = 9;
const NAMED = 4; // where so many declared neighbours are known, names that only stand in texts are left out
const WIDE = { width: 680, reach: 170, letters: 24 };
const SLIM = { width: 360, reach: 82, letters: 14 };
const ROW = 34;

/** Load the neighbourhood of some entities. */
export async function neighbourhood(ids, principal, signal) {
  const details = await Promise.all(ids.slice(0, 3).map((id) =>
    get(`/v1/entities/${id}`, { principal }, signal).catch(() => null)));
  const nodes = new Map();
  const edges = [];
  const room = Math.ceil(NEIGHBOURS / Math.max(1, details.filter(Boolean).length));
  for (const detail of details.filter(Boolean)) {
    nodes.set(detail.entity.id, { ...detail.entity, centre: true });
    remember([detail.entity]);
  }
  for (const detail of details.filter(Boolean)) {
    const declared = detail.neighbours.filter((one) => !one.id.startsWith("~"));
    const near = declared.length >= NAMED ? declared : detail.neighbours;
    for (const one of near.slice(0, room)) {
      if (!nodes.has(one.id)) nodes.set(one.id, { id: one.id, name: one.name, type: one.type, centre: false });
      const [source, target] = one.outgoing ? [detail.entity.id, one.id] : [one.id, detail.entity.id];
      if (!edges.some((edge) => edge.source === source && edge.target === target && edge.relation === one.relation)) {
        edges.push({ source, relation: one.relation, target, weight: one.weight });
      }
    }
  }
  return { nodes: [...nodes.values()], edges };
}

/** The names in the middle of a neighbourhood. */
export const middle = ({ nodes }) => nodes.filter((node) => node.centre).map((node) => node.name).join(", ");

/** Draw a graph. `onNode(node)`: what a node does when it is chosen; without it nodes are not buttons.
 * `named`: the heading names the one node in the middle, so that no line has to cross its name. */
export function draw({ nodes, edges }, { wide = false, onNode = null, named = false } = {}) {
  const size = wide ? WIDE : SLIM;
  const placed = layout(nodes, edges, size);
  const ties = edges.filter((edge) => placed.spots.has(edge.source) && placed.spots.has(edge.target)).map((edge) => {
    const [a, b] = [placed.spots.get(edge.source), placed.spots.get(edge.target)];
    return s("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, "stroke-width": (0.75 + edge.weight).toFixed(2) });
  });
  const mute = named && nodes.filter((node) => placed.spots.get(node.id).inner).length === 1;
  const dots = nodes.map((node) => dot(node, placed.spots.get(node.id), size, { onNode, mute }));
  return h("div", { class: wide ? "net wide" : "net" },
    s("svg", { viewBox: `0 0 ${size.width} ${placed.height}`, role: "group", "aria-label": `${nodes.length} entities and ${edges.length} ties; the list below says the same` },
      s("g", { class: "lines", "aria-hidden": "true" }, ties), s("g", {}, dots)),
    h("details", {}, h("summary", {}, "As a list"),
      edges.length ? h("ul", {}, edges.map((edge) => h("li", {}, sentence(edge, nodes)))) : h("p", {}, "No ties are known.")));
}

function sentence(edge, nodes) {
  const name = (id) => nodes.find((node) => node.id === id)?.name ?? nameOf(id);
  return `${name(edge.source)} ${plain(edge.relation)} ${name(edge.target)}`;
}

function dot(node, spot, size, { onNode, mute }) {
  const act = onNode && ((event) => {
    if (event.type === "click" || event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onNode(node);
    }
  });
  const label = lines(node.name, spot.inner ? 2 * size.letters : size.letters);
  const place = spot.inner ? { x: 0, y: -13, "text-anchor": "middle" }
    : { x: spot.right ? 11 : -11, y: label.length > 1 ? -3 : 4, "text-anchor": spot.right ? "start" : "end" };
  const shown = label.join(" ");
  const name = `${shown === node.name ? shown : `${shown} ${node.name}`}${node.type ? `, ${node.type}` : ""}`;
  return s("g", {
    class: spot.inner ? "node centre" : "node", transform: `translate(${spot.x.toFixed(1)} ${spot.y.toFixed(1)})`,
    ...(act ? { tabindex: "0", role: "button", "aria-label": name, onclick: act, onkeydown: act } : {}),
  },
  s("circle", { r: 14, class: "reach" }),
  s("circle", { r: spot.inner ? 7 : 4.5 }),
  mute && spot.inner ? null : s("text", place, label.map((line, number) => s("tspan", { x: place.x, dy: number ? 14 : 0 }, number ? line : `${line} `))),
  s("title", {}, node.name));
}

/** Break a name into at most two lines of so many letters. */
function lines(name, letters) {
  if (name.length <= letters) return [name];
  const space = name.lastIndexOf(" ", letters);
  const broken = space > 0 ? [name.slice(0, space), name.slice(space + 1)] : [name];
  return broken.map((line) => (line.length > letters ? `${line.slice(0, letters - 1)}…` : line));
}

/** Place the best tied nodes inside and the others around them, in rows left and right, so that no two names meet. */
function layout(nodes, edges, { width, reach }) {
  const ties = new Map(nodes.map((node) => [node.id, 0]));
  for (const edge of edges) for (const id of [edge.source, edge.target]) ties.set(id, (ties.get(id) ?? 0) + 1);
  const chosen = nodes.filter((node) => node.centre);
  const byTies = [...nodes].sort((a, b) => ties.get(b.id) - ties.get(a.id) || (a.id < b.id ? -1 : 1));
  const inner = chosen.length ? chosen : byTies.filter((node, place) => place === 0 || (place < 3 && ties.get(node.id) > 2));
  const around = nodes.filter((node) => !inner.includes(node)).sort((a, b) => home(a) - home(b));
  const perSide = Math.ceil(around.length / 2);
  const height = Math.max(perSide * ROW + 50, inner.length * 74 + 40, 150);
  const spots = new Map();
  inner.forEach((node, place) => {
    spots.set(node.id, { x: width / 2 + (inner.length > 1 ? (place % 2 ? 14 : -14) : 0), y: (height * (place + 1)) / (inner.length + 1), inner: true });
  });
  around.forEach((node, place) => {
    const right = place % 2 === 1;
    const rows = right ? around.length - perSide : perSide;
    const row = Math.floor(place / 2);
    const lift = rows === 1 ? 0 : (2 * row) / (rows - 1) - 1;
    const out = reach * Math.sqrt(1 - (lift * 0.8) ** 2);
    spots.set(node.id, { x: width / 2 + (right ? out : -out), y: height / 2 + (lift * (height - 40)) / 2, right, inner: false });
  });
  return { spots, height };

  function home(node) {
    const places = inner.map((one, place) => (edges.some((edge) => [edge.source, edge.target].includes(node.id) && [edge.source, edge.target].includes(one.id)) ? place : null))
      .filter((place) => place !== null);
    return places.length ? places.reduce((sum, place) => sum + place, 0) / places.length : inner.length;
  }
}
