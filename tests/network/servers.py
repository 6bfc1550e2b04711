# SPDX-License-Identifier: Apache-2.0
"""Real servers for the network tests, in the internet namespace, on addresses of their own (conftest.SERVERS).

    nginx(world)      what pip, npm, git, cargo and browsers ask for, over HTTP/1.1 and HTTP/2; PUT /up/NAME; wrong certificates by name;
                      hasty.example.com ends connections after ten requests or one idle second
    sshd(world), redis(world), postgres(world)
    servers.py stream CERT KEY ADDRESS     /sse sends its last event only after the client has asked for /go
    servers.py grpc CERT KEY ADDRESS       /t.T/Upper: unary, /t.T/Echo: both directions at once

Each returns a Server, to be ended by its end(); fixtures of the test files do that.
"""

import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import threading
import time
import zipfile

import pytest
from lines import whole_lines

HERE = pathlib.Path(__file__).resolve().parent
TEST_USER = os.environ.get("BAWN_TEST_USER", "bawn-test")
NGINX, STREAM, GRPC, SSHD, REDIS, POSTGRES = (f"11.0.0.{n}" for n in range(20, 26))
NAMES = {
    "dev.example.com": [NGINX], "hasty.example.com": [NGINX], "self-signed.example.com": [NGINX], "other-name.example.com": [NGINX],
    "expired.example.com": [NGINX], "unknown-ca.example.com": [NGINX], "stream.example.com": [STREAM], "grpc.example.com": [GRPC],
    "ssh.example.com": [SSHD], "redis.example.com": [REDIS], "postgres.example.com": [POSTGRES],
}


def run(*cmd, **kw):
    return subprocess.run([os.fspath(c) for c in cmd], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw).stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"):
            pytest.skip(f"needs the program {program}")


class Server:
    """A program in the internet namespace; ready: (address, port) that must accept before it counts as started."""

    def __init__(self, world, folder, *cmd, ready):
        self.world, self.folder = world, folder
        self.error = folder / "error.txt"
        with open(self.error, "wb") as error:
            self.process = subprocess.Popen(self.into(*cmd), stdin=subprocess.DEVNULL, stdout=error, stderr=error, start_new_session=True)
        while subprocess.run(self.into("bash", "-c", f"exec 3<>/dev/tcp/{ready[0]}/{ready[1]}"), stderr=subprocess.DEVNULL).returncode:
            assert self.process.poll() is None, f"{cmd[0]} ended: {self.error.read_text()}"
            time.sleep(0.02)

    def into(self, *cmd):
        return ["nsenter", f"--net=/proc/{self.world.inet}/ns/net", "--", *map(os.fspath, cmd)]

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder)


def fresh(world, name, mode=0o755):
    folder = world.folder / name
    folder.mkdir()
    folder.chmod(mode)
    return folder


# nginx and what it serves

CONFIG = """
daemon off; master_process off; pid {f}/pid; error_log {f}/nginx.txt;
events {{ worker_connections 512; }}
http {{
    log_format line '$server_protocol $request_method $request_uri $status $connection';
    access_log {f}/access.txt line;
    types {{ text/html html; application/json json; }} default_type application/octet-stream;
    client_body_temp_path {f}/body; proxy_temp_path {f}/proxy; fastcgi_temp_path {f}/fastcgi; uwsgi_temp_path {f}/uwsgi; scgi_temp_path {f}/scgi;
    client_max_body_size 64m;
    ssl_certificate {w}/cert.pem; ssl_certificate_key {w}/key.pem;
    root {f}/www;
    server {{
        listen {a}:80; listen {a}:443 ssl http2 default_server; server_name dev.example.com;
        location /up/ {{ dav_methods PUT; }}
        location /small/ {{ dav_methods PUT; client_max_body_size 1k; }}
        location /empty {{ return 204; }}
        location /moved {{ return 302 /page.html; }}
        location /npm/ {{ default_type application/json; }}
        location /simple/ {{ index index.html; }}
        location /trailer.bin {{ add_trailer x-end yes; gzip off; chunked_transfer_encoding on; }}
    }}
    server {{
        listen {a}:443 ssl http2; listen {a}:80; server_name hasty.example.com;
        keepalive_requests 10; keepalive_timeout 1s;
    }}
    {wrong}
}}
"""
WRONG = "server {{ listen {a}:443 ssl http2; server_name {n}.example.com; ssl_certificate {f}/{n}.pem; ssl_certificate_key {f}/{n}.key; }}\n"


def add_tar(tar, name, data):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    tar.addfile(entry, io.BytesIO(data))


