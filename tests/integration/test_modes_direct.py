# SPDX-License-Identifier: Apache-2.0
"""Direct mode from end to end: live on both sides, and rollback."""

import json
import pathlib
import stat
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import CHANGES, Paused, apply, every, expected, fill, nothing_left, processes, run, runs, settle, state, tree, version, who  # noqa: E402, F401


def test_direct_is_live_on_both_sides(who):
    who.write("f", "1\n")
    p = Paused(who, "direct", "echo 2 > f", "cat g >&2")
    assert version(who.workspace / "f") == b"2\n"
    who.write("g", "host\n")
    assert b"host\n" in p.finish()


def test_direct_rollback_restores_everything(who):
    fill(who)
    after, before, exact = expected(who), tree(who.workspace), tree(who.workspace, times=True)
    run(who, "direct", CHANGES)
    assert tree(who.workspace) == after, "in direct mode changes are live"
    r = who.bawn("rollback", "--dry-run")
    assert r.rc == 0 and tree(who.workspace) == after, r
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert tree(who.workspace) == before
    now = tree(who.workspace, times=True)
    for path, (_, _, _, _, uid, gid, mtime) in exact.items():
        assert now[path][4:6] == (uid, gid), path
        if stat.S_ISREG(int(exact[path][0], 8)):
            assert now[path][6] == mtime, path
    assert now[b"untouched"] == exact[b"untouched"]
    apply(who, "--undo")
    assert tree(who.workspace) == after


def test_direct_rollback_of_a_part(who):
    fill(who)
    before = tree(who.workspace)
    run(who, "direct", CHANGES)
    changed = tree(who.workspace)
    r = who.bawn("rollback", "--only", "text", "--only", "folder-removed/")
    assert r.rc == 0, r
    now = tree(who.workspace)
    restored = {p for p in now if p not in changed or now[p] != changed[p]}
    assert restored == {b"text", b"folder-removed", b"folder-removed/b", b"folder-removed/deep", b"folder-removed/deep/a"}
    assert all(now[p] == before[p] for p in restored)
    assert who.bawn("rollback").rc == 0
    assert tree(who.workspace) == before


def test_direct_rollback_leaves_what_the_user_changed_since(who):
    who.write("f", "1\n")
    who.write("g", "1\n")
    run(who, "direct", "echo 2 > f; echo 2 > g; mkdir d; echo x > d/x")
    ended = json.loads((state(who) / "runs" / runs(who)[0] / "run.json").read_text())
    who.write("f", "mine, and longer\n")
    who.write("d/mine", "mine\n")
    for _ in range(2):  # asked twice, the answer is the same
        r = who.bawn("rollback")
        assert r.rc == 1 and b"f" in r.out, (r, ended)
        assert version(who.workspace / "f") == b"mine, and longer\n" and version(who.workspace / "d/mine") == b"mine\n"
        assert version(who.workspace / "g") == b"1\n"
    r = who.bawn("rollback", "--force")
    assert version(who.workspace / "f") == b"1\n" and version(who.workspace / "d/mine") == b"mine\n", r


def test_direct_rollback_can_be_undone_and_done_again(who):
    who.write("f", "1\n")
    run(who, "direct", "echo 2 > f; echo n > new")
    for _ in range(3):
        r = who.bawn("rollback")
        assert r.rc == 0, r
        assert every(who.workspace) == [b"f"] and version(who.workspace / "f") == b"1\n"
        apply(who, "--undo")
        assert every(who.workspace) == [b"f", b"new"] and version(who.workspace / "f") == b"2\n"


HARD_LINKS = {
    "and the link stays": "ln f l; echo evil >> l",
    "and the link is gone again": "ln f l; echo evil >> l; rm l",
    "and the link took its place": "ln f l; echo evil >> l; mv l f",
    "that was renamed": "ln f l; mv l d/m; echo evil >> d/m",
    "of a descriptor": "python3 -c 'import os; fd = os.open(\"f\", os.O_RDONLY); os.link(f\"/proc/self/fd/{fd}\", \"l\"); open(\"l\", \"a\").write(\"evil\\n\")'",
}


@pytest.mark.parametrize("how", HARD_LINKS)
def test_direct_a_change_through_a_hard_link_is_a_change(who, how):
    """The same file by another name: review has to show it, rollback to take it back."""
    who.write("f", "1\n")
    who.write("d/x", "x\n")
    r = who.bawn("run", "--", "sh", "-c", HARD_LINKS[how])
    if version(who.workspace / "f") == b"1\n":
        return  # refused inside
    assert len(runs(who)) == 1, "something was changed: there must be something to review"
    assert "f" in {c["path"] for c in who.bawn("review", "--json").json()["changes"]}, r
    assert who.bawn("rollback").rc == 0
    assert every(who.workspace) == [b"d", b"d/x", b"f"] and version(who.workspace / "f") == b"1\n"


@pytest.mark.parametrize("what", ["mkfifo f", "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"f\")'", "ln -s d f", "mkdir f", "mkdir f; mkfifo f/f"])
def test_direct_rollback_puts_a_file_back_where_something_else_is(who, what):
    who.write("f", "1\n")
    who.write("d/x", "x\n")
    run(who, "direct", f"rm f; {what}")
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert every(who.workspace) == [b"d", b"d/x", b"f"] and version(who.workspace / "f") == b"1\n"


