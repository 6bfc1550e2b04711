# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 6, 15-18, 28, 29, 31-33: what .sandboxignore hides stays hidden, in every mode of the workspace; and what of the
user's own files comes in beside the workspace: caches, git identity, volumes, substitutes.

Every way to a hidden file is first shown to work on a copy of the same tree without the sandbox.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import textwrap
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import HIDDEN, PYTHON, Ended, Inside, appear, fill, git, settle  # noqa: E402

REFUSED = 3
MODES = ["direct", "overlay", "sync", "worktree", "ro"]
SHOWS_THE_HOST = ["direct", "overlay", "ro"]  # the host's own folder is below; the others have a copy


# The tree, and the ways to prove something about it

def snapshot(runner, names=HIDDEN):
    """What the host has under the hidden names: content, mode, owner, inode, times."""
    seen = {}
    for name in names:
        path = runner.workspace / name
        st = path.lstat()
        seen[name] = (path.read_bytes(), st.st_mode, st.st_uid, st.st_gid, st.st_ino, st.st_mtime_ns, st.st_nlink)
    return seen


@pytest.fixture
def tree(runner, marker):
    fill(runner, marker)
    return snapshot(runner)


PRELUDE = """
import ctypes, errno, mmap, os, stat, subprocess, sys, time
marker, names = sys.argv[1], sys.argv[2:]
libc = ctypes.CDLL(None, use_errno=True)
def has(data):
    return marker.encode() in (data.encode() if isinstance(data, str) else data)
def each(way):
    "Tries a way on every hidden name; an error is no find."
    for name in names:
        try:
            found = way(name)
        except OSError as e:
            print(name, e)
            continue
        if found:
            return name, found
    return False
def read(path):
    with open(path, "rb") as f:
        return has(f.read())
def attack():
%s
try:
    found = attack()
except OSError as e:
    found = print("refused", e)
print("found", ascii(found))
sys.exit(0 if found else 3)
"""


def probe(body, marker, names=HIDDEN):
    return [PYTHON, "-c", PRELUDE % textwrap.indent(textwrap.dedent(body), "    "), marker, *names]


def control(runner, argv):
    """The same on a copy of the tree, without the sandbox."""
    copy = runner.top / "control"
    subprocess.run(["cp", "-a", runner.workspace, copy], check=True)
    r = runner.run(*argv, cwd=copy)
    shutil.rmtree(copy)
    return r


def prove(runner, mode, body, marker, names=HIDDEN, *options):
    argv = probe(body, marker, names)
    shown = control(runner, argv)
    assert shown.rc == 0, f"the probe does not work even without the sandbox, so it proves nothing:{shown!r}"
    r = runner.bawn("run", "--workspace", mode, *options, "--", *argv)
    assert r.rc == REFUSED, f"{'the attack works inside' if r.rc == 0 else 'the probe did not finish'}:{r!r}"
    assert marker.encode() not in r.out + r.err, r
    return r


# 1. Ways to a file that was there at the start

