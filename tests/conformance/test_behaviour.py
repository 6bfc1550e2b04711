# SPDX-License-Identifier: Apache-2.0
"""What a user sees of a sandbox, whichever engine makes it."""

import json
import os
import pty
import signal
import subprocess
import time

import pytest


def test_status_and_streams(box):
    r = box.run("sh", "-c", "cat; echo said >&2; exit 7", input=b"typed\n")
    assert (r.rc, r.out) == (7, b"typed\n"), r
    assert r.err.endswith(b"said\n") or b"said\n" in r.err, r


def test_a_signal_ends_it_as_it_does_outside(box):
    r = box.run("sh", "-c", "kill -TERM $$")
    assert r.rc == 128 + signal.SIGTERM, r


def test_a_command_that_is_not_there(box):
    assert box.run("no-such-program").rc == 127


def test_the_workspace_has_its_path_and_a_second_name(box):
    box.runner.write("file", "text\n")
    r = box.run("sh", "-c", "pwd; cat file /workspace/file")
    assert r.out == f"{box.workspace}\ntext\ntext\n".encode(), r


def test_what_is_written_belongs_to_the_owner_of_the_workspace(box):
    r = box.run("sh", "-c", "mkdir made && echo new > made/file && chmod 750 made/file")
    assert r.rc == 0, r
    st = (box.workspace / "made/file").stat()
    assert (st.st_uid, st.st_mode & 0o777) == (box.runner.user.pw_uid, 0o750)


def test_the_command_is_not_root_and_has_a_name(box):
    """An image says who it is inside: root, which is the user on the host."""
    r = box.run("sh", "-c", "id -u; id -un; echo $HOME; touch ~/mine /tmp/mine && echo writable")
    uid, name, home, writable = r.out.decode().split()
    assert (uid == "0") == (name == "root") == box.image and home.startswith("/") and writable == "writable", r


def test_the_system_is_this_machines(box):
    """Programs and their settings are those of the host, also where /etc is a copy."""
    probe = "cat /etc/os-release /etc/services /etc/ld.so.cache | sha256sum; find /etc/alternatives -printf '%f %l\\n' | LC_ALL=C sort | sha256sum; set -- /usr/bin/*; echo $#"
    r = box.run("sh", "-c", probe)
    assert r.rc == 0 and (r.out == box.runner.run("sh", "-c", probe).out) == (not box.image), r


def test_variables(box):
    r = box.run("sh", "-c", "echo $FOO", options=["--env", "FOO=a b"])
    assert r.out == b"a b\n", r


def test_overlay_holds_everything_until_it_is_applied(box):
    box.runner.write("old", "1\n")
    r = box.run("sh", "-c", "echo 2 > old; echo 3 > new", options=["--workspace", "overlay", "--name", "one"])
    assert r.rc == 0, r
    assert (box.workspace / "old").read_text() == "1\n" and not (box.workspace / "new").exists()
    assert {c["path"] for c in box.bawn("review", "one", "--json").json()["changes"]} == {"old", "new"}
    assert box.bawn("apply", "one", "--yes").rc == 0
    assert (box.workspace / "old").read_text() == "2\n" and (box.workspace / "new").read_text() == "3\n"


def test_read_only(box):
    box.runner.write("file", "text\n")
    r = box.run("sh", "-c", "cat file; echo x > file", options=["--workspace", "ro"])
    assert r.rc != 0 and r.out == b"text\n", r
    assert (box.workspace / "file").read_text() == "text\n"


def test_a_terminal(box):
    master, slave = pty.openpty()
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "tty && stty size && sleep 0.2", stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    out = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        out += part
    os.close(master)
    assert p.wait() == 0 and b"/dev/pts/" in out, out


def test_memory_limit_is_named(box):
    r = box.run("/usr/bin/python3", "-c", "x = b'x' * (400 << 20)", options=["--memory", "128m"])
    assert r.rc != 0 and (b"memory limit 128 MiB" in r.err or box.remote), r  # what ends it elsewhere is not seen here


FORK = """
import os, signal
children = []
try:
    for _ in range(60):
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
print(len(children))
"""


def test_process_limit(box):
    """No more can be made, and those that are there go on."""
    box.need("pids")
    r = box.run("/usr/bin/python3", "-c", FORK, options=["--pids", "20"])
    assert r.rc == 0 and int(r.out) < 20, r


def test_disk_limit(box):
    """One file cannot be larger, and many together end the run."""
    r = box.run("sh", "-c", "for i in 1 2 3 4 5 6; do head -c 30M /dev/zero > big$i; done; sleep " + str(box.patience), options=["--disk", "100m"])
    assert r.rc not in (0, 125) and b"disk limit 100 MiB" in r.err, r


