# SPDX-License-Identifier: Apache-2.0
"""HTTP to bawnd: over a unix socket, TCP or TLS; retries; server-sent events that resume."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any, BinaryIO, Dict, Iterator, List, Mapping, Optional, Union

from . import _call
from .errors import Problem, TimedOut, Unreachable, problem_of
from .types import ROUTES

CHUNK = 64 * 1024
LINE_MAX = 8 * 1024 * 1024  # of a stream: twice what the service sends
BODY_MAX = 256 * 1024 * 1024  # of an answer that is read as a whole
# What a service that starts again, or one that has too much to do, answers; the same request may succeed later.
LATER = (429, 502, 503, 504)
# Of these codes nothing was done. A proxy in between says 502 or 504 also of what the service has begun.
REFUSED = ("quota", "queue_full", "too_many", "draining")

Body = Union[bytes, BinaryIO, None]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: Optional[float]) -> None:
        super().__init__("localhost", timeout=timeout)
        self.unix_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.unix_path)


def _end(connection: http.client.HTTPConnection) -> None:
    """From another thread: shutdown() wakes up a reader, close() alone does not."""
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Answer:
    """An answer whose body has not been read."""

    def __init__(self, http_: "Http", connection: http.client.HTTPConnection, response: http.client.HTTPResponse, closer: Any) -> None:
        self.http, self.connection, self.response, self.closer = http_, connection, response, closer
        self.sock = connection.sock or getattr(response.fp.raw, "_sock", None)  # http.client forgets it if the connection ends with the answer

    def read(self) -> bytes:
        try:
            data = self.response.read(BODY_MAX + 1)
            if len(data) > BODY_MAX:
                self.close()
                raise Unreachable(f"the answer has more than {BODY_MAX} bytes; read it as a stream")
        except (OSError, http.client.HTTPException) as e:
            self.close()
            raise _broken(e) from e
        if self.response.will_close:
            self.close()
        else:
            self.done()
        return data

    def chunks(self) -> Iterator[bytes]:
        """The body as it comes; closing the iterator closes the connection."""
        try:
            while True:
                data = self.response.read1(CHUNK)
                if not data:
                    return
                yield data
        except (OSError, http.client.HTTPException) as e:
            raise _broken(e) from e
        finally:
            self.close()

    def done(self) -> None:
        """The connection can serve the next request."""
        self._detach()
        self.http.keep(self.connection)

    def close(self) -> None:
        self._detach()
        sock = self.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.response.close()
        self.connection.close()

    def _detach(self) -> None:
        call = _call.current()
        if call:
            call.detach(self.closer)


def _broken(e: Exception) -> Exception:
    if isinstance(e, TimeoutError):
        return TimedOut("the service did not answer in time")
    return Unreachable(f"the connection to the service broke: {e or type(e).__name__}")


class Http:
    """One service. url: unix:///run/bawn/api.sock, http://host:port, https://host:port."""

    def __init__(self, url: str, token: Optional[str] = None, *, timeout: Optional[float] = 300.0, retry_seconds: float = 30.0,
                 ca: Optional[str] = None, context: Optional[ssl.SSLContext] = None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url, self.token, self.timeout, self.retry_seconds = url, token, timeout, retry_seconds
        self.unix: Optional[str] = None
        self.context: Optional[ssl.SSLContext] = None
        if parts.scheme in ("unix", "http+unix"):
            self.unix = urllib.parse.unquote(parts.path if not parts.netloc else parts.netloc + parts.path)
        elif parts.scheme == "https":
            self.context = context or ssl.create_default_context(cafile=ca)
        elif parts.scheme != "http":
            raise ValueError(f"not an address of a service: {url!r} (unix:///PATH, http://HOST:PORT or https://HOST:PORT)")
        elif token and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("a token is sent to another machine over https only")
        self.host, self.port = parts.hostname or "localhost", parts.port
        self.lock, self.idle = threading.Lock(), []
        self.idle: List[http.client.HTTPConnection]
        self.pid = os.getpid()

    # -- connections

    def _connection(self, fresh: bool) -> http.client.HTTPConnection:
        with self.lock:
            if self.pid != os.getpid():  # forked: these are the parent's
                self.pid, self.idle = os.getpid(), []
            if self.idle and not fresh:
                return self.idle.pop()
        if self.unix is not None:
            return _UnixConnection(self.unix, self.timeout)
        if self.context is not None:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self.context)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def keep(self, connection: http.client.HTTPConnection) -> None:
        with self.lock:
            if connection.sock is not None and len(self.idle) < 8:
                self.idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for connection in idle:
            connection.close()

    # -- one request

    def _once(self, method: str, target: str, body: Body, headers: Mapping[str, str], fresh: bool, wait: float) -> Answer:
        connection = self._connection(fresh)
        call = _call.current()

        def closer() -> None:
            _end(connection)

        sent = False
        try:
            if connection.sock is None:
                connection.connect()
            if connection.sock is not None:
                connection.sock.settimeout(None if self.timeout is None else self.timeout + wait)
            if call:
                call.attach(closer)
            sent = True
            connection.request(method, target, body, dict(headers))
            return Answer(self, connection, connection.getresponse(), closer)
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            if call:
                call.detach(closer)
            error = _broken(e)
            error.sent = sent  # type: ignore[attr-defined]
            raise error from e

    def open(self, operation: str, *, path: Mapping[str, str] = {}, query: Mapping[str, Any] = {}, body: Body = None, json_body: Any = None,
             headers: Mapping[str, str] = {}, key: Optional[str] = None, wait: float = 0) -> Answer:
        """The answer of an operation of the specification, or its problem. What may be asked twice is asked again while the service is away."""
        method, template = ROUTES[operation]
        target = template
        for name, value in path.items():
            target = target.replace("{" + name + "}", urllib.parse.quote(value, safe=""))
        values = {k: {True: "true", False: "false"}.get(v, v) if isinstance(v, bool) else v for k, v in query.items() if v is not None}
        if values:
            target += "?" + urllib.parse.urlencode(values)
        head: Dict[str, str] = {"User-Agent": "bawn-python", **headers}
        if self.token:
            head["Authorization"] = f"Bearer {self.token}"
        if key:
            head["Idempotency-Key"] = key
        if json_body is not None:
            body, head["Content-Type"] = json.dumps(json_body).encode(), "application/json"
        rewind = body.tell() if hasattr(body, "seek") and hasattr(body, "tell") else None  # type: ignore[union-attr]
        again = (method != "POST" or key is not None) and (body is None or isinstance(body, bytes) or rewind is not None)
        return self._retried(method, target, body, head, again, rewind, wait)

    def _retried(self, method: str, target: str, body: Body, head: Mapping[str, str], again: bool, rewind: Optional[int], wait: float) -> Answer:
        pause, deadline, fresh = 0.05, time.monotonic() + self.retry_seconds, False
        call = _call.current()
        while True:
            error: Union[Problem, Unreachable]
            try:
                answer = self._once(method, target, body, head, fresh, wait)
                if answer.response.status < 400:
                    return answer
                error = _problem(answer)
                if answer.response.status not in LATER or not (again or error.code in REFUSED):
                    raise error
                delay = error.retry_after or pause
            except Unreachable as e:
                if not again and getattr(e, "sent", True):
                    raise
                error, delay = e, pause
            if time.monotonic() + delay > deadline or (call and call.cancelled):
                raise error
            time.sleep(delay)
            pause, fresh = min(pause * 2, 2.0), True
            if rewind is not None:
                body.seek(rewind)  # type: ignore[union-attr]

    def json(self, operation: str, **more: Any) -> Any:
        data = self.open(operation, **more).read()
        return json.loads(data) if data else None

    # -- events

    def events(self, operation: str, *, path: Mapping[str, str] = {}, after: int = 0, follow: bool = True, last: str = "exit") -> Iterator[Dict[str, Any]]:
        """Events, each once: after a break the stream goes on behind the last one. It ends with an event of type `last`."""
        seen, tried = after, time.monotonic()
        while True:
            query = {"after": seen or None, "follow": None if follow else False}
            answer = self.open(operation, path=path, query=query, headers={"Accept": "text/event-stream"})
            try:
                for event in parse_sse(_untimed(answer)):
                    if event["id"] <= seen:
                        continue
                    seen, tried = event["id"], time.monotonic()
                    yield event
                    if event["type"] == last:
                        return
                if not follow:
                    return
            except (Unreachable, TimedOut):
                if time.monotonic() - tried > self.retry_seconds:
                    raise
            finally:
                answer.close()
            time.sleep(0.05)


