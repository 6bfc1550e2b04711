/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that the jails of our helper programs share. */
#include "jail/fence/cell.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/fence/caps.h"
#include "jail/fence/landlock.h"

int cell_install(const struct cell_filter *f, struct err *err) {
    struct sock_filter code[CELL_ARGUMENTS_MAX + CELL_CALLS_MAX + 2];
    struct sock_fprog prog = {.filter = code};
    size_t n = f->n_arguments, left = f->n_calls;

    if (f->n_arguments > CELL_ARGUMENTS_MAX || f->n_calls > CELL_CALLS_MAX)
        BUG("a filter that is too long");
    static_assert(CELL_CALLS_MAX < UINT8_MAX, "a jump has eight bits");
    memcpy(code, f->arguments, f->n_arguments * sizeof code[0]);
    for (size_t i = 0; i < f->n_calls; i++, left--)
        code[n++] = (struct sock_filter)CELL_IF_EQ(f->calls[i], (uint8_t)left, 0);
    code[n++] = (struct sock_filter)CELL_DENY;
    code[n++] = (struct sock_filter)CELL_ALLOW;
    prog.len = (unsigned short)n;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) < 0)
        return err_sys(err, -errno, "install the system call filter of %s", f->program);
    return 0;
}

int cell_limit(const struct cell_limit *limits, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        struct rlimit now, want = {limits[i].soft, limits[i].hard};

        if (getrlimit(limits[i].what, &now) < 0)
            return err_sys(err, -errno, "read a resource limit");
        want.rlim_max = MIN_OF(want.rlim_max, now.rlim_max);
        want.rlim_cur = MIN_OF(want.rlim_cur, want.rlim_max);
        if (setrlimit(limits[i].what, &want) < 0)
            return err_sys(err, -errno, "set a resource limit");
    }
    return 0;
}

static int become(uint32_t id) {
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno;
    return setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ? -errno : 0;
}

static int drop_ids(uint32_t first, uint32_t plain, struct err *err) {
    int r = geteuid() != 0 ? 0 : become(first + (uint32_t)getpid());

    if (r == -EINVAL)
        r = become(plain);
    return r == 0 || r == -EINVAL ? 0 : err_sys(err, r, "take an id of its own");
}

int cell_drop(uint32_t first, uint32_t plain, struct err *err) {
    int r = caps_drop_bounding(err); /* while it still can */

    r = r < 0 ? r : drop_ids(first, plain, err);
    r = r < 0 ? r : caps_drop_all(err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, -errno, "give up privileges");
    return 0;
}

int cell_fence(bool deny_tcp, struct err *err) {
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true, .deny_tcp = deny_tcp};
    int r = landlock_restrict(NULL, 0, &opts, err);

    return r == -EOPNOTSUPP ? 0 : r;
}

int cell_lock(const struct cell_plan *p, struct err *err) {
    int r = cell_drop(p->ids_first, p->id_plain, err);

    r = r < 0 ? r : cell_fence(p->deny_tcp, err);
    r = r < 0 ? r : cell_limit(p->limits, p->n_limits, err);
    return r < 0 ? r : cell_install(&p->filter, err);
}