def test_time_limit(box):
    r = box.run("sleep", str(box.patience), options=["--timeout", "1s"])
    assert r.rc == 124, r


def test_it_ends_with_its_supervisor(box):
    """kill -9 of bawn: nothing of the sandbox is left, neither process nor container."""
    mark = f"sleep 98{os.getpid()}"
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", f"{mark} & echo up; wait", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert p.stdout.readline() == b"up\n"
    p.kill()
    p.wait()
    running = lambda: [int(pid) for pid in subprocess.run(["pgrep", "-f", f"^{mark}$"], stdout=subprocess.PIPE).stdout.split()]  # noqa: E731
    try:
        box.wait_while(lambda: running() or box.containers())
    finally:
        for pid in running():
            os.kill(pid, signal.SIGKILL)
    r = box.run("true")
    assert r.rc == 0, r
    assert not box.containers()


def test_nothing_is_left_after_a_run(box):
    assert box.run("true").rc == 0
    assert not box.containers()
    runtime = [p for p in box.runner.top.rglob("box-*") if p.is_dir()]
    assert runtime == []


def test_a_persistent_sandbox(box):
    b = box
    assert b.bawn("start", "web").rc == 0
    try:
        assert b.bawn("exec", "web", "--", "sh", "-c", "echo 1 > ~/kept; echo 2 > made").rc == 0
        assert b.bawn("exec", "web", "--", "sh", "-c", "cat ~/kept; exit 5").rc == 5
        r = b.bawn("cp", "web:made", b.runner.top / "copied" if b.runner.is_root else b.workspace / "copied")
        assert r.rc == 0, r
        state = json.loads(b.bawn("inspect", "web", "--json").out)
        assert b.name in json.dumps(state)
        assert b.bawn("stop", "web").rc == 0
        assert b.bawn("start", "web").rc == 0
        assert b.bawn("exec", "web", "--", "sh", "-c", "cat ~/kept").out == b"1\n"
    finally:
        r = b.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r
    assert not b.containers()


def summary_of(box):
    r = box.run("true", options=["--json"])
    assert r.rc == 0, r
    return json.loads(r.err.splitlines()[-1])


def test_the_result_names_the_engine(box):
    summary = summary_of(box)
    assert summary["engine"] == box.name and summary["started"] is True


@pytest.mark.parametrize("key", ["cpu", "memory", "pids"])
def test_limits_that_are_said_to_be_enforced_are(box, key):
    """The figure of `bawn engines` and that of a run agree."""
    assert summary_of(box)["enforced"][key] or key not in box.keeps()  # a limit that the machine cannot exceed needs no group


WORK = """
import os, sys, time
def work(until):
    rounds = 0
    while time.monotonic() < until:
        for _ in range(10000):
            pass
        rounds += 1
    return rounds
"""

SPIN = WORK + """
begin, (r, w) = time.monotonic(), os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.write(w, b"%d\\n" % work(begin + 3))
        os._exit(0)
for _ in range(4):
    os.wait()
print(sum(map(int, os.read(r, 4096).split())) / (time.monotonic() - begin))
"""

ONE = WORK + "print(work(time.monotonic() + 1) / time.process_time())"


def test_cpu_limit(box):
    """
    Four processes that never wait have a tenth of a CPU together, which is told by the work they do: gVisor's processes count their time
    themselves, and do not see that all of it stands still. A machine with much to do gives them less, not more.
    """
    box.need("cpu")
    r = box.run("/usr/bin/python3", "-c", SPIN, options=["--cpus", "0.1"])
    of_one_cpu = float(subprocess.run(["/usr/bin/python3", "-c", ONE], stdout=subprocess.PIPE, check=True).stdout)
    assert r.rc == 0 and float(r.out) < 0.2 * of_one_cpu, (r, of_one_cpu)


def test_home_and_tmp_have_the_size_that_was_asked_for(box):
    r = box.run("sh", "-c", "df --output=size -B1M /tmp | tail -1", options=["-m", "64m", "--tmp-size", "8m", "--network", "none"])
    assert (r.rc, r.out.split()) == (0, [b"8"]), r
    r = box.run("sh", "-c", "head -c 100M /dev/zero > /tmp/x && echo fits", options=["-m", "64m", "--tmp-size", "200m", "--network", "none"])
    if box.name == "native":
        assert (r.rc, r.out) == (0, b"fits\n"), r
    else:  # refused, not ignored
        assert r.rc == 125 and b"--tmp-size is at most half of --memory" in r.err, r
    assert box.containers() == [] and list((box.runner.home / ".local/state/bawn/private").iterdir()) == []
