# SPDX-License-Identifier: Apache-2.0
"""`bawn init` writes the rules once; `bawn init --check` says what a project's rules leave unprotected."""

import json
import os
import stat

import pytest

SEED_000 = [".env", ".env.*", "!.env.example", "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "credentials.json", "service-account*.json", ".aws/",
            ".gcp/", ".azure/"]
TODAY = [".envrc", "id_rsa*", "*.kubeconfig", ".netrc", ".npmrc", ".pypirc", "terraform.tfstate*", ".git-credentials"]
FILE = ".sandboxignore"


def git(runner, *args, **kw):
    env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@t"}
    r = runner.run("git", *args, env=env, **kw)
    assert r.rc == 0, r


def init(runner):
    r = runner.bawn("init")
    assert r.rc == 0, r
    return runner.workspace / FILE


def check(runner, status, *args):
    r = runner.bawn("init", "--check", "--json", *args)
    assert r.rc == status, r
    return r.json()


def kinds(report):
    return sorted({f["kind"] for f in report["findings"]})


def test_writes_the_recommended_set(runner):
    path = init(runner)
    lines = path.read_text().splitlines()
    for pattern in SEED_000 + TODAY:
        assert pattern in lines
    assert "**/.docker/config.json" in lines
    assert sum(line.startswith("#") for line in lines) >= 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert path.stat().st_uid == runner.user.pw_uid
    assert os.listdir(runner.workspace) == [FILE]  # no temporary file is left


def test_never_overwrites(runner):
    runner.write(FILE, "mine\n")
    r = runner.bawn("init", "--json")
    assert r.rc == 0 and r.json() == {"file": FILE, "written": False}, r
    assert b"not changed" in runner.bawn("init").out
    assert (runner.workspace / FILE).read_text() == "mine\n"


def test_does_not_write_through_a_link(runner):
    (runner.workspace / FILE).symlink_to(runner.home / "elsewhere")
    assert runner.bawn("init").rc == 0
    assert not (runner.home / "elsewhere").exists()
    r = runner.bawn("init", "--check")
    assert r.rc == 125 and b"not a regular file" in r.err, r


def test_other_folder(runner):
    runner.mkdir(runner.workspace / "sub")
    assert runner.bawn("init", "-C", "sub", "--json").json()["written"] is True
    assert (runner.workspace / "sub" / FILE).exists() and not (runner.workspace / FILE).exists()


@pytest.mark.parametrize("args", [["-C", "nowhere"], ["extra"], ["--nope"], ["--check", "-C", "nowhere"]])
def test_usage_errors(runner, args):
    r = runner.bawn("init", *args)
    assert r.rc == 64 and r.out == b"", r


def test_check_is_content_with_what_init_writes(runner):
    init(runner)
    assert check(runner, 0) == {"file": FILE, "git": False, "findings": []}
    r = runner.bawn("init", "--check")
    assert r.rc == 0 and b"tracked files were not checked" in r.err, r


def test_check_without_a_file(runner):
    assert kinds(check(runner, 1)) == ["no-file"]  # the defaults hold, so nothing else is missing
    assert not (runner.workspace / FILE).exists()


@pytest.mark.parametrize("pattern", [p for p in SEED_000 + TODAY if p[0] != "!"])
def test_check_names_what_is_missing(runner, pattern):
    path = init(runner)
    lines = path.read_text().splitlines()
    lines.remove(pattern)
    runner.write(FILE, "\n".join(lines))
    assert [(f["kind"], f["pattern"]) for f in check(runner, 1)["findings"]] == [("missing", pattern)]
    r = runner.bawn("init", "--check")
    assert r.rc == 1 and f"missing: {pattern} ".encode() in r.out, r


def test_another_way_to_say_it_is_as_good(runner):
    path = init(runner)
    text = path.read_text().replace("*.pem\n*.key\n", "**/*.[pk]e[my]\n").replace(".aws/\n.gcp/\n.azure/\n", ".a*/\n.gcp\n")
    runner.write(FILE, text.replace("\n", "\r\n"))
    assert check(runner, 0)["findings"] == []


@pytest.mark.parametrize("rule, patterns", [("!.env", [".env"]), ("!*.pem", ["*.pem"]), ("!.env.*", [".env.*"]), ("!.aws/", [".aws/"]), ("!web/.env", [".env"])])
def test_check_names_what_is_reincluded(runner, rule, patterns):
    path = init(runner)
    number = len(path.read_text().splitlines()) + 1
    runner.write(FILE, path.read_text() + rule + "\n")
    found = check(runner, 1)["findings"]
    if rule == "!.aws/":  # shown as a folder, but nothing matches the files in it any more
        assert [(f["kind"], f["pattern"]) for f in found] == [("missing", ".aws/")]
        return
    assert [(f["kind"], f["pattern"], f["file"], f["line"], f["rule"]) for f in found] == [("reincluded", p, FILE, number, rule) for p in patterns]


