/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the project's own files may widen the sandbox, and what they would widen (`bawn trust`). */
#pragma once

#include "base/strv.h"
#include "config/load/project.h"

struct err;

/* All that is known about the project's two files. */
struct project_trust {
    char *home, *workspace, *records;
    struct project project;
    bool exists, trusted;
    struct project_network network;
    bool network_exists, network_trusted;
    bool revoked;       /* by project_trust_revoke(): it was trusted before */
    struct strv widens; /* what they ask for and get only with trust */
};
void project_trust_done(struct project_trust *t);

/* directory: the workspace; NULL: the current folder. */
int project_trust_look(const char *directory, struct project_trust *ret, struct err *err);
/* Both files that exist, or there is none. */
bool project_trust_complete(const struct project_trust *t);
/* "trusted", "untrusted", "revoked" or "none" */
const char *project_trust_state(const struct project_trust *t);

/* Exactly the content that project_trust_look() found. */
int project_trust_grant(struct project_trust *t, struct err *err);
/* Works however broken the project's files are: ret is empty before, and has no more than the workspace and `revoked` then. */
int project_trust_revoke(const char *directory, struct project_trust *ret, struct err *err);
