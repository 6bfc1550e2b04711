# SPDX-License-Identifier: Apache-2.0
"""`bawn run`: the command behaves as if it had been started directly."""

import json
import os
import re
import shlex
import signal
import subprocess
import time

import pexpect
import pytest

PYTHON = "/usr/bin/python3"


def sh(runner, script, *options, **kw):
    return runner.bawn("run", *options, "--", "sh", "-c", script, **kw)


def said(r):
    """Standard error without the line that tells a user who may not make cgroups how limits are kept instead."""
    return b"".join(line for line in r.err.splitlines(True) if not line.startswith(b"bawn: limits without a cgroup"))


# Status


@pytest.mark.parametrize("status", [0, 1, 2, 42, 64, 125, 126, 127, 128, 137, 254, 255])
def test_exit_status_is_the_command_s(runner, status):
    r = sh(runner, f"exit {status}")
    assert (r.rc, r.out, said(r)) == (status, b"", b""), r


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 15, 31, 34, 64])
def test_a_signal_is_128_plus_its_number(runner, number):
    r = runner.bawn(
        "run",
        "--",
        PYTHON,
        "-c",
        f"import os, resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        f"signal.signal({number}, signal.SIG_DFL) if {number} != 9 else 0; os.kill(os.getpid(), {number}); signal.pause()",
    )
    assert r.rc == 128 + number, r


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "./no-such-file", "/no/such/file", ""])
def test_a_command_that_is_not_there_is_127(runner, command):
    r = runner.bawn("run", "--", command)
    assert r.rc == 127 and r.err.startswith(b"bawn:") and r.out == b"", r


def test_a_command_that_cannot_be_executed_is_126(runner):
    runner.write("plain.txt", "text")
    runner.write("badinterp", "#!/no/such/interpreter\n", 0o755)
    assert runner.bawn("run", "--", "./plain.txt").rc == 126
    assert runner.bawn("run", "--", "/usr").rc == 126
    assert runner.bawn("run", "--", "./badinterp").rc in (126, 127)


def test_a_script_without_interpreter_line_is_like_execvp(runner):
    runner.write("script", "echo ran\n", 0o755)
    assert runner.bawn("run", "--", "./script").rc in (0, 126)


@pytest.mark.parametrize(
    "args",
    [
        ["run", "--nonsense"],
        ["run", "--memory", "many", "--", "true"],
        ["run", "--memory"],
        ["run", "--pids", "-1", "--", "true"],
        ["run", "--cpus", "zero", "--", "true"],
        ["run", "--timeout", "soon", "--", "true"],
        ["nonsense"],
        ["run"],
        ["run", "--"],
        ["run", "--mount", "/no/such/dir", "--", "true"],
        ["run", "--engine", "nonsense", "--", "true"],
        ["run", "--profile", "no-such-profile", "--", "true"],
        ["run", "-C", "/no/such/dir", "--", "true"],
    ],
    ids=" ".join,
)
def test_a_wrong_invocation_starts_nothing(runner, args):
    r = runner.bawn(*args)
    assert r.rc in (64, 125) and r.out == b"", r
    assert all(line.startswith(b"bawn:") or line.startswith(b" ") for line in r.err.splitlines()) and r.err, r


# Streams


def test_standard_output_and_error_are_separate(runner):
    r = sh(runner, "echo out; echo err >&2; echo out2")
    assert (r.rc, r.out, said(r)) == (0, b"out\nout2\n", b"err\n"), r


def test_standard_input_reaches_the_command(runner):
    data = bytes(range(256)) * 1000
    r = runner.bawn("run", "--", "cat", input=data)
    assert (r.rc, r.out) == (0, data)


def test_the_end_of_standard_input_is_seen(runner):
    r = runner.bawn("run", "--", "wc", "-c", input=b"")
    assert r.out.strip() == b"0", r


def test_a_gigabyte_through_pipes_arrives_intact(runner):
    size = 1 << 30
    make = f"import sys, hashlib\nh = hashlib.sha256(); b = bytes(range(256)) * 4096\nfor i in range({size} // len(b)): sys.stdout.buffer.write(b); h.update(b)\nsys.stderr.write(h.hexdigest())"
    script = f"{PYTHON} -c {shlex.quote(make)} 2>sum-in | {shlex.quote(str(runner.path))} run -- cat | sha256sum"
    r = runner.run("bash", "-o", "pipefail", "-c", script)
    assert r.rc == 0, r
    assert r.out.split()[0].decode() == (runner.workspace / "sum-in").read_text(), r


