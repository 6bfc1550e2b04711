# SPDX-License-Identifier: Apache-2.0
"""Images that attack: layers that want to write elsewhere, links where mounts go, root inside."""

import os
import pathlib
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import imagekit  # noqa: E402
from imagekit import D, F, H, L, base, entry, make_image, tar  # noqa: E402


def run(runner, image, script, *options):
    return runner.bawn("run", "--network", "none", *options, "--image", image, "--", "sh", "-c", script)


def test_a_layer_writes_nowhere_else(runner):
    """Claim: a layer writes into its own folder only. A tar that is unpacked without that care does write there."""
    victim = runner.mkdir(runner.top / "victim")
    runner.write(victim / "file", "mine")
    v = str(victim)
    ways = [F(f"../../../../../../../..{v}/dots", b"x"), F(f"{v}/absolute", b"x"), L("t/abs", v), F("t/abs/through-link", b"x"), L("t/rel", "../" * 12 + v[1:]), F("t/rel/through-relative", b"x"),
            L("t/a", "b"), L("t/b", "a2"), L("t/a2", v), F("t/a/chain", b"x"), L("t/self", "/proc/self/root" + v), F("t/self/magic", b"x"), L("t/f", v + "/file"), F("t/f", b"replaced"),
            L("t/g", v + "/file"), H("t/hard", "t/g"), H("t/hard2", v + "/file2"), F("t/.wh.../file", b""), F("t/abs/.wh.file", b"")]
    plain = runner.top / "plain.tar"
    plain.write_bytes(tar([L("abs", v), F("abs/proof", b"x")]))
    out = runner.mkdir(runner.top / "out")
    runner.run("python3", "-c", f"import tarfile; t = tarfile.open('{plain}'); [t.extract(m, '{out}') for m in t]")
    assert (victim / "proof").exists(), "the attack does not work even without care, so it proves nothing"
    (victim / "proof").unlink()
    for way in [ways[:2], ways[2:4], ways[4:6], ways[6:10], ways[10:12], ways[12:14], ways[14:16], ways[16:17], ways[17:18], [ways[2], ways[18]]]:
        layout = runner.top / "l"
        imagekit.write_layout(layout, [base(), tar(way)])
        imagekit.share(layout)
        runner.bawn("image", "pull", layout, "-t", "t/evil")  # accepted or refused: what counts is where it wrote
        assert sorted(p.name for p in victim.iterdir()) == ["file"] and (victim / "file").read_text() == "mine" and (victim / "file").stat().st_nlink == 1, way


def test_nothing_of_the_host_is_inside(runner):
    """Claim: the image is all there is; the host's tree is not one '..' away."""
    make_image(runner, "t/x")
    secret = runner.write(runner.top / "secret", "outside")
    runner.write("file", "content")
    for mode in ("direct", "overlay"):
        r = run(runner, "t/x", f"cat {secret} /..{secret} /../..{secret} /proc/1/root{secret} /proc/1/root/..{secret}; ls / /..; cat /proc/self/mountinfo; find / -name secret", "-w", mode)
        assert b"outside" not in r.out, r
        mounts = [line.split() for line in r.out.decode().splitlines() if " - " in line]
        known = ("/tmp", "/var/tmp", "/dev", "/proc", "/sys/devices/system/cpu", "/etc/ssl/certs", "/etc/pki", "/run/bawn", "/home/bawn", str(runner.home), str(runner.workspace))
        assert mounts and all(m[4] == "/" or any(m[4] == k or m[4].startswith(k + "/") for k in known) for m in mounts), mounts
        assert [m[4] for m in mounts].count("/") == 1 and mounts[[m[4] for m in mounts].index("/")][mounts[[m[4] for m in mounts].index("/")].index("-") + 1] == "overlay"


