# SPDX-License-Identifier: Apache-2.0
"""A bawn-init that stays: commands by message, each a job; without the keeper that will drive it."""

import errno
import os
import pathlib
import signal
import stat
import sys
import termios

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import init_driver as d  # noqa: E402


@pytest.fixture(params=["pid1", "plain"])
def init(request, user_runner):
    i = d.Init(user_runner, pid1=request.param == "pid1")
    i.pid1 = request.param == "pid1"
    yield i
    i.close()


def failed(init, code, **kw):
    job = init.exec(**kw) if "argv" not in kw else init.exec(*kw.pop("argv"), **kw)
    m = init.recv()
    assert m.type == d.FAILED and m.job == job and m.value == code, m
    return m.text


def test_streams_and_status(init):
    assert init.output("sh", "-c", "cat; echo e >&2; exit 3", input=b"in\n") == (3, b"in\ne\n")
    assert init.output("sh", "-c", "kill -9 $$") == (-9, b"")
    # what does not come is /dev/null, also after others had streams
    out, theirs = os.pipe()
    job, _ = init.started("sh", "-c", "readlink /proc/self/fd/0 /proc/self/fd/2", fds=[theirs], flags=d.STDOUT)
    os.close(theirs)
    assert os.read(out, 100) == b"/dev/null\n" * 2
    os.close(out)
    assert init.exited(job) == 0
    assert init.output("sh", "-c", 'echo $(ls /proc/self/fd)') == (0, b"0 1 2 3\n")  # 3 is ls's own


def test_session_signals_and_environment(init):
    script = 'p=$(cut -d" " -f5,6,7 /proc/$$/stat); [ "$p" = "$$ $$ 0" ] && grep -E "Sig(Blk|Ign)|NoNewPrivs|Seccomp:" /proc/self/status'
    rc, text = init.output("sh", "-c", script)
    assert rc == 0 and sorted(text.split(b"\n")[:-1]) == [b"NoNewPrivs:\t1", b"Seccomp:\t2", b"SigBlk:\t" + b"0" * 16, b"SigIgn:\t" + b"0" * 16]
    env = ["NEW=1", "BASE=two", "HOME", "BASE=three", "GONE"]
    assert init.output("env", env=env) == (0, b"PATH=/usr/bin:/bin\nBASE=three\nNEW=1\n")
    assert init.output("env") == (0, b"PATH=/usr/bin:/bin\nHOME=/\nBASE=base\n")


@pytest.mark.parametrize("pid1", [True, False])
def test_ignored_signals_of_whoever_started_it(user_runner, pid1):
    """Some have signal 32 ignored in what they start; signal() of the C library cannot undo it."""
    i = d.Init(user_runner, pid1=pid1, ignored=(signal.SIGHUP, signal.SIGUSR1, 32, 33))
    try:
        assert i.output("grep", "SigIgn", "/proc/self/status") == (0, b"SigIgn:\t" + b"0" * 16 + b"\n")
    finally:
        i.close()


def test_folder_and_path(init):
    ws = init.runner.workspace
    init.runner.write("bin/tool", "#!/bin/sh\npwd\n", 0o755)
    init.runner.write("bin/plain", "echo plain $1\n", 0o755)
    assert init.output("pwd") == (0, f"{ws}\n".encode())
    assert init.output("tool", env=[f"PATH=/nowhere:{ws}/bin:/bin:/usr/bin"], cwd="/usr") == (0, b"/usr\n")
    assert init.output("plain", "x", env=[f"PATH={ws}/bin"]) == (0, b"plain x\n")
    text = failed(init, errno.ENOENT, argv=["touch", "made"], cwd="/nowhere")
    assert "working directory '/nowhere'" in text
    for argv, code in [(["nowhere"], errno.ENOENT), (["/etc/passwd"], errno.EACCES), (["tool"], errno.ENOENT)]:
        job = init.exec(*argv)
        m = init.recv()
        assert (m.type, m.job, m.value, m.extra) == (d.EXITED, job, code, 1), m
    assert not (ws / "made").exists() and init.quiet()


def test_terminal(init):
    cc = bytearray(20)
    cc[0], cc[4] = 3, 4  # VINTR, VEOF
    modes = (termios.ICRNL, termios.OPOST, termios.CS8 | termios.CREAD, termios.ISIG | termios.ICANON)
    script = 'stty size; tty; stty -a | grep -o -- "-echo "; exec cat'
    job, m = init.started("sh", "-c", script, flags=d.TTY | d.TTY_STDIN | d.TTY_STDOUT | d.TTY_STDERR | d.TERMIOS, rows=33, cols=111, modes=modes, cc=bytes(cc))
    master = m.fds[0]
    text = b""
    os.write(master, b"typed\n")
    while b"typed" not in text:
        text += os.read(master, 4096)
    assert text.split()[:2] == [b"33", b"111"] and text.split()[2].startswith(b"/dev/pts/") and b"-echo" in text
    os.write(master, b"\x03")  # the terminal's own key: it is the controlling one, and the command its foreground
    assert os.WTERMSIG(init.exited(job)) == signal.SIGINT
    os.close(master)


