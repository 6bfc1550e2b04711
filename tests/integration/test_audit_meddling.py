"""Every kind of meddling with logs that were rotated, with heads and with the index is found; writers under load, killed and with a wrong clock,
leave a log that verifies (spec/audit-events.md)."""

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


def append(folder, log, count, length):
    """Lines as the spec has them, made without our code."""
    seq, size, number, prev = head_of(folder, log)
    lines = []
    for _ in range(count):
        seq += 1
        body = (f'{{"seq":{seq},"time":"2026-01-01T00:00:00.000000Z","type":"tool","sandbox":"","run":"","tenant":"","user":"x","uid":0,"pid":1,'
                f'"pad":"{"x" * length}","prev":"{prev}"').encode()
        prev = hashlib.sha256(body).hexdigest()
        lines.append(body + f',"hash":"{prev}"}}\n'.encode())
    with open(folder / f"{log}.jsonl", "ab") as f:
        f.write(b"".join(lines))
    write_head(folder, log, seq, size + sum(map(len, lines)), number, prev)


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
    for number in (1, 2):
        append(folder(user_runner), "user", FULL // 60000 + 1, 60000)
        note(user_runner)
        assert (folder(user_runner) / f"user.jsonl.{number}").exists()
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


def older_head(f):
    """Head and file as they were earlier: only the index and what was kept elsewhere know of the rest."""
    lines = (f / "user.jsonl").read_bytes().splitlines(keepends=True)
    last = json.loads(lines[0])
    (f / "user.jsonl").write_bytes(lines[0])
    write_head(f, "user", last["seq"], len(lines[0]), 3, last["hash"])


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
