# SPDX-License-Identifier: Apache-2.0
"""Orchestration (T8): the SDK runs real agents with the caller's instructions, skills and MCP servers. They reach the model, and nothing else of the host's
crosses: not the user's own configuration of the agent, not the key. What comes back is exit, events, diff, and cost if the agent tells."""

import json
import pathlib
import re

import model_servers
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TASK = "Make the file, then read it."

# An MCP server on standard input and output with one tool; it runs inside, out of the workspace.
SERVER = r"""
import json, os, pathlib, sys
pathlib.Path(__file__).with_name("probe-" + os.environ["PROBE_NAME"]).touch()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "probe", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "sound_the_probe", "description": "Sounds the probe", "inputSchema": {"type": "object", "properties": {}}}]}
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""

SCRIPT = r"""
import dataclasses, json, sys
import bawn
workspace, agent, task = sys.argv[1:4]
client = bawn.Client(local=True, require_review=True)
run = client.run(agent=agent, prompt=task, workspace=workspace, instructions="Always be WONDERFULLY brief.", env={"PROBE_SIZE": "7"},
                 skills={"release-steps": "How to CUT A RELEASE of this project\n\nTag it."},
                 mcp_servers={"probe": {"command": ["python3", workspace + "/probe.py"], "env": {"PROBE_NAME": "x y"}}})
result = run.result()
try:
    run.apply()
    refused = False
except bawn.ReviewRequired:
    refused = True
review = run.review()
print(json.dumps({**dataclasses.asdict(result), "diff": run.diff(), "refused": refused, "summary": review["summary"], "made": run.read_text("made-by-the-agent.txt")}))
run.discard()
client.close()
"""


def test_an_agent_by_the_sdk(net, models, agent):
    runner = net.runner
    runner.write("probe.py", SERVER)
    # The user's own configuration, which must not cross.
    for path in (".claude/CLAUDE.md", ".codex/AGENTS.md", ".gemini/GEMINI.md", ".config/opencode/AGENTS.md"):
        runner.write(runner.home / path, "HOST-ONLY-ORDERS\n")
    env = agent.set_secret(net, models.keys[agent.host])
    script = runner.write(runner.top / "go.py", SCRIPT)
    done = net.popen("/usr/bin/python3", script, runner.workspace, agent.name, TASK, stdin=-3, stdout=-1, stderr=-1,
                     env=agent.environ(BAWN=str(runner.path), PYTHONPATH=str(ROOT / "sdk/python"), PYTHONDONTWRITEBYTECODE="1", **env))
    out, err = done.communicate()
    assert done.returncode == 0, err.decode()[-4000:]
    r = json.loads(out)
    assert (r["state"], r["status"]) == ("done", 0), r
    said = json.dumps(r["events"])
    assert r["events"] and model_servers.MARKER in said, r
    assert r["made"] == model_servers.CONTENT + "\n" and "+" + model_servers.CONTENT in r["diff"]
    assert r["refused"] and r["summary"]["changes"] >= 1
    assert not (runner.workspace / model_servers.MADE).exists(), "nothing is in the workspace before apply()"
    if agent.name == "claude":
        assert r["cost"] is not None and r["cost"] >= 0
    assert agent.name == "gemini" or r["usage"], "what it used"

    asked = [a for a in models.requests() if a["key"] == "real"]
    bodies = "\n".join(a["body"] for a in asked)
    assert "WONDERFULLY brief" in bodies and "CUT A RELEASE" in bodies
    assert agent.name == "codex" or "sound_the_probe" in bodies  # Codex names tools to its model when it searches for them
    assert "probe-x y" in r["diff"], "the MCP server was not started, or without its variables"
    assert "http://bawn.internal/why" in bodies, "what Bawn says of the place is still there"
    assert "HOST-ONLY-ORDERS" not in bodies
    assert not [a for a in models.requests() if a["key"] == "wrong"]

    # The plain agent of this project sees nothing of the setup.
    models.forget()
    plain = agent.start_inside(net, env, "-w", "overlay")
    assert plain.end().rc == 0
    bodies = "\n".join(a["body"] for a in models.requests())
    assert bodies and "WONDERFULLY brief" not in bodies and "sound_the_probe" not in bodies and "CUT A RELEASE" not in bodies


@pytest.mark.parametrize("agent", ["claude"], indirect=True)
def test_the_example_of_the_documentation(net, models, agent):
    """docs/sdk.md, as written; its MCP server does not exist, which the agent bears."""
    text, = (block for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/sdk.md").read_text(), re.M | re.S) if "# with an agent" in block)
    env = agent.set_secret(net, models.keys[agent.host])
    done = net.popen("/usr/bin/python3", "-c", text, stdin=-3, stdout=-1, stderr=-1,
                     env=agent.environ(BAWN=str(net.runner.path), PYTHONPATH=str(ROOT / "sdk/python"), PYTHONDONTWRITEBYTECODE="1", **env))
    out, err = done.communicate()
    assert done.returncode == 0 and b"+" + model_servers.CONTENT.encode() in out, err
    assert (net.runner.workspace / model_servers.MADE).read_text() == model_servers.CONTENT + "\n"
