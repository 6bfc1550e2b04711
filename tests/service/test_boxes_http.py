# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that stay, over HTTP: terminals, checkpoints, forks, ports."""

import asyncio
import json
import socket

import pytest
import websockets


@pytest.fixture
def box(service):
    token = service.token()
    status, made, _ = service.call("POST", "/v1/sandboxes", {}, token=token)
    assert status == 201, made
    yield service, token, f"/v1/sandboxes/{made['id']}"
    for b in service.call("GET", "/v1/sandboxes", token=token)[1]["items"]:
        service.call("DELETE", f"/v1/sandboxes/{b['id']}", token=token)


def execute(service, token, path, *command):
    status, r, _ = service.call("POST", path + "/exec", {"command": list(command)}, token=token)
    assert status == 200, r
    return r["status"], r["stdout"]


def test_a_terminal(box):
    service, token, path = box

    async def talk(query, conversation):
        async with websockets.connect(f"ws://localhost{path}/terminal?{query}", sock=service.connect(), compression=None,
                                      extra_headers={"Authorization": f"Bearer {token}"}) as ws:
            return await conversation(ws)

    seen = b""

    async def until(ws, what):
        nonlocal seen
        while what not in seen:
            data = await ws.recv()
            assert isinstance(data, bytes), (data, seen)
            seen += data
        seen = seen.partition(what)[2]

    async def shell(ws):
        await ws.send(b"stty size; echo he''llo $TERM\n")
        await until(ws, b"33 101\r\n")
        await until(ws, b"hello xterm-256color")
        await ws.send(json.dumps({"resize": [120, 40]}))
        await ws.send(b"stty size\n")
        await until(ws, b"40 120")
        await ws.send(b"exit 5\n")
        try:
            while True:
                last = await ws.recv()
        except websockets.ConnectionClosedOK:
            return last

    assert json.loads(asyncio.run(talk("columns=101&rows=33", shell))) == {"exit": 5}

    async def one(ws):
        got = []
        try:
            while True:
                got.append(await ws.recv())
        except websockets.ConnectionClosedOK:
            return got

    got = asyncio.run(talk("command=tty%20%3E%2Fdev%2Fnull%20%26%26%20echo%20is%20one", one))
    assert b"is one" in b"".join(g for g in got if isinstance(g, bytes)) and json.loads(got[-1]) == {"exit": 0}


def test_a_terminal_of_another_tenant(box):
    service, _, path = box
    other = service.token("other")
    headers = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    assert service.call("GET", path + "/terminal", token=other, **headers)[0] == 404


def test_checkpoints_and_forks(box):
    service, token, path = box
    execute(service, token, path, "sh", "-c", "echo first > f")
    status, made, _ = service.call("POST", path + "/checkpoints", {"tag": "one"}, token=token)
    assert (status, made["tag"]) == (201, "one") and made["files"] >= 1, made
    assert service.call("POST", path + "/checkpoints", {"tag": "one"}, token=token)[0] == 409
    execute(service, token, path, "sh", "-c", "echo second > f")
    assert [c["tag"] for c in service.call("GET", path + "/checkpoints", token=token)[1]["items"]] == ["one"]

    key = {"Idempotency-Key": "a fork"}
    status, fork, _ = service.call("POST", path + "/fork", {"checkpoint": "one", "labels": {"a": "b"}}, token=token, **key)
    assert (status, fork["state"], fork["labels"]) == (201, "running", {"a": "b"}), fork
    assert service.call("POST", path + "/fork", {"checkpoint": "one", "labels": {"a": "b"}}, token=token, **key)[1]["id"] == fork["id"]
    assert service.call("POST", path + "/fork", {}, token=token, **key)[1]["code"] == "idempotency_conflict"
    there = f"/v1/sandboxes/{fork['id']}"
    assert execute(service, token, there, "cat", "f") == (0, "first\n")
    execute(service, token, there, "sh", "-c", "echo fork > f")
    assert execute(service, token, path, "cat", "f") == (0, "second\n")
    now = service.call("POST", path + "/fork", {}, token=token)[1]
    assert execute(service, token, f"/v1/sandboxes/{now['id']}", "cat", "f") == (0, "second\n")

    other = service.token("other")
    for method, where, body in (("GET", "/checkpoints", None), ("POST", "/checkpoints", {"tag": "x"}), ("DELETE", "/checkpoints/one", None), ("POST", "/fork", {})):
        assert service.call(method, path + where, body, token=other)[0] == 404
    assert service.call("DELETE", path + "/checkpoints/one", token=token)[0] == 204
    assert service.call("DELETE", path + "/checkpoints/one", token=token)[0] == 404
    assert service.call("POST", path + "/fork", {"checkpoint": "one"}, token=token)[0] >= 400


SERVER = """
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', 8000)); s.listen()
if __import__('os').fork(): raise SystemExit
while True:
    c, _ = s.accept()
    got = b''
    while (part := c.recv(65536)): got += part
    c.sendall(got[::-1]); c.close()
"""


def test_a_port(box):
    service, token, path = box
    status, port, _ = service.call("POST", path + "/ports", {"port": 8000}, token=token)
    assert (status, port["port"]) == (201, 8000), port
    assert service.call("POST", path + "/ports", {"port": 8000}, token=token)[1] == port
    host, number = port["address"].split(":")

    def ask(data):
        with socket.create_connection((host, int(number))) as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while part := s.recv(65536):
                got += part
            return got

    with pytest.raises(ConnectionResetError):  # nothing listens inside yet
        if ask(b"x") == b"":
            raise ConnectionResetError
    status, said, _ = service.call("POST", path + "/exec", {"command": ["sh", "-c", f"setsid python3 -c \"{SERVER}\" </dev/null >/dev/null 2>&1"]}, token=token)
    assert said["status"] == 0, said
    assert ask(b"abc") == b"cba"
    big = bytes(range(256)) * 4096
    assert ask(big) == big[::-1]
    assert service.call("POST", path + "/ports", {"port": 8000}, token=service.token("other"))[0] == 404
    assert service.call("POST", path + "/stop", token=token)[0] == 200
    while True:  # its relay ends with the sandbox
        try:
            socket.create_connection((host, int(number))).close()
        except ConnectionRefusedError:
            break
    assert service.call("POST", path + "/ports", {"port": 8000}, token=token)[1]["code"] == "not_running"
