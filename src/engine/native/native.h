/* SPDX-License-Identifier: Apache-2.0 */
/* The native engine: namespaces, mounts, seccomp, Landlock and cgroups of this Linux; nothing to install. */
#pragma once

#include "engine/engine.h"
#include "engine/private_dir.h"
#include "jail/apply/jail_apply.h"

enum { NATIVE_BARE_ABI = 3 }; /* Landlock: with an older one, any file could be truncated */

/* probe.c: whether the guard can be asked by system calls (seccomp notification), and read what they are about; 0 or -errno. */
int native_can_guard(void);

/* bare.c: the landlock rung. And, where the guard makes the sockets, the way from it to the gate: one end waits in the control socket for bawn-init. */
int native_way_to_gate(const struct plan *plan, struct sandbox *sb, struct err *err);
int native_start_bare(struct launch *l, struct sandbox *sb, struct err *err);

/* probe.c */
size_t native_probe(struct engine_state *ret, const char **ret_names, size_t max);
