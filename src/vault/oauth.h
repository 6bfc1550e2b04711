/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OAuth: the store has a refresh token, and here access tokens are made from it (RFC 6749, 6), or both by the device flow (RFC
 * 8628). Servers may give a new refresh token each time and then refuse the old one, so two refreshes at once would lock the
 * user out: one vault at a time refreshes a credential (lockfile.h), and those that waited use what it got.
 */
#pragma once

#include "base/secret.h"
#include "proto/brokermsg.h"
#include "vault/vault.h"

enum { OAUTH_IDENTITY_MAX = VAULT_IDENTITY_MAX, OAUTH_MARGIN_S = 60 }; /* an access token that ends sooner counts as ended */

/* As it is in the store: {"access":"...","refresh":"...","expires":SECONDS,"client_secret":"...","identity":"..."}. Absent: empty, 0. */
struct oauth_state {
    struct secret access, refresh, client_secret;
    struct secret
        identity;     /* header and payload of the id_token, without what makes it valid: who the user is, for clients inside */
    uint64_t expires; /* CLOCK_REALTIME, of the access token; 0: unknown */
};

int oauth_state_init(struct oauth_state *s); /* -ENOMEM */
void oauth_state_done(struct oauth_state *s);
/* JSON, or nothing but a refresh token. Each token passes credential_value_check(). */
int oauth_state_read(const struct credential *c, const struct secret *text, struct oauth_state *s, struct err *err);
int oauth_state_write(const struct oauth_state *s, struct secret *ret, struct err *err); /* ret was empty */

/* A server's answer: new tokens into s. -EAGAIN: authorization_pending; -EBUSY: slow_down; -EKEYEXPIRED: invalid_grant or
 * expired_token; -EACCES: access_denied; -ENOKEY: whatever else is wrong. No byte of the answer but a well-formed error code is
 * in the message. */
int oauth_answer_read(const struct credential *c, long status, const struct secret *body, uint64_t now, struct oauth_state *s,
                      struct err *err);

/* An access token, and who the user is; fresh: not the one that is in the store. -EKEYEXPIRED: the user has to log in again. ret and
 * ret_identity were empty. */
int oauth_get(const struct vault *v, const struct credential *c, bool fresh, struct secret *ret, struct secret *ret_identity,
              uint64_t *ret_expires, struct err *err);
/* Is a token available, as far as the store alone can say? */
int oauth_check(const struct vault *v, const struct credential *c, struct err *err);
/* What the user typed or piped. The caller has the lock of the name. */
int oauth_put(const struct vault *v, const struct credential *c, const struct secret *text, struct err *err);
/* By a code on any device, or, if the definition has no device_url, in a browser on this machine. */
int oauth_login(const struct vault *v, const struct credential *c, struct err *err);
/* In a browser; opener: a SOCK_SEQPACKET socket that gets the address of the page as one message; -1: it is shown on stderr. */
int oauth_browser(const struct vault *v, const struct credential *c, int opener, struct err *err);

/* For oauth*.c: a client's secret that the user has stored before stays; and the end of a login. Nothing but a login that the user
 * began or confirmed, a renewal with the stored token, and `bawn secret set` ever stores tokens. */
void oauth_login_client_secret(const struct vault *v, const struct credential *c, struct oauth_state *s);
int oauth_login_store(const struct vault *v, const struct credential *c, const struct oauth_state *s, struct err *err);
/* For oauth*.c: sends a form with the client's id (and secret, if it has one) and reads tokens from the answer. */
int oauth_request(const struct vault *v, const struct credential *c, const char *url, struct secret *form, struct oauth_state *s,
                  struct err *err);
