# SPDX-License-Identifier: Apache-2.0
"""`bawn mcp --http`: streamable HTTP, sessions, who is let in, and what ends a call."""

import http.client
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from mcp_http import BOTH, events, serve  # noqa: E402

INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


@pytest.fixture
def server(kept):
    with serve(kept) as s:
        yield s


def wait_until(condition):
    while not condition():
        time.sleep(0.02)


def running(runner, word):
    for box in json.loads(runner.bawn("ps", "--json").out):
        r = runner.bawn("ps", box["name"], "--json")
        if r.rc == 0 and any(word in p["command"] for p in r.json()["processes"]):
            return True
    return False


def test_a_session(server):
    a, b = server.session(), server.session("2025-03-26")
    assert a.begun["serverInfo"]["name"] == "bawn" and a.id != b.id and b.begun["protocolVersion"] == "2025-03-26"
    status, text, headers = a.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert status == 200 and headers["Content-Type"] == "application/json" and len(json.loads(text)["result"]["tools"]) == 9
    assert a.call("exec", command="echo one; exit 3") | {"duration_ms": 0} == b.call("exec", command="echo one; exit 3") | {"duration_ms": 0}
    assert a.call("write_file", path="x.txt", content="é\n")["bytes"] == 3
    assert b.call("read_file", path="x.txt")["content"] == "é\n"
    # Spaces and line feeds around and between are JSON's, and none of ours.
    assert server.ask("POST", "\r\n" + json.dumps(PING, indent=2) + "\n\n", a.headers)[0] == 200
    # One that takes no events gets its answer as JSON.
    call = {"jsonrpc": "2.0", "id": "s", "method": "tools/call", "params": {"name": "exec", "arguments": {"command": "echo j"}}}
    status, text, headers = a.post(call, Accept="application/json")
    assert headers["Content-Type"] == "application/json" and json.loads(text)["result"]["structuredContent"]["stdout"] == "j\n"
    status, text, _ = b.post([PING, {"jsonrpc": "2.0", "method": "x/y"}, PING | {"id": "eight"}])
    assert status == 200 and {m["id"] for m in json.loads(text)} == {7, "eight"}
    assert a.end() == 204 and a.end() == 404
    assert a.post(PING)[0] == 404 and b.post(PING)[0] == 200


def test_what_is_wrong(server):
    a = server.session()
    for body, code in [("{", -32700), ("[" * 1000, -32700), ('{"jsonrpc":"2.0","id":1}', -32600), ("[]", -32600), ("7", -32600),
                       (json.dumps([PING, PING]), -32600)]:
        status, text, _ = server.ask("POST", body, a.headers)
        assert status == 400 and json.loads(text)["error"]["code"] == code, (body[:50], text)
    assert json.loads(a.post(PING | {"method": "no/such"})[1])["error"]["code"] == -32601
    assert json.loads(a.post(PING | {"method": "tools/call", "params": {"name": "rm"}}, Accept="application/json")[1])["error"]["code"] == -32602
    for status, headers in [(415, {"Content-Type": "text/plain"}), (400, {"Mcp-Session-Id": None}), (404, {"Mcp-Session-Id": "mcp_x"}),
                            (400, {"MCP-Protocol-Version": "1999-01-01"}), (406, {"Accept": "text/html"}), (200, {"MCP-Protocol-Version": None})]:
        assert server.ask("POST", json.dumps(PING), a.headers | headers)[0] == status, headers
    assert server.ask("POST", json.dumps(INITIALIZE), a.headers)[0] == 400
    assert server.ask("POST", json.dumps([INITIALIZE]))[0] == 200
    # An initialization that is refused begins no session.
    status, text, headers = server.ask("POST", json.dumps(INITIALIZE | {"params": {}}))
    assert json.loads(text)["error"]["code"] == -32602 and "Mcp-Session-Id" not in headers
    assert server.ask("PUT", "{}", a.headers)[0] == 405 and server.ask("GET", None, a.headers, path="/v1/health")[0] == 404
    assert server.ask("GET", None, a.headers, path="/")[0] == 404, "the dashboard is not here"
    assert server.ask("GET", None, a.headers, path="/mcp?x=1")[0] == 400
    assert server.ask("POST", "x", a.headers | {"Content-Length": str(9 << 20)})[0] == 413
    assert a.post(PING)[0] == 200


def test_who_is_let_in(server):
    """Claim: without the token nothing is answered, and no page of another site gets in: by its Origin, or by a name of its own."""
    a = server.session()
    good = server.ask("POST", json.dumps(PING), a.headers)[0]
    assert good == 200, "the attack works with the token and no Origin"
    wrong = server.token[:-1] + ("A" if server.token[-1] != "A" else "B")
    for token in [wrong, "bawn_", "x", server.token + "A", server.token[:-1]]:
        for method in ["POST", "GET", "DELETE"]:
            assert server.ask(method, json.dumps(PING) if method == "POST" else None, a.headers, token=token)[0] == 401
    assert server.ask("POST", json.dumps(PING), a.headers | {"Authorization": None})[0] == 401
    for headers in [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": f"http://127.0.0.1:{server.port + 1}"},
                    {"Origin": f"https://127.0.0.1:{server.port}"}, {"Host": "evil.example"}, {"Host": f"evil.example:{server.port}"},
                    {"Host": f"127.0.0.1.evil.example:{server.port}"}]:
        for method in ["POST", "GET", "DELETE", "OPTIONS"]:
            status, _, answer = server.ask(method, json.dumps(PING) if method == "POST" else None, a.headers | headers)
            assert status == 403 and "Access-Control-Allow-Origin" not in answer, (headers, method, status)
    assert server.ask("POST", json.dumps(PING), a.headers | {"Origin": f"http://127.0.0.1:{server.port}"})[0] == 200
    assert server.ask("POST", json.dumps(PING), a.headers | {"Host": f"localhost:{server.port}"})[0] == 200
    assert a.post(PING)[0] == 200, "no one ended it"


