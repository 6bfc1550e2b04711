# SPDX-License-Identifier: Apache-2.0
"""Where tools/agents puts the compiler of sdk/typescript."""

import os
import pathlib

PROGRAMS = pathlib.Path(os.environ.get("BAWN_AGENTS", "/var/tmp/bawn-agents"))
