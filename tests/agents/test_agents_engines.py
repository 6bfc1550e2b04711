# SPDX-License-Identifier: Apache-2.0
"""The real agents behind another engine, and with the programs of an image: the same loop, with the key put in outside."""

import os
import pathlib
import shutil
import sys

import pytest

import model_servers
import scan
from test_agents import PLUGINS, checked_end, placeholder_of

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "conformance"))
import host_image  # noqa: E402
from daemons import Docker  # noqa: E402

TEST_USER = os.environ.get("BAWN_TEST_USER", "bawn-test")
IN_IMAGE = ["claude", "codex", "gemini", "opencode"] if os.environ.get("BAWN_ALL") else ["gemini"]


@pytest.fixture(scope="module")
def docker():
    d = Docker(TEST_USER)
    yield d
    d.end()


def loop(net, models, agent, env, *options):
    key = models.keys[agent.host]
    env = {**agent.set_secret(net, key), **env}
    models.hold()
    run = agent.start_inside(net, env, *options)
    models.wait_for_last(run)
    return key, run


def finish(net, models, agent, key, run):
    models.go_on()
    r = checked_end(run, net, models, agent)
    assert key.encode() not in r.out + r.err
    log = [e for e in net.log() if e["host"] not in PLUGINS.get(agent.name, set())]
    assert {e["host"] for e in log} == {agent.host} and {e["action"] for e in log} == {"allow"}, log


@pytest.mark.xdist_group("agents-docker")
def test_agent_in_docker(net, models, agent, docker):
    """The container's processes are the daemon's: the key is looked for from inside it."""
    key, run = loop(net, models, agent, {"DOCKER_HOST": docker.host}, "--engine", "docker")
    (container,) = docker.containers()
    inside = [int(line) for line in docker.call("top", container.decode(), "-eo", "pid").stdout.split()[1:]]
    assert placeholder_of(agent, inside) != key
    needles = scan.Needles(key)
    assert [find for pid in inside for find in scan.process(pid, "inside", needles)] == []
    finish(net, models, agent, key, run)
    assert docker.containers() == []


@pytest.mark.parametrize("agent", IN_IMAGE, indirect=True)
def test_agent_with_the_programs_of_an_image(net, models, agent):
    node = shutil.which("node")
    paths = [*host_image.paths(), *(p for name in (node, "/usr/bin/git", str(agent.program)) for p in host_image.program(name)), str(agent.program.parent.parent.parent)]
    r = agent.runner.bawn("image", "from-host", "-t", "agents/image", *sorted(set(paths)))
    assert r.rc == 0, r
    key, run = loop(net, models, agent, {}, "--image", "agents/image", "--env", f"PATH={agent.program.parent}:/usr/bin:/bin")
    inside = scan.processes(run.pid)
    assert placeholder_of(agent, inside) != key
    assert [find for pid, name in inside.items() for find in scan.process(pid, name, scan.Needles(key))] == []
    finish(net, models, agent, key, run)
    assert (net.runner.workspace / model_servers.MADE).stat().st_uid == net.runner.user.pw_uid
