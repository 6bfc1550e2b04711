# SPDX-License-Identifier: Apache-2.0
"""`bawn policy`: rules are listed, changed, explained, tested and logged as the gate will follow them. Nothing here sends a packet."""

import contextlib
import json
import socket
import stat
import threading

import pytest

USER = ".config/bawn/network.json"
PROJECT = ".bawn/network.json"
CONFIG = ".config/bawn/config.json"
LOG = ".local/state/bawn/log/network.jsonl"
STATUS = {"allow": 0, "deny": 1, "ask": 2}


def write(runner, path, content):
    return runner.write(path, content if isinstance(content, (str, bytes)) else json.dumps(content, indent=2))


def rules(path):
    return json.loads(path.read_text())["rules"]


def policy(runner, *args, **kw):
    return runner.bawn("policy", *args, **kw)


def explain(runner, *args, **kw):
    r = policy(runner, "explain", "--json", *args, **kw)
    v = r.json()
    assert r.rc == STATUS[v["action"]], r
    return v


# What is said about one question, from the default policy on.
DEFAULT = {
    "registry.npmjs.org:443": ("allow", "BAWN_NET_ALLOWED", "registries", "built-in"),
    "registry.npmjs.org": ("allow", "BAWN_NET_ALLOWED", "registries", "built-in"),
    "registry.npmjs.org:22": ("ask", "BAWN_NET_ASK", None, "mode"),
    "github.com:22": ("allow", "BAWN_NET_ALLOWED", "git", "built-in"),
    "api.anthropic.com:443": ("allow", "BAWN_NET_ALLOWED", "models", "built-in"),
    "example.com:443": ("ask", "BAWN_NET_ASK", None, "mode"),
    "192.0.2.7:443": ("deny", "BAWN_NET_NOT_HANDED_OUT", None, "mode"),
    "169.254.169.254:80": ("deny", "BAWN_NET_NOT_HANDED_OUT", None, "mode"),
}


@pytest.mark.parametrize("question", DEFAULT)
def test_the_default(user_runner, question):
    v = explain(user_runner, question)
    assert (v["action"], v["code"], v["rule"], v["layer"]) == DEFAULT[question], v


@pytest.mark.parametrize("mode, listed, other, port22", [
    ("none", "deny", "deny", "deny"), ("list", "allow", "ask", "ask"), ("limited", "allow", "allow", "deny"), ("full", "allow", "allow", "allow"),
])
def test_modes(user_runner, mode, listed, other, port22):
    args = ("--network", mode)
    assert explain(user_runner, "pypi.org:443", *args)["action"] == listed
    assert explain(user_runner, "example.com:443", *args)["action"] == other
    assert explain(user_runner, "example.com:22", *args)["action"] == port22
    assert explain(user_runner, "example.com:443", "--address", "10.0.0.1", *args)["action"] == "deny"


def test_nobody_to_ask(user_runner):
    write(user_runner, user_runner.home / CONFIG, {"sandbox": {"ask": "never"}})
    v = explain(user_runner, "example.com:443")
    assert (v["action"], v["code"]) == ("deny", "BAWN_NET_DENIED_HOST")
    assert v["stage"] == "lookup" and v["hint"].endswith("bawn policy allow example.com:PORT")


# ATTACKS 46-48: every one of these spellings must be refused, or be the host that it is, under a rule that allows *.good.example.
SPELLINGS = {
    "good.example.": "allow", "GOOD.Example": "allow", "a.good.example": "allow", "[2001:db8::1]:443": "deny",
    "evilgood.example": "deny", "a.b.good.example": "deny", "good.example.evil.com": "deny", "good.example%2eevil.com": "deny",
    "user@good.example": "deny", "good.example@evil.com": "deny", "good.example..": "deny", ".good.example": "deny", "": "deny",
    " good.example": "deny", "good.example ": "deny", "good.example\tevil.com": "deny", "good.example#": "deny", "good.example/": "deny",
    "good.example?x": "deny", "good.example\\evil.com": "deny", "g%6fod.example": "deny", "-good.example": "deny",
    "127.1": "deny", "0177.0.0.1": "deny", "0x7f.0.0.1": "deny", "0x7f000001": "deny", "2130706433": "deny", "017700000001": "deny",
    "127.0.0.1.": "deny", "[::ffff:127.0.0.1]": "deny", "[::1%25lo]": "deny", "[::1": "deny", "::1]": "deny",
    "good.example:22": "deny", "good.example:443:22": "deny", "good.example:+443": "deny", "good.example:0443": "deny", "good.example:65536": "deny",
    "good.example:0": "deny", "\u0455ood.example": "deny", "good\u3002example": "deny", "\uff47ood.example": "deny", "good.ex\u00adample": "deny",
    "x" * 64 + ".good.example": "deny", ".".join(["x" * 60] * 5) + ".good.example": "deny",
}
GOOD = {"mode": "list", "rules": [{"id": "good", "action": "allow", "host": ["good.example", "*.good.example"], "ports": [443]}]}


