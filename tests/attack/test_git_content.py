# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 3, 34 to 37 in direct mode, now that git may write its configuration inside: what it says is judged, and nothing in it makes the host's git run anything."""

import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protecting import DIRECT, GIT, PYTHON, git, repository, snapshot  # noqa: E402

RUN = "touch 'MARK'; false"
HOOK = "printf '#!/bin/sh\\ntouch MARK\\n' > NAME; chmod +x NAME"
INCLUDED = "printf '[core]\\n\\tfsmonitor = \"touch MARK; false\"\\n' > NAME"
FSMONITOR = f'fsmonitor = "{RUN}"'
# id: (text that follows the present configuration, shell that prepares the workspace)
CONFIGS = {
    "a program": (f"[core]\n\t{FSMONITOR}\n", ""),
    "in other letters": (f"[CoRe]\nFSmonitor={FSMONITOR.split(' = ')[1]}\n", ""),
    "on one line": (f"[core] {FSMONITOR}\n", ""),
    "CR": (f"[core]\r\n\t{FSMONITOR}\r\n", ""),
    "a line that goes on": (f'[core]\n\tfsmonitor = \\\n"{RUN}"\n', ""),
    "a comment that does not go on": (f"[user]\n\tname = x ; \\\n[core]\n\t{FSMONITOR}\n", ""),
    "behind a subsection": (f'[remote "a\\"]"]\n\turl = /x\n[core]\n\t{FSMONITOR}\n', ""),
    "quotes in pieces": ('[core]\n\tfsmonitor = "touc"h" \'MARK\'; fal"se\n', ""),
    "the section twice": (f"[core]\n\tbare = false\n[user]\n\tname = x\n[core]\n\t{FSMONITOR}\n", ""),
    "hooksPath": ("[core]\n\thooksPath = hk\n", "mkdir -p hk; " + HOOK.replace("NAME", "hk/pre-commit")),
    "include": ("[include]\n\tpath = ../inc\n", INCLUDED.replace("NAME", "inc")),
    "include, absolute": ("[include]\n\tpath = WORKSPACE/inc\n", INCLUDED.replace("NAME", "inc")),
    "includeIf": ('[includeIf "gitdir:**"]\n\tpath = ../inc\n', INCLUDED.replace("NAME", "inc")),
    "config.worktree": ("[extensions]\n\tworktreeConfig = true\n", INCLUDED.replace("NAME", ".git/config.worktree.lock") + "; mv .git/config.worktree.lock .git/config.worktree"),
    "filter": (f'[filter "x"]\n\tclean = "{RUN}"\n', "echo '* filter=x' > .gitattributes; touch -d '2001-01-01' a"),
    "external diff": (f'[diff]\n\texternal = "{RUN}"\n', "echo x >> a"),
    "textconv": (f'[diff "x"]\n\ttextconv = "{RUN}"\n', "echo '* diff=x' > .gitattributes; echo x >> a"),
    "helper": (f'[remote "origin"]\n\turl = "ext::sh -c {RUN}"\n'.replace(RUN, "touch% MARK"), ""),
    "upload-pack": (f'[remote "origin"]\n\turl = WORKSPACE\n\tuploadpack = "{RUN}"\n', ""),
    "sshCommand": (f'[core]\n\tsshCommand = "{RUN}"\n[remote "origin"]\n\turl = ssh://localhost/x\n', ""),
    "gpg": ("[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = WORKSPACE/gpg.sh\n", HOOK.replace("NAME", "gpg.sh")),
    "alias": (f'[alias]\n\tst = "!{RUN}"\n', ""),
    "credential helper": (f'[credential]\n\thelper = "!{RUN}"\n', ""),
    "a remote for the branch": ('[branch "main"]\n\tremote = "ext::sh -c touch% MARK"\n\tmerge = refs/heads/main\n', ""),
}
HOST = """
git -c safe.bareRepository=all status; git diff; git -c protocol.ext.allow=always fetch origin; git -c protocol.ext.allow=always fetch; git st; printf 'protocol=https\\nhost=x\\n\\n' | git credential fill; git commit -q --allow-empty -m x; true
"""
PUT = """
import os, sys
name, text = sys.argv[1], sys.stdin.buffer.read()
with open(name + ".lock", "wb") as f:
    f.write(text)
try:
    os.rename(name + ".lock", name)
except OSError as e:
    os.unlink(name + ".lock")
    sys.exit(3 if e.errno == 13 else 4)
"""


