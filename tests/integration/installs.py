# SPDX-License-Identifier: Apache-2.0
"""Real installs without a network: packages that are made here, and installed by npm and pip from files."""

import base64
import hashlib
import io
import json
import shutil
import tarfile
import zipfile

import pytest

ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
NPM = "npm ci --offline --no-audit --no-fund --cache /tmp/cache"


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"needs the program {program}")


def npm_package(runner, name, version, files=None, **manifest):
    """tgz/NAME.tgz, as `npm pack` makes it; returns its place for package.json."""
    path = runner.workspace / "tgz" / f"{name.replace('/', '-').lstrip('@')}-{version}.tgz"
    content = {"package.json": json.dumps({"name": name, "version": version, **manifest}).encode(), "index.js": b"module.exports = 1\n"}
    content.update(files or {})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for member, data in content.items():
            info = tarfile.TarInfo(f"package/{member}")
            info.size, info.mode = len(data), 0o755 if data.startswith((b"#!", b"\x7fELF")) else 0o644
            tar.addfile(info, io.BytesIO(data))
    runner.write(path, packed.getvalue())
    return f"file:tgz/{path.name}"


def npm_project(runner, dependencies):
    """package.json and, by npm itself, package-lock.json."""
    need("npm", "node")
    runner.write("package.json", json.dumps({"name": "project", "version": "1.0.0", "dependencies": dependencies}))
    cache = runner.mkdir(runner.top / "npm-cache")
    r = runner.run("npm", "install", "--package-lock-only", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", cache)
    assert r.rc == 0, r


def wheel(runner, name, version, files):
    """wheels/NAME-VERSION-py3-none-any.whl"""
    info = f"{name}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = runner.workspace / "wheels" / f"{name}-{version}-py3-none-any.whl"
    record, packed = [], io.BytesIO()
    with zipfile.ZipFile(packed, "w") as z:
        for member, text in content.items():
            z.writestr(member, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
            record.append(f"{member},sha256={digest},{len(text)}")
        z.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n")
    runner.write(path, packed.getvalue())
