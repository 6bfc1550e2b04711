# SPDX-License-Identifier: Apache-2.0
"""Real work: projects from Debian's archive build and pass their own tests inside with the same result as outside, and the
tools that developers use do what they do outside. Everything is fetched before; the work itself has no network."""

import pathlib
import re
import shutil
import subprocess

import pytest

CACHE = pathlib.Path("/var/cache/bawn-test")
CMAKE = "cmake -S . -B b {0} && cmake --build b -j2 && ctest --test-dir b --output-on-failure"
PROJECTS = {
    "zlib": "./configure && make -j2 && make test",
    "bzip2": "make -j2 && make test",
    "xxhash": "make -j2 && make check",
    "lua5.4": "make -j2 linux && make test",
    "jansson": CMAKE.format("-DJANSSON_BUILD_DOCS=OFF"),
    "libyaml": CMAKE.format(""),
    "cjson": CMAKE.format("-DENABLE_CJSON_UTILS=On"),
    "tinyxml2": CMAKE.format("-DBUILD_TESTING=ON"),
    "expat": "cd expat && " + CMAKE.format("-DEXPAT_BUILD_DOCS=OFF"),
    "markupsafe": "python3 setup.py build_ext --inplace && PYTHONPATH=src python3 -m pytest -q -p no:cacheprovider",
}
# What a project's own tests print about their outcome, times left out.
SUMMARY = re.compile(r"^.*(?:\d+% tests passed.*|\*\*\* zlib.*|\d+ passed|checks completed|^Lua \d.*|^cmp .*)", re.M)


def fetch(name):
    """The project's original tar file, from the cache or from Debian's archive."""
    folder = CACHE / "sources"
    if not list(folder.glob(f"{name}_*.orig.tar.*")):
        folder.mkdir(parents=True, exist_ok=True)
        lists = CACHE / "apt" / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        (CACHE / "src.list").write_text(
            "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
        )
        apt = [
            "apt-get",
            "-q",
            "-o",
            f"Dir::Etc::SourceList={CACHE}/src.list",
            "-o",
            "Dir::Etc::SourceParts=/dev/null",
            "-o",
            f"Dir::State::Lists={lists}",
            "-o",
            "APT::Sandbox::User=root",
        ]
        if not list(lists.glob("*Sources*")):
            subprocess.run([*apt, "update"], check=False, capture_output=True)
        subprocess.run([*apt, "source", "--download-only", name], cwd=folder, check=False, capture_output=True)
    found = sorted(folder.glob(f"{name}_*.orig.tar.*"))
    if not found:
        pytest.skip(f"needs the program source {name}, and Debian's archive does not answer")
    return found[0]


def unpack(runner, name, where):
    runner.mkdir(where)
    subprocess.run(["tar", "-xf", fetch(name), "-C", where, "--strip-components=1", "--no-same-owner"], check=True)
    subprocess.run(["chown", "-R", f"{runner.user.pw_uid}:{runner.user.pw_gid}", where], check=True)
    return where


