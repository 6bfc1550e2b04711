/* SPDX-License-Identifier: Apache-2.0 */
/* Gets an image into the store: bawn-pull does the work, and what it made is put into its place here. */
#pragma once

#include "base/progress.h"
#include "image/image_store.h"

struct err;

struct image_pull_request {
    const char *what;                /* a reference, a path of an archive or layout, "docker:NAME" or "podman:NAME" */
    const char *tag;                 /* what it is called in the store; NULL: what it is called there */
    const char *arch;                /* NULL: this machine's */
    const struct strv *host;         /* instead of all that: paths of this machine, without the slash in front; NULL: none */
    const struct progress *progress; /* in bytes */
};

struct image_pulled {
    char *name, *id;
    uint64_t bytes, layers;
};
void image_pulled_done(struct image_pulled *p);

/* The user's store. -ENOENT without a message: there is none, and `make` is not set. */
int image_store_of_user(bool make, struct image_store *ret, struct err *err);
int image_pull(const struct image_pull_request *q, struct image_pulled *ret, struct err *err);
/* Is it an archive or a layout, and not a reference? */
bool image_is_path(const char *what);
