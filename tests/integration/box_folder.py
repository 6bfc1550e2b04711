# SPDX-License-Identifier: Apache-2.0
"""Folders of kept sandboxes as spec/sandbox-folder.md has them, and the lock of a keeper: cheap sandboxes for tests that only look."""

import contextlib
import fcntl
import json
import os
import pathlib
import struct
import time

F_OFD_SETLK = 37
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def state_of(runner):
    return runner.home / ".local/state/bawn"


def now_ns():
    return time.time_ns()


def make_dirs(runner, path):
    for p in [*reversed(path.parents), path]:
        if not p.exists():
            runner.mkdir(p, 0o700)
    return path


def make_box(runner, name, state=None, **info):
    """A folder as the registry makes it; state None: it never ran."""
    folder = make_dirs(runner, state_of(runner) / "sandboxes" / name)
    for sub in ("home", "log"):
        runner.mkdir(folder / sub, 0o700)
    text = {"version": 1, "id": f"bawn-{name}-20260101T000000Z", "workspace": str(runner.workspace), "options": [], "created_ns": 1,
            "from": None, "project": False}
    runner.write(folder / "sandbox.json", json.dumps({**text, **info}), 0o600)
    runner.write(folder / "lock", b"", 0o600)
    if state is not None:
        text = {"version": 1, "phase": "stopped", "pid": 1, "start_time": 1, "boot": BOOT, "init": 0, "since_ns": now_ns() - 7200 * 10**9,
                "used_ns": now_ns(), "status": 0, "why": "", "engine": "native", "rung": "full", "mode": "overlay", "profile": "dev",
                "memory": 1 << 30, "pids": 256, "cpus_milli": 0, "cgroups": []}
        runner.write(folder / "state.json", json.dumps({**text, **state}), 0o600)
    return folder


@contextlib.contextmanager
def held(folder):
    """The lock of a living keeper."""
    fd = os.open(folder / "lock", os.O_RDWR)
    try:
        fcntl.fcntl(fd, F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        yield
    finally:
        os.close(fd)
