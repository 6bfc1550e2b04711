# SPDX-License-Identifier: Apache-2.0
"""TLS, with curl and with Python's own client."""

import asyncio
import http.client
import json
import os
import socket
import ssl
import subprocess

import pytest
import websockets
from fake_core import Core
from test_front_terminal import PATH, Keeper, read_until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    folder.chmod(0o755)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "key", "-out", folder / "cert", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return folder


@pytest.fixture
def served(runner, certificate):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        core = Core(runner, [listening], tls=[(certificate / "cert").read_bytes(), (certificate / "key").read_bytes()], body_seconds=2, header_seconds=2)
        core.port = listening.getsockname()[1]
        core.trust = ssl.create_default_context(cafile=certificate / "cert")
        yield core
        assert core.end() == (0, b"")


def test_curl(served, certificate, runner):
    served.on = lambda r: r.answer(201, {"id": "x", "command": r.one("command")})
    got = subprocess.run(["curl", "-sS", "--cacert", certificate / "cert", "-H", "Authorization: Bearer t", "--json", '{"command":["true"]}',
                          f"https://localhost:{served.port}/v1/runs"], capture_output=True, env={"PATH": os.environ["PATH"]})
    assert got.returncode == 0 and json.loads(got.stdout)["command"] == "true", got
    assert served.seen[0].one("bearer") == "t" and served.seen[0].peer == 0


def test_large_parts_and_uploads_over_tls(served):
    data = os.urandom(3 << 20)
    served.on = lambda r: r.part(data)
    client = http.client.HTTPSConnection("localhost", served.port, context=served.trust)
    for want, header in ((data, {}), (data[5:], {"Range": "bytes=5-"})):
        client.request("GET", "/v1/runs/run_0123456789abcdef/output/stdout", headers={"Authorization": "Bearer t", **header})
        assert client.getresponse().read() == want
    client.close()


def test_a_terminal_over_tls(served):
    Keeper(served, "bash", "-c", "echo over tls; read x; echo got $x")

    async def go():
        async with websockets.connect(f"wss://localhost:{served.port}{PATH}", ssl=served.trust, extra_headers={"Authorization": "Bearer t"}) as ws:
            await read_until(ws, b"over tls")
            await ws.send(b"it\n")
            await read_until(ws, b"got it")
            last = None
            with pytest.raises(websockets.ConnectionClosedOK):
                while True:
                    last = await ws.recv()
            return last

    assert asyncio.run(go()) == '{"exit":0}'


def test_a_slow_body_over_tls(served):
    with served.trust.wrap_socket(socket.create_connection(("127.0.0.1", served.port)), server_hostname="localhost") as sock:
        sock.sendall(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        assert sock.recv(4096).startswith(b"HTTP/1.1 408")


def test_no_tls_and_old_tls(served):
    for data in (b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01" + bytes(100), b"", b"\x80\x2e\x01\0\2" + bytes(50)):
        assert not served.raw(data, socket.create_connection(("127.0.0.1", served.port))).startswith(b"HTTP")
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises(OSError):
        old.wrap_socket(socket.create_connection(("127.0.0.1", served.port)))
    assert not served.seen


def test_a_key_that_is_none(runner):
    core = Core(runner, tls=[b"x", b"y"])
    assert core.proc.wait() == 125 and b"certificate" in core.proc.stderr.read()
    core.proc.stderr.close()
