# SPDX-License-Identifier: Apache-2.0
"""A run on a terminal feels like no sandbox at all: size, signals, job control, full-screen programs, plain pipes.

The test is the person in front of the terminal. `spawn()` gives bawn a terminal of its own (pexpect); `Tmux` puts it on a
screen whose contents can be read back, for programs that draw. Nothing here waits for a fixed time: every step waits
until the expected text is there.
"""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid

import pexpect
import pytest

BAWN = os.path.abspath(os.environ.get("BAWN", "build/bawn"))
RUN = f"{shlex.quote(BAWN)} run --"
WAIT = 60  # how long a person would look at a screen before giving up; a fault shows as this timeout


@pytest.fixture
def work(tmp_path, monkeypatch):
    """An empty workspace, and a home without configuration."""
    home = tmp_path / "home"
    workspace = tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    tmp_path.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.chdir(workspace)
    return workspace


def spawn(*args, size=(24, 80)):
    return pexpect.spawn(BAWN, ["run", "--", *args], timeout=WAIT, dimensions=size, encoding=None)


def spawn_shell(size=(24, 80)):
    """An interactive shell outside, from which bawn is started as a job."""
    shell = pexpect.spawn("/bin/bash", ["--norc", "--noprofile", "-i"], timeout=WAIT, dimensions=size, encoding=None,
                          env={**os.environ, "PS1": "OUT> ", "PS2": ""})
    shell.expect_exact(b"OUT> ")
    return shell


def finish(child):
    """Everything that is still printed, and the exit status as a shell would show it."""
    child.expect(pexpect.EOF)
    child.close()
    return child.before, child.exitstatus if child.signalstatus is None else 128 + child.signalstatus


class Tmux:
    def __init__(self, command, cols=80, rows=24):
        self.socket = "bawn-test-" + uuid.uuid4().hex[:8]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(cols), "-y", str(rows), command)

    def tmux(self, *args):
        return subprocess.run(["tmux", "-L", self.socket, *args], check=True, capture_output=True, text=True).stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait_for(self, pattern):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            shown = self.screen()
            if re.search(pattern, shown, re.M):
                return shown
            time.sleep(0.05)
        pytest.fail(f"{pattern!r} never appeared on:\n{self.screen()}")

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True)


@pytest.fixture
def tmux(work):
    opened = []

    def open_(command, **size):
        opened.append(Tmux(command, **size))
        return opened[-1]

    yield open_
    for t in opened:
        t.close()


def run(command, **kw):
    return subprocess.run(["bash", "-c", command], capture_output=True, timeout=WAIT, **kw)


def test_every_stream_is_a_terminal_inside(work):
    out, status = finish(spawn("sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo yes; tty; : < /dev/tty && echo ctty"))
    assert status == 0
    assert b"yes" in out and b"/dev/pts/" in out and b"ctty" in out


def test_the_real_terminal_is_not_handed_in(work):
    """TIOCSTI reaches the terminal of the run at most (ATTACKS 77)."""
    shell = spawn_shell()
    shell.sendline(b"tty; " + RUN.encode() + b" sh -c 'readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2; ls /dev/pts; echo done-in'")
    shell.expect(rb"/dev/pts/(\d+)\r")
    shell.expect(rb"\r\ndone-in")
    inside = shell.before
    assert set(re.findall(rb"/dev/pts/\d+", inside)) == {b"/dev/pts/0"}, inside
    shell.close()


def test_size_at_start_and_after_resize(work):
    child = spawn("bash", "--norc", "-c", "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done", size=(31, 101))
    child.expect_exact(b"31 101")
    child.expect_exact(b"ready")
    child.setwinsize(40, 120)
    child.expect_exact(b"40 120")
    child.close(force=True)  # not by ^C: bash goes on when the program that it waits for ends by itself just then


