/* SPDX-License-Identifier: Apache-2.0 */
/* The device flow (RFC 8628): the browser may be on any machine. */
#include <errno.h>
#include <jansson.h>
#include <time.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"
#include "vault/http.h"
#include "vault/lockfile.h"
#include "vault/oauth.h"
#include "vault/store.h"

enum { INTERVAL_S = 5, INTERVAL_MAX_S = 120, SLOW_DOWN_S = 5, DEVICE_LIFETIME_S = 1800, SHOWN_MAX = 512 };

struct device {
    struct secret code;
    uint64_t interval_s, end_s;
};

static void device_done(struct device *d) {
    secret_done(&d->code);
}

static uint64_t read_seconds(const json_t *j, const char *key, uint64_t fallback, uint64_t max) {
    double d = json_number_value(json_object_get(j, key));

    return d >= 1 ? d < (double)max ? (uint64_t)d : max : fallback;
}

/* The server's words go to the terminal: log_line() makes them printable, and nothing else is believed of them. */
static int show_code(const json_t *j, struct err *err) {
    const char *uri = json_string_value(json_object_get(j, "verification_uri"));
    const char *whole = json_string_value(json_object_get(j, "verification_uri_complete"));
    const char *code = json_string_value(json_object_get(j, "user_code"));

    if (!uri) /* Google's name for it */
        uri = json_string_value(json_object_get(j, "verification_url"));
    if (!uri || !code || strlen(uri) > SHOWN_MAX || strlen(code) > SHOWN_MAX || (whole && strlen(whole) > SHOWN_MAX))
        return err_set(err, -ENOKEY, "the server's answer has no address or no code to show");
    log_line("open %s in a browser and enter the code %s", uri, code);
    if (whole)
        log_line("or open %s", whole);
    return 0;
}

static int device_read(const struct http_reply *reply, struct device *d, struct err *err) {
    CLEANUP(json_decrefp) json_t *j = json_loadb(reply->body.p, reply->body.len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *code = json_object_get(j, "device_code");

    if (reply->status != 200 || !json_is_string(code) || json_string_length(code) == 0)
        return err_set(err, -ENOKEY, "the server refuses to begin a login (status %ld)", reply->status);
    if (secret_alloc(&d->code, CREDENTIAL_VALUE_MAX) < 0)
        return err_oom(err);
    if (json_string_length(code) > CREDENTIAL_VALUE_MAX)
        return err_set(err, -ENOKEY, "the server's device code is too long");
    secret_set(&d->code, json_string_value(code), json_string_length(code));
    d->interval_s = read_seconds(j, "interval", INTERVAL_S, INTERVAL_MAX_S);
    d->end_s = clock_ms() / 1000 + read_seconds(j, "expires_in", DEVICE_LIFETIME_S, DEVICE_LIFETIME_S);
    return show_code(j, err);
}

static int device_begin(const struct vault *v, const struct credential *c, struct device *d, struct err *err) {
    const struct http_field fields[] = {{"client_id", c->client_id}, {"scope", c->scope}};
    CLEANUP(http_reply_done) struct http_reply reply = {0};
    CLEANUP(secret_done) struct secret form = {0};
    int r = http_form_make(fields, ARRAY_LEN(fields), &form, err);

    r = r < 0 ? r : http_post(v, c->device_url, &form, NULL, &reply, err);
    return r < 0 ? r : device_read(&reply, d, err);
}

static int poll_once(const struct vault *v, const struct credential *c, const struct device *d, struct oauth_state *s,
                     struct err *err) {
    const struct http_field fields[] = {{"grant_type", "urn:ietf:params:oauth:grant-type:device_code"},
                                        {"device_code", d->code.p, d->code.len}};
    CLEANUP(secret_done) struct secret form = {0};
    int r = http_form_make(fields, ARRAY_LEN(fields), &form, err);

    return r < 0 ? r : oauth_request(v, c, c->token_url, &form, s, err);
}

static int device_wait(const struct vault *v, const struct credential *c, struct device *d, struct oauth_state *s,
                       struct err *err) {
    while (clock_ms() / 1000 < d->end_s) {
        struct timespec pause = {.tv_sec = (time_t)d->interval_s};
        int r;

        while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
            continue;
        r = poll_once(v, c, d, s, err);
        if (r == -EBUSY || r == -ETIMEDOUT) /* RFC 8628, 3.5: a server that is too busy to answer is asked less often too */
            d->interval_s = MIN_OF(d->interval_s + SLOW_DOWN_S, (uint64_t)INTERVAL_MAX_S);
        else if (r != -EAGAIN)
            return r;
    }
    return err_set(err, -ETIMEDOUT, "the login took too long");
}

void oauth_login_client_secret(const struct vault *v, const struct credential *c, struct oauth_state *s) {
    CLEANUP(oauth_state_done) struct oauth_state old = {0};
    CLEANUP(secret_done) struct secret text = {0};

    if (store_get(v, c, &text, NULL) == 0 && oauth_state_init(&old) == 0 && oauth_state_read(c, &text, &old, NULL) == 0)
        (void)secret_set(&s->client_secret, old.client_secret.p, old.client_secret.len);
}

int oauth_login_store(const struct vault *v, const struct credential *c, const struct oauth_state *s, struct err *err) {
    CLEANUP(secret_done) struct secret text = {0};
    CLEANUP(closep) int lock = -1;
    int r = oauth_state_write(s, &text, err);

    r = r < 0 ? r : lockfile_take(v->dir, lockfile_of_name(c->name), &lock, err);
    r = r < 0 ? r : vault_recheck(v, c, err);
    r = r < 0 ? r : store_put(v, c, &text, err);
    if (r == 0)
        log_line("secret '%s': logged in", c->name);
    return r;
}

static int device_login(const struct vault *v, const struct credential *c, struct err *err) {
    CLEANUP(oauth_state_done) struct oauth_state s = {0};
    CLEANUP(device_done) struct device d = {0};
    int r;

    if (oauth_state_init(&s) < 0)
        return err_oom(err);
    oauth_login_client_secret(v, c, &s);
    r = device_begin(v, c, &d, err);
    r = r < 0 ? r : device_wait(v, c, &d, &s, err);
    if (r < 0)
        return err_ctx(err, r, "secret '%s'", c->name);
    return oauth_login_store(v, c, &s, err);
}

int oauth_login(const struct vault *v, const struct credential *c, struct err *err) {
    if (c->token_url && c->device_url)
        return device_login(v, c, err);
    if (c->token_url && c->authorize_url)
        return oauth_browser(v, c, -1, err);
    return err_usage(err, "secret '%s' has no oauth.device_url and no oauth.authorize_url: there is nowhere to log in", c->name);
}
