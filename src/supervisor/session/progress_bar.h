/* SPDX-License-Identifier: Apache-2.0 */
/* A line about long work, on a terminal, after a second; erased when it is done. */
#pragma once

#include "base/macros.h"

struct progress_bar {
    const char *what;
    uint64_t begun_ms, shown_ms; /* 0: not yet */
    bool off;                    /* stderr is no terminal */
    bool of_bytes;               /* the total is one of bytes; files are not counted */
};
#define PROGRESS_BAR_INIT(text) \
    { .what = text }

void progress_bar_report(uint64_t files, uint64_t bytes, uint64_t files_total, void *bar); /* for struct progress */
void progress_bar_done(struct progress_bar *p);
