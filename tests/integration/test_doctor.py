# SPDX-License-Identifier: Apache-2.0
"""`bawn doctor`: what it says is what `bawn run` does, on this host and with features denied; and it leaves nothing behind."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from kept_left import cgroups, cgroups_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GUARANTEES = {"files", "processes", "network", "sockets", "syscalls", "cpu", "memory", "pids", "disk", "time", "end", "hiding", "hiding-later", "protection", "names", "ports", "credentials", "kernel"}
LIMITS = {"cpu", "memory", "pids"}
STATUS = {"full": 0, "weaker": 1, "refused": 125}


@pytest.fixture(scope="session")
def deny():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-deny.", dir="/var/tmp"))
    top.chmod(0o755)
    source = ROOT / "tests" / "degraded" / "deny.c"
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-I", ROOT / "src", "-o", top / "deny", source, "-lseccomp"], check=True)
    yield top / "deny"
    shutil.rmtree(top)


def rungs(report):
    native = next(e for e in report["engines"] if e["name"] == "native")
    return {r["name"]: r for r in native["rungs"]}


def checks(report):
    return {c["id"]: c for c in report["checks"]}


def doctor(runner, *front):
    r = runner.run(*front, runner.path, "doctor", "--json")
    assert r.err == b"", r
    report = r.json()
    assert r.rc == report["run"]["status"] == STATUS[report["run"]["outcome"]], r
    return report


def test_the_full_rung_here(runner):
    """Claim: on a machine that has everything doctor says so, for root and for a user."""
    report = doctor(runner)
    assert report["run"]["outcome"] == "full" and report["run"]["rung"] == "full", report["run"]
    full = rungs(report)["full"]
    assert full["available"] and GUARANTEES - LIMITS - {"kernel"} <= set(full["keeps"])
    assert report["host"]["uid"] == runner.user.pw_uid
    assert checks(report)["workspace"]["value"] == str(runner.workspace)
    assert {c["verdict"] for c in report["checks"]} <= {"ok", "info", "warn", "missing"}


def test_keys_are_those_of_the_manual(runner):
    """Claim: docs/doctor.md names every key, check, fix and guarantee."""
    text = (ROOT / "docs" / "doctor.md").read_text()
    report = doctor(runner)
    names = set(report) | set(report["host"]) | set(report["run"]) | set(report["guarantees"]) | set(checks(report))
    names |= {k for c in report["checks"] for k in c} | {k for e in report["engines"] for k in e} | {k for r in rungs(report).values() for k in r}
    missing = sorted(n for n in names if f"`{n}`" not in text)
    assert not missing
    assert set(report["guarantees"]) == GUARANTEES


def test_every_rung_is_a_partition_of_the_guarantees(runner):
    for engine in doctor(runner)["engines"]:
        for rung in engine["rungs"]:
            assert set(rung["keeps"]) | set(rung["lacks"]) == GUARANTEES and not set(rung["keeps"]) & set(rung["lacks"])


def test_limits_are_claimed_only_where_they_are_enforced(runner):
    """Claim: what doctor calls kept is what the run's cgroup enforces."""
    claimed = LIMITS & set(rungs(doctor(runner))["full"]["keeps"])
    r = runner.bawn("run", "--json", "--cpus", "1", "--memory", "256m", "--pids", "50", "--", "true")
    assert r.rc == 0, r
    enforced = json.loads(r.err.decode().splitlines()[-1])["enforced"]
    assert claimed == {k for k, v in enforced.items() if v}, (claimed, r)


def give_away(runner):
    """Without user namespaces the command gets the id of the workspace's owner, and root's is refused."""
    if runner.is_root:
        os.chown(runner.workspace, 1000, 1000)


# What is denied, what doctor has to say, and which fix it has to offer.
DENIED = [
    (["userns"], "weaker", "filter"),
    (["landlock"], "full", "landlock"),
    (["userns", "landlock"], "refused", "filter"),
    (["seccomp"], "refused", "kernel"),
    (["newmount"], "refused", "kernel"),
    (["memfd"], "refused", "kernel"),
    (["openat2", "clone3", "pidfd", "closerange"], "full", None),
]


