# SPDX-License-Identifier: Apache-2.0
"""Promise 1: a start does not read folders again in which nothing changed since the last one (workspace/hide/walk_memo.h). What did change
there, by whatever means, is seen."""

import os
import time

import pytest

FILES = 1200   # enough for the search to be remembered
SLACK_S = 2.1  # folders that changed less than two seconds before a search are read again anyway: the attack begins after that


def memo(runner):
    folder = runner.home / ".local/state/bawn/walks"
    return list(folder.iterdir()) if folder.exists() else []


def resting(*folders):
    """No change of them is young any more."""
    while any(time.time() < os.stat(f).st_ctime + SLACK_S for f in folders):
        time.sleep(0.05)


@pytest.fixture
def remembered(runner, marker):
    """A workspace with a plain file deep/er/plain that has the marker, whose folders all count as unchanged, and a rule in it."""
    made = runner.run("sh", "-c", f'mkdir -p deep/er/many && cd deep/er && echo {marker} >plain && echo nothing >.sandboxignore && '
                      f'cd many && seq {FILES} | xargs touch')
    assert made.rc == 0, made
    resting(runner.workspace / "deep/er/many")
    seen = runner.bawn("run", "--", "cat", "deep/er/plain")
    assert seen.rc == 0 and marker.encode() in seen.out, seen
    assert len(memo(runner)) == 1 and memo(runner)[0].stat().st_mode & 0o777 == 0o600
    return marker


# What happens between the runs, and what must be hidden then. The folder's own times are put back, as the inside can do it.
WAYS = {
    "a file gets a name that is hidden": ("mv deep/er/plain deep/er/.env", "deep/er/.env"),
    "the same by a link": ("ln deep/er/plain deep/er/.env; rm deep/er/plain", "deep/er/.env"),
    "a folder with one takes the place of another": (
        "mkdir new; mv deep/er/plain new/.env; mv deep/er old; mv new deep/er", "deep/er/.env"),
    "a rule is changed in place": ("printf 'plain\\n#' >deep/er/.sandboxignore", "deep/er/plain"),
    "a rule above is new": ("echo plain >.sandboxignore", "deep/er/plain"),
    "a rule in the folder above is new": ("echo plain >deep/.sandboxignore", "deep/er/plain"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_changed_is_seen_though_times_are_put_back(runner, remembered, way):
    """Claim: a file that gets a hidden name in a folder that was searched before is hidden by the next run, whatever mtimes say."""
    change, hidden = WAYS[way]
    keep = "for d in . deep deep/er deep/er/.sandboxignore; do touch -r $d /tmp/times-$$-$(echo $d | tr / _); done"
    back = "for d in . deep deep/er deep/er/.sandboxignore; do [ -e $d ] && touch -r /tmp/times-$$-$(echo $d | tr / _) $d; done; rm -f /tmp/times-$$-*"
    done = runner.run("sh", "-c", f"{keep}; {change}; {back}")
    assert done.rc == 0, done
    assert remembered.encode() in runner.run("cat", hidden).out
    resting(runner.workspace, runner.workspace / "deep", runner.workspace / "deep/er")
    inside = runner.bawn("run", "--", "cat", hidden)
    assert inside.rc not in (0, 64, 125) and remembered.encode() not in inside.out, inside


def test_a_run_cannot_prepare_it_for_the_next(runner, remembered):
    """Claim: what a run does to names and times inside shows nothing to the next run."""
    inside = runner.bawn("run", "--", "sh", "-c", 'touch -r deep/er /tmp/t; ln deep/er/plain deep/er/.env || cp deep/er/plain deep/er/.env; touch -r /tmp/t deep/er; true')
    assert inside.rc == 0, inside
    runner.run("sh", "-c", "touch -r deep/er /tmp/t-$$; mv -f deep/er/plain deep/er/.env; touch -r /tmp/t-$$ deep/er; rm /tmp/t-$$")
    resting(runner.workspace / "deep/er")
    again = runner.bawn("run", "--", "cat", "deep/er/.env")
    assert again.rc not in (0, 64, 125) and remembered.encode() not in again.out, again


def test_a_damaged_memo_is_none(runner, remembered):
    """Claim: without a memo that can be read everything is searched."""
    runner.run("mv", "deep/er/plain", "deep/er/.env")
    resting(runner.workspace / "deep/er")
    path = memo(runner)[0]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    inside = runner.bawn("run", "--", "cat", "deep/er/.env")
    assert inside.rc not in (0, 64, 125) and remembered.encode() not in inside.out, inside
