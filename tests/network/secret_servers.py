#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that want a credential, in the internet namespace: whoever has not the real value gets 401, and nothing else.

    secret_servers.py FOLDER CERT KEY    serves on DIRECT:443 (TLS, HTTP/1.1) and for nginx on 127.0.0.1:BEHIND; FOLDER/values.json has the values

start(world) starts it, and nginx in front of it on FRONT for HTTP/2. Which credential a name wants is in WANTS; FOLDER/seen.jsonl has a line for
every request: {"host": ..., "method": ..., "path": ..., "headers": [[name, value], ...], "status": ..., "body": bytes, "sha256": ..., "peer": ...}.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import urllib.parse

from lines import json_lines

FRONT, DIRECT, BEHIND = "11.0.0.26", "11.0.0.27", 8026
BIG = bytes(range(256)) * 4 * 20480  # 20 MiB
USER = "me"
S3, BUCKET, STS = "s3.eu-central-1.example.com", "bucket.s3.eu-central-1.example.com", "sts.eu-central-1.example.com"
GITHUB = "api.github.com"
AWS_S3 = ("s3.eu-central-1.amazonaws.com", "s3.dualstack.eu-central-1.amazonaws.com", "s3-accelerate.amazonaws.com", "s3-accesspoint.eu-central-1.amazonaws.com")
AWS_BUCKETS = [f"bucket.{name}" for name in AWS_S3]
TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
OTHER_PORT = 8443

# name: how the credential has to come, and the name of its value
WANTS = {
    "key.example.com": [("x-api-key", "{}", "key")],
    "direct.example.com": [("x-api-key", "{}", "key")],
    "bearer.example.com": [("authorization", "Bearer {}", "bearer")],
    "basic.example.com": [("authorization", "basic", "basic")],
    "query.example.com": [("query", "key", "query")],
    "two.example.com": [("x-api-key", "{}", "key"), ("query", "key", "query")],
    "git.example.com": [("authorization", "basic", "basic")],
    "pip.example.com": [("authorization", "basic", "basic")],
    "npm.example.com": [("authorization", "Bearer {}", "npm")],
    GITHUB: [("authorization", "Bearer {}", "github")],
    S3: [("sigv4", "s3", "aws")],
    BUCKET: [("sigv4", "s3", "aws")],
    STS: [("sigv4", "sts", "sts")],
    **dict.fromkeys([*AWS_S3, *AWS_BUCKETS], [("sigv4", "s3", "aws")]),
}
NAMES = {name: [DIRECT if name == "direct.example.com" else FRONT] for name in WANTS}

NGINX = """
daemon off; master_process off; pid {f}/pid; error_log {f}/nginx.txt;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {f}/body; proxy_temp_path {f}/proxy; fastcgi_temp_path {f}/fastcgi; uwsgi_temp_path {f}/uwsgi; scgi_temp_path {f}/scgi;
    ssl_certificate {cert}; ssl_certificate_key {key};
    server {{
        listen {a}:443 ssl http2; listen {a}:{other} ssl http2;
        client_max_body_size 64m; underscores_in_headers on; keepalive_requests 1000;
        location / {{
            proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_request_buffering off; proxy_buffering off;
            proxy_set_header Host $http_host; proxy_set_header Connection ""; proxy_set_header X-Front $server_protocol;
        }}
    }}
}}
"""


class Servers:
    """Both programs; values: {name: value}."""

    def __init__(self, world, values):
        import servers  # only here: as a program this file has no pytest
        servers.need("nginx", "git")
        self.folder = servers.fresh(world, "secret-servers")
        (self.folder / "values.json").write_text(json.dumps(values))
        self.forget()
        world.certificate("secret", "secret-key", ",".join(f"DNS:{name}" for name in WANTS))
        cert, key = world.folder / "secret.pem", world.folder / "secret-key.pem"
        for sub in ("behind", "front"):
            (self.folder / sub).mkdir()
        servers.git_repository(self.folder)
        servers.python_index(self.folder)
        servers.run("git", "--git-dir", self.folder / "demo.git", "config", "http.receivepack", "true")
        (self.folder / "front.conf").write_text(NGINX.format(f=self.folder / "front", cert=cert, key=key, a=FRONT, port=BEHIND, other=OTHER_PORT))
        self.programs = [
            servers.Server(world, self.folder / "behind", "/usr/bin/python3", __file__, self.folder, cert, key, ready=(DIRECT, 443)),
            servers.Server(world, self.folder / "front", "nginx", "-c", self.folder / "front.conf", "-e", self.folder / "front" / "nginx.txt",
                           ready=(FRONT, 443)),
        ]

    def forget(self):
        (self.folder / "seen.jsonl").write_text("")

    def seen(self, host=None):
        lines = json_lines(self.folder / "seen.jsonl")
        return [s for s in lines if host in (None, s["host"])]

    def end(self):
        for program in self.programs:
            program.end()
        shutil.rmtree(self.folder)


