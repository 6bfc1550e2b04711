# SPDX-License-Identifier: Apache-2.0
"""A container engine inside (--nested)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import nestedkit  # noqa: E402


def nested(runner, script, *options):
    r = runner.bawn("run", "--network", "none", "--nested", *options, "--", "sh", "-c", script)
    assert r.rc != 9, r
    return r


def test_run_build_and_stay_inside(runner):
    """Containers run under both names, see a folder of the workspace, are built; changes wait for apply, and it is said what is weaker."""
    nestedkit.put(runner)
    r = nested(runner, nestedkit.TAKE + """
        podman run --rm t/box sh -c 'id -u; ls /bin/suid'
        docker run --rm -v "$PWD:/w" t/box touch /w/made
        podman run -d --name d t/box busybox sleep 1000 >/dev/null && podman exec d echo in d && podman rm -f -t 0 d >/dev/null
        printf 'FROM t/box\\nRUN echo built > /b\\n' > /tmp/Containerfile && podman build -q -t t/two -f /tmp/Containerfile /tmp >/dev/null
        podman run --rm t/two cat /b; ls made""")
    assert r.rc == 0 and r.out.split(b"\n")[:6] == [b"0", b"/bin/suid", b"in d", b"built", b"made", b""], r
    assert b"--nested: programs inside may make user namespaces" in r.err and not (runner.workspace / "made").exists(), r


def test_what_does_not_go_together(runner):
    for options, why in ((["-w", "direct"], b"direct mode"), (["--system", "writable"], b"--system writable"), (["--mount", f"{runner.home}:/h:rw"], b"writable mount"),
                         (["--engine", "docker"], b"engine docker has no container engine inside")):
        r = runner.bawn("run", "--nested", *options, "--", "true")
        assert r.rc not in (0, 1) and why in r.err, r
    assert runner.bawn("ps", "-a", "--json").json() == []


@pytest.mark.parametrize("options", [[], ["--nested"]])
def test_no_socket_of_an_engine_is_inside(runner, options):
    r = runner.bawn("run", "--network", "none", *options, "--", "sh", "-c", "ls /var/run/docker.sock /run/docker.sock /run/podman /run/containerd")
    assert r.rc != 0 and r.out == b"", r


def test_persistent(runner):
    """A persistent sandbox keeps images and containers' settings over a stop."""
    nestedkit.put(runner)
    assert runner.bawn("start", "box", "--nested", "--network", "none").rc == 0
    try:
        assert runner.bawn("exec", "box", "--", "sh", "-c", nestedkit.TAKE + "true").rc == 0
        assert runner.bawn("stop", "box").rc == 0 and runner.bawn("start", "box").rc == 0
        r = runner.bawn("exec", "box", "--", "podman", "run", "--rm", "t/box", "id", "-u")
        assert (r.rc, r.out) == (0, b"0\n"), r
    finally:
        assert runner.bawn("rm", "-f", "box").rc == 0
