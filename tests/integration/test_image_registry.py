# SPDX-License-Identifier: Apache-2.0
"""Registries: a real docker-registry filled by skopeo; and a server that answers as registries in trouble do."""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
from imagekit import F, Registry, base, names, share, tar, write_layout  # noqa: E402

NOTHING = {"layers": 0, "configs": 0, "refs": 0, "partial": 0, "pulls": 0}


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with Registry(tmp_path_factory.mktemp("registry") / "r") as r:
        yield r


def test_pull_and_run(runner, registry):
    write_layout(runner.top / "l", [base(), tar([F("t/x", b"from the registry")])], {"User": "app"})
    name = registry.put("a/b:1", runner.top / "l")
    r = runner.bawn("run", "--network", "none", "--image", name, "--", "cat", "/t/x")  # gets it first
    assert r.out == b"from the registry" and b"is not in the store: getting it" in r.err, r
    r = runner.bawn("image", "pull", name, "--json")
    assert r.rc == 0 and r.json()["name"] == name and r.json()["layers"] == 2, r
    by_digest = f"{registry.host}/a/b@{runner.bawn('image', 'inspect', name).json()['manifest']}"
    assert runner.bawn("image", "pull", by_digest).out.decode().strip() == by_digest
    assert names(runner)[1] == {"layers": 2, "configs": 1, "refs": 2, "partial": 0, "pulls": 0}
    r = runner.bawn("image", "pull", f"{registry.host}/a/b:none")
    assert r.rc == 125 and b"there is no image" in r.err and b"(404)" in r.err, r
    r = runner.bawn("image", "pull", f"{registry.host}/a/b@sha256:{'0' * 64}")
    assert r.rc == 125 and b"(404)" in r.err, r


def test_docker_media_types_and_zstd(runner, registry):
    """Docker's own manifests, and layers of zstd, by the same road."""
    write_layout(runner.top / "l", [base(), tar([F("t/x", b"docker")])])
    name = registry.put("c/docker:1", runner.top / "l", "--format", "v2s2")
    write_layout(runner.top / "z", [base(), tar([F("t/x", b"docker")])], how="zstd")
    zstd = registry.put("c/zstd:1", runner.top / "z")
    for ref in (name, zstd):
        r = runner.bawn("image", "pull", ref)
        assert r.rc == 0, r
    assert names(runner)[1]["layers"] == 2


def test_many_machines(runner, registry):
    """An index: the entry for this machine, or the one that was asked for."""
    digests = {}
    for arch in ("amd64", "arm64"):
        digests[arch] = write_layout(runner.top / arch, [base(), tar([F("t/arch", arch.encode())])], arch=arch)
        registry.put(f"d/multi:{arch}", runner.top / arch)
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
             "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": d, "size": len((runner.top / a / "blobs/sha256" / d[7:]).read_bytes()),
                            "platform": {"os": "linux", "architecture": a}} for a, d in digests.items()]}
    put = subprocess.run(["curl", "-sf", "-X", "PUT", "-H", "Content-Type: " + index["mediaType"], "--data-binary", json.dumps(index), f"http://{registry.host}/v2/d/multi/manifests/all"], check=False)
    assert put.returncode == 0
    r = runner.bawn("run", "--network", "none", "--image", f"{registry.host}/d/multi:all", "--", "cat", "/t/arch")
    assert r.out == b"amd64", r
    assert runner.bawn("image", "pull", f"{registry.host}/d/multi:all", "--arch", "arm64", "-t", "t/arm").rc == 0
    assert runner.bawn("image", "inspect", "t/arm").json()["arch"] == "arm64"
    r = runner.bawn("image", "pull", f"{registry.host}/d/multi:all", "--arch", "s390x")
    assert r.rc == 125 and b"not there for linux/s390x, only for linux/amd64, linux/arm64" in r.err, r


