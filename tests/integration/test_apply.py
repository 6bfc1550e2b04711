# SPDX-License-Identifier: Apache-2.0
"""`bawn apply`, `discard` and `rollback`: what comes back from a run, and what never does."""

import os
import re
import shutil
import stat
import time

import pytest


def overlay(runner, script, *options):
    """Runs a script in overlay mode; returns the name of the run."""
    r = runner.bawn("run", "-w", "overlay", *options, "--", "sh", "-c", script)
    assert r.rc == 0, r
    return latest(runner)


def latest(runner):
    runs = runner.home / ".local/state/bawn/runs"
    names = [p for p in runs.iterdir() if not p.name.startswith(".")]
    return max(names, key=lambda p: p.stat().st_mtime_ns).name


def tree(path):
    """{relative path: (type and mode, content)} of everything below a folder."""
    found = {}
    for p in sorted(path.rglob("*")):
        st = p.lstat()
        content = os.readlink(p) if p.is_symlink() else p.read_bytes() if stat.S_ISREG(st.st_mode) else None
        found[str(p.relative_to(path))] = (oct(st.st_mode), content)
    return found


def outcomes(result):
    return {c["path"]: c["outcome"] for c in result.json()["changes"]}


@pytest.fixture
def files(runner):
    runner.write("a", "1\n2\n3\n4\n5\n")
    runner.write("gone", "x")
    runner.write("dir/one", "x")
    runner.write("tool", "#!/bin/sh\n", 0o644)
    return runner


EDIT = "sed -i s/5/five/ a; rm gone; rm -r dir; mkdir -p new/deep; echo n > new/deep/f; chmod 755 tool; ln -s a link"


def test_apply_and_undo(files):
    before = tree(files.workspace)
    overlay(files, EDIT)
    assert tree(files.workspace) == before, "nothing may reach the host before it is applied"
    r = files.bawn("apply", "--yes")
    assert r.rc == 0, r
    assert (files.workspace / "a").read_text() == "1\n2\n3\n4\nfive\n"
    assert not (files.workspace / "gone").exists() and not (files.workspace / "dir").exists()
    assert (files.workspace / "new/deep/f").read_text() == "n\n"
    assert stat.S_IMODE((files.workspace / "tool").stat().st_mode) == 0o755
    assert os.readlink(files.workspace / "link") == "a"
    assert (files.workspace / "new/deep/f").stat().st_uid == files.user.pw_uid
    after = tree(files.workspace)
    assert files.bawn("apply", "--yes").rc == 125  # nothing is left
    r = files.bawn("apply", "--undo")
    assert r.rc == 0, r
    assert tree(files.workspace) == before
    assert files.bawn("apply", "--yes").rc == 0, "undone changes are in the run again"
    assert tree(files.workspace) == after


def test_dry_run_says_what_apply_does(files):
    before = tree(files.workspace)
    overlay(files, EDIT)
    would = files.bawn("apply", "--dry-run", "--json")
    assert would.rc == 0 and would.json()["done"] is False, would
    assert tree(files.workspace) == before
    did = files.bawn("apply", "--yes", "--json")
    assert did.json()["done"] is True
    assert outcomes(did) == outcomes(would)


def test_only_leaves_the_rest_for_later(files):
    overlay(files, EDIT)
    assert files.bawn("apply", "--yes", "--only", "new/").rc == 0
    assert (files.workspace / "new/deep/f").exists() and (files.workspace / "gone").exists()
    r = files.bawn("apply", "--yes", "--only", "no-such-file")
    assert r.rc == 64, r
    assert files.bawn("apply", "--yes").rc == 0
    assert not (files.workspace / "gone").exists()


def test_both_sides_changed(files):
    overlay(files, "echo run > gone; echo fine > fine")
    files.write("gone", "host\n")
    before = tree(files.workspace)
    r = files.bawn("apply", "--yes")
    assert r.rc == 1 and b"conflict" in r.out and b"nothing was done" in r.out, r
    assert tree(files.workspace) == before
    r = files.bawn("apply", "--yes", "--conflict", "keep-both")
    assert r.rc == 0, r
    assert (files.workspace / "gone").read_text() == "host\n"
    assert [p.read_text() for p in files.workspace.glob("gone.bawn-*")] == ["run\n"]
    assert (files.workspace / "fine").read_text() == "fine\n"


def test_different_lines_are_merged(files):
    overlay(files, "sed -i s/5/five/ a")
    files.write("a", "one\n2\n3\n4\n5\n")
    r = files.bawn("apply", "--yes", "--json")
    assert r.rc == 0 and outcomes(r)["a"] == "merged", r
    assert (files.workspace / "a").read_text() == "one\n2\n3\n4\nfive\n"


