# SPDX-License-Identifier: Apache-2.0
"""What is executed later in a kept sandbox is behind the same walls as what a run starts, and commands are apart from each other's clients.

The first part is the attack tests themselves, a third of each kind: `runner.path` is a program that looks like bawn and executes what would be a
run in a sandbox that was started before (`SHIM`), so that every probe of theirs comes in through `bawn exec`.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "integration")]
import keep_driver as kd  # noqa: E402
from keep_driver import Box  # noqa: E402

from test_files import (  # noqa: E402, F401
    test_a_file_given_as_a_stream_cannot_be_opened_anew, test_a_hard_link_made_inside_reaches_no_outside_file, test_existing_tools_cannot_be_opened_for_writing,
    test_inherited_descriptors_are_closed, test_links_of_pid_1_are_closed, test_magic_links_do_not_lead_out, test_mounts_cannot_be_made_or_undone,
    test_nested_user_namespace_is_refused, test_no_file_capability_is_left_in_the_workspace,
    test_our_programs_cannot_be_overwritten_through_proc, test_pid_1_root_does_not_lead_out, test_standard_input_as_a_folder_is_no_door,
    test_symlink_does_not_let_a_write_out, test_symlink_to_a_folder_is_not_followed_out)
from test_kernel import (  # noqa: E402, F401
    test_cgroup_tree_cannot_be_reached, test_devices_are_the_harmless_ones, test_families_of_sockets, test_ids_other_than_the_own_are_unmapped,
    test_no_kernel_setting_can_be_opened_for_writing, test_no_module_is_loaded_on_demand, test_nothing_else_of_proc_or_sys_can_be_opened_for_writing)
from test_limits import (  # noqa: E402, F401
    test_descriptors_are_limited, test_limits_cannot_be_raised_from_inside)
from test_policy import test_exported_shell_functions_do_not_pass, test_only_private_places_and_the_workspace_can_be_written  # noqa: E402, F401
from test_processes import (  # noqa: E402, F401
    test_a_crash_leaves_no_memory_image, test_all_namespaces_are_own, test_arguments_of_pid_1_tell_nothing, test_descriptors_of_pid_1_cannot_be_listed,
    test_kernel_keyrings_are_not_shared, test_memory_of_pid_1_cannot_be_read, test_no_process_of_the_host_is_seen, test_outside_processes_cannot_be_named,
    test_pid_1_cannot_be_traced, test_pid_1_is_closed, test_pid_1_survives_signals_from_inside, test_privileges_are_none, test_shared_memory_of_the_host_is_not_there,
    test_the_supervisor_cannot_be_signalled, victim)
from test_protect import test_other_spellings_do_not_matter  # noqa: E402, F401
from test_protect_races import test_many_at_once  # noqa: E402, F401
from test_protect_work import test_git_works_and_the_host_sees_a_clean_tree  # noqa: E402, F401
from test_sockets import (  # noqa: E402, F401
    test_a_datagram_socketpair_cannot_be_reconnected_to_the_host, test_abstract_sockets_of_the_host_do_not_answer, test_i386_calls_are_no_way_round_the_filter,
    test_io_uring_is_no_way_round_the_filter, test_loopback_services_of_the_host_do_not_answer, test_no_socket_of_ours_is_reachable, test_only_loopback_exists,
    test_there_is_no_route_out, test_x32_calls_are_no_way_round_the_filter)
from test_terminal import (  # noqa: E402, F401
    test_a_sequence_without_an_end_swallows_no_later_output, test_console_selection_ioctl_is_refused, test_no_character_can_be_typed_for_the_user,
    test_sequences_in_single_bytes_are_filtered, test_the_terminal_inside_is_another_one, test_without_a_terminal_there_is_no_controlling_one)

SHIM = """#!/bin/bash
[ "$1" = run ] || exec "{bawn}" "$@"
shift
options=()
while [ "$1" != -- ]; do options+=("$1"); shift; done
shift
name=k$(printf '%s\\n' "${{options[@]}}" | cksum | cut -d ' ' -f 1)
if ! said=$("{bawn}" start "${{options[@]}}" "$name" 2>&1 < /dev/null) && [[ $said != *"already running"* ]]; then
    printf '%s\\n' "$said" >&2
    exit 125
