# SPDX-License-Identifier: Apache-2.0
"""Direct mode where nothing can be mounted: with hidden files the command works on a copy, which is said, and what it changed comes back."""


def bare(runner, deny, *args):
    return runner.run(deny, "userns", "--", runner.path, *args)


def test_a_copy_by_itself_if_something_is_hidden(user_runner, deny):
    runner = user_runner
    runner.write(runner.workspace / ".env", "KEY=secret")
    runner.write(runner.workspace / ".sandboxignore", ".env\n")
    r = bare(runner, deny, "run", "--pids", "30000", "--network", "none", "--", "sh", "-c", "cat .env; echo made > made; exit 3")
    assert r.rc == 3 and b"secret" not in r.out and r.err.count(b"working on a copy") == 1, r
    assert (runner.workspace / "made").read_text() == "made\n" and (runner.workspace / ".env").read_text() == "KEY=secret"


def test_the_workspace_itself_if_nothing_is(user_runner, deny):
    r = bare(user_runner, deny, "run", "--pids", "30000", "--network", "none", "--", "sh", "-c", "pwd")
    assert r.rc == 0 and r.out.decode().strip() == str(user_runner.workspace) and b"working on a copy" not in r.err, r


SOCKETS = """
import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
c = socket.create_connection(s.getsockname()); c.sendall(b"x"); print(s.accept()[0].recv(1))
u = socket.socket(socket.AF_UNIX); u.bind("u.sock"); u.listen()
socket.socket(socket.AF_UNIX).connect("u.sock")
open("made", "w").write("made")
"""


def test_a_guard_that_may_not_read_memory_by_the_call(user_runner, deny):
    """docker's profile refuses process_vm_readv and pidfd_getfd: /proc/PID/mem and the guard's own duplicates do."""
    r = user_runner.run(deny, "userns", "memory", "--", user_runner.path, "run", "--pids", "30000", "--", "/usr/bin/python3", "-c", SOCKETS)
    assert r.rc == 0 and r.out == b"b'x'\n" and (user_runner.workspace / "made").read_text() == "made", r
