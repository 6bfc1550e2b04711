/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the folder of a writable system ready for a start. */
#include "supervisor/session/system_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/plan/plan.h"
#include "jail/plan/plan_system.h"
#include "os/fd.h"
#include "os/file.h"
#include "os/user/idspace.h"

/* One of these files says that the first start is over. */
#define FILLED "filled"
#define OF_IMAGE "image"

static int make_folder(int dir, const char *name, mode_t mode) {
    return mkdirat(dir, name, mode) < 0 && errno != EEXIST ? -errno : 0;
}

static int remove_folder(int dir, const char *name) {
    int r = idspace_remove_tree(dir, name);

    return r == -ENOENT ? 0 : r;
}

/* upper/ stays; overlayfs refuses the work/ that a volatile one left. */
static int make_layer(int dir, const char *name) {
    CLEANUP(closep) int fd = -1;
    int r = make_folder(dir, name, 0700);

    if (r < 0)
        return r;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    r = make_folder(fd, "upper", 0755);
    if (r == 0 && fchmodat(fd, "upper", 0755, 0) < 0) /* whatever the umask is */
        r = -errno;
    r = r < 0 ? r : remove_folder(fd, "work");
    return r < 0 ? r : make_folder(fd, "work", 0700);
}

static int make_layers(int dir, const struct plan *plan) {
    char name[PLAN_SYSTEM_NAME];
    int r = make_layer(dir, "root");

    for (size_t i = 0; r == 0 && i < plan->n_steps; i++) {
        if (plan->steps[i].kind != STEP_COW)
            continue;
        plan_system_name(plan->steps[i].to, name);
        r = str_eq(plan->steps[i].to, PLAN_SYSTEM_CERTS) ? remove_folder(dir, name) : 0;
        r = r < 0 ? r : make_layer(dir, name);
    }
    return r;
}

static int make_mark(int dir, const char *name) {
    CLEANUP(closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : 0;
}

static bool has_mark(int dir, const char *name) {
    return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The layers of an image are the inside's from the first start on, so they are never filled later. */
static int fill_once(int dir, const struct plan *plan, struct err *err) {
    bool filled = has_mark(dir, FILLED), of_image = has_mark(dir, OF_IMAGE);
    int r = 0;

    if (plan->image ? filled : of_image)
        return err_set(err, -EEXIST,
                       "the system of this sandbox was made %s an image, and cannot be used %s one; start another sandbox",
                       filled ? "without" : "with", filled ? "with" : "without");
    if (filled || of_image)
        return 0;
    r = plan->image ? 0 : system_fill(dir, plan, err);
    if (r < 0)
        return r;
    r = make_mark(dir, plan->image ? OF_IMAGE : FILLED);
    return r < 0 ? err_sys(err, r, "folder of the system") : 0;
}

/* Files of ids that are not mapped would be the host's to the inside, which it could not remove. */
static int check_ids(int dir, const struct plan *plan, struct err *err) {
    const struct plan_ids *ids = &plan->ids;
    char now[64] = "", made[64] = "";

    if (plan_ids_many(ids))
        snprintf(now, sizeof now, "%u %u %u %u", ids->more_uids.first, ids->more_uids.n, ids->more_gids.first, ids->more_gids.n);
    if (file_line(dir, PLAN_SYSTEM_IDS, made, sizeof made) <= 0)
        return !*now                                                                  ? 0
               : file_replace_at(dir, PLAN_SYSTEM_IDS, 0600, 0, now, strlen(now)) < 0 ? err_sys(err, -EIO, "folder of the system")
                                                                                      : 0;
    return str_eq(now, made)
               ? 0
               : err_set(err, -EEXIST,
                         "the system of this sandbox was made with several ids of yours (%s), which it does not have now: use "
                         "--system-ids many and the workspace mode of then, or start another sandbox",
                         made);
}

char *system_dir_path(const char *home, const char *private_dir) {
    const char *last = home ? strrchr(home, '/') : NULL;

    return last ? str_dupf("%.*s/" PLAN_SYSTEM, (int)(last - home), home) : str_dupf("%s/" PLAN_SYSTEM, private_dir);
}

int system_dir_make(const char *path, const struct plan *plan, struct err *err) {
    CLEANUP(closep) int dir = -1;
    int r = make_folder(AT_FDCWD, path, 0700);

    dir = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (r == 0 && dir < 0)
        r = -errno;
    if (r == 0 && (r = check_ids(dir, plan, err)) < 0)
        return r;
    r = r < 0 ? r : make_layers(dir, plan);
    return r < 0 ? err_sys(err, r, "folder of the system '%s'", path) : fill_once(dir, plan, err);
}
