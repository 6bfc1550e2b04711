# SPDX-License-Identifier: Apache-2.0
"""gVisor: terminals over the byte link, its own network, and runsc as the runtime of docker and podman."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
import person  # noqa: E402
from imagekit import D, F, H, L  # noqa: E402

gvisor = pytest.mark.parametrize("box", ["gvisor"], indirect=True)


@gvisor
def test_terminals_begin_and_end(box):
    """run --tty, exec --tty and shell: the size, keys that are signals, the end, and its status."""
    t = person.terminal(box.runner, "run", "--", "sh", "-c", "stty size; read x; echo got $x; sleep 1000", size=(33, 77))
    t.expect_exact(b"33 77")
    t.sendline(b"typed")
    t.expect_exact(b"got typed")
    t.sendintr()
    assert person.finish(t) == 130
    assert box.bawn("start", "web").rc == 0
    try:
        t = person.terminal(box.runner, "exec", "--tty", "web", "--", "sh", "-c", "stty size; tty; exit 7", size=(20, 60))
        t.expect_exact(b"20 60")
        t.expect_exact(b"/dev/pts/")
        assert person.finish(t) == 7
        t = person.terminal(box.runner, "shell", "web")
        t.expect_exact(b"$ ")
        t.sendline(b"echo $((6 * 7)); exit 3")
        t.expect_exact(b"42")
        assert person.finish(t) == 3
    finally:
        r = box.bawn("stop", "--all", "-t", "0", "--force")
    assert r.rc == 0, r


@gvisor
def test_background_processes_do_not_hold_the_end(box):
    t = person.terminal(box.runner, "run", "--", "sh", "-c", "sleep 1000 & sleep 1000 & echo last words")
    t.expect_exact(b"last words")
    assert person.finish(t) == 0


@gvisor
def test_a_signal_reaches_a_command_that_runs(box):
    """PID 1 hears the supervisor while the command runs: gVisor does not say when a program is executed."""
    assert box.bawn("start", "web").rc == 0
    try:
        p = box.runner.popen(box.runner.path, "exec", "web", "--", "sh", "-c", "exec sleep 1000", stdout=-1, stderr=-1)
        r = box.bawn("exec", "web", "--", "sh", "-c", "echo meanwhile")
        assert (r.rc, r.out) == (0, b"meanwhile\n"), r
        p.terminate()
        p.communicate()
        assert p.returncode == 128 + 15
    finally:
        assert box.bawn("stop", "--all", "-t", "0", "--force").rc == 0


@gvisor
def test_a_command_that_fills_memory_ends_the_sandbox_only(box):
    r = box.run("/usr/bin/python3", "-c", "x = b'x' * (600 << 20)", options=["--memory", "256m"])
    assert r.rc != 0 and b"memory limit 256 MiB" in r.err, r
    assert box.run("true").rc == 0


@gvisor
def test_a_path_that_is_no_utf8_is_refused(box):
    """Its configuration is JSON; what would be mounted under another name is not mounted."""
    odd = pathlib.Path(str(box.workspace) + "/\udcff")
    box.runner.mkdir(odd)
    r = box.runner.run(box.runner.path, "run", "--", "true", cwd=odd)
    assert r.rc == 125 and b"no UTF-8" in r.err, r


@gvisor
def test_runsc_is_not_there(box):
    r = box.run("true", env={"PATH": "/usr/sbin"})
    assert r.rc == 125 and b"no program 'runsc'" in r.err, r


LAYERS = [[D("t/d"), F("t/d/old"), D("t/gone"), F("t/gone/x"), F("t/file", b"1"), D("t/folder"), F("t/folder/x"), F("t/same", b"same"), H("t/hard", "t/same")],
          [F("t/d/.wh..wh..opq"), F("t/d/new", b"2"), F("t/.wh.gone"), D("t/file"), F("t/file/now", b"3"), F("t/folder", b"4"), L("t/link", "d/new")],
          [D("t/gone"), F("t/gone/again", b"5"), F("t/same", b"changed"), L("etc/resolv.conf", "/nowhere/at/all")]]


def names_of(runner):
    top = imagekit.store(runner) / "layers"
    return sorted((str(p.relative_to(top)), p.lstat().st_mode, p.lstat().st_size) for p in top.rglob("*"))


@gvisor
def test_an_image_has_the_root_that_it_has_on_native(box):
    """Layers, what they remove and replace; and nothing is written to the store, which other sandboxes share."""
    imagekit.make_image(box.runner, "t/layers", [imagekit.base(), *map(imagekit.tar, LAYERS)])
    before = names_of(box.runner)
    script = "cd /t; find . -type f -exec sh -c 'echo $1 $(cat $1)' sh {} \\; | sort; find . | sort; cat link; echo x > /t/same; echo x > /t/new; pwd"
    on_native = box.run("sh", "-c", script, options=["--engine", "native", "--image", "t/layers"])
    assert on_native.rc == 0 and b"./gone/again 5" in on_native.out and b"/old" not in on_native.out, on_native
    r = box.run("sh", "-c", script, options=["--image", "t/layers"])
    assert (r.rc, r.out) == (0, on_native.out), r
    assert names_of(box.runner) == before
    assert not list((box.runner.home / ".local/state/bawn/private").iterdir())


@gvisor
def test_links_of_an_image_lead_nowhere_on_the_host(box):
    """Claim: names that every root has are made in the image's tree, not where its links lead on this machine."""
    victim = box.runner.mkdir(box.runner.top / "victim")
    dots = "../" * 20 + str(victim)[1:]
    for target in (str(victim), dots, "t/there"):
        links = [L(name, target) for name in ("var", "home", "usr", "run", "tmp")]
        imagekit.make_image(box.runner, "t/links", [imagekit.base(), imagekit.tar([D("t/there"), *(links if target != "t/there" else links[:1])])])
        r = box.run("sh", "-c", "echo ran > /var/tmp/x && cat /t/there/tmp/x", options=["--image", "t/links"])  # where links lead nowhere, gVisor may refuse
        assert not list(victim.iterdir()), (target, r)
    assert (r.rc, r.out) == (0, b"ran\n"), r


@gvisor
def test_an_images_own_command_and_variables(box):
    imagekit.make_image(box.runner, "t/cmd", [imagekit.base()], {"Env": ["PATH=/bin", "FOO=of the image"], "Cmd": ["sh", "-c", "echo $FOO; pwd"], "WorkingDir": "/tmp"})
    r = box.bawn("run", "--image", "t/cmd")
    assert (r.rc, r.out) == (0, b"of the image\n/tmp\n"), r


@pytest.mark.parametrize("box", ["docker", "podman"], indirect=True)
def test_gvisor_as_their_runtime(box):
    """SANDBOX_FLAGS=--runtime: nothing can be handed over there, so the link is the container's own streams."""
    if not box.runner.is_root:
        pytest.skip("needs root")  # podman without root would have runsc make control groups; and one daemon is enough
    r = box.run("sh", "-c", "cat /proc/version; cat; exit 5", input=b"typed\n", env={"SANDBOX_FLAGS": f"--runtime={'runsc' if box.name == 'docker' else '/usr/bin/runsc'}"})
    assert r.rc == 5 and r.out.endswith(b"typed\n") and b"version 4.4.0" in r.out, r
    assert not box.containers()
