// The answer: what is known, each line cited; what it lacks; what is in dispute; the context that agents get.

import { h } from "./dom.js";
import { structured } from "./shapes.js";
import { capital, count, differs, nameOf, number, plain, scopeName, subjectOf, when } from "./words.js";

/** Write a whole answer. `open(unitId)` shows a unit. */
export function answerOf(answer, open) {
  if (!answer.results.length) return [...notices(answer), nothing(answer)];
  return [
    ...notices(answer),
    ...answer.structured.filter((one) => one.kind !== "low-confidence").map((one) => structured(one, open)),
    results(answer, open),
    answer.conflicts.length ? disputes(answer.conflicts, open) : null,
    context(answer),
  ];
}

/** Write results as they stand after fusion, before the answer is complete. */
export const resultsOf = (found, open) => [results({ results: found, conflicts: [], low_confidence: false }, open)];

/** Write early hits, which may still go. */
export const early = (hits) => [
  h("ol", { class: "results early", "aria-label": "First hits" },
    hits.slice(0, 5).map((hit) => h("li", {}, h("p", { class: "text" }, hit.text)))),
];

function results(answer, open) {
  const title = answer.low_confidence ? "What came nearest" : "What is known";
  return h("section", { class: answer.low_confidence ? "known faint" : "known", "aria-labelledby": "known-title" },
    h("div", { class: "head" },
      h("h2", { id: "known-title" }, title),
      answer.conflicts.length
        ? h("a", { class: "jump", href: "#disputes" }, `${count(answer.conflicts.length, "dispute")} in this answer`) : null),
    h("ol", { class: "results" }, answer.results.map((result) => item(result, open))));
}

function item(result, open) {
  const label = result.citation.replace(/[[\]]/g, "");
  return h("li", { "data-unit": result.unit_id },
    h("button", {
      class: "cite", type: "button", "aria-label": `Open source ${label}: ${result.title ?? result.unit_id}`,
      onclick: () => open(result.unit_id, result),
    }, label),
    h("div", { class: "said" },
      result.title ? h("h3", {}, result.title) : null,
      h("p", { class: "text" }, result.text),
      h("p", { class: "meta" }, ...facts(result).map((fact) => h("span", {}, fact)), badges(result))));
}

function facts(result) {
  return [
    plain(result.type),
    result.occurred_at ? when(result.occurred_at) : "undated",
    result.creator ? nameOf(result.creator) : null,
    scopeName(result.scope),
    result.corroborations > 1 ? `${result.corroborations} sources` : null,
  ].filter(Boolean);
}

function badges(result) {
  const said = [];
  if (result.status !== "current") said.push([result.status, result.status]);
  if (!result.trusted) said.push(["untrusted", "from outside"]);
  if (["restricted", "confidential"].includes(result.sensitivity)) said.push(["sensitive", result.sensitivity]);
  return said.map(([kind, words]) => h("span", { class: `badge ${kind}` }, words));
}

/** Write pairs that cannot both hold, side by side. */
export function disputes(conflicts, open, title = "In dispute") {
  return h("section", { class: "disputes", id: "disputes", "aria-labelledby": "disputes-title" },
    h("h2", { id: "disputes-title" }, title),
    conflicts.map((conflict) => h("article", { class: "dispute" },
      h("header", {},
        h("h3", {}, subjectOf(conflict)),
        h("p", {}, differs(conflict))),
      h("div", { class: "sides" }, conflict.sides.map((side) => sideOf(side, conflict, open))))));
}

function sideOf(side, conflict, open) {
  const newer = conflict.newer === side.unit_id;
  return h("button", { class: newer ? "part newer" : "part", type: "button", onclick: () => open(side.unit_id) },
    h("span", { class: "text" }, side.text),
    h("span", { class: "meta" },
      newer ? h("span", { class: "badge" }, "newer") : null,
      ...[side.occurred_at ? when(side.occurred_at) : "undated", side.creator ? nameOf(side.creator) : null, scopeName(side.scope)]
        .filter(Boolean).map((fact) => h("span", {}, fact))));
}

/** What qualifies the answer, said before it. */
function notices(answer) {
  const said = [];
  const weak = answer.structured.find((one) => one.kind === "low-confidence");
  if (answer.low_confidence && answer.results.length) {
    said.push(["weak", "Nothing that is known answers this well", weak ? `${capital(weak.reason)}.` : ""]);
  }
  for (const { arm, why, scopes } of together(answer.lost)) {
    const where = scopes.length > 2 ? ` in ${count(scopes.length, "scope")}` : scopes.length ? ` in ${scopes.map(scopeName).join(" and ")}` : "";
    said.push(["lost", `The answer lacks ${arm}${where}`, `${capital(why)}. Ask again to have it whole.`]);
  }
  if (answer.stale) said.push(["lost", "Not everything you waited for is in yet", "The answer was given with what is searchable so far."]);
  if (answer.degraded && !answer.lost.length) said.push(["note", "The cache is away", "The answer lacks nothing; it only took longer."]);
  for (const note of answer.notes) said.push(["note", note, ""]);
  if (answer.as_of) said.push(["note", `What held on ${when(answer.as_of)}`, ""]);
  return said.map(([kind, title, words]) =>
    h("div", { class: `notice ${kind}` }, h("p", { class: "title" }, title), words ? h("p", {}, words) : null));
}

const ARMS = { keyword: "the search by word", vector: "the search by meaning", graph: "the search by the graph" };

/** Lost sources by what they are and why, with the scopes that they are missing in. */
function together(lost) {
  const groups = new Map();
  for (const one of lost) {
    const [arm, why] = [ARMS[one.arm] ?? one.arm ?? `the stage ${one.stage}`, one.detail || one.reason];
    const group = groups.get(`${arm}|${why}`) ?? { arm, why, scopes: [] };
    if (one.scope) group.scopes.push(one.scope);
    groups.set(`${arm}|${why}`, group);
  }
  return [...groups.values()];
}

function nothing(answer) {
  return h("section", { class: "nothing" },
    h("h2", {}, "Not known"),
    h("p", {}, answer.question.trim().length < 3
      ? "A question needs at least three characters."
      : "Nothing that may be read here speaks to this question. That is an answer too: somebody may have to find out, and write it down."));
}

function context(answer) {
  const text = h("pre", { tabindex: "0", "aria-label": "Context" }, answer.context);
  const copy = h("button", {
    type: "button", class: "quiet",
    onclick: async () => {
      await navigator.clipboard.writeText(answer.context);
      copy.textContent = "Copied";
    },
  }, "Copy");
  return h("details", { class: "context" },
    h("summary", {}, "The context that an agent gets ",
      h("span", { class: "faint" }, `${number(answer.context_tokens)} of ${number(answer.budget_tokens)} tokens`)),
    h("div", { class: "head" }, copy), text);
}
