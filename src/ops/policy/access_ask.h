/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent asks a human for: a host, a path of the host, a package, each with its reason. The supervisor of the sandbox keeps the question
 * with those of its gate (spec/control-socket.md, "request"), and a human answers it in the same ways. Nothing here can answer.
 */
#pragma once

#include "base/macros.h"

struct err;

enum access_kind { ACCESS_NETWORK, ACCESS_PATH, ACCESS_PACKAGE, ACCESS_KINDS };
extern const char *const access_kinds[ACCESS_KINDS];

struct access_wish {
    const char *sandbox; /* its name; it runs */
    enum access_kind kind;
    const char *value, *reason; /* an agent's words: printable when they get to a human */
};

struct access_answer {
    bool granted;
    char how[16];     /* "deny", "once", "session", "always" */
    char reason[300]; /* of the human, or why it counts as no; may be "" */
    char note[600];   /* what is left to do; may be "" */
};

/* Waits for the answer. -EINVAL: the value is not what the kind says. */
int access_ask(const struct access_wish *q, struct access_answer *ret, struct err *err);
