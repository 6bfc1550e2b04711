/* SPDX-License-Identifier: Apache-2.0 */
/* How long work reports where it is. Every function that takes a `const struct progress *` accepts NULL. */
#pragma once

#include <stdint.h>

struct progress {
    void (*report)(uint64_t files, uint64_t bytes, uint64_t files_total, void *arg); /* now and then; total 0: not known */
    void *arg;
};
