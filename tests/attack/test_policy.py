# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C1: the sandbox cannot be turned off or widened from inside, nor by what a run left behind."""

import json
import os
import shutil

import pytest


def sandboxed(runner, secret, *options, **kw):
    """Asserts that a run with these options does not see the secret; returns the result."""
    r = runner.bawn("run", *options, "--", "sh", "-c", 'cat "$1" 2>/dev/null; echo done', "sh", str(secret), **kw)
    assert b"bawn-secret" not in r.out + r.err, r
    return r


def test_no_sandbox_is_refused_without_a_person(runner, secret):
    """Claim: an agent that retries with --no-sandbox gets a refusal, not a shell (1)."""
    confirmed = runner.bawn("run", "--no-sandbox", "--yes-unsandboxed", "--", "cat", secret)
    assert b"bawn-secret" in confirmed.out, confirmed
    r = runner.bawn("run", "--no-sandbox", "--", "cat", secret)
    assert r.rc in (64, 125) and b"bawn-secret" not in r.out, r
    assert r.err.startswith(b"bawn:"), r


@pytest.mark.parametrize("value", ["false", "none", "0", "off"])
def test_no_sandbox_by_environment_is_refused_without_a_person(runner, secret, value):
    """Claim: the same for the variable that turns the sandbox off (1)."""
    r = runner.bawn("run", "--", "cat", secret, env={"BAWN_SANDBOX": value})
    assert r.rc in (64, 125) and b"bawn-secret" not in r.out, r


def copy_of_bawn(runner, bawn):
    """Bawn's programs in the workspace, so that they can be run inside."""
    folder = runner.mkdir(runner.workspace / "bin")
    for name in ("bawn", "bawn-init"):
        if (bawn.parent / name).exists():
            shutil.copy(bawn.parent / name, folder / name)
            os.chmod(folder / name, 0o755)
    return folder / "bawn"


@pytest.mark.parametrize(
    "options",
    [["--no-sandbox", "--yes-unsandboxed"], ["--engine", "none", "--yes-unsandboxed"], []],
    ids=["off", "none", "on"],
)
def test_bawn_inside_bawn_gives_nothing_back(runner, bawn, secret, options):
    """Claim: a nested Bawn, whatever its flags, stays within the outer sandbox (1, 12)."""
    nested = copy_of_bawn(runner, bawn)
    command = [nested, "run", *options, "--", "cat", secret]
    outside = runner.run(nested, "run", "--no-sandbox", "--yes-unsandboxed", "--", "cat", secret)
    assert b"bawn-secret" in outside.out, outside
    inside = runner.bawn("run", "--", *command)
    assert inside.rc != 0 and b"bawn-secret" not in inside.out, inside


LOOSE = {
    "off": lambda top: {"sandbox": {"enabled": False}},
    "engine": lambda top: {"sandbox": {"runtime": "none"}},
    "mounts": lambda top: {"sandbox": {"mounts": {"extra": [{"from": str(top)}]}}},
    "mounts-list": lambda top: {"sandbox": {"mounts": [{"from": str(top)}]}},
    "bypass": lambda top: {"sandbox": {"bypass_tools": ["sh", "cat"]}},
    "agent": lambda top: {"agent": {"default": {"sandbox": {"enabled": False}}}},
    "network": lambda top: {"sandbox": {"network": "full"}},
}


@pytest.mark.parametrize("kind", LOOSE)
def test_a_configuration_made_inside_does_not_loosen_the_next_run(runner, secret, kind):
    """Claim: a file that did not exist at the first start is no policy at the second (2, 6, 8: CVE-2026-25725)."""
    text = json.dumps(LOOSE[kind](runner.home))
    first = runner.bawn("run", "--", "sh", "-c", 'mkdir -p .bawn && printf %s "$1" > .bawn/config.json', "sh", text)
    if not (runner.workspace / ".bawn" / "config.json").exists():
        runner.write(".bawn/config.json", text)  # protected: then as a project that came this way
    r = sandboxed(runner, secret)
    assert (r.rc == 0 and r.out == b"done\n") or (r.rc in (64, 125) and r.err.startswith(b"bawn:")), (first, r)
    if r.rc == 0 and kind != "agent":  # nobody asked for that agent
        assert b"bawn:" in r.err, "what was not granted is said"


def config_of(runner, *options):
    r = runner.bawn("config", "show", "--json", *options)
    assert r.rc == 0, r
    return r.json()


def test_a_project_may_narrow(runner):
    """Claim: a project's file that only narrows is in force without trust."""
    runner.write(".bawn/config.json", json.dumps({"sandbox": {"resources": {"pids": 17}}}))
    r = runner.bawn(
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        "import os\nn=0\ntry:\n while n<60:\n  n+=1\n  if os.fork()==0: import time; time.sleep(60); os._exit(0)\nexcept OSError: pass\nprint(n)",
    )
    assert r.rc == 0 and int(r.out) <= 17, r


