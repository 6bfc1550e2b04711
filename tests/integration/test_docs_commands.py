# SPDX-License-Identifier: Apache-2.0
"""Every command in README.md and docs/ runs as written, as root and as an ordinary user, in a throw-away project that has what they name.

Each line of a code block is a command, an explanation of a format, or output, and none is forgotten:

- what begins with a program's name is run, document by document, in order; behind two blanks or a '#' is what the document says about it;
- what cannot run here is in NOT_RUN, with the reason; what is no command is in NOT_COMMANDS, unless the block says it: ```text, ```json
  (must be JSON), or ```console (only lines with '$ ' are commands);
- a line with a placeholder (NAME, HOST, [options]) is a synopsis.
"""

import collections
import json
import pathlib
import re
import shutil

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
PROGRAMS = ("bawn", "bawn-key", "make", "git", "cd", "source", "sudo", "apt", "curl", "ssh-add", "npm", "tests/network/load.py")
OUTPUT = ("text", "json", "output", "diff", "python", "typescript")  # the last two: tests/sdk/test_docs.py
PLACEHOLDER = re.compile(r"\[|(?<![\w$/-])(NAME|HOST|COMMAND|ARG|ARGUMENTS|SANDBOX|RUN|FILE|FOLDER|PATH|DIR|KEY|VALUE|OLD|NEW|AGENT|ID|MODE)(?![\w=])|…")

