/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../fuzz/fuzz_execreq.c"

static char *argv_full[] = {(char[]){"sh"}, (char[]){"-c"}, (char[]){"echo \xff"}, (char[]){""}, NULL};
static char *envp_full[] = {(char[]){"A=b"}, (char[]){"GONE"}, (char[]){"E="}, NULL};

static const struct exec_request full = {
    .flags = EXEC_TTY | EXEC_TTY_STDIN | EXEC_STDOUT | EXEC_TERMIOS | EXEC_BACKGROUND,
    .rows = 50,
    .cols = UINT16_MAX,
    .modes = {1, 2, 3, UINT32_MAX},
    .cc = {[0] = 3, [EXEC_CC - 1] = 255},
    .timeout_ms = UINT64_MAX,
    .cwd = "/work space",
    .argv = argv_full,
    .argc = 4,
    .envp = envp_full,
    .envc = 3,
};
static const struct exec_request least = {.argv = argv_full, .argc = 1};

static int decode_copy(const char *bytes, size_t len) {
    struct exec_request r = {.argc = 77};
    char *copy = malloc(len ? len : 1);
    int result;

    memcpy(copy, bytes, len);
    result = exec_request_decode(copy, len, &r);
    if (result < 0)
        assert_int_equal(r.argc, 77);
    else
        exec_request_done(&r);
    free(copy);
    return result;
}

static int decoded(const struct exec_request *r) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EXEC_REQUEST_MAX);

    assert_int_equal(exec_request_encode(r, &b), 0);
    return decode_copy(b.data, b.len);
}

static void test_round_trip(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EXEC_REQUEST_MAX);
    CLEANUP(exec_request_done) struct exec_request r = {0};

    assert_int_equal(exec_request_encode(&full, &b), 0);
    assert_int_equal(exec_request_decode(b.data, b.len, &r), 0);
    assert_int_equal(r.flags, full.flags);
    assert_int_equal(r.rows, full.rows);
    assert_int_equal(r.cols, full.cols);
    assert_memory_equal(r.modes, full.modes, sizeof r.modes);
    assert_memory_equal(r.cc, full.cc, sizeof r.cc);
    assert_true(r.timeout_ms == full.timeout_ms);
    assert_string_equal(r.cwd, full.cwd);
    assert_int_equal(r.argc, 4);
    assert_int_equal(r.envc, 3);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(r.argv[i], full.argv[i]);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(r.envp[i], full.envp[i]);
    assert_null(r.argv[4]);
    assert_null(r.envp[3]);
}

static void test_least(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EXEC_REQUEST_MAX);
    CLEANUP(exec_request_done) struct exec_request r = {0};

    assert_int_equal(exec_request_encode(&least, &b), 0);
    assert_int_equal(exec_request_decode(b.data, b.len, &r), 0);
    assert_string_equal(r.cwd, ""); /* NULL and "" are the same */
    assert_int_equal(r.envc, 0);
    assert_null(r.envp[0]);
}

static void test_every_truncation_is_refused(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EXEC_REQUEST_MAX);

    assert_int_equal(exec_request_encode(&full, &b), 0);
    for (size_t len = 0; len < b.len; len++)
        assert_int_equal(decode_copy(b.data, len), -EBADMSG);
    assert_int_equal(decode_copy(b.data, b.len), 0);
    buf_addc(&b, 0);
    assert_int_equal(decode_copy(b.data, b.len), -EBADMSG);
}

static void test_every_bit(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EXEC_REQUEST_MAX);

    assert_int_equal(exec_request_encode(&full, &b), 0);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (char)(1 << bit % 8);
        assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len), 0);
        b.data[bit / 8] ^= (char)(1 << bit % 8);
    }
}

static void test_flags(void **state) {
    static const struct {
        uint32_t flags;
        int result;
    } cases[] = {{EXEC_TTY, 0}, /* only to have one */
                 {EXEC_FLAGS_TTY, 0},
                 {EXEC_TTY | EXEC_TTY_STDIN | EXEC_STDOUT | EXEC_STDERR, 0},
                 {EXEC_FLAGS_FDS | EXEC_BACKGROUND, 0},
                 {EXEC_TTY_STDIN, -EBADMSG},
                 {EXEC_TTY | EXEC_TTY_STDOUT | EXEC_STDOUT, -EBADMSG},
                 {EXEC_TTY | EXEC_TTY_STDERR | EXEC_STDERR, -EBADMSG},
                 {512, -EBADMSG},
                 {0x80000000, -EBADMSG}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct exec_request r = least;

        r.flags = cases[i].flags;
        assert_int_equal(decoded(&r), cases[i].result);
    }
}

static void test_what_makes_no_sense(void **state) {
    char *no_name[] = {(char[]){"=x"}, NULL}, *empty[] = {(char[]){""}, NULL};
    struct exec_request r = least;

    r.argc = 0;
    assert_int_equal(decoded(&r), -EBADMSG);
    r = least;
    r.cwd = "relative";
    assert_int_equal(decoded(&r), -EBADMSG);
    r = least;
    r.rows = UINT16_MAX + 1;
    assert_int_equal(decoded(&r), -EBADMSG);
    r = least;
    r.envc = 1;
    r.envp = no_name;
    assert_int_equal(decoded(&r), -EBADMSG);
    r.envp = empty;
    assert_int_equal(decoded(&r), -EBADMSG);
}

static void test_ceilings(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(EXEC_REQUEST_MAX), small = BUF_INIT(16);
    char **argv = calloc(EXEC_STRINGS_MAX + 2, sizeof *argv), word[] = "";
    struct exec_request r = {.argv = argv, .argc = EXEC_STRINGS_MAX};

    for (size_t i = 0; i <= EXEC_STRINGS_MAX; i++)
        argv[i] = word;
    assert_int_equal(decoded(&r), 0);
    r.argc++;
    assert_int_equal(exec_request_encode(&r, &b), -E2BIG);
    assert_int_equal(exec_request_encode(&least, &small), -E2BIG);
    free(argv);
}

static void test_modes(void **state) {
    struct termios t = {.c_iflag = 1, .c_oflag = 2, .c_cflag = 3, .c_lflag = 4, .c_cc = {[VINTR] = 3, [VEOF] = 4}};
    struct exec_request r = least;

    exec_request_modes(&r, &t);
    assert_int_equal(r.flags, EXEC_TERMIOS);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(r.modes[i], i + 1);
    assert_int_equal(r.cc[VINTR], 3);
    assert_int_equal(r.cc[VEOF], 4);
}

/* The fuzzer's corpus; it is found from the project's root, where tests are run. */
static void test_corpus(void **state) {
    static char data[65536];
    DIR *d = opendir("tests/fuzz/corpus/execreq");
    struct dirent *e;
    int files = 0, accepted = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        ssize_t n = e->d_name[0] == '.' ? -1 : read(fd, data, sizeof data);

        if (n >= 0) {
            assert_int_equal(LLVMFuzzerTestOneInput((const uint8_t *)data, (size_t)n), 0);
            accepted += decode_copy(data, (size_t)n) == 0;
            files++;
        }
        close(fd);
    }
    closedir(d);
    assert_true(files >= 12);
    assert_int_equal(accepted, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_least), cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_every_bit),  cmocka_unit_test(test_flags), cmocka_unit_test(test_what_makes_no_sense),
        cmocka_unit_test(test_ceilings),   cmocka_unit_test(test_modes), cmocka_unit_test(test_corpus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
