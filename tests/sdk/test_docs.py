# SPDX-License-Identifier: Apache-2.0
"""Each example of README.md, docs/sdk.md and of the packages' own README runs as written, with a service and without one."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def examples(language):
    found = []
    for name in ("README.md", "docs/sdk.md", "sdk/python/README.md", "sdk/typescript/README.md"):
        text = (ROOT / name).read_text()
        found += [(f"{name}:{text[:m.start()].count(chr(10)) + 1}", m[1]) for m in re.finditer(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)]
    return [e for e in found if "# with an agent" not in e[1]]  # tests/agents/test_sdk.py


@pytest.fixture(params=["service", "local"])
def where(request, runner):
    """The environment that chooses one."""
    if request.param == "local":
        return {"BAWN_URL": "local"}
    return {"BAWN_URL": request.getfixturevalue("service").url}


def test_python(where, runner, wheel):
    assert len(examples("python")) >= 6
    for number, (place, text) in enumerate(examples("python")):
        folder = runner.mkdir(runner.top / f"python{number}")
        done = runner.run(wheel, "-c", text, cwd=folder, env={"BAWN": str(runner.path), "TMPDIR": "/var/tmp", **where})
        assert done.rc == 0 and done.out, (place, done)


def test_typescript(where, runner, package):
    assert len(examples("typescript")) >= 4
    for number, (place, text) in enumerate(examples("typescript")):
        script = package / f"{runner.top.name}-docs{number}.mjs"
        script.write_text(text)
        done = runner.run("node", script, env={"BAWN": str(runner.path), "TMPDIR": "/var/tmp", **where})
        script.unlink()
        assert done.rc == 0 and done.out, (place, done)
