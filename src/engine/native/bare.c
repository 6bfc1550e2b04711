/*
 * The landlock rung: no namespaces can be had, so bawn-init is an ordinary child. It keeps out of the Landlock domain
 * itself, adopts the command's orphans and ends them all; the command runs inside the domain and the bare filter.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/native/native.h"
#include "jail/apply.h"
#include "os/process.h"

static int make_home(const struct plan *p, struct err *err) {
    if (mkdir(p->home, 0700) < 0 || mkdir(p->tmp, 0700) < 0)
        return err_sys(err, -errno, "private folder '%s'", p->private_dir);
    return 0;
}

static int child_main(void *arg) {
    struct launch *l = arg;
    int r = cgroup_enter(l->cgroup, false);

    if (r < 0)
        err_sys(&l->err, r, "enter the cgroup");
    else if (apply_fds(l) == 0)
        apply_exec(l);
    _exit(EXIT_SANDBOX);
}

int native_start_bare(const struct engine_request *req, struct sandbox *sb, int init_fd, int start_fd, int control,
                      struct err *err) {
    struct launch l = {.plan = req->plan,
                       .cgroup = &sb->cgroup,
                       .init_fd = init_fd,
                       .control_fd = control,
                       .start_fd = start_fd,
                       .stdio = {req->stdio[0], req->stdio[1], req->stdio[2]},
                       .old_mask = req->old_mask};
    pid_t pid;
    int r;

    if (req->plan->landlock_abi < NATIVE_BARE_ABI)
        return err_set(
            err, -EOPNOTSUPP,
            "neither user namespaces nor Landlock (of Linux 6.2) can be had here: there is no wall to build (see 'bawn doctor --fix')");
    r = make_home(req->plan, err);
    if (r < 0)
        return r;
    snprintf(sb->private_dir, sizeof sb->private_dir, "%s", req->plan->private_dir);
    pid = process_clone(child_main, &l, CLONE_VM | CLONE_VFORK, NULL);
    if (pid < 0)
        return err_sys(err, pid, "start bawn-init");
    sb->pid = pid;
    if (l.err.code) {
        *err = l.err;
        return err->code;
    }
    return 0;
}
