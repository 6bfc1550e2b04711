# SPDX-License-Identifier: Apache-2.0
"""bawn-vault with real stores: the encrypted file, a real keyring, variables, commands, a token server. Nothing shows a value."""

import base64
import contextlib
import errno
import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pexpect
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import vault_driver as driver  # noqa: E402
from vault_driver import HEAD, VALUE, Vault  # noqa: E402


@pytest.fixture
def vault(runner):
    v = Vault(runner)
    v.define(one={"store": "file"}, two={"store": "file"})
    yield v
    v.run("--lock")


def refused(r, text, rc=1):
    assert r.rc == rc, r
    assert text in r.err.decode(), r
    assert VALUE.encode() not in r.err + r.out
    assert r.err.startswith(b"bawn: ") and r.err.count(b"\n") == 1, r


def left_overs(vault):
    return sorted(p.name for p in vault.dir.iterdir() if p.name not in ("secrets.json", "secrets.enc", "secrets.lock"))


# The file store


def test_file_store(vault):
    assert vault.put("one").rc == 0
    assert vault.put("two", "another-value-987\n").rc == 0
    got = vault.get("one")
    assert (got.rc, got.status, got.value, got.expires) == (0, 0, VALUE, 0), got
    assert vault.get("two").value == "another-value-987"
    mode = vault.file.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o600 and mode.st_uid == vault.runner.user.pw_uid
    assert VALUE.encode() not in vault.file.read_bytes()
    assert vault.run("--check", "one").json() == {"ok": True}
    assert vault.run("--rm", "one").rc == 0
    assert vault.run("--rm", "one").rc == 0
    got = vault.get("one")
    assert (got.rc, got.status, got.value) == (1, -errno.ENOKEY, ""), got
    assert b"bawn secret set one" in got.err
    assert vault.get("two").value == "another-value-987"
    assert left_overs(vault) == []


def test_replaced(vault):
    assert vault.put("one", "the-first-value").rc == 0
    assert vault.put("one").rc == 0
    assert vault.get("one").value == VALUE


@pytest.mark.parametrize("value, why", [
    (b"", "empty"), (b"\n", "empty"), (b"x" * (1 << 20), "more than"), (b"x" * (16 * 1024 + 1), "16384"),
    (b"abc\0defghijk", "NUL"), (b"abcdefgh\nsecond line\n", "line break"), (b"abcdefgh\r\n", "line break"), (b"abcdefgh\n\n", "line break"),
    (b"abcd\x1b[31mefgh", "control")], ids=["empty", "newline", "1MB", "16K+1", "nul", "two-lines", "cr", "two-newlines", "escape"])
def test_bad_value_changes_nothing(vault, value, why):
    assert vault.put("one").rc == 0
    before = vault.file.read_bytes()
    r = vault.put("one", value)
    refused(r, why, rc=64)
    assert b"second" not in r.err and b"xxx" not in r.err and b"abcd" not in r.err
    assert vault.file.read_bytes() == before and left_overs(vault) == []


def test_bad_value_makes_no_store(vault):
    refused(vault.put("one", ""), "empty", rc=64)
    assert not vault.file.exists()


def test_longest_value(vault):
    assert vault.put("one", "y" * 16 * 1024).rc == 0
    assert vault.get("one").value == "y" * 16 * 1024


def test_wrong_passphrase(vault):
    assert vault.put("one").rc == 0
    before = vault.file.read_bytes()
    wrong = {"BAWN_PASSPHRASE_FILE": str(vault.secret_file("wrong", "open sesamE\n"))}
    got = vault.get("one", env=wrong)
    assert (got.status, got.value) == (-errno.ENOKEY, "") and b"wrong passphrase" in got.err, got
    refused(vault.put("two", env=wrong), "wrong passphrase")
    refused(vault.run("--rm", "one", env=wrong), "wrong passphrase")
    refused(vault.run("--unlock", env=wrong), "wrong passphrase")
    check = vault.run("--check", "one", env=wrong)
    assert (check.rc, check.err) == (1, b"") and check.json()["ok"] is False and "wrong passphrase" in check.json()["error"]
    assert vault.file.read_bytes() == before


@pytest.mark.parametrize("passphrase, mode, why", [("", 0o600, "empty"), ("x" * 2000, 0o600, "more than"), ("good enough", 0o644, "chmod 600"),
                                                   (None, 0, "No such file")], ids=["empty", "long", "readable", "missing"])
