/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the files of a run back to its user. */
#include "workspace/run/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "os/file.h"
#include "os/user/idspace.h"
#include "workspace/copy/walk.h"

#define SETTLE_MARK "ids"

struct settle_work {
    int dir;
    struct id_map map;
};

int settle_expect(int dir, struct err *err) {
    int r = file_replace_at(dir, SETTLE_MARK, 0600, 0, "", 0);

    return r < 0 ? err_sys(err, r, "folder of the run") : 0;
}

bool settle_is_due(int dir) {
    return faccessat(dir, SETTLE_MARK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_others(const struct id_extent *e, uint32_t id) {
    return id >= e->outside && id - e->outside < e->n;
}

/* Ids of others are as outside in there (idspace_own()), and 0 is the user. Groups of the user's that are not mapped stay as they are. */
static int give_back(const struct walk_entry *e, void *arg, struct err *err) {
    const struct settle_work *w = arg;
    bool uid = is_others(&w->map.uids[1], e->st.st_uid), gid = is_others(&w->map.gids[1], e->st.st_gid);

    if (!uid && !gid)
        return WALK_ON;
    if (fchownat(e->dir, e->name, uid ? 0 : (uid_t)-1, gid ? 0 : (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
        return err_sys(err, -errno, "give back '%s'", e->path);
    return WALK_ON;
}

static int settle_in_space(void *arg) {
    struct settle_work *w = arg;
    const struct walk_ops ops = {.found = give_back, .arg = w, .pry = true};
    struct err ignored = {0};

    return walk_tree(w->dir, NULL, &ops, &ignored);
}

int settle_run(int dir, struct err *err) {
    struct settle_work w = {.dir = dir};
    int r;

    if (!settle_is_due(dir))
        return 0;
    r = idspace_own(&w.map);
    r = r < 0 ? r : idspace_run(&w.map, settle_in_space, &w);
    if (r < 0)
        return err_sys(err, r, "give files of other ids in the run's folder back to you (by /etc/subuid and newuidmap)");
    return unlinkat(dir, SETTLE_MARK, 0) < 0 && errno != ENOENT ? err_sys(err, -errno, "folder of the run") : 0;
}
