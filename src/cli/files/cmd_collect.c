/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn collect`. */
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/files/collect.h"

enum { JOBS_MAX = 1000000, EXIT_LEFT_OUT = 1 };

static int take_format(const struct opt *o, const char *value, void *to, struct err *err) {
    bool *tar = to;

    *tar = o->arg && str_eq(value, "tar"); /* --json has no argument */
    return *tar || !o->arg || str_eq(value, "json") ? 0 : err_usage(err, "--format is json or tar, not '%.40s'", value);
}

#define TO(kind, member) OPT_TO_##kind(struct collect_request, member)
static const struct opt opts[] = {
    {0, 0, "job", "N", "output of this command in the background (default: the latest)", NULL,
     OPT_TO_NUMBER(struct collect_request, job, 1, JOBS_MAX)},
    {0, 'f', "file", "PATH", "also this file or folder of the sandbox; may be repeated", NULL, TO(LIST, files)},
    {0, 0, "format", "FORMAT", "json (the default) or tar", "json|tar", OPT_TO_CALL(struct collect_request, tar, take_format)},
    {0, 'o', "output", "FILE", "write to this file instead of standard output", "@file", TO(TEXT, output)},
    {0, 0, "no-diff", NULL, "without the patch and the list of changes", NULL, TO(FLAG, no_diff)},
    {0, 0, "json", NULL, "the same as --format json", NULL, OPT_TO_CALL(struct collect_request, tar, take_format)},
};

static int run_collect(struct verb_call *c, struct err *err) {
    struct collect_request q = {.fd = STDOUT_FILENO};
    CLEANUP(collected_done) struct collected done = COLLECTED_INIT;
    int r = verb_parse(c, &q, 1, err);

    q.sandbox = r > 0 ? c->argv[1] : NULL;
    if (r >= 0 && q.tar && !q.output && isatty(STDOUT_FILENO))
        r = err_usage(err, "an archive cannot go to a terminal; use -o FILE");
    r = r < 0 ? r : collect(&q, &done, err);
    strv_done(&q.files);
    for (size_t i = 0; i < done.notes.len; i++)
        log_line("left out: %s", done.notes.v[i]);
    return r < 0 ? r : done.notes.len ? EXIT_LEFT_OUT : 0;
}

const struct verb verb_collect = {
    .name = "collect",
    .summary = "gather output, changes, events and files of a sandbox",
    .synopsis = "[options] [SANDBOX]",
    .description =
        "Gathers what a sandbox left, as one JSON object or one tar archive: output and exit status of a command in the background, the patch and list "
        "of what was changed in the workspace, the events of its audit log, and, with --file, files from inside (the sandbox must run then).\n\n"
        "JSON has the members sandbox, id, workspace, job, rc (null: it still runs), stdout, stderr, diff, changed, events, files (path, mode, size, "
        "base64; 64 MiB together) and left_out. An archive has summary.json, stdout, stderr, changes.patch, changed.json, events.jsonl and files/ with "
        "paths as they are inside.\n\n"
        "    bawn collect box --file build/report.html > result.json\n"
        "    bawn collect box --format tar -o result.tar",
    VERB_OPTS(opts),
    .run = run_collect,
};
