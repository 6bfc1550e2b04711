# SPDX-License-Identifier: Apache-2.0
"""The stage of the tests of the workspace modes: who runs, what changes, what may never be left behind.

Each test runs as root, as an ordinary user, and as root in the workspace of an ordinary user. After each of them nothing may be
left that does not belong there: no process, mount, temporary file or half-made folder of a run.
"""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

MODES = ["direct", "overlay", "sync", "worktree", "ro"]
APART = ["overlay", "sync", "worktree"]  # where what a command changes lies in a folder of its run
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]


def conftest(request):
    return next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))


@pytest.fixture(params=["root", "user", "root for a user"])
def who(request, bawn):
    """A runner; the third is root, and the workspace belongs to another user."""
    tools = conftest(request)
    with tools.make_runner("user" if request.param == "user" else "root", bawn) as r:
        if request.param == "root for a user":
            owner = pwd.getpwnam(tools.TEST_USER)
            plain = r.own

            def own(path):
                if r.workspace in pathlib.Path(os.fsdecode(path)).parents or path == r.workspace:
                    os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
                    return path
                return plain(path)

            r.own = own
            own(r.workspace)
        yield r


def settle(condition):
    end = time.monotonic() + 60  # so that a hang ends as a failure
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def processes(word):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and word.encode() in (entry / "cmdline").read_bytes():
                found.append((int(entry.name), (entry / "cmdline").read_bytes()))
    return found


def leftovers(r):
    """What must never be there when no command of ours runs."""
    mounts = [line for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if str(r.top) in line]
    temps = [p for p in every(r.workspace) if b".bawn-tmp-" in p]
    runs = state(r) / "runs"
    half = [p.name for p in runs.iterdir() if p.name.startswith(".")] if runs.exists() else []
    return {"mounts": mounts, "temporary files": temps, "half-made runs": half}


@pytest.fixture(autouse=True)
def nothing_left(request):
    if "who" not in request.fixturenames:
        yield
        return
    r = request.getfixturevalue("who")
    yield
    assert settle(lambda: not processes(str(r.top))), processes(str(r.top))
    left = leftovers(r)
    assert not any(left.values()), left


def every(top):
    """The paths, as bytes, of everything below a folder; no link is followed."""
    top = os.fsencode(top)
    found = []
    for folder, folders, files in os.walk(top):
        found += [os.path.relpath(os.path.join(folder, name), top) for name in folders + files]
    return sorted(found)


def tree(top, times=False, but=()):
    """{path: (type and mode, content, user attributes)}; with times also inode, owner and mtime."""
    found = {}
    for path in every(top):
        if any(path == b or path.startswith(b + b"/") for b in but):
            continue
        full = os.path.join(os.fsencode(top), path)
        st = os.lstat(full)
        content = None
        if stat.S_ISLNK(st.st_mode):
            content = os.readlink(full)
        elif stat.S_ISREG(st.st_mode):
            with open(full, "rb") as f:
                content = f.read()
        attributes = {}
        if stat.S_ISREG(st.st_mode):
            attributes = {n: os.getxattr(full, n) for n in os.listxattr(full) if n.startswith("user.")}
        found[path] = (oct(st.st_mode), content, attributes)
        if times:
            found[path] += (st.st_ino, st.st_uid, st.st_gid, st.st_mtime_ns if not stat.S_ISDIR(st.st_mode) else 0)
    return found


def state(r):
    return r.home / ".local/state/bawn"


def runs(r):
    folder = state(r) / "runs"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def waiting(r):
    """Runs that have a workspace of their own: not those in direct mode, and not the records of what sync carried (for rollback)."""
    return [name for name in runs(r) if json.loads((state(r) / "runs" / name / "run.json").read_text())["mode"] != "direct"]


def git(r, *args, ok=True, **kw):
    """By the owner of the workspace, as git wants it."""
    st = r.workspace.stat()
    identity = {} if os.getuid() == st.st_uid else {"user": st.st_uid, "group": st.st_gid, "extra_groups": []}
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C.UTF-8"}
    p = subprocess.run([*GIT, *args], cwd=kw.get("cwd", r.workspace), env=env, capture_output=True, **identity)
    assert not ok or p.returncode == 0, p
    return p.stdout.decode()


def repository(r):
    git(r, "init", "-q")
    git(r, "add", "-A")
    git(r, "commit", "-q", "--allow-empty", "-m", "one")


def prepare(r, mode):
    if mode == "worktree":
        repository(r)


