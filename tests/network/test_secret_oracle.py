# SPDX-License-Identifier: Apache-2.0
"""Covering a value must not tell it: what a client sees of an answer, but for the stars, is the same for right and wrong guesses (ATTACKS 55).

Who can place text in an answer (an echo, a search, an error page) could otherwise guess the value letter by letter.
"""

import json

import pytest

import secret_echo
import secret_tools
from attack_tools import inside, outside

REAL = "sk-test-Zq9/x+7secretABCDEF0123456789=="
H1, H2 = "11.0.0.34", "11.0.0.35"
KEY = secret_echo.key(REAL)
HOSTS = ["echo.example.com", "echo2.example.com"]


@pytest.fixture(scope="module")
def server(inter_net):
    tls = f"{inter_net.folder}/cert.pem:{inter_net.folder}/key.pem"
    s = secret_echo.Server(inter_net, f"{H1}:443:{tls}", f"{H1}:80", f"{H1}:8080", f"{H1}:8443:{tls}", f"{H2}:443:{tls}:h2", name="oracle")
    yield s
    s.end()


@pytest.fixture
def echo(net, server):
    return server.prepare(net, KEY, {"echo.example.com": [H1], "echo2.example.com": [H2]})


CLIENT = r'''
import threading, urllib.parse

class Watched:
    """A TLS connection whose records are seen as somebody on the wire sees them."""
    def __init__(self, host, alpn):
        self.raw, self.inc, self.out, self.bytes, self.sizes, self.plain = socket.create_connection((host, 443)), ssl.MemoryBIO(), ssl.MemoryBIO(), b"", [], b""
        context = lax()
        context.set_alpn_protocols([alpn])
        self.tls = context.wrap_bio(self.inc, self.out, server_hostname=host)
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.flush()
                self.inc.write(self.raw.recv(65536))
        self.flush()

    def flush(self):
        self.raw.sendall(self.out.read())

    def send(self, data):
        if data:
            self.tls.write(data)
        self.flush()

    def take(self):
        """More bytes; False at the end."""
        data = self.raw.recv(65536)
        self.bytes += data
        while len(self.bytes) >= 5 and len(self.bytes) >= 5 + int.from_bytes(self.bytes[3:5], "big"):
            n = int.from_bytes(self.bytes[3:5], "big")
            self.sizes.append(n)
            self.bytes = self.bytes[5 + n:]
        self.inc.write(data)
        new = b""
        try:
            while data and (more := self.tls.read(65536)):
                new += more
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        self.plain += new
        return new if data else None

def h1(how, text):
    s = Watched("echo.example.com", "http/1.1")
    more = "Connection: Upgrade\r\nUpgrade: websocket\r\n" if how == "websocket" else ""
    s.send(("GET /say/%s?%s HTTP/1.1\r\nHost: echo.example.com\r\n%s\r\n" % (how, urllib.parse.quote(text, safe=""), more)).encode())
    if how == "websocket":
        return websocket(s, text.encode())
    while b";end" not in s.plain and s.take() is not None:
        pass
    assert b";end" in s.plain, s.plain
    return s

def websocket(s, text):
    def frame(data):
        return bytes([0x81, 0x80 | len(data), 0, 0, 0, 0]) + data
    while b"\r\n\r\n" not in s.plain:
        s.take()
    head = len(s.plain)
    s.raw.settimeout(5)
    s.send(frame(text))
    try:
        while len(s.plain) < head + 2 + len(text):
            assert s.take() is not None, s.plain
    except TimeoutError:
        s.sizes.append("nothing came for a while")
    s.send(frame(b";end"))
    while b";end" not in s.plain:
        assert s.take() is not None, s.plain
    return s

def h2(how, text):
    import h2.config, h2.connection, h2.events
    s = Watched("echo2.example.com", "h2")
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
    c.initiate_connection()
    s.send(c.data_to_send())
    known = set()
    while not {"SettingsAcknowledged", "RemoteSettingsChanged"} <= known:  # what is agreed on first may come in any pieces
        known |= {type(e).__name__ for e in c.receive_data(s.take())}
        s.send(c.data_to_send())
    s.sizes.clear()
    path = "/say/%s?%s" % (how, urllib.parse.quote(text, safe=""))
    c.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", "echo2.example.com"), (":path", path)], end_stream=True)
    s.send(c.data_to_send())
    while True:
        data = s.take()
        for e in c.receive_data(data):
            if isinstance(e, h2.events.DataReceived):
                s.sizes.append(["DATA", len(e.data)])
            if isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
                assert isinstance(e, h2.events.StreamEnded)
                return s
        s.send(c.data_to_send())

def watch(tries):
    found = {}
    def one(name, version, how, text):
        found[name] = (h2 if version == "h2" else h1)(how, text).sizes
    threads = [threading.Thread(target=one, args=t) for t in tries]
    [t.start() for t in threads]
    [t.join() for t in threads]
    shown(found)
'''

