# SPDX-License-Identifier: Apache-2.0
"""Kept sandboxes with one kernel feature denied: they keep what a run keeps, name the weaker rung, or are refused without a trace."""

import os
import pathlib
import subprocess

import pytest

CONVENIENCES = ["openat2", "clone3", "pidfd", "newmount", "closerange", "memfd"]

# Each line of output is a promise that was broken.
PROBE = """
import os, sys
def attempt(what, fn):
    try: r = fn()
    except OSError: return
    if r is not False: print("broken:", what)
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
attempt("reads the secret", lambda: open(sys.argv[1]).read())
attempt("writes beside the home", lambda: os.stat(open(os.path.dirname(os.environ["HOME"]) + "/planted", "w").name).st_dev == os.stat(sys.argv[2]).st_dev)
attempt("has capabilities", lambda: any(int(status[k], 16) for k in ("CapEff", "CapPrm", "CapInh", "CapAmb")))
attempt("may gain privileges", lambda: status["NoNewPrivs"].strip() != "1")
attempt("has no filter", lambda: status["Seccomp"].strip() != "2")
open(os.environ["HOME"] + "/kept", "a").write("x")
print("probed", open(os.environ["HOME"] + "/kept").read())
"""


def boxes(runner):
    folder = runner.home / ".local/state/bawn/sandboxes"
    return sorted(n for n in os.listdir(folder) if n[0] != ".") if folder.exists() else []


def secret(runner):
    return runner.write(runner.home / ".ssh/id", "bawn-secret-key\n", 0o600)


def probe(runner, says):
    r = runner.bawn("exec", "box", "--", "/usr/bin/python3", "-c", PROBE, str(runner.home / ".ssh/id"), str(runner.workspace))
    assert (r.rc, r.out.decode()) == (0, f"probed {says}\n"), r


def refused(runner, r):
    assert r.rc == 125 and r.out == b"" and b"bawn:" in r.err, r
    assert boxes(runner) == []


def test_the_probe_finds_all_of_it_outside(root_runner):
    """Without the sandbox, every line of the probe works: otherwise its silence inside would prove nothing."""
    r = root_runner.run("/usr/bin/python3", "-c", PROBE, str(secret(root_runner)), str(root_runner.workspace))
    assert r.out.count(b"broken:") == PROBE.count("attempt(") - 1, r


@pytest.mark.parametrize("feature", ["landlock", *CONVENIENCES])
def test_a_missing_feature_is_made_up_for_or_refused(kept, deny, feature):
    """Claim: without Landlock or a newer call a kept sandbox holds what it holds with it, over two lives, or is refused and leaves nothing."""
    secret(kept)
    start = [deny, feature, "--", kept.path, "start", "box", "--network", "none"]
    r = kept.run(*start)
    if r.rc != 0:
        return refused(kept, r)
    assert feature != "landlock" or b"second fence" in r.err, r
    probe(kept, "x")
    assert kept.bawn("stop", "box").rc == 0
    assert kept.run(*start).rc == 0
    probe(kept, "xx")


@pytest.mark.parametrize("feature", ["userns", "seccomp"])
def test_require_refuses_without_a_pillar(kept, deny, feature):
    """Claim: --sandbox=require never keeps a sandbox on a weaker rung, and what was not started leaves no sandbox behind."""
    refused(kept, kept.run(deny, feature, "--", kept.path, "start", "box", "--sandbox=require", "--network", "none"))


