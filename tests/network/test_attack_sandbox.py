# SPDX-License-Identifier: Apache-2.0
"""ATTACKS C4.62-69: no way round the gate, none into another sandbox, and the gate itself holds nothing worth stealing.

Wrong certificates of servers (69) are in test_clients.py, with every kind of client."""

import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import time

import pytest

from attack_tools import inside, outside, python, recorder
from inside import until

LOOK = {"action": "allow", "host": "ok.example.com", "inspect": True}


class Conversation:
    """A sandbox that is told what to do by lines, and answers each with one line."""

    def __init__(self, net, script, **rules):
        self.process = net.popen(*net.command(*python(net, script), **rules), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        self.pid = self.process.pid

    def line(self):
        answer = self.process.stdout.readline()
        assert answer, f"the sandbox has ended: {self.process.stderr.read()}"
        return answer.rstrip("\n")

    def say(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.line()

    def children(self):
        """{name: pid} of the supervisor's helpers that run. A bawn-broker that makes the next authority is waited for."""
        while True:
            found = {}
            for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    s = status(pid)
                    if s["State"][0] != "Z":
                        found.setdefault(s["Name"], []).append(int(pid))
            time.sleep(0.01)
            if all(len(pids) == 1 for pids in found.values()):
                return {name: pids[0] for name, pids in found.items()}

    def end(self):
        self.process.stdin.close()
        out = self.process.stdout.read()
        self.process.stderr.read()
        assert self.process.wait() == 0
        return out


@contextlib.contextmanager
def conversation(*args, **kw):
    c = Conversation(*args, **kw)
    try:
        yield c
        c.end()
    finally:
        if c.process.poll() is None:
            os.killpg(c.pid, signal.SIGKILL)
            c.process.wait()


ASK = """
for line in sys.stdin:
    scheme, host = line.split()
    answer = by_dns(host.encode()) if scheme == "http" else refusable(lambda: https(socket.create_connection((host, 443)), host, host.encode()))()
    print("yes" if b" 200 " in answer else answer, flush=True)
"""


# Clients that know no proxy

REQUEST = "GET / HTTP/1.0\\r\\nHost: HOST\\r\\nConnection: close\\r\\n\\r\\n"
CLIENTS = {
    "curl": ["curl", "-sSf", "--noproxy", "*", "http://HOST/"],
    "curl, empty environment": ["env", "-i", "curl", "-sSf", "http://HOST/"],
    "curl, other proxy": ["curl", "-sSf", "-x", "http://HOST:80", "http://HOST/"],
    "wget": ["wget", "-q", "-O", "-", "--no-proxy", "http://HOST/"],
    "bash": ["bash", "-ec", f"exec 3<>/dev/tcp/HOST/80; printf '{REQUEST}' >&3; grep '^HTTP/1.1 200' <&3"],
    "openssl": ["sh", "-c", f"printf '{REQUEST}' | openssl s_client -quiet -verify_quiet -connect HOST:443 -servername HOST 2>/dev/null"
                            " | grep '200 OK'"],
    "perl": ["perl", "-MIO::Socket::INET", "-e", f"my $s = IO::Socket::INET->new('HOST:80') or exit 1; print $s qq({REQUEST});"
                                                 " $_ = <$s>; exit !/ 200 /"],
}


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_without_proxy(net, client):
    """Claim: a client that ignores the variables is judged like any other (62)."""
    def command(host):
        return [word.replace("HOST", host) for word in CLIENTS[client]]

    assert net.outside(*command("evil.example.net")).rc == 0
    net.forget()
    assert net.sandbox(*command("evil.example.net"), allow=["ok.example.com"]).rc != 0
    assert net.hits() == [] and net.queries() == []
    r = net.sandbox(*command("ok.example.com"), allow=["ok.example.com"])
    assert r.rc == 0, r


# Sockets

SOCKETS = {
    "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)",
    "raw ICMP": "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)",
    "raw ICMPv6": "socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)",
    "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768)",
    "packet, cooked": "socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 768)",
    "ping": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)",
    "ping 6": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6)",
    "vsock": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "nftables": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)",
    "netlink of crypto": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 21)",
    "generic netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)",
    "xfrm": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 6)",
    "kernel crypto": "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "bluetooth": "socket.socket(31, socket.SOCK_RAW, 1)",
    "XDP": "socket.socket(44, socket.SOCK_RAW, 0)",
    "key": "socket.socket(15, socket.SOCK_RAW, 2)",
    "TIPC": "socket.socket(30, socket.SOCK_DGRAM, 0)",
    "SCTP": "socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)",
    "DCCP": "socket.socket(socket.AF_INET, 6, 33)",
    "UDP-Lite": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)",
    "transparent": "socket.socket().setsockopt(0, 19, 1)",
    "mark": "socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1)",
    "our port": "socket.socket().bind(('0.0.0.0', 15001))",
    "our port, one address": "socket.socket().bind(('127.0.0.1', 15001))",
    "our port, IPv6": "socket.socket(socket.AF_INET6).bind(('::', 15001))",
    "our name server": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind(('198.18.0.1', 53))",
}


