/* SPDX-License-Identifier: Apache-2.0 */
/* Inside gitblobs: where the repository of a workspace keeps its objects. */
#pragma once

#include "base/macros.h"

struct err;

struct gitblobs_store {
    int workspace; /* the caller's */
    int dir;       /* git directory of this working tree: the index */
    int objects;
    char *top; /* path of the workspace, without a slash at its end */
    bool sha256;
};
#define GITBLOBS_STORE_INIT(fd) \
    { .workspace = (fd), .dir = -1, .objects = -1 }

/* Returns 1, or 0 if there is no store in the workspace that has a loose object. */
int gitblobs_store_open(struct gitblobs_store *s, struct err *err);
void gitblobs_store_done(struct gitblobs_store *s);

/* The path of a loose object relative to the workspace, malloc'ed; returns 1, or 0 if there is no such object in it. */
int gitblobs_store_find(const struct gitblobs_store *s, const unsigned char *id, char **ret, struct err *err);
/* The errors of what is gone, another thing by now, or closed to us, who are the one that git would read it for. Any other (too
 * many open files, say) must not pass for "there is none". */
bool gitblobs_is_absent(int r);
/* 20, or 32 with SHA-256. */
size_t gitblobs_id_len(const struct gitblobs_store *s);