WAYS = {
    "by name": "return each(read)",
    "by every path to the workspace": """
        here = os.getcwd()
        tops = [here, "/workspace", "/proc/self/cwd", "/proc/thread-self/cwd", "/proc/self/root" + here, "/proc/1/root" + here,
                "/proc/1/cwd", f"/proc/{os.getppid()}/cwd", f"/proc/{os.getppid()}/root" + here, here + "/../" + os.path.basename(here)]
        return [top for top in tops if each(lambda n: read(top + "/" + n))]""",
    "through a link planted in the workspace": """
        def way(name):
            os.symlink(name if "/" not in name else os.path.abspath(name), "planted")
            try:
                return read("planted")
            finally:
                os.unlink("planted")
        return each(way)""",
    "through a link planted in /tmp": """
        import tempfile
        with tempfile.TemporaryDirectory() as d:
            def way(name):
                os.symlink(os.path.abspath(name), d + "/planted-" + str(names.index(name)))
                return read(d + "/planted-" + str(names.index(name)))
            return each(way)""",
    "by a hard link": """
        def way(name):
            os.link(name, "planted")
            return read("planted")
        return each(way)""",
    "by a hard link made from a descriptor": """
        def way(name):
            fd = os.open(name, os.O_PATH)
            if libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, b"planted", 0x400) < 0:  # AT_SYMLINK_FOLLOW
                raise OSError(ctypes.get_errno(), "linkat")
            return read("planted")
        return each(way)""",
    "after moving the folder around it": """
        os.rename("deep", "moved")
        return read("moved/er/server.pem")""",
    "after moving the folder and back": """
        os.rename("deep/er", "er"); os.rename("er", "deep/er")
        return read("deep/er/server.pem")""",
    "by an exchange with a visible file": """
        def way(name):
            if libc.renameat2(-100, name.encode(), -100, b"readme.txt", 2) < 0:
                raise OSError(ctypes.get_errno(), "renameat2")
            return read("readme.txt")
        return each(way)""",
    "by moving it": """
        def way(name):
            os.rename(name, "moved.txt")
            return read("moved.txt")
        return each(way)""",
    "through a descriptor of its folder": """
        def way(name):
            top, base = os.path.split(name)
            d = os.open(top or ".", os.O_RDONLY | os.O_DIRECTORY)
            fd = os.open(base, os.O_RDONLY, dir_fd=d)
            return has(os.read(fd, 4096))
        return each(way)""",
    "by O_PATH and a second open": """
        def way(name):
            fd = os.open(name, os.O_PATH)
            return read(f"/proc/self/fd/{fd}")
        return each(way)""",
    "by mmap": """
        def way(name):
            fd = os.open(name, os.O_RDONLY)
            return has(mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:])
        return each(way)""",
    "after chmod and chown": """
        def way(name):
            for change in (lambda: os.chmod(name, 0o777), lambda: os.chown(name, os.getuid(), os.getgid())):
                try: change()
                except OSError as e: print(e)
            return read(name)
        return each(way)""",
    "by running it": """
        def way(name):
            return has(subprocess.run(["./run.key"], capture_output=True).stdout)
        return each(way)""",
    "as an interpreter": """
        import tempfile
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/script", "w") as f:
                f.write("#!" + os.path.abspath("run.key") + "\\n")
            os.chmod(d + "/script", 0o755)
            return each(lambda n: has(subprocess.run([d + "/script"], capture_output=True).stdout))""",
    "by its size": """
        want = len(marker) + 1
        def way(name):
            st, ln = os.stat(name), os.lstat(name)
            return want in (st.st_size, ln.st_size) or st.st_blocks
        return each(way)""",
    "by the size in a listing": """
        out = subprocess.run(["find", ".", "-path", "./.git", "-prune", "-o", "-type", "f", "-size", f"{len(marker) + 1}c", "-print"],
                             capture_output=True).stdout
        return out.count(b"\\n") or False""",
    "by seeking to its end": """
        def way(name):
            fd = os.open(name, os.O_RDONLY)
            return os.lseek(fd, 0, os.SEEK_END) > 0
        return each(way)""",
    "by listing the hidden folder": "return each(lambda n: [x for x in os.listdir('.aws') if x == 'credentials'])",
    "by walking into the hidden folder": """
        os.chdir(".aws") if os.access(".aws", os.X_OK) else sys.exit(3)
        return read("credentials")""",
    "by its extended attributes": "return each(lambda n: has(os.getxattr(n, 'user.note')))",
    "by git's object store": """
        def way(name):
            subprocess.run(["git", "add", "-f", "--", name], capture_output=True)
            return has(subprocess.run(["git", "show", ":" + name], capture_output=True).stdout)
        return each(way)""",
    "by git stash": """
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=b", "stash", "-a"], capture_output=True)
        return has(subprocess.run(["git", "stash", "show", "-p", "--include-untracked"], capture_output=True).stdout)""",
    "by git grep": "return has(subprocess.run(['git', 'grep', '--no-index', '-h', marker], capture_output=True).stdout)",
    "by an archive of everything": "return has(subprocess.run(['tar', 'cf', '-', '.'], capture_output=True).stdout)",
    "by a copy of everything": """
        import tempfile
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["cp", "-a", ".", d + "/all"], capture_output=True)
            return has(subprocess.run(["grep", "-rh", marker, d], capture_output=True).stdout)""",
    "by a race of opens while folders move": """
        child = os.fork()
        if child == 0:
            for i in range(400):
                for a, b in (("deep/er", "er"), ("er", "deep/er")):
                    try: os.rename(a, b)
                    except OSError: pass
            os._exit(0)
        found = False
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            for path in ("deep/er/server.pem", "er/server.pem"):
                try: found = found or read(path)
                except OSError: pass
        return found or each(read)""",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_to_a_hidden_file(runner, marker, tree, mode, way):
    """Claim: in no mode can a hidden file be read, measured, moved or run, and none changes on the host (5, 15-17, 28, 33)."""
    for name in HIDDEN:
        os.setxattr(runner.workspace / name, "user.note", marker.encode())
    before = snapshot(runner)
    prove(runner, mode, WAYS[way], marker)
    moved = runner.workspace / "moved"
    if moved.exists() and not (runner.workspace / "deep").exists():  # direct: it may be moved, with the cover on what is in it
        moved.rename(runner.workspace / "deep")
    assert snapshot(runner) == before


@pytest.mark.parametrize("mode", MODES)
def test_no_file_anywhere_inside_holds_it(runner, marker, tree, mode):
    """Claim: the layers of an overlay, copies, caches, the run's folder: nowhere is there a file that holds it (32)."""
    body = """
        tops = ["."] if os.path.exists("../control") else ["/"]
        skip = {"/proc", "/sys", "/usr", "/lib", "/lib64", "/dev", "/opt", "/etc"}
        looked = 0
        for top in tops:
            for folder, dirs, files in os.walk(top):
                dirs[:] = [d for d in dirs if os.path.join(folder, d) not in skip]
                for f in files:
                    try:
                        if read(os.path.join(folder, f)):
                            return folder, f
                    except OSError:
                        pass
                    looked += 1
        print("looked at", looked)
        return False"""
    r = prove(runner, mode, body, marker)
    assert int(r.out.split(b"looked at ")[1].split()[0]) > 10, r


@pytest.mark.parametrize("mode", MODES)
def test_the_layers_cannot_be_reached(runner, marker, tree, mode):
    """Claim: no path that mountinfo names leads to the host's folder, to upper, work or tree (32); it tells paths, no more."""
    body = """
        found = []
        for line in open("/proc/self/mountinfo"):
            fields = line.split()
            paths = [fields[3], fields[4]] + [p.split("=")[-1] for p in fields[-1].split(",")]
            for p in [q for part in paths for q in part.split(":") if "/" in q]:
                for base in (p, "/" + p, "/proc/self/root/" + p):
                    for sub in ("", "/upper", "/work", "/tree", "/..", "/../upper"):
                        try: found += [base + sub + "/" + n for n in names if read(base + sub + "/" + n)]
                        except OSError: pass
        if os.path.exists("../control"):
            found += each(read) or []
        return found"""
    prove(runner, mode, body, marker)


def test_a_file_handle_opens_nothing(root_runner, marker):
    """Claim: name_to_handle_at may name a file, open_by_handle_at does not exist (33). Only root can do it outside."""
    fill(root_runner, marker)
    body = """
        class Handle(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_char * 128)]
        def way(name):
            # the handle of the visible neighbour, and every inode number near it
            h, mount = Handle(bytes=128), ctypes.c_int()
            if libc.name_to_handle_at(-100, name.encode(), ctypes.byref(h), ctypes.byref(mount), 0) < 0:
                raise OSError(ctypes.get_errno(), "name_to_handle_at")
            top = os.open(".", os.O_RDONLY)
            fd = libc.open_by_handle_at(top, ctypes.byref(h), os.O_RDONLY)
            if fd < 0:
                raise OSError(ctypes.get_errno(), "open_by_handle_at")
            return has(os.read(fd, 4096))
        return each(way)"""
    for mode in MODES:
        prove(root_runner, mode, body, marker)


def test_a_name_that_was_re_included_is_seen(runner, marker, tree):
    """The ways above can find something: with a rule that shows the files, the plain one does in every mode that has them."""
    runner.write(".sandboxignore", "nothing\n")
    for mode in SHOWS_THE_HOST + ["sync"]:
        r = runner.bawn("run", "--workspace", mode, "--", *probe(WAYS["by name"], marker))
        assert r.rc == 0, r


@pytest.mark.parametrize("mode", MODES)
def test_a_tracked_hidden_file_is_not_checked_out(runner, marker, mode):
    """Claim: that git knows a file does not put it there. (Its content is in git's objects, for all who have the repository.)"""
    runner.write(".env", marker + "\n")
    fill(runner, marker)
    assert b".env" in git(runner, "ls-files")
    before = snapshot(runner)
    prove(runner, mode, WAYS["by name"], marker)
    assert snapshot(runner) == before


# 2. What appears while the command runs

LATE = ["late.pem", "src/late.pem", "new/er/late.pem", "late.aws/.aws/credentials", ".env"]


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
@pytest.mark.parametrize("name", LATE)
def test_a_file_that_appears_is_covered(runner, marker, tree, mode, name, record_property):
    """Claim: a file that the host makes under a hidden name, in any folder, also over a hidden one as editors do, is covered
    as soon as the kernel tells, and stays so. How long that took is written down, not judged."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        parent = (runner.workspace / name).parent
        for folder in [p for p in reversed(parent.parents) if not p.exists()] + [parent]:
            if not folder.exists():
                runner.mkdir(folder)
        if not name.startswith("late.aws"):
            # What is not hidden does appear: without hiding, so would the other one.
            beside = os.path.join(os.path.dirname(name), "late.txt")
            appear(runner, beside, marker + "\n")
            assert inside.until(f"read({beside!r})", lambda got: got == marker + "\n") == marker + "\n"
        appear(runner, name, marker + "\n")
        begun = time.monotonic()
        got = inside.until(f"read({name!r})", lambda answer: marker not in answer)
        record_property("covered_after_ms", round((time.monotonic() - begun) * 1000, 1))
        assert got in ("EACCES", "ENOENT"), got
        for _ in range(50):
            assert inside.ask(f"read({name!r})") in ("EACCES", "ENOENT")
        assert inside.ask(f"os.stat({name!r}).st_size") in ("EACCES", "ENOENT", 0)
    assert (runner.workspace / name).read_text() == marker + "\n"


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_file_that_is_saved_again_and_again_is_covered_each_time(runner, marker, tree, mode):
    """Claim: a rename over the hidden file takes the cover off; a new one comes, as often as it happens."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        for i in range(30):
            appear(runner, ".env", f"{marker} {i}\n")
            assert inside.until("read('.env')", lambda answer: marker not in answer) in ("EACCES", "ENOENT")


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_command_that_ends_while_bawn_looks_for_latecomers(runner, marker, tree, mode):
    """Claim: looking for what appears, which begins a little after the start, never costs a run its end: its status is its own."""
    for i in range(40):
        r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", f"sleep 0.0{40 + i % 20}; exit 7")
        assert r.rc == 7, (i, r)


@pytest.mark.parametrize("mode", ["sync", "worktree"])
@pytest.mark.parametrize("name", LATE)
def test_a_copy_never_shows_what_appears(runner, marker, tree, mode, name):
    """Claim: sync and worktree never show it, not for an instant."""
    watch = f"""[n for n in range(3000) if (lambda: [True for _ in [0] if os.path.exists({name!r}) and 'bawn-secret' in read({name!r})])()]"""
    with Inside(runner, mode) as inside:
        inside.tell(watch)
        if not (runner.workspace / name).parent.exists():
            (runner.workspace / name).parent.mkdir(parents=True)
        for i in range(50):
            appear(runner, name, f"{marker} {i}\n")
        assert inside.answer() == []
        assert inside.ask(f"read({name!r})") == "ENOENT"
    assert (runner.workspace / name).read_text() == f"{marker} 49\n"


@pytest.mark.parametrize("mode", ["sync", "overlay"])
def test_a_named_run_that_goes_on_does_not_get_it(runner, marker, tree, mode):
    """Claim: what came between two runs of one name is hidden in the second (31)."""
    assert runner.bawn("run", "--workspace", mode, "--name", "n", "--", "touch", "mine").rc == 0
    runner.write("src/late.pem", marker)
    runner.write("newer/late.pem", marker)
    runner.write("newer/plain", "plain")
    r = runner.bawn("run", "--workspace", mode, "--name", "n", "--", "sh", "-c", "cat newer/plain; cat */late.pem")
    assert r.out == b"plain", r


def test_a_name_that_was_asked_for_before_it_appears(root_runner, marker):
    """Claim: overlayfs remembers that a name was absent, so it cannot be covered when it appears; when the kernel forgets, which
    the command can bring about by using up its memory, it must not be seen either."""
    runner = root_runner
    fill(runner, marker)
    forget = "sum(os.path.exists('x%d-' % k + 'y' * 200) for k in range(300000))"
    with Inside(runner, "overlay", "--memory", "96m") as inside:
        settle(runner, inside)
        assert inside.ask("read('src/late.pem')") == "ENOENT"
        appear(runner, "src/late.pem", marker + "\n")
        appear(runner, "src/plain.txt", "plain")
        assert inside.until("read('src/plain.txt')", lambda got: got == "plain") == "plain"
        settle(runner, inside)
        assert inside.ask(forget) == 0
        assert inside.ask("read('src/late.pem')") in ("ENOENT", "EACCES")
    if b"without a cgroup" in inside.stderr:
        pytest.skip("needs a cgroup that can be limited: without it nothing is forgotten")


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_rules_that_were_not_accepted_show_no_latecomer(runner, marker, tree, mode):
    """Claim: a path is hidden if the accepted or the present rules hide it (6): also one that appears later."""
    assert runner.bawn("run", "--", "true").rc == 0  # accepts the defaults
    runner.write(".sandboxignore", "*.key\n!.env\n!*.pem\n")
    with Inside(runner, mode) as inside:
        assert inside.ask("read('.env')") in ("EACCES", "ENOENT")
        settle(runner, inside)
        appear(runner, "src/.env", marker + "\n")
        settle(runner, inside)
        assert inside.ask("read('src/.env')") in ("EACCES", "ENOENT")


def test_using_up_the_kernel_s_watches_shows_nothing(user_runner, marker):
    """Claim: the command cannot blind Bawn by taking all inotify watches of the user: what cannot be watched is not shown."""
    runner = user_runner
    fill(runner, marker)
    limited = ["unshare", "-Ur", "sh", "-c", 'echo 200 >/proc/sys/user/max_inotify_watches && uid=$1 gid=$2 && shift 2 && '
               'exec unshare -U --map-user="$uid" --map-group="$gid" "$@"', "sh", str(runner.user.pw_uid), str(runner.user.pw_gid)]
    if runner.run(*limited, "true").rc != 0:
        pytest.skip("needs a kernel with nested user namespaces")
    take = """[__import__('ctypes').CDLL(None).inotify_add_watch(fd, f.encode(), 2)
        for fd in [__import__('ctypes').CDLL(None).inotify_init1(0)] for i in range(400) for f in ['/tmp/w%d' % i] if open(f, 'w')][-1]"""
    with Inside(runner, "direct", wrap=limited) as inside:
        settle(runner, inside)
        assert inside.ask(take.replace("\n", " ")) == -1  # all are taken
        with contextlib.suppress(Ended, BrokenPipeError):  # that the run ends would be right, too
            runner.mkdir(runner.workspace / "brandnew")
            appear(runner, "brandnew/plain.txt", "plain")
            inside.until("read('brandnew/plain.txt')", lambda got: got in ("plain", "EACCES", "ENOENT"))
            settle(runner, inside)  # Bawn has seen the folder
            appear(runner, "brandnew/late.pem", marker + "\n")
            settle(runner, inside)
            assert marker not in inside.ask("read('brandnew/late.pem')")


# 3. The rules themselves

@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("then", MODES)
def test_rules_made_inside_change_neither_this_run_nor_the_next(runner, marker, tree, mode, then):
    """Claim: .sandboxignore written inside has no effect until `bawn init --accept`, in no pair of modes (6)."""
    write = """
        for path in (".sandboxignore", "deep/er/.sandboxignore", "deep/.sandboxignore", ".aws/.sandboxignore"):
            try:
                with open(path, "w") as f: f.write("!*\\n!.*\\n!.env\\n!*.pem\\n!*.key\\n!.aws/\\n")
            except OSError as e: print(e)
        return each(read)"""
    shown = control(runner, probe("return each(read)", marker))
    assert shown.rc == 0, shown
    first = runner.bawn("run", "--workspace", mode, "--", *probe(write, marker))
    assert first.rc == REFUSED, first
    second = runner.bawn("run", "--workspace", then, "--", *probe("return each(read)", marker))
    assert second.rc == REFUSED, second
    assert not (runner.workspace / ".sandboxignore").exists(), "a rule file must wait for a review"
    assert snapshot(runner) == tree


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
def test_rules_that_were_applied_wait_to_be_accepted(runner, marker, tree, mode):
    """Claim: even when the change was applied, nothing is shown before `bawn init --accept`; then it is."""
    assert runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "printf '!.env\\n' >.sandboxignore").rc == 0
    review = runner.bawn("review")
    assert review.rc == 1 and b".sandboxignore" in review.out, review
    applied = runner.bawn("apply", "--yes")
    if applied.rc != 0:
        applied = runner.bawn("apply", "--yes", "--risky")
    assert (runner.workspace / ".sandboxignore").exists(), applied
    r = runner.bawn("run", "--", "cat", ".env")
    assert r.rc == 1 and marker.encode() not in r.out and b"bawn init --accept" in r.err, r
    assert runner.bawn("init", "--accept").rc == 0
    assert runner.bawn("run", "--", "cat", ".env").out == marker.encode() + b"\n"


