/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/str.h"
#include "os/fd.h"

enum { BIG = 1 << 20 };

static void test_grows(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(BIG);

    assert_string_equal(buf_str(&b), "");
    for (int i = 0; i < 1000; i++)
        buf_addf(&b, "%03d,", i);
    assert_true(buf_ok(&b));
    assert_int_equal(b.len, 4000);
    assert_int_equal(strlen(buf_str(&b)), 4000);
    assert_true(str_ends(buf_str(&b), ",998,999,"));
    buf_add(&b, "\0x", 2); /* bytes, not strings */
    assert_int_equal(b.len, 4002);
    assert_memory_equal(b.data + 4000, "\0x", 3);
    buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 4002);
}

static void test_ceiling_is_exact(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(8);

    buf_adds(&b, "12345678");
    assert_true(buf_ok(&b));
    buf_adds(&b, "");
    assert_true(buf_ok(&b));
    buf_addc(&b, '9');
    assert_false(buf_ok(&b));
    assert_string_equal(buf_str(&b), "12345678");
}

static void test_failure_stays(void **state) {
    static const struct {
        void (*add)(struct buf *b, const char *s);
    } ways[] = {{buf_adds}, {buf_add_json}, {buf_add_printable}, {buf_add_shell}};
    CLEANUP(buf_done) struct buf b = BUF_INIT(8);

    buf_adds(&b, "abc");
    buf_addf(&b, "%d", 1234567);
    assert_false(buf_ok(&b));
    buf_addc(&b, 'd'); /* would fit, but what comes before it is missing */
    assert_string_equal(buf_str(&b), "abc");
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        ways[i].add(&b, "x");
    assert_false(buf_ok(&b));
    assert_string_equal(buf_str(&b), "abc");
    assert_null(buf_take(&b));
    buf_clear(&b);
    assert_true(buf_ok(&b));
    assert_string_equal(buf_str(&b), "");
    buf_adds(&b, "again");
    assert_string_equal(buf_str(&b), "again");
}

static void test_huge_lengths_do_not_wrap(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);

    buf_adds(&b, "x");
    buf_add(&b, "x", SIZE_MAX);
    assert_false(buf_ok(&b));
    buf_clear(&b);
    buf_adds(&b, "x");
    buf_add(&b, "x", SIZE_MAX - 1);
    assert_false(buf_ok(&b));
}

static void test_no_ceiling_is_nothing(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(0);

    buf_adds(&b, "");
    assert_true(buf_ok(&b));
    buf_addc(&b, 'x');
    assert_false(buf_ok(&b));
}

static void test_take(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(100);
    CLEANUP(freep) char *empty = buf_take(&b), *full = NULL;

    assert_string_equal(empty, "");
    buf_adds(&b, "text");
    full = buf_take(&b);
    assert_string_equal(full, "text");
    assert_int_equal(b.len, 0);
    buf_adds(&b, "next");
    assert_string_equal(buf_str(&b), "next");
    assert_string_equal(full, "text");
}

struct escape {
    const char *in, *out;
};

static void check_escapes(void (*add)(struct buf *, const char *), const struct escape *table, size_t n) {
    for (size_t i = 0; i < n; i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(BIG);

        add(&b, table[i].in);
        assert_string_equal(buf_str(&b), table[i].out);
    }
}

static void test_json(void **state) {
    static const struct escape table[] = {
        {"", "\"\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\n\t\r\x1b\x7f", "\"\\n\\u0009\\u000d\\u001b\\u007f\""},
        {"\xc3\xa4\xf0\x9f\x98\x80", "\"\xc3\xa4\xf0\x9f\x98\x80\""},
        {"a\xff\xfe"
         "b",
         "\"a\xef\xbf\xbd\xef\xbf\xbd"
         "b\""},
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"cut \xe2\x82", "\"cut \xef\xbf\xbd\xef\xbf\xbd\""},
    };

    check_escapes(buf_add_json, table, ARRAY_LEN(table));
}

/* A real parser must read back every byte that is valid on its own. */
static void test_json_is_read_back(void **state) {
    for (int c = 1; c < 256; c++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(BIG);
        char in[4] = {'<', (char)c, '>', 0};
        json_t *j;

        buf_add_json(&b, in);
        j = json_loads(buf_str(&b), JSON_DECODE_ANY, NULL);
        assert_non_null(j);
        assert_string_equal(json_string_value(j), c < 0x80 ? in : "<\xef\xbf\xbd>");
        json_decref(j);
    }
}

