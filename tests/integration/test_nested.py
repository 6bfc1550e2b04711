# SPDX-License-Identifier: Apache-2.0
"""A container engine inside (--nested)."""

import json
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


def settings(runner, where, **values):
    runner.write(where, json.dumps(values))


def explained(runner, *options):
    return runner.bawn("explain", "--json", *options, "--", "true").json()["nested"]


def test_the_users_own_files_say_so(runner):
    """Configuration and profile are as the flag; where it came from is said."""
    config, profile = runner.home / ".config/bawn/config.json", runner.home / ".config/bawn/profiles/boxes.json"
    assert explained(runner) is False and explained(runner, "--nested") is True
    settings(runner, config, sandbox={"nested": True})
    assert explained(runner) is True
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", "command -v docker; unshare -Ur true && echo made")
    assert r.out == b"/run/bawn/nested/docker\nmade\n" and b"--nested: programs inside may" in r.err, r
    r = runner.bawn("run", "--engine", "docker", "--", "true")
    assert r.rc == 125 and b"no container engine inside" in r.err and str(config).encode() in r.err, r
    settings(runner, config, agent={"builder": {"sandbox": {"nested": True}}})
    settings(runner, profile, nested=True)
    assert explained(runner) is False and explained(runner, "-p", "boxes") is True and explained(runner, "--agent", "builder") is True


@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_does_not_say_so(runner, trusted):
    """Claim: what takes a fence away is the user's own word: neither a project's file nor a profile that it names."""
    settings(runner, runner.home / ".config/bawn/profiles/boxes.json", nested=True)
    for said in ({"nested": True}, {"profile": "boxes"}):
        settings(runner, ".bawn/config.json", sandbox=said)
        if trusted:
            assert runner.bawn("trust", "--yes").rc == 0
        r = runner.bawn("run", "--network", "none", "--", "unshare", "-Ur", "true")
        assert r.rc == 1 and b"nested true" in r.err and b"not applied" in r.err, r
    settings(runner, runner.home / ".config/bawn/config.json", sandbox={"nested": True})
    settings(runner, ".bawn/config.json", sandbox={"nested": False})
    assert explained(runner) is False, "it can take it away"


def test_whether_it_is_available_is_said(runner):
    """`bawn engines` and `bawn doctor`: here, and where a program is missing, with the remedy."""
    engines = {e["name"]: e["nested"] for e in runner.bawn("engines", "--json").json()["engines"]}
    assert engines["native"] == {"available": True, "why": None, "remedy": None}
    assert engines["docker"] == {"available": False, "why": "the engine does not have it", "remedy": "use --engine native"}
    assert b"containers inside (--nested), engine native only: available" in runner.bawn("engines").out
    check = next(c for c in runner.bawn("doctor", "--json").json()["checks"] if c["id"] == "nested")
    assert (check["verdict"], check["value"]) == ("ok", "available")


@pytest.mark.parametrize("runner", ["root"], indirect=True)
def test_a_program_is_missing(runner):
    """In a mount namespace in which there is no crun."""
    hide = "mount --bind /dev/null /usr/bin/crun; exec \"$@\""
    without = lambda *args: runner.run("unshare", "--mount", "sh", "-c", hide, "sh", runner.path, *args)  # noqa: E731
    r = without("run", "--nested", "--", "true")
    assert r.rc == 125 and b"there is no /usr/bin/crun" in r.err and b"--image" in r.err and b"flag --nested" in r.err, r
    check = next(c for c in json.loads(without("doctor", "--json").out)["checks"] if c["id"] == "nested")
    assert check["verdict"] == "info" and check["value"] == "there is no /usr/bin/crun" and "podman" in check["remedy"], check
    assert b"not available; there is no /usr/bin/crun; remedy: " in without("doctor").out


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
