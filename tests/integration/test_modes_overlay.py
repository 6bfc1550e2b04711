# SPDX-License-Identifier: Apache-2.0
"""Overlay mode from end to end: nothing before `bawn apply`, conflicts, merges, undo, names."""

import os
import pathlib
import stat
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import CHANGES, Paused, apply, every, expected, fill, kept, nothing_left, outcomes, run, runs, tree, version, who, writer  # noqa: E402, F401


def test_overlay_nothing_reaches_the_host_before_apply_and_then_everything(who):
    fill(who)
    after = expected(who)
    before, exact = tree(who.workspace), tree(who.workspace, times=True)
    begun = time.time()
    name = kept(who, "overlay", CHANGES)
    assert tree(who.workspace, times=True) == exact, "nothing may reach the host before it is applied"
    assert who.bawn("review", name, "--json").json()["run"] == name
    assert who.bawn("diff", name).rc == 0
    assert tree(who.workspace, times=True) == exact, "looking changes nothing"
    apply(who, name)
    assert tree(who.workspace) == after
    owner = who.workspace.stat().st_uid
    for path in every(who.workspace):
        st = os.lstat(os.path.join(os.fsencode(who.workspace), path))
        assert st.st_uid == owner, path
        assert st.st_mtime <= time.time() + 1, path
    for path in (b"text", b"added", b"made/deep/file"):
        assert os.stat(os.path.join(os.fsencode(who.workspace), path)).st_mtime >= begun - 1, path
    now = tree(who.workspace, times=True)
    assert now[b"untouched"] == exact[b"untouched"], "what was not changed is not touched: neither inode nor times"
    apply(who, "--undo")
    assert tree(who.workspace) == before
    apply(who, name)
    assert tree(who.workspace) == after
    assert who.bawn("discard", name, "--yes").rc == 0
    assert runs(who) == [] and tree(who.workspace) == after


def test_overlay_diff_and_review_know_each_change(who):
    fill(who)
    name = kept(who, "overlay", CHANGES)
    seen = {c["path"]: c for c in who.bawn("review", name, "--json").json()["changes"]}
    kinds = {path: c["kind"] for path, c in seen.items()}
    assert kinds["added"] == "added" and kinds["removed"] == "deleted" and kinds["text"] == "modified"
    assert kinds["renamed-to"] == "renamed" and "renamed" not in kinds
    assert kinds["script"] == "modified" and kinds["relinked"] == "modified"
    assert "untouched" not in kinds and "folder-mode/in" not in kinds
    names = who.bawn("diff", name, "--name-only").out.decode().split("\n")
    assert {"added", "removed", "text", "script"} <= set(names), names


def test_overlay_apply_of_a_part_and_then_the_rest(who):
    fill(who)
    after, before = expected(who), tree(who.workspace)
    name = kept(who, "overlay", CHANGES)
    apply(who, name, "--only", "made/", "--only", "text")
    now = tree(who.workspace)
    changed = {p for p in now.keys() | before.keys() if now.get(p) != before.get(p)}
    assert changed == {b"text", b"made", b"made/deep", b"made/deep/file"}
    apply(who, name, "--except", "removed", "--except", "folder-*")
    assert (who.workspace / "removed").exists() and (who.workspace / "folder-removed/b").exists()
    apply(who, name)
    assert tree(who.workspace) == after


CONFLICTS = {
    # what the host has at first, what the host does then, what the run does, the run's version
    "same line": ("a\nb\nc\n", "a\nHOST\nc\n", "printf 'a\\nRUN\\nc\\n' > f", b"a\nRUN\nc\n"),
    "binary": (b"\0\1\2base", b"\0\1\2host", r"printf '\0\1\2run' > f", b"\0\1\2run"),
    "deleted by the host": ("base\n", None, "echo run > f", b"run\n"),
    "deleted by the run": ("base\n", "host\n", "rm f", None),
    "added by both": (None, "host\n", "echo run > f", b"run\n"),
    "link against file": ("base\n", "host\n", "rm f; ln -s other f", "other"),
}


def host_does(r, path, what):
    if what is None:
        (r.workspace / path).unlink()
    else:
        r.write(path, what)