def fill(runner, text, marker):
    return text.replace("WORKSPACE", str(runner.workspace)).replace("MARK", str(marker))


def host(runner, cwd=None):
    assert runner.run("sh", "-c", HOST, env=GIT, cwd=cwd).rc == 0


@pytest.mark.parametrize("where", ["", "sub"])
@pytest.mark.parametrize("name", CONFIGS)
def test_no_configuration_makes_the_host_run_anything(runner, name, where):
    """Claim: a configuration that was put in place inside cannot make git on the host run a program, however it is written (3, 34-36)."""
    text, setup = CONFIGS[name]
    marker = runner.home / "ran"
    repository(runner)
    top = runner.workspace
    if where:
        git(runner, "clone", "-q", ".", where)
        git(runner, "-C", where, "remote", "remove", "origin")
        top = top / where
    new = (top / ".git/config").read_text() + fill(runner, text.replace("WORKSPACE", "WORKSPACE/" + where if where else "WORKSPACE"), marker)
    setup = fill(runner, setup, marker)
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", top, keep], check=True)
    planted = runner.run("sh", "-ec", f"{setup or 'true'}; exec {PYTHON} -c \"$1\" .git/config", "sh", PUT, input=new.encode(), cwd=top)
    assert planted.rc == 0, planted
    host(runner, top)
    assert marker.exists(), "the host's git does not obey it, so this proves nothing"
    marker.unlink()
    shutil.rmtree(top)
    keep.rename(top)
    before = (top / ".git/config").read_bytes()
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", f"cd ./{where}; {setup or 'true'}; exec {PYTHON} -c \"$1\" .git/config", "sh", PUT, input=new.encode())
    if name != "config.worktree":
        assert inside.rc == 3 and b"refused: write to '" in inside.err and (top / ".git/config").read_bytes() == before, inside
    assert not (top / ".git/config.worktree").exists(), inside
    host(runner, top)
    assert not marker.exists(), inside