def test_passphrase_file(vault, passphrase, mode, why):
    path = vault.secret_file("pp", passphrase, mode) if passphrase is not None else vault.runner.home / "nowhere"
    r = vault.put("one", env={"BAWN_PASSPHRASE_FILE": str(path)})
    assert r.rc in (1, 64) and why in r.err.decode(), r
    assert not vault.file.exists()
    refused(vault.put("one", env={"BAWN_PASSPHRASE_FILE": "relative"}), "absolute", rc=64)


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "cut":
        data = data[:-1]
    elif how == "empty head":
        data = data[:40]
    elif how == "junk":
        data[:] = os.urandom(200)
    else:
        data[{"head": 20, "body": 80, "tag": -1}[how]] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["cut", "empty head", "junk", "head", "body", "tag"])
def test_damaged(vault, how):
    assert vault.put("one").rc == 0
    damage(vault.file, how)
    before = vault.file.read_bytes()
    got = vault.get("one")
    assert got.status == -errno.ENOKEY and (b"damaged" in got.err or b"wrong passphrase" in got.err), got
    assert vault.put("two").rc == 1
    assert vault.file.read_bytes() == before, "a store that cannot be read is not overwritten"


def test_file_must_be_private(vault):
    assert vault.put("one").rc == 0
    vault.file.chmod(0o640)
    assert b"chmod 600" in vault.get("one").err


def test_definitions_that_somebody_else_could_have_written(vault):
    """They say which command is run and which host gets a value."""
    assert vault.put("one").rc == 0
    defs = vault.dir / "secrets.json"
    defs.chmod(0o664)
    got = vault.get("one")
    assert (got.rc, got.status, got.value) == (1, -errno.ENOKEY, "") and b"only you may write it" in got.err, got
    defs.chmod(0o644)
    assert vault.get("one").value == VALUE
    defs.rename(vault.dir / "other.json")
    defs.symlink_to("other.json")
    got = vault.get("one")
    assert (got.rc, got.status, got.value) == (1, -errno.ENOKEY, "") and b"symbolic links" in got.err, got


def test_only_for_the_purpose_that_was_asked(vault):
    """A sandbox that was started with another definition gets nothing, and what it has got is not kept."""
    vault.define(o={"store": "file", "oauth": {"token_url": "https://id.example.com/token", "client_id": "x"}})
    assert vault.put("one").rc == 0
    got = vault.get("one", "--of", "0" * 64)
    assert (got.rc, got.status, got.value) == (1, -errno.ENOKEY, "") and b"redefined" in got.err, got
    proc, ours, url = vault.authorize("o", "--of", "0" * 64)
    assert b"redefined" in proc.communicate()[1] and proc.returncode == 1 and not url
    ours.close()
    assert vault.get("o").status == -errno.ENOKEY


def test_many_writers(vault):
    names = [f"n{i}" for i in range(6)]
    vault.define(**{n: {"store": "file"} for n in names})
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(vault.put(n, f"the value of {n}"))) for n in names]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [r.rc for r in results] == [0] * len(names), results
    assert [vault.get(n).value for n in names] == [f"the value of {n}" for n in names]


def test_killed_before_the_rename(vault):
    """The old store stays, and the next writer sweeps up."""
    assert vault.put("one").rc == 0
    before = vault.file.read_bytes()
    r = vault.runner.run("strace", "-qq", "-o", "/dev/null", "-e", "trace=renameat,renameat2,rename", "-e",
                         "inject=renameat,renameat2,rename:signal=KILL", vault.program, "--put", "two", input=b"another-value-987",
                         env=vault.env)
    assert r.rc == -signal.SIGKILL, r
    assert vault.file.read_bytes() == before
    assert len(left_overs(vault)) == 1, "killed after the file was written"
    assert vault.get("one").value == VALUE
    assert vault.put("two", "another-value-987").rc == 0
    assert vault.get("two").value == "another-value-987"
    assert left_overs(vault) == []


def test_nothing_written_where_nothing_can_be(vault):
    """A full disk: the old store stays."""
    assert vault.put("one").rc == 0
    before = vault.file.read_bytes()
    r = vault.runner.run("bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "bash", vault.program, "--put", "two",
                         input=b"another-value-987", env=vault.env)
    assert r.rc == 1 and b"too large" in r.err, r
    assert vault.file.read_bytes() == before and left_overs(vault) == []


