// Before a question: what there is, and where to begin.

import { get } from "./api.js";
import { h } from "./dom.js";
import { disputes } from "./answer.js";
import { count } from "./words.js";

const DOORS = 8;
const FIRST = ["system", "project", "topic", "module", "team"];

/** Write the first page. `ask(question)` asks, `open(unitId)` shows a unit. */
export async function home({ principal, entities, ask, open, signal }) {
  const [status, page] = await Promise.all([
    get("/v1/status", {}, signal), get("/v1/contradictions", { principal, limit: 3 }, signal),
  ]);
  if (!status.counts.units) return [nothingYet()];
  return [
    h("p", { class: "lede" }, summary(status.counts)),
    doors(entities, ask),
    page.contradictions.length ? disputes(page.contradictions, open, "Open disputes") : null,
  ];
}

function summary(counts) {
  const said = [count(counts.units, "unit") + " of knowledge", count(Object.keys(counts.by_scope).length, "scope")];
  if (counts.entities) said.push(count(counts.entities, "entity", "entities"));
  if (counts.contradictions_open) said.push(count(counts.contradictions_open, "open dispute"));
  return said.join(" · ");
}

function doors(entities, ask) {
  const chosen = FIRST.flatMap((type) => entities.filter((entity) => entity.type === type)).slice(0, DOORS);
  if (!chosen.length) return null;
  return h("nav", { class: "doors", "aria-label": "Begin with" },
    h("h2", {}, "Begin with"),
    h("ul", {}, chosen.map((entity) => h("li", {},
      h("button", { type: "button", class: "chip", onclick: () => ask(`What do we know about ${entity.name}?`) }, entity.name)))));
}

function nothingYet() {
  const command = `echo '{"text": "The deploy freeze starts on Friday.", "scope": "team/team-core"}' | cortex publish -`;
  return h("section", { class: "nothing" },
    h("h2", {}, "Nothing is known yet"),
    h("p", {}, "Publish a first piece of knowledge, and it is here a moment later:"),
    h("pre", { tabindex: "0", "aria-label": "Command" }, command));
}
