# SPDX-License-Identifier: Apache-2.0
"""Many tasks at once: `bawn run --each` and `bawn batch`. Each has its own sandbox; ends, of tasks and of the batch, leave nothing behind.

Nothing waits for a fixed time: tasks and the test meet at files in a folder that is mounted into every sandbox ("meet").
"""

import codecs
import fcntl
import json
import os
import pathlib
import pty
import re
import secrets
import signal
import struct
import subprocess
import sys
import termios
import time

import jsonschema
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kept_left import cgroups_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "spec" / "batch.schema.json").read_text())
RESULT = {"$schema": SCHEMA["$schema"], "$ref": "#/$defs/result", "$defs": SCHEMA["$defs"]}
WAIT = 120  # only so that a fault ends the test


def until(condition):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("it never came")


@pytest.fixture
def meet(runner):
    return runner.mkdir(runner.top / "meet", 0o777)


def mounted(meet):
    return ["--mount", f"{meet}:/meet:rw", "--network", "none"]


def result(r, rc=0):
    assert r.rc == rc, r
    jsonschema.validate(r.json(), RESULT)
    return r.json(), {t["name"]: t for t in r.json()["tasks"]}


def tasks(runner, *lines):
    return runner.write("tasks.jsonl", "".join((json.dumps(t) if isinstance(t, dict) else t) + "\n" for t in lines))


def runs(runner):
    folder = runner.home / ".local/state/bawn/runs"
    return {p.name for p in folder.iterdir() if not p.name.startswith(".")} if folder.exists() else set()


def processes(marker):
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid() and marker.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def children(pid):
    try:
        return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def test_each(runner):
    runner.write("file", "old")
    r = runner.bawn("run", "--each", "42,src/b.c", "-j", "2", "--network", "none", "--json", "--memory", "200m", "--",
                    "sh", "-c", "echo out-$1; echo err >&2; echo $1 > file; ls -l /proc/self/fd | grep -c socket; test -t 0 || cat", "{}", "x{}y")
    all_, by = result(r)
    assert set(by) == {"42", "src-b.c"} and (all_["ok"], all_["failed"], all_["skipped"]) == (2, 0, 0)
    one = by["src-b.c"]
    assert re.fullmatch(r"bawn-src-b\.c-\d{8}T\d{6}Z", one["sandbox"]) and one["run"] == one["sandbox"]
    assert one["workspace"] == "overlay" and one["attempts"] == 1 and one["files_changed"] == 1
    assert one["peak_memory"] > 0 or not runner.is_root  # the ordinary user of the tests has no cgroup
    assert pathlib.Path(one["log"]["out"]).read_text() == "out-xsrc/b.cy\n0\n"  # no descriptor of ours is inside
    assert pathlib.Path(one["log"]["err"]).read_text().splitlines().count("err") == 1
    assert (runner.workspace / "file").read_text() == "old"
    assert runs(runner) == {t["run"] for t in by.values()}
    assert json.loads((pathlib.Path(all_["logs"]) / "result.json").read_text()) == all_
    assert os.stat(one["log"]["out"]).st_mode & 0o777 == 0o600
    applied = runner.bawn("apply", "--yes", by["42"]["run"])
    assert applied.rc == 0 and (runner.workspace / "file").read_text() == "x42y\n", applied


def test_lists_from_a_file_and_stdin_and_the_table(user_runner):
    user_runner.write("list", "a\n\nb\r\n")
    r = user_runner.bawn("run", "--each", "@list", "--network", "none", "--log-dir", "logs", "--", "echo", "{}")
    assert r.rc == 0 and b"2 ok, 0 failed, 0 skipped" in r.out and re.search(rb"^a +0 ", r.out, re.M), r
    assert (user_runner.workspace / "logs" / "b.out").read_text() == "b\n"
    assert list((user_runner.home / ".local/state/bawn/batch").iterdir()) == []
    assert runs(user_runner) == set()
    r = user_runner.bawn("run", "--each", "-", "-n", "--", "echo", "{}", input=b"x y\nz\n")
    assert r.rc == 0 and r.out == b"bawn run '--workspace=overlay' -- echo 'x y'\nbawn run '--workspace=overlay' -- echo z\n", r


