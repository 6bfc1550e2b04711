# SPDX-License-Identifier: Apache-2.0
"""bawnd: tenants, tokens and runs, over the protocol of its front."""

import json
import os
import signal
import struct

import core_driver
import pytest


def test_health_needs_no_token(bawnd):
    c = bawnd()
    assert c.ask("health").json() == {"status": "ok", "version": "0.1.0"}


def test_a_run_from_its_request_to_its_result(bawnd):
    c = bawnd()
    t = c.token()
    assert c.run(t, "sh", "-c", "test $(umask) = 0022", wait=100).json()["status"] == 0
    run = c.run(t, "sh", "-c", "echo out; echo bad >&2; exit 3", wait=100, labels={"a": "b"}, env={"X": "y"}).json()
    assert (run["state"], run["status"], run["reason"]) == ("done", 3, None), (run["reason"], c.ask("run_output", t, id=run["id"], stream="stderr").content())
    assert run["command"] == ["sh", "-c", "echo out; echo bad >&2; exit 3"]
    assert run["labels"] == {"a": "b"}
    assert run["result"]["status"] == 3
    assert (run["stdout_bytes"], run["stderr_bytes"]) == (4, 4)
    assert run["created"] <= run["started"] <= run["ended"]
    assert c.ask("run_get", t, id=run["id"]).json() == run
    assert c.ask("run_output", t, id=run["id"], stream="stdout").content() == b"out\n"
    assert c.ask("run_output", t, id=run["id"], stream="stderr").content() == b"bad\n"
    events = c.ask("run_events", t, id=run["id"])
    assert events.flags == core_driver.EVENTS
    last = c.take(c.next)
    size, = struct.unpack("<Q", last.body)
    lines = [json.loads(line) for line in os.pread(events.fds[0], size, 0).splitlines()]
    assert [e["type"] for e in lines][0] == "state"
    assert lines[-1]["type"] == "exit"


def test_a_run_is_its_tenants(bawnd):
    c = bawnd()
    mine, other = c.token("mine"), c.token("other")
    run = c.run(mine, "true", wait=100).json()
    for op, more in (("run_get", {}), ("run_cancel", {}), ("run_delete", {}), ("run_events", {}), ("run_output", {"stream": "stdout"}),
                     ("run_signal", {"signal": 15}), ("run_stdin", {})):
        a = c.ask(op, other, id=run["id"], **more)
        assert (a.status, a.code) == (404, "not_found"), (op, a)
    assert c.ask("run_list", other).json()["items"] == []
    assert [r["id"] for r in c.ask("run_list", mine).json()["items"]] == [run["id"]]
    assert c.ask("run_delete", mine, id=run["id"]).status == 204
    assert c.ask("run_get", mine, id=run["id"]).status == 404


def test_tokens(bawnd):
    c = bawnd()
    t = c.token(expires="1h", name="ci")
    assert c.ask("me", t).json()["name"] == "acme"
    for bad in ("bawn_" + "0" * 43, "x", t[:-1], t + "0"):
        assert c.ask("me", bad).code == "unauthorized"
    assert c.take(c.send("me")).code == "unauthorized"
    assert c.take(c.send("me", peer=77)).code == "unauthorized"
    for op, more in (("tenant_list", {}), ("token_list", {"tenant": "acme"}), ("metrics", {})):
        assert c.ask(op, t, **more).code == "forbidden"
    assert c.ask("tenant_list", c.token(admin=True)).status == 200
    items = c.ask("token_list", tenant="acme").json()["items"]
    mine = next(i for i in items if i["name"] == "ci")
    assert mine["used"] and mine["expires"] and t not in json.dumps(items)
    assert c.ask("token_delete", token=mine["id"]).status == 204
    assert c.ask("me", t).code == "unauthorized"
    assert b"bawn_runs_accepted_total 0" in c.ask("metrics").content()


