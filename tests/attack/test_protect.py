# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md 34 to 40, 2 to 5, 16, 17, 84: in direct mode nothing inside can write, make, replace or remove what the host would run
or obey, and everything else goes on working.

The list is the product's own (profiles/protect.txt): a pattern that is added there is attacked here without a change. Each way is
shown to work without the sandbox, on every path, before it is tried inside. The guard alone has its own tests
(tests/integration/test_guard.py); here it is the real `bawn run`.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
DIRECT = ["run", "--workspace", "direct"]
IDENTITY = {f"GIT_{who}_{what}": f"t{at}" for who in ("AUTHOR", "COMMITTER") for what, at in (("NAME", ""), ("EMAIL", "@example.com"))}
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", **IDENTITY}


# -- the list ---------------------------------------------------------------------------------------------------------------------


def rows():
    text = (ROOT / "profiles/protect.txt").read_text()
    return [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]


def concrete(pattern):
    """A path that the pattern matches."""
    return pattern.removeprefix("**/").replace("/**/", "/x/").replace("*", "x").rstrip("/")


LINES = [row[0] for row in rows()]
# NAME and !NAME/: only a folder may have that name, and what is in it is judged by other lines.
LEADS = [concrete(p) for p in LINES if p[0] != "!" and any(f"!{prefix}{p.removeprefix('**/')}/" in LINES for prefix in ("", "**/"))]
FOLDERS = {"hooks", ".husky", ".idea", ".fleet", ".zed", ".helix", ".devcontainer", ".mise", "mise", "plugins", "skills", "commands", "agents", ".codex", ".gemini", ".qwen",
           ".opencode", ".continue", ".amazonq", ".amp", ".factory", ".copilot", "copilot", "settings", ".bawn", "replace", "branches", "remotes", "glab-cli", ".fossil-settings", ".nova", ".lapce", ".qtcreator", ".externalToolBuilders", ".shadowenv.d", "conf.d",
           ".augment", ".codebuddy", ".iflow", ".letta", ".pi", ".vibe", "mcp"}
TARGETS = [p + "/inside" if p.split("/")[-1] in FOLDERS else p for p in (concrete(p) for p in LINES if p[0] != "!") if p not in LEADS]
PLACES = ["", "sub/deep/"]
# At the top each of them, deeper every third: where a pattern holds is the matcher's business, which has tests of its own.
ALL = TARGETS + [PLACES[1] + target for target in TARGETS[::3]]


def test_the_list_is_read_as_it_is_meant():
    """The patterns are found, and each attacked path is one that its pattern names."""
    assert len(TARGETS) > 180 and {".git", ".vscode", ".claude", ".cursor"} <= set(LEADS)
    assert {".git/hooks/inside", ".git/config", ".git/modules/x/hooks/inside", ".vscode/tasks.json", ".envrc", ".mcp.json", ".sandboxignore", ".bawn/inside", ".hg/hgrc", "mise/config.toml", ".vscode/cmake-kits.json", ".Rprofile", ".ghci",
            ".pdbrc", ".jj/repo/config.toml"} <= set(TARGETS)


def test_every_row_has_a_reader_and_a_source():
    """Claim: the list says of each path what reads it and where that is documented, and `bawn config show --protected` prints it."""
    for row in rows():
        assert len(row) == 4 and all(row), row
        assert len(row[2]) > 10 and len(row[3]) > 5, row
    assert len(LINES) == len(set(LINES))


def test_the_list_is_shown(runner):
    shown = runner.bawn("config", "show", "--protected", "--json")
    assert [list(row.values()) for row in shown.json()["protected"]] == rows(), shown
    text = runner.bawn("config", "show", "--protected").out.decode()
    assert all(row[0] in text and row[3] in text for row in rows())


def test_sync_holds_every_protected_path_back(runner):
    """Claim: sync mode carries none of them to the workspace, each waits for review, and review calls each at least a low risk."""
    runner.write("src/main.c", "int main(void) { return 0; }\n")
    git(runner, "init", "-q", "-b", "main", "--template=")
    (runner.workspace / ".git/config").unlink()
    ours = [t for t in TARGETS if not t.startswith(".git/worktrees")]
    # No reader understands this, so rules that read the file say something, too.
    script = 'for p; do mkdir -p "$(dirname "$p")" && printf "{ \\001 [\\n: = ] filter=x\\n" > "$p" || echo "$p"; done; echo done > src/ordinary'
    r = runner.bawn("run", "--workspace", "sync", "--name", "s", "--", "sh", "-c", script, "sh", *ours)
    assert r.rc == 0 and r.out == b"", r
    assert (runner.workspace / "src/ordinary").exists(), "the harmless twin is carried"
    assert [t for t in ours if os.path.lexists(runner.workspace / t)] == []
    judged = {c["path"]: c for c in runner.bawn("review", "--json", "s").json()["changes"]}
    visible = [t for t in ours if not judged[t]["hidden"]]
    assert len(visible) > 180
    assert [t for t in visible if not judged[t]["risks"]] == []


# -- ways: each works on one path, returns None, or raises OSError; the same code runs outside and inside --------------------------