def test_a_reader_that_stops_early_ends_the_command(runner):
    r = runner.run("bash", "-c", f"{shlex.quote(str(runner.path))} run -- yes | head -n 1; echo ${{PIPESTATUS[0]}}")
    assert r.out.split()[0] == b"y" and int(r.out.split()[1]) == 141, r


def test_files_as_streams(runner):
    (runner.workspace / "in").write_text("from a file")
    r = runner.run(
        "sh", "-c", f"{shlex.quote(str(runner.path))} run -- sh -c 'cat; echo e >&2' < in > out 2> err; echo $?"
    )
    assert r.out == b"0\n", r
    assert (runner.workspace / "out").read_text() == "from a file" and (runner.workspace / "err").read_text().endswith(
        "e\n"
    )


def test_output_that_a_full_disk_does_not_take_is_no_success(runner):
    """The command writes to a pipe, and has ended well before the file turns out to be full."""
    path = shlex.quote(str(runner.path))
    runner.bawn("start", "box", "-w", "ro", "--network", "none")
    try:
        for verb in (f"{path} run --", f"{path} run --tty --", f"{path} exec box --"):
            for command, status in (("echo x", 125), ("sh -c 'echo x; exit 3'", 3)):
                r = runner.run("sh", "-c", f"{verb} {command} >/dev/full")
                assert r.rc == status and b"bawn: the standard output cannot be written: No space left on device" in r.err, r
        assert runner.run("sh", "-c", f"{path} run -- sh -c 'echo x >&2' 2>/dev/full").rc == 0
    finally:
        assert runner.bawn("stop", "box").rc == 0


def test_appending_keeps_the_place(runner):
    r = runner.run("sh", "-c", f"(echo a; {shlex.quote(str(runner.path))} run -- echo b; echo c) > log; cat log")
    assert r.out == b"a\nb\nc\n", r


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams(runner, closed):
    """Bawn's own descriptors never end up as the command's 0, 1, 2."""
    probe = "import os, sys\nfor fd in (0, 1, 2):\n  try: n = os.readlink('/proc/self/fd/%d' % fd)\n  except OSError: n = 'closed'\n  open('seen', 'a').write(n + '\\n')\nopen('seen', 'a').write('fds %d\\n' % len([f for f in os.listdir('/proc/self/fd') if int(f) > 3]))"
    r = runner.run(
        "sh", "-c", f"{shlex.quote(str(runner.path))} run -- {PYTHON} -c {shlex.quote(probe)} {closed}; echo $? > rc"
    )
    status = (runner.workspace / "rc").read_text().strip()
    assert status in ("0", "125"), r
    if status == "0":
        seen = (runner.workspace / "seen").read_text().splitlines()
        for name in seen[:3]:
            assert name in ("closed", "/dev/null") or name.startswith(("pipe:", "/dev/pts", "/dev/null")), seen
        assert seen[3] in ("fds 0", "fds 1"), seen


# Arguments, environment, place


def test_arguments_of_any_bytes(runner):
    args = [bytes([b]) for b in range(1, 256)] + [
        bytes(range(1, 256)),
        b"",
        b" ",
        b"--",
        b"-x",
        b"a\nb",
        b"$(id)",
        b"`id`",
        b"'\"",
        b"%s%n",
        "é世界".encode(),
    ]
    r = runner.bawn(
        "run",
        "--",
        PYTHON,
        "-c",
        "import os, sys; [sys.stdout.buffer.write(os.fsencode(a) + b'\\0') for a in sys.argv[1:]]",
        *args,
    )
    assert r.rc == 0 and r.out.split(b"\0")[:-1] == args, r


def test_very_many_arguments(runner):
    args = [f"argument-{i:06}" for i in range(50000)]
    r = runner.bawn("run", "--", PYTHON, "-c", "import sys; print(len(sys.argv), sys.argv[-1])", *args)
    assert r.out == b"50001 argument-049999\n", r.err[:500]


def test_options_after_the_command_are_the_command_s(runner):
    assert runner.bawn("run", "echo", "--memory", "1").out == b"--memory 1\n"
    assert runner.bawn("run", "--", "echo", "--", "-n").out == b"-- -n\n"


