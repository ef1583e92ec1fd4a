// Drives the page in Chromium: node drive.mjs URL SCENARIO FOLDER. Says what it found as JSON lines: {check, ok, detail} and
// {figure, value}. What only the test outside can do is asked for as {need} and answered by a line on standard input.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const STAGES = ["intent", "entities", "weights", "keyword", "search", "fusion", "conflicts", "structured", "context"];
const RETRIES = "/?q=what+is+the+retry+limit+of+the+payments+gateway%3F";
const WAIT_MS = 30_000;

const [url, scenario, folder] = process.argv.slice(2);
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const check = (name, ok, detail = "") => say({ check: name, ok: Boolean(ok), detail: String(detail) });
const figure = (name, value) => say({ figure: name, value });
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const need = async (what) => { say({ need: what }); await answers.next(); };

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });

/** Open the page; `errors` fills with whatever the browser complains of. */
async function open(path, { scheme = "light", width = 1280, prepare = null, motion = "reduce" } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height: width < 500 ? 780 : 860 }, reducedMotion: motion });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT_MS);
  const errors = [];
  page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => { if (new URL(request.url()).origin !== url) errors.push(`asked elsewhere: ${request.url()}`); });
  await page.addInitScript(watchStages);
  if (prepare) await prepare(page);
  await page.goto(url + path);
  return { page, errors };
}

