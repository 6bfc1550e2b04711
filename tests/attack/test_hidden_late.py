# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 15-17: not watched must mean not shown. Hidden files that the host makes or saves again while a command runs, in folders
that the command or the host closed, moved, replaced or made twice; and hidden files under a second name: hard links, other mounts."""

import os
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import Inside, appear, fill, settle  # noqa: E402

MODES = ["direct", "overlay", "sync", "worktree", "ro"]
SHOWS_THE_HOST = ["direct", "overlay", "ro"]
GONE = ("EACCES", "ENOENT", "ENOTDIR", "ESTALE")


@pytest.fixture
def tree(runner, marker):
    fill(runner, marker)


def shown(inside, path, text="plain"):
    """The control: what is not hidden can be read there."""
    assert inside.until(f"read({path!r})", lambda got: got == text) == text


def hidden(runner, inside, path, marker, settled=True):
    if settled:
        settle(runner, inside)
    got = inside.until(f"read({path!r})", lambda answer: marker not in answer)
    assert got in GONE, got
    for _ in range(20):
        assert inside.ask(f"read({path!r})") in GONE


# Folders that cannot be read

NOTHING = "bytes.fromhex('0200000001000000ffffffff04000000ffffffff20000000ffffffff')"  # an ACL without any right
CLOSED = {
    "made closed": "os.mkdir('shut', 0)",
    "closed at once": "[os.mkdir('shut'), os.chmod('shut', 0)][1]",
    "closed at once, with others in it": "[os.makedirs('shut/a/b'), os.chmod('shut', 0)][1]",
    "closed by its descriptor": "[os.mkdir('shut'), os.fchmod(os.open('shut', os.O_RDONLY), 0)][1]",
    "closed by its ACL": f"[os.mkdir('shut'), os.setxattr('shut', 'system.posix_acl_access', {NOTHING})][1]",
    "made where the default is closed": f"[os.setxattr('.', 'system.posix_acl_default', {NOTHING}), os.mkdir('shut')][1]",
}


@pytest.mark.parametrize("how", CLOSED)
def test_a_folder_that_the_command_closes_is_watched(runner, marker, tree, how):
    """Claim: a folder that cannot be read by the supervisor is watched before it is closed, or not shown once it is opened again."""
    with Inside(runner, "direct") as inside:
        settle(runner, inside)
        assert inside.ask(CLOSED[how]) is None
        settle(runner, inside)
        opened = inside.ask("os.chmod('shut', 0o755)")
        low = "shut/a/b/" if "others" in how else "shut/"
        appear(runner, low + "plain.txt", "plain")
        appear(runner, low + ".env", marker)
        if "default" not in how:
            assert opened is None  # a command's own folder stays its own
            shown(inside, low + "plain.txt")
        hidden(runner, inside, low + ".env", marker)


@pytest.mark.parametrize("how", ["chmod", "below a closed one"])
@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_folder_that_the_host_opens_later_is_watched(runner, marker, tree, mode, how):
    """Claim: a folder that cannot be read when it appears is not shown; once the host opens it, it is watched and then shown."""
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        runner.mkdir(runner.workspace / "shut", 0)
        if how == "below a closed one":
            runner.mkdir(runner.workspace / "shut/low")
        settle(runner, inside)
        if mode == "direct":
            inside.ask("os.chmod('shut', 0o755)")
        low = "shut/low" if how == "below a closed one" else "shut"
        (runner.workspace / "shut").chmod(0o755)
        appear(runner, low + "/plain.txt", "plain")
        appear(runner, low + "/.env", marker)
        if mode != "overlay":  # where what was absent once stays so
            shown(inside, low + "/plain.txt")
        hidden(runner, inside, low + "/.env", marker)


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_a_folder_that_was_closed_at_the_start(runner, marker, tree, mode):
    """Claim: a folder that could not be read at the start is not shown; once the host opens it, it is watched and then shown."""
    runner.mkdir(runner.workspace / "shut", 0)
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        (runner.workspace / "shut").chmod(0o755)
        appear(runner, "shut/plain.txt", "plain")
        appear(runner, "shut/.env", marker)
        shown(inside, "shut/plain.txt")
        hidden(runner, inside, "shut/.env", marker)


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_a_descriptor_of_a_closed_folder_leads_to_nothing(runner, marker, tree, mode):
    """Claim: a folder's descriptor from before it was covered does not show what comes into it later."""
    grab = "[fd for fd in [os.open('shut', os.O_PATH)]][0]"
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        runner.mkdir(runner.workspace / "shut", 0)
        fd = inside.ask(grab)  # wins or loses against the cover
        settle(runner, inside)
        (runner.workspace / "shut").chmod(0o755)
        settle(runner, inside)
        appear(runner, "shut/.env", marker)
        settle(runner, inside)
        assert inside.until(f"read('/proc/self/fd/{fd}/.env')", lambda got: marker not in got) in GONE + ("EBADF",)


