/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, each done by the guard for its caller. */
#pragma once

#include "init/guard/guard_place.h"

/* The operations: guard_open.c, guard_ops.c, guard_move.c, guard_bind.c */
long guard_run_open(struct call *c);
long guard_run_mkdir(struct call *c);
long guard_run_mknod(struct call *c);
long guard_run_symlink(struct call *c);
long guard_run_unlink(struct call *c);
long guard_run_link(struct call *c);
long guard_run_rename(struct call *c);
long guard_run_truncate(struct call *c);
long guard_run_chmod(struct call *c);
long guard_run_fchmod(struct call *c);
long guard_run_setxattr(struct call *c);
long guard_run_fsetxattr(struct call *c);
long guard_run_removexattr(struct call *c);
long guard_run_fremovexattr(struct call *c);
long guard_run_bind(struct call *c);
long guard_bind_socket(struct call *c, int sock);                 /* the same for a duplicate of the caller's socket */
int guard_install_fd(const struct call *c, int fd, bool cloexec); /* GUARD_ANSWERED or -errno */
