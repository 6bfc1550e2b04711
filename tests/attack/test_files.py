# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C2: nothing of the host's files but the workspace, by whatever name one asks for it."""

import hashlib
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import threading

import pytest


def test_symlink_to_a_secret_is_not_followed_out(attack, secret):
    """Claim: a link in the workspace leads nowhere outside (15)."""
    (attack.runner.workspace / "notes.txt").symlink_to(secret)
    attack("grep -q bawn-secret notes.txt")


def test_symlink_to_a_folder_is_not_followed_out(attack, secret):
    """Claim: the same through a linked folder, absolute and relative (15)."""
    work = attack.runner.workspace
    (work / "keys").symlink_to(secret.parent)
    (work / "up").symlink_to(os.path.relpath(secret.parent, work))
    attack("grep -q bawn-secret keys/id_ed25519")
    attack("grep -q bawn-secret up/id_ed25519")
    attack("grep -q bawn-secret ../home/.ssh/id_ed25519")


def test_symlink_does_not_let_a_write_out(attack, secret, marker):
    """Claim: writing through a link changes no file of the host (15)."""
    (attack.runner.workspace / "out").symlink_to(secret)
    before = secret.stat()
    inside = attack.runner.bawn("run", "--", "sh", "-c", "echo owned > out")
    assert secret.read_text() == marker + "\n", inside
    assert secret.stat().st_mtime_ns == before.st_mtime_ns
    attack("echo owned >> out")
    assert secret.read_text() == marker + "\nowned\n", "once from the outside half, never from inside"


def test_swapping_a_symlink_in_a_race_wins_nothing(pyattack, secret):
    """Claim: no moment exists in which a path is checked on one file and opened on another (16)."""
    work = pyattack.runner.workspace
    pyattack.runner.write("plain", "harmless")
    pyattack(
        """
        pid = os.fork()
        if pid == 0:
            n = 0
            while os.getppid() != 1 and n < 200000:
                n += 1
                for target in ("plain", sys.argv[1]):
                    try: os.symlink(target, "tmp-link")
                    except FileExistsError: pass
                    os.rename("tmp-link", "link")
            os._exit(0)
        try:
            for i in range(20000):
                try:
                    with open("link") as f:
                        if "bawn-secret" in f.read(): return i
                except (FileNotFoundError, PermissionError): pass
            return False
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    """,
        args=[secret],
    )
    assert (work / "plain").read_text() == "harmless"


@pytest.mark.parametrize(
    "prefix", ["/proc/self/root", "/proc/thread-self/root", "/proc/self/cwd/..", "/proc/self/task/../root"]
)
def test_magic_links_do_not_lead_out(pyattack, secret, prefix):
    """Claim: /proc's links end inside (17)."""
    path = f"{prefix}/home/.ssh/id_ed25519" if "cwd" in prefix else f"{prefix}{secret}"
    pyattack("return 'bawn-secret' in open(sys.argv[1]).read()", args=[path])


@pytest.mark.parametrize("link", ["root", "cwd", "exe", "fd/0", "fd/3", "ns/mnt", "map_files"])
def test_links_of_pid_1_are_closed(pyattack, link):
    """Claim: the links of the sandbox's PID 1 cannot be followed; outside, those of an own process can (17, 20)."""
    victim = pyattack.runner.popen("sleep", "1000", stdin=subprocess.DEVNULL)
    try:
        link_outside = {"fd/3": "fd/0"}.get(link, link)
        pyattack(
            """
            path = sys.argv[1]
            return os.listdir(path) if path.endswith("map_files") else os.stat(path).st_ino
        """,
            args=[f"/proc/{victim.pid}/{link_outside}"],
            inside_args=[f"/proc/1/{link}"],
        )
    finally:
        victim.kill()
        victim.wait()


