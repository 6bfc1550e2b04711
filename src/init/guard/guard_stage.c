/* SPDX-License-Identifier: Apache-2.0 */
/* The files in memory, and what becomes of them. */
#include "init/guard/guard_stage.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"
#include "init/guard/guard_git_judge.h"
#include "init/guard/guard_run.h"
#include "init/guard/guard_touch.h"
#include "os/fd.h"
#include "os/file.h"
#include "workspace/git/gitconfig_judge.h"

struct guard_stage {
    int fd, watch; /* fd: the memory; watch -1: there is no inotify, and a lock tells */
    enum git_role role;
    bool said; /* it was written before it was judged: say_commondir() */
    mode_t mode;
    struct place place; /* as it was when it was opened */
};

enum {
    CALLERS_FLAGS = O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC,
    EVENTS_SIZE = 4096,
    LOCK_LOOK_MS = 2 /* how often a lock is looked at */
};

bool guard_stage_wants(const struct guard *g, const struct place *p) {
    enum git_role role;

    if (!p->rel || p->object >= 0 || strchr(p->name, '/') || (p->exists && (!S_ISREG(p->st.st_mode) || p->st.st_nlink > 1)))
        return false;
    role = guard_git_role(g, p->rel);
    if (role == GIT_CONFIG) /* git worktree add copies this one */
        return !p->exists && guard_git_is_in_worktree(p->rel) && str_eq(p->name, "config.worktree");
    return role != GIT_NONE;
}

static void stage_freep(struct guard_stage **s) {
    if (!*s)
        return;
    closep(&(*s)->fd);
    place_done(&(*s)->place);
    free(*s);
}

static int copy_present(const struct place *p, int to) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITCONFIG_JUDGED_MAX);
    CLEANUP(closep) int fd = place_open(p, O_RDONLY | O_NONBLOCK, 0);
    int r = fd < 0 ? fd : file_read_fd(fd, 0, &text);

    return r < 0 ? r : fd_write_all(to, buf_str(&text), text.len);
}

static int make_stage(const struct call *c, const struct place *p, int flags, mode_t mode, struct guard_stage **ret) {
    CLEANUP(stage_freep) struct guard_stage *s = calloc(1, sizeof *s);
    int r = s ? caller_umask(c) : -ENOMEM;

    if (r < 0)
        return r;
    s->place = *p;
    s->place.rel = s->place.path + (p->rel - p->path);
    s->place.dir = fcntl(p->dir, F_DUPFD_CLOEXEC, 0);
    s->role = guard_git_role(c->g, p->rel);
    s->mode = p->exists ? p->st.st_mode & 0777 : mode & 0775 & ~c->g->umask_.now;
    s->fd = memfd_create("git", MFD_CLOEXEC);
    if (s->place.dir < 0 || s->fd < 0)
        return -errno;
    r = p->exists && !(flags & O_TRUNC) ? copy_present(p, s->fd) : 0;
    if (r < 0)
        return r;
    *ret = TAKE_PTR(s);
    return 0;
}

/*
 * A program inside that watches files may have taken all inotify instances that the sandbox has. Then the caller's open file has a lock, which goes
 * with it. A caller that takes it away has its text judged too early, and what it writes later goes nowhere.
 */
static int watch_stage(struct guard *g, struct guard_stage *s, const char *proc, int callers) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    if (g->stages.inotify <= 0)
        g->stages.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    s->watch = g->stages.inotify < 0 ? -1 : inotify_add_watch(g->stages.inotify, proc, IN_CLOSE_WRITE);
    return s->watch < 0 && fcntl(callers, F_OFD_SETLK, &whole) < 0 ? -errno : 0;
}

static bool is_unlocked(const struct guard_stage *s) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(s->fd, F_OFD_GETLK, &whole) < 0 || whole.l_type == F_UNLCK;
}

/* There is only one thing that a commondir may say: it says so at once, for git reads it without asking us. */
static int say_commondir(struct guard *g, struct guard_stage *s) {
    static const char text[] = "../..\n";
    const struct buf b = {.data = (char *)text, .len = sizeof text - 1};
    int r;

    if (s->role != GIT_COMMONDIR || s->place.exists)
        return 0;
    r = guard_touch(g, &s->place, true);
    r = r < 0 ? r : guard_git_write(g, &s->place, s->mode, &b);
    s->said = r == 0;
    return r;
}

