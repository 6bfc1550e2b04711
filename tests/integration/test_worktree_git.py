# SPDX-License-Identifier: Apache-2.0
"""Git without its teeth, and worktree mode; git itself is the judge. The calls are those of the library (worktree_cli.c).

The repositories here do their worst: every way that is known to make git run a program writes a file. Plain git shows that they
work; none of our calls may leave one.
"""

import fcntl
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["base", "os", "proto", "config", "workspace"]
GENERATED = {"api"}  # rooms whose headers are made by the build
ROUNDS = int(os.environ.get("BAWN_GITCONFIG_ROUNDS", "1500"))

# What the sandbox sees, made by hand: files at the workspace's path, .git covered, its git directory, the objects read-only.
INSIDE = """
mount -t tmpfs none /run
mkdir -p /run/bawn/git /run/bawn/objects
mount --bind "$1/git" /run/bawn/git
mount --bind "$3" /run/bawn/objects
mount -o remount,bind,ro /run/bawn/objects
mount --bind "$1/dotgit" "$1/tree/.git"
mount --rbind "$1/tree" "$2"
cd "$2"
script=$4
shift 4
export HOME=/nonexistent
exec "$@" sh -ec "git config user.name agent; git config user.email agent@example.com; $script"
"""


@pytest.fixture(scope="module")
def cli():
    """The linker takes from an archive of the layers below what it needs."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-worktree.", dir="/var/tmp"))
    top.chmod(0o755)
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover"] if os.environ.get("BAWN_SANITIZED") else []
    flags += ["-std=gnu11", "-D_GNU_SOURCE", "-O0", "-g", "-I", ROOT / "src", "-include", ROOT / "src/base/banned.h"]
    sources = [s for f in FOLDERS for s in sorted((ROOT / "src" / f).rglob("*.c")) if s.parent.name not in GENERATED]
    for source in sources:
        subprocess.run(["gcc", *flags, "-c", source, "-o", top / f"{source.parent.name}_{source.stem}.o"], check=True)
    subprocess.run(["ar", "rc", top / "lib.a", *sorted(top.glob("*.o"))], check=True)
    subprocess.run(["gcc", *flags, "-o", top / "cli", ROOT / "tests/integration/worktree_cli.c", top / "lib.a", "-ljansson"], check=True)
    yield top / "cli"
    shutil.rmtree(top)


def is_locked(path):
    """By a process that is at work in it, or gone by now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


class Scene:
    """A user, a repository in the workspace, and runs beside it. `who` runs our calls, if that is somebody else."""

    def __init__(self, cli, runner, who=None):
        self.before = set(pathlib.Path("/var/tmp").glob(".bawn-git-*"))
        self.cli, self.runner, self.who = cli, runner, who or runner
        self.ws, self.top, self.runs = runner.workspace, runner.home, (who or runner).home / "runs"

    def git(self, *args, cwd=None, ok=True):
        r = self.runner.run("git", "-c", "user.name=u", "-c", "user.email=u@example.com", *args, cwd=cwd or self.ws)
        assert not ok or r.rc == 0, r
        return r.out.decode(errors="surrogateescape").strip()

    def init(self, *options):
        self.git("init", "-q", "-b", "main", *options)
        self.runner.write("a", "one\n")
        self.runner.write("d/b", "two\n")
        self.runner.write(".env", "SECRET\n")
        self.runner.write("run.sh", "#!/bin/sh\n", 0o755)
        os.symlink("a", self.ws / "link")
        self.runner.own(self.ws / "link")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        self.git("tag", "v1")
        return self

    def call(self, verb, name="one", *patterns, ok=True, ws=None):
        r = self.who.run(self.cli, verb, self.runs, name, ws or self.ws, *patterns)
        assert (r.rc == 0) == ok, r
        return r.out.decode().split() if ok else r.err.decode()

    def make(self, name="one", *patterns):
        self.run, self.objects, self.branch = (pathlib.Path(p) for p in self.call("make", name, *patterns))
        self.tree = self.run / "tree"
        return self

    def inside(self, script):
        namespaces = ["-m"] if self.who.is_root else ["-U", "-r", "-m"]
        owner = self.runner.user
        drop = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"] if self.who is not self.runner else []
        r = self.who.run("unshare", *namespaces, "sh", "-ec", INSIDE, "sh", self.run, self.ws, self.objects, script, *drop)
        assert r.rc == 0, r
        return r.out.decode()

    def leftovers(self):
        """What git.h makes for itself must be gone after each call. In /var/tmp others may be at work; theirs are locked."""
        shared = [p for p in pathlib.Path("/var/tmp").glob(".bawn-git-*") if p not in self.before and not is_locked(p)]
        return list(self.runs.glob("*/.bawn-git-*")) + shared


