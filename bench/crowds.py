# SPDX-License-Identifier: Apache-2.0
"""How cost grows with the number of sandboxes beside each other, and of connections through one gate: rows of growth.py."""
import functools
import os
import shutil
import socket
import statistics
import subprocess
import threading
import time

import gateway
import kept

HOLD_MS = 400  # connections stay open so long after the last one, to look at the gate's memory
STARTS = 5  # of which the median counts


class Listener:
    """Accepts on loopback and closes at once."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def serve(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return

    def __exit__(self, *unused):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def milliseconds(call):
    begin = time.monotonic()
    call()
    return (time.monotonic() - begin) * 1e3


def crowd(stage, place, sizes):
    """Yields n when there are so many idle sandboxes; they are ended with the generator."""
    names = []
    try:
        for n in sizes:
            while len(names) < n:
                names.append(f"grow-{len(names)}")
                kept.bawn(stage, place, "start", names[-1], "--memory", kept.MANY_MEMORY)
            yield n
    finally:
        for at in range(0, len(names), 500):
            kept.bawn(stage, place, "rm", "--force", *names[at:at + 500], check=False)


@functools.lru_cache
def crowds_of(stage, place, sizes):
    """[(n, ms of one more start, ms of a listing)]"""
    def one(i):
        took = milliseconds(lambda: kept.bawn(stage, place, "start", f"one-{i}", "--memory", kept.MANY_MEMORY))
        kept.bawn(stage, place, "rm", "--force", f"one-{i}", check=False)
        return took

    def listing():
        return milliseconds(lambda: kept.bawn(stage, place, "ps", "-q"))

    return [(n, statistics.median(one(i) for i in range(STARTS)), statistics.median(listing() for _ in range(STARTS))) for n in crowd(stage, place, sizes)]


def by_start(stage, place, sizes, effort):
    return [(n, ms) for n, ms, _ in crowds_of(stage, place, sizes)]


def by_listing(stage, place, sizes, effort):
    return [(n, ms) for n, _, ms in crowds_of(stage, place, sizes)]


def gates_of(stage):
    """Those that were started from this stage."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            exe = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
        if exe == os.path.join(os.path.dirname(stage.bawn), "bawn-gate"):
            found.append(pid)
    return found


def memory(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("VmHWM")), 0)
    except OSError:
        return 0


def connections(stage, place, *options):
    """{"seconds", "requests", ..., "kib": of the gate, at most} of one run of load.c inside."""
    command = [stage.bawn, "run", "--no-secrets", "--", os.path.join(place.workspace, "load"), *options, gateway.HOST, str(gateway.PLAIN), "/"]
    done = {}

    def run():
        done.update(p=subprocess.run(command, capture_output=True, text=True, timeout=300, **place.popen_as()))

    thread, kib = threading.Thread(target=run), 0
    thread.start()
    while thread.is_alive():
        kib = max([kib, *map(memory, gates_of(stage))])
        thread.join(0.05)
    if done["p"].returncode:
        raise RuntimeError(f"load: {done['p'].stderr.strip()[-300:]}")
    return {**gateway.json.loads(done["p"].stdout), "kib": kib}


@functools.lru_cache
def runs_of(stage, place, sizes, sequence):
    """[(n, what connections() says)]"""
    def options(n):
        return ("-n", "-r", str(n)) if sequence else ("-k", str(n), "-w", str(HOLD_MS))

    with gateway.Servers(place.directory, peers=False) as servers:
        shutil.copy(stage.load, os.path.join(place.workspace, "load"))
        gateway.rules(place, servers.d)
        found = [(n, connections(stage, place, *options(n))) for n in sizes]
    wrong = [f"{r['errors']} of {n}" for n, r in found if r["errors"] or r["requests"] < n]
    if wrong:
        raise RuntimeError("connections failed: " + ", ".join(wrong))
    return found


def by_connections(stage, place, sizes, effort):
    return [(n, r["seconds"] * 1e3) for n, r in runs_of(stage, place, sizes, False)]


def by_gate_memory(stage, place, sizes, effort):
    return [(n, r["kib"]) for n, r in runs_of(stage, place, sizes, False)]


def by_sequence(stage, place, sizes, effort):
    return [(n, r["seconds"] * 1e3) for n, r in runs_of(stage, place, sizes, True)]
