# SPDX-License-Identifier: Apache-2.0
"""A refusal comes at once, in the protocol spoken, with a stable code and what would help; the end of the run counts what was reached and refused."""

import json
import re

import pexpect
import pytest
from inside import Inside, until

RULES = [
    {"id": "no-push", "action": "deny", "host": "ok.example.com", "ports": [80], "paths": ["/push/**"]},
    {"id": "ok", "action": "allow", "host": "ok.example.com", "ports": [80, 443, 7]},
    {"id": "api", "action": "allow", "host": "api.example.com", "methods": ["GET"], "paths": ["/v1/*"], "max_body": "1k"},
    {"id": "no", "action": "deny", "host": "evil.example.net"},
    {"id": "lan", "action": "allow", "host": "private.example.com"},
]
FIELDS = {"code", "action", "host", "port", "rule", "layer", "reason", "hint"}


@pytest.fixture
def inside(net):
    net.names["api.example.com"] = ["11.0.0.10"]
    net.names["later.example.com"] = ["11.0.0.10"]
    net.rules(*RULES)
    with Inside(net) as i:
        i.net = net
        yield i


# HTTP: (what is asked, status, code, host, rule)
HTTP = [
    ("fetch('http://ok.example.com:8080/')", 403, "BAWN_NET_DENIED_PORT", "ok.example.com", None),
    ("fetch('http://ok.example.com/push/x', 'POST')", 403, "BAWN_NET_DENIED_PATH", "ok.example.com", "no-push"),
    ("fetch('http://api.example.com/v1/x', 'DELETE')", 403, "BAWN_NET_DENIED_METHOD", "api.example.com", None),
    ("fetch('http://api.example.com/v2')", 403, "BAWN_NET_DENIED_PATH", "api.example.com", None),
    ("fetch('https://api.example.com/v1/x', 'DELETE')", 403, "BAWN_NET_DENIED_METHOD", "api.example.com", None),
    ("fetch('https://api.example.com/v2')", 403, "BAWN_NET_DENIED_PATH", "api.example.com", None),
    ("fetch('http://11.0.0.11/')", 403, "BAWN_NET_NOT_HANDED_OUT", "11.0.0.11", None),
    ("fetch('http://private.example.com/')", 403, "BAWN_NET_DENIED_ADDRESS", "private.example.com", None),
    ("fetch('http://api.example.com/%00')", 400, "BAWN_NET_PATH_INVALID", "api.example.com", None),
    ("fetch('http://api.example.com/v1/x', body='x' * 3000)", 413, "BAWN_NET_BODY_TOO_LARGE", "api.example.com", None),
    ("fetch('http://ok.example.com/', Host='evil.example.net')", 421, "BAWN_NET_NAME_MISMATCH", "ok.example.com", None),
]


@pytest.mark.parametrize("accept", [None, "application/json", "*/*", "text/plain", "text/html,application/json"])
def test_http(inside, accept):
    """Text, unless the client likes JSON best; and the line that says it behind the status."""
    for ask, status, code, host, rule in HTTP:
        got, headers, body = inside(ask[:-1] + (f", Accept='{accept}')" if accept else ")"))
        assert got == status and headers["bawn-code"] == code, (ask, headers, body)
        assert int(headers["content-length"]) == len(body) and headers["cache-control"] == "no-store"
        if accept != "application/json":
            assert headers["content-type"].startswith("text/plain") and code in body and len(body.splitlines()) == 4, ask
            assert re.fullmatch(rf"Bawn denied {re.escape(host)}:\d+ \(.*\), see http://bawn.internal/why", body.splitlines()[0]), body
        else:
            assert headers["content-type"] == "application/json"
            error = json.loads(body)["error"]
            assert FIELDS <= set(error) and (error["code"], error["host"], error["rule"]) == (code, host, rule), error
            assert error["reason"].endswith(".") and error["hint"], error
    assert inside.net.requests() == []


