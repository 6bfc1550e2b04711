# SPDX-License-Identifier: Apache-2.0
"""An engine inside pulls through the gate, and its containers have no other network."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
import nestedkit  # noqa: E402

ADDRESS, HOST = "11.0.0.36", "reg.example.com"


def test_pull_and_requests(net, tmp_path):
    imagekit.write_layout(tmp_path / "layout", [nestedkit.layer()])
    (tmp_path / "config.yml").write_text(json.dumps({"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(tmp_path / "data")}}, "http": {"addr": f"{ADDRESS}:5000"}}))
    with (tmp_path / "log").open("wb") as log:
        net.server("docker-registry", "serve", tmp_path / "config.yml", ready=(ADDRESS, 5000), stdout=log, stderr=log)
    copy = net.server("skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", f"oci:{tmp_path}/layout:latest", f"docker://{ADDRESS}:5000/box")
    assert copy.wait() == 0
    net.names[HOST] = [ADDRESS]
    pull = f"podman pull -q --tls-verify=false {HOST}:5000/box >/dev/null || exit 9; "
    r = net.sandbox("sh", "-c", pull + f"podman run --rm {HOST}:5000/box sh -c 'wget -qO- http://ok.example.com/a; wget -qO- http://evil.example.net/ && echo REACHED'",
                    allow=[f"{HOST}:5000", "ok.example.com"], options=["--nested"])
    assert b"GET /a HTTP/1.1" in r.out and b"REACHED" not in r.out, r
    assert net.hits(to="11.0.0.11") == []
    r = net.sandbox("sh", "-c", pull, options=["--nested"])
    assert r.rc == 9, r
