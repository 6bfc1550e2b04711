# SPDX-License-Identifier: Apache-2.0
"""A host in no rule is asked about: on the terminal of the run, by `bawn policy approve`, or by a hook; never inside, and no answer is a no.

The test is the person in front of the terminal: `Terminal` gives bawn one of its own (pexpect), `Screen` one whose contents can be read back (tmux).
Nothing waits for a fixed time, but for one thing: a person reads a question before answering it (ASKER_DEAF_MS).
"""

import contextlib
import io
import json
import re
import shlex
import subprocess
import time
import uuid

import pexpect
import pytest
from inside import HANG, Inside, until
from lines import json_lines

URL = "http://asked.example.com/"
QUESTION = b"asked.example.com:80"
READ = 0.35  # longer than ASKER_DEAF_MS


@pytest.fixture(autouse=True)
def names(net):
    net.names["asked.example.com"] = ["11.0.0.10"]
    net.names.update({f"h{i}.example.com": ["11.0.0.10"] for i in range(20)})


def fetch(*names, url=URL):
    """A shell command that says NAME=STATUS for each."""
    return "; ".join(f"curl -s --noproxy '*' -o /dev/null -w '{name}=%{{http_code}}\\n' {url}" for name in names)


class Terminal:
    def __init__(self, net, script, options=(), allow=(), env=None):
        command = net.enter(*net.command("sh", "-c", script, options=options, allow=allow))
        self.net = net
        self.child = pexpect.spawn(command[0], [str(word) for word in command[1:]], env={**net.runner.environ(), "TERM": "xterm-256color", **(env or {})},
                                   timeout=HANG, dimensions=(24, 100), encoding=None)
        self.child.logfile_read = io.BytesIO()

    def shown(self):
        """All of it: an answer may come before or after the next question."""
        return self.child.logfile_read.getvalue()

    def see(self, *what):
        self.child.expect_exact(list(what) if len(what) > 1 else what[0])
        return self.child.before

    def question(self, what=QUESTION):
        before = self.see(what)
        self.see(b"d no, as after")
        time.sleep(READ)
        return before

    def key(self, key):
        self.child.send(key)

    def end(self):
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.before

    def close(self):
        self.child.close(force=True)


@pytest.fixture
def terminal(net):
    opened = []

    def open_(*args, **kw):
        opened.append(Terminal(net, *args, **kw))
        return opened[-1]

    yield open_
    for t in opened:
        t.close()


def pending(net):
    return net.bawn("policy", "pending", "--json").json()


def user_rules(net):
    path = net.runner.home / ".config" / "bawn" / "network.json"
    return json.loads(path.read_text())["rules"] if path.exists() else None


# Keys

def test_once(net, terminal):
    """This connection; the next one is asked about again."""
    t = terminal(fetch("first", "second"))
    t.question()
    t.key(b"o")
    assert b"second" not in t.see(b"first=200")
    t.question()
    t.key(b"d")
    t.see(b"second=403")
    t.end()
    assert user_rules(net) is None and len(net.requests()) == 1


def test_session(net, terminal):
    """Until the run ends, this host and port; nothing is written down."""
    t = terminal(fetch("first", "second") + "; " + fetch("third", url=URL[:-1] + ":8080/"))
    t.question()
    t.key(b"s")
    t.see(b"first=200")
    assert QUESTION not in t.see(b"second=200")
    t.question(b"asked.example.com:8080")
    t.key(b"d")
    t.see(b"third=403")
    t.end()
    assert user_rules(net) is None
    t = terminal(fetch("again"))
    t.question()
    t.key(b"d")
    t.see(b"again=403")
    t.end()


def test_always(net, terminal):
    """A rule in the user's file, which says exactly this; the file's other rules stay."""
    net.rules({"id": "mine", "action": "allow", "host": "ok.example.com", "comment": "kept"})
    t = terminal(fetch("first", "second"))
    t.question()
    t.key(b"a")
    t.see(b"first=200")
    assert QUESTION not in t.see(b"second=200")
    t.end()
    new, old = user_rules(net)
    assert (new["action"], new["host"], new["ports"]) == ("allow", "asked.example.com", [80]) and (old["id"], old["comment"]) == ("mine", "kept")
    assert net.sandbox("sh", "-c", fetch("later")).out == b"later=200\n"


