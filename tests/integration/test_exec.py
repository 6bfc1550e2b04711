# SPDX-License-Identifier: Apache-2.0
"""Kept sandboxes at the command line: start, exec, shell, attach, logs, stop, and `bawn run` with keep_alive.

A sandbox is kept for a whole test (`box`) and always stopped at its end. Commands in the foreground are compared with how `bawn run` treats
streams, signals and statuses; terminals are a person's (pexpect), who waits for text and never for time.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from person import WAIT, finish, terminal  # noqa: E402
from person import shell as person_shell  # noqa: E402


def all_boxes(runner):
    folder = runner.home / ".local/state/bawn/sandboxes"
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith(".")) if folder.exists() else []


@pytest.fixture
def box(kept):
    r = kept.bawn("start", "box", "--network", "none")
    assert (r.rc, r.out) == (0, b"box\n"), r
    kept.x = lambda *args, **kw: kept.bawn("exec", "box", "--", *args, **kw)
    return kept


def pending(pid):
    """Signals that wait for a process."""
    line = next(x for x in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("ShdPnd:"))
    return {n for n in range(1, 65) if int(line.split()[1], 16) >> (n - 1) & 1}


def jobs(runner, name="box"):
    r = runner.bawn("ps", "--json", name)
    assert r.rc == 0, r
    return r.json()


# -- exec ----------------------------------------------------------------------------------------------------------------


def test_streams_and_statuses(box):
    r = box.x("sh", "-c", "cat; echo err >&2; pwd; exit 7", input=b"in\n")
    assert (r.rc, r.err) == (7, b"err\n"), r
    assert r.out == b"in\n" + str(box.workspace).encode() + b"\n"
    assert box.x("nosuch").rc == 127
    assert b"command not found inside the sandbox" in box.x("nosuch").err
    assert box.x("/etc/passwd").rc == 126
    assert box.x("sh", "-c", "kill -SEGV $$").rc == 128 + signal.SIGSEGV
    # files are relayed, as in a run; a child that keeps them open is not waited for
    out = box.top / "out"
    with open(out, "wb") as f:
        proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", "seq 100000; sleep 1000 & echo last", stdin=subprocess.DEVNULL, stdout=f)
        assert proc.wait(WAIT) == 0
    assert out.read_bytes() == b"".join(b"%d\n" % i for i in range(1, 100001)) + b"last\n"


def test_interrupted_while_the_supervisor_is_stuck(box):
    """Asked once, a client passes it on; asked again, it goes, although nobody answers."""
    keeper = json.loads((box.home / ".local/state/bawn/sandboxes/box/state.json").read_text())["pid"]
    os.kill(keeper, signal.SIGSTOP)
    try:
        p = box.popen(box.path, "exec", "box", "--", "true", stdin=subprocess.DEVNULL)
        while not any("signalfd" in os.readlink(f"/proc/{p.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{p.pid}/fd")):
            pass  # from here on signals are read
        os.kill(p.pid, signal.SIGTERM)
        while signal.SIGTERM in pending(p.pid):
            pass  # two at once would be one
        os.kill(p.pid, signal.SIGTERM)
        assert p.wait(timeout=WAIT) == 128 + signal.SIGTERM
    finally:
        os.kill(keeper, signal.SIGCONT)
    assert box.x("echo", "still").out == b"still\n"


def test_options(box):
    r = box.bawn("exec", "-e", "A=1 2", "-e", "MINE", "-w", "/tmp", "--json", "box", "--", "sh", "-c", "echo $A $MINE; pwd", env={"MINE": "m"})
    assert (r.rc, r.out) == (0, b"1 2 m\n/tmp\n"), r
    result = json.loads(r.err)
    assert (result["status"], result["sandbox"], result["started"]) == (0, "box", True)
    r = box.bawn("exec", "-t", "200ms", "--json", "box", "--", "sleep", "1000")
    assert r.rc == 124 and json.loads(r.err.splitlines()[-1])["limits_hit"] == ["time"], r
    for args, says in [(["exec"], b"in which sandbox?"), (["exec", "box"], b"which command?"),
                       (["exec", "-w", "sub", "box", "true"], b"absolute path"), (["exec", "-t", "soon", "box", "true"], b"soon"),
                       (["exec", "--tty", "--no-tty", "box", "true"], b"exclude each other")]:
        r = box.bawn(*args)
        assert r.rc == 64 and says in r.err, r


def test_signals_reach_the_command_and_its_end_ends_it(box):
    script = "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert proc.stdout.readline() == b"ready\n"
    proc.terminate()
    assert proc.stdout.read() == b"got\n" and proc.wait(WAIT) == 9
    # a client that is killed takes its command with it
    fifo = "end"
    os.mkfifo(box.workspace / fifo)
    box.own(box.workspace / fifo)
    proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", "exec 3>end; echo ready; exec sleep 1000", stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE)
    with open(box.workspace / fifo, "rb") as f:
        assert proc.stdout.readline() == b"ready\n"
        proc.kill()
        proc.wait(WAIT)
        assert f.read() == b""  # its last writer is gone


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_a_client_that_is_ended_takes_the_children_of_its_command_with_it(box, sig):
    os.mkfifo(box.workspace / "end")
    box.own(box.workspace / "end")
    script = "exec 3>end; sleep 1000 & (sleep 1001; echo late) & echo ready; wait"
    proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    with open(box.workspace / "end", "rb") as f:
        assert proc.stdout.readline() == b"ready\n"
        proc.send_signal(sig)
        assert proc.wait(WAIT) == (128 + sig if sig == signal.SIGTERM else -sig)
        assert f.read() == b""  # its last writer is gone
    assert b"sleep" not in box.x("ps", "-eo", "args").out


def test_terminal(box):
    child = terminal(box, "exec", "box", "--", "sh", "-c", "test -t 0 && tty; stty size; echo TERM=$TERM; read x; echo got-$x; exit 5", size=(31, 101))
    child.expect_exact(b"/dev/pts/")
    child.expect_exact(b"31 101")
    child.expect_exact(b"TERM=xterm")
    child.sendline(b"abc")
    child.expect_exact(b"got-abc")
    assert finish(child) == 5
    child = terminal(box, "exec", "box", "--", "sh", "-c", "echo ready; exec sleep 1000")
    child.expect_exact(b"ready")
    child.sendintr()
    assert finish(child) == 130
    r = box.bawn("exec", "--tty", "box", "--", "tty")
    assert r.rc == 0 and r.out.startswith(b"/dev/pts/"), r


def test_job_control(box):
    """^Z stops the command and us; fg goes on. So it is when the command is stopped from inside."""
    shell = person_shell(box)
    os.mkfifo(box.workspace / "go")
    box.own(box.workspace / "go")
    shell.sendline(f"cat go | {box.path} exec box -- sh -c 'echo re''ady; read x; echo got-$x' | cat".encode())
    shell.expect_exact(b"ready")
    shell.send(b"\x1a")
    shell.expect(rb"Stopped")
    shell.sendline(b"fg")
    shell.expect_exact(b"exec box")
    (box.workspace / "go").write_bytes(b"abc\n")
    shell.expect_exact(b"got-abc")
    shell.sendline(f"{box.path} exec box -- sh -c 'echo re''ady; kill -STOP $$; read x; echo got-$x'".encode())
    shell.expect(rb"Stopped")
    shell.sendline(b"fg")
    shell.expect_exact(b"exec box")
    shell.sendline(b"abc")
    shell.expect_exact(b"got-abc")
    shell.sendline(b"exit")
    shell.close()


# -- the background --------------------------------------------------------------------------------------------------------


def test_background_and_logs(box):
    os.mkfifo(box.workspace / "go")
    box.own(box.workspace / "go")
    r = box.bawn("exec", "-d", "box", "--", "sh", "-c", "echo one; echo two; echo bad >&2; read x < go; printf 'three\\033]52;c;eA==\\007'; exit 3")
    assert r.rc == 0, r
    job = r.out.strip().decode()
    follow = box.popen(box.path, "logs", "-f", "box", job, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follow.stdout.readline() + follow.stdout.readline() == b"one\ntwo\n"
    (box.workspace / "go").write_bytes(b"x\n")
    out, err = follow.communicate(timeout=WAIT)
    assert (out, err, follow.returncode) == (b"three\033]52;c;eA==\007", b"bad\n", 0)
    assert box.bawn("logs", "box", "--tail", "2", "--stdout").out == b"two\nthree\033]52;c;eA==\007"
    got = box.bawn("logs", "box", job, "--json").json()
    assert (got["job"], got["stderr"]) == (int(job), "bad\n")
    r = box.bawn("attach", "box", job)
    assert r.rc == 3 and r.out.startswith(b"one\n"), r
    child = terminal(box, "logs", "box", job)
    assert finish(child) == 0 and b"\033" not in child.before  # the clipboard is not for a log
    for args, says in [(["logs", "box", "999"], b"no output of a job 999"), (["attach", "box", "999"], b"no job 999"),
                       (["exec", "-d", "box", "nosuch"], b"cannot be executed")]:
        r = box.bawn(*args)
        assert r.rc in (125, 127) and says in r.err, r


def test_shell_detach_and_attach(box):
    first = terminal(box, "shell", "-e", "PS1", "box")
    first.expect_exact(b"IN> ")
    first.sendline(b"X=12; echo value-$X")
    first.expect_exact(b"value-12")
    first.send(b"\x10\x11")
    first.expect(rb"detached; 'bawn attach box (\d+)' comes back")
    job = first.match[1].decode()
    assert finish(first) == 0
    # two at once: both see, both type; a third only looks
    one, two = terminal(box, "attach", "box"), terminal(box, "attach", "box", job)
    one.expect_exact(b"value-12")  # what was shown before
    two.expect_exact(b"value-12")
    three = terminal(box, "attach", "--read-only", "box", job)
    three.expect_exact(b"value-12")
    two.sendline(b"echo again-$X")
    for child in (one, two, three):
        child.expect_exact(b"again-12")
    three.send(b"echo not\r\x03")
    three.expect_exact(b"detached")
    assert finish(three) == 0
    one.sendline(b"exit 4")
    assert finish(one) == 4 and finish(two) == 4
    assert b"not" not in one.before + two.before
    child = terminal(box, "attach", "--detach-keys", "ctrl-,", "box")
    assert finish(child) == 64


def test_the_projects_own_sandbox(kept):
    """Without a name: made by shell, found by exec's name, started by start, with a command in the background."""
    child = terminal(kept, "shell", "-e", "PS1")
    child.expect(rb"sandbox '(work-[0-9a-f]{6})' is new")
    name = child.match[1].decode()
    child.expect_exact(b"IN> ")
    child.sendline(b"echo state > ~/kept; exit 6")
    assert finish(child) == 6
    assert kept.bawn("stop").out == name.encode() + b"\n"
    r = kept.bawn("start", "--json", "--", "sh", "-c", "cat ~/kept")
    assert r.rc == 0 and r.json() == {"sandbox": name, "new": False, "job": 2}, r
    assert kept.bawn("logs", "-f").out == b"state\n"
    assert kept.bawn("logs", "2").out == b"state\n"


