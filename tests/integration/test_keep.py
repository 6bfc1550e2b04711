# SPDX-License-Identifier: Apache-2.0
"""The keeper of a kept sandbox, through its own sockets: commands, streams, ends, and what is left of it."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import keep_driver as kd  # noqa: E402
from keep_driver import kept  # noqa: E402
from kept_left import cgroups  # noqa: E402


def memfd(content):
    fd = os.memfd_create("body")
    os.write(fd, content)
    return fd


@pytest.fixture
def box(runner):
    with kept(runner, "box") as b:
        yield b


def test_foreground(box):
    end, out = box.run("sh", "-c", "echo out; echo err >&2; pwd; echo $EXTRA; exit 7", env=["EXTRA=more"])
    assert os.waitstatus_to_exitcode(end.value) == 7 and end.extra == 0
    assert out.split() == [b"out", b"err", str(box.runner.workspace).encode(), b"more"]
    end, out = box.run("pwd", cwd="/tmp")
    assert out == b"/tmp\n"
    end, _ = box.run("no-such-program")
    assert (end.kind, end.value, end.extra) == (kd.EXITED, 2, kd.END_NOEXEC)
    end, _ = box.run("true", cwd="/no/such/folder")
    assert end.kind == kd.FAILED and b"/no/such/folder" in end.body
    end, _ = box.run("sleep", "1000", timeout_ms=50)
    assert end.extra == kd.END_TIMEOUT and os.waitstatus_to_exitcode(end.value) == -signal.SIGTERM
    assert box.ask("jobs")["jobs"] == []
    assert box.ask("status")["jobs"] == 0


def test_signal_and_hang_up(box):
    c = box.client()
    c.send(kd.EXEC, 1, body=kd.request(["sleep", "1000"], 0))
    c.expect(kd.STARTED)
    c.send(kd.SIGNAL, signal.SIGSTOP)
    assert c.expect(kd.STOPPED).value == signal.SIGSTOP
    c.send(kd.SIGNAL, signal.SIGTERM)  # continues what is stopped
    assert os.waitstatus_to_exitcode(c.expect(kd.EXITED).value) == -signal.SIGTERM
    assert c.is_closed()
    # Whoever hangs up takes his command with him; one that does not hear SIGHUP is killed.
    fifo = box.runner.workspace / "over"
    os.mkfifo(fifo, 0o666)
    box.runner.own(fifo)
    c = box.client()
    c.send(kd.EXEC, 1, body=kd.request(["sh", "-c", "trap '' HUP TERM; exec 3>over; while :; do sleep 0.1; done"], 0))
    c.expect(kd.STARTED)
    with open(fifo, "rb") as f:
        c.close()
        assert f.read() == b""


def test_terminal(box):
    c = box.client()
    flags = kd.TTY | kd.TTY_IN | kd.TTY_OUT | kd.TTY_ERR
    c.send(kd.EXEC, 1, body=kd.request(["sh", "-c", "stty size; tty; read x; echo got $x"], flags, rows=33, cols=99))
    (master,) = c.expect(kd.STARTED).fds
    os.write(master, b"word\n")
    assert c.expect(kd.EXITED).value == 0
    out = b""
    with contextlib.suppress(OSError):
        while part := os.read(master, 4096):
            out += part
    os.close(master)
    assert b"33 99" in out and b"/dev/pts/" in out and b"got word" in out


def test_background(box):
    """The command goes on without its client; all who are attached see the same, and all may type."""
    c, started = box.background("sh", "-c", "echo begin; read a; echo one $a; echo bad >&2; read b; echo two $b; exit 5")
    job = started.value
    c.until(kd.OUTPUT, b"begin\n")
    c.close()
    a, _ = box.attach(job)
    b, _ = box.attach(0)
    assert a.until(kd.OUTPUT, b"begin\n")[0] == b"begin\n"
    a.send(kd.INPUT, body=b"from-a\n")
    assert b"one from-a\n" in b.until(kd.OUTPUT, b"bad\n")[0]
    (entry,) = box.ask("jobs")["jobs"]
    assert (entry["job"], entry["background"], entry["attached"], entry["status"]) == (job, True, 2, None)
    b.send(kd.INPUT, body=b"from-b\n")
    out, end = a.until(kd.EXITED)
    assert b"two from-b\n" in out and os.waitstatus_to_exitcode(end.value) == 5
    assert b.until(kd.EXITED)[1].value == end.value and b.is_closed()
    (entry,) = box.ask("jobs")["jobs"]
    assert entry["status"] == 5 and entry["ended"] >= entry["started"]
    log = box.folder / "log"
    assert (log / f"job-{job}.out").read_bytes() == b"begin\none from-a\ntwo from-b\n"
    assert (log / f"job-{job}.err").read_bytes() == b"bad\n"
    # Who comes later sees the last of it, and the end.
    d, _ = box.attach(job, history=11)
    out, end = d.until(kd.EXITED)
    assert out == b"two from-b\n" and os.waitstatus_to_exitcode(end.value) == 5
    c = box.client()
    c.send(kd.ATTACH, 999)
    assert c.expect(kd.FAILED).value == 3


def test_background_terminal(box):
    flags = kd.TTY | kd.TTY_IN | kd.TTY_OUT | kd.TTY_ERR
    c, started = box.background("sh", "-c", "trap 'stty size' WINCH; echo ready; while :; do read x && echo got $x; done", flags=flags)
    assert started.fds == []
    c.until(kd.OUTPUT, b"ready")
    c.send(kd.SIZE, 12, 34)
    c.send(kd.INPUT, body=b"word\n")
    out = c.until(kd.OUTPUT, b"got word")[0]
    if b"12 34" not in out:
        c.until(kd.OUTPUT, b"12 34")
    assert box.ask("kill", job=started.value, signal=signal.SIGKILL) == {"ok": True}
    assert os.waitstatus_to_exitcode(c.until(kd.EXITED)[1].value) == -signal.SIGKILL
    assert box.ask("kill", job=started.value, signal=signal.SIGKILL)["ok"] is False


def test_client_that_does_not_read(box):
    """It lets its job wait, and nobody else."""
    c, started = box.background("sh", "-c", "yes | head -c 3000000; echo end")
    assert box.sh("echo others") == b"others\n"
    out, end = c.until(kd.EXITED)
    assert len(out) == 3000004 and end.value == 0
    c, started = box.background("sh", "-c", "yes | head -c 40000000; echo end")
    c.close()
    d, _ = box.attach(started.value, 10)
    d.until(kd.EXITED)
    sizes = [p.stat().st_size for p in (box.folder / "log").glob(f"job-{started.value}.out*")]
    assert len(sizes) == 2 and sum(sizes) <= 16 << 20
    assert (box.folder / f"log/job-{started.value}.out").read_bytes().endswith(b"y\nend\n")


def test_refused_client_is_hung_up_on(box):
    """A client that heard that there is nothing for it takes no place from the next ones, even if it stays."""
    job = box.background("true")[1].value
    box.attach(job)[0].until(kd.EXITED)
    stay = []
    for kind, value, body in ((kd.ATTACH, 999, b""), (kd.EXEC, 77, b"x"), (kd.EXEC, 1, b"no request"), (kd.OPEN, 1, b"/none")):
        c = box.client()
        c.send(kind, value, body=body)
        c.expect(kd.FAILED)
        stay.append(c)
    d, _ = box.attach(job)
    d.until(kd.EXITED)
    for c in (*stay, d):
        assert c.is_closed()


def test_all_input_arrives(box):
    """However much is typed before the command reads, and however it is then taken."""
    fifo = box.runner.workspace / "go"
    os.mkfifo(fifo, 0o666)
    box.runner.own(fifo)
    c, _ = box.background("sh", "-c", "read x < go; exec wc -c")
    piece, pieces = b"x" * 16384, 200
    sent = 0
    c.sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):  # all on the way is full
        while sent < pieces:
            c.send(kd.INPUT, body=piece)
            sent += 1
    assert sent < pieces
    c.sock.settimeout(kd.HANG)
    fifo.write_text("\n")
    for _ in range(pieces - sent):
        c.send(kd.INPUT, body=piece)
    c.send(kd.INPUT)
    assert c.until(kd.EXITED)[0].split() == [str(len(piece) * pieces).encode()]
    # More than there is room for at once is no message.
    c, _ = box.background("cat")
    c.send(kd.INPUT, flags=1, length=200000, fds=[memfd(b"y" * 200000)])
    assert c.is_closed()


def test_open(box):
    box.sh("echo content > file; ln -s file link; mkdir folder")
    for path, how, ok in (("file", 1, True), ("link", 1, False), ("folder", 2, True), ("file", 2, False), ("none", 1, False)):
        c = box.client()
        c.send(kd.OPEN, how, body=f"{box.runner.workspace}/{path}".encode())
        m = c.recv()
        assert m.kind == (kd.OPENED if ok else kd.FAILED), (path, m)
        if path == "file" and ok:
            assert os.read(m.fds[0], 100) == b"content\n"
        for fd in m.fds:
            os.close(fd)
        assert c.is_closed()


def garbage():
    yield b"x"
    yield b"\0" * 20
    yield kd.HEAD.pack(99, 0, 0, 0, 0)
    yield kd.HEAD.pack(kd.EXEC, 1, 0, 0, 4) + b"abcd"
    yield kd.HEAD.pack(kd.EXEC, 1, 0, 1, 1 << 20)
    yield kd.HEAD.pack(kd.EXEC, 2, 0, 0, 4) + b"abcd"
    yield kd.HEAD.pack(kd.OPEN, 1, 0, 0, 3) + b"a\0b"
    yield kd.HEAD.pack(kd.OPEN, 9, 0, 0, 1) + b"/"
    yield kd.HEAD.pack(kd.SIGNAL, 9, 0, 0, 0)
    yield kd.HEAD.pack(kd.INPUT, 0, 0, 0, 1) + b"a"
    yield kd.HEAD.pack(kd.STARTED, 1, 1, 0, 0)


def test_bad_messages(box):
    for data in garbage():
        c = box.client()
        c.sock.send(data)
        m = c.recv()
        assert m is None or m.kind == kd.FAILED, (data, m)
    c = box.client()
    c.send(kd.EXEC, 1, body=kd.request(["true"], kd.STDIN | kd.STDOUT), fds=[0])
    assert c.expect(kd.FAILED)
    c = box.client()
    c.send(kd.EXEC, 1, body=kd.request(["sleep", "1000"], 0))
    c.expect(kd.STARTED)
    c.send(kd.SIGNAL, 1000)
    assert c.is_closed()
    assert box.sh("echo fine") == b"fine\n"


def test_large_request(box):
    words = ["x" * 1000] * 100
    body = kd.request(["sh", "-c", 'echo $# ${#1}', "sh", *words], kd.STDOUT)
    memfd = os.memfd_create("request")
    os.write(memfd, body)
    read, write = os.pipe()
    c = box.client()
    c.send(kd.EXEC, 1, flags=1, length=len(body), fds=[memfd, write])
    os.close(memfd)
    os.close(write)
    c.expect(kd.STARTED)
    with open(read, "rb") as out:
        assert out.read() == b"100 1000\n"


def test_many_at_once(box):
    clients = []
    for _ in range(100):
        c = box.client()
        c.send(kd.EXEC, 1, body=kd.request(["sh", "-c", "exit 3"], 0))
        clients.append(c)
    for c in clients:
        c.expect(kd.STARTED)
        assert os.waitstatus_to_exitcode(c.expect(kd.EXITED).value) == 3
        c.close()


def test_state_and_audit(box):
    state = box.state()
    assert (state["phase"], state["mode"], state["engine"], state["rung"]) == ("running", "direct", "native", "full")
    assert pathlib.Path(f"/proc/{state['pid']}/stat").read_text().split()[21] == str(state["start_time"])
    assert state["boot"] == pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    box.sh("true")
    status = box.ask("status")
    assert (status["name"], status["phase"], status["jobs"]) == ("box", "running", 0)
    r = box.runner.bawn("log", "box", "--json")
    events = [e["type"] for e in map(json.loads, r.out.splitlines())]
    assert [e for e in events if e in ("start", "exec", "exit")] == ["start", "exec", "exit"]
    assert box.ask("nonsense")["ok"] is False
    assert box.ask("pending")["pending"] == []


def sleeps(box):
    """Whether everything inside is stopped: by the control group, or one by one."""
    groups = [g for g in box.state()["cgroups"] if os.path.exists(f"{g}/cgroup.freeze")]
    if groups:
        return "frozen 1" in pathlib.Path(groups[0], "cgroup.events").read_text()
    states = [pathlib.Path(f"/proc/{p['pid']}/stat").read_text().rsplit(")", 1)[1].split()[0] for p in box.ask("processes")["processes"]]
    return states and set(states) <= set("TtZ")


def test_processes_and_freeze(box):
    c, started = box.background("sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > count; done")
    while not (box.runner.workspace / "count").exists():
        pass
    (found,) = [p for p in box.ask("processes")["processes"] if "count" in p["command"]]
    assert found["inside"] == started.extra
    assert b"count" in pathlib.Path(f"/proc/{found['pid']}/cmdline").read_bytes()
    assert box.ask("freeze") == {"ok": True}
    assert box.ask("status")["frozen"] and sleeps(box)
    before = (box.runner.workspace / "count").read_bytes()
    assert box.ask("freeze")["ok"] is False
    assert (box.runner.workspace / "count").read_bytes() == before
    assert box.ask("thaw") == {"ok": True}
    while (box.runner.workspace / "count").read_bytes() in (before, b""):
        pass
    assert [j["status"] for j in box.ask("jobs")["jobs"]] == [None]


VFORKS = """
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    write(1, "ready\\n", 6);
    for (;;) {
        pid_t pid = vfork();

        if (pid == 0) {
            usleep(5000);
            execl("/bin/true", "true", (char *)0);
            _exit(1);
        }
        waitpid(pid, 0, 0);
    }
}
"""


def test_freeze_of_a_parent_that_waits_in_vfork(box):
    """It cannot be stopped before its child has executed something; and the child, stopped, never would."""
    source = box.runner.write("vforks.c", VFORKS)
    subprocess.run(["gcc", "-o", box.runner.workspace / "vforks", source], check=True)
    c, _ = box.background("./vforks")
    c.until(kd.OUTPUT, b"ready\n")
    for _ in range(3):
        assert box.ask("freeze") == {"ok": True}
        assert sleeps(box)
        assert box.ask("thaw") == {"ok": True}


CHANGES_FILES = """
import sys

