/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The database of bawnd (SQLite, WAL): tenants, tokens, runs, sandboxes, idempotency keys. Only bawnd has it open.
 *
 * Changes of one turn of the loop are one transaction: ledger_begin() opens it if there is none, ledger_commit() ends it, and only then
 * is anything answered or started. synchronous=NORMAL: a commit survives the death of bawnd by any signal, which is what is promised of a
 * run that was accepted; "sync": "full" in the configuration makes it survive a power cut, for an fsync each turn.
 *
 * Migrations go forward only, by user_version: ledger_sql.c has them, and tests/unit/service/test_ledger.c goes from each to the newest.
 */
#pragma once

#include <sqlite3.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "base/strv.h"
#include "os/randid.h"

struct err;

enum { TENANT_NAME_MAX = 32, TOKEN_NAME_MAX = 64, RUN_REASON_MAX = 500, IDEMPOTENCY_KEY_MAX = 128 };

enum ledger_statement {
    LEDGER_BEGIN,
    LEDGER_COMMIT,
    LEDGER_ROLLBACK,
    LEDGER_TENANT_ADD,
    LEDGER_TENANT_ALL,
    LEDGER_TENANT_QUOTAS,
    LEDGER_TENANT_REMOVE,
    LEDGER_TOKEN_ADD,
    LEDGER_TOKEN_FIND,
    LEDGER_TOKEN_USED,
    LEDGER_TOKEN_LIST,
    LEDGER_TOKEN_REMOVE,
    LEDGER_TOKEN_REMOVE_ALL,
    LEDGER_RUN_ADD,
    LEDGER_RUN_STATE,
    LEDGER_RUN_END,
    LEDGER_RUN_GET,
    LEDGER_RUN_LIST,
    LEDGER_RUN_OPEN,
    LEDGER_RUN_REMOVE,
    LEDGER_RUN_OLD,
    LEDGER_RUN_COUNT,
    LEDGER_TRAFFIC_ADD,
    LEDGER_TRAFFIC_SINCE,
    LEDGER_TRAFFIC_OLD,
    LEDGER_OUTBOX_SET,
    LEDGER_OUTBOX_GET,
    LEDGER_KEY_ADD,
    LEDGER_KEY_GET,
    LEDGER_KEY_OLD,
    LEDGER_BOX_ADD,
    LEDGER_BOX_GET,
    LEDGER_BOX_LIST,
    LEDGER_BOX_STATE,
    LEDGER_BOX_REMOVE,
    LEDGER_BOX_COUNT,
    LEDGER_BOX_LIVE,
    LEDGER_BOX_RUNNING,
    LEDGER_BOX_STATES,
    LEDGER_STATEMENTS
};
extern const char *const ledger_statements[LEDGER_STATEMENTS];
extern const char *const ledger_migrations[];
extern const int ledger_version; /* how many migrations there are */

struct ledger {
    sqlite3 *db;
    sqlite3_stmt *prepared[LEDGER_STATEMENTS];
    bool open; /* a transaction is */
};

/* Makes the file if there is none; a newer version than ours is refused. */
int ledger_open(const char *path, bool full_sync, struct ledger *ret, struct err *err);
void ledger_done(struct ledger *l);
/* For ledger_open() and tests: from the file's version up to `to`. */
int ledger_migrate(sqlite3 *db, int to, struct err *err);

int ledger_begin(struct ledger *l, struct err *err);
int ledger_commit(struct ledger *l, struct err *err);
void ledger_rollback(struct ledger *l);

/*
 * Binds arguments and performs it: 't' text (NULL: null), 'i' int64_t, 'b' bytes and size_t. Returns how many rows were changed, or
 * -errno: -EEXIST for a row that is there already.
 */
int ledger_do(struct ledger *l, enum ledger_statement which, struct err *err, const char *types, ...);
/* The same for a question: then ledger_next() until it is 0, and ledger_end() in any case. */
int ledger_ask(struct ledger *l, enum ledger_statement which, struct err *err, const char *types, ...);
int ledger_next(struct ledger *l, enum ledger_statement which, struct err *err); /* 1: a row, 0: no more, -errno */
void ledger_end(struct ledger *l, enum ledger_statement which);
int64_t ledger_int(const struct ledger *l, enum ledger_statement which, int column);
const char *ledger_text(const struct ledger *l, enum ledger_statement which, int column); /* NULL: null */
/* Cut to size. */
void ledger_chars(const struct ledger *l, enum ledger_statement which, int column, char *ret, size_t size);
void ledger_bytes(const struct ledger *l, enum ledger_statement which, int column, struct buf *ret);