def test_a_connection_stays_usable_where_it_can(inside):
    """The next request on it is a new question."""
    assert inside("""
c = http.client.HTTPConnection('api.example.com')
seen = []
for method, path in (('GET', '/v2'), ('GET', '/v1/x'), ('DELETE', '/v1/x'), ('GET', '/v1/y')):
    c.request(method, path)
    r = c.getresponse()
    r.read()
    seen.append(r.status)
seen""") == [403, 200, 403, 200]


# Other protocols

def test_https(inside):
    """The same answer inside TLS, by the sandbox's own authority; each connection is for one of them."""
    for url, code in (("https://ok.example.com:8443/", "BAWN_NET_DENIED_PORT"), ("https://evil.example.net/x", "BAWN_NET_DENIED_HOST"),
                      ("https://11.0.0.11/", "BAWN_NET_NOT_HANDED_OUT")):
        status, headers, body = inside(f"fetch('{url}', 'POST', body='x' * 3000)")
        assert (status, headers["bawn-code"], headers["connection"]) == (403, code, "close") and code in body, body
        status, headers, body = inside(f"fetch('{url}', Accept='application/json')")
        assert json.loads(body)["error"]["message"].startswith("Bawn denied "), body
    assert inside.net.queries() == [] and inside.net.hits() == []


def test_tls(inside):
    """An alert where the server would have to speak first; and the reason where it can be read."""
    assert inside("""
s = dial('ok.example.com', 993)
try:
    ssl.create_default_context().wrap_socket(s, server_hostname='ok.example.com')
except ssl.SSLError as e:
    r = e.reason
r""") == "TLSV1_ALERT_ACCESS_DENIED"
    for url, kind in (("http://bawn.internal/why", str), ("http://bawn.internal/why.json", json.loads),
                      ("http://bawn.internal/why?host=ok.example.com", str)):
        status, headers, body = inside(f"fetch('{url}')")
        assert status == 200
        if kind is json.loads:
            refusals = json.loads(body)["refusals"]
            assert (refusals[0]["host"], refusals[0]["port"], refusals[0]["code"]) == ("ok.example.com", 993, "BAWN_NET_DENIED_PORT")
        else:
            assert "ok.example.com:993 BAWN_NET_DENIED_PORT" in body
    assert inside("fetch('http://bawn.internal/why?host=other.example.com')")[2].endswith("(nothing)\n")


def test_tls_with_another_name(inside):
    assert inside("""
try:
    ssl.create_default_context().wrap_socket(dial('ok.example.com', 443), server_hostname='evil.example.net')
except ssl.SSLError as e:
    r = e.reason
r""") == "TLSV1_UNRECOGNIZED_NAME"
    assert "BAWN_NET_NAME_MISMATCH" in inside("fetch('http://bawn.internal/why')")[2]


def test_raw_tcp(inside):
    """Whether it speaks or waits for the server to speak, a client hears of it: a reset where there is no word for it."""
    for port in (2525, 9999, 5432):
        for word in ("", "hello there\\r\\n", "\\x00\\x01\\x02"):
            assert inside(f"s = dial('ok.example.com', {port}); s.sendall(b'{word}'); s.recv(10)") == "ConnectionResetError"
        assert f"ok.example.com:{port} BAWN_NET_DENIED_PORT" in inside("fetch('http://bawn.internal/why')")[2]


# What a client says first, on which port; how the answer begins
WIRES = [
    (22, "", "Bawn denied ok.example.com:22 (no rule allows this port), see http://bawn.internal/why\r\nSSH-2.0-Bawn\r\n"),
    (2200, "SSH-2.0-x\\r\\n", "Bawn denied ok.example.com:2200 "),
    (25, "", "554 5.7.1 Bawn denied ok.example.com:25 "), (587, "", "554 5.7.1 Bawn denied ok.example.com:587 "),
    (110, "", "-ERR Bawn denied "), (143, "", "* BYE Bawn denied "), (21, "", "530 Bawn denied "),
    (6379, "*1\\r\\n$4\\r\\nPING\\r\\n", "-ERR Bawn denied ok.example.com:6379 "),
    (9418, "0032git-upload-pack /x\\0host=x\\0", "0061ERR Bawn denied ok.example.com:9418 "),
    (5432, "\\0\\0\\0\\x09\\0\\x03\\0\\0\\0", "E\0\0\0"),
]


