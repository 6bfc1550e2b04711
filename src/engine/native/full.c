#include <errno.h>

#include "base/err.h"
#include "engine/native/native.h"
#include "jail/apply.h"

int native_start_full(const struct engine_request *req, struct sandbox *sb, int init_fd, int start_fd, int control,
                      bool *ret_weaker, struct err *err) {
    struct launch l = {.plan = req->plan,
                       .cgroup = &sb->cgroup,
                       .init_fd = init_fd,
                       .control_fd = control,
                       .start_fd = start_fd,
                       .stdio = {req->stdio[0], req->stdio[1], req->stdio[2]},
                       .old_mask = req->old_mask};
    int r = jail_launch(&l, err);

    if (r < 0) {
        *ret_weaker = l.no_userns;
        return r;
    }
    sb->pid = l.pid;
    sb->pidfd = l.pidfd;
    return 0;
}