def test_tenants(bawnd):
    c = bawnd()
    made = c.ask("tenant_create", name="a", quotas_running=3, paths=["/srv"]).json()
    assert made["quotas"] == {"running": 3} and made["paths"] == ["/srv"]
    assert c.ask("tenant_create", name="a").code == "conflict"
    assert c.ask("tenant_create", name="uid-0").code == "bad_field"
    assert c.ask("tenant_create", name="../x").code == "bad_field"
    assert c.ask("tenant_change", tenant="a", queued=7).json()["quotas"] == {"running": 3, "queued": 7}
    names = [t["name"] for t in c.ask("tenant_list").json()["items"]]
    assert "a" in names
    first = c.ask("tenant_list", limit=1).json()
    assert first["next"] and len(first["items"]) == 1
    t = c.token("a")
    c.run(t, "true", wait=60)
    assert c.ask("tenant_delete", tenant="a").code == "conflict"
    assert c.ask("run_delete", t, id=c.ask("run_list", t).json()["items"][0]["id"]).status == 204
    assert (c.top / "state/tenants/a/home").is_dir()
    assert c.ask("tenant_delete", tenant="a").status == 204
    assert c.ask("me", t).code == "unauthorized"
    assert not (c.top / "state/tenants/a").exists()


def test_a_tenant_has_a_uid_of_its_own(bawnd, runner):
    if not runner.is_root:
        pytest.skip("needs root")
    c = bawnd()
    uids = {c.ask("tenant_get", tenant=name).json()["uid"] for name in ("a", "b") if c.token(name)}
    assert len(uids) == 2 and min(uids) > 0x71000000
    t = c.token("a")
    run = c.run(t, "sh", "-c", "touch made; echo", wait=100, shape__mode="direct").json()
    assert run["status"] == 0, (run, c.ask("run_output", t, id=run["id"], stream="stderr").content())
    folder = c.top / "state/tenants/a/runs" / run["id"]
    assert (folder / "workspace/made").stat().st_uid in uids
    assert (folder / "events").stat().st_uid == 0


def test_cancel_signal_stdin(bawnd):
    c = bawnd()
    t = c.token()
    run = c.run(t, "sh", "-c", "read a; echo got $a; sleep 600", stdin=True).json()
    events = c.send("run_events", t, id=run["id"])
    follow = c.take(events)
    while c.ask("run_get", t, id=run["id"]).json()["state"] != "running":
        pass
    n = c.send("run_stdin", t, id=run["id"], close=True)
    up = c.take(n)
    assert up.kind == core_driver.UPLOAD
    os.write(up.fds[0], b"hello\n")
    os.close(up.fds.pop())
    assert c.take(n).status == 204
    while b"got hello" not in os.pread(follow.fds[0], 100000, 0):
        pass
    assert c.ask("run_signal", t, id=run["id"], signal=signal.SIGSEGV).code == "bad_field"
    done = c.ask("run_cancel", t, id=run["id"]).json()
    assert done["state"] == "cancelled", done
    assert c.take(events).kind == core_driver.LAST
    assert c.ask("run_signal", t, id=run["id"], signal=15).code == "ended"


def test_a_held_run_waits(bawnd):
    c = bawnd()
    t = c.token()
    run = c.run(t, "true", hold=True).json()
    assert c.run(t, "true", wait=60).json()["state"] == "done"
    assert c.ask("run_get", t, id=run["id"]).json()["state"] == "queued"
    assert c.ask("run_signal", t, id=run["id"], signal=0).status == 204
    assert c.ask("run_get", t, id=run["id"], wait=60).json()["state"] == "done"


def test_idempotency(bawnd):
    c = bawnd()
    t, other = c.token(), c.token("other")
    a = c.run(t, "true", wait=60, idempotency_key="k").json()
    assert c.run(t, "true", idempotency_key="k").json()["id"] == a["id"]
    assert c.run(t, "false", idempotency_key="k").code == "idempotency_conflict"
    assert c.run(other, "true", idempotency_key="k").json()["id"] != a["id"]
    assert len(c.ask("run_list", t).json()["items"]) == 1


