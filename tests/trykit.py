# SPDX-License-Identifier: Apache-2.0
"""`make try`: what it says must be all that it promises.

    said = trykit.checked(rc, out)       every promise has its tick; nothing is left out as "not claimed here"
    trykit.weaker(said)                  the limits that it says to have in a weaker form
"""

import os
import pathlib
import re

TRY = pathlib.Path(__file__).resolve().parent.parent / "tools/try"
ID = 1_000_000 + os.getpid()  # of no other test: without a cgroup the limit of processes counts all that an id has, and other tests have some
BY_HAND = "memory by watchdog; processes by rlimit"  # what a run announces without a cgroup


def promises():
    """Of the script, each up to the first variable in it."""
    return [p.partition("$")[0] for p in re.findall(r'^ *verdict "(.*)"$', TRY.read_text(), re.M)]


def checked(rc, out):
    said = out.decode()
    missing = [p for p in promises() if f"\n✓ {p}" not in said]
    assert len(promises()) > 15 and rc == 0 and missing == [] and "- not claimed here" not in said, f"missing: {missing}\n{said}"
    return said


def weaker(said):
    return set(re.findall(r"\((\w+): in a weaker form", said))
