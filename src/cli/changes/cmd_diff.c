/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/changes/review_options.h"

static const struct opt opts[] = {
    {REVIEW_DIRECTORY, 'C', "directory", "DIR", "the workspace (default: the current folder)", "@dir"},
    {REVIEW_STAT, 0, "stat", NULL, "only how many lines changed in each file", NULL},
    {REVIEW_NAME_ONLY, 0, "name-only", NULL, "only the names of what changed", NULL},
    {REVIEW_JSON, 0, "json", NULL, "print JSON, as 'bawn review --json --diff' does", NULL},
    {REVIEW_ONLY, 0, "only", "GLOB", "only these paths (syntax of .gitignore); may be repeated", NULL},
    {REVIEW_NO_PAGER, 0, "no-pager", NULL, "do not start $PAGER", NULL},
    {REVIEW_COLOUR, 0, "color", "[=WHEN]", "colours: auto, always or never", "auto|always|never"},
};

/* The first operand is a run if there is one of this name, else a path like the others. */
static int pick(const struct review_args *a, struct run_pick *ret, size_t *ret_paths, struct err *err) {
    struct run_pick_opts o = {.directory = a->directory, .what = RUN_PICK_CHANGES};
    int r = -ENOENT;

    if (a->operands.len && rundir_check_name(a->operands.v[0], err) == 0) {
        o.name = a->operands.v[0];
        r = run_pick(&o, ret, err);
        *ret_paths = 1;
    }
    if (r != -ENOENT)
        return r;
    o.name = NULL;
    *ret_paths = 0;
    return run_pick(&o, ret, err);
}

static int diff(struct review_args *a, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    CLEANUP(strv_done) struct strv words = {0};
    size_t first = 0;
    int r = pick(a, &p, &first, err);

    for (size_t i = first; r == 0 && i < a->operands.len; i++)
        r = strv_add(&a->only, a->operands.v[i]) < 0 ? err_oom(err) : 0;
    if (r == 0 && strv_add(&words, "--must-match") < 0)
        r = err_oom(err);
    a->format = a->format ? a->format : "patch";
    a->diff = true;
    r = r < 0 ? r : review_show(a, "diff", &p, &words, err);
    return r < 0 ? r : 0;
}

static int run_diff(const struct verb *self, int argc, char **argv) {
    CLEANUP(review_args_done) struct review_args a = {0};
    struct err err = {0};
    int r = review_args_parse(opts, ARRAY_LEN(opts), argc, argv, &a, &err);

    r = r < 0 ? r : diff(&a, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Prints what a run changed as a patch that 'git apply' and 'patch -p1' take. RUN is the name of a run; without it, the "
    "latest of this workspace. A PATH may be a pattern of .gitignore's syntax; it counts from the top of the workspace.\n\n"
    "Control, bidirectional and invisible characters in the content are made visible, so a patch of a file that has them "
    "cannot be applied: use 'bawn apply'. Binary files, and files over 4 MiB, are named only.\n\n"
    "    bawn diff --stat\n"
    "    bawn diff my-run src/main.c";

const struct verb verb_diff = {
    .name = "diff",
    .summary = "print what a run changed as a patch",
    .synopsis = "[options] [RUN] [PATH...]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_diff,
};