KEEPING = {
    "the descriptor": "f = open('.git/config.lock', 'wb'); f.write(GOOD); f.flush(); os.rename('.git/config.lock', '.git/config'); f.write(EVIL); f.flush()",
    "another name": "open('.git/config.lock', 'wb').write(GOOD); os.link('.git/config.lock', 'other'); os.rename('.git/config.lock', '.git/config'); open('other', 'ab').write(EVIL)",
    "memory": "f = open('.git/config.lock', 'w+b'); f.write(GOOD + b'\\n' * len(EVIL)); f.flush(); import mmap; m = mmap.mmap(f.fileno(), 0); os.rename('.git/config.lock', '.git/config'); m[len(GOOD):] = EVIL; m.flush()",
    "a reader's descriptor": "r = open('.git/config', 'rb'); open(f'/proc/self/fd/{r.fileno()}', 'ab').write(EVIL)",
    "a reader's descriptor, of the new one": "open('.git/config.lock', 'wb').write(GOOD); os.rename('.git/config.lock', '.git/config'); r = open('.git/config', 'rb'); open(f'/proc/self/fd/{r.fileno()}', 'ab').write(EVIL)",
    "in place": "open('.git/config', 'ab').write(EVIL)",
    "exchanged": "open('.git/config.lock', 'wb').write(GOOD + EVIL); call('renameat2', -100, b'.git/config.lock', -100, b'.git/config', 2)",
    "exchanged, good": "f = open('.git/config.lock', 'wb'); f.write(GOOD); f.flush(); call('renameat2', -100, b'.git/config.lock', -100, b'.git/config', 2); f.write(EVIL); f.flush()",
    "linked, where there is none": "os.mkdir('n'); os.mkdir('n/.git'); open('n/x', 'wb').write(GOOD + EVIL); os.link('n/x', 'n/.git/config')",
    "a file without a name": "os.mkdir('n'); os.mkdir('n/.git'); fd = os.open('n', os.O_TMPFILE | os.O_RDWR); os.write(fd, GOOD + EVIL); call('linkat', -100, f'/proc/self/fd/{fd}'.encode(), -100, b'n/.git/config', 0x400)",
    "a symbolic link": "open('evil', 'wb').write(GOOD + EVIL); os.symlink('../evil', 'l'); os.rename('l', '.git/config')",
    "a symbolic link to the lock": "open('evil', 'wb').write(GOOD); os.symlink('../evil', '.git/config.lock'); os.rename('.git/config.lock', '.git/config'); open('evil', 'ab').write(EVIL)",
    "a FIFO": "os.mkfifo('.git/config.lock'); os.rename('.git/config.lock', '.git/config')",
    "a folder": "os.mkdir('.git/config.lock'); os.rename('.git/config', 'c'); os.rename('.git/config.lock', '.git/config')",
    "from elsewhere": "open('x', 'wb').write(GOOD + EVIL); os.rename('x', '.git/config')",
    "removed first": "os.unlink('.git/config'); open('.git/config', 'wb').write(GOOD + EVIL)",
    "in other letters": "os.mkdir('n'); os.mkdir('n/.GIT')",
    "a short name": "os.mkdir('n'); os.mkdir('n/GIT~1')",
    "a tree": "os.makedirs('n/g/hooks'); open('n/g/config', 'wb').write(GOOD + EVIL); os.rename('n/g', 'n/.git')",
    "a tree of hooks": "os.makedirs('n/.git'); os.makedirs('n/h'); open('n/h/pre-commit', 'wb').write(b'#!/bin/sh\\n'); os.rename('n/h', 'n/.git/hooks')",
    "a tree of a submodule": "os.makedirs('t/x'); open('t/x/config', 'wb').write(GOOD + EVIL); os.makedirs('.git/modules', exist_ok=True); os.rename('t/x', '.git/modules/x')",
    "a link for a submodule": "os.makedirs('t/x'); os.makedirs('.git/modules', exist_ok=True); os.symlink('../../t/x', '.git/modules/x')",
    "a link that looks like git's": "os.makedirs('t'); os.symlink('../t', '.git/tABCDEF')",
    "a link by git's word": "os.makedirs('n/.git'); os.symlink('testing', 'n/.git/config')",
    "a hook": "os.makedirs('n/.git/hooks'); open('n/.git/hooks/pre-commit', 'wb').write(b'#!/bin/sh\\n')",
    "a hook from a sample": "os.makedirs('n/.git/hooks'); open('n/.git/hooks/pre-commit.sample', 'wb').write(b'#!/bin/sh\\n'); os.rename('n/.git/hooks/pre-commit.sample', 'n/.git/hooks/pre-commit')",
    "a hook linked to a sample": "os.makedirs('n/.git/hooks'); open('n/.git/hooks/pre-commit.sample', 'wb').write(b'#!/bin/sh\\n'); os.link('n/.git/hooks/pre-commit.sample', 'n/.git/hooks/pre-commit')",
    "a sample that is a link": "os.makedirs('n/.git/hooks'); os.symlink('/bin/sh', 'n/.git/hooks/pre-commit.sample')",
    "a sample that is a folder": "os.makedirs('n/.git/hooks/x.sample')",
    "a hook in a folder for samples": "os.makedirs('n/.git/hooks/x'); open('n/.git/hooks/x/y.sample', 'wb')",
    "hooks by a link": "os.makedirs('n/.git'); os.makedirs('n/h'); os.symlink('../h', 'n/.git/hooks')",
    "attributes": "os.makedirs('n/.git/info'); open('n/.git/info/attributes', 'wb')",
    "alternates": "os.makedirs('n/.git/objects/info'); open('n/.git/objects/info/alternates', 'wb')",
    "the repository renamed": "os.rename('.git', 'g')",
    "its configuration removed": "os.unlink('.git/config')",
    "its mode": "os.chmod('.git/config', 0o666)",
    "its mode for all": "os.chmod('.git/config', 0o646)",
    "in a folder of an editor": "os.makedirs('.idea', exist_ok=True); os.mkdir('.idea/.git')",
    "a configuration in a folder of an editor": "os.makedirs('.idea/.git'); open('.idea/.git/config.lock', 'wb').write(GOOD); os.rename('.idea/.git/config.lock', '.idea/.git/config')",
    "a bare repository": "os.makedirs('n/objects'); os.makedirs('n/refs'); open('n/HEAD', 'wb').write(b'ref: refs/heads/x\\n')",
    "a bare repository in git's folder": "os.makedirs('.git/x/objects'); os.makedirs('.git/x/refs'); open('.git/x/HEAD', 'wb').write(b'ref: refs/heads/x\\n')",
}
KEEP = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
GOOD = open('.git/config', 'rb').read() + b'[user]\\n\\tname = good\\n'
EVIL = b'[core]\\n\\tfsmonitor = evil\\n'
try:
    exec(sys.argv[1])
except OSError as e:
    print(e)
    sys.exit(3)