def test_except_leaves_a_rename_by_either_name(files):
    """`review` shows what `apply` does: half of a rename cannot be done."""
    files.write("notes", "some text that is long enough to be known again\n")
    run = overlay(files, "mv notes settings; echo t > t.txt")
    for name in "settings", "notes":
        assert files.bawn("diff", "--name-only", "--except", name).out.split() == [b"t.txt"]
        r = files.bawn("apply", run, "--dry-run", "--except", name)
        assert r.rc == 0 and b"settings" not in r.out, r
        assert b"settings" in files.bawn("diff", "--name-only", "--only", name).out, "--only names it by either"
    r = files.bawn("apply", run, "--except", "settings")
    assert r.rc == 0 and not (files.workspace / "settings").exists() and (files.workspace / "notes").exists(), r
    assert (files.workspace / "t.txt").exists()
    assert files.bawn("apply", run, "--only", "notes").rc == 0
    assert (files.workspace / "settings").exists() and not (files.workspace / "notes").exists()


def test_a_run_goes_on_after_a_part_was_applied(files):
    """What it changes next is based on what was applied: not on what was there before the first of its commands."""
    before = (files.workspace / "a").read_text()
    named = "--name", "on"
    overlay(files, "sed -i s/5/five/ a; echo t > t.txt", *named)
    assert files.bawn("apply", "on", "--only", "a").rc == 0
    overlay(files, "sed -i s/five/fuenf/ a", *named)
    assert b"-five" in files.bawn("diff", "on").out
    r = files.bawn("apply", "on", "--only", "a")
    assert r.rc == 0 and (files.workspace / "a").read_text() == before.replace("5", "fuenf"), r
    overlay(files, "sed -i s/fuenf/5/ a", *named)
    assert files.bawn("diff", "on", "--name-only").out.split() == [b"a", b"t.txt"], "what is as it once was is a change, too"
    files.write("a", before.replace("5", "fuenf").replace("1", "one"))
    r = files.bawn("apply", "on")
    assert r.rc == 0 and (files.workspace / "a").read_text() == before.replace("1", "one"), r
    assert (files.workspace / "t.txt").exists()


def test_a_run_goes_on_after_a_part_was_discarded(files):
    overlay(files, "sed -i s/5/five/ a; echo t > t.txt", "--name", "on")
    assert files.bawn("discard", "on", "--yes", "--only", "a").rc == 0
    files.write("a", "all new\n")
    overlay(files, "sed -i s/all/quite/ a", "--name", "on")
    r = files.bawn("apply", "on")
    assert r.rc == 0 and (files.workspace / "a").read_text() == "quite new\n", r


def test_undo_after_the_run_went_on(files):
    """Each file is based on what it was when it was changed first, also if the run has changed others since."""
    files.write("b", "1\n2\n3\n4\n5\n")
    overlay(files, "sed -i s/5/five/ a; sed -i s/5/five/ b; rm gone", "--name", "on")
    assert files.bawn("apply", "on").rc == 0
    overlay(files, "sed -i s/five/fuenf/ b; sed -i 1d tool", "--name", "on")
    assert files.bawn("apply", "on", "--undo").rc == 0
    files.write("a", "one\n2\n3\n4\n5\n")
    r = files.bawn("apply", "on", "--conflict", "skip", "--json")
    assert r.rc == 0 and outcomes(r)["a"] == "merged", r
    assert (files.workspace / "a").read_text() == "one\n2\n3\n4\nfive\n"
    assert not (files.workspace / "gone").exists()


@pytest.mark.parametrize("mode", ["0600", "0300", "0000"])
def test_a_folder_that_its_owner_may_not_read(files, mode):
    """As root it can be read. What cannot be looked at does not count as deleted."""
    files.write("dir/two", "x")
    overlay(files, f"rm -r dir; mkdir dir; echo new > dir/one; echo t > t.txt; chmod {mode} dir")
    read = files.bawn("diff", "--name-only").out
    r = files.bawn("apply", "--yes")
    assert r.rc == 0, r
    os.chmod(files.workspace / "dir", 0o755)
    assert (files.workspace / "t.txt").exists() and (files.workspace / "dir/one").exists(), (read, r)
    if b"dir/one" not in read:
        assert (files.workspace / "dir/two").exists(), (read, r)
        assert files.bawn("apply", "--undo").rc == 0


def test_a_run_with_something_unread_stays(files):
    """The next apply removes runs of which nothing is left: there may be something in what could not be looked at."""
    run = overlay(files, "rm -r dir; mkdir dir; echo new > dir/one; echo t > t.txt; chmod 0600 dir")
    unread = b"dir/one" not in files.bawn("diff", "--name-only").out
    assert files.bawn("apply", run, "--yes").rc == 0
    os.chmod(files.workspace / "dir", 0o755)
    overlay(files, "echo u > u.txt")
    assert files.bawn("apply").rc == 0
    assert (files.home / ".local/state/bawn/runs" / run).exists() == unread


