# SPDX-License-Identifier: Apache-2.0
"""`.sandboxignore` means what `.gitignore` means: git itself is asked, about very many generated (patterns, path) pairs.

A round writes random .gitignore files into a fixed tree that holds every kind of name, asks `git check-ignore` about every
path of the tree, and gives the same bytes and paths to the matcher. Verdict, deciding file and line must agree. Each round is
made from its number alone; a failure prints the round, the files and the path, to become a row in test_ignore.c.
"""

import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ["base/buf.c", "base/err.c", "base/str.c", "base/vec.c", "workspace/hide/ignore.c", "workspace/hide/ignore_glob.c", "workspace/hide/ignore_list.c"]
ROUNDS = int(os.environ.get("BAWN_IGNORE_ROUNDS", "600"))

NAMES = [b"a", b"b", b"ab", b"aab", b"abc", b"foo", b"foo.c", b"foo.o", b"bar", b".env", b".env.x", b"A", b"Foo", b"a b", b"a ", b" a",
         b"#x", b"!x", b"[a]", b"a]", b"a*b", b"a?", b"\\", b"a\\b", b"-", b"a-b", b"^", b"1", b"a1", b"\xff", b"\xc3\xa9", b"a\xffb", b"x\r",
         b"a\tb", b"**", b"build", b"id_rsa.pub", b"{a,b}", b"~", b":x", b"aaaaaaaaab"]
FOLDERS = [b"a", b"b", b"foo", b"bar", b"ab", b"a/b", b"a/a", b"a/b/c", b"foo/bar", b"foo/bar/foo", b"b/a", b"b/a/b", b"ab/ab", b"sub", b"sub/foo",
           b"sub/a", b"sub/a/b", b"x.d", b"a/x.d", b"[a]", b"d ", b"\xff", b"build", b"foo/build", b"a\\b", b"#d", b"!d"]
ATOMS = [b"a", b"b", b"c", b"foo", b"bar", b"ab", b".env", b".c", b".o", b"*", b"*", b"*", b"**", b"**", b"?", b"/", b"/", b"/", b"**/", b"/**", b"/**/",
         b"\\", b"\\*", b"\\a", b"\\ ", b"\\/", b" ", b"!", b"#", b"\\#", b"\\!", b"-", b"[a-c]", b"[!a]", b"[^a]", b"[]", b"[]a]", b"[a", b"[",
         b"]", b"[[:alpha:]]", b"[[:digit:]a]", b"[[:nope:]]", b"[[:alpha:", b"[[:a]", b"[a-]", b"[-a]", b"[\\]a]", b"[a\\-c]", b"[c-a]", b"[/]", b"[!/]",
         b"[a/]", b"[+--]", b"[\\", b"[!]a]", b"[*]", b"[?]", b"[[]", b"\xff", b"[\x80-\xff]", b"\xc3\xa9", b"\t", b"x.d", b"sub", b"build", b"1", b"***",
         b"[a-c-e]", b"[[:space:][:upper:]]", b"[[::]]", b"[:alpha:]", b"\r", b"\x0b"]
CLASSES = ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"]


@pytest.fixture(scope="module")
def top():
    path = pathlib.Path(tempfile.mkdtemp(prefix="bawn-ignore.", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def cli(top):
    out = top / "ignore-cli"
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover"] if os.environ.get("BAWN_SANITIZED") else []
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", *flags, "-I", ROOT / "src", "-include", ROOT / "src/base/banned.h", "-o", out,
                    ROOT / "tests/integration/ignore_cli.c", *(ROOT / "src" / s for s in SOURCES)], check=True)
    return out


@pytest.fixture(scope="module")
def tree(top):
    """The folder of a git repository with every name in several folders; paths() lists it."""
    repo = top / "repo"
    repo.mkdir()
    git(repo, "init", "-q")
    pick = random.Random(1)
    for folder in FOLDERS:
        (repo / os.fsdecode(folder)).mkdir(parents=True, exist_ok=True)
    for folder in [b""] + FOLDERS:
        for name in NAMES if folder in (b"", b"a/b", b"sub") else pick.sample(NAMES, 10):
            path = repo / os.fsdecode(os.path.join(folder, name))
            if not path.exists():
                path.write_bytes(b"")
    (repo / "link").symlink_to("a")  # a link to a folder is no folder
    return repo


def git(repo, *args, **kw):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "XDG_CONFIG_HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_CONFIG_GLOBAL": "/dev/null", "LC_ALL": "C"}
    return subprocess.run(["git", "-c", "core.excludesFile=/dev/null", "-C", repo, *args], env=env, stdout=subprocess.PIPE, **kw)


