#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The half of load.py that runs inside the sandbox: many clients at once, each of which checks what it gets.

Orders come on standard input, one on each line; each is answered by a line of JSON.

    hold N          N connections, all open at the same time; each is used before the first one is closed
    mix JOBS N      JOBS jobs of all kinds, N at a time

    {"done": {"echo": 12, ...}, "failed": ["echo: ..."], "verdicts": [["connection allow pass.example.com 7", 12], ...]}

"verdicts" is what the log has to say about it: kind, action, host, port and path. What begins with "?" may be there less often: who walks
away may be gone before anybody looked.
"""

import asyncio
import collections
import json
import random
import socket
import ssl
import struct
import sys

PASS, DEEP, AWAY, DENIED = "pass.example.com", "deep.example.com", "away.example.com", "denied.example.net"
GATE, ENTRY, STRANGER = "198.18.0.1", ("127.0.0.1", 15001), "11.0.0.11"
HANG = 240  # seconds: only so that a connection that is stuck ends as a failure
BIG = 2_000_000

context = ssl.create_default_context()
verdicts = collections.Counter()
ids = iter(range(1 << 60))


def expect(kind, action, host, port, path=""):
    verdicts[f"{kind} {action} {host} {port} {path}".strip()] += 1


def issuer(writer):
    names = dict(pair[0] for pair in writer.get_extra_info("peercert")["issuer"])
    return names["commonName"]


async def connect(host, port, tls=False):
    """Looked up anew for each connection, as programs do."""
    return await asyncio.open_connection(host, port, ssl=context if tls else None, limit=1 << 16)


async def close(writer):
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        pass


async def get(reader, writer, host, path):
    """One request on an open connection: status and body."""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := (await reader.readline()).strip()):
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return status, length


async def check_get(reader, writer, host, path, want=200):
    status, length = await get(reader, writer, host, path)
    body = await reader.readexactly(length)
    assert status == want, (status, body)
    assert json.loads(body).get("line") == f"GET {path} HTTP/1.1" if want == 200 else body.startswith(b"Bawn denied "), body


# Kinds of jobs. Each may be used in `mix`; those of HOLD have two parts: open, and use what is open.

async def open_echo():
    expect("connection", "allow", PASS, 7)
    return await connect(PASS, 7)


async def use_echo(reader, writer):
    sent = b"e" + random.randbytes(random.choice((0, 100, 70_000)))  # another first byte could be taken for TLS
    writer.write(sent)
    writer.write_eof()
    assert await reader.read(1) == sent[:1] and await reader.readexactly(len(sent) - 1) == sent[1:] and await reader.read() == b""


async def open_passed():
    reader, writer = await connect(PASS, 443, tls=True)
    expect("connection", "allow", PASS, 443)
    assert "Test Internet" in issuer(writer)
    return reader, writer


async def use_passed(reader, writer):
    for _ in range(2):
        await check_get(reader, writer, PASS, f"/p/{next(ids)}")


async def open_looked():
    reader, writer = await connect(DEEP, 443, tls=True)
    assert "Bawn" in issuer(writer)
    return reader, writer


async def use_looked(reader, writer):
    for path, status in ((f"/r/{next(ids)}", 200), (f"/no/{next(ids)}", 403), (f"/r/{next(ids)}", 200)):
        expect("request", "allow" if status == 200 else "deny", DEEP, 443, path)
        await check_get(reader, writer, DEEP, path, status)


async def open_plain():
    return await connect(DEEP, 80)


async def use_plain(reader, writer):
    path = f"/r/{next(ids)}"
    expect("request", "allow", DEEP, 80, path)
    await check_get(reader, writer, DEEP, path)


HOLD = {"echo": (open_echo, use_echo), "passed": (open_passed, use_passed), "looked": (open_looked, use_looked), "plain": (open_plain, use_plain)}


def both(opens, uses):
    async def job():
        reader, writer = await opens()
        try:
            await uses(reader, writer)
        finally:
            await close(writer)
    return job


async def slow(host, path):
    """A reader that takes its time: the gate must not keep what it does not take."""
    reader, writer = await connect(host, 443, tls=True)
    try:
        status, length = await get(reader, writer, host, path)
        assert (status, length) == (200, BIG)
        while length:
            length -= len(await reader.readexactly(min(length, 1 << 16)))
            await asyncio.sleep(0.02)
    finally:
        await close(writer)


async def slow_passed():
    expect("connection", "allow", PASS, 443)
    await slow(PASS, f"/bytes/{BIG}")


async def slow_looked():
    expect("request", "allow", DEEP, 443, f"/bytes/{BIG}")
    await slow(DEEP, f"/bytes/{BIG}")


async def denied_connect():
    name = f"c{next(ids)}.{DENIED}"
    expect("connection", "deny", name, 443)
    reader, writer = await asyncio.open_connection(*ENTRY)
    writer.write(f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode())
    assert b" 403 " in await reader.readline()
    await reader.read()
    await close(writer)


async def denied_address():
    """The answer is a 403, or a reset for those who are slow to speak (FLOW_SILENT_MS)."""
    expect("connection", "deny", STRANGER, 80)
    try:
        reader, writer = await connect(STRANGER, 80)
        await check_get(reader, writer, STRANGER, "/", 403)
        await close(writer)
    except ConnectionResetError:
        pass


class Question(asyncio.DatagramProtocol):
    def __init__(self):
        self.answer = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, peer):
        if not self.answer.done():
            self.answer.set_result(data)


async def ask(name):
    """One question, never repeated: the log must have as many lines as there were questions. Returns code and number of answers."""
    number = random.randrange(65536)
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    transport, question = await asyncio.get_running_loop().create_datagram_endpoint(Question, remote_addr=(GATE, 53), family=socket.AF_INET)
    transport.sendto(struct.pack("!6H", number, 0x100, 1, 0, 0, 0) + labels + struct.pack("!2H", 1, 1))
    answer = struct.unpack("!4H", (await question.answer)[:8])
    transport.close()
    assert answer[0] == number
    return answer[1] & 15, answer[3]


async def lookup():
    assert await ask(random.choice((PASS, DEEP, AWAY))) == (0, 1)


async def denied_lookup():
    name = f"q{next(ids)}.{DENIED}"
    expect("lookup", "deny", name, 0)
    assert await ask(name) in ((0, 1), (3, 0))  # an address of its own, unless there are too many


LEAVING = [  # port, TLS, first words
    (7, False, b"x"),
    (80, False, b"GET / HT"),
    (443, False, b"\x16\x03\x01\x02\x00\x01"),
    (443, True, f"GET /hang HTTP/1.1\r\nHost: {AWAY}\r\n\r\n".encode()),
    (443, True, f"POST /r/1 HTTP/1.1\r\nHost: {AWAY}\r\nContent-Length: 100000\r\n\r\nx".encode()),
    (15001, False, b"CONNECT pass.example"),
    (15001, False, b"\x05\x01\x00\x05\x01"),
]


async def walk_away():
    """Leaves in the middle of something, by an end or by a reset."""
    port, tls, first = random.choice(LEAVING)
    for verdict in (f"?connection allow {AWAY} 7", f"?request allow {AWAY} 443 /hang", f"?request allow {AWAY} 443 /r/1"):
        verdicts[verdict] += 1
    reader, writer = await connect("127.0.0.1" if port == ENTRY[1] else AWAY, port, tls)
    writer.write(first)
    await asyncio.sleep(random.choice((0, 0.01, 0.1)))
    if random.random() < 0.5:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        await close(writer)


MIX = {name: both(*parts) for name, parts in HOLD.items()} | {f.__name__: f for f in (
    slow_passed, slow_looked, denied_connect, denied_address, lookup, denied_lookup, walk_away)}
OFTEN = {"echo": 6, "looked": 4, "plain": 4, "denied_connect": 3, "denied_lookup": 3, "lookup": 3, "walk_away": 3, "passed": 2}


async def guarded(name, job, answer):
    try:
        result = await asyncio.wait_for(job, HANG)
        answer["done"][name] += 1
        return result
    except Exception as e:  # whatever it is, it is reported
        answer["failed"].append(f"{name}: {'stuck' if isinstance(e, asyncio.TimeoutError) else repr(e)}")
        return None


async def hold(n, answer):
    kinds = [("echo", "passed", "looked", "plain")[0 if i % 10 < 7 else i % 10 - 6] for i in range(n)]
    room = asyncio.Semaphore(100)  # not more at once in the handshake

    async def begin(kind):
        async with room:
            return await guarded("open", HOLD[kind][0](), answer)

    held = await asyncio.gather(*(begin(kind) for kind in kinds))
    pairs = [(kind, pair) for kind, pair in zip(kinds, held) if pair]
    await asyncio.gather(*(guarded(kind, HOLD[kind][1](*pair), answer) for kind, pair in pairs))
    await asyncio.gather(*(close(pair[1]) for _, pair in pairs))


async def mix(jobs, n, answer):
    names = random.choices(list(MIX), [OFTEN.get(name, 1) for name in MIX], k=jobs)
    for i, name in enumerate(MIX):  # each kind at least once
        names[i % jobs] = name

    async def worker():
        while names:
            name = names.pop()
            await guarded(name, MIX[name](), answer)

    await asyncio.gather(*(worker() for _ in range(n)))


async def main():
    while (line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)):
        order, *numbers = line.split()
        answer = {"done": collections.Counter(), "failed": []}
        await {"hold": hold, "mix": mix}[order](*map(int, numbers), answer)
        print(json.dumps({**answer, "verdicts": list(verdicts.items())}), flush=True)
        verdicts.clear()


asyncio.run(main())
