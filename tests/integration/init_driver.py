# SPDX-License-Identifier: Apache-2.0
"""A supervisor for a resident bawn-init alone (spec/init-protocol.md): no namespaces, or only those that `unshare` makes."""

import ctypes
import os
import select
import signal
import socket
import struct
import threading

MSG = struct.Struct("<Iiii240s")
SIGNAL, STARTED, STOPPED, EXITED, FAILED, NETWORK, EXEC, OPEN, ALL = 1, 4, 5, 6, 7, 9, 11, 12, 13
NO_PIDNS, GUARD, RESIDENT = 16, 32, 64
TTY, TTY_STDIN, TTY_STDOUT, TTY_STDERR, STDIN, STDOUT, STDERR, TERMIOS = 1, 2, 4, 8, 16, 32, 64, 256
GUARD_MSG = struct.Struct("<IIIiIIIIQQQQ")


def strings(*values):
    return b"".join(os.fsencode(v) + b"\0" for v in values)


def start_message(flags, cwd, env, seccomp=0, protect=b""):
    texts = strings("", "protect") + struct.pack("<I", len(protect)) + protect if protect else b""
    head = struct.pack("<8s4I2Q6I", b"bawnini3", flags, 0o22, seccomp, 0, 0, 0, 0, len(env), 0, 0, 0, 1 if protect else 0)
    return head + strings(cwd, "/bin:/usr/bin", *(f"{k}={v}" for k, v in env.items()), cwd if flags & GUARD else "") + texts


def request(argv, env=(), cwd="", flags=0, rows=0, cols=0, modes=(0, 0, 0, 0), cc=b""):
    head = struct.pack("<8sQ9I20s", b"bawnexe1", 0, flags, rows, cols, *modes, len(argv), len(env), cc)
    return head + strings(cwd, *argv, *env)


def memfd(data):
    fd = os.memfd_create("test")
    os.write(fd, data)
    return fd


def ignore_signal(sig):
    """Also one of those that the C library keeps for itself."""
    action = (ctypes.c_ulong * 4)(signal.SIG_IGN, 0, 0, 0)
    number = {"x86_64": 13, "aarch64": 134}[os.uname().machine]
    assert ctypes.CDLL(None).syscall(number, sig, action, None, 8) == 0


class Message:
    def __init__(self, data, fds):
        self.type, self.value, self.extra, self.job, text = MSG.unpack(data)
        self.text, self.fds = text.split(b"\0", 1)[0].decode(), list(fds)

    def __repr__(self):
        return f"<type {self.type} job {self.job} value {self.value} extra {self.extra} {self.text!r}>"


class Init:
    """pid1: in user, mount and pid namespaces of its own; guard: with the guard of direct mode, whose questions are answered with yes."""

    def __init__(self, runner, pid1=True, guard=False, env=None, protect=b"", ignored=(), shown=()):
        self.runner, self.jobs, self.link = runner, 0, None
        linked = shown or (os.environ.get("BAWN_TEST_LINK") and pid1 and not guard and not ignored)
        self.touched = []
        env = env or {"PATH": "/usr/bin:/bin", "HOME": "/", "BASE": "base"}
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.guard, guards = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        flags = RESIDENT | (0 if pid1 else NO_PIDNS) | (GUARD if guard else 0)
        start = memfd(start_message(flags, str(runner.workspace), env, protect=protect))
        high = [os.dup2(fd, 100 + i) for i, fd in enumerate((theirs.fileno(), start, guards.fileno()))]

        def arrange():
            for sig in ignored:
                ignore_signal(sig)
            for i, fd in enumerate(high[: 3 if guard else 2]):
                os.dup2(fd, 3 + i)

        cmd = [runner.helper("bawn-init")]
        if linked:
            self.start_link(high[:2], shown)
            cmd.append("--link")
        if pid1:
            cmd = ["unshare", "-U", "--map-current-user", "-p", "-f", "--mount-proc", *cmd]
        try:
            if linked:
                self.proc = runner.popen(*cmd, stdin=self.stream, stdout=self.stream, start_new_session=False)
                self.stream.close()
            else:
                self.proc = runner.popen(*cmd, preexec_fn=arrange, pass_fds=(3, 4, 5) if guard else (3, 4), start_new_session=False)
        finally:
            for fd in [*high, start]:
                os.close(fd)
            theirs.close()
            guards.close()
        if guard:
            threading.Thread(target=self.answer_guard, daemon=True).start()
        if linked:
            assert self.recv().type == NETWORK  # with no place: the far end is there
        ready = self.recv()
        assert ready.type == STARTED and ready.job == 0, ready

    def start_link(self, born, shown):
        """bawn-link with what bawn-init would have had; shown: paths inside whose connections come to self.places."""
        self.stream, near = socket.socketpair()
        self.places, places = zip(*(socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)))
        high = [os.dup2(fd, 200 + i) for i, fd in enumerate([*born, near.fileno(), near.fileno(), *(p.fileno() for p in places)])]

        def arrange():
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)

        argv = [word for i, path in enumerate(shown) for word in ("--show", str(i), path)]
        self.link = self.runner.popen(self.runner.helper("bawn-link"), *argv, preexec_fn=arrange, pass_fds=range(3, 3 + len(high)), start_new_session=False)
        for fd in high:
            os.close(fd)
        for s in (near, *places):
            s.close()

    def answer_guard(self):
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.guard, 8192, 1)
            except OSError:
                return
            if not data:
                return
            for fd in fds:
                os.close(fd)
            fields = GUARD_MSG.unpack_from(data)
            if fields[0] != 4:  # the memory that both share
                self.touched.append((fields[0], data[GUARD_MSG.size:].decode()))
            if fields[1]:
                self.guard.send(GUARD_MSG.pack(3, *[0] * 11))

    def send(self, kind, value=0, extra=0, job=0, body=b"", fds=()):
        socket.send_fds(self.sock, [MSG.pack(kind, value, extra, job, b"") + body], list(fds))

    def recv(self):
        data, fds, flags, _ = socket.recv_fds(self.sock, 4096, 4)
        assert len(data) == MSG.size, "bawn-init is gone"
        return Message(data, fds)

    def quiet(self):
        return not select.select([self.sock], [], [], 0)[0]

    def exec(self, *argv, fds=(), flags=0, **kw):
        """Asks; returns the job's number."""
        self.jobs += 1
        self.send(EXEC, job=self.jobs, body=request(argv, flags=flags, **kw), fds=fds)
        return self.jobs

    def started(self, *argv, **kw):
        job = self.exec(*argv, **kw)
        m = self.recv()
        assert m.type == STARTED and m.job == job, m
        return job, m

    def exited(self, job):
        m = self.recv()
        assert m.type == EXITED and m.job == job, m
        return m.value

    def output(self, *argv, flags=0, input=b"", **kw):
        """Runs it to its end: (exit status, what it wrote to both streams)."""
        inside, ours = os.pipe()
        out, theirs = os.pipe()
        os.write(ours, input)
        os.close(ours)
        job = self.exec(*argv, fds=[inside, theirs, theirs], flags=STDIN | STDOUT | STDERR | flags, **kw)
        os.close(inside)
        os.close(theirs)
        m = self.recv()
        text = b""
        while chunk := os.read(out, 65536):  # ends only if bawn-init keeps no copy
            text += chunk
        os.close(out)
        assert m.type == STARTED and m.job == job, m
        status = self.exited(job)
        return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)), text

    def close(self):
        self.sock.close()
        self.proc.wait()
        self.guard.close()
