# SPDX-License-Identifier: Apache-2.0
"""The tests' own world: what must be reachable without a sandbox is, so that refusals inside prove something."""

import pytest


@pytest.mark.parametrize("url", ["http://ok.example.com/", "https://ok.example.com/", "http://six.example.com/", "http://10.0.0.5/",
                                 "http://169.254.169.254/", "http://[fd00:ec2::254]/", "http://private.example.com/"])
def test_reachable_without_sandbox(net, url):
    r = net.outside("curl", "-sS", url)
    assert r.rc == 0 and r.json()["line"].startswith("GET / "), r
    assert len(net.requests()) == 1
