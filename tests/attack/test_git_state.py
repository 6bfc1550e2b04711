# SPDX-License-Identifier: Apache-2.0
"""Issue 13, number 2: what a run commits, stages, stashes or plants in .git is judged like files are, in every mode. The user's next
`git checkout`, `reset --hard`, `switch`, `merge` or `stash pop` would bring it out, and no file of the workspace shows it.

Each attack is shown to work first: the same script in an ordinary clone, and the host's git brings the file out.
"""

import json
import os
import shutil

import pytest

IDENTITY = {f"GIT_{who}_{what}": f"t{at}" for who in ("AUTHOR", "COMMITTER") for what, at in (("NAME", ""), ("EMAIL", "@example.com"))}
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", **IDENTITY}
MODES = ["direct", "overlay", "sync", "worktree"]

TASKS = '{"tasks": [{"label": "x", "type": "shell", "command": "evil", "runOptions": {"runOn": "folderOpen"}}]}'
HELPERS = r"""
set -e
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.com GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.com GIT_CONFIG_NOSYSTEM=1
blob() { printf '%s' "$1" | git hash-object -w --stdin; }
put() { git update-index --add --cacheinfo "$1,$(blob "$2"),$3"; }
commit_on() { git update-ref "$1" "$(git commit-tree -p HEAD -m x "$(git write-tree)")"; }
"""

# name: (script, what the host does to bring it out, path, class)
ATTACKS = {
    "committed": ("put 100644 '%s' .vscode/tasks.json; git commit -qm x" % TASKS, "git checkout -q -- .", ".vscode/tasks.json", "ide"),
    "envrc": ("put 100644 'evil' sub/.envrc; git commit -qm x", "git reset -q --hard", "sub/.envrc", "environment"),
    "hgrc": ("put 100644 '[hooks]' .hg/hgrc; git commit -qm x", "git reset -q --hard", ".hg/hgrc", "environment"),
    "staged": ("put 100644 '%s' .vscode/tasks.json" % TASKS, "git checkout -q -- .", ".vscode/tasks.json", "ide"),
    "branch": ("put 100644 '%s' .vscode/tasks.json; commit_on refs/heads/evil; git reset -q" % TASKS, "git switch -q evil", ".vscode/tasks.json", "ide"),
    "packed branch": ("put 100644 '%s' .vscode/tasks.json; commit_on refs/heads/evil; git reset -q; git pack-refs --all" % TASKS, "git switch -q evil", ".vscode/tasks.json", "ide"),
    "packed objects": ("put 100644 '%s' .vscode/tasks.json; commit_on refs/heads/evil; git reset -q; git repack -adq" % TASKS, "git switch -q evil", ".vscode/tasks.json", "ide"),
    "tag": ("put 100644 '%s' .vscode/tasks.json; commit_on refs/x; git reset -q; git tag -a -m t v1 refs/x; git update-ref -d refs/x" % TASKS, "git checkout -q v1", ".vscode/tasks.json", "ide"),
    "stash": ("put 100644 '%s' .vscode/tasks.json; git stash -q" % TASKS, "git stash pop -q; git checkout -q -- .", ".vscode/tasks.json", "ide"),
    "reflog": ("put 100644 '%s' .vscode/tasks.json; git commit -qm x; git reset -q --hard HEAD~1" % TASKS, "git reset -q --hard 'HEAD@{1}'", ".vscode/tasks.json", "ide"),
    "removed again": ("put 100644 '%s' .vscode/tasks.json; git commit -qm x; git rm -q --cached .vscode/tasks.json; git commit -qm y" % TASKS, "git checkout -q HEAD~1", ".vscode/tasks.json", "ide"),
    "ORIG_HEAD": ("put 100644 '%s' .vscode/tasks.json; commit_on refs/x; git reset -q; git rev-parse refs/x > .git/ORIG_HEAD; git update-ref -d refs/x" % TASKS, "git reset -q --hard ORIG_HEAD",
                  ".vscode/tasks.json", "ide"),
    "link out": ("put 120000 /etc/passwd notes; git commit -qm x", "git reset -q --hard", "notes", "symlink-out"),
    "bare repository": ("put 100644 'ref: refs/heads/main' b/HEAD; put 100644 '[core] fsmonitor = evil' b/config; put 100644 x b/refs/x; put 100644 x b/objects/x; git commit -qm x",
                        "git reset -q --hard", "b/HEAD", "git-dir"),
    "below a merge": ("git checkout -q -b side; put 100644 '%s' .vscode/tasks.json; git commit -qm x; git rm -q --cached .vscode/tasks.json; git commit -qm y; git checkout -q -f main; "
                      "git merge -q --no-ff -m m side" % TASKS, "git checkout -q HEAD^2~1", ".vscode/tasks.json", "ide"),
}
IN_WORKTREE = {"committed", "envrc", "hgrc", "removed again", "link out", "bare repository"}  # the branch is what comes back