def test_terminal_hangs_up_and_foreground_groups(init):
    tty = d.TTY | d.TTY_STDIN | d.TTY_STDOUT | d.TTY_STDERR
    job, m = init.started("bash", "--norc", "-ic", "bash -c 'trap \"echo int; exit 7\" INT; echo ready; while :; do sleep 0.01; done'; echo rc $?; read x", flags=tty)
    text = b""
    while b"ready" not in text:
        text += os.read(m.fds[0], 4096)
    assert b"24 80" in init.output("sh", "-c", f"stty size </proc/{m.value}/fd/0")[1]
    init.send(d.SIGNAL, signal.SIGINT, 1, job)  # bash gave its command a group of its own
    while b"rc 7" not in text:
        text += os.read(m.fds[0], 4096)
    os.close(m.fds[0])  # bawn-init holds no other copy: SIGHUP
    assert os.WIFSIGNALED(s := init.exited(job)) and os.WTERMSIG(s) == signal.SIGHUP or os.WIFEXITED(s)


def test_stopping(init):
    for sig, seen in [(signal.SIGSTOP, signal.SIGSTOP), (signal.SIGTSTP, signal.SIGSTOP)]:
        job, _ = init.started("sleep", "1000")
        init.send(d.SIGNAL, sig, 1, job)
        m = init.recv()
        assert (m.type, m.job, m.value) == (d.STOPPED, job, seen)
        init.send(d.SIGNAL, signal.SIGTERM, 0, job)
        init.send(d.SIGNAL, signal.SIGCONT, 1, job)
        assert os.WTERMSIG(init.exited(job)) == signal.SIGTERM
    out, theirs = os.pipe()
    job, _ = init.started("sh", "-c", "trap 'echo caught; exit 5' TSTP; echo ready; while :; do sleep 0.01; done", fds=[theirs], flags=d.STDOUT)
    os.close(theirs)
    assert os.read(out, 100) == b"ready\n"
    init.send(d.SIGNAL, signal.SIGTSTP, 1, job)
    assert os.WEXITSTATUS(init.exited(job)) == 5 and os.read(out, 100) == b"caught\n"
    os.close(out)
    init.send(d.SIGNAL, signal.SIGKILL, 1, job)  # nobody's any more
    assert init.output("true") == (0, b"")


def test_what_a_command_leaves_goes_on_until_all_are_signalled(init):
    rc, text = init.output("sh", "-c", "(trap '' HUP TERM; echo ready >&3; exec sleep 1000 3>&-) 3>&1 >/dev/null 2>&1 & read x <&0; echo $!", input=b"\n")
    pid = [w for w in text.split() if w.isdigit()][0].decode()
    assert rc == 0 and init.output("kill", "-0", pid)[0] == 0
    job, _ = init.started("sleep", "1000")
    init.send(d.ALL, signal.SIGTERM)
    assert os.WTERMSIG(init.exited(job)) == signal.SIGTERM
    job, _ = init.started("sleep", "1000")
    init.send(d.ALL, signal.SIGKILL)
    assert os.WTERMSIG(init.exited(job)) == signal.SIGKILL
    assert init.output("sh", "-c", f"while kill -0 {pid}; do sleep 0.01; done")[0] == 0


def test_the_end_of_the_supervisor_is_the_end(init):
    out, theirs = os.pipe()
    init.started("sh", "-c", "setsid sleep 1000 & echo ready; sleep 1000", fds=[theirs], flags=d.STDOUT)
    os.close(theirs)
    assert os.read(out, 100) == b"ready\n"
    init.sock.close()
    assert os.read(out, 1) == b""  # everybody who could write is gone
    os.close(out)
    assert init.proc.wait() in (0, 125)


def test_a_supervisor_that_does_not_read(init):
    """More answers than fit into the socket: nothing is lost, nothing out of order, and meanwhile init reads and reaps."""
    jobs = [init.exec("/bin/true") for _ in range(400)]
    order = {j: [] for j in jobs}
    for _ in range(2 * len(jobs)):
        m = init.recv()
        order[m.job].append((m.type, m.value if m.type == d.EXITED else 0))
    assert all(v == [(d.STARTED, 0), (d.EXITED, 0)] for v in order.values())
    assert init.quiet() and init.output("true") == (0, b"")


