# SPDX-License-Identifier: Apache-2.0
"""What kept sandboxes of a test have running, and what they must not leave: processes, sockets, control groups, half-made files."""

import contextlib
import os
import pathlib
import re
import signal
import time


def processes():
    return [entry for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def kind(entry):
    """bawn (a client), bawn-keeper, bawn-init, bawn-gate...; None: not ours."""
    name = os.path.basename(os.readlink(entry / "exe").removesuffix(" (deleted)"))
    comm = (entry / "comm").read_text().strip()
    return (comm if comm == "bawn-keeper" else name) if name.startswith("bawn") else None


def ours(runner):
    """{pid: kind} of Bawn's processes of this test: told by HOME, or, where there is no environment (PID 1 inside), by the parent."""
    home, found, rest = f"HOME={runner.home}".encode(), {}, []
    for entry in processes():
        with contextlib.suppress(OSError):
            name = kind(entry)
            if not name:
                continue
            parent = int(re.search(r"^PPid:\s*(\d+)", (entry / "status").read_text(), re.M)[1])
            if home in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = name
            else:
                rest.append((int(entry.name), parent, name))
    found.update({pid: name for pid, parent, name in rest if parent in found})
    return found


def inside(runner):
    """Whatever sees our folders as mounts: what runs in a sandbox of this test, its PID 1 too, whoever its parent is now."""
    found = {}
    for entry in processes():
        with contextlib.suppress(OSError):
            if str(runner.top) in (entry / "mountinfo").read_text():
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
    return found


def settle(condition):
    end = time.monotonic() + 120
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()


def cgroups():
    """All of Bawn's; others come and go meanwhile."""
    return {os.path.join(top, name) for top, names, _ in os.walk("/sys/fs/cgroup") for name in names if name.startswith("bawn-")}


def cgroups_of(pids, before):
    """Of these processes; one that was there before is that of another process, which had the number."""
    return [path for path in cgroups() - before if any(os.path.basename(path).startswith(f"bawn-{pid}-") for pid in pids)]


def leftovers(runner):
    """Sockets, and whatever is being made, removed or held, of processes that are dead."""
    state = runner.home / ".local/state/bawn"
    sockets = [p for p in (state / "run").rglob("*") if p.is_socket() or p.name.startswith("in-")]
    hidden = [p for p in state.rglob(".*") if p.name.startswith((".new", ".gone", ".tmp")) and "home" not in p.relative_to(state).parts]
    return sorted(map(str, [*sockets, *hidden]))


@contextlib.contextmanager
def ended(runner):
    """Keepers that a failed test left are ended before their folder is removed: afterwards no verb would find them."""
    try:
        yield runner
    finally:
        for pid in ours(runner):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        settle(lambda: not ours(runner) and not inside(runner))
