# SPDX-License-Identifier: Apache-2.0
"""Requests and answers through the real bawn-front."""

import json
import os
import struct
import time

import pytest
from fake_core import EVENTS, JSON, LAST, OUTCOME, SPEC, STREAM, TABLES, UPLOAD, Core, memory

RUN = "run_0123456789abcdef"


def test_a_run_is_created(core):
    core.on = lambda r: r.answer(201, {"id": RUN, "state": "queued", "command": ["true"], "created": "2026-01-01T00:00:00Z"})
    status, headers, body = core.call("POST", "/v1/runs", {
        "command": ["echo", "ä", ""], "env": {"A": "1", "B": ""}, "shape": {"limits": {"cpus": "0.5", "pids": 7}, "network": {"allow": ["a.example", "@git"]}},
        "agent": {"name": "claude", "mcp_servers": {"x": {"url": "http://x", "command": ["b", "a"]}}}, "stdin": True, "wait": 5}, {"Idempotency-Key": "k 1"})
    assert (status, body["id"]) == (201, RUN) and headers["Content-Type"] == "application/json"
    (r,) = core.seen
    assert r.op == "run_create" and r.peer == 1
    want = {"command": [b"echo", "ä".encode(), b""], "env": [b"A\0" + b"1", b"B\0"], "shape.limits.cpus": [b"0.5"], "shape.limits.pids": [b"7"],
            "shape.network.allow": [b"a.example", b"@git"], "agent.name": [b"claude"], "agent.mcp_servers": [b'x\0{"command":["b","a"],"url":"http://x"}'],
            "stdin": [b"1"], "wait": [b"5"], "idempotency_key": [b"k 1"], "request_id": [headers["Request-Id"].encode()]}
    assert r.fields == want


def test_parameters_of_path_and_query(core):
    core.call("GET", f"/v1/runs/{RUN}/file?path=a%2Fb%20c%2B+%C3%A4")
    core.call("GET", "/v1/runs?limit=7&state=done&label=a%3Db")
    core.call("GET", f"/v1/runs/{RUN}?wait=3", headers={"Authorization": "Bearer  secret"})
    assert [r.op for r in core.seen] == ["file_read", "run_list", "run_get"]
    assert core.seen[0].one("path") == "a/b c+ ä" and core.seen[0].one("kind") == "runs" and core.seen[0].one("id") == RUN
    assert core.seen[1].one("limit") == "7" and core.seen[1].one("state") == "done" and core.seen[1].one("label") == "a=b"
    assert core.seen[2].one("wait") == "3" and core.seen[2].one("bearer") == "secret"


def test_guards_are_on_every_answer(core):
    client = core.client()
    for method, path in [("GET", "/v1/health"), ("GET", "/nothing"), ("POST", "/v1/health"), ("OPTIONS", "/v1/runs")]:
        _, headers, _ = core.call(method, path, client=client)
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store" and headers["X-Frame-Options"] == "DENY"
        assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["Request-Id"].startswith("req_") and headers["Server"] == "bawn/9.9"
        assert "Access-Control-Allow-Origin" not in headers


def test_methods(core):
    status, headers, body = core.call("PATCH", "/v1/runs")
    assert (status, body["code"], headers["Allow"]) == (405, "method_not_allowed", "GET, HEAD, POST, OPTIONS")
    status, headers, body = core.call("OPTIONS", f"/v1/sandboxes/{RUN}/file?x=y")
    assert (status, body, headers["Allow"]) == (204, b"", "GET, HEAD, PUT, DELETE, OPTIONS")
    status, headers, body = core.call("HEAD", "/v1/health")
    assert (status, body, headers["Content-Length"]) == (200, b"", "2")
    assert core.call("HEAD", f"/v1/runs/{RUN}/events")[0] == 405
    assert core.call("BREW", "/v1/runs")[0] == 405
    assert core.call("GET", "/v1/teapots")[0] == 404
    assert core.call("GET", "/v1/runs/")[0] == core.call("GET", "//v1/runs")[0] == core.call("GET", "/v1/runs/xyz")[0] == 404
    assert core.call("GET", f"/v1/teapots/{RUN}/files")[0] == 404
    assert [r.op for r in core.seen] == ["health"]


