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
import threading
import time

import pytest

SECONDS = int(os.environ.get("BAWN_CHAOS_SECONDS", "60"))
HANDS, SHARED = 8, ("common-a", "common-b")
KILLED = {-signal.SIGKILL, 128 + signal.SIGKILL}


def ours(runner):
    """{pid: name} of Bawn's processes of this test: told by HOME, or, where there is no environment (PID 1 inside), by the parent."""
    home, found, rest = f"HOME={runner.home}".encode(), {}, []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            exe = os.readlink(entry / "exe").removesuffix(" (deleted)")
            if not os.path.basename(exe).startswith("bawn"):
                continue
            parent = int(re.search(r"^PPid:\s*(\d+)", (entry / "status").read_text(), re.M)[1])
            if home in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = os.path.basename(exe)
            else:
                rest.append((int(entry.name), parent, os.path.basename(exe)))
    found.update({pid: name for pid, parent, name in rest if parent in found})
    return found


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
            "background": lambda: self.bawn("exec", "-d", name, "--", "sleep", "1000"),
            "stop": lambda: self.bawn("stop", "-t", "0", name),
            "ps": lambda: self.bawn("ps", "-a", "--json"),
            "status": lambda: self.bawn("status", name, "--json"),
            "inspect": lambda: self.bawn("inspect", name, "--json"),
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
    chance = random.Random(99)
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.1, 0.6))
        victims = sorted(ours(runner).items())
        if victims:
            pid, name = chance.choice(victims)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed[name] += 1


def settle(condition):
    end = time.monotonic() + 120
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def cgroups_of(runner, pids):
    return [str(p) for p in pathlib.Path("/sys/fs/cgroup").rglob("bawn-*") if p.is_dir() and any(p.name.startswith(f"bawn-{pid}-") for pid in pids)]


def overlay_file(runner, name, path):
    return runner.home / ".local/state/bawn/runs" / name / "upper" / path


@pytest.mark.no_sanitizer
def test_chaos(user_runner):
    runner, end = user_runner, time.monotonic() + SECONDS
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
    assert sum(killed.values()) > SECONDS / 4 and seen["exec"] > SECONDS, (killed, seen)

    lost = [f"{h.own}: {path}" for h in hands for path, text in h.written.items()
            if not overlay_file(runner, h.own, path).exists() or overlay_file(runner, h.own, path).read_text() != text + "\n"]
    assert not lost and sum(len(h.written) for h in hands) > 10, lost

    assert runner.bawn("stop", "--all", "-t", "0").rc == 0
    assert settle(lambda: not ours(runner)), ours(runner)
    done = runner.bawn("prune")
    assert done.rc == 0, done
    run_folder = runner.home / ".local/state/bawn/run"
    assert [p for p in run_folder.rglob("*") if p.is_socket()] == []
    assert settle(lambda: not cgroups_of(runner, pids)), cgroups_of(runner, pids)
    assert not [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(runner.top) in line]

    rows = {row["name"] for row in runner.bawn("ps", "-a", "--json").json()}
    folders = {p.name for p in (runner.home / ".local/state/bawn/sandboxes").iterdir() if not p.name.startswith(".")}
    assert rows == folders
    assert not [p.name for p in (runner.home / ".local/state/bawn/sandboxes").iterdir() if p.name.startswith((".new", ".gone"))]
    verified = runner.bawn("log", "verify")
    assert verified.rc == 0, verified
    for name in rows:  # every one of them is whole: it starts, works and goes
        assert runner.bawn("start", name).rc == 0, name
        assert runner.bawn("exec", name, "--", "true").rc == 0
        assert runner.bawn("rm", "--force", "--discard-changes", name).rc == 0
    assert not ours(runner)
