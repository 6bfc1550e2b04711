/* Who was reached and who was refused, counted for the end of a run. Bounded: past NETCOUNT_HOSTS the rest is counted together. */
#pragma once

#include "base/macros.h"

struct buf;
struct gate_msg;

enum { NETCOUNT_HOSTS = 256 };

struct netcount_host {
    char host[256];
    uint32_t port; /* 0: not known */
    uint32_t code; /* enum policy_code of the last refusal */
    uint64_t connections, requests, refused, sent, received;
};

struct netcount {
    struct netcount_host *v;
    size_t n;
    struct netcount_host others;
};

void netcount_done(struct netcount *c);
void netcount_add(struct netcount *c, const struct gate_msg *m); /* an event that has passed gatemsg_sane() */
/* Log lines for people: nothing if nothing was refused. */
void netcount_report(const struct netcount *c);
/* {"reached": [...], "refused": [...]} */
void netcount_json(const struct netcount *c, struct buf *out);
