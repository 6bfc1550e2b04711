# SPDX-License-Identifier: Apache-2.0
"""Repositories that the host's git would obey, made of anything but folders, or where nothing looks (issue 13, number 4).

git's is_git_directory() asks access(2) for `objects` and `refs`: sockets and FIFOs will do. And a link leads below .git as well as anywhere."""

import os
import shutil
import subprocess

import pytest

PYTHON = "/usr/bin/python3"
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.com", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.com"}

PRELUDE = r"""
import os, socket, stat, sys
marker = sys.argv[1]
CONFIG = '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch %s; false"\n' % marker
def begin(d):
    os.makedirs(d); open(d + "/HEAD", "w").write("ref: refs/heads/main\n"); open(d + "/config", "w").write(CONFIG)
def sock(path): socket.socket(socket.AF_UNIX).bind(path)
def fifo(path): os.mkfifo(path, 0o755); os.chmod(path, 0o755)
def node(path): os.mknod(path, 0o755 | stat.S_IFSOCK)
def file(path): open(path, "w"); os.chmod(path, 0o755)
def both(make, d): make(d + "/objects"); make(d + "/refs")
def whole(d):
    begin(d); os.mkdir(d + "/objects"); os.mkdir(d + "/refs")
"""
# name: (script, the folder that git is called in)
PLANTS = {
    "sockets": ('begin("x"); both(sock, "x")', "x"),
    "sockets, by an absolute path": ('begin("x"); both(sock, os.path.abspath("x"))', "x"),
    "sockets, in the working folder": ('begin("x"); os.chdir("x"); sock("objects"); sock("refs")', "x"),
    "sockets, by dots": ('begin("x"); os.mkdir("y"); both(sock, "y/../x")', "x"),
    "sockets, through a link": ('begin("x"); os.symlink("x", "l"); both(sock, "l")', "x"),
    "sockets, through /proc/self/cwd": ('begin("x"); os.chdir("x"); both(sock, "/proc/self/cwd")', "x"),
    "sockets, through a descriptor": ('begin("x"); fd = os.open("x", os.O_RDONLY); both(sock, "/proc/self/fd/%d" % fd)', "x"),
    "sockets, renamed": ('begin("x"); sock("p"); sock("q"); os.rename("p", "x/objects"); os.rename("q", "x/refs")', "x"),
    "sockets, linked": ('begin("x"); sock("p"); os.link("p", "x/objects"); os.link("p", "x/refs")', "x"),
    "a socket last of all": ('whole("x"); os.rmdir("x/refs"); sock("x/refs")', "x"),
    "FIFOs": ('begin("x"); both(fifo, "x")', "x"),
    "nodes": ('begin("x"); both(node, "x")', "x"),
    "plain files": ('begin("x"); both(file, "x")', "x"),
    "below .git/objects": ('whole(".git/objects/zz")', ".git/objects/zz"),
    "below .git/objects, by a link": ('whole(".git/objects/zz"); os.symlink(".git/objects/zz", "x")', "x"),
    "below .git/refs": ('whole(".git/refs/zz")', ".git/refs/zz"),
    "below .git, in a folder of its own": ('os.makedirs(".git/zz"); whole(".git/zz/y")', ".git/zz/y"),
    "below .git/logs, of sockets": ('begin(".git/logs/zz"); os.chdir(".git/logs/zz"); both(sock, ".")', ".git/logs/zz"),
    "a worktree's folder, by commondir": ('os.makedirs(".git/worktrees/zz"); d = ".git/worktrees/zz/"; os.makedirs("c/objects"); os.makedirs("c/refs"); open("c/config", "w").write(CONFIG); '
                                          'open(d + "gitdir", "w").write(os.path.abspath("x/.git\\n")); open(d + "commondir", "w").write("../../../c\\n"); open(d + "HEAD", "w").write("ref: refs/heads/main\\n")', ".git/worktrees/zz"),
    "moved out of .git, with something in each folder": ('whole(".git/objects/zz"); [open(".git/objects/zz/%s/f" % n, "w") for n in ("objects", "refs")]; os.rename(".git/objects/zz", "x")', "x"),
}


def repository(runner):
    runner.write("a", "a\n")
    for args in (["init", "-q", "-b", "main"], ["add", "a"], ["commit", "-qm", "a"]):
        r = runner.run("git", *args, env=GIT)
        assert r.rc == 0, r


def obeyed(runner, top, where, marker):
    """Does the host's git run what the folder's configuration says? Where it wants a working tree first: does it read it?"""
    if not (top / where).is_dir():
        return False
    call = lambda *args: runner.run("git", "-c", "safe.bareRepository=all", *args, cwd=top / where, env={**GIT, "GIT_CEILING_DIRECTORIES": str(top)})
    call("status")
    ran = marker.exists()
    marker.unlink(missing_ok=True)
    return ran or str(marker).encode() in call("config", "core.fsmonitor").out


@pytest.mark.parametrize("name", PLANTS)
def test_no_repository_can_be_planted(runner, name):
    """Claim: no folder becomes one that git takes for a repository, of whatever its parts are made and wherever it lies (37)."""
    script, where = PLANTS[name]
    marker = runner.home / "ran"
    repository(runner)
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    argv = [PYTHON, "-c", PRELUDE + script, str(marker)]
    shown = runner.run(*argv)
    assert shown.rc == 0, shown
    assert obeyed(runner, runner.workspace, where, marker), "the host's git does not obey it, so this proves nothing"
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    r = runner.bawn("run", "--workspace", "direct", "--", *argv)
    if "by commondir" in name:  # what git writes in place is judged, and dropped, at the close
        assert b"refused: write to '.git/worktrees/zz/commondir'" in r.err and not (runner.workspace / ".git/worktrees/zz/commondir").exists(), r
    else:
        assert r.rc == 1 and b"PermissionError" in r.err, r
    assert not obeyed(runner, runner.workspace, where, marker), r


