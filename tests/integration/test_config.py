# SPDX-License-Identifier: Apache-2.0
"""Configuration as a user meets it: `bawn config show`, `bawn profile ...`, `bawn trust`, and `bawn run` that refuses."""

import json
import os
import pathlib
import pty
import stat

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
USER = ".config/bawn/config.json"
PROJECT = ".bawn/config.json"

# The full configuration of seed 004.
SEED_004 = {
    "sandbox": {
        "enabled": True,
        "runtime": "auto",
        "image": "wonopcode/sandbox:latest",
        "resources": {"memory": "2G", "cpus": 2.0, "pids": 256},
        "network": "limited",
        "mounts": {"workspace_writable": True, "persist_caches": True},
        "bypass_tools": ["todoread", "todowrite"],
        "keep_alive": True,
    },
    "agent": {
        "code": {"sandbox": {"network": "full", "resources": {"memory": "4G"}}},
        "explore": {"sandbox": {"mounts": {"workspace_writable": False}}},
        "trusted": {"sandbox": {"enabled": False}},
    },
}

# The profile of seed 001.
SEED_001 = {
    "engine": "auto",
    "image": "ghcr.io/vybestack/llxprt-code/sandbox:0.9.0",
    "resources": {"cpus": 2, "memory": "4g", "pids": 256},
    "network": "on",
    "sshAgent": "auto",
    "mounts": [],
    "env": {},
}

WIDE = {"sandbox": {"network": "full", "env": {"LD_PRELOAD": "/tmp/x.so"}}, "agent": {"a": {"sandbox": {"enabled": False}}}}


def write(runner, path, content):
    return runner.write(path, content if isinstance(content, (str, bytes)) else json.dumps(content, indent=2))


def show(runner, *args, **kw):
    r = runner.bawn("config", "show", "--json", *args, **kw)
    assert r.rc == 0, r
    return r.json()


def value(runner, name, *args, **kw):
    return show(runner, *args, **kw)["settings"][name]["value"]


def origin(runner, name, *args, **kw):
    return show(runner, *args, **kw)["settings"][name]["origin"]


def test_built_in_values(runner):
    got = show(runner)
    values = {name: s["value"] for name, s in got["settings"].items()}
    assert values == {
        "mode": "auto", "engine": "auto", "profile": None, "image": None, "resources.cpus": 2, "resources.memory": "4g",
        "resources.swap": "0", "resources.pids": 256, "resources.disk": "20g", "resources.tmp": None, "resources.timeout": None, "network": "list",
        "networkAllow": [], "networkDeny": [], "publish": [], "ask": "auto", "askHook": None, "askTimeout": "1m",
        "sshAgent": "auto", "sshKeys": "all", "secrets": "all", "mounts.extra": [], "env": {}, "mounts.workspace_writable": True, "mounts.persist_caches": True, "mounts.home_tools": True, "system": "read-only", "system_ids": "auto", "nested": False,
        "workspace.mode": "direct", "workspace.protect": [], "workspace.skip_ignored": True, "workspace.substitute": {}, "workspace.volumes": [],
        "workspace.rollback": "1g", "bypass_tools": [], "engine_flags": [], "keep_alive": False, "idle_timeout": None, "start_timeout": "2m",
    }
    assert {s["origin"] for s in got["settings"].values()} == {"built-in"}
    assert got["notes"] == []
    assert list(runner.home.iterdir()) == [], "looking must not write"


def test_origin_as_text(runner):
    path = write(runner, runner.home / USER, {"sandbox": {"network": "limited"}})
    r = runner.bawn("config", "show", "--origin")
    assert r.rc == 0, r
    lines = {line.split()[0]: line.split(None, 2)[1:] for line in r.out.decode().splitlines()}
    assert len(lines) == 40
    assert lines["network"] == ["limited", f"user ({path})"]
    assert lines["resources.memory"] == ["4g", "built-in"]


