/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the network log. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/str.h"
#include "os/fd.h"
#include "top/top.h"

enum { FEED_LINE_MAX = 64 * 1024, FEED_BACK = 32 * 1024, FEED_READ_MAX = 4 * 1024 * 1024 };

int feed_open(struct top_feed *f, const char *state, struct err *err) {
    *f = (struct top_feed){.path = str_dupf("%s/log/network.jsonl", state), .fd = -1, .part = BUF_INIT(FEED_LINE_MAX)};
    return f->path ? 0 : err_oom(err);
}

void feed_done(struct top_feed *f) {
    closep(&f->fd);
    buf_done(&f->part);
    free(f->path);
    f->path = NULL;
}

static bool is_verdict(const char *kind) {
    static const char *const kinds[] = {"lookup", "connection", "request", "deny", "once", "session", "always"};

    return str_index(kind, kinds, ARRAY_LEN(kinds)) >= 0;
}

/* The line in which this refusal is counted already; TOP_FEED_LINES: none. */
static size_t find_denied(const struct top_feed *f, const char *what) {
    for (size_t i = 0; i < MIN_OF(f->n, (size_t)TOP_FEED_LINES); i++)
        if (f->denied[i] && str_eq(f->what[i], what))
            return i;
    return TOP_FEED_LINES;
}

/* "NAME  deny   example.com:443" */
static void add_what(struct buf *b, const json_t *line) {
    buf_add_printable(b, json_get_text(line, "sandbox"));
    buf_addf(b, "  %-5.5s  ", json_get_text(line, "action"));
    buf_add_printable(b, json_get_text(line, "host"));
    buf_addf(b, ":%lld", (long long)json_get_int(line, "port", 0));
}

/* Where the line goes. A refusal that is there already is counted where it stands. */
static size_t take_line(struct top_feed *f, const char *what, bool denied) {
    size_t at = denied ? find_denied(f, what) : TOP_FEED_LINES;

    if (at < TOP_FEED_LINES)
        return at;
    at = f->n++ % TOP_FEED_LINES;
    f->times[at] = 0;
    f->denied[at] = denied;
    snprintf(f->what[at], TOP_FEED_TEXT, "%s", what);
    return at;
}

static void add_verdict(struct top_feed *f, const char *text, size_t len) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(FEED_LINE_MAX), what = BUF_INIT(TOP_FEED_TEXT - 1);
    json_t *line = json_loadb(text, len, 0, NULL);
    const char *time = json_get_text(line, "time");
    char count[32];
    size_t at;

    if (is_verdict(json_get_text(line, "kind"))) {
        add_what(&what, line);
        at = take_line(f, buf_str(&what), str_eq(json_get_text(line, "action"), "deny"));
        f->times[at] += (uint64_t)MAX_OF(json_get_int(line, "count", 1), 1);
        format_count(f->times[at], count);
        buf_addf(&b, "%.8s %s ", strlen(time) > 19 ? time + 11 : "", buf_str(&what));
        if (f->denied[at] && f->times[at] > 1) {
            buf_addf(&b, "denied %s times", count);
        } else {
            buf_add_printable(&b, json_get_text(line, "method"));
            buf_addc(&b, ' ');
            buf_add_printable(&b, json_get_text(line, "path"));
        }
        snprintf(f->lines[at], TOP_FEED_TEXT, "%s", buf_str(&b));
    }
    json_decref(line);
}

static void add_bytes(struct top_feed *f, const char *bytes, size_t len) {
    const char *end;

    while ((end = memchr(bytes, '\n', len))) {
        buf_add(&f->part, bytes, (size_t)(end - bytes));
        if (buf_ok(&f->part))
            add_verdict(f, buf_str(&f->part), f->part.len);
        buf_clear(&f->part);
        len -= (size_t)(end + 1 - bytes);
        bytes = end + 1;
    }
    buf_add(&f->part, bytes, len);
}

static void open_file(struct top_feed *f, bool from_start) {
    struct stat st;

    closep(&f->fd);
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return;
    f->ino = st.st_ino;
    buf_clear(&f->part);
    if (!from_start && st.st_size > FEED_BACK)
        lseek(f->fd, st.st_size - FEED_BACK, SEEK_SET); /* the first line is cut and no JSON: it falls away by itself */
}

void feed_refresh(struct top_feed *f) {
    char bytes[16 * 1024];
    size_t total = 0;
    struct stat st;
    ssize_t n;

    if (f->fd < 0)
        open_file(f, false);
    while (f->fd >= 0 && total < FEED_READ_MAX && (n = fd_read_some(f->fd, bytes, sizeof bytes)) > 0) {
        add_bytes(f, bytes, (size_t)n);
        total += (size_t)n;
    }
    if (f->fd >= 0 && stat(f->path, &st) == 0 && st.st_ino != f->ino)
        open_file(f, true); /* was rotated; read at the next refresh */
}
