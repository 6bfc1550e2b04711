/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn diff`. */
#include <errno.h>

#include "base/err.h"
#include "cli/changes/review_options.h"

static const struct opt opts[] = {
    REVIEW_DIRECTORY,
    {0, 0, "stat", NULL, "only how many lines changed in each file", NULL, REVIEW_FORMAT},
    {0, 0, "name-only", NULL, "only the names of what changed", NULL, REVIEW_FORMAT},
    {0, 0, "json", NULL, "print JSON, as 'bawn review --json --diff' does", NULL, REVIEW_FORMAT},
    REVIEW_ONLY,
    REVIEW_OUTPUT,
};

/* The first operand is a run if there is one of this name, else a path like the others. Returns how many were used. */
static int pick_run(const char *directory, const char *word, struct run_pick *ret, struct err *err) {
    struct run_pick_opts o = {.directory = directory, .name = word, .what = RUN_PICK_CHANGES};
    int r = word && rundir_check_name(word, err) == 0 ? run_pick(&o, ret, err) : -ENOENT;

    if (r != -ENOENT)
        return r < 0 ? r : 1;
    o.name = NULL;
    return run_pick(&o, ret, err);
}

static int diff(struct review_args *a, char **words, int n, struct err *err) {
    CLEANUP(run_pick_done) struct run_pick p = RUN_PICK_INIT;
    int r = pick_run(a->directory, n ? words[0] : NULL, &p, err);

    if (r < 0)
        return r;
    for (int i = r; i < n; i++)
        if (strv_add(&a->only, words[i]) < 0)
            return err_oom(err);
    a->format.name = a->format.name ? a->format.name : "patch";
    a->diff = true;
    r = review_show(a, "diff", &p, true, err);
    return r < 0 ? r : 0;
}

static int run_diff(const struct verb *self, int argc, char **argv) {
    CLEANUP(review_args_done) struct review_args a = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &a, argc, &err);

    r = r < 0 ? r : diff(&a, argv + 1, r, &err);
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
