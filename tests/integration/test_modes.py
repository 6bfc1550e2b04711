# SPDX-License-Identifier: Apache-2.0
"""What holds in every workspace mode: status and output, an end without leftovers, names, attributes, times, kill -9, discard."""

import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from modes import (  # noqa: E402, F401
    APART, CHANGES, MODES, Paused, apply, fill, git, kept, nothing_left, prepare, processes, repository, run, runs,
    settle, state, tree, version, waiting, who, writer)


@pytest.mark.parametrize("mode", MODES)
def test_status_and_output_are_those_of_the_command(who, mode):
    who.write("f", "content\n")
    prepare(who, mode)
    r = run(who, mode, "cat f; echo error >&2; exit 7", rc=7)
    assert r.out == b"content\n"
    assert [line for line in r.err.splitlines() if not line.startswith(b"bawn: ")] == [b"error"]
    assert run(who, mode, "kill -TERM $$", rc=143).out == b""
    if mode != "ro":  # also when there is something to tell at the end
        r = run(who, mode, "cat f; echo n > f; echo error >&2; exit 9", rc=9)
        assert (r.out, r.err.splitlines().count(b"error")) == (b"content\n", 1), r
    missing = who.bawn("run", "-w", mode, "--", "no-such-program-here")
    assert missing.rc == 127, missing


@pytest.mark.parametrize("mode", MODES)
def test_no_change_leaves_nothing(who, mode):
    who.write("f", "content\n")
    who.write("d/g", "more\n")
    prepare(who, mode)
    before = tree(who.workspace, times=True)
    branches = git(who, "for-each-ref") + git(who, "worktree", "list") if mode == "worktree" else None
    for script in ("true", "cat f d/g; ls -laR; stat f", "exit 3"):
        run(who, mode, script, rc=3 if "exit" in script else 0)
        assert runs(who) == [], script
    assert tree(who.workspace, times=True) == before
    if mode == "worktree":
        assert git(who, "for-each-ref") + git(who, "worktree", "list") == branches
    known = {"ignore", "runs", "volumes", "caches", "trust", "trust.json", "audit", "seldom", "ca", "run"}
    assert {p.name for p in state(who).iterdir()} <= known