def files_of(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def outcome(r):
    return r.rc, SUMMARY.findall((r.out + r.err).decode(errors="replace"))


@pytest.mark.parametrize("name", PROJECTS)
def test_project_builds_and_passes_its_tests(runner, name):
    """The same directory, the same commands: outside, then inside; the same verdict and the same files."""
    place = runner.workspace / "project"
    results = []
    for front in ([], [runner.path, "run", "--memory", "2g", "--"]):
        unpack(runner, name, place)
        r = runner.run(*front, "bash", "-c", PROJECTS[name], cwd=place)
        results.append((outcome(r), files_of(place), r))
        shutil.rmtree(place)
    (outside, outside_files, first), (inside, inside_files, second) = results
    assert outside[0] == 0 and outside[1], first
    assert inside == outside, second
    assert inside_files == outside_files, inside_files ^ outside_files


def need(*programs):
    for program in programs:
        if not shutil.which(program, path="/usr/bin:/bin:/usr/local/bin"):
            pytest.skip(f"needs the program {program}")


def work(runner, script, *options, **kw):
    r = runner.bawn("run", *options, "--", "bash", "-e", "-c", script, **kw)
    assert r.rc == 0, r
    return r.out.decode()


def test_python_virtual_environment_and_pytest(runner):
    runner.write("test_sum.py", "def test_sum():\n    assert 1 + 1 == 2\n")
    out = work(
        runner,
        "/usr/bin/python3 -m venv --system-site-packages venv && . venv/bin/activate && which python && python -m pytest -q test_sum.py && pip --version",
    )
    assert "1 passed" in out and str(runner.workspace / "venv/bin/python") in out and "pip" in out


def test_python_multiprocessing_threads_and_sqlite(runner):
    out = work(
        runner,
        """/usr/bin/python3 - <<'P'
import asyncio, concurrent.futures, multiprocessing, sqlite3, tempfile, threading
with concurrent.futures.ProcessPoolExecutor(4) as pool: print(sum(pool.map(abs, range(-100, 0))))
lock = multiprocessing.Lock(); queue = multiprocessing.Queue(); queue.put(1); print(queue.get())
db = sqlite3.connect("test.db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(x)"); db.execute("insert into t values (1)"); db.commit()
async def main(): p = await asyncio.create_subprocess_exec("true"); return await p.wait()
print(asyncio.run(main()))
P""",
    )
    assert out.split() == ["5050", "1", "0"]


def test_node_and_npm(runner):
    need("node", "npm")
    runner.write("package.json", '{"name": "x", "version": "1.0.0", "scripts": {"test": "node --test test.js"}}')
    runner.write(
        "test.js",
        "const test = require('node:test'), assert = require('assert'), http = require('http');\n"
        "test('server', (t, done) => { const s = http.createServer((q, r) => r.end('hi')).listen(0, '127.0.0.1', () => "
        "http.get({port: s.address().port, host: '127.0.0.1'}, r => { r.on('data', d => { assert.equal(String(d), 'hi'); s.close(); done(); }); })); });\n"
        "test('worker', async () => { const {Worker} = require('worker_threads'); await new Promise(ok => new Worker('0', {eval: true}).on('exit', ok)); });\n",
    )
    assert "# pass 2" in work(runner, "npm test --offline 2>&1", "--memory", "2g")


def test_java(runner):
    need("javac", "java")
    runner.write(
        "Hello.java",
        'public class Hello { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println("hello " + 6 * 7)); t.start(); t.join(); } }',
    )
    assert work(runner, "javac Hello.java && java Hello", "--memory", "2g") == "hello 42\n"


def test_rust(runner):
    need("rustc")
    runner.write(
        "main.rs",
        'fn main() { let v: Vec<u32> = (1..=10).collect(); println!("{}", v.iter().sum::<u32>()); }\n#[test]\nfn sum() { assert_eq!(1 + 1, 2); }',
    )
    out = work(runner, "rustc -O main.rs -o main && ./main && rustc --test main.rs -o t && ./t", "--memory", "2g")
    assert out.startswith("55\n") and "1 passed" in out


def test_go(runner):
    need("go")
    runner.write("go.mod", "module x\ngo 1.19\n")
    runner.write(
        "x_test.go",
        'package x\nimport "testing"\nfunc TestX(t *testing.T) { c := make(chan int); go func() { c <- 1 }(); if <-c != 1 { t.Fatal() } }\n',
    )
    assert "ok" in work(runner, "go test ./...", "--memory", "2g", "--disk", "2g")


def test_cmake_with_a_generated_project(runner):
    runner.write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.13)\nproject(x C CXX)\nfind_package(Threads REQUIRED)\nadd_executable(x main.cc)\n"
        "target_link_libraries(x Threads::Threads)\nenable_testing()\nadd_test(x x)\n",
    )
    runner.write("main.cc", "#include <thread>\nint main() { std::thread t([]{}); t.join(); }\n")
    assert "100% tests passed" in work(runner, "cmake -S . -B b && cmake --build b && ctest --test-dir b")


