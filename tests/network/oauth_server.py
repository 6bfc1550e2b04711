#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""An OAuth server and an API that wants its tokens, in the internet namespace, over TLS.

    oauth_server.py FOLDER CERT KEY    serves id.example.com and api.example.com on ADDRESS:443

id.example.com: POST /device and /token (RFC 8628, RFC 6749 with PKCE: device code, authorization code, refresh), GET /authorize, GET /activate?code=CODE,
which is what the human does. A refresh token is good once; one that comes again ends the whole login, as real servers do it. api.example.com answers 200
with what came, or 401 if the access token is not the last one that was given, or has ended.

FOLDER/settings.json, read for each request: lifetimes (of the access tokens, one after the other; the last one stays), delay (seconds before a token is
given), hold (a token is given only once FOLDER/go is there), jwt, revoked. FOLDER/seen.jsonl has a line for every request, and what was given.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import secrets
import shutil
import ssl
import sys
import threading
import time
import urllib.parse

from lines import json_lines

ADDRESS, IDP, API = "11.0.0.27", "id.example.com", "api.example.com"
NAMES = {IDP: [ADDRESS], API: [ADDRESS]}
CLIENT = "bawn-test"
FIRST = "refresh-0-" + "f" * 32  # a login that exists already
FOREIGN = "refresh-9-" + "e" * 32  # the login of another person, whom the user does not know
RAW = "raw-token-" + "0123456789abcdef" * 2  # what /raw gives away
# Answers of /raw?as=NAME: status, type, fields of the head, body. Ways in which servers give tokens, at whatever path and by whatever method.
SHAPES = {
    "json": (200, "application/json", [], '{"access_token":"%s"}'),
    "spaces": (200, "application/json", [], '{ "access_token" :\n  "%s" }'),
    "refresh": (200, "application/json", [], '{"refresh_token":"%s"}'),
    "identity": (200, "application/json", [], '{"id_token": "%s"}'),
    "device": (200, "application/json", [], '{"user_code":"ABCD","device_code":"%s"}'),
    "nested": (200, "application/json", [], '{"data":{"session":[{"x":1},{"accessToken":"%s"}]}}'),
    "escaped": (200, "application/json", [], '{"body":"{\\"access_token\\":\\"%s\\"}"}'),
    "error": (400, "application/json", [], '{"error":"x","access_token":"%s"}'),
    "text": (200, "text/plain", [], "access_token=%s&token_type=bearer"),
    "form": (200, "application/x-www-form-urlencoded", [], "scope=a&access_token=%s"),
    "page": (200, "text/html", [], '<input type="hidden" name="access_token" value="%s"/>'),
    "xml": (200, "application/xml", [], "<OAuth><access_token>%s</access_token></OAuth>"),
    "script": (200, "text/javascript", [], 'callback({access_token: "%s"})'),
    "untyped": (200, "application/octet-stream", [], '{"access_token":"%s"}'),
    "fragment": (302, "text/plain", [("Location", "http://localhost:8765/callback#access_token=%s&state=1")], "moved"),
    "code": (302, "text/plain", [("Location", "http://localhost:8765/callback?state=1&code=%s")], "moved"),
    "cookie": (200, "text/plain", [("Set-Cookie", "access_token=%s; Secure")], "a cookie"),
}


class Oauth:
    def __init__(self, world):
        import servers  # only here: as a program this file has no pytest
        self.folder = servers.fresh(world, "oauth")
        self.settings()
        self.forget()
        world.certificate("oauth", "oauth-key", ",".join(f"DNS:{name}" for name in NAMES))
        logs = self.folder / "logs"
        logs.mkdir()
        self.server = servers.Server(world, logs, "/usr/bin/python3", __file__, self.folder, world.folder / "oauth.pem", world.folder / "oauth-key.pem",
                                     ready=(ADDRESS, 443))

    def settings(self, **settings):
        new = self.folder / "settings.new"
        new.write_text(json.dumps(settings))
        new.rename(self.folder / "settings.json")

    def forget(self):
        (self.folder / "go").unlink(missing_ok=True)
        (self.folder / "seen.jsonl").write_text("")

    def go(self):
        (self.folder / "go").touch()

    def seen(self, **want):
        lines = json_lines(self.folder / "seen.jsonl")
        return [s for s in lines if all(s.get(k) == v for k, v in want.items())]

    def given(self):
        """Every token that was ever given, and the parts of them that are secret alone."""
        tokens = [token for s in self.seen() for token in s["given"]]
        return tokens + [token.rpartition(".")[2] for token in tokens if "." in token]

    def end(self):
        self.server.end()
        shutil.rmtree(self.folder)


# The program

