/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/sock.h"
#include "proto/initmsg.h"

static void test_find(void **state) {
    static const char *const known[] = {"native", "docker", "podman", "gvisor", "lima", "sbx", "sandbox-exec", "none", "fake"};
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const struct engine_ops *e = engine_find(known[i], &err);

        assert_non_null(e);
        assert_string_equal(e->name, known[i]);
        assert_true(e->probe && e->start && e->stop && e->finish && e->summary);
    }
    assert_int_equal(err.code, 0);
}

static void test_find_what_is_not_there_yet(void **state) {
    static const char *const planned[] = {"microvm", "kubernetes"};

    for (size_t i = 0; i < ARRAY_LEN(planned); i++) {
        struct err err = {0};

        assert_null(engine_find(planned[i], &err));
        assert_int_equal(err.code, -ENOTSUP);
        assert_int_equal(err_exit_status(&err), EXIT_SANDBOX);
        assert_true(strstr(err.msg, planned[i]) && strstr(err.msg, "not in this version"));
    }
}

static void test_find_nonsense(void **state) {
    static const char *const unknown[] = {"", "nativ", "Native", "native ", "auto", "bwrap", "../native"};

    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        struct err err = {0};

        assert_null(engine_find(unknown[i], &err));
        assert_int_equal(err_exit_status(&err), EXIT_USAGE_ERR);
        assert_true(strstr(err.msg, "unknown engine '") && strstr(err.msg, "known: auto, native, docker, podman, gvisor"));
        assert_null(strstr(err.msg, "fake")); /* not for people */
    }
    assert_null(engine_find("nonsense", NULL));
}

static void test_tables(void **state) {
    for (int i = 0; i < GUARANTEE_COUNT; i++) {
        assert_non_null(guarantee_names[i]);
        assert_non_null(guarantee_meaning[i]);
    }
    assert_int_equal(ENFORCES_KERNEL, 1 << (GUARANTEE_COUNT - 1));
    for (size_t i = 0; i < n_engines; i++) {
        struct engine_state st[8];
        const char *names[8];
        size_t n = engines[i]->probe(st, names, 0);

        assert_int_equal(n, 0); /* writes no more than it may */
        assert_int_equal(engines[i]->for_tests, str_eq(engines[i]->name, "fake"));
    }
    assert_int_equal(engine_none.can_keep, 0);
}

static void test_fake_keeps(void **state) {
    static const struct {
        const char *variable;
        unsigned keeps;
    } table[] = {{NULL, ENFORCES_EVERYTHING},
                 {"0", 0},
                 {"5", 5},
                 {"262143", ENFORCES_EVERYTHING},
                 {"262144", 0},
                 {"-1", 0},
                 {"", 0},
                 {"x", 0}};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct engine_state st = {0};
        const char *name = NULL;

        if (table[i].variable)
            setenv("BAWN_FAKE_KEEPS", table[i].variable, 1);
        else
            unsetenv("BAWN_FAKE_KEEPS");
        assert_int_equal(engine_fake.probe(&st, &name, 1), 1);
        assert_true(st.available);
        assert_int_equal(st.keeps, table[i].keeps);
        assert_string_equal(name, "fake");
    }
    unsetenv("BAWN_FAKE_KEEPS");
}

/* The message that a supervisor gets, for what BAWN_FAKE says. */
static void test_fake_answers(void **state) {
    static const struct {
        const char *variable;
        enum init_msg_type type;
        int value;
        const char *text;
    } table[] = {
        {NULL, INIT_MSG_EXITED, 0, ""},          {"exit:0", INIT_MSG_EXITED, 0, ""},
        {"exit:7", INIT_MSG_EXITED, 7 << 8, ""}, {"exit:255", INIT_MSG_EXITED, 255 << 8, ""},
        {"signal:9", INIT_MSG_EXITED, 9, ""},    {"fail:no luck", INIT_MSG_FAILED, EIO, "no luck"},
        {"fail:", INIT_MSG_FAILED, EIO, ""},     {"exit:256", INIT_MSG_FAILED, EIO, ""},
        {"exit:", INIT_MSG_FAILED, EIO, ""},     {"signal:0", INIT_MSG_FAILED, EIO, ""},
        {"signal:65", INIT_MSG_FAILED, EIO, ""}, {"nonsense", INIT_MSG_FAILED, EIO, ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const struct engine_request req = {.stdio = {-1, -1, -1}};
        struct sandbox sb = SANDBOX_INIT;
        struct init_msg msg = {0};
        struct err err = {0};
        enum rung next = RUNG_LANDLOCK;

        if (table[i].variable)
            setenv("BAWN_FAKE", table[i].variable, 1);
        else
            unsetenv("BAWN_FAKE");
        assert_int_equal(engine_fake.start(&req, &sb, &next, &err), 0);
        assert_int_equal(next, RUNG_FULL);
        assert_int_equal(sock_recv(sb.control, &msg, sizeof msg, NULL, NULL), sizeof msg);
        assert_int_equal(msg.type, table[i].type);
        assert_int_equal(msg.value, table[i].value);
        assert_string_equal(msg.text, table[i].text);
        engine_fake.stop(&sb);
        engine_fake.finish(&sb); /* safe to repeat */
        assert_int_equal(sb.pid, -1);
        assert_int_equal(sb.control, -1);
        assert_true(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    }
    unsetenv("BAWN_FAKE");
}

static void test_finish_what_never_started(void **state) {
    for (size_t i = 0; i < n_engines; i++) {
        struct sandbox sb = SANDBOX_INIT;

        engines[i]->finish(&sb);
        assert_int_equal(sb.control, -1);
    }
}

/* Helpers are found beside the program, whatever PATH and the current directory offer. */
static void test_helper(void **state) {
    char self[4096], path[4096], tiny[8];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int fd;

    assert_true(n > 0);
    self[n] = 0;
    fd = engine_helper(strrchr(self, '/') + 1, path, sizeof path);
    assert_true(fd >= 0);
    assert_string_equal(path, self);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
    assert_int_equal(engine_helper("sh", path, sizeof path), -ENOENT);          /* in PATH, but not ours */
    assert_int_equal(engine_helper("meson.build", path, sizeof path), -ENOENT); /* in the current directory of a test */
    assert_int_equal(access("meson.build", F_OK), 0);
    assert_int_equal(engine_helper("sh", tiny, sizeof tiny), -ENAMETOOLONG);
}

/* podman says what it cannot mount without the "..", and by that we know that it is on another machine (container.c). */
static void test_helper_of_an_installation(void **state) {
    char self[4096], parent[4096], dir[4200], ours[4300], path[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int fd;

    assert_true(n > 0);
    self[n] = 0;
    *strrchr(self, '/') = 0;
    snprintf(parent, sizeof parent, "%.*s/libexec", (int)(strrchr(self, '/') - self), self);
    snprintf(dir, sizeof dir, "%s/bawn", parent);
    snprintf(ours, sizeof ours, "%s/helper-of-test-engine", dir);
    mkdir(parent, 0755);
    mkdir(dir, 0755);
    fd = open(ours, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    close(fd);
    fd = engine_helper("helper-of-test-engine", path, sizeof path);
    unlink(ours);
    rmdir(dir);
    rmdir(parent);
    assert_true(fd >= 0);
    close(fd);
    assert_string_equal(path, ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_what_is_not_there_yet),
        cmocka_unit_test(test_find_nonsense),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_fake_keeps),
        cmocka_unit_test(test_fake_answers),
        cmocka_unit_test(test_finish_what_never_started),
        cmocka_unit_test(test_helper),
        cmocka_unit_test(test_helper_of_an_installation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
