#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The byte link beside the fd link: bulk out of and into a sandbox, what a command in a persistent sandbox costs more, and what a small request and
its answer cost over streams that are open already.

    bench/link.py [BAWN]        BAWN: the installed program (default build/bawn)

`bench/run` calls measure(). Rounds of both are interleaved; medians. The same machine, jail and program: only how the bytes travel differs (BAWN_TEST_LINK=bytes).
"""
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS, REQUESTS, BULK = 7, 200, 1 << 30
ECHOES, ECHO_BYTES = 200, 64  # of each round
FD, BYTES = "fd", "bytes"
LINKS = {FD: {}, BYTES: {"BAWN_TEST_LINK": "bytes"}}


def seconds_of(command):
    begin = time.monotonic()
    command()
    return time.monotonic() - begin


class Box:
    """A persistent sandbox; how: arguments of subprocess."""

    def __init__(self, bawn, name, env, how, bulk=BULK):
        self.bawn, self.name, self.bulk = bawn, name, bulk
        self.options = {"stdin": subprocess.DEVNULL, **how, "env": {**how["env"], **env}}
        self.call("start", name, "--workspace", "overlay", "--network", "none")

    def call(self, *words, **kw):
        subprocess.run([self.bawn, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **{**self.options, **kw})

    def request(self):
        self.call("exec", self.name, "--", "true")

    def echo(self):
        """Of a process inside that answers what it gets: seconds of each request. `cat` writes what it read at once."""
        line, times = b"x" * ECHO_BYTES, []
        with subprocess.Popen([self.bawn, "exec", self.name, "--", "cat"], bufsize=0, stdout=subprocess.PIPE, **{**self.options, "stdin": subprocess.PIPE}) as p:
            for _ in range(ECHOES):
                begin, left = time.monotonic(), ECHO_BYTES
                p.stdin.write(line)
                while left:
                    part = p.stdout.read(left)
                    assert part, "the echo ended"
                    left -= len(part)
                times.append(time.monotonic() - begin)
            p.stdin.close()
        return times[1:]  # the first one waits for the command

    def bulk_out(self):
        with subprocess.Popen([self.bawn, "exec", self.name, "--", "head", "-c", str(self.bulk), "/dev/zero"], stdout=subprocess.PIPE, **self.options) as p:
            room, left = bytearray(1 << 20), self.bulk
            while left and (n := p.stdout.raw.readinto(room) if hasattr(p.stdout, "raw") else p.stdout.readinto(room)):
                left -= n
            assert left == 0

    def bulk_in(self):
        with subprocess.Popen(["head", "-c", str(self.bulk), "/dev/zero"], stdout=subprocess.PIPE) as zeros:
            self.call("exec", self.name, "--", "sh", "-c", "cat > /dev/null", stdin=zeros.stdout)


def compare(bawn, how, rounds, requests, bulk):
    """Medians of each link: bytes per second out and in, seconds of a command, and of a small request and its answer."""
    boxes = {}
    try:
        for kind, env in LINKS.items():
            boxes[kind] = Box(bawn, "bench-" + kind, env, how, bulk)
        rows = {kind: {"out": [], "in": [], "request": [], "echo": []} for kind in boxes}
        for _ in range(rounds):
            for kind, box in boxes.items():
                rows[kind]["out"].append(bulk / seconds_of(box.bulk_out))
                rows[kind]["in"].append(bulk / seconds_of(box.bulk_in))
                rows[kind]["echo"] += box.echo()
        for _ in range(requests):
            for kind, box in boxes.items():
                rows[kind]["request"].append(seconds_of(box.request))
        return {kind: {k: statistics.median(v) for k, v in r.items()} for kind, r in rows.items()}
    finally:
        for box in boxes.values():
            with contextlib.suppress(subprocess.CalledProcessError):
                box.call("rm", "-f", box.name)


def measure(stage, place, effort, say):
    say(f"as {place.name}: the byte link")
    return compare(stage.bawn, place.popen_empty(), effort.gateway_rounds, effort.rounds, effort.big_megabytes << 21)


def main():
    bawn = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/bawn")
    with tempfile.TemporaryDirectory(prefix="bawn-bench-link.") as folder:
        os.mkdir(folder + "/work")
        found = compare(bawn, {"env": {**os.environ, "XDG_STATE_HOME": folder + "/state", "XDG_RUNTIME_DIR": ""}, "cwd": folder + "/work"}, ROUNDS, REQUESTS, BULK)
    for kind, row in found.items():
        print(f"{kind:6} out {row['out'] / 1e9:6.2f} GB/s   in {row['in'] / 1e9:6.2f} GB/s   bawn exec {row['request'] * 1e6:7.0f} us   request {row['echo'] * 1e6:5.0f} us")
    print(f"a command costs {(found['bytes']['request'] - found['fd']['request']) * 1e6:.0f} us more over bytes, a request and its answer "
          f"{(found['bytes']['echo'] - found['fd']['echo']) * 1e6:.0f} us")


if __name__ == "__main__":
    main()