def test_problems_of_bawnd(core):
    core.on = lambda r: r.refuse(429, "quota", 'too "many"', "shape.limits.cpus", "30")
    status, headers, body = core.call("GET", "/v1/me")
    assert status == 429 and headers["Retry-After"] == "30" and headers["Content-Type"] == "application/problem+json"
    assert body == {"type": "about:blank", "title": "Too Many Requests", "status": 429, "code": "quota", "detail": 'too "many"', "field": "shape.limits.cpus",
                    "instance": headers["Request-Id"]}
    core.on = lambda r: r.refuse(409, "nonsense")
    assert core.call("GET", "/v1/me")[2]["code"] == "internal"


def test_large_answers_and_requests(core):
    core.on = lambda r: r.answer(200, {"items": ["x" * 1000] * 1000, "next": None})
    assert len(core.call("GET", "/v1/runs")[2]["items"]) == 1000
    core.on = lambda r: r.answer(201, {})
    assert core.call("POST", "/v1/runs", {"command": ["x" * 100000] * 8})[0] == 201
    assert [len(c) for c in core.seen[-1].fields["command"]] == [100000] * 8


RANGES = [("bytes=0-3", 206, b"0123", "bytes 0-3/10"), ("bytes=4-", 206, b"456789", "bytes 4-9/10"), ("bytes=-3", 206, b"789", "bytes 7-9/10"),
          ("bytes=-99", 206, b"0123456789", "bytes 0-9/10"), ("bytes=5-99", 206, b"56789", "bytes 5-9/10"), ("bytes=9-9", 206, b"9", "bytes 9-9/10"),
          ("bytes=10-", 416, None, "bytes */10"), ("bytes=-0", 416, None, "bytes */10"), ("bytes=3-2", 200, b"0123456789", None),
          ("bytes=0-1,3-4", 200, b"0123456789", None), ("lines=1-2", 200, b"0123456789", None), ("bytes=a-b", 200, b"0123456789", None),
          ("bytes=-", 200, b"0123456789", None), ("bytes=99999999999999999999-", 200, b"0123456789", None)]


def test_ranges(core):
    core.on = lambda r: r.part(b"xx0123456789yy", 2, 10)
    client = core.client()
    for header, want, data, told in RANGES:
        status, headers, body = core.call("GET", f"/v1/runs/{RUN}/output/stdout", headers={"Range": header}, client=client)
        assert (header, status, headers["Content-Range"]) == (header, want, told)
        assert body == data if data is not None else body["code"] == "range"
    status, headers, body = core.call("HEAD", f"/v1/runs/{RUN}/output/stdout", client=client)
    assert (status, headers["Content-Length"], headers["Accept-Ranges"], headers["Content-Type"], body) == (200, "10", "bytes", "application/octet-stream", b"")


def test_an_empty_part(core):
    core.on = lambda r: r.part(b"")
    assert core.call("GET", f"/v1/runs/{RUN}/output/stderr")[::2] == (200, b"")
    assert core.call("GET", f"/v1/runs/{RUN}/output/stderr", headers={"Range": "bytes=0-"})[0] == 416


def piped(core, r, flag, data, outcome=0, body=b"", early=False):
    out, into = os.pipe()
    r.answer(200, flags=flag, fds=[out])
    os.close(out)
    if early:
        core.send(OUTCOME, r.number, value=outcome, body=body)
    with open(into, "wb") as file:
        file.write(data)
    if not early:
        core.send(OUTCOME, r.number, value=outcome, body=body)


