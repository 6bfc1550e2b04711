# SPDX-License-Identifier: Apache-2.0
"""Tables for people, and the bars."""
import os
import sys

import agents
import files
import gateway
import growth
import containers
import images
import kept
import link
import rung
import peers
import trees
import work
from modes import IGNORE_MODES, REVIEW_MODES
from starts import BAWN, POOL, POOL_SIZE, RAW, why

COLOURS = {"met": "32", "missed": "31", "not measured": "33"}
NOTES = {RAW: "posix_spawn of /bin/true", BAWN: "bawn run, whole default policy", POOL: f"the same, after 'bawn pool on -n {POOL_SIZE}'",
         **{p.name: p.note for p in peers.PEERS}}

# name, measurement, contender, what it is divided by (None: nothing), which side is better, bar, "must" or only a goal
COLUMN_BARS = (
    ("cold start, x bubblewrap", "cold", BAWN, "bwrap", "<=", 0.75, True),
    ("cold start, x bubblewrap (moonshot)", "cold", BAWN, "bwrap", "<=", 0.5, False),
    ("cold start, x bubblewrap with one mount for /etc", "cold", BAWN, "bwrap-short", "<=", 0.75, True),
    ("cold start, x raw", "cold", BAWN, RAW, "<=", 6, True),
    ("cold start, x raw (moonshot)", "cold", BAWN, RAW, "<=", 4.5, False),
    ("cold start from the pool, x cold start", "cold", POOL, BAWN, "<=", 0.5, True),
    ("sandboxes/s, 16 at a time, x bubblewrap", "parallel", BAWN, "bwrap", ">=", 1.5, True),
    ("sandboxes/s, 16 at a time, x bubblewrap with one mount for /etc", "parallel", BAWN, "bwrap-short", ">=", 1.5, False),
    ("sandboxes/s, 16 at a time", "parallel", BAWN, None, ">=", 400, True),
    ("sandboxes/s from the pool, 16 at a time", "parallel", POOL, None, ">=", 600, True),
)
# mode, workloads, times the host; the others are for information
IO_BARS = (
    ("direct", ("read, small files", "read, one big file", "stat", "git status", "compile"), 1.1),
    ("overlay", ("read, small files", "read, one big file"), 1.7),
    ("overlay", ("git status",), 1.4),
)
# direct mode: changes of small files, times the host, as goals; wall time, within the process
CHURN_BARS = (("create small files", 4), ("overwrite small files", 4), ("delete small files", 4))
# the same number of files by files.WRITERS processes at once: times as fast as by one. On two processors the host itself stays below two
WRITERS_CASE, WRITERS_SPEED = f"create small files, {files.WRITERS} writers", 3
# job of work.py (its first words), times the host's CPU time in direct mode
WORK_BARS = (("git checkout", 1.5), ("rm -rf", 2), ("npm ci", 1.1), ("make", 1.1))
# starts in each mode of the workspace, ms
MODE_MS = (("overlay", 9), ("sync", 20), ("worktree", 30))
IGNORE_BARS = (
    ("over the same tree without the file", "over_plain_ms", 30, True),
    ("over an empty folder", "over_empty_ms", 30, False),
    ("without the file, nothing changed, over an empty folder", "unchanged_ms", 10, True),
)
# case of gateway.py, what Bawn is divided by (None: nothing), which side is better, bar
GATEWAY_BARS = (
    ("pass-through, requests/s, 16 connections", "direct", ">=", 0.55),
    ("pass-through, new connection, us", "direct", "<=", 2.2),
    ("pass-through, bulk, MB/s", "direct", ">=", 0.8),
    ("inspected (TLS), requests/s, 16 connections", "squid", ">=", 2.5),
    ("inspected (TLS), requests/s, 16 connections", "mitmproxy", ">=", 25),
    ("first connection of a sandbox, ms (gate started, name looked up)", None, "<=", 15),
)
CREDENTIAL_CASE, CREDENTIAL_RATIO, CREDENTIAL_START_MS = "a credential is put in (TLS), requests/s, 16 connections", 0.9, 1
# of images.py: times a start with the host's root; of umoci's speed
IMAGE_START, IMAGE_UNPACK = 1.3, 0.8
CONTAINER_MS = 15  # of containers.py: over the engine's own start of the same image
# of link.py: GB/s of bulk over bytes; what a request and its answer cost more than over descriptors
LINK_GB, LINK_US = 1, 60
# contender of kept.py, times raw
WARM_BARS = ((kept.SOCKET, 1.4), (kept.EXEC, 3))
KEPT_KIB, PS_MS, KEPT_START_MS = 1024, 100, 15
REVIEW_SECONDS = 1
# Bars that were not reached, beginnings of their names: they stay as goals. README.md says of each where the time goes, and what was tried.
NOT_REACHED = (
    "cold start, x bubblewrap with one mount for /etc", "cold start, x raw", "cold start from the pool", "sandboxes/s, 16 at a time, root",
    "sandboxes/s, 16 at a time, user", "sandboxes/s from the pool",
    "git checkout, direct, x host's CPU, root", "rm -rf, direct", "npm ci, direct", "overwrite small files, direct", "loop of codex", "start in sync mode",
    "start in worktree mode, ms, root", f"warm, {kept.SOCKET}", "start of a persistent one", "pass-through, requests/s", "inspected (TLS), requests/s",
    "a credential is put in",
)
CHANGES = trees.LARGE_FILES // trees.CHANGE_EVERY
HIDDEN = trees.LARGE_FILES // trees.HIDE_EVERY
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
    found = [RAW, BAWN, POOL, *(p.name for p in peers.PEERS)]
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
    inside = ("direct", "overlay", "sync", "ro", "bwrap")
    columns = {label: c["io"] for label, c in data["columns"].items() if "io" in c}
    head = ["", *(f"{c} {t}" for c in columns for t in ("host ms", *inside))]
    rows = []
    for workload in next(iter(columns.values())):
        row = [workload]
        for results in columns.values():
            result = results[workload]
            host = result.get("host", {}).get("median_us")
            row += [number(host / 1e3 if host else None, 1), *(number(result.get(n, {}).get("ratio"), 2) for n in inside)]
        rows.append(row)
    return table("Files in the workspace, times the host (one process inside does all repetitions; start-up excluded)", head, rows)


