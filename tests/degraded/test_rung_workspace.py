# SPDX-License-Identifier: Apache-2.0
"""Where nothing can be mounted: in direct mode with hidden files, and in overlay mode, the command works on a copy, which is said. What it changed
comes back, or waits for `bawn apply`."""

import pytest


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


@pytest.fixture
def bare_box(user_runner, deny):
    """A persistent sandbox 'box' of a workspace with a hidden file."""
    runner = user_runner
    runner.write(runner.workspace / ".env", "KEY=secret")
    runner.write(runner.workspace / ".sandboxignore", ".env\n")
    r = bare(runner, deny, "start", "box", "--pids", "30000", "--network", "none")
    assert r.rc == 0 and r.err.count(b"working on a copy") == 1 and b"landlock rung" in r.err, r
    yield runner
    assert runner.bawn("rm", "--force", "box").rc == 0


def test_a_persistent_sandbox_on_a_copy(bare_box, deny):
    r = bare_box.bawn("exec", "box", "--", "sh", "-c", "cat .env; echo made > made; exit 3")
    assert r.rc == 3 and b"secret" not in r.out + r.err and not (bare_box.workspace / "made").exists(), r
    r = bare_box.bawn("exec", "--tty", "box", "--", "sh", "-c", "test -t 0 && test -t 1 && cat made")
    assert r.rc == 0 and r.out == b"made\r\n", r
    r = bare_box.bawn("shell", "box", input=b"cat made .env; exit 4\n")
    assert r.rc == 4 and r.out == b"made\n", r
    assert b"+made" in bare_box.bawn("diff", "box").out
    assert bare_box.bawn("stop", "box").rc == 0 and (bare_box.workspace / "made").read_text() == "made\n"
    r = bare(bare_box, deny, "start", "box")
    assert r.rc == 0 and r.err.count(b"working on a copy") == 1, r
    r = bare_box.bawn("exec", "box", "--", "sh", "-c", "cat made .env")
    assert r.rc != 0 and r.out == b"made\n", r


def test_overlay_is_a_copy_whose_changes_wait(user_runner, deny):
    runner = user_runner
    r = bare(runner, deny, "run", "--pids", "30000", "--network", "none", "-w", "overlay", "--name", "r", "--", "sh", "-c", "echo made > made")
    assert r.rc == 0 and r.err.count(b"there is no overlay; changes wait for 'bawn apply'") == 1, r
    assert not (runner.workspace / "made").exists()
    r = runner.bawn("apply", "r")
    assert r.rc == 0 and (runner.workspace / "made").read_text() == "made\n", r


def test_batches(user_runner, deny):
    runner = user_runner
    runner.write(runner.workspace / ".env", "KEY=secret")
    runner.write(runner.workspace / ".sandboxignore", ".env\n")
    runner.write("tasks.jsonl", '{"name": "a", "cmd": "cat .env; test ! -e .env && echo a > a"}\n{"name": "b", "cmd": "echo b > b", "workspace": "sync"}\n')
    r = bare(runner, deny, "batch", "tasks.jsonl", "--pids", "30000", "--network", "none")
    assert r.rc == 0 and b"2 ok, 0 failed" in r.out + r.err, r
    assert not (runner.workspace / "a").exists() and (runner.workspace / "b").read_text() == "b\n", r


def test_worktrees_are_refused_with_a_remedy(user_runner, deny):
    runner = user_runner
    assert runner.run("sh", "-c", "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one").rc == 0
    for verb in (["run"], ["start", "box"]):
        r = bare(runner, deny, *verb, "--pids", "30000", "-w", "worktree", *(["--", "touch", "made"] if verb == ["run"] else []))
        assert r.rc == 125 and b"use --workspace sync" in r.err and not (runner.workspace / "made").exists(), r
    assert runner.bawn("ps", "-a", "--json").json() == [] and runner.run("git", "branch").out.count(b"\n") == 1


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
