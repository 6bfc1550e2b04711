# SPDX-License-Identifier: Apache-2.0
"""Root of a user namespace below the sandbox's (--nested), with every capability there: the walls are the same."""

import os
import stat

import pytest

SECRET = b"hidden-value-7c1"
# With mounts of its own, all capabilities in it; without --nested not even this is there.
ENTER = "exec unshare -Urm --propagation private sh -c "


@pytest.fixture
def yard(runner):
    runner.write(".sandboxignore", "secret.txt\nhidden/\n")
    runner.write("secret.txt", SECRET)
    runner.write("hidden/key", SECRET)
    runner.write("plain", "x")

    def run(script, *options):
        r = runner.bawn("run", "--network", "none", "--nested", *options, "--", "sh", "-c", ENTER + '"$0"', script)
        assert b"entered" in r.out, r
        return r

    run.runner = runner
    return run


GO = "echo entered; grep -q 'CapEff:.*1ffffffffff' /proc/self/status && echo capable; mkdir -p /tmp/m /tmp/u /tmp/w; "


@pytest.mark.parametrize("mode", ["ro", "overlay", "sync"])
def test_hidden_files_stay_hidden(yard, mode):
    """Covers are not to be removed, moved, bound around, or passed by an overlay whose lower folder is the workspace."""
    r = yard(GO + """for f in secret.txt hidden; do umount $f; umount -l $f; mount --move $f /tmp/m; done
        mount --bind . /tmp/m && find /tmp/m -type f -exec cat {} + ; umount /tmp/m
        mount --rbind . /tmp/m && cat /tmp/m/secret.txt /tmp/m/hidden/key; umount -l /tmp/m
        mount -t overlay -o userxattr,lowerdir=.,upperdir=/tmp/u,workdir=/tmp/w none /tmp/m && find /tmp/m -type f -exec cat {} + ; umount /tmp/m
        umount -l . ; umount -l "$PWD"; cd / && cd - >/dev/null && cat secret.txt hidden/key; true""", "-w", mode)
    assert b"capable" in r.out and SECRET not in r.out + r.err, r


def test_nothing_read_only_becomes_writable(yard):
    r = yard(GO + """for d in / /usr /etc /proc/sys /proc/1; do mount -o remount,bind,rw $d; done
        mount --bind /usr /tmp/m; mount -o remount,bind,rw /tmp/m; touch /tmp/m/x /usr/x /etc/x && echo WRITTEN
        echo x > /proc/sys/kernel/core_pattern && echo WRITTEN; umount -l /proc/sys; echo x > /proc/sys/kernel/hostname && echo WRITTEN
        mount -o remount,bind,suid,dev /tmp && echo LOOSENED; true""")
    assert b"capable" in r.out and b"WRITTEN" not in r.out and b"LOOSENED" not in r.out, r


def test_no_new_view_of_the_kernel(yard):
    """No whole /proc or /sys, no hierarchy of control groups (a limit's file may be the user's), no other network."""
    r = yard(GO + """mount -t proc none /tmp/m && echo GOT proc; unshare -pf --mount-proc=/tmp/m true && echo GOT proc
        for t in sysfs cgroup cgroup2 debugfs tracefs securityfs bpf; do mount -t $t none /tmp/m && echo GOT $t; done
        mount -t cgroup -o memory none /tmp/m && echo GOT memory; unshare -C true && echo GOT cgroups; unshare -n true && echo GOT net; unshare -T true && echo GOT time
        cat /proc/keys /proc/timer_list /proc/kcore 2>/dev/null | head -c 9; umount /proc/keys && echo GOT keys; true""")
    assert b"capable" in r.out and b"GOT" not in r.out, r


def test_no_reach_to_pid_1_or_the_host(yard):
    r = yard(GO + """nsenter -t 1 -m true && echo GOT; nsenter -t 1 -U true && echo GOT; cat /proc/1/environ /proc/1/maps && echo GOT; kill -9 1
        mknod /tmp/d b 8 0 && echo GOT; ip link set lo down && echo GOT; chroot /proc/1/root ls && echo GOT; echo alive""")
    assert b"capable" in r.out and b"GOT" not in r.out and b"alive" in r.out, r


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
def test_set_id_files_do_not_leave(yard, mode):
    """Layers have such files. Inside they do nothing, and only folders that are the user's alone have them outside; apply drops the bits."""
    runner = yard.runner
    if mode == "worktree":
        for cmd in (["git", "init", "-q"], ["git", "add", "plain"], ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"]):
            assert runner.run(*cmd).rc == 0
    r = yard(GO + "python3 -c 'import os; os.close(os.open(\"made\", os.O_CREAT | os.O_WRONLY, 0o6755))'; ls -l made", "-w", mode)
    assert b"made" in r.out, r
    found = [os.path.join(d, f) for d, _, files in os.walk(runner.home) for f in files if os.lstat(os.path.join(d, f)).st_mode & 0o6000]
    state = runner.home / ".local/state/bawn"
    assert all(path.startswith(f"{state}/") for path in found) and stat.S_IMODE(state.stat().st_mode) == 0o700, found
    if mode != "sync":
        done = runner.bawn("apply", "--yes")
        assert done.rc == 0, done
    made = runner.workspace / "made"
    assert not made.stat().st_mode & 0o6000 if made.exists() else mode == "sync"


def test_only_the_users_flag_allows_it(runner):
    """No file of a project makes a sandbox a nested one (nor a trusted one: tests/integration/test_nested.py)."""
    runner.write(".bawn/config.json", '{"sandbox": {"nested": true}}')
    r = runner.bawn("run", "--network", "none", "--", "unshare", "-Ur", "true")
    assert r.rc != 0, r
