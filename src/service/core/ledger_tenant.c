/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants and tokens in the database. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "os/clock.h"
#include "service/core/ledger.h"

const char *const quota_names[QUOTAS] = {"running", "queued", "runs_per_hour",     "cpu_seconds_per_hour",
                                         "memory",  "disk",   "bytes_out_per_hour"};
enum { PATHS_MAX = 512 * 1024 };
#define USED_STEP_NS (60 * UINT64_C(1000000000)) /* a write for each request would be a waste */

void tenant_row_done(struct tenant_row *t) {
    strv_done(&t->paths);
}

static int64_t quota_stored(uint64_t v) {
    return v == QUOTA_NONE ? -1 : (int64_t)v;
}

/* Each path with its NUL. */
static void join_paths(const struct strv *paths, struct buf *ret) {
    for (size_t i = 0; i < paths->len; i++)
        buf_add(ret, paths->v[i], strlen(paths->v[i]) + 1);
}

static int split_paths(const struct buf *b, struct strv *ret) {
    int r = 0;

    for (size_t at = 0; r == 0 && at < b->len; at += strlen(b->data + at) + 1)
        r = strv_add(ret, b->data + at);
    return r;
}

int ledger_tenant_add(struct ledger *l, struct tenant_row *t, struct err *err) {
    CLEANUP(buf_done) struct buf paths = BUF_INIT(PATHS_MAX);
    int64_t q[QUOTAS];
    int r;

    join_paths(&t->paths, &paths);
    if (!buf_ok(&paths))
        return err_set(err, -EFBIG, "too many paths");
    for (int i = 0; i < QUOTAS; i++)
        q[i] = quota_stored(t->quotas[i]);
    t->created_ns = clock_mark();
    r = ledger_do(l, LEDGER_TENANT_ADD, err, "tibiiiiiii", t->name, (int64_t)t->created_ns, buf_str(&paths), paths.len, q[0],
                  q[1], q[2], q[3], q[4], q[5], q[6]);
    if (r >= 0)
        t->number = (uint64_t)sqlite3_last_insert_rowid(l->db);
    return r < 0 ? r : 0;
}

int ledger_tenant_quotas(struct ledger *l, const struct tenant_row *t, struct err *err) {
    int64_t q[QUOTAS];
    int r;

    for (int i = 0; i < QUOTAS; i++)
        q[i] = quota_stored(t->quotas[i]);
    r = ledger_do(l, LEDGER_TENANT_QUOTAS, err, "tiiiiiii", t->name, q[0], q[1], q[2], q[3], q[4], q[5], q[6]);
    return r < 0 ? r : 0;
}

int ledger_tenant_remove(struct ledger *l, const char *name, struct err *err) {
    int r = ledger_do(l, LEDGER_TOKEN_REMOVE_ALL, err, "t", name);

    r = r < 0 ? r : ledger_do(l, LEDGER_TENANT_REMOVE, err, "t", name);
    return r < 0 ? r : 0;
}

static int read_tenant(struct ledger *l, struct tenant_row *ret, struct err *err) {
    CLEANUP(buf_done) struct buf paths = BUF_INIT(PATHS_MAX);

    ret->number = (uint64_t)ledger_int(l, LEDGER_TENANT_ALL, 0);
    ledger_chars(l, LEDGER_TENANT_ALL, 1, ret->name, sizeof ret->name);
    ret->created_ns = (uint64_t)ledger_int(l, LEDGER_TENANT_ALL, 2);
    ledger_bytes(l, LEDGER_TENANT_ALL, 3, &paths);
    for (int i = 0; i < QUOTAS; i++) {
        int64_t v = ledger_int(l, LEDGER_TENANT_ALL, 4 + i);

        ret->quotas[i] = v < 0 ? QUOTA_NONE : (uint64_t)v;
    }
    return !buf_ok(&paths) || split_paths(&paths, &ret->paths) < 0 ? err_oom(err) : 0;
}

