/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, asking and stopping the pool. */
#include "supervisor/pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/pool/pool_priv.h"

/* A session of its own, none of our descriptors, and no folder in use. */
static int leave_starter(int report) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    if (null < 0 || setsid() < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") < 0)
        return -errno;
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (report != 3 && dup3(report, 3, O_CLOEXEC) < 0)
        return -errno;
    return fd_close_from(4);
}

/* Full before `bawn pool on` returns, so that a measurement after it measures the pool. */
static int begin_pool(struct pool *p, const struct pool_options *opt, struct err *err) {
    int r = pool_init(p, opt, err);

    while (r == 0 && p->n_ready < opt->size)
        r = pool_fill(p, err);
    if ((r == -EMFILE || r == -ENFILE || r == -ENOSPC || r == -EUSERS) && p->n_ready > 0)
        r = 0; /* as many as this user may have */
    return r;
}

static void NORETURN pool_main(const struct pool_options *opt, int report) {
    struct err err = {0};
    struct pool p;
    int r = leave_starter(report);

    prctl(PR_SET_NAME, "bawn-pool");
    if (r < 0) {
        err_sys(&err, r, "go to the background");
        fd_write_all(report, &err, sizeof err);
        _exit(EXIT_SANDBOX);
    }
    r = begin_pool(&p, opt, &err);
    if (fd_write_all(3, &err, sizeof err) == 0 && r == 0) {
        close(3);
        pool_serve(&p);
    }
    pool_done(&p);
    _exit(r < 0 ? EXIT_SANDBOX : 0);
}

int pool_start(const struct pool_options *opt, struct err *err) {
    CLEANUP(closep) int there = pool_connect(opt->environ_);
    struct err said = {0};
    int pair[2];
    ssize_t n;
    pid_t pid;

    if (there >= 0)
        return 1;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_sys(err, -errno, "start the pool");
    pid = fork();
    if (pid == 0)
        pool_main(opt, pair[1]);
    close(pair[1]);
    n = pid < 0 ? -errno : fd_read_some(pair[0], &said, sizeof said);
    close(pair[0]);
    if (n != (ssize_t)sizeof said) {
        if (pid > 0)
            process_end(pid);
        return err_set(err, n < 0 ? (int)n : -EIO, "the pool did not start");
    }
    if (said.code)
        process_end(pid);
    if (said.code == -EADDRINUSE) /* another process began one at the same moment */
        return 1;
    if (said.code)
        *err = said;
    return said.code;
}

int pool_query(char *const *environ_, struct pool_reply *ret) {
    CLEANUP(closep) int sock = pool_connect(environ_);

    return sock < 0 ? sock : pool_ask(sock, POOL_STATUS, ret);
}

int pool_stop(char *const *environ_) {
    CLEANUP(closep) int sock = pool_connect(environ_);
    struct pool_reply reply;

    return sock < 0 ? sock : pool_ask(sock, POOL_OFF, &reply);
}