@pytest.fixture
def scene(cli, runner):
    return Scene(cli, runner).init()


# git's configuration

ATOMS = ["[", "]", "core", "Core", "remote", '"', '"', "sub", "Sub.x", "\\", "\\\\", '\\"', "\\n", "\\t", "\\b", "\\x", "=", "=", " = ", " ", "\t", "\n",
         "\n", "\n", "\r\n", "\r", "#", ";", "key", "KEY", "a-b", "9", "_", ".", "value", "true", "two words", "  ", "\\\n", "\xe9", "\0", "[core]\n",
         "[core]\n", '[a "b"]\n', '[x.Y]\n', "\tk = v\n", "k\n", "k=\n", 'k = "q # ; "\n', "k = a ; c\n", "\x0b", "\x0c", "include.path", "[include]\npath = x\n"]


def config_file(number):
    pick = random.Random(number)
    text = "".join(pick.choice(ATOMS) for _ in range(pick.randrange(1, 14)))
    if pick.random() < 0.6:
        text = "[core]\n" + text
    if pick.random() < 0.05:
        text = pick.choice(["\xef\xbb\xbf", "\xef\xbb", "\xef"]) + text
    return text.encode("latin-1")


def test_configuration_is_read_as_git_reads_it(cli, tmp_path):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    seen = {"good": 0, "broken": 0}
    for number in range(ROUNDS):
        data = config_file(number)
        (tmp_path / "config").write_bytes(data)
        theirs = subprocess.run(["git", "config", "-f", tmp_path / "config", "--no-includes", "--list", "-z"], env=env, cwd=tmp_path, capture_output=True)
        ours = subprocess.run([cli, "config"], input=data, capture_output=True)
        assert theirs.returncode in (0, 128), theirs
        assert (ours.returncode == 0) == (theirs.returncode == 0), (number, data, ours, theirs)
        seen["good" if ours.returncode == 0 else "broken"] += 1
        if ours.returncode == 0:
            got = b"".join(entry.split(b" ", 1)[1] + b"\0" for entry in ours.stdout.split(b"\0")[:-1])
            assert got == theirs.stdout, (number, data)
    assert min(seen.values()) > ROUNDS / 20, seen


def test_places_that_the_configuration_names(cli, runner):
    s = Scene(cli, runner)
    s.git("init", "-q")
    s.git("config", "core.hooksPath", "tools/hooks")
    s.git("config", "include.path", "../.gitconfig")
    s.git("config", "includeIf.gitdir:/x/.path", f"{s.ws}/dev/../more.inc")
    runner.write(".gitconfig", "[include]\n\tpath = nested/inc\n")
    runner.write("nested/inc", "[core]\n\thooksPath = .elsewhere\n[include]\n\tpath = /outside\n")
    runner.write(runner.home / "global", "[core]\n\thooksPath = .global\n")
    r = runner.run(cli, "places", s.ws, runner.home / "global")
    assert r.rc == 0, r
    hooks, *found = r.out.decode().split()
    assert hooks == "hooks=.elsewhere"  # the last one counts, and the include stands behind
    assert set(found) == {".gitconfig", "nested/inc", "more.inc", ".elsewhere"}


# Teeth

