// SPDX-License-Identifier: Apache-2.0
// Runs: the list, and one of them with its output while it is written.
import { del, get, isId, lines, poll, post } from "./api.js";
import { badge, button, empty, h, head, keyed, replace, setText, sureButton, tabs, toast } from "./dom.js";
import { act, faultLine } from "./boxes.js";
import { ago, clock, seconds, size } from "./chart.js";
import { inert, inertLine, inertText } from "./inert.js";

const STATES = { queued: "info", starting: "info", running: "ok", done: "", failed: "bad", cancelled: "warn" };
const LINES_MAX = 5000;

// A word with spaces or quotes is shown as it would have to be typed.
const shown = (argv) => argv.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : "'" + w.replaceAll("'", "'\\''") + "'")).join(" ");

function stateOf(run) {
  if (run.state === "done") return run.status === 0 ? ["done", "ok"] : ["exit " + run.status, "warn"];
  return [run.state, STATES[run.state] || ""];
}

const duration = (run) => (run.started ? seconds(((run.ended ? Date.parse(run.ended) : Date.now()) - Date.parse(run.started)) / 1000) : "–");

function row(run) {
  const state = badge(""), time = h("span", { class: "nowrap" }), took = h("span");
  const el = h("tr", { "data-id": run.id },
    h("td", { "data-name": "State" }, h("div", null, state)),
    h("td", { "data-name": "Command", class: "cut" }, h("a", { href: "#/runs/" + run.id, class: "mono", title: inertText(shown(run.command)) }, inert(shown(run.command), 300))),
    h("td", { "data-name": "Labels" }, h("div", { class: "labels" }, Object.entries(run.labels || {}).map(([k, v]) => h("span", { class: "badge" }, inert(`${k}=${v}`, 100))))),
    h("td", { "data-name": "Begun" }, time),
    h("td", { "data-name": "Took", class: "num" }, took));
  return {
    el,
    update(now) {
      const [text, kind] = stateOf(now);
      setText(state, text);
      state.className = "badge " + kind;
      setText(time, ago(now.created));
      setText(took, duration(now));
    },
  };
}

function runForm() {
  const command = h("input", { class: "input mono", id: "run-command", name: "command", autocomplete: "off", spellcheck: "false", placeholder: "npm test", maxlength: 4000 });
  const go = h("button", { type: "submit", class: "button main-action" }, "Run");
  const form = h("form", { class: "card pad form-row" }, h("div", { class: "field wide" }, h("label", { for: "run-command" }, "Run a command in a sandbox of its own (sh -c)"), command), go);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    const text = command.value.trim();
    if (!text) return;
    act(go, async () => {
      const run = await post("/v1/runs", { command: ["sh", "-c", text] });
      if (isId(run.id)) location.hash = "#/runs/" + run.id;
    });
  });
  return form;
}

export function runsPage(main, signal) {
  const fault = faultLine(), body = h("tbody"), none = h("div", { hidden: true }), more = button("Show more", { hidden: true }, () => {
    limit += 100;
    refresh();
  });
  const table = h("table", { class: "table fold" }, h("thead", null, h("tr", null, ["State", "Command", "Labels", "Begun"].map((n) => h("th", { scope: "col" }, n)), h("th", { scope: "col", class: "num" }, "Took"))), body);
  let state = "", limit = 50;
  const refresh = async () => {
    const runs = await get(`/v1/runs?limit=${limit}${state ? "&state=" + state : ""}`, signal);
    if (signal.aborted) return;
    const items = runs.items.filter((r) => isId(r.id));
    none.hidden = items.length > 0;
    table.hidden = items.length === 0;
    more.hidden = !runs.next;
    replace(none, state ? empty("No such runs", `No run is ${state}.`) : empty("No runs yet", "A run is one command in a sandbox of its own, with a workspace of its own. Start one above, or with the API."));
    keyed(body, items, (r) => r.id, row);
  };
  const choose = tabs("State", [["", "All"], ["running", "Running"], ["queued", "Queued"], ["done", "Done"], ["failed", "Failed"], ["cancelled", "Cancelled"]], "", (v) => {
    state = v;
    refresh().catch((e) => toast(e.message, true));
  });
  main.append(head("Runs", "One command each, the newest first."), fault.el,
    h("div", { class: "stack" }, runForm(), h("div", { class: "card" }, h("div", { class: "card-head" }, choose), none, table), more));
  poll(2000, signal, refresh, fault.show);
}

// -- one run ------------------------------------------------------------------------------------------------------------------

