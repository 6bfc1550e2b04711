# SPDX-License-Identifier: Apache-2.0
"""Rules that allow more than their author meant: wildcards that reach this machine, wide rules that overrule a narrow deny, other spellings of what is denied."""

import json

import pytest

from attack_tools import inside, outside, recorder

PORT = 8082
HOME = {"loop": "127.0.0.1", "loop2": "127.8.8.8", "six": "::1", "mapped": "::ffff:127.0.0.1", "any": "0.0.0.0", "lan": "172.31.0.1", "public": "11.255.0.2",
        "six-lan": "fd99::1", "link": "169.254.7.7", "metadata": "169.254.169.254", "compatible": "::7f00:1", "nat64": "64:ff9b::7f00:1", "sixtofour": "2002:7f00:1::1"}


@pytest.fixture
def machine(net):
    """A service on every address of this machine, and names of a private zone that lead to it."""
    near = recorder(net, f"tcp:[::]:{PORT}", pid=net.world.outer)
    net.names.update({f"{name}.corp.example.com": [address] for name, address in HOME.items()})
    net.names["db.corp.example.com"] = ["10.0.0.5"]
    net.save_names()
    net.near = near
    return net


def knock(names, port=PORT):
    return f"""
shown({{name: refusable(lambda: talk(socket.create_connection((name, {port})), get(name.encode())))() for name in {names!r}}})
"""


# --- allow_private -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["**.corp.example.com", "*.corp.example.com", "**"])
def test_private_wildcard_does_not_reach_this_machine(machine, host):
    """Claim: allow_private of a rule with a wildcard means the private networks, never this machine, link-local or metadata addresses."""
    names = [f"{name}.corp.example.com" for name in HOME]
    control = outside(machine, knock(["loop.corp.example.com", "lan.corp.example.com"])).json()
    assert all("got there" in answer for answer in control.values()), control
    machine.rules({"action": "allow", "host": host, "allow_private": True})
    reached = len(machine.near())
    found = inside(machine, knock(names + ["localhost", "host.bawn.internal"]))
    assert {name: answer for name, answer in found.items() if "got there" in answer} == {}
    assert len(machine.near()) == reached


def test_private_wildcard_still_reaches_private_networks(machine):
    """The harmless twin: a database in a private network is what the word is for."""
    machine.rules({"action": "allow", "host": "**.corp.example.com", "allow_private": True})
    assert " 200 " in inside(machine, knock(["db.corp.example.com"], 80))["db.corp.example.com"]


def test_exact_name_reaches_this_machine(machine):
    """The other twin: a name without wildcard may lead to this machine, if the rule says so."""
    machine.rules({"action": "allow", "host": ["loop.corp.example.com", "lan.corp.example.com"], "allow_private": True})
    found = inside(machine, knock(["loop.corp.example.com", "lan.corp.example.com"]))
    assert all("got there" in answer for answer in found.values()), found


# --- layers ------------------------------------------------------------------------------------------------------------------

DENY = {"id": "mine", "action": "deny", "host": "evil.example.com"}


def project_rules(net, *rules):
    folder = net.runner.workspace / ".bawn"
    net.runner.mkdir(folder)
    file = folder / "network.json"
    file.write_text(json.dumps({"rules": list(rules)}))
    net.runner.own(file)
    assert net.bawn("trust", "--yes").rc == 0


@pytest.fixture
def evil(net):
    net.names["evil.example.com"] = ["11.0.0.10"]
    net.save_names()
    control = outside(net, knock(["evil.example.com"], 80)).json()
    assert " 200 " in control["evil.example.com"], control
    net.forget()
    return net


@pytest.mark.parametrize("allow", ["**.example.com", "*.example.com", "**"])
def test_wide_flag_does_not_overrule_my_deny(evil, allow):
    """Claim: --allow with a wildcard leaves what my own rules deny denied; the rest of the wildcard works, and so does the exact name."""
    evil.rules(DENY)
    found = inside(evil, knock(["evil.example.com", "ok.example.com"], 80), allow=[allow])
    assert " 200 " not in found["evil.example.com"] and " 200 " in found["ok.example.com"], found
    assert [h["host"] for h in evil.hits(kind="request") if h.get("host", "").startswith("evil")] == []
    said = evil.bawn("policy", "explain", "--allow", allow, "evil.example.com:80")
    assert said.rc == 1 and b"'mine'" in said.out and b"does not overrule" in said.out, said
    assert " 200 " in inside(evil, knock(["evil.example.com"], 80), allow=["evil.example.com"])["evil.example.com"]


