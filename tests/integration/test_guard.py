# SPDX-License-Identifier: Apache-2.0
"""The guard alone: bawn-init without namespaces, with a small supervisor (guard_harness.c), on real programs."""

import importlib.util
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ["base/buf.c", "base/err.c", "base/str.c", "base/vec.c", "base/strv.c", "os/fd.c", "os/sock.c", "proto/initmsg.c", "workspace/hide/protect.c", "workspace/hide/ignore.c",
           "workspace/hide/ignore_glob.c", "workspace/hide/ignore_list.c"]
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def tools():
    top = pathlib.Path(tempfile.mkdtemp(prefix="bawn-guard.", dir="/var/tmp"))
    top.chmod(0o755)
    subprocess.run([PYTHON, ROOT / "src/workspace/embed_protect.py", top / "builtin_protect.c", ROOT / "profiles/protect.txt"], check=True)
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-I", ROOT / "src", "-include", ROOT / "src/base/banned.h", "-o", top / "harness",
                    ROOT / "tests/integration/guard_harness.c", top / "builtin_protect.c", *(ROOT / "src" / s for s in SOURCES)], check=True)
    shutil.copy(ROOT / "tests/integration/guard_script.py", top)
    yield top
    shutil.rmtree(top)


class Guarded:
    def __init__(self, runner, tools):
        self.runner, self.tools, self.ws = runner, tools, runner.workspace
        self.log_path = runner.home / "guard.log"
        self.init = runner.helper("bawn-init")

    def run(self, *cmd, env=None, **options):
        options.setdefault("log", self.log_path)
        words = [f"{k}={v}" for k, v in options.items()]
        # through a pipe of the user's own: one that pytest made could not be opened again as /dev/stdout
        script = '{ "$@"; echo $? >"$STATUS"; } 2>&1 | cat'
        status = self.runner.home / "status"
        r = self.runner.run("sh", "-c", script, "sh", self.tools / "harness", self.init, self.ws, *words, "--", *cmd, env={"STATUS": str(status), **(env or {})})
        r.rc = int(status.read_text())
        return r

    def sh(self, script, **kw):
        return self.run("bash", "-ec", script, **kw)

    def script(self, *args, **kw):
        return self.run(PYTHON, self.tools / "guard_script.py", *args, **kw)

    def attack(self, code, **kw):
        r = self.script("attack", code, **kw)
        assert r.rc == 0, r
        return r.out.decode().strip()

    def log(self):
        return self.log_path.read_text(errors="surrogateescape").splitlines()

    def touched(self):
        return {line.split(" ", 5)[5]: line.split(" ", 5)[1:5] for line in self.log() if line.startswith("touch")}

    def refused(self):
        return sorted(line.split(" ", 2)[2] for line in self.log() if line.startswith("refused"))

    def empty(self):
        for path in self.ws.iterdir():
            shutil.rmtree(path) if not path.is_symlink() and path.is_dir() else path.unlink()

    def tree(self):
        """Everything in the workspace: type, mode, content."""
        found = {}
        for folder, folders, files in os.walk(os.fsencode(self.ws)):
            for path in (os.path.join(folder, name) for name in folders + files):
                st = os.lstat(path)
                what = os.readlink(path) if stat.S_ISLNK(st.st_mode) else pathlib.Path(os.fsdecode(path)).read_bytes() if stat.S_ISREG(st.st_mode) else None
                found[os.path.relpath(path, os.fsencode(self.ws))] = (oct(st.st_mode), st.st_nlink if stat.S_ISREG(st.st_mode) else 0, what)
        return found


@pytest.fixture
def guarded(runner, tools):
    return Guarded(runner, tools)


def git(guarded, *args):
    env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t", "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@t"}
    r = guarded.runner.run("git", *args, env=env)
    assert r.rc == 0, r
    return r


@pytest.fixture
def repo(guarded):
    git(guarded, "init", "-q", "-b", "master")
    guarded.runner.write("file", "content\n")
    git(guarded, "add", "file")
    git(guarded, "commit", "-qm", "first")
    return guarded


# The same as without it

@pytest.mark.parametrize("name", ["parity_open", "parity_names", "parity_self"])
def test_every_call_answers_as_the_kernel_does(guarded, name):
    without = guarded.script(name, bare=1)
    tree = guarded.tree()
    assert without.rc == 0 and len(without.out.splitlines()) >= 10, without
    guarded.empty()
    with_guard = guarded.script(name)
    assert with_guard.rc == 0, with_guard
    lines = list(zip(without.out.splitlines(), with_guard.out.splitlines()))
    assert [pair for pair in lines if pair[0] != pair[1]] == []
    assert len(without.out.splitlines()) == len(with_guard.out.splitlines())
    assert guarded.tree() == tree