# 4. Nothing hidden is deleted or altered

DESTROY = {
    "rm -rf": "rm -rf ./* ./.[!.]* ./..?* 2>/dev/null; true",
    "find -delete": "find . -mindepth 1 -delete 2>/dev/null; true",
    "git clean": "git clean -fdxq 2>/dev/null; git clean -fdxq -e nothing 2>/dev/null; true",
    "git stash": "git -c user.name=a -c user.email=b stash -aq 2>/dev/null; true",
    "truncate": "find . -type f -exec truncate -s 0 {} + 2>/dev/null; true",
    "overwrite": "find . -path ./.git -prune -o -type f -print0 | xargs -0 -n1 sh -c 'echo x >\"$0\"' 2>/dev/null; "
    "for f in .env deep/er/server.pem run.key; do echo mine >$f; done 2>/dev/null; true",
    "chmod": "chmod -R 777 . 2>/dev/null; touch -d @0 .env run.key 2>/dev/null; true",
    "moved away": "mkdir ~/away; mv deep ~/away; mv .aws ~/away; mv .env run.key ~/away; rm -rf ~/away; true",
    "a file in place of the folder": "rm -rf deep .aws; echo x >deep; echo x >.aws; true",
    "a link in place of the folder": "rm -rf deep .aws; ln -s /tmp deep; ln -s src .aws; true",
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", DESTROY)
def test_destroying_everything_leaves_hidden_files_alone(runner, marker, tree, mode, how):
    """Claim: hidden files are never deleted or altered on the host: not by the run, not when its changes come back (31)."""
    copy = runner.top / "control"
    subprocess.run(["cp", "-a", runner.workspace, copy], check=True)
    runner.run("sh", "-c", DESTROY[how], cwd=copy)
    hurt = [n for n in HIDDEN if not os.path.isfile(copy / n) or (copy / n).lstat().st_mtime_ns != tree[n][5]
            or (copy / n).lstat().st_mode != tree[n][1]]
    shutil.rmtree(copy)
    assert hurt, "the command destroys nothing even without the sandbox"

    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", DESTROY[how])
    assert r.rc == 0, r
    assert snapshot(runner) == tree, r
    if mode in ("overlay", "sync", "worktree"):
        applied = runner.bawn("apply", "--yes")
        assert snapshot(runner) == tree, applied
    runner.bawn("rollback", "--yes")
    assert snapshot(runner) == tree
    runner.bawn("discard", "--yes")
    assert snapshot(runner) == tree


@pytest.mark.parametrize("mode", MODES)
def test_killed_in_the_middle_of_destroying(runner, marker, tree, mode):
    """Claim: kill -9 of Bawn while the command deletes loses nothing hidden, and the next run is as good as the first."""
    for i in range(300):
        runner.write(f"many/{i % 7}/f{i}", "x")
        if i % 10 == 0:
            runner.write(f"many/{i % 7}/k{i}.pem", marker)
    git(runner, "add", "-A", "many/*/f*")
    git(runner, "commit", "-q", "-m", "many")
    names = HIDDEN + [f"many/{i % 7}/k{i}.pem" for i in range(0, 300, 10)]
    before = snapshot(runner, names)
    destroy = "echo go; while :; do rm -rf ./* ./.[!.]* 2>/dev/null; mkdir -p deep/er; echo x >deep/er/x; done"
    for after in (0, 0.02, 0.15):
        proc = runner.popen(runner.path, "run", "--workspace", mode, "--", "sh", "-c", destroy,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert proc.stdout.readline() == b"go\n"
        time.sleep(after)  # not waited for: any moment will do
        proc.kill()
        proc.communicate()
        assert snapshot(runner, names) == before
        if not (runner.workspace / ".git").exists() or mode == "direct":
            break  # direct: it may delete what is visible, and did
    r = runner.bawn("run", "--workspace", "overlay", "--", *probe("return each(read)", marker, names))
    assert r.rc == REFUSED, r
    assert snapshot(runner, names) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_hidden_name_made_inside_stays_inside(runner, marker, tree, mode):
    """Claim: a file made inside under a hidden name never gets to the host; direct and ro refuse it."""
    make = """[subprocess.run(["sh", "-c", "mkdir -p .ssh made; echo mine >made/new.pem; echo mine >.env; echo mine >.ssh/id"]).returncode,
        [os.path.exists(p) and os.access(p, os.R_OK) and read(p) for p in ("made/new.pem", ".env", ".ssh/id")]][1]"""
    with Inside(runner, mode) as inside:
        got = inside.ask(make.replace("\n", " "))
    assert got == ([False] * 3 if mode in ("direct", "ro") else ["mine\n"] * 3)
    for verb in ("apply", "rollback", "discard"):
        made = [str(p) for p in ("made/new.pem", ".ssh/id") if (runner.workspace / p).exists()]
        assert made == [] and snapshot(runner) == tree, verb
        runner.bawn(verb, "--yes")
    assert not (runner.workspace / "made/new.pem").exists() and snapshot(runner) == tree


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_a_visible_name_moved_to_a_hidden_one_and_back(runner, marker, tree, mode):
    """Claim: a detour over a hidden name brings nothing hidden out and puts nothing over it."""
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c",
                    "mv readme.txt .env && cp .env copy.txt && mv .env back.txt && mkdir .aws && mv back.txt .aws/credentials && "
                    "cp .aws/credentials back.txt && cat back.txt copy.txt")
    assert r.rc == 0 and r.out == b"visible\nvisible\n", r
    runner.bawn("apply", "--yes")
    assert snapshot(runner) == tree
    assert (runner.workspace / "back.txt").read_text() == "visible\n"


# 5. A file shown in another one's place

def configure(runner, value, path=".config/bawn/config.json", top=None):
    return runner.write((top or runner.home) / path, json.dumps({"sandbox": {"workspace": value}}))


@pytest.fixture
def substituted(runner, marker, tree):
    runner.write(".env.sandbox", "SUBSTITUTE\n")
    configure(runner, {"substitute": {".env": ".env.sandbox"}})
    return {**snapshot(runner), ".env.sandbox": None}


@pytest.mark.parametrize("mode", MODES)
def test_a_substitute_is_shown_and_stays(runner, marker, substituted, mode):
    """Claim: workspace.substitute shows the other file, as long as the run lasts, and never under its own name."""
    with Inside(runner, mode) as inside:
        assert inside.ask("read('.env')") == "SUBSTITUTE\n"
        assert inside.ask("read('.env.sandbox')") in ("ENOENT", "EACCES")
        if mode in SHOWS_THE_HOST:
            settle(runner, inside)
        assert inside.ask("read('.env')") == "SUBSTITUTE\n"
        assert inside.ask("read('.env.sandbox')") in ("ENOENT", "EACCES")
    assert (runner.workspace / ".env").read_text() == marker + "\n"
    assert (runner.workspace / ".env.sandbox").read_text() == "SUBSTITUTE\n"


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_substitute_does_not_let_the_real_file_through(runner, marker, substituted, mode):
    """Claim: when an editor saves the hidden file, which takes off what was laid over it, the new one is not shown either."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        for i in range(10):
            appear(runner, ".env", f"{marker} {i}\n")
            got = inside.until("read('.env')", lambda answer: marker not in answer)
            assert got in ("SUBSTITUTE\n", "EACCES", "ENOENT"), got
        settle(runner, inside)
        assert inside.ask("read('.env')") in ("SUBSTITUTE\n", "EACCES", "ENOENT")


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_a_mount_on_a_hidden_name_stays(runner, tree, mode):
    """Claim: what the user asked for by name is not hidden by a pattern, at the start or later."""
    shown = runner.write(runner.home / "shown", "SHOWN\n")
    with Inside(runner, mode, "--mount", f"{shown}:{runner.workspace}/.env") as inside:
        assert inside.ask("read('.env')") == "SHOWN\n"
        settle(runner, inside)
        assert inside.ask("read('.env')") == "SHOWN\n"


@pytest.mark.parametrize("mode", MODES)
def test_writing_to_a_substitute_reaches_neither_file(runner, marker, substituted, mode):
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo evil >.env; echo evil >>.env; rm -f .env; echo evil >.env; true")
    assert r.rc == 0, r
    runner.bawn("apply", "--yes")
    assert snapshot(runner) == {k: v for k, v in substituted.items() if v}
    assert (runner.workspace / ".env.sandbox").read_text() == "SUBSTITUTE\n"


@pytest.mark.parametrize("mode", MODES)
def test_a_substitute_for_a_visible_file_never_replaces_it(runner, tree, mode):
    """Claim: what is shown in place of a file that is not hidden is not taken for a change of the run's."""
    runner.write("alt.txt", "OTHER\n")
    configure(runner, {"substitute": {"readme.txt": "alt.txt"}})
    r = runner.bawn("run", "--workspace", mode, "--", "cat", "readme.txt")
    assert r.out == b"OTHER\n" or r.rc == 64, r
    assert (runner.workspace / "readme.txt").read_text() == "visible\n", r


@pytest.mark.parametrize("mode", MODES)
def test_a_project_cannot_choose_a_substitute(runner, marker, tree, mode):
    """Claim: {"readme.txt": ".env"} of a project that is not trusted shows nothing hidden (6)."""
    configure(runner, {"substitute": {"readme.txt": ".env", "src/a.py": "deep/er/server.pem"}}, ".bawn/config.json", runner.workspace)
    r = runner.bawn("run", "--workspace", mode, "--", "cat", "readme.txt", "src/a.py")
    assert (r.rc, r.out) == (0, b"visible\npass\n"), r
    if os.access(runner.workspace / ".bawn/config.json", os.R_OK):
        trusted = runner.bawn("trust", "--yes")
        if trusted.rc == 0:  # the same by the user's word works, so the setting is read at all
            assert marker.encode() in runner.bawn("run", "--workspace", mode, "--", "cat", "readme.txt").out


PLANTS = {
    "a FIFO": "mkfifo .env",
    "a link out": "ln -s /etc/passwd .env",
    "a link to a visible file": "ln -s readme.txt .env",
    "a hard link to a visible file": "ln readme.txt .env",
    "a folder": "mkdir .env",
    "nothing": ":",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_what_a_run_left_in_the_substitute_s_place_is_no_trap(runner, marker, substituted, plant):
    """Claim: the next run of that name shows the substitute, or says why not: it neither hangs nor writes elsewhere (30)."""
    first = runner.bawn("run", "--workspace", "sync", "--name", "n", "--", "sh", "-c", f"rm -f .env; {PLANTS[plant]}")
    assert first.rc == 0, first
    r = runner.run("timeout", "-s", "KILL", "30", runner.path, "run", "--workspace", "sync", "--name", "n", "--", "cat", ".env", "readme.txt")
    assert (r.rc == 0 and r.out == b"SUBSTITUTE\nvisible\n") or (r.rc == 125 and b".env" in r.err), r
    assert (runner.workspace / "readme.txt").read_text() == "visible\n"
    assert snapshot(runner) == {k: v for k, v in substituted.items() if v}


# 6. Many

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


# 7. Bad input

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


# 8. Beside the workspace: caches, git identity, volumes

CACHES = [".npm", ".cache/pip", ".cache/uv", ".cargo/registry", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".local/share/pnpm"]


def other_project(runner):
    other = runner.mkdir(runner.top / "other")
    git(runner, "init", "-q", ".", cwd=other)
    runner.write(other / "readme.txt", "x")
    git(runner, "add", "-A", cwd=other)
    git(runner, "commit", "-q", "-m", "x", cwd=other)
    return other


@pytest.mark.parametrize("mode", MODES)
def test_caches_belong_to_the_project_s_sandboxes(runner, marker, tree, mode):
    """Claim: package caches last from run to run of one project, in all modes; neither another project nor the host sees them,
    and the host's own are never there (90)."""
    for cache in CACHES:
        runner.write(runner.home / cache / "host", marker)
    each = "for c in " + " ".join(CACHES) + "; do "
    look = ["sh", "-c", each + 'ls -A ~/$c/; cat ~/$c/host ~/$c/mine; done 2>&1']
    write = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", each + "mkdir -p ~/$c && echo cached >~/$c/mine || exit 1; done")
    assert write.rc == 0, write
    for then in ("direct", mode):
        again = runner.bawn("run", "--workspace", then, "--", *look)
        assert again.out.count(b"cached\n") == len(CACHES) and marker.encode() not in again.out, again
    elsewhere = runner.run(runner.path, "run", "--workspace", mode, "--", *look, cwd=other_project(runner))
    assert b"cached" not in elsewhere.out and marker.encode() not in elsewhere.out, elsewhere
    for cache in CACHES:
        assert os.listdir(runner.home / cache) == ["host"]


def test_caches_can_be_turned_off(runner, tree):
    runner.write(runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"mounts": {"persist_caches": False}}}))
    assert runner.bawn("run", "--", "sh", "-c", "mkdir -p ~/.npm && echo x >~/.npm/mine").rc == 0
    assert runner.bawn("run", "--", "sh", "-c", "cat ~/.npm/mine").rc == 1


