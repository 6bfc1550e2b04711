# SPDX-License-Identifier: Apache-2.0
"""A host that denies a part of what the full rung is made of: user namespaces are there, and network namespaces, mounts or host names are not; or another
sandbox has seccomp notification. The run takes the rung that works, says so, and `bawn doctor` says the same."""

import json

import pytest

# What is denied, and the best that can be made of the rest. The last but one is what Ubuntu's AppArmor does: a user namespace without capabilities.
PARTS = {
    ("netns",): "shared-net",
    ("mounts",): "landlock",
    ("hostname",): "landlock",
    ("netns", "mounts"): "landlock",
    ("cgroupns", "hostname", "mounts"): "landlock",
    ("userns", "netns"): "landlock",
}
BY_NAME = pytest.mark.parametrize("parts", PARTS, ids="+".join)


def secret(runner):
    return runner.write(runner.home / ".ssh/id", "bawn-secret-key\n", 0o600)


def denied(runner, deny, features, *args):
    return runner.run(deny, *features, "--", runner.path, *args)


def doctor(runner, deny, *features):
    return json.loads(denied(runner, deny, features, "doctor", "--json").out)


@BY_NAME
def test_the_weaker_rung_is_taken_and_named(user_runner, deny, parts):
    """Claim: with a part of the full rung denied, files of the user's stay closed in the rung that is left, which the run and doctor name."""
    path, rung = secret(user_runner), PARTS[parts]
    assert user_runner.run(deny, *parts, "--", "cat", path).out == b"bawn-secret-key\n"
    r = denied(user_runner, deny, parts, "run", "--pids", "30000", "--", "sh", "-c", f"cat {path}; echo x > {path}; echo $BAWN; echo made > made")
    assert r.rc == 0 and r.out == f"{rung}\n".encode() and r.err.count(f"weaker sandbox ({rung} rung)".encode()) == r.err.count(b"weaker sandbox") == 1, r
    assert path.read_text() == "bawn-secret-key\n" and (user_runner.workspace / "made").exists()
    found = doctor(user_runner, deny, *parts)["run"]
    assert (found["outcome"], found["rung"]) == ("weaker", rung), found


@BY_NAME
def test_require_refuses(user_runner, deny, parts):
    r = denied(user_runner, deny, parts, "run", "--sandbox=require", "--", "touch", "made")
    assert r.rc == 125 and not (user_runner.workspace / "made").exists(), r


def test_notification_of_another_sandbox(user_runner, deny):
    """Claim: without notification the landlock rung has no network, says so, and doctor too; files stay closed."""
    r = denied(user_runner, deny, ["userns", "notify"], "run", "--pids", "30000", "--", "touch", "made")
    assert r.rc == 125 and b"use --workspace overlay, sync or ro" in r.err, "direct mode has no guard for protected paths"
    path = secret(user_runner)
    script = f"import os, socket\ntry: print(open({str(path)!r}).read())\nexcept OSError: print('closed', os.environ['BAWN'])\n" \
             "try: socket.socket().connect(('127.0.0.1', 9))\nexcept PermissionError: print('no network')"
    r = denied(user_runner, deny, ["userns", "notify"], "run", "-w", "sync", "--pids", "30000", "--", "/usr/bin/python3", "-c", script)
    assert r.rc == 0 and r.out == b"closed landlock\nno network\n" and b"network" in r.err, r
    engines = doctor(user_runner, deny, "userns", "notify")["engines"]
    [native] = [e for e in engines if e["name"] == "native"]
    [bare] = [rung for rung in native["rungs"] if rung["name"] == "landlock"]
    assert bare["available"] and "no network: another program around this one" in bare["why"], bare
