# SPDX-License-Identifier: Apache-2.0
"""A daemon on another machine: it has none of our files, so all that a sandbox is made of is sent there, and what it changed comes back."""

import json
import os
import socket
import subprocess

import pytest

from daemons import FarPodman, SshServer, wait_for_port
from engine_box import Box

TEST_USER = os.environ.get("BAWN_TEST_USER", "bawn-test")


def nothing_is_left(box, far_docker):
    assert far_docker.containers() == [] and far_docker.volumes() == []
    assert not [p for p in box.runner.top.rglob("box-*") if p.is_dir()]
    assert not list(box.runner.top.rglob("*.far"))


def test_it_does_not_have_our_files(far_box, far_docker):
    """The daemon of these tests is one that a mount of ours cannot work with."""
    r = far_docker.call("run", "--rm", "--mount", f"type=bind,source={far_box.workspace},target=/x", "localhost/bawn/host:latest", "true")
    assert r.returncode == 125 and b"bind source path does not exist" in r.stderr, r


@pytest.mark.parametrize("how", ["ssh", "context", "variable"])
def test_the_workspace_goes_there_and_back(far_box, far_docker, how):
    box, env = far_box, {}
    if how != "ssh":  # a socket of this machine that leads to another one, as Docker Desktop's does
        env["DOCKER_HOST"] = ""
        assert box.runner.run("docker", "context", "create", "away", "--docker", f"host={far_docker.host}", env=box.runner.environ(env)).rc == 0
    if how == "context":
        assert box.runner.run("docker", "context", "use", "away", env=box.runner.environ(env)).rc == 0
    elif how == "variable":
        env["DOCKER_CONTEXT"] = "away"
    box.runner.write("old", "1\n")
    box.runner.write("goes", "1\n")
    box.runner.write("deep/er/same", "same\n")
    script = "cat old deep/er/same /workspace/old && echo 2 > old && rm goes && mkdir new && echo x > new/file && chmod 750 new/file && ln -s ../old new/link"
    r = box.run("sh", "-c", script, env=env)
    assert (r.rc, r.out) == (0, b"1\nsame\n1\n") and b"another machine" in r.err, r
    w = box.workspace
    assert (w / "old").read_text() == "2\n" and not (w / "goes").exists() and (w / "deep/er/same").read_text() == "same\n", r
    st = (w / "new/file").stat()
    assert (st.st_uid, st.st_mode & 0o777) == (box.runner.user.pw_uid, 0o750) and os.readlink(w / "new/link") == "../old"
    nothing_is_left(box, far_docker)


def test_what_it_enforces_is_said(far_box):
    (engine,) = (e for e in far_box.bawn("engines", "--json").json()["engines"] if e["name"] == "docker")
    (rung,) = engine["rungs"]
    assert rung["available"] and rung["lacks"] == ["disk", "kernel"] and "another machine (ssh://far.test)" in rung["why"], rung


def test_a_disk_limit_is_refused(far_box, far_docker):
    r = far_box.run("true", options=["--disk", "1g"])
    assert r.rc == 125 and b"disk limit" in r.err and b"engine docker" in r.err and b"unlimited" in r.err, r
    assert far_box.run("true", options=["--disk", "unlimited"]).rc == 0
    nothing_is_left(far_box, far_docker)


def test_mounts_are_copies_or_refused(far_box, far_docker):
    """Claim: a folder that is to be written to is not shown as a copy that nobody sees."""
    folder = far_box.runner.mkdir(far_box.runner.top / "extra")
    far_box.runner.write(folder / "file", "of the host\n")
    r = far_box.run("sh", "-c", f"cat {folder}/file; echo x > {folder}/file", options=["--mount", str(folder)])
    assert r.rc != 0 and r.out == b"of the host\n" and (folder / "file").read_text() == "of the host\n", r
    r = far_box.run("true", options=["--mount", f"{folder}:rw"])
    assert r.rc == 125 and b"cannot be shared for writing" in r.err, r
    nothing_is_left(far_box, far_docker)


def test_no_image(far_box, far_docker):
    far_docker.call("tag", "localhost/bawn/host:latest", "saved:1", check=True)
    far_docker.call("rmi", "localhost/bawn/host:latest", check=True)
    try:
        r = far_box.run("true")
    finally:
        far_docker.call("tag", "saved:1", "localhost/bawn/host:latest", check=True)
        far_docker.call("rmi", "saved:1", check=True)
    assert r.rc == 125 and b"bawn image from-host --to docker" in r.err and b"--image" in r.err, r
    nothing_is_left(far_box, far_docker)


def test_the_root_cannot_be_changed(far_box):
    """Claim: what comes through the container's input belongs to root, and the command is not root."""
    r = far_box.run("sh", "-c", "for f in /etc/passwd /etc/resolv.conf /run/bawn-link/bawn-init /run/bawn/gitconfig; do test ! -w $f || echo $f; done; echo x > /x; id -u")
    assert r.out.strip().isdigit() and r.out.strip() != b"0", r


