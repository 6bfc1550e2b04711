# SPDX-License-Identifier: Apache-2.0
"""`bawn top` in front of a person (tmux, whose screen can be read back), and `bawn status --line` in a prompt.

Most rows are folders of spec/sandbox-folder.md made by the test; what has to use CPU and memory, or to stop, is a real sandbox. That a question
answered here lets the connection through is in tests/network/test_kept.py.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from box_folder import held, make_box, make_dirs, state_of  # noqa: E402
from person import WAIT, finish, terminal  # noqa: E402

KEYS = "q quit"


class Screen:
    def __init__(self, runner, *args, size=(80, 24), lang="C.UTF-8"):
        self.socket = "bawn-top-" + uuid.uuid4().hex[:8]
        become = [] if not runner.identity() else ["setpriv", "--reuid", str(runner.user.pw_uid), "--regid", str(runner.user.pw_gid), "--clear-groups"]
        env = [f"{k}={v}" for k, v in {**runner.environ(), "TERM": "screen-256color", "LANG": lang}.items()]
        command = shlex.join(["env", "-i", *env, *become, str(runner.path), "top", *args])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), f"{command}; echo status=$?; exec sleep 1000")

    def tmux(self, *args):
        return subprocess.run(["tmux", "-L", self.socket, *args], check=True, capture_output=True, text=True).stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, cols, rows):
        self.tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def show(self, *flags):
        return self.tmux("capture-pane", "-p", *flags)

    def see(self, condition):
        """The screen, as soon as it has this text (a regular expression), or is as a function says."""
        test = condition if callable(condition) else lambda shown: re.search(condition, shown, re.M)
        end = time.monotonic() + WAIT
        while not test(shown := self.show()):
            assert time.monotonic() < end, f"{condition} never came:\n{shown}"
            time.sleep(0.02)
        return shown

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True)


@pytest.fixture
def top():
    with contextlib.ExitStack() as stack:
        def open_(runner, *args, **kw):
            s = Screen(runner, *args, **kw)
            stack.callback(s.close)
            return s
        yield open_


def rows(shown):
    """[name, state] of the table."""
    lines = shown.splitlines()[2:]
    ends = [i for i, line in enumerate(lines) if line == "network" or line.startswith("may it connect?")]
    return [line.split()[:2] for line in lines[:ends[0] if ends else 0]]


BUSY = ["/usr/bin/python3", "-c", "x = bytearray(b'x') * (64 << 20)\nwhile True: pass"]  # burns a CPU and holds 64 MiB


# -- the screen ----------------------------------------------------------------------------------------------------------


def test_every_size(user_runner, top):
    """Title, titles of columns, chosen row and keys are there at every size down to 40x8; below that it says what it needs."""
    boxes = [make_box(user_runner, f"box{i:02}", {"phase": "running", "pid": os.getpid()}) for i in range(30)]
    with contextlib.ExitStack() as stack:
        for folder in boxes:
            stack.enter_context(held(folder))
        s = top(user_runner, "--interval", "100ms")
        shown = s.see(KEYS)
        assert shown.startswith("bawn top ") and "30 running, 0 not" in shown and len(shown.splitlines()) == 24
        assert len(rows(shown)) == 17 and shown.splitlines()[-1].startswith(" q quit")
        s.keys(*["Down"] * 40)  # the last row, and not past it
        s.see(r"^box29 ")
        for cols, lines in ((120, 40), (40, 8), (200, 60), (80, 24)):
            s.resize(cols, lines)
            shown = s.see(lambda text: len(text.splitlines()) == lines and text.splitlines()[-1].startswith(" q quit") and
                          text.startswith("bawn top ") and re.search(r"^box29 ", text, re.M))
            assert max(map(len, shown.splitlines())) <= cols
            assert ("box00" in shown) == (lines >= 40) and ("MODE" in shown) == (cols >= 100), shown
        s.resize(39, 8)
        s.see(lambda text: text.strip() == "bawn top needs 40x8")
        s.resize(80, 7)
        s.see(lambda text: text.strip() == "bawn top needs 40x8")
        s.resize(80, 24)
        s.see(r"^box29 ")
        s.keys("q")
        s.see("^status=0")


def test_sandboxes_come_and_go(user_runner, top):
    s = top(user_runner, "--interval", "100ms")
    s.see("no sandboxes: 'bawn start' makes one")
    make_box(user_runner, "old", {"phase": "stopped"})
    make_box(user_runner, "bad", {"phase": "failed", "why": "the disk is full"})
    dead = make_box(user_runner, "dead", {"phase": "running"})
    s.see("^bad .*the disk is full")
    s.see(lambda text: "0 running, 3 not" in text and rows(text) == [["bad", "failed"], ["dead", "crashed"], ["old", "stopped"]])
    with held(dead):
        s.see(lambda text: rows(text)[:1] == [["dead", "running"]])  # those that run come first
    s.see("^dead +crashed")
    for name in ("old", "bad", "dead"):
        assert user_runner.bawn("rm", "--force", name).rc == 0
    s.see("no sandboxes")
    s.keys("q")
    s.see("^status=0")


def test_what_it_uses(kept, top):
    """CPU, memory and processes, with control groups (root, here) and without (a user): both are near what the sandbox really does."""
    for name in ("busy", "idle"):
        assert kept.bawn("start", name, "--network", "none", "--memory", "1g", "--pids", "100").rc == 0
    assert kept.bawn("exec", "-d", "busy", "--", *BUSY).rc == 0
    assert kept.bawn("exec", "-d", "idle", "--", "sh", "-c", "(sleep 1000 &); sleep 1000 & wait").rc == 0

    def samples():
        return {row["name"]: row for row in kept.bawn("top", "--json").json()}

    end = time.monotonic() + WAIT
    while (got := samples())["busy"]["memory"] < 64 << 20 or got["idle"]["pids"] < 4:
        assert time.monotonic() < end, got
    assert 64 << 20 < got["busy"]["memory"] < 128 << 20 and got["idle"]["memory"] < 16 << 20, got
    assert (got["busy"]["memory_max"], got["busy"]["pids_max"]) == (1 << 30, 100)
    assert got["busy"]["pids"] in (2, 3) and got["idle"]["pids"] in (4, 5), got  # bawn-init, and in its group what is about to exec
    # Others use this machine: it gets a part of a CPU, never more than one.
    while not 5 < samples()["busy"]["cpu_percent"] <= 130:
        assert time.monotonic() < end, samples()
    while samples()["idle"]["cpu_percent"] >= 5:  # one tick of the clock is that much
        assert time.monotonic() < end, samples()
    listed = {row["name"]: row["usage"] for row in kept.bawn("ps", "--json").json()}
    assert listed["busy"]["cpu_us"] > 100_000 > listed["idle"]["cpu_us"] and listed["busy"]["memory"] > 64 << 20, listed

    s = top(kept, "--interval", "300ms")
    s.see(r"^busy +running +\d+[sm] +[1-9]\d*\.\d +\d+M/1\.0G +[23]/100 ")
    s.keys("n")
    s.see(lambda text: "by name" in text and [r[0] for r in rows(text)] == ["busy", "idle"])
    s.keys("Down", "c")
    s.see(lambda text: "by cpu" in text and rows(text)[:1] and rows(text)[0][0] == "busy")
    s.keys("m")
    s.see(lambda text: "by memory" in text and rows(text)[:1] and rows(text)[0][0] == "busy")
    # idle is still the chosen one, wherever its row went; only the second x stops it
    s.keys("x")
    s.see("x again stops 'idle'")
    s.keys("Up")
    s.see(KEYS)
    s.keys("Down", "x")
    s.see("x again stops 'idle'")
    assert {r["name"] for r in kept.bawn("ps", "--json").json()} == {"busy", "idle"}
    s.keys("x")
    s.see("^idle +stopped")
    s.see("^busy +running")
    s.keys("q")
    s.see("^status=0")


@pytest.mark.parametrize("lang", ["C.UTF-8", "C"])
def test_names_cannot_draw(user_runner, top, lang):
    """Claim: neither a workspace's name nor a host or path an agent asked for moves the cursor, sets the title or colours anything."""
    evil = "\x1b[2J\x1b[1;1HEVIL\x1b]0;TITLE\x07\x9b31m\r\n\u202eRLO\u0085\ttab"
    # What comes out of a terminal that gets it as it is: proof that the text would do harm.
    s = Screen.__new__(Screen)
    s.socket = "bawn-top-" + uuid.uuid4().hex[:8]
    path = user_runner.write("evil", "before\n" * 5 + evil)
    s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", f"cat {path}; exec sleep 1000")
    assert "before" not in s.see("^EVIL")
    s.close()

    make_box(user_runner, "box", {"phase": "failed", "why": evil, "mode": "\x1b[2J"}, workspace="/tmp/" + evil)
    make_box(user_runner, "zoo", {"phase": "stopped"}, workspace="/tmp/" + evil)
    log = state_of(user_runner) / "log" / "network.jsonl"
    line = {"time": "2026-11-15T19:54:02.123456Z", "sandbox": evil, "kind": "request", "action": "deny", "code": "X", "host": evil, "port": 80,
            "method": "GET" + evil, "path": "/" + evil}
    user_runner.write(log, "".join(json.dumps(x) + "\n" for x in (line, {**line, "host": "last.example.com", "sandbox": "s"})), 0o600)
    s = top(user_runner, "--interval", "100ms", size=(200, 24), lang=lang)
    shown = s.see("last.example.com")
    lines = shown.splitlines()
    assert lines[0].startswith("bawn top ") and lines[1].startswith("NAME") and lines[2].startswith("box ") and lines[3].startswith("zoo "), shown
    assert lines[4] == "network" and lines[-1].startswith(" q quit") and lines[6].startswith("19:54:02 s  deny   last.example.com:80"), shown
    assert "\\x1b[2J" in lines[2] and "\\x1b[2J" in lines[3] and "\\x1b[2J" in lines[5]
    assert s.tmux("display-message", "-p", "#{pane_title}").strip() != "TITLE" and "\u202e" not in shown