SHELL = r"""
echo out > a; echo more >> a; cat a > b; : > c
echo err > /dev/stderr; echo out > /dev/stdout; echo fd > /dev/fd/1; echo null > /dev/null
tee d < a > e; cat < <(echo process) > f; echo into | tee >(cat > g) > /dev/null; sleep 0.3
mkfifo p; cat p > h & echo fifo > p; wait; (sleep 0.2; echo late > p) & cat p; wait
mkdir -p x/y/z; cp a x/y; ln -s ../a x/l; cp -a x w; mv w v; rm -r x; install -m 700 a i; touch t; chmod 600 t
(umask 077; echo secret > u); sed -i s/out/in/ a; tar cf t.tar v a; mkdir un; tar xf t.tar -C un; find un -delete; cd v; echo up > ../up
"""


def test_shell_and_coreutils(guarded):
    assert guarded.sh(SHELL, bare=1).rc == 0
    tree = guarded.tree()
    guarded.empty()
    r = guarded.sh(SHELL)
    assert r.rc == 0 and sorted(r.out.split()) == [b"err", b"fd", b"late", b"out"], r
    strip = {b"t.tar"}  # has times in it
    assert {k: v for k, v in guarded.tree().items() if k not in strip} == {k: v for k, v in tree.items() if k not in strip}


def test_git_works(repo):
    r = repo.sh("""
        export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
        for i in 1 2 3; do echo $i > f$i; done; git add -A; git commit -qm one; git branch b1; git branch -m b1 b2; git branch -d b2; git checkout -qb feat
        echo x >> f1; git commit -qam two; git checkout -q master; echo y >> f2; git commit -qam three; git merge -q -m merged feat
        echo z >> f3; git stash -q; git stash pop -q; git tag v1; git tag -a v2 -m v2; git commit -qam four
        git checkout -q -b side HEAD~2; echo q > f9; git add f9; git commit -qm q; git rebase -q master; git gc -q; git fsck --strict
        git rm -q f9; git reset -q --hard; git clean -fdq; git checkout -q master; git branch -D side; git status --porcelain""")
    assert r.rc == 0, r
    assert repo.refused() == []
    assert git(repo, "status", "--porcelain").out == b""
    assert len(git(repo, "log", "--oneline", "--all").out.splitlines()) >= 6


def test_parallel_make(guarded):
    guarded.runner.write("Makefile", "N := $(shell seq 1 60)\nall: $(N:%=o/%.o)\no/%.o: s/%.c\n\t@mkdir -p o/$*.d && gcc -c -o o/$*.d/x.o $< && mv o/$*.d/x.o $@ && rm -r o/$*.d\n")
    for i in range(1, 61):
        guarded.runner.write(f"s/{i}.c", f"int f{i}(void) {{ return {i}; }}\n")
    r = guarded.run("make", "-s", "-j4")
    assert r.rc == 0 and len(list(guarded.ws.glob("o/*.o"))) == 60, r
    assert len(list((guarded.ws / "o").iterdir())) == 60


@pytest.mark.skipif(not shutil.which("node"), reason="needs the program node")
def test_many_small_files_from_other_runtimes(guarded):
    node = "const fs=require('fs');for(let i=0;i<300;i++){fs.mkdirSync(`m/${i}/lib`,{recursive:true});fs.writeFileSync(`m/${i}/lib/i.js`,'x'+i)}" \
           "Promise.all([...Array(300).keys()].map(i=>fs.promises.writeFile(`m/${i}/p.json`,'{}').then(()=>fs.promises.rename(`m/${i}/p.json`,`m/${i}/q.json`))))"
    r = guarded.run("node", "-e", node)
    assert r.rc == 0, r
    assert len(list(guarded.ws.glob("m/*/lib/i.js"))) == 300 and len(list(guarded.ws.glob("m/*/q.json"))) == 300