def test_unlock_and_lock(vault):
    locked = {"BAWN_PASSPHRASE_FILE": None}
    assert vault.put("one").rc == 0
    got = vault.get("one", env=locked)
    assert got.status == -errno.ENOKEY and b"bawn secret unlock" in got.err, got
    r = vault.run("--unlock")
    if b"keyring cannot be used" in r.err:
        pytest.skip("needs a kernel with keyrings")
    assert r.rc == 0, r
    assert vault.get("one", env=locked).value == VALUE
    assert vault.put("two", "another-value-987", env=locked).rc == 0
    keys = pathlib.Path("/proc/keys").read_text() if vault.runner.is_root else ""
    mine = [line for line in keys.splitlines() if "bawn:" + vault.file.read_bytes()[16:32].hex() in line and "-file:" not in line]  # -file: of the passphrase file, which has its own, shorter time
    assert not vault.runner.is_root or re.search(r" 3f0b0000 ", mine[0]) and re.search(r" [78]h ", mine[0]), "only the user, for 8 hours"
    assert vault.run("--lock", env=locked).rc == 0
    assert vault.get("one", env=locked).status == -errno.ENOKEY
    assert vault.run("--lock", env=locked).rc == 0


# The terminal


class Terminal:
    """The program at a terminal of its own; everything that the terminal showed is in .log."""

    def __init__(self, vault, *cmd, env=None):
        user = vault.runner.user
        be = [] if os.getuid() == user.pw_uid else ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        cmd = [*be, *map(str, cmd)]
        environ = vault.runner.environ({**vault.env, "BAWN_PASSPHRASE_FILE": None, **(env or {})})
        self.p = pexpect.spawn(cmd[0], cmd[1:], env=environ, cwd=str(vault.runner.workspace), timeout=300)
        self.p.delaybeforesend = None
        self.log = b""

    def expect(self, text):
        self.p.expect_exact(text)
        self.log += self.p.before + self.p.after

    def answer(self, question, text):
        self.expect(question)
        self.p.sendline(text)

    def end(self):
        self.p.expect(pexpect.EOF)
        self.log += self.p.before
        self.p.close()
        return self.p.exitstatus if self.p.signalstatus is None else -self.p.signalstatus


def test_prompt(vault):
    t = Terminal(vault, vault.program, "--put", "one")
    t.answer("Value of one: ", VALUE)
    t.answer("New passphrase for Bawn's file store: ", "typed passphrase")
    t.answer("The same again: ", "typed passphrase")
    assert t.end() == 0, t.log
    assert VALUE.encode() not in t.log and b"typed" not in t.log
    vault.env["BAWN_PASSPHRASE_FILE"] = str(vault.secret_file("typed", "typed passphrase"))
    assert vault.get("one").value == VALUE
    assert vault.run("--lock").rc == 0
    t = Terminal(vault, vault.program, "--unlock")
    t.answer("Passphrase of Bawn's file store: ", "typed wrongly")
    assert t.end() == 1 and b"wrong passphrase" in t.log and b"typed" not in t.log


def test_prompt_passphrases_differ(vault):
    t = Terminal(vault, vault.program, "--put", "one")
    t.answer("Value of one: ", VALUE)
    t.answer("New passphrase", "first passphrase")
    t.answer("again: ", "other passphrase")
    assert t.end() == 1 and b"not the same" in t.log
    assert not vault.file.exists()


@pytest.mark.parametrize("value, why", [("", b"empty"), ("x" * 5000, b"pipe")], ids=["empty", "long"])
def test_prompt_bad_value(vault, value, why):
    t = Terminal(vault, vault.program, "--put", "one")
    t.answer("Value of one: ", value)
    assert t.end() == 64 and why in t.log and b"xxx" not in t.log
    assert not vault.file.exists()


@pytest.mark.parametrize("key, number", [("\x03", signal.SIGINT), ("\x1c", signal.SIGQUIT)])
def test_prompt_interrupted(vault, key, number):
    """Also if whoever started it ignores the signal, as bawn does while it waits."""
    t = Terminal(vault, "bash", "-c", f'trap "" INT QUIT; "$1" --put one; echo "ended $?"; stty -a', "bash", vault.program)
    t.expect("Value of one: ")
    t.p.send("half-typed" + key)
    t.expect(f"ended {128 + number}")
    assert t.end() == 0
    assert re.search(rb"[ ;]echo ", t.log.split(b"ended")[1]), "the terminal shows again what is typed"
    assert b"half-typed" not in t.log and not vault.file.exists()