# What cannot run here, and why. Searched for in the command.
NOT_RUN = [
    (r"--agent\b", "needs an agent and its key: tests/agents"),
    (r"--engine (docker|podman|gvisor|lima|sbx)|BAWN_SANDBOX=podman", "needs a daemon or an engine's own setup: tests/conformance"),
    (r"bawn agents --install", "installs from the network: tests/network/test_agent_install.py"),
    (r"^(sudo )?make( try| check| bench| install.*)?$", "builds, tests or installs Bawn itself: the check does"),
    (r"^(sudo )?(apt|apt-get) ", "installs packages"),
    (r"sdk/(python|typescript)", "builds an SDK: tests/sdk"),
    (r"^tests/network/load.py", "takes ten minutes and longer: tests/network/test_load.py"),
    (r"^git clone|^cd bawn", "downloads Bawn"),
    (r"^bawn (shell|attach|top)\b|^bawn review .*-i\b|^bawn review -i", "needs a terminal: test_exec.py, test_top.py, test_review.py"),
    (r"^bawn logs? .*-f\b", "follows until it is interrupted: test_exec.py, test_audit.py"),
    (r"--ssh-key|ssh-add", "needs an ssh-agent and a server: tests/network/test_secret_ssh.py"),
    (r"^bawn secret login", "needs an OAuth server: tests/network/test_secret_oauth.py"),
    (r"^bawn policy (approve|reject) \d", "names a question that waits in the example: tests/network/test_ask.py"),
    (r"bawn-\d+-20\d{6}T", "names a run of the example: test_batch.py"),
    (r"^bawn dashboard\b", "stays until ^C where no service runs: tests/web/test_sessions.py"),
    (r"^bawn mcp\b", "needs a client: test_mcp.py, test_mcp_sdk.py"),
    (r"^bawn-sh\b", "is a link beside the program: test_bawn_sh.py"),
    (r"^bawn-key", "exists inside only: tests/network/test_secret_socket.py"),
]
# Blocks that are no commands: a text of the block, and what it is.
NOT_COMMANDS = [
    ("sandbox's network namespace", "a drawing"),
    ('"cmd": ["npm", "run", "docs"]', "lines of a batch file"),
    ('{"tasks": [', "output of bawn batch"),
    ("High risk", "output of bawn review"),
    ("Run fix-42", "output of bawn review"),
    ("No risk found", "output of bawn review"),
    ("2 high, 0 medium", "output of bawn review"),
    ("in the index:", "output of bawn review"),
    ("unknown key 'sandbox.netwrok'", "messages about configuration"),
    ("deny  registry.npmjs.org:443 PUT", "a file of expectations for bawn policy test"),
]
# Exit statuses other than 0 that are right where the document stands.
STATUS = [
    (r"^bawn review", {0, 1}),  # 1: there are risks
    (r"^bawn doctor", {0, 1}),  # 1: this machine lacks something
    (r"^bawn run -w ro -- grep", {0, 2}),  # 2: what is hidden cannot be read
    (r"^bawn init --check", {0, 1}),  # 1: something is unprotected
    (r"^bawn secret test", {0, 1}),  # 1: a name that does not exist
    (r"^bawn policy explain", {0, 1, 2}),  # 1: denied, 2: asked
]
# What a command needs beforehand: a pattern and a script. {1} is the pattern's first group.
BEFORE = [
    (r"^bawn start (\w+)", "bawn rm --force {1} 2>/dev/null; true"),
    (r"^bawn rm (\w+)", "bawn status {1} >/dev/null 2>&1 || bawn start {1}; bawn stop {1}"),
    (r"^bawn status --line", "bawn status >/dev/null 2>&1 || bawn start"),
    (r"^bawn (?:exec|ps|stop|cp|put|get|collect|checkpoint|fork|status|inspect|log|logs|policy .*--sandbox)(?: -\S+)* (?:.* )?(web|box)\b",
     "bawn status {1} >/dev/null 2>&1 || bawn start {1} -w overlay"),
    (r"^bawn (?:cp|get|collect) .*(web|box)", "bawn exec {1} -- sh -c 'mkdir -p build coverage; echo x >build/report.html; echo x >coverage/index.html'"),
    (r"^bawn fork (\w+) --from ([\w-]+)|^bawn checkpoint rm (\w+) ([\w-]+)",
     "bawn checkpoint ls {1}{3} | grep -q {2}{4} || bawn checkpoint {1}{3} {2}{4}"),
    (r"^bawn checkpoint (\w+) ([\w-]+)$", "bawn checkpoint rm {1} {2} 2>/dev/null; true"),
    (r"^bawn (?:review|diff|apply|discard)(?! --undo)(?: --?\w.*)?$", "bawn run -w overlay -- sh -c 'echo more >>src/main.c; date +%N >>changed'"),
    (r"^bawn apply --undo", "bawn run -w overlay -- sh -c 'date +%N >>changed' && bawn apply --yes"),
    (r"^bawn (?:apply|discard|review) (ci|fix-42)\b|^git .*bawn/(fix-42)",
     "bawn discard --yes {1}{2} 2>/dev/null; bawn run -w worktree --name {1}{2} -- sh -c 'date +%N >>changed; git add -A; git -c user.name=a -c user.email=a@b commit -qm x'"),
    (r"^bawn secret set (\S+)", "bawn secret rm {1} 2>/dev/null; true"),
    (r"--secret (\w+)", "bawn secret ls | grep -q {1} || echo sk-test-01234567 | bawn secret set {1} --host api.example.com"),
    (r"^bawn secret (?:test|rm) (\S+)", "bawn secret ls | grep -q {1} || echo sk-test-01234567 | bawn secret set {1} --host api.example.com"),
    (r"^bawn run --profile (mine|beefy)", "bawn profile show {1} >/dev/null 2>&1 || bawn profile new {1}"),
    (r"^bawn profile show (beefy)", "test -e ~/.config/bawn/profiles/{1}.json || bawn profile new {1} --from dev"),
    (r"^bawn profile check", "bawn profile show checked >/dev/null 2>&1 || bawn profile new checked"),
    (r"^bawn policy rm deny-(\S+)", "bawn policy ls | grep -q deny-{1} || bawn policy deny {1}"),
    (r"^bawn trust(?! --(show|revoke))", "mkdir -p .bawn; echo '{{\"sandbox\": {{\"network\": \"full\"}}}}' >.bawn/config.json"),
]
# What a terminal would be asked is answered in advance: a pattern and what takes its place.
ANSWERS = [
    (r"^(bawn (?:apply(?!.*--undo|.*--dry-run)|discard|trust(?!.*--show|.*--revoke))\b(?!.*--yes))", r"\1 --yes"),
    (r"--no-sandbox(?! --yes)", "--no-sandbox --yes-unsandboxed"),
]
# Given on standard input.
INPUT = [(r"^bawn secret set", b"sk-test-0123456789abcdef\n")]

