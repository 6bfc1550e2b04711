/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../fuzz/fuzz_initmsg.c"
#include "../policy/corpus.h"

static char *argv_full[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"echo \xff"}, (char[]){""}, NULL};
static char *envp_full[] = {(char[]){"PATH=/bin"}, (char[]){"EMPTY="}, NULL};
static struct init_rule rules_full[] = {
    {INIT_ACCESS_EXEC, 0, "/usr"}, {INIT_ACCESS_WRITE, 1, "/work space"}, {INIT_ACCESS_READ, 7, ""}};
static struct init_rlimit rlimits_full[] = {{7, 1, 1024}, {9, 0, UINT64_MAX}};
static struct init_text hide_full[] = {{"", ".sandboxignore", "*.pem\0x\n", 8}, {"a/b", "a/b/.sandboxignore", "", 0}};
static struct init_text protect_full[] = {{"", "built in", "**/.git/hooks/\n", 15}};

static const struct init_start full = {
    .flags = INIT_FLAG_TTY | INIT_FLAG_TTY_STDERR | INIT_FLAG_GUARD,
    .umask = 027,
    .seccomp = 2,
    .landlock = INIT_LANDLOCK_WALL,
    .watch_memory = UINT64_MAX - 1,
    .cpu_affinity = 3,
    .cwd = "/work space",
    .search_path = "/bin:/usr/bin",
    .argv = argv_full,
    .argc = 4,
    .envp = envp_full,
    .envc = 2,
    .rules = rules_full,
    .n_rules = 3,
    .rlimits = rlimits_full,
    .n_rlimits = 2,
    .guard_root = "/work space",
    .hide = hide_full,
    .n_hide = 2,
    .protect = protect_full,
    .n_protect = 1,
};
static const struct init_start least = {.cwd = "", .search_path = "", .argv = argv_full, .argc = 1, .envp = envp_full + 2};

/* Where the counts are in the head of a message. */
enum { AT_ARGC = 40, AT_ENVC = 44, AT_RULES = 48, AT_RLIMITS = 52, AT_HIDE = 56, AT_PROTECT = 60, HEAD_SIZE = 64 };

/* Decodes a copy of exactly that size; returns what decoding said. */
static int decode_copy(const char *bytes, size_t len) {
    struct init_start s = {.argc = 77};
    char *copy = malloc(len ? len : 1);
    int r;

    memcpy(copy, bytes, len);
    r = init_start_decode(copy, len, &s);
    if (r < 0)
        assert_int_equal(s.argc, 77);
    else
        init_start_done(&s);
    free(copy);
    return r;
}

static void expect_texts(const struct init_text *got, const struct init_text *want, size_t n) {
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(got[i].dir, want[i].dir);
        assert_string_equal(got[i].origin, want[i].origin);
        assert_int_equal(got[i].len, want[i].len);
        assert_memory_equal(got[i].data, want[i].data, want[i].len);
    }
}

static void test_round_trip(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);
    CLEANUP(init_start_done) struct init_start s = {0};

    assert_int_equal(init_start_encode(&full, &b), 0);
    assert_int_equal(init_start_decode(b.data, b.len, &s), 0);
    assert_int_equal(s.flags, full.flags);
    assert_int_equal(s.umask, full.umask);
    assert_int_equal(s.seccomp, full.seccomp);
    assert_int_equal(s.landlock, full.landlock);
    assert_int_equal(s.watch_memory, full.watch_memory);
    assert_int_equal(s.cpu_affinity, full.cpu_affinity);
    assert_string_equal(s.cwd, full.cwd);
    assert_string_equal(s.search_path, full.search_path);
    assert_int_equal(s.argc, full.argc);
    assert_int_equal(s.envc, full.envc);
    for (size_t i = 0; i < full.argc; i++)
        assert_string_equal(s.argv[i], full.argv[i]);
    for (size_t i = 0; i < full.envc; i++)
        assert_string_equal(s.envp[i], full.envp[i]);
    assert_null(s.argv[s.argc]);
    assert_null(s.envp[s.envc]);
    assert_int_equal(s.n_rules, full.n_rules);
    for (size_t i = 0; i < full.n_rules; i++) {
        assert_int_equal(s.rules[i].access, full.rules[i].access);
        assert_int_equal(s.rules[i].optional, full.rules[i].optional);
        assert_string_equal(s.rules[i].path, full.rules[i].path);
    }
    assert_int_equal(s.n_rlimits, full.n_rlimits);
    assert_memory_equal(s.rlimits, full.rlimits, sizeof rlimits_full);
    assert_string_equal(s.guard_root, full.guard_root);
    assert_int_equal(s.n_hide, full.n_hide);
    assert_int_equal(s.n_protect, full.n_protect);
    expect_texts(s.hide, full.hide, full.n_hide);
    expect_texts(s.protect, full.protect, full.n_protect);
}

