# SPDX-License-Identifier: Apache-2.0
"""Images for engines inside, and the command that takes one in."""

import imagekit

TOOLS = ("sh", "cat", "id", "ls", "touch", "wget", "ps", "echo")


def layer():
    """busybox, owned by an id that a sandbox does not have, and a set-user-ID program."""
    with open("/bin/busybox", "rb") as f:
        program = f.read()
    return imagekit.tar([imagekit.D("bin"), imagekit.F("bin/busybox", program, mode=0o755, uid=7, gid=8), imagekit.F("bin/suid", b"#!/bin/sh\n", mode=0o4755),
                         imagekit.D("etc"), imagekit.F("etc/passwd", b"root:x:0:0::/:/bin/sh\n"), *(imagekit.L(f"bin/{n}", "busybox") for n in TOOLS)])


def put(runner):
    """An image in the workspace, as a file system's archive."""
    runner.write("box.tar", layer())


TAKE = "podman import -q box.tar t/box >/dev/null 2>&1 || exit 9; "
