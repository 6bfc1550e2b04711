# SPDX-License-Identifier: Apache-2.0
"""A kept sandbox's home is hostile at its next start: what an earlier life left in there leads Bawn nowhere.

The inside puts links, loops, pipes, files and closed folders under the names that Bawn makes or mounts on in a home; then the sandbox is
stopped and started again. `naive` does on a scratch copy what a start does there, following links as mkdir, ln and cp do: it writes outside.
"""

import hashlib
import os
import shutil
import stat

import pytest

# What a start makes in a home (plan_home.c), and what the tests mount there.
NAMES = [".npm", ".local", ".yarn", ".bun", ".cargo", "go", ".m2", ".gradle", ".gitconfig", ".ssh", ".pki", ".gitignore_global", "a"]

TRAP = """
import os, shutil, sys
kind, victim, *names = sys.argv[1:]
home = os.environ["HOME"]
for n in names:
    path = home + "/" + n
    if os.path.lexists(path):
        os.rename(path, home + "/was-" + n)  # what is mounted below goes with it
    if kind == "host": os.symlink(victim, path)
    elif kind == "climb": os.symlink("../" * 20 + victim[1:], path)
    elif kind == "root": os.symlink("/", path)
    elif kind == "etc": os.symlink("/etc", path)
    elif kind == "proc": os.symlink("/proc/1/root" + victim, path)
    elif kind == "loop": os.symlink(n, path)
    elif kind == "fifo": os.mkfifo(path)
    elif kind == "file": open(path, "w").write("mine")
    elif kind == "closed": os.mkdir(path, 0)
    elif kind == "taken":  # and the names that things are put aside under
        os.symlink(victim, path)
        os.makedirs(path + ".bawn-aside/full")
print("trapped", len(names))
"""

# As a start that follows links would do it: mkdir -p, ln -s, cp and a mount point.
NAIVE = """
cd "$1" || exit 1
for d in .local/share .yarn .bun/install .cargo go/pkg .m2 .gradle .ssh .pki/nssdb a/b; do mkdir -p $d; done
ln -s ../.cache/registry .cargo/registry; ln -s ../../.cache/mod go/pkg/mod; ln -s x .ssh/known_hosts
cp /etc/hostname .pki/nssdb/cert9.db; : > a/b/file; mkdir -p a/b/data
true
"""


def picture(folder):
    """Everything below, to be compared."""
    found = {}
    for top, dirs, files in os.walk(folder):
        for name in [".", *dirs, *files]:
            path = os.path.join(top, name)
            st = os.lstat(path)
            content = hashlib.sha256(open(path, "rb").read()).hexdigest() if stat.S_ISREG(st.st_mode) else None
            found[path] = (st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns, st.st_ctime_ns, st.st_size, content)
    return found


@pytest.fixture
def victim(runner):
    """A folder of the user's beside the workspace; he could write there, as everybody could."""
    folder = runner.mkdir(runner.top / "victim", 0o777)
    runner.write(folder / "canary", "alive\n")
    return folder


def home_of(runner, name="box"):
    return runner.home / ".local/state/bawn/sandboxes" / name / "home"


def start(runner, *options):
    r = runner.bawn("start", "box", *options)
    assert r.rc == 0, r


def stop(runner):
    r = runner.bawn("stop", "box", "-t", "0")
    assert r.rc == 0, r


def inside(runner, script, *args):
    r = runner.bawn("exec", "box", "--", "sh", "-c", script, "sh", *args)
    assert r.rc == 0, r
    return r.out.decode()


def trap(runner, kind, victim, names):
    r = runner.bawn("exec", "box", "--", "/usr/bin/python3", "-c", TRAP, kind, str(victim), *names)
    assert (r.rc, r.out) == (0, b"trapped %d\n" % len(names)), r


def mounts(runner):
    """A folder and a file of the host's, two folders deep in the home."""
    data = runner.mkdir(runner.top / "data")
    runner.write(data / "here", "data\n")
    home = inside_home(runner)
    return ["--mount", f"{data}:{home}/a/b/data:rw", "--mount", f"{data}/here:{home}/a/b/file"]


def inside_home(runner):
    return "/home/bawn" if runner.is_root else str(runner.home)


def caches(runner, on):
    runner.write(runner.home / ".config/bawn/config.json", '{"sandbox": {"mounts": {"persist_caches": %s}}}' % ("true" if on else "false"))


@pytest.mark.parametrize("kind", ["host", "climb", "proc", "taken"])
def test_links_out_of_the_home_are_not_followed(kept, victim, kind):
    """Claim: whatever stands in a kept home, the next start writes and mounts nothing outside it; what is in a mount's way is put aside."""
    caches(kept, False)  # so that .cache can be replaced: it is no mount yet
    options = mounts(kept)
    start(kept, *options)
    trap(kept, kind, victim, [".cache", *NAMES])
    stop(kept)
    before = picture(victim)
    scratch = kept.top / "scratch"
    shutil.copytree(home_of(kept), scratch, symlinks=True)
    if kind != "proc":  # leads to another root only while the sandbox runs
        os.chmod(scratch, 0o755)
        shutil.copytree(victim, kept.top / "saved", symlinks=True)
        kept.run("sh", "-c", NAIVE, "sh", scratch)
        assert {"registry", "known_hosts", "nssdb", "b", "share"} & set(os.listdir(victim)), "the naive way does not get out, so this proves nothing"
        shutil.rmtree(victim)
        shutil.copytree(kept.top / "saved", victim, symlinks=True)
        kept.own(victim)
        before = picture(victim)
    caches(kept, True)
    start(kept, *options)
    assert picture(victim) == before
    out = inside(kept, "cat ~/a/b/data/here ~/a/b/file; echo new > ~/a/b/data/made; test -d ~/.cache/npm && ! test -L ~/.cache && echo works; ls -d ~/*.bawn-aside*")
    assert out.startswith("data\ndata\nworks\n") and "a.bawn-aside" in out, out
    assert (kept.top / "data/made").read_text() == "new\n"
    aside = [p for p in home_of(kept).iterdir() if p.name.startswith(".cache.bawn-aside") and p.is_symlink()]
    assert len(aside) == 1, list(home_of(kept).iterdir())  # nothing of the inside's was removed
    for name in (".cargo", ".ssh", ".gitconfig"):  # no mount: stays what the inside made of it
        assert (home_of(kept) / name).is_symlink()
    stop(kept)
    assert picture(victim) == before


