/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and times from text, and back. */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "base/err.h"
#include "base/str.h"

/* Decimal with at most three digits after one dot, scaled by 1000. Returns the rest of the string or NULL. */
static const char *decimal_milli(const char *s, uint64_t *ret) {
    uint64_t v = 0;
    int frac = -1;
    bool any = false;

    for (; *s; s++) {
        if (*s == '.' && frac < 0) {
            frac = 0;
            continue;
        }
        if (!isdigit((unsigned char)*s))
            break;
        any = true;
        if (frac >= 3)
            return NULL;
        if (v >= UINT64_MAX / 10000)
            return NULL;
        v = v * 10 + (uint64_t)(*s - '0');
        if (frac >= 0)
            frac++;
    }
    if (!any || frac == 0)
        return NULL;
    for (int i = frac < 0 ? 0 : frac; i < 3; i++)
        v *= 10;
    *ret = v;
    return s;
}

struct parse_unit {
    const char *name;
    uint64_t factor;
};

struct parse_kind {
    const struct parse_unit *units;
    size_t n;
    uint64_t ceiling;
    const char *noun, *examples, *too; /* for messages */
};

static int parse_amount(const char *s, const struct parse_kind *k, uint64_t *ret, struct err *err) {
    uint64_t milli = 0, v, factor = 0;
    const char *rest = decimal_milli(s, &milli);

    for (size_t i = 0; rest && i < k->n; i++)
        if (strcasecmp(k->units[i].name, rest) == 0)
            factor = k->units[i].factor;
    if (!factor)
        return err_usage(err, "'%s' is not a %s (write it like %s)", s, k->noun, k->examples);
    if (milli > k->ceiling / factor * 1000)
        return err_usage(err, "%s '%s' is too %s", k->noun, s, k->too);
    v = milli / 1000 * factor + milli % 1000 * factor / 1000;
    if (v == 0)
        return err_usage(err, "%s '%s' must be more than 0", k->noun, s);
    *ret = v;
    return 0;
}

int parse_size(const char *s, uint64_t *ret_bytes, struct err *err) {
    static const struct parse_unit units[] = {
        {"", 1},
        {"b", 1},
        {"k", 1ull << 10},
        {"kb", 1ull << 10},
        {"kib", 1ull << 10},
        {"m", 1ull << 20},
        {"mb", 1ull << 20},
        {"mib", 1ull << 20},
        {"g", 1ull << 30},
        {"gb", 1ull << 30},
        {"gib", 1ull << 30},
        {"t", 1ull << 40},
        {"tb", 1ull << 40},
        {"tib", 1ull << 40},
    };
    static const struct parse_kind size = {units,  ARRAY_LEN(units),   1ull << PARSE_SIZE_MAX_LOG2,
                                           "size", "512m, 4g or 1.5g", "large (at most 1024t)"};

    return parse_amount(s, &size, ret_bytes, err);
}

int parse_duration(const char *s, uint64_t *ret_ms, struct err *err) {
    static const struct parse_unit units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    static const struct parse_kind duration = {units,      ARRAY_LEN(units), 365ull * 86400000,
                                               "duration", "90s, 5m or 2h",  "long (at most 365d)"};

    return parse_amount(s, &duration, ret_ms, err);
}

enum { CPUS_MILLI_MIN = 10, CPUS_MILLI_MAX = 4096 * 1000 };

static int cpus_in_range(uint64_t milli, uint64_t *ret_milli, struct err *err) {
    if (milli < CPUS_MILLI_MIN || milli > CPUS_MILLI_MAX)
        return err_usage(err, "CPU count must be between 0.01 and 4096");
    *ret_milli = milli;
    return 0;
}

int parse_cpus(const char *s, uint64_t *ret_milli, struct err *err) {
    uint64_t milli;
    const char *rest = decimal_milli(s, &milli);

    if (!rest || *rest)
        return err_usage(err, "'%s' is not a CPU count (write it like 2 or 0.5)", s);
    return cpus_in_range(milli, ret_milli, err);
}

int parse_cpus_number(double d, uint64_t *ret_milli, struct err *err) {
    if (!(d >= 0 && d <= CPUS_MILLI_MAX))
        return err_usage(err, "CPU count must be between 0.01 and 4096");
    return cpus_in_range((uint64_t)(d * 1000 + 0.5), ret_milli, err);
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret, struct err *err) {
    uint64_t v = 0;
    bool good = *s != 0;

    for (const char *p = s; *p && good; p++) {
        if (!isdigit((unsigned char)*p) || v > (UINT64_MAX - (uint64_t)(*p - '0')) / 10)
            good = false;
        else
            v = v * 10 + (uint64_t)(*p - '0');
    }
    if (!good)
        return err_usage(err, "'%s' is not a whole number", s);
    if (v < min || v > max)
        return err_usage(err, "%s is out of range (%" PRIu64 " to %" PRIu64 ")", s, min, max);
    *ret = v;
    return 0;
}

void format_count(uint64_t n, char out[static 32]) {
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;

    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
}

void format_size(uint64_t bytes, char out[static 24]) {
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;
    uint64_t whole = bytes, tenth;

    while (whole >= 1024 && i + 1 < ARRAY_LEN(names)) {
        whole /= 1024;
        i++;
    }
    tenth = i ? (bytes >> (10 * (i - 1))) % 1024 * 10 / 1024 : 0;
    if (tenth)
        snprintf(out, 24, "%" PRIu64 ".%" PRIu64 " %s", whole, tenth, names[i]);
    else
        snprintf(out, 24, "%" PRIu64 " %s", whole, names[i]);
}

/* The largest unit that loses nothing (but tenths of tenths). */
void format_duration(uint64_t ms, char out[static 24]) {
    if (ms < 1000)
        snprintf(out, 24, "%" PRIu64 " ms", ms);
    else if (ms % 3600000 == 0)
        snprintf(out, 24, "%" PRIu64 " h", ms / 3600000);
    else if (ms % 60000 == 0)
        snprintf(out, 24, "%" PRIu64 " min", ms / 60000);
    else if (ms % 1000 == 0)
        snprintf(out, 24, "%" PRIu64 " s", ms / 1000);
    else
        snprintf(out, 24, "%" PRIu64 ".%" PRIu64 " s", ms / 1000, ms % 1000 / 100);
}

void format_age(uint64_t ns, char out[static 24]) {
    uint64_t s = ns / 1000000000;

    if (s < 60)
        snprintf(out, 24, "%" PRIu64 "s", s);
    else if (s < 3600)
        snprintf(out, 24, "%" PRIu64 "m", s / 60);
    else if (s < 86400)
        snprintf(out, 24, "%" PRIu64 "h", s / 3600);
    else
        snprintf(out, 24, "%" PRIu64 "d", s / 86400);
}

void format_time(uint64_t ns, char out[static 24]) {
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;

    if (ns == 0 || !gmtime_r(&seconds, &tm) || strftime(out, 24, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        out[0] = 0;
}
