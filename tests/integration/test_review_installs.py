# SPDX-License-Identifier: Apache-2.0
"""Review after an install: real npm, pip, cargo and git, what is shown as a whole, and what no folder can hide."""

import json
import os
import pathlib
import pty
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from installs import ELF, NPM, need, npm_package, npm_project, wheel  # noqa: E402
from person import read_all  # noqa: E402
from test_review import ROOT, check  # noqa: E402

SMALL = 12  # files of a package: enough to be shown as a whole


def run(runner, script, mode="overlay", name="r"):
    named = [] if mode == "direct" else ["--name", name]
    r = runner.bawn("run", "--workspace", mode, *named, "--memory", "2g", "--", "sh", "-ec", script)
    assert r.rc == 0, r
    return r


def folder_of(runner, path="node_modules", *options):
    report = runner.bawn("review", "--json", *options).json()
    return report, next((f for f in report["folders"] if f["path"] == path), None)


def unusual(runner, path="node_modules"):
    """{path: reasons} of what is named as not usual after an install."""
    report = runner.bawn("review", "--json", "--all").json()
    below = [c for c in report["changes"] if c["path"].startswith(path + "/")]
    return {c["path"][len(path) + 1 :]: " / ".join(r["reason"] for r in c["risks"] if r["class"] == "dependency" and r["level"] == "high") for c in below
            if any(r["class"] == "dependency" and r["level"] == "high" for r in c["risks"])}


def files(n, word="x"):
    return {f"lib/f{i}.js": f"// {word} {i}\n".encode() for i in range(n)}


@pytest.fixture
def project(runner):
    """Three packages: a plain one, one with an install script and a command, one with machine code."""
    npm_project(runner, {
        "plain": npm_package(runner, "plain", "1.0.0", files(SMALL)),
        "@scope/tool": npm_package(runner, "@scope/tool", "2.1.0", {"cli.js": b"#!/usr/bin/env node\n"}, bin={"tool": "./cli.js"},
                                   scripts={"postinstall": "node -e 1"}),
        "native": npm_package(runner, "native", "0.3.0", {"build/x.node": ELF, "binding.gyp": b"{}"}, gypfile=False, scripts={"install": "true"}),
    })
    return runner


@pytest.mark.parametrize("mode", ["overlay", "direct", "worktree"])
def test_an_install_is_one_entry(project, mode):
    if mode == "worktree":
        project.write(".gitignore", "tgz.not\n")
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
            assert project.run(*git, *words).rc == 0
    run(project, f"{NPM} >/dev/null; echo mine > mine.txt; mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml", mode)
    r = project.bawn("review")
    text = r.out.decode()
    assert r.rc == 1 and len(text.splitlines()) < 40, r
    assert "A  mine.txt" in text and ".github/workflows/x.yml" in text and "A  node_modules" not in text
    assert text.index("x.yml") < text.index("node_modules/"), "what stands for itself comes first"
    assert "3 added" in text and "added: @scope/tool 2.1.0, native 0.3.0, plain 1.0.0" in text
    assert re.search(r"install scripts: @scope/tool \(postinstall\), native \(install, binding.gyp\)", text), text
    assert "lockfile: package-lock.json agrees" in text and "1 binary" in text and "1 command" in text and "not usual after" not in text
    report, npm = folder_of(project)
    schema = json.loads((ROOT / "spec" / "review.schema.json").read_text())
    check(schema, report, schema)
    assert npm["kind"] == "npm" and npm["lockfile"]["state"] == "agrees" and npm["unusual"] == 0
    assert [(p["kind"], p["name"], p["new"]) for p in npm["packages"]] == [("added", "@scope/tool", "2.1.0"), ("added", "native", "0.3.0"), ("added", "plain", "1.0.0")]
    assert report["summary"]["folded"] == npm["changes"] == report["summary"]["changes"] - len(report["changes"])
    every = project.bawn("review", "--json", "--all").json()
    check(schema, every, schema)
    assert len(every["changes"]) == every["summary"]["changes"] == report["summary"]["changes"]
    assert "A  node_modules/plain/index.js" in project.bawn("review", "--all").out.decode()
    assert len(project.bawn("diff", "--json").json()["changes"]) == report["summary"]["changes"], "diff is about files"


