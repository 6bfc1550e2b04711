# SPDX-License-Identifier: Apache-2.0
"""Numbers 1, 6 and 8 of issue 13: what the host does to protected files while a sandbox in direct mode runs.

The host's own save is no door. A program on the host saves a protected file by a lock or temporary file and a rename (git, sed -i, editors); in direct mode
the inside must not get a descriptor of that file before the rename that it still has afterwards, nor put a file of its own in its place.

The host's program is played step by step, so that nothing depends on timing: what it does between two steps the attacker could always hit by trying often enough. Each door is first
shown to be open without the sandbox.
"""

import contextlib
import os
import select
import subprocess
import time

import pytest

PYTHON = "/usr/bin/python3"
PATIENCE = 120  # seconds: so that a hang ends as a failure
EVIL = b"[core]\n\tfsmonitor = touch /tmp/owned\n"
TARGETS = [".git/config", ".mcp.json", "sub/.vscode/tasks.json"]

AGENT = r"""
import array, errno, mmap, os, socket, sys
names = {"fd": None, "os": os, "mmap": mmap, "socket": socket, "array": array}
print("'ready'", flush=True)
for line in sys.stdin:
    try:
        names["_"] = None
        try:
            names["_"] = eval(line, names)
        except SyntaxError:
            exec(line, names)
        print(repr(names["_"]), flush=True)
    except OSError as e:
        print(repr(errno.errorcode[e.errno]), flush=True)
"""


