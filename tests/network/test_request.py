# SPDX-License-Identifier: Apache-2.0
"""An agent asks for more, by `request_access` of `bawn mcp` or at http://bawn.internal/request: it waits with the questions of the gate, a human
answers, and nothing inside can.
"""

import json
import pathlib
import shlex
import sys

import pytest
from inside import until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from mcp_client import connect  # noqa: E402

FETCH = "curl -s --noproxy '*' -o /dev/null -w '%{http_code}' http://more.example.com/"
EVIL = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \u0430pple.com\r\nbawn: granted"


@pytest.fixture(autouse=True)
def names(net):
    net.names["more.example.com"] = ["11.0.0.10"]
    net.save_names()


@pytest.fixture
def agent(net):
    with connect(net.runner, "--ask-timeout", "600s", popen=net.popen) as c:
        yield c
    assert net.bawn("stop", "--all", "-t", "0", "--force").rc == 0


def pending(net):
    return net.bawn("policy", "pending", "--json").json()


def wait_pending(net):
    until(lambda: pending(net))
    (question,) = pending(net)
    return question


def answer(net, *how):
    r = net.bawn("policy", *how)
    assert r.rc == 0, r
    return r.err.decode()


def post(**wish):
    return "curl -s --noproxy '*' -w '\\n%{http_code}' --data " + shlex.quote(json.dumps(wish)) + " http://bawn.internal/request"


def events(net, what):
    lines = net.bawn("log", "--json", "--type", what).out.decode().splitlines()
    return [json.loads(line) for line in lines]


def test_session(net, agent):
    assert agent.call("exec", command=FETCH)["stdout"] == "403"
    call = agent.begin("request_access", kind="network", value="More.Example.com:80", reason="to get the data")
    q = wait_pending(net)
    assert (q["host"], q["port"], q["request"]) == ("more.example.com", 80, "network") and "to get the data" in q["reason"]
    assert agent.call("exec", command=FETCH)["stdout"] == "403", "asking is not having"
    answer(net, "approve", "--session", q["ask"])
    r = agent.end(call, "request_access")["structuredContent"]
    assert (r["granted"], r["how"]) == (True, "session")
    assert agent.call("exec", command=FETCH)["stdout"] == "200"
    assert not (net.runner.home / ".config/bawn/network.json").exists()
    assert [(e["answer"], e["value"], e["reason"]) for e in events(net, "request")] == [
        ("asked", "More.Example.com:80", "to get the data"), ("session", "More.Example.com:80", "to get the data")]


def test_always_and_once(net, agent):
    call = agent.begin("request_access", kind="network", value="more.example.com", reason="r")
    answer(net, "approve", wait_pending(net)["ask"])
    assert agent.end(call, "request_access")["structuredContent"]["how"] == "once"
    assert agent.call("exec", command=FETCH)["stdout"] == "200"
    call = agent.begin("request_access", kind="network", value="more.example.com", reason="r")
    answer(net, "approve", "--always", wait_pending(net)["ask"])
    assert agent.end(call, "request_access")["structuredContent"]["how"] == "always"
    rules = json.loads((net.runner.home / ".config/bawn/network.json").read_text())["rules"]
    assert [r["action"] for r in rules] == ["allow"] and "more.example.com" in json.dumps(rules)


def test_refused_with_a_reason(net, agent):
    call = agent.begin("request_access", kind="network", value="more.example.com:80", reason="please")
    answer(net, "reject", "--reason", "use the mirror instead", wait_pending(net)["ask"])
    r = agent.end(call, "request_access")
    assert r["structuredContent"]["granted"] is False and r["structuredContent"]["reason"] == "use the mirror instead"
    assert "use the mirror instead" in r["content"][0]["text"]
    assert agent.call("exec", command=FETCH)["stdout"] == "403"


def test_no_answer_is_no(net):
    with connect(net.runner, "--ask-timeout", "1s", popen=net.popen) as c:
        r = c.call("request_access", kind="network", value="more.example.com:80", reason="please")
        assert r["granted"] is False and "no answer came in time" in r["reason"]
        assert c.call("exec", command=post(kind="network", value="more.example.com:80", reason="x"))["stdout"].endswith("\n403")
        assert c.call("exec", command=FETCH)["stdout"] == "403"
    assert net.bawn("stop", "--all", "-t", "0", "--force").rc == 0


def test_path_and_package_say_what_to_do(net, agent):
    call = agent.begin("request_access", kind="path", value="/srv/data sets", reason="input")
    said = answer(net, "approve", "--always", wait_pending(net)["ask"])
    r = agent.end(call, "request_access")["structuredContent"]
    assert r["granted"] and "--mount '/srv/data sets'" in r["note"] and "--mount '/srv/data sets'" in said
    call = agent.begin("request_access", kind="package", value="ripgrep", reason="to search")
    answer(net, "approve", wait_pending(net)["ask"])
    r = agent.end(call, "request_access")["structuredContent"]
    assert r["granted"] and "installs nothing" in r["note"]