def test_check_reads_nested_files(runner):
    init(runner)
    runner.write("deep/er/" + FILE, "# here\n!*.key\n")
    (found,) = check(runner, 1)["findings"]
    assert (found["kind"], found["pattern"], found["file"], found["line"]) == ("reincluded", "*.key", f"deep/er/{FILE}", 2)


def test_check_accepts_one_file_by_its_path(runner):
    path = init(runner)
    runner.write("certs/ca.pem", "public")
    git(runner, "init", "-q")
    git(runner, "add", "-A")
    assert [(f["kind"], f["path"], f["hidden"]) for f in check(runner, 1)["findings"]] == [("tracked", "certs/ca.pem", True)]
    runner.write(FILE, path.read_text() + "!/certs/ca.pem\n")
    assert check(runner, 0) == {"file": FILE, "git": True, "findings": []}
    runner.write(FILE, path.read_text() + "!*.pem\n")  # that is no decision about this file
    assert kinds(check(runner, 1)) == ["reincluded", "tracked"]


@pytest.mark.parametrize("version", ["2", "4"])
def test_tracked_secrets(runner, version):
    init(runner)
    secrets = ["prod.pem", "a/b/.env", "a/.aws/credentials", "id_rsa", "terraform.tfstate.backup"]
    for name in secrets + ["a/main.c", ".env.example", "a/b/c/d/e.txt"]:
        runner.write(name, "x")
    git(runner, "init", "-q")
    git(runner, "-c", f"index.version={version}", "add", "-f", "-A")
    runner.write("untracked.pem", "x")
    report = check(runner, 1)
    assert report["git"] is True
    assert sorted(f["path"] for f in report["findings"]) == sorted(secrets)
    assert {f["kind"] for f in report["findings"]} == {"tracked"}


def test_tracked_secrets_of_a_worktree(runner):
    main = runner.mkdir(runner.top / "main")
    git(runner, "init", "-q", cwd=main)
    (main / "x.key").write_text("x")
    runner.own(main / "x.key")
    git(runner, "add", "x.key", cwd=main)
    git(runner, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "x", cwd=main)
    git(runner, "worktree", "add", "-q", runner.workspace / "tree", cwd=main)
    r = runner.bawn("init", "--check", "--json", "-C", "tree")
    assert r.rc == 1 and "x.key" in [f.get("path") for f in r.json()["findings"]], r


def test_the_repository_cannot_make_it_run_anything(runner):
    """core.fsmonitor is run by every git command that refreshes the index; git itself is never called."""
    init(runner)
    runner.write("a.pem", "x")
    git(runner, "init", "-q")
    git(runner, "add", "-A")
    runner.write("evil", "#!/bin/sh\ntouch %s/ran\n" % runner.workspace, 0o755)
    git(runner, "config", "core.fsmonitor", "./evil")
    runner.run("git", "status")
    assert (runner.workspace / "ran").exists()  # it does work
    (runner.workspace / "ran").unlink()
    assert kinds(check(runner, 1)) == ["tracked"]
    assert not (runner.workspace / "ran").exists()


def test_damaged_index_is_an_error(runner):
    init(runner)
    runner.write(".git/index", b"DIRC\0\0\0\2\0\0\0\xff" + b"x" * 200)
    r = runner.bawn("init", "--check")
    assert r.rc == 125 and b"index is damaged" in r.err, r


def test_fifo_instead_of_rules_or_index(runner):
    init(runner)
    runner.mkdir(runner.workspace / "sub")
    os.mkfifo(runner.own(runner.workspace / "sub") / FILE)
    r = runner.bawn("init", "--check")
    assert r.rc == 125 and b"not a regular file" in r.err, r
    (runner.workspace / "sub" / FILE).unlink()
    runner.mkdir(runner.workspace / ".git")
    os.mkfifo(runner.workspace / ".git" / "index")
    os.chmod(runner.workspace / ".git" / "index", 0o666)
    r = runner.bawn("init", "--check")
    assert r.rc == 125 and b"not a regular file" in r.err, r


def test_names_are_safe_on_a_terminal(runner):
    init(runner)
    name = b"\x1b]0;pwned\x07\xff.pem"
    with open(os.fsencode(runner.workspace) + b"/" + name, "wb"):
        pass
    runner.own(os.fsencode(runner.workspace) + b"/" + name)
    git(runner, "init", "-q")
    git(runner, "add", "-A")
    r = runner.bawn("init", "--check")
    assert r.rc == 1 and b"\x1b" not in r.out and b"\\x1b]0;pwned\\x07\\xff.pem" in r.out, r
    json.loads(runner.bawn("init", "--check", "--json").out.decode())
