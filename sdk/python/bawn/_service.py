# SPDX-License-Identifier: Apache-2.0
"""What a service does for the classes of sandbox.py. _local.py has the same methods without a service."""

from __future__ import annotations

import base64
import io
import tarfile
import time
import uuid
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Tuple, Union, cast

from ._http import Http, parse_sse, _untimed
from .errors import TimedOut, Unreachable
from .types import ApplyRequest, BadField, Checkpoint, ExecRequest, File, NotFound, Port, Review, Run, RunRequest, Sandbox, SandboxRequest

WAIT = 20  # seconds that one question for the end of a run lasts

Output = Tuple[str, bytes]  # "stdout" or "stderr", and what was written


def event_bytes(event: Mapping[str, Any]) -> bytes:
    data = event.get("data", "")
    return base64.b64decode(data) if event.get("base64") else str(data).encode()


def pack(files: Mapping[str, Union[str, bytes]]) -> bytes:
    """A tar archive of these."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            content = data.encode() if isinstance(data, str) else data
            info.size, info.mode, info.mtime = len(content), 0o644, int(time.time())
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


# What a folder has, by the program `find` inside: names may have any byte but NUL.
FIND_TYPES = {"f": "file", "d": "folder", "l": "link"}


def check_path(path: str) -> str:
    """Of a file of the workspace, as the service checks it."""
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise BadField(f"'{path}' is not a path in the workspace", field="path", status=400)
    return path


def find_command(path: str, recursive: bool) -> List[str]:
    top = "./" + check_path(path) if path else "."
    return ["find", top, "-mindepth", "1", *([] if recursive else ["-maxdepth", "1"]), "-printf", "%y\\0%s\\0%m\\0%T@\\0%l\\0%p\\0"]


def parse_find(data: bytes) -> Iterator[File]:
    fields = data.decode("utf-8", "surrogateescape").split("\0")[:-1]
    items: List[File] = []
    for i in range(0, len(fields), 6):
        letter, size, mode, modified, target, name = fields[i:i + 6]
        item: Dict[str, Any] = {"path": name[2:] if name.startswith("./") else name, "type": FIND_TYPES.get(letter, "other"), "size": int(size),
                                "mode": mode.rjust(4, "0"), "modified": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(modified)))}
        if letter == "l":
            item["target"] = target
        items.append(cast(File, item))
    return iter(sorted(items, key=lambda item: item["path"]))


PIECE = 600 * 1024  # 800 KiB in base64: a request's stdin is at most 1 MiB
PUT_SCRIPT = """mkdir -p -- "${1%/*}" && base64 -d >>"$1.$2" && { test -z "$3" || { chmod "$3" "$1.$2" && mv -f -- "$1.$2" "$1"; }; } && exit 0
rm -f -- "$1.$2"; exit 1"""


class ServiceStream:
    """A command in a sandbox: output while it runs, then its end."""

    def __init__(self, http: Http, box: str, request: ExecRequest) -> None:
        self.answer = http.open("execute", path={"id": box}, json_body=request, headers={"Accept": "text/event-stream"})
        self.end: Optional[Dict[str, Any]] = None

    def __iter__(self) -> Iterator[Output]:
        for event in parse_sse(_untimed(self.answer)):
            if event["type"] == "exit":
                self.end = event["data"]
                self.answer.close()
                return
            if event["type"] in ("stdout", "stderr"):
                yield event["type"], event_bytes(event)
        raise Unreachable("the service ended before the command did")

    def close(self) -> None:
        """The service ends a command whose client has gone."""
        self.answer.close()


class Service:
    local = False

    def __init__(self, http: Http) -> None:
        self.http = http
        self.modes: Dict[str, str] = {}  # of workspaces, by sandbox

    def close(self) -> None:
        self.http.close()

    # -- sandboxes

    def box_create(self, request: SandboxRequest, more: Mapping[str, Any]) -> Sandbox:
        made: Sandbox = self.http.json("createSandbox", json_body=request, key=uuid.uuid4().hex)
        self.modes[made["id"]] = request.get("shape", {}).get("mode", "overlay")
        return made

    def box_get(self, box: str) -> Sandbox:
        return self.http.json("getSandbox", path={"id": box})

    def box_start(self, box: str) -> Sandbox:
        return self.http.json("startSandbox", path={"id": box})

    def box_stop(self, box: str) -> Sandbox:
        return self.http.json("stopSandbox", path={"id": box})

    def box_delete(self, box: str) -> None:
        self.http.json("deleteSandbox", path={"id": box})
        self.modes.pop(box, None)

    def box_list(self) -> Iterator[Sandbox]:
        return self._pages("listSandboxes", {})

    def box_exec(self, box: str, request: ExecRequest) -> ServiceStream:
        return ServiceStream(self.http, box, request)

    def checkpoint(self, box: str, tag: str) -> Checkpoint:
        return self.http.json("createCheckpoint", path={"id": box}, json_body={"tag": tag})

    def checkpoints(self, box: str) -> List[Checkpoint]:
        return self.http.json("listCheckpoints", path={"id": box})["items"]

    def checkpoint_delete(self, box: str, tag: str) -> None:
        self.http.json("deleteCheckpoint", path={"id": box, "tag": tag})

    def fork(self, box: str, checkpoint: Optional[str], labels: Mapping[str, str]) -> Sandbox:
        body: Dict[str, Any] = {"labels": dict(labels)} if labels else {}
        if checkpoint:
            body["checkpoint"] = checkpoint
        return self.http.json("forkSandbox", path={"id": box}, json_body=body, key=uuid.uuid4().hex)

    def expose(self, box: str, port: int) -> Port:
        return self.http.json("exposePort", path={"id": box}, json_body={"port": port})

    def box_events(self, box: str, follow: bool) -> Iterator[Dict[str, Any]]:
        """Of all that happens to the tenant's, what is about this one."""
        for event in self.http.events("streamEvents", follow=follow, last=""):
            data = event.get("data")
            if isinstance(data, dict) and box in (data.get("id"), data.get("sandbox"), data.get("run")):
                yield event

    # -- runs

    def run_create(self, request: RunRequest, files: Mapping[str, Union[str, bytes]], more: Mapping[str, Any], key: Optional[str]) -> Run:
        """The key is the same for every attempt, so a run whose answer was lost is not made twice."""
        if files:
            request = {**request, "hold": True}  # type: ignore[misc]
        run: Run = self.http.json("createRun", json_body=request, key=key or uuid.uuid4().hex)
        if files:
            self.http.json("writeArchive", path={"kind": "runs", "id": run["id"]}, body=pack(files), headers={"Content-Type": "application/x-tar"})
        return run

    def run_get(self, run: str) -> Run:
        return self.http.json("getRun", path={"id": run})

    def run_wait(self, run: str, timeout: Optional[float]) -> Run:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT if deadline is None else max(0, min(WAIT, int(deadline - time.monotonic() + 0.999)))
            now: Run = self.http.json("getRun", path={"id": run}, query={"wait": left}, wait=left)
            if now["state"] in ("done", "failed", "cancelled"):
                return now
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"run {run} is still {now['state']}")

    def run_cancel(self, run: str) -> Run:
        return self.http.json("cancelRun", path={"id": run})

    def run_signal(self, run: str, number: int) -> None:
        self.http.json("signalRun", path={"id": run}, json_body={"signal": number})

    def run_stdin(self, run: str, data: bytes, close: bool) -> None:
        self.http.json("writeStdin", path={"id": run}, query={"close": close}, body=data, headers={"Content-Type": "application/octet-stream"})

    def run_output(self, run: str, stream: str) -> Iterator[bytes]:
        return self.http.open("getOutput", path={"id": run, "stream": stream}).chunks()

    def run_events(self, run: str, after: int, follow: bool) -> Iterator[Dict[str, Any]]:
        return self.http.events("streamRunEvents", path={"id": run}, after=after, follow=follow)

    def run_delete(self, run: str) -> None:
        self.http.json("deleteRun", path={"id": run})

    def run_list(self, **filters: Any) -> Iterator[Run]:
        return self._pages("listRuns", filters)

    # -- files and changes

    def file_list(self, kind: str, id_: str, path: str, recursive: bool) -> Iterator[File]:
        if self._set_aside(kind, id_):
            return parse_find(b"".join(self._inside(id_, *find_command(path, recursive))))
        return self._pages("listFiles", {"path": path or None, "recursive": recursive or None, "limit": 1000}, {"kind": kind, "id": id_})

    def _set_aside(self, kind: str, id_: str) -> bool:
        """Whether it is a sandbox that runs with a version of the workspace that only the inside sees."""
        return kind == "sandboxes" and self.modes.get(id_, "overlay") not in ("direct", "ro") and self.box_get(id_)["state"] == "running"

    def _inside(self, id_: str, *command: str, stdin: Optional[str] = None) -> Iterator[bytes]:
        request: ExecRequest = {"command": list(command)}
        if stdin:
            request["stdin"] = stdin
        stream, error = self.box_exec(id_, request), bytearray()
        try:
            for name, data in stream:
                if name == "stdout":
                    yield data
                elif len(error) < 4096:
                    error += data
        finally:
            stream.close()
        if stream.end and stream.end["status"] != 0:
            raise NotFound(error.decode(errors="replace").strip(), status=404)

    def file_read(self, kind: str, id_: str, path: str) -> Iterator[bytes]:
        if self._set_aside(kind, id_):
            return self._inside(id_, "cat", "--", check_path(path))
        return self.http.open("readFile", path={"kind": kind, "id": id_}, query={"path": path}).chunks()

    def file_write(self, kind: str, id_: str, path: str, data: Union[bytes, BinaryIO], executable: bool) -> None:
        if not self._set_aside(kind, id_):
            self._put(kind, id_, path, data, executable)
            return
        # The inside has a version of its own, so the bytes go in by commands: as text, in pieces that a request can have.
        reader = io.BytesIO(data) if isinstance(data, bytes) else data
        name, mode = f"bawn-put-{uuid.uuid4().hex}", "755" if executable else "644"
        check_path(path)
        piece = reader.read(PIECE)
        while True:
            following = reader.read(PIECE)
            words = ["sh", "-c", PUT_SCRIPT, "sh", "./" + path, name, "" if following else mode]
            b"".join(self._inside(id_, *words, stdin=base64.b64encode(piece).decode()))
            if not following:
                return
            piece = following

    def _put(self, kind: str, id_: str, path: str, data: Union[bytes, BinaryIO], executable: bool) -> None:
        self.http.json("writeFile", path={"kind": kind, "id": id_}, query={"path": path, "executable": executable or None}, body=data,
                       headers={"Content-Type": "application/octet-stream"})

    def file_delete(self, kind: str, id_: str, path: str) -> None:
        if self._set_aside(kind, id_):
            b"".join(self._inside(id_, "rm", "-r", "--", "./" + check_path(path)))
            return
        self.http.json("deleteFile", path={"kind": kind, "id": id_}, query={"path": path})

    def diff(self, kind: str, id_: str) -> Review:
        return self.http.json("getDiff", path={"kind": kind, "id": id_})

    def review(self, kind: str, id_: str) -> Review:
        return self.http.json("getReview", path={"kind": kind, "id": id_})

    def apply(self, kind: str, id_: str, request: ApplyRequest) -> Dict[str, Any]:
        return self.http.json("applyChanges", path={"kind": kind, "id": id_}, json_body=request)

    def discard(self, kind: str, id_: str, only: List[str]) -> None:
        self.http.json("discardChanges", path={"kind": kind, "id": id_}, json_body={"only": only} if only else {})

    def _pages(self, operation: str, query: Mapping[str, Any], path: Mapping[str, str] = {}) -> Iterator[Any]:
        page: Optional[str] = None
        while True:
            answer = self.http.json(operation, path=path, query={**query, "page": page})
            yield from answer["items"]
            page = answer.get("next")
            if not page:
                return
