# SPDX-License-Identifier: Apache-2.0
"""--tmp-size: home and /tmp in memory up to half of its limit, on disk above, with a size that holds."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

MIB = 1 << 20
ON_DISK = ("-m", "64m", "--tmp-size", "160m", "--network", "none")
FILL = "i=0; while [ $i -lt 60 ]; do head -c 8M /dev/zero > {0}/fill$i || exit 9; i=$((i+1)); done; sync {0}; sleep 60"


def private(runner):
    return runner.home / ".local/state/bawn/private"


def left(runner):
    return sorted(private(runner).iterdir()) if private(runner).exists() else []


def result_of(r):
    return json.loads(r.err.splitlines()[-1])


def size_inside(runner, place, *options):
    r = runner.bawn("run", *options, "--network", "none", "--", "sh", "-c", f"df --output=size,fstype -B1M {place} | tail -1")
    assert r.rc == 0, r
    return r.out.split()


@pytest.mark.parametrize("options, size", [(("-m", "64m"), 32), (("-m", "64m", "--tmp-size", "32m"), 32), (("-m", "64m", "--tmp-size", "8m"), 8),
                                           (("-m", "64m", "--tmp-size", "20m", "--disk", "10m"), 10)])
def test_up_to_half_of_the_memory_it_is_in_memory(runner, options, size):
    for place in ("/tmp", "$HOME", "/var/tmp"):
        assert size_inside(runner, place, *options) == [b"%d" % size, b"tmpfs"]
    assert left(runner) == []


def test_more_is_on_disk_and_no_memory(runner):
    """Three times the memory limit: in memory this would be the end of it. Afterwards nothing of it is left."""
    script = "head -c 100M /dev/zero > /tmp/a && head -c 50M /dev/zero > ~/b && cp ~/b /var/tmp/c && cmp ~/b /var/tmp/c && rm /tmp/a && stat -c %s ~/b"
    r = runner.bawn("run", "--json", "-m", "64m", "--tmp-size", "400m", "--network", "none", "--", "sh", "-c", script)
    assert (r.rc, r.out) == (0, b"%d\n" % (50 * MIB)) and result_of(r)["limits_hit"] == [], r
    assert left(runner) == [] and private(runner).stat().st_mode & 0o777 == 0o700
    assert size_inside(runner, "/dev/shm", *ON_DISK) == [b"32", b"tmpfs"]
    assert size_inside(runner, "/tmp", *ON_DISK)[1] != b"tmpfs"


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "ro"])
def test_it_is_an_ordinary_home(runner, mode):
    """With what comes into each home, the modes of /tmp, programs, links, sockets and git, beside a workspace that lies below /var/tmp."""
    script = """
        test "$(stat -c %a /tmp)$(stat -c %a /var/tmp)$(stat -c %a ~)" = 17771777700 && test -O ~ && test -e ~/.gitconfig && test -L ~/.npm &&
        cd ~ && cp /bin/echo mine && ./mine runs && ln mine other && ln -s mine link && ./link too && mkfifo /tmp/pipe &&
        git init -q /tmp/r && cd /tmp/r && echo x > f && git add f && git -c user.name=a -c user.email=a@b commit -qm m && git log --oneline | wc -l &&
        ls "$1" && /usr/bin/python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("/tmp/sock"); s.listen()' && echo fine
    """
    runner.write("seen", "x")
    r = runner.bawn("run", "-w", mode, *ON_DISK, "--", "sh", "-c", script, "sh", runner.workspace)
    assert (r.rc, r.out) == (0, b"runs\ntoo\n1\nseen\nfine\n"), r
    assert left(runner) == [] and os.listdir(runner.workspace) == ["seen"]


@pytest.mark.parametrize("place", ["/tmp", "$HOME"])
def test_past_the_size_the_run_ends_and_the_limit_is_named(runner, place):
    r = runner.bawn("run", "--json", *ON_DISK, "--", "sh", "-c", FILL.format(place))
    assert r.rc not in (0, 9, 125) and result_of(r)["limits_hit"] == ["private"], r
    assert b"bawn: home and /tmp limit 160 MiB reached (flag --tmp-size)" in r.err, r
    assert '"limit":"private"' in runner.bawn("log", "--json").out.decode().replace(" ", "")
    assert left(runner) == []


def test_it_counts_for_the_disk_limit(runner):
    script = "head -c 60M /dev/zero > big; head -c 60M /dev/zero > /tmp/big; sync . /tmp; sleep 60"
    r = runner.bawn("run", "--json", "-m", "64m", "--tmp-size", "90m", "--disk", "100m", "--network", "none", "--", "sh", "-c", script)
    assert r.rc not in (0, 125) and result_of(r)["limits_hit"] == ["disk"], r


def test_what_is_written_elsewhere_does_not_count(runner):
    """Neither large files of the workspace, nor deleted ones that are still open."""
    script = "head -c 200M /dev/zero > big; exec 9> gone; rm gone; head -c 200M /dev/zero >&9; sync .; head -c 40M /dev/zero > /tmp/x; sync /tmp; sleep 2; echo fine"
    r = runner.bawn("run", "--json", "-m", "64m", "--tmp-size", "64m", "--network", "none", "--", "sh", "-c", script)
    assert (r.rc, r.out) == (0, b"fine\n") and result_of(r)["limits_hit"] == [], r


def test_what_others_write_does_not_count(runner):
    """Not even where the folders cannot be seen whole."""
    script = "mkdir /tmp/shut && chmod 0 /tmp/shut; cd; i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done; echo up; read line; echo fine"
    p = runner.popen(runner.path, "run", *ON_DISK, "--", "sh", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    with open(runner.top / "theirs", "wb") as f:
        f.write(bytes(300 * MIB))
        os.fsync(f.fileno())
    time.sleep(1.5)  # three looks
    assert p.communicate(b"\n")[0] == b"fine\n" and p.returncode == 0


def test_what_a_killed_run_left_is_gone_after_the_next(runner):
    p = runner.popen(runner.path, "run", *ON_DISK, "--", "sh", "-c", "mkdir -p ~/d/e && touch ~/d/e/f && chmod 0 ~/d && echo up; sleep 1000",
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    (folder,) = left(runner)
    assert runner.bawn("run", *ON_DISK, "--", "true").rc == 0 and left(runner) == [folder], "one that lives is left alone"
    os.kill(p.pid, signal.SIGKILL)
    p.wait()
    p.stdout.close()
    assert left(runner) == [folder]
    r = runner.bawn("run", "--network", "none", "--", "true")
    assert r.rc == 0 and left(runner) == [], r


def test_where_it_will_be_is_shown(runner):
    r = runner.bawn("run", *ON_DISK, "--dry-run", "--", "true")
    assert r.rc == 0 and re.search(rb"^home and /tmp +160 MiB on disk, in " + re.escape(bytes(private(runner))) + rb"/\S+ +\(flag --tmp-size\)$", r.out, re.M), r
    got = runner.bawn("explain", "--json", *ON_DISK, "--", "true").json()
    assert got["limits"]["tmp"] == 160 * MIB and got["limits"]["private"] == 32 * MIB and got["private_dir"].startswith(f"{private(runner)}/")
    assert {f["to"] for f in got["files"] if f["kind"] == "private" and f["from"]} == {"/tmp", "/var/tmp", got["home"]}
    assert not private(runner).exists(), "a dry run makes nothing"


def test_in_configuration_and_profile(runner):
    runner.write(runner.home / ".config/bawn/config.json", '{"sandbox": {"resources": {"memory": "64m", "tmp": "160m"}}}')
    assert size_inside(runner, "/tmp")[1] != b"tmpfs"
    runner.write(runner.home / ".config/bawn/profiles/small.json", '{"resources": {"tmp": "5m"}}')
    assert size_inside(runner, "/tmp", "--profile", "small") == [b"5", b"tmpfs"]
    r = runner.bawn("run", "--tmp-size", "unlimited", "--", "true")
    assert r.rc == 64 and b"--tmp-size: home and /tmp have a size" in r.err, r


def test_an_untrusted_project_gets_no_more(runner):
    runner.write(".bawn/config.json", '{"sandbox": {"resources": {"tmp": "100g"}}}')
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", "df --output=fstype /tmp | tail -1")
    assert (r.rc, r.out) == (0, b"tmpfs\n") and b"resources.tmp '100g' not applied: the project is not trusted" in r.err, r


# -- persistent sandboxes --------------------------------------------------------------------------------------------------


def test_of_a_persistent_sandbox_only_tmp_is_concerned(kept):
    r = kept.bawn("start", "box", *ON_DISK)
    assert r.rc == 0, r
    assert kept.bawn("exec", "box", "--", "sh", "-c", "head -c 100M /dev/zero > /tmp/a; echo x > ~/stays; stat -c %s /tmp/a").out == b"%d\n" % (100 * MIB)
    (folder,) = left(kept)
    assert sorted(p.name for p in folder.iterdir()) == ["tmp", "var-tmp"]
    got = kept.bawn("inspect", "--json", "box").json()
    assert got["paths"]["tmp"] == str(folder) and got["sizes"]["tmp"] >= 100 * MIB
    assert kept.bawn("stop", "box").rc == 0 and left(kept) == []
    assert kept.bawn("inspect", "--json", "box").json()["paths"]["tmp"] is None
    assert kept.bawn("start", "box").rc == 0
    r = kept.bawn("exec", "box", "--", "sh", "-c", "cat ~/stays; ls /tmp; df --output=fstype /tmp | tail -1")
    assert r.out.startswith(b"x\n") and b"tmpfs" not in r.out, r


def test_past_its_size_a_persistent_sandbox_ends(kept):
    assert kept.bawn("start", "box", *ON_DISK).rc == 0
    r = kept.bawn("exec", "--json", "box", "--", "sh", "-c", FILL.format("/tmp"))
    assert r.rc not in (0, 9) and result_of(r)["limits_hit"] == ["private"], r
    assert b"/tmp in sandbox 'box' is full" in r.err, r
    while b"stopping" in (status := kept.bawn("status", "box")).out:
        time.sleep(0.05)
    assert b"the limit on /tmp (--tmp-size) was reached" in status.out, status
    assert left(kept) == []


def test_a_killed_keeper_leaves_nothing_behind_its_next_start(kept):
    assert kept.bawn("start", "box", *ON_DISK).rc == 0
    os.kill(kept.bawn("ps", "--json").json()[0]["pid"], signal.SIGKILL)
    assert len(left(kept)) == 1
    for _ in range(100):
        r = kept.bawn("start", "box", *ON_DISK)
        if r.rc == 0:
            break
    assert r.rc == 0 and len(left(kept)) == 1, r
    assert kept.bawn("stop", "box").rc == 0 and left(kept) == []


def test_a_full_tmp_is_named_by_exec(kept):
    """In memory. A command that all is well with is not concerned by what another one left there."""
    assert kept.bawn("start", "box", "-m", "64m", "--tmp-size", "4m", "--network", "none").rc == 0
    r = kept.bawn("exec", "--json", "box", "--", "sh", "-c", "head -c 8M /dev/zero > /tmp/big")
    assert r.rc == 1 and b"No space left on device" in r.err and result_of(r)["limits_hit"] == ["private"], r
    assert b"bawn: /tmp in sandbox 'box' is full; empty it, or start the sandbox anew with a larger --tmp-size" in r.err, r
    log = kept.bawn("log", "--json", "box").out.decode().replace(" ", "")
    assert log.count('"limit":"private"') == 1, log
    r = kept.bawn("exec", "--json", "box", "--", "true")
    assert r.rc == 0 and result_of(r)["limits_hit"] == [] and b"full" not in r.err, r
    assert kept.bawn("exec", "box", "--", "rm", "/tmp/big").rc == 0
    r = kept.bawn("exec", "--json", "box", "--", "false")
    assert r.rc == 1 and result_of(r)["limits_hit"] == [], r


def test_a_folder_of_another_kind_is_never_swept(runner):
    """Only names of ours, with a dead owner and no lock."""
    assert runner.bawn("run", *ON_DISK, "--", "true").rc == 0
    mine = [private(runner) / name for name in ("bawn-run-1x", "notes", f"bawn-run-{os.getpid()}-x")]
    for path in mine:
        runner.mkdir(path)
    held = runner.mkdir(private(runner) / "bawn-run-4000000-1-abcdef")  # its owner is in another pid namespace, and lives
    dead = runner.mkdir(private(runner) / "bawn-run-4000000-1-ghijkl")
    fd = os.open(held, os.O_RDONLY)
    subprocess.run(["flock", "-s", str(fd)], pass_fds=[fd], check=True)
    assert runner.bawn("run", *ON_DISK, "--", "true").rc == 0
    assert sorted(left(runner)) == sorted([*mine, held]) and not dead.exists()
    os.close(fd)
    assert runner.bawn("prune", "--yes").rc == 0 or runner.bawn("run", *ON_DISK, "--", "true").rc == 0
    assert not held.exists() and pathlib.Path(mine[0]).exists()
