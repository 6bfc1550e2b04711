# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 6, 30: a file shown in another one's place (workspace.substitute) shows neither the hidden one nor replaces any."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import Inside, appear, settle  # noqa: E402
from hiding_ways import MODES, SHOWS_THE_HOST, configure, snapshot, tree  # noqa: E402, F401


@pytest.fixture
def substituted(runner, marker, tree):
    runner.write(".env.sandbox", "SUBSTITUTE\n")
    configure(runner, {"substitute": {".env": ".env.sandbox"}})
    return {**snapshot(runner), ".env.sandbox": None}


@pytest.mark.parametrize("mode", MODES)
def test_a_substitute_is_shown_and_stays(runner, marker, substituted, mode):
    """Claim: workspace.substitute shows the other file, as long as the run lasts, and never under its own name."""
    with Inside(runner, mode) as inside:
        assert inside.ask("read('.env')") == "SUBSTITUTE\n"
        assert inside.ask("read('.env.sandbox')") in ("ENOENT", "EACCES")
        if mode in SHOWS_THE_HOST:
            settle(runner, inside)
        assert inside.ask("read('.env')") == "SUBSTITUTE\n"
        assert inside.ask("read('.env.sandbox')") in ("ENOENT", "EACCES")
    assert (runner.workspace / ".env").read_text() == marker + "\n"
    assert (runner.workspace / ".env.sandbox").read_text() == "SUBSTITUTE\n"


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_substitute_does_not_let_the_real_file_through(runner, marker, substituted, mode):
    """Claim: when an editor saves the hidden file, which takes off what was laid over it, the new one is not shown either."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        for i in range(10):
            appear(runner, ".env", f"{marker} {i}\n")
            got = inside.until("read('.env')", lambda answer: marker not in answer)
            assert got in ("SUBSTITUTE\n", "EACCES", "ENOENT"), got
        settle(runner, inside)
        assert inside.ask("read('.env')") in ("SUBSTITUTE\n", "EACCES", "ENOENT")


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_a_mount_on_a_hidden_name_stays(runner, tree, mode):
    """Claim: what the user asked for by name is not hidden by a pattern, at the start or later."""
    shown = runner.write(runner.home / "shown", "SHOWN\n")
    with Inside(runner, mode, "--mount", f"{shown}:{runner.workspace}/.env") as inside:
        assert inside.ask("read('.env')") == "SHOWN\n"
        settle(runner, inside)
        assert inside.ask("read('.env')") == "SHOWN\n"


@pytest.mark.parametrize("mode", MODES)
def test_writing_to_a_substitute_reaches_neither_file(runner, marker, substituted, mode):
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo evil >.env; echo evil >>.env; rm -f .env; echo evil >.env; true")
    assert r.rc == 0, r
    runner.bawn("apply", "--yes")
    assert snapshot(runner) == {k: v for k, v in substituted.items() if v}
    assert (runner.workspace / ".env.sandbox").read_text() == "SUBSTITUTE\n"


@pytest.mark.parametrize("mode", MODES)
def test_a_substitute_for_a_visible_file_never_replaces_it(runner, tree, mode):
    """Claim: what is shown in place of a file that is not hidden is not taken for a change of the run's."""
    runner.write("alt.txt", "OTHER\n")
    configure(runner, {"substitute": {"readme.txt": "alt.txt"}})
    r = runner.bawn("run", "--workspace", mode, "--", "cat", "readme.txt")
    assert r.out == b"OTHER\n" or r.rc == 64, r
    assert (runner.workspace / "readme.txt").read_text() == "visible\n", r


@pytest.mark.parametrize("mode", MODES)
def test_a_project_cannot_choose_a_substitute(runner, marker, tree, mode):
    """Claim: {"readme.txt": ".env"} of a project that is not trusted shows nothing hidden (6)."""
    configure(runner, {"substitute": {"readme.txt": ".env", "src/a.py": "deep/er/server.pem"}}, ".bawn/config.json", runner.workspace)
    r = runner.bawn("run", "--workspace", mode, "--", "cat", "readme.txt", "src/a.py")
    assert (r.rc, r.out) == (0, b"visible\npass\n"), r
    if os.access(runner.workspace / ".bawn/config.json", os.R_OK):
        trusted = runner.bawn("trust", "--yes")
        if trusted.rc == 0:  # the same by the user's word works, so the setting is read at all
            assert marker.encode() in runner.bawn("run", "--workspace", mode, "--", "cat", "readme.txt").out


PLANTS = {
    "a FIFO": "mkfifo .env",
    "a link out": "ln -s /etc/passwd .env",
    "a link to a visible file": "ln -s readme.txt .env",
    "a hard link to a visible file": "ln readme.txt .env",
    "a folder": "mkdir .env",
    "nothing": ":",
}


@pytest.mark.parametrize("plant", PLANTS)
def test_what_a_run_left_in_the_substitute_s_place_is_no_trap(runner, marker, substituted, plant):
    """Claim: the next run of that name shows the substitute, or says why not: it neither hangs nor writes elsewhere (30)."""
    first = runner.bawn("run", "--workspace", "sync", "--name", "n", "--", "sh", "-c", f"rm -f .env; {PLANTS[plant]}")
    assert first.rc == 0, first
    r = runner.run("timeout", "-s", "KILL", "30", runner.path, "run", "--workspace", "sync", "--name", "n", "--", "cat", ".env", "readme.txt")
    assert (r.rc == 0 and r.out == b"SUBSTITUTE\nvisible\n") or (r.rc == 125 and b".env" in r.err), r
    assert (runner.workspace / "readme.txt").read_text() == "visible\n"
    assert snapshot(runner) == {k: v for k, v in substituted.items() if v}
