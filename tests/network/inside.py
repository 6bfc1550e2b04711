# SPDX-License-Identifier: Apache-2.0
"""A Python inside a sandbox that does what a test tells it, line by line, so that the test can change the world in between.

    with Inside(net, allow=["ok.example.com"]) as inside:
        assert inside("get('http://ok.example.com/')") == 200         an expression: its value comes back, as JSON
        inside("s = dial('ok.example.com', 7)")                       statements: names stay
        assert inside("s.recv(1)") == "ConnectionResetError"          an exception: its name

inside.pid    of the supervisor, as --sandbox takes it
inside.err()  what the supervisor has said so far; inside.end() closes it and returns (exit status, what it said)
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import time

HANG = 120  # seconds: only so that a hang ends as a failure

LOOP = r'''
import ast, http.client, json, os, socket, ssl, struct, sys, urllib.parse

PROXY = ("127.0.0.1", 15001)

def fetch(url, method="GET", body=None, keep=False, **headers):
    """[status, headers, body]"""
    u = urllib.parse.urlsplit(url)
    kind = http.client.HTTPSConnection if u.scheme == "https" else http.client.HTTPConnection
    c = kind(u.hostname, u.port or kind.default_port)
    c.request(method, u.path + ("?" + u.query if u.query else ""), body, {k.replace("_", "-"): v for k, v in headers.items()})
    r = c.getresponse()
    return [r.status, {k.lower(): v for k, v in r.getheaders()}, r if keep else r.read().decode("latin-1")]

def get(url, method="GET", **more):
    return fetch(url, method, **more)[0]

def dial(host, port):
    return socket.create_connection((host, port))

def tls(host, port=443):
    return ssl.create_default_context().wrap_socket(dial(host, port), server_hostname=host)

def echo(s, text="ping"):
    s.sendall(text.encode())
    got = b""
    while len(got) < len(text) and (d := s.recv(65536)):
        got += d
    return got.decode()

def all_of(s):
    got = b""
    while (d := s.recv(65536)):
        got += d
    return got

def websocket(host, secure=False, path="/ws"):
    s = tls(host) if secure else dial(host, 80)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += s.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return s

def frame(s, text):
    """Sent, and the answer to it."""
    s.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode())
    got = b""
    while len(got) < 2 + len(text) and (d := s.recv(65536)):
        got += d
    return got[2:].decode()

def closed(s):
    """Waits until the other side ends it, however it does."""
    try:
        while s.recv(65536):
            pass
        return "end"
    except OSError as e:
        return "reset" if isinstance(e, ConnectionResetError) else "end"

def run(line, scope):
    tree = ast.parse(line)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "inside", "exec"), scope)
    return eval(compile(ast.Expression(last.value), "inside", "eval"), scope) if last else None

out = os.fdopen(os.dup(1), "w")
scope = dict(globals())
for line in sys.stdin:
    try:
        value = run(json.loads(line), scope)
    except Exception as e:
        value = type(e).__name__
    print(json.dumps(value, default=repr), file=out, flush=True)
'''


def until(condition, what="it"):
    """Waits for what must come; returns the condition's value."""
    end = time.monotonic() + HANG
    while not (value := condition()):
        assert time.monotonic() < end, f"{what} never came"
        time.sleep(0.01)
    return value


class Inside:
    def __init__(self, net, program=(), env=None, **rules):
        self.net = net
        self.errors = open(net.runner.top / f"stderr-{id(self)}", "w+b")
        self.p = net.popen(*net.command(*program, "/usr/bin/python3", "-c", LOOP, **rules), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=self.errors)

    @property
    def pid(self):
        """nsenter, sh and setpriv replace themselves: the process that we started is the supervisor."""
        return str(self.p.pid)

    def start(self, line):
        self.p.stdin.write(json.dumps(line).encode() + b"\n")
        self.p.stdin.flush()

    def result(self):
        assert select.select([self.p.stdout], [], [], HANG)[0], f"hangs; {self.err()}"
        line = self.p.stdout.readline()
        assert line, f"ended; {self.err()}"
        return json.loads(line)

    def __call__(self, line):
        self.start(line)
        return self.result()

    def err(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def end(self):
        self.p.stdin.close()
        status = self.p.wait(HANG)
        return status, self.err()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.p.pid, signal.SIGKILL)
        self.p.wait()
        self.p.stdout.close()
        self.p.stdin.close()
        self.errors.close()
