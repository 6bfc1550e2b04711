/* SPDX-License-Identifier: Apache-2.0 */
/* Hidden files that git tracks: instead of an empty cover, or of nothing, a lookalike (os/lookalike.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "jail/apply/apply_priv.h"
#include "jail/apply/jail_apply.h"
#include "jail/apply/mask.h"
#include "jail/plan/plan.h"
#include "os/dir.h"
#include "os/fd.h"
#include "os/mountapi.h"

enum { ATTRS = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY };

static bool is_file(const struct step *s) {
    return s->tracked.n == 1 && str_eq(s->tracked.v->path, s->from);
}

/* Made where /proc will be, like the covers; and cloned, because the root is not sealed yet. */
static int make_cover(struct launch *l, const struct step *s) {
    const char *slash = strrchr(s->from, '/');
    size_t folder = !is_file(s) ? strlen(s->from) + 1 : slash ? (size_t)(slash + 1 - s->from) : 0;
    int *tree = &l->trees[s - l->plan->steps], r;
    CLEANUP(closep) int dir = -1;
    char name[32];

    snprintf(name, sizeof name, "proc/tracked-%zu", (size_t)(s - l->plan->steps));
    r = dir_make(l->root_fd, name, 0755, 0755);
    if (r < 0)
        return r;
    dir = openat(l->root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    r = lookalikes_make(s->tracked, folder, dir);
    if (r < 0)
        return r;
    *tree = mount_clone(dir, is_file(s) ? s->from + folder : "", false);
    return *tree < 0 ? *tree : mount_restrict(*tree, ATTRS, false);
}

int apply_tracked(struct launch *l) {
    for (size_t i = 0; i < l->plan->n_steps; i++) {
        const struct step *s = &l->plan->steps[i];
        int r = s->kind == STEP_HIDE && s->tracked.n ? make_cover(l, s) : 0;

        if (r < 0)
            return err_sys(&l->err, r, "cover for '%s'", s->to);
    }
    return 0;
}

/* Overlayfs merges a folder of the mask with the host's unless it is marked; before Linux 6.6 that cannot be done in memory. */
static int mark_opaque(int mask, const char *path) {
    CLEANUP(closep) int fd = -1;

    if (mkdirat(mask, path, 0755) < 0)
        return -errno;
    fd = openat(mask, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) == 0)
        return 0;
    return unlinkat(mask, path, AT_REMOVEDIR) < 0 ? -errno : -EOPNOTSUPP;
}

int mask_tracked(int mask, int lower, const struct step *s) {
    int r = mask_parents(s->from, mask, lower, mask_dir);

    if (r == 0 && !is_file(s))
        r = mark_opaque(mask, s->from);
    return r < 0 ? mask_path(mask, lower, s->from) : lookalikes_make(s->tracked, 0, mask);
}
