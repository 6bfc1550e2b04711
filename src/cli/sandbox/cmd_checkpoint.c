/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn checkpoint`, `checkpoint ls` and `checkpoint rm`. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/record.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/clone/sandbox_clone.h"
#include "supervisor/session/progress_bar.h"

enum { OUTPUT_MAX = 4 * 1024 * 1024 };

struct checkpoint_line {
    bool json;
};

static const struct opt opts[] = {
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct checkpoint_line, json)},
};

static const struct column columns[] = {
    {"TAG", "tag", COLUMN(CHARS, struct checkpoint, tag), .width = 24},
    {"CREATED", "created", COLUMN(TIME, struct checkpoint, created_ns), .width = 20},
    {"MODE", "mode", COLUMN(ENUM, struct checkpoint, mode), .width = 8, .names = workspace_mode_names},
    {NULL, "running", COLUMN(BOOL, struct checkpoint, running)},
    {"FILES", "files", COLUMN(U64, struct checkpoint, files), .width = -8},
    {"SIZE", "bytes", COLUMN(SIZE, struct checkpoint, bytes)},
    {NULL, "left_out", COLUMN(U64, struct checkpoint, left_out)},
};
static const struct record_kind checkpoints = {columns, ARRAY_LEN(columns), sizeof(struct checkpoint)};

/* The operands are SANDBOX and TAG. */
static int read_operands(int argc, char **argv, int min, int max, struct checkpoint_line *q, struct err *err) {
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, q, max, err);

    if (r >= 0 && r < min)
        return err_usage(err, min == 1 ? "which sandbox? see 'bawn ps -a'" : "SANDBOX and TAG are needed");
    return r;
}

/* -- making ------------------------------------------------------------------------------------------------------------- */

static int print_made(const struct checkpoint *c, bool json, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    struct jsonout j = {.to = &b};
    char size[24];

    if (json) {
        jsonout_open(&j, NULL, '{');
        record_members(&checkpoints, c, &j);
        buf_adds(&b, "}\n");
        return run_print_out(&b, err);
    }
    format_size(c->bytes, size);
    log_line("%" PRIu64 " files, %s; %s", c->files, size,
             c->running ? "it runs on; its processes and /tmp are not in the checkpoint"
                        : "processes and /tmp are never in a checkpoint");
    buf_addf(&b, "%s\n", c->tag);
    return run_print_out(&b, err);
}

static int run_checkpoint(const struct verb *self, int argc, char **argv) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying the sandbox");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    struct checkpoint_line q = {0};
    struct checkpoint c = {0};
    struct err err = {0};
    int r = read_operands(argc, argv, 1, 2, &q, &err);

    r = r < 0 ? r : sandbox_checkpoint(argv[1], r > 1 ? argv[2] : NULL, &progress, &c, &err);
    progress_bar_done(&bar);
    r = r < 0 ? r : print_made(&c, q.json, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Copies what a sandbox has on disk: its home, and in overlay and sync mode its version of the workspace. 'bawn fork --from TAG' makes new "
    "sandboxes of it. Without TAG the name is the time. A sandbox that runs is frozen meanwhile and goes on afterwards. Processes, memory and /tmp are "
    "not copied, nor are secrets: the value of one is never inside, and certificates, sockets and ids are made anew for each sandbox.\n\n"
    "Files share their blocks with the original where the file system can do that (btrfs, XFS).\n\n"
    "    bawn checkpoint box before-upgrade";

const struct verb verb_checkpoint = {
    .name = "checkpoint",
    .summary = "copy the files of a sandbox, to go back to or to fork",
    .synopsis = "[options] SANDBOX [TAG]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_checkpoint,
};

/* -- listing ------------------------------------------------------------------------------------------------------------ */

static int list_checkpoints(const char *sandbox, bool json, struct err *err) {
    CLEANUP(checkpoint_list_done) struct checkpoint_list all = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    struct jsonout j = {.to = &b};
    int r = sandbox_checkpoints(sandbox, &all, err);

    if (r < 0)
        return r;
    if (json) {
        record_array(&checkpoints, all.v, all.n, NULL, RECORD_BETWEEN, &j);
        buf_addc(&b, '\n');
    } else if (all.n) {
        record_table(&checkpoints, all.v, all.n, false, &b);
    }
    return run_print_out(&b, err);
}

static int run_ls(const struct verb *self, int argc, char **argv) {
    struct checkpoint_line q = {0};
    struct err err = {0};
    int r = read_operands(argc, argv, 1, 1, &q, &err);

    r = r < 0 ? r : list_checkpoints(argv[1], q.json, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

const struct verb verb_checkpoint_ls = {
    .name = "checkpoint ls",
    .summary = "list the checkpoints of a sandbox",
    .synopsis = "[options] SANDBOX",
    .description =
        "Lists the checkpoints of a sandbox, oldest first: workspace mode, files, and their size if nothing was shared.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_ls,
};

/* -- removing ----------------------------------------------------------------------------------------------------------- */

static int run_rm(const struct verb *self, int argc, char **argv) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    struct checkpoint_line q = {0};
    struct err err = {0};
    int r = read_operands(argc, argv, 2, 2, &q, &err);

    r = r < 0 ? r : sandbox_checkpoint_remove(argv[1], argv[2], &err);
    if (r == 0 && q.json) {
        buf_addf(&b, "{\"removed\": \"%s\"}\n", argv[2]);
        r = run_print_out(&b, &err);
    }
    return r < 0 ? verb_fail(self, &err) : 0;
}

const struct verb verb_checkpoint_rm = {
    .name = "checkpoint rm",
    .summary = "remove a checkpoint of a sandbox",
    .synopsis = "[options] SANDBOX TAG",
    .description = "Removes a checkpoint. Forks that were made of it have their own files and stay.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_rm,
};
