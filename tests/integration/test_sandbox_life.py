# SPDX-License-Identifier: Apache-2.0
"""How sandboxes begin and end for one who uses them for the first time: start, shell, attach and exec without surprises."""

import json
import os
import pty
import signal
import socket
import subprocess

import pytest


def started(runner, name="box", *options):
    r = runner.bawn("start", name, "--network", "none", *options)
    assert r.rc == 0, r
    return runner


@pytest.fixture
def box(kept):
    return started(kept)


# -- start and shell -------------------------------------------------------------------------------------------------------


def test_starting_a_running_one_is_success(box):
    pid = box.bawn("ps", "--json").json()[0]["pid"]
    r = box.bawn("start", "box")
    assert (r.rc, r.out) == (0, b"box\n") and b"sandbox 'box' is already running" in r.err, r
    r = box.bawn("start", "box", "--network", "none", "--json")
    assert r.rc == 0 and r.json() == {"sandbox": "box", "new": False, "running": True, "job": None}, r
    assert box.bawn("ps", "--json").json()[0]["pid"] == pid


def test_a_command_joins_a_running_one(box):
    r = box.bawn("start", "box", "--json", "--", "sh", "-c", "echo joined")
    assert r.rc == 0 and r.json()["running"] and r.json()["job"] == 1, r
    assert box.bawn("logs", "-f", "box", "1").out == b"joined\n"


def test_other_options_do_not_join(box):
    """What was asked for would not hold."""
    r = box.bawn("start", "box", "--network", "none", "-m", "64m")
    assert r.rc == 125 and b"already running, with other options; 'bawn stop box' first" in r.err, r
    other = box.mkdir(box.top / "other")
    r = box.bawn("start", "box", "-C", other)
    assert r.rc == 64 and b"use another name" in r.err, r


def test_shell_makes_a_new_one(kept):
    r = kept.bawn("shell", "fresh", input=b"echo made > ~/file; exit 4\n")
    assert r.rc == 4 and b"sandbox 'fresh' is new" in r.err, r
    assert kept.bawn("exec", "fresh", "--", "sh", "-c", "cat ~/file").out == b"made\n"


# -- the end of input ------------------------------------------------------------------------------------------------------


def test_shell_ends_with_its_input(box):
    r = box.bawn("shell", "box", input=b"echo one; tty; false\n")
    assert (r.rc, r.out) == (1, b"one\nnot a tty\n"), r
    assert box.bawn("shell", "box").rc == 0  # /dev/null


def test_attach_leaves_a_terminal_at_the_end_of_input(box):
    job = box.bawn("exec", "-d", "--tty", "box", "--", "cat").out.decode().strip()
    for typed, seen in ((None, b""), (b"hello\n", b"hello\r\nhello\r\n")):
        r = box.bawn("attach", "box", job, input=typed)
        assert r.rc == 0 and seen in r.out and b"detached" in r.err, r
    assert [j["status"] for j in box.bawn("ps", "box", "--json").json()["jobs"]] == [None]


def test_attach_passes_the_end_of_input_on(box):
    job = box.bawn("exec", "-d", "box", "--", "sh", "-c", "cat; exit 9").out.decode().strip()
    r = box.bawn("attach", "box", job, input=b"hello\n")
    assert (r.rc, r.out) == (9, b"hello\n"), r


# -- one signal ------------------------------------------------------------------------------------------------------------


def nobody_reads(runner, kind):
    """(where to write, what has to stay open)"""
    if kind == "terminal":
        master, slave = pty.openpty()
        os.fchown(slave, runner.user.pw_uid, -1)
        return slave, master
    if kind == "socket":
        ours, theirs = socket.socketpair()
        return theirs.detach(), ours.detach()
    reader, writer = os.pipe()
    return writer, reader


@pytest.mark.parametrize("kind", ["terminal", "socket", "pipe"])
@pytest.mark.parametrize("verb", ["exec", "run"])
def test_one_sigterm_ends_it(box, verb, kind):
    """Also if no process reads what it prints."""
    out, other = nobody_reads(box, kind)
    before, after = os.pipe()
    argv = ["exec", "box"] if verb == "exec" else ["run", "--network", "none"]
    proc = box.popen(box.path, *argv, "--", "sh", "-c", "echo up >&2; exec yes", stdin=subprocess.DEVNULL, stdout=out, stderr=after)
    os.close(after)
    assert b"up" in read_until(before, b"up")
    proc.send_signal(signal.SIGTERM)
    assert proc.wait() == 143
    for fd in (out, other, before):
        os.close(fd)