def test_pid_1_root_does_not_lead_out(pyattack, secret):
    """Claim: /proc/1/root is no door, even for a start by root (17)."""
    pyattack("return 'bawn-secret' in open(sys.argv[1]).read()", args=[secret], inside_args=[f"/proc/1/root{secret}"])


def descriptors_of_the_attack(secret):
    directory = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open(secret, os.O_RDWR)
    a, b = socket.socketpair()
    high = 1000
    os.dup2(directory, high)
    os.set_inheritable(high, True)
    return [directory, file, a.detach(), b.detach(), high]


def test_inherited_descriptors_are_closed(runner, probe, secret):
    """Claim: the command gets 0, 1, 2 and nothing else, whatever Bawn itself was started with (19)."""
    fds = descriptors_of_the_attack(secret)
    try:
        outside = runner.run(probe, "fds", pass_fds=fds)
        assert outside.rc == 0 and outside.out.count(b"descriptor") == len(fds), outside
        inside = runner.bawn("run", "--", probe, "fds", pass_fds=fds)
    finally:
        for fd in fds:
            os.close(fd)
    assert inside.rc == 3 and inside.out == b"", inside


def test_standard_input_as_a_folder_is_no_door(runner, secret):
    """Claim: a descriptor 0 that is a folder of the host does not open the host's tree (19, the runc CVE-2024-21626 way)."""
    code = "cat /proc/self/fd/0/.ssh/id_ed25519; cat /dev/stdin/.ssh/id_ed25519"
    with_folder = os.open(runner.home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        outside = runner.run("sh", "-c", code, stdin=with_folder)
        assert b"bawn-secret" in outside.out, outside
        inside = runner.bawn("run", "--", "sh", "-c", code, stdin=with_folder)
    finally:
        os.close(with_folder)
    assert inside.rc != 0 and b"bawn-secret" not in inside.out + inside.err, inside


REOPEN = "for fd in 0 1 2; do echo owned > /proc/self/fd/$fd; echo owned >> /dev/fd/$fd; done 2>/dev/null; timeout 2 head -c 100 /proc/self/fd/1 > read-back 2>/dev/null; true"


def test_a_file_given_as_a_stream_cannot_be_opened_anew(runner, marker):
    """Claim: a host file at descriptor 0, 1 or 2 can be used as the stream that it is, not opened again with more rights (17, 19)."""
    source = runner.write(runner.home / "source", marker + "\n", 0o600)
    log = runner.write(runner.home / "log", marker + "\n", 0o600)

    def go(*front):
        with open(source, "rb") as stdin, open(log, "ab") as stdout:
            runner.popen(*front, "sh", "-c", REOPEN, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL).wait()
        return (runner.workspace / "read-back").read_text() if (runner.workspace / "read-back").exists() else ""

    go()
    assert "owned" in source.read_text(), "outside, a file opened for reading is written through /proc"
    source.write_text(marker + "\n")
    log.write_text(marker + "\n")
    (runner.workspace / "read-back").unlink()
    back = go(runner.path, "run", "--")
    assert source.read_text() == marker + "\n"
    assert log.read_text().startswith(marker + "\n"), "what was there before is still there"
    assert marker not in back


def programs_of(bawn):
    return [p for p in bawn.parent.iterdir() if p.is_file() and p.name in ("bawn", "bawn-init")]


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_our_programs_cannot_be_overwritten_through_proc(pyattack, bawn):
    """Claim: /proc/1/exe and /proc/self/exe give no handle on Bawn's own programs (20, CVE-2019-5736)."""
    runner = pyattack.runner
    before = {p: digest(p) for p in programs_of(bawn)}
    victim = runner.write("victim", pathlib.Path("/bin/sleep").read_bytes(), 0o755)
    process = runner.popen(victim, "1000")
    try:
        pyattack(
            """
            fd = os.open(sys.argv[1], os.O_RDONLY)
            if sys.argv[1] != "/proc/1/exe": os.kill(int(sys.argv[1].split("/")[2]), 9); time.sleep(0.5)
            return os.open("/proc/self/fd/%d" % fd, os.O_WRONLY)
        """,
            args=[f"/proc/{process.pid}/exe"],
            inside_args=["/proc/1/exe"],
        )
    finally:
        process.kill()
        process.wait()
    assert {p: digest(p) for p in programs_of(bawn)} == before


def test_a_script_that_names_proc_self_exe_as_interpreter(runner, bawn):
    """Claim: a `#!/proc/self/exe` script gets no copy of PID 1 that it could trace or overwrite (20)."""
    before = {p: digest(p) for p in programs_of(bawn)}
    runner.write("trap", "#!/proc/self/exe\n", 0o755)
    inside = runner.bawn("run", "--", "./trap")
    assert inside.rc != 0, inside
    assert {p: digest(p) for p in programs_of(bawn)} == before


SETID = [
    (how, mode)
    for how in (
        "chmod",
        "chmod-high-bits",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "open",
        "creat",
        "openat2",
        "mknod",
        "mknodat",
    )
    for mode in ("4755", "2755")
]


@pytest.mark.parametrize("how,mode", SETID)
def test_no_setuid_file_is_left_in_the_workspace(cattack, how, mode):
    """Claim: no file with the setuid or setgid bit reaches the host (30)."""
    name = cattack.runner.workspace / "planted"
    shown = cattack.runner.run(cattack.runner.workspace / "probe", "setid", how, "shown", mode)
    assert shown.rc == 0, shown
    inside = cattack.runner.bawn("run", "--", "./probe", "setid", how, "planted", mode)
    assert inside.rc == 3, inside
    assert not name.exists() or not name.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), inside


