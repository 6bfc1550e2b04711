# SPDX-License-Identifier: Apache-2.0
"""bawnd with a front that is this test: speaks spec/api-protocol.md over the socket that bawn-front would have."""

import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MAGIC = 0x69706162
HEADER = struct.Struct("<IHHQQII")
START, CONNECTION, ANSWER, UPLOAD, OUTCOME, LAST, DRAIN, REQUEST, CANCEL, GONE = 1, 2, 3, 4, 5, 6, 7, 16, 17, 18
MEMFD, PART, STREAM, EVENTS, TERMINAL, JSON, EXEC = 1, 2, 4, 8, 16, 32, 64

# Stands in for bawn-front: hands its socket to the test and stays until that lets go.
FRONT = """#!/usr/bin/python3
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect(os.path.join(os.path.dirname(os.path.abspath(__file__)), "meet"))
socket.send_fds(s, [b"x"], [3])
os.close(3)
s.recv(1)
"""


def tables():
    """Numbers of operations and fields, made as the build makes them."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run([sys.executable, ROOT / "tools/openapi", ROOT / "spec/openapi.yaml", f"{d}/t.h", f"{d}/t.c"], check=True)
        text = pathlib.Path(d, "t.h").read_text()
    return {name.lower(): int(n) for name, n in re.findall(r"API_((?:OP|FIELD)_\w+) = (\d+)", text)}


NUMBERS = tables()


class Answer:
    def __init__(self, kind, flags, value, body, fds):
        self.kind, self.flags, self.status, self.body, self.fds = kind, flags, value, body, list(fds)

    def __del__(self):
        """What the test did not pop."""
        for fd in self.fds:
            os.close(fd)

    def json(self):
        assert self.status < 400, self
        return json.loads(self.body)

    @property
    def code(self):
        return self.body.split(b"\0")[0].decode() if self.status >= 400 else None

    @property
    def retry(self):
        return int(self.body.split(b"\0")[3])

    def content(self):
        """Of flag PART."""
        offset, length = struct.unpack("<QQ", self.body)
        data = os.pread(self.fds[0], length, offset)
        os.close(self.fds.pop())
        return data

    def __repr__(self):
        return f"<{self.kind} {self.status} flags {self.flags} {self.body[:400]!r}>"


def encode(fields):
    """{name: text, number, bool, list or dict}"""
    out = []
    for name, value in fields.items():
        number = NUMBERS["field_" + name.replace(".", "_").replace("-", "_").lower()]
        values = value if isinstance(value, list) else [f"{k}\0{v}" for k, v in value.items()] if isinstance(value, dict) else [value]
        for v in values:
            text = {True: "1", False: "0"}[v] if isinstance(v, bool) else str(v)
            out.append((number, text.encode()))
    out.sort(key=lambda f: f[0])
    return b"".join(struct.pack("<HI", n, len(t)) + t for n, t in out)


class Core:
    """One state folder, and one bawnd after another in it."""

    def __init__(self, runner, before=(), **conf):
        self.runner, self.before = runner, before
        self.top = runner.mkdir(runner.top / "svc", 0o755)
        helpers = runner.mkdir(self.top / "helpers", 0o755)
        for name in ("bawn-task",):
            (helpers / name).symlink_to(runner.helper(name))
        front = helpers / "bawn-front"
        front.write_text(FRONT)
        front.chmod(0o755)
        self.meet = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.meet.bind(str(helpers / "meet"))
        os.chmod(helpers / "meet", 0o777)
        self.meet.listen()
        self.conf = {"state": str(self.top / "state"), "runtime": str(self.top / "run"), "helpers": str(helpers), "bawn": str(runner.path), **conf}
        self.config = runner.write(self.top / "bawnd.json", json.dumps(self.conf))
        self.next = 0
        self.proc = None
        self.start()

    def start(self):
        self.log = open(self.top / "log", "ab")
        self.proc = self.runner.popen(*self.before, self.runner.path.parent / "bawnd", "--config", self.config, stderr=self.log, stdout=self.log)
        self.front()

    def front(self):
        """The socket of the front that bawnd has just started."""
        self.life, _ = self.meet.accept()
        _, fds, _, _ = socket.recv_fds(self.life, 1, 1)
        self.sock = socket.socket(fileno=fds[0])
        self.sock.setblocking(True)
        self.got, self.waiting = {}, threading.Condition()
        self.reader = threading.Thread(target=self.read, args=(self.sock,), daemon=True)
        self.reader.start()
        self.peer = None

    def read(self, sock):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(sock, 65536, 4)
            except OSError:
                data = b""
            if not data:
                with self.waiting:
                    self.got["end"] = True
                    self.waiting.notify_all()
                return
            fds = list(fds)
            magic, kind, flags, request, peer, value, length = HEADER.unpack_from(data)
            assert magic == MAGIC
            body = data[HEADER.size:]
            if flags & MEMFD:
                body = os.pread(fds[0], length, 0)
                os.close(fds.pop(0))
            with self.waiting:
                key = ("peer", peer) if kind == CONNECTION else request
                self.got.setdefault(key, []).append(Answer(kind, flags, value, body, fds))
                self.waiting.notify_all()

    def take(self, request):
        """The next message about a request."""
        with self.waiting:
            self.waiting.wait_for(lambda: self.got.get(request) or self.got.get("end"))
            if not self.got.get(request):
                raise ConnectionError("bawnd is gone")
            return self.got[request].pop(0)

    def send(self, op, bearer=None, peer=0, **fields):
        self.next += 1
        if bearer:
            fields["bearer"] = bearer
        body = encode({k.replace("__", "."): v for k, v in fields.items()})
        self.raw(REQUEST, self.next, peer, NUMBERS["op_" + op], body)
        return self.next

    def raw(self, kind, request=0, peer=0, value=0, body=b""):
        if len(body) <= 48 * 1024:
            self.sock.send(HEADER.pack(MAGIC, kind, 0, request, peer, value, len(body)) + body)
            return
        fd = os.memfd_create("body", os.MFD_ALLOW_SEALING)
        os.write(fd, body)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        socket.send_fds(self.sock, [HEADER.pack(MAGIC, kind, MEMFD, request, peer, value, len(body))], [fd])
        os.close(fd)

    def ask(self, op, bearer=None, **fields):
        """Asks as the holder of a token, or without one as the user of the unix socket, and waits for the answer."""
        if bearer is None and self.peer is None:
            self.client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = {k for k in self.got if isinstance(k, tuple)}
            self.client.connect(str(self.top / "run/api.sock"))
            with self.waiting:
                self.waiting.wait_for(lambda: {k for k in self.got if isinstance(k, tuple)} - before or self.got.get("end"))
                self.peer = max(k[1] for k in self.got if isinstance(k, tuple))
        return self.take(self.send(op, bearer, 0 if bearer else self.peer, **fields))

    def token(self, tenant="acme", **more):
        """A new token of a tenant, which is made if there is none."""
        if self.ask("tenant_get", tenant=tenant).status == 404:
            assert self.ask("tenant_create", name=tenant).status == 201
        return self.ask("token_create", tenant=tenant, **more).json()["token"]

    def run(self, token, *command, **fields):
        return self.ask("run_create", token, command=list(command), **fields)

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.life.close()
        self.reader.join()
        self.log.close()

    def restart(self):
        self.kill()
        self.start()

    def stop(self):
        """Ends all runs, then bawnd."""
        if self.proc.poll() is None:
            self.kill()
        self.meet.close()
        for record in (self.top / "state/tenants").glob("*/runs/*/socket"):
            d = os.open(record.parent, os.O_RDONLY)
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                    s.connect(f"/proc/self/fd/{d}/socket")
                    for _ in range(2):
                        s.send(struct.pack("<IiQ", 3, 0, 0))
                    while s.recv(64):
                        pass
            except OSError:
                pass
            finally:
                os.close(d)
