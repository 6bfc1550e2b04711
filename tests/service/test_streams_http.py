# SPDX-License-Identifier: Apache-2.0
"""What happens to all runs of a tenant, and to the files of a workspace, as streams; over HTTP."""

import json
import signal

import http_driver


class Stream:
    """Lines of JSON that come while something happens."""

    def __init__(self, service, path, token, **headers):
        self.http = http_driver.Unix(service.socket)
        self.http.request("GET", path, None, {"Accept": "application/x-ndjson", "Authorization": f"Bearer {token}", **headers})
        self.answer = self.http.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def next(self):
        line = self.answer.readline()
        return json.loads(line) if line else None

    def until(self, found):
        """All events up to the first of which found() is true."""
        got = []
        while not got or not found(got[-1]):
            got.append(self.next())
            assert got[-1], got
        return got

    def close(self):
        self.http.close()


def stored(service, token, after=0):
    _, text, _ = service.call("GET", f"/v1/events?follow=false&after={after}", token=token, Accept="application/x-ndjson")
    return [json.loads(line) for line in text.splitlines()]


def test_events_of_a_tenant(service):
    token, other = service.token(), service.token("other")
    live = Stream(service, "/v1/events", token)
    run = service.call("POST", "/v1/runs", {"command": ["true"], "wait": 100}, token=token)[1]["id"]
    service.call("POST", "/v1/runs", {"command": ["true"], "wait": 100}, token=other)
    got = live.until(lambda e: e["data"]["state"] == "done")
    assert [(e["type"], e["data"]["run"], e["data"]["state"]) for e in got] == [("state", run, s) for s in ("queued", "starting", "done")]
    assert stored(service, token) == got and stored(service, token, got[0]["id"]) == got[1:] and stored(service, token, got[-1]["id"]) == []
    assert stored(service, token, 10 ** 12) == []  # an id that was never given out
    box = service.call("POST", "/v1/sandboxes", {}, token=token)[1]["id"]
    service.call("DELETE", f"/v1/sandboxes/{box}", token=token)
    rest = live.until(lambda e: e["data"]["state"] == "removed")
    assert [(e["data"]["sandbox"], e["data"]["state"]) for e in rest][-2:] == [(box, "running"), (box, "removed")]
    live.close()
    _, text, headers = service.call("GET", "/v1/events?follow=false", token=token, Accept="text/event-stream", Last_Event_ID=str(got[1]["id"]))
    assert headers["Content-Type"].startswith("text/event-stream") and f"id: {got[2]['id']}\n".encode() in text and f"id: {got[1]['id']}\n".encode() not in text


def test_events_after_kill(service):
    """No event is lost or repeated, and no id used twice, over kill -9."""
    token = service.token()
    runs = []
    for _ in range(4):
        runs += [service.call("POST", "/v1/runs", {"command": ["true"]}, token=token)[1]["id"] for _ in range(5)]
        before = stored(service, token)
        service.proc.send_signal(signal.SIGKILL)
        service.proc.wait()
        service.start()
        assert stored(service, token)[:len(before)] == before
    for r in runs:
        assert service.call("GET", f"/v1/runs/{r}?wait=100", token=token)[1]["state"] == "done"
    got = stored(service, token)
    assert sorted((e["data"]["run"], e["data"]["state"]) for e in got if e["data"]["state"] != "starting") == \
        sorted((r, s) for r in runs for s in ("queued", "done"))
    assert len({e["id"] for e in got}) == len(got) and [e["id"] for e in got] == sorted(e["id"] for e in got)


def test_files_are_watched(service):
    token = service.token()
    run = service.call("POST", "/v1/runs", {"command": ["true"], "hold": True, "stdin": True}, token=token)[1]["id"]
    base = f"/v1/runs/{run}"
    w = Stream(service, base + "/watch", token)
    assert w.next()["data"] == {"path": "", "change": "watching"}
    service.call("PUT", base + "/file?path=a/b/c", b"x", token=token)
    got = w.until(lambda e: e["data"] == {"path": "a/b/c", "change": "created"})
    assert {e["type"] for e in got} == {"file"} and {"path": "a", "change": "created"} in [e["data"] for e in got]
    service.call("DELETE", base + "/file?path=a", token=token)
    w.until(lambda e: e["data"] == {"path": "a", "change": "removed"})
    w.close()
    assert service.call("GET", base + "/watch", token=service.token("other"), Accept="application/x-ndjson")[0] == 404
