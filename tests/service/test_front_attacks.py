# SPDX-License-Identifier: Apache-2.0
"""Clients that break rules: bawn-front refuses them, goes on for the others, and has nothing to give away."""

import json
import os
import pathlib
import re
import socket
import threading
import time

from fake_core import TABLES, UPLOAD, Core

RUN = "run_0123456789abcdef"


def alive(core):
    before, core.on = core.on, lambda r: r.answer(200, {})
    assert core.call("GET", "/v1/health")[0] == 200
    core.on = before


def test_bawn_front_is_in_its_jail_before_the_first_byte(runner):
    """Claim: what reads the bytes of clients has no file, no capability, no way to another program or host, and no id of anyone."""
    core = Core(runner)
    sock = core.connect()
    sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert sock.recv(4096).startswith(b"HTTP/1.1 200")
    status = pathlib.Path(f"/proc/{core.proc.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert (fields["Seccomp"], fields["NoNewPrivs"], fields["Threads"]) == ("2", "1", "1"), status
    assert not int(fields["CapEff"], 16) and not int(fields["CapPrm"], 16) and not int(fields["CapBnd"], 16) * runner.is_root, status
    uids = set(fields["Uid"].split())
    assert len(uids) == 1 and (not runner.is_root or int(uids.pop()) >= 0x7C000000 or fields["Uid"].startswith("65534")), status
    limits = pathlib.Path(f"/proc/{core.proc.pid}/limits").read_text()
    assert re.search(r"Max core file size\s+0\s+0", limits) and re.search(r"Max processes\s+0\s+0", limits), limits
    sock.close()
    assert core.end() == (0, b"")


def test_the_jail_is_there_before_bawnd_says_anything(runner):
    """Claim: no byte at all is read before the jail is in place."""
    import fake_core

    before, fake_core.Core.send = fake_core.Core.send, lambda *a, **k: None
    try:
        core = Core(runner)
    finally:
        fake_core.Core.send = before
    status = pathlib.Path(f"/proc/{core.proc.pid}/status")
    while "Seccomp:\t2" not in status.read_text():  # a hang here is the failure
        assert core.proc.poll() is None
    core.sock.shutdown(socket.SHUT_RDWR)
    core.proc.communicate()


MALFORMED = [
    b"GET\r\n\r\n", b"GET /v1/me\r\n\r\n", b"\0\0\0\0\r\n\r\n", b"GET /v1/me HTTP/9.9\r\nHost: x\r\n\r\n", b"GET /v1/me HTTP/1.1\r\nHost x\r\n\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhelloo",
    b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 3x\r\n\r\nabc",
    b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    b"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", b"GET http://evil/v1/me HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/me%00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/%zz HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/runs?label=%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/runs?label=%00 HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /" + b"a/" * 4000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /v1/me?" + b"a=b&" * 4000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/me HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100000 + b"\r\n\r\n", b"GET /v1/me HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 20000 + b"\r\n",
    b"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Basic eHg6eXk=\r\n\r\n", b"GET /v1/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"x" * 300 + b"\r\n\r\n",
    b"GET /v1/me HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
]


def test_malformed_requests_reach_nobody(runner):
    core = Core(runner, header_seconds=1)  # how long libmicrohttpd waits for a line that is none
    for data in MALFORMED:
        sock, got = core.connect(), b""
        threading.Thread(target=send, args=(sock, data)).start()
        try:
            while more := sock.recv(65536):
                got += more
        except ConnectionError:
            pass
        sock.close()
        assert not got or re.match(rb"HTTP/1\.[01] (4\d\d|505) ", got), (data[:80], got[:200])
    assert not core.seen
    alive(core)
    assert core.end() == (0, b"")


def send(sock, data):
    try:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass


JSON_BODIES = [
    b"", b"{", b"[]", b"null", b'"x"', b"1", b"{} {}", b'{"command":["a"],"command":["b"]}', b'{"command":["\\u0000"]}', b'{"command":["\xff"]}', b'{"command":"x"}',
    b'{"command":[1]}', b'{"command":[null]}', b'{"command":null}', b'{"command":["a"],"wat":1}', b'{"command":["a"],"shape":[]}', b'{"command":["a"],"shape":{"wat":1}}',
    b'{"command":["a"],"shape.limits.cpus":"1"}', b'{"command":["a"],"shape":{"limits.cpus":"1"}}', b'{"command":["a"],"wait":-1}', b'{"command":["a"],"wait":3601}',
    b'{"command":["a"],"wait":1.5}', b'{"command":["a"],"wait":"1"}', b'{"command":["a"],"wait":99999999999999999999}', b'{"command":["a"],"stdin":1}',
    b'{"command":["a"],"env":{"A=B":"x"}}', b'{"command":["a"],"env":{"":"x"}}', b'{"command":["a"],"env":{"A":1}}', b'{"command":["a"],"agent":{}}',
    b'{"command":["a"],"agent":{"name":"x","mcp_servers":{"y":{"wat":1}}}}', b'{"command":["a"],"agent":{"name":"x","mcp_servers":{"y":{"env":{"A B":"x"}}}}}',
    b'{"command":["a"],"shape":{"mode":"root"}}', b'{"command":["a"],"shape":{"source":{"path":"relative"}}}', b'{"env":{}}',
    b'{"command":["a"],"labels":{' + b",".join(b'"l%d":"x"' % i for i in range(17)) + b"}}", b'{"command":[' + b",".join([b'"a"'] * 1025) + b"]}",
    b'{"command":' + b"[" * 100000, b"[" * 17 + b"]" * 17, b'{"a":' * 17 + b"1" + b"}" * 17, b'{"command":[' + b"0," * 30000 + b"0]}", b'{"command":["a"]}\0',
    b'{"command":["a"],"bearer":"x"}', b'{"command":["a"],"request_id":"x"}', b'{"command":["a"],"id":"x"}', b'{"command":["a"],"Idempotency-Key":"x"}',
]


def test_malformed_and_deep_json(core):
    client = core.client()
    for body in JSON_BODIES:
        status, _, problem = core.call("POST", "/v1/runs", body, {"Content-Type": "application/json"}, client)
        assert status == 400 and problem["code"] in ("bad_json", "bad_field") and ("field" in problem) == (problem["code"] == "bad_field"), (body[:80], problem)
    assert not core.seen
    paths = [core.call("POST", "/v1/runs", b, {"Content-Type": "application/json"}, client)[2]["field"] for b in JSON_BODIES if b in (
        b'{"command":[1]}', b'{"command":["a"],"shape":{"wat":1}}', b'{"command":["a"],"agent":{}}', b'{"command":["a"],"agent":{"name":"x","mcp_servers":{"y":{"wat":1}}}}')]
    assert paths == ["command[0]", "shape.wat", "agent.name", "agent.mcp_servers.y.wat"]


def test_bodies_that_are_not_wanted(core):
    client = core.client()
    for method, path, body, headers, want in [
            ("POST", "/v1/runs", b"{}", {}, 415), ("POST", "/v1/runs", b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
            ("POST", "/v1/runs", b"{}", {"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415), ("GET", "/v1/me", b"{}", {}, 400),
            ("POST", f"/v1/runs/{RUN}/cancel", b"{}", {}, 400), ("DELETE", f"/v1/runs/{RUN}", b"x", {}, 400), ("POST", "/nothing", b"x" * 1000, {}, 404)]:
        assert core.call(method, path, body, headers, client)[0] == want, path
    assert not core.seen


def test_oversized_bodies(runner):
    core = Core(runner, json_max=10000, upload_max=20000)
    head = "POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    # Said before it is sent: refused before it is sent.
    sock = core.connect()
    sock.sendall(f"{head}Content-Length: 5000000000\r\n\r\n".encode())
    assert sock.recv(4096).startswith(b"HTTP/1.1 413")
    sock = core.connect()
    sock.sendall(f"{head}Content-Length: 10001\r\nExpect: 100-continue\r\n\r\n".encode())
    assert sock.recv(4096).startswith(b"HTTP/1.1 413")
    # Not said: cut when it is there.
    got = core.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + b"1000\r\n" + b" " * 4096 + b"\r\n" + b"2000\r\n" + b" " * 8192 + b"\r\n")
    assert got.startswith(b"HTTP/1.1 413") and json.loads(got.partition(b"\r\n\r\n")[2])["code"] == "too_large"
    assert not core.seen
    out, into = os.pipe()
    core.on = lambda r: core.send(UPLOAD, r.number, fds=[into])
    got = core.raw(f"PUT /v1/runs/{RUN}/file?path=a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + (b"2000\r\n" + b" " * 8192 + b"\r\n") * 3)
    assert got.startswith(b"HTTP/1.1 413") and core.cancelled.get() == core.seen[0].number
    os.close(into)
    os.close(out)
    assert core.call("POST", f"/v1/runs/{RUN}/stdin", b"x" * 20001)[0] == 413
    assert core.end() == (0, b"")


def trickle(sock, start):
    try:
        sock.send(b" " if start else b"")
    except OSError:
        pass


def test_slow_headers_and_bodies(runner):
    """One byte at a time is progress for a time-out, and none for a deadline."""
    core = Core(runner, header_seconds=1, body_seconds=1, idle_seconds=1)
    starts = [b"GET /v1/me HTTP/1.1\r\nHost: x\r\nX: ", b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", b"",
              b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/me HTTP/1.1\r\nX: "]
    socks = [core.connect() for _ in starts]
    for sock, data in zip(socks, starts):
        sock.sendall(data)
    got, open_ = [b""] * len(socks), set(range(len(socks)))
    while open_:
        time.sleep(0.05)
        for i in sorted(open_):
            try:
                socks[i].setblocking(False)
                more = socks[i].recv(4096)
                got[i] += more
                if not more:
                    open_.discard(i)
            except BlockingIOError:
                trickle(socks[i], starts[i])
            except ConnectionError:
                open_.discard(i)
    assert got[0] == got[2] == b"" and got[1].startswith(b"HTTP/1.1 408") and b'"timeout"' in got[1] and got[3].count(b"HTTP/1.1 ") == 1
    assert [r.op for r in core.seen] == ["health"]
    assert core.end() == (0, b"")


def test_a_stalled_upload_ends(runner):
    core = Core(runner, stall_seconds=1)
    core.on = lambda r: core.send(UPLOAD, r.number, fds=[os.open("/dev/null", os.O_WRONLY)])
    assert b"HTTP/1.1 2" not in core.raw(f"PUT /v1/runs/{RUN}/file?path=a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    assert core.cancelled.get() == core.seen[0].number
    assert core.end() == (0, b"")


def test_a_client_that_does_not_read_ends(runner):
    core = Core(runner, stall_seconds=1)
    core.on = lambda r: r.part(bytes(50 << 20))
    sock = core.connect()
    sock.sendall(f"GET /v1/runs/{RUN}/output/stdout HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert core.gone.get() == 1
    sock.close()
    assert core.end() == (0, b"")


def test_ceilings_of_connections(runner):
    core = Core(runner, connections_max=20, peer_max=10)
    mine = [core.connect(uid=1) for _ in range(15)]
    assert {core.gone.get() for _ in range(5)} == set(range(11, 16))  # refused, and bawnd knows
    others = [core.connect(uid=2) for _ in range(10)]
    for sock in others:
        sock.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 200")
    assert core.connect(uid=3).recv(1) == b"" and core.gone.get() == 26
    mine[0].close()
    assert core.gone.get() == 1
    alive(core)
    assert core.end() == (0, b"")


def test_ceiling_of_requests(runner):
    core = Core(runner, requests_max=3)
    core.on = lambda r: None
    waiting = [core.connect() for _ in range(3)]
    for sock in waiting:
        sock.sendall(b"GET /v1/me HTTP/1.1\r\nHost: x\r\n\r\n")
    while len(core.seen) < 3:
        time.sleep(0.01)
    status, headers, body = core.call("GET", "/v1/me")
    assert (status, body["code"], headers["Retry-After"]) == (503, "too_many", "1")
    core.seen[0].answer(200, {})
    assert waiting[0].recv(4096).startswith(b"HTTP/1.1 200")
    alive(core)
    for sock in waiting:
        sock.close()
    assert core.end() == (0, b"")


def listener(family=socket.AF_INET, address="127.0.0.1"):
    sock = socket.socket(family)
    sock.bind((address, 0))
    sock.listen()
    sock.setblocking(False)
    return sock


def tcp(core, listening, data):
    return core.raw(data, socket.create_connection(listening.getsockname()[:2]))


def test_hosts_and_tokens_over_tcp(runner):
    """DNS rebinding: a page whose name became our address still says its own name."""
    with listener() as four, listener(socket.AF_INET6, "::1") as six:
        core = Core(runner, [four, six])
        ask = b"GET /v1/health HTTP/1.1\r\nConnection: close\r\nHost: %s\r\n\r\n"
        for listening in (four, six):
            for host in (b"localhost", b"LocalHost:8443", b"127.0.0.1:1", b"[::1]", b"[::1]:8443"):
                assert tcp(core, listening, ask % host).startswith(b"HTTP/1.1 200"), host
            for host in (b"evil.example", b"localhost.evil.example", b"localhost:evil", b"", b"127.0.0.2", b"[::1", b"[::1]x", b"localhost@evil"):
                assert re.match(rb"HTTP/1.1 40[03]", tcp(core, listening, ask % host)), host
            assert tcp(core, listening, b"GET /v1/health HTTP/1.0\r\n\r\n").split()[1] == b"400"
        assert {r.op for r in core.seen} == {"health"} and {r.peer for r in core.seen} == {0}
        core.seen.clear()
        for route in TABLES.routes:  # without a token nothing is asked of bawnd
            path = re.sub(r"{\w+}", lambda m: {"{id}": RUN, "{kind}": "runs", "{stream}": "stdout", "{token}": RUN}.get(m[0], "x"), route["path"])
            got = tcp(core, four, f"{route['method'].upper()} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            want = 401 if route["scope"] != "any" else 415 if route["body"] == "json" else 200
            assert got.startswith(b"HTTP/1.1 %d " % want), (route["op"], got[:60])
        assert {r.op for r in core.seen} == {"health"}
        got = tcp(core, four, b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: bearer t0k\r\n\r\n")
        assert got.startswith(b"HTTP/1.1 200") and core.seen[-1].one("bearer") == "t0k"
        assert core.end() == (0, b"")


def test_tcp_clients_wait_when_all_connections_are_taken(runner):
    with listener() as four:
        core = Core(runner, [four], connections_max=5, peer_max=5)
        taken = [socket.create_connection(four.getsockname()) for _ in range(5)]
        ask = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        for sock in taken:
            sock.sendall(ask[:10])
        waits = socket.create_connection(four.getsockname())
        waits.sendall(ask)
        taken[0].sendall(ask[10:])
        assert taken[0].recv(4096).startswith(b"HTTP/1.1 200") and waits.recv(4096).startswith(b"HTTP/1.1 200")
        for sock in [*taken, waits]:
            sock.close()
        assert core.end() == (0, b"")


def test_a_bawnd_that_breaks_the_protocol_ends_it(runner):
    for data in (b"x", bytes(32), b"bapi" + bytes(28), b"bapi\x10\0" + bytes(26)):
        core = Core(runner)
        core.sock.send(data)
        _, err = core.proc.communicate()
        assert core.proc.returncode == 125 and b"bawnd" in err


def test_many_connections_at_once(core):
    """A flood of half requests does not keep others from being served."""
    halves = [core.connect() for _ in range(150)]
    for i, sock in enumerate(halves):
        sock.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"[: 20 + i])
    for _ in range(20):
        alive(core)
    for sock in halves:
        sock.close()

