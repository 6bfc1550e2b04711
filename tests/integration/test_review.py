# SPDX-License-Identifier: Apache-2.0
"""bawn review and bawn diff on what real runs left behind, and the jail of bawn-review."""

import base64
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from person import read_all  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAP_DAC_READ_SEARCH = 1 << 2


def run(runner, script, *options, mode="overlay", name="r"):
    named = [] if mode == "direct" else ["--name", name]
    r = runner.bawn("run", "--workspace", mode, *named, *options, "--", "sh", "-c", script)
    assert r.rc == 0, r


@pytest.fixture
def changed(runner):
    """A run with one change of nearly every kind."""
    runner.write("src/a.c", "int main(void) {\n    return 0;\n}\n")
    runner.write("gone.txt", "gone\n")
    runner.write("old name.txt", "a file that gets another name\n" * 20)
    runner.write("tool.sh", "#!/bin/sh\n")
    runner.write("crlf.txt", "one\r\ntwo\r\n")
    runner.write("open", "no newline")
    run(
        runner,
        r"""
        sed -i 's/return 0/return 1/' src/a.c
        rm gone.txt
        mv 'old name.txt' 'new name.txt'
        chmod +x tool.sh
        printf 'one\r\nTWO\r\n' > crlf.txt
        printf 'still none' > open
        : > empty
        mkdir -p deep/er && echo 'in a folder' > 'deep/er/a b"c'
        ln -s src/a.c link
        """,
    )
    return runner


def tree(top):
    """{path: (mode bits that git keeps, content)} of every file and link."""
    found = {}
    for path in sorted(pathlib.Path(top).rglob("*")):
        name = path.relative_to(top).as_posix()
        if ".git" in name.split("/") or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = ("link", os.readlink(path)) if path.is_symlink() else (path.stat().st_mode & 0o100, path.read_bytes())
    return found


def copy_of(runner, name):
    copy = runner.top / name
    shutil.copytree(runner.workspace, copy, symlinks=True)
    for path in [copy, *copy.rglob("*")]:
        runner.own(path)
    return copy


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_a_diff_can_be_applied(changed, tool):
    patch = changed.bawn("diff")
    assert patch.rc == 0 and patch.err == b"", patch
    copy = copy_of(changed, "copy")
    command = {"git": ["git", "-C", copy, "apply", "--whitespace=nowarn", "-"], "patch": ["patch", "-d", copy, "-p1", "--binary"]}[tool]
    applied = changed.run(*command, input=patch.out)
    assert applied.rc == 0, (applied, patch)
    got = tree(copy)
    assert got["src/a.c"][1] == b"int main(void) {\n    return 1;\n}\n"
    assert "gone.txt" not in got and "old name.txt" not in got
    assert got["new name.txt"][1] == b"a file that gets another name\n" * 20
    assert got["tool.sh"][0] and got["crlf.txt"][1] == b"one\r\nTWO\r\n" and got["open"][1] == b"still none"
    assert got['deep/er/a b"c'][1] == b"in a folder\n" and got["link"] == ("link", "src/a.c")
    assert got["empty"][1] == b""


def test_nothing_is_changed_by_looking(changed):
    before = tree(changed.workspace)
    for words in (["review"], ["review", "--diff"], ["review", "--json"], ["diff"], ["diff", "--stat"]):
        assert changed.bawn(*words).rc in (0, 1)
    assert tree(changed.workspace) == before and "gone.txt" in before


def test_status_says_whether_anything_is_risky(runner):
    runner.write("a.txt", "a\n")
    run(runner, "echo b > a.txt", name="tame")
    r = runner.bawn("review", "tame")
    assert r.rc == 0 and b"M  a.txt" in r.out and b"1 change: 0 high, 0 medium" in r.out, r
    run(runner, "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml; echo c > a.txt", name="wild")
    r = runner.bawn("review", "wild")
    assert r.rc == 1 and b".github/workflows/x.yml" in r.out and b"ci: " in r.out, r
    assert r.out.index(b"x.yml") < r.out.index(b"a.txt"), "the riskiest comes first"
    assert runner.bawn("review", "wild", "--fail-on", "none").rc == 0
    assert runner.bawn("review", "wild", "--only", "a.txt").rc == 0
    r = runner.bawn("review", "--fail-on", "huge")
    assert r.rc == 64 and b"none, low, medium or high" in r.err, r
    r = runner.bawn("review", "no-such-run")
    assert r.rc == 125 and r.out == b"", r


