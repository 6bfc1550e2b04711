# SPDX-License-Identifier: Apache-2.0
"""Help, man page, completions and documentation all say what the program accepts, and real tools can read them."""

import os
import pathlib
import pty
import re
import shlex
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from person import read_all  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def need(program):
    if not shutil.which(program, path="/usr/bin:/bin"):
        pytest.skip(f"needs the program {program}")


@pytest.fixture
def user(user_runner):
    return user_runner


@pytest.fixture
def commands(user):
    """{"run": {"--profile", "-p", ...}, "profile ls": {...}} as `bawn help` tells it."""
    listed = user.bawn("help").out.decode().split("Commands\n")[1].split("\n\n")[0]
    names = [re.match(r"  (\S+(?: \S+)?)(?:  |$)", line)[1] for line in listed.splitlines() if re.match(r"  \S", line)]
    return {name: options_in(user.bawn("help", *name.split()).out.decode()) for name in names}


def options_in(text):
    rows = re.findall(r"^  (?:(-\w), |    )(--[a-z0-9-]+)", text.split("\nOptions\n")[1], re.M)
    return {option for row in rows for option in row if option}


def on_terminal(user, *args, **env):
    """What bawn writes when its standard output is a terminal."""
    master, slave = pty.openpty()
    proc = user.popen(user.path, *args, stdout=slave, env={"TERM": "xterm", **env})
    os.close(slave)
    text = read_all(master)
    assert proc.wait() == 0
    return text


def test_help_lists_commands(commands):
    assert {"run", "doctor", "help", "completion", "version"} <= set(commands)


def test_both_ways_to_ask_for_help_agree(user, commands):
    for name in commands:
        asked, flag = user.bawn("help", *name.split()), user.bawn(*name.split(), "--help")
        assert asked.rc == flag.rc == 0, (asked, flag)
        assert asked.out == flag.out
        assert asked.out.startswith(b"Usage\n  bawn " + name.encode()), asked
        assert asked.err == flag.err == b""


def test_help_is_asked_for_anywhere_among_the_options(user, commands):
    lines = [[*name.split(), "--json", "--help"] for name, options in commands.items() if "--json" in options]
    lines += [["log", "web", "--help"], ["policy", "allow", "example.com", "-h"], ["exec", "-d", "--help"], ["start", "web", "--help"], ["ps", "-ah"],
              ["secret", "set", "x", "--help"], ["completion", "bash", "--help"], ["profile", "new", "-h"]]  # fmt: skip
    for words in lines:
        r = user.bawn(*words)
        verb = " ".join(words[:2]) if " ".join(words[:2]) in commands else words[0]
        assert r.rc == 0 and r.err == b"" and r.out == user.bawn("help", *verb.split()).out, r


def test_help_has_nothing_that_is_for_bawn_itself(user, commands):
    assert not [o for options in commands.values() for o in options if o in ("--result-fd", "--passing")]
    assert b"for bawn itself" not in user.bawn("help", "--man").out


def test_help_that_cannot_be_written_is_no_success(user):
    for words in ("", "help", "--help", "run --help", "help run", "ps --json --help", "explain -n --help"):
        r = user.run("sh", "-c", f"{shlex.quote(str(user.path))} {words} >/dev/full")
        assert r.rc == 125 and b"bawn: write the result: No space left on device" in r.err, r


def test_help_for_a_group(user):
    r = user.bawn("help", "profile")
    assert r.rc == 0 and b"profile show" in r.out and b"doctor" not in r.out, r


def test_slip_gets_a_suggestion(user):
    for r in (user.bawn("help", "docter"), user.bawn("docter")):
        assert r.rc == 64 and b"doctor" in r.err and r.out == b"", r


def test_commands_that_do_not_exist(user, commands):
    """Also of a group: no usage with exit status 0."""
    groups = {name.split()[0] for name in commands if " " in name} - set(commands)
    assert {"policy", "secret", "profile", "config", "pool"} <= groups
    for group in groups:
        nope, bare, flag, asked = (user.bawn(group, "nope"), user.bawn(group), user.bawn(group, "--help"), user.bawn("help", group))
        assert nope.rc == 64 and nope.out == b"", nope
        assert f"there is no command '{group} nope'\n".encode() in nope.err and f"see 'bawn help {group}'".encode() in nope.err, nope
        assert bare.rc == 64 and flag.rc == asked.rc == 0, (bare, flag, asked)
        assert bare.out == flag.out == asked.out, bare
    for words, meant in ((["policy", "lss"], "policy ls"), (["config", "shwo"], "config show"), (["polcy", "ls"], "policy")):
        r = user.bawn(*words)
        assert r.rc == 64 and f"(did you mean '{meant}'?)".encode() in r.err, r


