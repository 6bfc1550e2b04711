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
