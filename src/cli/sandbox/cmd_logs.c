/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper writes log/job-N.out and .err, cuts the older half off when one grows too large, and tells attached
 * clients about output. So following is: attach, read the files on each message, and once more at the end. What is printed is always
 * the files' content.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/changes/run_print.h"
#include "cli/sandbox/exec_options.h"
#include "cli/verb.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/dir.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "proto/termfilter.h"
#include "supervisor/keep/exec_client.h"

enum { CHUNK = 16 * 1024, JSON_TEXT_MAX = 256 * 1024 * 1024, TAIL_MAX = 1000000000 };

struct logs_stream {
    char name[32]; /* below log/ */
    int to;        /* 1 or 2 */
    bool wanted, screen;
    int fd;
    off_t at;
    struct termfilter filter;
};

struct logs {
    const char *name, *dir;
    uint64_t job, tail; /* tail: UINT64_MAX is all */
    bool follow, keeper, json, only_out, only_err;
    int log; /* the folder */
    struct logs_stream v[2];
};

static const struct opt opts[] = {
    {0, 'f', "follow", NULL, "go on until the job ends", NULL, OPT_TO_FLAG(struct logs, follow)},
    {0, 0, "stdout", NULL, "its standard output only", NULL, OPT_TO_FLAG(struct logs, only_out)},
    {0, 0, "stderr", NULL, "its standard error only", NULL, OPT_TO_FLAG(struct logs, only_err)},
    {0, 'n', "tail", "N", "only the last N lines of what is there", NULL, OPT_TO_NUMBER(struct logs, tail, 0, TAIL_MAX)},
    {0, 0, "keeper", NULL, "what the sandbox's own supervisor said", NULL, OPT_TO_FLAG(struct logs, keeper)},
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct logs, dir)},
    {0, 0, "json", NULL, "as JSON", NULL, OPT_TO_FLAG(struct logs, json)},
};

static void logs_done(struct logs *l) {
    closep(&l->log);
    closep(&l->v[0].fd);
    closep(&l->v[1].fd);
}

static int read_logs_line(int argc, char **argv, struct logs *l, struct err *err) {
    int r = opt_parse(opts, ARRAY_LEN(opts), argc, argv, l, 2, err);

    r = r < 0 ? r : exec_operands(r, argv + 1, &l->name, &l->job, err);
    if (r == 0 && l->follow && (l->keeper || l->json))
        return err_usage(err, "--follow goes neither with --keeper nor with --json");
    return r;
}

/* -- files --------------------------------------------------------------------------------------------------------------- */

/* "job-12.out" */
static int job_of(const char *name) {
    uint64_t n;
    char digits[24];
    size_t len;

    if (!str_starts(name, "job-"))
        return 0;
    len = strspn(name + 4, "0123456789");
    if (!str_eq(name + 4 + len, ".out") || len == 0 || len >= sizeof digits)
        return 0;
    snprintf(digits, sizeof digits, "%.*s", (int)len, name + 4);
    return parse_u64(digits, 1, INT32_MAX, &n, NULL) < 0 ? 0 : (int)n;
}

static int latest_job(struct logs *l, const char *sandbox, struct err *err) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;

    dir_open_at(l->log, ".", &d);
    while ((e = dir_next(&d)))
        l->job = MAX_OF(l->job, (uint64_t)job_of(e->d_name));
    return l->job
               ? 0
               : err_set(err, -ENOENT, "nothing has run in the background of sandbox '%s' yet: 'bawn exec -d %s -- COMMAND' does",
                         sandbox, sandbox);
}

