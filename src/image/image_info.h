/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of an image in the store: image.json, which bawn-pull makes and bawn, which believes no more than its shape, puts there. */
#pragma once

#include "base/macros.h"
#include "base/strv.h"

struct buf;
struct err;

enum { IMAGE_INFO_MAX = 8 << 20, IMAGE_PASSWD_MAX = 64 * 1024 };

struct image_info {
    char *id;           /* digest of its configuration */
    char *manifest;     /* digest; "" if it came without one */
    char *name;         /* that it has in an archive; "" if none. Not believed: the user sees it */
    struct strv layers; /* chain ids, the lowest first */
    uint64_t bytes;     /* of all layers, unpacked */
    uint64_t entries;
    struct strv env, entrypoint, cmd;
    char *workdir, *user, *arch; /* user: as the image writes it */
    uint64_t uid, gid;           /* who that is */
    char *passwd, *group;        /* the image's own files, cut off at a line; "" if it has none */
};
void image_info_done(struct image_info *i);
int image_info_read(const char *text, size_t len, struct image_info *ret, struct err *err);
int image_info_write(const struct image_info *i, struct buf *out, struct err *err);