def test_twenty_really_at_once(runner, meet):
    """Four waves of five would hang if fewer than four ran at once; and never more do."""
    script = (": > /meet/on-{}; set -- /meet/on-*; echo $# >> /meet/peak-{}; : > /meet/in-{}; "
              "want=$(( ({} / 4 + 1) * 4 )); while set -- /meet/in-*; [ $# -lt $want ]; do sleep 0.01; done; rm /meet/on-{}")
    r = runner.bawn("run", "--each", ",".join(map(str, range(20))), "-j", "4", "--json", *mounted(meet), "--", "sh", "-c", script)
    _, by = result(r)
    assert len(by) == 20 and len({t["sandbox"] for t in by.values()}) == 20
    assert max(int(p.read_text()) for p in meet.glob("peak-*")) <= 4
    assert runs(runner) == set()


def git(runner, *args):
    r = runner.run("git", "-c", "user.name=T", "-c", "user.email=t@example.com", *args)
    assert r.rc == 0, r
    return r.out.decode()


def planned_modes(runner, *options):
    r = runner.bawn("run", "--each", "a", "-n", "--json", *options, "--", "echo", "{}")
    assert r.rc == 0, r
    return [w for w in r.json()["tasks"][0]["argv"] if w.startswith("--workspace=")]


def test_modes(runner):
    """A clean repository: branches, made at the same time. Anything not committed: overlay. By name: that."""
    assert planned_modes(runner) == ["--workspace=overlay"]
    git(runner, "init", "-q")
    runner.write("file", "1\n")
    git(runner, "add", "file")
    assert planned_modes(runner) == ["--workspace=overlay"]  # no commit yet
    git(runner, "commit", "-qm", "first")
    runner.write("untracked", "")
    assert planned_modes(runner) == ["--workspace=worktree"]
    assert planned_modes(runner, "--workspace", "direct") == ["--workspace=direct"]
    script = "git config user.name A; git config user.email a@example.com; echo {} > file; git commit -qam from-{}"
    _, by = result(runner.bawn("run", "--each", "a,b,c", "-j", "3", "--network", "none", "--json", "--", "sh", "-c", script))
    for name, t in by.items():
        assert t["workspace"] == "worktree" and git(runner, "log", "-1", "--format=%s", f"bawn/{t['run']}") == f"from-{name}\n"
    runner.write("file", "22\n")
    assert planned_modes(runner) == ["--workspace=overlay"]
    git(runner, "add", "file")
    assert planned_modes(runner) == ["--workspace=overlay"]  # staged is not committed


def test_batch_file(runner, meet):
    other = runner.mkdir(runner.top / "other")
    tasks(runner, "# tasks", "", {"name": "env", "cmd": "echo $A $B", "env": {"A": "a b"}},
          {"name": "list", "cmd": ["printf", "%s|", "", "x y"], "workspace": "ro"},
          {"name": "there", "cmd": ["pwd"], "directory": str(other)},
          {"name": "slow", "cmd": "sleep 1000", "timeout": "100ms"},
          {"name": "missing", "cmd": ["no-such-program"]})
    all_, by = result(runner.bawn("batch", "tasks.jsonl", "--env", "B=2", "--json", *mounted(meet)), rc=1)
    out = {name: pathlib.Path(t["log"]["out"]).read_text() for name, t in by.items()}
    assert out["env"] == "a b 2\n" and out["list"] == "|x y|" and out["there"] == f"{other}\n"
    assert by["slow"]["exit"] == 124 and by["slow"]["limits"] == ["time"] and by["missing"]["exit"] == 127
    assert (all_["ok"], all_["failed"]) == (3, 2) and by["list"]["workspace"] == "ro"


@pytest.mark.parametrize("line, message", [
    ('{"name": "b"}', b"tasks.jsonl:2:"),
    ('{"name": "b", "cmd": "true", "profile": "no-such-profile"}', b"tasks.jsonl:2: "),
    ('{"name": "b", "cmd": "true", "directory": "/no/such/folder"}', b"tasks.jsonl:2: "),
    ('{"name": "b", "cmd": "true", "env": {"1 2": "x"}}', b"tasks.jsonl:2: "),
    ('{"name": "b", "cmd": "true", "time_out": "1s"}', b"did you mean 'timeout'"),
    ('{"name": "' + "x" * 300 + '", "cmd": "true"}', b"is no name"),
], ids=["no command", "profile", "folder", "variable", "key", "name"])
def test_one_wrong_line_and_nothing_starts(user_runner, line, message):
    tasks(user_runner, {"name": "first", "cmd": "true", "workspace": "direct"}, line)
    r = user_runner.bawn("batch", "tasks.jsonl")
    assert r.rc in (64, 125) and message in r.err and b"started" not in r.err and r.out == b"", r
    assert not (user_runner.home / ".local/state/bawn/batch").exists()