@pytest.mark.skipif(not shutil.which("go"), reason="needs the program go")
def test_go_build(guarded):
    """Go stops its threads with signals all the time."""
    guarded.runner.write("go.mod", "module x\n\ngo 1.19\n")
    guarded.runner.write("main.go", 'package main\n\nimport "os"\n\nfunc main() { os.WriteFile("made", []byte("go"), 0o644); os.Mkdir("d", 0o755); os.Rename("made", "d/made") }\n')
    r = guarded.sh("go build -o prog . && ./prog", env={"GOFLAGS": "-mod=mod", "GOPROXY": "off", "CGO_ENABLED": "0", "GOCACHE": str(guarded.runner.home / "cache")})
    assert r.rc == 0 and (guarded.ws / "d/made").read_text() == "go", r


def test_signals_do_not_repeat_a_call(guarded):
    r = guarded.script("storm")
    assert r.rc == 0 and r.out.split()[-1] == b"4000", r


def test_a_killed_caller_leaves_nobody_waiting(guarded):
    r = guarded.sh("mkfifo p; (exec timeout -s KILL 0.3 sh -c 'echo x > p') || true; sleep 0.4; echo after > q; ps -o comm= --ppid $PPID | grep -c bawn-init || true")
    assert r.rc == 0 and r.out.split()[-1] == b"0", r
    assert (guarded.ws / "q").exists()


def test_the_terminal_of_the_caller(guarded):
    """With a terminal of its own; with another one, that `script` opens; and with none."""
    r = guarded.sh("echo first > /dev/tty; script -qc 'echo second > /dev/tty' /dev/null; setsid sh -c 'echo third > /dev/tty' 2>/dev/null || echo none", tty=1)
    assert r.rc == 0 and r.out.split() == [b"first", b"second", b"none"], r


def test_memory_of_bawn_init_stays_closed(guarded):
    """The guard itself may open its own files in /proc; nobody may have it do so for them."""
    for path in ["mem", "fd/3", "fd/5", "comm", "oom_score_adj", "task/{0}/mem", "cwd/x", "root/dev/null", "clear_refs"]:
        code = f"p=os.getppid(); os.open(f'/proc/{{p}}/{path.format('{p}')}', W|C)"
        assert guarded.attack(code) in ("EACCES", "EPERM"), path
    assert guarded.attack("p=os.getppid(); os.chmod(f'/proc/{p}/fd/4', 0o777)") in ("EACCES", "EPERM", "ENOENT")


def test_no_landlock_domain_of_its_own(guarded):
    assert guarded.attack("import ctypes; r=libc.syscall(444, None, 0, 1); e=ctypes.get_errno(); raise OSError(e, '') if r < 0 else None") == "ENOTSUP"


def test_reading_does_not_wait_for_the_guard(guarded):
    """With the guard stopped everything that only reads goes on."""
    guarded.runner.write("f", "content")
    r = guarded.sh("kill -STOP $PPID; cat f; ls /usr/bin | head -n 50 | wc -l; stat f; test -w f; : < /etc/passwd; readlink /proc/self/exe; kill -CONT $PPID; echo x > f")
    assert r.rc == 0 and r.out.startswith(b"content50\n"), r


def test_as_pid_1(guarded):
    r = guarded.sh(SHELL.replace("sleep 0.3", "sleep 0.5") + "cd ..; echo $$ $PPID; echo x > /proc/self/comm; echo x > /proc/1/comm || echo closed; echo x > .envrc || echo refused", pid1=1)
    assert r.rc == 0 and r.out.split()[-1] == b"refused" and b"closed" in r.out, r
    assert re.search(rb"^2 1$", r.out, re.M), r
    assert guarded.refused() == [".envrc"]


@pytest.mark.parametrize("what, way", [("work", "other/sub"), ("", "other/work/sub"), ("work/sub", "other")])
def test_through_another_mount(guarded, what, way):
    """The workspace, a folder above it, a folder in it, mounted somewhere else too."""
    guarded.runner.write("sub/file", "x")
    other = guarded.runner.mkdir(guarded.runner.home / "other")
    bind = f"{guarded.ws.parent / what}:{other}"
    assert guarded.attack(f"put('{guarded.runner.home}/{way}/ok', W|C)", pid1=1, bind=bind) == "OK"
    assert (guarded.ws / "sub/ok").exists() and list(guarded.touched()) == ["sub/ok"]
    assert guarded.attack(f"put('{guarded.runner.home}/{way}/.envrc', W|C)", pid1=1, bind=bind) == "EACCES"
    assert guarded.refused() == ["sub/.envrc"]


def test_background_processes_end_with_the_command(guarded):
    r = guarded.sh("sleep 1234.5 & echo x > f", wall=1)
    assert r.rc == 0, r
    assert guarded.runner.run("pgrep", "-f", "^sleep 1234.5").rc == 1


