/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver: who waits for which lookup. */
#include "gateway/net/resolve.h"

#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "gateway/net/resolve_lookup.h"

enum { TICK_MS = 100 };

static void on_deliver(uv_timer_t *timer);
static void on_tick(uv_timer_t *timer);

void resolver_deliver_soon(struct resolver *r) {
    uv_timer_start(&r->deliver, on_deliver, 0, 0);
}

/* Takes the waiter out; what it waited for stays. */
static void detach(struct resolve *q) {
    *(q->prev ? &q->prev->next : &q->lookup->waiters) = q->next;
    if (q->next)
        q->next->prev = q->prev;
    q->lookup->resolver->n_waiters--;
}

/* Before fn is called nothing of ours depends on what it does: it may start, cancel, or free the resolver. */
static void deliver_one(struct resolve_lookup *l) {
    struct resolve *q = l->waiters;
    struct addr addrs[RESOLVE_ADDRS_MAX];
    resolve_fn *fn = q->fn;
    void *arg = q->arg;
    int status = l->status;
    size_t n = l->n;

    memcpy(addrs, l->addrs, sizeof addrs);
    detach(q);
    free(q);
    if (!l->waiters)
        resolve_lookup_delivered(l);
    fn(arg, status, addrs, n);
}

static void on_deliver(uv_timer_t *timer) {
    struct resolver *r = timer->data;

    for (size_t turn = r->n_waiters; turn && r->lists[RESOLVE_READY].first; turn--)
        deliver_one(r->lists[RESOLVE_READY].first);
    if (r->lists[RESOLVE_READY].first)
        resolver_deliver_soon(r);
}

static void drop_old_channels(struct resolver *r, bool all) {
    struct resolve_old **at = &r->old, *o;

    while ((o = *at)) {
        if (!all && resolve_channel_asked(o->channel)) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        resolve_channel_free(o->channel);
        free(o);
    }
}

static void on_tick(uv_timer_t *timer) {
    struct resolver *r = timer->data;
    struct resolve_lookup *l = r->lists[RESOLVE_PENDING].first, *next;

    for (; l; l = next) {
        next = l->next;
        if (l->until_ms > uv_now(r->loop))
            continue;
        resolve_lookup_end(l, -ETIMEDOUT);
        if (l->waiters)
            resolver_deliver_soon(r);
        else
            resolve_lookup_delivered(l);
    }
    drop_old_channels(r, false);
    if (!r->lists[RESOLVE_PENDING].first && !r->old)
        uv_timer_stop(&r->tick);
}

static void start_tick(struct resolver *r) {
    if (!uv_is_active((uv_handle_t *)&r->tick))
        uv_timer_start(&r->tick, on_tick, TICK_MS, TICK_MS);
}

int resolver_new(uv_loop_t *loop, const char *resolv_conf, const char *hosts, struct resolver **ret, struct err *err) {
    struct resolver *r = calloc(1, sizeof *r);
    int e;

    if (!r)
        return err_oom(err);
    r->loop = loop;
    uv_timer_init(loop, &r->deliver);
    uv_timer_init(loop, &r->tick);
    r->deliver.data = r->tick.data = r;
    r->handles = 2;
    e = resolver_set(r, resolv_conf, hosts, err);
    if (e < 0) {
        resolver_free(r);
        return e;
    }
    *ret = r;
    return 0;
}

static void forget_known(struct resolver *r) {
    while (r->lists[RESOLVE_KNOWN].first)
        resolve_lookup_free(r->lists[RESOLVE_KNOWN].first);
}

int resolver_set(struct resolver *r, const char *resolv_conf, const char *hosts, struct err *err) {
    CLEANUP(resolve_hosts_done) struct resolve_hosts table = {0};
    CLEANUP(freep) struct resolve_old *old = malloc(sizeof *old);
    struct resolve_channel *channel;
    struct resolve_conf conf;
    int e;

    if (!old || resolve_hosts_read(hosts, &table) < 0)
        return err_oom(err);
    resolve_conf_read(resolv_conf, &conf);
    e = resolve_channel_new(r->loop, &conf, &channel, err);
    if (e < 0)
        return e;
    if (r->channel) {
        *old = (struct resolve_old){r->old, r->channel};
        r->old = TAKE_PTR(old);
        start_tick(r);
    }
    r->channel = channel;
    resolve_hosts_done(&r->hosts);
    r->hosts = TAKE(table, (struct resolve_hosts){0});
    forget_known(r);
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    struct resolver *r = handle->data;

    if (--r->handles == 0)
        free(r);
}

