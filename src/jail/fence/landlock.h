/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock: the fence around files, abstract sockets and signals that needs no namespace and no privilege. In the full
 * engine it is a second wall behind the mounts; without user namespaces it is the wall itself.
 *
 *     const struct landlock_rule rules[] = {
 *         {.path = "/usr", .access = LANDLOCK_READ_EXEC},
 *         {.fd = workspace_fd, .access = LANDLOCK_WRITE},
 *     };
 *     r = landlock_restrict(rules, ARRAY_LEN(rules), &(struct landlock_opts){.scope_signals = true}, err);
 *
 * What no rule grants is denied, in addition to what the kernel denies anyway; files opened before stay usable. It also
 * keeps processes from attaching (ptrace, /proc/PID/mem, pidfd_getfd) to any process outside. No allocation, raw system
 * calls: fit for a child made by vfork and for the static bawn-init.
 */
#pragma once

#include "base/macros.h"

struct err;

enum landlock_access {
    LANDLOCK_READ,      /* read files, list directories */
    LANDLOCK_READ_EXEC, /* and execute */
    LANDLOCK_WRITE,     /* and write, create, remove, rename, truncate, ioctl on devices; no device nodes */
    LANDLOCK_CONNECT,   /* and connect to a unix socket that a process outside made (needed from ABI 9 on) */
    LANDLOCK_LAYERS,    /* LANDLOCK_WRITE, and whiteouts: without CAP_MKNOD the kernel lets no other device node be made */
    LANDLOCK_ACCESS_COUNT
};

struct landlock_rule {
    const char *path; /* NULL: fd */
    int fd;           /* of a file or directory, O_PATH is enough; not closed */
    enum landlock_access access;
    bool optional; /* a path that does not exist is no failure */
};

struct landlock_opts {
    bool scope_abstract; /* ABI 6: no abstract unix socket made outside */
    bool scope_signals;  /* ABI 6: no signal to a process outside */
    bool deny_tcp;       /* ABI 4: no TCP bind or connect at all */
    bool writes_only;    /* reading, executing, truncating and ioctl stay free: opening a file for reading then costs nothing,
                            where the kernel would otherwise walk from every opened file up to a rule (+20 % on small files) */
    bool scopes_only;    /* no files at all: behind rules about files nothing can be mounted. ABI 6, else nothing */
    int min_abi;         /* fail rather than restrict less than this ABI can; 0: take what there is (at least 1) */
    int max_abi;         /* act as an older kernel would; 0: as new as the kernel is */
};

/* The kernel's ABI version, 0 when Landlock is missing or switched off. */
int landlock_abi(void);

/*
 * Restricts the calling thread and whatever it starts from now on, for good. The caller has set no_new_privs. Rights that
 * the kernel's ABI does not know are left out: use min_abi where they are needed. -EOPNOTSUPP: no (or too old a) Landlock.
 */
int landlock_restrict(const struct landlock_rule *rules, size_t n, const struct landlock_opts *opts, struct err *err) MUST_USE;

/* What a kernel with this ABI does not keep from the sandbox, as clauses for people; NULL-terminated. */
const char *const *landlock_missing(int abi);