print("ready", flush=True)
for n in range(200):
    open(f"{sys.argv[1]}-{n}", "a").write("changed")
"""


def test_freeze_of_what_waits_for_the_keeper(box):
    """The first change of a path waits for the keeper, who records it; a process in that call cannot be stopped."""
    names = "abcdefgh"
    for name in names:
        for n in range(200):
            box.runner.write(f"{name}-{n}", "as it was")
    jobs = [box.background("python3", "-c", CHANGES_FILES, name)[0] for name in names]
    for c in jobs:
        c.until(kd.OUTPUT, b"ready\n")
    for _ in range(10):
        assert box.ask("freeze") == {"ok": True}
        assert sleeps(box)
        assert box.ask("thaw") == {"ok": True}


def test_nothing_of_the_starter_is_kept(runner):
    """Pipes, the terminal and the session of whoever started it are let go as soon as it runs."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    with kept(runner, "box", pass_fds=[write]) as box:
        os.close(write)
        assert os.read(read, 1) == b"", "the keeper holds a descriptor of the starter's"
        pid = box.state()["pid"]
        assert os.getsid(pid) == pid
        assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"
        assert os.readlink(f"/proc/{pid}/fd/2") == str(box.folder / "log/keeper.log")
    os.close(read)


def test_stop_and_start_again(runner):
    """Home and overlay go on; what runs is asked first."""
    with kept(runner, "box", "--workspace", "overlay") as box:
        box.sh("echo kept > ~/at-home; echo kept > in-workspace")
        c, _ = box.background("sh", "-c", "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
        c.until(kd.OUTPUT, b"ready\n")
        assert box.ask("stop", seconds="x")["ok"] is False
        box.stop(seconds=60)
        out, end = c.until(kd.EXITED)
        assert b"asked\n" in out and os.waitstatus_to_exitcode(end.value) == 9
        assert box.state()["phase"] == "stopped" and box.state()["status"] == 0
        assert not box.socket.exists() and "1 file changed" in box.keeper_log()
        box.start()
        assert box.sh("cat ~/at-home in-workspace") == b"kept\nkept\n"
        assert not (runner.workspace / "in-workspace").exists()
        # One that does not hear is killed when its time is over; its clients hear of the end.
        c, _ = box.background("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done")
        c.until(kd.OUTPUT, b"ready\n")
        box.stop(seconds=1)
        end = c.until(kd.EXITED)[1]
        assert end.extra & kd.END_STOP and os.waitstatus_to_exitcode(end.value) == -signal.SIGKILL


def test_killed(runner):
    """kill -9 of the keeper ends the sandbox; PID 1 that is killed ends the keeper. Both can be started again."""
    with kept(runner, "box") as box:
        state, fd = box.state(), box.pidfd()
        inside = os.pidfd_open(state["init"])
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        box.wait_end(fd)
        box.wait_end(inside)
        while pathlib.Path(f"/proc/{state['pid']}").exists():  # until the host's init has reaped it
            pass
        assert box.socket.exists(), "a killed one leaves its socket"
        r = runner.bawn("exec", "box", "--", "true")
        assert r.rc == 125 and b"box" in r.err, r
        box.start()
        assert box.sh("echo again") == b"again\n"
        assert not [path for path in cgroups() if f"/bawn-{state['pid']}-{state['start_time']}-" in path]
        assert not (box.state_home / "run" / f"{state['pid']}.sock").exists()
        c, _ = box.background("sleep", "1000")
        fd = box.pidfd()
        os.kill(box.state()["init"], signal.SIGKILL)
        assert c.until(kd.EXITED)[1].extra & kd.END_STOP
        box.wait_end(fd)
        assert box.state()["phase"] == "failed" and "PID 1 was killed" in box.state()["why"]
        box.start()
        assert box.sh("echo again") == b"again\n"


def test_signals_of_the_keeper(runner):
    with kept(runner, "box") as box:
        c, _ = box.background("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done")
        c.until(kd.OUTPUT, b"ready\n")
        fd = box.pidfd()
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        while box.state()["phase"] == "running":
            pass
        r = box.run("true")[0]
        assert r.kind == kd.FAILED and b"being stopped" in r.body
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        box.wait_end(fd)
        assert box.state()["phase"] == "stopped"


def test_rename(runner):
    with kept(runner, "box", "--workspace", "overlay") as box:
        box.sh("echo x > file")
        assert box.ask("rename", name="../x")["ok"] is False
        other = kd.Box(runner, "other")
        assert box.ask("rename", name="other") == {"ok": True}
        box.name = "other"
        assert other.sh("cat file") == b"x\n" and not kd.Box(runner, "box").socket.exists()
        assert (box.state_home / "runs/other").is_dir() and not (box.state_home / "runs/box").exists()
        other.stop()
        assert runner.bawn("diff", "other").rc in (0, 1)
        other.start()
        assert other.sh("cat file") == b"x\n"


def test_idle(runner):
    with kept(runner, "box", "--idle", "300ms") as box:
        fd = box.pidfd()
        box.wait_end(fd)
        assert box.state()["phase"] == "stopped" and "nothing was executed for" in box.keeper_log()


def test_no_network(runner):
    with kept(runner, "box", "--network", "none") as box:
        assert box.ask("pending") == {"ok": True, "pending": []}
        for cmd in ("rules", "allow", "deny"):
            assert "no network" in box.ask(cmd, rule={"host": "a.example"})["error"]
        assert box.ask("status")["mode"] == "none"


def test_one_of_a_name(runner):
    with kept(runner, "box"):
        r = runner.bawn("start", "box", "--network", "none")
        assert r.rc == 125 and b"already running, with other options" in r.err, r


def is_over(pid):
    """Nobody may reap it here."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_whose_folder_is_removed_ends(runner):
    """By hand, with rm -rf: no verb would find it again, so it ends by itself, with all that runs inside."""
    with kept(runner, "box") as box:
        box.background("sleep", "1000")
        pid = box.state()["pid"]
        inside = [p["pid"] for p in box.ask("processes")["processes"]]
        assert inside
        shutil.rmtree(box.folder)
        os.kill(pid, signal.SIGUSR1)  # it would look within a minute
        for process in [pid, *inside]:
            while not is_over(process):
                pass


def test_without_user_namespaces(user_runner):
    """The landlock rung, and no control group: no pid namespace to look into, nothing that kills all at once."""
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    deny = user_runner.top / "deny"
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-I", root / "src", "-o", deny, root / "tests/degraded/deny.c", "-lseccomp"], check=True)
    box = kd.Box(user_runner, "box")
    r = user_runner.run(deny, "userns", "--", user_runner.path, "start", "--network", "none", "box")
    assert r.rc == 0 and b"weaker sandbox (landlock rung)" in r.err, r
    try:
        assert box.state()["rung"] == "landlock"
        box.sh("echo kept > ~/file")
        c, started = box.background("sh", "-c", "trap 'echo asked; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
        c.until(kd.OUTPUT, b"ready\n")
        assert started.extra in [p["pid"] for p in box.ask("processes")["processes"]]
        assert box.ask("freeze") == {"ok": True} and box.ask("thaw") == {"ok": True}
        used = user_runner.bawn("ps", "--json").json()[0]["usage"]  # counted in /proc
        assert used["pids"] >= 2 and used["memory"] > 0, used
    finally:
        box.stop(seconds=60)
    assert os.waitstatus_to_exitcode(c.until(kd.EXITED)[1].value) == 9
    assert (box.folder / "home/file").read_text() == "kept\n"
