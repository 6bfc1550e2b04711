# SPDX-License-Identifier: Apache-2.0
"""Toolchains of the home come in without their credentials, and nothing else of the home comes with them, whatever links, variables and modes say."""

import os

import pytest
import toolchain_homes as homes

SYSTEM = "/usr/local/bin:/usr/bin:/bin"

# Reads all that can be reached below the home by name or by link, and fails where the mark is not found.
LOOK = f'grep -rsl {homes.MARK} "$1" || {{ find -L "$1" -type f 2>/dev/null | xargs -d "\\n" grep -sl {homes.MARK}; }}'


def look(runner):
    return ["sh", "-c", LOOK, "look", str(runner.home)]


@pytest.fixture
def full(attack):
    runner = attack.runner
    homes.others(runner)
    attack.path = ":".join([homes.nvm(runner), homes.pyenv(runner), homes.uv(runner), homes.cargo(runner), homes.go(runner), homes.sdkman(runner), SYSTEM])
    return attack


def test_credentials_stay_out(full):
    """Of npm, pip, cargo, go, uv and maven, and those of the rest of the home."""
    full(look(full.runner), "--network", "none", env={"PATH": full.path})


def test_credentials_that_appear_later_stay_out(kept):
    """A global npmrc and a cargo token that are written while the sandbox runs."""
    path = f"{homes.nvm(kept)}:{homes.cargo(kept)}:{SYSTEM}"
    version = kept.home / ".nvm/versions/node/v20.11.1"
    (version / "etc/npmrc").unlink()
    (version / "etc").rmdir()
    (kept.home / ".cargo/credentials.toml").unlink()
    r = kept.bawn("start", "box", "--network", "none", env={"PATH": path})
    assert r.rc == 0, r
    kept.write(version / "etc/npmrc", homes.MARK)
    kept.write(kept.home / ".cargo/credentials.toml", homes.MARK)
    r = kept.bawn("exec", "box", "--", "sh", "-c", f"test -x {version}/bin/node && {LOOK}", "look", str(kept.home))
    assert (r.rc, r.out) == (123, b""), r


LINKS = {
    "a link to a folder": lambda r: homes.link(r, r.home / ".ssh", ".local/bin/keys"),
    "a link to a file": lambda r: homes.link(r, r.home / ".ssh/id_ed25519", ".local/bin/key"),
    "a link that goes up": lambda r: homes.link(r, "../../.ssh", ".local/bin/keys"),
    "a link by way of a row": lambda r: (homes.link(r, r.home / ".ssh", ".local/share/uv/python/cpython-1"),
                                         homes.link(r, r.home / ".local/share/uv/python/cpython-1/id_ed25519", ".local/bin/key")),
    "a row that is a link": lambda r: (homes.link(r, r.home / ".ssh", ".local/share/pipx/venvs"),
                                       homes.link(r, r.home / ".local/share/pipx/venvs/id_ed25519", ".local/bin/key")),
    "a home of rows that is a link": lambda r: (homes.link(r, r.home / ".aws", ".local/share/claude"),
                                                r.write(r.home / ".aws/versions", homes.MARK),
                                                homes.link(r, r.home / ".local/share/claude/versions", ".local/bin/claude")),
    "a module folder that is a link": lambda r: homes.link(r, r.home / ".ssh", ".local/lib/python3.11/site-packages"),
}


@pytest.mark.parametrize("way", LINKS)
def test_links_bring_nothing_in(attack, way):
    runner = attack.runner
    homes.others(runner)
    runner.write(runner.home / ".local/bin/tool", "#!/bin/sh\n", 0o755)
    LINKS[way](runner)
    attack(look(runner), "--network", "none", env={"PATH": f"{runner.home}/.local/bin:{SYSTEM}"})