def teeth(s, where):
    """Every key and file that makes git run something, each with a marker of its own in `where`."""
    r = s.runner
    r.mkdir(where).chmod(0o777)

    def program(name, body=""):
        return r.write(s.top / "bin" / name, f"#!/bin/sh\ntouch {where}/{name}\n{body}\n", 0o755)

    keys = {
        "core.fsmonitor": program("fsmonitor", "exit 1"),
        "filter.x.clean": program("clean", "cat"),
        "filter.x.smudge": program("smudge", "cat"),
        "filter.p.process": program("process", "exit 1"),
        "diff.external": program("external"),
        "diff.t.textconv": program("textconv", 'cat "$1"'),
        "core.sshCommand": program("ssh", "exit 1"),
        "gpg.program": program("gpg", "exit 1"),
        "alias.zap": f"!{program('alias')}",
        "core.hooksPath": s.top / "hooks",
        "include.path": r.write(s.top / "included", f"[alias]\n\tinc = !{program('include')}\n"),
    }
    for hook in ["reference-transaction", "post-checkout", "pre-commit", "post-index-change"]:
        os.symlink(program(hook), r.write(s.top / "hooks" / "x", "").with_name(hook))
    for key, value in keys.items():
        s.git("config", key, str(value))
    for name in keys:
        if name.startswith(("core.fsmonitor", "filter", "diff")):  # the user's own configuration does not hold either
            r.run("git", "config", "--global", name, str(keys[name]))
    return set(os.listdir(s.top / "bin"))


def bitten(where):
    found = set(os.listdir(where))
    for name in found:
        os.unlink(where / name)
    return found


def test_no_program_of_the_repository_runs(cli, runner):
    s = Scene(cli, runner).init()
    runner.write(".gitattributes", "a filter=x diff=t\nd/b filter=p\n")
    s.git("add", "-A")
    s.git("commit", "-qm", "attributes")
    where = s.top / "markers"
    expected = teeth(s, where)

    # Plain git runs every one of them.
    runner.write("a", "other\n")
    runner.write("d/b", "other\n")
    for command in [["status"], ["diff", "--", "a"], ["diff", "--no-ext-diff", "--", "a"], ["add", "a"], ["add", "d/b"], ["commit", "--allow-empty", "-qm", "x"],
                    ["commit", "--allow-empty", "-S", "-qm", "x"], ["checkout", "-f", "HEAD~1", "--", "a"], ["checkout", "-qfb", "side"],
                    ["fetch", "ssh://localhost/x"], ["zap"], ["inc"]]:
        s.git(*command, ok=False)
    assert expected - bitten(where) == set()

    # Ours run none, from the first to the last.
    runner.write("a", "changed on the host, so that it has to be hashed\n")
    bitten(where)
    s.make()
    s.inside("echo new > a; git add a; git commit -qm inside; git config core.fsmonitor /bin/false; git config filter.x.clean /bin/false")
    assert s.call("carry") == ["1"]
    s.call("open")
    assert s.call("merged") == ["0"]
    s.call("drop")
    s.call("discard")
    assert bitten(where) == set()
    assert s.leftovers() == []


def test_one_call_runs_nothing_even_if_it_hashes_and_diffs(cli, runner):
    """The calls of git.h with what would trigger most: a dirty tree, attributes, a diff with everything switched on."""
    s = Scene(cli, runner).init()
    runner.write(".gitattributes", "a filter=x diff=t\nd/b filter=p\n")
    s.git("add", "-A")
    s.git("commit", "-qm", "attributes")
    head = s.git("rev-parse", "HEAD")
    where = s.top / "markers"
    teeth(s, where)
    runner.write("a", "other\n")
    bitten(where)
    for args in [["read-tree", head], ["diff-index", "-p", "--ext-diff", "--textconv", head], ["hash-object", "a"], ["status"], ["zap"],
                 ["fetch", "ssh://localhost/x"], ["commit-tree", "-S", "-m", "x", head + "^{tree}"]]:
        runner.run(cli, "git", s.top, s.ws / ".git/objects", s.ws, *args)
    assert bitten(where) == set()
    r = runner.run(cli, "git", s.top, s.ws / ".git/objects", s.ws, "zap", "\033[31m")
    assert r.rc == 1 and b"\033" not in r.err and b"zap" in r.err, r


# Worktree mode

