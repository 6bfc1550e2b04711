# SPDX-License-Identifier: Apache-2.0
"""What a rule allows works, for any TCP client, by name; everything else is refused at once and never leaves the machine."""

import json

import pytest

PROXY = "http://127.0.0.1:15001"
PROXY_VARIABLES = ["env", *(f"{name}={PROXY}" for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"))]
WAYS = {"transparent": [], "variables": PROXY_VARIABLES}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.mark.parametrize("url", ["http://ok.example.com/a?b=c", "https://ok.example.com/a?b=c", "http://six.example.com/a?b=c", "http://ok.example.com:8080/a?b=c"])
def test_allowed_name(net, way, url):
    r = net.sandbox(*way, "curl", "-sS", url, allow=["ok.example.com", "six.example.com"])
    assert r.rc == 0, r
    assert r.json()["line"] == "GET /a?b=c HTTP/1.1"
    assert net.requests() == ["GET /a?b=c HTTP/1.1"]


@pytest.mark.parametrize("url", ["http://evil.example.net/", "https://evil.example.net/", "http://11.0.0.11/", "https://11.0.0.11/",
                                 "http://evil.example.net:4711/", "http://[2a00:11::10]/"])
def test_everything_else_is_refused(net, way, url):
    r = net.sandbox(*way, "curl", "-sS", "-f", url, allow=["ok.example.com"])
    assert r.rc not in (0, 28), r
    assert net.hits() == [] and net.queries() == []


def test_network_none_has_nothing(net):
    r = net.sandbox("curl", "-sS", "http://ok.example.com/", options=["--network", "none"])
    assert r.rc != 0
    assert net.hits() == [] and net.queries() == []


@pytest.mark.parametrize("word", ["full", "limited"])
def test_words(net, word):
    r = net.sandbox("curl", "-sS", "https://evil.example.net/x", options=["--network", word])
    assert r.rc == 0 and r.json()["line"] == "GET /x HTTP/1.1", r
    r = net.python("import socket; s = socket.create_connection(('evil.example.net', 7)); s.sendall(b'hi'); print(s.recv(2))", options=["--network", word])
    assert (r.rc == 0) == (word == "full"), r
    for url in ("http://private.example.com/", "http://10.0.0.5/", "http://169.254.169.254/", "http://metadata.example.com/", "http://172.31.0.1/"):
        net.forget()
        r = net.sandbox("curl", "-sS", "-f", url, options=["--network", word])
        assert r.rc not in (0, 28) and net.hits() == [], r


def test_any_protocol_by_name(net):
    r = net.python("""
import socket
s = socket.create_connection(("ok.example.com", 7))
s.sendall(b"x" * 300000)
s.shutdown(socket.SHUT_WR)
n = 0
while (d := s.recv(65536)):
    n += len(d)
print(n)
s = socket.create_connection(("ok.example.com", 2525))
print(s.recv(100))
""", allow=["ok.example.com"])
    assert r.rc == 0 and r.out == b"300000\nb'220 hello\\r\\n'\n", r


def test_ports_of_a_rule(net):
    r = net.sandbox("curl", "-sS", "-f", "http://ok.example.com:8080/", allow=["ok.example.com:8080"])
    assert r.rc == 0, r
    r = net.sandbox("curl", "-sS", "-f", "http://ok.example.com/", allow=["ok.example.com:8080"])
    assert r.rc not in (0, 28), r


def test_denial_is_understood(net):
    r = net.sandbox("curl", "-sS", "-w", "%{http_code}", "http://evil.example.net/", allow=["ok.example.com"], deny=["evil.example.net"])
    text = r.out + r.err
    assert b"403" in text and b"BAWN_NET_DENIED_HOST" in text, r
    assert r.out.startswith(b"Bawn denied evil.example.net:80 (rule ") and b"http://bawn.internal/why" in r.out, r
    r = net.sandbox("curl", "-sS", "-H", "Accept: application/json", "http://evil.example.net/", deny=["evil.example.net"])
    assert {"code", "host", "reason", "hint", "message"} <= set(json.loads(r.out)["error"]), r


def test_no_proxy_is_set(net):
    """Where every port is captured programs need none, and clients drop what a proxy says about a refusal. A variable of the user's stays."""
    r = net.sandbox("sh", "-c", "env | grep -i _proxy=", env={"https_proxy": "http://11.0.0.10:3128"})
    if net.rung != "full":  # UDP is refused there: a resolver of a program's own finds nothing
        assert b"11.0.0.10" not in r.out and f"https_proxy={PROXY}\n".encode() in r.out, r
        return
    assert r.out == b"", r
    r = net.sandbox("sh", "-c", "env | grep -i _proxy=", options=["--env", f"HTTPS_PROXY={PROXY}"])
    assert r.out == f"HTTPS_PROXY={PROXY}\n".encode(), r


def test_own_loopback_works(net):
    r = net.python("""
import socket, threading
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    s = socket.socket(family)
    s.bind((address, 0)); s.listen()
    c = socket.create_connection(s.getsockname()[:2])
    a, _ = s.accept()
    c.sendall(b"mine")
    print(a.recv(10))
""")
    assert r.rc == 0 and r.out == b"b'mine'\nb'mine'\n", r


def test_log_has_every_verdict_once(net):
    r = net.sandbox("sh", "-c", "for i in 1 2 3; do curl -s http://ok.example.com/; curl -s https://evil.example.net/; done; true", allow=["ok.example.com"])
    assert r.rc == 0, r
    verdicts = [e for e in net.log() if e["kind"] in ("connection", "request", "lookup")]
    allowed = [e for e in verdicts if e["host"] == "ok.example.com"]
    refused = [e for e in verdicts if e["host"] == "evil.example.net"]
    assert len(allowed) == 3 and {e["action"] for e in allowed} == {"allow"}, verdicts
    looked_up = ["lookup"] if net.rung == "full" else []  # elsewhere curl asks the proxy, by name
    assert [e["kind"] for e in refused] == looked_up + 3 * ["connection"] and {e["code"] for e in refused} == {"BAWN_NET_DENIED_HOST"}, verdicts


def test_summary_names_what_was_refused(net):
    r = net.sandbox("sh", "-c", "curl -s http://ok.example.com/ >/dev/null; curl -s https://evil.example.net/; true", allow=["ok.example.com"])
    assert b"evil.example.net" in r.err and b"BAWN_NET_DENIED_HOST" in r.err, r
