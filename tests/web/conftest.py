# SPDX-License-Identifier: Apache-2.0
"""The dashboard: over HTTP (site of the runner), and in Chromium (one service and one browser for all tests of a worker)."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import dashkit  # noqa: E402
import seed  # noqa: E402
import webdriver  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHOTS = pathlib.Path(os.environ.get("BAWN_BUILD", ROOT / "build")) / "screenshots"


@pytest.fixture
def site(runner):
    s = dashkit.Site(runner)
    yield s
    s.stop()


@pytest.fixture(scope="session")
def driver():
    d = webdriver.Driver()
    yield d
    d.stop()


@pytest.fixture(scope="session")
def lively(bawn, request):
    """A service of an ordinary user with sandboxes, runs, changes, and a question that waits."""
    tools = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))
    with tools.make_runner("user", bawn) as runner:
        s = dashkit.Site(runner)
        s.seeds = seed.plant(s)
        yield s
        s.stop()


@pytest.fixture(scope="session")
def chromium(driver):
    b = webdriver.Browser(driver)
    yield b
    b.stop()


@pytest.fixture
def browser(chromium, lively):
    """Signed in, at 1280 x 900, light; nothing of the test before it is left."""
    b = chromium
    b.site = lively
    b.size(1280)
    b.scheme("light")
    b.open("about:blank")
    for origin in (lively.origin, f"http://localhost:{lively.port}"):
        b.cdp("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
    b.logs()
    b.open(lively.link())
    b.wait("document.querySelector('.shell:not([hidden]) main h1')")
    b.go = lambda page: go(b, page)
    b.keep = lambda name: b.shot(SHOTS / f"{name}.png")
    return b


def go(b, page):
    """Opens a page of the dashboard, and waits until it is drawn."""
    b.run("location.hash = '#/' + arguments[0]; ", page)
    b.wait("location.hash === '#/' + arguments[0] && document.querySelector('main h1')", page)
