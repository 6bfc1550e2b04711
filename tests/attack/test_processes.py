# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C5.70-75, 80: other processes, their memory, their secrets; signals."""

import os
import re
import signal
import subprocess
import time

import pytest


@pytest.fixture
def victim(runner, marker):
    """A process of the same user outside, with the marker in its environment and arguments."""
    p = runner.popen("sh", "-c", "sleep 1000; :", marker, env={"TOKEN": marker}, stdin=subprocess.DEVNULL)
    while marker.encode() not in open(f"/proc/{p.pid}/cmdline", "rb").read():
        time.sleep(0.01)
    yield p
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()


def test_no_process_of_the_host_is_seen(pyattack, victim, marker):
    """Claim: /proc holds the sandbox's own processes only (70)."""
    pyattack(
        """
        for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
            if str(os.getpid()) in path: continue
            try: text = open(path, "rb").read()
            except OSError: continue
            if sys.argv[1][::-1].encode() in text: return path
        return False
    """,
        args=[marker[::-1]],
    )


def test_only_the_sandbox_s_own_processes_exist(runner):
    """Claim: PID 1 is Bawn's init, and there is nobody besides it and the command (70)."""
    r = runner.bawn("run", "--", "sh", "-c", "ls /proc | grep -c '^[0-9]'; sleep 0")
    assert r.out in (b"3\n", b"4\n"), r  # init, sh, ls, grep


@pytest.mark.parametrize(
    "file", ["environ", "mem", "maps", "auxv", "stack", "fdinfo/0", "io", "personality", "syscall"]
)
def test_pid_1_is_closed(pyattack, victim, file):
    """Claim: memory, environment and descriptors of PID 1 cannot be read (70)."""
    pyattack(
        """
        fd = os.open(sys.argv[1], os.O_RDONLY)
        if sys.argv[1].endswith("/mem"): return fd
        return len(os.read(fd, 100)) > 0
    """,
        args=[f"/proc/{victim.pid}/{file}"],
        inside_args=[f"/proc/1/{file}"],
        shown_by_root=file == "stack",
    )


def test_descriptors_of_pid_1_cannot_be_listed(pyattack, victim):
    """Claim: the same for the list of its descriptors (70)."""
    pyattack("return len(os.listdir(sys.argv[1]))", args=[f"/proc/{victim.pid}/fd"], inside_args=["/proc/1/fd"])


@pytest.mark.parametrize("name,more", [("ptrace", []), ("pidfd_getfd", ["0"]), ("kcmp", [])])
def test_pid_1_cannot_be_traced(cattack, victim, name, more):
    """Claim: ptrace, pidfd_getfd and kcmp fail on PID 1 (71)."""
    cattack(name, victim.pid, *more, inside_args=["1", *more])


def test_memory_of_pid_1_cannot_be_read(cattack, victim):
    """Claim: process_vm_readv fails on PID 1; EPERM, so whatever the address is (71)."""
    address = re.search(r"-([0-9a-f]+) .*\[stack\]", open(f"/proc/{victim.pid}/maps").read())[1]
    r = cattack("process_vm_readv", victim.pid, hex(int(address, 16) - 64), inside_args=["1", "0x7fff00000000"])
    assert b"not permitted" in r.out or b"denied" in r.out or b"not implemented" in r.out, r


@pytest.mark.parametrize("name,more", [("ptrace", []), ("pidfd_getfd", ["0"]), ("kill", ["0"])])
def test_outside_processes_cannot_be_named(cattack, victim, name, more):
    """Claim: the number of an outside process means nothing inside (71, 80)."""
    cattack(name, victim.pid, *more)


def test_own_children_can_be_traced(inside):
    """Claim: debuggers work on the sandbox's own processes (so the refusals above are about PID 1, not about tracing)."""
    assert "exited with 0" in inside(
        """
        import subprocess
        print(subprocess.run(["strace", "-f", "true"], capture_output=True, text=True).stderr)
    """
    )


def test_arguments_of_pid_1_tell_nothing(runner, marker):
    """Claim: neither the host's environment nor the supervisor's arguments are legible inside (72)."""
    r = runner.bawn(
        "run",
        "--env",
        "PUBLIC=1",
        "--",
        "sh",
        "-c",
        "cat /proc/1/cmdline /proc/1/comm /proc/[0-9]*/environ | tr '\\0' '\\n'",
        env={"TOKEN": marker},
    )
    assert marker.encode() not in r.out, r
    arguments = [line for line in r.out.splitlines() if b"=" not in line]  # variables name the home inside, which has the same path for a user
    assert arguments and os.fsencode(runner.home) not in b"\n".join(arguments), r


def test_a_crash_leaves_no_memory_image(runner):
    """Claim: a crashing command leaves no core file on the host (73)."""
    crash = "ulimit -c unlimited 2>/dev/null; ulimit -c 1000 2>/dev/null; sh -c 'kill -SEGV $$'; true"
    runner.bawn("run", "--", "sh", "-c", crash)
    assert not list(runner.workspace.glob("core*"))


