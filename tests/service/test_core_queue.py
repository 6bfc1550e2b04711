# SPDX-License-Identifier: Apache-2.0
"""bawnd: what waits, who is next, quotas; kill -9 and what the next bawnd finds."""

import collections
import os
import signal
import sqlite3
import time

import core_driver


def states(c, token):
    return collections.Counter(r["state"] for r in c.ask("run_list", token, limit=10000).json()["items"])


def test_quotas(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="q", quotas_running=1, quotas_queued=1, quotas_runs_per_hour=3)
    t = c.token("q")
    first = c.run(t, "sleep", "600").json()["id"]
    while c.ask("run_get", t, id=first).json()["state"] != "running":
        pass
    second = c.run(t, "true").json()["id"]
    a = c.run(t, "true")
    assert (a.status, a.code) == (429, "quota") and a.retry >= 1
    assert c.ask("run_get", t, id=second).json()["state"] == "queued"
    assert c.ask("me", t).json()["usage"]["running"] == 1
    c.ask("run_cancel", t, id=first)
    assert c.ask("run_get", t, id=second, wait=60).json()["state"] == "done"
    assert c.run(t, "true", wait=60).status == 201
    assert c.run(t, "true").code == "quota"
    assert c.run(c.token("free"), "true", wait=60).status == 201


def test_a_limit_on_memory_is_within_the_quota(bawnd):
    c = bawnd()
    c.ask("tenant_create", name="m", quotas_memory=1 << 30)
    t = c.token("m")
    assert c.run(t, "true", shape__limits__memory="2g").code == "bad_field"
    a = c.run(t, "sleep", "600", shape__limits__memory="700m").json()["id"]
    b = c.run(t, "true", shape__limits__memory="700m").json()["id"]
    while c.ask("run_get", t, id=a).json()["state"] != "running":
        pass
    assert c.ask("run_get", t, id=b).json()["state"] == "queued"
    c.ask("run_cancel", t, id=a)
    assert c.ask("run_get", t, id=b, wait=60).json()["state"] == "done"


def test_tenants_take_turns(bawnd):
    """One place, thirty runs of one tenant before one of another: that one is the second to start, not the thirty-first."""
    c = bawnd(running=1)
    many, one = c.token("many"), c.token("one")
    first = c.run(many, "sleep", "600").json()["id"]
    runs = [c.run(many, "true").json()["id"] for _ in range(30)]
    late = c.run(one, "true").json()["id"]
    c.ask("run_cancel", many, id=first)
    late = c.ask("run_get", one, id=late, wait=600).json()
    rest = [c.ask("run_get", many, id=i, wait=600).json() for i in runs]
    before = [r for r in rest if r["started"] < late["started"]]
    assert len(before) <= 1, len(before)


def test_a_killed_service_finds_its_runs_again(bawnd):
    c = bawnd(running=2)
    t = c.token()
    script = "echo begin; read x; echo $x; exit 5"
    alive = c.run(t, "sh", "-c", script, stdin=True).json()["id"]
    ends = c.run(t, "sh", "-c", "echo once; sleep 0.3; exit 6").json()["id"]
    waits = [c.run(t, "sh", "-c", "echo once").json()["id"] for _ in range(3)]
    while c.ask("run_output", t, id=alive, stream="stdout").content() != b"begin\n":
        pass
    while not c.ask("run_output", t, id=ends, stream="stdout").content():
        pass
    c.kill()
    time.sleep(1)  # what ends now ends without a bawnd
    c.start()
    assert c.ask("run_get", t, id=ends, wait=60).json()["status"] == 6
    run = c.ask("run_get", t, id=alive).json()
    assert run["state"] == "running"
    n = c.send("run_stdin", t, id=alive, close=True)
    up = c.take(n)
    os.write(up.fds[0], b"after\n")
    os.close(up.fds.pop())
    assert c.take(n).status == 204
    assert c.ask("run_get", t, id=alive, wait=60).json()["status"] == 5
    assert c.ask("run_output", t, id=alive, stream="stdout").content() == b"begin\nafter\n"
    for i in waits:
        assert c.ask("run_get", t, id=i, wait=60).json()["state"] == "done"
        assert c.ask("run_output", t, id=i, stream="stdout").content() == b"once\n"


