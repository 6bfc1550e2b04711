/* SPDX-License-Identifier: Apache-2.0 */
/* Limits, capabilities, Landlock and system call filters of bawn-review. */
#include "review/review_jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/fence/caps.h"
#include "jail/fence/cell.h"
#include "jail/fence/landlock.h"
#include "jail/fence/seccomp.h"
#include "os/fd.h"

enum {
    ROOTS_MAX = 4,
    CPU_SECONDS = 120, /* a review of 50000 files takes less than one; this ends what an agent made to take forever */
    FILES_MAX = 1024,
    MEMORY_FILE = 64 * 1024, /* JOURNAL_PACKED_MAX */
};

enum { GIB = 1 << 30 };

static const struct cell_limit limits[] = {
    CELL_MEMORY(4ull * GIB),
    {RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 5}, /* the first is SIGXCPU, which says what happened; the second SIGKILL */
    {RLIMIT_FSIZE, MEMORY_FILE, MEMORY_FILE},   /* no file can be opened to write; this is for those in memory */
    {RLIMIT_NOFILE, FILES_MAX, FILES_MAX},
    {RLIMIT_NPROC, 0, 0},
    {RLIMIT_CORE, 0, 0},
};

/*
 * What reading files and writing to a pipe takes, out of what SECCOMP_BARE allows. Some are for libc and the sanitizers. That
 * filter is made for commands of a user, so it lets them write and execute: without Landlock that is too much here.
 */
static const uint32_t needed[] = {
    CELL_CALLS_OF_ITSELF,
    __NR_read,
    __NR_pread64,
    __NR_readv,
    __NR_write,
    __NR_writev,
    __NR_close,
    __NR_fstat,
    __NR_statx,
    __NR_newfstatat,
    __NR_fstatfs,
    __NR_lseek,
    __NR_getdents64,
    __NR_readlinkat,
    __NR_fgetxattr,
    __NR_flistxattr,
    __NR_getxattr,
    __NR_lgetxattr,
    __NR_listxattr,
    __NR_llistxattr,
    __NR_fcntl,
    __NR_dup,
    __NR_fadvise64,
    __NR_memfd_create, /* a small file of the journal, which has many in one (workspace/run/journal_blob.c) */
    __NR_mmap,
    __NR_mprotect,
    __NR_getuid,
    __NR_geteuid,
    __NR_getgid,
    __NR_getegid,
    __NR_sched_getaffinity,
    __NR_getrlimit,
    __NR_tgkill,
};

enum { WRITING_FLAGS = O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY) };

/* openat only to read. The architecture was checked by SECCOMP_BARE, which is in force already: filters add up. */
static const struct sock_filter arguments[] = {
    CELL_LOAD(nr), CELL_IF_EQ(__NR_openat, 0, 4), CELL_LOAD(args[2]), CELL_IF_ANY(WRITING_FLAGS, 1, 0), CELL_ALLOW, CELL_DENY,
};

static int fence(const int *roots, size_t n, struct err *err) {
    const struct landlock_opts opts = {.scope_abstract = true, .scope_signals = true, .deny_tcp = true};
    struct landlock_rule rules[ROOTS_MAX];
    int r;

    if (n > ROOTS_MAX)
        BUG("more folders than bawn-review ever has");
    for (size_t i = 0; i < n; i++)
        rules[i] = (struct landlock_rule){.fd = roots[i], .access = LANDLOCK_READ};
    r = landlock_restrict(rules, n, &opts, err);
    return r == -EOPNOTSUPP ? 0 : r;
}

int review_lock(const int *roots, size_t n, unsigned first_closed, struct err *err) {
    const struct cell_filter filter = CELL_FILTER("bawn-review", arguments, needed);
    int r = fd_close_from(first_closed);

    if (r < 0)
        return err_sys(err, r, "close inherited descriptors");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(err, -errno, "give up privileges");
    r = caps_reduce(1u << CAP_DAC_READ_SEARCH, err); /* what root needs to read a tree that belongs to others */
    r = r < 0 ? r : fence(roots, n, err);
    r = r < 0 ? r : cell_limit(limits, ARRAY_LEN(limits), err);
    r = r < 0 ? r : seccomp_install(SECCOMP_BARE, err);
    return r < 0 ? r : cell_install(&filter, err);
}
