/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A login in the user's browser (RFC 6749, 4.1, with PKCE: RFC 7636), from its address to the stored tokens. All of it is ours: state, verifier and
 * redirect are made here and leave this process only to the service; a sandbox that asked for the login has no part in it and gets nothing of it.
 */
#include <errno.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "vault/callback.h"
#include "vault/http.h"
#include "vault/oauth.h"

enum { RANDOM_BYTES = 32, RANDOM_TEXT = BASE64_URL_SIZE(RANDOM_BYTES) };
static_assert((int)SHA256_LEN == RANDOM_BYTES, "a challenge is as long as a verifier");

struct browser {
    struct credential_redirect redirect;
    struct callback callback;
    char *back; /* redirect_uri, with the port */
    char state[RANDOM_TEXT], verifier[RANDOM_TEXT];
};

static void browser_done(struct browser *b) {
    callback_done(&b->callback);
    free(b->back);
    explicit_bzero(b->verifier, sizeof b->verifier);
}

static int make_random(char out[static RANDOM_TEXT]) {
    uint8_t bytes[RANDOM_BYTES];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return -EIO;
    base64_url(bytes, sizeof bytes, out);
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

static int browser_begin(const struct credential *c, struct browser *b, struct err *err) {
    int r = credential_redirect_parse(c->redirect_uri ? c->redirect_uri : CREDENTIAL_REDIRECT, &b->redirect);

    if (r < 0)
        return err_usage(err, "its redirect_uri cannot be used");
    if (make_random(b->state) < 0 || make_random(b->verifier) < 0)
        return err_set(err, -EIO, "the kernel gives no random numbers");
    r = callback_listen(&b->redirect, &b->callback, err);
    if (r < 0)
        return r;
    b->back = str_dupf("http://%s:%u%s", b->redirect.host, b->callback.port, b->redirect.path);
    return b->back ? 0 : err_oom(err);
}

/* The page that the browser opens. */
static int make_url(const struct credential *c, const struct browser *b, char **ret, struct err *err) {
    uint8_t digest[SHA256_LEN];
    char challenge[RANDOM_TEXT];
    const struct http_field fields[] = {
        {"response_type", "code"}, {"client_id", c->client_id},   {"redirect_uri", b->back},        {"scope", c->scope},
        {"state", b->state},       {"code_challenge", challenge}, {"code_challenge_method", "S256"}};
    CLEANUP(secret_done) struct secret form = {0};
    int r;

    sha256_of(b->verifier, strlen(b->verifier), digest);
    base64_url(digest, sizeof digest, challenge);
    r = http_form_make(fields, ARRAY_LEN(fields), &form, err);
    if (r < 0)
        return r;
    *ret = str_dupf("%s%c%.*s", c->authorize_url, strchr(c->authorize_url, '?') ? '&' : '?', (int)form.len, form.p);
    return *ret ? 0 : err_oom(err);
}

static int show_page(const struct credential *c, const struct browser *b, int opener, struct err *err) {
    CLEANUP(freep) char *url = NULL;
    int r = make_url(c, b, &url, err);

    if (r < 0)
        return r;
    if (opener < 0) {
        log_line("open %s in a browser on this machine", url);
        return 0;
    }
    r = sock_send(opener, url, strlen(url), NULL, 0);
    return r < 0 ? err_sys(err, r, "send the address of the login page") : 0;
}

static int redeem(const struct vault *v, const struct credential *c, const struct browser *b, const struct secret *code,
                  struct oauth_state *s, struct err *err) {
    const struct http_field fields[] = {{"grant_type", "authorization_code"},
                                        {"code", code->p, code->len},
                                        {"redirect_uri", b->back},
                                        {"code_verifier", b->verifier}};
    CLEANUP(secret_done) struct secret form = {0};
    int r = http_form_make(fields, ARRAY_LEN(fields), &form, err);

    r = r < 0 ? r : oauth_request(v, c, c->token_url, &form, s, err);
    return r == -EKEYEXPIRED ? err_set(err, -ENOKEY, "the token server refuses the login's code") : r;
}

static int finish_login(const struct vault *v, const struct credential *c, struct browser *b, struct secret *code, int *client,
                        struct err *err) {
    CLEANUP(oauth_state_done) struct oauth_state s = {0};
    int r = oauth_state_init(&s) < 0 ? err_oom(err) : 0;

    r = r < 0 ? r : callback_wait(&b->callback, b->redirect.path, b->state, code, client, err);
    if (r < 0)
        return r;
    oauth_login_client_secret(v, c, &s);
    r = redeem(v, c, b, code, &s, err);
    return r < 0 ? r : oauth_login_store(v, c, &s, err);
}

int oauth_browser(const struct vault *v, const struct credential *c, int opener, struct err *err) {
    CLEANUP(browser_done) struct browser b = {.callback = {.fd = -1}};
    CLEANUP(secret_done) struct secret code = {0};
    int client = -1, r;

    if (!c->token_url || !c->authorize_url)
        return err_usage(err, "secret '%s' has no oauth.authorize_url: there is no page to log in at", c->name);
    r = secret_alloc(&code, CALLBACK_CODE_MAX) < 0 ? err_oom(err) : browser_begin(c, &b, err);
    r = r < 0 ? r : show_page(c, &b, opener, err);
    r = r < 0 ? r : finish_login(v, c, &b, &code, &client, err);
    if (client >= 0)
        callback_answer(client, r == 0);
    return r < 0 ? err_ctx(err, r, "secret '%s'", c->name) : 0;
}
