/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that were reached or refused, or allowed and could not be reached, counted for the end of a run. Bounded: past NETCOUNT_HOSTS the rest is counted together. Those that
 * were refused first, and placeholders that were blocked first, get half of the places: names are cheap to make up. */
#pragma once

#include "base/macros.h"

struct buf;
struct gate_msg;

enum { NETCOUNT_HOSTS = 256, NETCOUNT_SECRETS = 128 };

struct netcount_host {
    char host[256];
    uint32_t port; /* 0: not known */
    uint32_t code; /* enum policy_code of the last refusal */
    uint64_t connections, requests, refused, sent, received;
    uint64_t failed;   /* allowed, and could not be reached */
    char failure[200]; /* why, the last time */
};

/* A credential that went to a host, or whose placeholder was seen on the way there. A key of ssh has no host for a commit. */
struct netcount_secret {
    char name[68], host[256];
    uint64_t used, blocked;
};

struct netcount {
    struct netcount_host *v;
    size_t n, n_refused; /* n_refused: of them by a refusal first */
    struct netcount_host others;
    struct netcount_secret *secrets;
    size_t n_secrets, n_blocked;
    uint64_t secrets_left_out; /* uses and blocks past NETCOUNT_SECRETS */
};

void netcount_done(struct netcount *c);
/* An event that has passed gatemsg_sane(). Returns how often this host and port was refused so far, if it is a refusal that is
 * counted for its host; else 0. */
uint64_t netcount_add(struct netcount *c, const struct gate_msg *m);
void netcount_used(struct netcount *c, const char *name, const char *host,
                   uint64_t n);                                 /* a credential went into n requests to host */
void netcount_not_signed(struct netcount *c, const char *host); /* the ssh-agent refused; host: "" if not known */
/* Log lines for people: nothing if nothing was refused or failed, and no credential used. */
void netcount_report(const struct netcount *c);
/* {"reached": [...], "refused": [...], "failed": [...], "secrets": [...]} */
void netcount_json(const struct netcount *c, struct buf *out);