@pytest.mark.parametrize("early", [False, True])
def test_json_of_a_program(core, early):
    core.on = lambda r: piped(core, r, JSON, b'{"b": [1, 2.5],\n "a": "x"}\n', early=early)
    assert core.call("GET", "/v1/engines")[2] == {"b": [1, 2.5], "a": "x"}
    core.on = lambda r: piped(core, r, JSON, b"", 1, b"409\0not_running\0it does not run", early)
    status, _, body = core.call("GET", "/v1/engines")
    assert (status, body["code"], body["detail"]) == (409, "not_running", "it does not run")
    core.on = lambda r: piped(core, r, JSON, b"bawn: no such thing\n", 125, b"404\0not_found\0", early)
    status, _, body = core.call("GET", "/v1/engines")
    assert (status, body["code"], body["detail"]) == (404, "not_found", "bawn: no such thing")
    core.on = lambda r: piped(core, r, JSON, b"{", 0, early=early)
    assert core.call("GET", "/v1/engines")[0] == 500


def test_json_of_a_program_that_is_too_large_is_not_read_to_its_end(core):
    broken = []

    def on(r):
        try:
            piped(core, r, JSON, b'"' + b"x" * (2 << 20) + b'"')
        except BrokenPipeError as error:
            broken.append(error)

    core.on = on
    assert core.call("GET", "/v1/engines")[2]["code"] == "internal"
    while not broken:
        time.sleep(0.01)


def test_a_stream_of_bytes(core):
    data = os.urandom(5 << 20)
    core.on = lambda r: piped(core, r, STREAM, data)
    status, headers, body = core.call("GET", f"/v1/runs/{RUN}/archive")
    assert (status, headers["Content-Type"], headers["Transfer-Encoding"]) == (200, "application/x-tar", "chunked") and body == data
    core.on = lambda r: piped(core, r, STREAM, b"")
    assert core.call("GET", f"/v1/runs/{RUN}/archive")[::2] == (200, b"")
    core.on = lambda r: piped(core, r, STREAM, b"", 1, b"404\0not_found\0no such folder")
    assert core.call("GET", f"/v1/runs/{RUN}/archive")[2]["detail"] == "no such folder"


