# SPDX-License-Identifier: Apache-2.0
"""docker and podman: `bawn run --engine` beside the engine's own `run` of the same image, as the same user. A daemon of our own, as in the tests."""
import os
import shutil
import subprocess
import sys

import starts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "conformance"))
from daemons import Docker  # noqa: E402

ENGINES = ("docker", "podman")
ROUNDS = 40  # a single start of docker's differs from the next by more than the bar


def ours(engine):
    return f"bawn, {engine}"


def commands(stage, place, engine, env):
    """The first run makes the image."""
    before = ["env", *(f"{k}={v}" for k, v in env.items())]
    mine = [*before, stage.bawn, "run", "-q", "-C", place.empty, "--engine", engine, "--", "/usr/bin/true"]
    how = place.popen_as()
    done = subprocess.run(mine, capture_output=True, text=True, check=False, **how)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    image = subprocess.run([*before, engine, "images", "--quiet", "bawn-root"], capture_output=True, text=True, check=True, **how).stdout.split()[0]
    options = ["--rm", "--network=none", "--volume=/usr:/usr:ro", *env.get("SANDBOX_FLAGS", "").split()]
    if engine == "podman":  # which asks for more than it may have where limits are low
        options += ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"]
    return {engine: [*before, engine, "run", *options, image, "/usr/bin/true"], ours(engine): mine}


def measure(stage, place, effort, say):
    """{contender: result}, and under "reasons" why an engine is missing."""
    results, reasons, daemon = {}, {}, None
    say(f"as {place.name}: containers")
    try:
        for engine in ENGINES:
            env = {"SANDBOX_FLAGS": "--runtime=runc"}
            try:
                if not shutil.which(engine) or (engine == "docker" and os.geteuid() != 0):
                    raise RuntimeError("not installed, or its daemon needs root")
                if engine == "docker":
                    daemon = Docker(place.name)
                    env = {"DOCKER_HOST": daemon.host}
                wanted = commands(stage, place, engine, env)
                results |= starts.spawn(stage, place, ["--rounds", str(min(effort.rounds, ROUNDS)), "--budget", "60000ms"], wanted)
            except (RuntimeError, OSError, AssertionError, IndexError, subprocess.SubprocessError) as e:
                reasons[engine] = str(e)[-300:]
    finally:
        if daemon:
            daemon.end()
    return {"cold": results, "reasons": reasons}
