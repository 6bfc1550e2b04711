# SPDX-License-Identifier: Apache-2.0
"""A host that gets a credential may tell it again, by carelessness or because it is asked to: nobody inside learns it by that (ATTACKS 55, 56).

The same client without a sandbox, with the real value, is told it in each of these ways.
"""

import json

import pytest

import secret_echo
import secret_tools
from attack_tools import inside, outside

REAL = "real/VALUE+\"1<2>&'\\~ 0123456789abcdef=="
H1, H2 = "11.0.0.32", "11.0.0.33"
KEY = secret_echo.key(REAL)
HOSTS = ["echo.example.com", "echo2.example.com", "other.example.com"]


@pytest.fixture(scope="module")
def server(inter_net):
    tls = f"{inter_net.folder}/cert.pem:{inter_net.folder}/key.pem"
    s = secret_echo.Server(inter_net, f"{H1}:443:{tls}", f"{H2}:443:{tls}:h2")
    yield s
    s.end()


@pytest.fixture
def echo(net, server):
    return server.prepare(net, KEY, {"echo.example.com": [H1], "echo2.example.com": [H2]})


CLIENT = r'''
REAL = %r   # "": inside, where Bawn puts it in

def h1(path, host="echo.example.com", *fields, method="GET"):
    key = ["x-api-key: " + REAL] if REAL else []
    text = "\r\n".join(["%%s /%%s HTTP/1.1" %% (method, path), "Host: " + host, *key, *(fields or ["Connection: close"]), "", ""])
    got = talk(lax().wrap_socket(socket.create_connection((host, 443)), server_hostname=host), text.encode("latin-1")).decode("latin-1")
    head, _, body = got.rpartition("\r\n\r\n") if "early" in path else got.partition("\r\n\r\n")
    return head + "\r\n\r\n" + (joined(body) if "transfer-encoding: chunked" in head.lower() else body)

def joined(body):
    """The chunks, and the trailers."""
    out = ""
    while (size := int(body.partition("\r\n")[0].partition(";")[0], 16)):
        body = body.partition("\r\n")[2]
        out, body = out + body[:size], body[size + 2:]
    return out + body.partition("\r\n")[2].removesuffix("\r\n")

def h2(path, host="echo2.example.com"):
    import h2.config, h2.connection, h2.events
    context = lax()
    context.set_alpn_protocols(["h2"])
    s = context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
    c.initiate_connection()
    key = [("x-api-key", REAL)] if REAL else []
    c.send_headers(1, [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/" + path), *key], end_stream=True)
    s.sendall(c.data_to_send())
    got = ""
    while (data := s.recv(65536)):
        for e in c.receive_data(data):
            if isinstance(e, (h2.events.ResponseReceived, h2.events.InformationalResponseReceived, h2.events.TrailersReceived)):
                got += "".join("%%s: %%s\n" %% tuple(field) for field in e.headers)
            elif isinstance(e, h2.events.DataReceived):
                got += e.data.decode("latin-1")
            if isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)):
                return got
        s.sendall(c.data_to_send())
    return got

def tell(ways):
    shown({" ".join(way): (h2 if way[0] == "h2" else h1)(way[1]) for way in ways})
'''

PLACES = ["header", "cookie", "location", "error", "early", "chunks", "trailer", "records", "until_end"]
WAYS = [("h1", f"{place}/raw", "raw") for place in PLACES] + [("h1", f"body/{form}", form) for form in secret_echo.FORMS]
WAYS += [("h2", f"{place}/raw", "raw") for place in ("header", "trailer", "early")] + [("h2", f"body/{form}", form) for form in secret_echo.FORMS]


def ask(net, script, real=False, **rules):
    script = CLIENT % (REAL if real else "") + script
    return json.loads(outside(net, script).out) if real else inside(net, script, allow=HOSTS, **rules)


def body_of(text):
    return text.rpartition("\r\n\r\n")[2]


def h1_body(text):
    return text.partition("\r\n\r\n")[2]


def h2_body(text):
    return text.partition(":status: 200\n")[2]


