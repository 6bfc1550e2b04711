/* SPDX-License-Identifier: Apache-2.0 */
/* Covers files that appear under hidden names: when to walk, and what to cover. */
#include "supervisor/watch/latecomers.h"

#include <errno.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "jail/apply/covers.h"
#include "os/clock.h"
#include "os/fd.h"
#include "supervisor/watch/landing.h"

enum { FOLDERS_AT_ONCE = 32, COVERED_AT_ONCE = 2000 };

/* What the host has there is out of sight: mounts, and in an overlay what its mask hides or replaces. */
static int note_steps(struct latecomers *l, const struct plan *p) {
    size_t n = strlen(p->workspace);

    for (size_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        bool masks = p->mode == WORKSPACE_OVERLAY && (s->kind == STEP_WHITEOUT || s->kind == STEP_SUBSTITUTE);
        bool mounts = s->kind == STEP_EXTRA && strncmp(s->to, p->workspace, n) == 0 && s->to[n] == '/';

        if ((masks || mounts) && strv_add(masks ? &l->masked : &l->mounted, s->to + n + 1) < 0)
            return -ENOMEM;
    }
    if (l->masked.len)
        qsort(l->masked.v, l->masked.len, sizeof *l->masked.v, str_compare);
    return 0;
}

int latecomers_init(struct latecomers *l, const struct latecomers_opts *o, struct err *err) {
    *l = (struct latecomers){.begin_ms = clock_ms() + LATECOMERS_DELAY_MS, .inotify = -1, .o = *o};
    return note_steps(l, o->plan) < 0 ? err_oom(err) : 0;
}

void latecomers_done(struct latecomers *l) {
    closep(&l->inotify);
    strv_done(&l->queue);
    strv_done(&l->found);
    strv_done(&l->masked);
    strv_done(&l->mounted);
    strv_done(&l->closed);
    strv_done(&l->opened);
    made_done(&l->made);
    wdtable_done(&l->paths);
    *l = (struct latecomers)LATECOMERS_INIT;
}

int latecomers_fd(const struct latecomers *l) {
    return l->pause_ms && clock_left_ms(l->pause_ms) > 0 ? -1 : l->inotify;
}

int latecomers_timeout(const struct latecomers *l) {
    if (l->begin_ms && !l->resting)
        return clock_left_ms(l->begin_ms);
    if (l->queue.len || l->found.len || l->opened.len || l->failed.code || (l->o.landing && l->o.landing->again))
        return 0;
    return l->pause_ms ? clock_left_ms(l->pause_ms) : -1;
}

void latecomers_last(struct latecomers *l) {
    if (l->o.landing)
        late_read_events(l, true);
}

static int cover_found(struct latecomers *l, struct err *err) {
    const struct plan *p = l->o.plan;
    const struct cover_request req = {.uid = p->ids.inside_uid,
                                      .gid = p->ids.inside_gid,
                                      .pidfd = l->o.pidfd,
                                      .workspace = p->workspace,
                                      .paths = &l->found,
                                      .masked = &l->masked,
                                      .elsewhere = l->o.elsewhere,
                                      .copy = p->mode == WORKSPACE_SYNC || p->mode == WORKSPACE_WORKTREE,
                                      .opened = &l->opened,
                                      .upper = l->o.upper,
                                      .lower = l->o.workspace};
    int r;

    if (l->found.len == 0 && l->opened.len == 0)
        return 0;
    if (l->found.len > COVERED_AT_ONCE)
        return err_set(err, -E2BIG, "%zu files under hidden names are in the workspace at once ('%s'); the run ends",
                       l->found.len, l->found.v[0]);
    r = cover_paths(&req, err);
    strv_done(&l->found);
    strv_done(&l->opened);
    return r;
}

static int begin_watching(struct latecomers *l, struct err *err) {
    if (!l->begin_ms || l->resting || l->begin_ms > clock_ms())
        return 0;
    l->begin_ms = 0;
    l->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->inotify < 0 && errno != EMFILE)
        return err_sys(err, -errno, "watch for files that appear under hidden names");
    if (l->inotify < 0 && !TAKE(l->reported_instances, true))
        log_line(
            "no inotify instance is left for this user: files that appear on the host under hidden names are looked for once a "
            "second only; raise fs.inotify.max_user_instances, or use --workspace sync");
    return strv_add(&l->queue, "") < 0 ? err_oom(err) : 0;
}

