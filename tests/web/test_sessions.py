# SPDX-License-Identifier: Apache-2.0
"""Sessions of the dashboard, over plain HTTP: what a browser, another site, another port or another program can do with what it has."""

import base64
import json
import os
import re
import signal
import socket
import time


def asked(site, session, method, path, body=None, origin=True, **headers):
    cookie, csrf = session
    if cookie:
        headers["Cookie"] = f"bawn_session={cookie}"
    if csrf:
        headers["Bawn_Csrf"] = csrf
    if origin:
        headers["Origin"] = site.origin if origin is True else origin
    return site.tcp(method, path, body, **headers)


def test_a_link_becomes_one_session(site):
    code = site.link().split("#login=")[1]
    a = site.tcp("POST", "/v1/session", {"code": code}, Origin=site.origin)
    assert a.status == 201, a
    cookie = a.headers["Set-Cookie"]
    assert {p.strip() for p in cookie.split(";")[1:]} == {"Path=/", "HttpOnly", "SameSite=Strict"}
    secret = re.match(r"bawn_session=(bawn_\w{43});", cookie)[1]
    assert secret.encode() not in a.body, "a script could read it"
    session = secret, a.json()["csrf"]
    assert asked(site, session, "GET", "/v1/me").json()["name"] == a.json()["tenant"]
    assert site.tcp("POST", "/v1/session", {"code": code}, Origin=site.origin).status == 401, "a link works once"
    for wrong in ("x", code[:-1], code + "0", "bawn_" + "0" * 43, secret):
        assert site.tcp("POST", "/v1/session", {"code": wrong}, Origin=site.origin).status == 401
    assert site.tcp("GET", "/v1/me", Authorization=f"Bearer {secret}").status == 401, "a session is no token"
    assert secret.encode() not in (site.top / "log").read_bytes() and code.encode() not in (site.top / "log").read_bytes()


def test_the_cookie_alone_is_worth_nothing(site):
    """Claim: a page of another site or port cannot use the session, although its browser sends the cookie. (CSRF)"""
    cookie, csrf = session = site.enter()
    run = {"command": ["true"]}
    assert asked(site, session, "POST", "/v1/runs", run).status == 201, "the same request of the dashboard works"
    before = site.call("GET", "/v1/runs").json()
    assert asked(site, (cookie, None), "POST", "/v1/runs", run).status == 403
    assert asked(site, (cookie, None), "GET", "/v1/me").status == 403
    assert asked(site, (cookie, "bawn_" + "0" * 43), "POST", "/v1/runs", run).status == 401
    assert asked(site, (None, csrf), "POST", "/v1/runs", run).status == 401
    assert asked(site, session, "POST", "/v1/runs", run, origin=None).status == 403
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{site.port}", f"http://127.0.0.1:{site.port + 1}", f"{site.origin}.evil.example", f"http://localhost:{site.port}"):
        assert asked(site, session, "POST", "/v1/runs", run, origin=origin).status == 403, origin
        assert asked(site, session, "GET", "/v1/me", origin=origin).status == 403, origin
    for where in ("cross-site", "same-site", "none"):
        assert asked(site, session, "GET", "/v1/me", origin=None, Sec_Fetch_Site=where).status == 403, where
    assert asked(site, session, "GET", "/v1/me", origin=None, Sec_Fetch_Site="same-origin").status == 200
    assert [r["id"] for r in site.call("GET", "/v1/runs").json()["items"]] == [r["id"] for r in before["items"]]


def test_no_other_name_leads_here(site):
    """Claim: a name of another site that leads to our address gets nothing, neither pages nor the API. (DNS rebinding)"""
    session = site.enter()
    for host in ("evil.example", f"evil.example:{site.port}", f"127.0.0.1.evil.example:{site.port}", f"localhost.evil.example:{site.port}", "127.0.0.2", "[::]", ""):
        for path in ("/", "/js/app.js", "/v1/me", "/v1/health"):
            assert site.tcp("GET", path, host=host or " ", Cookie=f"bawn_session={session[0]}", Bawn_Csrf=session[1]).status in (400, 403), (host, path)
    assert site.tcp("GET", "/", host=f"localhost:{site.port}").status == 200


def handshake(site, *headers):
    """The status of a WebSocket's opening, and the protocol that was chosen."""
    key = base64.b64encode(b"0123456789abcdef").decode()
    with socket.create_connection(("127.0.0.1", site.port)) as s:
        lines = ["GET /v1/sandboxes/box_0123456789012345678901/terminal HTTP/1.1", f"Host: 127.0.0.1:{site.port}", "Upgrade: websocket", "Connection: Upgrade",
                 "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}", *headers, "", ""]
        s.sendall("\r\n".join(lines).encode())
        data = b""
        while b"\r\n\r\n" not in data:
            more = s.recv(65536)
            if not more:
                break
            data += more
    return int(data.split()[1])


def test_a_websocket_needs_both_secrets_too(site):
    cookie, csrf = site.enter()
    own = [f"Cookie: bawn_session={cookie}", f"Origin: {site.origin}", f"Sec-WebSocket-Protocol: bawn.terminal, bawn.csrf.{csrf}"]
    assert handshake(site, *own) in (404, 501), "there is no such sandbox: who asks was known"
    assert handshake(site, *own[:2]) == 403
    assert handshake(site, own[0], own[2]) == 403
    assert handshake(site, own[0], "Origin: http://evil.example", own[2]) == 403
    assert handshake(site, *own[1:]) == 401
    assert handshake(site, *own[:2], "Sec-WebSocket-Protocol: bawn.terminal, bawn.csrf.bawn_" + "0" * 43) == 401


