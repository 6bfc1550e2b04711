# SPDX-License-Identifier: Apache-2.0
"""Direct mode and what git ignores: files in ignored folders are recorded by name only, and nothing inside decides which folders these are."""

import json
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import git, nothing_left, run, tree, version, who  # noqa: E402, F401


@pytest.fixture
def repository(who):
    """Tracked, not tracked and ignored files; build/ is ignored but git tracks one file in it."""
    who.write(".gitignore", "/node_modules/\nbuild/\n*.local\n")
    who.write("sub/.gitignore", "target/\n!build/\n")
    for path in ("src/a", "src/b", "sub/code", "build/tracked"):
        who.write(path, f"{path}\n")
    for path in ("new/file", "node_modules/m/index.js", "node_modules/m/deep/er", "env.local", "build/made", "sub/build/kept", "sub/target/debug/x"):
        who.write(path, f"old {path}\n")
    (who.workspace / "node_modules/link").symlink_to("m/index.js")
    who.own(who.workspace / "node_modules/link")
    git(who, "init", "-q")
    git(who, "add", ".gitignore", "src", "sub/.gitignore", "sub/code")
    git(who, "add", "-f", "build/tracked")
    git(who, "commit", "-qm", "first")
    return who


def settings(who, **workspace):
    who.write(who.home / ".config/bawn/config.json", json.dumps({"sandbox": {"workspace": workspace}}))


def test_ignored_folders_are_named_all_else_comes_back(repository):
    before = tree(repository.workspace / "src"), tree(repository.workspace / "sub/build"), tree(repository.workspace / "build")
    r = run(repository, "direct", "echo 2 > node_modules/m/index.js; rm -r node_modules/m/deep sub/target; echo 3 > node_modules/new;"
                                  " rm -r src build new sub/build env.local; ln -sfn nowhere node_modules/link")
    assert b"folders that git ignores" in r.err and b"skip_ignored" in r.err, r
    seen = {c["path"]: c["kind"] for c in json.loads(repository.bawn("review", "--json", "--fail-on", "none").out)["changes"]}
    assert seen["node_modules/m/index.js"] == "modified" and seen["node_modules/m/deep/er"] == "deleted", seen
    r = repository.bawn("rollback")
    assert r.rc == 1 and b"node_modules/m/index.js" in r.out and b"node_modules/m/deep/er" in r.out, r
    assert (tree(repository.workspace / "src"), tree(repository.workspace / "sub/build"), tree(repository.workspace / "build")) == before
    assert version(repository.workspace / "env.local") == b"old env.local\n"
    assert version(repository.workspace / "new/file") == b"old new/file\n"
    assert version(repository.workspace / "node_modules/m/index.js") == b"2\n"
    assert not (repository.workspace / "node_modules/new").exists(), "what the run made goes"
    assert (repository.workspace / "node_modules/link").readlink() == pathlib.Path("m/index.js")
    assert not (repository.workspace / "sub/target/debug").exists() and not (repository.workspace / "node_modules/m/deep").exists()


def test_what_was_only_moved_is_not_lost(repository):
    """Recorded by name only, so the file with the new name is all there is of it."""
    old = tree(repository.workspace / "node_modules/m")
    run(repository, "direct", "mv node_modules/m moved; echo more >> moved/deep/er; mv sub/target/debug/x src/x; echo n > src/n; echo n > moved/n")
    r = repository.bawn("rollback")
    assert r.rc == 1 and b"moved/index.js" in r.out and b"src/x" in r.out, r
    assert not (repository.workspace / "src/n").exists() and not (repository.workspace / "moved/n").exists()
    assert version(repository.workspace / "src/x") == b"old sub/target/debug/x\n"
    assert tree(repository.workspace / "moved").keys() == old.keys()
    assert version(repository.workspace / "moved/deep/er") == b"old node_modules/m/deep/er\nmore\n"


@pytest.mark.parametrize("place", ["node_modules", "sub/target/of/x"])
def test_a_worktree_in_an_ignored_folder_comes_back(repository, place):
    """Its own index tracks what is in it, and what is not committed is nowhere else."""
    git(repository, "worktree", "add", "-q", f"{place}/work", "HEAD")
    repository.write(f"{place}/work/src/a", "not committed\n")
    before = tree(repository.workspace / place)
    run(repository, "direct", f"rm -rf {place}/work/.git; rm -rf {place}")
    assert not (repository.workspace / place).exists()
    r = repository.bawn("rollback")
    assert tree(repository.workspace / place) == before, r


def test_a_repository_that_the_run_makes_counts_for_nothing(repository):
    """Or it could fill what may be stored in all with what can be made again."""
    run(repository, "direct", "mkdir -p node_modules/repo/.git; rm node_modules/m/index.js")
    r = repository.bawn("rollback")
    assert r.rc == 1 and b"node_modules/m/index.js" in r.out, r


def test_the_setting_turns_it_off(repository):
    settings(repository, skip_ignored=False)
    before = tree(repository.workspace)
    r = run(repository, "direct", "rm -r node_modules sub/target; echo 1 > src/a")
    assert b"ignores" not in r.err, r
    assert repository.bawn("rollback").rc == 0
    assert tree(repository.workspace) == before


ATTACKS = [
    "echo '*' > .gitignore; echo '*' > src/.gitignore; mkdir -p new; echo '*' > new/.gitignore",
    "echo x > first; echo '*' > .gitignore.new; mv .gitignore.new .gitignore; mv .gitignore src/.gitignore",
    "rm .git/index; printf 'src/\\nnew/\\n' >> .gitignore",
    "git rm -q -r --cached src build; printf 'src/\\nnew/\\n' >> .gitignore; git -c user.name=a -c user.email=a@b.c commit -qm x",
    "for i in 1 2 3 4 5 6 7 8; do echo $i > src/n$i; done; echo '*' > src/.gitignore; echo '*' > new/.gitignore",
]


@pytest.mark.parametrize("attack", ATTACKS if os.environ.get("BAWN_ALL") else ATTACKS[2:4])
def test_nothing_inside_makes_a_folder_ignored(repository, attack):
    """The rules and the index count as they were before the run."""
    before = {name: tree(repository.workspace / name) for name in ("src", "new", "build", "sub")}
    run(repository, "direct", attack + "; rm -r src new build; echo 2 > sub/code")
    assert not (repository.workspace / "src").exists()
    r = repository.bawn("rollback")
    assert r.rc == 0, r
    assert {name: tree(repository.workspace / name) for name in before} == before


def test_without_a_repository_all_is_stored(who):
    who.write(".gitignore", "node_modules/\n")
    who.write("node_modules/x", "old\n")
    before = tree(who.workspace)
    run(who, "direct", "rm -r node_modules; git init -q . 2> /dev/null; true")
    assert who.bawn("rollback").rc == 0 or (who.workspace / ".git").exists()
    assert version(who.workspace / "node_modules/x") == b"old\n" and before[b"node_modules/x"] == tree(who.workspace)[b"node_modules/x"]