def git(runner, *args, cwd=None, ok=True):
    r = runner.run("git", *args, env=GIT, cwd=cwd)
    assert r.rc == 0 or not ok, r
    return r


@pytest.fixture
def repo(runner):
    runner.write("src/main.c", "int main(void) { return 0; }\n")
    runner.write("README", "a\n")
    runner.write(".sandboxignore", ".secret\n")
    git(runner, "init", "-q", "-b", "main")
    git(runner, "config", "gc.auto", "0")
    git(runner, "add", ".")
    git(runner, "commit", "-qm", "first")
    return runner


def control(runner, script, bring_out, path, there=False):
    """The same in a copy without a sandbox: the host's git brings the file out."""
    copy = runner.mkdir(runner.top / "control")
    assert runner.run("cp", "-a", f"{runner.workspace}/.", copy).rc == 0
    r = runner.run("sh", "-c", HELPERS + script, env=GIT, cwd=copy)
    assert r.rc == 0 and os.path.lexists(copy / path) == there, r
    r = runner.run("sh", "-ec", bring_out, env=GIT, cwd=copy)
    assert r.rc == 0 and os.path.lexists(copy / path), r
    shutil.rmtree(copy)


def run_in(runner, mode, script, *, rc=0):
    r = runner.bawn("run", "--workspace", mode, "--name", "r", "--", "sh", "-c", HELPERS + script) if mode != "direct" else runner.bawn("run", "--workspace", mode, "--", "sh", "-c", HELPERS + script)
    assert r.rc == rc, r
    return r


def review(runner, mode, *args):
    r = runner.bawn("review", "--json", *args, *([] if mode == "direct" else ["r"]))
    assert r.rc in (0, 1), r
    return r.json()


def found(report, path, class_=None):
    """All risks about a path in a commit or in the index."""
    return [(c["path"], k) for c in report["changes"] for k in c["risks"] if k.get("where", {}).get("path") == path and class_ in (None, k["class"])]


def high(report):
    return [(c["path"], k) for c in report["changes"] for k in c["risks"] if k["level"] == "high"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ATTACKS)
def test_what_git_would_bring_out_is_named(repo, mode, name):
    """Claim: everything new in refs, reflogs, stash and index is judged by the rules for files, and shown with its place."""
    script, bring_out, path, class_ = ATTACKS[name]
    if mode == "worktree" and name not in IN_WORKTREE:
        return
    control(repo, script, bring_out, path)
    r = run_in(repo, mode, script)
    assert not os.path.lexists(repo.workspace / path)
    report = review(repo, mode)
    risks = found(report, path, class_)
    assert any(k["level"] == "high" for _, k in risks), report
    kinds = {k["where"]["kind"] for _, k in risks}
    assert kinds == {"index"} if name == "staged" else "commit" in kinds, risks
    for _, k in risks:
        where = k["where"]
        assert ("id" in where) == (where["kind"] == "commit") and (f"in commit {where['id'][:12]}" if "id" in where else "in the index") in k["reason"], k
    assert report["summary"]["high"] > 0
    text = repo.bawn("review", *([] if mode == "direct" else ["r"])).out.decode()
    assert f"'{path}' in " in text, text
    if mode in ("direct", "sync", "worktree"):
        assert f"'{path}' in ".encode() in r.err, r
    if mode == "sync":
        assert repo.run("sh", "-ec", bring_out, env=GIT, cwd=repo.workspace).rc != 0 or not os.path.lexists(repo.workspace / path), "held back"
    if mode == "overlay":
        refused = repo.bawn("apply", "r")
        assert not os.path.lexists(repo.workspace / path) and refused.rc != 0, refused
        assert repo.run("sh", "-ec", bring_out, env=GIT, cwd=repo.workspace).rc != 0 or not os.path.lexists(repo.workspace / path), refused


