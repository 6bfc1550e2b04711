# SPDX-License-Identifier: Apache-2.0
"""Quotas on what is on disk and what is used in an hour, and what is removed to make room; over HTTP."""

import http_driver
import pytest


@pytest.fixture
def serve(runner):
    made = []

    def start(**conf):
        made.append(http_driver.Service(runner, **conf))
        return made[-1]

    yield start
    for s in made:
        s.stop()


def refused(answer):
    status, problem, headers = answer
    return status == 429 and problem["code"] == "quota" and int(headers["Retry-After"]) >= 1


def test_disk(serve):
    service = serve()
    token, free = service.token("full", quotas={"disk": 3 << 20}), service.token("free")
    run = service.call("POST", "/v1/runs", {"command": ["true"], "hold": True}, token=token)[1]["id"]
    assert service.call("PUT", f"/v1/runs/{run}/file?path=big", b"x" * (4 << 20), token=token)[0] == 204
    while service.call("GET", "/v1/me", token=token)[1]["usage"]["disk"] < 4 << 20:
        pass
    assert refused(service.call("POST", "/v1/runs", {"command": ["true"]}, token=token))
    assert refused(service.call("POST", "/v1/sandboxes", {}, token=token))
    assert refused(service.call("PUT", f"/v1/runs/{run}/file?path=more", b"x", token=token))
    assert service.call("POST", "/v1/runs", {"command": ["true"], "wait": 100}, token=free)[0] == 201
    assert service.call("DELETE", f"/v1/runs/{run}/file?path=big", token=token)[0] == 204
    while refused(service.call("PUT", f"/v1/runs/{run}/file?path=more", b"x", token=token)):
        pass
    assert b"bawn_quota_hits_total" in service.call("GET", "/v1/metrics")[1]


def test_cpu_seconds(serve):
    service = serve()
    token = service.token("busy", quotas={"cpu_seconds_per_hour": 1})
    burn = ["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"]
    while not refused(answer := service.call("POST", "/v1/runs", {"command": burn, "wait": 300}, token=token)):
        assert answer[1]["status"] == 0, answer
    assert service.call("GET", "/v1/me", token=token)[1]["usage"]["cpu_seconds_per_hour"] >= 1


def test_a_budget_removes_the_oldest(serve):
    service = serve(disk_budget=12 << 20)
    token = service.token()
    runs = []
    for _ in range(4):
        run = service.call("POST", "/v1/runs", {"command": ["true"], "hold": True}, token=token)[1]["id"]
        assert service.call("PUT", f"/v1/runs/{run}/file?path=big", b"x" * (5 << 20), token=token)[0] == 204
        assert service.call("GET", f"/v1/runs/{run}?wait=100", token=token)[1]["state"] == "done"
        runs.append(run)
    while service.call("GET", f"/v1/runs/{runs[0]}", token=token)[0] != 404:
        pass


def count(folder):
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.parametrize("kind", ["runs", "sandboxes"])
def test_nothing_of_its_workspace_is_left_in_the_home_of_the_tenant(service, kind):
    """Caches and homes of agents are named after a workspace that will not come again. Rules of a run's workspace are not even stored."""
    token, state = service.token(), service.top / "state/tenants/acme/home/.local/state/bawn"
    rules = kind == "sandboxes"

    def make():
        body = {"command": ["sh", "-c", "echo x > ~/.npm/used"], "wait": 300} if kind == "runs" else {}
        status, made, _ = service.call("POST", f"/v1/{kind}", body, token=token)
        assert status == 201, made
        return made["id"]

    stays, goes = make(), make()
    assert [count(state / name) for name in ("volumes", "ignore")] == [2, 2 * rules]
    assert service.call("DELETE", f"/v1/{kind}/{goes}", token=token)[0] == 204
    assert [count(state / name) for name in ("volumes", "ignore")] == [1, 1 * rules]
    assert service.call("DELETE", f"/v1/{kind}/{stays}", token=token)[0] == 204
    assert [count(state / name) for name in ("volumes", "ignore")] == [0, 0]


CHANGES = {  # what a run may leave in its caches
    "a file": "echo x > ~/.npm/used", "another": "mkdir ~/.cache/pip", "a mode": "chmod 0 ~/.m2/repository", "the top": "chmod 0700 ~/.cache", "one less": "rmdir ~/.cache/gradle",
    "a link": "rmdir ~/.cache/npm; ln -s /etc ~/.cache/npm", "an attribute": "python3 -c 'import os; os.setxattr(os.path.expanduser(\"~/.npm\"), \"user.x\", b\"y\")'"}


@pytest.mark.parametrize("change", CHANGES)
def test_only_caches_that_were_not_touched_are_handed_on(service, change):
    """Claim: what a run leaves in its caches is never another run's, not of the same tenant either."""
    token, state = service.token(), service.top / "state/tenants/acme/home/.local/state/bawn"

    def run(command):
        made = service.call("POST", "/v1/runs", {"command": ["sh", "-c", command], "wait": 300}, token=token)[1]
        assert made["status"] == 0, made
        return service.call("GET", f"/v1/runs/{made['id']}/output/stdout", token=token)[1]

    look = "cd ~/.cache; stat -c '%n %F %a' . *; find . -mindepth 2; python3 -c 'import os; print(*map(os.listxattr, os.listdir()))'"
    fresh = run(look)
    assert fresh.count(b"directory 755") == 11, fresh
    assert (count(state / "volumes"), count(state / "spare-volumes")) == (0, 1)
    inode = next((state / "spare-volumes").iterdir()).stat().st_ino
    assert run(look) == fresh and next((state / "spare-volumes").iterdir()).stat().st_ino == inode  # the same again
    run(CHANGES[change])
    assert (count(state / "volumes"), count(state / "spare-volumes")) == (1, 0)
    assert run(look) == fresh
