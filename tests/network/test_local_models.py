# SPDX-License-Identifier: Apache-2.0
"""A model by plain http, on this machine or in the local network, beside secrets for services by https: both work, and no value goes over http."""

import json
import subprocess
import time

import pytest

import secret_tools

REAL = "sk-real-value-0123456789abcdef"
PORT = 11434

MODEL = """
import http.server, json, sys
class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        print(json.dumps({"line": self.requestline, "headers": list(self.headers.items()), "body": body.decode()}), file=log, flush=True)
        self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
        for piece in (b"data: one\\n\\n", b"data: [DONE]\\n\\n"):
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(piece), piece)); self.wfile.flush()
        self.wfile.write(b"0\\r\\n\\r\\n")
    def log_message(self, *args): pass
log = open(sys.argv[1], "a")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Model).serve_forever()
"""


@pytest.fixture
def model(net):
    """A model server of this machine, as ollama is one: gives what it got."""
    log = net.runner.write(net.runner.home / "model.jsonl", "")
    p = net.popen("/usr/bin/python3", "-c", MODEL, log, str(PORT), stdin=subprocess.DEVNULL)
    net.servers.append(p)  # ended with the others
    while net.outside("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{PORT}").rc:
        assert p.poll() is None
        time.sleep(0.05)
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


def ask(url, key):
    return f"""curl -sS -w '%{{http_code}}\\n' -H "Authorization: Bearer {key}" -d '{{"model": "m"}}' {url}"""


def run(net, script, allow):
    secret_tools.define(net, "openai", hosts=["ok.example.com"], env=["OPENAI_API_KEY"], store="env", variable="REAL_KEY")
    return net.sandbox("sh", "-c", script, allow=allow, env={"REAL_KEY": REAL})


def given(headers):
    return {name.lower(): value for name, value in headers}.get("authorization")


def test_model_on_this_machine(net, model):
    url = f"http://host.bawn.internal:{PORT}/v1/chat/completions"
    r = run(net, f"{ask(url, 'ollama')}; {ask('https://ok.example.com/v1', '$OPENAI_API_KEY')}", allow=["ok.example.com", f"host.bawn.internal:{PORT}"])
    assert r.rc == 0 and r.out.startswith(b"data: one\n\ndata: [DONE]\n\n200\n") and r.out.endswith(b"200\n"), r
    assert [(m["line"], given(m["headers"])) for m in model()] == [("POST /v1/chat/completions HTTP/1.1", "Bearer ollama")]
    assert [given(h["headers"]) for h in net.hits(kind="request")] == [f"Bearer {REAL}"]
    secret_tools.nowhere(REAL, r.out + r.err)


def test_model_in_the_local_network(net):
    net.rules({"action": "allow", "host": "private.example.com", "ports": [80], "allow_private": True})
    r = run(net, f"{ask('http://private.example.com/v1', 'lan')}; {ask('https://ok.example.com/v1', '$OPENAI_API_KEY')}", allow=["ok.example.com"])
    assert r.rc == 0 and r.out.count(b"200\n") == 2, r
    assert {given(h["headers"]) for h in net.hits(kind="request")} == {"Bearer lan", f"Bearer {REAL}"}


def test_no_value_goes_over_http(net, model):
    """The placeholder does not become the value there: neither for the model, nor for the secret's own host."""
    own = f"http://host.bawn.internal:{PORT}/v1"
    r = run(net, f"{ask(own, '$OPENAI_API_KEY')}; {ask('http://ok.example.com/v1', '$OPENAI_API_KEY')}; {ask('http://ok.example.com/v1', 'none')}",
            allow=["ok.example.com", f"host.bawn.internal:{PORT}"])
    assert b"BAWN_NET_SECRET_MISPLACED" in r.out, r
    (seen,) = model()
    assert given(seen["headers"]).startswith("Bearer ") and REAL not in given(seen["headers"])
    assert [given(h["headers"]) for h in net.hits(kind="request")] == ["Bearer none"]
    for got in [*model(), *net.hits(), r.out.decode(), r.err.decode()]:
        secret_tools.nowhere(REAL, json.dumps(got).encode())


def test_without_the_secret_the_variable_is_free(net, model):
    """What docs/secrets.md advises where one program wants the same variable for the model: leave the secret out of this run."""
    secret_tools.define(net, "openai", hosts=["ok.example.com"], env=["OPENAI_API_KEY"], store="env", variable="REAL_KEY")
    r = net.sandbox("sh", "-c", ask(f"http://host.bawn.internal:{PORT}/v1", "$OPENAI_API_KEY"), allow=[f"host.bawn.internal:{PORT}"],
                    options=["--no-secrets", "--env", "OPENAI_API_KEY=ollama"], env={"REAL_KEY": REAL})
    assert r.rc == 0 and r.out.endswith(b"200\n") and [given(m["headers"]) for m in model()] == ["Bearer ollama"], (r, model())
