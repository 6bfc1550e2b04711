# SPDX-License-Identifier: Apache-2.0
"""Real work of an agent's day, on the host and inside in direct and overlay mode: wall and CPU time of the whole tree of processes.

Each sample begins with the same files, which are made outside of its time, and includes the start of the sandbox, as a user has it."""
import json
import os
import random
import resource
import shutil
import subprocess
import time
import statistics

import trees
from stage import ROOT

HOST, MODES = "host", ("direct", "overlay")
SECONDS_MAX = 600
SOURCES = os.path.join(ROOT, "build", "bench-peers", "source")  # by bench/setup
NPM = ["npm", "ci", "--offline", "--no-audit", "--no-fund", "--ignore-scripts"]


def quietly(place, argv, directory):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS_MAX, **{**place.popen_as(), "cwd": directory})
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]}: exit status {done.returncode}: {' '.join((done.stderr or done.stdout).split())[-300:]}")


def git(place, root, *arguments):
    quietly(place, [*trees.GIT, "-c", "user.name=bench", "-c", "user.email=bench@localhost", *arguments], root)


class Checkout:
    """Two commits that have no file in common, so that every file is removed or made anew."""

    def __init__(self, place, root, count):
        self.place, self.root = place, root
        self.name = f"git checkout, {count} files"
        trees.make_repository(place, root, count)
        git(place, root, "branch", "-q", "first")
        for directory, _, names in os.walk(root):
            for name in names:
                if ".git" not in directory:
                    with open(os.path.join(directory, name), "ab") as f:
                        f.write(b"second\n")
        git(place, root, "commit", "-qam", "second")
        git(place, root, "branch", "-q", "second")
        self.command = [*trees.GIT, "-C", root, "checkout", "-q", "second"]

    def prepare(self):
        git(self.place, self.root, "checkout", "-q", "first")


class Remove:
    """A folder that git ignores, as npm leaves it."""

    def __init__(self, place, root, count, io):
        self.place, self.root, self.count, self.io = place, root, count, io
        self.name = f"rm -rf node_modules, {count} files"
        os.makedirs(root)
        trees.write(os.path.join(root, ".gitignore"), b"node_modules/\n")
        trees.give(place, root)
        for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            git(place, root, *arguments)
        self.command = ["rm", "-rf", os.path.join(root, "node_modules")]

    def prepare(self):
        folder = os.path.join(self.root, "node_modules")
        shutil.rmtree(folder, ignore_errors=True)
        quietly(self.place, [self.io, "--warm", "0", "create", folder, str(self.count)], self.root)


class Install:
    """npm ci of packages that lie beside it as archives: the cache and the network play no part."""

    def __init__(self, place, root, packages, files):
        self.place, self.root = place, root
        self.name = f"npm ci, {packages} packages"
        rng, depends = random.Random(5), {}
        for i in range(packages):
            source = os.path.join(root, "sources", f"p{i}")
            trees.write(os.path.join(source, "package.json"), json.dumps({"name": f"p{i}", "version": "1.0.0"}).encode())
            for k in range(files):
                trees.write(os.path.join(source, f"lib{k % 5}", f"m{k}.js"), rng.randbytes(rng.randrange(200, 1500)).hex().encode())
            depends[f"p{i}"] = f"file:sources/p{i}-1.0.0.tgz"
        trees.write(os.path.join(root, "package.json"), json.dumps({"name": "app", "version": "1.0.0", "dependencies": depends}).encode())
        trees.write(os.path.join(root, ".gitignore"), b"node_modules/\n")
        trees.give(place, root)
        for i in range(packages):
            quietly(place, ["npm", "pack", "--silent", f"./p{i}"], os.path.join(root, "sources"))
        quietly(place, ["npm", "install", *NPM[2:]], root)
        for arguments in (["init", "-q"], ["add", ".gitignore", "package.json", "package-lock.json"], ["commit", "-qm", "all"]):
            git(place, root, *arguments)
        self.command = NPM

    def prepare(self):
        if not os.path.isdir(os.path.join(self.root, "node_modules")):  # npm ci removes it first, which is part of its work
            quietly(self.place, NPM, self.root)


class Compile:
    def __init__(self, place, root, count):
        self.place, self.root = place, root
        self.name = f"make -j2, {count} C files"
        trees.make_project(root, count)
        trees.give(place, root)
        self.command = ["make", "-s", "-j2"]

    def prepare(self):
        for name in os.listdir(self.root):
            if name == "prog" or name.endswith(".o"):
                os.unlink(os.path.join(self.root, name))


class Package:
    """A source package of Debian that needs nothing but a compiler: bzip2."""

    def __init__(self, place, root):
        self.place, self.root = place, root
        self.name = "bzip2 of Debian, make -j2"
        archive = next((os.path.join(SOURCES, n) for n in sorted(os.listdir(SOURCES)) if n.startswith("bzip2_") and ".orig.tar" in n), None)
        if not archive:
            raise RuntimeError(f"its source is not in {SOURCES} (bench/setup)")
        os.makedirs(root)
        subprocess.run(["tar", "-xf", archive, "-C", root, "--strip-components=1", "--no-same-owner"], check=True)
        trees.give(place, root)
        self.command = ["make", "-s", "-j2", "libbz2.a", "bzip2", "bzip2recover"]

    def prepare(self):
        quietly(self.place, ["make", "-s", "clean"], self.root)


def jobs(stage, place, effort, say):
    """Those that can be done here."""
    top = os.path.join(place.directory, "work")
    os.makedirs(top)
    place.own(top)
    io = stage.io
    makers = [lambda: Checkout(place, os.path.join(top, "checkout"), effort.work_files), lambda: Remove(place, os.path.join(top, "remove"), effort.work_files, io),
              lambda: Compile(place, os.path.join(top, "compile"), effort.c_files), lambda: Package(place, os.path.join(top, "package"))]
    if shutil.which("npm"):
        makers.append(lambda: Install(place, os.path.join(top, "npm"), effort.work_packages, 60))
    for make in makers:
        try:
            yield make()
        except (RuntimeError, OSError, subprocess.SubprocessError) as e:
            say(f"as {place.name}: real work: {e}")


def spent(place, argv, directory):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    quietly(place, argv, directory)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def one(stage, place, job, contender):
    job.prepare()
    argv = job.command if contender == HOST else [stage.bawn, "run", "-w", contender, "-C", job.root, "--", *job.command]
    found = spent(place, argv, job.root)
    if contender == "overlay":
        subprocess.run([stage.bawn, "discard", "--all", "--yes", "-C", job.root], capture_output=True, timeout=SECONDS_MAX, **place.popen_as())
    return found


def measure(stage, place, effort, say):
    """{job: {contender: {"wall", "cpu": seconds, "wall_ratio", "cpu_ratio": times the host, round by round}}}."""
    say(f"as {place.name}: real work")
    found, rng = {}, random.Random(7)
    for job in jobs(stage, place, effort, say):
        rounds = {name: [] for name in (HOST, *MODES)}
        try:
            for _ in range(effort.work_rounds):
                for name in rng.sample(sorted(rounds), len(rounds)):
                    rounds[name].append(one(stage, place, job, name))
        except (RuntimeError, subprocess.SubprocessError) as e:
            found[job.name] = {"failed": str(e)}
            continue
        found[job.name] = {name: {**{k: statistics.median(s[k] for s in samples) for k in ("wall", "cpu")},
                                  **{f"{k}_ratio": statistics.median(s[k] / h[k] for s, h in zip(samples, rounds[HOST])) for k in ("wall", "cpu")}}
                           for name, samples in rounds.items()}
    return found