class Trouble(http.server.ThreadingHTTPServer):
    """Serves a layout as a registry does; `how(handler, kind)` may answer in its place (returns True then)."""

    def __init__(self, layout, how=lambda handler, kind: False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.layout, self.how, self.seen = layout, how, []
        self.ref = f"127.0.0.1:{self.server_port}/t/x:1"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b"", **headers):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True

    def do_GET(self):
        kind = "manifests" if "/manifests/" in self.path else "blobs" if "/blobs/" in self.path else "token"
        self.server.seen.append((kind, self.path, dict(self.headers)))
        if self.server.how(self, kind):
            return
        name = self.path.rsplit("/", 1)[1]
        index = json.loads((self.server.layout / "index.json").read_text())["manifests"][0]["digest"]
        path = self.server.layout / "blobs/sha256" / (name if name.startswith("sha256:") else index)[7:]
        if not path.exists():
            self.send(404)
            return
        data, start = path.read_bytes(), self.headers.get("Range", "")
        if start:
            self.send(206, data[int(start[6:-1]):], Content_Range=f"bytes {start[6:-1]}-{len(data) - 1}/{len(data)}")
        else:
            self.send(200, data)


@pytest.fixture
def layout(runner):
    write_layout(runner.top / "l", [base(), tar([F("t/x", os.urandom(300_000))])])
    return share(runner.top / "l")


@pytest.mark.parametrize("status, says", [(401, b"denies"), (403, b"denies"), (404, b"there is no image"), (429, b"asked too often"), (500, b"is in trouble"), (302, b"status 302"), (418, b"status 418")])
def test_statuses(runner, layout, status, says):
    """Clear words, an untouched store, and the next try works; 429 and 500 are tried again first."""
    with Trouble(layout, lambda h, kind: h.send(status)) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 125 and says in r.err, r
        assert len(server.seen) == (4 if status in (429, 500) else 1) and names(runner) == (set(), NOTHING)
        server.how = lambda h, kind: False
        assert runner.bawn("image", "pull", server.ref).rc == 0


def test_it_recovers(runner, layout):
    """A 500, a 429 with its pause, and a connection that breaks in the middle of a blob, which is continued where it broke."""
    state = {"n": 0}

    def how(h, kind):
        state["n"] += 1
        if kind == "manifests" and state["n"] <= 2:
            return h.send([500, 429][state["n"] - 1], Retry_After="1")
        if kind == "blobs" and not h.headers.get("Range") and "layer" not in state:
            name = h.path.rsplit(":", 1)[1]
            data = (h.server.layout / "blobs/sha256" / name).read_bytes()
            if len(data) > 100_000:
                state["layer"] = name
                h.send_response(200)
                h.send_header("Content-Length", str(len(data)))
                h.end_headers()
                h.wfile.write(data[:90_000])
                h.close_connection = True
                return True
        return False

    with Trouble(layout, how) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 0, r
        ranges = [headers["Range"] for kind, path, headers in server.seen if "Range" in headers]
        assert ranges and all(r != "bytes=0-" for r in ranges), server.seen


def dribble(part, pause):
    """A registry that sends blobs in parts of so many bytes, with a pause before each; pause(h) False: no more comes."""
    def how(h, kind):
        if kind != "blobs":
            return False
        data = (h.server.layout / "blobs/sha256" / h.path.rsplit(":", 1)[1]).read_bytes()
        start = int(h.headers.get("Range", "bytes=0-")[6:-1])
        h.send_response(206 if start else 200)
        if start:
            h.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        h.send_header("Content-Length", str(len(data) - start))
        h.end_headers()
        for at in range(start, len(data), part):
            if not pause(h):
                h.close_connection = True
                break
            h.wfile.write(data[at:at + part])
        return True

    return how


def test_a_slow_registry(runner, layout):
    """Slow is no failure, as long as something comes."""
    with Trouble(layout, dribble(20_000, lambda h: time.sleep(0.05) is None)) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 0, r
    assert names(runner)[1] == {"layers": 2, "configs": 1, "refs": 1, "partial": 0, "pulls": 0}


