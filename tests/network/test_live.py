# SPDX-License-Identifier: Apache-2.0
"""Rules that change while a sandbox runs hold at once, for new connections and for open ones; what the commands say is what the gate does."""

import collections
import json

import pytest
from inside import Inside, until

OK = {"id": "ok", "action": "allow", "host": "ok.example.com"}
OTHER = "http://other.example.com/"


def policy(net, *args):
    r = net.bawn("policy", *args)
    assert r.rc == 0, r
    return r


def verdicts(net):
    return [e for e in net.log() if e["kind"] in ("lookup", "connection", "request")]


# Rules come and go

@pytest.mark.parametrize("where", ["user", "project", "sandbox"])
def test_new_connections(net, where):
    with Inside(net, allow=["ok.example.com"]) as inside:
        assert inside("get('http://ok.example.com/')") == 200 and inside(f"get('{OTHER}')") == 403
        place = {"user": [], "project": ["--project"], "sandbox": ["--sandbox", inside.pid]}[where]
        policy(net, "allow", *place, "--id", "mine", "other.example.com")
        until(lambda: inside(f"get('{OTHER}')") == 200, "the permission")
        policy(net, *(["deny", "other.example.com"] if where == "sandbox" else ["rm", "mine"]), *place)
        until(lambda: inside(f"get('{OTHER}')") != 200, "the denial")
        assert inside("get('http://ok.example.com/')") == 200


def test_other_sandboxes_have_nothing_of_it(net):
    with Inside(net, allow=["ok.example.com"]) as one, Inside(net, allow=["ok.example.com"]) as two:
        for inside in (one, two):
            assert inside("get('http://ok.example.com/')") == 200
        policy(net, "allow", "--sandbox", one.pid, "other.example.com")
        until(lambda: one(f"get('{OTHER}')") == 200)
        assert two(f"get('{OTHER}')") == 403
        assert b"other.example.com" in policy(net, "ls", "--sandbox", one.pid).out
        assert b"other.example.com" not in policy(net, "ls", "--sandbox", two.pid).out


def test_a_project_without_trust_only_denies(net):
    net.rules(OK)
    with Inside(net) as inside:
        assert inside("get('http://ok.example.com/')") == 200
        net.runner.write(".bawn/network.json", json.dumps({"rules": [{"action": "allow", "host": "other.example.com"}, {**OK, "action": "deny"}]}))
        until(lambda: inside("get('http://ok.example.com/')") != 200)
        assert inside(f"get('{OTHER}')") == 403 and net.hits(to="11.0.0.11") == []
        assert net.bawn("trust", "--yes").rc == 0
        until(lambda: inside(f"get('{OTHER}')") == 200)
        net.runner.write(".bawn/network.json", json.dumps({"rules": [{"action": "allow", "host": ["other.example.com", "evil.example.net"]}]}))
        until(lambda: inside("get('http://ok.example.com/')") == 200)  # another content than the trusted one: it only denies again
        assert inside(f"get('{OTHER}')") == 403 and inside("get('http://evil.example.net/')") == 403


# Open connections

OPEN = {
    "relay": ("s = dial('ok.example.com', 7)", "echo(s)", "ping"),
    "tls": ("s = tls('ok.example.com'); s.sendall(b'GET /hang HTTP/1.1\\r\\nHost: ok.example.com\\r\\n\\r\\n')", "1", 1),
    "looked into": ("import http.client\ns = http.client.HTTPConnection('ok.example.com'); s.connect(); c, s = s, s.sock",
                    "c.request('GET', '/')\nr = c.getresponse(); r.read(); r.status", 200),
    "looked into tls": ("import http.client\ns = http.client.HTTPSConnection('looked.example.com'); s.connect(); c, s = s, s.sock",
                        "c.request('GET', '/')\nr = c.getresponse(); r.read(); r.status", 200),
    "event stream": ("s = dial('ok.example.com', 80); s.sendall(b'GET /hang HTTP/1.1\\r\\nHost: ok.example.com\\r\\n\\r\\n')", "1", 1),
    "websocket": ("s = websocket('ok.example.com')", "frame(s, 'ping')", "ping"),
    "websocket in tls": ("s = websocket('looked.example.com', True)", "frame(s, 'ping')", "ping"),
    "proxy": ("s = dial(*PROXY); s.sendall(b'CONNECT ok.example.com:7 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
              "while not s.recv(1) == b'\\r' or not s.recv(3) == b'\\n\\r\\n': pass",
              "echo(s)", "ping"),
}


