# SPDX-License-Identifier: Apache-2.0
"""bawn-gate alone, with a supervisor played by gate_driver: what it lets through, what it refuses and how, and its jail."""

import hashlib
import json
import os
import pathlib
import pwd
import socket
import ssl
import struct
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gate_driver import ALWAYS, CANCEL, DENY, ONCE, Gate, Server, echo, outer_network, read_all  # noqa: E402

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

A = {"id": "a", "action": "allow", "host": "a.test", "allow_private": True}
HOSTS = "127.0.0.1 a.test b.test\n::1 six.test\n192.0.2.9 own.test\n"


@pytest.fixture(autouse=True)
def network():
    with outer_network(["192.0.2.9/32"]):
        yield


@pytest.fixture
def server():
    with Server(echo) as s:
        yield s


def gate(*rules, **kw):
    return Gate(rules=rules or [A], hosts=HOSTS, **kw)


def is_reset(s):
    try:
        return s.recv(1) is None
    except ConnectionResetError:
        return True


def is_reset_at(g, host, port):
    """A refusal may come before the client has noticed that it is connected."""
    try:
        with g.connect(host, port) as s:
            return is_reset(s)
    except ConnectionResetError:
        return True


def hello(name=None):
    """A real ClientHello."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    inc, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(inc, out, server_hostname=name).do_handshake()
    return out.read()


def alert(code):
    return bytes([21, 3, 3, 0, 2, 2, code])


def http_server(body=b"hi"):
    def handle(s):
        data = b""
        while b"\r\n\r\n" not in data:
            more = s.recv(65536)
            if not more:
                return
            data += more
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
    return handle


def status(answer):
    return int(answer.split(b" ", 2)[1])


# --- letting through ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [None, "bawn-test"])
def test_name_is_relayed_and_logged(server, user):
    with gate(user=user and pwd.getpwnam(user)) as g:
        with g.connect("a.test", server.port) as s:
            s.sendall(b"hello")
            assert s.recv(10) == b"hello"
            s.shutdown(socket.SHUT_WR)
            assert s.recv(10) == b""
        (verdict,) = g.events(kind="connection")
        assert (verdict["action"], verdict["rule"], verdict["layer"]) == ("allow", "a", "user")
        assert (verdict["host"], verdict["port"], verdict["address"]) == ("a.test", server.port, "127.0.0.1")
        (end,) = g.events(kind="end")
        assert (end["sent"], end["received"], end["flow"]) == (5, 5, verdict["flow"])


def test_ipv6(server):
    with Server(echo, "::1") as six, gate(A | {"host": "six.test"}) as g:
        with g.connect(g.lookup("six.test", 28), six.port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        assert g.events(kind="connection")[0]["address"] == "::1"


def test_bulk_both_ways_arrives_whole():
    size = 30 << 20
    data = os.urandom(1 << 20) * 30

    def both(s):
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        got.append(read_all(s))
        sender.join()
        done.release()

    got, done = [], threading.Semaphore(0)
    with Server(both) as srv, gate() as g, g.connect("a.test", srv.port) as s:
        both(s)
        assert done.acquire() and done.acquire()
        (end,) = g.events(kind="end")
        assert got[0] == data and got[1] == data
        assert (end["sent"], end["received"]) == (size, size)


@pytest.mark.no_sanitizer
def test_slow_reader_holds_the_sender_back():
    def flood(s):
        s.recv(2)
        s.setblocking(False)
        n = 0
        try:
            while True:
                n += s.send(bytes(65536))
        except BlockingIOError:
            sent.append(n)
        done.wait()
        s.setblocking(True)

    sent, done = [], threading.Event()
    with Server(flood) as srv, gate() as g, g.connect("a.test", srv.port) as s:
        s.sendall(b"go")
        before = int(g.status("VmRSS")[0])
        while not sent:
            pass
        assert int(g.status("VmRSS")[0]) - before < 4096
        done.set()
        got = 0
        while got < sent[0]:
            got += len(s.recv(1 << 20))


def test_half_close_waits_for_the_answer():
    def answer(s):
        s.sendall(str(len(read_all(s))).encode())

    with Server(answer) as srv, gate() as g, g.connect("a.test", srv.port) as s:
        s.sendall(bytes(200000))
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"200000"


def test_reset_is_carried_over():
    def reset(s):
        s.recv(1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    with Server(reset) as srv, gate() as g, g.connect("a.test", srv.port) as s:
        s.sendall(b"x")
        assert is_reset(s)


def test_server_that_speaks_first():
    with Server(lambda s: s.sendall(b"220 hello\r\n") or s.recv(1)) as srv, gate() as g, g.connect("a.test", srv.port) as s:
        assert s.recv(100) == b"220 hello\r\n"


def test_many_at_once(server):
    with gate() as g:
        socks = [g.connect("a.test", server.port) for _ in range(300)]
        for i, s in enumerate(socks):
            s.sendall(b"%d" % i)
        for i, s in enumerate(socks):
            assert s.recv(10) == b"%d" % i
            s.close()
        flows = [m["flow"] for m in g.events(300, kind="connection")]
        assert len(set(flows)) == 300 == len(flows)
        assert sorted(m["flow"] for m in g.events(300, kind="end")) == sorted(flows)


def test_over_the_limit_waits_its_turn(server):
    with gate(max_flows=64) as g:
        socks = [g.connect("a.test", server.port) for _ in range(80)]
        for s in socks:
            s.sendall(b"x")
        for s in socks[:64]:
            assert s.recv(1) == b"x"
            s.close()
        for s in socks[64:]:
            assert s.recv(1) == b"x"


@pytest.mark.no_sanitizer
def test_descriptors_and_memory_do_not_grow(server):
    def rounds(n):
        for _ in range(n):
            with g.connect(address, server.port) as s:
                s.sendall(b"x")
                s.recv(1)
        g.events(seen + n, kind="end")
        return len(os.listdir(f"/proc/{g.pid}/fd"))

    with gate() as g:
        address, seen = g.lookup("a.test"), 0
        first, seen = rounds(50), 50
        rss = int(g.status("VmRSS")[0])
        assert rounds(500) == first
        assert int(g.status("VmRSS")[0]) - rss < 1024


# --- refusing ------------------------------------------------------------------------------------------------------------------


def test_address_that_was_not_handed_out(server):
    with gate() as g:
        for address in ("198.18.77.7", "203.0.113.5", "fd62:6177:6e00::9", "2001:db8::5"):
            assert is_reset_at(g, address, server.port)
            assert g.events(kind="connection", host=address)[0]["code"] == "NOT_HANDED_OUT"
        assert server.accepted == 0


def test_denied_speaks_the_clients_protocol(server):
    with gate(A, {"id": "no", "action": "deny", "host": "198.51.100.0/24"}) as g:
        with g.connect("198.51.100.1", 8080) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n")
            head, body = read_all(s).split(b"\r\n\r\n", 1)
            assert status(head) == 403
            assert json.loads(body)["error"]["code"] == "BAWN_NET_DENIED_ADDRESS"
            assert json.loads(body)["error"]["rule"] == "no"
        with g.connect("198.51.100.1", 443) as s:
            s.sendall(hello("x.test"))
            assert read_all(s) == alert(49)
        with g.connect("198.51.100.1", 22) as s:
            assert read_all(s).startswith(b"Bawn denied 198.51.100.1:22 (rule 'no' denies it), see http://bawn.internal/why\r\nSSH-2.0-Bawn\r\n")
        assert is_reset_at(g, "198.51.100.1", 5001)  # a silent client, too
        assert len(g.events(4, kind="connection", action="deny")) == 4


def test_text_for_people(server):
    with gate() as g, g.connect("198.51.100.1", 80) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAccept: text/html,*/*\r\n\r\n")
        assert b"text/plain" in read_all(s)


@pytest.mark.parametrize("port", [443, 8443])
def test_tls_name_must_be_the_name(port):
    with Server(lambda s: s.sendall(b"reached" if s.recv(9999)[:3] == b"\x16\x03\x01" else b"?"), port=port), gate() as g:
        for first, answer in ((hello("a.test"), b"reached"), (hello("A.TEST"), b"reached"), (hello(), b"reached"),
                              (hello("b.test"), alert(112)), (hello("a.test.evil.test"), alert(112))):
            for cut in (len(first), 1, 7, 60):  # in pieces, too
                with g.connect("a.test", port) as s:
                    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    s.sendall(first[:cut])
                    s.sendall(first[cut:])
                    s.settimeout(30)
                    assert s.recv(7) == answer
        assert len(g.events(8, kind="connection", code="NAME_MISMATCH")) == 8


RETRY_BODY = b"\3\3" + hashlib.sha256(b"HelloRetryRequest").digest() + bytes.fromhex("00130100000c002b0002030400330002 0018")
RETRY = b"\x16\3\3" + struct.pack("!HI", len(RETRY_BODY) + 4, 2 << 24 | len(RETRY_BODY)) + RETRY_BODY


def retrying(seen):
    """A server that asks for a second hello, and says which one it got."""
    def serve(s):
        first = s.recv(9999)
        s.sendall(RETRY)
        second = b""
        while len(second) < seen["len"] and (more := s.recv(9999)):
            second += more
        seen["got"].append(second)
        s.sendall(b"reached")
        while s.recv(9999):
            pass
        assert first
    return serve


@pytest.mark.parametrize("port", [443, 8443])
@pytest.mark.parametrize("cut", [9999, 1, 60])
def test_second_hello_must_name_the_same_host(port, cut):
    """Claim: after a HelloRetryRequest the second ClientHello, which is the one that counts, names no other host (issue 13, 20)."""
    change = b"\x14\x03\x03\0\x01\x01"
    for second, fine in ((hello("a.test"), True), (hello(), True), (change + hello("a.test"), True), (hello("b.test"), False), (change + hello("b.test"), False)):
        seen = {"len": len(second), "got": []}
        with Server(retrying(seen), port=port), gate() as g, g.connect("a.test", port) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.settimeout(60)
            s.sendall(hello("a.test"))
            assert s.recv(len(RETRY), socket.MSG_WAITALL) == RETRY
            try:
                for at in range(0, len(second), cut):
                    s.sendall(second[at:at + cut])
                answer = s.recv(7)
            except (ConnectionResetError, BrokenPipeError):
                answer = b""
            if fine:
                assert answer == b"reached" and seen["got"] == [second]
            else:
                assert answer != b"reached"
                assert g.events(kind="connection", code="NAME_MISMATCH")
                assert all(len(got) < len(second) for got in seen["got"]), "the server never has all of it"


def test_second_hello_before_it_is_asked_for():
    """Claim: a client that knows what the server will ask cannot send its second hello along with the first."""
    first, second = hello("a.test"), hello("b.test")
    got = []

    def serve(s):
        data = b""
        try:
            while len(data) < len(first) + len(second) and (more := s.recv(9999)):
                data += more
        except ConnectionResetError:
            pass
        got.append(len(data))
    with Server(serve, port=443), gate() as g, g.connect("a.test", 443) as s:
        s.sendall(first + second)
        s.settimeout(60)
        try:
            assert s.recv(7)[:1] in (b"", b"\x15")
        except ConnectionResetError:
            pass
        assert g.events(kind="connection", code="NOT_TLS")
    assert all(n < len(first) + len(second) for n in got)


def test_retry_of_real_tls(tmp_path):
    """The harmless twin: a real handshake with a HelloRetryRequest goes through."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-subj", "/CN=a.test"],
                   check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_ecdh_curve("secp384r1")  # the client's first guess is another one

    def serve(s):
        with context.wrap_socket(s, server_side=True) as t:
            t.sendall(b"hi " + t.recv(100))
    with Server(serve, port=443), gate() as g, g.connect("a.test", 443) as s:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        with client.wrap_socket(s, server_hostname="a.test") as t:
            t.sendall(b"there")
            assert t.recv(100) == b"hi there"


