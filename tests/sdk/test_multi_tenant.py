# SPDX-License-Identifier: Apache-2.0
"""The example of a service for many customers (sdk/python/examples/multi_tenant.py): each control of its list, as a client meets it."""

import json
import pathlib
import urllib.error
import urllib.request

import pytest

AS_ROOT = pytest.mark.parametrize("runner", ["root"], indirect=True)  # makes tenants
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "sdk/python/examples/multi_tenant.py"


@pytest.fixture
def ask(make_service, bawn_module, runner, wheel):
    """ask(key, method, path, body): status, answer, headers"""
    admin = bawn_module.Client(make_service().url, retry_seconds=600)
    tokens = {}
    for tenant, quotas in (("red", {}), ("blue", {"runs_per_hour": 1})):
        admin.request("createTenant", body={"name": tenant, "quotas": quotas})
        tokens[f"key-of-{tenant}"] = admin.request("createToken", path={"tenant": tenant}, body={})["token"]
    secrets = runner.write(runner.top / "tokens.json", json.dumps(tokens), 0o600)
    proc = runner.popen(wheel, EXAMPLE, admin._api.http.url, secrets, stdout=-1, stderr=open(runner.top / "log", "wb"), env={"HOST_SECRET": "do-not-pass-on"})
    url = proc.stdout.readline().decode().strip()

    def go(key, method, path, body=None):
        request = urllib.request.Request(url + path, None if body is None else json.dumps(body).encode(), {"Authorization": f"Bearer {key}"} if key else {}, method=method)
        try:
            with urllib.request.urlopen(request) as r:
                return r.status, json.loads(r.read()), r.headers
        except urllib.error.HTTPError as e:
            with e:
                return e.code, json.loads(e.read()), e.headers

    go.log = runner.top / "log"
    yield go
    proc.kill()
    proc.wait()
    proc.stdout.close()


@AS_ROOT
def test_the_minimum_controls(ask):
    run = {"command": ["sh", "-c", "echo mine > secret.txt; env; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"]}
    # the tenant comes from trusted authentication
    assert [ask(key, "POST", "/runs", run)[0] for key in (None, "key-of-nobody", "key-of-re")] == [401, 401, 401]
    status, made, _ = ask("key-of-red", "POST", "/runs", run)
    assert (status, made["status"]) == (201, 0), made
    # no secret of the host is passed on
    assert "do-not-pass-on" not in made["stdout"]
    place = f"/runs/{made['run']}"
    # metadata by (tenant, run), ids of others are not found
    assert ask("key-of-red", "GET", place)[1]["state"] == "done"
    for method, path in (("GET", place), ("GET", place + "/files?path=secret.txt"), ("POST", place + "/apply"), ("DELETE", place)):
        assert ask("key-of-blue", method, path, {} if method == "POST" else None)[0] == 404
    # human review before changes are applied
    status, problem, _ = ask("key-of-red", "POST", place + "/apply", {})
    assert status in (409, 502) and not ask("key-of-red", "GET", place + "/files?path=secret.txt")[0] == 200, problem
    assert ask("key-of-red", "POST", place + "/apply", {"classes": ["high", "medium", "low"]})[0] == 200
    # file APIs are scoped to one run's workspace, escapes are rejected
    assert ask("key-of-red", "GET", place + "/files?path=secret.txt")[1] == {"content": "mine\n"}
    for path in ("../../etc/passwd", "/etc/passwd", "a/../../x", ""):
        assert ask("key-of-red", "GET", f"{place}/files?path={path}")[0] == 400, path
    # a workspace per run
    other = ask("key-of-red", "POST", "/runs", {"command": ["ls", "-A"]})[1]
    assert (other["run"] != made["run"], other["stdout"]) == (True, "")
    # the network is closed
    assert ask("key-of-red", "POST", "/runs", {"command": ["curl", "-m", "5", "http://example.com"]})[1]["status"] != 0
    # clean-up
    assert ask("key-of-red", "DELETE", place)[0] == 200 and ask("key-of-red", "GET", place)[0] == 404
    # commands, statuses and durations are logged, keys are not
    log = ask.log.read_text()
    assert '"ms":' in log and "key-of-red" not in log


@AS_ROOT
def test_quotas_reach_the_customer(ask):
    assert ask("key-of-blue", "POST", "/runs", {"command": ["true"]})[0] == 201
    status, problem, headers = ask("key-of-blue", "POST", "/runs", {"command": ["true"]})
    assert (status, problem["code"]) == (429, "quota") and int(headers["Retry-After"]) > 0
    assert ask("key-of-red", "POST", "/runs", {"command": ["true"]})[0] == 201