@pytest.mark.parametrize("args, message", [
    (["run", "--each", "a,b", "--", "echo"], b"{}"),
    (["run", "--each", "a,,b", "--", "echo", "{}"], b"empty word"),
    (["run", "--each", "a", "--name", "x", "--", "echo", "{}"], b"--name"),
    (["run", "--each", "a", "--no-sandbox", "--yes-unsandboxed", "--", "echo", "{}"], b"--no-sandbox"),
    (["run", "--each", "a", "-j", "0", "--", "echo", "{}"], b"--jobs"),
    (["run", "--each", "a", "--retries", "9", "--", "echo", "{}"], b"--retries"),
    (["run", "-j", "2", "--", "true"], b"--each"),
    (["run", "--result-fd", "1", "--", "true"], b"--result-fd"),
    (["batch"], b"which file"),
    (["batch", "/no/such/file"], b"/no/such/file"),
    (["batch", "a", "b"], b"unexpected"),
])
def test_wrong_calls(user_runner, args, message):
    r = user_runner.bawn(*args)
    assert r.rc == 64 and message in r.err and r.out == b"", r


def test_retries(runner, meet):
    script = "echo {} > changed; echo x >> /meet/{}; [ $(wc -l < /meet/{}) -ge $(( {} )) ]"
    r = runner.bawn("run", "--each", "1,2,5", "--retries", "2", "--json", *mounted(meet), "--", "sh", "-c", script)
    _, by = result(r, rc=1)
    assert [(by[n]["attempts"], by[n]["state"]) for n in ("1", "2", "5")] == [(1, "ok"), (2, "ok"), (3, "failed")]
    again = by["2"]
    assert again["sandbox"].endswith("Z-2") and again["log"]["out"].endswith("/2~2.out") and again["earlier_runs"] == [again["run"][:-2]]
    assert len(by["5"]["earlier_runs"]) == 2
    assert runs(runner) == {n for t in by.values() for n in [t["run"], *t["earlier_runs"]]}  # a failed attempt's changes are not lost


# Ends when it is asked to, and says so.
POLITE = 'trap ": > /meet/ended-{}; exit 3" TERM; : > /meet/up-{}; while :; do sleep 0.05; done'
STUBBORN = 'trap "" TERM INT HUP; : > /meet/up-{}; while :; do sleep 0.05; done'


def test_stop_on_failure(runner, meet):
    script = f'case {{}} in bad) while ! [ -e /meet/up-good ]; do sleep 0.05; done; exit 9;; *) {POLITE};; esac'
    r = runner.bawn("run", "--each", "bad,good,never,neither", "-j", "2", "--stop-on-failure", "--json", *mounted(meet), "--", "sh", "-c", script)
    all_, by = result(r, rc=1)
    assert {n: t["state"] for n, t in by.items()} == {"bad": "failed", "good": "failed", "never": "skipped", "neither": "skipped"}
    assert by["bad"]["exit"] == 9 and by["good"]["exit"] == 3 and (meet / "ended-good").exists()
    assert all_["skipped"] == 2 and runs(runner) == set()


def begin(runner, meet, script, *options, each="a,b,c", up=("a", "b")):
    """A batch of which two tasks are up, with a marker in the arguments of all its processes."""
    marker = "marker-" + secrets.token_hex(8)
    p = runner.popen(runner.path, "run", "--each", each, "-j", "2", "--json", *options, *mounted(meet), "--", "sh", "-c",
                     f": {marker}; {script}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: all((meet / f"up-{n}").exists() for n in up))
    return p, marker, children(p.pid)


def nothing_left(runner, marker, supervisors):
    until(lambda: not processes(marker))
    until(lambda: not cgroups_of(supervisors, set()))
    assert runs(runner) == set()
    assert str(runner.top) not in pathlib.Path("/proc/self/mountinfo").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["INT", "TERM", "HUP"])
def test_interrupted_once(runner, meet, number):
    p, marker, supervisors = begin(runner, meet, POLITE)
    assert len(supervisors) == 2
    os.kill(p.pid, number)
    out, err = p.communicate(timeout=WAIT)
    assert p.returncode == 130, err
    by = {t["name"]: t for t in json.loads(out)["tasks"]}
    assert (by["a"]["exit"], by["b"]["exit"], by["c"]["state"]) == (3, 3, "skipped")
    assert (meet / "ended-a").exists() and (meet / "ended-b").exists() and not (meet / "up-c").exists()
    nothing_left(runner, marker, supervisors)


