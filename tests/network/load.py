#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Load on the gate: a thousand connections at once, and mixed work for minutes. Nothing may leak, get stuck, or be logged twice or not at all.

    tests/network/load.py                       ten minutes, as root; BAWN=FILE tests another program than build/bawn
    tests/network/load.py --minutes 60 --user   as the ordinary user bawn-test
    tests/network/load.py --at-once 3000        connections at once

test_load.py is the short one, for CI. Both go in rounds. In each round clients inside one sandbox (load_inside.py) do their work against the
tests' own internet (world.py), check every answer, and say which verdicts the log must have. After each round, when all is quiet:

    log      every verdict is there exactly once, and no other one
    internet no name or address that was denied was asked for or reached
    fds      as many sockets as after the first round: no connection is left over. Pipes are kept for use again, up to RELAY_PIPES_MAX (relay.h)
    memory   resident, within MEMORY_BOUND of what it was after the second round, when each kind of work was done once
    programs the same processes: nobody crashed and was started anew

Prints a line for each round, and PASS or FAIL; the exit status says the same. A benchmark it is not: it has no opinion about speed.
"""

import argparse
import collections
import contextlib
import importlib.util
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MEMORY_BOUND = {"bawn": 4 << 20, "bawn-gate": 16 << 20, "bawn-broker": 4 << 20}  # bytes more than after the second round
WARM = 2
PIPES_MAX = 2 * 64 + 8
QUIET = 60  # seconds without anything new before something counts as missing
RULES = [
    {"id": "pass", "action": "allow", "host": "pass.example.com"},
    {"id": "look", "action": "allow", "host": "deep.example.com", "paths": ["/r/**", "/bytes/*"], "inspect": True},
    {"id": "away", "action": "allow", "host": "away.example.com", "inspect": True, "ports": [80, 443]},
    {"id": "away-echo", "action": "allow", "host": "away.example.com", "ports": [7]},
]


class Follower:
    """Reads a log that is renamed when it is full; lines are given once."""

    def __init__(self, path):
        self.path, self.file, self.rest = path, None, b""

    def lines(self):
        while True:
            if self.file is None:
                if not self.path.exists():
                    return
                self.file = open(self.path, "rb")
            data = self.file.read()
            if not data and not self.renamed():
                return
            if not data and not (data := self.file.read()):
                self.file.close()
                self.file = None
                continue
            *whole, self.rest = (self.rest + data).split(b"\n")
            yield from map(json.loads, whole)

    def renamed(self):
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self.path).st_ino != os.fstat(self.file.fileno()).st_ino
        return True


def verdict(entry):
    return f"{entry['kind']} {entry['action']} {entry['host']} {entry['port']} {entry['path']}".strip()


class Process:
    """Sockets, pipes and memory of one of ours."""

    def __init__(self, pid):
        self.pid = pid
        self.program = os.readlink(f"/proc/{pid}/exe")
        self.name = os.path.basename(self.program)

    def descriptors(self):
        kinds = collections.Counter()
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                kinds[os.readlink(f"/proc/{self.pid}/fd/{fd}").split(":")[0]] += 1
        pipes = kinds.pop("pipe", 0)
        return sum(kinds.values()), pipes

    def memory(self, what="VmRSS"):
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what + ":"))

    def sanitized(self):
        """AddressSanitizer keeps on purpose what was freed."""
        return b"__asan_init" in pathlib.Path(f"/proc/{self.pid}/exe").read_bytes()


def children(pid):
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError):
            p = Process(int(child))
            making = b"--make" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()  # the next sandbox's CA; it ends soon
            if p.name in ("bawn-gate", "bawn-broker") and not making:
                yield p


class Load:
    def __init__(self, net, say=lambda line: None):
        self.net, self.say, self.wrong, self.done = net, say, [], collections.Counter()
        for name in ("pass", "deep", "away"):
            net.names[f"{name}.example.com"] = ["11.0.0.10"]
        net.names["*"] = ["11.0.0.11"]
        net.rules(*RULES, mode="list")
        self.open_many()
        self.log = Follower(net.runner.home / ".local" / "state" / "bawn" / "log" / "network.jsonl")
        self.seen, self.ends, self.first, self.first_processes, self.rounds = collections.Counter(), collections.Counter(), None, None, 0
        net.runner.write("load_inside.py", (HERE / "load_inside.py").read_bytes())
        self.err = tempfile.TemporaryFile()
        command = net.command("/usr/bin/python3", "load_inside.py", options=["-w", "ro"])
        self.run = net.popen(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err)

    def open_many(self):
        """The servers hold as many connections as the sandbox opens."""
        for p in self.net.world.made:
            most = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (most, most))

    def bad(self, text):
        self.wrong.append(f"round {self.rounds}: {text}")
        self.say(f"  {text}")

    def order(self, *words):
        """One round."""
        self.rounds += 1
        self.run.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        self.run.stdin.flush()
        line = self.run.stdout.readline()
        if not line:
            self.err.seek(0)
            raise RuntimeError(f"the sandbox ended: {self.err.read()[-2000:]}")
        answer = json.loads(line)
        self.done.update(answer["done"])
        for text in collections.Counter(answer["failed"]).most_common(5):
            self.bad(f"{text[1]} x {text[0]}")
        self.check_log(dict(answer["verdicts"]))
        self.check_internet()
        self.check_processes(words)

    def read_log(self):
        n = 0
        for entry in self.log.lines():
            n += 1
            if entry["kind"] == "trouble" and entry["host"] == "away.example.com":
                continue  # who walks away may do so in a handshake
            if entry["kind"] == "end":
                self.ends[f"{entry['host']} {entry['port']}"] += entry.get("count", 1)
            else:
                self.seen[verdict(entry)] += entry.get("count", 1)
        return n

    def wait_for(self, condition):
        """Until it holds, or nothing has changed for long. Returns whether it holds."""
        last, since = None, time.monotonic()
        while True:
            now = condition()
            if now is True:
                return True
            if now != last:
                last, since = now, time.monotonic()
            if time.monotonic() - since > QUIET:
                return False
            time.sleep(0.05)

    def check_log(self, verdicts):
        exact = {k: n for k, n in verdicts.items() if not k.startswith("?")}
        at_most = {k[1:]: n for k, n in verdicts.items() if k.startswith("?")}
        relayed = {k.split(" ", 2)[2]: n for k, n in exact.items() if k.startswith("connection allow")}

        def complete():
            self.read_log()
            short = sum(n - min(self.seen[k], n) for k, n in exact.items()) + sum(n - min(self.ends[k], n) for k, n in relayed.items())
            return short == 0 or short

        self.wait_for(complete)
        time.sleep(0.2)
        self.read_log()
        for k in exact.keys() | self.seen.keys() - at_most.keys():
            if exact.get(k, 0) != self.seen[k]:
                self.bad(f"verdict '{k}': {exact.get(k, 0)} were due, {self.seen[k]} were logged")
        for k, n in at_most.items():
            if self.seen[k] > n:
                self.bad(f"verdict '{k}': at most {n} were due, {self.seen[k]} were logged")
        for k, n in relayed.items():
            if self.ends[k] != n:
                self.bad(f"ends of connections to {k}: {n} were due, {self.ends[k]} were logged")
        self.logged = sum(self.seen.values()) + sum(self.ends.values())
        self.seen.clear()
        self.ends.clear()

    def check_internet(self):
        reached = self.net.hits(to="11.0.0.11")
        asked = [q for q in self.net.queries() if "denied" in q]
        if reached or asked:
            self.bad(f"what was denied was reached: {(reached + asked)[:3]}")
        self.net.forget()

    def check_processes(self, words):
        processes = {p.name: p for p in [Process(self.run.pid), *children(self.run.pid)]}
        if self.first is None:
            self.settled(processes)
            self.first_processes = {name: p.pid for name, p in processes.items()}
            self.first = {name: p.descriptors() for name, p in processes.items()}
        elif self.first_processes != {name: p.pid for name, p in processes.items()}:
            self.bad(f"other processes than at first: {self.first_processes}, {processes}")
        self.wait_for(lambda: self.left_over(processes) <= 0 or self.left_over(processes))
        self.print_round(words, processes)
        for name, p in processes.items():
            (sockets, pipes), before = p.descriptors(), self.first.get(name, (0, 0))
            if sockets > before[0]:
                self.bad(f"{name}: {sockets} descriptors, {before[0]} after the first round")
            if pipes > max(before[1], PIPES_MAX):
                self.bad(f"{name}: {pipes} ends of pipes")
        self.check_memory(processes)

    def check_memory(self, processes):
        if self.rounds == WARM:
            self.warm = {name: p.memory() for name, p in processes.items()}
        for name, p in processes.items() if self.rounds > WARM else ():
            if p.memory() > self.warm.get(name, 0) + MEMORY_BOUND[name] and not p.sanitized():
                self.bad(f"{name}: {p.memory() >> 10} KiB, {self.warm.get(name, 0) >> 10} KiB after round {WARM}")

    def settled(self, processes):
        """The first round has no number to compare with: wait until there are no more descriptors than a gate without work has."""
        gate = processes["bawn-gate"]
        before = [gate.descriptors()[0]]
        while len(before) < 40 or len(set(before[-40:])) > 1:  # unchanged for two seconds, as long as FLOW_LINGER_MS
            time.sleep(0.06)
            before.append(gate.descriptors()[0])

    def left_over(self, processes):
        return sum(max(p.descriptors()[0] - self.first.get(name, (0, 0))[0], 0) for name, p in processes.items())

    def print_round(self, words, processes):
        row = [f"{self.rounds:5}  {' '.join(map(str, words)):14} {self.logged:7}"]
        for name in MEMORY_BOUND:
            p = processes.get(name)
            row.append(f"{p.memory() >> 10:7} {p.memory('VmHWM') >> 10:7} {p.descriptors()[0]:4} {p.descriptors()[1]:4}" if p else f"{'-':>25}")
        self.say(" | ".join(row))

    def heading(self):
        self.say(" | ".join([" " * 29, *(f"{name:25}" for name in MEMORY_BOUND)]))
        self.say(" | ".join(["round  order            logged", *["    KiB    peak  fds pipe"] * len(MEMORY_BOUND)]))

    def end(self):
        self.run.stdin.close()
        if self.run.wait() != 0:
            self.err.seek(0)
            self.bad(f"exit status {self.run.returncode}: {self.err.read()[-2000:]}")
        return self.wrong


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def rounds(load, o):
    until = time.monotonic() + o.minutes * 60
    load.heading()
    load.order("hold", o.at_once)
    while time.monotonic() < until:
        load.order("mix", o.jobs, o.at_once)
    load.order("hold", o.at_once)
    return load.end()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--minutes", type=float, default=10)
    p.add_argument("--at-once", type=int, default=1000)
    p.add_argument("--jobs", type=int, default=8000, help="in each round")
    p.add_argument("--user", action="store_true", help="as bawn-test, not as root")
    o = p.parse_args()
    common, network = module("common_conftest", HERE.parent / "conftest.py"), module("network_conftest", HERE / "conftest.py")
    bawn = pathlib.Path(os.environ.get("BAWN", HERE.parent.parent / "build" / "bawn")).resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-load.", dir="/var/tmp"))
    folder.chmod(0o755)
    world = network.World(folder)
    try:
        with common.make_runner("user" if o.user else "root", bawn) as runner:
            load = Load(network.Net(world, runner), say=lambda line: print(line, flush=True))
            wrong = rounds(load, o)
    finally:
        world.end()
        shutil.rmtree(folder)
    print(" ".join(f"{name} {n}" for name, n in sorted(load.done.items())))
    print("FAIL" if wrong else "PASS")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
