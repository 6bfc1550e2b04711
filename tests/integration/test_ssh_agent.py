# SPDX-License-Identifier: Apache-2.0
"""The ssh-agent of a sandbox with everybody real but the supervisor: OpenSSH's agent, client and server, git, bawn-gate and bawn-broker.

Attacks 60 and 76 of ATTACKS.md. Each test that shows a refusal shows first that the same works without Bawn in between.
"""

import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from broker_driver import grant  # noqa: E402
from gate_driver import outer_network  # noqa: E402
from ssh_driver import RealAgent, Stack, find  # noqa: E402

PORT = 2222
ALLOWED = [{"action": "allow", "host": "git.test", "ports": [22, PORT]}]
FAILURE, SUCCESS, KEYS = b"\x05", b"\x06", 12

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
              pytest.mark.skipif(not shutil.which("sshd", path="/usr/sbin"), reason="needs the program sshd")]

SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {d}/host
AuthorizedKeysFile {d}/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowAgentForwarding yes
"""


def run(cmd, env, **kw):
    return subprocess.run(cmd, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, **kw)


def make_key(path, comment, kind="ed25519"):
    bits = ["-b", "2048"] if kind == "rsa" else []
    subprocess.run(["ssh-keygen", "-q", "-t", kind, *bits, "-N", "", "-C", comment, "-f", str(path)], check=True)


class Scene:
    """A server that lets in both of the agent's keys, on a loopback of its own."""

    def __init__(self, folder, host_kind="ed25519"):
        self.d = folder
        for name, kind in (("host", host_kind), ("me", "ed25519"), ("work", "rsa")):
            make_key(folder / name, name, kind)
        (folder / "authorized").write_text("".join((folder / f"{n}.pub").read_text() for n in ("me", "work")))
        (folder / "sshd_config").write_text(SSHD.format(port=PORT, d=folder))
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
        while True:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", PORT)) == 0:
                    break
                assert self.sshd.poll() is None, "sshd ended"
        self.agent = RealAgent(folder, [folder / "me", folder / "work"])

    def done(self):
        self.sshd.kill()
        self.sshd.wait()
        self.agent.process.kill()
        self.agent.process.wait()

    def known(self, names="git.test"):
        return f"{names} {' '.join((self.d / 'host.pub').read_text().split()[:2])}\n"

    def stack(self, **kw):
        return Stack(self.d, **({"rules": ALLOWED, "known_hosts": self.known(), "agent": self.agent.path} | kw))

    def options(self):
        """The client knows the server as git.test, whatever Bawn thinks of it."""
        (self.d / "client_known").write_text(self.known())
        return ["-F", "none", "-o", f"UserKnownHostsFile={self.d}/client_known", "-o", "HostName=127.0.0.1", "-o", "HostKeyAlias=git.test",
                "-o", f"Port={PORT}", "-o", "BatchMode=yes", "-o", "IdentityFile=none", "-l", "root"]

    def ssh(self, env, *args, options=()):
        return run(["ssh", *self.options(), *options, "git.test", *args], env)

    def outside(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.d), "SSH_AUTH_SOCK": str(self.agent.path)}


@pytest.fixture
def scene(tmp_path):
    with outer_network():
        s = Scene(tmp_path)
        yield s
        s.done()


def string(b):
    return struct.pack(">I", len(b)) + b


def strings(b, n):
    out = []
    for _ in range(n):
        size = struct.unpack(">I", b[:4])[0]
        out.append(b[4:4 + size])
        b = b[4 + size:]
    return out


def talk(stack, *messages):
    """Answers to these messages, without lengths."""
    with stack.connect("ssh-agent") as s:
        f = s.makefile("rb")
        answers = []
        for m in messages:
            s.sendall(string(m))
            answers.append(f.read(struct.unpack(">I", f.read(4))[0]))
        return answers


def test_login(scene):
    with scene.stack() as stack:
        r = scene.ssh(stack.env(), "echo", "in")
        assert r.stdout == b"in\n", r
        used = stack.uses(status=0)
        assert len(used) == 1 and used[0]["host"] == "git.test" and used[0]["port"] == 22 and used[0]["index"] == 0xffffffff, used
        assert used[0]["text"] in scene.agent.add("-l").decode()


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_login_with_other_host_keys(tmp_path, kind):
    with outer_network():
        scene = Scene(tmp_path, kind)
        try:
            with scene.stack(keys="work") as stack:  # an RSA key: flags are passed on
                assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"
        finally:
            scene.done()


