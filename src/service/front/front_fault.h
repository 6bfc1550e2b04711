/* SPDX-License-Identifier: Apache-2.0 */
/* Why a request is not taken: what becomes a problem of RFC 9457. */
#pragma once

#include "proto/api/apitable.h"

enum { FAULT_FIELD_MAX = 128, FAULT_DETAIL_MAX = 512 };

struct front_fault {
    unsigned status;
    enum api_problem code;
    unsigned retry; /* seconds, for Retry-After; 0: none */
    char field[FAULT_FIELD_MAX];
    char detail[FAULT_DETAIL_MAX];
};

/* Each returns -EINVAL, so that a failing function can say `return fault_set(...)`. What a client wrote is cut to what fits. */
int fault_set(struct front_fault *f, unsigned status, enum api_problem code, const char *fmt, ...) PRINTF_LIKE(4, 5);
int fault_field(struct front_fault *f, const char *field, const char *problem);
/* The same with what the row demands. */
int fault_check(struct front_fault *f, const char *field, const struct api_check *c);
