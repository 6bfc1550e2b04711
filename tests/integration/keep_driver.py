# SPDX-License-Identifier: Apache-2.0
"""A client of a kept sandbox's two sockets, written from spec/exec-socket.md and spec/control-socket.md, not from our own code."""

import contextlib
import json
import os
import pathlib
import select
import socket
import struct

EXEC, ATTACH, SIGNAL, INPUT, SIZE, OPEN, STARTED, STOPPED, OUTPUT, EXITED, FAILED, OPENED = range(1, 13)
TTY, TTY_IN, TTY_OUT, TTY_ERR, STDIN, STDOUT, STDERR, BACKGROUND = (1 << n for n in range(8))
END_NOEXEC, END_TIMEOUT, END_STOP, END_MEMORY = (1 << n for n in range(4))
HEAD = struct.Struct("=IiiII")
HANG = 120  # seconds: only so that a hang ends as a failure


def request(argv, flags, cwd="", env=(), timeout_ms=0, rows=0, cols=0):
    words = [cwd, *argv, *env]
    head = struct.pack("=8sQ3I4I2I20s", b"bawnexe1", timeout_ms, flags, rows, cols, 0, 0, 0, 0, len(argv), len(env), b"")
    return head + b"".join(w.encode() + b"\0" for w in words)


class Message:
    def __init__(self, kind, value, extra, body, fds):
        self.kind, self.value, self.extra, self.body, self.fds = kind, value, extra, body, fds

    def __repr__(self):
        return f"<{self.kind} {self.value} {self.extra} {self.body!r}>"


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(HANG)
        self.sock.connect(os.fspath(path))

    def send(self, kind, value=0, extra=0, body=b"", fds=(), flags=0, length=None):
        data = HEAD.pack(kind, value, extra, flags, len(body) if length is None else length) + body
        socket.send_fds(self.sock, [data], list(fds))

    def recv(self):
        data, fds, _, _ = socket.recv_fds(self.sock, 1 << 17, 4)
        if not data:
            return None
        kind, value, extra, _, length = HEAD.unpack_from(data)
        assert length == len(data) - HEAD.size
        return Message(kind, value, extra, data[HEAD.size:], fds)

    def expect(self, kind):
        m = self.recv()
        assert m and m.kind == kind, m
        return m

    def until(self, kind, wanted=None):
        """What came before a message of this kind, or before the output holds `wanted`, and that message."""
        out = bytearray()
        while True:
            m = self.recv()
            assert m, f"the connection ended after {bytes(out[-4000:])!r}"
            if m.kind == kind and kind != OUTPUT:
                return out, m
            if m.kind == OUTPUT:
                out += m.body
                if kind == OUTPUT and wanted in out:
                    return out, m

    def is_closed(self):
        return self.recv() is None

    def close(self):
        self.sock.close()


class Box:
    """A sandbox that `bawn start` made, for one runner."""

    def __init__(self, runner, name):
        self.runner, self.name = runner, name
        self.state_home = runner.home / ".local/state/bawn"

    @property
    def folder(self):
        return self.state_home / "sandboxes" / self.name

    @property
    def socket(self):
        return self.state_home / "run/box" / f"{self.name}.sock"

    def start(self, *options, **kw):
        r = self.runner.bawn("start", *options, self.name, **kw)
        assert r.rc == 0, r
        return r

    def state(self):
        return json.loads((self.folder / "state.json").read_text())

    def keeper_log(self):
        return (self.folder / "log/keeper.log").read_text()

    def client(self):
        return Client(self.socket)

    def ask(self, cmd, **more):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(HANG)
            s.connect(os.fspath(self.state_home / "run" / f"{self.state()['pid']}.sock"))
            s.sendall(json.dumps({"cmd": cmd, **more}).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n"):
                part = s.recv(65536)
                assert part, data
                data += part
        return json.loads(data)

    def run(self, *argv, **kw):
        """In the foreground with pipes; returns the end and what it printed."""
        read, write = os.pipe()
        with contextlib.closing(self.client()) as c, open(read, "rb") as out:
            c.send(EXEC, 1, body=request(argv, STDOUT | STDERR, **kw), fds=[write, write])
            os.close(write)
            first = c.recv()
            if first.kind != STARTED:
                return first, b""
            data = out.read()
            return c.expect(EXITED), data

    def sh(self, script):
        end, out = self.run("sh", "-c", script)
        assert end.kind == EXITED and end.value == 0, (end, out)
        return out

    def background(self, *argv, flags=0, **kw):
        c = self.client()
        c.send(EXEC, 1, body=request(argv, BACKGROUND | flags, **kw))
        return c, c.expect(STARTED)

    def attach(self, job, history=65536):
        c = self.client()
        c.send(ATTACH, job, history)
        return c, c.expect(STARTED)

    def pidfd(self):
        return os.pidfd_open(self.state()["pid"])

    def wait_end(self, pidfd):
        """The keeper is gone: the process ended, whatever the reason."""
        assert select.select([pidfd], [], [], HANG)[0], "the keeper does not end"
        os.close(pidfd)

    def stop(self, **more):
        fd = self.pidfd()
        assert self.ask("stop", **more) == {"ok": True}
        self.wait_end(fd)

    def alive(self):
        return pathlib.Path(f"/proc/{self.state()['pid']}").exists() and self.state()["phase"] == "running"


@contextlib.contextmanager
def kept(runner, name, *options, **kw):
    """A running sandbox that is gone at the end, whatever happens."""
    box = Box(runner, name)
    box.start(*options, **kw)
    try:
        yield box
    finally:
        with contextlib.suppress(OSError, ProcessLookupError):
            fd = box.pidfd()
            if box.state()["phase"] in ("starting", "running", "stopping"):
                box.ask("stop", seconds=0)
            box.wait_end(fd)
