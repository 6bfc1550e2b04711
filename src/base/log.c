/* SPDX-License-Identifier: Apache-2.0 */
/* Lines to stderr. */
#include "base/log.h"

#include <stdarg.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"

enum { LOG_LINE_MAX = 8192 };

static void (*log_sink)(const char *line, size_t len); /* the mutable globals: who prints, and what */
static bool quiet_wanted;

void log_set_sink(void (*sink)(const char *line, size_t len)) {
    log_sink = sink;
}

void log_set_quiet(bool quiet) {
    quiet_wanted = quiet;
}

bool log_is_quiet(void) {
    return quiet_wanted;
}

static void emit(const char *text) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(LOG_LINE_MAX * 5);

    buf_adds(&b, "bawn: ");
    buf_add_printable(&b, text);
    buf_addc(&b, '\n');
    if (log_sink)
        log_sink(buf_str(&b), b.len);
    else if (write(STDERR_FILENO, buf_str(&b), b.len) < 0)
        return; /* there is no reader any more */
}

void log_line(const char *fmt, ...) {
    char text[LOG_LINE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    emit(text);
}

void log_note(const char *fmt, ...) {
    char text[LOG_LINE_MAX];
    va_list ap;

    if (quiet_wanted)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    emit(text);
}

void log_err(const struct err *err) {
    emit(err->msg[0] ? err->msg : "unknown error");
}