def test_ctrl_c_interrupts(work):
    child = spawn("sh", "-c", "echo ready; exec sleep 1000")
    child.expect_exact(b"ready")
    child.sendintr()
    _, status = finish(child)
    assert status == 130


def test_ctrl_c_can_be_handled_inside(work):
    child = spawn("bash", "--norc", "-c", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    child.expect_exact(b"ready")
    child.sendintr()
    child.expect_exact(b"caught")
    assert finish(child)[1] == 7


def test_ctrl_backslash_quits(work):
    child = spawn("sh", "-c", "ulimit -c 0; echo ready; exec sleep 1000")
    child.expect_exact(b"ready")
    child.send(b"\x1c")
    assert finish(child)[1] == 131


def test_ctrl_d_ends_input(work):
    child = spawn("sh", "-c", "cat; echo over")
    child.sendline(b"one")
    child.expect_exact(b"one\r\none\r\n")  # echo, then cat
    child.sendeof()
    child.expect_exact(b"over")
    assert finish(child)[1] == 0


def test_ctrl_z_stops_and_fg_resumes(work):
    shell = spawn_shell()
    shell.sendline(RUN.encode() + b" bash --norc -c 'echo re\"\"ady; n=0; while [ ! -e go ]; do sleep 0.1; done; echo re\"\"sumed; exit 9'")
    shell.expect_exact(b"ready")
    shell.send(b"\x1a")
    shell.expect(rb"\[1\]\+\s+Stopped")
    shell.expect_exact(b"OUT> ")
    shell.sendline(b"stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo | tr '\\n' +; echo")
    shell.expect_exact(b"icanon+echo+")  # the shell has its terminal back
    shell.expect_exact(b"OUT> ")
    (work / "go").touch()
    shell.sendline(b"fg; echo status=$?")
    shell.expect_exact(b"resumed")
    shell.expect_exact(b"status=9")
    shell.close()


def test_background_job_does_not_take_the_terminal(work):
    shell = spawn_shell()
    shell.sendline(RUN.encode() + b" sh -c 'while [ ! -e go ]; do sleep 0.1; done; echo bg\"\"done' &")
    shell.expect_exact(b"OUT> ")
    shell.sendline(b"read line; echo \"got=$line\"")
    shell.sendline(b"for me")
    shell.expect_exact(b"got=for me")
    (work / "go").touch()
    shell.expect_exact(b"bgdone")
    shell.sendline(b"wait; echo status=$?")
    shell.expect_exact(b"status=0")
    shell.close()


def test_terminal_modes_are_restored(work):
    shell = spawn_shell()
    shell.sendline(b"stty -a > before; " + RUN.encode() + b" sh -c 'stty raw -echo; exit 3'; echo rc=$?; stty -a > after; cmp before after && echo sa\"\"me")
    shell.expect_exact(b"rc=3")
    shell.expect_exact(b"same")
    shell.close()


def test_terminal_modes_are_restored_when_killed(work):
    shell = spawn_shell()
    shell.sendline(b"stty -a > before; " + RUN.encode() + b" sh -c 'echo re\"\"ady; exec sleep 1000' ; stty -a > after; cmp before after && echo sa\"\"me")
    shell.expect_exact(b"ready")
    children = subprocess.run(["pgrep", "-P", str(shell.pid)], capture_output=True, text=True).stdout.split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGTERM)
    shell.expect_exact(b"same")
    shell.close()


@pytest.mark.parametrize("key, number", [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)])
def test_a_key_that_is_typed_before_the_command_runs(work, key, number):
    """However early it comes, it ends the run as it would end the command; it never breaks the start."""
    for i in range(30):
        child = spawn("sleep", "1000")
        time.sleep(i / 1000)
        child.send(key)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 128 + number or child.signalstatus == number, (i, child.exitstatus, child.signalstatus, child.before)