def test_tls_by_address_has_no_name():
    with Server(lambda s: s.recv(9999) and s.sendall(b"reached"), port=443), gate({"action": "allow", "host": "127.0.0.1"}) as g:
        # 127.0.0.1 cannot be dialled from inside, but through the entry it can
        for name, want in ((None, b"reached"), ("b.test", alert(112))):
            with g.connect("127.0.0.1", 15001) as s:
                s.sendall(b"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n")
                assert s.recv(100).startswith(b"HTTP/1.1 200 ")
                s.sendall(hello(name))
                assert s.recv(7) == want


def test_no_tls_on_443(server):
    with Server(echo, port=443) as tls, gate() as g:
        with g.connect("a.test", 443) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert status(read_all(s)) == 400
        with g.connect("a.test", 443) as s:
            s.sendall(b"SSH-2.0-x\r\n")
            assert read_all(s).startswith(b"Bawn denied a.test:443 ")
        assert len(g.events(2, kind="connection", code="NOT_TLS")) == 2
        assert tls.accepted == 0


def test_unfinished_hello_and_silence_hold_nothing_up(server):
    with gate() as g:
        stuck = [g.connect("a.test", 443) for _ in range(50)]
        for s in stuck:
            s.sendall(hello("a.test")[:100])
        with g.connect("a.test", server.port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"


def test_private_address_behind_an_allowed_name(server):
    rule = {"id": "a", "action": "allow", "host": "a.test"}
    with gate(rule, rule | {"id": "own", "host": "own.test", "allow_private": False}) as g:
        for name, port in (("a.test", server.port), ("own.test", 8080)):
            with g.connect(name, port) as s:
                s.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert status(read_all(s)) == 403
            assert g.events(kind="connection", host=name)[0]["code"] == "DENIED_ADDRESS"
        assert server.accepted == 0


def test_own_address_has_to_be_named_exactly():
    with Server(echo, "192.0.2.9") as srv:
        for host, works in (("*.test", False), ("own.test", True)):
            with gate({"action": "allow", "host": host, "allow_private": True}) as g, g.connect("own.test", srv.port) as s:
                s.sendall(b"GET /")
                assert (s.recv(5) == b"GET /") is works


def test_name_without_address():
    with gate({"action": "allow", "host": "nowhere.test"}, resolv="") as g:
        with g.connect("nowhere.test", 8080) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert status(read_all(s)) == 502
        assert g.events(kind="connection")[0]["code"] == "NO_ADDRESS"


def test_nobody_listens_there():
    with gate() as g:
        assert is_reset_at(g, "a.test", 9)
        assert "refused" in g.events(kind="trouble")[0]["path"]


# --- HTTP that is looked into ------------------------------------------------------------------------------------------------


def test_port_80_is_judged_by_request():
    rule = A | {"methods": ["GET"], "paths": ["/ok"]}
    with Server(http_server(), port=80), gate(rule) as g:
        for line, want in ((b"GET /ok?x=1", 200), (b"GET /no", 403), (b"POST /ok", 403)):
            with g.connect("a.test", 80) as s:
                s.sendall(line + b" HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                assert status(read_all(s)) == want
        seen = [(m["method"], m["path"], m["action"], m["status"]) for m in g.events(3, kind="request")]
        assert sorted(seen) == [("GET", "/no", "deny", 403), ("GET", "/ok", "allow", 200), ("POST", "/ok", "deny", 403)]
        assert len(g.events(3, kind="end")) == 3
        assert not [m for m in g.seen if m["kind"] == "connection"]


def test_other_host_header():
    with Server(http_server(), port=80), gate() as g, g.connect("a.test", 80) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n")
        assert status(s.recv(4096)) == 421


def test_port_80_wants_http():
    with Server(echo, port=80) as srv, gate() as g, g.connect("a.test", 80) as s:
        s.sendall(b"\x00\x01\x02")
        assert is_reset(s)
        assert g.events(kind="connection")[0]["code"] == "NOT_HTTP"
        assert srv.accepted == 0


# --- the entry ---------------------------------------------------------------------------------------------------------------


def test_connect(server):
    with gate() as g:
        with g.connect("127.0.0.1", 15001) as s:
            s.sendall(b"CONNECT a.test:%d HTTP/1.1\r\nHost: a.test\r\n\r\nearly" % server.port)
            answer = b""
            while not answer.endswith(b"early"):
                assert (more := s.recv(100)), answer
                answer += more
            assert answer.startswith(b"HTTP/1.1 200 ")
        for target, want in ((b"b.test:443", 403), (b"127.0.0.1:%d" % server.port, 403), (b"a.test", 400), (b"198.18.9.9:80", 403),
                             (b"[::1]:80", 403), (b"a.test%%00:80", 400)):
            with g.connect("127.0.0.1", 15001) as s:
                s.sendall(b"CONNECT " + target + b" HTTP/1.1\r\n\r\n")
                assert status(read_all(s)) == want
        assert server.accepted == 1


def test_connect_by_the_address_that_dns_gave(server):
    with gate() as g, g.connect("127.0.0.1", 15001) as s:
        s.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (g.lookup("a.test").encode(), server.port))
        assert s.recv(100).startswith(b"HTTP/1.1 200 ")


def socks(host, port, kind=3):
    body = bytes([len(host)]) + host if kind == 3 else host
    return b"\x05\x01\x00\x05\x01\x00" + bytes([kind]) + body + struct.pack(">H", port)


def test_socks5(server):
    with gate() as g:
        with g.connect("127.0.0.1", 15001) as s:
            s.sendall(socks(b"a.test", server.port) + b"early")
            assert s.recv(2) == b"\x05\x00"
            assert s.recv(10)[:2] == b"\x05\x00"
            assert s.recv(5) == b"early"
        for host in (b"b.test", b"b.test\0.a.test", b"a.test\0"):
            with g.connect("127.0.0.1", 15001) as s:
                s.sendall(socks(host, server.port))
                assert read_all(s)[:4] == b"\x05\x00\x05\x02"
        with g.connect("127.0.0.1", 15001) as s:
            s.sendall(socks(bytes([127, 0, 0, 1]), server.port, kind=1))
            assert read_all(s)[:4] == b"\x05\x00\x05\x02"
        assert server.accepted == 1
        assert len(g.events(2, code="NAME_INVALID")) == 2


def test_absolute_uri():
    with Server(http_server(), port=8080), gate() as g:
        for url, want in ((b"http://a.test:8080/x", 200), (b"http://b.test/", 403), (b"http://a.test@b.test/", 400)):
            with g.connect("127.0.0.1", 15001) as s:
                s.sendall(b"GET " + url + b" HTTP/1.1\r\nHost: a.test:8080\r\n\r\n")
                assert status(read_all(s)) == want
        assert g.events(kind="request", action="allow")[0]["path"] == "/x"


def test_connect_to_443_is_for_tls():
    with Server(echo, port=443), gate() as g, g.connect("127.0.0.1", 15001) as s:
        s.sendall(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 200 ")
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert status(read_all(s)) == 400


# --- asking ------------------------------------------------------------------------------------------------------------------

ASK_A = A | {"action": "ask"}


@pytest.mark.parametrize("answer,works", [(ONCE, True), (ALWAYS, True), (DENY, False)])
def test_ask(server, answer, works):
    with gate(ASK_A, ask=lambda m: answer) as g, g.connect("a.test", server.port) as s:
        s.sendall(b"GET /")
        assert (s.recv(5) == b"GET /") is works
        (question,) = g.asked()
        assert (question["host"], question["port"], question["rule"]) == ("a.test", server.port, "a")
        assert g.events(kind="connection")[0]["action"] == ("allow" if works else "deny")


def test_nobody_answers(server):
    with gate(ASK_A, ask=lambda m: None, ask_timeout=300) as g, g.connect("a.test", server.port) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b"BAWN_NET_DENIED_UNANSWERED" in read_all(s)


def test_question_is_taken_back(server):
    with gate(ASK_A, ask=lambda m: None) as g:
        s = g.connect("a.test", server.port)
        g.asked()
        s.close()
        with g.condition:
            assert g.condition.wait_for(lambda: any(m["type"] == CANCEL for m in g.seen), 60)


def test_request_is_asked_about():
    with Server(http_server(), port=80), gate(A | {"methods": ["GET"]}, ASK_A | {"id": "q", "methods": ["POST"]}, ask=lambda m: ONCE) as g:
        for method in (b"GET", b"POST"):
            with g.connect("a.test", 80) as s:
                s.sendall(method + b" / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n")
                assert status(s.recv(4096)) == 200
        assert [m["method"] for m in g.asked()] == ["POST"]


# --- other ---------------------------------------------------------------------------------------------------------------------


def test_reload_closes_what_is_not_allowed_any_more(server):
    with gate(A, A | {"id": "b", "host": "b.test"}) as g:
        a, b = g.connect("a.test", server.port), g.connect("b.test", server.port)
        for s in (a, b):
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        g.reload([A])
        assert is_reset(b)
        a.sendall(b"y")
        assert a.recv(1) == b"y"
        assert is_reset_at(g, "b.test", server.port)
        a.close()
        assert len(g.events(2, kind="end")) == 2


def test_reload_that_must_look_closes_what_was_not_looked_into(server):
    with gate() as g, g.connect("a.test", server.port) as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"
        g.reload([A | {"methods": ["GET"]}])
        assert is_reset(s)


def test_broken_rules_leave_the_old_ones(server):
    with gate() as g:
        with pytest.raises(RuntimeError, match="action"):
            g.reload([{"host": "a.test"}])
        with g.connect("a.test", server.port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"


def test_why():
    with gate() as g:
        g.lookup("evil.test")
        assert is_reset_at(g, "198.51.100.1", 23)
        for request in (b"GET /why HTTP/1.1\r\nHost: bawn.internal\r\n\r\n", b"GET http://bawn.internal/why.json HTTP/1.1\r\n\r\n"):
            with g.connect("127.0.0.1" if b"http:" in request else "bawn.internal", 15001 if b"http:" in request else 80) as s:
                s.sendall(request)
                answer = read_all(s)
                assert status(answer) == 200
                assert b"evil.test" in answer and b"198.51.100.1" in answer and b"BAWN_NET_NOT_HANDED_OUT" in answer
        with g.connect("198.18.0.1", 80) as s:
            s.sendall(b"GET /why?host=evil.test HTTP/1.1\r\n\r\n")
            answer = read_all(s)
            assert b"evil.test" in answer and b"198.51.100.1" not in answer


def proxy(log, answer=b"HTTP/1.1 200 OK\r\n\r\n"):
    def handle(s):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += s.recv(1)
        log.append(head)
        s.sendall(answer)
        if b" 200 " in answer:
            echo(s)
    return handle


def test_the_hosts_proxy_is_used(server):
    log = []
    with Server(proxy(log)) as p, gate(A, {"action": "allow", "host": "far.test"},
                                       https_proxy=f"http://us%65r:p%40ss@127.0.0.1:{p.port}/", no_proxy="a.test") as g:
        with g.connect("far.test", 5000) as s:
            s.sendall(b"through")
            assert s.recv(7) == b"through"
        with g.connect("a.test", server.port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        assert server.accepted == 1 and len(log) == 1
        assert log[0].startswith(b"CONNECT far.test:5000 HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic dXNlcjpwQHNz\r\n" in log[0]


@pytest.mark.parametrize("setting", ["https://127.0.0.1:1/", "http://127.0.0.1:{port}/"])
def test_a_proxy_that_fails_is_told(setting):
    with Server(proxy([], b"HTTP/1.1 407 No\r\n\r\n")) as p, gate({"action": "allow", "host": "far.test"},
                                                                  https_proxy=setting.format(port=p.port)) as g:
        assert is_reset_at(g, "far.test", 5000)
        assert "proxy" in g.events(kind="trouble")[0]["path"]


def test_publish():
    probe = socket.create_server(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    with gate(publish=[(3000, port)]) as g:
        s = g.socket()
        s.bind(("127.0.0.1", 3000))
        s.listen()
        threading.Thread(target=lambda: echo(s.accept()[0]), daemon=True).start()
        with socket.create_connection(("127.0.0.1", port)) as c:
            c.sendall(b"in")
            assert c.recv(2) == b"in"
        s.close()
        with socket.create_connection(("127.0.0.1", port)) as c:
            assert is_reset(c)


def test_slow_supervisor_loses_no_event(server):
    with gate() as g:
        with g.condition:  # the driver reads nothing meanwhile
            socks = [g.socket() for _ in range(3000)]
            for s in socks:
                s.setblocking(False)
                s.connect_ex(("198.51.100.1", 22))
        for s in socks:
            s.close()
        assert len(g.events(3000, kind="connection", action="deny")) == 3000


def test_the_gate_ends_with_its_supervisor(server):
    with gate() as g:
        g.control.shutdown(socket.SHUT_RDWR)
        assert os.waitpid(g.pid, 0)[1] == 0
        g.pid = None


def test_jail(server):
    with gate() as g:
        assert g.status("Seccomp") == ["2"] and g.status("NoNewPrivs") == ["1"]
        assert g.status("CapEff") == g.status("CapPrm") == g.status("CapBnd") == ["0000000000000000"]
        assert set(g.status("Uid")) == {str(0x78000000 + g.pid)} and not g.status("Groups")
        limits = pathlib.Path(f"/proc/{g.pid}/limits").read_text()
        for name in ("core file size", "processes", "file size"):
            line = next(x for x in limits.splitlines() if name in x)
            assert line.split()[-3:-1] == ["0", "0"] or line.split()[-2:] == ["0", "0"], line


def test_garbage_on_every_way_in(server):
    with gate() as g:
        junk = [bytes([i]) * 40 for i in range(0, 256, 5)] + [os.urandom(200) for _ in range(50)]
        for data in junk:
            for where in (("127.0.0.1", 15001), ("198.18.0.1", 80), ("198.18.0.1", 53), ("a.test", 443)):
                s = g.connect(*where)
                s.sendall(data)
                s.close()
        with g.connect("a.test", server.port) as s:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        assert g.alive()