def test_prompt_stopped(vault):
    t = Terminal(vault, "bash", "-mc", '"$1" --put one; echo "stopped $?"; stty -a; fg >/dev/null; echo "ended $?"', "bash", vault.program,
                 env={"BAWN_PASSPHRASE_FILE": vault.env["BAWN_PASSPHRASE_FILE"]})
    t.expect("Value of one: ")
    t.p.send("\x1a")
    t.expect(f"stopped {128 + signal.SIGTSTP}")
    t.answer("Value of one: ", VALUE)
    t.expect("ended 0")
    t.end()
    assert re.search(rb"[ ;]echo ", t.log.split(b"stopped")[1])
    assert VALUE.encode() not in t.log
    assert vault.get("one").value == VALUE


def test_get_never_asks(vault):
    """An agent's screen is on the terminal."""
    assert vault.put("one").rc == 0
    t = Terminal(vault, vault.program, "--check", "one")
    assert t.end() == 1 and b"locked" in t.log and b"Passphrase of" not in t.log


# Variables and commands


def test_env(vault):
    vault.define(e={"store": "env", "variable": "THE_KEY"})
    assert vault.get("e", env={"THE_KEY": VALUE}).value == VALUE
    got = vault.get("e")
    assert got.status == -errno.ENOKEY and b"THE_KEY is not set" in got.err
    got = vault.get("e", env={"THE_KEY": "x" * 100000})
    assert got.status == -errno.E2BIG and b"xxx" not in got.err
    got = vault.get("e", env={"THE_KEY": "secret\nX-Other: 1"})
    assert got.status == -errno.ENOKEY and b"secret\n" not in got.err and b"X-Other" not in got.err
    refused(vault.put("e"), "THE_KEY", rc=64)
    assert vault.run("--rm", "e").rc == 0


def test_why_there_is_no_value_is_said_before_the_answer(vault):
    """With the answer the request ends, and perhaps the run: what is said later is lost."""
    vault.define(e={"store": "env", "variable": "THE_KEY"})
    proc, ours = vault.with_socket(["--get", "e"], None, also="2<&3")
    first, second = ours.recv(1 << 17), ours.recv(1 << 17)
    assert proc.wait() == 1, (first, second)
    assert b"THE_KEY is not set" in first
    assert HEAD.unpack(second)[0] == -errno.ENOKEY


def command(vault, script, **more):
    vault.define(c={"store": "command", "command": ["sh", "-c", script], **more})


def test_command(vault):
    command(vault, f"printf '%s\\n' {VALUE}; yes | head -n 1 >/dev/null; test ! -t 0 && test -z \"$(ls /proc/self/fd | grep -v '^[0-3]$')\"", lifetime="10m")
    got = vault.get("c")
    assert got.value == VALUE and abs(got.expires - time.time() - 600) < 60, got
    command(vault, f"echo {VALUE}")
    assert vault.get("c").expires == 0
    refused(vault.put("c"), "command", rc=64)


@pytest.mark.parametrize("script, status, why", [
    (f"echo {VALUE} >&2; echo {VALUE}; exit 3", errno.ENOKEY, b"failed with status 3"), ("kill -9 $$", errno.ENOKEY, b"signal 9"),
    ("true", errno.ENOKEY, b"empty"), (f"echo {VALUE}; echo {VALUE}", errno.ENOKEY, b"line break"),
    ("head -c 1000000 /dev/zero | tr '\\0' x", errno.E2BIG, b"more than")], ids=["fails", "killed", "silent", "two-lines", "1MB"])
def test_command_fails(vault, script, status, why):
    command(vault, script)
    got = vault.get("c")
    assert (got.rc == 0, got.status, got.value) == (False, -status, ""), got
    assert why in got.err and VALUE.encode() not in got.err and b"xxx" not in got.err


def test_command_missing(vault):
    vault.define(c={"store": "command", "command": ["no-such-program-here", VALUE]})
    got = vault.get("c")
    assert got.status == -errno.ENOKEY and b"no-such-program-here" in got.err and VALUE.encode() not in got.err


