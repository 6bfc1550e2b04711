/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: what a sandboxed program prints cannot reprogram, read or type into the user's terminal (ATTACKS 78). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/termfilter.h"

struct bytes {
    char data[32768];
    size_t n;
};

static void filter_chunked(const char *in, size_t n, size_t chunk, struct bytes *ret) {
    struct termfilter f;
    size_t len = 0;

    termfilter_init(&f);
    for (size_t i = 0; i < n; i += chunk)
        len += termfilter_feed(&f, in + i, MIN_OF(chunk, n - i), ret->data + len);
    ret->n = len + termfilter_end(&f, ret->data + len);
    ret->data[ret->n] = 0;
}

static void expect(const char *in, const char *out) {
    struct bytes b;

    filter_chunked(in, strlen(in), strlen(in) + 1, &b);
    assert_string_equal(b.data, out);
    assert_int_equal(b.n, strlen(out));
}

static void expect_dropped(const char *sequence) {
    char in[256];

    snprintf(in, sizeof in, "a%sz", sequence);
    expect(in, "az");
}

static const char *const passed[] = {
    "plain text\r\n\ttab\b\a",
    "grüße 漢字 🙂",
    "\x1b[0;1;38;2;1;2;3m",
    "\x1b[4:3m",
    "\x1b[2J",
    "\x1b[10;20H",
    "\x1b[?1049h",
    "\x1b[?1049;2004l",
    "\x1b[?1000;1006h",
    "\x1b[?25l",
    "\x1b[?2026$p",
    "\x1b[4h",
    "\x1b[1;24r",
    "\x1b[2 q",
    "\x1b[!p",
    "\x1b[c",
    "\x1b[0c",
    "\x1b[>c",
    "\x1b[>0q",
    "\x1b[6n",
    "\x1b[5n",
    "\x1b[?6n",
    "\x1b[22;0t",
    "\x1b[23;2;1t",
    "\x1b[18t",
    "\x1b[14;2t",
    "\x1b[>4;2m",
    "\x1b[?4m",
    "\x1b[>1u",
    "\x1b[<u",
    "\x1b[=1;1u",
    "\x1b[?u",
    "\x1b[3b",
    "\x1b[1;1;5;5$x",
    "\x1b"
    "7",
    "\x1b"
    "8",
    "\x1b=",
    "\x1b>",
    "\x1b"
    "c",
    "\x1bM",
    "\x1b(0lqk\x1b(B",
    "\x1b#8",
    "\x0e\x0f",
    "\x1b]0;title\a",
    "\x1b]2;tëxt\x1b\\",
    "\x1b]4;1;rgb:ff/00/00\x1b\\",
    "\x1b]4;1;?\a",
    "\x1b]10;?\a",
    "\x1b]11;#ffffff\a",
    "\x1b]104\a",
    "\x1b]112\a",
    "\x1b]7;file://host/tmp\a",
    "\x1b]133;A\a",
    "\x1b]133;D;0\a",
    "\x1b]8;id=1;https://example.org/a?b=c\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]8;;http://x\a",
    "\x1b]9;done\a",
    "\x1b]9;4;1;50\a",
    "\x1b]777;notify;title;body\a",
    "\x1b[?3;4l",
    "\x1b[?5W",
    "\x1b[1 @",
    "\x1b[#{",
    "\x1b[?996n",
};

static void test_drawing_passes(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(passed); i++)
        expect(passed[i], passed[i]);
}