def test_the_latest_run_is_the_default_and_all_are_listed(runner):
    runner.write("a.txt", "a\n")
    run(runner, "echo first > a.txt", name="first")
    run(runner, "echo second > b.txt", name="second")
    assert b"b.txt" in runner.bawn("review").out
    listed = runner.bawn("review", "--list")
    lines = listed.out.decode().splitlines()
    assert listed.rc == 0 and [line.split()[:2] for line in lines] == [["second", "overlay"], ["first", "overlay"]], listed
    assert "exit 0" in lines[0]
    assert [r["name"] for r in runner.bawn("review", "--list", "--json").json()] == ["second", "first"]
    elsewhere = runner.mkdir(runner.top / "elsewhere")
    assert runner.bawn("review", "--list", cwd=elsewhere).out == b"no runs of this workspace\n"


HOSTILE = r"""
esc=$(printf '\033') rlo=$(printf '\342\200\256') zero=$(printf '\342\200\213') byte=$(printf '\377')
printf 'x%s]0;owned\007%s%s\n' "$esc" "$rlo" "$zero" > "e${esc}[31m"
echo x > "a${rlo}gpj.sh"
echo x > "b${byte}c"
printf 'x\n' > "$(printf 'new\nline')"
ln -s "/${esc}[2J" "l${zero}"
"""


@pytest.mark.parametrize(
    "words",
    [["review"], ["review", "--diff"], ["review", "--json", "--diff"], ["review", "--sarif"], ["diff"], ["diff", "--stat"], ["diff", "--name-only"]],
)
def test_nothing_of_the_agents_reaches_the_terminal(runner, words):
    run(runner, HOSTILE)
    r = runner.bawn(*words)
    assert r.rc in (0, 1) and len(r.out) > 50, r
    text = r.out.decode()  # valid UTF-8
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202e]", text), r


