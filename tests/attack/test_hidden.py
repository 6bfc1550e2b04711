# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C1.5, C1.6 and promise 1: what .sandboxignore hides in the workspace."""

import os
import shutil

import pytest

NAMES = [".env", "deep/er/server.pem", ".aws/credentials", "odd [name]*.key"]


@pytest.fixture
def secret(runner, marker):
    for name in NAMES:
        folder = runner.workspace
        for part in name.split("/")[:-1]:
            folder = folder / part
            if not folder.exists():
                runner.mkdir(folder)
        runner.write(name, marker + "\n")
    runner.write(".env.example", "KEY=\n")
    return marker


def intact(runner, marker):
    return all((runner.workspace / name).read_text() == marker + "\n" for name in NAMES)


WAYS = {
    "by name": 'cat "$1"',
    "through /proc/self/cwd": 'cat "/proc/self/cwd/$1"',
    "through the other path of the workspace": 'cat "$(readlink -f .)/$1"',
    "after moving what is around it": 'd=$(dirname "$1"); [ "$d" = . ] || { mv "$d" moved && cat "moved/$(basename "$1")"; } && cat "$1" 2>/dev/null || cat moved/*',
    "by a hard link": 'ln "$1" link && cat link',
    "by copying the folder": 'mkdir -p /tmp/copy-$marker && cp -r . /tmp/copy-$marker && cat "/tmp/copy-$marker/$1"',
    "after chmod": 'chmod 777 "$1"; cat "$1"',
    "by searching everything": 'grep -rhs bawn-secret / --include="$(basename "$1")" --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr',
    "by its size": 'test -s "$1"',
    "by writing to it": 'echo x >>"$1"',
    "by making it anew": 'rm -f "$1"; echo mine >"$1"; test "$(cat "$1")" = mine',
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS)
def test_a_hidden_file_is_neither_read_nor_changed(runner, secret, way, name):
    """Claim: a hidden file cannot be read, measured, changed or removed, under any name, and is untouched on the host."""
    outside = runner.mkdir(runner.workspace / "outside")
    script = f'marker={secret}; {WAYS[way]}'
    # The probe works on a copy of the same layout without the sandbox.
    runner.run("sh", "-c", f'cp -r "$(dirname "{name}")" outside/ 2>/dev/null; cp -r .env* .aws deep odd* outside/ 2>/dev/null; true')
    shown = runner.run("sh", "-c", f'cd "$2" && {script}', "sh", name, str(outside))
    if way != "by searching everything":  # which would read the whole host
        assert shown.rc == 0, shown
    runner.run("rm", "-rf", "outside", f"/tmp/copy-{secret}")

    inside = runner.bawn("run", "--", "sh", "-c", script, "sh", name)
    assert inside.rc not in (0, 64, 125), inside
    assert secret.encode() not in inside.out, inside
    moved = runner.workspace / "moved"
    if moved.exists():
        moved.rename(runner.workspace / name.split("/")[0] if name.count("/") == 1 else runner.workspace / os.path.dirname(name))
    assert intact(runner, secret), inside


def test_removing_everything_leaves_hidden_files_alone(runner, secret):
    """Claim: rm -rf inside never reaches what is hidden."""
    r = runner.bawn("run", "--", "sh", "-c", "rm -rf ./* ./.[!.]* ; mv .env x; mv .aws y; true")
    assert r.rc == 0, r
    assert intact(runner, secret), r


def test_a_template_is_shown(runner, secret):
    """The defaults hide .env.* but not .env.example."""
    r = runner.bawn("run", "--", "cat", ".env.example")
    assert (r.rc, r.out) == (0, b"KEY=\n"), r


def test_a_rule_file_that_cannot_be_read_stops_the_run(runner, secret):
    """Claim: a rule that was not read would be a secret that is not hidden: fail closed."""
    (runner.workspace / ".sandboxignore").symlink_to("/etc/passwd")
    r = runner.bawn("run", "--", "true")
    assert r.rc in (64, 125) and b".sandboxignore" in r.err, r


def test_too_many_hidden_files_stop_the_run(runner):
    """Claim: hiding is never given up for being much work."""
    for i in range(1100):
        runner.write(f"k{i}.pem", "x")
    r = runner.bawn("run", "--", "true")
    assert r.rc == 125 and b"hide their folders" in r.err, r


