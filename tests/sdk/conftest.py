# SPDX-License-Identifier: Apache-2.0
"""The SDKs as a user has them: the wheel in a virtual environment, the npm package in a folder of its own, both without the network.

    def test_something(service, bawn):      in this process: `bawn` is the package of the wheel, the service runs as root and as a user
    def test_other(python):                 python(SCRIPT) runs a script with the wheel as the runner; node(SCRIPT) the same with the npm package
"""

import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = pathlib.Path(os.environ.get("BAWN_AGENTS", "/var/tmp/bawn-agents"))


@pytest.fixture(scope="session")
def installed():
    """A folder that every user can read, for what is built and installed."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-sdk-test.", dir="/var/tmp"))
    top.chmod(0o755)
    yield top
    shutil.rmtree(top)


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="session")
def wheel(installed):
    """The interpreter of an environment that has the wheel and nothing else."""
    run("/usr/bin/python3", ROOT / "sdk/python/backend.py", installed)
    built, = installed.glob("*.whl")
    run("/usr/bin/python3", "-m", "venv", installed / "venv")
    run(installed / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", built)
    return installed / "venv/bin/python"


@pytest.fixture(scope="session")
def bawn_module(wheel):
    """The package of the wheel in this process. `bawn` is already the program's path in the tests."""
    folder, = (wheel.parent.parent / "lib").glob("python*/site-packages")
    sys.path.insert(0, str(folder))
    module = importlib.import_module("bawn")
    assert str(folder) in module.__file__
    importlib.import_module("bawn.aio")
    return module


class Service:
    """bawnd and bawn-front as the runner."""

    def __init__(self, runner, **conf):
        self.runner = runner
        self.top = runner.mkdir(runner.top / "svc", 0o755)
        self.url = f"unix://{self.top}/run/api.sock"
        self.proc = None
        conf = {"state": str(self.top / "state"), "runtime": str(self.top / "run"), "any_user": True, **conf}
        self.config = runner.write(self.top / "bawnd.json", json.dumps(conf))
        self.launch()

    def launch(self):
        with open(self.top / "log", "ab") as log:
            self.proc = self.runner.popen(self.runner.path.parent / "bawnd", "--config", self.config, stderr=log, stdout=log)

    def kill(self):
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()

    def stop(self):
        self.proc.send_signal(signal.SIGTERM)
        assert self.proc.wait() == 0, (self.top / "log").read_text()


@pytest.fixture
def make_service(runner, bawn_module):
    """make_service(**configuration): returned when it answers."""
    made = []

    def make(**conf):
        made.append(Service(runner, **conf))
        bawn_module.Client(made[-1].url, retry_seconds=600).request("getHealth")
        return made[-1]

    yield make
    for s in made:
        s.stop()


@pytest.fixture
def service(make_service):
    return make_service()


@pytest.fixture
def client(service, bawn_module):
    with bawn_module.Client(service.url, retry_seconds=600) as c:
        yield c


def script_runner(runner, program, suffix, cwd=None):
    """A function that runs a script as the runner, and returns what it printed as JSON."""
    def go(text, *arguments, env=None, **more):
        script = runner.write(runner.top / f"script{suffix}", text)
        done = runner.run(program, script, *arguments, env={"BAWN": str(runner.path), "TMPDIR": "/var/tmp", **(env or {})}, cwd=cwd, **more)
        assert done.rc == 0, (done.out, done.err)
        return done.out.decode() if isinstance(done.out, bytes) else done.out

    return go


@pytest.fixture
def python(runner, wheel):
    return script_runner(runner, wheel, ".py")


def pytest_collection_modifyitems(config, items):
    """Each runs as one of the two users, chosen by name; BAWN_ALL=1: as both."""
    def is_left_out(item):
        users = {"root", "user"} & set(getattr(item, "callspec").id.split("-")) if hasattr(item, "callspec") else set()
        if item.path.parent != HERE or not users or os.environ.get("BAWN_ALL"):
            return False
        user = users.pop()
        return zlib.crc32(item.name.replace(user, "").encode()) % 2 != (user == "root")

    out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)
