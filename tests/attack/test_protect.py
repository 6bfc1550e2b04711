# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 2 to 5, 16, 17, 34 to 40: in direct mode nothing inside can write, make, replace or remove what the host would run
or obey.

Each way (protect_ways.py) is shown to work without the sandbox, on every path, before it is tried inside. The guard alone has its own
tests (tests/integration/test_guard.py); here it is the real `bawn run`.
"""

import os
import pathlib
import shutil
import stat
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import protect_ways  # noqa: E402
from protecting import ALL, DIRECT, LEADS, LINES, PLACES, PYTHON, ROOT, TARGETS, git, own_all, repository, rows, snapshot  # noqa: E402

# -- the list ---------------------------------------------------------------------------------------------------------------------


def test_the_list_is_read_as_it_is_meant():
    """The patterns are found, and each attacked path is one that its pattern names."""
    assert len(TARGETS) > 180 and {".git", ".vscode", ".claude", ".cursor"} <= set(LEADS)
    assert {".git/hooks/inside", ".git/config", ".git/modules/x/hooks/inside", ".vscode/tasks.json", ".envrc", ".mcp.json", ".sandboxignore", ".bawn/inside", ".hg/hgrc", "mise/config.toml", ".vscode/cmake-kits.json", ".Rprofile", ".ghci",
            ".pdbrc", ".jj/repo/config.toml"} <= set(TARGETS)


def test_every_row_has_a_reader_and_a_source():
    """Claim: the list says of each path what reads it and where that is documented, and `bawn config show --protected` prints it."""
    for row in rows():
        assert len(row) == 4 and all(row), row
        assert len(row[2]) > 10 and len(row[3]) > 5, row
    assert len(LINES) == len(set(LINES))


def test_the_list_is_shown(runner):
    shown = runner.bawn("config", "show", "--protected", "--json")
    assert [list(row.values()) for row in shown.json()["protected"]] == rows(), shown
    text = runner.bawn("config", "show", "--protected").out.decode()
    assert all(row[0] in text and row[3] in text for row in rows())


def test_sync_holds_every_protected_path_back(runner):
    """Claim: sync mode carries none of them to the workspace, each waits for review, and review calls each at least a low risk."""
    runner.write("src/main.c", "int main(void) { return 0; }\n")
    git(runner, "init", "-q", "-b", "main", "--template=")
    (runner.workspace / ".git/config").unlink()
    ours = [t for t in TARGETS if not t.startswith(".git/worktrees")]
    # No reader understands this, so rules that read the file say something, too.
    script = 'for p; do mkdir -p "$(dirname "$p")" && printf "{ \\001 [\\n: = ] filter=x\\n" > "$p" || echo "$p"; done; echo done > src/ordinary'
    r = runner.bawn("run", "--workspace", "sync", "--name", "s", "--", "sh", "-c", script, "sh", *ours)
    assert r.rc == 0 and r.out == b"", r
    assert (runner.workspace / "src/ordinary").exists(), "the harmless twin is carried"
    assert [t for t in ours if os.path.lexists(runner.workspace / t)] == []
    judged = {c["path"]: c for c in runner.bawn("review", "--json", "s").json()["changes"]}
    visible = [t for t in ours if not judged[t]["hidden"]]
    assert len(visible) > 180
    assert [t for t in visible if not judged[t]["risks"]] == []


# -- ways: the same code runs outside and inside -----------------------------------------------------------------------------------

SCRIPT = (ROOT / "tests/attack/protect_ways.py").read_text()
WAYS = [("there", way) for way in protect_ways.there] + [("new", way) for way in protect_ways.new]


@pytest.fixture(scope="module")
def scenes(request, bawn):
    """One workspace per user for all ways on what exists, one for all on what does not: no attack may change either."""
    tools = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))
    made, open_ = {}, []

    def get(kind, existing):
        if (kind, existing) not in made:
            manager = tools.make_runner(kind, bawn)
            runner = manager.__enter__()
            open_.append(manager)
            runner.write("src/main.c", "int main(void) { return 0; }\n")
            runner.mkdir(runner.workspace / "scratch")
            runner.mkdir(runner.top / "control")
            runner.write("sub/deep/file", "content\n")
            for repo in ("", "sub/deep"):
                git(runner, "init", "-q", "-b", "main", "--template=", cwd=runner.workspace / repo)
                (runner.workspace / repo / ".git/config").unlink()
            if existing == "there":
                for path in ALL:
                    runner.write(path, "before\n")
            made[kind, existing] = runner
        return made[kind, existing]

    yield get
    for manager in open_:
        manager.__exit__(None, None, None)


def is_judged_later(path):
    """What git writes in place may be opened: what is written is judged, and dropped, at the close. That nothing changed is asserted for it, too."""
    return path.split("/")[-1] in ("commondir", "gitdir", "config.worktree") and ".git/worktrees/" in path


@pytest.mark.parametrize("kind", ["root", "user"])
@pytest.mark.parametrize("existing, way", WAYS, ids=[f"{e}-{w}" for e, w in WAYS])
def test_no_way_to_a_protected_path(scenes, kind, existing, way):
    """Claim: what the host runs or obeys cannot be written, made, replaced or removed, by whatever way (2-5, 16, 17, 34-37, 40)."""
    runner = scenes(kind, existing)
    shown = runner.run(PYTHON, "-c", SCRIPT, "control", way, existing, *ALL, cwd=runner.top / "control")
    assert shown.rc == 0 and set(shown.json().values()) == {"OK"}, f"the way does not work even without the sandbox: {shown!r}"
    before = snapshot(runner.workspace, ["scratch"])
    r = runner.bawn(*DIRECT, "--", PYTHON, "-c", SCRIPT, "attack", way, existing, *ALL)
    assert r.rc == 0, r
    worked = {path: answer for path, answer in r.json().items() if answer not in ("EACCES", "EPERM") and not (answer == "OK" and is_judged_later(path))}
    assert not worked, worked
    after = snapshot(runner.workspace, ["scratch"])
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if existing == "new":  # folders that are harmless without what could not be put into them
        harmless = {path for path in changed if path not in before and stat.S_ISDIR(int(after[path][0], 8))}
        assert not harmless & {p for p in ALL}, harmless
        empty = {path for path in changed if path not in before and is_judged_later(path) and after[path][1] == b""}  # what was opened and not written
        for path in empty:
            (runner.workspace / path).unlink()
        assert not any(os.path.lexists(runner.workspace / path) for path in ALL)
        changed -= harmless | empty
    assert not changed, changed
    assert b"bawn: refused: write to" in r.err, r


LEAD_WAYS = {
    "file": "printf x > '{p}'",
    "link": "mkdir -p evil; ln -s \"$PWD/evil\" '{p}'",
    "dangling link": "ln -s nowhere '{p}'",
    "renamed link": "ln -s evil l$$; mv -T l$$ '{p}'",
    "renamed folder": "mkdir e$$; mv -T e$$ '{p}'",
    "fifo": "mkfifo '{p}'",
}


@pytest.mark.parametrize("way", LEAD_WAYS)
def test_what_leads_to_a_protected_path(runner, way):
    """Claim: .vscode, .claude and their like can only be folders, made as such: a file or link would lead somewhere else (3, 4)."""
    leads = [place + lead for place in PLACES for lead in LEADS if lead != ".git" and not any(other.startswith(lead + "/") for other in LEADS)]
    body = LEAD_WAYS[way].replace("'{p}'", '"$p"').replace("$$", "$n")
    script = 'for p; do n=$(mktemp -u XXXXXXXX); mkdir -p "$(dirname "$p")"; (%s) 2>/dev/null && echo "$p"; done; true' % body
    control = runner.mkdir(runner.top / "control")
    outside = runner.run("sh", "-c", script, "sh", *leads, cwd=control)
    assert set(outside.out.decode().split()) == set(leads), outside
    for repo in ("", "sub/deep"):
        (runner.workspace / repo).mkdir(parents=True, exist_ok=True)
        own_all(runner, runner.workspace)
        git(runner, "init", "-q", "--template=", cwd=runner.workspace / repo)
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", script, "sh", *leads)
    assert inside.rc == 0 and inside.out == b"", inside
    assert [path for path in leads if os.path.lexists(runner.workspace / path)] == []


def test_ancestors_of_a_protected_path_may_move_only_together_with_it(runner):
    """Claim: a move never takes the protection off something, nor brings it where the host obeys it (4)."""
    for path in ("sub/.vscode/tasks.json", "sub/.envrc", "a/hooks/pre-commit", "a/tasks.json", "b/.claude/notes.md"):
        runner.write(path, "before\n")
    git(runner, "init", "-q", "nested", cwd=runner.workspace)
    refused = ["mv sub/.vscode x", "mv sub/.vscode sub/vscode", "mv a sub2; mv -T sub2 .vscode", "mkdir -p c && mv a c/.vscode", "mv a/hooks .claude-hooks && mkdir -p .claude && mv -T .claude-hooks .claude/hooks",
               "mv nested/.git x", "mv nested/.git nested/.git2", "mv nested/.git/hooks nested/h", "mv b/.claude b/claude", "mv -T a nested/.git/modules",
               "mv sub /tmp/", "mkdir /tmp/v && echo x > /tmp/v/tasks.json && mv -T /tmp/v .vscode", "cp -r a .idea", "mkdir /tmp/r && git init -q /tmp/r && mv -T /tmp/r r2"]
    for script in refused:
        control = runner.top / "control"
        shutil.copytree(runner.workspace, control, symlinks=True)
        runner.own(control)
        own_all(runner, control)
        scratch = runner.mkdir(runner.top / "tmp")
        outside = runner.run("sh", "-ec", script.replace("/tmp", str(scratch)), cwd=control)
        assert outside.rc == 0, outside
        shutil.rmtree(control)
        shutil.rmtree(scratch)
    protected = {path: data for path, data in snapshot(runner.workspace).items() if ".git" in path or path in ("sub/.vscode/tasks.json", "sub/.envrc", "b/.claude")}
    for script in refused:
        inside = runner.bawn(*DIRECT, "--", "sh", "-ec", script)
        assert inside.rc not in (0, 64, 125, 127), inside
    after = snapshot(runner.workspace)
    assert {path: after.get(path) for path in protected} == protected
    for path in (".vscode", ".claude/hooks", "c/.vscode", ".idea", "r2"):
        assert not os.path.lexists(runner.workspace / path), path
    moved = runner.bawn(*DIRECT, "--", "sh", "-ec", "mv sub elsewhere; mv nested n2; git -C n2 status")
    assert moved.rc == 0, moved
    assert (runner.workspace / "elsewhere/.vscode/tasks.json").read_text() == "before\n"
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", "echo x > elsewhere/.vscode/tasks.json; echo x > n2/.git/config; mkdir -p sub/.vscode; echo x > sub/.vscode/tasks.json")
    assert inside.rc != 0 and (runner.workspace / "elsewhere/.vscode/tasks.json").read_text() == "before\n", inside
    assert not (runner.workspace / "sub/.vscode/tasks.json").exists()


def test_other_spellings_do_not_matter(runner):
    """Claim: .GIT in any case is refused too; other names are other names on a file system that tells them apart, and git obeys none."""
    runner.write("a", "a\n")
    git(runner, "init", "-q")
    git(runner, "add", "a")
    git(runner, "commit", "-qm", "a")
    hooks = "for n in .GIT .Git .giT; do mkdir -p $n/hooks 2>/dev/null && printf '#!/bin/sh\\ntouch %s\\n' > $n/hooks/pre-commit && chmod +x $n/hooks/pre-commit && echo $n; done; true"
    control = runner.mkdir(runner.top / "control")
    assert runner.run("sh", "-c", hooks % "x", cwd=control).out.split() == [b".GIT", b".Git", b".giT"]
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", hooks % (runner.home / "ran"))
    assert inside.rc == 0 and inside.out == b"", inside
    git(runner, "commit", "--allow-empty", "-qm", "b")
    assert not (runner.home / "ran").exists()
    assert git(runner, "status", "--porcelain", "--ignored", "-uall").out == b""


# -- other mounts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, target", [("work/.git", "hooks/x"), ("work/.git/hooks", "x"), ("work/.git/config", ""), ("work", ".envrc"), ("work/sub", ".vscode/tasks.json"), (".", "work/.git/hooks/x")])
def test_through_a_mount_of_the_users(runner, source, target):
    """Claim: the same place reached through `--mount … rw` is the same protected place (mount point tricks)."""
    repository(runner)
    runner.write("sub/.vscode/tasks.json", "before\n")
    before = snapshot(runner.workspace)
    path = ("/mnt/other/" + target).rstrip("/")
    plain = {"work": "fine", "work/.git": "fine", "work/sub": "fine", ".": "work/fine"}.get(source)
    writable = f"echo ok > /mnt/other/{plain} && rm /mnt/other/{plain} || exit 9; " if plain else ""
    r = runner.bawn(*DIRECT, "--mount", f"{runner.top / source}:/mnt/other:rw", "--", "sh", "-c", f'{writable}echo evil > "$1" || exit 3', "sh", path)
    assert r.rc == 3, r
    assert snapshot(runner.workspace) == before
    without = runner.bawn("run", "--no-sandbox", "--yes-unsandboxed", "--", "sh", "-c", 'echo evil > "$1"', "sh", str(runner.top / source / target).rstrip("/"))
    assert without.rc == 0 and snapshot(runner.workspace) != before, without


def test_through_the_name_that_every_workspace_has(runner):
    """Claim: /workspace leads to the same place."""
    repository(runner)
    before = snapshot(runner.workspace)
    r = runner.bawn(*DIRECT, "--", "sh", "-c", "echo ok > /workspace/fine && rm fine || exit 9; for p in .git/hooks/x .git/config .envrc sub/.mcp.json; do mkdir -p /workspace/sub; echo x > /workspace/$p && exit 0; done; rmdir sub; exit 3")
    assert r.rc == 3 and snapshot(runner.workspace) == before, r
