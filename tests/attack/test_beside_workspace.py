# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 15, 75, 90: what of the user's own files comes in beside the workspace, in every mode: caches, git identity, volumes."""

import json
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hiding import git  # noqa: E402
from hiding_ways import MODES, configure, other_project, tree  # noqa: E402, F401

CACHES = [".npm", ".cache/pip", ".cache/uv", ".cargo/registry", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".local/share/pnpm"]


@pytest.mark.parametrize("mode", MODES)
def test_caches_belong_to_the_project_s_sandboxes(runner, marker, tree, mode):
    """Claim: package caches last from run to run of one project, in all modes; neither another project nor the host sees them,
    and the host's own are never there (90)."""
    for cache in CACHES:
        runner.write(runner.home / cache / "host", marker)
    each = "for c in " + " ".join(CACHES) + "; do "
    look = ["sh", "-c", each + 'ls -A ~/$c/; cat ~/$c/host ~/$c/mine; done 2>&1']
    write = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", each + "mkdir -p ~/$c && echo cached >~/$c/mine || exit 1; done")
    assert write.rc == 0, write
    for then in ("direct", mode):
        again = runner.bawn("run", "--workspace", then, "--", *look)
        assert again.out.count(b"cached\n") == len(CACHES) and marker.encode() not in again.out, again
    elsewhere = runner.run(runner.path, "run", "--workspace", mode, "--", *look, cwd=other_project(runner))
    assert b"cached" not in elsewhere.out and marker.encode() not in elsewhere.out, elsewhere
    for cache in CACHES:
        assert os.listdir(runner.home / cache) == ["host"]


def test_caches_can_be_turned_off(runner, tree):
    runner.write(runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"mounts": {"persist_caches": False}}}))
    assert runner.bawn("run", "--", "sh", "-c", "mkdir -p ~/.npm && echo x >~/.npm/mine").rc == 0
    assert runner.bawn("run", "--", "sh", "-c", "cat ~/.npm/mine").rc == 1


def test_a_cache_is_no_way_out(runner, marker, tree, secret):
    """Claim: links and odd things that one run leaves in a cache lead the next one, and Bawn itself, nowhere."""
    plant = f"ln -s {secret} ~/.npm/link; rm -rf ~/.cache/npm 2>/dev/null; ln -s {secret.parent} ~/.cache/npm; mkfifo ~/.cache/fifo; true"
    assert runner.bawn("run", "--", "sh", "-c", plant).rc == 0
    r = runner.bawn("run", "--", "sh", "-c", "cat ~/.npm/link ~/.npm/id_ed25519; ls ~/.npm/")
    assert r.rc not in (0, 64, 125) and marker.encode() not in r.out, r
    assert secret.read_text() == marker + "\n"


@pytest.fixture
def gitconfig(runner, marker):
    runner.write(runner.home / "more.inc", f"[http]\n\textraHeader = X: {marker}-included\n[user]\n\tsigningkey = {marker}\n")
    runner.write(runner.home / ".git-credentials", f"https://me:{marker}@example.com\n", 0o600)
    runner.write(runner.home / ".config/git/credentials", f"https://me:{marker}@example.com\n", 0o600)
    runner.write(runner.home / ".config/git/config", f"[user]\n\temail = me@example.com\n[http \"https://a\"]\n\tproxy = http://u:{marker}@p\n")
    return runner.write(runner.home / ".gitconfig", f"""[user]
\tname = Me Myself
[credential]
\thelper = "!echo password={marker}"
[credential "https://example.com"]
\tusername = {marker}
[http]
\textraHeader = Authorization: {marker}
[http "https://example.com"]
\textraHeader = Authorization: {marker}
[url "https://me:{marker}@example.com/"]
\tinsteadOf = https://example.com/
[include]
\tpath = more.inc
[includeIf "gitdir:/"]
\tpath = ~/more.inc
[core]
\tsshCommand = ssh -i {marker}
\taskPass = /bin/{marker}
[alias]
\tx = "!echo {marker}"
[sendemail]
\tsmtpPass = {marker}
[remote "o"]
\turl = https://{marker}@example.com
""")


@pytest.mark.parametrize("mode", MODES)
def test_the_git_identity_comes_without_credentials(runner, marker, tree, gitconfig, mode):
    """Claim: git knows the user's name inside and none of his credentials, by whatever key or file (75)."""
    ask = ("git config user.name; git config user.email; git config --list --show-origin; git config --global --list --includes; "
           "cat ~/.gitconfig ~/.git-credentials ~/.config/git/config ~/.config/git/credentials ~/more.inc /run/bawn/gitconfig; "
           "printf 'protocol=https\\nhost=example.com\\n\\n' | GIT_TERMINAL_PROMPT=0 git credential fill; true")
    shown = runner.run("sh", "-c", ask)
    assert shown.out.count(marker.encode()) > 10, shown
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", ask)
    assert r.rc == 0 and r.out.startswith(b"Me Myself\nme@example.com\n"), r
    assert marker.encode() not in r.out + r.err, r


