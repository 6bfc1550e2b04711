# SPDX-License-Identifier: Apache-2.0
"""Host and sandbox write, rename and delete in the same tree at once; afterwards every byte is where the mode says.

Two players, one outside and one inside, work on the same names for BAWN_STRESS_SECONDS (4) per mode and write a record of what
they did last to each name. Every version is one word repeated, so that a mixture of two shows. A player puts a version in place
by an exchange of names and so knows what it displaced: what it had before its eyes and replaced is its own decision, everything
else must be somewhere.
"""

import contextlib
import json
import os
import stat
import subprocess

import pytest

SECONDS = float(os.environ.get("BAWN_STRESS_SECONDS", "4"))
MODES = ["direct", "overlay", "sync", "worktree", "ro"]
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]

# argv: name, seed, seconds (0: until the file stop is there), record, stop, aside ("": replace by rename), what: all or own
PLAYER = r"""
import ctypes, errno, json, os, random, sys, time
me, seed, seconds, record, stop, aside, what = sys.argv[1:]
rng, seconds = random.Random(seed), float(seconds)
libc = ctypes.CDLL(None, use_errno=True)
shared = [f"d{i}/f{j}" for i in range(4) for j in range(6)] + ["top1", "top2", "new/a", "new/b"]
own = [f"{me}/f{i}" for i in range(10)]
has, displaced, strange, n, done = {}, [], [], 0, 0
fine = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR}
if what == "refused": fine |= {errno.EROFS}

def version():
    global n
    n += 1
    word = f"{me}{seed}-{n}\n".encode()
    return word, word * rng.choice((1, 50, 3000))

def look(path):
    try:
        with open(path, "rb") as f: return f.read().split(b"\n", 1)[0].decode()
    except OSError as e:
        if e.errno not in fine: raise

def write_new(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    word, data = version()
    temp = f"{aside}/{me}.tmp" if aside else f"{me}.tmp"
    with open(temp, "wb") as f: f.write(data)
    if not aside:
        os.replace(temp, path)
    elif libc.renameat2(-100, temp.encode(), -100, path.encode(), 2) == 0:
        displaced.append(look(temp)); os.unlink(temp)
    else:
        try: os.link(temp, path)
        finally: os.unlink(temp)
    has[path] = word.decode().strip()

def write_over(path):
    if path not in own: return write_new(path)
    word, data = version()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f: f.write(data)
    has[path] = word.decode().strip()

def remove(path):
    if aside:  # out of the tree first: what goes is what was looked at
        os.rename(path, f"{aside}/{me}.gone"); displaced.append(look(f"{aside}/{me}.gone")); os.unlink(f"{aside}/{me}.gone")
    else:
        os.unlink(path)
    has.pop(path, None)

def rename(path):
    other = rng.choice(own)
    if path not in own or path not in has or other == path: return
    os.rename(path, other)
    has[other] = has.pop(path)

def folder(path):
    name = f"{me}/dir{rng.randrange(3)}"
    os.mkdir(name) if rng.random() < 0.5 else os.rmdir(name)

def mode(path):
    if path in own: os.chmod(path, rng.choice((0o600, 0o644, 0o755)))

acts = [write_new] * 5 + [write_over] * 4 + [remove] * 3 + [rename] * 2 + [folder, mode]
print("up", flush=True)
end = time.monotonic() + seconds
while (time.monotonic() < end) if seconds else not os.path.exists(stop):
    path = rng.choice(own if what == "own" else shared + own)
    try:
        rng.choice(acts)(path)
        done += 1
    except OSError as e:
        if e.errno not in fine: strange.append(f"{path}: {e}")
    if len(strange) > 20: break
result = json.dumps({"has": has, "displaced": sorted({d for d in displaced if d}), "strange": strange, "done": done})
if record == "-": print(result)
else:
    with open(record, "w") as f: f.write(result)
"""


def player(name, seed, seconds, record="-", stop="", aside="", what="all"):
    return ["/usr/bin/python3", "-c", PLAYER, name, str(seed), str(seconds), str(record), str(stop), str(aside), what]