SCRIPT = r'''
import ctypes, errno, json, os, shutil, stat, sys, tempfile, threading
libc = ctypes.CDLL(None, use_errno=True)
W, C, T, X = os.O_WRONLY, os.O_CREAT, os.O_TRUNC, os.O_EXCL
NR = dict(open=2, creat=85, mkdir=83, rename=82, link=86, unlink=87, symlink=88, chmod=90, truncate=76, mknod=133, renameat=264, rmdir=84)
enc = lambda a: os.fsencode(a) if isinstance(a, str) else a
S = "scratch"
fresh = iter(range(10**9))
once = os.urandom(6).hex()

def s():
    return f"{S}/{once}.{next(fresh)}"

def check(r, what):
    if r < 0:
        raise OSError(ctypes.get_errno(), what)
    return r

def raw(name, *args):
    return check(libc.syscall(NR[name], *[ctypes.c_long(a) if isinstance(a, int) else enc(a) for a in args]), name)

def call(name, *args):
    return check(getattr(libc, name)(*map(enc, args)), name)

def put(path, flags=W, text=b"evil\n", **kw):
    fd = os.open(path, flags, 0o755, **kw)
    os.write(fd, text)
    os.close(fd)

def file():
    path = s()
    put(path, W | C)
    return path

def parents(p):
    os.makedirs(os.path.dirname(p) or ".", exist_ok=True)

def split(p):
    return os.path.dirname(p) or ".", os.path.basename(p)

def in_child(f):
    """Two generations away, in a session of its own."""
    r, w = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                f()
                os.write(w, b"0")
            except OSError as e:
                os.write(w, str(e.errno).encode())
        os._exit(0)
    os.close(w)
    code = int(os.read(r, 9))
    os.close(r)
    os.wait()
    if code:
        raise OSError(code, "child")

def in_thread(f):
    caught = []
    def body():
        try:
            f()
        except OSError as e:
            caught.append(e)
    t = threading.Thread(target=body)
    t.start()
    t.join()
    if caught:
        raise caught[0]

def linked(p):
    l = s()
    os.link(p, l)
    put(l)

def by_link(p, flags=W):
    l = s()
    os.symlink(os.path.abspath(p), l)
    put(l, flags)

def by_parent_link(p, flags=W):
    l = s()
    os.symlink(os.path.abspath(split(p)[0]), l)
    put(f"{l}/{split(p)[1]}", flags)

def by_two_links(p, flags=W):
    l, m = s(), s()
    os.symlink(os.path.abspath(p), l)
    os.symlink(os.path.basename(l), m)
    put(m, flags)

def by_fd_of_folder(p, how, flags=W):
    fd = os.open(split(p)[0], how)
    put(split(p)[1], flags, dir_fd=fd)

def by_magic_folder(p, flags=W):
    fd = os.open(split(p)[0], os.O_PATH)
    put(f"/proc/self/fd/{fd}/{split(p)[1]}", flags)

def by_cwd(p, flags=W):
    here = os.getcwd()
    os.chdir(split(p)[0])
    try:
        put(split(p)[1], flags)
    finally:
        os.chdir(here)

def by_other_cwd(p, flags=W):
    """/proc/PID/cwd of a child that sits in the folder."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.chdir(split(p)[0])
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    os.close(r)
    try:
        while os.readlink(f"/proc/{pid}/cwd") != os.path.realpath(split(p)[0]):
            os.sched_yield()
        put(f"/proc/{pid}/cwd/{split(p)[1]}", flags)
    finally:
        os.close(w)
        os.waitpid(pid, 0)

def by_fd(p, how):
    put(f"/proc/self/fd/{os.open(p, how)}")

def link_by_fd(p, how):
    l = s()
    call("linkat", -100, f"/proc/self/fd/{os.open(p, how)}", -100, l, 0x400)
    put(l)

def recreate(p):
    os.unlink(p)
    put(p, W | C)

def move_and_make(p):
    os.rename(p, s())
    put(p, W | C)

def move_folder_and_make(p):
    """Only where the folder itself means something; an ordinary one may be moved."""
    folder, name = split(p)
    if os.path.basename(folder) in (".", "deep"):
        os.unlink(p)
    else:
        os.rename(folder, s())
        os.mkdir(folder)
    put(p, W | C)

def rename_over_folder(p):
    """A tree that was built elsewhere takes the folder's place."""
    folder, name = split(p)
    if os.path.basename(folder) in (".", "deep"):
        parents(p)
        return os.rename(file(), p)
    new = s()
    os.mkdir(new)
    put(f"{new}/{name}", W | C)
    if os.path.exists(folder):
        call("renameat2", -100, new, -100, folder, 2)
    else:
        os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
        os.rename(new, folder)

def link_for_folder(p):
    folder, name = split(p)
    if os.path.basename(folder) in (".", "deep"):
        parents(p)
        return os.symlink(os.path.abspath(file()), p)
    new = s()
    os.mkdir(new)
    put(f"{new}/{name}", W | C)
    if os.path.exists(folder):
        os.rename(folder, s())
    else:
        os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    os.symlink(os.path.abspath(new), folder)

def tmpfile(p):
    fd = os.open(split(p)[0], os.O_TMPFILE | os.O_RDWR, 0o755)
    os.write(fd, b"evil\n")
    call("linkat", -100, f"/proc/self/fd/{fd}", -100, p, 0x400)

def shell(p):
    if os.system(f"exec 2>/dev/null; echo evil > '{p}'"):
        raise OSError(errno.EACCES, p)

def copied(p):
    shutil.copyfile(file(), p)

def replaced(p):
    os.replace(file(), p)

there = {
    "write": put,
    "append": lambda p: put(p, W | os.O_APPEND),
    "read and write": lambda p: put(p, os.O_RDWR),
    "truncating open": lambda p: put(p, W | T),
    "create again": lambda p: put(p, W | C),
    "read-only open that truncates": lambda p: os.close(os.open(p, os.O_RDONLY | T)),
    "truncate": lambda p: os.truncate(p, 0),
    "chmod +x": lambda p: os.chmod(p, 0o755),
    "fchmod": lambda p: call("fchmod", os.open(p, os.O_RDONLY), 0o755),
    "chmod of a descriptor's link": lambda p: os.chmod(f"/proc/self/fd/{os.open(p, os.O_PATH)}", 0o755),
    "attribute": lambda p: os.setxattr(p, "user.x", b"1"),
    "unlink": os.unlink,
    "unlink and make": recreate,
    "move away and make": move_and_make,
    "move the folder and make": move_folder_and_make,
    "rename over": replaced,
    "exchange": lambda p: call("renameat2", -100, file(), -100, p, 2),
    "exchange, the other way": lambda p: call("renameat2", -100, p, -100, file(), 2),
    "a tree in the folder's place": rename_over_folder,
    "hard link": linked,
    "hard link of a descriptor": lambda p: link_by_fd(p, os.O_RDONLY),
    "hard link of an O_PATH": lambda p: link_by_fd(p, os.O_PATH),
    "descriptor for reading, opened again": lambda p: by_fd(p, os.O_RDONLY),
    "O_PATH, opened again": lambda p: by_fd(p, os.O_PATH),
    "link to it": by_link,
    "link to a link to it": by_two_links,
    "link to its folder": by_parent_link,
    "/proc/self/cwd": lambda p: put(f"/proc/self/cwd/{p}"),
    "/proc/thread-self/cwd": lambda p: put(f"/proc/thread-self/cwd/{p}"),
    "/proc/self/root": lambda p: put(f"/proc/self/root{os.path.abspath(p)}"),
    "/proc/PID/cwd": by_other_cwd,
    "descriptor of the folder": lambda p: by_fd_of_folder(p, os.O_RDONLY),
    "O_PATH of the folder": lambda p: by_fd_of_folder(p, os.O_PATH),
    "magic link to the folder": by_magic_folder,
    "from within the folder": by_cwd,
    "the long way round": lambda p: put(f"{S}/../{p}"),
    "odd slashes": lambda p: put(".//./" + p.replace("/", "//")),
    "a shell": shell,
    "a copy": copied,
    "a thread": lambda p: in_thread(lambda: put(p)),
    "a grandchild": lambda p: in_child(lambda: put(p)),
    "legacy open": lambda p: raw("open", p, W, 0),
    "legacy creat": lambda p: raw("creat", p, 0o644),
    "legacy truncate": lambda p: raw("truncate", p, 0),
    "legacy chmod": lambda p: raw("chmod", p, 0o755),
    "legacy rename": lambda p: raw("rename", file(), p),
    "legacy unlink": lambda p: raw("unlink", p),
    "legacy link": lambda p: raw("link", p, s()),
}
new = {
    "create": lambda p: put(p, W | C),
    "create exclusively": lambda p: put(p, W | C | X),
    "create by a read-only open": lambda p: os.close(os.open(p, os.O_RDONLY | C, 0o755)),
    "mkdir": os.mkdir,
    "mknod": lambda p: os.mknod(p, stat.S_IFREG | 0o755),
    "mkfifo": os.mkfifo,
    "a link there": lambda p: os.symlink(os.path.abspath(file()), p),
    "a dangling link there": lambda p: os.symlink("nowhere", p),
    "a hard link there": lambda p: os.link(file(), p),
    "rename there": lambda p: os.rename(file(), p),
    "rename there, if there is nothing": lambda p: call("renameat2", -100, file(), -100, p, 1),
    "rename a link there": lambda p: (lambda l: (os.symlink("x", l), os.rename(l, p)))(s()),
    "rename a folder there": lambda p: (lambda d: (os.mkdir(d), os.rename(d, p)))(s()),
    "a tree in the folder's place": rename_over_folder,
    "a link in the folder's place": link_for_folder,
    "O_TMPFILE and linkat": tmpfile,
    "through a dangling link": lambda p: by_link(p, W | C),
    "through a link to its folder": lambda p: by_parent_link(p, W | C),
    "/proc/self/cwd": lambda p: put(f"/proc/self/cwd/{p}", W | C),
    "/proc/PID/cwd": lambda p: by_other_cwd(p, W | C),
    "descriptor of the folder": lambda p: by_fd_of_folder(p, os.O_RDONLY, W | C),
    "O_PATH of the folder": lambda p: by_fd_of_folder(p, os.O_PATH, W | C),
    "magic link to the folder": lambda p: by_magic_folder(p, W | C),
    "from within the folder": lambda p: by_cwd(p, W | C),
    "a shell": shell,
    "a copy": copied,
    "a grandchild": lambda p: in_child(lambda: put(p, W | C)),
    "legacy open": lambda p: raw("open", p, W | C, 0o755),
    "legacy creat": lambda p: raw("creat", p, 0o755),
    "legacy mknod": lambda p: raw("mknod", p, stat.S_IFREG | 0o755, 0),
    "legacy link": lambda p: raw("link", file(), p),
    "legacy symlink": lambda p: raw("symlink", "x", p),
    "legacy rename": lambda p: raw("rename", file(), p),
}

def attempt(way, existing, path):
    try:
        if not existing:
            if way not in ("a tree in the folder's place", "a link in the folder's place"):
                parents(path)
        (there if existing else new)[way](path)
    except OSError as e:
        return errno.errorcode[e.errno]
    return "OK"

def control(way, existing, path):
    """Alone in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=".") as top:
        here = os.getcwd()
        os.chdir(top)
        os.mkdir(S)
        try:
            if existing:
                parents(path)
                put(path, W | C, b"before\n")
                os.chmod(path, 0o644)
            return attempt(way, existing, path)
        finally:
            os.chdir(here)

if __name__ == "__main__":
    what, way, existing, *paths = sys.argv[1:]
    f = control if what == "control" else attempt
    print(json.dumps({p: f(way, existing == "there", p) for p in paths}))
'''
namespace = {"__name__": "ways"}
exec(SCRIPT, namespace)  # only for the names of the ways
WAYS = [("there", way) for way in namespace["there"]] + [("new", way) for way in namespace["new"]]


def snapshot(top, but=()):
    """{path: type, mode, content} of everything, but for folders named in `but`."""
    found = {}
    for folder, folders, files in os.walk(top):
        rel = os.path.relpath(folder, top)
        folders[:] = [f for f in folders if os.path.normpath(f"{rel}/{f}") not in but]
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(st.st_mode) else pathlib.Path(path).read_bytes() if stat.S_ISREG(st.st_mode) else None
            found[os.path.normpath(f"{rel}/{name}")] = (oct(st.st_mode), content)
    return found


def own_all(runner, top):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            runner.own(os.path.join(folder, name))


def git(runner, *args, env=None, cwd=None, ok=True):
    r = runner.run("git", *args, env={**GIT, **(env or {})}, cwd=cwd)
    assert r.rc == 0 or not ok, r
    return r


@pytest.fixture(scope="module")
def scenes(request, bawn):
    """One workspace per user for all ways on what exists, one for all on what does not: no attack may change either."""
    tools = next(p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "make_runner"))
    made, open_ = {}, []

    def get(kind, existing):
        if (kind, existing) not in made:
            manager = tools.make_runner(kind, bawn)
            runner = manager.__enter__()
            open_.append(manager)
            runner.write("src/main.c", "int main(void) { return 0; }\n")
            runner.mkdir(runner.workspace / "scratch")
            runner.mkdir(runner.top / "control")
            runner.write("sub/deep/file", "content\n")
            for repo in ("", "sub/deep"):
                git(runner, "init", "-q", "-b", "main", "--template=", cwd=runner.workspace / repo)
                (runner.workspace / repo / ".git/config").unlink()
            if existing == "there":
                for path in ALL:
                    runner.write(path, "before\n")
            made[kind, existing] = runner
        return made[kind, existing]

    yield get
    for manager in open_:
        manager.__exit__(None, None, None)


