/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn fork`. */
#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "cli/changes/run_print.h"
#include "cli/verb.h"
#include "ops/clone/sandbox_clone.h"
#include "supervisor/session/progress_bar.h"

enum { OUTPUT_MAX = 64 * 1024 };

struct fork_line {
    struct fork_request fork;
    bool json;
};

static int take_base(const struct opt *o UNUSED, const char *value, void *to, struct err *err) {
    *(const char **)to = value;
    return box_check_name(value, err);
}

static const struct opt opts[] = {
    {0, 'n', "count", "N", "how many (default: 1)", NULL, OPT_TO_NUMBER(struct fork_line, fork.count, 1, FORK_COUNT_MAX)},
    {0, 0, "name", "BASE", "they are named BASE-1, BASE-2, ...; without -n just BASE (default: SANDBOX-1, ...)", NULL,
     OPT_TO_CALL(struct fork_line, fork.base, take_base)},
    {0, 0, "from", "TAG", "of this checkpoint (see 'bawn checkpoint ls') instead of the present", NULL,
     OPT_TO_TEXT(struct fork_line, fork.from)},
    {0, 0, "start", NULL, "start them, too", NULL, OPT_TO_FLAG(struct fork_line, fork.start)},
    {0, 0, "json", NULL, "print JSON", NULL, OPT_TO_FLAG(struct fork_line, json)},
};

static int print_forks(bool json, const struct fork_result *m, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(OUTPUT_MAX);
    struct jsonout j = {.to = &b};

    if (json)
        jsonout_open(&j, NULL, '[');
    for (size_t i = 0; i < m->names.len; i++) {
        if (!json) {
            buf_addf(&b, "%s\n", m->names.v[i]);
            continue;
        }
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "sandbox", m->names.v[i]);
        jsonout_text(&j, "id", m->ids.v[i]);
        jsonout_close(&j, '}');
    }
    buf_adds(&b, json ? "]\n" : "");
    return run_print_out(&b, err);
}

static void end_bar(void *arg) {
    progress_bar_done(arg);
}

static int fork_sandbox(struct fork_line *q, struct err *err) {
    CLEANUP(progress_bar_done) struct progress_bar bar = PROGRESS_BAR_INIT("copying the sandbox");
    CLEANUP(fork_result_done) struct fork_result m = {0};
    const struct progress progress = {.report = progress_bar_report, .arg = &bar};
    int r, printed;

    q->fork.progress = &progress;
    q->fork.copied = end_bar;
    q->fork.arg = &bar;
    q->fork.notice = &verb_notice;
    r = sandbox_fork(&q->fork, &m, err);
    printed = m.names.len ? print_forks(q->json, &m, r < 0 ? NULL : err) : 0;
    return r < 0 ? r : printed;
}

static int run_fork(const struct verb *self, int argc, char **argv) {
    struct fork_line q = {0};
    struct err err = {0};
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, &q, 1, &err);

    if (r == 0)
        r = err_usage(&err, "which sandbox? see 'bawn ps -a'");
    q.fork.sandbox = argv[1];
    r = r < 0 ? r : fork_sandbox(&q, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Makes new sandboxes that begin with the files of another: its home, and in overlay and sync mode its version of the workspace, so 'bawn review' of a "
    "fork shows what the original had changed, too. They have names and ids of their own and the same options. What they change from then on is "
    "theirs alone. Forks of a sandbox in direct mode work in overlay mode over the same workspace.\n\n"
    "Processes, memory and /tmp are not copied. A sandbox that runs is frozen meanwhile. Secrets are not copied, for they are never inside; "
    "placeholders are the same in all sandboxes of a project, and worth nothing outside of them.\n\n"
    "    bawn fork box -n 3 --start\n"
    "    bawn fork box --from before-upgrade --name retry";

const struct verb verb_fork = {
    .name = "fork",
    .summary = "make new sandboxes from the files of another",
    .synopsis = "[options] SANDBOX",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_fork,
};
