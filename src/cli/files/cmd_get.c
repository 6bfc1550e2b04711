/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "ops/files/collect.h"
#include "ops/files/inside.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "proto/termfilter.h"
#include "workspace/copy/transfer.h"

enum { OPT_JSON = 1, PIECE = 16 * 1024 };

static const struct opt opts[] = {
    {OPT_JSON, 0, "json", NULL, "print path, mode, size and content (base64) as JSON", NULL},
};

struct get_request {
    struct inside_file *file;
    bool json;
};

static int take(void *arg, int id, const char *value UNUSED, struct err *err UNUSED) {
    struct get_request *q = arg;

    q->json |= id == OPT_JSON;
    return 0;
}

/* A file of an agent's must not give orders to the user's terminal. */
static int show(int fd, uint64_t size) {
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

static int print_json(const struct get_request *q, int fd, const struct stat *st, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(COLLECT_JSON_MAX);
    int r = collect_json_file(&b, q->file->path, fd, st, err);

    if (r < 0)
        return r;
    buf_addc(&b, '\n');
    r = buf_ok(&b) ? fd_write_all(STDOUT_FILENO, buf_str(&b), b.len) : -ENOMEM;
    return r < 0 ? err_sys(err, r, "write the result") : 0;
}

static int get(const struct get_request *q, struct err *err) {
    CLEANUP(closep) int fd = -1;
    uint64_t bytes = 0;
    struct stat st;
    int r = inside_audit(&q->file->pick, "get", q->file->path, NULL, err);

    r = r < 0 ? r : inside_open(&q->file->pick, q->file->path, EXEC_OPEN_READ, &fd, err);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, -EISDIR, "'%.300s' is no file; 'bawn cp' copies folders", q->file->path);
    if (q->json)
        return print_json(q, fd, &st, err);
    r = isatty(STDOUT_FILENO) ? show(fd, (uint64_t)st.st_size) : transfer_pour(fd, STDOUT_FILENO, (uint64_t)st.st_size, &bytes);
    return r < 0 ? err_sys(err, r, "copy '%.300s' to standard output", q->file->path) : 0;
}

static int run_get(const struct verb *self, int argc, char **argv) {
    CLEANUP(inside_file_done) struct inside_file file = INSIDE_FILE_INIT;
    struct get_request q = {.file = &file};
    struct err err = {0};
    int r = inside_read_file(self, argc, argv, take, &q, &file, &err);

    r = r < 0 ? r : get(&q, &err);
    return r < 0 ? verb_fail(self, &err) : r;
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
