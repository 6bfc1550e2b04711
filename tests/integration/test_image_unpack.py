# SPDX-License-Identifier: Apache-2.0
"""Layers that are made to go wrong: what the sandbox sees is what umoci unpacks."""

import hashlib
import io
import os
import pathlib
import stat
import subprocess
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
from imagekit import D, F, H, L, base, entry, tar  # noqa: E402

LONG = "n" * 255


def holes(form):
    """A sparse file as GNU tar writes it: python's tarfile cannot."""
    top = pathlib.Path(subprocess.run(["mktemp", "-d"], capture_output=True, check=True, text=True).stdout.strip())
    (top / "t").mkdir()
    with (top / "t/sparse").open("wb") as f:
        f.seek(1 << 20)
        f.write(b"middle")
        f.truncate(3 << 20)
    data = subprocess.run(["tar", "-C", top, "-S", *form, "-cf", "-", "t/sparse"], capture_output=True, check=True).stdout
    subprocess.run(["rm", "-r", top], check=True)
    return data


CASES = {
    "whiteouts": [tar([D("t/gone"), F("t/gone/x"), F("t/file"), D("t/kept"), F("t/kept/a"), F("t/kept/b")]),
                  tar([F("t/.wh.gone"), F("t/.wh.file"), F("t/kept/.wh.a"), F("t/.wh.never-was")])],
    "a folder that comes back": [tar([D("t/d"), F("t/d/old")]), tar([F("t/.wh.d")]), tar([D("t/d"), F("t/d/new")])],
    "whiteout and new folder in one layer": [tar([D("t/d"), F("t/d/old")]), tar([F("t/.wh.d"), D("t/d"), F("t/d/new")])],
    "new folder before its whiteout": [tar([D("t/d"), F("t/d/old")]), tar([D("t/d"), F("t/d/new"), F("t/.wh.d")])],
    "opaque": [tar([D("t/d"), F("t/d/old"), D("t/d/sub"), F("t/d/sub/x")]), tar([D("t/d", 0o711), F("t/d/.wh..wh..opq"), F("t/d/new")])],
    "opaque comes last": [tar([D("t/d"), F("t/d/old")]), tar([D("t/d"), F("t/d/new"), F("t/d/.wh..wh..opq")])],
    "opaque of a folder that is not named": [tar([D("t/d", 0o750), F("t/d/old")]), tar([F("t/d/.wh..wh..opq")])],
    "links on the way": [tar([D("t/usr"), D("t/usr/lib", 0o711), L("t/lib", "usr/lib"), L("t/abs", "/t/usr"), L("t/up", "../../../t/usr")]),
                         tar([F("t/lib/a", b"1"), F("t/abs/b", b"2"), F("t/up/c", b"3"), F("t/abs/lib/d", b"4")])],
    "links in one layer": [tar([L("t/a", "b"), L("t/b", "c"), D("t/c"), F("t/a/x", b"x"), L("t/dangling", "new/dir"), F("t/dangling/y", b"y")])],
    "a link of the root that changes": [tar([D("t/a"), D("t/b"), L("l", "t/a"), F("l/1", b"1"), L("l", "t/b"), F("l/2", b"2"), D("l"), F("l/3", b"3")])],
    "a link of the root below that changes": [tar([D("t/a"), D("t/b"), L("l", "t/a"), L("m", "t/a")]), tar([F("l/1", b"1"), L("l", "t/b"), F("l/2", b"2"), F("m/3", b"3"), D("m"), F("m/4", b"4")])],
    "a link becomes a folder": [tar([D("t/real"), L("t/d", "real"), F("t/real/old")]), tar([D("t/d"), F("t/d/new")])],
    "kinds that change": [tar([F("t/a", b"file"), D("t/b"), F("t/b/x"), L("t/c", "a"), D("t/e"), F("t/e/y")]),
                          tar([D("t/a"), F("t/a/in"), F("t/b", b"file"), F("t/c", b"file"), L("t/e", "a")])],
    "duplicates": [tar([F("t/a", b"first"), F("t/a", b"second", 0o600), D("t/d", 0o700), D("t/d", 0o755), F("t/x", b"1"), D("t/x"), F("t/x/y", b"2"), L("t/l", "a"), F("t/l", b"no link")])],
    "hard links": [tar([F("t/a", b"data", 0o640), H("t/b", "t/a"), H("t/c", "/t/b"), L("t/s", "a"), H("t/t", "t/s")]), tar([H("t/below", "t/a"), F("t/new", b"n"), H("t/new2", "./t/new")])],
    "names": [tar([F(f"t/{LONG}", b"long"), D("t/" + "/".join(["d" * 200] * 4)), F("t/" + "/".join(["d" * 200] * 4) + "/x", b"deep"), F("t/ü\n\t ", b"odd"), F("t/.wh", b"short")]),
              tar([L("t/link", "x" * 300)], tarfile.GNU_FORMAT), tar([F("t/" + "g" * 150, b"gnu")], tarfile.GNU_FORMAT), tar([F("t/" + "p" * 60 + "/" + "u" * 90, b"ustar")], tarfile.USTAR_FORMAT)],
    "dots": [tar([F("../../t/a", b"1"), F("t/x/../b", b"2"), F("/t/c", b"3"), F("./t/./d", b"4"), F("t//e", b"5"), D("t/../t/f/")])],
    "sparse pax": [holes(["--format=pax"])],
    "sparse pax 0.1": [holes(["--format=pax", "--sparse-version=0.1"])],
    "rights": [tar([F("t/suid", b"s", 0o4755), F("t/sgid", b"s", 0o2755), D("t/sticky", 0o1777), D("t/sgid-dir", 0o2755), F("t/none", b"0", 0), D("t/closed", 0), F("t/closed/in", b"i", 0o200)])],
    "devices": [tar([entry("t/null", tarfile.CHRTYPE, mode=0o666), entry("t/disk", tarfile.BLKTYPE, mode=0o660), entry("t/pipe", tarfile.FIFOTYPE, mode=0o644)])],
    "owners": [tar([F("t/a", b"x", uid=1234, gid=65534), D("t/d", uid=4_000_000), F("t/old", b"o", mtime=-5), F("t/frac", b"f", pax={"mtime": "1234567890.5"})])],
    "folders below that are not named": [tar([D("t/p", 0o711, mtime=5), D("t/p/q", 0o1777, mtime=6)]), tar([F("t/p/q/x", b"x")])],
    "zeros": [tar([F("t/zeros", bytes(300_000)), F("t/mixed", b"a" * 5000 + bytes(100_000) + b"b"), F("t/empty")])],
}


