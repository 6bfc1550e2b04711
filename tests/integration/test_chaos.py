# SPDX-License-Identifier: Apache-2.0
"""Chaos: random verbs from eight hands while random processes of ours are killed. Afterwards nothing is left over, and nothing is lost.

Each hand has a sandbox of its own, in overlay mode, whose changes it writes down; the others start, stop and use it, too, but never remove it.
"""

import collections
import contextlib
import os
import pathlib
import random
import re
import signal
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kept_left import cgroups, cgroups_of, ended, inside, leftovers, ours, settle  # noqa: E402

SECONDS = int(os.environ.get("BAWN_CHAOS_SECONDS", "60"))
HANDS, SHARED = 8, ("common-a", "common-b", "common-c")
KINDS = ("bawn", "bawn-keeper", "bawn-init", "bawn-gate")
KILLED = {-signal.SIGKILL, 128 + signal.SIGKILL}


class Hand(threading.Thread):
    def __init__(self, runner, number, end, seen, faults):
        super().__init__(daemon=True)
        self.runner, self.own, self.end, self.seen, self.faults = runner, f"hand-{number}", end, seen, faults
        self.random = random.Random(number)
        self.written = {}  # path in the overlay: content
        self.names = [self.own, *SHARED, *(f"hand-{i}" for i in range(HANDS))]

    def bawn(self, *words, **kw):
        r = self.runner.bawn(*words, **kw)
        self.seen[words[0]] += 1
        if r.rc not in KILLED and r.rc < 0:
            self.faults.append(f"ended by a signal: {r!r}")
        if r.rc == 125 and b"bawn:" not in r.err:
            self.faults.append(f"failed without a word: {r!r}")
        if b"Sanitizer" in r.err:
            self.faults.append(f"{r!r}")
        return r

    def any_name(self):
        return self.random.choice(self.names)

    def write(self):
        """What was written and reported as done is there for good."""
        path, text = f"file-{len(self.written)}", f"{self.own} {len(self.written)}"
        if self.bawn("exec", self.own, "--", "sh", "-c", f"echo {text} > {path}").rc == 0:
            self.written[path] = text

    def step(self):
        name = self.any_name()
        acts = {
            "start own": lambda: self.bawn("start", self.own, "--workspace", "overlay"),
            "start": lambda: self.bawn("start", self.random.choice(SHARED)),
            "write": self.write,
            "exec": lambda: self.bawn("exec", name, "--", "sh", "-c", "sleep 0.0$(( $$ % 7 )); exit 3"),
            "network": lambda: self.bawn("exec", name, "--", "bash", "-c", "read -r < /dev/tcp/10.99.99.99/80"),  # the gate refuses
            "background": lambda: self.bawn("exec", "-d", name, "--", "sleep", "1000"),
            "stop": lambda: self.bawn("stop", "-t", "0", name),
            "ps": lambda: self.bawn("ps", "-a", "--json"),
            "status": lambda: self.bawn("status", name, "--json"),
            "inspect": lambda: self.bawn("inspect", name, "--json"),
            "rename": lambda: self.bawn("rename", *self.random.sample(SHARED, 2)),
            "put": lambda: self.bawn("put", name, "/tmp/put", input=b"x" * 1000),
            "logs": lambda: self.bawn("logs", name),
            "run": lambda: self.bawn("run", "--", "true"),
            "checkpoint": lambda: self.bawn("checkpoint", self.own, f"c{self.random.randrange(3)}"),
            "fork": lambda: self.bawn("fork", self.own, "--name", f"{self.own}-fork"),
            "rm fork": lambda: self.bawn("rm", "--force", "--discard-changes", f"{self.own}-fork-1"),
            "rm common": lambda: self.bawn("rm", "--force", "--discard-changes", self.random.choice(SHARED)),
            "prune": lambda: self.bawn("prune"),
            "log": lambda: self.bawn("log", "--json", "--tail", "5"),
        }
        weights = {"start own": 4, "start": 3, "write": 6, "exec": 6, "background": 2, "stop": 2, "prune": 1, "checkpoint": 1, "fork": 1}
        names = list(acts)
        acts[self.random.choices(names, [weights.get(n, 2) for n in names])[0]]()

    def run(self):
        try:
            while time.monotonic() < self.end:
                self.step()
        except BaseException as e:  # a thread must not die silently
            self.faults.append(repr(e))


def kill_at_random(runner, end, killed):
    """Each kind is as likely as the others: there are few gates, and clients are short."""
    chance = random.Random(99)
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.05, 0.3))
        victims = ours(runner)
        if victims:
            name = chance.choice(sorted(set(victims.values())))
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice([pid for pid, n in sorted(victims.items()) if n == name]), signal.SIGKILL)
                killed[name] += 1


def overlay_file(runner, name, path):
    return runner.home / ".local/state/bawn/runs" / name / "upper" / path


@pytest.mark.no_sanitizer
def test_chaos(user_runner):
    with ended(user_runner) as runner:
        run(runner)


def run(runner):
    end, before = time.monotonic() + SECONDS, cgroups()
    seen, killed, faults, pids = collections.Counter(), collections.Counter(), [], set()
    hands = [Hand(runner, i, end, seen, faults) for i in range(HANDS)]
    for hand in hands:
        hand.start()
    killer = threading.Thread(target=kill_at_random, args=(runner, end, killed), daemon=True)
    killer.start()
    while time.monotonic() < end:
        pids |= set(ours(runner))
        time.sleep(0.05)
    for thread in [killer, *hands]:
        thread.join()
    assert not faults, "\n".join(faults[:5])
    assert min(killed[n] for n in KINDS) > 0 and sum(killed.values()) > SECONDS / 3 and seen["exec"] > SECONDS, (killed, seen)

    lost = [f"{h.own}: {path}" for h in hands for path, text in h.written.items()
            if not overlay_file(runner, h.own, path).exists() or overlay_file(runner, h.own, path).read_text() != text + "\n"]
    assert not lost and sum(len(h.written) for h in hands) > 10, lost

    stopped = runner.bawn("stop", "--all", "-t", "0")
    assert stopped.rc == 0, stopped
    assert settle(lambda: not ours(runner)), ours(runner)
    assert settle(lambda: not inside(runner)), inside(runner)
    pruned = runner.bawn("prune")
    assert pruned.rc == 0, pruned
    assert settle(lambda: not cgroups_of(pids, before)), cgroups_of(pids, before)
    assert not [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(runner.top) in line]
    assert leftovers(runner) == []

    boxes = runner.home / ".local/state/bawn/sandboxes"
    logs = {str(p): p.read_text(errors="replace") for p in boxes.glob("*/log/keeper.log*")}
    assert not [(path, text[-4000:]) for path, text in logs.items() if re.search(r"Sanitizer|runtime error|BUG", text)]
    rows = {row["name"] for row in runner.bawn("ps", "-a", "--json").json()}
    assert rows == {p.name for p in boxes.iterdir() if not p.name.startswith(".")}
    for name in sorted(rows):  # every one of them is whole: it starts, works and goes
        assert runner.bawn("start", name).rc == 0, name
        assert runner.bawn("exec", name, "--", "true").rc == 0
        assert runner.bawn("rm", "--force", "--discard-changes", name).rc == 0
    assert not ours(runner) and not inside(runner)
    assert list((runner.home / ".local/state/bawn/runs").iterdir()) == []
    verified = runner.bawn("log", "verify")
    assert verified.rc == 0, verified
