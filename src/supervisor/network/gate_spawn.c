/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/network/gate_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/sock.h"
#include "supervisor/helper.h"

static int start(const struct gate_spawn *s, int control, int messages, pid_t *ret_pid, struct err *err) {
    CLEANUP(freep) char *trust = s->trust ? str_dupf("SSL_CERT_FILE=%s", s->trust) : NULL;
    struct helper h = {.name = "bawn-gate",
                       .program = s->program,
                       .argv = (char *[]){"bawn-gate", NULL},
                       .envp = (char *[]){trust, NULL},
                       .n_fds = s->n_fds,
                       .cgroup = s->cgroup};

    if (s->trust && !trust)
        return err_oom(err);
    memcpy(h.fds, s->fds, sizeof h.fds);
    h.fds[STDIN_FILENO] = h.fds[STDOUT_FILENO] = -1;
    h.fds[STDERR_FILENO] = messages;
    h.fds[GATE_FD_CONTROL] = control;
    return helper_start(&h, ret_pid, err);
}

int gate_spawn(const struct gate_spawn *s, struct gate_child *ret, struct err *err) {
    CLEANUP(closep) int sock = -1, control = -1, messages = -1, theirs = -1;
    int pair[2], r = sock_pair(pair);
    pid_t pid = -1;

    if (r < 0)
        return err_sys(err, r, "start bawn-gate");
    sock = pair[0];
    control = pair[1];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(err, -errno, "start bawn-gate");
    messages = pair[0];
    theirs = pair[1];
    r = start(s, control, theirs, &pid, err);
    if (r == 0)
        *ret = (struct gate_child){.pid = pid, .sock = TAKE_FD(sock), .messages = TAKE_FD(messages)};
    return r;
}
