# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 18 (and 16, 30): what comes out of a sandbox never lands, deletes or changes a mode outside of the workspace.

A decoy stands beside the workspace, and everything about it (bytes, modes, links, times of change) is compared afterwards. That the
attacks work is shown on the obvious way of copying and deleting a tree by path names, on copies of the same trees.
"""

import contextlib
import os
import pathlib
import pwd
import random
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

WAYS = ["stop", "skip", "keep-both", "overwrite"]
ROUNDS = 20
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]


@pytest.fixture(params=["root", "user", "root for a user"])
def who(request, bawn):
    tools = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))
    with tools.make_runner("user" if request.param == "user" else "root", bawn) as r:
        r.owner, r.swapped = r.user, False
        if request.param == "root for a user":
            r.owner = pwd.getpwnam(tools.TEST_USER)
            plain = r.own

            def own(path):
                if r.workspace in pathlib.Path(os.fsdecode(path)).parents or path == r.workspace:
                    os.chown(path, r.owner.pw_uid, r.owner.pw_gid, follow_symlinks=False)
                    return path
                return plain(path)

            r.own = own
            own(r.workspace)
        yield r


SECRET = b"decoy-secret: neither read nor written\n"


@pytest.fixture
def decoy(who):
    """What an attacker would like to reach; writable for who runs Bawn and for the owner of the workspace."""
    top = who.top / "decoy"
    for folder in (top, top / "sub", top / "sub/empty"):
        who.mkdir(folder)
    for name in ("file", "one", "f", "sub/file", "sub/one", "authorized_keys"):
        who.write(top / name, SECRET)
    (top / "sub/link").symlink_to("file")
    if who.is_root:
        for path in [top, *top.rglob("*")]:
            os.chown(path, who.owner.pw_uid, who.owner.pw_gid, follow_symlinks=False)
    return top


def snapshot(top):
    """Everything about a tree that a write, deletion, new name, chmod or chown would change, taken back or not (ctime)."""
    found = {}
    for path in [top, *sorted(top.rglob("*"))]:
        st = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if stat.S_ISREG(st.st_mode) else None
        found[str(path)] = (st.st_mode, st.st_ino, st.st_uid, st.st_gid, st.st_nlink, st.st_ctime_ns, content)
    return found


@pytest.fixture
def unharmed(who, decoy):
    """Checks the decoy at the end, and that no copy of its bytes came into the workspace."""
    before = snapshot(decoy)
    yield decoy
    assert snapshot(decoy) == before
    assert not leaked(who.workspace)
    left = [p for p in who.workspace.rglob("*") if ".bawn-tmp-" in p.name]
    assert not left or who.swapped, left  # what was staged in a folder that was moved away meanwhile cannot be found again


def leaked(top):
    return [p for p in top.rglob("*") if not p.is_symlink() and p.is_file() and SECRET in p.read_bytes()]


def content(path):
    """Never waits for a FIFO."""
    return path.read_bytes() if os.path.lexists(path) and stat.S_ISREG(path.lstat().st_mode) else None


def state(who):
    return who.home / ".local/state/bawn/runs"


def git(who, *args):
    identity = {} if os.getuid() == who.owner.pw_uid else {"user": who.owner.pw_uid, "group": who.owner.pw_gid, "extra_groups": []}
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run([*GIT, *args], cwd=who.workspace, env=env, check=True, capture_output=True, **identity)


def fill(who, mode="overlay"):
    who.write("f", "f\n")
    who.write("g", "g\n")
    who.write("d/file", "mine\n")
    who.write("d/one", "mine\n")
    who.write("d/sub/file", "mine\n")
    if mode == "worktree":
        git(who, "init", "-q")
        git(who, "add", "-A")
        git(who, "commit", "-qm", "one")


def hostile(who, mode, script, name="n"):
    """Runs a script that is not expected to go well everywhere."""
    r = who.bawn("run", "-w", mode, "--name", name, "--", "sh", "-c", script)
    assert r.rc not in (64, 125), r
    return r


def all_verbs(who, name="n"):
    """Everything a user may do with a run; how it ends is not the point here, that it ends is."""
    for args in (["review", name, "--diff"], ["diff", name], ["apply", name, "--dry-run"]):
        assert who.bawn(*args).rc in (0, 1), args
    for links in ([], ["--allow-links-out"]):
        for way in WAYS:
            r = who.bawn("apply", name, "--yes", "--conflict", way, *links)
            assert r.rc in (0, 1, 125), r
            if r.rc == 0:
                assert who.bawn("apply", "--undo").rc in (0, 1, 125)  # 125: all was refused, so nothing was done
    assert who.bawn("apply", name, "--yes", "--conflict", "overwrite", "--allow-links-out").rc in (0, 1, 125)


# -- that the attacks work --------------------------------------------------------------------------------------------------------


def naive_copy(source, target):
    """How copy-out is written by those who end up in ATTACKS 18: by path names, through whatever stands there."""
    for folder, _, files in os.walk(source):
        to = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(to, exist_ok=True)
        for name in files:
            with contextlib.suppress(OSError):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(to, name))
                    os.symlink(os.readlink(path), os.path.join(to, name))
                elif stat.S_ISREG(os.lstat(path).st_mode):
                    with open(path, "rb") as f, open(os.path.join(to, name), "wb") as out:
                        out.write(f.read())
                    os.chmod(os.path.join(to, name), os.stat(path).st_mode)


def naive_delete(top):
    for folder, folders, files in os.walk(top, topdown=False, followlinks=True):
        for name in files:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            path = os.path.join(folder, name)
            os.unlink(path) if os.path.islink(path) else os.rmdir(path)


@pytest.mark.parametrize("way", ["write", "delete"])
def test_the_attack_works_on_the_obvious_way(tmp_path, way):
    victim, prepared, workspace = tmp_path / "victim", tmp_path / "prepared", tmp_path / "workspace"
    for folder in (victim, prepared / "d", workspace):
        folder.mkdir(parents=True)
    (victim / "file").write_bytes(SECRET)
    if way == "write":
        (prepared / "d/file").write_text("evil\n")
        (workspace / "d").symlink_to(victim)
        naive_copy(prepared, workspace)
        assert (victim / "file").read_text() == "evil\n"
    else:
        (workspace / "d").symlink_to(victim)
        naive_delete(workspace)
        assert not (victim / "file").exists()


# -- trees that a command prepared ------------------------------------------------------------------------------------------------

TREES = {
    "links to files": "for n in f g d/file; do rm $n; ln -s DECOY/file $n; done; ln -s DECOY/authorized_keys new; ln -s ~/.ssh ssh; ln -s /etc/passwd p",
    "a link where a folder was": "rm -r d; ln -s DECOY d; echo evil > d/file",
    "a link where a folder was, deeper": "rm -r d/sub; ln -s DECOY/sub d/sub; echo evil > d/sub/file",
    "links that climb": "ln -s ../decoy up; ln -s d/../../decoy up2; ln -s ../decoy/file d/up3; ln -s ../../decoy d/sub/up4; rm f; ln -s ../decoy/f f",
    "chains of links": "ln -s l2 l1; ln -s l3 l2; ln -s DECOY l3; rm f; ln -s l1/file f",
    "links to themselves": "ln -s loop loop; ln -s b a; ln -s a b; rm f; ln -s f f; rm -r d; ln -s . d",
    "an absolute link into the workspace": "ln -s WORK/d in; ln -s WORK/../decoy out",
    "magic links": "ln -s /proc/self/cwd cwd; ln -s /proc/self/root/etc etc; rm f; ln -s /proc/self/fd/0 f; ln -s /dev/stdin stdin",
    "FIFOs": "rm f; mkfifo f; rm -r d; mkfifo d; mkfifo new; mkdir e; mkfifo e/in",
    "sockets": "rm f; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"f\"); socket.socket(socket.AF_UNIX).bind(\"s\")'",
    "devices": "rm -f f; mknod f c 1 3; mknod new c 1 3; mknod white c 0 0; mknod blk b 7 0; true",
    "hard links": "ln f f2; ln d/file d/file2; echo evil >> f2; echo evil >> d/file2; ln DECOY/file stolen 2>/dev/null; true",
    "set-id bits": "echo x > s; chmod 4755 s; chmod 2755 s; chmod 6777 f; chmod 2777 d; chmod 1777 d/sub; true",
    "modes of nothing": "chmod 0 f; chmod 0 d/sub; mkdir z; echo x > z/x; chmod 0 z",
    "long names": "python3 -c 'import os; n=\"x\"*255; open(n,\"w\").write(\"1\"); os.mkdir(\"y\"*255); open(\"y\"*255+\"/\"+n,\"w\").write(\"2\")'",
    "deep": "python3 -c '\nimport os\nfor i in range(300):\n os.mkdir(\"z\"*100); os.chdir(\"z\"*100)\nopen(\"end\",\"w\").write(\"e\"); os.symlink(\"DECOY\", \"l\")'",
    "names that look like ours": "echo x > .bawn-tmp-0123456789abcdef; mkdir undo base; echo x > undo/journal; ln -s DECOY .bawn-tmp-fedcba9876543210; rm .bawn-tmp-*",
    "names that look like paths": r"""python3 -c 'for n in (b"..\\decoy", b"...", b".. ", b"~", b"%2e%2e", b"..\xc0\xaf", b"\xe2\x80\xa6"): open(n,"w").write("x")'""",
    "overlay's own attributes": """python3 -c '
