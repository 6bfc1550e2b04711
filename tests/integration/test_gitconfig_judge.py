# SPDX-License-Identifier: Apache-2.0
"""The judge of git's configuration (src/workspace/git/gitconfig_judge.h): what it takes, what it refuses, and that git itself reads what it read."""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ["base/buf.c", "base/err.c", "base/str.c", "base/vec.c", *(f"workspace/git/gitconfig{s}.c" for s in ("", "_judge", "_keys", "_plain", "_remotes", "_values"))]


@pytest.fixture(scope="module")
def cli():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-gitconfig.", dir="/var/tmp"))
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=address,undefined", "-I", ROOT / "src", "-include", ROOT / "src/base/banned.h", "-o", top / "cli",
                    ROOT / "tests/integration/gitconfig_cli.c", *(ROOT / "src" / s for s in SOURCES)], check=True)
    yield top
    shutil.rmtree(top)


def judge(cli, old, new, folder=".git"):
    (cli / "old").write_bytes(old)
    (cli / "new").write_bytes(new)
    words = ["modules", cli / "new"] if folder is None else ["judge", folder, cli / "old", cli / "new"]
    r = subprocess.run([cli / "cli", *words], capture_output=True, check=True)
    return r.stdout.decode().strip()


FRESH = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"
MINE = FRESH + b"[alias]\n\tx = !make\n[include]\n\tpath = ~/team\n[core]\n\tsshCommand = ssh -v\n[remote \"origin\"]\n\turl = https://example.com/a\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"

