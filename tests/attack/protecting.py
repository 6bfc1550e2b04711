# SPDX-License-Identifier: Apache-2.0
"""What tests of protected paths share: the list, as concrete paths to attack, and repositories.

The list is the product's own (profiles/protect.txt): a pattern that is added there is attacked without a change here.
"""

import os
import pathlib
import shutil
import stat

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
DIRECT = ["run", "--workspace", "direct"]
IDENTITY = {f"GIT_{who}_{what}": f"t{at}" for who in ("AUTHOR", "COMMITTER") for what, at in (("NAME", ""), ("EMAIL", "@example.com"))}
GIT = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", **IDENTITY}


def rows():
    text = (ROOT / "profiles/protect.txt").read_text()
    return [line.split("\t") for line in text.splitlines() if line and line[0] != "#"]


def concrete(pattern):
    """A path that the pattern matches."""
    return pattern.removeprefix("**/").replace("/**/", "/x/").replace("*", "x").rstrip("/")


LINES = [row[0] for row in rows()]
# NAME and !NAME/: only a folder may have that name, and what is in it is judged by other lines.
LEADS = [concrete(p) for p in LINES if p[0] != "!" and any(f"!{prefix}{p.removeprefix('**/')}/" in LINES for prefix in ("", "**/"))]
FOLDERS = {"hooks", ".husky", ".idea", ".fleet", ".zed", ".helix", ".devcontainer", ".mise", "mise", "plugins", "skills", "commands", "agents", ".codex", ".gemini", ".qwen",
           ".opencode", ".continue", ".amazonq", ".amp", ".factory", ".copilot", "copilot", "settings", ".bawn", "replace", "branches", "remotes", "glab-cli", ".fossil-settings", ".nova", ".lapce", ".qtcreator", ".externalToolBuilders", ".shadowenv.d", "conf.d",
           ".augment", ".codebuddy", ".iflow", ".letta", ".pi", ".vibe", "mcp"}
TARGETS = [p + "/inside" if p.split("/")[-1] in FOLDERS else p for p in (concrete(p) for p in LINES if p[0] != "!") if p not in LEADS]
PLACES = ["", "sub/deep/"]
# At the top each of them, deeper every third: where a pattern holds is the matcher's business, which has tests of its own.
ALL = TARGETS + [PLACES[1] + target for target in TARGETS[::3]]


def snapshot(top, but=()):
    """{path: type, mode, content} of everything, but for folders named in `but`."""
    found = {}
    for folder, folders, files in os.walk(top):
        rel = os.path.relpath(folder, top)
        folders[:] = [f for f in folders if os.path.normpath(f"{rel}/{f}") not in but]
        for name in folders + files:
            path = os.path.join(folder, name)
            st = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(st.st_mode) else pathlib.Path(path).read_bytes() if stat.S_ISREG(st.st_mode) else None
            found[os.path.normpath(f"{rel}/{name}")] = (oct(st.st_mode), content)
    return found


def own_all(runner, top):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            runner.own(os.path.join(folder, name))


def git(runner, *args, env=None, cwd=None, ok=True):
    r = runner.run("git", *args, env={**GIT, **(env or {})}, cwd=cwd)
    assert r.rc == 0 or not ok, r
    return r


def repository(runner):
    runner.write("a", "a\n")
    git(runner, "init", "-q", "-b", "main")
    git(runner, "add", "a")
    git(runner, "commit", "-qm", "a")


def tidy(runner, *keep):
    for path in runner.workspace.iterdir():
        if path.name not in keep:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
