#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The internet of the network tests: name server and servers that write down whatever reaches them.

    world.py FOLDER        runs in a network namespace of its own (conftest.py makes it), prints "ready", serves until killed

FOLDER/names.json    {"ok.example.com": ["11.0.0.10"], ...}, read again for every question; "*" answers what is not listed
FOLDER/queries.txt   every name that was asked for, one on each line: "A ok.example.com"
FOLDER/hits.jsonl    every connection and every request: {"to": "11.0.0.10", "port": 80, "kind": "connect"}, ...
FOLDER/cert.pem, key.pem    what servers on 443 show

Servers, on every address of ADDRESSES:
    80, 443, 8080   HTTP/1.1: the answer is what came, as JSON; see `answer` for paths that do more. 443 is TLS
    7               echo        2525  speaks first: "220 hello\\r\\n", then echo
    3128            HTTP proxy for CONNECT, on PROXY only: knows the names without asking for them; hits have "kind": "proxy"
"""

import asyncio
import base64
import hashlib
import ipaddress
import json
import pathlib
import socket
import ssl
import struct
import sys

FOLDER = pathlib.Path(sys.argv[1]) if __name__ == "__main__" else None
ADDRESSES = [
    "11.0.0.10", "11.0.0.11", "2a00:11::10",                                  # public
    "10.0.0.5", "192.168.7.7", "172.16.0.9", "100.64.0.1", "169.254.169.254",  # not to be reached
    "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd12::1", "198.51.100.7",
]
DNS = "11.0.0.53"
PROXY = "11.0.0.10"
TYPES = {1: "A", 28: "AAAA", 65: "HTTPS", 16: "TXT", 15: "MX", 12: "PTR"}


def note(file, line):
    with open(FOLDER / file, "a") as f:
        f.write(line + "\n")


def hit(writer, **what):
    to = writer.get_extra_info("sockname")
    note("hits.jsonl", json.dumps({"to": to[0], "port": to[1], **what}))


# Name server

def question(data):
    labels, at = [], 12
    while data[at]:
        labels.append(data[at + 1:at + 1 + data[at]].decode("latin-1"))
        at += 1 + data[at]
    return ".".join(labels).lower(), struct.unpack("!H", data[at + 1:at + 3])[0], data[12:at + 5]


def dns_answer(data):
    name, qtype, asked = question(data)
    note("queries.txt", f"{TYPES.get(qtype, qtype)} {name}")
    names = json.loads((FOLDER / "names.json").read_text())
    found = names.get(name, names.get("*"))
    rcode = 3 if found is None else 0
    records = b""
    count = 0
    for text in found or []:
        address = ipaddress.ip_address(text)
        if (qtype, address.version) in ((1, 4), (28, 6)):
            records += b"\xc0\x0c" + struct.pack("!HHIH", qtype, 1, 0, len(address.packed)) + address.packed
            count += 1
    return data[:2] + struct.pack("!HHHHH", 0x8180 | rcode, 1, count, 0, 0) + asked + records


class NameServer(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.transport.sendto(dns_answer(data), peer)


# HTTP

async def read_head(reader):
    line = (await reader.readline()).decode("latin-1").rstrip("\r\n")
    if not line:
        return None
    headers = []
    while (more := (await reader.readline()).decode("latin-1").rstrip("\r\n")):
        name, _, value = more.partition(":")
        headers.append((name.lower(), value.strip()))
    return line, headers


async def read_body(reader, headers):
    sizes = dict(headers)
    if "chunked" in sizes.get("transfer-encoding", ""):
        body = b""
        while (n := int((await reader.readline()).split(b";")[0], 16)):
            body += await reader.readexactly(n)
            await reader.readline()
        while (await reader.readline()).strip():
            pass
        return body
    return await reader.readexactly(int(sizes.get("content-length", 0)))


def plain(status, body, extra=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n{extra}\r\n".encode() + body


async def websocket(reader, writer, headers):
    key = dict(headers)["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    while (head := await reader.read(2)):
        length = head[1] & 127
        if length == 126:
            length = struct.unpack("!H", await reader.readexactly(2))[0]
        mask = await reader.readexactly(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(await reader.readexactly(length)))
        size = bytes([length]) if length < 126 else b"\x7e" + struct.pack("!H", length)
        writer.write(bytes([head[0]]) + size + data)
        await writer.drain()
        if head[0] & 15 == 8:
            break


async def answer(reader, writer, line, headers, body):
    """Returns whether the connection goes on."""
    method, target, _ = line.split(" ", 2)
    path, _, query = target.partition("?")
    if path == "/ws":
        await websocket(reader, writer, headers)
        return False
    if path.startswith("/bytes/"):
        n = int(path[7:])
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {n}\r\n\r\n".encode())
        for _ in range(n // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
        writer.write(b"x" * (n % 65536))
    elif path == "/sse":
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        for i in range(3):
            writer.write(b"data: %d\n\n" % i)
            await writer.drain()
            await asyncio.sleep(0.05)
        return False
    elif path == "/hang":
        await reader.read()
        return False
    elif path == "/chunked":
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n5\r\nhello\r\n0\r\nx-end: yes\r\n\r\n")
    elif path == "/until-close":
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")
        return False
    elif path == "/redirect":
        writer.write(plain("302 Found", b"", f"Location: {query}\r\n"))
    elif path == "/raw":  # answers with the bytes it was given
        writer.write(body)
    else:
        sent = json.dumps({"line": line, "headers": headers, "body": len(body), "sha256": hashlib.sha256(body).hexdigest()})
        writer.write(plain("200 OK", b"" if method == "HEAD" else sent.encode() + b"\n"))
    await writer.drain()
    return dict(headers).get("connection", "").lower() != "close"


async def http(reader, writer):
    hit(writer, kind="connect", sni=(writer.get_extra_info("ssl_object") and writer.get_extra_info("ssl_object").sni) or None)
    try:
        while (head := await read_head(reader)):
            line, headers = head
            if dict(headers).get("expect") == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = await read_body(reader, headers)
            hit(writer, kind="request", line=line, headers=headers, body=len(body))
            if not await answer(reader, writer, line, headers, body):
                break
    except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, ValueError, KeyError, IndexError):
        pass
    finally:
        writer.close()


async def echo(reader, writer):
    hit(writer, kind="connect")
    try:
        if writer.get_extra_info("sockname")[1] == 2525:
            writer.write(b"220 hello\r\n")
        while (data := await reader.read(65536)):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass
    finally:
        writer.close()


async def pump(reader, writer):
    while (data := await reader.read(65536)):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def proxy(reader, writer):
    try:
        line, headers = await read_head(reader)
        hit(writer, kind="proxy", line=line, headers=headers)
        host, _, port = line.split(" ")[1].rpartition(":")
        addresses = json.loads((FOLDER / "names.json").read_text()).get(host) or [host.strip("[]")]
        there, out = await asyncio.open_connection(addresses[0], int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
        await asyncio.gather(pump(reader, out), pump(there, writer))
    except (OSError, TypeError, ValueError, asyncio.IncompleteReadError):
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
    finally:
        writer.close()


async def tcp_dns(reader, writer):
    try:
        while True:
            n = struct.unpack("!H", await reader.readexactly(2))[0]
            out = dns_answer(await reader.readexactly(n))
            writer.write(struct.pack("!H", len(out)) + out)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "cert.pem", FOLDER / "key.pem")
    context.set_alpn_protocols(["http/1.1"])

    def remember(obj, name, _context):
        obj.sni = name

    context.sni_callback = remember
    return context


def reuse(address, port):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, port))
    return s


async def main():
    context = tls()
    for address in ADDRESSES:
        for port, handler, secure in ((80, http, None), (8080, http, None), (443, http, context), (7, echo, None), (2525, echo, None)):
            await asyncio.start_server(handler, sock=reuse(address, port), ssl=secure, backlog=2000, limit=1 << 20)
    await asyncio.start_server(proxy, sock=reuse(PROXY, 3128))
    await asyncio.start_server(tcp_dns, sock=reuse(DNS, 53))
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE: hundreds of questions at once, and none is lost
    names.bind((DNS, 53))
    await asyncio.get_running_loop().create_datagram_endpoint(NameServer, sock=names)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
