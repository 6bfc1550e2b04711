/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files under hidden names that the command made itself, in folders of dependencies: a certificate that comes with a package.
 * They are its own and are not covered. What counts is the file, not its name: one that the host puts in its place is another.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/strv.h"

enum { MADE_MAX = 16384, MADE_PENDING_MAX = 64 }; /* past it a file counts as the host's */

/* Inode numbers are used again; the time of birth tells one use from the next and cannot be set by anyone. */
struct made_id {
    uint64_t dev, ino, born_s;
    uint32_t born_ns;
};

struct made {
    struct made_id *v;
    size_t n;
    struct strv pending; /* being made right now */
};

void made_done(struct made *m);
int made_begin(struct made *m, const char *path);
/* fd: the file, opened for reading or writing, which proves that the command can read it anyway; -1: it was not made. */
void made_end(struct made *m, const char *path, int fd);
/* What stands at `path` below root is the command's own. */
bool made_has(const struct made *m, int root, const char *path);
