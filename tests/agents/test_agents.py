# SPDX-License-Identifier: Apache-2.0
"""The real agents from npm run whole tool loops against scripted models that take one key only, and that key is nowhere inside.

Without a sandbox the same agents with the same presets work too, and then the scanner finds the key: it looks at the right places.
"""

import json
import os
import subprocess

import pytest

import model_servers
import scan


PLUGINS = {"opencode": {"registry.npmjs.org"}}  # it fetches the library for plugins, and nothing switches that off


def checked_end(run, net, models, agent, host=None):
    """The agent did all that the model said, and the model saw the real key only. host: not the usual one."""
    r = run.end()
    assert r.rc == 0 and model_servers.MARKER.encode() + b" read it" in r.out, r
    assert (net.runner.workspace / model_servers.MADE).read_text() == model_servers.CONTENT + "\n"
    assert os.listdir(net.runner.workspace) == [model_servers.MADE], "settings or logs are in the workspace"
    asked = models.requests()
    assert {a["host"] for a in asked} == {host or agent.host}, asked
    turns = [a["turn"] for a in asked if a["key"] == "real" and a["line"].startswith("POST ")]
    assert set(turns) == {0, 1, model_servers.LAST}, r
    assert not [a for a in asked if a["key"] == "wrong"], "a placeholder or another key went out"
    return r


def placeholder_of(agent, processes):
    """What the agent has instead of the key, out of its environment."""
    found = {scan.variable(pid, v) for pid in processes for v in agent.variables} - {None}
    assert len(found) == 1, found
    return found.pop()


def find_in_sandbox(net, run, needles):
    """Where in the running sandbox the key is. The supervisor is looked at too: it never needs a value."""
    inside = scan.processes(run.pid)
    finds = [find for pid, name in {**inside, run.pid: "bawn"}.items() for find in scan.process(pid, name, needles)]
    return finds + scan.inside(inside, needles, net.runner.workspace)


def find_afterwards(net, r, key):
    """Where in what is left the key is: workspace, Bawn's state with logs and volumes (the store too: it is encrypted), output."""
    needles = scan.Needles(key)
    finds = scan.tree(net.runner.top, needles)
    return finds + [f"output: {form}" for form in needles.found(r.out + b"\n" + r.err)]


# Inside

def test_agent_inside(net, models, agent):
    """C8: the loop works with the key injected, and the key is nowhere inside, during the run and after it."""
    key = models.keys[agent.host]
    env = agent.set_secret(net, key)
    models.hold()
    run = agent.start_inside(net, env)
    models.wait_for_last(run)

    placeholder = placeholder_of(agent, scan.processes(run.pid))
    assert placeholder != key
    seen = find_in_sandbox(net, run, scan.Needles(placeholder, "raw"))
    assert any("environment" in s for s in seen) and any("memory" in s for s in seen), "the scanner does not see what is there"
    assert find_in_sandbox(net, run, scan.Needles(key)) == []

    models.go_on()
    r = checked_end(run, net, models, agent)
    assert find_afterwards(net, r, key) == []
    assert any("http://bawn.internal/why" in a["body"] for a in models.requests()), "the model does not know where it is"
    log = [e for e in net.log() if e["host"] not in PLUGINS.get(agent.name, set())]
    assert {e["host"] for e in log} == {agent.host}, "telemetry, updates or a catalogue are on"
    assert {e["action"] for e in log} == {"allow"}, log


def test_agent_inside_with_a_model_that_tells(net, models, agent):
    """75: what a server says about the key reaches nobody inside."""
    key = models.keys[agent.host]
    env = agent.set_secret(net, key)
    models.echo()
    models.hold()
    run = agent.start_inside(net, env)
    models.wait_for_last(run)
    assert find_in_sandbox(net, run, scan.Needles(key)) == []
    models.go_on()
    r = checked_end(run, net, models, agent)
    assert b"key=" + b"*" * len(key) in r.out, r
    assert find_afterwards(net, r, key) == []


def test_agent_without_its_key(net, models, agent):
    """No credential: the model gets no key at all, above all none of the host's environment."""
    key = models.keys[agent.host]
    run = agent.start_inside(net, {v: key for v in agent.variables})
    r = run.end()
    assert model_servers.MARKER.encode() not in r.out, r
    assert not [a for a in models.requests() if a["key"] == "real"], r
    assert not (net.runner.workspace / model_servers.MADE).exists()


WORDS = "The user prefers words like antidisestablishmentarianism."
TOKEN = "a-token-of-the-users-own-4711"
HOOK = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": "touch ~/.claude/the-hook-ran"}]}]}}
OWN = {
    "claude": {".claude/CLAUDE.md": WORDS, ".claude/settings.json": json.dumps({"env": {"MY_TOKEN": TOKEN}, "cleanupPeriodDays": 9, **HOOK}),
               ".claude/.credentials.json": TOKEN},
    "codex": {".codex/AGENTS.md": WORDS, ".codex/config.toml": f'model_reasoning_effort = "low"\napi_key = "{TOKEN}"\n', ".codex/auth.json": TOKEN},
    "gemini": {".gemini/GEMINI.md": WORDS, ".gemini/settings.json": json.dumps({"ui": {"hideBanner": True, "apiKey": TOKEN}}),
               ".gemini/oauth_creds.json": TOKEN},
    "opencode": {".config/opencode/AGENTS.md": WORDS, ".config/opencode/opencode.json": json.dumps({"share": "disabled", "apiKey": TOKEN}),
                 ".local/share/opencode/auth.json": TOKEN},
}