static void open_stream(struct logs *l, struct logs_stream *s) {
    s->fd = openat(l->log, s->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    s->at = 0;
}

static int choose_files(struct logs *l, const char *sandbox, struct err *err) {
    static const char *const ends[2] = {"out", "err"};
    int r = l->job || l->keeper ? 0 : latest_job(l, sandbox, err);

    for (int i = 0; r == 0 && i < 2; i++) {
        struct logs_stream *s = &l->v[i];

        s->to = i + 1;
        s->screen = isatty(s->to);
        s->wanted = l->only_out == l->only_err || (i == 0 ? l->only_out : l->only_err);
        termfilter_init(&s->filter);
        snprintf(s->name, sizeof s->name, "job-%d.%s", (int)l->job, ends[i]);
        if (l->keeper)
            snprintf(s->name, sizeof s->name, "keeper.log");
        s->wanted = l->keeper ? i == 0 : s->wanted;
        open_stream(l, s);
    }
    if (r == 0 && !l->keeper && l->v[0].fd < 0 && l->v[1].fd < 0)
        return err_set(err, -ENOENT, "sandbox '%s' has no output of a job %d in the background", sandbox, (int)l->job);
    return r;
}

/* Where the last `lines` lines begin. */
static off_t tail_begin(int fd, uint64_t lines) {
    struct stat st;
    char chunk[CHUNK];
    off_t at = fstat(fd, &st) == 0 ? st.st_size : 0;
    bool first = true;

    if (lines == 0)
        return at;
    while (at > 0) {
        size_t n = (size_t)MIN_OF(at, (off_t)sizeof chunk);

        at -= (off_t)n;
        if (pread(fd, chunk, n, at) != (ssize_t)n)
            return 0;
        for (size_t i = n; i-- > 0; first = false)
            if (chunk[i] == '\n' && !first && --lines == 0) /* the last line's own end does not count */
                return at + (off_t)i + 1;
    }
    return 0;
}

/* -- printing ------------------------------------------------------------------------------------------------------------ */

static int put_chunk(struct logs_stream *s, const char *data, size_t n) {
    uint8_t shown[TERMFILTER_OUT_MAX(CHUNK)];

    return s->screen ? fd_write_all(s->to, shown, termfilter_feed(&s->filter, data, n, shown)) : fd_write_all(s->to, data, n);
}

/* What was written since the last time; a file that was cut, or replaced, is read from its beginning. */
static int print_more(struct logs *l, struct logs_stream *s) {
    char chunk[CHUNK];
    struct stat now, ours;
    ssize_t n;
    int r = 0;

    if (!s->wanted)
        return 0;
    if (s->fd < 0)
        open_stream(l, s);
    while (r == 0 && s->fd >= 0 && (n = pread(s->fd, chunk, sizeof chunk, s->at)) > 0) {
        s->at += n;
        r = put_chunk(s, chunk, (size_t)n);
    }
    if (r < 0 || s->fd < 0 || fstatat(l->log, s->name, &now, AT_SYMLINK_NOFOLLOW) < 0 || fstat(s->fd, &ours) < 0)
        return r;
    if (now.st_ino == ours.st_ino && now.st_size >= s->at)
        return 0;
    closep(&s->fd);
    return 1; /* again */
}

static int print_all(struct logs *l, struct err *err) {
    int r = 0;

    for (size_t i = 0; i < ARRAY_LEN(l->v) && r == 0; i++) {
        r = print_more(l, &l->v[i]);
        r = r > 0 ? print_more(l, &l->v[i]) : r;
        r = MIN_OF(r, 0);
    }
    return r < 0 && r != -EPIPE ? err_sys(err, r, "write the output") : r;
}

/* Our own reader may go away (head): that is no error. */
static int follow_job(struct logs *l, const char *sandbox, struct err *err) {
    CLEANUP(closep) int sock = -1;
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_INLINE_MAX);
    struct exec_msg m = {.type = EXEC_MSG_ATTACH, .value = (int)l->job};
    int r = exec_connect(environ, NULL, sandbox, &sock, err);

    if (r == -ENOTCONN)
        return print_all(l, err); /* it is over */
    if (r == 0 && (r = execmsg_send(sock, &m, NULL, NULL, 0)) < 0)
        err_sys(err, r, "ask the supervisor of sandbox '%s'", sandbox);
    while (r == 0) {
        size_t no_fds = 0;
        int more;

        r = print_all(l, err);
        if (r < 0)
            break;
        buf_clear(&body);
        more = execmsg_recv(sock, &m, &body, NULL, &no_fds);
        if (more <= 0 || m.type == EXEC_MSG_EXITED || m.type == EXEC_MSG_FAILED)
            return print_all(l, err);
    }
    return r;
}

