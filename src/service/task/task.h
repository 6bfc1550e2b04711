/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-task: one run from its start to its record, without bawnd if need be. taskmsg.h has what it is given. */
#pragma once

#include "base/macros.h"

struct err;

struct task_plan {
    const char *bawn;    /* the program */
    const char *name;    /* of the run */
    uint64_t output_max; /* of each stream */
};
/* Runs it to its end and writes the record; what cannot be written is an error. */
int task_perform(const struct task_plan *p, struct err *err);
