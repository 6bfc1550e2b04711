/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket inside that knows the names of credentials (BAWN_CREDENTIAL_SOCKET, spec/credential-socket.md): a JSON object on
 * each line, answered by one. There are no values here to be had, so whatever is asked, what comes back are names and
 * placeholders.
 */
#pragma once

#include "gateway/gate.h"

struct credd;

enum {
    CREDD_LINE_MAX = 64 * 1024,
    CREDD_ANSWER_MAX = 1024 * 1024,
    CREDD_URL_MAX = 8 * 1024,
    CREDD_OPENS_MAX = 6, /* browser windows, per CREDD_OPENS_S, for all clients together */
    CREDD_OPENS_S = 60
};

int credd_new(struct gate *g, int fd /* taken */, struct credd **ret, struct err *err);

/* Exposed for tests and fuzzers: one line, without its end. *ret_url: what is to be opened (malloc'ed), or NULL. */
void credd_answer(const struct gate_config *c, const char *line, size_t len, struct buf *out, char **ret_url);
/* https, printable ASCII, a host that can be one, no user before it, not too long. */
bool credd_url_ok(const char *url);
