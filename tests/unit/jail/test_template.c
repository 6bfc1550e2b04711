/* SPDX-License-Identifier: Apache-2.0 */
/* What a template is made of: which plans have one, what is equal, and bytes that are cut or wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "jail/apply/template.h"

static struct step steps[] = {
    {STEP_RO, "/usr", "/usr"},
    {STEP_DIR, "/etc"},
    {STEP_FILE, "/etc/passwd", "ann:x:1000:\n", .mode = 0644},
    {STEP_PRIVATE, "/tmp", "private", .mode = 01777},
    {STEP_PRIVATE, "/home/ann", "private", .mode = 0700},
    {STEP_DEVICE, "/dev/null", "/dev/null"},
    {STEP_PROC, "/proc"},
    {STEP_WORKSPACE, "/home/ann/proj", "/home/ann/proj", .writable = true},
    {STEP_SYMLINK, "/home/ann/.npm", ".cache/npm"},
    {STEP_EXTRA, "/srv/data", "/", .writable = true},
};
enum { USR, ETC, PASSWD, TMP, HOME, DEVICE, PROC, WORKSPACE, LINK, EXTRA };

static struct plan a_plan(void) {
    return (struct plan){
        .rung = RUNG_FULL, .mode = WORKSPACE_DIRECT, .private_size = 1 << 20, .steps = steps, .n_steps = ARRAY_LEN(steps)};
}

static bool describe(const struct plan *p, struct buf *b) {
    *b = (struct buf)BUF_INIT(TEMPLATE_MAX);
    template_describe(p, b);
    return b->len > 0;
}

static void test_what_is_in_it(void **state UNUSED) {
    static const struct {
        enum step_kind kind;
        const char *to;
    } wanted[] = {{STEP_DIR, "/tmp"}, {STEP_DIR, "/home/ann"},    {STEP_DIR, "/srv/data"},   {STEP_RO, "/usr"},
                  {STEP_DIR, "/etc"}, {STEP_FILE, "/etc/passwd"}, {STEP_DEVICE, "/dev/null"}};
    CLEANUP(buf_done) struct buf b = BUF_INIT(1);
    CLEANUP(plan_done) struct plan read = {0};
    struct plan p = a_plan();
    struct err err = {0};

    assert_true(describe(&p, &b));
    assert_int_equal(template_read(b.data, b.len, &read, &err), 0);
    assert_int_equal(read.private_size, p.private_size);
    assert_int_equal(read.n_steps, ARRAY_LEN(wanted));
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        assert_int_equal(read.steps[i].kind, wanted[i].kind);
        assert_string_equal(read.steps[i].to, wanted[i].to);
    }
    assert_string_equal(read.steps[5].from, "ann:x:1000:\n");
    assert_int_equal(read.steps[5].mode, 0644);
}

static void test_what_comes_with_the_tree(void **state UNUSED) {
    static const bool holds[] = {[USR] = true, [ETC] = true, [PASSWD] = true, [DEVICE] = true, [EXTRA] = false};
    struct plan p = a_plan();

    for (size_t i = 0; i < p.n_steps; i++)
        assert_int_equal(template_holds(&p, &steps[i]), holds[i]);
    assert_true(template_leaves(&p, "/home/ann/proj"));
    assert_false(template_leaves(&p, "/home/anna"));
    assert_false(template_leaves(&p, "/home/ann"));
}

/* Another workspace below the home needs no other template; another content of a file, or another size, does. */
static void test_equal(void **state UNUSED) {
    CLEANUP(buf_done) struct buf a = BUF_INIT(1), b = BUF_INIT(1), c = BUF_INIT(1), d = BUF_INIT(1);
    struct plan p = a_plan();

    assert_true(describe(&p, &a));
    steps[WORKSPACE].to = "/home/ann/other";
    assert_true(describe(&p, &b));
    assert_true(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    steps[WORKSPACE].to = "/home/ann/proj";
    steps[PASSWD].from = "bob:x:1000:\n";
    assert_true(describe(&p, &c));
    assert_true(a.len == c.len && memcmp(a.data, c.data, a.len) != 0);
    steps[PASSWD].from = "ann:x:1000:\n";
    p.private_size *= 2;
    assert_true(describe(&p, &d));
    assert_true(a.len == d.len && memcmp(a.data, d.data, a.len) != 0);
}

static bool has_one(const struct plan *p) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1);

    return describe(p, &b);
}

static void test_none(void **state UNUSED) {
    struct plan p = a_plan();

    assert_true(has_one(&p));
    p.mode = WORKSPACE_OVERLAY;
    assert_false(has_one(&p));
    p = a_plan();
    p.ids.by_root = true;
    assert_false(has_one(&p));
    p = a_plan();
    p.home_persistent = true;
    assert_false(has_one(&p));
    p = a_plan();
    steps[USR].ours = true; /* comes later; its place is made in advance */
    assert_true(has_one(&p));
    steps[USR].ours = false;
    steps[LINK].kind = STEP_PRIVATE; /* a second group of private areas */
    assert_false(has_one(&p));
    steps[LINK].kind = STEP_COPY;
    assert_true(has_one(&p));
    steps[LINK].kind = STEP_SYMLINK;
}

static int read_bytes(const char *bytes, size_t len) {
    CLEANUP(plan_done) struct plan read = {0};
    CLEANUP(freep) char *copy = malloc(len ? len : 1); /* so that a byte too far is seen by AddressSanitizer */
    struct err err = {0};

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    return template_read(copy, len, &read, &err);
}

static void test_cut_and_wrong(void **state UNUSED) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1);
    struct plan p = a_plan();

    assert_true(describe(&p, &b));
    assert_int_equal(read_bytes(b.data, b.len), 0);
    for (size_t i = 0; i < b.len; i++)
        assert_int_equal(read_bytes(b.data, i), -EBADMSG);
    for (size_t i = 0; i < b.len * 8; i++) { /* may be another template, but is read within its bounds */
        b.data[i / 8] ^= (char)(1 << i % 8);
        read_bytes(b.data, b.len);
        b.data[i / 8] ^= (char)(1 << i % 8);
    }
    b.data[8 + 4 + 4] = STEP_WORKSPACE; /* kind of the first step: none that a template has */
    assert_int_equal(read_bytes(b.data, b.len), -EBADMSG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_it), cmocka_unit_test(test_what_comes_with_the_tree),
        cmocka_unit_test(test_equal),         cmocka_unit_test(test_none),
        cmocka_unit_test(test_cut_and_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
