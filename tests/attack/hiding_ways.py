# SPDX-License-Identifier: Apache-2.0
"""Probes for hidden files: Python that runs outside, where it must find them, and inside, where it must not."""

import json
import shutil
import subprocess
import textwrap

import pytest

from hiding import HIDDEN, PYTHON, fill, git

REFUSED = 3
MODES = ["direct", "overlay", "sync", "worktree", "ro"]
SHOWS_THE_HOST = ["direct", "overlay", "ro"]  # the host's own folder is below; the others have a copy


def snapshot(runner, names=HIDDEN):
    """What the host has under the hidden names: content, mode, owner, inode, times."""
    seen = {}
    for name in names:
        path = runner.workspace / name
        st = path.lstat()
        seen[name] = (path.read_bytes(), st.st_mode, st.st_uid, st.st_gid, st.st_ino, st.st_mtime_ns, st.st_nlink)
    return seen


@pytest.fixture
def tree(runner, marker):
    fill(runner, marker)
    return snapshot(runner)


PRELUDE = """
import ctypes, errno, mmap, os, stat, subprocess, sys, time
marker, names = sys.argv[1], sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
def has(data):
    return marker.encode() in (data.encode() if isinstance(data, str) else data)
def each(way):
    "Tries a way on every hidden name; an error is no find."
    for name in names:
        try:
            found = way(name)
        except OSError as e:
            print(name, e)
            continue
        if found:
            return name, found
    return False
def read(path):
    with open(path, "rb") as f:
        return has(f.read())
def attack():
%s
try:
    found = attack()
except OSError as e:
    found = print("refused", e)
print("found", ascii(found))
sys.exit(0 if found else 3)
"""


def probe(body, marker, names=HIDDEN):
    return [PYTHON, "-c", PRELUDE % textwrap.indent(textwrap.dedent(body), "    "), marker, *names]


def control(runner, argv):
    """The same on a copy of the tree, without the sandbox."""
    copy = runner.top / "control"
    subprocess.run(["cp", "-a", runner.workspace, copy], check=True)
    r = runner.run(*argv, cwd=copy)
    shutil.rmtree(copy)
    return r


def prove(runner, mode, body, marker, names=HIDDEN, *options):
    argv = probe(body, marker, names)
    shown = control(runner, argv)
    assert shown.rc == 0, f"the probe does not work even without the sandbox, so it proves nothing:{shown!r}"
    r = runner.bawn("run", "--workspace", mode, *options, "--", *argv)
    assert r.rc == REFUSED, f"{'the attack works inside' if r.rc == 0 else 'the probe did not finish'}:{r!r}"
    assert marker.encode() not in r.out + r.err, r
    return r


def configure(runner, value, path=".config/bawn/config.json", top=None):
    return runner.write((top or runner.home) / path, json.dumps({"sandbox": {"workspace": value}}))


def other_project(runner):
    other = runner.mkdir(runner.top / "other")
    git(runner, "init", "-q", ".", cwd=other)
    runner.write(other / "readme.txt", "x")
    git(runner, "add", "-A", cwd=other)
    git(runner, "commit", "-q", "-m", "x", cwd=other)
    return other
