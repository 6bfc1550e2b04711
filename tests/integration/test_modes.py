# SPDX-License-Identifier: Apache-2.0
"""The workspace modes from end to end: what a command changed, where it is afterwards, and how it comes back.

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


# -- the stage ----------------------------------------------------------------------------------------------------------------


def conftest(request):
    return next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))


@pytest.fixture(params=["root", "user", "root for a user"])
def who(request, bawn):
    """A runner; the third is root, and the workspace belongs to somebody else."""
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


# -- the same in every mode -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_status_and_output_are_those_of_the_command(who, mode):
    who.write("f", "content\n")
    prepare(who, mode)
    r = run(who, mode, "cat f; echo error >&2; exit 7", rc=7)
    assert r.out == b"content\n"
    assert [line for line in r.err.splitlines() if not line.startswith(b"bawn: ")] == [b"error"]
    assert run(who, mode, "kill -TERM $$", rc=143).out == b""
    if mode != "ro":  # also when there is something to tell at the end
        r = run(who, mode, "cat f; echo n > f; echo error >&2; exit 9", rc=9)
        assert (r.out, r.err.splitlines().count(b"error")) == (b"content\n", 1), r
    missing = who.bawn("run", "-w", mode, "--", "no-such-program-here")
    assert missing.rc == 127, missing


@pytest.mark.parametrize("mode", MODES)
def test_no_change_leaves_nothing(who, mode):
    who.write("f", "content\n")
    who.write("d/g", "more\n")
    prepare(who, mode)
    before = tree(who.workspace, times=True)
    branches = git(who, "for-each-ref") + git(who, "worktree", "list") if mode == "worktree" else None
    for script in ("true", "cat f d/g; ls -laR; stat f", "exit 3"):
        run(who, mode, script, rc=3 if "exit" in script else 0)
        assert runs(who) == [], script
    assert tree(who.workspace, times=True) == before
    if mode == "worktree":
        assert git(who, "for-each-ref") + git(who, "worktree", "list") == branches
    known = {"ignore", "runs", "volumes", "caches", "trust", "trust.json", "audit"}
    assert {p.name for p in state(who).iterdir()} <= known


@pytest.mark.parametrize("mode", MODES)
def test_a_change_that_is_taken_back_leaves_nothing_to_review(who, mode):
    who.write("f", "content\n")
    prepare(who, mode)
    run(who, mode, "if (echo x > made) 2>/dev/null; then rm made; mkdir d; rmdir d; fi")
    assert runs(who) == []
    assert (who.workspace / "f").read_text() == "content\n"


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
def test_the_state_goes_where_the_user_wants_it(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    elsewhere = who.mkdir(who.top / "elsewhere")
    env = {"XDG_STATE_HOME": str(elsewhere)}
    run(who, mode, "echo 2 > f", "--name", "n", env=env)
    assert (elsewhere / "bawn/runs/n/run.json").is_file()
    assert runs(who) == []
    assert stat.S_IMODE((elsewhere / "bawn/runs").stat().st_mode) & 0o077 == 0 or who.is_root
    assert who.bawn("discard", "n", "--yes", env=env).rc == 0
    assert not (elsewhere / "bawn/runs/n").exists()


@pytest.mark.parametrize("mode", APART)
def test_without_a_place_for_it_the_run_is_refused(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    before = tree(who.workspace)
    r = who.bawn("run", "-w", mode, "--", "sh", "-c", "echo 2 > f", env={"XDG_STATE_HOME": str(who.workspace / "state")})
    assert r.rc in (64, 125) and b"XDG_STATE_HOME" in r.err, r
    (who.workspace / "state").exists() and shutil.rmtree(who.workspace / "state")
    assert tree(who.workspace) == before


def test_read_only_is_read_only(who):
    fill(who)
    before = tree(who.workspace, times=True)
    r = who.bawn("run", "-w", "ro", "--", "sh", "-c", CHANGES + "echo ran")
    assert r.out == b"ran\n", r
    assert tree(who.workspace, times=True) == before
    assert runs(who) == []


@pytest.mark.parametrize("mode", MODES)
def test_the_workspace_is_at_its_own_path_in_every_mode(who, mode):
    who.write("sub/f", "x\n")
    prepare(who, mode)
    r = run(who, mode, 'pwd; cat "$PWD/sub/f" /workspace/sub/f')
    assert r.out.decode() == f"{who.workspace}\nx\nx\n"


# -- overlay ----------------------------------------------------------------------------------------------------------------------


def test_overlay_nothing_reaches_the_host_before_apply_and_then_everything(who):
    fill(who)
    after = expected(who)
    before, exact = tree(who.workspace), tree(who.workspace, times=True)
    begun = time.time()
    name = kept(who, "overlay", CHANGES)
    assert tree(who.workspace, times=True) == exact, "nothing may reach the host before it is applied"
    assert who.bawn("review", name, "--json").json()["run"] == name
    assert who.bawn("diff", name).rc == 0
    assert tree(who.workspace, times=True) == exact, "looking changes nothing"
    apply(who, name)
    assert tree(who.workspace) == after
    owner = who.workspace.stat().st_uid
    for path in every(who.workspace):
        st = os.lstat(os.path.join(os.fsencode(who.workspace), path))
        assert st.st_uid == owner, path
        assert st.st_mtime <= time.time() + 1, path
    for path in (b"text", b"added", b"made/deep/file"):
        assert os.stat(os.path.join(os.fsencode(who.workspace), path)).st_mtime >= begun - 1, path
    now = tree(who.workspace, times=True)
    assert now[b"untouched"] == exact[b"untouched"], "what was not changed is not touched: neither inode nor times"
    apply(who, "--undo")
    assert tree(who.workspace) == before
    apply(who, name)
    assert tree(who.workspace) == after
    assert who.bawn("discard", name, "--yes").rc == 0
    assert runs(who) == [] and tree(who.workspace) == after


def test_overlay_diff_and_review_know_each_change(who):
    fill(who)
    name = kept(who, "overlay", CHANGES)
    seen = {c["path"]: c for c in who.bawn("review", name, "--json").json()["changes"]}
    kinds = {path: c["kind"] for path, c in seen.items()}
    assert kinds["added"] == "added" and kinds["removed"] == "deleted" and kinds["text"] == "modified"
    assert kinds["renamed-to"] == "renamed" and "renamed" not in kinds
    assert kinds["script"] == "modified" and kinds["relinked"] == "modified"
    assert "untouched" not in kinds and "folder-mode/in" not in kinds
    names = who.bawn("diff", name, "--name-only").out.decode().split("\n")
    assert {"added", "removed", "text", "script"} <= set(names), names


def test_overlay_apply_of_a_part_and_then_the_rest(who):
    fill(who)
    after, before = expected(who), tree(who.workspace)
    name = kept(who, "overlay", CHANGES)
    apply(who, name, "--only", "made/", "--only", "text")
    now = tree(who.workspace)
    changed = {p for p in now.keys() | before.keys() if now.get(p) != before.get(p)}
    assert changed == {b"text", b"made", b"made/deep", b"made/deep/file"}
    apply(who, name, "--except", "removed", "--except", "folder-*")
    assert (who.workspace / "removed").exists() and (who.workspace / "folder-removed/b").exists()
    apply(who, name)
    assert tree(who.workspace) == after


CONFLICTS = {
    # what the host has at first, what the host does then, what the run does, the run's version
    "same line": ("a\nb\nc\n", "a\nHOST\nc\n", "printf 'a\\nRUN\\nc\\n' > f", b"a\nRUN\nc\n"),
    "binary": (b"\0\1\2base", b"\0\1\2host", r"printf '\0\1\2run' > f", b"\0\1\2run"),
    "deleted by the host": ("base\n", None, "echo run > f", b"run\n"),
    "deleted by the run": ("base\n", "host\n", "rm f", None),
    "added by both": (None, "host\n", "echo run > f", b"run\n"),
    "link against file": ("base\n", "host\n", "rm f; ln -s other f", "other"),
}


def host_does(r, path, what):
    if what is None:
        (r.workspace / path).unlink()
    else:
        r.write(path, what)


def version(path):
    if os.path.islink(path):
        return os.readlink(path)
    return path.read_bytes() if path.is_file() else None  # a FIFO is not waited for


@pytest.mark.parametrize("case", CONFLICTS)
def test_overlay_conflict(who, case):
    base, host, script, theirs = CONFLICTS[case]
    who.write("other", "o\n")
    if base is not None:
        who.write("f", base)
    name = kept(who, "overlay", f"{script}; echo fine > fine")
    host_does(who, "f", host)
    ours = version(who.workspace / "f")
    before = tree(who.workspace, times=True)

    r = apply(who, name, "--json", rc=1)
    assert r.json()["done"] is False and r.json()["conflicts"] is True and outcomes(r)["f"] == "conflict", r
    assert tree(who.workspace, times=True) == before, "a conflict: nothing at all is done"

    apply(who, name, "--conflict", "skip")
    assert version(who.workspace / "f") == ours and version(who.workspace / "fine") == b"fine\n"
    apply(who, "--undo")
    assert version(who.workspace / "fine") is None

    apply(who, name, "--conflict", "keep-both")
    beside = [p for p in who.workspace.iterdir() if p.name.startswith("f.bawn-")]
    assert [version(p) for p in beside] == ([] if theirs is None else [theirs]), case
    assert version(who.workspace / "f") == ours
    assert version(who.workspace / "fine") == b"fine\n"
    apply(who, "--undo")
    assert {p: v[:3] for p, v in before.items()} == tree(who.workspace)

    apply(who, name, "--conflict", "overwrite")
    assert version(who.workspace / "f") == theirs and version(who.workspace / "fine") == b"fine\n"
    apply(who, "--undo")
    assert version(who.workspace / "f") == ours, "the host's version was in undo"
    assert {p: v[:3] for p, v in before.items()} == tree(who.workspace)


MERGES = {
    "different lines": (b"1\n2\n3\n4\n5\n", b"one\n2\n3\n4\n5\n", b"1\n2\n3\n4\nfive\n", b"one\n2\n3\n4\nfive\n"),
    "no newline at the end": (b"1\n2\n3\n4\n5", b"one\n2\n3\n4\n5", b"1\n2\n3\n4\nfive", b"one\n2\n3\n4\nfive"),
    "carriage returns": (b"1\r\n2\r\n3\r\n4\r\n", b"one\r\n2\r\n3\r\n4\r\n", b"1\r\n2\r\n3\r\nfour\r\n", b"one\r\n2\r\n3\r\nfour\r\n"),
    "the same on both sides": (b"1\n2\n", b"1\ntwo\n", b"1\ntwo\n", b"1\ntwo\n"),
}


@pytest.mark.parametrize("case", MERGES)
def test_overlay_merge(who, case):
    base, ours, theirs, both = MERGES[case]
    who.write("f", base)
    who.write("theirs", theirs)
    name = kept(who, "overlay", "cat theirs > f")
    who.write("f", ours)
    r = apply(who, name, "--json")
    assert outcomes(r)["f"] == ("same" if ours == theirs else "merged"), r
    assert version(who.workspace / "f") == both
    apply(who, "--undo") if ours != theirs else None
    assert version(who.workspace / "f") == ours


def test_overlay_content_of_one_side_and_mode_of_the_other(who):
    who.write("f", "1\n", 0o644)
    name = kept(who, "overlay", "echo 2 > f")
    (who.workspace / "f").chmod(0o755)
    apply(who, name)
    assert version(who.workspace / "f") == b"2\n"
    assert stat.S_IMODE((who.workspace / "f").stat().st_mode) == 0o755


def test_overlay_conflict_while_the_sandbox_is_up(who):
    """The host saves a file between the command's two writes."""
    who.write("f", "base\n")
    who.write("g", "base\n")
    p = Paused(who, "overlay", "echo run > f", "echo run2 >> f", "--name", "n")
    who.write("f", "host\n")
    who.write("g", "host\n")
    p.finish()
    assert version(who.workspace / "f") == b"host\n"
    r = apply(who, "n", "--json", rc=1)
    assert outcomes(r) == {"f": "conflict"}, r
    apply(who, "n", "--conflict", "keep-both")
    assert version(who.workspace / "f") == b"host\n" and version(who.workspace / "f.bawn-n") == b"run\nrun2\n"
    assert version(who.workspace / "g") == b"host\n"


