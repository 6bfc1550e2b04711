# SPDX-License-Identifier: Apache-2.0
"""`bawn exec` in a kept sandbox is as good as `bawn run`: the same claims hold for both, so each test runs with both.

`inside` is how a command gets in: its `prefix` in front of the command, `inside(*command)` runs one to its end.
"""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from person import WAIT, finish, shell, terminal  # noqa: E402


class Inside:
    def __init__(self, runner, verb):
        self.runner, self.verb = runner, verb
        self.workspace = runner.workspace

    def args(self, *options):
        return ["run", "--network", "none", *options, "--"] if self.verb == "run" else ["exec", *options, "box", "--"]

    def __call__(self, *argv, options=(), **kw):
        return self.runner.bawn(*self.args(*options), *argv, **kw)

    def popen(self, *argv, options=(), **kw):
        kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kw}
        return self.runner.popen(self.runner.path, *self.args(*options), *argv, **kw)

    def terminal(self, *argv, options=(), **kw):
        return terminal(self.runner, *self.args(*options), *argv, **kw)

    @property
    def line(self):
        """For a shell outside."""
        return " ".join([str(self.runner.path), *self.args()]).encode() + b" "

    def bash(self, script, **kw):
        """A script outside, in which BAWN stands for the way in."""
        return self.runner.run("bash", "-c", script.replace("BAWN", self.line.decode().strip()), **kw)

    def fifo(self, name):
        path = self.workspace / name
        os.mkfifo(path)
        return self.runner.own(path)


@pytest.fixture(params=["run", "exec"])
def inside(runner, request):
    if request.param == "exec":
        r = runner.bawn("start", "box", "--network", "none")
        assert r.rc == 0, r
    yield Inside(runner, request.param)
    if request.param == "exec":
        r = runner.bawn("stop", "box", "-t", "0")
        assert r.rc == 0, r


# -- how it ends ---------------------------------------------------------------------------------------------------------


def test_statuses(inside):
    """Claim: the exit status is the command's; 128 + n for a signal; 126 and 127 for what cannot be executed, and they say why."""
    for script, status in [("exit 0", 0), ("exit 1", 1), ("exit 124", 124), ("exit 255", 255), ("kill -KILL $$", 137), ("kill -TERM $$", 143),
                           ("kill -USR1 $$", 128 + signal.SIGUSR1), ("kill -SEGV $$", 139)]:
        r = inside("sh", "-c", script)
        assert (r.rc, r.out) == (status, b""), r
    (inside.workspace / "text").write_text("no program\n")
    for command, status, says in [("nosuch", 127, b"command not found inside the sandbox"), ("./nosuch", 127, b"No such file"),
                                  ("./text", 126, b"Permission denied"), ("/tmp", 126, b"Permission denied")]:
        r = inside(command)
        assert r.rc == status and b"bawn: " in r.err and says in r.err and r.out == b"", r


def test_signals_of_the_client_reach_the_command(inside):
    """Claim: what is sent to bawn arrives at the command, once, in order."""
    signals = [signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2, signal.SIGTERM]
    script = "import os, signal\nfor s in %r: signal.signal(s, lambda n, f: os.write(1, b'%%d\\n' %% n))\nprint('ready', flush=True)\nwhile True: signal.pause()"
    p = inside.popen("/usr/bin/python3", "-c", script % [int(s) for s in signals])
    assert p.stdout.readline() == b"ready\n"
    for s in signals:
        p.send_signal(s)
        assert p.stdout.readline() == b"%d\n" % s
    p.kill()
    p.wait(WAIT)
    assert p.stdout.read() in (b"", b"1\n")  # and with bawn the command is gone; the keeper says SIGHUP first
    p.stdout.close()
    p.stderr.close()


