# SPDX-License-Identifier: Apache-2.0
"""`bawn run --agent NAME --agent-setup FILE`: instructions, skills and MCP servers become files of the agent's own home. Real agents: tests/agents/test_sdk.py."""

import json
import tomllib

import pytest

SETUP = {
    "instructions": "Use tabs.",
    "skills": {"release": 'How to "release"\n\nTag it.', "own": "---\nname: own\ndescription: mine\n---\nText"},
    "mcp_servers": {"docs.v2": {"command": ["docs", 'a "b" \\ ä', "c"], "env": {"A": "1"}}, "wiki": {"url": "https://wiki.example.com/mcp"}},
}


@pytest.fixture
def agent(runner):
    """agent(form): a program that prints all files of its home, with a preset of this form."""
    program = runner.write(runner.top / "bin/printer", "#!/bin/sh\ncd ~/.printer && find . -type f | sort | while read f; do echo \"== $f\"; cat \"$f\"; done\n", 0o755)
    settings = runner.write(runner.top / "setup.json", json.dumps(SETUP))

    def go(form, setup=settings, files=None, options=()):
        preset = {"command": "printer", "home": [".printer"], "files": files or {}, "instructions": ".printer/ORDERS.md", "skills": ".printer/skills",
                  "mcp": {"file": ".printer/mcp", "form": form}}
        runner.write(runner.home / ".config/bawn/agents/printer.json", json.dumps(preset))
        env = {"PATH": f"{program.parent}:/usr/bin:/bin"}
        return runner.bawn("run", "-q", *options, "--agent", "printer", *([f"--agent-setup={setup}"] if setup else []), env=env)

    return go


def files_in(out):
    parts = out.decode().split("== ./")[1:]
    return dict(p.split("\n", 1) for p in parts)


@pytest.mark.parametrize("form,key", [("claude", "mcpServers"), ("gemini", "mcpServers"), ("opencode", "mcp"), ("codex", "mcp_servers")])
def test_a_setup_in_the_form_of_each_agent(agent, form, key):
    old = 'model = "x"\n' if form == "codex" else '{"theme": "dark"}'
    r = agent(form, files={".printer/mcp": old})
    assert r.rc == 0, r
    files = files_in(r.out)
    assert files["ORDERS.md"].startswith("# You work inside Bawn") and files["ORDERS.md"].endswith("\nUse tabs.\n")
    assert files["skills/release/SKILL.md"] == '---\nname: release\ndescription: "How to \\"release\\""\n---\n\nHow to "release"\n\nTag it.\n'
    assert files["skills/own/SKILL.md"].startswith("---\nname: own\n")
    mcp = tomllib.loads(files["mcp"]) if form == "codex" else json.loads(files["mcp"])
    assert mcp.get("theme", mcp.get("model")) in ("dark", "x")
    docs, wiki = mcp[key]["docs.v2"], mcp[key]["wiki"]
    words = ["docs", 'a "b" \\ ä', "c"]
    assert (docs["command"] if form == "opencode" else [docs["command"], *docs["args"]]) == words
    assert docs["environment" if form == "opencode" else "env"] == {"A": "1"}
    assert wiki["httpUrl" if form == "gemini" else "url"] == "https://wiki.example.com/mcp"


def test_setups_do_not_meet(agent, runner):
    assert b"Use tabs." in agent("claude").out
    other = runner.write(runner.top / "other.json", '{"instructions": "Use blanks."}')
    r = agent("claude", other)
    assert b"Use blanks." in r.out and b"Use tabs." not in r.out and b"skills" not in r.out
    r = agent("claude", None)
    assert b"You work inside" in r.out and b"Use " not in r.out


@pytest.mark.parametrize("text,message", [
    ('{"instructions": 1}', b"instructions: must be a string"),
    ('{"skills": {"../x": "a"}}', b"a name has letters"),
    ('{"skills": {"a": 1}}', b"must be a string"),
    ('{"mcp_servers": {"a": {}}}', b'needs a "command" or a "url"'),
    ('{"mcp_servers": {"a": {"command": []}}}', b"is empty"),
    ('{"mcp_servers": {"a": {"command": ["a\\nb"]}}}', b"control character"),
    ('{"mcp_servers": {"a": {"url": "x", "env": {"A=B": "1"}}}}', b"no name of a variable"),
    ('{"hooks": {}}', b"hooks"),
    ("[]", b"setup"),
])
def test_what_is_no_setup(agent, runner, text, message):
    r = agent("claude", runner.write(runner.top / "bad-setup.json", text))
    assert r.rc == 64 and message in r.err, r


def test_what_it_does_not_go_with(agent, runner):
    assert agent("claude", options=["--agent-config=yes"]).rc == 64
    assert runner.bawn("run", "--agent-setup=x", "--", "true").rc == 64
