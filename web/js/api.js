// SPDX-License-Identifier: Apache-2.0
// The API, as the dashboard uses it. Who asks is in a cookie that no script can read; the second secret, without which the cookie is worth
// nothing, is in the storage of this origin and goes with every request as a header.

const KEY = "bawn.session";
let session = null;
try {
  session = JSON.parse(localStorage.getItem(KEY));
} catch {
  session = null;
}

export const currentSession = () => session;

export class Problem extends Error {
  constructor(status, body) {
    super((body && (body.detail || body.title)) || "The service does not answer");
    this.status = status;
    this.code = body && body.code;
    this.retry = body && body.retry;
  }
}

let onEnd = () => {};
export function whenSessionEnds(fn) {
  onEnd = fn;
}

function forget() {
  session = null;
  localStorage.removeItem(KEY);
}

export async function login(code) {
  const r = await fetch("/v1/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }) });
  const body = await r.json().catch(() => null);
  if (!r.ok) throw new Problem(r.status, body);
  session = body;
  localStorage.setItem(KEY, JSON.stringify(body));
}

export async function logout() {
  try {
    await ask("DELETE", "/v1/session");
  } finally {
    forget();
    onEnd("You are signed out.");
  }
}

async function send(method, path, { body, signal, accept } = {}) {
  if (!session) throw new Problem(401, { detail: "You are not signed in." });
  const headers = { "Bawn-Csrf": session.csrf };
  if (accept) headers.Accept = accept;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let r;
  try {
    r = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: "no-store" });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem(0, { detail: "The service cannot be reached." });
  }
  if (r.ok) return r;
  const problem = new Problem(r.status, await r.json().catch(() => null));
  if (r.status === 401) {
    forget();
    onEnd("Your session has ended.");
  }
  throw problem;
}

export async function ask(method, path, body, signal) {
  const r = await send(method, path, { body, signal });
  if (r.status === 204) return null;
  return (r.headers.get("Content-Type") || "").includes("json") ? r.json() : r.text();
}

export const get = (path, signal) => ask("GET", path, undefined, signal);
export const post = (path, body) => ask("POST", path, body);
export const del = (path) => ask("DELETE", path);

// Lines of JSON, as they come.
export async function* lines(path, signal) {
  const r = await send("GET", path, { signal, accept: "application/x-ndjson" });
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    rest += value;
    const all = rest.split("\n");
    rest = all.pop();
    for (const line of all) if (line.trim()) yield JSON.parse(line);
  }
}

export function openSocket(path) {
  const url = new URL(path, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  const s = new WebSocket(url, ["bawn.terminal", "bawn.csrf." + session.csrf]);
  s.binaryType = "arraybuffer";
  return s;
}

// Calls again and again while the page is looked at, until the signal says that it is not. fail gets a problem, and null when all is well.
export function poll(ms, signal, fn, fail) {
  let timer = 0;
  const turn = async () => {
    if (signal.aborted) return;
    if (!document.hidden) {
      try {
        await fn();
        if (!signal.aborted) fail(null);
      } catch (e) {
        if (e.name !== "AbortError" && !signal.aborted) fail(e);
      }
    }
    if (!signal.aborted) timer = setTimeout(turn, ms);
  };
  signal.addEventListener("abort", () => clearTimeout(timer));
  turn();
}

const ID = /^[a-z]{3}_[0-9A-Za-z]{16,40}$/;
export const isId = (id) => typeof id === "string" && ID.test(id);
