# SPDX-License-Identifier: Apache-2.0
"""Every kind of meddling with logs that were rotated, with heads and with the index is found; writers under load, killed and with a wrong clock,
leave a log that verifies (spec/audit-events.md)."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess

import pytest

FULL = 16 * 1024 * 1024 - 64 * 1024  # a file with more than this is rotated by the next writer


def folder(runner):
    return runner.home / ".local/state/bawn/audit"


def head_of(folder, log):
    seq, size, number, digest = (folder / f"{log}.head").read_text().split()
    return int(seq), int(size), int(number), digest


def write_head(folder, log, seq, size, number, digest):
    (folder / f"{log}.head").write_text(f"{seq:020} {size:020} {number:020} {digest}\n")


def append(folder, log, *members, type="tool"):
    """Lines as the spec has them, made without our code."""
    seq, size, number, prev = head_of(folder, log)
    lines = []
    for text in members:
        seq += 1
        body = (f'{{"seq":{seq},"time":"2026-01-01T00:00:00.000000Z","type":"{type}","sandbox":"","run":"","tenant":"","user":"x","uid":0,"pid":1,'
                f'{text},"prev":"{prev}"').encode()
        prev = hashlib.sha256(body).hexdigest()
        lines.append(body + f',"hash":"{prev}"}}\n'.encode())
    with open(folder / f"{log}.jsonl", "ab") as f:
        f.write(b"".join(lines))
    write_head(folder, log, seq, size + sum(map(len, lines)), number, prev)


def pad(length):
    return f'"pad":"{"x" * length}"'


def rotate(folder, log):
    """As the spec has it: index, rename, head."""
    seq, _, number, digest = head_of(folder, log)
    append(folder, "index", f'"event":"rotated","log":"{log}","number":{number},"last_seq":{seq},"last_hash":"{digest}"', type="file")
    (folder / f"{log}.jsonl").rename(folder / f"{log}.jsonl.{number}")
    write_head(folder, log, seq, 0, number + 1, digest)


def note(runner):
    """One event of the user's log, the cheapest there is."""
    r = runner.bawn("policy", "allow", "example.com:443", "--id", "mine")
    assert r.rc == 0, r
    r = runner.bawn("policy", "rm", "mine")
    assert r.rc == 0, r


def verify(runner):
    r = runner.bawn("log", "verify", "--json")
    assert r.rc in (0, 1) and r.err == b"", r
    assert r.json()["ok"] == (r.rc == 0)
    return [(f["file"], f["line"], f["what"]) for f in r.json()["found"] if f["fault"]]


@pytest.fixture
def rotated(user_runner):
    """A log with two full files and a current one, all sound."""
    note(user_runner)
    for _ in range(2):
        append(folder(user_runner), "user", *[pad(200)] * 12)
        rotate(folder(user_runner), "user")
        note(user_runner)
    assert verify(user_runner) == []
    return user_runner


def edit(path, how):
    lines = path.read_bytes().splitlines(keepends=True)
    how(lines)
    path.write_bytes(b"".join(lines))


def exchange(a, b):
    spare = a.with_name("spare")
    a.rename(spare)
    b.rename(a)
    spare.rename(b)


def resealed(f):
    """The last line changed by somebody who knows how: hash, and head."""
    seq, size, number, _ = head_of(f, "user")
    lines = (f / "user.jsonl.2").read_bytes().splitlines(keepends=True)
    body = lines[-1].replace(b"x" * 100, b"y" * 100).rpartition(b',"hash":"')[0]
    lines[-1] = body + b',"hash":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
    (f / "user.jsonl.2").write_bytes(b"".join(lines))


def own_all(runner):
    for path in (folder(runner), *folder(runner).iterdir()):
        runner.own(path)