static void test_printable(void **state) {
    static const struct escape table[] = {
        {"", ""},
        {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\x1b[2J", "\\x1b[2J"},
        {"a\nb\tc\rd\be\x7f", "a\\x0ab\\x09c\\x0dd\\x08e\\x7f"},
        {"\xff\xc3", "\\xff\\xc3"},
        {"\xc2\x9b"
         "2J",
         "\\xc2\\x9b"
         "2J"},                     /* C1: CSI */
        {"\xc2\x80", "\\xc2\\x80"}, /* first and last of C1, and the first that is none */
        {"\xc2\x9f", "\\xc2\\x9f"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"\x9b"
         "2J",
         "\\x9b"
         "2J"}, /* the same as a raw byte */
        {"\xe2\x80\xa9", "\xe2\x80\xa9"},
        {"\xe2\x80\xaa", "\\xe2\\x80\\xaa"}, /* bidirectional embeddings, overrides */
        {"\xe2\x80\xae"
         "cod.exe",
         "\\xe2\\x80\\xae"
         "cod.exe"},
        {"\xe2\x80\xaf", "\xe2\x80\xaf"},
        {"\xe2\x81\xa5", "\xe2\x81\xa5"},
        {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"}, /* and isolates */
        {"\xe2\x81\xa9", "\\xe2\\x81\\xa9"},
        {"\xe2\x81\xaa", "\xe2\x81\xaa"},
        {"\xe2\x81", "\\xe2\\x81"},
    };

    check_escapes(buf_add_printable, table, ARRAY_LEN(table));
}

static void test_printable_leaves_no_control(void **state) {
    for (unsigned c = 1; c < 0x10000; c++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(64);
        char in[3] = {(char)(c >> 8), (char)c, 0};

        buf_add_printable(&b, in[0] ? in : in + 1);
        assert_true(buf_ok(&b) && str_is_utf8(buf_str(&b)));
        for (const char *p = buf_str(&b); *p; p++)
            assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    }
}

/* What `sh -c SCRIPT` writes to its standard output. */
static size_t shell_output(const char *script, char *out, size_t size) {
    int pipe_[2], status;
    size_t n = 0;
    ssize_t got;
    pid_t pid;

    assert_int_equal(pipe(pipe_), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipe_[1], STDOUT_FILENO);
        fd_close_from(3);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    close(pipe_[1]);
    while ((got = fd_read_some(pipe_[0], out + n, size - n)) > 0)
        n += (size_t)got;
    close(pipe_[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return n;
}

/* Every word, and every byte, must come out of a real shell as it went in. */
static void test_shell(void **state) {
    static const char *const words[] = {
        "",     " ",  "plain", "-rf", "a b",   "it's",     "'",       "''",  "\"", "\\",       "\\'", "$HOME", "`id`", "$(id)",
        "*",    "?",  "[a]",   "~",   "~root", "a;b",      "a&b",     "a|b", "<",  ">",        "#",   "a#b",   "!",    "{a,b}",
        "a\nb", "\n", "a\n",   "\t",  "a=b",   "\xff\xfe", "\x1b[0m", "%s",  "%",  "\xc3\xa4", "(",   ")",
    };
    CLEANUP(buf_done) struct buf script = BUF_INIT(BIG), want = BUF_INIT(BIG);
    static char out[BIG];
    size_t n;

    buf_adds(&script, "printf '%s\\0'");
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        buf_addc(&script, ' ');
        buf_add_shell(&script, words[i]);
        buf_add(&want, words[i], strlen(words[i]) + 1);
    }
    for (int c = 1; c < 256; c++) {
        char word[3] = {(char)c, 0, 0};

        buf_addc(&script, ' ');
        buf_add_shell(&script, word);
        buf_add(&want, word, 2);
    }
    assert_true(buf_ok(&script));
    n = shell_output(buf_str(&script), out, sizeof out);
    assert_int_equal(n, want.len);
    assert_memory_equal(out, want.data, n);
}

static void test_shell_leaves_plain_words_alone(void **state) {
    static const struct escape table[] = {
        {"/usr/bin/cc", "/usr/bin/cc"}, {"--opt,b:c@d+e%", "--opt,b:c@d+e%"}, {"", "''"}, {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
    };

    check_escapes(buf_add_shell, table, ARRAY_LEN(table));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_ceiling_is_exact),
        cmocka_unit_test(test_failure_stays),
        cmocka_unit_test(test_huge_lengths_do_not_wrap),
        cmocka_unit_test(test_no_ceiling_is_nothing),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_is_read_back),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_printable_leaves_no_control),
        cmocka_unit_test(test_shell),
        cmocka_unit_test(test_shell_leaves_plain_words_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