def by_mode(data, key):
    """(columns that have it, modes in order)."""
    columns = {label: c["modes"][key] for label, c in data["columns"].items() if "modes" in c}
    return columns, list(next(iter(columns.values())))


def mode_table(data):
    columns, names = by_mode(data, "start")
    head = ["", *(f"{c} {t}" for c in columns for t in ("us", "x direct"))]
    rows = [[mode, *(cell for r in columns.values() for cell in (number(median(r, mode), 0), number(ratio(r, mode, "direct"), 2)))] for mode in names]
    return table(f"Start in each mode of the workspace: /bin/true in a repository of {data['effort']['start_files']} files (median, interleaved)", head, rows)


def ignore_table(data):
    columns, names = by_mode(data, "ignore")
    head = ["", *(f"{c} {t}" for c in columns for t in ("empty", "no file", "rules", "- no file", "- empty", "no file - empty"))]
    rows = []
    for mode in names:
        row = [mode]
        for results in columns.values():
            r = results[mode]
            times = [median(r.get("starts", {}), n) for n in ("empty", "plain", "ignoring")]
            row += [*(number(t / 1e3 if t else None, 1) for t in times), *(number(r.get(key), 1) for _, key, _, _ in IGNORE_BARS)]
        rows.append(row)
    title = (f"Start with .sandboxignore, ms: {trees.LARGE_FILES} files, {trees.RULES} rules, {HIDDEN} hidden, minus the same tree without the file, "
             "minus an empty folder (median, interleaved)")
    return table(title, head, rows)


def review_table(data):
    columns, names = by_mode(data, "review")
    head = ["", *(f"{c} ms" for c in columns)]
    rows = [[mode, *(number(r[mode]["seconds"] * 1e3 if "seconds" in r[mode] else None, 0) for r in columns.values())] for mode in names]
    return table(f"Review: bawn review --json of {CHANGES} changes in a tree of {trees.LARGE_FILES} files (median)", head, rows)