def test_login_with_hashed_known_hosts(scene):
    path = scene.d / "hashed"
    path.write_text(scene.known(f"[git.test]:{PORT}"))
    subprocess.run(["ssh-keygen", "-H", "-f", str(path)], check=True, capture_output=True)
    assert "git.test" not in path.read_text()
    with scene.stack(known_hosts=path.read_text()) as stack:
        assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"
        assert stack.uses(status=0, host="git.test", port=PORT)


@pytest.mark.parametrize("change, why", [
    (dict(known_hosts=""), "not in known_hosts"),
    (dict(rules=[]), "policy does not allow"),
    (dict(rules=[{"action": "deny", "host": "git.test"}, *ALLOWED]), "policy does not allow"),
    (dict(rules=[{"action": "ask", "host": "git.test"}]), "policy does not allow"),
    (dict(rules=[{"action": "allow", "host": "git.test", "ports": [443]}]), "policy does not allow"),
    (dict(keys="nobody"), ""),
])
def test_login_refused(scene, change, why):
    assert scene.ssh(scene.outside(), "echo", "in").stdout == b"in\n"  # the user's own agent would
    with scene.stack(**change) as stack:
        r = scene.ssh(stack.env(), "echo", "in")
        assert r.returncode == 255 and r.stdout == b"" and b"Permission denied" in r.stderr, r
        assert not stack.uses(status=0)
        assert all(why in u["text"] for u in stack.used), stack.used


def test_reload_counts_at_once(scene):
    with scene.stack() as stack:
        assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"
        stack.configure(rules=[])
        assert scene.ssh(stack.env(), "echo", "in").returncode == 255
        stack.configure(rules=ALLOWED)
        assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"


def test_list_shows_chosen_keys_only(scene):
    with scene.stack(keys="work") as stack:
        r = run(["ssh-add", "-L"], stack.env())
        assert r.stdout == (scene.d / "work.pub").read_bytes(), r
        stack.configure(keys="")
        assert len(run(["ssh-add", "-L"], stack.env()).stdout.splitlines()) == 2
        stack.configure(ssh=False)
        assert run(["ssh-add", "-L"], stack.env()).returncode != 0


def test_nothing_but_list_and_sign(scene):
    make_key(scene.d / "evil", "evil")
    library = scene.d / "evil.so"
    library.write_bytes(b"\x7fELF")
    before = scene.agent.add("-l")
    with scene.stack() as stack:
        for args in ([str(scene.d / "evil")], ["-D"], ["-d", str(scene.d / "me.pub")], ["-s", str(library)], ["-e", str(library)]):
            r = run(["ssh-add", *args], stack.env(SSH_ASKPASS="/bin/true", SSH_ASKPASS_REQUIRE="force"))
            assert r.returncode != 0, (args, r)
        for kind in range(256):
            if kind not in (11, 13, 27):
                assert talk(stack, bytes([kind]) + string(b"x") * 4) == [FAILURE], kind
        assert talk(stack, b"\x16" + string(b"lock"), b"\x1b" + string(b"query"), b"\x0d" + string(b"x")) == [FAILURE] * 3
        assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"
    assert scene.agent.add("-l") == before


def test_forwarded_agent_is_dead(scene):
    there = ["ssh-add", "-L"]
    assert len(scene.ssh(scene.outside(), *there, options=["-A"]).stdout.splitlines()) == 2
    with scene.stack() as stack:
        r = scene.ssh(stack.env(), *there, options=["-A"])
        assert r.returncode != 255 and b"ssh-" not in r.stdout, r


def capture_bind(scene, stack):
    """What a real client sends to the agent while it logs in: between both, this test listens."""
    path = scene.d / "tap.sock"
    tap = socket.socket(socket.AF_UNIX)
    tap.bind(str(path))
    tap.listen()
    sent = []

    def relay():
        client = tap.accept()[0].makefile("rwb")
        with stack.connect("ssh-agent") as s:
            agent = s.makefile("rwb")
            while head := client.read(4):
                message = client.read(struct.unpack(">I", head)[0])
                sent.append(message)
                agent.write(string(message))
                agent.flush()
                n = agent.read(4)
                client.write(n + agent.read(struct.unpack(">I", n)[0]))
                client.flush()

    t = threading.Thread(target=relay, daemon=True)
    t.start()
    assert scene.ssh(stack.env(SSH_AUTH_SOCK=str(path)), "echo", "in").stdout == b"in\n"
    t.join(60)
    tap.close()
    return next(m for m in sent if m[0] == 27), next(m for m in sent if m[0] == 13)