def test_other_protocols(inside):
    for port, word, begins in WIRES:
        answer = inside(f"s = dial('ok.example.com', {port}); s.sendall(b'{word}'); all_of(s).decode('latin-1')")
        assert answer.startswith(begins) and f"Bawn denied ok.example.com:{port} (no rule allows this port), see http://bawn.internal/why" in answer, answer
    assert inside.net.hits() == []


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
def test_dns(net, transport):
    """Addresses that mean nothing elsewhere, with an extended error that says why; no server outside was asked."""
    net.rules(*RULES)
    for name in ("evil.example.net", "unknown.example.com"):
        out = net.sandbox("sh", "-c", f"for t in A AAAA HTTPS TXT MX; do dig {transport} +tries=1 $t {name}; done").out.decode()
        assert out.count("status: NOERROR") == 5 and len(re.findall(r"EDE: 1[5-8] .*BAWN_NET_DENIED_HOST", out)) == 5, out
        assert len(re.findall(r"\sA\t198\.19\.\d+\.\d+\n|\sAAAA\tfd62:6177:6e00::1:[c-f]...\n", out)) == 2 and out.count("ANSWER: 1") == 2, out
    assert net.queries() == []


def test_dns_without_edns(net):
    net.rules(*RULES)
    out = net.sandbox("dig", "+noedns", "+tries=1", "evil.example.net").out
    assert b"status: NOERROR" in out and b"EDE" not in out and net.queries() == []


# The proxy port

TARGETS = {
    "evil.example.net:443": ("BAWN_NET_DENIED_HOST", 403), "ok.example.com:22": ("BAWN_NET_DENIED_PORT", 403),
    "10.0.0.5:80": ("BAWN_NET_NOT_HANDED_OUT", 403), "private.example.com:80": ("BAWN_NET_DENIED_ADDRESS", 403),
    "a..b:80": ("BAWN_NET_NAME_INVALID", 400),
}


def test_connect(inside):
    for target, (code, status) in TARGETS.items():
        check_connect(inside, target, code, status)


def check_connect(inside, target, code, status):
    answer = inside(f"s = dial(*PROXY); s.sendall(b'CONNECT {target} HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'); all_of(s).decode()")
    assert answer.startswith(f"HTTP/1.1 {status} Bawn denied ")
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ") and f"Bawn-Code: {code}" in head
    assert code in body and body.startswith("Bawn denied ")


def test_absolute_uri(inside):
    ask = "s = dial(*PROXY); s.sendall(b'GET http://evil.example.net/x HTTP/1.1\\r\\nHost: evil.example.net\\r\\n%s\\r\\n'); all_of(s).decode()"
    answer = inside(ask % "Accept: application/json\\r\\n")
    assert answer.startswith("HTTP/1.1 403 ") and json.loads(answer.partition("\r\n\r\n")[2])["error"]["rule"] == "no"
    answer = inside(ask % "Accept: text/html\\r\\n")
    assert answer.startswith("HTTP/1.1 403 ") and "Content-Type: text/plain" in answer


SOCKS = [("evil.example.net", 443, 2), ("ok.example.com", 22, 2), ("private.example.com", 80, 2), ("10.0.0.5", 80, 2), ("ok.example.com", 80, 0),
         ("api.example.com", 9, 4)]


def test_socks(inside):
    """2: not allowed by the rules; 4: nobody there."""
    for host, port, reply in SOCKS:
        assert inside(f"""
s = dial(*PROXY)
s.sendall(b"\\x05\\x01\\x00")
assert s.recv(2) == b"\\x05\\x00"
name = b"{host}"
s.sendall(b"\\x05\\x01\\x00\\x03" + bytes([len(name)]) + name + struct.pack("!H", {port}))
s.recv(10)[1]""") == reply, (host, port)