def run(r, mode, script, *options, rc=0, **kw):
    result = r.bawn("run", "-w", mode, *options, "--", "sh", "-c", script, **kw)
    assert result.rc == rc, result
    return result


def kept(r, mode, script, *options):
    """Runs a script that changes something; the name of the run it left."""
    names = runs if mode == "direct" else waiting
    before = set(names(r))
    result = run(r, mode, script, *options)
    new = set(names(r)) - before
    assert len(new) == 1, (new, result)
    return new.pop()


class Paused:
    """A run in two halves: what the host does between them happens while the sandbox is up."""

    def __init__(self, r, mode, first, second, *options):
        script = f"{first}\necho half; read go && {{ {second}; }}"  # without "go", which a kill -9 leaves out, nothing more is done
        self.p = r.popen(
            r.path, "run", "-w", mode, *options, "--", "sh", "-c", script,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        line = self.p.stdout.readline()
        if line != b"half\n":
            self.p.kill()
            pytest.fail(f"it did not start: {line!r} {self.p.communicate()!r}")

    def finish(self, rc=0):
        out, err = self.p.communicate(b"go\n", timeout=300)
        assert self.p.returncode == rc, (self.p.returncode, out, err)
        return err

    def kill(self):
        """kill -9 of bawn itself, in the middle."""
        os.kill(self.p.pid, signal.SIGKILL)
        self.p.communicate()


def outcomes(result):
    return {c["path"]: c["outcome"] for c in result.json()["changes"]}


def apply(r, *args, rc=0, yes=True):
    result = r.bawn("apply", *(["--yes"] if yes else []), *args)
    assert result.rc == rc, result
    return result


# Every kind of change there is.
CHANGES = r"""
echo new content > text
printf 'more\n' >> appended
echo added > added; mkdir -p made/deep; echo x > made/deep/file
mkdir empty-made
rm removed; rm -r folder-removed; rm -r empty-removed
mv renamed renamed-to; mv folder-renamed folder-moved
chmod 755 script; chmod 600 private; chmod 700 folder-mode
ln -s text link; ln -sfn appended relinked
rm file-to-folder; mkdir file-to-folder; echo y > file-to-folder/in
rm -r folder-to-file; echo z > folder-to-file
rm file-to-link; ln -s text file-to-link
"""


def fill(r):
    r.write("text", "old content\n")
    r.write("appended", "one\n")
    r.write("removed", "removed\n")
    r.write("folder-removed/deep/a", "a\n")
    r.write("folder-removed/b", "b\n")
    r.mkdir(r.workspace / "empty-removed")
    r.write("renamed", "renamed, and long enough to be known again\n" * 20)
    r.write("folder-renamed/one", "one of two\n" * 20)
    r.write("folder-renamed/two", "two of two\n" * 20)
    r.write("script", "#!/bin/sh\n", 0o644)
    r.write("private", "p\n", 0o644)
    r.write("folder-mode/in", "in\n")
    os.symlink("text", r.workspace / "relinked")
    r.own(r.workspace / "relinked")
    r.write("file-to-folder", "f\n")
    r.write("folder-to-file/in", "in\n")
    r.write("file-to-link", "f\n")
    r.write("untouched", "same\n")
    os.utime(r.workspace / "untouched", (10**9, 10**9))


def expected(r):
    """The tree as the same script leaves it without any sandbox."""
    copy = r.top / "expected"
    shutil.copytree(r.workspace, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    subprocess.run(["sh", "-ec", CHANGES], cwd=copy, check=True, env={"PATH": os.environ["PATH"]})
    return tree(copy)


def version(path):
    if os.path.islink(path):
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else None  # a FIFO is not waited for


WRITER = """
import os, sys
path, stop = sys.argv[1:]
print("up", flush=True)
i = 0
while not os.path.exists(stop):
    i += 1
    data = bytes([98 + i % 25]) * (200000 + i % 7 * 1000)
    if i % 2:
        with open(path + ".new", "wb") as f: f.write(data)
        os.replace(path + ".new", path)
    else:
        with open(path, "r+b") as f: f.write(data); f.truncate(len(data))
"""


@contextlib.contextmanager
def writer(r, path):
    """A program of the host's that never stops to save a file, whole and in place."""
    stop = r.top / "stop"
    p = r.popen(sys.executable, "-c", WRITER, path, stop, stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"up\n"
        yield
    finally:
        stop.touch()
        p.wait()
        p.stdout.close()
        stop.unlink()