def test_command_hangs(vault):
    pids = vault.runner.workspace / "pids"
    command(vault, f"echo $$ >{pids}; sleep 1000 & echo $! >>{pids}; echo {VALUE}; sleep 1001")
    got = vault.get("c", env={"BAWN_VAULT_COMMAND_TIMEOUT_MS": "1500"})
    assert got.status == -errno.ETIMEDOUT and got.value == "" and b"did not end in time" in got.err, got
    both = pids.read_text().split()
    assert len(both) == 2
    for pid in both:
        driver.wait_until(lambda: driver.ended(pid), "the command's child is still there")


def test_command_leaves_a_child(vault):
    """It holds the pipe: it is not waited for, and does not stay."""
    pids = vault.runner.workspace / "pids"
    command(vault, f"sleep 1000 & echo $! >{pids}; echo {VALUE}")
    got = vault.get("c")
    assert got.value == VALUE, got
    pid = pids.read_text().strip()
    driver.wait_until(lambda: driver.ended(pid), "the command's child is still there")


def test_memory_is_closed(vault, runner):
    """Another process of the same user cannot read it while it works, and it leaves no core."""
    ready = runner.workspace / "ready"
    command(vault, f"echo $PPID >{ready}; exec sleep 1000 # {VALUE}")
    started = vault.start_get("c")
    driver.wait_until(lambda: ready.exists() and ready.read_text().strip(), "the command was not started")
    pid = int(ready.read_text())
    assert pathlib.Path(f"/proc/{pid}/mem").stat().st_uid == 0
    assert re.search(r"Max core file size +0 +0", pathlib.Path(f"/proc/{pid}/limits").read_text()) if os.getuid() == 0 else True
    if not runner.is_root:
        assert runner.run("cat", f"/proc/{pid}/environ").rc != 0
    os.kill(pid, signal.SIGKILL)
    started[0].communicate()
    started[1].close()


def test_unknown_names(vault):
    refused(vault.run("--put", "nobody", input=VALUE), "there is no secret 'nobody'", rc=64)
    refused(vault.run("--check", "../x"), "name", rc=64)
    refused(vault.run("--frob"), "bawn secret", rc=64)
    refused(vault.run("--get"), "bawn secret", rc=64)
    got = vault.get("nobody")
    assert (got.rc, got.status) == (64, -errno.ENOKEY)


def test_unknown_store(vault):
    vault.define(x={"store": "cloud"})
    r = vault.put("x")
    assert r.rc == 64 and b"secrets.json:1:" in r.err, r


# The Secret Service


@pytest.fixture
def bus(runner):
    with driver.session_bus(runner) as env:
        yield env


def lock_keyring(runner, bus):
    r = runner.run("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", "/org/freedesktop/secrets",
                   "org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/aliases/default", env=bus)
    assert r.rc == 0, r


def test_secret_service(vault, runner, bus):
    vault.define(s={"store": "secret-service"}, t={"store": "secret-service"})
    assert vault.get("s", env=bus).status == -errno.ENOKEY
    assert vault.put("s", "the-first-value", env=bus).rc == 0
    assert vault.put("s", env=bus).rc == 0
    assert vault.put("t", "another-value-987", env=bus).rc == 0
    assert vault.get("s", env=bus).value == VALUE
    found = runner.run("secret-tool", "lookup", "application", "bawn", "name", "s", env=bus)
    assert found.out.decode().strip() == VALUE, found
    assert vault.run("--rm", "s", env=bus).rc == 0
    assert vault.run("--rm", "s", env=bus).rc == 0
    assert vault.get("s", env=bus).status == -errno.ENOKEY
    assert vault.get("t", env=bus).value == "another-value-987"
    lock_keyring(runner, bus)
    got = vault.get("t", env=bus)
    assert got.status == -errno.ENOKEY and b"locked" in got.err, got
    refused(vault.put("t", env=bus), "locked")


def test_key_in_the_secret_service(vault, runner, bus):
    env = {**bus, "BAWN_PASSPHRASE_FILE": None}
    assert vault.put("one", env=env).rc == 0, "nobody was asked"
    assert vault.file.read_bytes()[8] == 2
    assert vault.get("one", env=env).value == VALUE
    assert vault.put("two", "another-value-987", env=env).rc == 0
    assert vault.run("--unlock", env=env).rc == 0
    got = vault.get("one", env={"BAWN_PASSPHRASE_FILE": None})
    assert got.status == -errno.ENOKEY and b"session bus" in got.err, "without the bus"
    lock_keyring(runner, bus)
    got = vault.get("one", env=env)
    assert got.status == -errno.ENOKEY and b"locked" in got.err, got


