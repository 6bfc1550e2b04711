/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the parts of the resolver. A lookup is in one list at a time:
 *
 *     pending   questions are under way        ->  ready
 *     ready     its waiters have to be called  ->  known, or freed if it may not be cached
 *     known     cached until it expires        ->  ready when it is asked for again
 */
#pragma once

#include <uv.h>

#include "gateway/net/resolve.h"
#include "gateway/net/resolve_channel.h"

enum resolve_state { RESOLVE_PENDING, RESOLVE_READY, RESOLVE_KNOWN, RESOLVE_STATES };
enum resolve_kind { RESOLVE_IPV4, RESOLVE_IPV6, RESOLVE_KINDS };

struct resolve_lookup;

/* One question to the name servers. It outlives a lookup that ended without its answer. */
struct resolve_query {
    struct resolve_lookup *lookup; /* NULL: the answer is not needed any more */
    enum resolve_kind kind;
};

struct resolve_found {
    struct resolve_query *open; /* NULL: answered */
    int status;
    struct addr addrs[RESOLVE_REPLY_MAX];
    size_t n;
    unsigned ttl_s;
};

struct resolve_lookup {
    struct resolver *resolver;
    struct resolve_lookup *chain;       /* of the same bucket */
    struct resolve_lookup *prev, *next; /* of the same state, the oldest first */
    enum resolve_state state;
    bool in_table;
    struct host host;
    struct resolve *waiters; /* list */
    struct resolve_found found[RESOLVE_KINDS];
    uint64_t until_ms; /* pending: when it is given up; else: when it expires */
    int status;
    struct addr addrs[RESOLVE_ADDRS_MAX];
    size_t n;
};

struct resolve {
    struct resolve_lookup *lookup;
    struct resolve *prev, *next;
    resolve_fn *fn;
    void *arg;
};

struct resolve_list {
    struct resolve_lookup *first, *last;
    size_t len;
};

struct resolve_old {
    struct resolve_old *next;
    struct resolve_channel *channel;
};

enum { RESOLVE_BUCKETS = 1024 };

struct resolver {
    uv_loop_t *loop;
    struct resolve_channel *channel;
    struct resolve_old *old; /* channels that resolver_set() replaced and that still wait for answers */
    struct resolve_hosts hosts;
    struct resolve_lookup *buckets[RESOLVE_BUCKETS];
    struct resolve_list lists[RESOLVE_STATES];
    size_t n_waiters, n_table;
    uv_timer_t deliver; /* runs as soon as it can while waiters have to be called */
    uv_timer_t tick;    /* looks for what has to be given up */
    unsigned handles;
};

struct resolve_lookup *resolve_lookup_new(struct resolver *r, const struct host *host); /* pending, in no table */
struct resolve_lookup *resolve_lookup_find(struct resolver *r, const struct host *host);
void resolve_lookup_store(struct resolve_lookup *l); /* puts it into the table */
void resolve_lookup_free(struct resolve_lookup *l);
void resolve_lookup_move(struct resolve_lookup *l, enum resolve_state to);
/* Asks the name servers; there must be a waiter already. May be ready when this returns, if they cannot be asked. */
void resolve_lookup_ask(struct resolve_lookup *l);
/* No more answers are waited for: what was found is the result. */
void resolve_lookup_end(struct resolve_lookup *l, int status_of_open);
/* The last waiter was called. */
void resolve_lookup_delivered(struct resolve_lookup *l);
/* Waiters of a ready lookup are called at the next turn of the loop, never from inside of a caller. */
void resolver_deliver_soon(struct resolver *r);
