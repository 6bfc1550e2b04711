# SPDX-License-Identifier: Apache-2.0
"""Where the host reaches the internet through a proxy, so does the gate: the host's variables count, and what they hold stays outside."""

import base64
import json

import pytest
from inside import Inside

PROXY = "http://11.0.0.10:3128"
SECRET = "geheim-4711"
VARIABLES = {"http_proxy": PROXY, "https_proxy": PROXY}


def asked(net):
    return [h["line"] for h in net.hits(kind="proxy")]


@pytest.mark.parametrize("how", ["small", "capitals", "without scheme"])
@pytest.mark.parametrize("url, target", [("http://ok.example.com/", "ok.example.com:80"), ("https://ok.example.com/", "ok.example.com:443"),
                                         ("http://ok.example.com:8080/", "ok.example.com:8080"), ("http://six.example.com/", "six.example.com:80")])
def test_everything_goes_through_it(net, how, url, target):
    env = {"small": VARIABLES, "capitals": {k.upper(): v for k, v in VARIABLES.items()},
           "without scheme": {k: v[7:] for k, v in VARIABLES.items()}}[how]
    with Inside(net, allow=["ok.example.com", "six.example.com"], env=env) as inside:
        assert inside(f"get('{url}')") == 200
    assert asked(net) == [f"CONNECT {target} HTTP/1.1"]
    assert net.queries() == [], "the proxy looks names up, not we"


def test_any_protocol(net):
    with Inside(net, allow=["ok.example.com"], env=VARIABLES) as inside:
        assert inside("echo(dial('ok.example.com', 7), 'x' * 300000) == 'x' * 300000")
        assert inside("dial('ok.example.com', 2525).recv(5).decode()") == "220 h"
        assert inside("frame(websocket('ok.example.com', True), 'ping')") == "ping"
    assert asked(net) == [f"CONNECT ok.example.com:{port} HTTP/1.1" for port in (7, 2525, 443)] and net.queries() == []


def test_looked_into(net):
    net.rules({"action": "allow", "host": "ok.example.com", "paths": ["/yes"]})
    with Inside(net, env=VARIABLES) as inside:
        assert inside("get('https://ok.example.com/yes')") == 200 and inside("get('https://ok.example.com/no')") == 403
    assert net.requests() == ["GET /yes HTTP/1.1"] and set(asked(net)) == {"CONNECT ok.example.com:443 HTTP/1.1"}


def test_the_proxy_of_a_scheme(net):
    """http_proxy is for port 80, https_proxy for the rest, as programs have it."""
    with Inside(net, allow=["ok.example.com"], env={"https_proxy": PROXY}) as inside:
        assert inside("get('http://ok.example.com/')") == 200 and asked(net) == []
        assert inside("get('https://ok.example.com/')") == 200 and asked(net) == ["CONNECT ok.example.com:443 HTTP/1.1"]


@pytest.mark.parametrize("value", ["ok.example.com", ".example.com", "example.com", "x.org, ok.example.com", "*", "OK.Example.Com"])
def test_exceptions(net, value):
    with Inside(net, allow=["ok.example.com", "evil.example.net"], env={**VARIABLES, "no_proxy": value}) as inside:
        assert inside("get('https://ok.example.com/')") == 200 and asked(net) == []
        assert inside("get('https://evil.example.net/')") == 200
    assert asked(net) == ([] if value == "*" else ["CONNECT evil.example.net:443 HTTP/1.1"])


@pytest.mark.parametrize("value", ["k.example.com", "ok.example.com.evil.net", "ok.example"])
def test_what_is_no_exception(net, value):
    with Inside(net, allow=["ok.example.com"], env={**VARIABLES, "no_proxy": value}) as inside:
        assert inside("get('https://ok.example.com/')") == 200
    assert asked(net) == ["CONNECT ok.example.com:443 HTTP/1.1"]


SEARCH = f"""
import glob, subprocess
found = []
def look(place, data):
    if any(word in data for word in (b"{SECRET[:5]}", b"11.0.0.10:3128", b"{base64.b64encode(('me:' + SECRET).encode()).decode()[:16]}")):
        found.append(place)
for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
    for name in ("environ", "cmdline", "status", "mountinfo", "stat"):
        try:
            look(f"/proc/{{pid}}/{{name}}", open(f"/proc/{{pid}}/{{name}}", "rb").read())
        except OSError:
            pass
for top in ("/etc", "/run", "/tmp", "/var/tmp", "/home", "/root", "/dev/shm", os.getcwd(), os.environ["HOME"]):
    for folder, _, files in os.walk(top):
        for file in files:
            path = os.path.join(folder, file)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 20:
                    look(path, open(path, "rb").read())
            except OSError:
                pass
look("environ", repr(dict(os.environ)).encode())
"""


