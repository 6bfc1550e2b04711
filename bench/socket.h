/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a kept sandbox by its exec socket (spec/exec-socket.md), as an SDK would start it: one connection for each. */
#pragma once

struct err;

/* stderr_fd goes in as standard error, the other streams are /dev/null. *ret_status: as a shell has it. */
int socket_exec(const char *path, char **argv, int stderr_fd, int *ret_status, struct err *err);