# Folders that move

def by_inside(runner, inside, a, b):
    assert inside.ask(f"os.rename({a!r}, {b!r})") is None


def by_host(runner, _inside, a, b):
    (runner.workspace / a).rename(runner.workspace / b)


def out_and_back(runner, inside, a, b):
    (runner.workspace / a).rename(runner.top / "away")
    settle(runner, inside)
    (runner.top / "away").rename(runner.workspace / b)


MOVES = {"inside": (by_inside, "deep", "moved"), "the host": (by_host, "deep", "moved"), "the host, out and back": (out_and_back, "deep", "moved"),
         "inside, the inner folder": (by_inside, "deep/er", "src/er2"), "the host, the inner folder": (by_host, "deep/er", "src/er2")}


@pytest.mark.parametrize("way", MOVES)
@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_hidden_file_is_saved_in_a_folder_that_moved(runner, marker, tree, mode, way):
    """Claim: covers follow folders that move, or move with folders above them; a file that is saved there again is covered again."""
    move, a, b = MOVES[way]
    if move is by_inside and mode != "direct":
        return  # overlay: renaming a folder of the host's is a copy; ro: refused
    folder = b + "/er" if a == "deep" else b
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        move(runner, inside, a, b)
        for i in range(3):
            appear(runner, folder + f"/plain{i}.txt", "plain")
            appear(runner, folder + "/server.pem", f"{marker} {i}")
            appear(runner, folder + "/new.pem", f"{marker} {i}")
            shown(inside, folder + f"/plain{i}.txt")
            hidden(runner, inside, folder + "/server.pem", marker)
            hidden(runner, inside, folder + "/new.pem", marker, False)


def test_a_folder_that_never_rests(runner, marker, tree):
    """Claim: a command that keeps moving a folder cannot outrun the covers: a move ends when what it moved is covered again."""
    run = """[n for n in range(1, 400) for _ in [os.rename('deep/er' if n == 1 else 'r%d' % (n - 1), 'r%d' % n)] if n > 20
        and os.path.exists('r%d/server.pem' % n) and os.access('r%d/server.pem' % n, os.R_OK)]""".replace("\n", " ")
    with Inside(runner, "direct") as inside:
        settle(runner, inside)
        folder = os.open(runner.workspace / "deep/er", os.O_RDONLY)
        runner.write(runner.top / "fresh", marker)
        inside.tell(run)
        while not (runner.workspace / "r10").exists() and not (runner.workspace / "r399").exists():
            pass
        os.rename(runner.top / "fresh", "server.pem", dst_dir_fd=folder)
        os.close(folder)
        seen = inside.answer()
        assert len(seen) <= 2, seen  # the moves that were under way when it was saved


# An overlay's folders, once in the command's layer and once in the host's

def test_folders_of_both_layers(root_runner, marker):
    """Claim: a hidden file in a folder that both the command and the host made, in whatever order, stays absent when the kernel
    forgets what it remembers of the layers, which a command can bring about by using up its memory."""
    runner = root_runner
    fill(runner, marker)
    forget = "sum(os.path.exists('x%d-' % k + 'y' * 200) for k in range(300000))"
    with Inside(runner, "overlay", "--memory", "96m") as inside:
        settle(runner, inside)
        assert inside.ask("[os.mkdir(n) for n in ('both', 'both/low', 'late.aws', 'late.aws/.aws', 'x')] and os.rename('x', 'both2')") is None
        assert inside.ask("read('asked/.env')") == "ENOENT"
        for folder in ("both", "both/low", "both2", "late.aws", "late.aws/.aws", "asked"):
            runner.mkdir(runner.workspace / folder)
        names = ["both/.env", "both/low/.env", "both2/.env", "asked/.env", "late.aws/.aws/credentials", "again/er/new.pem"]
        shutil.move(runner.workspace / "deep/er", runner.top / "was")
        runner.mkdir(runner.workspace / "deep/er")
        runner.mkdir(runner.workspace / "again")
        runner.mkdir(runner.workspace / "again/er")
        for name in names + ["deep/er/server.pem", "deep/er/new.pem"]:
            appear(runner, name, marker)
            appear(runner, os.path.dirname(name) + "/plain.txt", "plain")
        shown(inside, "again/er/plain.txt")
        settle(runner, inside)
        # A name of the command's own in its own folder, and away with it: the host's must not come up.
        assert inside.ask("[open('both/.env', 'w').close(), os.unlink('both/.env')][1]") is None
        assert inside.ask(forget) == 0
        shown(inside, "both/plain.txt")  # it did forget
        for name in names + ["deep/er/server.pem", "deep/er/new.pem"]:
            assert inside.ask(f"read({name!r})") in GONE, name
    if b"without a cgroup" in inside.stderr:
        pytest.skip("needs a cgroup that can be limited: without it nothing is forgotten")


