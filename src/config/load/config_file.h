/* SPDX-License-Identifier: Apache-2.0 */
/* The three kinds of files: configuration (user, project), profile, organisation policy. */
#pragma once

#include "config/load/layer.h"

enum { AGENTS_MAX = 64 };

/*
 * {"sandbox": {...}, "agent": {"NAME": {"sandbox": {...}}}}. The section goes to `base`, that of `agent` (may be NULL)
 * to `ret_agent`; the other agents' sections are checked all the same. `level` is "user" or "project", for the origins.
 * Both layers must be empty before; the caller releases them, also after a failure.
 */
int file_read_config(const struct jsonfile *d, const char *level, const char *home, const char *agent, struct layer *base,
                     struct layer *ret_agent, struct err *err);
/* `origin` is what --origin will say. */
int file_read_profile(const struct jsonfile *d, const char *home, const char *origin, struct layer *l, struct err *err);
/* {"floor": {...}} */
int file_read_policy(const struct jsonfile *d, struct layer *l, struct err *err);

/* The names under "agent", at most AGENTS_MAX; the doc must have passed file_read_config. */
int file_agents(const struct jsonfile *d, struct strv *ret);
