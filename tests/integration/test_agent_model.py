# SPDX-License-Identifier: Apache-2.0
"""What a preset does for another place of the model, and for the question about a key. Programs stand for agents; the real ones are in
tests/agents/test_gateway.py and test_first_start.py."""

import json

import pytest

FILE = ".fake/state.json"
PRESET = {
    "command": "fake-agent", "args": ["--from-preset"], "home": [".fake"], "secret": {"name": "fake", "host": "api.anthropic.com", "env": ["FAKE_KEY"]},
    "url": {"env": ["FAKE_URL", "OTHER_URL"], "args": ["-c", "url=\"{}\""]},
    "key_answer": {"env": "FAKE_KEY", "file": FILE, "yes": "keys.approved", "no": "keys.rejected"},
}
SCRIPT = "#!/bin/sh\necho \"args: $*\"; echo \"key: $FAKE_KEY\"; if [ -f .plant ]; then . ./.plant; fi\n"
URL = "https://llm.corp.example/v1"


@pytest.fixture
def agent(runner):
    program = runner.write(runner.home / "tools" / "fake-agent", SCRIPT, 0o755)
    runner.write(runner.home / ".config" / "bawn" / "agents" / "fake.json", json.dumps(PRESET))
    runner.agent_env = {"PATH": f"{program.parent}:/usr/bin:/bin", "KEY": "the real key of the company"}
    return runner


def run(runner, *options, env=None):
    return runner.bawn("run", *options, "--agent", "fake", "--", "x", env={**runner.agent_env, **(env or {})})


def define_secret(runner, **more):
    secret = {"hosts": ["llm.corp.example"], "env": ["FAKE_KEY"], "store": "env", "variable": "KEY", **more}
    runner.write(runner.home / ".config" / "bawn" / "secrets.json", json.dumps({"secrets": {"corp": secret}}), 0o600)


# The model's place

def set_url(path, runner, url, variable="FAKE_URL"):
    runner.write(path, json.dumps({"agent": {"fake": {"sandbox": {"env": {variable: url}}}}}))


def verdict(runner, host):
    return runner.bawn("policy", "explain", host, "--agent", "fake", "--json", env=runner.agent_env).json()["action"]


def test_url_in_arguments(agent):
    """An agent that knows no variable gets arguments, before those of the user."""
    assert b"args: --from-preset x\n" in run(agent).out
    assert f"args: --from-preset -c url=\"{URL}\" x\n".encode() in run(agent, "--env", f"FAKE_URL={URL}").out
    assert f"args: --from-preset -c url=\"{URL}\" x\n".encode() in run(agent, "--env", "FAKE_URL", env={"FAKE_URL": URL}).out
    assert b"args: --from-preset x\n" in run(agent, env={"FAKE_URL": URL}).out, "what is not passed in does not count"
    assert b"args: --from-preset x\n" in run(agent, "--env", "FAKE_URL=").out


@pytest.mark.parametrize("variable", ["FAKE_URL", "OTHER_URL"])
def test_url_allows_its_host(agent, variable):
    config = agent.home / ".config" / "bawn" / "config.json"
    assert verdict(agent, "llm.corp.example:443") != "allow"
    set_url(config, agent, URL, variable)
    assert verdict(agent, "llm.corp.example:443") == "allow"
    assert verdict(agent, "llm.corp.example:8443") != "allow" and verdict(agent, "corp.example:443") != "allow"
    set_url(config, agent, "https://llm.corp.example:8443/v1", variable)
    assert verdict(agent, "llm.corp.example:8443") == "allow" and verdict(agent, "llm.corp.example:443") != "allow"


@pytest.mark.parametrize(("url", "host"), [
    ("http://llm.corp.example/v1", "llm.corp.example:80"), ("http://127.0.0.1:11434/v1", "127.0.0.1:11434"),
    ("http://host.bawn.internal:11434", "host.bawn.internal:11434"), ("https://10.0.0.1/v1", "10.0.0.1:443"), ("https://[::1]/v1", "[::1]:443"),
    ("https://169.254.169.254/latest", "169.254.169.254:443")])
def test_url_opens_no_address_and_no_plain_http(agent, url, host):
    """Claim: the variable alone opens neither this machine, nor its network, nor a connection that anybody can read."""
    set_url(agent.home / ".config" / "bawn" / "config.json", agent, url)
    assert verdict(agent, host) != "allow"
    assert f"-c url=\"{url}\" x\n".encode() in run(agent).out


def test_url_of_a_project_needs_trust(agent):
    """Claim: a project that the user has not trusted cannot send an agent to a host of its own."""
    set_url(".bawn/config.json", agent, "https://evil.example/v1")
    assert verdict(agent, "evil.example:443") != "allow"
    assert b"evil.example" not in run(agent).out


def test_url_does_not_overrule_a_deny(agent):
    agent.write(agent.home / ".config" / "bawn" / "network.json", json.dumps({"rules": [{"host": "llm.corp.example", "action": "deny"}]}))
    set_url(agent.home / ".config" / "bawn" / "config.json", agent, URL)
    assert verdict(agent, "llm.corp.example:443") == "deny"