MEDDLING = {
    "a line of a full file changed": (lambda f: edit(f / "user.jsonl.1", lambda x: x.__setitem__(9, x[9].replace(b"xxx", b"xyx", 1))), "user.jsonl.1"),
    "a line of a full file removed": (lambda f: edit(f / "user.jsonl.1", lambda x: x.pop(9)), "user.jsonl.1"),
    "two lines exchanged": (lambda f: edit(f / "user.jsonl.2", lambda x: x.insert(3, x.pop(2))), "user.jsonl.2"),
    "a line twice": (lambda f: edit(f / "user.jsonl.2", lambda x: x.insert(3, x[3])), "user.jsonl.2"),
    "a line of one file in the other": (lambda f: edit(f / "user.jsonl.2", lambda x: x.insert(3, (f / "user.jsonl.1").read_bytes().splitlines(True)[3])),
                                        "user.jsonl.2"),
    "the end of a full file cut off": (lambda f: edit(f / "user.jsonl.1", lambda x: x.pop()), "user.jsonl.1"),
    "half of its last line": (lambda f: os.truncate(f / "user.jsonl.1", (f / "user.jsonl.1").stat().st_size - 100), "user.jsonl.1"),
    "the last line of a full file sealed anew": (resealed, "user.jsonl"),
    "a full file emptied": (lambda f: os.truncate(f / "user.jsonl.1", 0), "user.jsonl.1"),
    "the first full file removed": (lambda f: (f / "user.jsonl.1").unlink(), "user.jsonl.1"),
    "the second full file removed": (lambda f: (f / "user.jsonl.2").unlink(), "user.jsonl.2"),
    "full files exchanged": (lambda f: exchange(f / "user.jsonl.1", f / "user.jsonl.2"), "user.jsonl.1"),
    "a full file and the current one exchanged": (lambda f: exchange(f / "user.jsonl.2", f / "user.jsonl"), "user.jsonl"),
    "a copy under the next number": (lambda f: shutil.copy(f / "user.jsonl.2", f / "user.jsonl.3"), "user.jsonl.3"),
    "the current file removed": (lambda f: (f / "user.jsonl").unlink(), "user.head"),
    "the current file emptied": (lambda f: os.truncate(f / "user.jsonl", 0), "user.jsonl"),
    "file and head removed": (lambda f: [(f / "user.jsonl").unlink(), (f / "user.head").unlink()], "user.head"),
    "all of the log removed": (lambda f: [p.unlink() for p in f.glob("user.*")], "user.jsonl"),
    "the head says less": (lambda f: write_head(f, "user", *(lambda h: (h[0] - 1, h[1] - 300, h[2], h[3]))(head_of(f, "user"))), None),
    "the head says more": (lambda f: write_head(f, "user", *(lambda h: (h[0] + 1, h[1] + 300, h[2], h[3]))(head_of(f, "user"))), "user.jsonl"),
    "another hash in the head": (lambda f: write_head(f, "user", *head_of(f, "user")[:3], "0" * 64), "user.jsonl"),
    "another number in the head": (lambda f: write_head(f, "user", *(lambda h: (h[0], h[1], 7, h[3]))(head_of(f, "user"))), None),
    "a lower number in the head": (lambda f: write_head(f, "user", *(lambda h: (h[0], h[1], 1, h[3]))(head_of(f, "user"))), "user.head"),
    "a head of garbage": (lambda f: (f / "user.head").write_bytes(b"\0" * 128), "user.head"),
    "a head that is a folder": (lambda f: [(f / "user.head").unlink(), (f / "user.head").mkdir()], "user.head"),
    "a link to elsewhere": (lambda f: [(f / "user.jsonl.1").rename(f.parent / "elsewhere"), (f / "user.jsonl.1").symlink_to("../elsewhere")], "user"),
    "a file that cannot be read": (lambda f: (f / "user.jsonl.1").chmod(0), "user"),
    "a line of the index removed": (lambda f: edit(f / "index.jsonl", lambda x: x.pop(1)), "index.jsonl"),
    "the end of the index cut off": (lambda f: edit(f / "index.jsonl", lambda x: x.pop()), "index.jsonl"),
    "the index removed": (lambda f: [p.unlink() for p in f.glob("index.*")], None),
    "a file that does not belong there": (lambda f: (f / "notes.txt").write_text("x"), "notes.txt"),
    "a log that nobody began": (lambda f: [shutil.copy(f / "user.jsonl", f / "other.jsonl"), shutil.copy(f / "user.head", f / "other.head")], "other"),
}


def test_meddling_is_found(rotated):
    """Each on a fresh copy; afterwards it is still found when a writer has come by, who repairs what he must."""
    keep = rotated.top / "keep"
    shutil.copytree(folder(rotated), keep)
    for what, (how, file) in MEDDLING.items():
        how(folder(rotated))
        own_all(rotated)
        found = verify(rotated)
        assert found and (file is None or any(f[0].startswith(file) for f in found)), (what, found)
        if "folder" not in what:
            note(rotated)
            assert verify(rotated), f"{what}: the next writer has hidden it"
        shutil.rmtree(folder(rotated))
        shutil.copytree(keep, folder(rotated))
        own_all(rotated)
    assert verify(rotated) == []