def test_without_user_namespaces_the_weaker_rung_is_named(kept, deny):
    """Claim: on the landlock rung a kept sandbox says what it lacks, keeps its home, reads no secret and writes nowhere beside its home; root,
    whose folders the workspace's owner cannot enter, is refused."""
    secret(kept)
    r = kept.run(deny, "userns", "--", kept.path, "start", "box", "--network", "none")
    if kept.is_root:
        refused(kept, r)
        os.chown(kept.workspace, 12345, 12345)
        r = kept.run(deny, "userns", "--", kept.path, "start", "box", "--network", "none")
        refused(kept, r)
        assert b"run Bawn as that user" in r.err, r
        return
    assert r.rc == 0 and b"landlock rung" in r.err and b"not enforced" in r.err, r
    probe(kept, "x")
    assert kept.bawn("ps", "--json").json()[0]["rung"] == "landlock"
    proc = kept.popen(kept.path, "exec", "box", "--", "sh", "-c", "setsid sleep 1000 & echo up; wait", stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE)
    assert proc.stdout.readline() == b"up\n"
    pids = [p["pid"] for p in kept.bawn("ps", "--json", "box").json()["processes"]]
    assert len(pids) >= 2 and kept.bawn("stop", "box", "-t", "0").rc == 0 and proc.wait() != 0
    proc.stdout.close()
    assert not [p for p in pids if pathlib.Path(f"/proc/{p}").exists()]  # no PID namespace: each was found and ended
    assert kept.run(deny, "userns", "--", kept.path, "start", "box").rc == 0
    probe(kept, "xx")


NO_CGROUP = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'


def test_without_control_groups(root_runner):
    """Claim: without control groups limits hold by other means, which is said, and stop ends everything."""
    r = root_runner.run("unshare", "--mount", "sh", "-c", NO_CGROUP, "sh", root_runner.path, "start", "box", "--network", "none", "--pids", "20")
    try:
        assert r.rc == 0 and b"limits without a cgroup" in r.err, r
        r = root_runner.bawn("exec", "box", "--", "sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done; echo all")
        assert r.rc != 0 and b"all" not in r.out, r
        pids = [p["pid"] for p in root_runner.bawn("ps", "--json", "box").json()["processes"]]
        assert len(pids) > 5
    finally:
        assert root_runner.bawn("stop", "--all", "-t", "0", "--force").rc == 0
    assert not [p for p in pids if pathlib.Path(f"/proc/{p}").exists()]


def test_with_control_groups_nothing_of_them_is_left(root_runner):
    """Claim: with control groups (this host's: v1 or v2) ps shows memory and processes of a kept sandbox, and stop takes the groups away."""
    r = root_runner.bawn("start", "box", "--network", "none")
    try:
        assert r.rc == 0, r
        if b"limits without a cgroup" in r.err:
            pytest.skip("needs a cgroup that can be limited, as root has it here")
        box = root_runner.bawn("inspect", "--json", "box").json()
        assert box["usage"]["memory"] > 0 and box["usage"]["pids"] >= 1 and box["cgroups"], box
        assert all(os.path.isdir(g) for g in box["cgroups"])
    finally:
        assert root_runner.bawn("stop", "--all", "-t", "0", "--force").rc == 0
    assert not [g for g in box["cgroups"] if os.path.exists(g)]


NO_INOTIFY = 'echo 0 > /proc/sys/user/max_inotify_instances && exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'


def test_without_inotify_hidden_files_are_still_covered(user_runner):
    """Claim: where a user has no inotify instance left (128 sandboxes on many hosts) a kept sandbox goes on, says so, and files that appear on
    the host under hidden names are covered: before a command runs, and within a round while it does."""
    start = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", NO_INOTIFY, "sh", user_runner.path, "start", "box", "--network", "none"]
    r = user_runner.run(*start)
    try:
        assert r.rc == 0, r
        look = "until ! cat .env 2>/dev/null; do sleep 0.1; done; echo covered; until ! cat late.pem 2>/dev/null && [ -e late.pem ]; do sleep 0.1; done; echo late"
        log = user_runner.home / ".local/state/bawn/sandboxes/box/log/keeper.log"
        while "no inotify instance" not in log.read_text():
            assert b"landlock rung" not in r.err and user_runner.bawn("status", "box").rc == 0
        user_runner.write(".env", "SECRET=1\n")
        proc = user_runner.popen(user_runner.path, "exec", "box", "--", "sh", "-c", look, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert proc.stdout.readline() == b"covered\n"
        user_runner.write("late.pem", "-----BEGIN PRIVATE KEY-----\n")
        while (line := proc.stdout.readline()) != b"late\n":
            assert line == b"-----BEGIN PRIVATE KEY-----\n"
        assert proc.wait() == 0
        proc.stdout.close()
    finally:
        user_runner.bawn("stop", "--all", "-t", "0", "--force")
