/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/files/inside.h"
#include "ops/sandbox/clone_pick.h"

enum { OPT_JSON = 1, OUTPUT_MAX = 4 * 1024 * 1024, NS = 1000000000 };

static const struct opt opts[] = {
    {OPT_JSON, 0, "json", NULL, "print JSON", NULL},
};

struct checkpoint_request {
    struct strv words;
    bool json;
};

static void request_done(struct checkpoint_request *q) {
    strv_done(&q->words);
}

static int take(void *arg, int id, const char *value UNUSED, struct err *err UNUSED) {
    struct checkpoint_request *q = arg;

    q->json |= id == OPT_JSON;
    return 0;
}

static int read_request(const struct verb *self, int argc, char **argv, size_t min, size_t max, struct checkpoint_request *q,
                        struct err *err) {
    int r = inside_read_words(self, argc, argv, take, q, &q->words, err);

    if (r < 0)
        return r;
    if (q->words.len < min)
        return err_usage(err, min == 1 ? "which sandbox? see 'bawn ps -a'" : "SANDBOX and TAG are needed");
    return q->words.len > max ? err_usage(err, "unexpected argument '%.80s'", q->words.v[max]) : 0;
}

static void add_time(struct buf *b, uint64_t ns) {
    time_t t = (time_t)(ns / NS);
    char text[32];
    struct tm tm;

    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    buf_adds(b, text);
}

static void add_json(struct buf *b, const struct checkpoint *c) {
    buf_addf(b, "{\"tag\": \"%s\", \"created\": \"", c->tag);
    add_time(b, c->created_ns);
    buf_addf(b,
             "\", \"mode\": \"%s\", \"running\": %s, \"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"left_out\": %" PRIu64 "}",
             workspace_mode_names[c->mode], c->running ? "true" : "false", c->files, c->bytes, c->left_out);
}

/* -- making ------------------------------------------------------------------------------------------------------------- */

static int make(const struct checkpoint_request *q, struct err *err) {
    CLEANUP(clone_pick_done) struct clone_pick p = CLONE_PICK_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    struct checkpoint c = {0};
    char size[24];
    int r = clone_pick(q->words.v[0], true, &p, err);

    r = r < 0 ? r : inside_audit(&p.pick, "checkpoint", q->words.len > 1 ? q->words.v[1] : NULL, NULL, err);
    r = r < 0 ? r : checkpoint_make(&p.pick.box, &p.opts, q->words.len > 1 ? q->words.v[1] : NULL, &c, err);
    progress_bar_done(&p.bar);
    if (r < 0)
        return r;
    if (q->json) {
        add_json(&b, &c);
        buf_addc(&b, '\n');
        return run_print_out(&b, err);
    }
    format_size(c.bytes, size);
    log_line("%" PRIu64 " files, %s; %s", c.files, size,
             c.running ? "it runs on; its processes and /tmp are not in the checkpoint"
                       : "processes and /tmp are never in a checkpoint");
    buf_addf(&b, "%s\n", c.tag);
    return run_print_out(&b, err);
}

static int run_checkpoint(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct checkpoint_request q = {0};
    struct err err = {0};
    int r = read_request(self, argc, argv, 1, 2, &q, &err);

    r = r < 0 ? r : make(&q, &err);
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

static void add_row(struct buf *b, const struct checkpoint *c) {
    char size[24];

    format_size(c->bytes, size);
    buf_addf(b, "%-24s  ", c->tag);
    add_time(b, c->created_ns);
    buf_addf(b, "  %-8s  %8" PRIu64 "  %s\n", workspace_mode_names[c->mode], c->files, size);
}

static int list(const struct checkpoint_request *q, struct err *err) {
    CLEANUP(clone_pick_done) struct clone_pick p = CLONE_PICK_INIT;
    CLEANUP(checkpoint_list_done) struct checkpoint_list all = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    int r = clone_pick(q->words.v[0], false, &p, err);

    r = r < 0 ? r : checkpoint_list(&p.pick.box, &all, err);
    if (r < 0)
        return r;
    if (q->json)
        buf_addc(&b, '[');
    else if (all.n)
        buf_addf(&b, "%-24s  %-20s  %-8s  %8s  %s\n", "TAG", "CREATED", "MODE", "FILES", "SIZE");
    for (size_t i = 0; i < all.n; i++) {
        if (!q->json) {
            add_row(&b, &all.v[i]);
            continue;
        }
        buf_adds(&b, i ? ",\n " : "");
        add_json(&b, &all.v[i]);
    }
    buf_adds(&b, q->json ? "]\n" : "");
    return run_print_out(&b, err);
}

static int run_ls(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct checkpoint_request q = {0};
    struct err err = {0};
    int r = read_request(self, argc, argv, 1, 1, &q, &err);

    r = r < 0 ? r : list(&q, &err);
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

static int remove_one(const struct checkpoint_request *q, struct err *err) {
    CLEANUP(clone_pick_done) struct clone_pick p = CLONE_PICK_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    int r = clone_pick(q->words.v[0], false, &p, err);

    r = r < 0 ? r : inside_audit(&p.pick, "checkpoint rm", q->words.v[1], NULL, err);
    r = r < 0 ? r : checkpoint_remove(&p.pick.box, q->words.v[1], err);
    if (r < 0 || !q->json)
        return r;
    buf_addf(&b, "{\"removed\": \"%s\"}\n", q->words.v[1]);
    return run_print_out(&b, err);
}

static int run_rm(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct checkpoint_request q = {0};
    struct err err = {0};
    int r = read_request(self, argc, argv, 2, 2, &q, &err);

    r = r < 0 ? r : remove_one(&q, &err);
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
