/* SPDX-License-Identifier: Apache-2.0 */
/* What was gathered, as one JSON object or one archive. */
#include "ops/files/collect.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/hex.h"
#include "base/jsonout.h"
#include "base/str.h"
#include "ops/files/inside.h"
#include "os/fd.h"
#include "os/process.h"
#include "workspace/copy/tarball.h"

struct collect_run {
    const struct collect_request *request;
    struct sandbox_pick pick;
    struct strv paths; /* request->files, as they are inside */
};

static void run_done(struct collect_run *q) {
    sandbox_pick_done(&q->pick);
    strv_done(&q->paths);
}

/* -- JSON --------------------------------------------------------------------------------------------------------------- */

/* JSON has characters, streams have bytes: what is not UTF-8 comes a second time without loss. */
static void add_stream(struct jsonout *j, const char *key, const struct buf *text) {
    jsonout_text(j, key, buf_str(text));
    if (strlen(buf_str(text)) == text->len && str_is_utf8(buf_str(text)))
        return;
    buf_addf(j->to, ", \"%s_base64\": \"", key);
    base64_add(j->to, buf_str(text), text->len);
    buf_addc(j->to, '"');
}

static void add_job(struct jsonout *j, const struct collected *c) {
    if (c->job == 0) {
        jsonout_null(j, "job");
        return;
    }
    jsonout_int(j, "job", c->job);
    if (c->ended)
        jsonout_int(j, "rc", c->signal ? PROCESS_SIGNALLED + c->signal : c->status);
    else
        jsonout_null(j, "rc");
    add_stream(j, "stdout", &c->streams[0]);
    add_stream(j, "stderr", &c->streams[1]);
}

static void add_events(struct jsonout *j, const struct buf *lines) {
    const char *comma = "";

    jsonout_open(j, "events", '[');
    for (const char *s = buf_str(lines), *end; (end = strchr(s, '\n')); s = end + 1) {
        if (*s != '{' || end[-1] != '}') /* the end of a line that began before what was read */
            continue;
        buf_adds(j->to, comma);
        buf_add(j->to, s, (size_t)(end - s));
        comma = ",\n";
    }
    jsonout_close(j, ']');
}

static void add_head(struct jsonout *j, const struct box *box) {
    jsonout_open(j, NULL, '{');
    jsonout_text(j, "sandbox", box->name);
    jsonout_text(j, "id", box->info.id);
    jsonout_text(j, "workspace", box->info.workspace);
}

static int write_json(const struct collect_run *q, struct collected *c, int out, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(COLLECT_JSON_MAX), files = BUF_INIT(2 * COLLECT_FILES_MAX);
    struct jsonout j = {.to = &b};
    uint64_t left = COLLECT_FILES_MAX;
    int r = 0;

    for (size_t i = 0; r == 0 && i < q->paths.len; i++)
        r = collect_json(&q->pick, q->paths.v[i], &files, &left, &c->notes, err);
    if (r < 0)
        return r;
    add_head(&j, &q->pick.box);
    add_job(&j, c);
    if (!q->request->no_diff) {
        add_stream(&j, "diff", &c->diff);
        jsonout_key(&j, "changed");
        buf_add(&b, buf_str(&c->changed), c->changed.len);
    }
    add_events(&j, &c->events);
    jsonout_open(&j, "files", '[');
    buf_add(&b, buf_str(&files), files.len);
    jsonout_close(&j, ']');
    jsonout_list(&j, "left_out", &c->notes);
    buf_adds(&b, "}\n");
    if (!buf_ok(&b))
        return err_set(err, -E2BIG, "too much for JSON; use --format tar");
    r = fd_write_all(out, buf_str(&b), b.len);
    return r < 0 ? err_sys(err, r, "write the result") : 0;
}

/* -- tar ---------------------------------------------------------------------------------------------------------------- */

static int tar_part(struct tarball *t, const char *name, const struct buf *b, struct err *err) {
    int r = tarball_bytes(t, name, buf_str(b), b->len);

    return r < 0 ? err_sys(err, r, "write '%s' to the archive", name) : 0;
}

