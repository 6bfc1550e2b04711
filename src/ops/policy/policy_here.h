/* SPDX-License-Identifier: Apache-2.0 */
/* The network policy of a run that would start here, and questions to a policy. */
#pragma once

#include "config/settings.h"
#include "policy/rules/verdict.h"
#include "supervisor/network/policy_files.h"

struct err;

enum { POLICY_HOSTS_MAX = 32 };

struct policy_here_opts {
    const char *dir, *profile, *agent, *network; /* NULL: as without the option of `bawn run` */
    struct strv allow, deny;                     /* HOST[:PORT], at most POLICY_HOSTS_MAX of each */
};
void policy_here_opts_done(struct policy_here_opts *o);

struct policy_here {
    char *home, *workspace;
    int workspace_fd;
    struct settings settings;
    struct policy_files files;
    struct policy policy; /* as if a user could answer, unless the settings switch questions off */
};
#define POLICY_HERE_INIT \
    { .workspace_fd = -1 }

int policy_here_open(const struct policy_here_opts *o, struct policy_here *ret, struct err *err);
void policy_here_done(struct policy_here *v);

/*
 * One question to a policy, asked stage by stage as bawn-gate does it: the name when it is looked up, the connection, the address that was
 * found, the request. The stage that says no, or else the last one, is the answer.
 */
enum policy_stage { STAGE_LOOKUP, STAGE_CONNECTION, STAGE_ADDRESS, STAGE_REQUEST, POLICY_STAGES };
extern const char *const policy_stage_names[POLICY_STAGES];

/* As it was written; host and path may have any bytes. method and path go together; address may be NULL. */
struct policy_question {
    const char *host, *path, *method, *address;
    size_t host_len, path_len;
};

struct policy_answer {
    char host[HOST_TEXT_MAX + 1]; /* in its one spelling; "" if it has none */
    uint16_t port;                /* 0: none was named */
    bool asked[POLICY_STAGES];
    struct policy_verdict v[POLICY_STAGES];
    enum policy_stage last;
};

/* Fails only if the question is none: an address that is not an address. */
int policy_ask(const struct policy *p, const struct policy_question *q, struct policy_answer *ret, struct err *err);

static inline const struct policy_verdict *policy_answer_verdict(const struct policy_answer *a) {
    return &a->v[a->last];
}
