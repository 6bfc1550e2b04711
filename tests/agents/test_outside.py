# SPDX-License-Identifier: Apache-2.0
"""Agents that run on the host, and whose work happens in a sandbox: by the tools of `bawn mcp`, or with bawn-sh in place of their shell."""

import json

import model_servers
import pytest


@pytest.fixture
def stopped(net):
    yield
    assert net.bawn("stop", "--all", "-t", "0", "--force").rc == 0


def executed(net):
    """Commands that ran in sandboxes."""
    return [" ".join(json.loads(line)["argv"]) for line in net.bawn("log", "--json", "--type", "exec").out.decode().splitlines()]


def shell(runner):
    path = runner.path.parent / "bawn-sh"
    if not path.exists():  # a build folder has no links
        path = runner.top / "bawn-sh"
        path.symlink_to(runner.path)
    return path


@pytest.mark.parametrize("agent", ["claude", "opencode"], indirect=True)
def test_bawn_sh(net, models, agent, stopped):
    """In overlay mode: what its shell made is in the sandbox, and its own tool for reading, which is outside, does not find it."""
    assert net.bawn("start", "-w", "overlay").rc == 0
    variables = {"claude": {"CLAUDE_CODE_SHELL_PREFIX": f"{shell(net.runner)} -c"}, "opencode": {"SHELL": str(shell(net.runner))}}[agent.name]
    r = agent.start_outside(net, models.keys[agent.host], variables=variables).end()
    assert r.rc == 0 and model_servers.MARKER.encode() in r.out, r
    assert any(command.startswith("/bin/sh -c ") for command in executed(net)), ("its command did not run in the sandbox", r)
    assert not (net.runner.workspace / model_servers.MADE).exists(), "what it made waits to be applied"
    name = net.bawn("ps", "--json").json()[0]["name"]
    assert model_servers.MADE.encode() in net.bawn("diff", "--name-only", name).out


@pytest.mark.parametrize("agent", ["claude", "opencode"], indirect=True)
def test_mcp(net, models, agent, stopped):
    command = [str(net.runner.path), "mcp", "-w", "overlay"]
    arguments, variables = [], {}
    if agent.name == "claude":
        config = net.runner.write(net.runner.home / "mcp.json", json.dumps({"mcpServers": {"bawn": {"command": command[0], "args": command[1:]}}}))
        variables = {"ENABLE_TOOL_SEARCH": "false", "MCP_CONNECTION_NONBLOCKING": "false"}  # its tools are in the first request
        arguments = ["--mcp-config", str(config), "--strict-mcp-config", "--disallowedTools", "Bash", "Read", "Write", "Edit"]
    else:
        config = {"mcp": {"bawn": {"type": "local", "command": command}}, "tools": {"bash": False, "read": False}}
        variables = {"OPENCODE_CONFIG": str(net.runner.write(net.runner.home / "mcp.json", json.dumps(config)))}
    r = agent.start_outside(net, models.keys[agent.host], arguments, variables).end()
    assert r.rc == 0 and model_servers.MARKER.encode() + b" read it" in r.out, r
    assert any(model_servers.MADE in command for command in executed(net)), ("its command did not run in the sandbox", r)
    assert not (net.runner.workspace / model_servers.MADE).exists(), "what it made waits to be applied"
