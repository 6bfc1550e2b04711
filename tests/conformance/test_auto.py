# SPDX-License-Identifier: Apache-2.0
"""auto: native first. Where that is only the weaker rung and a container engine enforces more, the user hears of it."""

import pathlib
import shutil
import subprocess
import tempfile

import pytest

DEGRADED = pathlib.Path(__file__).resolve().parent.parent / "degraded"


@pytest.fixture(scope="module")
def deny():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-deny.", dir="/var/tmp"))
    top.chmod(0o755)
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-I", DEGRADED.parent.parent / "src", "-o", top / "deny", DEGRADED / "deny.c", "-lseccomp"], check=True)
    yield top / "deny"
    shutil.rmtree(top)


NOTICE = b"docker is available and enforces more here: use --engine docker"


def run(box, deny, *args, **kw):
    return box.runner.run(deny, "userns", "--", box.runner.path, *args, **kw)


@pytest.mark.parametrize("runner", ["user"], indirect=True)  # root has no such rung
@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_a_weaker_rung_recommends_docker(box, deny):
    command = ["run", "--engine", "auto", "--network", "none", "--", "true"]
    r = run(box, deny, *command)
    assert r.rc == 0 and b"weaker sandbox" in r.err and r.err.count(NOTICE) == 1, r
    r = run(box, deny, *command)
    assert r.rc == 0 and b"weaker sandbox" in r.err and NOTICE not in r.err, "once a day"
    r = run(box, deny, "doctor", "--fix")
    assert b"bawn run --engine docker -- COMMAND" in r.out, r
    assert run(box, deny, "run", "--engine", "docker", "--", "true").rc == 0, "what is recommended works"
    assert b"--engine docker" not in box.bawn("doctor", "--fix").out, "not where native is whole"


@pytest.mark.parametrize("runner", ["user"], indirect=True)  # root has no such rung
@pytest.mark.parametrize("box", ["docker"], indirect=True)
def test_no_recommendation_without_a_daemon(box, deny):
    env = {"DOCKER_HOST": "unix:///nowhere/docker.sock", "PATH": "/usr/local/bin:/bin" if not pathlib.Path("/bin/podman").exists() else "/usr/local/bin"}
    r = run(box, deny, "run", "--engine", "auto", "--network", "none", "--", "/bin/true", env=env)
    assert r.rc == 0 and b"weaker sandbox" in r.err and b"enforces more here" not in r.err, r