def test_progress_and_cancelling(server, kept):
    a, b = server.session(), server.session()
    number, c, r = a.begin("exec", progress="p", command="echo $$ > begun; while [ -e begun ]; do sleep 0.1; done; echo over")
    wait_until(lambda: (kept.workspace / "begun").exists())
    seen = []
    for m in events(r):
        seen.append(m)
        if m.get("method") == "notifications/progress" and len(seen) == 2:
            os.unlink(kept.workspace / "begun")
    assert seen[-1]["id"] == number and seen[-1]["result"]["structuredContent"]["stdout"] == "over\n"
    assert all(m["params"]["progressToken"] == "p" for m in seen[:-1]) and len(seen) >= 3
    c.close()
    number, c, r = a.begin("exec", command="sleep 8641")
    wait_until(lambda: running(kept, "sleep 8641"))
    assert b.notify("notifications/cancelled", {"requestId": number}) == 202, "ids are a session's own"
    assert a.post({"jsonrpc": "2.0", "id": number, "method": "ping"})[0] == 400, "the id is in use"
    assert a.notify("notifications/cancelled", {"requestId": number}) == 202
    assert list(events(r)) == [], "no answer, and the stream ends"
    wait_until(lambda: not running(kept, "sleep 8641"))
    assert a.call("exec", command="echo next")["stdout"] == "next\n"


def test_what_ends_a_call(server, kept):
    """A client that hangs up does not end it, as the protocol has it; the end of the session does."""
    a = server.session()
    _, c, r = a.begin("exec", command="sleep 8642")
    wait_until(lambda: running(kept, "sleep 8642"))
    r.close()
    c.close()
    assert a.post(PING)[0] == 200 and running(kept, "sleep 8642")
    _, c, r = a.begin("exec", command="sleep 8643")
    wait_until(lambda: running(kept, "sleep 8643"))
    assert a.end() == 204
    assert list(events(r)) == []
    wait_until(lambda: not running(kept, "sleep 8642") and not running(kept, "sleep 8643"))


def test_the_end_of_the_server_ends_everything(kept):
    with serve(kept) as s:
        s.session().begin("exec", command="sleep 8644")
        wait_until(lambda: running(kept, "sleep 8644"))
        s.process.send_signal(signal.SIGKILL)
        s.process.wait()
    wait_until(lambda: not running(kept, "sleep 8644"))
    with pytest.raises(OSError):
        s.ask("GET")


def test_the_stream_of_a_session(server):
    a = server.session()
    c, r = server.open("GET", None, a.headers | {"Accept": "text/event-stream"})
    assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream" and r.readline() == b":\n"
    assert server.ask("GET", None, {"Accept": "text/event-stream"})[0] == 400
    assert a.end() == 204
    assert list(events(r)) == []


def test_output_is_cut_and_a_slow_client_holds_up_no_other(server):
    a = server.session()
    slow = [a.begin("exec", command="yes | head -c 1000000", max_output=1048576) for _ in range(12)]
    assert server.session().call("exec", command="yes | head -c 3000000", max_output=100)["stdout_cut"] == 3000000 - 100
    for number, _, r in slow:
        (m,) = list(events(r))
        assert m["id"] == number and len(m["result"]["structuredContent"]["stdout"]) == 1000000


def test_many_sessions(server):
    """The oldest that does nothing makes room; one that waits for an answer stays."""
    first, busy = server.session(), server.session()
    _, _, r = busy.begin("exec", command="read x < go; echo $x") if busy.call("exec", command="mkfifo go") else None
    for _ in range(64):
        server.session()
    assert first.post(PING)[0] == 404
    server.session().call("exec", command="echo went > go")
    assert [m["result"]["structuredContent"]["stdout"] for m in events(r)] == ["went\n"]


def test_token_file_and_address(kept):
    path = kept.home / "mcp-token"

    def start():
        p = kept.popen(kept.path, "mcp", "--http=[::1]:0", "--token-file", path, stdout=subprocess.PIPE)
        url = p.stdout.readline().decode().split()[1]
        assert url.startswith("http://[::1]:") and path.name in p.stdout.readline().decode()
        token = path.read_text().strip()
        c = http.client.HTTPConnection("::1", int(url.rsplit(":", 1)[1].split("/")[0]))
        c.request("POST", "/mcp", json.dumps(INITIALIZE), {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": BOTH})
        assert c.getresponse().status == 200
        c.close()
        p.terminate()
        p.wait()
        p.stdout.close()
        return token

    assert start() == start(), "the second finds the first one's"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    r = kept.bawn("mcp", "--http=127.0.0.1:0", "--token-file", path)
    assert r.rc != 0 and b"chmod 600" in r.err, r
    path.chmod(0o600)
    path.write_text("short\n")
    assert b"no token" in kept.bawn("mcp", "--http=127.0.0.1:0", "--token-file", path).err
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "127.0.0.1", "localhost:80", "127.0.0.1:99999", "", ":80", "[::1:80"]:
        assert kept.bawn("mcp", f"--http={address}").rc == 64, address
    assert kept.bawn("mcp", "--token-file", path).rc == 64
