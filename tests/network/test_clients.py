# SPDX-License-Identifier: Apache-2.0
"""Every client that developers use trusts the sandbox's own CA, so that the gate can look into its TLS, and none needs a flag for it.

Each command runs in several ways: as Bawn starts it, with proxy variables, and with an empty environment.
"""

import json
import os
import shutil

import pytest

import servers
from servers import need

URL = "https://dev.example.com"
VARIABLES, DIRECT, BARE = "variables", "direct", "bare"

# Runs inside: {way: argv} in, {way: [exit status, output]} out.
EACH_WAY = """
import json, os, subprocess, sys
proxy = {k: "http://127.0.0.1:15001" for n in ("http", "https", "all") for k in (n + "_proxy", n.upper() + "_PROXY")}
environments = {"variables": {**os.environ, **proxy}, "direct": dict(os.environ),
                "bare": {k: os.environ[k] for k in ("PATH", "HOME")}}
results = {}
for way, argv in json.loads(sys.argv[1]).items():
    done = subprocess.run(argv, env=environments[way], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    results[way] = [done.returncode, done.stdout.decode("utf-8", "replace")]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def nginx(inter_net):
    server = servers.nginx(inter_net)
    yield server
    server.end()


def each_way(net, ways, *argv, options=()):
    """{way: output}; "{way}" in argv is replaced."""
    argvs = {way: [word.replace("{way}", way) for word in argv] for way in ways}
    r = net.sandbox("/usr/bin/python3", "-c", EACH_WAY, json.dumps(argvs), options=options)
    assert r.rc == 0, r
    results = r.json()
    assert [rc for rc, _ in results.values()] == [0] * len(ways), results
    return {way: out for way, (_, out) in results.items()}


class Looked:
    """A sandbox that may reach dev.example.com with a look; served() holds if nginx got path n times, and the gate had read each."""

    def __init__(self, net, nginx):
        self.net, self.nginx = net, nginx
        nginx.forget()
        net.rules({"id": "dev", "action": "allow", "host": "dev.example.com", "inspect": True})

    def each_way(self, *args, **kw):
        return each_way(self.net, *args, **kw)

    def served(self, path, n):
        found = self.nginx.wait_for(path, n)
        read = [e for e in self.net.log() if e["kind"] == "request" and e["host"] == "dev.example.com" and e["path"] == path.partition("?")[0]]
        assert len(found) == len(read) == n and {e["action"] for e in read} == {"allow"}, (found, read)
        return True


@pytest.fixture
def looked(net, nginx):
    return Looked(net, nginx)


# Clients that can say who signed the certificate that they saw

PYTHON_URLLIB = f"""
import urllib.request
r = urllib.request.urlopen("{URL}/page.html")
print(r.fp.raw._sock.getpeercert()["issuer"], r.read())
"""
PYTHON_REQUESTS = f"""
import requests
r = requests.get("{URL}/page.html", stream=True)
print(r.raw.connection.sock.getpeercert()["issuer"], r.text)
"""
NODE = f"""
require('https').get('{URL}/page.html', r => {{ console.log(r.socket.getPeerCertificate().issuer); r.resume() }});
fetch('{URL}/fetch').then(r => fetch('{URL}/page.html')).then(r => r.text()).then(console.log);
"""
S_CLIENT = f"""printf 'GET /page.html HTTP/1.1\\r\\nHost: dev.example.com\\r\\nConnection: close\\r\\n\\r\\n' |
openssl s_client -connect dev.example.com:443 -verify_return_error -verify_hostname dev.example.com -ign_eof 2>&1"""
JAVA = f"""
import java.net.URL;
import java.security.cert.X509Certificate;
import javax.net.ssl.HttpsURLConnection;

public class Get {{
    public static void main(String[] args) throws Exception {{
        HttpsURLConnection c = (HttpsURLConnection)new URL("{URL}/page.html").openConnection();
        System.out.println(new String(c.getInputStream().readAllBytes()));
        System.out.println(((X509Certificate)c.getServerCertificates()[0]).getIssuerX500Principal());
    }}
}}
"""
GO = f"""
package main

import ("fmt"; "io"; "net/http")

