# SPDX-License-Identifier: Apache-2.0
"""Values in the processes of a sandbox and of Bawn: who has one, for how long, and what happens when one of them is killed (ATTACKS 70, 72, 73)."""

import contextlib
import json
import os
import pathlib
import re
import secrets
import signal

import pytest

import scan
import secret_echo
import secret_tools
from inside import Inside, until

REAL = "real-value-" + secrets.token_hex(20)
H1, H2 = "11.0.0.36", "11.0.0.37"
KEY = {"hosts": ["echo.example.com", "echo2.example.com"], "header": "x-api-key", "env": ["API_KEY"], "store": "command"}
HELPERS = ("bawn-gate", "bawn-broker", "bawn-vault")

CLIENT = r"""
import threading
CONTEXT = ssl._create_unverified_context()
def once(path="/", host="echo.example.com"):
    c = http.client.HTTPSConnection(host, context=CONTEXT)
    c.request("GET", path)
    r = c.getresponse()
    return [r.status, r.read().decode("latin-1")]
def code(*args):
    try:
        return once(*args)[0]
    except (OSError, http.client.HTTPException) as e:
        return type(e).__name__
def h2(path="/", host="echo2.example.com"):
    import subprocess
    return subprocess.run(["curl", "-sk", "--noproxy", "*", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "https://" + host + path],
                          stdout=subprocess.PIPE).stdout.decode()
"""


@pytest.fixture(scope="module")
def server(inter_net):
    tls = f"{inter_net.folder}/cert.pem:{inter_net.folder}/key.pem"
    s = secret_echo.Server(inter_net, f"{H1}:443:{tls}", f"{H2}:443:{tls}:h2", name="echo-processes")
    yield s
    s.end()


class Store:
    """A store whose command is started (each time a line in `asked`), and answers when the test lets it."""

    def __init__(self, net):
        self.asked = net.runner.write(net.runner.home / "asked", "")
        self.go = net.runner.home / "go"
        value = net.runner.write(net.runner.home / "value", REAL, 0o600)  # not in argv, where it would be seen in every process list
        script = f"echo $$ >>{self.asked}; while [ ! -e {self.go} ]; do sleep 0.02; done; cat {value}"
        secret_tools.define(net, "key", **KEY, command=["/bin/sh", "-c", script])

    def times(self):
        return len(self.asked.read_text().splitlines())

    def open(self):
        self.go.write_text("")


@pytest.fixture
def echo(net, server):
    server.forget()
    net.names.update({"echo.example.com": [H1], "echo2.example.com": [H2]})
    net.save_names()
    return server


@pytest.fixture
def store(net):
    return Store(net)


@contextlib.contextmanager
def sandbox(net, **kw):
    with Inside(net, allow=["echo.example.com", "echo2.example.com"], **kw) as inside:
        inside(CLIENT)
        yield inside


def helpers(inside):
    """{name: pid} of those that run: a bawn-broker that makes the next certificate authority is none of them."""
    found = {}
    for pid in scan.descendants(int(inside.pid)):
        words = scan.read(f"/proc/{pid}/cmdline").split(b"\0")
        name = os.path.basename(words[0]).decode()
        if name in HELPERS and (name != "bawn-broker" or b"--serve" in words):
            found[name] = pid
    return found


def is_gone(pid):
    stat = scan.read(f"/proc/{pid}/stat")
    return not stat or stat.rpartition(b") ")[2][:1] in (b"Z", b"X")


def kill(inside, name):
    pid = until(lambda: helpers(inside).get(name), name)
    os.kill(pid, signal.SIGKILL)
    until(lambda: is_gone(pid))
    return pid


def everywhere(net, inside, *names):
    """Where the value is: memory of these helpers, of the supervisor and of all processes of the sandbox; files inside."""
    needles = scan.Needles(REAL)
    within = scan.processes(int(inside.pid))
    ours = {pid: name for name, pid in helpers(inside).items() if name in names}
    finds = [find for pid, name in {**within, **ours, int(inside.pid): "bawn"}.items() for find in scan.process(pid, name, needles)]
    return finds + scan.inside(within, needles, net.runner.workspace)


def never_bare(echo):
    """Every request that came has the value: none went out without it instead."""
    return all(REAL in seen["text"] for seen in echo.seen())


# Memory

def test_who_has_the_value(net, echo, store):
    """Claim: only the broker has it. The gate forgets it with the request, also one that was told it again; the supervisor never had it (70, 73)."""
    store.open()
    with sandbox(net) as inside:
        for path in ("/", "/body/raw", "/header/raw", "/body/base64-1", "/chunks/raw", "/trailer/raw", "/records/raw", "/reason/raw"):
            status, text = inside(f"once({path!r})")
            assert status in (200, 401) and REAL not in text
        assert inside("c = http.client.HTTPSConnection('echo.example.com', context=CONTEXT); c.request('GET', '/body/raw'); c.getresponse().read(); 1") == 1
        assert inside("[h2(path) for path in ('/', '/header/raw', '/trailer/raw')]") == ["200 2"] * 3
        assert len(echo.seen()) == 12 and never_bare(echo)
        broker, gate = (helpers(inside)[name] for name in ("bawn-broker", "bawn-gate"))
        assert any("memory" in find for find in scan.process(broker, "bawn-broker", scan.Needles(REAL))), "the scanner does not find what is there"
        assert any("memory" in find for find in scan.process(gate, "bawn-gate", scan.Needles(inside("os.environ['API_KEY']"), "raw")))
        assert everywhere(net, inside, "bawn-gate") == []
        for pid in (broker, gate):  # no core: they cannot be dumped, so the file belongs to root
            assert os.stat(f"/proc/{pid}/mem").st_uid == 0
            assert re.search(r"Max core file size +0 +0 ", pathlib.Path(f"/proc/{pid}/limits").read_text())
        status, said = inside.end()
    log = (net.runner.home / ".local/state/bawn/log/network.jsonl").read_bytes()
    secret_tools.nowhere(REAL, said.encode() + log)
    (net.runner.home / "value").unlink()
    assert scan.tree(net.runner.top, scan.Needles(REAL)) == []


