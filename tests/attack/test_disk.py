# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C2.27 and C5.81: storage is bounded."""

import os
import time

import pytest

MIB = 1 << 20


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "$HOME", "/var/tmp", "/run"])
def test_private_areas_end_at_the_disk_limit(runner, place):
    """Claim: /tmp, /dev/shm, home... together never hold more than --disk (27)."""
    fill = f"d={place}; test -w $d || exit 3; head -c 96M /dev/zero > $d/fill; r=$?; stat -c %s $d/fill; exit $r"
    outside = runner.run(
        "sh",
        "-c",
        fill.replace("$HOME", str(runner.workspace))
        .replace("/run", "/tmp")
        .replace("$d/fill", f"$d/fill-{os.getpid()}")
        + f"; rm -f $d/fill-{os.getpid()}",
    )
    for top in ("/tmp", "/dev/shm", "/var/tmp", runner.workspace):
        if os.path.exists(f"{top}/fill-{os.getpid()}"):
            os.unlink(f"{top}/fill-{os.getpid()}")
    assert outside.out == b"%d\n" % (96 * MIB), outside
    inside = runner.bawn("run", "--disk", "32m", "--memory", "1g", "--", "sh", "-c", fill)
    assert inside.rc != 0, inside
    if inside.rc not in (3, 125, 137):
        assert int(inside.out or b"0") <= 33 * MIB, inside


def test_private_areas_share_one_limit(inside):
    """Claim: spreading over several private folders does not multiply the limit (27)."""
    written = inside(
        """
        import os
        total = 0
        for place in ("/tmp", "/dev/shm", os.environ["HOME"], "/var/tmp", "/run", "/"):
            try:
                f = open(place + "/fill", "wb", buffering=0)
                while True: total += f.write(bytes(1 << 20))
            except OSError: pass
        print(total)
    """,
        "--disk",
        "32m",
        "--memory",
        "1g",
    )
    assert int(written) <= 40 * MIB


def test_inodes_are_bounded(inside):
    """Claim: empty files end too, long before the host's memory does (27)."""
    made = inside(
        """
        import os
        n = 0
        try:
            for n in range(3_000_000): os.close(os.open("/tmp/%d" % n, os.O_CREAT | os.O_WRONLY))
        except OSError: pass
        print(n)
    """,
        "--disk",
        "32m",
    )
    assert int(made) < 1_000_000


def test_growth_of_the_workspace_ends_at_the_disk_limit(runner):
    """Claim: with --disk a run cannot fill the host's disk through the workspace (27)."""
    fill = "for i in 1 2 3 4 5 6 7 8; do head -c 50M /dev/zero > big$i || exit 9; done; sync; sleep $1"
    assert runner.run("sh", "-c", fill, "sh", "0").rc == 0
    runner.run("sh", "-c", "rm big*")
    r = runner.bawn("run", "--disk", "64m", "--", "sh", "-c", fill, "sh", "60")
    assert r.rc not in (0, 125), r
    assert b"bawn: disk limit 64 MiB reached" in r.err, r


def test_one_file_never_grows_past_the_disk_limit(runner):
    """Claim: one large file ends exactly at the limit, however fast it is written (27)."""
    r = runner.bawn("run", "--disk", "64m", "--", "sh", "-c", "head -c 400M /dev/zero > big && echo all")
    assert b"all" not in r.out and r.rc not in (0, 125), r
    assert (runner.workspace / "big").stat().st_size <= 64 * MIB


def test_a_sparse_file_takes_nothing(runner):
    """Claim: an apparent size is neither a way past the limit nor counted as use (27)."""
    r = runner.bawn("run", "--disk", "64m", "--", "sh", "-c", "truncate -s 32M a b c d e f && sleep 1.5 && echo fine")
    assert (r.rc, r.out) == (0, b"fine\n"), r
    r = runner.bawn("run", "--disk", "64m", "--", "sh", "-c", "truncate -s 1T huge && echo made")
    assert b"made" not in r.out, r


def test_many_small_files_in_the_workspace_count_too(runner):
    """Claim: growth is counted over all files, not per file (27)."""
    r = runner.bawn(
        "run",
        "--disk",
        "16m",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 400 ]; do head -c 256K /dev/zero > f$i || exit 9; i=$((i+1)); done; sync; sleep 60",
    )
    assert r.rc != 0 and b"disk limit" in r.err, r


HIDING = {
    "closed-folder": "mkdir d; i=0; while [ $i -lt 8 ]; do head -c 16M /dev/zero > d/f$i; i=$((i+1)); done; chmod 000 d; sleep 30; echo hidden",
    "deep-folder": "i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done; i=0; while [ $i -lt 8 ]; do head -c 16M /dev/zero > f$i; i=$((i+1)); done; sleep 30; echo hidden",
    "deleted-files": '/usr/bin/python3 -c \'import os, time\nheld = []\nfor i in range(8):\n  f = open("gone", "wb"); os.unlink("gone"); f.write(bytes(16 << 20)); f.flush(); held.append(f)\n'
    'time.sleep(30); print("hidden")\'',
    # space that was never written: nothing but the file system knows of it
    "closed-folder, reserved": "mkdir d; for i in 0 1 2 3 4 5 6 7; do fallocate -l 16M d/f$i; done; chmod 000 d; sleep 30; echo hidden",
    "deep-folder, reserved": "i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done; for i in 0 1 2 3 4 5 6 7; do fallocate -l 16M f$i; done; sleep 30; echo hidden",
}


@pytest.mark.parametrize("how", HIDING)
def test_growth_cannot_be_hidden(runner, how):
    """Claim: folders that cannot be entered, great depth and deleted files do not hide growth from the limit (27)."""
    outside = runner.run("sh", "-c", HIDING[how].replace("sleep 30", "true").replace("sleep(30)", "sleep(0)"))
    runner.run("sh", "-c", "chmod -R u+rwx d; rm -rf d")
    assert outside.out == b"hidden\n", outside
    r = runner.bawn("run", "--disk", "32m", "--", "sh", "-c", HIDING[how])
    runner.run("sh", "-c", "chmod -R u+rwx d; rm -rf d")
    assert b"hidden" not in r.out and b"disk limit 32 MiB reached" in r.err, r


def test_a_closed_folder_of_the_host_is_no_growth(user_runner):
    """A folder that cannot be looked into, but was so before the run, does not end it, whatever others write meanwhile."""
    user_runner.mkdir(user_runner.workspace / "closed", 0o000)
    time.sleep(1.1)  # the watch knows whole seconds
    other = user_runner.run("sh", "-c", "(sleep 0.5; fallocate -l 64M ../other; sleep 2; rm ../other) >/dev/null 2>&1 &")
    assert other.rc == 0, other
    r = user_runner.bawn("run", "--disk", "16m", "--", "sh", "-c", "sleep 2; echo fine")
    assert (r.rc, r.out) == (0, b"fine\n"), r