int ledger_tenants(struct ledger *l, int (*found)(struct tenant_row *t, void *arg), void *arg, struct err *err) {
    int r = ledger_ask(l, LEDGER_TENANT_ALL, err, "");

    while (r >= 0 && (r = ledger_next(l, LEDGER_TENANT_ALL, err)) > 0) {
        CLEANUP(tenant_row_done) struct tenant_row t = {0};

        r = read_tenant(l, &t, err);
        r = r < 0 ? r : found(&t, arg);
    }
    ledger_end(l, LEDGER_TENANT_ALL);
    return r < 0 ? r : 0;
}

/* -- tokens ------------------------------------------------------------------------------------------------------------------ */

int ledger_token_add(struct ledger *l, struct token_row *t, char token[static TOKEN_SIZE], struct err *err) {
    unsigned char hash[SHA256_LEN];
    int r = randid_make("tok", t->id);

    r = r < 0 ? r : token_make(token);
    if (r < 0)
        return err_sys(err, r, "random bytes");
    if (!token_hash(token, TOKEN_SIZE - 1, hash))
        BUG("a token that is none");
    t->created_ns = clock_mark();
    r = ledger_do(l, LEDGER_TOKEN_ADD, err, "tttiiib", t->id, t->tenant, t->name[0] ? t->name : NULL, (int64_t)t->admin,
                  (int64_t)t->created_ns, (int64_t)t->expires_ns, hash, sizeof hash);
    return r < 0 ? r : 0;
}

static void read_token(struct ledger *l, enum ledger_statement s, struct token_row *ret) {
    ledger_chars(l, s, 0, ret->id, sizeof ret->id);
    ledger_chars(l, s, 1, ret->tenant, sizeof ret->tenant);
    ledger_chars(l, s, 2, ret->name, sizeof ret->name);
    ret->admin = ledger_int(l, s, 3) != 0;
    ret->created_ns = (uint64_t)ledger_int(l, s, 4);
    ret->expires_ns = (uint64_t)ledger_int(l, s, 5);
    ret->used_ns = (uint64_t)ledger_int(l, s, 6);
}

int ledger_token_find(struct ledger *l, const char *token, size_t len, uint64_t now_ns, struct token_row *ret, struct err *err) {
    CLEANUP(buf_done) struct buf stored = BUF_INIT(2 * SHA256_LEN);
    unsigned char hash[SHA256_LEN];
    int r;

    if (!token_hash(token, len, hash))
        return 0;
    r = ledger_ask(l, LEDGER_TOKEN_FIND, err, "b", hash, sizeof hash);
    r = r < 0 ? r : ledger_next(l, LEDGER_TOKEN_FIND, err);
    if (r > 0) {
        read_token(l, LEDGER_TOKEN_FIND, ret);
        ledger_bytes(l, LEDGER_TOKEN_FIND, 7, &stored);
    }
    ledger_end(l, LEDGER_TOKEN_FIND);
    if (r <= 0 || stored.len != sizeof hash || !token_same((const unsigned char *)stored.data, hash))
        return r < 0 ? r : 0;
    if (ret->expires_ns && ret->expires_ns <= now_ns)
        return 0;
    if (ret->used_ns + USED_STEP_NS > now_ns)
        return 1;
    r = ledger_begin(l, err);
    r = r < 0 ? r : ledger_do(l, LEDGER_TOKEN_USED, err, "ti", ret->id, (int64_t)now_ns);
    return r < 0 ? r : 1;
}

int ledger_tokens(struct ledger *l, const char *tenant, int (*found)(const struct token_row *t, void *arg), void *arg,
                  struct err *err) {
    int r = ledger_ask(l, LEDGER_TOKEN_LIST, err, "t", tenant);

    while (r >= 0 && (r = ledger_next(l, LEDGER_TOKEN_LIST, err)) > 0) {
        struct token_row t = {0};

        read_token(l, LEDGER_TOKEN_LIST, &t);
        r = found(&t, arg);
    }
    ledger_end(l, LEDGER_TOKEN_LIST);
    return r < 0 ? r : 0;
}
