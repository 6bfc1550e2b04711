/* SPDX-License-Identifier: Apache-2.0 */
/* Watches over what the kernel does not limit for us: time, and growth of the workspace. */
#pragma once

#include <sys/types.h>

#include "config/limits.h"

enum { WATCH_PLACES = 5, WATCH_MOUNTS = 3 };

struct watch_place {
    int root;   /* borrowed */
    bool whole; /* all that is there counts, not only what came since the start */
    uint64_t free_at_start, free_at_tick;
};

struct limit_watch {
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; 0: none */
    uint64_t disk;        /* bytes that all places together may grow by; 0: not watched */
    uint64_t limit;       /* what the user said of that; 0: nothing */
    uint64_t room;        /* of disk, what was left at the last look */
    uint64_t taken;  /* from the file systems since the last look, by whatever program: what was freed meanwhile hides nothing */
    uint64_t unseen; /* in use at the last look that saw everything, and taken since */
    uint64_t next_disk_ms;
    unsigned looks;
    uint64_t started_s;  /* CLOCK_REALTIME */
    uint64_t started_ns; /* as files are stamped (os/clock.h) */
    pid_t init;          /* the sandbox's first process, as we see it */
    struct watch_place places[WATCH_PLACES];
    size_t n_places;
    bool has_home; /* a place counts as a whole */
    const char *mounts
        [WATCH_MOUNTS]; /* only what is in the place counts, and it is mounted here inside: processes may also write elsewhere */
    bool many_ids;      /* processes of other ids are closed to us: what they write and hold open is not seen */
    bool paused;        /* nothing runs that could write */
    bool measured;      /* the places that count as a whole, as they were in the beginning */
};

enum watch_event { WATCH_NOTHING, WATCH_TIME, WATCH_DISK };

/* root: the folder whose growth counts. init: pid of the sandbox's first process; everything inside descends from it. */
void watch_init(struct limit_watch *w, const struct limits *l, int root, bool workspace_writable, pid_t init);
/* What grows there counts, too (the caches), or all that is there (the home of a persistent sandbox). Borrowed; -1: nothing. */
void watch_also(struct limit_watch *w, int root, bool whole);
/* A limit of its own for one folder that was new at the start: home and /tmp on disk. mounts: where parts of it are inside; borrowed,
 * the first is not NULL. Space that no walk finds there (mapped files that were deleted and closed, space that is reserved in folders that cannot be read) is
 * found by the limit on all. */
void watch_own(struct limit_watch *w, uint64_t limit, int root, pid_t init, const char *const mounts[static WATCH_MOUNTS]);
/* For poll(): milliseconds until something has to be looked at, -1: never. */
int watch_timeout(const struct limit_watch *w);
enum watch_event watch_check(struct limit_watch *w);
