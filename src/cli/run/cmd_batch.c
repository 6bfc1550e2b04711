/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn batch`, and the output of `bawn run --each`. */
#include <errno.h>

#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "cli/run/batch_table.h"
#include "cli/run/run_options.h"
#include "cli/verb.h"

enum { EXIT_SOME_FAILED = 1, EXIT_INTERRUPTED = 130 };

/* clang-format off */
static const struct opt opts[] = {
    RUN_HELP_OPT,
    RUN_BATCH_OPTS,
    {0, 'n', "dry-run", NULL, "check everything and print the commands; start nothing", NULL, RUN_FLAG(dry_run)},
    {0, 0, "json", NULL, "the result as JSON on stdout", NULL, OPT_TO_FLAG(struct run_args, json)},
    RUN_SHAPE_OPTS,
    VERB_QUIET_OPT,
};
/* clang-format on */

static void add_command(const struct batch_task *t, const struct strv *argv, bool json, struct jsonout *j) {
    if (json) {
        jsonout_break(j, "\n");
        jsonout_open(j, NULL, '{');
        jsonout_text(j, "name", t->name);
        jsonout_list(j, "argv", argv);
        jsonout_close(j, '}');
        return;
    }
    for (size_t k = 0; k < argv->len; k++) {
        buf_adds(j->to, k ? " " : "");
        buf_add_shell(j->to, argv->v[k]);
    }
    buf_addc(j->to, '\n');
}

/* --dry-run: what would be started, as it could be typed. */
static int add_commands(const struct batch *b, bool json, struct buf *out, struct err *err) {
    struct jsonout j = {.to = out, .compact = true};

    buf_adds(out, json ? "{\"tasks\":[" : "");
    for (size_t i = 0; i < b->n; i++) {
        CLEANUP(strv_done) struct strv argv = {0};
        int r = batch_argv(b, &b->v[i], &argv, err);

        if (r < 0)
            return r;
        add_command(&b->v[i], &argv, json, &j);
    }
    buf_adds(out, json ? "]}\n" : "");
    return 0;
}

int run_print_batch(const struct run_args *a, struct batch *b, struct buf *out, struct err *err) {
    struct batch_table table;
    int r, printed = 0, interrupts = -1;

    b->request = &a->request;
    b->opts = a->batch;
    r = batch_prepare(b, err);
    if (r < 0 || a->request.dry_run)
        return r < 0 ? r : add_commands(b, a->json, out, err);
    batch_table_init(&table);
    r = batch_perform(b, &table.watch, &interrupts, err);
    batch_table_clear(&table);
    if (interrupts >= 0 && (a->json || !log_is_quiet())) { /* also where only the result could not be stored */
        (a->json ? batch_json : batch_table_result)(b, out);
        printed = verb_print(out, err);
    }
    if (r < 0 || printed < 0)
        return MIN_OF(r, printed);
    if (interrupts)
        return EXIT_INTERRUPTED;
    return batch_count(b, BATCH_OK) == b->n ? 0 : EXIT_SOME_FAILED;
}

static int run_batch_verb(struct verb_call *c, struct err *err) {
    CLEANUP(run_args_done) struct run_args a = {0};
    CLEANUP(batch_done) struct batch b = BATCH_INIT;
    int r = verb_parse(c, &a, 1, err);

    if (r >= 0 && a.help) {
        verb_help(c->verb, &c->out);
        return 0;
    }
    if (r == 0)
        r = err_usage(err, "which file of tasks? e.g. bawn batch tasks.jsonl");
    r = r < 0 ? r : batch_read(&b, c->argv[1], err);
    return r < 0 ? r : run_print_batch(&a, &b, &c->out, err);
}

const struct verb verb_batch = {
    .name = "batch",
    .summary = "run many tasks at once, each in its own sandbox",
    .synopsis = "[options] FILE",
    .description =
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
        "all succeeded, 1 if some failed, 130 if it was interrupted.",
    VERB_OPTS(opts),
    .run = run_batch_verb,
};
