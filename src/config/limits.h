/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers a sandbox may not exceed. 0 means no limit, except swap, where 0 means none. */
#pragma once

#include "base/macros.h"

struct limits {
    uint64_t cpus_milli; /* thousandths of a CPU */
    uint64_t memory;     /* bytes */
    uint64_t swap;       /* bytes on top of memory */
    uint64_t pids;
    uint64_t disk; /* bytes: all private areas together, and growth of the workspace */
    uint64_t timeout_ms;
};
