/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a copy. */
#include "cli/files/files_print.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/changes/run_print.h"

enum { REPORT_MAX = 16 * 1024 * 1024, EXIT_LEFT_OUT = 1 };

static int print_counts_json(const struct transfer *t, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(REPORT_MAX);
    struct jsonout j = {.to = &b};

    jsonout_open(&j, NULL, '{');
    jsonout_u64(&j, "files", t->files);
    jsonout_u64(&j, "folders", t->folders);
    jsonout_u64(&j, "links", t->links);
    jsonout_u64(&j, "bytes", t->bytes);
    jsonout_u64(&j, "left_out", t->left_out);
    jsonout_list(&j, "notes", &t->notes);
    buf_adds(&b, "}\n");
    return run_print_out(&b, err);
}

int files_print(const struct transfer *t, bool json, struct err *err) {
    int r;

    for (size_t i = 0; i < t->notes.len; i++)
        log_line("left out: %s", t->notes.v[i]);
    if (t->left_out > t->notes.len)
        log_line("left out: %" PRIu64 " more", t->left_out - t->notes.len);
    r = json ? print_counts_json(t, err) : 0;
    return r < 0 ? r : t->left_out ? EXIT_LEFT_OUT : 0;
}
