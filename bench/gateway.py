# SPDX-License-Identifier: Apache-2.0
"""The gate against direct loopback connections, and, where TLS is inspected, against proxies that do the same.

One server (nginx) and one client (load.c) for everybody. Bawn reaches the server as host.bawn.internal, by a rule. Rounds are interleaved;
the figures are medians, and ratios are taken round by round.
"""
import json
import os
import shutil
import socket
import statistics
import subprocess
import time

HOST = "host.bawn.internal"
VALUE = "bench-5f1c9d0e7b6a4832-only-outside"  # of the credential
PLAIN, TLS, SQUID, MITM = 18080, 18443, 18128, 18129
NGINX = """
worker_processes 1; worker_rlimit_nofile 16384; daemon off; pid {d}/nginx.pid; error_log {d}/nginx.err; user {user};
events {{ worker_connections 8192; }}
http {{ access_log off; keepalive_requests 100000000; keepalive_timeout 600; types {{ }}
    client_body_temp_path {d}/t1; proxy_temp_path {d}/t2; fastcgi_temp_path {d}/t3; uwsgi_temp_path {d}/t4; scgi_temp_path {d}/t5;
    server {{ listen 127.0.0.1:{plain} backlog=4096; listen 127.0.0.1:{tls} ssl backlog=4096; ssl_certificate {d}/cert.pem; ssl_certificate_key {d}/key.pem;
        location / {{ return 200 "0123456789012345678901234567890123456789012345678901234567890123\\n"; }}
        location /none {{ if ($http_x_bench_key = "{value}") {{ return 401; }}
            return 200 "0123456789012345678901234567890123456789012345678901234567890123\\n"; }}
        location /key {{ if ($http_x_bench_key != "{value}") {{ return 401; }}
            return 200 "0123456789012345678901234567890123456789012345678901234567890123\\n"; }}
        location /big {{ root {d}; }} }} }}
"""
SQUID_CONF = """
http_port 127.0.0.1:{port} ssl-bump cert={d}/ca-both.pem generate-host-certificates=on dynamic_cert_mem_cache_size=16MB
sslcrtd_program /usr/lib/squid/security_file_certgen -s {d}/certs.db -M 16MB
acl all_of_it src all
http_access allow all_of_it
ssl_bump bump all_of_it
sslproxy_cert_error allow all_of_it
tls_outgoing_options flags=DONT_VERIFY_PEER
cache deny all_of_it
access_log none
cache_log {d}/squid.log
pid_filename {d}/squid.pid
coredump_dir {d}
max_filedescriptors 4096
hosts_file {d}/hosts
dns_nameservers 127.0.0.1
pinger_enable off
"""


def sh(*cmd, **kw):
    subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)


def wait_for(port, process):
    while process.poll() is None:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