def test_inner_shell_has_job_control(work):
    child = spawn("bash", "--norc", "--noprofile", "-i")
    child.sendline(b"PS1='IN> '")
    child.expect_exact(b"IN> ")
    child.sendline(b"sh -c 'echo g\"\"o; exec sleep 1000'")
    child.expect(rb"[\r\n]go")  # before that the key is bash's
    child.send(b"\x1a")
    child.expect(rb"Stopped")
    child.sendline(b"disown -a; echo ali\"\"ve; exit 4")  # else bash asks about stopped jobs
    child.expect_exact(b"alive")
    assert finish(child)[1] == 4


def test_vim_edits_a_file(work, tmux):
    if not shutil.which("vim"):
        pytest.skip("needs the program vim")
    (work / "note.txt").write_text("first\n")
    t = tmux(f"cd {shlex.quote(str(work))} && {RUN} vim -u NONE note.txt; echo vim-rc=$?; sleep 1000")
    t.wait_for(r"^first")
    t.keys("o", "second", "Escape")
    t.wait_for(r"^second")
    t.keys(":wq", "Enter")
    t.wait_for(r"vim-rc=0")
    assert (work / "note.txt").read_text() == "first\nsecond\n"


def test_vim_redraws_on_resize(work, tmux):
    if not shutil.which("vim"):
        pytest.skip("needs the program vim")
    (work / "long.txt").write_text("".join(f"line {i}\n" for i in range(1, 101)))
    t = tmux(f"cd {shlex.quote(str(work))} && {RUN} vim -u NONE long.txt; sleep 1000")
    t.wait_for(r"^line 20$")
    assert "line 40" not in t.screen()
    t.tmux("resize-window", "-x", "90", "-y", "50")
    t.wait_for(r"^line 45$")


def test_htop_draws(work, tmux):
    if not shutil.which("htop"):
        pytest.skip("needs the program htop")
    t = tmux(f"cd {shlex.quote(str(work))} && {RUN} htop; echo htop-rc=$?; sleep 1000", cols=120, rows=40)
    t.wait_for(r"F10")
    t.keys("q")
    t.wait_for(r"htop-rc=0")


def test_less_reads_keys_although_stdin_is_a_pipe(work, tmux):
    if not shutil.which("less"):
        pytest.skip("needs the program less")
    t = tmux(f"cd {shlex.quote(str(work))} && seq 1 500 | {RUN} less; echo less-rc=$?; sleep 1000")
    t.wait_for(r"^20$")
    t.keys("G")
    t.wait_for(r"^500$")
    t.keys("q")
    t.wait_for(r"less-rc=0")


@pytest.mark.parametrize("sequence", ["\\033]52;c;ZXZpbA==\\a", "\\033[21t", "\\033]1337;File=:AA==\\a", "\\033P+q544e\\033\\\\", "\\005"])
def test_reprogramming_does_not_reach_the_terminal(work, sequence):
    """Claim: output cannot reprogram the terminal (ATTACKS 78). Without the sandbox the bytes arrive, with it they do not."""
    script = f"printf 'a{sequence}b\\n'"
    direct = pexpect.spawn("/bin/sh", ["-c", script], timeout=WAIT)
    out, _ = finish(direct)
    assert out != b"ab\r\n" and out.startswith(b"a") and out.endswith(b"b\r\n")
    out, status = finish(spawn("sh", "-c", script))
    assert (out, status) == (b"ab\r\n", 0)


def test_colours_and_text_reach_the_terminal(work):
    out, _ = finish(spawn("printf", "\\033[1;31mgr\u00fc\u00dfe\\033[0m \u6f22\\n"))
    assert out == "\x1b[1;31mgr\u00fc\u00dfe\x1b[0m \u6f22\r\n".encode()


def test_a_pipe_is_not_filtered(work):
    r = run(f"{RUN} printf '\\033]52;c;eA==\\a\\005\\377'")
    assert r.stdout == b"\x1b]52;c;eA==\a\x05\xff" and r.returncode == 0


