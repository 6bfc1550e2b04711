/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container on a kernel of its own: nothing can be handed to it, so the link is its standard input and output. bawn-link stands between that
 * stream and the supervisor, who has the same control socket and listeners as ever (link/near.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/container/container_far.h"
#include "engine/link_start.h"
#include "engine/startmsg.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"

/* Where bawn-enter looks for it. */
static int write_list(const struct container_box *b, struct err *err) {
    char name[96];
    int fd, r;

    snprintf(name, sizeof name, "%s/link/list", b->folder.name);
    fd = openat(b->folder.parent, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    r = fd < 0 ? -errno : fd_write_all(fd, buf_str(&b->plan.list), b->plan.list.len);
    closep(&fd);
    return r < 0 ? err_sys(err, r, "write the list for the container") : 0;
}

/* What bawn-init is born with goes to bawn-link. */
static int start_link(const struct engine_request *req, const struct container_box *b, struct sandbox *sb, int stream,
                      struct err *err) {
    CLEANUP(closep) int theirs = -1, start = -1;
    struct engine_request there = *req;
    int pair[2], r;

    there.own_kernel = b->own_kernel;
    there.elsewhere = b->remote;
    r = startmsg_make(&there, &sb->cgroup, &start, err);

    if (r < 0)
        return r;
    r = sock_pair(pair);
    if (r < 0)
        return err_sys(err, r, "control socket");
    closep(&sb->control);
    sb->control = pair[0];
    theirs = pair[1];
    return link_start(req, theirs, start, stream, sb, err);
}

/* Until the far end has said something, or the engine gave up: then its message is better than that of the link. */
static int wait_far(struct container_box *b, struct sandbox *sb, struct err *err) {
    enum { LAST_MS = 3000 };
    struct init_msg msg;
    int r = container_await(b, sb->control, err);

    if (r < 0)
        return r;
    if (recv(sb->control, &msg, sizeof msg, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof msg && msg.type != INIT_MSG_FAILED)
        return 0;
    return container_ended(b, LAST_MS) ? container_trouble(b->kind, buf_str(&b->said), -EIO, err) : 0;
}

/* Its groups are not seen from here. The engine warns where it has no such limit; a runtime may be configured to set none, and so may the user. */
static void believe_limits(const struct container_box *b, const struct limits *l, struct sandbox *sb) {
    if (b->kind->bundle || b->own_kernel || b->other_limits || strcasestr(buf_str(&b->said), "not support"))
        return;
    sb->cgroup.enforces.cpu = l->cpus_milli != 0;
    sb->cgroup.enforces.memory = l->memory != 0;
    sb->cgroup.enforces.pids = l->pids != 0;
}

int container_run_bytes(struct container_box *b, const struct engine_request *req, struct sandbox *sb, struct err *err) {
    CLEANUP(closep) int ours = -1, theirs = -1;
    int pair[2], r;

    if (req->guard >= 0)
        return err_set(err, -EOPNOTSUPP, "direct mode needs a sandbox on this machine's kernel; use --workspace sync");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, -errno, "stream of the link");
    ours = pair[0];
    theirs = pair[1];
    container_folder_close(&b->folder); /* no one connects */
    sb->bytes = true;
    if (b->own_kernel)
        req->plan->landlock_abi = 0; /* this machine's; that kernel has none */
    r = b->remote ? container_far_start(b, req, ours, &theirs, err) : write_list(b, err);
    r = r < 0 || b->remote ? r : container_launch(b, theirs, err);
    closep(&theirs);
    if (b->kind->bundle)
        sb->pid = b->pid; /* what it costs this machine is below it */
    if (r == 0)
        believe_limits(b, &req->plan->limits, sb);
    r = r < 0 ? r : start_link(req, b, sb, ours, err);
    closep(&ours);
    r = r < 0 ? r : wait_far(b, sb, err);
    return r < 0 ? r : container_listeners(b, sb, err);
}
