# SPDX-License-Identifier: Apache-2.0
"""Git inside as at home: hidden files do not stand in its way, the user's settings and ignore rules are there."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import GIT, nothing_left, who  # noqa: E402, F401

HOUR_AGO = 3600


def git(w, *args):
    r = w.run(*GIT, "-c", "safe.directory=*", *args)
    assert r.rc == 0, r
    return r.out.decode()


def project(w):
    """Tracked and untracked hidden files, alone and in hidden folders; git has seen them long ago."""
    git(w, "init", "-q", ".")
    w.write("a", "one\n")
    w.write(".sandboxignore", "/private\n.env\n*.pem\n*.key\nid_rsa\n")
    for path in ("keys/tracked.pem", "private/deep/known", "tool.key"):
        old = w.write(path, "SECRET\n", 0o755 if path == "tool.key" else 0o644)
        os.utime(old, (old.stat().st_mtime - HOUR_AGO,) * 2)
    git(w, "add", "-A", "-f")
    git(w, "commit", "-qm", "one")
    for path in [w.workspace / ".git", *(w.workspace / ".git").rglob("*")]:
        w.own(path)
    w.write(".env", "SECRET=1\n")
    w.write("keys/id_rsa", "SECRET\n")
    w.write("new", "new\n")


def inside(w, mode, script):
    return w.bawn("run", "--workspace", mode, "--", "sh", "-c", script)


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "ro"])
def test_status_does_not_see_hidden_files(who, mode):
    project(who)
    assert "SECRET" in who.run("cat", "keys/tracked.pem", "private/deep/known", ".env").out.decode()
    r = inside(who, mode, "git status --porcelain; cat .env keys/* private/deep/* tool.key; true")
    assert r.rc == 0 and r.out == b"?? new\n", r.err
    assert b"SECRET" not in r.err and b"could not open" not in r.err, r


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_add_stash_and_commit_leave_hidden_files_alone(who, mode):
    project(who)
    r = inside(who, mode, "set -e; git stash -q -u; git stash pop -q >/dev/null; git add -A; git -c user.name=t -c user.email=t@example.com commit -qm two; "
               "git show --stat=200 --format= HEAD; git status --porcelain; git diff HEAD --stat")
    assert r.rc == 0 and r.out == b" new | 1 +\n 1 file changed, 1 insertion(+)\n", r
    if mode == "overlay":
        assert who.bawn("apply", "--yes").rc == 0
    assert git(who, "ls-files") == ".sandboxignore\na\nkeys/tracked.pem\nnew\nprivate/deep/known\ntool.key\n"
    assert git(who, "status", "--porcelain") == "?? .env\n?? keys/id_rsa\n", "the host's own view is as before"
    assert (who.workspace / "keys" / "tracked.pem").read_text() == "SECRET\n"


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_clean_takes_everything_but_hidden_files(who, mode):
    project(who)
    who.write("build/out/.env", "SECRET\n")
    who.write("build/x", "x\n")
    r = inside(who, mode, "git clean -q -fdx && rm -rf build && git status --porcelain --ignored=no; ls -d new build/x 2>&1")
    assert r.rc == 2 and b"'new'" in r.out and b"'build/x'" in r.out and b"warning" not in r.err, r
    assert not (who.workspace / "new").exists() or mode == "overlay"
    for path in (".env", "keys/id_rsa", "build/out/.env"):
        assert "SECRET" in (who.workspace / path).read_text()


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "ro"])
def test_an_index_that_is_out_of_date_hides_all_the_same(who, mode):
    """Claim: what git's index calls a file and is a folder now, or the other way round, is hidden, and the run starts."""
    project(who)
    (who.workspace / "tool.key").unlink()
    who.write("tool.key/in", "SECRET\n")
    who.run("rm", "-r", str(who.workspace / "private"))
    who.write("private", "SECRET\n")
    r = inside(who, mode, "cat tool.key/in private private/deep/known; ls tool.key; true")
    assert r.rc == 0 and b"SECRET" not in r.out + r.err, r