def test_the_feed_follows_the_log(user_runner, top):
    """Also over a rotation; half a line is no line yet."""
    log = state_of(user_runner) / "log" / "network.jsonl"

    def line(host, action="allow"):
        return json.dumps({"time": "2026-11-15T19:54:02.123456Z", "sandbox": "s", "kind": "connection", "action": action, "host": host, "port": 443})

    s = top(user_runner, "--interval", "100ms")
    s.see("^network")
    user_runner.write(log, line("a.example.com") + "\n" + line("b.example.com", "deny")[:-9], 0o600)
    assert "b.example.com" not in s.see("allow  a.example.com:443")
    with open(log, "a") as f:
        f.write(line("b.example.com", "deny")[-9:] + "\nno JSON\n")
    s.see("deny   b.example.com:443")
    log.rename(log.with_suffix(".jsonl.1"))
    user_runner.write(log, "".join(line(f"h{i}.example.com") + "\n" for i in range(1000)), 0o600)
    shown = s.see("h999.example.com:443")
    assert shown.splitlines()[-2].endswith("h999.example.com:443 ".strip()), "the newest is the last"


def test_repeats_are_one_line(user_runner, top):
    """Refusals of one host and port by one sandbox are counted, also those that the log has merged."""
    log = state_of(user_runner) / "log" / "network.jsonl"
    line = {"time": "2026-11-15T19:54:02.123456Z", "sandbox": "s", "kind": "connection", "action": "deny", "host": "registry.example.org", "port": 443}
    others = [{**line, "port": 80}, {**line, "sandbox": "t"}, {**line, "action": "allow", "host": "ok.example.org", "count": 7}]
    user_runner.write(log, "".join(json.dumps(x) + "\n" for x in [line] * 20 + [{**line, "count": 24600}] + others), 0o600)
    shown = top(user_runner, "--interval", "100ms").see("ok.example.org")
    assert "s  deny   registry.example.org:443 denied 24,620 times" in shown and shown.count("registry.example.org") == 3 and shown.count("times") == 1, shown


