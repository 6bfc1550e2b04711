# SPDX-License-Identifier: Apache-2.0
"""Bawn in a container as most are: docker's or podman's own seccomp profile, an ordinary user, no capabilities, no new privileges, no user namespaces. There it is the
landlock rung, with a network by rules (inside_container.py). Agents, ssh and `make try` are in test_inside_agents.py."""

import pytest

from network_fixtures import servers

OK = ["ok.example.com"]


def test_the_container_is_as_most_are(contained):
    """With the engine's own filter, and nothing that an ordinary user does not have."""
    status = dict(line.split(":\t") for line in contained.outside("cat", "/proc/self/status").out.decode().splitlines() if ":\t" in line)
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1") and {status[f"Cap{s}"] for s in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}, status
    assert set(status["Uid"].split()) == {str(contained.runner.user.pw_uid)}
    assert contained.outside("unshare", "--user", "--uts", "--map-root-user", "hostname", "x").rc != 0, "this container has all namespaces"


def test_names_are_judged_in_a_container_without_user_namespaces(contained):
    """Claim: in an ordinary container nothing reaches an address that was not judged, and allowed names work."""
    assert contained.outside("curl", "-s", "http://evil.example.net/").rc == 0 and contained.hits(to="11.0.0.11"), "without a sandbox it is reached"
    contained.forget()
    r = contained.sandbox("curl", "-sS", "-w", "%{http_code}", "http://ok.example.com/", "https://ok.example.com/", allow=OK)
    assert r.out.count(b"200") == 2 and b"landlock rung" in r.err, r
    r = contained.sandbox("curl", "-sS", "-w", "%{http_code}", "http://evil.example.net/", allow=OK)
    assert r.out.endswith(b"403"), r
    r = contained.sandbox("curl", "-sS", "--noproxy", "*", "--connect-timeout", "20", "http://11.0.0.11/", allow=OK)
    assert b"BAWN_NET_NOT_HANDED_OUT" in r.out, r
    assert {h["to"] for h in contained.hits()} == {"11.0.0.10"} and not any("evil" in q for q in contained.queries())


def test_files_outside_of_the_workspace_are_out_of_reach(contained):
    runner = contained.runner
    secret = runner.write(runner.home / ".ssh/id", "bawn-secret-key\n", 0o600)
    assert contained.outside("cat", secret).out == b"bawn-secret-key\n"
    r = contained.sandbox("sh", "-c", f"cat {secret}; echo x > {runner.home}/planted; echo made > made; id -u", allow=OK)
    assert r.rc == 0 and r.out == b"%d\n" % runner.user.pw_uid, r
    assert not (runner.home / "planted").exists() and (runner.workspace / "made").read_text() == "made\n"


@pytest.fixture
def nginx(inter_net):
    server = servers.nginx(inter_net)
    yield server
    server.end()


WORK = """
git clone -q https://dev.example.com/demo.git one && cat one/README
npm="npm --registry https://dev.example.com/npm/ --no-audit --no-fund --no-update-notifier"
mkdir js && cd js && echo '{"name": "x", "version": "1.0.0", "dependencies": {"demo": "1.0.0"}}' > package.json
$npm install >/dev/null && rm -rf node_modules && $npm ci >/dev/null && ls node_modules && cd ..
python3 -m pip --disable-pip-version-check install -q --no-deps --target lib --index-url https://dev.example.com/simple/ demo && ls lib
"""


def test_a_days_work_through_the_gate(contained, nginx):
    """git clone, npm ci and pip install in an ordinary container, from one host that is allowed, and from none if it is not."""
    r = contained.sandbox("sh", "-ec", WORK, allow=["dev.example.com"])
    assert r.rc == 0 and b"landlock rung" in r.err and r.out.count(b"demo") >= 2, r
    r = contained.sandbox("git", "clone", "-q", "https://dev.example.com/demo.git", "none", allow=OK)
    assert r.rc != 0 and not (contained.runner.workspace / "none").exists(), r
