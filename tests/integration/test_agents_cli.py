# SPDX-License-Identifier: Apache-2.0
"""Presets of agents: `bawn agents`, `bawn run --agent`, with programs that stand for agents. The real ones are in tests/agents."""

import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import time

import jsonschema
import pytest

PRESET = {
    "name": "fake", "title": "Fake agent", "command": "fake-agent", "args": ["--from-preset"], "env": {"FAKE_QUIET": "1"},
    "home": [".fake", ".config/fake"], "files": {".fake/settings.json": "{\"seen\": true}\n", ".config/fake/deep/er.txt": "x"},
    "instructions": ".fake/AGENTS.md",
    "hosts": ["model.example:443"], "deny": ["telemetry.example"], "secret": {"name": "fake", "host": "model.example", "env": ["FAKE_KEY"]},
}
SCRIPT = """#!/bin/sh
echo "args: $*"; echo "quiet: $FAKE_QUIET"; cat ~/.fake/settings.json ~/.config/fake/deep/er.txt
echo more >> ~/.fake/history; cat ~/.fake/history; touch ~/elsewhere
"""
BUILTIN = ["claude", "codex", "gemini", "opencode"]


@pytest.fixture
def agent(runner):
    """An agent in a folder of the host's that a sandbox does not have by itself."""
    program = runner.write(runner.home / "tools" / "fake-agent", SCRIPT, 0o755)
    runner.write(runner.home / ".config" / "bawn" / "agents" / "fake.json", json.dumps(PRESET))
    runner.agent_env = {"PATH": f"{program.parent}:/usr/bin:/bin"}
    return runner


def run(runner, *args, **kw):
    return runner.bawn("run", "--agent", "fake", *args, env={**runner.agent_env, **kw.pop("env", {})}, **kw)


def test_the_agent_is_the_command(agent):
    r = run(agent, "--", "-p", "hello")
    assert r.rc == 0, r
    assert r.out.startswith(b"args: --from-preset -p hello\nquiet: 1\n{\"seen\": true}\nx"), r


def test_it_is_told_where_it_is(agent):
    """In its own folder, never in the project; and what is there already stays."""
    script = agent.home / "tools" / "fake-agent"
    script.write_text("#!/bin/sh\ncat ~/.fake/AGENTS.md; echo mine > ~/.fake/AGENTS.md\n")
    r = run(agent)
    assert r.rc == 0 and b"http://bawn.internal/why" in r.out and b"bawn policy allow HOST:PORT" in r.out and b"Bawn denied" in r.out, r
    assert os.listdir(agent.workspace) == []
    assert run(agent).out == b"mine\n"


def test_the_programs_name_may_be_said_once_more(agent):
    assert run(agent, "--", "fake-agent", "-p").out.startswith(b"args: --from-preset -p\n")


def test_what_it_keeps_is_kept_for_this_project_only(agent):
    assert run(agent).out.count(b"more") == 1
    assert run(agent).out.count(b"more") == 2
    other = agent.mkdir(agent.top / "other")
    assert run(agent, "-C", other).out.count(b"more") == 1
    assert not (agent.home / ".fake").exists() and not (agent.home / "elsewhere").exists()


def test_what_the_user_says_is_stronger(agent):
    assert b"quiet: no\n" in run(agent, "--env", "FAKE_QUIET=no").out


def test_the_hosts_own_login_is_never_shown(agent):
    agent.write(agent.home / ".fake" / "credentials", "HOST LOGIN")
    r = run(agent)
    assert r.rc == 0 and b"HOST LOGIN" not in r.out
    script = agent.home / "tools" / "fake-agent"
    script.write_text("#!/bin/sh\ncat ~/.fake/credentials\n")
    assert b"HOST LOGIN" not in run(agent).out


def test_a_link_in_its_folder_leads_nowhere(agent):
    """Claim: an agent that puts a link where the preset's file belongs does not get the host to write through it."""
    target = agent.write(agent.home / "precious", "mine")
    script = agent.home / "tools" / "fake-agent"
    script.write_text(f"#!/bin/sh\nrm -f ~/.fake/settings.json; ln -s {target} ~/.fake/settings.json; rm -rf ~/.config/fake/deep; ln -s {agent.home} ~/.config/fake/deep\n")
    assert run(agent).rc == 0
    r = run(agent)
    assert target.read_text() == "mine" and not (agent.home / "er.txt").exists(), r


