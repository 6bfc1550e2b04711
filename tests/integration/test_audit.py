# SPDX-License-Identifier: Apache-2.0
"""The audit log: what is in it, that it can be checked without us, and that all meddling is found (spec/audit-events.md)."""

import hashlib
import json
import os
import re
import subprocess

import pytest


def folder(runner):
    return runner.home / ".local/state/bawn/audit"


def chain(path):
    """The check of the spec, which knows nothing of our code. Returns the events."""
    log = path.name.split(".jsonl")[0]
    prev, seq, events = hashlib.sha256(b"bawn audit " + log.encode()).hexdigest(), 0, []
    for line in path.read_bytes().splitlines(keepends=True):
        body, _, rest = line.rpartition(b',"hash":"')
        event = json.loads(line)
        assert event["hash"] == hashlib.sha256(body).hexdigest() and event["prev"] == prev and event["seq"] == seq + 1
        assert rest == event["hash"].encode() + b'"}\n'
        prev, seq = event["hash"], event["seq"]
        events.append(event)
    assert (path.parent / f"{log}.head").read_text().split()[3] == prev
    return events


def of_type(events, *types):
    return [e for e in events if e["type"] in types]


def test_a_run_is_told_and_can_be_checked_without_us(runner):
    command = ("sh", "-c", "exit 3", "--token", "s3cr3t-value")
    assert runner.bawn("run", "-w", "overlay", "--name", "one", "--network", "none", "--", *command).rc == 3
    assert runner.bawn("run", "--", "no-such-program").rc == 127
    events = chain(folder(runner) / "user.jsonl")
    index = chain(folder(runner) / "index.jsonl")
    assert [e["type"] for e in events] == ["start", "exec", "exit", "stop"] * 2
    assert [(e["event"], e["log"]) for e in index] == [("new", "user")]
    start, run, end, stop = events[:4]
    assert all(e["sandbox"] == "one" and e["user"] == runner.name and e["uid"] == runner.user.pw_uid for e in events[:4])
    assert start["workspace"] == str(runner.workspace) and start["network"] == "none" and len(start["plan"]) == 64
    assert run["argv"] == ["sh", "-c", "exit 3", "--token", "[redacted]"] and run["argc"] == 5
    assert run["argv_sha256"] == hashlib.sha256(b"sh\0-c\0exit 3\0--token\0s3cr3t-value\0").hexdigest()
    assert end["status"] == 3 and stop["status"] == 3 and events[6]["status"] == 127
    assert b"s3cr3t-value" not in (folder(runner) / "user.jsonl").read_bytes()
    assert runner.home.as_posix() not in json.dumps(run), "no environment"
    for path in folder(runner).iterdir():
        assert path.stat().st_mode & 0o777 == 0o600 and path.stat().st_uid == runner.user.pw_uid
    r = runner.bawn("log", "verify")
    assert r.rc == 0 and b"user.jsonl: 8 lines" in r.out and b"0 faults" in r.out, r


def test_bytes_of_the_agent_are_json_and_safe_on_a_terminal(runner):
    nasty = b"\x1b]0;x\x07\xff\xc2\x9b\n"
    assert runner.bawn("run", "--", "true", nasty).rc == 0
    [run] = of_type(chain(folder(runner) / "user.jsonl"), "exec")
    assert run["argv"][1].startswith("\x1b]0;x\x07\ufffd")
    r = runner.bawn("log")
    assert r.rc == 0 and b"\x1b" not in r.out and b"\xc2\x9b" not in r.out and len(r.out.splitlines()) == 4, r


def test_what_cannot_be_written_does_not_happen(runner):
    assert runner.bawn("run", "--", "true").rc == 0
    os.rename(folder(runner) / "user.jsonl", folder(runner) / "user.jsonl.7")
    runner.mkdir(folder(runner) / "user.jsonl")
    r = runner.bawn("run", "--", "touch", "made")
    assert r.rc == 125 and b"audit log" in r.err and not (runner.workspace / "made").exists(), r


@pytest.mark.parametrize("place", [{"HOME": "/nonexistent"}, {"XDG_STATE_HOME": "/proc/nowhere"}])
def test_without_a_place_for_it_a_run_goes_on(runner, place):
    r = runner.bawn("run", "--", "true", env=place)
    assert r.rc == 0, r
    assert runner.bawn("log", env=place).rc == 0 and runner.bawn("log", "verify", env=place).rc == 0


def swap(lines):
    lines[1], lines[2] = lines[2], lines[1]


def rehash(lines):
    """A line that was changed by somebody who knows how: the next one tells."""
    event = lines[1].replace(b'"type":"exec"', b'"type":"stop"').rpartition(b',"hash":"')[0]
    lines[1] = event + b',"hash":"' + hashlib.sha256(event).hexdigest().encode() + b'"}\n'