@pytest.mark.parametrize("kind", OPEN)
def test_open_connections_are_closed(net, kind):
    make, use, answer = OPEN[kind]
    net.names["looked.example.com"] = ["11.0.0.10"]
    net.rules(OK, {"id": "looked", "action": "allow", "host": "looked.example.com", "inspect": True})
    with Inside(net, allow=["other.example.com"]) as inside:
        assert inside("kept = dial('other.example.com', 7)\necho(kept)") == "ping"
        assert inside(make) is None and inside(use) == answer
        inside.start("closed(s)")
        net.rules()
        assert inside.result() in ("reset", "end")
        assert inside("echo(kept)") == "ping"  # what is still allowed was left alone
        assert inside("get('http://ok.example.com/')") == 403
    assert len(net.hits(kind="connect", to="11.0.0.10")) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("path", ["/ws", "/hang"])
def test_open_requests_are_closed_by_rules_about_paths(net, scheme, path):
    net.rules({**OK, "inspect": True})
    with Inside(net) as inside:
        if path == "/ws":
            assert inside(f"s = websocket('ok.example.com', {scheme == 'https'})\nframe(s, 'ping')") == "ping"
        else:
            inside(f"s = tls('ok.example.com') if '{scheme}' == 'https' else dial('ok.example.com', 80)\n"
                   "s.sendall(b'GET /hang HTTP/1.1\\r\\nHost: ok.example.com\\r\\n\\r\\n')")
            until(lambda: net.requests() == ["GET /hang HTTP/1.1"])
        inside.start("closed(s)")
        policy(net, "deny", "ok.example.com", "--path", path)
        assert inside.result() in ("reset", "end")
        assert inside(f"get('{scheme}://ok.example.com/other')") == 200


def test_what_is_closed_is_no_end(net):
    """A body that lasts until the connection ends must not look whole."""
    net.rules(OK)
    net.names["stream.example.com"] = ["11.0.0.20"]
    net.server("/usr/bin/python3", "-c", """
import socket
s = socket.create_server(("11.0.0.20", 80))
c, _ = s.accept()
c.recv(65536)
c.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\nhalf of it")
c.recv(1)
""", ready=None)
    with Inside(net, allow=["ok.example.com"]) as inside:
        net.rules({"action": "allow", "host": "stream.example.com"})
        until(lambda: inside("s = dial('stream.example.com', 80); s.sendall(b'GET / HTTP/1.1\\r\\nHost: stream.example.com\\r\\n\\r\\n'); "
                             "b''.join(iter(lambda: s.recv(1), b't')).decode()").startswith("HTTP/1.1 200"))
        inside.start("closed(s)")
        net.rules()
        assert inside.result() == "reset"


# Files that are wrong

def test_a_broken_file_is_told_and_changes_nothing(net):
    path = net.rules(OK)
    with Inside(net) as inside:
        assert inside("get('http://ok.example.com/')") == 200
        inside("s = dial('ok.example.com', 7)")
        path.write_text('{"rules": [{"action": "allow", "host": "other.example.com"}, {"action": "perhaps"}]}')
        until(lambda: "the network rules stay as they were" in inside.err())
        assert f"{path}:1:" in inside.err()
        assert inside("get('http://ok.example.com/')") == 200 and inside("echo(s)") == "ping"
        assert inside(f"get('{OTHER}')") == 403
        net.rules({"action": "allow", "host": "other.example.com"})
        until(lambda: inside(f"get('{OTHER}')") == 200)
        assert inside("closed(s)") == "reset"


def test_a_broken_file_stops_a_new_run(net):
    path = net.rules(OK)
    path.write_text("{")
    r = net.bawn("run", "--", "true")
    assert r.rc in (64, 125) and str(path).encode() in r.err, r


# The organisation's floor