@pytest.mark.parametrize("url", ["llm.corp.example", "ftp://llm.corp.example", "https://", "https://a b/", "https://h/\",x=\"y", "https://u@h/", "https://h:99999/"])
def test_url_that_is_none(agent, url):
    r = run(agent, "--env", f"FAKE_URL={url}")
    assert r.rc == 64 and b"FAKE_URL is not the URL of a model" in r.err and b"args:" not in r.out, r


def test_credential_of_the_gateway_is_asked_for(agent):
    """The command in the notice works, and makes the notice go away."""
    r = run(agent, "--env", f"FAKE_URL={URL}")
    command = "bawn secret set gateway --host llm.corp.example --header x-api-key --env FAKE_KEY"
    assert f"no credential for llm.corp.example; to give it one that it never sees: {command}\n".encode() in r.err, r
    r = agent.bawn(*command.split()[1:], "--store", "env:KEY")
    assert r.rc == 0, r
    assert b"no credential" not in run(agent, "--env", f"FAKE_URL={URL}").err
    assert b"no credential for api.anthropic.com" in run(agent).err


# Arguments

@pytest.mark.parametrize(("name", "filled"), [("plain.dir", True), ("with space, comma", True), ("quote\"d", False), ("it's", False), ("back\\slash", False)])
def test_workspace_in_arguments(agent, name, filled):
    """The path stands within quotes of another language. One that would end them is not filled in."""
    agent.write(agent.home / ".config" / "bawn" / "agents" / "fake.json", json.dumps({**PRESET, "args": ["-a", "--trust=\"{workspace}\"", "-z"]}))
    folder = agent.mkdir(agent.workspace / name)
    middle = f" --trust=\"{folder}\"" if filled else ""
    assert f"args: -a{middle} -z x\n".encode() in run(agent, "-C", folder).out


# The question about the key

def state(runner):
    return next((runner.home / ".local" / "state" / "bawn" / "volumes").glob("*/agent-fake/.fake")) / "state.json"


def plant(runner, script):
    """What the agent does in its home at the end of the next run; then the key is there, and a run answers."""
    runner.write(".plant", f"cd ~/.fake; rm -rf state.json; {script}\n")
    assert run(runner).rc == 0
    (runner.workspace / ".plant").unlink()
    define_secret(runner)
    return run(runner)


def end_of_key(r):
    key = next(line for line in r.out.decode().splitlines() if line.startswith("key: ")).removeprefix("key: ")
    assert len(key) > 20 and "real" not in key
    return key[-20:]


def test_key_is_answered(agent):
    define_secret(agent)
    r = run(agent)
    assert json.loads(state(agent).read_text()) == {"keys": {"approved": [end_of_key(r)], "rejected": []}}
    before = state(agent).stat()
    run(agent)
    assert state(agent).stat().st_mtime_ns == before.st_mtime_ns, "an answer that is there is not written again"


@pytest.mark.parametrize(("text", "answered"), [
    ('{"a": [1.5, {"b": null}], "keys": {"approved": ["other"]}}', {"a": [1.5, {"b": None}], "keys": {"approved": ["END", "other"]}}),
    ('{"keys": {"rejected": ["x"], "approved" : [ ] }}', {"keys": {"rejected": ["x"], "approved": ["END"]}}),
    ('{}', {"keys": {"approved": ["END"], "rejected": []}}),
    (' {"a": 1} ', {"a": 1, "keys": {"approved": ["END"], "rejected": []}}),
])
def test_key_is_answered_in_a_file_of_the_agent(agent, text, answered):
    r = plant(agent, f"printf '%s' '{text}' > state.json")
    assert json.loads(state(agent).read_text().replace(end_of_key(r), "END")) == answered


def test_a_no_stays(agent):
    define_secret(agent)
    end = end_of_key(run(agent))
    text = json.dumps({"keys": {"rejected": [end]}})
    agent.write(state(agent), text)
    run(agent)
    assert state(agent).read_text() == text


@pytest.mark.parametrize("text", ["{", "[]", "null", "{\"keys\": 1}", "{\"keys\": {\"approved\": {}}}", "{\"keys\": {}, \"keys\": {}}"])
def test_key_and_a_strange_file(agent, text):
    """Claim: whatever an agent leaves there, the run starts, and the file stays as it is."""
    r = plant(agent, f"printf '%s' '{text}' > state.json")
    assert r.rc == 0 and state(agent).read_text() == text


@pytest.mark.parametrize("what", ["mkfifo state.json", "mkdir state.json", "ln -s /dev/zero state.json", "truncate -s 100M state.json"])
def test_key_and_no_file_at_all(agent, what):
    r = plant(agent, what)
    assert r.rc == 0 and b"args:" in r.out, r


def test_key_and_a_link(agent):
    """Claim: a link where the answer belongs does not get the host to write through it."""
    target = agent.write(agent.home / "precious", "{}")
    assert plant(agent, f"ln -s {target} state.json").rc == 0
    assert target.read_text() == "{}" and state(agent).is_symlink()


def test_key_of_another_run(agent):
    """A run without the secret is answered nothing: the variable is not there."""
    define_secret(agent)
    r = run(agent, "--no-secrets")
    assert r.rc == 0 and not state(agent).exists()
