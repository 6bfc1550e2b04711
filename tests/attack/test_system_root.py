# SPDX-License-Identifier: Apache-2.0
"""Root of a writable system (`--system writable`) gets nothing outside: what only it can try. The attacks of other files: system_walls.py."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402

SETID = stat.S_ISUID | stat.S_ISGID
MAKE_SETID = """
cp /bin/true plain; chmod 6755 plain
cp -p /usr/bin/passwd copied; chmod u+s copied
install -m 4755 -o 0 -g 0 /bin/true installed
python3 -c '
import os
for i, way in enumerate((lambda p: os.chmod(p, 0o6755), lambda p: os.fchmod(os.open(p, 0), 0o4755), lambda p: os.close(os.open(p + ".new", os.O_CREAT | os.O_WRONLY, 0o6755)),
                         lambda p: os.mknod(p + ".node", 0o106755), lambda p: os.setxattr(p, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000")))):
    path = "way-%d" % i
    open(path, "w").close()
    try: way(path)
    except OSError as e: print(e)
'
chown 1234:4321 plain
"""


@pytest.fixture
def runner(runner):
    runner.write(runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"system": "writable"}}))
    return runner


def test_it_is_root_without_capabilities(runner):
    """Claim: uid 0 inside, whose capability sets are empty, and who is the user, or an id of the sandbox's own, outside (91)."""
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", "id -u; cat /proc/self/uid_map; grep ^Cap /proc/self/status; grep NoNewPrivs /proc/self/status")
    words = r.out.decode().split()
    assert r.rc == 0 and words[:2] == ["0", "0"] and words[3] == "1" and int(words[2]) != 0, r
    assert {w for w in words[5:14:2]} == {"0" * 16} and words[-1] == "1", r


@pytest.mark.parametrize("mode", ["direct", "overlay", "sync"])
def test_no_set_id_file_reaches_the_workspace(runner, mode):
    """Claim: whatever root inside does, files of the workspace stay the user's, without set-id bits and capabilities (30)."""
    r = runner.bawn("run", "--network", "none", "-w", mode, "--", "sh", "-c", MAKE_SETID)
    if mode == "overlay":
        assert runner.bawn("apply", "--yes").rc == 0
    made = [p for p in runner.workspace.rglob("*") if p.is_file()]
    assert len(made) >= 5, (r, made)
    places = [*made, *(p for p in (runner.home / ".local/state").rglob("*") if p.is_file() and not p.is_symlink())]
    for path in places:
        st = path.lstat()
        assert st.st_mode & SETID == 0 and st.st_uid == runner.user.pw_uid, (path, oct(st.st_mode), st.st_uid, r)
        assert "security.capability" not in os.listxattr(path, follow_symlinks=False), path


def test_the_view_shows_no_more_of_the_host(runner):
    """Claim: of the host there is what a read-only system shows, the package database and apt's sources; no passwords, no other folder (15, 17)."""
    script = "ls -A / /etc /var /var/lib /root /home /srv; cat /etc/shadow /etc/passwd; ls /etc/ssh /etc/apt; cat /var/lib/dpkg/status | wc -c"
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", script)
    assert all(line.split(":")[1] == "*" for line in r.out.decode().splitlines() if line.count(":") == 8), r
    assert not [u for u in ("bawn-test:", runner.user.pw_name + ":") if u != "root:" and u in r.out.decode().replace(str(runner.home), "")], r
    for name in ("auth.conf", "ssh_host", "hostkey", "sudoers", "fstab"):
        assert name not in r.out.decode(), (name, r)
    inside = runner.bawn("run", "--network", "none", "--", "ls", "-A", "/var/lib").out.split()
    assert set(inside) <= {b"dpkg", b"apt", b"systemd"}, inside


def test_sources_with_a_password_stay_outside(runner, marker):
    """Claim: a source of apt's that has a password in it is not copied, nor are auth.conf and apt's own configuration (15)."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    etc = runner.mkdir(runner.top / "apt")
    for name, text in {"sources.list": "deb http://plain.example.com/ ./\n", "sources.list.d/a.list": f"deb https://me:{marker}@h/ ./\n", "auth.conf": marker,
                       "apt.conf.d/proxy": marker, "sources.list.d/b.sources": f"Types: deb\nURIs: https://{marker}@h/\n"}.items():
        (etc / name).parent.mkdir(exist_ok=True)
        (etc / name).write_text(text)
    become = f"setpriv --reuid {runner.user.pw_uid} --regid {runner.user.pw_gid} --clear-groups"
    r = subprocess.run(["unshare", "-m", "sh", "-c", f"mount --bind {etc} /etc/apt && exec {become} {runner.path} run --network none -- grep -r . /etc/apt"],
                       env=runner.environ(), cwd=runner.workspace, capture_output=True)
    assert b"plain.example.com" in r.stdout and marker.encode() not in r.stdout, r


def test_the_host_stays_as_it_is(runner):
    """Claim: what root inside writes, removes and renames in /usr, /etc and /var is its own copy (17)."""
    watched = ["/usr/bin", "/usr/lib", "/etc", "/var/lib/dpkg", "/opt", "/"]
    before = {p: (os.stat(p).st_mtime_ns, sorted(os.listdir(p))) for p in watched}
    status = pathlib.Path("/var/lib/dpkg/status").stat()
    script = """
for p in /usr/bin/env /etc/os-release /var/lib/dpkg/status; do echo x >$p; rm -f $p; done
rm -rf /usr/lib/python3 /etc/alternatives; mv /usr/bin/id /usr/bin/di; ln -f /usr/bin/tee /usr/bin/linked; touch /new /usr/bin/new /opt/new
for root in /proc/1/root /proc/self/root /proc/self/cwd/../../../..; do echo x >$root/usr/bin/through; done
test ! -e /usr/bin/env && test -e /usr/bin/new && echo done"""
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", script)
    assert r.out.endswith(b"done\n"), r
    assert {p: (os.stat(p).st_mtime_ns, sorted(os.listdir(p))) for p in watched} == before
    assert pathlib.Path("/var/lib/dpkg/status").stat() == status
    assert not list(pathlib.Path(runner.home / ".local/state/bawn/private").iterdir()), "a run leaves nothing"


def test_links_of_an_earlier_life_lead_no_mount_elsewhere(runner, secret, marker):
    """Claim: links and folders that root inside leaves where Bawn mounts show nothing of the host at the next start (16, 17)."""
    box = lambda *a: runner.bawn(*a)  # noqa: E731
    assert box("start", "box", "--network", "none").rc == 0
    script = f"""
for p in /run/bawn/empty /run/bawn /run /etc/ssl/certs /etc/ssl /var/tmp /var /dev/shm /dev/pts /dev /proc /tmp /usr /opt /sys /home /srv; do
    python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[1] + ".old")' $p || case $p in /usr|/opt|/var|/home|/proc|/sys) ;; *) rm -rf $p;; esac
    ln -s {secret.parent} $p
done 2>/dev/null
ln -s {secret.parent} /srv; ln -s / /mnt; echo done"""
    r = box("exec", "box", "--", "sh", "-c", script)
    assert b"done" in r.out, r
    assert box("stop", "box").rc == 0
    r = box("start", "box")
    if r.rc == 0:
        seen = box("exec", "box", "--", "sh", "-c", f"cat /proc/acpi/id_ed25519 /proc/*/id_ed25519 /srv/id_ed25519 /mnt{secret} {secret} /*/id_ed25519 /*/*/id_ed25519; cat /proc/self/mountinfo")
        assert marker.encode() not in seen.out + seen.err, seen
        assert str(secret.parent).encode() not in seen.out, seen
    else:
        assert b"sandbox root" in r.err, r
    assert secret.read_text() == marker + "\n" and sorted(p.name for p in secret.parent.iterdir()) == ["id_ed25519"]
    assert box("rm", "-f", "box").rc == 0


def test_layers_of_an_image_are_not_filled(runner):
    """Claim: a sandbox that had an image and has none any more does not let Bawn write through links that it left (16)."""
    victim = runner.mkdir(runner.top / "victim")
    imagekit.make_image(runner, "t/plain")
    config = runner.home / ".config/bawn/config.json"
    runner.write(config, json.dumps({"sandbox": {"system": "writable", "image": "t/plain"}}))
    assert runner.bawn("start", "box", "--network", "none").rc == 0
    r = runner.bawn("exec", "box", "--", "sh", "-c", f"rm -rf /etc/perl /etc/passwd; ln -s {victim} /etc/perl; ln -s {victim}/x /etc/passwd; ln -s {victim} /etc/profile.d; ls -l /etc")
    assert r.rc == 0 and r.out.count(str(victim).encode()) == 3, r
    assert runner.bawn("stop", "box").rc == 0
    runner.write(config, json.dumps({"sandbox": {"system": "writable"}}))
    r = runner.bawn("start", "box")
    assert r.rc != 0 and b"was made with an image" in r.err, r
    assert list(victim.iterdir()) == []
    assert runner.bawn("rm", "-f", "box").rc == 0


def test_the_disk_limit_counts_it(runner):
    """Claim: what is written to the system counts as disk space (27)."""
    r = runner.bawn("run", "--network", "none", "--disk", "64m", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8; do head -c 20000000 /dev/urandom >/usr/lib/big-$i || exit 7; sleep 1; done; sleep 20")
    assert r.rc != 0 and b"disk" in r.err, r
    assert subprocess.run(["find", "/usr/lib", "-maxdepth", "1", "-name", "big-*"], capture_output=True, check=True).stdout == b""
