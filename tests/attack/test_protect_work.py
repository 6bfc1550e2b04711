# SPDX-License-Identifier: Apache-2.0
"""What goes on working beside the protected paths in direct mode: git, real programs; and who may change the list."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from protecting import DIRECT, GIT, IDENTITY, LEADS, LINES, PYTHON, TARGETS, concrete, git, repository, snapshot, tidy  # noqa: E402

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
    protected = {concrete(line) for line in LINES if line[0] != "!"}  # not bin, in which only some names are
    tops = {t.split("/")[0] for t in TARGETS} & protected
    names = sorted({n for n in tops if n not in LEADS or n == ".git"} | {t for t in TARGETS if t.startswith(".git/")})
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
