# SPDX-License-Identifier: Apache-2.0
"""`bawn mcp` and the official client from npm, which tools/agents installs beside the agents."""

import json
import os
import pathlib
import shutil

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SDK = pathlib.Path(os.environ.get("BAWN_AGENTS", "/var/tmp/bawn-agents")) / "mcp-sdk"


def test_official_client(kept):
    if not (SDK / "node_modules/@modelcontextprotocol/sdk").exists() or not shutil.which("node"):
        pytest.skip("the MCP client is not installed: tools/agents")
    r = kept.run("node", HERE / "mcp_sdk.mjs", SDK, kept.path)
    assert r.rc == 0, r
    seen = json.loads(r.out)
    assert seen["server"]["name"] == "bawn" and len(seen["tools"]) == 9
    assert (seen["exec"]["stdout"], seen["exec"]["exit_status"]) == ("hello\n", 3)
    assert seen["edited"]["replaced"] == 1 and seen["read"]["content"] == "one\n2\n"
    assert {"name": "made.txt", "kind": "file"} in seen["listed"]["entries"]
    assert seen["failed"] is True and seen["code"] == -32602 and seen["progress"] >= 2
    assert seen["cancelled"] == "cancelled" and seen["after"].strip() == "0"
    assert (kept.workspace / "made.txt").read_text() == "one\n2\n"
