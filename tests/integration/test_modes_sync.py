# SPDX-License-Identifier: Apache-2.0
"""Sync mode from end to end: what comes back, and that no version of either side is lost."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import CHANGES, Paused, apply, every, expected, fill, kept, nothing_left, run, runs, state, tree, version, waiting, who  # noqa: E402, F401


def test_sync_carries_everything_back_and_leaves_nothing(who):
    fill(who)
    after = expected(who)
    exact = tree(who.workspace, times=True)
    run(who, "sync", CHANGES)
    assert tree(who.workspace) == after
    assert tree(who.workspace, times=True)[b"untouched"] == exact[b"untouched"]
    owner = who.workspace.stat().st_uid
    assert {os.lstat(os.path.join(os.fsencode(who.workspace), p)).st_uid for p in every(who.workspace)} == {owner}
    assert waiting(who) == []


def test_sync_can_be_taken_back(who):
    fill(who)
    before, after = tree(who.workspace), expected(who)
    run(who, "sync", CHANGES)
    assert tree(who.workspace) == after
    r = who.bawn("rollback")
    assert r.rc == 0, r
    assert tree(who.workspace) == before
    apply(who, "--undo")
    assert tree(who.workspace) == after


def test_sync_is_live_on_neither_side(who):
    who.write("f", "1\n")
    p = Paused(who, "sync", "echo 2 > f; echo x > new", "cat other >&2")
    assert version(who.workspace / "f") == b"1\n" and not (who.workspace / "new").exists()
    who.write("other", "host\n")
    err = p.finish(rc=1)
    assert b"host\n" not in err
    assert version(who.workspace / "f") == b"2\n" and version(who.workspace / "other") == b"host\n"


def test_sync_never_carries_what_is_hidden(who):
    who.write(".env", "host secret\n")
    who.write("conf/server.pem", "host key\n")
    who.write("conf/open", "o\n")
    who.write(".aws/credentials", "c\n")
    run(who, "sync", "! cat .env 2>/dev/null && ! ls .aws 2>/dev/null && ! ls conf | grep pem", "--name", "n")
    run(who, "sync", "echo inside > .env; rm -rf conf; mkdir -p .aws; echo inside > .aws/credentials; echo x > other.pem; echo ok > ok", "--name", "n")
    assert version(who.workspace / ".env") == b"host secret\n"
    assert version(who.workspace / "conf/server.pem") == b"host key\n"
    assert version(who.workspace / ".aws/credentials") == b"c\n"
    assert not (who.workspace / "other.pem").exists() and not (who.workspace / "conf/open").exists()
    assert version(who.workspace / "ok") == b"ok\n"
    who.write(".env", "host secret two\n")
    assert run(who, "sync", "cat .env", "--name", "n").out == b"inside\n", "what is made inside under a hidden name stays inside"
    assert version(who.workspace / ".env") == b"host secret two\n"
    copies = [p for p in (state(who) / "runs/n").rglob("*") if p.is_file() and b"host secret" in p.read_bytes()]
    assert copies == []


def everything(r):
    """All bytes that the user still has: in the workspace or in the folder of a run."""
    found = []
    for top in (r.workspace, state(r) / "runs"):
        for path in every(top) if top.exists() else []:
            full = os.path.join(os.fsencode(top), path)
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, "rb") as f:
                    found.append(f.read())
    return found


SYNC_BOTH = {
    # what is there before, in the sandbox, on the host meanwhile: the words that must not be lost
    "content": ("echo base > f", "echo SANDBOX > f", "echo HOST > f", ["SANDBOX", "HOST"]),
    "added": ("true", "echo SANDBOX > f", "echo HOST > f", ["SANDBOX", "HOST"]),
    "deleted inside": ("echo base > f", "rm f", "echo HOST > f", ["HOST"]),
    "deleted on the host": ("echo base > f", "echo SANDBOX > f", "rm f", ["SANDBOX"]),
    "file here and folder there": ("echo base > f", "rm f; mkdir f; echo SANDBOX > f/in", "echo HOST > f", ["SANDBOX", "HOST"]),
    "folder here and file there": ("mkdir f; echo base > f/in", "rm -r f; echo SANDBOX > f", "echo HOST > f/in", ["SANDBOX", "HOST"]),
    "folder deleted and filled": ("mkdir f; echo base > f/in", "rm -r f", "echo HOST > f/new", ["HOST"]),
    "folder filled and deleted": ("mkdir f; echo base > f/in", "echo SANDBOX > f/new", "rm -r f", ["SANDBOX"]),
    "renamed both": ("echo base > f", "mv f g; echo SANDBOX >> g", "mv f h; echo HOST >> h", ["SANDBOX", "HOST"]),
    "link against file": ("echo base > f; echo o > o", "ln -sf o f; echo SANDBOX > s", "echo HOST > f", ["SANDBOX", "HOST"]),
    "FIFO against file": ("echo base > f", "rm f; mkfifo f; echo SANDBOX > s", "echo HOST > f", ["SANDBOX", "HOST"]),
    "file against FIFO": ("echo base > f", "echo SANDBOX > f", "rm f; mkfifo f", ["SANDBOX"]),
    "file against a folder that is closed": ("mkdir f; echo base > f/in", "echo SANDBOX > f/in; echo SANDBOX2 > f/new", "chmod 0 f", ["SANDBOX", "SANDBOX2"]),
}


@pytest.mark.parametrize("case", SYNC_BOTH)
def test_sync_loses_no_version_of_either_side(who, case):
    before, inside, outside, words = SYNC_BOTH[case]
    owner = who.workspace.stat()

    def host(script):
        identity = {} if os.getuid() == owner.st_uid else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        subprocess.run(["sh", "-ec", script], cwd=who.workspace, check=True, **identity)

    host(before)
    p = Paused(who, "sync", inside, "true")
    host(outside)
    err = p.finish()
    if (who.workspace / "f").is_dir():
        (who.workspace / "f").chmod(0o755)
    have = b"\n".join(everything(who))
    for word in words:
        assert word.encode() + b"\n" in have, (word, err, every(who.workspace), runs(who))
    if "HOST" in words and "renamed" not in case and "folder" not in case:
        assert version(who.workspace / "f") == b"HOST\n"
    if "SANDBOX" in words and "HOST" in words and case in ("content", "added"):
        assert [version(p) for p in who.workspace.glob("f.bawn-*")] == [b"SANDBOX\n"] and b"f.bawn-" in err


def test_sync_the_version_beside_is_on_both_sides(who):
    """A copy that stays has what the host got, also a version that was put beside the host's."""
    who.write("f", "base\n")
    p = Paused(who, "sync", "echo SANDBOX > f", "true", "--name", "n")
    who.write("f", "HOST\n")
    err = p.finish()
    tree = state(who) / "runs" / "n" / "tree"
    for top in (who.workspace, tree):
        assert (version(top / "f"), version(top / "f.bawn-n")) == (b"HOST\n", b"SANDBOX\n"), (top, err, every(top))
    assert err.count(b"f.bawn-n") == 1, err


