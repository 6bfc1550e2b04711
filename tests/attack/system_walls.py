# SPDX-License-Identifier: Apache-2.0
"""The attacks of another file, by root of a writable system (`--system writable`): a sample of them, all with BAWN_ALL=1.

    globals().update(attacks_of("test_kernel", without={"test_tools_are_read_only"}))
"""

import importlib.util
import json
import pathlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture
def runner(runner):
    """The state is on disk, so it must be possible to make it: some tests make folders of the home as root."""
    runner.mkdir(runner.mkdir(runner.home / ".local") / "state")
    runner.write(runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"system": "writable"}}))
    return runner


def without_rows(test, rows):
    """A copy of its marks in which parameters of these names are missing."""
    marks = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            mark = pytest.mark.parametrize(mark.args[0], [v for v in mark.args[1] if v not in rows]).mark
        marks.append(mark)
    test.pytestmark = marks


def attacks_of(file, without=(), rows=()):
    """without, rows: tests, and parameters of tests, about what a writable system is for."""
    spec = importlib.util.spec_from_file_location(f"system_{file}", HERE / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {name: thing for name, thing in vars(module).items() if not name.startswith("__") and name not in without}
    tests = [thing for name, thing in found.items() if name.startswith("test_")]
    assert set(without) < set(vars(module)) and len(tests) >= 3
    for test in tests:
        if rows:
            without_rows(test, rows)
    return {**found, "runner": runner}