def test_no(net, terminal):
    keys = [b"d", b"D", b"n", b"\r", b"\x1b", b"\x03"]
    t = terminal(fetch(*[f"no{i}" for i in range(len(keys))]) + "; echo still here")
    for i, key in enumerate(keys):
        t.question()
        t.key(key)
        t.see(f"no{i}=403".encode())
    assert b"still here" in t.end()
    assert net.hits() == [] and user_rules(net) is None
    assert [e["kind"] for e in net.log() if e["kind"] in ("deny", "once", "session", "always")] == ["deny"] * len(keys)


def test_no_answer_is_no(net, terminal):
    t = terminal(fetch("first"), options=["--ask-timeout", "1s"])
    t.question()
    t.see(b"first=403")
    t.end()
    assert net.hits() == []


def test_what_is_no_answer(net, terminal):
    """Keys that come together were not typed at the question: pasted, or the terminal's own answers to what the command asked it."""
    t = terminal(fetch("first"))
    t.question()
    for keys in (b"oo", b"ao", b"\x1b[200~o\x1b[201~", b"\x1b[M o!", b"\x1b[1;1R", b"\x1b]11;rgb:a/o/s\x07", b"\x1bOA", b"x", b" "):
        t.key(keys)
        time.sleep(0.1)  # read by itself
        assert len(pending(net)) == 1, keys
    t.key(b"d")
    t.see(b"first=403")
    t.end()
    assert net.hits() == []


def test_typed_ahead(net, terminal):
    """What was typed before the question is the command's; what is typed at it is not."""
    t = terminal(f"stty -echo; echo ready; while [ ! -e go ]; do sleep 0.05; done; {fetch('first')}; read line; echo \"got=$line\"")
    t.see(b"ready")
    t.key(b"oa\r")
    time.sleep(READ)
    (net.runner.workspace / "go").touch()
    t.question()
    assert len(pending(net)) == 1 and net.hits() == []
    t.key(b"d")
    t.see(b"first=403")
    t.see(b"got=oa\r\n")
    t.end()


def test_equal_questions_are_one(net, terminal):
    t = terminal("for i in 1 2 3 4 5; do " + fetch("one") + " & done; wait; " + fetch("two"))
    t.question()
    until(lambda: pending(net)[0]["waiting"] == 5)
    assert len(pending(net)) == 1
    t.key(b"o")
    for _ in range(5):
        assert QUESTION not in t.see(b"one=200")
    t.question()  # again for the next
    t.key(b"d")
    t.see(b"two=403")
    t.end()


def test_one_after_the_other(net, terminal):
    t = terminal("for i in 1 2; do " + "curl -s --noproxy '*' -o /dev/null -w h$i'=%{http_code}\\n' http://h$i.example.com/" + " & done; wait")
    t.see(b"d no, as after")
    first = re.search(rb"h(\d)\.example\.com:80", t.child.before).group(1)
    second = {b"1": b"2", b"2": b"1"}[first]
    until(lambda: len(pending(net)) == 2)
    time.sleep(READ)
    t.key(b"o")
    t.question(b"h" + second + b".example.com:80")
    t.key(b"d")
    t.end()
    assert b"h" + first + b"=200" in t.shown() and b"h" + second + b"=403" in t.shown()


def test_a_request_by_its_method_and_path(net, terminal):
    net.rules({"action": "ask", "host": "asked.example.com", "methods": ["POST"]}, {"action": "allow", "host": "asked.example.com"})
    post = fetch("post", url="-d x " + URL + "a/b?c")
    t = terminal(f"{fetch('get')}; {post}; {post}; {fetch('other', url='-d x ' + URL)}")
    t.see(b"get=200")
    t.see(QUESTION)
    assert b"d no" not in t.see(b"POST /a/b")
    t.see(b"d no, as after")
    time.sleep(READ)
    t.key(b"a")
    t.see(b"post=200")
    t.see(b"post=200")
    t.see(b"POST /")
    time.sleep(READ)
    t.key(b"d")
    t.see(b"other=403")
    t.end()
    rule = user_rules(net)[0]
    assert (rule["action"], rule["host"], rule["ports"], rule["methods"], rule["paths"]) == ("allow", "asked.example.com", [80], ["POST"], ["/a/b"])


# The screen

