# SPDX-License-Identifier: Apache-2.0
"""bawn-task: what it stores of a run, what can be asked of it, and what is left when everything is killed."""

import base64
import json
import os
import signal
import time

import pytest
from task_driver import CANCEL, CANCELLED, CUT_STDOUT, NO_RESULT, SIGNAL, STDIN, Task


def command(script, *more):
    return [*more, ("command", "sh"), ("command", "-c"), ("command", script)]


def until(condition):
    while not condition():
        time.sleep(0.02)


def gone(pattern):
    """No process has these bytes in its arguments."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if pattern in f.read() and int(pid) != os.getpid():
                    return False
        except OSError:
            pass
    return True


def test_a_run_is_recorded(runner):
    t = Task(runner, command("echo out; echo err >&2; printf 'x\\303'; sleep 0.2; printf '\\244y'; exit 7", ("env", "A\0b"),
                             ("shape.limits.memory", "256m")))
    r = t.wait()
    assert (r["status"], r["flags"], r["reason"]) == (7, 0, "")
    assert 0 < r["started_ns"] < r["ended_ns"]
    assert t.read("stdout") == "out\nxäy".encode()
    assert t.read("stderr") == b"err\n"
    assert (r["stdout_bytes"], r["stderr_bytes"]) == (len(t.read("stdout")), 4)
    result = json.loads(t.read("result"))
    assert r["result_len"] == len(t.read("result"))
    assert result["status"] == 7
    events = t.events()
    assert (events[0]["type"], events[0]["data"]) == ("state", {"state": "running"})
    assert (events[-1]["type"], events[-1]["data"]) == ("exit", {"status": 7})
    assert t.text("stdout") == "out\nxäy"
    assert not any("base64" in e for e in events)
    assert not t.locked()


def test_bytes_that_are_no_text_are_base64(runner):
    t = Task(runner, command(r"printf 'a\377b'"))
    t.wait()
    event, = (e for e in t.events() if e["type"] == "stdout")
    assert event["base64"] is True
    assert base64.b64decode(event["data"]) == b"a\xffb"


def test_lines_of_json_are_events_of_the_agent(runner):
    lines = ['{"type":"tool","n":1}', "no json", '{"broken":', '[1]', '{"deep":{"a":[1,{"b":null}]},"t":"\\u00e4"}']
    t = Task(runner, command("cat", ("parse", "jsonl"), ("stdin", "1")))
    s = t.connect()
    r, w = os.pipe()
    os.write(w, "\n".join(lines).encode())
    os.close(w)
    assert t.ask(s, STDIN, 1, r) == 0
    t.wait()
    assert [e["data"] for e in t.events() if e["type"] == "agent"] == [json.loads(lines[0]), json.loads(lines[4])]
    assert t.text("stdout") == 'no json\n{"broken":\n[1]\n'


def test_input_comes_in_parts_and_ends(runner):
    t = Task(runner, command("cat", ("stdin", "1")))
    s = t.connect()
    for text in (b"one ", b"two ", b"x" * 300000):
        r, w = os.pipe()
        if os.fork() == 0:
            os.close(r)
            os.write(w, text)
            os._exit(0)
        os.close(w)
        assert t.ask(s, STDIN, 0, r) == 0
        os.close(r)
        os.wait()
    assert t.locked()
    assert t.ask(s, STDIN, 1) == 0
    assert t.wait()["status"] == 0
    assert t.read("stdout") == b"one two " + b"x" * 300000


def test_signals_reach_the_command(runner):
    t = Task(runner, command("trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.05; done"))
    s = t.connect()
    until(lambda: t.read("stdout"))
    assert t.ask(s, SIGNAL, signal.SIGSEGV) == 22
    assert t.ask(s, SIGNAL, signal.SIGUSR1) == 0
    assert t.wait()["status"] == 3
    assert t.read("stdout") == b"ready\ngot\n"


def test_a_signal_before_the_start_is_not_lost(runner):
    t = Task(runner, command("sleep 600"))
    s = t.connect()
    assert t.ask(s, SIGNAL, signal.SIGTERM) == 0
    r = t.wait()
    assert r["status"] == 128 + signal.SIGTERM, (r, t.read("stderr"))


def test_signals_are_not_blocked_in_the_command(runner):
    """Its supervisor blocks them at the start, so that none is lost. They stayed blocked, and a command that was cancelled ended when it was killed, seconds
    later. Not by a shell: dash unblocks all."""
    t = Task(runner, [("command", "grep"), ("command", "SigBlk"), ("command", "/proc/self/status")])
    assert t.wait()["status"] == 0 and t.read("stdout").split() == [b"SigBlk:", b"0" * 16]


def test_a_cancelled_command_ends_by_the_first_signal(runner):
    t = Task(runner, [("command", "sleep"), ("command", "600")])
    assert t.ask(t.connect(), CANCEL) == 0
    r = t.wait()
    assert (r["flags"] & CANCELLED, r["status"]) == (CANCELLED, 128 + signal.SIGTERM), r


@pytest.mark.parametrize("script", ["sleep 600", "trap '' TERM; echo x; while :; do sleep 0.1; done"])
def test_cancel(runner, script):
    t = Task(runner, command(script))
    s = t.connect()
    assert t.ask(s, CANCEL) == 0
    assert t.ask(s, CANCEL) == 0
    r = t.wait()
    assert r["flags"] & CANCELLED
    assert r["status"] > 128


def test_output_has_a_ceiling(runner):
    t = Task(runner, command("head -c 1000000 /dev/zero | tr '\\0' x; echo end >&2"), output_max=100000)
    r = t.wait()
    assert r["flags"] == CUT_STDOUT
    assert t.read("stdout") == b"x" * 100000
    assert t.read("stderr") == b"end\n"
    assert len(t.text("stdout")) == 100000
    limit, = (e["data"] for e in t.events() if e["type"] == "limit")
    assert limit == {"limit": "output", "stream": "stdout", "bytes": 100000}


def test_what_cannot_be_sandboxed_says_why(runner):
    t = Task(runner, command("true", ("shape.profile", "nosuchprofile")))
    r = t.wait()
    assert r["flags"] & NO_RESULT
    assert "nosuchprofile" in r["reason"]
    assert t.read("result") == b""
    assert t.events()[-1]["type"] == "exit"


def test_killed_it_leaves_no_process_and_no_record(runner):
    mark = f"3{os.getpid()}{id(runner)}"
    t = Task(runner, command(f"echo ready; sleep {mark}"))
    until(lambda: t.read("stdout"))
    assert not gone(mark.encode())
    assert t.locked()
    t.kill()
    assert t.record() is None
    until(lambda: not t.locked())
    until(lambda: gone(mark.encode()))


def test_a_killed_bawn_is_recorded(runner):
    t = Task(runner, command("echo ready; sleep 600"))
    until(lambda: t.read("stdout"))
    with open(f"/proc/{t.proc.pid}/task/{t.proc.pid}/children") as f:
        child, = f.read().split()
    os.kill(int(child), signal.SIGKILL)
    r = t.wait()
    assert (r["status"], r["flags"]) == (128 + 9, NO_RESULT)


def test_a_request_that_is_damaged_is_refused(runner):
    t = Task(runner, [])
    assert t.wait()["flags"] & NO_RESULT
