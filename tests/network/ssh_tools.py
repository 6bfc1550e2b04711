"""What the tests of ssh share: real servers with several host keys, the user's own ssh-agent, and a client of agents that does as it likes.

    sshd = ssh_tools.Sshd(inter_net, "git", ssh_tools.GIT)    user git, who lets in every key of ssh_tools.KEYS; 22, 443 and 2222
    ssh = ssh_tools.User(net)                                 their agent, their known_hosts
    ssh.know("git.example.com", sshd, "ed25519")
    r = net.sandbox("ssh", ..., env=ssh.env)
"""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import struct
import subprocess
import time

import servers

GIT, OTHER = "11.0.0.28", "11.0.0.29"
PORTS = (22, 443, 2222)
KEYS = {"me@laptop": "ed25519", "work key": "rsa", "spare": "ecdsa"}  # comment: kind
HOST_KEYS = ("ed25519", "ecdsa", "rsa")
RELAY = 7000  # of Sshd: leads to the port 22 of another one

FAILURE, SUCCESS, KEYS_ANSWER, SIGNATURE = 5, 6, 12, 14

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

    def __init__(self, world, name, address):
        servers.need("sshd", "ssh", "ssh-agent", "git")
        folder = servers.fresh(world, f"sshd-{name}")
        for kind in HOST_KEYS:
            make_key(folder / kind, "", kind)
        (folder / "authorized").write_text("".join(path.with_suffix(".pub").read_text() for path in user_keys(world).values()))
        user = pwd.getpwnam(servers.TEST_USER)
        self.home = servers.fresh(world, f"sshd-{name}/home")
        self.repository = self.home / "demo.git"
        servers.run("git", "init", "-q", "--bare", "-b", "main", self.repository)
        servers.run("chown", "-R", f"{user.pw_uid}:{user.pw_gid}", self.home)
        (folder / "passwd").write_text(f"git:x:{user.pw_uid}:{user.pw_gid}::{self.home}:/bin/sh\n{pathlib.Path('/etc/passwd').read_text()}")
        (folder / "config").write_text(CONFIG.format(f=folder, listen="\n".join(f"ListenAddress {address}:{port}" for port in PORTS),
                                                     host_keys="\n".join(f"HostKey {folder}/{kind}" for kind in HOST_KEYS)))
        start = ('mount --bind "$1/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && '
                 'exec /usr/sbin/sshd -D -e -f "$1/config"')
        super().__init__(world, folder, "unshare", "-m", "sh", "-c", start, "sh", folder, ready=(address, 22))

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

    def outside(self, *args, options=()):
        """ssh without a sandbox, by the same agent; the names are those of the world."""
        known = self.runner.home / ".ssh" / "known_hosts"
        return self.net.outside("ssh", "-o", f"UserKnownHostsFile={known}", "-o", "BatchMode=yes", *options, *args, env=self.env)


# What an agent is told. This part runs inside, too: nothing here may need more than Python (`ssh_tools.INSIDE`).

INSIDE = '''
import os, socket, struct

def string(b):
    return struct.pack(">I", len(b)) + b

def strings(b):
    out = []
    while len(b) >= 4 and len(b) - 4 >= (n := struct.unpack(">I", b[:4])[0]):
        out.append(b[4:4 + n])
        b = b[4 + n:]
    return out

class Agent:
    def __init__(self, path=None):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path or os.environ["SSH_AUTH_SOCK"])
        self.file = self.socket.makefile("rb")

    def ask(self, message):
        self.socket.sendall(string(message))
        head = self.file.read(4)
        return self.file.read(struct.unpack(">I", head)[0]) if head else b""
'''
