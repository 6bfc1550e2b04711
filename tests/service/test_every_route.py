# SPDX-License-Identifier: Apache-2.0
"""Every operation of spec/openapi.yaml over TCP: without a token, with one that is wrong, expired, withdrawn or of another tenant, with a method that it
does not have, and with requests that are too large, malformed, too deep or never finished."""

import http.client
import json
import re
import socket
import time

import http_driver
import pytest
from fake_core import TABLES, Core

ABSENT = {"id": "run_0123456789abcdef", "kind": "runs", "stream": "stdout", "tag": "t", "rule": "r", "question": "q", "tenant": "nosuch", "token": "tok_0123456789abcdef"}
BODIES = {  # the smallest that is valid, where {} is not
    "run_create": {"command": ["true"]}, "run_signal": {"signal": 15}, "box_exec": {"command": ["true"]}, "checkpoint_create": {"tag": "t"}, "box_expose": {"port": 80},
    "policy_add": {"action": "allow", "host": "example.com"}, "question_answer": {"answer": "deny"}, "tenant_create": {"name": "made"}, "session_create": {"code": "x"}}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
GUARDED = [r for r in TABLES.routes if r["scope"] != "any"]
DEEP = [b"[" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 40 + b"]" * 40]
MALFORMED = [b"", b"{", b"[]", b"null", b"{} {}", b'{"a":1,"a":2}', b'{"\xff":1}', b'{"\\u0000":1}', b"\0", b'{"nosuch":1}']


@pytest.fixture
def served(runner):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    service = http_driver.Service(runner, listen=[f"127.0.0.1:{port}"])
    service.port = port
    yield service
    fronts = re.search(rb"^bawn_fronts_started_total (\d+)$", service.call("GET", "/v1/metrics")[1], re.M)
    service.stop()
    assert fronts[1] == b"1", (service.top / "log").read_text()  # none has crashed


def address(route, values=()):
    path = re.sub(r"{(\w+)}", lambda m: {**ABSENT, **dict(values)}[m[1]], route["path"])
    query = [f"{r['wire']}=x" for r in route["rows"] if r["place"] == "query" and r["required"]]
    query += ["follow=false" for r in route["rows"] if r["wire"] == "follow"]
    return path + ("?" + "&".join(query) if query else "")


def body_of(route):
    """A valid one, and its type."""
    if route["body"] == "json":
        return json.dumps(BODIES.get(route["op"], {})), "application/json"
    if route["body"] == "bytes":
        return b"", "application/x-tar" if "archive" in route["path"] else "application/octet-stream"
    return None, None


def ask(service, route, token=None, values=(), method=None, **more):
    """Status and code of a valid request, but for what is given."""
    body, kind = body_of(route)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Content-Type": kind} if kind else {}
    headers |= UPGRADE if route["answer"] == "websocket" else {}
    c = http.client.HTTPConnection("127.0.0.1", service.port)
    c.request(method or route["method"].upper(), address(route, values), more.get("body", body), headers)
    r = c.getresponse()
    text = b"" if r.status < 300 else r.read()
    c.close()
    if r.status < 400:
        return r.status, None
    assert r.status < 500 and r.getheader("Content-Type") == "application/problem+json", (route["op"], r.status, text)
    problem = json.loads(text)
    assert problem["status"] == r.status and problem["instance"] == r.getheader("Request-Id"), problem
    return r.status, problem["code"]


def test_who_may_not(served):
    """Claim: no operation but health and the beginning of a session is done without a valid token, or with one that is for less."""
    mine, other = served.token("mine"), served.token("other")
    gone = served.call("POST", "/v1/tenants/mine/tokens", {})[1]
    assert served.call("DELETE", f"/v1/tokens/{gone['id']}")[0] == 204
    short = served.token("mine", expires="1s")
    while served.call("GET", "/v1/me", token=short)[0] == 200:
        time.sleep(0.1)
    for route in GUARDED:
        for token in (None, "x", mine[:-1], mine + "x", gone["token"], short):
            assert ask(served, route, token) == (401, "unauthorized"), (route["op"], token)
        if route["scope"] == "admin":
            assert ask(served, route, mine, {"tenant": "other"}) == (403, "forbidden"), route["op"]
    assert served.call("GET", "/v1/tenants/other", token=None)[0] == 200  # it was not deleted, and its token is good
    assert served.call("GET", "/v1/me", token=other)[1]["name"] == "other"


