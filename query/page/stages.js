// The stages of an answer: each lights up when its event arrives, with the time that it took.

import { byId, h, show } from "./dom.js";
import { milliseconds } from "./words.js";

const STAGES = [
  ["intent", "intent", "what the question is after"],
  ["entities", "entities", "who and what is named in it"],
  ["weights", "weights", "what may be read, and how much it counts"],
  ["keyword", "keyword", "first hits by word"],
  ["search", "search", "by word, by meaning, and by the graph"],
  ["fusion", "fuse", "one ranking, every term named"],
  ["conflicts", "conflicts", "what contradicts what"],
  ["structured", "shape", "tables, charts, timelines, graphs"],
  ["context", "format", "cited, within the budget"],
];

/** Begin: nothing is lit, the first stage is under way. */
export function begin() {
  const list = byId("stages");
  list.hidden = false;
  show(list, STAGES.map(([id, name, words], place) =>
    h("li", { "data-stage": id, "data-state": place ? "ahead" : "now", title: words },
      h("span", { class: "name" }, name), h("span", { class: "took" }, " "))));
}

/** Light a stage; those before it that sent nothing were not needed. */
export function light(event) {
  const place = STAGES.findIndex(([id]) => id === event.stage);
  if (place < 0) return;
  const items = [...byId("stages").children];
  items[place].dataset.state = event.lost?.length ? "lost" : "done";
  items[place].querySelector(".took").textContent = milliseconds(event.took_ms);
  items.slice(0, place).filter((item) => item.dataset.state !== "done" && item.dataset.state !== "lost")
    .forEach((item) => { item.dataset.state = "idle"; });
  if (items[place + 1]) items[place + 1].dataset.state = "now";
}

/** End: nothing is under way any more. */
export function finish() {
  for (const item of byId("stages").children) if (item.dataset.state === "now") item.dataset.state = "idle";
}

export const hide = () => { byId("stages").hidden = true; };
