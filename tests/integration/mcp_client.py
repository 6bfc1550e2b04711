# SPDX-License-Identifier: Apache-2.0
"""A strict client of `bawn mcp`: every line must be one JSON-RPC message, every answer belong to a question, every result match its schema.

    with connect(runner, "-w", "overlay") as c:
        r = c.call("exec", command="make")
"""

import contextlib
import json
import subprocess

import jsonschema


class Refused(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.message = error["code"], error["message"]


class Client:
    def __init__(self, process):
        self.process, self.last, self.answers, self.progress = process, 0, {}, []
        self.tools = {}

    def send(self, message):
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self):
        """The next message."""
        line = self.process.stdout.readline()
        assert line.endswith(b"\n"), ("the server ended", line, self.process.poll())
        m = json.loads(line)
        assert m["jsonrpc"] == "2.0" and isinstance(m, dict), m
        if "method" in m:
            assert "id" not in m and m["method"] == "notifications/progress", m
            assert set(m["params"]) <= {"progressToken", "progress", "message", "total"}, m
            self.progress.append(m["params"])
        else:
            assert set(m) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), m
        return m

    def ask(self, method, params=None):
        """Sends a request; its id."""
        self.last += 1
        self.send({"jsonrpc": "2.0", "id": self.last, "method": method, **({} if params is None else {"params": params})})
        return self.last

    def wait(self, number):
        while number not in self.answers:
            m = self.read()
            if "method" not in m:
                assert m["id"] not in self.answers, m
                self.answers[m["id"]] = m
        m = self.answers.pop(number)
        if "error" in m:
            raise Refused(m["error"])
        return m["result"]

    def request(self, method, params=None):
        return self.wait(self.ask(method, params))

    def begin(self, tool, progress=None, **arguments):
        meta = {"_meta": {"progressToken": progress}} if progress is not None else {}
        return self.ask("tools/call", {"name": tool, "arguments": arguments, **meta})

    def end(self, number, tool):
        r = self.wait(number)
        assert set(r) <= {"content", "structuredContent", "isError"} and isinstance(r["isError"], bool), r
        assert [set(c) for c in r["content"]] == [{"type", "text"}], r
        if not r["isError"]:
            jsonschema.validate(r["structuredContent"], self.tools[tool]["outputSchema"])
        return r

    def raw_call(self, tool, **arguments):
        return self.end(self.begin(tool, **arguments), tool)

    def call(self, tool, **arguments):
        """What a tool says to programs."""
        r = self.raw_call(tool, **arguments)
        assert not r["isError"], r
        return r["structuredContent"]

    def fails(self, tool, **arguments):
        """Why a tool failed."""
        r = self.raw_call(tool, **arguments)
        assert r["isError"], r
        return r["content"][0]["text"]

    def initialize(self, version="2025-06-18"):
        r = self.request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = {t["name"]: t for t in self.request("tools/list")["tools"]}
        for t in self.tools.values():
            for schema in (t["inputSchema"], t["outputSchema"]):
                jsonschema.Draft202012Validator.check_schema(schema)
                assert schema["type"] == "object", t
        return r


@contextlib.contextmanager
def connect(runner, *options, initialize=True, env=None, popen=None):
    """popen: in place of the runner's, e.g. to be in a network of its own."""
    process = (popen or runner.popen)(runner.path, "mcp", *options, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    c = Client(process)
    try:
        if initialize:
            c.initialize()
        yield c
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.read()
        c.said = process.stderr.read()
        c.status = process.wait()
        process.stdout.close()
        process.stderr.close()
