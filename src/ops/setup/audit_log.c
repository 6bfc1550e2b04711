/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the folder of the audit log, and waits for more. */
#include "ops/setup/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "registry/registry.h"

enum { PAUSE_US = 50 * 1000, NAME_CUT = 80 };

/* Names of runs and sandboxes, and ids. */
static int check_sandbox_name(const char *name, struct err *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    CLEANUP(freep) char *cut = strndup(name, NAME_CUT);
    CLEANUP(buf_done) struct buf shown = BUF_INIT(8 * NAME_CUT);

    if (name[0] && strlen(name) <= NAME_CUT && strspn(name, letters) == strlen(name) && !strchr("-_.", name[0]))
        return 0;
    buf_add_printable(&shown, cut ? cut : "");
    return err_usage(err, "'%s' is not the name of a sandbox", buf_str(&shown));
}

/* The id of a sandbox that has got another name since. */
static char *find_id(const char *name, const char *home) {
    CLEANUP(box_done) struct box box = BOX_INIT;
    CLEANUP(freep) char *boxes = NULL;

    if (registry_folder(environ, home, &boxes, NULL) < 0 || !boxes || registry_open(boxes, name, false, &box, NULL) < 0)
        return NULL;
    return TAKE_PTR(box.info.id);
}

static int watch_folder(int dir, int *ret, struct err *err) {
    char path[64];
    int fd = inotify_init1(IN_CLOEXEC);

    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0) {
        int r = err_sys(err, -errno, "watch the audit log");

        closep(&fd);
        return r;
    }
    *ret = fd;
    return 0;
}

/* Many events come at once. Returns 0 when the reader is gone. */
static int wait_for_more(int events, int reader) {
    struct pollfd p[2] = {{.fd = events, .events = POLLIN}, {.fd = reader, .events = 0}};
    char some[4096];

    while (poll(p, 2, -1) < 0)
        if (errno != EINTR)
            return -errno;
    if (p[1].revents & (POLLERR | POLLHUP))
        return 0;
    usleep(PAUSE_US);
    return fd_read_some(events, some, sizeof some) < 0 ? -EIO : 1;
}

static int no_such_name(const char *name, const struct view *view, struct err *err) {
    const struct strv *names = view_names(view);
    const char *near = str_nearest(name, (const char *const *)names->v, names->len);

    return err_set(err, -ENOENT,
                   near ? "no sandbox '%s' in the audit log; did you mean '%s'?"
                        : "no sandbox '%s' in the audit log; see 'bawn log'",
                   name, near);
}

static int read_lines(const struct audit_log_request *q, int dir, audit_log_fn *fn, void *arg, struct err *err) {
    CLEANUP(view_freep) struct view *view = NULL;
    CLEANUP(closep) int events = -1;
    struct view_line *v;
    size_t n, skip;
    int r = q->follow ? watch_folder(dir, &events, err) : 0;

    r = r < 0 ? r : view_new(dir, &view, err);
    r = r < 0 ? r : view_collect(view, &q->filter, &v, &n, err);
    if (r < 0)
        return r;
    if (q->filter.name && !view_saw(view) && !q->follow)
        return no_such_name(q->filter.name, view, err);
    skip = q->tail && n > q->tail ? n - q->tail : 0;
    r = fn(v + skip, n - skip, arg, err);
    while (r >= 0 && q->follow && wait_for_more(events, q->reader) > 0) {
        r = view_collect(view, &q->filter, &v, &n, err);
        r = r < 0 ? r : fn(v, n, arg, err);
    }
    return r;
}

/* *ret_dir -1: there is none yet. */
static int open_log_folder(const char *home, bool make, char **ret_path, int *ret_dir, struct err *err) {
    int r = paths_state(environ, home, "audit", ret_path, err);

    *ret_dir = -1;
    if (r == 0 && *ret_path && make)
        r = paths_make_dirs(*ret_path, err);
    if (r < 0 || !*ret_path)
        return r;
    *ret_dir = open(*ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret_dir < 0 && errno != ENOENT ? err_sys(err, -errno, "open '%s'", *ret_path) : 0;
}

int audit_log_read(struct audit_log_request *q, audit_log_fn *fn, void *arg, struct err *err) {
    CLEANUP(freep) char *home = NULL, *folder = NULL, *id = NULL;
    CLEANUP(closep) int dir = -1;
    int r = q->filter.name ? check_sandbox_name(q->filter.name, err) : 0;

    r = r < 0 ? r : paths_home(environ, &home, err);
    r = r < 0 ? r : open_log_folder(home, q->follow, &folder, &dir, err);
    if (r < 0 || !folder)
        return r;
    if (dir < 0)
        return q->filter.name ? err_set(err, -ENOENT, "no sandbox '%s' in the audit log", q->filter.name) : 0;
    id = q->filter.name ? find_id(q->filter.name, home) : NULL;
    q->filter.id = id;
    r = read_lines(q, dir, fn, arg, err);
    q->filter.id = NULL;
    return r;
}

int audit_log_verify(struct verify *ret, char **ret_missing, struct err *err) {
    CLEANUP(freep) char *home = NULL, *folder = NULL;
    CLEANUP(closep) int dir = -1;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : open_log_folder(home, false, &folder, &dir, err);
    if (r < 0 || !folder)
        return r;
    if (dir >= 0)
        return verify_folder(dir, ret, err);
    *ret_missing = TAKE_PTR(folder);
    return 0;
}