def test_with_landlock_as_the_only_wall(guarded):
    """The guard may do no more than the command, and the command cannot end the guard."""
    code = "import os, signal\nput('made', W|C)\ntry:\n put('{home}/x', W|C)\nexcept PermissionError: print('walled')\nos.kill(os.getppid(), signal.SIGKILL)"
    guarded.runner.write("script.py", (guarded.tools / "guard_script.py").read_bytes())
    r = guarded.run(PYTHON, "script.py", "attack", code.format(home=guarded.runner.home), wall=1)
    assert r.rc == 0 and r.out.split() == [b"walled", b"EPERM"], r
    assert (guarded.ws / "made").exists() and not (guarded.runner.home / "x").exists()


def test_debuggers_work(guarded):
    r = guarded.sh("strace -f -o trace sh -c 'echo x > f; mv f g'; grep -c rename trace; gdb -q -batch -ex run --args sh -c 'echo y > h' > out 2>&1; cat h g")
    assert r.rc == 0 and r.out.split()[-2:] == [b"y", b"x"], r


# What it refuses. Each line works without the guard, fails with it, and leaves the tree as it was.

PREPARE = """
mkdir -p .vscode plain sub/deep evil; echo '{}' > .vscode/tasks.json; echo x > plain/f; echo x > evil/tasks.json; echo x > evil/pre-commit; echo x > pre-commit
ln -s .git/hooks to-hooks; ln .git/config hard; mkdir -p tools/sub; ln -s evil to-evil; mkdir -p .git/objects/zz bare/objects; echo 'ref: x' > bare/HEAD; echo x > .envrc
"""
ATTACKS = [
    "put('.git/hooks/pre-commit', W|C)",
    "put('to-hooks/pre-commit', W|C)",
    "put('sub/../.git/hooks/x', W|C)",
    "put(os.getcwd() + '/.git/hooks/x', W|C)",
    "put('/proc/self/cwd/.git/hooks/x', W|C)",
    "put('x', W|C, dir_fd=os.open('.git/hooks', os.O_RDONLY))",
    "put('x', W|C, dir_fd=os.open('.git/hooks', os.O_PATH))",
    "os.chdir('.git/hooks'); put('x', W|C)",
    "put(f\"/proc/self/fd/{os.open('.git/hooks', os.O_PATH)}/x\", W|C)",
    "put(f\"/dev/fd/{os.open('.git/config', os.O_RDONLY)}\", W)",
    "put('.git/config', W)",
    "put('.git/config', W|T)",
    "os.open('.git/config', os.O_RDONLY|T)",
    "put('.git/config', os.O_RDWR|os.O_APPEND)",
    "put('hard', W)",
    "os.truncate('hard', 0)",
    "os.truncate('.git/config', 0)",
    "os.chmod('.git/config', 0o777)",
    "call('fchmod', os.open('.git/config', os.O_RDONLY), 0o777)",
    "os.setxattr('.git/config', 'user.a', b'1')",
    "os.unlink('.git/config')",
    "os.rename('.git/config', 'c')",
    "os.rename('file', '.git/config')",
    "os.link('.git/config', 'c')",
    "os.link('hard', 'c')",
    "call('linkat', -100, f\"/proc/self/fd/{os.open('.git/config', os.O_RDONLY)}\", -100, 'c', 0x400)",
    "os.link('pre-commit', '.git/hooks/pre-commit')",
    "os.symlink('/tmp', '.git/hooks/x')",
    "os.rename('pre-commit', '.git/hooks/pre-commit')",
    "os.rename('.git/hooks', 'h')",
    "os.rename('.git', 'g')",
    "os.rename('evil', '.git/worktrees')",
    "os.rename('evil', '.git/extra')",
    "os.symlink('../evil', '.git/extra')",
    "os.mkdir('plain/.GIT')",
    "os.mkdir('plain/.git'); put('plain/.git/config', W|C)",
    "os.mkdir('plain/.git'); os.rename('file', 'plain/.git/config')",
    "os.mkdir('plain/.git'); os.mkdir('plain/.git/hooks'); put('plain/.git/hooks/pre-commit', W|C)",
    "put('plain/.git', W|C, b'gitdir: ../evil')",
    "os.symlink('../evil', 'plain/.git')",
    "os.rename('evil', 'plain/.git')",
    "os.rename('pre-commit', 'plain/.git')",
    "put('.vscode/tasks.json', W)",
    "put('.vscode/launch.json', W|C)",
    "os.rename('evil/tasks.json', '.vscode/launch.json')",
    "os.rename('.vscode', 'v'); os.rename('evil', '.vscode')",
    "os.mkdir('plain/.vscode'); put('plain/.vscode/tasks.json', W|C)",
    "os.rename('evil', 'plain/.vscode')",
    "os.symlink('../evil', 'plain/.vscode')",
    "os.rename('to-evil', 'plain/.vscode')",
    "os.link('to-evil', 'plain/.vscode')",
    "call('renameat2', -100, 'evil', -100, '.vscode', RENAME_EXCHANGE)",
    "call('renameat2', -100, '.vscode', -100, 'evil', RENAME_EXCHANGE)",
    "call('renameat2', -100, 'file', -100, '.envrc', RENAME_EXCHANGE)",
    "fd=os.open('.', os.O_TMPFILE|os.O_RDWR, 0o600); call('linkat', -100, f'/proc/self/fd/{fd}', -100, 'plain/.envrc', 0x400)",
    "os.mknod('plain/.envrc', 0o100644)",
    "os.symlink('x', 'plain/.envrc')",
    "os.mkdir('plain/.envrc')",
    "os.symlink('../.envrc', 'plain/l'); put('plain/l', W)",
    "os.symlink('.envrc', 'plain/l'); put('plain/l', W|C)",
    "os.mkdir('bare/refs')",
    "os.symlink('../plain', 'bare/refs')",
    "os.rename('plain', 'bare/refs')",
    "put('bare/commondir', W|C)",
    "raw('open', '.envrc', W, 0)",
    "raw('creat', '.envrc', 0o644)",
    "raw('creat', 'plain/.envrc', 0o644)",
    "raw('rename', 'file', 'plain/.envrc')",
    "raw('link', 'file', 'plain/.envrc')",
    "raw('unlink', '.envrc')",
    "raw('chmod', '.envrc', 0o777)",
    "raw('mkdir', 'plain/.GIT', 0o755)",
]


