# SPDX-License-Identifier: Apache-2.0
"""Operations that another thread can end: the asynchronous classes run the blocking ones in threads, and cancel them by this."""

from __future__ import annotations

import threading
from typing import Callable, List, Optional

_current = threading.local()


class Call:
    """One operation. cancel() closes the sockets and ends the processes that it has, and those that it gets later."""

    def __init__(self) -> None:
        self.lock, self.closers, self.cancelled = threading.Lock(), [], False
        self.closers: List[Callable[[], None]]

    def attach(self, closer: Callable[[], None]) -> None:
        with self.lock:
            if not self.cancelled:
                self.closers.append(closer)
                return
        closer()

    def detach(self, closer: Callable[[], None]) -> None:
        with self.lock:
            if closer in self.closers:
                self.closers.remove(closer)

    def cancel(self) -> None:
        with self.lock:
            self.cancelled, closers, self.closers = True, self.closers, []
        for closer in closers:
            closer()

    def __enter__(self) -> "Call":
        _current.call = self
        return self

    def __exit__(self, *_: object) -> None:
        _current.call = None


def current() -> Optional[Call]:
    return getattr(_current, "call", None)
