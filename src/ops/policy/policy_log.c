/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the log of the network: the file before, the present one, and what is added. */
#include "ops/policy/policy_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "os/fd.h"

enum { FOLLOW_PAUSE_US = 200 * 1000 };

struct policy_log_reader {
    const struct policy_log_filter *filter;
    policy_log_fn *fn;
    void *arg;
    int fd; /* the file that is being read; -1: none */
    char line[POLICY_LOG_LINE_MAX];
    size_t len; /* of a line that is not complete yet */
    bool too_long;
    char **last; /* a ring of the last lines, if only those are read */
    size_t n_last, next;
};

static void reader_done(struct policy_log_reader *rd) {
    closep(&rd->fd);
    for (size_t i = 0; i < rd->n_last; i++)
        free(rd->last[i]);
    free(rd->last);
    rd->last = NULL;
    rd->n_last = 0;
}

static bool is_wanted(const struct policy_log_filter *f, const json_t *v) {
    if (f->denied && !str_eq(json_get_text(v, "action"), "deny"))
        return false;
    if (f->host && !str_eq(json_get_text(v, "host"), f->host))
        return false;
    if (f->sandbox && !str_eq(json_get_text(v, "sandbox"), f->sandbox))
        return false;
    return strcmp(json_get_text(v, "time"), f->since) >= 0;
}

/* A line that is no JSON object is not ours: skipped. */
static int take_line(struct policy_log_reader *rd, const char *line, size_t len, struct err *err) {
    CLEANUP(json_decrefp) json_t *v = json_loadb(line, len, 0, NULL);

    if (!json_is_object(v) || !is_wanted(rd->filter, v))
        return 0;
    if (!rd->n_last)
        return rd->fn(v, rd->arg, err);
    free(rd->last[rd->next]);
    rd->last[rd->next] = strndup(line, len);
    if (!rd->last[rd->next])
        return err_oom(err);
    rd->next = (rd->next + 1) % rd->n_last;
    return 0;
}

static int take_log_bytes(struct policy_log_reader *rd, const char *data, size_t n, struct err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        if (data[i] != '\n') {
            rd->too_long |= rd->len == sizeof rd->line;
            if (!rd->too_long)
                rd->line[rd->len++] = data[i];
            continue;
        }
        r = rd->too_long ? 0 : take_line(rd, rd->line, rd->len, err);
        rd->len = 0;
        rd->too_long = false;
    }
    return r;
}

static int read_rest(struct policy_log_reader *rd, struct err *err) {
    char chunk[64 * 1024];
    ssize_t n;
    int r = 0;

    while (rd->fd >= 0 && r >= 0 && (n = fd_read_some(rd->fd, chunk, sizeof chunk)) != 0)
        r = n < 0 ? err_sys(err, (int)n, "read the log") : take_log_bytes(rd, chunk, (size_t)n, err);
    return r;
}

static int open_netlog(struct policy_log_reader *rd, const char *path, struct err *err) {
    struct stat st;

    closep(&rd->fd);
    rd->fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
    if (rd->fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, -errno, "open '%s'", path);
    if (fstat(rd->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "'%s' is not a regular file", path);
    return 0;
}

static int read_netlog(struct policy_log_reader *rd, const char *path, struct err *err) {
    int r = open_netlog(rd, path, err);

    return r < 0 ? r : read_rest(rd, err);
}

static int flush_last(struct policy_log_reader *rd, struct err *err) {
    size_t n = rd->n_last;
    int r = 0;

    rd->n_last = 0; /* take_line() hands them out now */
    for (size_t i = 0; i < n; i++) {
        CLEANUP(freep) char *line = TAKE_PTR(rd->last[(rd->next + i) % n]);

        r = r < 0 || !line ? r : take_line(rd, line, strlen(line), err);
    }
    return r;
}

/* The log is renamed when it is full (supervisor/network/netlog.h): then the new one is opened. */
static bool is_replaced(const struct policy_log_reader *rd, const char *path) {
    struct stat ours, there;

    if (stat(path, &there) < 0)
        return false;
    return rd->fd < 0 || fstat(rd->fd, &ours) < 0 || ours.st_ino != there.st_ino || ours.st_dev != there.st_dev;
}

static int follow_log(struct policy_log_reader *rd, const char *path, struct err *err) {
    int r = 0;

    while (r >= 0) {
        usleep(FOLLOW_PAUSE_US);
        r = read_rest(rd, err);
        if (r >= 0 && is_replaced(rd, path))
            r = open_netlog(rd, path, err);
    }
    return r;
}

static int read_netlogs(struct policy_log_reader *rd, const char *path, struct err *err) {
    CLEANUP(freep) char *old = str_dupf("%s.1", path);
    int r = old ? read_netlog(rd, old, err) : err_oom(err);

    r = r < 0 ? r : read_netlog(rd, path, err);
    r = r < 0 ? r : flush_last(rd, err);
    return r < 0 || !rd->filter->follow ? r : follow_log(rd, path, err);
}

int policy_log_read(const struct policy_log_filter *f, policy_log_fn *fn, void *arg, struct err *err) {
    CLEANUP(freep) char *home = NULL, *path = NULL;
    CLEANUP(freep) struct policy_log_reader *rd = calloc(1, sizeof *rd);
    int r = rd ? paths_home(environ, &home, err) : err_oom(err);

    r = r < 0 ? r : paths_state(environ, home, "log/network.jsonl", &path, err);
    if (r < 0 || !path)
        return r;
    *rd = (struct policy_log_reader){.filter = f, .fn = fn, .arg = arg, .fd = -1};
    rd->last = calloc(f->lines + 1, sizeof *rd->last);
    rd->n_last = rd->last ? f->lines : 0;
    r = rd->last ? read_netlogs(rd, path, err) : err_oom(err);
    reader_done(rd);
    return r;
}
