# SPDX-License-Identifier: Apache-2.0
"""What real clients print when their host is denied: each must show the line that says so, or the table in docs/denials.md says that it does not.

    BAWN_WRITE_TABLE=1 pytest tests/network/test_denied_clients.py    writes the table anew
"""

import os
import pathlib
import re

import pytest
from servers import need

DOC = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "denials.md"
BEGIN, END = "<!-- clients: written by tests/network/test_denied_clients.py -->", "<!-- end of clients -->"

GO = """
package main

import ("fmt"; "net/http"; "os")

func main() {
    r, err := http.Get("https://HOST/")
    if err != nil { fmt.Println(err); os.Exit(1) }
    fmt.Println(r.Status)
}
"""
JAVA = """
public class Get {
    public static void main(String[] args) throws Exception {
        var c = (java.net.HttpURLConnection)new java.net.URL("https://HOST/").openConnection();
        System.out.println(c.getResponseCode() + " " + c.getResponseMessage());
    }
}
"""
NODE_HTTPS = "require('https').get('https://HOST/', r => { console.log(r.statusCode, r.statusMessage); r.resume() })"
NODE_FETCH = "fetch('https://HOST/').then(async r => console.log(r.status, await r.text()))"
NODE_H2 = """const c = require('http2').connect('https://HOST/'); const r = c.request({':path': '/'}); let t = '';
r.on('data', d => t += d).on('end', () => { console.log(t); c.close() })"""
S_CLIENT = "(printf 'GET / HTTP/1.1\\r\\nHost: HOST\\r\\n\\r\\n'; sleep 1) | openssl s_client -quiet -connect HOST:443"
SMTP = "import smtplib; smtplib.SMTP('HOST', 587)"
PERL = "use HTTP::Tiny; my $r = HTTP::Tiny->new->get('http://HOST/'); print \"$r->{status} $r->{reason}\\n\"; exit !$r->{success}"
APT = """mkdir -p a/lists/partial a/cache/archives/partial; echo 'deb [trusted=yes] http://HOST/debian stable main' > a/list
apt-get update -o Dir::Etc::SourceList=$PWD/a/list -o Dir::Etc::SourceParts=/none -o Dir::State::Lists=$PWD/a/lists -o Dir::Cache=$PWD/a/cache \
  -o APT::Sandbox::User=root -o Acquire::Retries=0 -o Debug::NoLocking=1"""
CARGO = """mkdir c; cd c; mkdir .cargo src; echo 'fn main() {}' > src/main.rs
printf '[package]\\nname = "c"\\nversion = "0.1.0"\\n[dependencies]\\nx = {registry = "r", version = "1"}\\n' > Cargo.toml
printf '[registries.r]\\nindex = "https://HOST/index"\\n[net]\\nretry = 0\\n' > .cargo/config.toml
cargo fetch"""
AWS = "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE AWS_SECRET_ACCESS_KEY=x AWS_DEFAULT_REGION=us-east-1 aws --endpoint-url https://HOST s3api list-buckets"

# name -> (program, port, command, shows): shows "line": the line of the denial; "403": that it was refused, and no more.
CLIENTS = {
    "curl (http)": ("curl", 80, "curl -sS http://HOST/", "line"),
    "curl": ("curl", 443, "curl -sS https://HOST/", "line"),
    "curl -f": ("curl", 443, "curl -sSf https://HOST/", "403"),
    "wget (http)": ("wget", 80, "wget -nv -O- http://HOST/", "line"),
    "wget": ("wget", 443, "wget -nv -O- https://HOST/", "line"),
    "git (https)": ("git", 443, "git ls-remote https://HOST/r.git", "line"),
    "git (ssh)": ("git", 22, "git ls-remote ssh://git@HOST/r.git", "line"),
    "git (git)": ("git", 9418, "git ls-remote git://HOST/r.git", "line"),
    "ssh": ("ssh", 22, "ssh git@HOST", "line"),
    "scp": ("scp", 22, "scp git@HOST:x .", "line"),
    "pip": ("pip", 443, "/usr/bin/python3 -m pip download --no-cache-dir -i https://HOST/simple x", "nothing"),
    "pip (a file)": ("pip", 443, "/usr/bin/python3 -m pip download --no-cache-dir https://HOST/x-1.0.tar.gz", "line"),
    "npm": ("npm", 443, "npm view x --registry=https://HOST/", "line"),
    "node fetch": ("node", 443, ["node", "-e", NODE_FETCH], "line"),
    "node https": ("node", 443, ["node", "-e", NODE_HTTPS], "line"),
    "node http2": ("node", 443, ["node", "-e", NODE_H2], "line"),
    "Python urllib": ("python3", 443, ["/usr/bin/python3", "-c", "import urllib.request; urllib.request.urlopen('https://HOST/')"], "line"),
    "Python requests": ("python3", 443, ["/usr/bin/python3", "-c", "import requests; requests.get('https://HOST/').raise_for_status()"], "line"),
    "Python smtplib": ("python3", 587, ["/usr/bin/python3", "-c", SMTP], "line"),
    "Python imaplib": ("python3", 143, ["/usr/bin/python3", "-c", "import imaplib; imaplib.IMAP4('HOST')"], "line"),
    "Python ftplib": ("python3", 21, ["/usr/bin/python3", "-c", "import ftplib; ftplib.FTP('HOST')"], "line"),
    "Perl HTTP::Tiny (http)": ("perl", 80, ["perl", "-e", PERL], "line"),
    "apt (http)": ("apt-get", 80, APT, "line"),
    "cargo": ("cargo", 443, CARGO, "403"),
    "Go net/http": ("go", 443, "printf %s '" + GO + "' > g.go; go run g.go", "line"),
    "Java": ("java", 443, "printf %s '" + JAVA + "' > Get.java; java Get.java", "line"),
    "aws": ("aws", 443, AWS, "403"),
    "openssl s_client": ("openssl", 443, S_CLIENT, "line"),
    "psql": ("psql", 5432, "psql -h HOST -U me", "line"),
    "mariadb": ("mariadb", 3306, "mariadb -h HOST", "line"),
    "redis-cli": ("redis-cli", 6379, "redis-cli -h HOST ping", "line"),
}


