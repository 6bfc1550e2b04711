/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of a batch. On a terminal: a block of lines that is drawn over itself (cursor up, erase), never longer than the window;
 * notices are written above it. Elsewhere: only notices. What tasks print is hostile: it is shown as plain text.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/run/batch_table.h"
#include "os/clock.h"
#include "os/fd.h"
#include "review/report/escape.h"

enum {
    REDRAW_MS = 100, /* at most this often */
    TICK_MS = 500,   /* and at least, for the times and the output */
    TAIL_MAX = 2048, /* bytes of output that are looked at */
    SCREEN_MAX = 256 * 1024,
    LINE_MAX_SHOWN = 64 * 1024,
    NAME_SHOWN = 20,
    NAME_COLUMN = 12, /* of the result, at least */
    TIME_SHOWN = 8,
    COLUMNS_MIN = 20,
    COLUMNS_MAX = 500,
};

static void window(unsigned *ret_rows, unsigned *ret_columns) {
    struct winsize w = {0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
        w = (struct winsize){.ws_row = 24, .ws_col = 80};
    *ret_rows = w.ws_row;
    *ret_columns = MIN_OF(MAX_OF(w.ws_col, (unsigned)COLUMNS_MIN), (unsigned)COLUMNS_MAX);
}

/* Behind an escape sequence that begins at p. */
static const char *skip_escape(const char *p, const char *end) {
    char kind = ++p < end ? *p++ : 0;

    if (kind == '[')
        while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x40)
            p++;
    else if (kind == ']')
        while (p < end && *p != '\a' && *p != '\033')
            p++;
    return (kind == '[' || kind == ']') && p < end ? p + 1 : p;
}

static uint32_t decode_utf8(const char *p, size_t n) {
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (unsigned char)*p & first[n];

    for (size_t i = 1; i < n; i++)
        code = code << 6 | ((unsigned char)p[i] & 0x3f);
    return code;
}

/* How wide a terminal draws a character that is not ASCII is not known: two columns are enough for each. */
static void add_plain(const char *p, const char *end, size_t columns, struct buf *out) {
    while (p < end) {
        size_t n = *p ? str_utf8_len(p) : 0, width = n > 1 ? 2 : 1;

        if (*p == '\033' || *p == '\t') {
            if (*p == '\t' && columns && columns--)
                buf_addc(out, ' ');
            p = *p == '\t' ? p + 1 : skip_escape(p, end);
            continue;
        }
        if (n == 0 || n > (size_t)(end - p) || escape_deceptive(decode_utf8(p, n))) {
            p += n && n <= (size_t)(end - p) ? n : 1;
            continue;
        }
        if (width > columns)
            return;
        buf_add(out, p, n);
        columns -= width;
        p += n;
    }
}

/* A progress bar ends its line by CR: what follows the last one is what a person would see. */
void batch_last_line(const char *text, size_t len, size_t columns, struct buf *out) {
    const char *end = text + len, *from;

    while (end > text && (unsigned char)end[-1] <= ' ')
        end--;
    for (from = end; from > text && from[-1] != '\n' && from[-1] != '\r'; from--)
        ;
    while (from < end && *from == ' ')
        from++;
    add_plain(from, end, columns, out);
}

