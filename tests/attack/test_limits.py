# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C5.81: bombs end inside, and nothing outlives the run."""

import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

MIB = 1 << 20


def processes_with(marker):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in text:
                found.append(int(entry.name))
    return found


FORK = """
import os, signal, sys, time
made = 0
try:
    for made in range(%d):
        if os.fork() == 0:
            signal.pause()
            os._exit(0)
except OSError as e:
    print("stopped at", made, e)
else:
    print("made", made + 1)
os.killpg(0, signal.SIGTERM) if len(sys.argv) > 1 else None
"""


def test_processes_are_counted(runner):
    """Claim: a fork bomb ends at --pids, for the sandbox as a whole (81)."""
    outside = runner.run("/usr/bin/python3", "-c", FORK % 150, "end")
    assert b"made 150" in outside.out or outside.rc == -signal.SIGTERM, outside
    inside = runner.bawn("run", "--pids", "40", "--", "/usr/bin/python3", "-c", FORK % 150)
    stopped = re.search(rb"stopped at (\d+)", inside.out)
    assert stopped and int(stopped[1]) <= 40, inside


def test_a_second_generation_counts_too(runner):
    """Claim: children that leave the session and group still count (81)."""
    bomb = "import os,sys\nn=0\ntry:\n while n<150:\n  n+=1\n  if os.fork()==0:\n   os.setsid()\n   if os.fork(): os._exit(0)\n   import signal; signal.pause()\n  os.wait()\nexcept OSError: print('stopped', n)"
    inside = runner.bawn("run", "--pids", "40", "--", "/usr/bin/python3", "-c", bomb)
    stopped = re.search(rb"stopped (\d+)", inside.out)
    assert stopped and int(stopped[1]) <= 41, inside


def test_a_real_fork_bomb_ends_with_the_run(runner, marker):
    """Claim: after :(){ :|:& };: and a time limit nothing is left (81)."""
    r = runner.bawn(
        "run", "--pids", "60", "--timeout", "2s", "--", "bash", "-c", f": {marker}; b() {{ b | b & }}; b; sleep 100"
    )
    assert r.rc not in (0, 125), r
    assert processes_with(marker) == []


EAT = "import sys\nblocks = []\nfor i in range(int(sys.argv[1])): blocks.append(bytearray(1 << 20)); blocks[-1][::4096] = b'x' * 256\nprint('ate', len(blocks))"


@pytest.mark.no_sanitizer
def test_memory_is_limited(runner):
    """Claim: a memory bomb ends inside, and the output says which limit it was (81, R6)."""
    outside = runner.run("/usr/bin/python3", "-c", EAT, "300")
    assert outside.out == b"ate 300\n", outside
    inside = runner.bawn("run", "--memory", "64m", "--", "/usr/bin/python3", "-c", EAT, "300")
    assert inside.rc != 0 and inside.out == b"", inside
    by_rlimit = b"bawn: limits without a cgroup" in inside.err and b"MemoryError" in inside.err
    assert b"bawn: memory limit 64 MiB reached" in inside.err or by_rlimit, inside


@pytest.mark.no_sanitizer
def test_memory_is_limited_over_all_processes(runner):
    """Claim: many small processes do not add up to more than the limit (81)."""
    many = 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do /usr/bin/python3 -c "$1" 40 & done; wait'
    inside = runner.bawn(
        "run",
        "--memory",
        "128m",
        "--timeout",
        "20s",
        "--",
        "bash",
        "-c",
        many,
        "bash",
        EAT + "\nimport time; time.sleep(100)",
    )
    assert inside.out.count(b"ate 40") < 12, inside
    assert b"memory limit 128 MiB reached" in inside.err, inside


@pytest.mark.no_sanitizer
def test_files_in_memory_count_as_memory(runner):
    """Claim: tmpfs and shared memory are no way round the memory limit (81)."""
    fill = "head -c 300M /dev/zero > /dev/shm/fill; stat -c %s /dev/shm/fill"
    inside = runner.bawn("run", "--memory", "64m", "--", "sh", "-c", fill)
    size = int(re.search(rb"(\d+)", inside.out + b" 0")[1])
    assert size < 70 * MIB or inside.rc in (137, 125), inside


def test_time_is_limited(runner, marker):
    """Claim: a run that spins ends at --timeout, named in the output, with all its processes (81)."""
    spin = f": {marker}; trap '' TERM INT HUP; (setsid sh -c ': {marker}; trap \"\" TERM; while :; do :; done' &) ; while :; do :; done"
    r = runner.bawn("run", "--timeout", "1s", "--", "sh", "-c", spin)
    assert r.rc not in (0, 125), r
    assert re.search(rb"^bawn: time limit 1(\.0)? s reached", r.err, re.M), r
    assert processes_with(marker) == []


