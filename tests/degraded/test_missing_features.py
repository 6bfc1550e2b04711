# SPDX-License-Identifier: Apache-2.0
"""One kernel feature denied (deny.c): Bawn refuses, or names the weaker rung, or keeps every promise; never silently weaker."""

import itertools
import json
import os
import pathlib
import socket
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FEATURES = ["userns", "landlock", "seccomp", "openat2", "clone3", "pidfd", "newmount", "closerange", "memfd"]
# Without these no rung can keep its promises on a kernel of this kind; without the others, an older call does the same.
CONVENIENCES = ["openat2", "clone3", "pidfd", "newmount", "closerange", "memfd"]


@pytest.fixture
def secret(runner):
    return runner.write(runner.mkdir(runner.home / ".ssh", 0o700) / "id", "bawn-secret-key\n", 0o600)


@pytest.fixture
def listener():
    """A service on the host's loopback, TCP and UDP, and one with an abstract name."""
    tcp, udp, unix = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
    tcp.bind(("127.0.0.1", 0))
    tcp.listen(5)
    udp.bind(tcp.getsockname())
    name = f"bawn-test-{os.getpid()}"
    unix.bind("\0" + name)
    unix.listen(5)
    yield tcp.getsockname()[1], name
    tcp.close()
    udp.close()
    unix.close()


# Each line of output is a promise that was broken. argv: secret, pid of an outside process, port, abstract name.
PROBE = """
import ctypes, os, socket, sys
secret, pid, port, name = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def attempt(what, fn):
    try: r = fn()
    except OSError: return
    if r is not False: print("broken:", what, flush=True)
def connect(family, address):
    s = socket.socket(family); s.settimeout(5); s.connect(address)
def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("127.0.0.1", port)); s.send(b"x"); s.send(b"refused if nobody heard the first")
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
attempt("reads the secret", lambda: open(secret).read())
attempt("writes the secret", lambda: open(secret, "a").close())
attempt("lists the home", lambda: os.path.basename(os.path.dirname(secret)) in os.listdir(os.path.dirname(os.path.dirname(secret))))
attempt("signals outside", lambda: os.kill(pid, 0))
attempt("memory of outside", lambda: os.open("/proc/%d/mem" % pid, os.O_RDONLY))
attempt("environment of outside", lambda: b"PATH" in open("/proc/%d/environ" % pid, "rb").read())
attempt("loopback of the host", lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
attempt("abstract name of the host", lambda: connect(socket.AF_UNIX, chr(0) + name))
attempt("a datagram to the host", udp)
attempt("writes /usr", lambda: open("/usr/bin/bawn-degraded", "w"))
attempt("writes /etc", lambda: open("/etc/bawn-degraded", "w"))
attempt("opens core_pattern", lambda: os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
attempt("has capabilities", lambda: any(int(status[k], 16) for k in ("CapEff", "CapPrm", "CapInh", "CapAmb")))
attempt("may gain privileges", lambda: status["NoNewPrivs"].strip() != "1")
attempt("has no filter", lambda: status["Seccomp"].strip() != "2")
attempt("is root", lambda: os.getuid() == 0)
attempt("makes a user namespace", lambda: False if ctypes.CDLL(None).unshare(0x10000000) else True)
attempt("has descriptors", lambda: bool([f for f in os.listdir("/proc/self/fd") if int(f) > 3]))
print("probed")
"""


def denied_run(runner, deny, features, options, secret, listener, pass_fds=()):
    victim = runner.popen("sleep", "1000")
    try:
        front = [deny, *features, "--"] if features else []
        r = runner.run(
            *front,
            runner.path,
            "run",
            *options,
            "--",
            "/usr/bin/python3",
            "-c",
            PROBE,
            secret,
            str(victim.pid),
            str(listener[0]),
            listener[1],
            pass_fds=pass_fds,
        )
    finally:
        victim.kill()
        victim.wait()
    return r


@pytest.fixture
def pyprobes():
    """Three ways to send a datagram to the socket at argv[1]."""
    return """
import socket, sys
def plain():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", sys.argv[1])
def pair():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", sys.argv[1])
def pair_connected_anew():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.connect(sys.argv[1])
    a.send(b"x")
for way in (plain, pair, pair_connected_anew):
    try: way(); print("sent")
    except OSError as e: print("refused", e)
"""


def broken(r):
    return [line for line in r.out.decode().splitlines() if line.startswith("broken:")]


def announced(r):
    """Lines of Bawn's own that say what is not kept, but for how limits are kept (a user may not make cgroups here) and a missing network."""
    return [
        line
        for line in r.err.decode().splitlines()
        if line.startswith("bawn:") and "limits without a cgroup" not in line and "no network:" not in line
    ]