// Output as lines. What comes in pieces is joined; the newest LINES_MAX lines stay. It follows the end unless the reader has scrolled up.
function logView() {
  const el = h("div", { class: "log", role: "log", "aria-label": "Output", "aria-live": "off", tabindex: "0" });
  const rest = { stdout: "", stderr: "" };
  const open = { stdout: null, stderr: null };
  const put = (line, kind) => {
    el.append(h("div", kind ? { class: kind } : null, line));
    while (el.childElementCount > LINES_MAX) el.firstElementChild.remove();
    return el.lastElementChild;
  };
  const follow = (fn) => {
    const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < 40;
    fn();
    if (atEnd) el.scrollTop = el.scrollHeight;
  };
  return {
    el,
    output(stream, text) {
      follow(() => {
        const all = (rest[stream] + text).split("\n");
        rest[stream] = all.pop();
        for (const line of all) {
          if (open[stream]) {
            replace(open[stream], inertLine(line));
            open[stream] = null;
          } else put(inertLine(line), stream === "stderr" ? "err" : "");
        }
        if (rest[stream].length > 65536) rest[stream] = rest[stream].slice(-65536);
        if (!rest[stream]) return;
        if (open[stream]) replace(open[stream], inertLine(rest[stream]));
        else open[stream] = put(inertLine(rest[stream]), stream === "stderr" ? "err" : "");
      });
    },
    note: (text) => follow(() => put(text, "note")),
  };
}

function bytesText(data) {
  const raw = atob(data);
  return new TextDecoder().decode(Uint8Array.from(raw, (c) => c.charCodeAt(0)));
}

async function follow(id, log, signal) {
  let after = 0;
  for (let tries = 0; !signal.aborted; tries++) {
    try {
      for await (const e of lines(`/v1/runs/${id}/events?after=${after}`, signal)) {
        tries = 0;
        after = Number(e.id) || after;
        if (e.type === "stdout" || e.type === "stderr") log.output(e.type, e.base64 ? bytesText(e.data) : String(e.data));
        else if (e.type === "state") log.note("— " + inertText(typeof e.data === "string" ? e.data : (e.data && e.data.state) || "state"));
        else if (e.type === "exit") log.note("— ended" + (e.data && e.data.status !== undefined && e.data.status !== null ? " with status " + Number(e.data.status) : ""));
        else log.note(`— ${inertText(e.type)}: ${inertText(JSON.stringify(e.data))}`);
      }
      return;
    } catch (e) {
      if (e.name === "AbortError" || signal.aborted) return;
      if (e.status === 404 || e.status === 401 || tries > 20) {
        log.note("— " + e.message);
        return;
      }
      await new Promise((r) => setTimeout(r, Math.min(500 * 2 ** tries, 5000)));
    }
  }
}

export function runPage(main, signal, id) {
  const crumb = ["#/runs", "Runs"];
  if (!isId(id)) {
    main.append(head("Run", null, null, crumb), h("div", { class: "card" }, empty("There is no such run", "Its name in the address is not one.")));
    return;
  }
  const fault = faultLine(), log = logView(), state = badge(""), facts = h("dl", { class: "facts" });
  const cancel = sureButton("Cancel", "Really cancel?", { kind: "danger" }, (b) => act(b, () => post(`/v1/runs/${id}/cancel`), "The run was cancelled."));
  const remove = sureButton("Delete", "Delete all of it?", { kind: "danger" }, (b) => act(b, async () => {
    await del("/v1/runs/" + id);
    location.hash = "#/runs";
  }, "Deleted."));
  cancel.hidden = remove.hidden = true;
  main.append(head("Run", id, [h("a", { class: "button", href: "#/review/runs/" + id }, "Review changes"), cancel, remove], crumb), fault.el,
    h("div", { class: "stack" }, h("div", { class: "card" }, facts), h("section", { class: "card", "aria-label": "Output" }, h("div", { class: "card-head" }, h("h2", null, "Output"), state), log.el)));
  let had = "";
  poll(2000, signal, async () => {
    const run = await get("/v1/runs/" + id, signal);
    if (signal.aborted) return;
    const live = ["queued", "starting", "running"].includes(run.state);
    const [text, kind] = stateOf(run);
    setText(state, text);
    state.className = "badge " + kind;
    cancel.hidden = !live;
    remove.hidden = live;
    const now = JSON.stringify([run, duration(run)]);
    if (now === had) return;
    had = now;
    const fact = (name, value, whole) => h("div", whole ? { class: "whole" } : null, h("dt", null, name), h("dd", null, value));
    replace(facts, fact("Command", h("code", null, inert(shown(run.command), 2000)), true),
      run.reason ? fact("Reason", inert(run.reason, 1000), true) : null,
      fact("Made", clock(run.created)), fact("Took", duration(run)), fact("Exit status", run.status === null || run.status === undefined ? "–" : String(run.status)),
      fact("Output", size(run.stdout_bytes || 0) + ", errors " + size(run.stderr_bytes || 0)),
      Object.keys(run.labels || {}).length ? fact("Labels", h("span", { class: "labels" }, Object.entries(run.labels).map(([k, v]) => h("span", { class: "badge" }, inert(`${k}=${v}`, 100)))), true) : null);
  }, fault.show);
  follow(id, log, signal);
}
