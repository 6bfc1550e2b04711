# SPDX-License-Identifier: Apache-2.0
"""What is made from the specification is what it says."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_types_are_those_of_the_specification():
    done = subprocess.run(["/usr/bin/python3", ROOT / "tools/sdk-types", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_code_has_an_exception(bawn_module):
    problems = bawn_module.types.PROBLEMS
    assert all(issubclass(e, bawn_module.Problem) and e.code == code for code, e in problems.items())
    assert len(set(problems.values())) == len(problems) > 20
    assert bawn_module.NotFound is problems["not_found"]
