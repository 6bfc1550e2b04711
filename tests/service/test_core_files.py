# SPDX-License-Identifier: Apache-2.0
"""bawnd: files of a workspace, changes of a run. The file API cannot leave the workspace."""

import contextlib
import io
import json
import os
import tarfile

import core_driver
import pytest


def collect(c, op, token, **fields):
    """What a program behind flag 32 or 4 printed, and how it ended."""
    n = c.send(op, token, **fields)
    a = c.take(n)
    if not a.flags & (core_driver.JSON | core_driver.STREAM):
        return a.status, a.code, b""
    with os.fdopen(a.fds.pop(), "rb") as f:
        data = f.read()
    end = c.take(n)
    assert end.kind == core_driver.OUTCOME
    return end.status, end.body.split(b"\0")[1].decode() if end.body else None, data


def upload(c, op, token, data, **fields):
    n = c.send(op, token, **fields)
    a = c.take(n)
    if a.kind == core_driver.UPLOAD:
        with contextlib.suppress(BrokenPipeError), os.fdopen(a.fds.pop(), "wb") as f:
            f.write(data)
        a = c.take(n)
    return a


@pytest.fixture
def held(bawnd):
    """A run that waits for its files: c, token, its id, the workspace on the host."""
    c = bawnd()
    t = c.token()
    run = c.run(t, "sh", "-c", "cat a/b; echo changed > new; echo more >> a/b", hold=True).json()["id"]
    return c, t, run, c.top / "state/tenants/acme/runs" / run / "workspace"


def test_files_in_and_out(held):
    c, t, run, ws = held
    at = {"kind": "runs", "id": run}
    assert upload(c, "file_write", t, b"hello\n" * 50000, path="a/b", executable=True, **at).status == 204
    assert c.ask("file_read", t, path="a/b", **at).content() == b"hello\n" * 50000
    os.chmod(ws, 0o700)
    assert (ws / "a/b").stat().st_mode & 0o777 == 0o755
    done = c.ask("run_get", t, id=run, wait=60).json()
    assert done["state"] == "done" and done["stdout_bytes"] == 300000, done
    status, _, data = collect(c, "file_list", t, recursive=True, **at)
    items = json.loads(data)["items"]
    assert status == 0 and [(i["path"], i["type"]) for i in items] == [("a", "folder"), ("a/b", "file")]
    assert items[1]["size"] == 300000 and items[1]["mode"] == "0755"
    status, _, data = collect(c, "diff", t, **at)
    assert status == 0 and {x["path"] for x in json.loads(data)["changes"]} == {"new", "a/b"}
    status, _, data = collect(c, "review", t, **at)
    assert status == 0 and json.loads(data)["run"] == run
    status, _, data = collect(c, "apply", t, only=["new"], **at)
    assert status == 0, data
    assert c.ask("file_read", t, path="new", **at).content() == b"changed\n"
    assert c.ask("discard", t, **at).status == 204
    assert c.ask("file_delete", t, path="a", **at).status == 204
    assert c.ask("file_read", t, path="a/b", **at).code == "not_found"
    assert c.ask("file_delete", t, path="a", **at).code == "not_found"


def test_pages_of_files(held):
    c, t, run, ws = held
    at = {"kind": "runs", "id": run}
    assert upload(c, "file_write", t, b"", path="x", **at).status == 204
    names = sorted(f"{i}" for i in range(250))
    for n in names:
        (ws / n).touch()
    seen, page = [], None
    while True:
        _, _, data = collect(c, "file_list", t, limit=100, **({"page": page} if page else {}), **at)
        answer = json.loads(data)
        seen += [i["path"] for i in answer["items"]]
        page = answer["next"]
        if not page:
            break
    assert seen == [*names, "x"]