def test_the_whole_way(scene):
    s = scene
    s.git("remote", "add", "origin", "https://me:token@example.com/x.git?key=1")
    s.git("remote", "add", 'we"ird', "ssh://git:secret@example.com/y")
    runner_index = s.git("status", "--porcelain")
    s.make("one", ".env")
    assert str(s.branch) == "bawn/one"
    assert str(s.tree) in s.git("worktree", "list")
    assert s.git("status", "--porcelain", cwd=s.tree) == ""
    assert s.git("symbolic-ref", "HEAD", cwd=s.tree) == "refs/heads/bawn/one"
    assert sorted(os.listdir(s.tree)) == [".git", "a", "d", "link", "run.sh"]  # .env is hidden, and not reported as deleted
    assert os.readlink(s.tree / "link") == "a" and os.access(s.tree / "run.sh", os.X_OK)
    assert b"token" not in (s.run / "git/config").read_bytes() and b"secret" not in (s.run / "git/config").read_bytes()

    out = s.inside("""
        git status --porcelain; git log --format=%s main; git describe --tags; git remote -v
        echo three > c; git add c; git commit -qm second; echo uncommitted >> d/b
        git rev-parse --show-toplevel
    """)
    assert "first\nv1\n" in out and out.endswith(f"{s.ws}\n"), out
    assert "https://example.com/x.git (fetch)" in out and 'we"ird\tssh://git@example.com/y' in out, out

    before = s.git("rev-parse", "main")
    assert s.call("carry") == ["1"]
    assert s.call("carry") == ["0"]
    assert s.git("log", "--format=%s", "bawn/one") == "second\nfirst"
    assert s.git("status", "--porcelain", cwd=s.tree) == "M d/b"
    assert s.git("ls-files", "-t", ".env", cwd=s.tree) == "S .env"
    assert s.git("rev-parse", "main") == before and s.git("status", "--porcelain") == runner_index
    s.git("fsck", "--strict")
    assert s.call("merged") == ["0"]

    # A second run goes on from where the host has moved the branch.
    s.git("commit", "-qam", "by the host", cwd=s.tree)
    s.call("open")
    assert s.inside("git log -1 --format=%s; git status --porcelain") == "by the host\n"
    s.inside("git commit -q --allow-empty -m third")
    assert s.call("carry") == ["1"]

    s.call("drop")
    assert "bawn/one" in s.git("branch") and str(s.tree) not in s.git("worktree", "list")
    s.git("merge", "-q", "bawn/one")
    assert s.call("merged") == ["1"]
    s.call("drop")
    assert s.git("branch", "--format=%(refname)") == "refs/heads/main"
    assert not (s.ws / ".git/refs/heads/bawn").exists() and not (s.ws / ".git/worktrees").exists()
    s.git("fsck", "--strict")
    assert s.leftovers() == []


def test_everything_belongs_to_the_owner_of_the_workspace(cli, root_runner, user_runner):
    """Root works in somebody else's repository: git runs as that user, and no file of root's is left there."""
    s = Scene(cli, user_runner, root_runner).init()
    s.make("one", ".env")
    owner = user_runner.user.pw_uid
    s.inside("echo x > new; git add new; git commit -qm second")
    assert s.call("carry") == ["1"]
    for top in [s.ws, s.tree, s.run / "git"]:
        assert [p for p in [top, *top.rglob("*")] if os.lstat(p).st_uid != owner] == []
    assert s.git("log", "-1", "--format=%s", "bawn/one") == "second"
    s.git("gc", "-q", "--prune=now")
    s.call("discard")
    assert s.git("branch", "--format=%(refname)") == "refs/heads/main"
    assert s.leftovers() == []


def test_git_runs_as_the_owner(cli, root_runner, user_runner):
    s = Scene(cli, user_runner, root_runner).init()
    r = root_runner.run(cli, "git", s.top, s.ws / ".git/objects", s.ws, "hash-object", "-w", "a")
    assert r.rc == 0, r
    secret = root_runner.write(root_runner.top / "secret", "root's own", 0o600)
    r = root_runner.run(cli, "git", s.top, s.ws / ".git/objects", s.ws, "hash-object", "--no-filters", secret)
    assert r.rc == 1 and b"Permission denied" in r.err, r


@pytest.mark.parametrize("moves,subjects", [
    ("git checkout -qb other; git commit -q --allow-empty -m there", "there\nfirst"),  # another branch that goes on from ours
    ("git commit -q --allow-empty -m x; git checkout -q --detach; git commit -q --allow-empty -m y", "y\nx\nfirst"),
    ("git commit -q --allow-empty -m x; git checkout -q main", "x\nfirst"),  # back to main: ours is still what counts
    ("git commit -q --allow-empty -m x; git commit -q --amend --allow-empty -m z; git gc -q --prune=now; git pack-refs --all", "z\nfirst"),
    ("git checkout -q main; git branch -D bawn/one", "first"),
    ("git checkout -q --orphan new; git commit -qm orphan", "first"),
])
def test_where_the_work_ends(scene, moves, subjects):
    s = scene.make()
    s.inside(moves + " > /dev/null 2>&1")
    s.call("carry")
    assert s.git("log", "--format=%s", "bawn/one") == subjects
    s.git("fsck", "--strict")


