// The page: the address holds the question, this module keeps both together.

import { answerOf, early, resultsOf } from "./answer.js";
import { events, fromProblem, get, pause, setToken, whenUnauthenticated } from "./api.js";
import { byId, h, show } from "./dom.js";
import { follow, keepTimes } from "./feed.js";
import { draw, middle, neighbourhood } from "./graph.js";
import { home } from "./home.js";
import * as stages from "./stages.js";
import { openUnit } from "./unit.js";
import { count, milliseconds, remember } from "./words.js";

const FIELDS = ["principal", "as_of", "format", "limit"];
const PEOPLE_PAGES = 5;
const LONGEST_WAIT_MS = 10_000;

let asking = new AbortController();
let listening = new AbortController();
let answer = null;
let entities = [];

const principal = () => byId("principal").value;
const content = byId("content");

// --- the address

function fromForm(question = byId("q").value) {
  const address = new URLSearchParams();
  if (question.trim()) address.set("q", question.trim());
  for (const name of FIELDS) if (byId(name).value) address.set(name, byId(name).value);
  if (byId("include_superseded").checked) address.set("include_superseded", "true");
  return address;
}

function toForm(address) {
  byId("q").value = address.get("q") ?? "";
  for (const name of FIELDS) {
    const value = address.get(name) ?? "";
    const field = byId(name);
    if (name === "principal" && value && ![...field.options].some((option) => option.value === value)) {
      field.append(h("option", { value }, value));
    }
    field.value = value;
  }
  byId("include_superseded").checked = address.get("include_superseded") === "true";
  byId("more").open = ["as_of", "format", "limit", "include_superseded"].some((name) => address.get(name));
}

function go(address) {
  const search = address.toString();
  history.pushState(null, "", search ? `/?${search}` : "/");
  route();
}

/** Show what the address says. */
function route() {
  const address = new URLSearchParams(location.search);
  toForm(address);
  const question = address.get("q");
  document.title = question ? `${question} · Cortex` : "Cortex";
  document.body.dataset.view = question ? "answer" : "home";
  if (question) ask(question);
  else begin();
  if (address.get("unit")) reveal(address.get("unit"));
  else if (byId("panel").open) byId("panel").close();
}

// --- asking

async function ask(question) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  answer = null;
  byId("around").hidden = true;
  byId("columns").setAttribute("aria-busy", "true");
  say("Asking");
  stages.begin();
  show(content, skeleton());
  let wait = 500;
  while (!signal.aborted) {
    try {
      if (await listen(question, signal)) return;
      throw new Error("closing");
    } catch (error) {
      if (signal.aborted) return;
      if (error.status) {
        fail(error);
        return;
      }
      offline();
    }
    await pause(wait, signal).catch(() => {});
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
    if (!signal.aborted) stages.begin();
  }
}

/** Ask once; true when there is an answer, or a final failure was shown. */
async function listen(question, signal) {
  const parameters = { ...Object.fromEntries(fromForm(question)), q: question, explain: true };
  for await (const { event, data } of events("/v1/context/stream", parameters, { signal })) {
    if (event === "error") throw fromProblem(data.problem);
    if (event === "closing") return false;
    stages.light(data);
    if (event === "keyword" && data.hits.length) show(content, early(data.hits));
    else if (event === "fusion" && data.results.length) show(content, resultsOf(data.results, reveal));
    else if (event === "complete") {
      complete(data.answer, signal);
      return true;
    }
  }
  return false;
}

function complete(made, signal) {
  answer = made;
  stages.finish();
  byId("columns").removeAttribute("aria-busy");
  show(content, answerOf(answer, reveal));
  const found = answer.low_confidence && answer.results.length ? ["nothing certain"] : answer.results.length
    ? [count(answer.results.length, "result"), answer.conflicts.length ? count(answer.conflicts.length, "dispute") : null]
    : ["not known"];
  say(`${found.filter(Boolean).join(", ")} · ${milliseconds(answer.timings_ms.total)}`, answer.complete ? "" : "degraded");
  const seen = new URLSearchParams(location.search).get("unit");
  if (seen && byId("panel").open && answer.results.some((one) => one.unit_id === seen)) reveal(seen); // now with its score
  if (!answer.structured.some((one) => one.kind === "graph")) around(signal);
}

/** Draw what stands around the entities of the question, or else of the first result. */
async function around(signal) {
  try {
    let ids = answer.entities.filter((match) => match.method !== "unknown").map((match) => match.entity_id);
    if (!ids.length && answer.results.length && !answer.low_confidence) {
      const known = await get(`/v1/units/${answer.results[0].unit_id}`, { principal: principal() }, signal);
      ids = known.unit.entity_links.map((link) => link.entity_id);
    }
    const net = await neighbourhood([...new Set(ids)], principal(), signal);
    if (net.nodes.length < 2 || signal.aborted) return;
    byId("around-title").textContent = `Around ${middle(net)}`;
    show(byId("graph"), draw(net, { onNode: askAbout, named: true }));
    byId("around").hidden = false;
  } catch {
    // the answer stands without its surroundings
  }
}

