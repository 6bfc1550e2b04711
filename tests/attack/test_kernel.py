# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C5.79, 82: the kernel's surface. One table (probe.c), each call shown to be reachable outside and refused inside."""

import os
import pathlib
import re

import pytest

PROBE_C = pathlib.Path(__file__).with_name("probe.c")
CALLS = re.findall(r'^    \{"([\w-]+)", \w+, "(root|maybe)", \{', PROBE_C.read_text(), re.M)


def test_the_table_is_read_completely(probe, runner):
    """The list that these tests take from the source is the one that was compiled."""
    listed = runner.run(probe, "list").out.decode().split("\n")[:-1]
    assert [f"{name} {who}" for name, who in CALLS] == listed


@pytest.mark.parametrize("name", [name for name, who in CALLS if who == "root"])
def test_call_is_refused(cattack, name):
    """Claim: the call never reaches the kernel's code (82)."""
    try:
        cattack("syscall", name, shown_by_root=True)
    finally:
        for left in ("probe-chr", "probe-blk"):
            (cattack.runner.workspace / left).unlink(missing_ok=True)


@pytest.mark.parametrize("name", [name for name, who in CALLS if who == "maybe"])
def test_call_is_refused_if_the_kernel_has_it(runner, probe, name):
    """Claim: the same for calls that the kernel at hand may have been built without, so that there is nothing to show outside (82)."""
    r = runner.bawn("run", "--", probe, "syscall", name)
    assert r.rc == 3, r


def test_the_plain_personality_may_be_asked_for(inside):
    """What programs need of personality() still works: asking, and Linux itself."""
    assert inside("import ctypes; l = ctypes.CDLL(None); print(l.personality(0xffffffff), l.personality(0))") == "0 0\n"


def test_no_kernel_setting_can_be_opened_for_writing(pyattack):
    """Claim: not one file of /proc/sys can be opened for writing; outside, root can open kernel.core_pattern (DESIGN.md: seen)."""
    pyattack(
        """
        hits = []
        for folder, _, files in os.walk("/proc/sys"):
            for name in files:
                try: os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
                except OSError: continue
                hits.append(name)
        return hits or False
    """,
        shown_by_root=True,
    )


def test_nothing_else_of_proc_or_sys_can_be_opened_for_writing(pyattack):
    """Claim: outside of the processes' own folders, no file of /proc and none of /sys can be opened for writing."""
    pyattack(
        """
        hits = []
        for top in ("/proc", "/sys"):
            for folder, dirs, files in os.walk(top):
                if folder == "/proc": dirs[:] = [d for d in dirs if not d.isdigit() and d not in ("self", "thread-self")]
                for name in files:
                    path = os.path.join(folder, name)
                    if os.path.islink(path): continue
                    try:
                        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                        masked = os.stat(path).st_rdev == os.makedev(1, 3) # with /dev/null
                    except OSError: continue # or it is gone meanwhile, as control groups are
                    if masked: continue
                    hits.append(path)
        return hits or False
    """,
        shown_by_root=True,
    )


READ = [
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/scsi",
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/fs/cgroup",
    "/sys/devices/virtual/powercap",
    "/proc/key-users",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
]


@pytest.mark.parametrize("path", READ)
def test_masked_path(runner, path):
    """Claim: these files are absent or empty inside, where other containers were left through them."""
    look = "import os, sys; p = sys.argv[1]; print(os.listdir(p) if os.path.isdir(p) else os.read(os.open(p, os.O_RDONLY | os.O_NONBLOCK), 64))"
    r = runner.bawn("run", "--", "/usr/bin/python3", "-c", look, path)
    assert r.out in (b"", b"b''\n", b"[]\n"), r
    assert r.rc in (0, 1), r


def test_the_masks_hide_something(root_runner):
    """The outside half of the above, on whatever of it this kernel has."""
    look = "import os, sys; p = sys.argv[1]; print(os.listdir(p) if os.path.isdir(p) else os.read(os.open(p, os.O_RDONLY | os.O_NONBLOCK), 64))"
    shown = [p for p in READ if root_runner.run("/usr/bin/python3", "-c", look, p).out not in (b"", b"b''\n", b"[]\n")]
    assert {"/proc/keys", "/proc/interrupts", "/proc/timer_list"} <= set(shown), shown


def test_devices_are_the_harmless_ones(inside):
    """Claim: /dev holds null zero full random urandom tty and pseudo terminals; no disk, no kvm, no fuse, no mem."""
    names = set(inside("import os; print(*os.listdir('/dev'))").split())
    assert names <= {
        "null",
        "zero",
        "full",
        "random",
        "urandom",
        "tty",
        "pts",
        "ptmx",
        "shm",
        "fd",
        "stdin",
        "stdout",
        "stderr",
        "console",
        "mqueue",
        "core",
    }, names
    assert {"null", "zero", "full", "random", "urandom", "shm"} <= names


def test_cgroup_tree_cannot_be_reached(pyattack):
    """Claim: the limits' own files cannot be written from inside (81)."""
    pyattack(
        """
        hits = []
        for folder, _, files in os.walk("/sys/fs/cgroup"):
            for name in files:
                if name in ("cgroup.procs", "tasks", "memory.limit_in_bytes", "pids.max"):
                    try: os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
                    except OSError: continue
                    hits.append(folder)
        return hits or False
    """,
        shown_by_root=True,
    )


def test_ids_other_than_the_own_are_unmapped(inside):
    """Claim: the map of ids is one line with one id each, so that no other owner can be taken on."""
    out = inside("print(open('/proc/self/uid_map').read(), open('/proc/self/gid_map').read(), sep='')")
    lines = out.split("\n")
    assert [line.split()[2] for line in lines if line.strip()] == ["1", "1"], out


def test_no_module_is_loaded_on_demand(runner):
    """Claim: asking for protocols and formats loads nothing into the host's kernel (82)."""
    before = pathlib.Path("/proc/modules").read_text() if os.path.exists("/proc/modules") else ""
    runner.bawn(
        "run",
        "--",
        "/usr/bin/python3",
        "-c",
        """
import socket
for family in range(64):
    for kind in range(1, 7):
        try: socket.socket(family, kind, 0).close()
        except OSError: pass
""",
    )
    after = pathlib.Path("/proc/modules").read_text() if os.path.exists("/proc/modules") else ""
    names = lambda text: {line.split()[0] for line in text.splitlines()}
    assert names(after) == names(before)


def test_families_of_sockets(inside):
    """Claim: of all address families only unix, inet, inet6 and netlink's route can be opened (82)."""
    out = inside(
        """
        import socket
        found = set()
        for family in range(128):
            for kind in (1, 2, 3, 4, 5, 10):
                for protocol in (0, 1, 2, 6, 16, 17, 58):
                    try: socket.socket(family, kind, protocol).close()
                    except OSError: continue
                    found.add((family, kind, protocol))
        print(sorted({f for f, _, _ in found}), any(k in (3, 10) and f in (2, 10, 17) for f, k, _ in found))
    """
    )
    families, raw = out.strip().rsplit(" ", 1)
    assert set(eval(families)) <= {1, 2, 10, 16} and raw == "False", out


@pytest.mark.parametrize("protocol", range(1, 23))
def test_netlink_is_route_only(inside, protocol):
    """Claim: netfilter, audit, xfrm, generic... netlink families, each a large piece of kernel, are closed (82, nf_tables)."""
    assert (
        inside(
            """
        import socket, sys
        try: socket.socket(16, 3, int(sys.argv[1])); print("open")
        except OSError: print("closed")
    """,
            args=[protocol],
        )
        == "closed\n"
    )
