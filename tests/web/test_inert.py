# SPDX-License-Identifier: Apache-2.0
"""What an agent wrote is shown inert, wherever it appears: names, labels, output, file names, differences, audit fields, addresses. (Chromium)

Each test looks for the hostile text as text, so that it cannot pass because nothing was shown.
"""

import seed

# Everything that only a script or a parsed piece of HTML could have done.
TRACES = """return [window.pwned, document.querySelectorAll('main img, main script, main iframe, main svg a, main object, main form[action]').length,
    [...document.querySelectorAll('main a')].filter(a => !/^#\\//.test(a.getAttribute('href'))).length,
    [...document.querySelectorAll('main *')].some(e => [...e.attributes].some(a => /^on/i.test(a.name)))]"""


def inert(b):
    assert b.run(TRACES) == [None, 0, 0, False]
    # No character that hides or reorders is left in what is drawn; each is a mark.
    assert b.run("return /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ufeff]/.test(document.querySelector('main').textContent)") is False
    refused = [e for e in b.logs() if e["level"] == "SEVERE" and e["source"] != "network"]
    assert not refused, f"the policy had to refuse something: {refused}"


def shows(b, text):
    b.wait("document.querySelector('main').textContent.includes(arguments[0])", text)


def test_output_and_names_of_runs(browser):
    b, site = browser, browser.site
    b.go("runs")
    shows(b, "<img src=x onerror=")
    inert(b)
    b.go("runs/" + site.seeds["hostile"])
    b.wait("document.querySelector('.log')?.textContent.includes('ended with status 3')")
    shows(b, seed.EVIL)
    log = b.text(".log")
    assert "RLO" in log and "ESC" in log and "BEL" in log and "ZWSP" in log, log
    assert "red" in log and "\x1b" not in log
    assert b.run("return document.title").startswith("Runs"), "no sequence reached the title"
    b.keep("hostile-run")
    inert(b)


def test_labels_of_sandboxes(browser):
    b = browser
    b.go("sandboxes")
    shows(b, seed.EVIL[:60])
    shows(b, "RLO")
    inert(b)
    b.go("sandboxes/" + b.site.seeds["other"])
    shows(b, seed.EVIL[:60])
    inert(b)


def test_file_names_and_differences(browser):
    b = browser
    b.go("review/sandboxes/" + b.site.seeds["box"])
    shows(b, "docs/<img src=x onerror=window.pwned=1>.md")
    b.run("[...document.querySelectorAll('.files button')].find(e => e.dataset.path.endsWith('.md')).click()")
    shows(b, seed.EVIL)
    inert(b)
    b.run("[...document.querySelectorAll('.files button')].find(e => e.dataset.path.endsWith('.txt')).click()")
    shows(b, "https://evil.example/")
    assert b.run("return document.querySelector('.diff').querySelectorAll('a').length") == 0, "no link"
    assert "RLO" in b.text(".files") and ("RLO" in b.text(".diff") or "202e" in b.text(".diff").lower()), b.text(".diff")
    b.keep("hostile-review")
    inert(b)


def test_audit_fields(browser):
    b = browser
    b.go("audit")
    b.run("document.querySelector('#audit-kind').value = 'exec'; document.querySelector('#audit-kind').dispatchEvent(new Event('change'))")
    shows(b, "<img src=x onerror=")
    inert(b)


def test_addresses_and_answers(browser):
    """The address is data, too; and what the service says about it."""
    b = browser
    for page in ("runs/<img src=x onerror=window.pwned=1>", "review/<script>/run_0123456789012345678901", "sandboxes/javascript:alert(1)", "review/runs/../../v1/session", "<svg onload=window.pwned=1>"):
        b.run("location.hash = '#/' + arguments[0]", page)
        b.wait("document.querySelector('main h1')")
        inert(b)
    assert b.run("return Object.keys(window).includes('pwned')") is False


def test_the_policy_holds_where_the_code_fails(browser):
    """Claim: a mistake in the page's own code is no way in: inline code, other hosts, frames and HTML from text are refused by the browser."""
    b = browser
    assert b.run("try { document.querySelector('main').innerHTML = '<b>x</b>'; return 'parsed' } catch (e) { return e.name }") == "TypeError", "Trusted Types"
    b.run("const s = document.createElement('script'); try { s.text = 'window.pwned = 1'; document.body.append(s) } catch (e) {}")
    b.run("const i = document.createElement('img'); try { i.setAttribute('onerror', 'window.pwned = 1') } catch (e) {} i.src = 'data:,'; document.body.append(i)")
    assert b.run_async("try { await fetch('http://127.0.0.1:9/'); return 'sent' } catch (e) { return e.name }") == "TypeError"
    b.run("const f = document.createElement('iframe'); f.src = '/'; document.body.append(f)")
    assert b.run_async("await new Promise(r => setTimeout(r, 0)); await fetch('/icon.svg'); return window.pwned ?? null") is None
    said = " ".join(e["message"] for e in b.logs())
    assert "Content Security Policy" in said


def test_another_site_gets_nothing(browser, driver):
    """Claim: a page of another origin in the same browser (here: another name of the same machine) cannot frame, read or change anything."""
    b, site = browser, browser.site
    before = len(site.call("GET", "/v1/runs?limit=1000").json()["items"])
    b.open(f"http://localhost:{site.port}/")  # the same machine, another origin and another site
    b.wait("document.querySelector('#door h1')")
    tried = b.run_async("""const out = [];
        for (const init of [{}, {credentials: 'include'}, {mode: 'no-cors', credentials: 'include', method: 'POST', body: '{"command":["true"]}'}])
            try { const r = await fetch(arguments[0] + '/v1/runs', init); out.push(r.type + r.status) } catch (e) { out.push(e.name) }
        return out""", site.origin)
    assert tried == ["TypeError"] * 3, tried
    assert len(site.call("GET", "/v1/runs?limit=1000").json()["items"]) == before
