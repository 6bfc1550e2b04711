# SPDX-License-Identifier: Apache-2.0
"""The small internet of tests/network, for tests of other folders."""

import importlib.util
import pathlib
import sys

_tests = pathlib.Path(__file__).resolve().parent.parent


def load(path, name):
    """A conftest.py of another folder of tests, as a module."""
    spec = importlib.util.spec_from_file_location(name, _tests / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_module = load("network/conftest.py", "network_conftest")
Net, Done, inter_net = _module.Net, _module.Done, _module.inter_net
sys.path.append(str(_tests / "network"))
import servers  # noqa: E402, F401