def test_a_second_name_is_an_added_file(files):
    """Its content was copied up from the workspace, which has nothing of that name: the host did not delete it."""
    overlay(files, "ln a dir/second; ln tool third")
    assert files.bawn("review").out.count(b"\n  A  ") == 2
    r = files.bawn("apply", "--json")
    assert r.rc == 0 and outcomes(r) == {"dir/second": "applied", "third": "applied"}, r
    assert (files.workspace / "dir/second").read_text() == (files.workspace / "a").read_text()


def test_a_part_that_is_discarded_has_its_attributes_again(files):
    """In the copy of a run that goes on: else the next change would take them from the host's file."""
    files.write(".vscode/settings.json", "{}")
    try:
        os.setxattr(files.workspace / ".vscode/settings.json", "user.k", b"v")
    except OSError:
        pytest.skip("no user.* attributes here")
    r = files.bawn("run", "-w", "sync", "--name", "on", "--", "sh", "-c", "echo 1 > .vscode/settings.json")
    assert r.rc == 0, r
    assert files.bawn("discard", "on", "--yes", "--only", ".vscode").rc == 0
    copy = files.home / ".local/state/bawn/runs/on/tree/.vscode/settings.json"
    assert copy.read_text() == "{}" and os.getxattr(copy, "user.k") == b"v"


def test_high_risk_needs_a_look(files):
    files.write(".git/HEAD", "ref: refs/heads/main\n")
    overlay(files, "mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; echo t > t.txt")
    before = tree(files.workspace)
    r = files.bawn("apply")
    assert r.rc == 1 and b"pre-commit" in r.out and b"bawn review" in r.out, r
    assert tree(files.workspace) == before
    r = files.bawn("apply", "--except", ".git/")
    assert r.rc == 0, r
    assert (files.workspace / "t.txt").exists() and not (files.workspace / ".git/hooks").exists()
    assert files.bawn("apply", "--yes").rc == 0
    assert (files.workspace / ".git/hooks/pre-commit").exists()


def test_what_cannot_be_judged_is_not_applied(files):
    """Without bawn-review beside it."""
    overlay(files, "echo t > t.txt")
    alone = files.mkdir(files.top / "alone")
    shutil.copy(files.path, alone / "bawn")
    r = files.run(alone / "bawn", "apply")
    assert r.rc == 125 and b"judged" in r.err, r
    assert not (files.workspace / "t.txt").exists()


def test_links_out_and_special_files_stay(files):
    run = overlay(files, "ln -s /etc/passwd out; ln -s ../up up; ln -s a fine; mkfifo fifo; echo s > s")
    os.chmod(files.home / ".local/state/bawn/runs" / run / "upper/s", 0o4755)  # inside, the system call filter refuses it
    r = files.bawn("apply", "--yes", "--json")
    assert r.rc == 0, r
    assert outcomes(r) == {"out": "refused", "up": "refused", "fine": "applied", "fifo": "refused", "s": "applied"}
    assert not os.path.lexists(files.workspace / "out") and not os.path.lexists(files.workspace / "fifo")
    assert stat.S_IMODE((files.workspace / "s").stat().st_mode) == 0o755
    r = files.bawn("apply", "--yes", "--allow-links-out")
    assert r.rc == 0 and os.readlink(files.workspace / "out") == "/etc/passwd", r


def test_nothing_goes_through_a_link_of_the_host(files):
    """ATTACKS 18: between the run and the apply a folder has become a link to somewhere else."""
    outside = files.mkdir(files.top / "outside")
    overlay(files, "echo evil > dir/one; echo evil > dir/two")
    shutil.rmtree(files.workspace / "dir")
    (files.workspace / "dir").symlink_to(outside)
    for way in ("stop", "skip", "keep-both", "overwrite"):
        files.bawn("apply", "--yes", "--allow-links-out", "--conflict", way)
        assert list(outside.iterdir()) == [], way


def test_hidden_names_never_come_back(files):
    files.write(".env", "secret\n")
    overlay(files, "echo bait > .env; echo ok > ok")
    r = files.bawn("apply", "--yes", "--json")
    assert r.rc == 0 and outcomes(r) == {".env": "left", "ok": "applied"}, r
    assert (files.workspace / ".env").read_text() == "secret\n"


def test_names_are_escaped(files):
    overlay(files, r"""touch "$(printf 'x\033]0;owned\007')" """)
    for args in (["apply", "--dry-run"], ["apply", "--yes"]):
        r = files.bawn(*args)
        assert r.rc == 0 and b"\x1b" not in r.out + r.err and rb"\x1b" in r.out, r


