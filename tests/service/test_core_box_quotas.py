# SPDX-License-Identifier: Apache-2.0
"""bawnd: what sandboxes that stay take of a tenant's quotas, whatever their clients do."""

import json
import time

import core_driver

GIB = 1 << 30


def usage(c, token, name):
    return c.ask("me", token).json()["usage"][name]


def boxes(c, token):
    return c.ask("box_list", token).json()["items"]


def delete_all(c, token):
    for b in boxes(c, token):
        assert c.ask("box_delete", token, id=b["id"]).status == 204


def limits_of(c):
    """The limits on memory that running sandboxes have in fact."""
    found = [json.loads(p.read_text()) for p in c.top.rglob("state.json")]
    return sorted(s["memory"] for s in found if s.get("phase") == "running")


def test_many_at_once_are_no_more_than_the_quota(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="q", quotas_running=2)
    t = c.token("q")
    answers = [c.take(n) for n in [c.send("box_create", t) for _ in range(6)]]
    assert sorted(a.status for a in answers) == [201, 201, 429, 429, 429, 429]
    assert all(a.code == "quota" for a in answers if a.status == 429) and usage(c, t, "running") == 2
    delete_all(c, t)
    assert usage(c, t, "running") == 0


def test_one_whose_client_went_counts(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="q", quotas_running=1)
    t = c.token("q")
    c.raw(core_driver.CANCEL, c.send("box_create", t))
    while [b["state"] for b in boxes(c, t)] != ["running"]:
        time.sleep(0.05)
    assert usage(c, t, "running") == 1 and c.ask("box_create", t).code == "quota"
    c.restart()
    assert usage(c, t, "running") == 1 and c.ask("box_create", t).code == "quota"
    delete_all(c, t)


def test_one_that_failed_does_not_count(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="q", quotas_running=1)
    t = c.token("q")
    assert c.ask("box_create", t, shape__profile="nosuch").status == 422
    made = c.ask("box_create", t)
    assert made.status == 201
    failed, = (b for b in boxes(c, t) if b["state"] == "failed")
    assert c.ask("box_start", t, id=failed["id"]).code == "quota"
    assert c.ask("box_delete", t, id=failed["id"]).status == 204
    assert usage(c, t, "running") == 1 and c.ask("box_create", t).code == "quota"
    delete_all(c, t)


def test_memory_of_sandboxes_and_of_what_names_none(bawnd):
    """Without a limit in the request a sandbox has the usual one, and that counts: else the quota would be for those who name one."""
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=6 * GIB)
    t = c.token("m")
    one = c.ask("box_create", t).json()["id"]
    assert usage(c, t, "memory") == 4 * GIB and limits_of(c) == [4 * GIB]
    assert c.ask("box_create", t).code == "quota"
    assert c.ask("box_fork", t, id=one).code == "quota"
    small = c.ask("box_create", t, shape__limits__memory="1g")
    assert small.status == 201 and usage(c, t, "memory") == 5 * GIB
    run = c.run(t, "sleep", "600").json()["id"]
    time.sleep(0.5)
    assert c.ask("run_get", t, id=run).json()["state"] == "queued"
    c.restart()
    assert usage(c, t, "memory") == 5 * GIB
    assert c.ask("box_stop", t, id=one).json()["state"] == "stopped"
    while c.ask("run_get", t, id=run).json()["state"] != "running":
        time.sleep(0.05)
    assert usage(c, t, "memory") == 5 * GIB and c.ask("box_start", t, id=one).code == "quota"
    c.ask("run_cancel", t, id=run)
    c.ask("run_get", t, id=run, wait=60)
    assert c.ask("box_start", t, id=one).json()["state"] == "running" and usage(c, t, "memory") == 5 * GIB
    delete_all(c, t)
    assert usage(c, t, "memory") == 0


def test_a_quota_below_the_usual_limit_is_the_limit(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=GIB)
    t = c.token("m")
    c.ask("box_create", t)
    assert usage(c, t, "memory") == GIB and limits_of(c) == [GIB]
    delete_all(c, t)
    assert c.run(t, "true", wait=60).json()["state"] == "done"


def test_a_failed_one_takes_no_memory(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=4 * GIB)
    t = c.token("m")
    assert c.ask("box_create", t, shape__profile="nosuch").status == 422
    assert usage(c, t, "memory") == 0
    assert c.ask("box_create", t).status == 201
    delete_all(c, t)


def test_no_limit_is_no_way_around_it(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=GIB)
    t = c.token("m")
    for limit in ("0", "0g"):
        assert c.run(t, "true", shape__limits__memory=limit).code == "bad_field"
        assert c.ask("box_create", t, shape__limits__memory=limit).code == "bad_field"


def test_one_that_stopped_by_itself_gives_its_memory_back(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=GIB)
    t = c.token("m")
    one = c.ask("box_create", t, idle="1s").json()["id"]
    c.restart()  # it looks soon after its start, and then once a minute
    while usage(c, t, "memory"):
        time.sleep(0.05)
    assert [b["state"] for b in boxes(c, t)] == ["stopped"]
    assert c.run(t, "true", wait=60).json()["state"] == "done"
    assert c.ask("box_start", t, id=one).json()["state"] == "running"
    delete_all(c, t)


def test_a_clone_has_the_limits_of_what_it_is_for(bawnd, runner):
    """It is a sandbox of its own: with the usual 4 GiB it took what the quota had not counted."""
    wrapper = runner.write(runner.top / "bawn", f"#!/bin/sh\necho \"$@\" >>\"$HOME/words\"\nexec '{runner.path}' \"$@\"\n", 0o755)
    c = bawnd(bawn=str(wrapper))
    c.ask("tenant_create", name="m", quotas_memory=GIB)
    t = c.token("m")
    source = {"shape__source__git": "http://127.0.0.1:9/x", "shape__limits__disk": "77m"}
    refused = c.ask("box_create", t, shape__limits__memory="96m", **source)
    assert refused.status == 422 and b"clone the repository" in refused.body, refused
    assert c.run(t, "true", wait=600, **source).json()["state"] == "failed"
    words = [line for line in (c.top / "state/tenants/m/home/words").read_text().splitlines() if line.startswith("run ")]
    assert len(words) == 2 and all("--disk=77m" in w for w in words), words
    assert "--memory=96m" in words[0] and f"--memory={GIB}" in words[1]
    delete_all(c, t)
