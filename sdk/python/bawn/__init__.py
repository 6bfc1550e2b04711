# SPDX-License-Identifier: Apache-2.0
"""Bawn: sandboxes for AI coding agents.

    from bawn import Sandbox

    with Sandbox.create() as box:
        print(box.run("echo hello").stdout)

With a service (bawnd) or, where none is configured, with the program `bawn` of this machine. bawn.aio has the same for asyncio, bawn.types what the
API takes and gives, with an exception for each code of its problems. docs/sdk.md has the whole."""

from .errors import BawnError, CommandFailed, Problem, TimedOut, Unreachable
from .sandbox import Client, Event, ExecResult, Process, Run, RunResult, Sandbox, run
from .types import (AlreadyEnded, BadField, CannotSandbox, Conflict, Forbidden, IdempotencyConflict, NotFound, NotRunning, QueueFull, QuotaExceeded,
                    ReviewRequired, TooLarge, Unauthorized)

__version__ = "0.1.0"
__all__ = ["AlreadyEnded", "BadField", "BawnError", "CannotSandbox", "Client", "CommandFailed", "Conflict", "Event", "ExecResult", "Forbidden",
           "IdempotencyConflict", "NotFound", "NotRunning", "Problem", "Process", "QueueFull", "QuotaExceeded", "ReviewRequired", "Run", "RunResult", "Sandbox",
           "TimedOut", "TooLarge", "Unauthorized", "Unreachable", "run"]
