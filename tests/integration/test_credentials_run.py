# SPDX-License-Identifier: Apache-2.0
"""What a sandbox gets instead of the user's credentials, before any request is made. Requests: tests/network/test_credentials.py."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import subprocess
import termios

import pytest

KEY = {"hosts": ["api.anthropic.com"], "store": "env", "variable": "REAL"}


def define(runner, secrets, mode=0o600):
    folder = runner.home / ".config" / "bawn"
    for part in (folder.parent, folder):
        if not part.exists():
            runner.mkdir(part, 0o700)
    text = secrets if isinstance(secrets, str) else json.dumps({"secrets": secrets})
    return runner.write(folder / "secrets.json", text, mode)


def shell(runner, script, *options, **kw):
    return runner.bawn("run", *options, "--", "sh", "-c", script, **kw)


def test_placeholders_have_the_shape_and_are_the_projects(runner):
    define(runner, {"anthropic": KEY, "github": {"hosts": ["api.github.com"], "store": "env", "variable": "REAL"},
                    "aws": {"hosts": ["s3.eu-central-1.amazonaws.com"], "sigv4": "eu-central-1/s3", "store": "env", "variable": "REAL"}})
    seen = []
    for folder in (runner.workspace, runner.workspace, runner.mkdir(runner.top / "other")):
        r = shell(runner, 'echo "$ANTHROPIC_API_KEY $GH_TOKEN $GITHUB_TOKEN $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY"', env={"REAL": "real-value-1"}, cwd=folder)
        assert r.rc == 0, r
        a, gh, github, key, secret = r.out.decode().split()
        assert re.fullmatch(r"sk-ant-api03-[A-Za-z0-9]{95}", a)
        assert re.fullmatch(r"ghp_[A-Za-z0-9]{36}", gh) and gh == github
        assert re.fullmatch(r"AKIA[A-Z2-7]{16}", key) and re.fullmatch(r"[A-Za-z0-9]{40}", secret)
        assert "real-value" not in r.out.decode()
        seen.append({a, gh, key, secret})
    assert seen[0] == seen[1] and not seen[0] & seen[2], "what an agent wrote down counts in the same project, and nowhere else"


def test_no_definitions_no_trace(runner):
    r = shell(runner, "ls /run/bawn; env")
    assert r.rc in (0, 1), r
    assert b"credentials.sock" not in r.out and b"BAWN_CREDENTIAL_SOCKET" not in r.out and b"BROWSER" not in r.out


def test_names_are_read_inside_and_not_written(runner):
    define(runner, {"anthropic": KEY})
    r = shell(runner, 'echo $BAWN_CREDENTIAL_SOCKET; bawn-key list; bawn-key save x; echo $?; rm /run/bawn/credentials.sock || echo stays')
    assert r.out.startswith(b"/run/bawn/credentials.sock\nanthropic "), r
    assert b"\n1\nstays\n" in r.out, r


def test_stands_at_the_end_of_path(runner):
    define(runner, {"anthropic": KEY})
    r = shell(runner, 'echo "$PATH"; echo "$BROWSER"; touch /run/bawn/bin/x || echo sealed')
    lines = r.out.decode().splitlines()
    assert lines[0].endswith(":/run/bawn/bin") and lines[1:] == ["/run/bawn/bin/xdg-open", "sealed"], r


def test_placeholder_wins_over_the_settings(runner):
    define(runner, {"anthropic": KEY})
    r = shell(runner, "echo $ANTHROPIC_API_KEY", "--env", "ANTHROPIC_API_KEY=real-value-1", env={"ANTHROPIC_API_KEY": "real-value-2"})
    assert r.out.startswith(b"sk-ant-api03-"), r
    assert b"ANTHROPIC_API_KEY has its placeholder instead of" in r.err, r


def test_choice(runner):
    define(runner, {"anthropic": KEY, "github": {"hosts": ["api.github.com"], "store": "env", "variable": "REAL"}})
    r = shell(runner, 'echo "[$GH_TOKEN]"; echo $ANTHROPIC_API_KEY', "--secret", "anthropic")
    assert re.fullmatch(rb"\[\]\nsk-ant-api03-\w+\n", r.out), r
    r = shell(runner, 'echo "[$GH_TOKEN$ANTHROPIC_API_KEY]"', "--no-secrets")
    assert r.out == b"[]\n", r
    r = shell(runner, "true", "--secret", "antropic")
    assert r.rc == 64 and b"there is no secret 'antropic'" in r.err, r


@pytest.mark.parametrize("network", ["none", None])
def test_only_with_a_gate(runner, network):
    define(runner, {"anthropic": KEY})
    r = shell(runner, 'echo "[$ANTHROPIC_API_KEY]"', *(["--network", network] if network else []))
    assert (r.out == b"[]\n") == (network == "none"), r


def test_file_that_others_may_write_is_refused(runner):
    define(runner, {"anthropic": KEY}, 0o666)
    r = shell(runner, "true")
    assert r.rc == 125 and b"only you may write it" in r.err, r


def test_link_is_refused(runner):
    path = define(runner, {"anthropic": KEY})
    path.rename(runner.home / "elsewhere")
    path.symlink_to(runner.home / "elsewhere")
    r = shell(runner, "true")
    assert r.rc == 125 and b"secrets.json" in r.err, r


def test_mistake_is_told_before_anything_runs(runner):
    define(runner, '{"secrets": {"a": {"hosts": ["*.example.com"], "store": "env", "variable": "X"}}}')
    r = shell(runner, "echo ran")
    assert r.rc == 64 and b"secrets.json:1:" in r.err and b"ran" not in r.out, r


# ssh


@pytest.fixture
def agent(runner):
    """A real ssh-agent with one key; the environment that leads to it."""
    if not shutil.which("ssh-agent"):
        pytest.skip("needs the program ssh-agent")
    path = runner.home / "agent.sock"
    p = runner.popen("ssh-agent", "-D", "-a", path, stdout=subprocess.DEVNULL)
    while not path.exists():
        select.select([], [], [], 0.02)
    env = {"SSH_AUTH_SOCK": str(path)}
    key = runner.home / "key"
    assert runner.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test@host", "-f", key).rc == 0
    assert runner.run("ssh-add", "-q", key, env=env).rc == 0
    yield env
    p.kill()
    p.wait()


def test_agent_lists_its_keys_inside(runner, agent):
    r = shell(runner, "echo $SSH_AUTH_SOCK; ssh-add -l; ssh-add -D; echo $?", "--ssh-agent", "on", env=agent)
    assert r.out.startswith(b"/run/bawn/ssh-agent.sock\n256 SHA256:") and b"test@host" in r.out, r
    assert r.out.endswith(b"\n1\n"), r  # nothing can be removed
    assert b"test@host" in runner.run("ssh-add", "-l", env=agent).out


def test_agent_off(runner, agent):
    r = shell(runner, 'echo "[$SSH_AUTH_SOCK]"', "--ssh-agent", "off", env=agent)
    assert r.out == b"[]\n", r


@pytest.mark.parametrize("env,why", [({}, b"SSH_AUTH_SOCK is not set"), ({"SSH_AUTH_SOCK": "/nonexistent"}, b"does not answer")])
def test_agent_that_is_not_there(runner, env, why):
    r = shell(runner, "true", "--ssh-agent", "on", env=env)
    assert r.rc == 125 and b"no ssh-agent: " in r.err and why in r.err, r
    r = shell(runner, 'echo "[$SSH_AUTH_SOCK]"', "--ssh-agent", "auto", env=env)
    assert (r.rc, r.out) == (0, b"[]\n"), r


def test_known_hosts_and_ignore_file(runner):
    runner.write(runner.home / ".ssh" / "known_hosts", "host.example ssh-ed25519 AAAA")
    runner.write(runner.home / ".ssh" / "id_ed25519", "PRIVATE", 0o600)
    runner.write(runner.home / ".gitignore_global", "*.swp\n")
    runner.write(runner.home / ".git-credentials", "https://me:password@example.com\n", 0o600)
    r = shell(runner, "cat ~/.ssh/known_hosts ~/.gitignore_global; stat -c %a ~/.ssh; ls -A ~/.ssh; echo x >> ~/.ssh/known_hosts || echo sealed; "
              "ls ~/.git-credentials 2>/dev/null", "--ssh-agent", "auto")
    out = r.out.decode()
    assert out.startswith("host.example ssh-ed25519 AAAA\n") and out.endswith("*.swp\n700\nknown_hosts\nsealed\n"), r


def test_what_is_no_known_hosts_file(runner):
    runner.mkdir(runner.home / ".ssh", 0o700)
    os.mkfifo(runner.home / ".ssh" / "known_hosts")
    r = shell(runner, "echo ran", "--ssh-agent", "auto")
    assert (r.rc, r.out) == (0, b"ran\n"), r


# Locked store


@pytest.fixture
def locked(runner):
    define(runner, {"anthropic": {"hosts": ["api.anthropic.com"], "store": "file"}})
    word = runner.write(runner.home / "word", "correct horse\n", 0o600)
    r = runner.run(runner.helper("bawn-vault"), "--put", "anthropic", input=b"the-real-value-1", env={"BAWN_PASSPHRASE_FILE": str(word)})
    assert r.rc == 0, r
    yield word
    runner.run(runner.helper("bawn-vault"), "--lock")


def test_locked_store_without_a_terminal(runner, locked):
    r = shell(runner, "echo ran")
    assert r.out == b"ran\n" and b"requests that need anthropic are refused until 'bawn secret unlock'" in r.err, r
    r = shell(runner, "echo ran", env={"BAWN_PASSPHRASE_FILE": str(locked)})
    assert r.out == b"ran\n" and b"locked" not in r.err, r
    r = shell(runner, "echo ran", "--no-secrets")
    assert b"locked" not in r.err, r


def on_terminal(runner, script, answers):
    """Runs a sandbox on a terminal; each answer is typed when its question was seen."""
    master, slave = pty.openpty()
    proc = runner.popen(runner.path, "run", "--", "sh", "-c", script, stdin=slave, stdout=slave, stderr=slave,
                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):
        while (data := os.read(master, 4096)):
            seen += data
            if answers and answers[0][0] in seen:
                os.write(master, answers.pop(0)[1])
    os.close(master)
    return proc.wait(), seen


def test_locked_store_on_a_terminal(runner, locked):
    rc, seen = on_terminal(runner, "echo ran", [(b"Passphrase", b"correct horse\n")])
    assert rc == 0 and b"ran" in seen and b"correct" not in seen, seen
    rc, seen = on_terminal(runner, "echo ran", [])  # it stays unlocked
    assert rc == 0 and b"Passphrase" not in seen, seen


def test_wrong_passphrase_stops_the_run(runner, locked):
    rc, seen = on_terminal(runner, "echo ran", [(b"Passphrase", b"wrong\n")] * 3)
    assert rc == 125 and b"stays locked" in seen and b"ran" not in seen, seen
