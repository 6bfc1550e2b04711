# SPDX-License-Identifier: Apache-2.0
"""Plays the supervisor of a bawn-gate: makes a sandbox's network namespace and its listeners, starts the program, talks with it.

    with outer_network():                            # whoever runs this is in a namespace with nothing but lo
        with Gate(rules=[{"action": "allow", "host": "a.test", "allow_private": True}], hosts="127.0.0.1 a.test") as gate:
            s = gate.connect("a.test", 8080)         # as a program in the sandbox would: lookup by our DNS, then connect
            gate.events(kind="connection", host="a.test")

Needs root (namespaces, nftables). No packet leaves the machine: both namespaces have only their loopback device.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import socket
import struct
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLONE_NEWNET = 0x40000000
IP_TRANSPARENT, IPV6_TRANSPARENT, IP_PKTINFO, IPV6_RECVPKTINFO = 19, 75, 8, 49

CONFIG, ANSWER, BROKER, INSIDE, STOP, READY, EVENT, ASK, CANCEL, WANT_BROKER, WANT_INSIDE, OPEN = range(1, 13)
DENY, ONCE, SESSION, ALWAYS = range(4)
KINDS = ["lookup", "connection", "request", "end", "trouble"]
ACTIONS = ["deny", "ask", "allow"]
MODES = {"unset": 0, "none": 1, "limited": 2, "full": 3, "list": 4}
CODES = ["ALLOWED", "ASK", "DENIED_OFF", "DENIED_HOST", "DENIED_PORT", "DENIED_METHOD", "DENIED_PATH", "DENIED_ADDRESS",
         "DENIED_UNANSWERED", "NOT_HANDED_OUT", "NAME_INVALID", "PATH_INVALID", "BODY_TOO_LARGE", "NAME_MISMATCH", "NOT_TLS",
         "NOT_HTTP", "NO_ADDRESS", "UNREACHABLE", "NOT_TRUSTED", "CANNOT_LOOK", "SECRET_MISPLACED",
         "SECRET_UNAVAILABLE", "LOGIN_OUTSIDE", "QUOTA"]
LAYERS = {"session": 0, "sandbox": 1, "settings": 2, "project": 3, "user": 4, "built-in": 5, "organisation": 6}
MSG = struct.Struct("=IIiIIIIIQQQQ256s48s68s16s264s36s512s68s4x")
PLACES = ["header", "basic", "query", "sigv4"]
WAIT = 60  # seconds: only so that a hang ends as a failure

libc = ctypes.CDLL(None, use_errno=True)

RULES = """
table %s bawn {
  chain pre {
    type filter hook prerouting priority mangle;
    iif lo %s daddr != %s tcp flags & (fin|syn|rst|ack) == syn tproxy to :15001
  }
}
"""


def check(r, what):
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{what}: {os.strerror(e)}")


def net_fd():
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def enter(fd):
    check(libc.setns(fd, CLONE_NEWNET), "setns")


@contextlib.contextmanager
def in_network(fd):
    """This thread, and what it starts, is in that namespace."""
    old = net_fd()
    try:
        enter(fd)
        yield
    finally:
        enter(old)
        os.close(old)


def new_network(script):
    """A namespace in which the commands of `script` were run; returns its descriptor."""
    old = net_fd()
    try:
        check(libc.unshare(CLONE_NEWNET), "unshare")
        fd = net_fd()
        for cmd, stdin in script:
            subprocess.run(cmd, input=stdin, check=True)
        return fd
    finally:
        enter(old)
        os.close(old)


@contextlib.contextmanager
def outer_network(addresses=()):
    """Stands for the host's network: loopback, and these addresses on it."""
    script = [(["ip", "link", "set", "lo", "up"], None)]
    script += [(["ip", "addr", "add", a, "dev", "lo"], None) for a in addresses]
    fd = new_network(script)
    try:
        with in_network(fd):
            yield
    finally:
        os.close(fd)


def listener(family, kind, port):
    s = socket.socket(family, kind)
    v6 = family == socket.AF_INET6
    if v6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if kind == socket.SOCK_STREAM:
        s.setsockopt(socket.IPPROTO_IPV6 if v6 else socket.SOL_IP, IPV6_TRANSPARENT if v6 else IP_TRANSPARENT, 1)
    else:
        s.setsockopt(socket.IPPROTO_IPV6 if v6 else socket.SOL_IP, IPV6_RECVPKTINFO if v6 else IP_PKTINFO, 1)
    s.bind(("::" if v6 else "0.0.0.0", port))
    if kind == socket.SOCK_STREAM:
        s.listen(4096)
    s.setblocking(False)
    return s


