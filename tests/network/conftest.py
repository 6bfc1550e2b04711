# SPDX-License-Identifier: Apache-2.0
"""The network tests run in a small world of their own, so that no packet can leave the machine whatever a bug does.

    outer namespace                       internet namespace
      bawn runs here                        world.py serves on some public and private addresses
      172.31.0.1, 11.255.0.1  --- veth ---  default route of the outer one
      own /etc/resolv.conf and trust store (mounted over, in a mount namespace of its own)

    def test_something(net):              runs twice: as root and as an ordinary user
        net.names["ok.example.com"] = ["11.0.0.10"]
        r = net.sandbox("curl", "-s", "http://ok.example.com/", allow=["ok.example.com"])
        assert net.requests() == [...]

net.sandbox(*cmd, allow=[], deny=[], options=[])  bawn run with these rules; the exit status, out and err come back
net.outside(*cmd)     the same command in the outer namespace, without a sandbox
net.hits(), net.requests(), net.queries()    what reached the internet; net.forget() empties them
net.server(*cmd)      a real server, started in the internet namespace, ended with the test
"""

import contextlib
import copy
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import servers  # noqa: E402
import world  # noqa: E402
from lines import json_lines, whole_lines  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path(__file__).resolve().parent

SERVERS = [f"11.0.0.{n}" for n in range(20, 40)]  # world.py leaves these to real servers
NAMES = {
    "ok.example.com": ["11.0.0.10"],
    "other.example.com": ["11.0.0.11"],
    "six.example.com": ["2a00:11::10"],
    "both.example.com": ["11.0.0.10", "2a00:11::10"],
    "evil.example.net": ["11.0.0.11"],
    "private.example.com": ["10.0.0.5"],
    "loop.example.com": ["127.0.0.1"],
    "metadata.example.com": ["169.254.169.254"],
    "mixed.example.com": ["10.0.0.5", "11.0.0.10"],
    **servers.NAMES,
}


def sh(*cmd, **kw):
    return subprocess.run(cmd, check=True, stdout=subprocess.PIPE, **kw).stdout


def into(pid, *cmd, mount=False):
    return ["nsenter", f"--net=/proc/{pid}/ns/net", *([f"--mount=/proc/{pid}/ns/mnt"] if mount else []), "--", *cmd]


