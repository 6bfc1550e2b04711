/* SPDX-License-Identifier: Apache-2.0 */
/* The database: opening, migrations, and statements that are prepared when they are first used. */
#include "service/core/ledger.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

enum { BUSY_MS = 10 * 1000 };

static int ledger_errno(int code) {
    switch (code & 0xff) {
    case SQLITE_CONSTRAINT:
        return -EEXIST;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return -EACCES;
    default:
        return -EIO;
    }
}

static int ledger_fail(sqlite3 *db, int code, struct err *err) {
    return err_set(err, ledger_errno(code), "database: %s", db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

static int ledger_exec(sqlite3 *db, const char *sql, struct err *err) {
    int r = sqlite3_exec(db, sql, NULL, NULL, NULL);

    return r == SQLITE_OK ? 0 : ledger_fail(db, r, err);
}

static int find_version(void *arg, int n, char **values, char **names UNUSED) {
    if (n == 1 && values[0] && sscanf(values[0], "%d", (int *)arg) == 1)
        return 0;
    return 1;
}

int ledger_migrate(sqlite3 *db, int to, struct err *err) {
    int version = -1, r = sqlite3_exec(db, "PRAGMA user_version", find_version, &version, NULL);

    if (r != SQLITE_OK || version < 0)
        return ledger_fail(db, r, err);
    if (version > ledger_version)
        return err_set(err, -ENOTSUP, "database: it is of a newer bawnd (version %d, this one knows %d)", version,
                       ledger_version);
    for (; version < to; version++) {
        char mark[64];

        snprintf(mark, sizeof mark, "PRAGMA user_version = %d; COMMIT", version + 1);
        r = ledger_exec(db, "BEGIN IMMEDIATE", err);
        r = r < 0 ? r : ledger_exec(db, ledger_migrations[version], err);
        r = r < 0 ? r : ledger_exec(db, mark, err);
        if (r < 0) {
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
            return err_ctx(err, r, "migration %d", version + 1);
        }
    }
    return 0;
}

int ledger_open(const char *path, bool full_sync, struct ledger *ret, struct err *err) {
    int r = sqlite3_open_v2(path, &ret->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

    if (r != SQLITE_OK) {
        r = ledger_fail(ret->db, r, err);
        ledger_done(ret);
        return err_ctx(err, r, "'%s'", path);
    }
    sqlite3_busy_timeout(ret->db, BUSY_MS);
    /* The newest rows are the ones that are used: a larger cache would only grow with the table. */
    r = ledger_exec(ret->db,
                    "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = -256",
                    err);
    r = r < 0 ? r : ledger_exec(ret->db, full_sync ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL", err);
    r = r < 0 ? r : ledger_migrate(ret->db, ledger_version, err);
    if (r < 0)
        ledger_done(ret);
    return r < 0 ? err_ctx(err, r, "'%s'", path) : 0;
}

void ledger_done(struct ledger *l) {
    for (int i = 0; i < LEDGER_STATEMENTS; i++)
        sqlite3_finalize(l->prepared[i]);
    sqlite3_close(l->db);
    *l = (struct ledger){0};
}

/* -- statements -------------------------------------------------------------------------------------------------------------- */

static int bind_one(sqlite3_stmt *s, int at, char type, va_list *ap) {
    const void *data;
    size_t len;

    switch (type) {
    case 't':
        return sqlite3_bind_text(s, at, va_arg(*ap, const char *), -1, SQLITE_TRANSIENT);
    case 'i':
        return sqlite3_bind_int64(s, at, va_arg(*ap, int64_t));
    case 'b':
        data = va_arg(*ap, const void *);
        len = va_arg(*ap, size_t);
        return len ? sqlite3_bind_blob64(s, at, data, len, SQLITE_TRANSIENT) : sqlite3_bind_zeroblob(s, at, 0);
    default:
        BUG("a type of a statement");
    }
}

static int ledger_bind(struct ledger *l, enum ledger_statement which, const char *types, va_list *ap, struct err *err) {
    int r = l->prepared[which]
                ? SQLITE_OK
                : sqlite3_prepare_v3(l->db, ledger_statements[which], -1, SQLITE_PREPARE_PERSISTENT, &l->prepared[which], NULL);

    for (int i = 0; r == SQLITE_OK && types[i]; i++)
        r = bind_one(l->prepared[which], i + 1, types[i], ap);
    return r == SQLITE_OK ? 0 : ledger_fail(l->db, r, err);
}

int ledger_ask(struct ledger *l, enum ledger_statement which, struct err *err, const char *types, ...) {
    va_list ap;
    int r;

    va_start(ap, types);
    r = ledger_bind(l, which, types, &ap, err);
    va_end(ap);
    return r;
}

int ledger_next(struct ledger *l, enum ledger_statement which, struct err *err) {
    int r = sqlite3_step(l->prepared[which]);

    return r == SQLITE_ROW ? 1 : r == SQLITE_DONE ? 0 : ledger_fail(l->db, r, err);
}

void ledger_end(struct ledger *l, enum ledger_statement which) {
    if (!l->prepared[which])
        return;
    sqlite3_reset(l->prepared[which]);
    sqlite3_clear_bindings(l->prepared[which]); /* hashes and requests do not stay in memory */
}

int ledger_do(struct ledger *l, enum ledger_statement which, struct err *err, const char *types, ...) {
    va_list ap;
    int r;

    va_start(ap, types);
    r = ledger_bind(l, which, types, &ap, err);
    va_end(ap);
    r = r < 0 ? r : ledger_next(l, which, err);
    ledger_end(l, which);
    return r < 0 ? r : sqlite3_changes(l->db);
}

int64_t ledger_int(const struct ledger *l, enum ledger_statement which, int column) {
    return sqlite3_column_int64(l->prepared[which], column);
}

const char *ledger_text(const struct ledger *l, enum ledger_statement which, int column) {
    return (const char *)sqlite3_column_text(l->prepared[which], column);
}

void ledger_chars(const struct ledger *l, enum ledger_statement which, int column, char *ret, size_t size) {
    const char *text = ledger_text(l, which, column);

    snprintf(ret, size, "%s", text ? text : "");
}

void ledger_bytes(const struct ledger *l, enum ledger_statement which, int column, struct buf *ret) {
    const void *data = sqlite3_column_blob(l->prepared[which], column);
    int len = sqlite3_column_bytes(l->prepared[which], column);

    buf_clear(ret);
    if (len > 0)
        buf_add(ret, data, (size_t)len);
}

/* -- transactions ------------------------------------------------------------------------------------------------------------ */

int ledger_begin(struct ledger *l, struct err *err) {
    int r = l->open ? 0 : ledger_do(l, LEDGER_BEGIN, err, "");

    l->open = l->open || r >= 0;
    return r < 0 ? r : 0;
}

int ledger_commit(struct ledger *l, struct err *err) {
    int r = l->open ? ledger_do(l, LEDGER_COMMIT, err, "") : 0;

    if (r < 0)
        ledger_rollback(l);
    l->open = false;
    return r < 0 ? r : 0;
}

void ledger_rollback(struct ledger *l) {
    struct err ignored = {0};

    if (l->open && !sqlite3_get_autocommit(l->db))
        ledger_do(l, LEDGER_ROLLBACK, &ignored, "");
    l->open = false;
}
