# SPDX-License-Identifier: Apache-2.0
"""The Python package without a service: the same classes over `bawn --json`, as the user who runs them."""

SCRIPT = r"""
import asyncio, json, os, pathlib, sys
import bawn, bawn.aio

workspace = pathlib.Path(sys.argv[1])
(workspace / "a.txt").write_text("host\n")


def raises(kind, go):
    try:
        go()
    except kind as e:
        return e
    raise AssertionError(f"no {kind}")


bawn.sandbox.SYSTEM_SOCKET = sys.argv[1] + "/none"
client = bawn.Client()  # no service is configured
assert client.local
with client.create_sandbox(workspace=workspace, env={"GREETING": "hi"}) as box:
    assert box.state == "running"
    r = box.run("cat a.txt; echo $GREETING; echo bad >&2; exit 3")
    assert (r.status, r.stdout, r.stderr) == (3, "host\nhi\n", "bad\n"), r
    assert box.run("printf '{\"status\":1}' >&2").stderr == '{"status":1}'
    assert box.run("printf '{\"stat' >&2").stderr == '{"stat'
    assert box.run(["cat"], stdin=bytes(range(256)) * 5000).stdout_bytes == bytes(range(256)) * 5000
    assert box.run("sleep 600", timeout=0.2).status == 124
    assert box.run("kill -9 $$").signal == 9
    got = []
    for stream, data in box.exec("echo first; while ! test -e /tmp/go; do sleep 0.02; done; echo second >&2"):
        got.append((stream, data))
        if len(got) == 1:
            box.run("touch /tmp/go")
    assert got == [("stdout", b"first\n"), ("stderr", b"second\n")], got
    with box.exec("echo $$; sleep 1000 & sleep 1000") as process:
        next(iter(process))
    box.run("while pgrep -x sleep; do sleep 0.05; done")
    box.put_bytes("sub/b.txt", b"put\n")
    box.put_file(__file__, "sub/script")
    assert box.read_text("sub/b.txt") == "put\n" and box.read_file("sub/script") == pathlib.Path(__file__).read_bytes()
    assert [f["path"] for f in box.list("sub")] == ["sub/b.txt", "sub/script"]
    assert not (workspace / "sub").exists()
    raises(bawn.NotFound, lambda: box.read_file("nosuch"))
    for path in ("../x", "/etc/passwd"):
        raises(bawn.BadField, lambda: box.put_bytes(path, b""))
        raises(bawn.BadField, lambda: box.read_file(path))
    box.checkpoint("one")
    assert [c["tag"] for c in box.checkpoints()] == ["one"]
    with box.fork(checkpoint="one") as fork:
        assert fork.read_text("sub/b.txt") == "put\n"
    box.delete_file("sub/script")
    box.run("mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
    assert "+put" in box.diff() and box.review()["summary"]["high"] == 1
    assert "pre-commit" in str(raises(bawn.ReviewRequired, box.apply))
    assert box.apply(only=["sub/b.txt"])["done"] and (workspace / "sub/b.txt").read_text() == "put\n"
    box.discard()
    assert box.diff() == "" and box.state == "running"
    assert {"start", "exec", "exit"} <= {e.type for e in box.events(follow=False)}
raises(bawn.NotFound, lambda: client.sandbox(box.id))

run = client.run("echo out; echo '{\"a\": 1}'; echo new > n.txt; echo bad >&2; exit 4", parse="jsonl", workspace=workspace)
result = run.result()
assert (result.status, result.stdout, result.stderr, result.events, result.changes) == (4, 'out\n{"a": 1}\n', "bad\n", [{"a": 1}], 1), result
assert [e.type for e in run.events()][:2] == ["state", "stdout"] and [e.type for e in run.events()][-1] == "exit"
assert run.read_file("n.txt") == b"new\n" and "+new" in run.diff()
assert run.apply()["done"] and (workspace / "n.txt").read_text() == "new\n"
run.delete()
with client.start_run("cat f g/h; cat", files={"f": "1", "g/h": b"2"}, stdin=True) as fed:
    fed.write_stdin(b"3\n", close=True)
    assert fed.result().stdout == "123\n"
raises(bawn.TimedOut, lambda: client.run("sleep 1000", timeout=0.3))
failed = client.run("true", profile="nosuch")
assert failed.state == "failed" and "nosuch" in failed.info["reason"], failed.info
reviewed = bawn.Client(local=True, require_review=True)
run = reviewed.run("echo x > y", workspace=workspace)
raises(bawn.ReviewRequired, run.apply)
run.review()
assert run.apply()["done"]


async def go():
    async with bawn.aio.Client(local=True) as c, await c.create_sandbox() as box:
        results = await asyncio.gather(*[box.run(f"echo {i}") for i in range(4)])
        assert [r.stdout for r in results] == ["0\n", "1\n", "2\n", "3\n"]
        task = asyncio.ensure_future(box.run("touch started; sleep 1000"))
        await box.run("while ! test -e started; do sleep 0.02; done")
        task.cancel()
        try:
            await task
            raise AssertionError("not cancelled")
        except asyncio.CancelledError:
            pass
        await box.run("while pgrep -x sleep; do sleep 0.05; done")


asyncio.run(go())
client.close()
reviewed.close()
assert not [p for p in pathlib.Path(os.environ["TMPDIR"]).glob("bawn-sdk*.*") if p.stat().st_uid == os.getuid() and p.name.startswith(("bawn-sdk.", "bawn-sdk-run."))]
print("all of it")
"""


def test_everything_without_a_service(python, runner):
    own = runner.mkdir(runner.top / "tmp", 0o700)
    assert python(SCRIPT, runner.workspace, env={"TMPDIR": str(own)}) == "all of it\n"


def test_no_program_and_no_service(python, runner):
    text = "import bawn\nbawn.sandbox.SYSTEM_SOCKET = '/none'\ntry:\n    bawn.Client()\nexcept bawn.Unreachable as e:\n    print(e)\n"
    assert "not in PATH" in python(text, env={"BAWN": None, "PATH": "/nonexistent"})
