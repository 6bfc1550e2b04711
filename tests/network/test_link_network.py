# SPDX-License-Identifier: Apache-2.0
"""The network of a sandbox behind a byte link (BAWN_TEST_LINK=bytes): connections are accepted inside, delivered by bawn-link, and judged by the gate as ever."""

import json

import pytest
from inside import Inside
from ssh_tools import me, server  # noqa: F401
from test_credentials import ENV, KEY, REAL, define, headers
from test_publish import SERVE, answer_of
from test_secret_ssh import HOST, LOGIN

LINK = {"BAWN_TEST_LINK": "bytes"}
HOW = ["--workspace", "overlay"]


@pytest.mark.parametrize("url", ["http://ok.example.com/a", "https://ok.example.com/a", "http://six.example.com/a", "http://ok.example.com:8080/a"])
def test_a_name_that_is_allowed_is_reached(net, url):
    r = net.sandbox("curl", "-sS", url, allow=["ok.example.com", "six.example.com"], options=HOW, env=LINK)
    assert r.rc == 0 and r.json()["line"] == "GET /a HTTP/1.1", r


def test_everything_else_is_refused(net):
    for url in ("http://evil.example.net/", "https://11.0.0.11/", "http://evil.example.net:4711/"):
        r = net.sandbox("curl", "-sS", "-f", url, allow=["ok.example.com"], options=HOW, env=LINK)
        assert r.rc not in (0, 28), r
    assert net.hits() == [] and net.queries() == []


def test_a_hello_in_small_pieces(net):
    """Bytes that come one by one: the gate waits for the rest, and takes their pause for no end."""
    script = """
import socket, time
s = socket.create_connection(("ok.example.com", 80))
for c in b"GET /slow HTTP/1.1\\r\\nHost: ok.example.com\\r\\nConnection: close\\r\\n\\r\\n":
    s.sendall(bytes([c]))
    time.sleep(0.002)
print(b"".join(iter(lambda: s.recv(65536), b"")).split(b"\\r\\n")[0].decode())
"""
    r = net.python(script, allow=["ok.example.com"], options=HOW, env=LINK)
    assert (r.rc, r.out.split()[1:2]) == (0, [b"200"]), r


def test_a_credential_goes_into_the_request(net):
    define(net, key=KEY)
    r = net.sandbox("sh", "-c", 'curl -sS -H "x-api-key: $API_KEY" https://ok.example.com/one', allow=["ok.example.com"], env={**ENV, **LINK}, options=HOW)
    assert r.rc == 0, r
    (hit,) = net.hits(kind="request")
    assert headers(hit)["x-api-key"] == REAL
    assert REAL.encode() not in r.out + r.err and REAL not in json.dumps(net.log())


def test_a_published_port(net):
    with Inside(net, env=LINK, options=[*HOW, "--publish", "8080:18080"]) as inside:
        inside(SERVE + "serve(8080, b'from inside')")
        assert answer_of(net, "127.0.0.1", 18080) == "from inside"


def test_ssh_agent_and_credential_socket(net, server, me):
    """The far end listens where the sandbox looks for them; the sockets of the host are not inside, and who connects to those is refused."""
    me.know(server.known(HOST, "ed25519"))
    define(net, key=KEY)
    script = f"""
{LOGIN}
ssh-add -l | wc -l
for i in 1 2 3 4 5 6 7 8 9 10; do ssh-add -l > /dev/null & done; wait
bawn-key list; bawn-key save key; echo $?
readlink $SSH_AUTH_SOCK $BAWN_CREDENTIAL_SOCKET
grep -c 'bawn.*sock ' /proc/self/mountinfo
"""
    r = net.sandbox("sh", "-c", script, allow=[f"{HOST}:22"], env={**me.env, **ENV, **LINK}, options=HOW)
    lines = r.out.decode().splitlines()
    assert lines[:2] == ["in", str(len(me.keys))] and lines[2].split()[0] == "key" and lines[3] != "0", r
    assert lines[4:] == ["/run/bawn-sockets/ssh-agent.sock", "/run/bawn-sockets/credentials.sock", "0"], r
    assert REAL not in json.dumps(net.log()) and REAL.encode() not in r.out + r.err


def test_sockets_of_a_persistent_sandbox(net, me):
    r = net.bawn("start", "linked", *HOW, env={**me.env, **LINK})
    assert r.rc == 0, r
    try:
        for _ in range(2):
            r = net.bawn("exec", "linked", "--", "ssh-add", "-l", env=LINK)
            assert r.rc == 0 and len(r.out.splitlines()) == len(me.keys), r
    finally:
        assert net.bawn("rm", "--force", "linked").rc == 0
