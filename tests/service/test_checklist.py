# SPDX-License-Identifier: Apache-2.0
"""The production checklist and the minimum controls of a multi-tenant service: each line is the name of a test."""

import json
import os
import re

import pytest


def run(service, token, *command, wait=100, **fields):
    status, made, _ = service.call("POST", "/v1/runs", {"command": list(command), "wait": wait, **fields}, token=token)
    assert status == 201, made
    out = service.call("GET", f"/v1/runs/{made['id']}/output/stdout", token=token)[1]
    return made, out.decode()


# -- production checklist -------------------------------------------------------------------------------------------------------------------


def test_use_the_strongest_sandbox_backend_available(service):
    """Without being asked the service uses the engine and the rung that enforce most here, and each run says which."""
    token = service.token()
    result = run(service, token, "true")[0]["result"]
    assert (result["engine"], result["rung"]) == ("native", "full")
    engines = service.call("GET", "/v1/engines", token=token)[1]
    assert "native" in json.dumps(engines)
    status, problem, _ = service.call("POST", "/v1/runs", {"command": ["true"], "shape": {"engine": "no-such"}, "wait": 100}, token=token)
    assert status >= 400 or problem["state"] == "failed"  # never another, weaker one


def test_do_not_forward_host_docker_socket_to_untrusted_agents(service):
    made, out = run(service, service.token(), "sh", "-c", "ls -d /var/run/docker.sock /run/docker.sock /run/podman /run/containerd 2>/dev/null; echo end")
    assert out == "end\n", made


def test_do_not_forward_host_secrets_implicitly(service, monkeypatch):
    """Nothing of the service's environment or home, and no variable that was not named, is inside."""
    token = service.token()
    for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "ANTHROPIC_API_KEY"):
        assert name not in run(service, token, "env")[1]
    _, out = run(service, token, "env", env={"NAMED": "yes"})
    assert "NAMED=yes" in out.splitlines()
    _, out = run(service, token, "sh", "-c", f"ls -A ~ /root {service.top}/state 2>/dev/null | grep -E 'bawnd.db|ssh|aws|secrets'; echo end")
    assert out == "end\n"


def test_use_branch_worktree_isolation_for_repository_writes(service):
    """By default what a run writes is set aside, and two runs with the same source do not see each other."""
    token = service.token()
    first = run(service, token, "sh", "-c", "echo one > f")[0]["id"]
    assert service.call("GET", f"/v1/runs/{first}/file?path=f", token=token)[0] == 404
    assert [c["path"] for c in service.call("GET", f"/v1/runs/{first}/review", token=token)[1]["changes"]] == ["f"]
    assert run(service, token, "ls", "-A", shape={"source": {"run": first}})[1] == ""


def test_restrict_network_by_default(service):
    """No route but the gate, and a host in no rule is denied."""
    script = "import urllib.request, urllib.error\ntry:\n  urllib.request.urlopen('http://no-rule.example.com/')\nexcept urllib.error.HTTPError as e:\n  print(e.code)"
    made, out = run(service, service.token(), "python3", "-c", script)
    assert out == "403\n" and made["result"]["network"]["refused"][0]["host"] == "no-rule.example.com"
    assert run(service, service.token(), "sh", "-c", "ls /sys/class/net 2>/dev/null | grep -v lo; echo end")[1] == "end\n"


def test_log_commands_return_codes_durations_tenant_ids_and_sandbox_names(service):
    token = service.token("logged")
    made, _ = run(service, token, "sh", "-c", "exit 7")
    lines = [json.loads(line) for line in (service.top / "log").read_bytes().splitlines() if line.startswith(b"{")]
    line, = [e for e in lines if e["event"] == "run" and e.get("id") == made["id"]]
    assert (line["tenant"], line["status"], line["state"]) == ("logged", 7, "done") and line["duration_ms"] > 0 and line["command"] == "sh -c exit 7"
    audit = service.call("GET", "/v1/audit", token=token)[1]["items"]
    assert any("exit 7" in json.dumps(e) for e in audit), audit