def test_no_file_capability_is_left_in_the_workspace(cattack):
    """Claim: no file capability can be written (30)."""
    cattack("setid", "xattr", "shown", "755", shown_by_root=True, inside_args=["xattr", "planted", "755"])


@pytest.mark.parametrize("kind", ["mknod-chr", "mknod-blk", "mknodat-chr"])
def test_no_device_is_left_in_the_workspace(cattack, kind):
    """Claim: no device node can be made (30)."""
    work = cattack.runner.workspace
    inside = cattack.runner.bawn("run", "--", "./probe", "syscall", kind)
    assert inside.rc == 3, inside
    assert not [p for p in work.iterdir() if stat.S_ISCHR(p.lstat().st_mode) or stat.S_ISBLK(p.lstat().st_mode)]
    cattack("syscall", kind, shown_by_root=True)


def test_a_setuid_file_of_the_workspace_gives_no_rights(root_runner, built_probes):
    """Claim: a setuid-root program that lies in the workspace runs with the rights of everybody else (30)."""
    path = root_runner.workspace / "probe"
    shutil.copy(built_probes / "probe", path)
    os.chown(path, 0, 0)
    path.chmod(0o4755)
    outside = subprocess.run([path, "whoami"], user="nobody", capture_output=True)
    assert outside.returncode == 0 and b"euid 0" in outside.stdout
    inside = root_runner.bawn("run", "--", "./probe", "whoami")
    assert inside.rc == 3, inside


def test_a_device_of_the_workspace_cannot_be_opened(root_runner):
    """Claim: a device node that lies in the workspace cannot be opened inside (30)."""
    path = root_runner.workspace / "zero"
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    path.chmod(0o666)
    assert root_runner.run("head", "-c", "1", path).rc == 0
    inside = root_runner.bawn("run", "--", "head", "-c", "1", path)
    assert inside.rc == 1 and inside.out == b"", inside


