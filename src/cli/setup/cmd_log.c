/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/view.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/policy/policy_view.h"
#include "cli/setup/log_line.h"
#include "config/load/paths.h"
#include "os/fd.h"
#include "registry/registry.h"

enum {
    OPT_FOLLOW = 1,
    OPT_SINCE,
    OPT_UNTIL,
    OPT_TYPE,
    OPT_TAIL,
    OPT_JSON,
    TAIL_MAX = 1000000,
    PAUSE_US = 50 * 1000,
    NAME_CUT = 80
};

static const struct opt opts[] = {
    {OPT_FOLLOW, 'f', "follow", NULL, "go on with what is added", NULL},
    {OPT_SINCE, 0, "since", "TIME", "only what is newer: 10m, 2h, 3d, or 2026-01-31T12:00 (UTC)", NULL},
    {OPT_UNTIL, 0, "until", "TIME", "only what is older", NULL},
    {OPT_TYPE, 0, "type", "TYPE[,TYPE]", "only these events",
     "start|exec|exit|stop|limit|landed|network|ask|secret|review|apply|discard|rollback|policy|tool|file|repair"},
    {OPT_TAIL, 'n', "tail", "N", "only the last N", NULL},
    {OPT_JSON, 0, "json", NULL, "print the lines as they are in the log", NULL},
};

struct log_request {
    bool follow, json;
    struct view_filter filter;
    uint64_t tail;
};

/* A time of the log: UTC, as ISO 8601 has it. What the user writes is either how long ago or the beginning of such a time. */
static int read_time(const char *option, const char *value, char ret[static VIEW_TIME_SIZE], struct err *err) {
    struct timespec now;
    struct tm tm;
    uint64_t ago;
    time_t then;

    if (strspn(value, "0123456789-T:.Z") == strlen(value) && strchr(value, '-') && strlen(value) < VIEW_TIME_SIZE) {
        size_t n = strlen(value);

        snprintf(ret, VIEW_TIME_SIZE, "%.*s", (int)(n && value[n - 1] == 'Z' ? n - 1 : n), value);
        return 0;
    }
    if (parse_duration(value, &ago, NULL) < 0)
        return err_usage(err, "%s '%.60s' is neither a time such as 10m nor one such as 2026-01-31T12:00", option, value);
    clock_gettime(CLOCK_REALTIME, &now);
    then = now.tv_sec - (time_t)(ago / 1000);
    gmtime_r(&then, &tm);
    strftime(ret, VIEW_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    return 0;
}

static int read_types(const char *value, unsigned *ret, struct err *err) {
    for (const char *at = value;; at++) {
        size_t n = strcspn(at, ",");
        int i = 0;

        while (i < AUDIT_TYPES && (strlen(audit_type_names[i]) != n || strncmp(audit_type_names[i], at, n) != 0))
            i++;
        if (i == AUDIT_TYPES) {
            CLEANUP(freep) char *word = strndup(at, MIN_OF(n, (size_t)NAME_CUT));
            const char *near = word ? str_nearest(word, audit_type_names, AUDIT_TYPES) : NULL;

            return err_usage(err, "--type: there are no events '%s'%s%s%s", word ? word : "", near ? "; did you mean '" : "",
                             near ? near : "", near ? "'?" : "");
        }
        *ret |= 1u << i;
        at += n;
        if (!*at)
            return 0;
    }
}

static int take(void *arg, int id, const char *value, struct err *err) {
    struct log_request *q = arg;

    switch (id) {
    case OPT_FOLLOW:
        q->follow = true;
        return 0;
    case OPT_JSON:
        q->json = true;
        return 0;
    case OPT_SINCE:
        return read_time("--since", value, q->filter.since, err);
    case OPT_UNTIL:
        return read_time("--until", value, q->filter.until, err);
    case OPT_TYPE:
        return read_types(value, &q->filter.types, err);
    case OPT_TAIL:
        return parse_u64(value, 1, TAIL_MAX, &q->tail, err) < 0 ? err_ctx(err, -EINVAL, "--tail") : 0;
    }
    BUG("an option that nobody takes");
}

/* Names of runs and sandboxes, and ids. */
static int check_name(const char *name, struct err *err) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    CLEANUP(freep) char *cut = strndup(name, NAME_CUT);
    CLEANUP(buf_done) struct buf shown = BUF_INIT(8 * NAME_CUT);

    if (name[0] && strlen(name) <= NAME_CUT && strspn(name, letters) == strlen(name) && !strchr("-_.", name[0]))
        return 0;
    buf_add_printable(&shown, cut ? cut : "");
    return err_usage(err, "'%s' is not the name of a sandbox", buf_str(&shown));
}

/* The id of a sandbox that has got another name since. */
static char *find_id(const char *name, const char *home) {
    CLEANUP(box_done) struct box box = BOX_INIT;
    CLEANUP(freep) char *boxes = NULL;

    if (registry_folder(environ, home, &boxes, NULL) < 0 || !boxes || registry_open(boxes, name, false, &box, NULL) < 0)
        return NULL;
    return TAKE_PTR(box.info.id);
}