def test_what_is_another_tenants_is_not_there(served):
    """Claim: by the ids of another tenant nothing is found, whatever the operation."""
    mine, other = served.token("mine"), served.token("other")
    run = served.call("POST", "/v1/runs", {"command": ["sh", "-c", "echo theirs > x"], "wait": 300}, token=other)[1]
    box = served.call("POST", "/v1/sandboxes", {}, token=other)[1]
    assert (run["state"], box["state"]) == ("done", "running")
    assert served.call("POST", f"/v1/sandboxes/{box['id']}/checkpoints", {"tag": "t"}, token=other)[0] == 201
    seen = 0
    for route in (r for r in GUARDED if "{id}" in r["path"] and r["scope"] == "tenant"):
        for kind, one in (("runs", run), ("sandboxes", box)):
            if "{kind}" not in route["path"] and f"/{kind}/" not in route["path"]:
                continue
            assert ask(served, route, mine, {"id": one["id"], "kind": kind}) == (404, "not_found"), (route["op"], kind)
            seen += 1
    assert seen > 30
    assert served.call("GET", f"/v1/sandboxes/{box['id']}", token=other)[1]["state"] == "running"
    assert [c["tag"] for c in served.call("GET", f"/v1/sandboxes/{box['id']}/checkpoints", token=other)[1]["items"]] == ["t"]
    assert served.call("GET", f"/v1/runs/{run['id']}/diff", token=other)[0] == 200
    assert served.call("DELETE", f"/v1/sandboxes/{box['id']}", token=other)[0] == 204


def test_methods_that_it_does_not_have(served):
    token = served.token("mine", admin=True)
    for path in {r["path"] for r in TABLES.routes}:
        routes = [r for r in TABLES.routes if r["path"] == path]
        for method in {"GET", "PUT", "POST", "PATCH", "DELETE", "TRACE", "BREW"} - {r["method"].upper() for r in routes}:
            assert ask(served, {**routes[0], "body": "none", "answer": "json"}, token, method=method) == (405, "method_not_allowed"), (method, path)


def too_large(service, route, token):
    """Said before it is sent."""
    with socket.create_connection(("127.0.0.1", service.port)) as sock:
        sock.sendall(f"{route['method'].upper()} {address(route)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
        return sock.recv(4096).startswith(b"HTTP/1.1 413")


def test_bodies_that_are_none(served):
    """Malformed and deep JSON, and more than there may be, for each operation that has a body; and a body for each that has none."""
    token = served.token("mine", admin=True)
    for route in TABLES.routes:
        if route["body"] == "json":
            for body in MALFORMED + DEEP:
                status, code = ask(served, route, token, body=body)
                assert status == 400 and code in ("bad_json", "bad_field"), (route["op"], body[:20], code)
            assert too_large(served, route, token), route["op"]
        elif route["body"] == "none" and route["answer"] != "websocket":
            assert ask(served, route, token, body=b"x")[0] == 400, route["op"]


def start(core, route, head, body):
    sock = core.connect()
    kind = body_of(route)[1]
    lines = [f"{route['method'].upper()} {address(route)} HTTP/1.1", "Host: x", *([f"Content-Type: {kind}"] if kind else []), *head]
    sock.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return sock


def test_slow_bodies_and_floods_of_headers(runner):
    """All of them at once: each is answered or ended, none reaches bawnd whole."""
    core = Core(runner, body_seconds=1)
    core.on = lambda r: None
    slow = [(r, start(core, r, ["Content-Length: 100"], b"{")) for r in TABLES.routes if r["body"] == "json"]
    for route, sock in slow:
        assert sock.recv(4096).startswith(b"HTTP/1.1 408"), route["op"]
        sock.close()
    for route in TABLES.routes:
        with start(core, route, [f"X{i}: {'y' * 90}" for i in range(700)], b"") as sock:
            try:
                assert sock.recv(4096).startswith((b"HTTP/1.1 431", b"HTTP/1.1 413")), route["op"]
            except ConnectionError:
                pass
    assert not core.seen
    core.on = lambda r: r.answer(200, {})
    assert core.call("GET", "/v1/health")[0] == 200
    assert core.end() == (0, b"")
