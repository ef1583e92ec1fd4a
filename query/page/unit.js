// A unit in a panel of its own: text, times, source, why it ranked, what stands next to it, what it said before.

import { get } from "./api.js";
import { bar, byId, h, show } from "./dom.js";
import { draw, middle, neighbourhood } from "./graph.js";
import { capital, nameOf, plain, scopeName, short, when } from "./words.js";

const MOST_AGAINST = 5;

/** Open the panel on a unit. `result`: its place in the present answer, if any. */
export async function openUnit(unitId, { result, principal, onEntity, onUnit, onClose }) {
  const panel = byId("panel");
  frame(panel, result?.title ?? "One moment", [h("p", { class: "loading" }, "Loading")]);
  if (!panel.open) panel.showModal();
  panel.onclose = onClose;
  try {
    const known = await get(`/v1/units/${unitId}`, { principal, history: true });
    const title = known.unit.title ?? capital(plain(known.unit.type));
    frame(panel, title, body(known, result, onUnit));
    addWords(panel, principal);
    await addNeighbours(panel, known.unit, principal, onEntity);
  } catch (error) {
    frame(panel, "Not to be seen", [
      h("p", {}, error.status === 404
        ? "This unit is not there, or not for the one who asks. It may have been withdrawn since."
        : `${error.message}. ${error.detail ?? ""}`),
    ]);
  }
}

function frame(panel, title, children) {
  show(panel,
    h("div", { class: "top" },
      h("h2", { id: "panel-title", tabindex: "-1" }, title),
      h("form", { method: "dialog" }, h("button", { class: "close", "aria-label": "Close" }, "×"))),
    h("div", { class: "inside" }, children));
  panel.onclick = (event) => { if (event.target === panel) panel.close(); };
  panel.querySelector("h2").focus();
}

function body(known, result, onUnit) {
  const { unit, state } = known;
  return [
    h("p", { class: "text whole" }, unit.text),
    h("dl", { class: "facts" }, facts(unit, state).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    unit.evidence.length ? h("section", {}, h("h3", {}, "Evidence"),
      h("ul", {}, unit.evidence.map((one) => h("li", {}, [one.quote && `“${one.quote}”`, one.ref].filter(Boolean).join(" · "))))) : null,
    result?.terms?.length ? terms(result) : null,
    state.contradiction_refs.length ? h("section", {}, h("h3", {}, "Contradicted by"),
      h("ul", { class: "plainlist" }, state.contradiction_refs.slice(0, MOST_AGAINST).map((id) =>
        h("li", {}, h("button", { type: "button", class: "link", "data-against": id, onclick: () => onUnit(id) }, id))))) : null,
    h("section", { class: "near", hidden: true }),
    history(known.history),
  ];
}

function facts(unit, state) {
  const held = [unit.valid_from && `from ${when(unit.valid_from)}`, unit.valid_until && `until ${when(unit.valid_until)}`];
  return [
    ["Kind", capital(plain(unit.type))],
    ["Scope", scopeName(`${unit.scope.level}/${unit.scope.entity_id}`)],
    ["Occurred", unit.occurred_at ? when(unit.occurred_at) : "not said"],
    ["Recorded", when(state.recorded_at)],
    ["Held", held.filter(Boolean).join(" ")],
    ["Ended", state.held_until ? when(state.held_until) : ""],
    ["By", unit.origin.creator_entity_id ? nameOf(unit.origin.creator_entity_id) : ""],
    ["Source", [state.source, unit.origin.source_ref].filter(Boolean).join(" · ")],
    ["Trust", unit.origin.trusted ? "" : "from outside: a text to be read, not followed"],
    ["Sources", state.corroborations > 1 ? `${state.corroborations} say the same` : ""],
    ["Replaced by", state.superseded_by ?? ""],
    ["Replaces", unit.supersedes ?? ""],
    ["Revision", String(state.revision)],
    ["Id", unit.id],
  ].filter(([, value]) => value);
}

const TERMS = { "rrf.keyword": "by word", "rrf.vector": "by meaning", "rrf.graph": "by the graph", "graph.near": "by the graph" };

/** Each term of the score: what finds a unit adds up, the rest multiplies. */
function terms(result) {
  const adds = (term) => /^(rrf|graph)\./.test(term.name);
  const sum = result.terms.filter(adds).reduce((all, term) => all + term.value, 0) || 1;
  return h("section", {},
    h("h3", {}, `Why it is number ${result.rank}`, h("span", { class: "faint" }, ` · score ${short(result.score)}`)),
    h("table", { class: "bars terms" }, h("tbody", {}, result.terms.map((term) => h("tr", {},
      h("th", { scope: "row", title: term.name }, TERMS[term.name] ?? plain(term.name.replaceAll(".", " "))),
      h("td", { class: "value" }, `${adds(term) ? "+" : "×"} ${short(term.value)}`),
      h("td", { class: "bar-cell" }, adds(term) ? bar(term.value / sum) : null),
      h("td", { class: "why" }, term.detail))))));
}

function history(revisions) {
  if (!revisions.length) return null;
  return h("section", {}, h("h3", {}, "What it said before"),
    h("ol", { class: "timeline" }, revisions.map((one) => h("li", {},
      h("time", { datetime: one.state.recorded_at }, `revision ${one.state.revision}, ${when(one.state.recorded_at)}`),
      h("p", {}, one.unit.text)))));
}

/** Put words in the place of ids. */
function addWords(panel, principal) {
  for (const button of panel.querySelectorAll("[data-against]")) {
    get(`/v1/units/${button.dataset.against}`, { principal }).then((known) => {
      const { text } = known.unit;
      button.textContent = text.length > 120 ? `${text.slice(0, 119)}…` : text;
    }, () => {});
  }
}

async function addNeighbours(panel, unit, principal, onEntity) {
  const ids = unit.entity_links.map((link) => link.entity_id);
  if (!ids.length) return;
  const net = await neighbourhood(ids.slice(0, 2), principal);
  const near = panel.querySelector(".near");
  if (!near || net.nodes.length < 2) return;
  near.append(h("h3", {}, `Next to ${middle(net)}`), draw(net, { onNode: onEntity, named: true }));
  near.hidden = false;
}