@pytest.mark.parametrize("mode", MODES)
def test_ordinary_commits_have_no_risk(repo, mode):
    """The harmless twin: work, commit, branch, stash, merge, gc. Nothing high, and it gets to the host."""
    script = ("echo b >> README; git add README; git commit -qm b; git checkout -q -b f; echo c > c.txt; git add c.txt; git commit -qm c; git checkout -q -; git merge -q --no-ff -m m f; "
              "echo d >> README; git stash -q; git stash pop -q; git tag -a -m t v1; git merge -q -s ours --no-ff -m o $(git commit-tree -m p HEAD^{tree}) $(git commit-tree -m q HEAD^{tree}) --allow-unrelated-histories; git gc -q")
    r = run_in(repo, mode, script)
    assert b"high risk" not in r.err, r
    report = review(repo, mode, "--fail-on", "none") if mode != "sync" else {"changes": []}
    assert not high(report), high(report)
    assert not [k for c in report["changes"] for k in c["risks"] if "where" in k], report
    if mode in ("direct", "sync"):
        assert b"m\n" in git(repo, "log", "--format=%s").out
        assert b"held back" not in r.err, r


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
@pytest.mark.parametrize("way", ["loose", "pack"])
def test_an_object_that_is_not_what_its_name_says(repo, mode, way):
    """Claim: git believes the names of blobs; one that stands in for another changes what checkout writes, with no ref moved."""
    bring_out = "rm README; git checkout -q -- README; grep -q evil README"
    fake = r'''
import hashlib, os, struct, subprocess, sys, zlib
run = lambda *a, **k: subprocess.run(a, check=True, capture_output=True, **k).stdout
name = run("git", "rev-parse", "HEAD:README").decode().strip()
data = b"evil"
if sys.argv[1] == "loose":
    path = f".git/objects/{name[:2]}/{name[2:]}"
    os.unlink(path)
    with open(path, "wb") as f:
        f.write(zlib.compress(b"blob %d\0" % len(data) + data))
else:
    size, head = len(data), []
    byte = 3 << 4 | size & 15
    size >>= 4
    while size:
        head.append(byte | 128)
        byte, size = size & 127, size >> 7
    head.append(byte)
    packed = bytes(head) + zlib.compress(data)
    pack = b"PACK" + struct.pack(">II", 2, 1) + packed
    sha = hashlib.sha1(pack).digest()
    pack += sha
    stem = f".git/objects/pack/pack-{sha.hex()}"
    os.makedirs(".git/objects/pack", exist_ok=True)
    raw = bytes.fromhex(name)
    idx = b"\377tOc" + struct.pack(">I", 2) + b"".join(struct.pack(">I", int(i >= raw[0])) for i in range(256)) + raw + struct.pack(">I", zlib.crc32(packed)) + struct.pack(">I", 12) + sha
    idx += hashlib.sha1(idx).digest()
    open(stem + ".pack", "wb").write(pack)
    open(stem + ".idx", "wb").write(idx)
'''
    script = f"python3 -c '{fake}' {way}".replace("python3", "/usr/bin/python3")
    control(repo, script, bring_out, "README", there=True)
    r = run_in(repo, mode, script)
    report = review(repo, mode)
    bad = [path for path, k in high(report) if "its name says" in k["reason"] and path.startswith(".git/objects/")]
    assert len(bad) == 1, report
    if mode == "direct":
        assert b"its name says" in r.err, r
    if mode == "sync":
        assert repo.run("sh", "-ec", bring_out, env=GIT, cwd=repo.workspace).rc != 0 and (repo.workspace / "README").read_text() == "a\n"


