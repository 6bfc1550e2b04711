/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's program while it starts a container, and the end of it. Nothing here waits longer than the setting `start_timeout`, and ^C is heard:
 * the supervisor blocks signals, so one that came waits (os/sigfd.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "engine/container/container_box.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "os/spawn.h"

enum { TICK_MS = 200, PATIENCE_MS = 4000, CLEAN_MS = 3000, POLITE_MS = 2000 };

static int enter_cgroup(void *arg) {
    const struct cgroup *cg = arg;

    return cgroup_enter(cg, false);
}

int container_launch(struct container_box *b, int stream, struct err *err) {
    CLEANUP(closep) int theirs = -1;
    int r = fd_pipe(&b->messages, &theirs);
    const int fds[3] = {stream, stream >= 0 ? stream : theirs, theirs};
    const struct spawn s = {.path = b->cli.program,
                            .argv = b->argv.v,
                            .envp = b->cli.env.v,
                            .fds = fds,
                            .n_fds = ARRAY_LEN(fds),
                            .end_signal = b->kind->makes_itself ? SIGTERM : SIGKILL,
                            .before = b->cgroup ? enter_cgroup : NULL,
                            .arg = (void *)(uintptr_t)b->cgroup};

    if (r < 0 || fcntl(b->messages, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, r < 0 ? r : -errno, "pipe for the messages of %s", b->kind->name);
    b->started_ms = clock_ms();
    r = spawn_start(&s, &b->pid, &b->pidfd);
    return r < 0 ? err_sys(err, r, "run %s", b->cli.program) : 0;
}

void container_read_messages(struct container_box *b) {
    char part[1024];
    ssize_t n;

    while ((n = fd_read_some(b->messages, part, sizeof part)) > 0)
        if (b->said.len + (size_t)n < b->said.ceiling)
            buf_add(&b->said, part, (size_t)n);
}

/* Its own failure, or an end that was none of its own, and it had begun: a container may be left. */
static bool is_doubtful(const struct container_box *b, int wait_status) {
    char cid[96];

    snprintf(cid, sizeof cid, "%s/" CONTAINER_CID, b->folder.name);
    return (WIFSIGNALED(wait_status) || WEXITSTATUS(wait_status) == EXIT_SANDBOX) &&
           faccessat(b->folder.parent, cid, F_OK, 0) == 0;
}

int container_wait(struct container_box *b) {
    int status = b->pid > 0 ? process_wait(b->pid) : 0;

    b->doubtful |= b->pid > 0 && is_doubtful(b, status);
    b->pid = -1;
    container_read_messages(b);
    return status;
}

bool container_ended(struct container_box *b, int ms) {
    uint64_t until = clock_ms() + (uint64_t)ms;
    struct pollfd p = {.fd = b->pidfd, .events = POLLIN};

    while (b->pid > 0 && poll(&p, 1, MIN_OF(ms, (int)TICK_MS)) <= 0 && clock_ms() < until)
        container_read_messages(b);
    if (b->pid > 0 && p.revents)
        container_wait(b);
    return b->pid <= 0;
}

void container_kill(struct container_box *b) {
    if (b->pid <= 0)
        return;
    if (b->kind->makes_itself)
        kill(b->pid, SIGTERM); /* it finishes its step first */
    if (!b->kind->makes_itself || !container_ended(b, POLITE_MS)) {
        kill(b->pid, SIGKILL);
        container_wait(b);
    }
    b->doubtful = true;
}

/* The engine may make the container after all: the folder says to the next run that it has to look. */
static void abandon(struct container_box *b) {
    container_kill(b);
    b->cli.limit_ms = CLEAN_MS;
    b->cli.deaf = true;
    b->folder.stays = true;
}

static int give_up(struct container_box *b, struct err *err) {
    uint64_t waited = clock_ms() - b->started_ms;

    if (sigfd_end_waits()) {
        abandon(b);
        return err_set(err, -ECANCELED, "engine %s: interrupted while the container was started", b->kind->name);
    }
    if (b->limit_ms && waited >= b->limit_ms) {
        abandon(b);
        return err_set(err, -ETIMEDOUT,
                       "engine %s: the container did not start within %" PRIu64 " s; check '%s info', raise \"start_timeout\", "
                       "or use --engine native",
                       b->kind->name, (b->limit_ms + 999) / 1000, b->kind->program);
    }
    if (waited >= PATIENCE_MS && !b->patient && isatty(STDERR_FILENO))
        log_note("%s has not started the container yet; ^C ends the wait", b->kind->name);
    b->patient |= waited >= PATIENCE_MS;
    return 0;
}

int container_await(struct container_box *b, int fd, struct err *err) {
    for (;;) {
        struct pollfd p[] = {
            {.fd = fd, .events = POLLIN}, {.fd = b->messages, .events = POLLIN}, {.fd = b->pidfd, .events = POLLIN}};
        int r;

        if (poll(p, ARRAY_LEN(p), TICK_MS) < 0 && errno != EINTR)
            return err_sys(err, -errno, "wait for the container");
        container_read_messages(b);
        if (p[0].revents)
            return 0;
        if (p[2].revents) {
            container_wait(b);
            return container_trouble(b->kind, buf_str(&b->said), -EIO, err);
        }
        r = give_up(b, err);
        if (r < 0)
            return r;
    }
}