def test_sockets(net):
    """Claim: with a network, too, there is no socket that goes past the gate: raw, packet, ICMP, vsock, netlink beyond routes (63, 65)."""
    found = inside(net, f"""
def made(text):
    reuse = socket.socket
    try:
        eval(text)
        return "made"
    except OSError as e:
        return e.strerror
shown({{name: made(text) for name, text in {SOCKETS!r}.items()}})
""", allow=["ok.example.com"])
    assert {name: answer for name, answer in found.items() if answer == "made"} == {}


def test_sockets_can_be_made_outside(net):
    """Without a sandbox the tests above have something to refuse: what root can, and what everybody can."""
    r = outside(net, f"""
rows = {SOCKETS!r}
for name in ({["raw", "packet", "nftables", "transparent", "our port"] if net.runner.is_root else ["nftables", "generic netlink", "our port"]!r}):
    eval(rows[name])
""")
    assert r.rc == 0, r


def test_reused_ports(net):
    """Claim: SO_REUSEADDR and SO_REUSEPORT take neither the gate's port nor its name server's (65)."""
    found = inside(net, """
def taken(kind, port, option, address):
    try:
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
        s.setsockopt(socket.SOL_SOCKET, option, 1)
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen()
    except OSError as e:
        return e.strerror
    return "taken"
found = {f"{kind} {port} {option} {address}": taken(kind, port, option, address)
         for kind, port in ((socket.SOCK_STREAM, 15001), (socket.SOCK_DGRAM, 53))
         for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT) for address in ("0.0.0.0", "127.0.0.1", "198.18.0.1", "11.0.0.10", "::", "::1")}
found["after"] = "yes" if b" 200 " in by_dns(HONEST) else "no"
shown(found)
""", allow=["ok.example.com"])
    assert found.pop("after") == "yes" and len(found) == 24
    assert [name for name, answer in found.items() if answer == "taken"] == []


def test_own_listener_takes_nothing_from_the_gate(net):
    """Claim: a server inside that binds a foreign address gets the inside's own traffic at the most; the gate's policy stays (62, 64)."""
    seen = recorder(net, "tcp:11.0.0.28:7777")
    found = inside(net, """
s = socket.socket()
s.bind(("0.0.0.0", 7777))
s.listen()
shown({"far": refusable(lambda: talk(dial("11.0.0.28", 7777), b"out?"))() if os.fork() else os._exit(0)})
""", allow=["ok.example.com"])
    assert "got there" not in found["far"] and seen() == [], found


def test_routes_cannot_be_changed(net):
    """Claim: netlink tells what the addresses are, and changes nothing (63)."""
    r = net.sandbox("sh", "-c", """
ip route add 11.0.0.0/8 dev lo && exit 9
ip link add d0 type dummy && exit 9
ip addr add 11.0.0.10/32 dev lo && exit 9
ip link set lo down && exit 9
ip route flush table local && exit 9
unshare -n true && exit 9
nsenter --net=/proc/1/ns/net true && exit 9
curl -sSf http://ok.example.com/ >/dev/null""", allow=["ok.example.com"])
    assert r.rc == 0, r


