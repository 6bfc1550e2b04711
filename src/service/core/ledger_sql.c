/* SPDX-License-Identifier: Apache-2.0 */
/* All SQL of bawnd. A migration is never changed once it was released; a new one comes behind it. */
#include "service/core/ledger.h"

/* What is asked for as "the tenant's" has the tenant in its WHERE: there is no statement that finds a run by its id alone. */
const char *const ledger_migrations[] = {
    "CREATE TABLE tenants (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, created INTEGER NOT NULL, paths BLOB NOT NULL,"
    " running INTEGER, queued INTEGER, runs INTEGER, cpu INTEGER, memory INTEGER, disk INTEGER, out INTEGER) STRICT;"
    "CREATE TABLE tokens (id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE, name TEXT,"
    " admin INTEGER NOT NULL, hash BLOB NOT NULL UNIQUE, created INTEGER NOT NULL, expires INTEGER NOT NULL, used INTEGER NOT NULL) STRICT,"
    " WITHOUT ROWID;"
    "CREATE INDEX tokens_tenant ON tokens (tenant);"
    "CREATE TABLE runs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, state INTEGER NOT NULL,"
    " held INTEGER NOT NULL, created INTEGER NOT NULL, started INTEGER NOT NULL, ended INTEGER NOT NULL, status INTEGER NOT NULL, reason TEXT,"
    " stdout INTEGER NOT NULL, stderr INTEGER NOT NULL, cpu INTEGER NOT NULL, request BLOB NOT NULL) STRICT;"
    "CREATE INDEX runs_tenant ON runs (tenant, seq);"
    "CREATE INDEX runs_open ON runs (seq) WHERE state < 3;"
    "CREATE INDEX runs_ended ON runs (ended) WHERE state >= 3;"
    "CREATE TABLE keys (tenant TEXT NOT NULL, key TEXT NOT NULL, hash BLOB NOT NULL, object TEXT NOT NULL, created INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, key)) STRICT, WITHOUT ROWID;"
    "CREATE INDEX keys_created ON keys (created);",

    "CREATE TABLE boxes (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, state INTEGER NOT NULL,"
    " created INTEGER NOT NULL, reason TEXT, request BLOB NOT NULL) STRICT;"
    "CREATE INDEX boxes_tenant ON boxes (tenant, seq);",

    /* Bytes that a run has sent; and the events of the last turn of each tenant, where in its file they are (core_events.c). */
    "ALTER TABLE runs ADD COLUMN out INTEGER NOT NULL DEFAULT 0;"
    "CREATE TABLE outbox (tenant TEXT PRIMARY KEY REFERENCES tenants (name) ON DELETE CASCADE, at INTEGER NOT NULL, data BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID;",

    /* What a tenant's runs and sandboxes have sent, by minutes (core_traffic.c). */
    "CREATE TABLE traffic (tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE, minute INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " PRIMARY KEY (tenant, minute)) STRICT, WITHOUT ROWID;"
    "INSERT INTO traffic SELECT tenant, created / 60000000000, sum(out) FROM runs WHERE out > 0 AND tenant IN (SELECT name FROM tenants)"
    " GROUP BY 1, 2;",

    /* The limit on memory of a sandbox; those that were made before count nothing. */
    "ALTER TABLE boxes ADD COLUMN memory INTEGER NOT NULL DEFAULT 0;"
    "CREATE INDEX boxes_use ON boxes (tenant, state, memory);",

    /* And how many runs were made, and the CPU time of those that ended: a run that is removed was used all the same. */
    "ALTER TABLE traffic ADD COLUMN runs INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE traffic ADD COLUMN cpu INTEGER NOT NULL DEFAULT 0;"
    "INSERT INTO traffic SELECT tenant, created / 60000000000, 0, count(*), CAST(min(total(cpu), 1e14) AS INTEGER) FROM runs"
    " WHERE tenant IN (SELECT name FROM tenants) GROUP BY 1, 2"
    " ON CONFLICT (tenant, minute) DO UPDATE SET runs = excluded.runs, cpu = excluded.cpu;",
};
const int ledger_version = ARRAY_LEN(ledger_migrations);

#define RUN_COLUMNS "seq, id, tenant, state, held, created, started, ended, status, reason, stdout, stderr, cpu, request"
#define TOKEN_COLUMNS "id, tenant, name, admin, created, expires, used, hash"