@pytest.mark.parametrize("kind", ["root", "user"])
@pytest.mark.parametrize("existing, way", WAYS, ids=[f"{e}-{w}" for e, w in WAYS])
def test_no_way_to_a_protected_path(scenes, kind, existing, way):
    """Claim: what the host runs or obeys cannot be written, made, replaced or removed, by whatever way (2-5, 16, 17, 34-37, 40)."""
    runner = scenes(kind, existing)
    shown = runner.run(PYTHON, "-c", SCRIPT, "control", way, existing, *ALL, cwd=runner.top / "control")
    assert shown.rc == 0 and set(shown.json().values()) == {"OK"}, f"the way does not work even without the sandbox: {shown!r}"
    before = snapshot(runner.workspace, ["scratch"])
    r = runner.bawn(*DIRECT, "--", PYTHON, "-c", SCRIPT, "attack", way, existing, *ALL)
    assert r.rc == 0, r
    worked = {path: answer for path, answer in r.json().items() if answer not in ("EACCES", "EPERM")}
    assert not worked, worked
    after = snapshot(runner.workspace, ["scratch"])
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    if existing == "new":  # folders that are harmless without what could not be put into them
        harmless = {path for path in changed if path not in before and stat.S_ISDIR(int(after[path][0], 8))}
        assert not harmless & {p for p in ALL}, harmless
        assert not any(os.path.lexists(runner.workspace / path) for path in ALL)
        changed -= harmless
    assert not changed, changed
    assert b"bawn: refused: write to" in r.err, r


LEAD_WAYS = {
    "file": "printf x > '{p}'",
    "link": "mkdir -p evil; ln -s \"$PWD/evil\" '{p}'",
    "dangling link": "ln -s nowhere '{p}'",
    "renamed link": "ln -s evil l$$; mv -T l$$ '{p}'",
    "renamed folder": "mkdir e$$; mv -T e$$ '{p}'",
    "fifo": "mkfifo '{p}'",
}


@pytest.mark.parametrize("way", LEAD_WAYS)
def test_what_leads_to_a_protected_path(runner, way):
    """Claim: .vscode, .claude and their like can only be folders, made as such: a file or link would lead somewhere else (3, 4)."""
    leads = [place + lead for place in PLACES for lead in LEADS if lead != ".git" and not any(other.startswith(lead + "/") for other in LEADS)]
    body = LEAD_WAYS[way].replace("'{p}'", '"$p"').replace("$$", "$n")
    script = 'for p; do n=$(mktemp -u XXXXXXXX); mkdir -p "$(dirname "$p")"; (%s) 2>/dev/null && echo "$p"; done; true' % body
    control = runner.mkdir(runner.top / "control")
    outside = runner.run("sh", "-c", script, "sh", *leads, cwd=control)
    assert set(outside.out.decode().split()) == set(leads), outside
    for repo in ("", "sub/deep"):
        (runner.workspace / repo).mkdir(parents=True, exist_ok=True)
        own_all(runner, runner.workspace)
        git(runner, "init", "-q", "--template=", cwd=runner.workspace / repo)
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", script, "sh", *leads)
    assert inside.rc == 0 and inside.out == b"", inside
    assert [path for path in leads if os.path.lexists(runner.workspace / path)] == []


def test_ancestors_of_a_protected_path_may_move_only_together_with_it(runner):
    """Claim: a move never takes the protection off something, nor brings it where the host obeys it (4)."""
    for path in ("sub/.vscode/tasks.json", "sub/.envrc", "a/hooks/pre-commit", "a/tasks.json", "b/.claude/notes.md"):
        runner.write(path, "before\n")
    git(runner, "init", "-q", "nested", cwd=runner.workspace)
    refused = ["mv sub/.vscode x", "mv sub/.vscode sub/vscode", "mv a sub2; mv -T sub2 .vscode", "mkdir -p c && mv a c/.vscode", "mv a/hooks .claude-hooks && mkdir -p .claude && mv -T .claude-hooks .claude/hooks",
               "mv nested/.git x", "mv nested/.git nested/.git2", "mv nested/.git/hooks nested/h", "mv b/.claude b/claude", "mkdir -p d/.git", "mv -T a nested/.git/modules",
               "mv sub /tmp/", "mkdir /tmp/v && echo x > /tmp/v/tasks.json && mv -T /tmp/v .vscode", "cp -r a .idea", "mkdir /tmp/r && git init -q /tmp/r && mv -T /tmp/r r2"]
    for script in refused:
        control = runner.top / "control"
        shutil.copytree(runner.workspace, control, symlinks=True)
        runner.own(control)
        own_all(runner, control)
        scratch = runner.mkdir(runner.top / "tmp")
        outside = runner.run("sh", "-ec", script.replace("/tmp", str(scratch)), cwd=control)
        assert outside.rc == 0, outside
        shutil.rmtree(control)
        shutil.rmtree(scratch)
    protected = {path: data for path, data in snapshot(runner.workspace).items() if ".git" in path or path in ("sub/.vscode/tasks.json", "sub/.envrc", "b/.claude")}
    for script in refused:
        inside = runner.bawn(*DIRECT, "--", "sh", "-ec", script)
        assert inside.rc not in (0, 64, 125, 127), inside
    after = snapshot(runner.workspace)
    assert {path: after.get(path) for path in protected} == protected
    for path in (".vscode", ".claude/hooks", "c/.vscode", ".idea", "r2", "d/.git"):
        assert not os.path.lexists(runner.workspace / path), path
    moved = runner.bawn(*DIRECT, "--", "sh", "-ec", "mv sub elsewhere; mv nested n2; git -C n2 status")
    assert moved.rc == 0, moved
    assert (runner.workspace / "elsewhere/.vscode/tasks.json").read_text() == "before\n"
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", "echo x > elsewhere/.vscode/tasks.json; echo x > n2/.git/config; mkdir -p sub/.vscode; echo x > sub/.vscode/tasks.json")
    assert inside.rc != 0 and (runner.workspace / "elsewhere/.vscode/tasks.json").read_text() == "before\n", inside
    assert not (runner.workspace / "sub/.vscode/tasks.json").exists()


def test_other_spellings_do_not_matter(runner):
    """Claim: .GIT in any case is refused too; other names are other names on a file system that tells them apart, and git obeys none."""
    runner.write("a", "a\n")
    git(runner, "init", "-q")
    git(runner, "add", "a")
    git(runner, "commit", "-qm", "a")
    hooks = "for n in .GIT .Git .giT; do mkdir -p $n/hooks 2>/dev/null && printf '#!/bin/sh\\ntouch %s\\n' > $n/hooks/pre-commit && chmod +x $n/hooks/pre-commit && echo $n; done; true"
    control = runner.mkdir(runner.top / "control")
    assert runner.run("sh", "-c", hooks % "x", cwd=control).out.split() == [b".GIT", b".Git", b".giT"]
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", hooks % (runner.home / "ran"))
    assert inside.rc == 0 and inside.out == b"", inside
    git(runner, "commit", "--allow-empty", "-qm", "b")
    assert not (runner.home / "ran").exists()
    assert git(runner, "status", "--porcelain", "--ignored", "-uall").out == b""


# -- where git looks: each place is shown to be obeyed by the host's git ------------------------------------------------------------

