# SPDX-License-Identifier: Apache-2.0
"""Credentials at bawn-gate, with a supervisor (gate_driver) and a broker (gate_broker) that are played: values go in at one place only, and
do not come back; placeholders leave at no other.
"""

import base64
import errno
import gzip
import hashlib
import json
import os
import pathlib
import ssl
import sys
import threading

import h2.events
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from gate_broker import VALUE, Authority, basic  # noqa: E402
from gate_driver import DENY, ONCE, Server, grant  # noqa: E402
from gate_web import (  # noqa: E402, F401
    A, FORMS, H, H2Client, HOLDER, OTHER, REAL, Web, ask, authorities, broker, chunked, code, gate, h2_serve, inside,
    leaks, network, read_answer, reply, request, tls, web)

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root")

# --- going in ----------------------------------------------------------------------------------------------------------------


def test_put_in_once_and_replaced(inside, web, broker):
    with tls(inside, inside.ca) as s:
        for headers in ((), (b"X-Api-Key: " + HOLDER.encode(),), (b"x-api-key: a", b"X-API-KEY: b")):
            assert ask(s, b"GET", b"/v1/x?q=1", *headers)[0] == 200
    for r in web.requests:
        assert [v for k, v in r["headers"] if k == "x-api-key"] == [REAL]
        assert r["fields"]["accept-encoding"] == b"identity"
    assert broker.asked == [(VALUE, 0, "a.test", 443, "GET", b"/v1/x")] * 3
    for e in inside.events(3, kind="request"):
        assert (e["secret"], e["action"], e["status"]) == ("key", "allow", 200)


def test_not_for_others(inside, web, broker):
    with tls(inside, inside.ca, "b.test") as s:
        assert ask(s, host=b"b.test")[0] == 200
    assert "x-api-key" not in web.requests[0]["fields"] and not broker.asked
    assert inside.events(kind="request")[0]["secret"] == ""


def test_bearer_basic_and_query(authorities, web, broker):
    broker.values = {i: REAL for i in range(3)}
    broker.formats = {0: lambda v: b"Bearer " + v, 1: basic("me")}
    grants = [grant("bearer", ["a.test"], HOLDER, header="Authorization", format="Bearer {}"),
              grant("forge", ["b.test"], OTHER, place="basic", user="me"),
              grant("maps", ["c.test"], "Mapz0" + "1234567890abcdefGHIJKLMN", place="query", query="key")]
    with gate(authorities, broker, A | {"host": ["a.test", "b.test", "c.test", "id.test"]}, grants=grants) as g:
        with tls(g, authorities[1]) as s:
            assert ask(s, b"GET", b"/", b"Authorization: Bearer " + HOLDER.encode())[0] == 200
        with tls(g, authorities[1], "b.test") as s:
            user = base64.b64encode(b"anybody:" + OTHER.encode())
            assert ask(s, b"GET", b"/", b"Authorization: Basic " + user, host=b"b.test")[0] == 200
        with tls(g, authorities[1], "c.test") as s:
            assert ask(s, b"GET", b"/p?a=1&key=Mapz01234567890abcdefGHIJKLMN&b=2", host=b"c.test")[0] == 200
            assert ask(s, b"GET", b"/p", host=b"c.test")[0] == 200
    assert web.requests[0]["fields"]["authorization"] == b"Bearer " + REAL
    assert web.requests[1]["fields"]["authorization"] == b"Basic " + base64.b64encode(b"me:" + REAL)
    encoded = b"key=real-value%2Fof%2Bthe%3Dkey-0123456789"
    assert web.requests[2]["line"] == b"GET /p?a=1&b=2&" + encoded + b" HTTP/1.1"
    assert web.requests[3]["line"] == b"GET /p?" + encoded + b" HTTP/1.1"


def test_post_with_a_body(inside, web):
    with tls(inside, inside.ca) as s:
        assert ask(s, b"POST", b"/", body=b"x" * 300000)[0] == 200
        s.sendall(request(b"POST", b"/", b"Transfer-Encoding: chunked") + b"5\r\nhello\r\n0\r\n\r\n")
        assert read_answer(s)[0] == 200
    assert [r["body"] for r in web.requests] == [b"x" * 300000, b"hello"]
    assert all(r["fields"]["x-api-key"] == REAL for r in web.requests)