def test_the_floor_cannot_be_loosened(net, floor):
    floor({"id": "org", "action": "deny", "host": "other.example.com"})
    net.rules(OK, {"action": "allow", "host": "other.example.com"})
    with Inside(net, allow=["other.example.com"]) as inside:
        assert inside("get('http://ok.example.com/')") == 200 and inside(f"get('{OTHER}')") == 403
        policy(net, "allow", "--sandbox", inside.pid, "other.example.com")
        policy(net, "allow", "--project", "other.example.com")
        assert net.bawn("trust", "--yes").rc == 0
        said = policy(net, "allow", "--first", "other.example.com")
        assert b"still denied" in said.err
        policy(net, "allow", "--sandbox", inside.pid, "both.example.com")  # the sign that the others are in force
        until(lambda: inside("get('http://both.example.com/')") == 200)
        assert inside(f"get('{OTHER}')") == 403
    for mode in ("full", "limited"):
        with Inside(net, options=["--network", mode]) as inside:
            assert inside("get('http://ok.example.com/')") == 200 and inside(f"get('{OTHER}')") == 403
    assert {e["layer"] for e in verdicts(net) if e["host"] == "other.example.com"} == {"organisation"}
    r = net.bawn("policy", "explain", "--json", "other.example.com:80")
    assert r.rc == 1 and (r.json()["rule"], r.json()["layer"]) == ("org", "organisation")
    assert net.hits(to="11.0.0.11") == []


def test_the_floor_comes_while_a_sandbox_runs(net, floor):
    """Even its folder was not there when the sandbox started."""
    with Inside(net, allow=["ok.example.com", "other.example.com"]) as inside:
        assert inside("get('http://ok.example.com/')") == 200
        assert inside("s = dial('ok.example.com', 7)\necho(s)") == "ping"
        inside.start("closed(s)")
        floor({"id": "org", "action": "deny", "host": "ok.example.com"})
        assert inside.result() == "reset"
        assert inside("get('http://ok.example.com/')") == 403 and inside(f"get('{OTHER}')") == 200


# The commands and the gate agree

TABLE_RULES = [
    {"id": "no-push", "action": "deny", "host": "ok.example.com", "ports": [80, 443], "methods": ["POST"], "paths": ["/push/**"]},
    {"id": "ok", "action": "allow", "host": "ok.example.com", "ports": [80, 443, 7]},
    {"id": "api", "action": "allow", "host": "api.example.com", "methods": ["GET"], "paths": ["/v1/*"]},
    {"id": "not-this", "action": "deny", "host": "a.deep.example.org"},
    {"id": "deep", "action": "allow", "host": "**.deep.example.org"},
    {"id": "star", "action": "allow", "host": "*.star.example.org", "ports": [80]},
    {"id": "lan", "action": "allow", "host": "private.example.com", "allow_private": True},
    {"id": "public", "action": "allow", "host": ["loop.example.com", "metadata.example.com", "lan.example.com"]},
    {"id": "address", "action": "allow", "host": "11.0.0.10", "ports": [8080]},
    {"id": "ten", "action": "allow", "host": "10.0.0.0/8", "ports": [80]},
    {"id": "asked", "action": "ask", "host": "asked.example.com"},
]
TABLE_NAMES = {"api.example.com": "11.0.0.10", "a.deep.example.org": "11.0.0.10", "b.deep.example.org": "11.0.0.10",
               "c.b.deep.example.org": "11.0.0.11", "a.star.example.org": "11.0.0.11", "b.a.star.example.org": "11.0.0.11",
               "star.example.org": "11.0.0.11", "asked.example.com": "11.0.0.10", "lan.example.com": "192.168.7.7"}
TABLE = [
    # verdict, url, method
    ("allow", "http://ok.example.com/"), ("allow", "https://ok.example.com/"), ("allow", "http://ok.example.com/push/x"),
    ("deny", "http://ok.example.com/push/x", "POST"), ("deny", "https://ok.example.com/push/x", "POST"),
    ("allow", "http://ok.example.com/push", "PUT"), ("deny", "http://ok.example.com/a/../push/x", "POST"),
    ("deny", "http://ok.example.com/%70ush/x", "POST"), ("deny", "http://ok.example.com:8080/"),
    ("allow", "tcp://ok.example.com:7"), ("deny", "tcp://ok.example.com:2525"),
    ("allow", "http://api.example.com/v1/x"), ("allow", "https://api.example.com/v1/x"), ("deny", "https://api.example.com/v1/x", "POST"),
    ("deny", "https://api.example.com/v1/x/y"), ("deny", "https://api.example.com/v2"), ("deny", "https://api.example.com/v1/../v2"),
    ("deny", "http://a.deep.example.org/"), ("allow", "http://b.deep.example.org/"), ("allow", "http://c.b.deep.example.org/"),
    ("allow", "http://a.star.example.org/"), ("deny", "http://b.a.star.example.org/"), ("deny", "http://star.example.org/"),
    ("deny", "tcp://a.star.example.org:7"),
    ("allow", "http://private.example.com/"), ("deny", "http://lan.example.com/"), ("deny", "http://metadata.example.com/"),
    ("deny", "http://loop.example.com/"),
    ("deny", "http://11.0.0.10/"), ("allow", "http://11.0.0.10:8080/"), ("allow", "http://10.0.0.5/"), ("deny", "tcp://10.0.0.5:7"),
    ("deny", "http://192.168.7.7/"), ("deny", "http://asked.example.com/"), ("deny", "http://evil.example.net/"), ("deny", "http://[2a00:11::10]/"),
]


