/* SPDX-License-Identifier: Apache-2.0 */
/* Which secrets go with requests to a host, and whether each one can (`bawn secret test`). Nothing is sent to the host. */
#pragma once

#include "ops/policy/policy_here.h"
#include "ops/secret/secret_view.h"

struct secret_check {
    const struct credential *c;
    const struct policy_answer *answer; /* about one of its hosts */
    const char *objection;              /* why no secret can go there; NULL: it can */
    bool chosen;                        /* it is among the secrets of runs here */
    const char *problem;                /* why bawn-vault has no value; "": it has */
};
typedef void secret_check_fn(const struct secret_check *check, void *arg);

struct secret_tally {
    size_t n, good;
    char host[HOST_TEXT_MAX + 1]; /* if a host was named: it, and its port */
    uint16_t port;
};

/* word: a host, or the name of a secret: all its hosts. */
int secret_test_run(const char *word, const struct policy_here_opts *here, secret_check_fn *fn, void *arg,
                    struct secret_tally *ret, struct err *err);
