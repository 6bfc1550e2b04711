# SPDX-License-Identifier: Apache-2.0
"""How cost grows: the same thing at several sizes, beside each other. One table; docs/scale.md says what the rows mean."""
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import time

import crowds
import gateway
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


def by_policy(stage, place, n):
    """One connection, which starts the gate; the rule that allows it is the last of n."""
    path = folder(place, "policy")
    home = os.path.join(place.directory, "growth", "home", "bawn")
    os.makedirs(home, exist_ok=True)
    rules = [{"id": f"r{i}", "action": "allow", "host": f"host{i}.example.com"} for i in range(n - 1)]
    rules.append({"id": "last", "action": "allow", "host": gateway.HOST, "allow_private": True, "ports": [place.growth_port]})
    trees.write(os.path.join(home, "network.json"), json.dumps({"rules": rules}).encode())
    place.own(os.path.dirname(home), home, os.path.join(home, "network.json"))
    return ["env", "XDG_CONFIG_HOME=" + os.path.dirname(home), *start(stage, place, path, "bash", "-c", f"exec 3<>/dev/tcp/{gateway.HOST}/{place.growth_port}")]


def by_log(stage, place, n):
    """A log of n lines, chained as spec/audit-events.md says."""
    top = os.path.join(folder(place, "log"), "state")
    env = ["env", "XDG_STATE_HOME=" + top]
    timed(place, [*env, *start(stage, place, folder(place, "log-work"))])
    path = os.path.join(top, "bawn", "audit", "user.jsonl")
    with open(path, "rb") as f:
        last = f.read().splitlines()[-1].decode()
    event = json.loads(last)
    seq, prev = event["seq"], event["hash"]
    front, back = last[:last.rindex('"prev"')].replace(f'{{"seq":{seq},', "", 1), ""
    with open(path, "ab") as f:
        for seq in range(seq + 1, n + 1):
            back = f'{{"seq":{seq},{front}"prev":"{prev}"'
            prev = hashlib.sha256(back.encode()).hexdigest()
            f.write(f'{back},"hash":"{prev}"}}\n'.encode())
    with open(path[:-len("jsonl")] + "head", "r+b") as f:
        number = f.read().split()[2].decode()
        f.seek(0)
        f.write(f"{seq:020d} {os.path.getsize(path):020d} {number} {prev}\n".encode())
    return [*env, stage.bawn, "log", "verify"]


def by_command(make, again):
    """A row of commands: how a size is made ready, and whether it can be repeated without making it again."""
    def points(stage, place, sizes, effort):
        found = []
        for n in sizes:
            command = make(stage, place, n)
            found.append((n, statistics.median(timed(place, command) for _ in range(effort.growth_rounds if again else 1))))
        return found
    return points


def by_policy_rules(stage, place, sizes, effort):
    with crowds.Listener() as listener:
        place.growth_port = listener.port
        return by_command(by_policy, True)(stage, place, sizes, effort)


# what grows, how it is measured, sizes, sizes with --quick. The unit is ms, unless the name says another.
ROWS = (
    ("start, files in the workspace", by_command(by_files, True), (1000, 10000, 50000, 500000), (1000, 10000, 100000)),
    ("start, hidden files", by_command(by_hidden, True), (100, 1000, 10000), (100, 1000)),
    ("start, rules of .sandboxignore", by_command(by_rules, True), (10, 100, 1000, 9000), (10, 1000, 9000)),
    ("start and a connection, rules of the network", by_policy_rules, (10, 100, 1000, 10000), (10, 1000, 10000)),
    ("rm -rf, files in the journal", by_command(by_changes, False), (1000, 10000, 100000), (500, 2000)),
    ("rollback, files in the journal", by_command(by_rollback, False), (1000, 10000, 100000), (500, 2000)),
    ("bawn log verify, lines", by_command(by_log, True), (1000, 10000, 100000, 1000000), (1000, 10000, 100000)),
    ("start of a kept one, beside n others", crowds.by_start, (10, 100, 500, 2000), (10, 100, 500)),
    ("bawn ps of n", crowds.by_listing, (10, 100, 500, 2000), (10, 100, 500)),
    ("n connections at once", crowds.by_connections, (10, 100, 1000, 4000), (10, 100, 1000, 4000)),
    ("n connections at once, KiB of the gate", crowds.by_gate_memory, (10, 100, 1000, 4000), (10, 100, 1000, 4000)),
    ("n connections, one after the other", crowds.by_sequence, (100, 1000, 10000), (100, 1000, 10000)),
)


def growth(points):
    """How many times as fast as the size the cost grew, over the last step: 1 is linear."""
    (n0, c0), (n1, c1) = points[-2:]
    return (c1 / c0) / (n1 / n0)


def measure(stage, place, effort, say):
    found = {}
    for name, measured, sizes, quick in ROWS:
        say(f"as {place.name}: how cost grows: {name}")
        try:
            points = measured(stage, place, quick if effort.growth_quick else sizes, effort)
            found[name] = {"points": points, "growth": growth(points)}
        except (RuntimeError, OSError, subprocess.SubprocessError) as e:
            found[name] = {"failed": str(e)}
    shutil.rmtree(os.path.join(place.directory, "growth"), ignore_errors=True)
    return found