def tar_gz(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in files.items():
            add_tar(tar, name, data.encode())
    return out.getvalue()


def python_index(www):
    """The package demo 1.0 as PEP 503 has it."""
    files = {"demo.py": "print('demo')\n", "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
             "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "demo-1.0.dist-info/RECORD": ""}
    folder = www / "simple" / "demo"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "demo-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    (folder / "index.html").write_text('<!DOCTYPE html><a href="demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>')


def npm_registry(www):
    folder = www / "npm"
    folder.mkdir()
    data = tar_gz({"package/package.json": '{"name": "demo", "version": "1.0.0"}', "package/index.js": "module.exports = 'demo'\n"})
    (folder / "demo-1.0.0.tgz").write_bytes(data)
    dist = {"tarball": "https://dev.example.com/npm/demo-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
    (folder / "demo").write_text(json.dumps({"name": "demo", "dist-tags": {"latest": "1.0.0"},
                                             "versions": {"1.0.0": {"name": "demo", "version": "1.0.0", "dist": dist}}}))


def cargo_registry(www):
    """A sparse registry with the crate demo 1.0.0."""
    folder = www / "cargo"
    (folder / "de" / "mo").mkdir(parents=True)
    data = tar_gz({"demo-1.0.0/Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\n', "demo-1.0.0/src/lib.rs": "pub fn demo() {}\n"})
    (folder / "demo-1.0.0.crate").write_bytes(data)
    (folder / "config.json").write_text('{"dl": "https://dev.example.com/cargo/{crate}-{version}.crate"}')
    (folder / "de" / "mo" / "demo").write_text(json.dumps({"name": "demo", "vers": "1.0.0", "deps": [], "features": {}, "yanked": False,
                                                           "cksum": hashlib.sha256(data).hexdigest()}) + "\n")


def git_repository(www):
    """A bare repository for git's dumb protocol."""
    bare = www / "demo.git"
    git = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": os.environ["PATH"],
           **{f"GIT_{who}_{what}": "demo@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}
    run("git", "init", "-q", "--bare", "-b", "main", bare, env=git)
    blob = run("git", "--git-dir", bare, "hash-object", "-w", "--stdin", input=b"from the server\n", env=git).decode().strip()
    tree = run("git", "--git-dir", bare, "mktree", input=f"100644 blob {blob}\tREADME\n".encode(), env=git).decode().strip()
    commit = run("git", "--git-dir", bare, "commit-tree", tree, "-m", "first", env=git).decode().strip()
    run("git", "--git-dir", bare, "update-ref", "refs/heads/main", commit, env=git)
    run("git", "--git-dir", bare, "update-server-info", env=git)


def wrong_certificates(world, folder):
    """NAME.pem and NAME.key for servers that nobody may trust."""
    def certificate(name, san, *sign):
        (folder / "ext").write_text(f"subjectAltName=DNS:{san}\n")
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / f"{name}.key",
            "-out", folder / "csr", "-subj", f"/CN={san}")
        run("openssl", "x509", "-req", "-in", folder / "csr", "-out", folder / f"{name}.pem", "-extfile", folder / "ext", *sign)

    ca = ["-CA", world.folder / "ca.pem", "-CAkey", world.folder / "ca.key", "-CAcreateserial"]
    certificate("self-signed", "self-signed.example.com", "-signkey", folder / "self-signed.key")
    certificate("other-name", "other.example.org", *ca)
    certificate("expired", "expired.example.com", *ca, "-days", "0")
    certificate("unknown-ca", "unknown-ca.example.com", "-CA", folder / "self-signed.pem", "-CAkey", folder / "self-signed.key", "-CAcreateserial")
    return ["self-signed", "other-name", "expired", "unknown-ca"]


class Nginx(Server):
    def __init__(self, world):
        need("nginx", "git", "openssl")
        folder = fresh(world, "nginx")
        self.www = folder / "www"
        self.www.mkdir()
        (self.www / "up").mkdir()
        for make in (python_index, npm_registry, cargo_registry, git_repository):
            make(self.www)
        (self.www / "page.html").write_text("<title>t</title><body><p id=p>from the server</p></body>")
        (self.www / "trailer.bin").write_text("body\n")
        self.big = random.Random(4).randbytes(20_000_000)
        (self.www / "big.bin").write_bytes(self.big)
        wrong = "".join(WRONG.format(a=NGINX, f=folder, n=n) for n in wrong_certificates(world, folder))
        (folder / "nginx.conf").write_text(CONFIG.format(f=folder, w=world.folder, a=NGINX, wrong=wrong))
        super().__init__(world, folder, "nginx", "-c", folder / "nginx.conf", "-e", folder / "nginx.txt", ready=(NGINX, 80))

    def forget(self):
        (self.folder / "access.txt").write_text("")

    def log(self):
        """[{"proto": "HTTP/2.0", "method": ..., "path": ..., "status": "200", "connection": a number}, ...] of every request that has ended."""
        keys = ("proto", "method", "path", "status", "connection")
        return [dict(zip(keys, line.split(" "))) for line in whole_lines(self.folder / "access.txt")]

    def wait_for(self, path, n=1):
        """nginx writes its line after the last byte: the client may be gone before. Returns what it served of path, at least n."""
        while len(found := [entry for entry in self.log() if entry["path"] == path]) < n:
            time.sleep(0.02)
        return found


def nginx(world):
    return Nginx(world)


# Servers that do not speak HTTP

def sshd(world):
    """User dev with the key folder/id; the host's key is folder/host. The user exists in sshd's own mount namespace only."""
    need("sshd", "ssh", "scp")
    folder = fresh(world, "sshd")
    for name in ("host", "id"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    user = pwd.getpwnam(TEST_USER)
    home = fresh(world, "sshd/home")
    os.chown(home, user.pw_uid, user.pw_gid)
    lines = pathlib.Path("/etc/passwd").read_text()
    (folder / "passwd").write_text(f"dev:x:{user.pw_uid}:{user.pw_gid}::{home}:/bin/sh\n{lines}")
    (folder / "config").write_text(f"""
ListenAddress {SSHD}:22
HostKey {folder}/host
AuthorizedKeysFile {folder}/id.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
""")
    start = 'mount --bind "$1/passwd" /etc/passwd && mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec /usr/sbin/sshd -D -e -f "$1/config"'
    return Server(world, folder, "unshare", "-m", "sh", "-c", start, "sh", folder, ready=(SSHD, 22))


def redis(world):
    need("redis-server", "redis-cli")
    folder = fresh(world, "redis")
    return Server(world, folder, "redis-server", "--bind", REDIS, "--port", "6379", "--save", "", "--protected-mode", "no", "--dir", folder,
                  ready=(REDIS, 6379))


def postgres(world):
    """Everybody may come in, over TLS or without."""
    need("psql")
    folder = fresh(world, "postgres")
    user = pwd.getpwnam(TEST_USER)
    os.chown(folder, user.pw_uid, user.pw_gid)
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    become = ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
    run(*become, programs / "initdb", "-A", "trust", "-N", "-U", "dev", "-E", "UTF8", "--locale", "C", "-D", folder / "data")
    for name in ("cert.pem", "key.pem"):
        shutil.copy(world.folder / name, folder / "data" / name)
        os.chown(folder / "data" / name, user.pw_uid, user.pw_gid)
        (folder / "data" / name).chmod(0o600)
    with open(folder / "data" / "pg_hba.conf", "a") as hba:
        hba.write("host all all 0.0.0.0/0 trust\n")
    settings = {"listen_addresses": POSTGRES, "unix_socket_directories": folder, "ssl": "on", "ssl_cert_file": "cert.pem", "ssl_key_file": "key.pem",
                "fsync": "off", "shared_buffers": "1MB"}
    return Server(world, folder, *become, programs / "postgres", "-D", folder / "data", *(w for k, v in settings.items() for w in ("-c", f"{k}={v}")),
                  ready=(POSTGRES, 5432))


# Servers in Python: this file is a program too

def stream(world):
    folder = fresh(world, "stream")
    return Server(world, folder, "/usr/bin/python3", HERE / "servers.py", "stream", world.folder / "cert.pem", world.folder / "key.pem", STREAM,
                  ready=(STREAM, 443))


def grpc(world):
    folder = fresh(world, "grpc")
    return Server(world, folder, "/usr/bin/python3", HERE / "servers.py", "grpc", world.folder / "cert.pem", world.folder / "key.pem", GRPC,
                  ready=(GRPC, 443))


class StreamHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    went = threading.Event()

    def do_GET(self):
        if self.path == "/go":
            self.went.set()
            self.send_response(204)
            self.end_headers()
            return
        self.went.clear()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event("first")
        self.went.wait()
        self.event("last")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, text):
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *_):
        pass


def serve_stream(cert, key, address):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    plain = http.server.ThreadingHTTPServer((address, 80), StreamHandler)
    secure = http.server.ThreadingHTTPServer((address, 443), StreamHandler)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=plain.serve_forever).start()
    secure.serve_forever()


def serve_grpc(cert, key, address):
    from concurrent import futures
    import grpc as g

    class Service(g.GenericRpcHandler):
        def service(self, details):
            if details.method == "/t.T/Upper":
                return g.unary_unary_rpc_method_handler(self.upper)
            return g.stream_stream_rpc_method_handler(lambda messages, _context: (m + b"!" for m in messages))

        def upper(self, message, context):
            if message == b"fail":
                context.abort(g.StatusCode.FAILED_PRECONDITION, "as asked")
            context.set_trailing_metadata((("x-end", dict(context.invocation_metadata()).get("x-start", "none")),))
            return message.upper()

    server = g.server(futures.ThreadPoolExecutor(8), handlers=[Service()])
    credentials = g.ssl_server_credentials([(pathlib.Path(key).read_bytes(), pathlib.Path(cert).read_bytes())])
    assert server.add_secure_port(f"{address}:443", credentials)
    server.start()
    server.wait_for_termination()


if __name__ == "__main__":
    {"stream": serve_stream, "grpc": serve_grpc}[sys.argv[1]](*sys.argv[2:])
