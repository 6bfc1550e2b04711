/* SPDX-License-Identifier: Apache-2.0 */
/* Folders on the host that are home and /tmp of one sandbox. */
#include "engine/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/plan/plan.h"
#include "os/copy.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/user/idspace.h"

enum { BUNDLE_MAX = 64 * 1024 * 1024 };

static const char prefix[] = PRIVATE_DIR_PREFIX, anyone[] = "/tmp";

/* What is mounted inside has modes that let others in, and files that the inside made set-user-ID: no other user gets there. */
static int check_place(const char *place, struct err *err) {
    int fd, r = place ? paths_make_dirs(place, err) : 0;

    if (r < 0 || !place)
        return r;
    fd = paths_open_own(place, true, "they could replace the home of a sandbox", err);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

int private_dir_make(const char *place, struct private_dir *ret, struct err *err) {
    CLEANUP(freep)
    char *path = str_dupf("%s/%s%d-%llu-XXXXXX", place ? place : anyone, prefix, (int)getpid(),
                          (unsigned long long)process_start_time(getpid()));
    CLEANUP(closep) int fd = -1;
    int r = check_place(place, err);

    if (r < 0 || !path)
        return r < 0 ? r : err_oom(err);
    if (!mkdtemp(path))
        return err_sys(err, -errno, "make a private folder in '%s'", place ? place : anyone);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0) {
        r = err_sys(err, -errno, "private folder '%s'", path);
        rmdir(path);
        return r;
    }
    *ret = (struct private_dir){.path = TAKE_PTR(path), .fd = TAKE_FD(fd)};
    return 0;
}

static int make_one(const struct plan *p, const char *path, mode_t mode, struct err *err) {
    const struct plan_ids *ids = &p->ids;
    bool give = p->rung == RUNG_LANDLOCK && ids->by_root; /* else it is idmapped */

    if (mkdir(path, 0700) < 0 || chmod(path, mode) < 0 || (give && chown(path, ids->host_uid, ids->host_gid) < 0))
        return err_sys(err, -errno, "private folder '%s'", path);
    return 0;
}

static int copy_bundle(const struct plan *p, struct err *err) {
    CLEANUP(freep)
    char *folder = str_dupf("%s/" PLAN_CERTS, p->private_dir), *path = str_dupf("%s/" PLAN_CERTS "/" PLAN_BUNDLE, p->private_dir);
    CLEANUP(closep) int from = open(p->bundle, O_RDONLY | O_CLOEXEC), to = -1;
    int r;

    if (!folder || !path)
        return err_oom(err);
    r = make_one(p, folder, 0755, err);
    if (r < 0)
        return r;
    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (from < 0 || to < 0 || fchmod(to, 0644) < 0)
        return err_sys(err, -errno, "certificates for the sandbox, '%s'", from < 0 ? p->bundle : path);
    r = copy_content(from, to, BUNDLE_MAX, NULL);
    return r < 0 ? err_sys(err, r, "copy '%s'", p->bundle) : 0;
}

int private_dir_fill(const struct plan *p, struct err *err) {
    int r = 0;

    for (size_t i = 0; r == 0 && rung_has_root(p->rung) && i < p->n_steps; i++)
        if (p->steps[i].on_disk)
            r = make_one(p, p->steps[i].from, p->steps[i].mode, err);
    if (rung_has_root(p->rung))
        return r;
    r = make_one(p, p->tmp, 0700, err);
    if (r == 0 && !p->home_persistent)
        r = make_one(p, p->home, 0700, err);
    if (r == 0 && p->bundle)
        r = copy_bundle(p, err);
    if (r == 0 && (mkdir(p->run, 0755) < 0 || chmod(p->run, 0755) < 0))
        r = err_sys(err, -errno, "private folder '%s'", p->run);
    r = r < 0 ? r : private_home_fill(p, err);
    if (r == 0 && p->ids.by_root && chown(p->private_dir, p->ids.host_uid, p->ids.host_gid) < 0)
        r = err_sys(err, -errno, "private folder '%s'", p->private_dir);
    return r;
}

void private_dir_remove(struct private_dir *d) {
    if (d->path)
        idspace_remove_tree(AT_FDCWD, d->path);
    free(TAKE_PTR(d->path));
    closep(&d->fd);
}

static bool owner_is_dead(const char *name) {
    unsigned long long start;
    int pid;

    return sscanf(name + strlen(prefix), "%d-%llu-", &pid, &start) == 2 && pid > 0 && process_is_leftover(pid, start);
}

/* A home may be shared by containers, whose pids are not ours: so the lock has to be free, too. */
static bool is_left(int dir, const char *name) {
    CLEANUP(closep) int fd = -1;
    struct stat st;

    if (!str_starts(name, prefix) || !owner_is_dead(name))
        return false;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

unsigned private_dir_sweep(const char *place) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    unsigned n = 0;

    dir_open_linked(place ? place : anyone, &d);
    while ((e = dir_next(&d)))
        if (is_left(d.fd, e->d_name))
            n += idspace_remove_tree(d.fd, e->d_name) == 0;
    return n;
}
