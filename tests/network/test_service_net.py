# SPDX-License-Identifier: Apache-2.0
"""bawnd with a network: what its runs send counts, repositories come through the gate, and the organisation's rules are the floor of every tenant."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "service"))
import http_driver  # noqa: E402
import servers  # noqa: E402


@pytest.fixture(scope="module")
def nginx(inter_net):
    server = servers.nginx(inter_net)
    yield server
    server.end()


@pytest.fixture
def serve(net):
    made = []

    def start(**conf):
        made.append(http_driver.Service(net.runner, popen=net.popen, **conf))
        return made[-1]

    yield start
    for s in made:
        s.stop()


def run(service, token, *command, allow=(), **shape):
    body = {"command": list(command), "shape": {"network": {"allow": list(allow)}, **shape}, "wait": 300}
    status, made, _ = service.call("POST", "/v1/runs", body, token=token)
    assert status == 201 and made["state"] in ("done", "failed"), made
    made["stdout"] = service.call("GET", f"/v1/runs/{made['id']}/output/stdout", token=token)[1].decode()
    return made


def metrics(service):
    text = service.call("GET", "/v1/metrics")[1].decode()
    return {m[1]: int(m[2]) for m in re.finditer(r"^bawn_(\S*network\S*) (\d+)$", text, re.M)}


def test_verdicts_are_counted(serve):
    service = serve()
    one, two = service.token("one"), service.token("two")
    before = metrics(service)
    assert set(before.values()) == {0} and 'network_verdicts_total{verdict="denied",code="BAWN_NET_DENIED_HOST"}' in before
    script = "curl -s http://ok.example.com/; curl -s http://evil.example.net/; curl -s http://evil.example.net/; true"
    assert run(service, one, "sh", "-c", script, allow=["ok.example.com"])["status"] == 0
    assert run(service, two, "curl", "-s", "http://evil.example.net/")["status"] in (0, 22, 56)
    after = metrics(service)
    assert after['network_verdicts_total{verdict="allowed",code="BAWN_NET_ALLOWED"}'] == 1, after
    assert after['network_verdicts_total{verdict="denied",code="BAWN_NET_DENIED_HOST"}'] >= 3
    assert after['network_bytes_total{direction="sent"}'] > 20 < after['network_bytes_total{direction="received"}']
    assert after['tenant_network_verdicts_total{tenant="one",verdict="denied"}'] >= 2
    assert after['tenant_network_verdicts_total{tenant="two",verdict="allowed"}'] == 0 == after['tenant_network_bytes_total{tenant="two",direction="sent"}']
    assert after['tenant_network_bytes_total{tenant="one",direction="sent"}'] == after['network_bytes_total{direction="sent"}']


UPLOAD = ["sh", "-c", "head -c 700000 /dev/zero | curl -sS -T - https://dev.example.com/up/file"]


def used(service, token):
    return service.call("GET", "/v1/me", token=token)[1]["usage"]["bytes_out_per_hour"]


def codes(made):
    return [r["code"] for r in made["result"]["network"]["refused"]]


def test_bytes_out(serve, nginx):
    """Claim: what a run has sent through its gate counts for the hour; past the quota its connections are cut, the next run is refused, and another
    tenant's is not."""
    service = serve()
    token, free = service.token("loud", quotas={"bytes_out_per_hour": 1 << 20}), service.token("free")
    assert run(service, token, *UPLOAD, allow=["dev.example.com"])["status"] == 0
    assert 700000 <= used(service, token) < 1 << 20
    made = run(service, token, *UPLOAD, allow=["dev.example.com"])
    assert made["status"] != 0 and codes(made) == ["BAWN_NET_QUOTA"], made
    assert used(service, token) >= 1 << 20
    status, problem, headers = service.call("POST", "/v1/runs", {"command": ["true"]}, token=token)
    assert (status, problem["code"]) == (429, "quota") and int(headers["Retry-After"]) >= 1, problem
    assert run(service, free, *UPLOAD, allow=["dev.example.com"])["status"] == 0


