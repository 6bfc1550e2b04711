# SPDX-License-Identifier: Apache-2.0
"""bawnd's side of spec/api-protocol.md, for tests of the real bawn-front.

    core = Core(runner)                       starts bawn-front, as the runner's user
    core.on = lambda r: r.answer(200, {...})  what becomes of a request (in a thread)
    client = core.client()                    an http.client connection that bawnd "accepted"
    core.seen                                 the requests that came: r.op, r.fields ({name: [bytes]})
"""

import array
import fcntl
import hashlib
import http.client
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import queue
import socket
import struct
import subprocess
import threading

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADER = struct.Struct("<IHHQQII")
MAGIC = 0x69706162
START, CONNECTION, ANSWER, UPLOAD, OUTCOME, LAST, DRAIN = range(1, 8)
REQUEST, CANCEL, GONE = 16, 17, 18
MEMFD, PART, STREAM, EVENTS, TERMINAL, JSON = 1, 2, 4, 8, 16, 32
CONF = ["tables", "json_max", "upload_max", "header_seconds", "body_seconds", "stall_seconds", "idle_seconds", "comment_seconds", "connections_max",
        "peer_max", "requests_max", "answer_max", "host", "tls", "version"]
DEFAULTS = {"json_max": 1 << 20, "upload_max": 64 << 20, "header_seconds": 60, "body_seconds": 60, "stall_seconds": 60, "idle_seconds": 60,
            "comment_seconds": 60, "connections_max": 256, "peer_max": 200, "requests_max": 100, "answer_max": 1 << 20,
            "host": ["localhost", "127.0.0.1", "[::1]"], "tls": 0, "version": "9.9"}


def load_tables():
    loader = importlib.machinery.SourceFileLoader("bawn_openapi", str(ROOT / "tools" / "openapi"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    tables = module.Tables(yaml.safe_load((ROOT / "spec" / "openapi.yaml").read_bytes()))
    tables.read()
    return tables


TABLES = load_tables()
SPEC = TABLES.spec
DIGEST = hashlib.sha256(TABLES.source().encode()).hexdigest()[:16]


def fields(pairs):
    return b"".join(struct.pack("<HI", n, len(v)) + v for n, v in sorted(pairs, key=lambda p: p[0]))


class Request:
    def __init__(self, core, number, peer, op, body):
        self.core, self.number, self.peer, self.op = core, number, peer, TABLES.ops[op - 1]
        self.fields, at, before = {}, 0, 0
        while at < len(body):
            field, size = struct.unpack_from("<HI", body, at)
            assert field >= before, "not sorted"
            before, at = field, at + 6 + size
            assert at <= len(body), "cut"
            self.fields.setdefault(TABLES.fields[field - 1], []).append(body[at - size:at])

    def one(self, name):
        return self.fields[name][0].decode() if name in self.fields else None

    def answer(self, status=200, body=None, flags=0, fds=()):
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.core.send(ANSWER, self.number, value=status, body=data, flags=flags, fds=fds)

    def refuse(self, status, code, detail="", field="", retry=""):
        self.answer(status, "\0".join([code, detail, field, retry]).encode())

    def part(self, data, offset=0, length=None):
        fd = memory(data)
        self.answer(200, struct.pack("<QQ", offset, len(data) - offset if length is None else length), PART, [fd])
        os.close(fd)


def memory(data):
    fd = os.memfd_create("test")
    os.write(fd, data)
    return fd


class Core:
    def __init__(self, runner, listen=(), tls=None, **conf):
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        high = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD, 100)
        self.proc = subprocess.Popen(["bash", "-c", f'exec 3<&{high} {high}<&-; exec "$0"', runner.helper("bawn-front")], pass_fds=[high], stdin=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, env={k: v for k, v in os.environ.items() if "SAN_OPTIONS" in k}, **runner.identity())
        os.close(high)
        theirs.close()
        self.seen, self.cancelled, self.gone, self.peers = [], queue.Queue(), queue.Queue(), 0
        self.on, self.lock = lambda r: r.answer(200, {}), threading.Lock()
        self.sent = {**DEFAULTS, **conf, "tables": conf.get("tables", DIGEST), "tls": 1 if tls else 0}
        pairs = [(CONF.index(k) + 1, str(x).encode()) for k, v in self.sent.items() for x in (v if isinstance(v, list) else [v])]
        self.send(START, value=len(listen), body=fields(pairs), fds=[s.fileno() for s in listen] + [memory(t) for t in tls or ()])
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def send(self, kind, request=0, peer=0, value=0, body=b"", flags=0, fds=()):
        fds = list(fds)
        if len(body) > 48 << 10:
            memfd = os.memfd_create("body", os.MFD_ALLOW_SEALING)
            os.write(memfd, body)
            fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, 15)
            fds, flags = [memfd, *fds], flags | MEMFD
        head = HEADER.pack(MAGIC, kind, flags, request, peer, value, len(body))
        with self.lock:
            self.sock.sendmsg([head + (b"" if flags & MEMFD else body)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def serve(self):
        while True:
            try:
                data, ancillary, _, _ = self.sock.recvmsg(64 << 10, socket.CMSG_SPACE(64))
            except OSError:
                return
            if not data:
                return
            fds = array.array("i")
            for _, _, part in ancillary:
                fds.frombytes(part)
            magic, kind, flags, request, peer, value, length = HEADER.unpack_from(data)
            body = os.pread(fds[0], length, 0) if flags & MEMFD else data[HEADER.size:]
            for fd in fds:
                os.close(fd)
            assert magic == MAGIC and len(body) == length
            if kind == REQUEST:
                r = Request(self, request, peer, value, body)
                self.seen.append(r)
                self.on(r)
            elif kind == CANCEL:
                self.cancelled.put(request)
            else:
                self.gone.put(peer)

    def connect(self, uid=1000):
        """A client that bawnd accepted."""
        mine, theirs = socket.socketpair()
        self.peers += 1
        self.send(CONNECTION, peer=self.peers, value=uid, fds=[theirs.fileno()])
        theirs.close()
        return mine

    def client(self):
        client = http.client.HTTPConnection("localhost")
        client.sock = self.connect()
        return client

    def call(self, method, path, body=None, headers=None, client=None):
        """Status, headers, body (parsed if it is JSON)."""
        mine = client or self.client()
        headers = {"Host": "x", **(headers or {})}
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **headers}
        mine.request(method, path, body, headers)
        got = mine.getresponse()
        data = got.read()
        if not client:
            mine.close()
        return got.status, got.headers, json.loads(data) if "json" in (got.headers["Content-Type"] or "") and "nd" not in got.headers["Content-Type"] and data else data

    def raw(self, data, sock=None):
        """Everything that comes until the connection ends."""
        mine, got = sock or self.connect(), b""
        try:
            mine.sendall(data)
            while more := mine.recv(65536):
                got += more
        except ConnectionError:
            pass
        mine.close()
        return got

    def end(self):
        """How it ended after a drain: status and what it wrote."""
        try:
            self.send(DRAIN)
        except OSError:
            pass
        _, err = self.proc.communicate()
        self.thread.join()
        self.sock.close()
        return self.proc.returncode, err
