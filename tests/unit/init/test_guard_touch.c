/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "init/guard/guard_touch.c" /* bawn-init's sources are no part of the library */

void guard_orphan(struct guard *g) {
    closep(&g->sock);
}

void guard_take(struct guard *g, int listener) {
    fail_msg("there is no listener");
}

size_t guard_poll(const struct guard *g, struct pollfd *ret) {
    return 0;
}

int spool_touch(struct guard *g, const char *rel, const struct stat *st, bool named) {
    return 0; /* there is none */
}

uint64_t time_ns(const struct timespec *t) {
    return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

int place_open(const struct place *p, int flags, mode_t mode) {
    return -EACCES;
}

struct scene {
    struct guard g;
    int supervisor;
};

static int begin(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    int pair[2];

    assert_int_equal(sock_pair(pair), 0);
    s->g.sock = pair[0];
    s->supervisor = pair[1];
    assert_int_equal(seen_init(&s->g.seen), 0);
    *state = s;
    return 0;
}

static int end(void **state) {
    struct scene *s = *state;

    closep(&s->g.sock);
    closep(&s->supervisor);
    free(s->g.seen.slots);
    free(s);
    return 0;
}

/* What the supervisor hears next; an empty path: nothing. */
static struct touch_packet hear(const struct scene *s) {
    struct touch_packet p = {0};
    struct pollfd poll_fd = {.fd = s->supervisor, .events = POLLIN};
    int fd = -1;
    size_t n_fds = 1;
    long n = poll(&poll_fd, 1, 0) == 1 ? sock_recv(s->supervisor, &p, sizeof p - 1, &fd, &n_fds) : 0;

    assert_true(n == 0 || (size_t)n == sizeof p.head + p.head.path_len);
    closep(&fd);
    return p;
}

/* Answers beforehand: the guard waits in the same thread. */
static void answer(const struct scene *s, int32_t value) {
    struct guard_msg go = {.type = GUARD_MSG_GO, .value = value};

    assert_int_equal(sock_send(s->supervisor, &go, sizeof go, NULL, 0), 0);
}

static void test_new_paths_are_told_once(void **state) {
    struct scene *s = *state;
    struct touch_packet p;

    assert_int_equal(guard_touch_new(&s->g, "a/b"), 0);
    p = hear(s);
    assert_string_equal(p.path, "a/b");
    assert_int_equal(p.head.type, GUARD_MSG_TOUCH);
    assert_int_equal(p.head.wait, 0);
    assert_int_equal(p.head.mode, 0);
    assert_int_equal(guard_touch_new(&s->g, "a/b"), 0);
    assert_string_equal(hear(s).path, "");
    assert_int_equal(guard_touch_new(&s->g, "a/bb"), 0);
    assert_string_equal(hear(s).path, "a/bb");
    assert_int_equal(guard_touch_new(&s->g, ""), 0); /* the workspace itself */
    assert_string_equal(hear(s).path, "");
}

static void test_old_paths_wait(void **state) {
    struct scene *s = *state;
    struct stat st = {.st_mode = S_IFDIR | 0755, .st_ino = 7, .st_dev = 8, .st_mtim = {2, 3}, .st_size = 4};
    struct touch_packet p;

    answer(s, 0);
    assert_int_equal(guard_touch_at(&s->g, "d", &st, true), 0);
    p = hear(s);
    assert_int_equal(p.head.wait, 1);
    assert_int_equal(p.head.unlinking, 1);
    assert_int_equal(p.head.mode, st.st_mode);
    assert_int_equal(p.head.mtime_ns, 2000000003);
    assert_int_equal(p.head.ino, 7);
    assert_int_equal(p.head.dev, 8);
    assert_int_equal(p.head.size, 4);
    assert_int_equal(guard_touch_at(&s->g, "d", &st, true), 0); /* would wait for ever if it asked again */
}

/* What was not put away must be asked for again. */
static void test_a_no_is_not_remembered(void **state) {
    struct scene *s = *state;
    struct stat st = {.st_mode = S_IFDIR | 0755};

    answer(s, -ENOSPC);
    assert_int_equal(guard_touch_at(&s->g, "d", &st, false), -ENOSPC);
    assert_string_equal(hear(s).path, "d");
    answer(s, 0);
    assert_int_equal(guard_touch_at(&s->g, "d", &st, false), 0);
    assert_string_equal(hear(s).path, "d");
    answer(s, 5); /* no errno: nothing a supervisor says */
    assert_int_equal(guard_touch_at(&s->g, "e", &st, false), -EIO);
}

static void test_alone_everything_fails(void **state) {
    struct scene *s = *state;
    struct stat st = {.st_mode = S_IFDIR | 0755};

    assert_int_equal(guard_touch_new(&s->g, "told"), 0);
    closep(&s->supervisor);
    assert_int_equal(guard_touch_new(&s->g, "new"), -EIO);
    assert_int_equal(s->g.sock, -1);
    assert_int_equal(guard_touch_new(&s->g, "told"), -EIO);
    assert_int_equal(guard_touch_at(&s->g, "told", &st, false), -EIO);
    assert_int_equal(guard_refuse(&s->g, "x", GUARD_WHY_HIDDEN, -EACCES), -EACCES);
}

static void test_refusals_are_told_once_per_reason(void **state) {
    struct scene *s = *state;
    struct touch_packet p;

    assert_int_equal(guard_refuse(&s->g, "x", GUARD_WHY_HIDDEN, -EPERM), -EPERM);
    p = hear(s);
    assert_int_equal(p.head.type, GUARD_MSG_REFUSED);
    assert_int_equal(p.head.value, GUARD_WHY_HIDDEN);
    assert_int_equal(guard_refuse(&s->g, "x", GUARD_WHY_HIDDEN, -EPERM), -EPERM);
    assert_string_equal(hear(s).path, "");
    assert_int_equal(guard_refuse(&s->g, "x", GUARD_WHY_PROTECTED, -EPERM), -EPERM);
    assert_string_equal(hear(s).path, "x");
    assert_int_equal(guard_touch_new(&s->g, "x"), 0); /* that it was refused does not mean that it was told */
    assert_string_equal(hear(s).path, "x");
}

static void test_many_paths(void **state) {
    struct scene *s = *state;
    char path[32];

    for (int i = 0; i < 100000; i++) {
        snprintf(path, sizeof path, "f%d", i);
        assert_true(seen_add(&s->g.seen, 0, path));
    }
    for (int i = 0; i < 100000; i++) {
        snprintf(path, sizeof path, "f%d", i);
        assert_true(seen_has(&s->g.seen, 0, path));
        assert_false(seen_add(&s->g.seen, 0, path));
        assert_false(seen_has(&s->g.seen, 1, path));
    }
    assert_int_equal(s->g.seen.n, 100000);
}

/* The reference's vectors: key 00..0f, message 00 01 02...; a NUL would end a path, so only the empty one is theirs. */
static void test_hash(void **state) {
    struct guard_seen s = {.key = {0x0706050403020100, 0x0f0e0d0c0b0a0908}};

    assert_true(hash_path(&s, 0, "") == 0x726fdb47dd0e0e31);
    assert_true(hash_path(&s, 0, "12345678") != hash_path(&s, 0, "1234567"));
    assert_true(hash_path(&s, 0, "12345678") != hash_path(&s, 0, "123456789"));
    assert_true(hash_path(&s, 0, "x") != hash_path(&s, 1, "x"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_paths_are_told_once, begin, end),
        cmocka_unit_test_setup_teardown(test_old_paths_wait, begin, end),
        cmocka_unit_test_setup_teardown(test_a_no_is_not_remembered, begin, end),
        cmocka_unit_test_setup_teardown(test_alone_everything_fails, begin, end),
        cmocka_unit_test_setup_teardown(test_refusals_are_told_once_per_reason, begin, end),
        cmocka_unit_test_setup_teardown(test_many_paths, begin, end),
        cmocka_unit_test(test_hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
