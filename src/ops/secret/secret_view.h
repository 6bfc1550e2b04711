/* SPDX-License-Identifier: Apache-2.0 */
/* What the `bawn secret` commands say about a credential. Values are never here. */
#pragma once

#include <time.h>

#include "ops/policy/policy_here.h"
#include "policy/credential/credential.h"

struct buf;

void secret_add_place(const struct credential *c, struct buf *b); /* "header Authorization: Bearer {}" */
/* When a sandbox last had it, 0: never. */
time_t secret_last_use(const char *home, const char *name);
/* bawn-vault has a value for it. */
static inline bool secret_is_stored(const struct credential *c) {
    return c->store == STORE_FILE || c->store == STORE_SECRET_SERVICE;
}
/* What the policy says about one of its hosts, "HOST" or "HOST:PORT"; the port is 443 if there is none. */
int secret_ask_policy(const struct policy *p, const char *host, struct policy_answer *ret, struct err *err);
/* NULL, or why no secret can go there: a clause. */
const char *secret_policy_objects(const struct policy_answer *a);
/* The command that lets sandboxes reach it. */
void secret_add_remedy(const struct policy_answer *a, struct buf *b);
