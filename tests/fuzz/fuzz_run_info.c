/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of run.json. Must hold: what is read is the same after it was written and read again. */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "workspace/run/rundir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const char *a, const char *b) {
    return a && b ? str_eq(a, b) : a == b;
}

static bool same_info(const struct run_info *a, const struct run_info *b) {
    bool r = a->mode == b->mode && same(a->workspace, b->workspace) && a->begun_ns == b->begun_ns && a->ended_ns == b->ended_ns &&
             a->status == b->status && same(a->branch, b->branch) && same(a->base_commit, b->base_commit) &&
             a->named == b->named && a->command.len == b->command.len;

    for (size_t i = 0; r && i < a->command.len; i++)
        r = same(a->command.v[i], b->command.v[i]);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(run_info_done) struct run_info a = {0}, b = {0};
    CLEANUP(buf_done) struct buf text = BUF_INIT(RUN_INFO_MAX);
    struct err err = {0};

    if (run_info_parse((const char *)data, size, &a, &err) < 0) {
        if (err.msg[0] == 0)
            BUG("a failure without a message");
        return 0;
    }
    if (run_info_write(&a, &text, &err) < 0 || run_info_parse(text.data, text.len, &b, &err) < 0 || !same_info(&a, &b))
        BUG("not what was read");
    return 0;
}