class Servers:
    """nginx and the peers, on loopback, ended with the block."""

    def __init__(self, directory, peers=True):
        self.d = os.path.join(directory, "gateway" if peers else "server")
        self.with_peers = peers
        shutil.rmtree(self.d, ignore_errors=True)
        os.mkdir(self.d)
        os.chmod(self.d, 0o755)
        self.running = []

    def __enter__(self):
        self.certificates()
        with open(f"{self.d}/big", "wb") as f:
            f.truncate(64 << 20)
        with open(f"{self.d}/nginx.conf", "w") as f:
            f.write(NGINX.format(d=self.d, plain=PLAIN, tls=TLS, value=VALUE, user="root" if os.geteuid() == 0 else "nobody"))
        self.peers = {"nginx": self.start(TLS, "nginx", "-c", f"{self.d}/nginx.conf")}
        if not self.with_peers:
            return self
        self.peers["squid"] = shutil.which("squid") and self.squid()
        self.peers["mitmproxy"] = shutil.which("mitmdump") and self.start(MITM, "mitmdump", "-q", "--ssl-insecure", "--listen-host", "127.0.0.1", "-p", str(MITM),
                                                                          "--set", f"confdir={self.d}/mitm")
        return self

    def __exit__(self, *unused):
        for p in self.running:
            p.terminate()
            p.wait()

    def start(self, port, *cmd):
        p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(p)
        return wait_for(port, p)

    def certificates(self):
        d, key = self.d, ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        sh("openssl", "req", "-x509", *key, "-keyout", f"{d}/ca.key", "-out", f"{d}/ca.pem", "-subj", "/CN=bench CA")
        sh("openssl", "req", "-new", *key[:-2], "-keyout", f"{d}/key.pem", "-out", f"{d}/csr.pem", "-subj", "/CN=server")
        with open(f"{d}/ext", "w") as f:
            f.write(f"subjectAltName=DNS:{HOST}\n")
        sh("openssl", "x509", "-req", "-in", f"{d}/csr.pem", "-CA", f"{d}/ca.pem", "-CAkey", f"{d}/ca.key", "-CAcreateserial", "-days", "2", "-out", f"{d}/cert.pem",
           "-extfile", f"{d}/ext")
        with open(f"{d}/ca-both.pem", "w") as f:
            f.write(open(f"{d}/ca.pem").read() + open(f"{d}/ca.key").read())
        with open(f"{d}/hosts", "w") as f:
            f.write(f"127.0.0.1 localhost {HOST}\n")

    def squid(self):
        with open(f"{self.d}/squid.conf", "w") as f:
            f.write(SQUID_CONF.format(d=self.d, port=SQUID))
        sh("/usr/lib/squid/security_file_certgen", "-c", "-s", f"{self.d}/certs.db", "-M", "16MB")
        if os.geteuid() == 0:
            sh("chown", "-R", "proxy", self.d)
        return self.start(SQUID, "squid", "-N", "-f", f"{self.d}/squid.conf")


def rules(place, directory):
    """The user's rules: the server by name; its TLS port is inspected."""
    folder = os.path.join(place.home, ".config", "bawn")
    os.makedirs(folder, exist_ok=True)
    private = {"action": "allow", "host": HOST, "allow_private": True}
    with open(os.path.join(folder, "network.json"), "w") as f:
        json.dump({"rules": [{**private, "id": "plain", "ports": [PLAIN]}, {**private, "id": "tls", "ports": [TLS], "inspect": True}]}, f)
    for path in (os.path.dirname(folder), folder, os.path.join(folder, "network.json")):
        place.own(path)
    shutil.copy(os.path.join(directory, "ca.pem"), os.path.join(place.directory, "ca.pem"))
    os.chmod(os.path.join(place.directory, "ca.pem"), 0o644)


def credentials(place):
    """Four of them; the first is for the server. Their values are in the environment outside."""
    path = os.path.join(place.home, ".config", "bawn", "secrets.json")
    hosts = {"bench": f"{HOST}:{TLS}", "other-1": "one.example", "other-2": "two.example", "other-3": "three.example"}
    with open(path, "w") as f:
        json.dump({"secrets": {name: {"hosts": [host], "header": "x-bench-key", "env": [name.upper().replace("-", "_")], "store": "env", "variable": "BENCH_VALUE"}
                               for name, host in hosts.items()}}, f)
    os.chmod(path, 0o600)
    place.own(path)


def prepare(stage, place, servers):
    shutil.copy(stage.load, os.path.join(place.workspace, "load"))
    rules(place, servers.d)
    credentials(place)


# How Bawn is called, by contender.
RUN = {"bawn": ["run", "--no-secrets", "--"], "credential": ["run", "--"]}


def load(stage, place, how, *options):
    """One run of the client: "direct" on the host, else inside."""
    host = "127.0.0.1" if how == "direct" else HOST
    port = TLS if "-s" in options else PLAIN
    path = "/big" if "big" in options else "/" if "key" not in options else "/key" if how == "credential" else "/none"
    command = [os.path.join(place.workspace, "load"), *(o for o in options if o not in ("big", "key")), host, str(port), path]
    if how != "direct":
        command = [stage.bawn, *RUN[how], *command]
    arguments = place.popen_as()
    arguments["env"] = {**arguments["env"], "SSL_CERT_FILE": os.path.join(place.directory, "ca.pem"), "BENCH_VALUE": VALUE}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **arguments)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    out = json.loads(done.stdout)
    if out["errors"]:
        raise RuntimeError(f"{out['errors']} errors: {' '.join(command)}")
    return out


