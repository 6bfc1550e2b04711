/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tenant's home still has of a workspace that is about to be removed: volumes (caches of package managers, homes of agents) and accepted
 * .sandboxignore rules. Both are named after the path of the workspace, which is this run's or sandbox's own, so nothing finds them again.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "os/remove.h"
#include "service/task/taskfiles_priv.h"
#include "supervisor/session/volumes.h"
#include "workspace/hide/pin.h"
#include "workspace/hide/walk_memo.h"

static int forgotten(int r, const char *path, struct err *err) {
    return r < 0 && r != -ENOENT ? err_sys(err, r, "remove '%s'", path) : 0;
}

static int forget_volumes(const char *workspace, const char *home, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    int r = volumes_path(environ, home, workspace, &path, err);

    return r < 0 || !path ? r : forgotten(remove_tree(AT_FDCWD, path), path, err);
}

/* A file that is named by the hash of the workspace's path; dir may be NULL. */
static int forget_hashed(const char *dir, const char *workspace, struct err *err) {
    CLEANUP(freep) char *path = NULL;
    char name[SHA256_HEX_SIZE];

    if (!dir)
        return 0;
    sha256_hex(workspace, strlen(workspace), name);
    path = str_dupf("%s/%s", dir, name);
    if (!path)
        return err_oom(err);
    return forgotten(unlink(path) < 0 ? -errno : 0, path, err);
}

static int forget_rules(const char *workspace, const char *home, struct err *err) {
    CLEANUP(freep) char *pins = NULL, *walks = NULL;
    int r = pin_folder(environ, home, &pins, err);

    r = r < 0 ? r : forget_hashed(pins, workspace, err);
    r = r < 0 ? r : walk_memo_folder(environ, home, &walks, err);
    return r < 0 ? r : forget_hashed(walks, workspace, err);
}

int taskfiles_forget(char **args, struct err *err) {
    char workspace[PATH_MAX];
    const char *home = getenv("HOME");
    struct err why = {0};

    if (!getcwd(workspace, sizeof workspace))
        return err_sys(err, -errno, "find the workspace");
    if (forget_volumes(workspace, home, &why) < 0 || forget_rules(workspace, home, &why) < 0)
        log_err(&why); /* it stays in the home; that must not stop the removal of the rest */
    if (!args[0])
        return 0;
    execv(args[0], args);
    return err_sys(err, -errno, "start '%s'", args[0]);
}
