# SPDX-License-Identifier: Apache-2.0
"""A bawnd with an address for browsers, and clients of it."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import time


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, r):
        self.status, self.headers, self.body = r.status, r.headers, r.read()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


class Site:
    """The service of one runner. Requests without a session go through its unix socket, as the user who started it."""

    def __init__(self, runner, **conf):
        self.runner = runner
        self.top = runner.mkdir(runner.top / "site", 0o755)
        self.socket = str(self.top / "run/api.sock")
        config = {"state": str(self.top / "state"), "runtime": str(self.top / "run"), "listen": ["127.0.0.1:0"], **conf}
        self.config = runner.write(self.top / "bawnd.json", json.dumps(config))
        self.start()

    def start(self):
        self.log = open(self.top / "log", "ab")
        self.proc = self.runner.popen(self.runner.path.parent / "bawnd", "--config", self.config, stderr=self.log)
        while True:
            try:
                if self.call("GET", "/v1/health").status == 200:
                    break
            except OSError:
                assert self.proc.poll() is None, (self.top / "log").read_bytes()
                time.sleep(0.02)
        self.port = int(re.match(r"http://127\.0\.0\.1:(\d+)/", self.link())[1])
        self.origin = f"http://127.0.0.1:{self.port}"

    def call(self, method, path, body=None, token=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        c = Unix(self.socket)
        c.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = Answer(c.getresponse())
        c.close()
        return answer

    def link(self, token=None):
        a = self.call("POST", "/v1/links", token=token)
        assert a.status == 201, a
        return a.json()["url"]

    def tcp(self, method, path, body=None, host=None, **headers):
        """As a browser would ask, with just these headers."""
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        c.putheader("Host", host or f"127.0.0.1:{self.port}")
        data = json.dumps(body).encode() if body is not None else b""
        if body is not None:
            c.putheader("Content-Type", "application/json")
        if data or method in ("POST", "PUT", "PATCH"):
            c.putheader("Content-Length", str(len(data)))
        for name, value in headers.items():
            c.putheader(name.replace("_", "-"), value)
        c.endheaders(data)
        answer = Answer(c.getresponse())
        c.close()
        return answer

    def enter(self, token=None):
        """A session: the cookie's value and the second secret."""
        code = self.link(token).split("#login=")[1]
        a = self.tcp("POST", "/v1/session", {"code": code}, Origin=self.origin)
        assert a.status == 201, a
        return re.match(r"bawn_session=(\w+);", a.headers["Set-Cookie"])[1], a.json()["csrf"]

    def wait_run(self, run):
        a = self.call("GET", f"/v1/runs/{run}?wait=600").json()
        assert a["state"] in ("done", "failed", "cancelled"), a
        return a

    def stop(self):
        if self.proc.poll() is not None:
            return
        for run in self.call("GET", "/v1/runs?limit=1000").json()["items"]:
            if run["state"] in ("queued", "starting", "running"):
                self.call("POST", f"/v1/runs/{run['id']}/cancel")
                self.wait_run(run["id"])
        for box in self.call("GET", "/v1/sandboxes?limit=1000").json()["items"]:
            assert self.call("DELETE", f"/v1/sandboxes/{box['id']}").status == 204
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait() == 0, (self.top / "log").read_bytes()
        self.log.close()
        # `bawn engines` asks podman, which leaves a process behind that holds its namespace.
        for pause in (self.top / "run/t").glob("*/libpod/tmp/pause.pid"):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(pause.read_text()), signal.SIGKILL)
