# SPDX-License-Identifier: Apache-2.0
"""The recipe of docs/agents.md for a company's own gateway in front of the models, with the real agents: two commands, the key stays outside."""

import json

import pytest

import scan
from model_servers import BELOW, GATEWAY, LOCAL, LOCAL_PORT
from test_agents import PLUGINS, checked_end, find_afterwards, find_in_sandbox

URL = f"https://{GATEWAY}{BELOW}"
# agent: words of `bawn secret set`, the variable with the address, more options of `bawn run`, more arguments of the agent
RECIPES = {
    "claude": (["--header", "x-api-key", "--env", "ANTHROPIC_API_KEY"], f"ANTHROPIC_BASE_URL={URL}", [], []),
    "claude bearer": (["--env", "ANTHROPIC_AUTH_TOKEN"], f"ANTHROPIC_BASE_URL={URL}", [], []),
    "codex": (["--env", "OPENAI_API_KEY"], f"OPENAI_BASE_URL={URL}/v1", [], []),
    "gemini": (["--header", "x-goog-api-key", "--env", "GEMINI_API_KEY"], f"GOOGLE_GEMINI_BASE_URL={URL}", [], []),
    "opencode": (["--header", "x-api-key", "--env", "ANTHROPIC_API_KEY"], f"ANTHROPIC_BASE_URL={URL}/v1", [], []),
    "opencode openai": (["--env", "OPENAI_API_KEY"], f"OPENAI_BASE_URL={URL}/v1", [], ["-m", "openai/gpt-5"]),
}


each_recipe = pytest.mark.parametrize(("agent", "recipe"), [(name.split()[0], r) for name, r in RECIPES.items()], ids=list(RECIPES), indirect=["agent"])


def placeholder_inside(words, run):
    variable = words[words.index("--env") + 1]
    found = {scan.variable(pid, variable) for pid in scan.processes(run.pid)} - {None}
    assert len(found) == 1, found
    return found.pop()


@each_recipe
def test_gateway(net, models, agent, recipe):
    """No rule is written: the variable allows the host, and nothing else is asked for."""
    words, variable, options, arguments = recipe
    key = models.keys[GATEWAY]
    env = agent.set_secret(net, key, "corp", "--host", GATEWAY, *words)
    models.hold()
    run = agent.start_inside(net, env, "--env", variable, *options, arguments=arguments)
    models.wait_for_last(run)
    placeholder = placeholder_inside(words, run)
    assert placeholder != key and find_in_sandbox(net, run, scan.Needles(placeholder, "raw")) != []
    assert find_in_sandbox(net, run, scan.Needles(key)) == []
    models.go_on()
    r = checked_end(run, net, models, agent, GATEWAY)
    assert find_afterwards(net, r, key) == []
    lines = [a["line"] for a in models.requests() if not a["line"].startswith("HEAD ")]  # Claude Code first looks whether the host is there
    assert all(line.split()[1].startswith(BELOW + "/") for line in lines), lines
    log = [e for e in net.log() if e["host"] not in PLUGINS.get(agent.name, set())]
    assert {(e["host"], e["action"]) for e in log} == {(GATEWAY, "allow")}, log


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
def test_gateway_in_the_configuration(net, models, agent):
    """The same by lines of the user's file."""
    words, variable, options, arguments = RECIPES[agent.name]
    env = agent.set_secret(net, models.keys[GATEWAY], "corp", "--host", GATEWAY, *words)
    name, _, url = variable.partition("=")
    text = json.dumps({"agent": {agent.name: {"sandbox": {"env": {name: url}, "secrets": ["corp"]}}}})
    net.runner.write(net.runner.home / ".config" / "bawn" / "config.json", text)
    checked_end(agent.start_inside(net, env, *options, arguments=arguments), net, models, agent, GATEWAY)


# A model on this machine, over plain http

LOCAL_OPTIONS = ["--env", f"OPENAI_BASE_URL=http://{LOCAL}:{LOCAL_PORT}/v1"]
LOCAL_RULE = ["--allow", f"{LOCAL}:{LOCAL_PORT}"]
only_codex = pytest.mark.parametrize("agent", ["codex"], indirect=True)


@only_codex
def test_local_model(net, models, local_model, agent):
    """By rule only, and beside a secret for a variable that the agent does not use."""
    env = agent.set_secret(net, models.keys[GATEWAY], "corp", "--host", GATEWAY, "--env", "CORP_KEY")
    options = [*LOCAL_OPTIONS, "--env", "OPENAI_API_KEY=none"]
    r = agent.start_inside(net, env, *options).end()
    assert r.rc != 0 and not models.requests(), r
    checked_end(agent.start_inside(net, env, *LOCAL_RULE, *options), net, models, agent, LOCAL)


@only_codex
def test_local_model_and_a_secret(net, models, local_model, agent):
    """Claim: no key goes to a model over plain http, even if the agent sends what its variable has: that is a placeholder."""
    key = models.keys[agent.host]
    env = agent.set_secret(net, key)
    r = checked_end(agent.start_inside(net, env, *LOCAL_OPTIONS, *LOCAL_RULE), net, models, agent, LOCAL)
    sent = {v for a in models.requests() for k, v in a["headers"] if k == "authorization"}
    assert len(sent) == 1 and sent.pop().startswith("Bearer sk-"), "the agent sent no key, so nothing was tried"
    assert scan.Needles(key).found(json.dumps(models.requests()).encode()) == []
    assert find_afterwards(net, r, key) == []