@pytest.mark.parametrize("mode", MODES)
def test_a_change_that_is_taken_back_leaves_nothing_to_review(who, mode):
    who.write("f", "content\n")
    prepare(who, mode)
    run(who, mode, "if (echo x > made) 2>/dev/null; then rm made; mkdir d; rmdir d; fi")
    assert runs(who) == []
    assert (who.workspace / "f").read_text() == "content\n"


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
def test_the_state_goes_where_the_user_wants_it(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    elsewhere = who.mkdir(who.top / "elsewhere")
    env = {"XDG_STATE_HOME": str(elsewhere)}
    run(who, mode, "echo 2 > f", "--name", "n", env=env)
    assert (elsewhere / "bawn/runs/n/run.json").is_file()
    assert runs(who) == []
    assert stat.S_IMODE((elsewhere / "bawn/runs").stat().st_mode) & 0o077 == 0 or who.is_root
    assert who.bawn("discard", "n", "--yes", env=env).rc == 0
    assert not (elsewhere / "bawn/runs/n").exists()


@pytest.mark.parametrize("mode", APART)
def test_without_a_place_for_it_the_run_is_refused(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    before = tree(who.workspace)
    r = who.bawn("run", "-w", mode, "--", "sh", "-c", "echo 2 > f", env={"XDG_STATE_HOME": str(who.workspace / "state")})
    assert r.rc in (64, 125) and b"XDG_STATE_HOME" in r.err, r
    (who.workspace / "state").exists() and shutil.rmtree(who.workspace / "state")
    assert tree(who.workspace) == before


def test_read_only_is_read_only(who):
    fill(who)
    before = tree(who.workspace, times=True)
    r = who.bawn("run", "-w", "ro", "--", "sh", "-c", CHANGES + "echo ran")
    assert r.out == b"ran\n", r
    assert tree(who.workspace, times=True) == before
    assert runs(who) == []


@pytest.mark.parametrize("mode", MODES)
def test_the_workspace_is_at_its_own_path_in_every_mode(who, mode):
    who.write("sub/f", "x\n")
    prepare(who, mode)
    r = run(who, mode, 'pwd; cat "$PWD/sub/f" /workspace/sub/f')
    assert r.out.decode() == f"{who.workspace}\nx\nx\n"


def test_a_name_belongs_to_its_mode_and_its_workspace(who):
    who.write("f", "1\n")
    run(who, "overlay", "echo 2 > f", "--name", "n")
    r = who.bawn("run", "-w", "sync", "--name", "n", "--", "true")
    assert r.rc == 64 and b"overlay" in r.err, r
    other = who.mkdir(who.top / "other")
    r = who.bawn("run", "-w", "overlay", "--name", "n", "--", "true", cwd=other)
    assert r.rc == 64 and b"another workspace" in r.err, r
    for mode in ("direct", "ro"):
        assert who.bawn("run", "-w", mode, "--name", "n", "--", "true").rc == 64
    for bad in ("../x", ".x", "a/b", "x" * 100, ""):
        assert who.bawn("run", "-w", "overlay", "--name", bad, "--", "true").rc == 64, bad
    assert runs(who) == ["n"]


@pytest.mark.parametrize("mode", APART)
def test_a_run_that_is_up_is_not_touched(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    p = Paused(who, mode, "echo 2 > f", "echo 3 > g", "--name", "n")
    before = tree(who.workspace, but=[b".git"])
    for args in (["run", "-w", mode, "--name", "n", "--", "true"], ["apply", "n", "--yes"], ["discard", "n", "--yes"]):
        r = who.bawn(*args)
        assert r.rc == 125, r
    assert who.bawn("review", "n").rc in (0, 1)
    assert tree(who.workspace, but=[b".git"]) == before
    p.finish()
    if mode == "sync":
        assert version(who.workspace / "f") == b"2\n"
    else:
        apply(who, "n")
    assert version(who.workspace / "f") == b"2\n" and version(who.workspace / "g") == b"3\n"


@pytest.mark.parametrize("mode", APART)
def test_kill_9_of_bawn_loses_nothing(who, mode):
    who.write("f", "1\n")
    who.write("gone", "g\n")
    prepare(who, mode)
    before = tree(who.workspace, but=[b".git"])
    p = Paused(who, mode, "echo 2 > f; rm gone; mkdir d; echo deep > d/g", "echo never > f")
    p.kill()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    assert tree(who.workspace, but=[b".git"]) == before
    (name,) = waiting(who)
    seen = {c["path"] for c in who.bawn("review", name, "--json").json()["changes"]}
    assert {"f", "gone", "d/g"} <= seen, seen
    apply(who, name)
    assert version(who.workspace / "f") == b"2\n" and version(who.workspace / "d/g") == b"deep\n"
    assert not (who.workspace / "gone").exists()
    assert run(who, mode, "cat f" if mode != "worktree" else "true").rc == 0
    who.bawn("discard", name, "--yes")
    assert waiting(who) == []


@pytest.mark.parametrize("mode", APART)
def test_kill_9_of_bawn_and_the_run_goes_on_by_its_name(who, mode):
    who.write("f", "1\n")
    prepare(who, mode)
    p = Paused(who, mode, "echo 2 > f; echo n > new", "echo never > f", "--name", "n")
    p.kill()
    r = run(who, mode, "cat f new; echo 3 > f", "--name", "n")
    assert r.out == b"2\nn\n"
    if mode != "sync":
        assert version(who.workspace / "f") == b"1\n"
        apply(who, "n")
    assert version(who.workspace / "f") == b"3\n" and version(who.workspace / "new") == b"n\n"


@pytest.mark.parametrize("mode", APART)
def test_kill_9_while_it_is_made_ready(who, mode):
    """The first milliseconds: what is half made is swept by the next run, and nothing of the workspace is lost."""
    for i in range(60):
        who.write(f"d{i % 6}/f{i}", f"{i}\n" * 200)
    prepare(who, mode)
    before = tree(who.workspace, but=[b".git"])
    for i in range(12):
        p = who.popen(who.path, "run", "-w", mode, "--", "true", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.002 * i)  # not waited for anything: the moments to kill at
        os.kill(p.pid, signal.SIGKILL)
        p.wait()
    assert settle(lambda: not processes(str(who.top))), processes(str(who.top))
    assert run(who, mode, "cat d0/f0").out == b"0\n" * 200
    assert tree(who.workspace, but=[b".git"]) == before
    assert who.bawn("discard", "--all", "--yes").rc in (0, 125)
    assert run(who, mode, "true").rc == 0
    assert runs(who) == []
    if mode == "worktree":
        assert git(who, "for-each-ref", "refs/heads/bawn") == "" and len(git(who, "worktree", "list").splitlines()) == 1


def test_kill_9_between_the_branch_and_the_beginning(who):
    """A worktree's branch is there before the run has begun: it goes with the rest."""
    who.write("f", "1\n")
    prepare(who, "worktree")
    run(who, "worktree", "echo 2 > f")
    (name,) = runs(who)
    assert git(who, "for-each-ref", "refs/heads/bawn") and len(git(who, "worktree", "list").splitlines()) == 2
    record = state(who) / "runs" / name / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "begun_ns": 0}))
    run(who, "worktree", "true")
    assert runs(who) == []
    assert git(who, "for-each-ref", "refs/heads/bawn") == "" and len(git(who, "worktree", "list").splitlines()) == 1


