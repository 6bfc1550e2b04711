# SPDX-License-Identifier: Apache-2.0
"""Attack tests: tools of the trade. See ../conftest.py for `runner` and `attack`.

    def test_claim(pyattack):
        '''Claim: … (ATTACKS.md C2.15)'''
        pyattack("return open(sys.argv[1]).read()", args=[secret])

    def test_claim(cattack):
        cattack("ptrace-attach", pid)

A probe ends with 0 if the attack worked and with 3 if the system refused it; anything else (a traceback, a missing tool, a
sandbox that did not start) is a broken test, never a success. A probe that only root can show to work outside is shown by
root (`shown_by_root`); probes that could harm the machine are written so that they stop right behind the permission check.
"""

import os
import pathlib
import secrets
import shutil
import subprocess
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
REFUSED = 3
PYTHON = "/usr/bin/python3"

PRELUDE = """
import array, ctypes, errno, fcntl, glob, mmap, os, resource, select, signal, socket, stat, struct, subprocess, sys, time
def attack():
%s
try:
    found = attack()
except OSError as e:
    print("refused:", e)
    sys.exit(3)
if found is False:
    print("refused: nothing found")
    sys.exit(3)
print("worked:", repr(found)[:2000])
"""


def python_probe(body, args=()):
    """argv of a Python probe: `body` returns (worked), returns False or raises OSError (refused)."""
    return [PYTHON, "-c", PRELUDE % textwrap.indent(textwrap.dedent(body), "    "), *map(str, args)]


@pytest.fixture(scope="session")
def pyprobe():
    return python_probe


@pytest.fixture
def marker():
    """A word that occurs nowhere else on this machine."""
    return "bawn-secret-" + secrets.token_hex(12)


@pytest.fixture
def secret(runner, marker):
    """A file of the user's, outside of the workspace, that holds the marker."""
    folder = runner.mkdir(runner.home / ".ssh", 0o700)
    return runner.write(folder / "id_ed25519", marker + "\n", 0o600)


@pytest.fixture(scope="session")
def built_probes():
    top = pathlib.Path(
        subprocess.run(
            ["mktemp", "-d", "/var/tmp/bawn-probe.XXXXXX"], check=True, capture_output=True, text=True
        ).stdout.strip()
    )
    top.chmod(0o755)
    subprocess.run(
        [
            "gcc",
            "-std=gnu11",
            "-D_GNU_SOURCE",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
            top / "probe",
            HERE / "probe.c",
        ],
        check=True,
    )
    yield top
    shutil.rmtree(top)


@pytest.fixture
def probe(runner, built_probes):
    """The compiled probe (probe.c), in the workspace."""
    path = runner.workspace / "probe"
    shutil.copy(built_probes / "probe", path)
    path.chmod(0o755)
    return runner.own(path)


def prove(runner, argv, options, env, outside, inside_args):
    shown = outside.run(*argv, env=env, cwd=runner.workspace)
    assert shown.rc == 0, f"the probe does not work even without the sandbox, so it proves nothing:{shown!r}"
    inside = runner.bawn("run", *options, "--", *(inside_args or argv), env=env)
    assert (
        inside.rc == REFUSED
    ), f"{'the attack works inside' if inside.rc == 0 else 'the probe did not finish'}:{inside!r}"
    return inside


class Root:
    """root on the host, for showing what an attack would do if it had the privileges."""

    @staticmethod
    def run(*argv, env=None, cwd=None):
        from types import SimpleNamespace

        p = subprocess.run(
            argv, env={**os.environ, **(env or {})}, cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL
        )
        return SimpleNamespace(rc=p.returncode, out=p.stdout, err=p.stderr)


def shower(runner, shown_by_root):
    if shown_by_root and os.getuid() != 0:
        pytest.skip("needs root")
    return Root if shown_by_root else runner


@pytest.fixture
def pyattack(runner):
    """pyattack(body, args=…): the Python probe works outside and is refused inside; returns the result from inside."""

    def run(body, *options, args=(), inside_args=None, env=None, shown_by_root=False):
        inside = python_probe(body, inside_args) if inside_args is not None else None
        return prove(runner, python_probe(body, args), options, env, shower(runner, shown_by_root), inside)

    run.runner = runner
    return run


@pytest.fixture
def cattack(runner, probe):
    """cattack(name, *args): the same for a probe of probe.c."""

    def run(name, *args, options=(), env=None, shown_by_root=False, inside_args=None):
        argv = [str(probe), name, *map(str, args)]
        inside = [str(probe), name, *map(str, inside_args)] if inside_args is not None else None
        return prove(runner, argv, options, env, shower(runner, shown_by_root), inside)

    run.runner = runner
    return run


@pytest.fixture
def inside(runner):
    """inside(body, *options): Python in the sandbox; its output. Fails if it does not end with 0."""

    def run(body, *options, args=(), **kw):
        r = runner.bawn("run", *options, "--", PYTHON, "-c", textwrap.dedent(body), *map(str, args), **kw)
        assert r.rc == 0, r
        return r.out.decode(errors="surrogateescape")

    return run
