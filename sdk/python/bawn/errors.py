# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Every exception of this package is a BawnError."""

from __future__ import annotations

from typing import Any, Mapping, Optional


class BawnError(Exception):
    """The base of all."""


class Unreachable(BawnError):
    """No answer from the service, or its program `bawn` is not there."""


class TimedOut(BawnError, TimeoutError):
    """What was waited for did not happen in the time that the caller gave."""


class CommandFailed(BawnError):
    """A command ended with another status than 0, and check was true; `result` is its result."""

    def __init__(self, result: Any) -> None:
        super().__init__(f"the command ended with status {result.status}: {result.stderr[-2000:] or result.stdout[-2000:]}".rstrip(": "))
        self.result = result


class Problem(BawnError):
    """An error that Bawn reported (RFC 9457). Each code has a class of its own in bawn.types, e.g. NotFound for not_found."""

    code = "internal"

    def __init__(self, detail: str = "", *, title: str = "", status: int = 0, code: Optional[str] = None, field: Optional[str] = None,
                 instance: Optional[str] = None, retry_after: Optional[float] = None) -> None:
        text = f"{title}: {detail}" if title and detail else title or detail or self.code
        super().__init__(f"{text} ({field})" if field else text)
        self.detail, self.title, self.status, self.field, self.instance, self.retry_after = detail, title, status, field, instance, retry_after
        if code:
            self.code = code


def problem_of(status: int, body: Mapping[str, Any], retry_after: Optional[float] = None) -> Problem:
    """The exception of an answer."""
    from .types import PROBLEMS

    code = str(body.get("code", "internal"))
    return PROBLEMS.get(code, Problem)(str(body.get("detail", "")), title=str(body.get("title", "")), status=status, code=code, field=body.get("field"),
                                       instance=body.get("instance"), retry_after=retry_after)
