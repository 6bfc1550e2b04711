/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of requests. */
#include "service/front/front_fault.h"

#include <errno.h>
#include <stdarg.h>

#include "base/buf.h"
#include "base/str.h"

/* Never ends within a character: a problem is JSON. */
static void cut_text(char *to, size_t size, const char *text) {
    size_t at = 0, n;

    while (text[at] && (n = str_utf8_len(text + at)) > 0 && at + n < size)
        at += n;
    memcpy(to, text, at);
    to[at] = 0;
}

int fault_set(struct front_fault *f, unsigned status, enum api_problem code, const char *fmt, ...) {
    char detail[2 * FAULT_DETAIL_MAX];
    va_list args;

    *f = (struct front_fault){.status = status, .code = code};
    va_start(args, fmt);
    vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    cut_text(f->detail, sizeof f->detail, detail);
    return -EINVAL;
}

int fault_field(struct front_fault *f, const char *field, const char *problem) {
    char name[FAULT_FIELD_MAX];

    cut_text(name, sizeof name, field);
    fault_set(f, 400, API_PROBLEM_BAD_FIELD, "'%s' %s", name, problem);
    memcpy(f->field, name, sizeof name);
    return -EINVAL;
}

int fault_check(struct front_fault *f, const char *field, const struct api_check *c) {
    CLEANUP(buf_done) struct buf demand = BUF_INIT(FAULT_DETAIL_MAX);

    api_check_demand(c, &demand);
    return fault_field(f, field, buf_ok(&demand) ? buf_str(&demand) : "is not valid");
}
