/* SPDX-License-Identifier: Apache-2.0 */
/* Builds and loads the filter of system calls. */
#include "jail/fence/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "jail/seccomp_tables.h" /* generated */

static const struct {
    const struct sock_filter *code;
    size_t n;
} tables[] = {
    [SECCOMP_YARD] = {SECCOMP_TABLE_YARD, ARRAY_LEN(SECCOMP_TABLE_YARD)},
    [SECCOMP_BARE] = {SECCOMP_TABLE_BARE, ARRAY_LEN(SECCOMP_TABLE_BARE)},
    [SECCOMP_NESTED] = {SECCOMP_TABLE_NESTED, ARRAY_LEN(SECCOMP_TABLE_NESTED)},
    [SECCOMP_NET] = {SECCOMP_TABLE_NET, ARRAY_LEN(SECCOMP_TABLE_NET)},
    [SECCOMP_SHARED] = {SECCOMP_TABLE_SHARED, ARRAY_LEN(SECCOMP_TABLE_SHARED)},
    [SECCOMP_GUARD] = {SECCOMP_TABLE_GUARD, ARRAY_LEN(SECCOMP_TABLE_GUARD)},
};
static_assert(ARRAY_LEN(tables) == SECCOMP_VARIANTS, "one table per variant");
static_assert(ARRAY_LEN(SECCOMP_TABLE_YARD) <= BPF_MAXINSNS, "the kernel refuses longer programs");
static_assert(ARRAY_LEN(SECCOMP_TABLE_BARE) <= BPF_MAXINSNS, "the kernel refuses longer programs");
static_assert(ARRAY_LEN(SECCOMP_TABLE_NET) <= BPF_MAXINSNS, "the kernel refuses longer programs");
static_assert(ARRAY_LEN(SECCOMP_TABLE_SHARED) <= BPF_MAXINSNS, "the kernel refuses longer programs");
static_assert(ARRAY_LEN(SECCOMP_TABLE_GUARD) <= BPF_MAXINSNS, "the kernel refuses longer programs");

int seccomp_install(enum seccomp_variant v, struct err *err) {
    /* The kernel only reads the program; its header lacks the const. */
    struct sock_fprog prog = {.len = (unsigned short)tables[v].n, .filter = (struct sock_filter *)(uintptr_t)tables[v].code};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0)
        return 0;
    if (errno == ENOSYS && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) == 0)
        return 0;
    if (errno == EINVAL || errno == ENOSYS)
        return err_set(err, -EOPNOTSUPP, "this kernel has no system call filters (CONFIG_SECCOMP_FILTER)");
    return err_sys(err, -errno, "install the system call filter");
}