void resolver_free(struct resolver *r) {
    if (!r)
        return;
    for (size_t i = 0; i < RESOLVE_STATES; i++)
        while (r->lists[i].first) {
            while (r->lists[i].first->waiters) {
                struct resolve *q = r->lists[i].first->waiters;

                detach(q);
                free(q);
            }
            resolve_lookup_free(r->lists[i].first);
        }
    drop_old_channels(r, true);
    resolve_channel_free(r->channel);
    resolve_hosts_done(&r->hosts);
    uv_close((uv_handle_t *)&r->deliver, on_closed);
    uv_close((uv_handle_t *)&r->tick, on_closed);
}

/* What needs no name server. False: it has to be asked for. */
static bool answer_at_once(const struct resolver *r, const struct host *h, struct addr *ret, size_t *ret_n, int *ret_status) {
    static const struct addr loopback = {.len = 4, .b = {127, 0, 0, 1}};

    *ret_n = 0;
    *ret_status = 0;
    if (h->kind != HOST_NAME)
        ret[(*ret_n)++] = h->addr;
    else if (str_eq(h->text, "host.bawn.internal"))
        ret[(*ret_n)++] = loopback;
    else if (str_eq(h->text, "bawn.internal") || str_ends(h->text, ".bawn.internal"))
        *ret_status = -ENOENT;
    else
        *ret_n = resolve_hosts_find(&r->hosts, h, ret, RESOLVE_ADDRS_MAX);
    if (!*ret_n && !*ret_status && (str_eq(h->text, "localhost") || str_ends(h->text, ".localhost")))
        ret[(*ret_n)++] = loopback;
    return *ret_n || *ret_status;
}

bool resolve_known(struct resolver *r, const struct host *host, struct addr *ret, size_t *ret_n, int *ret_status) {
    struct resolve_lookup *l = resolve_lookup_find(r, host);

    if (!l)
        return answer_at_once(r, host, ret, ret_n, ret_status);
    if (l->state != RESOLVE_KNOWN || l->until_ms <= uv_now(r->loop))
        return false;
    resolve_lookup_move(l, RESOLVE_KNOWN); /* the one that was used longest ago makes room */
    memcpy(ret, l->addrs, l->n * sizeof *ret);
    *ret_n = l->n;
    *ret_status = l->status;
    return true;
}

static bool too_many(const struct resolver *r) {
    return r->n_waiters >= RESOLVE_WAITING_MAX || r->lists[RESOLVE_PENDING].len >= RESOLVE_WAITING_MAX ||
           resolve_channel_asked(r->channel) >= RESOLVE_KINDS * RESOLVE_WAITING_MAX;
}

/* The lookup to wait for, an earlier one if it still counts. *ret_new: its questions have to be asked. */
static struct resolve_lookup *pick_lookup(struct resolver *r, const struct host *host, bool *ret_new) {
    struct resolve_lookup *l = resolve_lookup_find(r, host);

    *ret_new = false;
    if (l && l->state == RESOLVE_KNOWN && l->until_ms <= uv_now(r->loop)) {
        resolve_lookup_free(l);
        l = NULL;
    }
    if (l) {
        if (l->state == RESOLVE_KNOWN)
            resolve_lookup_move(l, RESOLVE_READY);
        return l;
    }
    l = resolve_lookup_new(r, host);
    if (!l)
        return NULL;
    if (answer_at_once(r, host, l->addrs, &l->n, &l->status)) {
        resolve_lookup_move(l, RESOLVE_READY);
        return l;
    }
    resolve_lookup_store(l);
    *ret_new = true;
    return l;
}

struct resolve *resolve_start(struct resolver *r, const struct host *host, resolve_fn *fn, void *arg) {
    CLEANUP(freep) struct resolve *q = malloc(sizeof *q);
    struct resolve_lookup *l;
    bool is_new;

    if (!q || too_many(r))
        return NULL;
    l = pick_lookup(r, host, &is_new);
    if (!l)
        return NULL;
    *q = (struct resolve){.lookup = l, .next = l->waiters, .fn = fn, .arg = arg};
    if (q->next)
        q->next->prev = q;
    l->waiters = q;
    r->n_waiters++;
    if (is_new) {
        resolve_lookup_ask(l);
        start_tick(r);
    } else if (l->state == RESOLVE_READY) {
        resolver_deliver_soon(r);
    }
    return TAKE_PTR(q);
}

void resolve_cancel(struct resolve *q) {
    struct resolve_lookup *l;

    if (!q)
        return;
    l = q->lookup;
    detach(q);
    free(q);
    if (l->state == RESOLVE_READY && !l->waiters)
        resolve_lookup_delivered(l);
}
