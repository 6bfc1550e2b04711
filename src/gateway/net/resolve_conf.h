/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two files that say how a machine looks names up, from their texts: resolv.conf(5) and hosts(5). As libc reads them,
 * lines that make no sense are passed over; search domains do not exist here.
 */
#pragma once

#include "policy/host/host.h"

enum { RESOLVE_SERVERS_MAX = 3, RESOLVE_TRY_MAX_S = 5, RESOLVE_ATTEMPTS_MAX = 5 };

struct resolve_server {
    struct addr addr;
    uint16_t port;
};

struct resolve_conf {
    struct resolve_server servers[RESOLVE_SERVERS_MAX]; /* "nameserver 192.0.2.1", "nameserver [192.0.2.1]:5353" */
    size_t n_servers;                                   /* none in the text: 127.0.0.1, as libc does */
    unsigned timeout_s, attempts;                       /* "options timeout:2 attempts:3", within the ceilings above */
};

void resolve_conf_read(const char *text, struct resolve_conf *ret);

struct resolve_hosts_entry;

struct resolve_hosts {
    struct resolve_hosts_entry *v; /* by name, then as in the file */
    size_t len;
};

int resolve_hosts_read(const char *text, struct resolve_hosts *ret); /* -ENOMEM */
void resolve_hosts_done(struct resolve_hosts *hosts);
/* The addresses of a name, in the order of the file: how many there are, max at most. */
size_t resolve_hosts_find(const struct resolve_hosts *hosts, const struct host *name, struct addr *ret, size_t max);
