// SPDX-License-Identifier: Apache-2.0
// What an agent changed: by file, the riskiest first, with both versions side by side; each is applied or discarded by itself.
import { get, isId, poll, post } from "./api.js";
import { badge, button, empty, h, head, keyed, replace, setText, sureButton, toast } from "./dom.js";
import { act, faultLine } from "./boxes.js";
import { ago } from "./chart.js";
import { diffView } from "./diff.js";
import { inert, inertText } from "./inert.js";

const LEVELS = ["high", "medium", "low", "none"];
const LEVEL_KIND = { high: "bad", medium: "warn", low: "info", none: "" };
const SIGNS = { added: "+", deleted: "−", modified: "~", renamed: "→" };

export function reviewListPage(main, signal) {
  const fault = faultLine(), body = h("tbody"), none = h("div", { hidden: true });
  const table = h("table", { class: "table fold" }, h("thead", null, h("tr", null, ["What", "Command or name", "State", "Made"].map((n) => h("th", { scope: "col" }, n)), h("th", { scope: "col" }, h("span", { class: "visually-hidden" }, "Review")))), body);
  main.append(head("Review", "What was changed inside reaches nothing outside before you apply it."), fault.el, h("div", { class: "card" }, none, table));
  const make = (i) => {
    const state = badge("");
    return {
      el: h("tr", null, h("td", { "data-name": "What" }, i.kind === "runs" ? "Run" : "Sandbox"), h("td", { "data-name": "Name", class: "cut mono" }, inert(i.text, 200)), h("td", { "data-name": "State" }, h("div", null, state)),
        h("td", { "data-name": "Made", class: "nowrap" }, ago(i.created)), h("td", { "data-name": "" }, h("a", { class: "button small", href: `#/review/${i.kind}/${i.id}`, "aria-label": "Review " + i.id }, "Review"))),
      update: (now) => setText(state, now.state),
    };
  };
  poll(4000, signal, async () => {
    const [runs, boxes] = await Promise.all([get("/v1/runs?limit=50", signal), get("/v1/sandboxes?limit=50", signal)]);
    if (signal.aborted) return;
    const items = [
      ...boxes.items.map((b) => ({ kind: "sandboxes", id: b.id, text: (b.labels && b.labels.name) || b.id, state: b.state, created: b.created })),
      ...runs.items.filter((r) => ["done", "failed", "cancelled"].includes(r.state)).map((r) => ({ kind: "runs", id: r.id, text: r.command.join(" "), state: r.state, created: r.created })),
    ].filter((i) => isId(i.id));
    none.hidden = items.length > 0;
    table.hidden = items.length === 0;
    replace(none, empty("Nothing to review", "Runs that have ended, and sandboxes, are listed here with what they changed."));
    keyed(body, items, (i) => i.id, make);
  }, fault.show);
}

