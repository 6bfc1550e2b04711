# SPDX-License-Identifier: Apache-2.0
"""kill -9 of bawnd and of supervisors of runs, every second or two under load: no run is lost or done twice, the database is whole, nothing is left
over, and a stream of events that is resumed has no gap and no repetition. BAWN_ALL=1: two minutes instead of a few seconds."""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import sqlite3
import threading
import time

import http_driver

SECONDS = 120 if os.environ.get("BAWN_ALL") else 8
CLIENTS = 4
ENDED = ("done", "failed", "cancelled")


def processes(words):
    """Pids of processes that have one of the words in their command line."""
    for d in pathlib.Path("/proc").iterdir():
        if d.name.isdigit():
            with contextlib.suppress(OSError):
                line = (d / "cmdline").read_bytes().split(b"\0")
                if any(w.encode() in line for w in words):
                    yield int(d.name), line[0].decode()


class Load(threading.Thread):
    """A client that repeats a request with its idempotency key until it has an answer."""

    def __init__(self, service, token, number, stop):
        super().__init__()
        self.service, self.token, self.number, self.stop, self.runs = service, token, number, stop, {}

    def create(self, key):
        body = {"command": ["sh", "-c", "echo ran >> ran"], "shape": {"mode": "direct"}}
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status, run, _ = self.service.call("POST", "/v1/runs", body, token=self.token, Idempotency_Key=key)
                if status == 201:
                    return run["id"]
                assert status in (429, 503), run

    def run(self):
        n = 0
        while not self.stop.is_set():
            key = f"{self.number}-{n}"
            self.runs[key] = self.create(key)
            n += 1


class Follower(threading.Thread):
    """Reads the events of the tenant, and goes on behind the last one whenever the service was killed."""

    def __init__(self, service, token):
        super().__init__(daemon=True)
        self.service, self.token, self.events = service, token, []

    def run(self):
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                c = http_driver.Unix(self.service.socket)
                after = self.events[-1]["id"] if self.events else 0
                c.request("GET", f"/v1/events?after={after}", None, {"Accept": "application/x-ndjson", "Authorization": f"Bearer {self.token}"})
                answer = c.getresponse()
                while line := answer.readline():
                    if not line.endswith(b"\n"):
                        break
                    self.events.append(json.loads(line))


def test_kill_everything(runner):
    service = http_driver.Service(runner, running=8)
    token = service.token(quotas={"queued": 24})
    stop = threading.Event()
    follower = Follower(service, token)
    follower.start()
    clients = [Load(service, token, n, stop) for n in range(CLIENTS)]
    for c in clients:
        c.start()
    dice, end, killed = random.Random(17), time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        time.sleep(dice.uniform(0.3, 1.5))  # how long it may live, not what is waited for
        known = [i for c in clients for i in list(c.runs.values())[-8:]]
        for pid, _ in processes(known):
            if dice.random() < 0.3:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        service.proc.send_signal(signal.SIGKILL)
        service.proc.wait()
        service.start()
    stop.set()
    for c in clients:
        c.join()

    runs = [i for c in clients for i in c.runs.values()]
    states = collections.Counter()
    for i in runs:
        run = service.call("GET", f"/v1/runs/{i}?wait=300", token=token)[1]
        assert run["state"] in ENDED, run
        states[run["state"]] += 1
        status, text, _ = service.call("GET", f"/v1/runs/{i}/file?path=ran", token=token)
        lines = text if status == 200 else b""
        assert lines in ((b"ran\n",) if run["state"] == "done" else (b"", b"ran\n")), (run, lines)
    assert states["done"] and len(set(runs)) == len(runs)

    listed, page = [], ""
    while page is not None:
        answer = service.call("GET", f"/v1/runs?limit=1000{page and '&page=' + page}", token=token)[1]
        listed, page = listed + [r["id"] for r in answer["items"]], answer["next"]
    assert sorted(listed) == sorted(runs)  # no request made two, or one that no client knows of

    _, text, _ = service.call("GET", "/v1/events?follow=false", token=token, Accept="application/x-ndjson")
    stored = [json.loads(line) for line in text.splitlines()]
    counted = collections.Counter((e["data"]["run"], e["data"]["state"] in ENDED) for e in stored if e["data"]["state"] != "starting")
    assert counted == {(i, ended): 1 for i in runs for ended in (False, True)}
    while len(follower.events) < len(stored):
        time.sleep(0.01)
    assert follower.events == stored
    while list(processes(runs)):  # nothing is left over
        time.sleep(0.01)
    service.stop()
    with contextlib.closing(sqlite3.connect(service.top / "state/bawnd.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
