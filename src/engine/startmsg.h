/* SPDX-License-Identifier: Apache-2.0 */
/* What bawn-init must know, as every engine hands it over. */
#pragma once

#include "engine/engine.h"

/* Encodes it into a memfd. cg: what the control groups enforce; the rest gets the nearest there is. */
int startmsg_make(const struct engine_request *req, const struct cgroup *cg, int *ret_fd, struct err *err);
