/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/jsonout.h"
#include "base/record.h"
#include "base/strv.h"

struct row {
    char tag[16];
    const char *why;
    bool on;
    int status;
    uint32_t ready;
    uint64_t files, bytes, made;
    enum mode { DIRECT, OVERLAY } mode;
    struct strv hosts;
};

static const char *const modes[] = {[DIRECT] = "direct", [OVERLAY] = "overlay"};

static const char *green(const void *row) {
    return ((const struct row *)row)->on ? "\033[32m" : "";
}

static void add_ratio(const void *row, struct buf *cell) {
    buf_addf(cell, "%u of %d", ((const struct row *)row)->ready, ((const struct row *)row)->status);
}

static void add_limits(const void *row, const char *key, struct jsonout *j) {
    jsonout_open(j, key, '{');
    jsonout_int(j, "pids", ((const struct row *)row)->status);
    jsonout_close(j, '}');
}

static const struct column columns[] = {
    {"TAG", "tag", COLUMN(CHARS, struct row, tag), .width = 6, .colour = green},
    {"WHY", "why", COLUMN(TEXT, struct row, why), .none = "-"},
    {"ON", "on", COLUMN(BOOL, struct row, on)},
    {NULL, "status", COLUMN(INT, struct row, status)},
    {"READY", NULL, COLUMN_NONE, .text = add_ratio},
    {"FILES", "files", COLUMN(U64, struct row, files), .width = -8, .empty = COLUMN_NULL},
    {"SIZE", "bytes", COLUMN(SIZE, struct row, bytes), .empty = COLUMN_OMIT},
    {"MADE", "made", COLUMN(TIME, struct row, made), .none = "never"},
    {"MODE", "mode", COLUMN(ENUM, struct row, mode), .names = modes},
    {NULL, "limits", COLUMN_NONE, .json = add_limits},
    {"HOSTS", "hosts", COLUMN(LIST, struct row, hosts), .none = "-", .empty = COLUMN_OMIT},
};
static const struct record_kind kind = {columns, ARRAY_LEN(columns), sizeof(struct row)};

static char a[] = "a", b_[] = "b";
static char *hosts[] = {a, b_, NULL};
static const struct row rows[] = {
    {"t\xc3\xa9", "x\033", true, 3, 2, 12, 2048, 86400000000000, OVERLAY, {.v = hosts, .len = 2}},
    {"longer-tag", NULL, false, -1, 0, 0, 0, 0, DIRECT, {0}},
};

static void test_table(void **state) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096), colour = BUF_INIT(4096), empty = BUF_INIT(4096);

    record_table(&kind, rows, 2, false, &b);
    assert_string_equal(buf_str(&b),
                        "TAG         WHY    ON   READY       FILES  SIZE   MADE                  MODE     HOSTS\n"
                        "t\xc3\xa9          x\\x1b  yes  2 of 3         12  2 KiB  1970-01-02T00:00:00Z  overlay  a,b\n"
                        "longer-tag  -      no   0 of -1         0  0 B    never                 direct   -\n");
    record_table(&kind, rows, 1, true, &colour);
    assert_non_null(strstr(buf_str(&colour), "\n\033[32mt\xc3\xa9\033[0m      x\\x1b  yes")); /* six columns of a terminal */
    record_table(&(struct record_kind){columns, ARRAY_LEN(columns), sizeof(struct row), .no_heading = true}, rows, 0, false,
                 &empty);
    assert_string_equal(buf_str(&empty), "");
}

static const char first[] =
    "{\"tag\": \"t\xc3\xa9\", \"why\": \"x\\u001b\", \"on\": true, \"status\": 3, \"files\": 12, \"bytes\": 2048, "
    "\"made\": \"1970-01-02T00:00:00Z\", \"mode\": \"overlay\", \"limits\": {\"pids\": 3}, \"hosts\": [\"a\", \"b\"]}",
                  second[] =
                      "{\"tag\": \"longer-tag\", \"why\": null, \"on\": false, \"status\": -1, \"files\": null, \"made\": null, "
                      "\"mode\": \"direct\", \"limits\": {\"pids\": -1}}";

static void test_arrays(void **state) {
    static const struct {
        enum record_layout layout;
        const char *begin, *between, *end;
    } table[] = {
        {RECORD_INLINE, "{\"k\": [", ", ", "]}"},
        {RECORD_BETWEEN, "{\"k\": [", ",\n ", "]}"},
        {RECORD_LINES, "{\"k\": [\n  ", ",\n  ", "\n]}"},
    };

    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        CLEANUP(buf_done) struct buf b = BUF_INIT(4096), want = BUF_INIT(4096), none = BUF_INIT(4096);
        struct jsonout j = {.to = &b};

        jsonout_open(&j, NULL, '{');
        record_array(&kind, rows, 2, "k", table[i].layout, &j);
        jsonout_close(&j, '}');
        buf_addf(&want, "%s%s%s%s%s", table[i].begin, first, table[i].between, second, table[i].end);
        assert_string_equal(buf_str(&b), buf_str(&want));
        record_array(&kind, rows, 0, NULL, table[i].layout, &(struct jsonout){.to = &none});
        assert_string_equal(buf_str(&none), "[]");
    }
}

static void test_cells(void **state) {
    CLEANUP(strv_done) struct strv cells = {0};
    CLEANUP(buf_done) struct buf b = BUF_INIT(4096);
    static const char *const words[] = {"PID", "COMMAND", "12345", "sh"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        assert_int_equal(strv_add(&cells, words[i]), 0);
    record_cells(&cells, 2, &b);
    assert_string_equal(buf_str(&b), "PID    COMMAND\n12345  sh\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),

        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_cells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
