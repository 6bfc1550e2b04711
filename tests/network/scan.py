# SPDX-License-Identifier: Apache-2.0
"""Looks for a secret in every place of a running sandbox, and in what is left of it. Needs root.

    Needles(key)          the forms in which a key may lie somewhere, or only those named; .found(data) names those that are in there
    processes(pid)        the run with this pid: {pid: name} of all processes of its sandbox; the gate and the broker are not of them
    process(pid, n)       finds in its environment, arguments and memory: ["memory of 4711 (node): base64", ...]
    inside(pids, n)       finds in the files that these see and can have written: their homes, the temporary folders, /run
    tree(folder, n)       finds in names and content of the files of a folder
"""

import base64
import os
import pathlib
import re

PAGE = os.sysconf("SC_PAGE_SIZE")
BLOCK = 512 * PAGE  # one page of pagemap
CORE = 32  # so many last characters of a key are looked for: a cut one is a find too
OVERLAP = 512


class Needles:
    def __init__(self, key, *only):
        core = key[-CORE:].encode()
        forms = {
            "raw": core,
            "reversed": core[::-1],
            "hex": core.hex().encode(),
            "HEX": core.hex().upper().encode(),
            "url": "".join(f"%{b:02x}" for b in core).encode(),
            "URL": "".join(f"%{b:02X}" for b in core).encode(),
            "utf-16": core.decode().encode("utf-16-le"),
        }
        for shift in range(3):  # where the core begins within a group of three bytes; the ends depend on the neighbours
            whole = base64.b64encode(b"\0" * shift + core)
            forms[f"base64 at {shift}"] = whole[4 if shift else 0:len(whole) // 4 * 4 - 4]
        self.forms = {form: needle for form, needle in forms.items() if not only or form in only}

    def found(self, data):
        return [name for name, needle in self.forms.items() if needle in data]


# Processes

def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:  # ended meanwhile
        return b""


def parents():
    """{pid: (parent, name)} of all there are."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        m = re.search(rb"\((.*)\) \S (\d+)", read(f"/proc/{pid}/stat"), re.S)
        if m:
            found[int(pid)] = (int(m[2]), m[1].decode("utf-8", "replace"))
    return found


def descendants(pid):
    """{pid: name} of a process and all below it."""
    everybody = parents()
    found = {pid: everybody[pid][1]}
    while more := {p: name for p, (parent, name) in everybody.items() if parent in found and p not in found}:
        found.update(more)
    return found


def processes(pid):
    init = [p for p, name in descendants(pid).items() if name == "bawn-init"]
    assert len(init) == 1, descendants(pid)
    return descendants(init[0])


PRESENT, SWAPPED, OF_A_FILE = 0x80, 0x40, 0x20  # in the last byte of an entry in pagemap
NOT_THERE = bytes(b for b in range(256) if not b & (PRESENT | SWAPPED))
NOT_ITS_OWN = bytes(b for b in range(256) if b in NOT_THERE or b & OF_A_FILE)


def mappings(pid):
    """(start, end, whether its pages come from a file until they are written to)."""
    for line in read(f"/proc/{pid}/maps").decode("utf-8", "replace").splitlines():
        span, rights, _, _, inode = line.split()[:5]
        if rights[0] == "r" and not line.endswith(("[vvar]", "[vvar_vclock]", "[vsyscall]")):
            yield *(int(x, 16) for x in span.split("-")), rights[3] == "p" and inode != "0"


def resident(pid):
    """The parts of its memory that have pages of its own: a runtime may have reserved terabytes, and programs are large."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for start, end, from_file in mappings(pid):
            for at in range(start, end, BLOCK):
                upto = min(at + BLOCK, end)
                entries = os.pread(pagemap.fileno(), (upto - at) // PAGE * 8, at // PAGE * 8)[7::8]
                if entries.translate(None, NOT_ITS_OWN if from_file else NOT_THERE):
                    yield at, upto


def memory(pid, needles):
    """The forms that are in its memory."""
    found = set()
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
            kept, last = b"", None
            for at, upto in resident(pid):
                try:
                    data = os.pread(mem.fileno(), upto - at, at)
                except OSError:  # a mapping of a device, or gone
                    continue
                found.update(needles.found((kept if at == last else b"") + data))
                kept, last = data[-OVERLAP:], upto
    except (FileNotFoundError, ProcessLookupError):
        pass
    return found


def process(pid, name, needles):
    places = {"environment": needles.found(read(f"/proc/{pid}/environ")), "arguments": needles.found(read(f"/proc/{pid}/cmdline")),
              "memory": memory(pid, needles)}
    return [f"{place} of {pid} ({name}): {form}" for place, forms in places.items() for form in sorted(forms)]


# Files

def tree(folder, needles):
    finds = []
    for top, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(top, name)
            data = name.encode("utf-8", "surrogateescape")
            if os.path.islink(path):
                data += os.readlink(path).encode("utf-8", "surrogateescape")
            elif os.path.isfile(path):
                data += b"\n" + read(path)
            finds += [f"{path}: {form}" for form in needles.found(data)]
    return finds


def variable(pid, name):
    """Out of the environment it was started with; None."""
    lines = read(f"/proc/{pid}/environ").decode("utf-8", "surrogateescape").split("\0")
    return next((value for n, _, value in (line.partition("=") for line in lines) if n == name), None)


def has_own_mounts(pid):
    """Of bawn-init, whose parent is the supervisor."""
    return os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink(f"/proc/{parents()[pid][0]}/ns/mnt")


def inside(pids, needles, *folders):
    """Folders as they are inside."""
    homes = {variable(pid, name) for pid in pids for name in ("HOME", "TMPDIR")} - {None}
    shared = not has_own_mounts(min(pids))  # the landlock rung: these folders are the host's, and nothing inside writes to them
    places = [*([] if shared else ["/tmp", "/var/tmp", "/run", "/dev/shm", "/etc"]), *homes, *map(str, folders)]
    return [find for place in places for find in tree(f"/proc/{min(pids)}/root{place}", needles)]
