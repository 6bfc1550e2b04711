# SPDX-License-Identifier: Apache-2.0
"""Images for tests, made here from busybox-static and whatever a test adds; and a registry on loopback. Nothing comes from outside.

    layers = [base(), tar([D("t"), F("t/a", b"hello"), L("t/link", "a")])]
    write_layout(path, layers)                       an OCI layout, as `bawn image pull PATH -t NAME` takes it
    with Registry(path) as r: r.put("a/b:1", layout)  a real docker-registry, filled by skopeo
"""

import contextlib
import functools
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile
import time

BUSYBOX = pathlib.Path("/bin/busybox")
APPLETS = ("sh", "cat", "ls", "id", "env", "tar", "echo", "sleep", "find", "stat", "mount", "mkdir", "ln", "true", "wget", "ps", "kill", "chown", "mknod")
OCI = "application/vnd.oci.image."
WHEN = 1_000_000_000


def entry(name, kind=tarfile.REGTYPE, data=b"", mode=0o644, target="", uid=0, gid=0, mtime=WHEN, pax=None):
    return name, kind, data, mode, target, uid, gid, mtime, pax or {}


def F(name, data=b"", mode=0o644, **kw):
    return entry(name, data=data, mode=mode, **kw)


def D(name, mode=0o755, **kw):
    return entry(name, tarfile.DIRTYPE, mode=mode, **kw)


def L(name, target, **kw):
    return entry(name, tarfile.SYMTYPE, target=target, mode=0o777, **kw)


def H(name, target, **kw):
    return entry(name, tarfile.LNKTYPE, target=target, **kw)


def tar(entries, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as t:
        for name, kind, data, mode, target, uid, gid, mtime, pax in entries:
            i = tarfile.TarInfo(name)
            i.type, i.mode, i.linkname, i.uid, i.gid, i.mtime, i.size, i.pax_headers = kind, mode, target, uid, gid, mtime, len(data), pax
            t.addfile(i, io.BytesIO(data))
    return out.getvalue()


@functools.lru_cache
def base():
    """busybox with links for what tests use, and two users."""
    return tar([D("bin"), F("bin/busybox", BUSYBOX.read_bytes(), 0o755), *(H(f"bin/{a}", "bin/busybox") for a in APPLETS), D("etc"),
                F("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\napp:x:7:8::/home/app:/bin/sh\n"), F("etc/group", b"root:x:0:\napps:x:8:\n"), D("root", 0o700), D("t")])


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=8)
def packed(layer, how):
    if how == "gzip":
        return gzip.compress(layer, 1, mtime=0)
    if how == "members":
        return b"".join(gzip.compress(layer[i::][:1 << 20], 1, mtime=0) for i in range(0, len(layer), 1 << 20))
    if how == "zstd":
        return subprocess.run(["zstd", "-q", "-1", "-c"], input=layer, capture_output=True, check=True).stdout
    return layer


def write_layout(path, layers, config=None, how="gzip", arch="amd64", damage=None, packed_already=(), diff_ids=None):
    """Returns the digest of the manifest. damage(blobs, digests of layers) changes the blobs, by digest, before they are written."""
    blobs, kind = {}, {"gzip": "tar+gzip", "members": "tar+gzip", "zstd": "tar+zstd", "": "tar"}[how]

    def put(data, media):
        blobs[digest(data)] = data
        return {"mediaType": OCI + media, "digest": digest(data), "size": len(data)}

    parts = [put(packed(bytes(layer), "" if i in packed_already else how), f"layer.v1.{kind}") for i, layer in enumerate(layers)]
    doc = {"architecture": arch, "os": "linux", "config": config or {}, "rootfs": {"type": "layers", "diff_ids": diff_ids or [digest(x) for x in layers]}}
    manifest = put(json.dumps({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json", "config": put(json.dumps(doc).encode(), "config.v1+json"),
                               "layers": parts}).encode(), "manifest.v1+json")
    if damage:
        damage(blobs, [p["digest"] for p in parts])
    shutil.rmtree(path, ignore_errors=True)
    (path / "blobs/sha256").mkdir(parents=True)
    for name, data in blobs.items():
        (path / "blobs/sha256" / name[7:]).write_bytes(data)
    manifest["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return manifest["digest"]


def share(path):
    """Readable by the runner, whoever that is."""
    for folder, _, files in os.walk(path):
        os.chmod(folder, 0o755)
        for name in files:
            os.chmod(os.path.join(folder, name), 0o644)
    return path


def make_image(runner, name, layers=None, config=None, **kw):
    """In the runner's store, under this name."""
    path = runner.top / f"layout-{name.replace('/', '-').replace(':', '-')}"
    write_layout(path, layers or [base()], config, **kw)
    share(path)
    r = runner.bawn("image", "pull", path, "-t", name)
    assert r.rc == 0, r
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Registry(contextlib.AbstractContextManager):
    """A real docker-registry with its own folder and port."""

    def __init__(self, folder, extra=None):
        self.folder, self.port, self.extra = pathlib.Path(folder), free_port(), extra or {}
        self.host = f"127.0.0.1:{self.port}"

    def __enter__(self):
        config = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}}, "http": {"addr": self.host}, **self.extra}
        self.folder.mkdir(exist_ok=True)
        (self.folder / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        with (self.folder / "log").open("wb") as log:
            self.proc = subprocess.Popen(["docker-registry", "serve", self.folder / "config.yml"], stdout=log, stderr=log)
        while self.proc.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return self
            time.sleep(0.02)
        raise RuntimeError((self.folder / "log").read_text())

    def __exit__(self, *_):
        self.proc.kill()
        self.proc.wait()

    def put(self, name, layout, *options):
        subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", *options, f"oci:{layout}:latest", f"docker://{self.host}/{name}"],
                       check=True, capture_output=True)
        return f"{self.host}/{name}"


def store(runner):
    return runner.home / ".local/state/bawn/images"


def names(runner):
    """What is in the store: names of images, and how many layers, unfinished pulls and downloads."""
    s = store(runner)
    count = {d: len([p for p in (s / d).iterdir() if d == "pulls" or p.name[0] != "."]) if (s / d).exists() else 0 for d in ("layers", "configs", "refs", "partial", "pulls")}
    r = runner.bawn("image", "ls", "--json")
    assert r.rc == 0, r
    return {row["name"] for row in r.json()}, count


def programs(*paths):
    """A layer with programs of this machine and the libraries that they load."""
    files = {}
    for path in paths:
        said = subprocess.run(["ldd", path], capture_output=True, check=True, text=True).stdout.split()
        for word in [path, *(w for w in said if w.startswith("/"))]:
            files[word.lstrip("/")] = F(word.lstrip("/"), pathlib.Path(word).read_bytes(), 0o755)
    return tar(files.values())
