/* SPDX-License-Identifier: Apache-2.0 */
/* Asks bawn-review what new commits, refs and the index would bring out. */
#include "supervisor/session/git_report.h"

#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "supervisor/session/review_spawn.h"
#include "workspace/change/change.h"

enum { ANSWER_MAX = 64 * 1024 * 1024, LINES_SHOWN = 20, LINE_SHOWN = 400 };

void git_report_done(struct git_report *g) {
    strv_done(&g->hold);
    strv_done(&g->lines);
}

/* What is behind ".git/" in the path; NULL: it is in no git directory. */
static const char *in_git(const char *path) {
    for (const char *s = path; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL)
        if (str_starts(s, ".git/"))
            return s + strlen(".git/");
    return NULL;
}

/* A git directory may have another name (`git init --separate-git-dir`): these are names that a run cannot do without. */
static bool like_git(const char *path) {
    return strstr(path, "/refs/") || strstr(path, "/objects/") || str_ends(path, "/packed-refs") || str_ends(path, "/index") ||
           str_ends(path, "HEAD");
}

bool git_report_needed(const struct change_set *set) {
    for (size_t i = 0; i < set->n; i++)
        if (!set->v[i].hidden && set->v[i].new_.mode && (in_git(set->v[i].path) || like_git(set->v[i].path)))
            return true;
    return false;
}

static void to_buf(const char *data, size_t len, void *arg) {
    buf_add(arg, data, len);
}

/* Pairs of strings, each with its NUL, from a process that read hostile files. Without the last one it ended before it was done. */
static int take_answer(const struct buf *b, struct git_report *g) {
    const char *p = b->data, *end = b->data ? b->data + b->len : NULL;

    while (p < end && !str_eq(p, "end")) {
        const char *value = memchr(p, 0, (size_t)(end - p)), *stop;

        stop = value && value + 1 < end ? memchr(value + 1, 0, (size_t)(end - value - 1)) : NULL;
        if (!stop)
            return -EBADMSG;
        if (strv_add(str_eq(p, "hold") ? &g->hold : &g->lines, value + 1) < 0)
            return -ENOMEM;
        p = stop + 1;
    }
    return p < end ? 0 : -EBADMSG;
}

int git_report_make(const struct rundir *rd, int workspace, const struct ignore *rules, const struct ignore *protect,
                    struct git_report *ret, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = "review", .rd = rd, .workspace = workspace};
    CLEANUP(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
    CLEANUP(git_report_done) struct git_report g = {0};
    struct err why = {0};
    int r;

    job.rules = (struct review_rules){.now = (struct ignore *)rules, .protect = (struct ignore *)protect};
    if (strv_add(&job.words, "--format=git") < 0 || strv_add(&job.words, "--fail-on=none") < 0)
        return err_oom(err);
    r = review_spawn(&job, to_buf, &answer, &why);
    if (r == 0)
        r = buf_ok(&answer) ? take_answer(&answer, &g) : -EFBIG;
    else if (r > 0) /* nothing makes it fail but a fault of its own */
        r = -EIO;
    if (r == -ENOMEM)
        return err_oom(err);
    g.failed = r < 0;
    if (r < 0 && strv_addf(&g.lines, "what the run committed or staged could not be examined: %s",
                           why.msg[0] ? why.msg : "bawn-review ended before it was done") < 0)
        return err_oom(err);
    *ret = g;
    g = (struct git_report){0};
    return 0;
}

bool git_report_holds(const struct git_report *g, const char *path) {
    const char *in = in_git(path);

    if (g->failed && in && !str_starts(in, "objects/") && !strstr(in, "/objects/"))
        return true;
    for (size_t i = 0; i < g->hold.len; i++) {
        const char *hold = g->hold.v[i];
        size_t len = strlen(hold);

        if (str_eq(hold, path) || (str_ends(hold, "/") && str_starts(path, hold) && !str_starts(path + len, "objects/")))
            return true;
    }
    return false;
}

void git_report_log(const struct git_report *g, const char *run) {
    if (g->lines.len == 0)
        return;
    log_line(
        "git: %zu high %s in what the run committed, staged or left in .git; your next checkout, reset, merge or stash pop may "
        "bring it out:",
        g->lines.len, g->lines.len == 1 ? "risk" : "risks");
    for (size_t i = 0; i < g->lines.len && i < LINES_SHOWN; i++)
        log_line("git: %.*s", LINE_SHOWN, g->lines.v[i]);
    log_line("git: 'bawn review %s' shows all", run);
}