FOLDERS = {
    "a toolchain that is a link": (lambda r: homes.link(r, r.home / ".ssh", ".cargo/bin"), ".cargo/bin"),
    "its folder that is a link": (lambda r: (r.write(r.home / ".ssh/bin/key", homes.MARK, 0o755), homes.link(r, r.home / ".ssh", ".cargo")), ".cargo/bin"),
    "a home that is in PATH": (lambda r: None, "."),
    "a folder of secrets that is in PATH": (lambda r: None, ".ssh"),
    "a way up": (lambda r: r.mkdir(r.home / ".cargo"), ".cargo/../.ssh"),
}


@pytest.mark.parametrize("way", FOLDERS)
def test_folders_of_path_bring_nothing_in(attack, way):
    runner = attack.runner
    homes.others(runner)
    make, folder = FOLDERS[way]
    make(runner)
    attack(look(runner), "--network", "none", env={"PATH": f"{runner.home / folder}:{SYSTEM}"})


@pytest.mark.parametrize("value", ["{home}", "{home}/", "{home}/.cargo/..", "{home}/.ssh", "/", "{home}/./"])
def test_variables_bring_nothing_in(attack, value):
    """A variable names another place of a toolchain; of that only the table's parts come in, and never the home itself."""
    runner = attack.runner
    homes.others(runner)
    runner.mkdir(runner.home / "bin")
    env = {name: value.format(home=runner.home) for name in ("CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "NVM_DIR", "GOPATH", "SDKMAN_DIR", "VOLTA_HOME")}
    attack(look(runner), "--network", "none", env={"PATH": f"{runner.home}/bin:{SYSTEM}", **env})


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o775])
def test_what_others_can_write_stays_out(runner, mode):
    """Another user could put a program there. (A group of the user's own may: that is how Debian and Fedora make folders.)"""
    runner.write(runner.home / ".cargo/bin/tool", "#!/bin/sh\necho ran\n", 0o755)
    os.chmod(runner.home / ".cargo/bin", mode)
    if mode == 0o775 and os.getuid() == 0:
        os.chown(runner.home / ".cargo/bin", runner.user.pw_uid, 12345)
    r = runner.bawn("run", "--network", "none", "--", "tool", env={"PATH": f"{runner.home}/.cargo/bin:{SYSTEM}"})
    assert r.rc == 127 and b"/.cargo/bin' can be written by other users" in r.err, r
    os.chown(runner.home / ".cargo/bin", runner.user.pw_uid, runner.user.pw_gid)
    os.chmod(runner.home / ".cargo/bin", 0o755)
    assert runner.bawn("run", "--network", "none", "--", "tool", env={"PATH": f"{runner.home}/.cargo/bin:{SYSTEM}"}).out == b"ran\n"


def test_what_others_own_stays_out(runner):
    if os.getuid() != 0:
        pytest.skip("needs root")
    runner.write(runner.home / ".cargo/bin/tool", "#!/bin/sh\necho ran\n", 0o755)
    os.chown(runner.home / ".cargo", 12345, 12345)
    r = runner.bawn("run", "--network", "none", "--", "tool", env={"PATH": f"{runner.home}/.cargo/bin:{SYSTEM}"})
    assert r.rc == 127 and b"/.cargo' belongs to another user" in r.err, r


def test_a_link_left_in_a_persistent_home_leads_nowhere(kept):
    """The inside puts a link where the next start mounts a toolchain: nothing is mounted or made at its target."""
    homes.cargo(kept)
    env = {"PATH": f"{kept.home}/.cargo/bin:{SYSTEM}"}
    victim = kept.mkdir(kept.top / "victim")
    assert kept.bawn("start", "box", "--network", "none").rc == 0
    r = kept.bawn("exec", "box", "--", "sh", "-c", f'rm -rf "$HOME/.cargo" "$HOME/.local"; ln -s {victim} "$HOME/.cargo" && ln -s {victim} "$HOME/.local"')
    assert r.rc == 0, r
    assert kept.bawn("stop", "box").rc == 0
    r = kept.bawn("start", "box", env=env)
    assert r.rc == 0, r
    assert kept.bawn("exec", "box", "--", "cargo", "sh", "-c", "echo fine").out == b"fine\n"
    assert os.listdir(victim) == []