def test_value_of_a_variable_is_not_inside(net, echo):
    """Claim: a value that stands in the user's own environment does not get in with it, under any name (72)."""
    definition = {**KEY, "store": "env", "variable": "REAL_KEY"}
    secret_tools.define(net, "key", **definition)
    with sandbox(net, env={"REAL_KEY": REAL, "API_KEY": REAL}) as inside:
        assert inside("once('/')")[0] == 200 and never_bare(echo) and len(echo.seen()) == 1
        needles = scan.Needles(REAL)
        within = scan.processes(int(inside.pid))
        assert [f for pid, name in within.items() for f in scan.process(pid, name, needles)] + scan.inside(within, needles, net.runner.workspace) == []
        assert scan.process(helpers(inside)["bawn-gate"], "bawn-gate", needles) == []


# One fetch

def test_many_wait_for_one(net, echo, store):
    """Claim: fifty requests that need the same value ask its store once."""
    with sandbox(net) as inside:
        inside("codes = []; threads = [threading.Thread(target=lambda: codes.append(code())) for _ in range(50)]; [t.start() for t in threads]; 1")
        until(lambda: store.times() == 1)
        assert inside("len(codes)") == 0 and echo.seen() == []
        store.open()
        inside("[t.join() for t in threads]; 1")
        assert inside("codes") == [200] * 50
        assert len(echo.seen()) == 50 and never_bare(echo) and store.times() == 1


# Killed

@pytest.mark.parametrize("victim", HELPERS)
def test_killed_while_the_store_hangs(net, echo, store, victim):
    """Claim: whoever of the three dies before there is a value, the request fails, nothing goes out, and the next one works."""
    with sandbox(net) as inside:
        inside.start("code()")
        until(lambda: store.times() == 1)
        command = int(store.asked.read_text())
        kill(inside, victim)
        assert inside.result() != 200 and echo.seen() == []
        if victim == "bawn-vault":
            until(lambda: is_gone(command))  # the command does not outlive its vault
        store.open()
        until(lambda: inside("code()") == 200)
        assert len(echo.seen()) == 1 and never_bare(echo)
        assert everywhere(net, inside, "bawn-gate") == []


@pytest.mark.parametrize("victim", ["bawn-gate", "bawn-broker"])
def test_killed_within_an_answer(net, echo, store, victim):
    """Claim: in the middle of an answer that tells the value, none of it gets in; without the gate it ends, without the broker it is covered to its end."""
    store.open()
    with sandbox(net) as inside:
        inside.start("""
def slow():
    c = http.client.HTTPSConnection("echo.example.com", context=CONTEXT)
    c.request("GET", "/hold/raw")
    try:
        return c.getresponse().read().decode("latin-1")
    except (OSError, http.client.HTTPException) as e:
        return type(e).__name__
slow()""")
        until(lambda: echo.seen())
        kill(inside, victim)
        echo.go_on()
        got = inside.result()
        cut = ("IncompleteRead", "ConnectionResetError", "RemoteDisconnected", "SSLEOFError")
        assert got == "*" * len(REAL) if victim == "bawn-broker" else got in cut, got
        until(lambda: inside("code()") == 200)
        assert never_bare(echo)
        assert everywhere(net, inside, "bawn-gate") == []


@pytest.mark.parametrize("when", ["waiting", "answering", "idle"])
def test_killed_supervisor(net, echo, store, when):
    """Claim: a supervisor that is killed takes everything with it: no process, no command of a store, and the next run finds no folder and no socket."""
    run = net.runner.mkdir(net.runner.home / "run", 0o700)
    with sandbox(net, env={"XDG_RUNTIME_DIR": str(run)}) as inside:
        if when != "waiting":
            store.open()
            assert inside("code()") == 200
        inside.start({"waiting": "code()", "answering": "code('/hold/raw')", "idle": "1"}[when])
        until(lambda: store.times() == 1)
        until(lambda: when != "answering" or len(echo.seen()) == 2)
        everybody = scan.descendants(int(inside.pid))
        assert {"bawn-gate", "bawn-broker", "bawn-init"} <= set(everybody.values())
        os.kill(int(inside.pid), signal.SIGKILL)
        for pid in {*everybody, *map(int, store.asked.read_text().split())}:
            until(lambda: is_gone(pid) or scan.read(f"/proc/{pid}/comm") == b"", everybody.get(pid, "the command of the store"))
    echo.go_on()
    store.open()
    with sandbox(net, env={"XDG_RUNTIME_DIR": str(run)}) as inside:
        assert inside("code()") == 200
        left = sorted(f.name.split("-")[0] for f in (run / "bawn").iterdir())
        assert left.count("in") == 1, left
        inside.end()
    assert [f for f in (run / "bawn").iterdir() if f.name not in ("live", "roots")] == [] and never_bare(echo)
    log = json.dumps(net.log()).encode()
    secret_tools.nowhere(REAL, log)