def test_the_probe_finds_all_of_it_outside(root_runner, deny, listener):
    """Without the sandbox, every line of the probe works: otherwise its silence inside would prove nothing."""
    secret = root_runner.write(root_runner.mkdir(root_runner.home / ".ssh", 0o700) / "id", "bawn-secret-key\n", 0o600)
    victim = root_runner.popen("sleep", "1000")
    fd = os.open("/", os.O_RDONLY)
    try:
        r = root_runner.run(
            "/usr/bin/python3",
            "-c",
            PROBE,
            secret,
            str(victim.pid),
            str(listener[0]),
            listener[1],
            pass_fds=[fd, os.dup2(fd, 40)],
        )
    finally:
        os.close(fd)
        os.close(40)
        victim.kill()
        victim.wait()
        for path in ("/usr/bin/bawn-degraded", "/etc/bawn-degraded"):
            pathlib.Path(path).unlink(missing_ok=True)
    assert len(broken(r)) == PROBE.count("attempt(") - 1, r


def test_nothing_is_broken_with_everything_there(runner, deny, secret, listener):
    """The base line: all promises kept, and nothing to announce."""
    r = denied_run(runner, deny, [], ["--sandbox=require"], secret, listener)
    assert r.rc == 0 and broken(r) == [] and announced(r) == [], r


@pytest.mark.parametrize("feature", FEATURES)
def test_require_refuses_or_keeps_everything(runner, deny, secret, listener, feature):
    """Claim: --sandbox=require never runs on a weaker rung."""
    r = denied_run(runner, deny, [feature], ["--sandbox=require"], secret, listener)
    if r.rc == 0:
        assert broken(r) == [] and b"probed" in r.out, r
        assert [
            line for line in announced(r) if "second fence" not in line
        ] == [], "nothing but the second fence may be missing"
    else:
        assert r.rc == 125 and r.out == b"" and announced(r), r


@pytest.mark.parametrize("feature", ["userns", "seccomp"])
def test_require_refuses_without_a_pillar(runner, deny, secret, listener, feature):
    """Claim: without user namespaces or without seccomp the full rung does not exist, so require ends with 125."""
    r = denied_run(runner, deny, [feature], ["--sandbox=require"], secret, listener)
    assert r.rc == 125 and r.out == b"" and announced(r), r


def test_without_user_namespaces_the_weaker_rung_is_named(runner, deny, secret, listener):
    """Claim: the landlock rung says in one line what it does not keep; files, network and signals it does keep."""
    r = denied_run(runner, deny, ["userns"], [], secret, listener)
    if runner.is_root and r.rc == 125:
        assert r.out == b"" and announced(r), r
        return
    assert r.rc == 0 and b"probed" in r.out, r
    assert len(announced(r)) == 1 and "landlock" in announced(r)[0] and "not enforced" in announced(r)[0], r
    assert broken(r) == [], r


def test_the_weaker_rung_names_what_landlock_cannot_guard(user_runner, deny):
    """Claim: modes, times and names of the user's other files, which Landlock does not guard, are named in the announcement."""
    other = user_runner.write(user_runner.home / "other", "x", 0o600)
    r = user_runner.run(
        deny, "userns", "--", user_runner.path, "run", "--", "sh", "-c", f"chmod 644 {other}; cat {other}; exit 0"
    )
    assert r.rc == 0 and b"x" not in r.out, r
    if other.stat().st_mode & 0o777 != 0o600:
        assert "mode" in announced(r)[0] or "chmod" in announced(r)[0], r


def test_the_weaker_rung_has_no_way_to_the_host_s_sockets(user_runner, deny, pyprobes):
    """Claim: without a network namespace no socket can be made or aimed at the host: streams, datagrams, pairs (25)."""
    path = str(user_runner.workspace / "host.sock")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(path)
    os.chmod(path, 0o777)
    try:
        outside = user_runner.run("/usr/bin/python3", "-c", pyprobes, path)
        assert outside.out.count(b"sent") == 3, outside
        inside = user_runner.run(
            deny, "userns", "--", user_runner.path, "run", "--", "/usr/bin/python3", "-c", pyprobes, path
        )
    finally:
        server.close()
    assert inside.rc == 0 and inside.out.count(b"refused") == 3, inside


@pytest.mark.parametrize(
    "features",
    [["seccomp"], ["userns", "landlock"], ["userns", "seccomp"], ["userns", "landlock", "seccomp"]],
    ids="-".join,
)
def test_with_no_rung_left_bawn_refuses(runner, deny, secret, listener, features):
    """Claim: where no rung can be had the command is not run."""
    r = denied_run(runner, deny, features, [], secret, listener)
    assert r.rc == 125 and r.out == b"" and announced(r), r


def test_without_landlock_the_second_fence_is_missed_aloud(runner, deny, secret, listener):
    """Claim: the full rung without its second fence keeps every promise, or is refused; with a note if it is weaker."""
    r = denied_run(runner, deny, ["landlock"], [], secret, listener)
    assert r.rc in (0, 125), r
    if r.rc == 0:
        assert broken(r) == [], r


