# SPDX-License-Identifier: Apache-2.0
"""The supervisor alone: the fake engine runs nothing of ours and answers what the test asks for."""

import json

import pytest

ALL = (1 << 18) - 1  # guarantees
NOT_RUN = ("sh", "-c", "touch ran; exit 99")  # the fake engine never starts it


def fake(runner, answer, *options, **env):
    r = runner.bawn("run", "--engine", "fake", *options, "--", *NOT_RUN, env={"BAWN_FAKE": answer, **env})
    assert not (runner.workspace / "ran").exists(), r
    return r


@pytest.mark.parametrize("answer, status", [("exit:0", 0), ("exit:7", 7), ("exit:125", 125), ("exit:255", 255),
                                            ("signal:9", 137), ("signal:15", 143), ("signal:1", 129)])
def test_status_is_passed_on(runner, answer, status):
    r = fake(runner, answer)
    assert r.rc == status, r
    assert r.out == b"", r


def test_no_answer_asked_for(runner):
    r = runner.bawn("run", "--engine", "fake", "--", *NOT_RUN)
    assert r.rc == 0, r


def test_failure_inside_is_named(runner):
    r = fake(runner, "fail:no luck with seccomp")
    assert r.rc == 125, r
    assert b"bawn: cannot sandbox: no luck with seccomp\n" in r.err, r


def test_text_of_a_failure_cannot_reprogram_the_terminal(runner):
    """What bawn-init says may have been shaped by what it found: paths, names."""
    r = fake(runner, "fail:\x1b]0;title\x07\nbawn: all is well")
    assert r.rc == 125, r
    assert b"\x1b" not in r.err and b"\x07" not in r.err, r
    assert not any(line == b"bawn: all is well" for line in r.err.splitlines()), r


def test_very_long_failure(runner):
    r = fake(runner, "fail:" + "x" * 5000)
    assert r.rc == 125, r
    assert b"cannot sandbox: xxx" in r.err, r


def test_engine_that_keeps_nothing_is_refused(runner):
    r = fake(runner, "exit:0", BAWN_FAKE_KEEPS="0")
    assert r.rc == 125, r
    assert b"engine 'fake' does not enforce what these settings need:" in r.err, r
    needed = r.err.split(b"need:")[1]
    for name in (b"files", b"network", b"syscalls", b"memory", b"pids", b"end"):
        assert name in needed, (name, r)


@pytest.mark.parametrize("bit, name", [(0, b"files"), (2, b"network"), (4, b"syscalls"), (6, b"memory"), (7, b"pids"), (10, b"end")])
def test_every_missing_guarantee_is_named(runner, bit, name):
    r = fake(runner, "exit:0", "--memory", "1g", "--pids", "100", BAWN_FAKE_KEEPS=str(ALL & ~(1 << bit)))
    assert r.rc == 125, r
    assert r.err.split(b"need:")[1].strip() == name, r


@pytest.mark.parametrize("option, value, bit, name", [("--disk", "1g", 8, b"disk"), ("--timeout", "1h", 9, b"time"), ("--cpus", "1", 5, b"cpu")])
def test_what_is_asked_for_must_be_kept(runner, option, value, bit, name):
    keeps = {"BAWN_FAKE_KEEPS": str(ALL & ~(1 << bit))}
    r = fake(runner, "exit:3", option, value, **keeps)
    assert r.rc == 125, r
    assert r.err.split(b"need:")[1].strip() == name, r


def test_json(runner):
    r = runner.bawn("run", "--engine", "fake", "--json", "--", *NOT_RUN, env={"BAWN_FAKE": "signal:9"})
    assert r.rc == 137, r
    report = next(json.loads(line) for line in (r.out + r.err).splitlines() if line.startswith(b"{"))
    assert (report["status"], report["signal"], report["started"], report["engine"]) == (137, 9, True, "fake"), r


@pytest.mark.parametrize("name, status, text", [
    ("microvm", 125, b"not in this version"), ("kubernetes", 125, b"not in this version"),
    ("nativ", 64, b"nativ"), ("", 64, b""),
])
def test_engines_that_are_not_there(runner, name, status, text):
    r = runner.bawn("run", "--engine", name, "--", *NOT_RUN)
    assert r.rc == status, r
    assert text in r.err and r.err.startswith(b"bawn: "), r
    assert not (runner.workspace / "ran").exists()


def test_fake_is_not_for_people(runner):
    for words in (("run", "--help"), ("help", "run"), ("doctor",)):
        r = runner.bawn(*words)
        assert b"fake" not in r.out + r.err, r