def test_told_in_any_place_and_spelling(net, echo):
    """Claim: value and usual encodings are covered in the answer, wherever it has them and however it is cut (55)."""
    script = f"tell({[way[:2] for way in WAYS]!r})"
    without = ask(net, script, real=True)
    missing = [way for way in WAYS if secret_echo.core_of(way[2], REAL) not in without[" ".join(way[:2])]]
    assert missing == [], "the server does not tell it, so nothing would be proved"
    echo.forget()
    within = ask(net, script)
    assert all(REAL in seen["text"] for seen in echo.seen()) and len(echo.seen()) == len(WAYS)
    leaks = [way for way in WAYS if secret_echo.core_of(way[2], REAL) in within[" ".join(way[:2])]]
    assert leaks == []
    for name, text in within.items():
        secret_tools.nowhere(REAL, text.encode("latin-1"), name)
    pieces = {way: secret_echo.left_of(way[2], REAL, h1_body(within[" ".join(way[:2])]) if way[0] == "h1" else h2_body(within[" ".join(way[:2])]))
              for way in WAYS if way[1].startswith("body/") and way[2] not in ("unforeseen", "twice")}
    assert {way: piece for way, piece in pieces.items() if len(piece) > 3} == {}, "long enough to be of use"
    # covered, not dropped: clients that count bytes do not notice
    changed = [name for name in within if len(body_of(within[name])) != len(body_of(without[name]))]
    assert changed == [] and all("*" * 10 in text for text in within.values())


def test_told_in_words_and_packed(net, echo):
    """Claim: the reason phrase is ours, and an answer that was packed although identity was asked is not passed on (55)."""
    script = "tell([('h1', 'reason/raw'), ('h1', 'gzip/raw'), ('h2', 'gzip/raw')])"
    without = ask(net, script, real=True)
    assert REAL in without["h1 reason/raw"] and "Content-Encoding: gzip" in without["h1 gzip/raw"] and "\x1f\x8b" in without["h2 gzip/raw"]
    echo.forget()
    within = ask(net, script)
    assert "accept-encoding: identity" in echo.seen()[-1]["text"].lower()
    assert within["h1 reason/raw"].startswith("HTTP/1.1 401 Unauthorized\r\n")
    assert within["h1 gzip/raw"].startswith("HTTP/1.1 502 ") and ":status: 502" in within["h2 gzip/raw"]
    assert all("\x1f\x8b" not in text and REAL not in text for text in within.values())


def test_trace(net, echo):
    """Claim: TRACE, which makes every server tell what it got, does not reach one (55)."""
    script = "shown({'answer': h1('', method='TRACE')})"
    assert REAL in ask(net, script, real=True)["answer"]
    echo.forget()
    assert ask(net, script)["answer"].startswith("HTTP/1.1 405 ")
    assert echo.seen() == []


def test_websocket(net, echo):
    """Claim: what comes through a WebSocket that was opened with a credential is covered, too (55)."""
    script = """shown({'answer': h1('websocket/raw', 'echo.example.com', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: x',
                                   'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Extensions: permessage-deflate')})"""
    assert REAL in ask(net, script, real=True)["answer"]
    echo.forget()
    answer = ask(net, script)["answer"]
    assert answer.startswith("HTTP/1.1 101 ") and answer.endswith("*" * len(REAL)), answer
    assert REAL in echo.seen()[0]["text"] and "permessage-deflate" not in echo.seen()[0]["text"]


@pytest.mark.parametrize("place", [{"header": "Authorization: Bearer {}"}, {"basic": "me"}, {"query": "key"}], ids=lambda p: next(iter(p)))
def test_other_places(net, echo, place):
    """Claim: what is told of a value in Authorization, basic authentication or the query is covered, in the form that it went in (55)."""
    secret_tools.define(net, "key", **{k: v for k, v in KEY.items() if k != "header"}, **place)
    forms = set(secret_echo.FORMS) - set(secret_echo.OTHERS)
    found = ask(net, "shown({form: h1('body/' + form) for form in %r})" % sorted(forms))
    assert len(found) == len(forms) and all("HTTP/1.1 200 " in text and "*" * 10 in text for text in found.values())
    sent = echo.seen()[0]["text"]
    for name, text in found.items():
        secret_tools.nowhere(REAL, text.encode("latin-1"), name)
        for word in sent.replace("?key=", " ").split():
            assert len(word) < 30 or word not in text, (name, word)


def test_redirect_to_another_host(net, echo):
    """Claim: a redirect to another host takes neither the value nor the placeholder there (56)."""
    net.names["other.example.com"] = ["11.0.0.11"]
    command = ["sh", "-c", 'curl -sk --noproxy "*" -L -H "x-api-key: $API_KEY" -w "%{http_code}" "https://echo.example.com/location/raw"']
    net.outside(*command, env={"API_KEY": "a-real-value-of-0123456789"})
    assert ["x-api-key", "a-real-value-of-0123456789"] in net.hits(kind="request")[0]["headers"], "curl keeps such a header"
    net.forget()
    r = net.sandbox(*command, allow=HOSTS)
    assert r.out.endswith(b"403") and net.hits(kind="request") == [], r
    assert REAL in echo.seen()[-1]["text"]
    assert b"blocked: placeholder of key at other.example.com" in r.err, r