def test_direct_rollback_after_kill_9(who):
    fill(who)
    before, after = tree(who.workspace), expected(who)
    Paused(who, "direct", CHANGES, "true").kill()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    assert tree(who.workspace) == after
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert tree(who.workspace) == before


def test_direct_rollback_of_many_small_files(who):
    """More than the guard's spool holds, in folders of their own; some by kill -9 in the middle."""
    for d in range(3):
        for i in range(150):
            who.write(f"d{d}/f{i}", f"{d} {i}\n" + "x" * (4000 if i % 3 else 40))
    before = tree(who.workspace)
    script = "for d in d0 d1 d2; do for i in $(seq 0 2 149); do echo new > $d/f$i; done; rm $d/f?[13579]; mkdir $d/sub; echo n > $d/sub/n; chmod 600 $d/f99; done; rm -r d2"
    run(who, "direct", script)
    assert not list((state(who) / "runs").glob("*/spool"))
    assert who.bawn("rollback").rc == 0
    assert tree(who.workspace) == before
    Paused(who, "direct", script, "true").kill()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    spools = list((state(who) / "runs").glob("*/spool"))
    assert len(spools) == 1 and spools[0].stat().st_mode & 0o777 == 0o600, "what was not taken over is found there"
    assert who.bawn("rollback").rc == 0
    assert tree(who.workspace) == before


def spool_entry(seq, mode, path, content=b""):
    """As workspace/run/spool.h has it."""
    return struct.pack("=QIIIIQQQQ", seq, mode, 0, len(path), len(content), len(content), 0, 0, 0) + path + b"\0" + content + struct.pack("=Q", seq)


def spool_entries(data):
    """(where they end, the last number)"""
    at = last = 0
    while at + 56 <= len(data):
        seq, _, _, path, content = struct.unpack_from("=QIIII", data, at)
        if seq == 0 or (last and seq != last + 1):
            break
        at, last = at + 56 + path + 1 + content + 8, seq
    return at, last


def test_direct_rollback_believes_no_leftover_about_hidden_files(who):
    """A spool that `kill -9` left was judged by no supervisor. Who had taken over bawn-init could have written into it what hidden files were, or that they were not there."""
    who.write("f", "old\n")
    who.write(".env", "secret\n")
    who.write("sub/.env", "secret too\n")
    who.write("id_rsa", "key\n")
    before = tree(who.workspace)
    Paused(who, "direct", "echo new > f; echo more > g", "true").kill()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    spool, = (state(who) / "runs").glob("*/spool")
    data = spool.read_bytes()
    end, seq = spool_entries(data)
    assert seq > 0
    lies = [(0o100600, b".env", b"planted\n"), (0, b"sub/.env", b""), (0o040755, b"id_rsa", b"")]
    data = data[:end] + b"".join(spool_entry(seq + 1 + i, *lie) for i, lie in enumerate(lies))
    spool.write_bytes(data)
    r = who.bawn("rollback")
    assert r.rc == 1 and b".env" in r.out and b"sub/.env" in r.out and b"id_rsa" in r.out, r
    assert tree(who.workspace) == before


def test_direct_rollback_has_a_budget_that_is_told(who):
    """workspace.rollback: what is past it is named, never pretended."""
    config = who.home / ".config/bawn/config.json"
    who.write(config, json.dumps({"sandbox": {"workspace": {"rollback": "1m"}}}))
    who.write("big", b"B" * 3_000_000)
    who.write("small", "s\n")
    r = run(who, "direct", "echo 1 > small; echo 1 > big")
    assert b"bawn: " in r.err and b"rollback" in r.err, r
    r = who.bawn("rollback")
    assert r.rc == 1 and b"big" in r.out, r
    assert version(who.workspace / "small") == b"s\n" and version(who.workspace / "big") == b"1\n"


def test_direct_rollback_leaves_what_was_moved_past_the_budget(who):
    """There is no other copy of it."""
    who.write(who.home / ".config/bawn/config.json", json.dumps({"sandbox": {"workspace": {"rollback": "1m"}}}))
    for name in ("big", "moved"):
        who.write(name, name[:1] * 3_000_000)
    run(who, "direct", "mv big other; mv moved away; echo new > moved; echo s > small")
    r = who.bawn("rollback")
    assert r.rc == 1 and b"other" in r.out and b"away" in r.out, r
    assert version(who.workspace / "other") == b"b" * 3_000_000 and version(who.workspace / "away") == b"m" * 3_000_000
    assert not (who.workspace / "small").exists()


def test_direct_within_the_budget_nothing_is_told(who):
    who.write("big", b"B" * 3_000_000)
    r = run(who, "direct", "echo 1 > big")
    assert b"rollback" not in r.err, r
    assert who.bawn("rollback").rc == 0
    assert version(who.workspace / "big") == b"B" * 3_000_000


def test_direct_old_runs_are_forgotten(who):
    who.write("f", "0\n")
    for i in range(13):
        run(who, "direct", f"echo {i} > f")
    assert 1 < len(runs(who)) <= 11
    assert who.bawn("rollback").rc == 0
    assert version(who.workspace / "f") == b"11\n"
