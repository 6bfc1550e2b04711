# SPDX-License-Identifier: Apache-2.0
"""Programs of the user's home inside: version managers, ~/.local/bin, what is installed inside, and what is said about the rest."""

import json
import os
import shutil

import pytest
import toolchain_homes as homes

SYSTEM = "/usr/local/bin:/usr/bin:/bin"


def run(runner, path, *command, options=(), **kw):
    return runner.bawn("run", "--network", "none", *options, "--", *command, env={"PATH": path, **kw.pop("env", {})}, **kw)


def said(r):
    """Lines of ours, but that about cgroups, which not every machine has for its users."""
    return [line for line in r.err.decode().splitlines() if "limits without a cgroup" not in line]


def shell(runner, path, text, **kw):
    return run(runner, path, "sh", "-c", text, **kw)


@pytest.fixture
def full(runner):
    """A home with many toolchains, all of them in PATH."""
    homes.others(runner)
    parts = [homes.pyenv(runner), homes.uv(runner), homes.cargo(runner), homes.go(runner), homes.sdkman(runner), SYSTEM]
    runner.tool_path = ":".join(parts)
    return runner


def test_path_is_the_same_as_outside(full):
    r = shell(full, full.tool_path, 'echo "$PATH"')
    assert (r.rc, said(r)) == (0, []), r
    first, _, rest = r.out.decode().strip().partition(":")
    assert first.endswith("/.local/inside/bin")
    assert rest == full.tool_path


@pytest.mark.parametrize("command", [
    ["python3", "-c", "import sys; print(sys.prefix)"],
    ["python3.98", "-c", "import sys; print(sys.prefix)"],
    ["cargo", "sh", "-c", "echo a program"],
    ["go", "version"],
    ["gotool", "sh", "-c", "echo a program"],
    ["own-mvn", "sh", "-c", "echo a program"],
], ids=lambda c: c[0])
def test_programs_are_those_of_outside(full, command):
    """By name, with what they need, and with the same result."""
    outside = full.run(*command, env={"PATH": full.tool_path})
    assert outside.rc == 0 and outside.out, outside
    inside = run(full, full.tool_path, *command)
    assert (inside.rc, inside.out) == (0, outside.out), inside


def test_node_and_npm_of_nvm(runner):
    """Of the versions only that in PATH; a package with a program, installed with -g, is found, and is in the sandbox's own home."""
    path = f"{homes.nvm(runner, npm=True)}:{SYSTEM}"
    runner.write("pkg/package.json", json.dumps({"name": "said-hello", "version": "1.0.0", "bin": {"said-hello": "./run.js"}}))
    runner.write("pkg/run.js", '#!/usr/bin/env node\nconsole.log("hello from", process.execPath)\n', 0o755)
    r = shell(runner, path, f'ls {runner.home}/.nvm/versions/node; npm install -g --offline ./pkg >&2 && said-hello && ls "$HOME/.local/inside/bin"')
    assert r.rc == 0, r
    assert r.out.decode() == f"v20.11.1\nhello from {runner.home}/.nvm/versions/node/v20.11.1/bin/node\nsaid-hello\n"
    assert not (runner.home / ".local/inside").exists()


SETUP = """from setuptools import setup
setup(name="demo-pkg", version="1", packages=["demo_pkg"], entry_points={"console_scripts": ["demo-tool=demo_pkg:main"]})
"""


def test_installs_go_to_the_sandboxs_home(kept):
    """pip install --user and go install: found at once, and in a persistent sandbox still there after a restart."""
    kept.write("py/setup.py", SETUP)
    kept.write("py/demo_pkg/__init__.py", 'def main(): print("demo")\n')
    kept.write("go/go.mod", "module example.com/gotool\n\ngo 1.19\n")
    kept.write("go/main.go", 'package main\nimport "fmt"\nfunc main() { fmt.Println("go tool") }\n')
    r = kept.bawn("start", "tools", "--network", "none")
    assert r.rc == 0, r
    install = "cd py && python3 -m pip install -q --user --no-index --no-build-isolation . && cd ../go && go install . && demo-tool && gotool"
    r = kept.bawn("exec", "tools", "--", "sh", "-ec", install)
    assert (r.rc, r.out) == (0, b"demo\ngo tool\n"), r
    assert kept.bawn("stop", "tools").rc == 0
    assert kept.bawn("start", "tools").rc == 0
    r = kept.bawn("exec", "tools", "--", "sh", "-c", "demo-tool && gotool && command -v gotool")
    assert r.out.decode().splitlines()[:2] == ["demo", "go tool"], r
    assert r.out.decode().strip().endswith("/.local/inside/bin/gotool")


