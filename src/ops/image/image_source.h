/* SPDX-License-Identifier: Apache-2.0 */
/* Where an image comes from, as descriptors for bawn-pull: it opens nothing by a path of the user's. */
#pragma once

#include <sys/types.h>

#include "proto/oci.h"

struct container_cli;
struct err;
struct image_pull_request;
struct strv;

struct image_source {
    const char *from;        /* of bawn-pull's --from */
    char ref[OCI_NAME_SIZE]; /* the reference, or the name that an engine has for it; "": of a file */
    int fd, secret;
    pid_t engine;     /* `docker save`, `podman save` or tar; -1: none */
    const char *name; /* of that program */
    pid_t vault;      /* looks for the registry's login; -1: none */
    int messages;
};
#define IMAGE_SOURCE_INIT \
    { .fd = -1, .secret = -1, .engine = -1, .vault = -1, .messages = -1 }

/* docker, podman or tar, never one of the folder that we are in, where it may be the sandbox's. What it needs itself is found in the same way. *ret_cli: env
 * belongs to the caller, also after an error. -ENOENT without a message. */
int image_program_find(const char *name, struct container_cli *ret_cli, struct err *err);

int image_source_open(const struct image_pull_request *q, struct image_source *ret, struct err *err);
/* These paths of this machine, as a tar; all belong to root. */
int image_source_host(const struct strv *paths, struct image_source *ret, struct err *err);
/* The engine has ended, and how. */
int image_source_end(struct image_source *s, struct err *err);
void image_source_done(struct image_source *s);