def test_overlay_what_the_host_puts_into_a_folder_that_the_run_deleted_stays(who):
    who.write("d/old", "old\n")
    name = kept(who, "overlay", "rm -r d")
    who.write("d/mine", "mine\n")
    for way in ("stop", "skip", "keep-both"):
        who.bawn("apply", name, "--yes", "--conflict", way)
        assert version(who.workspace / "d/mine") == b"mine\n", way
    if who.bawn("apply", name, "--yes", "--conflict", "overwrite").rc == 0 and not (who.workspace / "d/mine").exists():
        apply(who, "--undo")  # the run's version wins; the host's is not lost
    assert version(who.workspace / "d/mine") == b"mine\n"


def test_overlay_undo_leaves_what_was_changed_since(who):
    who.write("f", "1\n")
    who.write("g", "1\n")
    name = kept(who, "overlay", "echo 2 > f; echo 2 > g")
    apply(who, name)
    assert who.bawn("apply", "--undo", "--dry-run").rc == 64
    who.write("f", "mine, and of another length\n")
    r = apply(who, "--undo", rc=1)
    assert b"f" in r.out and version(who.workspace / "f") == b"mine, and of another length\n" and version(who.workspace / "g") == b"1\n"
    assert who.bawn("apply", "--undo").rc in (1, 125)
    assert version(who.workspace / "f") == b"mine, and of another length\n"


