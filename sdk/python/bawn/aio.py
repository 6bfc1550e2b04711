# SPDX-License-Identifier: Apache-2.0
"""The same for asyncio: every method is awaited, every iterator is `async for`. Cancelling a task closes its connection or ends its process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, AsyncIterator, Callable, Iterator, Optional, TypeVar

from . import sandbox as _sync
from ._call import Call
from .sandbox import Event, ExecResult, RunResult

T = TypeVar("T")
_END = object()


async def _thread(function: Callable[[], T], call: Optional[Call] = None) -> T:
    """In a thread of its own: a pool would be full of those that wait."""
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[T]" = loop.create_future()
    call = call or Call()

    def settle(value: Any, error: Optional[BaseException]) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def work() -> None:
        value, error = None, None
        try:
            with call:
                value = function()
        except StopIteration:
            value = _END
        except BaseException as e:
            error = e
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:
            pass  # the loop has ended

    threading.Thread(target=work, daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        threading.Thread(target=call.cancel, daemon=True).start()
        raise


async def _iterate(make: Callable[[], Iterator[T]], call: Optional[Call] = None) -> AsyncIterator[T]:
    call = call or Call()
    iterator = await _thread(make, call)
    try:
        while True:
            item: Any = await _thread(lambda: next(iterator), call)
            if item is _END:
                return
            yield item
    finally:
        call.cancel()


def _awaited(name: str) -> Any:
    async def method(self: Any, *args: Any, **more: Any) -> Any:
        return await _thread(lambda: getattr(self._sync, name)(*args, **more))

    method.__name__, method.__doc__ = name, f"See the method of the same name in bawn.sandbox."
    return method


class _Workspace:
    put_bytes, put_file, read_file, read_text = map(_awaited, ("put_bytes", "put_file", "read_file", "read_text"))
    get_file, list, delete_file, diff = map(_awaited, ("get_file", "list", "delete_file", "diff"))
    changes, review, apply, discard = map(_awaited, ("changes", "review", "apply", "discard"))
    delete, refresh = map(_awaited, ("delete", "refresh"))

    _sync: Any

    @property
    def id(self) -> str:
        return self._sync.id

    @property
    def info(self) -> Any:
        return self._sync.info

    def iter_file(self, path: str) -> AsyncIterator[bytes]:
        return _iterate(lambda: self._sync.iter_file(path))


class Process:
    """A command that runs in a sandbox: `async for stream, data in process`. Leaving `async with`, or cancelling the task, ends it."""

    def __init__(self, process: _sync.Process, call: Call) -> None:
        self._sync, self._call = process, call

    def __aiter__(self) -> AsyncIterator[Any]:
        return _iterate(lambda: iter(self._sync), self._call)

    def text(self) -> AsyncIterator[Any]:
        return _iterate(self._sync.text, self._call)

    def lines(self) -> AsyncIterator[str]:
        return _iterate(self._sync.lines, self._call)

    async def wait(self) -> ExecResult:
        return await _thread(self._sync.wait, self._call)

    async def collect(self, output_max: int = _sync.OUTPUT_MAX) -> ExecResult:
        return await _thread(lambda: self._sync.collect(output_max), self._call)

    @property
    def status(self) -> Optional[int]:
        return self._sync.status

    async def close(self) -> None:
        await _thread(self._sync.close)

    async def __aenter__(self) -> "Process":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(self.close())


class Sandbox(_Workspace):
    start, stop, checkpoint, checkpoints = map(_awaited, ("start", "stop", "checkpoint", "checkpoints"))
    delete_checkpoint, expose = map(_awaited, ("delete_checkpoint", "expose"))

    def __init__(self, sandbox: _sync.Sandbox) -> None:
        self._sync = sandbox

    @classmethod
    async def create(cls, *, client: Optional["Client"] = None, **more: Any) -> "Sandbox":
        return cls(await _thread(lambda: _sync.Sandbox.create(client=client._sync if client else None, **more)))

    async def exec(self, command: _sync.Command, **more: Any) -> Process:
        call = Call()
        return Process(await _thread(lambda: self._sync.exec(command, **more), call), call)

    async def run(self, command: _sync.Command, **more: Any) -> ExecResult:
        return await _thread(lambda: self._sync.run(command, **more))

    async def fork(self, **more: Any) -> "Sandbox":
        return Sandbox(await _thread(lambda: self._sync.fork(**more)))

    def events(self, **more: Any) -> AsyncIterator[Event]:
        return _iterate(lambda: self._sync.events(**more))

    async def __aenter__(self) -> "Sandbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(_thread(lambda: self._sync.__exit__()))


class Run(_Workspace):
    cancel, signal, write_stdin = map(_awaited, ("cancel", "signal", "write_stdin"))
    stdout, stderr = map(_awaited, ("stdout", "stderr"))

    def __init__(self, run: _sync.Run) -> None:
        self._sync = run

    async def wait(self, timeout: Optional[float] = None) -> "Run":
        await _thread(lambda: self._sync.wait(timeout))
        return self

    async def result(self, timeout: Optional[float] = None) -> RunResult:
        return await _thread(lambda: self._sync.result(timeout))

    def events(self, **more: Any) -> AsyncIterator[Event]:
        return _iterate(lambda: self._sync.events(**more))

    def output(self, stream: str = "stdout") -> AsyncIterator[bytes]:
        return _iterate(lambda: self._sync.output(stream))

    async def __aenter__(self) -> "Run":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.shield(_thread(lambda: self._sync.__exit__()))


class Client:
    request, close = map(_awaited, ("request", "close"))

    def __init__(self, *args: Any, **more: Any) -> None:
        self._sync = _sync.Client(*args, **more)

    @property
    def local(self) -> bool:
        return self._sync.local

    async def create_sandbox(self, **more: Any) -> Sandbox:
        return Sandbox(await _thread(lambda: self._sync.create_sandbox(**more)))

    async def sandbox(self, id_: str) -> Sandbox:
        return Sandbox(await _thread(lambda: self._sync.sandbox(id_)))

    async def start_run(self, command: Optional[_sync.Command] = None, **more: Any) -> Run:
        return Run(await _thread(lambda: self._sync.start_run(command, **more)))

    async def run(self, command: Optional[_sync.Command] = None, *, timeout: Optional[float] = None, **more: Any) -> Run:
        """Cancelling the task cancels the run."""
        run = await self.start_run(command, **more)
        try:
            return await run.wait(timeout)
        except BaseException:
            await asyncio.shield(_thread(lambda: _sync._quietly(run._sync.cancel)))
            raise

    async def get_run(self, id_: str) -> Run:
        return Run(await _thread(lambda: self._sync.get_run(id_)))

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