def gateway_table(data):
    columns = {label: c["gateway"] for label, c in data["columns"].items() if "gateway" in c}
    contenders = ("direct", "bawn", "credential", "squid", "mitmproxy")
    head = ["", *(f"{c} {t}" for c in columns for t in contenders)]
    cases = dict.fromkeys(case for column in columns.values() for case in column if case != "failed")
    rows = [[case, *(number(median(column.get(case, {}), c), 1) for column in columns.values() for c in contenders)] for case in cases]
    return table("The gate: one client inside, one server on loopback; direct: without a sandbox; squid with ssl-bump (median, interleaved)", head, rows)


def warm_table(data):
    columns = {label: c["kept"]["warm"] for label, c in data["columns"].items() if "kept" in c}
    head = ["", *(f"{c} {t}" for c in columns for t in ("us", "x raw"))]
    names = [RAW, kept.SOCKET, kept.EXEC, *kept.PEERS]
    rows = [[n, *(cell for r in columns.values() for cell in (number(median(r, n), 0), number(ratio(r, n, RAW), 2)))] for n in names]
    return table("A command (/bin/true) in a sandbox that runs already (median, interleaved)", head, rows)


def image_table(data):
    columns = {label: c["images"] for label, c in data["columns"].items() if "images" in c}
    rows = [[n, *(number(median(c["cold"], n), 0) for c in columns.values())] for n in (images.HOST, images.IMAGE)]
    rows += [[f"unpack 8000 files, {n}, ms", *(number(c["unpack"][n] and c["unpack"][n] * 1000, 0) for c in columns.values())] for n in ("bawn", "umoci")]
    return table("Images: a cold start in us, and getting one from a layout (median, interleaved)", ["", *columns], rows)


def container_table(data):
    columns = {label: c["containers"]["cold"] for label, c in data["columns"].items() if "containers" in c}
    rows = [[n, *(number(median(c, n), 0) for c in columns.values())] for e in containers.ENGINES for n in (e, containers.ours(e))]
    return table("Containers: a cold start in us, the engine's own and Bawn's with the same image (median, interleaved)", ["", *columns], rows)


def container_bars(column):
    cold = column["containers"]["cold"]
    for engine in containers.ENGINES:
        plain, mine = median(cold, engine), median(cold, containers.ours(engine))
        yield bar(f"start with {engine}, ms over its own", (mine - plain) / 1000 if plain and mine else None, CONTAINER_MS, engine == "docker")


SERVICE_ROWS = (("runs of true per second, 16 clients", "runs", 0), ("p99 of them, ms", "p99", 1), ("exec of true per second", "execs", 0), ("p99 of them, ms", "execs_p99", 1),
                ("10,000 files listed, ms", "list", 1), ("200 streams have the end of a run, ms", "streams_ms", 0),
                ("bawnd, KiB before", "memory_before", 0), ("bawnd, KiB after", "memory_after", 0))
SERVICE_BARS = (("runs of true per second", "runs", 150, ">="), ("p99 of a run, ms", "p99", 100, "<="), ("exec over HTTP per second", "execs", 1500, ">="),
                ("10,000 files listed, ms", "list", 200, "<="))


def service_table(data):
    columns = {label: c["service"] for label, c in data["columns"].items() if "service" in c}
    rows = [[what, *(number(c[key], digits) for c in columns.values())] for what, key, digits in SERVICE_ROWS]
    rows += [[f"docker's API, {what} per second", *(number(c["docker"].get(key), 0) for c in columns.values())] for what, key in (("runs", "runs"), ("execs", "execs"))]
    return table("The service over its unix socket, and docker's API doing the same, one at a time", ["", *columns], rows)


def service_bars(column):
    for what, key, limit, better in SERVICE_BARS:
        yield bar(f"service, {what}", column["service"][key], limit, True, better)
    yield bar("service, memory after x before", column["service"]["memory_after"] / column["service"]["memory_before"], 1.25, True)


