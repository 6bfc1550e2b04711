/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens as JSON: in the store, and in a server's answers. */
#include <errno.h>
#include <jansson.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "vault/oauth.h"

#define JWT_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

enum { ERROR_CODE_MAX = 40, LIFETIME_MAX_S = 10 * 366 * 24 * 3600 };

static const struct {
    const char *key;
    size_t offset, room;
} tokens[] = {
    {"access", offsetof(struct oauth_state, access), CREDENTIAL_VALUE_MAX},
    {"refresh", offsetof(struct oauth_state, refresh), CREDENTIAL_VALUE_MAX},
    {"client_secret", offsetof(struct oauth_state, client_secret), CREDENTIAL_VALUE_MAX},
    {"identity", offsetof(struct oauth_state, identity), OAUTH_IDENTITY_MAX},
};

static struct secret *token_at(const struct oauth_state *s, size_t i) {
    return (struct secret *)((char *)(uintptr_t)s + tokens[i].offset);
}

int oauth_state_init(struct oauth_state *s) {
    *s = (struct oauth_state){0};
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
        if (secret_alloc(token_at(s, i), tokens[i].room) < 0) {
            oauth_state_done(s);
            return -ENOMEM;
        }
    return 0;
}

void oauth_state_done(struct oauth_state *s) {
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
        secret_done(token_at(s, i));
}

/* A string member; absent or null leaves `to` as it is. */
static int take_member(const struct credential *c, const json_t *from, const char *key, struct secret *to, struct err *err) {
    const json_t *j = json_object_get(from, key);
    int r;

    if (!j || json_is_null(j))
        return 0;
    if (!json_is_string(j))
        return err_set(err, -EINVAL, "%s is not a string", key);
    r = credential_value_check(c, json_string_value(j), json_string_length(j), err);
    if (r < 0)
        return err_ctx(err, r, "%s", key);
    return secret_set(to, json_string_value(j), json_string_length(j)) < 0 ? err_set(err, -EINVAL, "%s is too long", key) : 0;
}

static int known_keys_only(const json_t *j, struct err *err) {
    static const char *const known[] = {"access", "refresh", "expires", "client_secret", "identity"};
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)j, key, value) {
        if (str_index(key, known, ARRAY_LEN(known)) < 0)
            return err_usage(err, "the value has a key that is none of access, refresh, expires, client_secret, identity");
    }
    return 0;
}

static int state_of_json(const struct credential *c, const json_t *j, struct oauth_state *s, struct err *err) {
    const json_t *expires = json_object_get(j, "expires");
    int r = known_keys_only(j, err);

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(tokens); i++)
        r = take_member(c, j, tokens[i].key, token_at(s, i), err);
    if (r < 0)
        return r;
    if (expires && (!json_is_integer(expires) || json_integer_value(expires) < 0))
        return err_usage(err, "expires is not a time in seconds since 1970");
    s->expires = expires ? (uint64_t)json_integer_value(expires) : 0;
    if (s->access.len == 0 && s->refresh.len == 0)
        return err_usage(err, "the value has neither a refresh token nor an access token");
    return 0;
}

int oauth_state_read(const struct credential *c, const struct secret *text, struct oauth_state *s, struct err *err) {
    CLEANUP(json_decrefp) json_t *j = NULL;
    int r;

    if (text->len == 0 || text->p[0] != '{') {
        r = credential_value_check(c, text->p ? text->p : "", text->len, err);
        if (r < 0)
            return r;
        return secret_set(&s->refresh, text->p, text->len) < 0 ? err_usage(err, "the refresh token is too long") : 0;
    }
    j = json_loadb(text->p, text->len, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(j))
        return err_usage(err, "the value begins with '{', but is not JSON");
    return state_of_json(c, j, s, err);
}

