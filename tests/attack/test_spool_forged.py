# SPDX-License-Identifier: Apache-2.0
"""The spool of direct mode (src/workspace/run/spool.h) has old contents of files, which an earlier command may have written."""
import pathlib
import signal
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protecting import DIRECT, repository, tidy  # noqa: E402, F401

HEAD, SIZE, CONTENT, LAST = 56, 1024 * 1024, 64 * 1024, 64 * 1024 - 500
LIE = b"#!/bin/sh\necho owned\n"
HOOK = ".git/hooks/pre-commit"


def entry(seq, path, content):
    return (struct.pack("=QIIIIQQQQ", seq, 0o100755, 0, len(path), len(content), len(content), 0, 0, 0) + path + b"\0" + content
            + struct.pack("=Q", seq))


def length(path, content):
    return HEAD + len(path) + 1 + content + 8


@pytest.mark.parametrize("end", ["end", "kill"])
def test_old_content_is_no_entry(runner, end):
    """Claim: nothing inside can say what the journal of a run has: 'bawn rollback' writes what was there.

    The spool is filled with contents, written from its beginning again, and its newest entry ends where one of the contents looks like the next."""
    repository(runner)
    names = [f"fill/{i:02}" for i in range(2 + SIZE // length("fill/00", CONTENT))]
    first, last = names[1], names[-1]  # of the first only the supervisor knows; the last one does not fit any more
    lie_at = length(last, LAST) - length(first, 0) + 8  # the content begins where head and path end
    forged = entry(len(names), HOOK.encode(), LIE)
    make = f"import sys; d = sys.stdin.buffer.read(); import os; os.makedirs('fill')\nfor n in {names[:-1]!r}: open(n, 'wb').write((b'x' * {lie_at} + d).ljust({CONTENT}, b'x'))\nopen({last!r}, 'wb').write(b'y' * {LAST})"
    r = runner.bawn(*DIRECT, "--", "python3", "-c", make, input=forged)
    assert r.rc == 0, r
    change = f"for n in {names!r}: open(n, 'w').write('new')"
    if end == "kill":
        change += f"\nimport time; print('up', flush=True); time.sleep(600)"
        with runner.popen(runner.path, *DIRECT, "--", "python3", "-c", change, stdout=-1) as p:
            assert p.stdout.readline() == b"up\n"
            p.send_signal(signal.SIGKILL)
            p.stdout.read()  # ends with the last process of the sandbox
    else:
        r = runner.bawn(*DIRECT, "--", "python3", "-c", change)
        assert r.rc == 0, r
    changed = runner.bawn("diff", "--stat").out
    r = runner.bawn("rollback")
    assert r.rc == 0, r
    assert (runner.workspace / names[1]).stat().st_size == CONTENT and (runner.workspace / last).read_bytes() == b"y" * LAST
    assert not (runner.workspace / HOOK).exists(), "a hook that was never there"
    assert last.encode() in changed and HOOK.encode() not in changed