@pytest.fixture(scope="module")
def scene(request, tools, bawn):
    """One repository per user for all attacks: none of them may change it."""
    spec = importlib.util.spec_from_file_location("bawn_conftest", ROOT / "tests" / "conftest.py")
    shared = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    make_runner = shared.make_runner
    scenes = {}
    stack = []

    def get(kind):
        if kind not in scenes:
            manager = make_runner(kind, bawn)
            runner = manager.__enter__()
            stack.append(manager)
            g = Guarded(runner, tools)
            git(g, "init", "-q", "-b", "master")
            runner.write("file", "content\n")
            git(g, "add", "file")
            git(g, "commit", "-qm", "first")
            assert runner.run("sh", "-ec", PREPARE).rc == 0
            scenes[kind] = g
        return scenes[kind]

    yield get
    for manager in stack:
        manager.__exit__(None, None, None)


@pytest.mark.parametrize("kind", ["root", "user"])
@pytest.mark.parametrize("code", ATTACKS)
def test_refused(scene, kind, code):
    g = scene(kind)
    before = g.tree()
    copy = g.ws.parent / "copy"
    subprocess.run(["cp", "-a", g.ws, copy], check=True)
    outside = g.runner.run(PYTHON, g.tools / "guard_script.py", "attack", code, cwd=copy)
    try:
        assert outside.out == b"OK\n", f"the attack does not work even without the guard: {outside}"
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    # What git writes in place is judged when it is closed: the caller hears nothing, and nothing of it is there.
    assert g.attack(code) in (("OK",) if "gitdir: " in code and "W|C" in code else ("EACCES", "EPERM"))
    after = g.tree()
    made = {b"plain/.vscode", b"plain/l", b"plain/.git", b"plain/.git/hooks"}  # harmless halves of an attack
    for path in sorted(made & after.keys(), reverse=True):
        os.unlink(g.ws / os.fsdecode(path)) if path == b"plain/l" else os.rmdir(g.ws / os.fsdecode(path))
    assert {k: v for k, v in after.items() if k not in made} == before
    assert g.refused() != []


def test_the_workspace_itself_stays_where_it_is(guarded):
    """Without a mount namespace it is a folder like others."""
    guarded.ws = guarded.runner.mkdir(guarded.runner.home / "w")
    for code in ["os.rename(os.getcwd(), '../w2')", "os.rename('../w', '../w2')"]:
        assert guarded.attack(code) == "EACCES"
        assert guarded.attack(code, bare=1) == "OK"
        (guarded.runner.home / "w2").rename(guarded.ws)


