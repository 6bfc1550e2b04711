/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of `bawn run`, `explain` and `batch`: a wanted run, and what only the command line has. */
#pragma once

#include "ops/batch/batch.h"
#include "ops/run/run_shape.h"

struct run_prepared;

struct run_args {
    struct run_request request; /* first: RUN_SHAPE_OPTS fill it */
    bool help, yes_unsandboxed, json;
    const char *each;
    struct batch_opts batch;
};
void run_args_done(struct run_args *a);

opt_call run_args_result_fd;

/* clang-format off */
#define RUN_HELP_OPT {0, 'h', "help", NULL, "show this help", NULL, OPT_TO_FLAG(struct run_args, help)}

/* Of `run` and `explain`. */
#define RUN_COMMON_OPTS \
    RUN_HELP_OPT, \
    RUN_SHAPE_OPTS, \
    {0, 0, "name", "NAME", "name of the run in overlay, sync and worktree mode; one that exists goes on", "@run", RUN_TEXT(name)}, \
    {0, 0, "no-sandbox", NULL, "run without any protection, after a warning", NULL, \
     OPT_TO_CALL(struct run_request, flags.mode, run_request_no_sandbox)}, \
    {0, 0, "yes-unsandboxed", NULL, "with --no-sandbox: do not ask (needed without a terminal)", NULL, \
     OPT_TO_FLAG(struct run_args, yes_unsandboxed)}, \
    {0, 0, "tty", NULL, "give the command a terminal even if there is none", NULL, RUN_FLAG(tty)}, \
    {0, 0, "no-tty", NULL, "give the command pipes even if there is a terminal", NULL, RUN_FLAG(no_tty)}, \
    {0, 'n', "dry-run", NULL, "print the plan and where each value comes from; start nothing", NULL, RUN_FLAG(dry_run)}, \
    {0, 0, "json", NULL, "the result as one JSON line on stderr; with --dry-run the plan as JSON on stdout", NULL, \
     OPT_TO_FLAG(struct run_args, json)}

/* Of `batch`, and of `run` with --each. */
#define RUN_BATCH_OPTS \
    {0, 'j', "jobs", "N", "how many at once (default: the number of CPUs)", NULL, \
     OPT_TO_NUMBER(struct run_args, batch.jobs, 1, BATCH_JOBS_MAX)}, \
    {0, 0, "retries", "N", "how often one that failed is tried again, in a new sandbox", NULL, \
     OPT_TO_NUMBER(struct run_args, batch.retries, 0, BATCH_RETRIES_MAX)}, \
    {0, 0, "stop-on-failure", NULL, "when one fails, end the others and start no more", NULL, \
     OPT_TO_FLAG(struct run_args, batch.stop_on_failure)}, \
    {0, 0, "log-dir", "DIR", "where the output goes, as NAME.out and NAME.err", "@dir", OPT_TO_TEXT(struct run_args, batch.log_dir)}
/* clang-format on */

/* Options up to the first word that is none; that and what follows is the command. */
int run_args_parse(const struct opt *opts, size_t n, int argc, char **argv, struct run_args *ret, struct err *err);

/* --dry-run and explain: the plan. */
int run_print_plan(const struct run_prepared *p, bool json, struct buf *out, struct err *err);
/* All of --each and of `bawn batch` once the tasks are known. Returns the exit status, or -errno. */
int run_print_batch(const struct run_args *a, struct batch *b, struct buf *out, struct err *err);
