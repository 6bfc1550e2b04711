# SPDX-License-Identifier: Apache-2.0
"""Terminals over WebSocket, with a real client and a real shell; and clients that break RFC 6455."""

import array
import asyncio
import base64
import contextlib
import os
import socket
import struct
import subprocess
import threading

import pytest
import websockets
from fake_core import TERMINAL, Core

BOX = "box_0123456789abcdef"
PATH = f"/v1/sandboxes/{BOX}/terminal?columns=80&rows=24"
STARTED, EXITED, FAILED = 7, 10, 11
MESSAGE = struct.Struct("<IiiII")


class Keeper:
    """What the keeper of a sandbox is to the front: a socket on which a command was asked for, and a pty."""

    def __init__(self, core, *command):
        self.core, self.command = core, command
        self.sock, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        core.on = self.on

    def on(self, r):
        r.answer(200, flags=TERMINAL, fds=[self.theirs.fileno()])
        self.theirs.close()
        if self.command:
            threading.Thread(target=self.run).start()

    def say(self, kind, value=0, body=b"", fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([MESSAGE.pack(kind, value, 0, 0, len(body)) + body], ancillary)

    def run(self):
        master, slave = os.openpty()
        self.proc = subprocess.Popen(self.command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        with contextlib.suppress(OSError):  # the front may have hung up
            self.say(STARTED, 1, fds=[master])
            os.close(master)
            os.close(slave)
            status = self.proc.wait()
            self.say(EXITED, status << 8 if status >= 0 else -status)


def talk(core, conversation):
    async def go():
        async with websockets.connect("ws://localhost" + PATH, sock=core.connect(), max_size=1 << 20, compression=None) as ws:
            return await conversation(ws)
    return asyncio.run(go())


async def read_until(ws, what):
    got = b""
    while what not in got:
        data = await ws.recv()
        assert isinstance(data, bytes), data
        got += data
    return got


def test_a_shell(core):
    keeper = Keeper(core, "bash", "--norc", "-i")

    async def conversation(ws):
        await ws.send(b"stty -echo; echo he''llo\n")
        await read_until(ws, b"hello")
        await ws.send('{"resize": [132, 50]}')
        await ws.send(b"stty size\n")
        await read_until(ws, b"50 132")
        await (await ws.ping())
        await ws.send(b"exit 7\n")
        last = None
        with pytest.raises(websockets.ConnectionClosedOK):
            while True:
                last = await ws.recv()
        return last

    assert talk(core, conversation) == '{"exit":7}'
    assert keeper.sock.recv(1) == b"" and core.seen[0].one("columns") == "80" and core.cancelled.empty()


def test_much_output_and_much_input(core):
    Keeper(core, "bash", "-c", "stty raw -echo; head -c 3000000 /dev/zero; echo; head -c 300000 | wc -c")

    async def conversation(ws):
        got = 0
        while got < 3000000:
            got += len(await ws.recv())
        await asyncio.sleep(0.1)
        for _ in range(10):
            await ws.send(b"x" * 30000)
        return await read_until(ws, b"300000")

    talk(core, conversation)


def test_a_client_that_goes_hangs_up(core):
    keeper = Keeper(core, "sleep", "1000")

    async def conversation(ws):
        while not hasattr(keeper, "proc"):
            await asyncio.sleep(0.01)
        await ws.send(b"x")

    talk(core, conversation)
    assert keeper.sock.recv(1) == b""  # the keeper ends the command
    keeper.proc.kill()


def test_a_command_that_cannot_start(core):
    keeper = Keeper(core)

    async def conversation(ws):
        keeper.say(FAILED, 2, b"no such file")
        with pytest.raises(websockets.ConnectionClosedError) as e:
            await ws.recv()
        return e.value.rcvd.code, e.value.rcvd.reason

    assert talk(core, conversation) == (1011, "no such file")


def test_drain_closes_terminals(runner):
    core = Core(runner)
    keeper = Keeper(core, "sleep", "1000")

    async def conversation(ws):
        threading.Thread(target=core.end).start()
        with pytest.raises(websockets.ConnectionClosedOK) as e:
            await ws.recv()
        return e.value.rcvd.code

    assert talk(core, conversation) == 1001
    keeper.proc.kill()
    assert core.proc.wait() == 0


def handshake(core, **change):
    headers = {"Host": "localhost", "Upgrade": "websocket", "Connection": "keep-alive, Upgrade", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(), **change}
    sock = core.connect()
    sock.sendall((f"GET {PATH} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items() if v is not None) + "\r\n").encode())
    got = b""
    while b"\r\n\r\n" not in got:
        got += sock.recv(1)
    return sock, int(got.split()[1]), got


def test_handshakes(core):
    Keeper(core)
    for change in ({"Upgrade": None}, {"Upgrade": "h2c"}, {"Connection": "close"}, {"Sec-WebSocket-Version": "8"}, {"Sec-WebSocket-Key": None},
                   {"Sec-WebSocket-Key": "short"}, {"Sec-WebSocket-Key": "!" * 24}):
        assert handshake(core, **change)[1] == 400, change
    for origin in ("http://evil.example", "null", "http://localhost.evil.example", "http://localhost:99"):
        assert handshake(core, Origin=origin)[1] == 403, origin
    assert not core.seen
    _, status, got = handshake(core, Origin="http://localhost")
    assert status == 101 and b"ICX+Yqv66kxgM0FcWaLWlFLwTAI=" in got  # of sixteen zeros


def frame(first, payload=b"", mask=True, length=None):
    size = len(payload) if length is None else length
    head = bytes([first, (0x80 if mask else 0) | (size if size < 126 else 126 if size < 65536 else 127)])
    head += b"" if size < 126 else struct.pack(">H", size) if size < 65536 else struct.pack(">Q", size)
    return head + (b"\1\2\3\4" + bytes(b ^ (i % 4 + 1) for i, b in enumerate(payload)) if mask else payload)


BREAKS = {
    "no mask": (frame(0x82, b"x", mask=False), 1002), "reserved bit": (frame(0xC2, b"x"), 1002), "unknown kind": (frame(0x83, b"x"), 1002),
    "unknown control": (frame(0x8B, b"x"), 1002), "long ping": (frame(0x89, b"x" * 126), 1002), "ping in parts": (frame(0x09, b"x"), 1002),
    "goes on from nothing": (frame(0x80, b"x"), 1002), "begins twice": (frame(0x02, b"x") + frame(0x82, b"x"), 1002),
    "long length": (b"\x82\xfe\0\1\1\2\3\4x", 1002), "longer length": (b"\x82\xff" + bytes(7) + b"\1\1\2\3\4x", 1002), "huge": (frame(0x82, length=1 << 62), 1009),
    "too big": (frame(0x82, length=65537), 1009), "too big in parts": (frame(0x02, b"x" * 40000) + frame(0x80, b"x" * 40000), 1009),
    "bad text": (frame(0x81, b"\xff"), 1007), "text that is no order": (frame(0x81, b"hello"), 1002), "size of nothing": (frame(0x81, b'{"resize":[0,1]}'), 1002),
    "close of one byte": (frame(0x88, b"x"), 1002), "close with a wrong code": (frame(0x88, struct.pack(">H", 1005)), 1002),
    "close with bad text": (frame(0x88, struct.pack(">H", 1000) + b"\xff"), 1007), "close": (frame(0x88, struct.pack(">H", 4000)), 4000), "empty close": (frame(0x88), 1000),
}


@pytest.mark.parametrize("name", BREAKS)
def test_frames_that_break_the_rules(core, name):
    keeper = Keeper(core)
    sock, status, _ = handshake(core)
    data, code = BREAKS[name]
    sock.sendall(data)
    got = b""
    while len(got) < 4:
        got += sock.recv(4096)
    assert status == 101 and got[0] == 0x88 and struct.unpack_from(">H", got, 2)[0] == code
    if name not in ("close", "empty close"):  # which ours has answered
        sock.sendall(frame(0x88, got[2:4]))
    while sock.recv(4096):
        pass
    assert keeper.sock.recv(1) == b""
    sock.close()