import os
for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy", "user.overlay.origin", "trusted.overlay.redirect"):
    for path in ("d", "f"):
        try: os.setxattr(path, name, b"/../decoy" if "redirect" in name else b"y")
        except OSError: pass
open("d/file", "w").write("evil")'""",
    "a folder swapped for its own file": "mv d/file x; rm -r d; mv x d; rm f; mkdir f; echo y > f/file; ln -s DECOY f/d",
}


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
@pytest.mark.parametrize("tree", TREES)
def test_a_prepared_tree_stays_in_the_workspace(who, unharmed, tree, mode):
    """Claim: whatever a command leaves, copying it out writes, deletes and changes modes in the workspace only, and ends (18, 30)."""
    fill(who, mode)
    script = TREES[tree].replace("DECOY", str(unharmed)).replace("WORK", str(who.workspace))
    hostile(who, mode, script)
    all_verbs(who)
    # And again on what is there now, links included: the second run writes where the first one left a link.
    if tree == "deep" and mode == "sync":
        r = who.bawn("run", "-w", mode, "--name", "n", "--", "true")
        assert r.rc == 125 and b"deeper than" in r.err, r
        assert who.bawn("discard", "n", "--yes").rc == 0
        return
    hostile(who, mode, "rm -rf d f new l1 up; mkdir d f new l1 up; for p in d f new l1 up; do echo evil > $p/file; echo evil > $p/one; done; rm -f g")
    all_verbs(who)
    for path in who.workspace.rglob("*"):
        st = path.lstat()
        assert not st.st_mode & (stat.S_ISUID | stat.S_ISGID), path
        kind = stat.S_IFMT(st.st_mode)
        assert kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK), path
    assert who.bawn("discard", "n", "--yes").rc == 0
    for record in state(who).iterdir():  # of what sync carried, for rollback: it is a run in direct mode
        assert mode == "sync" and who.bawn("rollback", record.name, "--force").rc in (0, 1, 125)


