// SPDX-License-Identifier: Apache-2.0
// A patch as two columns.
import { h } from "./dom.js";
import { inert } from "./inert.js";

const ROWS_MAX = 4000;

// Rows {old: [number, text] | null, new: …, same} and {hunk}. Removed and added lines that belong together are side by side.
export function parsePatch(patch) {
  const rows = [];
  let a = 0, b = 0, removed = [], added = [], inside = false;
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) rows.push({ old: removed[i] || null, new: added[i] || null, same: false });
    removed = [];
    added = [];
  };
  for (const line of patch.split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$/.exec(line);
    if (hunk) {
      flush();
      inside = true;
      a = Number(hunk[1]);
      b = Number(hunk[2]);
      rows.push({ hunk: line });
    } else if (!inside) continue;
    else if (line.startsWith("-")) removed.push([a++, line.slice(1)]);
    else if (line.startsWith("+")) added.push([b++, line.slice(1)]);
    else if (line.startsWith(" ")) {
      flush();
      rows.push({ old: [a++, line.slice(1)], new: [b++, line.slice(1)], same: true });
    } else if (line.startsWith("\\")) {
      flush();
      rows.push({ hunk: line });
    }
  }
  flush();
  return rows;
}

function side(cell, which, same) {
  const kind = same ? "" : cell ? (which === "old" ? " cell-del" : " cell-add") : " cell-none";
  return [
    h("span", { class: `no ${which}${kind}` }, cell ? cell[0] : ""),
    h("span", { class: `code ${which}${kind}` }, cell && !same ? h("span", { class: "visually-hidden" }, which === "old" ? "removed: " : "added: ") : null, cell ? inert(cell[1], 5000) : null),
  ];
}

export function diffView(diff) {
  if (!diff || diff.content !== "text") return h("div", { class: "diff" }, h("p", { class: "plain" }, inert((diff && (diff.why || { binary: "A binary file: its content is not shown.", "too-large": "Too large to be shown.", same: "Only its name, mode or attributes changed.", unknown: "Its content is not known." }[diff.content])) || "No text to show.", 500)));
  const rows = parsePatch(diff.patch || "");
  const out = rows.slice(0, ROWS_MAX).map((r) => (r.hunk !== undefined ? h("div", { class: "hunk" }, inert(r.hunk, 300)) : h("div", { class: "row" + (r.same ? " same" : "") }, side(r.old, "old", r.same), side(r.new, "new", r.same))));
  if (rows.length > ROWS_MAX) out.push(h("p", { class: "plain" }, `${rows.length - ROWS_MAX} more rows: see bawn diff.`));
  if (!out.length) out.push(h("p", { class: "plain" }, "Its content is the same."));
  return h("div", { class: "diff", role: "region", "aria-label": "Differences", tabindex: "0" }, out);
}
