# SPDX-License-Identifier: Apache-2.0
"""The same as _service.py without a service: every operation is a `bawn ... --json`."""

from __future__ import annotations

import json
import os
import pathlib
import secrets
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _call
from ._service import Output, check_path, find_command, pack, parse_find
from .errors import BawnError, Problem, TimedOut, Unreachable
from .types import (ApplyRequest, BadField, CannotSandbox, Checkpoint, Conflict, ExecRequest, File, NotFound, NotRunning, Port, Review, ReviewRequired, Run,
                    RunRequest, Sandbox, SandboxRequest)

CHUNK = 64 * 1024
LINE_MAX = 1024 * 1024  # of an agent's events; a longer line is output like any other
RESULT = b'{"status":'  # begins the last line that `bawn exec --json` writes to stderr
CONFLICTS = {"fail": "stop", "ours": "skip", "theirs": "overwrite", "merge": "stop"}


def local_problem(text: str, status: int = 0) -> Problem:
    """What `bawn` says, as the exception that the service would give."""
    lines = [line[6:] if line.startswith("bawn: ") else line for line in text.strip().splitlines()] or [f"bawn ended with status {status}"]
    detail = "\n".join(lines)
    kind: Any = CannotSandbox
    if any(word in detail for word in ("no sandbox '", "there is no run", "No such file or directory", "there is no checkpoint", "no run of this")):
        kind = NotFound
    elif "not running" in detail or "is stopped" in detail:
        kind = NotRunning
    elif "is in use" in detail or "exists already" in detail or "already exists" in detail:
        kind = Conflict
    elif status == 64:
        kind = BadField
    return kind(detail)


def options(shape: Mapping[str, Any], env: Mapping[str, str]) -> List[str]:
    """Of `bawn run` and `bawn start`."""
    limits, network = shape.get("limits", {}), shape.get("network", {})
    words = [f"--{name}={shape[name]}" for name in ("engine", "image", "profile") if shape.get(name)]
    words += [f"--{name}={limits[name]}" for name in ("cpus", "memory", "pids", "disk", "timeout") if limits.get(name)]
    words += [f"--workspace={shape.get('mode', 'overlay')}", f"--ask={network.get('ask', 'never')}"]
    if network.get("mode"):
        words.append(f"--network={network['mode']}")
    words += [f"--allow={host}" for host in network.get("allow", [])] + [f"--deny={host}" for host in network.get("deny", [])]
    if "secrets" in shape:
        words += [f"--secret={name}" for name in shape["secrets"]] or ["--no-secrets"]
    return words + [f"--env={name}={value}" for name, value in env.items()]


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """`bawn` ends what it runs inside when it is ended, however that happens."""
    if process.poll() is None:
        try:
            process.terminate()
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


