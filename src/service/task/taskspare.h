/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Empty caches that go from one run of a tenant to the next. A run's caches are named after its workspace, which does not come again, so a
 * run that used none of them leaves folders that another could have had: making a dozen of them costs more than most of the start (ext4 looks
 * at every file that was deleted lately before it gives a number to a new one).
 *
 * Only folders that are as they were made are handed on: empty, with their owner and mode, without attributes. All others stay where they are,
 * until the run is removed.
 */
#pragma once

struct taskspare {
    char *volumes, *spares; /* of the workspace; of the tenant. NULL: nothing is handed on */
};

/* For the current directory, a workspace of this run's own. */
void taskspare_find(struct taskspare *ret);
void taskspare_done(struct taskspare *s);
/* Before the run, and after everything of it has ended. */
void taskspare_take(const struct taskspare *s);
void taskspare_give(const struct taskspare *s);
