/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities: five sets, all to be emptied. Raw calls, no allocation: fit for a vforked child and for bawn-init. */
#pragma once

#include "base/macros.h"

struct err;

/* All of CAP_SETUID, CAP_SETGID and CAP_CHOWN are effective: this process can become another user. */
bool caps_can_change_ids(void);

/* Bounding set and securebits. Needs CAP_SETPCAP; a process without any capability has nothing to drop, which is no error. */
int caps_drop_bounding(struct err *err);
/* Bounding, ambient, inheritable, permitted and effective. */
int caps_drop_all(struct err *err);
/* No others than these of the first 32 (1u << CAP_...), and of these only what it has. */
int caps_keep_only(uint32_t wanted, struct err *err) MUST_USE;
/* Inherited by the program that is executed next, until it drops it: to make a network in a namespace of its own. */
int caps_keep_net_admin(struct err *err) MUST_USE;