def image_bars(column):
    both = column["images"]["unpack"]
    yield bar("start with an image, x host's root", ratio(column["images"]["cold"], images.IMAGE, images.HOST), IMAGE_START, True)
    yield bar("unpack, x umoci's speed", both["umoci"] / both["bawn"] if both["umoci"] and both["bawn"] else None, IMAGE_UNPACK, True, ">=")


def link_table(data):
    columns = {label: c["link"] for label, c in data["columns"].items() if "link" in c}
    facts = (("bulk out, GB/s", "out", 1e-9, 2), ("bulk in, GB/s", "in", 1e-9, 2), ("bawn exec of /bin/true, us", "request", 1e6, 0),
             ("a small request and its answer, us", "echo", 1e6, 0))
    rows = [[f"{what}, by {kind}", *(number(c[kind][key] * factor, digits) for c in columns.values())] for what, key, factor, digits in facts for kind in link.LINKS]
    return table("A sandbox behind a byte link, and by descriptors (median, interleaved)", ["", *columns], rows)


def rung_table(data):
    columns = {label: c["rung"] for label, c in data["columns"].items() if "rung" in c and "failed" not in c["rung"]}
    rows = [[what, r, *(number(c.get(what, {}).get(r, {}).get("median"), 1) for c in columns.values())] for what in rung.ROWS for r in rung.DENIED]
    return table("The rungs side by side (median, interleaved)", ["", "rung", *columns], rows)


def rung_bars(column):
    """Where root owns the workspace there is no landlock rung."""
    starts = column["rung"].get(rung.START, {})
    if rung.LANDLOCK in starts:
        yield bar("cold start of the landlock rung, x full", ratio(starts, rung.LANDLOCK, rung.FULL), 1.0, True)


def link_bars(column):
    by = column["link"]
    for way in ("out", "in"):
        yield bar(f"byte link, bulk {way}, GB/s", by[link.BYTES][way] / 1e9, LINK_GB, True, ">=")
    yield bar("byte link, a small request, us more", (by[link.BYTES]["echo"] - by[link.FD]["echo"]) * 1e6, LINK_US, True)
    yield bar("byte link, a command, us more", (by[link.BYTES]["request"] - by[link.FD]["request"]) * 1e6, LINK_US, False)


def crowd_table(data):
    columns = {label: c["kept"]["crowd"] for label, c in data["columns"].items() if "kept" in c}
    facts = (("KiB each (supervisor, PID 1, kernel)", "kib", 0), ("bawn ps, ms", "ps_ms", 1), ("start of one, ms (one after the other)", "start_ms", 1))
    rows = [[what, *(number(c[key], digits) for c in columns.values())] for what, key, digits in facts]
    return table(f"{data['effort']['kept']} kept sandboxes at once, idle", ["", *columns], rows)


def work_table(data):
    columns = {label: c["work"] for label, c in data["columns"].items() if "work" in c}
    head = ["", *(f"{c} {t}" for c in columns for t in ("host s", *(f"{m} {k}" for m in work.MODES for k in ("cpu", "wall"))))]
    rows = []
    for name in dict.fromkeys(n for jobs in columns.values() for n in jobs):
        row = [name]
        for jobs in columns.values():
            job = jobs.get(name, {})
            row.append(number(job.get(work.HOST, {}).get("cpu"), 2))
            row += [number(job.get(m, {}).get(f"{k}_ratio"), 2) for m in work.MODES for k in ("cpu", "wall")]
        rows.append(row)
    return table("Real work: CPU seconds on the host; inside, times the host's CPU and wall time, start included (median, interleaved)", head, rows)


def work_bars(column):
    for words, limit in WORK_BARS:
        job = next((j for name, j in column["work"].items() if name.startswith(words)), {})
        yield bar(f"{words}, direct, x host's CPU", job.get("direct", {}).get("cpu_ratio"), limit, True)