static const char *const dropped[] = {
    /* clipboard, font, files, notifications that run something, property, log file, evaluation */
    "\x1b]52;c;aGk=\a",
    "\x1b]52;c;?\x1b\\",
    "\x1b]50;?\a",
    "\x1b]1337;File=name=eA==:AAAA\a",
    "\x1b]9;7;cmd\a",
    "\x1b]9;6;macro\a",
    "\x1b]3;prop=x\a",
    "\x1b]46;/tmp/log\a",
    "\x1b]51;Eeval\a",
    "\x1b]99;;x\a",
    "\x1b]633;E;x\a",
    "\x1b]777;precmd\a",
    "\x1b]52;c;YQ\n==\a",
    "\x1b]052;c;?\a",
    "\x1b];x\a",
    "\x1b]\a",
    "\x1b]lname\x1b\\",
    /* links that start a program, directories that are no file URL */
    "\x1b]8;;file:///etc/passwd\a",
    "\x1b]8;;javascript:x\a",
    "\x1b]8;;https://a b\a",
    "\x1b]8;\a",
    "\x1b]7;http://x\a",
    "\x1b]8;;HTTPS://x\a",
    "\x1b]133;A;$(x)\a",
    "\x1b]11;a\xc3\xa4\a",
    /* a title must mean the same to every terminal */
    "\x1b]0;a\xc2\x9c\a",
    "\x1b]0;a\x9c\a",
    "\x1b]2;\xff\a",
    ("\x1b]2;a\xc2\x9b"
     "20t\x1b\\"),
    /* window operations and reports that echo text */
    "\x1b[20t",
    "\x1b[21t",
    "\x1b[;21t",
    "\x1b[8;50;80t",
    "\x1b[1t",
    "\x1b[2t",
    "\x1b[3;0;0t",
    "\x1b[11t",
    "\x1b[24t",
    "\x1b[t",
    "\x1b[22;9t",
    "\x1b[>2t",
    "\x1b[18;21t",
    /* printer, checksum, presentation and terminal state, macros, conformance, highlight tracking */
    "\x1b[i",
    "\x1b[5i",
    "\x1b[?4i",
    "\x1b[1;1;1;1;5;5*y",
    "\x1b[#y",
    "\x1b[1$w",
    "\x1b[1$u",
    "\x1b[x",
    "\x1b[1*z",
    "\x1b[62;1\"p",
    "\x1b[1;2;3;4;5T",
    "\x1b[=c",
    "\x1b[1;2c",
    "\x1b[15n",
    "\x1b[?15n",
    "\x1b[2h",
    "\x1b[12l",
    "\x1b[12h",
    "\x1b[4;2h",
    "\x1b[h",
    "\x1b[?2l",
    "\x1b[?38h",
    "\x1b[?42h",
    "\x1b[?46h",
    "\x1b[?1049;46h",
    "\x1b[?1001h",
    "\x1b[?h",
    "\x1b[?5i",
    "\x1b[1q",
    "\x1b[99999999999b",
    "\x1b[70000b",
    "\x1b[1?h",
    "\x1b[??25h",
    "\x1b[ $p",
    "\x1b[1 2m",
    /* strings */
    "\x1bP$qm\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x1bP1;1|17/41\x1b\\",
    "\x1bP1;0;0!z41\x1b\\",
    "\x1bPtmux;x\x1b\\",
    "\x1bPq#0\x1b\\",
    "\x1b_Ga=T,t=f;L2V0\x1b\\",
    "\x1b^x\x1b\\",
    "\x1bXx\x1b\\",
    "\x1bktitle\x1b\\",
    "\x1bP a\nb\x1b\\",
    "\x1bPtmux;\x1b\x1b]52;c;eA==\a\x1b\\",
    /* controls and escapes */
    "\x05",
    "\x18",
    "\x1a",
    "\x7f",
    "\x10",
    "\x11",
    "\xc2\x9b",
    "\xc2\x9d",
    "\xc2\x80",
    "\x1b%@",
    "\x1b%G",
    "\x1b F",
    "\x1b G",
    "\x1bZ",
    "\x1bn",
    "\x1b|",
    "\x1b\\",
    "\x1bN",
    "\x1b-A",
    "\x1b(%5",
    "\x1b#9",
    "\x1b$(B",
    "\x1b[[",
    "\x1b\x1b\x1b\x1b%G",
    /* Linux console palette: no terminator, so what follows must not be swallowed */
    "\x1b]P1ff0000",
    "\x1b]R",
};

static void test_reprogramming_is_dropped(void **state) {
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(dropped); i++)
        expect_dropped(dropped[i]);
}

static void test_controls_are_stripped_from_titles(void **state) {
    (void)state;
    expect("\x1b]0;a\nb\x05"
           "c\a",
           "\x1b]0;abc\a");
}

static void test_control_inside_csi_ends_it(void **state) {
    (void)state;
    expect("\x1b[2\n1t", "\n1t");
    expect("\x1b[2\x1b[31m1t", "\x1b[31m1t");
    expect("\x1b[2\x18"
           "1t",
           "1t");
}

static void test_escape_inside_string_starts_anew(void **state) {
    (void)state;
    expect("\x1b]0;x\x1b[31my", "\x1b[31my");
    expect("\x1bPq\x1b]52;c;eA==\x1b\\z", "z");
    expect("\x1b]0;x\x18y", "y");
}

