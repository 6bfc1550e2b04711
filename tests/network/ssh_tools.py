# SPDX-License-Identifier: Apache-2.0
"""What the tests of ssh share: real servers with several host keys, the user's own ssh-agent, and a client of agents that does as it likes.

    server = ssh_tools.Sshd(inter_net)       git.example.com: the user git, who lets in every key of ssh_tools.KEYS
    me = ssh_tools.User(net)                 who runs Bawn: their agent, their known_hosts
    me.know(server.known("git.example.com"))
    r = net.sandbox("ssh", ..., env=me.env)
"""

import os
import pathlib
import pwd
import signal
import socket
import subprocess
import time

import pytest
import servers

GIT, RELAY = "11.0.0.28", "11.0.0.29"
NAMES = {"git.example.com": [GIT], "relay.example.com": [RELAY]}
PORTS = (22, 443, 2222)  # of GIT; RELAY leads there from 7022, 7443 and 9222
KEYS = {"me@laptop": "ed25519", "work key": "rsa", "spare": "ecdsa"}  # comment: kind
HOST_KEYS = ("ed25519", "ecdsa", "rsa")
FAILURE, SUCCESS, SIGNATURE = 5, 6, 14

CONFIG = """
{listen}
{host_keys}
AuthorizedKeysFile {f}/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowAgentForwarding yes
LogLevel VERBOSE
"""


def make_key(path, comment, kind):
    servers.run("ssh-keygen", "-q", "-t", kind, *(["-b", "2048"] if kind == "rsa" else []), "-N", "", "-C", comment, "-f", path)


def user_keys(world):
    """{comment: path}; made once."""
    folder = world.folder / "ssh-keys"
    if not folder.exists():
        folder.mkdir()
        for comment, kind in KEYS.items():
            make_key(folder / kind, comment, kind)
    return {comment: folder / kind for comment, kind in KEYS.items()}


class Sshd(servers.Server):
    """With a user git whose home has an empty repository demo.git. The user exists in sshd's own mount namespace only."""

    def __init__(self, world):
        servers.need("sshd", "ssh", "ssh-agent", "git", "socat")
        folder = servers.fresh(world, "sshd-git")
        for kind in HOST_KEYS:
            make_key(folder / kind, "", kind)
        (folder / "authorized").write_text("".join(path.with_suffix(".pub").read_text() for path in user_keys(world).values()))
        user = pwd.getpwnam(servers.TEST_USER)
        self.home = servers.fresh(world, "sshd-git/home")
        self.repository = self.home / "demo.git"
        servers.run("git", "init", "-q", "--bare", "-b", "main", self.repository)
        servers.run("chown", "-R", f"{user.pw_uid}:{user.pw_gid}", self.home)
        (folder / "passwd").write_text(f"git:x:{user.pw_uid}:{user.pw_gid}::{self.home}:/bin/sh\n{pathlib.Path('/etc/passwd').read_text()}")
        (folder / "config").write_text(CONFIG.format(f=folder, listen="\n".join(f"ListenAddress {GIT}:{port}" for port in PORTS),
                                                     host_keys="\n".join(f"HostKey {folder}/{kind}" for kind in HOST_KEYS)))
        start = ('mount --bind "$1/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && '
                 'exec /usr/sbin/sshd -D -e -f "$1/config"')
        super().__init__(world, folder, "unshare", "-m", "sh", "-c", start, "sh", folder, ready=(GIT, 22))

        self.relays = [servers.Server(world, servers.fresh(world, f"relay-{port}"), "socat", f"TCP-LISTEN:{7000 + port},bind={RELAY},fork,reuseaddr",
                                      f"TCP:{GIT}:{port}", ready=(RELAY, 7000 + port)) for port in PORTS]

    def end(self):
        for relay in self.relays:
            relay.end()
        super().end()

    def known(self, names, *kinds):
        """Lines of known_hosts."""
        return "".join(f"{names} {' '.join((self.folder / f'{kind}.pub').read_text().split()[:2])}\n" for kind in kinds or HOST_KEYS)

    def logins(self):
        """How many it has accepted."""
        return self.error.read_text().count("Accepted publickey")


class User:
    """Who runs Bawn, with an ssh-agent that has some of KEYS."""

    def __init__(self, net, *comments):
        self.net, self.runner = net, net.runner
        net.names.update(NAMES)
        net.save_names()
        self.keys = {comment: path for comment, path in user_keys(net.world).items() if not comments or comment in comments}
        self.path = self.runner.home / "agent.sock"
        self.env = {"SSH_AUTH_SOCK": str(self.path)}
        self.start()

    def start(self):
        self.path.unlink(missing_ok=True)
        self.process = self.runner.popen("ssh-agent", "-D", "-a", self.path, stdout=subprocess.DEVNULL)
        with socket.socket(socket.AF_UNIX) as s:
            while s.connect_ex(str(self.path)):
                assert self.process.poll() is None, "ssh-agent ended"
                time.sleep(0.01)
        for path in self.keys.values():
            assert self.add("-q", "-", input=path.read_bytes()).rc == 0

    def add(self, *args, **kw):
        return self.runner.run("ssh-add", *args, env=self.env, **kw)

    def fingerprint(self, comment):
        return servers.run("ssh-keygen", "-lf", self.keys[comment]).split()[1].decode()

    def stop(self, kind=signal.SIGKILL):
        os.kill(self.process.pid, kind)
        if kind == signal.SIGKILL:
            self.process.wait()

    def know(self, text, hashed=False):
        """Writes ~/.ssh/known_hosts."""
        path = self.runner.write(self.runner.home / ".ssh" / "known_hosts", text, 0o600)
        if hashed:
            assert self.runner.run("ssh-keygen", "-q", "-H", "-f", path).rc == 0
            assert "example" not in path.read_text()
        return path

    def outside(self, *args):
        """ssh without a sandbox, with the same agent and the same known_hosts (ssh does not look at HOME)."""
        return self.net.outside("ssh", "-o", f"UserKnownHostsFile={self.runner.home}/.ssh/known_hosts", *args, env=self.env)


@pytest.fixture(scope="module")
def server(inter_net):
    s = Sshd(inter_net)
    yield s
    s.end()


@pytest.fixture
def me(net):
    user = User(net)
    yield user
    user.stop()


# Runs inside, too.
CLIENT = '''
import os, socket, struct

def string(b):
    return struct.pack(">I", len(b)) + b

class Agent:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(os.environ["SSH_AUTH_SOCK"])
        self.file = self.socket.makefile("rb")

    def ask(self, message):
        self.socket.sendall(string(message))
        return self.file.read(struct.unpack(">I", self.file.read(4))[0])

    def sign(self, key, data):
        return self.ask(b"\\x0d" + string(key) + string(data) + bytes(4))[0]

def login(key, user=b"git"):
    """What a client lets its agent sign to log in; the session is nobody's."""
    return (string(os.urandom(32)) + b"\\x32" + string(user) + string(b"ssh-connection") + string(b"publickey") + b"\\x01" +
            string(b"ssh-ed25519") + string(key))

def sshsig(namespace):
    return b"SSHSIG" + string(namespace) + string(b"") + string(b"sha512") + string(bytes(64))
'''
