# SPDX-License-Identifier: Apache-2.0
"""Servers inside are reached by every name that they have, and getaddrinfo() gives what it gives outside, also with AI_ADDRCONFIG."""

import json
import shlex

import pytest

from servers import need

PROXY = "http://127.0.0.1:15001"
OWN = "localhost,127.0.0.1,127.0.0.2,127.0.0.0/8,0.0.0.0,::1,[::1]"  # and the hostname: src/init/environment.c

SERVER = """
import http.server, json, socket, subprocess, sys, threading
class Here(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "4"); self.end_headers(); self.wfile.write(b"mine")
    def log_message(self, *args): pass
class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
kind, address, names, client = json.loads(sys.argv[1])
server = (Six if kind == 6 else http.server.ThreadingHTTPServer)((address, 0), Here)
threading.Thread(target=server.serve_forever, daemon=True).start()
found = {}
for name in names:
    host = socket.gethostname() if name == "HOSTNAME" else name
    r = subprocess.run([*client, f"http://{host}:{server.server_port}/"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found[name] = r.stdout.strip()
print(json.dumps(found))
"""

CLIENTS = {
    "curl": ["curl", "-sS", "--max-time", "60"],
    "urllib": ["/usr/bin/python3", "-c", "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"],
    "requests": ["/usr/bin/python3", "-c", "import sys, requests; print(requests.get(sys.argv[1]).text)"],
    "node": ["node", "-e", "fetch(process.argv[1]).then(r => r.text()).then(console.log)"],
    "wget": ["wget", "-qO-", "--tries=1"],
}
NAMES = ["localhost", "127.0.0.1", "127.0.0.2", "0.0.0.0", "HOSTNAME"]


def inside(net, kind, address, names, client, variables):
    words = ["/usr/bin/python3", "-c", SERVER, json.dumps([kind, address, names, CLIENTS[client]])]
    if variables:
        proxies = [f"{name}={PROXY}" for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")]
        words = ["sh", "-c", f'export NO_PROXY={shlex.quote(OWN)},$(hostname); export no_proxy="$NO_PROXY"; exec "$@"', "sh", "env", *proxies, *words]
    r = net.sandbox(*words)
    assert r.rc == 0, r
    return r.json()


@pytest.mark.parametrize("variables", [False, True], ids=["captured", "variables"])
@pytest.mark.parametrize("client", CLIENTS)
def test_names_of_an_own_server(net, client, variables):
    need(CLIENTS[client][0].split("/")[-1])
    found = inside(net, 4, "0.0.0.0", NAMES, client, variables)
    assert found == dict.fromkeys(NAMES, "mine"), found
    assert net.hits() == [] and net.queries() == []


@pytest.mark.parametrize("variables", [False, True], ids=["captured", "variables"])
@pytest.mark.parametrize("client", ["curl", "urllib", "requests"])
def test_own_server_on_ipv6(net, client, variables):
    assert inside(net, 6, "::", ["[::1]", "127.0.0.1", "localhost"], client, variables) == dict.fromkeys(["[::1]", "127.0.0.1", "localhost"], "mine")


LOOKUPS = """
import json, socket
found = {}
for name in ("ok.example.com", "six.example.com", "both.example.com", "localhost"):
    for family in ("AF_UNSPEC", "AF_INET", "AF_INET6"):
        for flags in (0, socket.AI_ADDRCONFIG):
            try:
                got = sorted({int(a[0] == socket.AF_INET6) for a in socket.getaddrinfo(name, 80, getattr(socket, family), socket.SOCK_STREAM, 0, flags)})
            except OSError as e:
                got = "no"
            found.setdefault(f"{name} {family}", []).append(got)
print(json.dumps(found))
"""


def test_addrconfig(net):
    """glibc looks for an address that is not loopback's before it asks: with and without the flag the answers are the same."""
    r = net.python(LOOKUPS, allow=["ok.example.com", "six.example.com", "both.example.com"])
    found = r.json()
    assert {k: v for k, v in found.items() if v[0] != v[1]} == {}, found
    assert found["ok.example.com AF_INET"] == [[0], [0]] and found["six.example.com AF_INET6"] == [[1], [1]], found


def test_addrconfig_of_programs(net):
    """getent asks with AI_ADDRCONFIG; node can."""
    script = ("getent ahostsv4 ok.example.com >/dev/null && getent ahostsv6 six.example.com >/dev/null && getent ahosts both.example.com >/dev/null && "
              "node -e 'const d = require(\"dns\"); d.lookup(\"ok.example.com\", {family: 4, hints: d.ADDRCONFIG}, (e, a) => console.log(e ? e.code : \"found\"))'")
    need("node")
    r = net.sandbox("sh", "-c", script, allow=["ok.example.com", "six.example.com", "both.example.com"])
    assert r.rc == 0 and r.out == b"found\n", r


MUSL = r"""
#include <netdb.h>
#include <stdio.h>
int main(void) {
    static const int families[] = {AF_UNSPEC, AF_INET};
    for (int i = 0; i < 2; i++) {
        struct addrinfo hints = {.ai_family = families[i], .ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM}, *found;
        printf("%d ", getaddrinfo("ok.example.com", "80", &hints, &found));
    }
}
"""


def test_addrconfig_with_musl(net):
    need("musl-gcc")
    source = net.runner.write(net.runner.workspace / "lookup.c", MUSL)
    assert net.outside("musl-gcc", "-static", "-o", "lookup", source).rc == 0
    r = net.sandbox("./lookup", allow=["ok.example.com"])
    assert r.rc == 0 and r.out == b"0 0 ", r


def test_no_connection_comes_from_the_address_that_counts(net):
    r = net.python("""
import socket
for family, host in ((socket.AF_INET, "ok.example.com"), (socket.AF_INET6, "six.example.com")):
    s = socket.socket(family); s.connect((socket.getaddrinfo(host, 80, family)[0][4][0], 80)); print(s.getsockname()[0] == "::1" or family == socket.AF_INET)
""", allow=["ok.example.com", "six.example.com"])
    assert r.rc == 0 and r.out == b"True\nTrue\n", r
