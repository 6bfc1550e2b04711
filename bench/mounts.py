# SPDX-License-Identifier: Apache-2.0
"""The one list of mounts that every contender gets, so that nobody wins by mounting less.

It is read from the mount table inside a running Bawn sandbox. While there is no Bawn to ask, a short list stands in.
An entry is (kind, source, target); kinds: ro, rw (binds), tmpfs, proc, dev, link (source = text of the symlink), file
(source = a file whose content is copied: what Bawn writes itself instead of showing the host's).

Left out in favour of the peers: the parts of /proc that Bawn hides, and what it sets up below /dev one by one. There
bubblewrap and the OCI runtimes do what they do by default.
"""
import os
import re
import subprocess

LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
MADE = {
    "passwd": "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "hostname": "bench\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "resolv.conf": "# no network\n",
}
STAND_IN = ("/usr", "/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/localtime", "/etc/profile", "/etc/services", "/etc/ssl/certs")
SECONDS_MAX = 30


def parse_mountinfo(text):
    """(mount point, is it read-only, type of file system) of every line."""
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        point, options = fields.split()[4:6]
        yield re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), point), "ro" in options.split(","), rest.split()[0]


def from_mountinfo(text):
    """Binds keep their path in Bawn, so the mount point is also the source; what lies below a bind comes with it.
    The table is not in the order of mounting; sorted, parents come before what is mounted on them."""
    found = []
    for point, read_only, kind in sorted(parse_mountinfo(text)):
        binds = [target for k, _, target in found if k in ("ro", "rw")]
        if point == "/" or point.startswith(("/proc", "/dev")) or any(point.startswith(b + "/") for b in binds):
            continue
        if kind == "tmpfs":
            found.append(("tmpfs", "", point))
        elif os.path.exists(point):
            found.append(("ro" if read_only else "rw", point, point))
    return found


def inside(bawn, place):
    """What Bawn mounts for this user, or None if its full sandbox cannot be had."""
    if not bawn:
        return None
    done = subprocess.run([bawn, "run", "--sandbox=require", "--", "/bin/cat", "/proc/self/mountinfo"], capture_output=True, text=True, timeout=SECONDS_MAX,
                          **place.popen_as())
    return from_mountinfo(done.stdout) if done.returncode == 0 else None


def stand_in(place):
    binds = [("ro", path, path) for path in STAND_IN if os.path.exists(path)]
    return [*binds, ("tmpfs", "", "/tmp"), ("tmpfs", "", place.home), ("rw", place.workspace, place.workspace)]


def made_files(place):
    directory = os.path.join(place.directory, "etc")
    os.makedirs(directory, exist_ok=True)
    for name, content in MADE.items():
        with open(os.path.join(directory, name), "w") as f:
            f.write(content)
        yield ("file", os.path.join(directory, name), "/etc/" + name)


def mounts(bawn, place):
    links = [("link", os.readlink("/" + name), "/" + name) for name in LINKS if os.path.islink("/" + name)]
    binds = inside(bawn, place) or stand_in(place)
    return [*links, *binds, ("proc", "", "/proc"), ("dev", "", "/dev"), *made_files(place)]
