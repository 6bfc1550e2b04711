/* SPDX-License-Identifier: Apache-2.0 */
/* Empty caches, handed on by their names: a rename succeeds for one of those who try. */
#include "service/task/taskspare.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "jail/plan/plan.h"
#include "os/dir.h"
#include "os/fd.h"
#include "supervisor/session/volumes.h"

enum { SPARES_MAX = 64, FRESH_MODE = 0755 };

#define SPARES "spare-volumes"
#define CACHE "cache"

void taskspare_done(struct taskspare *s) {
    free(s->volumes);
    free(s->spares);
    *s = (struct taskspare){0};
}

void taskspare_find(struct taskspare *ret) {
    char workspace[PATH_MAX];
    const char *home = getenv("HOME");
    struct err ignored = {0};

    *ret = (struct taskspare){0};
    if (!getcwd(workspace, sizeof workspace) || volumes_path(environ, home, workspace, &ret->volumes, &ignored) < 0 ||
        paths_state_if_home(environ, home, SPARES, &ret->spares, &ignored) < 0 || !ret->volumes || !ret->spares)
        taskspare_done(ret);
}

void taskspare_take(const struct taskspare *s) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    if (!s->spares || dir_open_linked(s->spares, &d) < 0)
        return;
    while ((e = dir_next(&d)))
        if (renameat2(d.fd, e->d_name, AT_FDCWD, s->volumes, RENAME_NOREPLACE) == 0 || errno != ENOENT)
            return; /* ENOENT: another run was faster */
}

/* -- as it was made ---------------------------------------------------------------------------------------------------------- */

static bool is_known(const char *name) {
    for (size_t i = 0; i < n_plan_caches; i++)
        if (plan_caches[i].sub && str_eq(plan_caches[i].sub, name))
            return true;
    return false;
}

/* How many entries it has, each of which `fits`; -1: it is not as it was made. mode 0: any. */
static int count_fresh(int at, const char *name, mode_t mode, bool (*fits)(int dir, const char *name)) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    struct stat st;
    int n = 0;

    if (dir_open_at(at, name, &d) < 0 || fstat(d.fd, &st) < 0 || st.st_uid != geteuid() || st.st_gid != getegid() ||
        (mode && (st.st_mode & 07777) != mode) || flistxattr(d.fd, NULL, 0) != 0)
        return -1;
    for (; (e = dir_next(&d)); n++)
        if (!fits(d.fd, e->d_name))
            return -1;
    return d.error < 0 ? -1 : n;
}

static bool nothing_fits(int dir UNUSED, const char *name UNUSED) {
    return false;
}

static bool is_empty_cache(int dir, const char *name) {
    return is_known(name) && count_fresh(dir, name, FRESH_MODE, nothing_fits) == 0;
}

static bool is_fresh_cache(int dir, const char *name) {
    int all = 0;

    for (size_t i = 0; i < n_plan_caches; i++)
        all += plan_caches[i].sub != NULL;
    return str_eq(name, CACHE) && count_fresh(dir, name, FRESH_MODE, is_empty_cache) == all;
}

/* So many that those which run at once find one, and not more. */
static bool has_room(int spares) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    size_t n = 0;

    if (dir_open_at(spares, ".", &d) < 0)
        return false;
    while (dir_next(&d))
        n++;
    return n < SPARES_MAX;
}

void taskspare_give(const struct taskspare *s) {
    CLEANUP(closep) int spares = -1;
    const char *name = s->volumes ? strrchr(s->volumes, '/') : NULL;

    if (!name || count_fresh(AT_FDCWD, s->volumes, 0, is_fresh_cache) != 1)
        return;
    if (mkdir(s->spares, 0700) < 0 && errno != EEXIST)
        return;
    spares = open(s->spares, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (spares >= 0 && has_room(spares))
        renameat2(AT_FDCWD, s->volumes, spares, name + 1, RENAME_NOREPLACE);
}
