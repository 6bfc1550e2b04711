# SPDX-License-Identifier: Apache-2.0
"""Kept sandboxes in the registry: listing, status, inspect, rename, rm, prune, and what is swept after a crash.

Most tests make the folders of spec/sandbox-folder.md themselves, and hold the lock as a keeper would: that is cheap, and shows that the spec
says how it is. What needs a keeper starts one.
"""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from box_folder import held, make_box, make_dirs, now_ns, state_of  # noqa: E402

DAY = 86400


def listed(runner, *args, **kw):
    r = runner.bawn("ps", "--json", *args, **kw)
    assert r.rc == 0, r
    return {b["name"]: b for b in r.json()}


@contextlib.contextmanager
def started(runner, name, *options):
    """A sandbox that runs, with its keeper's pid; no keeper is left behind."""
    r = runner.bawn("start", name, *options)
    assert r.rc == 0, r
    pid = listed(runner)[name]["pid"]
    start = start_time(pid)
    try:
        yield pid
    finally:
        runner.bawn("stop", "--all", "--force")
        if start and start_time(pid) == start:
            os.kill(pid, signal.SIGKILL)


def start_time(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None


def kill_and_wait(pid):
    fd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([fd], [], [])
    os.close(fd)


# -- looking -----------------------------------------------------------------------------------------------------------------


def test_states(runner):
    make_box(runner, "created")
    make_box(runner, "stopped", {})
    make_box(runner, "failed", {"phase": "failed", "why": "no \x1b[31mway", "status": 125})
    make_box(runner, "killed", {"phase": "running"})
    make_box(runner, "damaged", {"phase": "running", "pid": "x"})
    cut = make_box(runner, "cut", {})
    (cut / "state.json").write_bytes(b'{"version": 1, "pha')
    live = make_box(runner, "live", {"phase": "running"})
    reboot = make_box(runner, "reboot", {"phase": "running", "boot": "0" * 36})
    begins = make_box(runner, "begins")
    with held(live), held(reboot), held(begins):
        words = {n: b["status"] for n, b in listed(runner, "-a").items()}
        assert words == {"created": "created", "stopped": "stopped", "failed": "failed", "killed": "crashed", "damaged": "created",
                         "cut": "created", "live": "running", "reboot": "crashed", "begins": "starting"}
        assert set(listed(runner)) == {"live", "begins"}
        assert runner.bawn("ps", "-q").out == b"begins\nlive\n"
        r = runner.bawn("ps")
        assert b"running 2h" in r.out and b"stopped" not in r.out and b"7 more are not running: bawn ps -a" in r.err, r
        r = runner.bawn("ps", "-a")
        assert rb"failed: no \x1b[31mway" in r.out and b"stopped 2h ago" in r.out and b"\x1b" not in r.out, r
        one = runner.bawn("ps", "-a", "--json").json()[0]
        assert one["limits"] == {"memory": None, "pids": None, "cpus_milli": None} and one["id"] == "bawn-begins-20260101T000000Z"


def test_status_line(runner):
    live = make_box(runner, "live", {"phase": "running"})
    make_box(runner, "dead", {"phase": "running"})
    with held(live):
        r = runner.bawn("status", "--line", "live")
        assert (r.rc, r.out) == (0, "⬡ Sandbox (native) │ dev │ live\n".encode()), r
        r = runner.bawn("status", "--line", "--color=always", "live")
        assert r.out == "\x1b[32m⬡ Sandbox (native) │ dev │ live\x1b[0m\n".encode(), r
        assert runner.bawn("status", "live").rc == 0
    r = runner.bawn("status", "--line", "--color=always", "dead")
    assert (r.rc, r.out) == (3, "\x1b[31m⬡ Sandbox (native) │ dev │ dead (crashed)\x1b[0m\n".encode()), r
    r = runner.bawn("status", "--line")  # the project has none: a prompt stays as it is
    assert (r.rc, r.out, r.err) == (4, b"", b""), r
    assert runner.bawn("status", "--json", "dead").json()["status"] == "crashed"


VERBS = [["ps"], ["rm"], ["inspect"], ["status"], ["rename", None, "other"]]


@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v[0])
def test_bad_names(user_runner, verb):
    make_box(user_runner, "project", {})
    for name in ("a/b", "..", "a\nb", "x" * 300, ""):
        r = user_runner.bawn(*([name if w is None else w for w in verb] if None in verb else [*verb, name]))
        assert r.rc == 64 and r.err.startswith(b"bawn: ") and b"\n'" not in r.err and len(r.err) < 400, r
    r = user_runner.bawn(*(["projetc" if w is None else w for w in verb] if None in verb else [*verb, "projetc"]))
    assert r.rc == (4 if verb[0] == "status" else 125) and b"no sandbox 'projetc'; did you mean 'project'?" in r.err, r


