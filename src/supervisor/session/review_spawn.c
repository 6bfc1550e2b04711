/* SPDX-License-Identifier: Apache-2.0 */
/* bawn-review as a process. */
#include "supervisor/session/review_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/str.h"
#include "os/fd.h"
#include "os/process.h"
#include "review/report/escape.h"
#include "supervisor/helper.h"
#include "workspace/apply/apply.h"
#include "workspace/change/change.h"

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
    CLEANUP(closep) int reads = -1, out = -1, messages = -1, errors = -1;
    struct helper h = {.name = "bawn-review", .argv = argv, .envp = (char *[]){NULL}, .n_fds = 6, .terminal = true};
    pid_t pid = -1;
    int r = fd_pipe(&reads, &out);

    r = r < 0 ? r : fd_pipe(&messages, &errors);
    /* A process that floods its messages must not wait for us while we wait for its output. */
    if (r == 0 && fcntl(errors, F_SETFL, O_NONBLOCK) < 0)
        r = -errno;
    if (r < 0)
        return err_sys(err, r, "start bawn-review");
    memcpy(h.fds, (const int[]){-1, out, errors, given[0], given[1], given[2]}, 6 * sizeof(int));
    r = helper_start(&h, &pid, err);
    if (r == 0)
        *ret = (struct review_child){pid, TAKE_FD(reads), TAKE_FD(messages)};
    return r;
}

static int drain_output(int fd, review_sink_fn *sink, void *arg) {
    char part[64 * 1024];
    ssize_t n;

    while ((n = fd_read_some(fd, part, sizeof part)) > 0)
        sink(part, (size_t)n, arg);
    return (int)n;
}

/* Its exit status if that is 0 or 1. */
static int finish_review(struct review_child *c, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(4 * MESSAGE_MAX);
    char text[MESSAGE_MAX];
    int status = process_wait(TAKE(c->pid, -1));

    if (status < 0)
        return err_sys(err, status, "wait for bawn-review");
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 1)
        return WEXITSTATUS(status);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        return err_set(err, -ETIME, "bawn-review took too long; something in the changes is made to keep it busy");
    if (WIFSIGNALED(status))
        return err_set(err, -EIO, "bawn-review was ended by signal %d", WTERMSIG(status));
    escape_text(&b, helper_message(c->messages, text, sizeof text)); /* it may have been taken over by what it read */
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
    int r = 0;

    if (strv_add(ret, "bawn-review") < 0 || strv_add(ret, job->task) < 0 || strv_addf(ret, "--run=%s", job->rd->name) < 0 ||
        strv_addf(ret, "--workspace=%s", i->workspace) < 0 || strv_addf(ret, "--mode=%s", workspace_mode_names[i->mode]) < 0 ||
        strv_addf(ret, "--begun=%llu", (unsigned long long)i->begun_ns) < 0 ||
        strv_addf(ret, "--ended=%llu", (unsigned long long)i->ended_ns) < 0)
        return -ENOMEM;
    if (i->base_commit && *i->base_commit)
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

/* -- what is in git's state --------------------------------------------------------------------------------------------- */

enum { ANSWER_MAX = 64 * 1024 * 1024, LINES_SHOWN = 20, LINE_SHOWN = 400 };

void git_report_done(struct git_report *g) {
    strv_done(&g->hold);
    strv_done(&g->lines);
}

const char *git_report_part(const char *path) {
    for (const char *s = path; s; s = strchr(s, '/') ? strchr(s, '/') + 1 : NULL)
        if (str_starts(s, ".git/"))
            return s + strlen(".git/");
    return NULL;
}

/* A git directory may have another name (`git init --separate-git-dir`): these are names that a run cannot do without. */
static bool like_git(const char *path) {
    return strstr(path, "/refs/") || strstr(path, "/objects/") || str_ends(path, "/packed-refs") || str_ends(path, "/index") ||
           str_ends(path, "HEAD");
}

bool git_report_needed(const struct change_set *set) {
    for (size_t i = 0; i < set->n; i++)
        if (!set->v[i].hidden && set->v[i].new_.mode && (git_report_part(set->v[i].path) || like_git(set->v[i].path)))
            return true;
    return false;
}

static void to_buf(const char *data, size_t len, void *arg) {
    buf_add(arg, data, len);
}

/* Pairs of strings, each with its NUL, from a process that read hostile files. Without the last one it ended before it was done. */
static int take_answer(const struct buf *b, struct git_report *g) {
    const char *p = b->data, *end = b->data ? b->data + b->len : NULL;

    while (p < end && !str_eq(p, "end")) {
        const char *value = memchr(p, 0, (size_t)(end - p)), *stop;

        stop = value && value + 1 < end ? memchr(value + 1, 0, (size_t)(end - value - 1)) : NULL;
        if (!stop)
            return -EBADMSG;
        if (strv_add(str_eq(p, "hold") ? &g->hold : &g->lines, value + 1) < 0)
            return -ENOMEM;
        p = stop + 1;
    }
    return p < end ? 0 : -EBADMSG;
}

int git_report_make(const struct rundir *rd, int workspace, const struct ignore *rules, const struct ignore *protect,
                    struct git_report *ret, struct err *err) {
    CLEANUP(review_job_done) struct review_job job = {.task = "review", .rd = rd, .workspace = workspace};
    CLEANUP(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
    CLEANUP(git_report_done) struct git_report g = {0};
    struct err why = {0};
    int r;

    job.rules = (struct review_rules){.now = (struct ignore *)rules, .protect = (struct ignore *)protect};
    if (strv_add(&job.words, "--format=git") < 0 || strv_add(&job.words, "--fail-on=none") < 0)
        return err_oom(err);
    r = review_spawn(&job, to_buf, &answer, &why);
    if (r == 0)
        r = buf_ok(&answer) ? take_answer(&answer, &g) : -EFBIG;
    else if (r > 0) /* nothing makes it fail but a fault of its own */
        r = -EIO;
    if (r == -ENOMEM)
        return err_oom(err);
    g.failed = r < 0;
    if (r < 0 && strv_addf(&g.lines, "what the run committed or staged could not be examined: %s",
                           why.msg[0] ? why.msg : "bawn-review ended before it was done") < 0)
        return err_oom(err);
    *ret = TAKE(g, (struct git_report){0});
    return 0;
}

bool git_report_holds(const struct git_report *g, const char *path) {
    const char *in = git_report_part(path);

    if (g->failed && in && !str_starts(in, "objects/") && !strstr(in, "/objects/"))
        return true;
    for (size_t i = 0; i < g->hold.len; i++) {
        const char *hold = g->hold.v[i];
        size_t len = strlen(hold);

        if (str_eq(hold, path) || (str_ends(hold, "/") && str_starts(path, hold) && !str_starts(path + len, "objects/")))
            return true;
    }
    return false;
}

void git_report_log(const struct git_report *g, const char *run) {
    if (g->lines.len == 0)
        return;
    log_line(
        "git: %zu high %s in what the run committed, staged or left in .git; your next checkout, reset, merge or stash pop may "
        "bring it out:",
        g->lines.len, g->lines.len == 1 ? "risk" : "risks");
    for (size_t i = 0; i < g->lines.len && i < LINES_SHOWN; i++)
        log_line("git: %.*s", LINE_SHOWN, g->lines.v[i]);
    log_line("git: 'bawn review %s' shows all", run);
}
