# SPDX-License-Identifier: Apache-2.0
"""Real container engines for tests: daemons of our own, on own sockets and data folders, ended with the worker that started them."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

WAIT_S = 60  # for a daemon that does not come up: only so that it fails


class Docker:
    """dockerd without bridge and packet rules: nothing of the machine's network changes."""

    PLACE, BEFORE = "/var/tmp", []

    def __init__(self, group):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-docker.", dir=self.PLACE))
        self.folder.chmod(0o755)
        self.host = f"unix://{self.folder}/docker.sock"
        self.log = open(self.folder / "log", "wb")
        self.group = group
        self.start()

    def start(self):
        f = self.folder
        runtimes = {"runsc": {"path": "/usr/bin/runsc", "runtimeArgs": ["--platform=ptrace", "--ignore-cgroups", "--network=none"]}}
        (f / "daemon.json").write_text(json.dumps({"runtimes": runtimes if os.access("/usr/bin/runsc", os.X_OK) else {}}))
        self.process = subprocess.Popen(
            [*self.BEFORE, "dockerd", "--config-file", f / "daemon.json", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
             "--exec-opt", "native.cgroupdriver=cgroupfs", "-H", self.host, "-G", self.group, "--data-root", f / "data", "--exec-root", f / "exec",
             "--pidfile", f / "pid"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)
        until = time.monotonic() + WAIT_S
        while subprocess.run(["docker", "version"], env=self.environ(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
            assert self.process.poll() is None and time.monotonic() < until, f"dockerd does not start:\n{(self.folder / 'log').read_text()[-3000:]}"
            time.sleep(0.2)

    def environ(self):
        return {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder), "DOCKER_HOST": self.host}

    def call(self, *args, **kw):
        return subprocess.run(["docker", *args], env=self.environ(), stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def containers(self):
        return self.call("ps", "--all", "--quiet").stdout.split()

    def stop(self, sig=signal.SIGTERM):
        """With its containerd, which dies with it: where PID 1 does not reap orphans, the next one would take that for alive."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(sig)
        self.process.wait()
        if sig == signal.SIGKILL:
            for name in ("containerd.pid", "containerd.sock"):
                (self.folder / "exec/containerd" / name).unlink(missing_ok=True)

    def end(self):
        self.stop()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.folder / "exec/containerd/containerd.pid").read_text()), signal.SIGKILL)
        self.log.close()
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            place = line.split()[4]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class FarDocker(Docker):
    """As if it were on another machine: no folder that a test or the checkout is in exists for it. `ssh` in its folder bin/ leads to it."""

    PLACE = "/var/lib"  # which it sees
    HIDDEN = {"/tmp", "/var/tmp", "/home", "/root", "/work", str(pathlib.Path(__file__).resolve().parents[2])}

    def __init__(self, group):
        hide = "".join(f"[ ! -d '{d}' ] || mount -t tmpfs -o mode=755 tmpfs '{d}'; " for d in sorted(self.HIDDEN))
        self.BEFORE = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", hide + 'exec "$@"', "sh"]
        super().__init__(group)
        (self.folder / "bin").mkdir()
        ssh = self.folder / "bin/ssh"
        ssh.write_text(f"#!/bin/sh\nexec env -u DOCKER_CONTEXT DOCKER_HOST={self.host} docker system dial-stdio\n")
        ssh.chmod(0o755)
        self.path = f"{self.folder}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

    def running(self):
        return self.call("ps", "--quiet").stdout.split()

    def volumes(self):
        return self.call("volume", "ls", "--quiet").stdout.split()


class FarPodman:
    """podman's service, in the same way."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-podman.", dir=FarDocker.PLACE))
        self.host = f"unix://{self.folder}/podman.sock"
        hide = "".join(f"[ ! -d '{d}' ] || mount -t tmpfs -o mode=755 tmpfs '{d}'; " for d in sorted(FarDocker.HIDDEN))
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", hide + 'exec "$@"', "sh", "podman", "--root", self.folder / "data", "--runroot",
             self.folder / "run", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "system", "service", "--time", "0", self.host],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True, cwd="/")
        until = time.monotonic() + WAIT_S
        while self.call("version").returncode:
            assert self.process.poll() is None and time.monotonic() < until, f"podman's service does not start:\n{(self.folder / 'log').read_text()[-3000:]}"
            time.sleep(0.2)

    def call(self, *args, **kw):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder), "CONTAINER_HOST": self.host}
        return subprocess.run(["podman", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