def test_the_bytes_of_a_path_cannot_be_swapped(guarded):
    git(guarded, "init", "-q")
    assert guarded.script("race", ".git/hooks/x", bare=1).out.split()[-1] == b"True"
    guarded.empty()
    git(guarded, "init", "-q")
    r = guarded.script("race", ".git/hooks/x")
    assert r.rc == 0 and r.out.split() == [b"True", b"False"], r


def test_trees_that_would_become_protected(guarded):
    """An anchored rule: a tree is judged by where it goes."""
    guarded.runner.write("rules", "/ci/hooks/\n/ci/run\n")
    guarded.runner.write("t/hooks/x", "x")
    guarded.runner.write("u/other", "x")
    guarded.runner.write("rules2", "/a/**/end\n")
    rules = {"protect": guarded.ws / "rules"}
    assert guarded.attack("os.rename('t', 'ci')", **rules) == "EACCES"
    assert guarded.attack("os.symlink('t', 'ci')", **rules) == "EACCES"
    assert guarded.attack("os.rename('u', 'ci')", **rules) == "EACCES"  # it stands for what is protected, whatever is in it
    assert guarded.attack("os.mkdir('ci'); put('ci/free', W|C)", **rules) == "OK"
    assert guarded.attack("os.rename('t/hooks', 'ci/hooks')", **rules) == "EACCES"
    assert guarded.attack("put('ci/run', W|C)", **rules) == "EACCES"
    assert guarded.attack("os.rename('t', 't2'); os.rename('t2', 'ci/t')", **rules) == "OK"
    guarded.runner.write("w/x/end", "x")
    rules = {"protect": guarded.ws / "rules2"}
    assert guarded.attack("os.mkdir('a'); os.rename('w', 'a/w')", **rules) == "EACCES"
    assert guarded.attack("os.symlink('../w', 'a/w')", **rules) == "EACCES"


def test_where_links_lead_is_protected(repo):
    """The host follows them: what they lead to is what it obeys."""
    repo.runner.write("tools/my hooks/pre-commit", "x")
    repo.runner.write("conf/settings[1].json", "x")
    repo.runner.write("editor/notes", "x")
    assert repo.runner.run("sh", "-ec", "rm -r .git/hooks; ln -s '../tools/my hooks' .git/hooks; mkdir .vscode; ln -s '../conf/settings[1].json' .vscode/settings.json;"
                                        "ln -s editor .claude; ln -s conf/envrc .envrc").rc == 0
    before = repo.tree()
    for code in ["put('tools/my hooks/pre-commit', W)", "put('.git/hooks/new', W|C)", "put('tools/my hooks/new', W|C)", "os.rename('tools', 't')",
                 "put('conf/settings[1].json', W)", "put('.vscode/settings.json', W)", "put('editor/settings.json', W|C)", "os.rename('editor', 'e')"]:
        assert repo.attack(code) in ("EACCES", "EPERM"), code
    assert repo.tree() == before
    assert repo.attack("put('conf/settings1.json', W|C); put('editor/notes', W); put('tools/other', W|C)") == "OK"


def test_hidden_names_cannot_be_made(guarded):
    guarded.runner.write("rules", "*.pem\n.aws/\n/deep/secret\n")
    guarded.runner.write("tree/secret", "x")
    rules = {"hide": guarded.ws / "rules"}
    for code in ["put('a.pem', W|C)", "os.mkdir('x.pem')", "os.symlink('rules', 'b.pem')", "os.link('rules', 'c.pem')", "os.rename('rules', 'd.pem')", "os.mkdir('.aws')",
                 "os.symlink('tree', '.aws')", "os.mkfifo('e.pem')", "os.rename('tree', 'deep')"]:
        assert guarded.attack(code, **rules) == "EACCES", code
        assert any(line.startswith("refused 2 ") for line in guarded.log()), code
    assert guarded.attack("put('.awsx', W|C); os.mkdir('deep')", **rules) == "OK"