def test_environment(runner):
    r = runner.bawn(
        "run",
        "--env",
        "A=1 2",
        "--env",
        "FROM_HOST",
        "--env",
        "EMPTY=",
        "--env",
        "NOT_THERE",
        "--",
        "env",
        "-0",
        env={"FROM_HOST": "h\nx", "OTHER": "no", "LC_ALL": "C.UTF-8", "TERM": "xterm"},
    )
    env = dict(e.split(b"=", 1) for e in r.out.split(b"\0") if e)
    assert env[b"A"] == b"1 2" and env[b"FROM_HOST"] == b"h\nx" and env[b"EMPTY"] == b"", r
    assert b"OTHER" not in env and b"NOT_THERE" not in env, r
    assert env[b"TERM"] == b"xterm" and env[b"LC_ALL"] == b"C.UTF-8"
    assert env[b"PWD"] == os.fsencode(runner.workspace)
    for name in (b"HOME", b"PATH", b"USER", b"TMPDIR"):
        assert env[name], name


def test_the_home_inside_is_own_and_empty(runner):
    runner.write(runner.home / ".bashrc", "x")
    r = sh(runner, "cd ~ && pwd && ls -A && echo x > file && cat file")
    assert r.rc == 0 and r.out.endswith(b"\nx\n") and b".bashrc" not in r.out, r


def test_the_working_directory_keeps_its_path(runner):
    deep = runner.workspace
    assert sh(runner, "pwd; pwd -P; ls /workspace").out.startswith(
        os.fsencode(deep) + b"\n" + os.fsencode(deep) + b"\n"
    )
    runner.write("hello", "x")
    assert sh(runner, "cat /workspace/hello").out == b"x"
    other = runner.mkdir(runner.top / "other")
    assert runner.bawn("run", "-C", other, "--", "pwd").out == os.fsencode(other) + b"\n"
    assert runner.bawn("run", "-C", "../other", "--", "pwd").out == os.fsencode(other) + b"\n"


def test_changes_in_the_workspace_are_live(runner):
    runner.write("gone", "")
    runner.write("from", "f")
    r = sh(runner, "echo new > made; rm gone; mv from to; mkdir -p a/b; ln -s made link; chmod 751 made")
    assert r.rc == 0, r
    assert (runner.workspace / "made").read_text() == "new\n" and not (runner.workspace / "gone").exists()
    assert (runner.workspace / "to").read_text() == "f" and (runner.workspace / "a" / "b").is_dir()
    assert (
        os.readlink(runner.workspace / "link") == "made" and (runner.workspace / "made").stat().st_mode & 0o777 == 0o751
    )


@pytest.mark.parametrize("mask", ["022", "077", "002", "000"])
def test_umask(runner, mask):
    r = runner.run(
        "sh", "-c", f"umask {mask}; exec {shlex.quote(str(runner.path))} run -- sh -c 'umask; touch f; stat -c %a f'"
    )
    want = f"{0o666 & ~int(mask, 8):o}"
    assert r.out.decode().split() == ["0" + mask, want], r


def test_mounts(runner):
    data = runner.mkdir(runner.top / "data")
    runner.write(data / "file", "data")
    where = str(data)
    assert sh(runner, f"cat {where}/file", "--mount", where).out == b"data"
    assert sh(runner, f"echo x > {where}/file", "--mount", where).rc != 0
    assert sh(runner, f"cat {where}/file").rc != 0
    assert sh(runner, "cat /data/file", "--mount", f"{where}:/data").out == b"data"
    assert sh(runner, "echo y > /data/file", "--mount", f"{where}:/data:rw").rc == 0
    assert (data / "file").read_text() == "y\n"
    assert sh(runner, "echo z > /data/file", "--mount", f"{where}:/data:ro").rc != 0
    single = runner.write(runner.top / "single", "one")
    assert sh(runner, "cat /one", "--mount", f"{single}:/one").out == b"one"


# Odd places


def odd_folder(runner, name):
    path = os.path.join(os.fsencode(runner.top), name)
    os.makedirs(path)
    for part in (path, os.path.dirname(path)):
        os.chown(part, runner.user.pw_uid, runner.user.pw_gid)
    return path


@pytest.mark.parametrize(
    "name",
    [
        b"with space",
        b"new\nline",
        "\u00fcml\u00e4ut \u4e16\u754c \U0001f40d".encode(),
        b"\xff\x80",
        b"a:b",
        b"  ",
        b"...",
        b"#x",
        b"%20",
    ],
    ids=ascii,
)
def test_workspaces_with_odd_names(runner, name):
    path = odd_folder(runner, name)
    r = sh(runner, 'printf %s "$(pwd; echo .)"; echo made > file; cat /workspace/file', cwd=path)
    assert r.rc == 0 and r.out == path + b"\n." + b"made\n", r