def test_sync_a_file_that_the_host_has_open(who):
    """An editor or a database may write to it at any moment: neither version is lost."""
    who.write("f", "base\n")
    with open(who.workspace / "f", "r+b") as f:
        run(who, "sync", "echo SANDBOX > f")
        f.write(b"HOST\n")
    have = b"".join(everything(who))
    assert b"HOST\n" in have and b"SANDBOX\n" in have, every(who.workspace)


HELD = [".git/hooks/pre-commit", ".vscode/tasks.json", ".mcp.json", ".claude/settings.json", ".sandboxignore", ".envrc.d/../.idea/x.xml"]


def test_sync_holds_sensitive_files_back(who):
    who.write("f", "1\n")
    who.write(".git/HEAD", "ref: refs/heads/main\n")
    script = "echo 2 > f; " + "; ".join(f'mkdir -p "$(dirname {p})"; echo bad > {p}' for p in HELD)
    name = kept(who, "sync", script)
    assert version(who.workspace / "f") == b"2\n"
    for path in HELD:
        assert not (who.workspace / path).is_file(), path
    r = who.bawn("review", name, "--json")
    assert r.rc == 1
    assert {".git/hooks/pre-commit", ".mcp.json", ".sandboxignore"} <= {c["path"] for c in r.json()["changes"]}
    assert apply(who, name, rc=1, yes=False) and not (who.workspace / ".mcp.json").exists()
    apply(who, name)
    assert version(who.workspace / ".mcp.json") == b"bad\n"
    apply(who, "--undo")
    assert not (who.workspace / ".mcp.json").exists() and version(who.workspace / "f") == b"2\n"
    assert who.bawn("discard", name, "--yes").rc == 0
    assert waiting(who) == [] and not (who.workspace / ".mcp.json").exists()


def test_sync_by_name_brings_what_the_host_changed(who):
    who.write("f", "1\n")
    who.write("gone", "g\n")
    run(who, "sync", "echo x > x", "--name", "n")
    assert waiting(who) == ["n"]
    who.write("f", "2\n")
    (who.workspace / "gone").unlink()
    who.write("d/new", "new\n")
    p = Paused(who, "sync", "cat f d/new >&2; ls >&2; echo inside > i", "true", "--name", "n")
    who.write("f", "3\n")
    who.write("late", "late\n")
    err = p.finish()
    assert b"2\nnew\n" in err and b"gone" not in err
    assert version(who.workspace / "f") == b"3\n" and version(who.workspace / "i") == b"inside\n"
    r = run(who, "sync", "cat f late i", "--name", "n")
    assert r.out == b"3\nlate\ninside\n"
    assert every(who.workspace) == sorted([b"f", b"d", b"d/new", b"x", b"late", b"i"])


def test_times_of_the_host_hide_no_change_either(who):
    """A named sync: a backup that was restored on the host has an old mtime and the same size."""
    who.write("f", "AAAA")
    os.utime(who.workspace / "f", (10**9, 10**9))
    run(who, "sync", "true", "--name", "n")
    who.write("f", "CCCC")
    os.utime(who.workspace / "f", (10**9, 10**9))
    assert run(who, "sync", "cat f", "--name", "n").out == b"CCCC"
    assert version(who.workspace / "f") == b"CCCC"


def test_sync_special_files_stay_where_they_are(who):
    who.write("f", "1\n")
    os.mkfifo(who.workspace / "fifo")
    who.own(who.workspace / "fifo")
    r = run(who, "sync", "! ls fifo 2>/dev/null; mkfifo own; rm f; mkfifo f; echo x > x")
    assert (who.workspace / "fifo").is_fifo() and not (who.workspace / "own").exists(), r
    assert version(who.workspace / "f") == b"1\n" and version(who.workspace / "x") == b"x\n", r
