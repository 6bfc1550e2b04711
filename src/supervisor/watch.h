/* Watches over what the kernel does not limit for us: time, and growth of the workspace. */
#pragma once

#include <sys/types.h>

#include "jail/limits.h"

struct watch {
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; 0: none */
    uint64_t disk;        /* bytes the workspace may grow by; 0: not watched */
    uint64_t next_disk_ms;
    uint64_t free_at_start;
    uint64_t started_s; /* CLOCK_REALTIME */
    pid_t init;         /* the sandbox\'s first process, as we see it */
};

enum watch_event { WATCH_NOTHING, WATCH_TIME, WATCH_DISK };

uint64_t watch_now_ms(void);
/* init: pid of the sandbox's first process; everything inside descends from it. */
void watch_init(struct watch *w, const struct limits *l, bool workspace_writable, pid_t init);
/* For poll(): milliseconds until something has to be looked at, -1: never. */
int watch_timeout(const struct watch *w);
enum watch_event watch_check(struct watch *w);