def test_only_where_a_rule_lets_it(authorities, web, broker):
    rule = A | {"methods": ["GET"], "paths": ["/ok"]}
    with gate(authorities, broker, rule) as g, tls(g, authorities[1]) as s:
        assert ask(s, b"GET", b"/ok")[0] == 200
        assert ask(s, b"GET", b"/no")[0] == 403
        assert ask(s, b"POST", b"/ok", body=b"")[0] == 403
    assert len(broker.asked) == 1 and len(web.requests) == 1


def test_a_human_and_a_body(authorities, web, broker):
    """Both are waited for: the body is signed, and the rule asks."""
    grants = [grant("sqs", ["a.test"], "AKIA" + "QRSTUVWXYZ234567", place="sigv4", placeholder2="t" * 16 + "ZbYbXcWdVeUfTgShRiQjPk42",
                    region="r", service="sqs")]
    broker.sign = lambda text: (b"AWS4-HMAC-SHA256 anew", b"", b"AKIAREAL", b"the-secret-key")
    auth = b"Authorization: AWS4-HMAC-SHA256 Credential=AKIAQRSTUVWXYZ234567/x, SignedHeaders=host;x-amz-date, Signature=0"
    with gate(authorities, broker, A | {"action": "ask", "methods": ["POST"]}, grants=grants, ask=lambda m: None) as g, tls(g, authorities[1]) as s:
        s.sendall(request(b"POST", b"/", auth, b"x-amz-date: 20260101T000000Z", b"Content-Length: 4") + b"bo")
        (question,) = g.asked()
        g.answer(question["id"], ONCE)
        s.sendall(b"dy")
        assert read_answer(s)[0] == 200
    assert web.requests[0]["body"] == b"body" and web.requests[0]["fields"]["authorization"] == b"AWS4-HMAC-SHA256 anew"
    assert broker.asked[0][5].endswith(hashlib.sha256(b"body").hexdigest().encode())


@pytest.mark.parametrize("answer,status", [(ONCE, 200), (DENY, 403)])
def test_a_human_is_asked_first(authorities, web, broker, answer, status):
    rule = A | {"action": "ask", "methods": ["POST"]}
    asked = []

    def human(m):
        asked.append(list(broker.asked))
        return answer

    with gate(authorities, broker, rule, ask=human) as g, tls(g, authorities[1]) as s:
        assert ask(s, b"POST", b"/", body=b"x")[0] == status
    assert asked == [[]]
    assert len(broker.asked) == len(web.requests) == (status == 200)


# --- placeholders elsewhere ----------------------------------------------------------------------------------------------------


def pieces(text):
    return b"".join(b"1\r\n%c\r\n" % c for c in text) + b"0\r\n\r\n"


