# SPDX-License-Identifier: Apache-2.0
"""Sandboxes and runs. The same classes with a service and without one."""

from __future__ import annotations

import codecs
import os
import pathlib
import re
import socket
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union, cast

from . import types
from ._http import Http
from ._local import Local
from ._service import Service, event_bytes
from .errors import CommandFailed, Problem
from .types import NotFound, ReviewRequired

Command = Union[str, Sequence[str]]
NetworkChoice = Union[str, Sequence[str], types.Network]
Skills = Union[Mapping[str, str], Sequence[Union[str, "os.PathLike[str]"]]]
OUTPUT_MAX = 16 * 1024 * 1024
SYSTEM_SOCKET = "/run/bawn/api.sock"


# -- results


@dataclass
class ExecResult:
    """How a command in a sandbox ended. What it wrote is as bytes in stdout_bytes and stderr_bytes."""

    status: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    signal: int = 0
    stdout_cut: int = 0  # so many bytes were left out
    stderr_cut: int = 0

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")

    @property
    def ok(self) -> bool:
        return self.status == 0


@dataclass
class Event:
    """Something that happened. Of stdout and stderr, `bytes` is what was written; of agent, `data` is the agent's own object."""

    id: int
    type: str
    time: str
    data: Any = None
    bytes: bytes = b""

    @property
    def text(self) -> str:
        return self.bytes.decode(errors="replace")


@dataclass
class RunResult:
    """What comes back from a run: these, and files that are asked for."""

    id: str
    state: str
    status: Optional[int]
    stdout: str
    stderr: str
    reason: Optional[str] = None
    events: List[Any] = field(default_factory=list)  # objects that the agent printed (parse="jsonl")
    cost: Optional[float] = None  # US dollars, if the agent tells
    usage: Mapping[str, Any] = field(default_factory=dict)
    changes: Optional[int] = None  # files
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == 0


def _event(row: Mapping[str, Any]) -> Event:
    output = row["type"] in ("stdout", "stderr")
    data = cast(bytes, row["bytes"]) if "bytes" in row else event_bytes(row) if output else b""
    return Event(row["id"], row["type"], row["time"], data.decode(errors="replace") if output else row.get("data"), data)


def agent_cost(events: Sequence[Any]) -> Tuple[Optional[float], Dict[str, Any]]:
    """What a run cost and used, by the last event that tells: Claude Code has total_cost_usd, opencode cost in its steps, others usage."""
    cost: Optional[float] = None
    usage: Dict[str, Any] = {}
    steps = 0.0
    for event in events:
        part = event.get("part") if isinstance(event.get("part"), dict) else {}
        if isinstance(event.get("total_cost_usd"), (int, float)):
            cost = float(event["total_cost_usd"])
        elif isinstance(part.get("cost"), (int, float)):
            steps += float(part["cost"])
            cost = steps
        for holder in (event, part, event.get("stats") if isinstance(event.get("stats"), dict) else {}):
            for name in ("usage", "tokens"):
                if isinstance(holder.get(name), dict):
                    usage = holder[name]
    return cost, usage


# -- requests


def argv(command: Command) -> List[str]:
    """A string is for the shell."""
    return ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]


def duration(value: Union[None, int, float, str]) -> Optional[str]:
    return None if value is None else value if isinstance(value, str) else f"{max(1, round(value * 1000))}ms"


def make_shape(*, workspace: Optional[Union[str, "os.PathLike[str]"]] = None, git: Optional[str] = None, branch: Optional[str] = None, mode: Optional[str] = None,
               engine: Optional[str] = None, image: Optional[str] = None, profile: Optional[str] = None, cpus: Union[None, int, float, str] = None,
               memory: Union[None, int, str] = None, pids: Optional[int] = None, disk: Union[None, int, str] = None, limit: Union[None, int, float, str] = None,
               network: Optional[NetworkChoice] = None, secrets: Optional[Sequence[str]] = None, secret_class: Optional[str] = None,
               source_run: Optional[str] = None, local: bool = False) -> types.Shape:
    shape: Dict[str, Any] = {k: v for k, v in (("engine", engine), ("image", image), ("profile", profile), ("mode", mode), ("class", secret_class)) if v}
    limits = {k: v if isinstance(v, int) and k == "pids" else str(v) for k, v in (("cpus", cpus), ("memory", memory), ("pids", pids), ("disk", disk),
                                                                                   ("timeout", duration(limit))) if v is not None}
    source = {k: v for k, v in (("path", os.path.abspath(os.fspath(workspace)) if workspace is not None else None), ("git", git),
                                ("branch", branch if not local else None), ("run", source_run)) if v}
    if limits:
        shape["limits"] = limits
    if source:
        shape["source"] = source
    if network is not None:
        named = isinstance(network, str)
        shape["network"] = {"mode": network} if named else dict(cast(Any, network)) if isinstance(network, Mapping) else {"mode": "list", "allow": list(network)}
    if secrets is not None:
        shape["secrets"] = list(secrets)
    return cast(types.Shape, shape)


