/* SPDX-License-Identifier: Apache-2.0 */
/* What a run says at its end, and what it needs from an engine before it begins. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "supervisor/session/run.h"

static struct buf seen = BUF_INIT(1 << 16);

static void sink(const char *line, size_t len) {
    buf_add(&seen, line, len);
}

static int setup(void **state) {
    buf_clear(&seen);
    log_set_sink(sink);
    return 0;
}

static int teardown(void **state) {
    log_set_sink(NULL);
    buf_done(&seen);
    return 0;
}

static void test_limits_that_were_hit(void **state) {
    static const struct {
        enum run_limit which;
        const char *line;
    } table[] = {
        {RUN_LIMIT_MEMORY, "bawn: memory limit 64 MiB reached (flag --memory)\n"},
        {RUN_LIMIT_PIDS, "bawn: process limit 100 reached (profile tight)\n"},
        {RUN_LIMIT_DISK, "bawn: disk limit 1.5 GiB reached (built-in)\n"},
        {RUN_LIMIT_TIME, "bawn: time limit 5 min reached (user)\n"},
        {RUN_LIMIT_PRIVATE, "bawn: home and /tmp limit 2 GiB reached (flag --tmp-size)\n"},
    };
    struct settings s = {.origin = {[SETTING_MEMORY] = (char[]){"flag --memory"},
                                    [SETTING_TMP] = (char[]){"flag --tmp-size"},
                                    [SETTING_PIDS] = (char[]){"profile tight"},
                                    [SETTING_TIMEOUT] = (char[]){"user"}}};
    struct run_result r = {.limits = {.memory = 64 << 20, .pids = 100, .disk = 3ull << 29, .timeout_ms = 300000},
                           .private_size = 2ull << 30,
                           .tmp_on_disk = true};

    run_report_limits(&r, &s);
    assert_string_equal(buf_str(&seen), "");
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        buf_clear(&seen);
        memset(r.hit, 0, sizeof r.hit);
        r.hit[table[i].which] = true;
        run_report_limits(&r, &s);
        assert_string_equal(buf_str(&seen), table[i].line);
    }
    buf_clear(&seen);
    memset(r.hit, true, sizeof r.hit);
    run_report_limits(&r, &s);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_non_null(strstr(buf_str(&seen), table[i].line));
}

static void test_weaker_rung_is_announced(void **state) {
    static const char signals[] = "your other processes can be signalled"; /* Landlock keeps that from ABI 6 on */
    struct plan p = {.rung = RUNG_FULL};

    run_announce_rung(&p);
    assert_string_equal(buf_str(&seen), "");
    p = (struct plan){.rung = RUNG_LANDLOCK, .landlock_abi = 6};
    run_announce_rung(&p);
    assert_true(strstr(buf_str(&seen), "weaker sandbox (landlock rung)") && strstr(buf_str(&seen), rung_lacks(RUNG_LANDLOCK)));
    assert_null(strstr(buf_str(&seen), signals));
    p.landlock_abi = 5;
    buf_clear(&seen);
    run_announce_rung(&p);
    assert_non_null(strstr(buf_str(&seen), signals));
}

static void test_limits_without_a_cgroup_are_announced(void **state) {
    static const struct {
        struct limits limits;
        struct cgroup_caps enforces;
        const char *parts[3]; /* NULL: not mentioned */
    } table[] = {
        {{0}, {0}, {NULL, NULL, NULL}},
        {{.cpus_milli = 1, .memory = 1, .pids = 1}, {.cpu = true, .memory = true, .pids = true}, {NULL, NULL, NULL}},
        {{.cpus_milli = 1, .memory = 1, .pids = 1}, {0}, {"memory by watchdog", "CPUs by affinity", "processes by rlimit"}},
        {{.cpus_milli = 1, .memory = 1, .pids = 1}, {.memory = true}, {NULL, "CPUs by affinity", "processes by rlimit"}},
        {{.memory = 1}, {0}, {"memory by watchdog", NULL, NULL}},
        {{.pids = 1}, {.cpu = true, .memory = true}, {NULL, NULL, "processes by rlimit"}},
    };
    static const char *const all[] = {"memory by watchdog", "CPUs by affinity", "processes by rlimit"};

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const struct plan p = {.limits = table[i].limits};
        struct cgroup cg = {.enforces = table[i].enforces, .why = "no cgroup here"};
        bool any = false;

        buf_clear(&seen);
        run_announce_limits(&p, &cg, &(const struct host_facts){0});
        for (size_t k = 0; k < ARRAY_LEN(all); k++) {
            assert_int_equal(strstr(buf_str(&seen), all[k]) != NULL, table[i].parts[k] != NULL);
            any |= table[i].parts[k] != NULL;
        }
        assert_int_equal(strstr(buf_str(&seen), "(no cgroup here)") != NULL, any);
        assert_int_equal(seen.len > 0, any);
    }
}

static json_t *report(const struct run_result *r, const struct settings *s) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(1 << 16);
    json_t *j;

    run_report_json(r, s, &b);
    assert_true(buf_ok(&b) && str_ends(buf_str(&b), "}\n"));
    assert_null(memchr(b.data, '\n', b.len - 1)); /* one line */
    j = json_loads(buf_str(&b), JSON_REJECT_DUPLICATES, NULL);
    if (!j)
        fail_msg("%s", buf_str(&b));
    return j;
}

