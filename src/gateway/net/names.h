/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synthetic addresses: which name a sandbox means when it connects to an address that our DNS handed out. One table per
 * gate, so per sandbox. Bounded: when it is full, the name that was asked for longest ago and has no open connection loses
 * its address.
 *
 * Denied names get addresses, too, so that a connection to them arrives here and can be answered with the reason. They have a
 * table and numbers of their own: however many a program makes up, no allowed name loses its address, and the address of a
 * denied name is never given to an allowed one. An address only stands for a name; the connection is judged by that name.
 *
 *     IPv4  198.18.0.0/15 (benchmarking, RFC 2544: never public); 198.18.0.1 is the gate: name server and bawn.internal
 *     IPv6  fd62:6177:6e00::/64, the last 32 bits as in IPv4's host part
 *
 * Both addresses of a name have the same number. A number is not given to another name within NAMES_REST_S seconds of its
 * last use.
 *
 * A gate that follows one that died knows nothing of what that one handed out, but clients may still have it. So each gate of a sandbox
 * starts at another place in the range, NAMES_STARTS in turn, and goes on from there round the whole of it: an old address means nothing
 * then, unless the one before had handed out more than NAMES_MAX, or there were NAMES_STARTS gates since.
 */
#pragma once

#include "policy/host/host.h"

enum {
    NAMES_MAX = 8192,
    NAMES_DENIED_MAX = 1024,
    NAMES_TTL_S = 60,
    NAMES_REST_S = 600,
    NAMES_STARTS = 13,
    NAMES_FIRST = 2,        /* number of the first name; 1 is the gate */
    NAMES_DENIED = 0x1c000, /* of the first denied one: 198.19.192.0 */
    NAMES_LAST = 0x1fffe    /* 198.19.255.254 */
};

struct names;

int names_new(struct names **ret);
/* Before the first name. gate: its number among the gates of the sandbox. */
void names_start(struct names *n, uint32_t gate);
void names_free(struct names *n);

/* The number of this name, given to it now if it has none. now_s: CLOCK_MONOTONIC. -ENOSPC: all in use or resting. */
int names_number(struct names *n, const struct host *name, uint64_t now_s, uint32_t *ret);
/* The same for a name that is denied now; 1: it had none yet. One that was allowed before keeps the address that it has. */
int names_number_denied(struct names *n, const struct host *name, uint64_t now_s, uint32_t *ret);
void names_address(uint32_t number, uint8_t len, struct addr *ret); /* len: 4 or 16 */

bool names_is_synthetic(const struct addr *a);
bool names_is_gate(const struct addr *a); /* 198.18.0.1 and its IPv6 twin */
/* The name to which this address was handed out; false: to none. */
bool names_find(struct names *n, const struct addr *a, uint64_t now_s, struct host *ret);
/* An open connection keeps the name's address. */
void names_hold(struct names *n, const struct addr *a);
void names_release(struct names *n, const struct addr *a);
size_t names_len(const struct names *n); /* of those that were allowed when they were asked for */

/* For tables of hosts. Not a secret one: every table that uses it is bounded. */
uint32_t names_hash(const char *text, size_t len);
