# SPDX-License-Identifier: Apache-2.0
"""`--system writable`: packages are installed inside, through the gate, on a copy; the host has nothing new."""

import pathlib
import sys

import packages
import pytest
import servers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

WRITABLE = ["--system", "writable"]
HOST = "dev.example.com"
SOURCES = f"rm -rf /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] {{scheme}}://{HOST}/apt ./' >/etc/apt/sources.list\n"


@pytest.fixture(scope="module")
def web(inter_net):
    s = servers.nginx(inter_net)
    packages.make_repository(s.www / "apt")
    yield s
    s.end()


def sources(scheme="http"):
    return SOURCES.format(scheme=scheme)


def test_apt(net, web):
    """Update, install with a dependency, users and owners that do not exist, set-id files, an update of a package of the host, removal."""
    before = packages.host_state()
    script = "set -e\n" + sources() + """
apt-get -q update
apt-get -qy install demo sensible-utils
demo
dpkg -s demo | grep Status
cat /var/lib/demo/state
sensible-editor
getent passwd demo-user
apt-get -qy purge demo
test ! -e /usr/bin/demo
test ! -e /etc/demo.conf
dpkg --audit
echo whole
"""
    r = net.sandbox("sh", "-c", script, allow=[HOST], options=WRITABLE)
    assert r.rc == 0, (r.out.decode(), r.err.decode())
    for text in (b"demo library", b"Status: install ok installed", b"configured", b"newer", b"demo-user:x:", b"whole"):
        assert text in r.out, (text, r.out.decode())
    assert {e["path"] for e in web.log()} >= {"/apt/Packages.gz", f"/apt/demo_1.0_{packages.ARCH}.deb"}, web.log()
    assert packages.host_state() == before
    assert net.sandbox("sh", "-c", "ls /usr/lib/demo-lib", options=WRITABLE).rc != 0, "a run leaves nothing for the next"


def test_rules_hold_for_root(net, web):
    """The gate decides about packages, too; over TLS with its own certificate where it looks inside."""
    r = net.sandbox("sh", "-c", "set -e\n" + sources() + "apt-get -q -o Acquire::Retries=0 update && apt-get -qy install demo", options=WRITABLE)
    assert r.rc != 0 and b"demo library" not in r.out, r
    net.rules({"host": HOST, "action": "allow", "paths": ["/apt/**"]})
    r = net.sandbox("sh", "-c", "set -e\n" + sources("https") + "apt-get -q update\napt-get -qy install demo\ndemo", options=WRITABLE)
    assert r.rc == 0 and b"demo library" in r.out, (r.out.decode(), r.err.decode())


def test_certificates_of_a_package(net, web):
    """A package that makes the bundle of certificates anew, as ca-certificates does: the gate's is in it again."""
    net.rules({"host": HOST, "action": "allow", "paths": ["/apt/**"]})
    r = net.sandbox("sh", "-c", f"update-ca-certificates --fresh >/dev/null && curl -sS https://{HOST}/apt/Packages | head -1", options=WRITABLE)
    assert r.rc == 0 and r.out.startswith(b"Package: "), r


def test_pip_and_npm(net, web):
    """Into the system, not into the home."""
    before = packages.host_state()
    script = f"""set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin
/usr/bin/python3 -m pip --disable-pip-version-check -q install --root-user-action=ignore --index-url https://{HOST}/simple/ demo
/usr/bin/python3 -c 'import demo; print(demo.__file__)'
npm --registry https://{HOST}/npm/ --no-audit --no-fund --no-update-notifier install -g demo >/dev/null
ls -d $(npm root -g)/demo
"""
    r = net.sandbox("sh", "-c", script, allow=[HOST], options=WRITABLE)
    assert r.rc == 0, (r.out.decode(), r.err.decode())
    lines = r.out.decode().split()
    assert lines[0] == "demo" and lines[1].startswith("/usr/local/lib/") and lines[2].startswith("/usr/"), lines
    assert packages.host_state() == before


def test_persistent(net, web):
    """What is installed stays with the sandbox, and goes into checkpoints and forks; removing the sandbox removes it."""
    before = packages.host_state()
    box = lambda *a, **k: net.bawn(*a, **k)  # noqa: E731
    r = box("start", "box", *WRITABLE, "--allow", HOST)
    assert r.rc == 0, r
    r = box("exec", "box", "--", "sh", "-c", "set -e\n" + sources() + "apt-get -q update\napt-get -qy install demo")
    assert r.rc == 0, (r.out.decode(), r.err.decode())
    assert box("exec", "box", "--", "demo").out == b"demo library\n"
    assert box("checkpoint", "box", "one").rc == 0
    assert box("exec", "box", "--", "apt-get", "-qy", "purge", "demo").rc == 0
    assert box("stop", "box").rc == 0
    assert box("start", "box").rc == 0
    assert box("exec", "box", "--", "sh", "-c", "demo || echo gone; cat /usr/lib/demo-lib/data; id -u").out.endswith(b"gone\nlibrary\n0\n")
    r = box("fork", "box", "--from", "one", "--name", "other")
    assert r.rc == 0, r
    r = box("exec", "--start", "other", "--", "sh", "-c", "demo; dpkg -s demo | grep Status")
    assert r.rc == 0 and r.out == b"demo library\nStatus: install ok installed\n", r
    state = net.runner.home / ".local/state/bawn/sandboxes"
    assert (state / "other/system").exists()
    for name in ("box", "other"):
        assert box("rm", "-f", name).rc == 0
    assert not list(state.glob("*/system"))
    assert packages.host_state() == before
