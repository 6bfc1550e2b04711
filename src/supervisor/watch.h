/* Watches over what the kernel does not limit for us: time, and growth of the workspace. */
#pragma once

#include <sys/types.h>

#include "jail/limits.h"

struct watch {
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; 0: none */
    uint64_t disk;        /* bytes the workspace may grow by; 0: not watched */
    uint64_t next_disk_ms;
    uint64_t free_at_start;
    unsigned looks;
    uint64_t started_s; /* CLOCK_REALTIME */
    pid_t init;         /* the sandbox's first process, as we see it */
    int root;           /* the folder that grows; borrowed */
    int also;           /* another one: the caches; -1: none */
    bool paused;        /* nothing runs that could write */
};

enum watch_event { WATCH_NOTHING, WATCH_TIME, WATCH_DISK };

uint64_t watch_now_ms(void);
/* root: the folder whose growth counts. init: pid of the sandbox's first process; everything inside descends from it. */
void watch_init(struct watch *w, const struct limits *l, int root, bool workspace_writable, pid_t init);
void watch_also(struct watch *w, int root); /* what grows there counts, too; borrowed */
/* For poll(): milliseconds until something has to be looked at, -1: never. */
int watch_timeout(const struct watch *w);
enum watch_event watch_check(struct watch *w);