# Two sandboxes

SERVER = """
import threading
took = []
def serve(s):
    while True:
        c, _ = s.accept()
        took.append(1)
        c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 9\\r\\n\\r\\ngot there")
        c.close()
for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
    s = socket.socket(family)
    s.bind((address, 7777))
    s.listen()
    threading.Thread(target=serve, args=(s,), daemon=True).start()
by_dns(HONEST)
print("up", flush=True)
for line in sys.stdin:
    mine = refusable(lambda: rest(dial("127.0.0.1", 7777)))()
    print(len(took), b"got there" in mine, flush=True)
"""
PLACES = ["127.0.0.1", "::1", "172.31.0.1", "11.255.0.1", "11.255.0.2", "fd99::1", "host.bawn.internal", "0.0.0.0", "localhost"]


def knocks(places):
    return f"""
found = {{}}
for place in {places!r}:
    name = place.encode()
    literal = b"[" + name + b"]" if b":" in name else name
    for port in (7777, 15001):
        if (place in ("127.0.0.1", "::1", "localhost", "0.0.0.0")) and port == 15001:
            continue
        direct = refusable(lambda: talk(socket.create_connection((place, port)), b"CONNECT evil.example.net:80 HTTP/1.1\\r\\n\\r\\n"))()
        found[f"{{place}} {{port}}"] = [a.decode("latin-1") for a in (direct, by_connect(literal, port), by_socks(name, port), by_uri(literal, port))]
print(json.dumps(found))
"""


@pytest.mark.parametrize("rules", [{"options": ["--network", "full"]},
                         {"allow": ["host.bawn.internal", "0.0.0.0/0", "127.0.0.0/8", "11.255.0.1", "172.31.0.1"]}],
                         ids=["full", "generous"])
def test_another_sandbox_cannot_be_reached(net, rules):
    """Claim: neither the servers of a sandbox, nor its proxy port, can be reached from another one, whatever that is allowed (64, 65)."""
    with conversation(net, SERVER, allow=["ok.example.com"]) as a:
        assert a.line() == "up"
        found = inside(net, knocks(PLACES), **rules)
        assert len(found) == 2 * len(PLACES) - 4
        assert {place: answers for place, answers in found.items() if any("got there" in a or " 200 " in a for a in answers)} == {}
        assert a.say("count") == "1 True", "the one connection is the sandbox's own"


def test_nothing_listens_on_the_host(net):
    """Claim: the gate is no port of the host: no other user, no other sandbox can find it (65)."""
    with conversation(net, SERVER, allow=["ok.example.com"]) as a:
        assert a.line() == "up"
        tables = net.outside("sh", "-c", "cat /proc/net/tcp /proc/net/tcp6").out.decode()
        listening = [line for line in tables.splitlines() if re.match(r" *\d+: \S+ \S+ 0A ", line)]
        if net.rung != "full":  # servers inside are on the host's loopback and take the inside only (test_rung_attacks.py)
            places = [line.split()[1].split(":") for line in listening]
            assert len(places) == 3 and all(address.endswith("7F") and address[-8:] != "0100007F" for address, _ in places), listening
            listening = [port for _, port in places if int(port, 16) in (15001, 53)]
        assert listening == []
        r = outside(net, "shown({f'{a} {p}': refusable(dial)(a, p) for a in ('127.0.0.1', '::1', '172.31.0.1') for p in (15001, 7777, 53)})")
        assert {answer.split()[1] for answer in r.json().values()} == {"ConnectionRefusedError"}, r


