# SPDX-License-Identifier: Apache-2.0
"""lima and Docker Sandboxes, which do not exist here: their programs are a stand-in (machine_stub.py), what they run inside is real.

The cases of the other engines run here, too, in the guest that the stand-in makes.
"""

import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

import test_walls
from engine_box import Box
from test_behaviour import (  # noqa: F401
    test_a_command_that_is_not_there, test_a_persistent_sandbox, test_a_signal_ends_it_as_it_does_outside, test_a_terminal,
    test_memory_limit_is_named, test_nothing_is_left_after_a_run, test_process_limit, test_read_only, test_status_and_streams, test_the_command_is_not_root_and_has_a_name,
    test_the_workspace_has_its_path_and_a_second_name, test_time_limit, test_what_is_written_belongs_to_the_owner_of_the_workspace)
from test_network import inter_net, net, test_a_credential_is_put_in_outside, test_an_allowed_name_is_reached_and_another_is_not, test_every_port_leads_to_the_gate  # noqa: F401
from test_walls import (  # noqa: F401
    test_a_hidden_file_that_appears_later_is_not_there, test_files_of_the_host_are_not_there, test_hidden_files_are_not_there,
    test_hooks_are_not_changed_unseen, test_kernel_settings_cannot_be_changed, test_no_namespaces_and_mounts, test_no_process_of_the_host_is_seen,
    test_nothing_of_the_engine_is_inside, test_privileges_are_none, test_the_root_is_read_only)

STUB = pathlib.Path(__file__).resolve().parent / "machine_stub.py"
UNTRIED = b"not run on a Mac"
PROGRAMS = {"lima": "limactl", "sbx": "sbx", "docker sandbox": "docker"}


