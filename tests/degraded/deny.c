/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deny NAME... -- CMD ARG...: runs CMD as if the kernel lacked the named features. Needs no privileges. What is denied
 * stays denied for everything CMD starts; no_new_privs is set as a side effect.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/macros.h"

struct denial {
    const char *feature, *call;
    int error;
    uint32_t mask, value; /* of an argument; mask 0: any call */
    unsigned arg;         /* which one, from 0 */
};

static const struct denial denials[] = {
    {"userns", "clone", EPERM, CLONE_NEWUSER, CLONE_NEWUSER},
    {"userns", "unshare", EPERM, CLONE_NEWUSER, CLONE_NEWUSER},
    {"userns", "clone3", ENOSYS, 0, 0},       /* its flags are in memory, where no filter looks */
    {"hostname", "sethostname", EPERM, 0, 0}, /* as podman's profile does it */
    {"netns", "clone", EPERM, CLONE_NEWNET, CLONE_NEWNET},
    {"netns", "unshare", EPERM, CLONE_NEWNET, CLONE_NEWNET},
    {"netns", "clone3", ENOSYS, 0, 0},
    {"cgroupns", "unshare", EPERM, CLONE_NEWCGROUP, CLONE_NEWCGROUP}, /* as in a user namespace without capabilities (AppArmor) */
    {"mounts", "mount", EPERM, 0, 0},
    {"mounts", "open_tree", EPERM, 0, 0},
    {"mounts", "move_mount", EPERM, 0, 0},
    {"mounts", "fsopen", EPERM, 0, 0},
    {"mounts", "fsmount", EPERM, 0, 0},
    {"mounts", "mount_setattr", EPERM, 0, 0},
    {"notify", "seccomp", EBUSY, SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_NEW_LISTENER, 1},
    {"landlock", "landlock_create_ruleset", ENOSYS, 0, 0},
    {"landlock", "landlock_add_rule", ENOSYS, 0, 0},
    {"landlock", "landlock_restrict_self", ENOSYS, 0, 0},
    {"seccomp", "seccomp", ENOSYS, 0, 0},
    {"seccomp", "prctl", EINVAL, UINT32_MAX, PR_SET_SECCOMP},
    {"openat2", "openat2", ENOSYS, 0, 0},
    {"clone3", "clone3", ENOSYS, 0, 0},
    {"pidfd", "pidfd_open", ENOSYS, 0, 0},
    {"pidfd", "pidfd_send_signal", ENOSYS, 0, 0},
    {"newmount", "open_tree", ENOSYS, 0, 0},
    {"newmount", "move_mount", ENOSYS, 0, 0},
    {"newmount", "fsopen", ENOSYS, 0, 0},
    {"newmount", "fsmount", ENOSYS, 0, 0},
    {"newmount", "fsconfig", ENOSYS, 0, 0},
    {"newmount", "fspick", ENOSYS, 0, 0},
    {"newmount", "mount_setattr", ENOSYS, 0, 0},
    {"memory", "process_vm_readv", EPERM, 0, 0}, /* as docker's profile does it for processes without CAP_SYS_PTRACE */
    {"memory", "process_vm_writev", EPERM, 0, 0},
    {"memory", "pidfd_getfd", EPERM, 0, 0},
    {"closerange", "close_range", ENOSYS, 0, 0},
    {"memfd", "memfd_create", ENOSYS, 0, 0},
    {"nftables", "socket", EPROTONOSUPPORT, UINT32_MAX, NETLINK_NETFILTER, 2},
};

static int fail(const char *what, const char *detail) {
    fprintf(stderr, "deny: %s: %s\n", what, detail);
    return 125;
}

static int deny_call(scmp_filter_ctx ctx, const struct denial *d) {
    int nr = seccomp_syscall_resolve_name(d->call);

    if (d->mask == 0)
        return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(d->error), nr, 0);
    return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(d->error), nr, 1, SCMP_CMP(d->arg, SCMP_CMP_MASKED_EQ, d->mask, d->value));
}

/* The number of calls denied; 0: no such feature; negative: errno. */
static int deny_feature(scmp_filter_ctx ctx, const char *feature) {
    int n = 0;

    for (size_t i = 0; i < ARRAY_LEN(denials); i++) {
        int r = strcmp(denials[i].feature, feature) == 0 ? deny_call(ctx, &denials[i]) : 1;

        if (r < 0)
            return r;
        n += r == 0;
    }
    return n;
}

int main(int argc, char **argv) {
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    int i, r;

    if (!ctx)
        return fail("seccomp_init", "failed");
    for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        r = deny_feature(ctx, argv[i]);
        if (r <= 0)
            return fail(argv[i], r == 0 ? "no such feature" : strerror(-r));
    }
    if (i + 1 >= argc)
        return fail("usage", "deny NAME... -- CMD ARG...");
    r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW);
    if (r == 0)
        r = seccomp_load(ctx); /* sets no_new_privs first */
    if (r < 0)
        return fail("install the filter", strerror(-r));
    execvp(argv[i + 1], argv + i + 1);
    r = errno == ENOENT ? 127 : 126;
    fail(argv[i + 1], strerror(errno));
    return r;
}