@pytest.mark.parametrize("mode", MODES)
def test_the_git_identity_is_read_only(runner, marker, tree, gitconfig, mode):
    """Claim: what a run does to ~/.gitconfig is neither on the host nor in the next run."""
    before = gitconfig.read_bytes()
    evil = "git config --global core.pager evil; echo '[core] pager = evil' >>~/.gitconfig; chmod 777 /run/bawn/gitconfig; " \
           "echo '[core] pager = evil' >>/run/bawn/gitconfig; rm -f ~/.gitconfig; echo '[core]\n pager = evil' >~/.gitconfig; true"
    assert runner.bawn("run", "--workspace", mode, "--", "sh", "-c", evil).rc == 0
    assert gitconfig.read_bytes() == before
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "git config core.pager; git config user.name")
    assert r.out == b"Me Myself\n", r


@pytest.mark.parametrize("mode", MODES)
def test_a_volume_is_the_sandbox_s_own(runner, marker, tree, mode):
    """Claim: workspace.volumes: what the run installs there lasts, the host's own folder of that name is neither shown nor touched."""
    configure(runner, {"volumes": ["node_modules", "src/.venv"]})
    for _ in range(2):
        r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo x >>node_modules/mine && echo x >>src/.venv/mine && cat */mine src/.venv/mine")
        assert r.rc == 0, r
    assert r.out == b"x\nx\nx\nx\n", r
    assert not (runner.workspace / "node_modules").exists() and not (runner.workspace / "src/.venv").exists()
    assert b"node_modules" not in git(runner, "status", "--short") and b".venv" not in git(runner, "status", "--short")

    runner.write("node_modules/host", marker)
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "cat node_modules/host; cat node_modules/mine; rm -rf node_modules/*")
    assert r.out == b"x\nx\n", r
    runner.bawn("apply", "--yes")
    assert os.listdir(runner.workspace / "node_modules") == ["host"]
    other = runner.run(runner.path, "run", "--workspace", mode, "--", "sh", "-c", "cat node_modules/mine src/.venv/mine", cwd=other_project(runner))
    assert b"x" not in other.out, other


@pytest.mark.parametrize("volume", ["../x", "/etc", ".", "..", "a//b", "a/../b", "./a", ".git", "", "a/"])
def test_a_volume_that_is_no_folder_below_is_refused(runner, tree, volume):
    """Claim: a bad volume is a clear error in every mode, before anything is made."""
    configure(runner, {"volumes": [volume]})
    before = sorted(os.listdir(runner.workspace))
    for mode in MODES:
        r = runner.bawn("run", "--workspace", mode, "--", "true")
        assert r.rc in (64, 125) and b"volumes" in r.err, (mode, r)
        assert sorted(os.listdir(runner.workspace)) == before, mode


@pytest.mark.parametrize("mode", ["direct", "ro"])
def test_the_place_of_a_volume_goes_again_with_its_parents(runner, tree, mode):
    """Claim: no folder is left on the host that was made only to mount on."""
    configure(runner, {"volumes": ["web/app/node_modules"]})
    assert runner.bawn("run", "--workspace", mode, "--", "touch", "web/app/node_modules/x").rc == 0
    assert not (runner.workspace / "web").exists()


@pytest.mark.parametrize("mode", MODES)
def test_a_volume_does_not_follow_a_link(runner, marker, tree, secret, mode):
    """Claim: a link in the volume's place leads neither the mount nor the making of it out of the workspace (15)."""
    configure(runner, {"volumes": ["node_modules"]})
    (runner.workspace / "node_modules").symlink_to(secret.parent)
    r = runner.bawn("run", "--workspace", mode, "--", "sh", "-c", "echo x >node_modules/planted; cat node_modules/id_ed25519")
    assert r.rc != 0 and marker.encode() not in r.out, r
    assert os.listdir(secret.parent) == ["id_ed25519"] and secret.read_text() == marker + "\n"


def test_a_project_cannot_choose_volumes(runner, marker, tree):
    configure(runner, {"volumes": ["src"]}, ".bawn/config.json", runner.workspace)
    r = runner.bawn("run", "--", "cat", "src/a.py")
    assert (r.rc, r.out) == (0, b"pass\n"), r