static void test_least(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);
    CLEANUP(init_start_done) struct init_start s = {0};

    assert_int_equal(init_start_encode(&least, &b), 0);
    assert_int_equal(init_start_decode(b.data, b.len, &s), 0);
    assert_int_equal(s.argc, 1);
    assert_int_equal(s.envc, 0);
    assert_null(s.envp[0]);
    assert_string_equal(s.cwd, "");
}

static void test_every_truncation_is_refused(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);

    assert_int_equal(init_start_encode(&full, &b), 0);
    for (size_t len = 0; len < b.len; len++)
        assert_int_equal(decode_copy(b.data, len), -EBADMSG);
    assert_int_equal(decode_copy(b.data, b.len), 0);
    buf_addc(&b, 0);
    assert_int_equal(decode_copy(b.data, b.len), -EBADMSG); /* nor may anything follow */
}

static void test_wrong_magic(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);

    assert_int_equal(init_start_encode(&full, &b), 0);
    for (size_t i = 0; i < 8; i++) {
        b.data[i] ^= 0x20;
        assert_int_equal(decode_copy(b.data, b.len), -EBADMSG);
        b.data[i] ^= 0x20;
    }
    assert_int_equal(decode_copy(b.data, b.len), 0);
}

static void test_absurd_counts(void **state) {
    static const size_t places[] = {AT_ARGC, AT_ENVC, AT_RULES, AT_RLIMITS, AT_HIDE, AT_PROTECT};
    static const uint32_t counts[] = {65, 1000, INIT_STRINGS_MAX, INIT_STRINGS_MAX + 1, 0x7fffffff, 0x80000000, 0xffffffff};
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);

    assert_int_equal(init_start_encode(&full, &b), 0);
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
            char saved[4];

            memcpy(saved, b.data + places[i], 4);
            memcpy(b.data + places[i], &counts[k], 4);
            assert_int_equal(decode_copy(b.data, b.len), -EBADMSG);
            memcpy(b.data + places[i], saved, 4);
        }
    assert_int_equal(decode_copy(b.data, b.len), 0);
}

/* Counts past the ceiling are refused even when the bytes for them are all there. */
static void test_too_many_strings(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);
    char **argv = calloc(INIT_STRINGS_MAX + 2, sizeof *argv), word[] = "x";
    struct init_start s = least;

    for (size_t i = 0; i <= INIT_STRINGS_MAX; i++)
        argv[i] = word;
    s.argv = argv;
    s.argc = INIT_STRINGS_MAX;
    assert_int_equal(init_start_encode(&s, &b), 0);
    assert_int_equal(decode_copy(b.data, b.len), 0);
    buf_clear(&b);
    s.argc++;
    assert_int_equal(init_start_encode(&s, &b), 0);
    assert_int_equal(decode_copy(b.data, b.len), -EBADMSG);
    free(argv);
}

static void test_no_command(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);
    struct init_start s = least;

    s.argc = 0;
    assert_int_equal(init_start_encode(&s, &b), 0);
    assert_int_equal(b.len, HEAD_SIZE + 3);
    assert_int_equal(decode_copy(b.data, b.len), -EBADMSG);
}

/* Who stays has no command, and so no terminal for one. */
static void test_resident(void **state) {
    static const struct {
        uint32_t flags;
        size_t argc;
        int result;
    } cases[] = {{INIT_FLAG_RESIDENT, 0, 0},
                 {INIT_FLAG_RESIDENT | INIT_FLAG_GUARD | INIT_FLAG_NO_PIDNS, 0, 0},
                 {INIT_FLAG_RESIDENT, 1, -EBADMSG},
                 {INIT_FLAG_RESIDENT | INIT_FLAG_TTY, 0, -EBADMSG},
                 {INIT_FLAG_RESIDENT | INIT_FLAG_TTY_STDERR, 0, -EBADMSG}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);
        struct init_start s = least;

        s.flags = cases[i].flags;
        s.argc = cases[i].argc;
        assert_int_equal(init_start_encode(&s, &b), 0);
        assert_int_equal(decode_copy(b.data, b.len), cases[i].result);
    }
}

static void test_encode_past_the_ceiling(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX), small = BUF_INIT(0);

    assert_int_equal(init_start_encode(&full, &b), 0);
    small.ceiling = b.len;
    assert_int_equal(init_start_encode(&full, &small), 0);
    buf_clear(&small);
    small.ceiling--;
    assert_int_equal(init_start_encode(&full, &small), -E2BIG);
}

/* Every message that differs in one bit: refused, or a different message, never one that points outside. */
static void test_every_bit(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(INIT_START_MAX);

    assert_int_equal(init_start_encode(&full, &b), 0);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len), 0);
        b.data[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/initmsg", 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_wrong_magic),
        cmocka_unit_test(test_absurd_counts),
        cmocka_unit_test(test_too_many_strings),
        cmocka_unit_test(test_no_command),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_encode_past_the_ceiling),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
