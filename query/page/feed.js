// What just arrived: the live feed, resumed after its last id whatever happens in between.

import { events, pause } from "./api.js";
import { byId, h } from "./dom.js";
import { ago, capital, count, differs, scopeName, subjectOf } from "./words.js";

const SHOWN = 30;
const RECENT = 8;
const LONGEST_WAIT_MS = 10_000;
const ANNOUNCE_MS = 4_000;
const HEARD = new Set(["stored", "changed", "retracted", "contradicted"]);
const VERBS = { stored: "new", changed: "changed", retracted: "withdrawn", contradicted: "dispute" };

/** Follow the feed until the signal aborts. `onState(state, words)`: wait, live, degraded, offline. */
export async function follow({ principal, signal, open, onState }) {
  let lastId = null;
  let wait = 500;
  byId("feed").replaceChildren();
  empty();
  while (!signal.aborted) {
    try {
      for await (const message of events("/v1/feed", { principal, ...(lastId ? {} : { recent: RECENT }) }, { signal, lastId })) {
        lastId = message.id ?? lastId;
        wait = message.retry ?? 500;
        hear(message, open, onState);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401 || error.status === 403) {
        onState("offline", "no access");
        return;
      }
    }
    if (signal.aborted) return;
    onState("offline", "reconnecting");
    await pause(wait, signal).catch(() => {});
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

function hear({ event, data }, open, onState) {
  if (event === "open" && data.live) onState("live", "live");
  else if (event === "live") onState("live", "live");
  else if (event === "degraded") onState("degraded", "no live news", `${capital(data.reason)}.`);
  else if (event === "missed") put(missed(data));
  else if (HEARD.has(event)) {
    put(item(event, data, open));
    announce();
  }
}

function put(element) {
  const list = byId("feed");
  list.querySelector(".empty")?.remove();
  list.prepend(element);
  while (list.children.length > SHOWN) list.lastElementChild.remove();
}

function item(kind, news, open) {
  const side = news.unit ?? news.sides[0];
  const dispute = kind === "contradicted";
  const gone = !dispute && !side.text;
  const inside = [
    h("span", { class: "meta" }, h("span", { class: "verb" }, VERBS[kind]), h("span", {}, scopeName(side.scope)),
      h("time", { datetime: news.recorded_at }, ago(news.recorded_at))),
    h("span", { class: "gist" }, dispute ? subjectOf(news) : side.title ?? side.text ?? side.unit_id,
      gone && kind !== "retracted" ? h("span", { class: "faint" }, " withdrawn since") : null),
    dispute ? h("span", { class: "differs" }, differs(news)) : null,
  ];
  return h("li", { class: kind, "data-unit": side.unit_id },
    gone ? h("div", { class: "piece" }, inside)
      : h("button", { class: "piece", type: "button", onclick: () => open(side.unit_id) }, inside));
}

function missed({ count: missing, reason }) {
  const why = { slow: "they came faster than they could be shown", trimmed: "it was too long ago", outage: "the feed was interrupted" }[reason];
  return h("li", { class: "missed" }, `${missing ? count(missing, "arrival") : "Something"} may be missing here: ${why}.`);
}

function empty() {
  byId("feed").replaceChildren(h("li", { class: "empty" }, "Nothing yet. What is stored from now on appears here."));
}

let unheard = 0;

/** Tell screen readers how much came, not each piece at once. */
function announce() {
  unheard += 1;
  if (unheard > 1) return;
  setTimeout(() => {
    byId("feed-news").textContent = `${count(unheard, "arrival")} in the feed`;
    unheard = 0;
  }, ANNOUNCE_MS);
}

/** Keep the times of the feed true. */
export function keepTimes() {
  setInterval(() => {
    for (const time of document.querySelectorAll("#feed time")) time.textContent = ago(time.dateTime);
  }, 30_000);
}
