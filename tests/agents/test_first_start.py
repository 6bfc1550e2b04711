# SPDX-License-Identifier: Apache-2.0
"""An agent that is started on a terminal in a new project asks nothing before it takes a task: no trust, no login, no key, no licence.

The person types a task and nothing else, so a question would stop everything. Without Bawn's answers the same agents do ask, which shows that the
terminal and the words below are right.
"""


import pytest

import model_servers
from terminal import Terminal

# agent: its arguments, words that it shows once it waits for a task
STARTS = {
    "claude": (["--dangerously-skip-permissions"], "bypass permissions on"),
    "codex": ([], "default · /"),
    "gemini": (["--yolo"], "Type your message"),
    "opencode": ([], "Ask anything"),
}
TASK = "Make the file, then read it."
KEY_QUESTION = "Do you want to use this API key?"
TRUST_QUESTION = "Trust this folder?"


def make_project(net):
    """A repository with instructions for each agent, as people have them."""
    for name in ("README.md", "CLAUDE.md", "AGENTS.md", "GEMINI.md"):
        net.runner.write(name, "A project.\n")
    r = net.outside("git", "-c", "user.name=A", "-c", "user.email=a@example.com", "init", "-q", ".")
    assert r.rc == 0, r


def inside(agent, arguments):
    return [agent.runner.path, "run", "--agent", agent.name, "--", *arguments]


def give_task(t, ready):
    t.wait_for(ready)
    t.type(TASK)
    t.wait_for(TASK)  # a return in the same piece would be a part of a pasted text
    t.type("\r")


def test_first_start(net, models, agent):
    arguments, ready = STARTS[agent.name]
    make_project(net)
    env = agent.set_secret(net, models.keys[agent.host])
    with Terminal(net, inside(agent, arguments), agent.environ(**env)) as t:
        give_task(t, ready)
        t.wait_until(lambda: any(a["turn"] == model_servers.LAST for a in models.requests()))
        assert KEY_QUESTION not in t.shown()
    assert (net.runner.workspace / model_servers.MADE).read_text() == model_servers.CONTENT + "\n"
    assert {a["key"] for a in models.requests() if a["line"].startswith("POST ")} == {"real"}


@pytest.mark.parametrize("agent", ["claude"], indirect=True)
def test_key_that_came_later(net, models, agent):
    """The first run had no key, so that the agent has written its file already."""
    arguments, ready = STARTS[agent.name]
    with Terminal(net, inside(agent, arguments), agent.environ()) as t:
        t.wait_for(ready)
    env = agent.set_secret(net, models.keys[agent.host])
    with Terminal(net, inside(agent, arguments), agent.environ(**env)) as t:
        give_task(t, ready)
        t.wait_until(lambda: any(a["turn"] == model_servers.LAST for a in models.requests()))
        assert KEY_QUESTION not in t.shown()


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
def test_trust_question_outside(net, models, agent):
    """Without the preset's arguments Codex asks about the folder."""
    make_project(net)
    for path, content in agent.preset["files"].items():
        agent.runner.write(agent.runner.home / path, content)
    with Terminal(net, [agent.program], agent.environ(**{v: models.keys[agent.host] for v in agent.variables})) as t:
        t.wait_for(TRUST_QUESTION)


@pytest.mark.parametrize("agent", ["claude"], indirect=True)
def test_key_question_outside(net, models, agent):
    """Without the answer the question comes."""
    for path, content in agent.preset["files"].items():
        agent.runner.write(agent.runner.home / path, content)
    env = {**agent.preset["env"], **{v: models.keys[agent.host] for v in agent.variables}}
    with Terminal(net, [agent.program, *STARTS[agent.name][0]], agent.environ(**env)) as t:
        t.wait_for(KEY_QUESTION)
