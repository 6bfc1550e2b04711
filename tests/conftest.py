# SPDX-License-Identifier: Apache-2.0
"""What every Python test shares.

    def test_something(runner):                 runs twice: as root and as an ordinary user
        r = runner.bawn("run", "--", "id", "-u")
        assert r.rc == 0, r
        assert r.out == b"1000\\n"

    def test_secret(attack):                    the probe works outside and fails inside
        attack("cat /etc/shadow-like-file")

runner.run(*cmd)   any program, as that user, clean environment, HOME and working directory of its own
runner.bawn(*args) the same with the program under test in front
runner.workspace   a pathlib.Path that the user owns; also the working directory
runner.home        that user's HOME, empty at the start; write(), mkdir() make files that the user owns

The program under test is $BAWN (default build/bawn). When pytest itself runs as an ordinary user, the
"root" half is skipped with the reason "needs root".
"""

import contextlib
import fnmatch
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import watchdog  # noqa: E402
from watchdog import (  # noqa: E402, F401
    pytest_configure, pytest_runtest_call, pytest_runtest_makereport, pytest_runtest_protocol, pytest_runtest_setup, pytest_runtest_teardown)

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST_USER = os.environ.get("BAWN_TEST_USER", "bawn-test")
HANG = 300  # seconds: only so that a hang ends as a failure, never a statement about speed

# Exit statuses that mean "the sandbox never started the command", so that nothing was proved.
NOT_STARTED = {64: "usage error", 125: "Bawn failed", 126: "the probe is not executable", 127: "the probe was not found"}


class Result:
    """How a program ended: rc (negative: the signal), out and err as bytes."""

    def __init__(self, cmd, rc, out, err):
        self.cmd, self.rc, self.out, self.err = cmd, rc, out, err

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        cmd = " ".join(map(str, self.cmd))
        return f"\n$ {cmd}\nexit {self.rc}\nstdout: {self.out[-4000:]!r}\nstderr: {self.err[-4000:]!r}"


