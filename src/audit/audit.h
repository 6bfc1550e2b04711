/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log: what happened, in which sandbox, by which user. JSON objects, one on a line, each chained to the one before it
 * (spec/audit-events.md).
 *
 *     $XDG_STATE_HOME/bawn/audit/
 *         user.jsonl      runs of no persistent sandbox, and what the user does: policy, secrets, review, apply
 *         ID.jsonl        one for each persistent sandbox; survives `bawn rm`
 *         NAME.jsonl.N    rotated at AUDIT_SIZE_MAX; the next file's first line continues the chain
 *         NAME.head       sequence number, size and hash of the last line: without it, a missing end could not be seen
 *         index.jsonl     which files there are and how each one that was rotated ended; chained itself
 *
 * Several processes append to one file: each append holds flock() on the head for a few microseconds. A writer that was killed
 * between line and head is repaired by the next one; a line torn by a power cut is cut off, and an event says so.
 *
 * An event is written before what it describes; if it cannot be written, the thing is not done. No line holds a secret: arguments
 * that look like one are redacted (audit_add_argv()), and a digest shows whether two calls were the same.
 */
#pragma once

#include "base/buf.h"

struct err;
struct audit;

enum { AUDIT_SIZE_MAX = 16 * 1024 * 1024, AUDIT_FILES_MAX = 8, AUDIT_LINE_MAX = 64 * 1024 };

enum audit_type {                /* names in audit_type_names[], meaning and members in spec/audit-events.md */
                  AUDIT_START,   /* a sandbox begins: engine, rung, profile, mode, workspace, plan (its hash) */
                  AUDIT_EXEC,    /* a command is about to run: job, argv, cwd */
                  AUDIT_EXIT,    /* it ended: job, status, signal, ms */
                  AUDIT_STOP,    /* the sandbox ended: status, ms, changes */
                  AUDIT_LIMIT,   /* a limit was hit */
                  AUDIT_LANDED,  /* a file written inside was put into a protected place on the host: path, answer */
                  AUDIT_NETWORK, /* a verdict: action, code, host, port, rule, layer */
                  AUDIT_ASK,     /* a question was answered: who, answer */
                  AUDIT_REQUEST, /* an agent asked for more, or was answered: answer, kind, value, reason, said */
                  AUDIT_SECRET,  /* a credential went with a request: its name, host */
                  AUDIT_REVIEW,
                  AUDIT_APPLY, /* changes came to the host: run, paths, who approved */
                  AUDIT_DISCARD,
                  AUDIT_ROLLBACK,
                  AUDIT_POLICY, /* rules, trust, configuration changed */
                  AUDIT_TOOL,   /* a tool ran on the host (bypass_tools) */
                  AUDIT_FILE,   /* put, get, cp, collect, checkpoint, fork */
                  AUDIT_REPAIR, /* the log itself: what a crash left */
                  AUDIT_TYPES
};
extern const char *const audit_type_names[AUDIT_TYPES]; /* "start", ... */

struct audit_ids {
    const char *log;     /* name of the file without .jsonl: "user", or the id of a persistent sandbox */
    const char *sandbox; /* id or name; "": none */
    const char *run;     /* the run's folder or the job; "": none */
    const char *tenant;  /* "": the user, whose name is in every line */
    const char *user;    /* that name; NULL: it is looked up */
};

/* state: $XDG_STATE_HOME/bawn. Opens nothing yet; strings are copied. */
int audit_new(const char *state, const struct audit_ids *ids, struct audit **ret, struct err *err);
void audit_free(struct audit *a); /* flushes what audit_later() holds; NULL is fine */
void audit_freep(struct audit **a);
void audit_set_run(struct audit *a, const char *run);

/* members: what follows the common ones, JSON without braces, as the audit_add_* below make it ("\"a\":1,\"b\":\"x\""); "" or
 * NULL: none. On disk (not synced) when it returns 0; a == NULL is a log that the user has no place for, and 0. */
int audit_write(struct audit *a, enum audit_type type, const char *members, struct err *err);
/* For events that are many and come after the fact (network verdicts): they wait, and audit_flush(), audit_write() or audit_free()
 * writes them together. A log that cannot be written is reported once. */
void audit_later(struct audit *a, enum audit_type type, const char *members);
void audit_flush(struct audit *a);

/* Members, with the comma where one is needed. */
void audit_add(struct buf *b, const char *key, const char *value); /* NULL: left out */
void audit_add_number(struct buf *b, const char *key, int64_t value);
/* "argv": the arguments, each cut at 256 bytes and redacted where it looks like a secret; "argc", "argv_sha256"
 * of the whole. */
void audit_add_argv(struct buf *b, char *const *argv, size_t argc);

/* One event of the user's own ("user" log), for verbs of the command line: opens, writes, closes. NULL home: 0, nothing
 * written. */
int audit_note(char *const *environ_, const char *home, enum audit_type type, const char *members, struct err *err);