def test_trust_is_for_the_content_that_was_trusted(runner, secret):
    """Claim: what a run changes after `bawn trust` is not trusted any more (8)."""
    loose = {"sandbox": {"enabled": False}}
    runner.write(".bawn/config.json", json.dumps({"sandbox": {"resources": {"pids": 50}}}))
    trusted = runner.bawn("trust")
    if trusted.rc != 0:
        trusted = runner.bawn("trust", "--yes")
    assert trusted.rc == 0, trusted
    runner.bawn("run", "--", "sh", "-c", 'printf %s "$1" > .bawn/config.json', "sh", json.dumps(loose))
    runner.write(".bawn/config.json", json.dumps(loose))
    sandboxed(runner, secret)


def test_trust_cannot_be_given_from_inside(runner, bawn, secret):
    """Claim: `bawn trust` run inside does not reach the user's trust store (8, 12)."""
    nested = copy_of_bawn(runner, bawn)
    runner.write(".bawn/config.json", json.dumps({"sandbox": {"enabled": False}}))
    runner.bawn("run", "--", nested, "trust")
    runner.bawn("run", "--", nested, "trust", "--yes")
    sandboxed(runner, secret)


def test_a_configuration_that_is_a_link_is_not_followed(runner, secret, marker):
    """Claim: neither .bawn nor config.json may be a link, and the target's text shows up nowhere (3, 15)."""
    runner.mkdir(runner.workspace / ".bawn")
    (runner.workspace / ".bawn" / "config.json").symlink_to(secret)
    sandboxed(runner, secret)
    shutil.rmtree(runner.workspace / ".bawn")
    folder = runner.mkdir(runner.home / "elsewhere")
    runner.write(folder / "config.json", json.dumps({"sandbox": {"env": {"LEAK": marker}}}))
    (runner.workspace / ".bawn").symlink_to(folder)
    r = runner.bawn("run", "--", "env")
    assert marker.encode() not in r.out + r.err, r


def test_helpers_are_not_taken_from_the_workspace_or_path(runner):
    """Claim: Bawn starts no program that it finds through the working directory or PATH (7)."""
    proof = runner.top / "proof"
    runner.own(runner.top)
    names = [
        "bawn-init",
        "bawn",
        "bwrap",
        "newuidmap",
        "newgidmap",
        "mount",
        "umount",
        "sh",
        "bash",
        "ip",
        "git",
        "rg",
        "true",
        "unshare",
        "setpriv",
    ]
    for folder in ("", "bin/"):
        for name in names:
            runner.write(folder + name, f"#!/bin/bash\necho {name} >> {proof}\n", 0o755)
    for name in ("libc.so.6", "libjansson.so.4"):
        runner.write(name, b"not a library")
    outside = runner.run("./bawn-init")
    assert outside.rc == 0 and proof.read_text() == "bawn-init\n", "started directly, the trap works"
    proof.unlink()
    path = f".:{runner.workspace}/bin::{runner.workspace}:/usr/bin:/bin"
    r = runner.bawn("run", "--", "/usr/bin/true", env={"PATH": path})
    assert r.rc == 0, r
    assert not proof.exists(), proof.read_text()


POISON = [
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "LD_DEBUG_OUTPUT",
    "GCONV_PATH",
    "LOCPATH",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "BASH_FUNC_ls%%",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_CONFIG_COUNT",
    "GIT_DIR",
    "GIT_ASKPASS",
    "GIT_EXEC_PATH",
    "SSH_AUTH_SOCK",
    "SSH_ASKPASS",
    "SSH_CONNECTION",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "TMUX",
    "DOCKER_HOST",
    "KUBECONFIG",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "NPM_TOKEN",
    "http_proxy",
    "HTTPS_PROXY",
    "SUDO_COMMAND",
    "MAIL",
    "IFS",
    "CDPATH",
    "GLOBIGNORE",
    "RUSTC_WRAPPER",
    "CC",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "PIP_INDEX_URL",
    "CARGO_HOME",
]


def environment_inside(runner, env, *options):
    r = runner.bawn("run", *options, "--", "env", "-0", env=env)
    assert r.rc == 0, r
    return dict(item.split(b"=", 1) for item in r.out.split(b"\0") if item)


def test_the_host_s_environment_does_not_pass(runner, marker):
    """Claim: variables that make programs run code, and variables that hold secrets, do not pass (9, 72, 83)."""
    # LD_* and GCONV_PATH name files that do not exist, so that Bawn itself starts whatever it is linked with.
    env = {name: f"/nonexistent/{marker}" for name in POISON}
    assert len([v for v in runner.run("env", "-0", env=env).out.split(b"\0") if marker.encode() in v]) == len(POISON)
    found = environment_inside(runner, env)
    assert {k.decode() for k, v in found.items() if marker.encode() in v} == set()
    found = environment_inside(runner, env, "--network", "none")  # with a network some are set to what leads to the gate
    assert not {k for k in found if k.decode() in POISON}, found


