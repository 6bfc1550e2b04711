# SPDX-License-Identifier: Apache-2.0
"""`bawn mcp` and the official client and inspector from npm, which tools/agents installs beside the agents; both over standard input and over HTTP."""

import json
import os
import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from mcp_http import serve  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = pathlib.Path(os.environ.get("BAWN_AGENTS", "/var/tmp/bawn-agents"))
SDK = PROGRAMS / "mcp-sdk"
INSPECTOR = PROGRAMS / "mcp-inspector-cli/node_modules/@modelcontextprotocol/inspector-cli/build/index.js"


def see(kept, *where):
    if not (SDK / "node_modules/@modelcontextprotocol/sdk").exists() or not shutil.which("node"):
        pytest.skip("the MCP client is not installed: tools/agents")
    r = kept.run("node", HERE / "mcp_sdk.mjs", SDK, kept.path, *where)
    assert r.rc == 0, r
    seen = json.loads(r.out)
    assert seen["server"]["name"] == "bawn" and len(seen["tools"]) == 9
    assert (seen["exec"]["stdout"], seen["exec"]["exit_status"]) == ("hello\n", 3)
    assert seen["edited"]["replaced"] == 1 and seen["read"]["content"] == "one\n2\n"
    assert {"name": "made.txt", "kind": "file"} in seen["listed"]["entries"]
    assert seen["failed"] is True and seen["code"] == -32602 and seen["progress"] >= 2
    assert seen["cancelled"] == "cancelled" and seen["after"].strip() == "0"
    assert (kept.workspace / "made.txt").read_text() == "one\n2\n"
    return seen


def test_official_client(kept):
    see(kept)


def test_official_client_over_http(kept):
    with serve(kept) as s:
        seen = see(kept, s.url, s.token)
        assert s.ask("DELETE", None, {"Mcp-Session-Id": seen["session"]})[0] == 404, "the client ended it"


def inspect(kept, *words):
    if not INSPECTOR.exists() or not shutil.which("node"):
        pytest.skip("the MCP inspector is not installed: tools/agents")
    r = kept.run("node", INSPECTOR, *words)
    assert r.rc == 0, r
    return json.loads(r.out)


def test_inspector(kept):
    assert len(inspect(kept, kept.path, "mcp", "--method", "tools/list")["tools"]) == 9
    with serve(kept) as s:
        http = [s.url, "--transport", "http", "--header", f"Authorization: Bearer {s.token}"]
        assert len(inspect(kept, *http, "--method", "tools/list")["tools"]) == 9
        r = inspect(kept, *http, "--method", "tools/call", "--tool-name", "exec", "--tool-arg", "command=echo seen; exit 4")
        assert r["structuredContent"]["stdout"] == "seen\n" and r["structuredContent"]["exit_status"] == 4
