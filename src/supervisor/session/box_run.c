/* SPDX-License-Identifier: Apache-2.0 */
/* The run that belongs to a persistent sandbox, and renaming both. */
#include "supervisor/session/box_run.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "registry/registry.h"

int box_run_open(char *const *environ_, const char *home, const struct box *b, bool lock, struct rundir *ret, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(freep) char *runs = NULL;
    int r = rundir_folder(environ_, home, &runs, err);

    if (r < 0 || !runs || access(runs, F_OK) < 0)
        return r;
    r = rundir_open(runs, b->name, false, &rd, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    if (rd.info.mode == WORKSPACE_DIRECT || !str_eq(rd.info.workspace, b->info.workspace))
        return 0;
    if (lock) { /* only now: another run of this name is not ours, and may be running */
        rundir_done(&rd);
        r = rundir_open(runs, b->name, true, &rd, err);
        if (r < 0)
            return r == -ENOENT ? 0 : r;
    }
    *ret = TAKE(rd, (struct rundir)RUNDIR_INIT);
    return 1;
}

/* A folder is only replaced by rename() if it is empty, and no run's folder ever is. */
int box_run_rename(char *const *environ_, const char *home, const struct box *b, const char *name, struct err *err) {
    CLEANUP(rundir_done) struct rundir rd = RUNDIR_INIT;
    CLEANUP(closep) int runs = -1;
    int r = box_run_open(environ_, home, b, false, &rd, err);

    if (r <= 0)
        return r;
    if (rd.info.mode == WORKSPACE_WORKTREE)
        return err_set(
            err, -EOPNOTSUPP,
            "sandbox '%s' has a worktree and a branch of that name in the repository: 'bawn apply %s' or 'bawn discard %s' "
            "first",
            b->name, b->name, b->name);
    runs = openat(rd.fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (runs >= 0 && renameat(runs, b->name, runs, name) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return err_set(err, -EEXIST, "there is a run named '%s' already; see 'bawn review %s'", name, name);
    return err_sys(err, -errno, "rename the run '%s'", b->name);
}

/* -- killed in between ---------------------------------------------------------------------------------------------------- */

/* A link that leads nowhere: "OLD/NEW", made in one step. */
static const char note[] = "renaming";

int box_rename_begin(const struct box *b, const char *name, struct err *err) {
    char text[2 * BOX_NAME_MAX + 2];

    snprintf(text, sizeof text, "%s/%s", b->name, name);
    box_rename_end(b);
    return symlinkat(text, b->fd, note) < 0 ? err_sys(err, -errno, "write down that '%s' is renamed", b->name) : 0;
}

void box_rename_end(const struct box *b) {
    unlinkat(b->fd, note, 0);
}

/* The other of the two names; NULL: none, or another sandbox has it now, and with it the run. */
static const char *other_name(const struct box *b, char *text) {
    CLEANUP(closep) int boxes = openat(b->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *slash = strchr(text, '/'), *other = text;

    if (!slash)
        return NULL;
    *slash = 0;
    if (str_eq(text, b->name))
        other = slash + 1;
    else if (!str_eq(slash + 1, b->name))
        return NULL;
    return box_check_name(other, NULL) == 0 && faccessat(boxes, other, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? other : NULL;
}

void box_rename_settle(char *const *environ_, const char *home, const struct box *b) {
    char text[2 * BOX_NAME_MAX + 2];
    ssize_t n = readlinkat(b->fd, note, text, sizeof text - 1);
    struct box other = {.info = b->info};
    struct err err = {0};
    const char *name;

    if (n < 0)
        return;
    text[n] = 0;
    name = other_name(b, text);
    other.name = (char *)(uintptr_t)name;
    if (name && box_run_rename(environ_, home, &other, b->name, &err) < 0 && err.code != -EEXIST)
        log_err(&err);
    box_rename_end(b);
}