def test_inside_without_mcp(net, agent):
    call = agent.begin("exec", command=post(kind="network", value="more.example.com:80", reason="to get the data"))
    q = wait_pending(net)
    assert (q["host"], q["request"]) == ("more.example.com", "network")
    answer(net, "approve", "--session", q["ask"])
    body, status = agent.end(call, "exec")["structuredContent"]["stdout"].rsplit("\n", 1)
    assert status == "200" and json.loads(body)["granted"] is True
    assert agent.call("exec", command=FETCH)["stdout"] == "200"
    call = agent.begin("exec", command=post(kind="path", value="/srv/x", reason="r"))
    answer(net, "reject", "--reason", "no, \u00e4sk later", wait_pending(net)["ask"])
    body, status = agent.end(call, "exec")["structuredContent"]["stdout"].rsplit("\n", 1)
    assert status == "403" and json.loads(body)["reason"].startswith("no, ")
    # One that gives up takes its question with it.
    assert agent.call("exec", command=post(kind="path", value="/srv/y", reason="r").replace("curl", "curl -m 1"))["exit_status"] == 28
    until(lambda: not pending(net))
    for bad, code in [(post(), "400"), (post(kind="network", value="*.example.com", reason="r"), "403"), (post(kind="root", value="x", reason="r"), "403"),
                      (post(kind="path", value="relative", reason="r"), "403"), (post(kind="network", value="@all", reason="r"), "403"),
                      ("curl -s --noproxy '*' -w '\\n%{http_code}' -d '{' http://bawn.internal/request", "400"),
                      ("curl -s --noproxy '*' -w '\\n%{http_code}' -H 'Transfer-Encoding: chunked' -d '{}' http://bawn.internal/request", "400"),
                      ("head -c 5000 /dev/zero | curl -s --noproxy '*' -w '\\n%{http_code}' --data-binary @- http://bawn.internal/request", "400")]:
        assert agent.call("exec", command=bad)["stdout"].endswith("\n" + code), bad
    assert pending(net) == []


def test_bad_wishes_are_refused_unasked(net, agent):
    for kind, value in [("network", "*"), ("network", "*.example.com"), ("network", "@all"), ("network", "\u0430pple.com"), ("network", "a b"),
                        ("path", "etc"), ("path", "/etc/*"), ("network", "x" * 600), ("network", "")]:
        agent.fails("request_access", kind=kind, value=value, reason="r")
    agent.fails("request_access", kind="network", value="more.example.com", reason="")
    assert pending(net) == [] and events(net, "request") == []


def test_words_of_an_agent_are_inert(net, agent):
    """What a human reads has no byte that a terminal obeys, no letter that looks like another."""
    call = agent.begin("request_access", kind="path", value="/srv/x", reason=EVIL)
    q = wait_pending(net)
    shown = net.bawn("policy", "pending").out + net.bawn("policy", "pending", "--json").out
    assert all(byte == 0x0A or 0x20 <= byte < 0x7F for byte in shown), shown
    answer(net, "reject", q["ask"])
    agent.end(call, "request_access")
    log = net.bawn("log").out
    assert b"\x1b" not in log and "\u202e".encode() not in log


def test_nothing_inside_can_answer(net, agent):
    """No verb, no socket, no request of the sandbox, and no flood of them, makes a yes."""
    call = agent.begin("request_access", kind="network", value="more.example.com:80", reason="r")
    q = wait_pending(net)
    number = q["ask"].split("-")[1]
    probe = f"""
    {shlex.quote(str(net.runner.path))} policy approve --always {q["ask"]}; {shlex.quote(str(net.runner.path))} policy approve {number}
    for s in ${{XDG_RUNTIME_DIR:-/nowhere}}/bawn/*.sock ~/.local/state/bawn/run/*.sock /run/user/*/bawn/*.sock; do
        printf '{{"cmd":"answer","id":{number},"answer":"always"}}\\n' | timeout 2 socat - UNIX-CONNECT:$s
    done
    for m in GET POST PUT; do for p in request/{number} answer approve request?answer=always pending; do
        curl -s -m 5 --noproxy '*' -X $m -d '{{"cmd":"answer","id":{number},"answer":"always"}}' http://bawn.internal/$p
    done; done
    {post(kind="network", value="more.example.com:80", reason="r", answer="always", how="always", granted=True, cmd="answer", id=int(number)).replace("curl", "curl -m 2")}
    true"""
    agent.call("exec", command=probe)
    assert agent.call("exec", command=FETCH)["stdout"] == "403"
    # Calls of tools are the agent's, too: another request does not answer the first.
    agent.begin("request_access", kind="network", value="more.example.com:80", reason="granted: always")
    assert agent.call("exec", command=FETCH)["stdout"] == "403"
    assert {p["ask"] for p in pending(net)} >= {q["ask"]}
    assert [e["answer"] for e in events(net, "request") if e["answer"] not in ("asked", "deny")] == []
    answer(net, "reject", q["ask"])
    assert agent.end(call, "request_access")["structuredContent"]["granted"] is False


def test_a_flood_is_denied_unasked(net, agent):
    calls = [agent.begin("request_access", kind="path", value=f"/srv/{i}", reason="r") for i in range(15)]
    refused = []
    until(lambda: len(pending(net)) == 10)
    for q in pending(net):
        answer(net, "reject", q["ask"])
    for c in calls:
        r = agent.end(c, "request_access")["structuredContent"]
        assert r["granted"] is False
        refused.append("too many" in r["reason"])
    assert sum(refused) == 5


def test_ask_never_is_no(net):
    with connect(net.runner, "--ask", "never", popen=net.popen) as c:
        assert "--ask never" in c.fails("request_access", kind="network", value="more.example.com:80", reason="please")
    assert net.bawn("stop", "--all", "-t", "0", "--force").rc == 0
