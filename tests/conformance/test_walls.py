# SPDX-License-Identifier: Apache-2.0
"""Attacks, whichever engine makes the sandbox. Each works without one."""

import pathlib
import subprocess
import time

import pytest

NOT_STARTED = {64: "usage error", 125: "Bawn failed", 126: "the probe is not executable", 127: "the probe was not found"}


def prove(box, probe, *options):
    outside = box.runner.run("sh", "-c", probe)
    assert outside.rc == 0, f"the probe does not work even without the sandbox:{outside!r}"
    inside = box.run("sh", "-c", probe, options=options)
    assert inside.rc not in NOT_STARTED, f"{NOT_STARTED[inside.rc]}:{inside!r}"
    assert inside.rc != 0, f"the attack works inside:{inside!r}"
    return inside


def test_files_of_the_host_are_not_there(box):
    """Claim: behind every engine, of the host there is the workspace and read-only tools."""
    secret = box.runner.write(box.runner.home / "secret", "s\n")
    beside = box.runner.write(box.runner.top / "beside", "s\n")
    prove(box, f"cat {secret}")
    prove(box, f"cat {beside}")
    prove(box, f"test -e {pathlib.Path.cwd()}")


def test_hidden_files_are_not_there(box):
    """Claim: what .sandboxignore hides is not there behind any engine."""
    box.runner.write(".sandboxignore", "*.key\n")
    box.runner.write("a.key", "k\n")
    box.runner.write("deep/b.key", "k\n")
    prove(box, "cat a.key || cat deep/b.key")


def test_a_hidden_file_that_appears_later_is_not_there(box):
    """Claim: nor if it appears while the command runs."""
    box.runner.write(".sandboxignore", "*.key\n")
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "echo up; read go; cat late.key", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    box.runner.write("late.key", "k\n")
    time.sleep(0.3)
    out, err = p.communicate(b"go\n")
    assert p.returncode != 0 and out == b"", (out, err)


def test_hooks_are_not_changed_unseen(box):
    """Claim: what the host would run is not changed by a run, behind any engine."""
    assert box.runner.run("git", "init", "-q").rc == 0
    box.run("sh", "-c", "echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; git config core.fsmonitor evil; true")
    assert not (box.workspace / ".git/hooks/pre-commit").exists()
    assert "evil" not in (box.workspace / ".git/config").read_text()


def test_privileges_are_none(box):
    """Claim: no capability in any set, no new privileges, a system call filter."""
    r = box.run("cat", "/proc/self/status")
    fields = dict(line.split(":\t", 1) for line in r.out.decode().splitlines() if ":\t" in line)
    names = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
    if box.name == "gvisor":  # which has no ambient capabilities, and does not say NoNewPrivs there
        names.remove("CapAmb")
        fields["NoNewPrivs"] = box.run("/usr/bin/python3", "-c", "import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))").out.decode().strip()
    assert {fields[k].strip("0") for k in names} == {""}, r
    assert fields["NoNewPrivs"] == "1" and fields["Seccomp"] == "2", r


def test_no_process_of_the_host_is_seen(box):
    """Claim: processes outside do not exist inside."""
    p = box.runner.popen("sleep", "4711")
    try:
        while b"4711" not in pathlib.Path(f"/proc/{p.pid}/cmdline").read_bytes():
            time.sleep(0.01)  # Popen returns when exec closes its pipe, which is before the arguments are in place
        prove(box, "grep -l 471[1] /proc/[0-9]*/cmdline 2> /dev/null | grep -q .")
    finally:
        p.kill()
        p.wait()


PID_1 = """
import os, signal


def environ():
    print(open("/proc/1/environ").read(), end="")


def descriptors():  # gVisor lists them, and opens pipes, which are those of commands
    for fd in os.listdir("/proc/1/fd"):
        name = os.readlink(f"/proc/1/fd/{fd}")
        if not name.startswith("pipe:") and name != "/dev/null":
            os.open(f"/proc/1/fd/{fd}", os.O_RDWR | os.O_NONBLOCK)
            print("opened", name)


def threads():
    for tid in os.listdir("/proc/1/task"):
        os.kill(int(tid), signal.SIGKILL)


def its_group():  # a child: the signal is for the whole group
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 1)
            os.kill(0, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


for how in (lambda: os.kill(1, signal.SIGKILL), lambda: os.kill(1, signal.SIGTERM), lambda: os.kill(-1, signal.SIGKILL), threads, environ, descriptors,
            lambda: print(open("/proc/1/mem", "rb").read(1)), its_group):
    try:
        how()
    except OSError:
        pass
print(open("/proc/1/comm").read().strip())
"""


def test_pid_1_cannot_be_looked_into_or_signalled(box):
    """Claim: bawn-init's memory, environment and descriptors are closed to the inside, and it survives every signal."""
    r = box.run("/usr/bin/python3", "-c", PID_1)
    assert (r.rc, r.out) == (0, b"bawn-init\n"), r


def test_the_kernel_is_another_one(box):
    """Claim: behind an engine with the guarantee "kernel" system calls go to a kernel of its own, and behind another one they do not."""
    inside = box.run("cat", "/proc/version").out
    assert (inside != pathlib.Path("/proc/version").read_bytes()) == ("kernel" in box.keeps()), inside


def test_nothing_of_the_engine_is_inside(box):
    """Claim: neither a socket of the engine nor the one that the sandbox was started by can be reached."""
    r = box.run("sh", "-c", "find / -xdev -type s 2> /dev/null; for s in /run/bawn/sock /run/bawn-link/sock /var/run/docker.sock /run/podman/podman.sock; do test -e $s && echo $s; done; true")
    assert r.out == b"", r
    r = box.run("sh", "-c", "env | grep -i -E 'docker|podman|SANDBOX_FLAGS'")
    assert r.out == b"", r


def test_the_root_is_read_only(box):
    """Claim: the system inside cannot be changed."""
    r = box.run("sh", "-c", "for d in / /usr/bin /etc /run /run/bawn /run/bawn-link /var /sys; do touch $d/x 2> /dev/null && echo $d; done; true")
    assert r.rc == 0 and r.out == b"", r


def test_kernel_settings_cannot_be_changed(box):
    """Claim: /proc/sys is read-only."""
    r = box.run("sh", "-c", "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/sysrq-trigger; do (echo x > $f) 2> /dev/null && echo $f; done; true")
    assert r.rc == 0 and r.out == b"", r


@pytest.mark.parametrize("how", ["unshare -U true", "unshare -m true", "mount -t tmpfs none /mnt", "chroot / true"])
def test_no_namespaces_and_mounts(box, how):
    """Claim: no namespace, no mount."""
    r = box.run("sh", "-c", f"{how} 2> /dev/null || exit 33")
    assert r.rc == 33, r