def test_colours_only_on_a_terminal(user):
    assert b"\x1b" not in user.bawn("help", env={"TERM": "xterm"}).out
    assert b"\x1b[1m" in on_terminal(user, "help")
    assert b"\x1b" not in on_terminal(user, "help", NO_COLOR="1")
    assert b"\x1b" not in on_terminal(user, "help", TERM="dumb")


def test_man_page_has_no_warnings_and_misses_nothing(user, commands):
    need("groff")
    page = user.bawn("help", "--man")
    assert page.rc == 0 and page.err == b"", page
    shown = user.run("groff", "-man", "-Tascii", "-ww", "-P-cbou", "-rLL=200n", input=page.out)
    assert shown.rc == 0 and shown.err == b"", shown
    text = shown.out.decode()
    for name, options in commands.items():
        assert f"bawn {name}" in text
        for option in options - {"--help", "-h"}:
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", text), option
    for word in ("BAWN_SANDBOX", "BAWN_PROFILE", "BAWN_SANDBOX_IMAGE", "BAWN_PASSPHRASE_FILE", "BAWN_OPEN", "64", "125", "126", "127", "128+N"):
        assert word in text


@pytest.fixture
def sandboxes(user):
    """Two kept sandboxes, of which nothing runs."""
    for name in ("alpha", "beta"):
        for words in (("start", name, "--network", "none"), ("stop", name)):
            r = user.bawn(*words)
            assert r.rc == 0, r
    return {"alpha", "beta"}


BASH = """
source ./script
complete -p bawn >/dev/null || exit 1
offer() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _bawn
    echo "${COMPREPLY[*]}"
}
"""


@pytest.fixture
def script(user):
    """script(shell): writes that shell's completions to the file "script" and puts bawn in front of PATH."""

    def write(shell):
        need(shell)
        r = user.bawn("completion", shell)
        assert r.rc == 0 and r.err == b"", r
        user.write("script", r.out)
        return {"PATH": f"{user.path.parent}:/usr/bin:/bin"}

    return write


def test_bash_completion(user, script, commands):
    env = script("bash")
    assert user.run("bash", "-n", "script").rc == 0

    def offers(*words):
        r = user.run("bash", "-c", BASH + shlex.join(["offer", "bawn", *words]), env=env)
        assert r.rc == 0 and r.err == b"", r
        return set(r.out.decode().split())

    assert offers("") == {name.split()[0] for name in commands} | {"--help", "--version"}
    assert offers("doc") == {"doctor"}
    assert offers("profile", "") == {name.split()[1] for name in commands if name.startswith("profile ")}
    for name, options in commands.items():
        assert offers(*name.split(), "--") == {o for o in options if o.startswith("--")}, name
    assert {"dev", "safe", "tight", "offline"} <= offers("run", "--profile", "")
    assert {"claude", "codex", "gemini", "opencode"} <= offers("run", "--agent", "")
    assert offers("agents", "--install", "cod") == {"codex"}
    assert offers("run", "--sandbox", "=", "req") == {"require"}
    assert "true" in offers("run", "--", "tru")
    assert "true" in offers("run", "--memory", "64m", "tru")
    assert offers("run", "--", "true", "--mem") == set(), "options of the command are not options of bawn"
    user.mkdir(user.workspace / "folder")
    assert offers("run", "-C", "fol") == {"folder"}