@pytest.mark.parametrize("written", [SECRET, SECRET.replace("m", "%6D").replace("-", "%2d")])
def test_credentials_reach_the_proxy_and_stay_outside(net, written):
    variables = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    env = {name: f"http://me:{written}@11.0.0.10:3128/" for name in variables}
    with Inside(net, allow=["ok.example.com"], env=env) as inside:
        answer = inside("fetch('http://ok.example.com/')")
        assert answer[0] == 200 and SECRET not in json.dumps(answer) and "x-proxy" not in answer[1]
        assert inside("get('https://ok.example.com/')") == 200
        inside("open('planted', 'w').write('geheim-planted'); None")
        assert set(inside(SEARCH + "found")) == {str(net.runner.workspace / "planted")}, "the search itself works, and finds nothing of ours"
        inside("os.remove('planted')")
        assert inside("get('http://evil.example.net/')") == 403
        assert SECRET not in json.dumps(inside("fetch('http://bawn.internal/why')"))
        status, said = inside.end()
    basic = "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert [dict(h["headers"])["proxy-authorization"] for h in net.hits(kind="proxy")] == [basic] * 2
    assert [h for h in net.hits(kind="request") if "proxy-authorization" in dict(h["headers"])] == [], "they are the proxy's alone"
    assert SECRET not in said + json.dumps(net.log())


def test_what_is_denied_never_reaches_the_proxy(net):
    with Inside(net, allow=["ok.example.com:80"], env=VARIABLES) as inside:
        assert inside("get('http://evil.example.net/')") == 403
        assert inside("get('http://ok.example.com:8080/')") == 403
        for address in ("10.0.0.5", "169.254.169.254", "192.168.7.7", "11.0.0.11", "172.31.0.1"):
            assert inside(f"get('http://{address}/')") == 403
        for target in ("evil.example.net:80", "10.0.0.5:80", "[fd12::1]:80", "169.254.169.254:80"):
            assert inside(f"s = dial(*PROXY); s.sendall(b'CONNECT {target} HTTP/1.1\\r\\n\\r\\n'); s.recv(12).decode()") == "HTTP/1.1 403"
        assert asked(net) == [] and net.queries() == []
        assert inside("get('http://ok.example.com/')") == 200
    assert len(asked(net)) == 1


def test_full_keeps_private_addresses_out(net):
    with Inside(net, env=VARIABLES, options=["--network", "full"]) as inside:
        for address in ("10.0.0.5", "169.254.169.254", "100.64.0.1", "172.31.0.1"):
            assert inside(f"get('http://{address}/')") == 403
        assert asked(net) == []
        assert inside("get('http://evil.example.net/')") == 200
    assert asked(net) == ["CONNECT evil.example.net:80 HTTP/1.1"]


def test_the_machine_itself_is_not_asked_for_at_the_proxy(net):
    with Inside(net, allow=["host.bawn.internal:4000"], env=VARIABLES) as inside:
        assert inside("get('http://host.bawn.internal:4000/')") in (502, "ConnectionResetError")
    assert asked(net) == []


# Proxies that do not help

BAD = {
    "down": ("http://11.0.0.10:3129", "proxy"),
    "not there": ("http://nowhere.example.com:3128", "proxy"),
    "no proxy": ("http://11.0.0.10:7", "proxy"),
    "refuses": (PROXY, "status 502"),
    "https": ("https://11.0.0.10:3128", "scheme"),
    "socks": ("socks5://11.0.0.10:3128", "scheme"),
    "rubbish": ("http://[::", "proxy"),
}


@pytest.mark.parametrize("kind", BAD)
def test_trouble_is_told(net, kind):
    """Never around the proxy instead, and at once."""
    url, word = BAD[kind]
    net.names["gone.example.com"] = ["11.0.0.99"] if kind != "refuses" else ["127.0.0.1"]
    with Inside(net, allow=["gone.example.com"], env={"http_proxy": url, "https_proxy": url}) as inside:
        status, headers, body = inside("fetch('http://gone.example.com/')")
        assert status == 502 and headers["bawn-code"].startswith("BAWN_NET_") and word in body, body
        assert inside("get('https://gone.example.com/')") in ("ConnectionResetError", "SSLError", "SSLEOFError", "OSError", "SSLZeroReturnError")
        assert word in inside("fetch('http://bawn.internal/why?host=gone.example.com')")[2]
        inside.end()
    assert net.requests() == [] and "A gone.example.com" not in net.queries()
    assert any(e["kind"] == "trouble" and word in e["path"] for e in net.log()), net.log()
