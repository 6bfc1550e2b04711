/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A count that several programs share: what was used, to which each of them adds, and how far it may go. It is a file. Those that count map it; a
 * program that must outlive them, and does not trust them with its life, reads and writes it by calls: a mapped file that someone cuts ends those
 * that have it mapped. spec/gate-protocol.md has its bytes.
 */
#pragma once

#include <sys/types.h>

#include "base/macros.h"

#define METER_MAGIC "bawnmet1"

struct shared_meter {
    char magic[8];
    uint64_t used;  /* only ever grows */
    uint64_t limit; /* of `used`; UINT64_MAX: none */
    uint64_t seen;  /* what the owner has taken note of */
};

/* Opened, made if it is not there or damaged, and given to its user; a descriptor, or -errno. */
int meter_make(int dir, const char *name, uid_t user);
int meter_open(const char *path);                   /* for counting: a descriptor, -EBADMSG, -errno */
int meter_read(int fd, struct shared_meter *ret);   /* -EBADMSG, -errno */
int meter_set_limit(int fd, uint64_t limit);        /* -errno */
int meter_set_seen(int fd, uint64_t seen);          /* -errno */
int meter_map(int fd, struct shared_meter **ret);   /* -EBADMSG, -errno */
bool meter_add(struct shared_meter *m, uint64_t n); /* true: it is past its limit */
bool meter_over(const struct shared_meter *m);