"""


def obeyed(top):
    """What git on the host would obey: configurations, hooks, and what leads to them."""
    names = {"config", "config.worktree", "commondir", "gitdir", "alternates", "attributes"}
    return {path: what for path, what in snapshot(top).items() if ".git/" in path.lower() and
            (path.split("/")[-1] in names or ("/hooks/" in path and not path.endswith(".sample")) or what[0].startswith("0o12"))}


@pytest.mark.parametrize("name", KEEPING)
def test_no_way_to_keep_a_hand_on_it(runner, name):
    """Claim: what git on the host reads was never open for writing inside, and comes about in one way only (3, 34-37)."""
    repository(runner)
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    outside = runner.run(PYTHON, "-c", KEEP, KEEPING[name], cwd=keep)
    assert outside.rc == 0, f"it does not work without the sandbox, so this proves nothing: {outside}"
    shutil.rmtree(keep)
    before = obeyed(runner.workspace)
    mode = (runner.workspace / ".git/config").stat().st_mode
    inside = runner.bawn(*DIRECT, "--", PYTHON, "-c", KEEP, KEEPING[name])
    assert inside.rc in (0, 3), inside
    config = (runner.workspace / ".git/config").read_bytes()
    assert b"evil" not in config and config in (before[".git/config"][1], before[".git/config"][1] + b"[user]\n\tname = good\n", before[".git/config"][1] + b"[user]\n\tname = good\n" + b"\n" * len(b"[core]\n\tfsmonitor = evil\n"))
    assert (runner.workspace / ".git/config").stat().st_mode == mode
    after = obeyed(runner.workspace)
    links = {"l", ".git/config"}
    assert {path: what for path, what in after.items() if path not in links} == {path: what for path, what in before.items() if path not in links}, inside
    assert not git(runner, "-C", ".", "config", "core.fsmonitor", ok=False).out


RACE = """
import os, sys, threading, time
good = open('.git/config', 'rb').read()
evil = b'[core]\\n\\tfsmonitor = evil\\n'
both = [good + b'#' * (len(evil) - 1) + b'\\n', good + evil]
stop = False
lock = '.git/config.lock'
def flip(path):
    while not stop:
        for text in both:
            try:
                fd = os.open(path, os.O_WRONLY)
                os.pwrite(fd, text, 0)
                os.close(fd)
            except OSError:
                pass
def swap():
    while not stop:
        for a, b in ((lock, 'aside'), ('aside', lock)):
            try:
                os.rename(a, b)
            except OSError:
                pass
open('named', 'wb').write(both[0])
threads = [threading.Thread(target=flip, args=(lock,)), threading.Thread(target=flip, args=('aside',)), threading.Thread(target=swap)]
[t.start() for t in threads]
bad = n = 0
end = time.time() + 4
while time.time() < end:
    try:
        open(lock, 'wb').write(both[n % 2])
        os.rename(lock, '.git/config')
        n += 1
    except OSError:
        pass
    try:
        bad += evil in open('.git/config', 'rb').read()
    except OSError:
        pass
stop = True
[t.join() for t in threads]
print(n, bad)
"""


def test_races_of_many_threads(runner):
    """Claim: what was judged is what is written, whatever other threads do to the file meanwhile (34-36)."""
    repository(runner)
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    outside = runner.run(PYTHON, "-c", RACE, cwd=keep)
    assert outside.rc == 0 and int(outside.out.split()[1]) > 0, outside
    shutil.rmtree(keep)
    inside = runner.bawn(*DIRECT, "--", PYTHON, "-c", RACE)
    assert inside.rc == 0 and int(inside.out.split()[0]) > 0 and int(inside.out.split()[1]) == 0, inside
    assert b"evil" not in (runner.workspace / ".git/config").read_bytes()


def test_a_template_brings_no_hooks(runner):
    """Claim: git init --template cannot bring hooks or configuration into a repository that is made inside (34, 37)."""
    marker = runner.home / "ran"
    script = f"mkdir -p t/hooks; printf '#!/bin/sh\\ntouch {marker}\\n' > t/hooks/pre-commit; chmod +x t/hooks/pre-commit; git init -q --template=t n"
    assert runner.run("sh", "-ec", script, env=GIT).rc == 0
    git(runner, "commit", "-q", "--allow-empty", "-m", "x", cwd=runner.workspace / "n", ok=False)
    assert marker.exists()
    marker.unlink()
    shutil.rmtree(runner.workspace / "n")
    shutil.rmtree(runner.workspace / "t")
    inside = runner.bawn(*DIRECT, "--", "sh", "-ec", script)
    assert inside.rc not in (0, 64, 125, 127), inside
    git(runner, "commit", "-q", "--allow-empty", "-m", "x", cwd=runner.workspace / "n", ok=False)
    assert not marker.exists() and not (runner.workspace / "n/.git/hooks/pre-commit").exists()


def test_lines_of_the_user_are_not_judged(runner):
    """Claim: what a line of the user's protects is refused by name, whatever is in it (6, 8)."""
    repository(runner)
    runner.write(runner.home / ".config/bawn/config.json", '{"sandbox": {"workspace": {"protect": ["**/.git/config", "**/.git/hooks/**"]}}}')
    before = snapshot(runner.workspace / ".git")
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", "git config user.name x; echo x > .git/hooks/pre-commit.sample; echo x > .git/hooks/x.sample; true")
    assert inside.rc == 0 and snapshot(runner.workspace / ".git") == before, inside


