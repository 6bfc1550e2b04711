# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 16, 25, 37, 82, 84: nothing gets past the guard between judging a call and doing it, nor by odd calls (race.c, raw_calls.c)."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protecting import DIRECT, ROOT, repository, snapshot, tidy  # noqa: E402


@pytest.fixture(scope="session")
def programs():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-probe.", dir="/var/tmp"))
    top.chmod(0o755)
    for name, flags in (("race", ["-pthread"]), ("raw_calls", ["-static", "-no-pie"])):
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-unused-result", "-Wno-empty-body", *flags, "-o", top / name, ROOT / f"tests/attack/{name}.c"], check=True)
    yield top
    shutil.rmtree(top)


def program(runner, programs, name):
    path = runner.workspace / name
    shutil.copy(programs / name, path)
    path.chmod(0o755)
    runner.mkdir(runner.workspace / "scratch") if not (runner.workspace / "scratch").exists() else None
    return runner.own(path)


CALLS = ["open", "legacy", "mkdir", "symlink", "mknod", "rename", "link"]


@pytest.mark.parametrize("how, call", [("threads", c) for c in CALLS] + [("signals", "open"), ("signals", "mkdir"), ("restarting", "open"), ("restarting", "rename"), ("memory", "open"), ("memory", "mkdir"), ("debugger", "")])
def test_the_path_changes_while_it_is_judged(runner, programs, how, call):
    """Claim: there is no moment between judging and doing (16, 84): threads, signal handlers, other processes, debuggers."""
    race = program(runner, programs, "race")
    outside = runner.run(race, how, "2000000", ".envrc", call)
    assert outside.rc == 0, outside
    tidy(runner, "race")
    runner.mkdir(runner.workspace / "scratch")
    inside = runner.bawn(*DIRECT, "--", race, how, "3000", ".envrc", call)
    assert inside.rc == 3, inside
    assert not os.path.lexists(runner.workspace / ".envrc")
    left = {p.name for p in runner.workspace.iterdir()} - {"race", "scratch"}
    assert all(byte in pair for name in left for byte, pair in zip(name, zip("sfffff", ".envrc"))), left  # halves of both
    assert b"refused: write to '.envrc'" in inside.err, "the guard never saw the other path, so nothing was raced"


def test_a_waiting_open_does_not_reach_another_file(runner, programs):
    """Claim: the same for an open that has to wait for the other end of a FIFO: what it gets is what was judged (16, 84)."""
    repository(runner)
    race = program(runner, programs, "race")
    os.link(runner.workspace / ".git/config", runner.workspace / "hard")
    before = (runner.workspace / ".git/config").read_bytes()
    direct = runner.bawn(*DIRECT, "--", "sh", "-c", "echo evil >> hard")
    assert direct.rc != 0, "the other name of the configuration is protected, too"
    several = 'for i in 1 2 3 4 5 6; do "$1" fifo 0 never hard fifo$i; test $? = 3 || exit 9; test -e hard || mv fifo$i hard; done'  # one attempt may lose
    r = runner.bawn(*DIRECT, "--", "sh", "-c", several, "sh", race)
    assert r.rc == 0, r
    assert (runner.workspace / ".git/config").read_bytes() == before, r
    assert runner.run("sh", "-c", "echo evil >> hard").rc == 0
    assert (runner.workspace / ".git/config").read_bytes() != before, "without the sandbox the name leads to the configuration"


def test_a_waiting_open_makes_nothing_that_was_not_judged(runner, programs):
    """Claim: an open with O_CREAT that waits does not make the file later, when it would complete a repository (16, 37)."""
    race = program(runner, programs, "race")
    several = 'for i in 1 2 3 4 5 6; do mkdir -p bare$i/objects; "$1" fifo-create 0 never bare$i/refs bare$i/HEAD; test $? = 3 || exit 9; done'
    r = runner.bawn(*DIRECT, "--", "sh", "-c", several, "sh", race)
    assert r.rc == 0, r
    for bare in runner.workspace.glob("bare*"):
        assert not {"HEAD", "objects", "refs"} <= {p.name for p in bare.iterdir()}, r


