# SPDX-License-Identifier: Apache-2.0
"""The far end of a byte link is hostile: here it is this script, and bawn-link is what it attacks. And the workload attacks the far end's thread."""

import array
import os
import pathlib
import socket
import struct
import subprocess

import pytest

HELLO = b"bawnlink" + struct.pack("<II", 1, 2)
OPEN, DATA, CREDIT, END, STOP, CLOSED, TTY, PING, PONG, BYE = range(1, 11)
SOCKET, TERMINAL, FILE, CONNECTION, DATAGRAMS = 3, 4, 5, 6, 7
EXITED, FAILED, NETWORK, INSIDE, OPENED, SIGNAL = 6, 7, 9, 10, 12, 1


def frame(kind, channel, payload=b""):
    return struct.pack("<HHI", kind, channel, len(payload)) + payload


def opening(channel, kind, place=0, size=0):
    return frame(OPEN, channel, struct.pack("<HHIQ", kind, place, 0o644, size) + bytes(40))


def message(kind, value=0, extra=0, job=0, channels=(), text=b""):
    head = bytes([len(channels)]) + b"".join(struct.pack("<H", c) for c in channels)
    return frame(DATA, 0, head + struct.pack("<Iiii240s", kind, value, extra, job, text))


STARTED = frame(DATA, 0, b"\0" + struct.pack("<II200s", 0, 0, b""))


class Near:
    """bawn-link between a supervisor and a far end that are both this test."""

    def __init__(self, runner, network=False):
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stream, stream = socket.socketpair()
        start = os.memfd_create("start", 0)
        os.write(start, b"bawnini3" + struct.pack("<I", 1) + bytes(64))
        self.out, out = os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        fds = [null, out, out, control.fileno(), start, stream.fileno(), stream.fileno(), null, null]
        high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
        script = "".join(f"exec {i}<&{h} {h}<&-; " for i, h in enumerate(high))
        self.proc = subprocess.Popen(["bash", "-c", script + 'exec "$0" "$@"', runner.helper("bawn-link"), *(["--network"] if network else [])], pass_fds=high,
                                     env={}, **runner.identity())
        for fd in {*high, *fds[1:2], start, null}:
            os.close(fd)
        control.close()
        stream.close()

    def greet(self):
        """As a far end that keeps to the protocol: nothing but a hello before the start has come."""
        self.stream.sendall(HELLO)
        self.got, self.at = b"", len(HELLO)
        self.control_message()

    def control_message(self):
        """The next one from the supervisor, without its channels; what comes on others is skipped."""
        while True:
            while len(self.got) < self.at + 8 or len(self.got) < self.at + 8 + struct.unpack_from("<I", self.got, self.at + 4)[0]:
                self.got += self.stream.recv(65536)
            kind, channel, length = struct.unpack_from("<HHI", self.got, self.at)
            self.at += 8 + length
            if (kind, channel) == (DATA, 0):
                payload = self.got[self.at - length:self.at]
                return payload[1 + 2 * payload[0]:]

    def ask_file(self, job):
        """As a supervisor that wants a file; it was sent when this returns."""
        self.control.send(struct.pack("<Iiii240s", OPENED, 0, 0, job, b"") + b"/file")
        while struct.unpack_from("<I", self.control_message())[0] != OPENED:
            pass

    def send(self, *frames):
        try:
            self.stream.sendall(b"".join(frames))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self):
        """The next message to the supervisor: (type, value, extra, job, text, descriptors), or None at the end. Not bawn-link's own "it is there"."""
        data, ancillary, _, _ = self.control.recvmsg(4096, socket.CMSG_SPACE(64))
        if not data:
            return None
        fds = array.array("i")
        for _, _, part in ancillary:
            fds.frombytes(part[: len(part) - len(part) % fds.itemsize])
        kind, value, extra, job, text = struct.unpack("<Iiii240s", data)
        if (kind, value, len(fds)) == (NETWORK, 0, 0):
            return self.receive()
        return kind, value, extra, job, text.rstrip(b"\0"), list(fds)

    def end(self):
        """How it ended: what it said, and its status."""
        said = []
        while (m := self.receive()) is not None:
            for fd in m[5]:
                os.close(fd)
            said.append(m[:5])
        self.stream.close()
        os.close(self.out)
        return said, self.proc.wait()


