# SPDX-License-Identifier: Apache-2.0
"""A kernel without packet rules: only well-known ports lead to the gate. Programs find the proxy then, and denied names do not exist."""

import importlib.util
import pathlib

import pytest

SPEC = importlib.util.spec_from_file_location("degraded_conftest", pathlib.Path(__file__).resolve().parent.parent / "degraded" / "conftest.py")
degraded = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(degraded)
deny = degraded.deny

PROXY = "http://127.0.0.1:15001"
NAMES = ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "http_proxy", "https_proxy"]


@pytest.fixture
def sandbox(net, deny):
    def run(script, **more):
        done = net.outside(deny, "nftables", "--", *net.command("sh", "-c", script, allow=["ok.example.com"], **more))
        assert b"only well-known TCP ports lead to the network" in done.err, done
        return done

    return run


def test_the_proxy_is_named(sandbox):
    """In the run's command, and nowhere where the user named another."""
    r = sandbox("env | grep -i _proxy=")
    found = dict(line.split("=", 1) for line in r.out.decode().split())
    assert found.keys() == {*NAMES, "NO_PROXY", "no_proxy"} and {found[n] for n in NAMES} == {PROXY}, r
    assert found["NO_PROXY"] == found["no_proxy"] and {"localhost", "127.0.0.1", "::1"} <= set(found["no_proxy"].split(",")), r
    r = sandbox("env | grep -i https_proxy=; env | grep BAWN_PROXY", options=["--env", "Https_Proxy=http://corp.example:3128"])
    assert r.out == b"Https_Proxy=http://corp.example:3128\n", r


def test_what_is_allowed_works_on_every_port_through_it(net, sandbox):
    net.rules({"action": "allow", "host": "ok.example.com"})
    r = sandbox("for u in http://ok.example.com/ https://ok.example.com/ http://ok.example.com:8080/; do curl -sS -o /dev/null -w '%{http_code}\n' $u; done; "
                "env -u http_proxy curl -sS -o /dev/null -w '%{http_code}\n' http://ok.example.com/")
    assert r.out == b"200\n" * 4, r


def test_denied_names_do_not_exist(net, sandbox):
    """Their ports might not lead to the gate. What the proxy refuses has the line behind the status."""
    r = sandbox("getent ahosts evil.example.net; echo $?; curl -sSv https://evil.example.net/")
    assert r.out == b"2\n" and b"403 Bawn denied evil.example.net:443 (no rule allows it), see http://bawn.internal/why" in r.err, r
    r = sandbox("curl -sS http://evil.example.net/")
    assert r.out.startswith(b"Bawn denied evil.example.net:80 "), r
    assert net.queries() == [] and net.hits() == []