def describe(kind, mode, data, target):
    if kind == "dir":
        return kind, (mode & 0o1777) | 0o700
    if kind == "link":
        return kind, target
    return kind, (mode & 0o777) | 0o400, hashlib.sha256(data).hexdigest(), len(data)


def unpacked_by_umoci(layout, top, rootless):
    subprocess.run(["umoci", "unpack", *(["--rootless"] if rootless else []), "--image", f"{layout}:latest", top], check=True, capture_output=True)
    found, root = {}, os.fsencode(top / "rootfs")
    for folder, dirs, files in os.walk(root + b"/t"):
        for path in [folder] + [os.path.join(folder, n) for n in files + [d for d in dirs if os.path.islink(os.path.join(folder, d))]]:
            st = os.lstat(path)
            kind = "dir" if stat.S_ISDIR(st.st_mode) else "link" if stat.S_ISLNK(st.st_mode) else "fifo" if stat.S_ISFIFO(st.st_mode) else "file"
            data = open(path, "rb").read() if stat.S_ISREG(st.st_mode) else b""
            target = os.readlink(path) if kind == "link" else b""
            mtime = None if stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode) else int(st.st_mtime)
            found[path[len(root) + 1:]] = (*describe(kind, st.st_mode, data, target), mtime if kind != "dir" else None)
    return found


def seen_inside(runner, image):
    r = runner.bawn("run", "--network", "none", "--memory", "1g", "--image", image, "--", "tar", "-cf", "-", "-C", "/", "t")
    assert r.rc == 0, r
    found, datas = {}, {}
    with tarfile.open(fileobj=io.BytesIO(r.out), errors="surrogateescape") as t:
        for m in t:
            name = os.fsencode(m.name)
            datas[name] = t.extractfile(m).read() if m.isreg() else datas.get(os.fsencode(m.linkname), b"") if m.islnk() else b""
            if m.islnk() and found[os.fsencode(m.linkname)][0] != "file":
                found[name] = found[os.fsencode(m.linkname)]
                continue
            kind = "dir" if m.isdir() else "link" if m.issym() else "fifo" if m.isfifo() else "file"
            found[name] = (*describe(kind, m.mode, datas[name], os.fsencode(m.linkname)), None if kind == "dir" else int(m.mtime))
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_umoci(runner, case):
    layers = [base(), *CASES[case]]
    layout = imagekit.make_image(runner, "t/x", layers)
    expected, found = unpacked_by_umoci(layout, runner.top / "bundle", os.getuid() != 0), seen_inside(runner, "t/x")
    if case == "devices":  # umoci makes them; here they are empty files
        expected = {k: (v[0], v[1], v[2], v[3], None) if k != b"t/pipe" and v[0] == "file" else v for k, v in expected.items()}
        found = {k: (*v[:4], None) if k != b"t/pipe" and v[0] == "file" else v for k, v in found.items()}
    if case == "owners":  # before 1970: busybox's tar cannot say so
        expected.pop(b"t/old"), found.pop(b"t/old")
    assert found == expected