def test_a_stream_that_fails_later_is_cut(core):
    core.on = lambda r: piped(core, r, STREAM, b"half", 1, b"500\0internal\0")
    got = core.raw(f"GET /v1/runs/{RUN}/archive HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert b"half" in got and not got.endswith(b"0\r\n\r\n")


def events(core, lines, offset=0, last=True):
    def on(r):
        fd = memory(lines)
        r.answer(200, struct.pack("<Q", offset), EVENTS, [fd])
        if last:
            core.send(LAST, r.number, body=struct.pack("<Q", len(lines)))
        os.close(fd)
    core.on = on


LINES = b'{"type":"state","data":"queued"}\n{"type":"stdout","data":"a\\rb"}\n{}\n{"id":5,"type":"x"}\n{"part'


def test_events(core):
    events(core, LINES)
    status, headers, body = core.call("GET", f"/v1/runs/{RUN}/events", headers={"Last-Event-ID": "33"})
    assert status == 200 and headers["Content-Type"] == "text/event-stream" and core.seen[0].one("last_event_id") == "33"
    assert body == (b'id: 33\ndata: {"id":33,"type":"state","data":"queued"}\n\nid: 65\ndata: {"id":65,"type":"stdout","data":"a\\rb"}\n\n'
                    b'id: 68\ndata: {"id":68}\n\nid: 88\ndata: {"id":5,"type":"x"}\n\n')
    status, headers, body = core.call("GET", f"/v1/runs/{RUN}/events?after=33", headers={"Accept": "application/x-ndjson"})
    assert headers["Content-Type"] == "application/x-ndjson" and [json.loads(x)["id"] for x in body.splitlines()] == [33, 65, 68, 5]
    assert core.seen[-1].one("after") == "33" and core.seen[-1].one("stream") == "1"
    assert core.cancelled.empty()


def test_events_go_on_behind_an_offset(core):
    events(core, LINES, 33)
    assert core.call("GET", "/v1/events")[2].startswith(b"id: 65\n")
    events(core, LINES, 40)  # within a line
    assert core.call("GET", "/v1/events")[2].startswith(b"id: 68\n")
    events(core, LINES, 5000)
    assert core.call("GET", "/v1/events")[2] == b""


def test_events_of_a_file_that_grows(core, tmp_path):
    path = tmp_path / "events"
    path.write_bytes(b"")
    numbers = []

    def on(r):
        numbers.append(r.number)
        fd = os.open(path, os.O_RDONLY)
        r.answer(200, struct.pack("<Q", 0), EVENTS, [fd])
        os.close(fd)

    core.on = on
    client = core.client()
    client.request("GET", f"/v1/runs/{RUN}/events", headers={"Accept": "application/x-ndjson"})
    answer = client.getresponse()
    with open(path, "ab", buffering=0) as file:
        for i in range(20):
            file.write(b'{"n":%d' % i)
            file.write(b"}\n")
            assert json.loads(answer.readline())["n"] == i
        file.write(b'{"n":99}\n')
        core.send(LAST, numbers[0], body=struct.pack("<Q", file.tell()))
    assert json.loads(answer.readline())["n"] == 99 and answer.readline() == b""


def test_comments_keep_a_stream_alive(runner):
    core = Core(runner, comment_seconds=1)
    events(core, b"", last=False)
    sock = core.connect()
    sock.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    got = b""
    while got.count(b":\n\n") < 2:
        got += sock.recv(4096)
    sock.close()
    assert core.cancelled.get() == core.seen[0].number
    assert core.end() == (0, b"")


def test_drain_ends_streams_and_connections(runner):
    core = Core(runner)
    events(core, LINES, last=False)
    client = core.client()
    client.request("GET", "/v1/events")
    answer = client.getresponse()
    assert answer.readline() == b"id: 33\n"
    idle = core.connect()
    assert core.end() == (0, b"")
    assert answer.read().endswith(b"\n\n") and idle.recv(1) == b""


def test_cancel_when_the_client_goes(core):
    core.on = lambda r: None
    for path in ["/v1/me", f"/v1/runs/{RUN}?wait=3600"]:
        sock = core.connect()
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while not core.seen:
            time.sleep(0.01)
        sock.close()
        assert core.cancelled.get() == core.seen.pop().number
    assert {core.gone.get(), core.gone.get()} == {1, 2}


def test_an_answer_for_one_that_has_gone_does_nothing(core):
    core.on = lambda r: None
    sock = core.connect()
    sock.sendall(b"GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n")
    while not core.seen:
        time.sleep(0.01)
    r = core.seen[0]
    sock.close()
    core.cancelled.get()
    fd = memory(b"x")
    r.answer(200, b"{}")
    r.answer(200, struct.pack("<Q", 0), EVENTS, [fd])
    core.send(OUTCOME, r.number)
    core.send(LAST, r.number, body=bytes(8))
    core.send(UPLOAD, r.number, fds=[fd])
    core.on = lambda q: q.answer(200, {})
    assert core.call("GET", "/v1/me")[0] == 200


def uploads(core, got, status=204, limit=None):
    def on(r):
        out, into = os.pipe()
        core.send(UPLOAD, r.number, fds=[into])
        os.close(into)
        with open(out, "rb") as file:
            got.append(file.read(limit) if limit is not None else file.read())
        r.answer(status) if status < 400 else r.refuse(status, "quota")
    core.on = on


@pytest.mark.parametrize("size", [0, 1, 70000, 5 << 20])
def test_uploads(core, size):
    got, data, client = [], os.urandom(size), core.client()
    uploads(core, got)
    assert core.call("PUT", f"/v1/runs/{RUN}/file?path=a&executable=true", data, client=client)[0] == 204
    assert got == [data] and core.seen[0].one("executable") == "1"
    client.request("PUT", f"/v1/runs/{RUN}/archive", iter([data, b"", b"tail"]), {"Host": "x"}, encode_chunked=True)
    assert client.getresponse().read() == b"" and got[1] == data + b"tail"


def test_an_upload_that_is_refused_at_once(core):
    core.on = lambda r: r.refuse(404, "not_found", "no such run")
    client = core.client()
    for data in (b"", b"x" * 1000):
        assert core.call("PUT", f"/v1/runs/{RUN}/file?path=a", data, client=client)[2]["code"] == "not_found"


def test_an_upload_that_is_refused_in_between(core):
    got = []
    uploads(core, got, 429, 10)
    status, _, body = core.call("PUT", f"/v1/runs/{RUN}/file?path=a", b"x" * (3 << 20))
    assert (status, body["code"], got) == (429, "quota", [b"x" * 10])


def test_an_upload_that_is_cut_is_cancelled_before_its_end(core):
    order = []

    def on(r):
        out, into = os.pipe()
        core.send(UPLOAD, r.number, fds=[into])
        os.close(into)
        order.append((out, r.number))

    core.on = on
    sock = core.connect()
    sock.sendall(f"PUT /v1/runs/{RUN}/file?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    while not order:
        time.sleep(0.01)
    out, number = order[0]
    assert os.read(out, 100) == b"half"
    sock.close()
    assert os.read(out, 100) == b""
    assert core.cancelled.get(timeout=60) == number  # it was sent before the end of the pipe could be seen
    os.close(out)


def test_pipelining_and_keep_alive(core):
    core.on = lambda r: r.answer(200, {"op": r.op})
    got = core.raw(b"GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n" * 20 + b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 OK") == 21 and got.endswith(b'{"op": "health"}') and [r.op for r in core.seen] == ["me"] * 20 + ["health"]
    assert len({r.one("request_id") for r in core.seen}) == 21


def test_accept(core):
    assert core.call("GET", "/v1/me", headers={"Accept": "text/html"})[2]["code"] == "not_acceptable"
    assert core.call("GET", "/v1/me", headers={"Accept": "text/html, */*;q=0.1"})[0] == 200
    assert core.call("GET", "/v1/events", headers={"Accept": "application/json"})[0] == 406
    core.on = lambda r: piped(core, r, STREAM, b'{"type":"exit"}\n')
    body = {"command": ["true"]}
    assert core.call("POST", f"/v1/sandboxes/{RUN}/exec", body, {"Accept": "text/event-stream"})[2] == b'id: 16\ndata: {"id":16,"type":"exit"}\n\n'
    assert core.seen[-1].one("stream") == "1"
    core.on = lambda r: r.answer(200, {"status": 0, "stdout": "", "stderr": ""})
    assert core.call("POST", f"/v1/sandboxes/{RUN}/exec", body)[2]["status"] == 0 and core.seen[-1].one("stream") is None


def test_other_tables_are_refused(runner):
    core = Core(runner, tables="0" * 16)
    assert core.proc.wait() == 125 and b"not of the same build" in core.proc.stderr.read()
    core.proc.stderr.close()


def test_every_operation_has_a_route(core):
    """Each path of the specification, with nothing but what its path needs, ends in its own operation."""
    values = {"id": RUN, "kind": "sandboxes", "stream": "stdout", "tag": "t", "rule": "r", "question": "q", "tenant": "t", "token": "tok_0123456789abcdef"}
    for route in TABLES.routes:
        path = route["path"]
        for name, value in values.items():
            path = path.replace("{" + name + "}", value)
        status, headers, body = core.call(route["method"].upper(), path)
        needs = [r for r in route["rows"] if r["required"] and r["place"] != "path"]
        if route["answer"] == "websocket" or needs or route["body"] == "json":
            assert status in (400, 415), (route["op"], status)
        else:
            assert core.seen[-1].op == route["op"] and status < 300, (route["op"], status)
    assert len(SPEC["paths"]) > 40