def test_seed_004_unchanged(runner):
    write(runner, runner.home / USER, SEED_004)
    got = show(runner)["settings"]
    assert got["image"]["value"] == "wonopcode/sandbox:latest"
    assert got["resources.memory"]["value"] == "2g"
    assert got["network"]["value"] == "limited"
    assert got["bypass_tools"]["value"] == ["todoread", "todowrite"]
    assert got["keep_alive"]["value"] is True
    assert value(runner, "network", "--agent", "code") == "full"
    assert value(runner, "resources.memory", "--agent", "code") == "4g"
    assert value(runner, "mounts.workspace_writable", "--agent", "explore") is False
    assert value(runner, "mode", "--agent", "trusted") == "off"
    assert origin(runner, "network", "--agent", "code").startswith("agent code, user (")


def test_seed_001_unchanged(runner):
    write(runner, runner.home / ".config/bawn/profiles/mine.json", SEED_001)
    got = show(runner, "--profile", "mine")["settings"]
    assert got["image"]["value"] == SEED_001["image"]
    assert got["network"]["value"] == "full"
    assert got["sshAgent"]["value"] == "auto"
    assert got["profile"] == {"value": "mine", "origin": "flag --profile"}


@pytest.mark.parametrize("name, network, ssh, cpus, memory, pids", [
    ("dev", "full", "auto", 2, "4g", 256),
    ("safe", "none", "off", 2, "4g", 128),
    ("tight", "none", "off", 1, "2g", 64),
    ("offline", "none", "off", 2, "4g", 128),
])
def test_built_in_profiles(runner, name, network, ssh, cpus, memory, pids):
    got = show(runner, "--profile", name)["settings"]
    keys = ("network", "sshAgent", "resources.cpus", "resources.memory", "resources.pids")
    assert [got[k]["value"] for k in keys] == [network, ssh, cpus, memory, pids]
    folder = runner.home / ".config/bawn/profiles"
    assert sorted(p.name for p in folder.iterdir()) == ["dev.json", "offline.json", "safe.json", "tight.json"]
    for file in folder.iterdir():
        assert file.read_bytes() == (ROOT / "profiles" / file.name).read_bytes()
        assert file.stat().st_uid == runner.user.pw_uid


def test_built_in_profiles_are_never_overwritten(runner):
    file = write(runner, runner.home / ".config/bawn/profiles/tight.json", {"resources": {"pids": 3}})
    assert value(runner, "resources.pids", "--profile", "safe") == 128
    assert value(runner, "resources.pids", "--profile", "tight") == 3
    assert json.loads(file.read_text()) == {"resources": {"pids": 3}}


def test_profile_with_read_only_home(user_runner):
    user_runner.home.chmod(0o500)
    got = show(user_runner, "--profile", "tight")["settings"]
    assert got["resources.pids"] == {"value": 64, "origin": "profile tight (built-in)"}
    assert list(user_runner.home.iterdir()) == []


def test_home_unset(runner):
    assert value(runner, "resources.cpus", env={"HOME": None, "XDG_CONFIG_HOME": str(runner.home / "none")}) == 2


def test_precedence(runner):
    environ = {"BAWN_PROFILE": "tight"}
    user = {"sandbox": {"resources": {"memory": "3g"}}}
    assert value(runner, "resources.memory") == "4g"
    write(runner, runner.home / USER, user)
    assert value(runner, "resources.memory") == "3g"
    write(runner, PROJECT, {"sandbox": {"resources": {"memory": "1g"}}})
    assert value(runner, "resources.memory") == "1g"
    user["agent"] = {"a": {"sandbox": {"resources": {"memory": "5g"}}}}
    write(runner, runner.home / USER, user)
    assert value(runner, "resources.memory", "--agent", "a") == "5g"
    assert value(runner, "resources.memory", "--agent", "a", env=environ) == "2g"
    assert value(runner, "resources.memory", "--agent", "a", "--profile", "dev", env=environ) == "4g"


def test_environment_switch(runner):
    assert value(runner, "mode", env={"BAWN_SANDBOX": "false"}) == "off"
    assert value(runner, "mode", env={"BAWN_SANDBOX": "require"}) == "require"
    assert value(runner, "engine", env={"BAWN_SANDBOX": "podman"}) == "podman"
    assert value(runner, "mode", env={"SANDBOX_FLAGS": "--x", "SANDBOX_SET_UID_GID": "true"}) == "auto"


