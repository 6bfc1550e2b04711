# SPDX-License-Identifier: Apache-2.0
"""With an image the network is the same: names, rules, inspected TLS, credentials that are never inside; and images come past no rule."""

import pathlib
import secrets
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
import secret_servers  # noqa: E402
import secret_tools  # noqa: E402

VALUES = {"key": "sk-real-" + secrets.token_hex(16)}


@pytest.fixture(scope="module")
def curl_layer():
    return imagekit.programs("/usr/bin/curl")


@pytest.fixture(scope="module")
def wanting(inter_net):
    s = secret_servers.Servers(inter_net, VALUES)
    yield s
    s.end()


def test_names_rules_and_tls(net, curl_layer):
    imagekit.make_image(net.runner, "t/curl", [imagekit.base(), curl_layer], {"User": "app"})
    image = ["--image", "t/curl"]
    for url in ("http://ok.example.com/a", "https://ok.example.com/a"):
        r = net.sandbox("curl", "-sS", url, allow=["ok.example.com"], options=image)
        assert r.rc == 0 and r.json()["line"] == "GET /a HTTP/1.1", r
    net.forget()
    for url in ("http://evil.example.net/", "https://evil.example.net/", "http://11.0.0.11/", "http://127.0.0.1:1/"):
        r = net.sandbox("curl", "-sS", "-f", url, allow=["ok.example.com"], options=image)
        assert r.rc not in (0, 28), r
    assert net.hits() == [] and net.queries() == []
    net.rules({"host": "ok.example.com", "action": "allow", "paths": ["/in/**"]})
    r = net.sandbox("curl", "-sS", "https://ok.example.com/in/x", options=image)
    assert r.rc == 0 and b"/in/x" in r.out, r


def test_credentials(net, curl_layer, wanting):
    imagekit.make_image(net.runner, "t/curl", [imagekit.base(), curl_layer])
    net.names.update(secret_servers.NAMES)
    secret_tools.define(net, "key", store="env", variable="REAL_key", hosts=["key.example.com"], header="x-api-key", env=["API_KEY"])
    r = net.sandbox("sh", "-c", 'curl -sS -H "x-api-key: $API_KEY" https://key.example.com/; env', allow=["key.example.com"], options=["--image", "t/curl"],
                    env={"REAL_key": VALUES["key"]})
    assert r.rc == 0 and {s["status"] for s in wanting.seen()} == {200}, (r, wanting.seen())
    secret_tools.nowhere(VALUES["key"], r.out + r.err, "printed")