BREAKS = {
    "more bytes than credit": opening(1, SOCKET) + frame(DATA, 1, bytes(16385)),
    "a number twice": opening(1, SOCKET) * 2,
    "a number of ours": opening(2, SOCKET),
    "no such channel": frame(DATA, 99, b"x"),
    "too much credit": frame(CREDIT, 0, struct.pack("<I", 1 << 30)),
    "an output of its own": opening(1, 2),
    "a connection to nowhere": opening(1, CONNECTION, place=3),
    "a place past the last": opening(1, CONNECTION, place=999),
    "listeners": message(NETWORK, value=1),
    "an order to the supervisor": message(SIGNAL, value=9),
    "a descriptor that it never opened": message(INSIDE, channels=[7]),
    "a file as a connection": opening(1, FILE, size=3) + message(INSIDE, channels=[1]),
    "one descriptor for two": opening(1, SOCKET) + message(INSIDE, channels=[1]) * 2,
    "more of a file than announced": opening(1, FILE, size=3) + frame(DATA, 1, b"four"),
    "a file more than was asked for": opening(1, FILE, size=3) + opening(3, FILE, size=3),
    "a file that stays when it was answered without it": opening(1, FILE, size=3) + message(OPENED, job=3),
    "an answer to nothing": message(OPENED, job=3) * 2,
    "a length of gigabytes": struct.pack("<HHI", DATA, 0, 1 << 31),
    "another version": None,
}


@pytest.mark.parametrize("how", BREAKS)
def test_whatever_breaks_the_protocol_ends_the_link(runner, how):
    """Claim: a far end can end its link, and nothing else. The supervisor hears why, and gets no descriptor."""
    near = Near(runner)
    if BREAKS[how] is None:
        near.send(b"bawnlink" + struct.pack("<II", 9, 2))
    else:
        near.greet()
        near.send(STARTED)
        near.ask_file(3)
        near.send(BREAKS[how])
    said, status = near.end()
    assert status == 125 and said[-1][0] == FAILED and b"other end" in said[-1][4], said
    assert all(m[0] in (FAILED, INSIDE) or m == (OPENED, 0, 0, 3, b"") for m in said), said


def test_a_session_that_keeps_to_the_protocol_works(runner):
    """The same bytes without the break: what shows that the cases above fail for their own reason."""
    near = Near(runner)
    near.greet()
    near.send(STARTED, opening(1, SOCKET), message(INSIDE, extra=5, channels=[1]), frame(DATA, 1, b"hello"))
    kind, value, extra, _, _, fds = near.receive()
    assert (kind, value, extra, len(fds)) == (INSIDE, 0, 5, 1)
    with socket.socket(fileno=fds[0]) as s:
        assert s.family == socket.AF_UNIX and s.recv(100) == b"hello"
    near.send(message(EXITED, value=0))
    near.stream.shutdown(socket.SHUT_RDWR)
    said, status = near.end()
    assert (said, status) == ([(EXITED, 0, 0, 0, b"")], 0)


def test_a_huge_file_is_refused_without_a_byte_of_it(runner):
    near = Near(runner)
    near.greet()
    near.send(STARTED)
    near.ask_file(3)
    near.send(opening(1, FILE, size=1 << 40), message(OPENED, job=3, channels=[1]))
    kind, value, _, job, _, fds = near.receive()
    assert (kind, value, job, fds) == (OPENED, 27, 3, [])  # EFBIG
    near.stream.shutdown(socket.SHUT_RDWR)
    near.end()


def test_files_that_were_not_asked_for_are_not_held(runner):
    """Claim: what a far end makes Bawn hold has a ceiling. A file is in memory until the supervisor has it: each of them was asked for."""
    near = Near(runner)
    near.greet()
    near.send(STARTED, *(opening(channel, FILE, size=1 << 30) for channel in range(1, 2048, 2)))
    said, status = near.end()
    assert status == 125 and said[-1][0] == FAILED and b"other end" in said[-1][4], said


