# SPDX-License-Identifier: Apache-2.0
"""Limits of kept sandboxes: one command that goes too far ends, or the sandbox does, cleanly and by name; what is kept counts."""

import json
import os
import signal
import subprocess

import pytest

EAT = "b = []\nfor i in range(300): b.append(bytearray(1 << 20)); b[-1][::4096] = b'x' * 256\nprint('ate', len(b))"
MIB = 1 << 20


def start(runner, *options):
    r = runner.bawn("start", "box", "--network", "none", *options)
    assert r.rc == 0, r
    return b"limits without a cgroup" in r.err


def exec_(runner, *cmd, **kw):
    return runner.bawn("exec", "box", "--", *cmd, **kw)


def limits_in_the_log(runner):
    r = runner.bawn("log", "--json", "--type", "limit", "box")
    assert r.rc == 0, r
    return [json.loads(line)["limit"] for line in r.out.splitlines()]


def row(runner):
    r = runner.bawn("ps", "-a", "--json")
    assert r.rc == 0, r
    return next(b for b in r.json() if b["name"] == "box")


@pytest.mark.no_sanitizer
def test_a_memory_bomb_ends_by_name(kept):
    """Claim: a memory bomb in one command is killed at --memory and the limit is named; where a control group limits, PID 1, the keeper and
    later commands live on; where a watchdog does, the sandbox ends and `bawn ps` says why."""
    outside = kept.run("/usr/bin/python3", "-c", EAT)
    assert outside.out == b"ate 300\n", outside
    by_watchdog = start(kept, "--memory", "64m")
    r = exec_(kept, "/usr/bin/python3", "-c", EAT)
    assert r.rc != 0 and b"ate" not in r.out, r
    by_rlimit = by_watchdog and b"MemoryError" in r.err
    if by_rlimit:
        assert exec_(kept, "echo", "alive").out == b"alive\n"
        return
    assert b"bawn: the memory limit of sandbox 'box' was reached" in r.err, r
    assert limits_in_the_log(kept) == ["memory"]
    if not by_watchdog:
        assert exec_(kept, "echo", "alive").out == b"alive\n"
        return
    kept.bawn("stop", "box")  # waits for the end
    assert row(kept)["status"] == "failed" and "memory" in row(kept)["why"], row(kept)
    start(kept, "--memory", "64m")
    assert exec_(kept, "echo", "alive").out == b"alive\n"


def test_a_fork_bomb_ends_by_name(kept):
    """Claim: a fork bomb in one command takes no more than --pids; PID 1 and the keeper live, `bawn stop` ends all of it."""
    by_rlimit = start(kept, "--pids", "40")
    bomb = "b() { b | b & }; b; exec sleep 1000"
    proc = kept.popen(kept.path, "exec", "box", "--", "bash", "-c", bomb, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        assert b"fork" in proc.stderr.readline()  # bash was refused one
        while (r := exec_(kept, "echo", "alive")).rc == 0:
            assert r.out == b"alive\n", r
        assert r.rc == 125 and b"processes that this sandbox may have" in r.err, r
        if not by_rlimit:
            assert "pids" in limits_in_the_log(kept)
        r = kept.bawn("stop", "box", "-t", "0")
        assert r.rc == 0 and proc.wait() != 0, r
    finally:
        proc.kill()
        proc.wait()
        proc.stderr.close()
    start(kept)
    assert exec_(kept, "echo", "alive").out == b"alive\n"


def test_time_ends_one_command_only(kept):
    """Claim: --timeout of the sandbox ends each command, with what ignores SIGTERM, and not the sandbox."""
    start(kept, "--timeout", "500ms")
    r = exec_(kept, "sh", "-c", "trap '' TERM HUP; while :; do :; done")
    assert r.rc == 124 and b"bawn: the time limit of sandbox 'box' was reached" in r.err, r
    assert exec_(kept, "echo", "alive").out == b"alive\n"


FILL = "for i in 1 2 3 4 5 6 7 8; do head -c 16M /dev/zero > ~/big$i; done; sync; echo filled; exec sleep 1000"


@pytest.mark.parametrize("mode", ["direct", "ro", "sync"])
def test_the_kept_home_counts(kept, mode):
    """Claim: --disk bounds the kept home, over all lives of the sandbox: growth past it ends the sandbox by name, and a home that is over the
    limit can be started and emptied but not filled further."""
    outside = kept.run("sh", "-c", "head -c 128M /dev/zero > ~/big; stat -c %s ~/big; rm ~/big")
    assert outside.out == b"%d\n" % (128 * MIB), outside
    start(kept, "--disk", "64m", "--workspace", mode)
    r = exec_(kept, "sh", "-c", FILL)
    assert r.rc != 0 and b"bawn: the disk limit of sandbox 'box' was reached" in r.err, r
    kept.bawn("stop", "box")  # waits for the end
    assert row(kept)["status"] == "failed" and "disk space" in row(kept)["why"], row(kept)
    assert limits_in_the_log(kept) == ["disk"]
    start(kept, "--disk", "64m", "--workspace", mode)
    r = exec_(kept, "sh", "-c", "head -c 40M /dev/zero > ~/more; sync; exec sleep 1000")
    assert r.rc != 0 and b"bawn: the disk limit of sandbox 'box' was reached" in r.err, r
    kept.bawn("stop", "box")
    start(kept, "--disk", "64m", "--workspace", mode)
    assert exec_(kept, "sh", "-c", "rm ~/big* ~/more; sleep 1; echo removed").out == b"removed\n"
    kept.bawn("stop", "box")
    start(kept, "--disk", "64m", "--workspace", mode)
    assert exec_(kept, "sh", "-c", "head -c 30M /dev/zero > ~/ok; sync; sleep 1.2; echo fine").out == b"fine\n"


def test_the_end_of_pid_1_is_told(kept):
    """Claim: when PID 1 of the sandbox is killed, commands end with an error, the sandbox is 'failed', and can be started again."""
    start(kept)
    proc = kept.popen(kept.path, "exec", "box", "--", "sleep", "1000", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not kept.bawn("ps", "--json", "box").json()["jobs"]:
        pass
    os.kill(kept.bawn("inspect", "--json", "box").json()["init"], signal.SIGKILL)
    assert proc.wait() != 0 and b"bawn:" in proc.stderr.read()
    proc.stderr.close()
    kept.bawn("stop", "box")
    assert row(kept)["status"] == "failed", row(kept)
    start(kept)
