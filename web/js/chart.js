// SPDX-License-Identifier: Apache-2.0
// Bars, sparklines and plots. SVG, because it follows the colours of the page.
import { h, svg, setText } from "./dom.js";

export function size(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return (i && n < 10 ? n.toFixed(1) : Math.round(n)) + " " + units[i];
}

export function seconds(s) {
  if (s === null || s === undefined || !isFinite(s)) return "–";
  if (s === 0) return "0 s";
  if (s < 0.001) return Math.round(s * 1e6) + " µs";
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 60) return (s < 10 ? s.toFixed(1) : Math.round(s)) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
}

export function ago(time) {
  const s = (Date.now() - Date.parse(time)) / 1000;
  if (!isFinite(s)) return "–";
  if (s < 5) return "just now";
  if (s < 60) return Math.floor(s) + " s ago";
  if (s < 3600) return Math.floor(s / 60) + " min ago";
  if (s < 86400) return Math.floor(s / 3600) + " h ago";
  return Math.floor(s / 86400) + " d ago";
}

export const clock = (time) => {
  const d = new Date(time);
  return isNaN(d) ? "–" : d.toLocaleString([], { dateStyle: "short", timeStyle: "medium" });
};

// A limit as a bar: what is used, and of how much. part: 0 to 1, or null where there is no limit.
export function meter(name) {
  const value = h("span", { class: "num" }, "–");
  const fill = h("span");
  const bar = h("div", { class: "bar", role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 }, fill);
  const el = h("div", { class: "meter" }, h("div", { class: "line" }, h("span", { class: "what" }, name), value), bar);
  return {
    el,
    update(text, part) {
      setText(value, text);
      const percent = part === null ? 0 : Math.max(0, Math.min(100, part * 100));
      fill.style.setProperty("--part", percent.toFixed(1) + "%");
      bar.setAttribute("aria-valuenow", Math.round(percent));
      bar.setAttribute("aria-valuetext", text);
      bar.className = "bar" + (percent >= 90 ? " bad" : percent >= 75 ? " warn" : "");
    },
  };
}

export function spark(label) {
  const area = svg("path", { class: "area" });
  const stroke = svg("path", { class: "stroke" });
  const el = svg("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": label }, area, stroke);
  return {
    el,
    update(values, max) {
      const top = Math.max(max || 0, ...values, 1e-9);
      const step = 100 / Math.max(values.length - 1, 1);
      const points = values.map((v, i) => `${(i * step).toFixed(2)} ${(29 - (v / top) * 27).toFixed(2)}`);
      stroke.setAttribute("d", points.length > 1 ? "M" + points.join("L") : "");
      area.setAttribute("d", points.length > 1 ? `M0 30L${points.join("L")}L100 30Z` : "");
    },
  };
}

function axis(top) {
  const step = 10 ** Math.floor(Math.log10(top || 1));
  const nice = [1, 2, 5, 10].map((m) => m * step).find((m) => m >= top) || top;
  return nice || 1;
}

// Lines over time. names: of the series; format: of the numbers beside the grid.
export function plot(title, names, format) {
  const W = 480, H = 190, LEFT = 52, BOTTOM = 20;
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  const grid = [0, 0.5, 1].map((f) => {
    const y = 8 + (H - BOTTOM - 8) * (1 - f);
    const label = svg("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" });
    root.append(svg("line", { class: "grid", x1: LEFT, x2: W - 4, y1: y, y2: y }), label);
    return [f, label];
  });
  const since = svg("text", { x: LEFT, y: H - 4 }), now = svg("text", { x: W - 4, y: H - 4, "text-anchor": "end" }, "now");
  const paths = names.map((_, i) => svg("path", { class: "s" + i }));
  root.append(...paths, since, now);
  const numbers = names.map(() => h("strong", null, "–"));
  const el = h("figure", { class: "card plot" }, h("h2", null, title), root,
    h("figcaption", { class: "legend" }, names.map((n, i) => h("span", { class: "s" + i }, h("i"), n, " ", numbers[i]))));
  return {
    el,
    // series: arrays of numbers or nulls, the newest last
    update(series, span) {
      const all = series.flat().filter((v) => v !== null && isFinite(v));
      const most = Math.max(0, ...all), top = most > 0 ? axis(most) : 1;
      for (const [f, label] of grid) setText(label, format(top * f));
      setText(since, "−" + seconds(span));
      series.forEach((values, i) => {
        const step = (W - 4 - LEFT) / Math.max(values.length - 1, 1);
        let d = "";
        values.forEach((v, x) => {
          if (v === null || !isFinite(v)) return;
          d += `${d ? "L" : "M"}${(LEFT + x * step).toFixed(1)} ${(8 + (H - BOTTOM - 8) * (1 - v / top)).toFixed(1)}`;
        });
        paths[i].setAttribute("d", d);
        const last = values[values.length - 1];
        setText(numbers[i], last === null || last === undefined || !isFinite(last) ? "–" : format(last));
      });
    },
  };
}

// Columns of a histogram: rows of [label, count].
export function columns(title, about) {
  const W = 480, H = 190;
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  const note = h("span", null, about);
  const el = h("figure", { class: "card plot" }, h("h2", null, title), root, h("figcaption", { class: "legend" }, note));
  let cols = [];
  return {
    el,
    update(rows, text) {
      const top = Math.max(...rows.map((r) => r[1]), 1), w = W / rows.length;
      if (cols.length !== rows.length) {
        root.replaceChildren();
        cols = rows.map((r, i) => {
          const rect = svg("rect", { class: "col", x: i * w + 3, width: Math.max(w - 6, 1), rx: 2 }, svg("title"));
          root.append(rect, svg("text", { x: i * w + w / 2, y: H - 4, "text-anchor": "middle" }, r[0]));
          return rect;
        });
      }
      rows.forEach((r, i) => {
        const height = r[1] ? Math.max((r[1] / top) * (H - 30), 2) : 0;
        cols[i].setAttribute("y", (H - 20 - height).toFixed(1));
        cols[i].setAttribute("height", height.toFixed(1));
        setText(cols[i].firstChild, `${r[0]}: ${r[1]}`);
      });
      setText(note, text);
    },
  };
}
