/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <git2.h>

#include "base/err.h"
#include "review/report/diff.h"

static bool too_much(const struct buf *b) {
    return diff_is_binary(b) || diff_lines(b) > DIFF_LINES_MAX;
}

static git_merge_file_input input_of(const struct buf *b, const char *name) {
    git_merge_file_input in = GIT_MERGE_FILE_INPUT_INIT;

    in.ptr = buf_str(b);
    in.size = b->len;
    in.path = name;
    in.mode = 0100644;
    return in;
}

int diff_merge(const struct buf *base, const struct buf *ours, const struct buf *theirs, struct buf *ret, struct err *err) {
    git_merge_file_input b = input_of(base, "base"), o = input_of(ours, "workspace"), t = input_of(theirs, "run");
    git_merge_file_options opts = GIT_MERGE_FILE_OPTIONS_INIT;
    git_merge_file_result result = {0};
    int r;

    if (too_much(base) || too_much(ours) || too_much(theirs))
        return 1;
    if (git_merge_file(&result, &b, &o, &t, &opts) < 0)
        return err_set(err, -EIO, "merge three versions: %s", git_error_last() ? git_error_last()->message : "no reason given");
    r = result.automergeable ? 0 : 1;
    if (r == 0)
        buf_add(ret, result.ptr, result.len);
    git_merge_file_result_free(&result);
    return buf_ok(ret) ? r : err_set(err, -EFBIG, "the merged file is larger than %zu bytes", ret->ceiling);
}
