# SPDX-License-Identifier: Apache-2.0
"""Work on the workspace's files: on the host, inside Bawn in each mode of the workspace, inside bubblewrap."""
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
from dataclasses import dataclass

import peers
import trees

HOST = "host"
WRITERS = 8                # of io.c
SECONDS_MAX = 300
SERIAL = "@ID@"            # becomes a number that is new for every sample
ASIDE = ("sync", "ro")     # for information: they sit rounds out


@dataclass(frozen=True)
class Workload:
    rounds: int
    arguments: list            # of io
    without: tuple = ()        # contenders that cannot do it, or would tell nothing
    made: tuple = ()           # (folder, number of files) that are made before every sample, outside of its time


def prepare(stage, place, effort):
    ws = place.workspace
    trees.make_small(os.path.join(ws, "small"), effort.small_files, 1)
    trees.make_big(os.path.join(ws, "big"), effort.big_megabytes)
    trees.make_project(os.path.join(ws, "project"), effort.c_files)
    shutil.copy(stage.io, os.path.join(ws, "io"))
    trees.give(place, ws)
    trees.make_repository(place, os.path.join(ws, "repository"), effort.repository_files)


def workloads(place, effort):
    """{name: Workload}. git status is warmed up twice: once for the cache, once for an index that fits the ids seen inside.

    Changes are timed once per run, in a folder of its own: only the first change of a file is recorded, or copied into the layer. Nothing is
    removed between them but by the last row, because ext4 takes long to make files where it has just removed some. They come last, so
    that sync mode does not have to copy what they leave."""
    def at(name):
        return os.path.join(place.workspace, name)

    times, single = ["--times", str(effort.repeats)], ["--warm", "0"]
    churn, count = at("churn-" + SERIAL), effort.churn_files
    return {
        "read, small files": Workload(effort.io_rounds, [*times, "read", at("small")]),
        "read, one big file": Workload(effort.io_rounds, [*times, "read", at("big")]),
        "stat": Workload(effort.io_rounds, [*times, "stat", at("repository")]),
        "git status": Workload(effort.io_rounds, ["--warm", "2", *times, "exec", *trees.GIT, "-C", at("repository"), "status", "--porcelain"]),
        "compile": Workload(effort.compile_rounds, [*single, "exec", "make", "-s", "-B", "-j2", "-C", at("project")], ("ro",)),
        "create small files": Workload(effort.churn_rounds, [*single, "create", churn, str(count)], ASIDE),
        f"create small files, {WRITERS} writers": Workload(effort.churn_rounds, [*single, "writers", churn, str(max(1, count // WRITERS))], ASIDE),
        "overwrite small files": Workload(effort.churn_rounds, [*single, "overwrite", churn], ASIDE, (churn, count)),
        "delete small files": Workload(effort.churn_rounds, [*single, "delete", churn], ASIDE, (churn, count)),
    }


def wrappers(stage, place, able):
    """{name: function from a command to the command line that runs it there}. Every overlay run begins with an empty layer; the copy
    of sync mode stays, so that only its first start copies everything."""
    def bawn(mode, *options):
        return lambda command: [stage.bawn, "run", "-w", mode, *options, "--", *command]

    found = {HOST: lambda command: command}
    if "bawn" in able:
        found["direct"] = bawn("direct")
        found["overlay"] = bawn("overlay")
        found["sync"] = bawn("sync", "--name", "bench-sync")
        found["ro"] = bawn("ro")
    if "bwrap" in able:
        found["bwrap"] = lambda command: peers.bwrap_inside(place, command)
    return found


def call(place, argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS_MAX, **place.popen_as())
    if done.returncode != 0:
        said = " ".join(done.stderr.split())
        raise RuntimeError(f"exit status {done.returncode}: {said[-400:]}")
    return done.stdout


def sample(place, io, workload, wrap, serial):
    def numbered(words):
        return [str(word).replace(SERIAL, str(serial)) for word in words]

    if workload.made:
        call(place, [io, "--warm", "0", "create", *numbered(workload.made)])
    return json.loads(call(place, wrap([io, *numbered(workload.arguments)])).strip().splitlines()[-1])


def summary(rounds):
    """rounds: {contender: [samples of round 1, ...]}, None for a round it sat out. Ratios are taken round by round, because the
    machine drifts."""
    host = [statistics.median(r) for r in rounds[HOST]]
    found = {}
    for name, samples in rounds.items():
        pairs = [(statistics.median(r), h) for r, h in zip(samples, host) if r]
        found[name] = {"median_us": statistics.median(v for v, _ in pairs), "rounds": samples, "ratio": statistics.median(v / h for v, h in pairs)}
    return found


def interleave(place, io, workload, among, aside_every, rng, serials):
    """among: {contender: wrapper}. ({contender: [samples per round]}, {contender: why it failed})."""
    samples, failed = {name: [] for name in among}, {}
    for number in range(workload.rounds):
        for name in rng.sample(sorted(set(among) - set(failed)), len(among) - len(failed)):
            if name in ASIDE and number % aside_every:
                samples[name].append(None)
                continue
            try:
                samples[name].append(sample(place, io, workload, among[name], next(serials)))
            except (RuntimeError, ValueError, IndexError, subprocess.TimeoutExpired) as e:
                failed[name] = str(e)
    return samples, failed


def measure(stage, place, effort, able, say):
    say(f"as {place.name}: files")
    prepare(stage, place, effort)
    io = os.path.join(place.workspace, "io")
    rng, serials, results, everybody = random.Random(3), itertools.count(), {}, wrappers(stage, place, able)
    for name, workload in workloads(place, effort).items():
        among = {n: wrap for n, wrap in everybody.items() if n not in workload.without}
        samples, failed = interleave(place, io, workload, among, effort.aside_every, rng, serials)
        if HOST in failed:
            raise RuntimeError(f"{name} does not work on the host: {failed[HOST]}")
        results[name] = summary({n: s for n, s in samples.items() if n not in failed})
        results[name].update({n: {"failed": reason} for n, reason in failed.items()})
    if "bawn" in able:  # an ordinary user cannot simply remove the layers
        subprocess.run([stage.bawn, "discard", "--all", "--yes"], capture_output=True, timeout=SECONDS_MAX, **place.popen_as())
    return results