@pytest.mark.parametrize("name", SPELLINGS, ids=lambda name: ascii(name)[:40])
def test_spellings_of_a_host(user_runner, name):
    """Claim: a host is judged by what it is, not by how it is spelt (46-48)."""
    write(user_runner, user_runner.home / USER, GOOD)
    v = explain(user_runner, "--", name) if name.startswith("-") else explain(user_runner, name)
    assert v["action"] == SPELLINGS[name], v
    if v["action"] == "allow":
        assert v["host"] in ("good.example", "a.good.example")


def test_nul_bytes_in_a_host(user_runner):
    """Claim: what stands behind a NUL byte counts (46); a command line cannot carry one, a file of cases can."""
    write(user_runner, user_runner.home / USER, GOOD)
    write(user_runner, "cases", b"allow good.example:443\ndeny evil.com\0.good.example:443\ndeny good.example\0:443\ndeny good.example:443\0\n")
    r = policy(user_runner, "test", "cases")
    assert (r.rc, r.out) == (0, b"4 of 4 cases hold\n"), r


# ATTACKS 49-51: where an allowed name must not lead.
ADDRESSES = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.1.1", "100.100.100.200",
    "168.63.129.16", "192.0.0.192", "224.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2002:a00:1::1", "::127.0.0.1", "fec0::1",
]


@pytest.mark.parametrize("mode", ["list", "full"])
def test_addresses_that_a_name_must_not_lead_to(user_runner, mode):
    """Claim: an allowed name that leads to this machine, its networks or a metadata service is refused (49, 50)."""
    cases = [f"deny good.example:443 address={a}" for a in ADDRESSES] + ["allow good.example:443 address=93.184.216.34", "allow good.example:443 address=2606:4700::1111"]
    write(user_runner, user_runner.home / USER, dict(GOOD, mode=mode))
    write(user_runner, "cases", "\n".join(cases) + "\n")
    r = policy(user_runner, "test", "cases")
    assert r.rc == 0 and r.out == b"%d of %d cases hold\n" % (len(cases), len(cases)), r


def test_own_addresses(user_runner):
    """Claim: this machine's own addresses are not public, whichever they are (51)."""
    own = {line.split()[3].split("/")[0] for line in user_runner.run("ip", "-o", "addr").out.decode().splitlines()}
    assert "127.0.0.1" in own
    for address in own:
        v = explain(user_runner, "pypi.org:443", "--address", address)
        assert (v["action"], v["code"], v["layer"]) == ("deny", "BAWN_NET_DENIED_ADDRESS", "address"), v


def test_explain_stages(user_runner):
    write(user_runner, user_runner.home / USER, {"rules": [
        {"id": "read", "action": "allow", "host": "api.github.com", "ports": [443], "methods": ["GET"], "paths": ["/repos/**"], "max_body": "1k"},
        {"id": "no", "action": "deny", "host": "api.github.com"},
    ]})
    v = explain(user_runner, "api.github.com:443")
    assert v["action"] == "allow" and v["needs_request"] and v["look"] == "tls"
    v = explain(user_runner, "api.github.com", "GET", "/repos/o/r")
    assert (v["action"], v["rule"], v["stage"], v["max_body"], v["port"]) == ("allow", "read", "request", 1024, 443)
    assert [s["stage"] for s in v["stages"]] == ["lookup", "connection", "request"] and v["file"] == str(user_runner.home / USER)
    assert explain(user_runner, "api.github.com", "POST", "/repos/o/r")["rule"] == "no"
    assert explain(user_runner, "api.github.com", "GET", "/repos/../gists")["action"] == "deny"
    v = explain(user_runner, "api.github.com", "GET", "/repos/%00")
    assert (v["action"], v["code"]) == ("deny", "BAWN_NET_PATH_INVALID")
    text = policy(user_runner, "explain", "api.github.com:22")
    assert text.rc == 1 and b"BAWN_NET_DENIED_HOST" in text.out and b"rule 'no' for api.github.com (user, " in text.out, text


