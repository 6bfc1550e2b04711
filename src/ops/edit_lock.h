/* SPDX-License-Identifier: Apache-2.0 */
/* The lock around a change of one of the user's files: of the folder that it is in. */
#pragma once

struct err;

/* Waits a few seconds, not for ever: a sandbox can lock a folder of its workspace, too. -EBUSY. folder, path: for messages. */
int edit_lock(int dir, const char *folder, const char *path, struct err *err);