def test_without_a_terminal(user_runner):
    r = user_runner.bawn("top")
    assert r.rc == 64 and b"needs a terminal; --json" in r.err, r
    assert user_runner.bawn("top", "--json").json() == []
    for args, says in ((["--interval", "soon"], b"soon"), (["--interval", "1ms"], b"100ms to 60s"), (["box"], b"takes no names")):
        r = user_runner.bawn("top", *args)
        assert r.rc == 64 and says in r.err, r


def test_supervisors_that_are_stopped_hold_nothing_up(user_runner, top):
    """Questions are asked of all at once, and who does not answer is left out: one after the other these would take minutes."""
    folder = make_dirs(user_runner, state_of(user_runner) / "run")
    with contextlib.ExitStack() as stack:
        for i in range(40):  # they listen, and never take a connection
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.bind(str(folder / f"{400000 + i}.sock"))
            user_runner.own(folder / f"{400000 + i}.sock")
            s.listen(1)
        s = top(user_runner, "--interval", "100ms")
        s.see("no sandboxes")
        for i in range(5):  # more often than they let wait
            make_box(user_runner, f"new{i}", {"phase": "stopped"})
            s.see(f"0 running, {i + 1} not")
        s.keys("q")
        s.see("^status=0")


# -- status --line -------------------------------------------------------------------------------------------------------