func main() {{
    r, err := http.Get("{URL}/page.html")
    if err != nil {{ panic(err) }}
    body, _ := io.ReadAll(r.Body)
    fmt.Println(r.TLS.PeerCertificates[0].Issuer, string(body))
}}
"""
SHOW = {
    "curl": ([VARIABLES, DIRECT, BARE], ["curl", "-sSf", "-v", f"{URL}/page.html"]),
    "openssl": ([DIRECT, BARE], ["sh", "-c", S_CLIENT]),
    "python urllib": ([VARIABLES, DIRECT, BARE], ["/usr/bin/python3", "-c", PYTHON_URLLIB]),
    "python requests": ([VARIABLES, DIRECT, BARE], ["/usr/bin/python3", "-c", PYTHON_REQUESTS]),
}


@pytest.mark.parametrize("client", SHOW)
def test_sees_our_issuer(looked, client):
    ways, argv = SHOW[client]
    for way, out in looked.each_way(ways, *argv).items():
        assert "Bawn" in out and "Test Internet CA" not in out and "from the server" in out, (way, out)
    assert looked.served("/page.html", len(ways))


def test_node(looked):
    """fetch never takes a proxy from the environment; node brings authorities of its own, so it needs its variable."""
    need("node")
    for way, out in looked.each_way([VARIABLES, DIRECT], "node", "-e", NODE).items():
        assert "Bawn" in out and "Test Internet CA" not in out and "from the server" in out, (way, out)
    assert looked.served("/page.html", 4) and looked.served("/fetch", 2)


@pytest.fixture(scope="module")
def built(inter_net):
    """Programs made outside, once."""
    folder = inter_net.folder / "built"
    folder.mkdir()
    (folder / "Get.java").write_text(JAVA)
    (folder / "get.go").write_text(GO)
    yield folder
    shutil.rmtree(folder)


def test_java(looked, built):
    """It knows no proxy variables, and its own trust store only."""
    need("java", "javac")
    if not (built / "Get.class").exists():
        servers.run("javac", "-d", built, built / "Get.java")
    looked.net.runner.write("Get.class", (built / "Get.class").read_bytes())
    for way, out in looked.each_way([VARIABLES, BARE], "java", "-XX:TieredStopAtLevel=1", "-cp", ".", "Get").items():
        assert "Bawn" in out and "Test Internet CA" not in out and "from the server" in out, (way, out)
    assert looked.served("/page.html", 2)


def test_go(looked, built):
    """A static program: it looks up names and finds authorities without libc and OpenSSL."""
    need("go")
    if not (built / "get").exists():
        servers.run("go", "build", "-o", built / "get", built / "get.go",
                    env={**os.environ, "CGO_ENABLED": "0", "GOCACHE": str(built / "cache"), "GO111MODULE": "off"})
    looked.net.runner.write("get", (built / "get").read_bytes(), 0o755)
    for way, out in looked.each_way([VARIABLES, DIRECT, BARE], "./get").items():
        assert "Bawn" in out and "Test Internet CA" not in out and "from the server" in out, (way, out)
    assert looked.served("/page.html", 3)


# Clients that only work or do not

def test_wget(looked):
    outs = looked.each_way([VARIABLES, DIRECT, BARE], "wget", "-nv", "-O", "-", f"{URL}/page.html")
    assert all("from the server" in out for out in outs.values()), outs
    assert looked.served("/page.html", 3)


def test_git(looked):
    outs = looked.each_way([VARIABLES, DIRECT, BARE], "sh", "-c", f"git clone -q {URL}/demo.git /tmp/{{way}} && cat /tmp/{{way}}/README")
    assert all(out == "from the server\n" for out in outs.values()), outs
    assert looked.served("/demo.git/info/refs?service=git-upload-pack", 3)


def test_pip(looked):
    looked.each_way([VARIABLES, DIRECT, BARE], "/usr/bin/python3", "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "download", "-q",
                    "--no-deps", "--index-url", f"{URL}/simple/", "-d", "{way}", "demo")
    assert looked.served("/simple/demo/demo-1.0-py3-none-any.whl", 3)


def test_npm(looked):
    need("npm")
    looked.net.runner.write("package.json", '{"name": "x", "version": "1.0.0"}')
    npm = f"npm --registry {URL}/npm/ --no-audit --no-fund --no-update-notifier --cache {{way}}"
    outs = looked.each_way([VARIABLES, DIRECT], "sh", "-c", f"rm -rf node_modules && {npm} view demo version && {npm} install demo && "
                           "node -p \"require('demo')\"")
    assert all(out.startswith("1.0.0\n") and out.endswith("demo\n") for out in outs.values()), outs
    assert looked.served("/npm/demo-1.0.0.tgz", 2)


def test_cargo(looked):
    need("cargo", "rustc")
    looked.net.runner.write("Cargo.toml", '[package]\nname = "x"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\ndemo = "1"\n')
    looked.net.runner.write("src/main.rs", "fn main() { demo::demo() }\n")
    looked.net.runner.write(".cargo/config.toml", f'[source.crates-io]\nreplace-with = "ours"\n[source.ours]\nregistry = "sparse+{URL}/cargo/"\n')
    looked.each_way([VARIABLES, DIRECT, BARE], "sh", "-c", "CARGO_HOME=$PWD/{way} RUSTC_BOOTSTRAP=1 cargo -Z sparse-registry fetch -q")
    assert looked.served("/cargo/demo-1.0.0.crate", 3)


def test_chromium(looked):
    """Its trust is the database below $HOME/.pki."""
    need("chromium")
    outs = looked.each_way([VARIABLES, DIRECT], "sh", "-c", f"chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/{{way}} --dump-dom "
                           f"{URL}/page.html", options=["--memory", "4g", "--pids", "500"])
    assert all("from the server" in out for out in outs.values()), outs
    assert looked.served("/page.html", 2)


# The other side: what the gate accepts from servers

WRONG = {"self-signed": "self", "other-name": "name", "expired": "expired", "unknown-ca": "issuer"}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_certificate(net, nginx, kind):
    """Refused in a way that the client can read, before the server gets a request."""
    nginx.forget()
    net.rules({"id": "dev", "action": "allow", "host": "*.example.com", "inspect": True})
    url = f"https://{kind}.example.com/page.html"
    assert net.outside("curl", "-sS", url).rc == 60, "the certificate is not wrong, so nothing is proved"
    assert b"from the server" in net.outside("curl", "-sSk", url).out and len(nginx.wait_for("/page.html")) == 1
    nginx.forget()
    outs = each_way(net, [VARIABLES, DIRECT], "sh", "-c", f"for v in --http1.1 --http2; do curl -sS $v -H 'Accept: application/json' -w '%{{http_code}}\\n' {url}; done")
    for way, out in outs.items():
        lines = out.splitlines()
        assert lines[1::2] == ["502", "502"] and len(lines) == 4, (way, out)
        for error in (json.loads(line)["error"] for line in lines[::2]):
            assert error["host"] == f"{kind}.example.com" and WRONG[kind] in error["reason"], (way, out)
    assert nginx.log() == []
