/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last steps before the command, in an order that matters: limits while they can still be set, then
 * no_new_privs (without which Landlock and seccomp are refused), Landlock, capabilities, and seccomp last, because
 * it forbids some of the calls before it. Every step fails closed.
 */
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "init/init.h"
#include "jail/fence/caps.h"
#include "jail/fence/landlock.h"
#include "jail/fence/one_id.h"
#include "jail/fence/seccomp.h"

static_assert((int)INIT_ACCESS_READ == (int)LANDLOCK_READ, "protocol number");
static_assert((int)INIT_ACCESS_EXEC == (int)LANDLOCK_READ_EXEC, "protocol number");
static_assert((int)INIT_ACCESS_WRITE == (int)LANDLOCK_WRITE, "protocol number");

enum { RULES_MAX = 256, WALL_ABI_MIN = 3 /* before it, any file could be truncated */, SCOPES_ABI = 6 };

static int set_rlimits(const struct init_start *s, struct err *err) {
    for (size_t i = 0; i < s->n_rlimits; i++) {
        int resource = (int)s->rlimits[i].resource;
        struct rlimit old, want = {s->rlimits[i].value, s->rlimits[i].value};

        if (getrlimit(resource, &old) < 0)
            return err_sys(err, -errno, "read resource limit %d", resource);
        if (old.rlim_max < want.rlim_max) /* may not be raised, and is tighter already */
            want.rlim_cur = want.rlim_max = old.rlim_max;
        if (setrlimit(resource, &want) < 0)
            return err_sys(err, -errno, "set resource limit %d", resource);
    }
    return 0;
}

/* Without a cgroup this is all that can be done about CPUs: no more than this many of those we may use. */
static int set_affinity(uint64_t cpus, struct err *err) {
    cpu_set_t have, want;
    uint64_t n = 0;

    if (cpus == 0)
        return 0;
    if (sched_getaffinity(0, sizeof have, &have) < 0)
        return err_sys(err, -errno, "CPU affinity");
    CPU_ZERO(&want);
    for (int i = 0; i < CPU_SETSIZE && n < cpus; i++)
        if (CPU_ISSET(i, &have)) {
            CPU_SET(i, &want);
            n++;
        }
    return sched_setaffinity(0, sizeof want, &want) < 0 ? err_sys(err, -errno, "CPU affinity") : 0;
}

/* The guard that makes the sockets connects and binds them, too; no command does. Nor is there TCP where there are no sockets. */
static bool denies_tcp(const struct init_start *s, enum lockdown_who who) {
    return s->flags & INIT_FLAG_SOCKETS ? who == LOCKDOWN_COMMAND : s->seccomp == SECCOMP_BARE;
}

static int restrict_files(const struct init_start *s, enum lockdown_who who, struct err *err) {
    struct landlock_rule rules[RULES_MAX];
    size_t n = 0;
    const bool wall = s->landlock == INIT_LANDLOCK_WALL;
    /* The wall around files is inherited from the guard; the command's own domain keeps it from signalling us, and from TCP. */
    const bool second = who == LOCKDOWN_COMMAND && s->flags & INIT_FLAG_SOCKETS && landlock_abi() >= SCOPES_ABI;
    const struct landlock_opts opts = {.scope_abstract = true,
                                       .scope_signals = true,
                                       .deny_tcp = denies_tcp(s, who),
                                       .writes_only = !wall,
                                       .scopes_only = s->landlock == INIT_LANDLOCK_SCOPES || second,
                                       .min_abi = wall ? WALL_ABI_MIN : 0};

    if (s->landlock == INIT_LANDLOCK_NONE || (s->landlock == INIT_LANDLOCK_OFFERED && landlock_abi() == 0))
        return 0;
    if (s->n_rules > RULES_MAX)
        return err_set(err, -E2BIG, "more than %d Landlock rules", RULES_MAX);
    for (size_t i = 0; !second && i < s->n_rules; i++) {
        if (s->rules[i].access == INIT_ACCESS_SOCKET) /* the guard's, not the kernel's */
            continue;
        if (s->rules[i].access >= LANDLOCK_ACCESS_COUNT)
            return err_set(err, -EBADMSG, "unknown kind of access in a Landlock rule");
        rules[n++] = (struct landlock_rule){.path = s->rules[i].path,
                                            .fd = -1,
                                            .access = (enum landlock_access)s->rules[i].access,
                                            .optional = s->rules[i].optional != 0};
    }
    return landlock_restrict(rules, n, &opts, err);
}

static int filter_calls(const struct init_start *s, enum lockdown_who who, struct err *err) {
    enum seccomp_variant v = (enum seccomp_variant)s->seccomp;

    if (s->seccomp >= SECCOMP_VARIANTS)
        return err_set(err, -EBADMSG, "unknown system call filter");
    if (s->flags & INIT_FLAG_SOCKETS && s->flags & INIT_FLAG_NO_PIDNS)
        v = who == LOCKDOWN_GUARD ? SECCOMP_GUARD : SECCOMP_NET;
    else if (s->flags & INIT_FLAG_SOCKETS && who == LOCKDOWN_COMMAND)
        v = SECCOMP_SHARED;
    return seccomp_install(v, err);
}

int lockdown(const struct init_start *s, enum lockdown_who who, struct err *err) {
    int r = set_rlimits(s, err);

    r = r < 0 ? r : set_affinity(s->cpu_affinity, err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, -errno, "no_new_privs");
    r = restrict_files(s, who, err);
    r = r < 0 ? r : s->flags & INIT_FLAG_MANY_IDS ? caps_keep(caps_of_many_ids, err) : caps_drop_all(err);
    r = r < 0 ? r : filter_calls(s, who, err);
    if (r < 0 || !(s->flags & (INIT_FLAG_ONE_ID | INIT_FLAG_MANY_IDS)))
        return r;
    return one_id_install(s->flags & INIT_FLAG_MANY_IDS, err);
}