def empty_folder(path):
    return path.is_dir() and not path.is_symlink() and path.name == ".git" and not any(path.iterdir())


def test_many_at_once(runner):
    """Claim: the same with many processes that try everything at the same time, also while folders move about."""
    repository(runner)
    runner.write("tree/a/b/file", "x\n")
    before = snapshot(runner.workspace / ".git", ["objects", "refs", "logs"])
    script = """
import os, random, sys
random.seed(int(sys.argv[1]))
names = ['.envrc', 'tree/.vscode', 'tree/.vscode/tasks.json', 't/.vscode/tasks.json', '.git/hooks/x', '.git/config', 'tree/a/.mcp.json', 't/a/.mcp.json', 'tree/.git', 't/.git']
for i in range(400):
    a, b = random.choice(names), random.choice(names)
    for f in (lambda: os.rename('tree', 't'), lambda: os.rename('t', 'tree'), lambda: os.close(os.open(a, os.O_WRONLY | os.O_CREAT)), lambda: os.mkdir(a), lambda: os.rename(a, b),
              lambda: os.symlink('/tmp', a), lambda: os.link('tree/a/b/file', a), lambda: os.unlink(a), lambda: os.rename(a, 'tree/x'), lambda: os.rename('tree/x', a), lambda: os.rmdir(a)):
        try:
            f()
        except OSError:
            pass
"""
    r = runner.bawn(*DIRECT, "--", "sh", "-c", 'for i in 1 2 3 4; do /usr/bin/python3 -c "$1" $i & done; wait', "sh", script)
    assert r.rc == 0, r
    assert snapshot(runner.workspace / ".git", ["objects", "refs", "logs"]) == before
    left = [p for p in snapshot(runner.workspace, [".git"]) if p.endswith((".envrc", "tasks.json", ".mcp.json", ".git"))]
    assert [p for p in left if not empty_folder(runner.workspace / p)] == []  # an empty '.git' may be made, as 'git init' begins, and no process may come to its rmdir


RAW_CALLS = [(how, "there") for how in ("open", "open with high bits", "creat", "rename", "renameat", "link", "truncate", "chmod", "fchmodat2", "setxattrat", "unlink", "openat2", "32-bit open", "x32 open")]
RAW_CALLS += [(how, "new") for how in ("open", "open with high bits", "openat with a wild folder", "creat", "rename", "renameat", "link", "symlink", "mknod", "mkdir", "openat2", "32-bit open", "x32 open", "io_uring")]


@pytest.mark.parametrize("how, existing", RAW_CALLS, ids=[f"{h}-{e}" for h, e in RAW_CALLS])
def test_a_static_program_with_raw_calls(runner, programs, how, existing):
    """Claim: no other system call, calling convention or argument gets past the guard (16, 25, 82)."""
    raw = program(runner, programs, "raw_calls")
    runner.write("scratch/f", "evil\n")
    if existing == "there":
        runner.write(".envrc", "before\n")
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    outside = runner.run(raw, how, ".envrc", existing)
    if outside.rc == 4 or outside.rc < 0:
        pytest.skip(f"needs a kernel with {how}")
    assert outside.rc == 0, outside
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    before = snapshot(runner.workspace)
    inside = runner.bawn(*DIRECT, "--", raw, how, ".envrc", existing)
    # '.envrc' is hidden: to the inside there is nothing to remove, which is no error (guard_ops.c); nor is it removed
    allowed = (128 + signal.SIGSYS,) if how in ("32-bit open", "x32 open") else (0,) if how == "unlink" else (3, 4)
    assert inside.rc in allowed, inside
    assert snapshot(runner.workspace) == before
