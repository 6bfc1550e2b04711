/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn get`. */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/files/collect.h"
#include "ops/files/files.h"
#include "os/fd.h"
#include "proto/termfilter.h"

enum { PIECE = 16 * 1024 };

struct get_request {
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "print path, mode, size and content (base64) as JSON", NULL, OPT_TO_FLAG(struct get_request, json)},
};

/* A file of an agent's must not give orders to the user's terminal. */
static int show_filtered(int fd, uint64_t size) {
    struct termfilter filter;
    char in[PIECE], out[TERMFILTER_OUT_MAX(PIECE)];

    termfilter_init(&filter);
    for (uint64_t done = 0; done < size;) {
        ssize_t n = fd_read_some(fd, in, (size_t)MIN_OF(size - done, sizeof in));
        int r;

        if (n <= 0)
            return (int)n;
        r = fd_write_all(STDOUT_FILENO, out, termfilter_feed(&filter, in, (size_t)n, out));
        if (r < 0)
            return r;
        done += (uint64_t)n;
    }
    return 0;
}

static int print_file_json(const struct files_got *g, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(COLLECT_JSON_MAX);
    int r = collect_json_file(&b, g->file.path, g->fd, &g->st, err);

    buf_addc(&b, '\n');
    return r < 0 ? r : run_print_out(&b, err);
}

static int print_content(const struct files_got *g, struct err *err) {
    uint64_t bytes = 0, size = (uint64_t)g->st.st_size;
    int r = isatty(STDOUT_FILENO) ? show_filtered(g->fd, size) : transfer_pour(g->fd, STDOUT_FILENO, size, &bytes);

    return r < 0 ? err_sys(err, r, "copy '%.300s' to standard output", g->file.path) : 0;
}

static int run_get(const struct verb *self, int argc, char **argv) {
    CLEANUP(files_got_done) struct files_got got = FILES_GOT_INIT;
    struct get_request q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err);

    if (r >= 0 && r != 2)
        r = err_usage(&err, "usage: bawn get SANDBOX PATH");
    r = r < 0 ? r : files_get(argv[1], argv[2], &got, &err);
    if (r == 0)
        r = q.json ? print_file_json(&got, &err) : print_content(&got, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Writes a file of a sandbox that runs to standard output, as long as it was when it was opened. PATH is as in 'bawn cp'; no link is followed. On a "
    "terminal, sequences that would change more than what is shown are taken out.\n\n"
    "    bawn get box build/report.html > report.html";

const struct verb verb_get = {
    .name = "get",
    .summary = "write a file of a sandbox to standard output",
    .synopsis = "[options] SANDBOX PATH",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_get,
};