def paths_of(repo):
    """(path, is folder) of everything in the tree but git's own folder and the ignore files."""
    found, start = [], os.fsencode(repo)
    for folder, subfolders, files in os.walk(start):
        if folder == start:
            subfolders.remove(b".git")
        for name in subfolders + files:
            path = os.path.join(folder, name)
            if name != b".gitignore":
                found.append((os.path.relpath(path, start), name in subfolders and not os.path.islink(path)))
    return sorted(found)


def ask_git(repo, files, paths):
    """[(source, line, pattern)] with empty strings where no rule decided."""
    written = []
    for folder, data in files.items():
        path = os.path.join(os.fsencode(repo), folder, b".gitignore")
        with open(path, "wb") as f:
            f.write(data)
        written.append(path)
    asked = [b"./" + p for p, _ in paths]  # a ':' in front would be pathspec magic
    done = git(repo, "check-ignore", "--no-index", "-v", "-n", "-z", "--stdin", input=b"".join(p + b"\0" for p in asked))
    for path in written:
        os.unlink(path)
    assert done.returncode in (0, 1), done
    fields = done.stdout.split(b"\0")[:-1]
    assert fields[3::4] == asked
    return list(zip(fields[0::4], fields[1::4], fields[2::4]))


def questions(files, paths):
    out = [b"R"]
    for folder, data in files.items():
        out.append(b"F%b\0%b\0%d\0%b" % (folder, os.path.join(folder, b".gitignore"), len(data), data))
    out += [(b"d" if is_dir else b"f") + path + b"\0" for path, is_dir in paths]
    return b"".join(out)


def ask_bawn(cli, rounds, paths):
    done = subprocess.run([cli], input=b"".join(questions(files, paths) for files in rounds), stdout=subprocess.PIPE, check=True)
    fields = done.stdout.split(b"\0")[:-1]
    answers = list(zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4]))
    assert len(answers) == len(rounds) * len(paths)
    return [answers[i * len(paths):(i + 1) * len(paths)] for i in range(len(rounds))]


def differences(number, files, paths, theirs, ours):
    for (path, is_dir), (source, line, pattern), (verdict, origin, our_line, _) in zip(paths, theirs, ours):
        expected = b"0" if not source else b"2" if pattern.startswith(b"!") else b"1"
        if (verdict, origin, our_line) != (expected, source, line or b"0"):
            yield (f"round {number}: {files!r}: {'folder' if is_dir else 'file'} {path!r}: git says {expected!r} ({source!r}:{line!r} {pattern!r}), "
                   f"the matcher {verdict!r} ({origin!r}:{our_line!r})")


def compare(cli, tree, rounds, paths=None):
    paths = paths or paths_of(tree)
    ours = ask_bawn(cli, rounds, paths)
    wrong, decided = [], 0
    for number, files in enumerate(rounds):
        theirs = ask_git(tree, files, paths)
        decided += sum(1 for source, _, _ in theirs if source)
        wrong += differences(number, files, paths, theirs, ours[number])
    assert not wrong, "\n".join(wrong[:20]) + f"\n{len(wrong)} differences"
    return len(rounds) * len(paths), decided


def random_pattern(pick, paths):
    """Either atoms in a row, or a path of the tree with pieces replaced, so that many patterns match something."""
    if pick.random() < 0.4:
        return b"".join(pick.choices(ATOMS, k=pick.randint(1, 5)))
    out = bytearray(pick.choice(paths)[0])
    for _ in range(pick.randint(0, 3)):
        start = pick.randrange(len(out) + 1)
        out[start:start + pick.randint(0, 3)] = pick.choice(ATOMS)
    return bytes(out)


def random_line(pick, paths):
    line = random_pattern(pick, paths).replace(b"\n", b"").replace(b"\0", b"")
    if pick.random() < 0.15:
        line = b"/" + line
    if pick.random() < 0.15:
        line = b"**/" + line
    if pick.random() < 0.2:
        line += pick.choice([b"/", b"/**", b"/*", b" ", b"  ", b"\\ ", b"*", b"\\", b"\t"])
    if pick.random() < 0.25:
        line = b"!" + line
    return line


def random_file(pick, paths):
    lines = [random_line(pick, paths) for _ in range(pick.choice([1, 1, 2, 3, 5, 8, 40]))]
    end = pick.choice([b"\n", b"\n", b"\n", b"\r\n"])
    data = end.join(lines) + pick.choice([b"", end, end + end])
    return b"\xef\xbb\xbf" + data if pick.random() < 0.05 else data


