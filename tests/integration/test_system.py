# SPDX-License-Identifier: Apache-2.0
"""`--system writable` without a network: an image, the setting, refusals. Packages over the network: tests/network/test_packages.py."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "network"))
import imagekit  # noqa: E402
import packages  # noqa: E402

DPKG = ["/usr/bin/dpkg", "/usr/bin/dpkg-deb", "/usr/bin/dpkg-split", "/usr/bin/dpkg-query", "/usr/bin/tar", "/usr/bin/rm", "/usr/bin/diff", "/sbin/ldconfig", "/sbin/start-stop-daemon", "/usr/bin/chmod"]


@pytest.fixture(scope="module")
def dpkg_layers():
    empty = [imagekit.F("var/lib/dpkg/status"), imagekit.F("var/lib/dpkg/available"), imagekit.D("var/lib/dpkg/info"), imagekit.D("var/lib/dpkg/updates"), imagekit.D("var/lib/dpkg/triggers")]
    return [imagekit.base(), imagekit.programs(*DPKG), imagekit.tar(empty)]


def test_packages_in_an_image(runner, dpkg_layers):
    """dpkg, as root, not as the image's own user; into a copy, not into the store; and again from a persistent sandbox."""
    imagekit.make_image(runner, "t/dpkg", dpkg_layers, {"User": "app"})
    made = packages.deb(runner.top, "demo", "1.0", {"usr/bin/demo": ("#!/bin/sh\necho from a package\n", 0o755), "usr/lib/demo/helper": ("x", 0o4755)}, postinst="#!/bin/sh\nchown 42:42 /usr/bin/demo\n")
    (runner.workspace / "demo.deb").write_bytes(made.read_bytes())
    options = ["--network", "none", "--image", "t/dpkg", "--system", "writable"]
    r = runner.bawn("run", *options, "--", "sh", "-c", "PATH=/usr/bin:/usr/sbin:/sbin:/bin; /usr/bin/dpkg -i demo.deb && demo && /usr/bin/dpkg -s demo && id -u && /usr/bin/chmod 755 /usr/lib/demo/helper && ls -l /usr/lib/demo/helper")
    assert r.rc == 0 and b"from a package" in r.out and b"install ok installed" in r.out and b"\n0\n-rwxr-xr-x" in r.out, r
    assert runner.bawn("run", *options, "--", "demo").rc == 127, "thrown away"
    assert not list(imagekit.store(runner).glob("layers/*/tree/usr/bin/demo"))
    assert runner.bawn("start", "box", *options).rc == 0
    assert runner.bawn("exec", "box", "--", "sh", "-c", "PATH=/usr/bin:/usr/sbin:/sbin:/bin; /usr/bin/dpkg -i demo.deb").rc == 0
    assert runner.bawn("stop", "box").rc == 0
    r = runner.bawn("fork", "box", "--name", "other", "--start")
    assert r.rc == 0, r
    assert runner.bawn("exec", "other", "--", "demo").out == b"from a package\n"
    assert runner.bawn("rm", "-f", "box", "other").rc == 0


def test_the_setting(runner):
    """From the user's file; an untrusted project does not get it; the plan says it."""
    runner.write(".bawn/config.json", '{"sandbox": {"system": "writable"}}')
    r = runner.bawn("run", "--network", "none", "--", "id", "-u")
    assert r.out != b"0\n" and b"not applied: the project is not trusted" in r.err, r
    (runner.workspace / ".bawn/config.json").unlink()
    runner.write(runner.home / ".config/bawn/config.json", '{"sandbox": {"system": "writable"}}')
    assert runner.bawn("run", "--network", "none", "--", "id", "-u").out == b"0\n"
    assert runner.bawn("run", "--network", "none", "--system", "read-only", "--", "id", "-u").out != b"0\n"
    plan = json.loads(runner.bawn("run", "--dry-run", "--json", "--", "true").out)
    assert plan["writable_system"] and plan["inside_uid"] == 0 and [s["to"] for s in plan["files"] if s["kind"] == "copy-on-write"][:2] == ["/usr", "/opt"]
    r = runner.bawn("run", "--system", "sometimes", "--", "true")
    assert r.rc == 64 and b"'sometimes' is not known" in r.err, r


def test_other_engines_refuse(runner):
    r = runner.bawn("run", "--engine", "docker", "--system", "writable", "--", "true")
    assert r.rc != 0 and b"engine docker has no writable system (flag --system); use --engine native" in r.err, r


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree", "ro"])
def test_workspace_modes(runner, mode):
    """The workspace is what it is without; files made there are the user's."""
    runner.write("file", "content")
    if mode == "worktree":
        for cmd in (["git", "init", "-q"], ["git", "add", "."], ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"]):
            assert runner.run(*cmd).rc == 0
    r = runner.bawn("run", "--network", "none", "-w", mode, "--system", "writable", "--", "sh", "-c", "cat file; touch /usr/bin/new && echo new > made; ls -ld file")
    assert r.out.startswith(b"content") and b"root" in r.out, r
    assert (runner.workspace / "made").exists() == (mode == "sync"), r


def test_home_and_tmp_on_disk(runner):
    """Above half of the memory they are folders on the host, which are shown in the copy-on-write view as well."""
    r = runner.bawn("run", "--network", "none", "--system", "writable", "-m", "64m", "--tmp-size", "200m", "--", "sh", "-c",
                    "head -c 100M /dev/zero > /tmp/x && touch ~/x made && echo fits")
    assert (r.rc, r.out) == (0, b"fits\n") and (runner.workspace / "made").exists(), r