# Where a command is given, if not in the project.
FOLDERS = [(r"^bawn profile check", ".config/bawn/profiles")]

Block = collections.namedtuple("Block", "line language lines")
Line = collections.namedtuple("Line", "where command kind")


def blocks_of(text):
    """Fenced and indented code blocks; an indented one may have blank lines in it."""
    block, blanks = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*```(\w*)", line)
        if fence and block and block.language is not None:
            yield block
            block = None
        elif fence:
            if block:
                yield block
            block = Block(number, fence[1], [])
        elif block and block.language is not None:
            block.lines.append((number, line))
        elif line.startswith("    "):
            block = block or Block(number, None, [])
            block.lines.extend([(number, "")] * blanks + [(number, line[4:])])
            blanks = 0
        elif not line.strip() and block:
            blanks += 1
        elif block:
            yield block
            block, blanks = None, 0
    if block:
        yield block


def joined(lines):
    """Lines that end with a backslash go on in the next one."""
    whole, start = "", None
    for number, line in lines:
        start = start or number
        if line.endswith("\\"):
            whole += line[:-1].rstrip() + " "
            continue
        yield start, whole + (line.strip() if whole else line)
        whole, start = "", None


def command_in(line, console):
    """The command of a line without what is said about it; None if it has none."""
    text = line.strip()
    if console and not text.startswith("$ "):
        return None
    text = re.sub(r"^\$ ", "", text)
    if not re.match(rf"({'|'.join(PROGRAMS)})(?=\s|$)", text):
        return None
    return re.split(r"\s{2,}|\s#\s", text)[0].strip()


def kind_of(command):
    if PLACEHOLDER.search(command):
        return "synopsis"
    return next((reason for pattern, reason in NOT_RUN if re.search(pattern, command)), "run")


def commands_of(name):
    for block in blocks_of((ROOT / name).read_text()):
        if block.language in OUTPUT:
            continue
        for number, line in joined(block.lines):
            command = command_in(line, block.language == "console")
            if command:
                yield Line(f"{name}:{number}", command, kind_of(command))


def is_explained(block):
    text = "\n".join(line for _, line in block.lines)
    if block.language in OUTPUT or any(command_in(line, block.language == "console") for _, line in block.lines):
        return True
    messages = [line for _, line in block.lines if line.strip()]
    return all(line.strip().startswith("bawn: ") for line in messages) or any(part in text for part, _ in NOT_COMMANDS)


# -- nothing is forgotten -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_block_is_understood(name):
    """Each block has a command, says what it is, or is in NOT_COMMANDS."""
    unknown = [f"{name}:{block.line}: {block.lines[0][1] if block.lines else ''}" for block in blocks_of((ROOT / name).read_text()) if not is_explained(block)]
    assert unknown == [], "mark the block as ```text or ```console, or list it in NOT_COMMANDS"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_is_json(name):
    for block in blocks_of((ROOT / name).read_text()):
        if block.language == "json":
            json.loads("\n".join(line for _, line in block.lines))


def test_most_commands_are_run():
    kinds = collections.Counter("run" if line.kind == "run" else "not" for name in DOCUMENTS for line in commands_of(name))
    assert kinds["run"] > 100 and kinds["run"] > 2 * kinds["not"], kinds


def test_the_reader_of_documents():
    text = "Text\n\n    bawn run -- make    builds\n    bawn: a message\n\n    bawn ps  # which\n\n```console\n$ bawn ps\nbawn output\n```\n\n```json\n{}\n```\n    git x \\\n        --y\n"
    blocks = list(blocks_of(text))
    assert [(b.line, b.language) for b in blocks] == [(3, None), (8, "console"), (13, "json"), (16, None)]
    found = [command_in(line, b.language == "console") for b in blocks if b.language != "json" for _, line in joined(b.lines)]
    assert [c for c in found if c] == ["bawn run -- make", "bawn ps", "bawn ps", "git x --y"]
    assert kind_of("bawn rm NAME") == "synopsis" and "agent" in kind_of("bawn run --agent claude") and kind_of("bawn run -w ro -- grep -r TODO .") == "run"
    assert not is_explained(Block(1, None, [(1, "unknown text")])) and is_explained(Block(1, None, [(1, "bawn: message")]))


# -- the project that the documents talk about --------------------------------------------------------------------------------------

MAKEFILE = "all:\n\t@date +%N >result\ntest:\n\t@true\nreport:\n\t@mkdir -p build; date >build/report.html\n"
PACKAGE = {"name": "project", "version": "1.0.0", "scripts": {name: "true" for name in ("test", "start", "dev", "docs", "lint", "build")}}
FILES = {
    "Makefile": MAKEFILE,
    "package.json": json.dumps(PACKAGE),
    "package-lock.json": json.dumps({"name": "project", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "project", "version": "1.0.0"}}}),
    "src/main.c": "int main(void) { return 0; } /* TODO */\n",
    "train.py": "print('trained')\n",
    "fixtures/one": "1\n",
    "my-project/file": "x\n",
    "files.txt": "one\ntwo\n",
    "local.json": "{}\n",
    "tasks.jsonl": '{"name": "docs", "cmd": ["npm", "run", "docs"]}\n{"name": "lint", "cmd": "npm run lint", "env": {"CI": "1"}}\n',
    ".env": "SECRET=1\n",
    ".gitignore": ".env\n",
}
SCRIPTS = ["agent", "migrate", "train", "script", "untrusted", "release"]


def make_project(runner):
    for name, text in FILES.items():
        runner.write(name, text)
    for name in SCRIPTS:
        runner.write(name, "#!/bin/sh\necho by the script >>written\n", 0o755)
    runner.write(runner.home / "data/set", "1\n")
    runner.write(runner.home / "passphrase", "for the file store\n", 0o600)
    runner.write(runner.home / ".gitconfig", "[user]\n\tname = Me\n\temail = me@example.com\n[init]\n\tdefaultBranch = main\n")
    r = runner.run("sh", "-ec", "git init -q; git add -A; git commit -qm start")
    assert r.rc == 0, r


def shell(runner, command, **kw):
    path = f"{runner.path.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    env = {"PATH": path, "GITHUB_ACTOR": "me", "CI": "1", "BAWN_PASSPHRASE_FILE": str(runner.home / "passphrase")}
    return runner.run("bash", "-c", command, env=env, **kw)


def prepare(runner, command):
    for pattern, script in BEFORE:
        if m := re.search(pattern, command):
            words = {str(i): group or "" for i, group in enumerate(m.groups(), 1)}
            r = shell(runner, script.format("", *[words[k] for k in sorted(words)]))
            assert r.rc == 0, (command, r)


def run_as_written(runner, command):
    """Only questions are answered in advance, where a terminal would be asked."""
    prepare(runner, command)
    for pattern, answer in ANSWERS:
        command = re.sub(pattern, answer, command)
    given = next((data for pattern, data in INPUT if re.search(pattern, command)), None)
    folder = next((runner.home / folder for pattern, folder in FOLDERS if re.search(pattern, command)), None)
    return shell(runner, command, input=given, cwd=folder)


def allowed_statuses(command):
    return next((statuses for pattern, statuses in STATUS if re.search(pattern, command)), {0})


def missing_program(command):
    """What runs in the sandbox, or behind a pipe, and may not be there on this machine."""
    words = set(re.findall(r"\b(npm|jq)\b", command))
    return next((word for word in sorted(words) if not shutil.which(word, path="/usr/local/bin:/usr/bin:/bin")), None)


@pytest.mark.no_sanitizer
@pytest.mark.parametrize("name", [name for name in DOCUMENTS if any(line.kind == "run" for line in commands_of(name))])
def test_commands_run_as_written(kept, name):
    make_project(kept)
    failed, missing = [], set()
    for line in commands_of(name):
        if line.kind != "run":
            continue
        if program := missing_program(line.command):
            missing.add(program)
            continue
        r = run_as_written(kept, line.command)
        if r.rc not in allowed_statuses(line.command):
            failed.append(f"{line.where}: {line.command}: {r!r}")
    assert not failed, "\n".join(failed)
    if missing:
        pytest.skip(f"needs the program {' '.join(sorted(missing))}")
