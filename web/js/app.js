// SPDX-License-Identifier: Apache-2.0
// The frame: signing in, pages by the part of the address behind "#", keys, and what is always on the screen.
import { currentSession, get, login, logout, poll, whenSessionEnds } from "./api.js";
import { button, h, replace, setText, toast } from "./dom.js";
import { auditPage } from "./audit.js";
import { boxPage, boxesPage } from "./boxes.js";
import { enginesPage } from "./engines.js";
import { inertText } from "./inert.js";
import { loadPage } from "./load.js";
import { networkPage } from "./network.js";
import { reviewListPage, reviewPage } from "./review.js";
import { runPage, runsPage } from "./runs.js";

// Name, key behind g, title, page; then the pages below it.
const PAGES = [
  { name: "sandboxes", key: "s", title: "Sandboxes", page: boxesPage, below: boxPage },
  { name: "runs", key: "r", title: "Runs", page: runsPage, below: runPage },
  { name: "network", key: "n", title: "Network", page: networkPage },
  { name: "review", key: "v", title: "Review", page: reviewListPage, below: reviewPage },
  { name: "audit", key: "a", title: "Audit", page: auditPage },
  { name: "engines", key: "e", title: "Engines", page: enginesPage },
  { name: "load", key: "l", title: "Load", page: loadPage },
];

const el = (id) => document.getElementById(id);
let leave = new AbortController();
let frame = null;

function showDoor(text, detail) {
  leave.abort();
  if (frame) frame.abort();
  frame = null;
  el("shell").hidden = true;
  const door = el("door");
  door.hidden = false;
  replace(door,
    h("main", { class: "card" },
      h("div", { class: "brand" }, h("img", { src: "/icon.svg", alt: "", width: 28, height: 28 }), h("span", { class: "brand-name" }, "Bawn")),
      h("h1", { tabindex: "-1" }, text),
      h("p", { class: "muted" }, detail || "To open the dashboard, run this on the machine of the service, and open the link that it prints. A link works once, within two minutes."),
      h("code", { class: "cmd" }, "bawn dashboard")));
  document.title = "Bawn";
  door.querySelector("h1").focus();
}

function drawNav() {
  const nav = el("nav");
  replace(nav, PAGES.map((p) => h("a", { href: "#/" + p.name, "data-page": p.name }, p.title, p.name === "network" ? h("span", { class: "count", hidden: true }) : null)));
}

// "#/runs/run_x" -> the page of that run. What is in the address is data: pages check ids before they use them.
function route() {
  if (!currentSession()) return;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return "";
    }
  });
  const page = PAGES.find((p) => p.name === name) || PAGES[0];
  leave.abort();
  leave = new AbortController();
  for (const a of el("nav").children)
    if (a.dataset.page === page.name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  const main = el("main");
  main.replaceChildren();
  document.title = page.title + " · Bawn";
  const draw = rest.length && page.below ? page.below : page.page;
  draw(main, leave.signal, ...rest);
  const title = main.querySelector("h1");
  if (title) title.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function watchService(signal) {
  const health = el("health");
  poll(5000, signal, async () => {
    const questions = await get("/v1/questions", signal);
    const count = el("nav").querySelector(".count");
    const n = questions.items.length;
    count.hidden = n === 0;
    setText(count, n);
    count.setAttribute("aria-label", `${n} waiting`);
  }, (problem) => {
    health.className = "health" + (problem ? " bad" : "");
    setText(health, problem ? "offline" : "");
  });
}

function showShell() {
  el("door").hidden = true;
  el("shell").hidden = false;
  drawNav();
  setText(el("tenant"), inertText(currentSession().tenant));
  if (frame) frame.abort();
  frame = new AbortController();
  watchService(frame.signal);
  route();
}

// -- keys -------------------------------------------------------------------------------------------------------------------

function drawHelp() {
  const dialog = el("help");
  replace(dialog,
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", null,
      PAGES.map((p) => [h("dt", null, h("kbd", null, "g"), " ", h("kbd", null, p.key)), h("dd", null, p.title)]),
      h("dt", null, h("kbd", null, "/")), h("dd", null, "Search, where there is one"),
      h("dt", null, h("kbd", null, "j"), " ", h("kbd", null, "k")), h("dd", null, "Next and previous file of a review"),
      h("dt", null, h("kbd", null, "?")), h("dd", null, "This list")),
    button("Close", { kind: "main-action", autofocus: true }, () => dialog.close()));
}

let lastKey = "";
function onKey(e) {
  if (!currentSession() || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, textarea, select, .xterm")) return;
  const before = lastKey;
  lastKey = e.key;
  if (before === "g") {
    const page = PAGES.find((p) => p.key === e.key);
    if (page) location.hash = "#/" + page.name;
  } else if (e.key === "?") {
    drawHelp();
    el("help").showModal();
  } else if (e.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) {
      e.preventDefault();
      search.focus();
    }
  }
}

// -- begin ------------------------------------------------------------------------------------------------------------------

async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("login");
  if (code) {
    history.replaceState(null, "", "/"); // it is worth nothing any more, and need not be in the history either
    try {
      await login(code);
      toast("You are signed in as " + inertText(currentSession().tenant) + ".");
    } catch (e) {
      showDoor("This link does not work", e.message + " A link works once, within two minutes.");
      return;
    }
  }
  if (currentSession()) showShell();
  else showDoor("Sign in");
}

whenSessionEnds((text) => showDoor(text));
el("logout").addEventListener("click", () => logout().catch(() => {}));
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#login=")) begin();
  else if (location.hash !== "#main") route();
});
document.addEventListener("keydown", onKey);
begin();
