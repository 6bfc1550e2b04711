# SPDX-License-Identifier: Apache-2.0
"""`bawn mcp`: the protocol, its tools, several calls at once, and what happens to calls whose client is gone."""

import json
import pathlib
import socket
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from mcp_client import Refused, connect  # noqa: E402

ALL = ["exec", "read_file", "write_file", "edit", "list_files", "diff", "review", "expose_port", "request_access"]


@pytest.fixture
def client(kept):
    with connect(kept) as c:
        yield c
    assert c.status == 0, c.said


def running(runner, word):
    for box in json.loads(runner.bawn("ps", "--json").out):
        r = runner.bawn("ps", box["name"], "--json")  # fails while it starts
        if r.rc == 0 and any(word in p["command"] for p in r.json()["processes"]):
            return True
    return False


def wait_until(condition):
    while not condition():
        time.sleep(0.02)


# -- the protocol ---------------------------------------------------------------------------------------------------------


def test_handshake(kept):
    for asked, got in [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-06-18")]:
        with connect(kept, initialize=False) as c:
            r = c.initialize(asked)
            assert r["protocolVersion"] == got and r["serverInfo"]["name"] == "bawn" and "tools" in r["capabilities"]
            assert list(c.tools) == ALL
            assert c.request("ping") == {}
        assert c.status == 0
    assert json.loads(kept.bawn("ps", "--json").out) == [], "looking at the tools starts nothing"


def test_bad_messages_get_errors(kept):
    bad = [
        (b"{", -32700), (b"nonsense", -32700), (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700), (b"\xff\xfe", -32700),
        (b"[" * 100000, -32700), (b'{"a":' * 5000 + b"1" + b"}" * 5000, -32700), (b"x" * (9 * 1024 * 1024), -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\u0000"}}', -32700),
        (b"7", -32600), (b"[]", -32600), (b"null", -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600),
        (b'{"jsonrpc":"2.0","id":"' + b"x" * 300 + b'","method":"ping"}', -32600), (b"[7]", -32600), (b"[" + b"7," * 100 + b"7]", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601), (b'{"jsonrpc":"2.0","id":1,"method":"tools/../call"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', -32602), (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":[]}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"command":7}}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{}}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"command":"true","root":true}}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"command":"true","timeout":0}}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{}}}', -32602),
    ]
    with connect(kept, initialize=False) as c:
        for line, code in bad:
            c.send_raw(line + b"\n")
            m = c.read()
            assert m["error"]["code"] == code, (line[:100], m)
            assert m["id"] in (None, 1), m
        # What asks for nothing gets nothing: notifications, answers, empty lines.
        c.send_raw(b'\n  \n{"jsonrpc":"2.0","method":"no/such"}\n{"jsonrpc":"2.0","id":9,"result":{}}\n'
                   b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}\n')
        c.initialize()
        # Several in one list, as 2025-03-26 allows.
        c.send([{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "id": "b", "method": "ping"}])
        assert [c.read()["id"], c.read()["id"]] == ["a", "b"]
    assert c.status == 0
    assert json.loads(kept.bawn("ps", "--json").out) == [], "no bad call started anything"


def test_allow_list(kept):
    with connect(kept, "--tools", "exec,read_file", "--tools", "diff") as c:
        assert list(c.tools) == ["exec", "read_file", "diff"]
        with pytest.raises(Refused) as e:
            c.call("write_file", path="a", content="b")
        assert e.value.code == -32602
        assert c.call("exec", command="echo yes")["stdout"] == "yes\n"
    r = kept.bawn("mcp", "--tools", "exec,format_disk")
    assert r.rc == 64 and b"format_disk" in r.err and b"request_access" in r.err, r
    assert kept.bawn("mcp", "--tools", "").rc == 64


# -- tools ----------------------------------------------------------------------------------------------------------------


def test_exec(client):
    r = client.call("exec", command="echo out; echo err >&2; pwd; cat; exit 7", stdin="in")
    workspace = client.call("exec", argv=["pwd"])["stdout"]
    assert (r["exit_status"], r["stderr"], r["stdout"]) == (7, "err\n", "out\n" + workspace + "in")
    assert client.call("exec", argv=["printf", "%s|", "a b", "", "$HOME"])["stdout"] == "a b||$HOME|"
    assert client.call("exec", argv=["pwd"], cwd="/tmp")["stdout"] == "/tmp\n"
    client.call("exec", command="mkdir -p sub")
    assert client.call("exec", argv=["pwd"], cwd="sub")["stdout"] == workspace[:-1] + "/sub\n"
    r = client.call("exec", argv=["no-such-program"])
    assert r["exit_status"] == 127
    r = client.call("exec", command="kill -9 $$")
    assert (r["signal"], r["exit_status"]) == (9, 137)
    r = client.call("exec", command="sleep 1000", timeout=1)
    assert r["timed_out"] and r["exit_status"] == 124 and r["limits_hit"] == ["time"]
    assert client.call("exec", command="printf 'a\\377\\000b\\033'")["stdout"] == "a\ufffd\0b\x1b"
    assert "/no/such" in client.fails("exec", command="true", cwd="/no/such")
    # Someone in the background has the pipe: the answer does not wait for them.
    assert client.call("exec", command="sleep 1000 & echo there")["stdout"] == "there\n"


def test_exec_output_is_cut(client):
    r = client.call("exec", command="yes | head -c 3000000; echo end >&2", max_output=100)
    assert (len(r["stdout"]), r["stdout_cut"], r["stderr"]) == (100, 3000000 - 100, "end\n")
    r = client.raw_call("exec", command="yes | head -c 200000")
    assert len(r["structuredContent"]["stdout"]) == 65536 and "134464 bytes more" in r["content"][0]["text"]


def test_files(client, kept):
    assert client.call("write_file", path="a/b c/$x.txt", content="one\ntwo\nthree\n") == {
        "path": str(kept.workspace / "a/b c/$x.txt"), "bytes": 14}
    assert client.call("read_file", path="a/b c/$x.txt")["content"] == "one\ntwo\nthree\n"
    assert client.call("read_file", path="a/b c/$x.txt", offset=2, limit=1)["content"] == "two\n"
    assert (kept.workspace / "a/b c/$x.txt").read_text() == "one\ntwo\nthree\n"
    r = client.call("edit", path="a/b c/$x.txt", old_text="two\n", new_text="2 $& \\1\n")
    assert r["replaced"] == 1
    assert client.call("read_file", path="a/b c/$x.txt")["content"] == "one\n2 $& \\1\nthree\n"
    assert "not in" in client.fails("edit", path="a/b c/$x.txt", old_text="four", new_text="")
    assert "times" in client.fails("edit", path="a/b c/$x.txt", old_text="e", new_text="E")
    assert client.call("edit", path="a/b c/$x.txt", old_text="e", new_text="E", all=True)["replaced"] == 3
    assert "no file" in client.fails("read_file", path="missing")
    assert "not a regular file" in client.fails("read_file", path="a")
    assert "folder" in client.fails("write_file", path="a", content="")
    client.call("exec", command="mkdir d; ln -s x l; mkfifo p; : > '-n'; : > 'new\nline'")
    r = client.call("list_files")
    assert {(e["name"], e["kind"]) for e in r["entries"]} == {
        ("a", "folder"), ("d", "folder"), ("l", "link"), ("p", "other"), ("-n", "file"), ("new\nline", "file")}
    r = client.call("list_files", path="a", recursive=True)
    assert [e["name"] for e in r["entries"]] == ["b c", "b c/$x.txt"]
    assert "not a folder" in client.fails("list_files", path="-n")
    assert client.call("read_file", path="-n")["content"] == ""


def test_diff_and_review(kept):
    kept.write("kept.txt", "old\n")
    with connect(kept, "-w", "overlay") as c:
        assert c.call("diff") == {"changed": False, "patch": ""}
        c.call("edit", path="kept.txt", old_text="old", new_text="new")
        c.call("write_file", path=".git/hooks/post-checkout", content="#!/bin/sh\n")
        r = c.call("diff", paths=["kept.txt"])
        assert r["changed"] and "-old\n+new\n" in r["patch"], r
        r = c.call("review")
        assert r["risky"] and "post-checkout" in json.dumps(r["report"])
    assert (kept.workspace / "kept.txt").read_text() == "old\n"


def test_a_sandbox_that_cannot_start(kept):
    with connect(kept, "-C", "/no/such/folder") as c:
        assert "/no/such/folder" in c.fails("exec", command="true")
    with connect(kept, "--memory", "nonsense") as c:
        assert "nonsense" in c.fails("exec", command="true")


def test_expose_port(kept):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    with connect(kept, "--publish", f"3000:{free}") as c:
        assert c.call("expose_port", port=3000)["address"] == f"127.0.0.1:{free}"
        assert "--publish 4000" in c.fails("expose_port", port=4000)


def test_a_sandbox_with_other_options_is_not_joined(kept):
    with connect(kept, "--network", "none") as c:
        assert c.call("exec", command="true")["exit_status"] == 0
    with connect(kept, "--network", "full") as c:
        assert "other options" in c.fails("exec", command="true")
    with connect(kept) as c:
        assert c.call("exec", command="true")["exit_status"] == 0


# -- several at once ------------------------------------------------------------------------------------------------------


def test_calls_at_once_and_cancelling(client, kept):
    client.call("exec", command="mkfifo go")
    waiting = client.begin("exec", command="cat go")
    doomed = client.begin("exec", command="sleep 4321 & wait")
    assert client.call("exec", command="echo meanwhile")["stdout"] == "meanwhile\n"
    wait_until(lambda: running(kept, "sleep 4321"))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": doomed, "reason": "enough"}})
    wait_until(lambda: not running(kept, "sh -c sleep 4321"))
    client.call("exec", command="echo gone > go")
    assert client.end(waiting, "exec")["structuredContent"]["stdout"] == "gone\n"
    assert client.request("ping") == {}
    assert doomed not in client.answers


def test_progress(client):
    number = client.begin("exec", progress="token-1", command="for i in 1 2 3 4; do echo line $i; sleep 0.7; done")
    assert client.end(number, "exec")["structuredContent"]["exit_status"] == 0
    values = [p["progress"] for p in client.progress]
    assert len(values) >= 2 and values == sorted(set(values))
    assert all(p["progressToken"] == "token-1" for p in client.progress)
    assert any(p["message"].startswith("line ") for p in client.progress)


def test_the_client_goes(kept):
    """Commands of a client that is gone end, the sandbox stays."""
    with connect(kept) as c:
        c.begin("exec", command="sleep 5432")
        wait_until(lambda: running(kept, "sleep 5432"))
    assert c.status == 0
    wait_until(lambda: not running(kept, "sleep 5432"))
    assert [b["status"] for b in json.loads(kept.bawn("ps", "--json").out)] == ["running"]


def test_a_full_pipe_stops_no_cancelling(kept):
    with connect(kept) as c:
        for _ in range(20):
            c.begin("exec", command="yes | head -c 1000000", max_output=1048576)
        doomed = c.begin("exec", command="sleep 6543")
        wait_until(lambda: running(kept, "sleep 6543"))
        c.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": doomed}})
        wait_until(lambda: not running(kept, "sleep 6543"))
        assert c.request("ping") == {}


def test_many_first_calls(kept):
    """All of them find the sandbox that one of them starts."""
    for _ in range(3):
        with connect(kept) as c:
            for number in [c.begin("exec", command="true") for _ in range(25)]:
                answer = c.end(number, "exec")
                assert answer.get("structuredContent", {}).get("exit_status") == 0, answer
        assert kept.bawn("stop", "--all", "-t", "0").rc == 0


def test_too_many_calls(client):
    numbers = [client.begin("exec", command="sleep 3") for _ in range(40)]
    refused = 0
    for n in numbers:
        try:
            client.end(n, "exec")
        except Refused as e:
            assert e.code == -32000
            refused += 1
    assert refused == 8
