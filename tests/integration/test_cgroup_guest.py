# SPDX-License-Identifier: Apache-2.0
"""The cgroup unit test on hosts that this machine is not: cgroup v2 with controllers, and systemd over D-Bus.

A QEMU guest (no KVM needed) boots Debian from memory and runs the same test program five times:
in the root group, alone in a delegated group, in a group with others, through systemd as root and as an ordinary user.
Then the user keeps a sandbox there (root's needs idmapped mounts, which this guest's root file system has not): what ps knows of its group, a checkpoint while a command runs, nothing left after stop.
The guest is made once, with network access to a Debian mirror:  python3 tests/integration/test_cgroup_guest.py
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

GUEST = pathlib.Path(os.environ.get("BAWN_TEST_GUEST", "/var/cache/bawn-test/cgroup-guest"))
ROOT = pathlib.Path(__file__).resolve().parents[2]
HANG = 900  # seconds: only so that a hang ends as a failure
PACKAGES = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,libsystemd0,libcmocka0"

INIT = r"""#!/bin/bash
export PATH=/bawn:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t cgroup2 cgroup2 /sys/fs/cgroup
cd /sys/fs/cgroup
left() { find /sys/fs/cgroup -name 'bawn*' -type d -printf 'LEFT %p\n'; }
echo "=== root"; test_cgroup 2>&1; left
echo "+cpu +memory +pids" > cgroup.subtree_control
echo "=== alone"; mkdir x; bash -c 'echo $$ > x/cgroup.procs; exec test_cgroup' 2>&1; left; rmdir x || echo "LEFT x"
echo "=== shared"; mkdir y; bash -c 'echo $$ > y/cgroup.procs; test_cgroup 2>&1; true'; left; rmdir y || echo "LEFT y"
echo "-cpu -memory -pids" > cgroup.subtree_control
cd /; umount /sys/fs/cgroup /dev; umount /sys /proc
mkdir /new; mount --bind / /new; cd /new; mount --move . /  # nobody can pivot away from an initramfs
exec chroot . /lib/systemd/systemd
"""

STAGE2 = r"""#!/bin/bash
exec > /dev/ttyS0 2>&1
export PATH=/bawn:$PATH BAWN_CGROUP_HELPER=/bawn/bawn-scope XDG_RUNTIME_DIR=/run/user/1000
until [ -S /run/user/1000/bus ]; do sleep 1; done
left() { find /sys/fs/cgroup -name 'bawn*' -type d -printf 'LEFT %p\n'; }
echo "=== systemd-root"; test_cgroup; left
echo "=== systemd-user"; runuser -u tester -- test_cgroup; left
kept() {
    runuser -u $1 -- bash -c '
        export HOME=/var/tmp/$0-home; mkdir -p $HOME/project; cd $HOME/project
        bawn start box --network none --memory 64m --pids 50 || exit
        bawn exec box -- echo inside
        bawn exec -d box -- sh -c "while :; do echo x >> ~/ticks; sleep 0.1; done"
        bawn inspect --json box
        bawn checkpoint box tag && echo checkpointed
        a=$(wc -c < $HOME/.local/state/bawn/sandboxes/box/home/ticks)
        until [ $(wc -c < $HOME/.local/state/bawn/sandboxes/box/home/ticks) -gt $a ]; do sleep 0.1; done; echo thawed
        bawn stop -t 0 box && echo stopped' $1
    left
}
echo "=== kept"; kept tester
echo "=== end"
systemctl poweroff -ff
"""

UNIT = """[Unit]
After=user@1000.service dbus.service
Wants=user@1000.service
[Service]
ExecStart=/bawn/stage2
"""


def make():
    shutil.rmtree(GUEST, ignore_errors=True)
    GUEST.mkdir(parents=True)
    deps = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], check=True, capture_output=True, text=True).stdout
    kernel = re.search(r"Depends: (linux-image-\S+)", deps).group(1)
    subprocess.run(["apt-get", "download", kernel], cwd=GUEST, check=True)
    deb = next(GUEST.glob("*.deb"))
    subprocess.run(["dpkg", "-x", deb, GUEST / "kernel"], check=True)
    deb.unlink()
    shutil.copy(next((GUEST / "kernel/boot").glob("vmlinuz-*")), GUEST / "vmlinuz")
    shutil.rmtree(GUEST / "kernel")
    root = GUEST / "root"
    subprocess.run(["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={PACKAGES}", "bookworm", root], check=True)
    subprocess.run(["chroot", root, "useradd", "-m", "-u", "1000", "tester"], check=True)
    for junk in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/zoneinfo"):
        shutil.rmtree(root / junk, ignore_errors=True)
    (root / "var/lib/systemd/linger").mkdir(exist_ok=True)
    (root / "var/lib/systemd/linger/tester").touch()
    (root / "etc/systemd/system/stage2.service").write_text(UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "stage2.service").symlink_to("../stage2.service")


def initrd(tmp, programs):
    """The guest's root and, as a second archive that the kernel unpacks over it, what was built just now."""
    own = tmp / "own" / "bawn"
    own.mkdir(parents=True)
    for name, path in programs.items():
        shutil.copy(path, own / name)
    (own / "stage2").write_text(STAGE2)
    (own / "stage2").chmod(0o755)
    (own.parent / "init").write_text(INIT)
    (own.parent / "init").chmod(0o755)
    image = tmp / "initrd"
    with open(image, "wb") as f:
        for top in (GUEST / "root", tmp / "own"):
            names = subprocess.run(["find", ".", "-xdev", "-print0"], cwd=top, check=True, capture_output=True).stdout
            subprocess.run(["cpio", "-o", "-0", "-H", "newc", "--quiet"], cwd=top, check=True, input=names, stdout=f)
    return image


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    build = pathlib.Path(os.environ.get("BAWN_BUILD", ROOT / "build"))
    wanted = {"test_cgroup": "test_jail_cgroup", **{name: name for name in ("bawn-scope", "bawn", "bawn-init")}}
    programs = {name: next((p for p in build.rglob(built) if p.is_file()), None) for name, built in wanted.items()}
    if os.getuid() != 0:
        pytest.skip("needs root")
    for name in ("qemu-system-x86_64", "cpio", "mmdebstrap"):
        if not shutil.which(name):
            pytest.skip(f"needs the program {name}")
    for name, path in programs.items():
        if not path:
            pytest.skip(f"needs the program {name} in the build folder")
    if not (GUEST / "root/etc/systemd/system/stage2.service").exists():
        make()
    image = initrd(tmp_path_factory.mktemp("guest"), programs)
    args = ["-machine", "q35,accel=tcg", "-cpu", "max", "-m", "2000", "-nographic", "-no-reboot", "-nic", "none", "-kernel", GUEST / "vmlinuz",
            "-initrd", image, "-append", "console=ttyS0 quiet rdinit=/init panic=-1 tsc_early_khz=2000000 systemd.show_status=0"]
    r = subprocess.run(["qemu-system-x86_64", *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG)
    parts = re.split(r"=== (\S+)", r.stdout.decode(errors="replace").replace("\r", ""))
    return dict(zip(parts[1::2], parts[2::2]))


LIMITED = "test_limits_are_read_back test_memory_bomb test_fork_bomb test_cpu_is_throttled test_kill test_sweep_ends_what_a_dead_supervisor_left".split()


@pytest.mark.no_sanitizer
@pytest.mark.parametrize("where", ["root", "alone", "systemd-root", "systemd-user"])
def test_limits_hold(sections, where):
    text = sections[where]
    assert "FAILED" not in text and "LEFT" not in text, text
    for name in LIMITED:
        assert f"[       OK ] {name}" in text, text


@pytest.mark.no_sanitizer
def test_a_kept_sandbox(sections):
    text = sections["kept"]
    for word in ("inside", "checkpointed", "thawed", "stopped"):
        assert re.search(f"^{word}$", text, re.M), text
    box = json.JSONDecoder().raw_decode(text[text.index("{"):])[0]
    assert box["usage"]["memory"] > 0 and box["usage"]["pids"] >= 2 and box["cgroups"], text
    assert "LEFT" not in text and "limits without a cgroup" not in text, text


@pytest.mark.no_sanitizer
def test_group_with_others_is_left_alone(sections):
    text = sections["shared"]
    assert "FAILED" not in text and "LEFT" not in text, text
    assert "its own cgroup holds other processes" in text, text


if __name__ == "__main__":
    sys.exit(make())
