/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves over the network. All gates of a tenant, of runs and of persistent sandboxes, add to one count (os/meter.h); bawnd reads it once a
 * second while something may run, and when a quota is asked for, and writes how far it may go. So a run is cut when the quota is used up, also if
 * several send at once or bawnd is not there.
 *
 *     $STATE/tenants/NAME/meter        the tenant's own file: its supervisors open it, and its gates have it mapped
 */
#include <unistd.h>

#include "base/err.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/meter.h"
#include "service/core/core.h"

enum { TRAFFIC_EVERY_MS = 1000 };

int traffic_open(struct core *c, struct tenant *t) {
    if (t->meter < 0)
        t->meter = meter_make(t->dir, "meter", t->uid);
    if (t->meter < 0)
        return t->meter;
    traffic_count(c, t);
    return 0;
}

int traffic_load(struct core *c, struct tenant *t, uint64_t now_ns, struct err *err) {
    int r = ledger_ask(&c->db, LEDGER_TRAFFIC_SINCE, err, "ti", t->row.name, (int64_t)(now_ns / MINUTE_NS) - HOUR_PARTS);

    while (r >= 0 && (r = ledger_next(&c->db, LEDGER_TRAFFIC_SINCE, err)) > 0)
        hour_add(&t->use, (uint64_t)ledger_int(&c->db, LEDGER_TRAFFIC_SINCE, 0) * MINUTE_NS,
                 &(struct usage_part){.sent = (uint64_t)ledger_int(&c->db, LEDGER_TRAFFIC_SINCE, 1)});
    ledger_end(&c->db, LEDGER_TRAFFIC_SINCE);
    return r;
}

/* The count is the tenant's: a number that makes no sense is no reason to end. */
static int store(struct core *c, struct tenant *t, uint64_t bytes, uint64_t now_ns, struct err *err) {
    int64_t minute = (int64_t)(now_ns / MINUTE_NS);
    int r = ledger_begin(&c->db, err);

    r = r < 0 ? r : ledger_do(&c->db, LEDGER_TRAFFIC_OLD, err, "i", minute - HOUR_PARTS);
    return r < 0 ? r : ledger_do(&c->db, LEDGER_TRAFFIC_ADD, err, "tii", t->row.name, minute, (int64_t)bytes);
}

static void take_sent(struct core *c, struct tenant *t, const struct shared_meter *m, uint64_t now_ns) {
    uint64_t bytes = MIN_OF(m->used - (m->used < m->seen ? 0 : m->seen), (uint64_t)INT64_MAX / HOUR_PARTS);
    struct err err = {0};

    if (bytes == 0)
        return;
    hour_add(&t->use, now_ns, &(struct usage_part){.sent = bytes});
    if (store(c, t, bytes, now_ns, &err) < 0)
        core_log(c, "error", "database", t->row.name, "%s", err.msg);
    meter_set_seen(t->meter, m->used);
}

void traffic_count(struct core *c, struct tenant *t) {
    uint64_t now = clock_mark(), quota = t->row.quotas[QUOTA_OUT], sent, limit;
    struct shared_meter m;

    if (t->meter < 0 || meter_read(t->meter, &m) < 0)
        return;
    take_sent(c, t, &m, now);
    sent = hour_sum(&t->use, now).sent;
    limit = quota == QUOTA_NONE ? UINT64_MAX : m.used + (quota > sent ? quota - sent : 0);
    if (limit != m.limit)
        meter_set_limit(t->meter, limit);
}

static bool is_busy(struct core *c, struct tenant *t) {
    struct err ignored = {0};

    return t->running + t->boxes > 0 && core_tenant_place(c, t, &ignored) == 0;
}

void core_traffic_times(struct core *c, uint64_t now_ms) {
    if (c->traffic_at_ms > now_ms)
        return;
    c->traffic_at_ms = now_ms + TRAFFIC_EVERY_MS;
    c->traffic_busy = false;
    for (size_t i = 0; i < c->n_tenants; i++)
        if (is_busy(c, c->tenants[i])) {
            c->traffic_busy = true;
            traffic_count(c, c->tenants[i]);
        }
}
