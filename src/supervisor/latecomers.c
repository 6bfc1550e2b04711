#include "supervisor/latecomers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "jail/cover.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "supervisor/guard.h"
#include "supervisor/landing.h"
#include "supervisor/watch.h"
#include "workspace/ignore.h"

enum { FOLDERS_AT_ONCE = 32, COVERED_AT_ONCE = 2000, EVENTS_SIZE = 64 * 1024, WATCHES_MAX = 1 << 20 };

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int note_mask(struct latecomers *l, const struct plan *p) {
    size_t n = strlen(p->workspace) + 1;

    for (size_t i = 0; i < p->n_steps; i++)
        if ((p->steps[i].kind == STEP_WHITEOUT || p->steps[i].kind == STEP_SUBSTITUTE) &&
            strv_add(&l->masked, p->steps[i].to + n) < 0)
            return -ENOMEM;
    if (l->masked.len)
        qsort(l->masked.v, l->masked.len, sizeof *l->masked.v, by_bytes);
    return 0;
}

int latecomers_init(struct latecomers *l, const struct latecomers_opts *o, struct err *err) {
    *l = (struct latecomers){.begin_ms = watch_now_ms() + LATECOMERS_DELAY_MS,
                             .inotify = -1,
                             .workspace = o->workspace,
                             .rules = o->rules,
                             .accepted = o->accepted,
                             .guard = o->guard,
                             .landing = o->landing,
                             .covers = o->covers,
                             .inside = o->plan->workspace,
                             .uid = o->plan->ids.inside_uid,
                             .gid = o->plan->ids.inside_gid,
                             .pidfd = o->pidfd,
                             .upper = o->upper};
    if (o->plan->mode == WORKSPACE_OVERLAY && note_mask(l, o->plan) < 0)
        return err_oom(err);
    return 0;
}

void latecomers_done(struct latecomers *l) {
    closep(&l->inotify);
    strv_done(&l->queue);
    strv_done(&l->found);
    strv_done(&l->masked);
    for (size_t i = 0; i < l->n_paths; i++)
        free(l->path_of[i]);
    free(l->path_of);
    *l = (struct latecomers)LATECOMERS_INIT;
}

int latecomers_fd(const struct latecomers *l) {
    return l->inotify;
}

int latecomers_timeout(const struct latecomers *l) {
    uint64_t now = watch_now_ms();

    if (l->begin_ms && !l->resting)
        return l->begin_ms <= now ? 0 : (int)(l->begin_ms - now);
    return l->queue.len || l->found.len || (l->landing && l->landing->again) ? 0 : -1;
}

static int remember(struct latecomers *l, int wd, const char *path) {
    char *copy = strdup(path);

    if (!copy)
        return -ENOMEM;
    if ((size_t)wd >= l->n_paths) {
        size_t n = MAX_OF((size_t)wd + 1, l->n_paths * 2);
        char **grown = wd < WATCHES_MAX ? reallocarray(l->path_of, n, sizeof *grown) : NULL;

        if (!grown) {
            free(copy);
            return -ENOMEM;
        }
        memset(grown + l->n_paths, 0, (n - l->n_paths) * sizeof *grown);
        l->path_of = grown;
        l->n_paths = n;
    }
    free(l->path_of[wd]);
    l->path_of[wd] = copy;
    return 0;
}

/* Past the user's limit on watches the rest is not watched: said once. */
static int add_watch(struct latecomers *l, int dir, const char *path) {
    char link[32];
    int wd;

    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    wd = inotify_add_watch(l->inotify, link, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK);
    if (wd >= 0)
        return remember(l, wd, path);
    if (l->walked) /* the command may have taken the rest: what cannot be watched any more must not be shown */
        return -ENOSPC;
    if (!l->told_limit)
        log_line("not all folders can be watched (%s): a file that appears on the host under a hidden name may be seen; raise "
                 "fs.inotify.max_user_watches, or use --workspace sync",
                 strerror(errno));
    l->told_limit = true;
    return 0;
}

/* One name in a watched folder: hidden ones are to be covered, folders to be looked into. */
static int judge(struct latecomers *l, const char *dir, const char *name, bool is_dir) {
    CLEANUP(freep) char *path = *dir ? str_dupf("%s/%s", dir, name) : strdup(name);

    if (!path)
        return -ENOMEM;
    if (l->masked.len && bsearch(&path, l->masked.v, l->masked.len, sizeof path, by_bytes))
        return 0;
    if (guard_saw_made(l->guard, path)) /* a certificate that comes with a package, say */
        return is_dir ? strv_add(&l->queue, path) : 0;
    if (l->landing && !is_dir) {
        int r = landing_see(l->landing, path);

        if (r < 0)
            return r;
    }
    if (!l->covers)
        return is_dir ? strv_add(&l->queue, path) : 0;
    if (ignore_match(l->rules, path, is_dir) == IGNORE_EXCLUDED ||
        (l->accepted && ignore_match(l->accepted, path, is_dir) == IGNORE_EXCLUDED))
        return strv_add(&l->found, path);
    return is_dir ? strv_add(&l->queue, path) : 0;
}

