/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the changes of an overlay run are based on: the journal has the old version of each, for merging and for comparing. Applied or
 * discarded, a change leaves upper/, but not the journal: it may come back. A run that goes on sees the host's version of such a path,
 * and what it changes there is based on that one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;
struct rundir;

/* These paths leave the run: those that the journal does not have yet get a record, so that change_base_renew() finds them. undo: a
 * folder that gets the records for the way back; -1: none. */
int change_base_left(const struct rundir *rd, const char *const *paths, size_t n, int undo, struct err *err);
/* Before what left comes back to upper/. What the run has made since at the same path stays, with its record. */
int change_base_return(const struct rundir *rd, int undo, struct err *err);
/* The run goes on: what is not in upper/ is from now on based on what the host has. */
int change_base_renew(const struct rundir *rd, int workspace, struct err *err);
/* A folder above it is deleted or replaced as a whole in upper/, and so is this path, whatever else is taken out. */
bool change_is_covered(int upper, const char *path);
