# SPDX-License-Identifier: Apache-2.0
"""What tests of hiding share: a tree with hidden files, and a process inside that does what it is asked while the host changes files."""

import contextlib
import itertools
import os
import select
import signal
import subprocess
import time

PYTHON = "/usr/bin/python3"
PATIENCE = int(os.environ.get("BAWN_PATIENCE", "120"))  # seconds: so that a hang ends as a failure
HIDDEN = [".env", "deep/er/server.pem", ".aws/credentials", "deep/odd [name]*.key", "run.key"]
NUMBERS = itertools.count()


def git(runner, *args, cwd=None):
    r = runner.run("git", "-c", "user.name=t", "-c", "user.email=t@t", *args, cwd=cwd)
    assert r.rc == 0, r
    return r.out


def fill(runner, marker, names=HIDDEN):
    """Visible files are tracked, hidden ones are not: a worktree has no others."""
    runner.write("readme.txt", "visible\n")
    runner.write("deep/er/code.c", "int main;\n")
    runner.write("src/a.py", "pass\n")
    if not (runner.workspace / ".git").exists():
        git(runner, "init", "-q", "-b", "main", ".")
    git(runner, "add", "-A")
    git(runner, "commit", "-q", "-m", "start")
    for name in names:
        runner.write(name, marker + "\n")
    if "run.key" in names:
        runner.write("run.key", f"#!/bin/sh\necho {marker}\n", 0o755)


class Ended(AssertionError):
    """The run has ended by itself."""


class Inside:
    """Python in a sandbox that evaluates what it is sent, line by line: `ask("expression")` gives its value or the OSError's name."""

    LOOP = """
import errno, os, subprocess, sys, time
def read(p):
    with open(p, "rb") as f:
        return f.read().decode(errors="replace")
print("ready", flush=True)
for line in sys.stdin:
    try:
        got = eval(line)
    except OSError as e:
        got = errno.errorcode.get(e.errno, str(e))
    print(repr(got), flush=True)
"""

    def __init__(self, runner, mode, *options, wrap=(), **kw):
        self.proc = runner.popen(
            *wrap, runner.path, "run", "--workspace", mode, *options, "--", PYTHON, "-c", self.LOOP, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        first = self.line()
        assert first == "ready\n", (first, self.proc.stderr.read())

    def line(self):
        ready, _, _ = select.select([self.proc.stdout], [], [], PATIENCE)
        assert ready, "the sandbox does not answer"
        return self.proc.stdout.readline().decode()

    def tell(self, expression):
        self.proc.stdin.write(expression.encode() + b"\n")
        self.proc.stdin.flush()

    def answer(self):
        line = self.line()
        if not line:
            raise Ended(self.proc.stderr.read())
        return eval(line)

    def ask(self, expression):
        self.tell(expression)
        return self.answer()

    def until(self, expression, good):
        """Asks until the answer is good; gives the last one when patience is at its end."""
        end = time.monotonic() + PATIENCE
        while True:
            got = self.ask(expression)
            if good(got) or time.monotonic() > end:
                return got

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.proc.stdin.close()
        try:
            self.proc.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.proc.pid, signal.SIGKILL)
            self.proc.wait()
        self.stderr = self.proc.stderr.read()
        self.proc.stdout.close()
        self.proc.stderr.close()


def appear(runner, path, data):
    """As editors do it: complete at once, by a rename, from outside of the workspace."""
    fresh = runner.top / "fresh"
    runner.write(fresh, data)
    fresh.rename(runner.workspace / path)


def settle(runner, inside):
    """After this the supervisor has read the folders of a test once more; the walk with which it begins may take a while."""
    for folder in ("", "src/", "deep/er/"):
        # names that no one has asked for: an overlay remembers those that were absent once
        ticks = [f"{folder}tick{next(NUMBERS)}.key" for _ in (1, 2) if (runner.workspace / folder).is_dir()]
        for name in ticks:
            appear(runner, name, "tick")
            got = inside.until(f"read({name!r})", lambda answer: answer != "tick")
            assert got in ("EACCES", "ENOENT"), got
        for name in ticks:
            (runner.workspace / name).unlink()
