# SPDX-License-Identifier: Apache-2.0
"""All inotify instances of the sandbox are taken by a program inside, as one that watches files does: git's own files are judged all the same."""

import os
import sys

import pytest

PYTHON = os.path.realpath("/usr/bin/python3")
TAKE = """
import ctypes, fcntl, os, struct, sys, time
libc = ctypes.CDLL(None)
while libc.inotify_init1(0) >= 0: pass
def write(path, text): os.makedirs(os.path.dirname(path)); f = open(path, "w"); f.write(text); f.close()
"""
WRITES = """
write("good/.git", "gitdir: ../.git/modules/good\\n")
write("evil/.git", "gitdir: ../planted\\n")
os.mkdir("early"); f = open("early/.git", "w")
fcntl.fcntl(f, 37, struct.pack("hhqqi", fcntl.F_UNLCK, 0, 0, 0, 0))  # F_OFD_SETLK: the lock that tells that it is open
time.sleep(0.2)
f.write("gitdir: ../planted\\n"); f.close()
os.mkdir("left"); left = os.open("left/.git", os.O_WRONLY | os.O_CREAT); os.write(left, b"gitdir: ../.git/modules/left")
os.mkdir("next")
print(sorted(p for p in ("good", "evil", "early", "left") if os.path.exists(p + "/.git")), flush=True)
"""


@pytest.fixture
def repo(runner):
    assert runner.run("git", "init", "-q", ".").rc == 0
    runner.mkdir(runner.workspace / "planted")
    return runner


def test_pointers_are_judged_at_the_close(repo):
    """Claim: what git writes comes, also at the end of the process that wrote it; what leads elsewhere does not."""
    r = repo.bawn("run", "--network", "none", "--", PYTHON, "-c", TAKE + WRITES)
    assert (r.rc, r.out) == (0, b"['good']\n"), r
    read = lambda name: (repo.workspace / name / ".git").read_text()
    assert read("good") == "gitdir: ../.git/modules/good\n" and read("left").strip() == "gitdir: ../.git/modules/left"
    assert not any((repo.workspace / name / ".git").exists() for name in ("evil", "early"))


def test_the_supervisor_hears_of_what_was_refused(repo):
    r = repo.bawn("run", "--network", "none", "--", PYTHON, "-c", TAKE + 'write("evil/.git", "gitdir: ../planted\\n")')
    assert r.rc == 0 and b"evil/.git" in r.err, r


def test_without_the_guard_the_pointer_stays(repo):
    """The attack works outside."""
    r = repo.run(sys.executable, "-c", TAKE.replace("while libc.inotify_init1(0) >= 0: pass", "") + 'write("evil/.git", "gitdir: ../planted\\n")')
    assert r.rc == 0 and (repo.workspace / "evil/.git").read_text() == "gitdir: ../planted\n"
