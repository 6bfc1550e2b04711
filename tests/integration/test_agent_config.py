# SPDX-License-Identifier: Apache-2.0
"""The user's own settings of an agent inside (--agent-config): without credentials, history and sessions; what they run is confirmed."""

import json
import os
import pathlib
import sys
import tomllib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from person import terminal  # noqa: E402

MARK = "MARK-0f9a7c1be2"
SCRIPT = "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n"  # stands for each agent: its last argument is a command

CLAUDE = {
    ".claude/settings.json": json.dumps({
        "model": "opus", "skipDangerousModePermissionPrompt": False, "permissions": {"allow": ["Bash(npm test)"], "deny": ["Read(.env)"]},
        "env": {"EDITOR_MODE": "vim", "GITHUB_TOKEN": MARK, "PLAIN_NAME": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"},
        "apiKeyHelper": "/opt/get-key", "statusLine": {"type": "command", "command": "~/.claude/status.sh"},
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check-command --strict"}]}]}}),
    ".claude/CLAUDE.md": "Write tests first.\n",
    ".claude/commands/fix.md": "Fix $ARGUMENTS\n",
    ".claude/skills/deploy/SKILL.md": "---\nname: deploy\n---\n",
    ".claude/skills/deploy/run.sh": "#!/bin/sh\necho deploy\n",
    ".claude/skills/deploy/api-token.txt": MARK,
    ".claude/skills/deploy/.env": MARK,
    ".claude/.credentials.json": json.dumps({"claudeAiOauth": {"accessToken": MARK}}),
    ".claude/history.jsonl": MARK,
    ".claude/projects/x/session.jsonl": MARK,
    ".claude.json": json.dumps({"oauthAccount": {"emailAddress": MARK}, "projects": {"/x": {"history": [MARK]}}, "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files-server"], "env": {"ANY_NAME": MARK}},
        "web": {"type": "http", "url": "https://mcp.example.com", "headers": {"X-Anything": MARK}}}}),
}


@pytest.fixture
def user(runner):
    for name in ("claude", "codex", "gemini", "opencode"):
        runner.write(runner.home / ".local/bin" / name, SCRIPT, 0o755)
    runner.agent_env = {"PATH": f"{runner.home}/.local/bin:/usr/bin:/bin"}
    return runner


def put(runner, files):
    for name, text in files.items():
        runner.write(runner.home / name, text, 0o600)


def agent(runner, name, command, *options):
    return runner.bawn("run", "--network", "none", "--agent", name, *options, "--", command, env=runner.agent_env)


def read_json(runner, name, path, *options):
    r = agent(runner, name, f"cat ~/{path}", *options)
    assert r.rc == 0, r
    return json.loads(r.out)


def test_settings_come_in_without_credentials(user):
    put(user, CLAUDE)
    got = read_json(user, "claude", ".claude/settings.json", "--agent-config=yes")
    assert got["model"] == "opus" and got["permissions"] == {"allow": ["Bash(npm test)"], "deny": ["Read(.env)"]}
    assert got["env"] == {"EDITOR_MODE": "vim"}
    assert got["skipDangerousModePermissionPrompt"] is True, "the preset's values win"
    servers = read_json(user, "claude", ".claude/.config.json")
    assert servers == {"hasCompletedOnboarding": True, "theme": "dark", "mcpServers": {
        "files": {"command": "npx", "args": ["-y", "files-server"]}, "web": {"type": "http", "url": "https://mcp.example.com"}}}
    r = agent(user, "claude", f"head -1 ~/.claude/CLAUDE.md; cat ~/.claude/commands/fix.md; ls -A ~/.claude ~/.claude/skills/deploy; grep -rs {MARK} ~")
    assert r.rc == 1 and r.out.startswith(b"Write tests first.\nFix $ARGUMENTS\n"), r
    assert {".credentials.json", "history.jsonl", "projects", "api-token.txt", ".env"} & set(r.out.decode().split()) == set(), r
    assert b"SKILL.md" in r.out and b"run.sh" in r.out, r


def test_what_is_left_out_is_named(user):
    put(user, CLAUDE)
    r = agent(user, "claude", "true", "--agent-config=yes")
    assert r.rc == 0, r
    for name in ("settings.json: env.GITHUB_TOKEN", "settings.json: env.PLAIN_NAME", ".config.json: mcpServers.files.env", ".config.json: mcpServers.web.headers",
                 "skills/deploy/api-token.txt"):
        assert f"left out: .claude/{name}".encode() in r.err, (name, r)
    assert MARK.encode() not in r.err, r


