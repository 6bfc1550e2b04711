/* SPDX-License-Identifier: Apache-2.0 */
/* The exec socket of a persistent sandbox: its name is the sandbox's, so it is renamed with it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"
#include "os/fd.h"
#include "supervisor/keep/keep_priv.h"
#include "supervisor/session/box_run.h"

enum { BACKLOG = 256 };

static const char folder_name[] = "box";

static int open_sockets(struct keeper *k, struct err *err) {
    CLEANUP(closep) int top = -1;
    int r = control_open_folder(k->opt->run.facts->environ_, &top, err);

    if (r < 0)
        return r;
    if (mkdirat(top, folder_name, 0700) < 0 && errno != EEXIST)
        return err_sys(err, -errno, "folder of the exec sockets");
    k->exec.folder = control_own_folder(top, folder_name);
    if (k->exec.folder == -EPERM)
        return err_set(err, -EPERM, "the folder of the exec sockets belongs to another user, or others may write there");
    return k->exec.folder < 0 ? err_sys(err, k->exec.folder, "folder of the exec sockets") : 0;
}

/* We hold the lock of this name, so a socket that answers belongs to a sandbox of the same name in another state folder. */
static int check_free(const struct keeper *k, const char *socket_name, struct err *err) {
    if (control_is_free(k->exec.folder, socket_name, SOCK_SEQPACKET))
        return 0;
    return err_set(err, -EADDRINUSE, "a sandbox of this name runs already, with another XDG_STATE_HOME");
}

int keep_listen(struct keeper *k, struct err *err) {
    int r = open_sockets(k, err);

    snprintf(k->exec.name, sizeof k->exec.name, "%.*s.sock", BOX_NAME_MAX, k->box->name);
    r = r < 0 ? r : check_free(k, k->exec.name, err);
    if (r < 0)
        return r;
    r = control_listen(k->exec.folder, k->exec.name, SOCK_SEQPACKET, BACKLOG, &k->exec.listener);
    return r < 0 ? err_sys(err, r, "make the exec socket") : 0;
}

void keep_unlisten(struct keeper *k) {
    if (k->exec.listener >= 0)
        unlinkat(k->exec.folder, k->exec.name, 0);
    closep(&k->exec.listener);
    closep(&k->exec.folder);
}

/* Renaming --------------------------------------------------------------------------------------------------------- */

/* Mounts and descriptors do not care; a git worktree has its path and branch written down in the repository. */
static int rename_run(struct keeper *k, const char *old, const char *name, struct err *err) {
    struct stage *st = &k->session.stage;
    CLEANUP(closep) int runs = -1;
    CLEANUP(freep) char *own = NULL, *path = NULL;
    int r;

    if (!st->have || !str_eq(st->rd.name, old))
        return 0;
    if (st->mode == WORKSPACE_WORKTREE)
        return err_set(err, -EBUSY, "in worktree mode the name is the branch's, too: stop the sandbox first");
    runs = open(st->runs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    own = strdup(name);
    path = str_dupf("%s/%s", st->runs, name);
    if (!own || !path)
        return err_oom(err);
    r = runs < 0 || syscall(SYS_renameat2, runs, old, runs, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
    if (r < 0)
        return r == -EEXIST ? err_set(err, r, "there is a run '%s' already (see 'bawn review')", name)
                            : err_sys(err, r, "rename the run's folder");
    free(st->rd.name);
    free(st->rd.path);
    st->rd.name = TAKE_PTR(own);
    st->rd.path = TAKE_PTR(path);
    k->session.input.workspace.run_dir = st->rd.path;
    return 0;
}

static int rename_box(struct keeper *k, const char *name, struct err *err) {
    CLEANUP(freep) char *boxes = strdup(k->box->path);
    char *slash = boxes ? strrchr(boxes, '/') : NULL;

    if (!slash)
        return err_oom(err);
    *slash = 0;
    return registry_rename(boxes, k->box, name, err);
}

/* Sandbox, run and socket; what fails takes back what was done before it. */
static int rename_all(struct keeper *k, const char *old, const char *name, const char *socket_name, struct err *err) {
    struct err ignored = {0};
    int r = rename_box(k, name, err);

    if (r < 0)
        return r;
    r = rename_run(k, old, name, err);
    if (r >= 0 && renameat(k->exec.folder, k->exec.name, k->exec.folder, socket_name) < 0) {
        r = err_sys(err, -errno, "rename the exec socket");
        rename_run(k, name, old, &ignored);
    }
    if (r < 0)
        rename_box(k, old, &ignored);
    return r;
}

int keep_rename(struct keeper *k, const char *name, struct err *err) {
    CLEANUP(freep) char *old = strdup(k->box->name);
    char socket_name[sizeof k->exec.name];
    int r = box_check_name(name, err);

    if (r < 0 || !old || str_eq(old, name))
        return r < 0 ? r : old ? 0 : err_oom(err);
    snprintf(socket_name, sizeof socket_name, "%.*s.sock", BOX_NAME_MAX, name);
    r = check_free(k, socket_name, err);
    r = r < 0 ? r : box_rename_begin(k->box, name, err);
    if (r < 0)
        return r;
    r = rename_all(k, old, name, socket_name, err);
    box_rename_end(k->box);
    if (r < 0)
        return r;
    memcpy(k->exec.name, socket_name, sizeof socket_name);
    snprintf(k->session.network.name, sizeof k->session.network.name, "%s", name);
    return 0;
}