def test_overlay_undo_by_force(who):
    who.write("f", "1\n")
    name = kept(who, "overlay", "echo 2 > f")
    apply(who, name)
    who.write("f", "mine, and of another length\n")
    apply(who, "--undo", "--force")
    assert version(who.workspace / "f") == b"1\n"
    assert who.bawn("apply", "--undo").rc == 125


def test_overlay_by_name_goes_on(who):
    who.write("f", "1\n")
    run(who, "overlay", "echo 2 > f; echo a > a", "--name", "n")
    r = run(who, "overlay", "cat f a; echo 3 > f; echo b > b; rm a", "--name", "n")
    assert r.out == b"2\na\n"
    assert version(who.workspace / "f") == b"1\n"
    assert run(who, "overlay", "cat f; ls", "--name", "n").out == b"3\nb\nf\n"
    apply(who, "n")
    assert tree(who.workspace).keys() == {b"f", b"b"} and version(who.workspace / "f") == b"3\n"
    assert runs(who) == ["n"], "the user named it: it is kept"
    who.write("f", "host\n")
    r = run(who, "overlay", "cat f; echo 4 > g", "--name", "n")
    assert r.out == b"host\n", "what was applied is no longer in the run"
    apply(who, "n")
    assert tree(who.workspace).keys() == {b"f", b"b", b"g"} and version(who.workspace / "f") == b"host\n"
    assert who.bawn("discard", "n", "--yes").rc == 0
    assert runs(who) == []


def test_a_name_belongs_to_its_mode_and_its_workspace(who):
    who.write("f", "1\n")
    run(who, "overlay", "echo 2 > f", "--name", "n")
    r = who.bawn("run", "-w", "sync", "--name", "n", "--", "true")
    assert r.rc == 64 and b"overlay" in r.err, r
    other = who.mkdir(who.top / "other")
    r = who.bawn("run", "-w", "overlay", "--name", "n", "--", "true", cwd=other)
    assert r.rc == 64 and b"another workspace" in r.err, r
    for mode in ("direct", "ro"):
        assert who.bawn("run", "-w", mode, "--name", "n", "--", "true").rc == 64
    for bad in ("../x", ".x", "a/b", "x" * 100, ""):
        assert who.bawn("run", "-w", "overlay", "--name", bad, "--", "true").rc == 64, bad
    assert runs(who) == ["n"]


@pytest.mark.parametrize("mode", APART)
def test_a_run_that_is_up_is_not_touched(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    p = Paused(who, mode, "echo 2 > f", "echo 3 > g", "--name", "n")
    before = tree(who.workspace, but=[b".git"])
    for args in (["run", "-w", mode, "--name", "n", "--", "true"], ["apply", "n", "--yes"], ["discard", "n", "--yes"]):
        r = who.bawn(*args)
        assert r.rc == 125, r
    assert who.bawn("review", "n").rc in (0, 1)
    assert tree(who.workspace, but=[b".git"]) == before
    p.finish()
    if mode == "sync":
        assert version(who.workspace / "f") == b"2\n"
    else:
        apply(who, "n")
    assert version(who.workspace / "f") == b"2\n" and version(who.workspace / "g") == b"3\n"


@pytest.mark.parametrize("mode", APART)
def test_kill_9_of_bawn_loses_nothing(who, mode):
    who.write("f", "1\n")
    who.write("gone", "g\n")
    prepare(who, mode)
    before = tree(who.workspace, but=[b".git"])
    p = Paused(who, mode, "echo 2 > f; rm gone; mkdir d; echo deep > d/g", "echo never > f")
    p.kill()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    assert tree(who.workspace, but=[b".git"]) == before
    (name,) = waiting(who)
    seen = {c["path"] for c in who.bawn("review", name, "--json").json()["changes"]}
    assert {"f", "gone", "d/g"} <= seen, seen
    apply(who, name)
    assert version(who.workspace / "f") == b"2\n" and version(who.workspace / "d/g") == b"deep\n"
    assert not (who.workspace / "gone").exists()
    assert run(who, mode, "cat f" if mode != "worktree" else "true").rc == 0
    who.bawn("discard", name, "--yes")
    assert waiting(who) == []


@pytest.mark.parametrize("mode", APART)
def test_kill_9_of_bawn_and_the_run_goes_on_by_its_name(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    p = Paused(who, mode, "echo 2 > f; echo n > new", "echo never > f", "--name", "n")
    p.kill()
    r = run(who, mode, "cat f new; echo 3 > f", "--name", "n")
    assert r.out == b"2\nn\n"
    if mode != "sync":
        assert version(who.workspace / "f") == b"1\n"
        apply(who, "n")
    assert version(who.workspace / "f") == b"3\n" and version(who.workspace / "new") == b"n\n"


@pytest.mark.parametrize("mode", APART)
def test_kill_9_while_it_is_made_ready(who, mode):
    """The first milliseconds: what is half made is swept by the next run, and nothing of the workspace is lost."""
    for i in range(60):
        who.write(f"d{i % 6}/f{i}", f"{i}\n" * 200)
    prepare(who, mode)
    before = tree(who.workspace, but=[b".git"])
    for i in range(12):
        p = who.popen(who.path, "run", "-w", mode, "--", "true", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.002 * i)  # not waited for anything: the moments to kill at
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    assert run(who, mode, "cat d0/f0").out == b"0\n" * 200
    assert tree(who.workspace, but=[b".git"]) == before
    assert who.bawn("discard", "--all", "--yes").rc in (0, 125)
    assert run(who, mode, "true").rc == 0
    assert runs(who) == []
    if mode == "worktree":
        assert git(who, "for-each-ref", "refs/heads/bawn") == "" and len(git(who, "worktree", "list").splitlines()) == 1


ODD = [b"latin-\xe9\xff", b"new\nline", b"tab\tand\\backslash", b"-dash", b" space ", b"x" * 255, b"[a]*?", b"\xf0\x9f\x90\xb1", b"esc\x1b[31m"]
ODD_SCRIPT = r"""
import os
for name in %r:
    with open(name, "ab") as f: f.write(b"changed\n")
    with open(b"made-" + name[:200], "wb") as f: f.write(name)
    os.mkdir(b"in-" + name[:200])
    with open(b"in-" + name[:200] + b"/" + name, "wb") as f: f.write(b"deep")
"""


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "worktree"])
def test_names_are_bytes(who, mode):
    for name in ODD:
        path = os.path.join(os.fsencode(who.workspace), name)
        with open(path, "wb") as f:
            f.write(b"old\n")
        who.own(path)
    prepare(who, mode)
    before = tree(who.workspace, but=[b".git"])
    r = who.bawn("run", "-w", mode, "--", "python3", "-c", ODD_SCRIPT % (ODD,))
    assert r.rc == 0 and b"\x1b" not in r.err, r
    if mode in ("overlay", "worktree"):
        assert tree(who.workspace, but=[b".git"]) == before
        r = apply(who)
        assert b"\x1b" not in r.out + r.err
    now = tree(who.workspace, but=[b".git"])
    for name in ODD:
        assert now[name][1] == b"old\nchanged\n", name
        assert now[b"made-" + name[:200]][1] == name
        assert now[b"in-" + name[:200] + b"/" + name][1] == b"deep"
    assert len(now) == 4 * len(ODD)
    if mode != "sync":
        r = who.bawn(*(["rollback"] if mode == "direct" else ["apply", "--undo"]))
        assert r.rc == 0, r
        assert tree(who.workspace, but=[b".git"]) == before


