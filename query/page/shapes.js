// Structured results: table, chart, timeline, graph, and the honest word where a shape cannot be made.

import { h } from "./dom.js";
import { draw } from "./graph.js";
import { nameOf, plain, scopeName, short, when } from "./words.js";

/** Write one structured result. */
export function structured(result, open) {
  const made = { table, chart, timeline, graph, "unsupported-format": unsupported }[result.kind];
  return made ? made(result, open) : null;
}

const cited = (unitId, open, words = unitId) =>
  h("button", { type: "button", class: "link", onclick: () => open(unitId) }, words);

const SCOPE = /^(personal|team|department|organization)\//;

function table(result, open) {
  const last = result.columns.length - 1;
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": result.title },
      h("table", {},
        h("thead", {}, h("tr", {}, result.columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, result.rows.map((row, place) => h("tr", {}, row.map((cell, column) =>
          h("td", { class: (cell ?? "").length > 60 ? "long" : null },
            column === last ? cited(result.unit_ids[place], open, cell ?? result.unit_ids[place]) : readable(cell)))))))));
}

function readable(cell) {
  if (cell === null || cell === undefined) return "—";
  return SCOPE.test(cell) ? scopeName(cell) : nameOf(cell);
}

function chart(result, open) {
  const most = Math.max(...result.series.map(([, value]) => value), 1e-9);
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title),
    h("table", { class: "bars" },
      h("tbody", {}, result.series.map(([name, value], place) => h("tr", {},
        h("th", { scope: "row" }, readable(name)),
        h("td", { class: "bar-cell" }, h("meter", { min: 0, max: most, value, "aria-label": `${readable(name)}: ${short(value)}` })),
        h("td", { class: "value" }, short(value)),
        h("td", { class: "from" }, (result.unit_ids[place] ?? []).slice(0, 3).map((id, n) => cited(id, open, `[${n + 1}]`))))))));
}

function timeline(result, open) {
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title),
    h("ol", { class: "timeline" }, result.events.map((event) => h("li", {},
      h("time", { datetime: event.at }, when(event)),
      h("p", {}, event.text, " ", cited(event.unit_id, open, "source"))))),
    result.undated.length
      ? h("p", { class: "meta" }, h("span", {}, `${result.undated.length} without a date were left out`)) : null);
}

function graph(result, open) {
  const nodes = result.nodes.map((node) => ({ ...node, centre: false }));
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title),
    draw({ nodes, edges: result.edges }, { wide: true, onNode: null, onUnit: open }));
}

function unsupported(result) {
  return h("div", { class: "notice note" },
    h("p", { class: "title" }, `“${result.requested}” cannot be made from what is known`),
    h("p", {}, `${result.reason}. ${result.fallback === "default" ? "The plain answer is below." : `A ${plain(result.fallback)} is given in its place.`}`));
}
