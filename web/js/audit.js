// SPDX-License-Identifier: Apache-2.0
// The audit log: by kind and time at the service, by words here.
import { get } from "./api.js";
import { badge, button, empty, h, head, keyed, replace, setText } from "./dom.js";
import { faultLine } from "./boxes.js";
import { clock } from "./chart.js";
import { inert, inertText } from "./inert.js";

const KINDS = ["start", "exec", "exit", "stop", "limit", "network", "ask", "request", "secret", "review", "apply", "discard", "rollback", "policy", "tool", "file", "landed", "repair"];
const COLOURS = { limit: "warn", network: "info", ask: "info", request: "warn", secret: "warn", apply: "ok", policy: "ok", landed: "bad", repair: "bad" };
const SINCE = [["", "All time"], ["3600", "The last hour"], ["86400", "The last day"], ["604800", "The last week"]];
const FRAME = new Set(["seq", "time", "type", "sandbox", "run", "tenant", "user", "uid", "pid", "prev", "hash", "key", "text"]);

const members = (e) => Object.entries(e).filter(([k, v]) => !FRAME.has(k) && v !== "" && v !== null);
const valueText = (v) => (typeof v === "string" ? v : JSON.stringify(v));

function eventRow(e) {
  const el = h("tr", null,
    h("td", { "data-name": "Time", class: "nowrap" }, clock(e.time)),
    h("td", { "data-name": "Event" }, h("div", null, badge(inertText(e.type, 20), COLOURS[e.type] || ""))),
    h("td", { "data-name": "What" }, h("div", { class: "audit-what" }, members(e).slice(0, 12).map(([k, v]) => h("div", { class: "small" }, h("span", { class: "muted" }, inertText(k, 40) + " "), h("span", { class: "mono" }, inert(valueText(v), 600)))))),
    h("td", { "data-name": "Sandbox" }, h("span", { class: "mono small" }, inert(e.sandbox || "–", 60))),
    h("td", { "data-name": "User" }, inert(e.user || String(e.uid ?? ""), 40)));
  return { el, update() {} };
}

export function auditPage(main, signal) {
  const fault = faultLine(), body = h("tbody"), none = h("div"), found = h("span", { class: "muted small", role: "status" });
  const table = h("table", { class: "table fold", hidden: true }, h("thead", null, h("tr", null, ["Time", "Event", "What", "Sandbox", "User"].map((n) => h("th", { scope: "col" }, n)))), body);
  const words = h("input", { class: "input", id: "audit-words", type: "search", "data-search": true, autocomplete: "off", placeholder: "a host, a command, a path …" });
  const kind = h("select", { class: "input", id: "audit-kind" }, h("option", { value: "" }, "Every kind"), KINDS.map((k) => h("option", { value: k }, k)));
  const since = h("select", { class: "input", id: "audit-since" }, SINCE.map(([v, t]) => h("option", { value: v }, t)));
  const more = button("Load more", { hidden: true }, () => {
    limit += 500;
    load();
  });
  let limit = 200, events = [];
  const draw = () => {
    const all = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = events.filter((e) => all.every((w) => e.text.includes(w)));
    table.hidden = items.length === 0;
    replace(none, items.length ? null : events.length ? empty("Nothing found", "No event has all of these words.") : empty("The log is empty", "What sandboxes do, and what you decide about them, is written here before it happens."));
    setText(found, `${items.length} of ${events.length} events`);
    keyed(body, items.slice(0, 1000), (e) => e.key, eventRow);
  };
  let turn = 0;
  async function load() {
    const mine = ++turn;
    const q = new URLSearchParams({ limit });
    if (kind.value) q.set("event", kind.value);
    if (since.value) q.set("since", new Date(Date.now() - Number(since.value) * 1000).toISOString().slice(0, 19) + "Z");
    try {
      const answer = await get("/v1/audit?" + q, signal);
      if (signal.aborted || mine !== turn) return;
      events = answer.items.map((e, i) => ({ ...e, key: e.hash || `${e.seq}-${i}`, text: JSON.stringify(e).toLowerCase() }));
      more.hidden = events.length < limit;
      fault.show(null);
      draw();
    } catch (e) {
      if (e.name !== "AbortError") fault.show(e);
    }
  }
  words.addEventListener("input", draw);
  kind.addEventListener("change", load);
  since.addEventListener("change", load);
  const field = (label, control, wide) => h("div", { class: "field" + (wide ? " wide" : "") }, h("label", { for: control.id }, label), control);
  main.append(head("Audit", "Every line is chained to the one before it: bawn log verify checks that none was changed.", [button("Look again", {}, load)]), fault.el,
    h("div", { class: "stack" }, h("div", { class: "card pad form-row", role: "search" }, field("Words", words, true), field("Kind", kind), field("Since", since)), found, h("div", { class: "card" }, none, table), more));
  load();
}