@pytest.mark.parametrize("allow", ["**.example.com", "evil.example.com"])
def test_trusted_project_does_not_overrule_my_deny(evil, allow):
    """Claim: a project, trusted or not, never allows what my own rules deny; what they do not mention it does allow."""
    evil.rules(DENY)
    project_rules(evil, {"action": "allow", "host": [allow, "ok.example.com"]})
    found = inside(evil, knock(["evil.example.com", "ok.example.com"], 80))
    assert " 200 " not in found["evil.example.com"] and " 200 " in found["ok.example.com"], found


def test_trusted_projects_settings_do_not_overrule_my_deny(evil):
    """Claim: nor does networkAllow in its config.json."""
    evil.rules(DENY)
    folder = evil.runner.workspace / ".bawn"
    evil.runner.mkdir(folder)
    (folder / "config.json").write_text(json.dumps({"sandbox": {"networkAllow": ["evil.example.com", "ok.example.com"]}}))
    evil.runner.own(folder / "config.json")
    assert evil.bawn("trust", "--yes").rc == 0
    found = inside(evil, knock(["evil.example.com", "ok.example.com"], 80))
    assert " 200 " not in found["evil.example.com"] and " 200 " in found["ok.example.com"], found


# --- by address --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["full", "limited"])
def test_denied_name_by_address(evil, mode):
    """Claim: where a rule denies a host by name, connections by address need a rule of their own: else the address is the way around."""
    script = knock(["11.0.0.10"], 80)
    free = inside(evil, script, options=["--network", mode])
    assert " 200 " in free["11.0.0.10"], free
    evil.rules(DENY)
    found = inside(evil, script, options=["--network", mode])
    assert " 200 " not in found["11.0.0.10"] and "BAWN_NET_NOT_HANDED_OUT" in found["11.0.0.10"], found
    said = evil.bawn("policy", "explain", "--network", mode, "11.0.0.10:80")
    assert said.rc == 1 and b"'mine'" in said.out, said
    named = inside(evil, script, allow=["11.0.0.10"], options=["--network", mode])
    assert " 200 " in named["11.0.0.10"], named


def test_explain_says_that_a_deny_by_name_is_not_complete(evil):
    evil.rules(DENY)
    said = evil.bawn("policy", "explain", "--network", "full", "evil.example.com:443")
    assert said.rc == 1 and b"another name" in said.out, said


# --- by path -----------------------------------------------------------------------------------------------------------------

SPELLINGS = ["/admin", "/Admin", "/ADMIN/", "/%61dmin", "/%41dmin", "//admin", "/./admin", "/x/../admin", "/admin;a=b", "/admin%3Ba", "/x;a/../admin", "/admin.",
             "/admin%20", "/admin/", "/admin/.", "/admin%2F", "/%2Fadmin", "/a%64min?q", "/%2561dmin", "/admi%EF%BD%8E", "/admin;/", "/;a/admin", "/secret/%2e%2e/admin"]


def test_denied_path_by_another_spelling(evil):
    """Claim: a deny by path covers every spelling that a server may take for it. Paths that only look similar still work."""
    evil.rules({"action": "deny", "host": "ok.example.com", "paths": ["/admin"]}, {"action": "allow", "host": "ok.example.com"})
    fine = ["/", "/administrator", "/admin/users", "/x/admin", "/adm%C3%ADn%C3%A9s", "/a;b/c"]
    found = inside(evil, f"""
shown({{path: talk(socket.create_connection(("ok.example.com", 80)), get(b"ok.example.com", path.encode())) for path in {SPELLINGS + fine!r}}})
""")
    assert [path for path in SPELLINGS if " 403 " not in found[path]] == []
    assert [path for path in fine if " 200 " not in found[path]] == []
