# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment: nothing runs on, nothing is left, nothing stands in the way of the next run."""

import os
import pathlib
import random
import re
import secrets
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kept_left import cgroups  # noqa: E402

ROUNDS, AT_ONCE = 200, 20
# Ignores every signal, leaves the session, forks on; the marker is in the arguments or the environment of all of it.
STUBBORN = """
: {marker}
trap '' HUP INT TERM QUIT USR1 USR2 PIPE
setsid -f sh -c ': {marker}; trap "" HUP INT TERM; while :; do sleep 0.05; done' </dev/null >/dev/null 2>&1
(MARKER={marker} sleep 1000 &) </dev/null >/dev/null 2>&1
touch /tmp/{marker} ~/{marker}
while :; do sleep 0.05; done
"""


def processes(marker):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        for name in ("cmdline", "environ"):
            try:
                if marker.encode() in (entry / name).read_bytes():
                    found.append((int(entry.name), (entry / "cmdline").read_bytes()))
                    break
            except OSError:
                continue
    return found


def namespaces():
    """Of all kinds, over all processes: what no process holds is gone (mounts of it too)."""
    seen = set()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            for kind in ("mnt", "pid", "user", "net"):
                try:
                    seen.add(os.readlink(entry / "ns" / kind))
                except OSError:
                    continue
    return seen


def alive(path):
    """Of another run that is under way on this machine: the name begins with bawn-PID."""
    pid = re.search(r"/bawn-(?:run-)?(\d+)", path)
    return pid and os.path.exists(f"/proc/{pid[1]}")


def cgroup_folders():
    return {path for path in cgroups() if not alive(path)}


def mounts(runner):
    """In the host's mount namespace: none is ever made there, not even for a moment."""
    return [
        line
        for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        if "bawn" in line or str(runner.top) in line
    ]


def temporary(runner):
    """What Bawn could have made (not the tests beside us, by their names): in the temporary folders, the runtime folder, and the user's home."""
    places = [pathlib.Path(p) for p in ("/tmp", "/var/tmp", "/run", "/dev/shm", f"/run/user/{runner.user.pw_uid}")]
    found = {
        str(p)
        for place in places
        if place.is_dir()
        for p in place.iterdir()
        if "bawn" in p.name and not re.match(r"bawn-(test|probe|deny|check|tmux|ignore|config|secret|kill|degraded|was|try|bench)\b", p.name) and not alive(str(p))
    }
    return found | {str(p) for p in runner.home.rglob("*") if "run-" in p.name or ".tmp" in p.name}


def state(runner):
    return {"cgroups": cgroup_folders(), "mounts": set(mounts(runner)), "files": temporary(runner)}


def settle(condition):
    """The kernel takes a dead namespace apart in its own time; the wait ends with the condition, or fails the test."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def kill_a_batch(runner, marker, delays, options):
    started = []
    for delay in delays:
        p = runner.popen(
            runner.path,
            "run",
            *options,
            "--",
            "sh",
            "-c",
            STUBBORN.format(marker=marker),
            env={"MARKER": marker},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append((time.monotonic() + delay, p))
    for when, p in sorted(started, key=lambda item: item[0]):
        time.sleep(max(0.0, when - time.monotonic()))
        os.kill(p.pid, signal.SIGKILL)
    for _, p in started:
        p.wait()


def moments(rng):
    """Most within the first 15 ms, where everything is being built; some later, when everything is up."""
    return [rng.uniform(0, 0.015) if rng.random() < 0.75 else rng.uniform(0.015, 0.6) for _ in range(AT_ONCE)]


def sequential_moments(rng):
    return [rng.uniform(0, 0.015) for _ in range(60)]


def check_nothing_left(runner, marker, before):
    assert settle(lambda: not processes(marker)), processes(marker)
    swept = runner.bawn("run", "--", "echo", "next")  # may sweep what the dead left
    assert (swept.rc, swept.out) == (0, b"next\n"), swept

    def new():
        return {what: seen - before[what] for what, seen in state(runner).items()}

    left = new()  # some of it may belong to tests beside us, and goes away with them
    assert settle(lambda: not any(left[what] & seen for what, seen in new().items())), left


@pytest.mark.parametrize(
    "options", [[], ["--memory", "256m", "--pids", "50", "--disk", "64m"]], ids=["plain", "limits"]
)
def test_kill_9_of_the_supervisor(runner, options):
    marker = "bawn-kill-" + secrets.token_hex(8)
    rng = random.Random(marker)
    before = state(runner)
    for _ in range(ROUNDS // AT_ONCE):
        kill_a_batch(runner, marker, moments(rng), options)
    check_nothing_left(runner, marker, before)


def test_kill_9_one_after_another(runner):
    """Alone on the machine, the first milliseconds are hit more finely than in a crowd."""
    marker = "bawn-kill-" + secrets.token_hex(8)
    rng = random.Random(marker)
    before = state(runner)
    for delay in sequential_moments(rng):
        kill_a_batch(runner, marker, [delay], ["--memory", "256m"])
    check_nothing_left(runner, marker, before)


def test_the_command_does_run_on_without_a_sandbox(runner):
    """The outside half: the same command, its starter killed, is still there."""
    marker = "bawn-kill-" + secrets.token_hex(8)
    p = runner.popen(
        "sh",
        "-c",
        f"sh -c '{STUBBORN.format(marker=marker).replace(chr(39), chr(34))}' & wait",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(1)
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
        time.sleep(0.2)
        assert processes(marker)
    finally:
        while left := processes(marker):
            for pid, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for path in ("/tmp", runner.home):
            (pathlib.Path(path) / marker).unlink(missing_ok=True)


def test_no_namespace_is_left(runner):
    """Everything that lived in the sandbox's namespaces is gone, and so are they."""
    before = namespaces()
    marker = "bawn-kill-" + secrets.token_hex(8)
    for _ in range(3):
        kill_a_batch(runner, marker, [0.3] * 10, [])
    new = namespaces() - before  # some belong to other tests, and go away too
    assert settle(lambda: not new & namespaces()), new & namespaces()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_other_ends(runner, number):
    """A second and third signal end even a command that ignores them all; nothing is left either."""
    marker = "bawn-kill-" + secrets.token_hex(8)
    before = state(runner)
    p = runner.popen(
        runner.path,
        "run",
        "--timeout",
        "3s",
        "--",
        "sh",
        "-c",
        "echo up; " + STUBBORN.format(marker=marker),
        stdout=subprocess.PIPE,
    )
    assert p.stdout.readline() == b"up\n"
    os.kill(p.pid, number)
    p.wait()
    p.stdout.close()
    check_nothing_left(runner, marker, before)


def test_kill_9_of_the_init(root_runner):
    """The sandbox's PID 1 killed from outside takes the command with it: the status says so, nothing is left."""
    marker = "bawn-kill-" + secrets.token_hex(8)
    before = state(root_runner)
    p = root_runner.popen(
        root_runner.path,
        "run",
        "--",
        "sh",
        "-c",
        "echo up; " + STUBBORN.format(marker=marker),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert p.stdout.readline() == b"up\n"
    children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()
    assert children
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    out, err = p.communicate()
    assert p.returncode in (125, 137), (p.returncode, out, err)
    check_nothing_left(root_runner, marker, before)
