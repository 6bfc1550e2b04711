// SPDX-License-Identifier: Apache-2.0
// Latency and load, from the service's metrics. They are of all tenants, so only administrators see them.
import { get, poll } from "./api.js";
import { empty, h, head, replace } from "./dom.js";
import { faultLine } from "./boxes.js";
import { columns, plot, seconds } from "./chart.js";

const STEP = 2000, KEEP = 150;
const samples = []; // stays while the page is open, so that leaving it loses nothing

// Prometheus' text: name{labels} value
export function parseMetrics(text) {
  const out = new Map();
  for (const line of text.split("\n")) {
    const m = /^(\w+)(\{[^}]*\})? ([-+0-9.eEInfNa]+)$/.exec(line);
    if (m) out.set(m[1] + (m[2] || ""), Number(m[3] === "+Inf" ? Infinity : m[3]));
  }
  return out;
}

const sum = (m, name) => [...m].filter(([k]) => k === name || k.startsWith(name + "{")).reduce((n, [, v]) => n + v, 0);

function buckets(m, name) {
  const rows = [...m].filter(([k]) => k.startsWith(name + "_bucket{")).map(([k, v]) => [Number(/le="([^"]+)"/.exec(k)[1].replace("+Inf", "Infinity")), v]);
  return rows.sort((a, b) => a[0] - b[0]);
}

// Where the part q of what came between two samples lies; null: nothing came.
export function quantile(before, after, q) {
  const rows = after.map(([le, n], i) => [le, n - (before[i] ? before[i][1] : 0)]);
  const all = rows.length ? rows[rows.length - 1][1] : 0;
  if (all <= 0) return null;
  let low = 0, below = 0;
  for (const [le, n] of rows) {
    if (n >= q * all) return le === Infinity ? low : low + ((q * all - below) / Math.max(n - below, 1e-9)) * (le - low);
    low = le;
    below = n;
  }
  return low;
}

function series(fn) {
  return samples.map((s, i) => (i === 0 ? null : fn(samples[i - 1], s)));
}

const rate = (name) => (a, b) => Math.max(0, (sum(b.m, name) - sum(a.m, name)) / ((b.t - a.t) / 1000));
const part = (name, q) => (a, b) => quantile(buckets(a.m, name), buckets(b.m, name), q);

export function loadPage(main, signal) {
  const fault = faultLine(), place = h("div", { class: "plots" });
  const number = (v) => (Number.isInteger(v) ? String(v) : v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2));
  const requests = plot("Requests a second", ["answered", "refused"], number);
  const latency = plot("Time to an answer", ["median", "99 %"], seconds);
  const runs = plot("Runs", ["accepted a second", "running", "queued"], number);
  const wait = plot("Wait in the queue", ["median", "99 %"], seconds);
  const spread = columns("Answers by time, since the start", "");
  place.append(requests.el, latency.el, runs.el, wait.el, spread.el);
  main.append(head("Load", "Latency and load of the service, all tenants together."), fault.el, place);
  const draw = () => {
    const span = samples.length > 1 ? (samples[samples.length - 1].t - samples[0].t) / 1000 : 0;
    const now = samples[samples.length - 1];
    requests.update([series(rate("bawn_requests_total")), series((a, b) => ["4xx", "5xx"].reduce((n, c) => n + rate(`bawn_requests_total{code="${c}"}`)(a, b), 0))], span);
    latency.update([series(part("bawn_request_seconds", 0.5)), series(part("bawn_request_seconds", 0.99))], span);
    runs.update([series(rate("bawn_runs_accepted_total")), samples.map((s) => sum(s.m, "bawn_runs_running")), samples.map((s) => sum(s.m, "bawn_runs_queued"))], span);
    wait.update([series(part("bawn_queue_seconds", 0.5)), series(part("bawn_queue_seconds", 0.99))], span);
    const rows = buckets(now.m, "bawn_request_seconds");
    spread.update(rows.map(([le, n], i) => [le === Infinity ? "more" : seconds(le), n - (i ? rows[i - 1][1] : 0)]), `${sum(now.m, "bawn_request_seconds_count")} answers, ${seconds(sum(now.m, "bawn_request_seconds_sum") / Math.max(sum(now.m, "bawn_request_seconds_count"), 1))} on average`);
  };
  poll(STEP, signal, async () => {
    let text;
    try {
      text = await get("/v1/metrics", signal);
    } catch (e) {
      if (e.status !== 403) throw e;
      replace(place, h("div", { class: "card" }, empty("Only for administrators", "The metrics are of all tenants. What you use yourself is on the page of sandboxes.")));
      return;
    }
    if (signal.aborted) return;
    samples.push({ t: Date.now(), m: parseMetrics(text) });
    if (samples.length > KEEP) samples.shift();
    draw();
  }, fault.show);
}