def test_git(runner):
    """In direct mode everything but what makes or configures a repository, which is the host's to do."""
    for args in (["init", "-q", "-b", "main", "."], ["config", "user.name", "A"], ["config", "user.email", "a@b.c"]):
        assert runner.run("git", *args).rc == 0
    out = work(
        runner,
        """
        echo one > file && git add . && git commit -q -m first && git checkout -q -b side && echo two > file && git commit -qam second
        git checkout -q main && git merge -q side && git log --oneline | wc -l && git status --porcelain && git gc -q && git fsck
        git clone -q . /tmp/clone && git stash list""",
    )
    assert out.split()[0] == "2"
    r = runner.run("git", "log", "--format=%s")
    assert r.out == b"second\nfirst\n", r
    assert runner.bawn("run", "--", "git", "worktree", "add", "-q", "wt", "side").rc == 0
    assert runner.run("git", "-C", "wt", "log", "-1", "--format=%s").out == b"second\n"
    assert runner.run("git", "worktree", "remove", "wt").rc == 0 and runner.run("git", "status", "--porcelain").out == b""


def test_git_makes_repositories_where_they_stay_inside(runner):
    work(runner, "git init -q new && cd new && git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m x", "--workspace", "overlay")
    assert not (runner.workspace / "new").exists()


def test_gdb_on_an_own_child(runner):
    need("gdb")
    runner.write(
        "crash.c",
        "#include <stdlib.h>\nint boom(int x) { if (x > 2) abort(); return boom(x + 1); }\nint main(void) { return boom(0); }\n",
    )
    out = work(runner, "gcc -g -O0 crash.c -o crash && gdb -batch -ex run -ex bt ./crash 2>&1")
    assert "SIGABRT" in out and "boom (x=3)" in out


def test_strace_on_an_own_child(runner):
    need("strace")
    out = work(
        runner,
        "strace -f -o trace sh -c 'cat /etc/passwd >/dev/null' && grep -c openat trace && strace -c true 2>&1 | tail -1",
    )
    assert int(out.split()[0]) > 0 and "total" in out


def test_sanitizers(runner):
    """Address sanitizer reserves terabytes of address space; leak sanitizer traces the threads of its own process."""
    runner.write(
        "leak.c",
        "#include <stdlib.h>\nint main(int n, char **v) { char *volatile p = malloc(10); p[0] = (char)n; if (n < 2) free(p); p = NULL; return v == NULL; }\n",
    )
    r = runner.bawn(
        "run",
        "--memory",
        "2g",
        "--",
        "bash",
        "-c",
        "gcc -fsanitize=address,undefined leak.c -o leak && ./leak && echo clean; ./leak x",
    )
    assert r.out == b"clean\n" and b"10 byte(s) leaked" in r.err, r


def test_chromium(runner):
    need("chromium")
    runner.write(
        "page.html", "<title>x</title><body><script>document.body.innerHTML = 'made by ' + 'script'</script></body>"
    )
    out = work(
        runner,
        f"chromium --headless --no-sandbox --disable-gpu --dump-dom file://{runner.workspace}/page.html 2>/dev/null",
        "--memory",
        "4g",
        "--pids",
        "500",
    )
    assert "made by script" in out


def test_servers_on_loopback(runner):
    out = work(
        runner,
        "/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 & "
        "for i in $(seq 100); do curl -s http://127.0.0.1:8123/ >page && break; sleep 0.1; done; grep -c Directory page; curl -s http://localhost:8123/ | wc -l; kill %1",
    )
    assert int(out.split()[0]) > 0 and int(out.split()[1]) > 0


def test_make_jobserver_and_process_substitution(runner):
    runner.write("Makefile", "all: a b c d\na b c d:\n\t@sleep 0.1; echo $@\n")
    assert sorted(work(runner, "make -s -j4 && diff <(echo 1) <(echo 1) && ls /dev/fd/0").split()[:4]) == [
        "a",
        "b",
        "c",
        "d",
    ]


def test_perl_and_archives(runner):
    out = work(
        runner,
        'perl -MFile::Temp=tempfile -e \'($f, $n) = tempfile(); print {$f} 1; print -e $n ? "ok\\n" : "no\\n"\' && mkdir d && echo x > d/f && '
        "tar czf a.tgz d && rm -r d && tar xzf a.tgz && cat d/f && cp -a d e && diff -r d e && find . -name f | wc -l",
    )
    assert out.split() == ["ok", "x", "2"]
