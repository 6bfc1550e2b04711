# SPDX-License-Identifier: Apache-2.0
"""bawnd: operations on one sandbox at the same time, and what is at work when bawnd or a tenant goes. None of it passes a quota or leaves a sandbox that no one sees."""

import json
import time

import core_driver


def boxes(c, token):
    return c.ask("box_list", token).json()["items"]


def state_of(c, token, box):
    return c.ask("box_get", token, id=box).json()["state"]


def running(c):
    """Names of the sandboxes that run in fact."""
    return sorted(p.parent.name for p in c.top.rglob("state.json") if json.loads(p.read_text()).get("phase") == "running")


def delete_all(c, token):
    for b in boxes(c, token):
        assert c.ask("box_delete", token, id=b["id"]).status == 204


def quota(bawnd, **quotas):
    c = bawnd()
    c.ask("tenant_create", name="q", **quotas)
    return c, c.token("q")


def begun(c, token, **fields):
    """A sandbox that is being made: its request and its id."""
    n = c.send("box_create", token, **fields)
    found, = (b["id"] for b in boxes(c, token) if b["state"] == "starting")
    return n, found


def test_one_that_is_started_twice_keeps_its_place(bawnd):
    """The second start found it busy, so it was a failed one, which counts nothing, until the first was done."""
    c, t = quota(bawnd, quotas_running=1)
    n, box = begun(c, t)
    again = [c.send("box_start", t, id=box) for _ in range(3)]
    others = [c.send("box_create", t) for _ in range(20)]
    for _ in range(20):
        time.sleep(0.005)
        others.append(c.send("box_create", t))
    assert {c.take(o).code for o in others} == {"quota"}
    assert c.take(n).json()["state"] == "running"
    assert [c.take(a).json()["state"] for a in again] == ["running"] * 3
    assert len(running(c)) == 1
    delete_all(c, t)


def test_one_that_is_removed_while_it_starts_is_gone(bawnd):
    """It was removed first and started then: a sandbox without a row, which nothing counts and no request finds."""
    c, t = quota(bawnd, quotas_running=1)
    for _ in range(4):
        n, box = begun(c, t)
        gone = c.send("box_delete", t, id=box)
        assert c.take(gone).status == 204
        assert c.take(n).status in (201, 404)
        time.sleep(0.5)
        assert running(c) == [] and boxes(c, t) == []


def test_stop_and_start_at_once_have_one_end(bawnd):
    c, t = quota(bawnd)
    box = c.ask("box_create", t).json()["id"]
    for _ in range(5):
        calls = [c.send(op, t, id=box) for op in ("box_stop", "box_start", "box_stop", "box_start")]
        assert [c.take(n).json()["state"] for n in calls] == ["stopped", "running", "stopped", "running"]
        assert len(running(c)) == 1 and state_of(c, t, box) == "running"
    delete_all(c, t)


def test_a_failed_one_that_is_stopped_takes_no_place(bawnd):
    """Else a start that fails, a stop and a start that does not would be one more than the quota."""
    c, t = quota(bawnd, quotas_running=1)
    one = c.ask("box_create", t).json()["id"]
    assert c.ask("box_stop", t, id=one).json()["state"] == "stopped"
    folder, = c.top.glob(f"state/tenants/q/runs/{one}/workspace")
    rules = folder / ".bawn/config.json"
    c.runner.write(rules, "this is no JSON")
    assert c.ask("box_start", t, id=one).status == 422 and state_of(c, t, one) == "failed"
    two = c.ask("box_create", t)
    assert two.status == 201
    assert c.ask("box_stop", t, id=one).json()["state"] == "failed"
    rules.unlink()
    assert c.ask("box_start", t, id=one).code == "quota"
    assert running(c) == [two.json()["id"]]
    delete_all(c, t)


def test_the_same_request_again_waits_for_the_sandbox(bawnd):
    c, t = quota(bawnd)
    first = c.send("box_create", t, **{"idempotency-key": "k"})
    second = c.take(c.send("box_create", t, **{"idempotency-key": "k"})).json()
    assert second["state"] == "running" and c.take(first).json()["id"] == second["id"]
    bad = {"idempotency-key": "bad", "shape__profile": "nosuch"}
    assert [c.ask("box_create", t, **bad).status for _ in range(2)] == [422, 422]
    delete_all(c, t)