@pytest.mark.parametrize("args", [(), ("a", "GET"), ("a", "GET", "/", "x"), ("a", "--address", "127.1"), ("a", "--nonsense")])
def test_explain_usage(user_runner, args):
    assert policy(user_runner, "explain", *args).rc == 64


def test_allow_deny_rm(runner):
    file = runner.home / USER
    r = policy(runner, "allow", "Example.com:443", "--method", "get,HEAD", "--path", "/a/**", "--max-body", "1m", "--comment", "why not", "--id", "mine")
    assert r.rc == 0 and b"rule 'mine' added" in r.err, r
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    mine = {"id": "mine", "action": "allow", "host": "example.com", "ports": [443], "methods": ["GET", "HEAD"], "paths": ["/a/**"], "max_body": 1048576, "comment": "why not"}
    assert rules(file) == [mine]
    assert b"was there already" in policy(runner, "allow", "example.com:443", "--method", "GET", "--method", "HEAD", "--path", "/a/**", "--max-body", "1024k").err
    assert policy(runner, "deny", "gist.github.com").rc == 0
    assert policy(runner, "allow", "*.example.org", "--private").rc == 0
    assert [r["id"] for r in rules(file)] == ["deny-gist.github.com", "mine", "allow-_.example.org"]
    assert policy(runner, "allow", "*.example.org", "--private", "--first").rc == 0
    assert [r["id"] for r in rules(file)] == ["allow-_.example.org", "deny-gist.github.com", "mine"]
    assert policy(runner, "rm", "mine").rc == 0
    assert [r["id"] for r in rules(file)] == ["allow-_.example.org", "deny-gist.github.com"]
    r = policy(runner, "rm", "mine")
    assert r.rc == 125 and b"has no rule 'mine'" in r.err, r
    assert explain(runner, "gist.github.com:443")["action"] == "deny" and explain(runner, "x.example.org:9")["action"] == "allow"
    assert [p.name for p in file.parent.iterdir()] == ["network.json"], "no temporary file stays"


def test_rm_where_no_rule_was_ever_made(runner):
    """No folder, no file, no rules: the same answer, and nothing is made."""
    said = b"bawn: there is no rule 'nope' (see 'bawn policy ls')\n"
    r = policy(runner, "rm", "nope")
    assert r.rc == 125 and r.err == said, r
    assert not (runner.home / ".config").exists()
    r = policy(runner, "rm", "nope", "--project")
    assert r.rc == 125 and r.err == said and not (runner.workspace / ".bawn").exists(), r
    write(runner, runner.home / USER, "{}")
    r = policy(runner, "rm", "nope")
    assert r.rc == 125 and r.err == said, r


def test_a_url_is_no_host(runner):
    r = policy(runner, "allow", "http://h/")
    assert r.rc == 64 and b"a rule names a host, not a URL; did you mean 'h'?" in r.err, r
    r = runner.bawn("run", "--allow", "https://example.com:8443/x", "--", "true")
    assert r.rc == 64 and b"did you mean 'example.com:8443'?" in r.err, r
    assert not (runner.home / USER).exists()


def test_the_rest_of_a_file_stays(user_runner):
    before = {
        "$schema": "x", "comment": "ours \u00fc", "mode": "list", "unlisted": "ask", "groups": {"@ours": ["a.example"], "@theirs": ["b.example"]},
        "rules": [{"action": "allow", "host": "@ours", "comment": "no id"}, {"id": "second", "action": "ask", "host": ["**.c.example", "10.0.0.0/8"], "ports": ["1-3", 7]}],
    }
    file = write(user_runner, user_runner.home / USER, before)
    assert policy(user_runner, "allow", "d.example").rc == 0
    after = json.loads(file.read_text())
    assert after["rules"].pop() == {"id": "allow-d.example", "action": "allow", "host": "d.example"}
    assert after == before and list(after) == list(before)
    assert policy(user_runner, "rm", "rule-1").rc == 0, "a rule without an id has the one that ls shows"
    assert [r.get("id") for r in rules(file)] == ["second", "allow-d.example"]


