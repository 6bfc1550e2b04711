/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts whose names are known, to be tried on hashed lines of known_hosts (ssh_known.h): those that known_hosts, rules, groups
 * and grants write out. Ports: 22 and those that the rule names. */
#pragma once

#include "broker/ssh/ssh_known.h"
#include "policy/gateconf.h"

enum { SSH_NAMES_RANGE_MAX = 16 }; /* of a longer range of ports only the ends are tried */

/* fn: true to stop, which is then returned. A name may come more than once. */
bool ssh_names_each(const struct gate_config *c, const struct policy *p, ssh_name_fn *fn, void *arg);
