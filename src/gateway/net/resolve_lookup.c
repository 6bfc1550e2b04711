/* SPDX-License-Identifier: Apache-2.0 */
/* One lookup: its two questions, its result, its place in the cache. */
#include "gateway/net/resolve_lookup.h"

#include <errno.h>
#include <sys/socket.h>

#include "gateway/net/dial.h"
#include "gateway/net/names.h"
#include "os/fd.h"

enum { OTHER_KIND_MIN = 4 }; /* places reserved for the kind of address that comes second */

static void unlink_from(struct resolve_list *list, struct resolve_lookup *l) {
    *(l->prev ? &l->prev->next : &list->first) = l->next;
    *(l->next ? &l->next->prev : &list->last) = l->prev;
    l->prev = l->next = NULL;
    list->len--;
}

static void append_to(struct resolve_list *list, struct resolve_lookup *l) {
    l->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = l;
    list->last = l;
    list->len++;
}

void resolve_lookup_move(struct resolve_lookup *l, enum resolve_state to) {
    unlink_from(&l->resolver->lists[l->state], l);
    l->state = to;
    append_to(&l->resolver->lists[to], l);
}

struct resolve_lookup *resolve_lookup_new(struct resolver *r, const struct host *host) {
    struct resolve_lookup *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->resolver = r;
    l->host = *host;
    l->until_ms = uv_now(r->loop) + RESOLVE_TIMEOUT_MS;
    append_to(&r->lists[RESOLVE_PENDING], l);
    return l;
}

static struct resolve_lookup **bucket_of(struct resolver *r, const struct host *host) {
    return &r->buckets[names_hash(host->text, host->len) % RESOLVE_BUCKETS];
}

struct resolve_lookup *resolve_lookup_find(struct resolver *r, const struct host *host) {
    for (struct resolve_lookup *l = *bucket_of(r, host); l; l = l->chain)
        if (host_eq(&l->host, host))
            return l;
    return NULL;
}

void resolve_lookup_store(struct resolve_lookup *l) {
    struct resolve_lookup **bucket = bucket_of(l->resolver, &l->host);

    l->chain = *bucket;
    *bucket = l;
    l->in_table = true;
    l->resolver->n_table++;
}

void resolve_lookup_free(struct resolve_lookup *l) {
    struct resolve_lookup **at = bucket_of(l->resolver, &l->host);

    if (l->in_table) {
        while (*at != l)
            at = &(*at)->chain;
        *at = l->chain;
        l->resolver->n_table--;
    }
    for (size_t i = 0; i < RESOLVE_KINDS; i++)
        if (l->found[i].open)
            l->found[i].open->lookup = NULL;
    unlink_from(&l->resolver->lists[l->state], l);
    free(l);
}

/* Whether the host has a way to this address. Nothing is sent: a connected UDP socket only picks its route. */
static bool has_route(const struct addr *a) {
    CLEANUP(closep) int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage to;
    socklen_t len = sockaddr_make(a, 443, &to);

    return fd >= 0 && connect(fd, (const struct sockaddr *)&to, len) == 0;
}

static void add_found(struct resolve_lookup *l, const struct resolve_found *found, size_t max) {
    for (size_t i = 0; i < found->n && i < max && l->n < RESOLVE_ADDRS_MAX; i++)
        l->addrs[l->n++] = found->addrs[i];
}

/* No such name, said by one, counts for both; that a kind of address is missing counts only if the other one was answered. */
static int worse_status(int a, int b) {
    if (a == -ENOENT || b == -ENOENT)
        return -ENOENT;
    return a == -ENODATA ? b : a;
}

static unsigned ttl_of(const struct resolve_lookup *l) {
    const struct resolve_found *a = &l->found[RESOLVE_IPV4], *b = &l->found[RESOLVE_IPV6];
    unsigned ttl = RESOLVE_TTL_MAX_S;

    if (l->n == 0)
        return l->status == -ENOENT || l->status == -ENODATA ? RESOLVE_TTL_NONE_S : 0;
    if (a->n)
        ttl = MIN_OF(ttl, a->ttl_s);
    return b->n ? MIN_OF(ttl, b->ttl_s) : ttl;
}

void resolve_lookup_end(struct resolve_lookup *l, int status_of_open) {
    struct resolve_found *a = &l->found[RESOLVE_IPV4], *b = &l->found[RESOLVE_IPV6], *first;

    for (size_t i = 0; i < RESOLVE_KINDS; i++)
        if (l->found[i].open) {
            l->found[i].open->lookup = NULL;
            l->found[i].open = NULL;
            l->found[i].status = status_of_open;
        }
    first = b->n && (!a->n || has_route(&b->addrs[0])) ? b : a;
    add_found(l, first, RESOLVE_ADDRS_MAX - MIN_OF((first == a ? b : a)->n, (size_t)OTHER_KIND_MIN));
    add_found(l, first == a ? b : a, RESOLVE_ADDRS_MAX);
    l->status = l->n ? 0 : worse_status(a->status, b->status);
    l->until_ms = uv_now(l->resolver->loop) + (uint64_t)ttl_of(l) * 1000;
    resolve_lookup_move(l, RESOLVE_READY);
}

static void on_answer(void *arg, int status, const struct addr *addrs, size_t n, unsigned ttl_s) {
    struct resolve_query *q = arg;
    struct resolve_lookup *l = q->lookup;
    struct resolve_found *f = l ? &l->found[q->kind] : NULL;

    free(q);
    if (!l)
        return;
    *f = (struct resolve_found){.status = status, .n = n, .ttl_s = ttl_s};
    if (n)
        memcpy(f->addrs, addrs, n * sizeof *addrs);
    if (!l->found[RESOLVE_IPV4].open && !l->found[RESOLVE_IPV6].open) {
        resolve_lookup_end(l, 0);
        if (l->waiters)
            resolver_deliver_soon(l->resolver);
        else
            resolve_lookup_delivered(l);
    } else if (n) {
        l->until_ms = MIN_OF(l->until_ms, uv_now(l->resolver->loop) + RESOLVE_OTHER_MS);
    }
}

void resolve_lookup_ask(struct resolve_lookup *l) {
    static const uint8_t lens[RESOLVE_KINDS] = {[RESOLVE_IPV4] = 4, [RESOLVE_IPV6] = 16};
    struct resolve_query *queries[RESOLVE_KINDS];

    for (size_t i = 0; i < RESOLVE_KINDS; i++) {
        queries[i] = malloc(sizeof *queries[i]);
        if (queries[i])
            *queries[i] = (struct resolve_query){l, (enum resolve_kind)i};
        l->found[i] = (struct resolve_found){.open = queries[i], .status = -ENOMEM};
    }
    for (size_t i = 0; i < RESOLVE_KINDS; i++)
        if (queries[i])
            resolve_channel_ask(l->resolver->channel, &l->host, lens[i], on_answer, queries[i]);
    if (l->state == RESOLVE_PENDING && !l->found[RESOLVE_IPV4].open && !l->found[RESOLVE_IPV6].open) {
        resolve_lookup_end(l, -ENOMEM);
        resolver_deliver_soon(l->resolver);
    }
}

void resolve_lookup_delivered(struct resolve_lookup *l) {
    struct resolver *r = l->resolver;

    if (!l->in_table || l->until_ms <= uv_now(r->loop)) {
        resolve_lookup_free(l);
        return;
    }
    resolve_lookup_move(l, RESOLVE_KNOWN);
    if (r->lists[RESOLVE_KNOWN].len > RESOLVE_CACHE_MAX)
        resolve_lookup_free(r->lists[RESOLVE_KNOWN].first);
}
