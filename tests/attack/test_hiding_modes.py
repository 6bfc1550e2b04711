# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 5, 15-17, 28, 31-33: what .sandboxignore hides is not read, measured, moved, run, altered or deleted, in any mode.

Every way to a hidden file is first shown to work on a copy of the same tree without the sandbox.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import HIDDEN, Inside, fill, git  # noqa: E402
from hiding_ways import MODES, REFUSED, SHOWS_THE_HOST, probe, prove, snapshot, tree  # noqa: E402, F401

# Ways to a file that was there at the start


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


# Nothing hidden is deleted or altered


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