def test_the_key_is_named(runner):
    """Claim: the user hears which key was refused, and why."""
    repository(runner)
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", "git config core.fsmonitor evil; git config core.fsmonitor evil; git config remote.origin.url ext::evil; git config user.name fine")
    assert inside.rc == 0 and inside.err.count(b"core.fsmonitor: git runs it") == 1 and b"remote.origin.url: only https, http, ssh" in inside.err, inside
    assert git(runner, "config", "user.name").out == b"fine\n"


def test_rollback_takes_it_back(runner):
    """Claim: the old configuration comes back with rollback, and a repository that was made inside goes."""
    repository(runner)
    before = (runner.workspace / ".git/config").read_bytes()
    assert runner.bawn(*DIRECT, "--", "sh", "-ec", "git config user.name x; git init -q n").rc == 0
    assert (runner.workspace / ".git/config").read_bytes() != before and (runner.workspace / "n/.git/config").exists()
    r = runner.bawn("rollback")
    assert r.rc == 0 and (runner.workspace / ".git/config").read_bytes() == before and not (runner.workspace / "n").exists(), r


# Files that git writes in place: .git of submodules and worktrees, commondir, gitdir, .gitmodules

# id: (code, what must not be there afterwards with this content, or None: not be there at all)
STAGED = {
    "a .git that leads out": ("put('s/.git', b'gitdir: /tmp/evil\\n')", "s/.git"),
    "a .git that leads to a folder of ours": ("put('s/.git', b'gitdir: ../evil\\n')", "s/.git"),
    "a .git that leads through a folder of ours": ("os.makedirs('d/.git/modules/x'); put('s/.git', b'gitdir: ../d/.git/modules/x\\n')", "s/.git"),
    "a .git that leads deep": ("put('s/.git', b'gitdir: ../.git/objects/x\\n')", "s/.git"),
    "a .git that leads to the repository": ("put('s/.git', b'gitdir: ../.git\\n')", "s/.git"),
    "a .git that leads to modules": ("put('s/.git', b'gitdir: ../.git/modules/\\n')", "s/.git"),
    "a .git that leads below a worktree": ("put('s/.git', b'gitdir: ../.git/worktrees/x/y\\n')", "s/.git"),
    "a .git that leads among refs": ("put('s/.git', b'gitdir: ../.git/modules/x/refs\\n')", "s/.git"),
    "a .git with dots": ("put('s/.git', b'gitdir: ../.git/modules/../../evil\\n')", "s/.git"),
    "a .git in other letters": ("put('s/.git', b'gitdir: ../.GIT/modules/x\\n')", "s/.git"),
    "a .git with two lines": ("put('s/.git', b'gitdir: ../.git/modules/x\\ngitdir: ../evil\\n')", "s/.git"),
    "a .git with a NUL": ("put('s/.git', b'gitdir: ../evil\\0/../.git/modules/x\\n')", "s/.git"),
    "a .git with a CR": ("put('s/.git', b'gitdir: ../.git/modules/x\\r\\n')", "s/.git"),
    "a .git in the repository of another": ("os.makedirs('d/.git'); os.makedirs('d/e'); put('d/e/.git', b'gitdir: ../../.git/modules/x/../../../d/.git/modules/../../evil\\n')", "d/e/.git"),
    "the .git of the workspace": ("os.rename('.git', 'g'); put('.git', b'gitdir: s\\n')", None),
    "a .git that grows later": ("f = open('s/.git', 'wb'); f.write(b'gitdir: ../.git/modules/x'); f.flush(); g = open(f'/proc/self/fd/{f.fileno()}', 'r+b'); f.close(); g.seek(8); g.write(b'../evil\\n' + b' ' * 99); g.close()", "gitdir: ../evil"),
    "a .git that is still open": ("f = open('s/.git', 'wb'); f.write(b'gitdir: ../evil\\n'); f.flush(); os._exit(0)", "s/.git"),
    "a .git that another process has": ("f = open('s/.git', 'wb'); f.write(b'gitdir: ../evil\\n'); f.flush(); os.fork(); f.close()", "s/.git"),
    "a .git by rename": ("put('x', b'gitdir: ../evil\\n'); os.rename('x', 's/.git')", "s/.git"),
    "a .git by link": ("put('x', b'gitdir: ../evil\\n'); os.link('x', 's/.git')", "s/.git"),
    "a .git from memory": ("fd = os.open('s', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'gitdir: ../evil\\n'); call('linkat', -100, f'/proc/self/fd/{fd}'.encode(), -100, b's/.git', 0x400)", "s/.git"),
    "a folder that moves meanwhile": ("os.makedirs('b/b'); f = open('b/b/.git', 'wb'); f.write(b'gitdir: ../../.git/modules/x\\n'); os.rename('b/b', 'c'); f.close()", "c/.git"),
    "a commondir of ours": ("os.makedirs('.git/worktrees/w'); put('.git/worktrees/w/commondir', b'../../../evil\\n')", ".git/worktrees/w/commondir"),
    "a commondir of a submodule": ("os.makedirs('.git/modules/w'); put('.git/modules/w/commondir', b'../..\\n')", ".git/modules/w/commondir"),
    "a commondir further down": ("os.makedirs('.git/worktrees/w/x'); put('.git/worktrees/w/x/commondir', b'../../../evil\\n'); put('.git/worktrees/w/x/HEAD', b'ref: refs/heads/main\\n')", ".git/worktrees/w/x/HEAD"),
    "a commondir of the repository": ("put('.git/commondir', b'../..\\n')", ".git/commondir"),
    "a commondir that is there": ("os.makedirs('.git/worktrees/w'); put('.git/worktrees/w/commondir', b'../..\\n'); put('.git/worktrees/w/commondir', b'../../../evil\\n'); assert open('.git/worktrees/w/commondir').read() in ('../..\\n', '../../../evil\\n')", "../../../"),
    "a gitdir that is none": ("os.makedirs('.git/worktrees/w'); put('.git/worktrees/w/gitdir', b'/etc/passwd\\n')", ".git/worktrees/w/gitdir"),
    "a worktree that is a link": ("os.makedirs('.git/worktrees'); os.symlink('../../evil', '.git/worktrees/w')", ".git/worktrees/w"),
    "a configuration in place": ("os.makedirs('n/.git'); put('n/.git/config', b'[core]\\n\\tfsmonitor = evil\\n')", "n/.git/config"),
    "a .gitmodules with a helper": ("put('.gitmodules', b'[submodule \"x\"]\\n\\tpath = x\\n\\turl = ext::evil\\n')", ".gitmodules"),
    "a .gitmodules with a command": ("put('.gitmodules', b'[submodule \"x\"]\\n\\tpath = x\\n\\tupdate = !evil\\n')", ".gitmodules"),
    "a .gitmodules with an option": ("put('.gitmodules', b'[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./evil\\n')", ".gitmodules"),
    "a .gitmodules that leads into .git": ("put('.gitmodules', b'[submodule \"x\"]\\n\\tpath = .git/hooks\\n\\turl = ../x\\n')", ".gitmodules"),
    "a .gitmodules by rename": ("put('x', b'[submodule \"x\"]\\n\\turl = ext::evil\\n'); os.rename('x', '.gitmodules')", ".gitmodules"),
    "a .gitmodules by rename without replacing": ("put('x', b'[submodule \"x\"]\\n\\turl = ext::evil\\n'); call('renameat2', -100, b'x', -100, b'.gitmodules', 1)", ".gitmodules"),
    "a .gitmodules exchanged": ("put('.gitmodules', b'# fine\\n'); put('x', b'[submodule \"x\"]\\n\\turl = ext::evil\\n'); call('renameat2', -100, b'x', -100, b'.gitmodules', 2)", "ext::evil"),
    "a .gitmodules by link": ("put('x', b'[submodule \"x\"]\\n\\turl = ext::evil\\n'); os.link('x', '.gitmodules')", ".gitmodules"),
    "a .gitmodules by symbolic link": ("put('x', b'[submodule \"x\"]\\n\\turl = ext::evil\\n'); os.symlink('x', '.gitmodules')", ".gitmodules"),
    "another name of .gitmodules": ("put('.gitmodules', b'# fine\\n'); os.link('.gitmodules', 'x'); open('x', 'ab').write(b'[submodule \"x\"]\\n\\turl = ext::evil\\n')", "ext::evil"),
    "a reader of .gitmodules": ("put('.gitmodules', b'# fine\\n'); f = open('.gitmodules', 'rb'); open(f'/proc/self/fd/{f.fileno()}', 'ab').write(b'[submodule \"x\"]\\n\\turl = ext::evil\\n')", "ext::evil"),
    "a .gitmodules in a folder of an editor": ("os.makedirs('.idea'); put('.idea/.gitmodules', b'# fine\\n')", ".idea/.gitmodules"),
    "a .git in a folder of an editor": ("os.makedirs('.idea/x'); put('.idea/x/.git', b'gitdir: ../../.git/modules/x\\n')", ".idea/x/.git"),
    "a part of .gitmodules": ("put('.gitmodules', b'[submodule \"x\"]\\n\\turl = ../ext\\n'); os.truncate('.gitmodules', 26)", "\turl = ../\n"),
}
STAGE = KEEP.replace("GOOD =", "def put(path, text):\n    with open(path, 'wb') as f:\n        f.write(text)\nGOOD =")
EVIL_GIT = "mkdir -p evil/objects evil/hooks s; printf 'ref: refs/heads/main\\n' > evil/HEAD; printf '[core]\\n\\tfsmonitor = \"touch MARK; false\"\\n' > evil/config"


