/* SPDX-License-Identifier: Apache-2.0 */
/* Limits: uint64_t where 0 means no limit, except for swap, where it means none. */
#include <inttypes.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/fields/field.h"

enum { SIZE_LEAST = 1024 * 1024, PIDS_MAX = 4194304, ASK_TIMEOUT_LEAST_MS = 1000, ASK_TIMEOUT_MOST_MS = 24 * 60 * 60 * 1000 };

static uint64_t limit_get(const struct field *f, const struct settings *s) {
    return *(const uint64_t *)member_of(f, s);
}

static bool limit_within(const struct field *f, const struct settings *s, const struct settings *than) {
    uint64_t limit = limit_get(f, than), wish = limit_get(f, s);

    return limit == 0 || (wish != 0 && wish <= limit);
}

/* Swap, and the time that a question waits: more is more. */
static bool number_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return limit_get(f, s) <= limit_get(f, than);
}

static int limit_merge(const struct field *f, struct settings *into, const struct settings *from) {
    *(uint64_t *)member(f, into) = limit_get(f, from);
    return 0;
}

static int size_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    uint64_t bytes = 0;
    int r = str_eq(text, "unlimited") ? 0 : parse_size(text, &bytes, err);

    if (r < 0)
        return r;
    if (bytes > 0 && bytes < SIZE_LEAST)
        return err_usage(err, "'%s' is too small (at least 1m; is the unit missing?)", text);
    *(uint64_t *)member(f, out) = bytes;
    return 0;
}

/* Without a word it is a share of the memory, so there is always a limit. */
static int tmp_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    if (str_eq(text, "unlimited"))
        return err_usage(err, "home and /tmp have a size, e.g. 10g; \"unlimited\" is not one");
    return size_from_text(f, text, out, err);
}

static uint64_t tmp_size(const struct limits *l) {
    return l->tmp ? l->tmp : limits_tmp_in_memory(l);
}

static bool tmp_within(const struct field *f UNUSED, const struct settings *s, const struct settings *than) {
    return tmp_size(&s->limits) <= tmp_size(&than->limits);
}

/* Less is less of the user's files that can be restored, more is more of the disk: neither is for a project to say. */
static bool rollback_within(const struct field *f, const struct settings *s, const struct settings *than) {
    return limit_get(f, s) == limit_get(f, than);
}

static int swap_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    return str_eq(text, "0") ? (*(uint64_t *)member(f, out) = 0, 0) : parse_size(text, member(f, out), err);
}

static int duration_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    return str_eq(text, "unlimited") ? (*(uint64_t *)member(f, out) = 0, 0) : parse_duration(text, member(f, out), err);
}

static int ask_timeout_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    uint64_t ms;
    int r = parse_duration(text, &ms, err);

    if (r < 0)
        return r;
    if (ms < ASK_TIMEOUT_LEAST_MS || ms > ASK_TIMEOUT_MOST_MS)
        return err_usage(err, "'%.60s' must be a time from 1s to 24h", text);
    *(uint64_t *)member(f, out) = ms;
    return 0;
}

static int cpus_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    return parse_cpus(text, member(f, out), err);
}

static int cpus_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    if (!json_is_number(v))
        return jsonwalk_wrong_type(w, v, "a number", err);
    return jsonwalk_ctx(w, parse_cpus_number(json_number_value(v), member(f, out), err), err);
}

static int pids_from_text(const struct field *f, const char *text, struct settings *out, struct err *err) {
    return parse_u64(text, 1, PIDS_MAX, member(f, out), err);
}

static int pids_from_json(const struct field *f, struct jsonwalk *w, json_t *v, struct settings *out, struct err *err) {
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v))
        return json_is_real(v) ? jsonwalk_fail(w, err, "must be a whole number")
                               : jsonwalk_wrong_type(w, v, "a whole number", err);
    if (n < 1 || n > PIDS_MAX)
        return jsonwalk_fail(w, err, "%" JSON_INTEGER_FORMAT " is out of range (1 to %d)", n, PIDS_MAX);
    *(uint64_t *)member(f, out) = (uint64_t)n;
    return 0;
}

struct limit_unit {
    uint64_t factor;
    const char *name;
};

/* In the largest unit that divides the value, so that reading it back gives the same number. */
static void add_in_units(uint64_t v, const struct limit_unit *units, size_t n, struct buf *b) {
    if (v == 0) {
        buf_adds(b, "null");
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (v % units[i].factor == 0) {
            buf_addf(b, "\"%" PRIu64 "%s\"", v / units[i].factor, units[i].name);
            return;
        }
}

static void size_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    static const struct limit_unit units[] = {
        {1ull << 40, "t"}, {1ull << 30, "g"}, {1ull << 20, "m"}, {1ull << 10, "k"}, {1, ""}};

    add_in_units(limit_get(f, s), units, ARRAY_LEN(units), b);
}

static void swap_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    if (limit_get(f, s) == 0)
        buf_adds(b, "\"0\"");
    else
        size_add_json(f, s, b);
}

static void duration_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    static const struct limit_unit units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};

    add_in_units(limit_get(f, s), units, ARRAY_LEN(units), b);
}

static void cpus_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    uint64_t milli = limit_get(f, s);

    if (milli == 0)
        buf_adds(b, "null");
    else if (milli % 1000 == 0)
        buf_addf(b, "%" PRIu64, milli / 1000);
    else
        buf_addf(b, "%" PRIu64 ".%03" PRIu64, milli / 1000, milli % 1000);
}

static void pids_add_json(const struct field *f, const struct settings *s, struct buf *b) {
    if (limit_get(f, s) == 0)
        buf_adds(b, "null");
    else
        buf_addf(b, "%" PRIu64, limit_get(f, s));
}

#define LIMIT .within = limit_within, .merge = limit_merge, .none = "unlimited"
const struct field_type type_size = {LIMIT, .from_text = size_from_text, .add_json = size_add_json};
const struct field_type type_duration = {LIMIT, .from_text = duration_from_text, .add_json = duration_add_json};
const struct field_type type_cpus = {LIMIT, .from_json = cpus_from_json, .from_text = cpus_from_text, .add_json = cpus_add_json};
const struct field_type type_pids = {LIMIT, .from_json = pids_from_json, .from_text = pids_from_text, .add_json = pids_add_json};
const struct field_type type_swap = {
    .from_text = swap_from_text, .within = number_within, .merge = limit_merge, .add_json = swap_add_json};
const struct field_type type_rollback = {
    .from_text = size_from_text, .within = rollback_within, .merge = limit_merge, .add_json = size_add_json, .none = "unlimited"};
const struct field_type type_tmp = {.from_text = tmp_from_text,
                                    .within = tmp_within,
                                    .merge = limit_merge,
                                    .add_json = size_add_json,
                                    .none = "half of the memory"};
const struct field_type type_ask_timeout = {
    .from_text = ask_timeout_from_text, .within = number_within, .merge = limit_merge, .add_json = duration_add_json};
