#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The weaker rungs beside the full one: cold start, new connections and requests through the gate, and bulk between two programs inside.

    bench/rung.py [BAWN]        BAWN: the installed program (default build/bawn)

`bench/run` calls measure(). Rounds of all rungs are interleaved; medians. Namespaces are denied by tests/degraded/deny.c; the full rung runs behind it,
too, with nothing denied, because a filter costs every call.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import gateway

HERE = os.path.dirname(os.path.abspath(__file__))
FULL, SHARED, LANDLOCK = "full", "shared-net", "landlock"
DENIED = {FULL: [], SHARED: ["netns"], LANDLOCK: ["userns"]}
START, NEW, REQUESTS, INSIDE = "cold start, ms", "new connection, us", "requests/s, 16 connections", "bulk between two programs inside, MB/s"
ROWS = (START, NEW, REQUESTS, INSIDE)
BULK = """
import socket, threading, time
size = %d
def serve(l):
    c, block, left = l.accept()[0], bytes(1 << 18), size
    while left > 0:
        left -= c.send(block)
    c.close()
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
threading.Thread(target=serve, args=(l,), daemon=True).start()
begin, c, room, n = time.monotonic(), socket.create_connection(l.getsockname()), bytearray(1 << 20), 0
while k := c.recv_into(room):
    n += k
print(n / (time.monotonic() - begin) / 1e6)
"""


class Server(gateway.Servers):
    """nginx alone."""

    def squid(self):
        return None

    def start(self, port, *cmd):
        return super().start(port, *cmd) if cmd[0] == "nginx" else None


def compile_deny(folder):
    program = os.path.join(folder, "deny")
    subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-I", f"{HERE}/../src", "-o", program, f"{HERE}/../tests/degraded/deny.c", "-lseccomp"], check=True)
    return program


class Rungs:
    def __init__(self, bawn, place, deny):
        self.bawn, self.place, self.deny = bawn, place, deny
        # Root's own workspace has no landlock rung: uid 0 owns the host's files.
        self.names = [r for r in DENIED if place.uid != 0 or r != LANDLOCK]

    def run(self, rung, *command):
        words = [self.deny, *DENIED[rung], "--", self.bawn, "run", "--no-secrets", "--pids", "30000", "--", *command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, **self.place.popen_as())
        said = "full" if "rung)" not in done.stderr else done.stderr.split(" rung)")[0].rsplit("(", 1)[1]
        if done.returncode or said != rung:
            raise RuntimeError(f"{rung}: {said}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def start(self, rung):
        begin = time.perf_counter()
        self.run(rung, "/bin/true")
        return (time.perf_counter() - begin) * 1e3

    def load(self, rung, kind, *options):
        out = json.loads(self.run(rung, "./load", *options, gateway.HOST, str(gateway.PLAIN), "/"))
        if out["errors"]:
            raise RuntimeError(f"{rung}: {out['errors']} errors")
        return gateway.MEASURES[kind](out)


def compare(rungs, rounds, starts, ms, megabytes):
    """Medians and samples: what -> rung -> values."""
    cases = {START: (starts, rungs.start),
             NEW: (rounds, lambda r: rungs.load(r, "new", "-n", "-t", str(ms))),
             REQUESTS: (rounds, lambda r: rungs.load(r, "requests", "-c", "16", "-t", str(ms))),
             INSIDE: (rounds, lambda r: float(rungs.run(r, "/usr/bin/python3", "-c", BULK % (megabytes << 20))))}
    found = {}
    for name, (n, one) in cases.items():
        samples = {r: [] for r in rungs.names}
        for _ in range(n):
            for r in rungs.names:
                samples[r].append(one(r))
        found[name] = {r: {"median": statistics.median(v), "samples": v} for r, v in samples.items()}
    return found


def measure(stage, place, effort, say):
    say(f"as {place.name}: the weaker rungs")
    folder = os.path.join(place.directory, "rung")
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    try:
        deny = compile_deny(folder)
        with Server(folder) as server:
            if not server.peers["nginx"]:
                return {"failed": "nginx is not there"}
            gateway.prepare(stage, place, server)
            return compare(Rungs(stage.bawn, place, deny), effort.gateway_rounds, max(effort.rounds // 4, 1), effort.gateway_ms, effort.big_megabytes)
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        return {"failed": str(e)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    import stage as stages

    bawn = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bawn")

    class Effort:
        gateway_rounds, rounds, gateway_ms, big_megabytes = 5, 80, 500, 64

    with stages.Stage(stages.TEST_USER, bawn) as stage:
        for place in stage.places:
            for what, row in measure(stage, place, Effort, lambda text: print(text, file=sys.stderr)).items():
                print(f"{place.name:10} {what:42}", row if isinstance(row, str) else "   ".join(f"{r} {v['median']:.4g}" for r, v in row.items()))


if __name__ == "__main__":
    main()
