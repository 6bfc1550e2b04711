# SPDX-License-Identifier: Apache-2.0
"""Packages for tests: a repository of apt's, made here, with what real packages do: other owners, set-id files, users, servers, certificates."""

import gzip
import hashlib
import pathlib
import shutil
import subprocess

ARCH = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()

POSTINST = """#!/bin/sh
set -e
if ! getent passwd demo-user >/dev/null; then
    adduser --system --group --no-create-home --home /nonexistent demo-user
fi
install -d -o demo-user -g demo-user -m 2750 /var/lib/demo
chown -R demo-user:demo-user /usr/lib/demo
ldconfig
invoke-rc.d demo start || true
su -s /bin/sh -c 'echo as someone else' demo-user >/dev/null 2>&1 || true
echo configured >/var/lib/demo/state
"""


def deb(folder, name, version, files, depends="", postinst=""):
    """files: path: (text, mode); returns the package's path. Every file belongs to 4321:4321."""
    tree = folder / f"{name}-{version}"
    for path, (text, mode) in files.items():
        at = tree / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
        at.chmod(mode)
        subprocess.run(["chown", "4321:4321", at], check=True)
        at.chmod(mode)
    control = tree / "DEBIAN"
    control.mkdir(parents=True)
    lines = {"Package": name, "Version": version, "Architecture": ARCH, "Maintainer": "t <t@example.com>", "Description": "made by a test"}
    if depends:
        lines["Depends"] = depends
    (control / "control").write_text("".join(f"{k}: {v}\n" for k, v in lines.items()))
    if postinst:
        (control / "postinst").write_text(postinst)
        (control / "postinst").chmod(0o755)
    conffiles = [f"/{p}\n" for p in files if p.startswith("etc/")]
    if conffiles:
        (control / "conffiles").write_text("".join(conffiles))
    out = folder / f"{name}_{version}_{ARCH}.deb"
    subprocess.run(["dpkg-deb", "-b", "-Zgzip", tree, out], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return out


def installed_files(name):
    said = subprocess.run(["dpkg", "-L", name], capture_output=True, text=True, check=True).stdout.split()
    return [p for p in said if pathlib.Path(p).is_file() and not pathlib.Path(p).is_symlink()]


def make_packages(folder):
    """demo needs demo-lib; sensible-utils is a newer one of a package that the host has."""
    deb(folder, "demo-lib", "1.0", {"usr/lib/demo-lib/data": ("library\n", 0o644)})
    deb(folder, "demo", "1.0", {"usr/bin/demo": ("#!/bin/sh\necho demo $(cat /usr/lib/demo-lib/data)\n", 0o755), "usr/lib/demo/helper": ("#!/bin/sh\n", 0o4755),
                                "usr/lib/demo/data": ("data\n", 0o640), "etc/demo.conf": ("a=1\n", 0o644)}, "demo-lib", POSTINST)
    deb(folder, "sensible-utils", "99.0", {p[1:]: ("#!/bin/sh\necho newer\n", 0o755) for p in installed_files("sensible-utils") if p.startswith("/usr/")})


def make_repository(folder):
    folder.mkdir()
    make_packages(folder)
    text = ""
    for package in sorted(folder.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "-f", package], capture_output=True, text=True, check=True).stdout
        data = package.read_bytes()
        text += f"{control}Filename: ./{package.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
    (folder / "Packages").write_text(text)
    (folder / "Packages.gz").write_bytes(gzip.compress(text.encode()))


def host_state():
    """What would change on the host if a package reached it."""
    places = ("/usr/bin", "/usr/lib", "/usr/local/bin", "/usr/local/lib", "/etc", "/var/lib/dpkg", "/var/lib/dpkg/info", "/opt", "/")
    return {p: (pathlib.Path(p).stat().st_mtime_ns, len(list(pathlib.Path(p).iterdir()))) for p in places}, hashlib.sha256(
        pathlib.Path("/var/lib/dpkg/status").read_bytes()).hexdigest()
