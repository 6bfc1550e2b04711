# SPDX-License-Identifier: Apache-2.0
"""A service for many customers on top of bawnd: the minimum controls that such a service needs, with the standard library only.

    multi_tenant.py URL TOKENS.json [PORT]      URL of bawnd; {"customer's key": "token of a tenant of bawnd", ...}; prints its own address

    POST /runs                {"command": [...]}          runs it, in a workspace of its own; {"run": ID, "status": N, "stdout": ...}
    GET  /runs/ID                                         how it is
    GET  /runs/ID/files?path=P                            one file of its workspace
    POST /runs/ID/apply       {"classes": [...]}          after a review: what is of high risk needs its class

Which control is where:

- the tenant comes from trusted authentication: the key in Authorization, looked up here; never from a path, a parameter or a body
- a workspace per tenant and run, and metadata by (tenant, run): bawnd does both, by the token; this program stores nothing
- file APIs are scoped to one run's workspace, and paths out of it are rejected: bawnd checks them; a refusal is a 400 here
- no shared names: ids are bawnd's, unguessable, and another tenant's are "not found"
- quotas: bawnd's, by tenant; its 429 is handed on with Retry-After
- old workspaces are cleaned up: bawnd does by age (keep_hours); DELETE /runs/ID does at once
- no secret of this host is passed on: a run gets the variables that are named, and nothing else
- the network is closed unless the profile says otherwise; commands, statuses, durations, tenants and ids are logged
"""

import hmac
import http.server
import json
import sys
import time
import urllib.parse

import bawn

BODY_MAX = 64 * 1024
STATUS = {bawn.NotFound: 404, bawn.BadField: 400, bawn.QuotaExceeded: 429, bawn.QueueFull: 429, bawn.ReviewRequired: 409, bawn.Conflict: 409}


class Service(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, url, tokens, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.clients = {key: bawn.Client(url, token, retry_seconds=5) for key, token in tokens.items()}

    def client(self, key):
        """The tenant of this key, compared in constant time; None: no tenant has it."""
        return next((c for k, c in self.clients.items() if hmac.compare_digest(k.encode(), key.encode())), None)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        began, self.status = time.monotonic(), 0
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        client = self.server.client(key)
        try:
            answer = self.route(client) if client else (401, {"error": "who are you?"})
        except bawn.BawnError as e:
            answer = next((code for kind, code in STATUS.items() if isinstance(e, kind)), 502), {"error": str(e), "code": getattr(e, "code", None)}
            self.retry = getattr(e, "retry_after", None)
        self.answer(*answer)
        print(json.dumps({"key": key[:4] + "...", "request": self.requestline, "status": self.status, "ms": round((time.monotonic() - began) * 1000)}), file=sys.stderr)

    do_GET = do_POST = do_DELETE = handle_any

    def route(self, client):
        where = urllib.parse.urlsplit(self.path)
        parts, query = where.path.strip("/").split("/"), dict(urllib.parse.parse_qsl(where.query))
        body = self.body()
        if body is None:
            return 400, {"error": "not JSON, or too long"}
        if parts == ["runs"] and self.command == "POST":
            return self.start(client, body)
        if parts[0] != "runs" or len(parts) not in (2, 3):
            return 404, {"error": "no such place"}
        run = client.get_run(parts[1])  # another tenant's is not found
        if len(parts) == 2 and self.command == "DELETE":
            run.delete()
            return 200, {}
        if len(parts) == 2:
            return 200, {"run": run.id, "state": run.info["state"], "status": run.info.get("status")}
        if parts[2] == "files" and self.command == "GET":
            return 200, {"content": run.read_file(query.get("path", "")).decode(errors="replace")}
        if parts[2] == "apply" and self.command == "POST":
            report = run.review()
            run.apply(classes=[str(c) for c in body.get("classes", [])])
            return 200, {"applied": report["summary"]}
        return 404, {"error": "no such place"}

    def start(self, client, body):
        command = body.get("command")
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command) or not command:
            return 400, {"error": "command must be a list of strings"}
        run = client.run(command, network="none", limit=60, key=self.headers.get("Idempotency-Key"))
        return 201, {"run": run.id, "status": run.info.get("status"), "stdout": run.stdout(65536), "changes": (run.info.get("result") or {}).get("changes")}

    def body(self):
        """{} without one; None: it is wrong."""
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > BODY_MAX:
            self.close_connection = True
            return None
        try:
            body = json.loads(self.rfile.read(int(length)) or b"{}")
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    retry = None

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.status = status
        self.send_response(status)
        if self.retry:
            self.send_header("Retry-After", str(int(self.retry)))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def main(url, tokens, port="0"):
    with open(tokens) as f:
        service = Service(url, json.load(f), int(port))
    print(f"http://127.0.0.1:{service.server_port}", flush=True)
    service.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