EXHAUST = """
import resource
def hold(n, target, first):
    held = []
    for i in range(n):
        try:
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(target)
            held.append(s)
        except OSError:
            break
    time.sleep(0.2)
    for s in held:
        try:
            s.send(first)
        except OSError:
            pass
    return held
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
ok = addresses(dns(question(HONEST)))[0]
kinds = [((ok, 80), b"GET / HTTP/1.1\\r\\nX: "), ((ok, 443), b"\\x16\\3\\1\\2\\0\\1"),
         (PROXY, b"CONNECT ok.exam"), (PROXY, b"\\5\\1"), (("11.0.0.11", 80), b"GET / HT")]
pids = []
ready, done = os.pipe(), os.pipe()
for target, first in kinds:
    if not (pid := os.fork()):
        os.close(done[1])
        held = hold(1000, target, first)
        os.write(ready[1], struct.pack("!I", len(held)))
        os.read(done[0], 1)
        os._exit(0)
    pids.append(pid)
total = sum(struct.unpack("!I", os.read(ready[0], 4))[0] for _ in kinds)
print(total, flush=True)
sys.stdin.readline()
os.close(done[1])
"""


def test_a_flood_does_not_hurt_another_sandbox(net):
    """Claim: 5000 connections that never finish a word in one sandbox; every request of another one succeeds (66)."""
    with conversation(net, EXHAUST, allow=["ok.example.com"]) as a:
        assert int(a.line()) >= 4500, "the flood could not be made"
        found = inside(net, """
def by_https():
    return https(socket.create_connection(("ok.example.com", 443)), "ok.example.com", HONEST)
shown({str(i): by_dns(HONEST) if i % 2 else by_https() for i in range(30)})
""", allow=["ok.example.com"])
        assert len(found) == 30 and all(" 200 " in answer for answer in found.values()), found
        a.process.stdin.write("enough\n")
    assert len(net.requests()) == 30


# Rules that change

OPEN = r"""
def tls(s):
    return lax().wrap_socket(s, server_hostname="ok.example.com")
def ws(s):
    s.sendall(b"GET /ws HTTP/1.1\r\nHost: ok.example.com\r\nConnection: Upgrade\r\n"
              b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
    head(s)
    return s
def hang(s):
    s.sendall(get(HONEST, b"/hang"))
    return s
def echo(s):
    s.sendall(b"x")
    s.recv(1)
    return s
def to(host, port):
    return socket.create_connection((host, port))
conns = {"WebSocket": ws(to("ok.example.com", 80)), "WebSocket in TLS": ws(tls(to("ok.example.com", 443))),
         "answer that does not come": hang(to("ok.example.com", 80)),
         "in TLS": hang(tls(to("ok.example.com", 443))), "raw": echo(to("ok.example.com", 7)), "CONNECT": echo(open_connect(HONEST, 7)),
         "SOCKS": echo(open_socks(HONEST, 7)), "idle": to("ok.example.com", 7), "idle HTTP": to("ok.example.com", 80)}
stays = echo(to("other.example.com", 7))
print("open", flush=True)
sys.stdin.readline()
found = {name: "ended" if not (left := refusable(lambda: s.recv(1))()) or left.startswith(b"refused") else "alive" for name, s in conns.items()}
stays.sendall(b"y")
found["other"] = stays.recv(1)
found["new"] = by_dns(HONEST)
shown(found)
"""


@pytest.mark.parametrize("inspect", [False, True], ids=["spliced", "looked into"])
def test_rules_that_change_end_connections(net, inspect):
    """Claim: when a rule is taken away, tunnels, WebSockets and answers that are under way end at once; others stay (67)."""
    stay = {"action": "allow", "host": "other.example.com"}
    net.rules({"action": "allow", "host": "ok.example.com", "inspect": inspect, "ports": [443]}, {"action": "allow", "host": "ok.example.com"}, stay)
    with conversation(net, OPEN) as a:
        assert a.line() == "open"
        net.rules(stay)
        found = json.loads(a.say("changed"))
    assert found.pop("other") == "y" and " 200 " not in found.pop("new"), found
    assert set(found.values()) == {"ended"}, found


# The certificate authority

