# SPDX-License-Identifier: Apache-2.0
"""`bawn run --image`: the image's files, user, variables and command; workspace, home, network and review as ever."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
from imagekit import F, base, make_image, tar  # noqa: E402


def run(runner, image, *cmd, **kw):
    return runner.bawn("run", "--network", "none", "--image", image, "--", *cmd, **kw)


def test_the_image_is_the_root(runner):
    """Its files, in place of the host's, and nothing of them can be changed."""
    make_image(runner, "t/plain", [base(), tar([F("t/only-here", b"from the image"), F("etc/os-release", b"ID=nothing\n")])])
    r = run(runner, "t/plain", "sh", "-c", "cat /t/only-here /etc/os-release; ls /usr; ls /; echo x > /t/new || echo sealed; echo x > /tmp/y && cat /tmp/y")
    assert r.rc == 0 and b"from the image" in r.out and b"ID=nothing" in r.out and b"sealed" in r.out and r.out.endswith(b"x\n"), r
    assert b"usr\n" not in r.out.split(b"sealed")[0].split(b"ID=nothing")[1], r
    assert not list(imagekit.store(runner).glob("layers/*/tree/t/new"))


def test_the_workspace_is_there_in_every_mode(runner):
    make_image(runner, "t/plain")
    runner.write("file", "content")
    runner.write(".sandboxignore", "hidden\n")
    runner.write("hidden", "secret")
    for mode in ("direct", "overlay", "sync", "ro"):
        r = runner.bawn("run", "-w", mode, "--network", "none", "--image", "t/plain", "--", "sh", "-c",
                        f"cat file; cat hidden; echo new > made-{mode} || echo refused; pwd")
        assert r.rc == 0 and r.out.startswith(b"content") and b"secret" not in r.out + r.err, r
        assert r.out.endswith(str(runner.workspace).encode() + b"\n") and (mode == "ro") == (b"refused" in r.out), r
        if mode == "overlay":
            assert b"stored as run" in r.err, r
    for made in runner.workspace.glob("made-*"):
        assert made.stat().st_uid == runner.user.pw_uid
    assert len(list(runner.workspace.glob("made-*"))) == 2


def test_user_variables_and_command(runner):
    """As docker has them: who it is, what it knows, the entry point in front of the command, or the image's own."""
    make_image(runner, "t/app", config={"User": "app", "Env": ["PATH=/bin", "WHO=image", "HOME=/nowhere"], "Entrypoint": ["/bin/echo", "entry"], "Cmd": ["cmd"],
                                        "WorkingDir": "/t"})
    assert run(runner, "t/app", "given").out == b"entry given\n"
    assert runner.bawn("run", "--network", "none", "--image", "t/app").out == b"entry cmd\n"
    make_image(runner, "t/sh", config={"User": "app:0", "Env": ["WHO=image", "HOME=/nowhere"], "WorkingDir": "/t", "Cmd": ["/bin/sh", "-c", "pwd"]})
    r = run(runner, "t/sh", "/bin/sh", "-c", "id -u; id -g; id -un; echo $WHO; echo $HOME; touch $HOME/x && pwd")
    assert r.out.split() == [b"7", b"0", b"app", b"image", str(runner.home if not runner.is_root else "/home/bawn").encode(), str(runner.workspace).encode()], r
    assert runner.bawn("run", "--network", "none", "--image", "t/sh").out == b"/t\n"
    assert runner.bawn("run", "--network", "none", "--env", "WHO=me", "--image", "t/sh", "--", "/bin/sh", "-c", "echo $WHO").out == b"me\n"


def test_root_of_an_image(runner):
    """Without a user it is root, who reads everything of the image's, and outside it is who it was."""
    make_image(runner, "t/root", [base(), tar([F("t/private", b"only root", 0o600), imagekit.D("t/locked", 0), F("t/locked/in", b"in", 0)])])
    r = run(runner, "t/root", "sh", "-c", "id -u; id -g; cat /t/private /t/locked/in; touch made")
    assert r.rc == 0 and r.out == b"0\n0\nonly rootin", r
    assert (runner.workspace / "made").stat().st_uid == runner.user.pw_uid