def test_ten_thousand_files(runner):
    """More files than anybody reads, and one that matters."""
    npm_project(runner, {f"p{i}": npm_package(runner, f"p{i}", "1.0.0", {**files(195), "cli.js": b"#!/usr/bin/env node\n"}, bin={f"p{i}": "cli.js"}) for i in range(50)})
    runner.write(".git/HEAD", "ref: refs/heads/main\n")
    run(runner, f"{NPM} >/dev/null; mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit")
    r = runner.bawn("review")
    lines = r.out.decode().splitlines()
    assert r.rc == 1 and len(lines) < 60, r
    assert re.search(r"^10\d\d\d changes", "\n".join(lines), re.M)
    assert ".git/hooks/pre-commit" in lines[3], lines[:6]
    assert len(runner.bawn("review", "--all").out.splitlines()) > 10000
    r = runner.bawn("apply")
    assert r.rc == 1 and r.out.startswith(b"high risk: .git/hooks/pre-commit\nhigh risk, but usual after an install: 50 "), r
    r = runner.bawn("apply", "--yes=dependencies,medium,low")
    assert r.rc == 0 and len(r.out.splitlines()) < 20 and b"1 of high risk" in r.out, r
    assert (runner.workspace / "node_modules/p1/lib/f3.js").exists() and os.path.islink(runner.workspace / "node_modules/.bin/p1")
    assert not (runner.workspace / ".git/hooks/pre-commit").exists()
    assert [c["path"] for c in runner.bawn("review", "--json").json()["changes"] if c["new"]["type"] == "file"] == [".git/hooks/pre-commit"]


HIDING = {
    "a package that the lockfile has not": ("mkdir node_modules/extra; echo '{\"version\":\"9.9.9\"}' > node_modules/extra/package.json",
                                            "extra/package.json", "'extra' 9.9.9 is not in package-lock.json"),
    "another version than the lockfile has": ("sed -i s/1.0.0/1.0.1/ node_modules/plain/package.json", "plain/package.json", "'plain' is version 1.0.1, and 1.0.0 in package-lock.json"),
    "another hash than the lockfile has": ("sed -i 's/sha512-..../sha512-AAAA/' node_modules/.package-lock.json", ".package-lock.json", "another integrity hash"),
    "a file that node finds before a package": ("echo evil > node_modules/plain.js", "plain.js", "it belongs to no package"),
    "a folder that is no package": ("mkdir node_modules/left; echo evil > node_modules/left/index.js", "left/index.js", "it belongs to no package"),
    "a command of the system": ("ln -s ../@scope/tool/cli.js node_modules/.bin/git", ".bin/git", "name of a command of the system"),
    "a command that no package has": ("ln -s ../plain/index.js node_modules/.bin/lint", ".bin/lint", "no package declares"),
    "a command that is a file": ("rm node_modules/.bin/tool; echo evil > node_modules/.bin/tool", ".bin/tool", "a file of its own"),
}


@pytest.mark.parametrize("how", HIDING)
def test_what_a_folder_cannot_hide(project, how):
    script, path, reason = HIDING[how]
    run(project, f"{NPM} >/dev/null; {script}")
    found = unusual(project)
    assert list(found) == [path] and reason in found[path], found
    text = project.bawn("review").out.decode()
    assert "high, and not usual after an install: 1\n" in text and f"node_modules/{path}: " in text, text
    r = project.bawn("apply", "--yes=dependencies,medium,low", "--json")
    assert r.rc == 0 and {c["outcome"] for c in r.json()["changes"] if c["path"] == f"node_modules/{path}"} == {"left"}, r