PLANTED = {
    "a file of its own": "printf '!.env\\n!*.pem\\n' >.sandboxignore",
    "a file deeper": "printf '!server.pem\\n' >deep/er/.sandboxignore; printf '!.env\\n!*.key\\n!.aws/\\n' >.sandboxignore",
    "an empty file": ": >.sandboxignore",
    "no file any more": "rm -f .sandboxignore",
}


@pytest.mark.parametrize("before", [None, "*.pem\n*.key\n.env\n.aws/\n"], ids=["defaults", "rules of the user"])
@pytest.mark.parametrize("planted", PLANTED)
def test_rules_that_a_run_wrote_show_nothing_to_the_next(runner, secret, planted, before):
    """Claim: what a sandbox does to .sandboxignore has no effect on later runs until the user accepts it (6)."""
    if before:
        runner.write(".sandboxignore", before)
    read = 'for f in .env deep/er/server.pem .aws/credentials "odd [name]*.key"; do cat "$f"; done'
    shown = runner.run("sh", "-c", read)
    assert shown.out.count(secret.encode()) == len(NAMES), shown
    first = runner.bawn("run", "--", "sh", "-c", f"({PLANTED[planted]}); {read}")
    rules = runner.workspace / ".sandboxignore"
    assert (rules.read_text() if rules.exists() else None) == before, "direct mode protects the rules"
    runner.run("sh", "-c", PLANTED[planted])  # it comes all the same, by a merge or by `bawn apply`
    second = runner.bawn("run", "--", "sh", "-c", read)
    for r in (first, second):
        assert r.rc not in (64, 125) and secret.encode() not in r.out, r
    if planted != "no file any more":
        assert b"bawn init --accept" in second.err, second


def test_the_user_can_accept_a_change(runner, secret):
    assert runner.bawn("run", "--", "true").rc == 0
    runner.write(".sandboxignore", "*.pem\n")
    assert secret.encode() not in runner.bawn("run", "--", "cat", ".env").out
    assert runner.bawn("init", "--accept").rc == 0
    r = runner.bawn("run", "--", "cat", ".env")
    assert r.rc == 0 and secret.encode() in r.out and b"accept" not in r.err, r


def test_hiding_more_counts_at_once(runner):
    runner.write("notes.txt", "plain")
    assert runner.bawn("run", "--", "cat", "notes.txt").out == b"plain"
    runner.write(".sandboxignore", "notes.txt\n.env\n")
    assert runner.bawn("run", "--", "cat", "notes.txt").rc == 1


def test_explaining_accepts_nothing(runner, secret):
    """Claim: only a run in a workspace that was never used takes its rules as they are."""
    runner.write(".sandboxignore", "!.env\n")
    assert runner.bawn("explain").rc == 0
    runner.write(".sandboxignore", ".env\n")
    assert runner.bawn("run", "--", "cat", ".env").rc == 1
    runner.write(".sandboxignore", "!.env\n")
    assert secret.encode() not in runner.bawn("run", "--", "cat", ".env").out


def test_without_a_place_to_remember_the_defaults_stay(runner, secret):
    """Claim: who has no home cannot have accepted anything."""
    runner.write(".sandboxignore", "!.env\n")
    r = runner.bawn("run", "--", "cat", ".env", env={"HOME": "/nonexistent"})
    assert r.rc == 1 and secret.encode() not in r.out, r
    made = os.path.exists("/nonexistent")
    if made:
        shutil.rmtree("/nonexistent", ignore_errors=True)  # root's own mistake must not be the other tests' too
    assert not made
    r = runner.bawn("run", "--", "cat", ".env", env={"XDG_STATE_HOME": "/proc/nowhere"})
    assert r.rc == 1 and secret.encode() not in r.out, r


def test_a_damaged_record_stops_the_run(runner, secret):
    """Claim: a record that cannot be read is not fewer rules."""
    assert runner.bawn("run", "--", "true").rc == 0
    records = list((runner.home / ".local/state/bawn/ignore").iterdir())
    assert len(records) == 1
    records[0].write_bytes(b"bawn-ignore-1\n5 9999\nweb/")
    r = runner.bawn("run", "--", "true")
    assert r.rc == 125 and b"damaged" in r.err, r
