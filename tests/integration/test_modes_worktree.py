# SPDX-License-Identifier: Apache-2.0
"""Worktree mode from end to end: branches, apply, discard, runs side by side."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import CHANGES, Paused, apply, expected, fill, git, kept, nothing_left, repository, run, runs, state, tree, version, who  # noqa: E402, F401

COMMIT = "git config user.name agent; git config user.email a@example.com; "


def test_worktree_has_a_branch_that_the_host_sees(who):
    who.write("f", "1\n")
    who.write("g", "1\n")
    repository(who)
    before = tree(who.workspace, but=[b".git"])
    head = git(who, "rev-parse", "main").strip()
    run(who, "worktree", COMMIT + "echo 2 > f; git commit -qam two; echo 33 > g; echo n > new; git log --format=%s", "--name", "n")
    assert tree(who.workspace, but=[b".git"]) == before
    assert git(who, "rev-parse", "main").strip() == head and git(who, "status", "--short") == ""
    assert git(who, "log", "--format=%s %an", "main..bawn/n") == "two agent\n"
    assert git(who, "show", "bawn/n:f") == "2\n" and git(who, "show", "bawn/n:g") == "1\n"
    assert git(who, "diff", "--name-only", "main", "bawn/n") == "f\n"
    listed = git(who, "worktree", "list", "--porcelain")
    assert "branch refs/heads/bawn/n" in listed and str(state(who) / "runs/n/tree") in listed
    if not (who.is_root and who.workspace.stat().st_uid):  # only root gets into root's state
        assert git(who, "status", "--short", cwd=state(who) / "runs/n/tree") == " M g\n?? new\n"
    assert {c["path"] for c in who.bawn("review", "n", "--json").json()["changes"]} == {"f", "g", "new"}
    git(who, "fsck", "--strict")
    r = run(who, "worktree", "git log --format=%s; cat f g new; git status --short", "--name", "n")
    assert r.out == b"two\none\n2\n33\nn\n M g\n?? new\n"


def test_worktree_apply_and_undo(who):
    fill(who)  # git knows no empty folders
    (who.workspace / "empty-removed").rmdir()
    who.write("empty-removed/.keep", "")
    repository(who)
    after, before = expected(who), tree(who.workspace, but=[b".git"])
    name = kept(who, "worktree", CHANGES)
    assert tree(who.workspace, but=[b".git"]) == before
    apply(who, name)
    now = tree(who.workspace, but=[b".git"])
    assert now == after
    apply(who, "--undo")
    assert tree(who.workspace, but=[b".git"]) == before


def test_worktree_discard_removes_everything(who):
    who.write("f", "1\n")
    repository(who)
    before = tree(who.workspace)
    objects = git(who, "count-objects")
    refs = git(who, "for-each-ref")
    name = kept(who, "worktree", "echo 2 > f; echo n > new")
    assert f"bawn/{name}" in git(who, "branch", "--list", "--all")
    assert who.bawn("discard", name, "--yes").rc == 0
    assert git(who, "for-each-ref") == refs and len(git(who, "worktree", "list").splitlines()) == 1
    assert git(who, "count-objects") == objects and runs(who) == []
    assert git(who, "status", "--short") == "" and tree(who.workspace, but=[b".git"]) == {k: v for k, v in before.items() if not k.startswith(b".git")}
    assert not (who.workspace / ".git/worktrees").exists() or list((who.workspace / ".git/worktrees").iterdir()) == []


def test_worktree_that_was_merged_is_removed(who):
    who.write("f", "1\n")
    repository(who)
    name = kept(who, "worktree", COMMIT + "echo 2 > f; git commit -qam two")
    git(who, "merge", "-q", f"bawn/{name}")
    assert version(who.workspace / "f") == b"2\n"
    run(who, "worktree", "true")
    assert git(who, "for-each-ref", "refs/heads/bawn") == "", "the branch is part of main: it is not needed any more"
    assert len(git(who, "worktree", "list").splitlines()) == 1 and runs(who) == []


def test_worktree_that_was_merged_but_has_more_stays(who):
    who.write("f", "1\n")
    repository(who)
    name = kept(who, "worktree", COMMIT + "echo 2 > f; git commit -qam two; echo uncommitted > u")
    git(who, "merge", "-q", f"bawn/{name}")
    run(who, "worktree", "true")
    assert name in runs(who) and version(state(who) / "runs" / name / "tree/u") == b"uncommitted\n"


@pytest.mark.parametrize("what", ["no repository", "no commit", "a subfolder"])
def test_worktree_refuses_with_a_reason(who, what):
    who.write("sub/f", "1\n")
    if what != "no repository":
        git(who, "init", "-q")
    if what == "a subfolder":
        git(who, "add", "-A")
        git(who, "commit", "-qm", "one")
    before = tree(who.workspace)
    r = who.bawn("run", "-w", "worktree", "--", "true", cwd=who.workspace / "sub" if what == "a subfolder" else None)
    assert r.rc in (64, 125) and (b"repository" in r.err or b"working tree" in r.err or b"commit" in r.err), r
    assert tree(who.workspace) == before and runs(who) == []


def test_worktree_parallel_runs_do_not_meet(who):
    who.write("f", "1\n")
    repository(who)
    before = tree(who.workspace, but=[b".git"])
    pair = [Paused(who, "worktree", COMMIT + f"echo {n} > f; echo {n} > {n}; git add -A; git commit -qm {n}", "ls >&2; cat f >&2", "--name", n) for n in ("a", "b", "c")]
    for p, n in zip(pair, ("a", "b", "c")):
        assert p.finish().replace(b"bawn: ", b"").find(f"{n}\nf\n{n}\n".encode()) >= 0
    for n in ("a", "b", "c"):
        assert git(who, "show", f"bawn/{n}:f") == f"{n}\n"
        assert git(who, "log", "--format=%s", f"main..bawn/{n}") == f"{n}\n"
        assert git(who, "ls-tree", "--name-only", f"bawn/{n}").split() == sorted([n, "f"])
    assert tree(who.workspace, but=[b".git"]) == before
    git(who, "fsck", "--strict")
    assert who.bawn("discard", "--all", "--yes").rc == 0
    assert git(who, "for-each-ref", "refs/heads/bawn") == ""