@pytest.mark.parametrize("script, path, what", [
    ("mkdir -p node_modules/plain/.git/hooks; echo x > node_modules/plain/.git/HEAD; echo x > node_modules/plain/.git/hooks/post-checkout; chmod +x node_modules/plain/.git/hooks/*",
     "node_modules/plain/.git/hooks/post-checkout", "git-hook"),
    ("ln -s /etc/shadow node_modules/plain/data", "node_modules/plain/data", "symlink-out"),
    ("mkdir node_modules/plain/.vscode; echo '{\"servers\":{\"x\":{\"command\":\"evil\"}}}' > node_modules/plain/.vscode/mcp.json",
     "node_modules/plain/.vscode/mcp.json", "agent"),
])
def test_what_no_install_brings_is_named(project, script, path, what):
    run(project, f"{NPM} >/dev/null; {script}")
    text = project.bawn("review").out.decode()
    assert f"         {what}: {path}: " in text, text
    assert project.bawn("apply", "--yes=dependencies,medium,low").rc == 0
    assert not os.path.lexists(project.workspace / path) and (project.workspace / "node_modules/plain/index.js").exists()


def test_links_out_of_the_folder_are_named(project):
    project.write("packages/own/index.js", "1")
    run(project, f"{NPM} >/dev/null; ln -s ../packages/own node_modules/own")
    assert "links out of the folder: node_modules/own\n" in project.bawn("review").out.decode()
    assert folder_of(project)[1]["links_out"] == ["node_modules/own"]