static bool is_folder(int dir, const struct dirent *e) {
    struct stat st;

    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_DIR;
    return fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* Watched first, read afterwards: nothing is missed in between. What was hidden at the start is found again here and is
 * covered already. A folder that went away, or may not be read, has nothing to show. */
static int look_into(struct latecomers *l, const char *path) {
    int fd = *path ? safepath_open(l->workspace, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK)
                   : openat(l->workspace, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    int r;

    if (!d) {
        closep(&fd);
        return 0;
    }
    r = l->inotify < 0 ? 0 : add_watch(l, fd, path);
    while (r == 0 && (e = readdir(d)))
        if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
            r = judge(l, path, e->d_name, is_folder(fd, e));
    closedir(d);
    return r;
}

static int on_event(struct latecomers *l, const struct inotify_event *ev) {
    if (ev->mask & IN_Q_OVERFLOW) /* events were lost: everything once more */
        return strv_add(&l->queue, "");
    if (ev->wd < 0 || (size_t)ev->wd >= l->n_paths || !l->path_of[ev->wd] || ev->len == 0)
        return 0;
    if (l->landing && (ev->mask & (IN_MOVED_TO | IN_ISDIR)) == IN_MOVED_TO) {
        const char *dir = l->path_of[ev->wd];
        CLEANUP(freep) char *path = *dir ? str_dupf("%s/%s", dir, ev->name) : strdup(ev->name);

        if (path)
            landing_arrive(l->landing, path);
    }
    return judge(l, l->path_of[ev->wd], ev->name, (ev->mask & IN_ISDIR) != 0);
}

static int read_events(struct latecomers *l) {
    char buf[EVENTS_SIZE] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(l->inotify, buf, sizeof buf);
    int r = 0;

    for (ssize_t i = 0; r == 0 && i < n;) {
        const struct inotify_event *ev = (const struct inotify_event *)(buf + i);

        r = on_event(l, ev);
        i += (ssize_t)(sizeof *ev + ev->len);
    }
    return r;
}

void latecomers_last(struct latecomers *l) {
    if (l->inotify >= 0 && l->landing)
        read_events(l);
}

static int cover_found(struct latecomers *l, struct err *err) {
    const struct cover_request req = {
        .uid = l->uid, .gid = l->gid, .pidfd = l->pidfd, .workspace = l->inside, .paths = &l->found, .upper = l->upper};
    int r;

    if (l->found.len == 0)
        return 0;
    if (l->found.len > COVERED_AT_ONCE)
        return err_set(err, -E2BIG, "%zu files under hidden names are in the workspace at once ('%s'); the run ends",
                       l->found.len, l->found.v[0]);
    r = cover_paths(&req, err);
    strv_done(&l->found);
    return r;
}

static void tell_instances(struct latecomers *l) {
    if (!l->told_instances)
        log_line(
            "no inotify instance is left for this user: files that appear on the host under hidden names are looked for once a "
            "second only; raise fs.inotify.max_user_instances, or use --workspace sync");
    l->told_instances = true;
}

static int begin(struct latecomers *l, struct err *err) {
    if (!l->begin_ms || l->resting || l->begin_ms > watch_now_ms())
        return 0;
    l->begin_ms = 0;
    l->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->inotify < 0 && errno != EMFILE)
        return err_sys(err, -errno, "watch for files that appear under hidden names");
    if (l->inotify < 0)
        tell_instances(l);
    return strv_add(&l->queue, "") < 0 ? err_oom(err) : 0;
}

/* The last folder of this round was looked into. */
static void end_round(struct latecomers *l) {
    if (l->inotify >= 0)
        l->walked = true;
    else if (!l->begin_ms)
        l->begin_ms = watch_now_ms() + LATECOMERS_AGAIN_MS;
}

static int fail(int r, struct err *err) {
    if (r == -ENOMEM)
        return err_oom(err);
    return err_set(err, r, "more appeared in protected places on the host than can be looked at; the run ends");
}

int latecomers_handle(struct latecomers *l, struct err *err) {
    int r = begin(l, err);

    if (r < 0 || (l->inotify < 0 && l->begin_ms) || l->workspace < 0)
        return r;
    r = l->inotify < 0 ? 0 : read_events(l);
    if (r == 0 && l->landing && l->landing->again && l->queue.len == 0) {
        l->landing->again = false;
        r = strv_add(&l->queue, "");
    }
    if (r < 0)
        return fail(r, err);
    r = cover_found(l, err);
    if (r < 0)
        return r;
    for (int i = 0; r == 0 && l->queue.len && i < FOLDERS_AT_ONCE; i++) {
        CLEANUP(freep) char *path = l->queue.v[--l->queue.len];

        l->queue.v[l->queue.len] = NULL;
        r = look_into(l, path);
    }
    if (r == -ENOSPC)
        return err_set(err, r,
                       "a new folder cannot be watched for hidden files any more (fs.inotify.max_user_watches); the run ends");
    if (r < 0)
        return fail(r, err);
    if (l->queue.len == 0)
        end_round(l);
    return cover_found(l, err); /* most of these are covered since the start */
}

void latecomers_rest(struct latecomers *l) {
    l->resting = true;
}

int latecomers_wake(struct latecomers *l, struct err *err) {
    int r = 0;

    l->resting = false;
    if (l->inotify >= 0 || !l->told_instances)
        return 0;
    l->begin_ms = watch_now_ms();
    while (r == 0 && latecomers_timeout(l) == 0)
        r = latecomers_handle(l, err);
    return r;
}