def test_a_cut_connection_changes_nothing(far_box, far_docker):
    """Claim: a workspace that did not come back whole is not taken for one whose files were deleted."""
    box = far_box
    box.runner.write("old", "1\n")
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "rm old; echo up; read x", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    (far_docker.folder / "bin/ssh").rename(far_docker.folder / "bin/ssh.away")
    try:
        _, said = p.communicate(b"\n")
    finally:
        (far_docker.folder / "bin/ssh.away").rename(far_docker.folder / "bin/ssh")
    assert b"could not be brought back" in said and (box.workspace / "old").read_text() == "1\n", said
    assert box.run("true").rc == 0  # which removes what was left
    nothing_is_left(box, far_docker)


def test_containers_of_other_machines_are_left_alone(far_box, far_docker):
    """Claim: of what is on an engine that several machines use, only what this one left is removed."""
    label = "bawn.owner=999999-1-0123456789ab"
    theirs = far_docker.call("create", "--label", label, "localhost/bawn/host:latest", "true", check=True).stdout.decode().strip()
    try:
        box = far_box
        p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "echo up; sleep 1000", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert p.stdout.readline() == b"up\n"
        p.kill()
        p.wait()
        assert box.run("true").rc == 0
        assert [c.decode() for c in far_docker.containers()] == [theirs[:12]]
    finally:
        far_docker.call("rm", "--force", theirs)
    nothing_is_left(far_box, far_docker)


def test_a_persistent_sandbox_comes_back_at_its_stop(far_box, far_docker):
    box = far_box
    assert box.bawn("start", "far").rc == 0
    try:
        assert box.bawn("exec", "far", "--", "sh", "-c", "echo 1 > made; echo 2 > ~/mine").rc == 0
        assert json.loads(box.bawn("inspect", "far", "--json").out)["engine"] == "docker"
        assert box.bawn("stop", "far").rc == 0
        assert (box.workspace / "made").read_text() == "1\n"
        assert far_docker.containers() == []
    finally:
        box.bawn("rm", "-f", "far")
    nothing_is_left(box, far_docker)


@pytest.fixture
def sshd(far_docker):
    s = SshServer(far_docker)
    yield s
    s.end()


@pytest.fixture
def tcp(far_docker):
    """The daemon's socket as a port of loopback."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    path = far_docker.host.removeprefix("unix://")
    p = subprocess.Popen(["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr", f"UNIX-CONNECT:{path}"])
    wait_for_port(port, p)
    yield f"tcp://127.0.0.1:{port}"
    p.terminate()
    p.wait()


@pytest.mark.parametrize("how", ["ssh", "tcp"])
def test_by_a_real_ssh_server_and_by_tcp(far_box, far_docker, how, request):
    """The way to the daemon is a real one: ssh to an sshd on loopback, or a port."""
    server = request.getfixturevalue("sshd" if how == "ssh" else "tcp")
    env = {"DOCKER_HOST": server.host, "PATH": server.path} if how == "ssh" else {"DOCKER_HOST": server, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    far_box.runner.write("old", "1\n")
    r = far_box.run("sh", "-c", "cat; cat old; echo 2 > old; exit 3", input=b"typed\n", env=env)
    assert (r.rc, r.out) == (3, b"typed\n1\n") and b"another machine" in r.err, r
    assert (far_box.workspace / "old").read_text() == "2\n"
    nothing_is_left(far_box, far_docker)


@pytest.fixture(params=["own", "rootless"])
def far_podman(request, runner):
    """Of the same user as the one who runs Bawn; and for root one of another user's, which has not the ids that root's runs have here."""
    if request.param == "rootless" and not runner.is_root:
        pytest.skip("needs root")
    p = FarPodman(None if request.param == "own" and runner.is_root else TEST_USER)
    yield p
    p.end()


def test_podmans_service_on_another_machine(far_podman, runner, tmp_path):
    """An image of busybox; this machine may not give its containers more descriptors than it has."""
    (tmp_path / "bin").mkdir()
    subprocess.run(["cp", "/bin/busybox", tmp_path / "bin"], check=True)
    for name in ("sh", "cat", "rm"):
        (tmp_path / "bin" / name).symlink_to("busybox")
    tar = subprocess.run(["tar", "-C", tmp_path, "--owner=0", "--group=0", "-c", "bin"], stdout=subprocess.PIPE, check=True).stdout
    assert far_podman.call("import", "-c", "ENV PATH=/bin", "-", "far-small:1", input=tar).returncode == 0
    env = {"CONTAINER_HOST": far_podman.host, "SANDBOX_FLAGS": "--ulimit nofile=1024:1024 --ulimit nproc=1000:1000"}
    box = Box("podman", runner, env, list)
    runner.write("old", "1\n")
    r = box.run("sh", "-c", "cat old && echo 2 > old && echo 3 > new && busybox id -un", options=["--image", "far-small:1"])
    assert (r.rc, r.out) == (0, b"1\n" + (b"bawn" if runner.is_root else TEST_USER.encode()) + b"\n") and b"another machine" in r.err, r
    assert (box.workspace / "old").read_text() == "2\n"
    assert (box.workspace / "new").stat().st_uid == box.workspace.stat().st_uid
    assert far_podman.call("ps", "--all", "--quiet").stdout == b"" and far_podman.call("volume", "ls", "--quiet").stdout == b""
    (engine,) = (e for e in box.bawn("engines", "--json").json()["engines"] if e["name"] == "podman")
    assert "disk" in engine["rungs"][0]["lacks"]