# -- start and stop --------------------------------------------------------------------------------------------------------


def test_options_are_kept_and_replaced(kept):
    r = kept.bawn("start", "-m", "64m", "--network", "none", "--env", "A=first", "box", "--idle", "1h")
    assert r.rc == 0, r
    assert kept.bawn("exec", "box", "--", "sh", "-c", "echo $A").out == b"first\n"
    assert b"with other options" in kept.bawn("start", "box", "-m", "32m").err
    assert kept.bawn("stop", "box").rc == 0
    r = kept.bawn("exec", "--start", "box", "--", "sh", "-c", "echo $A")
    assert (r.rc, r.out) == (0, b"first\n"), r
    assert kept.bawn("stop", "box").rc == 0
    r = kept.bawn("start", "box", "--network", "none", "--env", "A=second")
    assert r.rc == 0 and b"new options" in r.err, r
    assert kept.bawn("exec", "box", "--", "sh", "-c", "echo $A").out == b"second\n"
    assert [o for o in kept.bawn("inspect", "--json", "box").json()["options"]] == ["--network=none", "--env=A=second"]


def test_a_start_that_fails_leaves_nothing(kept):
    for args in (["--no-sandbox"], ["--engine", "none"], ["--memory", "lots"], ["--profile", "nosuch"], ["--tty"], ["--", ]):
        r = kept.bawn("start", "box", *args)
        assert r.rc == 64, r
    r = kept.bawn("start", "-C", "/nonexistent", "box")
    assert r.rc != 0, r
    assert all_boxes(kept) == []


