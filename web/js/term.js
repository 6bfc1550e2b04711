// SPDX-License-Identifier: Apache-2.0
// A terminal in the page: xterm.js over the API's WebSocket. xterm.js makes style elements, which the page's policy refuses; they become
// constructed style sheets instead, which cannot come from data.
import { openSocket } from "./api.js";
import { h } from "./dom.js";

function styleStandIn() {
  const sheet = new CSSStyleSheet();
  const el = document.createElement("span");
  el.hidden = true;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(el, "textContent", { get: () => "", set: (text) => sheet.replaceSync(String(text)) });
  const away = el.remove.bind(el);
  el.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
    away();
  };
  return el;
}

function withoutStyleElements(fn) {
  const make = document.createElement;
  document.createElement = function (name, ...rest) {
    return String(name).toLowerCase() === "style" ? styleStandIn() : make.call(document, name, ...rest);
  };
  try {
    return fn();
  } finally {
    delete document.createElement;
  }
}

const theme = () => {
  const css = getComputedStyle(document.documentElement);
  const of = (name) => css.getPropertyValue(name).trim();
  return { background: of("--term-bg"), foreground: of("--term-text"), cursor: "#7fd8bd", selectionBackground: "#3c5a50" };
};

// Columns and rows that fit, from the size of one letter.
function fit(host) {
  const probe = h("span", { class: "mono" }, "MMMMMMMMMM");
  probe.style.setProperty("font-size", "14px");
  probe.style.setProperty("position", "absolute");
  host.append(probe);
  const box = probe.getBoundingClientRect();
  probe.remove();
  const w = host.clientWidth - 40, hgt = host.clientHeight - 24;
  return [Math.max(20, Math.min(400, Math.floor(w / (box.width / 10 || 8.4)))), Math.max(5, Math.min(200, Math.floor(hgt / 20)))];
}

export async function openTerminal(host, id, signal, ended) {
  const { Terminal } = await import("../vendor/xterm.mjs");
  if (signal.aborted) return;
  host.replaceChildren();
  const [columns, rows] = fit(host);
  const term = withoutStyleElements(() => {
    const t = new Terminal({ cols: columns, rows, fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"), fontSize: 14, lineHeight: 1.2, cursorBlink: false,
      scrollback: 5000, theme: theme(), linkHandler: { activate: () => {} }, screenReaderMode: true, windowOptions: {} });
    t.open(host);
    return t;
  });
  // Programs inside may not set the title, ask for the clipboard, or make links.
  for (const code of [0, 1, 2, 7, 8, 9, 52, 133, 633, 777, 1337]) term.parser.registerOscHandler(code, () => true);
  const socket = openSocket(`/v1/sandboxes/${id}/terminal?columns=${columns}&rows=${rows}`);
  const bytes = new TextEncoder();
  let over = false;
  const end = (text, trouble) => {
    if (over) return;
    over = true;
    term.write(`\r\n[${text}]\r\n`);
    ended(trouble);
  };
  term.onData((data) => socket.readyState === WebSocket.OPEN && socket.send(bytes.encode(data)));
  term.onBinary((data) => socket.readyState === WebSocket.OPEN && socket.send(Uint8Array.from(data, (c) => c.charCodeAt(0))));
  term.onResize(({ cols, rows: r }) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify({ resize: [cols, r] })));
  term.attachCustomKeyEventHandler((e) => {
    if (e.type === "keydown" && e.key === "Tab" && e.ctrlKey && e.shiftKey) {
      document.querySelector("#nav a[aria-current]").focus();
      return false;
    }
    return true;
  });
  socket.addEventListener("open", () => term.focus());
  socket.addEventListener("message", (e) => {
    if (typeof e.data !== "string") {
      term.write(new Uint8Array(e.data));
      return;
    }
    const said = JSON.parse(e.data);
    if (said.exit !== undefined) end("exit status " + Number(said.exit));
  });
  socket.addEventListener("close", () => end("the terminal has ended"));
  socket.addEventListener("error", () => end("the terminal could not be opened", "The terminal could not be opened. Is the sandbox running?"));
  let timer = 0;
  const watch = new ResizeObserver(() => {
    clearTimeout(timer);
    timer = setTimeout(() => host.isConnected && term.resize(...fit(host)), 100);
  });
  watch.observe(host);
  signal.addEventListener("abort", () => {
    watch.disconnect();
    socket.close();
    term.dispose();
  });
}
