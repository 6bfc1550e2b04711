# SPDX-License-Identifier: Apache-2.0
"""What the modes of the workspace cost around the command: the start, the search for hidden files, the review afterwards."""
import json
import os
import statistics
import subprocess
import time

import peers
import starts
import trees
from files import call

RUN = "bench"
MODES = ("direct", "overlay", "sync", "worktree", "ro")
IGNORE_MODES = ("direct", "overlay")
REVIEW_MODES = ("direct", "overlay")
REST_SECONDS = 3  # a folder that changed in the last two seconds is read again by each start (src/workspace/hide/walk_memo.h)
CHANGE = """
import json, os, sys
wanted = json.loads(sys.argv[1])
for path in wanted["modified"]:
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace("one", "two"))
for path in wanted["deleted"]:
    os.unlink(path)
for path in wanted["added"]:
    with open(path, "w") as f:
        f.write("int two;\\n" * 40)
"""


def run(stage, mode, directory, command=peers.COMMAND, *options):
    return [stage.bawn, "run", "-w", mode, *options, "-C", directory, "--", *command]


def start(stage, place, effort):
    """{mode: result of spawn.c} for a small repository."""
    directory = os.path.join(place.directory, "small-repository")
    trees.make_repository(place, directory, effort.start_files)
    commands = {mode: run(stage, mode, directory) for mode in MODES}
    return starts.spawn(stage, place, ["--rounds", str(effort.mode_rounds), "--budget", f"{effort.budget_ms}ms"], commands)


def shown(stage, place, mode, directory):
    """How many of the files to be hidden have content inside."""
    return len(call(place, run(stage, mode, directory, ["find", ".", "-name", trees.HIDDEN_NAME, "-size", "+0"])).split())


def difference_ms(results, name, base):
    """Round by round, because the machine drifts; microseconds in, milliseconds out."""
    return statistics.median(a - b for a, b in zip(results[name]["samples"], results[base]["samples"])) / 1e3


def ignore_mode(stage, place, effort, large, mode):
    expected = {large.plain: trees.LARGE_FILES // trees.HIDE_EVERY, large.ignoring: 0}
    for directory, count in expected.items():
        if (found := shown(stage, place, mode, directory)) != count:
            raise RuntimeError(f"{found} of the files to be hidden are shown instead of {count}")
    commands = {"empty": run(stage, mode, large.empty), "plain": run(stage, mode, large.plain), "ignoring": run(stage, mode, large.ignoring)}
    results = starts.spawn(stage, place, ["--rounds", str(effort.ignore_rounds)], commands)
    for result in results.values():
        if "failed" in result:
            raise RuntimeError(starts.why(result))
    return {"starts": results, "over_plain_ms": difference_ms(results, "ignoring", "plain"), "over_empty_ms": difference_ms(results, "ignoring", "empty"),
            "unchanged_ms": difference_ms(results, "plain", "empty")}


def review_mode(stage, place, effort, large, mode):
    wanted = trees.changes()
    named = ["--name", RUN] if mode != "direct" else []
    command = [stage.bawn, "review", "-C", large.plain, "--json", "--fail-on", "none"]
    try:
        call(place, run(stage, mode, large.plain, ["/usr/bin/python3", "-c", CHANGE, json.dumps(wanted)], *named))
        seen = json.loads(call(place, command))
        if seen["mode"] != mode or seen["summary"]["changes"] != sum(map(len, wanted.values())):
            raise RuntimeError(f"the review of mode {seen['mode']} lists {seen['summary']['changes']} changes")
        result = starts.spawn(stage, place, ["--rounds", str(effort.review_rounds)], {"review": command})["review"]
        if "failed" in result:
            raise RuntimeError(starts.why(result))
        return {**result, "seconds": result["median"] / 1e6, "summary": seen["summary"]}
    finally:
        if named:
            subprocess.run([stage.bawn, "discard", "--yes", "-C", large.plain, RUN], capture_output=True, **place.popen_as())
        else:
            trees.restore(place, large.plain)


def each(modes, function, *arguments):
    results = {}
    for mode in modes:
        try:
            results[mode] = function(*arguments, mode)
        except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as e:
            results[mode] = {"failed": str(e)}
    return results


def measure(stage, place, effort, large, say):
    say(f"as {place.name}: starts in each mode of the workspace")
    found = {"start": start(stage, place, effort)}
    say(f"as {place.name}: a tree of {trees.LARGE_FILES} files: hiding, review")
    large.prepare(place)
    time.sleep(REST_SECONDS)
    found["ignore"] = each(IGNORE_MODES, ignore_mode, stage, place, effort, large)
    found["review"] = each(REVIEW_MODES, review_mode, stage, place, effort, large)
    return found
