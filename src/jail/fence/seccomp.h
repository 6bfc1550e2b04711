/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system call filter of sandboxed processes. The policy is the table in seccomp_policy.h; it is compiled at build
 * time (tools/seccomp-gen), so that starting a sandbox costs one system call and needs no library. No allocation: fit for
 * a child made by vfork and for the static bawn-init.
 */
#pragma once

#include <linux/filter.h>

#include "base/macros.h"

struct err;

enum seccomp_variant {
    SECCOMP_YARD, /* inside own user, mount, pid, ipc and net namespaces */
    SECCOMP_BARE, /* without namespaces, Landlock is the fence: no sockets, no IPC, nothing aimed at other processes */
    SECCOMP_NET,  /* the same with sockets; only below the guard's own filter, by which it makes them (init/guard/guard_sock.h) */
    SECCOMP_GUARD,  /* for that guard */
    SECCOMP_SHARED, /* as YARD in the host's network: sockets as in NET, below the guard's own filter as well */
    SECCOMP_NESTED, /* as YARD, for a container engine inside: user and mount namespaces below ours, and mounts in them */
    SECCOMP_VARIANTS
};

/*
 * Filters the calling thread and whatever it starts from now on, for good. The caller has set no_new_privs. Fails when
 * the kernel has no seccomp filters; the caller then refuses to run anything.
 */
int seccomp_install(enum seccomp_variant v, struct err *err) MUST_USE;