HOOK = "#!/bin/sh\ntouch \"%s\"\n"
CONFIG = "[core]\n\tfsmonitor = \"touch '%s'; false\"\n"
# id: (how the host is set up, what is attacked, what kind of thing that is, where git is called)
OBEYED = {
    "hooks": ("", ".git/hooks/pre-commit", HOOK, "."),
    "config": ("", ".git/config", CONFIG, "."),
    "hooks, the folder is missing": ("rm -r .git/hooks", ".git/hooks/pre-commit", HOOK, "."),
    "config.worktree": ("git config extensions.worktreeConfig true", ".git/config.worktree", CONFIG, "."),
    "hooksPath": ("git config core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath, there already": ("mkdir hk; git config core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath, deep": ("git config core.hooksPath tools/git/hk", "tools/git/hk/pre-commit", HOOK, "."),
    "hooksPath, odd": ("git config core.hooksPath ./hk//", "hk/pre-commit", HOOK, "."),
    "hooksPath, a blank": ("git config core.hooksPath 'my hooks'", "my hooks/pre-commit", HOOK, "."),
    "hooksPath, wildcards": ("git config core.hooksPath 'h[k]*'", "h[k]*/pre-commit", HOOK, "."),
    "hooksPath, absolute": ('git config core.hooksPath "$PWD/hk"', "hk/pre-commit", HOOK, "."),
    "hooksPath, absolute through a link": ('ln -s "$PWD" ~/link; git config core.hooksPath ~/link/hk', "hk/pre-commit", HOOK, "."),
    "hooksPath, by the home": ("git config core.hooksPath '~/../work/hk'", "hk/pre-commit", HOOK, "."),
    "hooksPath, a link in the tree": ("mkdir -p real/hk; ln -s real/hk lk; git config core.hooksPath lk", "real/hk/pre-commit", HOOK, "."),
    "hooksPath, a dangling link in the tree": ("mkdir real; ln -s real/hk lk; git config core.hooksPath lk", "real/hk/pre-commit", HOOK, "."),
    "hooksPath of the user": ("git config --global core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of the user, XDG": ("mkdir -p ~/.config/git; git config -f ~/.config/git/config core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of the user, twice": ("mkdir -p ~/.config/git; git config -f ~/.config/git/config core.hooksPath other; git config --global core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of an include": ("git config -f ~/inc core.hooksPath hk; git config include.path ~/inc", "hk/pre-commit", HOOK, "."),
    "hooksPath of a conditional include": ("git config -f ~/inc core.hooksPath hk; git config includeIf.onbranch:m*.path ~/inc", "hk/pre-commit", HOOK, "."),
    "hooksPath of the worktree": ("git config extensions.worktreeConfig true; git config --worktree core.hooksPath hk", "hk/pre-commit", HOOK, "."),
    "hooksPath of a nested repository": ("git init -q sub; git -C sub config core.hooksPath hk", "sub/hk/pre-commit", HOOK, "sub"),
    "hooksPath of the user, for a nested repository": ("git init -q sub; git config --global core.hooksPath hk", "sub/hk/pre-commit", HOOK, "sub"),
    "hooksPath of a submodule": ("SUBMODULE; git -C sub config core.hooksPath hk", "sub/hk/pre-commit", HOOK, "sub"),
    "include": ("git config include.path ../team", "team", CONFIG, "."),
    "include, there already": ("printf '[a]\\nb = c\\n' > team; git config include.path ../team", "team", CONFIG, "."),
    "include of an include": ("printf '[include]\\npath = more\\n' > team; git config include.path ../team", "more", CONFIG, "."),
    "include of the user": ("git config --global include.path \"$PWD/team\"", "team", CONFIG, "."),
    "include of a nested repository": ("git init -q sub; git -C sub config include.path ../team", "sub/team", CONFIG, "sub"),
    "nested repository, hooks": ("git init -q sub", "sub/.git/hooks/pre-commit", HOOK, "sub"),
    "nested repository, config": ("git init -q sub/deep", "sub/deep/.git/config", CONFIG, "sub/deep"),
    "submodule, hooks": ("SUBMODULE", ".git/modules/sub/hooks/pre-commit", HOOK, "sub"),
    "submodule, config": ("SUBMODULE", ".git/modules/sub/config", CONFIG, "sub"),
    "submodule, hooks are missing": ("SUBMODULE; rm -r .git/modules/sub/hooks", ".git/modules/sub/hooks/pre-commit", HOOK, "sub"),
    "linked worktree, config.worktree": ("git worktree add -q wt; git config extensions.worktreeConfig true", ".git/worktrees/wt/config.worktree", CONFIG, "wt"),
    "linked worktree, hooks of the repository": ("git worktree add -q wt", ".git/hooks/pre-commit", HOOK, "wt"),
    ".git is a link": ("mv .git gd; ln -s gd .git", "gd/hooks/pre-commit", HOOK, "."),
    ".git is a link, config": ("mv .git gd; ln -s gd .git", "gd/config", CONFIG, "."),
    ".git/hooks is a link": ("mv .git/hooks hk; ln -s ../hk .git/hooks", "hk/pre-commit", HOOK, "."),
    ".git is a file, hooks": ("git init -q --separate-git-dir=gd", "gd/hooks/pre-commit", HOOK, "."),
    ".git is a file, config": ("git init -q --separate-git-dir=gd", "gd/config", CONFIG, "."),
    ".git is a file, relative": ("mv .git gd; echo 'gitdir: gd' > .git", "gd/config", CONFIG, "."),
    ".git of a nested one is a file": ("mkdir sub; git init -q --separate-git-dir=gd sub", "gd/hooks/pre-commit", HOOK, "sub"),
    "bare repository of the tree, config": ("git init -q --bare fix.git; git -C fix.git config core.bare false; git -C fix.git config core.worktree .", "fix.git/config", CONFIG, "fix.git"),
    "bare repository of the tree, hooks": ("git init -q --bare fix.git; git -C fix.git config core.bare false; git -C fix.git config core.worktree .", "fix.git/hooks/pre-commit", HOOK, "fix.git"),
    "commondir": ("git worktree add -q wt; cp -r .git gd", ".git/worktrees/wt/commondir", "../../../gd\n", None),
    "alternative .git": ("git init -q --bare fix.git", "sub/.git", "gitdir: ../fix.git\n", None),
}
SUBMODULE = "git init -q ~/lib; git -C ~/lib commit -q --allow-empty -m x; git -c protocol.file.allow=always submodule --quiet add ~/lib sub"


def repository(runner):
    runner.write("a", "a\n")
    git(runner, "init", "-q", "-b", "main")
    git(runner, "add", "a")
    git(runner, "commit", "-qm", "a")


def host_git(runner, where, env=None):
    """What a user does: git runs what it finds."""
    top = runner.workspace / where
    git(runner, "-c", "safe.bareRepository=all", "status", cwd=top, ok=False, env=env)
    git(runner, "commit", "--allow-empty", "-qm", "by the user", cwd=top, ok=False, env=env)


PLANT = 'mkdir -p "$(dirname "$1")" && cat >> "$1" && chmod +x "$1"'


# What SECURITY.md names under Limits: places that only the configuration of another repository, or a link, leads to.
GAPS = ["hooksPath, absolute through a link", "hooksPath, a dangling link in the tree", "hooksPath of a nested repository",
        "hooksPath of the user, for a nested repository", "hooksPath of a submodule", "include of a nested repository"]
GAP = pytest.mark.xfail(strict=True, reason="a known gap of direct mode, named in SECURITY.md")


@pytest.mark.parametrize("case", [pytest.param(c, marks=GAP) if c in GAPS else c for c in OBEYED])
def test_git_is_given_nothing_to_run(runner, case):
    """Claim: hooks and configuration of git in every form (34-37): what the host's git is shown to obey cannot be written inside."""
    setup, target, payload, where = OBEYED[case]
    marker = runner.home / "ran"
    repository(runner)
    prepared = runner.run("bash", "-ec", setup.replace("SUBMODULE", SUBMODULE) or "true", env=GIT)
    assert prepared.rc == 0, prepared
    text = (payload % marker if "%s" in payload else payload).encode()
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    planted = runner.run("sh", "-c", PLANT, "sh", target, input=text)
    assert planted.rc == 0, planted
    if where is not None:
        host_git(runner, where)
        assert marker.exists(), "the host's git does not obey it, so this proves nothing"
        marker.unlink()
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    before = snapshot(runner.workspace)
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", PLANT, "sh", target, input=text, env=GIT)
    assert inside.rc not in (0, 64, 125, 127), inside
    after = snapshot(runner.workspace)
    assert {path: (before.get(path), after.get(path)) for path in before.keys() | after.keys() if before.get(path) != after.get(path) and not (after.get(path) or "0o4")[0].startswith("0o4")} == {}
    if where is not None:
        host_git(runner, where)
        assert not marker.exists()


@pytest.mark.parametrize("env", [{"GIT_CONFIG_GLOBAL": "HOME/elsewhere"}, pytest.param({"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "hk"}, marks=GAP),
                                 {"GIT_CONFIG_SYSTEM": "HOME/elsewhere", "GIT_CONFIG_NOSYSTEM": None}], ids=["global", "values", "system"])
def test_git_configuration_named_by_the_environment(runner, env):
    """Claim: core.hooksPath counts wherever the user's git takes it from (36)."""
    env = {**GIT, **{k: v and v.replace("HOME", str(runner.home)) for k, v in env.items()}}
    runner.write(runner.home / "elsewhere", "[core]\n\thooksPath = hk\n")
    marker = runner.home / "ran"
    repository(runner)
    assert runner.run("sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode()).rc == 0
    host_git(runner, ".", env)
    assert marker.exists()
    marker.unlink()
    shutil.rmtree(runner.workspace / "hk")
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode(), env=env)
    assert inside.rc not in (0, 64, 125, 127), inside
    host_git(runner, ".", env)
    assert not marker.exists()


@GAP
def test_the_workspace_is_a_folder_of_a_repository(runner):
    """Claim: the same if the repository begins above the workspace and its hooks lie in it (36)."""
    marker = runner.home / "ran"
    repository(runner)
    sub = runner.mkdir(runner.workspace / "sub")
    git(runner, "config", "core.hooksPath", "sub/hk")
    assert runner.run("sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode(), cwd=sub).rc == 0
    host_git(runner, ".")
    assert marker.exists()
    marker.unlink()
    shutil.rmtree(sub / "hk")
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", PLANT, "sh", "hk/pre-commit", input=(HOOK % marker).encode(), cwd=sub)
    assert inside.rc not in (0, 64, 125, 127), inside
    host_git(runner, ".")
    assert not marker.exists()


@pytest.mark.parametrize("where", ["logs/HEAD", "logs/refs/heads/main", "logs/refs", "objects/zz", "objects/pack", "objects/info/x", "refs/heads/x", "rebase-merge/done", "rr-cache/x", "lfs/tmp", "x", "HEAD"])
def test_no_link_below_git(runner, where):
    """Claim: nothing below .git becomes a symbolic link, which git itself never makes: the host's git would write through it (3, 15)."""
    repository(runner)
    script = 'mkdir -p "$(dirname "$1")"; rm -rf "$1"; ln -s /elsewhere "$1" && echo linked; mkdir -p t; ln -s /elsewhere t/l; mv -T t/l "$1" && echo moved; ln -P t/l "$1" && echo hard; rm -rf "$1"; mkdir -p u; ln -s /elsewhere u/l; mv -T u "$1" && echo tree; true'
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    assert b"linked" in runner.run("sh", "-c", script, "sh", f".git/{where}", cwd=keep).out
    r = runner.bawn(*DIRECT, "--", "sh", "-c", script, "sh", f".git/{where}")
    assert r.rc == 0 and r.out == b"", r
    assert not [path for path, (mode, _) in snapshot(runner.workspace / ".git").items() if stat.S_ISLNK(int(mode, 8))]


@pytest.mark.parametrize("target", ["HOME/.bashrc", "../hooks/pre-commit"])
def test_the_reflog_does_not_write_elsewhere(runner, target):
    """Claim: the host's git, that notes what the user does, is not made to write where the command cannot (15, 34)."""
    repository(runner)
    victim = runner.write(runner.home / ".bashrc", "# mine\n") if "HOME" in target else runner.write(".git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    before = victim.read_bytes()
    script = f"rm -f .git/logs/HEAD; ln -s {target.replace('HOME', str(runner.home))} .git/logs/HEAD; git branch 'a;evil;'; true"
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    assert runner.run("sh", "-c", script, env=GIT).rc == 0
    git(runner, "checkout", "-q", "a;evil;")
    assert b"a;evil;" in victim.read_bytes(), "without the sandbox the user's checkout writes it"
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    victim.write_bytes(before)
    r = runner.bawn(*DIRECT, "--", "sh", "-c", script)
    assert r.rc == 0, r
    git(runner, "checkout", "-q", "a;evil;", ok=False)
    assert victim.read_bytes() == before, r


BARE = {
    "HEAD": "echo 'ref: refs/heads/main' > {d}/HEAD",
    "objects": "mkdir {d}/objects",
    "refs": "mkdir {d}/refs",
    "config": "printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\nfsmonitor = \"touch %s; false\"\\n' > {d}/config",
}
BARE_ODD = {
    "by git": "git init -q --bare {d}",
    "renamed in": "mkdir -p {d} p/objects p/refs; echo 'ref: refs/heads/main' > h; CONFIG; mv p/objects p/refs {d}; mv h {d}/HEAD",
    "links": "mkdir -p {d} o r; ln -s ../o {d}/objects; ln -s ../r {d}/refs; CONFIG; ln -s refs/heads/main {d}/HEAD",
    "a whole tree from /tmp": "git init -q --bare $T/x; {C}; mv $T/x {d}",
    "commondir": "mkdir -p {d} real/objects real/refs; echo 'ref: refs/heads/main' > {d}/HEAD; CONFIG; mv {d}/config real; echo ../real > {d}/commondir",
    "exchanged": "mkdir -p {d}/objects {d}/x y/refs; echo 'ref: refs/heads/main' > {d}/HEAD; CONFIG; mv {d}/x {d}/refs",
    "in the workspace itself": "mkdir objects refs; echo 'ref: refs/heads/main' > HEAD",
}


def plant_bare(script, runner, marker):
    config = BARE["config"].replace("%s", str(marker))
    return script.replace("CONFIG", config).replace("{C}", config.replace("{d}", "$T/x")).replace("%s", str(marker)).format(d="bare") if "{d}" in script else script


@pytest.mark.parametrize("order", [" ".join(o) for o in itertools.permutations(BARE)] + list(BARE_ODD))
def test_no_bare_repository_can_be_planted(user_runner, order):
    """Claim: no folder that git would take for a repository, with a configuration of its own, in whatever order it is made (37)."""
    runner, marker = user_runner, user_runner.home / "ran"
    script = BARE_ODD.get(order) or "; ".join(["mkdir {d}"] + [BARE[part] for part in order.split()])
    script = "set -e; T=$(mktemp -d); " + plant_bare(script, runner, marker)
    where = runner.workspace / "bare" if "{d}" in (BARE_ODD.get(order) or "{d}") else runner.workspace
    outside = runner.run("sh", "-c", script, env={"TMPDIR": str(runner.home)})
    assert outside.rc == 0, outside
    found = runner.run("git", "rev-parse", "--git-dir", cwd=where, env={**GIT, "GIT_CEILING_DIRECTORIES": str(runner.top)})
    assert found.rc == 0, f"git does not take it for a repository, so this proves nothing: {found}"
    if order in ("HEAD objects refs config", "renamed in", "links"):
        git(runner, "status", cwd=where, ok=False)
        assert marker.exists()
        marker.unlink()
    for path in runner.workspace.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    inside = runner.bawn(*DIRECT, "--", "sh", "-c", script)
    assert inside.rc not in (0, 64, 125, 127), inside
    if where.exists():
        found = runner.run("git", "rev-parse", "--git-dir", cwd=where, env={**GIT, "GIT_CEILING_DIRECTORIES": str(runner.top)})
        assert found.rc != 0, found


# -- other mounts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, target", [("work/.git", "hooks/x"), ("work/.git/hooks", "x"), ("work/.git/config", ""), ("work", ".envrc"), ("work/sub", ".vscode/tasks.json"), (".", "work/.git/hooks/x")])
def test_through_a_mount_of_the_users(runner, source, target):
    """Claim: the same place reached through `--mount … rw` is the same protected place (mount point tricks)."""
    repository(runner)
    runner.write("sub/.vscode/tasks.json", "before\n")
    before = snapshot(runner.workspace)
    path = ("/mnt/other/" + target).rstrip("/")
    plain = {"work": "fine", "work/.git": "fine", "work/sub": "fine", ".": "work/fine"}.get(source)
    writable = f"echo ok > /mnt/other/{plain} && rm /mnt/other/{plain} || exit 9; " if plain else ""
    r = runner.bawn(*DIRECT, "--mount", f"{runner.top / source}:/mnt/other:rw", "--", "sh", "-c", f'{writable}echo evil > "$1" || exit 3', "sh", path)
    assert r.rc == 3, r
    assert snapshot(runner.workspace) == before
    without = runner.bawn("run", "--no-sandbox", "--yes-unsandboxed", "--", "sh", "-c", 'echo evil > "$1"', "sh", str(runner.top / source / target).rstrip("/"))
    assert without.rc == 0 and snapshot(runner.workspace) != before, without


def test_through_the_name_that_every_workspace_has(runner):
    """Claim: /workspace leads to the same place."""
    repository(runner)
    before = snapshot(runner.workspace)
    r = runner.bawn(*DIRECT, "--", "sh", "-c", "echo ok > /workspace/fine && rm fine || exit 9; for p in .git/hooks/x .git/config .envrc sub/.mcp.json; do mkdir -p /workspace/sub; echo x > /workspace/$p && exit 0; done; rmdir sub; exit 3")
    assert r.rc == 3 and snapshot(runner.workspace) == before, r


# -- races and odd callers, in C: other languages are too slow to win ---------------------------------------------------------------

RACE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[4096] __attribute__((aligned(4096)));
static const char *evil;
static char safe[256];
static volatile int over;

/* Both have the same length, so that there is never a third path. */
static void *flip(void *arg) {
    (void)arg;
    while (!over) {
        memcpy(path, safe, strlen(safe) + 1);
        memcpy(path, evil, strlen(evil) + 1);
    }
    return NULL;
}

static void on_signal(int sig) {
    static int n;

    (void)sig;
    strcpy(path, n++ % 2 ? safe : evil);
}

static int done(void) {
    struct stat st;
    return lstat(evil, &st) == 0 && (S_ISREG(st.st_mode) ? st.st_size > 0 : 1);
}

static void use(const char *call, int i) {
    char other[64];
    int fd;

    snprintf(other, sizeof other, "scratch/%d.%d", getpid(), i % 8);
    if (!strcmp(call, "open") && (fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0755)) >= 0) {
        if (write(fd, "evil\n", 5) != 5)
            abort();
        close(fd);
    }
    if (!strcmp(call, "legacy") && (fd = syscall(SYS_creat, path, 0755)) >= 0) {
        if (write(fd, "evil\n", 5) != 5)
            abort();
        close(fd);
    }
    if (!strcmp(call, "mkdir"))
        mkdir(path, 0755);
    if (!strcmp(call, "symlink") && symlink("x", path) == 0)
        ;
    if (!strcmp(call, "mknod"))
        mkfifo(path, 0755);
    if (!strcmp(call, "rename") || !strcmp(call, "link")) {
        fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0755);
        if (fd < 0 || write(fd, "evil\n", 5) != 5)
            return;
        close(fd);
        if (!strcmp(call, "rename"))
            rename(other, path);
        else if (link(other, path) < 0)
            ;
    }
    if (strcmp(call, "open") && strcmp(call, "legacy") && strcmp(call, "rename"))
        remove(safe);
}

/* A child that asks for the harmless path, and a parent that writes the other one into its memory while it waits. */
static int by_memory(const char *call, int rounds) {
    char *shared = path;
    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < rounds; i++) {
            strcpy(path, safe);
            use(call, i);
        }
        _exit(0);
    }
    for (;;) {
        struct iovec from = {(void *)evil, strlen(evil) + 1}, to = {shared, strlen(evil) + 1};
        int status;

        if (process_vm_writev(pid, &from, 1, &to, 1, 0) < 0 && errno != ESRCH)
            return 2;
        if (waitpid(pid, &status, WNOHANG) == pid)
            break;
        if (done()) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
    }
    return 0;
}

/* A debugger that changes the call, or the path it names, between entry and kernel. */
static int by_debugger(int rounds) {
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (int i = 0; i < 2 * rounds; i++) {
            int fd = i % 2 ? open(safe, O_WRONLY | O_CREAT, 0755) : (int)syscall(SYS_getppid, AT_FDCWD, path, O_WRONLY | O_CREAT, 0755);

            if (fd >= 0) {
                write(fd, "evil\n", 5);
                close(fd);
            }
        }
        _exit(0);
    }
    waitpid(pid, &status, 0);
    ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    for (int entry = 1;; entry = !entry) {
        struct user_regs_struct regs;

        if (done() || ptrace(PTRACE_SYSCALL, pid, 0, 0) < 0 || waitpid(pid, &status, 0) < 0 || WIFEXITED(status) || WIFSIGNALED(status))
            break;
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80) || ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0 || !entry)
            continue;
        if (regs.orig_rax == SYS_getppid) {
            regs.orig_rax = SYS_openat;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        } else if (regs.orig_rax == SYS_openat) {
            struct iovec from = {(void *)evil, strlen(evil) + 1}, to = {path, strlen(evil) + 1};

            process_vm_writev(pid, &from, 1, &to, 1, 0);
            regs.rsi = (unsigned long)path;
            ptrace(PTRACE_SETREGS, pid, 0, &regs);
        }
    }
    return 0;
}

/* An open of a FIFO waits for its other end; meanwhile the name becomes something else. */
static void *wait_at_fifo(void *arg) {
    int fd = open(safe, O_WRONLY | (arg ? O_CREAT : 0), 0755);

    if (fd >= 0 && write(fd, "evil\n", 5) != 5)
        abort();
    if (fd >= 0)
        close(fd);
    return NULL;
}

int main(int argc, char **argv) {
    const char *how = argv[1], *call = argc > 4 ? argv[4] : "";
    int rounds = atoi(argv[2]);
    pthread_t t;

    evil = argv[3];
    snprintf(safe, sizeof safe, "s%*s", (int)strlen(evil) - 1, "");
    memset(safe + 1, 'f', strlen(evil) - 1);
    strcpy(path, evil);
    if (!strcmp(how, "threads")) {
        pthread_create(&t, NULL, flip, NULL);
        for (int i = 0; i < rounds && !done(); i++)
            use(call, i);
        over = 1;
        pthread_join(t, NULL);
    } else if (!strcmp(how, "signals") || !strcmp(how, "restarting")) {
        struct sigaction act = {.sa_handler = on_signal, .sa_flags = !strcmp(how, "restarting") ? SA_RESTART : 0};
        struct itimerval clock = {{0, 150}, {0, 150}}, off = {{0, 0}, {0, 0}};

        strcpy(path, safe);
        sigaction(SIGALRM, &act, NULL);
        setitimer(ITIMER_REAL, &clock, NULL);
        for (int i = 0; i < rounds && !done(); i++)
            use(call, i);
        setitimer(ITIMER_REAL, &off, NULL);
    } else if (!strcmp(how, "memory")) {
        if (by_memory(call, rounds))
            return 2;
    } else if (!strcmp(how, "debugger")) {
        by_debugger(rounds);
    } else if (!strcmp(how, "fifo") || !strcmp(how, "fifo-create")) {
        int create = !strcmp(how, "fifo-create");

        strcpy(safe, argv[5]); /* the FIFO */
        if (mkfifo(safe, 0755) < 0)
            return 2;
        pthread_create(&t, NULL, wait_at_fifo, create ? "" : NULL);
        poll(NULL, 0, 200); /* until it waits; too short a time is only a weaker attack */
        if (unlink(safe) < 0)
            return 2;
        if (create ? mkdir(argv[4], 0755) < 0 : rename(argv[4], safe) < 0)
            return 3;
        poll(NULL, 0, 300); /* until it has looked again */
        if (create)
            chmod(safe, 0644);
        return done() ? 0 : 3;
    }
    return done() ? 0 : 3;
}
"""


@pytest.fixture(scope="session")
def programs():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-probe.", dir="/var/tmp"))
    top.chmod(0o755)
    for name, text, flags in (("race", RACE, ["-pthread"]), ("raw", RAW, ["-static", "-no-pie"])):
        (top / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Wno-unused-result", "-Wno-empty-body", *flags, "-o", top / name, top / f"{name}.c"], check=True)
    yield top
    shutil.rmtree(top)


def program(runner, programs, name):
    path = runner.workspace / name
    shutil.copy(programs / name, path)
    path.chmod(0o755)
    runner.mkdir(runner.workspace / "scratch") if not (runner.workspace / "scratch").exists() else None
    return runner.own(path)


def tidy(runner, *keep):
    for path in runner.workspace.iterdir():
        if path.name not in keep:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


CALLS = ["open", "legacy", "mkdir", "symlink", "mknod", "rename", "link"]


@pytest.mark.parametrize("how, call", [("threads", c) for c in CALLS] + [("signals", "open"), ("signals", "mkdir"), ("restarting", "open"), ("restarting", "rename"), ("memory", "open"), ("memory", "mkdir"), ("debugger", "")])
def test_the_path_changes_while_it_is_judged(runner, programs, how, call):
    """Claim: there is no moment between judging and doing (16, 84): threads, signal handlers, other processes, debuggers."""
    race = program(runner, programs, "race")
    outside = runner.run(race, how, "2000000", ".envrc", call)
    assert outside.rc == 0, outside
    tidy(runner, "race")
    runner.mkdir(runner.workspace / "scratch")
    inside = runner.bawn(*DIRECT, "--", race, how, "3000", ".envrc", call)
    assert inside.rc == 3, inside
    assert not os.path.lexists(runner.workspace / ".envrc")
    left = {p.name for p in runner.workspace.iterdir()} - {"race", "scratch"}
    assert all(byte in pair for name in left for byte, pair in zip(name, zip("sfffff", ".envrc"))), left  # halves of both
    assert b"refused: write to '.envrc'" in inside.err, "the guard never saw the other path, so nothing was raced"


def test_a_waiting_open_does_not_reach_another_file(runner, programs):
    """Claim: the same for an open that has to wait for the other end of a FIFO: what it gets is what was judged (16, 84)."""
    repository(runner)
    race = program(runner, programs, "race")
    os.link(runner.workspace / ".git/config", runner.workspace / "hard")
    before = (runner.workspace / ".git/config").read_bytes()
    direct = runner.bawn(*DIRECT, "--", "sh", "-c", "echo evil >> hard")
    assert direct.rc != 0, "the other name of the configuration is protected, too"
    several = 'for i in 1 2 3 4 5 6; do "$1" fifo 0 never hard fifo$i; test $? = 3 || exit 9; test -e hard || mv fifo$i hard; done'  # one attempt may lose
    r = runner.bawn(*DIRECT, "--", "sh", "-c", several, "sh", race)
    assert r.rc == 0, r
    assert (runner.workspace / ".git/config").read_bytes() == before, r
    assert runner.run("sh", "-c", "echo evil >> hard").rc == 0
    assert (runner.workspace / ".git/config").read_bytes() != before, "without the sandbox the name leads to the configuration"


def test_a_waiting_open_makes_nothing_that_was_not_judged(runner, programs):
    """Claim: an open with O_CREAT that waits does not make the file later, when it would complete a repository (16, 37)."""
    race = program(runner, programs, "race")
    several = 'for i in 1 2 3 4 5 6; do mkdir -p bare$i/objects; "$1" fifo-create 0 never bare$i/refs bare$i/HEAD; test $? = 3 || exit 9; done'
    r = runner.bawn(*DIRECT, "--", "sh", "-c", several, "sh", race)
    assert r.rc == 0, r
    for bare in runner.workspace.glob("bare*"):
        assert not {"HEAD", "objects", "refs"} <= {p.name for p in bare.iterdir()}, r


def test_many_at_once(runner):
    """Claim: the same with many processes that try everything at the same time, also while folders move about."""
    repository(runner)
    runner.write("tree/a/b/file", "x\n")
    before = snapshot(runner.workspace / ".git", ["objects", "refs", "logs"])
    script = """
import os, random, sys
random.seed(int(sys.argv[1]))
names = ['.envrc', 'tree/.vscode', 'tree/.vscode/tasks.json', 't/.vscode/tasks.json', '.git/hooks/x', '.git/config', 'tree/a/.mcp.json', 't/a/.mcp.json', 'tree/.git', 't/.git']
for i in range(400):
    a, b = random.choice(names), random.choice(names)
    for f in (lambda: os.rename('tree', 't'), lambda: os.rename('t', 'tree'), lambda: os.close(os.open(a, os.O_WRONLY | os.O_CREAT)), lambda: os.mkdir(a), lambda: os.rename(a, b),
              lambda: os.symlink('/tmp', a), lambda: os.link('tree/a/b/file', a), lambda: os.unlink(a), lambda: os.rename(a, 'tree/x'), lambda: os.rename('tree/x', a), lambda: os.rmdir(a)):
        try:
            f()
        except OSError:
            pass
"""
    r = runner.bawn(*DIRECT, "--", "sh", "-c", 'for i in 1 2 3 4; do /usr/bin/python3 -c "$1" $i & done; wait', "sh", script)
    assert r.rc == 0, r
    assert snapshot(runner.workspace / ".git", ["objects", "refs", "logs"]) == before
    left = [p for p in snapshot(runner.workspace, [".git"]) if p.endswith((".envrc", "tasks.json", ".mcp.json", ".git"))]
    assert left == []


RAW = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char place[4096], other[] = "scratch/f";

/* The 32-bit call gate, which a 64-bit program can use as well. */
static long call32(long nr, long a, long b, long c) {
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
    return r;
}

static long try(const char *how, int there) {
    struct open_how oh = {.flags = O_WRONLY | (there ? 0 : O_CREAT), .mode = there ? 0 : 0755};

    if (!strcmp(how, "open"))
        return syscall(SYS_open, place, O_WRONLY | (there ? O_TRUNC : O_CREAT), 0755);
    if (!strcmp(how, "open with high bits")) /* the upper half of the flags is not looked at by the kernel */
        return syscall(SYS_open, place, 0xffffffff00000000ul | O_WRONLY | (there ? O_TRUNC : O_CREAT), 0755);
    if (!strcmp(how, "openat with a wild folder")) /* an absolute path makes it irrelevant */
        return syscall(SYS_openat, 0x7fffffffdeadbeefl, realpath(".", NULL) && chdir(".") == 0 ? strcat(strcat(strcpy(malloc(9000), realpath(".", NULL)), "/"), place) : "", O_WRONLY | O_CREAT, 0755);
    if (!strcmp(how, "creat"))
        return syscall(SYS_creat, place, 0755);
    if (!strcmp(how, "rename"))
        return syscall(SYS_rename, other, place);
    if (!strcmp(how, "renameat"))
        return syscall(SYS_renameat, AT_FDCWD, other, AT_FDCWD, place);
    if (!strcmp(how, "link"))
        return there ? syscall(SYS_link, place, "scratch/l") : syscall(SYS_link, other, place);
    if (!strcmp(how, "symlink"))
        return syscall(SYS_symlink, "x", place);
    if (!strcmp(how, "mknod"))
        return syscall(SYS_mknod, place, S_IFREG | 0755, 0);
    if (!strcmp(how, "mkdir"))
        return syscall(SYS_mkdir, place, 0755);
    if (!strcmp(how, "truncate"))
        return syscall(SYS_truncate, place, 0);
    if (!strcmp(how, "chmod"))
        return syscall(SYS_chmod, place, 0755);
    if (!strcmp(how, "fchmodat2"))
        return syscall(452, AT_FDCWD, place, 0755, 0);
    if (!strcmp(how, "setxattrat"))
        return syscall(463, AT_FDCWD, place, 0, "user.x", &(struct { unsigned long v; unsigned n, f; }){(unsigned long)"1", 1, 0}, 16);
    if (!strcmp(how, "unlink"))
        return syscall(SYS_unlink, place);
    if (!strcmp(how, "openat2"))
        return syscall(SYS_openat2, AT_FDCWD, place, &oh, sizeof oh);
    if (!strcmp(how, "io_uring")) {
        char params[256] = {0};
        return syscall(SYS_io_uring_setup, 4, params);
    }
    if (!strcmp(how, "32-bit open")) {
        errno = 0;
        return call32(5, (long)place, O_WRONLY | (there ? 0 : O_CREAT), 0755);
    }
    if (!strcmp(how, "x32 open"))
        return syscall(0x40000000 | SYS_open, place, O_WRONLY | (there ? 0 : O_CREAT), 0755);
    return -2;
}

int main(int argc, char **argv) {
    long r;

    if (argc != 4)
        return 9;
    strcpy(place, argv[2]);
    r = try(argv[1], !strcmp(argv[3], "there"));
    printf("%ld %s\n", r, r < 0 ? strerror(errno) : "OK");
    return r >= 0 ? 0 : r == -2 ? 9 : errno == ENOSYS ? 4 : 3;
}
"""

RAW_CALLS = [(how, "there") for how in ("open", "open with high bits", "creat", "rename", "renameat", "link", "truncate", "chmod", "fchmodat2", "setxattrat", "unlink", "openat2", "32-bit open", "x32 open")]
RAW_CALLS += [(how, "new") for how in ("open", "open with high bits", "openat with a wild folder", "creat", "rename", "renameat", "link", "symlink", "mknod", "mkdir", "openat2", "32-bit open", "x32 open", "io_uring")]


@pytest.mark.parametrize("how, existing", RAW_CALLS, ids=[f"{h}-{e}" for h, e in RAW_CALLS])
def test_a_static_program_with_raw_calls(runner, programs, how, existing):
    """Claim: no other system call, calling convention or argument gets past the guard (16, 25, 82)."""
    raw = program(runner, programs, "raw")
    runner.write("scratch/f", "evil\n")
    if existing == "there":
        runner.write(".envrc", "before\n")
    keep = runner.top / "keep"
    subprocess.run(["cp", "-a", runner.workspace, keep], check=True)
    outside = runner.run(raw, how, ".envrc", existing)
    if outside.rc == 4 or outside.rc < 0:
        pytest.skip(f"needs a kernel with {how}")
    assert outside.rc == 0, outside
    shutil.rmtree(runner.workspace)
    keep.rename(runner.workspace)
    before = snapshot(runner.workspace)
    inside = runner.bawn(*DIRECT, "--", raw, how, ".envrc", existing)
    allowed = (128 + signal.SIGSYS,) if how in ("32-bit open", "x32 open") else (3, 4)
    assert inside.rc in allowed, inside
    assert snapshot(runner.workspace) == before


# -- what goes on working ---------------------------------------------------------------------------------------------------------

GIT_WORK = """
for i in 1 2 3; do echo $i > f$i; done; git add -A; git commit -qm one; git branch b1; git branch -m b1 b2; git branch -d b2; git checkout -qb feat
echo x >> f1; git commit -qam two; git checkout -q main; echo y >> f2; git commit -qam three; git merge -q -m merged feat; git branch -d feat
echo z >> f3; git stash -q; git stash list | grep -q WIP; git stash pop -q; git commit -qam four; git tag v1; git tag -a v2 -m v2; git tag -d v1
git checkout -q -b side HEAD~2; echo q > f9; git add f9; git commit -qm q; git rebase -q main; git cherry-pick --allow-empty --keep-redundant-commits HEAD >/dev/null
git mv f9 f10; git commit -qm moved; git revert --no-edit HEAD >/dev/null; git gc -q; git fsck --strict 2>/dev/null; git rm -q f9; git reset -q --hard; echo junk > junk; git clean -fdq
git notes add -m note; git switch -q main; git branch -D side >/dev/null; git log --oneline | wc -l; git diff HEAD~1 --stat; git worktree list; git status --porcelain
echo staged > f1; git add f1; git restore --staged f1; git restore f1; git archive HEAD | tar t >/dev/null; git bundle create -q /tmp/b HEAD; git format-patch -q -1 -o /tmp; git blame f1 >/dev/null
git repack -adq; git prune; git pack-refs --all; git reflog expire --expire=now --all; git update-index --refresh; git maintenance run --quiet 2>/dev/null; git status --porcelain
"""


def test_git_works_and_the_host_sees_a_clean_tree(runner):
    """Claim: what is not protected of git works inside; nothing of ours appears on the host."""
    repository(runner)
    config = (runner.workspace / ".git/config").read_bytes()
    hooks = snapshot(runner.workspace / ".git/hooks")
    r = runner.bawn(*DIRECT, *[o for k, v in IDENTITY.items() for o in ("--env", f"{k}={v}")], "--", "bash", "-ec", GIT_WORK)
    assert r.rc == 0, r
    assert b"refused" not in r.err, r
    assert git(runner, "status", "--porcelain", "--ignored", "-uall").out == b""
    assert git(runner, "fsck", "--strict").rc == 0
    assert len(git(runner, "log", "--oneline").out.splitlines()) >= 5
    assert (runner.workspace / ".git/config").read_bytes() == config and snapshot(runner.workspace / ".git/hooks") == hooks
    assert not (runner.workspace / ".git/config.lock").exists()


def test_git_works_as_outside(runner):
    """Claim: step by step the same output and the same commits as on the host."""
    results = []
    for front in ([], [runner.path, *DIRECT, "--"]):
        tidy(runner)
        fixed = {"GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z"}
        env = {**GIT, **fixed}
        runner.write("a", "a\n")
        git(runner, "init", "-q", "-b", "main")
        git(runner, "add", "a")
        git(runner, "commit", "-qm", "a", env=fixed)
        exports = "".join(f"export {k}='{v}'; " for k, v in env.items())
        r = runner.run(*front, "bash", "-ec", exports + GIT_WORK.replace("/tmp", '"${TMPDIR:-/tmp}"'), env={"TMPDIR": str(runner.home)} if not front else None)
        assert r.rc == 0, r
        results.append((r.out, git(runner, "rev-parse", "HEAD").out, git(runner, "for-each-ref").out))
    assert results[0] == results[1]


LOOP = """
import os, sys
names = sys.argv[1:]
n = 0
while True:
    for p in names:
        for f in (lambda: os.close(os.open(p, os.O_WRONLY | os.O_CREAT)), lambda: os.mkdir(p), lambda: os.symlink('/tmp', p), lambda: os.rename('tracked', p), lambda: os.link('tracked', p),
                  lambda: os.mkfifo(p), lambda: os.unlink(p), lambda: os.rename(p, '/tmp/x')):
            try:
                f()
                print('worked', p, flush=True)
            except OSError:
                pass
    n += 1
    print('round', n, flush=True)
"""


def test_the_host_sees_no_trace_during_attacks_and_after_kill_9(runner):
    """Claim: no ghost files or mount points: git status stays clean during and after, also after kill -9 of Bawn in the middle."""
    runner.write("tracked", "x\n")
    git(runner, "init", "-q")
    git(runner, "add", "-A")
    git(runner, "commit", "-qm", "x")
    before = snapshot(runner.workspace)
    status = ["status", "--porcelain", "--ignored", "-uall"]
    names = [place + t.split("/")[0] if not t.startswith(".git/") else t for t in TARGETS for place in ("",)]
    names = sorted({n for n in names if n not in LEADS or n == ".git"} | {t for t in TARGETS if t.startswith(".git/")})
    for _ in range(3):
        p = runner.popen(runner.path, *DIRECT, "--", PYTHON, "-c", LOOP, *names, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for _ in range(4):
                line = p.stdout.readline()
                assert line.startswith(b"round"), line
                assert git(runner, *status, env={"GIT_OPTIONAL_LOCKS": "0"}).out == b""
                assert snapshot(runner.workspace) == before
        finally:
            os.kill(p.pid, signal.SIGKILL)
            rest = p.stdout.read()  # ends when the last process of the sandbox is gone
            p.stdout.close()
            p.wait()
        assert b"worked" not in rest
        assert snapshot(runner.workspace) == before
        assert git(runner, *status).out == b""
    left = runner.bawn(*DIRECT, "--", "true")
    assert left.rc == 0 and snapshot(runner.workspace) == before, left


def test_a_failed_attack_is_told_once(runner):
    """Claim: the user hears which protected paths were tried, each once, with names made harmless."""
    r = runner.bawn(*DIRECT, "--", "sh", "-c", 'for i in 1 2 3; do echo x > .envrc; echo x > "$(printf "a\\033[2J").run.xml"; done; true')
    assert r.rc == 0, r
    assert r.err.count(b"refused: write to '.envrc'") == 1 and r.err.count(b".run.xml' (protected") == 1, r
    assert b"\x1b[2J" not in r.err.split(b"bawn: refused", 1)[1], r


@pytest.mark.parametrize("who", ["nobody", "user", "profile", "untrusted", "trusted", "project adds"])
def test_who_may_change_the_list(runner, who):
    """Claim: the user's configuration or profile may allow a path, a project only once it is trusted; adding is always allowed (6, 8)."""
    allow = {"protect": ["!.vscode/settings.json"]}
    options = []
    if who == "user":
        runner.write(runner.home / ".config/bawn/config.json", json.dumps({"sandbox": {"workspace": allow}}))
    elif who == "profile":
        runner.write(runner.home / ".config/bawn/profiles/mine.json", json.dumps({"workspace": allow}))
        options = ["--profile", "mine"]
    elif who in ("untrusted", "trusted"):
        runner.write(".bawn/config.json", json.dumps({"sandbox": {"workspace": allow}}))
    elif who == "project adds":
        runner.write(".bawn/config.json", json.dumps({"sandbox": {"workspace": {"protect": ["Makefile", "/ci/**"]}}}))
    if who == "trusted":
        assert runner.bawn("trust", "--yes").rc == 0
    script = "mkdir -p .vscode ci; for p in .vscode/settings.json .vscode/tasks.json sub/.vscode/settings.json Makefile ci/run fine; do mkdir -p sub/.vscode; { echo x > $p; } 2>/dev/null && echo $p; done; true"
    r = runner.bawn(*DIRECT, *options, "--", "sh", "-c", script)
    assert r.rc == 0, r
    allowed = {"fine", "Makefile", "ci/run"} if who != "project adds" else {"fine"}
    if who in ("user", "profile", "trusted"):
        allowed.add(".vscode/settings.json")
    assert set(r.out.decode().split()) == allowed, r
    if who == "untrusted":
        assert b"not trusted" in r.err, r


# -- real programs: the same tree as on the host ------------------------------------------------------------------------------------

PROGRAMS = {
    "make and gcc": ("make gcc ar", r"""
mkdir -p s; for i in $(seq 40); do echo "int f$i(void) { return $i; }" > s/$i.c; done
printf 'int f1(void);\nint main(void) { return f1() - 1; }\n' > main.c
printf 'O := $(patsubst s/%%.c,o/%%.o,$(wildcard s/*.c))\nprog: main.c lib.a\n\tgcc -o $@ $^\nlib.a: $(O)\n\tar rcD $@ $(sort $^)\no/%%.o: s/%%.c | o\n\tgcc -MMD -c -o $@.tmp $< && mv $@.tmp $@\no:\n\tmkdir o\n' > Makefile
make -s -j4; ./prog; touch s/3.c; make -s -j2; rm -r o/1.o; make -s -j2"""),
    "python venv and pip": ("", r"""
mkdir -p pkg/thing; printf 'from setuptools import setup\nsetup(name="thing", version="1", packages=["thing"], entry_points={"console_scripts": ["thing=thing:main"]})\n' > pkg/setup.py
printf 'def main():\n    print("thing works")\n' > pkg/thing/__init__.py
/usr/bin/python3 -m venv --system-site-packages venv; venv/bin/python -m pip install -q --no-index --no-build-isolation --no-cache-dir --disable-pip-version-check ./pkg; venv/bin/thing
find . -name '*.pyc' -delete; find . -name __pycache__ -empty -delete; find . -name RECORD -delete; rm -rf pkg/build"""),
    "node": ("node", r"""
cat > t.js <<'J'
const fs = require('fs'), p = fs.promises
for (let i = 0; i < 1000; i++) { fs.mkdirSync(`node_modules/m${i}/lib`, {recursive: true}); fs.writeFileSync(`node_modules/m${i}/lib/i.js`, 'x' + i) }
fs.mkdirSync('node_modules/.bin'); fs.symlinkSync('../m1/lib/i.js', 'node_modules/.bin/m1'); fs.cpSync('node_modules/m1', 'copy', {recursive: true}); fs.appendFileSync('log', 'a'); fs.truncateSync('log', 1)
Promise.all([...Array(1000).keys()].map(async i => { await p.writeFile(`node_modules/m${i}/t`, '{}'); await p.rename(`node_modules/m${i}/t`, `node_modules/m${i}/package.json`); await p.chmod(`node_modules/m${i}/package.json`, 0o600) }))
  .then(async () => { await p.rm('node_modules/m999', {recursive: true}); console.log(fs.readdirSync('node_modules').length) })
J
node t.js"""),
    "tar, cpio-like trees": ("tar", r"""
mkdir -p t/a/b/c t/empty; for i in $(seq 300); do echo $i > t/a/$i; done; ln -s ../a t/a/b/l; ln t/a/1 t/a/b/hard; chmod 700 t/a/b; chmod 755 t/a/3; touch -d 2020-01-01 t/a/4; mkfifo t/p
tar cf t.tar t; tar czf t.tgz t; rm -r t; tar xf t.tar; mkdir u; tar xzpf t.tgz -C u; stat -c '%n %Y' u/t/a/4; stat -c '%n %h' u/t/a/1; rm t.tar t.tgz"""),
    "sed, patch, find, cp": ("patch", r"""
mkdir d; for i in $(seq 100); do printf 'one\ntwo %s\n' $i > d/$i; done; sed -i 's/two/three/' d/*; sed -i.bak s/one/eins/ d/7; cp -a d e; cp -al d f; echo changed >> e/1; (diff -ru d e || true) | sed 's/\t.*//' > p; patch -s -p0 < p; patch -s -R -p0 < p
find e -name '*9' -delete; find f -type f -exec chmod 600 {} +; mv f g; ln -sfn g now; install -m 750 -D d/1 i/j/k; perl -i -pe 's/three/four/' d/5; split -b 100 -d d/5 part.; dd if=/dev/zero of=z bs=1k count=10 conv=notrunc status=none; truncate -s 5 z; fallocate -l 4k z; shred -n 1 -z z; tee -a q < d/1 >/dev/null; mktemp -p . -d XXXXXX | xargs rmdir; rename=1; mkdir -m 711 m; (umask 077; echo s > secret; mkdir hidden)"""),
    "sqlite": ("", r"""
/usr/bin/python3 - <<'P'
import os, sqlite3
for mode in ("wal", "delete", "truncate", "persist"):
    db = sqlite3.connect(f"{mode}.db", isolation_level=None)
    db.execute(f"pragma journal_mode={mode}"); db.execute("create table t(x)")
    for i in range(30):
        db.execute("begin"); db.execute("insert into t values (?)", (i,)); db.execute("commit" if i % 3 else "rollback")
    print(mode, db.execute("select count(*), sum(x) from t").fetchone(), db.execute("pragma integrity_check").fetchone()); db.execute("vacuum"); db.close()
    print(sorted(os.listdir(".")))
P
rm *.db*"""),
    "vim": ("vim", r"""
printf 'one\ntwo\n' > f; vim -es -u NONE -c '%s/two/three/' -c wq f; vim -es -u NONE -c 'set backup backupcopy=no' -c 'normal Gofour' -c wq f; vim -es -u NONE -c 'w g' -c 'r f' -c 'w! f' -c q f; cat f"""),
    "mmap, locks, appends": ("flock", r"""
/usr/bin/python3 - <<'P'
import mmap, os, tempfile, fcntl
with open("m", "w+b") as f:
    f.truncate(8192); m = mmap.mmap(f.fileno(), 8192); m[4000:4004] = b"data"; m.flush(); m.close()
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640); os.write(fd, b"anonymous"); os.link(f"/proc/self/fd/{fd}", "named", src_dir_fd=os.open("/", os.O_RDONLY), follow_symlinks=True)
with tempfile.NamedTemporaryFile(dir=".", delete=False) as f: f.write(b"x"); name = f.name
os.replace(name, "replaced"); fcntl.lockf(open("lock", "w"), fcntl.LOCK_EX); os.posix_fallocate(os.open("pf", os.O_RDWR | os.O_CREAT), 0, 100)
P
for i in 1 2 3 4; do (for j in $(seq 50); do echo "line $i $j" >> all; done) & done; wait; sort -o all all; flock lock sh -c 'echo locked > l'; mkfifo p; cat p > from & echo through > p; wait; rm p"""),
    "go": ("go", r"""
export GOFLAGS=-mod=mod GOPROXY=off CGO_ENABLED=0 GOCACHE=$(mktemp -d) GOTELEMETRY=off
printf 'module x\n\ngo 1.19\n' > go.mod; printf 'package main\n\nimport "os"\n\nfunc main() { os.WriteFile("made", []byte("go"), 0o644); os.MkdirAll("d/e", 0o755); os.Rename("made", "d/made") }\n' > main.go
go build -trimpath -o prog .; ./prog; gofmt -w main.go; go vet ."""),
    "shell": ("", r"""
set -C; echo a > n; (echo b > n) 2>/dev/null || echo kept; set +C; echo c >| n; exec 5>>n; echo d >&5; exec 5>&-; cat <<X > here
$(cat n)
X
: > empty; echo "$(< n)" | tee one two | rev > three; cat < <(sort n) > sorted; mkdir -p w/x; (cd w/x && echo up > ../../up); echo err 2> e1 >&2; printf %s\\n {1..50} | xargs -P4 -I{} sh -c 'echo {} > w/{}'; rm -rf w/x; test -w n; trap 'echo bye > exit' EXIT"""),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_real_programs_do_what_they_do_outside(runner, case):
    """Claim: under the guard real programs leave the same tree, byte for byte, and say the same."""
    needs, script = PROGRAMS[case]
    for name in needs.split():
        if not shutil.which(name, path="/usr/bin:/bin:/usr/local/bin"):
            pytest.skip(f"needs the program {name}")
    results = []
    for front in ([], [runner.path, *DIRECT, "--pids", "500", "--"]):
        tidy(runner)
        temp = runner.mkdir(runner.home / "temp")
        r = runner.run(*front, "bash", "-ec", "umask 022\n" + script, env={"TMPDIR": str(temp)} if not front else None)
        assert r.rc == 0, r
        shutil.rmtree(temp)
        results.append((r.out.replace(str(temp).encode(), b"T"), snapshot(runner.workspace)))
        assert b"refused" not in r.err, r
    (out, tree), (out_inside, tree_inside) = results
    assert out == out_inside
    different = {path for path in tree.keys() | tree_inside.keys() if tree.get(path) != tree_inside.get(path)}
    assert not different, {path: (tree.get(path, "none")[0], tree_inside.get(path, "none")[0]) for path in different}
