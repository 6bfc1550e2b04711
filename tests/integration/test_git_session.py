# SPDX-License-Identifier: Apache-2.0
"""A session of more than a hundred usual git commands ends inside as it does outside: each exit status, and the repositories at the end."""

import pathlib
import re
import secrets
import shutil

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SESSION = (HERE / "git_session.sh").read_text()


def lines(out):
    return out.decode().splitlines()


@pytest.fixture
def remotes():
    """The same path outside and inside, because .gitmodules names it; inside it is the sandbox's own."""
    path = f"/tmp/bawn-git-session.{secrets.token_hex(6)}"
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_a_session_of_git(runner, remotes, mode):
    """Claim: git works inside as outside, in every mode that starts from a folder; and nothing that it does is refused."""
    outside_top = runner.mkdir(runner.top / "outside")
    outside = runner.run("bash", "-c", SESSION, "bash", remotes, cwd=outside_top)
    assert outside.rc == 0, outside
    inside = runner.bawn("run", "--workspace", mode, "--", "bash", "-c", SESSION, "bash", remotes)
    assert inside.rc == 0, inside
    want, got = lines(outside.out), lines(inside.out)
    steps = [line for line in want if re.match(r"\d+ \d+ ", line)]
    assert len(steps) > 100 and sum(1 for line in steps if line.split()[1] != "0") <= 2, [line for line in steps if line.split()[1] != "0"]
    assert [pair for pair in zip(want, got) if pair[0] != pair[1]] == [] and len(want) == len(got), (inside.err, set(want) ^ set(got))
    assert b"refused:" not in inside.err, inside
    if mode == "direct":
        status = runner.run("git", "status", "--porcelain")
        assert status.rc == 0 and status.out == b"?? cl/\n", status
        assert runner.run("git", "fsck", "--strict").rc == 0


def test_a_session_in_worktree_mode(runner):
    """The checkout is a repository of its own there: the commands that need no other one."""
    for cmd in (["git", "init", "-q", "-b", "main"], ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "--allow-empty", "-m", "x"]):
        assert runner.run(*cmd).rc == 0
    script = SESSION.replace("step git init\nstep git init\n", "step git checkout -b base\n").split("step git worktree add wt -b wt")[0].replace("main", "base") + "git status --porcelain\n"
    inside = runner.bawn("run", "--workspace", "worktree", "--", "bash", "-c", script, "bash", "/tmp/remotes")
    assert inside.rc == 0, inside
    failed = [line for line in lines(inside.out) if re.match(r"\d+ [1-9]", line)]
    assert failed == [], inside