def test_a_file_of_a_package_that_did_not_change(project):
    """The host has installed; the agent edits what is there."""
    cache = project.mkdir(project.top / "cache")
    assert project.run("npm", "ci", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--cache", cache).rc == 0
    run(project, "echo 'evil()' >> node_modules/plain/lib/f3.js; for i in $(seq 9); do echo x > node_modules/plain/n$i.js; done; chmod 600 node_modules/plain/index.js")
    found = unusual(project)
    assert sorted(found) == ["plain/lib/f3.js", *(f"plain/n{i}.js" for i in range(1, 10))], found
    assert set(found.values()) == {"it is a file of 'plain' 1.0.0, whose version did not change"}
    assert project.bawn("apply").rc == 1
    run(project, "echo 'evil()' >> node_modules/plain/lib/f4.js", name="one")
    text = project.bawn("review", "one").out.decode()
    assert "M  node_modules/plain/lib/f4.js" in text and "whose version did not change" in text, "a few changes are listed, with the same risk"


def test_an_update_says_from_which_version(project):
    cache = project.mkdir(project.top / "cache")
    assert project.run("npm", "ci", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", "--cache", cache).rc == 0
    npm_package(project, "plain", "1.1.0", files(SMALL, "new"))
    run(project, "npm install --offline --no-audit --no-fund --ignore-scripts --cache /tmp/c ./tgz/plain-1.1.0.tgz >/dev/null; npm uninstall --offline --no-audit --no-fund --cache /tmp/c native >/dev/null")
    text = project.bawn("review").out.decode()
    assert "changed: plain 1.0.0 -> 1.1.0\n" in text and "removed: native 0.3.0\n" in text, text
    assert "package-lock.json agrees" in text and "this run changed it, too" in text, text


def test_a_name_is_no_proof(runner):
    """Without what the tool leaves there, a folder is a folder."""
    script = "for d in node_modules vendor target .venv Pods bower_components .git/objects; do mkdir -p $d/a; for i in $(seq 20); do echo x > $d/a/f$i; done; done"
    run(runner, script)
    report = runner.bawn("review", "--json").json()
    assert report["folders"] == [] and report["summary"]["folded"] == 0 and len(report["changes"]) == report["summary"]["changes"] >= 140


def test_an_environment_is_no_cloak_for_a_project(runner):
    """pyvenv.cfg in the project's own folder makes nothing disappear; nor does one in src/."""
    files_ = "; ".join(f"echo x > {d}/f{i}.py" for d in (".", "src", "src/lib", "myvenv/own") for i in range(9))
    run(runner, f"mkdir -p src/bin src/lib bin myvenv/own myvenv/bin; touch pyvenv.cfg src/pyvenv.cfg myvenv/pyvenv.cfg src/bin/python bin/python; {files_}")
    report = runner.bawn("review", "--json").json()
    listed = {c["path"] for c in report["changes"]}
    assert {f"{d}f{i}.py" for d in ("", "src/", "src/lib/", "myvenv/own/") for i in range(9)} <= listed


def test_pip_in_an_environment(runner):
    for version in ("1.0", "2.0"):
        wheel(runner, "the_thing", version, {"the_thing/__init__.py": f"v = {version!r}\n", "the_thing/a,b.py": "x = 1\n"})
    wheel(runner, "other", "1.5", {"other.py": "y = 1\n", "other.pth": "import other\n"})
    runner.write("requirements.txt", "The-Thing==1.0\n")
    pip = ".venv/bin/pip install -q --no-index --find-links wheels --disable-pip-version-check"
    run(runner, f"/usr/bin/python3 -m venv .venv; {pip} the_thing==1.0 other; .venv/bin/python -c 'import the_thing'")
    report, venv = folder_of(runner, ".venv")
    assert report["changes"] == [] and venv["kind"] == "venv" and venv["unusual"] == 0, venv
    assert {"other": "1.5", "the-thing": "1.0"}.items() <= {p["name"]: p["new"] for p in venv["packages"]}.items()
    assert venv["lockfile"]["state"] == "partly" and any(s.endswith("/other.pth") for s in venv["starts"])
    text = runner.bawn("review").out.decode()
    assert len(text.splitlines()) < 30 and "python runs at every start: " in text, text
    assert runner.bawn("apply", "--yes", "--allow-links-out").rc == 0

    site = next((runner.workspace / ".venv/lib").iterdir()).relative_to(runner.workspace) / "site-packages"
    run(runner, f"{pip} the_thing==2.0; echo evil >> {site}/other.py; echo evil > {site}/sitecustomize.py", name="two")
    _, venv = folder_of(runner, ".venv")
    assert [(p["kind"], p["old"], p["new"]) for p in venv["packages"]] == [("changed", "1.0", "2.0")], venv
    assert venv["lockfile"]["differences"] == ["'the-thing' is version 2.0, and 1.0 in requirements.txt"]
    found = unusual(runner, str(site))
    assert set(found) == {"other.py", "sitecustomize.py", "the_thing-2.0.dist-info/METADATA"}, found
    assert "no package that came or went" in found["other.py"]


CRATE = """[package]
name = "{0}"
version = "{1}"
"""


def crate(name, version, checksum, more=""):
    return (f"mkdir -p vendor/{name}/src; printf '%s' '{CRATE.format(name, version)}' > vendor/{name}/Cargo.toml; for i in 1 2 3 4 5; do echo x > vendor/{name}/src/$i.rs; done; "
            f"echo '{{\"files\":{{}},\"package\":\"{checksum}\"}}' > vendor/{name}/.cargo-checksum.json; {more}")


def test_vendored_crates(runner):
    """The layout of `cargo vendor`, and C sources beside it that are the project's own."""
    runner.write("Cargo.toml", CRATE.format("own", "0.1.0"))
    lock = "".join(f'[[package]]\nname = "{n}"\nversion = "{v}"\nsource = "registry+https://github.com/rust-lang/crates.io-index"\nchecksum = "{c}"\n\n' for n, v, c in
                   (("good", "1.0.0", "a" * 64), ("odd", "1.0.0", "b" * 64)))
    runner.write("Cargo.lock", f"version = 3\n\n{lock}")
    run(runner, crate("good", "1.0.0", "a" * 64, "echo 'fn main(){}' > vendor/good/build.rs;") + crate("odd", "1.0.0", "c" * 64) + crate("new", "0.1.0", "d" * 64)
        + "mkdir vendor/zlib; for i in 1 2 3; do echo x > vendor/zlib/$i.c; done")
    report, vendor = folder_of(runner, "vendor")
    assert vendor["kind"] == "cargo-vendor" and [p["name"] for p in vendor["packages"]] == ["good", "new", "odd"], vendor
    assert vendor["packages"][0]["install_scripts"] == "build.rs"
    assert vendor["lockfile"]["differences"] == ["'new' 0.1.0 is not in Cargo.lock", "'odd' 1.0.0 has another checksum than Cargo.lock has"]
    assert {"vendor/zlib/1.c", "vendor/zlib/2.c", "vendor/zlib/3.c"} <= {c["path"] for c in report["changes"]}


def test_vendored_modules(runner):
    runner.write("go.mod", "module own\n\ngo 1.20\n")
    runner.write("go.sum", "example.com/a v1.0.0 h1:x\nexample.com/a v1.0.0/go.mod h1:y\n")
    module = "mkdir -p vendor/example.com/{0}; for i in 1 2 3 4 5; do echo package x > vendor/example.com/{0}/$i.go; done; "
    runner.write("vendor/modules.txt", "# example.com/old v1.0.0\n## explicit\n")
    runner.write("vendor/example.com/old/1.go", "package old\n")
    run(runner, module.format("a") + module.format("b/v2") + "echo evil >> vendor/example.com/old/1.go;"
        "printf '# example.com/a v1.0.0\\n## explicit\\nexample.com/a\\n# example.com/b/v2 v2.0.0\\n# example.com/old v1.0.0\\n' > vendor/modules.txt")
    _, vendor = folder_of(runner, "vendor")
    assert [p["name"] for p in vendor["packages"]] == ["example.com/a", "example.com/b/v2"], vendor
    assert vendor["lockfile"]["differences"] == ["'example.com/b/v2' v2.0.0 is not in go.sum"]
    assert "version did not change" in unusual(runner, "vendor")["example.com/old/1.go"]


def test_commits_bring_objects(runner):
    git = "git -c user.name=t -c user.email=t@t"
    assert runner.run("sh", "-ec", f"git init -q; echo a > a; git add a; {git} commit -q -m one").rc == 0
    run(runner, f"for i in $(seq 30); do echo $i > f$i; git add f$i; {git} commit -q -m $i; done")
    report, objects = folder_of(runner, ".git/objects")
    assert objects["kind"] == "git-objects" and objects["changes"] >= 90
    assert not [c for c in report["changes"] if c["path"].startswith(".git/objects/") and c["level"] != "high"]
    run(runner, "echo /elsewhere > .git/objects/info/alternates; for i in 1 2 3 4; do echo $i | git hash-object -w --stdin; done", name="two")
    assert ".git/objects/info/alternates" in {c["path"] for c in runner.bawn("review", "two", "--json").json()["changes"]}, "a high risk stands for itself"


def on_terminal(runner, *args, keys=b""):
    master, slave = pty.openpty()
    proc = runner.popen(runner.path, *args, stdin=slave, stdout=slave, stderr=slave, env={"TERM": "xterm"})
    os.close(slave)
    os.write(master, keys)
    return proc, master


def answer(runner, *args, keys):
    proc, master = on_terminal(runner, *args, keys=keys)
    text = read_all(master)
    return proc.wait(), text.decode()


CLASSES = f"{NPM} >/dev/null; mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo all: > Makefile; echo root=true > .editorconfig; echo t > t.txt"


def test_apply_asks_about_each_class(project):
    project.write(".git/HEAD", "ref: refs/heads/main\n")
    run(project, CLASSES)
    rc, text = answer(project, "apply", keys=b"q\n")
    assert rc == 1 and "nothing was done" in text and not (project.workspace / "t.txt").exists(), text
    rc, text = answer(project, "apply", keys=b"n\ny\ny\nn\n")
    assert rc == 0, text
    questions = re.findall(r"(\d+) changes? ((?:of|in) .*):\r$", text, re.M)
    assert [q[1] for q in questions] == ["of high risk", "in folders of dependencies", "of medium risk", "of low risk"], text
    assert "  .git/hooks/pre-commit\r\n" in text and re.search(r"^  \d+ in node_modules/, \d of high risk", text, re.M) and "  Makefile\r\n" in text
    there = {n: os.path.lexists(project.workspace / n) for n in (".git/hooks/pre-commit", "node_modules/.bin/tool", "Makefile", ".editorconfig", "t.txt")}
    assert there == {".git/hooks/pre-commit": False, "node_modules/.bin/tool": True, "Makefile": True, ".editorconfig": False, "t.txt": True}
    left = {c["path"] for c in project.bawn("review", "--json").json()["changes"] if c["new"]["type"] == "file"}
    assert left == {".git/hooks/pre-commit", ".editorconfig"}
    assert answer(project, "apply", "--except", ".git/", keys=b"q\n")[0] == 0, "without a high risk there is no question"


def test_classes_without_a_terminal(project):
    project.write(".git/HEAD", "ref: refs/heads/main\n")
    run(project, CLASSES)
    r = project.bawn("apply", "--yes=low,nothing")
    assert r.rc == 64 and b"high, dependencies, medium, low and none" in r.err, r
    r = project.bawn("apply", "--yes=none", "--dry-run", "--json")
    outcome = {c["path"]: c["outcome"] for c in r.json()["changes"]}
    assert r.rc == 0 and outcome["t.txt"] == "applied" and outcome["Makefile"] == outcome[".editorconfig"] == "left", r
    r = project.bawn("apply", "--yes=medium,low", "--dry-run", "--json")
    outcome = {c["path"]: c["outcome"] for c in r.json()["changes"]}
    assert r.rc == 0 and outcome["Makefile"] == "applied" and outcome[".git/hooks/pre-commit"] == outcome["node_modules/.bin/tool"] == "left", r
    r = project.bawn("apply", "--yes=medium,low")
    assert r.rc == 0 and b"left in the run for their risk: 1 of high risk, " in r.out, r
    assert (project.workspace / "Makefile").exists() and not (project.workspace / ".git/hooks/pre-commit").exists()
    assert project.bawn("apply").rc == 1
    assert project.bawn("apply", "--yes").rc == 0 and (project.workspace / ".git/hooks/pre-commit").exists()


def test_a_folder_is_one_question(project):
    run(project, f"{NPM} >/dev/null; mkdir -p src; for i in 1 2 3; do echo x > src/$i.c; done; echo t > t.txt")
    before = len(project.bawn("review", "--json", "--all").json()["changes"])
    r = project.bawn("review", "-i", input=b"S\ns\n?\na\n")
    assert r.rc == 0 and r.out.count(b"what now?") == 4, r
    assert b"each: step through the files" in r.out and b"rest of its folder" not in r.out.split(b"node_modules/  (")[1]
    assert (project.workspace / "node_modules/plain/index.js").exists()
    left = project.bawn("review", "--json", "--all").json()["changes"]
    assert 4 <= len(left) < before / 2 and {c["path"].split("/")[0] for c in left} == {"src", "t.txt"}, left
    r = project.bawn("review", "-i", "--except", "t.txt", input=b"A\n")
    assert r.rc == 0 and r.out.count(b"what now?") <= 2 and (project.workspace / "src/3.c").exists(), r


def test_what_is_not_usual_is_a_question_of_its_own(project):
    run(project, f"{NPM} >/dev/null; echo evil > node_modules/plain.js; ln -s ../plain/index.js node_modules/.bin/git")
    r = project.bawn("review", "-i", input=b"s\nd\na\n")
    assert r.rc == 0 and r.out.count(b"what now?") == 3, r
    assert re.findall(rb"^  A  (\S+)", r.out, re.M) == [b"node_modules/.bin/git", b"node_modules/plain.js"], r
    there = {n: os.path.lexists(project.workspace / "node_modules" / n) for n in (".bin/git", ".bin/tool", "plain.js", "plain/index.js")}
    assert there == {".bin/git": False, ".bin/tool": True, "plain.js": False, "plain/index.js": True}
    assert [c["path"] for c in project.bawn("review", "--json", "--all").json()["changes"]] == ["node_modules/.bin/git"]


def test_a_folder_file_by_file(project):
    run(project, f"{NPM} >/dev/null")
    n = folder_of(project)[1]["changes"]
    r = project.bawn("review", "-i", input=b"e\na\nS\n")
    assert r.rc == 0 and r.out.count(b"what now?") == 3, r
    assert n - 4 <= folder_of(project)[1]["changes"] < n, "one file, and the folders that it is in"
    assert os.path.islink(project.workspace / "node_modules/.bin/tool")


def test_except_narrows_a_review(project):
    run(project, f"{NPM} >/dev/null; echo t > t.txt; echo u > u.txt")
    r = project.bawn("review", "--except", "node_modules/", "--except", "u.txt")
    assert b"t.txt" in r.out and b"node_modules" not in r.out and b"A  u.txt" not in r.out and b"other changes were not asked for" in r.out, r
    assert project.bawn("diff", "--name-only", "--except", "node_modules/").out.split() == [b"t.txt", b"u.txt"]


def test_sarif_names_what_is_not_usual(project):
    run(project, f"{NPM} >/dev/null; echo evil > node_modules/plain.js")
    found = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in project.bawn("review", "--sarif").json()["runs"][0]["results"]}
    assert found == {"node_modules/plain.js"}
    assert len(project.bawn("review", "--sarif", "--all").json()["runs"][0]["results"]) > 5


@pytest.mark.parametrize("lock", ["yarn.lock", "pnpm-lock.yaml"])
def test_other_lockfiles_of_node(runner, lock):
    content = {
        "yarn.lock": '# yarn lockfile v1\n\n"a@^1.0.0":\n  version "1.0.0"\n  resolved "https://registry.yarnpkg.com/a/-/a-1.0.0.tgz"\n  integrity sha512-x\n',
        "pnpm-lock.yaml": "lockfileVersion: '9.0'\n\npackages:\n\n  a@1.0.0:\n    resolution: {integrity: sha512-x}\n",
    }[lock]
    runner.write("package.json", "{}")
    runner.write(lock, content)
    make = "mkdir -p node_modules/{0}; echo '{{\"name\":\"{0}\",\"version\":\"{1}\"}}' > node_modules/{0}/package.json; for i in 1 2 3 4; do echo x > node_modules/{0}/$i.js; done; "
    run(runner, make.format("a", "1.0.0") + make.format("b", "1.0.0"))
    _, npm = folder_of(runner)
    assert npm["lockfile"]["differences"] == [f"'b' 1.0.0 is not in {lock}"], npm


def test_what_cargo_builds(runner):
    """Build output of the real cargo."""
    need("cargo")
    runner.write("Cargo.toml", CRATE.format("own", "0.1.0") + 'edition = "2021"\n')
    runner.write("src/main.rs", "fn main() {}\n")
    r = runner.run("cargo", "build", "-q", "--offline", "--target-dir", runner.top / "built", env={"CARGO_HOME": str(runner.mkdir(runner.top / "cargo-home"))})
    if r.rc:
        pytest.skip("needs the program cargo with a toolchain")
    r = runner.bawn("run", "-w", "overlay", "--mount", f"{runner.top}/built:/mnt:ro", "--", "cp", "-r", "/mnt", "target")
    assert r.rc == 0, r
    report, target = folder_of(runner, "target")
    assert target["kind"] == "cargo-target" and target["binaries"] > 0 and not [c for c in report["changes"] if c["path"].startswith("target/")], report