@pytest.mark.parametrize("name", ["LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS", "GIT_SSH_COMMAND", "GITHUB_TOKEN"])
def test_a_variable_passes_when_named(runner, marker, name):
    """Claim: each of them passes if, and only if, the user names it (83)."""
    assert environment_inside(runner, {name: f"/x/{marker}"}, "--env", name)[name.encode()].decode() == f"/x/{marker}"
    assert environment_inside(runner, {}, "--env", f"{name}=/y/{marker}")[name.encode()].decode() == f"/y/{marker}"


def test_exported_shell_functions_do_not_pass(runner):
    """Claim: no function of the user's shell replaces a command inside (9)."""
    env = {"BASH_FUNC_ls%%": "() { echo owned; }"}
    assert runner.run("bash", "-c", "ls", env=env).out == b"owned\n"
    assert b"owned" not in runner.bawn("run", "--", "bash", "-c", "ls", env=env).out


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/home", "/root", "/proc", "/dev", "/var", "/tmp/.."])
def test_a_working_directory_that_is_the_system_is_no_workspace(runner, folder):
    """Claim: the folder that an agent chose to stand in does not become writable if it is the system itself (11: CVE-2025-59532)."""
    if not os.access(folder, os.X_OK):
        pytest.skip("needs root")
    for options, cwd in ((["-C", folder], None), ([], folder)):
        r = runner.bawn("run", *options, "--", "sh", "-c", "touch ./bawn-was-here && echo wrote", cwd=cwd)
        assert not os.path.exists(os.path.join(folder, "bawn-was-here")), r
        assert r.rc in (64, 125) and r.err.startswith(b"bawn:"), r


def test_home_itself_is_no_workspace_by_accident(runner, secret):
    """Claim: started in the home folder, the keys in it are not handed over (11, 75)."""
    r = runner.bawn("run", "--", "sh", "-c", "cat .ssh/id_ed25519", cwd=runner.home)
    assert b"bawn-secret" not in r.out, r


def test_only_private_places_and_the_workspace_can_be_written(runner, inside):
    """Claim: whatever the command changes to, only its private areas and the workspace take a write (11)."""
    out = inside(
        """
        import os
        found = []
        for folder, dirs, files in os.walk("/"):
            dirs[:] = [d for d in dirs if os.path.join(folder, d) not in ("/proc", "/usr") and not os.path.islink(os.path.join(folder, d))]
            try: os.close(os.open(os.path.join(folder, ".w"), os.O_CREAT | os.O_WRONLY, 0o600)); os.unlink(os.path.join(folder, ".w"))
            except OSError: continue
            found.append(folder)
        print("\\n".join(found))
    """
    )
    allowed = (
        str(runner.workspace),
        "/workspace",
        "/tmp",
        "/dev/shm",
        "/run",
        "/var/tmp",
        "/home",
        str(runner.home),
        "/root",
    )
    assert all(line.startswith(allowed) for line in out.split()), out
    assert str(runner.workspace) in out


def test_files_made_in_private_places_reach_nobody(runner, marker):
    """Claim: what is written outside of the workspace is gone after the run, and was never on the host (11)."""
    r = runner.bawn(
        "run",
        "--",
        "sh",
        "-c",
        f"echo x > /tmp/{marker}; echo x > ~/{marker}; echo x > /dev/shm/{marker}; ls /tmp ~ /dev/shm",
    )
    assert r.out.count(marker.encode()) == 3, r
    for folder in ("/tmp", "/dev/shm", runner.home, "/var/tmp"):
        assert not os.path.exists(f"{folder}/{marker}")
    again = runner.bawn("run", "--", "sh", "-c", "ls -A /tmp ~ /dev/shm")
    assert marker.encode() not in again.out, again


def test_the_user_s_own_state_is_out_of_reach(runner, marker):
    """Claim: configuration, trust and state of Bawn itself cannot be read or written from inside (12)."""
    folder = runner.home
    for part in (".config", "bawn"):
        folder = runner.mkdir(folder / part)
    runner.write(folder / "config.json", json.dumps({"sandbox": {"env": {"OWN": marker}}}))
    r = runner.bawn(
        "run",
        "--",
        "sh",
        "-c",
        'cat "$1" 2>/dev/null; echo "{}" > "$1"; mkdir -p "$2/.config/bawn"; echo "{}" > "$1"; exit 0',
        "sh",
        folder / "config.json",
        runner.home,
    )
    assert marker.encode() not in r.out, r
    assert marker in (folder / "config.json").read_text()


def test_repeated_failures_do_not_weaken(runner, secret):
    """Claim: a command that fails on purpose is not retried outside, nor does it ask anybody for more (14)."""
    for _ in range(5):
        r = runner.bawn("run", "--", "sh", "-c", f"cat {secret}; exit 126")
        assert r.rc == 126 and b"bawn-secret" not in r.out, r
