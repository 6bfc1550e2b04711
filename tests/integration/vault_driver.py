# SPDX-License-Identifier: Apache-2.0
"""Drives bawn-vault as its callers do, and stands in for what it talks to: a token server, a session bus with a keyring."""

import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse

HEAD = struct.Struct("=iIIIQ")  # struct vault_value
VALUE = "the-real-value-0123456789"


class Vault:
    """bawn-vault with a HOME of its own. Definitions: v.define(name={...})."""

    def __init__(self, runner):
        self.runner = runner
        self.program = runner.helper("bawn-vault")
        self.defs = {}
        self.env = {"BAWN_PASSPHRASE_FILE": str(self.secret_file("passphrase", "open sesame\n"))}
        self.dir = runner.home / ".config" / "bawn"
        self.file = self.dir / "secrets.enc"

    def secret_file(self, name, text, mode=0o600):
        return self.runner.write(self.runner.home / name, text, mode)

    def define(self, **secrets):
        for name, more in secrets.items():
            self.defs[name] = {"hosts": ["api.example.com"], "header": "x-api-key", **more}
            if "oauth" in more:
                del self.defs[name]["header"]
        self.runner.write(self.dir / "secrets.json", json.dumps({"secrets": self.defs}))

    def run(self, *args, input=None, env=None, **kw):
        if isinstance(input, str):
            input = input.encode()
        return self.runner.run(self.program, *args, input=input, env={**self.env, **(env or {})}, **kw)

    def put(self, name, value=VALUE, **kw):
        return self.run("--put", name, input=value, **kw)

    def with_socket(self, args, env, message=None, also=""):
        """Starts it with a socket as descriptor 3 (also="2<&3": and as stderr); (process, our end)."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if message is not None:
            ours.send(message)
        fd = theirs.fileno()
        proc = self.runner.popen("bash", "-c", f'exec "$@" 3<&{fd} {fd}<&- {also}', "bash", self.program, *args, env={**self.env, **(env or {})},
                                 pass_fds=[fd], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        theirs.close()
        return proc, ours

    def start_get(self, name, *args, env=None):
        return self.with_socket(["--get", name, *args], env)

    def finish(self, started):
        proc, ours = started
        out, err = proc.communicate(timeout=300)
        message = ours.recv(1 << 17)
        ours.close()
        return Got(proc.returncode, message, out, err)

    def get(self, name, *args, env=None):
        return self.finish(self.start_get(name, *args, env=env))

    def authorize(self, name, *args, env=None):
        """The process, our end of its socket, and the address that it wants opened."""
        proc, ours = self.with_socket(["--authorize", name, *args], env)
        return proc, ours, ours.recv(1 << 17).decode()


class Got:
    def __init__(self, rc, message, out, err):
        self.rc, self.out, self.err = rc, out, err
        self.status, length, identity, _, self.expires = HEAD.unpack(message[:HEAD.size])
        self.value, self.identity = message[HEAD.size:HEAD.size + length].decode(), message[HEAD.size + length:].decode()
        assert len(message) == HEAD.size + length + identity

    def __repr__(self):
        return f"rc {self.rc} status {self.status} value {self.value!r} expires {self.expires} err {self.err!r}"


class TokenServer:
    """RFC 6749 and RFC 8628 on 127.0.0.1: each refresh token is good once. self.say: answers that come first, as (status, object or bytes)."""

    def __init__(self, context=None):
        self.refresh, self.access = "refresh-token-0", None
        self.forms, self.logins, self.say = [], [], []
        self.lifetime, self.delay = 3600, 0
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                outer.logins.append(self.headers.get("Authorization"))
                status, answer = outer.answer(self.path, form)
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", outer.url + "/token")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://{'localhost' if context else '127.0.0.1'}:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def oauth(self, **more):
        return {"store": "file", "oauth": {"token_url": self.url + "/token", "device_url": self.url + "/device", "client_id": "bawn-test",
                                           **more}}

    def answer(self, path, form):
        time.sleep(self.delay)
        with self.lock:
            self.forms.append(form)
            if self.say:
                return self.say.pop(0)
            if path == "/device":
                return 200, {"device_code": "device-code-1", "user_code": "WDJB-MJHT", "verification_uri": "https://id.example.com/go",
                             "expires_in": 600, "interval": 1}
            if form.get("grant_type") == "refresh_token" and form.get("refresh_token") != self.refresh:
                return 400, {"error": "invalid_grant", "error_description": form.get("refresh_token")}
            n = int(self.refresh.rsplit("-", 1)[1]) + 1
            self.refresh, self.access = f"refresh-token-{n}", f"access-token-{n}"
            return 200, {"access_token": self.access, "refresh_token": self.refresh, "token_type": "Bearer", "expires_in": self.lifetime}


@contextlib.contextmanager
def token_server(context=None):
    server = TokenServer(context)
    try:
        yield server
    finally:
        server.close()


def server_context(folder):
    """A certificate for localhost, made by its own authority: (context, path of the certificate)."""
    key, cert = pathlib.Path(folder) / "key.pem", pathlib.Path(folder) / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    cert.chmod(0o644)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


@contextlib.contextmanager
def session_bus(runner, unlocked=True):
    """A session bus with a real gnome-keyring-daemon, whose login keyring is open; yields the variables to reach it."""
    keyring = "printf %s keyring-password | gnome-keyring-daemon --unlock --components=secrets" if unlocked else "true"
    script = f'{keyring} >/dev/null 2>&1; echo "$DBUS_SESSION_BUS_ADDRESS"; cat >/dev/null'
    run = runner.mkdir(runner.top / "run", 0o700)
    # its own group: gnome-keyring-daemon leaves the session that started it, and would stay
    proc = runner.popen("dbus-run-session", "--", "sh", "-c", script, env={"XDG_RUNTIME_DIR": str(run)}, stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield {"DBUS_SESSION_BUS_ADDRESS": proc.stdout.readline().decode().strip()}
    finally:
        proc.stdin.close()
        proc.wait()
        proc.stdout.close()
        for pid in children_by_env(f"XDG_RUNTIME_DIR={run}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def children_by_env(entry):
    """Processes that this test has started, by a variable that only they have."""
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.encode() in (p / "environ").read_bytes().split(b"\0"):
                yield int(p.name)


def ended(pid):
    """No such process, or a zombie that nobody has collected yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(what, why):
    for _ in range(3000):
        if what():
            return
        time.sleep(0.02)
    raise AssertionError(why)