def test_untrusted_project_only_narrows(runner):
    file = write(runner, PROJECT, '{\n  "sandbox": {\n    "resources": {"pids": 10},\n    "network": "full"\n  }\n}\n')
    got = show(runner)
    assert got["settings"]["resources.pids"]["value"] == 10
    assert got["settings"]["network"] == {"value": "list", "origin": "built-in"}
    assert got["notes"] == [f"{file}:4:16: network 'full' not applied: the project is not trusted (see 'bawn trust')"]
    text = runner.bawn("config", "show")
    assert f"bawn: {got['notes'][0]}\n".encode() in text.err


def test_trust_and_change(runner):
    write(runner, PROJECT, WIDE)
    assert value(runner, "network") == "list"
    refused = runner.bawn("trust")
    assert refused.rc == 64 and b"--yes" in refused.err, refused
    assert b"network 'full'" in refused.out and b"LD_PRELOAD" in refused.out and b"mode 'off'" in refused.out
    assert value(runner, "network") == "list"

    granted = runner.bawn("trust", "--yes")
    assert granted.rc == 0, granted
    assert value(runner, "network") == "full"
    assert value(runner, "env") == {"LD_PRELOAD": "/tmp/x.so"}
    assert value(runner, "mode", "--agent", "a") == "off"
    records = runner.home / ".local/state/bawn/trust"
    assert stat.S_IMODE(records.stat().st_mode) == 0o600

    write(runner, PROJECT, json.dumps(WIDE) + "\n")
    assert value(runner, "network") == "list", "changed content is untrusted again"
    assert runner.bawn("trust", "--show", "--json").json()["state"] == "untrusted"


@pytest.mark.parametrize("project", [{"sandbox": {"profile": "small"}}, {"agent": {"claude": {"sandbox": {"profile": "small"}}}}], ids=["all", "agent"])
def test_trust_names_a_profile_in_place_of_the_users(runner, project):
    """Claim: trust never loosens what it did not show: a profile of the project's that replaces the user's loses what only that one narrows."""
    config = runner.home / ".config/bawn"
    runner.write(config / "config.json", '{"sandbox": {"profile": "tight"}}')
    runner.write(config / "profiles/tight.json", '{"network": "none", "workspace": {"mode": "overlay"}}')
    runner.write(config / "profiles/small.json", '{"resources": {"memory": "1g"}}')
    runner.write(".bawn/config.json", json.dumps(project))
    r = runner.bawn("trust", "--show")
    assert r.rc == 0 and b"profile 'small' in place of your 'tight'" in r.out and b"nothing that needs trust" not in r.out, r
    project = json.dumps(project).replace("small", "tight")
    runner.write(".bawn/config.json", project)
    assert b"nothing that needs trust" in runner.bawn("trust", "--show").out


def test_trust_show_and_revoke(runner):
    assert runner.bawn("trust", "--show", "--json").json()["state"] == "none"
    assert runner.bawn("trust", "--yes").rc == 64
    write(runner, PROJECT, WIDE)
    state = runner.bawn("trust", "--yes", "--json").json()
    assert state["state"] == "trusted" and len(state["sha256"]) == 64
    assert len(state["widens"]) == 3, state
    assert runner.bawn("trust", "--revoke").rc == 0
    assert value(runner, "network") == "list"
    assert runner.bawn("trust", "--revoke", "--json").json()["state"] == "none"


@pytest.mark.parametrize("answer, trusted", [(b"y\n", True), (b"n\n", False), (b"\n", False)])
def test_trust_asks_on_a_terminal(runner, answer, trusted):
    write(runner, PROJECT, WIDE)
    master, slave = pty.openpty()
    try:
        os.write(master, answer)
        r = runner.bawn("trust", stdin=slave)
    finally:
        os.close(master)
        os.close(slave)
    assert b"[y/N]" in r.err
    assert (r.rc == 0) == trusted, r
    assert (value(runner, "network") == "full") == trusted


