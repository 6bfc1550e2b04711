# SPDX-License-Identifier: Apache-2.0
"""The byte link: the native engine as if its sandboxes were on another kernel (BAWN_TEST_LINK=bytes), with bawn-link in between.

What a user sees must be the same. Connections through the gate over the link are in tests/network/test_link_network.py; a hostile far end
is in tests/attack/test_link_attacks.py; the frames themselves in tests/unit/link.
"""

import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from init_driver import EXEC, STDOUT, Init, request  # noqa: E402
from kept_left import settle  # noqa: E402
from person import finish, terminal  # noqa: E402

LINK = {"BAWN_TEST_LINK": "bytes"}
RUN = ("run", "--workspace", "overlay", "--network", "none")


def linked(runner, *args, **kw):
    return runner.bawn(*args, env=LINK, **kw)


def helpers(name, parent):
    """Processes of ours with this name below another one."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        if f"Name:\t{name}\n" in status and f"PPid:\t{parent}\n" in status:
            found.append(int(entry.name))
    return found


@pytest.fixture
def box(kept):
    """A persistent sandbox behind a byte link."""
    r = linked(kept, "start", "box", "--workspace", "overlay", "--network", "none")
    assert (r.rc, r.out) == (0, b"box\n"), r
    kept.x = lambda *args, **kw: linked(kept, "exec", "box", "--", *args, **kw)
    return kept


def test_streams_statuses_and_signals(runner):
    r = linked(runner, *RUN, "--", "sh", "-c", "cat; echo err >&2; exit 7", input=b"in\n")
    assert (r.rc, r.out) == (7, b"in\n") and r.err.endswith(b"err\n"), r  # before it, perhaps a note about limits
    assert linked(runner, *RUN, "--", "nosuch").rc == 127
    assert linked(runner, *RUN, "--", "sh", "-c", "kill -SEGV $$").rc == 128 + signal.SIGSEGV
    # what a command left running ends with it, and its output comes first
    r = linked(runner, *RUN, "--", "sh", "-c", "(echo late; exec sleep 1000) & sleep 0.1; echo end")
    assert (r.rc, r.out) == (0, b"late\nend\n"), r
    # a reader that goes away ends the writer as a pipe does
    r = runner.run("bash", "-c", f"{runner.path} {' '.join(RUN)} -- sh -c 'yes; echo $? > /dev/null' | head -1", env=LINK)
    assert r.out == b"y\n" and b"roken pipe" not in r.err, r


def test_it_is_the_link_that_carries_it(runner):
    """With bawn-link between: no descriptor inside is one of the host's, and PID 1 has the thread that moves bytes."""
    script = "readlink /proc/self/fd/1; ls /proc/1/task | wc -l; tr '\\0' ' ' < /proc/1/cmdline"
    with open(runner.top / "out", "wb") as f:
        proc = runner.popen(runner.path, *RUN, "--", "sh", "-c", script, env=LINK, stdout=f, stdin=subprocess.DEVNULL)
        assert proc.wait() == 0
    lines = (runner.top / "out").read_bytes().split(b"\n")
    assert lines[0].startswith(b"pipe:") and lines[1] == b"2" and lines[2].startswith(b"bawn-init --link"), lines


def test_direct_mode_is_refused(runner):
    r = linked(runner, "run", "--network", "none", "--", "touch", "made")
    assert r.rc != 0 and b"direct mode needs a sandbox on this machine's kernel" in r.err, r
    assert not (runner.workspace / "made").exists()


def test_many_bytes_arrive_as_they_were_sent(runner):
    data = os.urandom(1 << 20) * 24
    r = linked(runner, *RUN, "--", "sh", "-c", "tee /dev/stderr", input=data)
    want = hashlib.sha256(data).digest()
    assert r.rc == 0 and hashlib.sha256(r.out).digest() == want and hashlib.sha256(r.err[-len(data):]).digest() == want


def test_terminal_with_resize(runner):
    child = terminal(runner, *RUN, "--", "sh", "-c", "trap 'stty size' WINCH; tty; stty size; echo rea''dy; while :; do sleep 0.05; done", size=(31, 101), env=LINK)
    child.expect_exact(b"/dev/pts/")
    child.expect_exact(b"31 101")
    child.expect_exact(b"ready")
    child.setwinsize(40, 90)
    child.expect_exact(b"40 90")
    child.sendintr()
    assert finish(child) == 130
    child = terminal(runner, *RUN, "--", "sh", "-c", "stty -echo; echo rea''dy; read x; stty echo; echo got-$x", env=LINK)
    child.expect_exact(b"ready")
    child.sendline(b"abc")
    child.expect(b"(?s)^(.*)got-abc")
    assert b"abc" not in child.match[1], "echo is the inside's business"
    assert finish(child) == 0


