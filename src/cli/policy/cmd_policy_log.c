/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum {
    OPT_FOLLOW = 1,
    OPT_DENIED,
    OPT_HOST,
    OPT_SANDBOX,
    OPT_SINCE,
    OPT_JSON,
    OPT_LINES,
    LINE_MAX_BYTES = 16 * 1024,
    LINES_MAX = 100000,
    FOLLOW_PAUSE_US = 200 * 1000,
    STAMP_SIZE = 32
};

static const struct opt opts[] = {
    {OPT_FOLLOW, 'f', "follow", NULL, "go on with what is added", NULL},
    {OPT_DENIED, 0, "denied", NULL, "only what was denied", NULL},
    {OPT_HOST, 0, "host", "HOST", "only this host", NULL},
    {OPT_SANDBOX, 0, "sandbox", "NAME", "only this sandbox", NULL},
    {OPT_SINCE, 0, "since", "TIME", "only what is newer: 10m, 2h, or 2026-01-31T12:00", NULL},
    {OPT_LINES, 'n', "lines", "N", "only the last N", NULL},
    {OPT_JSON, 0, "json", NULL, "print the lines as they are in the log", NULL},
};

struct policy_log_request {
    bool follow, denied, json;
    const char *host, *sandbox;
    char since[STAMP_SIZE]; /* as in the log, so that texts can be compared; "" if everything is wanted */
    uint64_t lines;
};

/* A time of the log: UTC, as ISO 8601 has it. What the user writes is either how long ago or the beginning of such a time. */
static int set_since(struct policy_log_request *q, const char *value, struct err *err) {
    struct timespec now;
    struct tm tm;
    uint64_t ago;
    time_t then;

    if (strspn(value, "0123456789-T:.Z") == strlen(value) && strchr(value, '-') && strlen(value) < sizeof q->since) {
        snprintf(q->since, sizeof q->since, "%s", value);
        return 0;
    }
    if (parse_duration(value, &ago, NULL) < 0)
        return err_usage(err, "--since '%.60s' is neither a time such as 10m nor one such as 2026-01-31T12:00", value);
    clock_gettime(CLOCK_REALTIME, &now);
    then = now.tv_sec - (time_t)(ago / 1000);
    gmtime_r(&then, &tm);
    strftime(q->since, sizeof q->since, "%Y-%m-%dT%H:%M:%S", &tm);
    return 0;
}

static int take(void *arg, int id, const char *value, struct err *err) {
    struct policy_log_request *q = arg;

    switch (id) {
    case OPT_FOLLOW:
        q->follow = true;
        return 0;
    case OPT_DENIED:
        q->denied = true;
        return 0;
    case OPT_HOST:
        q->host = value;
        return 0;
    case OPT_SANDBOX:
        q->sandbox = value;
        return 0;
    case OPT_JSON:
        q->json = true;
        return 0;
    case OPT_SINCE:
        return set_since(q, value, err);
    case OPT_LINES:
        return parse_u64(value, 1, LINES_MAX, &q->lines, err) < 0 ? err_ctx(err, -EINVAL, "--lines") : 0;
    }
    BUG("an option that nobody takes");
}

static const char *text_of(const json_t *v, const char *key) {
    const char *s = json_string_value(json_object_get(v, key));

    return s ? s : "";
}

static long long number_of(const json_t *v, const char *key) {
    return (long long)json_number_value(json_object_get(v, key));
}

static bool wanted(const struct policy_log_request *q, const json_t *v) {
    if (q->denied && !str_eq(text_of(v, "action"), "deny"))
        return false;
    if (q->host && !str_eq(text_of(v, "host"), q->host))
        return false;
    if (q->sandbox && !str_eq(text_of(v, "sandbox"), q->sandbox))
        return false;
    return strcmp(text_of(v, "time"), q->since) >= 0;
}

static void add_part(struct buf *b, const char *before, const char *text) {
    if (!text[0])
        return;
    buf_adds(b, before);
    buf_add_printable(b, text);
}