@pytest.mark.parametrize("mode", ["direct", "sync"])
def test_an_index_of_the_inside_leads_nowhere(who, mode):
    """Claim: names in an index that a run wrote make no file outside of what is hidden, and stop no run."""
    git(who, "init", "-q", ".")
    who.write(".sandboxignore", "/private\n")
    who.write("private/x", "x\n")
    evil = b"DIRC\0\0\0\2\0\0\0\3"
    for name in (b"private/../../escaped", b"private/x", b"private/x/below"):
        entry = b"\0" * 8 + b"\xff" * 8 + b"\0" * 8 + (0o100644).to_bytes(4, "big") + b"\0" * 8 + b"\xff" * 4 + b"\1" * 20 + len(name).to_bytes(2, "big") + name
        evil += entry + b"\0" * (8 - len(entry) % 8)
    who.write(".git/index", evil + b"\0" * 20)
    r = inside(who, mode, "ls private; find / -xdev -name escaped 2>/dev/null; cat private/x 2>/dev/null; true")
    assert r.rc == 0 and r.out == b"x\n", r
    assert not [p for p in who.top.rglob("escaped")]


def test_global_settings_can_be_made_inside(runner):
    runner.write(runner.home / ".gitconfig", "[user]\n\tname = Me\n")
    r = runner.bawn("run", "--", "sh", "-c", "git config --global user.email x@example.com && git config --global --includes --list && git config --list")
    assert r.rc == 0 and {"user.name=Me", "user.email=x@example.com"} <= set(r.out.decode().split("\n")), r
    r = runner.bawn("run", "--", "git", "config", "user.email")
    assert (r.rc, r.out) == (1, b""), "it was that sandbox's own"
    assert (runner.home / ".gitconfig").read_text() == "[user]\n\tname = Me\n"


def test_aliases_come_in_unless_they_run_programs(runner):
    runner.write(runner.home / ".gitconfig", "[alias]\n\tst = status --porcelain\n\tleak = !curl -H token\n[alias \"x\"]\n\tcommand = !y\n")
    runner.run(*GIT, "init", "-q", ".")
    runner.write("f", "")
    r = runner.bawn("run", "--", "sh", "-c", "git st; git config --get-regexp 'alias.*'")
    assert (r.rc, r.out) == (0, b"?? f\nalias.st status --porcelain\n"), r


@pytest.mark.parametrize("place", ["named", "default"])
def test_what_the_user_ignores_everywhere_is_ignored_inside(runner, place):
    where = ".config/git/ignore" if place == "default" else "my ignores"
    runner.write(runner.home / where, "*.swp\n/.idea\n")
    if place == "named":
        runner.write(runner.home / ".gitconfig", '[core]\n\texcludesFile = "~/my ignores"\n')
    runner.run(*GIT, "init", "-q", ".")
    for name in ("a.swp", ".idea/x", "b"):
        runner.write(name, "")
    r = runner.bawn("run", "--", "git", "status", "--porcelain")
    assert (r.rc, r.out) == (0, b"?? b\n"), r


def test_a_part_of_a_repository_says_so_once(runner):
    git(runner, "init", "-q", ".")
    part = runner.write("packages/one/f", "").parent
    runs = [runner.bawn("run", "-C", str(part), "--", "git", "status") for _ in range(2)]
    said = f"bawn: git inside sees no repository: this folder is a part of the one in '{runner.workspace}' (use -C '{runner.workspace}' for that)\n"
    assert [r.err.decode().count(said) for r in runs] == [1, 0], runs
    assert said not in runner.bawn("run", "--", "true").err.decode()


def test_a_home_that_is_a_repository_is_no_advice(runner):
    runner.write(runner.home / ".git" / "HEAD", "ref: refs/heads/main\n")
    part = runner.write(runner.home / "project" / "f", "").parent
    r = runner.bawn("run", "-C", str(part), "--", "true")
    assert r.rc == 0 and b"repository" not in r.err, r
