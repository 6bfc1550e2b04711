# SPDX-License-Identifier: Apache-2.0
"""The store of images: sources, names, removal, bad input, and pulls that are killed."""

import fcntl
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
from imagekit import F, H, base, make_image, names, share, tar, write_layout  # noqa: E402

CLEAN = {"partial": 0, "pulls": 0}


def clean(runner):
    found, count = names(runner)
    return found, {k: v for k, v in count.items() if k in CLEAN}


def copy(layout, target):
    subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", f"oci:{layout}:latest", target], check=True, capture_output=True)


def test_no_store_is_an_empty_one(runner):
    r = runner.bawn("image", "ls")
    assert (r.rc, r.out) == (0, b"") and b"there are no images yet" in r.err, r
    assert runner.bawn("image", "ls", "--json").out == b"[]\n"
    assert runner.bawn("image", "prune").rc == 0
    r = runner.bawn("image", "inspect", "none/such")
    assert r.rc != 0 and b"there is no image 'none/such' in the store" in r.err, r
    assert not (runner.home / ".local/state/bawn/images").exists()


def test_every_source_is_the_same_image(runner):
    """A layout, an archive of the layout, one of docker; what an engine saves."""
    layout = make_image(runner, "t/a", [base(), tar([F("t/x", b"1")])], {"User": "app", "Cmd": ["/bin/id"]})
    copy(layout, f"oci-archive:{runner.top}/o.tar:q/oci:2")
    copy(layout, f"docker-archive:{runner.top}/d.tar:q/docker:3")
    for name in ("o.tar", "d.tar"):
        runner.own(runner.top / name)
        r = runner.bawn("image", "pull", runner.top / name)
        assert r.rc == 0, r
    engine = runner.mkdir(runner.top / "bin")
    for name in ("docker", "podman"):  # the command line that they have; the real ones are in tests/conformance
        runner.write(engine / name, f'#!/bin/sh\ntest "$*" = "save q/engine" && exec cat {runner.top}/d.tar\necho "no such image: $2" >&2\nexit 1\n', 0o755)
        r = runner.bawn("image", "pull", f"{name}:q/engine", env={"PATH": f"{engine}:/usr/bin:/bin"})
        assert r.rc == 0 and r.out == b"docker.io/q/engine:latest\n", r
        r = runner.bawn("image", "pull", f"{name}:q/missing", env={"PATH": f"{engine}:/usr/bin:/bin"})
        assert r.rc == 125 and b"no such image: q/missing" in r.err, r
    found, count = names(runner)
    assert found == {"docker.io/t/a:latest", "docker.io/q/oci:2", "docker.io/q/docker:3", "docker.io/q/engine:latest"}
    assert count == {"layers": 2, "configs": 1, "refs": 4, "partial": 0, "pulls": 0}
    i = runner.bawn("image", "inspect", "q/oci:2", "--json").json()
    assert (i["user"], i["uid"], i["gid"], i["cmd"], len(i["layers"])) == ("app", 7, 8, ["/bin/id"], 2)
    assert runner.bawn("image", "inspect", i["id"][7:19]).json()["id"] == i["id"]


def test_names_and_removal(runner):
    """The last name takes the image with it, and layers stay as long as one image has them."""
    make_image(runner, "t/one", [base(), tar([F("t/x", b"1")])])
    make_image(runner, "t/two", [base(), tar([F("t/x", b"2")])])
    assert names(runner)[1]["layers"] == 3
    assert runner.bawn("image", "rm", "t/one").rc == 0
    assert names(runner) == ({"docker.io/t/two:latest"}, {"layers": 2, "configs": 1, "refs": 1, "partial": 0, "pulls": 0})
    make_image(runner, "t/two", [base(), tar([F("t/x", b"3")])])  # the name means another image now
    assert names(runner) == ({"docker.io/t/two:latest", None}, {"layers": 3, "configs": 2, "refs": 1, "partial": 0, "pulls": 0})
    assert runner.bawn("image", "prune", "--json").json() == {"images": 1, "layers": 1, "downloads": 0}
    r = runner.bawn("image", "rm", "t/one")
    assert r.rc == 125 and b"there is no image 'docker.io/t/one:latest'" in r.err, r
    assert runner.bawn("image", "prune", "-a").rc == 0
    assert names(runner) == (set(), {"layers": 0, "configs": 0, "refs": 0, "partial": 0, "pulls": 0})
    for words in (("image", "rm"), ("image", "pull"), ("image", "inspect"), ("image", "pull", "Bad Name"), ("image", "pull", "/etc/passwd/")):
        assert runner.bawn(*words).rc in (64, 125)


