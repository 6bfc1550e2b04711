# SPDX-License-Identifier: Apache-2.0
"""Attacks of test_hidden.py by root of a writable system."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from system_walls import attacks_of  # noqa: E402

# A writable system is itself in such a place: without one there is no run.
globals().update(attacks_of("test_hidden", without=["test_without_a_place_to_remember_the_defaults_stay"]))
