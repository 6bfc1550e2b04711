# SPDX-License-Identifier: Apache-2.0
"""What an administrator touches: the configuration, the log, the units for systemd."""

import json
import pathlib
import re
import shutil
import subprocess

import http_driver
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(runner, text):
    path = runner.write(runner.top / "c.json", text)
    return subprocess.run([runner.path.parent / "bawnd", "--check-config", "--config", path], capture_output=True, text=True)


@pytest.mark.parametrize("text, word", [
    ("{", "valid JSON"), ('{"runing": 1}', "running"), ('{"running": 0}', "running"), ('{"listen": "x"}', "listen"), ('{"key": "/x"}', "certificate"),
    ('{"quotas": {"disc": 1}}', "disk"), ('{"classes": {"a": "b"}}', "classes"), ('{"log": "x"}', "absolute"), ('{"disk_budget": "many"}', "disk_budget"),
])
def test_a_wrong_configuration(runner, text, word):
    done = check(runner, text)
    assert done.returncode != 0 and word in done.stderr, done


def test_check_config_changes_nothing(runner):
    state = runner.top / "state"
    done = check(runner, json.dumps({"state": str(state), "runtime": str(runner.top / "run"), "classes": {"a": ["B"]}, "disk_budget": "1g"}))
    assert (done.returncode, done.stderr) == (0, "") and not state.exists()


def test_every_key_is_described():
    """The schema has the keys that the program reads."""
    schema = json.loads((ROOT / "spec/bawnd.schema.json").read_text())
    text = (ROOT / "src/service/core/core_conf.c").read_text()
    assert set(schema["properties"]) == set(re.findall(r'(?:CONF_KEY\(|\{)"(\w+)", read_', text))


def test_the_log_is_rotated(runner):
    folder = runner.mkdir(runner.top / "logs", 0o755)
    service = http_driver.Service(runner, log=str(folder / "bawnd.log"), log_size=1000, log_files=2)
    token = service.token()
    for _ in range(16):
        assert service.call("POST", "/v1/runs", {"command": ["true"], "wait": 100}, token=token)[1]["state"] == "done"
    service.stop()
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["bawnd.log", "bawnd.log.1", "bawnd.log.2"]
    for name in names:
        lines = (folder / name).read_text().splitlines()
        assert lines and all(json.loads(line)["event"] for line in lines) and (folder / name).stat().st_size <= 1000


@pytest.mark.parametrize("unit", sorted(str(p.relative_to(ROOT)) for p in (ROOT / "packaging/systemd").rglob("*.service")))
def test_units(unit, tmp_path):
    text = (ROOT / unit).read_text()
    assert "KillMode=process" in text  # else systemd would end the runs with the service
    if not shutil.which("systemd-analyze"):
        return
    path = tmp_path / "bawnd.service"
    path.write_text(text.replace("/usr/bin/bawnd", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
    assert "bawnd" not in done.stderr, done.stderr


def test_metrics(service):
    """Every sample has its type, and the counters count."""
    token = service.token()
    service.call("POST", "/v1/runs", {"command": ["true"], "wait": 100}, token=token)
    text = service.call("GET", "/v1/metrics")[1].decode()
    types = dict(re.findall(r"^# TYPE (\w+) (counter|gauge|histogram)$", text, re.M))
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    for name in samples:
        base = name.partition("{")[0]
        assert base in types or re.sub("_(bucket|sum|count)$", "", base) in types, name
    assert samples['bawn_runs_ended_total{state="done"}'] == "1" and samples['bawn_sandboxes{state="running"}'] == "0"
    assert service.call("GET", "/v1/metrics", token=token)[0] == 403


def test_man_page_has_no_warnings_and_misses_nothing(runner):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    bawnd, schema = runner.path.parent / "bawnd", ROOT / "spec/bawnd.schema.json"
    page = subprocess.run([ROOT / "tools/bawnd-manual", bawnd, schema], capture_output=True, check=True)
    shown = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-P-cbou", "-rLL=200n"], input=page.stdout, capture_output=True, check=True)
    assert shown.stderr == b"" and page.stderr == b""
    text = shown.stdout.decode()
    options = set(re.findall(r"--[a-z][a-z-]*", subprocess.run([bawnd, "--help"], capture_output=True, text=True, check=True).stdout))
    assert len(options) >= 5
    for word in [*options, *json.loads(schema.read_text())["properties"], "quotas.disk", "64", "125", "SIGTERM"]:
        assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text), word