def test_one_that_is_starting_when_bawnd_is_killed(bawnd):
    """Its start goes on; what comes of it is seen by the next bawnd."""
    c, t = quota(bawnd, quotas_running=2)
    _, box = begun(c, t)
    c.restart()
    while not running(c):
        time.sleep(0.02)
    assert state_of(c, t, box) == "running"
    assert c.ask("file_list", t, kind="sandboxes", id=box).status == 200
    delete_all(c, t)
    assert running(c) == []


def test_a_tenant_with_a_worker_is_not_removed(bawnd):
    """Two that remove the same run: the first makes the tenant empty, and the second then had a tenant that was freed."""
    c = bawnd()
    for i in range(20):
        t = c.token("gone")
        run = c.run(t, "true", wait=60).json()["id"]
        one = c.send("run_delete", t, id=run)
        time.sleep(0.0005 * i)
        two = c.send("run_delete", t, id=run)
        assert c.take(one).status == 204
        gone = c.ask("tenant_delete", tenant="gone")
        assert gone.status == 204 or gone.code == "conflict"
        assert c.take(two).status in (204, 404)
    assert c.ask("health").status == 200


def test_streams_of_a_removed_tenant_end(bawnd):
    c = bawnd()
    t = c.token("gone")
    events = c.send("tenant_events", t)
    assert c.take(events).flags == core_driver.EVENTS
    assert c.ask("tenant_delete", tenant="gone").status == 204
    assert c.take(events).kind == core_driver.LAST


def test_streams_of_a_removed_token_end(bawnd):
    c = bawnd()
    t, other = c.token("acme"), c.token("acme")
    box = c.ask("box_create", other).json()["id"]
    ids = [x["id"] for x in c.ask("token_list", tenant="acme").json()["items"]]
    events = c.send("tenant_events", t)
    command = c.send("box_exec", t, id=box, command=["sleep", "600"])
    watch = c.send("file_watch", t, kind="sandboxes", id=box)
    run = c.run(other, "sleep", "600").json()["id"]
    wait = c.send("run_get", t, id=run, wait=600)
    kept = c.send("run_get", other, id=run, wait=600)
    flags = [c.take(n).flags for n in (events, command, watch)]
    assert flags == [core_driver.EVENTS, core_driver.EXEC, core_driver.STREAM]
    assert c.ask("token_delete", token=ids[0]).status == 204
    assert c.take(events).kind == core_driver.LAST
    assert c.take(command).kind == core_driver.OUTCOME
    assert c.take(watch).body.startswith(b"401\0unauthorized\0the token")
    assert c.take(wait).code == "unauthorized"
    c.ask("run_cancel", other, id=run)
    assert c.take(kept).json()["state"] == "cancelled"
    assert c.ask("box_delete", other, id=box).status == 204


def test_what_was_used_is_known_after_a_restart_if_the_run_is_gone(bawnd):
    c, t = quota(bawnd, quotas_runs_per_hour=2)
    run = c.run(t, "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done", wait=600).json()
    assert run["state"] == "done"
    assert c.ask("run_delete", t, id=run["id"]).status == 204
    c.run(t, "true", wait=60)
    before = c.ask("me", t).json()["usage"]
    c.restart()
    after = c.ask("me", t).json()["usage"]
    assert (before["runs_per_hour"], after["runs_per_hour"]) == (2, 2)
    assert c.run(t, "true").code == "quota"


def test_a_checkpoint_counts_for_the_quota_of_the_disk(bawnd):
    c, t = quota(bawnd, quotas_disk=3 << 20)
    box = c.ask("box_create", t).json()["id"]
    folder, = c.top.glob(f"state/tenants/q/runs/{box}/workspace")
    c.runner.write(folder / "big", "x" * (4 << 20))
    while c.ask("me", t).json()["usage"]["disk"] < 4 << 20:
        c.restart()  # it measures soon after its start
        time.sleep(4)
    assert c.ask("checkpoint_create", t, id=box, tag="one").code == "quota"
    delete_all(c, t)
