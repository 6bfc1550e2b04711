/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes grants. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"
#include "proto/brokermsg.h"
#include "proto/cursor.h"

static_assert((int)BROKER_GRANTS_MAX == GRANTS_MAX && (int)VAULT_VALUE_MAX == CREDENTIAL_VALUE_MAX, "brokermsg.h says the same");

struct credential_head {
    uint32_t place, only_placeholder, length, n_hosts, n_env;
};

enum { MISSING = '-', PRESENT = '+' };

static void add_string(struct buf *out, const char *s) {
    buf_addc(out, s ? PRESENT : MISSING);
    if (s)
        buf_add(out, s, strlen(s) + 1);
}

static void add_strings(struct buf *out, const struct strv *list) {
    for (size_t i = 0; i < list->len; i++)
        add_string(out, list->v[i]);
}

int grants_encode(const struct grant *v, size_t n, struct buf *out) {
    uint32_t count = (uint32_t)n;

    if (n > GRANTS_MAX)
        return -E2BIG;
    buf_add(out, &count, sizeof count);
    for (size_t i = 0; i < n; i++) {
        const struct credential *c = &v[i].c;
        struct credential_head h = {c->place, c->only_placeholder, c->length, (uint32_t)c->hosts.len, (uint32_t)c->env.len};

        if (c->hosts.len > CREDENTIAL_HOSTS_MAX || c->env.len > CREDENTIAL_ENV_MAX)
            return -E2BIG;
        buf_add(out, &h, sizeof h);
        for (size_t k = 0; k < CREDENTIAL_N_GRANTED; k++)
            add_string(out, *credential_text(c, k));
        add_strings(out, &c->hosts);
        add_strings(out, &c->env);
        add_string(out, v[i].placeholder);
        add_string(out, v[i].placeholder2);
    }
    return buf_ok(out) ? 0 : -E2BIG;
}

/* *ret stays NULL for one that is missing. */
static int take_string(struct cursor *rd, char **ret) {
    char mark;
    const char *s;
    int r = cursor_take(rd, &mark, 1);

    if (r < 0 || mark == MISSING)
        return r;
    s = mark == PRESENT ? cursor_string(rd) : NULL;
    return s && strlen(s) <= CREDENTIAL_TEXT_MAX ? str_set(ret, s) : -EBADMSG;
}

static int take_list(struct cursor *rd, size_t n, struct strv *list) {
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        char *s = NULL;

        r = take_string(rd, &s);
        if (r == 0)
            r = s ? strv_add_take(list, s) : -EBADMSG;
    }
    return r;
}

static bool placeholders_ok(const struct grant *g) {
    size_t least = g->c.place == PLACE_SIGV4 ? 16 : PLACEHOLDER_CORE;

    if (!g->placeholder || !g->placeholder2)
        return false;
    if (strlen(g->placeholder) < least || strlen(g->placeholder) > PLACEHOLDER_MAX)
        return false;
    if (g->c.place != PLACE_SIGV4)
        return !g->placeholder2[0];
    return strlen(g->placeholder2) >= PLACEHOLDER_CORE && strlen(g->placeholder2) <= PLACEHOLDER_MAX;
}

static int take_grant(struct cursor *rd, struct grant *g) {
    struct credential *c = &g->c;
    struct credential_head h;
    int r = cursor_take(rd, &h, sizeof h);

    if (r < 0)
        return r;
    if (h.place >= CREDENTIAL_PLACES || h.only_placeholder > 1 || h.n_hosts > CREDENTIAL_HOSTS_MAX ||
        h.n_env > CREDENTIAL_ENV_MAX)
        return -EBADMSG;
    c->place = h.place;
    c->only_placeholder = h.only_placeholder;
    c->length = h.length;
    for (size_t k = 0; r == 0 && k < CREDENTIAL_N_GRANTED; k++)
        r = take_string(rd, credential_text(c, k));
    if (r < 0 || (r = take_list(rd, h.n_hosts, &c->hosts)) < 0 || (r = take_list(rd, h.n_env, &c->env)) < 0 ||
        (r = take_string(rd, &g->placeholder)) < 0 || (r = take_string(rd, &g->placeholder2)) < 0)
        return r;
    return credential_check(c, NULL) == 0 && c->shape && placeholders_ok(g) ? 0 : -EBADMSG;
}

int grants_decode(const char *bytes, size_t len, struct grant **ret, size_t *ret_n) {
    struct cursor rd = {bytes, len};
    struct grant *v;
    uint32_t n;
    int r = cursor_take(&rd, &n, sizeof n);

    if (r < 0 || n > GRANTS_MAX)
        return -EBADMSG;
    v = calloc(n + 1, sizeof *v);
    if (!v)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = take_grant(&rd, &v[i]);
    if (r == 0 && rd.left)
        r = -EBADMSG;
    if (r < 0) {
        grants_free(v, n);
        return r;
    }
    *ret = v;
    *ret_n = n;
    return 0;
}