def test_no_keyring_then_a_passphrase(vault, runner):
    """A bus without a keyring: the store gets a passphrase."""
    with driver.session_bus(runner, unlocked=False) as env:
        t = Terminal(vault, vault.program, "--put", "one", env={**env, "XDG_DATA_DIRS": "/nonexistent"})
        t.answer("Value of one: ", VALUE)
        t.answer("New passphrase", "typed passphrase")
        t.answer("again: ", "typed passphrase")
        assert t.end() == 0, t.log
    assert vault.file.read_bytes()[8] == 1


def test_no_bus(vault):
    vault.define(s={"store": "secret-service"})
    refused(vault.put("s", env={"XDG_RUNTIME_DIR": "/nonexistent"}), "session bus")


def test_bus_hangs(vault, tmp_path):
    """It accepts and says nothing."""
    path = vault.runner.mkdir(vault.runner.top / "bus", 0o755) / "socket"
    vault.define(s={"store": "secret-service"})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        got = vault.get("s", env={"DBUS_SESSION_BUS_ADDRESS": f"unix:path={path}"})
    assert got.status == -errno.ETIMEDOUT and b"did not answer" in got.err, got


# OAuth


@pytest.fixture
def server():
    with driver.token_server() as s:
        yield s


def no_token(err):
    assert b"refresh-token" not in err and b"access-token" not in err and b"device-code" not in err, err


def test_refresh(vault, server):
    vault.define(o=server.oauth(scope="read"))
    assert vault.put("o", "refresh-token-0").rc == 0
    assert vault.run("--check", "o").json() == {"ok": True}
    assert server.forms == [], "a check asks nobody"
    got = vault.get("o")
    assert got.value == "access-token-1" and abs(got.expires - time.time() - 3600) < 60, got
    assert server.forms == [{"grant_type": "refresh_token", "refresh_token": "refresh-token-0", "client_id": "bawn-test"}]
    assert vault.get("o").value == "access-token-1" and len(server.forms) == 1
    assert vault.get("o", "--fresh").value == "access-token-2" and len(server.forms) == 2
    assert server.forms[1]["refresh_token"] == "refresh-token-1", "the new one was kept"


def test_short_lived(vault, server):
    """What ends within the margin is not handed out again."""
    server.lifetime = 30
    vault.define(o=server.oauth())
    assert vault.put("o", "refresh-token-0").rc == 0
    assert [vault.get("o").value for _ in range(2)] == ["access-token-1", "access-token-2"]


@pytest.mark.parametrize("args", [[], ["--fresh"]], ids=["ended", "refused"])
def test_one_refresh_for_all(vault, server, args):
    vault.define(o=server.oauth())
    state = {"refresh": "refresh-token-0", "access": "access-token-0", "expires": int(time.time()) + (3600 if args else -1)}
    assert vault.put("o", json.dumps(state)).rc == 0
    assert vault.run("--unlock").rc in (0, 1)
    server.delay = 3  # long enough for all to have read the old token
    started = [vault.start_get("o", *args) for _ in range(8)]
    values = [vault.finish(s) for s in started]
    assert {g.value for g in values} == {"access-token-1"}, values
    assert len(server.forms) == 1


@pytest.mark.parametrize("store", ["file", "secret-service"])
def test_revoked(vault, server, runner, store):
    with driver.session_bus(runner) if store == "secret-service" else contextlib.nullcontext({}) as env:
        vault.define(o={**server.oauth(), "store": store})
        assert vault.put("o", "refresh-token-9", env=env).rc == 0
        got = vault.get("o", env=env)
        assert (got.rc, got.status) == (1, -errno.EKEYEXPIRED), got
        assert b"log in again with 'bawn secret login o'" in got.err
        no_token(got.err)


def test_no_refresh_token(vault, server):
    vault.define(o=server.oauth())
    assert vault.put("o", json.dumps({"access": "access-token-7", "expires": int(time.time()) + 3600})).rc == 0
    assert vault.get("o").value == "access-token-7"
    assert vault.get("o", "--fresh").status == -errno.EKEYEXPIRED
    assert server.forms == []


def test_client_secret(vault, server):
    vault.define(o=server.oauth())
    assert vault.put("o", json.dumps({"refresh": "refresh-token-0", "client_secret": "client:secret"})).rc == 0
    assert vault.get("o").value == "access-token-1"
    assert server.logins[0] == "Basic YmF3bi10ZXN0OmNsaWVudCUzQXNlY3JldA==" and "client_id" not in server.forms[0]