@pytest.mark.parametrize("case", CONFLICTS)
def test_overlay_conflict(who, case):
    base, host, script, theirs = CONFLICTS[case]
    who.write("other", "o\n")
    if base is not None:
        who.write("f", base)
    name = kept(who, "overlay", f"{script}; echo fine > fine")
    host_does(who, "f", host)
    ours = version(who.workspace / "f")
    before = tree(who.workspace, times=True)

    r = apply(who, name, "--json", rc=1)
    assert r.json()["done"] is False and r.json()["conflicts"] is True and outcomes(r)["f"] == "conflict", r
    assert tree(who.workspace, times=True) == before, "a conflict: nothing at all is done"

    apply(who, name, "--conflict", "skip")
    assert version(who.workspace / "f") == ours and version(who.workspace / "fine") == b"fine\n"
    apply(who, "--undo")
    assert version(who.workspace / "fine") is None

    apply(who, name, "--conflict", "keep-both")
    beside = [p for p in who.workspace.iterdir() if p.name.startswith("f.bawn-")]
    assert [version(p) for p in beside] == ([] if theirs is None else [theirs]), case
    assert version(who.workspace / "f") == ours
    assert version(who.workspace / "fine") == b"fine\n"
    apply(who, "--undo")
    assert {p: v[:3] for p, v in before.items()} == tree(who.workspace)

    apply(who, name, "--conflict", "overwrite")
    assert version(who.workspace / "f") == theirs and version(who.workspace / "fine") == b"fine\n"
    apply(who, "--undo")
    assert version(who.workspace / "f") == ours, "the host's version was in undo"
    assert {p: v[:3] for p, v in before.items()} == tree(who.workspace)


MERGES = {
    "different lines": (b"1\n2\n3\n4\n5\n", b"one\n2\n3\n4\n5\n", b"1\n2\n3\n4\nfive\n", b"one\n2\n3\n4\nfive\n"),
    "no newline at the end": (b"1\n2\n3\n4\n5", b"one\n2\n3\n4\n5", b"1\n2\n3\n4\nfive", b"one\n2\n3\n4\nfive"),
    "carriage returns": (b"1\r\n2\r\n3\r\n4\r\n", b"one\r\n2\r\n3\r\n4\r\n", b"1\r\n2\r\n3\r\nfour\r\n", b"one\r\n2\r\n3\r\nfour\r\n"),
    "the same on both sides": (b"1\n2\n", b"1\ntwo\n", b"1\ntwo\n", b"1\ntwo\n"),
}


@pytest.mark.parametrize("case", MERGES)
def test_overlay_merge(who, case):
    base, ours, theirs, both = MERGES[case]
    who.write("f", base)
    who.write("theirs", theirs)
    name = kept(who, "overlay", "cat theirs > f")
    who.write("f", ours)
    r = apply(who, name, "--json")
    assert outcomes(r)["f"] == ("same" if ours == theirs else "merged"), r
    assert version(who.workspace / "f") == both
    apply(who, "--undo") if ours != theirs else None
    assert version(who.workspace / "f") == ours


def test_overlay_content_of_one_side_and_mode_of_the_other(who):
    who.write("f", "1\n", 0o644)
    name = kept(who, "overlay", "echo 2 > f")
    (who.workspace / "f").chmod(0o755)
    apply(who, name)
    assert version(who.workspace / "f") == b"2\n"
    assert stat.S_IMODE((who.workspace / "f").stat().st_mode) == 0o755


def test_overlay_conflict_while_the_sandbox_is_up(who):
    """The host saves a file between the command's two writes."""
    who.write("f", "base\n")
    who.write("g", "base\n")
    p = Paused(who, "overlay", "echo run > f", "echo run2 >> f", "--name", "n")
    who.write("f", "host\n")
    who.write("g", "host\n")
    p.finish()
    assert version(who.workspace / "f") == b"host\n"
    r = apply(who, "n", "--json", rc=1)
    assert outcomes(r) == {"f": "conflict"}, r
    apply(who, "n", "--conflict", "keep-both")
    assert version(who.workspace / "f") == b"host\n" and version(who.workspace / "f.bawn-n") == b"run\nrun2\n"
    assert version(who.workspace / "g") == b"host\n"


