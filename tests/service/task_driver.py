# SPDX-License-Identifier: Apache-2.0
"""bawn-task as bawnd starts it: descriptors, a lock, a socket (src/service/task/taskmsg.h)."""

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess

RECORD_AT = 64
RECORD = struct.Struct("<7Q I i I 300s")
FIELDS = ("ended", "started_ns", "ended_ns", "cpu_us", "memory_peak", "stdout_bytes", "stderr_bytes", "result_len", "status", "flags", "reason")
ENDED = int.from_bytes(b"bawnend1", "little")
CANCELLED, NO_RESULT, CUT_STDOUT, CUT_STDERR = 1, 2, 4, 8
STDIN, SIGNAL, CANCEL, ANSWER = 1, 2, 3, 4
FDS = ("request", "record", "events", "stdout", "stderr", "result", "socket")


def pack(fields):
    """[(name, value)]; a value of a map is "key\\0value"."""
    out = b""
    for name, value in fields:
        value = value if isinstance(value, bytes) else value.encode()
        out += name.encode() + b"\0" + struct.pack("<I", len(value)) + value
    return out


class Task:
    """One bawn-task of a runner, in a folder of its own."""

    def __init__(self, runner, fields, output_max=1 << 26):
        self.runner = runner
        self.top = runner.mkdir(runner.top / f"task{len(list(runner.top.iterdir()))}", 0o700)
        self.workspace = runner.mkdir(self.top / "workspace")
        request = os.memfd_create("request")
        os.write(request, pack(fields))
        os.lseek(request, 0, os.SEEK_SET)
        self.files = {"request": request}
        for name in FDS[1:-1]:
            flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if name in ("events", "stdout", "stderr") else 0)
            self.files[name] = os.open(self.top / name, flags, 0o600)
        fcntl.flock(self.files["record"], fcntl.LOCK_EX)
        os.write(self.files["record"], b"bawntsk1")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(self.top / "socket"))
        listener.listen()
        os.chmod(self.top / "socket", 0o777)
        self.files["socket"] = listener.detach()
        program = runner.helper("bawn-task")
        # Python's pass_fds keeps numbers: a shell puts them where bawn-task wants them.
        high = {name: fcntl.fcntl(fd, fcntl.F_DUPFD, 50 + i) for i, (name, fd) in enumerate(self.files.items())}
        moves = " ".join(f"{3 + i}<&{high[name]}" for i, name in enumerate(FDS))
        closes = " ".join(f"{fd}<&-" for fd in high.values())
        self.proc = runner.popen("bash", "-c", f'exec "$@" {moves} {closes}', "bash", program, runner.path, "run_test", str(output_max),
                                 cwd=self.workspace, pass_fds=list(high.values()), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for fd in [*self.files.values(), *high.values()]:
            os.close(fd)

    def connect(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.connect(str(self.top / "socket"))
        return s

    def ask(self, s, kind, value=0, fd=None):
        """Sends a message; returns the errno of the answer."""
        message = struct.pack("<IiQ", kind, value, 7)
        socket.send_fds(s, [message], [fd] if fd is not None else [])
        answer = s.recv(64)
        kind, value, tag = struct.unpack("<IiQ", answer)
        assert (kind, tag) == (ANSWER, 7)
        return value

    def locked(self):
        with open(self.top / "record", "rb") as f:
            try:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def record(self):
        with open(self.top / "record", "rb") as f:
            data = f.read()
        assert data.startswith(b"bawntsk1")
        if len(data) < RECORD_AT + RECORD.size:
            return None
        r = dict(zip(FIELDS, RECORD.unpack_from(data, RECORD_AT), strict=True))
        assert r["ended"] == ENDED
        r["reason"] = r["reason"].split(b"\0")[0].decode()
        return r

    def events(self):
        return [json.loads(line) for line in (self.top / "events").read_bytes().splitlines()]

    def text(self, kind):
        return "".join(e["data"] for e in self.events() if e["type"] == kind)

    def read(self, name):
        return (self.top / name).read_bytes()

    def wait(self):
        self.proc.wait()
        return self.record()

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()
