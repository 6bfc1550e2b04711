/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program inside wants a page opened in a browser: a login. Whatever a sandbox says here is hostile, so the address itself is never opened. If it is
 * the login page that a credential of this run names (authorize_url), with that credential's client, it is a wish to log in: the user is asked, and
 * the login is done outside, by an address of our own (login.h). Any other address is shown to the user, who decides.
 */
#pragma once

#include "base/buf.h"
#include "policy/credential/credential.h"

enum { OPENER_URL_MAX = 8 * 1024, OPENER_BACK_MAX = 512, OPENER_STATE_MAX = 1024 };

struct opener {
    const struct grant *grants;
    size_t n_grants;
    char *const *environ_; /* BAWN_OPEN: the program instead of xdg-open; "none": no program */
    struct buf url;
    uint64_t since_ms; /* a minute, in which there are only so many */
    unsigned n;
    bool only_show; /* the sandbox has ended: no program waits for a login any more */
};
#define OPENER_INIT \
    { .url = BUF_INIT(OPENER_URL_MAX) }

/* A login that a sandbox wants: of whom, and how the program inside waits for its end, on its own loopback interface. */
struct opener_login {
    const struct grant *grant;
    uint16_t port;              /* 0: not known, of one that is refused */
    char path[OPENER_BACK_MAX]; /* with a query, if it has one */
    char state[OPENER_STATE_MAX];
};

void opener_done(struct opener *o);
/* The next piece of an address. LOGIN, REFUSED: it is complete, and a login, or one that the definition does not allow. */
enum opener_result { OPENER_NOTHING, OPENER_LOGIN, OPENER_REFUSED };
enum opener_result opener_piece(struct opener *o, const char *piece, bool last, struct opener_login *ret);
/* Our own address of a login, for the user's browser. */
void opener_open(const struct opener *o, const struct grant *login, const char *url);

/* For tests. 0: a login; -ENOENT: no login page; -EACCES: of a login, but not as its definition has it: *ret_why says how. */
int opener_read(const struct opener *o, const char *url, struct opener_login *ret, const char **ret_why);
bool opener_url_ok(const char *url); /* https, and only bytes that addresses are made of */