class World:
    """The two namespaces and the servers; one per worker."""

    def __init__(self, folder):
        self.folder = folder
        self.made = []
        self.ca()
        self.inet = self.namespace("-n")
        self.outer = self.namespace("-n", "-m")
        self.cable()
        self.outer_files()
        (folder / "names.json").write_text(json.dumps(NAMES))
        self.forget()
        self.serve()

    def namespace(self, *flags):
        """A process that keeps new namespaces alive; returns its pid. Ends with us: its standard input is our pipe."""
        p = subprocess.Popen(["unshare", *flags, "sh", "-c", "ip link set lo up && echo up && exec cat"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"up\n"
        self.made.append(p)
        return p.pid

    def cable(self):
        sh(*into(self.outer, "ip", "link", "add", "up0", "type", "veth", "peer", "name", "down0", "netns", str(self.inet)))
        for pid, lines in ((self.outer, ("addr add 172.31.0.1/30 dev up0", "addr add 11.255.0.1/32 dev up0", "addr add fd99::1/64 dev up0 nodad",
                                         "link set up0 up", "route add default via 172.31.0.2", "-6 route add default via fd99::2",
                                         "addr add 11.255.0.2/32 dev lo")),
                           (self.inet, ("addr add 172.31.0.2/30 dev down0", "addr add fd99::2/64 dev down0 nodad", "link set down0 up",
                                        "route add 11.255.0.0/24 via 172.31.0.1",
                                        *(f"addr add {a}/32 dev lo" if ":" not in a else f"addr add {a}/128 dev lo nodad"
                                          for a in world.ADDRESSES + [world.DNS] + SERVERS)))):
            for line in lines:
                sh(*into(pid, "ip", *line.split()))

    def ca(self):
        f = self.folder
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"]
        sh("openssl", "req", "-x509", *key, "-keyout", f / "ca.key", "-out", f / "ca.pem", "-subj", "/CN=Test Internet CA", stderr=subprocess.DEVNULL)
        self.certificate("cert", "key", "DNS:*.example.com,DNS:example.com,DNS:*.example.net,IP:11.0.0.10,DNS:*.example.org")

    def certificate(self, cert, key, names, signer="ca"):
        """Writes cert.pem and key.pem for these names; signer None: self-signed."""
        f = self.folder
        ext = f / f"{cert}.ext"
        ext.write_text(f"subjectAltName={names}\n")
        sh("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f / f"{key}.pem",
           "-out", f / f"{cert}.csr", "-subj", "/CN=server", stderr=subprocess.DEVNULL)
        sign = ["-CA", f / f"{signer}.pem", "-CAkey", f / f"{signer}.key", "-CAcreateserial"] if signer else ["-signkey", f / f"{key}.pem"]
        sh("openssl", "x509", "-req", "-in", f / f"{cert}.csr", *sign, "-days", "30", "-out", f / f"{cert}.pem", "-extfile", ext,
           stderr=subprocess.DEVNULL)

    def outer_files(self):
        f = self.folder
        (f / "resolv.conf").write_text("nameserver 11.0.0.53\n")
        bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
        (f / "bundle.crt").write_bytes(bundle.read_bytes() + (f / "ca.pem").read_bytes())
        for source, target in ((f / "resolv.conf", pathlib.Path("/etc/resolv.conf").resolve()), (f / "bundle.crt", bundle)):
            sh(*into(self.outer, "mount", "--bind", source, target, mount=True))

    def serve(self):
        p = subprocess.Popen(into(self.inet, sys.executable, HERE / "world.py", self.folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n"
        self.made.append(p)

    def forget(self):
        for name in ("queries.txt", "hits.jsonl"):
            (self.folder / name).write_text("")

    def end(self):
        for p in reversed(self.made):
            p.kill()
            p.wait()


@pytest.fixture(scope="session")
def inter_net():
    if os.getuid() != 0:
        pytest.skip("needs root")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-net.", dir="/var/tmp"))
    folder.chmod(0o755)
    w = World(folder)
    yield w
    w.end()
    shutil.rmtree(folder)


# Run in the landlock rung, too: the same promises where user namespaces are denied, with sockets by the guard.
BOTH_RUNGS = {"test_reach", "test_own_servers", "test_publish", "test_credentials", "test_denials", "test_attack_denied", "test_attack_http", "test_attack_policy",
              "test_attack_websocket", "test_attack_addresses", "test_attack_dns", "test_attack_log", "test_attack_names", "test_attack_sandbox",
              "test_secret_attacks", "test_secret_clients", "test_secret_echo", "test_secret_oauth", "test_secret_oracle", "test_secret_processes",
              "test_secret_socket", "test_secret_ssh", "test_ask", "test_request", "test_denied_clients"}

# And these where network namespaces alone are denied: the root, the mounts and the processes of the full rung, and the same sockets by the guard.
THREE_RUNGS = {"test_reach", "test_own_servers", "test_publish", "test_credentials", "test_secret_socket", "test_secret_ssh", "test_attack_sandbox"}
DENIED = {"full": None, "shared-net": "netns", "landlock": "userns"}


# What is different there, and why; the names of tests.
LACKS = {
    "UDP": {"test_addrconfig_with_musl", "test_dns[+notcp]", "test_dns_without_edns", "test_dns[+tcp]", "test_clients_without_proxy[curl, empty environment]"},
    "interfaces of its own": {"test_addrconfig", "test_no_connection_comes_from_the_address_that_counts", "test_a_server_on_every_address_inside"},
    "mounts, for files in /etc and programs of Bawn's inside": {"test_names_of_an_own_server[wget]", "test_other_pages_are_only_shown", "test_credentials_over_a_restart"},
    "names of its own for programs, which ask the proxy instead": {"test_curl_says_why"},
}


ONLY_WITHOUT_MOUNTS = {"mounts, for files in /etc and programs of Bawn's inside"}


def what_is_lacking(item_name, rung):
    """item_name as in test_dns[user-landlock-+tcp]: an entry without brackets is all rows of a test, else one of the row's words."""
    test, _, words = item_name.rstrip("]").partition("[")
    for reason, names in LACKS.items():
        for name in names if rung == "landlock" or (rung == "shared-net" and reason not in ONLY_WITHOUT_MOUNTS) else ():
            of, _, word = name.rstrip("]").partition("[")
            if of == test and (not word or word in words.split("-")):
                return reason
    return None


def pytest_generate_tests(metafunc):
    module = metafunc.module.__name__.split(".")[-1]
    if "rung" in metafunc.fixturenames and module in BOTH_RUNGS:
        metafunc.parametrize("rung", [r for r in DENIED if r != "shared-net" or module in THREE_RUNGS], indirect=True)


@pytest.fixture
def rung(request):
    return getattr(request, "param", os.environ.get("BAWN_TEST_RUNG", "full"))


@pytest.fixture(scope="session")
def no_userns():
    """A command line that runs what follows where user namespaces are denied (tests/degraded/deny.c)."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-deny.", dir="/var/tmp"))
    top.chmod(0o755)
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-I", ROOT / "src", "-o", top / "deny", ROOT / "tests/degraded/deny.c", "-lseccomp"], check=True)
    yield [str(top / "deny"), "userns", "--"]
    shutil.rmtree(top)


class Net:
    def __init__(self, world, runner, before=()):
        self.world, self.runner = world, runner
        self.before = list(before)  # in front of bawn itself
        self.options = ["--pids", "30000"] if before else []  # without a cgroup the limit of processes counts all of this user's, and other tests have some
        self.names = dict(NAMES)
        self.servers = []
        self.save_names()
        world.forget()

    def save_names(self):
        new = self.world.folder / "names.new"
        new.write_text(json.dumps(self.names))
        new.rename(self.world.folder / "names.json")

    def enter(self, *cmd):
        """The command line that runs cmd as the runner's user in the outer namespaces. Working folder and environment are kept."""
        user = self.runner.user
        become = [] if self.runner.is_root else ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
        return into(self.world.outer, "sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", str(self.runner.workspace), *become, *map(os.fspath, cmd),
                    mount=True)

    def popen(self, *cmd, env=None, **kw):
        kw.setdefault("start_new_session", True)
        return subprocess.Popen(self.enter(*cmd), env=self.runner.environ(env), **kw)

    def outside(self, *cmd, input=None, env=None):
        done = subprocess.run(self.enter(*cmd), env=self.runner.environ(env), input=input, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                              **({} if input is not None else {"stdin": subprocess.DEVNULL}))
        return Done(cmd, done)

    def bawn(self, *args, **kw):
        return self.outside(*self.before, self.runner.path, *args, **kw)

    def command(self, *cmd, allow=(), deny=(), options=()):
        self.save_names()
        rules = [word for host in allow for word in ("--allow", host)] + [word for host in deny for word in ("--deny", host)]
        return [*self.before, self.runner.path, "run", *rules, *self.options, *options, "--", *cmd]

    def sandbox(self, *cmd, input=None, env=None, **rules):
        done = self.outside(*self.command(*cmd, **rules), input=input, env=env)
        assert done.rc not in (64, 125), f"Bawn failed, so nothing was tried:{done!r}"
        return done

    def python(self, script, **rules):
        """Runs a Python script inside."""
        return self.sandbox("/usr/bin/python3", "-c", script, **rules)

    def rules(self, *rules, **more):
        """Writes the user's network.json."""
        folder = self.runner.home / ".config" / "bawn"
        for part in (self.runner.home / ".config", folder):
            if not part.exists():
                self.runner.mkdir(part, 0o700)
        path = folder / "network.json"
        path.write_text(json.dumps({"rules": list(rules), **more}))
        self.runner.own(path)
        return path

    def log(self):
        """The verdicts that were logged."""
        path = self.runner.home / ".local" / "state" / "bawn" / "log" / "network.jsonl"
        return json_lines(path) if path.exists() else []

    def server(self, *cmd, ready=None, **kw):
        """A server in the internet namespace; ready: (address, port) that must accept before this returns."""
        p = subprocess.Popen(into(self.world.inet, *map(os.fspath, cmd)), stdin=subprocess.DEVNULL, start_new_session=True, **kw)
        self.servers.append(p)
        while ready and subprocess.run(into(self.world.inet, "sh", "-c", f"exec 3<>/dev/tcp/{ready[0]}/{ready[1]}".join(["bash -c '", "'"])),
                                       stderr=subprocess.DEVNULL).returncode:
            assert p.poll() is None, f"{cmd} ended"
            time.sleep(0.05)
        return p

    def hits(self, **want):
        lines = json_lines(self.world.folder / "hits.jsonl")
        return [h for h in lines if all(h.get(k) == v for k, v in want.items())]

    def requests(self):
        return [h["line"] for h in self.hits(kind="request")]

    def queries(self):
        return whole_lines(self.world.folder / "queries.txt")

    def forget(self):
        self.world.forget()

    def end(self):
        for p in self.servers:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(p.pid, signal.SIGKILL)
            p.wait()


class Done:
    def __init__(self, cmd, done):
        self.cmd, self.rc, self.out, self.err = cmd, done.returncode, done.stdout, done.stderr

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"\n$ {' '.join(map(str, self.cmd))}\nexit {self.rc}\nstdout: {self.out[-4000:]!r}\nstderr: {self.err[-4000:]!r}"


@pytest.fixture
def net(request, inter_net, runner, rung, no_userns):
    if lack := what_is_lacking(request.node.name, rung):
        pytest.skip(f"the {rung} rung has no {lack}")
    n = Net(inter_net, runner, [no_userns[0], DENIED[rung], "--"] if DENIED[rung] else ())
    n.rung = rung
    yield n
    n.end()


@pytest.fixture
def floor(net):
    """floor(*rules) writes /etc/bawn/network.json, in a mount namespace of this test's own."""
    folder = net.world.folder
    top = folder / "etc"
    for name in ("upper", "work"):
        (top / name).mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen(["nsenter", f"--net=/proc/{net.world.outer}/ns/net", f"--mount=/proc/{net.world.outer}/ns/mnt", "--",
                               "unshare", "-m", "sh", "-ec", f"""
mount -t tmpfs none {top}; mkdir {top}/upper {top}/work
mount -t overlay none -o lowerdir=/etc,upperdir={top}/upper,workdir={top}/work /etc
mount --bind {folder}/resolv.conf "$(readlink -f /etc/resolv.conf)"
mount --bind {folder}/bundle.crt /etc/ssl/certs/ca-certificates.crt
echo up; exec cat"""], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"up\n"
    world = net.world
    net.world = copy.copy(world)
    net.world.outer = holder.pid

    def write(*rules, **more):
        text = json.dumps({"rules": list(rules), **more})
        subprocess.run(["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "--", "sh", "-ec",
                        'mkdir -p /etc/bawn; umask 022; printf %s "$1" >/etc/bawn/new; mv /etc/bawn/new /etc/bawn/network.json',
                        "sh", text], check=True)

    yield write
    net.world = world
    holder.kill()
    holder.wait()