def test_a_cache_is_no_way_out(runner, marker, tree, secret):
    """Claim: links and odd things that one run leaves in a cache lead the next one, and Bawn itself, nowhere."""
    plant = f"ln -s {secret} ~/.npm/link; rm -rf ~/.cache/npm 2>/dev/null; ln -s {secret.parent} ~/.cache/npm; mkfifo ~/.cache/fifo; true"
    assert runner.bawn("run", "--", "sh", "-c", plant).rc == 0
    r = runner.bawn("run", "--", "sh", "-c", "cat ~/.npm/link ~/.npm/id_ed25519; ls ~/.npm/")
    assert r.rc not in (0, 64, 125) and marker.encode() not in r.out, r
    assert secret.read_text() == marker + "\n"


@pytest.fixture
def gitconfig(runner, marker):
    runner.write(runner.home / "more.inc", f"[http]\n\textraHeader = X: {marker}-included\n[user]\n\tsigningkey = {marker}\n")
    runner.write(runner.home / ".git-credentials", f"https://me:{marker}@example.com\n", 0o600)
    runner.write(runner.home / ".config/git/credentials", f"https://me:{marker}@example.com\n", 0o600)
    runner.write(runner.home / ".config/git/config", f"[user]\n\temail = me@example.com\n[http \"https://a\"]\n\tproxy = http://u:{marker}@p\n")
    return runner.write(runner.home / ".gitconfig", f"""[user]
\tname = Me Myself
[credential]
\thelper = "!echo password={marker}"
[credential "https://example.com"]
\tusername = {marker}
[http]
\textraHeader = Authorization: {marker}
[http "https://example.com"]
\textraHeader = Authorization: {marker}
[url "https://me:{marker}@example.com/"]
\tinsteadOf = https://example.com/
[include]
\tpath = more.inc
[includeIf "gitdir:/"]
\tpath = ~/more.inc
[core]
\tsshCommand = ssh -i {marker}
\taskPass = /bin/{marker}
[alias]
\tx = "!echo {marker}"
[sendemail]
\tsmtpPass = {marker}
[remote "o"]
\turl = https://{marker}@example.com
""")