@pytest.mark.parametrize("name", STAGED)
def test_what_git_writes_in_place_leads_nowhere_else(runner, name):
    """Claim: a .git, commondir, gitdir or .gitmodules that was written inside leads the host's git to nothing but protected folders of the workspace (3, 34-37)."""
    code, gone = STAGED[name]
    marker = runner.home / "ran"
    repository(runner)
    assert runner.run("sh", "-ec", fill(runner, EVIL_GIT, marker)).rc == 0
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    outside = runner.run(PYTHON, "-c", STAGE, code, cwd=keep)
    assert outside.rc == 0, outside
    shutil.rmtree(keep)
    inside = runner.bawn(*DIRECT, "--", PYTHON, "-c", STAGE, code)
    assert inside.rc in (0, 3), inside
    files = {path: what[1] for path, what in snapshot(runner.workspace).items() if path.split("/")[-1] in (".git", ".gitmodules", "commondir", "gitdir", "config", "HEAD") and what[1] is not None and path not in ("evil/config", ".git/worktrees/w/x/commondir")}
    for path, text in files.items():
        text = text if isinstance(text, bytes) else text.encode()
        assert b"evil" not in text and path != gone and not (gone and gone.encode() in text), (path, text, inside)
    assert not (runner.workspace / ".git/worktrees/w").is_symlink()
    if ".gitmodules" not in name:
        runner.run("sh", "-c", "mkdir -p evil/refs; for d in . s b/b c d/e n .git/worktrees/w/x; do (cd $d && git status); done; true", env=GIT)
        assert not marker.exists()


