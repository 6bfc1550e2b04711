"""Tables for people, and the bars."""
import os
import sys

import peers
from starts import BAWN, RAW

COLOURS = {"met": "32", "missed": "31", "not measured": "33"}
NOTES = {RAW: "posix_spawn of /bin/true", BAWN: "bawn run, whole default policy", **{p.name: p.note for p in peers.PEERS}}

# name, measurement, what Bawn is divided by (None: nothing), which side is better, bar, "must" or only a goal
COLUMN_BARS = (
    ("cold start, x bubblewrap", "cold", "bwrap", "<=", 0.75, True),
    ("cold start, x bubblewrap (moonshot)", "cold", "bwrap", "<=", 0.5, False),
    ("cold start, x bubblewrap with one mount for /etc", "cold", "bwrap-short", "<=", 0.75, False),
    ("cold start, x raw", "cold", RAW, "<=", 4.5, False),
    ("sandboxes/s, 16 at a time, x bubblewrap", "parallel", "bwrap", ">=", 1.5, True),
    ("sandboxes/s, 16 at a time, x bubblewrap with one mount for /etc", "parallel", "bwrap-short", ">=", 1.5, False),
    ("sandboxes/s, 16 at a time", "parallel", None, ">=", 400, False),
)
IO_BAR = 1.1
LEFT = ("", "what", "kind", "verdict")


def median(results, name):
    return results.get(name, {}).get("median")


def ratio(results, name, base):
    value, other = median(results, name), median(results, base)
    return value / other if value and other else None


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def table(title, head, rows):
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    lines = [title]
    for row in [head, ["-" * w for w in widths], *rows]:
        cells = [str(c).ljust(w) if h in LEFT else str(c).rjust(w) for h, c, w in zip(head, row, widths)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def names_of(data, key):
    found = [RAW, BAWN, *(p.name for p in peers.PEERS)]
    return [n for n in found if key == "cold" or any(n in column[key] for column in data["columns"].values())]


def starts_table(data, key, title, unit, digits):
    head = ["", *(f"{c} {t}" for c in data["columns"] for t in (unit, "x raw", "x bwrap"))]
    rows = []
    for name in names_of(data, key):
        row = [name]
        for column in data["columns"].values():
            results = column[key]
            row += [number(median(results, name), digits), number(ratio(results, name, RAW), 2), number(ratio(results, name, "bwrap"), 2)]
        rows.append([*row, NOTES[name]])
    return table(title, [*head, "what"], rows)


def io_table(data):
    head = ["", *(f"{c} {t}" for c in data["columns"] for t in ("host ms", "bawn x host", "bwrap x host"))]
    rows = []
    workloads = next(iter(data["columns"].values()))["io"]
    for workload in workloads:
        row = [workload]
        for column in data["columns"].values():
            result = column["io"][workload]
            host = result.get("host", {}).get("median_us")
            row += [number(host / 1e3 if host else None, 1), *(number(result.get(n, {}).get("ratio"), 3) for n in (BAWN, "bwrap"))]
        rows.append(row)
    return table("Files in the workspace (one process inside does all repetitions; start-up excluded)", head, rows)


def missing(data):
    lines = []
    for label, column in data["columns"].items():
        lines += [f"  {name} ({label}): {reason}" for name, reason in column["reasons"].items()]
        for workload, result in column.get("io", {}).items():
            lines += [f"  {workload}, {name} ({label}): {r['failed']}" for name, r in result.items() if "failed" in r]
    return "Not measured\n" + "\n".join(lines) + "\n" if lines else ""


def bars(data):
    """Dictionaries with name, value (None: not measured), bar, better, must and verdict."""
    found = []
    for label, column in data["columns"].items():
        for name, key, base, better, bar, must in COLUMN_BARS:
            value = ratio(column[key], BAWN, base) if base else median(column[key], BAWN)
            found.append({"name": f"{name}, {label}", "value": value, "bar": bar, "better": better, "must": must})
        for workload, result in column.get("io", {}).items():
            found.append({"name": f"{workload}, x host, {label}", "value": result.get(BAWN, {}).get("ratio"), "bar": IO_BAR, "better": "<=",
                          "must": True})
    for bar in found:
        bar["verdict"] = verdict(bar)
    return found


def verdict(bar):
    if bar["value"] is None:
        return "not measured"
    met = bar["value"] <= bar["bar"] if bar["better"] == "<=" else bar["value"] >= bar["bar"]
    return "met" if met else "missed"


def coloured(word):
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return word
    return f"\033[{COLOURS[word]}m{word}\033[0m"


def bars_table(found):
    rows = [[b["name"], number(b["value"], 2), f"{b['better']} {b['bar']:g}", "must" if b["must"] else "goal", coloured(b["verdict"])] for b in found]
    return table("Bars", ["", "value", "bar", "kind", "verdict"], rows)


def machine(data):
    m = data["machine"]
    return (f"{m['system']}, kernel {m['kernel']}, {m['cores']} cores ({m['cpu']}), load {m['load_before'][0]:.2f} before, {m['load_after'][0]:.2f} after, "
            f"{m['seconds']:.0f} s\n" + "".join(f"  {name}: {version or 'not there'}\n" for name, version in m["versions"].items()))


def text(data):
    parts = [machine(data), starts_table(data, "cold", "Cold start: spawn, run /bin/true, tear down (median, interleaved)", "us", 0),
             starts_table(data, "parallel", f"Sandboxes per second, {data['effort']['parallel']} at a time (median of interleaved blocks)", "per s", 0)]
    if all("io" in c for c in data["columns"].values()):
        parts.append(io_table(data))
    return "\n".join([*parts, *filter(None, [missing(data)]), bars_table(data["bars"])])