def read_until(fd, word):
    text = b""
    while word not in text:
        part = os.read(fd, 4096)
        assert part, text
        text += part
    return text


def test_one_sigterm_with_a_shell_and_its_child(box):
    before, after = os.pipe()
    proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", "echo up >&2; sleep 1000; true", stdin=subprocess.DEVNULL, stderr=after)
    os.close(after)
    read_until(before, b"up")
    proc.send_signal(signal.SIGTERM)
    assert proc.wait() == 143
    os.close(before)


# -- what it used ----------------------------------------------------------------------------------------------------------

BUSY = "import time\nwhile time.process_time() < 0.5: pass\n"


def cpu_of(runner, *command, **kw):
    r = runner.bawn("run", "--json", "--network", "none", "--", *command, **kw)
    assert r.rc == 0, r
    return json.loads(r.err.splitlines()[-1])["cpu_us"] / 1e6


def test_cpu_time_is_counted(runner):
    """With a group of its own, and without: of the command, of its children, and of what has lost its parent."""
    idle, one = cpu_of(runner, "python3", "-c", "pass"), cpu_of(runner, "python3", "-c", BUSY)
    assert 0 < idle < 0.5 <= one < 1.5, (idle, one)
    script = f"python3 -c '{BUSY}'; (python3 -c '{BUSY}' & echo $! > left) ; while kill -0 $(cat left) 2>/dev/null; do sleep 0.05; done"
    two = cpu_of(runner, "sh", "-c", script)
    assert 1 <= two < 2.5, two


# -- killed runs -----------------------------------------------------------------------------------------------------------


def killed_run(runner, mode, script):
    """A run that is killed, with everything of it, after the script said "up"."""
    before, after = os.pipe()
    proc = runner.popen(runner.path, "run", "-w", mode, "--network", "none", "--", "sh", "-c", script + "; echo up; exec sleep 1000", stdin=subprocess.DEVNULL, stdout=after)
    os.close(after)
    read_until(before, b"up")
    proc.send_signal(signal.SIGKILL)
    proc.wait()
    assert os.read(before, 100) == b""  # nothing inside lives
    os.close(before)


def runs(runner):
    folder = runner.home / ".local/state/bawn/runs"
    return sorted(f.name for f in folder.iterdir() if f.name[0] != ".")


@pytest.mark.parametrize("mode", ["sync", "overlay"])
def test_a_killed_run_without_changes_is_swept(runner, mode):
    runner.write("file", "content")
    killed_run(runner, mode, "cat file")
    assert len(runs(runner)) == 1
    r = runner.bawn("run", "-w", mode, "--network", "none", "--", "true")
    assert r.rc == 0 and runs(runner) == [], r
    killed_run(runner, mode, "cat file")
    r = runner.bawn("prune")
    assert r.rc == 0 and runs(runner) == [], r


@pytest.mark.parametrize("mode", ["sync", "overlay"])
def test_a_killed_run_with_changes_stays(runner, mode):
    runner.write("file", "content")
    killed_run(runner, mode, "echo work > made")
    left = runs(runner)
    for _ in range(2):
        assert runner.bawn("run", "-w", mode, "--network", "none", "--", "true").rc == 0
        r = runner.bawn("prune")
        assert r.rc == 0 and runs(runner) == left and left[0].encode() in r.out + r.err, r
    r = runner.bawn("review", "--list", "--json")
    assert left[0] in r.out.decode() and "killed" in r.out.decode(), r
    assert runner.bawn("apply", "--yes", left[0]).rc == 0
    assert (runner.workspace / "made").read_text() == "work\n"


@pytest.mark.parametrize("mode", ["sync", "overlay"])
def test_a_run_in_use_is_not_swept(runner, mode):
    runner.write("file", "content")
    before, after = os.pipe()
    proc = runner.popen(runner.path, "run", "-w", mode, "--network", "none", "--", "sh", "-c", "echo up; read line; cat file",
                        stdin=subprocess.PIPE, stdout=after)
    os.close(after)
    read_until(before, b"up")
    assert runner.bawn("run", "-w", mode, "--network", "none", "--", "true").rc == 0
    assert runner.bawn("prune").rc == 0
    assert len(runs(runner)) == 1
    proc.communicate(b"go\n")
    assert proc.returncode == 0 and b"content" in os.read(before, 100)
    os.close(before)