ALLOWED = {
    "git init": (b"", FRESH),
    "a remote": (MINE, MINE + b'[remote "up"]\n\turl = git@example.com:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/up/*\n'),
    "ssh": (b"", b'[remote "up"]\n\turl = ssh://git@example.com:22/a/b.git\n'),
    "a private path": (b"", b'[remote "up"]\n\turl = /tmp/r.git\n'),
    "the workspace": (b"", b'[remote "up"]\n\turl = /work/space\n\tpushurl = file:///work/space/.git\n[branch "x"]\n\tremote = .\n'),
    "another address": (MINE, MINE.replace(b"example.com/a", b"example.org/b")),
    "a branch": (MINE, MINE + b'[branch "fix/1"]\n\tremote = origin\n\tmerge = refs/heads/fix/1\n\trebase = true\n\tdescription = "two\\nlines"\n'),
    "a name": (MINE, MINE + "[user]\n\tname = Jürgen \"O'Neil\"\n\temail = j@example.com\n".replace('"', '\\"').encode()),
    "a remote less": (MINE, MINE[:MINE.index(b"[remote")]),
    "a comment": (MINE, MINE + b"# what ever ; is \"said\n\t; here\n"),
    "a boolean without a value": (MINE, MINE + b"[push]\n\tautoSetupRemote\n"),
    "nothing": (MINE, MINE),
    "order of what is allowed": (FRESH, b"".join(reversed(FRESH[7:].splitlines(True)))[:0] + b"[core]\n" + b"".join(reversed(FRESH[7:].splitlines(True)))),
    "a submodule": (b"", b'[submodule "lib/x"]\n\turl = ../x.git\n\tactive = true\n\tupdate = merge\n'),
    "postbuffer": (b"", b"[http]\n\tpostBuffer = 524288000\n[color]\n\tui = auto\n[color \"diff\"]\n\tmeta = yellow bold\n[advice]\n\tdetachedHead = false\n"),
    "partial clone": (b"", b'[remote "o"]\n\turl = https://x.org/y\n\tpromisor = true\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialClone = o\n'),
    "a comment behind a value": (b"", b"[pull]\n\trebase = true # as we like it\n"),
}
MODULE = ".git/modules/lib"
REFUSED = {
    "a program": (FRESH, FRESH + b"[core]\n\tfsmonitor = x\n", "core.fsmonitor"),
    "hooks": (FRESH, FRESH + b"[core]\n\thooksPath = x\n", "core.hookspath"),
    "in other letters": (FRESH, FRESH + b"[CORE]\n\tHOOKSPATH = x\n", "core.hookspath"),
    "without a value": (FRESH, FRESH + b"[core]\n\tfsmonitor\n", "core.fsmonitor"),
    "an include": (FRESH, FRESH + b"[include]\n\tpath = x\n", "include.path"),
    "an include on a condition": (FRESH, FRESH + b'[includeIf "gitdir:/a"]\n\tpath = x\n', "includeif.gitdir:/a.path"),
    "another include": (MINE, MINE.replace(b"~/team", b"~/other"), "include.path"),
    "an include less": (MINE, MINE.replace(b"[include]\n\tpath = ~/team\n", b""), "core.sshcommand"),
    "an alias": (MINE, MINE + b"[alias]\n\ty = log\n", "alias.y"),
    "another order of what is fixed": (MINE, MINE.replace(b"[alias]\n\tx = !make\n", b"") + b"[alias]\n\tx = !make\n", "include.path"),
    "a value twice": (MINE, MINE + b"[alias]\n\tx = !make\n", "alias.x"),
    "a filter": (FRESH, FRESH + b'[filter "lfs"]\n\tclean = git-lfs clean -- %f\n', "filter.lfs.clean"),
    "a driver": (FRESH, FRESH + b'[diff "x"]\n\ttextconv = x\n', "diff.x.textconv"),
    "a key of tomorrow": (FRESH, FRESH + b"[core]\n\tnewThing = x\n", "core.newthing"),
    "a helper": (FRESH, FRESH + b'[remote "o"]\n\turl = ext::sh -c x\n', "remote.o.url"),
    "another helper": (FRESH, FRESH + b'[remote "o"]\n\turl = a+b-c.d::x\n', "remote.o.url"),
    "an unknown scheme": (FRESH, FRESH + b'[remote "o"]\n\turl = evil://x/y\n', "remote.o.url"),
    "a scheme in other letters": (FRESH, FRESH + b'[remote "o"]\n\turl = HTTPS://x/y\n', "remote.o.url"),
    "an option": (FRESH, FRESH + b'[remote "o"]\n\turl = --upload-pack=x\n', "remote.o.url"),
    "an option as host": (FRESH, FRESH + b'[remote "o"]\n\turl = ssh://-oProxyCommand=x/y\n', "remote.o.url"),
    "an option as host, with a user": (FRESH, FRESH + b'[remote "o"]\n\turl = ssh://a@-oProxyCommand=x/y\n', "remote.o.url"),
    "an option as host, short": (FRESH, FRESH + b'[remote "o"]\n\turl = -oProxyCommand=x:y\n', "remote.o.url"),
    "an option as path": (FRESH, FRESH + b'[remote "o"]\n\turl = host:-x\n', "remote.o.url"),
    "a path of the host": (FRESH, FRESH + b'[remote "o"]\n\turl = /srv/evil.git\n', "remote.o.url"),
    "a path of the host, file": (FRESH, FRESH + b'[remote "o"]\n\turl = file:///srv/evil.git\n', "remote.o.url"),
    "a folder of the workspace, which may become a link": (FRESH, FRESH + b'[remote "o"]\n\turl = /work/space/lib\n', "remote.o.url"),
    "the same, relative": (FRESH, FRESH + b'[remote "o"]\n\turl = lib/x.git\n', "remote.o.url"),
    "a path of the host, relative": (FRESH, FRESH + b'[remote "o"]\n\turl = ../../srv/evil.git\n', "remote.o.url"),
    "a path of the host, by dots": (FRESH, FRESH + b'[remote "o"]\n\turl = /tmp/../srv/evil.git\n', "remote.o.url"),
    "a line end in an address": (FRESH, FRESH + b'[remote "o"]\n\turl = "https://x/\\ny"\n', "remote.o.url"),
    "a coded line end": (FRESH, FRESH + b'[remote "o"]\n\turl = https://x%0ay/z\n', "remote.o.url"),
    "an address for an address": (FRESH, FRESH + b'[remote "https://github.com/a/b"]\n\turl = https://evil.org/a\n', "remote.https://github.com/a/b.url"),
    "insteadOf": (FRESH, FRESH + b'[url "https://evil.org/"]\n\tinsteadOf = https://github.com/\n', "url.https://evil.org/.insteadof"),
    "a second address": (MINE, MINE + b'[remote "origin"]\n\turl = ext::x\n', "remote.origin.url"),
    "a branch's address": (FRESH, FRESH + b'[branch "b"]\n\tremote = ext::x\n', "branch.b.remote"),
    "a branch's remote that is a folder": (FRESH, FRESH + b'[branch "b"]\n\tremote = evil\n', "branch.b.remote"),
    "the same to push to": (MINE, MINE + b'[branch "b"]\n\tremote = origin\n\tpushRemote = evil\n', "branch.b.pushremote"),
    "the same by default": (MINE, MINE + b'[remote]\n\tpushDefault = x/evil\n', "remote.pushdefault"),
    "replaced objects": (FRESH, FRESH + b'[remote "o"]\n\tfetch = +refs/x/*:refs/replace/*\n', "remote.o.fetch"),
    "all refs": (FRESH, FRESH + b'[remote "o"]\n\tfetch = +refs/*:refs/*\n', "remote.o.fetch"),
    "a forced push": (FRESH, FRESH + b'[remote "o"]\n\tpush = +refs/heads/a\n', "remote.o.push"),
    "a deleting push": (FRESH, FRESH + b'[remote "o"]\n\tpush = :refs/heads/a\n', "remote.o.push"),
    "a command for a submodule": (FRESH, FRESH + b'[submodule "s"]\n\tupdate = !x\n', "submodule.s.update"),
    "a name that leads out": (FRESH, FRESH + b'[submodule "../../s"]\n\tactive = true\n', "submodule.../../s.active"),
    "a work tree": (FRESH, FRESH + b"[core]\n\tworktree = /home/me\n", "core.worktree"),
    "a work tree in the workspace": (FRESH, FRESH + b"[core]\n\tworktree = ../sub\n", "core.worktree"),
    "a hardening less": (FRESH + b"[core]\n\tprotectNTFS = true\n", FRESH, "core.protectntfs"),
    "a check less": (FRESH + b"[fetch]\n\tfsckObjects = true\n", FRESH, "fetch.fsckobjects"),
    "a proxy": (FRESH, FRESH + b"[http]\n\tproxy = http://evil\n", "http.proxy"),
    "a tool by path": (FRESH, FRESH + b"[merge]\n\ttool = ../../x\n", "merge.tool"),
    "a strategy": (FRESH, FRESH + b"[pull]\n\ttwohead = x\n", "pull.twohead"),
    "no string": (FRESH, FRESH + b"[user]\n\tname\n", "user.name"),
    "an escape sequence": (FRESH, FRESH + b'[user]\n\tname = "a\\tb"\n', "user.name"),
}
ODD = {
    "NUL": b"[core]\n\tbare = true\0\n",
    "CR": b"[core]\r\n\tbare = true\r\n",
    "CR inside": b"[core]\n\tbare = tr\rue\n",
    "BOM": b"\xef\xbb\xbf[core]\n\tbare = true\n",
    "half a BOM": b"\xef\xbb[core]\n\tbare = true\n",
    "no UTF-8": b"[user]\n\tname = \xff\n",
    "a line that goes on": b"[user]\n\tname = a\\\nfsmonitor = x\n",
    "a comment that seems to go on": b"[user]\n\tname = a # \\\n\temail = \\\n",
    "open quotes": b"[user]\n\tname = \"a\n",
    "an unknown escape": b"[user]\n\tname = \\x41\n",
    "a backspace": b"[user]\n\tname = a\\b\n",
    "an open section": b"[user\n\tname = a\n",
    "an open subsection": b'[remote "o]\n\turl = a\n',
    "an escaped end": b'[remote "o\\"]\n\turl = a\n',
    "an escape in a subsection": b'[remote "o\\n"]\n\turl = a\n',
    "a dotted section": b"[remote.o]\n\turl = a\n",
    "two on a line": b"[core] bare = true\n",
    "no section": b"bare = true\n",
    "a number as name": b"[core]\n\t1a = true\n",
    "an underscore": b"[core]\n\ta_b = true\n",
    "a tab in a value": b"[user]\n\tname = a\tb\n",
    "a form feed": b"[core]\f\n\tbare = true\n",
    "a hash in a value": b"[user]\n\tname = a#b\n",
    "an empty section": b"[]\n\tbare = true\n",
    "something behind a key": b"[core]\n\tbare true\n",
    "a long line": b"[user]\n\tname = " + b"a" * 9000 + b"\n",
    "a long file": b"# x\n" * 70000,
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(cli, name):
    assert judge(cli, *ALLOWED[name]) == "yes"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_key(cli, name):
    old, new, key = REFUSED[name]
    assert judge(cli, old, new).startswith(key + ": "), judge(cli, old, new)
    assert judge(cli, new, new) == "yes", "what the host has may stay"


TRACKED = MINE + b'[branch "a b"]\n\tremote = origin\n\tmerge = refs/heads/a\n\tpushRemote = "origin"\n[branch "c"]\n\tremote = origin # x\n\tdescription = remote = origin\n'


def test_a_remote_that_branches_name_stays(cli):
    """Else git would take its name for a folder, and a push would run the hooks of what is there."""
    without = TRACKED.replace(b'[remote "origin"]\n\turl = https://example.com/a\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n', b"")
    assert without != TRACKED and judge(cli, TRACKED, without) == "branch.a b.remote: there is no remote of this name, and git would take it for a path".replace("remote:", "pushremote:")
    assert judge(cli, without, without + b"[user]\n\tname = x\n") == "yes", "what was so before may stay"


def test_a_remote_that_is_renamed(cli):
    """git remote rename: the branches have the new name at once."""
    renamed = TRACKED.replace(b'[remote "origin"]', b'[remote "up"]')
    want = renamed.replace(b"\tremote = origin\n", b"\tremote = up\n").replace(b'\tpushRemote = "origin"\n', b"\tpushRemote = up\n").replace(b"\tremote = origin # x\n", b"\tremote = up\n")
    assert judge(cli, TRACKED, renamed).encode() == b"yes\n" + want.strip()
    assert judge(cli, TRACKED, renamed.replace(b"example.com/a", b"example.org/b")).startswith("branch.")


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_refused(cli, name):
    """Whatever is in them: another version of git, or a library, may read something else."""
    assert "line " in judge(cli, FRESH, ODD[name])


@pytest.mark.parametrize("folder, value, verdict", [(MODULE, "../../../lib", "yes"), (".git/modules/a/b", "../../../../a/b", "yes"), (MODULE, "/work/space/lib", "yes"), (".git", "../lib", "no"),
                                                    (MODULE, "../../../../lib", "no"), (MODULE, "../../..", "no"), (MODULE, "../..", "no"), (MODULE, "../../../.vscode", "no"), (MODULE, "/work/spaceship", "no"), (MODULE, "/etc", "no"),
                                                    (MODULE, "../../../x/.git/hooks", "no"), (MODULE, "../../../x/../.GIT/hooks", "no"), (MODULE, "/work/space/../..", "no")])
def test_the_work_tree_of_a_submodule(cli, folder, value, verdict):
    assert (judge(cli, b"", f"[core]\n\tworktree = {value}\n".encode(), folder) == "yes") == (verdict == "yes")


@pytest.mark.parametrize("text, verdict", [
    ('[submodule "a"]\n\tpath = a\n\turl = ../a.git\n\tbranch = main\n\tshallow = true\n\ttag = v1\n', True), ('[submodule "a"]\n\tpath = deep/a\n\turl = https://example.com/a\n', True),
    ('[submodule "a"]\n\tpath = a\n\turl = ext::x\n', False), ('[submodule "a"]\n\tpath = -a\n\turl = ../a\n', False), ('[submodule "a"]\n\tpath = ../a\n\turl = ../a\n', False),
    ('[submodule "a"]\n\tpath = .git/modules\n\turl = ../a\n', False), ('[submodule "a"]\n\tpath = x/.GIT\n\turl = ../a\n', False), ('[submodule "a"]\n\tpath = a\n\turl = -u./x\n', False),
    ('[submodule "../a"]\n\tpath = a\n\turl = ../a\n', False), ('[submodule "a"]\n\tpath = a\n\turl = ../a\n\tupdate = !x\n', False), ('[submodule "a"]\n\tpath = a\n\turl = ../a:b\n', False),
    ('[submodule "a"]\r\n\tpath = a\r\n\turl = ../a\r\n[submodule]\r\n\tfetchJobs = 4\r\n', True), ('[submodule "a"]\r\n\tpath = a\r\n\turl = ext::a\r\n', False), ('[submodule "a"]\n\tpath = a\rb\n', False),
    ('[core]\n\tfsmonitor = x\n', False), ('[submodule "a"]\n\tnote = !x\n', False)])
def test_gitmodules(cli, text, verdict):
    assert (judge(cli, b"", text.encode(), None) == "yes") == verdict


# Against git itself: what counts as plain is read by git as it was read here.

PIECES = ["[core]", '[remote "o"]', '[remote "a\\"b"]', '[remote "a\\\\"]', "[core", "]", '"', "\\", "\n", "\n", "\n\t", "\t", " ", "  ", "=", " = ", "bare", "url", "Name-1", "true", "a b", "#", ";", "\\n", "\\t", "\\\"", "\\\\", "\r", "\r\n",
          "é", "\ufeff", "\x0b", "\x0c", "[a.b]", "[A-b]", "value", "9", "_", ".", '"a ; b"', " # c", "'", "!", "\\\n", "[", "[]", '[x ""]', "x = \"\"", "[x]y=z", "\x7f"]


def make_config(rng):
    if rng.random() < 0.5:
        return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 14))).encode()
    text = bytearray(rng.choice([MINE, FRESH, *(new for _, new in ALLOWED.values())]))
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        piece = rng.choice(PIECES).encode() if rng.random() < 0.7 else bytes([rng.randrange(256)])
        text[at:at + rng.randrange(3)] = piece
    return bytes(text)