int oauth_state_write(const struct oauth_state *s, struct secret *ret, struct err *err) {
    CLEANUP(json_decrefp) json_t *j = json_object();
    CLEANUP(secret_done) struct secret text = {0};

    if (!j || secret_alloc(&text, VAULT_STORED_MAX) < 0)
        return err_oom(err);
    for (size_t i = 0; i < ARRAY_LEN(tokens); i++) {
        const struct secret *t = token_at(s, i);

        if (t->len && json_object_set_new(j, tokens[i].key, json_stringn(t->p, t->len)) < 0)
            return err_usage(err, "a token is not UTF-8");
    }
    if (json_object_set_new(j, "expires", json_integer((json_int_t)s->expires)) < 0)
        return err_oom(err);
    text.len = json_dumpb(j, text.p, VAULT_STORED_MAX, JSON_COMPACT);
    if (text.len == 0 || text.len > VAULT_STORED_MAX)
        return err_set(err, -E2BIG, "the tokens are too long for the store");
    *ret = TAKE(text, (struct secret){0});
    return 0;
}

static const struct {
    const char *code;
    int r;
    const char *text;
} answers[] = {
    {"authorization_pending", -EAGAIN, "the login is not finished yet"},
    {"slow_down", -EBUSY, "the server wants to be asked less often"},
    {"expired_token", -EKEYEXPIRED, "the login took too long"},
    {"access_denied", -EACCES, "the login was refused in the browser"},
    {"invalid_grant", -EKEYEXPIRED, "the refresh token has expired or was revoked"},
};

/* RFC 6749, 5.2. The code is shown if it is a plain word; error_description may hold anything, also what we sent. */
static int refused(const json_t *j, long status, struct err *err) {
    const char *code = json_string_value(json_object_get(j, "error"));

    for (size_t i = 0; code && i < ARRAY_LEN(answers); i++)
        if (str_eq(code, answers[i].code))
            return err_set(err, answers[i].r, "%s", answers[i].text);
    if (code && *code && strlen(code) <= ERROR_CODE_MAX && strspn(code, "abcdefghijklmnopqrstuvwxyz_") == strlen(code))
        return err_set(err, -ENOKEY, "the token server refuses: %s", code);
    return err_set(err, -ENOKEY, "the token server refuses, with status %ld", status);
}

/* expires_in is a number; some servers write it as a string. */
static uint64_t lifetime(const json_t *j) {
    const json_t *v = json_object_get(j, "expires_in");
    uint64_t s = 0;

    if (json_is_number(v) && json_number_value(v) >= 1 && json_number_value(v) <= LIFETIME_MAX_S)
        return (uint64_t)json_number_value(v);
    if (json_is_string(v) && parse_u64(json_string_value(v), 1, LIFETIME_MAX_S, &s, NULL) == 0)
        return s;
    return 0;
}

/* Of a JWT all but the signature. Another kind of id_token, or a very long one, tells clients nothing: it is left out. */
static void take_identity(const json_t *j, struct secret *to) {
    const char *token = json_string_value(json_object_get(j, "id_token")), *dot = token ? strrchr(token, '.') : NULL;

    if (dot && str_starts(token, "eyJ") && token[strspn(token, JWT_BYTES)] == 0 && memchr(token, '.', (size_t)(dot - token)))
        (void)secret_set(to, token, (size_t)(dot - token));
}

int oauth_answer_read(const struct credential *c, long status, const struct secret *body, uint64_t now, struct oauth_state *s,
                      struct err *err) {
    CLEANUP(json_decrefp) json_t *j = body->len ? json_loadb(body->p, body->len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *type = json_string_value(json_object_get(j, "token_type"));
    uint64_t seconds;
    int r;

    /* GitHub says its errors with status 200. */
    if (status != 200 || json_object_get(j, "error"))
        return refused(j, status, err);
    if (!json_is_object(j) || json_string_length(json_object_get(j, "access_token")) == 0)
        return err_set(err, -ENOKEY, "the token server's answer has no access token");
    if (type && strcasecmp(type, "bearer") != 0)
        return err_set(err, -ENOKEY, "the token server gives tokens of a type that is not 'bearer'");
    r = take_member(c, j, "access_token", &s->access, err);
    r = r < 0 ? r : take_member(c, j, "refresh_token", &s->refresh, err);
    if (r < 0)
        return err_ctx(err, -ENOKEY, "the token server's answer");
    take_identity(j, &s->identity);
    seconds = lifetime(j);
    s->expires = seconds ? now + seconds : 0;
    return 0;
}