class Agent:
    """A Python inside (or, as the control, outside) that does what it is told, line by line."""

    def __init__(self, runner, *front):
        self.runner = runner
        self.proc = runner.popen(*front, PYTHON, "-c", AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.answer() == "ready"

    def ask(self, line):
        self.proc.stdin.write(line.encode() + b"\n")
        self.proc.stdin.flush()

    def has_answered(self):
        return bool(select.select([self.proc.stdout], [], [], 0)[0])

    def answer(self):
        assert select.select([self.proc.stdout], [], [], PATIENCE)[0], "no answer"
        line = self.proc.stdout.readline()
        return eval(line) if line else "ended"

    def do(self, line):
        try:
            self.ask(line)
        except BrokenPipeError:
            return "ended"
        return self.answer()

    def end(self):
        """Status and what was said, after a polite end or whatever happened before."""
        with contextlib.suppress(BrokenPipeError):
            self.proc.stdin.close()
        err = self.proc.stderr.read()
        return self.proc.wait(PATIENCE), err.decode()


class Kept(Agent):
    def __init__(self, runner):
        self.name = f"saves{os.getpid()}"
        r = runner.bawn("start", "--workspace", "direct", self.name)
        assert r.rc == 0, r
        super().__init__(runner, runner.path, "exec", self.name, "--")

    def end(self):
        result = super().end()
        self.runner.bawn("rm", "--force", self.name)
        return result


def run(runner):
    return Agent(runner, runner.path, "run", "--workspace", "direct", "--")


def bare(runner):
    return Agent(runner)


@pytest.fixture
def tree(runner):
    assert runner.run("git", "init", "-q", ".").rc == 0
    runner.write(".mcp.json", "{}\n")
    runner.write("sub/.vscode/tasks.json", "{}\n")
    runner.write("old.txt", "older than the run\n")
    runner.write("main.c", "int main;\n")
    past = time.time() - 3600
    for path in ("old.txt", "main.c"):
        os.utime(runner.workspace / path, (past, past))
    return runner


class Host:
    """A program of the host that saves; it has the identity of the user, for nothing may depend on root."""

    def __init__(self, runner):
        self.runner, self.ws = runner, runner.workspace

    def make(self, name, data=b"half of ", flags=os.O_CREAT | os.O_EXCL | os.O_WRONLY):
        path = self.ws / name
        fd = os.open(path, flags, 0o644)
        self.runner.own(path)
        os.write(fd, data)
        return fd

    def land(self, fd, temp, name):
        if fd is not None:
            os.write(fd, b"the new text\n")
            os.close(fd)
        os.rename(self.ws / temp, self.ws / name)


TEMPS = {".git/config": [".git/config.lock"], ".mcp.json": ["sedAbCd12", ".mcp.json.tmp", ".goutputstream-X1Y2Z3", ".mcp.json.9f3a", "4913"], "sub/.vscode/tasks.json": ["sub/.vscode/tasks.json.tmp", "sub/x.part"]}
CASES = [(name, temp) for name, temps in TEMPS.items() for temp in temps]
OPENS = {"open": "fd = os.open(%r, os.O_WRONLY)", "append": "fd = os.open(%r, os.O_RDWR | os.O_APPEND)", "create": "fd = os.open(%r, os.O_RDWR | os.O_CREAT)", "truncate": "fd = os.open(%r, os.O_WRONLY | os.O_TRUNC)",
         "link": "os.link(%r, 'second'); fd = os.open('second', os.O_WRONLY)",
         "magic": "r = os.open(%r, os.O_RDONLY); fd = os.open(f'/proc/self/fd/{r}', os.O_WRONLY)"}
WRITE = "fd is not None and os.pwrite(fd, %r, 0)" % EVIL


def test_control_a_descriptor_of_the_temporary_file_is_one_of_the_saved_file(tree):
    """Control: without the sandbox each of these opens yields a descriptor that writes what the host then obeys."""
    host, agent = Host(tree), bare(tree)
    for how, code in OPENS.items():
        fd = host.make(".git/config.lock")
        assert agent.do(code % ".git/config.lock") is None, how
        host.land(fd, ".git/config.lock", ".git/config")
        assert agent.do(WRITE) == len(EVIL), how
        assert (tree.workspace / ".git/config").read_bytes().count(EVIL) == 1, how
        agent.do("os.path.exists('second') and os.unlink('second')")
    assert agent.end()[0] == 0


def attack_while_open(tree, agent, name, temp, how):
    """The host has it open, half written; it goes on once the inside has tried and waits, or was refused."""
    host = Host(tree)
    fd = host.make(temp)
    agent.ask(OPENS[how] % temp)
    for _ in range(20):
        time.sleep(0.01)
        if agent.has_answered():
            break
    host.land(fd, temp, name)
    assert agent.answer() in ("EACCES", "EPERM", "EBUSY", "ENOENT") or how == "create", how
    agent.do(WRITE)
    assert (tree.workspace / name).read_bytes() == b"half of the new text\n", (name, temp, how)
    agent.do("[os.unlink(p) for p in ('second', %r) if os.path.exists(p)]" % temp)


@pytest.mark.parametrize("name,temp", CASES)
def test_what_the_host_is_writing_is_not_opened(tree, name, temp):
    """Claim: while a program on the host saves a protected file, the inside gets no descriptor of its lock or temporary file, whatever it is called."""
    agent = run(tree)
    for how in OPENS:
        attack_while_open(tree, agent, name, temp, how)
    status, err = agent.end()
    assert status == 0, err


def done_or_stopped(tree, agent, refused):
    """On a machine so slow that the file had come to rest before the inside got to it, the run ends when it lands."""
    if not refused:
        return stopped(tree, agent, "")
    status, err = agent.end()
    assert status == 0, err


@pytest.mark.parametrize("name,temp", CASES)
def test_what_the_host_has_just_written_is_not_opened(tree, name, temp):
    """Claim: nor between the host's close and its rename."""
    agent, host = run(tree), Host(tree)
    os.close(host.make(temp))
    agent.ask(OPENS["open"] % temp)
    time.sleep(0.05)
    os.rename(tree.workspace / temp, tree.workspace / name)
    done_or_stopped(tree, agent, agent.answer() in ("EACCES", "ENOENT"))


SWAPS = {"unlink": "os.unlink(%r); fd = os.open(%r, os.O_WRONLY | os.O_CREAT)", "rename away": "os.rename(%r, 'away'); fd = os.open(%r, os.O_WRONLY | os.O_CREAT)",
         "replace": "fd = os.open('mine', os.O_WRONLY | os.O_CREAT); os.rename('mine', %r); %r"}


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("temp", ["sedAbCd12", ".mcp.json.tmp"])
def test_what_the_host_has_just_written_is_not_swapped(tree, swap, temp):
    """Claim: nor can the inside put a file of its own where the host's rename will find it."""
    host = Host(tree)
    agent = bare(tree)  # the control
    os.close(host.make(temp))
    agent.do(SWAPS[swap] % (temp, temp))
    os.rename(tree.workspace / temp, tree.workspace / "main.c")
    agent.do(WRITE)
    assert (tree.workspace / "main.c").read_bytes() == EVIL
    agent.end()
    for left in ("away", "mine"):
        (tree.workspace / left).unlink(missing_ok=True)
    agent = run(tree)
    os.close(host.make(temp))
    agent.ask(SWAPS[swap] % (temp, temp))
    time.sleep(0.05)
    os.rename(tree.workspace / temp, tree.workspace / ".mcp.json")
    agent.answer()
    agent.do(WRITE)
    done_or_stopped(tree, agent, (tree.workspace / ".mcp.json").read_bytes() == b"half of ")


def test_a_folder_with_a_fresh_file_is_not_swapped(tree):
    """Claim: nor the folder in which the host is about to rename."""
    host = Host(tree)
    tree.mkdir(tree.workspace / "d")
    agent = run(tree)
    os.close(host.make("d/x.tmp"))
    agent.ask("os.rename('d', 'd2'); os.mkdir('d'); fd = os.open('d/x.tmp', os.O_WRONLY | os.O_CREAT)")
    time.sleep(0.05)
    os.rename(tree.workspace / "d/x.tmp", tree.workspace / "d/.mcp.json")
    agent.answer()
    agent.do(WRITE)
    done_or_stopped(tree, agent, [p.read_bytes() for p in tree.workspace.glob("d*/.mcp.json")] == [b"half of "])


def test_names_that_saves_use_cannot_be_taken_beforehand(tree):
    """Claim: a name that a program on the host will open for its save, without asking whether it is there, cannot be made inside; others can."""
    agent = run(tree)
    for name in (".mcp.json.tmp", ".mcp.json~", ".mcp.json.new", "sub/.vscode/tasks.json.tmp", ".git/config.tmp", ".#.mcp.json", ".mcp.json.swp", "..mcp.json.swp"):
        assert agent.do("os.close(os.open(%r, os.O_WRONLY | os.O_CREAT))" % name) == "EACCES", name
        assert agent.do("os.symlink('elsewhere', %r)" % name) == "EACCES", name
        assert agent.do("os.close(os.open('x', os.O_WRONLY | os.O_CREAT)); os.rename('x', %r)" % name) == "EACCES", name
        assert agent.do("os.link('old.txt', %r)" % name) == "EACCES", name
    for name in (".mcp.json.example", ".git/index.lock", ".git/HEAD.lock", "main.c.tmp", "main.c~", ".main.c.swp", "config.tmp", "tasks.json.tmp"):
        assert agent.do("os.close(os.open(%r, os.O_WRONLY | os.O_CREAT))" % name) is None, name
        assert agent.do("os.unlink(%r)" % name) is None, name
    status, err = agent.end()
    assert status == 0 and ".mcp.json.tmp" in err, err


def test_the_host_s_backups_of_protected_files_are_not_written(tree):
    """Claim: what an editor moved out of the way (X~) is as protected as X: it may be moved back."""
    tree.write(".mcp.json~", "{}\n")
    tree.write(".mcp.json.bak", "{}\n")
    agent = run(tree)
    for name in (".mcp.json~", ".mcp.json.bak"):
        assert agent.do("os.open(%r, os.O_WRONLY)" % name) == "EACCES"
    assert agent.end()[0] == 0


def test_a_file_that_the_user_just_saved_can_be_written(tree):
    """The twin: the user saves main.c by temporary file and rename, and the agent writes it at once. It may wait, but it works."""
    agent, host = run(tree), Host(tree)
    for code in ("f = open('main.c', 'a'); f.write('more'); f.close()", "os.unlink('main.c')"):
        host.land(host.make("main.c.tmp"), "main.c.tmp", "main.c")
        assert agent.do(code) is None
        host.land(host.make("other.c.tmp"), "other.c.tmp", "other.c")
        assert agent.do("os.rename('other.c', 'third.c')") is None
    status, err = agent.end()
    assert status == 0 and "refused" not in err, err


def test_a_log_that_the_host_writes_for_long_can_be_written(user_runner):
    """The twin: a file of the host's that is open for long (a log, a database) is no save."""
    agent, host = run(user_runner), Host(user_runner)
    fd = host.make("server.log")
    time.sleep(11)
    assert agent.do("f = open('server.log', 'a'); f.write('more'); f.close()") is None
    os.close(fd)
    assert agent.end()[0] == 0


# -- what lands although all that ------------------------------------------------------------------------------------------------

HOLDS = {
    "descriptor": "fd = os.open(%r, os.O_WRONLY)",
    "made inside": "os.unlink(%r); fd = os.open(%r, os.O_WRONLY | os.O_CREAT)",
    "anonymous": "os.unlink(%r); t = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); os.link(f'/proc/self/fd/{t}', %r, src_dir_fd=os.open('/', os.O_RDONLY), follow_symlinks=True); fd = t",
    "mapping": "fd = os.open(%r, os.O_RDWR); os.ftruncate(fd, 4096); m = mmap.mmap(fd, 4096); os.close(fd)",
    "in flight": "a, b = socket.socketpair(); fd = os.open(%r, os.O_RDWR); a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))]); os.close(fd)",
}


def fill_in(code, name):
    return code.replace("%r", repr(name))


def stopped(runner, agent, name):
    """The run ends by itself, and says why."""
    agent.proc.wait(PATIENCE)
    status, err = agent.end()
    assert status == 125, (status, err)
    assert "bawn: stopped" in err and name in err and "check it" in err, err


@pytest.mark.parametrize("hold", HOLDS)
def test_a_file_that_the_inside_has_open_ends_the_run_when_it_lands(tree, hold):
    """Claim: what the host renames into a protected place while the inside can still write to it is seen; everything inside is ended."""
    agent = run(tree)
    assert agent.do(fill_in(HOLDS[hold], "old.txt")) is None
    time.sleep(1.1)  # nothing of this is about files that are fresh
    os.rename(tree.workspace / "old.txt", tree.workspace / ".mcp.json")
    stopped(tree, agent, ".mcp.json")


WAYS = {
    "folder as it was": lambda ws: os.rename(ws / "older", ws / ".vscode"),
    "link to it": lambda ws: os.symlink("../old.txt", ws / "sub/.mcp.json"),
    "link to its folder": lambda ws: os.symlink("../../older", ws / "sub/.git/hooks") if (ws / "sub/.git").mkdir() is None else None,
    "head": lambda ws: (ws / "older/HEAD").write_text("ref: refs/heads/x"),
    "folder of objects": lambda ws: os.mkdir(ws / "half/objects"),
    "rename": lambda ws: os.rename(ws / "old.txt", ws / ".git/config"),
    "replace": lambda ws: os.replace(ws / "old.txt", ws / ".mcp.json"),
    "link": lambda ws: os.link(ws / "old.txt", ws / ".git/hooks/pre-commit"),
    "folder": lambda ws: (os.mkdir(ws / "new"), os.rename(ws / "old.txt", ws / "new/tasks.json"), os.rename(ws / "new", ws / ".vscode")),
    "deep": lambda ws: (os.makedirs(ws / "a/b/c"), os.rename(ws / "old.txt", ws / "a/b/c/.mcp.json")),
    "bare repository": lambda ws: (os.makedirs(ws / "r/objects"), os.mkdir(ws / "r/refs"), (ws / "r/HEAD").write_text("ref: refs/heads/x\n"), os.rename(ws / "old.txt", ws / "r/config")),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_landing_ends_the_run(tree, way):
    """Claim: by rename, by link, within a folder that is moved, deep in the tree, in a bare repository."""
    for name in ("older/tasks.json", "older/config", "older/objects/x", "older/refs/x", "half/HEAD", "half/refs/x", "half/config"):
        tree.write(name, "x")
    agent = run(tree)
    for name in ("old.txt", "older/tasks.json", "older/config", "half/config"):
        assert agent.do(fill_in(HOLDS["descriptor"], name)) is None
        assert agent.do("saved = globals().get('saved', []) + [fd]") is None
    WAYS[way](tree.workspace)
    stopped(tree, agent, "")


def test_what_only_looks_like_a_repository_ends_nothing(tree):
    """The twin: an agent that tries to make a repository is refused its last part; it is not ended for what it has open there."""
    agent = run(tree)
    assert agent.do("os.makedirs('r/refs')") is None
    assert agent.do("fd = os.open('r/config', os.O_WRONLY | os.O_CREAT), os.open('r/HEAD', os.O_WRONLY | os.O_CREAT)") is None
    assert agent.do("os.mkdir('r/objects')") == "EACCES"
    time.sleep(0.5)
    assert agent.do("1 + 1") == 2
    status, err = agent.end()
    assert status == 0 and "stopped" not in err, err


def test_a_kept_sandbox_ends_as_well(tree):
    agent = Kept(tree)
    assert agent.do(fill_in(HOLDS["descriptor"], "old.txt")) is None
    os.rename(tree.workspace / "old.txt", tree.workspace / ".mcp.json")
    agent.proc.wait(PATIENCE)
    until = time.monotonic() + PATIENCE
    while "stopping" in (listed := tree.bawn("status", agent.name).out.decode()) and time.monotonic() < until:
        time.sleep(0.05)
    landed = tree.bawn("log", "--json", "--type", "landed", agent.name).out.decode()
    status, err = agent.end()
    assert status == 137 and "was stopped: a protected file was put in place" in err, (status, err)
    assert "failed: stopped" in listed and ".mcp.json" in listed, listed
    assert '"path":".mcp.json","answer":"stopped"' in landed.replace(" ", ""), landed


def test_what_the_user_moves_after_the_agent_is_done_is_only_told(tree):
    """The twin: the user moves a file that the agent wrote and closed. Nothing inside can change it any more: the run goes on, and says so at its end."""
    agent = run(tree)
    assert agent.do("f = open('made.json', 'w'); f.write('{}'); f.close()") is None
    time.sleep(0.3)
    os.rename(tree.workspace / "made.json", tree.workspace / ".mcp.json")
    assert agent.do("1 + 1") == 2
    assert agent.do("os.open('.mcp.json', os.O_WRONLY)") == "EACCES"
    time.sleep(0.5)
    assert agent.do("1 + 1") == 2
    status, err = agent.end()
    assert status == 0 and "check" in err and ".mcp.json" in err, err


def test_saves_of_the_host_itself_go_on(tree):
    """The twin: git config, sed -i and a Python that renames while it has the file open work as ever, and the run goes on."""
    agent = run(tree)
    time.sleep(0.2)
    for i in range(20):
        assert agent.do("f = open(f'f%d', 'w'); f.write('x'); f.close(); os.unlink('f%d')" % (i, i)) is None  # their inode numbers are used again
        assert tree.run("git", "config", "user.name", f"n{i}").rc == 0
        assert tree.run("sed", "-i", "s/{/ {/", ".mcp.json").rc == 0
    fd = Host(tree).make("t.tmp")
    os.rename(tree.workspace / "t.tmp", tree.workspace / ".mcp.json")
    time.sleep(0.2)
    os.close(fd)
    assert agent.do("1 + 1") == 2
    status, err = agent.end()
    assert status == 0 and "check" not in err and "stopped" not in err, err


# -- number 6: a file is protected by whatever name it is reached ----------------------------------------------------------------------

SECOND = {  # how a second name of a protected file comes to be; names of the inside are "copy" and fd
    "before": lambda ws: os.link(ws / ".git/hooks/pre-commit", ws / "copy"),
    "config": lambda ws: os.link(ws / ".git/config", ws / "copy"),
    "bare repository": lambda ws: (os.makedirs(ws / "r/objects"), os.mkdir(ws / "r/refs"), (ws / "r/HEAD").write_text("x"), (ws / "r/config").write_text("x"), os.link(ws / "r/config", ws / "copy")),
}
REOPEN = {
    "unlinked": "r = os.open('copy', os.O_RDONLY); os.unlink('copy'); fd = os.open(f'/proc/self/fd/{r}', os.O_WRONLY)",
    "unlinked, path": "r = os.open('copy', os.O_PATH); os.unlink('copy'); fd = os.open(f'/proc/self/fd/{r}', os.O_RDWR)",
    "unlinked, same text": "r = os.open('copy', os.O_RDONLY); os.unlink('copy'); os.close(os.open('copy (deleted)', os.O_CREAT | os.O_WRONLY)); fd = os.open(f'/proc/self/fd/{r}', os.O_WRONLY)",
    "replaced": "r = os.open('copy', os.O_RDONLY); os.close(os.open('other', os.O_CREAT | os.O_WRONLY)); os.rename('other', 'copy'); fd = os.open(f'/proc/self/fd/{r}', os.O_WRONLY)",
    "truncated": "r = os.open('copy', os.O_RDONLY); os.unlink('copy'); os.truncate(f'/proc/self/fd/{r}', 0)",
    "mode": "r = os.open('copy', os.O_RDONLY); os.unlink('copy'); os.fchmod(r, 0o777)",
    "linked again": "r = os.open('copy', os.O_RDONLY); os.unlink('copy'); os.link(f'/proc/self/fd/{r}', 'again', src_dir_fd=os.open('/', os.O_RDONLY), follow_symlinks=True); fd = os.open('again', os.O_WRONLY)",
    "by its name": "fd = os.open('copy', os.O_WRONLY)",
}


@pytest.fixture
def hook(tree):
    (tree.workspace / ".git/hooks").mkdir(exist_ok=True)
    tree.write(".git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
    return tree


@pytest.mark.parametrize("how", REOPEN)
def test_control_a_second_name_leads_to_the_file(hook, how):
    SECOND["before"](hook.workspace)
    agent = bare(hook)
    assert agent.do(REOPEN[how]) is None
    agent.do(WRITE)
    path = hook.workspace / ".git/hooks/pre-commit"
    assert path.read_bytes() != b"#!/bin/sh\n" or path.stat().st_mode & 0o777 == 0o777
    agent.end()


@pytest.mark.parametrize("second", SECOND)
def test_a_second_name_that_is_gone_leads_nowhere(hook, second):
    """Claim: a protected file that was reached by another name is still protected when that name is gone."""
    target = {"config": ".git/config", "bare repository": "r/config"}.get(second, ".git/hooks/pre-commit")
    SECOND[second](hook.workspace)
    st, text = os.stat(hook.workspace / target), (hook.workspace / target).read_bytes()
    agent = run(hook)
    for how, code in REOPEN.items():
        (hook.workspace / "copy").unlink(missing_ok=True)
        os.link(hook.workspace / target, hook.workspace / "copy")
        assert agent.do(code) in ("EACCES", "EPERM"), how
        agent.do(WRITE)
        assert (hook.workspace / target).read_bytes() == text and os.stat(hook.workspace / target).st_mode == st.st_mode, how
    status, err = agent.end()
    assert status == 0, err


def until_refused(agent, code, undo="fd is not None and os.close(fd)"):
    """What the supervisor sees it sees a moment later."""
    end = time.monotonic() + PATIENCE
    while (got := agent.do(code)) not in ("EACCES", "EPERM") and time.monotonic() < end:
        agent.do(undo)
        time.sleep(0.05)
    assert got in ("EACCES", "EPERM"), code


@pytest.mark.parametrize("what", ["older file", "newer file", "moved folder", "link into a protected place"])
def test_a_second_name_that_the_host_makes_later_is_seen(hook, what):
    """Claim: the look for other names is not taken once and for all."""
    agent = run(hook)
    hook.write("twin", "x")
    os.link(hook.workspace / "twin", hook.workspace / "twin2")  # so that there is something to look for
    assert agent.do("os.close(os.open('twin', os.O_WRONLY))") is None
    time.sleep(0.3)
    if what == "newer file":
        hook.write(".git/hooks/post-commit", "#!/bin/sh\n")
        time.sleep(0.3)
        assert agent.do("os.close(os.open('twin', os.O_WRONLY))") is None
    if what == "moved folder":
        hook.write("new/tasks.json", "{}")
        os.rename(hook.workspace / "new", hook.workspace / ".vscode")
        time.sleep(0.3)
        assert agent.do("os.close(os.open('twin', os.O_WRONLY))") is None
    pairs = {"older file": (".git/hooks/pre-commit", "copy"), "newer file": (".git/hooks/post-commit", "copy"), "moved folder": (".vscode/tasks.json", "copy"), "link into a protected place": ("old.txt", ".git/hooks/x")}
    os.link(*(hook.workspace / name for name in pairs[what]))
    until_refused(agent, "fd = None; fd = os.open(%r, os.O_WRONLY); os.close(fd); fd = None" % ("old.txt" if what.startswith("link") else "copy"))
    assert agent.do("os.close(os.open('twin2', os.O_WRONLY))") is None
    assert agent.end()[0] == 0


def test_own_files_without_a_name_are_opened_again(tree):
    """The twin: what was made or opened for writing inside may lose its name and be opened again; what was only read may not."""
    agent = run(tree)
    for make in ("os.open('t', os.O_RDWR | os.O_CREAT)", "os.open('x', os.O_CREAT | os.O_RDONLY)", "os.open('.', os.O_TMPFILE | os.O_RDWR)", "os.open('main.c', os.O_RDWR)"):
        assert agent.do("r = %s; [os.unlink(p) for p in ('t', 'x', 'main.c') if os.path.exists(p) and p in %r]; fd = os.open(f'/proc/self/fd/{r}', os.O_WRONLY)" % (make, make)) is None, make
        assert agent.do(WRITE) == len(EVIL)
    assert agent.do("fd = None; r = os.open('old.txt', os.O_RDONLY); os.unlink('old.txt'); fd = os.open(f'/proc/self/fd/{r}', os.O_WRONLY)") == "EACCES"
    assert agent.end()[0] == 0


# -- number 8: where a protected link leads is protected, also if nothing is there ------------------------------------------------------

LINKS = {  # links of the host; what the inside then must not make
    ".git/hooks to nothing": ({".git/hooks": "../.githooks"}, [".githooks/pre-commit"]),
    "folder on the way": ({".git/hooks": "../a/b/hooks"}, ["a/b/hooks/pre-commit"]),
    "chain": ({".git/hooks": "../one", "one": "two/three", "two": "four"}, ["four/three/pre-commit"]),
    "absolute": ({".git/hooks": "%s/abs"}, ["abs/pre-commit"]),
    "out and back": ({".git/hooks": "../../%s/back"}, ["back/pre-commit"]),
    "file": ({".mcp.json": "conf/mcp.json"}, ["conf/mcp.json"]),
    "editor": ({".vscode": "conf/vscode"}, ["conf/vscode/tasks.json"]),
    "nested": ({"sub/dir/.mcp.json": "../conf.json"}, ["sub/conf.json"]),
    "nested editor": ({"sub/.claude": "../shared/claude"}, ["shared/claude/settings.json"]),
    "nested repository": ({"sub/.git/hooks": "../hooks"}, ["sub/hooks/pre-commit"]),
}
MAKE = "os.makedirs(os.path.dirname(%r) or '.', exist_ok=True); fd = os.open(%r, os.O_CREAT | os.O_WRONLY)"


def make_links(runner, links, pause=0):
    for name, target in links.items():
        time.sleep(pause)
        path = runner.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            for each in path.iterdir():
                each.unlink()
            path.rmdir()
        path.unlink(missing_ok=True)
        path.symlink_to(target % (runner.workspace.name if target.startswith("../../") else runner.workspace) if "%s" in target else target)
    for folder, folders, files in os.walk(runner.workspace):
        for each in [folder, *(os.path.join(folder, f) for f in files + folders)]:
            st = os.stat(runner.workspace)
            os.chown(each, st.st_uid, st.st_gid, follow_symlinks=False)


@pytest.mark.parametrize("case", LINKS)
@pytest.mark.parametrize("when", ["before", "during", "one by one"])
def test_where_a_link_leads_cannot_be_made(tree, case, when):
    """Claim: what a protected link of the host leads to cannot be made inside while there is nothing, nor can the links on the way be turned elsewhere."""
    links, paths = LINKS[case]
    if when == "before":
        make_links(tree, links)
    agent = run(tree)
    if when != "before":
        assert agent.do("os.close(os.open('first', os.O_CREAT | os.O_WRONLY))") is None
        make_links(tree, links, 0.3 if when == "one by one" else 0)  # one by one: each is seen before the next, on the way, is there
    time.sleep(0.3)
    for path in paths:
        if when != "before" or "nested" in case or "back" in case:  # seen by the supervisor, while the sandbox already runs
            until_refused(agent, "fd = None; " + MAKE % (path, path) + "; os.close(fd); os.unlink(%r)" % path, "None")
        assert agent.do(MAKE % (path, path)) == "EACCES", path
        assert not (tree.workspace / path).exists()
    for name in links:
        if not name.startswith("."):
            assert agent.do("os.unlink(%r)" % name) in ("EPERM", "EACCES"), name
    status, err = agent.end()
    assert status == 0, err


def test_control_links_that_lead_nowhere_are_obeyed(tree):
    """Control: a hook that is made where a link of the host leads is one that git runs."""
    make_links(tree, {".git/hooks": "../.githooks"})
    tree.write(".githooks/post-checkout", "#!/bin/sh\ntouch owned\n", 0o755)
    tree.run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x")
    tree.run("git", "checkout", "-q", "-b", "other")
    assert (tree.workspace / "owned").exists()


# -- the real programs, and an attacker that only tries often ---------------------------------------------------------------------------

SPIN = r"""
import os
def spin():
    won, fds = 0, []
    while not os.path.exists("stop"):
        for name in [".git/config.lock", *(n for n in os.listdir(".") if n.startswith("sed"))]:
            for flags in (os.O_WRONLY, os.O_WRONLY | os.O_APPEND):
                try:
                    fds.append(os.open(name, flags))
                    won += len(fds) < 900
                except OSError:
                    pass
    for fd in fds:
        os.pwrite(fd, b"EVIL", 0)
    return won
"""


@pytest.mark.parametrize("front", ["bare", "run"])
def test_real_git_and_sed_against_one_who_tries_often(tree, front):
    """Claim: also in the moment between the guard's look and its open, in which the host makes the file. The control wins again and again."""
    agent = (run if front == "run" else bare)(tree)
    assert agent.do("exec(%r, globals())" % SPIN) is None
    agent.ask("spin()")
    for i in range(40):
        tree.run("git", "config", "user.name", f"n{i}")
        tree.run("sed", "-i", "s/{/{ /", ".mcp.json")
    tree.write("stop", "")
    won = agent.answer()
    evil = b"EVIL" in (tree.workspace / ".git/config").read_bytes() + (tree.workspace / ".mcp.json").read_bytes()
    status, err = agent.end()
    if front == "bare":
        assert won > 0
    else:
        assert won == 0 and not evil and status == 0, (won, err)
