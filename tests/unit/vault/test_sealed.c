/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of the file store: no byte can change unseen, no other key opens it, and its entries come back as they went in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "policy/credential/credential.h"
#include "vault/sealed.h"

static struct secret secret_of(const char *text, size_t len) {
    struct secret s = {0};

    assert_int_equal(secret_alloc(&s, len), 0);
    assert_int_equal(secret_set(&s, text, len), 0);
    return s;
}

/* A store with the entries a=one, b=two, whose passphrase is "open sesame". */
struct scene {
    struct sealed_head head;
    struct secret key, entries;
    struct buf file;
};

static void derive(const struct sealed_head *h, const char *phrase, struct secret *ret) {
    CLEANUP(secret_done) struct secret p = secret_of(phrase, strlen(phrase));
    struct err err = {0};

    assert_int_equal(sealed_derive(h, &p, ret, &err), 0);
}

static void change(struct secret *entries, const char *name, const char *value) {
    CLEANUP(secret_done) struct secret v = secret_of(value, strlen(value)), old = *entries;

    *entries = (struct secret){0};
    assert_int_equal(sealed_change(&old, name, &v, entries), 0);
}

static void make_scene(struct scene *s) {
    struct err err = {0};

    *s = (struct scene){.file = BUF_INIT(SEALED_FILE_MAX)};
    assert_int_equal(sealed_new(SEALED_PASSPHRASE, &s->head, &err), 0);
    s->head.log_n = SEALED_LOG_N_MIN; /* cheap */
    derive(&s->head, "open sesame", &s->key);
    sealed_set_key(&s->head, &s->key);
    change(&s->entries, "a", "one");
    change(&s->entries, "b", "two");
    assert_int_equal(sealed_close(&s->head, &s->key, &s->entries, &s->file, &err), 0);
}

static void end_scene(struct scene *s) {
    secret_done(&s->key);
    secret_done(&s->entries);
    buf_done(&s->file);
}

static void expect_entry(const struct secret *entries, const char *name, const char *value) {
    const char *p;
    size_t len;

    assert_int_equal(sealed_find(entries, name, &p, &len), 0);
    assert_int_equal(len, strlen(value));
    assert_memory_equal(p, value, len);
}

static void test_round_trip(void **state) {
    CLEANUP(secret_done) struct secret got = {0};
    struct err err = {0};
    struct scene s;

    (void)state;
    make_scene(&s);
    assert_int_equal(sealed_open(s.file.data, s.file.len, &s.key, &got, &err), 0);
    expect_entry(&got, "a", "one");
    expect_entry(&got, "b", "two");
    assert_null(memmem(s.file.data, s.file.len, "one", 3));
    end_scene(&s);
}

static void test_wrong_passphrase(void **state) {
    CLEANUP(secret_done) struct secret other = {0}, got = {0};
    struct err err = {0};
    struct scene s;

    (void)state;
    make_scene(&s);
    derive(&s.head, "open sesamE", &other);
    assert_true(sealed_key_fits(&s.head, &s.key));
    assert_false(sealed_key_fits(&s.head, &other));
    assert_int_equal(sealed_open(s.file.data, s.file.len, &other, &got, &err), -EBADMSG);
    assert_null(got.p);
    end_scene(&s);
}

/* Each byte: of the head, which is in clear, of the entries, of the tag. */
static void test_flipped(void **state) {
    struct scene s;

    (void)state;
    make_scene(&s);
    for (size_t i = 0; i < s.file.len; i++) {
        CLEANUP(secret_done) struct secret got = {0};
        struct err err = {0};

        s.file.data[i] ^= 1;
        assert_int_equal(sealed_open(s.file.data, s.file.len, &s.key, &got, &err), -EBADMSG);
        assert_null(got.p);
        assert_true(err.msg[0]);
        s.file.data[i] ^= 1;
    }
    end_scene(&s);
}