@pytest.mark.parametrize("tree", TREES)
def test_direct_mode_is_rolled_back_in_the_workspace_only(who, unharmed, tree):
    """Claim: rollback of a workspace that a command prepared reaches nothing outside of it, and brings back what was there (18)."""
    fill(who)
    script = TREES[tree].replace("DECOY", str(unharmed)).replace("WORK", str(who.workspace))
    r = who.bawn("run", "--", "sh", "-c", script)
    assert r.rc not in (64, 125), r
    if not list(state(who).iterdir()):
        return  # everything was refused inside
    for args in (["review"], ["rollback", "--dry-run"], ["rollback"], ["rollback", "--force"]):
        assert who.bawn(*args).rc in (0, 1), args
    assert content(who.workspace / "f") == b"f\n" and content(who.workspace / "d/file") == b"mine\n"
    assert content(who.workspace / "d/sub/file") == b"mine\n"
    for path in who.workspace.rglob("*"):
        assert not path.is_symlink() and not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID), path


def test_links_that_the_host_put_where_the_run_had_folders(who, unharmed):
    """Claim: no link that stands in the workspace by the time of the apply is followed (16, 18)."""
    fill(who)
    hostile(who, "overlay", "echo evil > d/file; echo evil > d/new; rm d/one; chmod 777 d/sub d/sub/file; mkdir -p e/sub; echo evil > e/sub/file; echo evil > f")
    for name in ("d", "f"):
        path = who.workspace / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (who.workspace / "d").symlink_to(unharmed)
    (who.workspace / "e").symlink_to(unharmed)
    (who.workspace / "f").symlink_to(unharmed / "file")
    for way in WAYS:
        for more in ([], ["--allow-links-out"], ["--only", "d/**"]):
            who.bawn("apply", "n", "--yes", "--conflict", way, *more)
            who.bawn("apply", "--undo", "--force")