def test_a_killed_supervisor_is_a_failed_run(bawnd):
    c = bawnd()
    t = c.token()
    for dead_service in (False, True):
        run = c.run(t, "sh", "-c", "echo; sleep 600").json()["id"]
        while not c.ask("run_output", t, id=run, stream="stdout").content():
            pass
        task = None
        while task is None:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as f:
                        words = f.read().split(b"\0")
                except OSError:
                    continue
                if words[0] == b"bawn-task" and run.encode() in words:
                    task = int(pid)
        if dead_service:
            c.kill()
        os.kill(task, signal.SIGKILL)
        if dead_service:
            c.start()
        r = c.ask("run_get", t, id=run, wait=60).json()
        assert r["state"] == "failed" and "killed" in r["reason"] and r["status"] is None, r
        events = c.ask("run_events", t, id=run, follow=False)
        last = os.pread(events.fds[0], 100000, 0).splitlines()[-1]
        assert b'"failed"' in last


def test_kill_9_again_and_again(bawnd):
    """No run is lost or doubled: each writes one line into a file of its own, and is asked about after each new start."""
    c = bawnd(running=4)
    t = c.token()
    ids = []
    for _ in range(6):
        ids += [c.run(t, "sh", "-c", "echo line").json()["id"] for _ in range(10)]
        c.restart()
    for i in ids:
        r = c.ask("run_get", t, id=i, wait=100).json()
        out = c.ask("run_output", t, id=i, stream="stdout").content()
        assert r["state"] in ("done", "failed"), r
        assert out == b"line\n" if r["state"] == "done" else out in (b"", b"line\n"), (r, out)
    assert len(set(ids)) == 60
    assert states(c, t)["done"] >= 50


def test_drain_leaves_runs_alone(bawnd):
    c = bawnd()
    t = c.token()
    run = c.run(t, "sh", "-c", "echo a; read x; exit 4", stdin=True).json()["id"]
    while not c.ask("run_output", t, id=run, stream="stdout").content():
        pass
    c.proc.send_signal(signal.SIGTERM)
    assert [c.take(0).kind, c.take(0).kind] == [core_driver.START, core_driver.DRAIN]
    assert c.run(t, "true").code == "draining"
    assert c.ask("health").json()["status"] == "draining"
    c.life.close()
    c.sock.shutdown(2)
    assert c.proc.wait() == 0
    c.start()
    assert c.ask("run_get", t, id=run).json()["state"] == "running"
    c.ask("run_cancel", t, id=run)


def test_a_lost_front_is_started_again(bawnd):
    c = bawnd()
    t = c.token()
    run = c.run(t, "sleep", "600").json()["id"]
    c.send("run_get", t, id=run, wait=600)
    c.sock.shutdown(2)
    c.life.close()
    c.front()
    assert c.ask("run_cancel", t, id=run).json()["state"] == "cancelled"


def test_a_front_that_lies_is_ended(bawnd):
    c = bawnd()
    t = c.token()
    assert c.ask("me", t).status == 200
    c.sock.send(b"x" * 40)
    c.life.close()
    c.front()
    assert c.ask("me", t).status == 200


def test_one_service_for_one_state(bawnd, runner):
    c = bawnd()
    r = runner.run(runner.path.parent / "bawnd", "--config", c.config)
    assert r.rc != 0 and b"another bawnd" in r.err, r


def test_check_config(bawnd, runner):
    path = runner.write("bad.json", '{"runing": 3}')
    r = runner.run(runner.path.parent / "bawnd", "--check-config", "--config", path)
    assert r.rc == 64 and b"running" in r.err, r
    path = runner.write("good.json", '{"running": 3, "quotas": {"queued": 5}, "sync": "full"}')
    assert runner.run(runner.path.parent / "bawnd", "--check-config", "--config", path).rc == 0


def test_old_runs_are_removed(bawnd):
    c = bawnd(keep_hours=1)
    t = c.token()
    old, new = (c.run(t, "sh", "-c", "echo > made", wait=60).json()["id"] for _ in range(2))
    c.kill()
    db = sqlite3.connect(c.top / "state/bawnd.db")
    db.execute("UPDATE runs SET ended = 1 WHERE id = ?", (old,))
    db.commit()
    db.close()
    c.start()
    while c.ask("run_get", t, id=old).status != 404:
        time.sleep(0.1)
    assert c.ask("run_get", t, id=new).json()["state"] == "done"
    runs = c.top / "state/tenants/acme/runs"
    assert [p.name for p in runs.iterdir()] == [new]
    aside = c.top / "state/tenants/acme/home/.local/state/bawn/runs"
    assert new in os.listdir(aside) and old not in os.listdir(aside)
    while os.listdir(c.top / "state/trash"):
        time.sleep(0.1)
