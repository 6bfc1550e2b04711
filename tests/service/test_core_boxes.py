# SPDX-License-Identifier: Apache-2.0
"""bawnd: sandboxes that stay, and commands in them."""

import os
import struct

import core_driver
import pytest


def execute(c, token, box, *command, **fields):
    n = c.send("box_exec", token, id=box, command=list(command), **fields)
    a = c.take(n)
    if a.status != 200:
        return a
    assert a.flags == core_driver.EXEC
    out = []
    while a.fds:
        with os.fdopen(a.fds.pop(0), "rb") as f:
            out.append(f.read())
    end = c.take(n)
    assert end.kind == core_driver.OUTCOME
    sig, us = struct.unpack("<QQ", end.body)
    return (end.status, sig, *out)


@pytest.fixture
def box(bawnd):
    c = bawnd()
    t = c.token()
    a = c.ask("box_create", t, labels={"a": "b"}, env={"GREETING": "hi"})
    assert a.status == 201, (a, (c.top / "log").read_bytes())
    made = a.json()
    yield c, t, made
    c.ask("box_delete", t, id=made["id"])


def test_a_sandbox_and_its_commands(box):
    c, t, made = box
    i = made["id"]
    assert (made["state"], made["labels"]) == ("running", {"a": "b"})
    assert execute(c, t, i, "sh", "-c", "echo $GREETING $X; echo bad >&2; exit 3", env={"X": "y"}) == (3, 0, b"hi y\n", b"bad\n")
    assert execute(c, t, i, "cat", stdin="x" * 200000) == (0, 0, b"x" * 200000, b"")
    assert execute(c, t, i, "pwd", cwd="/tmp")[2] == b"/tmp\n"
    assert execute(c, t, i, "sh", "-c", "kill -9 $$")[:2] == (137, 9)
    assert execute(c, t, i, "no-such-program")[0] == 127
    assert execute(c, t, i, "sleep", "600", timeout="1s")[0] == 124
    assert [b["id"] for b in c.ask("box_list", t).json()["items"]] == [i]
    other = c.token("other")
    for op in ("box_get", "box_stop", "box_start", "box_delete"):
        assert c.ask(op, other, id=i).code == "not_found"
    assert execute(c, other, i, "true").code == "not_found"
    assert c.ask("box_stop", t, id=i).json()["state"] == "stopped"
    assert execute(c, t, i, "true").code == "not_running"
    assert c.ask("box_start", t, id=i).json()["state"] == "running"
    assert execute(c, t, i, "echo", "again") == (0, 0, b"again\n", b"")


def test_a_client_that_goes_ends_its_command(box):
    c, t, made = box
    n = c.send("box_exec", t, id=made["id"], command=["sh", "-c", "echo begun; sleep 600"])
    a = c.take(n)
    assert os.read(a.fds[0], 100) == b"begun\n"
    c.raw(core_driver.CANCEL, n)
    assert os.read(a.fds[0], 100) == b""  # all writers are gone


def test_a_sandbox_survives_the_service(box):
    c, t, made = box
    c.restart()
    assert c.ask("box_get", t, id=made["id"]).json()["state"] == "running"
    assert execute(c, t, made["id"], "echo", "here")[2] == b"here\n"


def test_what_cannot_be_a_sandbox(bawnd):
    c = bawnd()
    t = c.token()
    a = c.ask("box_create", t, shape__profile="nosuch")
    assert a.status == 422 and b"nosuch" in a.body, a
    failed, = c.ask("box_list", t).json()["items"]
    assert failed["state"] == "failed" and "nosuch" in failed["reason"]
    assert c.ask("box_delete", t, id=failed["id"]).status == 204, c.ask("box_delete", t, id=failed["id"])


def test_commands_of_one_tenant_leave_descriptors_for_others(bawnd):
    """Each command that goes on is a descriptor of bawnd's: with the usual limit one tenant had all of them, and no run of another was started."""
    c = bawnd(before=("prlimit", "--nofile=64:4096"))
    t, other = c.token(), c.token("other")
    box = c.ask("box_create", t).json()["id"]
    calls = [c.send("box_exec", t, id=box, command=["sleep", "600"]) for _ in range(80)]
    assert {c.take(n).status for n in calls} == {200}
    run = c.run(other, "echo", "here", wait=600).json()
    assert run["state"] == "done", run
    assert c.ask("box_delete", t, id=box).status == 204


def prlimit(c, files):
    done = c.runner.run("prlimit", f"--pid={c.proc.pid}", f"--nofile={files}:")
    assert done.rc == 0, done.err


def test_without_descriptors_a_sandbox_has_not_stopped(bawnd):
    """It had, as far as the row said: and what a stopped one has counts for no quota."""
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=1 << 30)
    t = c.token("m")
    box = c.ask("box_create", t).json()["id"]
    used = {int(n) for n in os.listdir(f"/proc/{c.proc.pid}/fd")}
    prlimit(c, min(set(range(len(used) + 1)) - used))
    assert c.ask("box_get", t, id=box).json()["state"] == "running"
    prlimit(c, 1024)
    assert c.ask("me", t).json()["usage"]["memory"] == 1 << 30
    assert c.ask("box_delete", t, id=box).status == 204