def test_rollback_does_not_go_through_links_of_later(who, unharmed):
    """Claim: a folder of the workspace that has become a link since is not followed by rollback, not even by force (16, 18)."""
    fill(who)
    r = who.bawn("run", "--", "sh", "-c", "echo evil > d/file; rm d/one; chmod 777 d/sub; echo x > d/sub/new; echo evil > f")
    assert r.rc == 0, r
    shutil.rmtree(who.workspace / "d")
    (who.workspace / "d").symlink_to(unharmed)
    (who.workspace / "f").unlink()
    (who.workspace / "f").symlink_to(unharmed / "file")
    for args in ([], ["--force"]):
        assert who.bawn("rollback", *args).rc in (0, 1, 125)
        who.bawn("apply", "--undo", "--force")


def test_what_is_planted_in_upper_is_no_more_than_content(who, unharmed):
    """Claim: set-id bits, devices and overlay's redirections in the run's folder do not come out, even if it was tampered with (30, 32)."""
    fill(who)
    hostile(who, "overlay", "echo x > s; mkdir x; echo x > x/in; echo y > d/file; mkdir r")
    upper = state(who) / "n/upper"
    (upper / "s").chmod(0o6777)
    (upper / "x").chmod(0o7777)
    for name in ("user.overlay.redirect", "user.overlay.opaque"):
        os.setxattr(upper / "r", name, os.fsencode("/../" * 8 + str(unharmed)) if "redirect" in name else b"y")
    if os.getuid() == 0:
        os.mknod(upper / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(upper / "white", stat.S_IFCHR, os.makedev(0, 0))
    os.mkfifo(upper / "fifo")
    (upper / "in").symlink_to(unharmed / "file")
    all_verbs(who)
    assert content(who.workspace / "d/file") == b"y\n"
    for path in who.workspace.rglob("*"):
        assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID), path
        assert stat.S_IFMT(path.lstat().st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK), path
    r = who.bawn("run", "-w", "overlay", "--name", "n", "--", "sh", "-c", "cat in r/* 2>/dev/null; ls r; true")
    assert SECRET not in r.out, r


def test_discard_follows_no_link(who, unharmed):
    """Claim: removing a run's folder removes nothing else, whatever modes and links are in it (18)."""
    for mode in ("overlay", "sync"):
        who.write("f", "f\n")
        hostile(who, mode, "mkdir -p a/b/c; chmod 0 a/b; ln -s DECOY l; ln -s DECOY/file k; mkdir m; ln -s DECOY m/n; chmod 0 m".replace("DECOY", str(unharmed)), mode)
        folder = state(who) / mode / ("upper" if mode == "overlay" else "tree")
        (folder / "planted").symlink_to(unharmed)
        who.bawn("discard", mode, "--yes", "--only", "l", "--only", "planted")
        assert who.bawn("discard", mode, "--yes").rc == 0
        assert not (state(who) / mode).exists()
        shutil.rmtree(who.workspace)
        who.workspace.mkdir()
        who.own(who.workspace)


# -- swapping while it happens ----------------------------------------------------------------------------------------------------

SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pairs = [os.fsencode(p) for p in sys.argv[2:]]
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    for _ in range(50):
        for a, b in zip(pairs[::2], pairs[1::2]):
            libc.renameat2(-100, a, -100, b, 2)
"""


@contextlib.contextmanager
def swapping(who, *pairs):
    """An accomplice outside, with the rights of the workspace's owner or of who runs Bawn, who exchanges names all the time."""
    stop = who.top / "stop"
    who.swapped = True
    reachable = all(str(p).startswith(str(who.workspace)) for p in pairs)
    identity = {"user": who.owner.pw_uid, "group": who.owner.pw_gid, "extra_groups": []} if reachable and os.getuid() == 0 else {}
    p = subprocess.Popen([sys.executable, "-c", SWAPPER, stop, *pairs], stdout=subprocess.PIPE, **identity)
    try:
        assert p.stdout.readline() == b"up\n"
        yield
    finally:
        stop.touch()
        p.wait()
        p.stdout.close()
        stop.unlink()