def read_skills(skills: Optional[Skills]) -> Dict[str, str]:
    """{name: text}, or paths: of files, or of folders with a SKILL.md. Only these texts cross; what else is in the folder does not."""
    if not skills:
        return {}
    if isinstance(skills, Mapping):
        return dict(skills)
    found: Dict[str, str] = {}
    for item in skills:
        path = pathlib.Path(item)
        name = path.name if path.is_dir() else path.stem if path.name != "SKILL.md" else path.resolve().parent.name
        found[re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip("._-") or "skill"] = (path / "SKILL.md" if path.is_dir() else path).read_text()
    return found


# How each agent is given a task without questions, and told to print events. The presets (profiles/agents) say the same in their "docs".
AGENT_TASKS: Mapping[str, Callable[[str], List[str]]] = {
    "claude": lambda task: ["-p", task, "--dangerously-skip-permissions", "--output-format", "stream-json", "--verbose"],
    "codex": lambda task: ["exec", "--skip-git-repo-check", "--json", task],
    "gemini": lambda task: ["--yolo", "--output-format", "stream-json", "-p", task],
    "opencode": lambda task: ["run", "--format", "json", task],
}


def agent_request(agent: str, prompt: Optional[str], arguments: Optional[Sequence[str]], instructions: Optional[str], skills: Optional[Skills],
                  mcp_servers: Optional[Mapping[str, types.McpServer]]) -> Tuple[types.Agent, List[str]]:
    """The agent of a request, and its arguments."""
    request: Dict[str, Any] = {"name": agent}
    if instructions:
        request["instructions"] = instructions
    if skills:
        request["skills"] = read_skills(skills)
    if mcp_servers:
        request["mcp_servers"] = {name: dict(server) for name, server in mcp_servers.items()}
    if prompt is None:
        return cast(types.Agent, request), list(arguments or [])
    if agent not in AGENT_TASKS:
        raise ValueError(f"how {agent!r} takes a task is not known: give its arguments")
    return cast(types.Agent, request), AGENT_TASKS[agent](prompt) + list(arguments or [])


# -- what a sandbox and a run have in common


