// SPDX-License-Identifier: Apache-2.0
// The network: questions that wait for an answer, what was allowed and denied, and the rules.
import { del, get, poll, post } from "./api.js";
import { badge, button, empty, h, head, keyed, replace, setText, sureButton, tabs } from "./dom.js";
import { act, faultLine } from "./boxes.js";
import { ago, clock } from "./chart.js";
import { inert, inertText } from "./inert.js";

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
const ANSWERS = [["once", "Allow once", ""], ["session", "Allow for this sandbox", ""], ["always", "Always allow", ""], ["deny", "Deny", "danger"]];

function questionCard(q, refresh) {
  const left = h("span", { class: "muted small" });
  const answer = (how) => (e) => act(e.currentTarget, async () => {
    await post("/v1/questions/" + q.id, { answer: how });
    await refresh();
  }, how === "deny" ? "Denied." : "Allowed.");
  const where = q.host ? q.host + (q.port ? ":" + q.port : "") : q.value || "";
  const el = h("li", { class: "card question", "data-id": q.id },
    h("div", { class: "what" },
      h("div", { class: "host" }, inert(where, 300)),
      h("div", { class: "small muted" }, q.kind === "connection" || !q.kind ? "A connection from " : inertText(q.kind) + " asked for by ", inert(q.sandbox || "a run", 80), " · ", left),
      q.reason ? h("p", { class: "quote" }, inert(q.reason, 1000)) : null),
    h("div", { class: "group" }, ANSWERS.map(([how, text, kind]) => button(text, { kind, "aria-label": `${text}: ${inertText(where, 80)}` }, answer(how)))));
  return { el, update: (now) => setText(left, now.seconds === undefined ? "" : `${now.seconds} s left`) };
}

function verdictRow(v) {
  const el = h("tr", null,
    h("td", { "data-name": "When" }, h("span", { class: "nowrap", title: clock(v.time) }, ago(v.time))),
    h("td", { "data-name": "Verdict" }, h("div", null, badge(v.action === "allow" ? "allowed" : v.action === "deny" ? "denied" : inertText(v.action || v.kind || "", 20), v.action === "allow" ? "ok" : v.action === "deny" ? "bad" : "info"))),
    h("td", { "data-name": "Host" }, h("span", { class: "mono" }, inert((v.host || "") + (v.port ? ":" + v.port : ""), 300))),
    h("td", { "data-name": "Request" }, h("span", { class: "mono" }, inert([v.method, v.path].filter(Boolean).join(" ") || (v.kind ?? ""), 300))),
    h("td", { "data-name": "Why" }, inert(v.action === "deny" ? v.code : v.rule ? `rule ${v.rule}` : "", 100), v.count > 1 ? h("span", { class: "muted" }, ` ${Number(v.count)} times`) : null),
    h("td", { "data-name": "Sandbox" }, h("span", { class: "mono small" }, inert(v.sandbox, 60))));
  return { el, update() {} };
}

function rulesView(policy, refresh) {
  const out = [];
  for (const layer of policy.layers || [])
    for (const r of layer.rules || []) {
      const own = layer.layer === "user" && NAME.test(r.id || "");
      out.push(h("li", { class: "rule" }, badge(r.action === "allow" ? "allow" : inertText(r.action, 12), r.action === "allow" ? "ok" : r.action === "deny" ? "bad" : "info"),
        h("span", { class: "grow mono" }, inert(r.host, 300), r.method ? inert(" " + r.method, 60) : null, r.path ? inert(" " + r.path, 200) : null),
        h("span", { class: "muted small" }, inertText(layer.layer, 40)),
        own ? sureButton("Remove", "Really remove?", { kind: "small danger" }, (b) => act(b, async () => {
          await del("/v1/policy/rules/" + r.id);
          await refresh();
        }, "The rule was removed.")) : null));
    }
  return out;
}

function ruleForm(refresh) {
  const host = h("input", { class: "input mono", id: "rule-host", autocomplete: "off", spellcheck: "false", placeholder: "api.example.com", maxlength: 300 });
  const action = h("select", { class: "input", id: "rule-action" }, h("option", { value: "allow" }, "Allow"), h("option", { value: "deny" }, "Deny"));
  const go = h("button", { type: "submit", class: "button" }, "Add rule");
  const form = h("form", { class: "form-row card-head" }, h("div", { class: "field" }, h("label", { for: "rule-action" }, "Action"), action), h("div", { class: "field wide" }, h("label", { for: "rule-host" }, "Host"), host), go);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    if (host.value.trim()) act(go, async () => {
      await post("/v1/policy/rules", { action: action.value, host: host.value.trim() });
      host.value = "";
      await refresh();
    }, "The rule is in force.");
  });
  return form;
}

export function networkPage(main, signal) {
  const fault = faultLine(), asked = h("ul", { class: "stack" }), calm = h("div", { class: "card" }, empty("Nothing waits for an answer", "If a sandbox wants to reach a host that is in no rule, and asks, the question is here."));
  const body = h("tbody"), none = h("div", { hidden: true }), rules = h("ul", { class: "rules" });
  const table = h("table", { class: "table fold" }, h("thead", null, h("tr", null, ["When", "Verdict", "Host", "Request", "Why", "Sandbox"].map((n) => h("th", { scope: "col" }, n)))), body);
  let only = "", verdicts = [];
  const draw = () => {
    const items = verdicts.filter((v) => v.kind !== "end" && (!only || v.action === only));
    none.hidden = items.length > 0;
    table.hidden = items.length === 0;
    replace(none, empty(only === "deny" ? "Nothing was denied" : "No connections yet", "What sandboxes ask the network for is listed here, with the rule that decided."));
    keyed(body, items, (v) => v.key, verdictRow);
  };
  const questions = async () => {
    const q = await get("/v1/questions", signal);
    if (signal.aborted) return;
    const items = q.items.map((i) => ({ ...i, id: String(i.id) })).filter((i) => NAME.test(i.id));
    calm.hidden = items.length > 0;
    keyed(asked, items, (i) => i.id, (i) => questionCard(i, questions));
  };
  let policyText = "";
  const policy = async () => {
    const p = await get("/v1/policy", signal);
    const text = JSON.stringify(p);
    if (signal.aborted || text === policyText) return;
    policyText = text;
    replace(rules, rulesView(p, policy));
  };
  const log = async () => {
    const v = await get("/v1/verdicts?limit=200", signal);
    if (signal.aborted) return;
    verdicts = v.items.map((i) => ({ ...i, key: [i.time, i.kind, i.host, i.port, i.sandbox, i.path, i.method].join("|") }));
    draw();
  };
  main.append(head("Network", "No route leads out but through the gate. It asks you about what is in no rule."), fault.el,
    h("section", { "aria-label": "Questions" }, h("h2", { class: "visually-hidden" }, "Questions"), calm, asked),
    h("section", { class: "section" }, h("h2", null, "Verdicts"),
      h("div", { class: "card" }, h("div", { class: "card-head" }, tabs("Verdicts", [["", "All"], ["deny", "Denied"], ["allow", "Allowed"]], "", (v) => {
        only = v;
        draw();
      })), none, table)),
    h("section", { class: "section" }, h("h2", null, "Rules"), h("div", { class: "card" }, ruleForm(policy), rules)));
  poll(1500, signal, questions, fault.show);
  poll(3000, signal, async () => {
    await log();
    await policy();
  }, fault.show);
}
