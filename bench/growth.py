# SPDX-License-Identifier: Apache-2.0
"""How cost grows: the same thing at several sizes, beside each other. One table; docs/scale.md says what the rows mean."""
import os
import shutil
import statistics
import subprocess
import time

import trees

SECONDS_MAX = 600
LINEAR = 1.5  # cost may grow so many times as fast as the size, which leaves room for caches that get too small


def timed(place, argv, ok=(0,)):
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS_MAX, **place.popen_as())
    if done.returncode not in ok:
        raise RuntimeError(f"exit status {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
    return (time.monotonic() - began) * 1e3


def folder(place, name):
    path = os.path.join(place.directory, "growth", name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    place.own(os.path.dirname(path), path)
    return path


def filled(stage, place, name, count):
    path = folder(place, name)
    subprocess.run([stage.io, "--warm", "0", "create", os.path.join(path, "tree"), str(count)], check=True, stdout=subprocess.DEVNULL, **place.popen_as())
    return path


def start(stage, place, path, *command):
    return [stage.bawn, "run", "-w", "direct", "-C", path, "--", *(command or ("/bin/true",))]


def by_files(stage, place, n):
    return start(stage, place, filled(stage, place, "files", n))


def by_hidden(stage, place, n):
    path = filled(stage, place, "hidden", n)
    trees.write(os.path.join(path, ".sandboxignore"), b"*.txt\n")
    return start(stage, place, path)


def by_rules(stage, place, n):
    path = folder(place, "rules")
    trees.write(os.path.join(path, ".sandboxignore"), "".join(f"name{i}*.x\n" for i in range(n)).encode())
    return start(stage, place, path)


def by_changes(stage, place, n):
    path = filled(stage, place, "changes", n)
    return start(stage, place, path, "rm", "-rf", os.path.join(path, "tree"))


def by_rollback(stage, place, n):
    timed(place, by_changes(stage, place, n))
    return [stage.bawn, "rollback", "-C", os.path.join(place.directory, "growth", "changes")]


# what grows, how a size is made ready (returns what is timed), sizes, sizes with --quick, whether it can be repeated without making it again
ROWS = (
    ("start, files in the workspace", by_files, (1000, 10000, 50000, 500000), (1000, 10000), True),
    ("start, hidden files", by_hidden, (100, 1000, 10000), (100, 1000), True),
    ("start, rules of .sandboxignore", by_rules, (10, 100, 1000, 9000), (10, 1000), True),
    ("rm -rf, files in the journal", by_changes, (1000, 10000, 100000), (500, 2000), False),
    ("rollback, files in the journal", by_rollback, (1000, 10000, 100000), (500, 2000), False),
)


def row(stage, place, make, sizes, again, rounds):
    """[(size, ms)]."""
    found = []
    for n in sizes:
        command = make(stage, place, n)
        found.append((n, statistics.median(timed(place, command) for _ in range(rounds if again else 1))))
    return found


def growth(points):
    """How many times as fast as the size the cost grew, over the last step: 1 is linear."""
    (n0, c0), (n1, c1) = points[-2:]
    return (c1 / c0) / (n1 / n0)


def measure(stage, place, effort, say):
    say(f"as {place.name}: how cost grows")
    found = {}
    for name, make, sizes, quick, again in ROWS:
        try:
            points = row(stage, place, make, quick if effort.growth_quick else sizes, again, effort.growth_rounds)
            found[name] = {"points": points, "growth": growth(points)}
        except (RuntimeError, OSError, subprocess.SubprocessError) as e:
            found[name] = {"failed": str(e)}
    shutil.rmtree(os.path.join(place.directory, "growth"), ignore_errors=True)
    return found