class Screen:
    def __init__(self, net, script):
        self.socket = "bawn-ask-" + uuid.uuid4().hex[:8]
        env = [f"{k}={v}" for k, v in {**net.runner.environ(), "TERM": "screen-256color"}.items()]
        command = shlex.join(["env", "-i", *env, *map(str, net.enter(*net.command("sh", "-c", script)))])
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "20", command + "; echo ended; sleep 1000")

    def tmux(self, *args):
        return subprocess.run(["tmux", "-L", self.socket, *args], check=True, capture_output=True, text=True).stdout

    def see(self, pattern):
        return until(lambda: re.search(pattern, self.show(), re.M) and self.show(), pattern)

    def show(self):
        return self.tmux("capture-pane", "-p")

    def close(self):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True)


@pytest.fixture
def screen(net):
    with contextlib.ExitStack() as stack:
        def open_(script):
            s = Screen(net, script)
            stack.callback(s.close)
            return s
        yield open_


def test_the_main_screen_comes_back(net, screen):
    s = screen(f"echo line one; printf 'a prompt> '; {fetch('first')}; echo; while [ ! -e go ]; do sleep 0.05; done")
    shown = s.see("asked.example.com:80")
    assert "line one" not in shown and "a prompt" not in shown, "it has a screen of its own"
    time.sleep(READ)
    s.tmux("send-keys", "o")
    shown = s.see("first=200")
    lines = shown.splitlines()
    first = lines.index("line one")  # before it is what bawn said
    assert lines[first:first + 2] == ["line one", "a prompt> first=200"] and "o once" not in shown, shown
    (net.runner.workspace / "go").touch()
    s.see("^ended")


def test_a_full_screen_program_is_drawn_again(net, screen):
    net.runner.write("text", "".join(f"line {i}\n" for i in range(1, 15)))
    s = screen(f"(while [ ! -e go ]; do sleep 0.05; done; {fetch('first')} >result) & exec vim -u NONE -n text")
    before = s.see("^line 14")
    assert before.splitlines()[-1].strip()  # vim's last line has the file's name
    (net.runner.workspace / "go").touch()
    shown = s.see(r"^bawn: let it reach asked.example.com:80\? o once")
    assert shown.splitlines()[:14] == before.splitlines()[:14], "it takes the last line only"
    time.sleep(READ)
    s.tmux("send-keys", "o")
    until(lambda: "let it reach" not in s.show())
    until(lambda: (net.runner.workspace / "result").exists() and (net.runner.workspace / "result").read_text() == "first=200\n")
    s.tmux("send-keys", "2G", "x")  # the program has its keys again
    assert "bawn:" not in s.see("^ine 2")
    s.tmux("send-keys", ":q!", "Enter")
    s.see("^ended")


def test_a_small_window(net, screen):
    """The host stays in sight, on its own screen and in the last line."""
    s = screen(f"while [ ! -e go ]; do sleep 0.05; done; {fetch('first')}")
    s.tmux("resize-window", "-x", "40", "-y", "10")
    (net.runner.workspace / "go").touch()
    s.see("asked.example.com:80")
    time.sleep(READ)
    s.tmux("send-keys", "d")
    s.see("first=403")


# Inside

def test_inside_can_neither_answer_nor_draw(net, screen):
    """It writes to its terminal and pushes keys into it: the question stays as it is."""
    script = net.runner.write("noise.py", """
import fcntl, os, termios, time
while not os.path.exists("go"):
    time.sleep(0.01)
while True:
    os.write(1, b"o\\r\\ns\\r\\na\\r\\nNOISE\\033[2J\\033[H\\033[6n\\033[c\\033[?1049l")
    for c in b"o", b"a":
        try:
            fcntl.ioctl(0, termios.TIOCSTI, c)
        except OSError:
            pass
    if os.path.exists("enough"):
        break
    time.sleep(0.01)
""")
    s = screen(f"(/usr/bin/python3 {script.name} &); {fetch('first')}; touch enough; sleep 1; echo; echo over")
    s.see("asked.example.com:80")
    (net.runner.workspace / "go").touch()
    time.sleep(4 * READ)
    assert "asked.example.com:80" in s.show() and "NOISE" not in s.show()
    assert len(pending(net)) == 1 and net.hits() == []
    s.tmux("send-keys", "d")
    until(lambda: (net.runner.workspace / "enough").exists())
    s.see("^ended")
    assert net.hits() == []