def test_links_of_an_image_lead_no_mount_elsewhere(runner):
    """Claim: an image that has links where Bawn mounts (home, /tmp, /etc, /proc, the workspace's parents) gets folders in their place."""
    victim = runner.mkdir(runner.top / "victim")
    ws = str(runner.workspace).strip("/").split("/")
    links = [L("proc", str(victim)), L("tmp", str(victim)), L("dev", "/t"), L("run", "/etc"), L("sys", "/t"), L("home", "/etc"), L("etc/ssl", "/t"), L("var", "/t"), L("etc/resolv.conf", "/t/resolv")]
    make_image(runner, "t/links", [base(), tar([*links, L("workspace", "/etc")])])
    r = run(runner, "t/links", "cat file; echo ok > made; echo x > /tmp/y; cat /etc/resolv.conf; ls -la / /t; test -c /dev/null && test -d /proc/self && echo fine")
    assert ws and r.rc == 0 and b"fine" in r.out, r
    assert (runner.workspace / "made").read_text() == "ok\n" and not list(victim.iterdir())
    assert b"resolv" not in r.out.split(b"/t:")[1]


def test_root_of_an_image_gets_nothing(runner):
    """Claim: uid 0 of an image has no capability, changes nothing of the kernel's, and outside it is who started it."""
    make_image(runner, "t/x", [base(), tar([F("t/suid", imagekit.BUSYBOX.read_bytes(), 0o6755), entry("t/kmem", tarfile.CHRTYPE)])])
    r = run(runner, "t/x", "id -u; grep Cap /proc/self/status; busybox grep -i ^cap /proc/self/status; cat /proc/self/uid_map; mount -t tmpfs x /tmp && echo MOUNTED; mknod /tmp/d c 1 1 && echo MADE;"
            " chown 5 /tmp && echo OWNED; echo 1 > /proc/sys/kernel/sysrq && echo SYSCTL; echo 0 > /proc/sys/net/ipv4/ip_forward && echo NET; kill -9 1; busybox chroot /t && echo CHROOT;"
            " busybox mount -o remount,rw / && echo REMOUNTED; echo x > /bin/new && echo WRITTEN; busybox unshare -m true && echo UNSHARED; cat /t/kmem; touch made; echo end")
    assert r.rc == 0 and r.out.startswith(b"0\n") and r.out.endswith(b"end\n"), r
    for word in (b"MOUNTED", b"MADE", b"OWNED", b"SYSCTL", b"NET", b"CHROOT", b"REMOUNTED", b"WRITTEN", b"UNSHARED"):
        assert word not in r.out, r
    caps = [line.split()[1] for line in r.out.splitlines() if line.startswith(b"Cap")]
    assert caps and all(int(c, 16) == 0 for c in caps), r
    assert (runner.workspace / "made").stat().st_uid == runner.user.pw_uid


def test_the_jail_of_bawn_pull(runner):
    """Claim: what reads a layer has no capability, no other folder, no network without a registry, and by root an id of its own."""
    pipe = runner.top / "pipe"
    os.mkfifo(pipe)
    os.chmod(pipe, 0o666)
    staging, layers, partial = (runner.mkdir(runner.top / n, 0o777) for n in ("staging", "layers", "partial"))
    fds = [os.open(p, os.O_RDONLY) for p in (staging, layers, partial)] + [os.open(pipe, os.O_RDWR), os.open("/dev/null", os.O_RDONLY)]
    high = [os.dup2(fd, 200 + i) for i, fd in enumerate(fds)]
    script = "exec " + " ".join(f"{3 + i}<&{fd}" for i, fd in enumerate(high)) + f'; exec "{runner.helper("bawn-pull")}" --from=stream'
    proc = runner.popen("bash", "-c", script, pass_fds=high)
    try:
        status = {}
        while status.get("Seccomp") != "2" and proc.poll() is None:
            status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{proc.pid}/status").read_text().splitlines() if ":\t" in line)
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapPrm"], 16) == 0, status
        uid = int(status["Uid"].split()[0])
        assert uid == (0x6ffffff0 if runner.is_root else runner.user.pw_uid), status
    finally:
        proc.kill()
        proc.wait()
        for fd in fds + high:
            os.close(fd)


def test_an_image_of_a_project_waits_for_trust(runner):
    """Claim: a project's file does not choose the programs until the project is trusted."""
    make_image(runner, "t/evil", [base(), tar([F("t/marker", b"evil"), D("t/d")])])
    runner.write(".bawn/config.json", '{"sandbox": {"image": "t/evil"}}')
    r = runner.bawn("run", "--network", "none", "--", "sh", "-c", "cat /t/marker || echo host")
    assert b"evil" not in r.out and b"host" in r.out, r