ATTRIBUTES = """python3 -c '
import os
os.setxattr("added", "user.new", b"v")
os.setxattr("changed", "user.was", b"new")
if os.listxattr("removed"): os.removexattr("removed", "user.was")  # a checkout of git has none
with open("made", "w") as f: f.write("m")
os.setxattr("made", "user.new", b"v")'"""


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "worktree"])
def test_attributes_come_and_go(who, mode):
    """user.* attributes are changes like any other, also where nothing else of the file changed."""
    for name, value in (("added", None), ("changed", b"old"), ("removed", b"old")):
        who.write(name, f"{name}\n")
        if value:
            os.setxattr(who.workspace / name, "user.was", value)
    repository(who)  # in every mode: git must not see any of it
    before = tree(who.workspace, but=[b".git"])
    run(who, mode, ATTRIBUTES)
    if mode in ("overlay", "worktree"):
        assert tree(who.workspace, but=[b".git"]) == before
        apply(who)
    now = tree(who.workspace, but=[b".git"])
    got = {os.fsdecode(name): entry[2] for name, entry in now.items()}
    new = {"user.new": b"v"}
    assert got == {"added": new, "made": new, "changed": {"user.was": b"new"}, "removed": {}} or mode == "worktree", got
    assert got["added"] == got["made"] == new
    if mode != "sync":
        r = who.bawn(*(["rollback"] if mode == "direct" else ["apply", "--undo"]))
        assert r.rc == 0, r
        assert tree(who.workspace, but=[b".git"]) == before


def test_discard_leaves_the_host_alone_and_nothing_behind(who):
    fill(who)
    before = tree(who.workspace, times=True)
    name = kept(who, "overlay", CHANGES)
    assert who.bawn("discard", name).rc == 64
    assert who.bawn("discard", name, "--only", "made/", "--yes").rc == 0
    left = {c["path"] for c in who.bawn("review", name, "--json").json()["changes"]}
    assert "text" in left and not any(p.startswith("made") for p in left)
    assert who.bawn("discard", name, "--yes").rc == 0
    assert tree(who.workspace, times=True) == before
    assert runs(who) == []
    assert who.bawn("discard", name, "--yes").rc == 125


def test_discard_all(who):
    who.write("f", "1\n")
    repository(who)
    before = tree(who.workspace, but=[b".git"])
    for mode in ("overlay", "overlay", "worktree"):
        kept(who, mode, "echo x > f; mkdir -p d; chmod 0 d")
    run(who, "direct", "echo 2 > g")
    assert len(runs(who)) == 4
    assert who.bawn("discard", "--all", "--yes").rc == 0
    assert len(runs(who)) == 1, "one in direct mode has nothing to discard"
    (who.workspace / "g").unlink()
    assert tree(who.workspace, but=[b".git"]) == before
    assert git(who, "for-each-ref", "refs/heads/bawn") == ""


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


def test_overlay_apply_while_the_host_saves_the_same_file(who):
    """Nothing of the host's is lost: the apply stops, or is a conflict, or was first; never a mixture of two versions."""
    who.write("f", b"a" * 200000)
    who.write("g", "1\n")
    name = kept(who, "overlay", "head -c 1000 /dev/zero | tr '\\0' '#' > f; echo 2 > g")
    before = os.stat(who.workspace / "f").st_ctime_ns
    with writer(who, who.workspace / "f"):
        while os.stat(who.workspace / "f").st_ctime_ns == before:  # else the apply might be first
            time.sleep(0.01)
        for _ in range(10):
            r = who.bawn("apply", name, "--yes")
            assert r.rc in (1, 125), r
            assert version(who.workspace / "g") == b"1\n", "all or nothing"
    r = apply(who, name, "--json", rc=1)
    assert outcomes(r)["f"] == "conflict"
    content = version(who.workspace / "f")
    assert len(set(content)) == 1 and b"#" not in content, "the host's last save stands"


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_a_file_that_changes_while_it_is_read(who, mode):
    who.write("f", b"a" * 200000)
    who.write("g", "1\n")
    with writer(who, who.workspace / "f"):
        for _ in range(5):
            r = who.bawn("run", "-w", mode, "--", "sh", "-c", "wc -c < f; cat g; echo 2 > h")
            assert r.rc == 0 and r.out.endswith(b"1\n"), r
            who.bawn("discard", "--yes")
            (who.workspace / "h").unlink(missing_ok=True)
    content = version(who.workspace / "f")
    assert len(set(content)) == 1 and len(content) >= 200000, "the host's last save stands"
    assert not [p for p in who.workspace.iterdir() if p.name not in ("f", "g", "f.new")]