def test_a_job_without_a_terminal_stops_and_goes_on(inside):
    """Claim: SIGTSTP stops the command, and then bawn itself, so that a shell sees its job stop; SIGCONT lets both go on."""
    go = inside.fifo("go")
    # a group of its own in our session, as a shell does it: nobody could continue a group that is alone in its session
    p = inside.popen("sh", "-c", "echo ready; read x < go; echo got-$x; exit 3", start_new_session=False, process_group=0)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(p.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    fd = os.open(go, os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b"abc\n")
    p.send_signal(signal.SIGCONT)
    assert p.stdout.read() == b"got-abc\n" and p.wait(WAIT) == 3
    os.close(fd)
    p.stdout.close()
    p.stderr.close()


def test_time_is_limited(inside):
    """Claim: --timeout ends it with 124, and one that does not hear SIGTERM is killed."""
    for script in ("exec sleep 1000", "trap '' TERM; while :; do sleep 0.1; done"):
        r = inside("sh", "-c", script, options=["--timeout", "300ms"])
        assert r.rc == 124 and b"time limit" in r.err, r
    assert inside("sh", "-c", "exit 3", options=["--timeout", "1h"]).rc == 3


# -- streams ---------------------------------------------------------------------------------------------------------------


def test_standard_input(inside):
    """Claim: a pipe, a file, nothing, a socket: the command reads what bawn was given; what is a folder or write-only is refused or fails."""
    assert inside("cat", input=b"through a pipe").out == b"through a pipe"
    file = inside.workspace / "file"
    file.write_bytes(b"line 1\nline 2\n")
    with open(file, "rb") as f:
        assert inside("cat", stdin=f).out == b"line 1\nline 2\n"
    r = inside.bash("(BAWN head -n 1; cat) < file")
    assert r.out.startswith(b"line 1\n") and r.rc == 0, r
    r = inside.bash("BAWN sh -c 'readlink /proc/self/fd/0 /proc/self/fd/2; cat' <&- 2>&-")
    assert (r.rc, r.out) == (0, b"/dev/null\n/dev/null\n"), r
    r = inside.bash("BAWN sh -c 'echo lost' >&-; echo rc=$?")
    assert r.out == b"rc=0\n", r
    r = inside.bash("BAWN cat < /etc")
    assert r.rc == 125 and b"standard input is a directory" in r.err, r
    a, b = socket.socketpair()
    p = inside.popen("sh", "-c", "readlink /proc/self/fd/0; cat", stdin=b)
    b.close()
    a.sendall(b"through")
    a.shutdown(socket.SHUT_WR)
    out, _ = p.communicate(timeout=WAIT)
    a.close()
    assert out.startswith(b"pipe:[") and out.endswith(b"through") and p.returncode == 0


@pytest.mark.parametrize("inside", ["exec"], indirect=True)  # for a run: test_tty.py
def test_100_megabytes_both_ways(inside):
    """Claim: bytes come through whole, whatever carries them: pipes that are handed in, files that are relayed."""
    block = hashlib.shake_128(b"seed").digest(1 << 20)
    inside.runner.write(inside.runner.home / "data", block * 100)
    r = inside.bash("cd; cat data | BAWN cat | cmp - data && BAWN sh -c 'tee /dev/stderr' < data 2> err > out && cmp out data && cmp err data")
    assert r.rc == 0, r


NOTICE = rb"bawn: limits without a cgroup[^\n]*\n"  # of ours; it may come while the command writes


def test_both_streams_in_one_keep_their_order(inside):
    """Claim: where stdout and stderr are the same pipe or file outside they are so inside: nothing overtakes."""
    script = "i=0; while [ $i -lt 500 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done"
    expected = b"".join(b"out%d\nerr%d\n" % (i, i) for i in range(500))
    p = inside.popen("sh", "-c", script, stderr=subprocess.STDOUT)
    assert re.sub(NOTICE, b"", p.communicate(timeout=WAIT)[0]).endswith(expected)
    r = inside.bash(f"BAWN sh -c '{script}' > both 2>&1")
    assert r.rc == 0 and re.sub(NOTICE, b"", (inside.workspace / "both").read_bytes()).endswith(expected)


def test_whoever_stops_reading_ends_it(inside):
    """Claim: SIGPIPE, as outside: 141."""
    r = inside.bash("BAWN yes | head -n 1; echo ${PIPESTATUS[0]}")
    assert r.out == b"y\n141\n", r


def test_what_the_caller_ignores_does_not_end_it(inside):
    """Claim: nohup means the command, too; what nobody ignores ends it."""
    go = inside.fifo("go")
    p = inside.runner.popen("nohup", inside.runner.path, *inside.args(), "sh", "-c", "echo ready; read x < go; echo $x", stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGHUP)
    go.write_bytes(b"still\n")
    assert p.communicate(timeout=WAIT)[0] == b"still\n" and p.returncode == 0


def test_environment_and_folder(inside):
    """Claim: the command has the sandbox's variables and those that were named for it, none of the caller's."""
    options = ["--env", "NAMED=a b", "--env", "MINE"]
    r = inside("sh", "-c", "env; pwd", options=options, env={"MINE": "m", "SECRET_TOKEN": "x", "LANG": "de_DE.UTF-8", "TZ": "UTC", "LD_PRELOAD_": "y"})
    assert r.rc == 0, r
    lines = r.out.decode().splitlines()
    assert {"NAMED=a b", "MINE=m", "LANG=de_DE.UTF-8", "TZ=UTC"} <= set(lines)
    assert not [line for line in lines if line.startswith(("SECRET", "LD_", "SUDO", "XDG_RUNTIME"))]
    assert lines[-1] == str(inside.workspace)


def test_no_descriptor_of_ours_is_inside(inside):
    """Claim: the command has 0, 1 and 2 and nothing else, whatever bawn and its caller have open."""
    extra = os.open("/etc", os.O_RDONLY)
    os.set_inheritable(extra, True)
    listing = "import os\nfor n in sorted(os.listdir('/proc/self/fd'), key=int):\n    try: os.fstat(int(n)), print(n, end=' ')\n    except OSError: pass"
    r = inside("/usr/bin/python3", "-c", listing, pass_fds=[extra])
    os.close(extra)
    assert r.out.split() == [b"0", b"1", b"2"], r


# -- the terminal ----------------------------------------------------------------------------------------------------------


def test_keys(inside):
    """Claim: ctrl-c, ctrl-\\ and ctrl-d do what they do outside."""
    for key, status in [(b"\x03", 130), (b"\x1c", 131)]:
        child = inside.terminal("sh", "-c", "ulimit -c 0; echo ready; exec sleep 1000")
        child.expect_exact(b"ready")
        child.send(key)
        assert finish(child) == status
    child = inside.terminal("bash", "--norc", "-c", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done")
    child.expect_exact(b"ready")
    child.sendintr()
    child.expect_exact(b"caught")
    assert finish(child) == 7
    child = inside.terminal("sh", "-c", "cat; echo over")
    child.sendline(b"one")
    child.expect_exact(b"one\r\none\r\n")
    child.sendeof()
    child.expect_exact(b"over")
    assert finish(child) == 0


def test_size(inside):
    """Claim: the terminal inside has the size of the one outside, also when that changes."""
    child = inside.terminal("bash", "--norc", "-c", "stty size; trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done", size=(31, 101))
    child.expect_exact(b"31 101")
    child.expect_exact(b"ready")
    child.setwinsize(40, 120)
    child.expect_exact(b"40 120")
    child.close(force=True)


def test_ctrl_z_and_fg(inside):
    """Claim: a program that does not know of job control stops and goes on; outside, the shell has its terminal back meanwhile."""
    sh = shell(inside.runner)
    sh.sendline(inside.line + b"bash --norc -c 'echo re\"\"ady; while [ ! -e go ]; do sleep 0.1; done; echo re\"\"sumed; exit 9'")
    sh.expect_exact(b"ready")
    sh.send(b"\x1a")
    sh.expect(rb"\[1\]\+\s+Stopped")
    sh.expect_exact(b"OUT> ")
    sh.sendline(b"stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo | tr '\\n' +; echo")
    sh.expect_exact(b"icanon+echo+")
    (inside.workspace / "go").touch()
    sh.sendline(b"fg; echo status=$?")
    sh.expect_exact(b"resumed")
    sh.expect_exact(b"status=9")
    sh.close()


def test_ctrl_z_in_an_editor(inside):
    """Claim: a program that handles ctrl-z itself (puts the terminal in order, then stops itself) stops; after fg it draws anew and works."""
    if not shutil.which("vim"):
        pytest.skip("needs the program vim")
    inside.runner.write("note", "first\n")
    sh = shell(inside.runner)
    sh.sendline(inside.line + b"vim -u NONE -i NONE note")
    sh.expect_exact(b"first")
    sh.send(b"\x1a")
    sh.expect(rb"\[1\]\+\s+Stopped")
    sh.expect_exact(b"OUT> ")
    sh.sendline(b"fg")
    sh.expect_exact(b"first")
    sh.send(b"osecond\x1b:wq\r")
    sh.expect_exact(b"OUT> ")
    sh.sendline(b"echo status=$?")
    sh.expect_exact(b"status=0")
    assert (inside.workspace / "note").read_bytes() == b"first\nsecond\n"
    sh.close()


def test_a_shell_inside_has_job_control(inside):
    """Claim: ctrl-z in a shell inside stops its job, not the shell, and not us."""
    child = inside.terminal("bash", "--norc", "--noprofile", "-i", options=["--env", "PS1"])
    child.expect_exact(b"IN> ")
    child.sendline(b"cat > out")
    child.sendline(b"typed")
    child.expect_exact(b"typed")
    child.send(b"\x1a")
    child.expect(rb"Stopped")
    child.expect_exact(b"IN> ")
    child.sendline(b"fg")
    child.expect_exact(b"cat > out")
    child.sendline(b"more")
    child.sendeof()
    child.expect_exact(b"IN> ")
    child.sendline(b"exit 4")
    assert finish(child) == 4
    assert (inside.workspace / "out").read_bytes() == b"typed\nmore\n"


def test_the_terminal_is_left_as_found(inside):
    """Claim: whatever the command does to its terminal, ours has its modes back, also when bawn is killed by a signal."""
    sh = shell(inside.runner)
    sh.sendline(b"stty -a > before; " + inside.line + b"sh -c 'stty raw -echo; exit 3'; echo rc=$?; stty -a > after; cmp before after && echo sa\"\"me")
    sh.expect_exact(b"rc=3")
    sh.expect_exact(b"same")
    sh.expect_exact(b"OUT> ")
    sh.sendline(inside.line + b"sh -c 'echo re\"\"ady; exec sleep 1000'; stty -a > after; cmp before after && echo sa\"\"me")
    sh.expect_exact(b"ready")
    (child,) = subprocess.run(["pgrep", "-P", str(sh.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(child), signal.SIGTERM)
    sh.expect_exact(b"same")
    sh.close()


def test_the_terminal_inside_is_another_one(inside):
    """Claim: no descriptor inside is the user's terminal; each stream is a pty of the sandbox."""
    sh = shell(inside.runner)
    sh.sendline(b"tty; " + inside.line + b"sh -c 'readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2; ls /dev/pts; echo done-in'")
    sh.expect(rb"/dev/pts/(\d+)\r")
    sh.expect(rb"\r\ndone-in")
    assert set(re.findall(rb"/dev/pts/\d+", sh.before)) == {b"/dev/pts/0"}, sh.before
    sh.close()
