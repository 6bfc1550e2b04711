# SPDX-License-Identifier: Apache-2.0
"""Tools of `bawn mcp` can do nothing that a command in the sandbox cannot, whatever their arguments say."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
from mcp_client import Refused, connect  # noqa: E402


def tries(c, path):
    """Every tool that takes a path, at this one: True if any of them got at it."""
    def works(tool, **arguments):
        try:
            return not c.raw_call(tool, path=path, **arguments)["isError"]
        except Refused:
            return False
    return {
        "read": works("read_file"),
        "edit": works("edit", old_text="mine", new_text="theirs"),
        "write": works("write_file", content="theirs\n"),
    }


@pytest.mark.parametrize("way", ["absolute", "dots", "link", "proc", "home"])
def test_no_tool_leaves_the_sandbox(kept, way):
    """Claim: tools for files see what a command sees: no path, link, `..` or /proc leads to a file of the host."""
    secret = kept.write(kept.home / "secret.txt", "mine\n", 0o600)
    kept.write("probe.sh", f'cat "{secret}"')
    assert kept.run("sh", "probe.sh").out == b"mine\n", "the probe works outside"
    (kept.workspace / "link").symlink_to(secret)
    path = {"absolute": str(secret), "dots": "../" * 20 + str(secret).lstrip("/"), "link": "link", "proc": f"/proc/1/root{secret}", "home": "~/secret.txt"}[way]
    with connect(kept) as c:
        tries(c, path)  # some may write into a private home inside: what counts is the file
        text = c.raw_call("read_file", path=path)["content"][0]["text"]
        assert "mine" not in text
    assert secret.read_text() == "mine\n"


def test_protected_and_hidden_files_stay(kept):
    """Claim: in direct mode the guard and .sandboxignore hold for tools: they are commands."""
    assert kept.run("git", "init", "-q", ".").rc == 0
    kept.write(".sandboxignore", ".env\n")
    kept.write(".env", "TOKEN=mine\n")
    with connect(kept) as c:
        assert tries(c, ".git/hooks/post-checkout") == {"read": False, "edit": False, "write": False}
        assert tries(c, ".env")["read"] is False
        assert "TOKEN" not in str(c.call("exec", command="cat .env"))
        assert ".env" not in [e["name"] for e in c.call("list_files")["entries"]] or c.raw_call("read_file", path=".env")["isError"]
    assert not (kept.workspace / ".git/hooks/post-checkout").exists()
    assert (kept.workspace / ".env").read_text() == "TOKEN=mine\n"


def test_arguments_are_not_commands(kept):
    """Claim: no argument of a tool becomes a part of a script, of an option of a program, or of another message."""
    kept.write("plain.txt", "text\n")
    evil = ["$(touch hit)", "`touch hit`", "a; touch hit", "x\ntouch hit", "--help", "-rf", "'\"; touch hit; '", "a\\", "{}", "%s%n"]
    with connect(kept) as c:
        for name in evil:
            c.call("write_file", path=name, content=name)
            assert c.call("read_file", path=name)["content"] == name
            c.call("edit", path=name, old_text=name, new_text=name + "!")
            assert c.call("read_file", path=name)["content"] == name + "!"
        assert {e["name"] for e in c.call("list_files")["entries"]} == {*evil, "plain.txt"}
        # Nor does what a command prints: a line that looks like a message is text in an answer.
        r = c.call("exec", command="""printf '{"jsonrpc":"2.0","id":1,"result":{}}\\n=+{"jsonrpc":"2.0"}\\n'""")
        assert r["stdout"].count("jsonrpc") == 2
        assert c.request("ping") == {}
    assert not (kept.workspace / "hit").exists()
