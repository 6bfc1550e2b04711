# SPDX-License-Identifier: Apache-2.0
"""The agents' world: that of the network tests, and in it the scripted models of model_servers.py.

    def test_something(net, models, agent):     runs for every agent, as root and as an ordinary user
        models.hold()                           the last answer waits until models.go_on()
        run = agent.start_inside(net)           bawn run --agent NAME
        models.wait_for_last(run)
        run.end()

The programs come from $BAWN_AGENTS (default /var/tmp/bawn-agents), where tools/agents puts them.
"""

import importlib.util
import json
import os
import pathlib
import secrets
import string
import subprocess
import sys
import time
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "network"))
import model_servers  # noqa: E402
from lines import json_lines  # noqa: E402


def pytest_collection_modifyitems(config, items):
    """Each runs as one of the two users, chosen by name, because agents are slow, and one of them in the landlock rung; BAWN_ALL=1: all as both."""
    def is_left_out(item):
        words = set(item.callspec.id.split("-")) if hasattr(item, "callspec") else set()
        if item.path.parent == HERE and "landlock" in words:
            return "root" in words or ("claude" not in words and not os.environ.get("BAWN_ALL"))
        users = {"root", "user"} & set(getattr(item, "callspec").id.split("-")) if hasattr(item, "callspec") else set()
        if item.path.parent != HERE or not users or os.environ.get("BAWN_ALL"):
            return False
        user = users.pop()
        return zlib.crc32(item.name.replace(user, "").encode()) % 2 != (user == "root")

    out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)


def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "test_agent_inside":
        metafunc.parametrize("rung", ["full", "landlock"], indirect=True)


def load_network():
    spec = importlib.util.spec_from_file_location("agents_network", HERE.parent / "network" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


network = load_network()
inter_net, net_of_network, rung, no_userns = network.inter_net, network.net, network.rung, network.no_userns

ADDRESS = network.SERVERS[-1]
PROGRAMS = pathlib.Path(os.environ.get("BAWN_AGENTS", "/var/tmp/bawn-agents"))
SHAPES = {"api.anthropic.com": ("sk-ant-api03-", 95), "api.openai.com": ("sk-proj-", 156), "generativelanguage.googleapis.com": ("AIzaSy", 33),
          model_servers.GATEWAY: ("corp-", 40)}


def make_key(host):
    shape, length = SHAPES[host]
    return shape + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))


class Models:
    """The scripted models; keys: {host: the only key that it takes}."""

    def __init__(self, world):
        self.world, self.folder = world, world.folder
        self.keys = {host: make_key(host) for host in model_servers.APIS}
        (self.folder / "keys.json").write_text(json.dumps(self.keys))
        (self.folder / "keys.json").chmod(0o600)
        world.certificate("models", "models-key", ",".join(f"DNS:{host}" for host in self.keys))
        self.forget()
        self.process = subprocess.Popen(network.into(world.inet, sys.executable, HERE / "model_servers.py", self.folder, ADDRESS),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def forget(self):
        (self.folder / "models.jsonl").write_text("")
        for switch in ("hold", "echo"):
            (self.folder / switch).unlink(missing_ok=True)

    def echo(self):
        (self.folder / "echo").touch()

    def hold(self):
        (self.folder / "hold").touch()

    def go_on(self):
        (self.folder / "hold").unlink()

    def requests(self):
        return json_lines(self.folder / "models.jsonl")

    def wait_for_last(self, run):
        """Returns when the agent waits for its last answer."""
        while not any(r["turn"] == model_servers.LAST for r in self.requests()):
            assert run.process.poll() is None, f"the agent ended early:{run.end()!r}"
            time.sleep(0.05)

    def end(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def local_model(inter_net, models):
    """A model without a key on this machine's own loopback interface, over plain http."""
    cmd = [sys.executable, HERE / "model_servers.py", models.folder, "127.0.0.1", str(model_servers.LOCAL_PORT)]
    process = subprocess.Popen(network.into(inter_net.outer, *cmd), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    yield
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def all_models(inter_net):
    m = Models(inter_net)
    yield m
    m.end()


@pytest.fixture
def models(all_models):
    all_models.forget()
    yield all_models
    all_models.forget()


@pytest.fixture
def net(net_of_network, models):
    net_of_network.names.update({host: [ADDRESS] for host in models.keys})
    net_of_network.save_names()
    return net_of_network


TASK = "Make the file, then read it."
ARGUMENTS = {
    "claude": ["-p", TASK, "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check", TASK],
    "gemini": ["--yolo", "-p", TASK],
    "opencode": ["run", TASK],
}


class Run:
    """An agent that runs; its output goes to files, so that nobody has to read while it is looked at."""

    def __init__(self, net, cmd, env):
        self.cmd, self.folder = cmd, net.world.folder
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = net.popen(*cmd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.pid = self.process.pid

    def end(self):
        rc = self.process.wait(timeout=300)
        out, err = ((self.folder / name).read_bytes() for name in ("out", "err"))
        return network.Done(self.cmd, subprocess.CompletedProcess(self.cmd, rc, out, err))


class Agent:
    """One of the presets in profiles/agents."""

    def __init__(self, name, runner):
        self.name, self.runner = name, runner
        self.preset = json.loads((ROOT / "profiles" / "agents" / f"{name}.json").read_text())
        self.host, self.variables = self.preset["secret"]["host"], self.preset["secret"]["env"]
        self.program = PROGRAMS / name / "node_modules" / ".bin" / self.preset["command"]
        if not self.program.exists():
            pytest.skip(f"needs the program {self.preset['command']} ({PROGRAMS}, see tools/agents)")

    def environ(self, **more):
        return {"PATH": f"{self.program.parent}:{self.runner.environ()['PATH']}", **more}

    def set_secret(self, net, key, *words):
        """Gives Bawn the key, in its encrypted file; returns the environment that opens it. words: of `bawn secret set`, if not the usual ones."""
        phrase = self.runner.write(self.runner.top / "passphrase", "correct horse battery staple\n", 0o600)
        env = {"BAWN_PASSPHRASE_FILE": str(phrase)}
        words = words or (self.preset["secret"]["name"], "--host", self.host)
        r = net.bawn("secret", "set", *words, "--store", "file", input=key.encode(), env=env)
        assert r.rc == 0, r
        return env

    def start_inside(self, net, env, *options, arguments=()):
        return Run(net, [*net.before, self.runner.path, "run", *net.options, *options, "--agent", self.name, "--", *ARGUMENTS[self.name], *arguments], self.environ(**env))

    def start_outside(self, net, key, arguments=(), variables=None):
        """The same without a sandbox: what the preset says is done by hand."""
        home = self.runner.home
        for path, content in self.preset.get("files", {}).items():
            self.runner.write(home / path, content)
        env = self.preset.get("env", {})
        trust = {"SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt", "NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt"}
        return Run(net, [self.program, *self.preset.get("args", []), *ARGUMENTS[self.name], *arguments],
                   self.environ(**env, **trust, **{v: key for v in self.variables}, **(variables or {})))


@pytest.fixture(params=list(ARGUMENTS))
def agent(request, runner):
    return Agent(request.param, runner)
