# SPDX-License-Identifier: Apache-2.0
"""The ground of a root (src/jail/apply/ground.h): made once, shared, never written by a sandbox, never taken away from one that runs."""
import os
import pwd
import shutil
import struct
import subprocess
import sys

import pytest

MANY = 40  # more than GROUNDS_MAX
ROOT_OF = "grep -E '^[^ ]+ [^ ]+ [^ ]+ [^ ]+ / ' /proc/self/mountinfo"


def roots(runner):
    return runner.home / ".local/state/bawn/run/roots"


def names(runner):
    return sorted(os.listdir(roots(runner)))


def ground(runner, *options):
    """The name of the ground that the root inside stands on; None: it is in memory."""
    r = runner.bawn("run", *options, "--", "sh", "-c", ROOT_OF)
    assert r.rc == 0, r
    source = r.out.decode().split()[3]
    return os.path.basename(source) if "/bawn/run/roots/" in source else None


def test_made_once(runner):
    name = ground(runner)
    before = os.stat(roots(runner) / name)
    assert ground(runner) == name and names(runner) == [name]
    after = os.stat(roots(runner) / name)
    assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns)


def test_another_root_is_another_ground(runner):
    extra = runner.mkdir(runner.top / "extra")
    plain, mounted = ground(runner), ground(runner, "--mount", f"{extra}:/mnt/extra")
    assert plain != mounted and names(runner) == sorted([plain, mounted])
    assert ground(runner) == plain


@pytest.mark.parametrize("mode", ["direct", "ro", "overlay", "sync"])
def test_inside_cannot_write_it(runner, mode):
    write = "for d in / /etc /run /var /var/cache /home /sys /dev; do touch $d/x 2>/dev/null && echo $d; chmod 0777 $d 2>/dev/null && echo mode of $d; done; echo over > /etc/passwd; ls /proc/file /proc/dir; touch /tmp/x ~/x /dev/shm/x && echo private"
    r = runner.bawn("run", "-w", mode, "--", "sh", "-c", write)
    assert r.out == b"private\n", r
    one = roots(runner) / names(runner)[0]
    assert not os.listdir(one / "tmp")
    assert (one / "etc/passwd").read_text().startswith("root:x:0:0:")


def test_one_in_use_stays(runner):
    name = ground(runner)
    with runner.popen(runner.path, "run", "--", "sh", "-c", "echo up; read x; cat /etc/hostname; ls /usr/bin/env; touch /tmp/x && echo done",
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == b"up\n"
        for i in range(MANY):
            runner.mkdir(roots(runner) / f"{i:064x}")
        new = ground(runner, "--mount", f"{runner.workspace}:/mnt/again")
        assert names(runner) == sorted([name, new])
        out, _ = running.communicate(b"\n")
    assert out == b"bawn\n/usr/bin/env\ndone\n"


def test_left_by_a_crash(runner):
    first = ground(runner)
    for left in (".new-0123456789abcdef", ".gone-0123456789abcdef"):
        runner.mkdir(runner.mkdir(roots(runner) / left) / "etc")
    second = ground(runner, "--mount", f"{runner.workspace}:/mnt/again")
    assert names(runner) == sorted([first, second])


def replaced(runner):
    shutil.rmtree(roots(runner))
    roots(runner).write_text("no folder")


def of_all(runner):
    os.chmod(roots(runner), 0o777)


def a_link(runner):
    os.rename(roots(runner), runner.top / "elsewhere")
    os.symlink(runner.top / "elsewhere", roots(runner))


@pytest.mark.parametrize("spoil", [replaced, of_all, a_link])
def test_without_one_the_root_is_in_memory(runner, spoil):
    assert ground(runner)
    spoil(runner)
    assert ground(runner) is None
    assert runner.bawn("run", "--", "sh", "-c", "cat /etc/hostname; ls -d /usr/bin; touch /x").out == b"bawn\n/usr/bin\n"


def test_runs_of_a_service_have_none(runner):
    meter = runner.write("../meter", struct.pack("=8sQQQ", b"bawnmet1", 0, 2**64 - 1, 0))
    r = runner.bawn("run", "--", "sh", "-c", ROOT_OF, env={"BAWN_METER": str(meter)})
    assert r.rc == 0 and b" - tmpfs " in r.out, r
    assert not roots(runner).exists()


def test_a_runtime_folder_that_is_not_there_is_not_made(runner):
    missing = runner.home / "missing"
    r = runner.bawn("run", "--", "sh", "-c", ROOT_OF, env={"XDG_RUNTIME_DIR": str(missing / "runtime")})
    assert r.rc == 0 and b"/roots/" not in r.out, r
    assert not missing.exists()


SWAP = """
import ctypes, sys
libc = ctypes.CDLL(None)
print("up", flush=True)
while True:
    libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)
"""


def test_who_owns_a_folder_above_it_cannot_put_another_in_its_place(root_runner):
    """After `su` $XDG_RUNTIME_DIR is another user's: the folder in it is root's, but that user may rename it."""
    user = pwd.getpwnam("bawn-test")
    runtime = root_runner.mkdir(root_runner.top / "runtime")
    os.chown(runtime, user.pw_uid, user.pw_gid)
    env = {"XDG_RUNTIME_DIR": str(runtime)}
    assert root_runner.bawn("run", "--", "true", env=env).rc == 0
    name, = os.listdir(runtime / "bawn/roots")
    shutil.copytree(runtime / "bawn", runtime / "evil", symlinks=True)
    (runtime / "evil/roots" / name / "planted").write_text("planted")
    subprocess.run(["chown", "-Rh", "bawn-test", runtime / "evil"], check=True)
    with subprocess.Popen([sys.executable, "-c", SWAP, runtime / "bawn", runtime / "evil"], user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                          stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout.readline() == b"up\n"
        try:
            seen = [root_runner.bawn("run", "--", "sh", "-c", "cat /etc/hostname; cat /planted; true", env=env) for _ in range(40)]
        finally:
            swapping.kill()
    assert [r for r in seen if r.rc != 0 or r.out != b"bawn\n"] == []