def test_stop_several_and_a_stuck_one(kept):
    for name in ("a", "b"):
        assert kept.bawn("start", "--network", "none", name).rc == 0
    r = kept.bawn("stop", "a", "b", "nosuch", "--json")
    assert r.rc == 125 and b"no sandbox 'nosuch'" in r.err, r
    assert r.json() == [{"sandbox": "a", "outcome": "stopped"}, {"sandbox": "b", "outcome": "stopped"}]
    r = kept.bawn("stop", "a")
    assert r.rc == 0 and b"is not running" in r.err, r
    assert kept.bawn("start", "a").rc == 0
    pid = kept.bawn("inspect", "--json", "a").json()["pid"]
    os.kill(pid, signal.SIGSTOP)
    r = kept.bawn("stop", "--force", "-t", "0", "a")
    assert r.rc == 0, r
    assert kept.bawn("exec", "a", "true").err.endswith(b"is not running: 'bawn start a' starts it\n")
    assert kept.bawn("start", "a").rc == 0


def test_a_killed_supervisor(box):
    pid = box.bawn("inspect", "--json", "box").json()["pid"]
    proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", "echo ready; exec sleep 1000", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
    assert proc.stdout.readline() == b"ready\n"
    assert box.x("true").rc == 0  # so its start was told to the first client, too: messages keep their order
    os.kill(pid, signal.SIGKILL)
    assert proc.wait(WAIT) == 137 and b"was stopped" in proc.stderr.read()
    for args in (["exec", "box", "true"], ["attach", "box"]):
        r = box.bawn(*args)
        assert r.rc == 125 and b"its supervisor was killed: 'bawn start box' starts it again" in r.err, r
    r = box.bawn("exec", "--start", "box", "echo", "back")
    assert (r.rc, r.out) == (0, b"back\n"), r