def test_archives(held):
    c, t, run, ws = held
    at = {"kind": "runs", "id": run}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in (("a/b", b"one"), ("c", b"two")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
    assert upload(c, "archive_write", t, packed.getvalue(), **at).status == 204
    assert (ws / "a/b").read_bytes() == b"one"
    status, _, data = collect(c, "archive_read", t, **at)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert status == 0 and "./a/b" in tar.getnames()
    assert upload(c, "archive_write", t, b"no archive", **at).status >= 400


def test_a_cancelled_upload_leaves_nothing(held):
    c, t, run, ws = held
    n = c.send("file_write", t, path="half", kind="runs", id=run)
    up = c.take(n)
    os.write(up.fds[0], b"half of it")
    c.raw(core_driver.CANCEL, n)
    assert c.ask("health").status == 200  # it was taken
    os.close(up.fds.pop())
    assert c.ask("run_get", t, id=run).json()["state"] == "queued"
    assert c.ask("file_read", t, path="half", kind="runs", id=run).code == "not_found"


def test_the_file_api_cannot_leave_the_workspace(held):
    """Links, .., absolute paths, /proc, and archives with each of these: nothing outside is read or changed."""
    c, t, run, ws = held
    at = {"kind": "runs", "id": run}
    assert upload(c, "file_write", t, b"x", path="x", **at).status == 204
    outside = ws.parent.parent.parent / "home/outside"
    os.chmod(outside.parent, 0o777)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    for path in (outside, outside / "secret"):
        os.chmod(path, 0o777)
    for name, target in (("dir", outside), ("file", outside / "secret"), ("proc", "/proc/self/root")):
        (ws / name).symlink_to(target)
    assert (ws / "dir/secret").read_text() == "secret"  # the links work for a program that follows them
    for path in ("dir/secret", "file", f"proc{outside}/secret"):
        assert c.ask("file_read", t, path=path, **at).status >= 400, path
        if path != "file":
            assert upload(c, "file_write", t, b"evil", path=path, **at).status >= 400, path
            assert c.ask("file_delete", t, path=path, **at).status >= 400, path
    assert collect(c, "file_list", t, path="dir", **at)[0] != 0
    for path in ("../x", "/etc/passwd", "a/../../x", ".."):
        for op in ("file_read", "file_write", "file_delete"):
            assert c.ask(op, t, path=path, **at).code == "bad_field", (op, path)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        link = tarfile.TarInfo("out")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        tar.addfile(link)
        for name in ("out/evil", "dir/evil", "../evil", str(outside / "evil")):
            info = tarfile.TarInfo(name)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
    upload(c, "archive_write", t, packed.getvalue(), **at)
    assert sorted(p.name for p in outside.iterdir()) == ["secret"]
    assert not (ws.parent / "evil").exists()
    assert (outside / "secret").read_text() == "secret"
    assert upload(c, "file_write", t, b"mine", path="file", **at).status == 204  # takes the link's place
    assert (outside / "secret").read_text() == "secret"


def test_files_are_their_tenants(held):
    c, t, run, ws = held
    other = c.token("other")
    at = {"kind": "runs", "id": run}
    for op, more in (("file_list", {}), ("file_read", {"path": "x"}), ("file_write", {"path": "x"}), ("file_delete", {"path": "x"}),
                     ("archive_read", {}), ("archive_write", {}), ("diff", {}), ("review", {}), ("apply", {}), ("discard", {})):
        assert c.ask(op, other, **at, **more).code == "not_found", op


def test_what_there_is(bawnd):
    c = bawnd()
    t = c.token()
    status, _, data = collect(c, "engines", t)
    assert status == 0 and isinstance(json.loads(data), dict)
    status, _, data = collect(c, "policy_get", t)
    assert status == 0 and "layers" in json.loads(data)
    status, _, data = collect(c, "question_list", t)
    assert status == 0 and json.loads(data) == {"items": []}
    for op in ("secrets", "images"):
        a = collect(c, op, t)
        assert a[0] in (0, 200), (op, a)
    run = c.run(t, "true", wait=60).json()["id"]
    status, _, data = collect(c, "audit", t, limit=2)
    items = json.loads(data)["items"]
    assert status == 0 and len(items) == 2 and items[0]["seq"] > items[1]["seq"], run


def test_rules_of_a_tenant(bawnd):
    c = bawnd()
    t, other = c.token(), c.token("other")
    a = c.ask("policy_add", t, action="allow", host="example.com:443", method="GET")
    assert a.status == 201, a
    rule = a.json()["id"]
    assert rule.encode() in collect(c, "policy_get", t)[2]
    assert rule.encode() not in collect(c, "policy_get", other)[2]
    assert c.ask("policy_remove", other, rule=rule).status >= 400
    assert c.ask("policy_remove", t, rule=rule).status == 204
    assert rule.encode() not in collect(c, "policy_get", t)[2]
    assert c.ask("question_answer", t, question="nosuch", answer="once").status >= 400
