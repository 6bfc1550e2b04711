/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's known_hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): which host a key belongs to. The file is the user's, but it
 * has been written by a program that asks people questions, so nothing in it is taken on faith: lines that cannot be read are
 * left out.
 *
 * A hashed name (|1|salt|hash) cannot be read, only compared: the caller has to know names to try.
 */
#pragma once

#include "policy/gateconf.h"
#include "policy/host/host.h"
#include "proto/ssh_wire.h"

enum {
    SSH_KNOWN_LINES_MAX = 64,    /* lines with one and the same key */
    SSH_KNOWN_TRIES_MAX = 50000, /* comparisons with hashed names, each two rounds of SHA-1 */
    SSH_PORT = 22
};

struct ssh_known {
    struct ssh_bytes lines[SSH_KNOWN_LINES_MAX]; /* the names in front of the key: "a,b", "[c]:2222", "|1|...". Into the text */
    size_t n;
    size_t tries; /* left */
};

/* The lines that have this key. -ENOENT; -EKEYREVOKED: some line says @revoked; -E2BIG. Lines of certificate authorities are no
 * lines. */
int ssh_known_find(const char *text, struct ssh_bytes key, struct ssh_known *ret);
/* Is it the key of this host? Port 22 is "host", others are "[host]:port". *, ? and ! count. */
bool ssh_known_has(struct ssh_known *k, const char *host, uint16_t port);

/* Every name of the file that is written out, with its port. fn: true to stop, which is then returned. */
typedef bool ssh_name_fn(void *arg, const struct host *host, uint16_t port);
bool ssh_known_each(const char *text, ssh_name_fn *fn, void *arg);

enum { SSH_NAMES_RANGE_MAX = 16 }; /* of a longer range of ports only the ends are tried */

/* Names to try on hashed lines: those that known_hosts, rules, groups and grants write out, at port 22 and those that the rule
 * names. fn: true to stop, which is then returned. A name may come more than once. */
bool ssh_names_each(const struct gate_config *c, const struct policy *p, ssh_name_fn *fn, void *arg);