def damages():
    def cut(blobs, parts):
        blobs[parts[1]] = blobs[parts[1]][:-100]

    def flip(blobs, parts):
        data = bytearray(blobs[parts[1]])
        data[len(data) // 2] ^= 1
        blobs[parts[1]] = bytes(data)

    def swap(blobs, parts):
        blobs[parts[1]] = blobs[parts[0]]

    def gone(blobs, parts):
        del blobs[parts[1]]

    return {"cut": (cut, b"digest"), "flip": (flip, b"digest"), "swap": (swap, b"digest"), "gone": (gone, b"is missing")}


@pytest.mark.parametrize("how", damages())
def test_damaged_images(runner, how):
    """Refused with a reason, the store as it was, and the next try works."""
    layers, (damage, says) = [base(), tar([F("t/x", os.urandom(5000))])], damages()[how]
    write_layout(runner.top / "l", layers, damage=damage)
    r = runner.bawn("image", "pull", share(runner.top / "l"), "-t", "t/x")
    assert r.rc == 125 and says in r.err, r
    assert names(runner) == (set(), {"layers": 0, "configs": 0, "refs": 0, "partial": 0, "pulls": 0})
    make_image(runner, "t/x", layers)


def test_layers_that_lie(runner):
    """A right blob with a wrong diff_id; archives that end too soon; a type that is none."""
    good = tar([F("t/x", b"x" * 3000)])
    cases = {"diff": b"wrong digest", "end": b"it ends in the middle", "type": b"unknown type", "sum": b"check sum"}
    for case, says in cases.items():
        layer = {"diff": good, "end": good[:1500], "type": good, "sum": good[:148] + b"0000000" + good[155:]}[case]
        if case == "type":
            head = bytearray(good)
            head[156] = ord("Q")
            head[148:156] = b" " * 8
            head[148:156] = b"%06o\0 " % sum(head[:512])
            layer = bytes(head)
        write_layout(runner.top / "l", [base(), layer], diff_ids=[imagekit.digest(base()), imagekit.digest(b"other")] if case == "diff" else None)
        r = runner.bawn("image", "pull", share(runner.top / "l"), "-t", "t/x")
        assert r.rc == 125 and says in r.err, (case, r)
        assert clean(runner) == (set(), CLEAN) and names(runner)[1]["layers"] == 0


def test_bombs(runner):
    """A small layer that unpacks to gigabytes, and an image of too many layers: refused, and nothing is left."""
    big = bytearray(tar([F("t/x")])[:512])
    big[124:136] = b"%011o\0" % (3 << 30)
    big[148:156] = b" " * 8
    big[148:156] = b"%06o\0 " % sum(big)
    (runner.top / "head").write_bytes(big)
    bomb = subprocess.run("(cat head; head -c 3G /dev/zero) | zstd -q -1", shell=True, capture_output=True, cwd=runner.top, check=True).stdout
    write_layout(runner.top / "l", [base(), bomb], how="gzip", packed_already={1})
    r = runner.bawn("image", "pull", share(runner.top / "l"), "-t", "t/bomb")
    assert len(bomb) < 20 << 20 and r.rc == 125 and b"made to fill the disk" in r.err, r
    assert names(runner) == (set(), {"layers": 0, "configs": 0, "refs": 0, "partial": 0, "pulls": 0})
    write_layout(runner.top / "l", [base()] + [tar([F("t/x", str(i).encode())]) for i in range(128)], how="")
    r = runner.bawn("image", "pull", share(runner.top / "l"), "-t", "t/bomb")
    assert r.rc == 125 and b"more than 127" in r.err, r


def test_hard_links_to_holes_below(runner):
    """Claim: a small archive does not fill the disk. A file of a layer below that gets a second name is copied, and its holes stay holes."""
    sizes = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "t/hole", "GNU.sparse.realsize": str(3 << 30)}
    hole = F("t/hole", b"1\n0\n1\n".ljust(512, b"\0") + b"x", pax=sizes)
    make_image(runner, "t/hole", [base(), tar([hole]), *(tar([H(f"t/again{i}", "t/hole")]) for i in range(3))])
    used = int(subprocess.run(["du", "-sk", imagekit.store(runner)], capture_output=True, check=True).stdout.split()[0])
    assert used < 64 << 10, used
    r = runner.bawn("run", "--network", "none", "--image", "t/hole", "--", "sh", "-c", "cd /t; stat -c %s again2; head -c 1 again2")
    assert r.out == b"%d\nx" % (3 << 30), r


def test_hard_links_to_data_below(runner):
    """The same with data: what a layer has copied counts as what it unpacks to."""
    data = b"x" * (150 << 20)
    layers = [base(), tar([F(f"t/{i}", data) for i in range(8)]), tar([H(f"t/again{i}", f"t/{i}") for i in range(8)])]
    write_layout(runner.top / "l", layers)
    r = runner.bawn("image", "pull", share(runner.top / "l"), "-t", "t/data")
    assert r.rc == 125 and b"layer 3 of 3" in r.err and b"made to fill the disk" in r.err, r
    assert clean(runner) == (set(), CLEAN)