def test_a_linked_file_stays_a_link(user_runner):
    real = write(user_runner, user_runner.home / "dotfiles" / "network.json", "{}")
    user_runner.mkdir(user_runner.home / ".config")
    user_runner.mkdir(user_runner.home / ".config/bawn")
    (user_runner.home / USER).symlink_to(real)
    assert policy(user_runner, "allow", "a.example").rc == 0
    assert (user_runner.home / USER).is_symlink() and rules(real)[0]["host"] == "a.example"


def test_a_broken_file_is_not_touched(user_runner):
    file = write(user_runner, user_runner.home / USER, '{"rules": [}')
    for args in (("allow", "a.example"), ("rm", "x"), ("ls",), ("explain", "a.example")):
        r = policy(user_runner, *args)
        assert r.rc == 64 and b"network.json:1:12: not valid JSON" in r.err, r
    assert file.read_text() == '{"rules": [}'


@pytest.mark.parametrize("args", [
    ("allow",), ("allow", "127.1"), ("allow", "a..b"), ("allow", "a:0"), ("allow", "a.example", "b.example"), ("allow", "a.example", "--id", "a b"),
    ("allow", "a.example", "--method", "G T"), ("allow", "a.example", "--path", "no-slash"), ("allow", "a.example", "--max-body", "x"), ("allow", "@nobody"),
    ("deny", "a.example", "--private"), ("allow", "a.example", "--user", "--project"), ("rm",), ("allow", "a.example", "--sandbox", "1"),
])
def test_what_cannot_be_meant_changes_nothing(user_runner, args):
    r = policy(user_runner, *args)
    assert r.rc == 64 and r.err.startswith(b"bawn: "), r
    assert not (user_runner.home / USER).exists()


def test_many_writers_lose_nothing(user_runner):
    running = [user_runner.popen(user_runner.path, "policy", "allow", f"h{i}.example", stderr=-3) for i in range(12)]
    assert [p.wait() for p in running] == [0] * 12
    assert {r["host"] for r in rules(user_runner.home / USER)} == {f"h{i}.example" for i in range(12)}


def test_an_exception_behind_a_denial_is_told(user_runner):
    policy(user_runner, "deny", "a.example")
    r = policy(user_runner, "allow", "a.example")
    assert r.rc == 0 and b"it is still denied: Rule 'deny-a.example' (user) denies a.example." in r.err, r
    assert b"still" not in policy(user_runner, "allow", "a.example", "--first").err
    assert explain(user_runner, "a.example:1")["action"] == "allow"


def test_project_rules_need_trust(runner):
    """Claim: a rule in the workspace that nobody trusts cannot allow anything, but can deny (the inside never widens the outside)."""
    file = write(runner, PROJECT, {"mode": "full", "rules": [{"action": "allow", "host": "evil.example"}, {"action": "deny", "host": "pypi.org"}]})
    assert explain(runner, "evil.example:443")["action"] == "ask"
    assert explain(runner, "pypi.org:443")["layer"] == "project"
    r = policy(runner, "ls")
    assert b"can only deny" in r.out and b"the project is not trusted" in r.err, r
    shown = runner.bawn("trust", "--show")
    assert b"/.bawn/network.json: untrusted" in shown.out and b"evil.example" in shown.out and b"mode 'full'" in shown.out, shown
    assert runner.bawn("trust", "--yes").rc == 0
    assert explain(runner, "evil.example:443")["rule"] == "rule-1" and explain(runner, "other.example:22")["action"] == "allow"
    file.write_text(file.read_text() + "\n")
    assert explain(runner, "evil.example:443")["action"] == "ask", "changed content can only deny again"
    assert runner.bawn("trust", "--yes").rc == 0
    assert runner.bawn("trust", "--show", "--json").json()["state"] == "trusted"
    assert runner.bawn("trust", "--revoke").rc == 0
    assert runner.bawn("trust", "--show", "--json").json()["files"][0]["state"] == "untrusted"


