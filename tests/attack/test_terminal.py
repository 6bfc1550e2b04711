# SPDX-License-Identifier: Apache-2.0
"""ATTACKS.md C5.77, 78: the user's terminal."""

import subprocess
import textwrap

import pexpect
import pytest


class Terminal:
    """A person at a real pseudo terminal."""

    def __init__(self, runner, *argv, **env):
        identity = (
            []
            if runner.is_root
            else ["setpriv", f"--reuid={runner.user.pw_uid}", f"--regid={runner.user.pw_gid}", "--clear-groups"]
        )
        argv = [*identity, *map(str, argv)]
        self.child = pexpect.spawn(
            argv[0],
            argv[1:],
            env=runner.environ({"TERM": "xterm-256color", **env}),
            cwd=str(runner.workspace),
            echo=False,
            dimensions=(24, 80),
            timeout=120,
        )

    def rest(self):
        self.child.expect(pexpect.EOF)
        out = self.child.before
        self.child.close()
        return out


def at_terminal(runner, *argv, **env):
    return Terminal(runner, *argv, **env).rest()


READ_BACK = 'IFS= read -r -t 1 line; echo "typed=[$line]"'


@pytest.mark.parametrize(
    "bits", ["0", "0x100000000", "0xffffffff00000000"], ids=["plain", "one-upper-bit", "all-upper-bits"]
)
def test_no_character_can_be_typed_for_the_user(runner, probe, bits):
    """Claim: TIOCSTI puts nothing into the queue of the user's terminal, also with bits set that the kernel ignores
    (77: CVE-2017-5226, CVE-2019-7303)."""
    outside = at_terminal(runner, "bash", "-c", f"./probe tiocsti {bits}; {READ_BACK}")
    assert b"typed=[injected]" in outside, outside
    inside = at_terminal(runner, "bash", "-c", f"{runner.path} run -- ./probe tiocsti {bits}; echo rc=$?; {READ_BACK}")
    assert b"rc=3" in inside and b"typed=[]" in inside, inside


@pytest.mark.parametrize("bits", ["0", "0x100000000"])
def test_console_selection_ioctl_is_refused(runner, probe, bits):
    """Claim: TIOCLINUX never reaches a terminal driver (77)."""
    outside = at_terminal(runner, "bash", "-c", f"./probe tioclinux {bits}; echo rc=$?")
    assert b"rc=0" in outside, outside
    inside = at_terminal(runner, "bash", "-c", f"{runner.path} run -- ./probe tioclinux {bits}; echo rc=$?")
    assert b"rc=3" in inside, inside


def test_the_terminal_inside_is_another_one(runner):
    """Claim: the command's terminal is Bawn's own; the user's device does not exist inside (77)."""
    code = "import os; s = os.fstat(0); print(os.isatty(0), s.st_dev)"
    r = at_terminal(
        runner, "bash", "-c", f"/usr/bin/python3 -c '{code}'; {runner.path} run -- /usr/bin/python3 -c '{code}'"
    )
    seen = [line for line in r.decode().splitlines() if line.startswith("True ")]
    assert len(seen) == 2 and seen[0] != seen[1], r


def test_without_a_terminal_there_is_no_controlling_one(runner):
    """Claim: with stdio redirected, the user's terminal cannot be had through /dev/tty either (77)."""
    code = "exec 3<>/dev/tty && echo gotit"
    outside = at_terminal(runner, "bash", "-c", f"sh -c '{code}' </dev/null 2>&1 | cat")
    assert b"gotit" in outside, outside
    inside = at_terminal(runner, "bash", "-c", f"{runner.path} run -- sh -c '{code}' </dev/null 2>&1 | cat")
    assert b"gotit" not in inside, inside


BAD = {
    "clipboard-bel": rb"\033]52;c;b3duZWQ=\a",
    "clipboard-st": rb"\033]52;c;b3duZWQ=\033\\",
    "clipboard-c1": rb"\302\23552;c;b3duZWQ=\302\234",
    "clipboard-raw-c1": rb"\23552;c;b3duZWQ=\a",
    "clipboard-query": rb"\033]52;c;?\a",
    "title-report": rb"\033[21t",
    "dcs-request": rb"\033P$q\"p\033\\",
    "decrqss-xtgettcap": rb"\033P+q544e\033\\",
    "iterm-file": rb"\033]1337;File=inline=1:aGk=\a",
    "iterm-copy": rb"\033]1337;CopyToClipboard=\a",
    "kitty-clipboard": rb"\033]5522;type=write\033\\",
    "apc": rb"\033_Gf=32;AAAA\033\\",
}


