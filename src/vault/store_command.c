/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A value that a command prints: `op read ...`, `vault kv get ...`, `pass show ...`. No shell. It has a session of its own: a
 * command that wants to ask at the terminal fails at once instead of being stopped, and it can be ended with everything
 * that it started. What it says on stderr is dropped: some tools print the secret there when they fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/parse.h"
#include "os/clock.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "vault/store.h"

enum { TICK_MS = 20 };

static uint64_t timeout_ms(const struct vault *v) {
    const char *wish = vault_getenv(v, "BAWN_VAULT_COMMAND_TIMEOUT_MS"); /* for tests; only shorter */
    uint64_t ms;

    return wish && parse_u64(wish, 1, VAULT_COMMAND_TIMEOUT_MS, &ms, NULL) == 0 ? ms : VAULT_COMMAND_TIMEOUT_MS;
}

/* It stays a zombie: until it is reaped, no other process gets its number, which is also the group's. */
static bool has_ended(pid_t pid) {
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* All that is there now: 0 at the end, -EAGAIN if more may come, -E2BIG, -errno. */
static int drain(int out, struct secret *ret) {
    ssize_t n;

    while ((n = fd_read_some(out, ret->p + ret->len, ret->cap - ret->len)) > 0) {
        ret->len += (size_t)n;
        if (ret->len == ret->cap)
            return -E2BIG;
    }
    return (int)n;
}

/* Until the command has ended: its children may hold the pipe longer, and a command may close it early. 0, -ETIMEDOUT,
 * -E2BIG, -errno. */
static int command_read(int out, pid_t pid, uint64_t end_ms, struct secret *ret) {
    struct pollfd p = {.fd = out, .events = POLLIN};

    while (clock_ms() < end_ms) {
        bool ended = has_ended(pid); /* before the last look at the pipe, which then has everything */
        int r = p.fd >= 0 ? drain(out, ret) : 0;

        if (ended && (r == 0 || r == -EAGAIN))
            return 0;
        if (r < 0 && r != -EAGAIN)
            return r;
        if (r == 0)
            p.fd = -1;
        poll(&p, 1, TICK_MS);
    }
    return -ETIMEDOUT;
}

static int command_start(const struct vault *v, char *const *argv, int input, int *ret_out, pid_t *ret_pid, struct err *err) {
    CLEANUP(closep) int in = -1, out = -1;
    int r = fd_pipe(&in, &out);
    const int fds[] = {input, out, -1};
    const struct spawn s = {
        .path = argv[0],
        .search = true,
        .argv = argv,
        .envp = v->environ_,
        .fds = fds,
        .n_fds = ARRAY_LEN(fds),
        .cwd = SPAWN_CWD_STAY,
        .group = SPAWN_SESSION,
    };

    if (r < 0 || fcntl(in, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(err, r < 0 ? r : -errno, "make a pipe");
    r = spawn_start(&s, ret_pid, NULL);
    if (r < 0)
        return err_set(err, -ENOKEY, "the command '%s' cannot be executed: %s", argv[0], strerror(-r));
    *ret_out = TAKE_FD(in);
    return 0;
}

static int command_failure(int r, int status, const char *command, struct err *err) {
    if (r == -ETIMEDOUT)
        return err_set(err, r, "the command '%s' did not end in time and was killed", command);
    if (r == -E2BIG)
        return err_set(err, r, "the command '%s' prints more than %d bytes", command, VAULT_STORED_MAX);
    if (r < 0)
        return err_sys(err, r, "read from the command '%s'", command);
    if (WIFSIGNALED(status))
        return err_set(err, -ENOKEY, "the command '%s' was ended by signal %d", command, WTERMSIG(status));
    if (WEXITSTATUS(status))
        return err_set(err, -ENOKEY, "the command '%s' failed with status %d", command, WEXITSTATUS(status));
    return 0;
}

int store_command_run(const struct vault *v, char *const *argv, int input, struct secret *ret, struct err *err) {
    CLEANUP(closep) int out = -1;
    uint64_t end = clock_ms() + timeout_ms(v);
    pid_t pid = -1;
    int status, r;

    r = command_start(v, argv, input, &out, &pid, err);
    if (r < 0)
        return r;
    r = command_read(out, pid, end, ret);
    kill(-pid, SIGKILL);
    status = process_end(pid);
    r = command_failure(r, status, argv[0], err);
    if (r < 0)
        return r;
    if (ret->len && ret->p[ret->len - 1] == '\n')
        ret->p[--ret->len] = 0;
    return 0;
}

static int command_get(const struct vault *v, const struct credential *c, struct secret *ret, struct err *err) {
    return c->command.len == 0 ? err_usage(err, "it has no command") : store_command_run(v, c->command.v, -1, ret, err);
}

const struct store_ops store_command = {.get = command_get};
