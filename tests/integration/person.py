# SPDX-License-Identifier: Apache-2.0
"""A person in front of a terminal, as the user of a runner: waits for text, never for time."""

import os

import pexpect

WAIT = 60  # how long a person would look at a screen before giving up; a fault shows as this timeout


def become(runner):
    """For preexec_fn: what `runner.popen` does by arguments."""

    def change():
        ids = runner.identity()
        if ids:
            os.setgroups([])
            os.setgid(ids["group"])
            os.setuid(ids["user"])

    return change


def terminal(runner, *args, size=(24, 80), env=None):
    """bawn on a terminal of its own."""
    return pexpect.spawn(str(runner.path), list(map(str, args)), timeout=WAIT, dimensions=size, encoding=None, cwd=str(runner.workspace),
                         env=runner.environ({"TERM": "xterm", "SHELL": "/bin/sh", "PS1": "IN> ", **(env or {})}), preexec_fn=become(runner))


def shell(runner, size=(24, 80)):
    """An interactive shell outside, whose jobs are bawn's."""
    sh = pexpect.spawn("/bin/bash", ["--norc", "--noprofile", "-i"], timeout=WAIT, dimensions=size, encoding=None, cwd=str(runner.workspace),
                       env=runner.environ({"PS1": "OUT> ", "PS2": "", "TERM": "xterm"}), preexec_fn=become(runner))
    sh.expect_exact(b"OUT> ")
    return sh


def finish(child):
    """The exit status as a shell would show it; what was still printed is in child.before."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus if child.signalstatus is None else 128 + child.signalstatus


def read_all(master):
    """What comes to the terminal's other end, until it is closed, as bytes."""
    text = b""
    try:
        while chunk := os.read(master, 65536):
            text += chunk
    except OSError:  # EIO: the other side is closed
        pass
    os.close(master)
    return text
