/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that change owners, ids and set-id bits say that they did, and did not; everything else is as before. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "jail/fence/one_id.h"
#include "jail/fence/seccomp.h"

/* Which check failed first, as the exit status. */
#define CHECK(n, condition) \
    if (!(condition))       \
    _exit(n)

static void check_inside(const char *path) {
    gid_t groups[1] = {0};
    struct stat st;

    CHECK(10, chown(path, 1, 1) == 0 && lchown(path, 1, 1) == 0 && fchownat(AT_FDCWD, path, 1, 1, 0) == 0);
    CHECK(11, stat(path, &st) == 0 && st.st_uid == geteuid() && st.st_gid == getegid());
    CHECK(12,
          setuid(0) == 0 && setgid(0) == 0 && setresuid(1, 1, 1) == 0 && setresgid(1, 1, 1) == 0 && setgroups(1, groups) == 0);
    CHECK(13, geteuid() == 65534 && getegid() == 65534 && getgroups(0, NULL) == 0);
    CHECK(14, chmod(path, 04755) == 0 && chmod(path, 02755) == 0 && fchmodat(AT_FDCWD, path, 06755, 0) == 0);
    CHECK(15, stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
    CHECK(16, chmod(path, 0755) == 0 && stat(path, &st) == 0 && (st.st_mode & 07777) == 0755);
    CHECK(17, open(path, O_WRONLY | O_CREAT, 04755) < 0 && errno == EPERM);
    CHECK(18, syscall(SYS_mount, NULL, "/", NULL, 0, NULL) < 0 && errno == EPERM);
    CHECK(19, chown("/nonexistent", 1, 1) == 0); /* it is not even looked */
}

static void calls_are_answered_and_not_made(void **state) {
    char path[] = "/tmp/bawn-one-id.XXXXXX";
    struct err err = {0};
    int status;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("skip: needs root\n");
        skip();
    }
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd;

        CHECK(1, setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
        fd = mkstemp(path);
        CHECK(2, fd >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(3, seccomp_install(SECCOMP_YARD, &err) == 0 && one_id_install(false, &err) == 0);
        check_inside(path);
        CHECK(4, fchown(fd, 1, 1) == 0 && fchmod(fd, 04700) == 0 && fchmod(fd, 0700) == 0 && unlink(path) == 0);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_answered_and_not_made)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