def test_lists_have_pages_and_filters(bawnd):
    c = bawnd()
    t = c.token()
    ids = [c.run(t, "true", labels={"n": i % 2}, wait=60).json()["id"] for i in range(5)]
    page = c.ask("run_list", t, limit=2).json()
    seen = [r["id"] for r in page["items"]]
    while page["next"]:
        page = c.ask("run_list", t, limit=2, page=page["next"]).json()
        seen += [r["id"] for r in page["items"]]
    assert seen == ids[::-1]
    assert [r["id"] for r in c.ask("run_list", t, label="n=1").json()["items"]] == [ids[3], ids[1]]
    assert c.ask("run_list", t, state="failed").json()["items"] == []
    assert c.ask("run_list", t, page="x").code == "bad_field"


def test_what_cannot_be_sandboxed_fails_with_a_reason(bawnd):
    c = bawnd()
    run = c.run(c.token(), "true", shape__profile="nosuch", wait=60).json()
    assert run["state"] == "failed" and "nosuch" in run["reason"], run


@pytest.mark.parametrize("path", ["/etc", "/srv/../etc", "/srvx"])
def test_host_paths_are_on_a_list(bawnd, path):
    c = bawnd()
    assert c.ask("tenant_create", name="p", paths=["/srv"]).status == 201
    assert c.run(c.token("p"), "true", shape__source__path=path).code == "bad_field"


@pytest.mark.parametrize("way", ["link", "link/below", "folder"])
def test_a_link_in_a_folder_of_the_list_leads_nowhere(bawnd, way):
    """A sandbox in direct mode can make one there; a run or sandbox with the link as its folder then had any folder of the host."""
    c = bawnd()
    r = c.runner
    mine, others = r.mkdir(r.top / "mine", 0o777), r.mkdir(r.top / "others")
    (alias := r.top / "alias").symlink_to(mine)  # the administrator's own, on the list
    r.write(others / "secret", "of another")
    r.write(others / "below/secret", "of another")
    assert c.ask("tenant_create", name="p", paths=[str(alias)]).status == 201
    t = c.token("p")

    def direct(*command, **more):
        run = c.run(t, *command, shape__source__path=str(alias), shape__mode="direct", wait=600).json()
        assert (run["state"], run["status"]) == ("done", 0), run

    direct("mkdir", "folder")
    folder = str(alias / way)
    box = c.ask("box_create", t, shape__source__path=folder if way == "folder" else str(alias / "folder"), shape__mode="direct").json()["id"]
    direct("ln", "-s", str(others), "link")
    if way == "folder":
        assert c.ask("file_list", t, kind="sandboxes", id=box).status == 200
        assert c.ask("box_stop", t, id=box).json()["state"] == "stopped"
        assert c.ask("box_start", t, id=box).json()["state"] == "running"
        assert c.ask("box_stop", t, id=box).json()["state"] == "stopped"
        direct("mv", "link", "swapped")
        direct("sh", "-c", "rmdir folder && mv swapped folder")
        assert c.ask("box_start", t, id=box).code == "cannot_sandbox"
        assert c.ask("box_fork", t, id=box).code == "cannot_sandbox"
    run = c.run(t, "cat", "secret", shape__source__path=folder, shape__mode="ro", wait=600).json()
    assert run["state"] == "failed" and "link" in run["reason"], run
    assert c.ask("run_output", t, id=run["id"], stream="stdout").content() == b""
    made = c.ask("box_create", t, shape__source__path=folder)
    assert made.code == "cannot_sandbox" and b"link" in made.body
    for b in c.ask("box_list", t).json()["items"]:
        assert c.ask("box_delete", t, id=b["id"]).status == 204
