# SPDX-License-Identifier: Apache-2.0
"""bawn-review with one kernel feature denied (deny.c): what its jail cannot do without is a refusal, never a weaker jail in silence."""

import pathlib

import pytest



@pytest.fixture
def reviewed(runner):
    """A run with a change, and what its review says when nothing is denied."""
    runner.write("a.txt", "one\n")
    r = runner.bawn("run", "--workspace", "overlay", "--name", "r", "--", "sh", "-c", "echo two > a.txt")
    assert r.rc == 0, r
    r = runner.bawn("review", "--diff")
    assert r.rc == 0 and b"+two" in r.out, r
    return runner, r.out


@pytest.mark.parametrize("feature", ["landlock", "openat2", "closerange", "memfd"])
def test_what_another_wall_or_an_older_call_makes_up_for(reviewed, deny, feature):
    runner, before = reviewed
    r = runner.run(deny, feature, "--", runner.path, "review", "--diff")
    assert r.rc == 0 and r.out == before, r


def test_without_filters_nothing_is_read(reviewed, deny):
    runner, _ = reviewed
    for words in (["review"], ["diff"], ["review", "--json"]):
        r = runner.run(deny, "seccomp", "--", runner.path, *words)
        assert r.rc == 125 and r.out == b"" and b"system call filter" in r.err, r
