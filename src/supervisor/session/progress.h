/* A line about long work, on a terminal, after a second; erased when it is done. */
#pragma once

#include "base/macros.h"

struct progress {
    const char *what;
    uint64_t begun_ms, shown_ms; /* 0: not yet */
    bool off;                    /* stderr is no terminal */
};
#define PROGRESS_INIT(text) \
    { .what = text }

void progress_show(struct progress *p, uint64_t files, uint64_t bytes, uint64_t files_total); /* total 0: not known */
void progress_sync(uint64_t files, uint64_t bytes, uint64_t files_total, void *arg);          /* for struct sync_progress */
void progress_done(struct progress *p);
