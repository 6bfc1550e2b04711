/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private copy of a tree: folders, files, symbolic links as they are; hard links become files of their own. Modes without
 * setuid and setgid, times of files (make must not build everything again), user.* attributes; as root the owners too.
 */
#pragma once

#include "base/progress.h"
#include "base/strv.h"
#include "workspace/copy/manifest.h"

struct copytree {
    int from, to;                    /* folders; `to` is empty, or what an earlier try left */
    const struct ignore *hidden;     /* left out; may be NULL */
    const struct progress *progress; /* may be NULL */
    struct strv *notes;              /* lines for the user; may be NULL */
    bool fresh;                      /* nothing is in `to` yet */
};
/* Adds every thing that was copied to m. An error names the file; what was copied until then stays. Progress has a total once
 * there is much to copy: a small tree is not walked twice. */
int copytree_make(const struct copytree *c, struct manifest *m, struct err *err);
/* Removes what is in the folder but not in m: an earlier try may have copied what the tree no longer has. */
int copytree_trim(int to, const struct manifest *m, struct err *err);
