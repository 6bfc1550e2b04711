/* SPDX-License-Identifier: Apache-2.0 */
/* Between transfer.c and tree_receive.c: single things, put in their place. All return 0 or -errno, folders a descriptor. */
#pragma once

#include <time.h>

#include "workspace/copy/transfer.h"

struct transfer_source {
    int fd;                                              /* or, if there is */
    int (*fill)(void *arg, int to, uint64_t *ret_bytes); /* this, what it writes */
    void *arg;
    time_t changed; /* fill: when; 0: now */
};

int transfer_put_file(struct transfer *t, const struct transfer_source *from, int dir, const char *name, mode_t mode);
int transfer_put_link(struct transfer *t, const char *target, int dir, const char *name);
int transfer_put_folder(struct transfer *t, int dir, const char *name, bool *ret_new);
int transfer_set_mode(struct transfer *t, int folder, mode_t mode);
/* What happens to one name and says nothing about the next; NULL: it is no such failure. */
const char *transfer_fault(int r);
int transfer_note(struct transfer *t, const char *path, const char *why, struct err *err);
