/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-review as a process. */
#include "supervisor/session/review_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "engine/engine.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/spawn.h"
#include "review/report/escape.h"
#include "workspace/apply/apply.h"

enum { MESSAGE_MAX = 900 };

/* One process that runs or ran. */
struct review_child {
    pid_t pid;
    int out, messages; /* our ends */
};
#define CHILD_INIT \
    { .pid = -1, .out = -1, .messages = -1 }

static void child_done(struct review_child *c) {
    closep(&c->out);
    closep(&c->messages);
    if (c->pid > 0) /* given up half-way: its pipe is gone, so it ends by itself */
        process_wait(c->pid);
}

void review_job_done(struct review_job *j) {
    strv_done(&j->words);
}

static int launch_review(char *const argv[], const int given[3], struct review_child *ret, struct err *err) {
    CLEANUP(closep) int exe = -1, reads = -1, out = -1, messages = -1, errors = -1;
    char path[PATH_MAX];
    pid_t pid = -1;
    int r;

    exe = engine_helper("bawn-review", path, sizeof path);
    if (exe < 0)
        return err_sys(err, exe, "find bawn-review, which belongs beside bawn or in ../libexec/bawn");
    r = fd_pipe(&reads, &out);
    r = r < 0 ? r : fd_pipe(&messages, &errors);
    /* A process that floods its messages must not wait for us while we wait for its output. */
    if (r == 0 && fcntl(errors, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    if (r == 0) {
        const struct spawn s = {.exe = exe,
                                .argv = argv,
                                .fds = (const int[]){-1, out, errors, given[0], given[1], given[2]},
                                .n_fds = 6,
                                .group = SPAWN_TERMINAL};

        r = spawn_start(&s, &pid, NULL);
    }
    if (r < 0)
        return err_sys(err, r, "start bawn-review");
    *ret = (struct review_child){pid, TAKE_FD(reads), TAKE_FD(messages)};
    return 0;
}

static int drain_output(int fd, review_sink_fn *sink, void *arg) {
    char part[64 * 1024];
    ssize_t n;

    while ((n = fd_read_some(fd, part, sizeof part)) > 0)
        sink(part, (size_t)n, arg);
    return (int)n;
}

/* What it said on stderr, made harmless: it may have been taken over by what it read. */
static void message_of(struct review_child *c, struct buf *b) {
    char text[MESSAGE_MAX];
    ssize_t n = fd_read_some(c->messages, text, sizeof text - 1);
    const char *line = text;

    text[MAX_OF(n, 0)] = 0;
    text[strcspn(text, "\n")] = 0;
    if (str_starts(line, "bawn: "))
        line += 6;
    escape_text(b, line);
}

/* Its exit status if that is 0 or 1. */
static int finish_review(struct review_child *c, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * MESSAGE_MAX);
    int status = process_wait(TAKE(c->pid, -1));

    if (status < 0)
        return err_sys(err, status, "wait for bawn-review");
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return err_set(err, -ETIME, "bawn-review took too long; something in the changes is made to keep it busy");
    if (WIFSIGNALED(status))
        return err_set(err, -EIO, "bawn-review was ended by signal %d", WTERMSIG(status));
    message_of(c, &b);
    if (WEXITSTATUS(status) == EXIT_USAGE_ERR)
        return err_usage(err, "%s", buf_str(&b));
    return err_set(err, -EIO, "%s", b.len ? buf_str(&b) : "bawn-review failed and did not say why");
}

static int memory_file(const struct buf *content, int *ret) {
    CLEANUP(closep) int fd = memfd_create("bawn", MFD_CLOEXEC);
    int r;

    if (fd < 0 && errno == ENOSYS) /* some containers' filters do not know it */
        fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    r = fd < 0 ? -errno : 0;
    if (r == 0 && content)
        r = fd_write_all(fd, buf_str(content), content->len);
    if (r == 0)
        *ret = TAKE_FD(fd);
    return r;
}

static int words_of(const struct review_job *job, struct strv *ret) {
    const struct run_info *i = &job->rd->info;
    int r = strv_add(ret, "bawn-review");

    if (r < 0 || strv_add(ret, job->task) < 0 || strv_addf(ret, "--run=%s", job->rd->name) < 0 ||
        strv_addf(ret, "--workspace=%s", i->workspace) < 0 || strv_addf(ret, "--mode=%s", workspace_mode_names[i->mode]) < 0 ||
        strv_addf(ret, "--begun=%llu", (unsigned long long)i->begun_ns) < 0 ||
        strv_addf(ret, "--ended=%llu", (unsigned long long)i->ended_ns) < 0)
        return -ENOMEM;
    if (r == 0 && i->base_commit && *i->base_commit)
        r = strv_addf(ret, "--base=%s", i->base_commit);
    for (size_t k = 0; r == 0 && k < job->words.len; k++)
        r = strv_add(ret, job->words.v[k]);
    return r;
}

int review_spawn(const struct review_job *job, review_sink_fn *sink, void *arg, struct err *err) {
    CLEANUP(buf_done) struct buf rules = BUF_INIT(RULES_MAX);
    CLEANUP(strv_done) struct strv argv = {0};
    CLEANUP(child_done) struct review_child c = CHILD_INIT;
    CLEANUP(closep) int rules_fd = -1;
    int r;

    review_rules_write(&job->rules, &rules);
    if (!buf_ok(&rules) || words_of(job, &argv) < 0)
        return err_oom(err);
    r = memory_file(&rules, &rules_fd);
    if (r < 0)
        return err_sys(err, r, "hand over the ignore rules");
    r = launch_review(argv.v, (const int[]){job->rd->fd, job->workspace, rules_fd}, &c, err);
    if (r < 0)
        return r;
    r = drain_output(c.out, sink, arg);
    return r < 0 ? err_sys(err, r, "read from bawn-review") : finish_review(&c, err);
}

struct merged {
    int fd, r;
    uint64_t len;
};

static void take_merged(const char *data, size_t len, void *arg) {
    struct merged *m = arg;

    m->len += len;
    if (m->r == 0)
        m->r = m->len > 3 * (uint64_t)APPLY_MERGE_MAX ? -EFBIG : fd_write_all(m->fd, data, len);
}

int review_merge(int base, int ours, int theirs, int *ret_fd, void *arg UNUSED, struct err *err) {
    char *argv[] = {"bawn-review", "merge", NULL};
    CLEANUP(child_done) struct review_child c = CHILD_INIT;
    CLEANUP(closep) int result = -1;
    struct merged m = {0};
    int r = memory_file(NULL, &result);

    if (r < 0)
        return err_sys(err, r, "make room for a merged file");
    r = launch_review(argv, (const int[]){base, ours, theirs}, &c, err);
    if (r < 0)
        return r;
    m.fd = result;
    r = drain_output(c.out, take_merged, &m);
    r = r < 0 ? r : m.r;
    if (r < 0)
        return err_sys(err, r, "take the merged file");
    r = finish_review(&c, err);
    if (r != 0)
        return r;
    if (lseek(result, 0, SEEK_SET) < 0)
        return err_sys(err, -errno, "go back in the merged file");
    *ret_fd = TAKE_FD(result);
    return 0;
}