@pytest.mark.parametrize(
    "how",
    [
        "nohup python3 -c 'import time; time.sleep(1000)' %s >/dev/null 2>&1 &",
        "setsid -f sh -c 'trap \"\" HUP TERM INT; exec python3 -c \"import time; time.sleep(1000)\" %s' >/dev/null 2>&1 </dev/null",
        "python3 -c 'import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: time.sleep(1000)' %s",
    ],
    ids=["nohup", "setsid", "double-fork"],
)
def test_nothing_outlives_the_run(runner, marker, how):
    """Claim: daemons end with the command that started them (81)."""
    runner.popen("sh", "-c", how % marker, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait()
    time.sleep(0.3)
    left = processes_with(marker)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left, "outside, the daemon outlives its starter"
    r = runner.bawn("run", "--", "sh", "-c", how % marker + "\nsleep 0.3; exit 5")
    assert r.rc == 5, r
    assert processes_with(marker) == []


def test_standard_output_held_open_does_not_hold_the_run(runner, marker):
    """Claim: a daemon that keeps the pipe open does not keep Bawn waiting (81)."""
    r = runner.bawn("run", "--", "sh", "-c", f"(sleep 1000; : {marker}) & echo done")
    assert (r.rc, r.out) == (0, b"done\n"), r
    assert processes_with(marker) == []


def test_descriptors_are_limited(inside):
    """Claim: one process cannot take all descriptors of the host (81)."""
    limit = int(inside("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"))
    assert 0 < limit <= int(pathlib.Path("/proc/sys/fs/nr_open").read_text())


def holding(runner, body):
    """A sandbox that takes all it can get of something, says how many, and holds it."""
    code = (
        "import os, sys\nn = 0\nheld = []\ntry:\n  while n < 200000:\n"
        + body
        + "\n    n += 1\nexcept OSError: pass\nprint(n, flush=True)\nsys.stdin.read()"
    )
    p = runner.popen(
        runner.path, "run", "--", "/usr/bin/python3", "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    taken = int(p.stdout.readline())
    return p, taken


@pytest.mark.parametrize(
    "what,body,use",
    [
        ("pty", "    held.append(os.open('/dev/ptmx', os.O_RDWR))", "import os; os.openpty()"),
        (
            "descriptors",
            "    held.append(os.open('/dev/null', os.O_RDWR))",
            "import os; [os.open('/dev/null', os.O_RDONLY) for _ in range(200)]",
        ),
        ("pipes", "    held.append(os.pipe())", "import os; [os.pipe() for _ in range(100)]"),
    ],
)
def test_the_host_still_works_while_a_sandbox_takes_all(root_runner, what, body, use):
    """Claim: exhausting ptys, descriptors or pipes inside leaves enough for the host (81)."""
    p, taken = holding(root_runner, body)
    try:
        assert taken > 0
        r = root_runner.run("/usr/bin/python3", "-c", use)
        assert r.rc == 0, (taken, r)
    finally:
        p.stdin.close()
        p.wait()
        p.stdout.close()


def test_what_was_taken_is_given_back(runner):
    """Claim: after the run, watches, ptys, semaphores and queues are free again (81)."""
    take = """
import ctypes, os
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0: pass
for i in range(5000):
    if libc.semget(i + 1, 1, 0o1600) < 0: break
"""
    r = runner.bawn("run", "--", "/usr/bin/python3", "-c", take)
    assert r.rc == 0, r
    after = runner.run(
        "/usr/bin/python3",
        "-c",
        "import ctypes; l = ctypes.CDLL(None); assert l.inotify_init() >= 0; i = l.semget(0, 1, 0o1600); assert i >= 0; l.semctl(i, 0, 0)",
    )
    assert after.rc == 0, after


def test_limits_cannot_be_raised_from_inside(runner):
    """Claim: every hard limit inside is final (81)."""
    r = runner.bawn(
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        """
import resource
raised = []
for name in dir(resource):
    if name.startswith("RLIMIT_"):
        limit = getattr(resource, name)
        soft, hard = resource.getrlimit(limit)
        if hard == resource.RLIM_INFINITY: continue
        try: resource.setrlimit(limit, (soft, hard + 1))
        except (OSError, ValueError): continue
        raised.append(name)
print(raised)
""",
    )
    assert r.out == b"[]\n", r


def test_a_flood_of_output_takes_no_memory_of_ours(runner):
    """Claim: Bawn passes output on and stores none of it (81, log flood)."""
    p = runner.popen(
        runner.path, "run", "--timeout", "60s", "--", "sh", "-c", "exec head -c 2G /dev/zero", stdout=subprocess.PIPE
    )
    time.sleep(1)  # nobody reads yet
    status = pathlib.Path(f"/proc/{p.pid}/status").read_text()
    total = 0
    while chunk := p.stdout.read(1 << 20):
        total += len(chunk)
    p.stdout.close()
    assert p.wait() == 0 and total == 2 << 30
    assert int(re.search(r"VmRSS:\s+(\d+)", status)[1]) < 32 * 1024


def cgroups_of(pid):
    """Those that the run with this pid made: their names begin with bawn-PID. Other tests leave groups of killed runs behind for a while."""
    walk = os.walk("/sys/fs/cgroup")  # unlike rglob() it does not mind folders that go meanwhile
    return {os.path.join(top, name) for top, folders, _ in walk for name in folders if name.startswith(f"bawn-{pid}-")}


def test_no_control_group_is_left(runner):
    """Claim: the run's control groups go with it, also after a bomb (81)."""
    run = runner.popen(runner.path, "run", "--memory", "64m", "--pids", "20", "--", "/usr/bin/python3", "-c", "input('begun\\n')\n" + FORK % 150,
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert run.stdout.readline() == b"begun\n", run.communicate()
    if runner.is_root:  # an ordinary user may have none on this machine
        assert cgroups_of(run.pid)
    out, err = run.communicate(b"\n")
    assert b"stopped at" in out, (out, err)
    assert cgroups_of(run.pid) == set()
