/* SPDX-License-Identifier: Apache-2.0 */
/* Every number of a call, and the arguments that make a difference, through an interpreter: against the table that the guard works with. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "init/guard/guard_filter.c" /* bawn-init's sources are no part of the library */
#include "unit/jail/bpf.h"

/* The table names them; none is run here. */
#define NOT_RUN(name)                  \
    long name(struct call *c UNUSED) { \
        return -ENOSYS;                \
    }
NOT_RUN(guard_run_open)
NOT_RUN(guard_run_mkdir)
NOT_RUN(guard_run_mknod)
NOT_RUN(guard_run_symlink)
NOT_RUN(guard_run_link)
NOT_RUN(guard_run_rename)
NOT_RUN(guard_run_unlink)
NOT_RUN(guard_run_truncate)
NOT_RUN(guard_run_chmod)
NOT_RUN(guard_run_fchmod)
NOT_RUN(guard_run_setxattr)
NOT_RUN(guard_run_fsetxattr)
NOT_RUN(guard_run_removexattr)
NOT_RUN(guard_run_fremovexattr)
NOT_RUN(guard_run_umask)
NOT_RUN(guard_run_bind)
NOT_RUN(guard_sock_make)
NOT_RUN(guard_sock_bind)
NOT_RUN(guard_sock_connect)
NOT_RUN(guard_sock_listen)

enum { NUMBERS = 1024, MASK = 022, REFUSED = SECCOMP_RET_ERRNO | EOPNOTSUPP };

static unsigned kinds = GUARD_FILES; /* of the filter that is asked */

static uint32_t ask(uint32_t arch, int nr, uint64_t a, uint64_t b, uint64_t c) {
    struct seccomp_data data = {.nr = nr, .arch = arch, .args = {a, b, c}};
    struct sock_filter code[GUARD_FILTER_MAX];
    size_t n = guard_filter_make(MASK, kinds, code);

    assert_in_range(n, 1, GUARD_FILTER_MAX);
    return bpf_run("guard", code, n, &data);
}

static void check_every_number(void) {
    for (int nr = 0; nr < NUMBERS; nr++) {
        const struct guard_row *row = guard_row(nr, kinds);
        bool landlock = nr == SYS_landlock_create_ruleset || nr == SYS_landlock_restrict_self;
        uint32_t wanted = landlock ? REFUSED : row && !row->is_open ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
        uint32_t got = ask(NATIVE_ARCH, nr, 0, 0, 0);

        if (got != wanted)
            fail_msg("call %d: 0x%x, not 0x%x", nr, got, wanted);
        assert_int_equal(ask(NATIVE_ARCH ^ 1, nr, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
    }
    assert_int_equal(ask(NATIVE_ARCH, -1, 0, 0, 0), SECCOMP_RET_ALLOW);
}

static void test_every_number(void **state UNUSED) {
    for (unsigned k = GUARD_FILES; k <= (GUARD_FILES | GUARD_SOCKETS); k++) {
        kinds = k;
        check_every_number();
    }
    kinds = GUARD_FILES;
    assert_null(guard_row(SYS_connect, GUARD_FILES));
    assert_ptr_equal(guard_row(SYS_bind, GUARD_FILES | GUARD_SOCKETS)->run, guard_sock_bind);
    assert_ptr_equal(guard_row(SYS_bind, GUARD_FILES)->run, guard_run_bind);
}

static void test_flags_of_open(void **state UNUSED) {
    static const struct {
        uint64_t flags;
        bool comes;
    } table[] = {
        {O_RDONLY | O_CLOEXEC | O_DIRECTORY, false},
        {O_WRONLY, true},
        {O_RDWR, true},
        {O_ACCMODE, true},
        {O_RDONLY | O_CREAT, true},
        {O_RDONLY | O_TRUNC, true},
        {O_TMPFILE | O_RDWR, true},
        {O_PATH, false},
        {O_PATH | O_CREAT, false}, /* the kernel ignores the rest */
        {UINT64_C(1) << 32, false},
        {(UINT64_C(1) << 32) | O_WRONLY, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        uint32_t wanted = table[i].comes ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;

        assert_int_equal(ask(NATIVE_ARCH, SYS_openat, 0, 0, table[i].flags), wanted);
#ifdef SYS_open
        assert_int_equal(ask(NATIVE_ARCH, SYS_open, 0, table[i].flags, O_WRONLY), wanted);
#endif
    }
}

static void test_umask_and_dumpable(void **state UNUSED) {
    assert_int_equal(ask(NATIVE_ARCH, SYS_umask, MASK, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(ask(NATIVE_ARCH, SYS_umask, 01000 | MASK, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(ask(NATIVE_ARCH, SYS_umask, 077, 0, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(ask(NATIVE_ARCH, SYS_prctl, PR_SET_DUMPABLE, 0, 0), SECCOMP_RET_ERRNO);
    assert_int_equal(ask(NATIVE_ARCH, SYS_prctl, PR_SET_DUMPABLE, 1, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(ask(NATIVE_ARCH, SYS_prctl, PR_SET_NAME, 0, 0), SECCOMP_RET_ALLOW);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_flags_of_open),
        cmocka_unit_test(test_umask_and_dumpable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