@pytest.mark.parametrize("say, why", [
    ((302, b""), b"redirect"), ((500, b"access-token oops"), b"status 500"), ((200, b"no json"), b"no access token"),
    ((200, b"x" * 300000), b"more than"), ((401, {"error": "invalid_client"}), b"invalid_client"),
    ((200, {"access_token": "access-token\r\nX: y"}), b"line break")], ids=["redirect", "500", "junk", "huge", "client", "crlf"])
def test_bad_servers(vault, server, say, why):
    vault.define(o=server.oauth())
    assert vault.put("o", "refresh-token-0").rc == 0
    server.say = [say]
    got = vault.get("o")
    assert got.status == -errno.ENOKEY and got.value == "" and why in got.err, got
    no_token(got.err)
    assert len(server.forms) == 1
    assert vault.get("o").value == "access-token-1", "the refresh token is still there"


def test_server_is_gone(vault):
    with driver.token_server() as server:
        vault.define(o=server.oauth())
    assert vault.put("o", "refresh-token-0").rc == 0
    got = vault.get("o")
    assert got.status == -errno.ENOKEY and b"127.0.0.1" in got.err, got


def test_only_https(vault):
    vault.define(o={"store": "file", "oauth": {"token_url": "http://id.example.com/token", "client_id": "x"}})
    r = vault.put("o", "refresh-token-0")
    got = vault.get("o") if r.rc == 0 else None
    assert b"https" in (got.err if got else r.err)


def test_https(vault, runner):
    context, cert = driver.server_context(runner.top)
    with driver.token_server(context) as server:
        vault.define(o=server.oauth())
        assert vault.put("o", "refresh-token-0").rc == 0
        got = vault.get("o")
        assert got.status == -errno.ENOKEY and server.forms == [], "nobody vouches for this certificate"
        assert vault.get("o", env={"SSL_CERT_FILE": str(cert)}).value == "access-token-1"


def browse(url, **change):
    """What the user's browser does at the end of a login; the page that it gets."""
    q = {k: v[0] for k, v in urllib.parse.parse_qs(url.partition("?")[2]).items()}
    back = {"code": "code-1", "state": q["state"], **change}
    with urllib.request.urlopen(q["redirect_uri"] + "?" + urllib.parse.urlencode({k: v for k, v in back.items() if v})) as r:
        return q, r.read()


def test_browser(vault, server):
    """State, verifier and port are the vault's own, new for each login; the verifier is that of the challenge; the tokens are stored."""
    vault.define(o=server.oauth(authorize_url="https://id.example.com/a?x=1", scope="read", redirect_uri="http://127.0.0.1/back"))
    seen = []
    for n in range(2):
        proc, ours, url = vault.authorize("o")
        assert url.startswith("https://id.example.com/a?x=1&response_type=code&client_id=bawn-test&redirect_uri=http%3A%2F%2F127.0.0.1%3A"), url
        for change in ({"state": "guess"}, {"state": None}, {"code": None}, {"error": "both"}):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                browse(url, **change)
        q, page = browse(url)
        out, err = proc.communicate()
        assert proc.returncode == 0 and b"Logged in" in page, err
        form = server.forms[-1]
        assert (form["grant_type"], form["code"], form["redirect_uri"]) == ("authorization_code", "code-1", q["redirect_uri"])
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
        assert (q["code_challenge"], q["code_challenge_method"], q["scope"]) == (digest, "S256", "read")
        seen += [q["state"], form["code_verifier"]]
        no_token(err + page)
        ours.close()
    assert len(set(seen)) == 4 and all(len(s) == 43 for s in seen)
    assert vault.get("o").value == server.access


@pytest.mark.parametrize("how", ["refused", "server"])
def test_browser_that_does_not_end_well(vault, server, how):
    """What was stored before stays."""
    vault.define(o=server.oauth(authorize_url="https://id.example.com/a"))
    assert vault.put("o", json.dumps({"access": "access-token-9", "refresh": "refresh-token-9"})).rc == 0
    server.say = [(400, {"error": "invalid_grant"})] if how == "server" else []
    proc, ours, url = vault.authorize("o")
    _, page = browse(url, **({"error": "access_denied", "code": None} if how == "refused" else {}))
    err = proc.communicate()[1]
    assert proc.returncode == 1 and b"Not logged in" in page and b"secret 'o'" in err, err
    assert vault.get("o").value == "access-token-9"
    ours.close()


