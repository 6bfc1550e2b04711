# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts per user: a sandbox must leave the user's own programs some of it (issue 13, number 22)."""

import subprocess

import pytest

PYTHON = "/usr/bin/python3"

# Each takes all it can get of one table, says how much, and waits for its standard input to end.
TAKE = {
    "inotify instances": "fds = []\nwhile len(fds) < 5000:\n    fd = libc.inotify_init()\n    if fd < 0: break\n    fds.append(fd)\ntaken = len(fds)",
    "pending signals": "signal.pthread_sigmask(signal.SIG_BLOCK, {40})\ntaken = 0\nwhile taken < 1000000 and libc.sigqueue(os.getpid(), 40, 0) == 0: taken += 1",
}
SCRIPT = """
import ctypes, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
libc = ctypes.CDLL(None, use_errno=True)
%s
print(taken, flush=True); sys.stdin.read()
"""


def take(runner, what, *before):
    p = runner.popen(*before, PYTHON, "-c", SCRIPT % TAKE[what], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return p, int(p.stdout.readline())


def let_go(p):
    p.stdin.close()
    p.wait()
    p.stdout.close()


@pytest.mark.parametrize("what", TAKE)
def test_a_sandbox_leaves_the_user_some(runner, what):
    """Claim: while a command inside holds all it can get of a table of the user's, the user's programs still get most of it (81)."""
    first, alone = take(runner, what)
    let_go(first)
    assert alone > 3, f"nothing to take: {alone}"
    inside, held = take(runner, what, runner.path, "run", "--network", "none", "--")
    try:
        assert held > 0, "nothing is left for the sandbox"
        other, left = take(runner, what)
        let_go(other)
    finally:
        let_go(inside)
    assert left >= alone / 2, f"{alone} without the sandbox, which took {held}; {left} beside it"


CALLS = {
    "a lease": "fd = os.open('leased', os.O_RDWR | os.O_CREAT); fcntl.fcntl(fd, 1024, fcntl.F_WRLCK); return True",
    "a lease for reading": "open('leased', 'w').close(); fd = os.open('leased', os.O_RDONLY); fcntl.fcntl(fd, 1024, fcntl.F_RDLCK); return True",
    "dnotify": "signal.signal(signal.SIGIO, signal.SIG_IGN); fcntl.fcntl(os.open('.', os.O_RDONLY), 1026, 2); return True",
    "native AIO": "libc = ctypes.CDLL(None, use_errno=True); c = ctypes.c_ulong(0)\nif libc.syscall(206, 1, ctypes.byref(c)) < 0: raise OSError(ctypes.get_errno(), 'io_setup')\nreturn True",
}


@pytest.mark.parametrize("mode", ["direct", "overlay"])
@pytest.mark.parametrize("what", CALLS)
def test_what_would_hold_up_the_host_is_refused(pyattack, what, mode):
    """Claim: leases, which make the host's open() wait, dnotify and the machine's AIO requests do not exist inside (81)."""
    pyattack(CALLS[what], "--workspace", mode)