def test_what_is_hidden_cannot_be_changed(guarded):
    """Also what the host makes while the sandbox runs, which nothing covers."""
    guarded.runner.write("rules", "*.pem\n/deep/secret\n")
    guarded.runner.write("a.pem", "key")
    guarded.runner.write("deep/secret", "x")
    before = guarded.tree()
    for code in ["put('a.pem', W)", "os.rename('a.pem', 'a')", "os.link('a.pem', 'a')", "os.chmod('a.pem', 0o777)", "os.truncate('a.pem', 0)",
                 "os.rename('rules', 'a.pem')", "os.rename('deep', 'shallow')"]:
        assert guarded.attack(code, hide=guarded.ws / "rules") in ("EACCES", "EPERM"), code
    assert guarded.attack("os.unlink('a.pem')", hide=guarded.ws / "rules") == "OK"  # to the inside there is nothing, and it stays
    assert guarded.tree() == before
    assert guarded.sh("rm -rf a.pem deep || true", hide=guarded.ws / "rules").rc == 0
    assert guarded.tree() == before


def test_config_may_be_rewritten_as_it_is(repo):
    config = repo.ws / ".git/config"
    before = config.read_bytes(), config.stat().st_ino
    assert repo.attack("put('.git/config.lock', W|C|X, open('.git/config','rb').read()); os.rename('.git/config.lock', '.git/config')") == "OK"
    assert (config.read_bytes(), config.stat().st_ino) == before and not (repo.ws / ".git/config.lock").exists()
    assert repo.refused() == []
    assert repo.attack("put('.git/config.lock', W|C|X, b'[core]\\n\\tfsmonitor = x\\n'); os.rename('.git/config.lock', '.git/config')") == "EACCES"
    assert repo.refused() == [".git/config"] and any(line.startswith("why core.fsmonitor: ") for line in repo.log())
    assert (config.read_bytes(), config.stat().st_ino) == before


def test_config_may_change_in_what_runs_nothing(repo):
    """A copy of the guard's own takes its place; the file that was written inside is gone."""
    config = repo.ws / ".git/config"
    os.chmod(config, 0o640)
    text = config.read_bytes() + b"[user]\n\tname = x\n"
    assert repo.attack(f"f = open('.git/config.lock', 'wb'); f.write({text!r}); f.flush(); i = os.fstat(f.fileno()).st_ino; os.rename('.git/config.lock', '.git/config');"
                       "f.write(b'evil'); f.flush(); assert os.stat('.git/config').st_ino != i and os.fstat(f.fileno()).st_nlink == 0") == "OK"
    assert config.read_bytes() == text and stat.S_IMODE(config.stat().st_mode) == 0o640 and not (repo.ws / ".git/config.lock").exists()
    assert repo.refused() == [] and {".git/config", ".git/config.lock"} <= set(repo.touched())
    assert sorted(os.listdir(repo.ws / ".git")) == sorted(set(os.listdir(repo.ws / ".git")) - {n for n in os.listdir(repo.ws / ".git") if n.startswith(".config")})


def test_repositories_can_be_made_and_removed(repo):
    r = repo.sh("git init -q n; git -C n config user.name x; git -C n config user.email x@x; git -C n commit -q --allow-empty -m x; git clone -q . m; git -C m remote rename origin up;"
                "git -C m config --list --local; test $(git -C n config core.filemode) = true; ! git -C n config core.symlinks; git init -q; rm -rf n m; ls")
    assert r.rc == 0 and b"remote.up.url=" in r.out and r.out.endswith(b"file\n"), r
    assert repo.refused() == []
    repo.runner.write("h/.git/hooks/pre-commit", "#!/bin/sh\n")
    repo.runner.write("h/.git/config", "[core]\n\thooksPath = x\n")
    repo.sh("rm -rf h .git; true")
    assert sorted(p.name for p in (repo.ws / "h/.git").rglob("*")) == ["config", "hooks", "pre-commit"] and (repo.ws / ".git/config").exists()


# What the supervisor hears

def test_told_once_before_the_first_change(guarded):
    guarded.runner.write("old", "before")
    guarded.runner.write("gone", "before")
    guarded.runner.write("mode", "before")
    r = guarded.sh("echo 1 > old; echo 2 > old; echo 1 > new; echo 2 > new; rm new; echo 3 > new; rm gone; chmod 600 mode; cat old > /dev/null; mkdir d; ln -s x l")
    assert r.rc == 0, r
    assert len(guarded.log()) == len(guarded.touched()) == 6, guarded.log()
    touched = guarded.touched()
    assert touched["old"] == ["1", "0", "100644", "0"] and touched["gone"] == ["1", "1", "100644", "0"] and touched["mode"] == ["1", "0", "100644", "0"]
    for name in ("new", "d", "l"):
        assert touched[name] == ["0", "0", "0", "0"]


