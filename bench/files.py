"""Work on the workspace's files: on the host, inside Bawn, inside bubblewrap."""
import json
import os
import random
import shutil
import statistics
import subprocess

import peers

GIT = ["git", "-c", "safe.directory=*"]
HOST = "host"
SECONDS_MAX = 300


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


def prepare(stage, place, effort):
    ws = place.workspace
    make_small(os.path.join(ws, "small"), effort.small_files, 1)
    make_big(os.path.join(ws, "big"), effort.big_megabytes)
    make_project(os.path.join(ws, "project"), effort.c_files)
    shutil.copy(stage.io, os.path.join(ws, "io"))
    give(place, ws)
    make_repository(place, os.path.join(ws, "repository"), effort.repository_files)


def workloads(place, effort):
    """{name: (rounds, arguments of io)}. git status is warmed up twice: once for the cache, once for an index that fits the ids seen inside."""
    def at(name):
        return os.path.join(place.workspace, name)

    times = ["--times", str(effort.repeats)]
    return {
        "read, small files": (effort.io_rounds, [*times, "read", at("small")]),
        "read, one big file": (effort.io_rounds, [*times, "read", at("big")]),
        "stat": (effort.io_rounds, [*times, "stat", at("repository")]),
        "git status": (effort.io_rounds, ["--warm", "2", *times, "exec", *GIT, "-C", at("repository"), "status", "--porcelain"]),
        "compile": (effort.compile_rounds, ["--warm", "0", "exec", "make", "-s", "-B", "-j2", "-C", at("project")]),
    }


def wrappers(stage, place, able):
    """{name: function from a command to the command line that runs it there}."""
    found = {HOST: lambda command: command}
    if "bawn" in able:
        found["bawn"] = lambda command: [stage.bawn, "run", "--", *command]
    if "bwrap" in able:
        found["bwrap"] = lambda command: peers.bwrap_inside(place, command)
    return found


def once(place, argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS_MAX, **place.popen_as())
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise RuntimeError(f"exit status {done.returncode}: {said[-400:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def summary(rounds):
    """rounds: {contender: [samples of round 1, ...]}. Ratios are taken round by round, because the machine drifts."""
    medians = {name: [statistics.median(r) for r in samples] for name, samples in rounds.items()}
    host = medians[HOST]
    return {name: {"median_us": statistics.median(values), "rounds": rounds[name],
                   "ratio": statistics.median(v / h for v, h in zip(values, host))} for name, values in medians.items()}


def interleave(place, commands, rounds, rng):
    """commands: {contender: argv}. ({contender: [samples per round]}, {contender: why it failed})."""
    samples, failed = {name: [] for name in commands}, {}
    for _ in range(rounds):
        for name in rng.sample(sorted(set(commands) - set(failed)), len(commands) - len(failed)):
            try:
                samples[name].append(once(place, commands[name]))
            except (RuntimeError, ValueError, IndexError, subprocess.TimeoutExpired) as e:
                failed[name] = str(e)
    return samples, failed


def measure(stage, place, effort, able):
    prepare(stage, place, effort)
    rng, results = random.Random(3), {}
    for workload, (rounds, arguments) in workloads(place, effort).items():
        command = [os.path.join(place.workspace, "io"), *arguments]
        commands = {name: wrap(command) for name, wrap in wrappers(stage, place, able).items()}
        samples, failed = interleave(place, commands, rounds, rng)
        if HOST in failed:
            raise RuntimeError(f"{workload} does not work on the host: {failed[HOST]}")
        results[workload] = summary({name: s for name, s in samples.items() if name not in failed})
        results[workload].update({name: {"failed": reason} for name, reason in failed.items()})
    return results
