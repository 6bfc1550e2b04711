// SPDX-License-Identifier: Apache-2.0
// What can go wrong. Every error of this package is a BawnError.

export class BawnError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** No answer from the service, or the program `bawn` is not there. */
export class Unreachable extends BawnError {}

/** What was waited for did not happen in the time that the caller gave. */
export class TimedOut extends BawnError {}

/** A command ended with another status than 0, and `check` was true. */
export class CommandFailed extends BawnError {
  constructor(readonly result: { status: number | null; stdout: string; stderr: string }) {
    super(`the command ended with status ${result.status}: ${(result.stderr || result.stdout).slice(-2000).trimEnd()}`);
  }
}

export interface ProblemFields {
  title?: string;
  status?: number;
  code?: string;
  field?: string;
  instance?: string;
  retryAfter?: number;
}

/** An error that Bawn reported (RFC 9457). Each code has a class of its own, e.g. NotFound for not_found. */
export class Problem extends BawnError {
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly field?: string;
  readonly instance?: string;
  readonly retryAfter?: number;

  constructor(readonly detail: string = "", fields: ProblemFields = {}) {
    const text = fields.title && detail ? `${fields.title}: ${detail}` : fields.title || detail || fields.code || "internal";
    super(fields.field ? `${text} (${fields.field})` : text);
    this.title = fields.title ?? "";
    this.status = fields.status ?? 0;
    this.code = fields.code ?? "internal";
    this.field = fields.field;
    this.instance = fields.instance;
    this.retryAfter = fields.retryAfter;
  }
}
