# SPDX-License-Identifier: Apache-2.0
"""Root without user namespaces runs commands as the owner of the workspace, who cannot enter root's folders: what is handed in from there works all the same."""

import os
import subprocess

import pytest

OWNER = 12345


@pytest.fixture
def agent(root_runner):
    """A real agent of root's, with one key."""
    path, key = root_runner.home / "agent.sock", root_runner.home / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "root@laptop", "-f", key], check=True)
    p = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    while not path.exists():
        assert p.poll() is None
    subprocess.run(["ssh-add", "-q", key], env={**os.environ, "SSH_AUTH_SOCK": str(path)}, check=True)
    yield path
    p.kill()
    p.wait()


def test_the_ssh_agent_of_root(root_runner, deny, agent):
    """Claim: the agent's keys are listed by the socket of Bawn's; neither it nor the real one can be opened by their paths."""
    runner = root_runner
    os.chown(runner.workspace, OWNER, OWNER)
    script = 'id -u; ssh-add -L | cut -d" " -f3; ls "$(dirname "$SSH_AUTH_SOCK")" 2>/dev/null; SSH_AUTH_SOCK=%s ssh-add -L' % agent
    r = runner.run(deny, "userns", "--", runner.path, "run", "--pids", "30000", "--", "sh", "-c", script, env={"SSH_AUTH_SOCK": str(agent)})
    assert r.out == f"{OWNER}\nroot@laptop\n".encode() and r.rc == 2 and b"landlock rung" in r.err, r
