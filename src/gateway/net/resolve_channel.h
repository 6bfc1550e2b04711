/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to name servers: c-ares on the loop. All settings are given to it, so that it reads no file. It would still like
 * /dev/urandom; without it (the gate is locked in by then) c-ares 1.18 takes the numbers of its questions from rand() without
 * a seed, and those are half of what keeps others from answering in the server's place. So the numbers are ours, from the
 * kernel.
 */
#pragma once

#include <uv.h>

#include "gateway/net/resolve_conf.h"

struct err;
struct resolve_channel;

enum { RESOLVE_REPLY_MAX = 16 };

/* ttl_s: the smallest one; status: 0, -ENOENT, -ENODATA, -ETIMEDOUT, -ECANCELED (the channel is freed), -ENOMEM, -EIO */
typedef void resolve_reply_fn(void *arg, int status, const struct addr *addrs, size_t n, unsigned ttl_s);

int resolve_channel_new(uv_loop_t *loop, const struct resolve_conf *conf, struct resolve_channel **ret, struct err *err);
/* fn is called exactly once, maybe before this returns. len: 4 or 16, which kind of address. */
void resolve_channel_ask(struct resolve_channel *c, const struct host *name, uint8_t len, resolve_reply_fn *fn, void *arg);
size_t resolve_channel_asked(const struct resolve_channel *c); /* questions that are open */
/* What is open is answered with -ECANCELED before this returns. Not from inside a reply. Memory goes with the loop's next run. */
void resolve_channel_free(struct resolve_channel *c);
