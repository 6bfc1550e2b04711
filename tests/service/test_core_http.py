# SPDX-License-Identifier: Apache-2.0
"""bawnd and bawn-front together, as a client sees them: over the unix socket."""

import json


def test_runs_over_http(service):
    status, run, _ = service.call("POST", "/v1/runs", {"command": ["sh", "-c", "echo out; exit 4"], "wait": 100})
    assert (status, run["state"], run["status"]) == (201, "done", 4), run
    assert service.call("GET", f"/v1/runs/{run['id']}/output/stdout")[1] == b"out\n"
    assert service.call("GET", f"/v1/runs/{run['id']}/output/stdout", Range="bytes=1-2")[:2] == (206, b"ut")
    _, events, _ = service.call("GET", f"/v1/runs/{run['id']}/events", Accept="application/x-ndjson")
    events = [json.loads(line) for line in events.splitlines()]
    assert [e["type"] for e in events] == ["state", "stdout", "exit"]
    _, rest, _ = service.call("GET", f"/v1/runs/{run['id']}/events?after={events[0]['id']}", Accept="application/x-ndjson")
    assert [json.loads(line) for line in rest.splitlines()] == events[1:]
    status, problem, headers = service.call("GET", "/v1/runs/run_0123456789012345678901")
    assert (status, problem["code"], problem["instance"]) == (404, "not_found", headers["Request-Id"])
    assert service.call("DELETE", f"/v1/runs/{run['id']}")[0] == 204


def test_files_over_http(service):
    _, run, _ = service.call("POST", "/v1/runs", {"command": ["cat", "in"], "hold": True})
    base = f"/v1/runs/{run['id']}"
    assert service.call("PUT", f"{base}/file?path=in", b"x" * 1000000)[0] == 204
    assert service.call("GET", base + "?wait=100")[1]["stdout_bytes"] == 1000000
    assert service.call("GET", f"{base}/file?path=in", Range="bytes=-3")[:2] == (206, b"xxx")
    assert [i["path"] for i in service.call("GET", base + "/files")[1]["items"]] == ["in"]
    status, problem, _ = service.call("PUT", f"{base}/file?path=in/below", b"x" * 500000)
    assert (status, problem["code"]) == (404, "not_found")
    status, tar, headers = service.call("GET", base + "/archive")
    assert status == 200 and len(tar) > 1000000 and headers["Content-Type"] == "application/x-tar"
    assert service.call("PUT", base + "/archive?path=copy", tar, Content_Type="application/x-tar")[0] == 204
    assert service.call("GET", f"{base}/file?path=copy/in")[1] == b"x" * 1000000
    assert service.call("GET", base + "/diff")[0] in (200, 409, 422)


def test_exec_over_http(service):
    status, box, _ = service.call("POST", "/v1/sandboxes", {})
    assert (status, box["state"]) == (201, "running"), box
    path = f"/v1/sandboxes/{box['id']}"
    status, r, _ = service.call("POST", path + "/exec", {"command": ["sh", "-c", "printf 'a\\0\\377b'; echo bad >&2; exit 3"]})
    assert status == 200
    assert (r["status"], r["stdout"], r["stderr"]) == (3, "a\0�b", "bad\n") and r["duration_ms"] > 0
    r = service.call("POST", path + "/exec", {"command": ["head", "-c", "100000", "/dev/zero"], "output_max": 10})[1]
    assert (len(r["stdout"]), r["stdout_cut"]) == (10, 99990)
    r = service.call("POST", path + "/exec", {"command": ["cat"], "stdin": "ä" * 100000})[1]
    assert r["stdout"] == "ä" * 100000
    _, lines, _ = service.call("POST", path + "/exec", {"command": ["sh", "-c", "echo one; echo two >&2; exit 5"]}, Accept="application/x-ndjson")
    events = [json.loads(line) for line in lines.splitlines()]
    assert {(e["type"], e["data"]) for e in events[:-1]} == {("stdout", "one\n"), ("stderr", "two\n")}
    assert (events[-1]["type"], events[-1]["data"]) == ("exit", {"status": 5})
    assert service.call("DELETE", path)[0] == 204
    assert service.call("POST", path + "/exec", {"command": ["true"]})[0] == 404
