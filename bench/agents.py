# SPDX-License-Identifier: Apache-2.0
"""The loop of real agents, inside and outside: three turns with a scripted model, with two tools called.

The agents, the models and the world they live in are those of tests/agents: two network namespaces, no packet leaves the machine. Inside is
`bawn run --agent NAME`, whose start, gate and injected key are in its time.
"""
import contextlib
import importlib.util
import os
import pathlib
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from stage import ROOT

TESTS = os.path.join(ROOT, "tests")
INSIDE, OUTSIDE = "inside", "outside"
HANGS = 300  # seconds
RATIO = 1.1  # the bar: a loop inside, times outside


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def the_world(tests, column, bawn):
    """(net, models), as the fixtures of the tests make them."""
    users = load("bench_users", os.path.join(TESTS, "conftest.py"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bawn-bench-net.", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with contextlib.ExitStack() as stack:
            world = tests.network.World(folder)
            stack.callback(world.end)
            models = tests.Models(world)
            stack.callback(models.end)
            runner = stack.enter_context(users.make_runner(column, pathlib.Path(bawn)))
            net = tests.network.Net(world, runner)
            stack.callback(net.end)
            net.names.update({host: [tests.ADDRESS] for host in models.keys})
            net.save_names()
            yield net, models
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def loop(tests, net, start):
    """Seconds of one loop. The workspace is empty before."""
    for left in net.runner.workspace.iterdir():
        left.unlink() if not left.is_dir() else shutil.rmtree(left)
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = start()
    process = os.pidfd_open(run.process.pid)
    select.select([process], [], [], HANGS)  # Popen.wait() with a limit looks only every 50 ms
    os.close(process)
    done = run.end()
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.rc or tests.model_servers.MARKER.encode() + b" read it" not in done.out:
        raise RuntimeError(f"exit status {done.rc}: {' '.join(done.err.decode(errors='replace').split())[-300:]}")
    return {"wall": wall, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def one(tests, net, models, name, rounds):
    agent = tests.Agent(name, net.runner)
    key = models.keys[agent.host]
    env = agent.set_secret(net, key)
    ways = {OUTSIDE: lambda: agent.start_outside(net, key), INSIDE: lambda: agent.start_inside(net, env)}
    found = {way: [] for way in ways}
    try:
        for i in range(rounds + 1):  # the first makes the agent's folders
            for way, start in ways.items():
                took = loop(tests, net, start)
                if i:
                    found[way].append(took)
    finally:
        net.bawn("secret", "rm", agent.preset["secret"]["name"], env=env)  # two agents have the same
    return {**{way: {k: statistics.median(s[k] for s in v) for k in ("wall", "cpu")} for way, v in found.items()},
            **{f"{k}_ratio": statistics.median(a[k] / b[k] for a, b in zip(found[INSIDE], found[OUTSIDE])) for k in ("wall", "cpu")}}


def cells(result):
    """Of the report's table: seconds outside, by the clock and of CPU, and the two ratios."""
    return [*(result.get(OUTSIDE, {}).get(k) for k in ("wall", "cpu")), *(result.get(k) for k in ("wall_ratio", "cpu_ratio"))]


def measure(stage, place, effort, say):
    """{agent: {"inside", "outside": {"wall", "cpu": seconds}, "wall_ratio", "cpu_ratio"}}, or {agent: {"failed": why}}."""
    if os.geteuid() != 0:
        return {"agents": {"failed": "needs root, for network namespaces of its own"}}
    try:
        tests = load("bench_agents", os.path.join(TESTS, "agents", "conftest.py"))
    except ImportError as e:
        return {"agents": {"failed": str(e)}}
    found = {}
    with the_world(tests, place.column, stage.bawn) as (net, models):
        for name in tests.ARGUMENTS:
            if not (tests.PROGRAMS / name).is_dir():
                found[name] = {"failed": f"not in {tests.PROGRAMS} (tools/agents)"}
                continue
            say(f"as {place.name}: the loop of {name}")
            models.forget()
            try:
                found[name] = one(tests, net, models, name, effort.agent_rounds)
            except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as e:
                found[name] = {"failed": str(e)[:300]}
    return found
