# SPDX-License-Identifier: Apache-2.0
"""SIGSTOP from inside: what is stopped neither wedges a sandbox nor whoever waits for it (issue 13, number 23)."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

PYTHON = "/usr/bin/python3"
WAIT = 120  # only so that a hang ends as a failure

# Stops everything that it sees, over and over: also what PID 1 has just made, before it executes anything.
STOPPER = r"""
import os, signal
print("up", flush=True)
mine = {1, os.getpid()}
while not os.path.exists("enough"):
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in mine:
            try: os.kill(int(name), signal.SIGSTOP)
            except OSError: pass
"""


@pytest.fixture(params=["direct", "overlay"])
def box(request, runner):
    r = runner.bawn("start", "box", "--network", "none", "--workspace", request.param)
    assert r.rc == 0, r
    yield runner
    r = runner.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r


def start(runner, *cmd, **kw):
    return runner.popen(runner.path, *cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)


def end(p):
    """Waits; a hang is a failure that leaves nothing behind."""
    try:
        return p.communicate(timeout=WAIT)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        p.stdout.close()
        p.stderr.close()
        pytest.fail("hangs")


def state(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]


@pytest.mark.parametrize("tty", [False, True])
def test_commands_that_are_stopped_before_they_begin(box, tty):
    """Claim: PID 1 waits for no process that the inside can stop: others go on, and the sandbox can be stopped (80)."""
    stopper = start(box, "exec", "box", "--", PYTHON, "-c", STOPPER)
    assert stopper.stdout.readline() == b"up\n"
    tries = [start(box, "exec", *(["--tty"] if tty else []), "box", "--", "true") for _ in range(8)]
    time.sleep(1)  # the stopper finds some of them
    (box.workspace / "enough").write_text("")
    if b"overlay" in box.bawn("inspect", "box").out:  # what the host writes may not be seen in there
        stopper.send_signal(signal.SIGTERM)
    end(stopper)
    for p in tries:  # stopped once it ran: ending it is heard
        if p.poll() is None:
            p.send_signal(signal.SIGTERM)
        end(p)
    r = start(box, "exec", "box", "--", "echo", "fine")
    assert end(r)[0] == b"fine\n"


@pytest.mark.parametrize("how", ["STOP", "TSTP"])
def test_a_stopped_command_hears_the_first_sigterm(box, how):
    """Claim: without a terminal the client does not stop with its command, and one SIGTERM ends both (80)."""
    p = start(box, "exec", "box", "--", "sh", "-c", f"echo up; kill -{how} $$; exec sleep 1000")
    assert p.stdout.readline() == b"up\n"
    time.sleep(0.3)
    assert state(p.pid) == "S", "the client is stopped by what it runs"
    p.send_signal(signal.SIGTERM)
    end(p)
    assert p.returncode == 128 + signal.SIGTERM or p.returncode == -signal.SIGTERM


@pytest.mark.parametrize("how", ["STOP", "TSTP"])
@pytest.mark.parametrize("mode", ["direct", "overlay"])
def test_a_run_does_not_stop_with_its_command(runner, how, mode):
    """Claim: the command cannot stop the supervisor, which watches time, disk and hidden names while others inside go on (80)."""
    p = start(runner, "run", "--workspace", mode, "--", "sh", "-c", f"echo up; kill -{how} $$; exec sleep 1000")
    assert p.stdout.readline() == b"up\n"
    time.sleep(0.3)
    assert state(p.pid) == "S", "the supervisor is stopped by what it watches"
    p.send_signal(signal.SIGTERM)
    end(p)
    assert p.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_time_goes_on_while_the_command_is_stopped(runner):
    """Claim: --timeout ends a command that stopped itself."""
    p = start(runner, "run", "--timeout", "500ms", "--", "sh", "-c", "kill -STOP $$; exec sleep 1000")
    end(p)
    assert p.returncode == 124


def test_a_stopped_parent_of_a_terminal_tells_the_end(box):
    """Claim: the process of ours that holds a terminal's session, stopped from inside, goes on, so that the client learns of the end."""
    p = start(box, "exec", "--tty", "box", "--", "sh", "-c", "kill -STOP $PPID; sleep 0.2; exit 7")
    end(p)
    assert p.returncode == 7


def test_everything_inside_is_stopped_while_the_supervisor_is(runner):
    """Claim: a run that stops in the foreground of a terminal, which the command can bring about, stops what else runs inside first."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
    from person import shell as person_shell

    shell = person_shell(runner)
    inner = "(i=0; while :; do i=$((i+1)); echo $i > beat; sleep 0.01; done) & while [ ! -s beat ]; do sleep 0.01; done; kill -STOP $$; kill %1; echo we''nt on"
    shell.sendline(f"{runner.path} run --workspace direct --network none -- sh -c '{inner}'".encode())
    shell.expect(rb"Stopped")
    before = (runner.workspace / "beat").read_text()
    time.sleep(0.5)
    assert (runner.workspace / "beat").read_text() == before, "something inside runs while nothing watches"
    shell.sendline(b"fg")
    shell.expect_exact(b"went on")
    shell.sendline(b"exit")
    shell.close()
