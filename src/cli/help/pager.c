/* SPDX-License-Identifier: Apache-2.0 */
/* The pager, and a filter in front of it. */
#include "cli/help/pager.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "base/strv.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"

enum { PIECE = 4096 };

/* LESS as git has it: quits if it fits, shows colours, leaves the text on the screen. */
static int pager_environment(struct strv *ret) {
    int r = paths_environ(environ, NULL, ret);

    return r < 0 || getenv("LESS") ? r : strv_add(ret, "LESS=FRX");
}

/* command NULL: less, which a small machine does not have: then there is no pager. */
static void start_pager(struct pager *p, const char *command) {
    CLEANUP(closep) int from = -1, to = -1;
    CLEANUP(freep) char *program = command ? strdup("/bin/sh") : paths_program(environ, NULL, "less");
    CLEANUP(freep) char *line = strdup(command ? command : "");
    CLEANUP(strv_done) struct strv env = {0};
    char *shell[] = {"sh", "-c", line, NULL}, *less[] = {"less", "-FRX", NULL};
    int fds[] = {-1, STDOUT_FILENO, STDERR_FILENO};
    struct spawn s = {.path = program,
                      .argv = command ? shell : less,
                      .fds = fds,
                      .n_fds = ARRAY_LEN(fds),
                      .cwd = SPAWN_CWD_STAY,
                      .group = SPAWN_TERMINAL,
                      .outlives = true};

    if (!program || !line || pager_environment(&env) < 0 || fd_pipe(&from, &to) < 0)
        return;
    s.envp = env.v;
    fds[0] = from;
    if (spawn_start(&s, &p->pid, NULL) < 0) {
        p->pid = -1;
        return;
    }
    p->fd = TAKE_FD(to);
    /* ^C is for the pager; we are there as long as it is, else the shell's prompt would write into it. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
}

void pager_begin(struct pager *p, bool wanted) {
    const char *command = paths_getenv(environ, "PAGER");

    *p = (struct pager){.fd = STDOUT_FILENO, .pid = -1, .terminal = isatty(STDOUT_FILENO)};
    termfilter_init(&p->filter);
    signal(SIGPIPE, SIG_IGN); /* a pager that is left early is no failure */
    if (wanted && p->terminal && !(command && str_eq(command, "cat")))
        start_pager(p, command);
}

static void write_out(struct pager *p, const char *data, size_t len) {
    if (p->failed == 0 && len)
        p->failed = fd_write_all(p->fd, data, len);
}

void pager_write(const char *data, size_t len, void *pager) {
    struct pager *p = pager;
    char clean[TERMFILTER_OUT_MAX(PIECE)];

    if (!p->terminal) {
        write_out(p, data, len);
        return;
    }
    while (len > 0) {
        size_t n = MIN_OF(len, (size_t)PIECE);

        write_out(p, clean, termfilter_feed(&p->filter, data, n, clean));
        data += n;
        len -= n;
    }
}

int pager_end(struct pager *p, struct err *err) {
    char rest[8];

    if (p->terminal)
        write_out(p, rest, termfilter_end(&p->filter, rest));
    if (p->pid > 0) {
        closep(&p->fd);
        process_wait(p->pid);
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        p->pid = -1;
    }
    return p->failed < 0 && p->failed != -EPIPE ? err_sys(err, p->failed, "write the output") : 0;
}