# -- sync -------------------------------------------------------------------------------------------------------------------------


def test_sync_carries_everything_back_and_leaves_nothing(who):
    fill(who)
    after = expected(who)
    exact = tree(who.workspace, times=True)
    run(who, "sync", CHANGES)
    assert tree(who.workspace) == after
    assert tree(who.workspace, times=True)[b"untouched"] == exact[b"untouched"]
    owner = who.workspace.stat().st_uid
    assert {os.lstat(os.path.join(os.fsencode(who.workspace), p)).st_uid for p in every(who.workspace)} == {owner}
    assert waiting(who) == []


def test_sync_can_be_taken_back(who):
    fill(who)
    before, after = tree(who.workspace), expected(who)
    run(who, "sync", CHANGES)
    assert tree(who.workspace) == after
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert tree(who.workspace) == before
    apply(who, "--undo")
    assert tree(who.workspace) == after


def test_sync_is_live_on_neither_side(who):
    who.write("f", "1\n")
    p = Paused(who, "sync", "echo 2 > f; echo x > new", "cat other >&2")
    assert version(who.workspace / "f") == b"1\n" and not (who.workspace / "new").exists()
    who.write("other", "host\n")
    err = p.finish(rc=1)
    assert b"host\n" not in err
    assert version(who.workspace / "f") == b"2\n" and version(who.workspace / "other") == b"host\n"


def test_sync_never_carries_what_is_hidden(who):
    who.write(".env", "host secret\n")
    who.write("conf/server.pem", "host key\n")
    who.write("conf/open", "o\n")
    who.write(".aws/credentials", "c\n")
    run(who, "sync", "! cat .env 2>/dev/null && ! ls .aws 2>/dev/null && ! ls conf | grep pem", "--name", "n")
    run(who, "sync", "echo inside > .env; rm -rf conf; mkdir -p .aws; echo inside > .aws/credentials; echo x > other.pem; echo ok > ok", "--name", "n")
    assert version(who.workspace / ".env") == b"host secret\n"
    assert version(who.workspace / "conf/server.pem") == b"host key\n"
    assert version(who.workspace / ".aws/credentials") == b"c\n"
    assert not (who.workspace / "other.pem").exists() and not (who.workspace / "conf/open").exists()
    assert version(who.workspace / "ok") == b"ok\n"
    who.write(".env", "host secret two\n")
    assert run(who, "sync", "cat .env", "--name", "n").out == b"inside\n", "what is made inside under a hidden name stays inside"
    assert version(who.workspace / ".env") == b"host secret two\n"
    copies = [p for p in (state(who) / "runs/n").rglob("*") if p.is_file() and b"host secret" in p.read_bytes()]
    assert copies == []


def everything(r):
    """All bytes that the user still has: in the workspace or in the folder of a run."""
    found = []
    for top in (r.workspace, state(r) / "runs"):
        for path in every(top) if top.exists() else []:
            full = os.path.join(os.fsencode(top), path)
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, "rb") as f:
                    found.append(f.read())
    return found


SYNC_BOTH = {
    # what is there before, in the sandbox, on the host meanwhile: the words that must not be lost
    "content": ("echo base > f", "echo SANDBOX > f", "echo HOST > f", ["SANDBOX", "HOST"]),
    "added": ("true", "echo SANDBOX > f", "echo HOST > f", ["SANDBOX", "HOST"]),
    "deleted inside": ("echo base > f", "rm f", "echo HOST > f", ["HOST"]),
    "deleted on the host": ("echo base > f", "echo SANDBOX > f", "rm f", ["SANDBOX"]),
    "file here and folder there": ("echo base > f", "rm f; mkdir f; echo SANDBOX > f/in", "echo HOST > f", ["SANDBOX", "HOST"]),
    "folder here and file there": ("mkdir f; echo base > f/in", "rm -r f; echo SANDBOX > f", "echo HOST > f/in", ["SANDBOX", "HOST"]),
    "folder deleted and filled": ("mkdir f; echo base > f/in", "rm -r f", "echo HOST > f/new", ["HOST"]),
    "folder filled and deleted": ("mkdir f; echo base > f/in", "echo SANDBOX > f/new", "rm -r f", ["SANDBOX"]),
    "renamed both": ("echo base > f", "mv f g; echo SANDBOX >> g", "mv f h; echo HOST >> h", ["SANDBOX", "HOST"]),
    "link against file": ("echo base > f; echo o > o", "ln -sf o f; echo SANDBOX > s", "echo HOST > f", ["SANDBOX", "HOST"]),
    "FIFO against file": ("echo base > f", "rm f; mkfifo f; echo SANDBOX > s", "echo HOST > f", ["SANDBOX", "HOST"]),
    "file against FIFO": ("echo base > f", "echo SANDBOX > f", "rm f; mkfifo f", ["SANDBOX"]),
    "file against a folder that is closed": ("mkdir f; echo base > f/in", "echo SANDBOX > f/in; echo SANDBOX2 > f/new", "chmod 0 f", ["SANDBOX", "SANDBOX2"]),
}


@pytest.mark.parametrize("case", SYNC_BOTH)
def test_sync_loses_no_version_of_either_side(who, case):
    before, inside, outside, words = SYNC_BOTH[case]
    owner = who.workspace.stat()

    def host(script):
        identity = {} if os.getuid() == owner.st_uid else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        subprocess.run(["sh", "-ec", script], cwd=who.workspace, check=True, **identity)

    host(before)
    p = Paused(who, "sync", inside, "true")
    host(outside)
    err = p.finish()
    if (who.workspace / "f").is_dir():
        (who.workspace / "f").chmod(0o755)
    have = b"\n".join(everything(who))
    for word in words:
        assert word.encode() + b"\n" in have, (word, err, every(who.workspace), runs(who))
    if "HOST" in words and "renamed" not in case and "folder" not in case:
        assert version(who.workspace / "f") == b"HOST\n"
    if "SANDBOX" in words and "HOST" in words and case in ("content", "added"):
        assert [version(p) for p in who.workspace.glob("f.bawn-*")] == [b"SANDBOX\n"] and b"f.bawn-" in err


