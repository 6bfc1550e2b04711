/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { PIECE = 4096 };

static void NORETURN become_pager(const char *command, int from) {
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};

    signal(SIGINT, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    setenv("LESS", "FRX", 0); /* as git does it: quits if it fits, shows colours, leaves the text on the screen */
    if (dup2(from, STDIN_FILENO) >= 0)
        execv("/bin/sh", argv);
    _exit(EXIT_FAILURE);
}

static void start(struct pager *p, const char *command) {
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    p->pid = fork();
    if (p->pid == 0)
        become_pager(command, ends[0]);
    close(ends[0]);
    if (p->pid < 0) {
        close(ends[1]);
        return;
    }
    p->fd = ends[1];
    /* ^C is for the pager; we are there as long as it is, else the shell's prompt would write into it. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
}

void pager_begin(struct pager *p, bool wanted) {
    const char *command = paths_getenv(environ, "PAGER");

    *p = (struct pager){.fd = STDOUT_FILENO, .pid = -1, .terminal = isatty(STDOUT_FILENO)};
    termfilter_init(&p->filter);
    signal(SIGPIPE, SIG_IGN); /* a pager that is left early is no failure */
    command = command ? command : "less -FRX";
    if (wanted && p->terminal && !str_eq(command, "cat"))
        start(p, command);
}

static void out(struct pager *p, const char *data, size_t len) {
    if (p->failed == 0 && len)
        p->failed = fd_write_all(p->fd, data, len);
}

void pager_write(struct pager *p, const char *data, size_t len) {
    char clean[TERMFILTER_OUT_MAX(PIECE)];

    if (!p->terminal) {
        out(p, data, len);
        return;
    }
    while (len > 0) {
        size_t n = MIN_OF(len, (size_t)PIECE);

        out(p, clean, termfilter_feed(&p->filter, data, n, clean));
        data += n;
        len -= n;
    }
}

void pager_sink(const char *data, size_t len, void *arg) {
    pager_write(arg, data, len);
}

int pager_end(struct pager *p, struct err *err) {
    char rest[8];

    if (p->terminal)
        out(p, rest, termfilter_end(&p->filter, rest));
    if (p->pid > 0) {
        closep(&p->fd);
        while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        p->pid = -1;
    }
    return p->failed < 0 && p->failed != -EPIPE ? err_sys(err, p->failed, "write the output") : 0;
}
