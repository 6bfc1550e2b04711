/* SPDX-License-Identifier: Apache-2.0 */
#include "os/clock.h"

#include <time.h>

enum { NAP_NS = 200000 };

static uint64_t now_ns(clockid_t clock) {
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t clock_mark(void) {
    return now_ns(CLOCK_REALTIME);
}

void clock_pass(uint64_t moment_ns) {
    const struct timespec nap = {.tv_nsec = NAP_NS};

    while (now_ns(CLOCK_REALTIME_COARSE) <= moment_ns)
        nanosleep(&nap, NULL);
}
