/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions of a gate for the human outside (N6): may the sandbox reach this host? And of the supervisor: may it log in (login.h)? And of an agent: may it
 * have this (gate_requests.c)? The type of the message says which: GATE_MSG_ASK, GATE_MSG_OPEN, GATE_MSG_REQUEST. The first answer counts, of
 *
 *     the terminal of `bawn run`    if the run has one in raw mode (stdio_prompt.h)
 *     the hook                      a program of the user's, outside the sandbox and without a shell; then the terminal is not used. It gets
 *                                   the question as a JSON object on its standard input, and prints deny, allow (or once), session or
 *                                   always. Whatever else it does means deny
 *     `bawn policy approve`         over the control socket (control.h)
 *
 * Equal questions are one; one is asked at a time; more than ASKER_PER_MINUTE are denied unasked, so that a sandbox cannot wear its human
 * down; no answer in time is a no. The inside has no way to answer: it does not see the question, and keys do not come from it.
 */
#pragma once

#include <poll.h>
#include <signal.h>

#include "proto/gatemsg.h"

struct buf;
struct err;
struct stdio;
struct asker;

enum { GATE_REQUEST_OUTSIDE = 1 /* value of a GATE_MSG_REQUEST that came over the control socket */ };
enum { ASKER_QUESTIONS_MAX = 32, ASKER_IDS_MAX = 512, ASKER_PER_MINUTE = 10, ASKER_DEAF_MS = 300, ASKER_POLL_MAX = 1 };

extern const char *const asker_answer_names[GATE_ANSWERS]; /* "deny", "once", "session", "always" */

struct asker_opts {
    struct stdio *term; /* NULL: no terminal */
    const char *hook;   /* absolute path of a program; NULL: none */
    uint64_t timeout_ms;
    bool say;              /* there is no terminal and no hook: a log line shows how to answer */
    char *const *environ_; /* of the hook */
    sigset_t mask;
};

/* Called once for each question of the gate; ids: all that wait for this answer. */
typedef void asker_fn(void *arg, const struct gate_msg *question, const uint32_t *ids, size_t n, enum gate_answer answer);

int asker_new(const struct asker_opts *o, struct asker **ret, struct err *err);
void asker_free(struct asker *a);
void asker_listen(struct asker *a, asker_fn *fn, void *arg);

void asker_ask(struct asker *a, const struct gate_msg *question); /* may answer at once */
void asker_cancel(struct asker *a, uint32_t id);
/* The gate has ended: no connection waits any more. all: nor does any client that asked over the control socket. */
void asker_forget(struct asker *a, bool all);

/* For the control socket: [{"id", "host", "port", "method", "path", "reason", "waiting", "seconds"}, ...]; -ENOENT: no such question. */
void asker_pending_json(const struct asker *a, struct buf *out);
int asker_answer(struct asker *a, uint32_t number, enum gate_answer answer, const char *said);
/* Within asker_fn: what the human said with the answer, or why it counts as no; printable, may be "". */
const char *asker_said(const struct asker *a);

size_t asker_poll(struct asker *a, struct pollfd *out); /* at most ASKER_POLL_MAX */
int asker_timeout(const struct asker *a);
void asker_handle(struct asker *a); /* at every turn of the loop */