def test_sync_a_file_that_the_host_has_open(who):
    """An editor or a database may write to it at any moment: neither version is lost."""
    who.write("f", "base\n")
    with open(who.workspace / "f", "r+b") as f:
        run(who, "sync", "echo SANDBOX > f")
        f.write(b"HOST\n")
    have = b"".join(everything(who))
    assert b"HOST\n" in have and b"SANDBOX\n" in have, every(who.workspace)


HELD = [".git/hooks/pre-commit", ".vscode/tasks.json", ".mcp.json", ".claude/settings.json", ".sandboxignore", ".envrc.d/../.idea/x.xml"]


def test_sync_holds_sensitive_files_back(who):
    who.write("f", "1\n")
    who.write(".git/HEAD", "ref: refs/heads/main\n")
    script = "echo 2 > f; " + "; ".join(f'mkdir -p "$(dirname {p})"; echo bad > {p}' for p in HELD)
    name = kept(who, "sync", script)
    assert version(who.workspace / "f") == b"2\n"
    for path in HELD:
        assert not (who.workspace / path).is_file(), path
    r = who.bawn("review", name, "--json")
    assert r.rc == 1
    assert {".git/hooks/pre-commit", ".mcp.json", ".sandboxignore"} <= {c["path"] for c in r.json()["changes"]}
    assert apply(who, name, rc=1, yes=False) and not (who.workspace / ".mcp.json").exists()
    apply(who, name)
    assert version(who.workspace / ".mcp.json") == b"bad\n"
    apply(who, "--undo")
    assert not (who.workspace / ".mcp.json").exists() and version(who.workspace / "f") == b"2\n"
    assert who.bawn("discard", name, "--yes").rc == 0
    assert waiting(who) == [] and not (who.workspace / ".mcp.json").exists()


def test_sync_by_name_brings_what_the_host_changed(who):
    who.write("f", "1\n")
    who.write("gone", "g\n")
    run(who, "sync", "echo x > x", "--name", "n")
    assert waiting(who) == ["n"]
    who.write("f", "2\n")
    (who.workspace / "gone").unlink()
    who.write("d/new", "new\n")
    p = Paused(who, "sync", "cat f d/new >&2; ls >&2; echo inside > i", "true", "--name", "n")
    who.write("f", "3\n")
    who.write("late", "late\n")
    err = p.finish()
    assert b"2\nnew\n" in err and b"gone" not in err
    assert version(who.workspace / "f") == b"3\n" and version(who.workspace / "i") == b"inside\n"
    r = run(who, "sync", "cat f late i", "--name", "n")
    assert r.out == b"3\nlate\ninside\n"
    assert every(who.workspace) == sorted([b"f", b"d", b"d/new", b"x", b"late", b"i"])


MTIME_GAMES = {
    "same size, old mtime": 'cp -p f /tmp/f; printf BBBB > f; touch -r /tmp/f f',
    "another inode, same size, old mtime": 'cp -p f /tmp/f; printf BBBB > g; touch -r /tmp/f g; mv g f',
    "an mtime in the past": "printf BBBB > f; touch -d @0 f",
    "an mtime in the future": "printf BBBB > f; touch -d 2099-01-01 f",
    "through mmap": """python3 -c '
import mmap, os
st = os.stat("f")
with open("f", "r+b") as f, mmap.mmap(f.fileno(), 4) as m: m[:] = b"BBBB"
os.utime("f", ns=(st.st_atime_ns, st.st_mtime_ns))'""",
}


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "worktree"])
@pytest.mark.parametrize("game", MTIME_GAMES)
def test_times_hide_no_change(who, mode, game):
    """ATTACKS 31: what looks unchanged is looked at all the same; without a sandbox the same script fools a comparison by mtime and size."""
    who.write("f", "AAAA")
    os.utime(who.workspace / "f", (10**9, 10**9))
    prepare(who, mode)
    shown = who.mkdir(who.top / "shown")
    shutil.copy2(who.workspace / "f", shown / "f")
    subprocess.run(["sh", "-ec", MTIME_GAMES[game].replace("/tmp/f", str(who.top / "was"))], cwd=shown, check=True)
    st = (shown / "f").stat()
    assert (shown / "f").read_bytes() == b"BBBB" and st.st_size == 4
    assert st.st_mtime == 10**9 or "mtime in the" in game

    name = None
    if mode == "sync":
        run(who, mode, MTIME_GAMES[game])
    else:
        name = kept(who, mode, MTIME_GAMES[game])
        assert "f" in {c["path"] for c in who.bawn("review", name, "--json").json()["changes"]}
    if mode in ("overlay", "worktree"):
        apply(who, name)
    assert version(who.workspace / "f") == b"BBBB"
    if mode == "direct":
        assert who.bawn("rollback").rc == 0
        assert version(who.workspace / "f") == b"AAAA" and (who.workspace / "f").stat().st_mtime == 10**9


def test_times_of_the_host_hide_no_change_either(who):
    """A named sync: a backup that was restored on the host has an old mtime and the same size."""
    who.write("f", "AAAA")
    os.utime(who.workspace / "f", (10**9, 10**9))
    run(who, "sync", "true", "--name", "n")
    who.write("f", "CCCC")
    os.utime(who.workspace / "f", (10**9, 10**9))
    assert run(who, "sync", "cat f", "--name", "n").out == b"CCCC"
    assert version(who.workspace / "f") == b"CCCC"


def test_sync_special_files_stay_where_they_are(who):
    who.write("f", "1\n")
    os.mkfifo(who.workspace / "fifo")
    who.own(who.workspace / "fifo")
    r = run(who, "sync", "! ls fifo 2>/dev/null; mkfifo own; rm f; mkfifo f; echo x > x")
    assert (who.workspace / "fifo").is_fifo() and not (who.workspace / "own").exists(), r
    assert version(who.workspace / "f") == b"1\n" and version(who.workspace / "x") == b"x\n", r


# -- worktree ---------------------------------------------------------------------------------------------------------------------

COMMIT = "git config user.name agent; git config user.email a@example.com; "