def test_other_users_sandbox(root_runner, user_runner):
    folder = make_box(root_runner, "dev", {})
    env = {"XDG_STATE_HOME": str(folder.parents[2])}
    for p in (root_runner.home, *list(folder.parents)[:4]):
        p.chmod(0o755)
    r = user_runner.bawn("rm", "dev", env=env)
    assert r.rc == 125 and b"belongs to user 0, not to you" in r.err, r
    assert folder.exists()


# -- changing ----------------------------------------------------------------------------------------------------------------


def test_rename_and_rm_with_changes(runner):
    with started(runner, "one", "--workspace", "overlay"):
        assert runner.bawn("exec", "one", "--", "sh", "-c", "echo new > made").rc == 0
        r = runner.bawn("rm", "one")
        assert r.rc == 125 and b"'one' is running: 'bawn stop one' first, or 'bawn rm --force one'" in r.err, r
        assert runner.bawn("rename", "one", "two").rc == 0
        seen = runner.bawn("inspect", "two").json()
        assert seen["changes"] == {"kind": "waiting", "files": 1, "commits": False} and seen["status"] == "running", seen
        assert pathlib.Path(seen["sockets"]["exec"]).is_socket() and pathlib.Path(seen["sockets"]["control"]).is_socket()
        assert runner.bawn("stop", "two").rc == 0
    make_box(runner, "taken")
    assert b"there is a sandbox 'taken' already" in runner.bawn("rename", "two", "taken").err
    assert runner.bawn("rename", "two", "three").rc == 0
    for args in ([], ["--force"]):
        r = runner.bawn("rm", "three", *args)
        assert r.rc == 125 and b"1 changed file waits to be applied; 'bawn review three'" in r.err, r
    assert (state_of(runner) / "runs/three/upper/made").read_text() == "new\n"
    r = runner.bawn("rm", "--keep-changes", "three")
    assert r.rc == 0 and runner.bawn("apply", "three", "--yes").rc == 0, r
    assert (runner.workspace / "made").read_text() == "new\n"


def test_rm_of_several(runner):
    make_box(runner, "a", {})
    make_box(runner, "b")
    live = make_box(runner, "c", {"phase": "running"})
    with held(live):
        r = runner.bawn("rm", "--json", "a", "c", "nosuch")
        assert r.rc == 125, r
        assert [x["removed"] for x in r.json()] == [True, False, False]
        assert runner.bawn("rm", "--all-stopped").out == b"b\n"
    assert os.listdir(live.parent) == ["c"]


# -- after a crash -----------------------------------------------------------------------------------------------------------


def leftovers(runner):
    run = state_of(runner) / "run"
    return sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_socket() or p.name.startswith("in-"))


def test_killed_keeper_is_swept(runner):
    with started(runner, "live") as live, started(runner, "dev") as pid:
        groups = runner.bawn("inspect", "dev").json()["cgroups"]
        kill_and_wait(pid)
        assert listed(runner, "-a")["dev"]["status"] == "crashed"
        before = runner.bawn("prune", "--dry-run", "--json").json()
        assert before["stale"]["sockets"] == 2 and before["removed"] == [], before
        r = runner.bawn("prune", "--json")
        assert r.rc == 0 and r.json()["stale"]["sockets"] == 2, r
        assert leftovers(runner) == sorted([f"{live}.sock", "box/live.sock"])
        assert not [g for g in groups if os.path.exists(g)]
        assert runner.bawn("exec", "live", "--", "true").rc == 0
        assert runner.bawn("start", "dev").rc == 0
        assert runner.bawn("exec", "dev", "--", "true").rc == 0
        assert runner.bawn("rm", "--force", "dev").rc == 0
    assert leftovers(runner) == []