def test_two_hundred_writers_over_a_rotation(user_runner):
    """Runs at once, a third of them killed, while the file gets full: sound afterwards, and whoever came to an end is in it, once and whole."""
    runner = user_runner
    note(runner)
    append(folder(runner), "user", *[pad(20000)] * (FULL // 20400 - 1))  # what two hundred write is more than what is left
    before = head_of(folder(runner), "user")[0]
    dice, ended = random.Random(7), set()
    for start in range(0, 200, 20):
        crowd = {n: runner.popen(runner.path, "run", "-w", "ro", "--network", "none", "--", "true", f"run-{n}", stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for n in range(start, start + 20)}
        for n in dice.sample(sorted(crowd), 7):
            os.kill(crowd[n].pid, signal.SIGKILL)
        ended |= {n for n, p in crowd.items() if p.wait() == 0}
    assert len(ended) >= 130 and (folder(runner) / "user.jsonl.1").exists()
    assert verify(runner) == []
    events = [json.loads(x) for x in runner.bawn("log", "--json").out.splitlines()]
    events = [e for e in events if e["seq"] > before and e["type"] != "repair"]
    ran = [int(e["argv"][1].removeprefix("run-")) for e in events if e["type"] == "exec"]
    assert len(ran) == len(set(ran)) and ended <= set(ran)
    by_pid = {}
    for e in events:
        by_pid.setdefault(e["pid"], []).append(e["type"])
    assert sum(types == ["start", "exec", "exit", "stop"] for types in by_pid.values()) >= len(ended)


def test_a_clock_that_goes_back(user_runner):
    """Lines of a time to come, as a wrong clock wrote them: the chain goes by numbers, and who follows sees what comes behind them."""
    runner = user_runner
    note(runner)
    text = (folder(runner) / "user.jsonl").read_bytes().splitlines(keepends=True)[-1]
    seq, size, number, prev = head_of(folder(runner), "user")
    last = json.loads(text)
    body = text.replace(b'"seq":%d' % last["seq"], b'"seq":%d' % (seq + 1)).replace(last["prev"].encode(), prev.encode())
    body = body.replace(last["time"].encode(), b"2099-01-01T00:00:00.000000Z").rpartition(b',"hash":"')[0]
    digest = hashlib.sha256(body).hexdigest()
    with open(folder(runner) / "user.jsonl", "ab") as f:
        f.write(body + f',"hash":"{digest}"}}\n'.encode())
    write_head(folder(runner), "user", seq + 1, (folder(runner) / "user.jsonl").stat().st_size, number, digest)
    with runner.popen(runner.path, "log", "-f", "--json", "--tail", "1", stdout=subprocess.PIPE) as follower:
        assert json.loads(follower.stdout.readline())["time"].startswith("2099")
        note(runner)
        assert [json.loads(follower.stdout.readline())["seq"] for _ in range(2)] == [seq + 2, seq + 3]
        follower.terminate()
    assert verify(runner) == []
    assert len(runner.bawn("log", "--json").out.splitlines()) == seq + 3


def test_a_full_disk(root_runner):
    """What cannot be written down is not done, whatever verb it is; nothing half is left, and with room again all goes on."""
    runner = root_runner
    small = runner.mkdir(runner.top / "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "none", small], check=True)
    audit, boxes, fill = small / "bawn/audit", small / "bawn/sandboxes", small / "fill"

    def bawn(*args, **kw):
        return runner.bawn(*args, env={"XDG_STATE_HOME": str(small)}, **kw)

    def full(r):
        assert r.rc == 125 and b"No space left on device" in r.err and r.err.count(b"\n") == 1, r

    def execute(word):
        return bawn("exec", "box", "--", "sh", "-c", f"echo {word} >> /w/ran")

    try:
        assert bawn("start", "box", "-w", "ro", "--network", "none", "--mount", f"{runner.workspace}:/w:rw").rc == 0
        with contextlib.suppress(OSError), open(fill, "wb", buffering=0) as f:
            while True:
                f.write(bytes(4096))
        done = 0
        while (r := execute(f"number-{done}")).rc == 0:
            done += 1
            assert done < 100
        full(r)
        assert len((runner.workspace / "ran").read_text().splitlines()) == done > 0
        for r in (execute("again"), bawn("exec", "-d", "box", "--", "sh", "-c", "echo back >> /w/ran"), bawn("put", "box", "/w/made", input=b"x"),
                  bawn("cp", "box:/w/ran", "copied"), bawn("run", "--network", "none", "--", "touch", "made"), bawn("start", "other", "-w", "ro"),
                  bawn("fork", "box"), bawn("checkpoint", "box", "tag"), bawn("policy", "allow", "example.com:443", "--id", "mine")):
            full(r)
        assert not (runner.workspace / "made").exists() and not (runner.workspace / "copied").exists()
        assert len((runner.workspace / "ran").read_text().splitlines()) == done
        assert b'"mine"' not in bawn("policy", "ls", "--json").out and [p.name for p in boxes.iterdir() if p.name[0] != "."] == ["box"]
        r = bawn("run", "--each", "a,b", "--network", "none", "-w", "overlay", "--", "sh", "-c", "echo {} > made")
        assert r.rc not in (0, 130) and b"No space left" in r.err, r
        assert bawn("log", "verify").rc == 0
        fill.unlink()
        assert execute("later").rc == 0 and bawn("start", "other", "-w", "ro").rc == 0
        assert bawn("log", "verify").rc == 0
        [log] = audit.glob("bawn-box-*.jsonl")
        told = [json.loads(x)["argv"][2] for x in log.read_bytes().splitlines() if json.loads(x)["type"] == "exec"]
        assert told == [f"echo {x} >> /w/ran" for x in (*(f"number-{n}" for n in range(done)), "later")]
    finally:
        fill.unlink(missing_ok=True)
        bawn("stop", "--all", "--force")
        subprocess.run(["umount", small], check=True)