@pytest.mark.parametrize("kind", ["root", "etc", "loop", "fifo", "file", "closed"])
def test_nothing_in_a_home_keeps_the_sandbox_from_starting(kept, victim, kind):
    """Claim: links to the root, loops, pipes that nobody writes, files and closed folders in the home neither stop nor hang a start."""
    caches(kept, False)
    options = mounts(kept)
    start(kept, *options)
    trap(kept, kind, victim, [".cache", *NAMES])
    stop(kept)
    caches(kept, True)
    host = {top: set(os.listdir(top)) for top in ("/", "/etc")}
    start(kept, *options)
    out = inside(kept, "cat ~/a/b/data/here; test -d ~/.cache/npm && echo works; cat ~/.cache/../a/b/file")
    assert out == "data\nworks\ndata\n", out
    made = {"registry", "known_hosts", "nssdb", "b", "share", "install", "pkg", "repository", "berry", "npm", "cache"}
    for top, names in host.items():
        assert not (set(os.listdir(top)) - names) & made


def test_a_closed_home_is_opened_again(kept):
    """Claim: a home that the inside has closed to itself is of use again after the next start."""
    start(kept, "--network", "none")
    inside(kept, "echo mine > ~/f; chmod 0 ~")
    stop(kept)
    start(kept, "--network", "none")
    assert inside(kept, "cat ~/f; stat -c %a ~") == "mine\n700\n"


def test_a_huge_tree_is_no_obstacle(kept):
    """Claim: a home that is wider and deeper than any path can be is started again, and `bawn rm` takes it away."""
    start(kept, "--network", "none")
    wide = "import os\nos.chdir(os.environ['HOME'])\nfor i in range(20000): os.close(os.open('f%d' % i, os.O_CREAT))\nfor i in range(1500): os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)"
    r = kept.bawn("exec", "box", "--", "/usr/bin/python3", "-c", wide)
    assert r.rc == 0, r
    stop(kept)
    start(kept)
    assert int(inside(kept, "cd ~; ls -f | wc -l")) > 20000
    r = kept.bawn("rm", "--force", "box")
    assert r.rc == 0 and not home_of(kept).exists(), r


MODES = ["direct", "overlay", "sync", "worktree"]


@pytest.mark.parametrize("mode", MODES)
def test_a_workspace_below_the_home(user_runner, victim_below, mode):
    """Claim: the folders that lead to a workspace below the home may be anything at the next start; the workspace is mounted all the same,
    and nothing is made, moved or put aside in it."""
    runner, victim = user_runner, victim_below
    project = runner.mkdir(runner.mkdir(runner.mkdir(runner.home / "src") / "team") / "project")
    runner.write(project / "file", "host\n")
    runner.write(project / ".env", "SECRET=1\n")
    for cmd in (["init", "-q"], ["add", "file"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]):
        assert runner.run("git", *cmd, cwd=project).rc == 0
    options = ["--workspace", mode, "--network", "none", "-C", str(project)]
    try:
        start(runner, *options)
        if mode == "direct":  # its guard does not let folders be moved that lead to the workspace; in the others' life nothing holds them
            r = runner.bawn("exec", "box", "--", "mv", str(runner.home / "src"), str(runner.home / "was"))
            assert r.rc == 1 and b"Permission denied" in r.err, r
            stop(runner)
            start(runner, "--workspace", "overlay", *options[2:])
        inside(runner, "cat file; ! grep SECRET .env")
        trap(runner, "host", victim, ["src"])
        stop(runner)
        before, outside = picture(victim), picture(runner.home / "src")
        scratch = runner.top / "scratch"
        shutil.copytree(home_of(runner), scratch, symlinks=True)
        os.chmod(scratch, 0o755)
        runner.run("mkdir", "-p", scratch / "src/team/project")
        assert (victim / "team").exists(), "the naive way does not get out, so this proves nothing"
        shutil.rmtree(victim / "team")
        before = picture(victim)
        start(runner, *options)
        assert picture(victim) == before
        assert inside(runner, "pwd; cat file; ! grep SECRET .env; readlink ~/src.bawn-aside") == f"{project}\nhost\n{victim}\n"
        assert picture(runner.home / "src").keys() == outside.keys()
        inside(runner, "echo changed > file")
        stop(runner)
        assert picture(victim) == before
        assert (project / "file").read_text() == ("changed\n" if mode in ("direct", "sync") else "host\n")
    finally:
        runner.bawn("stop", "--all", "-t", "0", "--force")


@pytest.fixture
def victim_below(user_runner):
    folder = user_runner.mkdir(user_runner.top / "victim", 0o777)
    user_runner.write(folder / "canary", "alive\n")
    return folder