def test_a_start_does_not_mind_who_looks(runner):
    """`image ls` has an image's lock for a moment, to see whether it is used: it is not being removed then."""
    make_image(runner, "t/x")
    (config,) = (imagekit.store(runner) / "configs").iterdir()
    with config.open() as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        p = runner.popen(runner.path, "run", "--network", "none", "--image", "t/x", "--", "true", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while p.poll() is None and not any(line.split()[1] == "->" and int(line.split()[5]) == p.pid for line in pathlib.Path("/proc/locks").read_text().splitlines()):
            time.sleep(0.01)
    err = p.communicate()[1]
    assert p.returncode == 0, err


def test_no_space(root_runner):
    """A full disk while pulling: a clear error, nothing left, and the next try works."""
    place = root_runner.mkdir(root_runner.top / "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], check=True)
    try:
        layout = root_runner.top / "l"
        write_layout(layout, [base(), tar([F("t/x", os.urandom(8 << 20))])], how="")
        r = root_runner.bawn("image", "pull", layout, "-t", "t/x", env={"XDG_STATE_HOME": str(place)})
        assert r.rc == 125 and b"No space left on device" in r.err, r
        assert not [p for p in (place / "bawn/images").rglob("*") if not p.is_dir()]
        write_layout(layout, [base()], how="")
        r = root_runner.bawn("image", "pull", layout, "-t", "t/x", env={"XDG_STATE_HOME": str(place)})
        assert r.rc == 0, r
    finally:
        subprocess.run(["umount", place], check=True)


def test_kill_9_at_any_moment(runner):
    """Two processes, killed after a random time: the store is never half, and the next pull works. 200 times with BAWN_ALL=1."""
    layers = [base()] + [tar([F(f"t/{i}/{k}", os.urandom(200)) for k in range(150)]) for i in range(3)]
    layout = runner.top / "l"
    write_layout(layout, layers)
    share(layout)
    rng, began = random.Random(5), time.monotonic()
    assert runner.bawn("image", "pull", layout, "-t", "t/whole").rc == 0
    took = time.monotonic() - began
    assert runner.bawn("image", "rm", "t/whole").rc == 0
    for i in range(200 if os.environ.get("BAWN_ALL") else 15):
        proc = runner.popen(runner.path, "image", "pull", layout, "-t", "t/x", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * took * 1.2)
        victims = [proc.pid]
        if i % 3 == 0:  # the helper instead
            victims = [int(c) for c in pathlib.Path(f"/proc/{proc.pid}/task/{proc.pid}/children").read_text().split()] if proc.poll() is None else []
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        proc.wait()
        found, count = names(runner)
        found.discard(None)  # whole, but it was not named yet: prune removes it
        assert found <= {"docker.io/t/x:latest"} and count["refs"] == len(found), (found, count)
        if found:
            r = runner.bawn("run", "--network", "none", "--image", "t/x", "--", "sh", "-c", "find /t -type f | busybox wc -l")
            assert r.out.strip() == b"450", r
            assert runner.bawn("image", "rm", "t/x").rc == 0
    assert runner.bawn("image", "pull", layout, "-t", "t/x").rc == 0
    assert runner.bawn("image", "prune").rc == 0
    found, count = names(runner)
    assert (found, count) == ({"docker.io/t/x:latest"}, {"layers": 4, "configs": 1, "refs": 1, "partial": 0, "pulls": 0})


def test_prune_removes_what_has_no_name_yet(runner):
    """A kill -9 between writing a file of the store and giving it its name leaves it under a hidden one."""
    layout = runner.top / "l"
    write_layout(layout, [base()])
    share(layout)
    assert runner.bawn("image", "pull", layout, "-t", "t/x").rc == 0
    store = imagekit.store(runner)
    left = [runner.write(store / d / ".0123.json.0123456789abcdef", "{", 0o600) for d in ("refs", "configs")]
    assert runner.bawn("image", "ls").rc == 0 and all(p.exists() for p in left)
    assert runner.bawn("image", "prune").rc == 0
    assert not any(p.exists() for p in left)
    assert names(runner)[0] == {"docker.io/t/x:latest"}


def test_pulls_at_once(runner):
    """Eight of the same image, while another hand removes it again and again: each one that says so got it."""
    layout = runner.top / "l"
    write_layout(layout, [base(), tar([F(f"t/{i}", b"x") for i in range(200)])])
    share(layout)
    procs = [runner.popen(runner.path, "image", "pull", layout, "-t", f"t/x{i % 4}", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for i in range(8)]
    for _ in range(5):
        runner.bawn("image", "prune", "-a")
    for proc in procs:
        err = proc.communicate()[1]
        assert proc.returncode == 0, err
    make_image(runner, "t/last", [base(), tar([F(f"t/{i}", b"x") for i in range(200)])])
    r = runner.bawn("run", "--network", "none", "--image", "t/last", "--", "sh", "-c", "ls /t | busybox wc -l")
    assert r.out.strip() == b"200", r
    runner.bawn("image", "prune")
    assert clean(runner)[1] == CLEAN
