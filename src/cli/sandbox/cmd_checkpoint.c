/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn checkpoint`, `checkpoint ls`, `checkpoint rm` and `fork`. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/record.h"
#include "cli/verb.h"
#include "ops/clone/sandbox_clone.h"
#include "supervisor/session/progress_bar.h"

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
static int read_operands(const struct verb_call *c, int min, int max, bool *ret_json, struct err *err) {
    int r = verb_parse(c, ret_json, max, err);

    if (r >= 0 && r < min)
        return err_usage(err, min == 1 ? "which sandbox? see 'bawn ps -a'" : "SANDBOX and TAG are needed");
    return r;
}

/* -- making ------------------------------------------------------------------------------------------------------------- */

static void add_made(const struct checkpoint *c, bool json, struct buf *out) {
    struct jsonout j = {.to = out};
    char size[24];

    if (json) {
        jsonout_open(&j, NULL, '{');
        record_members(&checkpoints, c, &j);
        buf_adds(out, "}\n");
        return;
    }
    format_size(c->bytes, size);
    log_line("%" PRIu64 " %s, %s; %s", c->files, c->files == 1 ? "file" : "files", size,
             c->running ? "it runs on; its processes and /tmp are not in the checkpoint"
                        : "processes and /tmp are never in a checkpoint");
    buf_addf(out, "%s\n", c->tag);
}

static int run_checkpoint(struct verb_call *c, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying the sandbox");
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    struct checkpoint made = {0};
    bool json = false;
    int r = read_operands(c, 1, 2, &json, err);

    r = r < 0 ? r : sandbox_checkpoint(c->argv[1], r > 1 ? c->argv[2] : NULL, &progress, &made, err);
    progress_bar_done(&bar);
    if (r >= 0)
        add_made(&made, json, &c->out);
    return r < 0 ? r : 0;
}

const struct verb verb_checkpoint = {
    .name = "checkpoint",
    .summary = "copy the files of a sandbox, to go back to or to fork",
    .synopsis = "[options] SANDBOX [TAG]",
    .description =
        "Copies what a sandbox has on disk: its home, the packages of a writable system, and in overlay and sync mode its version of the workspace. 'bawn fork --from TAG' makes new "
        "sandboxes of it. Without TAG the name is the time. A sandbox that runs is frozen meanwhile and goes on afterwards. Processes, memory and /tmp are "
        "not copied, nor are secrets: the value of one is never inside, and certificates, sockets and ids are made anew for each sandbox.\n\n"
        "Files share their blocks with the original where the file system can do that (btrfs, XFS).\n\n"
        "    bawn checkpoint box before-upgrade",
    VERB_OPTS(verb_json_opts),
    .run = run_checkpoint,
};

/* -- listing ------------------------------------------------------------------------------------------------------------ */

static int run_ls(struct verb_call *c, struct err *err) {
    CLEANUP(checkpoint_list_done) struct checkpoint_list all = {0};
    struct jsonout j = {.to = &c->out};
    bool json = false;
    int r = read_operands(c, 1, 1, &json, err);

    r = r < 0 ? r : sandbox_checkpoints(c->argv[1], &all, err);
    if (r < 0)
        return r;
    if (json) {
        record_array(&checkpoints, all.v, all.n, NULL, RECORD_BETWEEN, &j);
        buf_addc(&c->out, '\n');
    } else if (all.n) {
        record_table(&checkpoints, all.v, all.n, false, &c->out);
    }
    return 0;
}

const struct verb verb_checkpoint_ls = {
    .name = "checkpoint ls",
    .summary = "list the checkpoints of a sandbox",
    .synopsis = "[options] SANDBOX",
    .description =
        "Lists the checkpoints of a sandbox, oldest first: workspace mode, files, and their size if nothing was shared.",
    VERB_OPTS(verb_json_opts),
    .run = run_ls,
};

/* -- removing ----------------------------------------------------------------------------------------------------------- */

static int run_rm(struct verb_call *c, struct err *err) {
    bool json = false;
    int r = read_operands(c, 2, 2, &json, err);

    r = r < 0 ? r : sandbox_checkpoint_remove(c->argv[1], c->argv[2], err);
    if (r == 0 && json)
        buf_addf(&c->out, "{\"removed\": \"%s\"}\n", c->argv[2]);
    return r < 0 ? r : 0;
}

const struct verb verb_checkpoint_rm = {
    .name = "checkpoint rm",
    .summary = "remove a checkpoint of a sandbox",
    .synopsis = "[options] SANDBOX TAG",
    .description = "Removes a checkpoint. Forks that were made of it have their own files and stay.",
    VERB_OPTS(verb_json_opts),
    .run = run_rm,
};

/* -- forks ------------------------------------------------------------------------------------------------------------------ */

struct fork_line {
    struct fork_request fork;
    bool json;
};

static int take_base(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    *(const char **)to = value;
    return box_check_name(value, err);
}

static const struct opt fork_opts[] = {
    {0, 'n', "count", "N", "how many (default: 1)", NULL, OPT_TO_NUMBER(struct fork_line, fork.count, 1, FORK_COUNT_MAX)},
    {0, 0, "name", "BASE", "they are named BASE-1, BASE-2, ...; without -n just BASE (default: SANDBOX-1, ...)", NULL,
     OPT_TO_CALL(struct fork_line, fork.base, take_base)},
    {0, 0, "from", "TAG", "of this checkpoint (see 'bawn checkpoint ls') instead of the present", NULL,
     OPT_TO_TEXT(struct fork_line, fork.from)},
    {0, 0, "start", NULL, "start them, too", NULL, OPT_TO_FLAG(struct fork_line, fork.start)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct fork_line, json)},
};

static int print_forks(bool json, const struct fork_result *m, struct buf *out, struct err *err) {
    struct jsonout j = {.to = out};

    if (json)
        jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < m->names.len; i++) {
        if (!json) {
            buf_addf(out, "%s\n", m->names.v[i]);
            continue;
        }
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "sandbox", m->names.v[i]);
        jsonout_text(&j, "id", m->ids.v[i]);
        jsonout_close(&j, '}');
    }
    buf_adds(out, json ? "]\n" : "");
    return verb_print(out, err);
}

static void end_bar(void *arg) {
    progress_bar_done(arg);
}

static int fork_sandbox(struct fork_line *q, struct buf *out, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying the sandbox");
    CLEANUP(fork_result_done) struct fork_result m = {0};
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    int r, printed;

    q->fork.progress = &progress;
    q->fork.copied = end_bar;
    q->fork.arg = &bar;
    q->fork.notice = &verb_notice;
    r = sandbox_fork(&q->fork, &m, err);
    printed = m.names.len ? print_forks(q->json, &m, out, r < 0 ? NULL : err) : 0;
    return r < 0 ? r : printed;
}

static int run_fork(struct verb_call *c, struct err *err) {
    struct fork_line q = {0};
    int r = verb_parse(c, &q, 1, err);

    if (r == 0)
        r = err_usage(err, "which sandbox? see 'bawn ps -a'");
    q.fork.sandbox = c->argv[1];
    r = r < 0 ? r : fork_sandbox(&q, &c->out, err);
    return r < 0 ? r : 0;
}

const struct verb verb_fork = {
    .name = "fork",
    .summary = "make new sandboxes from the files of another",
    .synopsis = "[options] SANDBOX",
    .description =
        "Makes new sandboxes that begin with the files of another: its home, the packages of a writable system, and in overlay and sync mode its version of the workspace, so 'bawn review' of a "
        "fork shows what the original had changed, too. They have names and ids of their own and the same options. What they change from then on is "
        "theirs alone. Forks of a sandbox in direct mode work in overlay mode over the same workspace.\n\n"
        "Processes, memory and /tmp are not copied. A sandbox that runs is frozen meanwhile. Secrets are not copied, for they are never inside; "
        "placeholders are the same in all sandboxes of a project, and worth nothing outside of them.\n\n"
        "    bawn fork box -n 3 --start\n"
        "    bawn fork box --from before-upgrade --name retry",
    VERB_OPTS(fork_opts),
    .run = run_fork,
};