# -- what is not ignored, and what is not said ------------------------------------------------------------------------------


def test_what_container_engines_use_is_named(runner):
    cases = (({"SANDBOX_FLAGS": "--privileged"}, "SANDBOX_FLAGS is not used by engine native"),
             ({"SANDBOX_SET_UID_GID": "true"}, "SANDBOX_SET_UID_GID is not used by engine native"))
    for env, says in cases:
        r = runner.bawn("run", "--network", "none", "--", "true", env=env)
        assert r.rc == 0 and r.err.decode().count(says) == 1, r
        assert says not in runner.bawn("run", "-q", "--network", "none", "--", "true", env=env).err.decode()


def test_quiet(kept):
    """No notices and no summary, but the result and errors."""
    kept.write("file", "content")
    loud = kept.bawn("run", "-w", "overlay", "--network", "none", "--", "sh", "-c", "echo new > made")
    assert loud.rc == 0 and b"stored as run" in loud.err, loud
    quiet = kept.bawn("run", "-q", "-w", "overlay", "--network", "none", "--", "sh", "-c", "echo new > made; echo said >&2; exit 3")
    assert (quiet.rc, quiet.err) == (3, b"said\n"), quiet
    for r in (kept.bawn("start", "-q", "box", "--network", "none"), kept.bawn("start", "--quiet", "box"),
              kept.bawn("exec", "-q", "box", "--", "true"), kept.bawn("shell", "-q", "new", input=b"true\n")):
        assert r.rc == 0 and r.err == b"", r
    for r in (kept.bawn("run", "-q", "--network", "none", "--", "no-such-command"), kept.bawn("exec", "-q", "box", "--", "no-such-command")):
        assert r.rc == 127 and b"no-such-command: command not found" in r.err, r
    r = kept.bawn("run", "-q", "-m", "48m", "--network", "none", "--", "python3", "-c", "x = bytearray(1 << 29)")
    assert r.rc != 0 and b"memory limit 48 MiB reached" in r.err, r


def test_quiet_batch(runner):
    runner.write("tasks", '{"name": "a", "cmd": "true"}\n{"name": "b", "cmd": "echo x"}\n')
    r = runner.bawn("batch", "-q", "--network", "none", "tasks")
    assert (r.rc, r.out, r.err) == (0, b"", b""), r
    r = runner.bawn("batch", "-q", "--json", "--network", "none", "tasks")
    assert r.rc == 0 and len(r.json()["tasks"]) == 2, r


# -- limits that ended it --------------------------------------------------------------------------------------------------


def result_of(r):
    return json.loads(r.err.splitlines()[-1])


@pytest.mark.parametrize("place", ["/tmp", "$HOME"])
def test_a_full_private_area_is_named(runner, place):
    script = f"dd if=/dev/zero of={place}/big bs=64k count=100000"
    r = runner.bawn("run", "--json", "-m", "64m", "--network", "none", "--", "sh", "-c", script)
    assert r.rc == 1 and b"No space left on device" in r.err, r
    assert b"bawn: the home and /tmp inside are full: they have 32 MiB in memory" in r.err and result_of(r)["limits_hit"] == ["private"], r
    assert '"limit":"private"' in runner.bawn("log", "--json").out.decode().replace(" ", "")
    r = runner.bawn("run", "--json", "-m", "64m", "--network", "none", "--", "sh", "-c", script.replace("100000", "10"))
    assert r.rc == 0 and result_of(r)["limits_hit"] == [], r


MANY = "for i in $(seq {0}); do sleep 3 & done; wait"


