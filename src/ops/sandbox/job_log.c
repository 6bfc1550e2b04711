/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the output of jobs in the background. */
#include "ops/sandbox/job_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/str.h"
#include "ops/sandbox/sandbox_pick.h"
#include "os/dir.h"
#include "os/fd.h"
#include "proto/execmsg.h"
#include "supervisor/keep/exec_client.h"

struct log_stream {
    char name[32]; /* below log/ */
    int fd;
    off_t at;
};

struct logs {
    const struct job_log_opts *o;
    struct sandbox_pick pick;
    uint64_t job;
    int folder;
    struct log_stream v[2];
};
static void logs_done(struct logs *l) {
    sandbox_pick_done(&l->pick);
    closep(&l->folder);
    closep(&l->v[0].fd);
    closep(&l->v[1].fd);
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

int job_log_latest(int folder) {
    CLEANUP(dir_done) struct dir d = DIR_INIT;
    const struct dirent *e;
    int latest = 0;

    dir_open_at(folder, ".", &d);
    while ((e = dir_next(&d)))
        latest = MAX_OF(latest, job_of(e->d_name));
    return latest;
}

/* Where the last `lines` lines begin. */
static off_t tail_begin(int fd, uint64_t lines) {
    struct stat st;
    char chunk[JOB_LOG_CHUNK];
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

static void open_stream(struct logs *l, struct log_stream *s) {
    s->fd = openat(l->folder, s->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    s->at = 0;
}

static int open_files(struct logs *l, struct err *err) {
    static const char *const ends[2] = {"out", "err"};
    const char *sandbox = l->pick.box.name;

    l->job = l->job ? l->job : (uint64_t)job_log_latest(l->folder);
    if (!l->job && !l->o->keeper)
        return err_set(err, -ENOENT, "nothing has run in the background of sandbox '%s' yet: 'bawn exec -d %s -- COMMAND' does",
                       sandbox, sandbox);
    for (int i = 0; i < 2; i++) {
        struct log_stream *s = &l->v[i];

        snprintf(s->name, sizeof s->name, "job-%d.%s", (int)l->job, ends[i]);
        if (l->o->keeper)
            snprintf(s->name, sizeof s->name, "keeper.log");
        open_stream(l, s);
        if (s->fd >= 0 && l->o->tail != UINT64_MAX)
            s->at = tail_begin(s->fd, l->o->tail);
    }
    if (!l->o->keeper && l->v[0].fd < 0 && l->v[1].fd < 0)
        return err_set(err, -ENOENT, "sandbox '%s' has no output of a job %d in the background", sandbox, (int)l->job);
    return 0;
}

/* -- reading ------------------------------------------------------------------------------------------------------------- */

/* What was written since the last time. 1: the file was cut, or replaced, and is read from its beginning the next time. */
static int read_more(struct logs *l, int i) {
    struct log_stream *s = &l->v[i];
    char chunk[JOB_LOG_CHUNK];
    struct stat now, ours;
    ssize_t n;
    int r = 0;

    if (s->fd < 0)
        open_stream(l, s);
    while (r >= 0 && s->fd >= 0 && (n = pread(s->fd, chunk, sizeof chunk, s->at)) > 0) {
        s->at += n;
        r = l->o->output(i + 1, chunk, (size_t)n, l->o->arg);
    }
    if (r < 0 || s->fd < 0 || fstatat(l->folder, s->name, &now, AT_SYMLINK_NOFOLLOW) < 0 || fstat(s->fd, &ours) < 0)
        return MIN_OF(r, 0);
    if (now.st_ino == ours.st_ino && now.st_size >= s->at)
        return 0;
    closep(&s->fd);
    return 1;
}

static int read_streams(struct logs *l) {
    int r = 0;

    for (int i = 0; i < 2 && r >= 0; i++) {
        if (l->o->keeper ? i == 1 : l->o->skip[i])
            continue;
        r = read_more(l, i);
        r = r > 0 ? read_more(l, i) : r;
    }
    return MIN_OF(r, 0);
}

static int follow_job(struct logs *l, struct err *err) {
    CLEANUP(closep) int sock = -1;
    CLEANUP(buf_done) struct buf body = BUF_INIT(EXEC_INLINE_MAX);
    struct exec_msg m = {.type = EXEC_MSG_ATTACH, .value = (int)l->job};
    int r = exec_connect(environ, NULL, l->pick.box.name, &sock, err);

    if (r == -ENOTCONN)
        return read_streams(l); /* it is over */
    if (r == 0 && (r = execmsg_send(sock, &m, NULL, NULL, 0)) < 0)
        err_sys(err, r, "ask the supervisor of sandbox '%s'", l->pick.box.name);
    while (r == 0 && (r = read_streams(l)) == 0) {
        size_t no_fds = 0;
        int more;

        buf_clear(&body);
        more = execmsg_recv(sock, &m, &body, NULL, &no_fds);
        if (more <= 0 || m.type == EXEC_MSG_EXITED || m.type == EXEC_MSG_FAILED)
            return read_streams(l);
    }
    return r;
}

int job_log(const struct job_log_opts *o, struct job_log_result *ret, struct err *err) {
    CLEANUP(logs_done)
    struct logs l = {.o = o, .job = o->job, .pick = SANDBOX_PICK_INIT, .folder = -1, .v = {{.fd = -1}, {.fd = -1}}};
    const struct sandbox_pick_opts pick = {.name = o->name, .directory = o->dir};
    int r = sandbox_pick(&pick, &l.pick, err);

    if (r < 0)
        return r;
    l.folder = openat(l.pick.box.fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l.folder < 0)
        return err_sys(err, -errno, "open '%s/log'", l.pick.box.path);
    r = open_files(&l, err);
    if (r == 0)
        r = o->follow ? follow_job(&l, err) : read_streams(&l);
    if (r < 0)
        return r;
    snprintf(ret->sandbox, sizeof ret->sandbox, "%s", l.pick.box.name);
    ret->job = o->keeper ? 0 : l.job;
    return 0;
}