def link(who, path, target):
    os.symlink(target, path)
    who.own(path)
    return path


@pytest.mark.parametrize("way", ["write", "delete"])
def test_the_swap_works_on_the_obvious_way(root_runner, way):
    """The outside half: the same accomplice against copying and deleting by path names."""
    who = root_runner
    who.owner = who.user
    victim = who.mkdir(who.top / "victim")
    source = who.mkdir(who.top / "source")
    who.write(source / "d/file", "evil\n")

    def hit():
        who.write(victim / "file", SECRET)
        who.write("d/file", "mine\n")
        naive_copy(source, who.workspace) if way == "write" else naive_delete(who.workspace / "d")
        return not (victim / "file").exists() or (victim / "file").read_bytes() != SECRET

    who.write("d/file", "mine\n")
    link(who, who.workspace / "l", victim)
    end = time.monotonic() + 120
    with swapping(who, who.workspace / "d", who.workspace / "l"):
        worked = False
        while not worked and time.monotonic() < end:
            with contextlib.suppress(OSError):
                worked = hit()
    assert worked


def test_folders_swapped_for_links_during_apply(who, unharmed):
    """Claim: a folder of the workspace exchanged with a link, at any moment of an apply or undo, leads nowhere (16, 18)."""
    fill(who)
    hostile(who, "overlay", "echo evil > d/file; echo evil > d/new; rm d/one; chmod 700 d/sub; echo evil > d/sub/file; echo evil > f")
    a = link(who, who.workspace / "l", unharmed)
    b = link(who, who.workspace / "k", unharmed / "file")
    with swapping(who, who.workspace / "d", a, who.workspace / "f", b):
        for i in range(ROUNDS):
            for args in (["n", "--yes", "--conflict", WAYS[i % 4], *(["--allow-links-out"] if i & 4 else [])], ["--undo", "--force"]):
                assert who.bawn("apply", *args).rc in (0, 1, 125)


def test_files_of_the_run_swapped_during_apply(who, unharmed):
    """Claim: what is read from the run's folder is what was judged, never what a link in its place leads to (16, 18)."""
    fill(who)
    hostile(who, "overlay", "echo evil > d/file; echo evil > d/one; echo evil > f; echo new > new; mkdir e; echo x > e/file")
    upper = state(who) / "n/upper"
    aside = who.mkdir(who.top / "aside")
    pairs = []
    for i, name in enumerate(("f", "d", "new", "e/file")):
        link(who, aside / str(i), unharmed if name == "d" else unharmed / "file")
        pairs += [upper / name, aside / str(i)]
    with swapping(who, *pairs):
        for i in range(ROUNDS):
            for args in (["n", "--yes", "--conflict", WAYS[i % 4]], ["--undo", "--force"]):
                assert who.bawn("apply", *args).rc in (0, 1, 125)
            assert not leaked(who.workspace)


def test_folders_swapped_for_links_during_sync(who, unharmed):
    """Claim: the same for both directions of sync mode."""
    fill(who)
    a = link(who, who.workspace / "l", unharmed)
    with swapping(who, who.workspace / "d", a):
        for i in range(ROUNDS):
            r = who.bawn("run", "-w", "sync", "--name", "n", "--", "sh", "-c", f"for d in d l; do echo evil{i} > $d/file; echo {i} > $d/n{i}; rm -f $d/one; done; cat d/* l/*; true")
            assert r.rc in (0, 1, 125) and SECRET not in r.out, r
    copies = [p for p in (state(who) / "n").rglob("*") if not p.is_symlink() and p.is_file() and SECRET in p.read_bytes()]
    assert copies == []


