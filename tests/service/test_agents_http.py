# SPDX-License-Identifier: Apache-2.0
"""Instructions, skills and MCP servers of an agent over HTTP: they reach the agent's home inside, and no other run's. The forms: tests/integration/test_agent_setup.py."""

import json

import pytest

PRESET = {"command": "sh", "home": [".printer"], "instructions": ".printer/ORDERS.md", "skills": ".printer/skills", "mcp": {"file": ".printer/mcp", "form": "claude"}}
PRINT = 'cd ~/.printer && cat ORDERS.md skills/*/SKILL.md mcp; ls skills; ls -l /proc/self/fd'
SETUP = {"instructions": 'Use "tabs" and ä.\n', "skills": {"release": "Tag it."},
         "mcp_servers": {"docs": {"command": ["docs", "a b"], "env": {"A": "1"}}, "wiki": {"url": "https://wiki.example.com/mcp"}}}


@pytest.fixture
def ask(service):
    """ask(setup): a run of a program that prints its home; its output is in ["stdout"]. Tenants have the preset that their administrator put there."""
    token = service.token()
    service.runner.write(service.top / "state/tenants/acme/home/.config/bawn/agents/printer.json", json.dumps(PRESET))

    def go(setup, **more):
        body = {"command": ["-c", PRINT], "agent": {"name": "printer", **setup}, "wait": 300, **more}
        status, run, _ = service.call("POST", "/v1/runs", body, token=token)
        assert status == 201, run
        return run | {"stdout": service.call("GET", f"/v1/runs/{run['id']}/output/stdout", token=token)[1].decode()}

    return go


def test_a_setup_reaches_the_agent(ask):
    run = ask(SETUP)
    assert (run["state"], run["status"]) == ("done", 0), run
    said = run["stdout"]
    assert said.startswith("# You work inside Bawn") and 'Use "tabs" and ä.\n' in said and "Tag it." in said
    docs = json.loads(said[said.index("{"):said.rindex("}") + 1])["mcpServers"]["docs"]
    assert (docs["command"], docs["args"], docs["env"]) == ("docs", ["a b"], {"A": "1"})
    assert "https://wiki.example.com/mcp" in said
    assert "agent-setup" not in said, "its descriptor is not inside"
    run = ask({"instructions": "Use blanks."})
    assert "Use blanks." in run["stdout"] and "tabs" not in run["stdout"] and "Tag it." not in run["stdout"]
    run = ask({})
    assert "You work inside" in run["stdout"] and "Use " not in run["stdout"]


@pytest.mark.parametrize("setup, reason", [
    ({"mcp_servers": {"a": {}}}, 'needs a "command" or a "url"'), ({"mcp_servers": {"a": {"command": ["a\nb"]}}}, "control character"),
])
def test_a_setup_with_a_mistake_is_a_run_that_failed(ask, setup, reason):
    run = ask(setup)
    assert run["state"] == "failed" and reason in run["reason"] and run["stdout"] == "", run
