# SPDX-License-Identifier: Apache-2.0
"""The SDKs as a user has them: the wheel in a virtual environment, the npm package in a folder of its own, both without the network.

    def test_something(service, bawn):      in this process: `bawn` is the package of the wheel, the service runs as root and as a user
    def test_other(python):                 python(SCRIPT) runs a script with the wheel as the runner; node(SCRIPT) the same with the npm package
"""

import fcntl
import importlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import types
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(HERE))
from sdk_programs import PROGRAMS  # noqa: E402


class Shared:
    """A folder that every user can read, for what is built and installed: once, also if pytest has several workers. The last one removes it."""

    def __init__(self):
        self.top = pathlib.Path("/var/tmp", "bawn-sdk-test." + os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))
        self.top.mkdir(mode=0o755, exist_ok=True)
        self.lock = open(self.top / "lock", "w")
        (self.top / f"user-{os.getpid()}").touch()

    def make(self, name, build):
        """Whether it was built is a file, because another worker may have done it."""
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            if not (self.top / f"{name}.done").exists():
                build(self.top)
                (self.top / f"{name}.done").touch()
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def leave(self):
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        (self.top / f"user-{os.getpid()}").unlink()
        if not [*self.top.glob("user-*")]:
            shutil.rmtree(self.top)
        self.lock.close()


@pytest.fixture(scope="session")
def installed():
    shared = Shared()
    yield shared
    shared.leave()


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="session")
def wheel(installed):
    """The interpreter of an environment that has the wheel and nothing else."""
    def build(top):
        run("/usr/bin/python3", ROOT / "sdk/python/backend.py", top)
        built, = top.glob("bawn-*.whl")
        run("/usr/bin/python3", "-m", "venv", "--without-pip", top / "venv")
        pip, = pathlib.Path("/usr/share/python-wheels").glob("pip-*.whl")  # of Debian's python3-venv; in the environment it would take a minute
        run(top / "venv/bin/python", pip / "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", built)

    installed.make("wheel", build)
    return installed.top / "venv/bin/python"


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
def tls(make_service, bawn_module, runner, tmp_path):
    """A service at https://localhost:PORT with a tenant: url, token, and the certificate to trust."""
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", tmp_path / "key", "-out", tmp_path / "cert",
        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    certificate, key = (runner.write(runner.top / name, (tmp_path / name).read_bytes(), 0o600) for name in ("cert", "key"))
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    service = make_service(listen=[f"127.0.0.1:{port}"], hosts=["localhost"], certificate=str(certificate), key=str(key))
    admin = bawn_module.Client(service.url)
    admin.request("createTenant", body={"name": "acme"})
    token = admin.request("createToken", path={"tenant": "acme"}, body={})["token"]
    return types.SimpleNamespace(url=f"https://localhost:{port}", token=token, certificate=str(certificate))


@pytest.fixture
def client(service, bawn_module):
    with bawn_module.Client(service.url, retry_seconds=600) as c:
        yield c


@pytest.fixture
def printer(service, client):
    """An agent of the client's tenant that is a shell: what it is given is in ~/.printer."""
    client.run("true")  # makes the home of the tenant
    preset = {"command": "sh", "home": [".printer"], "instructions": ".printer/ORDERS.md", "skills": ".printer/skills", "mcp": {"file": ".printer/mcp", "form": "claude"}}
    home = service.top / "state/tenants" / client.request("getMe")["name"] / "home"
    service.runner.write(home / ".config/bawn/agents/printer.json", json.dumps(preset))
    return "printer"


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
    """Each runs as one of the two users, chosen by name, if it can as both; BAWN_ALL=1: as both."""
    names = {item.nodeid for item in items}

    def is_left_out(item):
        users = {"root", "user"} & set(getattr(item, "callspec").id.split("-")) if hasattr(item, "callspec") else set()
        if item.path.parent != HERE or not users or os.environ.get("BAWN_ALL"):
            return False
        user = users.pop()
        if item.nodeid.replace(user, {"root": "user", "user": "root"}[user]) not in names:
            return False
        return zlib.crc32(item.name.replace(user, "").encode()) % 2 != (user == "root")

    out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=out)


@pytest.fixture(scope="session")
def package(installed):
    """A folder with the npm package of sdk/typescript in its node_modules, and nothing else."""
    compiler, types = PROGRAMS / "tsc/node_modules/.bin/tsc", PROGRAMS / "node-types/node_modules/@types"
    for program in ("node", "npm", compiler):
        if not shutil.which(program):
            pytest.skip(f"needs the program {program} ({PROGRAMS}, see tools/agents)")

    def build(top):
        source, app = top / "typescript", top / "app"
        shutil.copytree(ROOT / "sdk/typescript", source, ignore=shutil.ignore_patterns("dist", "node_modules"))
        run(compiler, "-p", source, "--typeRoots", types)
        app.mkdir(mode=0o755)
        (app / "package.json").write_text('{"name": "app", "private": true, "type": "module"}')
        npm = {**os.environ, "HOME": str(top), "npm_config_cache": str(top / "npm"), "npm_config_update_notifier": "false"}
        run("npm", "pack", "--offline", "--pack-destination", top, cwd=source, env=npm)
        built, = top.glob("bawn-*.tgz")
        run("npm", "install", "--offline", "--no-audit", "--no-fund", built, cwd=app, env=npm)
        assert sorted(p.name for p in (app / "node_modules").iterdir() if p.name[0] != ".") == ["bawn"]

    installed.make("package", build)
    return installed.top / "app"


@pytest.fixture
def node(runner, package):
    """node(SCRIPT, *arguments): runs a module beside the package as the runner; what it printed."""
    scripts = []

    def go(text, *arguments, env=None):
        script = package / f"{runner.top.name}-{len(scripts)}.mjs"
        script.write_text(text)
        scripts.append(script)
        done = runner.run("node", script, *arguments, env={"BAWN": str(runner.path), "TMPDIR": "/var/tmp", **(env or {})})
        assert done.rc == 0, done
        return done.out.decode()

    yield go
    for script in scripts:
        script.unlink()
