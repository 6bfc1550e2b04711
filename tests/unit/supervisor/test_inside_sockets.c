/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: only the user enters the folder, everybody may connect; nothing is left, and what the killed left is swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/remove.h"
#include "supervisor/credential/inside_sockets.h"

static char dir[64], variable[128];
static char *environment[] = {variable, NULL};

static int setup(void **state) {
    snprintf(dir, sizeof dir, "/tmp/bawn-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(variable, sizeof variable, "XDG_RUNTIME_DIR=%s", dir);
    return 0;
}

static int teardown(void **state) {
    return remove_tree(AT_FDCWD, dir);
}

static mode_t mode_of(const char *path) {
    struct stat st;

    return stat(path, &st) < 0 ? 0 : st.st_mode;
}

static void test_open(void **state) {
    static const bool both[INSIDE_SOCKETS] = {true, true};
    struct inside_sockets s = INSIDE_SOCKETS_INIT;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct err err = {0};
    char folder[256];
    int fd;

    assert_int_equal(inside_sockets_open(environment, both, &s, &err), 0);
    snprintf(folder, sizeof folder, "%s/bawn/%s", dir, s.name);
    assert_int_equal(mode_of(folder), S_IFDIR | 0700);
    for (size_t i = 0; i < INSIDE_SOCKETS; i++) {
        assert_int_equal(mode_of(s.path[i]), S_IFSOCK | 0666);
        assert_int_equal(fcntl(s.fd[i], F_GETFD), FD_CLOEXEC);
        snprintf(a.sun_path, sizeof a.sun_path, "%s", s.path[i]);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
        close(fd);
    }
    inside_sockets_done(&s);
    assert_int_equal(mode_of(folder), 0);
    inside_sockets_done(&s); /* again does nothing */
}

static void test_one(void **state) {
    static const bool one[INSIDE_SOCKETS] = {[INSIDE_CREDENTIAL] = true};
    struct inside_sockets s = INSIDE_SOCKETS_INIT;
    struct err err = {0};

    assert_int_equal(inside_sockets_open(environment, one, &s, &err), 0);
    assert_int_equal(s.fd[INSIDE_SSH], -1);
    assert_null(s.path[INSIDE_SSH]);
    assert_true(s.fd[INSIDE_CREDENTIAL] >= 0);
    inside_sockets_done(&s);
}

static void test_sweep(void **state) {
    static const bool both[INSIDE_SOCKETS] = {true, true};
    struct inside_sockets s = INSIDE_SOCKETS_INIT;
    char dead[128], alive[128], other[128];
    struct err err = {0};

    snprintf(dead, sizeof dead, "%s/bawn", dir);
    assert_int_equal(mkdir(dead, 0700), 0);
    snprintf(dead, sizeof dead, "%s/bawn/in-%d-1", dir, (int)getpid()); /* our pid, but not us */
    snprintf(alive, sizeof alive, "%s/bawn/in-%d-%llu", dir, (int)getppid(), (unsigned long long)process_start_time(getppid()));
    snprintf(other, sizeof other, "%s/bawn/inside", dir);
    assert_int_equal(mkdir(dead, 0700) | mkdir(alive, 0700) | mkdir(other, 0700), 0);
    assert_int_equal(inside_sockets_open(environment, both, &s, &err), 0);
    assert_int_equal(mode_of(dead), 0);
    assert_int_equal(mode_of(alive), S_IFDIR | 0700);
    assert_int_equal(mode_of(other), S_IFDIR | 0700);
    inside_sockets_done(&s);
}

static void test_folder_of_others(void **state) {
    static const bool both[INSIDE_SOCKETS] = {true, true};
    struct inside_sockets s = INSIDE_SOCKETS_INIT;
    struct err err = {0};
    char path[128];

    snprintf(path, sizeof path, "%s/bawn", dir);
    assert_int_equal(mkdir(path, 0700) | chmod(path, 0777), 0);
    assert_true(inside_sockets_open(environment, both, &s, &err) < 0);
    assert_non_null(strstr(err.msg, "others may write there"));
    assert_int_equal(s.parent, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder_of_others, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
