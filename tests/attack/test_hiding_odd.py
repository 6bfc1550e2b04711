# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 29: thousands of hidden files, bad rule files, odd things in the tree, paths at the limit: hidden, or the run is refused."""

import contextlib
import os
import pathlib
import shutil
import socket
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import fill  # noqa: E402
from hiding_ways import MODES, REFUSED, probe, snapshot, tree  # noqa: E402, F401


def count_mounts(runner, mode):
    r = runner.bawn("run", "--workspace", mode, "--", "cat", "/proc/self/mountinfo")
    assert r.rc == 0, r
    return r.out.count(b"\n")


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
def test_thousands_of_hidden_files_make_no_more_mounts(runner, marker, tree, mode):
    """Claim: hiding 5000 files by absence costs no mount (29), and all of them are absent."""
    few = count_mounts(runner, mode)
    for i in range(5000):
        runner.write(f"keys/{i % 50}/k{i}.pem", marker)
    assert count_mounts(runner, mode) == few
    body = "return [n for n in range(5000) if os.path.lexists(f'keys/{n % 50}/k{n}.pem')] or each(read)"
    r = runner.bawn("run", "--workspace", mode, "--", *probe(body, marker))
    assert r.rc == REFUSED, r


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_too_many_covers_are_refused_with_a_way_out(runner, tree, mode):
    """Claim: past its limit direct mode refuses, names a file, and tells what to do."""
    for i in range(1001):
        runner.write(f"keys/k{i}.pem", "x")
    r = runner.bawn("run", "--workspace", mode, "--", "true")
    assert r.rc == 125 and b".pem" in r.err and b"--workspace overlay" in r.err, r
    runner.write(".sandboxignore", "keys/\n.env\n")
    assert runner.bawn("run", "--workspace", mode, "--", "true").rc == 0


def test_a_folder_of_hidden_files_is_one_mount(runner, marker, tree):
    few = count_mounts(runner, "direct")
    for i in range(5000):
        runner.write(f".gcp/{i % 50}/k{i}", marker)
    assert count_mounts(runner, "direct") == few + 1


# Bad input


@pytest.mark.parametrize("mode", MODES)
def test_a_rule_file_that_cannot_be_read_stops_every_mode(user_runner, marker, mode):
    """Claim: a rule that was not read would be a secret that is not hidden. (Root reads any.)"""
    fill(user_runner, marker)
    user_runner.write("src/.sandboxignore", "secret\n", 0o000)
    r = user_runner.bawn("run", "--workspace", mode, "--", "true")
    assert r.rc == 125 and b"src/.sandboxignore" in r.err, r