@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_a_registry_that_says_nothing_more(runner, layout, how):
    """In the middle of a layer: ^C and kill -9 end the wait, the store is as it was, and the next try goes on where it was."""
    waits, goes_on = threading.Event(), threading.Event()
    sent = {}

    def pause(h):
        sent[h.path] = sent.get(h.path, 0) + 1
        if sent[h.path] < 4:
            return True
        waits.set()
        goes_on.wait()
        return False

    with Trouble(layout, dribble(30_000, pause)) as server:
        p = runner.popen(runner.path, "image", "pull", server.ref, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        waits.wait()
        p.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
        err = p.communicate()[1]
        goes_on.set()
        assert p.returncode not in (0, 64), err
        assert names(runner)[0] == set() and names(runner)[1]["refs"] == 0
        server.how, server.seen = (lambda h, kind: False), []
        assert runner.bawn("image", "pull", server.ref).rc == 0
    assert runner.bawn("image", "prune").rc == 0  # what the killed one was about to make
    assert names(runner)[1] == {"layers": 2, "configs": 1, "refs": 1, "partial": 0, "pulls": 0}


@pytest.mark.parametrize("runner", ["root", "user"] if os.environ.get("BAWN_ALL") else ["user"], indirect=True)
def test_a_registry_that_never_answers(runner, layout):
    """Half a minute without a byte is given up, once."""
    end = threading.Event()
    with Trouble(layout, lambda h, kind: end.wait() and False) as server:
        r = runner.bawn("image", "pull", server.ref)
        end.set()
        assert r.rc == 125 and b"sends nothing for 30 s" in r.err and len(server.seen) == 1, r
        assert names(runner) == (set(), NOTHING)


def test_no_space_while_getting_it(root_runner):
    """The disk fills up while a layer comes from a registry."""
    runner = root_runner
    place = runner.mkdir(runner.top / "small")
    write_layout(runner.top / "l", [base(), tar([F("t/x", os.urandom(8 << 20))])])
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "none", place], check=True)
    try:
        env = {"XDG_STATE_HOME": str(place)}
        with Trouble(share(runner.top / "l")) as server:
            r = runner.bawn("image", "pull", server.ref, env=env)
            assert r.rc == 125 and b"No space left on device" in r.err, r
            assert runner.bawn("image", "ls", "--json", env=env).json() == []
            subprocess.run(["mount", "-o", "remount,size=64m", place], check=True)
            assert runner.bawn("image", "pull", server.ref, env=env).rc == 0
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_download_is_continued(runner, layout):
    """What a pull that failed has got is there for the next."""
    def how(h, kind):
        data = (h.server.layout / "blobs/sha256" / h.path.rsplit(":", 1)[1]).read_bytes() if kind == "blobs" else b""
        if len(data) > 100_000:
            start = int(h.headers.get("Range", "bytes=0-")[6:-1])
            h.send_response(206 if start else 200)
            h.send_header("Content-Length", str(len(data) - start))
            h.end_headers()
            h.wfile.write(data[start:start + 1000])
            h.close_connection = True
            return True
        return False

    with Trouble(layout, how) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 125, r
        assert names(runner)[1]["partial"] > 0
        server.how, server.seen = (lambda h, kind: False), []
        assert runner.bawn("image", "pull", server.ref).rc == 0
        assert any("Range" in headers for _, _, headers in server.seen)
        assert names(runner)[1] == {"layers": 2, "configs": 1, "refs": 1, "partial": 0, "pulls": 0}


def test_wrong_bytes(runner, layout):
    """A registry that sends something else: manifest, configuration or layer. Partial bytes of another origin are no way in either."""
    def wrong(what):
        def how(h, kind):
            name = h.path.rsplit(":", 1)[1] if kind == "blobs" else ""
            data = (h.server.layout / "blobs/sha256" / name).read_bytes() if name else b""
            if kind == what or (what == "layer" and len(data) > 100_000):
                return h.send(200, bytes([data[0] ^ 1]) + data[1:] if data else b"{}")
            return False
        return how

    for what in ("blobs", "layer"):
        with Trouble(layout, wrong(what)) as server:
            r = runner.bawn("image", "pull", server.ref)
            assert r.rc == 125 and b"wrong digest" in r.err, r
    digest = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    with Trouble(layout, lambda h, kind: kind == "manifests" and h.send(200, b'{"schemaVersion":2}')) as server:
        r = runner.bawn("image", "pull", server.ref.rsplit(":", 1)[0] + "@" + digest)
        assert r.rc == 125 and b"wrong digest" in r.err, r
    for part in (imagekit.store(runner) / "partial").iterdir():
        part.unlink()
    big = next(p for p in (layout / "blobs/sha256").iterdir() if 100_000 < p.stat().st_size < 400_000)
    poisoned = runner.write(imagekit.store(runner) / "partial" / big.name, os.urandom(5000), 0o600)
    if runner.is_root:
        os.chown(poisoned, 0x6ffffff0, 0x6ffffff0)
    with Trouble(layout) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 0, r
    assert names(runner)[1] == {"layers": 2, "configs": 1, "refs": 1, "partial": 0, "pulls": 0}