def test_requests_that_are_none(init):
    good = d.request(["true"])
    for body in [b"", good[:-1], good + b"\0", b"x" + good[1:]]:
        init.send(d.EXEC, job=1000, body=body)
        m = init.recv()
        assert (m.type, m.job, m.value) == (d.FAILED, 1000, errno.EBADMSG)
    assert "descriptors" in failed(init, errno.EBADMSG, argv=["true"], flags=d.STDIN)
    job, _ = init.started("sleep", "1000")
    for number in (0, -5, job):
        init.send(d.EXEC, job=number, body=good)
        m = init.recv()
        assert (m.type, m.job, m.value) == (d.FAILED, number, errno.EINVAL)
    init.send(d.SIGNAL, signal.SIGKILL, 0, job)
    init.exited(job)
    init.send(d.EXEC, extra=1, job=2000, body=b"")
    assert init.recv().value == errno.EBADMSG
    assert init.output("true") == (0, b"")


def test_a_long_request_comes_in_a_memfd(init):
    body = d.request(["sh", "-c", "echo ${#LONG}"], env=["LONG=" + "x" * 100000], flags=d.STDOUT)
    out, theirs = os.pipe()
    fd = d.memfd(body)
    init.send(d.EXEC, extra=1, job=5, fds=[fd, theirs])
    os.close(theirs)
    os.close(fd)
    assert init.recv().type == d.STARTED and os.read(out, 100) == b"100000\n" and init.exited(5) == 0
    os.close(out)


def test_open(init):
    ws = init.runner.workspace
    init.runner.write("dir/file", "content")
    (ws / "link").symlink_to("dir/file")
    (ws / "dirlink").symlink_to("dir")
    os.mkfifo(ws / "dir/fifo")

    def ask(path, how=1):
        init.send(d.OPEN, how, 0, 77, os.fsencode(path))
        m = init.recv()
        assert m.type == d.OPEN and m.job == 77 and (m.value == 0) == bool(m.fds), m
        return m.fds[0] if m.fds else -m.value

    for path in (f"{ws}/dir/file", f"/{ws}//./dir/file/"):
        fd = ask(path)
        assert os.read(fd, 100) == b"content"
        os.close(fd)
    fd = ask(f"{ws}/dir", 2)
    if init.link:  # a folder stays inside: a socket to a process that has it
        assert stat.S_ISSOCK(os.fstat(fd).st_mode)
    else:
        assert sorted(os.listdir(fd)) == ["fifo", "file"]
    os.close(fd)
    os.close(ask("/"))
    wrong = {f"{ws}/link": errno.ELOOP, f"{ws}/dirlink/file": errno.ELOOP, f"{ws}/dir/../dir/file": errno.EXDEV, f"{ws}/dir/fifo": errno.ENXIO,
             f"{ws}/none": errno.ENOENT, f"{ws}/dir/file/x": errno.ENOTDIR, "/proc/1/environ": errno.EACCES, "/proc/self/root": errno.ELOOP, "/proc": errno.EACCES,
             "/dev/null": errno.ENXIO, "relative": errno.EINVAL, "": errno.EINVAL, f"{ws}/a\0b": errno.EINVAL, "/" + "x" * 5000: errno.ENAMETOOLONG}
    for path, code in wrong.items():
        assert ask(path) == -code, path
    assert ask(f"{ws}/dir/file", 2) == -errno.ENOTDIR and ask(f"{ws}/dir/file", 3) == -errno.EINVAL
    assert init.output("true") == (0, b"")


def test_guard_with_several_commands(user_runner):
    ws = user_runner.workspace
    user_runner.write("protected", "old")
    init = d.Init(user_runner, guard=True, protect=b"protected\n")
    try:
        # one that waits in the background while its command is gone, others at once, each behind a filter of its own
        script = "(while ! [ -e go ]; do sleep 0.01; done; echo later >left) >/dev/null 2>&1 & echo x >first"
        assert init.output("sh", "-c", script) == (0, b"")
        out, theirs = os.pipe()
        jobs = [init.exec("sh", "-c", f"for i in 1 2 3 4 5; do echo {n} >f{n}.$i || exit 1; done; umask 077; echo x >mode{n}; echo bad >protected",
                          fds=[theirs, theirs], flags=d.STDOUT | d.STDERR) for n in range(20)]
        os.close(theirs)
        ends = {}
        while len(ends) < len(jobs):
            m = init.recv()
            if m.type == d.EXITED:
                ends[m.job] = os.WEXITSTATUS(m.value)
            else:
                assert m.type == d.STARTED, m
        os.close(out)
        assert all(ends[j] == 2 for j in jobs), ends  # dash: the last redirection was refused
        assert all((ws / f"f{n}.{i}").read_text() == f"{n}\n" for n in range(20) for i in range(1, 6))
        assert all((ws / f"mode{n}").stat().st_mode & 0o777 == 0o600 for n in range(20))
        assert (ws / "protected").read_text() == "old"
        assert init.output("sh", "-c", "umask; echo x >mask; while ! [ -e left ]; do touch go; sleep 0.01; done; cat left") == (0, b"0022\nlater\n")
        assert (ws / "mask").stat().st_mode & 0o777 == 0o644
    finally:
        init.close()
    assert (2, "protected") in init.touched
