/* SPDX-License-Identifier: Apache-2.0 */
/* From what was seen to what can be promised. Pure. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "base/str.h"
#include "engine/native/native.h"
#include "engine/native/probe.h"

const char *const container_names[CONTAINER_COUNT] = {"none", "docker",         "podman", "kubernetes",
                                                      "lxc",  "systemd-nspawn", "unknown"};

enum container container_guess(const char *word, const char *cgroup_text) {
    static const struct {
        const char *word, *group; /* either may be NULL */
        enum container is;
    } hints[] = {
        {"kube", "/kubepods", CONTAINER_KUBERNETES}, {"docker", "/docker", CONTAINER_DOCKER},
        {"podman", "/libpod", CONTAINER_PODMAN},     {"lxc", "/lxc", CONTAINER_LXC},
        {"systemd-nspawn", NULL, CONTAINER_NSPAWN},
    };

    for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
        const char *group = hints[i].group ? strstr(cgroup_text, hints[i].group) : NULL;

        /* "/docker/ID" and "/docker-ID.scope"; but "/docker.service" is the daemon on the host */
        if (str_starts(word, hints[i].word) || (group && !str_starts(group + strlen(hints[i].group), ".service")))
            return hints[i].is;
    }
    return *word ? CONTAINER_OTHER : CONTAINER_NO;
}

enum userns_cause native_userns_cause(const struct native_facts *f) {
    bool may_not_map = f->idmap == -EPERM || f->idmap == -EACCES;

    if (f->ids < 0 || (f->launch == 0 && may_not_map))
        return USERNS_IDS;
    if (f->launch == 0 || !f->launch_userns)
        return USERNS_FINE;
    if (f->shared == 0)
        return USERNS_NETWORK;
    if (f->userns_max == 0 || f->launch == -ENOSPC || f->launch == -EUSERS)
        return USERNS_MAX;
    if (f->launch == -EINVAL || f->launch == -ENOSYS)
        return USERNS_KERNEL;
    if (f->userns_clone == 0 && !f->root)
        return USERNS_CLONE;
    if (f->container != CONTAINER_NO)
        return USERNS_CONTAINER;
    if (f->filtered && !f->launch_cloned)
        return USERNS_FILTER;
    if (f->userns_apparmor == 1 && !f->root)
        return USERNS_APPARMOR;
    return USERNS_UNKNOWN;
}

const char *native_userns_why(enum userns_cause cause) {
    static const char *const why[USERNS_CAUSE_COUNT] = {
        [USERNS_KERNEL] = "this kernel was built without user namespaces",
        [USERNS_CLONE] = "user namespaces are switched off for users (kernel.unprivileged_userns_clone = 0)",
        [USERNS_NETWORK] = "network namespaces are refused, and no others",
        [USERNS_MAX] = "no (more) user namespaces are allowed (user.max_user_namespaces)",
        [USERNS_CONTAINER] = "the container around this process refuses user namespaces",
        [USERNS_APPARMOR] = "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns = 1)",
        [USERNS_IDS] = "root lacks the capabilities, or the ids, to give a sandbox unprivileged ones",
        [USERNS_FILTER] = "a system call filter around this process refuses user namespaces",
        [USERNS_UNKNOWN] = "user namespaces are refused, or cannot be used (a chroot, a covered /proc, a security module)",
    };

    return why[cause];
}

static const char *userns_remedy(enum userns_cause cause) {
    static const char *const remedy[USERNS_CAUSE_COUNT] = {
        [USERNS_KERNEL] = "boot a kernel with CONFIG_USER_NS=y",
        [USERNS_CLONE] = "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        [USERNS_NETWORK] = "sudo sysctl -w user.max_net_namespaces=15000, or leave the system call filter around this process",
        [USERNS_MAX] = "sudo sysctl -w user.max_user_namespaces=15000",
        [USERNS_CONTAINER] = "start the container with the options that 'bawn doctor --fix' prints, or run Bawn on the host",
        [USERNS_APPARMOR] = "install the AppArmor profile that 'bawn doctor --fix' prints",
        [USERNS_IDS] = "run Bawn as an ordinary user",
        [USERNS_FILTER] = "start Bawn from outside the program that filters its children",
        [USERNS_UNKNOWN] = "run Bawn outside of chroots and other sandboxes; 'dmesg' may name the security module",
    };

    return remedy[cause] ? remedy[cause] : "";
}

