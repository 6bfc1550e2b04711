/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-broker --make as a process. */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "supervisor/credential/castock.h"
#include "supervisor/credential/castock_priv.h"
#include "supervisor/helper.h"

enum { MESSAGE_MAX = 900 };

/* messages: where stderr goes, -1 for nowhere. */
static int start_maker(const char *path, int messages, pid_t *ret_pid, struct err *err) {
    const char *value = getenv("SSL_CERT_FILE"); /* the only variable that it looks at */
    CLEANUP(freep) char *variable = str_dupf("SSL_CERT_FILE=%s", value ? value : "");
    struct helper h = {.name = "bawn-broker",
                       .argv = (char *[]){"bawn-broker", "--make", (char *)(uintptr_t)path, NULL},
                       .envp = (char *[]){variable, NULL},
                       .fds = {-1, -1, messages},
                       .n_fds = STDERR_FILENO + 1};

    return variable ? helper_start(&h, ret_pid, err) : err_oom(err);
}

static int wait_for(pid_t pid, int messages, struct err *err) {
    char text[MESSAGE_MAX];
    ssize_t n = fd_read_some(messages, text, sizeof text - 1);
    const char *line = text;
    int status = 0, r;

    text[MAX_OF(n, 0)] = 0;
    text[strcspn(text, "\n")] = 0;
    r = helper_wait("bawn-broker", pid, &status, err);
    if (r < 0 || status == 0)
        return r;
    if (status > HELPER_SIGNALLED)
        return err_set(err, -EIO, "bawn-broker was ended by signal %d", status - HELPER_SIGNALLED);
    if (str_starts(line, "bawn: "))
        line += strlen("bawn: ");
    return err_set(err, -EIO, "%s", line[0] ? line : "bawn-broker failed and did not say why");
}

int castock_make(const char *path, struct err *err) {
    CLEANUP(closep) int in = -1, out = -1;
    int pipe_fds[2], r;
    pid_t pid = -1;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return err_sys(err, -errno, "start bawn-broker");
    in = pipe_fds[0];
    out = pipe_fds[1];
    r = start_maker(path, out, &pid, err);
    closep(&out);
    return r < 0 ? r : wait_for(pid, in, err);
}

void castock_use(struct castock *c) {
    const char *slash = strrchr(c->path, '/'), *word = strrchr(c->path, '-');
    CLEANUP(freep) char *path = NULL;
    pid_t pid = -1;

    if (c->used)
        return;
    c->used = true;
    path = str_dupf("%.*s/free-%s", (int)(slash - c->path), c->path, word + 1);
    if (path && start_maker(path, -1, &pid, NULL) == 0) /* if it fails, the next run waits */
        c->maker = pid;
}

void castock_wait_maker(struct castock *c) {
    while (c->maker > 0 && waitpid(c->maker, NULL, 0) < 0 && errno == EINTR)
        ;
    c->maker = 0;
}