ELSEWHERE = {
    "other header": request(b"GET", b"/", b"Authorization: Bearer " + H),
    "cookie": request(b"GET", b"/", b"Cookie: a=" + H),
    "path": request(b"GET", b"/x/" + H),
    "query": request(b"GET", b"/?x=" + H),
    "query, encoded": request(b"GET", b"/?x=%" + H[-24:-23].hex().encode() + H[-23:]),
    "base64": request(b"GET", b"/", b"X-A: " + base64.b64encode(b"ab" + H)),
    "hex": request(b"GET", b"/", b"X-A: " + H.hex().encode()),
    "reversed": request(b"GET", b"/", b"X-A: " + H[::-1]),
    "two headers": request(b"GET", b"/", b"X-A: " + H[:20], b"X-B: " + H[20:]),
    "body": request(b"POST", b"/", body=b"k=" + H),
    "body, base64": request(b"POST", b"/", body=base64.b64encode(b"k=" + H)),
    "body, chunked": request(b"POST", b"/", b"Transfer-Encoding: chunked") + pieces(b"k=" + H),
    "body, gzip": request(b"POST", b"/", b"Content-Encoding: gzip", body=gzip.compress(b"k=" + H)),
    "body, gzip, chunked": request(b"POST", b"/", b"Content-Encoding: gzip", b"Transfer-Encoding: chunked") + pieces(gzip.compress(b"k=" + H)),
    "trailer": request(b"POST", b"/", b"Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\nX-A: " + H + b"\r\n\r\n",
}


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize("host", ["a.test", "b.test"])
def test_placeholder_elsewhere(inside, web, where, host):
    with tls(inside, inside.ca, host) as s:
        s.sendall(ELSEWHERE[where].replace(b"Host: a.test", b"Host: " + host.encode()))
        answer = read_answer(s)
    assert answer[0] == 403 and code(answer) == "BAWN_NET_SECRET_MISPLACED"
    assert not web.requests
    (e,) = inside.events(kind="request")
    assert (e["code"], e["action"], e["secret"], e["host"]) == ("SECRET_MISPLACED", "deny", "key", host)


def test_placeholder_at_another_host(inside, web, broker):
    with tls(inside, inside.ca, "b.test") as s:
        assert code(ask(s, b"GET", b"/", b"X-Api-Key: " + H, host=b"b.test")) == "BAWN_NET_SECRET_MISPLACED"
        assert ask(s, host=b"b.test")[0] == 200  # the connection goes on
    assert not broker.asked and len(web.requests) == 1


def test_never_over_plain_http(inside, broker):
    with Web(None, port=80) as plain:
        for header, status in ((b"X-Api-Key: " + H, 403), (b"X-Other: 1", 200)):
            with inside.connect("a.test", 80) as s:
                assert ask(s, b"GET", b"/", header)[0] == status
        assert len(plain.requests) == 1 and "x-api-key" not in plain.requests[0]["fields"]
    assert not broker.asked


def test_a_redirect_does_not_take_it_along(inside, web):
    web.answer = lambda r: reply(b"", b"Location: https://b.test/", status=b"302 Found")
    with tls(inside, inside.ca) as s:
        status, fields, _ = ask(s, b"GET", b"/", b"X-Api-Key: " + H)
        assert (status, fields["location"]) == (302, b"https://b.test/")
    with tls(inside, inside.ca, "b.test") as s:  # as a client does that keeps its headers
        assert ask(s, b"GET", b"/", b"X-Api-Key: " + H, host=b"b.test")[0] == 403
    assert len(web.requests) == 1


# --- coming back ---------------------------------------------------------------------------------------------------------------


def test_echo_is_covered(inside, web):
    web.answer = lambda r: reply(b"you sent [" + r["fields"]["x-api-key"] + b"] " + b" ".join(FORMS), b"Set-Cookie: k=" + REAL,
                                 b"Location: /?k=" + FORMS[5], b"X-" + b"Key: " + FORMS[1])
    with tls(inside, inside.ca) as s:
        status, fields, body = ask(s)
    assert status == 200 and not leaks(body) and not leaks(b" ".join(fields.values()))
    assert body.startswith(b"you sent [" + b"*" * len(REAL) + b"] ")
    assert len(body) == len(b"you sent [] " + REAL + b" ".join(FORMS))
    assert fields["set-cookie"] == b"k=" + b"*" * len(REAL)


@pytest.mark.parametrize("size", [1, 2, 7, 31])
def test_echo_across_chunks_is_covered(inside, web, size):
    text = b"before " + REAL + b" between " + FORMS[1] + b" after"
    web.answer = lambda r: chunked(*[text[i:i + size] for i in range(0, len(text), size)])
    with tls(inside, inside.ca) as s:
        _, _, body = ask(s)
    assert body.startswith(b"before " + b"*" * len(REAL) + b" between **")
    assert body.endswith(b" after") and len(body) == len(text) and not leaks(body)


def test_events_pass_one_by_one(inside, web):
    go = threading.Semaphore(0)

    def events(r):
        for piece in chunked(b"data: one\n\n", b"data: two\n\n", b"data: " + REAL + b"\n\n", headers=[b"Content-Type: text/event-stream"]):
            yield piece
            go.acquire()

    web.answer = events
    with tls(inside, inside.ca) as s:
        s.sendall(request())
        f = s.makefile("rb")
        go.release()
        while f.readline() != b"\r\n":
            pass
        for want in (b"data: one\n\n", b"data: two\n\n", b"data: " + b"*" * len(REAL) + b"\n\n"):
            got = b""
            while len(got) < len(want):
                n = int(f.readline(), 16)
                got += f.read(n)
                f.readline()
            assert got == want
            go.release()
        go.release()
        assert f.readline() == b"0\r\n"


def test_packed_answers_are_refused(inside, web):
    web.answer = lambda r: reply(gzip.compress(REAL), b"Content-Encoding: gzip")
    with tls(inside, inside.ca) as s:
        answer = ask(s, b"GET", b"/", b"Accept-Encoding: gzip, br")
        assert answer[0] == 502 and code(answer) == "BAWN_NET_CANNOT_LOOK"
    assert web.requests[0]["fields"]["accept-encoding"] == b"identity"
    with tls(inside, inside.ca, "b.test") as s:  # where nothing was put in, it is nobody's business
        assert gzip.decompress(ask(s, host=b"b.test")[2]) == REAL


# --- a broker in trouble -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status,words", [(errno.EACCES, "allows without asking"), (errno.ENOKEY, "no value"), (errno.EKEYEXPIRED, "log in again"),
                                          (errno.ETIMEDOUT, "in time")])