ODD = [b"latin-\xe9\xff", b"new\nline", b"tab\tand\\backslash", b"-dash", b" space ", b"x" * 255, b"[a]*?", b"\xf0\x9f\x90\xb1", b"esc\x1b[31m"]
ODD_SCRIPT = r"""
import os
for name in %r:
    with open(name, "ab") as f: f.write(b"changed\n")
    with open(b"made-" + name[:200], "wb") as f: f.write(name)
    os.mkdir(b"in-" + name[:200])
    with open(b"in-" + name[:200] + b"/" + name, "wb") as f: f.write(b"deep")
"""


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "worktree"])
def test_names_are_bytes(who, mode):
    for name in ODD:
        path = os.path.join(os.fsencode(who.workspace), name)
        with open(path, "wb") as f:
            f.write(b"old\n")
        who.own(path)
    prepare(who, mode)
    before = tree(who.workspace, but=[b".git"])
    r = who.bawn("run", "-w", mode, "--", "python3", "-c", ODD_SCRIPT % (ODD,))
    assert r.rc == 0 and b"\x1b" not in r.err, r
    if mode in ("overlay", "worktree"):
        assert tree(who.workspace, but=[b".git"]) == before
        r = apply(who)
        assert b"\x1b" not in r.out + r.err
    now = tree(who.workspace, but=[b".git"])
    for name in ODD:
        assert now[name][1] == b"old\nchanged\n", name
        assert now[b"made-" + name[:200]][1] == name
        assert now[b"in-" + name[:200] + b"/" + name][1] == b"deep"
    assert len(now) == 4 * len(ODD)
    if mode != "sync":
        r = who.bawn(*(["rollback"] if mode == "direct" else ["apply", "--undo"]))
        assert r.rc == 0, r
        assert tree(who.workspace, but=[b".git"]) == before


ATTRIBUTES = """python3 -c '
import os
os.setxattr("added", "user.new", b"v")
os.setxattr("changed", "user.was", b"new")
if os.listxattr("removed"): os.removexattr("removed", "user.was")  # a checkout of git has none
with open("made", "w") as f: f.write("m")
os.setxattr("made", "user.new", b"v")'"""


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "worktree"])
def test_attributes_come_and_go(who, mode):
    """user.* attributes are changes like any other, also where nothing else of the file changed."""
    for name, value in (("added", None), ("changed", b"old"), ("removed", b"old")):
        who.write(name, f"{name}\n")
        if value:
            os.setxattr(who.workspace / name, "user.was", value)
    repository(who)  # in every mode: git must not see any of it
    before = tree(who.workspace, but=[b".git"])
    run(who, mode, ATTRIBUTES)
    if mode in ("overlay", "worktree"):
        assert tree(who.workspace, but=[b".git"]) == before
        apply(who)
    now = tree(who.workspace, but=[b".git"])
    got = {os.fsdecode(name): entry[2] for name, entry in now.items()}
    new = {"user.new": b"v"}
    assert got == {"added": new, "made": new, "changed": {"user.was": b"new"}, "removed": {}} or mode == "worktree", got
    assert got["added"] == got["made"] == new
    if mode != "sync":
        r = who.bawn(*(["rollback"] if mode == "direct" else ["apply", "--undo"]))
        assert r.rc == 0, r
        assert tree(who.workspace, but=[b".git"]) == before