def test_trust_escapes_what_it_shows(runner):
    write(runner, PROJECT, {"sandbox": {"env": {"A": "\x1b]0;x\x07"}}})
    r = runner.bawn("trust", "--show")
    assert r.rc == 0 and b"\x1b" not in r.out and b"\x07" not in r.out, r


@pytest.mark.parametrize("plant", ["symlink", "folder symlink", "fifo", "directory"])
def test_planted_project_file(runner, plant):
    target = write(runner, runner.top / "elsewhere/config.json", WIDE)
    file = runner.workspace / PROJECT
    if plant == "folder symlink":
        file.parent.symlink_to(target.parent)
    else:
        runner.mkdir(file.parent)
    if plant == "symlink":
        file.symlink_to(target)
    elif plant == "fifo":
        os.mkfifo(file)
        runner.own(file)
    elif plant == "directory":
        runner.mkdir(file)
    r = runner.bawn("config", "show")
    assert r.rc == 64 and str(file).encode() in r.err, r


BAD = {
    "unknown key": ('{\n  "sandbox": {\n    "netwrok": "none"\n  }\n}', ":3:5: unknown key 'sandbox.netwrok' (did you mean 'network'?)"),
    "wrong type": ('{"sandbox": {"network": 1}}', ":1:25: sandbox.network: must be a string, not a number"),
    "number as memory": ('{"sandbox": {"resources": {"memory": 4}}}', "sandbox.resources.memory: must be a string, not a number"),
    "-1": ('{"sandbox": {"resources": {"memory": "-1"}}}', "sandbox.resources.memory: '-1' is not a size"),
    "0": ('{"sandbox": {"resources": {"memory": "0"}}}', "sandbox.resources.memory: size '0' must be more than 0"),
    "999999999t": ('{"sandbox": {"resources": {"memory": "999999999t"}}}', "is too large"),
    "1.5.2": ('{"sandbox": {"resources": {"memory": "1.5.2"}}}', "'1.5.2' is not a size"),
    "negative cpus": ('{"sandbox": {"resources": {"cpus": -1}}}', "sandbox.resources.cpus: CPU count must be between"),
    "NaN": ('{"sandbox": {"resources": {"cpus": NaN}}}', "not valid JSON"),
    "duplicate": ('{"sandbox": {"network": "none",\n "network": "full"}}', ":2:2: key 'network' appears twice"),
    "10 MB": (b" " * 10_000_000 + b"{}", ":1:1: the file has more than 1048576 bytes"),
    "nesting": ("[" * 100_000, ":1:33: nested too deeply"),
    "bad UTF-8": (b'{"sandbox": {"image": "\xff"}}', ":1:24: byte 0xff is not valid UTF-8"),
    "NUL": (b'{"sandbox": {"image": "\x00"}}', ":1:24: a NUL byte"),
    "BOM": (b"\xef\xbb\xbf{}", ":1:1: the file starts with a byte order mark"),
    "syntax": ('{"sandbox": }', ":1:13: not valid JSON"),
}


@pytest.mark.parametrize("level", ["user", "project"])
@pytest.mark.parametrize("case", BAD)
def test_bad_file(user_runner, level, case):
    content, message = BAD[case]
    file = write(user_runner, user_runner.home / USER if level == "user" else PROJECT, content)
    r = user_runner.bawn("config", "show")
    assert r.rc == 64, r
    assert str(file).encode() in r.err and message.encode() in r.err, r
    assert r.out == b""


@pytest.mark.parametrize("level", ["user", "project"])
def test_bad_file_starts_nothing(runner, level):
    write(runner, runner.home / USER if level == "user" else PROJECT, '{"sandbox": {"netwrok": "none"}}')
    r = runner.bawn("run", "--", "touch", "started")
    assert r.rc == 64 and b"unknown key 'sandbox.netwrok'" in r.err, r
    assert not (runner.workspace / "started").exists()