def test_commits_that_stay_behind_are_told(scene):
    s = scene.make()
    s.inside("git checkout -q -b other; git commit -q --allow-empty -m there; git checkout -q bawn/one; git commit -q --allow-empty -m here")
    r = s.runner.run(s.cli, "carry", s.runs, "one", s.ws)
    assert r.rc == 0 and r.out == b"2\n" and b"1 commit is on other branches" in r.err, r
    assert s.git("log", "--format=%s", "bawn/one") == "here\nfirst"
    s.inside("git merge -q -m both other")
    assert s.call("carry") == ["2"]  # the merge, and what it brought
    assert s.git("log", "--format=%s", "bawn/one").splitlines()[0] == "both"
    assert s.call("carry") == ["0"]


def test_rewritten_history_is_carried_as_long_as_nobody_else_moved_the_branch(scene):
    s = scene.make()
    s.inside("git commit -q --allow-empty -m x")
    s.call("carry")
    s.inside("git commit -q --amend --allow-empty -m y")
    s.call("carry")
    assert s.git("log", "--format=%s", "bawn/one") == "y\nfirst"
    s.git("branch", "-f", "keep", "bawn/one")
    s.git("update-ref", "refs/heads/bawn/one", "main")
    s.inside("git commit -q --allow-empty -m z")
    assert "moved by another process" in s.call("carry", ok=False)
    assert s.git("log", "--format=%s", "bawn/one") == "first"
    assert "both the sandbox and the host" in s.call("open", ok=False)


def test_packed_refs_and_other_branches_stay(scene):
    s = scene
    for n in range(20):
        s.git("branch", f"b{n}")
    s.make()
    s.inside("git commit -q --allow-empty -m x")
    s.git("pack-refs", "--all")
    assert s.call("carry") == ["1"]
    s.git("pack-refs", "--all")
    before = [r for r in s.git("show-ref").splitlines() if "bawn/" not in r]
    s.call("discard")
    assert s.git("show-ref").splitlines() == before and len(before) == 22
    shutil.rmtree(s.runs)
    s.make()  # the name is free again


# A hostile git directory

def other_repository(s):
    """One that the sandbox must not get at, and the name of a secret in it."""
    secret = s.runner.mkdir(s.top / "private")
    s.git("init", "-q", cwd=secret)
    s.runner.write(secret / "key", "TOP SECRET\n")
    s.git("add", "key", cwd=secret)
    s.git("commit", "-qm", "s", cwd=secret)
    return secret, s.git("rev-parse", "HEAD:key", cwd=secret)


def test_alternates_of_the_sandbox_are_not_followed(scene):
    s = scene
    secret, blob = other_repository(s)
    s.make()
    s.inside(f"git update-index --add --cacheinfo 100644,{blob},stolen; "
             "t=$(git write-tree --missing-ok); c=$(git commit-tree -m steal -p HEAD $t); git update-ref refs/heads/bawn/one $c")
    with open(s.run / "git/objects/info/alternates", "a") as f:
        f.write(f"{secret}/.git/objects\n")
    tip = (s.run / "git/refs/heads/bawn/one").read_text().strip()
    r = s.runner.run("git", "-C", s.run / "git", "cat-file", "-e", f"{tip}:stolen")
    assert r.rc == 0, "plain git would follow them"
    s.call("carry", ok=False)
    assert s.git("log", "--format=%s", "bawn/one") == "first"
    assert s.runner.run("git", "-C", s.ws, "cat-file", "-e", blob).rc != 0


