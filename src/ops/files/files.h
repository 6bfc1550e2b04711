/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `bawn cp`, `put` and `get` do: files between the host and a sandbox that runs. Places in a sandbox are written as
 * ops/files/inside.h says. Each is in the audit log of the sandbox before it is done.
 */
#pragma once

#include "ops/files/inside.h"
#include "workspace/copy/transfer.h"

/* One of both is "SANDBOX:PATH". A source that ends with "/." is what is in it. */
struct files_copy {
    const char *from, *to;
    mode_t umask_;
    const struct progress *progress;
};
/* ret: counts, and notes about what was left out; transfer_done(), also after a failure. */
int files_copy(const struct files_copy *q, struct transfer *ret, struct err *err);

struct files_put {
    const char *sandbox, *path;
    int from; /* read to its end */
    mode_t mode, umask_;
    const struct progress *progress;
};
int files_put(const struct files_put *q, struct transfer *ret, struct err *err);

/* A regular file, open for reading. */
struct files_got {
    struct inside_file file;
    int fd;
    struct stat st;
};
#define FILES_GOT_INIT \
    { .file = INSIDE_FILE_INIT, .fd = -1 }
int files_get(const char *sandbox, const char *path, struct files_got *ret, struct err *err);
void files_got_done(struct files_got *g);
