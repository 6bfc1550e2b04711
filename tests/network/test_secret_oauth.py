# SPDX-License-Identifier: Apache-2.0
"""OAuth end to end: logins outside and from inside, tokens that end, that are renewed once, that are revoked. No token is ever inside."""

import json
import re
import subprocess
import tarfile

import oauth_server
import pytest
import scan
import secret_tools
from inside import until
from oauth_server import API, CLIENT, FIRST, IDP

PORT = 8765
LEFT = "left.tar"
KEEP = f"rc=$?; tar -cf {LEFT} --ignore-failed-read --warning=none --one-file-system $HOME /tmp /var/tmp /run /dev/shm 2>/dev/null; exit $rc"
OPTIONS = ["--host", API, "--env", "API_TOKEN", "--oauth-token-url", f"https://{IDP}/token", "--oauth-device-url", f"https://{IDP}/device",
           "--oauth-authorize-url", f"https://{IDP}/authorize", "--oauth-client-id", CLIENT]
ASK = f'curl -s -o /dev/null -w "%{{http_code}}\\n" -H "Authorization: Bearer $API_TOKEN" https://{API}/'


@pytest.fixture
def login(net, inter_net):
    server = oauth_server.Oauth(inter_net)
    net.names.update(oauth_server.NAMES)
    net.save_names()
    yield Login(net, server)
    server.end()


