/* SPDX-License-Identifier: Apache-2.0 */
/* Copies folders of a sandbox that has several ids: as root of a namespace that has them, so that files keep their owners, and closed ones can be read. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/plan/plan_system.h"
#include "os/user/idspace.h"
#include "supervisor/clone/clone_priv.h"

/* Shared with the process that copies. */
struct clone_ids {
    int from, to;
    const char *name;
    struct clone_tree how;
    struct err err;
};

static int clone_in_space(void *arg) {
    struct clone_ids *c = arg;

    return clone_folder(c->from, c->to, c->name, &c->how, &c->err);
}

static int clone_shared(struct clone_ids *c, struct err *err) {
    struct id_map map;
    int r = idspace_own(&map);

    r = r < 0 ? r : idspace_run(&map, clone_in_space, c);
    if (r < 0 && c->err.code)
        *err = c->err;
    else if (r < 0)
        err_sys(err, r, "copy files of several ids (by /etc/subuid and newuidmap)");
    return r;
}

int clone_folder_of_box(int from, int to, const char *name, struct clone_tree *how, struct err *err) {
    struct clone_ids *c;
    int r;

    if (geteuid() == 0 || faccessat(from, PLAN_SYSTEM "/" PLAN_SYSTEM_IDS, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return clone_folder(from, to, name, how, err);
    c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED)
        return err_sys(err, -errno, "copy '%s'", name);
    *c = (struct clone_ids){.from = from, .to = to, .name = name, .how = *how};
    r = clone_shared(c, err);
    *how = c->how;
    munmap(c, sizeof *c);
    return r;
}