function watchStages() {
  window.litStages = [];
  new MutationObserver((changes) => {
    for (const { target } of changes) if (target.dataset?.state === "done") window.litStages.push(target.dataset.stage);
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-state"] });
}

const answered = (page) => page.locator("#status", { hasText: " ms" }).waitFor();
const settled = async (page) => { await page.locator('#pulse[data-state="live"]').waitFor(); await page.waitForLoadState("networkidle", { timeout: 3_000 }).catch(() => {}); };
const picture = (page, name) => page.screenshot({ path: `${folder}/${name}.png`, fullPage: true });
const wide = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
const clean = (errors) => check("the console has no error", !errors.length, errors.join(" | "));

async function faults(page, what) {
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.slice(0, 3).map((node) => node.target.join(" ")).join(", ")}`));
  const grave = found.filter((fault) => /^(serious|critical)/.test(fault));
  check(`no serious fault of accessibility: ${what}`, !grave.length, grave.join(" | "));
  if (found.length > grave.length) figure(`lesser faults: ${what}`, found.filter((fault) => !grave.includes(fault)));
}

const unit = (id, text, revision = 1) => ({
  specversion: "1.0", id: `${id}-${revision}`, source: "urn:page-test", tenant: "demo", type: "unit.asserted",
  data: { id, text, type: "context", revision, scope: { level: "team", entity_id: "team-payments" } },
});

async function publish(...events) {
  const response = await fetch(`${url}/v1/events`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(events) });
  if (response.status !== 202) throw new Error(await response.text());
}

const scenarios = {
  async "asks, and each stage lights up in order"() {
    const { page, errors } = await open("/");
    await page.locator(".lede").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("what is the retry limit of the payments gateway?");
    await page.keyboard.press("Enter");
    await answered(page);
    const lit = await page.evaluate(() => window.litStages);
    check("the stages lit up in order", JSON.stringify(lit) === JSON.stringify(STAGES), lit);
    const times = await page.locator("#stages .took").allTextContents();
    check("each stage says its time", times.every((time) => time.endsWith(" ms")), times);
    check("the address holds the question", new URL(page.url()).searchParams.get("q")?.startsWith("what is the retry"), page.url());
    check("the answer is announced", /result.*dispute.*ms/.test(await page.locator("#status").textContent()));
    check("results are shown", (await page.locator(".results li").count()) > 1);
    check("the graph is drawn", (await page.locator("#graph .node").count()) > 2);
    check("the graph has a text that says the same", (await page.locator("#graph details li").count()) > 2);
    await picture(page, "answer");
    await page.goBack();
    await page.locator(".lede").waitFor();
    check("going back shows the first page", !new URL(page.url()).searchParams.get("q"));
    clean(errors);
  },

  async "opens a citation by keyboard"() {
    const { page, errors } = await open(RETRIES);
    await answered(page);
    await page.locator(".cite").first().focus();
    await page.keyboard.press("Enter");
    const panel = page.locator("#panel");
    await panel.locator(".facts").waitFor();
    const words = await panel.textContent();
    for (const name of ["Scope", "Occurred", "Recorded", "Source", "Why it is number 1", "Contradicted by"]) check(`the panel says: ${name}`, words.includes(name));
    await panel.locator(".near .node").first().waitFor();
    check("its neighbours are drawn", (await panel.locator(".near .node").count()) > 1);
    check("the address holds the unit", new URL(page.url()).searchParams.get("unit"));
    await faults(page, "the panel");
    await page.screenshot({ path: `${folder}/unit.png` });
    await page.keyboard.press("Escape");
    check("Escape closes it", !(await panel.evaluate((dialog) => dialog.open)));
    check("the focus is back at the citation", await page.evaluate(() => document.activeElement.className === "cite"));
    check("the address has forgotten the unit", !new URL(page.url()).searchParams.get("unit"));
    clean(errors);
  },

  async "shows a unit's history"() {
    await publish(unit("page-history", "The harbour lamp burns red.", 1));
    await publish(unit("page-history", "The harbour lamp burns green.", 2));
    const { page, errors } = await open("/");
    await page.locator("#feed li", { hasText: "burns green" }).first().locator("button").click();
    await page.locator("#panel .timeline", { hasText: "burns red" }).waitFor();
    check("the earlier words are there", true);
    clean(errors);
  },

  async "shows a conflict side by side"() {
    const { page, errors } = await open(RETRIES);
    await answered(page);
    const dispute = page.locator(".dispute").first();
    const sides = await dispute.locator(".part .text").allTextContents();
    check("both sides are shown", sides.length === 2 && sides[0] !== sides[1], sides);
    const boxes = await Promise.all([0, 1].map((n) => dispute.locator(".part").nth(n).boundingBox()));
    check("they stand side by side", boxes[0].y === boxes[1].y && boxes[0].x < boxes[1].x);
    check("the newer one is named", (await dispute.locator(".part.newer").count()) === 1);
    clean(errors);
  },

  async "follows the live feed"() {
    const { page, errors } = await open("/");
    await settled(page);
    const began = Date.now();
    await publish(unit("page-live", "The retry limit of the Payments Gateway is 11."));
    await page.locator('#feed li.stored[data-unit="page-live"]').waitFor();
    figure("published to shown, ms", Date.now() - began);
    await page.locator("#feed li.contradicted", { hasText: "11" }).first().waitFor();
    check("what it contradicts arrives too", true);
    await publish(unit("page-live", "The retry limit of the Payments Gateway is 12.", 2));
    await page.locator('#feed li.changed[data-unit="page-live"]').waitFor();
    check("a change arrives", true);
    await fetch(`${url}/v1/units/page-live`, { method: "DELETE" });
    await page.locator('#feed li.retracted[data-unit="page-live"]').waitFor();
    check("a withdrawal arrives", true);
    await picture(page, "feed");
    clean(errors);
  },

  async "goes on where it was when the service comes back"() {
    const { page } = await open("/");
    await settled(page);
    await need("end the query process");
    await page.locator('#pulse[data-state="offline"]').waitFor();
    await need("publish over Kafka");
    await page.locator('#pulse[data-state="live"]').waitFor();
    await page.locator('#feed li[data-unit="page-kafka"]').waitFor();
    check("what came meanwhile was resumed", true);
    check("nothing was missed", (await page.locator("#feed .missed").count()) === 0);
  },

  async "survives a restart of everything"() {
    const { page } = await open(RETRIES);
    await answered(page);
    await settled(page);
    await need("stop");
    await page.locator('#pulse[data-state="offline"]').waitFor();
    await page.locator("#q").fill("why did we choose PostgreSQL for the ledger?");
    await page.keyboard.press("Enter");
    await page.locator(".failure", { hasText: "does not answer" }).waitFor();
    await picture(page, "offline");
    await need("start");
    await answered(page);
    check("the question was asked again by itself", (await page.locator(".results").textContent()).includes("PostgreSQL"));
    await page.locator('#pulse[data-state="live"]').waitFor();
    await page.locator("#feed .missed").first().waitFor();
    check("the feed says that something may be missing", true);
    await publish(unit("page-after", "The night ferry has a new whistle."));
    await page.locator('#feed li[data-unit="page-after"]').waitFor();
    check("the feed goes on", true);
  },

  async "asks as somebody else"() {
    const { page, errors } = await open("/?q=what+is+the+budget+of+the+salary+round%3F");
    await answered(page);
    check("everybody's answer has it", (await page.locator('[data-unit="hr-001"]').count()) > 0);
    await page.locator("#principal").selectOption("person-ben");
    await page.waitForURL(/principal=person-ben/);
    await answered(page);
    await page.locator(".results").waitFor();
    check("Ben's answer has not", (await page.locator('.content [data-unit="hr-001"]').count()) === 0);
    clean(errors);
  },

  async "fits a narrow window"() {
    for (const path of ["/", RETRIES, "/?q=table+of+decisions+by+the+booking+team", "/?q=graph+of+payments", "/?q=timeline+of+project+harbour"]) {
      const { page, errors } = await open(path, { width: 360, scheme: "dark" });
      await settled(page);
      if (path !== "/") await answered(page);
      check(`no horizontal scroll at 360 px: ${path}`, (await wide(page)) <= 0, await wide(page));
      await picture(page, `narrow-${path.length}`);
      clean(errors);
      await page.context().close();
    }
  },

  async "can be read by everybody"() {
    for (const scheme of ["light", "dark"]) {
      for (const [name, path] of [["first page", "/"], ["answer", RETRIES], ["table", "/?q=table+of+decisions+by+the+booking+team"], ["graph", "/?q=graph+of+payments"], ["nothing certain", "/?q=what+is+the+airspeed+velocity+of+a+swallow%3F"]]) {
        const { page } = await open(path, { scheme });
        await settled(page);
        if (path !== "/") await answered(page);
        else await page.locator(".lede").waitFor();
        await faults(page, `${name}, ${scheme}`);
        await picture(page, `${name.replace(" ", "-")}-${scheme}`);
        await page.context().close();
      }
    }
  },

  async "says how it is"() {
    await state("empty", "/", ".nothing", (page) => page.route("**/v1/status*", async (route) => {
      const status = await (await route.fetch()).json();
      await route.fulfill({ json: { ...status, counts: { units: 0, by_scope: {} } } });
    }));
    await state("failure", RETRIES, ".failure", (page) => page.route("**/v1/context/stream*", (route) => route.fulfill({
      status: 503, contentType: "application/problem+json",
      json: { type: "/problems/overloaded", title: "Too much at once", status: 503, detail: "Ask again in a second.", instance: "urn:cortex:request:1" },
    })));
    await state("sign-in", "/", "#signin[open]", (page) => page.route("**/v1/**", (route) => route.fulfill({
      status: 401, contentType: "application/problem+json", json: { type: "/problems/unauthenticated", title: "A valid bearer token is needed", status: 401, detail: "" },
    })));
    await state("loading", RETRIES, ".skeleton", (page) => page.route("**/v1/context/stream*", () => {}));
    await state("a part is lost", RETRIES, ".notice.lost", (page) => page.route("**/v1/context/stream*", async (route) => {
      const body = await (await route.fetch()).text();
      await route.fulfill({ status: 200, contentType: "text/event-stream", body: body.replace(/("complete":)true(,"degraded":)false(,"lost":)\[\]/, '$1false$2true$3[{"stage":"search","arm":"vector","scope":"team/team-payments","reason":"timeout","detail":"no answer within 49 ms"}]') });
    }));
  },

  async "says that news is away while the board is"() {
    const { page, errors } = await open("/");
    await settled(page);
    await need("hold the board");
    await page.locator('#pulse[data-state="degraded"]').waitFor();
    check("the reason is given", (await page.locator("#feed-state").textContent()).includes("does not answer"));
    await faults(page, "degraded feed");
    await picture(page, "state-degraded-feed");
    await publish(unit("page-unheard", "The ferry bell was polished."));
    await page.goto(url + RETRIES);
    await answered(page);
    check("questions are answered all the same", (await page.locator(".results li").count()) > 0);
    await need("release the board");
    await page.locator('#pulse[data-state="live"]').waitFor();
    await publish(unit("page-heard", "The ferry bell rings again."));
    await page.locator('#feed li[data-unit="page-heard"]').waitFor();
    check("the feed goes on", true);
    clean(errors);
  },

  async "paints early"() {
    const { page } = await open("/");
    await page.locator(".lede").waitFor();
    figure("first contentful paint, ms", await page.evaluate(() => Math.round(performance.getEntriesByName("first-contentful-paint")[0].startTime)));
    figure("bytes sent", await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => one.name.includes("/page/")).reduce((sum, one) => sum + one.encodedBodySize, 0)));
    check("it was painted", true);
  },
};

async function state(name, path, selector, prepare) {
  const { page } = await open(path, { prepare });
  await page.locator(selector).first().waitFor();
  check(`the state is shown: ${name}`, true);
  await faults(page, name);
  await picture(page, `state-${name.replaceAll(" ", "-")}`);
  await page.context().close();
}

try {
  if (!(scenario in scenarios)) throw new Error(`there is no scenario ${scenario}: ${Object.keys(scenarios).join("; ")}`);
  await scenarios[scenario]();
} catch (error) {
  check("the scenario ran to its end", false, error.stack);
} finally {
  await browser.close();
  process.exit(0);
}