def test_inside_has_no_way_to_the_control_socket(net):
    with Inside(net, allow=["ok.example.com"], options=["--ask", "wait"]) as inside:
        assert inside("get('http://ok.example.com/')") == 200
        folder = net.runner.home / ".local" / "state" / "bawn" / "run"
        assert (folder / f"{inside.pid}.sock").exists()
        assert inside(f"os.listdir('{folder}')") in ("FileNotFoundError", "PermissionError")
        assert inside(f"s = socket.socket(socket.AF_UNIX); s.connect('{folder}/{inside.pid}.sock')") in ("FileNotFoundError", "PermissionError")


# Without a terminal

def test_nobody_there(net):
    net.rules({"action": "ask", "host": "h1.example.com"})
    with Inside(net) as inside:
        for host, code in (("asked.example.com", "BAWN_NET_DENIED_HOST"), ("h1.example.com", "BAWN_NET_DENIED_UNANSWERED")):
            assert code in inside(f"s = dial(*PROXY); s.sendall(b'CONNECT {host}:80 HTTP/1.1\\r\\n\\r\\n'); all_of(s).decode()")
        assert inside(f"get('{URL}')") == 403
        assert pending(net) == []
    assert net.hits() == [] and net.queries() == []


@pytest.mark.parametrize("how", ["--once", "--session", "--always"])
def test_approved_from_elsewhere(net, how):
    with Inside(net, options=["--ask", "wait"]) as inside:
        inside.start(f"get('{URL}')")
        (q,) = until(lambda: pending(net))
        assert (q["host"], q["port"], q["waiting"], str(q["sandbox"])) == ("asked.example.com", 80, 1, inside.pid) and net.hits() == []
        assert f"{q['ask']}  asked.example.com:80" in net.bawn("policy", "pending").out.decode()
        assert "bawn policy approve" in inside.err()
        assert net.bawn("policy", "approve", how, q["ask"]).rc == 0
        assert inside.result() == 200 and pending(net) == []
        assert net.bawn("policy", "approve", q["ask"]).rc != 0  # answered
        inside.start(f"get('{URL}')")
        if how == "--once":
            (q,) = until(lambda: pending(net))
            assert net.bawn("policy", "reject", str(q["id"])).rc == 0
            assert inside.result() == 403
        else:
            assert inside.result() == 200
    assert (user_rules(net) is not None) == (how == "--always")


def test_rejected_from_elsewhere(net):
    with Inside(net, options=["--ask", "wait"]) as inside:
        inside.start(f"fetch('{URL}')")
        (q,) = until(lambda: pending(net))
        assert net.bawn("policy", "reject", q["ask"]).rc == 0
        status, headers, _ = inside.result()
        assert status == 403 and headers["bawn-code"] == "BAWN_NET_DENIED_UNANSWERED"
    assert net.hits() == []


@pytest.mark.parametrize("how", ["--once", "--session"])
def test_a_yes_to_the_name_is_none_to_its_address(net, how):
    """A rule asks about the host, another one about private addresses: the user who was asked about the first has not seen where it leads."""
    net.rules({"action": "ask", "host": "asked.example.com"}, {"id": "inner", "action": "ask", "host": "10.0.0.0/8"})
    net.names["asked.example.com"] = ["10.0.0.5"]
    net.save_names()
    with Inside(net, options=["--ask", "wait"]) as inside:
        inside.start(f"get('{URL}')")
        (q,) = until(lambda: pending(net))
        assert net.bawn("policy", "approve", how, q["ask"]).rc == 0
        (q,) = until(lambda: [new for new in pending(net) if new["id"] != q["id"]])
        assert q["rule"] == "inner" and net.hits() == []
        assert net.bawn("policy", "reject", q["ask"]).rc == 0
        assert inside.result() == 403
    assert net.hits() == []


def test_a_client_that_gives_up_takes_its_question_along(net):
    with Inside(net, options=["--ask", "wait"]) as inside:
        inside("s = dial('asked.example.com', 80); s.sendall(b'GET / HTTP/1.1\\r\\nHost: asked.example.com\\r\\n\\r\\n')")
        until(lambda: pending(net))
        inside("s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); s.close()")
        until(lambda: not pending(net))
        assert inside("1") == 1
    assert net.hits() == []


