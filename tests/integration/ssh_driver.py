# SPDX-License-Identifier: Apache-2.0
"""Plays the supervisor of a bawn-gate and its bawn-broker, for the sockets inside a sandbox: ssh-agent and credentials.

    with Stack(folder, rules=[...], known_hosts="...", agent="/path/of/the/real/agent.sock") as stack:
        subprocess.run(["ssh-add", "-L"], env=stack.env())

No network is made: ssh and sshd of the tests speak over loopback, in a namespace of their own (outer_network()).
"""

import os
import pathlib
import select
import socket
import struct
import subprocess
import threading

from broker_driver import AGENT, CONFIG, MSG, USED, WANT_AGENT, encode_config

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WAIT = 60  # seconds: only so that a hang ends as a failure
GATE_CONFIG, GATE_BROKER, GATE_READY, GATE_WANT_BROKER, GATE_OPEN = 1, 3, 6, 10, 12
GATE_FD_SSH, GATE_FD_CREDENTIAL = 52, 53
GATE_MSG = struct.Struct("=IIiIIIIIQQQQ256s48s68s16s264s36s512s68s4x")


def text(b):
    return b.split(b"\0", 1)[0].decode()


def find(program):
    """Beside bawn in a build, in libexec where it is installed."""
    top = pathlib.Path(os.environ.get("BAWN", ROOT / "build/bawn")).resolve().parent
    return str(next(p for p in (top / program, top.parent / "libexec/bawn" / program) if p.exists()))