def split(url):
    scheme, _, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    host, port = (authority, "") if authority.endswith("]") else (authority.partition(":")[::2])
    return scheme, host, port or {"http": "80", "https": "443"}[scheme], "/" + path


@pytest.fixture
def table(net):
    net.names.update({name: [address] for name, address in TABLE_NAMES.items()})
    net.rules(*TABLE_RULES, mode="list")


def try_all(inside):
    for _, url, *method in TABLE:
        scheme, host, port, _ = split(url)
        if scheme == "tcp":
            yield inside(f"echo(dial('{host}', {port}))") == "ping"
        else:
            yield inside(f"get('{url}', '{method[0] if method else 'GET'}')") == 200


def test_what_is_explained_is_what_happens(net, table):
    with Inside(net) as inside:
        assert [(url, *method, "allow" if worked else "deny") for (_, url, *method), worked in zip(TABLE, try_all(inside), strict=True)] == \
            [(url, *method, verdict) for verdict, url, *method in TABLE]
        inside.end()
    log = [e for e in verdicts(net) if e["kind"] != "lookup"]  # of denied names: the connection that follows is denied, too
    lines = []
    for verdict, url, *method in TABLE:
        scheme, host, port, path = split(url)
        address = (net.names.get(host) or [None])[0]
        words = [f"{host}:{port}", *([] if scheme == "tcp" else [(method or ["GET"])[0], path])]
        said = net.bawn("policy", "explain", "--json", *words, *(["--address", address] if address else [])).json()
        entry = log.pop(0)
        if said["action"] == "ask":  # nobody can be asked there
            assert verdict == entry["action"] == "deny"
            continue
        happened = (verdict, entry["code"], entry["rule"], entry["layer"])
        assert (said["action"], said["code"], said["rule"] or "", said["layer"]) == happened, (url, method, said, entry)
        lines.append(" ".join([verdict, *words, *([f"address={address}"] if address else [])]))
    assert log == []
    cases = net.runner.write("cases", "\n".join(lines) + "\n")
    r = net.bawn("policy", "test", cases)
    assert r.rc == 0, r
    cases.write_text("\n".join({"allow": "deny", "deny": "allow"}[line.partition(" ")[0]] + line[line.index(" "):] for line in lines) + "\n")
    r = net.bawn("policy", "test", cases)
    assert r.rc == 1 and r.out.count(b"\n") >= len(lines), r


def test_the_log_command_shows_the_log(net):
    with Inside(net, allow=["ok.example.com"]) as inside:
        assert inside("[get('http://ok.example.com/'), get('http://ok.example.com/x')]") == [200, 200]
        assert inside(f"get('{OTHER}')") == 403
        inside.end()
    entries = [json.loads(line) for line in net.bawn("policy", "log", "--json").out.splitlines()]
    assert entries == net.log() and len(entries) >= 3
    denied = [json.loads(line) for line in net.bawn("policy", "log", "--json", "--denied").out.splitlines()]
    assert denied == [e for e in entries if e["action"] == "deny"] and {e["host"] for e in denied} == {"other.example.com"}
    text = net.bawn("policy", "log").out.decode()
    assert text.count("ok.example.com") >= 2 and "BAWN_NET_DENIED_HOST" in text


# A look inside TLS

def no_authority(net):
    """There is none in the stock, and none can be made."""
    state = net.runner.home / ".local" / "state" / "bawn"
    for part in (state.parent.parent, state.parent, state):
        if not part.exists():
            net.runner.mkdir(part, 0o700)
    (state / "ca").write_text("")
    net.runner.own(state / "ca")


