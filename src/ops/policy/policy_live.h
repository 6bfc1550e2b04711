/* SPDX-License-Identifier: Apache-2.0 */
/* Running sandboxes, as `bawn policy` speaks with them: through the control sockets of their supervisors (control_client.h). */
#pragma once

#include <jansson.h>

#include "base/strv.h"

struct buf;
struct err;
struct rule;

/* A rule for one running sandbox, which ends with it. which: the pid of its supervisor, as `bawn policy pending` shows it, or the name of a
 * kept one. */
int policy_live_add(const char *which, const struct rule *rule, char **ret_id, struct err *err);
/* The rules in force there, layer by layer as the files have them. */
int policy_live_rules(const char *which, bool as_json, struct buf *out, struct err *err);

/* The pid in a socket's path. */
void policy_live_pid(const char *socket, char ret[static 24]);
