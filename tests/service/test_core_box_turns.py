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
    run = c.run(other, "sleep", "600").json()["id"]
    wait = c.send("run_get", t, id=run, wait=600)
    kept = c.send("run_get", other, id=run, wait=600)
    assert (c.take(events).flags, c.take(command).flags) == (core_driver.EVENTS, core_driver.EXEC)
    assert c.ask("token_delete", token=ids[0]).status == 204
    assert c.take(events).kind == core_driver.LAST
    assert c.take(command).kind == core_driver.OUTCOME
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
