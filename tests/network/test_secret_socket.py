# SPDX-License-Identifier: Apache-2.0
"""BAWN_CREDENTIAL_SOCKET through the whole of Bawn: names and placeholders, for this sandbox alone, and nothing can be written.

What single lines are answered is in tests/integration/test_ssh_agent.py; there the gate is alone.
"""

import json
import os
import pwd
import signal
import subprocess

import pytest
from inside import Inside, until
from secret_tools import define, nowhere

REAL = "real-value-0123456789abcdef"
ENV = {"REAL_KEY": REAL}
ASK = """
import json, os, socket, subprocess
def connect(path=None):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path or os.environ["BAWN_CREDENTIAL_SOCKET"])
    return s
def ask(question, path=None):
    s = connect(path)
    s.sendall(json.dumps(question).encode() + b"\\n")
    return json.loads(s.makefile().readline())
def names(path=None):
    return [c["name"] for c in ask({"op": "list"}, path)["credentials"]]
"""


@pytest.fixture
def key(net):
    define(net, "mine", hosts=["ok.example.com"], header="x-api-key", env=["API_KEY"], store="env", variable="REAL_KEY")
    return ENV


@pytest.fixture
def inside(net, key):
    with Inside(net, env=key, allow=["ok.example.com"]) as i:
        assert i(ASK) is None
        yield i


def test_read_and_not_written(net, key):
    secrets = net.runner.home / ".config" / "bawn" / "secrets.json"
    before = secrets.read_bytes()
    r = net.sandbox("sh", "-c", """
bawn-key list; bawn-key show mine; bawn-key load mine; echo "$API_KEY"
for verb in save delete; do bawn-key $verb mine; echo $?; done
bawn-key load other; echo $?
bawn-key --json load mine
curl -sSf -o /dev/null -H "x-api-key: $(bawn-key load mine)" https://ok.example.com/
""", allow=["ok.example.com"], env=key)
    lines = r.out.decode().splitlines()
    assert lines[0].split() == ["mine", "ok.example.com", "in", "API_KEY"], r
    shown = dict(line.split(maxsplit=1) for line in lines[1:7])
    assert shown == {"name": "mine", "hosts": "ok.example.com", "variables": "API_KEY", "place": "header", "header": "x-api-key", "format": "{}"}, r
    placeholder = lines[7]
    assert lines[8:12] == [placeholder, "1", "1", "1"] and json.loads(lines[12])["value"] == placeholder, r
    assert r.err.count(b"credentials are managed outside") == 2 and b"there is no credential of this name" in r.err, r
    assert [dict(h["headers"])["x-api-key"] for h in net.hits(kind="request")] == [REAL]
    nowhere(REAL, r.out + r.err)
    assert secrets.read_bytes() == before


def socket_of(net, inside):
    """Where the supervisor has it, on the host."""
    found = subprocess.run(["find", net.runner.home, "/run", "-path", f"*/in-{inside.pid}-*/credentials.sock"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL).stdout.split()
    assert len(found) == 1, found
    return found[0].decode()


def test_others_cannot_connect(net, inside, key):
    """Another user of the host, and another sandbox of the same user."""
    path = socket_of(net, inside)
    probe = ["/usr/bin/python3", "-c", f"{ASK}\nprint(names({path!r}))"]
    assert inside("names()") == ["mine"]
    assert net.outside(*probe).out == b"['mine']\n"  # the user themselves
    other = pwd.getpwnam("nobody")
    r = subprocess.run(probe, user=other.pw_uid, group=other.pw_gid, extra_groups=[], capture_output=True)
    assert r.returncode == 1 and b"PermissionError" in r.stderr, r
    define(net, "theirs", hosts=["other.example.com"], header="x-api-key", store="env", variable="REAL_KEY")
    r = net.sandbox(*probe, env=key)
    assert r.rc == 1 and (b"PermissionError" if net.rung == "landlock" else b"FileNotFoundError") in r.err, r
    r = net.sandbox("/usr/bin/python3", "-c", f"{ASK}\nprint(names())", env=key, options=["--secret", "theirs"])
    assert r.out == b"['theirs']\n", r
    assert inside("names()") == ["mine"]


def test_path_on_the_host_goes_with_the_run(net, inside):
    path = socket_of(net, inside)
    assert inside("names()") == ["mine"]
    assert inside.end()[0] == 0
    assert not os.path.exists(os.path.dirname(path))


def test_many_and_garbage(net, inside):
    """Whoever floods it harms nobody else, and requests get their credential as before."""
    assert inside("many = [connect() for _ in range(200)]; len(many)") == 200
    inside("many[3].sendall(b'{\"op\": \"list\"')")  # half a question
    inside("many[5].sendall(b'garbage\\n\\x00\\xff\\n[]\\n{}\\n'); f = many[5].makefile()")
    assert inside("[json.loads(f.readline())['code'] for _ in range(4)]") == ["BAD_REQUEST"] * 3 + ["UNKNOWN_OP"]
    inside("many[6].sendall(b'x' * 100000)")  # no line is that long
    assert inside("closed(many[6])") in ("end", "reset")
    assert inside("[s.close() for s in many[:100]]; many[199].sendall(b'{\"op\":\"list\"}\\n'); "
                  "json.loads(many[199].makefile().readline())['credentials'][0]['name']") == "mine"
    assert inside("names()") == ["mine"]
    assert inside("get('https://ok.example.com/')") == 200
    assert dict(net.hits(kind="request")[0]["headers"])["x-api-key"] == REAL
    assert "bawn-gate" not in inside.err(), inside.err()


def test_gate_that_is_killed(net, inside):
    """The next question starts another one; the listener was never closed."""
    for _ in range(3):
        assert until(lambda: inside("names()") == ["mine"])
        (gate,) = subprocess.run(["pgrep", "-P", inside.pid, "-f", "bawn-gate"], stdout=subprocess.PIPE).stdout.split()
        os.kill(int(gate), signal.SIGKILL)
    assert until(lambda: inside("names()") == ["mine"])


@pytest.mark.parametrize("options", [["--network", "none"], ["--no-secrets"]])
def test_none_without_a_network_or_secrets(net, key, options):
    r = net.sandbox("sh", "-c", 'echo "[$BAWN_CREDENTIAL_SOCKET$API_KEY]"; ls /run/bawn 2>/dev/null; command -v bawn-key', env=key, options=options)
    assert r.out.startswith(b"[]\n") and b"sock" not in r.out and b"bawn-key" not in r.out, r