def test_worktree_has_a_branch_that_the_host_sees(who):
    who.write("f", "1\n")
    who.write("g", "1\n")
    repository(who)
    before = tree(who.workspace, but=[b".git"])
    head = git(who, "rev-parse", "main").strip()
    run(who, "worktree", COMMIT + "echo 2 > f; git commit -qam two; echo 33 > g; echo n > new; git log --format=%s", "--name", "n")
    assert tree(who.workspace, but=[b".git"]) == before
    assert git(who, "rev-parse", "main").strip() == head and git(who, "status", "--short") == ""
    assert git(who, "log", "--format=%s %an", "main..bawn/n") == "two agent\n"
    assert git(who, "show", "bawn/n:f") == "2\n" and git(who, "show", "bawn/n:g") == "1\n"
    assert git(who, "diff", "--name-only", "main", "bawn/n") == "f\n"
    listed = git(who, "worktree", "list", "--porcelain")
    assert "branch refs/heads/bawn/n" in listed and str(state(who) / "runs/n/tree") in listed
    if not (who.is_root and who.workspace.stat().st_uid):  # only root gets into root's state
        assert git(who, "status", "--short", cwd=state(who) / "runs/n/tree") == " M g\n?? new\n"
    assert {c["path"] for c in who.bawn("review", "n", "--json").json()["changes"]} == {"f", "g", "new"}
    git(who, "fsck", "--strict")
    r = run(who, "worktree", "git log --format=%s; cat f g new; git status --short", "--name", "n")
    assert r.out == b"two\none\n2\n33\nn\n M g\n?? new\n"


def test_worktree_apply_and_undo(who):
    fill(who)  # git knows no empty folders
    (who.workspace / "empty-removed").rmdir()
    who.write("empty-removed/.keep", "")
    repository(who)
    after, before = expected(who), tree(who.workspace, but=[b".git"])
    name = kept(who, "worktree", CHANGES)
    assert tree(who.workspace, but=[b".git"]) == before
    apply(who, name)
    now = tree(who.workspace, but=[b".git"])
    assert now == after
    apply(who, "--undo")
    assert tree(who.workspace, but=[b".git"]) == before


def test_worktree_discard_removes_everything(who):
    who.write("f", "1\n")
    repository(who)
    before = tree(who.workspace)
    objects = git(who, "count-objects")
    refs = git(who, "for-each-ref")
    name = kept(who, "worktree", "echo 2 > f; echo n > new")
    assert f"bawn/{name}" in git(who, "branch", "--list", "--all")
    assert who.bawn("discard", name, "--yes").rc == 0
    assert git(who, "for-each-ref") == refs and len(git(who, "worktree", "list").splitlines()) == 1
    assert git(who, "count-objects") == objects and runs(who) == []
    assert git(who, "status", "--short") == "" and tree(who.workspace, but=[b".git"]) == {k: v for k, v in before.items() if not k.startswith(b".git")}
    assert not (who.workspace / ".git/worktrees").exists() or list((who.workspace / ".git/worktrees").iterdir()) == []


def test_worktree_that_was_merged_is_removed(who):
    who.write("f", "1\n")
    repository(who)
    name = kept(who, "worktree", COMMIT + "echo 2 > f; git commit -qam two")
    git(who, "merge", "-q", f"bawn/{name}")
    assert version(who.workspace / "f") == b"2\n"
    run(who, "worktree", "true")
    assert git(who, "for-each-ref", "refs/heads/bawn") == "", "the branch is part of main: nobody needs it any more"
    assert len(git(who, "worktree", "list").splitlines()) == 1 and runs(who) == []


def test_worktree_that_was_merged_but_has_more_stays(who):
    who.write("f", "1\n")
    repository(who)
    name = kept(who, "worktree", COMMIT + "echo 2 > f; git commit -qam two; echo uncommitted > u")
    git(who, "merge", "-q", f"bawn/{name}")
    run(who, "worktree", "true")
    assert name in runs(who) and version(state(who) / "runs" / name / "tree/u") == b"uncommitted\n"


@pytest.mark.parametrize("what", ["no repository", "no commit", "a subfolder"])
def test_worktree_refuses_with_a_reason(who, what):
    who.write("sub/f", "1\n")
    if what != "no repository":
        git(who, "init", "-q")
    if what == "a subfolder":
        git(who, "add", "-A")
        git(who, "commit", "-qm", "one")
    before = tree(who.workspace)
    r = who.bawn("run", "-w", "worktree", "--", "true", cwd=who.workspace / "sub" if what == "a subfolder" else None)
    assert r.rc in (64, 125) and (b"repository" in r.err or b"working tree" in r.err or b"commit" in r.err), r
    assert tree(who.workspace) == before and runs(who) == []


def test_worktree_parallel_runs_do_not_meet(who):
    who.write("f", "1\n")
    repository(who)
    before = tree(who.workspace, but=[b".git"])
    pair = [Paused(who, "worktree", COMMIT + f"echo {n} > f; echo {n} > {n}; git add -A; git commit -qm {n}", "ls >&2; cat f >&2", "--name", n) for n in ("a", "b", "c")]
    for p, n in zip(pair, ("a", "b", "c")):
        assert p.finish().replace(b"bawn: ", b"").find(f"{n}\nf\n{n}\n".encode()) >= 0
    for n in ("a", "b", "c"):
        assert git(who, "show", f"bawn/{n}:f") == f"{n}\n"
        assert git(who, "log", "--format=%s", f"main..bawn/{n}") == f"{n}\n"
        assert git(who, "ls-tree", "--name-only", f"bawn/{n}").split() == sorted([n, "f"])
    assert tree(who.workspace, but=[b".git"]) == before
    git(who, "fsck", "--strict")
    assert who.bawn("discard", "--all", "--yes").rc == 0
    assert git(who, "for-each-ref", "refs/heads/bawn") == ""


def test_parallel_overlays_do_not_meet(who):
    who.write("f", "1\n")
    pair = [Paused(who, "overlay", f"echo {n} > f; echo {n} > {n}", "ls >&2; cat f >&2", "--name", n) for n in ("a", "b")]
    for p, n in zip(pair, ("a", "b")):
        assert f"{n}\nf\n{n}\n".encode() in p.finish()
    assert every(who.workspace) == [b"f"] and version(who.workspace / "f") == b"1\n"
    apply(who, "a")
    r = apply(who, "b", "--json", rc=1)
    assert outcomes(r)["f"] == "conflict", "what came in from the other run counts as the host's"


# -- direct -----------------------------------------------------------------------------------------------------------------------


def test_direct_is_live_on_both_sides(who):
    who.write("f", "1\n")
    p = Paused(who, "direct", "echo 2 > f", "cat g >&2")
    assert version(who.workspace / "f") == b"2\n"
    who.write("g", "host\n")
    assert b"host\n" in p.finish()