int guard_stage_open(const struct call *c, const struct place *p, int flags, mode_t mode) {
    CLEANUP(stage_freep) struct guard_stage *s = NULL;
    CLEANUP(closep) int fd = -1;
    struct guard *g = c->g;
    char proc[GUARD_PROC_PATH];
    int r;

    if (guard_rules_hide(&g->rules, p->rel, RULES_FILE))
        return guard_refuse(g, p->rel, GUARD_WHY_HIDDEN, -EACCES);
    if (g->stages.n == GUARD_STAGES_MAX)
        return guard_refuse(g, p->rel, GUARD_WHY_PROTECTED, -EACCES);
    r = make_stage(c, p, flags, mode, &s);
    if (r < 0)
        return r;
    snprintf(proc, sizeof proc, "/proc/self/fd/%d", s->fd);
    fd = open(proc, (flags & CALLERS_FLAGS) | O_CLOEXEC | O_NOCTTY);
    r = fd < 0 ? -errno : watch_stage(g, s, proc, fd);
    r = r < 0 ? r : say_commondir(g, s);
    if (r < 0)
        return r;
    g->stages.v[g->stages.n++] = TAKE_PTR(s);
    return guard_install_fd(c, fd, flags & O_CLOEXEC); /* if the caller is gone, the close of ours settles it */
}

/* Nothing but the guard moves anything inside, but it may have, between open and close. */
static int find_again(const struct guard *g, struct guard_stage *s) {
    char now[PATH_MAX];
    struct place *p = &s->place;
    size_t len = strlen(p->path) - strlen(p->name);
    int n = place_path_of(p->dir, now), r;

    if (n < 0 || (size_t)n + 1 != len || memcmp(now, p->path, (size_t)n) != 0 || guard_git_role(g, p->rel) != s->role)
        return -EACCES;
    r = stat_born(p->dir, p->name, AT_SYMLINK_NOFOLLOW, &p->st, &p->birth_ns);
    p->exists = r == 0;
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    return S_ISREG(p->st.st_mode) && s->role != GIT_CONFIG ? 0 : -EACCES;
}

static int settle_text(struct guard *g, struct guard_stage *s) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(GITCONFIG_JUDGED_MAX);
    CLEANUP(buf_done) struct buf written = BUF_INIT(GITCONFIG_JUDGED_MAX);
    const struct buf none = {0};
    int r = lseek(s->fd, 0, SEEK_SET) < 0 ? -errno : file_read_fd(s->fd, 0, &text);

    r = r < 0 ? r : find_again(g, s);
    if (r < 0)
        return guard_refuse(g, s->place.rel, GUARD_WHY_PROTECTED, r);
    r = guard_git_judge(g, s->place.rel, s->role, &none, &text, &written);
    r = r < 0 ? r : guard_touch(g, &s->place, true);
    return r < 0 ? r : guard_git_write(g, &s->place, s->mode, &written);
}

static void settle_stage(struct guard *g, size_t i) {
    CLEANUP(stage_freep) struct guard_stage *s = g->stages.v[i];

    g->stages.v[i] = g->stages.v[--g->stages.n];
    if (s->watch >= 0)
        inotify_rm_watch(g->stages.inotify, s->watch);
    if (settle_text(g, s) < 0 && s->said)
        unlinkat(s->place.dir, s->place.name, 0);
}

static void settle_watch(struct guard *g, const struct inotify_event *e) {
    for (size_t i = g->stages.n; i-- > 0;)
        if ((e->mask & IN_Q_OVERFLOW) || (g->stages.v[i]->watch == e->wd && (e->mask & IN_CLOSE_WRITE)))
            settle_stage(g, i);
}

void guard_settle(struct guard *g) {
    union {
        struct inotify_event event;
        char room[EVENTS_SIZE];
    } in;
    ssize_t n;

    while (g->stages.n > 0 && (n = read(g->stages.inotify, &in, sizeof in)) > 0)
        for (ssize_t at = 0; at < n;) {
            struct inotify_event e;

            memcpy(&e, in.room + at, sizeof e);
            settle_watch(g, &e);
            at += (ssize_t)(sizeof e + e.len);
        }
    for (size_t i = g->stages.n; i-- > 0;)
        if (g->stages.v[i]->watch < 0 && is_unlocked(g->stages.v[i]))
            settle_stage(g, i);
}

int guard_stage_timeout(const struct guard *g) {
    for (size_t i = 0; i < g->stages.n; i++)
        if (g->stages.v[i]->watch < 0)
            return LOCK_LOOK_MS;
    return -1;
}

int guard_staged(const struct guard *g) {
    return g->stages.n > 0 ? g->stages.inotify : -1;
}
