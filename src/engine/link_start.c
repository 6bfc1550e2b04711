/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends bawn-link. */
#include "engine/link_start.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "link/near.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "os/spawn.h"

static_assert((int)PLAN_SOCKETS == (int)LINK_PLACES_SHOWN, "a place for each");

void link_plan(struct plan *p) {
    plan_own_sockets(p);
}

/* "--show 0 PATH", and a socket on which its connections are delivered. *n: words that were written. */
static int link_show(const struct plan *p, struct sandbox *sb, char **argv, size_t *n, int fds[static LINK_PLACES_SHOWN]) {
    static const char *const numbers[] = {"0", "1"};

    for (size_t i = 0; i < LINK_PLACES_SHOWN; i++) {
        const char *path = plan_own_socket(p, i);
        int pair[2], r = path ? sock_pair(pair) : 0;

        if (r < 0)
            return r;
        if (!path)
            continue;
        closep(&sb->shown[i]);
        sb->shown[i] = pair[0];
        fds[i] = pair[1];
        argv[(*n)++] = (char *)(uintptr_t) "--show";
        argv[(*n)++] = (char *)(uintptr_t)numbers[i];
        argv[(*n)++] = (char *)(uintptr_t)path;
    }
    return 0;
}

int link_start(const struct engine_request *req, int control, int start, int stream, struct sandbox *sb, struct err *err) {
    char path[PATH_MAX];
    CLEANUP(closep) int exe = engine_helper("bawn-link", path, sizeof path);
    int fds[NEAR_FDS] = {req->stdio[0], req->stdio[1], req->stdio[2], control, start, stream, stream, -1, -1};
    char *argv[2 + 3 * LINK_PLACES_SHOWN + 1] = {"bawn-link"};
    const struct spawn s = {.exe = exe, .argv = argv, .fds = fds, .n_fds = ARRAY_LEN(fds)};
    size_t n = 1;
    int r;

    if (exe < 0)
        return err_sys(err, exe, "bawn-link, which belongs beside the bawn program or in ../libexec/bawn");
    link_stop(sb); /* of a start that was tried before */
    if (req->plan->network)
        argv[n++] = "--network";
    r = link_show(req->plan, sb, argv, &n, fds + NEAR_FD_SHOWN);
    r = r < 0 ? r : spawn_start(&s, &sb->link_pid, NULL);
    for (size_t i = 0; i < LINK_PLACES_SHOWN; i++)
        closep(&fds[NEAR_FD_SHOWN + i]);
    return r < 0 ? err_sys(err, r, "start bawn-link") : 0;
}

void link_stop(struct sandbox *sb) {
    if (sb->link_pid > 0)
        process_end(sb->link_pid);
    sb->link_pid = -1;
}