class LocalStream:
    """A command in a sandbox: output while it runs, then its end. Read as fast as the caller takes it: the pipes hold the rest."""

    def __init__(self, local: "Local", words: Sequence[str], stdin: Optional[bytes]) -> None:
        self.end: Optional[Dict[str, Any]] = None
        self.tail, self.errors = bytearray(), bytearray()
        self.process = local.popen(words, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL)
        self.call = _call.current()
        if self.call:
            self.call.attach(self.close)
        if stdin:
            threading.Thread(target=self._feed, args=(stdin,), daemon=True).start()

    def _feed(self, data: bytes) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(data)
            self.process.stdin.close()
        except OSError:
            pass  # it did not want all of it

    def __iter__(self) -> Iterator[Output]:
        assert self.process.stdout and self.process.stderr
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ, "stdout")
            selector.register(self.process.stderr, selectors.EVENT_READ, "stderr")
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, CHUNK)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data == "stderr":
                        data = self._hold_result(data)
                    if data:
                        yield key.data, data
        rest = self._finish()
        if rest:
            yield "stderr", rest

    def _hold_result(self, data: bytes) -> bytes:
        """What of stderr is certainly not the line of the result."""
        self.tail += data
        at = self.tail.rfind(RESULT)
        if at < 0 or b"\n" in self.tail[at:-1]:
            at = len(self.tail)
            for n in range(min(len(RESULT) - 1, at), 0, -1):
                if self.tail.endswith(RESULT[:n]):
                    at -= n
                    break
        ready = bytes(self.tail[:at])
        del self.tail[:at]
        self.errors = (self.errors + ready)[-4096:]
        return ready

    def _finish(self) -> bytes:
        status = self.process.wait()
        self._closed()
        try:
            self.end = json.loads(self.tail)
            return b""
        except ValueError:
            pass
        if status in (125, 64) or status < 0:
            raise local_problem((self.errors + self.tail).decode(errors="replace"), status)
        self.end = {"status": status}
        return bytes(self.tail)

    def _closed(self) -> None:
        if self.call:
            self.call.detach(self.close)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()

    def close(self) -> None:
        """Killed, not asked: then all that the command has started ends with it, not only the command."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class _LocalRun:
    """A run of this process: its output in files, what happens as a list of places in them, so that memory does not grow with the output."""

    def __init__(self, local: "Local", name: str, request: RunRequest, words: Sequence[str], folder: pathlib.Path, workspace: str) -> None:
        self.name, self.request, self.folder, self.workspace = name, request, folder, workspace
        self.created, self.ended = _now(), None
        self.ended: Optional[str]
        self.state, self.result, self.reason, self.status = "running", None, None, None
        self.result: Optional[Dict[str, Any]]
        self.reason: Optional[str]
        self.status: Optional[int]
        self.cancelled = False
        self.changed = threading.Condition()
        self.list: List[Tuple[str, str, int, int]] = []  # type, time, place and length in the file of its type
        self.files = {stream: open(folder / stream, "w+b", buffering=0) for stream in ("stdout", "stderr")}
        self.process = local.popen(words, stdin=subprocess.PIPE if request.get("stdin") else subprocess.DEVNULL)
        self.pipes = {"stdout": self.process.stdout, "stderr": self.process.stderr}
        self._add("state", 0, 0)
        self.thread = threading.Thread(target=self._pump, daemon=True)
        self.thread.start()

    def _add(self, kind: str, at: int, length: int) -> None:
        with self.changed:
            self.list.append((kind, _now(), at, length))
            self.changed.notify_all()

    def _pump(self) -> None:
        at = {"stdout": 0, "stderr": 0}
        told = {"stdout": 0, "stderr": 0}  # events are behind the bytes by an unfinished line or character
        tail = {"stdout": bytearray(), "stderr": bytearray()}
        lines = self.request.get("parse") == "jsonl"
        with selectors.DefaultSelector() as selector:
            for stream, pipe in self.pipes.items():
                selector.register(pipe, selectors.EVENT_READ, stream)  # type: ignore[arg-type]
            while selector.get_map():
                for key, _ in selector.select():
                    stream, data = key.data, os.read(key.fd, CHUNK)
                    if not data:
                        selector.unregister(key.fileobj)
                    self.files[stream].write(data)
                    at[stream] += len(data)
                    tail[stream] += data
                    told[stream] += self._tell(stream, tail[stream], told[stream], lines and stream == "stdout", not data)
        self._finish()

    def _tell(self, stream: str, tail: bytearray, at: int, lines: bool, last: bool) -> int:
        """Makes events of what is complete."""
        done = 0
        if not lines:
            done = len(tail) if last else len(tail) - _cut_character(tail)
            if stream == "stderr" and not last:
                held = tail.rfind(RESULT)  # the result is no output
                done = min(done, held) if held >= 0 else done
            elif stream == "stderr" and tail.rfind(RESULT) >= 0 and _is_json(tail[tail.rfind(RESULT):]):
                done = tail.rfind(RESULT)
            if done:
                self._add(stream, at, done)
        else:
            while True:
                end = tail.find(b"\n", done)
                if end < 0 and not (last and done < len(tail)) and len(tail) - done < LINE_MAX:
                    break
                stop = end + 1 if end >= 0 else len(tail)
                self._add("agent" if _is_json(tail[done:stop]) else "stdout", at + done, stop - done)
                done = stop
        del tail[:done]
        return done

    def _finish(self) -> None:
        status = self.process.wait()
        error = self.read("stderr")[-65536:]
        at = error.rfind(RESULT)
        result: Any = None
        if at >= 0:
            try:
                result = json.loads(error[at:])
            except ValueError:
                pass
        for pipe in self.pipes.values():
            if pipe:
                pipe.close()
        with self.changed:
            self.ended = _now()
            self.result = result if isinstance(result, dict) else None
            if self.result is not None:
                size = os.fstat(self.files["stderr"].fileno()).st_size
                os.ftruncate(self.files["stderr"].fileno(), size - (len(error) - at))
            self.status = self.result["status"] if self.result and self.result.get("started", True) else None if status in (125, 64) or status < 0 else status
            self.state = "cancelled" if self.cancelled else "done" if self.status is not None else "failed"
            self.reason = None if self.state == "done" else str(local_problem(error.decode(errors="replace"), status)) if not self.cancelled else "cancelled"
            self.list.append(("exit", _now(), 0, 0))
            self.changed.notify_all()

    def read(self, stream: str, at: int = 0, length: Optional[int] = None) -> bytes:
        if length is None:
            length = os.fstat(self.files[stream].fileno()).st_size - at
        return os.pread(self.files[stream].fileno(), length, at)

    def event(self, number: int) -> Dict[str, Any]:
        kind, when, at, length = self.list[number - 1]
        event: Dict[str, Any] = {"id": number, "type": kind, "time": when}
        if kind == "state":
            event["data"] = {"state": "running"}
        elif kind == "exit":
            event["data"] = {"status": self.status}
        elif kind == "agent":
            event["data"] = json.loads(self.read("stdout", at, length))
        else:
            event["bytes"] = self.read(kind, at, length)
            event["data"] = event["bytes"].decode(errors="replace")
        return event

    def as_run(self) -> Run:
        run: Dict[str, Any] = {"id": self.name, "state": self.state, "command": list(self.request["command"]), "created": self.created, "started": self.created,
                               "ended": self.ended, "status": self.status, "reason": self.reason, "result": self.result,
                               "stdout_bytes": os.fstat(self.files["stdout"].fileno()).st_size, "stderr_bytes": os.fstat(self.files["stderr"].fileno()).st_size,
                               "labels": self.request.get("labels", {})}
        return run  # type: ignore[return-value]

    def close(self) -> None:
        _kill(self.process)
        self.thread.join()
        for file in self.files.values():
            file.close()


def _now() -> str:
    t = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) + f".{int(t % 1 * 1000):03d}Z"


def _cut_character(data: Union[bytes, bytearray]) -> int:
    """How many bytes at the end are the beginning of a character of UTF-8."""
    for n in range(1, min(3, len(data)) + 1):
        byte = data[-n]
        if byte >= 0xC0:
            return n if n < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
        if byte < 0x80:
            return 0
    return 0


def _is_json(line: Union[bytes, bytearray]) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


class Local:
    local = True

    def __init__(self, program: Optional[str] = None, *, environ: Optional[Mapping[str, str]] = None) -> None:
        found = program or os.environ.get("BAWN") or shutil.which("bawn")
        if not found:
            raise Unreachable("the program 'bawn' is not in PATH, and no service is configured (BAWN_URL)")
        self.program, self.environ = found, environ
        self.workspaces: Dict[str, str] = {}
        self.runs: Dict[str, _LocalRun] = {}
        self.made: Dict[str, str] = {}  # folders that are ours

    # -- processes

    def popen(self, words: Sequence[str], **more: Any) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=None if self.environ is None else dict(self.environ),
                                    **more)
        except OSError as e:
            raise Unreachable(f"cannot run '{self.program}': {e.strerror}") from e

    def call(self, *words: str, input: Optional[bytes] = None, ok: Sequence[int] = (0,)) -> "subprocess.CompletedProcess[bytes]":
        process = self.popen(words, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
        call = _call.current()

        def closer() -> None:
            _kill(process)

        if call:
            call.attach(closer)
        try:
            out, error = process.communicate(input)
        except BaseException:
            _kill(process)
            raise
        finally:
            if call:
                call.detach(closer)
        if process.returncode not in ok:
            raise local_problem(error.decode(errors="replace"), process.returncode)
        return subprocess.CompletedProcess(words, process.returncode, out, error)

    def json(self, *words: str, ok: Sequence[int] = (0,)) -> Any:
        return json.loads(self.call(*words, ok=ok).stdout or b"null")

    def close(self) -> None:
        for run in list(self.runs):
            self.run_delete(run)

    # -- workspaces

    def _workspace(self, name: str, shape: Mapping[str, Any]) -> str:
        source = shape.get("source", {})
        if "git" in source or "run" in source:
            raise BadField("without a service the workspace is a folder: give its path", field="shape.source")
        path = source.get("path")
        if path is None:
            path = self.made[name] = tempfile.mkdtemp(prefix="bawn-sdk.")
        self.workspaces[name] = os.path.abspath(path)
        return self.workspaces[name]

    def _forget(self, name: str) -> None:
        self.workspaces.pop(name, None)
        folder = self.made.pop(name, None)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)

    # -- sandboxes

    def box_create(self, request: SandboxRequest, more: Mapping[str, Any]) -> Sandbox:
        name = more.get("name") or f"sdk-{secrets.token_hex(6)}"
        folder = self._workspace(name, request.get("shape", {}))
        words = ["start", "--json", "--quiet", f"--directory={folder}", *options(request.get("shape", {}), request.get("env", {}))]
        if request.get("idle"):
            words.append(f"--idle={request['idle']}")
        words += [f"--publish={port}" for port in more.get("ports", ())]
        try:
            self.call(*words, "--", name) if name.startswith("-") else self.call(*words, name)
        except BaseException:
            self._forget(name)
            raise
        return self.box_get(name)

    def box_get(self, box: str) -> Sandbox:
        details = self.json("inspect", "--json", box)
        self.workspaces.setdefault(details["name"], details["workspace"])
        found: Sandbox = {"id": details["name"], "state": details["status"], "created": details["created"], "reason": details.get("why"), "details": details}
        return found

    def box_start(self, box: str) -> Sandbox:
        self.call("start", "--quiet", box)
        return self.box_get(box)

    def box_stop(self, box: str) -> Sandbox:
        self.call("stop", "--json", box)
        return self.box_get(box)

    def box_delete(self, box: str) -> None:
        self.call("rm", "--force", "--discard-changes", box)
        self._forget(box)

    def box_list(self) -> Iterator[Sandbox]:
        for row in self.json("ps", "--all", "--json"):
            if row.get("kind") == "persistent":
                yield self.box_get(row["name"])

    def box_exec(self, box: str, request: ExecRequest) -> LocalStream:
        words = ["exec", "--json", "--quiet", "--no-tty"] + [f"--env={k}={v}" for k, v in request.get("env", {}).items()]
        if request.get("cwd"):
            words.append(f"--workdir={request['cwd']}")
        if request.get("timeout"):
            words.append(f"--timeout={request['timeout']}")
        stdin = request.get("stdin")
        return LocalStream(self, [*words, box, "--", *request["command"]], stdin.encode() if isinstance(stdin, str) else stdin)

    def _inside(self, box: str, *command: str, input: Optional[bytes] = None) -> bytes:
        """A small command of our own in a sandbox."""
        return self.call("exec", "--quiet", "--no-tty", box, "--", *command, input=input).stdout

    def checkpoint(self, box: str, tag: str) -> Checkpoint:
        return self.json("checkpoint", "--json", box, tag)

    def checkpoints(self, box: str) -> List[Checkpoint]:
        return self.json("checkpoint", "ls", "--json", box)

    def checkpoint_delete(self, box: str, tag: str) -> None:
        self.call("checkpoint", "rm", box, tag)

    def fork(self, box: str, checkpoint: Optional[str], labels: Mapping[str, str]) -> Sandbox:
        name = f"sdk-{secrets.token_hex(6)}"
        self.json("fork", "--json", "--start", f"--name={name}", *([f"--from={checkpoint}"] if checkpoint else []), box)
        return self.box_get(name)

    def expose(self, box: str, port: int) -> Port:
        for word in self.box_get(box)["details"]["options"]:  # type: ignore[index]
            inside, _, outside = word.partition("=")[2].partition(":")
            if word.startswith("--publish=") and inside == str(port):
                return {"port": port, "address": f"127.0.0.1:{outside or inside}"}
        raise BadField(f"without a service a port is published when the sandbox is made: Sandbox.create(ports=[{port}])", field="port")

    def box_events(self, box: str, follow: bool) -> Iterator[Dict[str, Any]]:
        """Its audit log."""
        stream = LocalStream(self, ["log", "--json", *(["--follow"] if follow else []), box], None)
        rest = b""
        try:
            for kind, data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines if kind == "stdout" else []:
                    row = json.loads(line)
                    yield {"id": row["seq"], "type": row["type"], "time": row["time"], "data": row}
        finally:
            stream.close()

    # -- runs

    def run_create(self, request: RunRequest, files: Mapping[str, Union[str, bytes]], more: Mapping[str, Any], key: Optional[str]) -> Run:
        name = key or f"sdk-{secrets.token_hex(6)}"
        if name in self.runs:
            return self.runs[name].as_run()
        shape = request.get("shape", {})
        folder = self._workspace(name, shape)
        state = pathlib.Path(tempfile.mkdtemp(prefix="bawn-sdk-run."))
        common = [f"--directory={folder}", *options(shape, request.get("env", {}))]
        if shape.get("mode", "overlay") not in ("direct", "ro"):
            common.append(f"--name={more.get('branch') or name}")
        agent = request.get("agent")
        words = ["run", "--json", "--quiet", "--no-tty", *common]
        if agent:
            words.append(f"--agent={agent['name']}")
            setup = {k: v for k, v in agent.items() if k != "name"}
            if setup:
                (state / "agent.json").write_text(json.dumps(setup))
                words.append(f"--agent-setup={state / 'agent.json'}")
        try:
            if files:
                self.call("run", "--quiet", "--no-tty", *common, "--", "tar", "-x", "-f", "-", input=pack(files))
            run = self.runs[name] = _LocalRun(self, name, request, [*words, "--", *request["command"]], state, folder)
            run.stored = str(more.get("branch") or name)  # type: ignore[attr-defined]
        except BaseException:
            shutil.rmtree(state, ignore_errors=True)
            self._forget(name)
            raise
        return run.as_run()

    def _run(self, name: str) -> _LocalRun:
        if name not in self.runs:
            raise NotFound(f"there is no run '{name}'", status=404)
        return self.runs[name]

    def run_get(self, run: str) -> Run:
        return self._run(run).as_run()

    def run_wait(self, run: str, timeout: Optional[float]) -> Run:
        r = self._run(run)
        call = _call.current()
        deadline = None if timeout is None else time.monotonic() + timeout
        with r.changed:
            while not (r.ended or (call and call.cancelled)):
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimedOut(f"run {run} is still running")
                r.changed.wait(min(left or 1.0, 1.0) if call or left is not None else None)
        return r.as_run()

    def run_cancel(self, run: str) -> Run:
        r = self._run(run)
        if not r.ended:
            r.cancelled = True
            _kill(r.process)
            r.thread.join()
        return r.as_run()

    def run_signal(self, run: str, number: int) -> None:
        if number:
            self._run(run).process.send_signal(signal.Signals(number))

    def run_stdin(self, run: str, data: bytes, close: bool) -> None:
        pipe = self._run(run).process.stdin
        if pipe is None or pipe.closed:
            raise Conflict("the run was made without stdin, or it is closed", status=409)
        try:
            pipe.write(data)
            pipe.flush()
            if close:
                pipe.close()
        except OSError as e:
            raise Conflict("the command has ended, or closed its input", status=409) from e

    def run_output(self, run: str, stream: str) -> Iterator[bytes]:
        r, at = self._run(run), 0
        while True:
            data = r.read(stream, at, CHUNK)
            if not data:
                return
            at += len(data)
            yield data

    def run_events(self, run: str, after: int, follow: bool) -> Iterator[Dict[str, Any]]:
        r, number = self._run(run), after
        while True:
            with r.changed:
                while follow and number >= len(r.list) and not r.ended:
                    r.changed.wait(1.0)
                if number >= len(r.list):
                    return
            number += 1
            yield r.event(number)

    def run_delete(self, run: str) -> None:
        r = self.runs.pop(run, None)
        if r is None:
            raise NotFound(f"there is no run '{run}'", status=404)
        r.close()
        try:
            self.call("discard", "--yes", f"--directory={r.workspace}", r.stored)  # type: ignore[attr-defined]
        except Problem:
            pass  # it left no changes
        shutil.rmtree(r.folder, ignore_errors=True)
        self._forget(run)

    def run_list(self, **filters: Any) -> Iterator[Run]:
        return iter([r.as_run() for r in reversed(list(self.runs.values())) if filters.get("state") in (None, r.state)])

    # -- files and changes

    def _files(self, kind: str, id_: str, *command: str, input: Optional[bytes] = None) -> bytes:
        if kind == "sandboxes":
            return self._inside(id_, *command, input=input)
        run = self._run(id_)
        if not run.ended:
            raise Conflict("the files of a run that has not ended are its own, without a service", status=409)
        shape = {**run.request.get("shape", {}), "network": {"mode": "none"}}
        words = [f"--directory={run.workspace}", *options(shape, {})]
        if shape.get("mode", "overlay") not in ("direct", "ro"):
            words.append(f"--name={run.stored}")  # type: ignore[attr-defined]
        return self.call("run", "--quiet", "--no-tty", *words, "--", *command, input=input).stdout

    def file_list(self, kind: str, id_: str, path: str, recursive: bool) -> Iterator[File]:
        return parse_find(self._files(kind, id_, *find_command(path, recursive)))

    def file_read(self, kind: str, id_: str, path: str) -> Iterator[bytes]:
        check_path(path)
        if kind != "sandboxes":
            yield self._files(kind, id_, "cat", "--", path)
            return
        process = self.popen(["get", id_, path], stdin=subprocess.DEVNULL)
        assert process.stdout and process.stderr
        try:
            while True:
                data = process.stdout.read1(CHUNK)  # type: ignore[attr-defined]
                if not data:
                    break
                yield data
            if process.wait() != 0:
                raise local_problem(process.stderr.read().decode(errors="replace"), process.returncode)
        finally:
            _kill(process)
            process.stdout.close()
            process.stderr.close()

    def file_write(self, kind: str, id_: str, path: str, data: Union[bytes, BinaryIO], executable: bool) -> None:
        check_path(path)
        folder = path.rpartition("/")[0]
        content = data if isinstance(data, bytes) else data.read()
        if kind != "sandboxes":
            self._files(kind, id_, "sh", "-c", 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && chmod "$2" -- "$1"', "sh", "./" + path,
                        "755" if executable else "644", input=content)
            return
        words = ["put", "--json", *(["--mode=755"] if executable else []), id_, path]
        try:
            self.call(*words, input=content)
        except NotFound:
            if not folder:
                raise
            self._inside(id_, "mkdir", "-p", "--", folder)
            self.call(*words, input=content)

    def file_delete(self, kind: str, id_: str, path: str) -> None:
        self._files(kind, id_, "rm", "-r", "--", "./" + check_path(path))

    def _changes(self, verb: str, kind: str, id_: str, *words: str, ok: Sequence[int] = (0,)) -> Any:
        name = self._run(id_).stored if kind == "runs" else id_  # type: ignore[attr-defined]
        if id_ not in self.workspaces:
            self.box_get(id_)
        return self.call(verb, f"--directory={self.workspaces[id_]}", *words, name, ok=ok)

    def _report(self, verb: str, kind: str, id_: str, *words: str) -> Review:
        try:
            return json.loads(self._changes(verb, kind, id_, "--json", *words).stdout)
        except NotFound:
            name = self._run(id_).name if kind == "runs" else self.box_get(id_)["id"]
            return {"version": 1, "run": name, "changes": [], "folders": [], "notes": [],
                    "summary": {"changes": 0, "high": 0, "medium": 0, "low": 0, "none": 0, "folded": 0}}

    def diff(self, kind: str, id_: str) -> Review:
        return self._report("diff", kind, id_)

    def review(self, kind: str, id_: str) -> Review:
        return self._report("review", kind, id_, "--fail-on=none")

    def apply(self, kind: str, id_: str, request: ApplyRequest) -> Dict[str, Any]:
        words = [f"--only={p}" for p in request.get("only", [])] + [f"--except={p}" for p in request.get("except", [])]
        if request.get("classes"):
            words.append("--yes=" + ",".join(request["classes"]))
        if request.get("conflict"):
            words.append("--conflict=" + CONFLICTS[request["conflict"]])
        if request.get("dry_run"):
            words.append("--dry-run")
        done = self._changes("apply", kind, id_, "--json", *words, ok=(0, 1))
        result = json.loads(done.stdout or b"{}")
        if done.returncode == 1 and not result.get("done"):
            if result.get("risky"):
                raise ReviewRequired("of high risk: " + ", ".join(result["risky"]), status=409)
            raise Conflict("the host changed the same files: " + json.dumps(result.get("changes", [])), status=409)
        return result

    def discard(self, kind: str, id_: str, only: List[str]) -> None:
        self._changes("discard", kind, id_, "--yes", *[f"--only={p}" for p in only])