@pytest.mark.parametrize("url", ["https://dev.example.com/up/file", "http://dev.example.com/up/file"])
def test_a_running_upload_is_cut(serve, nginx, url):
    """Claim: a run that sends without end is cut when the quota is used up, with a code; relayed and inspected. Others of the tenant are refused in words."""
    service = serve()
    token = service.token("loud", quotas={"bytes_out_per_hour": 3 << 20})
    script = f"curl -sS -T - {url} < /dev/zero; echo $?; curl -s http://dev.example.com/; env | grep BAWN_METER"
    made = run(service, token, "sh", "-c", script, allow=["dev.example.com"])
    first, *rest = made["stdout"].splitlines()
    assert int(first) != 0 and "BAWN_NET_QUOTA" in "".join(rest) and "BAWN_METER" not in made["stdout"], made
    assert set(codes(made)) == {"BAWN_NET_QUOTA"}
    assert 3 << 20 <= used(service, token) < 64 << 20  # what was on its way


def test_bytes_of_a_sandbox(serve, nginx):
    """Claim: what a persistent sandbox sends counts while it runs, over a kill -9 of bawnd, too; a larger quota lets it go on."""
    service = serve()
    token = service.token("kept", quotas={"bytes_out_per_hour": 1 << 20})
    status, box, _ = service.call("POST", "/v1/sandboxes", {"shape": {"network": {"allow": ["dev.example.com"]}}}, token=token)
    assert status == 201, box

    def upload():
        return service.call("POST", f"/v1/sandboxes/{box['id']}/exec", {"command": UPLOAD}, token=token)[1]["status"]

    assert upload() == 0
    while used(service, token) < 700000:
        pass
    service.proc.kill()
    service.proc.wait()
    service.start()
    assert 700000 <= used(service, token) < 1 << 20
    assert upload() != 0
    while used(service, token) < 1 << 20:
        pass
    assert service.call("POST", "/v1/runs", {"command": ["true"]}, token=token)[0] == 429
    assert service.call("PATCH", "/v1/tenants/kept", {"bytes_out_per_hour": 1 << 30})[0] == 200
    while upload() != 0:
        pass
    assert service.call("DELETE", f"/v1/sandboxes/{box['id']}", token=token)[0] == 204


def test_a_repository_through_the_gate(serve, nginx, net):
    """Claim: a repository is cloned inside, through the gate: its host is reached for the clone, and not by the run."""
    service = serve()
    token = service.token()
    made = run(service, token, "sh", "-c", "cat README; git log --format=%s; git rev-parse --abbrev-ref HEAD; curl -sf https://dev.example.com/demo.git/HEAD || echo closed",
               source={"git": "https://dev.example.com/demo.git", "branch": "topic"})
    assert made["stdout"].splitlines() == ["from the server", "first", "topic", "closed"], made
    status, box, _ = service.call("POST", "/v1/sandboxes", {"shape": {"source": {"git": "https://dev.example.com/demo.git"}}}, token=token)
    assert status == 201, box
    assert service.call("GET", f"/v1/sandboxes/{box['id']}/file?path=README", token=token)[1] == b"from the server\n"
    assert service.call("DELETE", f"/v1/sandboxes/{box['id']}", token=token)[0] == 204


def test_the_floor_of_the_organisation(serve, nginx, net, floor):
    """Claim: rules in /etc/bawn are the floor of every tenant's runs, sandboxes and clones; neither a request nor a tenant's own rule goes below it."""
    service = serve()
    token = service.token()
    fetch = ["curl", "-sf", "-o", "/dev/null", "https://dev.example.com/demo.git/HEAD"]
    assert run(service, token, *fetch, allow=["dev.example.com"])["status"] == 0, "it works without the floor"
    floor({"host": "dev.example.com", "action": "deny"}, {"host": "ok.example.com", "action": "allow"})
    assert run(service, token, *fetch, allow=["dev.example.com"])["status"] != 0
    assert service.call("POST", "/v1/policy/rules", {"action": "allow", "host": "dev.example.com"}, token=token)[0] in (200, 201, 204)
    assert run(service, token, *fetch)["status"] != 0
    cloned = run(service, token, "true", source={"git": "https://dev.example.com/demo.git"})
    assert cloned["state"] == "failed" and "clone the repository" in cloned["reason"], cloned
    box = service.call("POST", "/v1/sandboxes", {"shape": {"network": {"allow": ["dev.example.com"]}}}, token=token)[1]["id"]
    assert service.call("POST", f"/v1/sandboxes/{box}/exec", {"command": fetch}, token=token)[1]["status"] != 0
    assert service.call("DELETE", f"/v1/sandboxes/{box}", token=token)[0] == 204
    assert run(service, service.token("other"), "curl", "-sf", "-o", "/dev/null", "http://ok.example.com/", allow=["ok.example.com"])["status"] == 0
