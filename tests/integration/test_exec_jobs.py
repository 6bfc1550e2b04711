# SPDX-License-Identifier: Apache-2.0
"""Many commands and many clients of kept sandboxes: at once, attached, renamed, restarted, idle; and many `bawn` processes on one registry."""

import concurrent.futures
import json
import os
import pathlib
import select
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import keep_driver as kd  # noqa: E402
from keep_driver import Box  # noqa: E402
from person import WAIT, finish, shell, terminal  # noqa: E402


@pytest.fixture
def box(kept):
    b = Box(kept, "box")
    b.start("--network", "none")
    return b


def fifo(runner, name):
    path = runner.workspace / name
    os.mkfifo(path)
    return runner.own(path)


def wait_end(pid_fd):
    assert select.select([pid_fd], [], [], WAIT)[0], "it does not end"
    os.close(pid_fd)


def listed(runner, *args):
    r = runner.bawn("ps", "-a", "--json", *args)
    assert r.rc == 0, r
    return {b["name"]: b for b in r.json()}


# -- at once ---------------------------------------------------------------------------------------------------------------


def test_100_at_once_get_their_own(box):
    """Claim: commands at once do not mix: each has its own input, output, status, and all of them run at the same time."""
    meet = fifo(box.runner, "meet")
    hold = os.open(meet, os.O_RDWR)
    script = "read x; echo in-$x; echo err-$x >&2; read y < meet; seq $x $((x + 2000)); exit $((x % 100))"
    procs = [box.runner.popen(box.runner.path, "exec", "box", "--", "sh", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) for _ in range(100)]
    for i, p in enumerate(procs):
        p.stdin.write(b"%d\n" % i)
        p.stdin.close()
        p.stdin = None
    for i, p in enumerate(procs):
        assert p.stdout.readline() == b"in-%d\n" % i
    assert len(box.ask("jobs")["jobs"]) == 100
    for _ in procs:  # one line each: what one of them would read too much is kept from another
        os.write(hold, b"x\n")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(lambda p: p.communicate(timeout=WAIT), procs))
    os.close(hold)
    for i, (p, (out, err)) in enumerate(zip(procs, ends)):
        assert (p.returncode, err) == (i % 100, b"err-%d\n" % i)
        assert out == b"".join(b"%d\n" % n for n in range(i, i + 2001))
    assert box.ask("jobs")["jobs"] == []


