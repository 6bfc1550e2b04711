/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/str.h"
#include "os/fd.h"
#include "os/remove.h"
#include "supervisor/session/sweep.h"

enum { MANY = 120, FEW = 10, DEAD_PID = 1 << 23 }; /* above any pid that Linux gives */

struct scene {
    char top[32], *variable;
    char *environ_[2];
    int run; /* where the sockets are */
};

static int setup(void **state) {
    static struct scene s;
    char path[64];

    s = (struct scene){.top = "/tmp/bawn-sweep-XXXXXX"};
    assert_non_null(mkdtemp(s.top));
    s.variable = s.environ_[0] = str_dupf("XDG_RUNTIME_DIR=%s", s.top);
    snprintf(path, sizeof path, "%s/bawn", s.top);
    assert_int_equal(mkdir(path, 0700), 0);
    s.run = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(s.run >= 0);
    *state = &s;
    return 0;
}

static int teardown(void **state) {
    struct scene *s = *state;

    close(s->run);
    remove_tree(AT_FDCWD, s->top);
    free(s->variable);
    return 0;
}

/* Sockets of supervisors that are gone. */
static void leave(const struct scene *s, int first, int n) {
    for (int i = first; i < first + n; i++) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(at.sun_path, sizeof at.sun_path, "%s/bawn/%d.sock", s->top, DEAD_PID + i);
        assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
        close(fd);
    }
}

static bool is_there(const struct scene *s, int i) {
    char name[32];

    snprintf(name, sizeof name, "%d.sock", DEAD_PID + i);
    return faccessat(s->run, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void test_few_are_swept_each_time(void **state) {
    struct scene *s = *state;

    for (int i = 0; i < 3; i++) {
        leave(s, i * FEW, FEW);
        sweep_if_due(s->environ_, NULL);
        assert_false(is_there(s, i * FEW) || is_there(s, i * FEW + FEW - 1));
    }
    assert_int_equal(faccessat(s->run, "swept", F_OK, 0), -1);
}

static void test_many_are_looked_at_now_and_then(void **state) {
    const struct timespec past[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - 1}};
    const struct timespec far[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) + 100000}};
    struct swept n;
    struct scene *s = *state;

    leave(s, 0, MANY);
    sweep_if_due(s->environ_, NULL);
    assert_false(is_there(s, 0) || is_there(s, MANY - 1));
    leave(s, 0, 1);
    sweep_if_due(s->environ_, NULL);
    assert_true(is_there(s, 0));
    sweep_stale(s->environ_, NULL, true, &n); /* a look counts, and changes nothing */
    assert_int_equal(n.sockets, 1);
    assert_true(is_there(s, 0));
    assert_int_equal(utimensat(s->run, "swept", past, 0), 0);
    sweep_if_due(s->environ_, NULL);
    assert_false(is_there(s, 0));
    leave(s, 0, 1);
    assert_int_equal(utimensat(s->run, "swept", far, 0), 0); /* of another clock */
    sweep_if_due(s->environ_, NULL);
    assert_false(is_there(s, 0));
    leave(s, 0, 1);
    sweep_stale(s->environ_, NULL, false, NULL); /* who wants it gets it */
    assert_false(is_there(s, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_few_are_swept_each_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_are_looked_at_now_and_then, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