def random_round(number, paths):
    pick = random.Random(f"round {number}")
    files = {b"": random_file(pick, paths)}
    for folder in pick.sample(FOLDERS, pick.choice([0, 0, 1, 3])):
        below = [(os.path.relpath(p, folder), d) for p, d in paths if p.startswith(folder + b"/")] or paths
        files[folder] = random_file(pick, below)
    return files


def test_generated_patterns(cli, tree):
    paths = paths_of(tree)
    pairs, decided = compare(cli, tree, [random_round(n, paths) for n in range(ROUNDS)], paths)
    print(f"{pairs} pairs, {decided} of them decided by a rule")
    assert decided > pairs // 20  # else the generator makes patterns that match nothing, and agreement means nothing


def test_every_byte_and_class(cli, tree):
    """Files named by each byte, alone and behind 'x', against each named class, ranges, and an escaped byte."""
    here = tree / "bytes"
    here.mkdir()
    for byte in range(1, 256):
        if byte not in b"./":
            for name in (bytes([byte]), b"x" + bytes([byte])):
                pathlib.Path(os.fsdecode(os.path.join(os.fsencode(here), name))).write_bytes(b"")
    paths = [(p, d) for p, d in paths_of(tree) if p.startswith(b"bytes")]
    patterns = [f"{x}[[:{c}:]]".encode() for c in CLASSES for x in ("", "x", "*", "/bytes/")]
    patterns += [b"[!" + p[1:] for p in patterns if p.startswith(b"[")]
    patterns += [b"[%c-%c]" % (low, high) for low, high in ((1, 31), (33, 47), (127, 160), (160, 255), (255, 1))]
    patterns += [b"\\" + bytes([b]) for b in range(1, 256) if b not in b"\n"]
    compare(cli, tree, [{b"": p + b"\n"} for p in patterns], paths)
    shutil.rmtree(here)


# Written by people, for what the documentation of git promises and for what has bitten others.
@pytest.mark.parametrize("text", [
    b"a/**\n!a/b\n", b"a/*\n!a/b/\na/b/*\n!a/b/c\n", b"/*\n!/foo\n/foo/*\n!/foo/bar\n", b"a/\n!a/b\n", b"**/b\n", b"a/**/b\n", b"a**/b\n", b"foo**/foo\n",
    b"foo**\n!foo\n", b"*\n!*/\n!*.c\n", b"!a\n", b"a\n!a\na\n", b"\\#x\n", b"\\!x\n", b"#x\n", b"a\\ \n", b"a \n", b"a  \\ \n", b"foo\\\n", b"[a]\n", b"\\[a]\n",
    b"foo//\n", b"//foo\n", b"/\n", b"**\n", b"**/\n", b"/**\n", b"/**/\n", b"**/**\n", b"***/b\n", b"a/***\n", b"a\0b\n", b"a\r\nb\r\n", b"x\r\n", b"x\r\r\n", b"\r\n",
    b"\xef\xbb\xbfa\n", b"a\n\xef\xbb\xbfb\n", b"", b"\n\n", b"a", b"link/\n", b"link\n", b"**\\/b\n", b"a\\/b\n", b"foo/\\**\n", b"./a\n", b"a/./b\n", b"../a\n",
    b"x.d/\n!x.d/a\n", b"!/a/b\n/a/\n", b"*/b\n", b"*/*/c\n", b"?/b\n", b"[ab]/b\n", b"a[/]b\n", b"a?b\n", b"a/b**\n!a/b\n", b"**foo/bar\n", b"**foo\n"])
def test_by_hand(cli, tree, text):
    compare(cli, tree, [{b"": text}, {b"a": text}, {b"": b"*\n!*/\n", b"a": text}, {b"": text, b"a/b": b"!*\n"}])


def test_no_pattern_is_exponential(cli):
    """Each would take longer than the age of the universe if backtracking were not bounded (git hangs on the first)."""
    name = b"a" * 250
    path = b"/".join([name] * 16)[:4000]
    lines = [b"*a" * 120 + b"b", b"**/" + b"*a" * 120 + b"b", b"**/a*/" * 100 + b"b", b"a*" * 1000 + b"/b", b"[a]*" * 900 + b"/b", b"**/*a*/" * 100 + b"**/b"]
    ask_bawn(cli, [{b"": line} for line in lines], [(path, False)] * 100)