@pytest.mark.parametrize("verb", ["exec", "start", "stop", "shell", "attach", "logs"])
def test_names(kept, verb):
    """Nothing but a name reaches the file system or the terminal."""
    command = ["true"] if verb == "exec" else []
    for name in ("a/b", "..", "a\nb", "n" * 300, "", "x\033[2J"):
        r = kept.bawn(verb, name, *command)
        assert r.rc == 64 and b"is no name for a sandbox" in r.err and b"\033" not in r.err and len(r.err) < 600, r
    if verb not in ("start", "shell"):
        r = kept.bawn(verb, "nosuch", *command)
        assert r.rc == 125 and b"no sandbox 'nosuch'; see 'bawn ps" in r.err, r
    assert all_boxes(kept) == []


def test_the_sandbox_of_another_user(root_runner, user_runner):
    """Its socket gets none of our streams, even where the file system lets us connect; and the other way round the folder is closed."""
    try:
        assert user_runner.bawn("start", "--network", "none", "theirs").rc == 0
        r = root_runner.bawn("exec", "theirs", "true", env={"HOME": str(user_runner.home)})
        assert r.rc == 125 and b"belongs to another user" in r.err, r
        assert root_runner.bawn("start", "--network", "none", "ours").rc == 0
        r = user_runner.bawn("exec", "ours", "true", env={"XDG_STATE_HOME": str(root_runner.home / ".local/state")})
        assert r.rc == 125, r
    finally:
        assert user_runner.bawn("stop", "--all").rc == 0 and root_runner.bawn("stop", "--all").rc == 0


