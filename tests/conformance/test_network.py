# SPDX-License-Identifier: Apache-2.0
"""The gate behind every engine: names, ports, credentials."""

import pytest

from network_fixtures import Net, inter_net  # noqa: F401


@pytest.fixture
def net(inter_net, box):  # noqa: F811
    n = Net(inter_net, box.runner)
    yield n
    n.end()


def test_an_allowed_name_is_reached_and_another_is_not(net):
    """Claim: names are judged, behind every engine."""
    assert net.outside("curl", "-s", "http://evil.example.net/").rc == 0, "without a sandbox it is reached"
    net.forget()
    r = net.sandbox("curl", "-sS", "http://ok.example.com/", "-w", "%{http_code}", allow=["ok.example.com"])
    assert r.out.endswith(b"200"), r
    r = net.sandbox("curl", "-sS", "-w", "%{http_code}", "http://evil.example.net/", allow=["ok.example.com"])
    assert r.out.endswith(b"403") and b"evil.example.net" in r.out, r
    assert not any("evil" in q for q in net.queries()), "no one looks a denied name up"


def test_every_port_leads_to_the_gate(net):
    """Claim: there is no other way out, whatever the port and address."""
    script = """
import socket
for address, port in (("11.0.0.11", 80), ("11.0.0.11", 12345), ("169.254.169.254", 80), ("172.31.0.1", 22)):
    s = socket.socket()
    s.settimeout(20)
    try:
        s.connect((address, port))
        s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        print(address, port, b"200 OK" in s.recv(4096))
    except OSError:
        print(address, port, False)
"""
    r = net.python(script)
    assert r.out.count(b"False") == 4, r
    assert not net.hits(kind="request"), r


def test_tls_is_passed_on_by_name(net):
    r = net.sandbox("curl", "-sS", "https://ok.example.com/", "-w", "%{http_code}", allow=["ok.example.com"])
    assert r.out.endswith(b"200"), r


def test_a_credential_is_put_in_outside(net):
    """Claim: the value of a credential is never inside, and reaches the host that it belongs to."""
    value = "val-" + "z" * 20
    env = {"BAWN_PASSPHRASE_FILE": str(net.runner.write(net.runner.home / "passphrase", "correct horse\n", 0o600))}
    r = net.bawn("secret", "set", "key", "--host", "ok.example.com", "--header", "x-key", "--inject", "placeholder", "--env", "KEY", input=value.encode(), env=env)
    assert r.rc == 0, r
    r = net.sandbox("sh", "-c", 'env; bawn-key list || exit; curl -sS -o /dev/null -w "%{http_code}" -H "x-key: $KEY" https://ok.example.com/', allow=["ok.example.com"], env=env)
    assert b"key  " in r.out, r  # the credential socket leads to the gate
    assert r.rc == 0 and r.out.endswith(b"200") and value.encode() not in r.out, r
    (hit,) = net.hits(kind="request")
    assert dict(hit["headers"])["x-key"] == value