class _Workspace:
    """The files of a sandbox or run, and what was changed in them. Paths are relative to the workspace."""

    _kind = ""
    id: str
    _api: Union[Service, Local]

    def put_bytes(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Writes a file: whole or not at all. Folders above it are made."""
        self._api.file_write(self._kind, self.id, path, bytes(data), executable)

    def put_file(self, source: Union[str, "os.PathLike[str]"], path: Optional[str] = None) -> None:
        """Copies a file of this machine into the workspace."""
        with open(source, "rb") as f:
            executable = bool(os.fstat(f.fileno()).st_mode & 0o100)
            self._api.file_write(self._kind, self.id, path or os.path.basename(os.fspath(source)), f, executable)

    def read_file(self, path: str) -> bytes:
        """A file as the commands inside see it. With a service, what a *run* changed is in its workspace after apply()."""
        return b"".join(self.iter_file(path))

    def read_text(self, path: str) -> str:
        return self.read_file(path).decode()

    def iter_file(self, path: str) -> Iterator[bytes]:
        """The bytes in pieces: memory does not grow with the file."""
        return self._api.file_read(self._kind, self.id, path)

    def get_file(self, path: str, target: Union[str, "os.PathLike[str]"]) -> None:
        """Copies a file of the workspace to this machine."""
        with open(target, "wb") as f:
            for data in self.iter_file(path):
                f.write(data)

    def list(self, path: str = "", *, recursive: bool = False) -> List[types.File]:
        return [*self._api.file_list(self._kind, self.id, path, recursive)]

    def delete_file(self, path: str) -> None:
        """A file, or a folder with all in it."""
        self._api.file_delete(self._kind, self.id, path)

    def diff(self) -> str:
        """What was changed, as a patch; files that have none (binary, or too large) are left out of it."""
        return "".join((change.get("diff") or {}).get("patch", "") or "" for change in self._api.diff(self._kind, self.id).get("changes", []))

    def changes(self) -> types.Review:
        """What was changed, with patches: spec/review.schema.json."""
        return self._api.diff(self._kind, self.id)

    def review(self) -> types.Review:
        """What was changed, the riskiest first, with the reason of each risk."""
        return self._api.review(self._kind, self.id)

    def apply(self, *, only: Sequence[str] = (), exclude: Sequence[str] = (), classes: Sequence[str] = (), conflict: Optional[str] = None,
              dry_run: bool = False) -> Dict[str, Any]:
        """Brings the changes into the workspace. If one is of high risk nothing is done, ReviewRequired, unless `classes` names what may be."""
        request: Dict[str, Any] = {k: v for k, v in (("only", [*only]), ("except", [*exclude]), ("classes", [*classes]), ("conflict", conflict), ("dry_run", dry_run)) if v}
        return self._applied(lambda: self._api.apply(self._kind, self.id, cast(types.ApplyRequest, request)))

    def discard(self, *, only: Sequence[str] = ()) -> None:
        """Throws the changes away, all or those that are named."""
        self._applied(lambda: self._api.discard(self._kind, self.id, [*only]))

    def _applied(self, action: Callable[[], Any]) -> Any:
        return action()


# -- a command in a sandbox


class Process:
    """A command that runs in a sandbox. Iterating gives (stream, bytes) while it is written; close() ends the command."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._output = stream, iter(stream)

    def __iter__(self) -> Iterator[Tuple[str, bytes]]:
        return self._output

    def text(self) -> Iterator[Tuple[str, str]]:
        """(stream, text); a character that comes in two pieces is one."""
        decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("stdout", "stderr")}
        for name, data in self._output:
            text = decoders[name].decode(data)
            if text:
                yield name, text
        for name, decoder in decoders.items():
            rest = decoder.decode(b"", final=True)
            if rest:
                yield name, rest

    def lines(self) -> Iterator[str]:
        """Lines of standard output."""
        rest = ""
        for name, text in self.text():
            if name == "stdout":
                *lines, rest = (rest + text).split("\n")
                yield from lines
        if rest:
            yield rest

    def wait(self) -> ExecResult:
        """Its end; output that was not read is thrown away."""
        return self.collect(0)

    def collect(self, output_max: int = OUTPUT_MAX) -> ExecResult:
        kept, cut = {"stdout": bytearray(), "stderr": bytearray()}, {"stdout": 0, "stderr": 0}
        for name, data in self._output:
            room = max(0, output_max - len(kept[name]))
            kept[name] += data[:room]
            cut[name] += max(0, len(data) - room)
        end = self._stream.end or {}
        status = int(end.get("status", -1))
        number = int(end.get("signal") or (status - 128 if 128 < status <= 192 else 0))
        return ExecResult(status, bytes(kept["stdout"]), bytes(kept["stderr"]), number, cut["stdout"], cut["stderr"])

    @property
    def status(self) -> Optional[int]:
        """None while it runs."""
        return self._stream.end["status"] if self._stream.end else None

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Sandbox(_Workspace):
    """A sandbox that stays until it is deleted. As a context manager it is deleted at the end."""

    _kind = "sandboxes"

    def __init__(self, api: Union[Service, Local], info: types.Sandbox) -> None:
        self._api, self.info, self.id = api, info, info["id"]
        self._own = False

    @classmethod
    def create(cls, *, client: Optional["Client"] = None, local: Optional[bool] = None, url: Optional[str] = None, token: Optional[str] = None,
               env: Optional[Mapping[str, str]] = None, labels: Optional[Mapping[str, str]] = None, idle: Union[None, int, float, str] = None,
               name: Optional[str] = None, ports: Sequence[int] = (), **shape: Any) -> "Sandbox":
        """Makes and starts one. shape: workspace, mode, engine, image, profile, cpus, memory, pids, disk, limit, network, secrets; see docs/sdk.md."""
        own = client is None
        client = client or Client(url=url, token=token, local=local)
        box = client.create_sandbox(env=env, labels=labels, idle=idle, name=name, ports=ports, **shape)
        box._own = own
        return box

    @property
    def state(self) -> str:
        return self.refresh()["state"]

    def refresh(self) -> types.Sandbox:
        self.info = self._api.box_get(self.id)
        return self.info

    # -- commands

    def exec(self, command: Command, *, env: Optional[Mapping[str, str]] = None, cwd: Optional[str] = None, stdin: Union[None, str, bytes] = None,
             timeout: Union[None, int, float, str] = None) -> Process:
        """Starts a command; its output comes while it runs. A string is for the shell. After `timeout` seconds it is ended, with status 124."""
        request: Dict[str, Any] = {"command": argv(command)}
        if env:
            request["env"] = dict(env)
        if cwd:
            request["cwd"] = cwd
        if stdin is not None:
            request["stdin"] = stdin.decode() if isinstance(stdin, bytes) and not self._api.local else stdin
        if timeout is not None:
            request["timeout"] = duration(timeout)
        return Process(self._api.box_exec(self.id, cast(types.ExecRequest, request)))

    def run(self, command: Command, *, check: bool = False, output_max: int = OUTPUT_MAX, on_output: Optional[Callable[[str, bytes], None]] = None,
            **more: Any) -> ExecResult:
        """Runs a command to its end. check: CommandFailed if it fails. on_output(stream, bytes) is called while it runs."""
        with self.exec(command, **more) as process:
            if on_output:
                process._output = _tee(process._output, on_output)
            result = process.collect(output_max)
        if check and not result.ok:
            raise CommandFailed(result)
        return result

    # -- life

    def start(self) -> None:
        self.info = self._api.box_start(self.id)

    def stop(self) -> None:
        """Ends everything in it; its files stay."""
        self.info = self._api.box_stop(self.id)

    def delete(self) -> None:
        """Ends it, and removes it with its workspace and everything of it."""
        self._api.box_delete(self.id)

    def checkpoint(self, tag: str) -> types.Checkpoint:
        """Copies its files, to fork from."""
        return self._api.checkpoint(self.id, tag)

    def checkpoints(self) -> List[types.Checkpoint]:
        return self._api.checkpoints(self.id)

    def delete_checkpoint(self, tag: str) -> None:
        self._api.checkpoint_delete(self.id, tag)

    def fork(self, *, checkpoint: Optional[str] = None, labels: Optional[Mapping[str, str]] = None) -> "Sandbox":
        """A new sandbox with the files of this one, or of one of its checkpoints."""
        return Sandbox(self._api, self._api.fork(self.id, checkpoint, labels or {}))

    def expose(self, port: int) -> str:
        """Where a port of the sandbox answers on the service's machine: "127.0.0.1:41234"."""
        return self._api.expose(self.id, port)["address"]

    def events(self, *, follow: bool = True) -> Iterator[Event]:
        """What happens to it."""
        return map(_event, self._api.box_events(self.id, follow))

    def _applied(self, action: Callable[[], Any]) -> Any:
        """Its version of the workspace is settled only when nothing writes to it: it is stopped meanwhile."""
        running = self.state == "running"
        if running:
            self.stop()
        try:
            return action()
        finally:
            if running:
                self.start()

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.delete()
        except NotFound:
            pass
        finally:
            if self._own:
                self._api.close()


