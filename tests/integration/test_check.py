# SPDX-License-Identifier: Apache-2.0
"""The check's own promises: nothing waits forever, what hangs is named and ended, and it does not matter how the check was started.

Each of them is shown by a test, or a command, that hangs on purpose, in a folder of its own.
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOHUP = ["sh", "-c", 'trap "" INT QUIT HUP TSTP TTOU; exec "$@"', "sh"]  # as `nohup … &` does it
SHOW_IGNORED = "grep SigIgn /proc/self/status"
NONE_IGNORED = re.compile(r"SigIgn:\s0{8}[0-8]0{7}$", re.M)  # 32 belongs to the C library: its functions cannot reset it


def load_check():
    """tools/check as a module."""
    loader = importlib.machinery.SourceFileLoader("bawn_check", str(ROOT / "tools" / "check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    exec(loader.source_to_code(loader.get_data(loader.path), loader.path), module.__dict__)  # not exec_module(), which would leave a __pycache__ there
    return module


def planted(top, text, *args, front=(), **env):
    """Runs pytest on a file with this text, with the watchdog and nothing else of ours."""
    (top / "test_planted.py").write_text(text)
    command = [*front, sys.executable, "-m", "pytest", "-p", "watchdog", "-p", "no:cacheprovider", "-rfE", *args, str(top)]
    return subprocess.run(command, cwd=top, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), **env})


def gone(pid):
    """Or only still to be collected by init."""
    stat = pathlib.Path("/proc", pid, "stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


HANGS = """
import pathlib, subprocess, time
import pytest

@pytest.fixture
def thing():
    yield
    pathlib.Path("cleaned").touch()

def test_before(): pass

def test_that_hangs(thing):
    child = subprocess.Popen(["sleep", "54321"])
    pathlib.Path("pid").write_text(str(child.pid))
    child.wait()
    while True:
        time.sleep(1)

def test_after(): pass
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "workers"])
def test_a_case_that_hangs_is_named_and_ended(tmp_path, workers):
    r = planted(tmp_path, HANGS, *workers, BAWN_CASE_LIMIT="5")
    assert r.returncode == 1 and "1 failed, 2 passed" in r.stdout, r
    assert re.search(r"^FAILED test_planted.py::test_that_hangs - Failed: hangs", r.stdout, re.M), r
    assert "watchdog: hangs: test_planted.py::test_that_hangs" in r.stderr, r
    assert (tmp_path / "cleaned").exists(), "its fixtures are cleaned up"
    while not gone((tmp_path / "pid").read_text()):  # what it started
        time.sleep(0.01)


def test_a_case_that_cannot_be_woken_ends_its_worker(tmp_path):
    """The case blocks all signals, so that it hears nothing."""
    stubborn = HANGS.replace("import pathlib,", "import signal, pathlib,").replace("    child =", "    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n    child =")
    r = planted(tmp_path, stubborn, "-n", "2", BAWN_CASE_LIMIT="5")
    assert r.returncode == 1 and "1 failed, 2 passed" in r.stdout, r
    assert re.search(r"crashed while running .*test_planted.py::test_that_hangs", r.stdout), r
    assert r.stderr.count("watchdog: hangs: test_planted.py::test_that_hangs") == 3, r


def test_a_case_that_went_on_because_of_the_watchdog_has_not_passed(tmp_path):
    """What it waits for is killed in any case; the test goes on at once, and hears nothing more."""
    r = planted(tmp_path, "import signal, subprocess\ndef test_it():\n    signal.signal(signal.SIGRTMAX, signal.SIG_IGN)\n    subprocess.run(['sleep', '54321'])\n", BAWN_CASE_LIMIT="5")
    assert r.returncode == 1 and "1 failed" in r.stdout and "hangs: test_planted.py::test_it was ended by the watchdog" in r.stdout, r


def test_ignored_signals_do_not_reach_what_a_test_starts(tmp_path):
    text = f"import subprocess\ndef test_it():\n    print(subprocess.run({SHOW_IGNORED!r}, shell=True, capture_output=True, text=True).stdout)\n"
    for workers in ([], ["-n", "1"]):
        r = planted(tmp_path, text, "-rP", *workers, front=NOHUP)
        assert r.returncode == 0 and NONE_IGNORED.search(r.stdout), r
    assert not NONE_IGNORED.search(subprocess.run([*NOHUP, "sh", "-c", SHOW_IGNORED], capture_output=True, text=True).stdout)


@pytest.fixture
def stage(tmp_path):
    check = load_check()
    made = object.__new__(check.Check)
    made.children, made.over, made.unsteady, made.stage = set(), check.threading.Event(), [], tmp_path
    with open(tmp_path / "log", "w+") as made.log:
        yield check, made


def test_a_command_of_a_stage_has_default_signals(stage, tmp_path):
    _, made = stage
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)}
    try:
        assert made.run("sh", "-c", SHOW_IGNORED)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert NONE_IGNORED.search((tmp_path / "log").read_text())


def test_a_command_without_a_sign_of_life_is_ended(stage, tmp_path):
    check, made = stage
    check.SILENCE = 3
    assert made.run("bash", "-c", "for i in {1..40}; do echo $i; sleep 0.2; done"), "one that prints may take longer than that"
    assert not made.run("sh", "-c", "setsid sleep 54321 & echo $!; wait")
    log = (tmp_path / "log").read_text()
    assert "ERROR hangs: no output for 3 s, ended: sh -c setsid sleep" in log, log
    pid = re.search(r"^(\d\d\d+)$", log, re.M)[1]
    while not gone(pid):
        time.sleep(0.01)


def test_an_ended_check_starts_nothing_more(stage):
    _, made = stage
    made.end_all()
    assert not made.run("sleep", "54321")


UNSTEADY = """
import os, pathlib
def test_steady(): pass
def test_it():
    assert pathlib.Path("seen").exists() or pathlib.Path("seen").touch(), os.environ.get("SAYS", "busy")
"""


def judged(stage, tmp_path, text, monkeypatch, **env):
    """The counts of a stage whose cases are this file's."""
    check, made = stage
    folder = tmp_path / "tests" / "suite"
    folder.mkdir(parents=True)
    (folder.parent / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_planted.py").write_text(text)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "LOGS", tmp_path)
    monkeypatch.setattr(check, "install", lambda *_: "/bin/true")
    return check.pytest_in(made, ".", ["tests/suite"], **env), made.unsteady


def test_a_case_that_fails_once_is_judged_alone(stage, tmp_path, monkeypatch):
    counts, unsteady = judged(stage, tmp_path, UNSTEADY, monkeypatch)
    assert counts == (2, 0, 0) and unsteady == ["tests/suite/test_planted.py::test_it"]


def test_a_case_that_fails_alone_fails(stage, tmp_path, monkeypatch):
    counts, unsteady = judged(stage, tmp_path, UNSTEADY + "    pathlib.Path('seen').unlink()\n", monkeypatch)
    assert counts == (1, 1, 0) and unsteady == []


def test_an_attack_that_worked_once_is_not_forgiven(stage, tmp_path, monkeypatch):
    counts, unsteady = judged(stage, tmp_path, UNSTEADY, monkeypatch, SAYS="the attack works inside the sandbox: rc 0")
    assert counts == (1, 1, 0) and unsteady == []


def test_every_unit_test_has_a_limit():
    assert re.search(r"test\(module .*timeout: [1-9]\d\d,", (ROOT / "tests/meson.build").read_text())
