# SPDX-License-Identifier: Apache-2.0
"""Attacks on logins from inside (OAuth): no code, verifier or token of a login is ever inside, no sandbox changes what the user has stored, and nothing
of the page that the user's browser opens, nor a port of the host, is the sandbox's choice.

The controls: the same requests outside bring what they ask for, and a login that the user confirms works (test_secret_oauth.py)."""

import json
import time
import urllib.parse

import pytest
from inside import until
from oauth_server import API, CLIENT, FIRST, FOREIGN, IDP, RAW, SHAPES
from test_ask import READ, Terminal
from test_secret_oauth import ASK, PORT, allow_logins, browser, log_in_inside, login  # noqa: F401

FLOW = dict(response_type="code", client_id=CLIENT, redirect_uri=f"http://localhost:{PORT}/callback", state="the-state", code_challenge="x" * 43,
            code_challenge_method="S256")


def page(**change):
    return f"https://{IDP}/authorize?" + urllib.parse.urlencode({k: v for k, v in {**FLOW, **change}.items() if v is not None}, doseq=True)


# 13: nothing of a login is inside


def test_code_stays_outside(login):
    """Claim: the program inside gets an answer to its login, but not the code that the service gave: with it and a verifier of its own it had the tokens."""
    *_, came = log_in_inside(login)
    (real,) = [s["code"] for s in login.seen() if s.get("code")]
    assert came["code"] and came["code"] != real and real not in json.dumps(came), came
    assert [s["form"]["code"] for s in login.seen(grant="authorization_code")] == [real], "and it was redeemed once, outside"


def test_own_pkce(login):
    """Claim: challenge, state and redirect of the page that opens are ours: those of the sandbox are nowhere in it."""
    log_in_inside(login)
    (opened,) = (login.net.runner.home / "opened").read_text().splitlines()
    mine = json.loads((login.net.runner.workspace / "asked.json").read_text())
    sent = urllib.parse.parse_qs(opened.partition("?")[2])
    for key in ("state", "code_challenge", "redirect_uri"):
        assert sent[key] != [mine[key]], key
    assert sent["client_id"] == [CLIENT] and sent["code_challenge_method"] == ["S256"] and sent["response_type"] == ["code"]


@pytest.mark.parametrize("host", [IDP, API])
def test_tokens_in_any_answer(login, host):
    """Claim: on the hosts of a login, tokens come inside in no answer: whatever path, method, status and form. On the API's own hosts: members of JSON."""
    login.define(FIRST)
    names = sorted(SHAPES) if host == IDP else ["json", "spaces", "refresh", "identity", "device", "nested", "error", "untyped"]
    get = "; ".join(f"curl -s -i {how} 'https://{host}/raw?as={name}'; echo" for name in names for how in ("", "-d a=b"))
    control = login.net.outside("sh", "-c", get)
    assert control.out.count(RAW.encode()) == 2 * len(names), control
    r = login.run(get)
    assert r.out.count(b"Server: BaseHTTP") == 2 * len(names) and RAW.encode() not in r.out, r
    assert b"raw-token" not in r.out.replace(b"*", b""), r


