# SPDX-License-Identifier: Apache-2.0
"""Homes with toolchains as their installers lay them out: real programs, copied from the machine, and credentials with a mark."""

import os
import pathlib
import shutil
import subprocess

MARK = "MARK-of-a-credential"


def copy(runner, source, to, mode=0o755):
    runner.write(runner.home / to, pathlib.Path(source).resolve().read_bytes(), mode)


def link(runner, target, name):
    path = runner.home / name
    for parent in reversed(path.parents):
        if not parent.exists():
            runner.mkdir(parent)
    path.symlink_to(target)
    runner.own(path)


def own_all(runner, top):
    for folder, _dirs, files in os.walk(top):
        for name in [".", *files]:
            runner.own(os.path.join(folder, name))


def script(runner, name, text, mode=0o755):
    return runner.write(runner.home / name, text, mode)


def nvm(runner, npm=False):
    """As nvm install does: a version with node and npm, and npm's global configuration in it."""
    version = ".nvm/versions/node/v20.11.1"
    copy(runner, shutil.which("node", path="/usr/local/bin:/usr/bin"), f"{version}/bin/node")
    if npm:
        package = pathlib.Path(shutil.which("npm", path="/usr/local/bin:/usr/bin")).resolve().parent.parent
        shutil.copytree(package, runner.home / version / "lib/node_modules/npm", symlinks=True)
        own_all(runner, runner.home / version / "lib")
        link(runner, "../lib/node_modules/npm/bin/npm-cli.js", f"{version}/bin/npm")
    runner.write(runner.home / version / "etc/npmrc", f"//registry.npmjs.org/:_authToken={MARK}\n", 0o600)
    runner.write(runner.home / ".nvm/versions/node/v18.0.0/bin/node", "another version", 0o755)
    runner.write(runner.home / ".npmrc", f"//registry.npmjs.org/:_authToken={MARK}\n", 0o600)
    return f"{runner.home}/{version}/bin"


def python_at(runner, folder):
    """A Python with a prefix of its own, as a version manager has it."""
    r = runner.run("/usr/bin/python3", "-m", "venv", "--copies", "--without-pip", folder)
    assert r.rc == 0, r


def pyenv(runner):
    """pyenv's shims, which ask its program, which looks for the version."""
    root = runner.home / ".pyenv"
    runner.mkdir(root)
    runner.mkdir(root / "versions")
    python_at(runner, root / "versions/3.99.1")
    runner.write(root / "versions/3.99.1/pip.conf", f"[global]\nindex-url = https://u:{MARK}@example.com/simple\n")
    runner.write(root / "version", "3.99.1\n")
    script(runner, ".pyenv/libexec/pyenv", '#!/usr/bin/env bash\nv=$(cat "$PYENV_ROOT/version"); shift; p=$1; shift\nexec "$PYENV_ROOT/versions/$v/bin/$p" "$@"\n')
    link(runner, "../libexec/pyenv", ".pyenv/bin/pyenv")
    for name in ("python", "python3"):
        script(runner, f".pyenv/shims/{name}",
               f'#!/usr/bin/env bash\nset -e\nexport PYENV_ROOT="{root}"\nexec "{root}/libexec/pyenv" exec "${{0##*/}}" "$@"\n')
    return f"{root}/shims:{root}/bin"


def uv(runner):
    """uv's interpreters, with the links that it makes; its store of credentials is beside them."""
    share = runner.home / ".local/share/uv"
    runner.write(share / "credentials/credentials.toml", f'password = "{MARK}"\n', 0o600)
    runner.mkdir(share / "python")
    python_at(runner, share / "python/cpython-3.98.2-linux-x86_64-gnu")
    link(runner, "cpython-3.98.2-linux-x86_64-gnu", ".local/share/uv/python/cpython-3.98-linux-x86_64-gnu")
    link(runner, share / "python/cpython-3.98-linux-x86_64-gnu/bin/python3", ".local/bin/python3.98")
    return f"{runner.home}/.local/bin"


def cargo(runner):
    """cargo and rustc are rustup, which looks for a toolchain; tokens of registries are in CARGO_HOME."""
    copy(runner, "/usr/bin/env", ".rustup/toolchains/stable/bin/cargo")
    runner.write(runner.home / ".rustup/settings.toml", 'default_toolchain = "stable"\n')
    script(runner, ".cargo/bin/rustup", '#!/bin/sh\nexec "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/stable/bin/${0##*/}" "$@"\n')
    link(runner, "rustup", ".cargo/bin/cargo")
    runner.write(runner.home / ".cargo/credentials.toml", f'[registry]\ntoken = "{MARK}"\n', 0o600)
    runner.write(runner.home / ".cargo/config.toml", f'[registries.x]\ntoken = "{MARK}"\n', 0o600)
    return f"{runner.home}/.cargo/bin"


def go(runner):
    """A Go of its own, and what go install installed; sources and modules may be private."""
    home = subprocess.run(["/usr/bin/go", "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    copy(runner, f"{home}/bin/go", "sdk/go1.19.8/bin/go")
    copy(runner, f"{home}/VERSION", "sdk/go1.19.8/VERSION", 0o644)
    copy(runner, "/usr/bin/env", "go/bin/gotool")
    runner.write(runner.home / "go/src/private/main.go", f"// {MARK}\n")
    runner.write(runner.home / "go/pkg/mod/private@v1/main.go", f"// {MARK}\n")
    return f"{runner.home}/sdk/go1.19.8/bin:{runner.home}/go/bin"


def sdkman(runner):
    """Versions with a link to the current one; maven's own settings have passwords of repositories."""
    copy(runner, "/usr/bin/env", ".sdkman/candidates/maven/3.9.9/bin/own-mvn")
    runner.write(runner.home / ".sdkman/candidates/maven/3.9.9/conf/settings.xml", f"<password>{MARK}</password>\n")
    runner.write(runner.home / ".sdkman/candidates/maven/3.9.9/conf/logging/simplelogger.properties", "x=y\n")
    link(runner, "3.9.9", ".sdkman/candidates/maven/current")
    return f"{runner.home}/.sdkman/candidates/maven/current/bin"


def others(runner):
    """What else a home has."""
    for name in (".ssh/id_ed25519", ".netrc", ".aws/credentials", ".config/gh/hosts.yml", ".gem/credentials", ".m2/settings.xml", ".config/pip/pip.conf",
                 ".docker/config.json", "notes.txt"):
        runner.write(runner.home / name, f"{MARK}\n", 0o600)