def test_a_program_in_the_workspace_is_not_taken(agent):
    """Claim: what an agent leaves in the workspace never becomes the agent."""
    agent.write("bin/fake-agent", "#!/bin/sh\necho planted\n", 0o755)
    r = agent.bawn("run", "--agent", "fake", env={"PATH": f"{agent.workspace}/bin:bin:{agent.agent_env['PATH']}"})
    assert b"planted" not in r.out and b"args:" in r.out, r


def test_not_installed(agent):
    r = agent.bawn("run", "--agent", "fake", env={"PATH": "/usr/bin:/bin"})
    assert r.rc == 64 and b"no package of npm" in r.err and b"fake-agent" in r.err, r
    r = agent.bawn("agents", "--install", "nobody")
    assert r.rc == 64 and b"no agent 'nobody'" in r.err, r


def test_no_preset_and_no_command(user_runner):
    r = user_runner.bawn("run", "--agent", "nobody")
    assert r.rc == 64 and b"bawn agents" in r.err, r
    assert user_runner.bawn("run", "--agent", "nobody", "--", "true").rc == 0


def test_list(agent):
    found = {a["name"]: a for a in agent.bawn("agents", "--json", env=agent.agent_env).json()}
    assert sorted(found) == sorted([*BUILTIN, "fake"])
    assert found["fake"]["installed"] == "host" and found["fake"]["program"] == str(agent.home / "tools" / "fake-agent")
    assert found["fake"]["credential"] is None and found["fake"]["host"] == "model.example"
    text = agent.bawn("agents", env=agent.agent_env)
    assert text.rc == 0 and b"bawn secret set fake --host model.example" in text.out, text


def test_a_credential_is_named(agent):
    agent.write(agent.home / ".config" / "bawn" / "secrets.json", json.dumps({"secrets": {"mine": {"hosts": ["model.example"], "store": "env", "variable": "X"}}}), 0o600)
    found = {a["name"]: a for a in agent.bawn("agents", "--json", env=agent.agent_env).json()}
    assert found["fake"]["credential"] == "mine"