def test_a_workspace_path_of_4000_bytes(runner):
    here = os.fsencode(runner.top)
    fd = os.open(here, os.O_RDONLY)
    length = len(here)
    while length < 3990:
        part = b"d" * min(200, max(1, 3990 - length - 1))
        os.mkdir(part, dir_fd=fd)
        os.chown(part, runner.user.pw_uid, runner.user.pw_gid, dir_fd=fd)
        new = os.open(part, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd, length = new, length + 1 + len(part)
    path = os.readlink(f"/proc/self/fd/{fd}")
    os.close(fd)
    r = sh(runner, "pwd -P; echo made > file", cwd=path)
    assert r.rc == 0 and r.out == path.encode() + b"\n", r.err
    assert open(path + "/file").read() == "made\n"


@pytest.mark.parametrize("spec", ["{}", "{}:/data", "{}:/data:rw"])
def test_a_mount_of_what_is_not_there(runner, spec):
    missing = runner.top / "missing"
    r = runner.bawn("run", "--mount", spec.format(missing), "--", "true")
    assert r.rc == 125 and r.err == f"bawn: mount '{missing}': No such file or directory\n".encode(), r


def test_a_run_without_a_home_says_what_it_lacks(runner):
    for mode, unrecorded in (("direct", True), ("ro", False)):
        r = runner.bawn("run", "-w", mode, "--", "true", env={"HOME": "/nonexistent"})
        assert r.rc == 0 and b"nothing of this is in the audit log: there is no home folder" in r.err, r
        assert (b"there will be no review and no rollback" in r.err) == unrecorded, r


def test_a_deleted_working_directory(runner):
    folder = runner.mkdir(runner.workspace / "gone")
    r = runner.run("sh", "-c", f"cd {folder} && rmdir {folder} && exec {shlex.quote(str(runner.path))} run -- true")
    assert r.rc == 125 and r.err.startswith(b"bawn:"), r


@pytest.mark.parametrize("mode", ["direct", "overlay", "ro"])
def test_a_folder_that_cannot_be_the_workspace_is_not_searched(runner, mode):
    """It may be a whole home, or /: the first thing that is wrong in there is not what is wrong."""
    runner.mkdir(runner.home / ".sandboxignore")
    for folder, why in ((runner.home, b"your home, with its keys and tokens, would be inside"), ("/", b"it holds more than a project"),
                        ("/proc", b"it holds more than a project"), ("/proc/self", b"nothing below /proc/ can")):  # fmt: skip
        for verb in ("run", "explain"):
            r = runner.bawn(verb, "-w", mode, "-C", folder, "--", "true")
            assert r.rc == 125 and b"cannot be the workspace" in r.err and why in r.err and r.err.count(b"\n") == 1, r


def test_a_read_only_working_directory(runner):
    runner.write("file", "x")
    runner.workspace.chmod(0o555)
    r = sh(runner, "cat file; echo y > new; exit 3")
    assert r.out == b"x" and r.rc == 3 and not (runner.workspace / "new").exists(), r


def test_a_working_directory_on_a_read_only_mount(root_runner):
    root_runner.write("file", "x")
    script = f"mount --bind {root_runner.workspace} {root_runner.workspace} && mount -o remount,ro,bind {root_runner.workspace} && cd {root_runner.workspace} && exec {root_runner.path} run -- sh -c 'cat file; echo y > new; exit 3'"
    r = root_runner.run("unshare", "--mount", "sh", "-c", script)
    assert r.out == b"x" and r.rc == 3, r


def test_a_full_disk(root_runner):
    script = (
        f"mount -t tmpfs -o size=1m none {root_runner.workspace} && cd {root_runner.workspace} && head -c 2M /dev/zero > fill; exec {root_runner.path} run -- "
        "sh -c 'echo alive; echo x > new 2>/dev/null; head -c 100000 /dev/zero > new || exit 4'"
    )
    r = root_runner.run("unshare", "--mount", "sh", "-c", script)
    assert r.out == b"alive\n" and r.rc == 4, r


def test_without_home(runner):
    r = runner.bawn(
        "run", "--", "sh", "-c", 'echo ok; test -n "$HOME"', env={"HOME": None, "USER": None, "LOGNAME": None}
    )
    assert (r.rc, r.out) == (0, b"ok\n"), r


def test_without_any_environment(runner):
    r = runner.run("env", "-i", runner.path, "run", "--", "sh", "-c", "echo ok; command -v ls")
    assert r.rc == 0 and r.out.startswith(b"ok\n"), r


def test_home_that_does_not_exist(runner):
    assert sh(runner, "echo ok", env={"HOME": "/nonexistent/x"}).out == b"ok\n"
    r = sh(runner, "echo ok", env={"HOME": "relative"})
    assert r.out == b"ok\n" or r.rc in (64, 125), r


@pytest.mark.parametrize("limit", range(3, 24))
@pytest.mark.no_sanitizer
def test_few_descriptors(runner, limit):
    """Either it runs, or it says why not; it never runs half a sandbox."""
    r = runner.run(
        "sh", "-c", f"ulimit -n {limit}; exec {shlex.quote(str(runner.path))} run -- grep CapEff /proc/self/status"
    )
    assert (r.rc == 0 and r.out == b"CapEff:\t0000000000000000\n") or (r.rc in (125, 126, 127) and r.out == b""), r


def test_inside_a_sandbox(runner):
    """Bawn within Bawn: refused or sandboxed, and never a hang."""
    folder = runner.mkdir(runner.workspace / "bin")
    for name in ("bawn", "bawn-init"):
        program = runner.path.parent / name
        if program.exists():
            (folder / name).write_bytes(program.read_bytes())
            (folder / name).chmod(0o755)
    r = runner.bawn("run", "--", folder / "bawn", "run", "--", "echo", "nested")
    assert (r.rc == 0 and r.out == b"nested\n" and r.err.startswith(b"bawn:")) or (
        r.rc == 125 and r.err.startswith(b"bawn:")
    ), r


def test_many_at_once(runner):
    running = [
        runner.popen(
            runner.path,
            "run",
            "--",
            "sh",
            "-c",
            f"echo {i} > f{i}; sleep 0.1; cat f{i}; exit {i}",
            stdout=subprocess.PIPE,
        )
        for i in range(30)
    ]
    for i, p in enumerate(running):
        out, _ = p.communicate()
        assert (p.returncode, out) == (i, b"%d\n" % i)


# Signals to Bawn


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2]
)
def test_signals_are_passed_on(runner, number):
    code = f"import os, signal, time\ndef got(n, f): os.write(1, b'got %d\\n' % n); os._exit(9)\nsignal.signal({int(number)}, got)\nos.write(1, b'up\\n')\nwhile True: time.sleep(1)"
    p = runner.popen(runner.path, "run", "--", PYTHON, "-c", code, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    os.kill(p.pid, number)
    out, _ = p.communicate(timeout=300)
    assert (p.returncode, out) == (9, b"got %d\n" % number)


def test_a_signal_that_kills_the_command_is_its_status(runner):
    p = runner.popen(runner.path, "run", "--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    os.kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=300) in (128 + 15, -15)
    p.stdout.close()


def test_job_control_at_a_terminal(runner):
    """Ctrl-C reaches the command in the sandbox, Ctrl-D ends its input, the size of the window is known."""
    identity = (
        []
        if runner.is_root
        else ["setpriv", f"--reuid={runner.user.pw_uid}", f"--regid={runner.user.pw_gid}", "--clear-groups"]
    )
    argv = [*identity, str(runner.path), "run", "--", "sh"]
    t = pexpect.spawn(
        argv[0],
        argv[1:],
        env=runner.environ({"TERM": "xterm", "PS1": "p> "}),
        cwd=str(runner.workspace),
        timeout=60,
        dimensions=(33, 77),
    )
    t.sendline("stty size; tty; echo E''ND")
    t.expect("33 77")
    t.expect("END")
    t.sendline("trap 'echo I''NT' INT; sleep 1000; echo A''FTER")
    time.sleep(1)
    t.sendintr()
    t.expect("INT")
    t.sendline("exit 5")
    t.expect(pexpect.EOF)
    t.close()
    assert t.exitstatus == 5


def test_window_changes_reach_the_command(runner):
    identity = (
        []
        if runner.is_root
        else ["setpriv", f"--reuid={runner.user.pw_uid}", f"--regid={runner.user.pw_gid}", "--clear-groups"]
    )
    argv = [
        *identity,
        str(runner.path),
        "run",
        "--",
        "sh",
        "-c",
        "trap 'stty size; exit 0' WINCH; echo rea''dy; while :; do sleep 0.1; done",
    ]
    t = pexpect.spawn(
        argv[0],
        argv[1:],
        env=runner.environ({"TERM": "xterm"}),
        cwd=str(runner.workspace),
        timeout=60,
        dimensions=(24, 80),
    )
    t.expect("ready")
    t.setwinsize(11, 111)
    t.expect("11 111")
    t.expect(pexpect.EOF)
    t.close()
    assert t.exitstatus == 0


def test_no_tty_and_tty(runner):
    assert sh(runner, "test -t 1 && echo tty || echo none", "--no-tty").out == b"none\n"
    assert sh(runner, "test -t 0 || test -t 1 && echo tty || echo none").out == b"none\n"
    assert b"tty" in sh(runner, "test -t 1 && echo tty || echo none", "--tty").out


# Modes


def test_no_sandbox_needs_a_person_or_a_flag(runner):
    r = runner.bawn("run", "--no-sandbox", "--", "echo", "ran")
    assert r.rc in (64, 125) and r.out == b"" and b"--yes-unsandboxed" in r.err, r
    r = runner.bawn("run", "--no-sandbox", "--yes-unsandboxed", "--", "sh", "-c", "echo ran; exit 6")
    assert (r.rc, r.out) == (6, b"ran\n") and r.err.startswith(b"bawn:"), r


def at_a_terminal(runner, answer):
    identity = (
        []
        if runner.is_root
        else ["setpriv", f"--reuid={runner.user.pw_uid}", f"--regid={runner.user.pw_gid}", "--clear-groups"]
    )
    argv = [*identity, str(runner.path), "run", "--no-sandbox", "--", "echo", "r''an"]
    t = pexpect.spawn(
        argv[0], argv[1:], env=runner.environ({"TERM": "xterm"}), cwd=str(runner.workspace), timeout=60, echo=False
    )
    t.expect(r"\?|\]")
    t.sendline(answer)
    t.expect(pexpect.EOF)
    t.close()
    return t.before, t.exitstatus


def test_no_sandbox_asks_at_a_terminal(runner):
    out, status = at_a_terminal(runner, "no")
    assert b"ran" not in out and status in (64, 125), out
    out, status = at_a_terminal(runner, "yes")
    assert b"r''an" in out and status == 0, out


@pytest.mark.parametrize("value,sandboxed", [("true", True), ("native", True), ("", True), ("1", True)])
def test_the_variable_that_chooses(runner, value, sandboxed):
    runner.write(runner.home / "secret", "s")
    r = sh(runner, f"cat {runner.home}/secret; exit 0", env={"BAWN_SANDBOX": value})
    assert r.rc == 0 and (b"s" not in r.out) == sandboxed, r


def test_a_nonsense_value_of_the_variable_is_an_error(runner):
    r = sh(runner, "echo ran", env={"BAWN_SANDBOX": "nonsense"})
    assert r.rc in (64, 125) and r.out == b"" and b"nonsense" in r.err, r


def test_engine_none_wins(runner):
    runner.write(runner.home / "secret", "s")
    r = sh(runner, f"cat {runner.home}/secret", "--engine", "none", "--yes-unsandboxed", env={"BAWN_SANDBOX": "true"})
    assert r.out == b"s", r
    r = sh(runner, "echo ran", "--engine", "none")
    assert r.rc in (64, 125) and r.out == b"", r


def test_require(runner):
    r = sh(runner, "echo ran", "--sandbox=require")
    assert (r.rc, r.out, said(r)) == (0, b"ran\n", b""), r
    r = sh(runner, "echo ran", "--sandbox=nonsense")
    assert r.rc == 64 and r.out == b"", r


@pytest.mark.parametrize("value", ["example.com", "nonsense", ""])
def test_a_network_mode_that_nobody_knows_is_refused(runner, value):
    r = sh(runner, "echo ran", "--network", value)
    assert r.rc == 64 and r.out == b"" and b"--network" in r.err, r


@pytest.mark.parametrize("value", ["none", "off", "list", "limited", "full", "on"])
def test_network_modes(runner, value):
    r = sh(runner, "echo ran", "--network", value)
    assert (r.rc, r.out) == (0, b"ran\n"), r


@pytest.mark.parametrize("profile", ["dev", "safe", "tight", "offline"])
def test_profiles(runner, profile):
    r = sh(runner, "echo ran", "--profile", profile)
    assert (r.rc, r.out) == (0, b"ran\n"), r


def test_dry_run_starts_nothing(runner):
    r = sh(runner, "echo ran > made", "--dry-run")
    assert r.rc == 0 and r.out and not (runner.workspace / "made").exists(), r
    assert os.fsencode(runner.workspace) in r.out
    r = sh(runner, "echo ran > made", "--dry-run", "--json")
    assert json.loads(r.out) and not (runner.workspace / "made").exists(), r


# Limits

EAT = "b = []\nfor i in range(400): b.append(bytearray(1 << 20)); b[-1][::4096] = b'x' * 256\nprint('ate')"


@pytest.mark.no_sanitizer
def test_the_memory_limit_is_named(runner):
    r = runner.bawn("run", "--memory", "64m", "--", PYTHON, "-c", EAT)
    assert r.rc != 0 and r.out == b"", r
    assert b"bawn: memory limit 64 MiB reached" in r.err or by_rlimit(r), r


def by_rlimit(r):
    """Without a cgroup one process meets its own limit first, and sees it as a failed allocation; the run has announced that."""
    return b"bawn: limits without a cgroup" in r.err and b"MemoryError" in r.err


def json_report(r):
    """--json: the report is the last line of standard error or of standard output."""
    for text in (r.err, r.out):
        for line in reversed(text.splitlines()):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                return value
    raise AssertionError(f"no JSON report:{r!r}")


@pytest.mark.no_sanitizer
def test_the_memory_limit_is_in_the_report(runner):
    r = runner.bawn("run", "--json", "--memory", "64m", "--", PYTHON, "-c", EAT)
    assert "memory" in json_report(r)["limits_hit"] or by_rlimit(r), r


def test_the_report(runner):
    r = runner.bawn("run", "--json", "--", "sh", "-c", "exit 3")
    assert r.rc == 3, r
    report = json_report(r)
    assert (
        report["status"] == 3 and report["started"] is True and report["rung"] == "full" and report["limits_hit"] == []
    ), report


def test_the_time_limit_is_named(runner):
    r = sh(runner, "sleep 1000", "--timeout", "1s")
    assert r.rc not in (0, 125) and re.search(rb"^bawn: time limit 1(\.0)? s reached", r.err, re.M), r


def test_a_limit_that_is_not_reached_says_nothing(runner):
    r = sh(runner, "echo fine", "--memory", "512m", "--pids", "100", "--cpus", "1.5", "--timeout", "5m", "--disk", "1g")
    assert (r.rc, r.out) == (0, b"fine\n"), r
    assert b"reached" not in r.err, r


def test_cpus(runner):
    r = runner.bawn(
        "run",
        "--cpus",
        "1",
        "--",
        PYTHON,
        "-c",
        "import time; t = time.time(); c = time.process_time()\nwhile time.time() - t < 0.5: pass\nprint('spun')",
    )
    assert r.out == b"spun\n", r


# What the inside looks like


def test_common_tools_work(runner):
    r = sh(
        runner,
        "id -un && hostname && date >/dev/null && ps >/dev/null && python3 -c 'import ssl, sqlite3, multiprocessing; multiprocessing.Pool(2).map(abs, [1])' && "
        "mktemp >/dev/null && perl -e 1 && tar cf - . >/dev/null && bash -c 'cat <(echo ok)'",
    )
    assert r.rc == 0 and r.out.endswith(b"ok\n"), r


def test_the_user_has_a_name(runner):
    r = sh(runner, "id -u; id -un; getent passwd $(id -u) | cut -d: -f6; echo $HOME")
    uid, name, home, variable = r.out.decode().split()
    assert int(uid) != 0 and home == variable and name, r
    if not runner.is_root:
        assert int(uid) == runner.user.pw_uid and name == runner.name


def test_started_by_root_in_another_s_workspace(root_runner):
    os.chown(root_runner.workspace, 4242, 4343)
    r = root_runner.bawn("run", "--", "sh", "-c", "id -u; id -g; touch made")
    assert r.out == b"4242\n4343\n", r
    made = (root_runner.workspace / "made").stat()
    assert (made.st_uid, made.st_gid) == (4242, 4343)


def test_doctor(runner):
    r = runner.bawn("doctor", "--json")
    assert r.rc in (0, 1) and r.json(), r