def test_a_git_file_cannot_be_led_elsewhere_later(runner):
    """Claim: once judged, the .git of a submodule or worktree leads to protected folders whatever is renamed or linked inside afterwards (35, 37)."""
    marker = runner.home / "ran"
    repository(runner)
    git(runner, "init", "-q", "-b", "main", str(runner.workspace / "r"))
    git(runner, "commit", "-q", "--allow-empty", "-m", "x", cwd=runner.workspace / "r")
    script = fill(runner, """
git worktree add -q d/wt; git -c protocol.file.allow=always submodule add -q "$PWD/r" d/sm
mkdir -p e/.git/worktrees/wt e/d; E=$PWD/e
for x in "mv .git g" "mv .git/worktrees w" "mv .git/worktrees/wt w" "rm -rf .git/modules/d/sm/hooks && ln -s $E .git/modules/d/sm/hooks" "mv d/wt/.git x" "ln -sfn $E .git/modules" "mv d e/d2" "rm -rf .git/modules && ln -s $E .git/modules" \
  "printf '[core]\\n\\tfsmonitor = \\"touch MARK; false\\"\\n' > e/.git/worktrees/wt/config" "printf '[core]\\n\\tfsmonitor = \\"touch MARK; false\\"\\n' > e/.git/config" \
  "printf '#!/bin/sh\\ntouch MARK\\n' > .git/modules/d/sm/hooks/post-checkout" "printf '../../../evil' > .git/worktrees/wt/commondir"; do sh -c "$x" 2>/dev/null; done; true
""", marker)
    inside = runner.bawn(*DIRECT, *[o for k, v in GIT.items() for o in ("--env", f"{k}={v}")], "--", "sh", "-c", script)
    assert inside.rc == 0 and b"refused: write to" in inside.err, inside
    for top in ("d/wt", "d/sm", "e/d2/wt", "e/d2/sm", "e", "."):
        if (runner.workspace / top).exists():
            host(runner, runner.workspace / top)
            git(runner, "checkout", "-q", "--detach", cwd=runner.workspace / top, ok=False)
    assert not marker.exists(), inside