def test_the_supervisor_does_not_dump_core(runner):
    """Claim: Bawn's own processes leave no core file, which would hold the user's environment (73)."""
    p = runner.popen(
        "sh",
        "-c",
        f"ulimit -S -c $(ulimit -H -c); exec {runner.path} run -- sh -c 'echo up; sleep 1000'",
        stdout=subprocess.PIPE,
    )
    assert p.stdout.readline() == b"up\n"
    os.kill(p.pid, signal.SIGABRT)
    p.wait()
    p.stdout.close()
    assert not list(runner.workspace.glob("core*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGHUP])
def test_signals_to_everybody_stay_inside(runner, victim, number):
    """Claim: kill(-1) ends the sandbox's own processes only (80)."""
    r = runner.bawn(
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        f"import os, subprocess; subprocess.Popen(['sleep', '1000']); os.kill(-1, {int(number)}); print('sent')",
    )
    assert r.rc == 0 and r.out == b"sent\n", r
    assert victim.poll() is None
    assert open(f"/proc/{victim.pid}/stat").read().rsplit(")", 1)[1].split()[0] in "SR"


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV, signal.SIGABRT, signal.SIGUSR1]
)
def test_pid_1_survives_signals_from_inside(runner, number):
    """Claim: the command cannot end or stop the sandbox's init (80)."""
    r = runner.bawn("run", "--", "sh", "-c", f"kill -{int(number)} 1; sleep 0.1; echo still here; exit 7")
    assert (r.rc, r.out) == (7, b"still here\n"), r


def test_the_supervisor_cannot_be_signalled(runner):
    """Claim: no process number inside is the supervisor: parent of PID 1 is 0 (80)."""
    r = runner.bawn("run", "--", "sh", "-c", "grep PPid /proc/1/status; kill -9 0")
    assert r.out == b"PPid:\t0\n", r


def test_privileges_are_none(inside):
    """Claim: no capability in any set, no_new_privs, a filter, a user id that is nobody on the host."""
    status = dict(
        line.split(":\t", 1) for line in inside("print(open('/proc/self/status').read())").splitlines() if ":\t" in line
    )
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert "0" not in status["Uid"].split()


def test_ids_on_the_host_are_unprivileged(root_runner):
    """Claim: started by root, the command is no root on the host, and neither is its init."""
    p = root_runner.popen(root_runner.path, "run", "--", "sh", "-c", "echo up; sleep 1000; :", stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"up\n"
        found = family(p.pid)
        assert len(found) >= 2
        for pid in found:
            uids = re.search(r"Uid:\t(.*)", open(f"/proc/{pid}/status").read())[1].split()
            groups = re.search(r"Groups:\t(.*)", open(f"/proc/{pid}/status").read())[1].split()
            assert "0" not in uids and "0" not in groups, (pid, uids, groups)
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


def family(pid):
    """Every descendant."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parent = int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def test_all_namespaces_are_own(runner):
    """Claim: user, mount, pid, ipc, uts, net and cgroup namespaces all differ from the host's."""
    kinds = ["user", "mnt", "pid", "ipc", "uts", "net", "cgroup"]
    r = runner.bawn("run", "--", "sh", "-c", "for k in %s; do readlink /proc/self/ns/$k; done" % " ".join(kinds))
    assert r.rc == 0, r
    for kind, link in zip(kinds, r.out.decode().splitlines(), strict=True):
        assert link != os.readlink(f"/proc/self/ns/{kind}"), kind


def test_kernel_keyrings_are_not_shared(runner):
    """Claim: a key in the user's session keyring cannot be found inside (79)."""
    code = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    r = libc.syscall(*a)
    if r < 0: raise OSError(ctypes.get_errno(), "key call")
    return r
"""
    find = (
        code
        + """
try: print("found", call(250, 10, ctypes.c_long(-3), b"user", b"bawn-test-key", 0))
except OSError as e: print("refused", e); sys.exit(3)
"""
    )
    plant = (
        code
        + """
import subprocess
call(250, 1, None)
call(248, b"user", b"bawn-test-key", b"secret", ctypes.c_size_t(6), ctypes.c_long(-3))
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
    )
    outside = runner.run("/usr/bin/python3", "-c", plant, "/usr/bin/python3", "-c", find)
    assert outside.rc == 0 and outside.out.startswith(b"found"), outside
    inside = runner.run("/usr/bin/python3", "-c", plant, runner.path, "run", "--", "/usr/bin/python3", "-c", find)
    assert inside.rc == 3 and b"refused" in inside.out, inside


def test_hostname_of_the_sandbox_is_its_own(inside):
    """Claim: the UTS namespace is separate; the host's name cannot be changed (C5)."""
    before = os.uname().nodename
    inside(
        """
        import ctypes
        libc = ctypes.CDLL(None); assert libc.sethostname(b"owned", 5) != 0
    """
    )
    assert os.uname().nodename == before


def test_shared_memory_of_the_host_is_not_there(pyattack):
    """Claim: System V shared memory of the host cannot be attached (C5; IPC namespace)."""
    made = pyattack.runner.run("ipcmk", "-M", "4096", "-p", "0666")
    ident = re.search(rb"(\d+)", made.out)[1].decode()
    try:
        pyattack(
            """
            libc = ctypes.CDLL(None, use_errno=True)
            libc.shmat.restype = ctypes.c_void_p
            r = libc.shmat(int(sys.argv[1]), None, 0)
            if r == ctypes.c_void_p(-1).value: raise OSError(ctypes.get_errno(), "shmat")
            return r
        """,
            args=[ident],
        )
    finally:
        pyattack.runner.run("ipcrm", "-m", ident)