def host_of(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".example.org"


def words_of(out, host):
    """The part of its output that says it, without what differs from run to run."""
    lines = [line.strip() for line in out.splitlines()]
    found = next((line for line in lines if "Bawn denied" in line), None) or next((line for line in lines if "403" in line), lines[-1])
    found = re.sub(r"198\.19\.\d+\.\d+", "198.19.x.y", re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", found)).replace(host, "HOST")
    return re.sub(r"Bawn denied HOST:\d+ \(no rule allows it\), see http://bawn.internal/why", "LINE", found)


def show(name, port, rc, shows, words):
    status = "0" if rc == 0 else "not 0"
    row = f"| {name} | {port} | {status} | {shows} | `"
    words = words.replace("`", "'").replace("|", "¦")
    at = words.find("LINE")
    words = "…" + words[at - 40:] if at > 100 else words
    return row + words[:90] + ("…" if len(words) > 90 else "") + "` |"


def table():
    text = DOC.read_text()
    return text[text.index(BEGIN):text.index(END)].splitlines()


def write_row(name, row):
    text = DOC.read_text()
    rows = {line.split(" | ")[0][2:]: line for line in table()[3:] if line.startswith("| ")}
    rows[name] = row
    new = "\n".join([BEGIN, "| client | port | exit status | shows | in these words |", "|---|---|---|---|---|", *(rows[n] for n in CLIENTS if n in rows), ""])
    DOC.write_text(text[:text.index(BEGIN)] + new + text[text.index(END):])


@pytest.mark.parametrize("name", CLIENTS)
def test_client(net, name):
    program, port, command, shows = CLIENTS[name]
    need(program)
    host = host_of(name)
    command = [word.replace("HOST", host) for word in (["sh", "-c", command] if isinstance(command, str) else command)]
    r = net.sandbox(*command, allow=["ok.example.com"])
    out = (r.out + r.err.split(b"\nbawn: ")[0]).decode()
    assert net.queries() == [] and net.hits() == [], "nothing was looked up, and no server was contacted"
    assert f"{host}:{port}".encode() in r.err and b"BAWN_NET_DENIED_HOST" in r.err, "the run's own summary has it in any case"
    if net.rung != "full":  # clients ask a proxy there, which says it in the words of proxies
        return
    line = f"Bawn denied {host}:{port} (no rule allows it), see http://bawn.internal/why"
    assert (line in out) == (shows == "line"), r
    assert ("403" in out) or shows != "403", r
    row = show(name, port, r.rc, shows, words_of(out, host))
    if os.environ.get("BAWN_WRITE_TABLE"):
        write_row(name, row)
    # The words are those of one version of the client; the rest must be as it stands there.
    documented = [line.split(" | ")[:4] for line in table() if line.startswith(f"| {name} | ")]
    assert documented == [row.split(" | ")[:4]], "BAWN_WRITE_TABLE=1 writes the table anew"


def test_the_table_has_each_client():
    assert [line.split(" | ")[0][2:] for line in table()[3:] if line.startswith("| ")] == list(CLIENTS)
    assert len(CLIENTS) >= 20