def test_rights_that_stay_out(runner):
    """No set-id bit, no device, no capability, no attribute that overlayfs obeys is in the store."""
    nasty = {"SCHILY.xattr.security.capability": "x", "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.user.overlay.redirect": "/etc",
             "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.fine": "yes"}
    imagekit.make_image(runner, "t/x", [base(), tar([*(F(f"t/{i}", b"x", 0o7777) for i in range(3)), entry("t/dev", tarfile.CHRTYPE), D("t/d", 0o7777, pax=nasty), F("t/f", pax=nasty)])])
    for path in imagekit.store(runner).glob("layers/*/tree/**/*"):
        st = path.lstat()
        assert not st.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISCHR(st.st_mode) and not stat.S_ISBLK(st.st_mode), path
        if not path.is_symlink():
            assert set(os.listxattr(path)) <= {"user.fine", "user.bawn.owner"}, path
    assert any("user.fine" in os.listxattr(p) for p in imagekit.store(runner).glob("layers/*/tree/t/f"))


def test_packed_in_every_way(runner):
    """gzip, gzip in several members, zstd, or not at all: by the bytes, not by what the manifest says."""
    layer = tar([F("t/a", bytes(range(256)) * 5000)])
    for how in ("gzip", "members", "zstd", ""):
        imagekit.make_image(runner, f"t/{how or 'plain'}", [base(), layer], how=how)
    assert len({row["id"] for row in runner.bawn("image", "ls", "--json").json()}) == 1
    assert len(list((imagekit.store(runner) / "layers").iterdir())) == 2  # the same layers, whatever they came in
    r = runner.bawn("run", "--network", "none", "--image", "t/members", "--", "cat", "/t/a")
    assert r.out == bytes(range(256)) * 5000


@pytest.mark.parametrize("frames", ["one", "several", "notes", "cut"])
def test_zstd_alone(runner, frames):
    """No layer is there already: of one frame, of several, with frames that are notes, and cut off anywhere."""
    layers = [base(), tar([F("t/a", b"a")]), tar([F("t/b", os.urandom(700_000) + bytes(9_000_000))]), tar([F("t/c", b"c" * 256 * 1024)])]
    note = b"\x50\x2a\x4d\x18\x03\0\0\0abc"

    def pack(layer):
        parts = [imagekit.packed(layer[i:i + (1 << 18)], "zstd") for i in range(0, len(layer), 1 << 18)] if frames == "several" else [imagekit.packed(layer, "zstd")]
        return b"".join([note, *parts, note]) if frames == "notes" else b"".join(parts)

    blobs = [pack(layer) for layer in layers]
    if frames == "cut":
        blobs = [*blobs[:3], blobs[3][:-3]]
    imagekit.write_layout(runner.top / "l", blobs, diff_ids=[imagekit.digest(x) for x in layers], how="zstd", packed_already=range(4))
    r = runner.bawn("image", "pull", imagekit.share(runner.top / "l"), "-t", "t/x")
    assert r.rc == (125 if frames == "cut" else 0) and (b"layer 4 of 4: a layer of the image is cut off" in r.err) == (frames == "cut"), r
    if frames != "cut":
        r = runner.bawn("run", "--network", "none", "--image", "t/x", "--", "sh", "-c", "cat /t/a; stat -c %s /t/b /t/c")
        assert r.out == b"a9700000\n262144\n", r


def test_sparse_of_gnu(runner):
    """umoci does not know it."""
    imagekit.make_image(runner, "t/x", [base(), holes(["--format=gnu"])])
    r = runner.bawn("run", "--network", "none", "--image", "t/x", "--", "cat", "/t/sparse")
    assert r.out == bytes(1 << 20) + b"middle" + bytes((2 << 20) - 6)


def test_many_entries(runner):
    """1000 files here, 10^5 with BAWN_ALL=1."""
    n = 100_000 if os.environ.get("BAWN_ALL") else 1000
    imagekit.make_image(runner, "t/x", [base(), tar([e for i in range(n // 10) for e in (D(f"t/{i}"), *(F(f"t/{i}/{k}", b"x") for k in range(9)))])])
    r = runner.bawn("run", "--network", "none", "--image", "t/x", "--", "sh", "-c", "find /t -type f | busybox wc -l")
    assert r.out.strip() == str(n // 10 * 9).encode(), r
