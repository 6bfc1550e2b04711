/* SPDX-License-Identifier: Apache-2.0 */
/* The policy against a file of cases (`bawn policy test`): "allow|deny|ask HOST[:PORT] [METHOD PATH] [address=ADDRESS]". */
#pragma once

#include "ops/policy/policy_here.h"

struct policy_cases {
    const char *cases;            /* path */
    const char *rules;            /* path: these rules alone, as the user's; NULL: the policy of `here` */
    struct policy_here_opts here; /* else */
};

struct policy_test_failure {
    size_t line;
    enum rule_action wanted;
    const struct policy_verdict *got;
    const char *words[4]; /* host, method, path; NULL-terminated */
};
typedef void policy_test_fn(const struct policy_test_failure *f, void *arg);

struct policy_tally {
    size_t cases, failed;
};

/* fn gets each case that does not hold. A line that is none fails with "FILE:LINE: ...". */
int policy_test_run(const struct policy_cases *t, policy_test_fn *fn, void *arg, struct policy_tally *ret, struct err *err);
