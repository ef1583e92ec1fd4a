// The public API: JSON, server-sent events over fetch (EventSource cannot send a token), and failures as problems.

const KEY = "cortex-token";
let onUnauthenticated = () => {};

/** What to do when a token is needed. */
export const whenUnauthenticated = (act) => { onUnauthenticated = act; };
export const setToken = (token) => sessionStorage.setItem(KEY, token);

/** A failure with words for people. `offline`: nothing answered. */
export class Failure extends Error {
  constructor(title, detail, { status = 0, instance = "", errors = [] } = {}) {
    super(title);
    this.detail = detail;
    this.status = status;
    this.instance = instance;
    this.errors = errors;
  }

  get offline() { return this.status === 0; }
}

export const fromProblem = (problem) => new Failure(problem.title, problem.detail, problem);

async function request(path, parameters, headers, signal) {
  const token = sessionStorage.getItem(KEY);
  const address = new URL(path, location.origin);
  for (const [name, value] of Object.entries(parameters ?? {})) {
    if (value !== "" && value !== null && value !== undefined && value !== false) address.searchParams.set(name, value);
  }
  const all = token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
  let response;
  try {
    response = await fetch(address, { headers: all, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("Cortex does not answer", "The service cannot be reached. This page tries again by itself.");
  }
  if (response.ok) return response;
  if (response.status === 401) onUnauthenticated(Boolean(token));
  throw await failureOf(response);
}

async function failureOf(response) {
  try {
    return fromProblem(await response.json());
  } catch {
    return new Failure("Something went wrong", `The service answered with status ${response.status}.`, { status: response.status });
  }
}

/** GET JSON. */
export async function get(path, parameters, signal) {
  const response = await request(path, parameters, { Accept: "application/json" }, signal);
  return response.json();
}

/** Read server-sent events: yields {event, data, id, retry}. Ends with the stream; a broken one raises a Failure. */
export async function* events(path, parameters, { signal, lastId } = {}) {
  const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
  const response = await request(path, parameters, headers, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) {
        const message = parse(block);
        if (message) yield message;
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Failure) throw error;
    throw new Failure("The connection was lost", "The stream ended in the middle. This page tries again by itself.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  const message = { event: "message", data: [], id: null, retry: null };
  for (const line of block.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (field === "data") message.data.push(value);
    else if (field === "event") message.event = value;
    else if (field === "id") message.id = value;
    else if (field === "retry") message.retry = Number(value);
  }
  return message.data.length ? { ...message, data: JSON.parse(message.data.join("\n")) } : null;
}

/** Wait; an aborted signal ends the wait with its AbortError. */
export const pause = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});
