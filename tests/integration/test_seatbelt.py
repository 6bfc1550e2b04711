# SPDX-License-Identifier: Apache-2.0
"""Profiles for macOS's sandbox-exec: an evaluator of their language (sbpl.scm) says what each allows, and git what it must hide.

Nothing here runs on a Mac. What is proven is that the profile says what the policy says.
"""

import pathlib
import random
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
EVALUATOR = HERE / "sbpl.scm"
READ, WRITE, MAKE, MOVE = "file-read-data", "file-write-data", "file-write-create", "file-write-unlink"
HOME, TMP, GATE = "/private/tmp/bawn/home", "/private/tmp/bawn/tmp", "localhost:4711"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Profile:
    """What `bawn run --dry-run --engine sandbox-exec` prints for the runner's workspace."""

    def __init__(self, runner, *options):
        r = runner.bawn("run", "--engine", "sandbox-exec", "--dry-run", "--json", *options, "--", "make", "a b")
        assert r.rc == 0, r
        self.text, self.argv, self.top = r.json()["profile"], r.json()["argv"], runner.top
        self.w = f"/private{runner.workspace}" if str(runner.workspace).startswith(("/var/", "/tmp/")) else str(runner.workspace)

    def ask(self, questions, gate=GATE):
        """[(operation, subject[, type])]: a list of "allow" and "deny"."""
        profile, asked = self.top / "p.sb", self.top / "asked.scm"
        profile.write_text(self.text)
        asked.write_text("(" + "\n".join(f"({q[0]} {quoted(q[1])} {q[2] if len(q) > 2 else 'REGULAR-FILE'})" for q in questions) + ")")
        r = subprocess.run(["guile", "--no-auto-compile", EVALUATOR, profile, asked, f"BAWN_HOME={HOME}", f"BAWN_TMP={TMP}", f"BAWN_GATE={gate}"],
                           capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        return r.stdout.split()

    def check(self, table):
        answers = self.ask([row[:-1] for row in table])
        wrong = [(row, answer) for row, answer in zip(table, answers, strict=True) if row[-1] != answer]
        assert not wrong, wrong


def rows(ops, paths, want, kind="REGULAR-FILE"):
    return [(op, p, kind, want) for op in ops for p in paths]


def test_the_policy_table(runner):
    """Claim: the workspace, a home and temporary files of its own; the system to read; nothing else."""
    p = Profile(runner)
    w = p.w
    p.check(
        rows([READ, WRITE, MAKE, MOVE, "process-exec*"], [f"{w}/a.c", f"{w}/deep/er/x", f"{HOME}/x", f"{TMP}/x"], "allow")
        + rows([READ, "process-exec*"], ["/usr/bin/make", "/bin/sh", "/System/Library/x", "/opt/homebrew/bin/x"], "allow")
        + rows([WRITE, MAKE, MOVE], ["/usr/bin/make", "/opt/homebrew/bin/x", "/private/etc/hosts", "/Users/u/x", "/private/tmp/x", "/Library/LaunchAgents/x.plist"], "deny")
        + rows([READ], ["/Users/u/.ssh/id_ed25519", "/Users/u/Library/Keychains/login.keychain-db", "/Library/Keychains/System.keychain", f"{w}x", f"{w}.key", "/private/var/folders/x",
                        "/private/etc/master.passwd", "/System/Volumes/Data/Users/u/x", "/Volumes/disk/x", "/dev/ttys003", "/dev/disk0"], "deny")
        + rows([MOVE, "file-write-mode"], [w], "deny", "DIRECTORY")
        + rows([WRITE], ["/dev/null", "/dev/tty"], "allow") + rows([WRITE], ["/dev/ttys003", "/dev/disk0"], "deny")
        + rows(["file-read-metadata"], [str(x) for x in pathlib.Path(w).parents if str(x) != "/"], "allow", "DIRECTORY")
        + rows(["file-write-setugid"], [f"{w}/a"], "deny")
        + [("network-outbound", f"ip:{GATE}", "REGULAR-FILE", "allow"), ("network-outbound", "ip:localhost:22", "REGULAR-FILE", "deny"),
           ("network-outbound", "ip:*:443", "REGULAR-FILE", "deny"), ("network-outbound", "/private/var/run/mDNSResponder", "REGULAR-FILE", "deny"),
           ("network-inbound", "ip:*:80", "REGULAR-FILE", "deny"), ("network-bind", "ip:*:80", "REGULAR-FILE", "deny")]
        + [("mach-lookup", f"com.apple.{n}", "REGULAR-FILE", want) for n, want in (
            ("system.opendirectoryd.libinfo", "allow"), ("securityd.xpc", "deny"), ("coreservices.launchservicesd", "deny"), ("trustd.agent", "deny"),
            ("pasteboard.1", "deny"), ("tccd", "deny"), ("SystemConfiguration.configd", "deny"))]
        + [("sysctl-read", "hw.ncpu", "REGULAR-FILE", "allow"), ("sysctl-read", "kern.procargs2", "REGULAR-FILE", "deny"), ("sysctl-write", "hw.ncpu", "REGULAR-FILE", "deny"),
           ("signal", "same-sandbox", "REGULAR-FILE", "allow"), ("signal", "others", "REGULAR-FILE", "deny"), ("process-info-pidinfo", "others", "REGULAR-FILE", "deny"),
           ("appleevent-send", "x", "REGULAR-FILE", "deny"), ("iokit-open", "x", "REGULAR-FILE", "deny"), ("job-creation", "x", "REGULAR-FILE", "deny")])


def test_without_a_network_there_is_none(runner):
    p = Profile(runner, "--network", "none")
    assert "BAWN_GATE" not in p.text and not any("BAWN_GATE" in a for a in p.argv)
    p.check([("network-outbound", f"ip:{GATE}", "REGULAR-FILE", "deny")])


def test_read_only(runner):
    p = Profile(runner, "--workspace", "ro")
    p.check(rows([READ], [f"{p.w}/x"], "allow") + rows([WRITE, MAKE, MOVE], [f"{p.w}/x", p.w], "deny"))


def test_mounts(runner):
    ro, rw = (runner.mkdir(runner.top / n) for n in ("ro", "rw"))
    p = Profile(runner, "--mount", str(ro), "--mount", f"{rw}:rw")
    top = str(pathlib.Path(p.w).parent)
    p.check(rows([READ], [f"{top}/ro/x", f"{top}/rw/x"], "allow") + rows([WRITE], [f"{top}/rw/x"], "allow") + rows([WRITE, MAKE], [f"{top}/ro/x"], "deny")
            + rows([READ], [f"{top}/other"], "deny"))


def test_hidden_files(runner):
    """Claim: what .sandboxignore hides cannot be read, in any spelling, nor by moving a folder on its way, nor by a link."""
    runner.write(".sandboxignore", "secret/\n/conf/*.json\n!/conf/public.json\n.env*\n!.env.example\na/**/z.key\n")
    runner.write("web/.sandboxignore", "/local.txt\n")
    p = Profile(runner)
    hidden = ["secret/x", "deep/secret/x/y", "conf/a.json", ".env", "x/.env.local", "a/z.key", "a/b/c/z.key", "web/local.txt",
              "SECRET/x", ".ENV", "Conf/A.JSON", "secret"]
    seen = ["conf/public.json", ".env.example", "x/conf/a.json", "secrets", "conf/a.json5", "z.key", "b/z.key", "local.txt", "web/x/local.txt"]
    p.check(rows([READ, WRITE, MAKE, MOVE, "file-link", "file-read-metadata"], [f"{p.w}/{x}" for x in hidden], "deny")
            + rows([READ, WRITE, MAKE], [f"{p.w}/{x}" for x in seen], "allow")
            + rows([MOVE], [f"{p.w}/{x}" for x in ("conf", "a", "a/b", "a/b/c", "web")], "deny", "DIRECTORY")
            + rows([MOVE], [f"{p.w}/other"], "allow", "DIRECTORY"))


def test_protected_files(runner):
    """Claim: what the host would run or obey can be read and not changed, nor moved out of the way."""
    p = Profile(runner)
    protected = [".git/hooks/pre-commit", ".git/config", "sub/.git/hooks/x", ".GIT/hooks/x", ".git/Hooks/x", ".vscode/tasks.json", ".git/modules/m/n/hooks/x"]
    p.check(rows([WRITE, MAKE, MOVE], [f"{p.w}/{x}" for x in protected], "deny") + rows([READ], [f"{p.w}/{x}" for x in protected], "allow")
            + rows([WRITE, MAKE], [f"{p.w}/.git/{x}" for x in ("HEAD", "index", "objects/ab/cd", "refs/heads/x")] + [f"{p.w}/src/x"], "allow")
            + rows([MAKE], [f"{p.w}/.git"], "allow", "DIRECTORY") + rows([MAKE], [f"{p.w}/.git"], "deny") + rows([MAKE], [f"{p.w}/.git"], "deny", "SYMLINK")
            + rows([MOVE], [f"{p.w}/.git", f"{p.w}/.git/modules/m"], "deny", "DIRECTORY"))


NAMES = ['quote " and \\ back', "(paren) [x] {y} ^$.*+?|", "line\nend", "ünï ☃ \U0001f600", "#\"raw\"", "; comment", "a'b"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_workspace(runner, name):
    """Attack: a folder whose name would be read as something else in the profile."""
    runner.workspace = runner.mkdir(runner.top / name)
    runner.write(".sandboxignore", "*.key\n")
    p = Profile(runner)
    p.check(rows([READ], [f"{p.w}/a"], "allow") + rows([READ], [f"{p.w}/a.key", f"{p.w}/x/A.KEY", f"{p.w}x/a"], "deny") + rows([WRITE], [f"{p.w}/.git/config"], "deny"))


WORDS = ["a", "b", ".env", "x.key", "lib", "A", "é"]
PIECES = ["a", "b", "*", "?", "**", "*.key", ".env*", "[ab]", "[!a]", "lib", "\\*", "x.k?y", "é", "[é]"]


def random_rules(rng):
    lines = []
    for _ in range(rng.randint(1, 6)):
        line = "/".join(rng.choice(PIECES) for _ in range(rng.randint(1, 3)))
        lines.append(rng.choice(["", "", "", "!"]) + rng.choice(["", "", "/"]) + line + rng.choice(["", "", "/"]) + rng.choice(["", "", " "]))
    return lines


def git_hides(folder, lines, paths):
    """The files that git would ignore."""
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".git/info/exclude").write_text("\n".join(lines) + "\n")
    r = subprocess.run(["git", "-C", folder, "check-ignore", "--no-index", "-z", "--stdin"], input="\0".join(paths), capture_output=True, text=True)
    return set(r.stdout.split("\0"))


def test_profiles_hide_what_git_would(runner):
    """Random rules: nothing that git ignores can be read; without "!", nothing else is denied but other spellings, and files where only folders are meant."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    paths = sorted({"/".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4))) for _ in range(60)})
    hidden_in_all = 0
    for i in range(12):
        lines = random_rules(rng)
        runner.write(".sandboxignore", "\n".join(lines) + "\n")
        hidden = git_hides(runner.top / f"git-{i}", lines, paths)
        p = Profile(runner)
        answers = dict(zip(paths, p.ask([(READ, f"{p.w}/{x}") for x in paths]), strict=True))
        leaks = [x for x in paths if x in hidden and answers[x] == "allow"]
        assert not leaks, (seed, lines, leaks)
        hidden_in_all += len(hidden)
        plain = not any(x.startswith("!") or x.rstrip(" ").endswith("/") or "?" in x or "[" in x for x in lines)
        if plain:
            lower = [x for x in paths if not any(part == "A" for part in x.split("/"))]
            assert [x for x in lower if x not in hidden and answers[x] == "deny"] == [], (seed, lines)
    assert hidden_in_all > 0, seed


# -- the command line ------------------------------------------------------------------------------------------------------------------------------



def stand_in(runner):
    """Refuses what the profile does not let it execute; else it is the command."""
    path = runner.write(runner.top / "bin/sandbox-exec", f'''#!/usr/bin/python3
import os, subprocess, sys
words, profile, params = sys.argv[1:], None, []
while words and words[0] in ("-f", "-D"):
    if words[0] == "-f":
        profile = words[1]
    else:
        params.append(words[1])
    words = words[2:]
if not profile or not words:
    sys.exit("Usage: sandbox-exec [options] command [args]")
open("asked", "w").write('((process-exec* "' + words[0] + '" REGULAR-FILE))')
r = subprocess.run(["guile", "--no-auto-compile", "{EVALUATOR}", profile, "asked", *params], capture_output=True, text=True)
if r.returncode:
    sys.stderr.write("sandbox-exec: " + r.stderr)
    sys.exit(65)
if r.stdout.strip() != "allow":
    sys.stderr.write("sandbox-exec: execvp() of '" + words[0] + "' failed: Operation not permitted\\n")
    sys.exit(71)
os.execvp(words[0], words)
''', 0o755)
    return path


@pytest.mark.parametrize(("program", "status"), [("/bin/sh", 7), ("/Users/u/evil", 71)])
def test_the_command_line(runner, program, status):
    r = runner.bawn("run", "--engine", "sandbox-exec", "--dry-run", "--json", "--", program, "-c", 'exit 7')
    profile, argv = r.json()["profile"], r.json()["argv"]
    assert argv[:3] == ["sandbox-exec", "-f", "bawn.sb"] and argv[-3:] == [program, "-c", "exit 7"], argv
    runner.write("bawn.sb", profile)
    ready = [a.replace("=HOME", f"={HOME}").replace("=TMP", f"={TMP}").replace(":PORT", ":4711") for a in argv]
    assert runner.run(stand_in(runner), *ready[1:]).rc == status
    runner.write("bawn.sb", profile.replace("(allow process-fork)", "(allow process-frok)"))
    assert runner.run(stand_in(runner), *ready[1:]).rc == 65, "the stand-in reads the profile"


def test_a_run_is_refused(runner):
    r = runner.bawn("run", "--engine", "sandbox-exec", "--", "true")
    assert r.rc == 125 and b"not run on a Mac" in r.err and b"--dry-run" in r.err, r
    rung = next(e for e in runner.bawn("engines", "--json").json()["engines"] if e["name"] == "sandbox-exec")["rungs"][0]
    assert rung["available"] is False and rung["keeps"] == [] and "not run on a Mac" in rung["why"] and "--dry-run" in rung["remedy"]
    assert b"sandbox-exec: not available; generated only, not run on a Mac" in runner.bawn("engines").out


def test_the_text_says_how_it_is_used(runner):
    r = runner.bawn("run", "--engine", "sandbox-exec", "--dry-run", "--", "echo", "a\nb")
    assert r.rc == 0 and r.out.rstrip().splitlines()[-1].startswith(b"; sandbox-exec -f bawn.sb"), r


@pytest.mark.parametrize("options", [["--workspace", "overlay"], ["--mount", "/usr:/elsewhere"]])
def test_what_a_profile_cannot_do_is_refused(runner, options):
    assert runner.bawn("run", "--engine", "sandbox-exec", "--dry-run", *options, "--", "true").rc == 64


def test_the_evaluator_refuses_what_it_does_not_know(runner):
    for text in ("(version 1)(allow file-raed* (subpath \"/\"))", "(version 1)(allow file-read* (subpth \"/\"))", "(version 1)(allow file-read* (subpath \"/x/\"))"):
        (runner.top / "p.sb").write_text(text)
        (runner.top / "q").write_text("((file-read-data \"/x\" REGULAR-FILE))")
        assert subprocess.run(["guile", "--no-auto-compile", EVALUATOR, runner.top / "p.sb", runner.top / "q"], capture_output=True).returncode != 0, text
