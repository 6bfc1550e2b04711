# SPDX-License-Identifier: Apache-2.0
"""The contenders: how each one runs /bin/true with everything unshared and, where it can, with the same mounts.

`argvs` gives the command lines to try, in order: the first that works is the one measured. "@ID@" becomes a fresh number
for every start (see spawn.c).
"""
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable

COMMAND = ["/bin/true"]
NPM_PREFIX = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "bench-peers")
UNSHARE_FLAGS = "--user --map-root-user --mount --pid --fork --net --ipc --uts --cgroup".split()
BWRAP_FLAGS = "--unshare-all --unshare-user --new-session --die-with-parent --cap-drop ALL".split()
FIREJAIL_FLAGS = "--quiet --noprofile --private-tmp --net=none --seccomp --caps.drop=all".split()
FIRST_FD = 10
OCI_NAMESPACES = ("pid", "network", "ipc", "uts", "mount", "user", "cgroup")


@dataclass(frozen=True)
class Peer:
    name: str
    program: str
    argvs: Callable          # place -> list of command lines
    version: tuple = ("--version",)
    parallel: bool = False   # also measured 16 at a time
    note: str = ""


def find(program):
    local = os.path.join(NPM_PREFIX, "node_modules", ".bin", program)
    return local if os.path.exists(local) else shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def version(peer):
    path = find(peer.program)
    if not path:
        return None
    package = os.path.join(os.path.dirname(os.path.realpath(path)), "..", "package.json")
    if path.startswith(NPM_PREFIX) and os.path.exists(package):
        with open(package) as f:
            return json.load(f)["version"]
    done = subprocess.run([path, *peer.version], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"


def bwrap(place, command=COMMAND, mounts=None):
    """Files are handed over open, as bubblewrap wants it; the numbers are for spawn.c."""
    flags = {"ro": "--ro-bind", "rw": "--bind", "link": "--symlink", "tmpfs": "--tmpfs", "proc": "--proc", "dev": "--dev", "file": "--file"}
    opens, argv = [], ["bwrap", *BWRAP_FLAGS]
    for kind, source, target in place.mounts if mounts is None else mounts:
        if kind == "file":
            opens.append(f"{FIRST_FD + len(opens)}<{source}")
            source = str(FIRST_FD + len(opens) - 1)
        argv += [flags[kind], *([source] if source else []), target]
    return [*opens, *argv, "--chdir", place.workspace, *command]


def bwrap_inside(place, command):
    return bwrap(place, command, [m for m in place.mounts if m[0] != "file"])


def bwrap_short(place):
    """What a person would type: the whole of /etc in one bind."""
    return bwrap(place, mounts=[*(m for m in place.mounts if not m[2].startswith("/etc/")), ("ro", "/etc", "/etc")])


def unshare(place):
    return ["unshare", *UNSHARE_FLAGS, *COMMAND]


def oci_mount(kind, source, target):
    secure = ["nosuid", "nodev"]
    return {
        "ro": [("bind", os.path.realpath(source), target, ["rbind", "ro", *secure])],
        "rw": [("bind", os.path.realpath(source), target, ["rbind", "rw", *secure])],
        "proc": [("proc", "proc", target, [*secure, "noexec"])],
        "tmpfs": [("tmpfs", "tmpfs", target, secure)],
        "dev": [("tmpfs", "tmpfs", target, ["nosuid", "mode=755"]),
                ("devpts", "devpts", target + "/pts", ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"])],
        "link": [],
        "file": [],
    }[kind]


def oci_config(place):
    mounts = [mount for entry in place.mounts for mount in oci_mount(*entry)]
    return {
        "ociVersion": "1.0.2",
        "hostname": "bench",
        "root": {"path": "rootfs"},
        "process": {
            "terminal": False, "user": {"uid": 0, "gid": 0}, "args": COMMAND, "env": ["PATH=/usr/bin:/bin"],
            "cwd": place.workspace, "noNewPrivileges": True,
            "capabilities": {k: [] for k in ("bounding", "effective", "permitted", "inheritable")},
        },
        "mounts": [{"type": t, "source": s, "destination": d, "options": o} for t, s, d, o in mounts],
        "linux": {
            "uidMappings": [{"containerID": 0, "hostID": place.uid, "size": 1}],
            "gidMappings": [{"containerID": 0, "hostID": place.gid, "size": 1}],
            "namespaces": [{"type": t} for t in OCI_NAMESPACES],
        },
    }


def write_config(bundle, config):
    with open(os.path.join(bundle, "config.json"), "w") as f:
        json.dump(config, f)


def oci(place, *runtime):
    """A bundle whose root holds only symlinks and the made files; all other content comes from the mounts."""
    bundle = os.path.join(place.directory, runtime[0])
    rootfs = os.path.join(bundle, "rootfs")
    if not os.path.isdir(bundle):
        os.makedirs(os.path.join(rootfs, "etc"))
        for kind, source, target in place.mounts:
            if kind == "link":
                os.symlink(source, rootfs + target)
            elif kind == "file":
                shutil.copy(source, rootfs + target)
        write_config(bundle, oci_config(place))
        place.own(bundle, rootfs, os.path.join(rootfs, "etc"))
    return [*runtime, "--root", os.path.join(bundle, "state"), "run", "--bundle", bundle, "bawn-bench-@ID@"]


PEERS = (
    Peer("bwrap", "bwrap", lambda p: [bwrap(p)], parallel=True, note="all namespaces, same mounts"),
    Peer("bwrap-short", "bwrap", lambda p: [bwrap_short(p)], parallel=True, note="all namespaces, /etc in one mount"),
    Peer("unshare", "unshare", lambda p: [unshare(p)], parallel=True, note="all namespaces, no file system of its own"),
    Peer("crun", "crun", lambda p: [oci(p, "crun", "--cgroup-manager=disabled")], parallel=True, note="same mounts, no cgroup"),
    Peer("runc", "runc", lambda p: [oci(p, "runc")], note="same mounts"),
    Peer("firejail", "firejail", lambda p: [["firejail", *FIREJAIL_FLAGS, *COMMAND]], note="its own mounts, seccomp, no network"),
    Peer("codex", "codex", lambda p: [[find("codex"), "sandbox", *sub, "--", *COMMAND] for sub in (["linux"], [])],
         note="codex sandbox, its own policy"),
    Peer("srt", "srt", lambda p: [[find("srt"), *COMMAND]], note="its own default policy"),
)