def _untimed(answer: Answer) -> Iterator[bytes]:
    """A stream may be silent for as long as the command is."""
    if answer.sock is not None:
        answer.sock.settimeout(None)
    return answer.chunks()


def _problem(answer: Answer) -> Problem:
    after = answer.response.getheader("Retry-After")
    status = answer.response.status
    data = answer.read()
    try:
        body = json.loads(data)
    except ValueError:
        body = {"title": answer.response.reason or f"status {status}"}
    seconds = float(after) if after and after.isdigit() else None
    return problem_of(status, body if isinstance(body, dict) else {}, seconds)


def parse_sse(chunks: Iterator[bytes]) -> Iterator[Dict[str, Any]]:
    """Events with JSON as their data. Chunks may end anywhere, also within a character."""
    rest, data = bytearray(), bytearray()
    try:
        for chunk in chunks:
            rest += chunk
            if len(rest) + len(data) > LINE_MAX:
                raise Unreachable("an event of the service is too long")
            if b"\n" not in chunk:
                continue
            *lines, tail = bytes(rest).split(b"\n")
            rest = bytearray(tail)
            for line in lines:
                line = line.rstrip(b"\r")
                if line.startswith(b"data:"):
                    data += line[5:].lstrip(b" ")
                elif not line and data:
                    event = json.loads(data)
                    data = bytearray()
                    yield event
    finally:
        getattr(chunks, "close", lambda: None)()
