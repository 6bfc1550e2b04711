/* SPDX-License-Identifier: Apache-2.0 */
/* The log of the network, read without a command line. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "ops/policy/policy_log.h"
#include "os/dir.h"
#include "os/file.h"
#include "os/remove.h"

static const char older[] =
    "{\"time\": \"2026-01-01T00:00:00.1Z\", \"action\": \"deny\", \"host\": \"a\", \"sandbox\": \"one\"}\n";
static const char newer[] =
    "{\"time\": \"2026-01-02T00:00:00.1Z\", \"action\": \"allow\", \"host\": \"b\", \"sandbox\": \"one\"}\n"
    "not ours\n"
    "{\"time\": \"2026-01-03T00:00:00.1Z\", \"action\": \"deny\", \"host\": \"c\", \"sandbox\": \"two\"}\n"
    "{\"time\": \"2026-01-04T00:00:00.1Z\", \"host\": \"not complete";

static char state[] = "/tmp/bawn-test-XXXXXX";

static int set_up(void **unused UNUSED) {
    CLEANUP(freep) char *log = NULL;
    int dir;

    assert_non_null(mkdtemp(state));
    log = str_dupf("%s/bawn/log", state);
    assert_true(log && setenv("XDG_STATE_HOME", state, 1) == 0);
    assert_int_equal(dir_make(AT_FDCWD, log, 0700, 0700), 0);
    dir = open(log, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(file_create_at(dir, "network.jsonl.1", 0600, older, strlen(older)), 0);
    assert_int_equal(file_create_at(dir, "network.jsonl", 0600, newer, strlen(newer)), 0);
    close(dir);
    return 0;
}

static int tear_down(void **unused UNUSED) {
    return remove_tree(AT_FDCWD, state);
}

static int add_host(const json_t *event, void *arg, struct err *err UNUSED) {
    buf_adds(arg, json_get_text(event, "host"));
    return 0;
}

static int stop_at_once(const json_t *event UNUSED, void *arg UNUSED, struct err *err) {
    return err_set(err, -ECANCELED, "enough");
}

static void assert_hosts(const struct policy_log_filter *f, const char *want) {
    CLEANUP(buf_done) struct buf hosts = BUF_INIT(64);
    struct err err = {0};

    assert_int_equal(policy_log_read(f, add_host, &hosts, &err), 0);
    assert_string_equal(buf_str(&hosts), want);
}

static void both_files_are_read_in_order(void **unused UNUSED) {
    assert_hosts(&(struct policy_log_filter){0}, "abc");
}

static void filters_hold(void **unused UNUSED) {
    assert_hosts(&(struct policy_log_filter){.denied = true}, "ac");
    assert_hosts(&(struct policy_log_filter){.host = "b"}, "b");
    assert_hosts(&(struct policy_log_filter){.sandbox = "one"}, "ab");
    assert_hosts(&(struct policy_log_filter){.since = "2026-01-02"}, "bc");
}

static void only_the_last_ones(void **unused UNUSED) {
    assert_hosts(&(struct policy_log_filter){.lines = 1}, "c");
    assert_hosts(&(struct policy_log_filter){.lines = 2}, "bc");
    assert_hosts(&(struct policy_log_filter){.lines = 9}, "abc");
    assert_hosts(&(struct policy_log_filter){.lines = 1, .denied = true, .sandbox = "one"}, "a");
}

static void a_failing_reader_ends_it(void **unused UNUSED) {
    struct err err = {0};

    assert_int_equal(policy_log_read(&(struct policy_log_filter){0}, stop_at_once, NULL, &err), -ECANCELED);
    assert_int_equal(policy_log_read(&(struct policy_log_filter){.lines = 2}, stop_at_once, NULL, &err), -ECANCELED);
    assert_int_equal(policy_log_read(&(struct policy_log_filter){.follow = true}, stop_at_once, NULL, &err), -ECANCELED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_files_are_read_in_order),
        cmocka_unit_test(filters_hold),
        cmocka_unit_test(only_the_last_ones),
        cmocka_unit_test(a_failing_reader_ends_it),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
