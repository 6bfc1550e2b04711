/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bawn-front: HTTP for bawnd, which starts it with their socket as descriptor 3 (spec/api-protocol.md; theory of operation in service/front/front.h).
 * It locks itself in before it reads anything. Exit status: 0 when bawnd is gone or everything is drained, 125 with one line on stderr.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "os/fd.h"
#include "proto/api/apimsg.h"
#include "service/front/front.h"
#include "service/front/front_jail.h"

static int front_main(struct err *err) {
    struct stat st;
    int r;

    if (fstat(API_FD, &st) < 0 || !S_ISSOCK(st.st_mode))
        return err_usage(err, "bawn-front is started by bawnd");
    r = fd_close_from(API_FD + 1);
    if (r < 0)
        return err_sys(err, r, "close inherited descriptors");
    signal(SIGPIPE, SIG_IGN);
    r = front_lock(err);
    return r < 0 ? r : front_serve(API_FD, err);
}

int main(void) {
    struct err err = {0};
    int r = front_main(&err);

    if (r < 0)
        log_err(&err);
    _exit(r < 0 ? err_exit_status(&err) : 0);
}