class State:
    lock = threading.Lock()
    access, ends, n = None, 0, 0
    refresh, used = {FIRST, FOREIGN}, set()
    codes, devices = {}, {}


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = None

    def handle_request(self):
        self.setup_now = json.loads((self.folder / "settings.json").read_text())
        self.route, _, query = self.path.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        self.form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("content-length", 0))).decode())) or self.query
        name = urllib.parse.unquote(self.route).strip("/") if self.headers["host"] == IDP else "raw" if self.route == "/raw" else "api"
        getattr(self, f"page_{name}", self.page_unknown)()  # "/token/", "//token", "/%74oken": servers take these for the same

    do_GET = do_POST = do_PUT = handle_request

    def say(self, status, answer, *fields, given=(), **more):
        line = {"host": self.headers["host"], "method": self.command, "path": self.path, "form": self.form, "status": status, "given": list(given),
                "authorization": self.headers.get("authorization"), "grant": self.form.get("grant_type"), **more}
        with State.lock, open(self.folder / "seen.jsonl", "a") as f:
            f.write(json.dumps(line) + "\n")
        body = json.dumps(answer).encode()
        self.send_response(status)
        for field in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *fields):
            self.send_header(*field)
        self.end_headers()
        self.wfile.write(body)

    def page_unknown(self):
        self.say(404, {})

    def page_api(self):
        token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        ok = token and token == State.access and time.time() < State.ends
        self.say(200 if ok else 401, {"ok": ok, "you sent": token})

    # What the human does

    def page_activate(self):
        State.devices[self.query["code"]] = True
        self.say(200, "thank you")

    def page_authorize(self):
        code = secrets.token_hex(16)
        State.codes[code] = self.query.get("code_challenge"), self.query["redirect_uri"]
        back = {"error": "access_denied"} if self.setup_now.get("refuse") else {"code": code}
        back = urllib.parse.urlencode({**back, "state": self.query["state"]})
        self.say(302, {}, ("Location", f"{self.query['redirect_uri']}?{back}"), code=code)

    def page_raw(self):
        status, kind, fields, body = SHAPES[self.query["as"]]
        body = body.replace("%s", RAW).encode()
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(body))), *fields]:
            self.send_header(name, value.replace("%s", RAW))
        self.end_headers()
        for i in range(0, len(body), 7):  # in pieces, as they come
            self.wfile.write(body[i:i + 7])

    # What programs do

    def page_device(self):
        code, user = secrets.token_hex(16), secrets.token_hex(4)
        State.devices[user] = False
        State.codes[code] = user
        self.say(200, {"device_code": code, "user_code": user, "verification_uri": f"https://{IDP}/activate", "interval": 1, "expires_in": 600}, device=code)

    def page_token(self):
        grant = self.form.get("grant_type", "").rpartition(":")[2]
        check = {"refresh_token": self.check_refresh, "authorization_code": self.check_code, "device_code": self.check_device}.get(grant)
        with State.lock:
            error = check() if check and self.form.get("client_id") == CLIENT else "invalid_request"
        if error:
            self.say(400, {"error": error})
        else:
            self.give()

    def check_refresh(self):
        token = self.form.get("refresh_token")
        if token in State.used or self.setup_now.get("revoked"):
            State.refresh.clear()
        if token not in State.refresh:
            return "invalid_grant"
        State.refresh.remove(token)
        State.used.add(token)
        return None

    def check_code(self):
        challenge, uri = State.codes.pop(self.form.get("code"), (None, None))
        proof = b64(hashlib.sha256(self.form.get("code_verifier", "").encode()).digest())
        return None if proof == challenge and self.form.get("redirect_uri") == uri else "invalid_grant"

    def check_device(self):
        return None if State.devices.get(State.codes.get(self.form.get("device_code"))) else "authorization_pending"

    def make(self, kind):
        if kind == "refresh" or not self.setup_now.get("jwt"):
            return f"{kind}-{State.n}-{secrets.token_hex(16)}"
        return ".".join(b64(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"sub": "somebody", "n": State.n})) + "." + secrets.token_hex(32)

    def give(self):
        while self.setup_now.get("hold") and not (self.folder / "go").exists():
            time.sleep(0.01)
        time.sleep(self.setup_now.get("delay", 0))
        with State.lock:
            lifetimes = self.setup_now.get("lifetimes", [3600])
            State.n += 1
            seconds = lifetimes[0]
            if len(lifetimes) > 1:
                (self.folder / "settings.json").write_text(json.dumps({**self.setup_now, "lifetimes": lifetimes[1:]}))
            answer = {"access_token": self.make("access"), "refresh_token": self.make("refresh"), "token_type": "Bearer", "expires_in": seconds}
            if "code" in self.form:
                answer["id_token"] = self.make("id")
            State.refresh.add(answer["refresh_token"])
            State.access, State.ends = answer["access_token"], time.time() + seconds
        self.say(200, answer, given=[v for k, v in answer.items() if k.endswith("_token")])

    def log_message(self, *args):
        pass


def main(folder, cert, key):
    Handler.folder = pathlib.Path(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

        def finish_request(self, request, client_address):  # in the thread: nobody waits for another's handshake
            super().finish_request(context.wrap_socket(request, server_side=True), client_address)

    Server((ADDRESS, 443), Handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