def test_a_session_cannot_prolong_itself(site):
    session = site.enter()
    assert asked(site, session, "GET", "/v1/tenants").status == 200, "an administrator's session reads what is theirs"
    for method, path, body in (("POST", "/v1/links", None), ("POST", "/v1/tenants", {"name": "t"}), ("POST", "/v1/tenants/t/tokens", {"admin": True}),
                               ("DELETE", "/v1/tokens/tok_0123456789abcdef", None), ("PATCH", "/v1/tenants/t", {"running": 1})):
        assert asked(site, session, method, path, body).status == 403, path


def test_a_session_ends(site):
    session, other = site.enter(), site.enter()
    a = asked(site, session, "DELETE", "/v1/session")
    assert a.status == 204 and "Max-Age=0" in a.headers["Set-Cookie"]
    assert asked(site, session, "GET", "/v1/me").status == 401
    assert asked(site, other, "GET", "/v1/me").status == 200
    for _ in range(16):
        newest = site.enter()
    assert asked(site, other, "GET", "/v1/me").status == 401, "a tenant has sixteen; the oldest makes room"
    assert asked(site, newest, "GET", "/v1/me").status == 200
    site.proc.send_signal(signal.SIGTERM)
    assert site.proc.wait() == 0
    site.start()
    assert asked(site, newest, "GET", "/v1/me").status == 401, "sessions end with the service"


def test_a_session_is_its_tenants_and_ends_with_its_token(site):
    site.call("POST", "/v1/tenants", {"name": "acme"})
    made = site.call("POST", "/v1/tenants/acme/tokens", {}).json()
    session = site.enter(made["token"])
    own = site.call("POST", "/v1/runs", {"command": ["true"]}).json()["id"]
    assert asked(site, session, "GET", "/v1/me").json()["name"] == "acme"
    assert asked(site, session, "GET", "/v1/runs").json()["items"] == []
    assert asked(site, session, "GET", f"/v1/runs/{own}").status == 404
    assert asked(site, session, "GET", "/v1/metrics").status == 403
    assert site.call("DELETE", f"/v1/tokens/{made['id']}").status == 204
    assert asked(site, session, "GET", "/v1/me").status == 401


def test_pages(site):
    """Claim: what is served can load and run nothing but itself, in no frame, and needs no session."""
    a = site.tcp("GET", "/")
    policy = {p.split()[0]: p.split()[1:] for p in a.headers["Content-Security-Policy"].split("; ")}
    assert policy["default-src"] == ["'none'"] and policy["frame-ancestors"] == ["'none'"] and policy["form-action"] == ["'none'"] and policy["base-uri"] == ["'none'"]
    assert {s for k in policy for s in policy[k]} <= {"'none'", "'self'", "'script'"}, policy
    assert policy["require-trusted-types-for"] == ["'script'"] and policy["trusted-types"] == ["'none'"]
    for name, value in (("X-Frame-Options", "DENY"), ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Resource-Policy", "same-origin"),
                        ("Cross-Origin-Opener-Policy", "same-origin")):
        assert a.headers.get_all(name) == [value]
    html = a.body.decode()
    assert not re.search(r"<script(?![^>]*src=\"/)|<style|\sstyle=|\son\w+=|https?://", html), "inline code, or another host"
    for path in re.findall(r'(?:src|href)="(/[^"]+)"', html):
        page = site.tcp("GET", path)
        assert page.status == 200 and page.headers["Content-Security-Policy"], path
        assert site.tcp("GET", path, If_None_Match=page.headers["ETag"]).status == 304
        assert site.tcp("HEAD", path).body == b""
    for path in ("/index.html/", "/js/../js/app.js", "/js/%61pp.js", "/js/", "/etc/passwd", "//etc/passwd", "/vendor/xterm.LICENSE"):
        assert site.tcp("GET", path).status in (400, 404), path
    for method in ("POST", "PUT", "DELETE"):
        assert site.tcp(method, "/", Origin=site.origin).status == 405


def test_bawn_dashboard(user_runner):
    """The verb starts a service of its own, and asks one that is running. (Root's would have its place in /var/lib.)"""
    runner = user_runner
    env = {"XDG_STATE_HOME": str(runner.mkdir(runner.top / "state", 0o700)), "XDG_RUNTIME_DIR": str(runner.mkdir(runner.top / "rt", 0o700))}
    p = runner.popen(runner.path, "dashboard", "--json", env=env, stdout=-1, stderr=-1)
    link = json.loads(p.stdout.readline())["url"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#login=bawn_\w{43}", link)
    again = runner.bawn("dashboard", env=env)
    assert again.rc == 0 and again.out.decode().split("#")[0] == link.split("#")[0] and again.out.decode().strip() != link, again
    service = int(runner.run("pgrep", "-P", str(p.pid)).out)
    p.send_signal(signal.SIGTERM)
    p.wait()
    while os.path.exists(f"/proc/{service}/fd/0"):
        time.sleep(0.02)
    r = runner.bawn("dashboard", "--socket", str(runner.top / "nothing"), env=env)
    assert r.rc != 0 and b"no service answers" in r.err
