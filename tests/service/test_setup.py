# SPDX-License-Identifier: Apache-2.0
"""What an administrator touches: the configuration, the log, the units for systemd."""

import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import http_driver
import otlp
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(runner, text):
    path = runner.write(runner.top / "c.json", text)
    return subprocess.run([runner.path.parent / "bawnd", "--check-config", "--config", path], capture_output=True, text=True)


@pytest.mark.parametrize("text, word", [
    ("{", "valid JSON"), ('{"runing": 1}', "running"), ('{"running": 0}', "running"), ('{"listen": "x"}', "listen"), ('{"key": "/x"}', "certificate"),
    ('{"quotas": {"disc": 1}}', "disk"), ('{"classes": {"a": "b"}}', "classes"), ('{"log": "x"}', "absolute"), ('{"disk_budget": "many"}', "disk_budget"),
    ('{"listen": ["x"]}', "1:13: listen[0]"), ('{"listen": ["127.0.0.1:1", "localhost:1"]}', "1:28: listen[1]"), ('{"listen": ["[::1]:99999"]}', "99999"),
    ('{"listen": ["127.0.0.1:+1"]}', "no address with a port"), (json.dumps({"listen": ["127.0.0.1:1"] * 9}), "listen"),
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


@pytest.mark.parametrize("folder", ["packaging/systemd", "packaging/systemd/user"])
def test_units(folder, tmp_path):
    for unit in sorted((ROOT / folder).glob("bawnd.*")):
        (tmp_path / unit.name).write_text(unit.read_text().replace("/usr/bin/bawnd", "/bin/true"))
    assert "KillMode=process" in (tmp_path / "bawnd.service").read_text()  # else systemd would end the runs with the service
    for unit in ("bawnd.service", "bawnd.socket"):
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / unit], capture_output=True, text=True)
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


def test_traces(runner):
    """Each run is a line of OTLP/JSON: its phases are within it, one behind the other; what failed says so."""
    folder = runner.mkdir(runner.top / "logs", 0o755)
    service = http_driver.Service(runner, trace=str(folder / "traces.jsonl"))
    token = service.token()
    good = service.call("POST", "/v1/runs", {"command": ["sh", "-c", "sleep 0.2; exit 3"], "wait": 100}, token=token)[1]
    bad = service.call("POST", "/v1/runs", {"command": ["true"], "shape": {"source": {"git": "https://no-such-host.invalid/x"}}, "wait": 300}, token=token)[1]
    service.stop()
    lines = (folder / "traces.jsonl").read_text().splitlines()
    traces = {t["run"]["attributes"]["bawn.run"]: t for t in map(otlp.spans, lines)}
    assert len(lines) == 2 and set(traces) == {good["id"], bad["id"]}
    t = traces[good["id"]]
    assert list(t) == ["run", "queued", "started", "command", "review", "teardown"]
    assert t["run"]["attributes"] | {"bawn.cpu_us": 0, "bawn.sent": 0} == {
        "bawn.run": good["id"], "bawn.tenant": "acme", "bawn.state": "done", "process.exit.code": 3, "bawn.cpu_us": 0, "bawn.sent": 0}
    phases = list(t.values())[1:]
    assert phases[0]["start"] == t["run"]["start"] and phases[-1]["end"] == t["run"]["end"]
    for a, b in zip(phases, phases[1:]):
        assert a["end"] == b["start"] and a["start"] <= a["end"]
    assert all(p["parent"] == t["run"]["id"] for p in phases) and t["run"]["parent"] == ""
    tick = 10_000_000  # of the clock that files have, which the phases are told by
    assert t["command"]["end"] - t["command"]["start"] > 200_000_000 - tick and t["run"]["status"] == 1
    assert traces[bad["id"]]["run"]["status"] == 2 and "command" not in traces[bad["id"]]
    assert traces[bad["id"]]["run"]["trace"] != t["run"]["trace"]


def test_sighup_opens_the_log_anew(runner):
    folder = runner.mkdir(runner.top / "logs", 0o755)
    service = http_driver.Service(runner, log=str(folder / "bawnd.log"))
    (folder / "bawnd.log").rename(folder / "old")
    service.proc.send_signal(signal.SIGHUP)
    while not (folder / "bawnd.log").exists():
        service.call("GET", "/v1/health")
    assert service.call("POST", "/v1/runs", {"command": ["true"], "wait": 100}, token=service.token())[0] == 201
    service.stop()
    assert '"event":"start"' in (folder / "old").read_text() and '"event":"run"' in (folder / "bawnd.log").read_text()


class Activated(http_driver.Service):
    """Started with sockets that listen: 3 is of the unix family, 4 of TCP."""

    def start(self):
        self.runner.mkdir(self.top / "run", 0o755)
        self.unix, self.tcp = socket.socket(socket.AF_UNIX), socket.socket()
        self.unix.bind(self.socket)
        self.tcp.bind(("127.0.0.1", 0))
        (self.top / "run/api.sock").chmod(0o666)
        for s in (self.unix, self.tcp):
            s.listen()
        self.open(self.unix.fileno(), self.tcp.fileno())

    def open(self, *fds, n=2):
        self.log = open(self.top / "log", "ab")
        places = " ".join(f"{i}<&{fd}" for i, fd in enumerate(fds, 3))
        program = self.runner.path.parent / "bawnd"
        self.proc = self.popen("bash", "-c", f'exec {places}; LISTEN_PID=$$ LISTEN_FDS={n} exec "$@"', "bash", program, "--config", self.config,
                               stderr=self.log, pass_fds=fds)


def test_sockets_of_the_service_manager(runner):
    service = Activated(runner, listen=["192.0.2.1:1"])  # the socket takes its place: this machine does not have the address
    assert service.call("GET", "/v1/health")[0] == 200, "a connection that came before it waits"
    with socket.create_connection(service.tcp.getsockname()) as s:
        s.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 200 ")
    service.stop()
    assert (service.top / "run/api.sock").exists(), "the socket is the manager's"
    # What is not a socket that listens, or too many of a kind, is refused.
    for fds, n in [((service.tcp.fileno(), service.tcp.fileno(), service.tcp.fileno()), 3), ((service.unix.fileno(), service.unix.fileno()), 2),
                   ((service.unix.fileno(), service.log.fileno()), 2), ((service.unix.fileno(),), 9)]:
        service.open(*fds, n=n)
        assert service.proc.wait() == 64
    for s in (service.unix, service.tcp):
        s.close()


def test_socket_activation_by_systemd(runner):
    """Nothing runs until the first connection, which is answered."""
    top = runner.mkdir(runner.top / "act", 0o755)
    config = runner.write(top / "bawnd.json", json.dumps({"state": str(top / "state"), "runtime": str(top / "run"), "any_user": True}))
    path = top / "api.sock"
    proc = runner.popen("systemd-socket-activate", "-l", path, runner.path.parent / "bawnd", "--config", config, stderr=subprocess.DEVNULL)
    while not path.exists():
        assert proc.poll() is None
    assert not (top / "state").exists()
    c = http_driver.Unix(str(path))
    c.request("GET", "/v1/health")
    assert c.getresponse().status == 200
    c.close()
    proc.send_signal(signal.SIGTERM)
    assert proc.wait() == 0