def forbidden(output):
    """What would make the user's terminal act or answer."""
    return [
        seq
        for seq in (b"\033]52", b"\x9d52", b"\xc2\x9d52", b"\033[21t", b"\033P", b"\033]1337", b"\033]5522", b"\033_")
        if seq in output
    ]


@pytest.mark.parametrize("name", list(BAD))
def test_sequences_that_reprogram_the_terminal_are_filtered(runner, name):
    """Claim: output cannot set the clipboard, ask for reports that are typed back, or draw files (78)."""
    command = "printf '%s'; printf 'after\\n'" % BAD[name].decode("latin-1")
    outside = at_terminal(runner, "bash", "-c", command)
    assert forbidden(outside), outside
    runner.write("say.sh", command.encode("latin-1"))
    inside = at_terminal(runner, runner.path, "run", "--", "bash", "say.sh")
    assert b"after" in inside and not forbidden(inside), inside


@pytest.mark.parametrize("name", ["clipboard-bel", "clipboard-st", "dcs-request"])
def test_sequences_in_single_bytes_are_filtered(runner, name):
    """Claim: a sequence that arrives in pieces is recognised all the same (78)."""
    runner.write(
        "say.py",
        textwrap.dedent(
            """
        import os, sys, time
        for byte in bytes.fromhex(sys.argv[1]):
            os.write(1, bytes([byte])); time.sleep(0.02)
        print("after")
    """
        ),
    )
    raw = subprocess.run(["printf", BAD[name].decode()], capture_output=True).stdout
    inside = at_terminal(runner, runner.path, "run", "--", "/usr/bin/python3", "say.py", raw.hex())
    assert b"after" in inside and not forbidden(inside), inside


def test_a_sequence_without_an_end_swallows_no_later_output(runner):
    """Claim: an unterminated sequence is dropped, not the rest of the session (78)."""
    inside = at_terminal(
        runner,
        runner.path,
        "run",
        "--",
        "bash",
        "-c",
        r"printf '\033]52;c;aaaa'; sleep 0.2; printf '\n'; head -c 20000 /dev/zero | tr '\0' x; printf '\033[0m\r\nafter\n'",
    )
    assert not forbidden(inside), inside[:200]
    assert b"after" in inside, inside[-200:]


def test_colours_and_titles_pass(runner):
    """Claim: what ordinary programs print is left alone."""
    good = rb"\033[1;31mred\033[0m \033[2K\033[5;10H\033[?25l\033[?25h\033[38;2;1;2;3mrgb\033[m \342\234\223"
    outside = subprocess.run(["printf", good.decode()], capture_output=True).stdout
    inside = at_terminal(runner, runner.path, "run", "--", "printf", good.decode())
    assert outside in inside, inside


def test_bytes_through_a_pipe_are_left_alone(runner):
    """Claim: without a terminal nothing is filtered: data is data."""
    r = runner.bawn("run", "--", "printf", BAD["clipboard-bel"].decode())
    assert r.out == b"\033]52;c;b3duZWQ=\a", r


def test_names_in_bawn_s_own_messages_are_made_harmless(runner):
    """Claim: Bawn's own messages never carry an escape sequence that came from a file or argument (42, 78)."""
    r = runner.bawn("run", "--", "./\033]52;c;b3duZWQ=\a")
    assert r.rc == 127 and b"\033" not in r.err, r
    folder = runner.mkdir(runner.top / "evil\033]52;c;eA==\a")
    runner.mkdir(folder / ".bawn")
    runner.write(folder / ".bawn" / "config.json", "{ nonsense \033]0;x\a")
    r = runner.bawn("run", "--", "true", cwd=folder)
    assert b"\033" not in r.err, r


def test_the_terminal_is_given_back_as_it_was(runner):
    """Claim: settings of the user's terminal survive the run, also a killed one (77)."""
    r = at_terminal(
        runner,
        "bash",
        "-c",
        f'a=$(stty -g); {runner.path} run -- sh -c \'stty raw -echo; true\'; b=$(stty -g); [ "$a" = "$b" ] && echo same',
    )
    assert b"same" in r, r
    for _ in range(12):  # a race between the end and the last look at the terminal's mode was seen
        r = at_terminal(
            runner,
            "bash",
            "-c",
            f'a=$(stty -g); {runner.path} run --timeout 300ms -- sh -c \'stty raw -echo; sleep 100\'; b=$(stty -g); [ "$a" = "$b" ] && echo same',
        )
        assert b"same" in r, r
