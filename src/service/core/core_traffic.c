/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves over the network. All gates of a tenant, of runs and of persistent sandboxes, add to one count (os/meter.h); bawnd reads it once a
 * second while something may run, and when a quota is asked for, and writes how far it may go. So a run is cut when the quota is used up, also if
 * several send at once or bawnd is not there. It is stored by minutes, and with it how many runs were made and what CPU time they took.
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
                 &(struct usage_part){.sent = (uint64_t)ledger_int(&c->db, LEDGER_TRAFFIC_SINCE, 1),
                                      .runs = (uint64_t)ledger_int(&c->db, LEDGER_TRAFFIC_SINCE, 2),
                                      .cpu_us = (uint64_t)ledger_int(&c->db, LEDGER_TRAFFIC_SINCE, 3)});
    ledger_end(&c->db, LEDGER_TRAFFIC_SINCE);
    return r;
}

int usage_add(struct core *c, struct tenant *t, const struct usage_part *add, struct err *err) {
    uint64_t now_ns = clock_mark();
    int r = ledger_begin(&c->db, err);

    hour_add(&t->use, now_ns, add);
    return r < 0 ? r
                 : ledger_do(&c->db, LEDGER_TRAFFIC_ADD, err, "tiiii", t->row.name, (int64_t)(now_ns / MINUTE_NS),
                             (int64_t)add->sent, (int64_t)add->runs, (int64_t)add->cpu_us);
}

/* The counts are the tenant's: a number that makes no sense is no reason to end. */
#define COUNT_MAX ((uint64_t)INT64_MAX / HOUR_PARTS / 1024)

void usage_end(struct core *c, struct tenant *t, uint64_t cpu_us) {
    struct err err = {0};

    if (usage_add(c, t, &(struct usage_part){.cpu_us = MIN_OF(cpu_us, COUNT_MAX)}, &err) < 0)
        core_log(c, "error", "database", t->row.name, "%s", err.msg);
}

void usage_forget(struct core *c) {
    struct err err = {0};

    if (ledger_begin(&c->db, &err) < 0 ||
        ledger_do(&c->db, LEDGER_TRAFFIC_OLD, &err, "i", (int64_t)(clock_mark() / MINUTE_NS) - HOUR_PARTS) < 0)
        core_log(c, "error", "database", "", "%s", err.msg);
}

static void take_sent(struct core *c, struct tenant *t, const struct shared_meter *m) {
    uint64_t bytes = MIN_OF(m->used - (m->used < m->seen ? 0 : m->seen), COUNT_MAX);
    struct err err = {0};

    if (bytes == 0)
        return;
    if (usage_add(c, t, &(struct usage_part){.sent = bytes}, &err) < 0)
        core_log(c, "error", "database", t->row.name, "%s", err.msg);
    meter_set_seen(t->meter, m->used);
}

void traffic_count(struct core *c, struct tenant *t) {
    uint64_t now = clock_mark(), quota = t->row.quotas[QUOTA_OUT], sent, limit;
    struct shared_meter m;

    if (t->meter < 0 || meter_read(t->meter, &m) < 0)
        return;
    take_sent(c, t, &m);
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
