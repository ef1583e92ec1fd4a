// A small graph: entities and what ties them, as a drawing and as a list that says the same.

import { get } from "./api.js";
import { h, s } from "./dom.js";
import { nameOf, plain, remember } from "./words.js";

const MOST_NODES = 13;
const STEPS = 160;

/** Load the neighbourhood of some entities. */
export async function neighbourhood(ids, principal, signal) {
  const details = await Promise.all(ids.slice(0, 3).map((id) =>
    get(`/v1/entities/${id}`, { principal }, signal).catch(() => null)));
  const nodes = new Map();
  const edges = [];
  const room = Math.floor(MOST_NODES / Math.max(1, details.filter(Boolean).length)) - 1;
  for (const detail of details.filter(Boolean)) {
    nodes.set(detail.entity.id, { ...detail.entity, centre: true });
    remember([detail.entity]);
  }
  for (const detail of details.filter(Boolean)) {
    for (const one of detail.neighbours.slice(0, room)) {
      if (!nodes.has(one.id)) nodes.set(one.id, { id: one.id, name: one.name, type: one.type, centre: false });
      const [source, target] = one.outgoing ? [detail.entity.id, one.id] : [one.id, detail.entity.id];
      if (!edges.some((edge) => edge.source === source && edge.target === target && edge.relation === one.relation)) {
        edges.push({ source, relation: one.relation, target, weight: one.weight });
      }
    }
  }
  return { nodes: [...nodes.values()], edges };
}

/** Draw a graph. `onNode(node)`: what a node does when it is chosen; without it nodes are not buttons. */
export function draw({ nodes, edges }, { wide = false, onNode = null } = {}) {
  const [width, height] = wide ? [680, 380] : [360, 300];
  const places = layout(nodes, edges, width, height);
  const lines = edges.filter((edge) => places.has(edge.source) && places.has(edge.target)).map((edge) => {
    const [a, b] = [places.get(edge.source), places.get(edge.target)];
    return s("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, "stroke-width": (0.75 + edge.weight).toFixed(2) },
      s("title", {}, sentence(edge, nodes)));
  });
  const dots = nodes.map((node) => dot(node, places.get(node.id), width, onNode));
  return h("div", { class: "net" },
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${nodes.length} entities and ${edges.length} ties; the list below says the same` },
      s("g", { class: "lines", "aria-hidden": "true" }, lines), s("g", {}, dots)),
    h("details", {}, h("summary", {}, "As a list"),
      edges.length ? h("ul", {}, edges.map((edge) => h("li", {}, sentence(edge, nodes)))) : h("p", {}, "No ties are known.")));
}

function sentence(edge, nodes) {
  const name = (id) => nodes.find((node) => node.id === id)?.name ?? nameOf(id);
  return `${name(edge.source)} ${plain(edge.relation)} ${name(edge.target)}`;
}

function dot(node, place, width, onNode) {
  const right = place.x > width / 2;
  const end = right ? place.x > width * 0.72 : place.x > width * 0.28;
  const anchor = place.x < width * 0.28 ? "start" : end && right ? "end" : "middle";
  const act = onNode && ((event) => {
    if (event.type === "click" || event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onNode(node);
    }
  });
  const label = node.name.length > 20 ? `${node.name.slice(0, 19)}…` : node.name;
  return s("g", {
    class: node.centre ? "node centre" : "node", transform: `translate(${place.x.toFixed(1)} ${place.y.toFixed(1)})`,
    ...(act ? { tabindex: "0", role: "button", "aria-label": `${node.name}${node.type ? `, ${node.type}` : ""}`, onclick: act, onkeydown: act } : {}),
  },
  s("circle", { r: 18, class: "reach" }),
  s("circle", { r: node.centre ? 7 : 4.5 }),
  s("text", { y: node.centre ? -13 : 17, "text-anchor": anchor, x: anchor === "middle" ? 0 : anchor === "start" ? -6 : 6 }, label),
  s("title", {}, node.name));
}

/** Place nodes by springs, the same way each time: the start is a circle, in the order given. */
function layout(nodes, edges, width, height) {
  const [cx, cy] = [width / 2, height / 2];
  const spots = nodes.map((node, place) => {
    const angle = (2 * Math.PI * place) / nodes.length - Math.PI / 2;
    const reach = node.centre && nodes.filter((one) => one.centre).length === 1 ? 0 : 0.36;
    return { x: cx + Math.cos(angle) * width * reach, y: cy + Math.sin(angle) * height * reach };
  });
  const index = new Map(nodes.map((node, place) => [node.id, place]));
  const ties = edges.map((edge) => [index.get(edge.source), index.get(edge.target)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const ideal = Math.sqrt((width * height) / Math.max(nodes.length, 4)) * 0.8;
  for (let step = 0; step < STEPS; step += 1) {
    const heat = (1 - step / STEPS) * 12 + 0.5;
    const moves = spots.map(() => ({ x: 0, y: 0 }));
    for (let a = 0; a < spots.length; a += 1) {
      for (let b = a + 1; b < spots.length; b += 1) {
        const [dx, dy] = [(spots[a].x - spots[b].x) * 0.72 || 0.01, (spots[a].y - spots[b].y) * 1.3 || 0.01 * (b - a)];
        const far = Math.max(Math.hypot(dx, dy), 1);
        const push = (ideal * ideal) / far / far;
        moves[a].x += dx * push; moves[a].y += dy * push;
        moves[b].x -= dx * push; moves[b].y -= dy * push;
      }
      moves[a].x += (cx - spots[a].x) * 0.03; moves[a].y += (cy - spots[a].y) * 0.05;
    }
    for (const [a, b] of ties) {
      const [dx, dy] = [spots[b].x - spots[a].x, spots[b].y - spots[a].y];
      const pull = Math.hypot(dx, dy) / ideal / 2;
      moves[a].x += dx * pull; moves[a].y += dy * pull;
      moves[b].x -= dx * pull; moves[b].y -= dy * pull;
    }
    spots.forEach((spot, place) => {
      const length = Math.max(Math.hypot(moves[place].x, moves[place].y), 0.01);
      spot.x = clamp(spot.x + (moves[place].x / length) * Math.min(length, heat), 26, width - 26);
      spot.y = clamp(spot.y + (moves[place].y / length) * Math.min(length, heat), 30, height - 30);
    });
  }
  return new Map(nodes.map((node, place) => [node.id, spots[place]]));
}

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
