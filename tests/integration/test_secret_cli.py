# SPDX-License-Identifier: Apache-2.0
"""`bawn secret`: definitions and values are kept, listed, tested and removed; no value is ever shown, and nothing is left half done."""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import termios
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import vault_driver  # noqa: E402

FILE = ".config/bawn/secrets.json"
VALUE = "s3cr3t-value-that-nobody-sees"
NEW = "another-value-for-another-host"
AWS = "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
OAUTH = ["--oauth-token-url", "https://id.example/token", "--oauth-client-id", "me"]
SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "spec" / "secrets.schema.json").read_text())


class Secrets:
    def __init__(self, runner):
        self.runner = runner
        self.file = runner.home / FILE
        self.vault = vault_driver.Vault(runner)
        self.env = self.vault.env

    def __call__(self, *args, value=None, env=None, **kw):
        data = value.encode() if isinstance(value, str) else value
        return self.runner.bawn("secret", *args, input=data, env={**self.env, **(env or {})}, **kw)

    def set(self, name, *args, value=VALUE, **kw):
        r = self("set", name, *args, value=value, **kw)
        assert r.rc == 0, r
        return r

    def ls(self):
        r = self("ls", "--json")
        assert r.rc == 0, r
        return {s["name"]: s for s in r.json()["secrets"]}

    def kept(self, name):
        """The hosts of its definition, and the value that bawn-vault has for it; None: there is no definition."""
        got = self.vault.get(name)
        assert (got.status == 0) == bool(got.value), got
        return (self.ls()[name]["hosts"], got.value) if name in self.ls() else None

    def test(self, *args, **kw):
        r = self("test", "--json", *args, **kw)
        assert r.rc == (0 if r.json()["ok"] else 1), r
        return r.json()["secrets"]


@pytest.fixture
def secrets(user_runner):
    s = Secrets(user_runner)
    yield s
    s.vault.run("--lock")  # a user has room for 200 keys


def test_a_value_is_kept_and_never_shown(secrets):
    r = secrets.set("anthropic", "--host", "api.anthropic.com")
    shown = [r, secrets("ls"), secrets("ls", "--json"), secrets("test", "anthropic"), secrets("test", "--json", "anthropic")]
    for r in shown:
        assert r.rc == 0 and VALUE not in r.out.decode() + r.err.decode(), r
    one = secrets.ls()["anthropic"]
    assert (one["hosts"], one["place"], one["in"], one["env"]) == (["api.anthropic.com"], "header", "x-api-key", ["ANTHROPIC_API_KEY"])
    assert one["store"] == "file" and one["last_use"] is None
    for path in secrets.file.parent.rglob("*"):
        assert VALUE.encode() not in path.read_bytes(), path
    assert stat.S_IMODE(secrets.file.stat().st_mode) == 0o600
    assert stat.S_IMODE((secrets.file.parent / "secrets.enc").stat().st_mode) == 0o600


@pytest.mark.parametrize("options, place, where", [
    (["--header", "X-Key"], "header", "X-Key"), (["--header", "Authorization: token {}"], "header", "Authorization: token {}"),
    (["--basic", "me"], "basic", "me"), (["--query", "key"], "query", "key"), (["--sigv4", "eu-central-1/s3"], "sigv4", "eu-central-1/s3"),
    ([], "header", "Authorization: Bearer {}"),
])
def test_every_place(secrets, options, place, where):
    secrets.set("x", "--host", "Host.Example:8443", *options, value=AWS)
    one = secrets.ls()["x"]
    assert (one["place"], one["in"], one["hosts"]) == (place, where, ["host.example:8443"]), one


def test_the_other_stores(secrets):
    secrets.set("maps", "--host", "maps.example", "--store", "env:MAPS_KEY", value=None)
    secrets.set("github", "--host", "api.github.com", "--lifetime", "10m", "--store", "command", "--", "sh", "-c", f"echo {VALUE}", value=None)
    assert secrets.ls()["github"]["command"] == ["sh", "-c", f"echo {VALUE}"]
    assert secrets.test("github")[0]["value"] == {"ok": True}
    assert not secrets.test("maps")[0]["value"]["ok"]
    assert secrets.test("maps", env={"MAPS_KEY": VALUE})[0]["value"]["ok"]