GREEN, YELLOW, RED, PLAIN = b"\x1b[32m", b"\x1b[33m", b"\x1b[31m", b"\x1b[0m"


def on_terminal(runner, *args, **env):
    child = terminal(runner, *args, env=env)
    status = finish(child)
    return status, child.before.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("name", ["xterm-unheard-of", "dumb", ""])
def test_a_terminal_that_cannot_be_drawn_on(user_runner, name):
    """As after `ssh` from a terminal that is newer than this machine; ncurses itself would say 'Error opening terminal' and exit with 1."""
    status, text = on_terminal(user_runner, "top", TERM=name)
    assert status == 64 and text.lstrip(b"\r").startswith(b"bawn: bawn top cannot draw on the terminal '%s'" % name.encode()) and b"\x1b" not in text, text


@pytest.mark.parametrize("phase, colour, said, status", [
    ("running", GREEN, "", 0), ("starting", YELLOW, " (starting)", 0), ("stopping", YELLOW, " (stopping)", 0), ("stopped", RED, " (stopped)", 3),
    ("failed", RED, " (failed)", 3), ("crashed", RED, " (crashed)", 3)])
def test_the_line(user_runner, phase, colour, said, status):
    """In colours on a terminal, plain in a pipe, with the same exit status; a dumb terminal and NO_COLOR get none."""
    folder = make_box(user_runner, "box", {"phase": "running" if phase == "crashed" else phase})
    plain = f"⬡ Sandbox (native) │ dev │ box{said}\n".encode()
    with held(folder) if phase in ("running", "starting", "stopping") else contextlib.nullcontext():
        r = user_runner.bawn("status", "--line", "box")
        assert (r.rc, r.out, r.err) == (status, plain, b""), r
        r = user_runner.bawn("status", "--line", "--color", "always", "box")
        assert (r.rc, r.out) == (status, colour + plain[:-1] + PLAIN + b"\n"), r
        assert on_terminal(user_runner, "status", "--line", "box") == (status, colour + plain[:-1] + PLAIN + b"\n")
        assert on_terminal(user_runner, "status", "--line", "box", NO_COLOR="1") == (status, plain)
        assert on_terminal(user_runner, "status", "--line", "box", TERM="dumb") == (status, plain)
        assert on_terminal(user_runner, "status", "--line", "--color=never", "box") == (status, plain)


def test_the_line_where_there_is_no_sandbox(user_runner):
    """A prompt stays as it is: nothing is printed, but the status says it."""
    for args in ((), ("nosuch",)):
        r = user_runner.bawn("status", "--line", *args)
        assert (r.rc, r.out, r.err) == (4, b"", b""), r
        assert on_terminal(user_runner, "status", "--line", *args) == (4, b"")
        r = user_runner.bawn("status", "--json", *args)
        assert (r.rc, r.out) == (4, b"null\n"), r
    r = user_runner.bawn("status", "--line", "../x")
    assert r.rc == 64 and r.out == b"", r
    make_box(user_runner, "box", {"phase": "failed", "engine": "\x1b[2J", "profile": "\x1b]0;T\x07"})
    r = user_runner.bawn("status", "--line", "box")
    assert r.rc == 3 and b"\x1b" not in r.out and b"\x07" not in r.out, r