RULE_FILES = {
    "a line of 1 MB": lambda r, p: r.write(p, "x" * (1 << 20) + "\n*.secret\n"),
    "a line of 1 MB minus one": lambda r, p: r.write(p, "x" * ((1 << 20) - 12) + "\n*.secret\n"),
    "more than 1 MB": lambda r, p: r.write(p, "*.secret\n" * 200000),
    "a folder": lambda r, p: r.mkdir(r.workspace / p),
    "a FIFO": lambda r, p: r.own(os.mkfifo(r.workspace / p) or r.workspace / p),
    "a link to itself": lambda r, p: os.symlink(".sandboxignore", r.workspace / p),
    "a link out": lambda r, p: os.symlink("/etc/passwd", r.workspace / p),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", RULE_FILES)
def test_a_rule_file_that_is_none_stops_every_mode(runner, tree, mode, what):
    """Claim: it is never left out silently, it never hangs, and the message names it."""
    for place in (".sandboxignore", "src/.sandboxignore"):
        RULE_FILES[what](runner, place)
        r = runner.bawn("run", "--workspace", mode, "--", "true")
        if what == "a folder" and r.rc == 0:  # git takes a folder of that name for none, too
            continue
        assert r.rc in (64, 125) and place.encode() in r.err, r
        assert len(r.err) < 20000, "the line is not repeated in the message"
        (shutil.rmtree if (runner.workspace / place).is_dir() else os.unlink)(runner.workspace / place)
    assert snapshot(runner) == tree


def make_socket(path):
    s = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        s.bind(path.name)
    finally:
        os.chdir(here)
        s.close()


ODD_THINGS = {
    "a loop of links": lambda r, d: [os.symlink("../" + d.name, d / "up"), os.symlink("loop", d / "loop")],
    "a FIFO": lambda r, d: os.mkfifo(d / "fifo"),
    "a hidden FIFO": lambda r, d: os.mkfifo(d / "fifo.pem"),
    "a socket": lambda r, d: make_socket(d / "sock"),
    "a hidden socket": lambda r, d: make_socket(d / "sock.pem"),
    "a hidden link": lambda r, d: os.symlink("/etc/shadow", d / "link.pem"),
    "a hidden link to a hidden file": lambda r, d: os.symlink("../.env", d / "link.pem"),
    "a hidden link that leads nowhere": lambda r, d: os.symlink("nowhere", d / "link.pem"),
    "a name that is an escape": lambda r, d: r.write(d / "\x1b]0;pwned\x07\x1b[2J.pem", "s"),
    "a name that is no text": lambda r, d: r.write(os.fsdecode(os.fsencode(d) + b"/\xff\xfe\x80.pem"), "s"),
    "a newline in the name": lambda r, d: r.write(d / "new\nline\n!.env.pem", "s"),
    "glob characters": lambda r, d: r.write(d / "[a]*?\\{b}.pem", "s"),
    "a space at the end": lambda r, d: r.write(d / ".env.pem ", "s") and r.write(d / " .pem", "s"),
    "a folder that may not be entered": lambda r, d: r.mkdir(d / "closed", 0o000),
    "an empty hidden folder": lambda r, d: r.mkdir(d / ".ssh"),
    "a name of 255 bytes": lambda r, d: r.write(d / ("n" * 251 + ".pem"), "s"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("thing", ODD_THINGS)
def test_odd_things_in_the_tree(runner, marker, tree, mode, thing):
    """Claim: whatever lies in the tree, the run starts and hides, or says in one harmless line why not; nothing is lost."""
    odd = runner.mkdir(runner.workspace / "odd")
    ODD_THINGS[thing](runner, odd)
    for path in odd.iterdir():
        runner.own(path)
    there = sorted(os.listdir(os.fsencode(odd)))
    r = runner.run("timeout", "-s", "KILL", "100", runner.path, "run", "--workspace", mode, "--", *probe("""
        names.append("odd")
        for f in [f for d, _, fs in os.walk(".") if ".git" not in d for f in fs if f.endswith(".pem") and f != "server.pem"]:
            p = os.path.join("odd", f)
            if os.path.isfile(p) and os.stat(p).st_size: return p
            try: os.close(os.open(p, os.O_RDONLY | os.O_NONBLOCK)); return p
            except OSError as e: print(ascii(str(e)))
        return each(read)""", marker))
    assert r.rc in (REFUSED, 125), r
    assert b"\x1b" not in r.err and b"\x07" not in r.err, r
    if r.rc == 125:
        assert b"odd" in r.err, r
    assert sorted(os.listdir(os.fsencode(odd))) == there
    assert snapshot(runner) == tree
    if thing == "a folder that may not be entered":
        (odd / "closed").chmod(0o700)


@pytest.mark.parametrize("mode", MODES)
def test_a_device_in_the_tree(root_runner, marker, mode):
    """Claim: device nodes, hidden or not, are neither opened nor copied nor lost."""
    fill(root_runner, marker)
    for name in ("null", "null.pem"):
        os.mknod(root_runner.workspace / "src" / name, 0o020666, os.makedev(1, 3))
    r = root_runner.bawn("run", "--workspace", mode, "--", *probe("""
        for n in ("src/null", "src/null.pem"):
            try: os.close(os.open(n, os.O_RDONLY)); return n
            except OSError as e: print(e)
        return False""", marker))
    assert r.rc == REFUSED, r
    for name in ("null", "null.pem"):
        assert os.stat(root_runner.workspace / "src" / name).st_rdev == os.makedev(1, 3)


def dig(runner, part, depth, leaf, data):
    """A path longer than any call takes, made step by step."""
    fd = os.open(runner.workspace, os.O_RDONLY)
    for _ in range(depth):
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
        below = os.open(part, os.O_RDONLY, dir_fd=fd)
        os.fchown(below, runner.user.pw_uid, runner.user.pw_gid)
        os.close(fd)
        fd = below
    leaf_fd = os.open(leaf, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
    os.write(leaf_fd, data.encode())
    os.fchown(leaf_fd, runner.user.pw_uid, runner.user.pw_gid)
    os.close(leaf_fd)
    os.close(fd)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("part, depth", [("d" * 200, 19), ("d" * 203, 20), ("d" * 200, 40), ("d", 250), ("d", 400)],
                         ids=["under 4096", "absolute over 4096", "relative over 4096", "deep", "too deep"])
def test_paths_at_and_past_the_limit(runner, marker, tree, mode, part, depth):
    """Claim: a hidden file at the end of a path of 4096 bytes and more, or very deep, is hidden or the run refused (29)."""
    dig(runner, part, depth, "deep.pem", marker)
    body = f"""
        for i in range({depth}): os.chdir({part!r})
        return each(lambda n: read("deep.pem"))"""
    shown = runner.run(*probe(body, marker))
    assert shown.rc == 0, shown
    r = runner.bawn("run", "--workspace", mode, "--", *probe(body, marker))
    assert r.rc in (REFUSED, 125), r
    assert r.rc == REFUSED or b"the workspace" in r.err or b"ddd" in r.err, r
    assert len(r.err) < 20000, r
    assert runner.run(*probe(body, marker)).rc == 0, "it is gone from the host"
    assert snapshot(runner) == tree