@pytest.mark.parametrize(
    "features",
    [c for n in (1, 2, 3) for c in itertools.combinations(CONVENIENCES, n)] + [tuple(CONVENIENCES)],
    ids="-".join,
)
def test_older_kernels_keep_every_promise_or_refuse(runner, deny, secret, listener, features):
    """Claim: a call that an older kernel lacks has a substitute that keeps the same promises, or the run is refused."""
    fds = [os.open("/", os.O_RDONLY), os.open("/", os.O_RDONLY)]
    try:
        r = denied_run(runner, deny, features, [], secret, listener, pass_fds=fds)
    finally:
        for fd in fds:
            os.close(fd)
    if r.rc == 0:
        assert broken(r) == [] and b"probed" in r.out, r
    else:
        assert r.rc == 125 and r.out == b"" and announced(r), r


@pytest.mark.parametrize("features", list(itertools.combinations(FEATURES, 2)), ids="-".join)
def test_two_features_denied(runner, deny, secret, listener, features):
    """Claim: no pair of missing features makes a silent hole."""
    r = denied_run(runner, deny, features, [], secret, listener)
    if r.rc == 0:
        assert broken(r) == [] and b"probed" in r.out, r
    else:
        assert r.rc == 125 and r.out == b"" and announced(r), r


@pytest.mark.parametrize("feature", FEATURES)
def test_doctor_tells(runner, deny, feature):
    """Claim: `bawn doctor` ends with 0 where `bawn run` has the full rung, 1 where it has a weaker one, 125 where it refuses."""
    doctor = runner.run(deny, feature, "--", runner.path, "doctor", "--json")
    run = runner.run(deny, feature, "--", runner.path, "run", "--", "true")
    assert json.loads(doctor.out), doctor
    weaker = any("rung" in line for line in announced(run))
    assert doctor.rc == (1 if run.rc == 0 and weaker else run.rc), (doctor, run)


NO_CGROUP = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'


@pytest.mark.no_sanitizer
def test_without_control_groups_limits_hold_by_other_means_and_it_is_said(root_runner):
    """Claim: no cgroup: memory and processes are limited by rlimits and a watchdog, and the run says so."""
    command = [root_runner.path, "run", "--memory", "64m", "--pids", "30", "--"]
    eat = "b = []\nfor i in range(300): b.append(bytearray(1 << 20)); b[-1][::4096] = b'x' * 256\nprint('ate')"
    r = root_runner.run("unshare", "--mount", "sh", "-c", NO_CGROUP, "sh", *command, "/usr/bin/python3", "-c", eat)
    assert b"ate" not in r.out and r.rc != 0, r
    assert announced(r), r
    r = root_runner.run(
        "unshare",
        "--mount",
        "sh",
        "-c",
        NO_CGROUP,
        "sh",
        *command,
        "sh",
        "-c",
        "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all",
    )
    assert b"all" not in r.out, r


def test_without_control_groups_require_decides(root_runner):
    """Claim: --sandbox=require with a limit either holds that limit or refuses; it is never ignored."""
    r = root_runner.run(
        "unshare",
        "--mount",
        "sh",
        "-c",
        NO_CGROUP,
        "sh",
        root_runner.path,
        "run",
        "--sandbox=require",
        "--pids",
        "20",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all",
    )
    assert b"all" not in r.out, r
    assert r.rc != 0, r


@pytest.mark.no_sanitizer  # needs /proc itself
def test_without_proc_bawn_refuses_or_works(root_runner):
    """Claim: a host without /proc gives an error or a whole sandbox, no half of one."""
    r = root_runner.run(
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none /proc && exec "$@"',
        "sh",
        root_runner.path,
        "run",
        "--",
        "sh",
        "-c",
        "grep -c CapEff /proc/self/status",
    )
    assert r.rc == 125 and announced(r) or r.out == b"1\n", r


def test_a_full_table_of_namespaces_is_a_refusal_or_the_named_rung(root_runner):
    """Claim: max_user_namespaces = 0 (in a namespace of the test's own) is handled like a denied userns."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    r = root_runner.run(
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        root_runner.path,
        "run",
        "--",
        "sh",
        "-c",
        "echo ran",
    )
    if r.rc == 0:
        assert announced(r) and "landlock" in announced(r)[0], r
    else:
        assert r.rc == 125 and announced(r), r


def test_the_weaker_rung_sees_what_lands_in_protected_places(user_runner, deny):
    """Claim: also without user namespaces a file that is open for writing inside ends the run when the host renames it into a protected place."""
    user_runner.write("old.txt", "x")
    code = "import os, sys, time; fd = os.open('old.txt', os.O_WRONLY); print('open', flush=True); sys.stdin.read()"
    proc = user_runner.popen(deny, "userns", "--", user_runner.path, "run", "--workspace", "direct", "--", "/usr/bin/python3", "-c", code,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert proc.stdout.readline() == b"open\n", proc.stderr.read()
    (user_runner.workspace / "old.txt").rename(user_runner.workspace / ".mcp.json")
    status = proc.wait(120)
    err = proc.stderr.read()
    proc.stdin.close()
    assert status == 125 and b"stopped: '.mcp.json'" in err and b"landlock" in err, err