@pytest.mark.parametrize("mode", MODES)
def test_the_git_identity_comes_without_credentials(runner, marker, tree, gitconfig, mode):
    """Claim: git knows the user's name inside and none of his credentials, by whatever key or file (75)."""
    ask = ("git config user.name; git config user.email; git config --list --show-origin; git config --global --list --includes; "
           "cat ~/.gitconfig ~/.git-credentials ~/.config/git/config ~/.config/git/credentials ~/more.inc /run/bawn/gitconfig; "
           "printf 'protocol=https\\nhost=example.com\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill; true")
    shown = runner.run("sh", "-c", ask)
    assert shown.out.count(marker.encode()) > 10, shown
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", ask)
    assert r.rc == 0 and r.out.startswith(b"Me Myself\nme@example.com\n"), r
    assert marker.encode() not in r.out + r.err, r


@pytest.mark.parametrize("mode", MODES)
def test_the_git_identity_is_read_only(runner, marker, tree, gitconfig, mode):
    """Claim: what a run does to ~/.gitconfig is neither on the host nor in the next run."""
    before = gitconfig.read_bytes()
    evil = "git config --global core.pager evil; echo '[core] pager = evil' >>~/.gitconfig; chmod 777 /run/bawn/gitconfig; " \
           "echo '[core] pager = evil' >>/run/bawn/gitconfig; rm -f ~/.gitconfig; echo '[core]\n pager = evil' >~/.gitconfig; true"
    assert runner.bawn("run", "--workspace", mode, "--", "sh", "-c", evil).rc == 0
    assert gitconfig.read_bytes() == before
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "git config core.pager; git config user.name")
    assert r.out == b"Me Myself\n", r


