# SPDX-License-Identifier: Apache-2.0
"""A container as most are: docker's or podman's own seccomp profile, an ordinary user, no capabilities, no new privileges, no user namespaces. The engine is in the
network of tests/network, which leads nowhere else.

    def test_something(contained):        runs with docker and with podman; a Net (tests/network/conftest.py) whose place is such a container
        r = contained.outside("id")       in the container, without a sandbox
        r = contained.sandbox("id", allow=["ok.example.com"])    Bawn in the container
        contained.user = "1000:1000"      who runs there, if not the runner's user
"""

import io
import itertools
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import time

import pytest

from daemons import Docker
from network_fixtures import Done, Net

IMAGE = "bawn-test-host"
ETC = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "alternatives", "ssl")
AGENTS = os.environ.get("BAWN_AGENTS", "/var/tmp/bawn-agents")
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
NUMBERS = itertools.count()


class DockerIn(Docker):
    """Containers with --network host have the daemon's network: that of the process."""

    options, line = (), ["docker"]

    def __init__(self, pid):
        self.BEFORE = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
        super().__init__("root")


class PodmanIn:
    """podman without a service: containers have the network of the one who calls it."""

    options = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")  # the usual ones may be above what this machine allows

    def __init__(self, pid):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-podman.", dir="/var/tmp"))
        self.line = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "podman", "--root", self.folder / "data", "--runroot", self.folder / "run",
                     "--runtime", "runc", "--cgroup-manager", "cgroupfs"]

    def environ(self):
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder)}

    def call(self, *args):
        return subprocess.run([*self.line, *args], env=self.environ(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def skeleton():
    """A root file system whose programs are the host's, which are mounted."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("usr", "etc", "tmp", "var", "var/tmp", "run", "root", "home"):
            info = tarfile.TarInfo(name)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            tar.addfile(info)
        for name in ("bin", "sbin", "lib", "lib64"):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(info)
    return out.getvalue()


class Started:
    """A container's first process: as Popen, with its pid as the host sees it."""

    def __init__(self, engine, name, client):
        self.engine, self.name, self.client = engine, name, client
        self.poll, self.wait = client.poll, client.wait
        self.pid = 0
        while not self.pid:
            assert client.poll() is None, f"the container has ended: {client.args}"
            time.sleep(0.05)
            self.pid = int(engine.call("inspect", "--format", "{{.State.Pid}}", name).stdout.strip() or 0)

    def end(self):
        self.engine.call("rm", "--force", self.name)
        self.wait()


class Contained(Net):
    """One container for each command, with the workspace, the home and Bawn."""

    rung = "landlock"

    def __init__(self, world, runner, engine):
        super().__init__(world, runner)
        self.engine, self.started = engine, []
        self.options = ["--pids", "3000"]  # as in Net; podman's own limit is 4096
        self.user = f"{runner.user.pw_uid}:{runner.user.pw_gid}"

    def mounts(self):
        runner, folder = self.runner, self.world.folder
        read = ["/usr", *(f"/etc/{name}" for name in ETC), pathlib.Path(runner.path).resolve().parents[1], TOOLS, *([AGENTS] if os.path.isdir(AGENTS) else [])]
        return [*(f"{p}:{p}:ro" for p in read), f"{folder}/resolv.conf:/etc/resolv.conf:ro", f"{folder}/bundle.crt:/etc/ssl/certs/ca-certificates.crt:ro",
                f"{runner.top}:{runner.top}"]

    def line(self, cmd, env, *more):
        pairs = self.runner.environ(env).items()
        return [*self.engine.line, "run", "--rm", "--interactive", *self.engine.options, *more, "--network", "host", "--user", self.user, "--cap-drop", "ALL",
                "--security-opt", "no-new-privileges", "--workdir", str(self.runner.workspace), *(w for m in self.mounts() for w in ("--volume", m)),
                *(w for k, v in pairs for w in ("--env", f"{k}={v}")), IMAGE, *map(str, cmd)]

    def outside(self, *cmd, input=None, env=None):
        given = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(self.line(cmd, env), env=self.engine.environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given)
        return Done(cmd, done)

    def popen(self, *cmd, env=None, **kw):
        name = f"bawn-test-{os.getpid()}-{next(NUMBERS)}"
        client = subprocess.Popen(self.line(cmd, env, "--name", name), env=self.engine.environ(), start_new_session=True, **kw)
        self.started.append(Started(self.engine, name, client))
        return self.started[-1]

    def end(self):
        for container in self.started:
            container.end()
        super().end()


@pytest.fixture(scope="session", params=["docker", "podman"])
def inner_engine(request, inter_net):
    d = {"docker": DockerIn, "podman": PodmanIn}[request.param](inter_net.outer)
    (d.folder / "root.tar").write_bytes(skeleton())
    done = d.call("import", d.folder / "root.tar", IMAGE)
    assert done.returncode == 0, done
    yield d
    d.end()


@pytest.fixture
def contained(inner_engine, inter_net, user_runner):
    net = Contained(inter_net, user_runner, inner_engine)
    yield net
    net.end()