static int print(const struct log_request *q, const struct view_line *v, size_t n, struct err *err) {
    bool terminal = isatty(STDOUT_FILENO);

    for (size_t i = q->tail && n > q->tail ? n - q->tail : 0; i < n; i++) {
        CLEANUP(buf_done) struct buf out = BUF_INIT(LOG_LINE_MAX);
        bool is = q->json ? log_line_json(v[i].text, v[i].len, terminal, &out) : log_line_text(v[i].text, v[i].len, &out);

        if (is && fwrite(buf_str(&out), 1, out.len, stdout) != out.len)
            return err_sys(err, -errno, "write the result");
    }
    return fflush(stdout) != 0 ? err_sys(err, -errno, "write the result") : 0;
}

static int watch(int dir, int *ret, struct err *err) {
    char path[64];
    int fd = inotify_init1(IN_CLOEXEC);

    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0) {
        int r = err_sys(err, -errno, "watch the audit log");

        closep(&fd);
        return r;
    }
    *ret = fd;
    return 0;
}

/* Many events come at once; whoever reads our output and goes away ends us. */
static int wait_for_more(int events) {
    struct pollfd p[2] = {{.fd = events, .events = POLLIN}, {.fd = STDOUT_FILENO, .events = 0}};
    char some[4096];

    while (poll(p, 2, -1) < 0)
        if (errno != EINTR)
            return -errno;
    if (p[1].revents & (POLLERR | POLLHUP))
        return 0;
    usleep(PAUSE_US);
    return fd_read_some(events, some, sizeof some) < 0 ? -EIO : 1;
}

static int show(struct log_request *q, int dir, struct err *err) {
    CLEANUP(view_freep) struct view *view = NULL;
    CLEANUP(closep) int events = -1;
    struct view_line *v;
    size_t n;
    int r = q->follow ? watch(dir, &events, err) : 0;

    r = r < 0 ? r : view_new(dir, &view, err);
    r = r < 0 ? r : view_collect(view, &q->filter, &v, &n, err);
    if (r == 0 && q->filter.name && !view_saw(view) && !q->follow) {
        const struct strv *names = view_names(view);
        const char *near = str_nearest(q->filter.name, (const char *const *)names->v, names->len);

        return err_set(err, -ENOENT,
                       near ? "no sandbox '%s' in the audit log; did you mean '%s'?"
                            : "no sandbox '%s' in the audit log; see 'bawn log'",
                       q->filter.name, near);
    }
    r = r < 0 ? r : print(q, v, n, err);
    q->tail = 0;
    while (r == 0 && q->follow && wait_for_more(events) > 0) {
        r = view_collect(view, &q->filter, &v, &n, err);
        r = r < 0 ? r : print(q, v, n, err);
    }
    return r;
}

static int open_log(struct log_request *q, struct err *err) {
    CLEANUP(freep) char *home = NULL, *folder = NULL, *id = NULL;
    CLEANUP(closep) int dir = -1;
    int r = paths_home(environ, &home, err);

    r = r < 0 ? r : paths_state(environ, home, "audit", &folder, err);
    if (r == 0 && folder && q->follow)
        r = paths_make_dirs(folder, err);
    if (r < 0 || !folder)
        return r;
    dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 && errno == ENOENT)
        return q->filter.name ? err_set(err, -ENOENT, "no sandbox '%s' in the audit log", q->filter.name) : 0;
    if (dir < 0)
        return err_sys(err, -errno, "open '%s'", folder);
    id = q->filter.name ? find_id(q->filter.name, home) : NULL;
    q->filter.id = id;
    return show(q, dir, err);
}

static int run_log(const struct verb *self, int argc, char **argv) {
    struct policy_words words = {0};
    struct log_request q = {0};
    struct err err = {0};
    int r = policy_read_words(self, argc, argv, take, &q, 1, &words, &err);

    if (r == 0 && words.n) {
        q.filter.name = words.v[0];
        r = check_name(words.v[0], &err);
    }
    r = r < 0 ? r : open_log(&q, &err);
    return r < 0 ? verb_fail(self, &err) : 0;
}

static const char description[] =
    "Shows the audit log: which sandboxes were started and with which walls, what was executed in them and how it ended, verdicts "
    "of the network, use of secrets, limits that were hit, what you reviewed, applied and allowed. SANDBOX is the name or the id "
    "of a kept sandbox, also of one that was removed, or the name of a run. All logs are merged by time; times are UTC.\n\n"
    "Each event is written before what it tells of happens, as a line of $XDG_STATE_HOME/bawn/audit/*.jsonl, which carries the hash "
    "of the line before it: 'bawn log verify' finds what was changed. Arguments that look like a secret are left out.\n\n"
    "    bawn log --since 1h\n"
    "    bawn log dev -f --type exec,network\n"
    "    bawn log --json --tail 100";

const struct verb verb_log = {
    .name = "log",
    .summary = "show what happened in sandboxes and to them",
    .synopsis = "[options] [SANDBOX]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_log,
};
