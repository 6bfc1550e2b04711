# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 6, 31: what appears under a hidden name while the command runs stays hidden, and rules made inside change nothing."""

import contextlib
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import Ended, Inside, appear, fill, settle  # noqa: E402
from hiding_ways import MODES, REFUSED, SHOWS_THE_HOST, control, probe, snapshot, tree  # noqa: E402, F401

HIDDEN_ANSWERS = ("EACCES", "ENOENT", "ENOTDIR")  # the last one by overlayfs, whose lower layer changes below it
LATE = ["late.pem", "src/late.pem", "new/er/late.pem", "late.aws/.aws/credentials", ".env"]


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
@pytest.mark.parametrize("name", LATE)
def test_a_file_that_appears_is_covered(runner, marker, tree, mode, name, record_property):
    """Claim: a file that the host makes under a hidden name, in any folder, also over a hidden one as editors do, is covered
    as soon as the kernel tells, and stays so. How long that took is written down, not judged."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        parent = (runner.workspace / name).parent
        for folder in [p for p in reversed(parent.parents) if not p.exists()] + [parent]:
            if not folder.exists():
                runner.mkdir(folder)
        if not name.startswith("late.aws"):
            # What is not hidden does appear: without hiding, so would the other one.
            beside = os.path.join(os.path.dirname(name), "late.txt")
            appear(runner, beside, marker + "\n")
            assert inside.until(f"read({beside!r})", lambda got: got == marker + "\n") == marker + "\n"
        appear(runner, name, marker + "\n")
        begun = time.monotonic()
        got = inside.until(f"read({name!r})", lambda answer: marker not in answer)
        record_property("covered_after_ms", round((time.monotonic() - begun) * 1000, 1))
        assert got in HIDDEN_ANSWERS, got
        for _ in range(50):
            assert inside.ask(f"read({name!r})") in HIDDEN_ANSWERS
        assert inside.ask(f"os.stat({name!r}).st_size") in (*HIDDEN_ANSWERS, 0)
    assert (runner.workspace / name).read_text() == marker + "\n"


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_file_that_is_saved_again_and_again_is_covered_each_time(runner, marker, tree, mode):
    """Claim: a rename over the hidden file takes the cover off; a new one comes, as often as it happens."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        for i in range(30):
            appear(runner, ".env", f"{marker} {i}\n")
            assert inside.until("read('.env')", lambda answer: marker not in answer) in ("EACCES", "ENOENT")


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_command_that_ends_while_bawn_looks_for_latecomers(runner, marker, tree, mode):
    """Claim: looking for what appears, which begins a little after the start, never costs a run its end: its status is its own."""
    for i in range(40):
        r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", f"sleep 0.0{40 + i % 20}; exit 7")
        assert r.rc == 7, (i, r)


@pytest.mark.parametrize("mode", ["sync", "worktree"])
@pytest.mark.parametrize("name", LATE)
def test_a_copy_never_shows_what_appears(runner, marker, tree, mode, name):
    """Claim: sync and worktree never show it, not for an instant."""
    watch = f"""[n for n in range(3000) if (lambda: [True for _ in [0] if os.path.exists({name!r}) and 'bawn-secret' in read({name!r})])()]"""
    with Inside(runner, mode) as inside:
        inside.tell(watch)
        if not (runner.workspace / name).parent.exists():
            (runner.workspace / name).parent.mkdir(parents=True)
        for i in range(50):
            appear(runner, name, f"{marker} {i}\n")
        assert inside.answer() == []
        assert inside.ask(f"read({name!r})") == "ENOENT"
    assert (runner.workspace / name).read_text() == f"{marker} 49\n"


@pytest.mark.parametrize("mode", ["sync", "overlay"])
def test_a_named_run_that_goes_on_does_not_get_it(runner, marker, tree, mode):
    """Claim: what came between two runs of one name is hidden in the second (31)."""
    assert runner.bawn("run", "--workspace", mode, "--name", "n", "--", "touch", "mine").rc == 0
    runner.write("src/late.pem", marker)
    runner.write("newer/late.pem", marker)
    runner.write("newer/plain", "plain")
    r = runner.bawn("run", "--workspace", mode, "--name", "n", "--", "sh", "-c", "cat newer/plain; cat */late.pem")
    assert r.out == b"plain", r