static void PRINTF_LIKE(3, 4) refuse(struct engine_state *s, const char *remedy, const char *fmt, ...) {
    va_list ap;

    *s = (struct engine_state){.available = false};
    va_start(ap, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
    snprintf(s->remedy, sizeof s->remedy, "%s", remedy);
}

/* What both rungs stand on. */
static bool lacks_base(const struct native_facts *f, struct engine_state *s) {
    const struct {
        int r;
        const char *what, *remedy;
    } base[] = {
        {f->init, "bawn-init", "install Bawn again: bawn-init belongs beside bawn or in ../libexec/bawn"},
        {f->memfd, "no memory for the message to bawn-init (memfd_create)", "boot Linux 5.12 or newer"},
        {f->seccomp, "no system call filter can be installed", "boot a kernel with CONFIG_SECCOMP_FILTER=y"},
    };

    for (size_t i = 0; i < ARRAY_LEN(base); i++)
        if (base[i].r < 0) {
            refuse(s, base[i].remedy, "%s: %s", base[i].what, strerror(-base[i].r));
            return true;
        }
    return false;
}

/* Limits count as enforced only where a cgroup enforces them: rlimits and the watchdog are per process, or late. */
static unsigned enforced_limits(const struct native_facts *f) {
    const struct cgroup_caps *can = &f->cgroup.can;

    if (f->cgroup.kind == CGROUP_SYSTEMD && f->scope < 0)
        return 0;
    return (can->cpu ? ENFORCES_CPU : 0) | (can->memory ? ENFORCES_MEMORY : 0) | (can->pids ? ENFORCES_PIDS : 0);
}

/* The rung is available: what both enforce, and `more`. why: what is not whole; "": nothing. */
static void grant(struct engine_state *s, const struct native_facts *f, unsigned more, const char *why) {
    const unsigned limits = ENFORCES_CPU | ENFORCES_MEMORY | ENFORCES_PIDS;

    *s = (struct engine_state){.available = true,
                               .keeps = ENFORCES_FILES | ENFORCES_NETWORK | ENFORCES_SOCKETS | ENFORCES_SYSCALLS | ENFORCES_TIME |
                                        ENFORCES_END | ENFORCES_HIDING | ENFORCES_HIDING_LATER | ENFORCES_PROTECTION |
                                        enforced_limits(f) | more};
    if ((s->keeps & limits) == limits) {
        snprintf(s->why, sizeof s->why, "%s", why);
        return;
    }
    snprintf(s->why, sizeof s->why, "%s%slimits in a weaker form: %s", why, *why ? "; " : "",
             f->cgroup.why ? f->cgroup.why : "bawn-scope, which asks systemd for a cgroup, is missing");
    snprintf(s->remedy, sizeof s->remedy, "%s", f->cgroup.remedy ? f->cgroup.remedy : "install Bawn again, with bawn-scope");
}

static void judge_full(const struct native_facts *f, struct engine_state *s) {
    enum userns_cause cause = native_userns_cause(f);

    if (lacks_base(f, s))
        return;
    if (cause != USERNS_FINE)
        refuse(s, userns_remedy(cause), "%s%s%s", native_userns_why(cause), f->launch < 0 ? ": " : "",
               f->launch < 0 ? f->launch_err.msg : "");
    else if (f->launch < 0)
        refuse(s, f->launch == -ENOSYS ? "boot Linux 5.12 or newer" : "", "%s", f->launch_err.msg);
    else
        grant(s, f, ENFORCES_PROCESSES | ENFORCES_DISK | ENFORCES_NAMES | ENFORCES_PORTS | ENFORCES_CREDENTIALS,
              f->landlock_abi < 1 ? "without Landlock the second fence around files is missing" : "");
}

static const char *why_no_network(const struct native_facts *f) {
    if (f->notify == 0)
        return "";
    return f->notify == -EBUSY ? "no network: another program around this one answers its system calls (seccomp notification)"
                               : "no network: it needs seccomp notification (Linux 5.19)";
}

static unsigned by_the_guard(const struct native_facts *f) {
    return f->notify == 0 ? ENFORCES_NAMES | ENFORCES_PORTS | ENFORCES_CREDENTIALS : 0;
}

/* The full rung in the host's network. Sockets are the guard's work, as in the landlock rung. */
static void judge_shared(const struct native_facts *f, struct engine_state *s) {
    if (lacks_base(f, s))
        return;
    if (f->launch < 0 && f->launch_userns && f->shared == 0)
        grant(s, f, ENFORCES_PROCESSES | ENFORCES_DISK | by_the_guard(f), why_no_network(f));
    else
        refuse(s, "", "used only where network namespaces alone are refused");
}

/*
 * Not enforced: processes (names and command lines are visible), disk (home and /tmp are ordinary folders without a
 * quota). Rules of the network and credentials need the guard, which makes the sockets; without it there is no network.
 */
static void judge_landlock(const struct native_facts *f, struct engine_state *s) {
    if (lacks_base(f, s))
        return;
    if (f->landlock_abi < NATIVE_BARE_ABI)
        refuse(s, "boot Linux 6.2 or newer with landlock in its list of security modules (lsm=...)",
               "this kernel's Landlock is %s",
               f->landlock_abi < 1 ? "missing or off" : "too old: files that may only be read could be truncated");
    else if (f->root && f->root_owns)
        refuse(s, "run Bawn as an ordinary user, or give the workspace to one (chown -R USER .)",
               "root owns the workspace, and without user namespaces the command would have to be root");
    else if (f->root && f->stuck)
        refuse(
            s, "give root CAP_SETUID, CAP_SETGID and CAP_CHOWN, or run Bawn as the owner of the workspace",
            "root here cannot become the owner of the workspace, and without user namespaces the command would have to be root");
    else if (f->launch < 0 && !f->launch_userns)
        refuse(s, "", "used only where there are no user namespaces; here something else is wrong: %s", f->launch_err.msg);
    else
        grant(s, f, by_the_guard(f), why_no_network(f));
}

void native_judge(const struct native_facts *f, struct engine_state ret[static RUNG_COUNT]) {
    judge_full(f, &ret[RUNG_FULL]);
    judge_shared(f, &ret[RUNG_SHARED_NET]);
    judge_landlock(f, &ret[RUNG_LANDLOCK]);
}

enum rung native_best(const struct engine_state rungs[static RUNG_COUNT]) {
    enum rung best = RUNG_FULL;

    while (best < RUNG_COUNT && !rungs[best].available)
        best++;
    return best;
}
