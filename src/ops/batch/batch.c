/* SPDX-License-Identifier: Apache-2.0 */
/* What a batch needs before its tasks run, and their results. */
#include "ops/batch/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/run/run_request.h"
#include "os/fd.h"
#include "os/process.h"
#include "workspace/copy/place.h"
#include "workspace/git/git.h"
#include "workspace/git/gitindex.h"
#include "workspace/git/gitrepo.h"

/* -- what each task's sandbox is like ------------------------------------------------------------------------------------- */

/* As git does it: what has the size, time and bits of the last look was not changed. */
static int compare_entry(const struct gitindex_entry *e, void *arg, struct err *err) {
    int workspace = *(const int *)arg;
    struct stat st;
    bool same = place_stat(workspace, e->path, &st) == 0 && (uint32_t)st.st_size == e->size &&
                (uint32_t)st.st_mtim.tv_sec == e->mtime_s && (!e->mtime_ns || (uint32_t)st.st_mtim.tv_nsec == e->mtime_ns) &&
                (st.st_mode & S_IFMT) == (e->mode & S_IFMT) && (!S_ISREG(st.st_mode) || !((st.st_mode ^ e->mode) & S_IXUSR));

    return same ? 0 : err_set(err, -ESTALE, "'%s' was changed", e->path);
}

/* 0: the index is what HEAD is. Git runs with a directory of our own (workspace/git/git.h), and our copy of the index. */
static int compare_index(const struct gitrepo *repo, int workspace, const char *head, struct err *err) {
    CLEANUP(git_done) struct git g = GIT_INIT;
    CLEANUP(buf_done) struct buf index = BUF_INIT(GITINDEX_SIZE_MAX);
    const struct git_opts opts = {.folder = "/var/tmp",
                                  .owner = workspace,
                                  .sha256 = repo->sha256,
                                  .shallow = repo->shallow.len ? repo->shallow.data : NULL};
    struct git_call call = git_call(GIT_ARGS("diff-index", "--cached", "--quiet", head), repo->objects);
    int r = gitrepo_read(repo->dir, "index", &index);

    call.may_fail = true;
    r = r < 0 ? err_sys(err, r, "read git's index") : git_init(&g, &opts, err);
    r = r < 0 ? r : gitrepo_write(g.fd, "index", buf_str(&index), index.len, 0644, err);
    return r < 0 ? r : git_run(&g, &call, NULL, err);
}

/* Everything that git tracks is committed. Files that it does not know are not asked about: docs/parallel.md says so. */
static bool is_clean(const char *path) {
    CLEANUP(gitrepo_done) struct gitrepo repo = GITREPO_INIT;
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char head[GIT_HEX_SIZE] = {0};
    struct err ignored = {0};

    return fd >= 0 && gitrepo_open(fd, &repo, &ignored) >= 0 && gitrefs_head(&repo, head, &ignored) >= 0 &&
           gitindex_read_in(repo.dir, compare_entry, &fd, &ignored) > 0 && compare_index(&repo, fd, head, &ignored) == 0;
}

/* The answer about the last workspace: nearly always all tasks have the same. */
struct last {
    char *path, *home;
    bool clean;
};

static void last_done(struct last *l) {
    free(l->path);
    free(l->home);
}

static enum workspace_mode own_mode(const char *workspace, struct last *last) {
    if (!last->path || !str_eq(last->path, workspace)) {
        last->clean = is_clean(workspace);
        free(last->path);
        last->path = strdup(workspace);
    }
    return last->clean ? WORKSPACE_WORKTREE : WORKSPACE_OVERLAY;
}

