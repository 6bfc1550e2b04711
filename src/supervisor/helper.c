/* SPDX-License-Identifier: Apache-2.0 */
/* Starts our other programs. */
#include "supervisor/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "engine/engine.h"
#include "jail/cgroup/cgroup.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/sigfd.h"
#include "os/spawn.h"

int helper_default_signals(void) {
    return sigfd_default(NULL);
}

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
