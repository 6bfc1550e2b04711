# SPDX-License-Identifier: Apache-2.0
"""The user's ssh-agent inside, through the whole of Bawn: real agent, client, server and git. Attacks 60 and 76 of ATTACKS.md.

What gate and broker answer to single messages is in tests/integration/test_ssh_agent.py, settings in test_credentials_run.py.
"""

import json
import os
import signal
import subprocess

import pytest
import secret_tools
import ssh_tools
from inside import Inside, until
from ssh_tools import me, server  # noqa: F401

HOST = "git.example.com"
ALLOWED = [f"{HOST}:22"]
LOGIN = f"ssh -o BatchMode=yes git@{HOST} echo in"
WILD = {"action": "allow", "host": "*.example.com"}


def uses(net, action):
    return [(e["host"], e["port"], e["method"]) for e in net.log() if e["kind"] == "secret" and e["action"] == action]


def reasons(net):
    """Why signatures were refused: the broker's own words."""
    return [e["path"] for e in net.log() if e["kind"] == "secret" and e["action"] == "deny"]


def report_of(r):
    return json.loads(next(line for line in r.err.splitlines() if line.startswith(b"{")))


# What it is for

def test_git_and_ssh(net, server, me):
    known = me.know(server.known(HOST, "ed25519"))
    name, key = f"{net.runner.name}-{net.rung}", me.fingerprint("me@laptop")  # the server is the same for all rows
    before = server.logins(), known.read_text()
    r = net.sandbox("sh", "-ec", f"""
{LOGIN}
cd ~
git clone -q git@{HOST}:demo.git one
cd one
git config user.name A; git config user.email a@example.com; git config gpg.format ssh
git config user.signingkey "key::$(ssh-add -L | head -1)"
echo hello > file; git add file
git commit -q -S -m signed
git push -q ssh://git@{HOST}/~/demo.git HEAD:{name}
git clone -q -b {name} ssh://git@{HOST}{server.repository} ../two
cat ../two/file
! echo x 2>&- >> /run/bawn/known_hosts
""", allow=ALLOWED, env=me.env, options=["--json"])
    assert r.rc == 0 and r.out == b"in\nhello\n", r
    assert (server.logins() - 4, known.read_text()) == before
    assert b"known_hosts" not in r.err, r  # ssh has learnt the server's other keys, in a file of its own
    signers = net.runner.write("signers", f"a@example.com {me.keys['me@laptop'].with_suffix('.pub').read_text()}")
    checked = net.runner.run("git", "-c", "safe.directory=*", "-c", f"gpg.ssh.allowedSignersFile={signers}", "--git-dir", server.repository,
                             "verify-commit", name)
    assert checked.rc == 0 and b'Good "git" signature for a@example.com' in checked.err, checked
    assert uses(net, "allow") == [(HOST, 22, "login")] * 2 + [("", 0, "commit")] + [(HOST, 22, "login")] * 2
    assert {"name": f"ssh {key}", "host": HOST, "used": 4, "blocked": 0} in report_of(r)["network"]["secrets"], r
    assert f"bawn: credentials: ssh {key} 4 times ({HOST}), ssh {key} 1 time (commits)\n".encode() in r.err, r


def test_chosen_keys(net, server, me):
    """The others are hidden, and do not sign for whoever knows them."""
    me.know(server.known(HOST))
    blobs = {comment: path.with_suffix(".pub").read_text().split()[1] for comment, path in me.keys.items()}
    script = ssh_tools.CLIENT + f"""
import base64, json, subprocess
print(json.dumps([subprocess.run(["ssh-add", "-L"], capture_output=True, text=True).stdout.splitlines(),
                  {{c: Agent().sign(base64.b64decode(b), sshsig(b"git")) for c, b in {blobs}.items()}},
                  subprocess.run({LOGIN.split()}, capture_output=True, text=True).stdout]))
"""
    for options, chosen in (([], set(blobs)), (["--ssh-key", "work key"], {"work key"}),
                            (["--ssh-key", me.fingerprint("spare"), "--ssh-key", "me@laptop"], {"spare", "me@laptop"})):
        r = net.sandbox("/usr/bin/python3", "-c", script, allow=ALLOWED, env=me.env, options=options)
        listed, signed, login = r.json()
        assert {line.split(" ", 2)[2] for line in listed} == chosen, r
        assert signed == {c: ssh_tools.SIGNATURE if c in chosen else ssh_tools.FAILURE for c in blobs}, r
        assert login == "in\n", r