def test_bash_completion_of_sandboxes(user, script, sandboxes):
    env = script("bash")
    user.write("alone", "")
    lines = [("exec", ""), ("stop", "alpha", ""), ("status", "be"), ("status", "alpha", ""), ("log", "be"), ("checkpoint", ""), ("checkpoint", "rm", ""),
             ("cp", "al"), ("exec", "-w", "/", "alpha", "tru"), ("exec", "alpha", "--", "tru"), ("exec", "alpha", "true", "--de"),
             ("start", "alpha", "--prof"), ("start", "alpha", "--", "tru")]  # fmt: skip
    r = user.run("bash", "-c", BASH + "\n".join(shlex.join(["offer", "bawn", *words]) for words in lines), env=env)
    assert r.rc == 0 and r.err == b"", r
    offered = dict(zip(lines, (set(line.split()) for line in r.out.decode().splitlines()), strict=True))
    for words in (("exec", ""), ("stop", "alpha", ""), ("checkpoint", "rm", "")):
        assert offered[words] == sandboxes, words
    assert offered["checkpoint", ""] == sandboxes | {"ls", "rm"}
    assert offered["status", "be"] == offered["log", "be"] == {"beta"}
    assert offered["status", "alpha", ""] == set(), "there is one at most"
    assert offered["cp", "al"] == {"alpha:", "alone"}
    for words in (("exec", "-w", "/", "alpha", "tru"), ("exec", "alpha", "--", "tru"), ("start", "alpha", "--", "tru")):
        assert "true" in offered[words], words
    assert offered["exec", "alpha", "true", "--de"] == set(), "options of the command are not options of bawn"
    assert offered["start", "alpha", "--prof"] == {"--profile"}


def test_zsh_completion_is_valid(user, script):
    env = script("zsh")
    r = user.run("zsh", "-f", "-c", "zsh -n script && autoload -Uz compinit && compinit -u -D && source ./script && print $_comps[bawn]", env=env)
    assert r.rc == 0 and r.out == b"_bawn\n" and r.err == b"", r


def test_fish_completion(user, script, commands):
    env = script("fish")
    assert user.run("fish", "--no-execute", "script").rc == 0

    def offers(line):
        r = user.run("fish", "--no-config", "-c", f"source ./script; complete -C {shlex.quote(line)}", env=env)
        assert r.rc == 0 and r.err == b"", r
        return {entry.split("\t")[0] for entry in r.out.decode().splitlines()}

    assert offers("bawn ") == {name.split()[0] for name in commands}
    assert offers("bawn profile ") == {name.split()[1] for name in commands if name.startswith("profile ")}
    assert {"dev", "tight"} <= offers("bawn run --profile ")
    assert {"claude", "codex", "gemini", "opencode"} <= offers("bawn run --agent ")
    assert offers("bawn secret ") == {name.split()[1] for name in commands if name.startswith("secret ")}
    assert {"--memory"} <= offers("bawn run --mem")
    assert offers("bawn completion ") == {"bash", "zsh", "fish"}


def test_fish_completion_of_sandboxes(user, script, sandboxes):
    env = script("fish")
    user.write("alone", "")
    lines = ["bawn exec ", "bawn stop alpha ", "bawn status alpha ", "bawn cp al", "bawn exec alpha tru", "bawn start alpha -- tru"]
    r = user.run("fish", "--no-config", "-c", "source ./script\n" + "\n".join(f"complete -C {shlex.quote(line)}; echo ." for line in lines), env=env)
    assert r.rc == 0 and r.err == b"", r
    offered = [{entry.split("\t")[0] for entry in part.splitlines()} for part in r.out.decode().split(".\n")[:-1]]
    assert offered[0] == offered[1] == sandboxes and offered[2] == set(), offered
    assert offered[3] == {"alpha:", "alone"} and "true" in offered[4] and "true" in offered[5], offered


def test_completion_for_an_unknown_shell(user):
    r = user.bawn("completion", "tcsh")
    assert r.rc == 64 and r.out == b"" and b"bash, zsh or fish" in r.err, r


def documented():
    """(file, line) of every command line that starts with bawn in a code block of the documentation."""
    for path in [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]:
        fenced = False
        for line in path.read_text().splitlines():
            fenced ^= line.startswith("```")
            match = re.match(r"(?:    |\$ |    \$ )?(?:build/)?(bawn [a-z].*)", line) if fenced or line.startswith("    ") else None
            if match:
                yield path.name, match[1]


def test_documentation_uses_what_exists(commands):
    seen = 0
    for name, line in documented():
        words = re.split(r"  +|\s#|\s\|\s", line.replace("…", ""))[0].split()[1:]
        verb = " ".join(words[:2]) if " ".join(words[:2]) in commands else words[0]
        if verb not in commands:
            assert any(c.startswith(verb + " ") for c in commands), f"{name}: no command '{verb}' for: {line}"
            continue
        for word in words:
            if word == "--":
                break
            if word.startswith("-"):
                option = word.split("=")[0].rstrip("]")
                assert option in commands[verb], f"{name}: '{verb}' has no {option}: {line}"
        seen += 1
    assert seen > 5, "the documentation shows hardly any command; is this test looking in the right place?"
