# SPDX-License-Identifier: Apache-2.0
"""kill -9 of every process of a kept sandbox, at any moment of every verb, and what a power cut leaves: the sandbox ends, nothing of it is
left, nothing that was written is lost, and it can be started again."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import pty
import random
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from keep_driver import HANG, OUTPUT, Box, kept  # noqa: E402
from kept_left import cgroups, cgroups_of, ended, inside, leftovers, ours, settle  # noqa: E402

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


@pytest.fixture(autouse=True)
def nobody_stays(request):
    (name,) = {"runner", "root_runner", "user_runner"} & set(request.fixturenames)
    with ended(request.getfixturevalue(name)):
        yield


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end(box, *which):
    """kill -9 of the keeper, or of what is named, unless it has ended by itself; comes back when it is dead, sandbox and all."""
    state, fds = box.state(), {}
    for name in ("pid", "init"):
        with contextlib.suppress(ProcessLookupError):
            fds[name] = os.pidfd_open(state[name])
    for name in set(which or ("pid",)) & fds.keys():
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fds[name], signal.SIGKILL)
    for fd in fds.values():
        box.wait_end(fd)


def check_whole(runner, *names, fault=None):
    """Nothing runs, nothing is left; each sandbox starts, works, and goes; the log says what is wrong with it, if anything is."""
    assert runner.bawn("stop", "--all", "-t", "0").rc == 0
    assert settle(lambda: not ours(runner) and not inside(runner)), (ours(runner), inside(runner))
    assert runner.bawn("prune").rc == 0
    assert leftovers(runner) == []
    rows = {row["name"] for row in runner.bawn("ps", "-a", "--json").json()}
    assert rows == {p.name for p in (runner.home / ".local/state/bawn/sandboxes").iterdir() if not p.name.startswith(".")} >= set(names)
    for name in sorted(rows):
        for words in (["start", name], ["exec", name, "--", "true"], ["rm", "--force", "--discard-changes", name]):
            r = runner.bawn(*words)
            assert r.rc == 0, r
    assert settle(lambda: not ours(runner) and not inside(runner)), (ours(runner), inside(runner))
    verified = runner.bawn("log", "verify")
    assert verified.rc == (fault is not None) and (not fault or (fault in verified.out and b" 1 fault\n" in verified.out)), verified


def children(pid):
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def killed_start(runner, name, mode, rng, pids):
    """One start, of which the starter, the keeper or both are killed, mostly while everything is being made; how it ended."""
    p = runner.popen(runner.path, "start", name, "-w", mode, **QUIET)
    time.sleep(rng.uniform(0, 0.03) if rng.random() < 0.8 else rng.uniform(0.03, 0.3))
    keepers, victim = children(p.pid), rng.choice(("starter", "keeper", "both"))
    pids.update([p.pid, *keepers])
    for pid in [p.pid] * (victim != "keeper") + keepers * (victim != "starter"):
        kill(pid)
    _, err = p.communicate(timeout=HANG)
    assert p.returncode in (0, *KILLED) or (p.returncode == 125 and err.startswith(b"bawn: ")), (p.returncode, err)
    runner.bawn("stop", "-t", "0", name)  # if it runs all the same
    return p.returncode


def were_hit(ends):
    return ends.count(-signal.SIGKILL) > 5 and ends.count(125) > 1


@pytest.mark.no_sanitizer  # its own helper process, killed instead of the keeper, would be waited for
def test_start(runner):
    """200 starts of four sandboxes from four hands, killed at random moments; more, if too few of them were hit."""
    pids, before = set(), cgroups()

    def hand(i):
        rng, ends = random.Random(i), []
        while len(ends) < 50 or (len(ends) < 1000 and not were_hit(ends)):
            ends.append(killed_start(runner, f"box-{i}", ["overlay", "direct"][i % 2], rng, pids))
        assert were_hit(ends), (ends, "nothing was killed, so nothing was proved")

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(hand, range(4)))
    check_whole(runner)
    assert settle(lambda: not cgroups_of(pids, before)), cgroups_of(pids, before)


def test_exec(runner):
    """Whoever waits for a command hears of the end; what a command is known to have done is there."""
    rng, done, turn = random.Random(7), 0, 0
    with kept(runner, "box", "-w", "overlay") as box:
        while turn < 12 or (turn < 200 and not done):
            turn += 1
            clients = [runner.popen(runner.path, "exec", "box", "--", "sh", "-c", f"echo {n} > f{turn}-{n}; sleep 0.0{n}; cat", **QUIET) for n in range(6)]
            for c in clients[:3]:
                c.stdin = None
            time.sleep(rng.uniform(0, 0.15))
            end(box, rng.choice(("pid", "init")))
            for n, c in enumerate(clients):
                _, err = c.communicate(timeout=HANG)
                assert c.returncode in (0, 125, 137) and (c.returncode == 0 or b"bawn: " in err), (c.returncode, err)
                if c.returncode == 0:
                    done += 1
                    assert (box.state_home / f"runs/box/upper/f{turn}-{n}").read_text() == f"{n}\n"
            box.start()
        assert done, "no command came to its end, so nothing was proved"
    check_whole(runner, "box")


@pytest.mark.parametrize("verb", ["stop", "checkpoint", "fork"])
def test_keeper_in_the_middle(runner, verb):
    """A checkpoint or fork of a sandbox that dies meanwhile is whole, or is none; what it was made of is still there."""
    rng, ends = random.Random(8), []
    words = {"stop": ["stop", "-t", "1", "box"], "checkpoint": ["checkpoint", "box"], "fork": ["fork", "box"]}[verb]
    with kept(runner, "box", "-w", "overlay") as box:
        box.sh("for i in $(seq 200); do echo $i > w$i; echo $i > ~/h$i; done")
        for turn in range(6):
            c, _ = box.background("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done")
            c.until(OUTPUT, b"ready\n")  # from here on a stop takes its whole second
            client = runner.popen(runner.path, *words, **QUIET)
            if verb != "stop" and turn % 3 == 0:
                client.wait(HANG)  # so that there are some
            time.sleep(rng.uniform(0, 0.06))
            end(box)
            _, err = client.communicate(timeout=HANG)
            ends.append(client.returncode)
            assert client.returncode == 0 or (client.returncode == 125 and b"bawn: " in err), (client.returncode, err)
            assert settle(lambda: not inside(runner)), inside(runner)  # also if it was frozen
            box.start()
            assert box.sh("cat ~/h200 w200; ls | wc -l") == b"200\n200\n200\n"
        if verb == "fork":
            for made in (box.state_home / "sandboxes").glob("box-*"):
                assert len(list((made / "home").glob("h*"))) == 200
                assert len(list((box.state_home / "runs" / made.name / "upper").iterdir())) == 200
        if verb == "checkpoint":
            for c in runner.bawn("checkpoint", "ls", "--json", "box").json():
                assert len(list((box.folder / "checkpoints" / c["tag"] / "home").glob("h*"))) == 200
    assert verb == "stop" or 0 < ends.count(0) < len(ends), ends
    check_whole(runner, "box")


def test_client_that_freezes(runner):
    """Killed in the middle of a checkpoint, it leaves no sandbox that stands still."""
    rng = random.Random(9)
    with kept(runner, "box", "-w", "overlay") as box:
        box.sh("for i in $(seq 300); do echo $i > ~/h$i; done")
        killed = 0
        for _ in range(12):
            client = runner.popen(runner.path, "checkpoint", "box", **QUIET)
            time.sleep(rng.uniform(0, 0.06))
            client.kill()
            client.communicate(timeout=HANG)
            killed += client.returncode == -signal.SIGKILL
            assert settle(lambda: box.ask("status")["frozen"] is False)
        assert killed > 3
        assert runner.bawn("checkpoint", "box", "last").rc == 0
        assert not [p for p in (box.folder / "checkpoints").iterdir() if p.name.startswith(".")]
    check_whole(runner, "box")


def strace(runner, call, n, *what):
    """what: a command, or -p PID, which gets SIGKILL instead of its n-th system call of this name."""
    return runner.popen("strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={n}", *what,
                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def is_traced(pid):
    return int(re.search(r"^TracerPid:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]) != 0


STEPS = [("symlinkat", 1), ("renameat", 1), ("renameat2", 1), ("renameat", 2), ("unlinkat", 1), ("unlinkat", 2), ("openat", 2)]


@pytest.mark.parametrize("running", [True, False], ids=["running", "stopped"])
def test_rename(root_runner, running):
    """At every step of it: the sandbox has one of the two names, and its changes with it."""
    runner, killed, names = root_runner, 0, ["old", "new"]
    if not shutil.which("strace"):
        pytest.fail("needs strace")
    assert Box(runner, "old").start("-w", "overlay").rc == 0
    Box(runner, "old").sh("echo kept > change; echo kept > ~/home")
    for step in STEPS:
        box = Box(runner, names[0])
        if running:
            fd, keeper = box.pidfd(), box.state()["pid"]
            tracer = strace(runner, *step, "-p", str(keeper))
            assert settle(lambda: is_traced(keeper))
            r = runner.bawn("rename", *names)
            tracer.terminate()
            tracer.communicate(timeout=HANG)
            killed += r.rc != 0
            if r.rc != 0:
                box.wait_end(fd)
        else:
            runner.bawn("stop", names[0])
            tracer = strace(runner, *step, runner.path, "rename", *names)
            tracer.communicate(timeout=HANG)
            killed += tracer.returncode in KILLED
        rows = [row["name"] for row in runner.bawn("ps", "-a", "--json").json()]
        assert len(rows) == 1 and rows[0] in names, (step, rows)
        names = [rows[0], names[rows[0] == names[0]]]
        box = Box(runner, rows[0])
        if runner.bawn("status", rows[0]).rc != 0:
            box.start()
        assert box.sh("cat change ~/home") == b"kept\nkept\n", step
        assert os.listdir(box.state_home / "runs") == rows, step
    assert killed >= 3, "nothing was killed, so nothing was proved"
    check_whole(runner, names[0])


def test_init_and_gate(runner):
    """PID 1 killed ends the sandbox, and says so; the gate killed is one connection lost, and still nothing gets out."""
    probe = "read -r < /dev/tcp/10.99.99.99/80; echo $?"
    with kept(runner, "box") as box:
        gates = set()
        for _ in range(3):
            assert box.run("bash", "-c", probe)[1].split()[-1] == b"1"
            gate = [pid for pid, kind in ours(runner).items() if kind == "bawn-gate"]
            assert len(gate) == 1
            gates |= set(gate)
            fd = os.pidfd_open(gate[0])
            kill(gate[0])
            box.wait_end(fd)
        assert len(gates) == 3, "it is started anew"
        assert box.alive() and box.sh("echo on") == b"on\n"
        client = runner.popen(runner.path, "exec", "box", "--", "sh", "-c", "echo ready; exec sleep 1000", **QUIET)
        assert client.stdout.readline() == b"ready\n"
        end(box, "init")
        _, err = client.communicate(timeout=HANG)
        assert client.returncode == 137 and b"was stopped" in err, (client.returncode, err)
        r = runner.bawn("exec", "box", "--", "true")
        assert r.rc == 125 and b"PID 1 was killed" in r.err and b"'bawn start box'" in r.err, r
    check_whole(runner, "box")


def marked(marker):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker in (entry / "cmdline").read_bytes() and b"bawn" not in (entry / "cmdline").read_bytes().split(b"\0")[0]:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("stream", ["pty", "pipes"])
def test_client(runner, stream):
    """The command of a client that was killed ends, even if it ignores that its terminal is gone; others do not notice."""
    marker = secrets.token_hex(8).encode()
    script = f"trap '' HUP TERM INT PIPE; : {marker.decode()}; echo ready; while :; do sleep 0.05; done"
    with kept(runner, "box") as box:
        other, _ = box.background("sh", "-c", "while :; do sleep 0.05; done")
        master, slave = pty.openpty() if stream == "pty" else (None, None)
        streams = {"stdin": slave, "stdout": slave, "stderr": slave} if slave is not None else {**QUIET, "stdin": subprocess.PIPE}
        client = runner.popen(runner.path, "exec", "box", "--", "sh", "-c", script, **streams)
        if slave is not None:
            os.close(slave)
        seen, out = b"", master if master is not None else client.stdout.fileno()
        while b"ready" not in seen:
            assert select.select([out], [], [], HANG)[0]
            seen += os.read(out, 4096)
        assert marked(marker)
        client.kill()
        client.wait(HANG)
        assert settle(lambda: not marked(marker)), "the command runs on"
        assert settle(lambda: len([j for j in box.ask("jobs")["jobs"] if j["status"] is None]) == 1)
        assert box.sh("echo on") == b"on\n"
        other.close()
        if master is not None:
            os.close(master)
    check_whole(runner, "box")


def crashed(runner, name="box"):
    """A sandbox in overlay mode with a change and a home, whose keeper was killed."""
    box = Box(runner, name)
    box.start("-w", "overlay")
    box.sh("echo kept > change; echo kept > ~/home")
    end(box)
    return box


def edit(path, **members):
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_another_boot_and_another_process(runner):
    """A state that says running, with a number that somebody else has now: he is neither asked nor killed."""
    box = crashed(runner)
    victim = runner.popen("sleep", "1000")
    start = int(pathlib.Path(f"/proc/{victim.pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    cases = [
        {"boot": "00000000-0000-4000-8000-000000000000", "pid": victim.pid, "init": victim.pid, "start_time": start},  # all is alike but the boot
        {"pid": victim.pid, "init": victim.pid, "start_time": start + 1},
    ]
    for case in cases:
        edit(box.folder / "state.json", phase="running", **case)
        row = runner.bawn("ps", "-a", "--json").json()[0]
        assert row["status"] == "crashed", row
        r = runner.bawn("exec", "box", "--", "true")
        assert r.rc == 125 and b"its supervisor was killed: 'bawn start box' starts it again" in r.err, r
        for words in (["stop", "box"], ["stop", "--force", "box"], ["prune"]):
            assert runner.bawn(*words).rc == 0
        assert victim.poll() is None, "somebody else was killed"
        box.start()
        assert box.sh("cat change ~/home") == b"kept\nkept\n"
        end(box)
    victim.kill()
    victim.wait()
    check_whole(runner, "box")


def cut(path, how):
    data = path.read_bytes()
    path.write_bytes({"empty": b"", "half": data[: len(data) // 2], "zeros": b"\0" * len(data)}[how])


@pytest.mark.parametrize("how", ["empty", "half", "zeros"])
def test_power_cut(user_runner, how):
    """Files that are cut in the middle or hold zeros, as file systems leave them. What was not synced is not needed."""
    runner, box = user_runner, crashed(user_runner)
    cut(box.folder / "state.json", how)
    runner.write(box.folder / ".state.json.new", b"\0")
    assert runner.bawn("ps", "-a", "--json").json()[0]["status"] in ("created", "stopped")
    r = runner.bawn("exec", "box", "--", "true")
    assert r.rc == 125 and b"'bawn start box' starts it" in r.err, r
    box.start()
    assert box.sh("cat change ~/home") == b"kept\nkept\n"
    end(box)
    audit = box.state_home / "audit"
    (head,) = audit.glob("bawn-box-*.head")
    cut(head, how)
    box.start()
    end(box)
    log = head.with_suffix(".jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole + whole.splitlines(keepends=True)[-1][:-20])  # a line that did not get to the disk as a whole
    box.start()
    assert box.sh("cat change ~/home") == b"kept\nkept\n"
    repairs = [json.loads(line)["what"] for line in log.read_text().splitlines() if json.loads(line)["type"] == "repair"]
    assert repairs == ["head", "torn"], repairs
    check_whole(runner, "box", fault=b"the log was repaired before it")


@pytest.mark.parametrize("how", ["empty", "half", "zeros", "gone"])
def test_damaged(user_runner, how):
    """Without its description a sandbox cannot be started; the message says how to go on, and what waits to be applied is not lost."""
    runner, box = user_runner, crashed(user_runner)
    path = box.folder / "sandbox.json"
    path.unlink() if how == "gone" else cut(path, how)
    for words in (["start", "box"], ["exec", "box", "--", "true"], ["rm", "box"], ["rm", "--discard-changes", "box"], ["inspect", "box"]):
        r = runner.bawn(*words)
        assert r.rc == 125 and b"sandbox.json is " in r.err and b"'bawn rm --force box'" in r.err, r
    assert (box.folder / "home/home").read_text() == "kept\n"
    assert runner.bawn("rm", "--force", "box").rc == 0
    r = runner.bawn("apply", "box", "--yes")
    assert r.rc == 0 and (runner.workspace / "change").read_text() == "kept\n", r
    assert runner.bawn("start", "box").rc == 0
    check_whole(runner, "box")
