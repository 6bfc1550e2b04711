# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 3, 15, 34 to 37: in direct mode git on the host is given nothing to run or obey. Each place is shown to be obeyed first."""

import itertools
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protecting import DIRECT, GIT, git, repository, snapshot  # noqa: E402

HOOK = "#!/bin/sh\ntouch \"%s\"\n"
CONFIG = "[core]\n\tfsmonitor = \"touch '%s'; false\"\n"
# id: (how the host is set up, what is attacked, what kind of thing that is, where git is called)
OBEYED = {
    "hooks": ("", ".git/hooks/pre-commit", HOOK, "."),
    "config": ("", ".git/config", CONFIG, "."),
    "hooks, the folder is missing": ("rm -r .git/hooks", ".git/hooks/pre-commit", HOOK, "."),
    "config.worktree": ("git config extensions.worktreeConfig true", ".git/config.worktree", CONFIG, "."),
    "hooksPath": ("git config core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath, there already": ("mkdir hk; git config core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath, deep": ("git config core.hooksPath tools/git/hk", "tools/git/hk/pre-commit", HOOK, "."),
    "hooksPath, odd": ("git config core.hooksPath ./hk//", "hk/pre-commit", HOOK, "."),
    "hooksPath, a blank": ("git config core.hooksPath 'my hooks'", "my hooks/pre-commit", HOOK, "."),
    "hooksPath, wildcards": ("git config core.hooksPath 'h[k]*'", "h[k]*/pre-commit", HOOK, "."),
    "hooksPath, absolute": ('git config core.hooksPath "$PWD/hk"', "hk/pre-commit", HOOK, "."),
    "hooksPath, absolute through a link": ('ln -s "$PWD" ~/link; git config core.hooksPath ~/link/hk', "hk/pre-commit", HOOK, "."),
    "hooksPath, by the home": ("git config core.hooksPath '~/../work/hk'", "hk/pre-commit", HOOK, "."),
    "hooksPath, a link in the tree": ("mkdir -p real/hk; ln -s real/hk lk; git config core.hooksPath lk", "real/hk/pre-commit", HOOK, "."),
    "hooksPath, a dangling link in the tree": ("mkdir real; ln -s real/hk lk; git config core.hooksPath lk", "real/hk/pre-commit", HOOK, "."),
    "hooksPath of the user": ("git config --global core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of the user, XDG": ("mkdir -p ~/.config/git; git config -f ~/.config/git/config core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of the user, twice": ("mkdir -p ~/.config/git; git config -f ~/.config/git/config core.hooksPath other; git config --global core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of an include": ("git config -f ~/inc core.hooksPath hk; git config include.path ~/inc", "hk/pre-commit", HOOK, "."),
    "hooksPath of a conditional include": ("git config -f ~/inc core.hooksPath hk; git config includeIf.onbranch:m*.path ~/inc", "hk/pre-commit", HOOK, "."),
    "hooksPath of the worktree": ("git config extensions.worktreeConfig true; git config --worktree core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of a nested repository": ("git init -q sub; git -C sub config core.hooksPath hk", "sub/hk/pre-commit", HOOK, "sub"),
    "hooksPath of the user, for a nested repository": ("git init -q sub; git config --global core.hooksPath hk", "sub/hk/pre-commit", HOOK, "sub"),
    "hooksPath of a submodule": ("SUBMODULE; git -C sub config core.hooksPath hk", "sub/hk/pre-commit", HOOK, "sub"),
    "include": ("git config include.path ../team", "team", CONFIG, "."),
    "include, there already": ("printf '[a]\\nb = c\\n' > team; git config include.path ../team", "team", CONFIG, "."),
    "include of an include": ("printf '[include]\\npath = more\\n' > team; git config include.path ../team", "more", CONFIG, "."),
    "include of the user": ("git config --global include.path \"$PWD/team\"", "team", CONFIG, "."),
    "include of a nested repository": ("git init -q sub; git -C sub config include.path ../team", "sub/team", CONFIG, "sub"),
    "nested repository, hooks": ("git init -q sub", "sub/.git/hooks/pre-commit", HOOK, "sub"),
    "nested repository, config": ("git init -q sub/deep", "sub/deep/.git/config", CONFIG, "sub/deep"),
    "submodule, hooks": ("SUBMODULE", ".git/modules/sub/hooks/pre-commit", HOOK, "sub"),
    "submodule, config": ("SUBMODULE", ".git/modules/sub/config", CONFIG, "sub"),
    "submodule, hooks are missing": ("SUBMODULE; rm -r .git/modules/sub/hooks", ".git/modules/sub/hooks/pre-commit", HOOK, "sub"),
    "linked worktree, config.worktree": ("git worktree add -q wt; git config extensions.worktreeConfig true", ".git/worktrees/wt/config.worktree", CONFIG, "wt"),
    "linked worktree, hooks of the repository": ("git worktree add -q wt", ".git/hooks/pre-commit", HOOK, "wt"),
    ".git is a link": ("mv .git gd; ln -s gd .git", "gd/hooks/pre-commit", HOOK, "."),
    ".git is a link, config": ("mv .git gd; ln -s gd .git", "gd/config", CONFIG, "."),
    ".git/hooks is a link": ("mv .git/hooks hk; ln -s ../hk .git/hooks", "hk/pre-commit", HOOK, "."),
    ".git is a file, hooks": ("git init -q --separate-git-dir=gd", "gd/hooks/pre-commit", HOOK, "."),
    ".git is a file, config": ("git init -q --separate-git-dir=gd", "gd/config", CONFIG, "."),
    ".git is a file, relative": ("mv .git gd; echo 'gitdir: gd' > .git", "gd/config", CONFIG, "."),
    ".git of a nested one is a file": ("mkdir sub; git init -q --separate-git-dir=gd sub", "gd/hooks/pre-commit", HOOK, "sub"),
    "bare repository of the tree, config": ("git init -q --bare fix.git; git -C fix.git config core.bare false; git -C fix.git config core.worktree .", "fix.git/config", CONFIG, "fix.git"),
    "bare repository of the tree, hooks": ("git init -q --bare fix.git; git -C fix.git config core.bare false; git -C fix.git config core.worktree .", "fix.git/hooks/pre-commit", HOOK, "fix.git"),
    "commondir": ("git worktree add -q wt; cp -r .git gd", ".git/worktrees/wt/commondir", "../../../gd\n", None),
    "alternative .git": ("git init -q --bare fix.git", "sub/.git", "gitdir: ../fix.git\n", None),
}
SUBMODULE = "git init -q ~/lib; git -C ~/lib commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add ~/lib sub"


def host_git(runner, where, env=None):
    """What a user does: git runs what it finds."""
    top = runner.workspace / where
    git(runner, "-c", "safe.bareRepository=all", "status", cwd=top, ok=False, env=env)
    git(runner, "commit", "--allow-empty", "-qm", "by the user", cwd=top, ok=False, env=env)


PLANT = 'mkdir -p "$(dirname "$1")" && cat >> "$1" && chmod +x "$1"'


# What SECURITY.md names under Limits: places that only the configuration of another repository, or a link from outside, leads to.
GAPS = ["hooksPath, absolute through a link", "hooksPath of a nested repository",
        "hooksPath of the user, for a nested repository", "hooksPath of a submodule", "include of a nested repository"]
GAP = pytest.mark.xfail(strict=True, reason="a known gap of direct mode, named in SECURITY.md")


@pytest.mark.parametrize("case", [pytest.param(c, marks=GAP) if c in GAPS else c for c in OBEYED])
def test_git_is_given_nothing_to_run(runner, case):
    """Claim: hooks and configuration of git in every form (34-37): what the host's git is shown to obey cannot be written inside."""
    setup, target, payload, where = OBEYED[case]
    marker = runner.home / "ran"
    repository(runner)
    prepared = runner.run("bash", "-ec", setup.replace("SUBMODULE", SUBMODULE) or "true", env=GIT)
    assert prepared.rc == 0, prepared
    text = (payload % marker if "%s" in payload else payload).encode()
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    planted = runner.run("sh", "-c", PLANT, "sh", target, input=text)
    assert planted.rc == 0, planted
    if where is not None:
        host_git(runner, where)
        assert marker.exists(), "the host's git does not obey it, so this proves nothing"
        marker.unlink()
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    before = snapshot(runner.workspace)
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", PLANT, "sh", target, input=text, env=GIT)
    assert inside.rc not in (0, 64, 125, 127), inside
    after = snapshot(runner.workspace)
    assert {path: (before.get(path), after.get(path)) for path in before.keys() | after.keys() if before.get(path) != after.get(path) and not (after.get(path) or "0o4")[0].startswith("0o4")} == {}
    if where is not None:
        host_git(runner, where)
        assert not marker.exists()


@pytest.mark.parametrize("env", [{"GIT_CONFIG_GLOBAL": "HOME/elsewhere"}, pytest.param({"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "hk"}, marks=GAP),
                                 {"GIT_CONFIG_SYSTEM": "HOME/elsewhere", "GIT_CONFIG_NOSYSTEM": None}], ids=["global", "values", "system"])
def test_git_configuration_named_by_the_environment(runner, env):
    """Claim: core.hooksPath counts wherever the user's git takes it from (36)."""
    env = {**GIT, **{k: v and v.replace("HOME", str(runner.home)) for k, v in env.items()}}
    runner.write(runner.home / "elsewhere", "[core]\n\thooksPath = hk\n")
    marker = runner.home / "ran"
    repository(runner)
    assert runner.run("sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode()).rc == 0
    host_git(runner, ".", env)
    assert marker.exists()
    marker.unlink()
    shutil.rmtree(runner.workspace / "hk")
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode(), env=env)
    assert inside.rc not in (0, 64, 125, 127), inside
    host_git(runner, ".", env)
    assert not marker.exists()


@GAP
def test_the_workspace_is_a_folder_of_a_repository(runner):
    """Claim: the same if the repository begins above the workspace and its hooks lie in it (36)."""
    marker = runner.home / "ran"
    repository(runner)
    sub = runner.mkdir(runner.workspace / "sub")
    git(runner, "config", "core.hooksPath", "sub/hk")
    assert runner.run("sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode(), cwd=sub).rc == 0
    host_git(runner, ".")
    assert marker.exists()
    marker.unlink()
    shutil.rmtree(sub / "hk")
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode(), cwd=sub)
    assert inside.rc not in (0, 64, 125, 127), inside
    host_git(runner, ".")
    assert not marker.exists()


@pytest.mark.parametrize("where", ["logs/HEAD", "logs/refs/heads/main", "logs/refs", "objects/zz", "objects/pack", "objects/info/x", "refs/heads/x", "rebase-merge/done", "rr-cache/x", "lfs/tmp", "x", "HEAD"])
def test_no_link_below_git(runner, where):
    """Claim: nothing below .git becomes a symbolic link, which git itself never makes: the host's git would write through it (3, 15)."""
    repository(runner)
    script = 'mkdir -p "$(dirname "$1")"; rm -rf "$1"; ln -s /elsewhere "$1" && echo linked; mkdir -p t; ln -s /elsewhere t/l; mv -T t/l "$1" && echo moved; ln -P t/l "$1" && echo hard; rm -rf "$1"; mkdir -p u; ln -s /elsewhere u/l; mv -T u "$1" && echo tree; true'
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    assert b"linked" in runner.run("sh", "-c", script, "sh", f".git/{where}", cwd=keep).out
    r = runner.bawn(*DIRECT, "--", "sh", "-c", script, "sh", f".git/{where}")
    assert r.rc == 0 and r.out == b"", r
    assert not [path for path, (mode, _) in snapshot(runner.workspace / ".git").items() if stat.S_ISLNK(int(mode, 8))]


@pytest.mark.parametrize("target", ["HOME/.bashrc", "../hooks/pre-commit"])
def test_the_reflog_does_not_write_elsewhere(runner, target):
    """Claim: the host's git, that notes what the user does, is not made to write where the command cannot (15, 34)."""
    repository(runner)
    victim = runner.write(runner.home / ".bashrc", "# mine\n") if "HOME" in target else runner.write(".git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    before = victim.read_bytes()
    script = f"rm -f .git/logs/HEAD; ln -s {target.replace('HOME', str(runner.home))} .git/logs/HEAD; git branch 'a;evil;'; true"
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    assert runner.run("sh", "-c", script, env=GIT).rc == 0
    git(runner, "checkout", "-q", "a;evil;")
    assert b"a;evil;" in victim.read_bytes(), "without the sandbox the user's checkout writes it"
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    victim.write_bytes(before)
    r = runner.bawn(*DIRECT, "--", "sh", "-c", script)
    assert r.rc == 0, r
    git(runner, "checkout", "-q", "a;evil;", ok=False)
    assert victim.read_bytes() == before, r


BARE = {
    "HEAD": "echo 'ref: refs/heads/main' > {d}/HEAD",
    "objects": "mkdir {d}/objects",
    "refs": "mkdir {d}/refs",
    "config": "printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\nfsmonitor = \"touch %s; false\"\\n' > {d}/config",
}
BARE_ODD = {
    "by git": "git init -q --bare {d}",
    "renamed in": "mkdir -p {d} p/objects p/refs; echo 'ref: refs/heads/main' > h; CONFIG; mv p/objects p/refs {d}; mv h {d}/HEAD",
    "links": "mkdir -p {d} o r; ln -s ../o {d}/objects; ln -s ../r {d}/refs; CONFIG; ln -s refs/heads/main {d}/HEAD",
    "a whole tree from /tmp": "git init -q --bare $T/x; {C}; mv $T/x {d}",
    "commondir": "mkdir -p {d} real/objects real/refs; echo 'ref: refs/heads/main' > {d}/HEAD; CONFIG; mv {d}/config real; echo ../real > {d}/commondir",
    "exchanged": "mkdir -p {d}/objects {d}/x y/refs; echo 'ref: refs/heads/main' > {d}/HEAD; CONFIG; mv {d}/x {d}/refs",
    "in the workspace itself": "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD",
}


def plant_bare(script, runner, marker):
    config = BARE["config"].replace("%s", str(marker))
    return script.replace("CONFIG", config).replace("{C}", config.replace("{d}", "$T/x")).replace("%s", str(marker)).format(d="bare") if "{d}" in script else script


@pytest.mark.parametrize("order", [" ".join(o) for o in itertools.permutations(BARE)] + list(BARE_ODD))
def test_no_bare_repository_can_be_planted(user_runner, order):
    """Claim: no folder that git would take for a repository, with a configuration of its own, in whatever order it is made (37)."""
    runner, marker = user_runner, user_runner.home / "ran"
    script = BARE_ODD.get(order) or "; ".join(["mkdir {d}"] + [BARE[part] for part in order.split()])
    script = "set -e; T=$(mktemp -d); " + plant_bare(script, runner, marker)
    where = runner.workspace / "bare" if "{d}" in (BARE_ODD.get(order) or "{d}") else runner.workspace
    outside = runner.run("sh", "-c", script, env={"TMPDIR": str(runner.home)})
    assert outside.rc == 0, outside
    found = runner.run("git", "rev-parse", "--git-dir", cwd=where, env={**GIT, "GIT_CEILING_DIRECTORIES": str(runner.top)})
    assert found.rc == 0, f"git does not take it for a repository, so this proves nothing: {found}"
    if order in ("HEAD objects refs config", "renamed in", "links"):
        git(runner, "status", cwd=where, ok=False)
        assert marker.exists()
        marker.unlink()
    for path in runner.workspace.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", script)
    assert inside.rc not in (0, 64, 125, 127), inside
    if where.exists():
        found = runner.run("git", "rev-parse", "--git-dir", cwd=where, env={**GIT, "GIT_CEILING_DIRECTORIES": str(runner.top)})
        assert found.rc != 0, found