@pytest.mark.parametrize("features, outcome, fix", DENIED, ids=["-".join(d[0]) for d in DENIED])
def test_doctor_and_run_agree(runner, deny, features, outcome, fix):
    """Claim: doctor foretells whether a run is full, weaker (and announced as such) or refused."""
    give_away(runner)
    front = [deny, *features, "--"]
    report = doctor(runner, *front)
    assert report["run"]["outcome"] == outcome, report["run"]
    if report["host"]["container"] is None and fix:
        assert fix in [f["id"] for f in report["fixes"]], report["fixes"]
    r = runner.run(*front, runner.path, "run", "--", "echo", "ran")
    assert (r.rc, r.out) == ((125, b"") if outcome == "refused" else (0, b"ran\n")), r
    assert (b"landlock rung" in r.err) == (outcome == "weaker"), r


def test_the_weaker_rung_claims_less(runner, deny):
    give_away(runner)
    report = doctor(runner, deny, "userns", "--")
    both = rungs(report)
    assert not both["full"]["available"] and both["full"]["keeps"] == [] and both["full"]["remedy"]
    assert both["landlock"]["available"] and {"files", "network"} <= set(both["landlock"]["keeps"])
    assert {"processes", "disk"} <= set(both["landlock"]["lacks"])
    assert any("landlock rung" in line for line in report["run"]["announces"])
    assert checks(report)["userns"]["verdict"] == "missing"


COVERED = {
    # A container that covers a part of /proc; a chroot; a container's root without CAP_SYS_ADMIN.
    "proc": ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /proc/keys && exec "$@"', "sh"],
    "chroot": ["unshare", "--mount", "sh", "-c", 'd=$PWD && mount --rbind / /mnt && exec chroot /mnt sh -c \'cd "$0" && exec "$@"\' "$d" "$@"', "sh"],
    "no-sys-admin": ["setpriv", "--bounding-set=-sys_admin"],
}


@pytest.mark.parametrize("place", COVERED)
def test_root_in_a_container_gets_the_weaker_rung(root_runner, place):
    """Claim (R11): inside containers Bawn starts by a weaker rung that says so; doctor knows before."""
    give_away(root_runner)
    report = doctor(root_runner, *COVERED[place])
    assert report["run"]["outcome"] == "weaker" and report["run"]["why"], report["run"]
    assert report["fixes"]
    r = root_runner.run(*COVERED[place], root_runner.path, "run", "--", "echo", "ran")
    assert r.rc == 0 and r.out == b"ran\n" and b"landlock rung" in r.err, r


def test_root_that_cannot_become_anybody_else_is_refused(root_runner):
    """Claim: the landlock rung never runs as the host's root."""
    bare = ["setpriv", "--bounding-set=-all"]
    for owner in (0, 1000):
        os.chown(root_runner.workspace, owner, owner)
        assert doctor(root_runner, *bare)["run"]["outcome"] == "refused"
        r = root_runner.run(*bare, root_runner.path, "run", "--", "echo", "ran")
        assert r.rc == 125 and r.out == b"" and b"root" in r.err, r


def test_root_of_a_user_namespace_is_only_its_user(user_runner):
    """Claim (R11): in a rootless container, whose root is the user outside, the weaker rung runs."""
    inside = ["unshare", "--user", "--map-root-user"]
    assert doctor(user_runner, *inside)["run"]["outcome"] == "weaker"
    r = user_runner.run(*inside, user_runner.path, "run", "--", "echo", "ran")
    assert r.rc == 0 and r.out == b"ran\n" and b"landlock rung" in r.err, r


def test_no_control_groups(root_runner):
    """Claim: without cgroups the rung is full, but limits are not among what it keeps, and the run announces it."""
    report = doctor(root_runner, "unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh")
    assert report["run"]["outcome"] == "full" and LIMITS <= set(rungs(report)["full"]["lacks"])
    assert "cgroup" in [f["id"] for f in report["fixes"]]
    assert any("cgroup" in line for line in report["run"]["announces"])


def test_a_folder_that_cannot_be_a_workspace(runner):
    report = doctor(runner, "env", "-C", "/")
    assert report["run"]["outcome"] == "refused" and checks(report)["workspace"]["verdict"] == "missing"
    r = runner.run("env", "-C", "/", runner.path, "run", "--", "true")
    assert r.rc == 125, r


