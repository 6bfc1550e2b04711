/* SPDX-License-Identifier: Apache-2.0 */
/* Runs in the database. */
#include <errno.h>

#include "base/err.h"
#include "os/clock.h"
#include "service/core/ledger.h"

const char *const run_state_names[RUN_STATES] = {"queued", "starting", "running", "done", "failed", "cancelled"};

void run_row_done(struct run_row *r) {
    buf_done(&r->request);
}

int ledger_run_add(struct ledger *l, struct run_row *row, struct err *err) {
    int r = ledger_do(l, LEDGER_RUN_ADD, err, "ttiiib", row->id, row->tenant, (int64_t)row->state, (int64_t)row->held,
                      (int64_t)row->created_ns, buf_str(&row->request), row->request.len);

    if (r >= 0)
        row->seq = (uint64_t)sqlite3_last_insert_rowid(l->db);
    return r < 0 ? r : 0;
}

int ledger_run_state(struct ledger *l, const struct run_row *row, struct err *err) {
    int r = ledger_do(l, LEDGER_RUN_STATE, err, "iiii", (int64_t)row->seq, (int64_t)row->state, (int64_t)row->started_ns,
                      (int64_t)row->held);

    return r < 0 ? r : 0;
}

int ledger_run_end(struct ledger *l, const struct run_row *row, struct err *err) {
    int r = ledger_do(l, LEDGER_RUN_END, err, "iiiiitiiii", (int64_t)row->seq, (int64_t)row->state, (int64_t)row->started_ns,
                      (int64_t)row->ended_ns, (int64_t)row->status, row->reason[0] ? row->reason : NULL,
                      (int64_t)row->stdout_bytes, (int64_t)row->stderr_bytes, (int64_t)row->cpu_us, (int64_t)row->sent);

    return r < 0 ? r : 0;
}

static int read_run(struct ledger *l, enum ledger_statement s, struct run_row *ret, struct err *err) {
    int64_t state = ledger_int(l, s, 3);

    if (state < 0 || state >= RUN_STATES)
        return err_set(err, -EIO, "database: a run has state %d", (int)state);
    ret->seq = (uint64_t)ledger_int(l, s, 0);
    ledger_chars(l, s, 1, ret->id, sizeof ret->id);
    ledger_chars(l, s, 2, ret->tenant, sizeof ret->tenant);
    ret->state = (enum run_state)state;
    ret->held = ledger_int(l, s, 4) != 0;
    ret->created_ns = (uint64_t)ledger_int(l, s, 5);
    ret->started_ns = (uint64_t)ledger_int(l, s, 6);
    ret->ended_ns = (uint64_t)ledger_int(l, s, 7);
    ret->status = (int)ledger_int(l, s, 8);
    ledger_chars(l, s, 9, ret->reason, sizeof ret->reason);
    ret->stdout_bytes = (uint64_t)ledger_int(l, s, 10);
    ret->stderr_bytes = (uint64_t)ledger_int(l, s, 11);
    ret->cpu_us = (uint64_t)ledger_int(l, s, 12);
    ledger_bytes(l, s, 13, &ret->request);
    return buf_ok(&ret->request) ? 0 : err_oom(err);
}

int ledger_run_get(struct ledger *l, const char *tenant, const char *id, struct run_row *ret, struct err *err) {
    int r = ledger_ask(l, LEDGER_RUN_GET, err, "tt", tenant, id), found;

    r = found = r < 0 ? r : ledger_next(l, LEDGER_RUN_GET, err);
    if (r > 0)
        r = read_run(l, LEDGER_RUN_GET, ret, err);
    ledger_end(l, LEDGER_RUN_GET);
    return r < 0 ? r : found;
}

int ledger_runs(struct ledger *l, enum ledger_statement s, run_found *found, void *arg, struct err *err) {
    int r = 0, more = 1;

    while (r == 0 && more > 0 && (more = ledger_next(l, s, err)) > 0) {
        CLEANUP(run_row_done) struct run_row row = RUN_ROW_INIT;

        r = read_run(l, s, &row, err);
        r = r < 0 ? r : found(&row, arg);
    }
    ledger_end(l, s);
    return more < 0 ? more : MIN_OF(r, 0);
}

/* -- idempotency keys ------------------------------------------------------------------------------------------------------- */

int ledger_key_find(struct ledger *l, const char *tenant, const char *key, const unsigned char *hash, uint64_t now_ns,
                    char *ret_object, struct err *err) {
    CLEANUP(buf_done) struct buf stored = BUF_INIT(2 * SHA256_LEN);
    int64_t since = now_ns > KEY_AGE_NS ? (int64_t)(now_ns - KEY_AGE_NS) : 0;
    int r = ledger_ask(l, LEDGER_KEY_GET, err, "tti", tenant, key, since);

    r = r < 0 ? r : ledger_next(l, LEDGER_KEY_GET, err);
    if (r > 0) {
        ledger_bytes(l, LEDGER_KEY_GET, 0, &stored);
        ledger_chars(l, LEDGER_KEY_GET, 1, ret_object, RANDID_SIZE);
        if (stored.len != SHA256_LEN || !token_same((const unsigned char *)stored.data, hash))
            r = err_set(err, -EEXIST, "this idempotency key was used for another request");
    }
    ledger_end(l, LEDGER_KEY_GET);
    return r;
}

int ledger_key_add(struct ledger *l, const char *tenant, const char *key, const unsigned char *hash, const char *object,
                   uint64_t now_ns, struct err *err) {
    int64_t old = now_ns > KEY_AGE_NS ? (int64_t)(now_ns - KEY_AGE_NS) : 0;
    int r = ledger_do(l, LEDGER_KEY_OLD, err, "i", old);

    r = r < 0 ? r : ledger_do(l, LEDGER_KEY_ADD, err, "ttbti", tenant, key, hash, (size_t)SHA256_LEN, object, (int64_t)now_ns);
    return r < 0 ? r : 0;
}
