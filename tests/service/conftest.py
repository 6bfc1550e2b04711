# SPDX-License-Identifier: Apache-2.0
"""The service: bawn-front with a bawnd that is the test (fake_core.py), bawnd with a front that is the test (core_driver.py)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import core_driver  # noqa: E402
import fake_core  # noqa: E402
import http_driver  # noqa: E402


@pytest.fixture
def core(runner):
    c = fake_core.Core(runner)
    yield c
    assert c.end() == (0, b"")


@pytest.fixture
def bawnd(runner):
    """bawnd of the runner; bawnd(running=2) has that in its configuration."""
    made = []

    def make(**conf):
        made.append(core_driver.Core(runner, **conf))
        return made[-1]

    yield make
    for c in made:
        c.stop()


@pytest.fixture
def service(runner):
    s = http_driver.Service(runner)
    yield s
    s.stop()
