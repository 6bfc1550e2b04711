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

    def __init__(self, group):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-docker.", dir="/var/tmp"))
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
            ["dockerd", "--config-file", f / "daemon.json", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
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