def test_discard(files):
    before = tree(files.workspace)
    run = overlay(files, EDIT)
    r = files.bawn("discard")
    assert r.rc == 64 and b"--yes" in r.err, r
    r = files.bawn("discard", run, "--only", "new/", "--yes")
    assert r.rc == 0, r
    assert "new" not in str(files.bawn("apply", "--dry-run").out)
    assert files.bawn("discard", "--yes").rc == 0
    assert files.bawn("apply", "--yes").rc == 125
    assert tree(files.workspace) == before
    assert not (files.home / ".local/state/bawn/runs" / run).exists()


def test_rollback(files):
    before = tree(files.workspace)
    r = files.bawn("run", "--", "sh", "-c", EDIT)
    assert r.rc == 0 and tree(files.workspace) != before, r
    changed = tree(files.workspace)
    assert files.bawn("discard", latest(files), "--yes").rc == 64
    assert files.bawn("rollback", "--dry-run").rc == 0
    assert tree(files.workspace) == changed
    r = files.bawn("rollback", "--json")
    assert r.rc == 0 and set(outcomes(r).values()) == {"restored"}, r
    assert tree(files.workspace) == before
    assert files.bawn("apply", "--undo").rc == 0
    assert tree(files.workspace) == changed


def test_rollback_leaves_what_the_user_wrote_since(files):
    assert files.bawn("run", "--", "sh", "-c", EDIT).rc == 0
    time.sleep(0.1)  # more than the tick within which the end of the run and a write cannot be told apart
    files.write("a", "mine\n")
    r = files.bawn("rollback")
    assert r.rc == 1 and b"left" in r.out, r
    assert (files.workspace / "a").read_text() == "mine\n" and (files.workspace / "gone").exists()
    assert files.bawn("rollback", "--force").rc == 0
    assert (files.workspace / "a").read_text() == "1\n2\n3\n4\n5\n"


def test_what_sync_mode_held_back(files):
    files.write(".git/hooks/readme", "x")
    r = files.bawn("run", "-w", "sync", "--", "sh", "-c", "echo new > gone; echo '#!/bin/sh' > .git/hooks/pre-commit")
    assert r.rc == 0 and (files.workspace / "gone").read_text() == "new\n", r
    hook = files.workspace / ".git/hooks/pre-commit"
    assert files.bawn("apply").rc == 1 and not hook.exists()
    r = files.bawn("apply", "--yes")
    assert r.rc == 0 and hook.exists(), r
    assert files.bawn("apply", "--undo").rc == 0
    assert not hook.exists() and (files.workspace / "gone").read_text() == "new\n"


def test_the_advice_of_sync_names_the_right_run(files):
    """The record of what was copied back is later than the run that holds something back."""
    files.write(".git/hooks/readme", "x")
    r = files.bawn("run", "-w", "sync", "--", "sh", "-c", "echo new > gone; echo '#!/bin/sh' > .git/hooks/pre-commit")
    review, apply, discard = re.search(rb"held back in '\S+': bawn (review \S+), then bawn (apply \S+) or bawn (discard \S+)\n", r.err).groups()
    back = re.search(rb"'bawn (rollback \S+)' takes back", r.err)[1]
    seen = files.bawn(*review.decode().split())
    assert seen.rc == 1 and b"A  .git/hooks/pre-commit" in seen.out and b"  gone" not in seen.out, seen
    assert files.bawn(*apply.decode().split(), "--yes").rc == 0 and (files.workspace / ".git/hooks/pre-commit").exists()
    assert files.bawn(*back.decode().split()).rc == 0 and (files.workspace / "gone").read_text() == "x"
    assert review.split()[1] == apply.split()[1] == discard.split()[1] != back.split()[1]


def test_a_dry_run_says_would(files):
    overlay(files, EDIT)
    r = files.bawn("apply", "--dry-run")
    assert r.rc == 0 and b"M would apply a\n" in r.out and b" would be applied; nothing was done (--dry-run)\n" in r.out, r
    assert b" applied " not in r.out.replace(b"be applied", b""), r


def test_there_is_nothing_to_review(files):
    for words in (["review"], ["review", "--json"], ["review", "--sarif"], ["review", "-i"], ["diff"], ["apply"]):
        r = files.bawn(*words)
        assert r.rc == 125 and r.out == b"" and b"no run here" in r.err, r


def test_worktree_mode(files):
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "one"]):
        assert files.run(*git, *args).rc == 0
    r = files.bawn("run", "-w", "worktree", "--name", "wt", "--", "sh", "-c", EDIT)
    assert r.rc == 0 and (files.workspace / "gone").exists(), r
    assert files.bawn("apply", "wt", "--yes").rc == 0
    assert files.run(*git, "status", "--short").out.split() == b"M a D dir/one D gone M tool ?? link ?? new/".split()
    assert files.bawn("discard", "wt", "--yes").rc == 0
    assert b"bawn/" not in files.run(*git, "branch", "-a").out