MEDDLING = {
    "changed": (lambda x: x.__setitem__(1, x[1].replace(b'"exec"', b'"exit"')), "user.jsonl", 2, "changed"),
    "rehashed": (rehash, "user.jsonl", 3, "not chained"),
    "removed": (lambda x: x.pop(1), "user.jsonl", 2, "removed"),
    "first": (lambda x: x.pop(0), "user.jsonl", 1, "removed"),
    "last": (lambda x: x.pop(), "user.jsonl", 0, "cut"),
    "reordered": (swap, "user.jsonl", 3, "reordered"),
    "repeated": (lambda x: x.append(x[0]), "user.jsonl", 5, "repeated"),
    "garbage": (lambda x: x.insert(2, b"\xff\n"), "user.jsonl", 3, "changed"),
}


def test_meddling_is_found(runner):
    assert runner.bawn("run", "--", "true").rc == 0
    log = folder(runner) / "user.jsonl"
    good = log.read_bytes()
    for how, file, line, what in MEDDLING.values():
        lines = good.splitlines(keepends=True)
        how(lines)
        log.write_bytes(b"".join(lines))
        r = runner.bawn("log", "verify", "--json")
        found = [f for f in r.json()["found"] if f["fault"]]
        assert r.rc == 1 and any(f["file"] == file and f["line"] == line and what in f["what"] for f in found), (what, r)
        r = runner.bawn("log", "verify")
        assert r.rc == 1 and b"FAULT: user.jsonl" in r.out, r
    log.write_bytes(good)
    assert runner.bawn("log", "verify").rc == 0
    (folder(runner) / "user.head").unlink()
    r = runner.bawn("log", "verify")
    assert r.rc == 1 and b"user.head: missing" in r.out, r


def test_log_chooses(runner):
    assert runner.bawn("run", "-w", "overlay", "--name", "alpha", "--", "true").rc == 0
    assert runner.bawn("run", "-w", "overlay", "--name", "beta", "--", "false").rc == 1
    everything = runner.bawn("log", "--json").out
    assert everything == (folder(runner) / "user.jsonl").read_bytes(), "the lines as they are"
    r = runner.bawn("log", "beta", "--json", "--type", "exec,exit")
    assert [(e["sandbox"], e["type"]) for e in map(json.loads, r.out.splitlines())] == [("beta", "exec"), ("beta", "exit")]
    assert runner.bawn("log", "--json", "--since", "1h").out == everything
    assert runner.bawn("log", "--json", "--until", "1h").out == b""
    assert runner.bawn("log", "--json", "--since", "2001-01-01", "--until", "2001-12-31T12:00").out == b""
    assert runner.bawn("log", "--json", "--tail", "1").out == everything.splitlines(keepends=True)[-1]
    assert b"beta exec job=0 $ false\n" in runner.bawn("log").out
    r = runner.bawn("log", "betta")
    assert r.rc == 125 and b"no sandbox 'betta' in the audit log; did you mean 'beta'?" in r.err, r
    for name, shown in (("../x", b"'../x'"), ("a/b", b"'a/b'"), ("a\nb", b"'a\\x0ab'"), ("x" * 300, b"'" + b"x" * 80 + b"'")):
        r = runner.bawn("log", name)
        assert r.rc == 64 and shown in r.err, r
    assert runner.bawn("log", "--type", "exce").rc == 64 and runner.bawn("log", "--since", "yesterday").rc == 64


def test_log_follows(runner):
    assert runner.bawn("run", "-w", "overlay", "--name", "alpha", "--", "true").rc == 0
    with runner.popen(runner.path, "log", "-f", "--json", "--type", "exec", stdout=subprocess.PIPE) as follower:
        assert json.loads(follower.stdout.readline())["sandbox"] == "alpha"
        assert runner.bawn("run", "-w", "overlay", "--name", "beta", "--", "true").rc == 0
        assert json.loads(follower.stdout.readline())["sandbox"] == "beta"
        # rotated under its eyes
        log = folder(runner) / "user.jsonl"
        log.rename(folder(runner) / "user.jsonl.1")
        assert runner.bawn("run", "-w", "overlay", "--name", "gamma", "--", "true").rc == 0
        assert json.loads(follower.stdout.readline())["sandbox"] == "gamma"
        follower.terminate()


