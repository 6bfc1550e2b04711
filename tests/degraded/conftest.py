# SPDX-License-Identifier: Apache-2.0
"""`deny`: a program that runs another as if the kernel lacked a feature (deny.c)."""

import pathlib
import shutil
import subprocess
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def deny():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-deny.", dir="/var/tmp"))
    top.chmod(0o755)
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-I", HERE.parent.parent / "src"]
    subprocess.run(["gcc", *flags, "-o", top / "deny", HERE / "deny.c", "-lseccomp"], check=True)
    yield top / "deny"
    shutil.rmtree(top)