/* "2026-01-31T12:00:00.123Z box deny request example.com:443 POST /x credential api BAWN_NET_DENIED_METHOD rule 'r' (user)" */
static void add_line(const json_t *v, struct buf *b) {
    bool end = str_eq(text_of(v, "kind"), "end");

    buf_add_printable(b, text_of(v, "time"));
    add_part(b, " ", text_of(v, "sandbox"));
    if (!end)
        add_part(b, " ", text_of(v, "action"));
    add_part(b, " ", text_of(v, "kind"));
    add_part(b, " ", text_of(v, "host"));
    if (number_of(v, "port"))
        buf_addf(b, ":%lld", number_of(v, "port"));
    add_part(b, " ", text_of(v, "method"));
    add_part(b, " ", text_of(v, "path"));
    add_part(b, " credential ", text_of(v, "secret"));
    if (number_of(v, "status"))
        buf_addf(b, " status %lld", number_of(v, "status"));
    add_part(b, " -> ", text_of(v, "address"));
    if (end || number_of(v, "sent") || number_of(v, "received"))
        buf_addf(b, " sent %lld received %lld in %lld ms", number_of(v, "sent"), number_of(v, "received"), number_of(v, "ms"));
    if (!end && !str_eq(text_of(v, "action"), "allow"))
        add_part(b, " ", text_of(v, "code"));
    if (!end && text_of(v, "rule")[0]) {
        add_part(b, " rule '", text_of(v, "rule"));
        add_part(b, "' (", text_of(v, "layer"));
        buf_addc(b, ')');
    }
    if (number_of(v, "count") > 1) {
        buf_addf(b, " %lld times since ", number_of(v, "count"));
        buf_add_printable(b, text_of(v, "first"));
    }
    buf_addc(b, '\n');
}

/* The last lines, if only those are wanted; each is printed at once otherwise. */
struct ring {
    char **v;
    size_t size, next;
};

static void ring_done(struct ring *r) {
    for (size_t i = 0; i < r->size; i++)
        free(r->v[i]);
    free(r->v);
}

static int emit(const struct buf *line, struct err *err) {
    if (fwrite(buf_str(line), 1, line->len, stdout) != line->len)
        return err_sys(err, -errno, "write the result");
    return 0;
}

/* A line that is no JSON object is not ours: skipped. */
static int take_line(const struct policy_log_request *q, const char *line, size_t len, struct ring *ring, struct err *err) {
    CLEANUP(buf_done) struct buf out = BUF_INIT(8 * LINE_MAX_BYTES);
    json_t *v = json_loadb(line, len, 0, NULL);
    bool yes = json_is_object(v) && wanted(q, v);

    if (yes && q->json) {
        CLEANUP(freep) char *text = json_dumps(v, JSON_ENSURE_ASCII); /* control bytes and all: nothing speaks to the terminal */

        buf_adds(&out, text ? text : "");
        buf_addc(&out, '\n');
    } else if (yes) {
        add_line(v, &out);
    }
    json_decref(v);
    if (!buf_ok(&out))
        return err_oom(err);
    if (!yes || ring->size == 0)
        return yes ? emit(&out, err) : 0;
    free(ring->v[ring->next]);
    ring->v[ring->next] = buf_take(&out);
    ring->next = (ring->next + 1) % ring->size;
    return 0;
}

static int flush_ring(struct ring *ring, struct err *err) {
    for (size_t i = 0; i < ring->size; i++) {
        const char *line = ring->v[(ring->next + i) % ring->size];

        if (line && fputs(line, stdout) < 0)
            return err_sys(err, -errno, "write the result");
    }
    ring_done(ring);
    *ring = (struct ring){0};
    return 0;
}

/* One of the two files, read as far as it goes; a line that is not complete waits for its rest. */
struct policy_log_reading {
    int fd; /* -1: none */
    char line[LINE_MAX_BYTES];
    size_t len;
    bool too_long;
};

