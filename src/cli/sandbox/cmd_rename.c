/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn rename`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_manage.h"

struct rename_line {
    bool json;
};

static const struct opt opts[] = {{0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct rename_line, json)}};

static int print_names(const char *old, const char *name, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(1024);
    struct jsonout j = {.to = &out};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "old", old);
    jsonout_text(&j, "name", name);
    jsonout_close(&j, '}');
    buf_addc(&out, '\n');
    return run_print_out(&out, err);
}

static int run_rename(const struct verb *self, int argc, char **argv) {
    struct rename_line q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 2, &err);

    if (r >= 0 && r != 2)
        r = err_usage(&err, "usage: bawn rename OLD NEW");
    r = r < 0 ? r : sandbox_rename(argv[1], argv[2], &err);
    r = r < 0 || !q.json ? r : print_names(argv[1], argv[2], &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Gives a persistent sandbox another name, whether it runs or not; with it goes what overlay or sync mode keeps of its changes. Its id, "
    "as audit logs have it, stays. One in worktree mode cannot be renamed while it has a branch.\n\n"
    "    bawn rename dev dev-old";

const struct verb verb_rename = {
    .name = "rename",
    .summary = "give a persistent sandbox another name",
    .synopsis = "[options] OLD NEW",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_rename,
};