def test_curl_says_why(net):
    """What an agent sees with the usual tool, whatever it speaks."""
    net.rules(*RULES)
    r = net.sandbox("curl", "-sS", "http://evil.example.net/")
    assert b"BAWN_NET_DENIED_HOST" in r.out and b"Rule 'no' (user) denies evil.example.net" in r.out
    r = net.sandbox("curl", "-sSv", "https://evil.example.net/")
    assert r.rc == 0 and b"Rule 'no' (user) denies evil.example.net" in r.out and b"Bawn-Code: BAWN_NET_DENIED_HOST" in r.err, r
    r = net.sandbox("curl", "-sSv", "-x", "http://127.0.0.1:15001", "https://evil.example.net/")
    assert r.rc == 56 and b"403 Bawn denied evil.example.net:443 (rule 'no' denies it)" in r.err, r


# The end of the run

SCRIPT = """
import http.client, socket
def get(host, path, port=80):
    c = http.client.HTTPConnection(host, port)
    c.request("GET", path)
    return len(c.getresponse().read())
for i in range(3):
    get("ok.example.com", "/bytes/100000")
s = socket.create_connection(("ok.example.com", 7))
s.sendall(b"x" * 50000)
s.shutdown(socket.SHUT_WR)
n = 0
while (d := s.recv(65536)):
    n += len(d)
assert n == 50000
for i in range(4):
    get("ok.example.com", "/", 8080)
for i in range(2):
    try:
        socket.getaddrinfo("evil.example.net", 80, socket.AF_INET)
    except OSError:
        pass
"""


def test_the_summary_is_right(net):
    net.rules(*RULES)
    r = net.python(SCRIPT)
    assert r.rc == 0, r
    said = r.err.decode()
    assert "network: ok.example.com:8080 denied 4 times (BAWN_NET_DENIED_PORT), evil.example.net denied (BAWN_NET_DENIED_HOST); see" in said, said
    assert re.search(r"reached ok.example.com:80 \(3 requests, 29\d\.\d KiB\), ok.example.com:7 \(1 connection, 97.6 KiB\)", said), said


def test_the_json_is_right(net):
    net.rules(*RULES)
    r = net.python(SCRIPT, options=["--json"])
    network = json.loads(r.err.splitlines()[-1])["network"]
    reached = {(h["host"], h["port"]): h for h in network["reached"]}
    assert set(reached) == {("ok.example.com", 80), ("ok.example.com", 7)}
    web, raw = reached["ok.example.com", 80], reached["ok.example.com", 7]
    assert (web["requests"], web["connections"], raw["requests"], raw["connections"]) == (3, 0, 0, 1)
    assert (raw["sent"], raw["received"]) == (50000, 50000)
    assert 300000 < web["received"] < 301000 and 100 < web["sent"] < 1000
    assert {(h["host"], h["port"], h["count"], h["code"]) for h in network["refused"]} == {
        ("ok.example.com", 8080, 4, "BAWN_NET_DENIED_PORT"), ("evil.example.net", 0, 1, "BAWN_NET_DENIED_HOST")}


def test_nothing_refused_nothing_said(net):
    net.rules(*RULES)
    r = net.python("""
import http.client
c = http.client.HTTPConnection("ok.example.com")
c.request("GET", "/")
assert c.getresponse().status == 200
""")
    assert r.rc == 0 and b"network" not in r.err, r
    r = net.python("pass", options=["--json"])
    assert json.loads(r.err.splitlines()[-1])["network"] == {"reached": [], "refused": [], "failed": [], "secrets": []}


def test_many_hosts_are_counted_together(net):
    r = net.python("""
import socket
for i in range(300):
    try:
        socket.getaddrinfo(f"h{i}.example.org", 80, socket.AF_INET)
    except OSError:
        pass
""", options=["--json"])
    refused = json.loads(r.err.splitlines()[-1])["network"]["refused"]
    assert sum(h["count"] for h in refused) == 300 and len(refused) <= 257 and refused[-1]["host"] is None


# Repeats

RETRIES = """
import socket
def ask():
    s = socket.create_connection(('registry.example.org', 80))
    s.sendall(b'GET /package HTTP/1.1\\r\\nHost: registry.example.org\\r\\n\\r\\n')
    return s
for i in range(4):
    for s in [ask() for i in range(300)]:
        while s.recv(65536):
            pass
"""


