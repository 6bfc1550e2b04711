/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: credentials as a sandbox has them, with placeholders. */
#include "base/err.h"
#include "base/sha256.h"
#include "base/str.h"
#include "policy/credential/credential_priv.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
static const char base32[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"; /* of which AWS makes its key ids */

enum { FREE_LENGTH = 36, KEY_ID_CORE = 16, SECRET_KEY_LENGTH = 40 };
#define KEY_ID_SHAPE "AKIA"

/* Random letters that come again: SHA-256 of seed, scope, name, and a number that counts on. */
struct source {
    const struct grant_seed *seed;
    const char *name;
    uint32_t count;
};

static void source_next(struct source *src, uint8_t out[static SHA256_LEN]) {
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, src->seed->bytes, sizeof src->seed->bytes);
    sha256_add(&h, src->seed->scope, strlen(src->seed->scope) + 1);
    sha256_add(&h, src->name, strlen(src->name) + 1);
    sha256_add(&h, &src->count, sizeof src->count);
    sha256_end(&h, out);
    src->count++;
}

/* Bytes at the end of the range are thrown away: otherwise some letters would come more often. */
static void random_letters(struct source *src, char *out, size_t n, const char *from) {
    size_t m = strlen(from), limit = 256 - 256 % m;
    uint8_t bytes[SHA256_LEN];

    for (size_t done = 0; done < n;) {
        source_next(src, bytes);
        for (size_t i = 0; i < sizeof bytes && done < n; i++)
            if (bytes[i] < limit)
                out[done++] = from[bytes[i] % m];
    }
    out[n] = 0;
}

static int make(struct source *src, const char *shape, size_t length, const char *from, char **ret, struct err *err) {
    size_t begin = strlen(shape);
    char text[PLACEHOLDER_MAX + 1];

    memcpy(text, shape, begin);
    random_letters(src, text + begin, length - begin, from);
    *ret = strdup(text);
    return *ret ? 0 : err_oom(err);
}

static int make_placeholders(struct grant *g, const struct grant_seed *seed, struct err *err) {
    const char *shape = g->c.shape ? g->c.shape : "";
    size_t begin = strlen(shape), length = g->c.length ? g->c.length : begin + FREE_LENGTH;
    struct source src = {.seed = seed, .name = g->c.name};
    int r;

    if (begin > PLACEHOLDER_SHAPE_MAX || length > PLACEHOLDER_MAX)
        return err_usage(err, "the placeholder of '%s' would be too long", g->c.name);
    if (g->c.place == PLACE_SIGV4) {
        r = make(&src, KEY_ID_SHAPE, strlen(KEY_ID_SHAPE) + KEY_ID_CORE, base32, &g->placeholder, err);
        return r < 0 ? r : make(&src, "", SECRET_KEY_LENGTH, letters, &g->placeholder2, err);
    }
    r = make(&src, shape, MAX_OF(length, begin + PLACEHOLDER_CORE), letters, &g->placeholder, err);
    if (r < 0)
        return r;
    g->placeholder2 = strdup("");
    return g->placeholder2 ? 0 : err_oom(err);
}

static int copy_granted(const struct credential *c, struct credential *to) {
    int r = 0;

    to->place = c->place;
    to->no_env = c->no_env;
    to->only_placeholder = c->only_placeholder;
    to->length = c->length;
    for (size_t i = 0; r == 0 && i < CREDENTIAL_N_GRANTED; i++)
        r = str_set(credential_text(to, i), *credential_text(c, i));
    r = r < 0 ? r : strv_add_all(&to->hosts, &c->hosts);
    return r < 0 ? r : strv_add_all(&to->env, &c->env);
}

int grant_make(const struct credential *c, const struct grant_seed *seed, struct grant *ret, struct err *err) {
    CLEANUP(grant_done) struct grant g = {0};
    int r = copy_granted(c, &g.c);

    if (r < 0)
        return err_oom(err);
    r = make_placeholders(&g, seed, err);
    if (r == 0)
        *ret = TAKE(g, (struct grant){0});
    return r;
}

void grants_free(struct grant *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        grant_done(&v[i]);
    free(v);
}

void grant_done(struct grant *g) {
    credential_done(&g->c);
    free(g->placeholder);
    free(g->placeholder2);
    *g = (struct grant){0};
}

const char *placeholder_core(const char *placeholder) {
    size_t len = strlen(placeholder), core = PLACEHOLDER_CORE;

    if (len == strlen(KEY_ID_SHAPE) + KEY_ID_CORE && str_starts(placeholder, KEY_ID_SHAPE))
        core = KEY_ID_CORE;
    return placeholder + (len > core ? len - core : 0);
}
