/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>

#include "../../fuzz/fuzz_tar.c"
#include "../policy/corpus.h"

static void test_numbers(void **state) {
    static const struct {
        const char *text;
        int r;
        int64_t value;
    } cases[] = {
        {"0000644", 0, 0644},
        {" 17   \0", 0, 15},
        {"\0\0\0\0\0\0\0", 0, 0},
        {"7777777", 0, 07777777},
        {"12345x7", -EINVAL, 0},
        {"\x80\0\0\0\0\0\0\xff", 0, 255},
        {"\xff\xff\xff\xff\xff\xff\xff\xff", 0, -1},
        {"\xff\xff\xff\xff\xff\xff\xff\x00", 0, -256},
        {"\x90\0\0\0\0\0\0\0", 0, 0x1000000000000000},
    };
    int64_t v;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        v = 0;
        assert_int_equal(tar_number((const unsigned char *)cases[i].text, 8, &v), cases[i].r);
        assert_int_equal(v, cases[i].value);
    }
    assert_int_equal(tar_number((const unsigned char *)"\x80\x01\0\0\0\0\0\0\0\0\0\0", 12, &v), -ERANGE);
    assert_int_equal(tar_number((const unsigned char *)"\x80\0\0\0\xff\0\0\0\0\0\0\0", 12, &v), -ERANGE);
}

static const struct tar_entry *find_entry(const char *file, const char *name, struct tar *t, struct pieces_source *s) {
    static unsigned char data[1 << 16];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    struct err err = {0};

    assert_true(fd >= 0);
    *s = (struct pieces_source){data, (size_t)read(fd, data, sizeof data), 1000, NULL};
    close(fd);
    *t = (struct tar){.more = give, .arg = s};
    while (tar_next(t, &err) > 0)
        if (strncmp(t->entry.path, name, strlen(name)) == 0)
            return &t->entry;
    return NULL;
}

/* Made by GNU tar: the same file in all of its formats for holes. */
static void test_sparse(void **state) {
    static const char *const files[] = {"gnu", "pax", "pax01", "pax00"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char path[100];
        struct pieces_source s;
        struct tar t;
        const struct tar_entry *e;

        snprintf(path, sizeof path, "tests/fuzz/corpus/tar/%s", files[i]);
        e = find_entry(path, "d/sp", &t, &s);
        assert_non_null(e);
        assert_true(e->sparse);
        assert_int_equal(e->size, 20000);
        assert_true(e->n_pieces >= 1 && e->packed < 20000);
        assert_true(e->pieces[0].at <= 15000 && e->pieces[0].at + e->pieces[0].len > 15000);
        tar_done(&t);
        free(s.copy);
    }
}

static void test_long_names(void **state) {
    static const char *const files[] = {"tests/fuzz/corpus/tar/gnu", "tests/fuzz/corpus/tar/pax"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        struct pieces_source s;
        struct tar t;
        const struct tar_entry *e = find_entry(files[i], "d/nn", &t, &s);

        assert_non_null(e);
        assert_int_equal(strlen(e->path), 202);
        tar_done(&t);
        free(s.copy);
    }
}

static void test_corpus(void **state) {
    run_corpus("tests/fuzz/corpus/tar", 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_sparse),
                                       cmocka_unit_test(test_long_names), cmocka_unit_test(test_corpus)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
