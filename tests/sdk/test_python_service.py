# SPDX-License-Identifier: Apache-2.0
"""The Python package with a service: streams, files, changes, errors, restarts."""

import asyncio
import hashlib
import http.server
import json
import os
import signal
import socket
import threading

import pytest


@pytest.fixture
def box(client):
    with client.create_sandbox(labels={"a": "b"}, env={"GREETING": "hi"}) as b:
        yield b


def test_a_sandbox_from_its_making_to_its_end(client, bawn_module):
    with client.create_sandbox(labels={"a": "b"}, env={"GREETING": "hi"}) as box:
        assert (box.state, box.info["labels"]) == ("running", {"a": "b"})
        r = box.run("echo $GREETING $X; echo bad >&2; exit 3", env={"X": "y"})
        assert (r.status, r.stdout, r.stderr, r.ok) == (3, "hi y\n", "bad\n", False)
        assert box.run(["printf", "%s", "a b"]).stdout == "a b"
        assert box.run("pwd", cwd="/tmp").stdout == "/tmp\n"
        assert box.run(["cat"], stdin="ä€\n" * 1000).stdout == "ä€\n" * 1000
        assert box.run("sleep 600", timeout=0.2).status == 124
        assert box.run("kill -9 $$").signal == 9
        with pytest.raises(bawn_module.CommandFailed, match="status 7: oh") as e:
            box.run("echo oh >&2; exit 7", check=True)
        assert e.value.result.status == 7
        assert [b.id for b in client.sandboxes()] == [box.id]
        box.stop()
        with pytest.raises(bawn_module.NotRunning):
            box.run("true")
        box.start()
        assert client.sandbox(box.id).run("echo again").stdout == "again\n"
    with pytest.raises(bawn_module.NotFound):
        client.sandbox(box.id)


def test_output_arrives_while_the_command_runs(box):
    """The command goes on only when its first line was read here."""
    with box.exec("echo first; while ! test -e go; do sleep 0.02; done; echo second >&2; exit 5") as process:
        got = []
        for stream, data in process:
            got.append((stream, data))
            if len(got) == 1:
                assert process.status is None
                box.run("touch go")
        assert got == [("stdout", b"first\n"), ("stderr", b"second\n")]
        assert process.status == 5


def test_closing_ends_the_command(box):
    with box.exec("echo $$; sleep 1000 & sleep 1000") as process:
        next(iter(process))
    box.run("while pgrep -x sleep; do sleep 0.05; done")


def test_characters_and_bytes_in_pieces(box):
    """A character whose bytes come apart is one; bytes that are none arrive as they are."""
    parts = r"printf '\xe2\x82'; sleep 0.05; printf '\xac\xf0\x9f'; sleep 0.05; printf '\x98\x80\n'"
    with box.exec(["bash", "-c", parts]) as process:
        pieces = [text for _, text in process.text()]
    assert "".join(pieces) == "€😀\n" and not any("\ufffd" in p for p in pieces)
    assert box.run(["bash", "-c", r"printf '\xff\xfe\x00a'"]).stdout_bytes == b"\xff\xfe\0a"
    assert list(box.exec("printf 'one\ntwo\nthree'").lines()) == ["one", "two", "three"]


def test_large_output_in_bounded_memory(wheel, service, runner):
    """48 MiB through a process that may have 24 MiB more than it starts with."""
    script = """
import resource, sys, bawn
with bawn.Client(sys.argv[1]) as c, c.create_sandbox() as box:
    box.run("true")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    n = sum(len(data) for _, data in box.exec("yes | head -c 50331648"))
    r = box.run("yes | head -c 20000000", output_max=1000)
    assert (n, len(r.stdout_bytes), r.stdout_cut) == (50331648, 1000, 19999000), (n, r.stdout_cut)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 24 * 1024, grown
"""
    done = runner.run(wheel, "-c", script, service.url)
    assert done.rc == 0, done.err


