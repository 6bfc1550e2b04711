/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rundir share. */
#pragma once

#include "base/buf.h"
#include "workspace/run/rundir.h"

#define RUNDIR_JSON "run.json"
#define RUNDIR_LOCK "lock"

/* The longest command that Linux executes (6 MiB), every byte of it as \u00XX. */
enum { RUN_INFO_MAX = 40 * 1024 * 1024 };

/* rundir_info.c: run.json as in spec/run-folder.md. */
int run_info_write(const struct run_info *i, struct buf *out, struct err *err);
int run_info_parse(const char *text, size_t len, struct run_info *ret, struct err *err); /* -EBADMSG */
int run_info_copy(const struct run_info *from, struct run_info *ret, struct err *err);

/* rundir.c: the folder of all runs. -ENOENT if it is not there and not to be made; refused if it is a link or
 * another user could write in it: what is in a run's folder ends up in the workspace. */
int rundir_open_runs(const char *runs, bool make, struct err *err);
/* rundir.c: -EBUSY if it is locked; -ENOENT if the folder is not the one in `runs` any more once the lock is held. */
int rundir_take_lock(int runs, struct rundir *rd, struct err *err);