@pytest.mark.parametrize("trap", ["fifo", "folder", "loop", "endless", "sparse"])
def test_a_trap_in_place_of_our_file_does_not_hang_or_stop_bawn(runner, trap):
    """Claim: what a run left at the path of a file that Bawn reads cannot hang the next one (30)."""
    plant = {
        "fifo": "mkfifo .bawn/config.json",
        "folder": "mkdir .bawn/config.json",
        "loop": "ln -s config.json .bawn/config.json",
        "endless": "ln -s /dev/zero .bawn/config.json",
        "sparse": "truncate -s 100G .bawn/config.json",
    }[trap]
    first = runner.bawn("run", "--", "sh", "-c", f"mkdir .bawn && {plant}")
    if first.rc != 0:  # then the path is protected, and the trap is set by hand
        runner.run("sh", "-c", f"mkdir -p .bawn && {plant}")
    second = runner.bawn("run", "--", "echo", "alive")
    assert (second.rc, second.out) == (0, b"alive\n") or (
        second.rc in (64, 125) and second.err.startswith(b"bawn:")
    ), second


NAMES = [
    b"plain",
    b"with space",
    b"new\nline",
    b"quote\"'",
    b"star*[a]?",
    b"back\\slash",
    b"colon:ro",
    b"comma,x",
    "\u00e9\u4e16".encode(),
    b"\xff\xfe not utf-8",
    b"-dash",
    b"$HOME",
    b"a=b",
    b"\x1b[31mred",
    b"dot.",
    b"\xcc\x81combining",
    b"\\040octal",
]


@pytest.mark.parametrize("name", NAMES, ids=lambda n: ascii(n)[2:-1])
def test_names_that_are_no_text(runner, name):
    """Claim: a workspace of any name is itself inside, and nothing else is (28)."""
    folder = os.path.join(os.fsencode(runner.top), name)
    os.mkdir(folder)
    os.chown(folder, runner.user.pw_uid, runner.user.pw_gid)
    sibling = os.path.join(os.fsencode(runner.top), b"sibling")
    os.mkdir(sibling)
    r = runner.bawn("run", "--", "sh", "-c", "pwd; echo here > file; ls -a ..", cwd=folder)
    assert r.rc == 0, r
    assert r.out.startswith(folder + b"\n"), r
    assert b"sibling" not in r.out, r
    assert open(os.path.join(folder, b"file"), "rb").read() == b"here\n"


def test_nothing_of_the_host_is_found_by_looking_everywhere(runner, marker, inside):
    """Claim: of the host's files only the workspace and the read-only tools exist inside (75, promise 1)."""
    planted = [
        ".aws/credentials",
        ".config/gh/hosts.yml",
        ".claude/.credentials.json",
        ".docker/config.json",
        ".git-credentials",
        ".kube/config",
        ".netrc",
        ".npmrc",
        ".gnupg/private-keys-v1.d/key",
        ".local/share/keyrings/login.keyring",
        ".bash_history",
        ".ssh/config",
    ]
    for name in planted:
        path = runner.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        runner.write(path, marker)
    outside = [pathlib.Path(f"{folder}/{marker}") for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    for path in outside:
        path.write_text(marker)
        path.chmod(0o644)
    runner.write("control", marker)
    search = (
        'for d in / /dev/shm /home /root /run /mnt /var /tmp "$@"; do grep -rslI --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr '
        f'{marker} "$d"; done | sort -u; true'
    )
    try:
        host = runner.run(
            "sh", "-c", search.replace("/ /dev", "/dev").replace("/home /root /run /mnt /var", str(runner.top)), "sh"
        )
        assert len(host.out.splitlines()) >= len(planted) + 3, host
        found = runner.bawn("run", "--", "sh", "-c", search, "sh", str(runner.home))
    finally:
        for path in outside:
            path.unlink()
    assert found.rc == 0, found
    places = {line for line in found.out.decode().splitlines()}
    assert places and all(p.endswith("/control") for p in places), found


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/ssh",
        "/root/.bashrc",
        "/var/lib",
        "/var/log",
        "/run",
        "/boot",
        "/home",
        "/mnt",
        "/media",
        "/srv",
        "/opt/bawn-test",
        "/lost+found",
        "/etc/sudoers",
        "/var/cache/bawn-test",
    ],
)
def test_host_folders_are_not_there(runner, path):
    """Claim: these paths are absent or empty inside (75)."""
    r = runner.bawn(
        "run",
        "--",
        "sh",
        "-c",
        f'test ! -e {path} || {{ test -d {path} && test -z "$(find {path} -path "$HOME" -prune -o -path /run/bawn -prune -o -mindepth 1 ! -type d -print | head -1)"; }} || {{ find {path}; exit 1; }}',
    )
    assert r.rc == 0, r


