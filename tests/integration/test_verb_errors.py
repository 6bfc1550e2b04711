# SPDX-License-Identifier: Apache-2.0
"""What every verb that takes a sandbox says when it cannot: one table over all of them; and that --json of each is JSON.

A scene has sandboxes in every state: "box" runs, "dead" had its supervisor killed, "still" was stopped.
"""

import contextlib
import json
import os
import re
import select
import signal

import pytest

# {} is the name. needs: what it cannot do without a sandbox that runs.
VERBS = {
    "exec": (["exec", "{}", "--", "true"], "running"),
    "exec -d": (["exec", "-d", "{}", "--", "true"], "running"),
    "attach": (["attach", "{}"], "running"),
    "ps": (["ps", "{}"], "running"),
    "cp out": (["cp", "{}:f", "copy"], "running"),
    "cp in": (["cp", "f", "{}:f"], "running"),
    "put": (["put", "{}", "f"], "running"),
    "get": (["get", "{}", "f"], "running"),
    "logs": (["logs", "{}"], None),
    "logs -f": (["logs", "-f", "{}"], None),
    "stop": (["stop", "{}"], None),
    "status": (["status", "{}"], None),
    "inspect": (["inspect", "{}"], None),
    "rename": (["rename", "{}", "other"], None),
    "rm": (["rm", "{}"], None),
    "collect": (["collect", "{}"], None),
    "checkpoint": (["checkpoint", "{}"], None),
    "checkpoint ls": (["checkpoint", "ls", "{}"], None),
    "checkpoint rm": (["checkpoint", "rm", "{}", "tag"], None),
    "fork": (["fork", "{}"], None),
    "log": (["log", "{}"], None),
}
MAKES = {"shell": ["shell", "{}"], "start": ["start", "{}"], "rename to": ["rename", "still", "{}"], "fork to": ["fork", "still", "--name", "{}"],
         "checkpoint as": ["checkpoint", "still", "{}"]}
BAD = {"slash": "a/b", "up": "..", "dots": "a..b", "hidden": ".x", "lock": "x.lock", "newline": "a\nb", "long": "x" * 300, "escape": "a\x1b[31mb",
       "bytes": b"a\xff", "empty": ""}


def words(verb, name):
    table = MAKES[verb] if verb in MAKES else VERBS[verb][0]
    name = os.fsencode(name)
    return [os.fsencode(w).replace(b"{}", name) for w in table]


def kill_keeper(runner, name):
    pid = next(b["pid"] for b in runner.bawn("ps", "--json").json() if b["name"] == name)
    fd = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([fd], [], [])
    os.close(fd)


@contextlib.contextmanager
def scene_of(runner):
    runner.write("f", "content\n")
    try:
        for name in ("box", "dead", "still"):
            r = runner.bawn("start", name, "-w", "overlay", "--network", "none")
            assert r.rc == 0, r
        kill_keeper(runner, "dead")
        assert runner.bawn("stop", "still").rc == 0
        yield runner
    finally:
        assert runner.bawn("stop", "--all", "--force").rc == 0


@pytest.fixture(scope="module", params=["root", "user"])
def scene(request, bawn):
    tools = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))
    with tools.make_runner(request.param, bawn) as runner, scene_of(runner):
        yield runner


def is_one_message(r):
    """Nothing on stdout, lines of ours only, nothing that a terminal obeys, and no end of the screen."""
    assert r.out == b"" and r.err.endswith(b"\n"), r
    assert all(line.startswith(b"bawn: ") for line in r.err[:-1].split(b"\n")), r
    assert all(c >= 0x20 for c in r.err.replace(b"\n", b"")) and len(r.err) < 500, r


@pytest.mark.parametrize("verb", VERBS)
def test_no_such_sandbox(scene, verb):
    for name, hint in (("nobody", b"'bawn ps -a'"), ("bxo", b"did you mean 'box'?")):
        r = scene.bawn(*words(verb, name))
        is_one_message(r)
        assert r.rc == (4 if verb == "status" else 125) and b"no sandbox '%s'" % name.encode() in r.err, r
        assert hint in r.err or (verb == "log" and b"'bawn log'" in r.err), r  # which knows more of them than ps does


