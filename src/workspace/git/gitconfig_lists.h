/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration of git as a list, for its judges. */
#pragma once

#include <limits.h>

#include "base/buf.h"

struct judged_entry {
    char *key, *value; /* value NULL: the file has no '=' */
    size_t at;         /* its place in the file */
};

struct judged_file {
    struct judged_entry *v;
    size_t n;
};

/* A remote that was renamed, while branches still have its old name. */
struct judged_rename {
    const char *from; /* NULL: none was */
    char to[NAME_MAX];
};

/* The first entry of `new` that names a remote which is not there, and was not missing before; NULL: none does, but for *ret. */
const struct judged_entry *judged_remotes(const struct judged_file *old, const struct judged_file *new,
                                          struct judged_rename *ret);
/* The text of a plain configuration, with the new name. */
int judged_write(const char *data, size_t len, const struct judged_rename *rename, struct buf *ret);