def test_what_the_user_does_is_told(runner):
    runner.write(".bawn/config.json", '{"sandbox": {"env": {"A": "b"}}}')
    assert runner.bawn("policy", "allow", "example.com:443", "--id", "mine").rc == 0
    assert runner.bawn("policy", "rm", "mine").rc == 0
    assert runner.bawn("trust", "--yes").rc == 0
    r = runner.bawn("secret", "set", "forge", "--host", "git.example.com", "--basic", "me", "--store", "env:FORGE_TOKEN")
    assert r.rc == 0, r
    assert runner.bawn("run", "-w", "overlay", "--name", "r1", "--", "sh", "-c", "echo 1 > a; echo 2 > b").rc == 0
    assert runner.bawn("review", "r1").rc in (0, 1)
    assert runner.bawn("discard", "r1", "--only", "b", "--yes").rc == 0
    assert runner.bawn("apply", "r1").rc == 0
    assert runner.bawn("apply", "--undo", "r1").rc == 0
    events = chain(folder(runner) / "user.jsonl")
    policy = of_type(events, "policy")
    assert [e["what"] for e in policy] == ["rule added", "rule removed", "project trusted", "secret set"]
    assert json.loads(policy[0]["rule"])["host"] and policy[2]["workspace"] == str(runner.workspace)
    assert policy[3]["name"] == "forge" and policy[3]["hosts"] == ["git.example.com"]
    done = [(e["type"], e["run"], e.get("paths")) for e in of_type(events, "review", "apply", "discard", "rollback")]
    assert done == [("review", "r1", None), ("discard", "r1", ["a", "b"]), ("apply", "r1", ["a"]), ("rollback", "r1", None)]
    assert [json.loads(x)["type"] for x in runner.bawn("log", "r1", "--json").out.splitlines()][-1] == "rollback"


def test_changes_that_go_with_their_sandbox_are_told(runner):
    assert runner.bawn("start", "box", "-w", "overlay", "--network", "none").rc == 0
    try:
        assert runner.bawn("exec", "box", "--", "sh", "-c", "echo 1 > a").rc == 0
        r = runner.bawn("rm", "-f", "box")
        assert r.rc == 125 and b"1 changed file waits" in r.err, r
    finally:
        r = runner.bawn("rm", "-f", "--discard-changes", "box")
    assert r.rc == 0 and not (runner.workspace / "a").exists(), r
    [event] = of_type(chain(folder(runner) / "user.jsonl"), "discard")
    assert (event["run"], event["what"], event["changes"]) == ("box", "rm --discard-changes", 1)


def test_the_log_of_a_sandbox_is_not_that_of_its_forks(user_runner):
    """ids are bawn-NAME-<time>, and "box-1" begins like one of "box"; a removed one is still found by its name."""
    try:
        assert user_runner.bawn("start", "box", "-w", "ro", "--network", "none").rc == 0
        assert user_runner.bawn("fork", "box", "--start").out == b"box-1\n"
    finally:
        assert user_runner.bawn("stop", "--all").rc == 0
    assert user_runner.bawn("rm", "box", "box-1").rc == 0
    for name in ("box", "box-1"):
        events = [json.loads(x) for x in user_runner.bawn("log", name, "--json").out.splitlines()]
        assert events and all(re.fullmatch(rf"bawn-{name}-\d{{8}}T\d{{6}}Z", e["sandbox"]) for e in events), events
    r = user_runner.bawn("log", "bxo")
    assert r.rc == 125 and b"did you mean 'box'?" in r.err, r


SECRET = "s3cr3tvalue99"


def test_no_secret_of_a_command_is_in_the_log(user_runner):
    """Whichever way it came to be executed: in the arguments that are told it is redacted, and of the environment nothing is."""
    runner = user_runner
    tasks = runner.write("tasks.jsonl", json.dumps({"name": "t", "cmd": ["true", "--token", SECRET], "env": {"TOKEN": SECRET}}) + "\n")
    none = ("--network", "none")
    try:
        for args in (["start", "box", "-w", "ro", *none, "--env", f"TOKEN={SECRET}", "--", "sh", "-c", f": --password {SECRET}"],
                     ["exec", "box", "--", "true", "--token", SECRET], ["exec", "box", "--", "true", f"API_KEY={SECRET}"],
                     ["exec", "--env", f"GITHUB_TOKEN={SECRET}", "box", "--", "true"], ["exec", "-d", "box", "--", "true", "-u", f"me:{SECRET}"],
                     ["run", *none, "--", "true", f"https://me:{SECRET}@host/"], ["run", "--each", "a", *none, "--", "true", f"--password={SECRET}", "{}"],
                     ["batch", *none, tasks], ["get", "box", "tasks.jsonl"]):
            r = runner.bawn(*args)
            assert r.rc == 0, r
    finally:
        assert runner.bawn("stop", "--all").rc == 0
    held = b"".join(p.read_bytes() for p in folder(runner).iterdir())
    assert SECRET.encode() not in held and held.count(b"[redacted]") >= 7
    assert SECRET.encode() not in runner.bawn("log").out
