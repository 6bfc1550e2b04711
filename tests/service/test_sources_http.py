# SPDX-License-Identifier: Apache-2.0
"""What a workspace begins with, the files that a sandbox shows, and which secrets go with which runs; over HTTP."""

import http_driver
import pytest


def test_the_workspace_of_another_run(service):
    token = service.token()
    first = service.call("POST", "/v1/runs", {"command": ["sh", "-c", "true"], "hold": True}, token=token)[1]["id"]
    copy = {"command": ["sh", "-c", "cat f; readlink l"], "shape": {"source": {"run": first}}, "wait": 100}
    assert service.call("POST", "/v1/runs", copy, token=token)[1]["code"] == "conflict"  # it has not ended
    assert service.call("PUT", f"/v1/runs/{first}/file?path=f", b"text\n", token=token)[0] == 204
    assert service.call("GET", f"/v1/runs/{first}?wait=100", token=token)[1]["state"] == "done"
    status, run, _ = service.call("POST", "/v1/runs", copy | {"command": ["cat", "f"]}, token=token)
    assert (status, run["state"], run["status"]) == (201, "done", 0), run
    assert service.call("GET", f"/v1/runs/{run['id']}/output/stdout", token=token)[1] == b"text\n"
    status, problem, _ = service.call("POST", "/v1/runs", copy, token=service.token("other"))
    assert (status, problem["field"]) == (400, "shape.source.run")


@pytest.mark.parametrize("source, field", [
    ({"git": "ssh://host/x"}, "git"), ({"git": "file:///etc"}, "git"), ({"git": "/etc"}, "git"), ({"git": "https://user:pw@host/x"}, "git"),
    ({"git": "https://ho st/x"}, "git"), ({"git": "--upload-pack=x"}, "git"), ({"branch": "x"}, "branch"), ({"git": "https://host/x", "branch": "-b"}, "branch"),
    ({"git": "https://host/x", "path": "/"}, "git"), ({"path": "/etc"}, "path"), ({"path": "/srv/../etc"}, "path"), ({"run": "run_0123456789abcdef0123"}, "run"),
])
def test_sources_that_are_refused(service, source, field):
    status, problem, _ = service.call("POST", "/v1/runs", {"command": ["true"], "shape": {"source": source}}, token=service.token())
    assert (status, problem["code"], problem["field"]) == (400, "bad_field", f"shape.source.{field}"), problem


def test_a_repository_that_is_not_there(service):
    """The run is reported as failed, with what git said; nothing of the command runs."""
    token = service.token()
    shape = {"source": {"git": "https://no-such-host.invalid/x.git"}}
    status, run, _ = service.call("POST", "/v1/runs", {"command": ["echo", "ran"], "shape": shape, "wait": 300}, token=token)
    assert (status, run["state"]) == (201, "failed") and "clone the repository" in run["reason"], run
    assert service.call("GET", f"/v1/runs/{run['id']}/output/stdout", token=token)[1] == b""
    status, problem, _ = service.call("POST", "/v1/sandboxes", {"shape": shape}, token=token)
    assert status >= 400 and "clone the repository" in problem["detail"], problem


def test_a_sandbox_shows_its_own_files(service):
    """What was written inside is what the file API has, before it is applied; and the other way round."""
    token = service.token()
    box = service.call("POST", "/v1/sandboxes", {}, token=token)[1]["id"]
    path = f"/v1/sandboxes/{box}"

    def execute(*command):
        return service.call("POST", path + "/exec", {"command": list(command)}, token=token)[1]

    assert execute("sh", "-c", "mkdir d; echo inside > d/f; ln -s /etc/passwd d/link")["status"] == 0
    assert service.call("GET", path + "/file?path=d/f", token=token)[:2] == (200, b"inside\n")
    assert service.call("GET", path + "/file?path=d/f", token=token, Range="bytes=2-3")[:2] == (206, b"si")
    assert service.call("GET", path + "/file?path=d/link", token=token)[0] == 409
    assert service.call("GET", path + "/file?path=d/none", token=token)[0] == 404
    assert [i["path"] for i in service.call("GET", path + "/files?recursive=true", token=token)[1]["items"]] == ["d", "d/f", "d/link"]
    assert service.call("PUT", path + "/file?path=e/g", b"outside\n", token=token)[0] == 204
    said = execute("sh", "-c", "cat e/g; echo more >> e/g; rm -r d")
    assert (said["status"], said["stdout"]) == (0, "outside\n"), said
    assert service.call("GET", path + "/file?path=e/g", token=token)[1] == b"outside\nmore\n"
    assert service.call("GET", path + "/file?path=e/g", token=service.token("other"))[0] == 404
    assert service.call("DELETE", path + "/file?path=e", token=token)[0] == 204
    assert execute("ls", "-A")["stdout"] == ""
    assert service.call("DELETE", path, token=token)[0] == 204


def test_secrets_by_class(runner):
    service = http_driver.Service(runner, classes={"ci": ["DEPLOY"], "none": []})
    token = service.token()

    def create(**shape):
        return service.call("POST", "/v1/runs", {"command": ["true"], "shape": shape, "wait": 100}, token=token)

    try:
        assert create(**{"class": "nosuch"})[1]["field"] == "shape.class"
        assert create(secrets=["DEPLOY"])[1]["field"] == "shape.secrets"
        assert create(**{"class": "none"}, secrets=["DEPLOY"])[1]["field"] == "shape.secrets"
        assert create(**{"class": "none"})[1]["state"] == "done"
        assert create()[1]["state"] == "done"
        failed = create(**{"class": "ci"})[1]  # the tenant has none of this name
        assert failed["state"] == "failed" and "DEPLOY" in failed["reason"], failed
    finally:
        service.stop()
