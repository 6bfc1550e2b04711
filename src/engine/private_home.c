/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the steps of plan_bare.c: files, folders and links in the home of a sandbox and in the folder beside it. The home of a persistent sandbox was
 * the inside's in an earlier life: every path is gone one name at a time and no link is followed, and what the inside has there stays, but for links to
 * the private folder of an earlier life.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/pathtext.h"
#include "base/str.h"
#include "engine/private_dir.h"
#include "jail/plan/plan.h"
#include "os/fd.h"

static int give(const struct plan *p, int dir, const char *name) {
    if (!p->ids.by_root)
        return 0;
    return fchownat(dir, name, p->ids.host_uid, p->ids.host_gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* The folder of this name, made if there is nothing. */
static int step_into(const struct plan *p, int dir, const char *name, mode_t mode) {
    int fd, r = 0;

    if (mkdirat(dir, name, mode) == 0)
        r = give(p, dir, name);
    else if (errno != EEXIST)
        r = -errno;
    if (r < 0)
        return r;
    fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The folder that the last name of the path is in, and that name. */
static int walk_to(const struct plan *p, const char *top, const char *path, char name[static NAME_MAX + 1]) {
    CLEANUP(closep) int dir = open(top, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *rest = path + strlen(top) + 1;
    int r;

    if (dir < 0)
        return -errno;
    while ((r = path_next(&rest, name)) > 0) {
        int next = step_into(p, dir, name, 0755);

        if (next < 0)
            return next;
        closep(&dir);
        dir = next;
    }
    return r < 0 ? r : TAKE_FD(dir);
}

static int make_file(const struct plan *p, int dir, const char *name, const struct step *s) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, s->mode);
    int r;

    if (fd < 0)
        return -errno;
    r = fd_write_all(fd, s->from, strlen(s->from));
    if (r == 0 && fchmod(fd, s->mode) < 0)
        r = -errno;
    return r < 0 ? r : give(p, dir, name);
}

static int make_link(const struct plan *p, int dir, const char *name, const struct step *s) {
    char old[PATH_MAX];
    ssize_t n = readlinkat(dir, name, old, sizeof old - 1);

    if (n >= 0) {
        old[n] = 0;
        if (strstr(old, "/" PRIVATE_DIR_PREFIX) && unlinkat(dir, name, 0) < 0)
            return -errno;
    }
    return symlinkat(s->from, dir, name) < 0 ? -errno : give(p, dir, name);
}

static int make_step(const struct plan *p, const char *top, const struct step *s) {
    char name[NAME_MAX + 1];
    CLEANUP(closep) int dir = walk_to(p, top, s->to, name), made = -1;

    if (dir < 0)
        return dir;
    if (s->kind == STEP_FILE)
        return make_file(p, dir, name, s);
    if (s->kind == STEP_SYMLINK)
        return make_link(p, dir, name, s);
    made = step_into(p, dir, name, s->mode ? s->mode : 0755);
    return made < 0 ? made : 0;
}

int private_home_fill(const struct plan *p, struct err *err) {
    for (size_t i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        bool at_home = str_below(s->to, p->home);
        int r;

        if ((s->kind != STEP_FILE && s->kind != STEP_SYMLINK && s->kind != STEP_DIR) || (!at_home && !str_below(s->to, p->run)))
            continue;
        r = make_step(p, at_home ? p->home : p->run, s);
        if (at_home && (p->home_persistent || r == -ENOTDIR || r == -ELOOP)) /* an offer; or below a link to a cache */
            continue;
        if (r < 0)
            return err_sys(err, r, "make '%s' for the sandbox", s->to);
    }
    return 0;
}
