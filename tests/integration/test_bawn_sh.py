# SPDX-License-Identifier: Apache-2.0
"""`bawn-sh` is /bin/sh, but inside: the same arguments, streams, statuses and signals, in the sandbox of the folder it is called in."""

import os
import pty
import signal
import subprocess
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from person import read_all  # noqa: E402


@pytest.fixture
def sh(kept):
    """Runs bawn-sh beside the program under test."""
    path = kept.path.parent / "bawn-sh"
    if not path.exists():  # a build folder has no links
        path = kept.top / "bawn-sh"
        path.symlink_to(kept.path)
    assert kept.bawn("start").rc == 0

    def call(*args, **kw):
        return kept.run(path, *args, **kw)

    call.path = path
    return call


CASES = [
    (["-c", "echo out; echo err >&2; exit 3"], b""),
    (["-c", 'printf "%s|" "$0" "$@"', "zero", "a b", "", "*"], b""),
    (["-c", "cat; exit 0"], b"some input\n"),
    (["-ec", "false; echo no"], b""),
    (["-c", "no-such-program-here"], b""),
    (["-c", "kill -TERM $$"], b""),
    (["-s", "x", "y"], b"echo $# $1 $2\nexit 5\n"),
    ([], b"echo from stdin; exit 9\n"),
    (["script.sh", "one"], b""),
    (["-c", "exit 300"], b""),
    (["-c", "echo 'unfinished"], b""),
]


@pytest.mark.parametrize("args,given", CASES, ids=range(len(CASES)))
def test_as_sh(kept, sh, args, given):
    kept.write("script.sh", "echo script $1 $#; exit 4\n")
    outside, inside = kept.run("/bin/sh", *args, input=given), sh(*args, input=given)
    status = outside.rc if outside.rc >= 0 else 128 - outside.rc
    assert (inside.rc, inside.out) == (status, outside.out), (outside, inside)
    assert inside.err.replace(b"/bin/sh", b"sh") == outside.err.replace(b"/bin/sh", b"sh"), (outside, inside)


def test_it_is_inside(kept, sh):
    kept.write(kept.home / "secret.txt", "mine")
    assert sh("-c", f"cat {kept.home}/secret.txt").rc == 1
    sh("-c", "echo changed > made")
    assert (kept.workspace / "made").read_text() == "changed\n"
    kept.mkdir(kept.workspace / "deep")
    assert sh("-c", "pwd", cwd=kept.workspace / "deep").out == f"{kept.workspace}/deep\n".encode()
    # A sandbox that was stopped is started; the variables of the caller stay outside.
    assert kept.bawn("stop").rc == 0
    r = sh("-c", "echo [$TOKEN] $TERM", env={"TOKEN": "secret", "TERM": "vt100"})
    assert r.out == b"[] vt100\n", r


def test_it_makes_no_sandbox(kept, sh):
    """The caller of the shell, an agent, chooses the folder: it cannot make one of the user's home."""
    other = kept.mkdir(kept.top / "other")
    for folder in (other, kept.home, "/"):
        r = sh("-c", "echo ran", cwd=folder)
        assert r.rc == 125 and r.out == b"" and b"no sandbox belongs to" in r.err, r
    assert len(kept.bawn("ps", "--json").json()) == 1
    name = kept.bawn("ps", "--json").json()[0]["name"]
    assert sh("-c", "echo ran", cwd=kept.workspace, env={"BAWN_SH_SANDBOX": name}).out == b"ran\n"
    assert sh("-c", "echo ran", env={"BAWN_SH_SANDBOX": "missing"}).rc == 125


def test_signals(kept, sh):
    p = kept.popen(sh.path, "-c", "trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.1; done", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGTERM)
    assert p.stdout.read() == b"got\n" and p.wait() == 7


def test_terminal_and_login(kept, sh):
    master, slave = pty.openpty()
    p = subprocess.Popen(["-bawn-sh"], executable=sh.path, cwd=kept.workspace, env=kept.environ({"TERM": "xterm", "PS1": "> "}), **kept.identity(),
                         stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.write(master, b"test -t 0 && echo on a $((40 + 2)) terminal; exit 6\n")
    assert b"on a 42 terminal" in read_all(master)
    assert p.wait() == 6
