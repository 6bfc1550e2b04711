# SPDX-License-Identifier: Apache-2.0
"""The stage of the tests of credentials at bawn-gate: authorities, a broker and web servers that are played, and clients."""

import base64
import json
import ssl

import h2.config
import h2.connection
import h2.events
import pytest

from gate_broker import Authority, Broker
from gate_driver import Gate, Server, grant, outer_network

REAL = b"real-value/of+the=key-0123456789"
HOLDER = "sk-test-" + "Qw3rTyUiOpAsDfGhJkLzXcV8"
OTHER = "gh_" + "ZaYbXcWdVeUfTgShRiQjPk42"
A = {"id": "a", "action": "allow", "host": ["a.test", "b.test"], "allow_private": True}
HOSTS = "127.0.0.1 a.test b.test c.test id.test\n"
H = HOLDER.encode()


@pytest.fixture(autouse=True)
def network():
    with outer_network():
        yield


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ca")
    return Authority(folder, "servers"), Authority(folder, "sandbox")


@pytest.fixture
def broker(authorities):
    return Broker(authorities[1], {0: REAL})


class Web:
    """An https (or http) server: keeps every request, answers with what answer(request) gives: bytes, or a list of pieces."""

    def __init__(self, context, answer=None, port=443):
        self.requests, self.answer, self.context = [], answer or (lambda r: reply(b"hi")), context
        self.server = Server(self.one, port=port)

    def one(self, s):
        if self.context:
            s = self.context.wrap_socket(s, server_side=True)
        f = s.makefile("rb")
        while request := read_request(f):
            self.requests.append(request)
            answer = self.answer(request)
            for piece in [answer] if isinstance(answer, bytes) else answer:
                s.sendall(piece)
        s.close()

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *exc):
        self.server.__exit__(*exc)


def read_body(f, fields):
    """None: it ends too early."""
    body = b""
    if fields.get("transfer-encoding") != b"chunked":
        size = int(fields.get("content-length", 0))
        body = f.read(size)
        return body if len(body) == size else None
    while True:
        line = f.readline()
        if not line:
            return None
        body += f.read(int(line, 16))
        if line.strip() == b"0":
            while f.readline() not in (b"\r\n", b""):
                pass
            return body
        f.readline()


def read_head(f):
    line, headers = f.readline(), []
    while (h := f.readline().rstrip(b"\r\n")):
        name, value = h.split(b":", 1)
        headers.append((name.decode().lower(), value.strip()))
    return line.rstrip(b"\r\n"), headers


def read_request(f):
    line, headers = read_head(f)
    body = read_body(f, dict(headers)) if line else None
    return body is not None and {"line": line, "headers": headers, "fields": dict(headers), "body": body}


def reply(body, *headers, status=b"200 OK"):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n" % (status, len(body)) + b"".join(h + b"\r\n" for h in headers) + b"\r\n" + body


def chunked(*pieces, headers=()):
    """Each piece in a chunk of its own, each chunk in a write of its own."""
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + b"".join(h + b"\r\n" for h in headers) + b"\r\n"
    for p in pieces:
        yield b"%x\r\n%s\r\n" % (len(p), p)
    yield b"0\r\n\r\n"


@pytest.fixture
def web(authorities):
    with Web(authorities[0].server_context("a.test", "b.test", "c.test", "id.test")) as w:
        yield w


def gate(authorities, broker, *rules, grants=None, **kw):
    if grants is None:
        grants = [grant("key", ["a.test"], HOLDER)]
    return Gate(rules=rules or [A], hosts=HOSTS, grants=grants, broker=broker.connect, trust=authorities[0].bundle, **kw)


@pytest.fixture
def inside(authorities, broker):
    with gate(authorities, broker) as g:
        g.ca = authorities[1]
        yield g


def tls(g, ca, host="a.test", port=443, alpn=None):
    context = ssl.create_default_context(cafile=ca.bundle)
    if alpn:
        context.set_alpn_protocols(alpn)
    return context.wrap_socket(g.connect(host, port), server_hostname=host)


def request(method=b"GET", target=b"/", *headers, body=None, host=b"a.test"):
    out = method + b" " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + b"".join(h + b"\r\n" for h in headers)
    return out + (b"\r\n" if body is None else b"Content-Length: %d\r\n\r\n" % len(body) + body)


def read_answer(s):
    f = s.makefile("rb")
    line, headers = read_head(f)
    return int(line.split()[1]), dict(headers), read_body(f, dict(headers))


def ask(s, *args, **kw):
    s.sendall(request(*args, **kw))
    return read_answer(s)


def code(answer):
    return answer[1]["bawn-code"].decode()


FORMS = [REAL, base64.b64encode(REAL).rstrip(b"="), REAL.hex().encode(), REAL.hex().upper().encode(), REAL[::-1],
         b"real-value%2Fof%2Bthe%3Dkey-0123456789"]


def leaks(data):
    return [f for f in FORMS if f in data]


def h2_serve(s, seen, answer):
    conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
    conn.initiate_connection()
    s.sendall(conn.data_to_send())
    heads, bodies = {}, {}
    while data := s.recv(65536):
        for e in conn.receive_data(data):
            if isinstance(e, h2.events.RequestReceived):
                heads[e.stream_id] = e.headers
            elif isinstance(e, h2.events.DataReceived):
                bodies[e.stream_id] = bodies.get(e.stream_id, b"") + e.data
                conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
            elif isinstance(e, h2.events.StreamEnded):
                seen.append((heads[e.stream_id], bodies.get(e.stream_id, b"")))
                conn.send_headers(e.stream_id, [(":status", "200"), ("x-echo", dict(heads[e.stream_id]).get("x-api-key", ""))])
                for piece in answer[:-1]:
                    conn.send_data(e.stream_id, piece)
                conn.send_data(e.stream_id, answer[-1], end_stream=True)
        s.sendall(conn.data_to_send())


class H2Client:
    def __init__(self, s):
        self.s = s
        self.conn = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.conn.initiate_connection()

    def ask(self, headers, body=()):
        id = self.conn.get_next_available_stream_id()
        self.conn.send_headers(id, [(":method", "POST" if body else "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/"),
                                    *headers], end_stream=not body)
        for i, piece in enumerate(body):
            self.conn.send_data(id, piece, end_stream=i == len(body) - 1)
        head, out = None, b""
        while True:
            self.s.sendall(self.conn.data_to_send())
            for e in self.conn.receive_data(self.s.recv(65536)):
                if isinstance(e, h2.events.ResponseReceived):
                    head = dict(e.headers)
                elif isinstance(e, h2.events.DataReceived):
                    out += e.data
                    self.conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                elif isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
                    return int(head[":status"]), head, out
