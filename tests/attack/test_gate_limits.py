# SPDX-License-Identifier: Apache-2.0
"""The gate works for one sandbox, which pays for it: memory and CPU of bawn-gate count for the sandbox's limits (issue 13, number 24)."""

import subprocess

import pytest

PYTHON = "/usr/bin/python3"

# Makes the supervisor start the gate: a connection to an address that is always denied. Nothing leaves the machine.
CALL = r"""
import socket, sys
for _ in range(int(sys.argv[1])):
    s = socket.socket(); s.settimeout(60)
    try: s.connect(("10.255.255.1", 80)); s.sendall(b"x"); s.recv(1)
    except OSError: pass
print("called", flush=True); sys.stdin.read()
"""


def children(pid):
    return [int(p) for p in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def groups(pid):
    """Control groups by controller; "" is cgroup2."""
    lines = [line.strip().split(":", 2) for line in open(f"/proc/{pid}/cgroup")]
    return {name: path for _, names, path in lines for name in names.split(",")}


@pytest.fixture
def running(root_runner):
    """A run with limits whose gate has begun: supervisor, PID 1 and the gate."""
    p = root_runner.popen(root_runner.path, "run", "--memory", "256m", "--cpus", "1", "--", PYTHON, "-c", CALL, "3", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"called\n", p.communicate()
        names = {open(f"/proc/{c}/comm").read().strip(): c for c in children(p.pid)}
        yield p, names["bawn-init"], names["bawn-gate"]
    finally:
        out, err = p.communicate()
    assert p.returncode == 0, err


def test_the_gate_is_paid_for_by_its_sandbox(running):
    """Claim: bawn-gate is in the sandbox's groups for memory and CPU, so that a flood of connections meets the sandbox's limits (81)."""
    supervisor, init, gate = running
    theirs, its, ours = groups(init), groups(gate), groups(supervisor.pid)
    limited = [c for c in ("memory", "cpu") if theirs.get(c, theirs.get("")) != ours.get(c, ours.get(""))]
    if not limited:
        pytest.skip("needs a cgroup that can be limited: none here")
    assert {c: its.get(c, its.get("")) for c in limited} == {c: theirs.get(c, theirs.get("")) for c in limited}


def test_it_ends_with_its_sandbox_and_tells_what_it_saw(root_runner):
    """Claim: killing what is left in the sandbox's groups does not take the gate's last words."""
    r = root_runner.bawn("run", "--memory", "256m", "--json", "--", PYTHON, "-c", CALL.replace("sys.stdin.read()", ""), "3")
    assert r.rc == 0 and b"called" in r.out, r
    assert b"10.255.255.1" in r.out + r.err, r
