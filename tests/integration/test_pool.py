# SPDX-License-Identifier: Apache-2.0
"""The pool (spec/pool-socket.md): what comes from it is what a start without it makes, each blank is used once, and nothing is left behind."""
import contextlib
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess

import pytest

HANG = 300  # seconds: only so that a hang ends as a failure

STATE = r"""
echo "== status"; grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Speculation)' /proc/self/status
echo "== pid"; echo $$; cat /proc/1/comm; set -- /proc/[0-9]*; echo $#
echo "== ids"; cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups
echo "== mounts"; cat /proc/self/mountinfo
echo "== routes"; cat /proc/net/route /proc/net/ipv6_route /proc/net/fib_trie /proc/net/if_inet6 /proc/net/dev_mcast
echo "== sockets"; cat /proc/net/tcp /proc/net/tcp6 /proc/net/udp /proc/net/udp6 /proc/net/unix | sed -E 's/^ *[0-9]+: //; s/^[0-9a-f]{16}:/ADDR:/' | cut -c1-40
echo "== sysctl"; cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/user/max_inotify_watches /proc/sys/user/max_inotify_instances /proc/sys/kernel/hostname
echo "== limits"; cat /proc/self/limits
echo "== cgroup"; cat /proc/self/cgroup
echo "== environment"; env | sort
echo "== root"; ls -lan / /dev /etc "$HOME" /proc/self/ns/ | sed -E 's/ [A-Z][a-z]{2} +[0-9]+ [0-9:]+ / /'
echo "== descriptors"; ls /proc/self/fd
"""


@contextlib.contextmanager
def pool(runner, *options):
    r = runner.bawn("pool", "on", *options)
    assert r.rc == 0, r
    try:
        yield status(runner)
    finally:
        runner.bawn("pool", "off")


def status(runner):
    return runner.bawn("pool", "status", "--json").json()


def wait_template(runner):
    """The first start of a user's in a folder tells the pool which root to make."""
    while not runner.is_root and status(runner)["templates"] == 0:
        pass


def path_of(runner):
    return runner.home / ".local/state/bawn/run/pool.sock"


def wait_gone(pid):
    """The end of a process that is nobody's child here."""
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(pid)
        with contextlib.closing(os.fdopen(fd)):
            assert select.select([fd], [], [], HANG)[0], f"process {pid} goes on"


def test_a_remote_in_tmp(runner):
    """git may name what the sandbox alone has (117), which a root from the pool is not."""
    script = "git init -q . && git init -q --bare /tmp/r.git && git remote add mine /tmp/r.git && git remote add other /usr/r.git"
    with pool(runner, "-n", "4"):
        assert runner.bawn("run", "--", "true").rc == 0
        wait_template(runner)
        r = runner.bawn("run", "--workspace", "direct", "--", "sh", "-c", script)
    config = (runner.workspace / ".git/config").read_text()
    assert r.rc != 0 and "/tmp/r.git" in config and "/usr/r.git" not in config, r


def normalised(text):
    text = re.sub(r"^\d+ \d+ \d+:\d+ ", "", text, flags=re.M)  # mountinfo: ids and device numbers are new in every sandbox
    text = re.sub(r"(mnt|net|user|uts|ipc|pid|cgroup|time)(_for_children)?:\[\d+\]", r"\1:[N]", text)
    text = re.sub(r"^( +\d+ +)\d{10}( +1)$", r"\1HOST\2", text, flags=re.M)  # the host's id of a sandbox of root's
    text = re.sub(r"(uid|gid)=[12]\d{9}\b", r"\1=HOST", text)
    text = re.sub(r"/ca/taken-[0-9a-f-]+/", "/ca/TAKEN/", text)
    text = re.sub(r"^total .*$|/proc/\d+/", "", text, flags=re.M)
    text = re.sub(r"^(d\S+) +\d+ (.* proc)$", r"\1 N \2", text, flags=re.M)  # links of /proc: as many as the host has processes
    # A root in memory, as the pool's, or on disk (ground.h): where its mount comes from, and what the size and links of its folders are.
    text = re.sub(r"^\S+ (/ ro,\S+) - .*$", r"ROOT \1", text, flags=re.M)
    text = re.sub(r"^\S*/var/cache (/proc/\S+ ro,\S+) - .*$", r"ROOT/var/cache \1", text, flags=re.M)
    text = re.sub(r"^(d\S+) +\d+ +(\d+ +\d+) +\d+ ", r"\1 N \2 N ", text, flags=re.M)
    return [sorted(part.splitlines()) for part in text.split("== ")]  # mounts are listed in the order in which they were made


