/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking up the addresses of an allowed name, on the host, once per connection (with a small cache that respects the TTL).
 * c-ares with explicit servers; /etc/hosts is read from the text that the supervisor sent. No search domains, no files.
 *
 * host.bawn.internal is the host's own loopback: 127.0.0.1, by definition, without a lookup; so is localhost if the hosts file
 * does not have it, and no other name below bawn.internal is ever asked for. IPv6 addresses come first where there is a way
 * to them.
 */
#pragma once

#include <uv.h>

#include "policy/host/host.h"

enum {
    RESOLVE_ADDRS_MAX = 16,
    RESOLVE_CACHE_MAX = 1024,
    RESOLVE_TTL_MAX_S = 300,
    RESOLVE_TTL_NONE_S = 5, /* for what does not exist */
    RESOLVE_WAITING_MAX = 4096,
    RESOLVE_TIMEOUT_MS = 15000,
    RESOLVE_OTHER_MS = 300 /* once there are addresses of one kind, the other kind has this long */
};

struct resolver;
struct resolve;

/* n == 0: status is why: -ENOENT (no such name), -ENODATA (no address), -ETIMEDOUT, -EIO, -EBUSY (too many at once) */
typedef void resolve_fn(void *arg, int status, const struct addr *addrs, size_t n);

int resolver_new(uv_loop_t *loop, const char *resolv_conf, const char *hosts, struct resolver **ret, struct err *err);
/* New servers and hosts; lookups that are under way go on. */
int resolver_set(struct resolver *r, const char *resolv_conf, const char *hosts, struct err *err);
/* What waits is dropped: no fn is called any more, and no struct resolve is valid. Memory goes when the loop runs next. */
void resolver_free(struct resolver *r);

/* What is known without asking a name server: true, with *ret_n addresses (RESOLVE_ADDRS_MAX at most) and, if there are none, why. */
bool resolve_known(struct resolver *r, const struct host *host, struct addr *ret, size_t *ret_n, int *ret_status);
/* fn is called exactly once, never before this returns, unless resolve_cancel() comes first. NULL: no memory or too many. */
struct resolve *resolve_start(struct resolver *r, const struct host *host, resolve_fn *fn, void *arg);
void resolve_cancel(struct resolve *q);