def test_repeats_are_folded(net):
    """A client that tries again and again: a few lines in both logs, with a count, and one in the summary. None is lost."""
    r = net.python(RETRIES)
    assert r.rc == 0 and b"network: registry.example.org:80 denied 1,200 times (BAWN_NET_DENIED_HOST); see" in r.err, r
    audit = [e for e in (json.loads(line) for line in net.bawn("log", "--json").out.splitlines()) if e["type"] == "network"]
    for log in (net.log(), [e["data"] if "data" in e else e for e in audit]):
        lines = [e for e in log if e.get("host") == "registry.example.org" and e.get("port") == 80]
        assert sum(e.get("count", 1) for e in lines) == 1200 and 20 < len(lines) <= 24, (len(lines), lines[-3:])


def test_a_denied_host_is_shown_once_while_the_run_goes_on(net, tmp_path):
    """At a terminal; and before the command ends."""
    net.rules({"id": "no", "action": "deny", "host": ["evil.example.net", "x.example.org"]})
    script = "for i in 1 2 3; do curl -s http://evil.example.net/ >/dev/null; done; echo 'after'; curl -s http://x.example.org/ >/dev/null"
    p = pexpect.spawn(net.enter(*net.command("sh", "-c", script))[0], [str(w) for w in net.enter(*net.command("sh", "-c", script))[1:]],
                      env=net.runner.environ(None), timeout=120, encoding="utf-8")
    p.expect_exact("bawn: network: evil.example.net:80 denied (BAWN_NET_DENIED_HOST)")
    p.expect_exact("after")
    p.expect_exact("bawn: network: x.example.org:80 denied (BAWN_NET_DENIED_HOST)")
    p.expect_exact("bawn: network: evil.example.net:80 denied 3 times (BAWN_NET_DENIED_HOST), x.example.org:80 denied (BAWN_NET_DENIED_HOST); see")
    p.expect(pexpect.EOF)


# Allowed, and not to be reached

def test_failures_are_in_the_summary(net):
    """They are no denials: a server that is not there, a name without address, a certificate that is not trusted."""
    net.names["dead.example.com"] = ["11.0.0.99"]
    net.names["wrong.other.test"] = ["11.0.0.10"]
    net.rules({"action": "allow", "host": ["dead.example.com", "nowhere.example.com"]}, {"action": "allow", "host": "wrong.other.test", "inspect": True})
    r = net.sandbox("sh", "-c", "curl -s http://ok.example.com:81/; curl -s http://nowhere.example.com/; curl -s https://wrong.other.test/; true",
                    allow=["ok.example.com"])
    said = r.err.decode()
    for host, why in (("ok.example.com:81", "refused"), ("nowhere.example.com:80", "no address"), ("wrong.other.test:443", "not trusted")):
        assert re.search(rf"network: .*{re.escape(host)} not reached \([^)]*{why}", said), (host, said)
    assert "denied" not in said, said
    network = json.loads(net.sandbox("sh", "-c", "curl -s http://nowhere.example.com/; true", options=["--json"]).err.splitlines()[-1])["network"]
    assert [(h["host"], h["port"], h["count"]) for h in network["failed"]] == [("nowhere.example.com", 80, 1)] and network["refused"] == []


@pytest.mark.parametrize("kind, word", [("407", "407"), ("dead", "proxy")])
def test_the_hosts_proxy_is_in_the_summary(net, kind, word):
    port = 3129
    if kind == "407":
        net.server("/usr/bin/python3", "-c", """
import socket
s = socket.create_server(("11.0.0.20", 3129))
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(b"HTTP/1.1 407 Proxy Authentication Required\\r\\nContent-Length: 0\\r\\n\\r\\n")
    c.close()
""", ready=None)
        until(lambda: net.outside("bash", "-c", "exec 3<>/dev/tcp/11.0.0.20/3129").rc == 0)
    proxy = f"http://11.0.0.20:{port}"
    r = net.sandbox("curl", "-s", "http://ok.example.com/", allow=["ok.example.com"], env={"http_proxy": proxy, "https_proxy": proxy})
    assert re.search(rf"network: ok.example.com:80 not reached \([^)]*{word}", r.err.decode()) and b"denied" not in r.err, r