def test_discard_leaves_the_host_alone_and_nothing_behind(who):
    fill(who)
    before = tree(who.workspace, times=True)
    name = kept(who, "overlay", CHANGES)
    assert who.bawn("discard", name).rc == 64
    assert who.bawn("discard", name, "--only", "made/", "--yes").rc == 0
    left = {c["path"] for c in who.bawn("review", name, "--json").json()["changes"]}
    assert "text" in left and not any(p.startswith("made") for p in left)
    assert who.bawn("discard", name, "--yes").rc == 0
    assert tree(who.workspace, times=True) == before
    assert runs(who) == []
    assert who.bawn("discard", name, "--yes").rc == 125


def test_discard_all(who):
    who.write("f", "1\n")
    repository(who)
    before = tree(who.workspace, but=[b".git"])
    for mode in ("overlay", "overlay", "worktree"):
        kept(who, mode, "echo x > f; mkdir -p d; chmod 0 d")
    run(who, "direct", "echo 2 > g")
    assert len(runs(who)) == 4
    assert who.bawn("discard", "--all", "--yes").rc == 0
    assert len(runs(who)) == 1, "one in direct mode has nothing to discard"
    (who.workspace / "g").unlink()
    assert tree(who.workspace, but=[b".git"]) == before
    assert git(who, "for-each-ref", "refs/heads/bawn") == ""


@pytest.mark.parametrize("mode", ["overlay", "sync"])
def test_a_file_that_changes_while_it_is_read(who, mode):
    who.write("f", b"a" * 200000)
    who.write("g", "1\n")
    with writer(who, who.workspace / "f"):
        for _ in range(5):
            r = who.bawn("run", "-w", mode, "--", "sh", "-c", "wc -c < f; cat g; echo 2 > h")
            assert r.rc == 0 and r.out.endswith(b"1\n"), r
            who.bawn("discard", "--yes")
            (who.workspace / "h").unlink(missing_ok=True)
    content = version(who.workspace / "f")
    assert len(set(content)) == 1 and len(content) >= 200000, "the host's last save stands"
    assert not [p for p in who.workspace.iterdir() if p.name not in ("f", "g", "f.new")]


MTIME_GAMES = {
    "same size, old mtime": 'cp -p f /tmp/f; printf BBBB > f; touch -r /tmp/f f',
    "another inode, same size, old mtime": 'cp -p f /tmp/f; printf BBBB > g; touch -r /tmp/f g; mv g f',
    "an mtime in the past": "printf BBBB > f; touch -d @0 f",
    "an mtime in the future": "printf BBBB > f; touch -d 2099-01-01 f",
    "through mmap": """python3 -c '
import mmap, os
st = os.stat("f")
with open("f", "r+b") as f, mmap.mmap(f.fileno(), 4) as m: m[:] = b"BBBB"
os.utime("f", ns=(st.st_atime_ns, st.st_mtime_ns))'""",
}


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync", "worktree"])
@pytest.mark.parametrize("game", MTIME_GAMES)
def test_times_hide_no_change(who, mode, game):
    """ATTACKS 31: what looks unchanged is looked at all the same; without a sandbox the same script fools a comparison by mtime and size."""
    who.write("f", "AAAA")
    os.utime(who.workspace / "f", (10**9, 10**9))
    prepare(who, mode)
    shown = who.mkdir(who.top / "shown")
    shutil.copy2(who.workspace / "f", shown / "f")
    subprocess.run(["sh", "-ec", MTIME_GAMES[game].replace("/tmp/f", str(who.top / "was"))], cwd=shown, check=True)
    st = (shown / "f").stat()
    assert (shown / "f").read_bytes() == b"BBBB" and st.st_size == 4
    assert st.st_mtime == 10**9 or "mtime in the" in game

    name = None
    if mode == "sync":
        run(who, mode, MTIME_GAMES[game])
    else:
        name = kept(who, mode, MTIME_GAMES[game])
        assert "f" in {c["path"] for c in who.bawn("review", name, "--json").json()["changes"]}
    if mode in ("overlay", "worktree"):
        apply(who, name)
    assert version(who.workspace / "f") == b"BBBB"
    if mode == "direct":
        assert who.bawn("rollback").rc == 0
        assert version(who.workspace / "f") == b"AAAA" and (who.workspace / "f").stat().st_mtime == 10**9