def test_interrupted_twice(runner, meet):
    """The first is not heard inside; the second kills, and what was changed is kept all the same."""
    p, marker, supervisors = begin(runner, meet, "case {} in a) echo new > made;; esac; " + STUBBORN)
    os.kill(p.pid, signal.SIGINT)
    while b"once more" not in (line := p.stderr.readline()):
        assert line
    os.kill(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=WAIT)
    assert p.returncode == 130, err
    by = {t["name"]: t for t in json.loads(out)["tasks"]}
    assert by["a"]["exit"] == by["b"]["exit"] == 137 and by["a"]["files_changed"] == 1 and by["b"]["run"] is None
    discarded = runner.bawn("discard", "--yes", by["a"]["run"])
    assert discarded.rc == 0, discarded
    nothing_left(runner, marker, supervisors)


def test_interrupted_three_times(user_runner):
    """Supervisors that do not hear any more (stopped, here) are killed, and so are their sandboxes."""
    meet = user_runner.mkdir(user_runner.top / "meet", 0o777)
    p, marker, supervisors = begin(user_runner, meet, POLITE)
    for pid in supervisors:
        os.kill(pid, signal.SIGSTOP)
    for word in (b"once more", b"killing"):
        os.kill(p.pid, signal.SIGINT)
        while word not in (line := p.stderr.readline()):
            assert line
    os.kill(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=WAIT)
    assert p.returncode == 130 and [t.get("signal") for t in json.loads(out)["tasks"]] == [9, 9, None], err
    until(lambda: not processes(marker))


def test_kill_9_of_the_batch(runner, meet):
    p, marker, supervisors = begin(runner, meet, POLITE)
    assert len(processes(marker)) >= 5
    os.kill(p.pid, signal.SIGKILL)
    p.communicate()
    until(lambda: (meet / "ended-a").exists() and (meet / "ended-b").exists())
    until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in supervisors))
    nothing_left(runner, marker, supervisors)
    assert not (meet / "up-c").exists()


def test_prune_takes_what_tasks_printed_but_not_while_they_run(runner, meet):
    """Nor is the report of what takes the space another than du's."""
    folder = runner.home / ".local/state/bawn/batch"
    assert runner.bawn("run", "--each", "x", "--network", "none", "--", "echo", "{}").rc == 0
    [done] = folder.iterdir()
    p, marker, supervisors = begin(runner, meet, POLITE)
    [busy] = set(folder.iterdir()) - {done}
    assert runner.bawn("prune", "--json").json()["removed"] == [], "nothing is old"
    for path in (done, busy):
        os.utime(path, (1, 1))
    for budget in ([], ["--budget", "1k"]):
        r = runner.bawn("prune", "--json", "--dry-run", *budget)
        assert [x["name"] for x in r.json()["removed"] if x["kind"] == "batch"] == [done.name] and done.exists(), r
        assert r.json()["total"] == int(runner.run("du", "-s", "--block-size=1", folder.parent).out.split()[0]), r
    assert runner.bawn("prune").rc == 0 and list(folder.iterdir()) == [busy]
    os.kill(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=WAIT)
    assert p.returncode == 130 and (busy / "result.json").exists(), err
    nothing_left(runner, marker, supervisors)
    os.utime(busy, (1, 1))
    assert runner.bawn("prune").rc == 0 and list(folder.iterdir()) == []


def test_forty_tasks_eight_at_once(runner):
    """Names with what file names have; every output where it belongs, and nothing of it lost or mixed up."""
    items = [f"src/{i}.lock" if i % 4 == 0 else f"a..b{i}." if i % 4 == 1 else f"{i}" for i in range(40)]
    r = runner.bawn("run", "--each", ",".join(items), "-j", "8", "--network", "none", "-w", "overlay", "--json", "--",
                    "sh", "-c", "echo {}; echo {} > made; head -c 100000 /dev/zero | tr '\\0' x; test {} != 7", "{}")
    all_, by = result(r, rc=1)
    assert (all_["ok"], all_["failed"], len(by)) == (39, 1, 40) and by["7"]["exit"] == 1
    assert all(t["files_changed"] == 1 and not re.search(r"\.\.|\.$|\.lock$", t["name"]) for t in by.values())
    printed = {pathlib.Path(t["log"]["out"]).read_text() for t in by.values()}
    assert printed == {f"{i}\n" + "x" * 100000 for i in items}
    assert runner.bawn("apply", "--yes", by["src-0-lock"]["run"]).rc == 0
    assert (runner.workspace / "made").read_text() == "src/0.lock\n"