def test_what_the_user_adds_to_a_project_is_trusted(user_runner):
    r = policy(user_runner, "allow", "host.bawn.internal:11434", "--project")
    assert r.rc == 0 and b"trust" not in r.err, r
    file = user_runner.workspace / PROJECT
    assert stat.S_IMODE(file.stat().st_mode) == 0o644 and rules(file)[0]["allow_private"] is True
    v = explain(user_runner, "host.bawn.internal:11434")
    assert (v["action"], v["layer"], v["stage"]) == ("allow", "project", "address")
    assert policy(user_runner, "allow", "b.example", "--project").rc == 0
    assert explain(user_runner, "b.example:1")["action"] == "allow"
    file.write_text(json.dumps({"rules": [{"action": "allow", "host": "evil.example"}]}))
    r = policy(user_runner, "allow", "c.example", "--project")
    assert r.rc == 0 and b"until you have read and trusted them" in r.err, r
    assert explain(user_runner, "evil.example:1")["action"] == "ask", "the user's own word does not make the rest trusted"


@pytest.mark.parametrize("link", ["folder", "file"])
def test_project_rules_are_not_written_through_links(user_runner, link):
    """Claim: an agent that puts a link where the project's rules belong does not get the user to write elsewhere."""
    target = user_runner.mkdir(user_runner.top / "target")
    victim = write(user_runner, target / "network.json", "{}")
    if link == "folder":
        (user_runner.workspace / ".bawn").symlink_to(target)
    else:
        user_runner.mkdir(user_runner.workspace / ".bawn")
        (user_runner.workspace / PROJECT).symlink_to(victim)
    for args in (("allow", "a.example", "--project"), ("ls",), ("explain", "a.example")):
        r = policy(user_runner, *args)
        assert r.rc in (64, 125) and r.err.startswith(b"bawn: "), r
    assert victim.read_text() == "{}" and sorted(p.name for p in target.iterdir()) == ["network.json"]


def test_settings_have_a_layer(user_runner):
    write(user_runner, user_runner.home / CONFIG, {"sandbox": {"networkAllow": ["a.example:443", "@git", "b.example", "c.example"], "networkDeny": ["b.example"]}})
    write(user_runner, user_runner.home / USER, {"rules": [{"action": "deny", "host": "a.example"}]})
    assert explain(user_runner, "c.example:443")["layer"] == "settings"
    assert explain(user_runner, "a.example:443")["layer"] == "user", "settings do not overrule a deny"
    assert explain(user_runner, "a.example:443", "--allow", "a.example:443")["layer"] == "sandbox"
    assert explain(user_runner, "a.example:443", "--allow", "*.example")["layer"] == "user"
    assert explain(user_runner, "a.example:80")["layer"] == "user"
    assert explain(user_runner, "b.example:443")["rule"] == "deny-b.example"
    assert explain(user_runner, "d.example:443", "--deny", "d.example")["layer"] == "sandbox"
    write(user_runner, user_runner.home / CONFIG, {"sandbox": {"networkAllow": ["127.1"]}})
    r = policy(user_runner, "ls")
    assert r.rc == 64 and b"networkAllow (user (" in r.err, r


FLAGS = {
    ("--allow", "a.example:443", "--allow", "@git", "--deny", "*.b.example", "--publish", "3000", "--publish", "3000:8080", "--ask", "wait", "--ask-timeout", "5m"): b"",
    ("--allow", "127.1"): b"networkAllow (flag --allow): ",
    ("--deny", "a b"): b"--deny: a host has no spaces",
    ("--allow", "@nobody"): b"there is no group '@nobody'",
    ("--publish", "0"): b"--publish: '0' must be a port",
    ("--publish",): b"needs an argument",
    ("--ask", "perhaps"): b"--ask: 'perhaps' is not known",
    ("--ask-timeout", "1ms"): b"--ask-timeout: '1ms' must be a time from 1s to 24h",
}


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_flags_of_run(user_runner, flags):
    r = user_runner.bawn("run", "--dry-run", *flags, "--", "true") if len(flags) > 1 else user_runner.bawn("run", *flags)
    assert r.rc == (64 if FLAGS[flags] else 0) and FLAGS[flags] in r.err, r