def check(schema, value, whole, where="$"):
    """The part of JSON Schema that spec/review.schema.json uses."""
    if "$ref" in schema:
        check(whole["$defs"][schema["$ref"].split("/")[-1]], value, whole, where)
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
    if "type" in schema:
        names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        assert any(type(value) is kinds[n] for n in names), f"{where}: {value!r} is not {names}"
    assert "const" not in schema or value == schema["const"], where
    assert "enum" not in schema or value in schema["enum"], f"{where}: {value!r}"
    assert "minimum" not in schema or value >= schema["minimum"], where
    assert "pattern" not in schema or re.search(schema["pattern"], value), f"{where}: {value!r}"
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value), f"{where}: {set(value)}"
        known = schema.get("properties", {})
        assert schema.get("additionalProperties", True) or set(value) <= set(known), f"{where}: {set(value) - set(known)}"
        for key in value:
            check(known.get(key, {}), value[key], whole, f"{where}.{key}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(schema.get("items", {}), item, whole, f"{where}[{i}]")


def test_json_follows_its_schema_and_keeps_every_byte(changed):
    schema = json.loads((ROOT / "spec" / "review.schema.json").read_text())
    run(changed, HOSTILE, name="hostile")
    for words in (["review", "r"], ["review", "r", "--diff"], ["diff", "r"], ["review", "hostile", "--diff"]):
        value = changed.bawn(*words, "--json").json()
        check(schema, value, schema)
        assert len(value["changes"]) == value["summary"]["changes"] > 3
    by_path = {c["path"]: c for c in value["changes"]}
    assert base64.b64decode(by_path["b\ufffdc"]["path_bytes"]) == b"b\xffc"
    assert by_path["l\u200b"]["new"]["link"] == "/\x1b[2J"
    assert "path_bytes" not in by_path["e\x1b[31m"]
    kinds = {c["path"]: c for c in changed.bawn("review", "r", "--json").json()["changes"]}
    assert kinds["new name.txt"]["kind"] == "renamed" and kinds["new name.txt"]["from"] == "old name.txt"
    assert kinds["tool.sh"]["what"] == ["mode"] and kinds["gone.txt"]["new"] is None


def test_sarif_has_what_scanners_read(runner):
    run(runner, "mkdir -p .github/workflows; echo 'on: push' > '.github/workflows/a b.yml'")
    r = runner.bawn("review", "--sarif")
    assert r.rc == 1, r
    log = r.json()
    assert log["version"] == "2.1.0" and "sarif" in log["$schema"]
    (found,) = log["runs"]
    rules = found["tool"]["driver"]["rules"]
    assert found["tool"]["driver"]["name"] == "bawn" and all(rule["id"] and rule["shortDescription"]["text"] for rule in rules)
    assert found["results"]
    for result in found["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("note", "warning", "error") and result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place["uriBaseId"] in found["originalUriBaseIds"]
    assert ".github/workflows/a%20b.yml" in {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in found["results"]}
    assert found["originalUriBaseIds"][place["uriBaseId"]]["uri"] == f"file://{runner.workspace}/"


def test_paths_choose(changed):
    r = changed.bawn("diff", "r", "src/a.c", "gone.txt")
    assert r.rc == 0 and re.findall(rb"^diff --git a/(\S+)", r.out, re.M) == [b"gone.txt", b"src/a.c"], r
    assert changed.bawn("diff", "gone.txt").out.count(b"diff --git") == 1, "without a run, the first operand is a path"
    names = changed.bawn("diff", "--name-only").out.decode().splitlines()
    assert "src/a.c" in names and '"deep/er/a b\\042c"' in names
    stat = changed.bawn("diff", "--stat", "src").out.decode()
    assert " src/a.c | 2 +-\n" in stat and "1 line added, 1 removed" in stat, stat
    r = changed.bawn("diff", "nothing-like-it")
    assert r.rc == 125 and b"no change of run 'r'" in r.err, r


def test_what_is_too_large_or_no_file_is_named(runner):
    run(
        runner,
        """
        yes 'a line' | head -c 5000000 > large.txt
        head -c 1000 /dev/zero > zeros
        yes '' | head -n 200000 > lines
        mkfifo pipe
        """,
    )
    r = runner.bawn("diff")
    assert r.rc == 0 and len(r.out) < 5000, r
    sections = {re.search(rb"a/(\S+)", s)[1]: s for s in r.out.split(b"diff --git ")[1:]}
    assert b"content not shown: larger than 4 MiB" in sections[b"large.txt"]
    assert b"content not shown: more than" in sections[b"lines"]
    assert b"Binary files /dev/null and b/zeros differ" in sections[b"zeros"]
    assert runner.bawn("review").rc in (0, 1), "a FIFO is not waited for"


def on_terminal(runner, *args, keys=b"", **env):
    master, slave = pty.openpty()
    proc = runner.popen(runner.path, *args, stdin=slave, stdout=slave, stderr=slave, env={"TERM": "xterm", **env})
    os.close(slave)
    os.write(master, keys)
    text = read_all(master)
    return proc.wait(), text


def test_a_pager_on_a_terminal_only(changed):
    pager = {"PAGER": "sed 's/^/seen by the pager: /'"}
    rc, text = on_terminal(changed, "diff", **pager)
    assert rc == 0 and b"seen by the pager: " in text and b"\x1b[32m" in text, text
    assert b"seen by the pager" not in on_terminal(changed, "diff", "--no-pager", **pager)[1]
    assert b"seen by" not in changed.bawn("diff", env=pager).out and b"\x1b" not in changed.bawn("diff").out
    assert b"\x1b[32m" in changed.bawn("diff", "--color=always").out
    assert b"\x1b[3" not in on_terminal(changed, "diff", "--color=never", PAGER="cat")[1]
    rc, text = on_terminal(changed, "diff", PAGER="true")
    assert rc == 0, "a pager that is left early is no failure"


def test_without_less_there_is_no_pager(changed):
    rc, text = on_terminal(changed, "diff", PATH="/nonexistent")
    assert rc == 0 and b"diff --git" in text and b"not found" not in text, text


@pytest.mark.parametrize("env", [{}, {"PAGER": "less -R"}], ids=["less", "PAGER"])
def test_a_pager_of_the_folder_that_we_are_in_is_not_run(changed, env):
    """Claim: a program of the workspace is never taken for the pager, whatever PATH says."""
    changed.write(changed.home / "tools/less", "#!/bin/sh\nsed 's/^/the right pager: /'\n", 0o755)
    for folder in ("", "bin/"):
        changed.write(f"{folder}less", f"#!/bin/sh\ntouch {changed.home}/ran\ncat\n", 0o755)
    for first in ("", ".", "bin", f"{changed.workspace}/bin", f"{changed.workspace}/../{changed.workspace.name}/bin"):
        rc, text = on_terminal(changed, "diff", PATH=f"{first}:{changed.home}/tools:/usr/bin:/bin", **env)
        assert rc == 0 and b"the right pager: " in text and not (changed.home / "ran").exists(), (first, text)


def test_step_by_step(changed):
    r = changed.bawn("review", "r", "-i", "--only", "src/a.c", "--only", "gone.txt", "--only", "tool.sh", "--only", "open", input=b"?\na\nd\ns\na\n")
    assert r.rc == 0, r
    asked = re.findall(rb"^  [AMDR]  (\S+)", r.out, re.M)
    assert len(asked) == 4 and b"apply: bring this change" in r.out, r
    left = {c["path"] for c in changed.bawn("review", "r", "--json").json()["changes"]}
    after = tree(changed.workspace)
    wanted = {"src/a.c": after["src/a.c"][1].count(b"return 1"), "gone.txt": "gone.txt" not in after,
              "tool.sh": bool(after["tool.sh"][0]), "open": after["open"][1] == b"still none"}
    applied, discarded, skipped, last = (a.decode() for a in asked)
    assert wanted[applied] and wanted[last] and not wanted[discarded] and not wanted[skipped], (asked, wanted)
    assert skipped in left and not {applied, discarded, last} & left, (asked, left)


def test_quitting_does_what_was_decided(changed):
    r = changed.bawn("review", "r", "-i", "--only", "gone.txt", "--only", "open", input=b"a\nq\n")
    assert r.rc == 0, r
    first = re.search(rb"^  [AMDR]  (\S+)", r.out, re.M)[1].decode()
    assert {"gone.txt": not (changed.workspace / "gone.txt").exists(), "open": (changed.workspace / "open").read_bytes() == b"still none"}[first], r
    assert changed.bawn("review", "r", "-i", input=b"").rc == 0, "the end of the input is the end of the questions"


def test_direct_mode_keeps_and_rolls_back(runner):
    runner.write("a.txt", "before\n")
    runner.write("b.txt", "before\n")
    run(runner, "echo after > a.txt; echo after > b.txt", mode="direct")
    r = runner.bawn("review")
    assert r.rc == 0 and b"M  a.txt" in r.out and b"bawn rollback " in r.out and b"bawn apply" not in r.out, r
    r = runner.bawn("review", "-i", input=b"a\nk\nr\n")
    assert r.rc == 0 and b"roll back: restore" in r.out, "in direct mode there is nothing to apply"
    assert (runner.workspace / "a.txt").read_text() == "after\n" and (runner.workspace / "b.txt").read_text() == "before\n"


@pytest.mark.parametrize(
    "base, ours, theirs, rc, merged",
    [
        ("1\n2\n3\n4\n5\n", "one\n2\n3\n4\n5\n", "1\n2\n3\n4\nfive\n", 0, b"one\n2\n3\n4\nfive\n"),
        ("1\n", "one\n", "uno\n", 1, b""),
        ("1\n", "1\n", "1\n\0", 1, b""),
    ],
)
def test_merging(runner, base, ours, theirs, rc, merged):
    for name, content in (("base", base), ("ours", ours), ("theirs", theirs)):
        runner.write(name, content)
    r = runner.run("sh", "-c", 'exec "$0" merge 3<base 4<ours 5<theirs', runner.helper("bawn-review"))
    assert (r.rc, r.out, r.err) == (rc, merged, b""), r


def test_it_is_no_program_for_people(runner):
    r = runner.run(runner.helper("bawn-review"))
    assert r.rc == 64 and b"bawn review" in r.err, r


def test_the_jail(runner):
    """bawn-review, held in the middle of its work by a pipe that nobody reads."""
    run(runner, "for i in $(seq 4000); do seq 30 > file$i; done")
    folder = runner.home / ".local/state/bawn/runs/r"
    secret = os.open("/etc/hostname", os.O_RDONLY)
    words = f"exec {runner.helper('bawn-review')} diff --format=patch --diff --run=r --workspace={runner.workspace} --mode=overlay --begun=1 --ended=2"
    proc = runner.popen("sh", "-c", f"{words} 3<{folder} 4<. 5</dev/null", stdout=subprocess.PIPE, pass_fds=[secret])
    try:
        wait_until_blocked(proc)
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{proc.pid}/status").read_text().splitlines())
        limits = pathlib.Path(f"/proc/{proc.pid}/limits").read_text()
        open_files = {os.readlink(f"/proc/{proc.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{proc.pid}/fd")}
    finally:
        os.close(secret)
        proc.kill()
        proc.communicate()
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and int(status["Seccomp_filters"]) >= 2
    assert int(status["CapEff"], 16) in (0, CAP_DAC_READ_SEARCH) and int(status["CapPrm"], 16) in (0, CAP_DAC_READ_SEARCH)
    assert re.search(r"Max file size +65536 +65536 ", limits) and re.search(r"Max processes +0 +0 ", limits)
    assert "/etc/hostname" not in open_files, "a descriptor that it was not meant to have"


def wait_until_blocked(proc):
    """It sleeps in write(2) once the pipe is full."""
    while proc.poll() is None:
        try:
            if pathlib.Path(f"/proc/{proc.pid}/wchan").read_text() in ("pipe_write", "anon_pipe_write"):
                return
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    pytest.fail(f"bawn-review ended: {proc.communicate()}")