def test_profile_ls(runner):
    write(runner, runner.home / ".config/bawn/profiles/beefy.json", {"resources": {"cpus": 8}})
    write(runner, runner.home / ".config/bawn/profiles/broken.json", "{")
    got = {p["name"]: p for p in runner.bawn("profile", "ls", "--json").json()}
    assert sorted(got) == ["beefy", "broken", "dev", "offline", "safe", "tight"]
    assert got["beefy"]["settings"] == {"resources.cpus": 8}
    assert got["tight"]["source"] == "built-in"
    assert "not valid JSON" in got["broken"]["error"]
    text = runner.bawn("profile", "ls")
    assert text.rc == 0 and b"\ntight            none     off       1     2g      64     built-in\n" in text.out, text


def test_profile_show(runner):
    got = runner.bawn("profile", "show", "--json", "dev").json()
    assert got["settings"]["network"] == "full" and got["settings"]["resources.pids"] == 256
    assert b"resources.memory           2g\n" in runner.bawn("profile", "show", "tight").out
    r = runner.bawn("profile", "show", "tigt")
    assert r.rc == 64 and b"did you mean 'tight'?" in r.err, r


def test_profile_new(runner):
    r = runner.bawn("profile", "new", "mine", "--from", "safe")
    file = runner.home / ".config/bawn/profiles/mine.json"
    assert r.rc == 0 and r.out == f"{file}\n".encode(), r
    assert file.read_bytes() == (ROOT / "profiles/safe.json").read_bytes()
    write(runner, file, {"resources": {"pids": 5}})
    again = runner.bawn("profile", "new", "--from", "dev", "mine")
    assert again.rc == 64 and b"already exists" in again.err, again
    assert json.loads(file.read_text()) == {"resources": {"pids": 5}}
    assert value(runner, "resources.pids", "--profile", "mine") == 5
    for name in ("../x", "a b", "", ".x", "x" * 65):
        assert runner.bawn("profile", "new", name).rc == 64


def test_profile_check(runner):
    good = write(runner, "good.json", SEED_001)
    bad = write(runner, "bad.json", {"network": "ful"})
    worse = write(runner, "worse.json", '{"resources": {"memroy": "1g"}}')
    assert runner.bawn("profile", "check", good).rc == 0
    r = runner.bawn("profile", "check", bad, good, worse, "missing.json")
    assert r.rc == 64
    assert f"{good}: good".encode() in r.out
    for message in ("bad.json:2:14: network: ", "did you mean 'full'?", "worse.json:1:16: unknown key 'resources.memroy'", "missing.json: there is no such file"):
        assert message.encode() in r.err, r


SCHEMAS = {name: json.loads((ROOT / "spec" / name).read_text()) for name in ("profile.schema.json", "config.schema.json")}


def schema_keys(file, part, prefix=""):
    """Every dotted key that this part of a schema allows."""
    for key, below in part["properties"].items():
        where = file
        if "$ref" in below:
            target, _, name = below["$ref"].partition("#/$defs/")
            where = target or file
            below = SCHEMAS[where]["$defs"][name]
        if "properties" in below:
            yield from schema_keys(where, below, f"{prefix}{key}.")
        elif key != "$schema":
            yield prefix + key


def nested(key, value):
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def test_schemas_name_the_keys_that_are_read(user_runner):
    """A key of the schema must be known to the loader (null is of the wrong type for all), and the other way round."""
    sandbox = set(schema_keys("config.schema.json", SCHEMAS["config.schema.json"]["$defs"]["sandbox"]))
    for key in schema_keys("profile.schema.json", SCHEMAS["profile.schema.json"]):
        r = user_runner.bawn("profile", "check", write(user_runner, "p.json", nested(key, None)))
        assert r.rc == 64 and b"must be" in r.err, (key, r)
    for key in sandbox:
        write(user_runner, user_runner.home / USER, {"sandbox": nested(key, None)})
        r = user_runner.bawn("config", "show")
        assert r.rc == 64 and b"must be" in r.err, (key, r)
    (user_runner.home / USER).unlink()
    assert set(show(user_runner)["settings"]) <= sandbox