@contextlib.contextmanager
def host_plays(r, seed):
    """Plays until the end of the block; the dict it gives is filled then."""
    aside, stop = r.top / "aside", r.top / "stop"
    record = aside / "host.json"
    r.mkdir(aside)
    found = {}
    p = r.popen(*player("H", seed, 0, record, stop, aside), stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"up\n"
        yield found
    finally:
        stop.touch()
        p.wait()
        p.stdout.close()
        stop.unlink()
    found.update(json.loads(record.read_text()))
    assert not found["strange"], found["strange"]
    assert found["done"] > 20


def words(top):
    """{path: first word} of all files; each holds one word, any number of times, and nothing else."""
    found = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [f for f in folders if f != ".git"]
        for name in files:
            path = os.path.join(folder, name)
            if not stat.S_ISREG(os.lstat(path).st_mode):
                continue
            with open(path, "rb") as f:
                data = f.read()
            word = data.split(b"\n", 1)[0] + b"\n"
            assert data == word * (len(data) // len(word)), f"{path} holds a mixture: {data[:60]!r}"
            found[os.path.relpath(path, top)] = word.decode().strip()
    return found


def fill(r):
    for i in range(4):
        for j in range(6):
            r.write(f"d{i}/f{j}", f"base-{i}-{j}\n" * 40)
    r.write("top1", "base-top1\n")
    r.mkdir(r.workspace / "H")


def git(r, *args):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    p = subprocess.run([*GIT, *args], cwd=r.workspace, env=env, capture_output=True, check=True, **r.identity())
    return p.stdout.decode()


def repository(r):
    git(r, "init", "-q")
    git(r, "add", "-A")
    git(r, "commit", "-qm", "one")


def play(r, mode, seed, *options, seconds=SECONDS, what="all", rc=0):
    """What the player inside says of itself."""
    result = r.bawn("run", "-w", mode, *options, "--", *player("S", seed, seconds, what=what))
    assert result.rc == rc, result
    up, record = result.out.split(b"\n", 1)
    assert up == b"up"
    record = json.loads(record)
    assert not record["strange"], record["strange"]
    assert record["done"] > 20 or what == "refused", record
    return record


def nothing_left(r):
    for folder, _, files in os.walk(r.workspace):
        assert not [f for f in files if ".bawn-tmp-" in f], (folder, files)
    assert str(r.top) not in open("/proc/self/mountinfo").read()


def owned(record, name):
    return {p: w for p, w in record["has"].items() if p.startswith(f"{name}/")}


def below(found, name):
    return {p: w for p, w in found.items() if p.startswith(f"{name}/")}


def untouched(r, host):
    """The host's tree is exactly what its own player left of what it knew: nothing of the sandbox's is in it."""
    found = words(r.workspace)
    assert {p: w for p, w in found.items() if not w.startswith("base-")} == host["has"]
    assert not [w for w in found.values() if w.startswith("S")]


def test_direct(runner):
    """Live: both see the same tree all the time, and what either did last to a name of its own is there."""
    fill(runner)
    with host_plays(runner, 1) as host:
        inside = play(runner, "direct", 1)
    found = words(runner.workspace)
    assert below(found, "S") == owned(inside, "S") and below(found, "H") == owned(host, "H")
    written = {p: {w[p] for w in (inside["has"], host["has"]) if p in w} for p in found}
    for path, word in found.items():
        assert word in written[path] or word.startswith("base-") or word[0] in "HS", path
    seen = runner.bawn("run", "--", "sh", "-c", "find . -type f ! -path './.git/*' -exec cksum {} + | sort")
    outside = runner.run("sh", "-c", "find . -type f ! -path './.git/*' -exec cksum {} + | sort")
    assert seen.rc == 0 and seen.out == outside.out, seen
    assert runner.bawn("review").rc in (0, 1)
    nothing_left(runner)


def test_direct_rollback_after_it(runner):
    """The journal of a run among whose changes were the host's: what rollback does not leave is as it was, nothing of the host's own goes."""
    fill(runner)
    with host_plays(runner, 2) as host:
        play(runner, "direct", 2, seconds=SECONDS / 4)
    r = runner.bawn("rollback")
    assert r.rc in (0, 1), r
    found = words(runner.workspace)
    assert below(found, "H") == owned(host, "H")
    assert not below(found, "S"), "what only the run made is gone"
    nothing_left(runner)


def test_overlay(runner):
    """The host's tree is exactly what the host's player left; the run has all that the sandbox's last wrote."""
    fill(runner)
    with host_plays(runner, 3) as host:
        inside = play(runner, "overlay", 3, "--name", "n")
    untouched(runner, host)
    upper = words(runner.home / ".local/state/bawn/runs/n/upper")
    assert {p: upper.get(p) for p in inside["has"]} == inside["has"]
    before = words(runner.workspace)
    r = runner.bawn("apply", "n", "--yes", "--conflict", "keep-both")
    assert r.rc == 0, r
    found = words(runner.workspace)
    assert {p: found.get(p) for p in host["has"]} == host["has"], "the host's stay"
    assert set(inside["has"].values()) <= set(found.values()), "the run's are there, too, under some name"
    assert below(found, "S") == owned(inside, "S")
    r = runner.bawn("apply", "--undo")
    assert r.rc == 0, r
    assert words(runner.workspace) == before
    nothing_left(runner)


def test_overlay_apply_while_the_host_writes(runner):
    """Apply and undo again and again, the host's player at work: all or nothing each time, and no version of the host's is lost."""
    fill(runner)
    inside = play(runner, "overlay", 4, "--name", "n", seconds=SECONDS / 4)
    done = 0
    with host_plays(runner, 4) as host:
        for _ in range(int(4 * SECONDS)):
            r = runner.bawn("apply", "n", "--yes", "--conflict", "keep-both")
            assert r.rc in (0, 125), r
            done += r.rc == 0
            if r.rc == 0:
                assert runner.bawn("apply", "--undo", "n").rc in (0, 1)
    found = words(runner.workspace)
    lost = {p: w for p, w in host["has"].items() if w not in found.values()}
    assert not lost, (lost, done)
    left = set(found.values()) | set(host["displaced"]) | set(words(runner.home / ".local/state/bawn/runs/n/upper").values())
    assert set(inside["has"].values()) <= left
    nothing_left(runner)


@pytest.mark.parametrize("name", ["n", None], ids=["named", "unnamed"])
def test_sync(runner, name):
    """The host's player goes on while changes are carried: every last version of either side exists somewhere."""
    fill(runner)
    with host_plays(runner, 5) as host:
        inside = play(runner, "sync", 5, *(["--name", name] if name else []), seconds=SECONDS / 2)
    found = words(runner.workspace)
    runs = runner.home / ".local/state/bawn/runs"
    everywhere = set(found.values())
    for run in runs.iterdir() if runs.exists() else []:
        everywhere |= set(words(run / "tree").values())
    lost = {p: w for p, w in host["has"].items() if w not in everywhere}
    assert not lost, ("of the host's", lost)
    lost = {p: w for p, w in inside["has"].items() if w not in everywhere | set(host["displaced"])}
    assert not lost, ("of the sandbox's", lost)
    assert below(found, "S") == owned(inside, "S") and below(found, "H") == owned(host, "H")
    if name:  # once it is quiet both sides become the same
        r = runner.bawn("run", "-w", "sync", "--name", name, "--", "true")
        assert r.rc == 0, r
        assert words(runner.workspace) == words(runs / name / "tree")
        assert set(host["has"].values()) <= set(words(runner.workspace).values())
    nothing_left(runner)


def test_worktree(runner):
    """The host's tree is the host's alone, the branch has nothing of it."""
    fill(runner)
    repository(runner)
    with host_plays(runner, 6) as host:
        inside = play(runner, "worktree", 6, "--name", "n")
    untouched(runner, host)
    tree = words(runner.home / ".local/state/bawn/runs/n/tree")
    assert {p: w for p, w in tree.items() if not w.startswith(("base-", "gitdir"))} == inside["has"]
    assert git(runner, "rev-parse", "bawn/n") == git(runner, "rev-parse", "main")
    git(runner, "fsck", "--strict")
    nothing_left(runner)


def test_ro(runner):
    """The sandbox writes nothing; what the host does is there to be read."""
    fill(runner)
    with host_plays(runner, 7) as host:
        inside = play(runner, "ro", 7, seconds=SECONDS / 4, what="refused")
    assert inside["has"] == {}, inside
    untouched(runner, host)
    nothing_left(runner)


def test_parallel_runs_of_all_modes_do_not_meet(runner):
    """One host, five sandboxes: what each keeps for itself stays with it."""
    fill(runner)
    repository(runner)
    started = []
    with host_plays(runner, 8) as host:
        for i, mode in enumerate(("overlay", "overlay", "worktree", "worktree", "ro")):
            options = [] if mode == "ro" else ["--name", f"p{i}"]
            script = player("S", 80 + i, SECONDS / 2, what="refused" if mode == "ro" else "all")
            started.append((mode, i, runner.popen(runner.path, "run", "-w", mode, *options, "--", *script, stdout=subprocess.PIPE, stderr=subprocess.PIPE)))
        results = [(mode, i, p.communicate(timeout=300), p.returncode) for mode, i, p in started]
    untouched(runner, host)
    for mode, i, (out, err), rc in results:
        assert rc == 0, (mode, err)
        record = json.loads(out.split(b"\n", 1)[1])
        assert not record["strange"], (mode, record["strange"])
        if mode != "ro":
            folder = runner.home / f".local/state/bawn/runs/p{i}" / ("upper" if mode == "overlay" else "tree")
            mine = {p: w for p, w in words(folder).items() if w.startswith("S")}
            assert mine == record["has"], mode
    assert runner.bawn("discard", "--all", "--yes").rc == 0
    assert list((runner.home / ".local/state/bawn/runs").iterdir()) == []
    assert git(runner, "for-each-ref", "refs/heads/bawn") == ""
    nothing_left(runner)


def test_a_mixture_would_be_seen(tmp_path):
    """The outside half: two versions in one file do not pass."""
    (tmp_path / "f").write_text("H1-1\n" * 3 + "S1-1\n")
    with pytest.raises(AssertionError, match="mixture"):
        words(tmp_path)
