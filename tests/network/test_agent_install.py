# SPDX-License-Identifier: Apache-2.0
"""`bawn agents --install`, and a first `bawn run --agent` without it: npm brings the program, in a sandbox, for sandboxes only."""

import base64
import hashlib
import io
import json
import os
import tarfile

import pytest

ADDRESS = "11.0.0.37"
PROGRAM = "#!/usr/bin/env node\nconsole.log('agent', ...process.argv.slice(2)); try { require('fs').writeFileSync(__filename, '') } catch (e) { console.log(e.code) }\n"
# What a package runs when it is installed: it says what it could reach.
SCRIPT = "ls -a \"$HOME\" > saw; cat \"$1\" >> saw; env >> saw; exit 0"
REGISTRY = """
import http.server, ssl, sys
class Registry(http.server.SimpleHTTPRequestHandler):
    extensions_map = {"": "application/json", ".tgz": "application/octet-stream"}
server = http.server.ThreadingHTTPServer((sys.argv[1], 443), lambda *a: Registry(*a, directory=sys.argv[2]))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3], sys.argv[4])
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
PRESET = {"title": "Agent", "command": "the-agent", "package": "the-agent"}


def publish(folder, secret, version="1.0.0"):
    package = {"name": "the-agent", "version": version, "bin": {"the-agent": "run.js"}, "scripts": {"postinstall": f"sh look.sh {secret}"}}
    files = {"package.json": json.dumps(package), "run.js": PROGRAM, "look.sh": SCRIPT}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(text), 0o755
            tar.addfile(info, io.BytesIO(text.encode()))
    folder.mkdir(exist_ok=True)
    (folder / "the-agent.tgz").write_bytes(data.getvalue())
    dist = {"tarball": "https://registry.npmjs.org/the-agent.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()}
    (folder / "the-agent").write_text(json.dumps({"name": "the-agent", "dist-tags": {"latest": version}, "versions": {version: {**package, "dist": dist}}}))


@pytest.fixture
def registry(net):
    """Serves a package with a program and a script; yields the host's secret file that the script looks for."""
    w = net.world
    secret = net.runner.write(net.runner.home / "secret", "HOST-SECRET", 0o600)
    publish(w.folder / "npm-registry", secret)
    w.certificate("npm", "npm-key", "DNS:registry.npmjs.org")
    net.names["registry.npmjs.org"] = [ADDRESS]
    net.save_names()
    net.server("/usr/bin/python3", "-c", REGISTRY, ADDRESS, w.folder / "npm-registry", w.folder / "npm.pem", w.folder / "npm-key.pem", ready=(ADDRESS, 443))
    net.runner.write(net.runner.home / ".config" / "bawn" / "agents" / "agent.json", json.dumps(PRESET))
    trust = {"NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt"}  # node has a list of its own, without the CA of this internet
    net.runner.write(net.runner.home / ".config" / "bawn" / "config.json", json.dumps({"sandbox": {"env": trust}}))
    return secret


def installed(net):
    return net.runner.home / ".local" / "state" / "bawn" / "agents" / "agent" / "node_modules" / "the-agent"


def test_installed_in_a_sandbox_for_sandboxes(net, registry):
    """C8: the package's script runs, but sees neither the home nor a variable of the host; runs see the result read-only."""
    env = {"HOST_VARIABLE": "HOST-SECRET"}
    r = net.bawn("agents", "--install", "agent", env=env)
    assert r.rc == 0 and b"bawn run --agent agent" in r.err, r
    saw = (installed(net) / "saw").read_text()
    assert "HOME=" in saw and "HOST-SECRET" not in saw and "secret" not in saw.splitlines(), saw
    outside = net.outside("sh", "-c", SCRIPT, "sh", registry, env=env)
    assert outside.rc == 0 and (net.runner.workspace / "saw").read_text().count("HOST-SECRET") == 2, "the script does not find it even outside"
    r = net.bawn("run", "--agent", "agent", "--", "hello")
    assert r.rc == 0 and r.out == b"agent hello\nEROFS\n", r
    assert not (net.runner.home / ".npm").exists()


def test_installed_by_the_first_run_and_whole(net, registry):
    """A first run installs by itself. An update that fails, or is interrupted, leaves what was there."""
    r = net.bawn("run", "--agent", "agent", "--", "hello")
    assert r.rc == 0 and r.out.startswith(b"agent hello\n"), r
    publish(net.world.folder / "npm-registry", registry, "2.0.0")
    (net.world.folder / "npm-registry" / "the-agent.tgz").write_bytes(b"not what was promised")
    r = net.bawn("agents", "--install", "agent")
    assert r.rc == 125 and b"npm could not install the-agent" in r.err, r
    agents = installed(net).parents[2]
    assert os.listdir(agents) == ["agent"]
    assert json.loads((installed(net) / "package.json").read_text())["version"] == "1.0.0"
    publish(net.world.folder / "npm-registry", registry, "2.0.0")
    for left in ("agent.new-4194304", "agent.old-4194304"):  # of an install that was killed: no process has that number
        net.runner.write(agents / left / "node_modules" / "x", "half")
    assert net.bawn("agents", "--install", "agent").rc == 0
    assert json.loads((installed(net) / "package.json").read_text())["version"] == "2.0.0" and os.listdir(agents) == ["agent"]