def test_pulls_of_the_same_layers_in_another_order(runner):
    """Two at once, each of which has a layer that the other wants next: both end."""
    x, y, *others = [tar([F(f"t/{i}", os.urandom(5000))]) for i in range(6)]
    begun, both = [], threading.Event()

    def how(first):
        def hold(h, kind):
            if kind == "blobs" and h.path.endswith(imagekit.digest(imagekit.packed(first, "gzip"))):
                begun.append(first)
                if len(begun) == 2:
                    both.set()
            elif any(h.path.endswith(imagekit.digest(imagekit.packed(o, "gzip"))) for o in others):
                both.wait()
            return False
        return hold

    for name, layers in (("a", [x, *others[:2], y]), ("b", [y, *others[2:], x])):
        write_layout(runner.top / name, layers)
        share(runner.top / name)
    with Trouble(runner.top / "a", how(x)) as a, Trouble(runner.top / "b", how(y)) as b:
        procs = [runner.popen(runner.path, "image", "pull", server.ref, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for server in (a, b)]
        try:
            errs = [p.communicate(timeout=100)[1] for p in procs]
        finally:
            both.set()
            for p in procs:
                p.kill()
        assert [p.returncode for p in procs] == [0, 0], errs
    assert names(runner)[1] == {"layers": 8, "configs": 2, "refs": 2, "partial": 0, "pulls": 0}


def test_layers_of_no_size(runner, layout):
    """A manifest that calls its layers empty is wrong, and nothing waits for them."""
    def how(h, kind):
        if kind != "manifests":
            return False
        index = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
        manifest = json.loads((layout / "blobs/sha256" / index[7:]).read_text())
        for part in manifest["layers"]:
            part["size"] = 0
        return h.send(200, json.dumps(manifest).encode())

    with Trouble(layout, how) as server:
        p = runner.popen(runner.path, "image", "pull", server.ref, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            err = p.communicate(timeout=120)[1]
        finally:
            p.kill()
        assert p.returncode == 125 and b"wrong digest" in err, err


def test_clear_text_is_for_this_machine_only(runner, layout):
    """No redirect, and no token server, leads to another host without TLS; nothing but loopback is asked without it."""
    with Trouble(layout, lambda h, kind: kind == "blobs" and h.send(307, Location="ftp://127.0.0.1/x")) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 125, r
    for realm in ("http://registry.invalid/token", "http://127.0.0.1:80@registry.invalid/token", "http://localhost.registry.invalid", "ftp://127.0.0.1/"):
        with Trouble(layout, lambda h, kind: h.send(401, WWW_Authenticate=f'Bearer realm="{realm}",service="x"')) as server:
            r = runner.bawn("image", "pull", server.ref)
            assert r.rc == 125 and b"token server without TLS" in r.err, r
            assert [kind for kind, _, _ in server.seen] == ["manifests"]


def test_redirects_go_without_the_token(runner, layout):
    """Blobs are elsewhere: they come from there, and the login and the token do not go there."""
    with Trouble(layout) as other:
        def how(h, kind):
            if kind == "blobs":
                return h.send(307, Location=f"http://127.0.0.1:{other.server_port}{h.path}")
            return tokens()(h, kind)

        with Trouble(layout, how) as server:
            r = runner.bawn("image", "pull", server.ref)
            assert r.rc == 0, r
            assert any("Bearer" in headers.get("Authorization", "") for _, _, headers in server.seen)
        assert other.seen and not [h for _, _, h in other.seen if "Authorization" in h]


def docker_login(runner, host, user, secret, **more):
    auth = base64.b64encode(f"{user}:{secret}".encode()).decode()
    runner.write(runner.home / ".docker/config.json", json.dumps({"auths": {host: {"auth": auth}}, **more}), 0o600)


def tokens(user=None, secret=None):
    """A registry with a token server, which wants this login if there is one."""
    want = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()

    def how(h, kind):
        if kind == "token":
            if user and h.headers.get("Authorization") != want:
                return h.send(401)
            return h.send(200, json.dumps({"token": "t-" + hashlib.sha256(h.path.encode()).hexdigest()}).encode())
        if not h.headers.get("Authorization", "").startswith("Bearer t-"):
            return h.send(401, WWW_Authenticate=f'Bearer realm="http://127.0.0.1:{h.server.server_port}/token",service="reg",scope="repository:t/x:pull"')
        return False

    return how


def test_tokens(runner, layout):
    """Without a login, as public registries have it."""
    with Trouble(layout, tokens()) as server:
        r = runner.bawn("image", "pull", server.ref)
        assert r.rc == 0, r
        asked = [path for kind, path, _ in server.seen if kind == "token"]
        assert asked and "service=reg" in asked[0] and "scope=repository%3At%2Fx%3Apull" in asked[0], asked


def test_the_login_of_docker(runner, layout):
    """config.json: auths, credHelpers, credsStore; a login goes to its own registry's token server, and nowhere else."""
    bin_ = runner.mkdir(runner.top / "bin")
    runner.write(bin_ / "docker-credential-ours", '#!/bin/sh\nread url\necho "$url" >> "$HOME/asked"\ncase $url in 127.0.0.1:*) echo \'{"Username":"me","Secret":"p:w"}\';; *) exit 1;; esac\n', 0o755)
    env = {"PATH": f"{bin_}:/usr/bin:/bin"}
    with Trouble(layout, tokens("me", "p:w")) as server:
        host = f"127.0.0.1:{server.server_port}"
        r = runner.bawn("image", "pull", server.ref, env=env)
        assert r.rc == 125 and b"docker login" in r.err, r
        for config in ({"auths": {host: {"auth": base64.b64encode(b"me:p:w").decode()}}}, {"auths": {f"https://{host}/v2/": {"username": "me", "password": "p:w"}}},
                       {"credHelpers": {host: "ours"}}, {"credsStore": "ours", "auths": {host: {}}}):
            runner.write(runner.home / ".docker/config.json", json.dumps(config), 0o600)
            r = runner.bawn("image", "pull", server.ref, env=env)
            assert r.rc == 0, (config, r)
            assert runner.bawn("image", "rm", server.ref).rc == 0
        for config in ({"auths": {"other.example": {"auth": base64.b64encode(b"me:p:w").decode()}}}, {"auths": {host: {"auth": base64.b64encode(b"me:wrong").decode()}}},
                       {"credsStore": "missing", "auths": {host: {}}}):
            runner.write(runner.home / ".docker/config.json", json.dumps(config), 0o600)
            assert runner.bawn("image", "pull", server.ref, env=env).rc == 125, config
        runner.write(runner.home / ".docker/config.json", json.dumps({"credsStore": "../evil", "auths": {host: {}}}), 0o600)
        assert b"not the name of a credential helper" in runner.bawn("image", "pull", server.ref, env=env).err
        sent = {headers.get("Authorization", "") for kind, _, headers in server.seen if kind != "token"}
        assert not [s for s in sent if s.startswith("Basic")]  # only the token server has the login


def test_a_login_in_a_real_registry(runner, tmp_path):
    """htpasswd: the registry itself wants user and secret."""
    (tmp_path / "htpasswd").write_text("me:$2b$04$X2LShQgve4y39B4GWtC4s.jDs4ow/Q5Ap/w96Lbaf3htuhMwhpflG\n")  # bcrypt of "pw"
    write_layout(runner.top / "l", [base()])
    with Registry(tmp_path / "r", {"auth": {"htpasswd": {"realm": "test", "path": str(tmp_path / "htpasswd")}}}) as r:
        name = r.put("p/q:1", runner.top / "l", "--dest-creds", "me:pw")
        assert b"docker login" in runner.bawn("image", "pull", name).err
        docker_login(runner, r.host, "me", "pw")
        got = runner.bawn("image", "pull", name)
        assert got.rc == 0, got
