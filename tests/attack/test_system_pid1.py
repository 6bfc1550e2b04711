# SPDX-License-Identifier: Apache-2.0
"""Attacks of test_pid1.py by root of a writable system."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from system_walls import attacks_of  # noqa: E402

globals().update(attacks_of("test_pid1"))
