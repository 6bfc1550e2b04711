/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine: namespaces, mounts, seccomp, Landlock and cgroups of this Linux; nothing to install. */
#pragma once

#include "engine/engine.h"
#include "jail/apply/jail_apply.h"

enum { NATIVE_BARE_ABI = 3 }; /* Landlock: with an older one, any file could be truncated */

/* start.c: encodes what bawn-init must know into a memfd. */
int native_start_message(const struct engine_request *req, const struct cgroup *cg, int *ret_fd, struct err *err);

/* bare.c: the landlock rung. */
int native_start_bare(struct launch *l, struct sandbox *sb, struct err *err);

/* private.c: the landlock rung's stand-in for private mounts, swept by the next run if this one is killed. */
int private_dir_make(char *ret_path, size_t size, struct err *err);
void private_dir_remove(const char *path);
void private_dir_sweep(void);

/* probe.c */
size_t native_probe(struct engine_state *ret, const char **ret_names, size_t max);
