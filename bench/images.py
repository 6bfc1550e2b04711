# SPDX-License-Identifier: Apache-2.0
"""Images on the native engine: a start with one beside a start with the host's own root; unpacking beside umoci."""
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import starts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import imagekit  # noqa: E402

HOST, IMAGE = "bawn, host's root", "bawn, image"
COMMAND = ["/bin/busybox", "true"]
LAYERS, FILES, FILE_BYTES = 6, 4000, 12_000


def tree(seed):
    """Files of sizes as in a language's library, which pack to about a third."""
    text = bytes((i * i + seed) % 61 + 48 for i in range(FILE_BYTES))
    names = (f"t/{seed}/{i // 100}/{i}" for i in range(FILES))
    return imagekit.tar([imagekit.F(name, text[i % 5000:] + os.urandom(2000)) for i, name in enumerate(names)])


def pull(stage, place, layout, name, home=None):
    how = place.popen_as()
    if home:
        how["env"] = {**how["env"], "XDG_STATE_HOME": home}
    done = subprocess.run([stage.bawn, "image", "pull", layout, "-t", name], capture_output=True, text=True, check=False, **how)
    if done.returncode != 0:
        raise RuntimeError(f"bawn image pull: {done.stderr.strip()}")


def unpack(stage, place, top, rounds):
    """Seconds of each, in turn; umoci works as root only, and without it there is nothing to compare. Nothing is removed in between:
    ext4 does not hand out inodes that were freed in the last seconds, and searches past all of them for each new file, so the one that
    comes after a removal would pay for it."""
    layout, samples = top / "large", {"bawn": [], "umoci": []}
    imagekit.write_layout(layout, [tree(0), tree(1)])
    imagekit.share(layout)

    def by_bawn(i):
        state = top / f"state{i}"
        state.mkdir()
        place.own(str(state))
        begun = time.monotonic()
        pull(stage, place, str(layout), "bench/large", str(state))
        samples["bawn"].append(time.monotonic() - begun)

    def by_umoci(i):
        begun = time.monotonic()
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:latest", top / f"bundle{i}"], check=True, capture_output=True)
        samples["umoci"].append(time.monotonic() - begun)

    both = [by_bawn, by_umoci] if os.getuid() == 0 and shutil.which("umoci") else [by_bawn]
    for i in range(rounds):
        for one in both if i % 2 else reversed(both):
            one(i)
    return {name: statistics.median(v) if v else None for name, v in samples.items()}


def measure(stage, place, effort, say):
    say(f"as {place.name}: images")
    top = pathlib.Path(place.directory) / "images"
    top.mkdir()
    place.own(str(top))
    try:
        layout = top / "small"
        imagekit.write_layout(layout, [imagekit.base(), *(imagekit.tar([imagekit.F(f"t/{i}", b"x")]) for i in range(LAYERS - 1))])
        imagekit.share(layout)
        pull(stage, place, str(layout), "bench/small")
        commands = {HOST: [stage.bawn, "run", "--", *COMMAND], IMAGE: [stage.bawn, "run", "--image", "bench/small", "--", *COMMAND]}
        cold = starts.spawn(stage, place, ["--rounds", str(effort.rounds), "--budget", f"{effort.budget_ms}ms"], commands)
        return {"cold": cold, "unpack": unpack(stage, place, top, max(3, effort.blocks // 2))}
    finally:
        shutil.rmtree(top, ignore_errors=True)
