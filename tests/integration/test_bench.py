# SPDX-License-Identifier: Apache-2.0
"""The benchmark works: every part of it is run once. What it measured is not looked at. Without BAWN_ALL=1 only the parts that need no other program."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from conftest import ROOT

# The large tree of --modes is made twice and takes a minute.
LEFT_OUT = ["--no-modes"] if os.environ.get("BAWN_ALL") else ["--no-modes", "--no-io", "--no-images", "--no-containers", "--no-service", "--no-gateway", "--no-work"]


@pytest.mark.no_sanitizer
def test_every_part_of_the_benchmark_works(bawn, tmp_path):
    report = tmp_path / "report.json"
    bawn = pathlib.Path(os.environ["BAWN_BUILD"], "bawn") if "BAWN_BUILD" in os.environ else bawn  # an installed one has its helpers elsewhere
    done = subprocess.run([sys.executable, ROOT / "bench/run", "--smoke", "--bawn", bawn, "--json", report, *LEFT_OUT], capture_output=True, text=True,
                          env={**os.environ, "BENCH_DIR": "/var/tmp"})
    assert done.returncode == 0, done.stdout + done.stderr
    for label, column in json.loads(report.read_text())["columns"].items():
        assert not column["failed"], (label, done.stderr)
        assert column["cold"]["bawn"]["median"] > 0, (label, column["reasons"])
    assert "Bars" in done.stdout and "met" in done.stdout
