/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/api/apifield.h"

#define RUN_ID "run_0123456789abcdef"

static void test_round_trip(void **state) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT, g = API_FIELDS_INIT;
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    struct api_fault fault = {0};

    assert_int_equal(api_fields_add_pair(&f, API_FIELD_ENV, "A", "1", 1), 0);
    assert_int_equal(api_fields_add_pair(&f, API_FIELD_ENV, "B", "", 0), 0);
    assert_int_equal(api_fields_adds(&f, API_FIELD_COMMAND, "echo"), 0);
    assert_int_equal(api_fields_adds(&f, API_FIELD_COMMAND, ""), 0);
    assert_int_equal(api_fields_add_number(&f, API_FIELD_WAIT, 7), 0);
    assert_int_equal(api_fields_adds(&f, API_FIELD_STDIN, "1"), 0);
    assert_int_equal(api_fields_adds(&f, API_FIELD_REQUEST_ID, "req-1"), 0);
    assert_int_equal(api_fields_write(&f, &b), 0);

    assert_int_equal(api_fields_read(&g, b.data, b.len), 0);
    assert_int_equal(api_fields_check(&g, api_route_of(API_OP_RUN_CREATE), &fault), 0);
    assert_int_equal(api_field_count(&g, API_FIELD_COMMAND), 2);
    assert_string_equal(api_field_get(&g, API_FIELD_COMMAND, 0), "echo");
    assert_string_equal(api_field_get(&g, API_FIELD_COMMAND, 1), "");
    assert_null(api_field_get(&g, API_FIELD_COMMAND, 2));
    assert_string_equal(api_field_key(&g, API_FIELD_ENV, 1), "B");
    assert_string_equal(api_field_get(&g, API_FIELD_ENV, 0), "1");
    assert_null(api_field_key(&g, API_FIELD_COMMAND, 0));
    assert_int_equal(api_field_number(&g, API_FIELD_WAIT, 0), 7);
    assert_true(api_field_bool(&g, API_FIELD_STDIN, false));
    assert_true(api_field_bool(&g, API_FIELD_HOLD, true));
    assert_int_equal(api_field_number(&g, API_FIELD_LIMIT, 100), 100);
}

struct pair_row {
    unsigned op, field;
    const char *text;
    const char *problem; /* NULL: fine */
};

/* One field beside those that the operation needs. */
static void test_checks(void **state) {
    static const struct pair_row rows[] = {
        {API_OP_RUN_GET, API_FIELD_ID, RUN_ID, NULL},
        {API_OP_RUN_GET, API_FIELD_ID, "run_0123", "is not valid"},
        {API_OP_RUN_GET, API_FIELD_WAIT, "3600", "is missing"},
        {API_OP_RUN_LIST, API_FIELD_LIMIT, "0", "is not valid"},
        {API_OP_RUN_LIST, API_FIELD_LIMIT, "10000", NULL},
        {API_OP_RUN_LIST, API_FIELD_LIMIT, "10001", "is not valid"},
        {API_OP_RUN_LIST, API_FIELD_LIMIT, "-1", "is not valid"},
        {API_OP_RUN_LIST, API_FIELD_LIMIT, "", "is not valid"},
        {API_OP_RUN_LIST, API_FIELD_STATE, "queued", NULL},
        {API_OP_RUN_LIST, API_FIELD_STATE, "queue", "is not valid"},
        {API_OP_RUN_LIST, API_FIELD_LABEL, "\xff", "is not valid"},
        {API_OP_RUN_LIST, API_FIELD_ENV, "A", "is not a field of this operation"},
        {API_OP_RUN_LIST, API_FIELDS, "A", "is not a field of this operation"},
        {API_OP_RUN_LIST, 65535, "A", "is not a field of this operation"},
        {API_OP_RUN_CREATE, API_FIELD_AGENT_INSTRUCTIONS, "x", "is missing"},
        {API_OP_RUN_CREATE, API_FIELD_AGENT_NAME, "claude", NULL},
        {API_OP_RUN_CREATE, API_FIELD_ENV, "A", "has a key that is not valid"},
        {API_OP_RUN_CREATE, API_FIELD_HOLD, "2", "is not valid"},
        {API_OP_RUN_CREATE, API_FIELD_SHAPE_LIMITS_CPUS, "0.5", NULL},
        {API_OP_RUN_CREATE, API_FIELD_SHAPE_LIMITS_CPUS, "0.5555", "is not valid"},
        {API_OP_BOX_EXEC, API_FIELD_ID, RUN_ID, "is missing"},
        {API_OP_RUN_LIST, API_FIELD_BEARER, "x y", NULL},
        {API_OP_RUN_LIST, API_FIELD_BEARER, "x\ny", "is not valid"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
        struct api_fault fault = {0};
        int r;

        assert_int_equal(api_fields_adds(&f, rows[i].field, rows[i].text), 0);
        r = api_fields_check(&f, api_route_of(rows[i].op), &fault);
        if (r != (rows[i].problem ? -EINVAL : 0) || (r < 0 && strcmp(fault.problem, rows[i].problem) != 0))
            fail_msg("row %zu: %d %s", i, r, r < 0 ? fault.problem : "");
    }
}

static void test_too_many(void **state) {
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;
    struct api_fault fault = {0};

    for (int i = 0; i < 2; i++)
        assert_int_equal(api_fields_adds(&f, API_FIELD_LIMIT, "1"), 0);
    assert_int_equal(api_fields_check(&f, api_route_of(API_OP_RUN_LIST), &fault), -EINVAL);
    assert_string_equal(fault.problem, "has too many items");
    while (f.n < API_FIELDS_MAX)
        assert_int_equal(api_fields_adds(&f, API_FIELD_LIMIT, "1"), 0);
    assert_int_equal(api_fields_adds(&f, API_FIELD_LIMIT, "1"), -E2BIG);
}

static void test_cut_and_unsorted(void **state) {
    static const char two[] = {2, 0, 1, 0, 0, 0, 'b', 1, 0, 1, 0, 0, 0, 'a'};
    CLEANUP(api_fields_done) struct api_fields f = API_FIELDS_INIT;

    assert_int_equal(api_fields_read(&f, two, sizeof two), -EBADMSG);
    for (size_t n = 1; n < 7; n++) {
        CLEANUP(api_fields_done) struct api_fields g = API_FIELDS_INIT;

        assert_int_equal(api_fields_read(&g, two, n), -EBADMSG);
    }
}

/* The tables themselves: numbered by operation, and each field is found. */
static void test_tables(void **state) {
    assert_int_equal(n_api_routes, API_OPS - 1);
    for (unsigned op = 1; op < API_OPS; op++) {
        const struct api_route *r = api_route_of(op);

        assert_int_equal(r->op, op);
        for (size_t i = 0; i < r->schema->n; i++) {
            const struct api_check *c = &r->schema->v[i];

            assert_ptr_equal(api_route_check(r, c->field), c);
            assert_string_equal(api_field_names[c->field], c->name);
            assert_true(c->max_items >= 1 && c->min <= c->max && c->minimum <= c->maximum);
        }
    }
    assert_null(api_route_of(0));
    assert_null(api_route_of(API_OPS));
}

static void test_demands(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);

    api_check_demand(api_route_check(api_route_of(API_OP_RUN_LIST), API_FIELD_LIMIT), &b);
    assert_string_equal(b.data, "must be an integer from 1 to 10000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_checks), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_cut_and_unsorted), cmocka_unit_test(test_tables), cmocka_unit_test(test_demands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
