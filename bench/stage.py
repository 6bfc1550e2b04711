# SPDX-License-Identifier: Apache-2.0
"""Where the benchmark takes place: temporary directories, users, and the compiled helpers."""
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import mounts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.environ.get("BAWN_BUILD", os.path.join(ROOT, "build"))  # with the library that the helpers link
TEST_USER = "bawn-test"
HYBRID = "/sys/fs/cgroup/unified/cgroup.controllers"
CFLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-I" + os.path.join(ROOT, "src"), "-include", os.path.join(ROOT, "src/base/banned.h")]


@dataclass(eq=False)
class Place:
    """One user's corner: everything the contenders may see of him."""
    column: str  # "root" or "user"
    name: str
    uid: int
    gid: int
    directory: str
    mounts: list = field(default_factory=list)

    @property
    def home(self):
        return os.path.join(self.directory, "home")

    @property
    def workspace(self):
        return os.path.join(self.directory, "workspace")

    @property
    def empty(self):
        """Another workspace, for what would copy or watch the trees of the first one."""
        return os.path.join(self.directory, "empty")

    def own(self, *paths):
        if os.geteuid() == 0:
            for path in paths:
                os.chown(path, self.uid, self.gid)

    def environment(self):
        """The same short environment for everybody; nothing of the caller's can slow down or configure a contender."""
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.home, "USER": self.name, "LOGNAME": self.name,
                "LANG": "C.UTF-8"}

    def popen_as(self):
        """Arguments for subprocess to run something as this user in his workspace."""
        identity = {}
        if os.geteuid() == 0:
            identity = {"user": self.uid, "group": self.gid, "extra_groups": []}
        return {"cwd": self.workspace, "env": self.environment(), "stdin": subprocess.DEVNULL, **identity}

    def popen_empty(self):
        return {**self.popen_as(), "cwd": self.empty}

    def in_view(self, argv):
        """The same behind without_hybrid(), which only root can do: argv and arguments for subprocess."""
        options, before = self.popen_as(), without_hybrid()
        if before:
            options = {k: v for k, v in options.items() if k not in ("user", "group", "extra_groups")}
            before += ["setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        return [*before, *argv], options


def without_hybrid():
    """crun 1.8 refuses a hybrid cgroup tree with controllers left in v2: what to write before a command, so that it has a view without them."""
    if os.geteuid() != 0 or not shutil.which("crun") or not os.path.exists(HYBRID) or not open(HYBRID).read().strip():
        return []
    return ["unshare", "--mount", "sh", "-c", f'mount --bind /dev/null {HYBRID} && exec "$@"', "sh"]


def test_user(name):
    try:
        return pwd.getpwnam(name)
    except KeyError:
        subprocess.run(["useradd", "--system", "--create-home", "--home-dir", f"/var/lib/{name}", "--shell", "/bin/sh", name], check=True)
        return pwd.getpwnam(name)


def users(name):
    """(column, passwd entry): both columns for root, only his own for anybody else."""
    me = pwd.getpwuid(os.geteuid())
    return [("root", me), ("user", test_user(name))] if me.pw_uid == 0 else [("user", me)]


class Stage:
    """A temporary directory on a real disk (not a tmpfs: the workspace is measured too), gone after the run."""

    def __init__(self, user=TEST_USER, bawn=None):
        self.directory = tempfile.mkdtemp(prefix="bawn-bench-", dir=os.environ.get("BENCH_DIR", "/var/tmp"))
        try:
            self.fill(user, bawn)
        except BaseException:
            self.__exit__()
            raise

    def fill(self, user, bawn):
        os.chmod(self.directory, 0o755)
        self.spawn = self.compile("spawn", sources=["socket"])
        self.io = self.compile("io")
        self.load = self.compile("load", "-lssl", "-lcrypto", "-lpthread")
        self.bawn = self.copy_bawn(bawn)
        self.places = [self.make_place(column, entry) for column, entry in users(user)]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        shutil.rmtree(self.directory, ignore_errors=True)
        if os.path.exists(self.directory):
            print(f"bench: could not remove all of {self.directory}", file=sys.stderr)

    def compile(self, name, *libraries, sources=()):
        """NAME.c of this folder, with `sources` beside it and the library that `make` built."""
        out = os.path.join(self.directory, name)
        files = [os.path.join(HERE, s + ".c") for s in (name, *sources)]
        subprocess.run([os.environ.get("CC", "cc"), *CFLAGS, *files, "-o", out, os.path.join(BUILD, "src/libbawn.a"), "-ljansson", *libraries], check=True)
        return out

    def copy_bawn(self, path):
        """The checkout may lie below a directory that only its owner can enter: copy bawn and the programs beside it."""
        if not path or not os.access(path, os.X_OK):
            return None
        target = os.path.join(self.directory, "bin")
        os.mkdir(target)
        for entry in os.scandir(os.path.dirname(os.path.abspath(path))):
            if entry.name.startswith("bawn") and entry.is_file() and entry.stat().st_mode & stat.S_IXUSR:
                shutil.copy(entry.path, target)
        return os.path.join(target, os.path.basename(path))

    def make_place(self, column, entry):
        place = Place(column, entry.pw_name, entry.pw_uid, entry.pw_gid, os.path.join(self.directory, column))
        for path in (place.directory, place.home, place.workspace, place.empty):
            os.mkdir(path, 0o755)
            place.own(path)
        place.mounts = mounts.mounts(self.bawn, place)
        return place

    def spawn_command(self, place):
        identity = ["--user", place.name] if os.geteuid() == 0 else []
        return [*without_hybrid(), self.spawn, *identity, "--chdir", place.workspace]