def test_require_human_review_before_merging_agent_changes(service):
    """A change that the host would run is applied only by name of its class."""
    token = service.token()
    made, _ = run(service, token, "sh", "-c", "mkdir .githooks; echo true > .githooks/pre-commit; echo plain > readme")
    path = f"/v1/runs/{made['id']}"
    status, problem, _ = service.call("POST", path + "/apply", {}, token=token)
    assert (status, problem["code"]) == (409, "review_required"), problem
    assert service.call("GET", path + "/file?path=.githooks/pre-commit", token=token)[0] == 404
    assert service.call("POST", path + "/apply", {"classes": ["none"]}, token=token)[0] == 200
    assert service.call("GET", path + "/file?path=readme", token=token)[:2] == (200, b"plain\n")
    assert service.call("GET", path + "/file?path=.githooks/pre-commit", token=token)[0] == 404
    assert service.call("POST", path + "/apply", {"classes": ["high", "medium", "low", "none", "dependencies"]}, token=token)[0] == 200
    assert service.call("GET", path + "/file?path=.githooks/pre-commit", token=token)[0] == 200


# -- minimum controls -----------------------------------------------------------------------------------------------------------------------


def test_derive_tenant_id_from_trusted_auth(service):
    """Nothing that a client says about itself counts, only its token."""
    a, b = service.token("a"), service.token("b")
    made, _ = run(service, a, "true")
    for headers in ({"X-Tenant": "a"}, {"Tenant-Id": "a"}, {"X-Forwarded-User": "a"}):
        assert service.call("GET", f"/v1/runs/{made['id']}", token=b, **headers)[0] == 404
    assert service.call("GET", f"/v1/runs/{made['id']}?tenant=a", token=b)[0] in (400, 404)
    assert service.call("GET", "/v1/me", token=b)[1]["name"] == "b"


def test_use_workspace_per_tenant_and_run(service):
    token = service.token()
    places = [run(service, token, "pwd")[1].strip() for _ in range(2)] + [run(service, service.token("other"), "pwd")[1].strip()]
    assert len(set(places)) == 3


def test_key_metadata_by_tenant_id_and_run_id(service):
    a, b = service.token("a"), service.token("b")
    made, _ = run(service, a, "true", labels={"k": "v"})
    for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/output/stdout"), ("GET", "/events"), ("GET", "/diff"), ("GET", "/review"),
                         ("GET", "/files"), ("GET", "/file?path=x"), ("DELETE", "/file?path=x"), ("GET", "/archive")):
        assert service.call(method, f"/v1/runs/{made['id']}{rest}", token=b, Accept="*/*")[0] == 404, rest
    assert service.call("GET", "/v1/runs?label=k=v", token=b)[1]["items"] == []
    assert service.call("GET", f"/v1/runs/{made['id']}", token=a)[0] == 200


@pytest.mark.parametrize("path", ["../f", "/etc/passwd", "a/../../f", "..", "link/passwd", "proc/1/environ"])
def test_scope_file_apis_to_one_run_workspace_and_reject_workspace_path_escapes(service, path):
    token = service.token()
    made, _ = run(service, token, "ln", "-s", "/etc", "link", shape={"mode": "direct"})
    for method in ("GET", "DELETE"):
        assert service.call(method, f"/v1/runs/{made['id']}/file?path={path}", token=token)[0] in (400, 404, 409), path
    assert service.call("PUT", f"/v1/runs/{made['id']}/file?path={path}", b"x", token=token)[0] in (400, 404, 409) or path == "proc/1/environ"


def test_avoid_shared_sandbox_names(service):
    ids = {run(service, service.token(t), "true")[0]["id"] for t in ("a", "a", "b")}
    assert len(ids) == 3 and all(re.fullmatch(r"run_[0-9A-Za-z]{20,}", i) for i in ids)


def test_enforce_quotas(service):
    token = service.token("few", quotas={"runs_per_hour": 1})
    run(service, token, "true")
    status, problem, headers = service.call("POST", "/v1/runs", {"command": ["true"]}, token=token)
    assert (status, problem["code"]) == (429, "quota") and int(headers["Retry-After"]) > 0


def test_clean_up_old_workspaces(service):
    """By hand here; by age and budget in test_quotas_http.py and test_core_queue.py."""
    token = service.token()
    made, _ = run(service, token, "true")
    place = service.top / "state/tenants/acme/runs" / made["id"]
    assert os.path.exists(place)
    assert service.call("DELETE", f"/v1/runs/{made['id']}", token=token)[0] == 204
    assert not os.path.exists(place)