UNEXAMINED = {
    "missing": ("echo 0123456789012345678901234567890123456789 > .git/refs/heads/x", ".git/refs/heads/x"),
    "replace in packed-refs": ("h=$(git rev-parse HEAD); t=$(git rev-parse HEAD:README); printf '# pack-refs with: peeled fully-peeled sorted \\n%s refs/heads/main\\n%s refs/replace/%s\\n' $h $t $t > p; cat p > .git/packed-refs; rm p",
     ".git/packed-refs"),
    "todo list": ("mkdir -p .git/rebase-merge; echo 'exec evil' > .git/rebase-merge/git-rebase-todo", ".git/rebase-merge/git-rebase-todo"),
    "split commit-graph": ("git commit-graph write --reachable --split", ".git/objects/info/commit-graphs/"),
    "multi-pack-index": ("git repack -adq; git multi-pack-index write", ".git/objects/pack/multi-pack-index"),
    "split index": ("echo x > x; git add x; git update-index --split-index", ".git/index"),
}


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
@pytest.mark.parametrize("name", UNEXAMINED)
def test_what_cannot_be_examined_is_a_high_risk(repo, mode, name):
    script, path = UNEXAMINED[name]
    run_in(repo, mode, script)
    report = review(repo, mode)
    assert [p for p, _ in high(report) if p == path or p.startswith(path)], report


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_a_commit_graph_that_lies(repo, mode):
    """Claim: git takes trees from the commit-graph, which `git gc` writes; one that gives HEAD another tree is named and not carried."""
    lie = r"""
import hashlib, os, subprocess
run = lambda *a, **k: subprocess.run(a, check=True, capture_output=True, **k).stdout
blob = run("git", "hash-object", "-w", "--stdin", input=b"evil").decode().strip()
evil = run("git", "mktree", input=run("git", "ls-tree", "HEAD") + f"100644 blob {blob}\tx.code-workspace\n".encode()).decode().strip()
run("git", "commit-graph", "write", "--reachable")
path = ".git/objects/info/commit-graph"
data = open(path, "rb").read()[:-20].replace(bytes.fromhex(run("git", "rev-parse", "HEAD^{tree}").decode().strip()), bytes.fromhex(evil))
os.unlink(path)
open(path, "wb").write(data + hashlib.sha1(data).digest())
"""
    script = f"echo b >> README; git commit -qam b; /usr/bin/python3 -c '{lie}'"
    control(repo, script, "git checkout -q main~1; git cherry-pick main", "x.code-workspace")
    r = run_in(repo, mode, script)
    assert [p for p, k in high(review(repo, mode)) if p == ".git/objects/info/commit-graph"]
    if mode == "direct":
        assert b"commit-graph" in r.err, r
    if mode == "sync":
        assert not (repo.workspace / ".git/objects/info/commit-graph").exists()


def test_a_file_and_its_commit_are_named_once(repo):
    """A Makefile that was changed and committed is a medium risk as a file; the commit does not repeat it. A high one is repeated."""
    run_in(repo, "overlay", "echo 'all:' > Makefile; git add Makefile; git commit -qm m")
    report = review(repo, "overlay")
    assert not found(report, "Makefile") and [c for c in report["changes"] if c["path"] == "Makefile" and c["risks"]], report
    repo.bawn("discard", "--yes", "r")
    run_in(repo, "overlay", "echo x > .envrc2; mkdir -p .hg; echo x > .hg/hgrc; git add -f .hg; git commit -qm m")
    assert found(review(repo, "overlay"), ".hg/hgrc")


