/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to the supervisor which value went where. */
#include <string.h>

#include "broker/broker.h"
#include "os/clock.h"

static void report_use(struct broker *b, struct used *u, uint32_t count, uint64_t now) {
    u->msg.count = count;
    u->more = 0;
    u->reported_ms = now;
    broker_msg_send(b, &u->msg);
}

static bool is_same(const struct broker_msg *a, const struct broker_msg *c) {
    return a->index == c->index && a->value == c->value && a->port == c->port && strcmp(a->host, c->host) == 0 &&
           strcmp(a->method, c->method) == 0;
}

/* The one of this kind, else the one that was reported longest ago. */
static struct used *find_use(struct broker *b, const struct broker_msg *m) {
    struct used *oldest = &b->used[0];

    for (size_t i = 0; i < BROKER_USED_KINDS; i++) {
        if (b->used[i].reported_ms && is_same(&b->used[i].msg, m))
            return &b->used[i];
        if (b->used[i].reported_ms < oldest->reported_ms)
            oldest = &b->used[i];
    }
    if (oldest->more)
        report_use(b, oldest, oldest->more, clock_ms());
    *oldest = (struct used){.msg = *m};
    return oldest;
}

void used_report(struct broker *b, const struct broker_msg *m) {
    struct used *u = find_use(b, m);
    uint64_t now = clock_ms();

    u->more++;
    if (!u->reported_ms || now - u->reported_ms >= USED_PAUSE_MS)
        report_use(b, u, u->more, now);
}

void used_flush(struct broker *b, bool all) {
    uint64_t now = clock_ms();

    for (size_t i = 0; i < BROKER_USED_KINDS; i++)
        if (b->used[i].more && (all || now - b->used[i].reported_ms >= USED_PAUSE_MS))
            report_use(b, &b->used[i], b->used[i].more, now);
}

int used_timeout_ms(const struct broker *b) {
    uint64_t now = clock_ms(), least = UINT64_MAX;

    for (size_t i = 0; i < BROKER_USED_KINDS; i++)
        if (b->used[i].more)
            least =
                MIN_OF(least, b->used[i].reported_ms + USED_PAUSE_MS > now ? b->used[i].reported_ms + USED_PAUSE_MS - now : 0);
    return least == UINT64_MAX ? -1 : (int)least;
}