def test_overlay_what_the_host_puts_into_a_folder_that_the_run_deleted_stays(who):
    who.write("d/old", "old\n")
    name = kept(who, "overlay", "rm -r d")
    who.write("d/mine", "mine\n")
    for way in ("stop", "skip", "keep-both"):
        who.bawn("apply", name, "--yes", "--conflict", way)
        assert version(who.workspace / "d/mine") == b"mine\n", way
    if who.bawn("apply", name, "--yes", "--conflict", "overwrite").rc == 0 and not (who.workspace / "d/mine").exists():
        apply(who, "--undo")  # the run's version wins; the host's is not lost
    assert version(who.workspace / "d/mine") == b"mine\n"


def test_overlay_undo_leaves_what_was_changed_since(who):
    who.write("f", "1\n")
    who.write("g", "1\n")
    name = kept(who, "overlay", "echo 2 > f; echo 2 > g")
    apply(who, name)
    assert who.bawn("apply", "--undo", "--dry-run").rc == 64
    who.write("f", "mine, and of another length\n")
    r = apply(who, "--undo", rc=1)
    assert b"f" in r.out and version(who.workspace / "f") == b"mine, and of another length\n" and version(who.workspace / "g") == b"1\n"
    assert who.bawn("apply", "--undo").rc in (1, 125)
    assert version(who.workspace / "f") == b"mine, and of another length\n"


def test_overlay_undo_by_force(who):
    who.write("f", "1\n")
    name = kept(who, "overlay", "echo 2 > f")
    apply(who, name)
    who.write("f", "mine, and of another length\n")
    apply(who, "--undo", "--force")
    assert version(who.workspace / "f") == b"1\n"
    assert who.bawn("apply", "--undo").rc == 125


def test_overlay_by_name_goes_on(who):
    who.write("f", "1\n")
    run(who, "overlay", "echo 2 > f; echo a > a", "--name", "n")
    r = run(who, "overlay", "cat f a; echo 3 > f; echo b > b; rm a", "--name", "n")
    assert r.out == b"2\na\n"
    assert version(who.workspace / "f") == b"1\n"
    assert run(who, "overlay", "cat f; ls", "--name", "n").out == b"3\nb\nf\n"
    apply(who, "n")
    assert tree(who.workspace).keys() == {b"f", b"b"} and version(who.workspace / "f") == b"3\n"
    assert runs(who) == ["n"], "the user named it: it is kept"
    who.write("f", "host\n")
    r = run(who, "overlay", "cat f; echo 4 > g", "--name", "n")
    assert r.out == b"host\n", "what was applied is no longer in the run"
    apply(who, "n")
    assert tree(who.workspace).keys() == {b"f", b"b", b"g"} and version(who.workspace / "f") == b"host\n"
    assert who.bawn("discard", "n", "--yes").rc == 0
    assert runs(who) == []


def test_overlay_apply_while_the_host_saves_the_same_file(who):
    """Nothing of the host's is lost: the apply stops, or is a conflict, or was first; never a mixture of two versions."""
    who.write("f", b"a" * 200000)
    who.write("g", "1\n")
    name = kept(who, "overlay", "head -c 1000 /dev/zero | tr '\\0' '#' > f; echo 2 > g")
    before = os.stat(who.workspace / "f").st_ctime_ns
    with writer(who, who.workspace / "f"):
        while os.stat(who.workspace / "f").st_ctime_ns == before:  # else the apply might be first
            time.sleep(0.01)
        for _ in range(10):
            r = who.bawn("apply", name, "--yes")
            assert r.rc in (1, 125), r
            assert version(who.workspace / "g") == b"1\n", "all or nothing"
    r = apply(who, name, "--json", rc=1)
    assert outcomes(r)["f"] == "conflict"
    content = version(who.workspace / "f")
    assert len(set(content)) == 1 and b"#" not in content, "the host's last save stands"


def test_parallel_overlays_do_not_meet(who):
    who.write("f", "1\n")
    pair = [Paused(who, "overlay", f"echo {n} > f; echo {n} > {n}", "ls >&2; cat f >&2", "--name", n) for n in ("a", "b")]
    for p, n in zip(pair, ("a", "b")):
        assert f"{n}\nf\n{n}\n".encode() in p.finish()
    assert every(who.workspace) == [b"f"] and version(who.workspace / "f") == b"1\n"
    apply(who, "a")
    r = apply(who, "b", "--json", rc=1)
    assert outcomes(r)["f"] == "conflict", "what came in from the other run counts as the host's"