def test_without_the_option_nothing_comes_in(user):
    put(user, CLAUDE)
    assert read_json(user, "claude", ".claude/settings.json") == {"skipDangerousModePermissionPrompt": True}


def test_what_runs_commands_is_confirmed_first(user):
    """Without a terminal it needs =yes, once; another command is another question, another text is none."""
    put(user, CLAUDE)
    r = agent(user, "claude", "true", "--agent-config")
    assert r.rc == 64 and b"--agent-config=yes" in r.err, r
    assert read_json(user, "claude", ".claude/settings.json") == {"skipDangerousModePermissionPrompt": True}
    assert agent(user, "claude", "true", "--agent-config=yes").rc == 0
    assert agent(user, "claude", "true", "--agent-config").rc == 0
    put(user, {".claude/CLAUDE.md": "Write tests last.\n"})
    assert agent(user, "claude", "head -1 ~/.claude/CLAUDE.md", "--agent-config").out == b"Write tests last.\n"
    put(user, {".claude/settings.json": json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "another"}]}]}})})
    r = agent(user, "claude", "true", "--agent-config")
    assert r.rc == 64, r


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_terminal_asks_with_a_list(user, answer):
    put(user, CLAUDE)
    with terminal(user, "run", "--network", "none", "--agent", "claude", "--agent-config", "--", "echo it ran", env=user.agent_env) as t:
        t.expect_exact(b"bring them in? [y/N] ")
        shown = t.before.decode()
        t.send(answer + "\n")
        t.expect_exact(b"it ran" if answer == "y" else b"not confirmed")
    for line in ("apiKeyHelper = /opt/get-key", "statusLine.command = ~/.claude/status.sh", "hooks.PreToolUse.hooks.command = check-command --strict",
                 "mcpServers.files.command = npx", "mcpServers.files.args = -y files-server"):
        assert line in shown, (line, shown)


