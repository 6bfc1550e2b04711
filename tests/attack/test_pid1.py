# SPDX-License-Identifier: Apache-2.0
"""What the command can do to bawn-init: PID 1, which is also the guard of direct mode. It has the command's ids, so everything that the
kernel allows between equals has to be closed by name (issue 13, number 7)."""

import os
import shutil
import signal
import subprocess
import time

import pytest

MODES = ["direct", "overlay"]


@pytest.fixture
def victim(runner):
    """A process of the same user outside: what may be done to it by its equals is what the probes show."""
    p = runner.popen("sleep", "1000", stdin=subprocess.DEVNULL)
    while open(f"/proc/{p.pid}/comm").read() != "sleep\n":
        time.sleep(0.01)
    yield p
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()


CHANGES = {
    "prlimit NOFILE": "return resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, 0))",
    "prlimit CPU": "return resource.prlimit(pid, resource.RLIMIT_CPU, (1000, 1000))",
    "prlimit FSIZE": "return resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, 0))",
    "prlimit AS": "return resource.prlimit(pid, resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "setpriority": "return os.setpriority(os.PRIO_PROCESS, pid, 19)",
    "setpriority of the group": "return os.setpriority(os.PRIO_PGRP, pid, 19)",
    "sched_setaffinity": "return os.sched_setaffinity(pid, {0})",
    "sched_setscheduler": "return os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))",
    "sched_setattr": "return call(314, pid, struct.pack('IIQiIQQQ', 48, 3, 0, 19, 0, 0, 0, 0), 0)",
    "ioprio_set": "return call(251, 1, pid, 2 << 13 | 7)",
    "ptrace": "return call(101, 16, pid, 0, 0)",
    "process_vm_writev": "return call(311, pid, None, 0, None, 0, 0) if os.readlink(f'/proc/{pid}/exe') else False",
    "pidfd_getfd": "return call(438, os.pidfd_open(pid), 0, 0)",
    "kcmp": "return call(312, pid, os.getpid(), 0, 0, 0)",
}
CALL = """
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    r = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if r < 0: raise OSError(ctypes.get_errno(), "call %d" % args[0])
    return r
pid = int(sys.argv[1])
"""


@pytest.mark.parametrize("what", CHANGES)
def test_pid_1_cannot_be_changed(pyattack, victim, what):
    """Claim: limits, priority, CPUs, memory and descriptors of PID 1 are out of reach (71)."""
    pyattack(CALL + CHANGES[what], args=[victim.pid], inside_args=[1])


def test_a_pointer_that_looks_like_none_sets_no_limit(inside):
    """Claim: the new limit may lie where the lower half of its address is 0."""
    out = inside(
        """
        import ctypes, mmap, os, struct
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        at = libc.mmap(5 << 32, 4096, 3, 0x100022, -1, 0)  # MAP_FIXED_NOREPLACE, private, anonymous
        assert at == 5 << 32
        ctypes.memmove(at, struct.pack("QQ", 7, 7), 16)
        r = libc.syscall(302, ctypes.c_long(1), ctypes.c_long(7), ctypes.c_void_p(at), None)
        print(r, ctypes.get_errno())
        """
    )
    assert out == "-1 1\n"


def test_limits_that_may_be_set(inside):
    """What programs do goes on: own limits, reading those of others, priorities and CPUs of own threads and children."""
    out = inside(
        """
        import os, resource, subprocess, threading
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))
        child = subprocess.Popen(["sleep", "1000"])
        assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE) == (64, 64)
        os.setpriority(os.PRIO_PROCESS, child.pid, 5)
        os.sched_setaffinity(child.pid, os.sched_getaffinity(0))
        t = threading.Thread(target=lambda: os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 3))
        t.start(); t.join()
        child.kill(); child.wait()
        print(resource.prlimit(1, resource.RLIMIT_NOFILE)[0] > 64)
        """
    )
    assert out == "True\n"


def test_nor_by_everything_of_the_user(inside):
    """Claim: calls that mean "all processes of this user" do not change PID 1."""
    out = inside(
        """
        import ctypes, os
        libc = ctypes.CDLL(None)
        before = os.getpriority(os.PRIO_PROCESS, 1), libc.syscall(252, 1, 1)
        for who in (0, os.getuid()):
            libc.setpriority(2, who, 19)
            libc.syscall(251, 3, who, 2 << 13 | 7)
        print(before == (os.getpriority(os.PRIO_PROCESS, 1), libc.syscall(252, 1, 1)))
        """
    )
    assert out == "True\n"


@pytest.mark.parametrize("mode", MODES)
def test_no_file_of_pid_1_can_be_written(pyattack, victim, mode):
    """Claim: of /proc/1 and its threads nothing takes a word: oom_score_adj, timerslack_ns, clear_refs, coredump_filter, attr... (70)."""
    pyattack(
        """
        hits = []
        for folder, _, files in os.walk(f"/proc/{sys.argv[1]}"):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.islink(path): continue
                try: os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b"1\\n")
                except OSError: continue
                hits.append(path)
        return hits or False
        """,
        "--workspace",
        mode,
        args=[victim.pid],
        inside_args=[1],
    )