@pytest.mark.parametrize("plant", [
    "mkfifo /run/bawn/git/refs/heads/bawn/x; rm /run/bawn/git/refs/heads/bawn/one; mkfifo /run/bawn/git/refs/heads/bawn/one",
    "rm /run/bawn/git/refs/heads/bawn/one; ln -s /etc/passwd /run/bawn/git/refs/heads/bawn/one",
    "echo 'ref: refs/../../../../../etc/passwd' > /run/bawn/git/refs/heads/bawn/one",
    "echo 'ref: refs/heads/bawn/one' > /run/bawn/git/refs/heads/bawn/one",
    "echo 0123456789012345678901234567890123456789 > /run/bawn/git/refs/heads/bawn/one",
    "t=$(git rev-parse HEAD^{tree}); echo $t > /run/bawn/git/refs/heads/bawn/one",
    "head -c 100000 /dev/zero > /run/bawn/git/refs/heads/bawn/one",
    "rm -rf /run/bawn/git/objects; ln -s /etc /run/bawn/git/objects",
    "rm -rf /run/bawn/git/objects/pack; echo x > /run/bawn/git/objects/pack; rm -rf /run/bawn/git/refs",
    "echo junk > /run/bawn/git/objects/pack/pack-0123456789012345678901234567890123456789.pack",
])
def test_a_broken_git_directory_changes_nothing(scene, plant):
    s = scene.make()
    s.inside("git commit -q --allow-empty -m x; " + plant)
    s.runner.run(s.cli, "carry", s.runs, "one", s.ws)
    assert s.git("log", "--format=%s", "bawn/one") == "first"
    assert s.git("status", "--porcelain") == ""
    s.git("fsck", "--strict")
    assert s.leftovers() == []


def test_files_that_are_no_objects_are_left_behind(scene):
    s = scene.make()
    s.inside("""
        git commit -q --allow-empty -m good
        cd /run/bawn/git; mkdir -p hooks objects/zz objects/00; mkfifo objects/00/11111111111111111111111111111111111111 objects/zz/x
        ln -s /etc/passwd objects/00/22222222222222222222222222222222222222; echo evil > hooks/post-checkout; ln -s /etc objects/ff || true
    """)
    assert s.call("carry") == ["1"]
    assert s.git("log", "--format=%s", "bawn/one") == "good\nfirst"
    assert not (s.ws / ".git/objects/zz").exists() and not (s.ws / ".git/hooks/post-checkout").exists()
    s.git("fsck", "--strict")


# Repositories of every kind

def test_sha256(cli, runner):
    s = Scene(cli, runner).init("--object-format=sha256").make("one", ".env")
    s.inside("echo x > new; git add new; git commit -qm second")
    assert s.call("carry") == ["1"]
    assert s.git("log", "--format=%s", "bawn/one") == "second\nfirst" and s.git("status", "--porcelain", cwd=s.tree) == ""
    s.git("fsck", "--strict")


def test_the_workspace_is_a_linked_worktree(cli, runner):
    s = Scene(cli, runner)
    main = s.ws
    s.init()
    s.git("worktree", "add", "-q", "-b", "side", s.top / "side")
    s.ws = s.top / "side"
    s.git("commit", "-q", "--allow-empty", "-m", "on the side")
    s.make()
    assert s.objects == main / ".git/objects"
    s.inside("git commit -q --allow-empty -m inside")
    assert s.call("carry") == ["1"]
    assert s.git("log", "--format=%s", "bawn/one") == "inside\non the side\nfirst"
    s.call("discard")
    assert s.git("branch", "--format=%(refname:short)") == "main\nside"


def test_a_git_file_that_its_repository_does_not_know(cli, runner):
    """An agent in direct mode leaves a .git file that leads to a repository of the user's: no sandbox may see its objects."""
    s = Scene(cli, runner)
    secret, _ = other_repository(s)
    runner.write("fake/HEAD", "ref: refs/heads/master\n")
    runner.write("fake/commondir", f"{secret}/.git\n")
    runner.write("fake/gitdir", f"{s.ws}/.git\n")
    runner.write(".git", f"gitdir: {s.ws}/fake\n")
    assert "s" == s.git("log", "--format=%s", "--all"), "git itself would follow it"
    assert "does not know it" in s.call("make", ok=False)


def test_submodules_are_left_empty_and_a_shallow_clone_works(cli, runner):
    s = Scene(cli, runner)
    other_repository(s)
    s.init()
    s.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", s.top / "private", "sub")
    s.git("commit", "-qm", "second")
    shallow = s.top / "shallow"
    s.git("clone", "-q", "--depth=1", f"file://{s.ws}", shallow)
    s.ws = shallow
    s.make()
    assert os.listdir(s.tree / "sub") == [] and s.git("status", "--porcelain", cwd=s.tree) == ""
    assert s.inside("git log --format=%s; git status --porcelain; git commit -q --allow-empty -m third") == "second\n"
    assert s.call("carry") == ["1"]