def test_settings_and_environment_name_it(runner):
    make_image(runner, "t/plain")
    assert runner.bawn("run", "--network", "none", "--", "cat", "/etc/group", env={"BAWN_SANDBOX_IMAGE": "t/plain"}).out.startswith(b"root:x:0:\napps")
    runner.write(runner.home / ".config/bawn/config.json", '{"sandbox": {"image": "t/plain"}}')
    assert runner.bawn("run", "--network", "none", "--", "cat", "/etc/group").out.startswith(b"root:x:0:\napps")
    (runner.home / ".config/bawn/config.json").unlink()
    runner.write(".bawn/config.json", '{"sandbox": {"image": "t/plain"}}')
    r = runner.bawn("run", "--network", "none", "--", "cat", "/etc/group")
    assert b"apps" not in r.out and b"not applied: the project is not trusted" in r.err, r


def test_dry_run_shows_it(runner):
    make_image(runner, "t/plain")
    r = runner.bawn("run", "--dry-run", "--json", "--image", "t/plain", "--", "true")
    plan = json.loads(r.out)
    assert plan["image"] == "docker.io/t/plain:latest" and plan["image_id"].startswith("sha256:") and plan["inside_uid"] == 0, r
    assert [s["kind"] for s in plan["files"]].count("layer") == 1 and not [s for s in plan["files"] if s["to"] == "/usr"]
    assert b"\nimage " in runner.bawn("run", "--dry-run", "--image", "t/plain", "--", "true").out
    r = runner.bawn("run", "--dry-run", "--image", "t/missing", "--", "true")
    assert r.rc == 125 and b"bawn image pull" in r.err, r


def test_persistent_sandboxes_and_forks(kept):
    """`start`, `exec` and `fork` have it, and as long as one runs the image stays."""
    make_image(kept, "t/plain", config={"User": "app"})
    assert kept.bawn("start", "box", "--network", "none", "--image", "t/plain").rc == 0
    r = kept.bawn("exec", "box", "--", "sh", "-c", "id -u; cat /etc/group; echo kept > ~/note")
    assert r.rc == 0 and r.out.startswith(b"7\nroot:x:0:\napps"), r
    assert kept.bawn("image", "ls", "--json").json()[0]["used"] is True
    r = kept.bawn("image", "rm", "t/plain")
    assert r.rc == 125 and b"a sandbox that runs uses image" in r.err, r
    assert kept.bawn("image", "prune", "--all").rc == 0
    assert kept.bawn("fork", "box", "--start").rc == 0
    r = kept.bawn("exec", "box-1", "--", "sh", "-c", "id -u; cat ~/note")
    assert r.rc == 0 and r.out == b"7\nkept\n", r
    assert kept.bawn("stop", "--all", "-t", "0", "--force").rc == 0
    assert kept.bawn("start", "box").rc == 0 and kept.bawn("exec", "box", "--", "id", "-u").out == b"7\n"
    assert kept.bawn("stop", "--all", "-t", "0", "--force").rc == 0
    assert kept.bawn("image", "rm", "t/plain").rc == 0
    r = kept.bawn("start", "box")
    assert r.rc != 0 and b"t/plain" in r.err, r


def test_a_batch_of_tasks(runner):
    make_image(runner, "t/plain")
    r = runner.bawn("run", "--each", "a,b", "--network", "none", "--json", "--image", "t/plain", "--", "sh", "-c", "cat /etc/group; echo {}")
    logs = [pathlib.Path(t["log"]["out"]).read_text() for t in r.json()["tasks"]]
    assert r.rc == 0 and sorted(logs) == ["root:x:0:\napps:x:8:\na\n", "root:x:0:\napps:x:8:\nb\n"], r


def test_many_layers(runner):
    """As many as docker takes; what is above covers what is below."""
    layers = [base(), *(tar([F("t/n", str(i).encode()), F(f"t/l{i}", b"x")]) for i in range(126))]
    make_image(runner, "t/many", layers, how="")
    r = run(runner, "t/many", "sh", "-c", "cat /t/n; echo; ls /t | busybox wc -l")
    assert r.rc == 0 and r.out.split() == [b"125", b"127"], r

