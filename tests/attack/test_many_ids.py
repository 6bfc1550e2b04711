# SPDX-License-Identifier: Apache-2.0
"""Root of a writable system with several ids (`--system-ids many`) gets nothing outside, and leaves nothing there that its user cannot remove."""

import json
import os
import pathlib
import signal
import stat
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import manyids  # noqa: E402
from test_system_root import MAKE_SETID, SETID  # noqa: E402

CAPS = 0xEB  # CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID


@pytest.fixture
def runner(runner):
    if os.getuid() != 0:
        pytest.skip("needs root")
    return manyids.use_config(manyids.use_ranges(runner))


def inside(runner, script, *options):
    return runner.bawn("run", "--network", "none", *options, "--", "sh", "-c", script)


def state(runner):
    return runner.home / ".local/state/bawn"


def test_its_capabilities_are_these_and_over_these_ids(runner):
    """Claim: root inside has six capabilities, over ids of the sandbox alone; another id has none, and gets none by a set-user-ID program (30, 91)."""
    script = "cat /proc/self/uid_map /proc/self/gid_map; grep -E '^Cap|NoNewPrivs' /proc/self/status; su www-data -s /bin/sh -c 'id -u; grep -E ^Cap.*[EP] /proc/self/status; su -c id root'"
    r = inside(runner, script)
    words = r.out.decode().split()
    own, other = words[:6], words[6:12]
    assert own == [*other], r
    assert own[0] == "0" and own[1] != "0" and own[2:] == ["1", "1", str(manyids.FIRST), str(manyids.COUNT - 1)], r
    caps = dict(zip(words[12:22:2], (int(w, 16) for w in words[13:22:2])))
    assert caps == {"CapInh:": 0, "CapPrm:": CAPS, "CapEff:": CAPS, "CapBnd:": CAPS, "CapAmb:": 0} and words[22:24] == ["NoNewPrivs:", "1"], r
    assert words[24:] == ["33", "CapPrm:", "0" * 16, "CapEff:", "0" * 16], r


ATTACKS = {
    "mount": "mkdir /tmp/m; mount -t tmpfs none /tmp/m",
    "bind": "mkdir /tmp/m; mount --bind / /tmp/m",
    "remount": "mount -o remount,rw,suid /proc",
    "umount": "umount -l /proc",
    "userns": "unshare -U true",
    "mountns": "unshare -m true",
    "setns": "nsenter -t 1 -m true",
    "chroot": "chroot / true",
    "device": "mknod /opt/null c 1 3",
    "hostname": "hostname other",
    "oom": "echo -1000 >/proc/1/oom_score_adj",
    "attach": "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, 1, 0, 0) != 0)'",
    "memory": "python3 -c 'open(\"/proc/1/mem\", \"rb\")'",
    "environment": "cat /proc/1/environ",
    "descriptors": "cat /proc/1/fd/3",
    "kill": "kill -9 1; kill -STOP 1; grep -q '^State:.*[TZ]' /proc/1/status",
    "sysctl": "echo x >/proc/sys/kernel/core_pattern",
    "setfcap": "python3 -c 'import os; os.setxattr(\"/opt\", \"security.capability\", bytes.fromhex(\"0100000200040000000000000000000000000000\"))'",
    "bounding": "python3 -c 'import ctypes, sys; l = ctypes.CDLL(None); sys.exit(l.prctl(47, 2, 21, 0, 0) != 0)'",
    "unmapped": "chown 70000 /opt",
    "renice": "python3 -c 'import os; os.setpriority(os.PRIO_PROCESS, 0, -5)'",
    "limits": "python3 -c 'import resource as r; h = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (h + 1, h + 1))'",
    "raw": "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
    "lower": "python3 -c 'import os; os.open(\"/proc/self/root/../../usr\", os.O_RDONLY); raise SystemExit(not os.path.exists(\"/etc/ssh/sshd_config.d\"))'",
}


def test_nothing_around_it_gives_way(runner):
    """Claim: none of its capabilities reaches mounts, namespaces, devices, limits, the network, or Bawn's PID 1 (31, 32, 33, 70, 71)."""
    script = "\n".join(f"( {command} ) >/dev/null 2>&1 && echo {name}" for name, command in ATTACKS.items())
    r = inside(runner, script + "\n( python3 -c 1 ) && echo reached")
    assert r.out.split() == [b"reached"], r


CALLS = {"keyctl": (250, 0, 0), "add_key": (248, 0, 0), "bpf": (321, 0, 0), "perf": (298, 0, 0), "handle": (304, 0, 0), "userfaultfd": (323, 0, 0), "io_uring": (425, 1, 0), "fsopen": (430, 0, 0),
         "quotactl": (179, 0, 0), "kexec": (246, 0, 0), "module": (175, 0, 0), "reboot": (169, 0, 0), "iopl": (172, 3, 0), "clock": (227, 0, 0)}