def test_sarif_has_the_place(repo):
    run_in(repo, "overlay", ATTACKS["committed"][0])
    sarif = repo.bawn("review", "--sarif").json()
    names = [loc["fullyQualifiedName"] for r in sarif["runs"][0]["results"] for place in r["locations"] for loc in place.get("logicalLocations", [])]
    assert any(n.endswith(":.vscode/tasks.json") and len(n) > 40 for n in names), names


def test_user_lines_hold_a_commit_back(repo):
    """Claim: what the user protects is held back in commits, too; what is not protected is carried."""
    script = "put 100755 'evil' deploy.sh; git commit -qm x"
    before = git(repo, "rev-parse", "HEAD").out
    repo.write(repo.home / ".config/bawn/config.json", json.dumps({"sandbox": {"workspace": {"protect": ["deploy.sh"]}}}))
    r = run_in(repo, "sync", script)
    assert git(repo, "rev-parse", "HEAD").out == before and b"held back" in r.err, r
    (repo.home / ".config/bawn/config.json").unlink()
    assert repo.bawn("discard", "--yes", "r").rc == 0
    run_in(repo, "sync", script)
    assert git(repo, "rev-parse", "HEAD").out != before


# What is no high risk as a file is none in a commit, but it is named. (script, path, class, level)
NAMED = {
    "submodule": ("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),mod; git commit -qm x", "mod", "git-dir", "medium"),
    "filter": ("put 100644 '* filter=evil' .gitattributes; git commit -qm x", ".gitattributes", "git-attributes", "medium"),
    "executable": ("git update-index --chmod=+x README; git commit -qm x", "README", "executable", "medium"),
    "gitmodules": ("put 100644 '[submodule \"m\"]\n path = m\n url = ext::evil\n' .gitmodules; git commit -qm x", ".gitmodules", "git-config", "high"),
    "rules removed": ("git rm -q --cached .sandboxignore; git commit -qm x", ".sandboxignore", "sandbox-policy", "high"),
    "build": ("put 100644 'all: ; evil' Makefile; git commit -qm x", "Makefile", "package-script", "medium"),
    "notes": ("git notes add -m x; git update-ref refs/notes/commits $(git commit-tree -m x $(printf '100644 blob %s\\tx.code-workspace\\n' $(blob '{\"settings\": {\"git.path\": \"evil\"}}') | git mktree))",
              "x.code-workspace", "ide", "high"),
}


@pytest.mark.parametrize("mode", ["direct", "overlay"])
@pytest.mark.parametrize("name", NAMED)
def test_the_level_is_that_of_a_file(repo, mode, name):
    script, path, class_, level = NAMED[name]
    run_in(repo, mode, script)
    report = review(repo, mode)
    assert level in {k["level"] for _, k in found(report, path, class_)}, report


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_a_git_directory_of_another_name(repo, mode):
    """Claim: a repository whose .git is a file that leads into the workspace is judged, too."""
    os.rename(repo.workspace / ".git", repo.workspace / "meta")
    repo.write(".git", "gitdir: meta\n")
    r = run_in(repo, mode, ATTACKS["branch"][0])
    report = review(repo, mode)
    assert any(k["level"] == "high" for _, k in found(report, ".vscode/tasks.json", "ide")), report
    if mode == "sync":
        assert git(repo, "rev-parse", "evil", ok=False).rc != 0
    if mode != "overlay":
        assert b".vscode/tasks.json" in r.err, r


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_a_link_in_the_place_of_a_ref(repo, mode):
    """Claim: git follows links among refs; one that leads to a file of the workspace is named and not carried."""
    run_in(repo, mode, "put 100644 '%s' .vscode/tasks.json; c=$(git commit-tree -m x $(git write-tree)); git reset -q; echo $c > innocent; ln -s ../../../innocent .git/refs/heads/evil" % TASKS)
    assert [p for p, _ in high(review(repo, mode)) if p == ".git/refs/heads/evil"]
    assert not os.path.lexists(repo.workspace / ".git/refs/heads/evil")


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_objects_of_git_lfs(repo, mode):
    name = "0123456789abcdef" * 4
    good = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"  # of "test"
    run_in(repo, mode, f"for n in {name} {good}; do d=.git/lfs/objects/$(echo $n | cut -c1-2)/$(echo $n | cut -c3-4); mkdir -p $d; printf test > $d/$n; done")
    bad = [p for p, k in high(review(repo, mode)) if "lfs" in k["reason"]]
    assert [os.path.basename(p) for p in bad] == [name], bad
    if mode == "sync":
        assert not (repo.workspace / bad[0]).exists() and (repo.workspace / f".git/lfs/objects/9f/86/{good}").exists()


