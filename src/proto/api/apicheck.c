/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that spec/openapi.yaml names (x-check); the pattern beside each there says the same, and tests/service compares them. */
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "proto/api/apitable.h"

const char *const api_method_names[API_METHODS] = {"GET", "PUT", "POST", "PATCH", "DELETE"};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_word(char c) {
    return is_digit(c) || is_letter(c);
}

static size_t count_digits(const char *s, size_t len) {
    size_t n = 0;

    while (n < len && is_digit(s[n]))
        n++;
    return n;
}

static bool only_of(const char *s, size_t len, const char *others) {
    for (size_t i = 0; i < len; i++)
        if (!is_word(s[i]) && (!s[i] || !strchr(others, s[i])))
            return false;
    return len > 0;
}

static bool check_absolute(const char *s, size_t len) {
    return len > 0 && s[0] == '/';
}

static bool check_decimal(const char *s, size_t len) {
    size_t whole = count_digits(s, len), part;

    if (whole < 1 || whole > 4 || whole == len)
        return whole == len && whole >= 1 && whole <= 4;
    part = count_digits(s + whole + 1, len - whole - 1);
    return s[whole] == '.' && part >= 1 && part <= 3 && whole + 1 + part == len;
}

static bool check_duration(const char *s, size_t len) {
    static const char *const units[] = {"", "ms", "s", "m", "h", "d"};
    size_t n = count_digits(s, len);

    for (size_t i = 0; n >= 1 && n <= 9 && i < ARRAY_LEN(units); i++)
        if (len - n == strlen(units[i]) && memcmp(s + n, units[i], len - n) == 0)
            return true;
    return false;
}

static bool check_host(const char *s, size_t len) {
    size_t skip = len > 0 && s[0] == '@';

    return only_of(s + skip, len - skip, "*._:[]-");
}

static bool check_id(const char *s, size_t len) {
    if (len < 4 + 16 || len > 4 + 40 || s[3] != '_')
        return false;
    for (size_t i = 0; i < 3; i++)
        if (s[i] < 'a' || s[i] > 'z')
            return false;
    return only_of(s + 4, len - 4, "");
}

static bool check_name(const char *s, size_t len) {
    return len > 0 && is_word(s[0]) && only_of(s, len, "._-");
}

static bool check_number(const char *s, size_t len) {
    return len > 0 && count_digits(s, len) == len;
}

/* Relative, and no step of it goes up. */
static bool check_path(const char *s, size_t len) {
    if (len == 0 || s[0] == '/')
        return false;
    for (size_t i = 0; i < len;) {
        const char *slash = memchr(s + i, '/', len - i);
        size_t n = slash ? (size_t)(slash - s) - i : len - i;

        if (n == 2 && s[i] == '.' && s[i + 1] == '.')
            return false;
        i += n + 1;
    }
    return true;
}

static bool check_printable(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (s[i] < ' ' || s[i] > '~')
            return false;
    return len > 0;
}

static bool check_size(const char *s, size_t len) {
    size_t n = count_digits(s, len);

    return n >= 1 && n <= 12 && (n == len || (n + 1 == len && s[n] && strchr("kKmMgGtT", s[n])));
}

static bool check_time(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!is_digit(s[i]) && (!s[i] || !strchr("TZ:.+-", s[i])))
            return false;
    return len > 0;
}

static bool check_variable(const char *s, size_t len) {
    return len > 0 && !is_digit(s[0]) && only_of(s, len, "_");
}

