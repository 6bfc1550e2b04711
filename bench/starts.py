# SPDX-License-Identifier: Apache-2.0
"""Cold starts, one at a time and many at a time, measured by spawn.c."""
import contextlib
import json
import os
import shlex
import signal
import subprocess

import peers

PROBE_SECONDS = 30
RAW = "raw"
BAWN = "bawn"
POOL = "bawn, pool"
POOL_SIZE = 64


def spawn(stage, place, options, commands, timeout=None):
    """commands: {name: argv}. Returns {name: result}; a result has "median" or "failed"."""
    words = []
    for name, argv in commands.items():
        words += [*(["::"] if words else []), name, *argv]
    child = subprocess.Popen([*stage.spawn_command(place), *options, "--", *words], env=place.environment(), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, complaint = child.communicate(timeout=timeout)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise
    if child.returncode != 0:
        raise RuntimeError(complaint.strip())
    return {c["name"]: c for c in json.loads(out)["commands"]}


def why(result):
    said = " ".join(result["failed"]["stderr"].split())
    return f"exit status {result['failed']['status']}: {said or 'without a word'}"


def probe(stage, place, name, argvs):
    """The first command line that works, or the reason why none does."""
    reason = "no command line known"
    for argv in argvs:
        try:
            result = spawn(stage, place, ["--rounds", "1"], {name: argv}, timeout=PROBE_SECONDS)[name]
        except subprocess.TimeoutExpired:
            reason = f"no end after {PROBE_SECONDS} s"
            continue
        except RuntimeError as e:
            reason = str(e)
            continue
        if "failed" not in result:
            return argv, None
        reason = why(result)
    return None, reason


def bawn(stage, *options):
    return [[stage.bawn, "run", *options, "--", *peers.COMMAND]] if stage.bawn else None


def contenders(stage, place):
    """({name: argv} of everything that works here, {name: reason} of the rest)."""
    argvs = {RAW: [peers.COMMAND], BAWN: bawn(stage)}
    argvs.update({p.name: p.argvs(place) if peers.find(p.program) else None for p in peers.PEERS})
    able, reasons = {}, {}
    for name, choices in argvs.items():
        if choices is None:
            reasons[name] = "not built" if name == BAWN else "not installed (bench/setup)"
            continue
        argv, reason = probe(stage, place, name, choices)
        if name == BAWN and argv and not probe(stage, place, name, bawn(stage, "--sandbox=require"))[0]:
            argv, reason = None, "runs, but only as a weaker sandbox than the full one: not comparable"
        if argv:
            able[name] = argv
        else:
            reasons[name] = reason
    return able, reasons


@contextlib.contextmanager
def pooled(stage, place, able):
    """The contenders and, if it can be had, Bawn with a pool, which is told which root is wanted. The others, plain Bawn among them, do not see it."""
    if BAWN not in able:
        yield able
        return
    runtime = os.path.join(place.directory, "runtime")
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    place.own(runtime)
    how = place.popen_as()
    how["env"] = {**how["env"], "XDG_RUNTIME_DIR": runtime}
    subprocess.run([stage.bawn, "pool", "on", "-n", str(POOL_SIZE)], check=True, stdout=subprocess.DEVNULL, **how)
    try:
        argv = [f"env:XDG_RUNTIME_DIR={runtime}", *able[BAWN]]
        spawn(stage, place, ["--rounds", "1"], {POOL: argv})
        yield {**able, POOL: argv}
    finally:
        subprocess.run([stage.bawn, "pool", "off"], check=True, **how)


def cold(stage, place, effort, able, reasons):
    with pooled(stage, place, able) as able:
        results = spawn(stage, place, ["--rounds", str(effort.rounds), "--budget", f"{effort.budget_ms}ms"], able)
    for name, result in results.items():
        result["command"] = shlex.join(able[name])
        if "failed" in result:
            reasons[name] = "during the run, " + why(result)
    return results


def parallel(stage, place, effort, able, reasons):
    wanted = {RAW, BAWN, *(p.name for p in peers.PEERS if p.parallel)}
    options = ["--parallel", str(effort.parallel), "--rounds", str(effort.blocks), "--block", f"{effort.block_ms}ms", "--gap", "400ms"]
    with pooled(stage, place, {name: argv for name, argv in able.items() if name in wanted}) as some:
        results = spawn(stage, place, options, some)
    reasons.update({f"{name}, {effort.parallel} at a time": why(r) for name, r in results.items() if "failed" in r})
    return results
