// Structured results: table, chart, timeline, graph, and the honest word where a shape cannot be made.

import { bar, h } from "./dom.js";
import { draw } from "./graph.js";
import { nameOf, plain, scopeName, short, when } from "./words.js";

/** Write one structured result. */
export function structured(result, open) {
  const made = { table, chart, timeline, graph, "unsupported-format": unsupported }[result.kind];
  return made ? made(result, open) : null;
}

const cited = (unitId, open, words = unitId) =>
  h("button", { type: "button", class: "link", "aria-label": words === unitId ? null : `${words}: open ${unitId}`, onclick: () => open(unitId) }, words);

const SCOPE = /^(personal|team|department|organization)\//;

const ROWS = 12;

/** The last column of the API cites the unit; here each row begins with its source. */
function table(result, open) {
  const rows = result.rows.map((row, place) => ({ cells: row.slice(0, -1), unitId: result.unit_ids[place] }));
  const columns = result.columns.slice(0, -1).map((name, place) => ({ name, place, one: alike(rows, place) }));
  const shown = columns.filter((column) => column.one === null);
  const lines = rows.map((row, number) => h("tr", { hidden: number >= ROWS },
    h("td", {}, h("button", { type: "button", class: "cite", "aria-label": `${number + 1}: open ${row.unitId}`, onclick: () => open(row.unitId) }, String(number + 1))),
    shown.map(({ name, place }) => h("td", { class: (row.cells[place] ?? "").length > 40 ? "long" : "brief" }, readable(row.cells[place], name)))));
  const all = rows.length > ROWS ? h("button", {
    type: "button", class: "quiet",
    onclick: () => { for (const line of lines) line.hidden = false; all.remove(); },
  }, `Show all ${rows.length}`) : null;
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title, columns.filter((column) => column.one !== null)
      .map((column) => h("span", { class: "faint" }, ` · ${column.name}: ${readable(column.one, column.name)}`))),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": result.title },
      h("table", {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, h("span", { class: "unseen" }, "source")),
          shown.map(({ name }) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, lines))),
    all);
}

/** What every row says in a column, or null: then the column is worth its room. */
function alike(rows, place) {
  const first = rows[0]?.cells[place] ?? null;
  return rows.length > 2 && first !== null && rows.every((row) => row.cells[place] === first) ? first : null;
}

function readable(cell, column = "") {
  if (cell === null || cell === undefined) return "—";
  if (column === "type") return plain(cell);
  return SCOPE.test(cell) ? scopeName(cell) : nameOf(cell);
}

function chart(result, open) {
  const most = Math.max(...result.series.map(([, value]) => value), 1e-9);
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title),
    h("table", { class: "bars" },
      h("tbody", {}, result.series.map(([name, value], place) => h("tr", {},
        h("th", { scope: "row" }, readable(name)),
        h("td", { class: "bar-cell" }, bar(value / most)),
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

function graph(result) {
  return h("figure", { class: "shape" },
    h("figcaption", {}, result.title),
    draw({ nodes: result.nodes, edges: result.edges }, { wide: matchMedia("(min-width: 641px)").matches }));
}

function unsupported(result) {
  return h("div", { class: "notice note" },
    h("p", { class: "title" }, `“${result.requested}” cannot be made from what is known`),
    h("p", {}, `${result.reason}. ${result.fallback === "default" ? "The plain answer is below." : `A ${plain(result.fallback)} is given in its place.`}`));
}