SEARCH = """
for line in sys.stdin:
    needle = line.strip().encode()
    if line.startswith("http"):
        print("200" if b" 200 " in https(socket.create_connection(("ok.example.com", 443)), "ok.example.com", HONEST) else "no", flush=True)
        continue
    found = []
    def look(path):
        try:
            with open(path, "rb", opener=lambda p, f: os.open(p, f | os.O_NONBLOCK)) as f:
                if needle in f.read(4000000):
                    found.append(path)
        except OSError:
            pass
    for top in ("/etc", "/run", "/tmp", "/var", "/root", "/home", "/dev/shm", os.environ["HOME"], os.getcwd(),
                os.path.dirname(os.environ["SSL_CERT_FILE"])):
        for folder, _, files in os.walk(top):
            for name in files:
                look(os.path.join(folder, name))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline", "maps"):
            look(f"/proc/{pid}/{name}")
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.path.isfile(f"/proc/{pid}/fd/{fd}"):
                    look(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass
    print(json.dumps(sorted(set(found))), flush=True)
"""


def taken(net):
    return sorted((net.runner.home / ".local" / "state" / "bawn" / "ca").glob("taken-*"))


def test_ca_key_is_not_inside(net):
    """Claim: the key that signs for every host is in no file, variable or descriptor of the sandbox, and in no process it can see (68)."""
    net.rules(LOOK)
    with conversation(net, SEARCH) as a:
        assert a.say("https") == "200"
        [folder] = taken(net)
        key = (folder / "key.pem").read_text().splitlines()
        assert "PRIVATE KEY" in key[0] and stat.S_IMODE((folder / "key.pem").stat().st_mode) == 0o600
        certificate = (folder / "ca.pem").read_text().splitlines()
        assert a.say(key[1]) == "[]"
        assert a.say(certificate[1]) != "[]", "the search finds what is there"
        planted = net.runner.write("planted", key[1])
        assert a.say(key[1]) == f'["{planted}"]'
        helpers = a.children()
        assert {"bawn-gate", "bawn-broker"} <= set(helpers)
        gate = pathlib.Path(f"/proc/{helpers['bawn-gate']}")
        assert key[1].encode() not in (gate / "environ").read_bytes() + (gate / "cmdline").read_bytes()
        secret = base64.b64decode("".join(key[1:-1]))[36:68]  # PKCS #8 of a P-256 key; OpenSSL keeps it as a number, the low byte first
        has = {name: secret in found or secret[::-1] in found for name in ("bawn-gate", "bawn-broker") if (found := memory(helpers[name]))}
        assert has == {"bawn-gate": False, "bawn-broker": True}
    assert taken(net) == [], "a key that signed something is gone with its sandbox"


def memory(pid):
    """All that a process has written, as root can read it."""
    out = b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            area, mode = line.split()[:2]
            first, last = (int(part, 16) for part in area.split("-"))
            if mode.startswith("rw") and "[v" not in line:
                with contextlib.suppress(OSError, ValueError):
                    mem.seek(first)
                    out += mem.read(last - first)
    return out


def test_every_sandbox_has_its_own_ca(net):
    """Claim: two sandboxes at once have two authorities, and neither trusts the other's (68)."""
    net.rules(LOOK)
    with conversation(net, SEARCH) as a, conversation(net, SEARCH) as b:
        assert a.say("https") == "200" and b.say("https") == "200"
        folders = taken(net)
        assert len(folders) == 2
        keys, certificates = ([(f / name).read_text().splitlines() for f in folders] for name in ("key.pem", "ca.pem"))
        assert keys[0] != keys[1] and certificates[0] != certificates[1]
        middle = [lines[4] for lines in certificates]
        assert middle[0] != middle[1]
        trusts = [["[]" != sandbox.say(line) for line in middle] for sandbox in (a, b)]
        assert sorted(trusts) == [[False, True], [True, False]]


# The gate itself