static int choose_mode(const struct batch *b, struct batch_task *t, struct last *last, struct err *err) {
    CLEANUP(settings_done) struct settings s = {0};
    CLEANUP(freep) char *workspace = NULL;
    struct settings_flags flags = b->request->flags;
    struct settings_sources src = {
        .flags = &flags, .agent = t->agent ? t->agent : b->request->agent, .home = last->home, .environ_ = environ};
    int r = paths_workspace(t->directory ? t->directory : b->request->dir, &workspace, err);

    if (r < 0)
        return r;
    src.workspace = workspace;
    flags.profile = t->profile ? t->profile : flags.profile;
    flags.timeout = t->timeout ? t->timeout : flags.timeout;
    flags.workspace_mode = t->workspace ? t->workspace : flags.workspace_mode;
    if (t->env.len)
        flags.env = t->env;
    r = settings_load(&src, &s, err);
    if (r < 0)
        return r;
    if (s.mode == MODE_OFF)
        return err_usage(err, "tasks run in sandboxes only, and the settings say that there is none (%s)",
                         s.origin[SETTING_ENABLED] ? s.origin[SETTING_ENABLED] : "built-in");
    t->mode = settings_workspace_mode(&s);
    if (t->mode == WORKSPACE_DIRECT && !flags.workspace_mode)
        t->mode = own_mode(workspace, last);
    return 0;
}

/* Nothing that differs from the task before. */
static bool has_no_own_settings(const struct batch_task *t) {
    return !t->profile && !t->directory && !t->timeout && !t->agent && !t->workspace && !t->env.len;
}

static int choose_modes(struct batch *b, struct err *err) {
    CLEANUP(last_done) struct last last = {0};
    const struct batch_task *plain = NULL;
    int r = paths_home(environ, &last.home, err);

    for (size_t i = 0; r >= 0 && i < b->n; i++) {
        struct batch_task *t = &b->v[i];

        if (plain && has_no_own_settings(t)) {
            t->mode = plain->mode;
            continue;
        }
        r = choose_mode(b, t, &last, err);
        if (r >= 0 && has_no_own_settings(t))
            plain = t;
        if (r < 0 && b->path)
            err_ctx(err, r, "%s:%u", b->path, t->line);
    }
    return r < 0 ? r : 0;
}

static int refuse_options(const struct run_request *q, struct err *err) {
    if (q->name)
        return err_usage(err, "--name: each task has a name of its own");
    if (q->tty)
        return err_usage(err, "--tty: tasks that run at once have no terminal");
    if (q->flags.mode && str_eq(q->flags.mode, "off"))
        return err_usage(err, "--no-sandbox: tasks that run at once have a sandbox each");
    if (q->flags.publish.len)
        return err_usage(err, "--publish: two tasks cannot have one port");
    return q->parent ? err_usage(err, "--result-fd is for a task, not for the batch") : 0;
}

static unsigned cpus(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return (unsigned)MIN_OF(MAX_OF(n, 1), (int)BATCH_JOBS_MAX);
}

int batch_prepare(struct batch *b, struct err *err) {
    struct run_request shape = *b->request;
    int r = refuse_options(b->request, err);

    shape.flags.workspace_mode = NULL; /* each task has its own */
    r = r < 0 ? r : run_request_words(&shape, &b->words, err);
    b->opts.jobs = b->opts.jobs ? b->opts.jobs : cpus();
    return r < 0 ? r : choose_modes(b, err);
}

/* -- results -------------------------------------------------------------------------------------------------------------- */

const char *const batch_state_names[BATCH_STATES] = {"waiting", "running", "ok", "failed", "skipped"};

size_t batch_count(const struct batch *b, enum batch_state state) {
    size_t n = 0;

    for (size_t i = 0; i < b->n; i++)
        n += b->v[i].state == state;
    return n;
}

static uint64_t number(const json_t *root, const char *key) {
    double d = json_number_value(json_object_get(root, key));

    return d > 0 && d < 1e18 ? (uint64_t)d : 0;
}

static void take_hosts(struct strv *list, const json_t *reached) {
    size_t i;
    json_t *h;

    json_array_foreach(reached, i, h) {
        const char *host = json_string_value(json_object_get(h, "host"));
        uint64_t port = number(h, "port");

        if (host && port)
            strv_addf(list, strchr(host, ':') ? "[%s]:%" PRIu64 : "%s:%" PRIu64, host, port);
        else if (host)
            strv_add(list, host);
    }
}