def test_the_limit_on_processes_is_named(runner):
    """By the group, or, where there is none, as often as an rlimit is seen to be reached: not if a few are left."""
    for script in (MANY.format(40), f"({MANY.format(40)}); sleep 0.3; exit 0", "ulimit -u"):  # dash ends at the first refusal
        r = runner.bawn("run", "--json", "--pids", "20", "--network", "none", "--", "sh", "-c", script)
        hit = script != "ulimit -u"
        assert (result_of(r)["limits_hit"] == ["pids"]) == (b"process limit 20 reached (flag --pids)" in r.err) == hit, r
    r = runner.bawn("run", "--json", "--pids", "20", "--network", "none", "--", "sh", "-c", MANY.format(12) + "; exit 3")
    assert r.rc == 3 and result_of(r)["limits_hit"] == [], r


def test_threads_count(runner):
    script = "import threading, time\nt = [threading.Thread(target=time.sleep, args=[1]) for i in range(40)]\nfor x in t: x.start()"
    r = runner.bawn("run", "--json", "--pids", "20", "--network", "none", "--", "/usr/bin/python3", "-c", script)
    assert b"can't start new thread" in r.err and result_of(r)["limits_hit"] == ["pids"], r


def test_the_limit_on_processes_is_named_by_exec(kept):
    started(kept, "box", "--pids", "20")
    r = kept.bawn("exec", "--json", "box", "--", "sh", "-c", MANY.format(40))
    assert result_of(r)["limits_hit"] == ["pids"] and b"bawn: the process limit of sandbox 'box' was reached" in r.err, r
    while kept.bawn("exec", "box", "--", "pgrep", "sleep").rc == 0:
        pass
    r = kept.bawn("exec", "--json", "box", "--", "false")
    assert r.rc == 1 and result_of(r)["limits_hit"] == [], r


# -- runs in the list ------------------------------------------------------------------------------------------------------


def listed(runner):
    return {row["name"]: row for row in runner.bawn("ps", "--json").json()}


def test_running_runs_are_listed(kept):
    started(kept)
    before, after = os.pipe()
    script = "echo up; read line"
    proc = kept.popen(kept.path, "run", "--network", "none", "-m", "512m", "--", "sh", "-c", script, stdin=subprocess.PIPE, stdout=after)
    os.close(after)
    read_until(before, b"up")
    name = str(proc.pid)
    while name not in (rows := listed(kept)):  # it is listed while the command starts, not before
        assert proc.poll() is None
    assert rows["box"]["kind"] == "persistent" and rows[name]["kind"] == "run", rows
    row = rows[name]
    assert row["command"] == ["sh", "-c", script] and row["status"] == "running" and row["pid"] == proc.pid and row["mode"] == "direct", row
    assert row["workspace"] == str(kept.workspace) and row["usage"]["pids"] >= 1, row
    assert name.encode() in kept.bawn("ps").out and kept.bawn("ps", "-q").out == b"box\n"
    top = {r["name"]: r["kind"] for r in kept.bawn("top", "--json").json()}
    assert top == {"box": "persistent", name: "run"}, top
    for verb in (["stop", name], ["exec", name, "--", "true"], ["ps", name], ["rm", name], ["inspect", name], ["shell", name]):
        r = kept.bawn(*verb)
        assert r.rc == 125 and f"'{name}' is a 'bawn run', no persistent sandbox".encode() in r.err, r
    assert kept.bawn("stop", "--all").rc == 0  # persistent ones
    assert proc.poll() is None
    proc.communicate(b"go\n")
    assert proc.returncode == 0 and name not in listed(kept)
    os.close(before)


def test_a_killed_run_is_listed_no_more(runner):
    killed_run(runner, "direct", "true")
    assert listed(runner) == {}
    assert list((runner.home / ".local/state/bawn/run/live").iterdir()) == []


# -- its workspace ---------------------------------------------------------------------------------------------------------


def test_a_link_in_place_of_its_workspace_is_not_followed(kept):
    """What can write above the workspace, another sandbox for example, does not choose another folder for the next start."""
    there, others = kept.mkdir(kept.top / "there"), kept.mkdir(kept.top / "others")
    work = kept.mkdir(there / "work")
    kept.mkdir(others / "work")
    started(kept, "box", "-C", work)
    assert kept.bawn("stop", "box").rc == 0 and kept.bawn("start", "box").rc == 0 and kept.bawn("stop", "box").rc == 0
    there.rename(kept.top / "was")
    there.symlink_to(others)
    r = kept.bawn("start", "box")
    assert r.rc == 125 and b"which is a link to" in r.err, r
    kept.bawn("rm", "--force", "box")
