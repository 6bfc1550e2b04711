/* SPDX-License-Identifier: Apache-2.0 */
/* Forks the keeper, and waits until its sandbox runs. */
#include "supervisor/keep/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "supervisor/keep/keep_priv.h"

enum { LOG_MAX = 1024 * 1024 };

/* What the starter hears: that it runs (0), or why not. */
struct keep_word {
    int r;
    struct err err;
};

/* The keeper's log ------------------------------------------------------------------------------------------------- */

static void log_with_time(const char *line, size_t len) {
    char text[1200], time[CLOCK_TEXT_SIZE];
    size_t n = (size_t)snprintf(text, sizeof text, "%s ", clock_text(clock_mark(), CLOCK_ISO, time));

    n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)MIN_OF(len, sizeof text - n - 1), line);
    fd_write_all(STDERR_FILENO, text, MIN_OF(n, sizeof text - 1));
}

static int open_keeper_log(const struct box *b) {
    return openat(b->fd, "log/keeper.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
}

/* From now on messages go to the log; the terminal, and what else the starter had, is closed. */
static int begin_log(const struct box *b) {
    CLEANUP(closep) int fd = open_keeper_log(b);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > LOG_MAX / 2 &&
        renameat(b->fd, "log/keeper.log", b->fd, "log/keeper.log.1") == 0) {
        close(fd);
        fd = open_keeper_log(b);
    }
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        return -errno;
    log_set_sink(log_with_time);
    return 0;
}

void keep_rotate_log(const struct keeper *k) {
    struct stat st;

    if (k->ready < 0 && fstat(STDERR_FILENO, &st) == 0 && st.st_size > LOG_MAX / 2)
        begin_log(k->box);
}

int keep_tell(struct keeper *k, int r, const struct err *err) {
    CLEANUP(closep) int fd = TAKE_FD(k->ready);
    struct keep_word w = {.r = r};
    int log = r < 0 ? 0 : begin_log(k->box);

    if (fd < 0)
        return 0;
    if (err)
        w.err = *err;
    if (log < 0)
        w.r = err_sys(&w.err, log, "log of the sandbox");
    return fd_write_all(fd, &w, sizeof w) < 0 ? -EPIPE : w.r;
}

/* The keeper's process --------------------------------------------------------------------------------------------- */

static void close_between(int after, int before) {
    for (int fd = after + 1; fd < before; fd++)
        close(fd);
}

/* Whatever the starter, or the shell before it, had open would stay open as long as the sandbox lives. */
static void close_others(int a, int b, int c) {
    int own[] = {2, a, b, c};

    for (size_t i = 1; i < ARRAY_LEN(own); i++)
        for (size_t j = i; j > 1 && own[j] < own[j - 1]; j--) {
            int t = own[j];

            own[j] = own[j - 1];
            own[j - 1] = t;
        }
    for (size_t i = 1; i < ARRAY_LEN(own); i++)
        close_between(own[i - 1], own[i]);
    fd_close_from((unsigned)own[ARRAY_LEN(own) - 1] + 1);
}

static NORETURN void be_keeper(const struct keep_options *opt, int ready) {
    struct keeper k = {.opt = opt,
                       .box = opt->box,
                       .session = SESSION_INIT,
                       .ready = ready,
                       .signals = -1,
                       .exec = {.folder = -1, .listener = -1},
                       .freeze = {.by = -1}};
    struct err err = {0};
    int r;

    close_others(ready, opt->box->fd, opt->box->lock);
    r = keep_run(&k, &err);
    if (r < 0 && k.ready < 0)
        log_err(&err);
    if (k.ready >= 0)
        keep_tell(&k, r < 0 ? r : err_set(&err, -ECANCELED, "the sandbox was stopped while it was being started"), &err);
    closep(&opt->box->lock); /* last of all: from here on it may be started again */
    _exit(r < 0 ? err_exit_status(&err) : 0);
}

/* The starter ------------------------------------------------------------------------------------------------------ */

static int hear(int fd, pid_t keeper, struct err *err) {
    struct keep_word w;
    ssize_t n = fd_read_full(fd, &w, sizeof w);

    if (n == (ssize_t)sizeof w && w.r == 0)
        return 0;
    process_wait(keeper);
    if (n < (ssize_t)sizeof w)
        return err_set(err, -ECHILD, "the supervisor of the sandbox was killed while it was starting");
    *err = w.err;
    return w.r;
}

int keep_start(const struct keep_options *opt, struct err *err) {
    CLEANUP(closep) int reads = -1;
    CLEANUP(closep) int writes = -1;
    int r = fd_pipe(&reads, &writes);
    pid_t pid;

    if (r < 0)
        return err_sys(err, r, "pipe");
    reads = fd_move_above(reads, 3);
    writes = fd_move_above(writes, 3);
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return err_sys(err, -errno, "start the sandbox's supervisor");
    if (pid == 0) {
        closep(&reads);
        be_keeper(opt, TAKE_FD(writes));
    }
    closep(&writes);
    r = hear(reads, pid, err);
    if (r == 0)
        closep(&opt->box->lock);
    return r;
}
