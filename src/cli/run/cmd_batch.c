/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "cli/run/run_options.h"
#include "ops/run/run_shape.h"
#include "cli/verb.h"
#include "ops/batch/batch.h"

static const char description[] =
    "Runs the tasks of FILE (-: standard input), several at once, each in a sandbox and with a workspace of its own. FILE has one JSON "
    "object a line: \"name\", \"cmd\" (a list, or a string for the shell), and if wanted \"env\", \"profile\", \"workspace\" (the mode), "
    "\"directory\", \"timeout\" and \"agent\". Empty lines and those that begin with # do not count. If one line is wrong, nothing is "
    "started.\n\n"
    "    {\"name\": \"docs\", \"cmd\": [\"npm\", \"run\", \"docs\"]}\n"
    "    {\"name\": \"fix-42\", \"agent\": \"claude\", \"cmd\": [\"-p\", \"fix issue 42\"], \"timeout\": \"30m\"}\n\n"
    "The options are those of 'bawn run' and hold for every task; what a line says wins. Where no mode is named, a task works in a worktree "
    "with a branch of its own if everything that git tracks is committed, and else in an overlay, so that tasks never meet. What a task changed "
    "is looked at with 'bawn review'.\n\n"
    "On a terminal a table shows what runs. ^C once ends the tasks and starts no more, twice kills them. The exit status is 0 if "
    "all succeeded, 1 if some failed, 130 if it was interrupted.";

static const struct opt opts[] = {
    {RUN_OPT_HELP, 'h', "help", NULL, "show this help", NULL},
    BATCH_OPTS,
    {RUN_OPT_DRY_RUN, 'n', "dry-run", NULL, "check everything and print the commands; start nothing", NULL},
    {RUN_OPT_JSON, 0, "json", NULL, "the result as JSON on stdout", NULL},
    RUN_SHAPE_OPTS,
};

/* FILE may stand before options, too. */
static int read_options(int argc, char **argv, struct batch *b, struct run_args *a, const char **ret_file, struct err *err) {
    struct opt_iter it = opt_iter_init(opts, ARRAY_LEN(opts), argc, argv);
    const char *file = NULL;
    int r;

    while ((r = opt_next(&it, err)) >= 0) {
        if (r == 0 && it.pos >= argc)
            break;
        if (r == 0 && file)
            return err_usage(err, "unexpected argument '%s'", argv[it.pos]);
        if (r == 0) {
            file = argv[it.pos++];
            continue;
        }
        r = run_args_take(a, it.id, it.value, err);
        r = r < 0 ? r : batch_add_option(b, opts, ARRAY_LEN(opts), it.id, it.value, err);
        if (r < 0)
            return r;
    }
    if (r == 0 && !file && !a->help)
        return err_usage(err, "which file of tasks? e.g. bawn batch tasks.jsonl");
    *ret_file = file;
    return r;
}

static int run_batch_verb(const struct verb *self, int argc, char **argv) {
    CLEANUP(run_args_done) struct run_args a = {0};
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    const char *file = NULL;
    struct err err = {0};
    int r;

    b.args = &a;
    r = read_options(argc, argv, &b, &a, &file, &err);
    if (r >= 0 && a.help) {
        verb_help(self);
        return 0;
    }
    r = r < 0 ? r : batch_read(&b, file, &err);
    r = r < 0 ? r : batch_main(&b, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

const struct verb verb_batch = {
    .name = "batch",
    .summary = "run many tasks at once, each in its own sandbox",
    .synopsis = "[options] FILE",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_batch_verb,
};