def test_agent_with_own_settings(net, models, agent):
    """--agent-config: the agent obeys them, still uses its preset's model and key, and no credential of the user's is inside."""
    env = agent.set_secret(net, models.keys[agent.host])
    for path, text in OWN[agent.name].items():
        agent.runner.write(agent.runner.home / path, text, 0o600)
    models.hold()
    run = agent.start_inside(net, env, "--agent-config=yes")
    models.wait_for_last(run)
    assert find_in_sandbox(net, run, scan.Needles(TOKEN)) == []
    models.go_on()
    checked_end(run, net, models, agent)
    assert any(WORDS in json.dumps(a["body"]) for a in models.requests()), "its instructions are not read"
    if agent.name == "claude":
        assert list((agent.runner.home / ".local/state/bawn/volumes").glob("*/agent-claude/.claude/the-hook-ran")), "the hook did not run"


# Outside: what the tests above would find

def test_agent_outside(net, models, agent):
    """Without Bawn the preset works too, and the key is in the agent's environment and memory."""
    key = models.keys[agent.host]
    models.hold()
    run = agent.start_outside(net, key)
    models.wait_for_last(run)
    needles = scan.Needles(key)
    finds = [find for pid, name in scan.descendants(run.pid).items() for find in scan.process(pid, name, needles)]
    models.go_on()
    checked_end(run, net, models, agent)
    assert any(f.startswith("environment") for f in finds) and any(f.startswith("memory") and f.endswith(": raw") for f in finds), finds


def test_model_that_tells_outside(net, models, agent):
    """The echo is there: without Bawn the agent prints the key."""
    key = models.keys[agent.host]
    models.echo()
    r = checked_end(agent.start_outside(net, key), net, models, agent)
    assert f"key={key}".encode() in r.out, r


REQUESTS = {
    "api.anthropic.com": ("/v1/messages", "x-api-key: "),
    "api.openai.com": ("/v1/responses", "authorization: Bearer "),
    "generativelanguage.googleapis.com": ("/v1beta/models/gemini:generateContent", "x-goog-api-key: "),
    model_servers.GATEWAY: (model_servers.BELOW + "/v1/messages", "authorization: Bearer "),
}


@pytest.mark.parametrize("host", model_servers.APIS)
@pytest.mark.parametrize("good", [True, False], ids=["real", "wrong"])
def test_models_take_one_key(net, models, host, good):
    path, header = REQUESTS[host]
    body = json.dumps({"model": "m", "messages": [], "input": [], "contents": []})
    key = models.keys[host] if good else "sk-wrong"
    r = net.outside("curl", "-s", "-w", "%{http_code}", "-H", header + key, "--data", body, f"https://{host}{path}")
    assert (r.out[-3:] == b"200") == good and (b"error" in r.out) != good, r


# The scanner

HOLDS_COPIES = """
import pathlib, subprocess, sys
copies = sys.stdin.buffer.read().split(b"\\n")
for i, copy in enumerate(copies):
    for folder in sys.argv[1:]:
        pathlib.Path(folder, f"copy{i}").expanduser().write_bytes(b"x" * 5000 + copy + b"y" * 5000)
argued = subprocess.Popen(["sh", "-c", "sleep 1000; :", copies[0]], env={"COPY": copies[0].decode()})
print("ready", flush=True)
argued.wait()
"""


def test_the_scanner_finds_planted_copies(net):
    """A scanner that finds nothing proves nothing: each form in memory and in each folder, the raw one in arguments and environment."""
    needles = scan.Needles("sk-planted-" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1BcD4fGh7jKl0nO")
    folders = ["/tmp", "/var/tmp", "/dev/shm", "~", str(net.runner.workspace)]
    run = net.popen(*net.command("/usr/bin/python3", "-c", HOLDS_COPIES, *folders), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        run.stdin.write(b"\n".join(needles.forms.values()))
        run.stdin.close()
        assert run.stdout.readline() == b"ready\n"
        inside = scan.processes(run.pid)
        finds = [find for pid, name in inside.items() for find in scan.process(pid, name, needles)]
        for form in needles.forms:
            assert [f for f in finds if f.startswith("memory") and "python" in f and f.endswith(f": {form}")], (form, finds)
        assert [f for f in finds if f.startswith("environment")] and [f for f in finds if f.startswith("arguments")], finds
        files = scan.inside(inside, needles, net.runner.workspace)
        home = next(scan.variable(pid, "HOME") for pid, name in inside.items() if "python" in name)
        for folder in [home if f == "~" else f for f in folders]:
            assert {f.rpartition(": ")[2] for f in files if f"root{folder}/copy" in f} == set(needles.forms), (folder, files)
    finally:
        run.kill()
        run.wait()