def test_files(box, tmp_path, bawn_module):
    source = tmp_path / "tool.sh"
    source.write_text("#!/bin/sh\necho tool\n")
    source.chmod(0o755)
    box.put_file(source)
    box.put_bytes("a/b/c.bin", bytes(range(256)) * 1000)
    box.put_bytes("large", bytes(range(256)) * 8000)
    assert box.run("sha256sum large; rm large").stdout.split()[0] == hashlib.sha256(bytes(range(256)) * 8000).hexdigest()
    box.put_bytes("empty", b"")
    assert box.read_file("empty") == b""
    box.delete_file("empty")
    assert box.run("./tool.sh").stdout == "tool\n"
    assert box.read_file("a/b/c.bin") == bytes(range(256)) * 1000
    box.run("echo inside > a/new.txt; ln -s new.txt a/link")
    assert box.read_text("a/new.txt") == "inside\n"
    rows = {f["path"]: f for f in box.list("a", recursive=True)}
    assert {p: f["type"] for p, f in rows.items()} == {"a/b": "folder", "a/b/c.bin": "file", "a/new.txt": "file", "a/link": "link"}
    assert rows["a/b/c.bin"]["size"] == 256000 and rows["a/link"]["target"] == "new.txt"
    assert [f["path"] for f in box.list()] == ["a", "tool.sh"]
    box.get_file("a/b/c.bin", tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == 256000
    with pytest.raises(bawn_module.NotFound):
        box.read_file("nosuch")
    for path in ("../x", "/etc/passwd", "a/../../x"):
        with pytest.raises(bawn_module.BadField):
            box.put_bytes(path, b"x")
        with pytest.raises(bawn_module.BadField):
            box.read_file(path)


def test_changes_of_a_sandbox(box, bawn_module):
    box.run("echo new > n.txt; mkdir -p .git/hooks; printf '#!/bin/sh\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
    assert "+new" in box.diff()
    report = box.review()
    assert report["summary"]["high"] == 1 and any(r["path"] == ".git/hooks/pre-commit" and r["risks"] for r in report["changes"])
    with pytest.raises(bawn_module.BawnError):
        box.apply()
    assert box.state == "running"
    assert box.apply(only=["n.txt"])["done"] is True
    box.discard()
    assert box.run("cat n.txt; ls .git 2>&1").stdout.startswith("new\n")
    assert box.diff() == ""


def test_a_run_and_its_events(client, bawn_module):
    run = client.run("""echo out; echo '{"type": "x", "total_cost_usd": 0.25, "usage": {"n": 1}}'; echo new > n; echo bad >&2; exit 4""", parse="jsonl",
                     labels={"job": "1"})
    result = run.result()
    assert (result.state, result.status, result.stderr) == ("done", 4, "bad\n")
    assert result.events == [{"type": "x", "total_cost_usd": 0.25, "usage": {"n": 1}}] and (result.cost, result.usage) == (0.25, {"n": 1})
    events = [*run.events()]
    assert sorted(e.type for e in events) == ["agent", "exit", "state", "stderr", "stdout"] and events[-1].data == {"status": 4}
    assert [e.id for e in run.events(after=events[1].id)] == [e.id for e in events[2:]]
    assert "+new" in run.diff() and run.apply()["done"] and run.read_text("n") == "new\n"
    assert [r.id for r in client.runs(label="job=1")] == [run.id]
    run.delete()
    with pytest.raises(bawn_module.NotFound):
        client.get_run(run.id)


def test_a_run_with_files_and_input(client):
    with client.start_run("cat f g/h; cat", files={"f": "1", "g/h": b"2"}, stdin=True) as run:
        for event in run.events():
            if event.type == "stdout":
                break
        run.write_stdin(b"3\n", close=True)
        assert run.result().stdout == "123\n"


def test_time_is_up(client, bawn_module):
    with pytest.raises(bawn_module.TimedOut):
        client.run("sleep 1000", timeout=0.5)
    assert [r.state for r in client.runs()] == ["cancelled"]


def test_errors_are_typed(client, service, bawn_module):
    for code, go in (("not_found", lambda: client.get_run("run_0123456789012345678901")), ("bad_field", lambda: client.run("true", memory="lots")),
                     ("bad_field", lambda: client.run(["x" * 200000]))):
        with pytest.raises(bawn_module.types.PROBLEMS[code]) as e:
            go()
        assert e.value.code == code and e.value.status >= 400 and e.value.instance
    with pytest.raises(bawn_module.Unauthorized):
        bawn_module.Client(service.url, "bawn_wrong").request("getMe")
    with pytest.raises(bawn_module.CannotSandbox, match="nosuch"):
        client.create_sandbox(profile="nosuch")
    with pytest.raises(bawn_module.Unreachable):
        bawn_module.Client("unix:///nonexistent/socket", retry_seconds=0).request("getHealth")
    with pytest.raises(ValueError, match="https"):
        bawn_module.Client("http://192.0.2.1:80", "secret")


def test_a_key_makes_one_run(client, bawn_module):
    a = client.run("echo once", key="job-1")
    assert client.run("echo once", key="job-1").id == a.id
    with pytest.raises(bawn_module.IdempotencyConflict):
        client.run("echo twice", key="job-1")
    assert len([*client.runs()]) == 1


def test_the_service_restarts_during_a_wait(service, client):
    """Its events resume without a gap or repeat, the wait goes on, and the run is one."""
    run = client.start_run("for i in 1 2 3 4 5 6; do echo $i; while ! test -e /tmp/go && test $i = 3; do sleep 0.05; test $((n=n+1)) = 40 && touch /tmp/go; done; done")
    done = []
    waiter = threading.Thread(target=lambda: done.append(client.run("sleep 1; echo waited", key="k")))
    waiter.start()
    seen, text = [], b""
    for event in run.events():
        seen.append(event.id)
        text += event.bytes
        if b"3" in text and len(done) == 0 and service.proc.poll() is None and not hasattr(service, "restarted"):
            service.restarted = True
            service.kill()
            service.launch()
    assert text == b"1\n2\n3\n4\n5\n6\n" and seen == sorted(set(seen))
    waiter.join()
    assert done[0].info["status"] == 0 and done[0].stdout() == "waited\n"
    assert len([*client.runs()]) == 2


class Flaky(http.server.BaseHTTPRequestHandler):
    """Takes a request and goes away without an answer, as often as `broken` says; then answers."""

    broken, seen, proxy = 0, [], 0

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).seen.append(self.headers.get("Idempotency-Key"))
        if type(self).proxy:
            self.send_error(type(self).proxy)
            return
        if len(type(self).seen) <= type(self).broken:
            self.close_connection = True
            return
        body = json.dumps({"id": "run_x", "state": "done", "command": [], "created": ""}).encode()
        if type(self).broken < 0 and len(type(self).seen) == 1:
            body = b'{"type": "about:blank", "title": "Busy", "status": 503, "code": "draining"}'
            self.send_response(503)
            self.send_header("Retry-After", "0")
        else:
            self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST
    log_message = lambda *_: None  # noqa: E731


@pytest.fixture
def flaky():
    class Handler(Flaky):
        seen = []

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Handler, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("broken", [2, -1])
def test_a_lost_answer_is_asked_for_with_the_same_key(flaky, bawn_module, broken):
    handler, url = flaky
    handler.broken = broken
    assert bawn_module.Client(url, retry_seconds=600).start_run("true").id == "run_x"
    assert len(handler.seen) == abs(broken) + 1 and len(set(handler.seen)) == 1 and handler.seen[0]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_error_of_a_proxy_says_not_that_nothing_was_done(flaky, bawn_module, status):
    """It may have passed the command on before: to ask again would run it twice."""
    handler, url = flaky
    handler.proxy = status
    box = bawn_module.Sandbox(bawn_module.Client(url, retry_seconds=1)._api, {"id": "box_x", "state": "running", "created": ""})
    with pytest.raises(bawn_module.Problem) as e:
        box.run("true")
    assert e.value.status == status and handler.seen == [None]
    with pytest.raises(bawn_module.Problem):
        bawn_module.Client(url, retry_seconds=1).start_run("true")
    assert len(handler.seen) > 2 and len(set(handler.seen[1:])) == 1


def test_what_has_no_key_is_not_repeated(flaky, bawn_module):
    handler, url = flaky
    handler.broken = 1
    box = bawn_module.Sandbox(bawn_module.Client(url, retry_seconds=600)._api, {"id": "box_x", "state": "running", "created": ""})
    with pytest.raises(bawn_module.Unreachable):
        box.run("true")
    assert handler.seen == [None]


def test_asyncio(service, bawn_module):
    aio = bawn_module.aio

    async def go():
        async with aio.Client(service.url, retry_seconds=600) as c, await c.create_sandbox() as box:
            results = await asyncio.gather(*[box.run(f"echo {i}") for i in range(5)])
            assert [r.stdout for r in results] == [f"{i}\n" for i in range(5)]
            await box.put_bytes("f", b"x")
            assert await box.read_file("f") == b"x"
            async with await box.exec("echo begun; sleep 1000") as process:
                async for stream, data in process:
                    assert (stream, data) == ("stdout", b"begun\n")
                    break
            task = asyncio.ensure_future(box.run("touch started; sleep 2000"))
            await box.run("while ! test -e started; do sleep 0.02; done")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await box.run("while pgrep -x sleep; do sleep 0.05; done")
            run = await c.start_run("echo one; exit 3")
            assert [e.type async for e in run.events()] == ["state", "stdout", "exit"]
            assert (await run.result()).status == 3
            with pytest.raises(bawn_module.NotFound):
                await c.get_run("run_0123456789012345678901")

    asyncio.run(go())


@pytest.mark.parametrize("runner", ["root"], indirect=True)  # makes a tenant
def test_tls_with_a_token(tls, bawn_module):
    with bawn_module.Client(tls.url, tls.token, ca=tls.certificate, retry_seconds=600) as c:
        assert c.request("getMe")["name"] == "acme"
        assert c.run("echo over tls").stdout() == "over tls\n"
        with c.create_sandbox() as box:
            box.put_bytes("big", b"x" * 3000000)
            assert box.read_file("big") == b"x" * 3000000
            assert box.run("wc -c < big").stdout == "3000000\n"
    with pytest.raises(bawn_module.Unauthorized):
        bawn_module.Client(tls.url, tls.token[:-1], ca=tls.certificate).request("getMe")
    with pytest.raises(bawn_module.Unreachable, match="(?i)certificate"):
        bawn_module.Client(tls.url, tls.token, retry_seconds=0).request("getMe")


def test_checkpoints_forks_and_ports(box, client):
    box.put_bytes("a/f", b"one")
    assert box.checkpoint("before")["tag"] == "before"
    box.put_bytes("a/f", b"two")
    assert [c["tag"] for c in box.checkpoints()] == ["before"]
    with box.fork(checkpoint="before", labels={"from": "before"}) as old, box.fork() as new:
        assert (old.read_file("a/f"), new.read_file("a/f"), old.info["labels"]) == (b"one", b"two", {"from": "before"})
        new.put_bytes("a/f", b"three")
    assert box.read_file("a/f") == b"two"
    box.delete_checkpoint("before")
    assert box.checkpoints() == []
    with box.exec(["python3", "-u", "-c", "import socket\ns = socket.create_server(('127.0.0.1', 8000))\nprint('up')\nwhile True:\n    c, _ = s.accept()\n"
                                          "    c.sendall(b'inside')\n    c.close()\n"]) as server:
        assert next(iter(server))[0] == "stdout"
        host, _, port = box.expose(8000).rpartition(":")
        with socket.create_connection((host, int(port))) as s:
            assert s.recv(100) == b"inside"


def test_what_an_agent_is_given(client, printer):
    run = client.run(agent=printer, arguments=["-c", "cat ~/.printer/ORDERS.md ~/.printer/skills/*/SKILL.md ~/.printer/mcp"], instructions="Use tabs.",
                     skills={"release": "Tag it."}, mcp_servers={"docs": {"command": ["docs-server"]}})
    result = run.result()
    assert result.status == 0 and all(text in result.stdout for text in ("Use tabs.", "Tag it.", "docs-server")), result
