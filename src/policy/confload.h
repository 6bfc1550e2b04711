/* SPDX-License-Identifier: Apache-2.0 */
/* How bawn-gate and bawn-broker, which both judge, come from the memfd of a configuration to a policy. */
#pragma once

#include "policy/gateconf.h"

struct err;

/* Wherever the file's position is: two programs have the same file. */
int confload_read(int memfd, struct gate_config *ret, struct err *err);
int confload_policy(const struct gate_config *c, struct policy *ret, struct err *err);