def _tee(output: Iterator[Tuple[str, bytes]], on_output: Callable[[str, bytes], None]) -> Iterator[Tuple[str, bytes]]:
    for name, data in output:
        on_output(name, data)
        yield name, data


class Run(_Workspace):
    """One command, or an agent, in a sandbox and a workspace of its own."""

    _kind = "runs"

    def __init__(self, api: Union[Service, Local], info: types.Run, *, require_review: bool = False) -> None:
        self._api, self.info, self.id = api, info, info["id"]
        self._require_review, self._reviewed = require_review, False

    def refresh(self) -> types.Run:
        self.info = self._api.run_get(self.id)
        return self.info

    @property
    def state(self) -> str:
        return self.refresh()["state"]

    def wait(self, timeout: Optional[float] = None) -> "Run":
        """Returns when it has ended; TimedOut if that takes longer. The run goes on then."""
        self.info = self._api.run_wait(self.id, timeout)
        return self

    def cancel(self) -> None:
        self.info = self._api.run_cancel(self.id)

    def signal(self, number: int) -> None:
        self._api.run_signal(self.id, number)

    def write_stdin(self, data: bytes, *, close: bool = False) -> None:
        """The run must have been made with stdin=True."""
        self._api.run_stdin(self.id, data, close)

    def events(self, *, after: int = 0, follow: bool = True) -> Iterator[Event]:
        """Output, states and the agent's own events, while they happen. Goes on by itself after a break, each event once; after: behind this id."""
        return map(_event, self._api.run_events(self.id, after, follow))

    def output(self, stream: str = "stdout") -> Iterator[bytes]:
        return self._api.run_output(self.id, stream)

    def stdout(self, output_max: int = OUTPUT_MAX) -> str:
        return _capped(self.output("stdout"), output_max).decode(errors="replace")

    def stderr(self, output_max: int = OUTPUT_MAX) -> str:
        return _capped(self.output("stderr"), output_max).decode(errors="replace")

    def result(self, timeout: Optional[float] = None) -> RunResult:
        """Waits, and collects what comes back."""
        info = self.wait(timeout).info
        events = [e.data for e in self.events(follow=False) if e.type == "agent"]
        cost, usage = agent_cost(events)
        details = info.get("result") or {}
        return RunResult(self.id, info["state"], info.get("status"), self.stdout(), self.stderr(), info.get("reason"), events, cost, usage, details.get("changes"),
                         details)

    def delete(self) -> None:
        """Removes it with its workspace and everything of it."""
        self._api.run_delete(self.id)

    def review(self) -> types.Review:
        report = super().review()
        self._reviewed = True
        return report

    def apply(self, **choices: Any) -> Dict[str, Any]:
        if self._require_review and not self._reviewed:
            raise ReviewRequired("this client requires a review before changes are applied: call review() first", status=409)
        return super().apply(**choices)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever was not applied is gone."""
        try:
            self.cancel()
            self.delete()
        except NotFound:
            pass


def _capped(chunks: Iterator[bytes], most: int) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk[:most - len(data)]
        if len(data) >= most:
            getattr(chunks, "close", lambda: None)()
            break
    return bytes(data)


class Client:
    """A service, or `bawn` itself.

    url and token default to BAWN_URL and BAWN_TOKEN; "local" is no service. Without a url: the socket of this user's service, or the system's, if there is one; otherwise
    no service is used (local). retry_seconds: how long a request that may be repeated is, while the service is away.
    require_review: apply() refuses what review() was not called for."""

    def __init__(self, url: Optional[str] = None, token: Optional[str] = None, *, local: Optional[bool] = None, program: Optional[str] = None,
                 environ: Optional[Mapping[str, str]] = None, timeout: Optional[float] = 300.0, retry_seconds: float = 30.0, ca: Optional[str] = None,
                 require_review: bool = False) -> None:
        url = url or (None if local else os.environ.get("BAWN_URL")) or (None if local else _usual_socket())
        if url == "local":
            url, local = None, True
        self.require_review = require_review
        self._api: Union[Service, Local]
        if local or (url is None and local is None):
            self._api = Local(program, environ=environ)
        elif url is None:
            raise ValueError("no service is configured: give its url, or set BAWN_URL")
        else:
            self._api = Service(Http(url, token or os.environ.get("BAWN_TOKEN"), timeout=timeout, retry_seconds=retry_seconds, ca=ca or os.environ.get("BAWN_CA")))

    @property
    def local(self) -> bool:
        return self._api.local

    def create_sandbox(self, *, env: Optional[Mapping[str, str]] = None, labels: Optional[Mapping[str, str]] = None, idle: Union[None, int, float, str] = None,
                       name: Optional[str] = None, ports: Sequence[int] = (), **shape: Any) -> Sandbox:
        request: Dict[str, Any] = {"shape": make_shape(local=self.local, **shape)}
        if env:
            request["env"] = dict(env)
        if labels:
            request["labels"] = dict(labels)
        if idle is not None:
            request["idle"] = duration(idle)
        if name and not self.local:
            raise ValueError("the service chooses the names of sandboxes; use labels")
        return Sandbox(self._api, self._api.box_create(cast(types.SandboxRequest, request), {"name": name, "ports": list(ports)}))

    def sandbox(self, id_: str) -> Sandbox:
        """One that exists."""
        return Sandbox(self._api, self._api.box_get(id_))

    def sandboxes(self) -> Iterator[Sandbox]:
        return (Sandbox(self._api, info) for info in self._api.box_list())

    def start_run(self, command: Optional[Command] = None, *, agent: Optional[str] = None, prompt: Optional[str] = None, arguments: Optional[Sequence[str]] = None,
                  instructions: Optional[str] = None, skills: Optional[Skills] = None, mcp_servers: Optional[Mapping[str, types.McpServer]] = None,
                  env: Optional[Mapping[str, str]] = None, branch: Optional[str] = None, labels: Optional[Mapping[str, str]] = None, stdin: bool = False,
                  parse: Optional[str] = None, files: Optional[Mapping[str, Union[str, bytes]]] = None, key: Optional[str] = None, **shape: Any) -> Run:
        """Starts a run, and returns when it is accepted. key: the same key makes one run, however often it is asked for."""
        request: Dict[str, Any] = {}
        if branch and self.local and "mode" not in shape:
            shape["mode"] = "worktree"
        request["shape"] = make_shape(local=self.local, branch=branch, **shape)
        if agent:
            if command is not None:
                raise ValueError("an agent is its own command: give prompt or arguments")
            request["agent"], request["command"] = agent_request(agent, prompt, arguments, instructions, skills, mcp_servers)
            parse = parse or ("jsonl" if prompt is not None else None)
        elif command is None or prompt or instructions or skills or mcp_servers:
            raise ValueError("give a command, or an agent with what it is to do")
        else:
            request["command"] = argv(command)
        for name, value in (("env", env), ("labels", labels), ("stdin", stdin), ("parse", parse)):
            if value:
                request[name] = dict(value) if isinstance(value, Mapping) else value
        info = self._api.run_create(cast(types.RunRequest, request), files or {}, {"branch": branch}, key)
        return Run(self._api, info, require_review=self.require_review)

    def run(self, command: Optional[Command] = None, *, timeout: Optional[float] = None, check: bool = False, **more: Any) -> Run:
        """Runs a command or an agent to its end: the Run has its files and changes, and result() what it printed. After `timeout` seconds TimedOut
        is raised and the run is cancelled. `limit` is the time that the sandbox itself enforces."""
        run = self.start_run(command, **more)
        try:
            run.wait(timeout)
        except BaseException:
            _quietly(run.cancel)
            raise
        if check and run.info.get("status") != 0:
            raise CommandFailed(run.result())
        return run

    def get_run(self, id_: str) -> Run:
        return Run(self._api, self._api.run_get(id_), require_review=self.require_review)

    def runs(self, **filters: Any) -> Iterator[Run]:
        return (Run(self._api, info, require_review=self.require_review) for info in self._api.run_list(**filters))

    def request(self, operation: str, *, path: Mapping[str, str] = {}, query: Mapping[str, Any] = {}, body: Any = None) -> Any:
        """Any operation of the API by its name in spec/openapi.yaml, e.g. request("getMe")."""
        if not isinstance(self._api, Service):
            raise Problem("this needs a service", code="not_implemented")
        return self._api.http.json(operation, path=path, query=query, json_body=body)

    def close(self) -> None:
        self._api.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _quietly(action: Callable[[], Any]) -> None:
    try:
        action()
    except Exception:
        pass


def _usual_socket() -> Optional[str]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    for path in ([f"{runtime}/bawn/api.sock"] if runtime else []) + [SYSTEM_SOCKET]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            try:
                s.connect(path)
                return f"unix://{path}"
            except OSError:
                pass  # not there, not for us, or left over
    return None


def run(command: Optional[Command] = None, *, client: Optional[Client] = None, local: Optional[bool] = None, url: Optional[str] = None,
        token: Optional[str] = None, **more: Any) -> Run:
    """One command, or one agent, in a sandbox of its own: Client.run() of a client for this only."""
    return (client or Client(url, token, local=local)).run(command, **more)
