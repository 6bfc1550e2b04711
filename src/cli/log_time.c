/* SPDX-License-Identifier: Apache-2.0 */
/* Times as the logs have them, from what the user writes. */
#include "cli/log_time.h"

#include <time.h>

#include "base/err.h"
#include "base/parse.h"

/* Without the 'Z', which would sort behind the fraction of a second. */
int log_time_take(const struct opt *o, const char *value, void *to, struct err *err) {
    size_t n = strlen(value);
    struct tm tm;
    uint64_t ago;
    time_t then;

    if (strspn(value, "0123456789-T:.Z") == n && strchr(value, '-') && n < LOG_TIME_SIZE) {
        snprintf(to, LOG_TIME_SIZE, "%.*s", (int)(n && value[n - 1] == 'Z' ? n - 1 : n), value);
        return 0;
    }
    if (parse_duration(value, &ago, NULL) < 0)
        return err_usage(err, "--%s '%.60s' is neither a time such as 10m nor one such as 2026-01-31T12:00", o->name, value);
    then = time(NULL) - (time_t)(ago / 1000);
    gmtime_r(&then, &tm);
    strftime(to, LOG_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    return 0;
}