class Machine(Box):
    """A box whose engine is a stand-in; calls() are the arguments that it got."""

    def __init__(self, kind, runner):
        self.kind, self.program = kind, PROGRAMS[kind]
        self.dir = runner.mkdir(runner.top / "stub")
        folder = runner.mkdir(runner.top / "bin")
        shutil.copy(STUB, folder / self.program)
        (folder / self.program).chmod(0o755)
        env = {"PATH": f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin", "STUB_DIR": str(self.dir)}
        super().__init__(kind.split()[0].replace("docker", "sbx"), runner, env, self.machines)

    def machines(self):
        there = self.dir / "machines"
        return sorted(p.name for p in there.iterdir()) if there.exists() else []

    def calls(self, verb=None):
        file = self.dir / "calls"
        lines = [json.loads(x) for x in file.read_text().splitlines()] if file.exists() else []
        lines = [x[2:] if x[:2] == ["docker", "sandbox"] else x[1:] for x in lines]
        return [x for x in lines if verb in (None, x[0])]

    def fail(self, verb, status, text):
        self.runner.write(self.dir / "trouble", json.dumps({verb: [status, text]}))


@pytest.fixture(params=["lima", "sbx"])
def both(request, runner):
    return Machine(request.param, runner)


@pytest.fixture
def box(runner):
    """For the cases of the other engines: what is in the guest is the same for all of these."""
    return Machine("lima", runner)


@pytest.fixture(params=PROGRAMS)
def any_box(request, runner):
    return Machine(request.param, runner)


@pytest.fixture
def lima(runner):
    return Machine("lima", runner)


# -- the calls ----------------------------------------------------------------------------------------------------------------------------


def test_the_calls_of_a_run(any_box):
    """Made, asked, run, removed: in this order, by one name, and the workspace is a copy."""
    b = any_box
    r = b.run("sh", "-c", "echo new > made; exit 3", options=["--cpus", "1.5", "--memory", "1g"])
    assert r.rc == 3 and UNTRIED in r.err, r
    assert (b.workspace / "made").read_text() == "new\n"
    verbs = [c[0] for c in b.calls()]
    assert verbs == (["list", "start", "list", "shell", "delete"] if b.kind == "lima" else ["ls", "create", "exec", "rm"])
    name = next(w for c in b.calls() for w in c if w.startswith("--name=")).removeprefix("--name=")
    assert name.startswith("bawn-") and all(name in " ".join(c) for c in b.calls()[1:])
    assert str(b.workspace) not in [w.removesuffix(":ro") for c in b.calls() for w in c], "the workspace itself is not shared"
    if b.kind == "sbx":
        assert {"--cpus=2", "--memory=1536m"} <= set(b.calls("create")[0])


def test_limas_file(lima):
    """Nothing of the host but the folders of the run: no home, no ports, no keys, no agent."""
    b = lima
    keep = b.dir / "kept.yaml"
    real = b.runner.mkdir(b.runner.top / "bin/real")
    wrapper = (b.runner.top / "bin/limactl").rename(real / "limactl").parent.parent / "limactl"
    wrapper.write_text(f'#!/bin/sh\n[ "$1" != start ] || cp "$4" {keep}\nexec {real}/limactl "$@"\n')
    wrapper.chmod(0o755)
    assert b.run("true", options=["--memory", "2g", "--cpus", "3"]).rc == 0
    file = yaml.safe_load(keep.read_text())
    assert (file["cpus"], file["memory"]) == (3, "2560MiB")
    assert file["ssh"] == {"loadDotSSHPubKeys": False, "forwardAgent": False, "forwardX11": False}
    assert [(p["proto"], p["ignore"]) for p in file["portForwards"]] == [("any", True)]
    state = b.runner.home / ".local/state/bawn"
    assert all(m["location"].startswith(f"{state}/") for m in file["mounts"])
    assert [m["location"].split("/")[-1] for m in file["mounts"] if m["writable"]] in (["tree"], ["tree", "cache"])


def test_another_image(any_box):
    r = any_box.run("true", options=["--image", "https://example.org/some.qcow2"])
    assert r.rc == 0, r
    if any_box.kind != "lima":
        assert "--template=https://example.org/some.qcow2" in any_box.calls("create")[0]


# -- what must not happen ------------------------------------------------------------------------------------------------------------------


def test_lima_mounts_nothing_that_was_not_asked_for(lima):
    """Attack: the user's own override.yaml, forgotten for long, gives every machine the home. Then there is no run."""
    lima.runner.write(lima.dir / "override", f"mounts: [{{location: {lima.runner.home}, mountPoint: {lima.runner.home}, writable: true}}]\n")
    r = lima.run("cat", str(lima.runner.home / "x"))
    assert r.rc == 125 and str(lima.runner.home).encode() in r.err and b"override.yaml" in r.err, r
    assert lima.machines() == [] and not lima.calls("shell")


@pytest.mark.parametrize("name", ["{{.Home}}", "a:ro", "quote ' \" \\ $(x) `y`", "line\nend", "ünï ☃ \U0001f600", "- x: [1]", "~"])
def test_folders_with_any_name(both, name):
    """Attack: a name that YAML, lima's templates, sbx or the guest's shell would read as something else. It is itself, or refused."""
    folder = both.runner.mkdir(both.runner.top / name)
    both.runner.write(folder / "file", "text\n")
    r = both.run("cat", "/mounted/file", options=["--mount", f"{folder}:/mounted"])
    refused = {"lima": "{{" in name, "sbx": ":" in name}[both.name]
    if r.rc == 64:
        assert ":" in name, r  # of --mount itself
    elif refused:
        assert r.rc == 125 and not both.calls("create") and not both.calls("start"), r
    else:
        assert (r.rc, r.out) == (0, b"text\n"), r
    assert both.machines() == []


def test_nothing_gets_out_of_the_guest(both):
    """Claim: without a network there is only the loopback of the guest's own namespace."""
    test_walls.prove(both, "test $(ls /sys/class/net 2> /dev/null | wc -l) -gt 1 || test $(grep -c : /proc/net/dev) -gt 1", "--network", "none")


def test_a_killed_run_leaves_nothing_for_long(both):
    """kill -9: the command ends at once, the machine is removed by the next run."""
    mark = f"sleep 97{os.getpid()}"
    p = both.runner.popen(both.runner.path, "run", "--", "sh", "-c", f"echo up; {mark}", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert p.stdout.readline() == b"up\n"
    (left,) = both.machines()
    p.kill()
    p.wait()
    while subprocess.run(["pgrep", "-f", f"^{mark}$"], stdout=subprocess.DEVNULL).returncode == 0:
        pass
    assert both.run("true").rc == 0
    assert both.machines() == []
    assert any(left in c for c in both.calls("delete" if both.name == "lima" else "rm"))


# -- when it does not work --------------------------------------------------------------------------------------------------------------------

TROUBLES = [
    ("lima", "start", 'level=fatal msg="exec: \\"qemu-system-aarch64\\": executable file not found in $PATH"', b"brew install qemu"),
    ("lima", "start", 'level=fatal msg="did not receive an event with the \\"running\\" status"', b"ha.stderr.log"),
    ("lima", "start", "write /x/diffdisk: no space left on device", b"limactl prune"),
    ("lima", "shell", "sudo: a password is required", b"sudo without a password"),
    ("lima", "shell", "sh: 1: unshare: not found", b"util-linux"),
    ("lima", "list", "level=fatal", b"Lima 1.0"),
    ("sbx", "create", "ERROR: not signed in to Docker", b"sbx login"),
    ("sbx", "create", "something new", b"engine sbx: something new"),
    ("docker sandbox", "create", "Error: Docker Desktop is not running", b"start it"),
    ("docker sandbox", "exec", "ERROR: sandbox 'x' not found", b"not found"),
]


@pytest.mark.parametrize(("kind", "verb", "text", "says"), TROUBLES)
def test_troubles(runner, kind, verb, text, says):
    b = Machine(kind, runner)
    b.fail(verb, 1, text)
    r = b.run("true")
    assert r.rc == 125 and says in r.err, r
    assert b.machines() == []
    (b.dir / "trouble").unlink()
    assert b.run("true").rc == 0, "the next one works"


def test_without_the_program(runner):
    for name, program, remedy in (("lima", b"limactl", b"brew install lima"), ("sbx", b"sbx", b"Docker Desktop 4.58")):
        r = runner.bawn("run", "--engine", name, "--", "true", env={"PATH": "/usr/sbin"})
        assert r.rc == 125 and program in r.err and remedy in r.err, r


def test_a_docker_without_sandboxes(runner):
    b = Machine("docker sandbox", runner)
    runner.write(b.dir / "no-sandboxes", "")
    r = b.run("true")
    assert r.rc == 125 and b"4.58" in r.err and b"is left" not in r.err, r


def rungs_of(result):
    return {e["name"]: e["rungs"][0] for e in result.json()["engines"]}


def test_bawn_engines(any_box):
    """What it would enforce, and that it was never seen to do so."""
    b = any_box
    rung = rungs_of(b.bawn("engines", "--json"))[b.name]
    assert rung["available"] is True and "not run on a Mac" in rung["why"]
    assert {"files", "network", "hiding", "names", "credentials", "kernel"} <= set(rung["keeps"])
    assert ("memory" in rung["keeps"]) == (b.kind != "docker sandbox") and "pids" in rung["lacks"]
    assert f"{b.name}: available; not run on a Mac".encode() in b.bawn("engines").out
    absent = rungs_of(b.bawn("engines", "--json", env={"PATH": "/usr/sbin"}))[b.name]
    assert absent["available"] is False and absent["keeps"] == [] and absent["remedy"], absent


# -- podman on a Mac --------------------------------------------------------------------------------------------------------------------------

PODMAN = """#!/bin/sh
echo "$*" >> {calls}
case "$1" in
info) echo '{{"host": {{"os": "linux", "serviceIsRemote": true, "cgroupControllers": ["cpu", "memory", "pids"]}}, "version": {{"OsArch": "linux/arm64"}}}}';;
system) echo '[{{"Name": "podman-machine-default", "URI": "ssh://core@127.0.0.1:50000/run/user/501/podman/podman.sock", "Identity": "/x", "Default": true}},
               {{"Name": "here", "URI": "unix:///run/podman/podman.sock", "Default": false}}]';;
*) exit 125;;
esac
"""


def podman_calls(runner, env):
    """What the stand-in was asked for by a run, which it fails."""
    calls = runner.mkdir(runner.top / "calls") / "log"
    runner.write(runner.top / "bin/podman", PODMAN.format(calls=calls), 0o755)
    env = {"PATH": f"{runner.top}/bin:/usr/bin:/bin", **env}
    r = runner.bawn("run", "--engine", "podman", "--", "true", env=env)
    assert r.rc == 125, r
    return r, calls.read_text().splitlines() if calls.exists() else [], rungs_of(runner.bawn("engines", "--json", env=env))["podman"]


@pytest.mark.parametrize(("env", "says"), [
    ({"CONTAINER_CONNECTION": "podman-machine-default"}, "ssh://core@127.0.0.1:50000"), ({"CONTAINER_HOST": "ssh://core@127.0.0.1:1/x"}, "ssh://core@127.0.0.1:1/x"),
    ({"CONTAINER_HOST": "tcp://10.0.0.1:1"}, "tcp://10.0.0.1:1")])
def test_podman_that_talks_to_another_machine(runner, env, says):
    """Claim: a podman behind an ssh tunnel is not given paths of this machine, which mean other folders there."""
    r, calls, rung = podman_calls(runner, env)
    assert f"is on another machine ({says}".encode() in r.err, r
    (made,) = [c.split() for c in calls if c.startswith("create ")]
    assert not [w for w in made if w.startswith(("-v", "--volume", "--device", "--env-file")) or "type=bind" in w or "source=" in w or "src=" in w], made
    assert rung["available"] and "another machine" in rung["why"] and "disk" in rung["lacks"], rung


def test_podman_with_a_connection_that_is_not_there(runner):
    r, calls, rung = podman_calls(runner, {"CONTAINER_CONNECTION": "gone"})
    assert b"no connection 'gone'" in r.err and not [c for c in calls if c.startswith(("run", "create"))] and rung["available"] is False, (r, calls)


def test_podman_with_a_connection_to_this_machine(runner):
    r, calls, _ = podman_calls(runner, {"CONTAINER_CONNECTION": "here"})
    assert b"another machine" not in r.err and [c for c in calls if c.startswith("run ")], (r, calls)


def test_the_stand_in_fails_where_it_should(both):
    """Without these, a stand-in that ignores what it does not know would prove nothing."""
    folder = both.runner.top / "bin"
    for words in (["start", "--unknown"], ["create", "--unknown"], ["nonsense"]):
        assert both.runner.run(folder / both.program, *words).rc != 0, words
