/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "ops/files/inside.h"
#include "os/fd.h"
#include "supervisor/session/progress_bar.h"
#include "workspace/copy/transfer.h"

enum { OPT_JSON = 1, OPT_MODE, MODE_DEFAULT = 0666 };

static const struct opt opts[] = {
    {OPT_MODE, 'm', "mode", "MODE", "permissions of the file, octal (default: 666 less the umask)", NULL},
    {OPT_JSON, 0, "json", NULL, "print what was copied as JSON", NULL},
};

struct put_request {
    struct inside_file *file;
    mode_t mode, umask_;
    bool json;
};

static int take(void *arg, int id, const char *value, struct err *err) {
    struct put_request *q = arg;
    char *end = NULL;

    if (id == OPT_JSON) {
        q->json = true;
        return 0;
    }
    errno = 0;
    q->mode = (mode_t)strtoul(value, &end, 8);
    q->umask_ = 0;
    return errno || end == value || *end || value[0] == '-' || q->mode > 0777
               ? err_usage(err, "--mode '%.40s' is no octal number up to 777", value)
               : 0;
}

static int put(const struct put_request *q, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(transfer_done) struct transfer t = {.progress = &progress, .give = true, .umask_ = q->umask_};
    CLEANUP(closep) int dir = -1;
    CLEANUP(freep) char *name = NULL;
    int r = inside_audit(&q->file->pick, "put", q->file->path, NULL, err);

    r = r < 0 ? r : inside_open_target(&q->file->pick, q->file->path, NULL, &dir, &name, err);
    if (r == 0 && !name)
        r = err_set(err, -EISDIR, "'%.300s' is a folder in the sandbox: give the name of a file", q->file->path);
    r = r < 0 ? r : transfer_file(&t, STDIN_FILENO, dir, name, q->mode, q->file->path, err);
    progress_bar_done(&bar);
    return r < 0 ? r : inside_report(&t, q->json, err);
}

static int run_put(const struct verb *self, int argc, char **argv) {
    CLEANUP(inside_file_done) struct inside_file file = INSIDE_FILE_INIT;
    struct put_request q = {.file = &file, .mode = MODE_DEFAULT, .umask_ = inside_umask()};
    struct err err = {0};
    int r = inside_read_file(self, argc, argv, take, &q, &file, &err);

    r = r < 0 ? r : put(&q, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Writes what comes from standard input to a file in a sandbox that runs; the file appears when all of it is there, in place of one "
    "that stood there. PATH is as in 'bawn cp'. The folder must exist.\n\n"
    "    bawn put box config.json < local.json\n"
    "    git archive HEAD | bawn put box ~/src.tar";

const struct verb verb_put = {
    .name = "put",
    .summary = "write standard input to a file in a sandbox",
    .synopsis = "[options] SANDBOX PATH",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_put,
};