# The program

def digest(data):
    return hashlib.sha256(data).hexdigest()


def aws_ok(value, service, request):
    """botocore signs the same request with the real keys: the signatures have to agree."""
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    headers = dict(request.fields)
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})", headers.get("authorization", ""))
    if not found:
        return False
    key_id, secret, *token = value.split(":")
    names = found[2].split(";")
    path, _, query = request.path.partition("?")
    params = [tuple(urllib.parse.unquote(w) for w in pair.partition("=")[::2]) for pair in query.split("&") if pair]
    again = AWSRequest(method=request.command, url=f"https://{headers['host']}{path}", params=params, data=request.body)
    for name in names:
        again.headers[name] = headers[name]
    again.context["timestamp"] = headers["x-amz-date"]
    auth = (S3SigV4Auth if service == "s3" else SigV4Auth)(Credentials(key_id, secret), service, "eu-central-1")
    canonical = auth.canonical_request(again)
    hashes = (digest(request.body), "UNSIGNED-PAYLOAD", TRAILER)
    return (found[1] == auth.scope(again) and headers.get("x-amz-content-sha256", hashes[0]) in hashes and {"host", "x-amz-date"} <= set(names) and
            [headers.get("x-amz-security-token")] == (token or [None]) and (not token or "x-amz-security-token" in names) and
            hmac.compare_digest(found[3], auth.signature(auth.string_to_sign(again, canonical), again)))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    folder, values, went, packages, lock = None, None, threading.Event(), {}, threading.Lock()

    def one(self, name):
        """The value of a field that came exactly once."""
        found = [v for n, v in self.fields if n == name]
        return found[0] if len(found) == 1 else None

    def has(self, place, form, name):
        value = self.values[name]
        if place == "query":
            return urllib.parse.parse_qs(self.path.partition("?")[2]).get(form) == [value]
        if place == "sigv4":
            return aws_ok(value, form, self)
        if form == "basic":
            return self.one(place) == "Basic " + base64.b64encode(f"{USER}:{value}".encode()).decode()
        return self.one(place) == form.format(value)

    def chunks(self):
        while (n := int(self.rfile.readline().split(b";")[0], 16)):
            yield self.rfile.read(n)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def handle_request(self):
        self.fields = [(n.lower(), v) for n, v in self.headers.items()]
        self.host = self.headers["host"].partition(":")[0]
        self.body = b"".join(self.chunks()) if self.headers.get("transfer-encoding") == "chunked" else self.rfile.read(
            int(self.headers.get("content-length", 0)))
        self.route, _, self.query = self.path.partition("?")
        allowed = all(self.has(*want) for want in WANTS[self.host])
        self.note(200 if allowed else 401)
        if not allowed:
            return self.say(401, b'{"message": "this is not the credential"}\n', ("WWW-Authenticate", 'Basic realm="x"'))
        special = {"git.example.com": self.git, "npm.example.com": self.npm, "pip.example.com": self.pip, S3: self.s3, BUCKET: self.s3,
                   STS: self.sts}.get(self.host)
        page = getattr(self, "page_" + self.route.strip("/").replace("-", "_"), self.echo)
        return (special or page)()

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_request

    def note(self, status):
        line = json.dumps({"host": self.host, "method": self.command, "path": self.path, "headers": self.fields, "status": status, "peer": self.client_address,
                           "body": len(self.body), "sha256": digest(self.body)})
        with self.lock, open(self.folder / "seen.jsonl", "a") as f:
            f.write(line + "\n")

    def say(self, status, body=b"", *fields, kind="application/json"):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *fields):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def echo(self):
        """What came, value and all."""
        self.say(200, json.dumps({"path": self.path, "headers": self.fields, "body": len(self.body), "sha256": digest(self.body),
                                  "login": "octocat"}).encode() + b"\n")

    def page_big(self):
        self.say(200, BIG)

    def page_redirect(self):
        self.say(302, b"", ("Location", urllib.parse.parse_qs(self.query)["to"][0]))

    def page_go(self):
        self.went.set()
        self.say(204)

    def page_sse(self):
        """The second event comes only after somebody has asked for /go, so the first must have arrived by then."""
        self.went.clear()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for text in ("first", "the key is " + self.values["key"]):
            data = f"data: {text}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.went.wait() if text == "first" else None
        self.wfile.write(b"0\r\n\r\n")

    def page_ws(self):
        """Greets with the value, then sends back what comes."""
        accept = base64.b64encode(hashlib.sha1(self.headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
        self.wfile.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
        hello = b"hello " + self.values["key"].encode()
        self.wfile.write(bytes([0x81, len(hello)]) + hello)
        while len(head := self.rfile.read(2)) == 2:
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes([head[0], len(data)]) + data)
            if head[0] & 15 == 8:
                break
        self.close_connection = True

    def git(self):
        """git's own program, as CGI."""
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": urllib.parse.unquote(self.route),
               "QUERY_STRING": self.query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("content-type", ""), "REMOTE_USER": USER,
               "CONTENT_LENGTH": str(len(self.body)), "HTTP_CONTENT_ENCODING": self.headers.get("content-encoding", ""), "GIT_CONFIG_GLOBAL": "/dev/null",
               "GIT_PROTOCOL": self.headers.get("git-protocol", ""), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        head, _, body = subprocess.run(["git", "http-backend"], env=env, input=self.body, stdout=subprocess.PIPE).stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.say(int(fields.pop("Status", "200").split()[0]), body, kind=fields.pop("Content-Type", "text/plain"))

    def npm(self):
        """A registry: PUT /NAME takes a package, GET gives it back."""
        name, _, file = urllib.parse.unquote(self.route.strip("/")).partition("/-/")
        if self.command == "PUT":
            document = json.loads(self.body)
            self.packages[name] = document, {f: base64.b64decode(a["data"]) for f, a in document.pop("_attachments").items()}
            for version in document["versions"].values():
                version["dist"]["tarball"] = f"https://npm.example.com/{name}/-/" + version["dist"]["tarball"].rpartition("/-/")[2]
            return self.say(201, b"{}")
        if name not in self.packages:
            return self.say(404, b"{}")
        document, files = self.packages[name]
        return self.say(200, files[file] if file else json.dumps(document).encode())

    def pip(self):
        path = self.folder / "simple" / self.route.removeprefix("/simple/")
        path = path / "index.html" if path.is_dir() else path
        self.say(200, path.read_bytes(), kind="text/html" if path.suffix == ".html" else "application/octet-stream")

    def s3(self):
        """Objects in one bucket; a listing shows their names."""
        key = urllib.parse.unquote(self.route).removeprefix("/bucket" if self.host == S3 else "")
        if self.command == "PUT":
            # aws-chunked: each piece with its length in front, then a checksum
            pieces = re.findall(rb"\r\n(.*)\r\n", self.body) if self.one("x-amz-content-sha256") == TRAILER else [self.body]
            self.packages[key] = pieces[0]
            return self.say(200, b"", ("ETag", f'"{hashlib.md5(pieces[0]).hexdigest()}"'))
        if key in self.packages:
            return self.say(200, self.packages[key], ("ETag", f'"{hashlib.md5(self.packages[key]).hexdigest()}"'), ("Accept-Ranges", "bytes"),
                            ("Last-Modified", "Sun, 01 Nov 2026 00:00:00 GMT"))
        prefix = urllib.parse.parse_qs(self.query).get("prefix", [""])[0]
        return self.say(200, f"""<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix></Prefix><KeyCount>1</KeyCount>
<IsTruncated>false</IsTruncated>{"".join(f"<Contents><Key>{k[1:].replace('&', '&amp;')}</Key><Size>{len(v)}</Size></Contents>" for k, v in self.packages.items()
                                         if k[1:].startswith(prefix))}</ListBucketResult>""".encode(), kind="application/xml")

    def sts(self):
        self.say(200, b"""<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>
<Arn>arn:aws:iam::1:user/me</Arn><UserId>AIDA1</UserId><Account>000000000001</Account></GetCallerIdentityResult>
<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>""", kind="text/xml")

    def log_message(self, *_):
        pass


class Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 500


def main(folder, cert, key):
    Handler.folder = pathlib.Path(folder)
    Handler.values = json.loads((Handler.folder / "values.json").read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    plain = Listener(("127.0.0.1", BEHIND), Handler)
    secure = Listener((DIRECT, 443), Handler)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=plain.serve_forever).start()
    secure.serve_forever()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    main(*sys.argv[1:])