def from_pool(runner, *command):
    """Nobody waits for a pool that does not answer at once, as on a machine that has much to do: then it is tried again."""
    for _ in range(50):
        before = status(runner)["taken"]
        r = runner.bawn("run", "--", *command)
        if status(runner)["taken"] > before:
            return r
    raise AssertionError("no start takes anything from the pool")


def test_the_same_as_without(runner):
    runner.bawn("run", "--", "true")  # notices that come once a day are over
    plain = runner.bawn("run", "--", "sh", "-c", STATE)
    assert plain.rc == 0, plain
    with pool(runner, "-n", "2"):
        pooled = [from_pool(runner, "sh", "-c", STATE)]
        wait_template(runner)
        pooled.append(from_pool(runner, "sh", "-c", STATE))
        assert (status(runner)["trees"] > 0) != runner.is_root
    for p in pooled:
        assert (p.rc, p.err) == (0, plain.err), p
        assert normalised(plain.out.decode()) == normalised(p.out.decode())
        assert b"== sockets" in p.out and b":3A99" in p.out  # our listeners on port 15001 are there


def test_roots_of_one_template(runner):
    """What one sandbox writes, no other one sees; and what they have in common cannot be written."""
    write = "for d in / /etc /usr /run /var/cache; do touch $d/x 2>/dev/null && echo $d; done; for d in /tmp /var/tmp /dev/shm $HOME; do touch $d/x; done; read x; ls /tmp /dev/shm ~"
    with pool(runner, "-n", "3"):
        runner.bawn("run", "--", "true")
        wait_template(runner)
        with runner.popen(runner.path, "run", "--", "sh", "-c", write, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
            second = runner.bawn("run", "--", "sh", "-c", "ls -A /tmp /var/tmp /dev/shm ~ | grep -cx x")
            out, _ = first.communicate(b"\n")
        assert status(runner)["trees"] == (0 if runner.is_root else 2)
    assert (second.rc, second.out) == (1, b"0\n"), second
    assert out.count(b"x\n") == 3 and not out.startswith(b"/"[:1] + b"\n"), out


CHANGES = r"""
set -e
mkdir "$TOP/etc" && cp -a /etc/. "$TOP/etc" && mount --bind "$TOP/etc" /etc
as() { setpriv --reuid "$USER_ID" --regid "$GROUP_ID" --clear-groups "$BAWN" "$@"; }
cd "$WORK"
as pool on -n 2 >&2
trap 'as pool off' EXIT
as run -- cat /etc/debian_version
until as pool status --json | grep -q '"templates": 1'; do :; done
as run -- cat /etc/debian_version
echo replaced > /etc/new && mv /etc/new /etc/debian_version
as run -- cat /etc/debian_version
as pool status --json >&2
until as pool status --json | grep -q '"templates": 1'; do :; done
cp /etc/debian_version "$TOP/other" && echo elsewhere > "$TOP/other"
export USER_ID GROUP_ID BAWN TOP
unshare --mount sh -c 'mount --bind "$TOP/other" /etc/debian_version && setpriv --reuid "$USER_ID" --regid "$GROUP_ID" --clear-groups "$BAWN" run -- cat /etc/debian_version'
mount -t tmpfs none /opt && echo covered > /opt/file
as run -- cat /opt/file
"""


def test_changes_of_the_host(user_runner):
    """A file that was replaced and a file system that was mounted after the pool had looked, and a taker who sees other mounts than the pool."""
    runner = user_runner
    if os.getuid() != 0:
        pytest.skip("needs root")
    env = runner.environ({"TOP": str(runner.top), "WORK": str(runner.workspace), "BAWN": str(runner.path), "USER_ID": str(runner.user.pw_uid), "GROUP_ID": str(runner.user.pw_gid)})
    r = subprocess.run(["unshare", "--mount", "sh", "-c", CHANGES], env=env, capture_output=True, timeout=HANG)
    before = open("/etc/debian_version", "rb").read()
    assert (r.returncode, r.stdout) == (0, before * 2 + b"replaced\nelsewhere\ncovered\n"), r.stderr


def test_own_namespaces_each(runner):
    """A blank is used once: no namespace of one sandbox is that of another that runs, or of the host."""
    kinds = ("user", "net", "ipc", "uts", "mnt", "pid")
    show = "cat /proc/self/uid_map; for i in " + " ".join(kinds) + "; do readlink /proc/self/ns/$i; done; read x"
    with pool(runner, "-n", "3"), contextlib.ExitStack() as stack:
        running = [stack.enter_context(runner.popen(runner.path, "run", "--", "sh", "-c", show, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) for _ in range(3)]
        seen = [[p.stdout.readline().decode() for _ in range(7)] for p in running]
        assert status(runner)["taken"] == 3
        for p in running:
            p.communicate()
    spaces = [s.strip() for lines in seen for s in lines[1:]] + [os.readlink(f"/proc/self/ns/{k}") for k in kinds]
    assert len(spaces) == len(set(spaces)) == 24
    if runner.is_root:
        ids = {int(lines[0].split()[1]) for lines in seen}
        assert len(ids) == 3 and all(0x7C000000 <= i < 0x7FFFFFFF for i in ids)


def test_network_of_a_blank_leads_to_the_gate(runner):
    with pool(runner, "-n", "1"):
        r = runner.bawn("run", "--", "sh", "-c", "exec 3<>/dev/tcp/203.0.113.7/80 || true; bash -c 'exec 3<>/dev/tcp/203.0.113.7/80' && echo connected")
        assert status(runner)["taken"] == 1
    assert b"connected" in r.out or b"203.0.113.7" in r.err, r


def test_without_a_network_nobody_asks(runner):
    with pool(runner, "-n", "1"):
        assert runner.bawn("run", "--network", "none", "--", "true").rc == 0
        s = status(runner)
        assert (s["taken"], s["missed"], s["ready"]) == (0, 0, 1)


def test_an_empty_pool_is_no_pool(runner):
    """More starts than blanks, at the same time: all of them work."""
    with pool(runner, "-n", "1"):
        many = [runner.popen(runner.path, "run", "--", "sh", "-c", "echo $$", stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(6)]
        for p in many:
            out, err = p.communicate()
            assert (p.returncode, out) == (0, b"2\n"), err
        s = status(runner)
        assert s["taken"] + s["missed"] == 6 and s["taken"] >= 1


def test_two_that_begin_at_once(runner):
    """One of them is the pool; the other neither takes its socket away nor stays."""
    for _ in range(5):
        both = [runner.popen(runner.path, "pool", "on", "--size", "1", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
        for p in both:  # one that finds the other at work may be told that it does not answer yet
            p.wait()
        first = status(runner)
        assert first["on"]
        runner.bawn("pool", "off")
        wait_gone(first["pid"])
        assert not path_of(runner).exists()


def test_killed_pool(runner):
    """Nothing is left of it, what was taken goes on, and the next one begins where it was."""
    with pool(runner, "-n", "2") as s:
        with runner.popen(runner.path, "run", "--", "sh", "-c", "echo up; read x; echo $x", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as taken:
            assert taken.stdout.readline() == b"up\n"
            assert status(runner)["taken"] == 1
            os.kill(s["pid"], signal.SIGKILL)
            wait_gone(s["pid"])
            assert runner.bawn("pool", "status").out == b"off\n"
            assert runner.bawn("run", "--", "true").rc == 0
            assert runner.bawn("pool", "on", "-n", "1", "--json").json()["ready"] == 1
            out, _ = taken.communicate(b"still here\n")
            assert (taken.returncode, out) == (0, b"still here\n")


def inside_of(supervisor):
    """The process that is PID 1 of a supervisor's sandbox."""
    children = open(f"/proc/{supervisor}/task/{supervisor}/children").read().split()
    return [int(c) for c in children if open(f"/proc/{c}/comm").read() == "bawn-init\n"]


def test_killed_taker(runner):
    with pool(runner, "-n", "1"):
        with runner.popen(runner.path, "run", "--", "sh", "-c", "echo up; exec sleep 1000", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as taker:
            assert taker.stdout.readline() == b"up\n"
            assert status(runner)["taken"] == 1
            (init,) = inside_of(taker.pid)
            taker.kill()
        wait_gone(init)


def test_replaced_program(runner):
    """Another version begins without the blanks of this one."""
    place = runner.mkdir(runner.top / "bin")
    for name in ("bawn", "bawn-init"):
        shutil.copy(runner.helper(name), place / name)
    r = runner.run(place / "bawn", "pool", "on", "-n", "1", "--json")
    assert r.rc == 0, r
    shutil.copy(place / "bawn", place / "new")
    os.rename(place / "new", place / "bawn")
    wait_gone(r.json()["pid"])
    assert not path_of(runner).exists()


def test_idle(runner):
    r = runner.bawn("pool", "on", "-n", "1", "--idle", "2s", "--json")
    assert r.rc == 0, r
    wait_gone(r.json()["pid"])
    assert runner.bawn("pool", "status", "--json").json() == {"on": False}


def test_somebody_elses_socket(root_runner):
    """A socket of another user's, even where ours would be, is not asked."""
    runner = root_runner
    folder = path_of(runner).parent
    folder.mkdir(parents=True, mode=0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        pid = os.fork()
        if pid == 0:  # SO_PEERCRED tells who called listen()
            s.bind(str(path_of(runner)))
            os.setresuid(65534, 65534, 65534)
            s.listen()
            os._exit(0)
        os.waitpid(pid, 0)
        assert runner.bawn("run", "--", "true").rc == 0
        s.setblocking(False)
        peer, _ = s.accept()  # it connected, looked who is there, and hung up without a word
        with peer:
            assert peer.recv(64) == b""


def test_nonsense_at_the_socket(runner):
    with pool(runner, "-n", "1"):
        for said in (b"", b"x", struct.pack("=IIIIQQQ", 99, 1, 0, 0, 0, 0, 0), struct.pack("=IIIIQQQ", 1, 77, 0, 0, 0, 0, 0), b"\xff" * 5000):
            script = f"import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect({str(path_of(runner))!r}); s.send({said!r}); s.recv(9999)"
            assert runner.run("/usr/bin/python3", "-c", script).rc == 0
        s = status(runner)
        assert (s["ready"], s["taken"], s["missed"]) == (1, 0, 0)


def test_options(runner):
    for bad in (("on", "-n", "0"), ("on", "-n", "513"), ("on", "--idle", "x"), ("on", "more"), ("off", "-n", "1"), ("status", "x")):
        r = runner.bawn("pool", *bad)
        assert r.rc == 64 and r.err.startswith(b"bawn: "), r
    assert runner.bawn("pool", "off").rc == 0
    assert runner.bawn("pool", "status").out == b"off\n"
    with pool(runner, "-n", "1"):
        r = runner.bawn("pool", "on")
        assert r.rc == 0 and b"on already" in r.err, r
        assert status(runner)["size"] == 1
