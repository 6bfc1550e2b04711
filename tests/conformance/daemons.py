# SPDX-License-Identifier: Apache-2.0
"""Real container engines for tests: daemons of our own, on own sockets and data folders, ended with the worker that started them."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
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


class SshServer:
    """A real sshd on loopback that leads to a FarDocker; `ssh` in its folder bin/ is the real one, with a key and settings of its own."""

    def __init__(self, docker):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-sshd.", dir="/var/tmp"))
        self.folder.chmod(0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        f = self.folder
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f / name], check=True)
        (f / "sshd_config").write_text(f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {f}/host\nAuthorizedKeysFile {f}/user.pub\nStrictModes no\nUsePAM no\n"
                                       f"PermitRootLogin prohibit-password\nPidFile none\nSetEnv DOCKER_HOST={docker.host}\n")
        (f / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {(f / 'host.pub').read_text()}")
        (f / "bin").mkdir()
        # The key is one of this test's alone, and each user who runs ssh has to own it.
        (f / "bin/ssh").write_text(f'#!/bin/sh\nkey=$(mktemp)\ncat {f}/user > "$key"\nssh_() {{ /usr/bin/ssh -F none -i "$key" -o IdentitiesOnly=yes '
                                   f'-o UserKnownHostsFile={f}/known_hosts "$@"; }}\nssh_ "$@"\nr=$?\nrm -f "$key"\nexit $r\n')
        for name, mode in (("bin/ssh", 0o755), ("user", 0o644)):
            (f / name).chmod(mode)
        os.makedirs("/run/sshd", exist_ok=True)  # where it wants to live
        self.log = open(f / "log", "wb")
        self.process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", f / "sshd_config"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.host, self.path = f"ssh://root@127.0.0.1:{self.port}", f"{f}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        wait_for_port(self.port, self.process)

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_for_port(port, process):
    until = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        assert process.poll() is None and time.monotonic() < until, f"nothing listens on port {port}"
        time.sleep(0.05)


class FarPodman:
    """podman's service, in the same way."""

    def __init__(self, user=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-podman.", dir=FarDocker.PLACE))
        self.host = f"unix://{self.folder}/podman.sock"
        hide = "".join(f"[ ! -d '{d}' ] || mount -t tmpfs -o mode=1777 tmpfs '{d}'; " for d in sorted(FarDocker.HIDDEN))
        self.log = open(self.folder / "log", "wb")
        self.user, become, env = user, [], dict(os.environ)
        if user:  # without root: its own storage, and ids of /etc/subuid
            self.folder.chmod(0o755)
            shutil.chown(self.folder, user, user)
            become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
            env = {"PATH": env["PATH"], "HOME": str(self.folder), "XDG_RUNTIME_DIR": str(self.folder), "TMPDIR": str(self.folder)}
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", hide + 'exec "$@"', "sh", *become, "podman", "--root", self.folder / "data", "--runroot",
             self.folder / "run", "--runtime", "runc", "--cgroup-manager", "cgroupfs", "system", "service", "--time", "0", self.host],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True, cwd="/", env=env)
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
        pause = self.folder / "libpod/tmp/pause.pid"
        if pause.exists():  # it holds the user namespace of a podman without root
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pause.read_text()), signal.SIGKILL)
        self.log.close()
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", line.split()[4]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
