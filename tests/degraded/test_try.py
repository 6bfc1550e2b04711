# SPDX-License-Identifier: Apache-2.0
"""`make try` where something is denied: each promise is tried wherever it is claimed. In a container: tests/conformance/test_inside_agents.py."""

import os
import subprocess

import pytest
import trykit

RUNGS = {  # what is denied, and the rung that is left; the last is what Ubuntu's AppArmor does: a user namespace without capabilities
    (): "full",
    **({("netns",): "shared-net", ("userns",): "landlock"} if os.environ.get("BAWN_ALL") else {}),
    ("cgroupns", "hostname", "mounts"): "landlock",
}


def tried(runner, deny, features):
    if os.getuid() != 0:
        pytest.skip("needs root")
    before = [deny, *features, "--"] if features else []
    who = {"user": trykit.ID, "group": trykit.ID, "extra_groups": []}
    return subprocess.run([*before, trykit.TRY, runner.path], env=runner.environ(), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **who)


@pytest.mark.parametrize("features", RUNGS, ids=lambda features: "+".join(features) or "nothing")
def test_every_promise_is_tried_and_holds(user_runner, deny, features):
    r = tried(user_runner, deny, features)
    said = trykit.checked(r.returncode, r.stdout)
    assert (f"weaker sandbox ({RUNGS[features]} rung)" in said) == bool(features) and trykit.BY_HAND in said
    assert trykit.weaker(said) == {"memory", "pids"}


def test_what_is_not_claimed_is_named(user_runner, deny):
    """Without seccomp notification this rung has no network by rules."""
    said = tried(user_runner, deny, ("userns", "notify")).stdout.decode()
    assert "- not claimed here: a network with rules and keys" in said and "All enforced." not in said, said