WAYS = [("h1", "text"), ("h1", "length"), ("h1", "event-stream"), ("h1", "websocket"), ("h2", "text"), ("h2", "event-stream")]
PLACES = [1, 3, 8, 12, 20, len(REAL) - 2, len(REAL) - 1]


def guesses(place):
    return {"right": REAL[:place + 1], "wrong": REAL[:place] + "#", "far": "#" * (place + 1)}


def test_sizes_say_nothing(net, echo):
    """Claim: records, chunks, DATA frames and messages have the same sizes, in the same order, for every guess."""
    tries = [(f"{version} {how} {place} {kind}", version, how, text) for version, how in WAYS for place in PLACES for kind, text in guesses(place).items()]
    found = inside(net, CLIENT + f"watch({tries!r})", allow=HOSTS)
    assert len(found) == len(tries)
    for version, how in WAYS:
        for place in PLACES:
            seen = {kind: found[f"{version} {how} {place} {kind}"] for kind in guesses(place)}
            assert seen["right"] == seen["wrong"] == seen["far"], (version, how, place, seen)


LAST = r'''
def get(port, path, *fields, host="echo.example.com"):
    s = socket.create_connection((host, port))
    if port in (443, 8443):
        s = lax().wrap_socket(s, server_hostname=host)
    authority = host if port in (80, 443) else host + ":%d" % port
    return talk(s, "\r\n".join(["GET %s HTTP/1.1" % path, "Host: " + authority, *fields, "Connection: close", "", ""]).encode()).decode("latin-1")
'''


@pytest.mark.parametrize("inject", ["always", "placeholder"])
def test_every_answer_of_the_host(net, echo, inject):
    """Claim: a page that shows the key of an earlier request is covered on every port, also where the request got no credential."""
    secret_tools.define(net, "key", **KEY, inject=inject)
    ports = (443, 8443, 80, 8080)
    script = LAST + f"""
first = get(443, "/", *KEY)
shown({{"first": first, **{{str(p): get(p, "/last") for p in {ports}}}}})"""
    without = json.loads(outside(net, f"KEY = ['x-api-key: {REAL}']" + script).out)
    assert all(REAL in without[str(p)] for p in ports), without
    found = inside(net, "KEY = ['x-api-key: ' + os.environ['API_KEY']]" + script, allow=[f"echo.example.com:{p}" for p in ports])
    for name, text in found.items():
        assert REAL not in text and "*" * len(REAL) in text and text.startswith("HTTP/1.1 200 "), (name, text)
    keys = [seen["port"] for seen in echo.seen()[-5:] if REAL in seen["text"]]
    assert keys == ([443, 443] if inject == "always" else [443])


def test_other_protocols_on_the_host(net, echo):
    """Claim: what is neither HTTP nor TLS still goes through on other ports of such a host, also where the server has the first word."""
    net.server("/usr/bin/python3", "-c", f"""
import socket
l = socket.create_server(({H1!r}, 2222))
while True:
    s = l.accept()[0]
    try:
        s.sendall(b'SSH-2.0-x\\r\\n')
        s.sendall(s.recv(100).upper())
        s.close()
    except OSError:
        pass
""", ready=(H1, 2222))
    script = LAST + """
s = socket.create_connection(("echo.example.com", 2222))
hello = s.recv(9)
shown({"hello": hello.decode(), "answer": talk(s, b"ssh-2.0-me\\r\\n").decode()})"""
    assert inside(net, script, allow=["echo.example.com:2222"]) == {"hello": "SSH-2.0-x", "answer": "\r\nSSH-2.0-ME\r\n"}


def test_without_the_value(net, echo):
    """Claim: while the value cannot be had, nothing of the host is shown that could have it, and the answer says why."""
    secret_tools.define(net, "key", **{**KEY, "command": ["false"]}, inject="placeholder")
    echo.forget()
    found = inside(net, LAST + "shown({str(p): get(p, '/last') for p in (443, 80)})", allow=["echo.example.com:443", "echo.example.com:80"])
    assert all("BAWN_NET_SECRET_UNAVAILABLE" in text and "can be covered" in text for text in found.values()), found
    assert echo.seen() == []


def test_range(net, echo):
    """Claim: a value cannot be cut by asking for parts of a page (20)."""
    script = LAST + "shown({'first': get(443, '/', 'Range: bytes=0-15', 'If-Range: \"x\"', *KEY), 'rest': get(443, '/', 'Range: bytes=16-99', *KEY)})"
    without = json.loads(outside(net, f"KEY = ['x-api-key: {REAL}']" + script).out)
    assert without["first"].endswith(REAL[:16]) and without["rest"].endswith(REAL[16:])
    echo.forget()
    found = inside(net, "KEY = []" + script, allow=HOSTS)
    assert all(text.endswith("\r\n\r\n" + "*" * len(REAL)) for text in found.values()), found
    assert all("range" not in seen["text"].lower() for seen in echo.seen())