def test_no_commands_no_question(user):
    put(user, {".gemini/settings.json": json.dumps({"ui": {"theme": "GitHub"}, "security": {"auth": {"selectedType": "oauth-personal"}}}),
               ".gemini/oauth_creds.json": MARK, ".gemini/GEMINI.md": "Be short.\n"})
    got = read_json(user, "gemini", ".gemini/settings.json", "--agent-config")
    assert got["ui"] == {"theme": "GitHub"} and got["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert agent(user, "gemini", f"head -1 ~/.gemini/GEMINI.md; grep -rs {MARK} ~").out == b"Be short.\n"


def test_opencode(user):
    put(user, {".config/opencode/opencode.json": json.dumps({
        "theme": "x", "provider": {"a": {"options": {"apiKey": MARK, "baseURL": "https://a.example"}}},
        "mcp": {"m": {"type": "local", "command": ["npx", "-y", "m"], "environment": {"A": MARK}}}}), ".local/share/opencode/auth.json": MARK})
    r = agent(user, "opencode", "true", "--agent-config")
    assert r.rc == 64 and b"mcp.m.command = npx -y m" in r.err, r
    got = read_json(user, "opencode", ".config/opencode/opencode.json", "--agent-config=yes")
    assert got == {"theme": "x", "provider": {"a": {"options": {"baseURL": "https://a.example"}}}, "mcp": {"m": {"type": "local", "command": ["npx", "-y", "m"]}}}


CODEX = f'''# token = "{MARK}"
model = "gpt-5"  # mine
model_provider = "azure"
notify = ["python3", "/home/me/notify.py"]
instructions = """
a line with # no comment and "quotes" [not a table]
"""
tui.theme = 'dark'
sandbox_workspace_write = {{ network_access = true, writable_roots = [ "/x", # one
  "/y" ] }}
api_key = "{MARK}"

[model_providers.azure]
name = "Azure"
base_url = "https://x.example"
env_key = "AZURE_KEY"
http_headers = {{ "X-A" = "b" }}
experimental_bearer_token = "{MARK}"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs"]
env = {{ "ANY" = "{MARK}" }}

[mcp_servers."with.dot".env]
KEY = "{MARK}"

[mcp_servers.remote]
url = "https://mcp.example"
bearer_token_env_var = "REMOTE_TOKEN"

[features]
plugins = true

[[hooks.stop]]
command = "say done"
'''


def test_codex(user):
    """TOML stays as it is written, and is TOML for another reader."""
    put(user, {".codex/config.toml": CODEX, ".codex/auth.json": MARK, ".codex/AGENTS.md": "Be kind.\n", ".codex/sessions/1.jsonl": MARK})
    r = agent(user, "codex", "true", "--agent-config")
    assert r.rc == 64 and b"notify = " in r.err, r
    r = agent(user, "codex", f"cat ~/.codex/config.toml; grep -rs {MARK} ~ >&2", "--agent-config=yes")
    assert MARK.encode() not in r.err + r.out, r
    got, theirs = tomllib.loads(r.out.decode()), tomllib.loads(CODEX)
    assert got.pop("model_provider") == "key" and got["model_providers"].pop("key")["env_key"] == "OPENAI_API_KEY"
    assert got.pop("features") == {"api_key_model_discovery": False, "plugins": False} and got.pop("analytics") == {"enabled": False}
    assert got.pop("tui") == {"show_tooltips": False} and got.pop("check_for_update_on_startup") is False
    for key in ("model_provider", "features", "tui", "api_key"):
        del theirs[key]
    del theirs["model_providers"]["azure"]["experimental_bearer_token"], theirs["mcp_servers"]["docs"]["env"], theirs["mcp_servers"]["with.dot"]
    assert got == theirs


@pytest.mark.parametrize("text", ["model = ", "[a", "a = [1", 'a = "x', "a b = 1", "= 1", 'a = """x', "\0a = 1"])
def test_what_is_not_understood_stays_out(user, text):
    put(user, {".codex/config.toml": text + f'\n# {MARK}\n', ".claude/settings.json": text})
    r = agent(user, "codex", "cat ~/.codex/config.toml", "--agent-config")
    assert r.rc == 0 and b"model_provider = \"key\"" in r.out and b"left out: .codex/config.toml" in r.err, r
    assert b"left out: .claude/settings.json" in agent(user, "claude", "true", "--agent-config").err


def test_the_agents_changes_stay_until_the_settings_change(user):
    put(user, {".claude/CLAUDE.md": "one\n"})
    assert agent(user, "claude", "echo zebra >> ~/.claude/CLAUDE.md", "--agent-config").rc == 0
    assert agent(user, "claude", "sed -n '1p;$p' ~/.claude/CLAUDE.md", "--agent-config").out == b"one\nzebra\n"
    put(user, {".claude/CLAUDE.md": "two\n"})
    r = agent(user, "claude", "cat ~/.claude/CLAUDE.md", "--agent-config")
    assert r.out.startswith(b"two\n") and b"zebra" not in r.out, r
    assert b"bawn" in r.out.lower(), "what the preset tells the agent is there, too"


def test_links_that_the_agent_left_lead_nowhere(user):
    """What is written at the next start is not written through them."""
    victim = user.write(user.top / "victim/file", "mine\n")
    put(user, {".claude/CLAUDE.md": "one\n", ".claude/commands/a.md": "a\n"})
    trap = f"cd ~/.claude && rm -rf CLAUDE.md commands && ln -s {victim} CLAUDE.md && ln -s {victim.parent} commands"
    assert agent(user, "claude", trap, "--agent-config").rc == 0
    put(user, {".claude/CLAUDE.md": "two\n", ".claude/commands/a.md": "b\n"})
    assert agent(user, "claude", "true", "--agent-config").rc == 0
    assert victim.read_text() == "mine\n" and os.listdir(victim.parent) == ["file"]


def test_links_in_a_folder_of_settings_are_not_followed(user):
    put(user, {".ssh/id": MARK, ".claude/commands/a.md": "a\n"})
    os.symlink(user.home / ".ssh/id", user.home / ".claude/commands/key.md")
    os.symlink(user.home / ".ssh", user.home / ".claude/commands/keys")
    r = agent(user, "claude", f"ls ~/.claude/commands; grep -rs {MARK} ~", "--agent-config")
    assert r.out == b"a.md\n", r


def test_it_goes_with_an_agent(user):
    r = user.bawn("run", "--agent-config", "--", "true")
    assert r.rc == 64 and b"--agent-config goes with --agent" in r.err, r
    r = agent(user, "claude", "true", "--agent-config=no")
    assert r.rc == 64, r