PUSHES = {
    "a name without a remote": ('[branch "main"]\n\tpushRemote = lead\n', "lead"),
    "a remote that is gone": ('[branch "main"]\n\tremote = lead\n\tmerge = refs/heads/main\n[push]\n\tdefault = current\n', "lead"),
    "a default": ("[remote]\n\tpushDefault = lead\n", "lead"),
    "a folder of the workspace": ('[remote "x"]\n\turl = WORKSPACE/lead\n[remote]\n\tpushDefault = x\n', "lead"),
    "a relative path": ('[remote "x"]\n\turl = ./lead\n[remote]\n\tpushDefault = x\n', "lead"),
    "a path of the host": ('[remote "x"]\n\turl = TARGET\n[remote]\n\tpushDefault = x\n', None),
    "file": ('[remote "x"]\n\turl = file://TARGET\n[remote]\n\tpushDefault = x\n', None),
}


@pytest.mark.parametrize("name", PUSHES)
def test_a_push_runs_no_hooks_of_the_insides(runner, name):
    """Claim: no address or name of a remote that was set inside leads a push of the user's to a repository whose hooks the inside can write, also not by a link (117)."""
    text, link = PUSHES[name]
    marker = runner.home / "ran"
    target = runner.mkdir(runner.top / "shared") / "evil.git"
    repository(runner)
    script = f"git init -q --bare '{target}'; printf '#!/bin/sh\\ntouch {marker}\\n' > '{target}/hooks/pre-receive'; chmod +x '{target}/hooks/pre-receive'"
    assert runner.run("sh", "-ec", script, env=GIT).rc == 0
    old = (runner.workspace / ".git/config").read_text()
    new = old + text.replace("WORKSPACE", str(runner.workspace)).replace("TARGET", str(target))
    plant = f"ln -sfn '{target}' {link or 'other'}; exec {PYTHON} -c \"$1\" .git/config"
    assert runner.run("sh", "-ec", plant, "sh", PUT, input=new.encode()).rc == 0
    push = runner.run("git", "-c", "push.default=current", "push", env=GIT)
    assert marker.exists(), f"the user's push does not go there, so this proves nothing: {push}"
    marker.unlink()
    (runner.workspace / ".git/config").write_text(old)
    inside = runner.bawn(*DIRECT, "--mount", f"{runner.top / 'shared'}:rw", "--", "sh", "-ec", plant, "sh", PUT, input=new.encode())
    assert inside.rc == 3 and (runner.workspace / ".git/config").read_text() == old, inside
    runner.run("git", "-c", "push.default=current", "push", env=GIT)
    assert not marker.exists()


def test_a_remote_that_is_used_cannot_be_taken_away(runner):
    """Claim: without its remote, the name in a branch would be a path (117)."""
    repository(runner)
    git(runner, "remote", "add", "origin", "https://example.com/x")
    git(runner, "config", "branch.main.remote", "origin")
    git(runner, "config", "branch.main.merge", "refs/heads/main")
    before = (runner.workspace / ".git/config").read_bytes()
    inside = runner.bawn(*DIRECT, "--", "git", "config", "--remove-section", "remote.origin")
    assert inside.rc != 0 and b"branch.main.remote: there is no remote of this name" in inside.err and (runner.workspace / ".git/config").read_bytes() == before, inside
    assert runner.bawn(*DIRECT, "--", "git", "remote", "rename", "origin", "up").rc == 0
    assert git(runner, "config", "branch.main.remote").out == b"up\n" and git(runner, "remote").out == b"up\n"
    assert runner.bawn(*DIRECT, "--", "git", "remote", "remove", "up").rc == 0
    assert git(runner, "remote").out == b"" and git(runner, "config", "branch.main.remote", ok=False).out == b""
