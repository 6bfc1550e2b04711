/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials and lists of them. */
#include "policy/credential/credential.h"

#include <errno.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/vec.h"
#include "policy/credential/credential_priv.h"

const char *const credential_place_names[CREDENTIAL_PLACES] = {
    [PLACE_HEADER] = "header", [PLACE_BASIC] = "basic", [PLACE_QUERY] = "query", [PLACE_SIGV4] = "sigv4"};
const char *const credential_store_names[CREDENTIAL_STORES] = {
    [STORE_FILE] = "file", [STORE_SECRET_SERVICE] = "secret-service", [STORE_ENV] = "env", [STORE_COMMAND] = "command"};

#define OFFSET(member) offsetof(struct credential, member),
const size_t credential_texts[CREDENTIAL_N_TEXTS] = {CREDENTIAL_GRANTED_TEXTS(OFFSET) OFFSET(variable) OFFSET(redirect_uri)};

int credential_set_text(char **at, const char *value, size_t len) {
    char *copy = strndup(value, len);

    if (!copy)
        return -ENOMEM;
    free(*at);
    *at = copy;
    return 0;
}

void credential_done(struct credential *c) {
    for (size_t i = 0; i < CREDENTIAL_N_TEXTS; i++)
        free(*credential_text(c, i));
    strv_done(&c->hosts);
    strv_done(&c->env);
    strv_done(&c->command);
    *c = (struct credential){0};
}

void credentials_done(struct credentials *c) {
    for (size_t i = 0; i < c->len; i++)
        credential_done(&c->v[i]);
    free(c->v);
    *c = (struct credentials){0};
}

/* Where it is, or where it belongs. */
static size_t place_of(const struct credentials *c, const char *name) {
    size_t i = 0;

    while (i < c->len && strcmp(c->v[i].name, name) < 0)
        i++;
    return i;
}

struct credential *credentials_find(const struct credentials *c, const char *name) {
    size_t i = place_of(c, name);

    return i < c->len && str_eq(c->v[i].name, name) ? &c->v[i] : NULL;
}

int credentials_put(struct credentials *c, struct credential *one, struct err *err) {
    CLEANUP(credential_done) struct credential mine = TAKE(*one, (struct credential){0});
    struct credential *old = credentials_find(c, mine.name);
    size_t at;

    if (old) {
        credential_done(old);
        *old = TAKE(mine, (struct credential){0});
        return 0;
    }
    at = place_of(c, mine.name);
    if (c->len == CREDENTIALS_MAX)
        return err_usage(err, "there are %d secrets already, which is the most there can be", CREDENTIALS_MAX);
    return VEC_INSERT(c->v, c->len, at, TAKE(mine, (struct credential){0})) < 0 ? err_oom(err) : 0;
}

int credentials_remove(struct credentials *c, const char *name) {
    struct credential *old = credentials_find(c, name);

    if (!old)
        return -ENOENT;
    credential_done(old);
    VEC_REMOVE(c->v, c->len, (size_t)(old - c->v));
    return 0;
}

/* What follows the host in an entry, as credential_add_host() writes it ("a.test", "a.test:8443", "[::1]:8443"): ":8443" or "";
 * NULL: it is for another one. Asked for every request of a sandbox, so it compares text. */
static const char *entry_rest(const char *entry, const char *host, size_t len) {
    const char *rest = entry[0] == '[' ? entry + 1 : entry;

    if (strncmp(rest, host, len) != 0 || (rest == entry && memchr(host, ':', len)))
        return NULL;
    rest += len;
    if (entry[0] == '[' && *rest++ != ']')
        return NULL;
    return !*rest || *rest == ':' ? rest : NULL;
}

static bool host_entry_is(const char *entry, const char *host, size_t len, uint16_t port) {
    const char *rest = entry_rest(entry, host, len);
    char with_port[8];

    if (!rest)
        return false;
    if (!*rest)
        return port == 443;
    snprintf(with_port, sizeof with_port, ":%u", port);
    return str_eq(rest, with_port);
}

const char *credential_variable(const struct credential *c, size_t i) {
    static const char *const aws[] = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"};

    if (c->place == PLACE_SIGV4)
        return i < ARRAY_LEN(aws) && !c->no_env ? aws[i] : NULL;
    return i < c->env.len ? c->env.v[i] : NULL;
}

bool credential_has_variable(const struct credential *c, const char *name) {
    const char *one;

    for (size_t i = 0; (one = credential_variable(c, i)); i++)
        if (str_eq(one, name))
            return true;
    return false;
}

bool credential_names(const struct credential *c, const char *host, uint16_t port) {
    size_t len = strlen(host);

    for (size_t i = 0; i < c->hosts.len; i++)
        if (host_entry_is(c->hosts.v[i], host, len, port))
            return true;
    return false;
}

bool credential_is_for(const struct credential *c, const char *host, uint16_t port) {
    const char *endpoint;

    if (credential_names(c, host, port))
        return true;
    endpoint = credential_s3_endpoint(c, host);
    return endpoint && credential_names(c, endpoint, port);
}

uint16_t credential_next_port(const struct credential *c, const char *host, size_t *at) {
    const char *endpoint = credential_s3_endpoint(c, host);

    while (*at < c->hosts.len) {
        const char *entry = c->hosts.v[(*at)++], *rest = entry_rest(entry, host, strlen(host));

        if (!rest && endpoint)
            rest = entry_rest(entry, endpoint, strlen(endpoint));
        if (rest)
            return *rest ? (uint16_t)strtoul(rest + 1, NULL, 10) : 443;
    }
    return 0;
}

static void add_purpose(struct sha256 *h, const char *text) {
    sha256_add(h, text ? "+" : "-", 1);
    if (text)
        sha256_add(h, text, strlen(text) + 1);
}

void credential_purpose(const struct credential *c, char out[static CREDENTIAL_PURPOSE_SIZE]) {
    const char *const texts[] = {c->header, c->format, c->user, c->query, c->region, c->service, c->token_url, c->client_id};
    struct sha256 h;

    static_assert((int)CREDENTIAL_PURPOSE_SIZE == SHA256_HEX_SIZE, "hexadecimal digits");
    sha256_init(&h);
    add_purpose(&h, credential_place_names[c->place]);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        add_purpose(&h, texts[i]);
    for (size_t i = 0; i < c->hosts.len; i++)
        add_purpose(&h, c->hosts.v[i]);
    sha256_end_hex(&h, out);
}

bool credential_same_purpose(const struct credential *a, const struct credential *b) {
    char one[CREDENTIAL_PURPOSE_SIZE], two[CREDENTIAL_PURPOSE_SIZE];

    credential_purpose(a, one);
    credential_purpose(b, two);
    return str_eq(one, two);
}
