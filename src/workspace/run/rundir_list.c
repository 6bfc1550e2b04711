/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/file.h"
#include "workspace/run/rundir_priv.h"

static int read_info(int dir, struct run_info *ret, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(RUN_INFO_MAX);
    int r = file_read_at(dir, RUNDIR_JSON, 0, &text);

    return r < 0 ? file_err(err, r, RUNDIR_JSON, RUN_INFO_MAX) : run_info_parse(buf_str(&text), text.len, ret, err);
}

static int open_folder(int runs, const char *name, struct err *err) {
    CLEANUP(closep) int fd = openat(runs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? -ENOENT : err_sys(err, -errno, "open the folder of run '%s'", name);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "the folder of run '%s' belongs to user %u, not to you", name, (unsigned)st.st_uid);
    return TAKE_FD(fd);
}

/* Shared, and given back at once; who wants to have it tries more than once. */
static bool is_busy(int dir) {
    CLEANUP(closep) int fd = openat(dir, RUNDIR_LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

static void entry_done(struct rundir_entry *e) {
    free(e->name);
    run_info_done(&e->info);
    *e = (struct rundir_entry){0};
}

void rundir_list_done(struct rundir_list *l) {
    for (size_t i = 0; i < l->n; i++)
        entry_done(&l->v[i]);
    free(l->v);
    *l = (struct rundir_list){0};
}

/* Hidden names are of creations and removals; others are no run's. Returns 1 if there is an entry. */
static int look_at(int runs, const char *name, const char *workspace, struct rundir_entry *ret) {
    CLEANUP(entry_done) struct rundir_entry e = {0};
    CLEANUP(closep) int dir = -1;

    if (rundir_check_name(name, NULL) < 0)
        return 0;
    dir = open_folder(runs, name, NULL);
    if (dir < 0 || read_info(dir, &e.info, NULL) < 0)
        return 0;
    if (workspace && !str_eq(e.info.workspace, workspace))
        return 0;
    e.busy = is_busy(dir);
    e.name = strdup(name);
    if (!e.name)
        return -ENOMEM;
    *ret = TAKE(e, (struct rundir_entry){0});
    return 1;
}

static uint64_t last_sign(const struct run_info *i) {
    return i->ended_ns ? i->ended_ns : i->begun_ns;
}

static int newest_first(const void *a, const void *b) {
    const struct rundir_entry *x = a, *y = b;
    uint64_t p = last_sign(&x->info), q = last_sign(&y->info);

    return p != q ? (p < q) - (p > q) : strcmp(x->name, y->name);
}

static int list_folder(struct dir *d, const char *workspace, struct rundir_list *ret) {
    const struct dirent *e;
    int r = 0;

    while (r >= 0 && (e = dir_next(d))) {
        CLEANUP(entry_done) struct rundir_entry entry = {0};

        r = look_at(d->fd, e->d_name, workspace, &entry);
        if (r == 1)
            r = VEC_ADD(ret->v, ret->n, TAKE(entry, (struct rundir_entry){0}));
    }
    return r < 0 ? r : d->error;
}

int rundir_list(const char *runs, const char *workspace, struct rundir_list *ret, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    int fd = rundir_open_runs(runs, false, err), r;

    if (fd == -ENOENT) {
        *ret = l;
        return 0;
    }
    if (fd < 0)
        return fd;
    r = dir_take(fd, &d);
    r = r < 0 ? r : list_folder(&d, workspace, &l);
    if (r < 0)
        return err_sys(err, r, "list the runs in '%s'", runs);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, newest_first);
    *ret = TAKE(l, (struct rundir_list){0});
    return 0;
}

static int no_such_run(const char *runs, const char *name, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    CLEANUP(freep) const char **names = NULL;
    const char *nearest;

    if (rundir_list(runs, NULL, &l, NULL) < 0)
        l = (struct rundir_list){0};
    names = calloc(l.n + 1, sizeof *names);
    if (!names)
        return err_oom(err);
    for (size_t i = 0; i < l.n; i++)
        names[i] = l.v[i].name;
    nearest = str_nearest(name, names, l.n);
    if (nearest)
        return err_set(err, -ENOENT, "there is no run '%s'; do you mean '%s'?", name, nearest);
    return err_set(err, -ENOENT, "there is no run '%s'", name);
}

int rundir_open(const char *runs, const char *name, bool lock, struct rundir *ret, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(closep) int dir = -1;
    int r = rundir_check_name(name, err);

    if (r < 0)
        return r;
    dir = rundir_open_runs(runs, false, err);
    if (dir < 0)
        return dir == -ENOENT ? no_such_run(runs, name, err) : dir;
    rd.fd = open_folder(dir, name, err);
    if (rd.fd < 0)
        return rd.fd == -ENOENT ? no_such_run(runs, name, err) : rd.fd;
    rd.name = strdup(name);
    rd.path = str_dupf("%s/%s", runs, name);
    if (!rd.name || !rd.path)
        return err_oom(err);
    r = lock ? rundir_take_lock(dir, &rd, err) : 0;
    if (r == -EBUSY)
        return r;
    r = r < 0 ? r : read_info(rd.fd, &rd.info, err);
    if (r < 0)
        return r == -ENOENT ? no_such_run(runs, name, err) : err_ctx(err, r, "run '%s'", name);
    *ret = TAKE(rd, (struct rundir)RUNDIR_INIT);
    return 0;
}

int rundir_latest(const char *runs, const char *workspace, bool lock, struct rundir *ret, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    int r = rundir_list(runs, workspace, &l, err);

    if (r < 0)
        return r;
    if (l.n == 0)
        return err_set(err, -ENOENT, "no run of '%s' has left anything", workspace);
    return rundir_open(runs, l.v[0].name, lock, ret, err);
}

static int remove_run(const char *runs, const char *name, struct err *err) {
    struct rundir rd = RUNDIR_INIT;
    int r = rundir_open(runs, name, true, &rd, err);

    if (r < 0)
        return r == -EBUSY || r == -ENOENT ? 0 : r; /* another process was quicker */
    return rundir_remove(&rd, err);
}

int rundir_prune(const char *runs, const char *workspace, size_t keep, struct err *err) {
    CLEANUP(rundir_list_done) struct rundir_list l = {0};
    int r = rundir_list(runs, workspace, &l, err);

    for (size_t i = 0; r >= 0 && i < l.n; i++) {
        const struct rundir_entry *e = &l.v[i];

        if (e->info.named || e->info.mode != WORKSPACE_DIRECT)
            continue;
        if (keep > 0)
            keep--;
        else if (!e->busy)
            r = remove_run(runs, e->name, err);
    }
    return r;
}
