/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other places inside where the workspace, or a part of it, can be seen: a mount of the user's (--mount) of a folder above it, of the
 * workspace itself, of a folder in it, by whatever path, also by one that leads through another bind mount of the host.
 * What is hidden in the workspace is hidden there, too.
 */
#pragma once

#include "base/macros.h"

struct err;
struct settings;

enum { ELSEWHERE_MAX = 64, ELSEWHERE_COVERS_MAX = 1000 };

/* What is below `path` inside is what is below `rel` of the workspace ("": all of it). */
struct elsewhere {
    char *path, *rel;
};
struct elsewheres {
    struct elsewhere v[ELSEWHERE_MAX];
    size_t n;
};
void elsewheres_done(struct elsewheres *e);
void elsewheres_drop(struct elsewheres *e, size_t i);

/* workspace: canonical. Reads /proc/self/mountinfo, if the settings have mounts. */
int elsewheres_find(const struct settings *s, const char *workspace, struct elsewheres *ret, struct err *err);
/* Where a path of the workspace is seen: from e->path on, without a '/' in front; NULL: not there. */
const char *elsewhere_rest(const struct elsewhere *e, const char *path);