def test_persistent_sandbox(box):
    assert box.x("sh", "-c", "echo made > ~/file; pwd", cwd=box.workspace).rc == 0
    r = box.x("sh", "-c", "cat ~/file; cat; exit 3", input=b"typed\n")
    assert (r.rc, r.out) == (3, b"made\ntyped\n"), r
    long = ["x" * 1000] * 200  # longer than one message
    r = box.x("sh", "-c", 'echo $#; cat', "sh", *long, input=b"in\n")
    assert (r.rc, r.out) == (0, b"200\nin\n"), r
    child = terminal(box, "exec", "box", "--", "sh", "-c", "stty size; read x; echo got-$x; exit 5", size=(31, 101), env=LINK)
    child.expect_exact(b"31 101")
    child.sendline(b"abc")
    child.expect_exact(b"got-abc")
    assert finish(child) == 5
    job = linked(box, "exec", "--detach", "box", "--", "sh", "-c", "echo out; sleep 1000")
    assert job.rc == 0, job
    assert settle(lambda: linked(box, "logs", "box").out == b"out\n")


def test_files_of_a_persistent_sandbox(box):
    data = os.urandom(3 << 20)
    assert box.x("sh", "-c", "cat > ~/big; chmod 640 ~/big", input=data).rc == 0
    r = linked(box, "get", "box", "~/big")
    assert r.rc == 0 and r.out == data
    out = box.mkdir(box.top / "out")
    r = linked(box, "cp", "box:~/big", out)
    assert r.rc == 0 and (out / "big").read_bytes() == data, r
    r = linked(box, "get", "box", "~/nosuch")
    assert r.rc != 0 and b"No such file" in r.err, r
    assert box.x("true").rc == 0


def listing(top):
    """What a user sees of a tree: names, kinds, modes, contents."""
    found = {}
    for path in sorted(top.rglob("*")):
        st = path.lstat()
        what = os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(top))] = (oct(st.st_mode) if not path.is_symlink() else "", what)
    return found


def test_folders_of_a_persistent_sandbox(box):
    """cp both ways, put and collect: the same as where the kernel is shared (tests/integration/test_files.py)."""
    src = box.mkdir(box.top / "src")
    for name, data in [("a/b/big", os.urandom(3 << 20)), ("a/-rf", b"dash"), ("a/b/empty", b""), ("run", b"#!/bin/sh\n")]:
        box.write(src / name, data)
    (src / "run").chmod(0o755)
    (src / "a/b").chmod(0o750)
    os.symlink("a/-rf", src / "stays")
    r = linked(box, "cp", src, "box:/tmp/copy")
    assert (r.rc, r.err) == (0, b""), r
    r = linked(box, "cp", "box:/tmp/copy/.", box.mkdir(box.top / "back"))
    assert (r.rc, r.err) == (0, b"") and listing(box.top / "back") == listing(src), r
    # into what is there; a link that leads out, a FIFO
    assert box.x("sh", "-c", "cd /tmp/copy && rm -r a && ln -s /etc/passwd leads && ln -s b a && mkfifo p").rc == 0
    r = linked(box, "cp", f"{src}/.", "box:/tmp/copy")
    assert r.rc == 1 and b"a: something else is in its place" in r.err, r
    r = linked(box, "cp", "box:/tmp/copy/.", box.mkdir(box.top / "again"))
    assert r.rc == 1 and b"leads: is a link that leads out" in r.err and b"p: is a device, FIFO or socket" in r.err, r
    assert linked(box, "put", "box", "/tmp/copy/put", input=b"typed").rc == 0
    assert linked(box, "get", "box", "/tmp/copy/put").out == b"typed"
    r = linked(box, "put", "box", "/tmp/copy", input=b"typed")
    assert r.rc != 0 and b"is a folder in the sandbox" in r.err, r
    r = linked(box, "cp", src / "run", "box:/nosuch/run")
    assert r.rc != 0 and b"No such file" in r.err, r
    r = linked(box, "cp", src / "run", "box:/etc/run")
    assert r.rc != 0 and (b"Read-only" in r.err or b"denied" in r.err), r
    r = linked(box, "collect", "box", "--file", "/tmp/copy")
    got = {f["path"]: f for f in r.json()["files"]}
    assert got["/tmp/copy/put"]["size"] == 5 and got["/tmp/copy/leads"]["link"] == "/etc/passwd" and b"/tmp/copy/p: is a device" in r.err, r
    assert settle(lambda: box.x("sh", "-c", "ps ax | grep -c '[b]awn-init --link'").out == b"1\n"), "who had the folder is gone"


