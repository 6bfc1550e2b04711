# SPDX-License-Identifier: Apache-2.0
"""Rules about methods, paths and sizes bind WebSockets too, and nothing in a request names another method or path than the one that was judged."""

import json

import pytest

import secret_echo
from attack_tools import inside, outside

H1 = "11.0.0.37"
HOST = "echo.example.com"


@pytest.fixture(scope="module")
def server(inter_net):
    s = secret_echo.Server(inter_net, f"{H1}:443:{inter_net.folder}/cert.pem:{inter_net.folder}/key.pem", name="websocket")
    yield s
    s.end()


@pytest.fixture
def echo(net, server):
    server.forget()
    net.names[HOST] = [H1]
    net.save_names()
    return server


CLIENT = r'''
def tls():
    return lax().wrap_socket(socket.create_connection(("echo.example.com", 443)), server_hostname="echo.example.com")

def plain(path="/", *fields):
    return talk(tls(), "\r\n".join(["GET " + path + " HTTP/1.1", "Host: echo.example.com", *fields, "Connection: close", "", ""]).encode()).decode("latin-1")

def websocket(*messages):
    """The head of the answer, and what came back for each message."""
    s = tls()
    s.sendall(b"GET /say/websocket HTTP/1.1\r\nHost: echo.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    answer, found = head(s).decode(), []
    for n in messages if " 101 " in answer else ():
        try:
            s.sendall(bytes([0x82, 0x80 | n, 0, 0, 0, 0]) + b"m" * n)
            got = b""
            while len(got) < n + 2 and (more := s.recv(n + 2 - len(got))):
                got += more
            found.append(len(got))
        except REFUSED:
            found.append(0)
    return [answer if " 403 " in answer else answer.partition("\r\n")[0], found]
'''


def test_methods(net, echo):
    """Claim: methods: GET does not open a WebSocket; one that names WEBSOCKET does, and a rule that denies GET denies it (20)."""
    script = CLIENT + "shown({'get': plain().partition('\\r\\n')[0], 'websocket': websocket(5)})"
    assert json.loads(outside(net, script).out) == {"get": "HTTP/1.1 200 OK", "websocket": ["HTTP/1.1 101 Switching Protocols", [7]]}
    net.rules({"action": "allow", "host": HOST, "methods": ["GET"]})
    found = inside(net, script)
    assert found["get"] == "HTTP/1.1 200 OK" and found["websocket"][0].startswith("HTTP/1.1 403 "), found
    assert "BAWN_NET_DENIED_METHOD" in found["websocket"][0] and "/say/websocket" not in "".join(s["text"] for s in echo.seen()[2:])
    net.rules({"action": "allow", "host": HOST, "methods": ["GET", "WEBSOCKET"]})
    assert inside(net, script) == {"get": "HTTP/1.1 200 OK", "websocket": ["HTTP/1.1 101 Switching Protocols", [7]]}
    net.rules({"action": "deny", "host": HOST, "methods": "GET", "paths": "/say/**"}, {"action": "allow", "host": HOST})
    found = inside(net, script)
    assert found["get"] == "HTTP/1.1 200 OK" and found["websocket"][0].startswith("HTTP/1.1 403 "), found


def test_max_body(net, echo):
    """Claim: max_body counts all that is sent over a WebSocket, which ends there (20)."""
    script = CLIENT + "shown({'websocket': websocket(50, 50, 50)})"
    net.rules({"action": "allow", "host": HOST})
    assert inside(net, script)["websocket"][1] == [52, 52, 52]
    net.rules({"action": "allow", "host": HOST, "max_body": 120})
    assert inside(net, script)["websocket"][1] == [52, 52, 0]
    assert [line["code"] for line in net.log() if line.get("action") == "deny"] == ["BAWN_NET_BODY_TOO_LARGE"]


NAMES = ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-URL", "X-Rewrite-URL", "X_Original_URL", "x-rewrite_url"]


def test_other_methods_and_paths(net, echo):
    """Claim: no header and no trailer names another method or path to the server than the one that the rule is about (20)."""
    script = CLIENT + f"""
fields = [n + ": /admin" for n in {NAMES!r}]
chunked = "\\r\\n".join(["POST /a HTTP/1.1", "Host: echo.example.com", "Transfer-Encoding: chunked", "Connection: close", "", "2", "ok", "0", *fields, "X-Fine: 1", "", ""])
shown({{"head": plain("/a", *fields), "trailer": talk(tls(), chunked.encode()).decode()}})"""
    outside(net, script)
    assert all(name in seen["text"] for seen in echo.seen() for name in NAMES) and len(echo.seen()) == 2
    echo.forget()
    net.rules({"action": "allow", "host": HOST, "methods": ["GET", "POST"], "paths": "/a"})
    found = inside(net, script)
    assert all(text.startswith("HTTP/1.1 200 ") for text in found.values()), found
    assert len(echo.seen()) == 2 and all("admin" not in seen["text"] for seen in echo.seen()) and "X-Fine: 1" in echo.seen()[1]["text"]
