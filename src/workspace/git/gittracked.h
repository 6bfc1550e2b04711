/* SPDX-License-Identifier: Apache-2.0 */
/* Which hidden files git tracks, and how they looked when git saw them last (os/lookalike.h says what for). */
#pragma once

#include "base/err.h"

struct lookalikes;
struct strv;

enum { GITTRACKED_MAX = 1000 }; /* each is a file in memory; those past it look deleted to git */

/* hidden: files and folders below the workspace. Without hidden files, a repository or an index that can be read, there are none. */
int gittracked_find(int workspace, const struct strv *hidden, struct lookalikes *ret, struct err *err);