static void test_truncated(void **state) {
    struct scene s;

    (void)state;
    make_scene(&s);
    for (size_t len = 0; len < s.file.len; len++) {
        CLEANUP(secret_done) struct secret got = {0};
        struct err err = {0};

        assert_int_equal(sealed_open(s.file.data, len, &s.key, &got, &err), -EBADMSG);
        assert_null(got.p);
    }
    end_scene(&s);
}

/* The same key and the same nonce twice would give away both files. */
static void test_new_nonce_each_time(void **state) {
    CLEANUP(buf_done) struct buf again = BUF_INIT(SEALED_FILE_MAX);
    struct sealed_head one, two;
    struct err err = {0};
    struct scene s;

    (void)state;
    make_scene(&s);
    assert_int_equal(sealed_close(&s.head, &s.key, &s.entries, &again, &err), 0);
    memcpy(&one, s.file.data, sizeof one);
    memcpy(&two, again.data, sizeof two);
    assert_memory_not_equal(one.nonce, two.nonce, sizeof one.nonce);
    assert_memory_equal(one.id, two.id, sizeof one.id);
    end_scene(&s);
}

/* A file must not make us take all memory before its key is known. */
static void test_greedy_head(void **state) {
    struct sealed_head h;
    struct err err = {0};
    struct scene s;

    (void)state;
    make_scene(&s);
    s.file.data[offsetof(struct sealed_head, log_n)] = 30;
    assert_int_equal(sealed_head_read(s.file.data, s.file.len, &h, &err), -EBADMSG);
    end_scene(&s);
}

static void test_entries(void **state) {
    CLEANUP(secret_done) struct secret less = {0}, none = {0}, nothing = {0};
    const char *p;
    size_t len;
    struct scene s;

    (void)state;
    make_scene(&s);
    change(&s.entries, "a", "changed");
    expect_entry(&s.entries, "a", "changed");
    expect_entry(&s.entries, "b", "two");
    assert_int_equal(sealed_find(&s.entries, "ab", &p, &len), -ENOENT);
    assert_int_equal(sealed_change(&s.entries, "a", NULL, &less), 0);
    assert_int_equal(sealed_find(&less, "a", &p, &len), -ENOENT);
    expect_entry(&less, "b", "two");
    assert_int_equal(sealed_change(&less, "a", NULL, &none), -ENOENT);
    assert_int_equal(sealed_find(&nothing, "a", &p, &len), -ENOENT);
    end_scene(&s);
}

static void test_damaged_entries(void **state) {
    static const char long_name[] = "\xff\xff\0\0\0\0",
                      long_value[] = "\1\0\xff\xff\xff\xff"
                                     "a",
                      cut[] = "\1\0\0";
    static const struct {
        const char *p;
        size_t len;
    } cases[] = {{long_name, 6}, {long_value, 7}, {cut, 3}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(secret_done) struct secret s = secret_of(cases[i].p, cases[i].len), to = {0};
        const char *p;
        size_t len;

        assert_int_equal(sealed_find(&s, "x", &p, &len), -EBADMSG);
        assert_int_equal(sealed_change(&s, "x", &s, &to), -EBADMSG);
    }
}

static void test_full(void **state) {
    CLEANUP(secret_done) struct secret entries = {0}, v = secret_of("v", 1), more = {0};
    char name[16];

    (void)state;
    for (int i = 0; i < SEALED_ENTRIES_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        change(&entries, name, "v");
    }
    assert_int_equal(sealed_change(&entries, "one-more", &v, &more), -ENOSPC);
    assert_int_equal(sealed_change(&entries, "n7", &v, &more), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_wrong_passphrase),    cmocka_unit_test(test_flipped),
        cmocka_unit_test(test_truncated),  cmocka_unit_test(test_new_nonce_each_time), cmocka_unit_test(test_greedy_head),
        cmocka_unit_test(test_entries),    cmocka_unit_test(test_damaged_entries),     cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