static const struct {
    bool (*is)(const char *s, size_t len);
    const char *demand;
} kinds[] = {
    [API_CHECK_NONE] = {NULL, ""},
    [API_CHECK_ABSOLUTE] = {check_absolute, "an absolute path"},
    [API_CHECK_DECIMAL] = {check_decimal, "a number as 2 or 0.5"},
    [API_CHECK_DURATION] = {check_duration, "a time as 500ms, 30s, 5m, 2h or 1d"},
    [API_CHECK_HOST] = {check_host, "a host as in a network rule"},
    [API_CHECK_ID] = {check_id, "an id of this service"},
    [API_CHECK_NAME] = {check_name, "a name of letters, digits and . _ -"},
    [API_CHECK_NUMBER] = {check_number, "a number"},
    [API_CHECK_PATH] = {check_path, "a relative path without .."},
    [API_CHECK_PRINTABLE] = {check_printable, "printable ASCII"},
    [API_CHECK_SIZE] = {check_size, "a size as 512m or 4g"},
    [API_CHECK_TIME] = {check_time, "a time as 2026-01-31T12:00:00Z"},
    [API_CHECK_VARIABLE] = {check_variable, "a name of a variable"},
};
static_assert(ARRAY_LEN(kinds) == API_CHECKS, "a row for each");

bool api_check_is(enum api_check_kind kind, const char *text, size_t len) {
    return !kinds[kind].is || kinds[kind].is(text, len);
}

static bool is_value(const struct api_check *c, const char *text, size_t len) {
    for (size_t i = 0; c->values && c->values[i]; i++)
        if (strlen(c->values[i]) == len && memcmp(c->values[i], text, len) == 0)
            return true;
    return !c->values;
}

static bool is_integer(const struct api_check *c, const char *text, size_t len) {
    char copy[24];
    uint64_t n;

    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    return parse_u64(copy, c->minimum, c->maximum, &n, NULL) == 0;
}

static bool is_text(const char *text, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        char one[5] = {0};

        memcpy(one, text + i, MIN_OF(len - i, 4));
        n = one[0] ? str_utf8_len(one) : 0;
        if (n == 0)
            return false;
    }
    return true;
}

bool api_check_text(const struct api_check *c, const char *text, size_t len) {
    switch (c->type) {
    case API_TYPE_INTEGER:
        return is_integer(c, text, len);
    case API_TYPE_BOOLEAN:
        return len == 1 && (text[0] == '0' || text[0] == '1');
    case API_TYPE_STRING:
    case API_TYPE_OBJECT:
        return len >= c->min && len <= c->max && is_text(text, len) && api_check_is(c->check, text, len) &&
               is_value(c, text, len);
    }
    return false;
}

bool api_check_key(const struct api_check *c, const char *text, size_t len) {
    return len > 0 && len <= c->key_max && is_text(text, len) && api_check_is(c->key_check, text, len);
}

static void demand_values(const struct api_check *c, struct buf *b) {
    buf_adds(b, "one of");
    for (size_t i = 0; c->values[i]; i++)
        buf_addf(b, "%s %s", i ? "," : "", c->values[i]);
}

void api_check_demand(const struct api_check *c, struct buf *b) {
    buf_adds(b, c->shape == API_SHAPE_ONE     ? "must be "
                : c->shape == API_SHAPE_ARRAY ? "must be an array of at most "
                                              : "must be an object of at most ");
    if (c->shape != API_SHAPE_ONE)
        buf_addf(b, "%u, each ", c->max_items);
    if (c->type == API_TYPE_INTEGER)
        buf_addf(b, "an integer from %llu to %llu", (unsigned long long)c->minimum, (unsigned long long)c->maximum);
    else if (c->type == API_TYPE_BOOLEAN)
        buf_adds(b, "true or false");
    else if (c->type == API_TYPE_OBJECT)
        buf_adds(b, "an object");
    else if (c->values)
        demand_values(c, b);
    else
        buf_addf(b, "text of %u to %u bytes%s%s", c->min, c->max, c->check ? ": " : "", kinds[c->check].demand);
    if (c->shape == API_SHAPE_MAP)
        buf_addf(b, "; each key of at most %u bytes: %s", c->key_max, kinds[c->key_check].demand);
}

const struct api_route *api_route_of(unsigned op) {
    return op >= 1 && op <= n_api_routes ? &api_routes[op - 1] : NULL;
}

const struct api_check *api_route_check(const struct api_route *r, unsigned field) {
    for (size_t i = 0; i < r->schema->n; i++)
        if (r->schema->v[i].field == field)
            return &r->schema->v[i];
    return NULL;
}