def test_streams_are_not_mixed_without_a_terminal(work):
    r = run(f"{RUN} sh -c 'echo out; echo err >&2; test -t 1 || echo no-tty'", stdin=subprocess.DEVNULL)
    assert (r.stdout, r.stderr, r.returncode) == (b"out\nno-tty\n", b"err\n", 0)


def test_dev_stderr_can_be_opened_anew(work):
    r = run(f"{RUN} sh -c 'echo a > /dev/stdout; echo b > /dev/stderr'", stdin=subprocess.DEVNULL)
    assert (r.stdout, r.stderr, r.returncode) == (b"a\n", b"b\n", 0)


def test_pipelines(work):
    r = run(f"seq 1 100000 | {RUN} cat | head -1; echo ${{PIPESTATUS[1]}}")
    assert r.stdout.split() in ([b"1", b"141"], [b"1", b"0"])  # cat may have finished before head went away
    r = run(f"{RUN} yes | head -1; echo ${{PIPESTATUS[0]}}")
    assert r.stdout.split() == [b"y", b"141"]


def test_a_gigabyte_through_pipes_is_intact(work):
    make = "import hashlib,sys; h=hashlib.sha256()\nfor i in range(1000):\n b=bytes([i%251])*1000000; h.update(b); sys.stdout.buffer.write(b)\nprint(h.hexdigest(),file=sys.stderr)"
    p = subprocess.Popen([sys.executable, "-c", make], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    r = subprocess.run(["bash", "-c", f"{RUN} cat | sha256sum"], stdin=p.stdout, capture_output=True)
    p.stdout.close()
    assert r.stdout.split()[0] == p.stderr.read().strip()
    p.wait()


def test_stdin_from_a_terminal_only(work):
    shell = spawn_shell()
    shell.sendline(RUN.encode() + b" cat | tr a-z A-Z; echo status=${PIPESTATUS[0]}")
    shell.sendline(b"hello")
    shell.expect_exact(b"HELLO")
    shell.sendeof()
    shell.expect_exact(b"status=0")
    shell.sendline(RUN.encode() + b" sh -c 'echo re\"\"ady >&2; exec sleep 1000' | cat; echo status=${PIPESTATUS[0]}")
    shell.expect_exact(b"ready")
    shell.sendintr()
    shell.expect_exact(b"OUT> ")
    shell.close()


def test_stdout_to_a_file_keeps_the_terminal(work):
    shell = spawn_shell()
    shell.sendline(RUN.encode() + b" sh -c 'read x; echo \"$x\"' > answer; echo status=$?")
    shell.sendline(b"typed")
    shell.expect_exact(b"status=0")
    assert (work / "answer").read_bytes() == b"typed\n"
    shell.close()


def test_a_directory_is_refused(work):
    r = run(f"{RUN} ls < /etc")
    assert r.returncode == 125 and b"standard input is a directory" in r.stderr and r.stdout == b""
    r = run(f"{RUN} ls 3< /etc /proc/self/fd")
    assert r.returncode == 0 and b"3\n4" not in r.stdout  # 3 is ls's own


def test_closed_descriptors(work):
    r = run(f"{RUN} sh -c 'readlink /proc/self/fd/0 /proc/self/fd/2; cat' <&- 2>&-")
    assert (r.stdout, r.returncode) == (b"/dev/null\n/dev/null\n", 0)


def test_a_socket_does_not_go_in(work):
    import socket

    a, b = socket.socketpair()
    p = subprocess.Popen([BAWN, "run", "--", "sh", "-c", "readlink /proc/self/fd/0; cat"], stdin=b, stdout=subprocess.PIPE)
    b.close()
    a.sendall(b"through")
    a.shutdown(socket.SHUT_WR)
    out, _ = p.communicate(timeout=WAIT)
    assert out.startswith(b"pipe:[") and out.endswith(b"through") and p.returncode == 0
    a.close()