def test_two_batches_in_one_second(user_runner):
    """Each has a moment of its own, so their sandboxes never have the same name."""
    started = [user_runner.popen(user_runner.path, "run", "--each", "a,b", "--json", "--network", "none", "--", "sh", "-c", "echo {} > f",
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(3)]
    found = [json.loads(p.communicate(timeout=WAIT)[0]) for p in started]
    assert all(f["ok"] == 2 for f in found), found
    assert len({t["run"] for f in found for t in f["tasks"]}) == 6 == len(runs(user_runner))


class Screen:
    """As much of a terminal as the table needs; anything else is a mistake of the table's."""

    def __init__(self, rows, columns):
        self.rows, self.columns, self.lines, self.row, self.column = rows, columns, [""], 0, 0

    def feed(self, text):
        for part in re.findall(r"\x1b\[\d*[A-Za-z]|\x1b.?|\r|\n|[^\x1b\r\n]+", text):
            if part == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif part == "\r":
                self.column = 0
            elif part == "\x1b[J":
                self.lines[self.row:] = [self.lines[self.row][:self.column]]
            elif re.fullmatch(r"\x1b\[\d+A", part):
                up = int(part[2:-1])
                assert up < self.rows and up <= self.row, (part, self.lines)
                self.row -= up
            else:
                assert part.isprintable(), part
                self.lines[self.row] = self.lines[self.row][:self.column] + part
                self.column += len(part)
                assert self.column < self.columns, part


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_table_on_a_terminal(request, root_runner):
    """80x24 with more tasks than lines; output that would reprogram the terminal; a resize; nothing is left on the screen.

    As root: the ordinary user of the tests beside this one shares one limit on processes where there is no cgroup."""
    meet = root_runner.mkdir(root_runner.top / "meet", 0o777)
    script = (r"printf 'first\nevil \033[2J\033]0;title\007\033[31m text %s ' {} ; head -c 300 /dev/zero | tr '\0' x; "
              ": > /meet/up-{}; while ! [ -e /meet/go ]; do sleep 0.05; done; exit $(( {} == 7 ))")
    master, slave = pty.openpty()
    resize(slave, 24, 80)
    p = root_runner.popen(root_runner.path, "run", "--each", ",".join(map(str, range(30))), "-j", "26", *mounted(meet), "--", "sh", "-c", script,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, env={"TERM": "xterm"})
    screen, decoder, cut = Screen(24, 80), codecs.getincrementaldecoder("utf-8")(), [""]
    request.addfinalizer(lambda: p.poll() is None and p.kill())  # its sandboxes end with it

    def look():
        text = cut[0] + decoder.decode(os.read(master, 65536))
        cut[0] = re.search(r"(\x1b(\[\d*)?)?$", text)[0]  # a terminal hands out what fits, also half a sequence
        screen.feed(text[:len(text) - len(cut[0])])
        return screen.lines

    until(lambda: re.fullmatch(r"\(4 more\) 26 running, 4 waiting, 0 ok, 0 failed, \d+:\d\d", ["", *look()][-2]))
    until(lambda: len(re.findall(r"evil  text \d+ x+$", "\n".join(look()), re.M)) == 22)
    assert len(screen.lines) == 24 and all(len(line) < 80 for line in screen.lines)
    screen = Screen(10, 60)  # the terminal starts anew; the table moves up by what its lines take in there
    screen.lines, screen.row = [""] * 30, 29
    resize(slave, 10, 60)
    os.kill(p.pid, signal.SIGWINCH)
    until(lambda: "(18 more) 26 running" in look()[-2])
    (meet / "go").touch()
    os.close(slave)
    out = p.stdout.read()
    with pytest.raises(OSError):  # EIO: nobody has the other side
        while True:
            look()
    os.close(master)
    p.stdout.close()
    assert p.wait() == 1
    left = [line for line in screen.lines if line]
    assert left == [line for line in left if re.match(r"bawn: 7: failed with exit status 1 after ", line)] and len(left) == 1, left
    assert b"29 ok, 1 failed, 0 skipped" in out