def test_a_denial_without_a_certificate_authority(net):
    """Nothing but an alert can be said to a TLS client then; all others get their answer."""
    no_authority(net)
    net.rules(OK)
    with Inside(net) as inside:
        assert inside("get('https://ok.example.com/')") == 200
        assert inside("""
try:
    tls('evil.example.net')
except ssl.SSLError as e:
    r = e.reason
r""") == "TLSV1_ALERT_ACCESS_DENIED"
        assert inside("get('http://evil.example.net/')") == 403
        assert "evil.example.net:443 BAWN_NET_DENIED_HOST" in inside("fetch('http://bawn.internal/why')")[2]
    assert net.hits(to="11.0.0.11") == []


def test_a_rule_that_needs_a_look_comes_later(net):
    with Inside(net, allow=["other.example.com"]) as inside:
        net.rules(OK)
        until(lambda: inside("get('https://ok.example.com/')") == 200)
        net.rules({**OK, "paths": ["/allowed"]})
        until(lambda: inside("get('https://ok.example.com/secret')") == 403)
        assert inside("get('https://ok.example.com/allowed')") == 200


def test_a_rule_that_needs_a_look_without_a_certificate_authority(net):
    """Nothing is passed on unread instead."""
    no_authority(net)
    with Inside(net, allow=["other.example.com"]) as inside:
        net.rules(OK)
        until(lambda: inside("get('https://ok.example.com/')") == 200)
        assert inside("s = tls('ok.example.com'); s.sendall(b'GET /hang HTTP/1.1\\r\\nHost: ok.example.com\\r\\n\\r\\n')") is None
        net.rules({**OK, "paths": ["/allowed"]})
        assert inside("closed(s)") in ("reset", "end")
        net.forget()
        assert inside("get('https://ok.example.com/allowed')") in ("SSLError", "SSLEOFError", "ConnectionResetError", "SSLCertVerificationError")
        assert inside("get('https://ok.example.com/secret')") not in (200, 403)
        assert net.requests() == []
        why = inside("fetch('http://bawn.internal/why?host=ok.example.com')")
        assert why[0] == 200 and "certificate authority" in why[2], why
        assert inside("get('http://ok.example.com/allowed')") == 200 and inside("get('http://ok.example.com/secret')") == 403
        assert inside("get('https://other.example.com/')") == 200
        inside.end()
    refused = [e for e in net.log() if e["host"] == "ok.example.com" and e["port"] == 443 and (e["action"] == "deny" or e["kind"] == "trouble")]
    assert refused, net.log()


# The log

@pytest.mark.parametrize("kind", ["relay", "request", "proxy", "refused"])
def test_every_verdict_is_logged_once(net, kind):
    """200 at once, each with a path or name of its own."""
    net.rules(*[{"action": "allow", "host": f"h{i}.example.com"} for i in range(200)] if kind != "refused" else [])
    net.names.update({f"h{i}.example.com": ["11.0.0.10"] for i in range(200)})
    make = {
        "relay": "echo(dial(f'h{i}.example.com', 7))",
        "request": "get(f'http://h{i}.example.com/{i}')",
        "proxy": "s.sendall(f'CONNECT h{i}.example.com:7 HTTP/1.1\\r\\n\\r\\nping'.encode()), s.recv(12).decode()",
        "refused": "s.sendall(f'CONNECT h{i}.example.com:7 HTTP/1.1\\r\\n\\r\\nping'.encode()), s.recv(12).decode()",
    }[kind]
    answer = {"relay": "ping", "request": 200, "proxy": "HTTP/1.1 200", "refused": "HTTP/1.1 403"}[kind]
    with Inside(net) as inside:
        assert inside("get('http://bawn.internal/why')") == 200  # the gate runs: its buffer for lookups is no part of this
        results = inside(f"""
import threading
results, gate = {{}}, threading.Barrier(200)
def one(i):
    s = dial(*PROXY) if '{kind}' in ('proxy', 'refused') else None
    gate.wait()
    results[i] = {make}
    if s: s.close()
threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
[t.start() for t in threads]
[t.join() for t in threads]
[results[i] if isinstance(results[i], (str, int)) else results[i][1] for i in range(200)]
""")
        assert results == [answer] * 200
        inside.end()
    seen = collections.Counter((e["kind"], e["host"], e["action"]) for e in verdicts(net))
    action = "deny" if kind == "refused" else "allow"
    assert seen == {("request" if kind == "request" else "connection", f"h{i}.example.com", action): 1 for i in range(200)}