def test_no_value_no_request(inside, web, broker, status, words):
    broker.values[0] = -status
    with tls(inside, inside.ca) as s:
        answer = ask(s, b"GET", b"/", b"X-Api-Key: " + H)
        assert answer[0] == 502 and code(answer) == "BAWN_NET_SECRET_UNAVAILABLE"
        assert words in answer[2].decode()
        broker.values[0] = REAL
        assert ask(s)[0] == 200
    assert len(web.requests) == 1
    assert inside.events(kind="request", code="SECRET_UNAVAILABLE")[0]["secret"] == "key"


def test_broker_dies_while_it_is_asked(inside, web, broker):
    broker.values[0] = None
    with tls(inside, inside.ca) as s:
        s.sendall(request())
        broker.wait_asked()
        broker.die()
        answer = read_answer(s)
        assert answer[0] == 502 and code(answer) == "BAWN_NET_SECRET_UNAVAILABLE"
        broker.values[0] = REAL
        assert ask(s)[0] == 200  # another one was asked for
    assert len(web.requests) == 1


def test_client_that_does_not_wait(inside, web, broker):
    broker.values[0] = None
    for _ in range(20):
        s = tls(inside, inside.ca)
        s.sendall(request())
        s.close()
    inside.events(20, kind="end")
    assert inside.alive() and not web.requests


@pytest.mark.parametrize("value", [b"a\r\nX-Evil: 1", b"a\0b", b"x" * 70000])
def test_value_that_no_header_may_have(inside, web, broker, value):
    broker.values[0] = value
    with tls(inside, inside.ca) as s:
        assert ask(s)[0] == 502
    assert not web.requests


# --- looking inside ------------------------------------------------------------------------------------------------------------


def test_nobody_may_look_at_the_credentials_host(authorities, web, broker):
    closed = A | {"inspect": False}
    with gate(authorities, broker, closed) as g:
        with pytest.raises((ssl.SSLError, OSError)):
            tls(g, authorities[1])
        (e,) = g.events(kind="connection", action="deny")
        assert (e["code"], e["host"]) == ("CANNOT_LOOK", "a.test")
        with tls(g, authorities[0], "b.test") as s:  # the server's own certificate: nobody looked
            assert ask(s, b"GET", b"/", host=b"b.test")[0] == 200


def test_credential_on_another_port(authorities, broker):
    context = authorities[0].server_context("a.test")
    with Web(context, port=8443) as w, gate(authorities, broker, grants=[grant("key", ["a.test:8443"], HOLDER)]) as g:
        with tls(g, authorities[1], port=8443) as s:
            assert ask(s, b"GET", b"/", host=b"a.test:8443")[0] == 200
        assert w.requests[0]["fields"]["x-api-key"] == REAL


def test_the_first_credential_closes_what_was_not_looked_into(authorities, web, broker):
    with gate(authorities, broker, grants=[]) as g:
        with tls(g, authorities[0]) as s, tls(g, authorities[0], "b.test") as t:
            assert ask(s)[0] == 200 and ask(t, host=b"b.test")[0] == 200
            g.reload([A], grants=[grant("key", ["a.test"], HOLDER)])
            for c in (s, t):
                with pytest.raises((ConnectionResetError, ssl.SSLError, BrokenPipeError, ValueError, IndexError)):
                    ask(c)
        with tls(g, authorities[1]) as s:
            assert ask(s)[0] == 200
    assert web.requests[-1]["fields"]["x-api-key"] == REAL