COPIED = [name for name in PLANTS if name in ("plain files", "a worktree's folder, by commondir") or name.startswith(("below .git/objects", "below .git/refs", "below .git, in", "moved out"))]


@pytest.mark.parametrize("mode", ["sync", "overlay"])
@pytest.mark.parametrize("name", COPIED)
def test_none_comes_back_from_a_copy(runner, name, mode):
    """Claim: sync holds such a repository back, and apply does not bring it out of a layer unasked (37)."""
    script, where = PLANTS[name]
    marker = runner.home / "ran"
    repository(runner)
    r = runner.bawn("run", "--workspace", mode, "--", PYTHON, "-c", PRELUDE + script, str(marker))
    assert r.rc == 0, r
    if mode == "overlay":
        applied = runner.bawn("apply")
        assert applied.rc != 0, applied
    assert not obeyed(runner, runner.workspace, where, marker), r


@pytest.mark.parametrize("path", [".envrc", "sub/.vscode/tasks.json", ".git/hooks/pre-commit", ".env"])
def test_no_protected_or_hidden_name_can_be_bound(runner, path):
    """Claim: a socket is a name like any other (34, 28)."""
    repository(runner)
    runner.write(".sandboxignore", ".env\n")
    script = f"import os, socket; os.makedirs(os.path.dirname('{path}') or '.', exist_ok=True); socket.socket(socket.AF_UNIX).bind('{path}')"
    shown = runner.run(PYTHON, "-c", script)
    assert shown.rc == 0, shown
    (runner.workspace / path).unlink()
    r = runner.bawn("run", "--workspace", "direct", "--", PYTHON, "-c", script)
    assert r.rc == 1 and b"PermissionError" in r.err and not os.path.lexists(runner.workspace / path), r


def test_the_address_cannot_be_swapped(runner):
    """Claim: there is no moment between judging an address and binding it (16)."""
    script = r"""
import ctypes, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
good, bad = b"\x01\x00plain.s\0", b"\x01\x00.envrc\0\0"
room = ctypes.create_string_buffer(good, len(good))
stop = False
def swap():
    while not stop:
        ctypes.memmove(room, bad, len(bad)); ctypes.memmove(room, good, len(good))
t = threading.Thread(target=swap); t.start()
for _ in range(2000):
    s = socket.socket(socket.AF_UNIX)
    libc.bind(s.fileno(), room, len(good)); s.close()
    try: os.unlink("plain.s")
    except FileNotFoundError: pass
stop = True; t.join()
"""
    r = runner.bawn("run", "--workspace", "direct", "--", PYTHON, "-c", script)
    assert r.rc == 0 and not os.path.lexists(runner.workspace / ".envrc"), r


def test_sockets_go_on_working(runner):
    """What programs do with bind: names as they were written, modes, errors, servers of all families."""
    script = r"""
import errno, os, socket, stat
def fails(path, *want):
    try: socket.socket(socket.AF_UNIX).bind(path)
    except OSError as e: assert e.errno in want, (path, e)
    else: raise SystemExit(f"{path} was bound")
os.mkdir("d"); os.umask(0o027)
for path in ("s", "d/s", os.path.abspath("d/t"), "/tmp/s", "d/" + "n" * 90, "\0abstract", b"\xff\xfe"):
    l = socket.socket(socket.AF_UNIX); l.bind(path); l.listen()
    assert os.fsencode(l.getsockname()) == os.fsencode(path), (path, l.getsockname())
    c = socket.socket(socket.AF_UNIX); c.connect(path); s = l.accept()[0]; s.sendall(b"x"); assert c.recv(1) == b"x"
    if path in ("s", "d/s"): assert stat.S_IMODE(os.stat(path).st_mode) == 0o750
fails("s", errno.EADDRINUSE); fails("none/s", errno.ENOENT); fails("new/", errno.ENOENT); fails("s/x", errno.ENOTDIR)
os.symlink("nowhere", "dangling"); fails("dangling", errno.EADDRINUSE)
l = socket.socket(socket.AF_UNIX); l.bind("once")
try: l.bind("twice")
except OSError as e: assert e.errno == errno.EINVAL
os.symlink("d", "link"); l = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); l.bind("link/through"); assert os.path.exists("d/through")
c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); c.bind("./dots"); c.sendto(b"x", "d/through"); assert l.recv(1) == b"x" and os.path.exists("dots")
for family, where in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(family, kind); s.bind((where, 0)); assert s.getsockname()[1]
socket.if_nameindex()
try: os.dup2(os.open("/dev/null", 0), 99); socket.socket(fileno=99).bind("f")
except OSError: pass
r = __import__("ctypes").CDLL(None, use_errno=True); assert r.bind(0, b"\1\0x", 3) == -1
print("fine")
"""
    r = runner.bawn("run", "--workspace", "direct", "--", PYTHON, "-c", script)
    assert (r.rc, r.out) == (0, b"fine\n"), r
