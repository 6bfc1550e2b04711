/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the folders of a workspace, and reads what inotify reports about them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "jail/plan/elsewhere.h"
#include "os/clock.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "supervisor/watch/landing.h"
#include "supervisor/watch/latecomers.h"
#include "workspace/hide/ignore.h"

enum {
    EVENTS_SIZE = 64 * 1024,
    READS_MAX = 64,                       /* in a row, while the command waits: the host may go on making files */
    CLOSED_MAX = 256,                     /* past it a folder stays covered although it was opened */
    FOLDER_MAX = PATH_MAX - NAME_MAX - 2, /* a longer path could not be opened with one more name */
    WATCHED = IN_CREATE | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK
};

/* A folder that is watched already, under an old name perhaps, has the same descriptor again and gets its new path. */
static int add_watch(struct latecomers *l, int dir, const char *path, uint32_t more) {
    char link[32];
    int wd;

    if (l->inotify < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    wd = inotify_add_watch(l->inotify, link, WATCHED | IN_MASK_ADD | more);
    if (wd >= 0)
        return wdtable_set(&l->paths, wd, path);
    return l->o.covers ? -errno : 0; /* nothing is hidden here: only landings are seen late */
}

/* Made by the command itself, in a folder of dependencies. Elsewhere it cannot make hidden names, so they are the host's. */
static bool is_own(const struct latecomers *l, const char *path, bool is_dir) {
    return l->o.no_new && ignore_match(l->o.no_new, path, is_dir) != IGNORE_EXCLUDED && made_has(&l->made, l->o.workspace, path);
}

static bool is_hidden(const struct latecomers *l, const char *path, bool is_dir) {
    return ignore_match(l->o.rules, path, is_dir) == IGNORE_EXCLUDED ||
           (l->o.accepted && ignore_match(l->o.accepted, path, is_dir) == IGNORE_EXCLUDED);
}

bool latecomers_hides(const struct latecomers *l, const char *path) {
    return l->o.rules && is_hidden(l, path, false);
}

/* What the host has there is not shown, whatever it is. Where a mount shows it a second time it is looked at all the same. */
static bool is_out_of_sight(const struct latecomers *l, const char *path) {
    if (l->o.elsewhere && l->o.elsewhere->n)
        return false;
    for (size_t i = 0; i < l->mounted.len; i++) {
        size_t n = strlen(l->mounted.v[i]);

        if (strncmp(path, l->mounted.v[i], n) == 0 && (!path[n] || path[n] == '/'))
            return true;
    }
    return l->masked.len && bsearch(&path, l->masked.v, l->masked.len, sizeof path, str_compare);
}

int late_judge(struct latecomers *l, const char *path, bool is_dir) {
    if (l->o.landing) {
        int r = landing_see(l->o.landing, path, is_dir);

        if (r < 0)
            return r;
    }
    if (!l->o.covers)
        return is_dir ? strv_add(&l->queue, path) : 0;
    if (is_out_of_sight(l, path))
        return 0;
    if (is_hidden(l, path, is_dir) && !is_own(l, path, is_dir))
        return strv_add(&l->found, path);
    if (!is_dir)
        return 0;
    return strv_add(strlen(path) > FOLDER_MAX ? &l->found : &l->queue, path);
}

static char *path_in(const char *dir, const char *name) {
    return *dir ? str_dupf("%s/%s", dir, name) : strdup(name);
}

static int open_watched(const struct latecomers *l, const char *path) {
    int fd = *path ? safepath_open(l->o.workspace, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK)
                   : openat(l->o.workspace, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd == -1 ? -errno : fd;
}

/* The folder above reports changes of the mode. Only there: setting a file's times is the same event, and any process may do that. */
static int wait_for_opening(struct latecomers *l, const char *path) {
    const char *slash = strrchr(path, '/');
    CLEANUP(freep) char *above = strndup(path, slash ? (size_t)(slash - path) : 0);
    CLEANUP(closep) int fd = -1;

    if (!above)
        return -ENOMEM;
    fd = open_watched(l, above);
    return fd < 0 ? 0 : add_watch(l, fd, above, IN_ATTRIB);
}

/* The folder is there and cannot be read: it is not shown. The command or the host could open it again. */
static int close_folder(struct latecomers *l, const char *path, int why) {
    int r = 0;

    if (!l->o.covers)
        return 0;
    if (!l->reported_closed)
        log_line("the folder '%s' cannot be watched for hidden files (%s), so it is not shown inside", path, strerror(-why));
    l->reported_closed = true;
    if (l->o.upper < 0 && !strv_has(&l->closed, path) && l->closed.len < CLOSED_MAX) {
        r = strv_add(&l->closed, path);
        r = r < 0 ? r : wait_for_opening(l, path);
    }
    return r < 0 ? r : strv_add(&l->found, path);
}

static int open_closed(struct latecomers *l, const char *path) {
    for (size_t i = 0; i < l->closed.len; i++)
        if (str_eq(l->closed.v[i], path)) {
            char *s = l->closed.v[i];

            l->closed.v[i] = l->closed.v[--l->closed.len];
            l->closed.v[l->closed.len] = NULL;
            return strv_add_take(&l->opened, s);
        }
    return 0;
}

static int failed_open(struct latecomers *l, const char *path, int r) {
    switch (r) {
    case -ENOENT:
    case -ENOTDIR:
    case -ELOOP: /* removed or replaced meanwhile: there is an event for it */
        return 0;
    case -EMFILE:
    case -ENFILE:
    case -ENOMEM:
        return r;
    default:
        return *path ? close_folder(l, path, r) : r;
    }
}

/* Watched first, read afterwards: nothing is missed in between. What was hidden at the start is found again here and is
 * covered already. */
int late_walk_folder(struct latecomers *l, const char *path) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int r = dir_take(open_watched(l, path), &d);
    const struct dirent *e;

    if (r < 0)
        return failed_open(l, path, r);
    r = add_watch(l, d.fd, path, 0);
    r = r < 0 ? r : open_closed(l, path);
    while (r == 0 && (e = dir_next(&d))) {
        CLEANUP(freep) char *each = path_in(path, e->d_name);

        r = each ? late_judge(l, each, dir_type(&d, e) == DT_DIR) : -ENOMEM;
    }
    /* -ENOENT: it was removed meanwhile */
    return r == 0 && d.error && d.error != -ENOENT ? failed_open(l, path, d.error) : r;
}

static int on_event(struct latecomers *l, const struct inotify_event *ev) {
    CLEANUP(freep) char *path = NULL;
    const char *dir = wdtable_get(&l->paths, ev->wd);
    bool is_dir = ev->mask & IN_ISDIR;

    l->again |= (ev->mask & IN_Q_OVERFLOW) != 0;
    if (ev->mask & IN_IGNORED)
        wdtable_remove(&l->paths, ev->wd);
    if ((ev->mask & (IN_Q_OVERFLOW | IN_IGNORED)) || !dir || ev->len == 0)
        return 0;
    if ((ev->mask & IN_ATTRIB) && (!is_dir || l->closed.len == 0))
        return 0;
    path = path_in(dir, ev->name);
    if (!path)
        return -ENOMEM;
    if (ev->mask & IN_ATTRIB)
        return strv_has(&l->closed, path) ? strv_add(&l->queue, path) : 0;
    if (l->o.landing && (ev->mask & IN_MOVED_TO) && !is_dir)
        landing_arrive(l->o.landing, path);
    return late_judge(l, path, is_dir);
}

/* 1: there were some. */
static int read_some(struct latecomers *l) {
    char buf[EVENTS_SIZE] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t n = read(l->inotify, buf, sizeof buf);
    int r = 0;

    for (ssize_t i = 0; r == 0 && i < n;) {
        const struct inotify_event *ev = (const struct inotify_event *)(buf + i);

        r = on_event(l, ev);
        i += (ssize_t)(sizeof *ev + ev->len);
    }
    return r < 0 ? r : n > 0;
}

int late_read_events(struct latecomers *l, bool all) {
    int r = l->inotify < 0 ? 0 : read_some(l);

    l->pause_ms = r == 1 ? clock_ms() + LATECOMERS_PAUSE_MS : 0;
    for (int i = 1; r == 1 && all && i < READS_MAX; i++)
        r = read_some(l);
    return r < 0 ? r : 0;
}
