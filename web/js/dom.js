// SPDX-License-Identifier: Apache-2.0
// Elements without HTML: a text is always a text node, and no attribute comes from data. Nothing in web/js writes to innerHTML or the like;
// the page's policy (Trusted Types) would refuse it.

const SVG = "http://www.w3.org/2000/svg";

function fill(el, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, fn] of Object.entries(value)) el.addEventListener(event, fn);
    else if (name === "vars") for (const [key, v] of Object.entries(value)) el.style.setProperty(key, v);
    else el.setAttribute(name, value === true ? "" : String(value));
  }
  add(el, children);
  return el;
}

export function add(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    el.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export const h = (name, props, ...children) => fill(document.createElement(name), props, children);
export const svg = (name, props, ...children) => fill(document.createElementNS(SVG, name), props, children);

// A text that changes in place: no node is made anew, so nothing flickers and no selection is lost.
export function setText(el, text) {
  const value = String(text);
  if (el.textContent !== value) el.textContent = value;
}

export function replace(el, ...children) {
  el.replaceChildren();
  add(el, children);
}

// Children by key: what stays is updated in place, what is new is made once. make(item) gives {el, update(item)}.
export function keyed(parent, items, key, make) {
  const have = (parent.keyedRows ||= new Map());
  const seen = new Set();
  let at = parent.firstChild;
  for (const item of items) {
    const k = key(item);
    let row = have.get(k);
    if (!row) have.set(k, (row = make(item)));
    row.update(item);
    seen.add(k);
    if (row.el === at) at = at.nextSibling;
    else parent.insertBefore(row.el, at);
  }
  for (const [k, row] of have)
    if (!seen.has(k)) {
      row.el.remove();
      have.delete(k);
    }
}

export function button(text, props, click) {
  const { kind = "", ...rest } = props || {};
  return h("button", { type: "button", class: "button " + kind, ...rest, on: { click } }, text);
}

// What cannot be taken back is asked for twice, by the same button. It forgets the first press when it loses the focus.
export function sureButton(text, sure, props, act) {
  const b = button(text, props, async () => {
    if (!b.classList.contains("sure")) {
      b.classList.add("sure");
      b.textContent = sure;
      return;
    }
    calm();
    await act(b);
  });
  const calm = () => {
    b.classList.remove("sure");
    b.textContent = text;
  };
  b.addEventListener("blur", calm);
  return b;
}

export function tabs(label, names, chosen, choose) {
  const box = h("div", { class: "tabs", role: "group", "aria-label": label });
  for (const [value, text] of names)
    box.append(
      h("button", { type: "button", "aria-pressed": String(value === chosen), on: {
        click: (e) => {
          for (const b of box.children) b.setAttribute("aria-pressed", String(b === e.currentTarget));
          choose(value);
        } } }, text));
  return box;
}

export function head(title, lead, actions, crumb) {
  return h("div", { class: "head" },
    h("div", { class: "grow" },
      crumb ? h("a", { class: "crumb", href: crumb[0] }, "← " + crumb[1]) : null,
      h("h1", { tabindex: "-1" }, title),
      lead ? h("p", { class: "lead" }, lead) : null),
    actions && actions.length ? h("div", { class: "group" }, actions) : null);
}

export const empty = (title, text, ...actions) =>
  h("div", { class: "empty" }, h("h2", null, title), h("p", null, text), actions.length ? h("div", { class: "group" }, actions) : null);

export const badge = (text, kind) => h("span", { class: "badge " + (kind || "") }, text);

let lastToast = 0;
export function toast(text, bad) {
  const el = h("div", { class: "toast" + (bad ? " bad" : "") }, text);
  document.getElementById("toasts").append(el);
  setTimeout(() => el.remove(), bad ? 9000 : 4000);
  lastToast++;
}
