# SPDX-License-Identifier: Apache-2.0
"""The small internet of tests/network, for tests of other folders."""

import importlib.util
import pathlib
import sys

_path = pathlib.Path(__file__).resolve().parent.parent / "network" / "conftest.py"
_spec = importlib.util.spec_from_file_location("network_conftest", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
Net, inter_net = _module.Net, _module.inter_net
sys.path.append(str(_path.parent))
import servers  # noqa: E402, F401