# Names that the command may make, and the host too

def test_what_the_command_made_is_its_own_until_the_host_replaces_it(runner, marker, tree):
    """Claim: a certificate that comes with a package can be read by who installed it; a file that the host puts in its place cannot."""
    pem = "node_modules/a/cert.pem"
    with Inside(runner, "direct") as inside:
        settle(runner, inside)
        write = "[open({0!r}, 'w').write({1!r}), read({0!r})][1]"
        assert inside.ask("[os.mkdir(n) for n in ('node_modules', 'node_modules/a', 'node_modules/a/.aws')][0]") is None
        for text in ("one", "two"):
            assert inside.ask(write.format(pem, text)) == text
            settle(runner, inside)
            assert inside.ask(f"read({pem!r})") == text
            assert inside.ask(f"os.unlink({pem!r})") is None
        assert inside.ask(write.format("node_modules/a/.aws/config", "mine")) == "mine"
        assert inside.ask(write.format("node_modules/a/tmp1", "three")) == "three"
        assert inside.ask(f"os.rename('node_modules/a/tmp1', {pem!r})") is None
        assert inside.ask(f"os.link({pem!r}, 'node_modules/a/two.pem')") is None
        assert inside.ask("os.rename('node_modules/a', 'node_modules/b')") is None
        settle(runner, inside)
        assert inside.ask("read('node_modules/b/cert.pem') + read('node_modules/b/two.pem')") == "threethree"
        assert inside.ask("read('node_modules/b/.aws/config')") == "mine"
        appear(runner, "node_modules/b/cert.pem", marker)
        appear(runner, "node_modules/b/.aws/config", marker)
        hidden(runner, inside, "node_modules/b/cert.pem", marker)
        hidden(runner, inside, "node_modules/b/.aws/config", marker)
        runner.mkdir(runner.workspace / "node_modules/a")
        appear(runner, "node_modules/a/cert.pem", marker)
        hidden(runner, inside, "node_modules/a/cert.pem", marker)


# Watches that run out

def limited(runner, watches):
    wrap = ["unshare", "-Ur", "sh", "-c", f'echo {watches} >/proc/sys/user/max_inotify_watches && uid=$1 gid=$2 && shift 2 && '
            'exec unshare -U --map-user="$uid" --map-group="$gid" "$@"', "sh", str(runner.user.pw_uid), str(runner.user.pw_gid)]
    if runner.run(*wrap, "true").rc != 0:
        pytest.skip("needs a kernel with nested user namespaces")
    return wrap


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_too_few_watches_for_the_workspace_end_the_run(user_runner, marker, mode):
    """Claim: a workspace that cannot be watched as a whole is not shown: the run ends and says what to do."""
    runner = user_runner
    fill(runner, marker)
    for i in range(60):
        runner.mkdir(runner.workspace / f"folder{i}")
    wrap = limited(runner, 40)
    r = runner.run(*wrap, runner.path, "run", "--workspace", mode, "--", "sleep", "30")
    assert r.rc == 125 and b"fs.inotify.max_user_watches" in r.err and b"--workspace sync" in r.err, r
    r = runner.run(*limited(runner, 4000), runner.path, "run", "--workspace", mode, "--", "sleep", "0.3")
    assert r.rc == 0, r


# Sandboxes that sleep

def test_what_appears_while_nothing_runs_is_covered_before_the_next_command(runner, marker, tree):
    """Claim: a persistent sandbox's next command never sees a hidden file that appeared before it was asked for."""
    assert runner.bawn("start", "--workspace", "direct", "box").rc == 0
    try:
        assert runner.bawn("exec", "box", "--", "sleep", "0.2").rc == 0
        for i in range(12):
            runner.mkdir(runner.workspace / f"n{i}")
            appear(runner, f"n{i}/.env", marker)
            appear(runner, ".env", marker)
            r = runner.bawn("exec", "box", "--", "sh", "-c", f"cat n{i}/.env .env; cat readme.txt")
            assert r.out == b"visible\n", r
    finally:
        runner.bawn("rm", "-f", "box")


