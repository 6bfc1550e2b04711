/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bawn-task --watch`: what changes below the current directory, one event on a line (spec/openapi.yaml, Event). Folders are found by descriptors
 * that follow no link. Past WATCH_MAX folders, or if the kernel drops events, an event says so: its change is "lost".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/safepath.h"
#include "service/task/taskevents.h"
#include "service/task/taskfiles_priv.h"

enum { WATCH_MAX = 8192, WATCH_DEPTH = 128, LINE_SPACE = 64 * 1024 };
#define WATCH_EVENTS \
    (IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

struct watched_folder {
    int wd;
    char *path; /* "" is the top */
};

struct file_watch {
    int fd;
    struct watched_folder *v;
    size_t n;
};

static int say_event(const char *path, const char *change) {
    CLEANUP(buf_done) struct buf data = BUF_INIT(LINE_SPACE);
    CLEANUP(buf_done) struct buf line = BUF_INIT(LINE_SPACE);

    buf_adds(&data, "{\"path\":");
    buf_add_json(&data, path);
    buf_addf(&data, ",\"change\":\"%s\"}", change);
    taskevents_object(&line, "file", buf_str(&data));
    return buf_ok(&data) && buf_ok(&line) ? fd_write_all(STDOUT_FILENO, line.data, line.len) : 0;
}

static int watch_one(struct file_watch *w, int dir, const char *path) {
    struct watched_folder f = {.path = strdup(path)};
    char proc[64];

    snprintf(proc, sizeof proc, "/proc/self/fd/%d/.", dir);
    f.wd = f.path ? inotify_add_watch(w->fd, proc, WATCH_EVENTS) : -1;
    for (size_t i = 0; i < w->n && f.wd >= 0; i++)
        if (w->v[i].wd == f.wd) { /* it was moved */
            free(w->v[i].path);
            w->v[i].path = f.path;
            return 0;
        }
    if (f.wd < 0 || VEC_ADD(w->v, w->n, f) < 0) {
        free(f.path);
        return -ENOSPC;
    }
    return 0;
}

/* is_new: what is in it already is reported, too. */
static int watch_tree(struct file_watch *w, const char *path, bool is_new, int depth) {
    CLEANUP(closep) int dir = safepath_open(AT_FDCWD, path[0] ? path : ".", O_RDONLY | O_DIRECTORY);
    CLEANUP(strv_done) struct strv names = {0};
    int r;

    if (dir < 0)
        return 0; /* it is gone again, or closed to us */
    if (w->n >= WATCH_MAX || depth > WATCH_DEPTH || watch_one(w, dir, path) < 0)
        return say_event(path, "lost");
    r = dir_names(dir, ".", &names) < 0 ? say_event(path, "lost") : 0;
    for (size_t i = 0; r >= 0 && i < names.len; i++) {
        CLEANUP(freep) char *below = path[0] ? str_dupf("%s/%s", path, names.v[i]) : strdup(names.v[i]);

        if (is_new && below)
            r = say_event(below, "created");
        r = r < 0 || !below ? r : watch_tree(w, below, is_new, depth + 1);
    }
    return r;
}

static const char *change_of(uint32_t mask) {
    return mask & (IN_CREATE | IN_MOVED_TO) ? "created" : mask & (IN_DELETE | IN_MOVED_FROM) ? "removed" : "changed";
}

static const char *path_of(const struct file_watch *w, int wd) {
    for (size_t i = 0; i < w->n; i++)
        if (w->v[i].wd == wd)
            return w->v[i].path;
    return NULL;
}

static void forget_folder(struct file_watch *w, int wd) {
    for (size_t i = w->n; i-- > 0;)
        if (w->v[i].wd == wd) {
            free(w->v[i].path);
            VEC_REMOVE(w->v, w->n, i);
        }
}

static int take_event(struct file_watch *w, const struct inotify_event *e) {
    const char *folder = path_of(w, e->wd);
    CLEANUP(freep) char *path = folder && e->len ? str_dupf("%s%s%s", folder, folder[0] ? "/" : "", e->name) : NULL;
    int r;

    if (e->mask & IN_Q_OVERFLOW)
        return say_event("", "lost");
    if (e->mask & IN_IGNORED)
        forget_folder(w, e->wd);
    if (!path || e->mask & IN_IGNORED)
        return 0;
    r = say_event(path, change_of(e->mask));
    return r >= 0 && e->mask & IN_ISDIR && e->mask & (IN_CREATE | IN_MOVED_TO) ? watch_tree(w, path, true, 0) : r;
}

int taskfiles_watch(char **args UNUSED, struct err *err) {
    struct file_watch w = {.fd = inotify_init1(IN_CLOEXEC)};
    char events[16 * 1024] __attribute__((aligned(8)));
    int r = w.fd < 0 ? -errno : watch_tree(&w, "", false, 0);

    r = r < 0 ? r : say_event("", "watching"); /* from here on nothing is missed */
    while (r >= 0) {
        ssize_t n = read(w.fd, events, sizeof events);

        for (ssize_t at = 0; r >= 0 && at < n;) {
            const struct inotify_event *e = (const struct inotify_event *)(events + at);

            r = take_event(&w, e);
            at += (ssize_t)(sizeof *e + e->len);
        }
        if (n < 0 && errno != EINTR)
            r = -errno;
    }
    return err_sys(err, r, "watch the workspace");
}