// The path as a pattern of .gitignore's syntax that means just this file.
const pattern = (path) => "/" + path.replace(/[\\*?[\]!# ]/g, "\\$&");

function fileItem(c, choose) {
  return h("li", null, h("button", { type: "button", "data-path": c.path, on: { click: () => choose(c) } },
    h("span", { class: "kind " + c.kind, title: c.kind }, SIGNS[c.kind] || "?"), h("span", { class: "path" }, inert(c.path, 300)),
    c.level !== "none" ? badge(c.level, LEVEL_KIND[c.level]) : null));
}

function risksView(c) {
  if (!c.risks.length) return null;
  return h("div", { class: "risks" }, c.risks.map((r) => h("div", { class: "risk" }, badge(r.level, LEVEL_KIND[r.level]), h("span", null, h("strong", null, inertText(r.class, 40)), r.line ? `, line ${Number(r.line)}` : "", ": ", inert(r.reason, 500)))));
}

function changeCard(base, c, diff, refresh) {
  const only = [pattern(c.path)];
  const apply = (b) => act(b, async () => {
    const classes = [...new Set([c.level, ...c.risks.map((x) => x.level)])].filter((l) => ["high", "medium", "low"].includes(l));
    const r = await post(base + "/apply", classes.length ? { only, classes } : { only });
    const own = r.changes.find((x) => x.path === c.path);
    if (!own || own.outcome !== "applied") throw new Error("Not applied: " + inertText((own && (own.why || own.outcome)) || "it is not there any more"));
    await refresh();
    toast("Applied.");
  });
  const facts = [c.kind, c.from ? " from " : null, c.from ? inert(c.from, 300) : null, c.what.length ? " · " + c.what.join(", ") : "", diff && diff.content === "text" ? ` · +${diff.added} −${diff.removed}` : "",
    c.new && c.old && c.new.mode !== c.old.mode ? ` · mode ${c.old.mode} → ${c.new.mode}` : "", c.host_changed ? " · also changed outside" : "", c.git_ignored ? " · ignored by git" : ""];
  return h("section", { class: "card", "aria-label": "Change" },
    h("div", { class: "card-head" }, h("div", { class: "grow" }, h("h2", { class: "mono" }, inert(c.path, 1000)), h("p", { class: "small muted" }, facts)),
      h("div", { class: "group" }, c.level === "high" ? sureButton("Apply", "High risk: apply?", { kind: "" }, apply) : button("Apply", { kind: "main-action" }, (e) => apply(e.currentTarget)),
        sureButton("Discard", "Really discard?", { kind: "danger" }, (b) => act(b, async () => {
          await post(base + "/discard", { only });
          await refresh();
        }, "Discarded.")))),
    risksView(c),
    c.new && c.new.link !== undefined ? h("p", { class: "risks" }, "A link that leads to ", h("code", null, inert(c.new.link, 500))) : null,
    diffView(diff));
}

export function reviewPage(main, signal, kind, id) {
  const crumb = ["#/review", "Review"];
  if (!["runs", "sandboxes"].includes(kind) || !isId(id)) {
    main.append(head("Review", null, null, crumb), h("div", { class: "card" }, empty("There is no such run or sandbox", "Its name in the address is not one.")));
    return;
  }
  const base = `/v1/${kind}/${id}`, fault = faultLine(), place = h("div"), sums = h("div", { class: "group" });
  const again = button("Look again", {}, (e) => act(e.currentTarget, load));
  const live = h("div", { class: "fault", hidden: true }, h("span", { class: "grow" }, "This sandbox is running. It has to be stopped before its changes are applied or discarded."),
    sureButton("Stop it", "Really stop?", { kind: "small" }, (b) => act(b, async () => {
      await post(base + "/stop");
      live.hidden = true;
      await load();
    }, "Stopped.")));
  main.append(head("Review", id, [sums, again], crumb), fault.el, live, place);
  if (kind === "sandboxes") get(base, signal).then((b) => { live.hidden = b.state !== "running"; }, () => {});
  let changes = [], chosen = null, pane = null, list = null;
  const choose = (c) => {
    chosen = c.path;
    for (const b of list.querySelectorAll("button")) if (b.dataset.path === c.path) b.setAttribute("aria-current", "true"); else b.removeAttribute("aria-current");
    replace(pane, changeCard(base, c, c.diff, load));
  };
  async function load() {
    replace(place, h("p", { class: "muted", role: "status" }, "Reading what was changed …"));
    let report;
    try {
      report = await get(base + "/diff", signal);
      fault.show(null);
    } catch (e) {
      if (e.name === "AbortError") return;
      const nothing = e.status === 404 || e.status === 409 || e.status === 422;
      replace(place, h("div", { class: "card" }, empty(nothing ? "Nothing to review" : "The changes cannot be read", inertText(e.message))));
      replace(sums);
      return;
    }
    if (signal.aborted) return;
    // A new folder comes with what is in it.
    changes = report.changes.filter((c) => !(c.level === "none" && c.kind === "added" && c.new && c.new.type === "folder" && report.changes.some((o) => o.path.startsWith(c.path + "/")))).sort((x, y) => LEVELS.indexOf(x.level) - LEVELS.indexOf(y.level) || (x.path < y.path ? -1 : 1));
    replace(sums, LEVELS.filter((l) => report.summary[l]).map((l) => badge(`${report.summary[l]} ${l === "none" ? "without risk" : l}`, LEVEL_KIND[l])));
    if (!changes.length) {
      replace(place, h("div", { class: "card" }, empty("Nothing is left to review", "Everything was applied or discarded, or nothing was changed.")));
      return;
    }
    list = h("ul", { class: "card files", "aria-label": "Files" }, changes.slice(0, 2000).map((c) => fileItem(c, choose)));
    pane = h("div", { class: "stack" });
    replace(place, report.notes.map((n) => h("p", { class: "small muted" }, inert(n, 500))), h("div", { class: "review" }, list, pane));
    choose(changes.find((c) => c.path === chosen) || changes[0]);
  }
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !["j", "k"].includes(e.key) || e.target.closest("input, textarea, select") || !changes.length) return;
    const at = changes.findIndex((c) => c.path === chosen) + (e.key === "j" ? 1 : -1);
    if (!changes[at]) return;
    choose(changes[at]);
    const b = list.querySelector("button[aria-current]");
    if (b) b.focus();
  }, { signal });
  load().catch((e) => toast(e.message, true));
}
