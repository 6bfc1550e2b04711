/*
 * A program inside wants a page opened in a browser: a login. Whatever a sandbox says here is hostile, so only the login page that a
 * credential of this run names (authorize_url) is opened; any other address is shown to the user, who decides. A login that comes back to
 * http://localhost:PORT gets a listener there that leads inside for some minutes.
 */
#pragma once

#include "base/buf.h"
#include "policy/credential.h"

enum { OPENER_URL_MAX = 8 * 1024, OPENER_CALLBACK_MS = 10 * 60 * 1000 };

struct opener {
    const struct grant *grants;
    size_t n_grants;
    char *const *environ_; /* BAWN_OPEN: the program instead of xdg-open; "none": no program */
    struct buf url;
    uint64_t since_ms; /* a minute, in which there are only so many */
    unsigned n;
    bool only_show; /* the sandbox has ended: nobody waits for a login any more */
};
#define OPENER_INIT \
    { .url = BUF_INIT(OPENER_URL_MAX) }

void opener_done(struct opener *o);
/* The next piece of an address. Returns the grant whose login page it is; NULL: it is none, or not complete. Then comes opener_open(). */
const struct grant *opener_piece(struct opener *o, const char *piece, bool last);
uint16_t opener_port(const struct opener *o); /* of the host, at which the login's end is expected; 0: at none */
void opener_open(struct opener *o, const struct grant *login);

/* For tests: the grant whose login page this is, NULL: none; and the port that its redirect_uri names, 0: none. */
const struct grant *opener_grant(const struct opener *o, const char *url);
uint16_t opener_callback(const char *url);
bool opener_url_ok(const char *url); /* https, and only bytes that addresses are made of */
