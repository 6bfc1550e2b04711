# SPDX-License-Identifier: Apache-2.0
"""Accessibility, computed from what Chromium draws: contrast (WCAG 2.1 AA) in both colour schemes, names, roles, labels, tab order, and a width of 360 pixels."""

import pytest

PAGES = ["sandboxes", "runs", "network", "review", "audit", "engines", "load"]

# Text whose contrast to what is behind it is below 4.5, or 3 if it is large. Colours behind are mixed from all boxes around it.
CONTRAST = """
const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1] };
const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const lum = (c) => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const out = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !e || !e.offsetParent || e.closest('.visually-hidden, .skip, .xterm, [disabled], svg, noscript, script')) continue;
    const css = getComputedStyle(e);
    if (css.visibility === 'hidden') continue;
    let behind = [255, 255, 255, 0];
    const chain = [];
    for (let x = e; x; x = x.parentElement) chain.unshift(parse(getComputedStyle(x).backgroundColor));
    behind = chain.reduce((under, c) => over(c, under), parse(getComputedStyle(document.body).backgroundColor));
    const text = over(parse(css.color), behind);
    const [a, b] = [lum(text), lum(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(css.fontSize), large = size >= 24 || (size >= 18.66 && Number(css.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) out.push([walk.currentNode.data.trim().slice(0, 40), e.className, ratio.toFixed(2), css.color]);
}
return out;
"""

# What a screen reader would have no name for, and what a keyboard would not reach.
NAMES = """
const out = [];
const seen = (e) => e.offsetParent && getComputedStyle(e).visibility !== 'hidden';
for (const e of document.querySelectorAll('button, a[href], input, select, textarea, [role=meter], [role=img], [role=region], [role=log]')) {
    if (!seen(e) && !(e instanceof SVGElement) || e.closest('.xterm')) continue;
    const label = e.id && document.querySelector(`label[for="${e.id}"]`);
    const name = (e.getAttribute('aria-label') || label?.textContent || (e.matches('input, select, textarea') ? '' : e.textContent) || '').trim();
    if (!name) out.push(['no name', e.outerHTML.slice(0, 120)]);
    if (e.tabIndex > 0) out.push(['own order', e.outerHTML.slice(0, 120)]);
    const box = e.getBoundingClientRect();
    if (e.matches('button, input, select') && seen(e) && (box.height < 24 || box.width < 24)) out.push(['small', e.outerHTML.slice(0, 120)]);
}
for (const e of document.querySelectorAll('main .scroll, main .log, main .diff'))
    if (seen(e) && (e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight) && e.tabIndex < 0) out.push(['scrolls, but not by keyboard', e.className]);
if ([...document.querySelectorAll('h1')].filter(seen).length !== 1) out.push(['h1', document.querySelectorAll('h1').length]);
let level = 0;
for (const e of [...document.querySelectorAll('h1, h2, h3, h4')].filter(seen)) {
    const n = Number(e.tagName[1]);
    if (n > level + 1 && level) out.push(['heading', e.textContent]);
    level = n;
}
for (const e of document.querySelectorAll('table')) if (seen(e) && [...e.querySelectorAll('thead th')].some(t => !t.scope)) out.push(['th', e.className]);
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
for (const id of ids.filter((x, i) => ids.indexOf(x) !== i)) out.push(['id twice', id]);
if (document.documentElement.lang !== 'en' || !document.title || !document.querySelector('main')) out.push(['page', document.title]);
return out;
"""

WIDE = """const w = document.documentElement.clientWidth;
return [document.documentElement.scrollWidth > w ? document.documentElement.scrollWidth : 0,
    [...document.querySelectorAll('main *')].filter(e => e.offsetParent && !e.closest('.scroll, .log, .diff, .tabs, svg, .visually-hidden, .table') && e.getBoundingClientRect().right > w + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 100))]"""

# When a page shows what it is about.
READY = {"sandboxes": "document.querySelector('.box [role=meter]')", "runs": "document.querySelector('tbody tr')", "network": "document.querySelector('.rule')", "review": "document.querySelector('tbody tr')",
         "audit": "document.querySelector('tbody tr')", "engines": "document.querySelector('.matrix')", "load": "document.querySelector('rect.col')"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page(browser, scheme):
    b, seeds = browser, browser.site.seeds
    b.scheme(scheme)
    pages = [*PAGES, "runs/" + seeds["hostile"], "review/sandboxes/" + seeds["box"], "sandboxes/" + seeds["box"]]
    ready = {**READY, pages[-3]: "document.querySelector('.log .note')", pages[-2]: "document.querySelector('.diff')", pages[-1]: "document.querySelector('main .badge')?.textContent"}
    for page in pages:
        b.size(1280)
        b.go(page)
        b.wait(ready[page])
        for width in (1280, 360):
            b.size(width)
            b.run("document.body.offsetWidth")
            assert b.run(CONTRAST) == [], (page, width)
            assert b.run(NAMES) == [], (page, width)
            assert b.run(WIDE) == [0, []], (page, width)
        b.keep(f"phone-{page.split('/')[0]}{'-one' if '/' in page else ''}-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_door(browser, scheme):
    b = browser
    b.scheme(scheme)
    b.size(360)
    b.press("Sign out", ".side")
    b.wait("!document.querySelector('#door').hidden")
    assert b.run(CONTRAST) == [] and b.run(NAMES) == []


def test_the_check_itself_finds_what_is_wrong(browser):
    """It proves nothing if it cannot fail."""
    b = browser
    b.run("const e = document.createElement('p'); e.textContent = 'faint'; e.style.color = 'rgb(150,150,150)'; document.querySelector('main').append(e, document.createElement('button'))")
    assert [f[0] for f in b.run(CONTRAST)] == ["faint"]
    assert ["no name", "small"] == [f[0] for f in b.run(NAMES)]
