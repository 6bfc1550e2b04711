// SPDX-License-Identifier: Apache-2.0
// Sandboxes: what they use of their limits, live; and one of them, with its terminal.
import { del, get, isId, poll, post } from "./api.js";
import { badge, button, empty, h, head, keyed, replace, setText, sureButton, toast } from "./dom.js";
import { ago, meter, size, spark } from "./chart.js";
import { inert, inertText } from "./inert.js";
import { openTerminal } from "./term.js";

const KEEP = 90; // samples of a sparkline
const STATES = { running: "ok", starting: "info", stopping: "info", stopped: "", created: "", failed: "bad", crashed: "bad" };
const history = new Map(); // id -> {cpu, memory}: lives as long as the page

export function faultLine() {
  const text = h("span", { class: "grow" });
  const el = h("div", { class: "fault", role: "alert", hidden: true }, text);
  return {
    el,
    show(problem) {
      el.hidden = !problem;
      if (problem) setText(text, problem.message);
    },
  };
}

export async function act(b, what, done) {
  b.disabled = true;
  try {
    await what();
    if (done) toast(done);
  } catch (e) {
    toast(e.message, true);
  } finally {
    b.disabled = false;
  }
}

function remember(id, use) {
  const own = history.get(id) || { cpu: [], memory: [] };
  own.cpu.push(use && use.cpu_percent !== null ? use.cpu_percent : 0);
  own.memory.push((use && use.memory) || 0);
  for (const list of [own.cpu, own.memory]) if (list.length > KEEP) list.shift();
  history.set(id, own);
  return own;
}

async function sample(signal) {
  const [boxes, usage] = await Promise.all([get("/v1/sandboxes?limit=200", signal), get("/v1/usage", signal)]);
  const byName = new Map(usage.items.map((u) => [u.name, u]));
  return boxes.items.map((b) => ({ ...b, use: byName.get(b.id) || null, past: remember(b.id, byName.get(b.id)) }));
}

function meters() {
  const cpu = meter("CPU"), memory = meter("Memory"), pids = meter("Processes");
  const cpuLine = spark("CPU over the last minutes"), memoryLine = spark("Memory over the last minutes");
  return {
    el: h("div", { class: "meters" }, h("div", null, cpu.el, cpuLine.el), h("div", null, memory.el, memoryLine.el), h("div", { class: "whole" }, pids.el)),
    update(b) {
      const u = b.use;
      cpu.update(u && u.cpu_percent !== null ? u.cpu_percent.toFixed(0) + " %" : "–", u && u.cpu_percent !== null ? u.cpu_percent / 100 : null);
      memory.update(u && u.memory !== null ? size(u.memory) + (u.memory_max ? " of " + size(u.memory_max) : "") : "–", u && u.memory_max ? u.memory / u.memory_max : null);
      pids.update(u && u.pids !== null ? u.pids + (u.pids_max ? " of " + u.pids_max : "") : "–", u && u.pids_max ? u.pids / u.pids_max : null);
      cpuLine.update(b.past.cpu, 100);
      memoryLine.update(b.past.memory, u && u.memory_max ? u.memory_max / 4 : 0);
    },
  };
}

const nameOf = (b) => (b.labels && (b.labels.name || b.labels.title)) || b.id;

function labelsOf(b) {
  return Object.entries(b.labels || {}).filter(([k]) => k !== "name" && k !== "title").map(([k, v]) => h("span", { class: "badge" }, inert(`${k}=${v}`, 100)));
}

function card(b) {
  const state = badge("", ""), since = h("span", { class: "muted small" }), m = meters();
  const terminal = h("a", { class: "button small", href: "#/sandboxes/" + b.id }, "Open");
  const review = h("a", { class: "button small", href: "#/review/sandboxes/" + b.id }, "Review");
  const stop = sureButton("Stop", "Really stop?", { kind: "small" }, (x) => act(x, () => post(`/v1/sandboxes/${b.id}/stop`), "Stopped."));
  const start = button("Start", { kind: "small" }, (e) => act(e.currentTarget, () => post(`/v1/sandboxes/${b.id}/start`), "Started."));
  const remove = sureButton("Delete", "Delete all of it?", { kind: "small danger" }, (x) => act(x, () => del("/v1/sandboxes/" + b.id), "Deleted."));
  const reason = h("p", { class: "small muted", hidden: true });
  const el = h("li", { class: "card box", "data-id": b.id },
    h("div", { class: "top" },
      h("div", null, h("h2", null, h("a", { href: "#/sandboxes/" + b.id }, inert(nameOf(b), 80))), h("div", { class: "id mono" }, b.id)), state),
    h("div", { class: "labels" }, labelsOf(b)), m.el, reason,
    h("div", { class: "group" }, terminal, review, stop, start, remove), since);
  return {
    el,
    update(now) {
      setText(state, now.state);
      state.className = "badge " + (STATES[now.state] || "");
      setText(since, "made " + ago(now.created));
      stop.hidden = now.state !== "running";
      start.hidden = now.state === "running";
      reason.hidden = !now.reason;
      if (now.reason && reason.dataset.text !== now.reason) {
        reason.dataset.text = now.reason;
        replace(reason, inert(now.reason, 500));
      }
      m.update(now);
    },
  };
}

