/* SPDX-License-Identifier: Apache-2.0 */
/* Links and sessions of the dashboard: their ends in time, their ceilings, whose they are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "os/clock.h"
#include "service/core/core.h"

struct rig {
    struct core *core;
    struct tenant tenants[2], *list[2];
    struct api_call call;
};

static int setup(void **state) {
    struct rig *r = calloc(1, sizeof *r);

    r->core = calloc(1, sizeof *r->core);
    for (int i = 0; i < 2; i++) {
        snprintf(r->tenants[i].row.name, sizeof r->tenants[i].row.name, "t%d", i);
        r->tenants[i].row.number = 1 + (uint64_t)i;
        r->list[i] = &r->tenants[i];
    }
    r->core->tenants = r->list;
    r->core->n_tenants = 2;
    r->call = (struct api_call){.core = r->core, .tenant = &r->tenants[0], .fields = API_FIELDS_INIT};
    *state = r;
    return 0;
}

static int teardown(void **state) {
    struct rig *r = *state;

    api_fields_done(&r->call.fields);
    free(r->core);
    free(r);
    return 0;
}

static void give(struct rig *r, const char *cookie, const char *csrf) {
    api_fields_done(&r->call.fields);
    r->call.fields = (struct api_fields)API_FIELDS_INIT;
    assert_int_equal(api_fields_adds(&r->call.fields, API_FIELD_SESSION, cookie), 0);
    assert_int_equal(api_fields_adds(&r->call.fields, API_FIELD_CSRF, csrf), 0);
}

static int enter(struct rig *r, char *cookie, char *csrf) {
    char code[TOKEN_SIZE];
    struct core_pass s;
    uint64_t expires;

    assert_int_equal(session_link(r->core, &r->call, code, &expires), 0);
    return session_open(r->core, code, TOKEN_SIZE - 1, cookie, csrf, &s);
}

static void a_link_ends(void **state) {
    struct rig *r = *state;
    char code[TOKEN_SIZE], cookie[TOKEN_SIZE], csrf[TOKEN_SIZE];
    struct core_pass s;
    uint64_t expires;

    assert_int_equal(session_link(r->core, &r->call, code, &expires), 0);
    assert_true(expires <= clock_mark() + LINK_NS);
    for (size_t i = 0; i < LINKS_MAX; i++)
        if (r->core->sessions.links[i].tenant[0])
            r->core->sessions.links[i].expires_ns = clock_mark() - 1;
    assert_int_equal(session_open(r->core, code, TOKEN_SIZE - 1, cookie, csrf, &s), 0);
}

static void a_session_ends_with_time_and_token(void **state) {
    struct rig *r = *state;
    char cookie[TOKEN_SIZE], csrf[TOKEN_SIZE];

    r->call.until_ns = clock_mark() + LINK_NS;
    assert_int_equal(enter(r, cookie, csrf), 1);
    give(r, cookie, csrf);
    assert_int_equal(session_find(r->core, &r->call), 1);
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (r->core->sessions.sessions[i].tenant[0]) {
            assert_int_equal(r->core->sessions.sessions[i].expires_ns, r->call.until_ns);
            r->core->sessions.sessions[i].expires_ns = clock_mark() - 1;
        }
    assert_int_equal(session_find(r->core, &r->call), 0);
}

/* The name of a tenant that was removed may be another's later. */
static void a_session_is_of_one_tenant(void **state) {
    struct rig *r = *state;
    char cookie[TOKEN_SIZE], csrf[TOKEN_SIZE];

    assert_int_equal(enter(r, cookie, csrf), 1);
    give(r, cookie, csrf);
    r->call.tenant = NULL;
    assert_int_equal(session_find(r->core, &r->call), 1);
    assert_ptr_equal(r->call.tenant, &r->tenants[0]);
    r->tenants[0].row.number = 77;
    assert_int_equal(session_find(r->core, &r->call), 0);
}

/* One tenant's links and sessions push out its own only. */
static void ceilings(void **state) {
    struct rig *r = *state;
    char cookie[TOKEN_SIZE], csrf[TOKEN_SIZE], first[TOKEN_SIZE], first_csrf[TOKEN_SIZE];

    assert_int_equal(enter(r, first, first_csrf), 1);
    r->call.tenant = &r->tenants[1];
    for (int i = 0; i < 3 * SESSIONS_OF_TENANT; i++)
        assert_int_equal(enter(r, cookie, csrf), 1);
    give(r, first, first_csrf);
    assert_int_equal(session_find(r->core, &r->call), 1);
    assert_ptr_equal(r->call.tenant, &r->tenants[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_session_ends_with_time_and_token, setup, teardown),
        cmocka_unit_test_setup_teardown(a_session_is_of_one_tenant, setup, teardown),
        cmocka_unit_test_setup_teardown(ceilings, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