def test_files_are_checked_out_without_filters_and_kept_apart_from_uncommitted_changes(scene):
    s = scene
    s.runner.write("a", "changed, not committed\n")
    s.runner.write("untracked", "x\n")
    s.make()
    assert (s.tree / "a").read_text() == "one\n" and not (s.tree / "untracked").exists()
    assert (s.ws / "a").read_text() == "changed, not committed\n"
    assert sorted(s.git("status", "--porcelain").splitlines()) == ["?? untracked", "M a"]


def test_the_manifest_knows_which_files_of_the_workspace_are_others(scene):
    """What differs from the commit must not pass for the version that the copy was made from, or apply would overwrite it."""
    s = scene
    s.runner.write("a", "two\n")  # of the same length
    os.chmod(s.ws / "run.sh", 0o644)
    os.unlink(s.ws / "link")
    os.symlink("b", s.ws / "link")
    s.runner.own(s.ws / "link")
    s.runner.write("untracked", "x\n")
    s.make()
    r = s.runner.run(s.cli, "manifest", s.run)
    assert r.out.decode().splitlines() == [".env", "a differs", "d", "d/b", "link differs", "run.sh differs"]


def test_a_fifo_for_attributes_holds_nobody_up(scene):
    """git opens .gitattributes of any folder in which it compares a file, and would wait there for ever."""
    s = scene
    for path in [s.ws / ".gitattributes", s.ws / "d/.gitattributes"]:
        os.mkfifo(path)
        s.runner.own(path)
    s.runner.write("a", "two\n")
    s.make()
    s.inside("echo x > d/b; git add d/b; git commit -qm second; mkfifo .gitattributes d/.gitattributes; echo y > d/b")
    assert s.call("carry") == ["1"]
    s.call("drop")


@pytest.mark.parametrize("prepare,reason", [
    ("rm -rf .git", "not the top of a git working tree"),
    ("git checkout -q --orphan none", "no commit yet"),
    ("git config core.bare true", "bare"),
    ("git sparse-checkout set --no-cone /a", "sparse"),
    ("git config remote.origin.promisor true", "partial clone"),
    ("git config extensions.newThing 1", "extensions.newthing"),
    ("git branch bawn", "rename it"),
    ("git branch bawn; git pack-refs --all", "rename it"),
    ("git branch bawn/one", "exists already"),
    ("mv .git .g; ln -s .g .git", "symbolic link"),
    ("mv .git/objects .o; ln -s ../.o .git/objects", "no link"),
    ("echo /x/objects > .git/objects/info/alternates", "borrows objects"),
    ("touch .git/refs/heads/bawn.lock; mkdir .git/refs/heads/bawn; touch .git/refs/heads/bawn/one.lock", "another git process"),
    ("echo '[' >> .git/config", "line"),
    ("echo garbage > .git/refs/heads/main", "damaged"),
    ("rm .git/objects/??/*", "git read-tree"),
])
def test_what_cannot_be_served_is_refused_with_a_reason(scene, prepare, reason):
    s = scene
    r = s.runner.run("sh", "-ec", prepare)
    assert r.rc == 0, r
    assert reason in s.call("make", ok=False)
    assert not (s.ws / ".git/worktrees").exists() and s.leftovers() == []


def test_names_that_cannot_be_branches(scene):
    for name in ["a..b", "a.lock", "a."]:
        assert "cannot name a branch" in scene.call("make", name, ok=False)


def test_strange_names_of_files(scene):
    s = scene
    names = [b"-rf", b"new\nline", b"\xff\xfe", b"tab\there", b" lead", b"quote\"d", b"back\\slash"]
    for name in names:
        s.runner.write(s.ws / os.fsdecode(name), "x")
    s.git("add", "-A")
    s.git("commit", "-qm", "names")
    s.make("one", "*.hidden")
    assert set(names) <= set(os.listdir(os.fsencode(s.tree)))
    assert s.git("status", "--porcelain", cwd=s.tree) == ""
