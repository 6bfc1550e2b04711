#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bawnd over its unix socket: runs and commands per second, latencies, a list of 10,000 files, memory.

    bench/service.py [--bawnd PATH] [--runs N] [--execs N] [--clients N]

On its own, as root or as a user; the service is started in a folder of its own. On a busy machine the figures say nothing.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def request(method, path, body=None, kind="application/json"):
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body is not None:
        head += f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
    return (head + "\r\n").encode() + data


def whole(data):
    """The body, once all of an answer is there; None before."""
    head, sep, body = data.partition(b"\r\n\r\n")
    if not sep:
        return None
    length = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    status = head.split(b" ", 2)[1]
    if status == b"204":
        return b""
    return body if length and len(body) >= length[0] else None


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)

    def call(self, *args, **kw):
        self.sock.sendall(request(*args, **kw))
        data = b""
        while (body := whole(data)) is None:
            part = self.sock.recv(1 << 20)
            if not part:
                raise ConnectionError(data)
            data += part
        return json.loads(body) if body else None


def load(path, clients, n, message, good):
    """n requests over so many connections, one at a time on each; returns requests per second and the sorted latencies in milliseconds."""
    poll, state = select.poll(), {}
    for _ in range(clients):
        c = Client(path)
        state[c.sock.fileno()] = [c.sock, b"", 0.0]
        poll.register(c.sock, select.POLLIN)
    begin, sent, times = time.monotonic(), 0, []
    for s in state.values():
        s[0].sendall(message)
        s[2] = time.monotonic()
        sent += 1
    while len(times) < n:
        for fd, _ in poll.poll():
            s = state[fd]
            s[1] += s[0].recv(1 << 20)
            body = whole(s[1])
            if body is None:
                continue
            assert good in body, s[1]
            times.append((time.monotonic() - s[2]) * 1000)
            s[1] = b""
            if sent < n:
                s[2] = time.monotonic()
                s[0].sendall(message)
                sent += 1
    return n / (time.monotonic() - begin), sorted(times)


def show(name, rate, times):
    print(f"{name:24} {rate:8.0f}/s   median {times[len(times) // 2]:7.1f} ms   p99 {times[int(len(times) * 0.99)]:7.1f} ms", flush=True)


def memory(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def measure(path, pid, a):
    c = Client(path)
    run = request("POST", "/v1/runs", {"command": ["true"], "wait": 60})
    load(path, a.clients, a.clients, run, b'"done"')
    before = memory(pid)
    show("runs of true", *load(path, a.clients, a.runs, run, b'"done"'))
    print(f"{'memory of bawnd':24} {before} KiB before, {memory(pid)} KiB after")
    box = c.call("POST", "/v1/sandboxes", {})["id"]
    show("exec of true", *load(path, a.clients, a.execs, request("POST", f"/v1/sandboxes/{box}/exec", {"command": ["true"]}), b'"status":0'))
    c.call("DELETE", f"/v1/sandboxes/{box}")
    held = c.call("POST", "/v1/runs", {"command": ["true"], "shape": {"mode": "direct"}, "hold": True})["id"]
    made = c.call("POST", "/v1/runs", {"command": ["true"], "hold": True})["id"]
    c.call("PUT", f"/v1/runs/{held}/file?path=x", b"", kind="application/octet-stream")
    for folder in pathlib.Path(a.top, "state").glob(f"tenants/*/runs/{held}/workspace"):
        for i in range(10000):
            (folder / f"file{i}").touch()
    times = []
    for _ in range(5):
        begin = time.monotonic()
        assert len(c.call("GET", f"/v1/runs/{held}/files?limit=10000")["items"]) == 10000
        times.append((time.monotonic() - begin) * 1000)
    show("10,000 files listed", 1000 / sorted(times)[2], sorted(times))
    c.call("POST", f"/v1/runs/{made}/cancel")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bawnd", default=ROOT / "build/bawnd")
    p.add_argument("--runs", type=int, default=2000)
    p.add_argument("--execs", type=int, default=5000)
    p.add_argument("--clients", type=int, default=16)
    a = p.parse_args()
    a.top = tempfile.mkdtemp(prefix="bawn-bench.", dir="/var/tmp")
    os.chmod(a.top, 0o755)
    path = f"{a.top}/run/api.sock"
    config = pathlib.Path(a.top, "bawnd.json")
    config.write_text(json.dumps({"state": f"{a.top}/state", "runtime": f"{a.top}/run"}))
    proc = subprocess.Popen([a.bawnd, "--config", config], stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                if Client(path).call("GET", "/v1/health"):
                    break
            except OSError:
                time.sleep(0.05)
        measure(path, proc.pid, a)
    finally:
        proc.send_signal(signal.SIGTERM)
        proc.wait()
        shutil.rmtree(a.top, ignore_errors=True)


if __name__ == "__main__":
    main()
