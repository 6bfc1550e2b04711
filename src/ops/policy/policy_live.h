/* SPDX-License-Identifier: Apache-2.0 */
/* Running sandboxes and their network, through the control sockets of their supervisors (spec/control-socket.md). */
#pragma once

#include <jansson.h>

struct buf;
struct err;
struct rule;

/* A rule for one running sandbox, which ends with it. which: the pid of its supervisor, or the name of a persistent one. */
int policy_live_add(const char *which, const struct rule *rule, char **ret_id, struct err *err);
/* The rules in force there: {"layers": [{"layer": ..., "file": ..., "narrow_only": ..., "text": ...}, ...]}. Strings are the files'. */
int policy_live_rules(const char *which, json_t **ret, struct err *err);

/* `before` and the text that v has by this key, safe for a terminal; nothing if it is empty. */
void policy_add_text(struct buf *b, const char *before, const json_t *v, const char *key);

/* A connection that waits for the user's answer. */
struct pending_question {
    char pid[24]; /* of the supervisor; "PID-ID" names the question */
    long long id;
    const char *name, *socket; /* name: of the sandbox; NULL: it has none */
    const json_t *v;           /* the question as the supervisor has it. Its strings come from a sandbox */
};

/* All of them. A sandbox that ends meanwhile, or whose supervisor does not answer, has none. A negative answer of fn ends it. */
typedef int pending_fn(const struct pending_question *q, void *arg, struct err *err);
int policy_pending_each(pending_fn *fn, void *arg, struct err *err);

/* which: "4711-3", or "3" if only one sandbox has a question of that number. how: "once", "session", "always" or "deny". said: for an agent that asked; may be NULL.
 * *ret_note, malloc'ed: what is left to do; NULL: nothing. */
int policy_pending_answer(const char *which, const char *how, const char *said, char **ret_note, struct err *err);