@pytest.mark.parametrize("mode", ["direct", "overlay"])
def test_submodules_and_linked_worktrees(repo, mode):
    """Claim: commits in a submodule, in a nested repository and in a linked worktree of the repository are judged, each as its own."""
    lib = repo.mkdir(repo.top / "lib")
    git(repo, "init", "-q", "-b", "main", cwd=lib)
    git(repo, "commit", "-q", "--allow-empty", "-m", "l", cwd=lib)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib, "mod")
    git(repo, "commit", "-qm", "with a submodule")
    git(repo, "init", "-q", "-b", "main", "nested")
    git(repo, "worktree", "add", "-q", "wt")
    (repo.workspace / "wt/.git").write_text("gitdir: ../.git/worktrees/wt\n")
    for place in ("mod", "nested", "wt"):
        run = run_in(repo, mode, f"cd {place}; git rev-parse -q --verify HEAD >/dev/null || git commit -q --allow-empty -m x; put 100644 evil .envrc; git commit -qm x")
        report = review(repo, mode)
        assert any(k["level"] == "high" for _, k in found(report, ".envrc", "environment")), (place, report)
        if mode == "direct":
            assert b"'.envrc' in " in run.err, (place, run)
        else:
            assert repo.bawn("discard", "--yes", "r").rc == 0


def test_ceilings_are_reported(repo):
    """Claim: past a ceiling the review does not say 0 risks. 10000 commits are judged; one behind them is not, and that is said."""
    script = r'''
{ for i in $(seq 10050); do printf 'commit refs/heads/many\ncommitter t <t@example.com> %d +0000\ndata 1\nx\n' $i
    [ $i = 1 ] && printf 'M 100644 inline .envrc\ndata 4\nevil\n'; [ $i = 2 ] && printf 'D .envrc\n'; done; } | git fast-import --quiet
'''
    run_in(repo, "overlay", script)
    risks = [k for p, k in high(review(repo, "overlay")) if p == ".git/refs/heads/many"]
    assert any("not examined" in k["reason"] for k in risks), risks


@pytest.mark.parametrize("mode", ["direct", "sync"])
def test_a_review_that_fails_is_not_a_review_without_risks(repo, mode):
    """Claim: without an answer of bawn-review sync carries nothing of git's state but objects, and direct mode says so."""
    prefix = repo.mkdir(repo.top / "prefix")
    program = os.path.realpath(repo.path)
    shutil.copytree(os.path.dirname(os.path.dirname(program)), prefix, dirs_exist_ok=True)
    review_program = next(prefix.rglob("bawn-review"))
    review_program.unlink()
    review_program.write_text("#!/bin/sh\nexit 1\n")
    review_program.chmod(0o755)
    before = git(repo, "rev-parse", "HEAD").out
    r = repo.run(prefix / "bin/bawn", "run", "--workspace", mode, "--", "sh", "-c", HELPERS + "echo b >> README; git commit -qam b")
    assert r.rc == 0 and b"could not be examined" in r.err, r
    if mode == "sync":
        assert git(repo, "rev-parse", "HEAD").out == before and (repo.workspace / "README").read_text() == "a\nb\n", r