static int tar_summary(const struct collect_run *q, struct tarball *t, const struct collected *c, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(COLLECT_JSON_MAX);
    struct jsonout j = {.to = &b};
    struct collected head = {.job = c->job, .ended = c->ended, .status = c->status, .signal = c->signal};

    add_head(&j, &q->pick.box);
    add_job(&j, &head);
    jsonout_list(&j, "left_out", &c->notes);
    buf_adds(&b, "}\n");
    return buf_ok(&b) ? tar_part(t, "summary.json", &b, err) : err_oom(err);
}

static int write_tar(const struct collect_run *q, struct collected *c, int out, struct err *err) {
    struct tarball t = {.fd = out, .mtime = (uint64_t)time(NULL)};
    int r = c->job ? tar_part(&t, "stdout", &c->streams[0], err) : 0;

    if (r == 0 && c->job)
        r = tar_part(&t, "stderr", &c->streams[1], err);
    if (r == 0 && !q->request->no_diff)
        r = tar_part(&t, "changes.patch", &c->diff, err);
    if (r == 0 && !q->request->no_diff)
        r = tar_part(&t, "changed.json", &c->changed, err);
    r = r < 0 ? r : tar_part(&t, "events.jsonl", &c->events, err);
    for (size_t i = 0; r == 0 && i < q->paths.len; i++)
        r = collect_tar(&q->pick, q->paths.v[i], &t, &c->notes, err);
    r = r < 0 ? r : tar_summary(q, &t, c, err);
    if (r == 0 && (r = tarball_end(&t)) < 0)
        err_sys(err, r, "write the end of the archive");
    return r;
}

/* -- together ----------------------------------------------------------------------------------------------------------- */

static int write_result(const struct collect_run *q, struct collected *c, int out, struct err *err) {
    return q->request->tar ? write_tar(q, c, out, err) : write_json(q, c, out, err);
}

/* Beside its place until it is whole. */
static int write_output(const struct collect_run *q, struct collected *c, struct err *err) {
    const char *output = q->request->output;
    CLEANUP(freep) char *temp = str_dupf("%s.XXXXXX", output);
    CLEANUP(closep) int fd = temp ? mkostemp(temp, O_CLOEXEC) : -1;
    int r;

    if (!temp)
        return err_oom(err);
    if (fd < 0)
        return err_sys(err, -errno, "write '%.300s'", output);
    r = write_result(q, c, fd, err);
    if (r == 0 && (fchmod(fd, 0666 & ~inside_umask()) < 0 || rename(temp, output) < 0))
        r = err_sys(err, -errno, "write '%.300s'", output);
    if (r < 0)
        unlink(temp);
    return r;
}

static int find_paths(struct collect_run *q, struct err *err) {
    const struct strv *files = &q->request->files;

    for (size_t i = 0; i < files->len; i++) {
        char *path = NULL;
        int r = inside_path(&q->pick, files->v[i], &path, err);

        if (r < 0 || strv_add_take(&q->paths, path) < 0)
            return r < 0 ? r : err_oom(err);
    }
    return 0;
}

int collect(const struct collect_request *request, struct collected *ret, struct err *err) {
    CLEANUP(run_done) struct collect_run q = {.request = request, .pick = SANDBOX_PICK_INIT};
    const struct sandbox_pick_opts pick = {.name = request->sandbox, .need = request->files.len ? SANDBOX_RUNNING : SANDBOX_ANY};
    int r = sandbox_pick(&pick, &q.pick, err);

    r = r < 0 ? r : find_paths(&q, err);
    r = r < 0 ? r : inside_audit(&q.pick, "collect", q.paths.len ? q.paths.v[0] : NULL, request->output, err);
    if (r < 0)
        return r;
    r = collect_job(&q.pick, (int)request->job, ret, err);
    r = r < 0 ? r : collect_events(&q.pick, ret, err);
    if (r == 0 && !request->no_diff)
        r = collect_changes(&q.pick, ret, err);
    if (r < 0)
        return r;
    return request->output ? write_output(&q, ret, err) : write_result(&q, ret, request->fd, err);
}
