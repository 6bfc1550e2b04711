# SPDX-License-Identifier: Apache-2.0
"""An image needs mounts: where there are none, it is refused and never left out."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402


def test_without_namespaces_an_image_is_refused(runner, deny):
    imagekit.make_image(runner, "t/plain")
    assert runner.bawn("run", "--network", "none", "--image", "t/plain", "--", "true").rc == 0
    r = runner.run(deny, "userns", "--", runner.path, "run", "--network", "none", "--image", "t/plain", "--", "true")
    assert r.rc == 125 and b"an image needs user namespaces" in r.err, r


def test_without_openat2_the_same_tree_is_unpacked(runner, deny):
    layers = [imagekit.base(), imagekit.tar([imagekit.L("t/out", "/etc"), imagekit.F("t/out/evil", b"x"), imagekit.F("t/in", b"in")])]
    imagekit.write_layout(runner.top / "l", layers)
    imagekit.share(runner.top / "l")
    r = runner.run(deny, "openat2", "--", runner.path, "image", "pull", runner.top / "l", "-t", "t/x")
    assert r.rc == 0, r
    assert runner.bawn("run", "--network", "none", "--image", "t/x", "--", "cat", "/etc/evil", "/t/in").out == b"xin"
    assert not pathlib.Path("/etc/evil").exists()
