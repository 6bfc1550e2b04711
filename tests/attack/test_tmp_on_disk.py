# SPDX-License-Identifier: Apache-2.0
"""Home and /tmp on disk (--tmp-size) are as much the sandbox's own as those in memory (15, 27, 81)."""

import os
import pwd
import subprocess

import pytest

OPTIONS = ("-m", "64m", "--tmp-size", "96m", "--network", "none")


def private(runner):
    return runner.home / ".local/state/bawn/private"


@pytest.fixture
def other(runner):
    """A sandbox with home and /tmp on disk, which holds a secret in each, and its folder on the host."""
    script = "for d in ~ /tmp /var/tmp; do echo sesame > $d/secret-file; chmod 666 $d/secret-file; done; cp /bin/id ~/suid; chmod 4755 ~/suid; chmod 755 ~; echo up; sleep 1000"
    p = runner.popen(runner.path, "run", *OPTIONS, "--", "sh", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    (folder,) = private(runner).iterdir()
    yield folder
    p.terminate()
    p.wait()
    p.stdout.close()
    assert not folder.exists()


@pytest.mark.parametrize("options", [OPTIONS, ("--network", "none")], ids=["on-disk", "in-memory"])
def test_another_sandbox_finds_nothing_of_it(attack, other, options):
    """Claim: what a sandbox has in its home and /tmp on disk can be reached by its path, by climbing out of one's own, or by looking everywhere
    in no other sandbox (15)."""
    for name in ("home", "tmp", "var-tmp"):
        attack(f"grep -q sesame {other}/{name}/secret-file", *options)
        attack(f"d=$(mktemp -d ~/xXXXXXX); cd $d; grep -q sesame ../../../../../../../..{other}/{name}/secret-file; r=$?; rmdir $d; exit $r", *options)
    attack(f"ls {other.parent} | grep -q bawn-run-{other.name.split('-')[2]}-", *options)
    inside = attack.runner.bawn("run", *options, "--", "sh", "-c", "find / /proc/*/root/ -name secret-file 2>/dev/null; echo looked")
    assert (inside.rc, inside.out) == (0, b"looked\n"), inside


def test_no_other_user_gets_there(runner, other):
    """Claim: set-user-ID files and open modes that the inside makes there serve no other user of the host (15)."""
    nobody = {"user": pwd.getpwnam("nobody").pw_uid, "group": 65534, "extra_groups": []} if os.getuid() == 0 else None
    assert (other / "home/suid").stat().st_mode & 0o7777 in (0o4755, 0o755) and other.stat().st_mode & 0o777 == 0o700
    if nobody is None:
        pytest.skip("needs root")
    for path in ("home/suid", "tmp/secret-file"):
        assert subprocess.run(["cat", other / path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        assert subprocess.run(["cat", other / path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **nobody).returncode != 0


def test_no_devices_and_no_set_user_id(runner):
    """Claim: the mounts honour neither (15)."""
    script = """
        for d in /tmp /var/tmp "$(readlink -f ~)"; do
            awk -v d="$d" '$5 == d { print ($6 ~ /nosuid/ && $6 ~ /nodev/) ? "both" : $0 }' /proc/self/mountinfo
            mknod $d/null c 1 3 2>/dev/null && head -c 1 < $d/null && echo device
        done; exit 0
    """
    r = runner.bawn("run", *OPTIONS, "--", "sh", "-c", script)
    assert (r.rc, r.out) == (0, b"both\n" * 3), r


def test_links_left_there_lead_nowhere(runner):
    """Claim: removing it at the end follows no link, and nothing that is left there stays (15)."""
    precious = runner.write(runner.home / "precious/file", "x")
    script = f"""
        ln -s {precious.parent} ~/d; ln -s {precious} /tmp/f; ln -s {runner.home} /var/tmp/h; ln -s / ~/root
        mkdir -p ~/closed/in && touch ~/closed/in/x && chmod 0 ~/closed/in ~/closed
        cd /tmp; i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done; touch f; rm -rf ~/root/none; echo made
    """
    r = runner.bawn("run", *OPTIONS, "--", "sh", "-c", script)
    assert (r.rc, r.out) == (0, b"made\n"), r
    assert precious.read_text() == "x" and list(private(runner).iterdir()) == []


HIDING = {
    "closed-folder": "mkdir /tmp/d; i=0; while [ $i -lt 16 ]; do head -c 16M /dev/zero > /tmp/d/f$i; i=$((i+1)); done; chmod 000 /tmp/d; sleep 30; echo hidden",
    "deep-folder": "cd; i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done; i=0; while [ $i -lt 16 ]; do head -c 16M /dev/zero > f$i; i=$((i+1)); done; sleep 30; echo hidden",
    "deleted-files": "/usr/bin/python3 -c 'import os, time\nheld = []\nfor i in range(16):\n  f = open(\"/var/tmp/gone\", \"wb\"); os.unlink(\"/var/tmp/gone\"); f.write(bytes(16 << 20)); f.flush(); held.append(f)\n"
    "time.sleep(30); print(\"hidden\")'",
    "reserved": "for i in 0 1 2 3 4 5 6 7 8 9; do fallocate -l 16M /tmp/f$i; done; sleep 30; echo hidden",
}


@pytest.mark.parametrize("way", HIDING)
def test_the_size_holds_for_what_is_hard_to_see(runner, way):
    """Claim: folders that cannot be read, that are deep, deleted files and reserved space count (27, 81)."""
    r = runner.bawn("run", *OPTIONS, "--", "sh", "-c", HIDING[way])
    assert b"hidden" not in r.out and r.rc not in (0, 125) and b"bawn: home and /tmp limit 96 MiB reached" in r.err, r


def test_a_link_in_the_place_of_the_folder_is_refused(runner):
    """Claim: the folder that these folders are in is the user's own, or nothing starts (15)."""
    elsewhere = runner.mkdir(runner.top / "elsewhere")
    assert runner.bawn("run", *OPTIONS, "--", "true").rc == 0
    private(runner).rmdir()
    private(runner).symlink_to(elsewhere)
    r = runner.bawn("run", *OPTIONS, "--", "echo", "ran")
    assert r.rc == 125 and b"ran" not in r.out and list(elsewhere.iterdir()) == [], r
    private(runner).unlink()
    runner.mkdir(private(runner), 0o777)
    r = runner.bawn("run", *OPTIONS, "--", "echo", "ran")
    assert r.rc == 125 and b"ran" not in r.out, r