def test_cargo_installs_inside(runner):
    cargo = shutil.which("cargo", path=SYSTEM)
    if not cargo:
        pytest.skip("needs the program cargo")
    r = shell(runner, SYSTEM, "cargo init -q --name said /tmp/said && cargo install -q --offline --path /tmp/said && said")
    assert (r.rc, r.out) == (0, b"Hello, world!\n"), r


def test_modules_of_pip_user_are_found(runner):
    """A program in ~/.local/bin with its module in ~/.local/lib, as pip install --user leaves them outside."""
    version = runner.run("/usr/bin/python3", "-c", 'import sys; print("python%d.%d" % sys.version_info[:2])').out.decode().strip()
    runner.write(runner.home / f".local/lib/{version}/site-packages/users_module.py", 'def main(): print("from the home")\n')
    runner.write(runner.home / ".local/bin/users-tool", "#!/usr/bin/python3\nimport users_module\nusers_module.main()\n", 0o755)
    r = run(runner, f"{runner.home}/.local/bin:{SYSTEM}", "users-tool")
    assert (r.rc, r.out) == (0, b"from the home\n"), r


def picture(folder):
    """Everything below but what is Bawn's own, to be compared."""
    found = {}
    for top, dirs, files in os.walk(folder):
        dirs[:] = [d for d in dirs if not top.endswith("/.local/state")]
        for name in [".", *files]:
            path = os.path.join(top, name)
            st = os.lstat(path)
            found[path] = (st.st_mode, st.st_uid, st.st_mtime_ns, st.st_ctime_ns, st.st_size)
    return found


def test_nothing_is_writable(full):
    """The inside does what it likes with all that it finds there; on the host nothing has changed."""
    assert run(full, full.tool_path, "true").rc == 0  # has made folders of Bawn's own
    before = picture(full.home)
    text = f"""chmod -R 777 {full.home}; for f in $(find {full.home} -type f); do echo x >> $f; done; find {full.home} -type d -exec touch {{}}/new \\;
        find {full.home} -delete; touch {full.home}/.cargo/bin/new"""
    r = shell(full, full.tool_path, text)
    assert r.rc == 1 and b".cargo/bin/new': Read-only file system" in r.err, r
    assert picture(full.home) == before


def test_it_can_be_turned_off(full):
    full.write(full.home / ".config/bawn/config.json", json.dumps({"sandbox": {"mounts": {"home_tools": False}}}))
    r = shell(full, full.tool_path, f'echo "$PATH"; ls -A {full.home}/.pyenv 2>/dev/null; command -v own-mvn')
    assert str(full.home / ".pyenv").encode() not in r.out.split(b"\n", 1)[0], r
    assert r.out.count(b"\n") == 1, r


def test_a_project_may_turn_it_off_but_not_on(full):
    full.write(".bawn/config.json", json.dumps({"sandbox": {"mounts": {"home_tools": False}}}))
    assert run(full, full.tool_path, "own-mvn").rc == 127
    full.write(full.home / ".config/bawn/config.json", json.dumps({"sandbox": {"mounts": {"home_tools": False}}}))
    full.write(".bawn/config.json", json.dumps({"sandbox": {"mounts": {"home_tools": True}}}))
    r = run(full, full.tool_path, "own-mvn")
    assert r.rc == 127 and b"not trusted" in r.err, r


def test_another_folder_of_path_is_named_once(runner):
    runner.write(runner.home / "tools/mine", "#!/bin/sh\necho mine\n", 0o755)
    path = f"{runner.home}/tools:{SYSTEM}"
    r = run(runner, path, "true")
    assert said(r) == [f"bawn: '{runner.home}/tools' is in PATH, but the sandbox does not see it; to bring it in: --mount {runner.home}/tools, or "
                       "mounts.extra in the configuration"], r
    assert said(run(runner, path, "true")) == []


def test_a_mounted_folder_stays_in_path(runner):
    runner.write(runner.home / "tools/mine", "#!/bin/sh\necho mine\n", 0o755)
    path = f"{runner.home}/tools:{SYSTEM}"
    for mount in (f"{runner.home}/tools", f"{runner.home}/tools/mine", f"{runner.home}/tools:ro"):
        r = run(runner, path, "mine", options=["--mount", mount])
        assert (r.rc, r.out, said(r)) == (0, b"mine\n", []), r


