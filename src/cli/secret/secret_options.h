/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `bawn secret set`. */
#pragma once

#include "base/opt.h"
#include "policy/credential/credential.h"

enum { N_SECRET_SET_OPTS = 18 };
extern const struct opt secret_set_opts[N_SECRET_SET_OPTS];

struct secret_request {
    struct credential c; /* filled with what is known about its host, and checked */
    bool replace, refresh_token;
};

int secret_request_read(int argc, char **argv, struct secret_request *ret, struct err *err);
void secret_request_done(struct secret_request *q);