def test_direct_rollback_restores_everything(who):
    fill(who)
    after, before, exact = expected(who), tree(who.workspace), tree(who.workspace, times=True)
    run(who, "direct", CHANGES)
    assert tree(who.workspace) == after, "in direct mode changes are live"
    r = who.bawn("rollback", "--dry-run")
    assert r.rc == 0 and tree(who.workspace) == after, r
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert tree(who.workspace) == before
    now = tree(who.workspace, times=True)
    for path, (_, _, _, _, uid, gid, mtime) in exact.items():
        assert now[path][4:6] == (uid, gid), path
        if stat.S_ISREG(int(exact[path][0], 8)):
            assert now[path][6] == mtime, path
    assert now[b"untouched"] == exact[b"untouched"]
    apply(who, "--undo")
    assert tree(who.workspace) == after


def test_direct_rollback_of_a_part(who):
    fill(who)
    before = tree(who.workspace)
    run(who, "direct", CHANGES)
    changed = tree(who.workspace)
    r = who.bawn("rollback", "--only", "text", "--only", "folder-removed/")
    assert r.rc == 0, r
    now = tree(who.workspace)
    restored = {p for p in now if p not in changed or now[p] != changed[p]}
    assert restored == {b"text", b"folder-removed", b"folder-removed/b", b"folder-removed/deep", b"folder-removed/deep/a"}
    assert all(now[p] == before[p] for p in restored)
    assert who.bawn("rollback").rc == 0
    assert tree(who.workspace) == before


def test_direct_rollback_leaves_what_the_user_changed_since(who):
    who.write("f", "1\n")
    who.write("g", "1\n")
    run(who, "direct", "echo 2 > f; echo 2 > g; mkdir d; echo x > d/x")
    ended = json.loads((state(who) / "runs" / runs(who)[0] / "run.json").read_text())
    who.write("f", "mine, and longer\n")
    who.write("d/mine", "mine\n")
    for _ in range(2):  # asked twice, the answer is the same
        r = who.bawn("rollback")
        assert r.rc == 1 and b"f" in r.out, (r, ended)
        assert version(who.workspace / "f") == b"mine, and longer\n" and version(who.workspace / "d/mine") == b"mine\n"
        assert version(who.workspace / "g") == b"1\n"
    r = who.bawn("rollback", "--force")
    assert version(who.workspace / "f") == b"1\n" and version(who.workspace / "d/mine") == b"mine\n", r


def test_direct_rollback_can_be_undone_and_done_again(who):
    who.write("f", "1\n")
    run(who, "direct", "echo 2 > f; echo n > new")
    for _ in range(3):
        r = who.bawn("rollback")
        assert r.rc == 0, r
        assert every(who.workspace) == [b"f"] and version(who.workspace / "f") == b"1\n"
        apply(who, "--undo")
        assert every(who.workspace) == [b"f", b"new"] and version(who.workspace / "f") == b"2\n"


HARD_LINKS = {
    "and the link stays": "ln f l; echo evil >> l",
    "and the link is gone again": "ln f l; echo evil >> l; rm l",
    "and the link took its place": "ln f l; echo evil >> l; mv l f",
    "that was renamed": "ln f l; mv l d/m; echo evil >> d/m",
    "of a descriptor": "python3 -c 'import os; fd = os.open(\"f\", os.O_RDONLY); os.link(f\"/proc/self/fd/{fd}\", \"l\"); open(\"l\", \"a\").write(\"evil\\n\")'",
}


@pytest.mark.parametrize("how", HARD_LINKS)
def test_direct_a_change_through_a_hard_link_is_a_change(who, how):
    """The same file by another name: review has to show it, rollback to take it back."""
    who.write("f", "1\n")
    who.write("d/x", "x\n")
    r = who.bawn("run", "--", "sh", "-c", HARD_LINKS[how])
    if version(who.workspace / "f") == b"1\n":
        return  # refused inside
    assert len(runs(who)) == 1, "something was changed: there must be something to review"
    assert "f" in {c["path"] for c in who.bawn("review", "--json").json()["changes"]}, r
    assert who.bawn("rollback").rc == 0
    assert every(who.workspace) == [b"d", b"d/x", b"f"] and version(who.workspace / "f") == b"1\n"


@pytest.mark.parametrize("what", ["mkfifo f", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"f\")'", "ln -s d f", "mkdir f", "mkdir f; mkfifo f/f"])
def test_direct_rollback_puts_a_file_back_where_something_else_is(who, what):
    who.write("f", "1\n")
    who.write("d/x", "x\n")
    run(who, "direct", f"rm f; {what}")
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert every(who.workspace) == [b"d", b"d/x", b"f"] and version(who.workspace / "f") == b"1\n"


def test_direct_rollback_after_kill_9(who):
    fill(who)
    before, after = tree(who.workspace), expected(who)
    Paused(who, "direct", CHANGES, "true").kill()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    assert tree(who.workspace) == after
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert tree(who.workspace) == before


def test_direct_rollback_has_a_budget_that_is_told(who):
    """workspace.rollback: what is past it is named, never pretended."""
    config = who.home / ".config/bawn/config.json"
    who.write(config, json.dumps({"sandbox": {"workspace": {"rollback": "1m"}}}))
    who.write("big", b"B" * 3_000_000)
    who.write("small", "s\n")
    r = run(who, "direct", "echo 1 > small; echo 1 > big")
    assert b"bawn: " in r.err and b"rollback" in r.err, r
    r = who.bawn("rollback")
    assert r.rc == 1 and b"big" in r.out, r
    assert version(who.workspace / "small") == b"s\n" and version(who.workspace / "big") == b"1\n"


def test_direct_within_the_budget_nothing_is_told(who):
    who.write("big", b"B" * 3_000_000)
    r = run(who, "direct", "echo 1 > big")
    assert b"rollback" not in r.err, r
    assert who.bawn("rollback").rc == 0
    assert version(who.workspace / "big") == b"B" * 3_000_000


def test_direct_old_runs_are_forgotten(who):
    who.write("f", "0\n")
    for i in range(13):
        run(who, "direct", f"echo {i} > f")
    assert 1 < len(runs(who)) <= 11
    assert who.bawn("rollback").rc == 0
    assert version(who.workspace / "f") == b"11\n"