# Which hosts are known

KNOWN = {  # what of the server is in known_hosts, hashed, rules, port
    "rsa": (lambda s: s.known(HOST, "rsa"), False, [{"action": "allow", "host": HOST}], 22),
    "ecdsa, port": (lambda s: s.known(f"[{HOST}]:2222", "ecdsa"), False, [WILD], 2222),
    "pattern": (lambda s: s.known("*.example.com,!ok.example.com", "ed25519"), False, [WILD], 22),
    "hashed": (lambda s: s.known(HOST, "ed25519"), True, [{"action": "allow", "host": HOST}], 22),
    # Nobody writes the name out: the connection that is open says it (agentd.c, guess_host()).
    "hashed, by the connection": (lambda s: s.known(HOST, "ed25519"), True, [WILD], 22),
    "hashed, by the connection, port": (lambda s: s.known(f"[{HOST}]:2222", "ed25519"), True, [WILD], 2222),
}


@pytest.mark.parametrize("case", KNOWN)
def test_known_hosts(net, server, me, case):
    lines, hashed, rules, port = KNOWN[case]
    me.know(lines(server), hashed)
    net.rules(*rules)
    with Inside(net, env=me.env) as inside:
        inside("import subprocess; other = dial('ok.example.com', 7); echo(other)")  # one that is open leads nobody astray
        ssh = ["ssh", "-p", str(port), "-o", "BatchMode=yes", f"git@{HOST}", "echo in"]
        out = inside(f"subprocess.run({ssh}, stdout=subprocess.PIPE).stdout.decode()")
        assert out == "in\n", inside.err()
    assert uses(net, "allow") == [(HOST, port, "login")]


def test_name_of_the_session_among_others(net, server, me):
    """A connection that is newer than ssh's own; names are hashed, so that only the right guess helps."""
    me.know(server.known(HOST, "ed25519"), hashed=True)
    net.rules(WILD)
    proxy = net.runner.write("proxy.py", f"""
import os, socket
s = socket.create_connection(("{HOST}", 22))
newer = socket.create_connection(("ok.example.com", 2525))
newer.recv(3)
for x in (s, newer):
    os.set_inheritable(x.fileno(), True)
os.execvp("socat", ["socat", "-", f"FD:{{s.fileno()}}"])
""")
    r = net.sandbox("ssh", "-o", "BatchMode=yes", "-o", f"ProxyCommand=/usr/bin/python3 {proxy}", f"git@{HOST}", "echo in", env=me.env)
    assert r.out == b"in\n", r