class Runner:
    """Somebody who runs programs: root, or a user without any privilege."""

    def __init__(self, user, bawn, top):
        self.user = pwd.getpwnam(user)
        self.name = user
        self.is_root = self.user.pw_uid == 0
        self.path = bawn
        self.top = top
        self.home = self.mkdir(top / "home", 0o700)
        self.workspace = self.mkdir(top / "work")
        if os.environ.get("BAWN_TEST_LINK"):  # any test by hand over the byte link, where the workspace is a copy
            for folder in (".config", ".config/bawn"):
                self.mkdir(self.home / folder, 0o700)
            self.write(self.home / ".config/bawn/config.json", '{"sandbox": {"workspace": {"mode": "overlay"}}}')

    def own(self, path):
        if os.getuid() == 0:
            os.chown(path, self.user.pw_uid, self.user.pw_gid, follow_symlinks=False)
        return path

    def mkdir(self, path, mode=0o755):
        path = pathlib.Path(path)
        path.mkdir(mode=mode)
        path.chmod(mode)
        return self.own(path)

    def write(self, path, data, mode=0o644):
        """Writes a file that the user owns; a relative path is taken from the workspace."""
        path = self.workspace / path
        for parent in reversed(path.parents):
            if not parent.exists():
                self.mkdir(parent)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(mode)
        return self.own(path)

    def environ(self, extra=None):
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "USER": self.name,
            "LOGNAME": self.name,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        env.update({k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "BAWN_TEST_LINK")})
        env.update(extra or {})
        return {k: v for k, v in env.items() if v is not None}

    def identity(self):
        """Arguments of subprocess that make the child this user."""
        if os.getuid() == self.user.pw_uid:
            return {}
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}

    def popen(self, *cmd, env=None, cwd=None, **kw):
        cmd = [os.fspath(c) if not isinstance(c, bytes) else c for c in cmd]
        kw.setdefault("start_new_session", True)
        return subprocess.Popen(cmd, env=self.environ(env), cwd=cwd or self.workspace, **self.identity(), **kw)

    def run(self, *cmd, input=None, **kw):
        kw.setdefault("stdin", subprocess.PIPE if input is not None else subprocess.DEVNULL)
        proc = self.popen(*cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        try:
            out, err = proc.communicate(input, timeout=HANG)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(proc.pid, signal.SIGKILL)
            out, err = proc.communicate()
            pytest.fail(f"hangs: {Result(cmd, proc.returncode, out, err)!r}")
        return Result(cmd, proc.returncode, out, err)

    def bawn(self, *args, **kw):
        return self.run(self.path, *args, **kw)

    def helper(self, name):
        """Another of Bawn's programs: beside it in a build, in libexec where it is installed."""
        return next(p for p in (self.path.parent / name, self.path.parent.parent / "libexec" / "bawn" / name) if p.exists())


@pytest.fixture(scope="session")
def bawn():
    """Path of the program under test."""
    path = pathlib.Path(os.environ.get("BAWN", ROOT / "build" / "bawn")).resolve()
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is not there: run make, or set BAWN")
    return path


@contextlib.contextmanager
def make_runner(kind, bawn):
    """kind is "root" or "user"; the folder lies in /var/tmp, where every user can get at it."""
    if kind == "root" and os.getuid() != 0:
        pytest.skip("needs root")
    user = pwd.getpwuid(os.getuid()).pw_name if os.getuid() != 0 else {"root": "root", "user": TEST_USER}[kind]
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-test.", dir="/var/tmp"))
    top.chmod(0o755)
    watchdog.FOLDERS.add(str(top))
    try:
        yield Runner(user, bawn, top)
    finally:
        watchdog.FOLDERS.discard(str(top))
        end_programs_of(top)
        shutil.rmtree(top, onerror=unlock)


def end_programs_of(folder):
    """Programs that were installed into a test's folder, such as the daemon that Codex starts for itself outside."""
    for exe in pathlib.Path("/proc").glob("[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if os.readlink(exe).startswith(f"{folder}/"):
                os.kill(int(exe.parent.name), signal.SIGKILL)


def unlock(remove, path, exc):
    """A sandbox may leave folders that nobody may write; the test's folder goes all the same."""
    if isinstance(exc[1], FileNotFoundError):  # something of the test's own removed it meanwhile
        return
    with contextlib.suppress(OSError):
        if os.path.dirname(path) != "/var/tmp":  # not ours
            os.chmod(os.path.dirname(path), 0o700)
        if remove in (os.unlink, os.rmdir):
            remove(path)
        else:  # the folder itself could not be opened
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=["root", "user"])
def runner(request, bawn):
    with make_runner(request.param, bawn) as r:
        yield r


@pytest.fixture
def root_runner(bawn):
    with make_runner("root", bawn) as r:
        yield r


@pytest.fixture
def user_runner(bawn):
    with make_runner("user", bawn) as r:
        yield r


@pytest.fixture
def kept(runner):
    """A runner whose sandboxes are all stopped at the end."""
    yield runner
    r = runner.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r


@pytest.fixture
def workspace(runner):
    return runner.workspace


@pytest.fixture
def attack(runner):
    """attack(probe, *bawn_run_options): shows that a probe works outside and fails inside.

    The probe is a shell script (a string) or an argv (a list); it exits with 0 if the attack worked. It must
    work without the sandbox, or the test would prove nothing; inside, it must have run and failed, so a
    sandbox that did not start is a failure of the test too. Returns the result from inside.
    """

    def prove(probe, *options, env=None):
        argv = ["sh", "-c", probe] if isinstance(probe, str) else list(probe)
        outside = runner.run(*argv, env=env)
        assert outside.rc == 0, f"the probe does not work even without the sandbox, so it proves nothing:{outside!r}"
        inside = runner.bawn("run", *options, "--", *argv, env=env)
        assert inside.rc not in NOT_STARTED, f"{NOT_STARTED[inside.rc]}, so the probe never ran:{inside!r}"
        assert inside.rc != 0, f"the attack works inside the sandbox:{inside!r}"
        return inside

    prove.runner = runner
    return prove


# Skips: every reason must be on the list; a skip that nobody allowed turns a green run red.

# Long files whose tests do not look at each other's doings: spread over the workers. The others stay together (tools/check).
SPREAD = {"test_hiding_modes.py", "test_hiding_appears.py", "test_hiding_substitutes.py", "test_hiding_odd.py", "test_beside_workspace.py",
          "test_protect.py", "test_protect_git.py", "test_protect_races.py", "test_protect_work.py", "test_review_risks.py",
          "test_modes.py", "test_modes_overlay.py", "test_modes_sync.py", "test_modes_worktree.py", "test_modes_direct.py",
          "test_copy_out.py", "test_system_files.py", "test_system_kernel.py", "test_system_pid1.py", "test_system_processes.py", "test_system_hidden.py", "test_worktree_git.py", "test_guard.py", "test_realwork.py"}


OWN_RULE = {"agents", "sdk"}  # their conftest.py chooses


def other_user_runs(item):
    """Each case runs as one of the two users, chosen by name, so that each file has both; BAWN_ALL=1: as both. Sampled tables have a rule of their own."""
    who = re.search(r"[-\[](root|user)[-\]]", item.name)
    if not who or item.path.parent.name in OWN_RULE or item.path.name in SPREAD or os.environ.get("BAWN_ALL"):
        return False
    case = item.name.replace(who[0], "")
    return zlib.crc32(case.encode()) % 2 != (who[1] == "root")


def is_weaker_rung_row(item):
    """In the weaker rungs an eighth of the network tests runs, chosen by name, in the landlock rung as the ordinary user only; BAWN_ALL=1: all."""
    rung = re.search(r"[-\[](landlock|shared-net)[-\]]", item.name)
    if item.path.parent.name != "network" or item.path.name == "test_rung_attacks.py" or not rung:
        return None
    if rung[1] == "landlock" and "root" in re.split(r"[-\[\]]", item.name):
        return False
    return bool(os.environ.get("BAWN_ALL") or zlib.crc32(item.name.encode()) % 8 == 0)


def is_left_out(item):
    weaker = is_weaker_rung_row(item)
    return not weaker if weaker is not None else is_sampled_out(item) or other_user_runs(item)


def is_sampled_out(item):
    """Of the long tables a sixteenth of the rows runs as root and an eighth as the ordinary user, chosen by name; BAWN_ALL=1: all."""
    if item.path.name not in SPREAD or os.environ.get("BAWN_ALL"):
        return False
    return zlib.crc32(item.name.encode()) % 16 not in ((0,) if re.search(r"[-\[]root( for a user)?[-\]]", item.name) else (1, 2))


TOGETHER = {"test_cgroup_guest.py"}  # what they share takes a minute to make: one worker does


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(config, items):
    """@pytest.mark.no_sanitizer: what cannot hold in a sanitizer build, e.g. because of its huge address space."""
    out = [item for item in items if is_left_out(item)]
    left_out = set(out)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=out)
    for item in items:
        if item.path.name in TOGETHER:
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    if not os.environ.get("BAWN_SANITIZED"):
        return
    for item in items:
        if item.get_closest_marker("no_sanitizer"):
            item.add_marker(pytest.mark.skip(reason="the sanitizer build cannot show this"))


def unlisted_skips(reporter):
    lines = (ROOT / "tests" / "skips.txt").read_text().splitlines()
    listed = [line.strip().replace("[", "[[]").replace("...", "*") for line in lines if line.strip() and line[0] != "#"]
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in reporter.getreports("skipped")}
    return sorted(r for r in reasons if not any(fnmatch.fnmatchcase(r, pattern) for pattern in listed))


def pytest_terminal_summary(terminalreporter):
    for reason in unlisted_skips(terminalreporter):
        terminalreporter.write_line(f"skip reason not in tests/skips.txt: {reason}", red=True)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and unlisted_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
