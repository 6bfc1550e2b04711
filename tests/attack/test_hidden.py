"""ATTACKS.md C1.5, C1.6 and promise 1: what .sandboxignore hides in the workspace."""

import os

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
    "by copying the folder": 'mkdir -p /tmp/copy && cp -r . /tmp/copy && cat "/tmp/copy/$1"',
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
    runner.run("rm", "-rf", "outside", "/tmp/copy")

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
