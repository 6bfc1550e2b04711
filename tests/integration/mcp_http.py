# SPDX-License-Identifier: Apache-2.0
"""`bawn mcp --http` for tests: the process, and a strict client of streamable HTTP that knows nothing but http.client.

    with serve(runner, "-w", "overlay") as s:
        a = s.session()
        a.call("exec", command="make")
"""

import contextlib
import http.client
import json
import subprocess
import urllib.parse

BOTH = "application/json, text/event-stream"


class Server:
    def __init__(self, process, url, token):
        self.process, self.url, self.token = process, url, token
        self.port = urllib.parse.urlsplit(url).port

    def open(self, method, body=None, headers=None, token=None, path="/mcp"):
        """The connection and its response, unread. None in headers takes one away."""
        c = http.client.HTTPConnection("127.0.0.1", self.port)
        all_ = {"Authorization": f"Bearer {token or self.token}", "Accept": BOTH}
        if body is not None:
            all_["Content-Type"] = "application/json"
        all_ |= headers or {}
        c.request(method, path, body, {k: v for k, v in all_.items() if v is not None})
        return c, c.getresponse()

    def ask(self, method, body=None, headers=None, **more):
        """Status, text, headers."""
        c, r = self.open(method, body, headers, **more)
        text = r.read()
        c.close()
        return r.status, text, r.headers

    def session(self, version="2025-06-18"):
        return Session(self, version)


class Session:
    def __init__(self, server, version):
        self.server, self.headers, self.last = server, {}, 0
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
        status, text, headers = server.ask("POST", json.dumps(first))
        assert status == 200 and headers["Content-Type"] == "application/json", (status, text)
        self.begun = json.loads(text)["result"]
        self.id = headers["Mcp-Session-Id"]
        self.headers = {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.begun["protocolVersion"]}
        assert self.notify("notifications/initialized") == 202

    def post(self, message, **headers):
        return self.server.ask("POST", json.dumps(message), self.headers | {k.replace("_", "-"): v for k, v in headers.items()})

    def notify(self, method, params=None):
        status, text, _ = self.post({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})
        assert text == b"" or status >= 400, text
        return status

    def begin(self, tool, progress=None, **arguments):
        """The id, the connection, and its stream."""
        self.last += 1
        meta = {"_meta": {"progressToken": progress}} if progress is not None else {}
        message = {"jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": {"name": tool, "arguments": arguments, **meta}}
        c, r = self.server.open("POST", json.dumps(message), self.headers)
        assert r.status == 200 and r.headers["Content-Type"] == "text/event-stream", (r.status, r.read())
        return self.last, c, r

    def call(self, tool, **arguments):
        number, c, r = self.begin(tool, **arguments)
        (answer,) = list(events(r))
        c.close()
        assert answer["id"] == number and not answer["result"]["isError"], answer
        return answer["result"]["structuredContent"]

    def end(self):
        return self.server.ask("DELETE", None, self.headers)[0]


def events(response):
    """The messages of a stream, to its end."""
    for line in response:
        line = line.rstrip(b"\n")
        if line.startswith(b"data: "):
            yield json.loads(line[6:])
        else:
            assert line in (b"", b":", b"event: message"), line


@contextlib.contextmanager
def serve(runner, *options):
    process = runner.popen(runner.path, "mcp", "--http=127.0.0.1:0", *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    url = process.stdout.readline().decode()
    assert url.startswith("MCP: "), process.stderr.read()
    token = process.stdout.readline().decode().split()[-1]
    try:
        yield Server(process, url.split()[1], token)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()
        process.stderr.close()