WAYS = {
    "plain": "-d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' https://{h}/token",
    "encoded": "-d 'grant_type=refresh%5Ftoken&refresh_token={t}&client_id={c}' https://{h}/token",
    "get": "-G -d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' https://{h}/token",
    "put": "-X PUT -d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' https://{h}/token",
    "slash": "-d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' https://{h}/token/",
    "slashes": "--path-as-is -d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' https://{h}//token",
    "percent": "--path-as-is -d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' https://{h}/%74oken",
    "query": "-d 'grant_type=refresh_token&refresh_token={t}&client_id={c}' 'https://{h}/token?x=1'",
    "device": "-d 'client_id={c}' https://{h}/device",
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_token_endpoint_by_other_ways(login, way):
    """Claim: no way of spelling a request to the token or device endpoint gives the inside a token of the service."""
    login.define(FIRST)
    command = "curl -s " + WAYS[way].format(t=FOREIGN, c=CLIENT, h=IDP)
    r = login.run(command)
    given = login.server.given()
    codes = [s["device"] for s in login.seen() if s.get("device")]
    assert not any(token.encode() in r.out for token in given + codes), r
    control = login.net.outside("sh", "-c", command)
    if not given and not codes:  # else the server has used it up
        assert any(token.encode() in control.out for token in login.server.given() + [s["device"] for s in login.seen() if s.get("device")]), control


# 14: what the user has stored


@pytest.mark.parametrize("way", ["plain", "encoded", "get", "slash"])
def test_sandbox_does_not_replace_the_login(login, way):
    """Claim: tokens that a sandbox asks the service for are never stored: the next request goes with the user's own."""
    login.define(FIRST)
    login.run("curl -s " + WAYS[way].format(t=FOREIGN, c=CLIENT, h=IDP))
    before = len(login.seen(grant="refresh_token"))
    r = login.run(ASK)
    assert [s["form"]["refresh_token"] for s in login.seen(grant="refresh_token")[before:]] == [FIRST], r
    assert r.out == b"200\n", r


# 15: what opens, and where it comes back

OTHERS = {
    "client": page(client_id="evil"),
    "two clients": page() + "&client_id=evil",
    "encoded client": page() + "&client%5Fid=evil",
    "token": page(response_type="token"),
    "no type": page(response_type=None),
    "two types": page(response_type=["code", "token"]),
    "elsewhere": page(redirect_uri="https://evil.example.net/"),
    "two redirects": page() + "&redirect_uri=https://evil.example.net/",
    "no redirect": page(redirect_uri=None),
    "request": page(request="eyJhbGciOiJub25lIn0.e30."),
    "request uri": page(request_uri="https://evil.example.net/"),
    "mode": page(response_mode="fragment"),
}


LISTEN = f"""/usr/bin/python3 -c "import socket; s = socket.create_server(('127.0.0.1', {PORT})); print(s.accept()[0].recv(4096).decode())" &
while ! grep -q :{PORT:04X} /proc/net/tcp; do sleep 0.05; done; """  # the program inside that waits for the end of its login
DENIED = b"GET /callback?error=access_denied&state=the-state HTTP/1.1"


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_page_is_not_the_sandboxs_choice(login, name):
    """Claim: of what the sandbox wrote into the address, nothing reaches the browser, and what is not the definition's login is not opened at all."""
    login.define()
    opened, _, env = browser(login)
    allow_logins(login)
    ends = "redirect" not in name and "two" not in name and "encoded" not in name and name != "elsewhere"  # where it waits is said once
    r = login.run(f"{LISTEN} xdg-open '{OTHERS[name]}'; wait" if ends else f"xdg-open '{OTHERS[name]}'; sleep 0.5", **env)
    assert (DENIED in r.out) == ends, r
    text = opened.read_text() if opened.exists() else ""
    assert "evil" not in text and "response_type=token" not in text and "request" not in text and "fragment" not in text, text
    assert not text and b"evil" not in r.err, r


def test_port_is_not_the_sandboxs_choice(login):
    """Claim: no port of the host that the sandbox names is listened on: a local program that looks for its database there finds no sandbox."""
    login.define()
    opened, _, env = browser(login, then="sleep 2")
    allow_logins(login)
    p = login.start(f"xdg-open '{page(redirect_uri='http://localhost:5432/callback')}'; read x", **env)
    until(lambda: opened.exists() or p.poll() is not None)
    listening = login.net.outside("cat", "/proc/net/tcp").out
    p.communicate(b"\n")
    assert b":1538 00000000:0000 0A" not in listening, listening  # 5432


@pytest.mark.parametrize("answer", ["deny", None])
def test_login_needs_a_yes(login, answer):
    """Claim: no page opens without the user's yes, nor where there is no terminal and no hook."""
    login.define()
    opened, _, env = browser(login)
    if answer:
        allow_logins(login, answer)

    r = login.run(f"{LISTEN} xdg-open '{page()}'; wait", **env)
    assert DENIED in r.out and not opened.exists() and not login.seen(), r
    assert b"idp" in r.err, r


def test_refused_in_the_browser(login):
    """The program inside gets the error; nothing is stored, and the audit log says how it went."""
    login.define()
    login.server.settings(refuse=True)
    _, _, env = browser(login)
    allow_logins(login)
    r = login.run(f"{LISTEN} xdg-open '{page()}'; wait", **env)
    assert DENIED in r.out and b"code" not in r.out, r
    assert not login.seen(grant="authorization_code")
    events = [json.loads(line) for line in login.net.bawn("log", "--json").out.splitlines()]
    assert [e["what"] for e in events if e.get("name") == "idp"] == ["secret set", "secret login", "secret login failed"]


def listeners(net):
    return [line.split()[1] for line in net.outside("cat", "/proc/net/tcp").out.decode().splitlines() if " 0A " in line]


def test_killed_in_the_middle(login):
    """Claim: the port of a login is closed as soon as the run that asked for it is gone, also by SIGKILL."""
    login.define()
    opened, _, env = browser(login, then="sleep 0")
    allow_logins(login)
    before = listeners(login.net)
    p = login.start(f"xdg-open '{page()}'; read x", **env)
    until(lambda: opened.exists() and opened.read_text())
    port = int(urllib.parse.parse_qs(opened.read_text().partition("?")[2])["redirect_uri"][0].rpartition(":")[2].partition("/")[0])
    mine = f"0100007F:{port:04X}"
    assert mine in listeners(login.net) and mine not in before  # loopback only
    guess = login.net.outside("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://localhost:{port}/callback?code=x&state=guess")
    assert guess.out == b"404" and mine in listeners(login.net), guess
    p.kill()
    p.communicate()
    until(lambda: mine not in listeners(login.net))


def test_asked_on_the_terminal(login):
    """The question names secret and host, says where the tokens go, and opens nothing before the key."""
    login.define()
    opened, _, env = browser(login, then="sleep 0")
    t = Terminal(login.net, f"xdg-open '{page()}'; sleep 1; xdg-open '{page(state='again')}'; read x", allow=[API, IDP], env={**login.env, **env})
    t.see(b"wants you to log in to idp")
    t.see(f"{IDP}:443".encode())
    t.see(b"d no, as after")
    time.sleep(READ)
    assert not opened.exists()
    t.key(b"d")
    t.see(b"the login to idp that the sandbox asked for was refused")
    t.see(b"d no, as after")
    time.sleep(READ)
    assert not opened.exists()
    t.key(b"o")
    t.see(b"is opened in your browser")
    until(opened.exists)
    t.close()