def read_all(cli, paths):
    out = subprocess.run([cli / "cli", "read", *paths], capture_output=True, check=True).stdout
    found = []
    for _ in paths:
        head, out = out.split(b"\n", 1)
        n = int(head.split()[1]) if head.startswith(b"plain") else 0
        found.append(out[:n] if head.startswith(b"plain") else None)
        out = out[n:]
    assert out == b""
    return found


@pytest.mark.parametrize("seed", range(4))
def test_git_reads_what_we_read(cli, seed):
    rng = random.Random(seed * 1000 + 15)
    folder = cli / f"random{seed}"
    folder.mkdir()
    texts = [make_config(rng) for _ in range(1500)] + list(ODD.values()) + [new for _, new, _ in REFUSED.values()] + [new for _, new in ALLOWED.values()]
    paths = [folder / str(i) for i in range(len(texts))]
    for path, text in zip(paths, texts):
        path.write_bytes(text)
    plain = 0
    for path, text, ours in zip(paths, texts, read_all(cli, paths)):
        if ours is None:
            continue
        r = subprocess.run(["git", "config", "-f", path, "--list", "-z"], capture_output=True, env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"})
        if ours == b"" and r.returncode == 0:
            assert r.stdout == b"", text
            continue
        plain += 1
        assert (r.returncode, r.stdout) == (0, ours), text
    assert plain > 200