static int add_stream(struct buf *b, const char *key, int fd, off_t at, struct err *err) {
    CLEANUP(buf_done) struct buf text = BUF_INIT(JSON_TEXT_MAX);
    char chunk[CHUNK];
    ssize_t n;

    for (; fd >= 0 && (n = pread(fd, chunk, sizeof chunk, at)) > 0; at += n)
        buf_add(&text, chunk, (size_t)n);
    for (size_t i = 0; i < text.len; i++)
        if (!text.data[i])
            text.data[i] = '?'; /* no JSON string of ours holds a NUL */
    buf_addf(b, ", \"%s\": ", key);
    buf_add_json(b, buf_str(&text));
    return buf_ok(&text) ? 0 : err_oom(err);
}

static int print_logs_json(struct logs *l, const char *sandbox, struct err *err) {
    static const char *const keys[2] = {"stdout", "stderr"};
    CLEANUP(buf_done) struct buf b = BUF_INIT((size_t)4 * JSON_TEXT_MAX);
    int r = 0;

    buf_addf(&b, "{\"sandbox\": \"%s\", \"job\": ", sandbox);
    buf_addf(&b, l->keeper ? "null" : "%d", (int)l->job);
    for (int i = 0; i < 2 && r == 0; i++)
        if (l->v[i].wanted)
            r = add_stream(&b, l->keeper ? "keeper" : keys[i], l->v[i].fd, l->v[i].at, err);
    buf_adds(&b, "}\n");
    return r < 0 ? r : run_print_out(&b, err);
}

static int show_logs(struct logs *l, struct err *err) {
    CLEANUP(sandbox_pick_done) struct sandbox_pick p = SANDBOX_PICK_INIT;
    const struct sandbox_pick_opts pick = {.name = l->name, .directory = l->dir};
    int r = sandbox_pick(&pick, &p, err);

    if (r < 0)
        return r;
    l->log = openat(p.box.fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->log < 0)
        return err_sys(err, -errno, "open '%s/log'", p.box.path);
    r = choose_files(l, p.box.name, err);
    for (size_t i = 0; r == 0 && l->tail != UINT64_MAX && i < ARRAY_LEN(l->v); i++)
        if (l->v[i].fd >= 0)
            l->v[i].at = tail_begin(l->v[i].fd, l->tail);
    if (r < 0 || l->json)
        return r < 0 ? r : print_logs_json(l, p.box.name, err);
    return l->follow ? follow_job(l, p.box.name, err) : print_all(l, err);
}

static int run_logs(const struct verb *self, int argc, char **argv) {
    CLEANUP(logs_done) struct logs l = {.tail = UINT64_MAX, .log = -1, .v = {{.fd = -1}, {.fd = -1}}};
    struct err err = {0};
    int r = read_logs_line(argc, argv, &l, &err);

    r = r < 0 ? r : show_logs(&l, &err);
    return r < 0 && r != -EPIPE ? verb_fail(self, &err) : 0;
}

const struct verb verb_logs = {
    .name = "logs",
    .summary = "show what a command in the background printed",
    .synopsis = "[options] [SANDBOX] [JOB]",
    .description =
        "What a job in the background of a sandbox wrote: its standard output to standard output, its standard error to standard "
        "error, of both the last megabytes. Without JOB it is the latest one, without SANDBOX the project's own. On a terminal, "
        "sequences that would do more than print are left out.",
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_logs,
};