def through(stage, place, port, *options):
    command = [stage.load, "-x", f"127.0.0.1:{port}", *(o for o in options if o != "big"), "127.0.0.1", str(TLS), "/big" if "big" in options else "/"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **place.popen_as())
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


MEASURES = {"requests": lambda r: r["requests"] / r["seconds"], "bulk": lambda r: r["bytes"] / r["seconds"] / 1e6,
            "first": lambda r: r["seconds"] * 1e3, "new": lambda r: r["seconds"] / r["requests"] * 1e6}


def cases(servers, ms):
    """name, what is measured, contenders: name -> how"""
    plain, fresh, bulk, tls = ("-c", "16", "-t", ms), ("-n", "-t", ms), ("-t", ms, "big"), ("-c", "16", "-t", ms, "-s")
    tls_bulk = ("-t", ms, "-s", "big")
    both = {"direct": "direct", "bawn": "bawn"}
    proxies = {name: port for name, port in (("squid", SQUID), ("mitmproxy", MITM)) if servers.peers.get(name)}
    yield "pass-through, requests/s, 16 connections", "requests", both, plain
    yield "pass-through, requests/s, 1 connection", "requests", both, ("-t", ms)
    yield "pass-through, new connection, us", "new", both, fresh
    yield "pass-through, bulk, MB/s", "bulk", both, bulk
    yield "inspected (TLS), requests/s, 16 connections", "requests", {**both, **proxies}, tls
    proxies.pop("mitmproxy", None)  # half a minute for what the others do in a tenth of a second
    yield "inspected (TLS), bulk, MB/s", "bulk", {**both, **proxies}, tls_bulk
    yield "first connection of a sandbox, ms (gate started, name looked up)", "first", {"bawn": "bawn"}, ("-1",)
    yield "a credential is put in (TLS), requests/s, 16 connections", "requests", {"bawn": "bawn", "credential": "credential"}, (*tls, "key")


START = "cold start with four credentials, ms"


def starts(stage, place, effort):
    """/bin/true with and without them, interleaved."""
    found = {name: [] for name in RUN}
    arguments = place.popen_as()
    arguments["env"] = {**arguments["env"], "SSL_CERT_FILE": os.path.join(place.directory, "ca.pem"), "BENCH_VALUE": VALUE}
    for _ in range(effort.rounds // 2):
        for name, words in RUN.items():
            begin = time.perf_counter()
            subprocess.run([stage.bawn, *words, "/bin/true"], check=True, **{**arguments, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL})
            found[name].append((time.perf_counter() - begin) * 1e3)
    return found


def measure(stage, place, effort, say):
    try:
        return measure_all(stage, place, effort, say)
    except (RuntimeError, OSError, subprocess.SubprocessError) as e:
        return {"failed": str(e)}


def measure_all(stage, place, effort, say):
    found = {}
    with Servers(place.directory) as servers:
        if not servers.peers["nginx"]:
            return {"failed": "nginx is not there"}
        prepare(stage, place, servers)
        for name, kind, contenders, options in cases(servers, str(effort.gateway_ms)):
            say(f"as {place.name}: {name}")
            found[name] = {c: [] for c in contenders}
            for _ in range(effort.gateway_rounds):
                for contender, how in contenders.items():
                    one = load(stage, place, how, *options) if isinstance(how, str) else through(stage, place, how, *options)
                    found[name][contender].append(MEASURES[kind](one))
        found[START] = starts(stage, place, effort)
    return {name: {c: {"median": statistics.median(v), "samples": v} for c, v in values.items()} for name, values in found.items()}
