# SPDX-License-Identifier: Apache-2.0
"""Where network namespaces alone are denied: root, mounts, ids and processes are those of the full rung, and the guard makes the sockets. What may be sent
is in tests/network (the rows shared-net, test_rung_attacks.py)."""

import json
import os

import pytest


def shared(runner, deny, *args, more=(), **kw):
    return runner.run(deny, "netns", *more, "--", runner.path, *args, **kw)


def run(runner, deny, script, *options, **kw):
    return shared(runner, deny, "run", "--pids", "30000", *options, "--", "sh", "-c", script, **kw)


LOOK = """
import os, sys
pids = [int(p) for p in os.listdir("/proc") if p.isdigit()]
bad = [p for p in pids if p > 50] + [p for p in (sys.argv[1], "/root", "/boot") if os.path.exists(p)]
print(os.environ["BAWN"], os.getpid() < 50, bad, flush=True)
sys.exit(0 if bad else 1)
"""


def test_processes_and_folders_of_the_host_are_not_seen(runner, deny):
    """Claim: without a network namespace the host's processes and files are as absent as in the full rung."""
    secret = runner.write(runner.home / ".ssh/id", "bawn-secret-key\n", 0o600)
    assert runner.run("/usr/bin/python3", "-c", LOOK, str(secret), env={"BAWN": "x"}).rc == 0
    r = shared(runner, deny, "run", "--pids", "30000", "--", "/usr/bin/python3", "-c", LOOK, str(secret))
    assert r.rc == 1 and r.out == b"shared-net True []\n", r


@pytest.mark.parametrize("mode", ["direct", "overlay", "ro", "sync"])
def test_hidden_files_are_hidden_in_every_mode(runner, deny, mode):
    runner.write(runner.workspace / ".env", "KEY=secret")
    runner.write(runner.workspace / ".sandboxignore", ".env\n")
    r = run(runner, deny, "cat .env; echo x > made; echo $BAWN", "-w", mode)
    assert b"secret" not in r.out and r.out.endswith(b"shared-net\n") and b"working on a copy" not in r.err, r
    assert (runner.workspace / "made").exists() == (mode in ("direct", "sync")) and (runner.workspace / ".env").read_text() == "KEY=secret"


def test_changes_of_an_overlay_are_applied(runner, deny):
    r = run(runner, deny, "echo made > made", "-w", "overlay", "--name", "r")
    assert r.rc == 0 and not (runner.workspace / "made").exists(), r
    assert runner.bawn("apply", "r").rc == 0 and (runner.workspace / "made").read_text() == "made\n"


def test_worktrees_and_batches(user_runner, deny):
    runner = user_runner
    git = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    assert runner.run("sh", "-c", git).rc == 0
    r = run(runner, deny, "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m two && git log --format=%s", "-w", "worktree")
    assert r.rc == 0 and r.out == b"two\none\n", r
    runner.write("tasks.jsonl", json.dumps({"name": "a", "cmd": "echo $BAWN > a"}) + "\n" + json.dumps({"name": "b", "cmd": "echo b > b", "workspace": "worktree"}) + "\n")
    r = shared(runner, deny, "batch", "tasks.jsonl", "--pids", "30000")
    assert r.rc == 0 and b"2 ok, 0 failed" in r.out + r.err, r


SERVER = """
import socket, sys
s = socket.socket(); s.bind(("127.0.0.1", 4321)); s.listen()
c = socket.create_connection(("localhost", 4321)); c.sendall(b"x"); print(s.accept()[0].recv(1))
u = socket.socket(socket.AF_UNIX); u.bind("/tmp/u.sock"); u.listen(); socket.socket(socket.AF_UNIX).connect("/tmp/u.sock")
"""


def test_a_persistent_sandbox(runner, deny):
    r = shared(runner, deny, "start", "box", "--pids", "30000")
    try:
        assert r.rc == 0 and b"shared-net rung" in r.err, r
        r = runner.bawn("exec", "box", "--", "/usr/bin/python3", "-c", SERVER)
        assert r.rc == 0 and r.out == b"b'x'\n", r
        r = runner.bawn("exec", "--tty", "box", "--", "sh", "-c", "test -t 0 && echo $$ > ~/kept; ipcmk -Q > /dev/null && echo ipc")
        assert r.rc == 0 and r.out == b"ipc\r\n", r
        assert runner.bawn("ps", "--json").json()[0]["rung"] == "shared-net"
        assert runner.bawn("stop", "box").rc == 0 and shared(runner, deny, "start", "box").rc == 0
        r = runner.bawn("shell", "box", input=b"cat ~/kept; exit 4\n")
        assert r.rc == 4 and int(r.out) > 1, r
    finally:
        assert runner.bawn("rm", "--force", "box").rc == 0


NO_SOCKETS = """
import socket
for family, kind in ((2, 1), (10, 1), (1, 1), (2, 2), (16, 3)):
    try: socket.socket(family, kind); print(family, kind)
    except OSError: pass
"""


@pytest.mark.parametrize("more, options", [((), ["--network", "none"]), (("notify",), ["-w", "sync"])], ids=["none", "no notification"])
def test_no_socket_at_all_without_a_network(runner, deny, more, options):
    """Claim: where nothing answers for sockets there are none: the network would be the host's."""
    assert len(runner.run("/usr/bin/python3", "-c", NO_SOCKETS).out.splitlines()) == 5
    r = shared(runner, deny, "run", "--pids", "30000", *options, "--", "/usr/bin/python3", "-c", NO_SOCKETS, more=more)
    assert r.rc == 0 and r.out == b"" and b"shared-net rung" in r.err and (not more or b"no network" in r.err), r


def test_nothing_is_left_behind(runner, deny):
    """kill -9 of the supervisor ends everything inside, by the kernel."""
    p = runner.popen(deny, "netns", "--", runner.path, "run", "--pids", "30000", "--", "sh", "-c", "setsid sleep 1000 & echo up; wait", stdout=-1)
    assert p.stdout.readline() == b"up\n"
    inside = [c for c in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent_is(c, p.pid)]
    assert inside
    p.kill()
    p.wait()
    p.stdout.close()
    for pid in inside:
        while os.path.exists(f"/proc/{pid}") and state(pid) != "Z":
            pass


def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def parent_is(pid, wanted):
    try:
        return int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1]) == wanted
    except (FileNotFoundError, ProcessLookupError):
        return False
