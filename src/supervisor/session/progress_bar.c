/* SPDX-License-Identifier: Apache-2.0 */
/* A line on the terminal while long work lasts. */
#include "supervisor/session/progress_bar.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/fd.h"

enum { FIRST_MS = 1000, AGAIN_MS = 100, BAR = 24 };

static size_t draw_bar(char *out, uint64_t files, uint64_t total) {
    size_t full = total ? (size_t)(MIN_OF(files, total) * BAR / total) : 0, n = 0;

    if (!total)
        return 0;
    out[n++] = '[';
    for (size_t i = 0; i < BAR; i++)
        out[n++] = i < full ? '#' : '.';
    out[n++] = ']';
    out[n++] = ' ';
    return n;
}

void progress_bar_report(uint64_t files, uint64_t bytes, uint64_t files_total, void *arg) {
    struct progress_bar *p = arg;
    char line[256], blocks[BAR + 8], size[24];
    uint64_t now = clock_ms();
    int n;

    if (!p->begun_ms) {
        p->begun_ms = now;
        p->off = log_is_quiet() || !isatty(STDERR_FILENO);
    }
    if (p->off || now < (p->shown_ms ? p->shown_ms + AGAIN_MS : p->begun_ms + FIRST_MS))
        return;
    p->shown_ms = now;
    format_size(bytes, size);
    if (p->of_bytes)
        n = snprintf(line, sizeof line, "\r\033[Kbawn: %s %.*s%s", p->what, (int)draw_bar(blocks, bytes, files_total), blocks,
                     size);
    else
        n = snprintf(line, sizeof line, "\r\033[Kbawn: %s %.*s%" PRIu64 " %s, %s", p->what,
                     (int)draw_bar(blocks, files, files_total), blocks, files, str_plural(files, "file", "files"), size);
    if (n > 0 && (size_t)n < sizeof line)
        fd_write_all(STDERR_FILENO, line, (size_t)n);
}

void progress_bar_done(struct progress_bar *p) {
    if (p->shown_ms)
        fd_write_all(STDERR_FILENO, "\r\033[K", 4);
    p->shown_ms = 0;
}
