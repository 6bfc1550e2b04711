/* SPDX-License-Identifier: Apache-2.0 */
/* Starts our other programs. */
#include "supervisor/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "jail/cgroup/cgroup.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sock.h"
#include "os/spawn.h"

/* In the child: the sandbox pays for what it uses, and no key of its memory gets to a disk. */
static int prepare_child(void *arg) {
    static const struct rlimit none = {0, 0};
    const struct helper *h = arg;

    setrlimit(RLIMIT_CORE, &none);
    return h->cgroup ? cgroup_charge(h->cgroup) : 0;
}

static int open_program(const struct helper *h, struct err *err) {
    char path[PATH_MAX];
    int fd = h->program ? open(h->program, O_RDONLY | O_CLOEXEC) : engine_helper(h->name, path, sizeof path);

    if (h->program && fd < 0)
        fd = -errno;
    return fd < 0 ? err_sys(err, fd, "find %s, which belongs beside bawn or in ../libexec/bawn", h->name) : fd;
}

int helper_start(const struct helper *h, pid_t *ret_pid, struct err *err) {
    CLEANUP(closep) int exe = open_program(h, err);
    const struct spawn s = {.exe = exe,
                            .argv = h->argv,
                            .envp = h->envp,
                            .fds = h->fds,
                            .n_fds = h->n_fds,
                            .group = h->terminal ? SPAWN_TERMINAL : SPAWN_GROUP,
                            .before = prepare_child,
                            .arg = (void *)(uintptr_t)h};
    int r = exe < 0 ? exe : spawn_start(&s, ret_pid, NULL);

    return r < 0 && exe >= 0 ? err_sys(err, r, "start %s", h->name) : r;
}

int helper_wait(const char *name, pid_t pid, int *ret_status, struct err *err) {
    int status = process_wait(pid);

    if (status < 0)
        return err_sys(err, status, "wait for %s", name);
    *ret_status = process_exit_status(status);
    return 0;
}

int helper_ends_open(struct helper_ends *ret, const char *name, struct err *err) {
    CLEANUP(helper_ends_done) struct helper_ends e = HELPER_ENDS_INIT;
    int pair[2], r = sock_pair(pair);

    if (r < 0)
        return err_sys(err, r, "start %s", name);
    e.sock = pair[0];
    e.their_sock = pair[1];
    if (fcntl(e.sock, F_SETFL, O_NONBLOCK) < 0 || pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "start %s", name);
    e.messages = pair[0];
    e.their_messages = pair[1];
    *ret = TAKE(e, (struct helper_ends)HELPER_ENDS_INIT);
    return 0;
}

void helper_ends_done(struct helper_ends *e) {
    closep(&e->sock);
    closep(&e->messages);
    closep(&e->their_sock);
    closep(&e->their_messages);
}

const char *helper_message(int messages, char *text, size_t size) {
    ssize_t n = fd_read_some(messages, text, size - 1);

    text[MAX_OF(n, 0)] = 0;
    text[strcspn(text, "\n")] = 0;
    return text + (str_starts(text, "bawn: ") ? strlen("bawn: ") : 0);
}

int helper_recv(int sock, void *ret, size_t size) {
    long n = sock_recv(sock, ret, size, NULL, NULL);

    if (n == -EAGAIN)
        return 0;
    return n == (long)size ? 1 : n < 0 ? (int)n : n == 0 ? -EPIPE : -EBADMSG;
}

const char *helper_how_ended(int status, const char *why, char ret[static HELPER_END_SIZE]) {
    if (why)
        snprintf(ret, HELPER_END_SIZE, "had to be ended, %s", why);
    else if (status >= 0 && WIFSIGNALED(status))
        snprintf(ret, HELPER_END_SIZE, "was ended by signal %d", WTERMSIG(status));
    else
        snprintf(ret, HELPER_END_SIZE, "ended");
    return ret;
}

bool helper_owner_is_dead(const char *name, const char *prefix) {
    unsigned long long start;
    int pid;

    return str_starts(name, prefix) && sscanf(name + strlen(prefix), "%d-%llu", &pid, &start) == 2 && pid > 0 &&
           process_is_leftover(pid, start);
}
