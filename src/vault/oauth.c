/* SPDX-License-Identifier: Apache-2.0 */
/* Access tokens: from the store, or renewed under a lock. */
#include "vault/oauth.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "os/fd.h"
#include "vault/http.h"
#include "vault/lockfile.h"
#include "vault/store.h"

static int log_in_again(const struct credential *c, const char *why, struct err *err) {
    return err_set(err, -EKEYEXPIRED, "secret '%s': %s: log in again with 'bawn secret login %s'", c->name, why, c->name);
}

/* s was zero. */
static int load_state(const struct vault *v, const struct credential *c, struct oauth_state *s, struct err *err) {
    CLEANUP(secret_done) struct secret text = {0};
    int r = store_get(v, c, &text, err);

    if (r < 0)
        return r;
    if (oauth_state_init(s) < 0)
        return err_oom(err);
    r = oauth_state_read(c, &text, s, err);
    return r < 0 ? err_ctx(err, r, "secret '%s'", c->name) : 0;
}

static int save_state(const struct vault *v, const struct credential *c, const struct oauth_state *s, struct err *err) {
    CLEANUP(secret_done) struct secret text = {0};
    int r = oauth_state_write(s, &text, err);

    return r < 0 ? r : store_put(v, c, &text, err);
}

static bool is_usable(const struct oauth_state *s) {
    return s->access.len && (s->expires == 0 || s->expires > (uint64_t)time(NULL) + OAUTH_MARGIN_S);
}

static bool is_same(const struct secret *a, const struct secret *b) {
    return a->len == b->len && (a->len == 0 || CRYPTO_memcmp(a->p, b->p, a->len) == 0);
}

int oauth_request(const struct vault *v, const struct credential *c, const char *url, struct secret *form, struct oauth_state *s,
                  struct err *err) {
    CLEANUP(http_reply_done) struct http_reply reply = {0};
    struct http_login login = {.user = c->client_id, .password = &s->client_secret};
    bool has_secret = s->client_secret.len > 0;
    int r = has_secret ? 0 : http_form_add(form, "client_id", c->client_id, strlen(c->client_id));

    if (r < 0)
        return err_set(err, r, "the request for a token is too long");
    r = http_post(v, url, form, has_secret ? &login : NULL, &reply, err);
    return r < 0 ? r : oauth_answer_read(c, reply.status, &reply.body, (uint64_t)time(NULL), s, err);
}

static int refresh_tokens(const struct vault *v, const struct credential *c, struct oauth_state *s, struct err *err) {
    /* No scope: it stays what the user has granted, which may be less than what was asked for. */
    const struct http_field fields[] = {{"grant_type", "refresh_token"}, {"refresh_token", s->refresh.p, s->refresh.len}};
    CLEANUP(secret_done) struct secret form = {0};
    int r;

    if (s->refresh.len == 0)
        return log_in_again(c, "there is no refresh token, and the access token has ended", err);
    r = http_form_make(fields, ARRAY_LEN(fields), &form, err);
    if (r < 0)
        return r;
    r = oauth_request(v, c, c->token_url, &form, s, err);
    if (r == -EKEYEXPIRED)
        return log_in_again(c, "the refresh token has expired or was revoked", err);
    return r < 0 ? err_ctx(err, r, "secret '%s'", c->name) : 0;
}

/* Under the lock: what is in the store now, if another vault was faster, or new tokens. `refused` is an access token that is
 * no good. */
static int renew(const struct vault *v, const struct credential *c, const struct secret *refused, struct oauth_state *s,
                 struct err *err) {
    CLEANUP(closep) int lock = -1;
    struct err why = {0};
    int r = lockfile_take(v->dir, lockfile_of_name(c->name), &lock, err);

    r = r < 0 ? r : vault_recheck(v, c, err);
    r = r < 0 ? r : load_state(v, c, s, err);
    if (r < 0 || (is_usable(s) && !(refused && is_same(refused, &s->access))))
        return r;
    r = refresh_tokens(v, c, s, err);
    if (r < 0)
        return r;
    /* The access token is good all the same; without the new refresh token the next login comes sooner. */
    if (save_state(v, c, s, &why) < 0)
        log_err(&why);
    return 0;
}

static void hand_over(struct oauth_state *s, struct secret *ret, struct secret *ret_identity, uint64_t *ret_expires) {
    *ret = TAKE(s->access, (struct secret){0});
    *ret_identity = TAKE(s->identity, (struct secret){0});
    *ret_expires = s->expires;
}

int oauth_get(const struct vault *v, const struct credential *c, bool fresh, struct secret *ret, struct secret *ret_identity,
              uint64_t *ret_expires, struct err *err) {
    CLEANUP(oauth_state_done) struct oauth_state before = {0}, now = {0};
    int r = load_state(v, c, &before, err);

    if (r < 0)
        return r;
    if (!fresh && is_usable(&before)) {
        hand_over(&before, ret, ret_identity, ret_expires);
        return 0;
    }
    r = renew(v, c, fresh ? &before.access : NULL, &now, err);
    if (r == 0)
        hand_over(&now, ret, ret_identity, ret_expires);
    return r;
}

int oauth_check(const struct vault *v, const struct credential *c, struct err *err) {
    CLEANUP(oauth_state_done) struct oauth_state s = {0};
    int r = load_state(v, c, &s, err);

    if (r < 0 || is_usable(&s) || s.refresh.len)
        return r;
    return log_in_again(c, "there is no refresh token, and the access token has ended", err);
}

int oauth_put(const struct vault *v, const struct credential *c, const struct secret *text, struct err *err) {
    CLEANUP(oauth_state_done) struct oauth_state s = {0};
    int r = oauth_state_init(&s) < 0 ? err_oom(err) : oauth_state_read(c, text, &s, err);

    if (r < 0) {
        err->status = EXIT_USAGE_ERR;
        return err_ctx(err, r, "secret '%s'", c->name);
    }
    return save_state(v, c, &s, err);
}