@pytest.mark.parametrize("mode", ["overlay", "direct"])
def test_a_sandbox_from_the_pool(runner, marker, tree, mode):
    """Claim: the same holds for a sandbox that comes from the pool, whose root was made before."""
    assert runner.bawn("pool", "on").rc == 0
    try:
        for _ in range(3):  # the first start tells the pool which root to make
            with Inside(runner, mode) as inside:
                settle(runner, inside)
                assert inside.ask("read('deep/late.pem')") == "ENOENT"
                appear(runner, "deep/late.pem", marker)
                appear(runner, "src/late.pem", marker)
                hidden(runner, inside, "src/late.pem", marker)
                hidden(runner, inside, "deep/late.pem", marker)
            (runner.workspace / "src/late.pem").unlink()
            (runner.workspace / "deep/late.pem").unlink()
        assert runner.bawn("pool", "status", "--json").json()["taken"] > 0
    finally:
        runner.bawn("pool", "off")


# A second name

@pytest.mark.parametrize("mode", MODES)
def test_another_name_of_a_hidden_file_is_hidden(runner, marker, tree, mode):
    """Claim: a hard link of a hidden file, made before the run, is hidden with it, and so is one of a file in a hidden folder."""
    work = runner.workspace
    os.link(work / ".env", work / "src/backup-env")
    os.link(work / ".env", work / ".env.second")  # hidden itself
    os.link(work / ".aws/credentials", work / "deep/plain name.txt")
    runner.write("src/one.txt", "plain")
    os.link(work / "src/one.txt", work / "src/two.txt")
    read = "cat src/backup-env 'deep/plain name.txt' src/two.txt"
    assert runner.run("sh", "-c", read).out.count(marker.encode()) == 2
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", f"{read}; true")
    assert r.rc == 0 and marker.encode() not in r.out, r
    assert (b"plain" in r.out) == (mode != "worktree"), r  # which has only what git knows
    if mode != "worktree":
        assert b"2 other names of hidden files" in r.err, r
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo x >src/backup-env; rm -f src/backup-env; true")
    assert (work / "src/backup-env").read_text() == marker + "\n", r
    (work / "src/backup-env").unlink()
    (work / "deep/plain name.txt").unlink()
    r = runner.bawn("run", "--workspace", mode, "--", "true")
    assert b"other name" not in r.err, r


# A second place

