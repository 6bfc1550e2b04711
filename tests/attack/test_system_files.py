# SPDX-License-Identifier: Apache-2.0
"""Attacks of test_files.py by root of a writable system."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from system_walls import attacks_of  # noqa: E402

globals().update(attacks_of("test_files", without={"test_tools_are_read_only", "test_existing_tools_cannot_be_opened_for_writing"},
                           rows={"/etc/shadow", "/etc/gshadow", "/var/lib"}))