def test_without_bawn_init(runner):
    """Claim: a broken installation is found."""
    alone = runner.workspace / "bawn"
    shutil.copy(runner.path, alone)
    alone.chmod(0o755)
    r = runner.run(alone, "doctor", "--json")
    assert r.rc == 125 and checks(r.json())["init"]["verdict"] == "missing", r
    assert "programs" in [f["id"] for f in r.json()["fixes"]]


def test_fix_prints_and_changes_nothing(runner, deny):
    """Claim: --fix only prints; every text of the JSON report is in it."""
    r = runner.run(deny, "userns", "landlock", "--", runner.path, "doctor", "--fix")
    assert r.rc == 125 and r.err == b"", r
    for fix in doctor(runner, deny, "userns", "landlock", "--")["fixes"]:
        assert fix["text"] in r.out.decode() and fix["title"] in r.out.decode()
    assert list(runner.workspace.iterdir()) == []


def test_fix_with_nothing_missing(root_runner):
    if doctor(root_runner)["fixes"]:
        pytest.skip("needs a kernel with everything that doctor looks for")
    r = root_runner.bawn("doctor", "--fix")
    assert r.rc == 0 and b"Nothing is missing" in r.out, r


def test_text_for_people(runner, deny):
    r = runner.bawn("doctor")
    assert r.rc == 0 and b"full sandbox" in r.out and b"\033" not in r.out and r.err == b"", r
    give_away(runner)
    r = runner.run(deny, "userns", "--", runner.path, "doctor")
    assert r.rc == 1 and b"weaker sandbox" in r.out and b"bawn doctor --fix" in r.out, r


def test_colours_on_a_terminal(runner):
    shell = f"{runner.path} doctor"
    r = runner.run("script", "-qec", shell, "/dev/null", env={"TERM": "xterm"})
    assert b"\033[32mok" in r.out, r
    r = runner.run("script", "-qec", shell, "/dev/null", env={"TERM": "xterm", "NO_COLOR": "1"})
    assert b"\033" not in r.out, r


def test_quiet(runner, deny):
    r = runner.bawn("doctor", "--quiet")
    assert (r.rc, r.out, r.err) == (0, b"", b""), r
    give_away(runner)
    assert runner.run(deny, "userns", "--", runner.path, "doctor", "-q").rc == 1


def test_usage(runner):
    for args in (["--fxi"], ["extra"], ["--json=1"]):
        r = runner.bawn("doctor", *args)
        assert r.rc == 64 and r.out == b"" and r.err.startswith(b"bawn: "), r


def test_a_report_that_cannot_be_written_is_a_failure(runner):
    with open("/dev/full", "wb") as full:
        p = runner.popen(runner.path, "doctor", stdout=full, stderr=subprocess.PIPE)
        assert b"No space left" in p.communicate()[1] and p.returncode == 125


# A view of mounts and a /tmp that no other test changes meanwhile.
ALONE = """
mount -t tmpfs -o mode=1777 tmp /tmp && before=$(cat /proc/self/mountinfo) || exit 3
setpriv --reuid "$1" --regid "$2" --clear-groups -- "${@:3}" >/dev/null &
echo $!; wait $!
more=$(grep -vxF -e "$before" /proc/self/mountinfo)  # others may go: a folder that is removed takes what is mounted on it along
[ -z "$more" ] || { echo mounts are left; echo "$more"; exit 4; }
[ -z "$(ls -A /tmp)" ] || { echo files are left; ls -AR /tmp; exit 5; }
"""


def test_nothing_is_left_behind(runner, deny):
    """Claim: no process, folder, mount or control group outlives doctor."""
    groups, pids = cgroups(), []
    ids = (str(runner.user.pw_uid), str(runner.user.pw_gid))
    alone = ["unshare", "--mount", "--propagation", "private", "bash", "-c", ALONE, "bash", *ids] if os.getuid() == 0 else []
    for front in ([], [deny, "userns", "--"], [deny, "landlock", "--"]):
        command = [*alone, *front, runner.path, "doctor", "--json"]
        p = subprocess.Popen(command, env=runner.environ(), cwd=runner.workspace, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = p.communicate()
        assert not alone or p.returncode == 0, (out, err)
        pids.append(int(out) if alone else p.pid)
        with pytest.raises(ProcessLookupError):  # its session, which every child of it is in
            os.killpg(p.pid, 0)
    assert not cgroups_of(pids, groups)
    assert list(runner.workspace.iterdir()) == [] and list(runner.home.iterdir()) == []
