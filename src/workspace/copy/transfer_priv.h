/* SPDX-License-Identifier: Apache-2.0 */
/* Inside transfer: one thing each, -errno without a message. */
#pragma once

#include "workspace/copy/transfer.h"
#include "workspace/copy/walk.h"

int transfer_note(struct transfer *t, const char *path, const char *why, struct err *err);
int transfer_make_file(struct transfer *t, int from, int dir, const char *name, mode_t mode);
int transfer_make_link(struct transfer *t, const char *target, int dir, const char *name);
/* Returns a descriptor; a new one has mode 0700 until transfer_set_mode(). -EEXIST: something else stands there. */
int transfer_make_folder(struct transfer *t, int dir, const char *name, bool *ret_new);
int transfer_set_mode(struct transfer *t, int folder, mode_t mode);