PLACES = {  # what is mounted, from the test's top folder on; where the workspace is in it
    "the folder above": ("", "work/"),
    "the workspace": ("work", ""),
    "a link to the workspace": ("link", ""),
    "a link above": ("uplink", "work/"),
    "a folder in it": ("work/deep", None),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("place", PLACES)
def test_a_mount_shows_no_hidden_file(runner, marker, tree, mode, place):
    """Claim: what is hidden in the workspace is hidden wherever a mount of the user's shows it, at the start and when it appears later."""
    runner.own((runner.top / "link").symlink_to("work") or runner.top / "link")
    runner.own((runner.top / "uplink").symlink_to(runner.top) or runner.top / "uplink")
    source, at = PLACES[place]
    old, late = (at + "deep/er/server.pem", at + "deep/er/late.pem") if at is not None else ("er/server.pem", "er/late.pem")
    code = os.path.dirname(old) + "/code.c"
    assert marker in (runner.top / source / old).read_text()
    with Inside(runner, mode, "--mount", f"{runner.top / source}:/mnt/other:rw") as inside:
        shown(inside, f"/mnt/other/{code}", "int main;\n")
        assert inside.ask(f"read('/mnt/other/{old}')") in GONE
        if at is not None:
            assert inside.ask(f"read('/mnt/other/{at}.env')") in GONE
            assert inside.ask(f"read('/mnt/other/{at}.aws/credentials')") in GONE
        for i in range(2):
            appear(runner, "deep/er/late.pem", f"{marker} {i}")
            appear(runner, "deep/er/server.pem", f"{marker} {i}")
            for name in (old, late):
                got = inside.until(f"read('/mnt/other/{name}')", lambda answer: marker not in answer)
                assert got in GONE, (name, got)
    r = runner.bawn("run", "--workspace", mode, "--mount", f"{runner.top / 'work/.aws'}:/mnt/asked", "--", "cat", "/mnt/asked/credentials")
    assert r.out == marker.encode() + b"\n", r  # asked for by name


def test_a_mount_through_another_bind_of_the_host(root_runner, marker):
    """Claim: the same for a place that the host itself has mounted twice."""
    runner = root_runner
    fill(runner, marker)
    other = runner.mkdir(runner.top / "other")
    bound = runner.mkdir(other / "bound")
    argv = [runner.path, "run", "--mount", f"{other}:/mnt/other", "--", "sh", "-c",
            "cat /mnt/other/bound/work/readme.txt; cat /mnt/other/bound/work/.env; true"]
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    r = runner.run("unshare", "-m", "sh", "-c", script, "sh", str(runner.top), str(bound), "cat", str(bound / "work/.env"))
    if r.rc != 0:
        pytest.skip("needs a kernel with nested user namespaces")
    assert marker.encode() in r.out
    r = runner.run("unshare", "-m", "sh", "-c", script, "sh", str(runner.top), str(bound), *map(str, argv))
    assert r.out == b"visible\n", r


# Names that come and go

@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_hidden_folder_is_made_anew(runner, marker, tree, mode):
    """Claim: a hidden folder that the host removes and makes again, or that a visible one is renamed to, is hidden."""
    work = runner.workspace
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        for i in range(3):
            shutil.rmtree(work / ".aws")
            runner.mkdir(work / ".aws")
            appear(runner, ".aws/credentials", f"{marker} {i}")
            hidden(runner, inside, ".aws/credentials", marker)
        runner.write("src/aws/credentials", "plain")
        shown(inside, "src/aws/credentials")
        (work / "src/aws").rename(work / "src/.aws")
        appear(runner, "src/.aws/credentials", marker)
        hidden(runner, inside, "src/.aws/credentials", marker)
        (work / ".env").rename(work / "visible")
        (work / "visible").rename(work / ".env")
        hidden(runner, inside, ".env", marker)


def test_folders_that_change_places(runner, marker, tree):
    """Claim: RENAME_EXCHANGE of two folders moves both."""
    swap = "__import__('ctypes').CDLL(None).renameat2(-100, b'deep', -100, b'src', 2)"
    with Inside(runner, "direct") as inside:
        settle(runner, inside)
        appear(runner, "src/a.pem", marker)
        hidden(runner, inside, "src/a.pem", marker)
        assert inside.ask(swap) == 0
        for name in ("src/er/server.pem", "src/er/new.pem", "deep/a.pem", "deep/b.pem"):
            appear(runner, name, marker)
        appear(runner, "src/er/plain.txt", "plain")
        shown(inside, "src/er/plain.txt")
        for name in ("src/er/server.pem", "src/er/new.pem", "deep/a.pem", "deep/b.pem"):
            got = inside.until(f"read({name!r})", lambda answer: marker not in answer)
            assert got in GONE, (name, got)


def test_folders_too_deep_to_name_are_not_shown(runner, marker, tree):
    """Claim: a folder whose path is too long to be watched is covered; one that moved up from there is watched."""
    dive = "[(os.mkdir('n' * 200), os.chdir('n' * 200)) for _ in range(%d)] and os.mkdir('last')"
    with Inside(runner, "direct") as inside:
        settle(runner, inside)
        assert inside.ask("os.mkdir('top') or os.chdir('top')") is None
        assert inside.ask(dive % 18) is None
        assert inside.ask("os.mkdir('x') or os.mkdir('x/y')") is None
        assert inside.ask("os.mkdir('m' * 220)") is None
        assert inside.until("os.listdir('m' * 220)", lambda got: got == "EACCES") == "EACCES"
        assert inside.ask("os.chdir('/workspace')") is None
        assert inside.ask("os.rename('top/' + '/'.join(['n' * 200] * 18) + '/x', 'up')") is None
        appear(runner, "up/y/plain.txt", "plain")
        appear(runner, "up/y/.env", marker)
        shown(inside, "up/y/plain.txt")
        hidden(runner, inside, "up/y/.env", marker)


@pytest.mark.parametrize("mode", SHOWS_THE_HOST)
def test_a_volume_is_not_covered_for_what_the_host_has_there(runner, marker, tree, mode):
    """Claim: a certificate in a folder of the sandbox's own stays readable, though the host has one of that name under it."""
    runner.write(runner.home / ".config/bawn/config.json", '{"sandbox": {"workspace": {"volumes": ["venv"]}}}')
    runner.write("venv/cacert.pem", marker)
    with Inside(runner, mode) as inside:
        settle(runner, inside)
        assert inside.ask("open('venv/cacert.pem', 'w').write('mine') and read('venv/cacert.pem')") == "mine"
        appear(runner, "venv/cacert.pem", marker)
        appear(runner, "venv/other.pem", marker)
        settle(runner, inside)
        assert inside.ask("read('venv/cacert.pem')") == "mine"
        assert inside.ask("read('venv/other.pem')") == "ENOENT"
