// SPDX-License-Identifier: Apache-2.0
// Bawn: sandboxes for AI coding agents. docs/sdk.md has the whole.

export { BawnError, CommandFailed, Problem, TimedOut, Unreachable } from "./errors.js";
export type { Event, Files, Output } from "./backend.js";
export { Client, ExecResult, Process, Run, Sandbox, run, type ClientOptions, type Command, type ExecOptions, type RunOptions, type RunResult, type SandboxOptions, type ShapeOptions, type WaitOptions } from "./sandbox.js";
export {
  AlreadyEnded, BadField, CannotSandbox, Conflict, Forbidden, IdempotencyConflict, NotFound, NotRunning, PROBLEMS, QueueFull, QuotaExceeded, ReviewRequired, TooLarge, Unauthorized,
} from "./types.js";
export type * as types from "./types.js";