def agents_table(data):
    columns = {label: c["agents"] for label, c in data["columns"].items() if "agents" in c}
    head = ["", *(f"{c} {t}" for c in columns for t in ("outside s", "cpu s", "inside, x wall", "x cpu"))]
    rows = [[name, *(number(cell, 2) for found in columns.values() for cell in agents.cells(found.get(name, {})))]
            for name in dict.fromkeys(n for found in columns.values() for n in found)]
    return table("The loop of real agents: three turns with a scripted model (median, interleaved)", head, rows)


def agents_bars(column):
    for name, found in column["agents"].items():
        yield bar(f"loop of {name}, x outside", found.get("wall_ratio"), agents.RATIO, True)


def growth_table(data):
    columns = {label: c["growth"] for label, c in data["columns"].items() if "growth" in c}
    rows = [[name, label, " ".join(f"{n}: {number(ms, 0)}" for n, ms in r.get("points", [])), number(r.get("growth"), 2)]
            for label, found in columns.items() for name, r in found.items()]
    return table("How cost grows: size: ms, unless the row says another unit; and how many times as fast as the size over the last step (1: linear)", ["", "what", "points", "growth"],
                 [[r[0], r[1], r[2], r[3]] for r in rows])


def growth_bars(column):
    for name, found in column["growth"].items():
        yield bar(f"growth: {name}", found.get("growth"), growth.LINEAR, True)


def churn_bars(column):
    for workload, limit in CHURN_BARS:
        yield bar(f"{workload}, direct, x host", column["io"].get(workload, {}).get("direct", {}).get("ratio"), limit, True)
    one, many = (column["io"].get(w, {}).get("direct", {}).get("median_us") for w in (CHURN_BARS[0][0], WRITERS_CASE))
    yield bar(f"{WRITERS_CASE}, direct, x one writer's speed", one / many if one and many else None, WRITERS_SPEED, False, ">=")


def failure(result):
    return why(result) if isinstance(result["failed"], dict) else result["failed"]


def missing(data):
    lines = []
    for label, column in data["columns"].items():
        lines += [f"  {name} ({label}): {reason}" for name, reason in [*column["reasons"].items(), *column["failed"].items()]]
        for workload, result in column.get("io", {}).items():
            lines += [f"  {workload}, {name} ({label}): {r['failed']}" for name, r in result.items() if "failed" in r]
        lines += [f"  {name} ({label}): {reason}" for name, reason in column.get("kept", {}).get("reasons", {}).items()]
        for what in ("work", "growth", "agents"):
            lines += [f"  {name} ({label}): {r['failed']}" for name, r in column.get(what, {}).items() if "failed" in r]
        if "failed" in column.get("rung", {}):
            lines.append(f"  the rungs ({label}): {column['rung']['failed']}")
        if "failed" in column.get("gateway", {}):
            lines.append(f"  the gate ({label}): {column['gateway']['failed']}")
        for what, results in column.get("modes", {}).items():
            lines += [f"  {what}, {mode} ({label}): {failure(r)}" for mode, r in results.items() if "failed" in r]
    return "Not measured\n" + "\n".join(lines) + "\n" if lines else ""


def bar(name, value, limit, must, better="<="):
    return {"name": name, "value": value, "bar": limit, "better": better, "must": must}


def start_bars(column):
    for name, key, contender, base, better, limit, must in COLUMN_BARS:
        yield bar(name, ratio(column[key], contender, base) if base else median(column[key], contender), limit, must, better)


def io_bars(column):
    for mode, workloads, limit in IO_BARS:
        for workload in workloads:
            yield bar(f"{workload}, {mode}, x host", column["io"][workload].get(mode, {}).get("ratio"), limit, True)


def mode_bars(column):
    """Without the full sandbox there is nothing in column["modes"]: not measured."""
    found = column.get("modes", {})
    for mode, limit in MODE_MS:
        us = median(found.get("start", {}), mode)
        yield bar(f"start in {mode} mode, ms", us / 1e3 if us else None, limit, True)
    for mode in IGNORE_MODES:
        for name, key, limit, must in IGNORE_BARS:
            yield bar(f"start with .sandboxignore, ms {name}, {mode}", found.get("ignore", {}).get(mode, {}).get(key), limit, must)
    for mode in REVIEW_MODES:
        seconds = found.get("review", {}).get(mode, {}).get("seconds")
        yield bar(f"review of {CHANGES} changes in {trees.LARGE_FILES} files, s, {mode}", seconds, REVIEW_SECONDS, True)


