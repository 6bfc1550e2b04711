# SPDX-License-Identifier: Apache-2.0
"""What people do in a container as most are (inside_container.py), with Bawn in the landlock rung: the real agents, git over ssh with the user's ssh-agent, `make try`.

In the check one agent runs in docker; BAWN_ALL=1: all four, in docker and in podman.
"""

import os
import pathlib
import sys

import pytest

from network_fixtures import load

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "agents"))
agents = load("agents/conftest.py", "agents_conftest")
import ssh_tools  # noqa: E402
import test_agents  # noqa: E402
import trykit  # noqa: E402

CHECKED = [("docker", "claude")]
ALL = [(engine, name) for engine in ("docker", "podman") for name in agents.ARGUMENTS]
HOST = "git.example.com"


# Agents

@pytest.fixture(scope="module")
def all_models(inter_net):
    m = agents.Models(inter_net)
    yield m
    m.end()


@pytest.fixture
def models(contained, all_models):
    all_models.forget()
    contained.names.update({host: [agents.ADDRESS] for host in all_models.keys})
    contained.save_names()
    yield all_models
    all_models.forget()


@pytest.mark.parametrize("inner_engine, name", ALL if os.environ.get("BAWN_ALL") else CHECKED, indirect=["inner_engine"])
def test_an_agents_loop_with_the_key_put_in_outside(contained, models, name):
    """Claim: in an ordinary container the loop works, and the key is nowhere inside, during the run and after it: the same test as on the host."""
    test_agents.test_agent_inside(contained, models, agents.Agent(name, contained.runner))
    assert b"landlock rung" in (contained.world.folder / "err").read_bytes()


# git over ssh

@pytest.fixture(scope="module")
def sshd(inter_net):
    s = ssh_tools.Sshd(inter_net)
    yield s
    s.end()


@pytest.fixture
def me(contained):
    """The agent is the host's; its socket is in the home, which is mounted."""
    user = ssh_tools.User(contained)
    yield user
    user.stop()


SSH = f"""
git clone -q git@{HOST}:demo.git one
cd one
git config user.name A; git config user.email a@example.com
echo hello > file; git add file; git commit -q -m first
git push -q origin HEAD:$1
git clone -q -b $1 ssh://git@{HOST}/~/demo.git ../two
cat ../two/file
"""


def test_git_over_ssh_with_the_agent(contained, inner_engine, sshd, me):
    """Claim: git clones and pushes over ssh with the user's agent, which signs for hosts that are allowed and for nothing else."""
    me.know(sshd.known(HOST, "ed25519"))
    before = sshd.logins()
    r = contained.sandbox("sh", "-ec", SSH, "sh", type(inner_engine).__name__, allow=[f"{HOST}:22"], env=me.env)
    assert r.rc == 0 and r.out == b"hello\n" and b"landlock rung" in r.err, r
    assert sshd.logins() == before + 3
    used = [(e["host"], e["port"], e["method"]) for e in contained.log() if e["kind"] == "secret" and e["action"] == "allow"]
    assert used == [(HOST, 22, "login")] * 3

    probe = ssh_tools.CLIENT + "print(Agent().ask(b'\\x13')[0], Agent().ask(b'\\x0b')[0])"  # remove all keys; list them
    r = contained.sandbox("/usr/bin/python3", "-c", probe, env=me.env)
    assert r.out == b"%d 12\n" % ssh_tools.FAILURE, r
    real = ssh_tools.CLIENT + f"os.environ['SSH_AUTH_SOCK'] = {str(me.path)!r}; print(Agent().ask(b'\\x0b')[0])"
    assert contained.outside("/usr/bin/python3", "-c", real).out == b"12\n", "without a sandbox the agent itself is reached"
    r = contained.sandbox("/usr/bin/python3", "-c", real, env=me.env)
    assert r.rc == 1 and b"PermissionError" in r.err, r
    assert me.add("-l").out.count(b"SHA256:") == 3

    r = contained.sandbox("git", "clone", "-q", f"git@{HOST}:demo.git", "none", allow=["ok.example.com"], env=me.env)
    assert r.rc != 0 and sshd.logins() == before + 3 and not (contained.runner.workspace / "none").exists(), r


# make try

def test_the_promises_of_make_try(contained):
    """Claim: every promise of `make try` holds here, and what the rung does not claim is named."""
    contained.user = f"{trykit.ID}:{trykit.ID}"
    r = contained.outside(trykit.TRY, contained.runner.path)
    said = trykit.checked(r.rc, r.out)
    assert "landlock rung" in said and trykit.BY_HAND in said and trykit.weaker(said) == {"memory", "pids"}, r
