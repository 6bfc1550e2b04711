# SPDX-License-Identifier: Apache-2.0
"""The trees that are measured: what is in them, and how they are made."""
import json
import os
import random
import subprocess

GIT = ["git", "-c", "safe.directory=*"]

# The large tree: folders of twenty files, three or five deep, one file in a hundred under a name that only .sandboxignore hides.
LARGE_FILES = 50000
PER_FOLDER = 20
HIDE_EVERY = 100
HIDE_AT = 7
HIDDEN_NAME = "notes.private"
HIDING_RULE = "*.private"
NAMES = ("main.c", "index.js", "README.md", "package.json", "util_test.go", "a.rs", "style.css", "lib.h", "Makefile", "x.py")
RULES = 200
RULE_KINDS = ("name{}", "*.ext{}", "out{}/", "/top{}/gen", "pre{}*", "gen-*-{}.c", "**/cache{}", "!keep{}.env", "*.tmp{}", "docs{}/**/*.html")

# Every so many files one is changed, at a place of the hundred that goes through all the names.
CHANGE_EVERY = 100
CHANGE_AT = 20


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def make_small(root, count, seed):
    """count files of 0.5 to 4 KiB, a hundred per directory, three levels deep."""
    rng = random.Random(seed)
    for i in range(count):
        path = os.path.join(root, f"d{i // 2000}", f"e{i // 100}", f"file{i}.txt")
        write(path, rng.randbytes(rng.randrange(256, 2048)).hex().encode())


def make_big(root, megabytes):
    block = random.Random(1).randbytes(1 << 20)
    os.makedirs(root)
    with open(os.path.join(root, "big"), "wb") as f:
        for _ in range(megabytes):
            f.write(block)


def make_project(root, count):
    """A C program of `count` files that includes real headers, so that the compiler opens and reads as it usually does."""
    body = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/stat.h>\n#include \"all.h\"\n"
    for i in range(count):
        functions = "".join(f"int f{i}_{j}(int x) {{ char b[64]; snprintf(b, sizeof b, \"%d\", x * {j}); return (int) strlen(b) + x % {j + 2}; }}\n"
                            for j in range(20))
        write(os.path.join(root, f"part{i}.c"), (body + functions).encode())
    header = "".join(f"int f{i}_{j}(int x);\n" for i in range(count) for j in range(20))
    write(os.path.join(root, "all.h"), header.encode())
    calls = " + ".join(f"f{i}_0(c)" for i in range(count))
    write(os.path.join(root, "main.c"), f"#include \"all.h\"\nint main(int c, char **v) {{ (void) v; return ({calls}) == 1; }}\n".encode())
    write(os.path.join(root, "Makefile"), b"OBJS = $(patsubst %.c,%.o,$(wildcard *.c))\nprog: $(OBJS)\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n")


def make_repository(place, root, count):
    make_small(root, count, 2)
    give(place, root)
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "all", "--no-gpg-sign"]):
        subprocess.run([*GIT, "-C", root, *arguments], check=True, stdout=subprocess.DEVNULL, **place.popen_as())


def give(place, root):
    for directory, _, names in os.walk(root):
        place.own(directory, *(os.path.join(directory, n) for n in names))


def large_path(i):
    folder, nth = divmod(i, PER_FOLDER)
    deep = "" if folder % 3 else "lib/internal/"
    name = NAMES[nth % len(NAMES)]
    if i % HIDE_EVERY == HIDE_AT:
        name = HIDDEN_NAME
    elif nth >= len(NAMES):
        name = f"{nth}{name}"
    return f"src{folder % 20}/mod{folder // 20 % 20}/{deep}pkg{folder}/{name}"


def large_content(path):
    """About a kilobyte; a change replaces "one" by "two"."""
    if path.endswith("package.json"):
        return json.dumps({"name": "part", "version": "1.0.0", "scripts": {"test": "node one.js"}, "dependencies": {"left": "1.0.0"}}, indent=2).encode()
    return "".join(f"{k}: {path}{' one' if k % 8 == 0 else ''}\n" for k in range(24)).encode()


def make_large(root):
    """Files that are neither changed nor hidden are empty: nobody has to read them, and the disk is not busy with them afterwards."""
    wanted = changes()
    filled = {*wanted["modified"], *wanted["deleted"]}
    for i in range(LARGE_FILES):
        path = large_path(i)
        target = os.path.join(root, path)
        if i % PER_FOLDER == 0:
            os.makedirs(os.path.dirname(target))
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        if path in filled or path.endswith(HIDDEN_NAME):
            os.write(fd, large_content(path))
        os.close(fd)
    write(os.path.join(root, ".gitignore"), b"build/\n*.o\n*.log\n/dist/\n")


def make_rules(bawn, place, root):
    """What `bawn init` writes, a rule that hides something, and the mixture of ignore.c up to the number."""
    path = os.path.join(root, ".sandboxignore")
    subprocess.run([bawn, "init", "-C", root], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **place.popen_as())
    with open(path, "a") as f:
        f.write(HIDING_RULE + "\n")
    with open(path) as f:
        count = sum(1 for line in f if line.strip() and not line.startswith("#"))
    with open(path, "a") as f:
        f.writelines(RULE_KINDS[i % len(RULE_KINDS)].format(i) + "\n" for i in range(count, RULES))


def changes():
    """Which files of the large tree a run changes: three of five are modified, one is deleted, one is added."""
    found = {"modified": [], "deleted": [], "added": []}
    kinds = ("modified", "modified", "modified", "deleted", "added")
    for j in range(LARGE_FILES // CHANGE_EVERY):
        path = large_path(j * CHANGE_EVERY + CHANGE_AT + j % len(NAMES))
        kind = kinds[j // len(NAMES) % len(kinds)]
        found[kind].append(os.path.join(os.path.dirname(path), "new.c") if kind == "added" else path)
    return found


def restore(place, root):
    """The large tree as it was before the changes."""
    wanted = changes()
    for path in wanted["added"]:
        if os.path.exists(os.path.join(root, path)):
            os.unlink(os.path.join(root, path))
    for path in [*wanted["modified"], *wanted["deleted"]]:
        write(os.path.join(root, path), large_content(path))
        place.own(os.path.join(root, path))


class Large:
    """The large tree twice, without and with a .sandboxignore, and an empty folder; made once, handed from user to user."""

    def __init__(self, stage):
        self.root = os.path.join(stage.directory, "trees")
        self.plain, self.ignoring, self.empty = (os.path.join(self.root, n) for n in ("plain", "ignoring", "empty"))
        self.bawn = stage.bawn

    def prepare(self, place):
        made = os.path.isdir(self.root)
        if not made:
            os.makedirs(self.empty)
            make_large(self.plain)
            make_large(self.ignoring)
        give(place, self.root)
        if not made:
            for root in (self.plain, self.ignoring):
                subprocess.run([*GIT, "init", "-q", root], check=True, **place.popen_as())
            make_rules(self.bawn, place, self.ignoring)
        # `bawn init` has remembered the rules that it wrote; while they differ from the file every start searches by both
        subprocess.run([self.bawn, "init", "--accept", "-C", self.ignoring], check=True, stdout=subprocess.DEVNULL, **place.popen_as())