@pytest.mark.parametrize("verb, status", [("allow", 200), ("deny", 403)])
def test_a_rule_answers_what_waits(net, verb, status):
    """Whoever makes a rule for the host need not also answer."""
    with Inside(net, options=["--ask", "wait"]) as inside:
        inside.start(f"get('{URL}')")
        until(lambda: pending(net))
        assert net.bawn("policy", verb, "asked.example.com").rc == 0
        assert inside.result() == status and pending(net) == []


# The hook

HOOK = """#!/bin/sh
cat >>"$HOME/questions"
%s
"""
GOOD = {"echo allow": 2, "echo once": 2, "echo session": 1, "echo always": 1, "printf always": 1, "echo deny": 2}  # how often it is asked
BAD = ["echo yes", "echo", "exit 0", "kill -9 $$", "echo allowed", "yes allow | tr -d '\\n'", "echo allow >&2"]


def hook(net, what, **more):
    path = net.runner.write(net.runner.home / "hook", HOOK % what, 0o755)
    net.runner.write(net.runner.home / ".config" / "bawn" / "config.json", json.dumps({"sandbox": {"askHook": str(path), **more}}))


def questions(net):
    path = net.runner.home / "questions"
    return json_lines(path) if path.exists() else []


def test_the_hook_answers(net):
    with contextlib.ExitStack() as stack:
        for i, (what, times) in enumerate(GOOD.items()):
            hook(net, what)
            if i == 0:
                inside = stack.enter_context(Inside(net))
            status = 403 if "deny" in what else 200
            assert inside(f"[get('http://h{i}.example.com/'), get('http://h{i}.example.com/')]") == [status] * 2, what
            asked = [(q["host"], q["port"], q["waiting"]) for q in questions(net)]
            assert asked == [(f"h{i}.example.com", 80, 1)] * times, what
            (net.runner.home / "questions").unlink()
    assert sorted(rule["host"] for rule in user_rules(net)) == ["h3.example.com", "h4.example.com"]


def test_whatever_else_a_hook_says_is_no(net):
    with contextlib.ExitStack() as stack:
        for i, what in enumerate(BAD):
            hook(net, what)
            if i == 0:
                inside = stack.enter_context(Inside(net))
            assert inside(f"get('http://h{i}.example.com/')") == 403, what
        assert inside.err().count("the answer is no") == len(BAD)
    assert len(questions(net)) == len(BAD) and user_rules(net) is None and net.hits() == []


def test_a_hook_that_hangs(net):
    """No answer in time is a no, and the program is gone then, with what it started."""
    hook(net, "echo $$ >$HOME/pid; sleep 1000 & sleep 1000; echo allow", askTimeout="1s")
    with Inside(net) as inside:
        assert inside(f"get('{URL}')") == 403
        group = int((net.runner.home / "pid").read_text())
        until(lambda: subprocess.run(["pgrep", "-g", str(group)], stdout=subprocess.DEVNULL).returncode == 1)
    assert net.hits() == []


def test_a_hook_that_is_not_there(net):
    hook(net, "echo allow")
    (net.runner.home / "hook").unlink()
    with Inside(net) as inside:
        assert inside(f"get('{URL}')") == 403
        assert "the ask hook" in inside.err()
    assert net.hits() == []


def test_the_hook_is_the_users_alone(net):
    """A project must not name a program that runs outside."""
    path = net.runner.write("evil-hook", "#!/bin/sh\ntouch $HOME/owned; echo allow\n", 0o755)
    net.runner.write(".bawn/config.json", json.dumps({"sandbox": {"askHook": str(path)}}))
    net.outside(net.runner.path, "trust", "--yes")
    net.bawn("run", "--", "curl", "-s", "--noproxy", "*", URL)
    assert not (net.runner.home / "owned").exists() and net.hits() == []


def test_too_many_questions(net):
    """A sandbox cannot wear its human down: ten in a minute, the rest is denied unasked."""
    hook(net, "echo once")
    with Inside(net) as inside:
        assert inside("[get(f'http://h{i}.example.com/') for i in range(14)]") == [200] * 10 + [403] * 4
        assert inside.err().count("more than 10 hosts in a minute") == 1
    assert len(questions(net)) == 10


def test_ask_never(net):
    hook(net, "echo allow")
    with Inside(net, options=["--ask", "never"]) as inside:
        assert inside(f"get('{URL}')") == 403
    assert questions(net) == [] and net.hits() == [] and net.queries() == []