/* -- tenants and tokens (ledger_tenant.c) ---------------------------------------------------------------------------------- */

enum quota {
    QUOTA_RUNNING,
    QUOTA_QUEUED,
    QUOTA_RUNS,   /* per hour */
    QUOTA_CPU,    /* seconds per hour */
    QUOTA_MEMORY, /* bytes of all at once */
    QUOTA_DISK,
    QUOTA_OUT, /* bytes per hour */
    QUOTAS
};
extern const char *const quota_names[QUOTAS]; /* as in spec/openapi.yaml */
#define QUOTA_NONE UINT64_MAX

struct tenant_row {
    char name[TENANT_NAME_MAX + 1];
    uint64_t number; /* from 1, never used again */
    uint64_t created_ns;
    struct strv paths;
    uint64_t quotas[QUOTAS]; /* QUOTA_NONE: no limit */
};
void tenant_row_done(struct tenant_row *t);

int ledger_tenant_add(struct ledger *l, struct tenant_row *t, struct err *err); /* sets number; -EEXIST */
int ledger_tenant_quotas(struct ledger *l, const struct tenant_row *t, struct err *err);
int ledger_tenant_remove(struct ledger *l, const char *name, struct err *err); /* with its tokens and keys */
/* Each of them, by number. found() may keep what is in it: it sets *t to zero then. */
int ledger_tenants(struct ledger *l, int (*found)(struct tenant_row *t, void *arg), void *arg, struct err *err);

struct token_row {
    char id[RANDID_SIZE], tenant[TENANT_NAME_MAX + 1], name[TOKEN_NAME_MAX + 1];
    bool admin;
    uint64_t created_ns, expires_ns, used_ns; /* 0: never */
};
/* Fills in id and created; `token` is what the client gets. */
int ledger_token_add(struct ledger *l, struct token_row *t, char token[static TOKEN_SIZE], struct err *err);
/* 1: it is a valid one; 0: it is not; -errno. Its last use is recorded, to the minute. */
int ledger_token_find(struct ledger *l, const char *token, size_t len, uint64_t now_ns, struct token_row *ret, struct err *err);

int ledger_tokens(struct ledger *l, const char *tenant, int (*found)(const struct token_row *t, void *arg), void *arg,
                  struct err *err);

/* -- runs (ledger_run.c) --------------------------------------------------------------------------------------------------- */

enum run_state { RUN_QUEUED, RUN_STARTING, RUN_RUNNING, RUN_DONE, RUN_FAILED, RUN_CANCELLED, RUN_STATES };
extern const char *const run_state_names[RUN_STATES];

struct run_row {
    uint64_t seq;
    char id[RANDID_SIZE], tenant[TENANT_NAME_MAX + 1], reason[RUN_REASON_MAX + 1];
    enum run_state state;
    bool held; /* queued, and waits for its files */
    uint64_t created_ns, started_ns, ended_ns;
    int status;                                        /* -1: none */
    uint64_t stdout_bytes, stderr_bytes, cpu_us, sent; /* sent: over the network; not read back */
    struct buf request;                                /* the fields, as they came */
};
enum { RUN_REQUEST_MAX = 32 * 1024 * 1024 };
#define RUN_ROW_INIT                                               \
    {                                                              \
        .status = -1, .request = {.ceiling = RUN_REQUEST_MAX + 1 } \
    }
void run_row_done(struct run_row *r);

int ledger_run_add(struct ledger *l, struct run_row *r, struct err *err); /* sets seq */
int ledger_run_state(struct ledger *l, const struct run_row *r, struct err *err);
int ledger_run_end(struct ledger *l, const struct run_row *r, struct err *err);
/* 1: found, 0: this tenant has none of this id. */
int ledger_run_get(struct ledger *l, const char *tenant, const char *id, struct run_row *ret, struct err *err);
/* After ledger_ask() of a statement that gives runs: each of them, until found() is not 0. It may keep the request: it sets it to zero then. */
typedef int run_found(struct run_row *r, void *arg);
int ledger_runs(struct ledger *l, enum ledger_statement which, run_found *found, void *arg, struct err *err);

/* Idempotency keys hold for a day. 1: ret_object (RANDID_SIZE) is what the same request made; 0: not used; -EEXIST: another request's. */
#define KEY_AGE_NS (86400 * UINT64_C(1000000000))
int ledger_key_find(struct ledger *l, const char *tenant, const char *key, const unsigned char *hash, uint64_t now_ns,
                    char *ret_object, struct err *err);
int ledger_key_add(struct ledger *l, const char *tenant, const char *key, const unsigned char *hash, const char *object,
                   uint64_t now_ns, struct err *err);