def sandbox_network():
    ip = [["link", "set", "lo", "up"], ["route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "local", "scope", "host"],
          ["-6", "route", "add", "local", "::/0", "dev", "lo", "table", "local"]]
    script = [(["ip", *args], None) for args in ip]
    script.append((["nft", "-f", "-"], (RULES % ("ip", "ip", "127.0.0.0/8") + RULES % ("ip6", "ip6", "::1")).encode()))
    fd = new_network(script)
    with in_network(fd):
        tcp, udp = socket.SOCK_STREAM, socket.SOCK_DGRAM
        socks = [listener(f, k, p) for k, p in ((tcp, 15001), (udp, 53)) for f in (socket.AF_INET, socket.AF_INET6)]
    return fd, socks


def text(b):
    return b.split(b"\0", 1)[0].decode()


class Message(dict):
    """A struct gate_msg with names."""

    @classmethod
    def read(cls, data):
        f = MSG.unpack(data)
        return cls(type=f[0], id=f[1], value=f[2], kind=KINDS[f[3]], action=ACTIONS[f[4]], code=CODES[f[5]], port=f[6], status=f[7],
                   flow=f[8], sent=f[9], received=f[10], micros=f[11], host=text(f[12]), address=text(f[13]), rule=text(f[14]),
                   layer=text(f[15]), pattern=text(f[16]), method=text(f[17]), path=text(f[18]), secret=text(f[19]))


def pack(type, id=0, value=0):
    return MSG.pack(type, id, value, 0, 0, 0, 0, 0, 0, 0, 0, 0, b"", b"", b"", b"", b"", b"", b"", b"")


def grant(name, hosts, placeholder, place="header", placeholder2="", only_placeholder=False, env=(), **texts):
    """A struct grant, as policy/credential/credential_codec.c writes it. texts: header, format, user, query, region, service, token_url, ..."""
    def optional(t):
        return b"-" if t is None else b"+" + t.encode() + b"\0"

    texts = {"name": name, "shape": ""} | ({"header": "x-api-key", "format": "{}"} if place == "header" else {}) | texts
    out = struct.pack("=5I", PLACES.index(place), only_placeholder, 0, len(hosts), len(env))
    for key in ("name", "header", "format", "user", "query", "region", "service", "shape", "token_url", "device_url", "authorize_url",
                "client_id", "scope"):
        out += optional(texts.get(key))
    return out + b"".join(optional(t) for t in (*hosts, *env, placeholder, placeholder2))


def find_gate():
    """Beside bawn in a build, in libexec where it is installed."""
    top = pathlib.Path(os.environ.get("BAWN", ROOT / "build/bawn")).resolve().parent
    return str(next(p for p in (top / "bawn-gate", top.parent / "libexec/bawn/bawn-gate") if p.exists()))


class Gate:
    def __init__(self, rules=(), mode="list", layers=None, hosts="", resolv="", ask=None, ask_timeout=60000, publish=(), max_flows=0,
                 http_proxy="", https_proxy="", no_proxy="", user=None, path=None, broker=None, grants=(),
                 trust=None):
        self.path = path or find_gate()
        self.settings = dict(mode=mode, hosts=hosts, resolv=resolv, ask_timeout=ask_timeout, max_flows=max_flows, http_proxy=http_proxy,
                             https_proxy=https_proxy, no_proxy=no_proxy, publish=publish, grants=grants)
        self.layers = layers or {"user": {"rules": list(rules)}}
        self.ask, self.user, self.broker = ask, user, broker  # ask: question -> answer, or None if nobody is there
        self.trust = trust  # a file with certificates, instead of the machine's
        self.generation = 0
        self.seen, self.ready, self.condition = [], {}, threading.Condition()
        self.net, self.socks = sandbox_network()
        self.outside = []
        for _, port in publish:
            s = socket.create_server(("127.0.0.1", port))
            self.outside.append(s)
        self.start()

    def start(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        fds = [theirs.fileno()] + [s.fileno() for s in self.socks + self.outside]
        self.control, self.closing = ours, False
        self.pid = os.fork()
        if self.pid == 0:
            self.exec(fds)
        theirs.close()
        threading.Thread(target=self.listen, daemon=True).start()
        self.configure()

    def exec(self, fds):
        try:
            high = [os.dup2(fd, 500 + i, inheritable=True) for i, fd in enumerate(fds)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i, inheritable=True)
            os.closerange(3 + len(fds), 4096)
            if self.user:
                os.setgroups([])
                os.setgid(self.user.pw_gid)
                os.setuid(self.user.pw_uid)
            env = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
            os.execve(self.path, ["bawn-gate"], env | ({"SSL_CERT_FILE": self.trust} if self.trust else {}))
        finally:
            os._exit(127)

    def encode(self):
        s = self.settings
        grants = struct.pack("=I", len(s["grants"])) + b"".join(s["grants"])
        out = struct.pack("=8s9I", b"bawngat2", self.generation, MODES[s["mode"]], self.ask is not None, s["ask_timeout"],
                          len(self.layers), len(s["publish"]), s["max_flows"], 0, len(grants)) + grants
        out += b"".join(struct.pack("=HH", i, o) for i, o in s["publish"])
        for name, rules in self.layers.items():
            out += struct.pack("=II", LAYERS[name], name == "organisation") + name.encode() + b"\0" + json.dumps(rules).encode() + b"\0"
        for t in (s["resolv"], s["hosts"], s["http_proxy"], s["https_proxy"], s["no_proxy"], "", ""):
            out += t.encode() + b"\0"
        return out

    def configure(self):
        """Sends the configuration and waits until it is in force (or refused: raises)."""
        self.generation += 1
        fd = os.memfd_create("config", os.MFD_CLOEXEC)
        os.write(fd, self.encode())
        socket.send_fds(self.control, [pack(CONFIG)], [fd])
        os.close(fd)
        with self.condition:
            if not self.condition.wait_for(lambda: self.closing or self.ready.get("n", 0) >= self.generation, WAIT):
                raise TimeoutError("the gate does not get ready")
        if self.closing:
            raise RuntimeError(f"the gate ended: {os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)}")
        if self.ready["value"] != self.generation:
            raise RuntimeError(self.ready["host"])

    def reload(self, rules=None, layers=None, **settings):
        self.layers = layers or {"user": {"rules": list(rules)}}
        self.settings.update(settings)
        self.configure()

    def listen(self):
        while True:
            try:
                data, fds, *_ = socket.recv_fds(self.control, MSG.size, 1)
            except OSError:
                data = b""
            if not data:
                with self.condition:
                    self.closing = True
                    self.condition.notify_all()
                return
            self.take(Message.read(data))

    def take(self, m):
        with self.condition:
            self.seen.append(m)
            if m["type"] == READY:
                self.ready = {"n": self.ready.get("n", 0) + 1, "value": m["value"], "host": m["host"]}
            self.condition.notify_all()
        if m["type"] == ASK and self.ask:
            answer = self.ask(m)
            if answer is not None:
                self.answer(m["id"], answer)
        if m["type"] == WANT_INSIDE:
            self.connect_inside(m)
        if m["type"] == WANT_BROKER:
            fd = self.broker() if self.broker else None
            socket.send_fds(self.control, [pack(BROKER)], [fd] if fd is not None else [])
            if fd is not None:
                os.close(fd)

    def answer(self, id, value):
        self.control.send(pack(ANSWER, id, value))

    def connect_inside(self, m):
        with in_network(self.net):
            s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", m["port"]))
        socket.send_fds(self.control, [pack(INSIDE, m["id"])], [s.fileno()])
        s.close()

    def events(self, n=1, **want):
        """Waits until there are n events with these fields, returns all of them."""
        def found():
            return [m for m in self.seen if m["type"] == EVENT and all(m[k] == v for k, v in want.items())]
        with self.condition:
            self.condition.wait_for(lambda: len(found()) >= n or self.closing, WAIT)
            if len(found()) < n:
                raise AssertionError(f"no {n} events {want}: {self.seen}")
            return found()

    def asked(self, n=1):
        with self.condition:
            self.condition.wait_for(lambda: len([m for m in self.seen if m["type"] == ASK]) >= n or self.closing, WAIT)
            return [m for m in self.seen if m["type"] == ASK]

    def socket(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        with in_network(self.net):
            s = socket.socket(family, kind)
        s.settimeout(WAIT)
        return s

    def lookup(self, name, kind=1):
        """The address that our DNS gives for it (kind 1: A, 28: AAAA); None if it gives none."""
        q = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0)
        q += b"".join(bytes([len(p)]) + p for p in name.encode().split(b".")) + b"\0" + struct.pack(">HH", kind, 1)
        with self.socket(kind=socket.SOCK_DGRAM) as s:
            s.connect(("198.18.0.1", 53))
            s.send(q)
            a = s.recv(4096)
        size = 4 if kind == 1 else 16
        return socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, a[len(q) + 12:][:size]) if a[7] else None

    def connect(self, host, port):
        """A connection from inside, by address or by name."""
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        except OSError:
            host = self.lookup(host) or "0.0.0.0"
            assert host != "0.0.0.0", "DNS gives no address"
        s = self.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        s.connect((host, port))
        return s

    def run(self, *cmd, **kw):
        """A program inside (of the network only)."""
        return subprocess.run(cmd, preexec_fn=lambda: enter(self.net), capture_output=True, **kw)

    def status(self, field):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return line.split(":", 1)[1].split()

    def alive(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def stop(self):
        """Ends the gate in order; its exit status."""
        if self.pid is None:
            return None
        with contextlib.suppress(OSError):
            self.control.send(pack(STOP))
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        return os.waitstatus_to_exitcode(status)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            status = self.stop()
        finally:
            self.control.close()
            for s in self.socks + self.outside:
                s.close()
            os.close(self.net)
        if exc[0] is None and status not in (0, None):
            raise AssertionError(f"bawn-gate ended with {status}")


class Server:
    """A TCP server in this thread's namespace: handle(socket) for each connection, in a thread of its own."""

    def __init__(self, handle, address="127.0.0.1", port=0):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.sock = socket.create_server((address, port), family=family, backlog=1024)
        self.port = self.sock.getsockname()[1]
        self.handle, self.accepted = handle, 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.sock.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.one, args=(s,), daemon=True).start()

    def one(self, s):
        with contextlib.suppress(OSError), s:
            self.handle(s)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def echo(s):
    while data := s.recv(65536):
        s.sendall(data)


def read_all(s):
    out = b""
    while True:
        data = s.recv(65536)
        if not data:
            return out
        out += data