def test_replays(scene):
    with scene.stack() as stack:
        bind, sign = capture_bind(scene, stack)
        ok = talk(stack, bind, sign)
        assert ok[0] == SUCCESS and ok[1][0] == 14  # the very same session: a signature that the server has seen already
        other = bytearray(bind)
        other[bind.index(strings(bind[1:], 3)[2])] ^= 1
        assert talk(stack, bytes(other), sign) == [SUCCESS, FAILURE]      # the bind of another session
        assert talk(stack, sign) == [FAILURE]                             # none at all: another connection's does not count
        forwarding = bind[:-1] + b"\x01"
        assert talk(stack, forwarding, bind, sign) == [FAILURE] * 3       # once forwarded, always forwarded
        changed = bytearray(sign)
        changed[changed.index(b"root")] ^= 1                              # another user on the same host: that is the sandbox's choice
        assert talk(stack, bind, bytes(changed))[1][0] == 14


def test_git_clone_and_signed_commit(scene):
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@b.test", "-c", "init.defaultBranch=main"]
    bare = scene.d / "repo.git"
    with scene.stack(keys="me") as stack:
        env = stack.env(GIT_SSH_COMMAND=" ".join(["ssh", *scene.options()]), GIT_CONFIG_NOSYSTEM="1")
        signing = ["-c", "gpg.format=ssh", "-c", f"user.signingkey={scene.d}/me.pub", "-c", "commit.gpgsign=true"]
        subprocess.run([*git, "init", "-q", "--bare", str(bare)], check=True, env=env)
        r = run([*git, "clone", f"git.test:{bare}", "work-tree"], env, cwd=scene.d)
        assert r.returncode == 0, r
        tree = scene.d / "work-tree"
        (tree / "file").write_text("x")
        for cmd in (["add", "file"], [*signing, "commit", "-q", "-m", "signed"], ["push", "-q", "origin", "HEAD:main"]):
            args, rest = ([*signing], cmd[len(signing):]) if cmd[:1] == ["-c"] else ([], cmd)
            r = run([*git, *args, *rest], env, cwd=tree)
            assert r.returncode == 0, r
        (scene.d / "signers").write_text("a@b.test " + (scene.d / "me.pub").read_text())
        r = run([*git, "-c", f"gpg.ssh.allowedSignersFile={scene.d}/signers", "verify-commit", "HEAD"], env, cwd=tree)
        assert b'Good "git" signature' in r.stderr, r
        assert stack.uses(method="commit", status=0) and stack.uses(method="login", status=0)


def test_other_signatures_refused(scene):
    (scene.d / "letter").write_text("pay 100")
    sign = ["ssh-keygen", "-Y", "sign", "-f", str(scene.d / "pub-only.pub"), "-n"]
    (scene.d / "pub-only.pub").write_bytes((scene.d / "me.pub").read_bytes())
    assert run([*sign, "file", str(scene.d / "letter")], scene.outside()).returncode == 0
    (scene.d / "letter.sig").unlink()
    with scene.stack() as stack:
        assert run([*sign, "file", str(scene.d / "letter")], stack.env()).returncode != 0
        assert not (scene.d / "letter.sig").exists()
        assert run([*sign, "git", str(scene.d / "letter")], stack.env()).returncode == 0


def test_hundred_clients(scene):
    with scene.stack() as stack:
        socks = [stack.connect("ssh-agent") for _ in range(100)]
        for s in socks:
            s.sendall(string(b"\x0b"))
        for s in socks:
            f = s.makefile("rb")
            answer = f.read(struct.unpack(">I", f.read(4))[0])
            assert answer[0] == KEYS and answer[1:5] == struct.pack(">I", 2)
        more = [stack.connect("ssh-agent") for _ in range(100)]  # beyond the ceiling: they wait
        for s in socks:
            s.close()
        more[-1].sendall(string(b"\x0b"))
        assert more[-1].recv(5)[4] == KEYS
        for s in more:
            s.close()


def test_garbage(scene):
    rng = random.Random(7)
    with scene.stack() as stack:
        for i in range(300):
            with stack.connect("ssh-agent" if i % 3 else "credentials") as s:
                size = rng.choice([1, 4, 5, 100, 5000])
                data = rng.randbytes(size) if i % 2 else struct.pack(">I", size) + bytes([rng.choice([11, 13, 17, 27])]) + rng.randbytes(size)
                s.sendall(data)
                if i % 5:
                    s.shutdown(socket.SHUT_WR)
                    try:
                        while s.recv(65536):
                            pass
                    except ConnectionResetError:
                        pass
        with stack.connect("ssh-agent") as s:  # longer than any message may be
            s.sendall(b"\x00\x04\x00\x01")
            assert s.recv(1) == b""
        with stack.connect("credentials") as s:  # a line without end
            with pytest.raises(OSError):
                for _ in range(1000):
                    s.sendall(b"x" * 65536)
        assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"