fi
exec "{bawn}" exec "$name" -- "$@"
"""


@pytest.fixture
def runner(runner):
    """Whose runs are commands of a kept sandbox; the usual one was started before, and every one is stopped at the end."""
    real = runner.path
    runner.path = runner.write(runner.top / "bawn", SHIM.format(bawn=real), 0o755)
    runner.helper = lambda name: real.parent / name
    runner.real = real
    try:
        assert runner.bawn("run", "--", "true").rc == 0
        yield runner
    finally:
        runner.path = real
        r = runner.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r


@pytest.fixture
def box(runner):
    """One that these tests talk to themselves."""
    runner.path = runner.real
    b = Box(runner, "box")
    b.start("--network", "none")
    return b


def start_job(box, script):
    """In the foreground with pipes; comes back once it printed a line, which is returned, too."""
    p = box.runner.popen(box.runner.path, "exec", "box", "--", "sh", "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return p, p.stdout.readline()


def terminal_job(box, *argv):
    c = box.client()
    c.send(kd.EXEC, 1, body=kd.request(argv, kd.TTY | kd.TTY_IN | kd.TTY_OUT | kd.TTY_ERR))
    started = c.expect(kd.STARTED)
    return c, started.extra, started.fds[0]


# -- the same walls ----------------------------------------------------------------------------------------------------------

FACTS = r"""
import json, os, re, resource
status = dict(l.split(":\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\t" in l)
wanted = "Uid Gid Groups Umask CapInh CapPrm CapEff CapBnd CapAmb NoNewPrivs Seccomp Seccomp_filters SigBlk SigIgn ShdPnd SigPnd THP_enabled Cpus_allowed".split()
mounts = sorted({" ".join(l.split()[3:]) for l in open("/proc/self/mountinfo")})
print(json.dumps({
    "status": {k: status.get(k) for k in wanted},
    "limits": [l for l in open("/proc/self/limits").read().splitlines() if not l.startswith("Max file locks")],
    "mounts": [re.sub(r" (shared|master|propagate_from):\d+|[ug]id=\d+", "", m) for m in mounts],
    "fds": {n: re.sub(r"\d+", "N", os.readlink(f"/proc/self/fd/{n}")) for n in os.listdir("/proc/self/fd") if int(n) < 3},
    "score": open("/proc/self/oom_score_adj").read(), "nice": os.nice(0), "root": sorted(os.listdir("/")), "dev": sorted(os.listdir("/dev")),
    "net": open("/proc/net/dev").read().count(":"), "uid_map": re.sub(r" +\d+ +1\n", "", open("/proc/self/uid_map").read()),
    "routes": open("/proc/net/route").read(), "environ": sorted(k for k in os.environ)}))
"""


def of_root(mount):
    """Folders of the root, and covers made of them, are in memory or on disk (jail/apply/ground.h): what may be done there is the same."""
    source, target, options, *_ = mount.split()
    return f"{target} {options}" if "/roots/" in source or (source in ("/", "/var/cache") and " - tmpfs none rw" in mount) else mount


def test_facts_are_those_of_a_run(box):
    """Claim: ids, capabilities, filters, limits, mounts, devices and variables of an executed command are those of a run's command."""
    run = box.runner.bawn("run", "--network", "none", "--", "/usr/bin/python3", "-c", FACTS)
    executed = box.runner.bawn("exec", "box", "--", "/usr/bin/python3", "-c", FACTS)
    assert run.rc == executed.rc == 0, (run, executed)
    run, executed = run.json(), executed.json()
    (home,) = [m for m in executed["mounts"] if m.split()[0].endswith("/sandboxes/box/home")]
    assert " rw,nosuid,nodev" in home, home  # the one that differs: kept, on disk; no more may be done there
    for facts in (run, executed):
        facts["mounts"] = sorted(of_root(m) for m in facts["mounts"] if m.split()[1] != home.split()[1])
    assert run == executed


@pytest.mark.parametrize("how", ["pipes", "terminal", "background"])
def test_descriptors_are_three(box, how):
    """Claim: whichever way a command is started it has 0, 1 and 2, and no other descriptor, of the keeper's, of bawn-init's or of other jobs'."""
    other, _ = start_job(box, "echo ready; read x")
    listing = ["/usr/bin/python3", "-c", "import os\nfor n in sorted(os.listdir('/proc/self/fd'), key=int):\n    try: os.fstat(int(n)), print(n, end=' ')\n    except OSError: pass"]
    if how == "pipes":
        out = box.runner.bawn("exec", "box", "--", *listing).out
    elif how == "terminal":
        out = box.runner.bawn("exec", "--tty", "box", "--", *listing).out
    else:
        c, _ = box.background(*listing)
        out = bytes(c.until(kd.EXITED)[0])
    assert out.split() == [b"0", b"1", b"2"]
    other.communicate(b"x\n", timeout=kd.HANG)


def test_no_variable_of_the_client(box, marker):
    """Claim: of the client's environment only the variables of the terminal and language come in, and those that -e names."""
    env = {"TOKEN": marker, "LD_PRELOAD": "", "BASH_ENV": marker, "GIT_SSH_COMMAND": marker, "PATH": "/usr/bin:/bin:" + marker, "TERM": "vt100"}
    assert marker.encode() in box.runner.run("env", env=env).out
    r = box.runner.bawn("exec", "box", "env", env=env)
    assert r.rc == 0 and marker.encode() not in r.out and b"TERM=vt100\n" in r.out, r
    # nor are they legible where bawn-init or the holder of a terminal could have them
    r = box.runner.bawn("exec", "--tty", "box", "sh", "-c", "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'", env=env)
    assert marker.encode() not in r.out and b"TERM=vt100" in r.out, r


def test_limits_hold_for_all_commands_together(runner):
    """Claim: --pids and --memory count what all commands of the sandbox do; who fails is told, and the sandbox goes on."""
    runner.path = runner.real
    box = Box(runner, "small")
    box.start("--network", "none", "--pids", "40", "--memory", "300m")
    fork = "import os, signal, sys\nn = 0\ntry:\n    while n < 100:\n        if os.fork() == 0:\n            os.close(1), os.close(2), signal.pause()\n        n += 1\nexcept OSError: pass\nprint(n, flush=True)\nsys.stdin.readline()\nos.killpg(0, 9)"
    assert int(runner.run("/usr/bin/python3", "-c", fork.replace("os.killpg(0, 9)", "os.kill(0, 9)"), input=b"\n").out) == 100
    p = runner.popen(runner.path, "exec", "small", "--", "/usr/bin/python3", "-c", fork, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert int(p.stdout.readline()) < 40
    second = runner.bawn("exec", "small", "--", "sh", "-c", "true; (true) && (true)")  # no room is left for another one
    assert second.rc != 0, second
    p.communicate(b"\n", timeout=kd.HANG)
    assert p.returncode == 137
    big = "x = bytearray(b'x') * (600 << 20); print('had it')"
    assert runner.run("/usr/bin/python3", "-c", big).out == b"had it\n"
    r = runner.bawn("exec", "small", "--", "/usr/bin/python3", "-c", big)
    assert r.rc != 0 and r.out == b"", r
    runner.bawn("start", "small")  # where there is no cgroup the watchdog ended it all
    assert runner.bawn("exec", "small", "echo", "on").out == b"on\n"


# -- PID 1, the holder, the sockets -----------------------------------------------------------------------------------------


def test_kill_minus_1_ends_commands_and_not_the_sandbox(box):
    """Claim: the worst that a command can do to the others is what it can do to itself; PID 1 and the keeper go on, and tell how each ended."""
    other, _ = start_job(box, "echo ready; exec sleep 1000")
    r = box.runner.bawn("exec", "box", "sh", "-c", "kill -STOP 1; kill -KILL -1; echo sent")
    assert other.wait(kd.HANG) == 137 and r.out in (b"", b"sent\n")
    other.communicate()
    assert box.sh("echo on") == b"on\n"
    other, _ = start_job(box, "echo ready; exec sleep 1000")
    c, _, master = terminal_job(box, "sleep", "1000")
    r = box.runner.bawn("exec", "box", "/usr/bin/python3", "-c", "import os; os.kill(-1, 19); print('sent')")
    assert r.out == b"sent\n", r
    assert box.sh("echo on") == b"on\n"
    other.kill()  # the client: its command is ended though it is stopped
    other.communicate()
    c.close()
    os.close(master)
    box.stop(seconds=5)


def test_the_holder_of_a_terminal_is_closed(box, probe):
    """Claim: the parent of a command with a terminal shows nothing of bawn-init, whose copy it is; killing or stopping it harms its own command."""
    attack = "cat /proc/$p/environ /proc/$p/maps; ls /proc/$p/fd /proc/$p/cwd/ /proc/$p/root/; readlink /proc/$p/exe; ./probe ptrace $p && echo traced; ./probe pidfd_getfd $p 0 && echo taken"
    victim = box.runner.popen("sleep", "1000")
    r = box.runner.run("sh", "-c", f"p={victim.pid}; {attack}")
    victim.kill()
    victim.wait()
    assert b"HOME=" in r.out and b"sleep" in r.out and b"traced" in r.out, r
    c, pid, master = terminal_job(box, "sleep", "1000")
    holder = int(re.search(rb"PPid:\t(\d+)", box.sh(f"cat /proc/{pid}/status"))[1])
    assert holder != 1
    r = box.runner.bawn("exec", "box", "sh", "-c", f"p={holder}; {attack}")
    assert b"refused" in r.out or not r.out.replace(b"\n", b""), r
    assert b"traced" not in r.out and b"taken" not in r.out and b"HOME=" not in r.out and b"bawn" not in r.out, r
    box.sh(f"kill -STOP {holder}")
    c.send(kd.SIGNAL, signal.SIGUSR1)  # whoever speaks to the command wakes the holder, so its end is told
    assert c.expect(kd.EXITED).value == signal.SIGUSR1
    os.close(master)
    fifo = box.runner.workspace / "over"
    os.mkfifo(fifo)
    box.runner.own(fifo)
    c, pid, master = terminal_job(box, "sh", "-c", "trap '' HUP TERM; exec 3>over; while :; do sleep 0.1; done")
    holder = int(re.search(rb"PPid:\t(\d+)", box.sh(f"cat /proc/{pid}/status"))[1])
    with open(fifo, "rb") as f:
        box.sh(f"kill -TERM {holder}; kill -SEGV {holder}; kill -KILL {holder}")
        assert c.expect(kd.EXITED).value == signal.SIGKILL
        assert f.read() == b""  # the command, its last writer, is gone with its holder
    os.close(master)
    assert box.sh("echo on") == b"on\n"


def test_our_sockets_cannot_be_reached(box):
    """Claim: neither the exec socket nor the control socket of a sandbox is reachable from inside, by its path, by looking or by a link."""
    probe = """
import os, socket, sys
found = []
for path, kind in ((sys.argv[1], socket.SOCK_SEQPACKET), (sys.argv[2], socket.SOCK_STREAM)):
    for name in (path, "link-" + os.path.basename(path)):
        s = socket.socket(socket.AF_UNIX, kind)
        try:
            s.connect(name)
            found.append(name)
        except OSError:
            pass
sys.exit(0 if found else 3)
"""
    control = box.state_home / "run" / f"{box.state()['pid']}.sock"
    for path in (box.socket, control):
        os.symlink(path, box.runner.workspace / f"link-{path.name}")
    argv = ["/usr/bin/python3", "-c", probe, str(box.socket), str(control)]
    assert box.runner.run(*argv).rc == 0
    r = box.runner.bawn("exec", "box", "--", *argv)
    assert r.rc == 3, r
    look = "find / -xdev -type s 2>/dev/null; find / -name '*.sock' 2>/dev/null; cat /proc/net/unix | grep -c sock; true"
    r = box.runner.bawn("exec", "box", "--", "sh", "-c", look)
    assert b"box.sock" not in r.out.replace(b"link-box.sock", b"") and f"/{control.name}".encode() not in r.out, r


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"])
def test_our_own_folders_cannot_be_in_the_workspace(runner, variable):
    """Claim: where sockets, rules or the audit log would lie in the workspace, or it in them, nothing is started: whoever has them is outside."""
    runner.path = runner.real
    own = runner.mkdir(runner.workspace / "own", 0o700)
    for args in (["start", "inner"], ["run", "--", "true"]):
        r = runner.bawn(args[0], "--network", "none", *args[1:], env={variable: str(own)})
        assert r.rc == 125 and variable.encode() in r.err and b"own files" in r.err, r
    inside = runner.home / ".local/state/bawn/sandboxes"
    r = runner.bawn("run", "--network", "none", "--", "true", cwd=inside)
    assert r.rc == 125 and b"own files" in r.err, r


LINKS = {  # name below the home: where it leads, seen from the workspace
    "folder of rules": (".config/bawn", "dotfiles"),
    "all configuration": (".config", "dotfiles"),
    "one file": (".config/bawn/network.json", "network.json"),
    "a profile": (".config/bawn/profiles/dev.json", "dev.json"),
    "state": (".local/state", "state"),
}


@pytest.mark.parametrize("target", ["there", "not there", "by another link"])
@pytest.mark.parametrize("which", LINKS)
def test_nor_by_a_link(runner, which, target):
    """Claim: nor by way of a link, as with a configuration that is kept in a project of its own; a target that only the sandbox would make counts, too."""
    runner.path = runner.real
    name, leaf = LINKS[which]
    link, to = runner.home / name, runner.workspace / leaf
    for folder in (runner.home / ".config", runner.home / ".config/bawn", runner.home / ".config/bawn/profiles", runner.home / ".local"):
        if folder in link.parents and not folder.is_dir():
            runner.mkdir(folder, 0o700)
    if link.is_dir():
        link.rename(runner.home / "before")
    if target == "there":
        runner.write(to, "{}") if name.endswith(".json") else runner.mkdir(to, 0o700)
    if target == "by another link":
        (runner.home / "between").symlink_to(to)
        to = runner.home / "between"
    link.symlink_to(os.path.relpath(to, link.parent) if target == "there" else to)
    r = runner.bawn("run", "--network", "none", "--", "true")
    assert r.rc == 125 and b"own files" in r.err and b"is a link" in r.err and name.split("/")[0].encode() in r.err, r
    link.unlink()
    if (runner.home / "before").exists():
        (runner.home / "before").rename(link)
    assert runner.bawn("run", "--network", "none", "--", "true").rc == 0


# -- commands and each other -------------------------------------------------------------------------------------------------


def test_what_a_command_can_get_of_another_client(box, marker):
    """Claim: commands of one sandbox are one user's and can reach each other; but what they reach ends inside: pipes that were handed in, ptys of the
    sandbox, /dev/null. No file, terminal or socket of a client of another command is there, nor anything of the keeper's."""
    file = box.runner.write(box.runner.home / "given", marker + "\nsecond\n")
    os.mkfifo(box.runner.workspace / "go")
    box.runner.own(box.runner.workspace / "go")
    with open(file, "r+b") as f:
        relayed = box.runner.popen(box.runner.path, "exec", "box", "--", "sh", "-c", "read x; echo ready >&2; read y < go", stdin=f, stdout=f, stderr=subprocess.PIPE)
        assert relayed.stderr.readline() == b"ready\n"
    c, pid, master = terminal_job(box, "sleep", "1000")
    a, b = socket.socketpair()
    other = box.runner.popen(box.runner.path, "exec", "box", "--", "sh", "-c", "echo ready; exec sleep 1000", stdin=b, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
    assert other.stdout.readline() == b"ready\n"
    assert len(box.ask("jobs")["jobs"]) == 3
    links = box.sh("for p in /proc/[0-9]*; do for f in $p/fd/*; do readlink $f; done; done 2>/dev/null; true").decode().splitlines()
    strange = [x for x in links if not re.fullmatch(r"pipe:\[\d+\]|/dev/null|/dev/pts/\d+|/proc/.*|" + re.escape(str(box.runner.workspace / "go")), x)]
    assert links and not strange, strange
    r = box.runner.bawn("exec", "box", "sh", "-c", "cat /proc/[0-9]*/fd/0 < /dev/null 2>/dev/null & sleep 0.3; kill $!; true")
    assert b"second" in file.read_bytes() and file.stat().st_size == len(marker) + 8, r  # neither truncated nor written to
    other.kill()
    other.communicate()
    a.close()
    b.close()
    c.close()
    os.close(master)
    (box.runner.workspace / "go").write_bytes(b"x\n")
    relayed.communicate(timeout=kd.HANG)


def test_what_is_written_to_the_pty_of_another_job_is_filtered(box, probe):
    """Claim: a command may write to the pty of another one, and the client's filter still stands before the user's terminal; typing is refused."""
    import person

    evil = "\\033]52;c;ZXZpbA==\\007"
    child = person.terminal(box.runner, "exec", "box", "--", "sh", "-c", "tty; read x; echo got-$x")
    child.expect(rb"(/dev/pts/\d+)\r")
    tty = child.match[1].decode()
    r = box.runner.bawn("exec", "box", "sh", "-c", f"printf 'a{evil}b\\n' > {tty}; ./probe tiocsti 0 < {tty}; echo rc=$?")
    assert b"rc=3" in r.out, r
    child.expect_exact(b"b\r\n")
    assert b"\x1b]52" not in child.before and b"a" in child.before
    child.sendline(b"word")
    child.expect_exact(b"got-word")
    assert person.finish(child) == 0


# -- the guard -----------------------------------------------------------------------------------------------------------------

WAYS = """
echo x > .git/hooks/pre-commit; mkdir -p .git/hooks/d; ln -s /bin/sh .git/hooks/l; mv mine.$1 .git/hooks/m; cp mine.$1 .vscode/tasks.json
rm -rf .git/hooks .env; echo x > .env; echo x >> .env; mv .env gone.$1; cat .env; ln .env linked.$1; echo ../x > .git/config
"""


def test_the_guard_holds_for_every_command_at_once(box):
    """Claim: in direct mode each command, however many run, is guarded: protected paths stay, hidden files are neither read nor changed, and of
    all that changed the journal has the old content, so that after the stop everything can be taken back."""
    ws, runner = box.runner.workspace, box.runner
    for name, text in (("keep", "old\n"), ("gone", "old\n"), (".env", "SECRET=1\n"), (".git/hooks/sample", "#!/bin/sh\n"), (".git/config", "[core]\n"), (".git/HEAD", "ref: refs/heads/main\n")):
        runner.write(name, text)
    control = runner.mkdir(runner.top / "control")
    for path in (".git/hooks", ".vscode"):
        os.makedirs(control / path)
    (control / ".env").write_text("SECRET=1\n")
    for root, dirs, _ in os.walk(control):
        for d in [root, *(os.path.join(root, d) for d in dirs)]:
            runner.own(d)
    r = runner.run("sh", "-c", f"echo p > mine.0; {WAYS}", "sh", "0", cwd=control)
    assert b"SECRET=1" in r.out or (control / "gone.0").exists() and not (control / ".git/hooks").exists(), r
    assert runner.bawn("stop", "box").rc == 0 and runner.bawn("start", "box").rc == 0  # .env is hidden from the start
    script = f"echo p > mine.$1; {WAYS} echo new.$1 > own.$1; rm -f gone; echo $1 >> keep; true"
    procs = [runner.popen(runner.path, "exec", "box", "--", "sh", "-c", script, "sh", str(i), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) for i in range(20)]
    for p in procs:
        out, _ = p.communicate(timeout=kd.HANG)
        assert p.returncode == 0 and b"SECRET" not in out
    hooks = sorted(os.listdir(ws / ".git/hooks"))
    assert hooks == ["sample"] and (ws / ".git/config").read_text() == "[core]\n" and (ws / ".env").read_text() == "SECRET=1\n"
    assert not (ws / ".vscode/tasks.json").exists()
    assert len((ws / "keep").read_text().splitlines()) == 21 and not (ws / "gone").exists() and (ws / "own.7").read_text() == "new.7\n"
    assert runner.bawn("stop", "box").rc == 0
    r = runner.bawn("rollback")
    assert r.rc == 0, r
    assert (ws / "keep").read_text() == (ws / "gone").read_text() == "old\n" and not list(ws.glob("own.*")) + list(ws.glob("mine.*"))


# -- other users -----------------------------------------------------------------------------------------------------------------


def connect_as(uid, path, request):
    """What another user gets from a socket: "refused", "closed" or bytes."""
    code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\ntry:\n    s.connect(sys.argv[1])\n    s.send(bytes.fromhex(sys.argv[2]))\n"
            "    print('answer' if s.recv(100) else 'closed')\nexcept (PermissionError, FileNotFoundError): print('refused')\nexcept (BrokenPipeError, ConnectionResetError): print('closed')")
    p = subprocess.run([sys.executable, "-c", code, str(path), request.hex()], capture_output=True, text=True, user=uid, group=uid, extra_groups=[], cwd="/")
    return p.stdout.strip() or p.stderr


def test_another_user_cannot_use_the_exec_socket(user_runner):
    """Claim: folder and socket are closed to other users; and even where somebody opens them the keeper answers to its own user and root only."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    with kd.kept(user_runner, "box", "--network", "none") as box:
        body = kd.request(["touch", "made"], 0)
        request = kd.HEAD.pack(kd.EXEC, 1, 0, 0, len(body)) + body
        other = 65534
        assert connect_as(other, box.socket, request) == "refused"
        opened = [p for p in box.socket.parents if user_runner.top in p.parents]
        modes = {p: p.stat().st_mode for p in [*opened, box.socket]}
        for p in modes:
            p.chmod(0o777)
        assert connect_as(other, box.socket, request) == "closed"
        assert not (user_runner.workspace / "made").exists()
        assert connect_as(user_runner.user.pw_uid, box.socket, request) == "answer"  # so it is the user that decides
        for p, mode in modes.items():
            p.chmod(mode)
