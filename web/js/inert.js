// SPDX-License-Identifier: Apache-2.0
// What an agent wrote, made harmless to look at: a text node, with characters that would hide, reorder or disguise it shown as marks.
import { h } from "./dom.js";

const NAMES = new Map([
  [0x0000, "NUL"], [0x0007, "BEL"], [0x0008, "BS"], [0x000c, "FF"], [0x000d, "CR"], [0x001b, "ESC"], [0x007f, "DEL"], [0x00ad, "SHY"],
  [0x061c, "ALM"], [0x200b, "ZWSP"], [0x200c, "ZWNJ"], [0x200d, "ZWJ"], [0x200e, "LRM"], [0x200f, "RLM"], [0x202a, "LRE"], [0x202b, "RLE"],
  [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"], [0x2066, "LRI"], [0x2067, "RLI"], [0x2068, "FSI"], [0x2069, "PDI"], [0xfeff, "BOM"],
]);

// Controls but tab and line feed; invisible, bidirectional and filler characters; tags; private use; halves of pairs.
const SUSPECT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ue000-\uf8ff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}\ud800-\udfff]/u;

export function markOf(ch) {
  const code = ch.codePointAt(0);
  return NAMES.get(code) || "U+" + code.toString(16).toUpperCase().padStart(4, "0");
}

const markEl = (ch) => h("span", { class: "ctl", title: "U+" + ch.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") }, markOf(ch));

function parts(text) {
  const out = [];
  let plain = "";
  for (const ch of text) {
    if (!SUSPECT.test(ch)) {
      plain += ch;
      continue;
    }
    if (plain) out.push(plain);
    plain = "";
    out.push(markEl(ch));
  }
  if (plain) out.push(plain);
  return out;
}

// Text with a ceiling: what is cut is said.
export function inert(text, max = 20000) {
  const value = text === null || text === undefined ? "" : String(text);
  const cut = value.length > max;
  return h("span", { class: "inert" }, parts(cut ? value.slice(0, max) : value), cut ? h("span", { class: "ctl" }, `… ${value.length - max} more characters`) : null);
}

// The same as one string, for titles and labels.
export const inertText = (text, max = 300) =>
  Array.from(String(text ?? "").slice(0, max), (ch) => (SUSPECT.test(ch) || ch === "\n" || ch === "\t" ? `⟨${markOf(ch)}⟩` : ch)).join("");

// A line of a log. Colours (ESC [ … m) are dropped; every other escape sequence stays visible as marks, and does nothing.
// eslint-disable-next-line no-control-regex
const COLOUR = /\u001b\[[0-9;:]*m/g;
export const inertLine = (text, max = 8000) => inert(text.replace(COLOUR, "").replace(/\r$/, ""), max);