class Login:
    """The user's store with the secret "idp", the server, and sandboxes that may reach both of its names."""

    def __init__(self, net, server):
        self.net, self.server = net, server
        self.seen = server.seen
        self.env = {"BAWN_PASSPHRASE_FILE": str(net.runner.write(net.runner.home / "passphrase", "correct horse\n", 0o600))}

    def secret(self, *args, **kw):
        return self.net.bawn("secret", *args, env=self.env, **kw)

    def define(self, refresh=None):
        """Without a refresh token: nobody has logged in yet."""
        r = self.secret("set", "idp", *OPTIONS, *(["--oauth-refresh-token"] if refresh else []), input=refresh.encode() if refresh else b"")
        assert r.rc == 0, r

    def command(self, script):
        return self.net.command("sh", "-c", f"( {script}\n); {KEEP}", allow=[API, IDP])

    def start(self, script, **env):
        return self.net.popen(*self.command(script), env={**self.env, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, script, **env):
        r = self.net.outside(*self.command(script), env={**self.env, **env})
        assert r.rc not in (64, 125), r
        self.nowhere(r.out + r.err)
        return r

    def tokens(self):
        """With which the API was asked, in this order."""
        return [s["authorization"].removeprefix("Bearer ") for s in self.seen(host=API)]

    def given(self, grant):
        return [s["given"] for s in self.seen(grant=grant) if s["given"]]

    def nowhere(self, printed):
        """No token was printed, is in a file that a sandbox can write or in one of Bawn's own, but for its store."""
        work = self.net.runner.workspace
        assert len(tarfile.open(work / LEFT).getnames()) > 10
        files = [p for top in (work, self.net.runner.home) for p in top.rglob("*") if p.is_file() and not p.is_symlink()]
        for token in [FIRST, *self.server.given()]:
            secret_tools.nowhere(token, printed, "printed")
            for path in files:
                secret_tools.nowhere(token, path.read_bytes(), path)

    def not_in_memory(self, run):
        """Nor has a process inside one, in its memory, arguments or variables."""
        inside = scan.processes(run)
        assert "python3" in inside.values() and self.server.given(), inside
        for token in self.server.given():
            finds = [find for pid, name in inside.items() for find in scan.process(pid, name, scan.Needles(token))]
            assert not finds, finds


# Logins outside


def test_device_login(login):
    """The user logs in with a code; a program inside uses the API with a token that it never sees."""
    login.define()
    r = login.run(ASK)
    assert r.out == b"502\n" and b"bawn secret login idp" in r.err and not login.seen(host=API), r
    p = login.net.popen(login.net.runner.path, "secret", "login", "idp", env=login.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    code = re.search(rb"open https://id.example.com/activate in a browser and enter the code (\w+)", p.stderr.readline())[1].decode()
    assert login.net.outside("curl", "-sf", f"https://{IDP}/activate?code={code}").rc == 0
    assert b"logged in" in p.stderr.read() and p.wait() == 0
    r = login.run(f"{ASK}; curl -s https://{API}/")  # also without a header; the answer repeats the token
    ((access, _),) = login.given("urn:ietf:params:oauth:grant-type:device_code")
    assert r.out.startswith(b"200\n") and login.tokens() == [access] * 2, r
    assert b'"you sent": "' + b"*" * len(access) in r.out, r
    assert b"credentials: idp 2 times" in r.err, r


def test_token_that_ends_is_renewed_once(login):
    """Twenty requests find that it has ended: one refresh, whose token all of them get."""
    login.define(FIRST)
    login.server.settings(lifetimes=[5, 3600], delay=1)
    r = login.run(f"{ASK}; sleep 6; for i in $(seq 20); do {ASK} & done; wait")
    assert r.out == b"200\n" * 21, r
    (first, refresh), (second, _) = login.given("refresh_token")
    assert login.tokens() == [first] + [second] * 20
    assert [s["form"]["refresh_token"] for s in login.seen(grant="refresh_token")] == [FIRST, refresh], "the new one was kept"


def vaults(*runs):
    """Of these runs, those that are at work."""
    found = [subprocess.run(["pgrep", "-P", str(p.pid), "-f", "bawn-vault --get"], stdout=subprocess.PIPE).stdout.split() for p in runs]
    return [pid for pids in found for pid in pids]


def test_two_sandboxes_renew_once(login):
    """The server ends a login whose refresh token comes twice: nobody may lose that race."""
    login.define(FIRST)
    login.server.settings(hold=True)
    runs = [login.start(ASK) for _ in range(2)]
    until(lambda: len(vaults(*runs)) == 2)  # both want a token, and none is given yet
    login.server.go()
    for p in runs:
        out, err = p.communicate()
        assert out == b"200\n", err
    ((access, refresh),) = login.given("refresh_token")
    assert login.tokens() == [access] * 2
    assert len(login.seen(grant="refresh_token")) == 1
    assert login.run(ASK).out == b"200\n", "and the login goes on"


def test_revoked(login):
    """The program inside is told what it can do nothing about, the user what to do."""
    login.define(FIRST)
    login.server.settings(revoked=True)
    r = login.run(f"curl -s -w '%{{http_code}}\\n' https://{API}/")
    assert r.out.endswith(b"502\n") and b"BAWN_NET_SECRET_UNAVAILABLE" in r.out and b"bawn secret login" in r.out, r
    assert b"the refresh token has expired or was revoked: log in again with 'bawn secret login idp'" in r.err, r
    assert not login.seen(host=API)


# A login from inside

CLIENT_INSIDE = f"""
import base64, hashlib, http.server, json, os, secrets, subprocess, sys, urllib.parse, urllib.request
came = []
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        came.append(dict(urllib.parse.parse_qsl(self.path.partition("?")[2])))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"you may close this page")
    def log_message(self, *_):
        pass
def post(**form):
    return json.load(urllib.request.urlopen("https://{IDP}/token", urllib.parse.urlencode(dict(form, client_id="{CLIENT}")).encode()))
def ask(token):
    return json.load(urllib.request.urlopen(urllib.request.Request("https://{API}/", headers={{"Authorization": "Bearer " + token}})))["ok"]
server = http.server.HTTPServer(("127.0.0.1", {PORT}), Handler)
verifier, state = secrets.token_urlsafe(48), secrets.token_hex(8)
challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
back = "http://localhost:{PORT}/callback"
asked = dict(response_type="code", client_id="{CLIENT}", redirect_uri=back, state=state, code_challenge=challenge, code_challenge_method="S256")
with open("asked.json", "w") as f:
    json.dump(asked, f)
subprocess.run(["xdg-open", "https://{IDP}/authorize?" + urllib.parse.urlencode(asked)], check=True)
server.handle_request()
assert came[0]["state"] == state, came
tokens = post(grant_type="authorization_code", code=came[0]["code"], code_verifier=verifier, redirect_uri=back)
with open(os.path.expanduser("~/tokens.json"), "w") as f:  # as programs do it
    json.dump(tokens, f)
renewed = post(grant_type="refresh_token", refresh_token=tokens["refresh_token"])
print(json.dumps([tokens, renewed, ask(tokens["access_token"]), ask(renewed["access_token"]), came[0]]), flush=True)
sys.stdin.read()  # everything that it has is still there
"""


def browser(login, then=""):
    """The host's: does what its user would, who confirms, and is sent back."""
    opened, shown = login.net.runner.home / "opened", login.net.runner.home / "shown"
    then = then or f'curl -sL "$1" > {shown}.new; mv {shown}.new {shown}'
    script = login.net.runner.write(login.net.runner.home / "browser", f'#!/bin/sh\necho "$*" >> {opened}\n{then}\n', 0o755)
    return opened, shown, {"BAWN_OPEN": str(script)}


def allow_logins(login, answer="once"):
    """Who is asked about it says so, and what was asked is in the file."""
    asked = login.net.runner.home / "asked"
    hook = login.net.runner.write(login.net.runner.home / "hook", f"#!/bin/sh\ncat >> {asked}\necho {answer}\n", 0o755)
    login.net.runner.write(secret_tools.config_folder(login.net.runner) / "config.json", json.dumps({"sandbox": {"askHook": str(hook)}}), 0o600)
    return asked


def log_in_inside(login):
    """What the program inside has got: tokens, those of its refresh, whether the API took them, and what came back from the page."""
    login.define()
    opened, shown, env = browser(login)
    allow_logins(login)
    script = login.net.runner.write("client.py", CLIENT_INSIDE)
    p = login.start(f"/usr/bin/python3 {script}", **env)
    got = p.stdout.readline()
    login.not_in_memory(p.pid)
    out, err = p.communicate()
    assert p.returncode == 0, err
    login.nowhere(got + out + err)
    until(shown.exists)
    assert opened.read_text().startswith(f"https://{IDP}/authorize?") and "<h1>Logged in</h1>" in shown.read_text(), err
    return json.loads(got)


def test_login_from_inside(login):
    """The user says yes, the whole login is outside, and the program inside has placeholders, which work."""
    login.server.settings(lifetimes=[600, 3600])
    tokens, renewed, *asked, _ = log_in_inside(login)
    ((access, refresh, identity),) = login.given("authorization_code")
    assert asked == [True, True] and login.tokens() == [access] * 2
    assert not login.seen(grant="refresh_token"), "a refresh is answered here"
    assert {tokens["access_token"], tokens["refresh_token"], renewed["access_token"], renewed["refresh_token"]}.isdisjoint({access, refresh, identity})
    assert tokens["token_type"] == "Bearer" and 60 < tokens["expires_in"] <= 600
    # They are stored: the next sandbox needs no login.
    r = login.run(ASK)
    assert r.out == b"200\n" and login.tokens()[2:] == [access] and not login.given("refresh_token"), r
    question = json.loads((login.net.runner.home / "asked").read_text())
    assert (question["login"], question["host"], question["method"]) == ("idp", IDP, "login")
    events = [json.loads(line) for line in login.net.bawn("log", "--json").out.splitlines()]
    assert [(e["type"], e.get("what"), e.get("answer")) for e in events if "idp" in (e.get("name"), e.get("secret")) and e["type"] in ("policy", "ask")] == [
        ("policy", "secret set", None), ("ask", None, "once"), ("policy", "secret login", None), ("policy", "secret login done", None)]


def test_signed_tokens_keep_what_they_say(login):
    """A program that reads who it is out of a JWT still can; what proves it is gone."""
    login.server.settings(jwt=True)
    tokens, renewed, *asked, _ = log_in_inside(login)
    ((access, refresh, identity),) = login.given("authorization_code")
    assert asked == [True, True] and login.tokens() == [access] * 2
    for mine, real in ((tokens["access_token"], access), (tokens["id_token"], identity)):
        assert mine.split(".")[:2] == real.split(".")[:2] and mine.split(".")[2] != real.split(".")[2], mine
        assert len(mine.split(".")) == 3


BAD = ["http://id.example.com/authorize", "file:///etc/passwd", "javascript:alert(1)", "https://id.example.com/authorize?\x1b]0;x\x07", "https://",
       "https://id.example.com/authorize?a=\nb", f"https://{IDP}/authorize?" + "x" * 9000, f"https://{IDP}@evil.example.net/authorize", "--help", ""]
ONLY_SHOWN = ["https://evil.example.net/authorize", f"https://{IDP}/authorize/../delete", f"https://{IDP}.evil.example.net/authorize",
              f"https://{IDP}/authorizes?x=1"]


def test_pages_that_are_not_opened(login):
    """Pages that are no login are shown to the user, and what is no page of the web not even that."""
    login.define()
    opened, _, env = browser(login)
    script = "import os, subprocess, sys\nfor url in sys.argv[1:]: print(subprocess.run([os.environ['BROWSER'], url], stderr=subprocess.DEVNULL).returncode)"
    r = login.net.sandbox("/usr/bin/python3", "-c", script, *BAD, *ONLY_SHOWN, allow=[IDP], env={**login.env, **env})
    lines = r.err.decode().splitlines()
    assert [int(x) != 0 for x in r.out.split()] == [True] * len(BAD) + [False] * len(ONLY_SHOWN), r
    assert [line.partition(" (")[0] for line in lines if "asks to open" in line] == [f"bawn: the sandbox asks to open {url}" for url in ONLY_SHOWN], r
    assert [IDP + "/" in line for line in lines if "confirm nothing that you did not begin yourself" in line] == [True] * 2, r
    assert not opened.exists() and b"\x1b" not in r.err
    r = login.net.sandbox("xdg-open", f"https://{IDP}/authorize?x=1", allow=[IDP], env={**login.env, **env}, options=["--no-secrets"])
    assert r.rc != 0 and not opened.exists(), r


# A definition that changes


def test_new_definition_while_a_sandbox_runs(net):
    """It has the old one, which is for another host: the new value does not go there. Nor is anything of that host shown, whose answers could have
    the old value in them, which cannot be had any more. Before the change the same request is served, and on another host it still is."""
    env = {"BAWN_PASSPHRASE_FILE": str(net.runner.write(net.runner.home / "passphrase", "correct horse\n", 0o600))}
    net.names["h1.example.com"] = net.names["ok.example.com"]
    net.save_names()
    for name in ("key", "other"):
        assert net.bawn("secret", "set", name, "--host", "ok.example.com", "--header", f"x-{name}", "--inject", "placeholder", "--env", name.upper(),
                        input=b"value-of-the-old-one", env=env).rc == 0
    assert net.bawn("secret", "set", "third", "--host", "h1.example.com", "--header", "x-third", "--inject", "placeholder", "--env", "THIRD",
                    input=b"value-of-the-old-one", env=env).rc == 0
    script = 'for h in key:$KEY:ok other:$OTHER:ok third:$THIRD:h1; do read word; a=${h#*:}; curl -s -o /dev/null -w "%{http_code}\\n" ' \
             '-H "x-${h%%:*}: ${a%:*}" https://${h##*:}.example.com/; done'
    p = net.popen(*net.command("sh", "-c", f"echo up; {script}", allow=["ok.example.com", "h1.example.com"]), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    r = net.bawn("secret", "set", "key", "--replace", "--host", "other.example.com", "--header", "x-key", input=b"value-of-the-new-one", env=env)
    assert r.rc == 0, r
    out, err = p.communicate(b"go\ngo\ngo\n")
    assert out == b"502\n502\n200\n", err
    assert b"'key' was redefined after this sandbox was started" in err
    (hit,) = net.hits(kind="request")
    assert dict(hit["headers"])["x-third"] == "value-of-the-old-one" and "value-of-the-new-one" not in json.dumps(hit)
