/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities: five sets, all to be emptied. Raw calls, no allocation: fit for a vforked child and for bawn-init. */
#pragma once

#include "base/macros.h"

struct err;

/* All of CAP_SETUID, CAP_SETGID and CAP_CHOWN are effective: this process can become another user. */
bool caps_can_change_ids(void);

/*
 * What root of a sandbox with several ids has, over these ids: to give files away, to use and remove those of others, to become and to end others.
 * Not: SETFCAP, FSETID, MKNOD, SYS_CHROOT, SYS_ADMIN, SYS_PTRACE, DAC_READ_SEARCH, NET_*, SETPCAP...
 */
extern const uint32_t caps_of_many_ids;

/* Drops all but these from the bounding set, and lets root inside be root (SECBIT_NOROOT off), as far as these go. */
int caps_bound(uint32_t caps, struct err *err) MUST_USE;
/* These stay permitted, and become effective with the next program that root executes; all other sets are emptied. Ending others is effective at once, for
 * bawn-init does that. */
int caps_keep(uint32_t caps, struct err *err) MUST_USE;

/* Bounding set and securebits. Needs CAP_SETPCAP; a process without any capability has nothing to drop, which is no error. */
int caps_drop_bounding(struct err *err);
/* Bounding, ambient, inheritable, permitted and effective. */
int caps_drop_all(struct err *err);
/* No others than these of the first 32 (1u << CAP_...), and of these only what it has. */
int caps_reduce(uint32_t wanted, struct err *err) MUST_USE;
/* Inherited by the program that is executed next, until it drops it: to make a network in a namespace of its own. */
int caps_keep_net_admin(struct err *err) MUST_USE;