const char *const ledger_statements[LEDGER_STATEMENTS] = {
    [LEDGER_BEGIN] = "BEGIN IMMEDIATE",
    [LEDGER_COMMIT] = "COMMIT",
    [LEDGER_ROLLBACK] = "ROLLBACK",
    [LEDGER_TENANT_ADD] = "INSERT INTO tenants (name, created, paths, running, queued, runs, cpu, memory, disk, out)"
                          " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [LEDGER_TENANT_ALL] =
        "SELECT number, name, created, paths, running, queued, runs, cpu, memory, disk, out FROM tenants ORDER BY number",
    [LEDGER_TENANT_QUOTAS] =
        "UPDATE tenants SET running = ?2, queued = ?3, runs = ?4, cpu = ?5, memory = ?6, disk = ?7, out = ?8 WHERE name = ?1",
    [LEDGER_TENANT_REMOVE] = "DELETE FROM tenants WHERE name = ?",
    [LEDGER_TOKEN_ADD] = "INSERT INTO tokens (" TOKEN_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
    [LEDGER_TOKEN_FIND] = "SELECT " TOKEN_COLUMNS " FROM tokens WHERE hash = ?",
    [LEDGER_TOKEN_USED] = "UPDATE tokens SET used = ?2 WHERE id = ?1",
    [LEDGER_TOKEN_LIST] = "SELECT " TOKEN_COLUMNS " FROM tokens WHERE tenant = ? ORDER BY created, id",
    [LEDGER_TOKEN_REMOVE] = "DELETE FROM tokens WHERE id = ?",
    [LEDGER_TOKEN_REMOVE_ALL] = "DELETE FROM tokens WHERE tenant = ?",
    [LEDGER_RUN_ADD] = "INSERT INTO runs (id, tenant, state, held, created, started, ended, status, stdout, stderr, cpu, request)"
                       " VALUES (?, ?, ?, ?, ?, 0, 0, -1, 0, 0, 0, ?)",
    [LEDGER_RUN_STATE] = "UPDATE runs SET state = ?2, started = ?3, held = ?4 WHERE seq = ?1",
    [LEDGER_RUN_END] =
        "UPDATE runs SET state = ?2, started = ?3, ended = ?4, status = ?5, reason = ?6, stdout = ?7, stderr = ?8, cpu = ?9,"
        " held = 0, out = ?10 WHERE seq = ?1",
    [LEDGER_RUN_GET] = "SELECT " RUN_COLUMNS " FROM runs WHERE id = ?2 AND tenant = ?1",
    [LEDGER_RUN_LIST] =
        "SELECT " RUN_COLUMNS " FROM runs WHERE tenant = ?1 AND seq < ?2 AND (?3 < 0 OR state = ?3) ORDER BY seq DESC",
    [LEDGER_RUN_OPEN] = "SELECT " RUN_COLUMNS " FROM runs WHERE state < 3 ORDER BY seq",
    [LEDGER_RUN_REMOVE] = "DELETE FROM runs WHERE tenant = ?1 AND id = ?2 AND state >= 3",
    [LEDGER_RUN_OLD] = "SELECT " RUN_COLUMNS " FROM runs WHERE state >= 3 AND ended < ?1 ORDER BY ended LIMIT ?2",
    [LEDGER_RUN_COUNT] = "SELECT count(*) FROM runs WHERE tenant = ?",
    [LEDGER_TRAFFIC_ADD] = "INSERT INTO traffic (tenant, minute, bytes, runs, cpu) VALUES (?1, ?2, ?3, ?4, ?5)"
                           " ON CONFLICT (tenant, minute) DO UPDATE SET bytes = bytes + ?3, runs = runs + ?4, cpu = cpu + ?5",
    [LEDGER_TRAFFIC_SINCE] = "SELECT minute, bytes, runs, cpu FROM traffic WHERE tenant = ?1 AND minute >= ?2",
    [LEDGER_TRAFFIC_OLD] = "DELETE FROM traffic WHERE minute < ?",
    [LEDGER_OUTBOX_SET] = "INSERT OR REPLACE INTO outbox (tenant, at, data) VALUES (?, ?, ?)",
    [LEDGER_OUTBOX_GET] = "SELECT at, data FROM outbox WHERE tenant = ?",
    [LEDGER_KEY_ADD] = "INSERT INTO keys (tenant, key, hash, object, created) VALUES (?, ?, ?, ?, ?)",
    [LEDGER_KEY_GET] = "SELECT hash, object FROM keys WHERE tenant = ?1 AND key = ?2 AND created >= ?3",
    [LEDGER_KEY_OLD] = "DELETE FROM keys WHERE created < ?",
    [LEDGER_BOX_ADD] = "INSERT INTO boxes (id, tenant, state, created, request, memory) VALUES (?, ?, ?, ?, ?, ?)",
    [LEDGER_BOX_GET] = "SELECT seq, id, tenant, state, created, reason, request FROM boxes WHERE id = ?2 AND tenant = ?1",
    [LEDGER_BOX_LIST] =
        "SELECT seq, id, tenant, state, created, reason, request FROM boxes WHERE tenant = ?1 AND seq < ?2 ORDER BY seq DESC",
    [LEDGER_BOX_STATE] = "UPDATE boxes SET state = ?3, reason = ?4 WHERE id = ?2 AND tenant = ?1",
    [LEDGER_BOX_REMOVE] = "DELETE FROM boxes WHERE id = ?2 AND tenant = ?1",
    [LEDGER_BOX_LIVE] = /* those that did not fail, and the memory of those that run */
    "SELECT count(*), CAST(total(memory) FILTER (WHERE state < 3) AS INTEGER) FROM boxes WHERE tenant = ? AND state <> 4",
    [LEDGER_BOX_RUNNING] = "SELECT id FROM boxes WHERE tenant = ? AND state < 2",
    [LEDGER_BOX_STATES] = "SELECT state, count(*) FROM boxes GROUP BY state",
    [LEDGER_BOX_COUNT] = "SELECT count(*) FROM boxes WHERE tenant = ?",
};