CLASHES = {
    "header": ([["--host", "a.example", "--env", "THE_KEY"], ["--host", "b.example", "--env", "X", "--env", "THE_KEY"]], "THE_KEY", VALUE),
    "known hosts": ([["--host", "api.anthropic.com"], ["--host", "api.anthropic.com"]], "ANTHROPIC_API_KEY", VALUE),
    "sigv4": ([["--host", "a.example", "--sigv4", "eu/s3"], ["--host", "b.example", "--sigv4", "eu/sts"]], "AWS_ACCESS_KEY_ID", AWS),
    "sigv4 and header": ([["--host", "a.example", "--sigv4", "eu/s3"], ["--host", "b.example", "--env", "AWS_SECRET_ACCESS_KEY"]], "AWS_SECRET_ACCESS_KEY", AWS),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_two_secrets_for_one_variable(runner, clash):
    """No run takes one of them by the alphabet: it is refused with both names, until the user chooses."""
    secrets = Secrets(runner)
    (first, second), variable, value = CLASHES[clash]
    secrets.set("beta", *first, value=value)
    r = secrets.set("alpha", *second, value=value)
    assert f"'beta' has the variable {variable} too: a run with both is refused".encode() in r.err, r

    def run(*args):
        return runner.bawn("run", *args, "--", "sh", "-c", f"echo ${variable}", env=secrets.env)

    r = run()
    assert r.rc == 64 and not r.out and f"the secrets 'alpha' and 'beta' both have the variable {variable}: choose".encode() in r.err, r
    one, other = run("--secret", "alpha"), run("--secret", "beta")
    assert one.rc == other.rc == 0 and len({one.out, other.out, b"\n"}) == 3, (one, other)
    assert run("--no-secrets").out == b"\n"
    secrets.set("alpha", *[a for a in second if a not in ("--env", "X", variable)], "--no-env", "--replace", value=value)
    assert "alpha" in secrets.ls()
    assert run().out == other.out


REFUSED = {
    "wildcard": (["x", "--host", "*.example.com"], VALUE, "exact names"),
    "http": (["x", "--host", "http://example.com"], VALUE, "without TLS"),
    "url": (["x", "--host", "https://example.com/"], VALUE, "without https://"),
    "no host": (["x"], VALUE, "needs a host"),
    "no name": (["--host", "a.example"], VALUE, "name the secret"),
    "empty name": (["", "--host", "a.example"], VALUE, "name of a secret"),
    "name with a slash": (["../x", "--host", "a.example"], VALUE, "name of a secret"),
    "store": (["x", "--host", "a.example", "--store", "vault"], VALUE, "--store takes"),
    "command without words": (["x", "--host", "a.example", "--store", "command"], VALUE, "needs a command"),
    "env without name": (["x", "--host", "a.example", "--store", "env:"], VALUE, "name of a variable"),
    "two places": (["x", "--host", "a.example", "--query", "k", "--basic", "u"], VALUE, "exclude each other"),
    "host header": (["x", "--host", "a.example", "--header", "Host"], VALUE, "how HTTP itself works"),
    "line break in the header": (["x", "--host", "a.example", "--header", "X: {}\r\nY: 1"], VALUE, "control characters"),
    "loader's variable": (["x", "--host", "a.example", "--env", "LD_PRELOAD"], VALUE, "another meaning"),
    "lifetime of a file": (["x", "--host", "a.example", "--lifetime", "5m"], VALUE, "lifetime"),
    "empty": (["x", "--host", "a.example"], "", "empty"),
    "short": (["x", "--host", "a.example"], "1234567", "shorter"),
    "long": (["x", "--host", "a.example"], "v" * (1 << 20), "16384 bytes"),
    "NUL": (["x", "--host", "a.example"], VALUE + "\0more", "NUL"),
    "line break": (["x", "--host", "a.example"], VALUE + "\r\nHost: evil", "line break"),
    "sigv4 without key id": (["x", "--host", "a.example", "--sigv4", "eu/s3"], VALUE, "KEY-ID:SECRET-KEY"),
    "oauth by http": (["x", "--host", "a.example", "--oauth-token-url", "http://a.example/", "--oauth-client-id", "c"], VALUE, "https://"),
    "empty refresh token": (["x", "--host", "a.example", *OAUTH, "--oauth-refresh-token"], "", "empty"),
    "refresh token with a line break": (["x", "--host", "a.example", *OAUTH, "--oauth-refresh-token"], VALUE + "\nmore", "line break"),
    "long refresh token": (["x", "--host", "a.example", *OAUTH, "--oauth-refresh-token"], "v" * (1 << 20), "65536 bytes"),
    "tokens that are no JSON": (["x", "--host", "a.example", *OAUTH, "--oauth-refresh-token"], '{"refresh": "' + VALUE, "not JSON"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_nothing_is_stored(secrets, case):
    args, value, why = REFUSED[case]
    r = secrets("set", *args, value=value)
    assert r.rc == 64 and why in r.err.decode(), r
    assert VALUE not in r.err.decode()
    assert not secrets.file.exists() and secrets.ls() == {}


@pytest.mark.parametrize("args", [["x", VALUE, "--host", "a.example"], ["x", "--host", "a.example", VALUE], ["x", "--host", "a.example", "--store", "file", "--", VALUE],
                                  ["x", "--host", "a.example", f"--value={VALUE}"]])
def test_no_value_by_argument(secrets, args):
    r = secrets("set", *args)
    assert r.rc == 64 and VALUE not in r.err.decode(), r
    assert secrets.ls() == {}


def test_a_failed_replacement_leaves_the_old_one(secrets):
    secrets.set("x", "--host", "api.github.com")
    before = secrets.file.read_bytes()
    r = secrets("set", "x", "--host", "a.example", value=VALUE)
    assert r.rc == 64 and "--replace" in r.err.decode() and secrets.file.read_bytes() == before, r
    r = secrets("set", "x", "--host", "a.example", "--replace", value="short")
    assert r.rc == 64 and secrets.file.read_bytes() == before, r
    r = secrets("set", "x", "--host", "a.example", "--replace", value=VALUE, env={"BAWN_PASSPHRASE_FILE": "/nonexistent"})
    assert r.rc != 0 and secrets.file.read_bytes() == before, r
    assert secrets.test("x")[0]["value"]["ok"]
    secrets.set("x", "--host", "a.example", "--replace")
    assert secrets.ls()["x"]["hosts"] == ["a.example"]


def test_a_value_stays_in_no_other_store(secrets):
    secrets.set("x", "--host", "a.example")
    r = secrets("set", "x", "--host", "a.example", "--replace", "--store", "env:X")
    assert r.rc == 64 and "bawn secret rm x" in r.err.decode(), r
    assert secrets.ls()["x"]["store"] == "file"


def test_rm(secrets):
    for name in ("a", "b", "c"):
        secrets.set(name, "--host", "h.example")
    r = secrets("rm", "a", "nope")
    assert r.rc == 64 and set(secrets.ls()) == {"a", "b", "c"}, r
    assert secrets("rm", "a", "b").rc == 0
    assert set(secrets.ls()) == {"c"}
    locked = {"BAWN_PASSPHRASE_FILE": "/nonexistent"}
    r = secrets("rm", "c", env=locked)
    assert r.rc != 0 and set(secrets.ls()) == {"c"}, r
    assert secrets("rm", "--force", "c", env=locked).rc == 0
    assert secrets.ls() == {}


def test_what_test_says(secrets):
    secrets.set("forge", "--host", "git.example:8443", "--host", "api.github.com")
    got = {s["host"]: s for s in secrets.test("forge")}
    assert got["api.github.com"]["allowed"] and got["api.github.com"]["policy"]["rule"] == "git"
    assert not got["git.example"]["allowed"] and got["git.example"]["port"] == 8443
    assert [s["name"] for s in secrets.test("api.github.com")] == ["forge"]
    assert secrets.test("github.com") == [] and secrets.test("api.github.com:8443") == []
    r = secrets("test", "forg")
    assert r.rc == 64 and "did you mean 'forge'" in r.err.decode(), r
    r = secrets("test", "*.github.com")
    assert r.rc == 64 and "exact names" in r.err.decode(), r


def test_the_command_that_set_names_is_the_right_one(secrets):
    r = secrets.set("forge", "--host", "git.example:8443")
    command = re.search(r"yet: bawn (policy allow \S+)$", r.err.decode(), re.M)
    assert command, r
    assert not secrets.test("forge")[0]["allowed"]
    assert secrets.runner.bawn(*command.group(1).split()).rc == 0
    assert secrets.test("forge")[0]["allowed"]
    r = secrets.set("lan", "--host", "192.168.7.7")
    assert "bawn policy allow 192.168.7.7:443 --private" in r.err.decode(), r


def test_asking_and_not_looking_are_not_enough(secrets):
    secrets.set("x", "--host", "a.example")
    rule = {"action": "ask", "host": "a.example"}
    secrets.runner.write(secrets.runner.home / ".config/bawn/network.json", json.dumps({"rules": [rule]}))
    assert not secrets.test("x")[0]["allowed"]
    rule = {"action": "allow", "host": "a.example", "inspect": False}
    secrets.runner.write(secrets.runner.home / ".config/bawn/network.json", json.dumps({"rules": [rule]}))
    r = secrets("test", "x")
    assert r.rc == 1 and "inspect" in r.out.decode(), r
    del rule["inspect"]
    secrets.runner.write(secrets.runner.home / ".config/bawn/network.json", json.dumps({"rules": [rule]}))
    assert secrets.test("x")[0]["allowed"]


def test_a_project_leaves_secrets_out(secrets):
    secrets.set("x", "--host", "api.github.com")
    assert secrets.test("x")[0]["chosen"]
    secrets.runner.write(".bawn/config.json", json.dumps({"sandbox": {"secrets": "none"}}))
    assert not secrets.test("x")[0]["chosen"]


def test_two_for_one_host_are_told(secrets):
    secrets.set("one", "--host", "api.github.com")
    r = secrets.set("two", "--host", "api.github.com")
    assert "'one' is for api.github.com too" in r.err.decode() and "GH_TOKEN" in r.err.decode(), r
    assert {s["name"] for s in secrets.test("api.github.com")} == {"one", "two"}


def test_last_use(secrets):
    secrets.set("x", "--host", "a.example")
    used = secrets.runner.write(secrets.runner.home / ".local/state/bawn/secret-use/x", "")
    os.utime(used, (1700000000, 1700000000))
    assert secrets.ls()["x"]["last_use"] == "2023-11-14T22:13:20Z"
    assert "2023-11-14 22:13" in secrets("ls").out.decode()
    assert secrets("rm", "x").rc == 0
    assert not used.exists()


def test_a_file_that_somebody_else_could_have_written(secrets):
    secrets.set("x", "--host", "a.example")
    secrets.file.chmod(0o666)
    r = secrets("ls")
    assert r.rc != 0 and "only you may write it" in r.err.decode(), r
    secrets.file.rename(secrets.file.parent / "other.json")
    secrets.file.symlink_to("other.json")
    assert secrets("ls").rc != 0
    assert secrets("set", "y", "--host", "a.example", value=VALUE).rc != 0
    assert secrets.file.is_symlink()


def test_a_broken_file_is_named_with_its_place(secrets):
    secrets.runner.write(secrets.file, '{"secrets": {\n  "x": {"hosts": ["*.example"], "store": "file"}}}', 0o600)
    r = secrets("ls")
    assert r.rc == 64 and "secrets.json:2:19: secrets.x.hosts[0]" in r.err.decode(), r


def test_many_at_once(secrets):
    procs = [secrets.runner.popen(secrets.runner.path, "secret", "set", f"n{i}", "--host", "h.example", "--store", f"env:V{i}", env=secrets.env,
                                  stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) for i in range(6)]
    for p in procs:
        _, err = p.communicate()
        assert p.returncode == 0, err
    assert set(secrets.ls()) == {f"n{i}" for i in range(6)}


def on_terminal(secrets, typed, *args):
    """Runs `bawn secret` on a terminal of its own and types once something is asked. Returns exit status and what the terminal showed."""
    master, slave = pty.openpty()
    attrs = termios.tcgetattr(slave)
    assert attrs[3] & termios.ECHO

    def own():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    proc = secrets.runner.popen(secrets.runner.path, "secret", *args, env=secrets.env, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own)
    os.close(slave)
    shown = b""
    while select.select([master], [], [], 0 if proc.poll() is not None else 0.05)[0] or proc.poll() is None:
        try:
            shown += os.read(master, 4096) if select.select([master], [], [], 0)[0] else b""
        except OSError:  # nobody has the other end any more
            break
        if shown and typed and not termios.tcgetattr(master)[3] & termios.ECHO:
            os.write(master, typed)
            typed = b""
    os.close(master)
    return proc.wait(), shown.decode()


def test_the_prompt_shows_nothing(secrets):
    rc, shown = on_terminal(secrets, VALUE.encode() + b"\n", "set", "x", "--host", "api.github.com")
    assert rc == 0 and VALUE not in shown, shown
    assert secrets.test("x")[0]["value"]["ok"]


def test_ctrl_c_at_the_prompt(secrets):
    rc, shown = on_terminal(secrets, b"\x03", "set", "x", "--host", "api.github.com")
    assert rc != 0, shown
    assert not secrets.file.exists()


def test_names_complete(secrets):
    secrets.set("Forge", "--host", "a.example", "--store", "env:A", value=None)
    secrets.set("alpha", "--host", "a.example", "--store", "env:A", value=None)
    script = f'PATH={secrets.runner.path.parent}:$PATH; source <(bawn completion bash); COMP_WORDS=(bawn secret rm ""); COMP_CWORD=3; _bawn; echo "${{COMPREPLY[@]}}"'
    r = secrets.runner.run("bash", "-c", script, env=secrets.env)
    assert r.out.decode().split() == ["Forge", "alpha"], r
    assert "'run --secret') _bawn_words \"$(_bawn_secrets)\"" in secrets.runner.bawn("completion", "bash").out.decode()


def test_the_schema_names_the_keys_that_are_read(secrets):
    keys = set(SCHEMA["$defs"]["secret"]["properties"])
    for key in keys:
        secrets.runner.write(secrets.file, json.dumps({"secrets": {"x": {key: None}}}), 0o600)
        r = secrets("ls")
        assert r.rc == 64 and "unknown key" not in r.err.decode(), r
    secrets.runner.write(secrets.file, json.dumps({"secrets": {"x": {"value": "v"}}}), 0o600)
    assert "unknown key" in secrets("ls").err.decode()
    secrets.file.unlink()
    secrets.set("a", "--host", "a.example", "--basic", "u", "--env", "A", "--inject", "placeholder")
    secrets.set("b", "--host", "b.example", "--lifetime", "5m", "--", "true", value=None)
    secrets.set("c", "--host", "c.example", "--oauth-token-url", "https://i.example/t", "--oauth-client-id", "me", value=None)
    for name, one in json.loads(secrets.file.read_text())["secrets"].items():
        assert set(one) <= keys, name


def test_login_needs_a_place_to_log_in(secrets):
    secrets.set("x", "--host", "api.github.com")
    r = secrets("login", "x")
    assert r.rc == 64 and "nothing to log in to" in r.err.decode(), r


# Killed, and half done


def kill_at(secrets, *strace, value=NEW):
    """Replaces the secret x by one for another host; dies where strace says."""
    r = secrets.runner.run("strace", "-qq", "-o", "/dev/null", *strace, secrets.runner.path, "secret", "set", "x", "--replace", "--host", "new.example",
                           input=value.encode(), env=secrets.env)
    assert r.rc != 0, r
    return r


RENAME = "renameat,renameat2,rename"
KILLS = {  # which rename is not done any more: of bawn-vault, the old definition goes (1), the value comes (2); of bawn, the new definition comes
    "before the old definition goes": (["-f", "-e", f"trace={RENAME}", "-e", f"inject={RENAME}:signal=KILL:when=1"], (["old.example"], VALUE)),
    "before the value is stored": (["-f", "-e", f"trace={RENAME}", "-e", f"inject={RENAME}:signal=KILL:when=2"], None),
    "before the definition is published": (["-e", f"trace={RENAME}", "-e", f"inject={RENAME}:signal=KILL:when=1"], None),
    "the store cannot be written": (["-f", "-e", f"trace={RENAME}", "-e", f"inject={RENAME}:error=ENOSPC:when=2"], (["old.example"], VALUE)),
}


@pytest.mark.parametrize("when", KILLS)
def test_killed_while_it_is_replaced(secrets, when):
    """Neither the old value for the new host nor the new one for the old host, whoever dies when."""
    strace, left = KILLS[when]
    secrets.set("other", "--host", "other.example", value="the value of another one")
    secrets.set("x", "--host", "old.example")
    assert secrets.kept("x") == (["old.example"], VALUE)
    kill_at(secrets, *strace)
    assert secrets.kept("x") == left
    assert secrets.kept("other") == (["other.example"], "the value of another one")
    secrets.set("x", "--host", "new.example", *(["--replace"] if left else []), value=NEW)
    assert secrets.kept("x") == (["new.example"], NEW)


def started(secrets, *args):
    """`bawn secret set`, which waits for the value: bawn-vault has begun to read it."""
    p = secrets.runner.popen(secrets.runner.path, "secret", "set", *args, env=secrets.env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    p.stdin.write(b"half of a val")
    p.stdin.flush()
    unread = bytearray(4)
    while fcntl.ioctl(p.stdin.fileno(), termios.FIONREAD, unread) == 0 and int.from_bytes(unread, sys.byteorder):
        assert p.poll() is None
        time.sleep(0.01)
    return p


@pytest.mark.parametrize("who", ["bawn", "bawn-vault"])
def test_killed_at_the_prompt(secrets, who):
    """Nothing has changed: no definition without value, and none with the value of another one."""
    secrets.set("x", "--host", "old.example")
    for args in (["new", "--host", "new.example"], ["x", "--replace", "--host", "new.example"]):
        p = started(secrets, *args)
        vault = subprocess.run(["pgrep", "-P", str(p.pid)], stdout=subprocess.PIPE).stdout.split()
        os.kill(p.pid if who == "bawn" else int(vault[0]), signal.SIGKILL)
        assert p.wait() != 0
        p.stdin.close()
        vault_driver.wait_until(lambda: vault_driver.ended(int(vault[0])), "bawn-vault outlives bawn")
        assert set(secrets.ls()) == {"x"} and secrets.kept("x") == (["old.example"], VALUE)
    secrets.set("x", "--replace", "--host", "new.example", value=NEW)  # and nobody has a lock
    assert secrets.kept("x") == (["new.example"], NEW)


def test_old_tokens_do_not_serve_a_new_definition(secrets):
    """One of OAuth has no value at first: also not one that another definition of this name has left."""
    secrets.set("x", "--host", "old.example", *OAUTH, "--oauth-refresh-token", value=json.dumps({"access": VALUE, "expires": 4000000000}))
    assert secrets.kept("x") == (["old.example"], VALUE)
    secrets.set("x", "--replace", "--host", "new.example", *OAUTH, value=None)
    assert secrets.kept("x") == (["new.example"], "")
    secrets.set("y", "--host", "old.example")
    assert secrets("rm", "--force", "y", env={"BAWN_PASSPHRASE_FILE": "/nonexistent"}).rc == 0  # its value stays
    secrets.set("y", "--host", "new.example", *OAUTH, value=None)
    assert secrets.kept("y") == (["new.example"], "")


# What can be wrong outside of Bawn


def test_wrong_passphrase_stores_nothing(secrets):
    secrets.set("x", "--host", "a.example")
    store = secrets.file.parent / "secrets.enc"
    before = secrets.file.read_bytes(), store.read_bytes()
    wrong = {"BAWN_PASSPHRASE_FILE": str(secrets.runner.write(secrets.runner.home / "wrong", "battery staple\n", 0o600))}
    for args in (["set", "y", "--host", "a.example"], ["set", "x", "--replace", "--host", "b.example"], ["rm", "x"], ["unlock"]):
        r = secrets(*args, value=NEW, env=wrong)
        assert r.rc == 1 and "wrong passphrase" in r.err.decode() and NEW not in r.err.decode() and "staple" not in r.err.decode(), r
    assert (secrets.file.read_bytes(), store.read_bytes()) == before
    r = secrets("test", "--json", "x", env=wrong)
    assert r.rc == 1 and "wrong passphrase" in r.json()["secrets"][0]["value"]["error"], r


def test_store_that_hangs(secrets):
    """It ends in time, with what it has started, and says whose fault it is."""
    pid = secrets.runner.workspace / "pid"
    secrets.set("x", "--host", "a.example", "--store", "command", "--", "sh", "-c", f"echo $$ > {pid}; echo {VALUE}; exec sleep 1000", value=None)
    (one,) = secrets.test("x", env={"BAWN_VAULT_COMMAND_TIMEOUT_MS": "500"})
    assert not one["value"]["ok"] and "did not end in time" in one["value"]["error"] and VALUE not in str(one), one
    vault_driver.wait_until(lambda: vault_driver.ended(int(pid.read_text())), "the command is still there")


def test_keyring_that_is_not_there(secrets):
    r = secrets("set", "x", "--host", "a.example", "--store", "secret-service", value=VALUE, env={"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"})
    assert r.rc == 1 and VALUE not in r.err.decode() and r.err.startswith(b"bawn: secret 'x': "), r
    assert secrets.ls() == {} and not secrets.file.exists()


@pytest.mark.parametrize("agent", [None, "/nonexistent/agent.sock"])
def test_missing_ssh_agent(secrets, agent):
    """Who insists on it is told; who does not runs without."""
    run = lambda mode: secrets.runner.bawn("run", "--ssh-agent", mode, "--", "sh", "-c", "echo ran [$SSH_AUTH_SOCK]", env={"SSH_AUTH_SOCK": agent})  # noqa: E731
    r = run("on")
    assert r.rc == 125 and b"ran" not in r.out and b"no ssh-agent: " in r.err and b"SSH_AUTH_SOCK" in r.err, r
    r = run("auto")
    assert r.rc == 0 and r.out == b"ran []\n", r


def test_a_command_of_the_folder_that_we_are_in_is_not_run(secrets):
    """Claim: a program of the workspace is never taken for a store's command, whatever PATH says; nor for what that command starts."""
    runner = secrets.runner
    tools = runner.home / "tools"
    runner.write(tools / "op", "#!/bin/sh\nreadkey\n", 0o755)
    runner.write(tools / "readkey", f"#!/bin/sh\necho {VALUE}\n", 0o755)
    for name in ("op", "readkey", "bin/op", "bin/readkey"):
        runner.write(name, f"#!/bin/sh\ntouch {runner.home}/ran\necho {VALUE}\n", 0o755)
    (runner.home / "link").symlink_to(runner.workspace)
    secrets.set("x", "--host", "a.example", "--store", "command", "--", "op", "read", value=None)
    for first in ("", ".", "bin", f"{runner.workspace}/bin", f"{runner.home}/link/bin"):
        one, = secrets.test("x", env={"PATH": f"{first}:{tools}:/usr/bin:/bin"})
        assert one["value"] == {"ok": True} and not (runner.home / "ran").exists(), (first, one)
    one, = secrets.test("x", env={"PATH": f"{runner.workspace}/bin"})
    assert not one["value"]["ok"] and "'op' cannot be executed" in one["value"]["error"] and not (runner.home / "ran").exists(), one