def test_server_that_is_not_trusted_gets_nothing(authorities, broker, tmp_path):
    context = Authority(tmp_path, "stranger").server_context("a.test")
    with Web(context) as w, gate(authorities, broker) as g, tls(g, authorities[1]) as s:
        answer = ask(s, b"GET", b"/", b"X-Api-Key: " + H)
        assert answer[0] == 502 and code(answer) == "BAWN_NET_NOT_TRUSTED"
        assert not w.requests and not broker.asked


# --- HTTP/2 ----------------------------------------------------------------------------------------------------------------------


def test_http2(authorities, broker):
    seen, text = [], b"say " + REAL + b" again " + FORMS[1] + b"!"
    context = authorities[0].server_context("a.test", alpn=["h2"])
    handle = lambda s: h2_serve(context.wrap_socket(s, server_side=True), seen, [text[i:i + 9] for i in range(0, len(text), 9)])  # noqa: E731
    with Server(handle, port=443), gate(authorities, broker) as g, tls(g, authorities[1], alpn=["h2"]) as s:
        assert s.selected_alpn_protocol() == "h2"
        c = H2Client(s)
        for _ in range(3):
            status, head, body = c.ask([("x-api-key", HOLDER), ("accept-encoding", "gzip")])
            assert status == 200 and head["x-echo"] == "*" * len(REAL)
            assert body.startswith(b"say " + b"*" * len(REAL) + b" again *") and len(body) == len(text) and not leaks(body)
        assert c.ask([], [b"a", b"b"])[0] == 200
        for headers, body in (([("cookie", HOLDER)], ()), ([], [bytes([b]) for b in b"k=" + H]),
                              ([("content-encoding", "gzip")], [gzip.compress(H)])):
            status, head, out = c.ask(headers, body)
            assert status == 403 and head["bawn-code"] == "BAWN_NET_SECRET_MISPLACED"
    assert len(seen) == 4 and seen[3][1] == b"ab"
    for headers, _ in seen:
        assert [v for k, v in headers if k == "x-api-key"] == [REAL.decode()]
        assert dict(headers)["accept-encoding"] == "identity"


def test_http2_requests_that_wait(authorities, broker):
    """Several at once: one that the client gives up, one whose value never comes, others that go on."""
    seen, context = [], authorities[0].server_context("a.test", alpn=["h2"])
    broker.values[0] = None
    with Server(lambda s: h2_serve(context.wrap_socket(s, server_side=True), seen, [b"x"]), port=443):
        with gate(authorities, broker) as g, tls(g, authorities[1], alpn=["h2"]) as s:
            c = H2Client(s)
            head = [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")]
            for id in (1, 3, 5):
                c.conn.send_headers(id, head, end_stream=True)
            s.sendall(c.conn.data_to_send())
            broker.wait_asked(3)
            c.conn.reset_stream(1)
            s.sendall(c.conn.data_to_send())
            broker.values[0] = REAL
            assert c.ask([])[0] == 200
            broker.die()
            done = {}
            while len(done) < 2:
                for e in c.conn.receive_data(s.recv(65536)):
                    if isinstance(e, h2.events.ResponseReceived):
                        done[e.stream_id] = dict(e.headers)
                s.sendall(c.conn.data_to_send())
            assert {k: v[":status"] for k, v in done.items()} == {3: "502", 5: "502"}
            assert c.ask([])[0] == 200
    assert len(seen) == 2


# --- other ways in -----------------------------------------------------------------------------------------------------------


def test_through_the_entry(inside, web):
    with inside.connect("127.0.0.1", 15001) as plain:
        plain.sendall(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
        assert plain.recv(100).startswith(b"HTTP/1.1 200 ")
        with ssl.create_default_context(cafile=inside.ca.bundle).wrap_socket(plain, server_hostname="a.test") as s:
            assert ask(s)[0] == 200
    assert web.requests[0]["fields"]["x-api-key"] == REAL


def test_websocket_is_covered_too(inside, web):
    web.answer = lambda r: [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"\x81\x29you are ",
                            REAL[:9], REAL[9:], b"."]
    with tls(inside, inside.ca) as s:
        s.sendall(request(b"GET", b"/", b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Version: 13",
                          b"Sec-WebSocket-Extensions: permessage-deflate"))
        want, got = b"\x81\x29you are " + b"*" * len(REAL) + b".", b""
        while not got.endswith(b"."):
            got += s.recv(4096)
    assert got.endswith(want)
    assert web.requests[0]["fields"]["x-api-key"] == REAL and "sec-websocket-extensions" not in web.requests[0]["fields"]