static void test_json(void **state) {
    struct settings s = {.profile = (char[]){"ti\"ght\xff"}};
    const struct run_result r = {.status = 137,
                                 .signal = 9,
                                 .started = true,
                                 .engine = "native",
                                 .rung = RUNG_LANDLOCK,
                                 .hit = {[RUN_LIMIT_MEMORY] = true, [RUN_LIMIT_TIME] = true},
                                 .duration_us = 1002003,
                                 .usage = {.memory_peak = 1ull << 40, .cpu_us = 17},
                                 .enforced = {.memory = true}};
    json_t *j = report(&r, &s), *hit = json_object_get(j, "limits_hit"), *enforced = json_object_get(j, "enforced");

    assert_int_equal(json_integer_value(json_object_get(j, "status")), 137);
    assert_int_equal(json_integer_value(json_object_get(j, "signal")), 9);
    assert_true(json_is_true(json_object_get(j, "started")));
    assert_string_equal(json_string_value(json_object_get(j, "engine")), "native");
    assert_string_equal(json_string_value(json_object_get(j, "rung")), "landlock");
    assert_string_equal(json_string_value(json_object_get(j, "profile")), "ti\"ght\xef\xbf\xbd");
    assert_int_equal(json_array_size(hit), 2);
    assert_string_equal(json_string_value(json_array_get(hit, 0)), "memory");
    assert_string_equal(json_string_value(json_array_get(hit, 1)), "time");
    assert_true(json_real_value(json_object_get(j, "duration_ms")) == 1002.003);
    assert_int_equal(json_integer_value(json_object_get(j, "memory_peak")), 1ull << 40);
    assert_int_equal(json_integer_value(json_object_get(j, "cpu_us")), 17);
    assert_true(json_is_true(json_object_get(enforced, "memory")) && json_is_false(json_object_get(enforced, "cpu")));
    json_decref(j);
}

static void test_json_of_nothing(void **state) {
    const struct settings s = {0};
    const struct run_result r = {.engine = "fake"};
    json_t *j = report(&r, &s);

    assert_true(json_is_null(json_object_get(j, "profile")));
    assert_int_equal(json_array_size(json_object_get(j, "limits_hit")), 0);
    assert_true(json_is_false(json_object_get(j, "started")));
    json_decref(j);
}

enum { ALWAYS = ENFORCES_FILES | ENFORCES_SYSCALLS | ENFORCES_END };

static void test_needs(void **state) {
    static const struct {
        struct settings s;
        unsigned needs;
    } table[] = {
        {{.net.mode = NETWORK_FULL}, ALWAYS | ENFORCES_NAMES},
        {{.net.mode = NETWORK_NONE}, ALWAYS | ENFORCES_NETWORK},
        {{.net.mode = NETWORK_LIST}, ALWAYS | ENFORCES_NETWORK | ENFORCES_NAMES},
        {{.net.mode = NETWORK_LIMITED}, ALWAYS | ENFORCES_NETWORK | ENFORCES_NAMES},
        {{.net.mode = NETWORK_NONE, .limits.cpus_milli = 1}, ALWAYS | ENFORCES_NETWORK | ENFORCES_CPU},
        {{.net.mode = NETWORK_NONE, .limits.memory = 1}, ALWAYS | ENFORCES_NETWORK | ENFORCES_MEMORY},
        {{.net.mode = NETWORK_NONE, .limits.pids = 1}, ALWAYS | ENFORCES_NETWORK | ENFORCES_PIDS},
        {{.net.mode = NETWORK_NONE, .limits.disk = 1}, ALWAYS | ENFORCES_NETWORK | ENFORCES_DISK},
        {{.net.mode = NETWORK_NONE, .limits.timeout_ms = 1}, ALWAYS | ENFORCES_NETWORK | ENFORCES_TIME},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        assert_int_equal(run_needs(&table[i].s), table[i].needs);
}

static void test_engine_that_keeps_too_little(void **state) {
    const struct settings s = {.net.mode = NETWORK_NONE, .limits.memory = 1};
    const unsigned all = run_needs(&s);
    struct err err = {0};

    for (int i = 0; i < GUARANTEE_COUNT; i++) {
        char keeps[16], list[64];

        snprintf(keeps, sizeof keeps, "%u", all & ~(1u << i));
        snprintf(list, sizeof list, "what these settings need: %s", guarantee_names[i]);
        setenv("BAWN_FAKE_KEEPS", keeps, 1);
        err = (struct err){0};
        if (!(all & (1u << i))) {
            assert_int_equal(run_check_engine(&engine_fake, &s, &err), 0);
            continue;
        }
        assert_int_equal(run_check_engine(&engine_fake, &s, &err), -ENOTSUP);
        assert_int_equal(err_exit_status(&err), EXIT_SANDBOX);
        assert_true(str_ends(err.msg, list)); /* this one, and no other */
    }
    setenv("BAWN_FAKE_KEEPS", "0", 1);
    assert_int_equal(run_check_engine(&engine_fake, &s, &err), -ENOTSUP);
    assert_true(str_ends(err.msg, ": files, network, syscalls, memory, end"));
    unsetenv("BAWN_FAKE_KEEPS");
    assert_int_equal(run_check_engine(&engine_none, &s, &err), -ENOTSUP);
    assert_int_equal(run_check_engine(&engine_native, &s, &err), 0);
}

#define REPORT_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        REPORT_TEST(test_limits_that_were_hit),
        REPORT_TEST(test_weaker_rung_is_announced),
        REPORT_TEST(test_limits_without_a_cgroup_are_announced),
        REPORT_TEST(test_json),
        REPORT_TEST(test_json_of_nothing),
        REPORT_TEST(test_needs),
        REPORT_TEST(test_engine_that_keeps_too_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