static void take_json(struct batch_result *r, const json_t *root) {
    size_t i;
    json_t *v;

    r->signal = (int)number(root, "signal");
    r->memory_peak = number(root, "memory_peak");
    r->cpu_us = number(root, "cpu_us");
    r->changes = number(root, "changes");
    snprintf(r->run, sizeof r->run, "%s", json_get_text(root, "run"));
    json_array_foreach(json_object_get(root, "limits_hit"), i, v) if (json_is_string(v))
        strv_add(&r->limits, json_string_value(v));
    take_hosts(&r->hosts, json_object_get(json_object_get(root, "network"), "reached"));
}

void batch_take_report(struct batch_task *t, int wait_status, uint64_t now_ms) {
    json_t *root = buf_ok(&t->report) ? json_loadb(buf_str(&t->report), t->report.len, 0, NULL) : NULL;

    strv_done(&t->result.hosts);
    strv_done(&t->result.limits);
    t->result = (struct batch_result){0};
    if (root)
        take_json(&t->result, root);
    json_decref(root);
    buf_clear(&t->report);
    t->result.duration_ms = now_ms - t->begun_ms;
    t->result.status = process_exit_status(wait_status);
    if (WIFSIGNALED(wait_status))
        t->result.signal = WTERMSIG(wait_status);
}

static void add_log(const struct batch *b, const struct batch_task *t, const char *key, struct jsonout *j) {
    CLEANUP(buf_done) struct buf path = BUF_INIT(8192);
    char end[8], name[64];

    snprintf(end, sizeof end, ".%s", key);
    batch_log_name(t, end, name);
    buf_addf(&path, "%s/%s", b->logs, name);
    jsonout_text(j, key, buf_str(&path));
}

static void add_ran(const struct batch *b, const struct batch_task *t, struct jsonout *j) {
    const struct batch_result *r = &t->result;

    jsonout_text(j, "sandbox", t->id);
    jsonout_text(j, "run", r->run[0] ? r->run : NULL);
    jsonout_int(j, "exit", r->status);
    jsonout_int(j, "signal", r->signal);
    jsonout_u64(j, "duration_ms", r->duration_ms);
    jsonout_u64(j, "peak_memory", r->memory_peak);
    jsonout_u64(j, "cpu_ms", r->cpu_us / 1000);
    jsonout_u64(j, "files_changed", r->changes);
    jsonout_list(j, "hosts", &r->hosts);
    jsonout_list(j, "limits", &r->limits);
    jsonout_list(j, "earlier_runs", &t->earlier);
    jsonout_open(j, "log", '{');
    add_log(b, t, "out", j);
    add_log(b, t, "err", j);
    jsonout_close(j, '}');
}

void batch_json(const struct batch *b, struct buf *out) {
    struct jsonout j = {.to = out, .compact = true};

    jsonout_open(&j, NULL, '{');
    jsonout_open(&j, "tasks", '[');
    for (size_t i = 0; i < b->n; i++) {
        const struct batch_task *t = &b->v[i];

        jsonout_break(&j, "\n");
        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "name", t->name);
        jsonout_text(&j, "state", batch_state_names[t->state]);
        jsonout_text(&j, "workspace", workspace_mode_names[t->mode]);
        jsonout_u64(&j, "attempts", t->attempts);
        if (t->attempts)
            add_ran(b, t, &j);
        jsonout_close(&j, '}');
    }
    jsonout_close(&j, ']');
    jsonout_break(&j, "\n");
    jsonout_u64(&j, "ok", batch_count(b, BATCH_OK));
    jsonout_u64(&j, "failed", batch_count(b, BATCH_FAILED));
    jsonout_u64(&j, "skipped", batch_count(b, BATCH_SKIPPED));
    jsonout_text(&j, "logs", b->logs);
    buf_adds(out, "}\n");
}
