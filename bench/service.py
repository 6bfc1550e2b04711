#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bawnd over its unix socket: runs and commands per second, latencies, a list of 10,000 files, streams of events, memory; beside docker's API.

    bench/service.py [--bawnd PATH] [--runs N] [--execs N] [--clients N] [--streams N]

On its own, as root or as a user; the service is started in a folder of its own. `make bench` has the same as a table. On a busy machine the figures say
nothing. `--runs 20000` is the test of memory.
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


def p99(times):
    return times[int(len(times) * 0.99)]


def streams(path, n, run):
    """n clients that follow the events of one run; returns how long after its end the last of them has it, in milliseconds."""
    clients = [Client(path) for _ in range(n)]
    for c in clients:
        c.sock.sendall(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode())
    seen = {c: b"" for c in clients}
    for c in clients:
        while b"running" not in seen[c]:
            seen[c] += c.sock.recv(1 << 16)
    begin = time.monotonic()
    Client(path).call("POST", f"/v1/runs/{run}/signal", {"signal": 9})
    for c in clients:
        while b'"exit"' not in seen[c]:
            part = c.sock.recv(1 << 16)
            assert part, seen[c][-300:]
            seen[c] += part
    return (time.monotonic() - begin) * 1000


def listing(c, top):
    held = c.call("POST", "/v1/runs", {"command": ["true"], "shape": {"mode": "direct"}, "hold": True})["id"]
    c.call("PUT", f"/v1/runs/{held}/file?path=x", b"", kind="application/octet-stream")
    for folder in pathlib.Path(top, "state").glob(f"tenants/*/runs/{held}/workspace"):
        uid = folder.stat().st_uid
        for i in range(10000):
            os.close(os.open(folder / f"file{i}", os.O_CREAT | os.O_WRONLY))
            if os.geteuid() == 0 and uid:
                os.chown(folder / f"file{i}", uid, uid)
    times = []
    for _ in range(5):
        begin = time.monotonic()
        assert len(c.call("GET", f"/v1/runs/{held}/files?limit=10000")["items"]) == 10000
        times.append((time.monotonic() - begin) * 1000)
    c.call("POST", f"/v1/runs/{held}/cancel")
    return sorted(times)


def figures(path, pid, top, runs, execs, clients, n_streams):
    """All of it: a dictionary."""
    found = {}
    run = request("POST", "/v1/runs", {"command": ["true"], "wait": 60})
    load(path, clients, 20 * clients, run, b'"done"')
    found["memory_before"] = memory(pid)
    found["runs"], found["runs_ms"] = load(path, clients, runs, run, b'"done"')
    found["memory_after"] = memory(pid)
    c = Client(path)  # not before: a connection on which nothing happens for a minute is closed
    box = c.call("POST", "/v1/sandboxes", {})["id"]
    found["execs"], found["execs_ms"] = load(path, clients, execs, request("POST", f"/v1/sandboxes/{box}/exec", {"command": ["true"]}), b'"status":0')
    c.call("DELETE", f"/v1/sandboxes/{box}")
    found["list_ms"] = listing(c, top)
    long = c.call("POST", "/v1/runs", {"command": ["sleep", "1000"]})["id"]
    found["streams_ms"] = streams(path, n_streams, long)
    return found


class Daemon:
    """bawnd in a folder of its own; how: arguments for subprocess."""

    def __init__(self, bawnd, **how):
        self.top = tempfile.mkdtemp(prefix="bawn-bench.", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        if "user" in how:
            os.chown(self.top, how["user"], how["group"])
        self.runtime = tempfile.mkdtemp(prefix="bawn-bench.", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)  # memory, as /run is
        if "user" in how:
            os.chown(self.runtime, how["user"], how["group"])
        os.chmod(self.runtime, 0o755)
        self.path = f"{self.runtime}/api.sock"
        config = pathlib.Path(self.top, "bawnd.json")
        config.write_text(json.dumps({"state": f"{self.top}/state", "runtime": self.runtime, "any_user": True}))
        self.proc = subprocess.Popen([bawnd, "--config", config], stderr=subprocess.DEVNULL, **how)

    def __enter__(self):
        while True:
            try:
                if Client(self.path).call("GET", "/v1/health"):
                    return self
            except OSError:
                assert self.proc.poll() is None, "bawnd does not start"
                time.sleep(0.05)

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGTERM)
        self.proc.wait()
        shutil.rmtree(self.top, ignore_errors=True)
        shutil.rmtree(self.runtime, ignore_errors=True)


