# SPDX-License-Identifier: Apache-2.0
"""bawnd and bawn-front together, as a client sees them: over the unix socket."""

import http.client
import json
import signal
import socket


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


class Service:
    def __init__(self, runner, popen=None, **conf):
        """popen: in place of the runner's, e.g. to be in a network of its own."""
        self.runner, self.popen = runner, popen or runner.popen
        self.top = runner.mkdir(runner.top / "svc", 0o755)
        self.socket = str(self.top / "run/api.sock")
        config = {"state": str(self.top / "state"), "runtime": str(self.top / "run"), "any_user": True, **conf}
        self.config = runner.write(self.top / "bawnd.json", json.dumps(config))
        self.start()

    def start(self):
        self.log = open(self.top / "log", "ab")
        self.proc = self.popen(self.runner.path.parent / "bawnd", "--config", self.config, stderr=self.log)
        while True:
            try:
                if self.call("GET", "/v1/health")[0] == 200:
                    return
            except OSError:
                assert self.proc.poll() is None, (self.top / "log").read_bytes()

    def call(self, method, path, body=None, token=None, **headers):
        """Status, body, headers."""
        c = Unix(self.socket)
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
            headers["Content-Type"] = "application/json"
        elif body is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
        c.request(method, path, body, headers)
        r = c.getresponse()
        data = r.read()
        kind = r.getheader("Content-Type") or ""
        c.close()
        return r.status, json.loads(data) if "json" in kind and "ndjson" not in kind else data, r.headers

    def token(self, tenant="acme", quotas=None, **more):
        """A new token of a tenant, which is made if there is none."""
        if self.call("GET", f"/v1/tenants/{tenant}")[0] == 404:
            status, made, _ = self.call("POST", "/v1/tenants", {"name": tenant, "quotas": quotas or {}})
            assert status == 201, made
        return self.call("POST", f"/v1/tenants/{tenant}/tokens", more)[1]["token"]

    def connect(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.connect(self.socket)
        return s

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait() == 0, (self.top / "log").read_bytes()