/* The last folder of this round was read. */
static int end_round(struct latecomers *l) {
    if (TAKE(l->again, false))
        return strv_add(&l->queue, "");
    if (l->inotify < 0 && !l->begin_ms)
        l->begin_ms = clock_ms() + LATECOMERS_AGAIN_MS;
    return 0;
}

static int walk_newest(struct latecomers *l) {
    CLEANUP(freep) char *path = l->queue.v[--l->queue.len];

    l->queue.v[l->queue.len] = NULL;
    return late_walk_folder(l, path);
}

static int say_why(int r, struct err *err) {
    if (r == -ENOMEM)
        return err_oom(err);
    if (r == -ENOSPC)
        return err_set(
            err, r,
            "not all folders of the workspace can be watched for hidden files, and what is not watched must not be shown: "
            "the run ends; raise fs.inotify.max_user_watches, or use --workspace sync");
    if (r == -E2BIG)
        return err_set(err, r, "more appeared in protected places on the host than can be looked at; the run ends");
    return err_sys(err, r, "watch the workspace for hidden files");
}

/* What was in the queue before waits for its turn: the newest is on top. */
static int look_now(struct latecomers *l, size_t before, struct err *err) {
    int r = 0;

    while (r == 0 && l->queue.len > before)
        r = walk_newest(l);
    return r < 0 ? say_why(r, err) : cover_found(l, err);
}

int latecomers_handle(struct latecomers *l, struct err *err) {
    int r;

    if (l->failed.code) {
        *err = l->failed;
        return err->code;
    }
    r = begin_watching(l, err);
    if (r < 0 || (l->inotify < 0 && l->begin_ms) || l->o.workspace < 0)
        return r;
    r = late_read_events(l, false);
    if (r == 0 && l->o.landing && l->o.landing->again && l->queue.len == 0) {
        l->o.landing->again = false;
        r = strv_add(&l->queue, "");
    }
    if (r < 0)
        return say_why(r, err);
    r = cover_found(l, err);
    if (r < 0)
        return r;
    for (int i = 0; r == 0 && l->queue.len && i < FOLDERS_AT_ONCE; i++)
        r = walk_newest(l);
    if (r == 0 && l->queue.len == 0)
        r = end_round(l);
    return r < 0 ? say_why(r, err) : cover_found(l, err); /* most of these are covered since the start */
}

/* Not begun: the first walk finds all that moved. What is closed by then it could not read. */
int latecomers_look(struct latecomers *l, const char *path, bool closing) {
    bool begun = l->inotify >= 0 || l->reported_instances;
    size_t before;
    int r = 0;

    if (l->o.workspace < 0 || (!begun && !closing))
        return 0;
    if (!begun) {
        l->begin_ms = clock_ms();
        r = begin_watching(l, &l->failed);
    }
    before = l->queue.len;
    if (r < 0)
        return r;
    r = late_read_events(l, true);
    r = r < 0 ? r : late_judge(l, path, true);
    return r < 0 ? say_why(r, &l->failed) : look_now(l, before, &l->failed);
}

int latecomers_making(struct latecomers *l, const char *path) {
    return l->o.workspace < 0 ? 0 : made_begin(&l->made, path);
}

void latecomers_made(struct latecomers *l, const char *path, int fd) {
    struct stat st = {0};
    int r;

    if (l->o.workspace < 0)
        return;
    made_end(&l->made, path, fd);
    /* The host may have put its own there meanwhile. */
    r = fd < 0 || fstat(fd, &st) == 0 ? late_judge(l, path, S_ISDIR(st.st_mode)) : 0;
    if (r < 0)
        say_why(r, &l->failed);
}

/* What happened while nothing ran. One that never began, because nothing ran long enough, begins: the walk is what it would see. */
int latecomers_wake(struct latecomers *l, struct err *err) {
    uint64_t now = clock_ms();
    int r;

    l->resting = false;
    if (l->o.workspace < 0 || (l->begin_ms > now && !l->reported_instances))
        return 0;
    if (l->begin_ms)
        l->begin_ms = now;
    r = begin_watching(l, err);
    if (r == 0 && late_read_events(l, true) < 0)
        r = err_oom(err);
    r = r < 0 ? r : look_now(l, 0, err);
    if (r == 0 && end_round(l) < 0)
        r = err_oom(err);
    return r < 0 ? r : look_now(l, 0, err); /* everything, if events were lost */
}
