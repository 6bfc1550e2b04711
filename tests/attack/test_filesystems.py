# SPDX-License-Identifier: Apache-2.0
"""What a file system answers besides calls on paths: ioctls on descriptors that are open for reading (issue 13, number 3).

The workspace lies on a btrfs or XFS of the test's own, in a file. Each probe works on a copy of it without the sandbox."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

PYTHON = "/usr/bin/python3"
# The size of an image is one that its mkfs takes; only what is written is stored.
KINDS = {"btrfs": (["mkfs.btrfs", "-q"], "loop,user_subvol_rm_allowed", 300 << 20), "xfs": (["mkfs.xfs", "-q"], "loop", 400 << 20)}


def has_filesystem(kind):
    return any(line.split()[-1] == kind for line in open("/proc/filesystems"))


@pytest.fixture(params=KINDS)
def volume(request, runner):
    """A folder on a fresh file system, with `work` (the runner's workspace from here on) and `copy` in it."""
    kind = request.param
    mkfs, options, size = KINDS[kind]
    if os.getuid() != 0:
        pytest.skip("needs root")
    if not has_filesystem(kind):
        pytest.skip(f"needs a kernel with {kind}")
    if not shutil.which(mkfs[0]):
        pytest.skip(f"needs the program {mkfs[0]}")
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-volume.", dir="/var/tmp"))
    top.chmod(0o755)
    image, point = top / "image", top / "point"
    point.mkdir()
    with open(image, "wb") as f:
        f.truncate(size)
    subprocess.run([*mkfs, image], check=True, capture_output=True)
    made = subprocess.run(["mount", "-o", options, image, point], capture_output=True, text=True)
    if made.returncode != 0:
        shutil.rmtree(top)
        pytest.skip("needs a kernel with loop devices: " + made.stderr.strip())
    try:
        point.chmod(0o755)
        for name in ("work", "copy"):
            folder = point / name
            if kind == "btrfs":
                subprocess.run(["btrfs", "-q", "subvolume", "create", folder], check=True, capture_output=True)
            else:
                folder.mkdir()
            runner.own(folder)
            runner.write(folder / ".env", "TOKEN=hidden-value\n")
            runner.write(folder / ".envrc", "export A=1\n")
            runner.write(folder / ".sandboxignore", ".env\n")
            if kind == "btrfs":
                subprocess.run(["btrfs", "-q", "subvolume", "create", folder / ".husky"], check=True, capture_output=True)
                runner.own(folder / ".husky")
        runner.workspace = point / "work"
        yield point
    finally:
        subprocess.run(["umount", point], check=True)
        shutil.rmtree(top)


PRELUDE = r"""
import ctypes, fcntl, os, struct, sys
here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
def v1(fd, name): return bytearray(struct.pack("q4088s", fd, name))
def v2(fd, name): return bytearray(struct.pack("qQQ32x4040s", fd, 0, 0, name))
def ask(fd, request, arg): fcntl.ioctl(fd, request - (1 << 32) if request >> 31 else request, arg); return True
def reading(name): return os.open(name, os.O_RDONLY)
def attack():
%s
try: done = attack()
except OSError as e: print("refused:", e); sys.exit(3)
print("worked" if done else "nothing"); sys.exit(0 if done else 3)
"""
PROBES = {
    # name: (file systems, body)
    "a protected name as a subvolume": ("btrfs", 'ask(here, 0x5000940e, v1(0, b".fleet")); return os.path.isdir(".fleet")'),
    "the same, second form": ("btrfs", 'ask(here, 0x50009418, v2(0, b".fleet")); return os.path.isdir(".fleet")'),
    "a snapshot shows what is hidden": ("btrfs", 'ask(here, 0x50009401, v1(here, b"snap")); return "hidden-value" in open("snap/.env").read()'),
    "the same, by the second form": ("btrfs", 'ask(here, 0x50009417, v2(here, b"snap")); return "hidden-value" in open("snap/.env").read()'),
    "a protected subvolume is destroyed": ("btrfs", 'ask(here, 0x5000940f, v1(0, b".husky")); return not os.path.exists(".husky")'),
    "names of the tree": ("btrfs", 'a = bytearray(struct.pack("QQ", 0, 256) + bytes(4080)); return ask(here, 0xd0009412, a)'),
    "flags of a protected file": ("btrfs xfs", 'return ask(reading(".envrc"), 0x40086602, bytearray(struct.pack("l", 0x40)))'),  # no dump
    "attributes of a protected file": ("btrfs xfs", 'a = bytearray(28); ask(reading(".envrc"), 0x801c581f, a); a[0] |= 0x80; return ask(reading(".envrc"), 0x401c5820, a)'),
    "the layout of the file system": ("xfs", "return ask(here, 0x8100587e, bytearray(256))"),
}


def probe(name):
    return [PYTHON, "-c", PRELUDE % ("    " + PROBES[name][1])]


@pytest.mark.parametrize("mode", ["direct", "ro"])
@pytest.mark.parametrize("volume,name", [(kind, name) for name, (kinds, _) in PROBES.items() for kind in kinds.split()], indirect=["volume"])
def test_no_request_to_the_file_system_gets_past_the_guard(runner, volume, name, mode):
    """Claim: ioctls exist by list, so none makes, shows or changes what a call on a path could not (15, 34)."""
    shown = runner.run(*probe(name), cwd=volume / "copy")
    assert shown.rc == 0, f"the probe does not work even without the sandbox, so it proves nothing:{shown!r}"
    r = runner.bawn("run", "--workspace", mode, "--", *probe(name))
    assert r.rc == 3 and b"refused" in r.out, r
    assert not (runner.workspace / ".fleet").exists() and not (runner.workspace / "snap").exists()


def test_copies_by_reference_still_work(runner, volume):
    """What programs use: reflinks, and reading flags."""
    r = runner.bawn("run", "--workspace", "direct", "--", "sh", "-ec", "head -c 100000 /dev/urandom >a; cp --reflink=always a b; cmp a b; lsattr a")
    assert r.rc == 0, r


def test_what_is_hidden_and_protected_here(runner, volume):
    """The usual promises hold on these file systems."""
    r = runner.bawn("run", "--workspace", "direct", "--", "sh", "-c", "cat .env; echo x >.envrc; echo fine >made")
    assert b"hidden-value" not in r.out and (runner.workspace / ".envrc").read_text() == "export A=1\n", r
    assert (runner.workspace / "made").read_text() == "fine\n"
