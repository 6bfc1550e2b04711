# SPDX-License-Identifier: Apache-2.0
"""docker and podman only: what the container is made of, what may be added to it, and what happens when the engine is in trouble."""

import json
import os
import signal
import subprocess
import time

import pytest


@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_the_container_is_closed(box, docker):
    """Claim: a container of ours has no network, no capability beyond what bawn-enter drops, a read-only root, and cannot gain privileges."""
    p = box.runner.popen(box.runner.path, "run", "--", "sh", "-c", "echo up; read x", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    (name,) = docker.containers()
    about = json.loads(docker.call("inspect", name).stdout)[0]
    p.communicate(b"\n")
    host = about["HostConfig"]
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and not host["Privileged"] and host["CapDrop"] == ["ALL"]
    assert {c.removeprefix("CAP_") for c in host["CapAdd"]} == {"CHOWN", "NET_ADMIN", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID"}
    assert "no-new-privileges" in json.dumps(host["SecurityOpt"]) and "unconfined" not in json.dumps(host["SecurityOpt"])
    assert host["Memory"] == 4 << 30 and host["PidsLimit"] == 257 and host["NanoCpus"] == 2 * 10**9
    assert not any("docker.sock" in m["Source"] for m in about["Mounts"])
    written = {m["Destination"] for m in about["Mounts"] if m["RW"] and m["Type"] == "bind"}
    assert str(box.workspace) in written
    assert all(d.startswith(str(box.workspace)) or d.endswith("/.cache") for d in written), written


LOOSENING = ["--privileged", "--network host", "--network=host", "--net=host", "--cap-add SYS_ADMIN", "--pid host", "--ipc=host", "--userns host", "-u 0",
             "--device /dev/kvm", "-v /:/host", "--volume=/var/run/docker.sock:/var/run/docker.sock", "--mount type=bind,source=/,target=/host",
             "--volumes-from other", "--security-opt seccomp=unconfined", "-p 80:80", "-e A=b", "--cpus 1 --privileged", "'--privileged'", "--privilege\\d",
             "--unheard-of", "--annotation run.oci.seccomp_bpf_data=BgAAAAAA/38=", "--label bawn.owner=1-2", "--label --name other", "--oom-score-adj=-1000"]


@pytest.mark.parametrize("box", ["docker"], indirect=True)
@pytest.mark.parametrize("flags", LOOSENING)
def test_flags_that_loosen_are_refused(box, flags):
    """Claim: SANDBOX_FLAGS cannot take the wall away."""
    r = box.run("true", env={"SANDBOX_FLAGS": flags})
    assert r.rc == 125 and b"SANDBOX_FLAGS" in r.err, r
    assert not box.containers()


@pytest.mark.parametrize("box", ["podman"], indirect=True)
def test_a_runtime_of_the_workspace_is_not_run(box):
    """Claim: SANDBOX_FLAGS does not have the engine execute a program of the workspace's, by whatever way to it. From elsewhere it is."""
    script = f"#!/bin/sh\ntouch {box.runner.home}/ran-$(basename $0)\nexec runc \"$@\"\n"
    inside, outside = box.runner.write("bin/inside", script, 0o755), box.runner.write(box.runner.home / "outside", script, 0o755)
    link = box.runner.home / "link"
    link.symlink_to(inside)
    for path in (inside, link, f"{box.workspace}/../{box.workspace.name}/bin/inside"):
        r = box.run("true", env={"SANDBOX_FLAGS": f"--runtime={path}"})
        assert r.rc == 125 and b"of the workspace" in r.err, r
    assert not list(box.runner.home.glob("ran-*"))
    assert box.run("true", env={"SANDBOX_FLAGS": f"--runtime={outside}"}).rc == 0 and (box.runner.home / "ran-outside").exists()


@pytest.mark.parametrize("box", ["docker-bytes"], indirect=True)
def test_limits_of_the_users_flags_are_not_taken_for_ours(box):
    """Claim: where control groups are not seen, a limit that SANDBOX_FLAGS undoes is kept in another way."""
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 1 & done; wait; echo all"
    r = box.run("sh", "-c", script, options=["--pids", "10"], env={"SANDBOX_FLAGS": "--pids-limit=-1"})
    assert b"all" not in r.out, r


@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_harmless_flags_are_passed_on(box):
    r = box.run("sh", "-c", "echo ran", env={"SANDBOX_FLAGS": "--ulimit nofile=512:512 --label 'a=b c'"})
    assert r.rc == 0 and r.out == b"ran\n", r


@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_the_users_own_configuration_allows_a_flag(box):
    config = box.runner.home / ".config/bawn/config.json"
    box.runner.write(config, json.dumps({"sandbox": {"engine_flags": ["--tmpfs"]}}))
    flags = {"SANDBOX_FLAGS": "--tmpfs /scratch:rw"}
    assert box.run("test", "-d", "/scratch", env=flags).rc == 0
    config.unlink()
    box.runner.write(".bawn/config.json", json.dumps({"sandbox": {"engine_flags": ["--tmpfs"]}}))
    assert box.run("true", env=flags).rc == 125, "the project does not decide it"


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_an_open_quote(box):
    r = box.run("true", env={"SANDBOX_FLAGS": "--label 'a"})
    assert r.rc == 125 and b"quote" in r.err, r


@pytest.mark.parametrize("box", ["docker"], indirect=True)
@pytest.mark.parametrize("how", ["host", "variable", "context"])
def test_an_engine_of_another_machine_that_does_not_answer(box, how):
    """Claim: the daemon that variables and contexts name is used, and no other one in its place."""
    far = "tcp://127.0.0.1:1"
    env = {"DOCKER_HOST": ""}
    if how == "host":
        env["DOCKER_HOST"] = far
    else:
        assert box.runner.run("docker", "context", "create", "away", "--docker", f"host={far}", env=box.runner.environ(env)).rc == 0
    if how == "variable":
        env["DOCKER_CONTEXT"] = "away"
    elif how == "context":
        assert box.runner.run("docker", "context", "use", "away", env=box.runner.environ(env)).rc == 0
    r = box.run("true", env=env)
    assert r.rc == 125 and b"engine docker" in r.err and b"127.0.0.1:1" in r.err and b"--engine native" in r.err, r
    (engine,) = (e for e in box.bawn("engines", "--json", env=env).json()["engines"] if e["name"] == "docker")
    assert not engine["rungs"][0]["available"] and "127.0.0.1:1" in engine["rungs"][0]["why"]
    assert not box.containers()


@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_no_daemon(box):
    r = box.run("true", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert r.rc == 125 and b"daemon does not run" in r.err and b"--engine native" in r.err, r
    assert not [p for p in box.runner.top.rglob("box-*") if p.is_dir()]


@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_no_permission(box, docker):
    if box.runner.is_root:
        pytest.skip("needs root")  # who may always
    sock = docker.folder / "docker.sock"
    os.chmod(sock, 0o600)
    try:
        r = box.run("true")
    finally:
        os.chmod(sock, 0o660)
    assert r.rc == 125 and b"may not talk to the daemon" in r.err and b"group docker" in r.err, r


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_no_program(box):
    r = box.run("true", env={"PATH": "/usr/sbin"})
    assert r.rc == 125 and f"no program '{box.name}'".encode() in r.err, r


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_a_program_of_the_workspace_is_not_run(box):
    """Claim: the engine's program is not found in the workspace."""
    box.runner.write(f"bin/{box.name}", "#!/bin/sh\ntouch /tmp/bawn-ran-$$ && echo RAN >&2\n", 0o755)
    r = box.run("true", env={"PATH": f"{box.workspace}/bin:bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    assert r.rc == 0 and b"RAN" not in r.err, r


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_no_such_image(box):
    r = box.run("true", options=["--image", "bawn.invalid/none:1"])
    assert r.rc == 125 and b"image is not there" in r.err, r


@pytest.fixture
def small_image(box, tmp_path):
    """An image of the engine's own with busybox, a variable, a folder and a command."""
    tmp_path.chmod(0o755)  # becomes the root of the image
    (tmp_path / "bin").mkdir()
    subprocess.run(["cp", "/bin/busybox", tmp_path / "bin"], check=True)
    for name in ("sh", "id", "env", "pwd", "ls", "cat"):
        (tmp_path / "bin" / name).symlink_to("busybox")
    tar = subprocess.run(["tar", "-C", tmp_path, "--owner=0", "--group=0", "-c", "."], stdout=subprocess.PIPE, check=True).stdout
    options = [word for o in ("ENV PATH=/bin", "ENV FOO=of-the-image", 'CMD ["sh", "-c", "echo its own; pwd"]', "WORKDIR /tmp") for word in ("-c", o)]
    r = box.runner.run(box.name, "import", *options, "-", "bawn-test-small:1", input=tar)
    assert r.rc == 0, r
    return "bawn-test-small:1"


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_an_image_of_the_engine(box, small_image):
    box.runner.write("file", "text\n")
    r = box.run("sh", "-c", "echo $PATH $FOO; cat file; ls /usr/bin", options=["--image", small_image])
    assert r.rc and r.out, r
    assert r.out.decode().splitlines()[0].split() == ["/bin", "of-the-image"] and b"text\n" in r.out, r
    assert b"No such file" in r.err, "nothing of the host's system is in there"
    r = box.bawn("run", "--image", small_image)
    assert (r.rc, r.out) == (0, b"its own\n/tmp\n"), r


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_a_long_name_of_an_image_is_not_cut(box, small_image):
    name = "example.com/" + "n" * 200 + ":" + "t" * 128
    assert box.runner.run(box.name, "tag", small_image, name).rc == 0
    r = box.run("sh", "-c", "echo $FOO", options=["--image", name])
    assert (r.rc, r.out) == (0, b"of-the-image\n"), r


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_volumes_are_shared_with_native(box):
    """Root's containers have an id of their own, whom volumes belong to while one runs."""
    box.runner.write(box.runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"workspace": {"volumes": ["deps"]}}}))
    r = box.run("sh", "-c", "mkdir deps/of-it && echo 1 > deps/of-it/file")
    assert r.rc == 0, r
    r = box.bawn("run", "--engine", "native", "--", "sh", "-c", "cat deps/of-it/file && echo 2 >> deps/of-it/file", env={"SANDBOX_FLAGS": None})
    assert (r.rc, r.out) == (0, b"1\n"), r
    r = box.run("sh", "-c", "cat deps/of-it/file; rm -r deps/of-it")
    assert (r.rc, r.out) == (0, b"1\n2\n"), r
