# SPDX-License-Identifier: Apache-2.0
"""The tests' dead man's switch: a case that hangs fails with its name, and the rest goes on.

This is no statement about speed: CASE_LIMIT is far above what a case needs on the slowest machine. After it, everything that the case has
started is killed, and the case fails where it hangs, so that its fixtures are cleaned up. A case that hangs even then ends its worker, which
xdist reports with the case's name. conftest.py and the test of this file (integration/test_check.py) load it.
"""

import faulthandler
import os
import pathlib
import signal
import threading
import time

import pytest

CASE_LIMIT = float(os.environ.get("BAWN_CASE_LIMIT", 15 * 60))
GRACE = max(CASE_LIMIT / 5, 5)  # for the case to fail and to clean up, before it is asked once more
CHANCES = 3  # then the worker ends
WAKE = signal.SIGRTMAX  # no test uses it
FOLDERS = set()  # of the runners that are in use: what runs with one of them as its HOME, or on its command line, belongs to the case
STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}  # ignored by the interpreter, restored by subprocess


def reset_ignored_signals():
    """`nohup … &` starts programs with SIGINT, SIGQUIT and SIGHUP ignored, and so would be all they start: the tests of ^C would wait forever.
    Pytest itself goes on ignoring them, by a handler, which ends with exec; what it starts has the defaults."""
    if threading.current_thread() is not threading.main_thread():
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - PYTHONS_OWN:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number in STOPS | {signal.SIGCHLD} else lambda *_: None)


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def processes_of_the_case():
    """Descendants of ours, and processes that were left to init but belong to one of FOLDERS."""
    parents, marked = {}, set()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        stat = read(entry / "stat")
        if stat:
            parents[int(entry.name)] = int(stat.rpartition(b")")[2].split()[1])
        about = read(entry / "cmdline") + b"\0" + read(entry / "environ")
        if any(os.fsencode(folder) in about for folder in FOLDERS):
            marked.add(int(entry.name))
    ours, more = {os.getpid()}, True
    while more:
        more = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours |= more
    return (ours | marked) - {os.getpid()}


def kill_all():
    for pid in processes_of_the_case():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


class Watchdog(threading.Thread):
    """Waits for the deadline of the present case, beside it."""

    def __init__(self, err):
        super().__init__(daemon=True)
        self.err = err
        self.changed = threading.Condition()
        self.case, self.deadline, self.chances = None, None, 0
        self.in_test = False  # not in pytest's own code, where a failure would end everything

    def watch(self, case):
        with self.changed:
            self.case, self.chances = case, CHANCES
            self.deadline = time.monotonic() + CASE_LIMIT if case else None
            self.changed.notify()

    def run(self):
        with self.changed:
            while True:
                left = self.deadline - time.monotonic() if self.case else None
                if left is None or left > 0:
                    self.changed.wait(left)
                else:
                    self.bite()

    def bite(self):
        print(f"\nwatchdog: hangs: {self.case}", file=self.err, flush=True)
        faulthandler.dump_traceback(file=self.err)
        kill_all()
        self.chances -= 1
        if not self.chances:
            os._exit(70)
        self.deadline = time.monotonic() + GRACE
        signal.pthread_kill(threading.main_thread().ident, WAKE)


dog = None


def verdict():
    return f"hangs: {dog.case} was ended by the watchdog"


def on_wake(_number, _frame):
    if dog and dog.in_test:
        pytest.fail(verdict())


def pytest_configure():
    """Only where a test can be woken: in the main thread. Output is not captured yet, so that the name gets into the log in any case."""
    global dog
    if threading.current_thread() is threading.main_thread():
        signal.signal(WAKE, on_wake)
        dog = Watchdog(os.fdopen(os.dup(2), "w"))
        dog.start()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if dog:
        dog.watch(item.nodeid)
    yield
    if dog:
        dog.watch(None)


@pytest.hookimpl(hookwrapper=True, trylast=True)  # next to the test
def in_test(item):
    if dog:
        dog.in_test = True
    try:
        yield
    finally:
        if dog:
            dog.in_test = False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    """A case that went on because what it waited for was killed has not passed."""
    report = (yield).get_result()
    if dog and dog.chances < CHANCES and report.passed and report.when != "setup":
        report.outcome, report.longrepr = "failed", verdict()


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = in_test
reset_ignored_signals()