@pytest.mark.parametrize("path", ["/usr/bin", "/usr/local", "/etc", "/lib", "/usr/lib", "/bin", "/sbin"])
def test_tools_are_read_only(pyattack, path):
    """Claim: the host's programs and libraries cannot be changed from inside."""
    if not os.path.isdir(path):
        pytest.skip("needs the program folder " + path)
    name = f"{path}/bawn-test-{os.getpid()}"
    try:
        pyattack(
            "os.close(os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_EXCL)); os.unlink(sys.argv[1])",
            args=[name],
            shown_by_root=True,
        )
    finally:
        assert not os.path.exists(name)


def test_existing_tools_cannot_be_opened_for_writing(pyattack):
    """Claim: no file of /usr, /etc, /lib can be opened for writing inside; outside root can."""
    pyattack(
        """
        hits = []
        for top in ("/usr/bin", "/etc", "/usr/lib/x86_64-linux-gnu"):
            for name in sorted(os.listdir(top))[:400]:
                path = os.path.join(top, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    try: os.close(os.open(path, os.O_WRONLY))
                    except OSError: continue
                    hits.append(path)
        return hits or False
    """,
        shown_by_root=True,
    )


def test_mounts_cannot_be_made_or_undone(runner):
    """Claim: what the sandbox's mounts hide or protect stays so: no mount, umount, remount from inside (33)."""
    tries = [
        "mount -o remount,rw /usr",
        "mount --bind /tmp /usr/bin",
        "umount -l /proc",
        "umount -l /usr",
        "mount -t tmpfs none /tmp",
        "mount -t proc proc /tmp",
        "mount -o remount,rw /",
        "umount -l /workspace",
        "umount -l /dev",
    ]
    for command in tries:
        # In a throw-away mount namespace the same commands work, so it is not the command that is wrong.
        before = runner.run(
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "sh",
            "-c",
            "mount -t tmpfs none /mnt && umount /mnt",
        )
        assert before.rc == 0, before
        r = runner.bawn(
            "run",
            "--",
            "sh",
            "-c",
            f"cat /proc/self/mountinfo > before; {command}; e=$?; cat /proc/self/mountinfo > after; cmp before after && exit $e",
        )
        assert r.rc not in (0, 125), r


def test_nested_user_namespace_is_refused(attack):
    """Claim: no user namespace, and so no new privilege, can be had inside (33)."""
    attack("unshare --user --map-root-user true")
    attack("unshare --user --map-root-user --mount --net true")
    attack(["bwrap", "--bind", "/", "/", "true"])


NEW = {
    "user": 0x10000000,
    "mnt": 0x20000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x8000000,
    "uts": 0x4000000,
    "cgroup": 0x2000000,
}


@pytest.mark.parametrize("call", ["clone", "clone3"])
@pytest.mark.parametrize("kind", NEW)
def test_no_namespace_by_clone(cattack, call, kind):
    """Claim: neither clone nor clone3 (whose flags no filter can read) makes a namespace (33, 82)."""
    cattack(call, hex(NEW[kind]), shown_by_root=True)