@pytest.mark.parametrize("mode", MODES)
def test_a_volume_is_the_sandbox_s_own(runner, marker, tree, mode):
    """Claim: workspace.volumes: what the run installs there lasts, the host's own folder of that name is neither shown nor touched."""
    configure(runner, {"volumes": ["node_modules", "src/.venv"]})
    for _ in range(2):
        r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo x >>node_modules/mine && echo x >>src/.venv/mine && cat */mine src/.venv/mine")
        assert r.rc == 0, r
    assert r.out == b"x\nx\nx\nx\n", r
    assert not (runner.workspace / "node_modules").exists() and not (runner.workspace / "src/.venv").exists()
    assert b"node_modules" not in git(runner, "status", "--short") and b".venv" not in git(runner, "status", "--short")

    runner.write("node_modules/host", marker)
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "cat node_modules/host; cat node_modules/mine; rm -rf node_modules/*")
    assert r.out == b"x\nx\n", r
    runner.bawn("apply", "--yes")
    assert os.listdir(runner.workspace / "node_modules") == ["host"]
    other = runner.run(runner.path, "run", "--workspace", mode, "--", "sh", "-c", "cat node_modules/mine src/.venv/mine", cwd=other_project(runner))
    assert b"x" not in other.out, other


@pytest.mark.parametrize("volume", ["../x", "/etc", ".", "..", "a//b", "a/../b", "./a", ".git", "", "a/"])
def test_a_volume_that_is_no_folder_below_is_refused(runner, tree, volume):
    """Claim: a bad volume is a clear error in every mode, before anything is made."""
    configure(runner, {"volumes": [volume]})
    before = sorted(os.listdir(runner.workspace))
    for mode in MODES:
        r = runner.bawn("run", "--workspace", mode, "--", "true")
        assert r.rc in (64, 125) and b"volumes" in r.err, (mode, r)
        assert sorted(os.listdir(runner.workspace)) == before, mode


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_the_place_of_a_volume_goes_again_with_its_parents(runner, tree, mode):
    """Claim: no folder is left on the host that was made only to mount on."""
    configure(runner, {"volumes": ["web/app/node_modules"]})
    assert runner.bawn("run", "--workspace", mode, "--", "touch", "web/app/node_modules/x").rc == 0
    assert not (runner.workspace / "web").exists()


@pytest.mark.parametrize("mode", MODES)
def test_a_volume_does_not_follow_a_link(runner, marker, tree, secret, mode):
    """Claim: a link in the volume's place leads neither the mount nor the making of it out of the workspace (15)."""
    configure(runner, {"volumes": ["node_modules"]})
    (runner.workspace / "node_modules").symlink_to(secret.parent)
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo x >node_modules/planted; cat node_modules/id_ed25519")
    assert r.rc != 0 and marker.encode() not in r.out, r
    assert os.listdir(secret.parent) == ["id_ed25519"] and secret.read_text() == marker + "\n"


def test_a_project_cannot_choose_volumes(runner, marker, tree):
    configure(runner, {"volumes": ["src"]}, ".bawn/config.json", runner.workspace)
    r = runner.bawn("run", "--", "cat", "src/a.py")
    assert (r.rc, r.out) == (0, b"pass\n"), r
