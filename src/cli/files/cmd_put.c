/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn put`. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "cli/files/files_print.h"
#include "cli/verb.h"
#include "supervisor/session/progress_bar.h"

enum { MODE_DEFAULT = 0666 };

struct put_request {
    struct files_put put;
    bool json;
};

/* A mode that is given is not reduced by the umask. */
static int take_mode(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    struct files_put *put = to;
    char *end = NULL;

    errno = 0;
    put->mode = (mode_t)strtoul(value, &end, 8);
    put->umask_ = 0;
    return errno || end == value || *end || value[0] == '-' || put->mode > 0777
               ? err_usage(err, "--mode '%.40s' is not an octal number up to 777", value)
               : 0;
}

static const struct opt opts[] = {
    {0, 'm', "mode", "MODE", "permissions of the file, octal (default: 666 less the umask)", NULL,
     OPT_TO_CALL(struct put_request, put, take_mode)},
    {0, 0, "json", NULL, "print what was copied as JSON", NULL, OPT_TO_FLAG(struct put_request, json)},
};

static int run_put(const struct verb *self, int argc, char **argv) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    CLEANUP(transfer_done) struct transfer t = {0};
    struct put_request q = {.put = {.from = STDIN_FILENO, .mode = MODE_DEFAULT, .umask_ = inside_umask(), .progress = &progress}};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, argc, &err);

    if (r >= 0 && r != 2)
        r = err_usage(&err, "usage: bawn put SANDBOX PATH");
    if (r >= 0) {
        q.put.sandbox = argv[1];
        q.put.path = argv[2];
        r = files_put(&q.put, &t, &err);
    }
    progress_bar_done(&bar);
    r = r < 0 ? r : files_print(&t, q.json, &err);
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
