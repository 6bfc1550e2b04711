# SPDX-License-Identifier: Apache-2.0
"""What goes wrong with a container engine, the real one: each trouble is named with its remedy, nothing is left, and the next run works."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from daemons import Docker

docker_only = pytest.mark.parametrize("box", ["docker"], indirect=True)
both = pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)


def folders(box):
    """Others make and remove folders meanwhile, which os.walk() does not mind."""
    return [pathlib.Path(at, name) for at, names, _ in os.walk(box.runner.top) for name in names if name.startswith("box-")]


@contextlib.contextmanager
def hanging(docker):
    os.kill(docker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(docker.process.pid, signal.SIGCONT)


def limit_start(box, duration):
    box.runner.write(box.runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"start_timeout": duration}}))


def assert_next_run_cleans(box):
    r = box.run("true")
    assert r.rc == 0, r
    assert not box.containers() and not folders(box)


@docker_only
def test_a_start_that_takes_too_long_is_given_up(box, docker):
    assert box.run("true").rc == 0
    limit_start(box, "1s")
    with hanging(docker):
        r = box.run("true")
        assert r.rc == 125 and b"did not start within 1 s" in r.err and b"docker info" in r.err and b"start_timeout" in r.err, r
        (row,) = [e for e in box.bawn("engines", "--json").json()["engines"] if e["name"] == "docker"]
        assert not row["rungs"][0]["available"] and "does not answer" in row["rungs"][0]["why"], row
    limit_start(box, "2m")
    assert_next_run_cleans(box)


@docker_only
def test_an_interrupt_ends_the_wait(box, docker):
    with hanging(docker):
        p = box.runner.popen(box.runner.path, "run", "--", "true", stderr=subprocess.PIPE)
        while not folders(box):
            time.sleep(0.02)
        time.sleep(0.3)
        p.send_signal(signal.SIGINT)
        err = p.communicate()[1]
    assert p.returncode == 125 and b"interrupted while the container was started" in err, err
    assert_next_run_cleans(box)


@docker_only
@pytest.mark.parametrize(("version", "words"), [("1.10", b"requires API version"), ("1.99", b"too new")])
def test_versions_that_do_not_understand_each_other(box, version, words):
    r = box.run("true", env={"DOCKER_API_VERSION": version})
    assert r.rc == 125 and words in r.err and b"update the older one" in r.err, r
    assert not folders(box)


class SmallDocker(Docker):
    """Its data folder is a few megabytes."""

    def start(self):
        data = self.folder / "data"
        if not data.exists():
            data.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", data], check=True)
        super().start()


@docker_only
def test_no_space_for_containers(box):
    d = SmallDocker(box.runner.user.pw_name)
    try:
        env = {"DOCKER_HOST": d.host}
        assert box.run("true", env=env).rc == 0
        with contextlib.suppress(OSError), open(d.folder / "data/fill", "wb", buffering=0) as f:
            while True:
                f.write(b"x" * 4096)
        r = box.run("true", env=env)
        assert r.rc == 125 and b"no space left for containers" in r.err and b"system prune" in r.err, r
        (d.folder / "data/fill").unlink()
        assert box.run("true", env=env).rc == 0
        assert not d.containers() and not folders(box)
    finally:
        d.end()


@pytest.mark.parametrize("box", ["podman"], indirect=True)
def test_no_service_of_podman(box):
    r = box.run("true", env={"CONTAINER_HOST": "unix:///nowhere/podman.sock", "SANDBOX_FLAGS": ""})
    assert r.rc == 125 and b"podman's service does not answer" in r.err and b"podman info" in r.err, r


@docker_only
def test_the_daemon_is_killed_while_a_command_runs(box, docker):
    """The command goes on: its descriptors are ours. What is left of the container is removed by the next run once there is a daemon again."""
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "echo up; read x; echo $x > made; exit 7", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    docker.stop(signal.SIGKILL)
    err = p.communicate(b"text\n")[1]
    docker.start()
    assert p.returncode == 7 and (box.workspace / "made").read_text() == "text\n", err
    assert b"the next run with it removes what is left" in err, err
    assert_next_run_cleans(box)


@docker_only
def test_the_daemon_is_started_anew_while_a_command_runs(box, docker):
    """It ends the container: the run says so."""
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "echo up; sleep 600", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    docker.stop(signal.SIGTERM)
    err = p.communicate()[1]
    docker.start()
    # Whether the engine's program says something first is its own affair.
    assert p.returncode == 128 + signal.SIGKILL and (b"engine docker ended the container" in err or b"check 'docker info'" in err), err
    assert_next_run_cleans(box)


def start_time(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
        return f.read().rpartition(")")[2].split()[19]


@both
def test_a_container_of_a_killed_run_is_removed_by_the_next_one(box):
    """Even if the engine did not see that the run is over; not those of others."""
    assert box.run("true").rc == 0

    def create(*options):
        image = box.runner.run(box.name, "images", "--quiet", "bawn-root").out.split()[0].decode()
        r = box.runner.run(box.name, "create", *options, "--entrypoint", "/nothing", image)
        assert r.rc == 0, r
        return r.out.strip().decode()

    dead = subprocess.Popen(["true"])
    dead.wait()
    create("--label", f"bawn.owner={dead.pid}-1")
    others = [create("--label", f"bawn.owner={os.getpid()}-{start_time(os.getpid())}"), create()]
    runtime = box.runner.top / "runtime/bawn" if box.name == "podman" else box.runner.home / ".local/state/bawn/run"
    box.runner.mkdir(runtime / f"box-{dead.pid}-1.{box.name}")
    try:
        assert box.run("true").rc == 0
        left = box.runner.run(box.name, "ps", "--all", "--quiet", "--no-trunc").out.decode().split()
        assert sorted(left) == sorted(others)
        assert not folders(box)
    finally:
        box.runner.run(box.name, "rm", "--force", *others)


def monitors(box):
    """podman's, of this user's containers: one that was killed while it made a container can leave a monitor and a process that its `rm` does not find."""
    store = box.runner.run("podman", "info", "--format", "{{.Store.GraphRoot}}").out.strip().decode()
    return subprocess.run(["pgrep", "-f", f"^[^ ]*conmon .*{re.escape(store)}/"], stdout=subprocess.PIPE).stdout.split() if box.name == "podman" else []


@both
def test_killed_again_and_again(box):
    """kill -9 at any moment of a run: no container, folder or process is left once the next run is over."""
    mark, before = f"47.{os.getpid()}", monitors(box)
    for i in range(200 if os.environ.get("BAWN_ALL") else 30 if box.name == "docker" else 8):
        p = box.runner.popen(box.runner.path, "run", "--", "sleep", mark, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.017 * (i % 25))
        p.kill()
        p.wait()
    r = box.run("true")
    assert r.rc == 0, r
    while box.containers():  # the engine removes what has ended by itself
        time.sleep(0.2)
    assert not folders(box)
    assert subprocess.run(["pgrep", "-f", f"sleep {mark}$"], stdout=subprocess.DEVNULL).returncode == 1
    while set(monitors(box)) - set(before):  # they end a little later; the watchdog names one that stays
        time.sleep(0.2)
