# SPDX-License-Identifier: Apache-2.0
"""A person at a terminal: sees what a program shows, types, and answers what programs ask a terminal itself.

    with Terminal(net, cmd, env) as t:
        t.wait_for("ready")         until the words are on the screen, or the program ends: then it fails with what was shown
        t.type("a task\r")
        t.shown()                   all that was written so far, without colours and with single spaces
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

# What a program writes to learn about the terminal: what an xterm answers. Without these some wait for seconds, or end.
ASKED = [
    (re.compile(rb"\x1b\[6n"), b"\x1b[1;1R"),
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),
    (re.compile(rb"\x1b\[>0?q"), b"\x1bP>|XTerm(370)\x1b\\"),
    (re.compile(rb"\x1b\]10;\?(\x07|\x1b\\)"), b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(\x07|\x1b\\)"), b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
]
SEQUENCES = re.compile(r"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b[P_^][^\x1b]*\x1b\\|\x1b\[[0-9;:?<>=!]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")


class Terminal:
    def __init__(self, net, cmd, env, size=(50, 140)):
        self.net, self.cmd, self.env, self.size = net, cmd, env, size
        self.seen, self.answered = b"", 0

    def __enter__(self):
        self.fd, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("4H", *self.size, 0, 0))
        self.process = self.net.popen(*self.cmd, env={**self.env, "TERM": "xterm-256color"}, stdin=inside, stdout=inside, stderr=inside,
                                      preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(inside)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)

    def read(self, seconds):
        """Reads what comes within this time, at most one piece; False: the program has ended and all is read."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return self.process.poll() is None
        try:
            piece = os.read(self.fd, 65536)
        except OSError:  # EIO: no process has the terminal any more
            return False
        self.seen += piece
        self.answer()
        return bool(piece)

    def answer(self):
        found = sorted((m.end(), reply) for asked, reply in ASKED for m in asked.finditer(self.seen, self.answered))
        for end, reply in found:
            os.write(self.fd, reply)
            self.answered = end

    def shown(self):
        text = SEQUENCES.sub(" ", self.seen.decode("utf-8", "replace"))
        return re.sub(r"\s+", " ", text)

    def wait_for(self, *words):
        """Words may have any space between them: programs move the cursor instead."""
        while not any(re.sub(r"\s", "", w) in re.sub(r"\s", "", self.shown()) for w in words):
            assert self.read(0.2) or any(w in self.shown() for w in words), f"{self.cmd} ended with {self.process.wait()}: {self.shown()[-3000:]}"

    def wait_until(self, is_true):
        while not is_true():
            assert self.read(0.2), f"{self.cmd} ended with {self.process.wait()}: {self.shown()[-3000:]}"

    def type(self, text):
        os.write(self.fd, text.encode())