static int take_bytes(const struct policy_log_request *q, struct policy_log_reading *rd, const char *data, size_t n,
                      struct ring *ring, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        int r = 0;

        if (data[i] != '\n') {
            rd->too_long |= rd->len == sizeof rd->line;
            if (!rd->too_long)
                rd->line[rd->len++] = data[i];
            continue;
        }
        if (!rd->too_long)
            r = take_line(q, rd->line, rd->len, ring, err);
        rd->len = 0;
        rd->too_long = false;
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_on(const struct policy_log_request *q, struct policy_log_reading *rd, struct ring *ring, struct err *err) {
    char chunk[64 * 1024];
    ssize_t n;
    int r = 0;

    while (rd->fd >= 0 && r == 0 && (n = fd_read_some(rd->fd, chunk, sizeof chunk)) != 0)
        r = n < 0 ? err_sys(err, (int)n, "read the log") : take_bytes(q, rd, chunk, (size_t)n, ring, err);
    return r;
}

static int open_log(struct policy_log_reading *rd, const char *path, struct err *err) {
    struct stat st;

    closep(&rd->fd);
    rd->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (rd->fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, -errno, "open '%s'", path);
    if (fstat(rd->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "'%s' is not a regular file", path);
    return 0;
}

/* The log is renamed when it is full (supervisor/network/netlog.h): then the new one is opened. */
static bool is_replaced(const struct policy_log_reading *rd, const char *path) {
    struct stat ours, there;

    if (stat(path, &there) < 0)
        return false;
    return rd->fd < 0 || fstat(rd->fd, &ours) < 0 || ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

static int follow(const struct policy_log_request *q, struct policy_log_reading *rd, const char *path, struct err *err) {
    struct ring none = {0};
    int r = 0;

    while (r == 0) {
        fflush(stdout);
        usleep(FOLLOW_PAUSE_US);
        r = read_on(q, rd, &none, err);
        if (r == 0 && is_replaced(rd, path))
            r = open_log(rd, path, err);
    }
    return r;
}

static int show(const struct policy_log_request *q, struct err *err) {
    CLEANUP(freep) char *home = NULL, *path = NULL, *old = NULL;
    CLEANUP(freep) struct policy_log_reading *rd = calloc(1, sizeof *rd);
    CLEANUP(ring_done) struct ring ring = {.size = q->lines};
    int r = rd ? paths_home(environ, &home, err) : err_oom(err);

    r = r < 0 ? r : paths_state(environ, home, "log/network.jsonl", &path, err);
    if (r < 0 || !path)
        return r;
    old = str_dupf("%s.1", path);
    ring.v = calloc(ring.size + 1, sizeof *ring.v);
    if (!old || !ring.v)
        return err_oom(err);
    rd->fd = -1;
    r = open_log(rd, old, err);
    r = r < 0 ? r : read_on(q, rd, &ring, err);
    r = r < 0 ? r : open_log(rd, path, err);
    r = r < 0 ? r : read_on(q, rd, &ring, err);
    r = r < 0 ? r : flush_ring(&ring, err);
    r = r < 0 || !q->follow ? r : follow(q, rd, path, err);
    closep(&rd->fd);
    return r;
}

static int run_policy_log(const struct verb *self, int argc, char **argv) {
    struct policy_words words = {0};
    struct policy_log_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 0, &words, &err);

    r = r < 0 ? r : show(&q, &err);
    if (r == 0 && fflush(stdout) != 0)
        r = err_sys(&err, -errno, "write the result");
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Shows what your sandboxes asked the network for, and the verdicts: $XDG_STATE_HOME/bawn/log/network.jsonl, one JSON object "
    "on each line. Times are UTC.\n\n"
    "    bawn policy log --denied --since 1h\n"
    "    bawn policy log -f\n"
    "    bawn policy log --json | jq -r 'select(.action == \"deny\") | .host' | sort | uniq -c";

const struct verb verb_policy_log = {
    .name = "policy log",
    .summary = "show what sandboxes asked the network for",
    .synopsis = "[options]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_policy_log,
};