def start(program, args, fds):
    """With exactly these descriptors, by their numbers."""
    pid = os.fork()
    if pid:
        return pid
    try:
        high = {n: os.dup2(fd, 500 + i) for i, (n, fd) in enumerate(fds.items())}
        os.closerange(3, 400)
        for n, fd in high.items():
            os.dup2(fd, n, inheritable=True)
        os.closerange(400, 1024)
        os.execve(find(program), [program, *args], {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")})
    finally:
        os._exit(127)


class Stack:
    def __init__(self, folder, rules=(), mode="list", known_hosts="", keys="", agent=None, ssh=True, grants=()):
        self.folder, self.agent = pathlib.Path(folder), agent
        self.settings = dict(rules=list(rules), mode=mode, known_hosts=known_hosts, keys=keys, ssh=ssh, grants=list(grants))
        self.generation = 0
        self.used, self.opened, self.ready, self.brokers = [], [], 0, []
        self.condition = threading.Condition()
        self.closing = False
        self.paths = {n: self.folder / f"{n}.sock" for n in ("ssh-agent", "credentials")}
        listeners = {}
        for name, path in self.paths.items():
            listeners[name] = socket.socket(socket.AF_UNIX)
            listeners[name].bind(str(path))
            listeners[name].listen(256)
        self.gate, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = start("bawn-gate", [], {3: theirs.fileno(), GATE_FD_SSH: listeners["ssh-agent"].fileno(),
                                           GATE_FD_CREDENTIAL: listeners["credentials"].fileno()})
        theirs.close()
        for s in listeners.values():
            s.close()
        self.broker = None
        threading.Thread(target=self.listen, daemon=True).start()
        self.configure()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closing = True
        self.gate.close()
        self.status = os.waitpid(self.pid, 0)[1]
        if self.broker:
            self.broker.close()
        for pid in self.brokers:
            os.waitpid(pid, 0)

    def env(self, **more):
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "SSH_AUTH_SOCK": str(self.paths["ssh-agent"]),
                "BAWN_CREDENTIAL_SOCKET": str(self.paths["credentials"])} | more

    def config_fd(self):
        s = self.settings
        fd = os.memfd_create("config", os.MFD_CLOEXEC)
        os.write(fd, encode_config(s["grants"], s["rules"], s["mode"], can_ask=False, ssh=s["ssh"], ssh_keys=s["keys"],
                                   known_hosts=s["known_hosts"], generation=self.generation))
        return fd

    def send_config(self, sock, message):
        fd = self.config_fd()
        socket.send_fds(sock, [message], [fd])
        os.close(fd)

    def configure(self, **settings):
        self.settings.update(settings)
        self.generation += 1
        if self.broker:
            self.send_config(self.broker, MSG.pack(CONFIG, 0, 0, 0, 0, b"", b"", b""))
        self.send_config(self.gate, GATE_MSG.pack(GATE_CONFIG, *[0] * 11, *[b""] * 8))
        with self.condition:
            assert self.condition.wait_for(lambda: self.ready == self.generation or self.closing, WAIT)
            assert not self.closing, "the gate ended"

    def start_broker(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        gate_end, broker_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self.brokers.append(start("bawn-broker", ["--serve"], {3: broker_end.fileno(), 4: null, 5: theirs.fileno()}))
        os.close(null)
        self.send_config(ours, MSG.pack(CONFIG, 0, 0, 0, 0, b"", b"", b""))
        socket.send_fds(self.gate, [GATE_MSG.pack(GATE_BROKER, *[0] * 11, *[b""] * 8)], [gate_end.fileno()])
        for s in (theirs, gate_end, broker_end):
            s.close()
        if self.broker:
            self.broker.close()
        self.broker = ours

    def agent_fd(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(self.agent))
        return s

    def give_agent(self):
        try:
            with self.agent_fd() as s:
                socket.send_fds(self.broker, [MSG.pack(AGENT, 0, 0, 0, 0, b"", b"", b"")], [s.fileno()])
        except OSError as e:
            self.broker.send(MSG.pack(AGENT, 0, e.errno, 0, 0, b"", b"", b""))

    def from_gate(self):
        data = self.gate.recv(GATE_MSG.size)
        if not data:
            return False
        f = GATE_MSG.unpack(data)
        with self.condition:
            if f[0] == GATE_READY:
                self.ready = f[2]
            if f[0] == GATE_OPEN:
                self.opened.append((text(f[18]), f[2]))
            self.condition.notify_all()
        if f[0] == GATE_WANT_BROKER:
            self.start_broker()
        return True

    def from_broker(self):
        data = self.broker.recv(MSG.size)
        if not data:
            self.broker.close()
            self.broker = None
            return
        f = MSG.unpack(data)
        if f[0] == WANT_AGENT:
            self.give_agent()
        if f[0] == USED:
            with self.condition:
                self.used.append(dict(index=f[1], status=f[2], port=f[3], host=text(f[5]), method=text(f[6]), text=text(f[7])))
                self.condition.notify_all()

    def listen(self):
        try:
            while not self.closing:
                socks = [s for s in (self.gate, self.broker) if s]
                for s in select.select(socks, [], [], 0.2)[0]:
                    if s is self.broker:
                        self.from_broker()
                    elif not self.from_gate():
                        raise OSError("the gate is gone")
        except (OSError, ValueError):
            with self.condition:
                self.closing = True
                self.condition.notify_all()

    def uses(self, **want):
        return [u for u in self.used if all(u[k] == v for k, v in want.items())]

    def connect(self, name):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(WAIT)
        s.connect(str(self.paths[name]))
        return s


class RealAgent:
    """OpenSSH's own, with these keys: {comment: file}."""

    def __init__(self, folder, keys):
        self.path = pathlib.Path(folder) / "real-agent.sock"
        self.process = subprocess.Popen(["ssh-agent", "-D", "-a", str(self.path)], stdout=subprocess.DEVNULL)
        with socket.socket(socket.AF_UNIX) as s:
            while s.connect_ex(str(self.path)):  # the file is there before anybody listens
                assert self.process.poll() is None
        for path in keys:
            self.add("-q", str(path))

    def add(self, *args):
        return subprocess.run(["ssh-add", *args], env={"SSH_AUTH_SOCK": str(self.path), "PATH": os.environ["PATH"]}, check=True,
                              capture_output=True).stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