const askAbout = (entity) => {
  byId("panel").close();
  go(fromForm(`What do we know about ${entity.name}?`));
};

function say(words, state = "") {
  byId("status").textContent = words;
  byId("status").dataset.state = state;
}

function fail(error) {
  stages.hide();
  byId("columns").removeAttribute("aria-busy");
  say("");
  show(content, h("section", { class: "failure", role: "alert" },
    h("h2", {}, error.message),
    h("p", {}, error.detail),
    error.errors.length ? h("ul", {}, error.errors.map((fault) => h("li", {}, `${fault.field}: ${fault.message}${fault.limit ? ` (${fault.limit})` : ""}`))) : null,
    h("div", { class: "row" },
      h("button", { type: "button", class: "main", onclick: route }, "Try again"),
      error.status === 403 && principal()
        ? h("button", { type: "button", class: "quiet", onclick: () => { byId("principal").value = ""; go(fromForm()); } }, "Ask as yourself") : null),
    error.instance ? h("p", { class: "meta" }, h("span", {}, error.instance)) : null));
}

function offline() {
  stages.hide();
  say("");
  show(content, h("section", { class: "failure", role: "alert" },
    h("h2", {}, "Cortex does not answer"),
    h("p", {}, "The service is away, perhaps only for a restart. This page asks again by itself."),
    h("div", { class: "row" }, h("button", { type: "button", class: "main", onclick: route }, "Ask now"))));
}

const skeleton = () => h("div", { class: "skeleton", "aria-hidden": "true" }, h("i"), h("i"), h("i"), h("i"));

// --- the first page, units, people

async function begin() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  stages.hide();
  say("");
  byId("around").hidden = true;
  if (!content.querySelector(".lede")) show(content, skeleton());
  try {
    show(content, await home({ principal: principal(), entities, ask: (question) => go(fromForm(question)), open: reveal, signal }));
  } catch (error) {
    if (signal.aborted) return;
    if (error.status) fail(error);
    else offline();
    if (!error.status) pause(2_000, signal).then(route, () => {});
  }
}

function reveal(unitId) {
  const address = new URLSearchParams(location.search);
  if (address.get("unit") !== unitId) {
    address.set("unit", unitId);
    history.replaceState(null, "", `/?${address}`);
  }
  openUnit(unitId, {
    result: answer?.results.find((one) => one.unit_id === unitId),
    principal: principal(),
    onEntity: askAbout,
    onUnit: reveal,
    onClose: () => {
      const left = new URLSearchParams(location.search);
      left.delete("unit");
      history.replaceState(null, "", left.size ? `/?${left}` : "/");
    },
  });
}

async function people() {
  let after = null;
  for (let page = 0; page < PEOPLE_PAGES; page += 1) {
    const found = await get("/v1/entities", { limit: 200, after });
    entities.push(...found.entities.filter((entity) => entity.declared));
    after = found.next;
    if (!after) break;
  }
  remember(entities);
  const field = byId("principal");
  const chosen = field.value;
  field.append(...entities.filter((entity) => entity.type === "person" && entity.id !== chosen)
    .map((entity) => h("option", { value: entity.id }, entity.name)));
  const kept = [...field.options].find((option) => option.value === chosen && chosen);
  if (kept) kept.textContent = entities.find((entity) => entity.id === chosen)?.name ?? chosen;
}

// --- the live feed

function listenToFeed() {
  listening.abort();
  listening = new AbortController();
  follow({ principal: principal(), signal: listening.signal, open: reveal, onState: pulse });
}

function pulse(state, words, reason = "") {
  byId("pulse").dataset.state = state;
  byId("pulse-words").textContent = words;
  const said = byId("feed-state");
  said.hidden = !reason;
  said.textContent = reason;
}

// --- the start

function signIn(refused) {
  const dialog = byId("signin");
  byId("signin-fault").textContent = refused ? "This token is not known here." : "";
  if (!dialog.open) dialog.showModal();
}

async function start() {
  whenUnauthenticated(signIn);
  byId("signin-form").addEventListener("submit", () => {
    setToken(byId("token").value.trim());
    byId("token").value = "";
    load();
  });
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    go(fromForm());
  });
  byId("principal").addEventListener("change", () => {
    go(fromForm());
    listenToFeed();
  });
  document.querySelector(".brand").addEventListener("click", (event) => {
    event.preventDefault();
    go(new URLSearchParams(principal() ? { principal: principal() } : {}));
    byId("q").focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && !byId("panel").open) {
      event.preventDefault();
      byId("q").select();
    }
  });
  window.addEventListener("popstate", route);
  keepTimes();
  await load();
}

async function load() {
  toForm(new URLSearchParams(location.search));
  const named = people().catch(() => {});
  get("/").then((index) => {
    byId("about").textContent = `Cortex ${index.version}. ${index.trusted ? "No tokens are set: everybody on this machine is trusted." : "Callers carry a token."}`;
  }).catch(() => {});
  await named;
  route();
  listenToFeed();
}

start();