def test_browser_of_another_user(vault, server):
    """Claim: another user of the machine, who saw the address among the arguments of the browser, cannot finish the login with a code of their own.
    Control: the same request by the user's own program. Root, whose browser has another id, takes it from anyone."""
    vault.define(o=server.oauth(authorize_url="https://id.example.com/a"))
    proc, ours, url = vault.authorize("o")
    q = {k: v[0] for k, v in urllib.parse.parse_qs(url.partition("?")[2]).items()}
    back = f"{q['redirect_uri']}?code=foreign-code&state={q['state']}"
    if os.getuid() == 0 and not vault.runner.is_root:
        r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-s", back], stdout=subprocess.PIPE)
        assert r.returncode != 0 and not r.stdout and not server.forms and proc.poll() is None, r
    r = vault.runner.run("curl", "-s", back.replace("foreign", "own"))
    assert b"Logged in" in r.out and proc.wait() == 0 and server.forms[-1]["code"] == "own-code", r
    proc.communicate()
    ours.close()


def test_browser_port(vault, server):
    """A service that knows one port: no other one is tried, and two logins at once do not take each other's answer."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        vault.define(o=server.oauth(authorize_url="https://id.example.com/a", redirect_uri=f"http://localhost:{port}/back"))
        proc, ours, url = vault.authorize("o")
        assert not url and f"port {port} of this machine is in use".encode() in proc.communicate()[1]
    ours.close()
    proc, ours, url = vault.authorize("o")
    assert f"localhost%3A{port}%2Fback" in url
    proc.kill()
    proc.communicate()
    ours.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port))


def test_login_without_device_url(vault, server):
    """`bawn secret login`: the address is shown."""
    define = server.oauth(authorize_url="https://id.example.com/a")
    define["oauth"].pop("device_url", None)
    vault.define(o=define)
    proc = vault.runner.popen(vault.program, "--login", "o", env=vault.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    line = proc.stderr.readline().decode()
    url = re.search(r"open (https://id.example.com/a\S+) in a browser on this machine", line)[1]
    browse(url)
    assert b"logged in" in proc.communicate()[1] and proc.returncode == 0
    assert vault.get("o").value == server.access


PENDING, SLOW = (400, {"error": "authorization_pending"}), (400, {"error": "slow_down"})
DEVICE = (200, {"device_code": "device-code-1", "user_code": "WDJB-MJHT", "verification_uri": "https://id.example.com/go", "interval": 1})


def test_device_flow(vault, server):
    vault.define(o=server.oauth(scope="read write"))
    server.say = [DEVICE, PENDING, SLOW]
    r = vault.run("--login", "o")
    assert r.rc == 0, r
    assert b"https://id.example.com/go" in r.err and b"WDJB-MJHT" in r.err
    no_token(r.err)
    assert server.forms[0] == {"client_id": "bawn-test", "scope": "read write"}
    assert [f["device_code"] for f in server.forms[1:]] == ["device-code-1"] * 3
    assert vault.get("o").value == "access-token-1" and len(server.forms) == 4


@pytest.mark.parametrize("say, why", [
    ([DEVICE, (400, {"error": "access_denied"})], b"refused in the browser"), ([DEVICE, (400, {"error": "expired_token"})], b"took too long"),
    ([(200, {**DEVICE[1], "expires_in": 1}), PENDING], b"took too long"), ([(400, {"error": "unauthorized_client"})], b"refuses"),
    ([(200, {"device_code": "device-code-1"})], b"no address")], ids=["denied", "expired", "late", "unauthorized", "strange"])
def test_device_flow_fails(vault, server, say, why):
    vault.define(o=server.oauth())
    server.say = list(say)
    r = vault.run("--login", "o")
    assert r.rc == 1 and why in r.err, r
    no_token(r.err)
    assert not vault.file.exists()


def test_device_flow_cannot_paint_the_terminal(vault, server):
    vault.define(o=server.oauth())
    server.say = [(200, {**DEVICE[1], "user_code": "\x1b]0;x\x07\x1b[2J"}), (400, {"error": "access_denied"})]
    r = vault.run("--login", "o")
    assert b"\x1b" not in r.err, r


def test_login_needs_a_place(vault):
    refused(vault.run("--login", "one"), "nowhere to log in", rc=64)