def test_killed_gate(net):
    """Claim: when the gate is killed the sandbox lives, and its next connection has a gate again, under the same rules (66)."""
    with conversation(net, ASK, allow=["ok.example.com"]) as a:
        assert a.say("http ok.example.com") == "yes"
        for _ in range(3):
            gate = a.children()["bawn-gate"]
            os.kill(gate, signal.SIGKILL)
            while a.children().get("bawn-gate") == gate:
                time.sleep(0.01)
            assert a.say("http ok.example.com") == "yes"
            assert a.say("http evil.example.net") != "yes"
            assert a.children()["bawn-gate"] != gate
    assert {h["to"] for h in net.hits()} == {"11.0.0.10"}


def test_audited_after_a_killed_gate(net):
    """Claim: each connection is in the audit log, also of a gate that numbers its connections as the one before did."""
    with conversation(net, ASK, allow=["ok.example.com"]) as a:
        for i in range(2):
            assert a.say("http ok.example.com") == "yes"
            until(lambda i=i: len([e for e in net.log() if e["kind"] == "request"]) > i)
            gate = a.children()["bawn-gate"]
            os.kill(gate, signal.SIGKILL)
            while a.children().get("bawn-gate") == gate:
                time.sleep(0.01)
    lines = [json.loads(line) for line in net.bawn("log", "--json", "--type", "network").out.decode().splitlines()]
    assert [(e["host"], e["action"]) for e in lines] == 2 * [("ok.example.com", "allow")]


def test_killed_gate_closes_what_it_had(net):
    """Claim: no connection outlives the gate unwatched (66, 67)."""
    with conversation(net, """
s = socket.create_connection(("ok.example.com", 7))
s.sendall(b"x")
print(s.recv(1), flush=True)
sys.stdin.readline()
print(refusable(lambda: s.recv(1))(), flush=True)
""", allow=["ok.example.com"]) as a:
        assert a.line() == "b'x'"
        os.kill(a.children()["bawn-gate"], signal.SIGKILL)
        assert a.say("killed") in ("b''", "b'refused: ConnectionResetError [Errno 104] Connection reset by peer'")


def status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


@pytest.mark.parametrize("helper", ["bawn-gate", "bawn-broker"])
def test_jail_of_the_helpers(net, helper):
    """Claim: who reads hostile bytes has no capability, no file, no way to new privileges, a filter, and shows its memory to nobody (66, 68)."""
    net.rules(LOOK)
    with conversation(net, ASK) as a:
        assert a.say("https ok.example.com") == "yes"
        pid = a.children()[helper]
        found = status(pid)
        assert found["Seccomp"] == "2" and found["NoNewPrivs"] == "1", found
        assert {found[f"Cap{kind}"].strip("0") for kind in ("Inh", "Prm", "Eff", "Amb")} == {""}, found
        assert found["Threads"] == "1"
        uids = {int(uid) for uid in found["Uid"].split()}
        assert 0 not in uids and (net.runner.is_root or uids == {net.runner.user.pw_uid}), found
        assert os.stat(f"/proc/{pid}/mem").st_uid == 0, "it can be dumped"
        files = {link for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()
                 if (link := os.readlink(fd)) and not re.match(r"(socket|pipe|anon_inode):", link)}
        assert files <= {"/dev/null"}, files
        if not net.runner.is_root:
            spies = [f"cat /proc/{pid}/{name}" for name in ("environ", "mem", "maps", "fd/0", "auxv")] + [f"ls /proc/{pid}/fd"]
            assert [spy for spy in spies if net.outside("sh", "-c", f"{spy} >/dev/null 2>&1").rc == 0] == []


def test_helpers_end_with_the_sandbox(net):
    """Claim: no gate and no broker outlives its sandbox, not even one that is killed."""
    net.rules(LOOK)
    with contextlib.suppress(AssertionError), conversation(net, ASK) as a:
        assert a.say("https ok.example.com") == "yes"
        helpers = a.children()
        os.kill(a.pid, signal.SIGKILL)
    assert {"bawn-gate", "bawn-broker"} <= set(helpers)
    while any(pathlib.Path(f"/proc/{pid}").exists() and status(pid)["State"][0] != "Z" for pid in helpers.values()):
        time.sleep(0.01)