function tile(name) {
  const value = h("span", { class: "value" }, "–"), of = h("span", { class: "of" });
  return { el: h("div", { class: "card tile" }, h("span", { class: "name" }, name), h("span", null, value, " ", of)), set(v, o) { setText(value, v); setText(of, o || ""); } };
}

export function boxesPage(main, signal) {
  const fault = faultLine(), list = h("ul", { class: "boxes", "aria-label": "Sandboxes" }), none = h("div", { class: "card", hidden: true });
  const tiles = [tile("Running now"), tile("Waiting in the queue"), tile("Runs in this hour"), tile("CPU in this hour"), tile("Memory limits")];
  const make = () => button("New sandbox", { kind: "main-action" }, (e) => act(e.currentTarget, () => post("/v1/sandboxes", {}), "The sandbox runs."));
  none.append(empty("No sandboxes yet", "A sandbox stays until it is stopped: commands, agents and terminals work in it, behind the same walls.", make()));
  main.append(head("Sandboxes", "What runs, and what it uses of its limits.", [make()]), fault.el, h("div", { class: "tiles" }, tiles.map((t) => t.el)), none, list);
  poll(2000, signal, async () => {
    const [items, me] = await Promise.all([sample(signal), get("/v1/me", signal)]);
    if (signal.aborted) return;
    none.hidden = items.length > 0;
    keyed(list, items.filter((b) => isId(b.id)), (b) => b.id, card);
    const of = (v) => (v === undefined ? "" : "of " + v);
    tiles[0].set(me.usage.running, of(me.quotas.running));
    tiles[1].set(me.usage.queued, of(me.quotas.queued));
    tiles[2].set(me.usage.runs_per_hour, of(me.quotas.runs_per_hour));
    tiles[3].set(me.usage.cpu_seconds_per_hour + " s", me.quotas.cpu_seconds_per_hour === undefined ? "" : "of " + me.quotas.cpu_seconds_per_hour + " s");
    tiles[4].set(size(me.usage.memory), me.quotas.memory === undefined ? "" : "of " + size(me.quotas.memory));
  }, fault.show);
}

export function boxPage(main, signal, id) {
  if (!isId(id)) {
    main.append(head("Sandbox", null, null, ["#/sandboxes", "Sandboxes"]), h("div", { class: "card" }, empty("There is no such sandbox", "Its name in the address is not one.")));
    return;
  }
  const fault = faultLine(), m = meters(), state = badge(""), title = h("div");
  const host = h("div", { class: "term", hidden: true });
  const note = h("p", { class: "term-help" }, "What programs write cannot reach your clipboard or open anything. Leave the terminal with ", h("kbd", null, "Ctrl"), " ", h("kbd", null, "Shift"), " ", h("kbd", null, "Tab"), ".");
  const open = button("Open a terminal", { kind: "main-action" }, () => {
    host.hidden = false;
    open.disabled = true;
    openTerminal(host, id, signal, (text) => {
      open.disabled = false;
      if (text) toast(text, true);
    });
  });
  main.append(head("Sandbox", id, [h("a", { class: "button", href: "#/review/sandboxes/" + id }, "Review changes"), open], ["#/sandboxes", "Sandboxes"]), fault.el,
    h("div", { class: "stack" },
      h("div", { class: "card pad stack" }, h("div", { class: "group" }, state, title), m.el),
      h("section", { class: "card", "aria-label": "Terminal" }, h("div", { class: "card-head" }, h("h2", null, "Terminal")), note, host)));
  poll(2000, signal, async () => {
    const [b, usage] = await Promise.all([get("/v1/sandboxes/" + id, signal), get("/v1/usage", signal)]);
    if (signal.aborted) return;
    b.use = usage.items.find((u) => u.name === id) || null;
    b.past = remember(id, b.use);
    setText(state, b.state);
    state.className = "badge " + (STATES[b.state] || "");
    if (!title.firstChild) title.append(inert(inertText(nameOf(b))), " · made " + ago(b.created));
    m.update(b);
  }, fault.show);
}