REFUSED = {  # what is in known_hosts, rules, why it is not signed
    "revoked": (lambda s: s.known(HOST, "ed25519") + s.known("@revoked *", "ed25519"), [WILD], "the host key is revoked in known_hosts"),
    "unknown": (lambda s: s.known(HOST, "rsa"), [WILD], "the host key is not in known_hosts"),
    "other port": (lambda s: s.known(f"[{HOST}]:2222", "ed25519"), [{"action": "allow", "host": HOST, "ports": [22]}],
                   "policy does not allow that host"),
    "other name": (lambda s: s.known("elsewhere.example.org", "ed25519"), [WILD], "policy does not allow that host"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_host_that_is_not_known(net, server, me, case):
    """The client inside does not care; neither does the agent outside."""
    lines, rules, why = REFUSED[case]
    me.know(lines(server))
    net.rules(*rules)
    careless = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "HostKeyAlgorithms=ssh-ed25519", "-o", "BatchMode=yes",
                f"git@{HOST}", "echo", "in"]
    assert net.outside("ssh", *careless, env=me.env).out == b"in\n"
    before = server.logins()
    r = net.sandbox("ssh", *careless, env=me.env)
    assert r.rc == 255 and b"Permission denied (publickey)" in r.err and server.logins() == before, r
    assert set(reasons(net)) == {why} and not uses(net, "allow"), net.log()
    assert b"blocked: ssh signature at " in r.err, r


# Hosts that rules deny

def through(port):
    """A host that is allowed, and hands everything on."""
    return ["-o", f"ProxyCommand=socat - TCP:relay.example.com:{7000 + port}", "-o", f"HostKeyAlias={f'[{HOST}]:{port}' if port != 22 else HOST}"]


DENIED = {  # arguments of ssh, rules, what is logged
    "denied": ([], [{"action": "deny", "host": HOST}, WILD], "BAWN_NET_DENIED"),
    "https only": ([], [{"action": "allow", "host": HOST, "ports": [443]}], "BAWN_NET_DENIED"),
    "https only, ssh there": (["-p", "443"], [{"action": "allow", "host": HOST, "ports": [443]}], "BAWN_NET_NOT_TLS"),
    "any host, ssh on 443": (["-p", "443"], [WILD], "BAWN_NET_NOT_TLS"),
    "denied, through another": (through(22), [{"action": "deny", "host": HOST}, WILD], "policy does not allow that host"),
    "https only, through another": (through(443), [{"action": "allow", "host": HOST, "ports": [443]},
                                                   {"action": "allow", "host": "relay.example.com"}], "policy does not allow that host"),
}


@pytest.mark.parametrize("case", DENIED)
def test_denied_host_stays_denied(net, server, me, case):
    options, rules, logged = DENIED[case]
    me.know(server.known(f"{HOST},[{HOST}]:443"))
    net.rules(*rules)
    ssh = ["-o", "BatchMode=yes", *options, f"git@{HOST}", "echo in"]
    assert me.outside(*ssh).out == b"in\n"
    before = server.logins()
    r = net.sandbox("ssh", *ssh, env=me.env)
    assert r.rc == 255 and r.out == b"" and server.logins() == before, r
    assert any(e["code"].startswith(logged) or e["path"] == logged for e in net.log() if e["action"] == "deny"), net.log()
    assert not uses(net, "allow")


def test_limited_network_logs_in_nowhere(net, server, me):
    """HTTP and HTTPS to any host: TLS to a helper of the attacker's, who leads to SSH on 443 of a host the user knows."""
    me.know(server.known(f"{HOST},[{HOST}]:443"))
    world = net.world.folder
    net.server("socat", f"OPENSSL-LISTEN:443,bind={ssh_tools.RELAY},fork,reuseaddr,cert={world}/cert.pem,key={world}/key.pem,verify=0",
               f"TCP:{ssh_tools.GIT}:443", ready=(ssh_tools.RELAY, 443))
    ssh = ["-o", "BatchMode=yes", "-o", f"HostKeyAlias=[{HOST}]:443", "-o",
           "ProxyCommand=openssl s_client -quiet -verify_quiet -connect relay.example.com:443 -servername relay.example.com", f"git@{HOST}", "echo in"]
    assert me.outside(*ssh).out == b"in\n"
    before = server.logins()
    r = net.sandbox("ssh", *ssh, env=me.env, options=["--network", "limited"])
    assert r.rc == 255 and b"Permission denied (publickey)" in r.err and server.logins() == before, r
    assert set(reasons(net)) == {"policy does not allow that host"}, net.log()


def test_rules_that_change(net, server, me):
    """The connection goes through another host that stays allowed: it is the signature that changes."""
    me.know(server.known(HOST))
    net.rules(WILD)
    ssh = ["ssh", "-o", "BatchMode=yes", *through(22), f"git@{HOST}", "echo in"]
    with Inside(net, env=me.env) as inside:
        def login():
            return inside(f"import subprocess; subprocess.run({ssh}, stdout=subprocess.PIPE).stdout.decode()")

        assert login() == "in\n"
        net.rules({"action": "deny", "host": HOST}, WILD)
        until(lambda: login() == "", "the denial")
        net.rules(WILD)
        until(lambda: login() == "in\n", "the permission")


# What a client may ask

def test_client_that_does_as_it_likes(net, server, me):
    script = ssh_tools.CLIENT + """
import json
seed = os.urandom(32)
agent = Agent()
listed = agent.ask(b"\\x0b")
key = listed[9:9 + struct.unpack(">I", listed[5:9])[0]]
new = string(b"ssh-ed25519") + string(seed)
print(json.dumps({
    "a commit": agent.sign(key, sshsig(b"git")),
    "a login without a session": agent.sign(key, login(key)),
    "a file": agent.sign(key, sshsig(b"file")),
    "anything": agent.sign(key, bytes(32)),
    "add": agent.ask(b"\\x11" + new + string(seed + seed) + string(b"new"))[0],
    "remove": agent.ask(b"\\x12" + string(new))[0],
    "lock": agent.ask(b"\\x16" + string(b"word"))[0],
    "unlock": agent.ask(b"\\x17" + string(b"word"))[0],
    "others": sorted({agent.ask(bytes([kind]) + 4 * string(b"x"))[0] for kind in range(256) if kind not in (11, 13, 27)}) if SANDBOX else [5],
    "still a commit": agent.sign(key, sshsig(b"git")),
}))
"""
    outside = net.outside("/usr/bin/python3", "-c", script.replace("SANDBOX", "False"), env=me.env).json()
    changes = ("add", "remove", "lock", "unlock")
    assert outside == {**dict.fromkeys(outside, ssh_tools.SIGNATURE), **dict.fromkeys(changes, ssh_tools.SUCCESS), "others": [5]}, outside
    before = me.add("-l").out
    r = net.sandbox("/usr/bin/python3", "-c", script.replace("SANDBOX", "True"), env=me.env)
    commits = ("a commit", "still a commit")
    assert r.json() == {**dict.fromkeys(outside, ssh_tools.FAILURE), "others": [5], **dict.fromkeys(commits, ssh_tools.SIGNATURE)}, r
    assert me.add("-l").out == before
    assert uses(net, "allow") == [("", 0, "commit")] * 2
    assert reasons(net) == ["the client does not say to which host it logs in (OpenSSH 8.9 and later do)", "only git's signatures are made",
                            "it is neither a login nor a commit"]
    assert b"blocked: ssh signature at an unknown host (3)" in r.err, r


def test_forwarded_agent(net, server, me):
    """`ssh -A`: whoever is root on the other machine has the agent. Not this one."""
    me.know(server.known(HOST))
    there = ["-A", "-o", "BatchMode=yes", f"git@{HOST}", "ssh-add -l; echo there"]
    assert me.outside(*there).out.count(b"SHA256:") == 3
    r = net.sandbox("ssh", *there, allow=ALLOWED, env=me.env)
    assert r.rc == 0 and r.out.endswith(b"there\n") and b"SHA256:" not in r.out, r


def test_real_agent_is_not_inside(net, me):
    """Not by its path, and no descriptor leads there."""
    probe = ssh_tools.CLIENT + f"os.environ['SSH_AUTH_SOCK'] = {str(me.path)!r}; print(Agent().ask(b'\\x0b')[0])"
    assert net.outside("/usr/bin/python3", "-c", probe).out == b"12\n"
    r = net.sandbox("/usr/bin/python3", "-c", probe, env=me.env)
    assert r.rc == 1 and (b"PermissionError" if net.rung == "landlock" else b"FileNotFoundError") in r.err, r


# Agents and helpers that fail

def listed(inside):
    return inside("import subprocess; subprocess.run(['ssh-add', '-l'], stdout=subprocess.PIPE).stdout.decode().count('SHA256')")


def test_agent_that_hangs_or_dies(net, me):
    secret_tools.define(net, "key", hosts=["ok.example.com"], header="x-api-key", store="env", variable="REAL_KEY")
    env = {**me.env, "REAL_KEY": "real-value-0123456789abcdef"}
    with Inside(net, env=env, allow=["ok.example.com"], options=["--ssh-agent", "on"]) as inside:
        assert listed(inside) == 3
        me.stop(signal.SIGSTOP)
        inside("waiting = subprocess.Popen(['ssh-add', '-l'], stdout=subprocess.PIPE)")
        assert inside("get('https://ok.example.com/')") == 200  # the broker goes on
        assert dict(net.hits(kind="request")[0]["headers"])["x-api-key"] == env["REAL_KEY"]
        assert net.sandbox("echo", "ran", env=env, options=["--ssh-agent", "on"]).out == b"ran\n"  # nobody waits for it at the start
        assert inside("waiting.poll()") is None
        me.stop(signal.SIGCONT)
        assert inside("waiting.communicate()[0].decode().count('SHA256')") == 3
        me.stop()
        assert listed(inside) == 0
        me.start()
        assert listed(inside) == 3


def children(pid, name):
    return [int(p) for p in subprocess.run(["pgrep", "-P", pid, "-f", name], stdout=subprocess.PIPE).stdout.split()]


@pytest.mark.parametrize("name", ["bawn-gate", "bawn-broker --serve"])
def test_helper_that_is_killed(net, me, name):
    with Inside(net, env=me.env) as inside:
        for _ in range(3):
            assert until(lambda: listed(inside)) == 3
            (pid,) = children(inside.pid, name)
            os.kill(pid, signal.SIGKILL)
        assert until(lambda: listed(inside)) == 3
