#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/paths.h"
#include "os/fd.h"
#include "os/remove.h"
#include "workspace/rundir_priv.h"

int rundir_folder(char *const *environ_, const char *home, char **ret, struct err *err) {
    /* services have a home that does not exist */
    if (!paths_getenv(environ_, "XDG_STATE_HOME") && (!home || access(home, F_OK) < 0)) {
        *ret = NULL;
        return 0;
    }
    return paths_state_if_home(environ_, home, "runs", ret, err);
}

static int check_owner(int fd, const char *runs, struct err *err) {
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(err, -errno, "stat '%s'", runs);
    if (st.st_uid != geteuid())
        return err_set(err, -EPERM, "'%s' belongs to user %u, not to you: what is in there would reach your files", runs,
                       (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return err_set(err, -EPERM, "'%s' can be written by others (mode %03o): make it 0700", runs, (unsigned)st.st_mode & 0777);
    return 0;
}

int rundir_open_runs(const char *runs, bool make, struct err *err) {
    CLEANUP(closep) int fd = -1;
    int r = make ? paths_make_dirs(runs, err) : 0;

    if (r < 0)
        return r;
    fd = open(runs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, -errno, "open the folder '%s' (a link is not followed)", runs);
    r = check_owner(fd, runs, err);
    return r < 0 ? r : TAKE_FD(fd);
}

static int random_name(const char *prefix, char ret[static 32]) {
    uint64_t n;

    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
        return -errno;
    snprintf(ret, 32, "%s%016" PRIx64, prefix, n);
    return 0;
}

int rundir_make_hidden(int runs, char ret_name[static 32], struct err *err) {
    CLEANUP(closep) int fd = -1;
    int r = random_name(RUNDIR_NEW, ret_name);

    if (r < 0 || mkdirat(runs, ret_name, 0700) < 0)
        return err_sys(err, r < 0 ? r : -errno, "make the folder of a run");
    fd = openat(runs, ret_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(err, -errno, "open the folder of a run") : TAKE_FD(fd);
}

int rundir_hide(int runs, const char *name, char ret_gone[static 32]) {
    int r = random_name(RUNDIR_GONE, ret_gone);

    if (r < 0)
        return r;
    return renameat(runs, name, runs, ret_gone) < 0 ? -errno : 0;
}

static void each_with_prefix(int runs, const char *prefix, void (*each)(int runs, const char *name)) {
    int fd = openat(runs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (str_starts(e->d_name, prefix))
            each(runs, e->d_name);
    if (d)
        closedir(d);
    else
        closep(&fd);
}

static void retire(int runs, const char *name) {
    char gone[32];

    rundir_hide(runs, name, gone);
}

void rundir_retire_new(int runs) {
    each_with_prefix(runs, RUNDIR_NEW, retire);
}

/* Whoever removes it at this moment holds a lock on the folder itself. */
static void sweep(int runs, const char *name) {
    CLEANUP(closep) int fd = openat(runs, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        remove_tree(runs, name);
}

void rundir_sweep_gone(int runs) {
    each_with_prefix(runs, RUNDIR_GONE, sweep);
}