def test_files_that_were_asked_for_come(runner):
    """Two at once; and a third, once these are there."""
    near = Near(runner)
    near.greet()
    near.send(STARTED)
    near.ask_file(3)
    near.ask_file(4)
    near.send(opening(1, FILE, size=3), message(OPENED, job=3, channels=[1]), opening(3, FILE, size=4), message(OPENED, job=4, channels=[3]), frame(DATA, 3, b"four"),
              frame(END, 3, struct.pack("<I", 0)), frame(DATA, 1, b"thr"), frame(END, 1, struct.pack("<I", 0)))
    found = {}
    for _ in range(2):
        kind, value, _, job, _, fds = near.receive()
        assert (kind, value) == (OPENED, 0)
        found[job] = os.read(fds[0], 100)
        os.close(fds[0])
    assert found == {3: b"thr", 4: b"four"}
    near.ask_file(5)
    near.send(opening(5, FILE, size=1), message(OPENED, job=5, channels=[5]), frame(DATA, 5, b"x"), frame(END, 5, struct.pack("<I", 0)))
    kind, _, _, of, _, fds = near.receive()
    assert (kind, of, os.read(fds[0], 100)) == (OPENED, 5, b"x")
    os.close(fds[0])
    near.stream.shutdown(socket.SHUT_RDWR)
    near.end()


def test_a_flood_of_channels_costs_what_is_reserved(runner):
    """Every number at once, each filled to its credit, and none ever taken: memory stays below the ceiling, and the link goes on."""
    near = Near(runner)
    near.greet()
    near.send(STARTED)
    for channel in range(1, 2048, 2):
        near.send(opening(channel, SOCKET), frame(DATA, channel, bytes(16384)))
    near.send(message(INSIDE, value=111, extra=1))
    assert near.receive()[:3] == (INSIDE, 111, 1)
    status = pathlib.Path(f"/proc/{near.proc.pid}/status").read_text()
    resident = int(next(x for x in status.splitlines() if x.startswith("VmRSS:")).split()[1])
    assert resident < 110 * 1024, status
    near.stream.shutdown(socket.SHUT_RDWR)
    near.end()


def test_bawn_link_is_in_its_jail_before_the_first_byte(runner):
    near = Near(runner)
    near.greet()
    near.send(STARTED, message(INSIDE, value=111))
    assert near.receive()[0] == INSIDE
    status = pathlib.Path(f"/proc/{near.proc.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert (fields["Seccomp"], fields["NoNewPrivs"]) == ("2", "1") and not int(fields["CapEff"], 16) and not int(fields["CapBnd"], 16) * runner.is_root, status
    near.stream.shutdown(socket.SHUT_RDWR)
    near.end()


THREAD = r"""
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
tid = max(int(t) for t in os.listdir("/proc/1/task"))
assert len(os.listdir("/proc/1/task")) == 2, "no thread to attack"
for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
    for call in (lambda: os.kill(1, sig), lambda: libc.syscall(234, 1, tid, sig)):  # tgkill
        try:
            call()
        except OSError:
            pass
assert libc.ptrace(16, tid, 0, 0) != 0  # PTRACE_ATTACH
for path in (f"/proc/1/mem", f"/proc/{tid}/mem", "/proc/1/fd", f"/proc/1/task/{tid}/fd", f"/proc/1/task/{tid}/maps"):
    try:
        os.listdir(path) if path.endswith("fd") else open(path, "rb").read(1)
    except OSError:
        continue
    raise SystemExit("open: " + path)
fields = dict(x.split(":\t", 1) for x in open(f"/proc/1/task/{tid}/status").read().splitlines() if ":\t" in x)
assert fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1" and not int(fields["CapEff"], 16) and not int(fields["CapBnd"], 16), fields
inherited = [f for f in os.listdir("/proc/self/fd") if int(f) > 2 and os.path.exists(f"/proc/self/fd/{f}")]
assert not inherited, inherited
print("alive")
"""


def test_the_thread_in_pid_1_is_out_of_reach(runner):
    """Claim: the workload, which has the uid of PID 1, can neither end, stop, trace nor read the thread that moves its bytes, nor has one of its descriptors."""
    r = runner.bawn("run", "--workspace", "overlay", "--", "/usr/bin/python3", "-c", THREAD, env={"BAWN_TEST_LINK": "bytes"})
    assert (r.rc, r.out) == (0, b"alive\n"), r
