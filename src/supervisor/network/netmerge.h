/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that are too many to be written one by one: those of one kind about one host become one, with a count and the time of the first
 * and of the last. Nothing is lost but detail. Bounded: past NETMERGE_MAX what comes anew is counted together, by class.
 */
#pragma once

#include "audit/audit.h"
#include "proto/gatemsg.h"

enum { NETMERGE_MAX = 64, NETMERGE_FIRST_MS = 10 * 1000, NETMERGE_MOST_MS = 60 * 60 * 1000 };

/* Each has a budget of its own: a flood of one does not push out another. */
enum net_class {
    NET_ALLOWED, /* connections and requests, their ends, and troubles */
    NET_LOOKUP,  /* names that were refused */
    NET_DENIED,  /* connections and requests that were refused */
    NET_ANSWER,  /* of a human */
    NET_SECRET,  /* a credential was used */
    NET_BLOCKED, /* a placeholder where it must not be, a credential that is not available */
    NET_CLASSES
};
/* type: AUDIT_NETWORK, AUDIT_ASK or AUDIT_SECRET. */
enum net_class net_class_of(enum audit_type type, const struct gate_msg *m);

struct netmerge_event {
    enum audit_type type;
    const char *kind;  /* static; the answer, if type is AUDIT_ASK */
    struct gate_msg m; /* method, path and address are "" if they were not all the same; bytes and times are sums */
    uint64_t count;
    uint64_t first_ns, last_ns; /* clock_mark() */
};

struct netmerge {
    struct netmerge_event *v; /* NULL until there is one */
    size_t n;
    struct netmerge_event others[NET_CLASSES];
    uint64_t due_ms;   /* when they are to be written; 0: there are none */
    uint64_t pause_ms; /* until then, the next time: longer each time */
};

void netmerge_done(struct netmerge *g);
void netmerge_add(struct netmerge *g, const struct netmerge_event *e, uint64_t now_ms); /* e->count of them */
typedef void netmerge_fn(void *arg, const struct netmerge_event *e);
/* Hands out all of them, and is empty then. */
void netmerge_take(struct netmerge *g, netmerge_fn *fn, void *arg);