def test_a_name_that_was_asked_for_before_it_appears(root_runner, marker):
    """Claim: overlayfs remembers that a name was absent, so it cannot be covered when it appears; when the kernel forgets, which
    the command can bring about by using up its memory, it must not be seen either."""
    runner = root_runner
    fill(runner, marker)
    forget = "sum(os.path.exists('x%d-' % k + 'y' * 200) for k in range(300000))"
    with Inside(runner, "overlay", "--memory", "96m") as inside:
        settle(runner, inside)
        assert inside.ask("read('src/late.pem')") == "ENOENT"
        appear(runner, "src/late.pem", marker + "\n")
        appear(runner, "src/plain.txt", "plain")
        assert inside.until("read('src/plain.txt')", lambda got: got == "plain") == "plain"
        settle(runner, inside)
        assert inside.ask(forget) == 0
        assert inside.ask("read('src/late.pem')") in ("ENOENT", "EACCES")
    if b"without a cgroup" in inside.stderr:
        pytest.skip("needs a cgroup that can be limited: without it nothing is forgotten")


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_rules_that_were_not_accepted_show_no_latecomer(runner, marker, tree, mode):
    """Claim: a path is hidden if the accepted or the present rules hide it (6): also one that appears later."""
    assert runner.bawn("run", "--", "true").rc == 0  # accepts the defaults
    runner.write(".sandboxignore", "*.key\n!.env\n!*.pem\n")
    with Inside(runner, mode) as inside:
        assert inside.ask("read('.env')") in ("EACCES", "ENOENT")
        settle(runner, inside)
        appear(runner, "src/.env", marker + "\n")
        settle(runner, inside)
        assert inside.ask("read('src/.env')") in ("EACCES", "ENOENT")


def test_using_up_the_kernel_s_watches_shows_nothing(user_runner, marker):
    """Claim: the command cannot blind Bawn by taking all inotify watches of the user: what cannot be watched is not shown."""
    runner = user_runner
    fill(runner, marker)
    limited = ["unshare", "-Ur", "sh", "-c", 'echo 200 >/proc/sys/user/max_inotify_watches && uid=$1 gid=$2 && shift 2 && '
               'exec unshare -U --map-user="$uid" --map-group="$gid" "$@"', "sh", str(runner.user.pw_uid), str(runner.user.pw_gid)]
    if runner.run(*limited, "true").rc != 0:
        pytest.skip("needs a kernel with nested user namespaces")
    take = """[__import__('ctypes').CDLL(None).inotify_add_watch(fd, f.encode(), 2)
        for fd in [__import__('ctypes').CDLL(None).inotify_init1(0)] for i in range(400) for f in ['/tmp/w%d' % i] if open(f, 'w')][-1]"""
    with Inside(runner, "direct", wrap=limited) as inside:
        settle(runner, inside)
        assert inside.ask(take.replace("\n", " ")) == -1  # all are taken
        with contextlib.suppress(Ended, BrokenPipeError):  # that the run ends would be right, too
            runner.mkdir(runner.workspace / "brandnew")
            appear(runner, "brandnew/plain.txt", "plain")
            inside.until("read('brandnew/plain.txt')", lambda got: got in ("plain", "EACCES", "ENOENT"))
            settle(runner, inside)  # Bawn has seen the folder
            appear(runner, "brandnew/late.pem", marker + "\n")
            settle(runner, inside)
            assert marker not in inside.ask("read('brandnew/late.pem')")


# The rules themselves


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("then", MODES)
def test_rules_made_inside_change_neither_this_run_nor_the_next(runner, marker, tree, mode, then):
    """Claim: .sandboxignore written inside has no effect until `bawn init --accept`, in no pair of modes (6)."""
    write = """
        for path in (".sandboxignore", "deep/er/.sandboxignore", "deep/.sandboxignore", ".aws/.sandboxignore"):
            try:
                with open(path, "w") as f: f.write("!*\\n!.*\\n!.env\\n!*.pem\\n!*.key\\n!.aws/\\n")
            except OSError as e: print(e)
        return each(read)"""
    shown = control(runner, probe("return each(read)", marker))
    assert shown.rc == 0, shown
    first = runner.bawn("run", "--workspace", mode, "--", *probe(write, marker))
    assert first.rc == REFUSED, first
    second = runner.bawn("run", "--workspace", then, "--", *probe("return each(read)", marker))
    assert second.rc == REFUSED, second
    assert not (runner.workspace / ".sandboxignore").exists(), "a rule file must wait for a review"
    assert snapshot(runner) == tree


@pytest.mark.parametrize("mode", ["overlay", "sync", "worktree"])
def test_rules_that_were_applied_wait_to_be_accepted(runner, marker, tree, mode):
    """Claim: even when the change was applied, nothing is shown before `bawn init --accept`; then it is."""
    assert runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "printf '!.env\\n' >.sandboxignore").rc == 0
    review = runner.bawn("review")
    assert review.rc == 1 and b".sandboxignore" in review.out, review
    applied = runner.bawn("apply", "--yes")
    if applied.rc != 0:
        applied = runner.bawn("apply", "--yes", "--risky")
    assert (runner.workspace / ".sandboxignore").exists(), applied
    r = runner.bawn("run", "--", "cat", ".env")
    assert r.rc == 1 and marker.encode() not in r.out and b"bawn init --accept" in r.err, r
    assert runner.bawn("init", "--accept").rc == 0
    assert runner.bawn("run", "--", "cat", ".env").out == marker.encode() + b"\n"
