/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox left outside of itself: output, events, changes. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "ops/changes/changes_review.h"
#include "ops/files/collect.h"
#include "ops/sandbox/job_log.h"
#include "os/dir.h"
#include "os/fd.h"
#include "workspace/change/change.h"
#include "workspace/copy/transfer.h"

enum { LEAF_MAX = 64 };

void collected_done(struct collected *c) {
    for (size_t i = 0; i < ARRAY_LEN(c->streams); i++)
        buf_done(&c->streams[i]);
    buf_done(&c->diff);
    buf_done(&c->changed);
    buf_done(&c->events);
    strv_done(&c->notes);
}

/* -- output of a job ---------------------------------------------------------------------------------------------------- */

/* Adds a file of ours; what is not there is no error. Past the ceiling only its end counts. */
static int add_log_file(int dir, const char *name, struct buf *b, struct err *err) {
    struct stat st;
    CLEANUP(closep) int fd = transfer_open(dir, name, &st);
    uint64_t room = b->ceiling - b->len - 1;
    char part[64 * 1024];
    ssize_t n = 0;

    if (fd == -ENOENT)
        return 0;
    if (fd < 0)
        return err_sys(err, fd, "read '%s'", name);
    if ((uint64_t)st.st_size > room && lseek(fd, st.st_size - (off_t)room, SEEK_SET) < 0)
        return err_sys(err, -errno, "read '%s'", name);
    while (room && (n = fd_read_some(fd, part, (size_t)MIN_OF(room, sizeof part))) > 0) {
        buf_add(b, part, (size_t)n);
        room -= (uint64_t)n;
    }
    if (n < 0)
        return err_sys(err, (int)n, "read '%s'", name);
    return buf_ok(b) ? 0 : err_oom(err);
}

/* The older half of a stream that became too long is in FILE.1. */
static int add_stream(int log, int job, const char *which, struct buf *b, struct err *err) {
    char leaf[LEAF_MAX], old[LEAF_MAX];
    int r;

    snprintf(leaf, sizeof leaf, "job-%d.%s", job, which);
    snprintf(old, sizeof old, "job-%d.%s.1", job, which);
    r = add_log_file(log, old, b, err);
    return r < 0 ? r : add_log_file(log, leaf, b, err);
}

int collect_job(const struct sandbox_pick *p, int job, struct collected *ret, struct err *err) {
    CLEANUP(closep) int log = openat(p->box.fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char leaf[LEAF_MAX];
    int r;

    if (log < 0)
        return err_sys(err, -errno, "open the logs of the sandbox '%s'", p->box.name);
    ret->job = job ? job : job_log_latest(log);
    if (ret->job == 0)
        return 0;
    snprintf(leaf, sizeof leaf, "job-%d.out", ret->job);
    if (faccessat(log, leaf, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return err_set(err, -ENOENT, "the sandbox '%s' has no output of a job %d; 'bawn ps %s' lists its jobs", p->box.name,
                       ret->job, p->box.name);
    r = add_stream(log, ret->job, "out", &ret->streams[0], err);
    return r < 0 ? r : add_stream(log, ret->job, "err", &ret->streams[1], err);
}

/* -- events ------------------------------------------------------------------------------------------------------------- */

/* How the job ended: the last of these events counts, for numbers begin anew with each start of the sandbox. */
static void look_for_end(const char *line, size_t len, struct collected *c) {
    CLEANUP(json_decrefp) json_t *o = memmem(line, len, "\"type\":\"exit\"", 13) ? json_loadb(line, len, 0, NULL) : NULL;

    if (!c->job || json_get_int(o, "job", 0) != c->job)
        return;
    c->ended = true;
    c->status = (int)json_get_int(o, "status", 0);
    c->signal = (int)json_get_int(o, "signal", 0);
}

int collect_events(const struct sandbox_pick *p, struct collected *ret, struct err *err) {
    CLEANUP(freep) char *path = str_dupf("%s/../audit", p->boxes), *leaf = str_dupf("%s.jsonl", p->box.info.id);
    CLEANUP(closep) int dir = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int r;

    if (!path || !leaf)
        return err_oom(err);
    r = dir < 0 ? 0 : add_log_file(dir, leaf, &ret->events, err);
    if (r < 0)
        return r;
    for (const char *s = buf_str(&ret->events), *end; (end = strchr(s, '\n')); s = end + 1)
        look_for_end(s, (size_t)(end - s), ret);
    return 0;
}

/* -- changes ------------------------------------------------------------------------------------------------------------ */

/* In direct mode a run has no name of its own: it is the workspace's latest. */
static int pick_run(const struct sandbox_pick *p, struct run_pick *ret, struct err *err) {
    bool direct = str_eq(p->box.state.mode, "direct");
    struct run_pick_opts o = {.directory = p->box.info.workspace, .what = direct ? RUN_PICK_DIRECT : RUN_PICK_CHANGES};

    if (!direct)
        o.name = p->box.name;
    return run_pick(&o, ret, err);
}

static int add_changed(const struct run_pick *run, struct buf *b, struct err *err) {
    CLEANUP(change_set_done) struct change_set set = CHANGE_SET_INIT;
    struct jsonout j = {.to = b};
    int r = run_pick_changes(run, &set, err);

    jsonout_open(&j, NULL, '[');
    for (size_t i = 0; r == 0 && i < set.n; i++) {
        const struct change *c = &set.v[i];

        jsonout_open(&j, NULL, '{');
        jsonout_text(&j, "kind", change_kind_names[c->kind]);
        jsonout_text(&j, "path", c->path);
        if (c->from)
            jsonout_text(&j, "from", c->from);
        if (c->hidden)
            jsonout_bool(&j, "hidden", true);
        jsonout_close(&j, '}');
    }
    jsonout_close(&j, ']');
    return r < 0 ? r : buf_ok(b) ? 0 : err_set(err, -E2BIG, "the list of changes is too long; see 'bawn review'");
}

int collect_changes(const struct sandbox_pick *p, struct collected *ret, struct err *err) {
    static const struct changes_report patch = {.task = "diff", .format = "patch", .diff = true};
    CLEANUP(run_pick_done) struct run_pick run = RUN_PICK_INIT;
    struct err none = {0};
    int r = str_eq(p->box.state.mode, "ro") ? -ENOENT : pick_run(p, &run, &none);

    if (r == -ENOENT) { /* nothing was changed, so there is no run */
        buf_adds(&ret->changed, "[]");
        return 0;
    }
    if (r < 0) {
        *err = none;
        return r;
    }
    r = add_changed(&run, &ret->changed, err);
    r = r < 0 ? r : changes_report(&run, &patch, changes_to_buf, &ret->diff, err);
    if (r >= 0 && !buf_ok(&ret->diff)) {
        buf_clear(&ret->diff);
        ret->diff.failed = false;
        return strv_add(&ret->notes, "diff: larger than 64 MiB; see 'bawn diff'") < 0 ? err_oom(err) : 0;
    }
    return r < 0 ? r : 0;
}
