/* SPDX-License-Identifier: Apache-2.0 */
/* Times as the logs have them, from what the user writes. */
#include "cli/log_time.h"

#include <time.h>

#include "base/err.h"
#include "base/parse.h"

/* Of "2026-01-31T12:00:00.123456789" as many whole parts as there are: times are compared as text, and 2026-1-5 would be later than May. */
static bool is_log_time(const char *s, size_t n) {
    static const char form[] = "0000-00-00T00:00:00.000000000";

    for (size_t i = 0; i < n; i++)
        if (i >= sizeof form - 1 || (form[i] == '0' ? s[i] < '0' || s[i] > '9' : s[i] != form[i]))
            return false;
    return n == 7 || n == 10 || n == 13 || n == 16 || n == 19 || n > 20;
}

/* Without the 'Z', which would sort behind the fraction of a second. */
int log_time_take(const struct opt *o, const char *value, void *to, struct err *err) {
    size_t n = strlen(value);
    struct tm tm;
    uint64_t ago;
    time_t then;

    n -= n && value[n - 1] == 'Z';
    if (is_log_time(value, n)) {
        snprintf(to, LOG_TIME_SIZE, "%.*s", (int)n, value);
        return 0;
    }
    if (parse_duration(value, &ago, NULL) < 0)
        return err_usage(err, "--%s '%.60s' is neither a time such as 10m nor one such as 2026-01-31T12:00", o->name, value);
    then = time(NULL) - (time_t)(ago / 1000);
    gmtime_r(&then, &tm);
    strftime(to, LOG_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    return 0;
}
