/* SPDX-License-Identifier: Apache-2.0 */
/* The database of bawnd: migrations from every earlier version, tenants, tokens, runs, idempotency keys. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "os/clock.h"
#include "service/core/ledger.h"

struct place {
    char dir[64], path[80];
};

static int setup(void **state) {
    struct place *p = calloc(1, sizeof *p);

    snprintf(p->dir, sizeof p->dir, "/tmp/test_ledger.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->path, sizeof p->path, "%s/bawnd.db", p->dir);
    *state = p;
    return 0;
}

static int teardown(void **state) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    struct place *p = *state;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char path[96];

        snprintf(path, sizeof path, "%s%s", p->path, ends[i]);
        unlink(path);
    }
    rmdir(p->dir);
    free(p);
    return 0;
}

static void open_ledger(const struct place *p, struct ledger *l) {
    struct err err = {0};

    if (ledger_open(p->path, false, l, &err) < 0)
        fail_msg("%s", err.msg);
}

static void add_tenant(struct ledger *l, const char *name) {
    struct tenant_row t = {.quotas = {2, QUOTA_NONE, 3, 4, 5, 6, QUOTA_NONE}};
    struct err err = {0};

    snprintf(t.name, sizeof t.name, "%s", name);
    strv_add(&t.paths, "/srv/a");
    strv_add(&t.paths, "/srv/b c");
    assert_int_equal(ledger_tenant_add(l, &t, &err), 0);
    tenant_row_done(&t);
}

static void ids_have_their_form_and_differ(void **state UNUSED) {
    char a[RANDID_SIZE], b[RANDID_SIZE];

    assert_int_equal(randid_make("run", a), 0);
    assert_int_equal(randid_make("run", b), 0);
    assert_true(randid_is(a, "run"));
    assert_false(randid_is(a, "box"));
    assert_string_not_equal(a, b);
    a[10] = '/';
    assert_false(randid_is(a, "run"));
    b[strlen(b) - 1] = 0;
    assert_false(randid_is(b, "run"));
}

static int64_t sent_by(struct ledger *l, const char *tenant) {
    struct err err = {0};
    int64_t sum = 0;

    assert_int_equal(ledger_ask(l, LEDGER_TRAFFIC_SINCE, &err, "ti", tenant, (int64_t)0), 0);
    while (ledger_next(l, LEDGER_TRAFFIC_SINCE, &err) > 0)
        sum += ledger_int(l, LEDGER_TRAFFIC_SINCE, 1);
    ledger_end(l, LEDGER_TRAFFIC_SINCE);
    return sum;
}

static int64_t boxes_of(struct ledger *l, const char *tenant) {
    struct err err = {0};
    int64_t n;

    assert_int_equal(ledger_ask(l, LEDGER_BOX_LIVE, &err, "t", tenant), 0);
    assert_int_equal(ledger_next(l, LEDGER_BOX_LIVE, &err), 1);
    n = ledger_int(l, LEDGER_BOX_LIVE, 0);
    assert_int_equal(ledger_int(l, LEDGER_BOX_LIVE, 1), 0);
    ledger_end(l, LEDGER_BOX_LIVE);
    return n;
}

/* With rows in it, so that a migration that drops or cannot fill a column is found. */
static void every_version_migrates(void **state) {
    struct place *p = *state;

    for (int from = 0; from <= ledger_version; from++) {
        struct ledger l = {0};
        struct err err = {0};
        sqlite3 *db;

        teardown(state);
        setup(state);
        p = *state;
        assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
        assert_int_equal(ledger_migrate(db, from, &err), 0);
        if (from >= 1)
            assert_int_equal(
                sqlite3_exec(
                    db,
                    "INSERT INTO tenants (name, created, paths, running, queued, runs, cpu, memory, disk, out)"
                    " VALUES ('old', 1, x'', 1, 1, 1, 1, 1, 1, -1);"
                    "INSERT INTO runs (id, tenant, state, held, created, started, ended, status, stdout, stderr, cpu, request)"
                    " VALUES ('run_0123456789012345678901', 'old', 3, 0, 1, 2, 3, 7, 0, 0, 0, x'41')",
                    NULL, NULL, NULL),
                SQLITE_OK);
        if (from >= 2)
            assert_int_equal(
                sqlite3_exec(db, "INSERT INTO boxes (id, tenant, state, created, request) VALUES ('box_1', 'old', 1, 1, x'')",
                             NULL, NULL, NULL),
                SQLITE_OK);
        if (from >= 3)
            assert_int_equal(sqlite3_exec(db, "UPDATE runs SET out = 41", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        open_ledger(p, &l);
        if (from >= 1) {
            struct run_row row = RUN_ROW_INIT;

            assert_int_equal(ledger_run_get(&l, "old", "run_0123456789012345678901", &row, &err), 1);
            assert_int_equal(row.status, 7);
            run_row_done(&row);
            assert_int_equal(sent_by(&l, "old"), from == 3 ? 41 : 0); /* from 4 on it is counted as it leaves */
        }
        assert_int_equal(boxes_of(&l, "old"), from >= 2);
        add_tenant(&l, "new");
        ledger_done(&l);
    }
}

static void a_newer_version_is_refused(void **state) {
    struct place *p = *state;
    struct ledger l = {0};
    struct err err = {0};

    open_ledger(p, &l);
    assert_int_equal(sqlite3_exec(l.db, "PRAGMA user_version = 999", NULL, NULL, NULL), SQLITE_OK);
    ledger_done(&l);
    assert_int_equal(ledger_open(p->path, false, &l, &err), -ENOTSUP);
    assert_non_null(strstr(err.msg, "newer"));
}

static int count_tenant(struct tenant_row *t, void *arg) {
    int *n = arg;

    assert_int_equal(t->paths.len, 2);
    assert_string_equal(t->paths.v[1], "/srv/b c");
    assert_true(t->quotas[QUOTA_QUEUED] == QUOTA_NONE);
    assert_int_equal(t->quotas[QUOTA_DISK], 6);
    ++*n;
    return 0;
}

/* A number, and with it a uid, is not used again: files of the old one may be somewhere. */
static void tenants_are_stored(void **state) {
    struct ledger l = {0};
    struct tenant_row twice = {.name = "a"}, third = {.name = "c"};
    struct err err = {0};
    int n = 0;

    open_ledger(*state, &l);
    add_tenant(&l, "a");
    add_tenant(&l, "b");
    assert_int_equal(ledger_tenant_add(&l, &twice, &err), -EEXIST);
    assert_int_equal(ledger_tenants(&l, count_tenant, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(ledger_tenant_remove(&l, "b", &err), 0);
    assert_int_equal(ledger_tenant_add(&l, &third, &err), 0);
    assert_int_equal(third.number, 3);
    ledger_done(&l);
}

static void tokens_are_found_by_what_they_are(void **state) {
    struct ledger l = {0};
    struct token_row made = {.tenant = "a", .name = "ci", .admin = true}, short_lived = {.tenant = "a", .expires_ns = 5},
                     found = {0};
    char token[TOKEN_SIZE], expired[TOKEN_SIZE], other[TOKEN_SIZE];
    struct err err = {0};
    uint64_t now = clock_mark();

    open_ledger(*state, &l);
    add_tenant(&l, "a");
    assert_int_equal(ledger_token_add(&l, &made, token, &err), 0);
    assert_int_equal(ledger_token_add(&l, &short_lived, expired, &err), 0);
    assert_int_equal(token_make(other), 0);
    assert_int_equal(ledger_token_find(&l, token, strlen(token), now, &found, &err), 1);
    assert_int_equal(ledger_commit(&l, &err), 0);
    assert_string_equal(found.tenant, "a");
    assert_string_equal(found.id, made.id);
    assert_true(found.admin);
    assert_int_equal(ledger_token_find(&l, token, strlen(token), now, &found, &err), 1);
    assert_true(found.used_ns == now);
    assert_int_equal(ledger_token_find(&l, other, strlen(other), now, &found, &err), 0);
    assert_int_equal(ledger_token_find(&l, expired, strlen(expired), now, &found, &err), 0);
    assert_int_equal(ledger_token_find(&l, token, strlen(token) - 1, now, &found, &err), 0);
    assert_int_equal(ledger_tenant_remove(&l, "a", &err), 0);
    assert_int_equal(ledger_token_find(&l, token, strlen(token), now, &found, &err), 0);
    ledger_done(&l);
}

/* The file has the hash only. */
static void tokens_are_not_stored(void **state) {
    static const char *const ends[] = {"", "-wal"};
    struct place *p = *state;
    struct ledger l = {0};
    struct token_row made = {.tenant = "a"};
    char token[TOKEN_SIZE];
    struct err err = {0};
    size_t seen = 0;

    open_ledger(p, &l);
    add_tenant(&l, "a");
    assert_int_equal(ledger_token_add(&l, &made, token, &err), 0);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        char path[96];
        char *data = calloc(1, 1 << 20);
        FILE *f;
        size_t n;

        snprintf(path, sizeof path, "%s%s", p->path, ends[i]);
        f = fopen(path, "re");
        n = f ? fread(data, 1, 1 << 20, f) : 0;
        seen += memmem(data, n, made.id, strlen(made.id)) != NULL;
        assert_null(memmem(data, n, token + 5, 20));
        if (f)
            fclose(f);
        free(data);
    }
    assert_true(seen > 0);
    ledger_done(&l);
}

static struct run_row new_run(const char *tenant) {
    struct run_row row = RUN_ROW_INIT;

    snprintf(row.tenant, sizeof row.tenant, "%s", tenant);
    assert_int_equal(randid_make("run", row.id), 0);
    row.created_ns = clock_mark();
    buf_add(&row.request, "a\0b", 3);
    return row;
}

static int count_run(struct run_row *r UNUSED, void *arg) {
    ++*(int *)arg;
    return 0;
}

static void runs_belong_to_their_tenant(void **state) {
    struct ledger l = {0};
    struct run_row row = new_run("a"), got = RUN_ROW_INIT;
    struct err err = {0};
    int n = 0;

    open_ledger(*state, &l);
    assert_int_equal(ledger_run_add(&l, &row, &err), 0);
    assert_int_equal(ledger_run_get(&l, "b", row.id, &got, &err), 0);
    assert_int_equal(ledger_run_get(&l, "a", row.id, &got, &err), 1);
    assert_int_equal(got.request.len, 3);
    assert_memory_equal(got.request.data, "a\0b", 3);
    assert_int_equal(ledger_ask(&l, LEDGER_RUN_OPEN, &err, ""), 0);
    assert_int_equal(ledger_runs(&l, LEDGER_RUN_OPEN, count_run, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(ledger_do(&l, LEDGER_RUN_REMOVE, &err, "tt", "a", row.id), 0); /* it has not ended */
    row.state = RUN_FAILED;
    row.status = 3;
    snprintf(row.reason, sizeof row.reason, "why");
    assert_int_equal(ledger_run_end(&l, &row, &err), 0);
    run_row_done(&got);
    got = (struct run_row)RUN_ROW_INIT;
    assert_int_equal(ledger_run_get(&l, "a", row.id, &got, &err), 1);
    assert_string_equal(got.reason, "why");
    assert_int_equal(got.status, 3);
    assert_int_equal(ledger_do(&l, LEDGER_RUN_REMOVE, &err, "tt", "b", row.id), 0);
    assert_int_equal(ledger_do(&l, LEDGER_RUN_REMOVE, &err, "tt", "a", row.id), 1);
    run_row_done(&got);
    run_row_done(&row);
    ledger_done(&l);
}

static void what_is_not_committed_is_gone(void **state) {
    struct ledger l = {0};
    struct run_row row = new_run("a");
    struct err err = {0};
    int n = 0;

    open_ledger(*state, &l);
    assert_int_equal(ledger_begin(&l, &err), 0);
    assert_int_equal(ledger_begin(&l, &err), 0);
    assert_int_equal(ledger_run_add(&l, &row, &err), 0);
    ledger_rollback(&l);
    assert_int_equal(ledger_ask(&l, LEDGER_RUN_OPEN, &err, ""), 0);
    assert_int_equal(ledger_runs(&l, LEDGER_RUN_OPEN, count_run, &n, &err), 0);
    assert_int_equal(n, 0);
    run_row_done(&row);
    ledger_done(&l);
}

static void idempotency_keys(void **state) {
    static const unsigned char one[SHA256_LEN] = {1}, two[SHA256_LEN] = {2};
    struct ledger l = {0};
    char object[RANDID_SIZE];
    struct err err = {0};
    uint64_t now = clock_mark();

    open_ledger(*state, &l);
    assert_int_equal(ledger_key_find(&l, "a", "k", one, now, object, &err), 0);
    assert_int_equal(ledger_key_add(&l, "a", "k", one, "run_x", now, &err), 0);
    assert_int_equal(ledger_key_find(&l, "a", "k", one, now, object, &err), 1);
    assert_string_equal(object, "run_x");
    assert_int_equal(ledger_key_find(&l, "a", "k", two, now, object, &err), -EEXIST);
    assert_int_equal(ledger_key_find(&l, "b", "k", two, now, object, &err), 0);
    assert_int_equal(ledger_key_find(&l, "a", "k", two, now + KEY_AGE_NS + 1, object, &err), 0);
    assert_int_equal(ledger_key_add(&l, "a", "k", two, "run_y", now + KEY_AGE_NS + 1, &err), 0);
    ledger_done(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_have_their_form_and_differ),
        cmocka_unit_test_setup_teardown(every_version_migrates, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newer_version_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(tenants_are_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_are_found_by_what_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_are_not_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(runs_belong_to_their_tenant, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_not_committed_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(idempotency_keys, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