def test_the_end_of_a_job_comes_after_its_output(box):
    """Also if another process keeps its output open: the supervisor takes what is there when the command has ended."""
    for _ in range(5):
        with open(box.top / "out", "wb") as f:
            proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", "seq 100000; sleep 1000 & echo last", env=LINK, stdin=subprocess.DEVNULL, stdout=f)
            assert proc.wait() == 0
        assert (box.top / "out").read_bytes().endswith(b"\n100000\nlast\n")


def test_bulk_does_not_starve_a_request(box):
    """Eight streams that are read slowly or not at all: a command beside them is answered all the same."""
    bulk = [box.popen(box.path, "exec", "box", "--", "cat", "/dev/zero", env=LINK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(8)]
    try:
        for b in bulk:
            assert len(b.stdout.read(1 << 20)) == 1 << 20
        for i in range(5):
            r = box.x("echo", str(i))
            assert (r.rc, r.out) == (0, b"%d\n" % i), r
    finally:
        for b in bulk:
            b.kill()
            b.wait()
            b.stdout.close()


@pytest.mark.parametrize("who", ["supervisor", "bawn-link", "bawn-init"])
def test_whoever_is_killed_nothing_stays(runner, who):
    proc = runner.popen(runner.path, *RUN, "--", "sh", "-c", "echo ready; exec sleep 1000", env=LINK, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE)
    assert proc.stdout.readline() == b"ready\n"
    pids = {"supervisor": proc.pid, "bawn-link": helpers("bawn-link", proc.pid)[0], "bawn-init": helpers("bawn-init", proc.pid)[0]}
    os.kill(pids[who], signal.SIGKILL)
    assert proc.wait() == (-signal.SIGKILL if who == "supervisor" else 128 + signal.SIGKILL)
    assert settle(lambda: not any(pathlib.Path(f"/proc/{p}").exists() for p in pids.values()))
    proc.communicate()


def test_a_persistent_sandbox_whose_link_is_killed_stops(box):
    state = linked(box, "inspect", "box", "--json").json()
    init = state["init"] if "init" in state else json.loads(json.dumps(state))["state"]["init"]
    keeper = int(next(x for x in pathlib.Path(f"/proc/{init}/status").read_text().splitlines() if x.startswith("PPid:")).split()[1])
    os.kill(helpers("bawn-link", keeper)[0], signal.SIGKILL)
    assert settle(lambda: not pathlib.Path(f"/proc/{init}").exists())
    assert linked(box, "start", "box", "--workspace", "overlay", "--network", "none").rc == 0
    assert box.x("echo", "again").out == b"again\n"


ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"question")
s.shutdown(socket.SHUT_WR)
print(s.recv(100).decode())
"""


def test_sockets_that_are_shown_inside(runner):
    """The far end listens on a path inside; who connects there talks to the near end's side, by a descriptor that is delivered."""
    path = str(runner.workspace / "agent.sock")
    init = Init(runner, shown=[path])
    try:
        out, theirs = os.pipe()
        init.send(EXEC, job=1, body=request(["/usr/bin/python3", "-c", ASK, path], flags=STDOUT), fds=[theirs])
        os.close(theirs)
        head, fds, _, _ = socket.recv_fds(init.places[0], 100, 1)
        assert head == bytes(40) and len(fds) == 1
        with socket.socket(fileno=fds[0]) as s:
            assert s.recv(100) == b"question" and s.recv(1) == b""
            s.sendall(b"answer")
        with open(out, "rb") as f:
            assert f.read() == b"answer\n"
    finally:
        init.sock.close()
        assert init.link.wait() == 0 and init.proc.wait() is not None


def test_a_job_whose_output_is_not_read_ends_by_a_signal(box):
    """Its end waits for its output, but not for a reader that takes nothing."""
    reader, writer = os.pipe()
    proc = box.popen(box.path, "exec", "box", "--", "sh", "-c", "echo up >&2; exec yes", env=LINK, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE)
    assert proc.stderr.readline() == b"up\n"
    proc.send_signal(signal.SIGTERM)
    assert proc.wait() == 143
    proc.stderr.close()
    os.close(reader)
    os.close(writer)