/* The tail of the log that was written to last. */
static void add_output(const struct batch *b, const struct batch_task *t, size_t columns, struct buf *out) {
    CLEANUP(closep) int best = -1;
    struct stat best_st = {0}, st;
    char tail[TAIL_MAX + 1];
    ssize_t n;

    for (int i = 0; i < 2; i++) {
        char name[64];
        CLEANUP(closep) int fd = -1;

        batch_log_name(t, i ? ".err" : ".out", name);
        fd = openat(b->logs_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
            continue;
        if (best >= 0 && (st.st_mtim.tv_sec < best_st.st_mtim.tv_sec ||
                          (st.st_mtim.tv_sec == best_st.st_mtim.tv_sec && st.st_mtim.tv_nsec < best_st.st_mtim.tv_nsec)))
            continue;
        closep(&best);
        best = TAKE_FD(fd);
        best_st = st;
    }
    if (best < 0)
        return;
    n = pread(best, tail, TAIL_MAX, best_st.st_size > TAIL_MAX ? best_st.st_size - TAIL_MAX : 0);
    if (n <= 0)
        return;
    tail[n] = 0;
    batch_last_line(tail, (size_t)n, columns, out);
}

/* How much room the block has now: a window that became narrower has broken its lines. */
static size_t rows_used(const struct batch_table *t) {
    unsigned rows, columns;
    size_t n = 0;

    window(&rows, &columns);
    for (size_t i = 0; i < t->n; i++)
        n += t->widths[i] > columns ? (t->widths[i] + columns - 1) / columns : 1;
    return MIN_OF(n, (size_t)rows - 1);
}

static void add_erase(struct batch_table *t, struct buf *out) {
    size_t up = rows_used(t);

    if (up)
        buf_addf(out, "\r\033[%zuA\033[J", up);
    t->n = 0;
}

static void add_table_line(struct batch_table *t, const struct buf *line, struct buf *out) {
    unsigned width = 0;

    for (const char *p = buf_str(line); *p; p += MAX_OF(str_utf8_len(p), (size_t)1))
        width += (unsigned char)*p < 0x80 ? 1 : 2;
    t->widths[t->n++] = width;
    buf_add(out, buf_str(line), line->len);
    buf_addc(out, '\n');
}

/* "0:07", "1:02:03" */
static void table_time(uint64_t ms, char ret[static 24]) {
    unsigned long s = (unsigned long)(ms / 1000);

    if (s < 3600)
        snprintf(ret, 24, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(ret, 24, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

static void add_task(struct batch_table *t, const struct batch *b, const struct batch_task *task, unsigned columns,
                     struct buf *out) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(4 * COLUMNS_MAX);
    char time[24];
    size_t used;

    table_time(clock_ms() - task->begun_ms, time);
    buf_addf(&line, "%-*.*s %*s%s  ", NAME_SHOWN, MIN_OF(NAME_SHOWN, (int)columns / 3), task->name, TIME_SHOWN, time,
             task->attempts > 1 ? " again" : "");
    used = line.len;
    if (used + 1 < columns)
        add_output(b, task, columns - 1 - used, &line);
    else
        line.len = columns - 1, line.data[line.len] = 0;
    add_table_line(t, &line, out);
}

static void add_summary(struct batch_table *t, const struct batch *b, size_t unseen, bool ending, unsigned columns,
                        struct buf *out) {
    CLEANUP(buf_done) struct buf line = BUF_INIT(4 * COLUMNS_MAX);
    char time[24];

    table_time(clock_ms() - t->begun_ms, time);
    if (unseen)
        buf_addf(&line, "(%zu more) ", unseen);
    buf_addf(&line, "%zu running, %zu waiting, %zu ok, %zu failed, %s%s", batch_count(b, BATCH_RUNNING),
             batch_count(b, BATCH_WAITING), batch_count(b, BATCH_OK), batch_count(b, BATCH_FAILED), time,
             ending ? "; ending, ^C again: kill" : "");
    if (line.len >= columns)
        line.len = columns - 1, line.data[line.len] = 0;
    add_table_line(t, &line, out);
}

static void draw_table(struct batch_table *t, const struct batch *b, bool ending) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(SCREEN_MAX);
    size_t shown = 0, unseen = 0, max;
    unsigned rows, columns;

    window(&rows, &columns);
    max = MIN_OF(rows > 3 ? (size_t)rows - 2 : 1, ARRAY_LEN(t->widths) - 1); /* the cursor stands in the last row */
    add_erase(t, &out);
    for (size_t i = 0; i < b->n; i++) {
        if (b->v[i].state != BATCH_RUNNING)
            continue;
        if (shown < max && ++shown)
            add_task(t, b, &b->v[i], columns, &out);
        else
            unseen++;
    }
    add_summary(t, b, unseen, ending, columns, &out);
    if (buf_ok(&out))
        fd_write_all(STDERR_FILENO, buf_str(&out), out.len);
}

static int draw_sometimes(const struct batch *b, bool ending, void *arg) {
    struct batch_table *t = arg;
    uint64_t now = clock_ms();

    if (!t->watch.live)
        return -1;
    if (t->drawn_ms && now - t->drawn_ms < REDRAW_MS)
        return (int)(REDRAW_MS - (now - t->drawn_ms));
    draw_table(t, b, ending);
    t->drawn_ms = now;
    return TICK_MS;
}

static void on_resized(void *arg) {
    ((struct batch_table *)arg)->drawn_ms = 0;
}

void batch_table_clear(struct batch_table *t) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(64);

    if (!t->watch.live || !t->n)
        return;
    add_erase(t, &out);
    fd_write_all(STDERR_FILENO, buf_str(&out), out.len);
    t->drawn_ms = 0;
}

/* A line that stays. */
static void say_line(const char *text, void *arg) {
    CLEANUP(buf_done) struct buf shown = BUF_INIT(LINE_MAX_SHOWN);

    buf_add_printable(&shown, text);
    batch_table_clear(arg);
    log_note("%s", buf_str(&shown));
}

void batch_table_init(struct batch_table *t) {
    const char *term = getenv("TERM");

    *t =
        (struct batch_table){.watch = {.notice = {.say = say_line, .arg = t},
                                       .live = !log_is_quiet() && isatty(STDERR_FILENO) && term && *term && !str_eq(term, "dumb"),
                                       .draw = draw_sometimes,
                                       .resized = on_resized,
                                       .arg = t},
                             .begun_ms = clock_ms()};
}

/* -- the result ---------------------------------------------------------------------------------------------------------- */

static void add_result(const struct batch *b, const struct batch_task *t, size_t width, struct buf *out) {
    char time[24] = "-", memory[24] = "-", log[64];

    if (!t->attempts) {
        buf_addf(out, "%-*s  %4s\n", (int)width, t->name, "-");
        return;
    }
    format_duration(t->result.duration_ms, time);
    if (t->result.memory_peak)
        format_size(t->result.memory_peak, memory);
    buf_addf(out, "%-*s  %4d  %8s  %10s  %5" PRIu64, (int)width, t->name, t->result.status, time, memory, t->result.changes);
    batch_log_name(t, ".err", log);
    if (t->result.run[0])
        buf_addf(out, "  bawn review %s", t->result.run);
    else if (t->state == BATCH_FAILED)
        buf_addf(out, "  see %s/%s", b->logs, log);
    buf_addc(out, '\n');
}

void batch_table_result(const struct batch *b, struct buf *out) {
    size_t width = NAME_COLUMN;

    for (size_t i = 0; i < b->n; i++)
        width = MAX_OF(width, strlen(b->v[i].name));
    buf_addf(out, "%-*s  %4s  %8s  %10s  %5s\n", (int)width, "TASK", "EXIT", "TIME", "MEMORY", "FILES");
    for (size_t i = 0; i < b->n; i++)
        add_result(b, &b->v[i], width, out);
    buf_addf(out, "%zu ok, %zu failed, %zu skipped; output in %s\n", batch_count(b, BATCH_OK), batch_count(b, BATCH_FAILED),
             batch_count(b, BATCH_SKIPPED), b->logs);
}