def test_files_made_inside_belong_to_the_owner_of_the_workspace(runner):
    """Claim: nothing is left on the host that its owner cannot remove, and nothing is left in another's name."""
    r = runner.bawn("run", "--", "sh", "-c", "mkdir d && touch d/f && ln -s f d/l && mkfifo d/p")
    assert r.rc == 0, r
    owner = runner.workspace.stat()
    for path in [runner.workspace / "d", *(runner.workspace / "d").iterdir()]:
        assert (path.lstat().st_uid, path.lstat().st_gid) == (owner.st_uid, owner.st_gid), path


def test_files_of_others_in_the_workspace_stay_theirs(root_runner, marker):
    """Claim: started by root, the sandbox has the rights of the workspace's owner, not root's: others' files stay closed."""
    other = root_runner.workspace / "other"
    other.write_text(marker)
    os.chown(root_runner.workspace, 4242, 4242)
    os.chown(other, 4343, 4343)
    other.chmod(0o600)
    assert root_runner.run("cat", other).out.decode() == marker
    r = root_runner.bawn("run", "--", "sh", "-c", "cat other; chown 0:0 other; chmod 666 other; cat other; id -u")
    assert marker.encode() not in r.out, r
    assert other.stat().st_uid == 4343 and stat.S_IMODE(other.stat().st_mode) == 0o600, r
    assert r.out.endswith(b"4242\n"), r


def test_a_hard_link_made_inside_reaches_no_outside_file(pyattack, secret):
    """Claim: link() cannot bring an outside file in (15)."""
    pyattack("os.link(sys.argv[1], sys.argv[2])", args=[secret, "hard1"], inside_args=[secret, "hard2"])


def test_a_rename_of_the_workspace_during_the_run_changes_nothing(runner, secret):
    """Claim: what was bound at the start is what is seen, though the path now leads to a secret (16)."""
    work = runner.workspace
    script = "echo ready; read go; ls -a; cat id_ed25519 2>/dev/null; cat $1/id_ed25519 2>/dev/null; exit 0"
    p = runner.popen(
        runner.path,
        "run",
        "--",
        "sh",
        "-c",
        script,
        "sh",
        str(work),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert p.stdout.readline() == b"ready\n", p.communicate(b"\n")
    work.rename(runner.top / "moved")
    work.symlink_to(secret.parent)
    out, err = p.communicate(b"go\n")
    work.unlink()
    (runner.top / "moved").rename(work)
    assert b"bawn-secret" not in out and p.returncode == 0, (out, err)


def test_starts_while_the_workspace_is_swapped_for_a_link(runner, secret):
    """Claim: a sandbox that swaps a project folder for a link to a secret, while Bawn starts in a subfolder, wins nothing (16)."""
    real, link = runner.mkdir(runner.workspace / "a"), runner.workspace / "b"
    runner.write(real / "plain", "harmless")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            link.symlink_to(real)
            link.unlink()
            config = runner.workspace / ".bawn"
            config.symlink_to(secret.parent)
            config.unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(40):
            r = runner.bawn("run", "--", "sh", "-c", "cat .bawn/* b/id_ed25519 2>/dev/null; exit 0")
            assert b"bawn-secret" not in r.out + r.err, r
    finally:
        stop.set()
        swapper.join()


@pytest.mark.parametrize("mode", ["direct", "overlay"])
def test_a_rename_leaves_no_device(pyattack, mode):
    """Claim: RENAME_WHITEOUT, which leaves a device node behind, is refused (30)."""
    try:
        pyattack(
            """
            libc = ctypes.CDLL(None, use_errno=True)
            for left in ("from", "to"):
                if os.path.lexists(left): os.unlink(left)
            open("from", "w")
            if libc.renameat2(-100, b"from", -100, b"to", 4) < 0: raise OSError(ctypes.get_errno(), "renameat2")
            return stat.S_ISCHR(os.lstat("from").st_mode)
            """,
            "--workspace",
            mode,
        )
    finally:
        for left in ("from", "to"):
            (pyattack.runner.workspace / left).unlink(missing_ok=True)
