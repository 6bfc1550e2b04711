// SPDX-License-Identifier: Apache-2.0
// What each engine enforces on this machine.
import { get } from "./api.js";
import { badge, empty, h, head, replace } from "./dom.js";
import { faultLine } from "./boxes.js";
import { inert, inertText } from "./inert.js";

function matrix(data) {
  const rungs = data.engines.flatMap((e) => e.rungs.map((r) => ({ engine: e, ...r })));
  const usable = rungs.filter((r) => r.available);
  const cols = usable.length ? usable : rungs;
  return h("div", { class: "card scroll", tabindex: "0", role: "region", "aria-label": "Matrix" }, h("table", { class: "matrix" },
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Guarantee"), cols.map((r) => h("th", { scope: "col" }, inertText(r.engine.name, 30), r.name !== r.engine.name ? h("div", { class: "muted" }, inertText(r.name, 30)) : null)))),
    h("tbody", null, Object.entries(data.guarantees).map(([key, text]) => h("tr", null, h("th", { scope: "row" }, h("div", null, inertText(key, 40)), h("div", { class: "small muted" }, inertText(text, 200))),
      cols.map((r) => (r.keeps.includes(key) ? h("td", { class: "yes" }, "✓", h("span", { class: "visually-hidden" }, "enforced")) : h("td", { class: "no" }, "–", h("span", { class: "visually-hidden" }, "not enforced")))))))));
}

function engineCard(e) {
  const any = e.rungs.some((r) => r.available);
  return h("li", { class: "card pad" }, h("div", { class: "group" }, h("h3", null, inertText(e.name, 40)), badge(any ? "available" : "not available here", any ? "ok" : "")),
    h("p", { class: "muted" }, inertText(e.summary, 300)),
    e.rungs.filter((r) => !r.available && r.why).map((r) => h("p", { class: "small" }, e.rungs.length > 1 ? h("strong", null, inertText(r.name, 40), ": ") : null, inert(r.why, 600), r.remedy ? [h("br"), "What helps: ", inert(r.remedy, 600)] : null)));
}

export function enginesPage(main, signal) {
  const fault = faultLine(), place = h("div", null, h("p", { class: "muted", role: "status" }, "Looking at this machine …"));
  main.append(head("Engines", "The same sandbox on other ground: what each of them enforces on this machine."), fault.el, place);
  get("/v1/engines", signal).then((data) => {
    if (!data.engines.length) replace(place, h("div", { class: "card" }, empty("No engines", "This service has none.")));
    else replace(place, matrix(data), h("section", { class: "section" }, h("h2", null, "All engines"), h("ul", { class: "boxes" }, data.engines.map(engineCard))));
  }, (e) => {
    if (e.name === "AbortError") return;
    replace(place);
    fault.show(e);
  });
}
