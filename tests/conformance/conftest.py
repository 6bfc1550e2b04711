# SPDX-License-Identifier: Apache-2.0
"""The same behaviour behind every engine.

    def test_something(box):              runs for each engine, as root and as an ordinary user
        r = box.run("id", "-u")           bawn run, with that engine
        assert r.rc == 0, r

box.name      the engine; box.runner: who runs it; box.workspace
box.bawn(*args), box.run(*command, options=[])
box.containers()   ids that the engine has left; [] for native
box.need("pids")   skips the case where the engine does not enforce that (`bawn engines`)

"docker-bytes" is docker as if its daemon were on another kernel: a sample of the cases (BAWN_ALL=1: all).
"gvisor-image" is gVisor with an image: a sample.
"docker-far" is a daemon that has none of this machine's files, reached as ssh://: a sample of the cases.
"""

import os
import pathlib
import subprocess
import sys
import zlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "network")]
from daemons import Docker, FarDocker  # noqa: E402
from engine_box import Box  # noqa: E402
from host_image import NAME, HostImages, paths  # noqa: E402
from inside_container import contained, inner_engine  # noqa: E402, F401
from network_fixtures import inter_net  # noqa: E402, F401

TEST_USER = os.environ.get("BAWN_TEST_USER", "bawn-test")
ENGINES = ["native", "docker", "podman", "gvisor", "docker-bytes", "docker-far", "image", "gvisor-image"]


@pytest.fixture(scope="session")
def docker():
    d = Docker(TEST_USER)
    yield d
    d.end()


@pytest.fixture(scope="session")
def far_docker():
    d = FarDocker(TEST_USER)
    yield d
    d.end()


@pytest.fixture
def far_box(far_docker, runner):
    """With an image of this machine's programs, which the first case sends there."""
    box = Box("docker", runner, {"DOCKER_HOST": "ssh://far.test", "PATH": far_docker.path}, far_docker.running)
    box.remote = True
    if far_docker.call("image", "inspect", "localhost/bawn/host:latest").returncode:
        r = runner.bawn("image", "from-host", "--to", "docker", *paths())
        assert r.rc == 0, r
    return box


@pytest.fixture(scope="session")
def host_images():
    images = HostImages()
    yield images
    images.end()


def podman_box(runner):
    runtime = runner.mkdir(runner.top / "runtime", 0o700)
    env = {"XDG_RUNTIME_DIR": str(runtime), "SANDBOX_FLAGS": "--runtime=runc"}

    def containers():
        return runner.run("podman", "ps", "--all", "--quiet").out.split()

    return Box("podman", runner, env, containers)


@pytest.fixture(params=ENGINES)
def box(request, runner):
    if request.param in ("docker", "docker-bytes"):  # the second as if the daemon were on another machine's kernel
        d = request.getfixturevalue("docker")
        link = {} if request.param == "docker" else {"BAWN_TEST_LINK": "bytes"}
        yield Box("docker", runner, {"DOCKER_HOST": d.host, **link}, d.containers)
    elif request.param == "podman":
        b = podman_box(runner)
        yield b
        if not runner.is_root:  # what rootless storage belongs to the ids of /etc/subuid
            runner.run("podman", "unshare", "rm", "-rf", runner.home / ".local/share/containers")
            stop_pause(runner)
    elif request.param == "docker-far":
        yield request.getfixturevalue("far_box")
    elif request.param in ("image", "gvisor-image"):  # on native or gVisor, the programs of an image
        request.getfixturevalue("host_images").give(runner)
        b = Box("native" if request.param == "image" else "gvisor", runner, {"BAWN_SANDBOX_IMAGE": NAME}, list)
        b.image = request.param == "image"
        yield b
    else:  # without a daemon: what is left is a process
        yield Box(request.param, runner, {}, list)


def stop_pause(runner):
    """podman without root leaves a process that holds its user namespace."""
    path = runner.top / "runtime/libpod/tmp/pause.pid"
    if path.exists():
        subprocess.run(["kill", path.read_text().strip()], check=False)


BYTES = {"test_status_and_streams", "test_a_terminal", "test_read_only", "test_a_persistent_sandbox", "test_it_ends_with_its_supervisor", "test_memory_limit_is_named",
         "test_limits_that_are_said_to_be_enforced_are", "test_nothing_of_the_engine_is_inside", "test_pid_1_cannot_be_looked_into_or_signalled",
         "test_a_credential_is_put_in_outside", "test_the_kernel_is_another_one", "test_the_case_fails_where_the_engine_says_no"}


GVISOR_IMAGE = {"test_status_and_streams", "test_what_is_written_belongs_to_the_owner_of_the_workspace", "test_the_command_is_not_root_and_has_a_name",
                "test_a_persistent_sandbox", "test_nothing_is_left_after_a_run", "test_the_kernel_is_another_one", "test_files_of_the_host_are_not_there",
                "test_a_credential_is_put_in_outside"}
FAR = {"test_status_and_streams", "test_a_terminal", "test_read_only", "test_a_persistent_sandbox", "test_it_ends_with_its_supervisor",
       "test_what_is_written_belongs_to_the_owner_of_the_workspace", "test_overlay_holds_everything_until_it_is_applied", "test_a_credential_is_put_in_outside",
       "test_pid_1_cannot_be_looked_into_or_signalled", "test_hidden_files_are_not_there", "test_every_port_leads_to_the_gate", "test_time_limit",
       "test_limits_that_are_said_to_be_enforced_are", "test_cpu_limit", "test_the_case_fails_where_the_engine_says_no"}


def is_left_out(item):
    """Over bytes a sample; and of the slow gVisor each case as one of the two users, chosen by name."""
    if item.path.parent == HERE and "docker-far" in item.name and item.originalname not in FAR:
        return True
    if item.path.parent == HERE and "gvisor-image" in item.name and item.originalname not in GVISOR_IMAGE:
        return True
    if item.path.parent != HERE or os.environ.get("BAWN_ALL"):
        return False
    if "docker-bytes" in item.name and item.originalname not in BYTES:
        return True
    slow = any(f"{name}]" in item.name or f"{name}-" in item.name or f"-{name}" in item.name for name in ("gvisor", "docker-bytes", "docker-far", "image"))
    return slow and f"{'root' if zlib.crc32(item.originalname.encode()) % 2 else 'user'}" not in item.name


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(config, items):
    """One worker has one daemon."""
    out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if not is_left_out(item)]
    config.hook.pytest_deselected(items=out)
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group("docker" if "docker" in item.name or item.path.name == "test_far.py" else "engines"))
