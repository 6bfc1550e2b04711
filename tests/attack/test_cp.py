# SPDX-License-Identifier: Apache-2.0
"""Claim: `bawn cp`, `put` and `get` reach nothing but the sandbox's files on its side and the given target on ours, whatever the inside does
to its files meanwhile. The same attacks work on a plain cp of the same tree."""

import contextlib
import os
import subprocess

import pytest

PYTHON = "/usr/bin/python3"

# Exchanges two names for ever: at any moment one is a folder, the other a link to a folder of the host's.
SWAP = """
import ctypes, os, sys
a, b = (os.fsencode(x) for x in sys.argv[1:3])
libc = ctypes.CDLL(None)
print("swapping", flush=True)
while True:
    if libc.renameat2(-100, a, -100, b, 2) != 0:
        os.rename(a, a + b"~"); os.rename(b, a); os.rename(a + b"~", b)
"""


@pytest.fixture
def box(runner):
    r = runner.bawn("start", "box", "-w", "overlay")
    assert r.rc == 0, r
    try:
        yield Box(runner)
    finally:
        runner.bawn("stop", "--force", "box")


class Box:
    def __init__(self, runner):
        self.runner = runner
        self.upper = runner.home / ".local/state/bawn/runs/box/upper"
        self.secret = runner.mkdir(runner.top / "outside")
        runner.write(self.secret / "f", "HOST SECRET", 0o600)
        self.out = runner.mkdir(runner.top / "out")

    def sh(self, script):
        r = self.runner.bawn("exec", "box", "--", "sh", "-c", script)
        assert r.rc == 0, r
        return r.out

    @contextlib.contextmanager
    def busy(self, *cmd):
        """A command that runs inside until the block ends; it has begun, because it has said something."""
        p = self.runner.popen(self.runner.path, "exec", "box", "--", *cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            assert p.stdout.readline(), "it did not start"
            yield
        finally:
            p.terminate()
            p.wait()
            p.stdout.close()


def contents(folder):
    found = b""
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    found += f.read()
    return found


def test_links_lead_nowhere(box):
    """Links to the host, in every form; the tree of the attack lies in upper/, where a cp of root's would follow them."""
    up = "../" * 12
    box.sh(f"mkdir -p t/a/d && echo inner > t/real && ln -s {box.secret}/f t/absolute && ln -s {up}{str(box.secret)[1:]}/f t/a/upwards && "
           f"ln -s {box.secret} t/folder && ln -s .. t/a/d/up && ln -s a/d/up/../../../outside/f t/chain && ln -s /etc/passwd t/passwd")
    naive = box.runner.run("cp", "-rL", box.upper / "t/absolute", box.upper / "t/folder", box.runner.mkdir(box.runner.top / "naive"))
    assert b"HOST SECRET" in contents(box.runner.top / "naive"), f"a plain cp does not follow, so this proves nothing: {naive!r}"
    r = box.runner.bawn("cp", "box:t", box.out)
    assert r.rc == 1 and r.err.count(b"leads out") == 5, r
    assert b"HOST SECRET" not in contents(box.out) and b"root:" not in contents(box.out)
    assert sorted(p.name for p in (box.out / "t").iterdir()) == ["a", "real"] and os.readlink(box.out / "t/a/d/up") == ".."
    for path in ("t/absolute", "t/folder/f", "t/passwd", "t/a/upwards", "t/chain", "../../../etc/shadow", f"{box.secret}/f", "/proc/1/environ", "/proc/self/root/etc/passwd"):
        for args in (("get", "box", path), ("cp", f"box:{path}", str(box.out / "x")), ("collect", "box", "--file", path)):
            r = box.runner.bawn(*args)
            assert r.rc == 125 and r.out == b"", r
    assert not (box.out / "x").exists()


def test_swapped_while_it_is_copied_out(box):
    box.sh(f"mkdir -p t/d && for i in $(seq 60); do echo inner > t/d/n$i; done; echo inner > t/d/f; ln -s {box.secret} t/l")
    with box.busy(PYTHON, "-c", SWAP, "t/d", "t/l"):
        for i in range(6):
            r = box.runner.bawn("cp", "box:t", box.out / str(i))
            assert r.rc in (0, 1), r
            r = box.runner.bawn("get", "box", "t/d/f")
            assert r.rc in (0, 125) and r.out in (b"", b"inner\n"), r
    found = contents(box.out)
    assert b"HOST SECRET" not in found and b"inner" in found


def test_swapped_while_it_is_copied_in(box):
    """The victim is a folder of the user's own, which he may write to: only the path keeps it safe."""
    victim = box.runner.mkdir(box.runner.top / "victim")
    src = box.runner.mkdir(box.runner.top / "src")
    box.runner.mkdir(src / "d")
    for i in range(50):
        box.runner.write(src / f"d/n{i}", "data")
    box.sh(f"mkdir -p t/d && ln -s {victim} t/l && mkdir s && ln -s {victim} s/d")
    assert box.runner.run("cp", "-r", f"{src}/d/.", f"{box.upper}/s/d").rc == 0
    assert os.listdir(victim), "a plain cp does not follow, so this proves nothing"
    for name in os.listdir(victim):
        os.unlink(victim / name)
    r = box.runner.bawn("cp", f"{src}/.", "box:s")
    assert r.rc == 1 and b"d: " in r.err and os.listdir(victim) == [], r
    assert box.runner.bawn("put", "box", "s/d/f", input=b"data").rc == 125
    with box.busy(PYTHON, "-c", SWAP, "t/d", "t/l"):
        for _ in range(6):
            r = box.runner.bawn("cp", f"{src}/.", "box:t")
            assert r.rc in (0, 1), r
            r = box.runner.bawn("put", "box", "t/d/f", input=b"data")
            assert r.rc in (0, 125), r
    assert os.listdir(victim) == []
    # a link, and a hard link, in place of the file itself: replaced, not written through
    box.sh(f"rm -rf t s; mkdir t; ln -s {box.secret}/f t/f; echo other > one; ln one t/two")
    box.runner.write(src / "f", "from the host")
    box.runner.write(src / "two", "from the host")
    r = box.runner.bawn("cp", src / "f", "box:t/f")
    assert r.rc == 125 and b"link" in r.err, r
    assert box.runner.bawn("cp", src / "two", "box:t/two").rc == 0
    assert box.runner.bawn("cp", src / "f", "box:t").rc == 0
    assert (box.secret / "f").read_text() == "HOST SECRET"
    assert box.sh("cat t/f t/two one; test ! -L t/f") == b"from the hostfrom the hostother\n"


def test_the_targets_on_the_host_are_not_written_through(box):
    """What an earlier copy, or anybody, put at the target: links there are replaced."""
    box.sh("mkdir -p t/d && echo hostile > t/f && echo hostile > t/d/x")
    os.makedirs(box.out / "t")
    box.runner.own(box.out / "t")
    (box.out / "t/f").symlink_to(box.secret / "f")
    (box.out / "t/d").symlink_to(box.secret)
    r = box.runner.bawn("cp", "box:t", box.out)
    assert r.rc == 1 and b"d: " in r.err, r
    assert (box.secret / "f").read_text() == "HOST SECRET" and os.listdir(box.secret) == ["f"]
    assert not (box.out / "t/f").is_symlink() and (box.out / "t/f").read_text() == "hostile\n"


def test_what_never_ends_ends(box):
    """FIFOs, a file that grows for ever, huge holes, depth, and names that speak to the terminal."""
    box.sh("mkdir t && mkfifo t/fifo && truncate -s 1G t/huge && echo x > \"$(printf 't/\\033]52;c;aGk=\\007\\nx')\" && echo x > t/-rf && echo x > t/...")
    grow = "import os\nf = os.open('t/grow', os.O_WRONLY | os.O_CREAT)\nprint('grows', flush=True)\nn = 0\nwhile True: n = (n + os.pwrite(f, b'x' * 65536, n % (1 << 22))) % (1 << 28); os.ftruncate(f, n)\n"
    with box.busy(PYTHON, "-c", grow):
        r = box.runner.bawn("cp", "box:t", box.out)
    assert r.rc == 1 and b"fifo: " in r.err and b"\033" not in r.err and b"\007" not in r.err, r
    st = (box.out / "t/huge").stat()
    assert st.st_size == 1 << 30 and st.st_blocks < 2048 and (box.out / "t/-rf").exists() and (box.out / "t/...").exists()
    assert box.runner.bawn("get", "box", "t/fifo").rc == 125
    box.sh("rm -rf t; d=deep; for i in $(seq 300); do mkdir -p $d && cd $d; done; echo x > bottom")
    r = box.runner.bawn("cp", "box:deep", box.out)
    assert r.rc == 125 and b"deeper than 256" in r.err, r