def test_folders_swapped_for_links_during_rollback(who, unharmed):
    """Claim: the same for rollback, forced or not."""
    fill(who)
    a = link(who, who.workspace / "l", unharmed)
    for _ in range(ROUNDS // 4):
        r = who.bawn("run", "--", "sh", "-c", "echo evil > d/file; rm -f d/one; chmod 700 d/sub; echo evil > d/sub/new; mkdir -p d/e; echo x > d/e/one")
        assert r.rc in (0, 1, 2), r
        with swapping(who, who.workspace / "d", a):
            for args in (["rollback"], ["rollback", "--force"], ["apply", "--undo", "--force"], ["rollback", "--force"]):
                assert who.bawn(*args).rc in (0, 1, 125)
        if (who.workspace / "d").is_symlink():
            (who.workspace / "d").rename(who.workspace / "t")
            (who.workspace / "l").rename(who.workspace / "d")
            (who.workspace / "t").rename(who.workspace / "l")


def test_folders_swapped_for_links_during_discard(who, unharmed):
    """Claim: the same for the removal of a run's folder."""
    aside = who.mkdir(who.top / "aside")
    for i in range(ROUNDS // 4):
        hostile(who, "overlay", "for a in 1 2 3 4 5 6 7 8; do mkdir -p d/$a/sub; for b in 1 2 3 4 5 6 7 8; do echo x > d/$a/$b; echo x > d/$a/sub/file; done; done")
        upper = state(who) / "n/upper"
        pairs = []
        for name in ("d/4", "d/7", "d/2/sub", "d"):
            link(who, aside / f"{i}-{name.replace('/', '-')}", unharmed)
            pairs += [upper / name, aside / f"{i}-{name.replace('/', '-')}"]
        with swapping(who, *pairs):
            assert who.bawn("discard", "n", "--yes").rc in (0, 125)
        who.bawn("discard", "n", "--yes")
        assert not (state(who) / "n").exists()


# -- kill -9 in the middle --------------------------------------------------------------------------------------------------------

FILES = 40


def versions(who):
    """{name: "old", "new" or what it is}, of files that hold one word many times."""
    found = {}
    for i in range(FILES):
        path = who.workspace / f"d{i % 4}" / f"f{i}"
        content = path.read_bytes() if path.is_file() else b""
        found[str(i)] = {b"old": "old", b"new": "new", b"": "gone"}.get(content[:3], content[:20])
        if content:
            assert content == content[:4] * 3000, f"{path}: neither old nor new"
    return found


def many_files(who):
    for i in range(FILES * 3 // 4):  # the last quarter is new in the run
        who.write(f"d{i % 4}/f{i}", b"old\n" * 3000)
    # a quarter is changed, a quarter deleted, a quarter stays, a quarter is new
    return f"""python3 -c '
import os
for i in range({FILES}):
    p = f"d{{i % 4}}/f{{i}}"
    if i < {FILES // 4} or i >= {FILES * 3 // 4}: open(p, "w").write("new\\n" * 3000)
    elif i < {FILES // 2}: os.unlink(p)
os.mkdir("e"); open("e/f", "w").write("new\\n")'"""


def expect(i, now):
    quarter = i * 4 // FILES
    if now == "old":
        return "gone" if quarter == 3 else "old"
    return ("new", "gone", "old", "new")[quarter]


def check(who, which, context=None):
    assert versions(who) == {str(i): expect(i, which) for i in range(FILES)}, context
    assert (who.workspace / "e/f").exists() == (which == "new")
    left = [str(p) for p in who.workspace.rglob("*") if ".bawn-tmp-" in p.name]
    assert not left, left


def kill_within(who, seconds, *args):
    p = who.popen(who.path, *args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        p.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(p.pid, signal.SIGKILL)
    p.wait()


def how_long(who, *args):
    begun = time.monotonic()
    assert who.bawn(*args).rc == 0
    return time.monotonic() - begun


@pytest.mark.parametrize("mode", ["overlay", "worktree"])
def test_kill_9_of_apply(who, unharmed, mode):
    """Each file is old or new, whole, and the next apply or undo puts all of it right; twenty times, at random."""
    script = many_files(who)
    fill(who, mode)
    hostile(who, mode, script)
    seconds = how_long(who, "apply", "n", "--yes")
    check(who, "new")
    assert who.bawn("apply", "--undo").rc == 0
    check(who, "old")
    rng = random.Random(18)
    for i in range(ROUNDS):
        kill_within(who, rng.uniform(0, seconds), "apply", "n", "--yes")
        for number, seen in versions(who).items():
            assert seen in {expect(int(number), "old"), expect(int(number), "new")}, (i, number, seen)
        if i % 2:
            r = who.bawn("apply", "n", "--yes")  # 125: it was all done, and killed on its way out
            assert r.rc in (0, 125), r
            check(who, "new", (i, r))
            r = who.bawn("apply", "--undo", "n")
            assert r.rc == 0, r
        else:
            r = who.bawn("apply", "--undo", "n")  # 125: it had not begun
            assert r.rc in (0, 125), r
        check(who, "old", (i, r))
    assert who.bawn("apply", "n", "--yes").rc == 0
    check(who, "new")


def test_kill_9_of_undo(who, unharmed):
    script = many_files(who)
    hostile(who, "overlay", script)
    assert who.bawn("apply", "n", "--yes").rc == 0
    seconds = how_long(who, "apply", "--undo")
    rng = random.Random(19)
    for i in range(ROUNDS // 2):
        assert who.bawn("apply", "n", "--yes").rc == 0
        check(who, "new")
        kill_within(who, rng.uniform(0, seconds), "apply", "--undo", "n")
        versions(who)
        r = who.bawn("apply", "--undo", "n")
        assert r.rc in (0, 125), (i, r)
        check(who, "old")
    assert who.bawn("apply", "n", "--yes").rc == 0
    check(who, "new")


def test_kill_9_of_rollback(who, unharmed):
    script = many_files(who)
    r = who.bawn("run", "--", "sh", "-c", script)
    assert r.rc == 0, r
    check(who, "new")
    seconds = how_long(who, "rollback")
    check(who, "old")
    assert who.bawn("apply", "--undo").rc == 0
    rng = random.Random(20)
    for i in range(ROUNDS // 2):
        kill_within(who, rng.uniform(0, seconds), "rollback", "--force")
        for number, seen in versions(who).items():
            assert seen in {expect(int(number), "old"), expect(int(number), "new")}, (i, number, seen)
        r = who.bawn("rollback", "--force")  # what the killed one brought back was changed since, as far as times tell
        assert r.rc in (0, 125), (i, r)
        check(who, "old", (i, r))
        assert who.bawn("apply", "--undo").rc == 0
        check(who, "new")


def test_kill_9_while_sync_carries(who, unharmed):
    """The command has ended, Bawn dies on the way: the next run under that name carries the rest; nothing is lost or torn."""
    script = many_files(who)
    redo = "mkdir -p e; " + script.replace('os.mkdir("e"); ', "").replace("elif", "elif os.path.exists(p) and")
    rng = random.Random(21)
    for i in range(ROUNDS):
        for k in range(FILES):
            path = who.workspace / f"d{k % 4}" / f"f{k}"
            if k >= FILES * 3 // 4:
                path.unlink(missing_ok=True)
            else:
                who.write(path, b"old\n" * 3000)
        shutil.rmtree(who.workspace / "e", ignore_errors=True)
        p = who.popen(who.path, "run", "-w", "sync", "--name", "n", "--", "sh", "-c", redo + "; echo done", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert p.stdout.readline() == b"done\n"
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(rng.uniform(0, 0.06))
        with contextlib.suppress(ProcessLookupError):
            os.kill(p.pid, signal.SIGKILL)
        p.wait()
        p.stdout.close()
        for number, seen in versions(who).items():
            assert seen in {expect(int(number), "old"), expect(int(number), "new")}, (i, number, seen)
        r = who.bawn("run", "-w", "sync", "--name", "n", "--", "true")
        assert r.rc == 0, (i, r)
        assert versions(who) == {str(k): expect(k, "new") for k in range(FILES)}, (i, r)
        for left in who.workspace.rglob(".bawn-tmp-*"):  # "look at it and remove it": at most the one that was under way
            assert left.read_bytes() in (b"old\n" * 3000, b"new\n" * 3000, b"new\n", b"") or len(left.read_bytes()) < 12000
            left.unlink()


def test_kill_9_of_discard(who, unharmed):
    rng = random.Random(22)
    for i in range(ROUNDS // 2):
        who.write("f", "f\n")
        hostile(who, "overlay", "for a in 1 2 3 4 5 6; do mkdir -p d/$a; for b in 1 2 3 4 5 6 7 8 9; do echo x > d/$a/$b; done; chmod 0 d/$a; done", f"n{i}")
        kill_within(who, rng.uniform(0, 0.02), "discard", f"n{i}", "--yes")
        r = who.bawn("discard", f"n{i}", "--yes")
        assert r.rc in (0, 125), r
    r = who.bawn("run", "-w", "overlay", "--", "true")
    assert r.rc == 0, r
    assert list(state(who).iterdir()) == []
    assert [p.name for p in who.workspace.iterdir()] == ["f"]