ASK = """
import ctypes, json, sys
lib = ctypes.CDLL(None, use_errno=True)
for name, (nr, a, b) in json.loads(sys.argv[1]).items():
    print(name, lib.syscall(nr, a, b, 0, 0, 0, 0), ctypes.get_errno())
"""


def test_the_filter_is_the_same(runner):
    """Claim: calls that are refused to others are refused to it (32, 79)."""
    if os.uname().machine != "x86_64":
        pytest.skip("needs a kernel with these numbers of calls")
    r = runner.bawn("run", "--network", "none", "--", "python3", "-c", ASK, json.dumps(CALLS))
    lines = {name: answer.split() for name, answer in (line.split(" ", 1) for line in r.out.decode().splitlines())}
    assert set(lines) == set(CALLS) and all(result == "-1" and errno in ("1", "38") for result, errno in lines.values()), r


GIVE_AWAY = MAKE_SETID + """
mkdir -m 700 closed; echo x >closed/file; chmod 600 closed/file; chown -R 33:33 closed
echo y >given; chown 44:44 given; mkdir -p deep/er; touch deep/er/f; chown 55 deep/er deep; chmod 777 .
su www-data -s /bin/sh -c 'touch theirs; chmod 4777 theirs'
chown 66:66 .
"""


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_the_workspace_stays_the_users(runner, mode):
    """Claim: of what root inside gives to other ids in its copy of the workspace nothing stays theirs, and nothing has a set-id bit (30)."""
    r = inside(runner, GIVE_AWAY, "-w", mode)
    assert r.rc in (0, 1), r
    assert manyids.foreign(runner.home, runner.workspace) == [], r
    if mode == "overlay":
        done = runner.bawn("apply", "--yes")
        assert done.rc == 0, done
    made = {p.relative_to(runner.workspace).as_posix(): p.lstat() for p in runner.workspace.rglob("*")}
    assert {"closed/file", "given", "plain"} <= set(made), (r, made)
    assert all(st.st_uid == runner.user.pw_uid for st in made.values()), made
    assert not [n for n, st in made.items() if st.st_mode & SETID and stat.S_ISREG(st.st_mode)], made
    assert (runner.workspace / "closed/file").read_text() == "x\n"


def test_direct_mode_has_one_id(runner):
    """Claim: where the workspace, or another writable folder, is the host's own, several ids are refused, or one is used (30)."""
    for options in (["-w", "direct"], ["--mount", f"{runner.mkdir(runner.top / 'data')}:rw"]):
        r = inside(runner, "true", *options)
        assert r.rc != 0 and b"--system-ids many: " in r.err and b"--system-ids one" in r.err, r
    r = inside(runner, "touch made; chown 33 made; cat /proc/self/uid_map", "-w", "direct", "--system-ids", "auto")
    assert r.rc == 0 and len(r.out.splitlines()) == 1 and (runner.workspace / "made").stat().st_uid == runner.user.pw_uid, r


def test_a_killed_run_leaves_nothing(runner):
    """Claim: what a killed run leaves under other ids can be reviewed, and is removed by the next start or `bawn discard` (90)."""
    p = runner.popen(runner.path, "run", "--network", "none", "--name", "mine", "--", "sh", "-c", GIVE_AWAY + "mkdir -m 700 /opt/theirs; touch /opt/theirs/f; chown -R 33 /opt/theirs; echo ready; sleep 1000",
                     stdout=-1, stderr=-1)
    while (line := p.stdout.readline()) and line != b"ready\n":
        pass
    assert line == b"ready\n", p.communicate()
    assert runner.is_root or len(manyids.foreign(runner.home)) > 2
    p.send_signal(signal.SIGKILL)
    p.communicate()
    r = runner.bawn("review", "mine")
    assert r.rc in (0, 1) and b"closed/file" in r.out and b"Permission denied" not in r.out + r.err, r
    r = runner.bawn("discard", "--yes", "mine")
    assert r.rc == 0, r
    assert inside(runner, "true").rc == 0
    assert manyids.foreign(runner.home) == [] and list((state(runner) / "private").iterdir()) == [], r


def test_a_persistent_sandbox_keeps_owners_and_is_removed_whole(runner):
    """Claim: files keep their owners over a stop, in a checkpoint and in a fork; `bawn rm` removes all of them; without the ids it does not start (30, 90)."""
    make = "mkdir -m 700 /opt/theirs ~/theirs; echo x >/opt/theirs/f; chown -R 33:44 /opt/theirs; chown 55 ~/theirs; useradd -m bob"
    look = "stat -c %u:%g:%a /opt/theirs /opt/theirs/f; cat /opt/theirs/f; id -u bob"
    if runner.is_root:  # its home is an idmapped mount, with one id
        make = make.replace("chown 55 ~/theirs;", "")
    want = b"33:44:700\n33:44:644\nx\n1000\n"
    assert runner.bawn("start", "box", "--network", "none").rc == 0
    r = runner.bawn("exec", "box", "--", "sh", "-c", make + " && " + look)
    assert r.out == want, r
    assert runner.bawn("stop", "box").rc == 0
    for step in (("start", "box"), ("stop", "box"), ("checkpoint", "box", "one"), ("fork", "box", "--name", "other", "--start")):
        r = runner.bawn(*step)
        assert r.rc == 0, r
    assert runner.bawn("exec", "other", "--", "sh", "-c", look).out == want
    assert runner.bawn("start", "box").rc == 0
    assert runner.bawn("exec", "box", "--", "sh", "-c", look).out == want
    assert runner.bawn("stop", "box").rc == 0
    r = runner.bawn("start", "box", "--system-ids", "one")
    assert r.rc != 0 and b"was made with several ids" in r.err, r
    assert runner.bawn("rm", "-f", "box", "other").rc == 0
    assert manyids.foreign(runner.home) == []