def gateway_bars(column):
    for case, base, better, limit in GATEWAY_BARS:
        results = column["gateway"].get(case, {})
        value = ratio(results, BAWN, base) if base else median(results, BAWN)
        yield bar(f"{case}{f', x {base}' if base else ''}", value, limit, True, better)
    yield bar(f"{CREDENTIAL_CASE}, x without", ratio(column["gateway"].get(CREDENTIAL_CASE, {}), "credential", BAWN), CREDENTIAL_RATIO, True, ">=")
    starts = column["gateway"].get(gateway.START, {})
    with_them, without = median(starts, "credential"), median(starts, BAWN)
    yield bar("start with four credentials, ms over none", with_them - without if with_them and without else None, CREDENTIAL_START_MS, True)


def kept_bars(column):
    for name, limit in WARM_BARS:
        yield bar(f"warm, {name}, x raw", ratio(column["kept"]["warm"], name, RAW), limit, True)
    yield bar(f"{column['kept']['crowd']['n']} kept, KiB each", column["kept"]["crowd"]["kib"], KEPT_KIB, True)
    yield bar(f"bawn ps of {column['kept']['crowd']['n']}, ms", column["kept"]["crowd"]["ps_ms"], PS_MS, True)
    yield bar("start of a persistent one, ms", column["kept"]["crowd"]["start_ms"], KEPT_START_MS, True)


def bars(data):
    """Dictionaries with name, value (None: not measured), bar, better, must and verdict."""
    found = []
    for label, column in data["columns"].items():
        groups = [*([start_bars] if data["with_starts"] else []), *([work_bars] if "work" in column else []), *([growth_bars] if "growth" in column else []),
                  *([agents_bars] if "agents" in column else []),
                  *([churn_bars] if "io" in column else []), *([io_bars] if "io" in column else []), *([mode_bars] if data["with_modes"] else []),
                  *([kept_bars] if "kept" in column else []), *([link_bars] if "link" in column else []), *([rung_bars] if "rung" in column else []), *([image_bars] if "images" in column else []),
                  *([container_bars] if "containers" in column else []), *([service_bars] if "service" in column else []),
                  *([gateway_bars] if "gateway" in column else [])]
        found += [{**b, "name": f"{b['name']}, {label}"} for group in groups for b in group(column)]
    for b in found:
        b["must"] = b["must"] and not b["name"].startswith(NOT_REACHED)
        b["verdict"] = verdict(b)
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
    parts = [machine(data)]
    if data["with_starts"]:
        parts += [starts_table(data, "cold", "Cold start: spawn, run /bin/true, tear down (median, interleaved)", "us", 0),
                  starts_table(data, "parallel", f"Sandboxes per second, {data['effort']['parallel']} at a time (median of interleaved blocks)", "per s", 0)]
    if any("io" in c for c in data["columns"].values()):
        parts.append(io_table(data))
    if any("modes" in c for c in data["columns"].values()):
        parts += [mode_table(data), ignore_table(data), review_table(data)]
    if any("kept" in c for c in data["columns"].values()):
        parts += [warm_table(data), crowd_table(data)]
    if any("link" in c for c in data["columns"].values()):
        parts.append(link_table(data))
    if any("images" in c for c in data["columns"].values()):
        parts.append(image_table(data))
    if any("containers" in c for c in data["columns"].values()):
        parts.append(container_table(data))
    if any("service" in c for c in data["columns"].values()):
        parts.append(service_table(data))
    if any("gateway" in c for c in data["columns"].values()):
        parts.append(gateway_table(data))
    if any("rung" in c for c in data["columns"].values()):
        parts.append(rung_table(data))
    if any("work" in c for c in data["columns"].values()):
        parts += [work_table(data), growth_table(data), agents_table(data)]
    return "\n".join([*parts, *filter(None, [missing(data)]), bars_table(data["bars"])])