def test_ls(user_runner):
    write(user_runner, user_runner.home / USER, {"rules": [{"id": "u", "action": "ask", "host": "u.example", "comment": "\x1b[31mred"}]})
    got = policy(user_runner, "ls", "--json").json()
    assert (got["mode"], got["unlisted"], got["origin"]) == ("list", "ask", "built-in")
    assert [layer["layer"] for layer in got["layers"]] == ["user", "built-in"]
    assert got["layers"][0]["file"] == str(user_runner.home / USER) and got["layers"][0]["rules"][0]["id"] == "u"
    assert "pypi.org" in got["groups"]["@registries"] and "github.com" in got["groups"]["@git"]
    text = policy(user_runner, "ls")
    assert text.out.index(b"u.example") < text.out.index(b"@registries") and b"\x1b" not in text.out, text
    assert b"\nregistry.npmjs.org\n" in policy(user_runner, "ls", "--groups").out


def test_test(user_runner):
    write(user_runner, "cases", "# a comment\n\nallow pypi.org:443   # why\nallow  example.com:443\ndeny github.com:443 GET /x\nask example.org\n")
    r = policy(user_runner, "test", "cases")
    assert r.rc == 1 and r.out.count(b"\n") == 3 and b"2 of 4 cases hold" in r.out, r
    assert b"line 4: wanted allow, got ask (BAWN_NET_ASK) for example.com:443" in r.out and b"line 5: wanted deny, got allow" in r.out, r
    write(user_runner, "alone.json", {"rules": [{"action": "allow", "host": "only.example"}]})
    write(user_runner, "cases", "allow only.example:1\ndeny pypi.org:443\n")
    r = policy(user_runner, "test", "--rules", "alone.json", "cases")
    assert (r.rc, r.out) == (0, b"2 of 2 cases hold\n"), r


@pytest.mark.parametrize("text", ["allow\n", "perhaps a.example\n", "allow a.example GET\n", "allow a.example GET / x\n", "allow a.example address=nowhere\n", "allow " + "x" * 20000], ids=lambda text: text[:30].strip())
def test_test_usage(user_runner, text):
    write(user_runner, "cases", text)
    r = policy(user_runner, "test", "cases")
    assert r.rc == 64 and b"cases:1: " in r.err, r


def line(time="2026-01-31T12:00:00.000Z", **more):
    return json.dumps({"time": time, "sandbox": "box", "kind": "connection", "action": "deny", "code": "BAWN_NET_DENIED_HOST", "host": "a.example", "port": 443, "rule": "", "layer": "mode", **more})


def test_log(user_runner):
    log = user_runner.home / LOG
    assert policy(user_runner, "log").out == b""
    write(user_runner, str(log) + ".1", line("2026-01-30T12:00:00.000Z", host="old.example") + "\n")
    write(user_runner, log, "\n".join([
        line(), line(action="allow", host="b.example", rule="r", layer="user"), line("2026-02-01T00:00:00.000Z", sandbox="other", host="c.example"),
        "not json", "[]", "x" * 100000, line(host="\x1b]0;evil\x07"), line("2026-03-01T00:00:00.000Z", kind="end", sent=5, received=7, ms=1.5),
    ]) + "\n")
    hosts = lambda *args: [json.loads(x)["host"] for x in policy(user_runner, "log", "--json", *args).out.splitlines()]
    assert hosts()[:4] == ["old.example", "a.example", "b.example", "c.example"] and len(hosts()) == 6
    assert hosts("-n", "2") == ["\x1b]0;evil\x07", "a.example"]
    assert hosts("--sandbox", "other") == ["c.example"] and hosts("--host", "b.example") == ["b.example"]
    assert "b.example" not in hosts("--denied") and "c.example" in hosts("--denied")
    assert hosts("--since", "2026-02-01") == ["c.example", "a.example"] and hosts("--since", "1ms") == []
    text = policy(user_runner, "log").out
    assert b"\x1b" not in text and b"\x07" not in text
    assert b"2026-01-31T12:00:00.000Z box deny connection a.example:443 BAWN_NET_DENIED_HOST\n" in text
    assert b"box allow connection b.example:443 rule 'r' (user)\n" in text and b"end a.example:443 sent 5 received 7 in 1 ms\n" in text
    for args in (("--since", "soon"), ("-n", "0"), ("--lines", "x"), ("word",)):
        assert policy(user_runner, "log", *args).rc == 64
    for since in ("2026-1-5", "1-", "05-01-2026", "2026-01-31 12:00"):
        assert policy(user_runner, "log", "--since", since).rc == 64


