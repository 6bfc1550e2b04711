# SPDX-License-Identifier: Apache-2.0
"""Bawn in a container as most are: docker's or podman's own seccomp profile, an ordinary user, no capabilities, no new privileges, no user namespaces. There it is the
landlock rung, with a network by rules. The daemon is in the network of tests/network, which leads nowhere else."""

import io
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

import pytest

from daemons import Docker
from network_fixtures import Net, inter_net, servers  # noqa: F401

IMAGE = "bawn-test-host"


class DockerIn(Docker):
    """Containers with --network host have the daemon's network: that of the process."""

    options = ()

    def __init__(self, group, pid):
        self.BEFORE = ["nsenter", f"--net=/proc/{pid}/ns/net", "--"]
        super().__init__(group)


class PodmanIn:
    """podman without a service: containers have the network of the one who calls it."""

    options = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")  # the usual ones may be above what this machine allows

    def __init__(self, pid):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-podman.", dir="/var/tmp"))
        self.before = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "podman", "--root", self.folder / "data", "--runroot", self.folder / "run",
                       "--runtime", "runc", "--cgroup-manager", "cgroupfs"]

    def call(self, *args):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder)}
        return subprocess.run([*self.before, *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

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


@pytest.fixture(scope="module", params=["docker", "podman"])
def inner_engine(request, inter_net):  # noqa: F811
    d = DockerIn("root", inter_net.outer) if request.param == "docker" else PodmanIn(inter_net.outer)
    (d.folder / "root.tar").write_bytes(skeleton())
    done = d.call("import", d.folder / "root.tar", IMAGE)
    assert done.returncode == 0, done
    yield d
    d.end()


@pytest.fixture
def contained(inner_engine, inter_net, user_runner):  # noqa: F811
    """contained(*cmd): the command in such a container, with the workspace, the home and Bawn."""
    runner, world = user_runner, inter_net
    etc = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "alternatives", "ssl")
    read = ["/usr", *(f"/etc/{name}" for name in etc), str(pathlib.Path(runner.path).resolve().parents[1])]
    mounts = [*(f"{p}:{p}:ro" for p in read), f"{world.folder}/resolv.conf:/etc/resolv.conf:ro",
              f"{world.folder}/bundle.crt:/etc/ssl/certs/ca-certificates.crt:ro", f"{runner.top}:{runner.top}"]
    options = ["--rm", *inner_engine.options, "--network", "host", "--user", f"{runner.user.pw_uid}:{runner.user.pw_gid}", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
               "--workdir", str(runner.workspace), "--env", f"HOME={runner.home}", "--env", "PATH=/usr/bin:/bin", *(w for m in mounts for w in ("--volume", m))]
    net = Net(world, runner)
    net.run = lambda *cmd: inner_engine.call("run", *options, IMAGE, *map(str, cmd))
    net.inside = lambda *cmd: net.run(runner.path, "run", "--allow", "ok.example.com", "--", *cmd)
    yield net
    net.end()


def test_names_are_judged_in_a_container_without_user_namespaces(contained):
    """Claim: in an ordinary container nothing reaches an address that was not judged, and allowed names work."""
    assert contained.run("unshare", "--user", "--uts", "--map-root-user", "hostname", "x").returncode != 0, "this container has all namespaces"
    assert contained.run("curl", "-s", "http://evil.example.net/").returncode == 0 and contained.hits(to="11.0.0.11"), "without a sandbox it is reached"
    contained.forget()
    r = contained.inside("curl", "-sS", "-w", "%{http_code}", "http://ok.example.com/", "https://ok.example.com/")
    assert r.stdout.count(b"200") == 2 and b"landlock rung" in r.stderr, r
    r = contained.inside("curl", "-sS", "-w", "%{http_code}", "http://evil.example.net/")
    assert r.stdout.endswith(b"403"), r
    r = contained.inside("curl", "-sS", "--noproxy", "*", "--connect-timeout", "20", "http://11.0.0.11/")
    assert b"BAWN_NET_NOT_HANDED_OUT" in r.stdout, r
    assert {h["to"] for h in contained.hits()} == {"11.0.0.10"} and not any("evil" in q for q in contained.queries())


def test_files_outside_of_the_workspace_are_out_of_reach(contained):
    runner = contained.runner
    secret = runner.write(runner.home / ".ssh/id", "bawn-secret-key\n", 0o600)
    assert contained.run("cat", secret).stdout == b"bawn-secret-key\n"
    r = contained.inside("sh", "-c", f"cat {secret}; echo x > {runner.home}/planted; echo made > made; id -u")
    assert r.returncode == 0 and r.stdout == b"%d\n" % runner.user.pw_uid, r
    assert not (runner.home / "planted").exists() and (runner.workspace / "made").read_text() == "made\n"


@pytest.fixture
def nginx(inter_net):  # noqa: F811
    server = servers.nginx(inter_net)
    yield server
    server.end()


WORK = """
git clone -q https://dev.example.com/demo.git one && cat one/README
npm="npm --registry https://dev.example.com/npm/ --no-audit --no-fund --no-update-notifier"
mkdir js && cd js && echo '{"name": "x", "version": "1.0.0", "dependencies": {"demo": "1.0.0"}}' > package.json
$npm install >/dev/null && rm -rf node_modules && $npm ci >/dev/null && ls node_modules && cd ..
python3 -m pip --disable-pip-version-check install -q --no-deps --target lib --index-url https://dev.example.com/simple/ demo && ls lib
"""


def test_a_days_work_through_the_gate(contained, nginx):
    """git clone, npm ci and pip install in an ordinary container, from one host that is allowed, and from none if it is not."""
    r = contained.run(contained.runner.path, "run", "--allow", "dev.example.com", "--", "sh", "-ec", WORK)
    assert r.returncode == 0 and b"landlock rung" in r.stderr and r.stdout.count(b"demo") >= 2, r
    r = contained.inside("git", "clone", "-q", "https://dev.example.com/demo.git", "none")
    assert r.returncode != 0 and not (contained.runner.workspace / "none").exists(), r