BAD = {"damaged": ("{name}:{first}:many\n", b"is not understood"), "own": ("{name}:1000:100000\n", b"is not understood"), "low": ("{name}:0:65536\n", b"is not understood"),
       "huge": ("{name}:4294900000:65536000\n", b"is not understood"), "none": ("someone:300000:65536\n", b"no range"), "small": ("{name}:300000:10\n", b"no range")}


@pytest.mark.parametrize("case", BAD)
def test_strange_ranges_are_not_used(runner, case):
    """Claim: a range that is damaged, too small, or has the host's own ids is refused with `many`, and one id with `auto` (91)."""
    text, why = BAD[case]
    if case == "own" and runner.is_root:
        text = "{name}:999:65536\n"
    manyids.use_ranges(runner, text.format(name=runner.user.pw_name, first=manyids.FIRST))
    r = inside(runner, "true")
    assert r.rc != 0 and why in r.err, r
    r = inside(runner, "cat /proc/self/uid_map; chown 33 /opt && stat -c %u /opt", "--system-ids", "auto")
    lines = r.out.decode().splitlines()
    assert r.rc == 0 and lines[0].split()[2] == "1" and lines[1] == "0", r
    assert (why in r.err) == (why != b"no range"), r


def test_a_helper_that_refuses(runner):
    """Claim: where newuidmap is there and does not work, `many` is refused and `auto` has one id."""
    if runner.is_root:
        manyids.use_ranges(runner, first="mount -o remount,bind,nosuid /")  # root does not need it
        r = inside(runner, "cat /proc/self/uid_map")
        assert r.rc == 0 and len(r.out.splitlines()) == 2, r
        return
    manyids.use_ranges(runner, first="mount -o remount,bind,nosuid /")
    r = inside(runner, "true")
    assert r.rc == 125 and b"map several ids by newuidmap" in r.err and b"--system-ids one" in r.err, r
    r = inside(runner, "cat /proc/self/uid_map", "--system-ids", "auto")
    assert r.rc == 0 and r.out.split()[2:] == [b"1"] and b"refuses to map" in r.err, r


SERVER = """
set -e
bin=$(echo /usr/lib/postgresql/*/bin)
cd /tmp && mkdir data && chown postgres data
su postgres -c "$bin/initdb -D /tmp/data -A trust >/dev/null"
su postgres -c "$bin/pg_ctl -D /tmp/data -o '-k /tmp/data -c listen_addresses=' -l /tmp/data/log -w start >/dev/null"
su postgres -c "psql -h /tmp/data -Atc 'select current_user, 6 * 7'"
"""


def test_a_server_that_refuses_to_be_root(runner):
    """PostgreSQL, as its package has it: with a user of its own, to whom root gives a folder."""
    r = inside(runner, SERVER)
    assert r.rc == 0 and r.out == b"postgres|42\n", r


FORKS = """
import os, signal
made = 0
for uid in range(100, 140):
    if os.fork() == 0:
        os.setresuid(uid, uid, uid)
        n = 0
        try:
            while n < 20:
                if os.fork() == 0:
                    signal.pause()
                n += 1
        except OSError:
            pass
        os._exit(n)
    made += os.waitstatus_to_exitcode(os.wait()[1])
    print(made, flush=True)
"""

HOLD = """
import os, time
held = []
for i in range(16):
    held.append(os.open("big", os.O_CREAT | os.O_RDWR))
    os.unlink("big")
    for _ in range(32):
        os.write(held[-1], os.urandom(1 << 20))
time.sleep(1000)
"""


def test_limits_hold_for_all_ids_together(runner):
    """Claim: the limit of processes is one for all ids, also without a control group; and what another id writes and unlinks counts as disk space (25, 27)."""
    r = runner.bawn("run", "--network", "none", "--pids", "64", "--", "python3", "-c", FORKS)
    words = r.out.split()
    assert words and 20 <= int(words[-1]) <= 80, r  # without a control group tasks of the user outside count, too: those of the start have ended
    r = inside(runner, f"mkdir /opt/w; chown 33 /opt/w; cd /opt/w; exec setpriv --reuid 33 --clear-groups python3 -c '{HOLD}'", "--disk", "64m")
    assert r.rc != 0 and b"disk" in r.err, r