@pytest.mark.parametrize("verb", [*VERBS, *MAKES])
def test_bad_names(scene, verb):
    for what, name in BAD.items():
        if verb.startswith("cp") and what in ("slash", "empty"):
            continue  # "a/b:f" and ":f" are files of the host
        if verb == "log" and what in ("dots", "lock"):
            continue  # may be names of runs
        r = scene.bawn(*words(verb, name))
        is_one_message(r)
        assert r.rc == 64 and b"name" in r.err, (what, r)


@pytest.mark.parametrize("verb", [v for v, (_, needs) in VERBS.items() if needs])
def test_dead_supervisor(scene, verb):
    r = scene.bawn(*words(verb, "dead"))
    is_one_message(r)
    assert r.rc == 125 and b"its supervisor was killed: 'bawn start dead' starts it again" in r.err, r
    r = scene.bawn(*words(verb, "still"))
    is_one_message(r)
    assert r.rc == 125 and b"sandbox 'still' is not running: 'bawn start still'" in r.err, r


def test_already_running(scene):
    for args in (["start", "box", "-m", "64m"], ["rm", "box"]):
        r = scene.bawn(*args)
        is_one_message(r)
        assert r.rc == 125 and b"sandbox 'box' is " in r.err and b"running" in r.err, r
    for args in (["rename", "still", "box"], ["rename", "box", "still"], ["fork", "still", "--name", "box"]):
        r = scene.bawn(*args)
        is_one_message(r)
        assert r.rc == 125 and (b"'box'" in r.err or b"'still'" in r.err), r
    assert {b["name"]: b["status"] for b in scene.bawn("ps", "-a", "--json").json()} == {"box": "running", "dead": "crashed", "still": "stopped"}


def test_another_users_sandbox(root_runner, user_runner):
    """Even where the folder can be read by all, which nobody but its owner can bring about."""
    assert root_runner.bawn("start", "box", "-w", "ro", "--network", "none").rc == 0
    try:
        state = root_runner.home / ".local/state"
        for path in (root_runner.home, root_runner.home / ".local", state, *state.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o055)
        user_runner.write("f", "content\n")
        for verb in VERBS:
            r = user_runner.bawn(*words(verb, "box"), env={"XDG_STATE_HOME": str(state)})
            is_one_message(r)
            assert r.rc == 125 and re.search(rb"belongs to (user 0, not to you|another user)|Permission denied", r.err), r
        assert [b["status"] for b in root_runner.bawn("ps", "--json").json()] == ["running"]
    finally:
        assert root_runner.bawn("stop", "--all", "--force").rc == 0


JSON = [["ps"], ["ps", "-a"], ["ps", "box"], ["status", "box"], ["status", "dead"], ["inspect", "box"], ["inspect", "still"],
        ["exec", "-d", "box", "--", "echo", "\x1b"], ["logs", "box"], ["logs", "--keeper", "box"],
        ["cp", "f", "box:g"], ["cp", "box:g", "h"], ["put", "box", "i"], ["get", "box", "f"], ["collect", "box"], ["collect", "dead"],
        ["checkpoint", "box", "one"], ["checkpoint", "ls", "box"], ["checkpoint", "rm", "box", "one"], ["fork", "box", "--name", "forked"],
        ["rename", "forked", "again"], ["rename", "box", "boxed"], ["rename", "boxed", "box"], ["start", "again"], ["stop", "again"],
        ["rm", "--discard-changes", "again"], ["prune", "--dry-run"], ["prune"], ["log", "verify"], ["log"], ["log", "box"], ["top"], ["pool", "status"],
        ["run", "--each", "a,b", "--network", "none", "--", "echo", "{}"]]


def test_json_of_every_verb(scene):
    for args in JSON:
        verb = 2 if args[:2] in (["checkpoint", "ls"], ["checkpoint", "rm"], ["log", "verify"], ["pool", "status"]) else 1
        r = scene.bawn(*args[:verb], "--json", *args[verb:])
        assert r.rc == (3 if args == ["status", "dead"] else 0) and r.out, r
        for text in r.out.splitlines() if args[0] == "log" and args != ["log", "verify"] else [r.out]:
            json.loads(text)
    for args in (["run", "--json", "--network", "none", "--", "echo", "out"], ["exec", "--json", "box", "--", "echo", "out"]):
        r = scene.bawn(*args)  # stdout is the command's
        assert r.rc == 0 and r.out == b"out\n" and json.loads(r.err.splitlines()[-1])["status"] == 0, r