def test_a_renamed_tree_is_told_file_by_file(guarded):
    for name in ("t/a", "t/s/b", "over"):
        guarded.runner.write(name, name)
    assert guarded.sh("mv t u; mv -T u v; mv v/a over").rc == 0
    touched = guarded.touched()
    assert {k for k, v in touched.items() if v[:2] == ["1", "1"]} == {"t", "t/a", "t/s", "t/s/b", "over"}
    new = {line.split(" ", 5)[5] for line in guarded.log() if line.startswith("touch 0 ")}  # that a name is made is asked, too, and then it is there twice
    assert new == {"u", "u/a", "u/s", "u/s/b", "v", "v/a", "v/s", "v/s/b"}


def test_names_are_bytes(guarded):
    assert guarded.attack(r"put(b'\xff\x1b[2J', W|C); put(b'n\xc3\xa9', W|C)") == "OK"
    assert set(map(os.fsencode, guarded.touched())) == {b"\xff\x1b[2J", "né".encode()}


def test_what_the_supervisor_says_no_to_does_not_happen(guarded):
    guarded.runner.write("old", "before")
    assert guarded.attack("put('old', W|T)", deny=28) == "ENOSPC"
    assert (guarded.ws / "old").read_text() == "before"


def test_without_a_supervisor_nothing_changes(guarded):
    guarded.runner.write("old", "before")
    code = "put('a', W|C); put('b', W|C)\ntry:\n put('c', W|C)\nexcept OSError: pass\nimport time; time.sleep(0.3); put('a', W)"
    assert guarded.attack(code, leave=3) == "EIO"
    assert (guarded.ws / "a").read_bytes() == b"x" and guarded.attack("put('old', W)", leave=1) == "EIO"
    assert guarded.attack(f"put('{guarded.runner.home}/x', W|C); put('/dev/null', W)", leave=1) == "OK"
    assert (guarded.ws / "old").read_text() == "before"


def test_a_second_listener_is_refused(guarded):
    """Somebody else answers already: direct mode says what to do instead."""
    r = guarded.run(guarded.tools / "harness", guarded.init, guarded.ws, "--", "true")
    assert r.rc == 125 and re.search(rb"use --workspace overlay", r.out), r


def test_what_is_written_in_place_is_judged_at_the_close(repo):
    """.git of a submodule, commondir and gitdir of a worktree: what git writes comes, everything else leaves what was there."""
    repo.runner.write(".git/worktrees/h/commondir", "../..\n")
    repo.runner.write(".git/worktrees/h/gitdir", "/h/.git\n")
    code = "\n".join(["os.makedirs('s/deep'); os.makedirs('.git/worktrees/w')", "def w(p, t, m='wb'):\n with open(p, m) as f: f.write(t)",
                      "w('s/.git', b'gitdir: ../.git/modules/s\\n'); w('s/deep/.git', os.fsencode('gitdir: ' + os.getcwd() + '/.git/modules/s/modules/deep'))",
                      "w('.git/worktrees/w/commondir', b'../..\\n'); w('.git/worktrees/w/gitdir', os.fsencode(os.getcwd() + '/x/.git\\n'))",
                      "w('.git/worktrees/h/commondir', b'../../evil\\n'); w('.git/worktrees/h/gitdir', b'evil\\n'); w('.git/worktrees/h/commondir', b'more', 'ab')",
                      "for i in range(40): f = os.open(f's{i % 3}', W|C); os.mkdir(f'm{i}'); w(f'm{i}/.git', b'gitdir: ../evil')",
                      "held = [os.open('s/.git', W) for i in range(16)]", "try:\n os.open('s/.git', W)\n raise SystemExit('too many')\nexcept PermissionError: pass"])
    assert repo.attack(code) == "OK"
    read = lambda path: (repo.ws / path).read_text()
    assert read("s/.git") == "gitdir: ../.git/modules/s\n" and read("s/deep/.git") == "gitdir: ../../.git/modules/s/modules/deep\n"
    assert read(".git/worktrees/w/commondir") == read(".git/worktrees/h/commondir") == "../..\n" and read(".git/worktrees/w/gitdir") == f"{repo.ws}/x/.git\n" and read(".git/worktrees/h/gitdir") == "/h/.git\n"
    assert not list(repo.ws.glob("m*/.git")) and {"m0/.git", ".git/worktrees/h/gitdir", ".git/worktrees/h/commondir"} <= set(repo.refused())
