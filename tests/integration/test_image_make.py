# SPDX-License-Identifier: Apache-2.0
"""Images that are made here: of this machine's programs, and from recipes by Podman or Docker."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_from_host(runner):
    """Some paths of this machine, with which a sandbox then works; the whole of /usr is the same with more files."""
    libs = subprocess.run(["ldd", "/usr/bin/env"], capture_output=True, check=True, text=True).stdout.split()
    paths = ["/usr/bin/env", "/usr/bin/busybox", "/bin", "/lib64", "/etc/debian_version", *(w for w in libs if w.startswith("/"))]
    r = runner.bawn("image", "from-host", "-t", "t/host", *[p for p in paths if os.path.lexists(p)])
    assert r.rc == 0 and r.out == b"docker.io/t/host:latest\n", r
    r = runner.bawn("run", "--network", "none", "--image", "t/host", "--", "/usr/bin/busybox", "sh", "-c", "id -u; cat /etc/debian_version; ls /etc; ls /usr")
    assert r.rc == 0 and r.out.startswith(b"0\n" + pathlib.Path("/etc/debian_version").read_bytes()) and b"shadow" not in r.out and b"share" not in r.out, r
    for words in (["relative"], ["/"], ["/no/such/path"]):
        assert runner.bawn("image", "from-host", "-t", "t/host", *words).rc in (64, 125)
    assert imagekit.names(runner)[1]["pulls"] == 0


def engine(runner, name, archive=""):
    """Writes down how it was called; `save` gives an archive, `import` takes one."""
    runner.write(runner.top / "bin" / name, f"""#!/bin/sh
echo "{name} $*" >> {runner.top}/called
case $1 in
save) exec cat {archive};;
import) exec tar -t > {runner.top}/imported;;
esac
""", 0o755)
    runner.write(runner.top / "called", "")
    runner.write(runner.top / "imported", "")
    return {"PATH": f"{runner.top}/bin:/usr/bin:/bin"}


def test_from_host_to_an_engine(runner):
    env = engine(runner, "docker")
    r = runner.bawn("image", "from-host", "--to", "docker", "-t", "my/host:1", "/usr/bin/busybox", env=env)
    assert r.rc == 0 and r.out == b"my/host:1\n", r
    assert (runner.top / "called").read_text() == "docker import - my/host:1\n" and (runner.top / "imported").read_text() == "usr/bin/busybox\n"


def test_programs_of_the_folder_that_we_are_in_are_not_run(runner):
    """Claim: a program of the workspace is never taken for the engine's, nor for tar, whatever PATH says."""
    outside = engine(runner, "docker")["PATH"]
    for name in ("docker", "podman", "tar"):
        for folder in ("", "bin/"):
            runner.write(f"{folder}{name}", f"#!/bin/sh\ntouch {runner.home}/ran\nexit 1\n", 0o755)
    runner.write("own/Containerfile", "FROM scratch\n")
    for first in ("", ".", "bin", f"{runner.workspace}/bin"):
        env = {"PATH": f"{first}:{outside}"}
        assert runner.bawn("image", "from-host", "--to", "docker", "-t", "my/host:1", "/usr/bin/busybox", env=env).rc == 0
        runner.bawn("image", "pull", "docker:x/y", env=env)
        runner.bawn("image", "build", "--with", "docker", "-t", "own/it:1", "./own", env=env)
        called = (runner.top / "called").read_text()
        assert not (runner.home / "ran").exists() and all(f"docker {verb} " in called for verb in ("import", "save", "build")), (first, called)
        runner.write(runner.top / "called", "")


def test_build(runner):
    """A recipe of Bawn's, and a folder; the engine's result is in the store."""
    layout = imagekit.make_image(runner, "t/seed", config={"Cmd": ["/bin/id"]})
    subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", f"oci:{layout}:latest", f"docker-archive:{runner.top}/a.tar:x/y:1"], check=True, capture_output=True)
    runner.own(runner.top / "a.tar")
    env = engine(runner, "podman", f"{runner.top}/a.tar")
    r = runner.bawn("image", "build", "python", env=env)
    assert r.rc == 0 and r.out == b"localhost/bawn/python:latest\n", r
    called = (runner.top / "called").read_text().splitlines()
    assert called[0].startswith("podman build -t localhost/bawn/python:latest -f ") and called[0].endswith("/images/python"), called
    assert called[1] == "podman save localhost/bawn/python:latest"
    runner.write("own/Containerfile", "FROM scratch\n")
    assert runner.bawn("image", "build", "-t", "own/it:1", "./own", env=env).out == b"docker.io/own/it:1\n"
    for words, says in ((["nothing"], b"there is no recipe"), (["./"], b"--tag NAME"), (["-t", "x", "./"], b"no Containerfile"), (["--with", "docker", "./own"], b"not installed")):
        r = runner.bawn("image", "build", *words, env={"PATH": f"{runner.top}/bin:/nowhere"})
        assert r.rc in (64, 125) and says in r.err, r


def test_recipes_have_what_they_promise():
    """The contents of each variant, by the packages that bring them."""
    want = {"minimal": {"bash", "git", "curl"}, "python": {"bash", "python3", "py3-pip", "gcc"}, "node": {"bash", "nodejs", "npm"},
            "full": {"python3", "py3-pip", "nodejs", "npm", "rust", "cargo", "go", "gcc", "make", "ripgrep", "fd", "zsh"}}
    assert {p.name for p in (ROOT / "images").iterdir()} == set(want)
    for name, packages in want.items():
        words = (ROOT / "images" / name / "Containerfile").read_text().split()
        assert packages <= set(words) and words.count("FROM") == 1, name


def test_a_real_build(root_runner):
    """Podman itself, from nothing: no registry is needed for that."""
    if not shutil.which("podman"):
        pytest.skip("needs the program podman")
    (root_runner.workspace / "rootfs/bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", root_runner.workspace / "rootfs/bin/busybox")
    root_runner.write("Containerfile", 'FROM scratch\nCOPY rootfs /\nENV MADE=here\nCMD ["/bin/busybox", "env"]\n')
    env = {"XDG_DATA_HOME": str(root_runner.top / "data"), "CONTAINERS_STORAGE_CONF": str(root_runner.top / "storage.conf")}
    root_runner.write(root_runner.top / "storage.conf", f'[storage]\ndriver = "vfs"\ngraphroot = "{root_runner.top}/graph"\nrunroot = "{root_runner.top}/run"\n')
    r = root_runner.bawn("image", "build", "--with", "podman", "-t", "localhost/made:1", "./", env=env)
    assert r.rc == 0, r
    r = root_runner.bawn("run", "--network", "none", "--image", "localhost/made:1")
    assert r.rc == 0 and b"MADE=here\n" in r.out, r