def test_pieces_and_rows(scene):
    with scene.stack() as stack:
        with stack.connect("ssh-agent") as s:
            for b in string(b"\x0b"):
                s.sendall(bytes([b]))
            f = s.makefile("rb")
            first = f.read(struct.unpack(">I", f.read(4))[0])
            s.sendall(string(b"\x0b") + string(b"\x11") + string(b"\x0b"))
            assert [f.read(struct.unpack(">I", f.read(4))[0]) for _ in range(3)] == [first, FAILURE, first]


def test_agent_gone_and_back(scene):
    with scene.stack() as stack:
        assert run(["ssh-add", "-L"], stack.env()).returncode == 0
        scene.agent.process.kill()
        scene.agent.process.wait()
        scene.agent.path.unlink()
        assert run(["ssh-add", "-L"], stack.env()).returncode != 0
        scene.agent = RealAgent(scene.d, [scene.d / "me"])
        assert len(run(["ssh-add", "-L"], stack.env()).stdout.splitlines()) == 1


def test_broker_killed(scene):
    with scene.stack() as stack:
        for _ in range(3):
            assert run(["ssh-add", "-L"], stack.env()).returncode == 0
            os.kill(stack.brokers[-1], 9)
            os.waitid(os.P_PID, stack.brokers[-1], os.WEXITED | os.WNOWAIT)
            run(["ssh-add", "-L"], stack.env())  # may be the one that notices
        assert scene.ssh(stack.env(), "echo", "in").stdout == b"in\n"


def ask(stack, line):
    with stack.connect("credentials") as s:
        s.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        return json.loads(s.makefile("rb").readline())


def test_credential_socket(tmp_path):
    with Stack(tmp_path, ssh=False, grants=[grant("anthropic", ["api.example.com"])]) as stack:
        r = ask(stack, {"op": "list"})
        assert [(c["name"], c["hosts"], c["place"]) for c in r["credentials"]] == [("anthropic", ["api.example.com"], "header")]
        assert "PLACEHOLDER" not in json.dumps(r)
        assert ask(stack, {"op": "load", "name": "anthropic"})["value"].startswith("PLACEHOLDER")
        for op in ("save", "delete", "set", "rm"):
            assert ask(stack, {"op": op, "name": "anthropic"})["code"] == "READ_ONLY"
        assert ask(stack, b"GET / HTTP/1.1\n")["code"] == "BAD_REQUEST"
        stack.configure(grants=[])
        assert ask(stack, {"op": "show", "name": "anthropic"})["code"] == "NOT_FOUND"


def test_programs_inside(tmp_path):
    for name in ("bawn-key", "xdg-open"):
        (tmp_path / name).symlink_to(find("bawn-inside"))
    url = "https://id.example.com/authorize?" + "a" * 1200
    with Stack(tmp_path, ssh=False, grants=[grant("anthropic", ["api.example.com"])]) as stack:
        env = stack.env()
        r = run([tmp_path / "bawn-key", "list"], env)
        assert r.returncode == 0 and b"anthropic" in r.stdout and b"api.example.com" in r.stdout, r
        assert run([tmp_path / "bawn-key", "load", "anthropic"], env).stdout.startswith(b"PLACEHOLDER")
        assert b"x-api-key" in run([tmp_path / "bawn-key", "show", "anthropic"], env).stdout
        assert json.loads(run([tmp_path / "bawn-key", "--json", "show", "anthropic"], env).stdout)["ok"]
        for args in (["save", "anthropic"], ["delete", "anthropic"], ["load", "nobody"]):
            r = run([tmp_path / "bawn-key", *args], env)
            assert r.returncode == 1 and r.stdout == b"" and r.stderr.startswith(b"bawn: "), r
        assert run([tmp_path / "bawn-key", "what"], env).returncode == 64
        assert run([tmp_path / "xdg-open", url], env).returncode == 0
        with stack.condition:
            assert stack.condition.wait_for(lambda: stack.opened and stack.opened[-1][1] == 1, 60)
        assert "".join(p for p, _ in stack.opened) == url and len(stack.opened) == 3
        for bad in ("http://a.test/", "file:///etc/passwd", "https://u@a.test/", "https://a.test/\x1b[2J", "https://a.test/" + "a" * 9000):
            assert run([tmp_path / "xdg-open", bad], env).returncode == 1, bad
        codes = [run([tmp_path / "xdg-open", "https://a.test/"], env).returncode for _ in range(8)]
        assert codes[0] == 0 and codes[-1] == 1  # windows do not flood the screen
    r = run([tmp_path / "bawn-key", "list"], {"BAWN_CREDENTIAL_SOCKET": str(tmp_path / "gone.sock")})
    assert r.returncode == 1 and b"gone.sock" in r.stderr, r