def test_log_follows(user_runner):
    log = write(user_runner, user_runner.home / LOG, line(host="one.example") + "\n")
    proc = user_runner.popen(user_runner.path, "policy", "log", "-f", "--json", stdout=-1)
    try:
        read = lambda: json.loads(proc.stdout.readline())["host"]
        assert read() == "one.example"
        with log.open("a") as f:
            f.write(line(host="two.example") + "\n")
        assert read() == "two.example"
        log.rename(str(log) + ".1")
        write(user_runner, log, line(host="three.example") + "\n")
        assert read() == "three.example"
    finally:
        proc.kill()
        proc.wait()


@contextlib.contextmanager
def supervisor(runner, pid, answers):
    """A control socket that records requests; answers: {cmd: object}."""
    folder = runner.home / "runtime" / "bawn"
    for path in (folder.parent, folder):
        if not path.exists():
            runner.mkdir(path, 0o700)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / f"{pid}.sock"))
    runner.own(folder / f"{pid}.sock")
    server.listen(8)
    seen = []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                conn, _ = server.accept()
                with conn, conn.makefile("rwb") as f:
                    request = f.readline()
                    if request:
                        seen.append(json.loads(request))
                        f.write(json.dumps(answers[seen[-1]["cmd"]]).encode() + b"\n")

    threading.Thread(target=serve, daemon=True).start()
    yield seen
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def test_questions_of_running_sandboxes(runner):
    env = {"XDG_RUNTIME_DIR": str(runner.home / "runtime")}
    pending = {"ok": True, "pending": [{"id": 3, "host": "a.example", "port": 443, "method": "GET", "path": "/\x1b[2J", "reason": "no rule"}]}
    answers = {"pending": pending, "answer": {"ok": True}, "allow": {"ok": True, "id": "allow-x.example"}, "deny": {"ok": False, "error": "no\x1b"},
               "rules": {"ok": True, "mode": "unset", "layers": [{"layer": "session", "file": "this run", "narrow_only": False, "text": "{\n}\n"}]}}
    assert b"no sandbox is waiting" in policy(runner, "pending", env=env).err
    with supervisor(runner, 4711, answers) as first:
        r = policy(runner, "pending", env=env)
        assert r.out == b"4711-3  a.example:443 GET /\\x1b[2J  no rule\n", r
        assert policy(runner, "pending", "--json", env=env).json()[0]["ask"] == "4711-3"
        assert policy(runner, "approve", "3", "--session", env=env).rc == 0
        assert first[-1] == {"cmd": "answer", "id": 3, "answer": "session"}
        assert policy(runner, "reject", "4711-3", env=env).rc == 0
        assert first[-1] == {"cmd": "answer", "id": 3, "answer": "deny"}
        with supervisor(runner, 4712, answers) as second:
            r = policy(runner, "approve", "3", env=env)
            assert r.rc == 64 and b"several sandboxes" in r.err, r
            assert policy(runner, "approve", "4712-3", env=env).rc == 0
            assert second[-1] == {"cmd": "answer", "id": 3, "answer": "once"}
        for bad in (("approve", "9"), ("approve", "x"), ("approve",), ("approve", "3", "--once", "--always"), ("reject", "4799-3")):
            assert policy(runner, *bad, env=env).rc == 64
        r = policy(runner, "allow", "x.example:443", "--sandbox", "4711", env=env)
        assert r.rc == 0 and b"rule 'allow-x.example' holds for sandbox 4711" in r.err, r
        assert first[-1] == {"cmd": "allow", "rule": {"action": "allow", "host": "x.example", "ports": [443]}}
        r = policy(runner, "deny", "x.example", "--sandbox", "4711", env=env)
        assert r.rc == 125 and b"no\\x1b" in r.err and b"\x1b" not in r.err, r
        r = policy(runner, "ls", "--sandbox", "4711", env=env)
        assert r.out == b"session: this run\n{\n}\n", r
    assert not (runner.home / USER).exists()