def test_copied_state_folder_is_dead(user_runner):
    runner = user_runner
    with started(runner, "dev") as pid:
        other = runner.mkdir(runner.top / "other", 0o700)
        assert runner.run("cp", "-a", state_of(runner), other).rc in (0, 1)  # sockets
        env = {"XDG_STATE_HOME": str(other)}
        assert listed(runner, "-a", env=env)["dev"]["status"] == "crashed"
        r = runner.bawn("prune", "--json", "--older", "1ms", env=env)
        assert [x["name"] for x in r.json()["removed"]] == ["dev"], r
        assert start_time(pid) and listed(runner)["dev"]["status"] == "running"
        assert runner.bawn("exec", "dev", "--", "true").rc == 0


# -- prune -------------------------------------------------------------------------------------------------------------------


def grow_old(path, **members):
    text = json.loads(path.read_text())
    path.write_text(json.dumps({**text, **members}))


def test_prune(runner):
    long_ago = now_ns() - 40 * DAY * 10**9
    old = {"since_ns": long_ago, "used_ns": long_ago}
    make_box(runner, "old", old)
    make_box(runner, "young", {})
    live = make_box(runner, "live", {**old, "phase": "running"})
    make_box(runner, "waits", old)
    make_dirs(runner, make_box(runner, "saved", old) / "checkpoints" / "before")
    for name, script in (("waits", "echo x > changed"), ("nothing", "true")):
        assert runner.bawn("run", "--workspace", "overlay", "--name", name, "--", "sh", "-c", script).rc == 0
        grow_old(state_of(runner) / "runs" / name / "run.json", begun_ns=long_ago, ended_ns=long_ago)
    log = runner.write(make_dirs(runner, state_of(runner) / "log") / "network.jsonl.1", "x" * 5000)
    os.utime(log, ns=(long_ago, long_ago))
    names = {"old", "nothing", "network.jsonl.1"}
    with held(live):
        for args in (["--dry-run"], []):
            r = runner.bawn("prune", "--json", *args)
            assert r.rc == 0 and {x["name"] for x in r.json()["removed"]} == names, r
            why = {x["name"]: x["why"] for x in r.json()["kept"]}
            assert set(why) == {"waits", "saved"} and "1 changed file waits" in why["waits"] and "bawn review waits" in why["waits"], r
            assert "checkpoints" in why["saved"], r
        assert set(listed(runner, "-a")) == {"young", "live", "waits", "saved"}
        assert os.listdir(state_of(runner) / "runs") == ["waits"]
        space = r.json()["space"]
        assert [x["bytes"] for x in space] == sorted((x["bytes"] for x in space), reverse=True)
        assert {"sandbox", "changes"} <= {x["kind"] for x in space} and r.json()["total"] == sum(x["bytes"] for x in space)
        r = runner.bawn("prune", "--budget", "1k")
        assert b"removed sandbox young" in r.out and b"left sandbox waits" in r.out and b"more than the budget" in r.err, r
        assert set(listed(runner, "-a")) == {"live", "waits", "saved"}
    assert (state_of(runner) / "runs/waits/upper/changed").exists()


def test_budget_takes_the_least_used_first(user_runner):
    runner = user_runner
    for i, name in enumerate(("newest", "middle", "oldest")):
        folder = make_box(runner, name, {"used_ns": now_ns() - i * DAY * 10**9, "since_ns": 1})
        runner.write(folder / "home/data", os.urandom(1 << 20))
    assert runner.bawn("prune", "--budget", "2500k").rc == 0
    assert set(listed(runner, "-a")) == {"newest", "middle"}
    shutil.rmtree(state_of(runner))
    assert runner.bawn("prune", "--json").json()["total"] == 0