static void test_not_utf8_becomes_replacement(void **state) {
    (void)state;
    expect("a\x9b"
           "31m",
           "a\xef\xbf\xbd"
           "31m");
    expect("\xe2\x9bx", "\xef\xbf\xbdx");
    expect("\xed\xa0\x80", "\xef\xbf\xbd");
    expect("\xc3", "\xef\xbf\xbd");
    expect("\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd");
    expect("\xc2\x1b[20t\xa9", "\xef\xbf\xbd\xef\xbf\xbd");
    expect("\xf0\x9f\x99", "\xef\xbf\xbd");
}

static void test_long_sequences_are_dropped(void **state) {
    static char in[TERMFILTER_SEQ_MAX * 2];
    struct bytes b;

    (void)state;
    memset(in, '1', sizeof in);
    memcpy(in, "\x1b[", 2);
    memcpy(in + sizeof in - 2, "mz", 2);
    filter_chunked(in, sizeof in, sizeof in, &b);
    assert_string_equal(b.data, "z");

    memset(in, 'x', sizeof in);
    memcpy(in, "\x1b]2;", 4);
    memcpy(in + sizeof in - 2, "\az", 2);
    filter_chunked(in, sizeof in, 7, &b);
    assert_string_equal(b.data, "z");

    memset(in, ' ', sizeof in);
    memcpy(in, "\x1b", 1);
    memcpy(in + sizeof in - 2, "cz", 2);
    filter_chunked(in, sizeof in, sizeof in, &b);
    assert_string_equal(b.data, "z");
}

/* A program that prints ESC ] and never ends it must not silence itself for ever. */
static void test_endless_string_ends(void **state) {
    struct termfilter f;
    char in[1000], out[TERMFILTER_OUT_MAX(sizeof in)];
    size_t fed = 0;

    (void)state;
    termfilter_init(&f);
    memset(in, 'x', sizeof in);
    assert_int_equal(termfilter_feed(&f, "\x1b]2;", 4, out), 0);
    while (termfilter_feed(&f, in, sizeof in, out) == 0)
        assert_true((fed += sizeof in) <= TERMFILTER_SKIP_MAX);
    assert_true(fed + sizeof in >= TERMFILTER_SKIP_MAX);
}

/* Any bytes at all, biased towards those that mean something. */
static size_t random_input(char *in, size_t max, unsigned *seed) {
    static const char spice[] = "\x1b\x1b\x1b[]P_^Xk;?>=0123456789mhltnc\a\\\x18\x9b\x9c\xc2\xe2\xf0\x9f\x80$*# \"!q";
    size_t n = (size_t)rand_r(seed) % max, k;

    for (size_t i = 0; i < n; i++) {
        if (rand_r(seed) % 6 == 0) {
            const char *whole = rand_r(seed) % 2 ? passed[(size_t)rand_r(seed) % ARRAY_LEN(passed)]
                                                 : dropped[(size_t)rand_r(seed) % ARRAY_LEN(dropped)];

            k = MIN_OF(strlen(whole), n - i);
            memcpy(in + i, whole, k);
            i += k;
            if (i >= n)
                break;
        }
        in[i] = rand_r(seed) % 4 ? spice[(size_t)rand_r(seed) % (sizeof spice - 1)] : (char)rand_r(seed);
    }
    return n;
}

static void test_chunking_makes_no_difference(void **state) {
    unsigned seed = 4711;
    static struct bytes whole, cut, twice;
    char in[600];

    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t n = random_input(in, sizeof in, &seed);

        filter_chunked(in, n, n + 1, &whole);
        filter_chunked(in, n, 1 + (size_t)rand_r(&seed) % 9, &cut);
        assert_int_equal(whole.n, cut.n);
        assert_memory_equal(whole.data, cut.data, whole.n);
        filter_chunked(whole.data, whole.n, 3, &twice);
        assert_int_equal(whole.n, twice.n);
        assert_memory_equal(whole.data, twice.data, whole.n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawing_passes),
        cmocka_unit_test(test_reprogramming_is_dropped),
        cmocka_unit_test(test_controls_are_stripped_from_titles),
        cmocka_unit_test(test_control_inside_csi_ends_it),
        cmocka_unit_test(test_escape_inside_string_starts_anew),
        cmocka_unit_test(test_not_utf8_becomes_replacement),
        cmocka_unit_test(test_long_sequences_are_dropped),
        cmocka_unit_test(test_endless_string_ends),
        cmocka_unit_test(test_chunking_makes_no_difference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