@pytest.mark.parametrize("mode", MODES)
def test_no_signal_in_any_form_reaches_pid_1(runner, mode):
    """Claim: every signal by every call, thousands of them, leaves PID 1 as it was (80)."""
    r = runner.bawn(
        "run", "--workspace", mode, "--", "/usr/bin/python3", "-c",
        """
import ctypes, os, signal, struct
libc = ctypes.CDLL(None)
fd = os.pidfd_open(1)
for sig in range(1, 65):
    info = struct.pack("iii", sig, 0, -1) + bytes(116)
    for _ in range(3):
        libc.kill(1, sig); libc.syscall(200, 1, sig); libc.syscall(234, 1, 1, sig)
        libc.syscall(129, 1, sig, info); libc.syscall(297, 1, 1, sig, info); libc.syscall(424, fd, sig, None, 0)
open("made", "w").write("x")
print("still here")
""",
    )
    assert (r.rc, r.out) == (0, b"still here\n"), r


# -- what the guard cannot look up is refused ----------------------------------------------------------------------------------------


def test_a_repository_behind_a_closed_folder_stays_protected(runner):
    """Claim: the guard refuses where it cannot see what a folder is (direct mode).

    The command opens a bare repository of the tree, takes away the right to search the folder above it, and writes its configuration
    by the descriptor: looking for HEAD by path then fails with EACCES."""
    script = r'''
import os, sys
fd = os.open("box/bare.git", os.O_RDONLY | os.O_DIRECTORY)
os.chmod("box", 0)
try:
    c = os.open("config", os.O_WRONLY | os.O_TRUNC, dir_fd=fd)
    os.write(c, b"[core]\n\tfsmonitor = touch /tmp/owned\n")
except OSError as e:
    print("refused:", e); sys.exit(3)
finally:
    os.chmod("box", 0o755)
print("worked")
'''
    made = runner.run("git", "init", "-q", "--bare", "box/bare.git")
    assert made.rc == 0, made
    copy = runner.home / "control"
    assert runner.run("cp", "-r", ".", copy).rc == 0
    shown = runner.run("/usr/bin/python3", "-c", script, cwd=copy)
    assert shown.rc == 0 and b"owned" in (copy / "box/bare.git/config").read_bytes(), shown
    before = (runner.workspace / "box/bare.git/config").read_bytes()
    r = runner.bawn("run", "--workspace", "direct", "--", "/usr/bin/python3", "-c", script)
    assert r.rc == 3 and b"refused" in r.out, r
    assert (runner.workspace / "box/bare.git/config").read_bytes() == before
    shutil.rmtree(copy)


def pid_1_of(pid):
    """The host's number of the PID 1 among the descendants of a supervisor."""
    for child in open(f"/proc/{pid}/task/{pid}/children").read().split():
        if open(f"/proc/{child}/status").read().split("NSpid:")[1].split("\n")[0].split()[-1] == "1":
            return int(child)
    return None


def test_a_guard_without_descriptors_refuses(user_runner):
    """Claim: whatever look-up fails for want of descriptors, nothing protected is written: not directly, and not where links lead.

    The limit of PID 1 is set from outside, to each number of descriptors that it could be short of; with none it ends. As the ordinary user only: root's
    sandboxes have other ids, and root here may not set limits of others."""
    ws = user_runner.workspace
    assert user_runner.run("git", "init", "-q").rc == 0
    shutil.rmtree(ws / ".git/hooks")
    user_runner.write("tools/hooks/pre-commit", "#!/bin/sh\n")
    user_runner.own(ws / "tools/hooks")
    os.symlink("../tools/hooks", ws / ".git/hooks")
    script = r'''
import os, sys
print("up", flush=True); sys.stdin.readline()
for path in (".git/config", "tools/hooks/pre-commit", ".envrc", "tools/hooks/post-checkout"):
    try: open(path, "a").write("owned")
    except OSError: continue
    print("wrote", path)
try: open("plain", "a").write("x"); print("plain")
except OSError: pass
'''
    seen = []
    for limit in [0, *range(6, 13), 64]:
        p = user_runner.popen(user_runner.path, "run", "--workspace", "direct", "--", "/usr/bin/python3", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"up\n"
        r = user_runner.run("prlimit", "--pid", str(pid_1_of(p.pid)), f"--nofile={limit}:{limit}")
        assert r.rc == 0, r
        out, _ = p.communicate(b"\n")
        assert b"wrote" not in out, (limit, out)
        seen.append(out)
    assert seen[0] == b"" and seen[-1] == b"plain\n", "neither too few nor enough descriptors were tried"