# -- keep_alive --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def alive(kept):
    kept.write(kept.home / ".config/bawn/config.json", json.dumps({"sandbox": {"keep_alive": True, "network": "none"}}))
    return kept


def test_keep_alive(alive):
    r = alive.bawn("run", "--env", "A=1", "--", "sh", "-c", "echo $A; echo x > ~/kept; exit 3")
    assert (r.rc, r.out) == (3, b"1\n"), r
    (name,) = all_boxes(alive)
    before = alive.bawn("inspect", "--json", name).json()["pid"]
    r = alive.bawn("run", "--json", "--", "sh", "-c", "cat ~/kept; echo a$A")
    assert (r.rc, r.out) == (0, b"x\na\n"), r
    result = json.loads(r.err)
    assert (result["status"], result["engine"], result["started"]) == (0, "native", True)
    assert alive.bawn("inspect", "--json", name).json()["pid"] == before
    assert alive.bawn("run", "--", "nosuch").rc == 127
    # a run with a name of its own is alone
    r = alive.bawn("run", "--name", "mine", "--workspace", "overlay", "--", "sh", "-c", "test -e ~/kept")
    assert r.rc == 1, r
    # other settings: started anew if idle, an error if busy
    r = alive.bawn("run", "--memory", "200m", "--", "cat", "kept2", ".")
    assert b"is started anew: the settings have changed" in r.err, r
    assert alive.bawn("inspect", "--json", name).json()["pid"] != before
    proc = alive.popen(alive.path, "run", "--memory", "200m", "--", "sh", "-c", "echo ready; exec sleep 1000", stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE)
    assert proc.stdout.readline() == b"ready\n"
    r = alive.bawn("run", "--", "true")
    assert r.rc == 125 and b"1 command runs in it" in r.err and b"bawn stop" in r.err, r
    proc.terminate()
    assert proc.wait(WAIT) == 128 + signal.SIGTERM


def test_keep_alive_starts_one_sandbox_however_many_ask(alive):
    procs = [alive.popen(alive.path, "run", "--", "sh", "-c", "readlink /proc/self/ns/pid", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE) for _ in range(8)]
    results = [p.communicate(timeout=WAIT) + (p.returncode,) for p in procs]
    assert [r[2] for r in results] == [0] * 8, results
    assert len({r[0] for r in results}) == 1 and len(all_boxes(alive)) == 1, results


# -- completion --------------------------------------------------------------------------------------------------------------


def test_names_are_completed(kept):
    """From the folders alone: nothing has to run."""
    state = kept.home / ".local/state/bawn/sandboxes"
    for name in ("webshop", "website", "other", ".new-1"):
        kept.write(state / name / "sandbox.json", "{}")
    script = kept.bawn("completion", "bash").out.decode()

    def offered(*words):
        line = " ".join(f"'{w}'" for w in ("bawn", *words))
        r = kept.run("bash", "-c", f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _bawn; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return r.out.decode().split()

    for verb in ("exec", "start", "stop", "shell", "attach", "logs", "rm", "inspect"):
        assert offered(verb, "web") == ["webshop", "website"], verb
    assert offered("exec", "-e", "A=1", "o") == ["other"]
    assert not {"webshop", "website"} & set(offered("exec", "webshop", "web")), "a command comes there"
    assert "_bawn_sandboxes" in kept.bawn("completion", "zsh").out.decode()
    assert "__bawn_sandboxes" in kept.bawn("completion", "fish").out.decode()