def test_what_its_first_request_needs_is_ready(agent):
    """Gate and broker run before there is a connection, and end with it."""
    agent.write(agent.home / ".config" / "bawn" / "secrets.json", json.dumps({"secrets": {"mine": {"hosts": ["model.example"], "env": ["FAKE_KEY"], "store": "file"}}}), 0o600)
    (agent.home / "tools" / "fake-agent").write_text("#!/bin/sh\nread -r line\n")
    with agent.popen(agent.path, "run", "--agent", "fake", env=agent.agent_env, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        children, until = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children"), time.monotonic() + 60
        names = {}
        while not {"bawn-gate", "bawn-broker"} <= set(names.values()) and time.monotonic() < until:
            time.sleep(0.01)
            with contextlib.suppress(OSError):
                names = {pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in children.read_text().split()}
        assert {"bawn-gate", "bawn-broker"} <= set(names.values()), names
        p.communicate(b"\n")
        assert p.returncode == 0
    assert not [pid for pid, name in names.items() if os.path.exists(f"/proc/{pid}") and pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name]


def test_what_is_explained_has_the_preset_in_it(agent):
    """What is explained is what happens: hosts and variables of the preset count in both."""
    def verdict(*options):
        return agent.bawn("policy", "explain", "model.example:443", *options, "--json", env=agent.agent_env).json()["action"]

    assert verdict() != "allow" and verdict("--agent", "fake") == "allow"
    r = agent.bawn("explain", "--agent", "fake", env=agent.agent_env)
    assert r.rc == 0 and b"FAKE_QUIET=1" in r.out and b"fake-agent" in r.out, r
    assert not (agent.home / ".local" / "state" / "bawn" / "volumes").exists(), "to explain is to make nothing"


def test_the_command_for_its_credential_makes_its_variable(agent):
    listed = agent.bawn("agents", env=agent.agent_env).out.decode()
    assert "(bawn secret set fake --host model.example --env FAKE_KEY)" in listed
    assert "(bawn secret set openai --host api.openai.com)" in listed, "usual variables need not be said"


BAD = {
    "no command": ({}, b"\"command\" is missing"),
    "a path": ({"command": "/bin/sh"}, b"not a path"),
    "out of the home": ({"command": "x", "home": ["../.ssh"]}, b"not a path below the home"),
    "absolute": ({"command": "x", "files": {"/etc/passwd": ""}}, b"not a path below the home"),
    "unknown": ({"command": "x", "mounts": []}, b"mounts"),
    "another name": ({"command": "x", "name": "y"}, b"the file is for 'fake'"),
    "an option as package": ({"command": "x", "package": "--evil"}, b"no package"),
}


@pytest.mark.parametrize("what", BAD)
def test_mistakes_are_named(agent, what):
    preset, message = BAD[what]
    agent.write(agent.home / ".config" / "bawn" / "agents" / "fake.json", json.dumps(preset))
    r = run(agent)
    assert r.rc == 64 and message in r.err and b"fake.json:" in r.err, r


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_ones_keep_to_the_schema(name):
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    with open(os.path.join(root, "spec", "agent.schema.json")) as f, open(os.path.join(root, "profiles", "agents", f"{name}.json")) as p:
        jsonschema.validate(json.load(p), json.load(f))


# bawn exec --tool ---------------------------------------------------------------------------------------------------

def tool(runner, *args, **kw):
    return runner.bawn("exec", *args, env={"PATH": f"{runner.home}/tools:/usr/bin:/bin"}, **kw)


@pytest.fixture
def tools(runner):
    runner.write(runner.home / "tools" / "todoread", "#!/bin/sh\necho \"on the host: $*\"; exit 7\n", 0o755)
    runner.write(runner.home / ".config" / "bawn" / "config.json", json.dumps({"sandbox": {"bypass_tools": ["todoread"]}}))
    return runner


def test_a_listed_tool_runs_on_the_host(tools):
    r = tool(tools, "--tool", "todoread", "--", "a", "secret argument")
    assert r.rc == 7 and r.out == b"on the host: a secret argument\n", r
    (event,) = [e for e in map(json.loads, (tools.home / ".local/state/bawn/audit/user.jsonl").read_text().splitlines()) if e["type"] == "tool"]
    assert (event["tool"], event["program"], event["argc"]) == ("todoread", f"{tools.home}/tools/todoread", 2)
    assert event["argv_sha256"] == hashlib.sha256(b"a\0secret argument\0").hexdigest() and tools.bawn("log", "verify").rc == 0
    r = tool(tools, "--tool", "todoread", "--", "--token=ghp_0123456789abcdefghijklmnopqrstuvwxyzAB")
    assert r.rc == 7 and b"ghp_" in r.out and "ghp_0123" not in (tools.home / ".local/state/bawn/audit/user.jsonl").read_text()


def test_what_cannot_be_recorded_does_not_run(tools):
    tools.mkdir(tools.home / ".local")
    tools.mkdir(tools.home / ".local/state")
    tools.mkdir(tools.home / ".local/state/bawn", 0o700)
    tools.write(tools.home / ".local/state/bawn/audit", "no folder")
    r = tool(tools, "--tool", "todoread", "--", "a")
    assert r.rc == 125 and r.out == b"" and b"audit" in r.err, r


def test_what_is_not_listed_does_not_run(tools):
    for name in ("sh", "/bin/sh", "../todoread", ""):
        r = tool(tools, "--tool", name, "--", "-c", "echo ran")
        assert r.rc == 125 and b"ran" not in r.out and b"bypass_tools" in r.err, r


def test_a_project_cannot_list_one(tools):
    """Claim: neither an untrusted nor a trusted project gets a tool onto the host."""
    tools.write(".bawn/config.json", json.dumps({"sandbox": {"bypass_tools": ["sh"]}}))
    assert tool(tools, "--tool", "sh", "--", "-c", "echo ran").rc == 125
    assert tools.bawn("trust", "--yes").rc == 0
    r = tool(tools, "--tool", "sh", "--", "-c", "echo ran")
    assert r.rc == 125 and b"ran" not in r.out, r


def test_a_tool_in_the_workspace_is_not_taken(tools):
    (tools.home / "tools" / "todoread").unlink()
    tools.write("todoread", "#!/bin/sh\necho planted\n", 0o755)
    r = tools.bawn("exec", "--tool", "todoread", env={"PATH": f"{tools.workspace}:.::/usr/bin:/bin"})
    assert r.rc == 127 and b"planted" not in r.out, r


def test_exec_without_a_tool(user_runner):
    assert user_runner.bawn("exec", "--", "true").rc == 64