def test_a_command_that_only_the_host_has_is_named(kept):
    """127, and the way to bring it in, which works."""
    program = kept.write(kept.top / "elsewhere/own-terraform", "#!/bin/sh\necho planned\n", 0o755)
    path = f"{program.parent}:{SYSTEM}"
    r = run(kept, path, "own-terraform")
    hint = f"--mount {program}"
    assert r.rc == 127 and said(r) == [f"bawn: own-terraform: command not found inside the sandbox: the host has it at {program}, which the sandbox does "
                                       f"not see; bring it in with {hint}"], r
    assert run(kept, path, "own-terraform", options=hint.split()).out == b"planned\n"
    assert kept.bawn("start", "box", "--network", "none").rc == 0
    r = kept.bawn("exec", "box", "--", "own-terraform", env={"PATH": path})
    assert r.rc == 127 and f"'bawn stop box' and 'bawn start box {hint}'".encode() in r.err, r
    r = run(kept, path, "nonesuch")
    assert (r.rc, said(r)) == (127, ["bawn: nonesuch: command not found inside the sandbox"]), r


def test_a_link_to_another_place_is_named_once(runner):
    """The program stays out; the others in the folder work."""
    runner.write(runner.home / "src/own/run", "#!/bin/sh\necho own\n", 0o755)
    homes.link(runner, runner.home / "src/own/run", ".local/bin/own")
    runner.write(runner.home / ".local/bin/other", "#!/bin/sh\necho other\n", 0o755)
    path = f"{runner.home}/.local/bin:{SYSTEM}"
    r = run(runner, path, "other")
    assert (r.rc, r.out) == (0, b"other\n"), r
    assert said(r) == [f"bawn: '{runner.home}/.local/bin': 'own' leads to what the sandbox does not see"]
    r = run(runner, path, "own")
    assert r.rc == 127 and b"the host has it at" in r.err, r


def test_a_link_of_the_shell_leads_to_fnm(runner):
    """PATH has a link that fnm makes for each shell, in a folder that is not inside."""
    version = ".local/share/fnm/node-versions/v20.11.1/installation"
    homes.copy(runner, "/usr/bin/env", f"{version}/bin/node")
    runner.write(runner.home / version / "etc/npmrc", homes.MARK)
    runner.mkdir(runner.top / "multishells")
    (runner.top / "multishells/1").symlink_to(runner.home / version)
    r = shell(runner, f"{runner.top}/multishells/1/bin:{SYSTEM}", f'node sh -c "command -v node"; ls {runner.home}/{version}')
    assert r.out.decode() == f"{runner.home}/{version}/bin/node\nbin\n", r


def test_a_persistent_sandbox_has_them(kept):
    homes.cargo(kept)
    path = f"{kept.home}/.cargo/bin:{SYSTEM}"
    for _ in range(2):
        r = kept.bawn("start", "box", "--network", "none", env={"PATH": path})
        assert r.rc == 0, r
        r = kept.bawn("exec", "box", "--", "cargo", "sh", "-c", f"echo fine; ls -A {kept.home}/.cargo")
        assert r.out.decode().split()[0] == "fine" and "credentials.toml" not in r.out.decode(), r
        assert kept.bawn("stop", "box").rc == 0


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "ro"])
def test_in_every_mode(runner, mode):
    homes.cargo(runner)
    r = run(runner, f"{runner.home}/.cargo/bin:{SYSTEM}", "cargo", "sh", "-c", "echo fine", options=["-w", mode])
    assert (r.rc, r.out) == (0, b"fine\n"), r


def test_the_workspace_may_be_in_a_toolchain(runner):
    """It is inside as the run wants it, and the rest of the toolchain is not needed for that."""
    homes.cargo(runner)
    runner.write(runner.home / ".cargo/bin/project/file", "mine\n")
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", "cat file && echo new > file", env={"PATH": f"{runner.home}/.cargo/bin:{SYSTEM}"},
                    cwd=runner.home / ".cargo/bin/project")
    assert (r.rc, r.out) == (0, b"mine\n"), r
    assert (runner.home / ".cargo/bin/project/file").read_text() == "new\n"


def test_a_plan_names_them(full):
    r = run(full, full.tool_path, "true", options=["--dry-run"])
    assert f"  mount      {full.home}/.cargo/bin <- {full.home}/.cargo/bin ro if present".encode() in r.out, r
    assert not os.path.exists(full.home / ".local/state/bawn/seldom")