# -- for bench/run ---------------------------------------------------------------------------------------------------------


def docker_figures(stage, place, runs, execs):
    """Containers that run true, one after another, and commands in one that runs: docker's own API, per second."""
    import containers  # noqa: PLC0415 (only bench/run has what it needs)

    daemon = containers.Docker(place.name)
    try:
        containers.commands(stage, place, "docker", {"DOCKER_HOST": daemon.host})  # makes the image
        image = daemon.call("images", "--quiet", "bawn-root", check=True).stdout.split()[0].decode()
        path = daemon.host.removeprefix("unix://")
        host = {"NetworkMode": "none", "Binds": ["/usr:/usr:ro"]}

        def once(command):
            c = Client(path)
            made = c.call("POST", "/v1.41/containers/create", {"Image": image, "Cmd": command, "HostConfig": host})["Id"]
            c.call("POST", f"/v1.41/containers/{made}/start")
            return made

        def many(n, step):
            begin = time.monotonic()
            for _ in range(n):
                step()
            return n / (time.monotonic() - begin)

        def run():
            made = once(["/usr/bin/true"])
            docker_call(path, "POST", f"/v1.41/containers/{made}/wait")
            docker_call(path, "DELETE", f"/v1.41/containers/{made}?force=1")

        box = once(["/usr/bin/sleep", "100000"])

        def execute():
            made = Client(path).call("POST", f"/v1.41/containers/{box}/exec", {"Cmd": ["/usr/bin/true"]})["Id"]
            docker_call(path, "POST", f"/v1.41/exec/{made}/start", {"Detach": False, "Tty": False})

        return {"runs": many(runs, run), "execs": many(execs, execute)}
    finally:
        daemon.end()


def docker_call(path, method, target, body=None):
    """Whatever the answer is, to its end: docker sends some in chunks, and some until it hangs up."""
    c = Client(path)
    c.sock.sendall(request(method, target, body).replace(b"Host: localhost\r\n", b"Host: localhost\r\nConnection: close\r\n", 1))
    while c.sock.recv(1 << 16):
        pass


def measure(stage, place, effort, say):
    say(f"as {place.name}: the service")
    how = place.popen_as()
    with Daemon(pathlib.Path(stage.bawn).parent / "bawnd", **how) as d:
        found = figures(d.path, d.proc.pid, d.top, effort.service_runs, effort.service_execs, 16, 200)
    found |= {"p99": p99(found.pop("runs_ms")), "execs_p99": p99(found.pop("execs_ms")), "list": found.pop("list_ms")[2]}
    found["docker"] = {}
    if shutil.which("dockerd") and os.geteuid() == 0:
        try:
            found["docker"] = docker_figures(stage, place, 10, 30)
        except (RuntimeError, OSError, AssertionError, IndexError, subprocess.SubprocessError) as e:
            say(f"docker's API was not measured: {str(e)[-200:]}")
    return found


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bawnd", default=ROOT / "build/bawnd")
    p.add_argument("--runs", type=int, default=2000)
    p.add_argument("--execs", type=int, default=5000)
    p.add_argument("--clients", type=int, default=16)
    p.add_argument("--streams", type=int, default=200)
    a = p.parse_args()
    with Daemon(a.bawnd) as d:
        f = figures(d.path, d.proc.pid, d.top, a.runs, a.execs, a.clients, a.streams)
    show("runs of true", f["runs"], f["runs_ms"])
    print(f"{'memory of bawnd':24} {f['memory_before']} KiB before, {f['memory_after']} KiB after")
    show("exec of true", f["execs"], f["execs_ms"])
    show("10,000 files listed", 1000 / f["list_ms"][2], f["list_ms"])
    print(f"{f'{a.streams} streams of events':24} {f['streams_ms']:.0f} ms after the end of the run all have it")


if __name__ == "__main__":
    main()