# -- the background ----------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_and_their_output_is_kept(box):
    """Claim: what runs in the background is in the list with its command and number until long after its end, and its output in the logs."""
    go = fifo(box.runner, "go")
    r = box.runner.bawn("exec", "-d", "--json", "box", "--", "sh", "-c", "echo first; read x < go; echo $x; exit 3")
    assert r.rc == 0 and r.json()["sandbox"] == "box", r
    job = r.json()["job"]
    follow = box.runner.popen(box.runner.path, "logs", "-f", "box", str(job), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert follow.stdout.readline() == b"first\n"
    (entry,) = box.ask("jobs")["jobs"]
    assert entry["job"] == job and entry["background"] and entry["status"] is None and "read x" in entry["command"]
    assert b"read x" in box.runner.bawn("ps", "box").out
    go.write_bytes(b"second\n")
    assert follow.communicate(timeout=WAIT)[0] == b"second\n" and follow.returncode == 0
    assert box.runner.bawn("attach", "box", str(job)).rc == 3
    assert box.ask("jobs")["jobs"][0]["status"] == 3
    # and after the sandbox has ended
    assert box.runner.bawn("stop", "box").rc == 0
    assert box.runner.bawn("logs", "box", str(job)).out == b"first\nsecond\n"
    r = box.runner.bawn("logs", "-f", "box", str(job))
    assert r.out == b"first\nsecond\n" and r.rc == 0, r


def test_a_client_that_does_not_read_stalls_nobody_for_long(user_runner):
    """Claim: who is attached and does not read is dropped; the job, whose output does not fit anywhere, goes on to its end, and is logged."""
    with kd.kept(user_runner, "box", "--network", "none") as box:
        check_unread(box)


def check_unread(box):
    c, started = box.background("sh", "-c", "yes | head -c 5000000; echo end")
    r = box.runner.bawn("attach", "--read-only", "box", str(started.value))  # c is never read from
    assert r.rc == 0 and r.out.endswith(b"y\nend\n"), r
    assert (box.folder / f"log/job-{started.value}.out").read_bytes() == b"y\n" * 2500000 + b"end\n"
    c.close()


def test_ctrl_z_of_a_job_in_the_background(box):
    """Claim: whoever is attached on a terminal can stop the program with ctrl-z, is stopped with it, and goes on with it."""
    job = box.runner.bawn("exec", "-d", "--tty", "box", "--", "sh", "-c", "echo re''ady; while read x; do echo got-$x; done; exit 8").out.decode().strip()
    sh = shell(box.runner)
    sh.sendline(f"{box.runner.path} attach box {job}".encode())
    sh.expect_exact(b"ready")
    sh.sendline(b"one")
    sh.expect_exact(b"got-one")
    sh.send(b"\x1a")
    sh.expect(rb"\[1\]\+\s+Stopped")
    sh.expect_exact(b"OUT> ")
    sh.sendline(b"fg")
    sh.expect_exact(b"attach box")
    sh.sendline(b"two")
    sh.expect_exact(b"got-two")
    sh.sendeof()
    sh.expect_exact(b"OUT> ")
    sh.sendline(b"echo status=$?")
    sh.expect_exact(b"status=8")
    sh.close()


def test_detach_keys_and_a_program_in_raw_mode(box):
    """Claim: the keys of one's own choice detach, and only whole: a part of them goes inside."""
    program = "import os, tty; tty.setraw(0); os.write(1, b'rea' + b'dy'); n = os.read(0, 1); os.write(1, b'key-%d' % n[0]); os.read(0, 1); os.write(1, b'over')"
    child = terminal(box.runner, "shell", "--detach-keys", "ctrl-a,d", "box")
    child.expect_exact(b"$ ")
    child.sendline(f'exec /usr/bin/python3 -c "{program}"'.encode())
    child.expect_exact(b"ready")
    child.send(b"\x01x")
    child.expect_exact(b"key-1")
    child.expect_exact(b"over")
    assert finish(child) == 0
    child = terminal(box.runner, "shell", "--detach-keys", "ctrl-a,d", "box")
    child.expect_exact(b"$ ")
    child.send(b"\x01d")
    child.expect_exact(b"detached")
    assert finish(child) == 0
    child = terminal(box.runner, "attach", "box")
    child.sendline(b"echo st''ill")
    child.expect_exact(b"still")
    child.sendline(b"exit 6")
    assert finish(child) == 6


def test_a_lost_terminal_leaves_the_shell(box):
    """Claim: closing the window detaches from `bawn shell`, and ends what `bawn exec` runs."""
    end = fifo(box.runner, "end")
    first = terminal(box.runner, "shell", "box")
    first.expect_exact(b"$ ")
    first.sendline(b"X=kept; echo re''ady")
    first.expect_exact(b"ready")
    first.close(force=True)
    child = terminal(box.runner, "attach", "box")
    child.expect_exact(b"ready")
    child.sendline(b"echo $X-value; exit")
    child.expect_exact(b"kept-value")
    assert finish(child) == 0
    with open(end, "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as f:
        child = terminal(box.runner, "exec", "box", "--", "sh", "-c", "exec 3>end; echo re''ady; sleep 1000; :")
        child.expect_exact(b"ready")
        child.close(force=True)
        assert select.select([f], [], [], WAIT)[0] and f.read() == b""  # its last writer is gone


# -- names, lives, idleness ------------------------------------------------------------------------------------------------


def test_renamed_while_it_runs(box):
    """Claim: a command goes on under the new name, which is the only one from then on; its id always finds it."""
    go = fifo(box.runner, "go")
    run = box.runner
    p = run.popen(run.path, "exec", "box", "--", "sh", "-c", "echo ready; read x < go; exit 4", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    job = run.bawn("exec", "-d", "box", "--", "sh", "-c", "echo logged; sleep 1000").out.decode().strip()
    r = run.bawn("rename", "box", "other")
    assert r.rc == 0, r
    r = run.bawn("exec", "box", "true")
    assert r.rc == 125 and b"no sandbox 'box'" in r.err, r
    assert run.bawn("exec", "other", "echo", "here").out == b"here\n"
    identity = run.bawn("inspect", "--json", "other").json()["id"]
    assert run.bawn("exec", identity, "echo", "here").out == b"here\n"
    go.write_bytes(b"x\n")
    assert p.wait(WAIT) == 4
    p.stdout.close()
    assert run.bawn("logs", "other", job).out == b"logged\n"
    assert run.bawn("start", "--network", "none", "box").rc == 0  # the name is free
    assert {n for n, b in listed(run).items() if b["status"] == "running"} == {"box", "other"}


def test_what_a_restart_keeps(kept):
    """Claim: home and the workspace's changes are there again after stop and start, processes and /tmp are not; the host's tree is untouched."""
    kept.write("file", "old\n")
    box = Box(kept, "box")
    box.start("--network", "none", "--workspace", "overlay")
    r = kept.bawn("exec", "box", "sh", "-c", "echo mine > ~/mine; chmod 700 ~/mine; echo new > file; echo more > added; echo t > /tmp/t; (sleep 1000 > /dev/null 2>&1 &)")
    assert r.rc == 0, r
    for _ in range(2):
        assert kept.bawn("stop", "box").rc == 0
        assert (kept.workspace / "file").read_text() == "old\n" and not (kept.workspace / "added").exists()
        assert kept.bawn("start", "box").rc == 0
        r = kept.bawn("exec", "box", "sh", "-c", "~/mine 2>/dev/null; cat ~/mine file added; ls /tmp; set -- /proc/[0-9]*; echo $#")
        assert r.out.split() == [b"mine", b"new", b"more", b"2"], r  # init, sh
    assert kept.bawn("stop", "box").rc == 0
    r = kept.bawn("apply", "--yes", "box")
    assert r.rc == 0 and (kept.workspace / "file").read_text() == "new\n", r
    assert kept.bawn("start", "box").rc == 0
    assert kept.bawn("exec", "box", "cat", "file").out == b"new\n"


def test_idle(kept):
    """Claim: one that nobody uses ends by itself, one in which a command runs does not, whatever that takes."""
    box = Box(kept, "box")
    box.start("--network", "none", "--idle", "400ms")
    end = box.pidfd()
    assert kept.bawn("exec", "box", "sleep", "1.5").rc == 0  # longer than it may be idle
    assert box.alive()
    job = kept.bawn("exec", "-d", "box", "--", "sh", "-c", "sleep 1.5; echo done").out.decode().strip()
    wait_end(end)
    assert kept.bawn("logs", "box", job).out == b"done\n"
    assert box.state()["phase"] == "stopped" and "nothing was executed" in box.keeper_log()
    r = kept.bawn("exec", "box", "true")
    assert r.rc == 125 and b"'bawn start box' starts it" in r.err, r


def test_keep_alive_with_two_runs_at_once(kept):
    """Claim: two runs of a project share its sandbox, each with its own streams and status, and neither's end is the other's."""
    kept.write(kept.home / ".config/bawn/config.json", json.dumps({"sandbox": {"keep_alive": True, "network": "none"}}))
    fifo(kept, "one")
    fifo(kept, "two")

    def run(which, status):
        return kept.popen(kept.path, "run", "--env", f"WHICH={which}", "--", "sh", "-c", f"readlink /proc/self/ns/pid; read x < {which}; echo $x-$WHICH; exit {status}",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    procs = [run("one", 5), run("two", 6)]
    assert len({p.stdout.readline() for p in procs}) == 1
    (kept.workspace / "two").write_bytes(b"b\n")
    assert procs[1].communicate(timeout=WAIT)[0] == b"b-two\n" and procs[1].returncode == 6
    assert procs[0].poll() is None
    (kept.workspace / "one").write_bytes(b"a\n")
    assert procs[0].communicate(timeout=WAIT)[0] == b"a-one\n" and procs[0].returncode == 5


def test_200_processes_at_once_on_the_registry(user_runner):
    """Claim: any number of bawn processes make, use, list, rename and remove sandboxes beside each other: each succeeds or says why, a name has
    one sandbox, and what is left is whole."""
    kept = user_runner

    def verb(i):
        name = f"n{i % 10}"
        args = [["start", "--network", "none", name], ["exec", name, "echo", name], ["ps", "-a", "--json"], ["inspect", "--json", name],
                ["stop", "-t", "0", name], ["rename", name, f"r{i % 10}"], ["rm", "-f", f"r{i % 10}"], ["status", name]][i // 10 % 8]
        return kept.popen(kept.path, *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    try:
        for i in range(10):
            assert kept.bawn("start", "--network", "none", f"n{i}").rc == 0
        procs = [verb(i) for i in range(200)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ends = list(pool.map(lambda p: p.communicate(timeout=WAIT), procs))
        for p, (out, err) in zip(procs, ends):
            verb_, ok = p.args[1], p.returncode == 0
            assert p.returncode in (0, 3, 4, 125) and (ok or verb_ == "status" or err.startswith(b"bawn")), (p.args, p.returncode, out, err)
            if verb_ == "exec" and ok:
                assert out == p.args[2].encode() + b"\n"
            if verb_ == "ps":
                assert ok and isinstance(json.loads(out), list), (p.args, out, err)
        left = listed(kept)
        folder = kept.home / ".local/state/bawn/sandboxes"
        assert sorted(left) == sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))
        ids = [json.loads((folder / n / "sandbox.json").read_text())["id"] for n in left]
        assert len(ids) == len(set(ids))
        for name in left:
            assert left[name]["status"] in ("running", "stopped", "created"), left[name]
            r = kept.bawn("exec", "--start", name, "echo", name)
            assert r.out == name.encode() + b"\n", r
    finally:
        r = kept.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r
    r = kept.bawn("log", "verify")
    assert r.rc == 0, r
