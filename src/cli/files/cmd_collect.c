/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/verb.h"
#include "ops/files/collect.h"
#include "ops/files/inside.h"
#include "os/fd.h"
#include "review/report/escape.h"
#include "workspace/copy/tarball.h"

enum { OPT_JOB = 1, OPT_FILE, OPT_FORMAT, OPT_OUTPUT, OPT_JSON, OPT_NO_DIFF, JOBS_MAX = 1000000, EXIT_LEFT_OUT = 1 };

static const struct opt opts[] = {
    {OPT_JOB, 0, "job", "N", "output of this command in the background (default: the latest)", NULL},
    {OPT_FILE, 'f', "file", "PATH", "also this file or folder of the sandbox; may be repeated", NULL},
    {OPT_FORMAT, 0, "format", "FORMAT", "json (the default) or tar", "json|tar"},
    {OPT_OUTPUT, 'o', "output", "FILE", "write to this file instead of standard output", "@file"},
    {OPT_NO_DIFF, 0, "no-diff", NULL, "without the patch and the list of changes", NULL},
    {OPT_JSON, 0, "json", NULL, "the same as --format json", NULL},
};

struct collect_request {
    struct sandbox_pick pick;
    struct strv words, files, paths;
    uint64_t job;
    const char *output;
    bool tar, no_diff;
};

static void request_done(struct collect_request *q) {
    sandbox_pick_done(&q->pick);
    strv_done(&q->words);
    strv_done(&q->files);
    strv_done(&q->paths);
}

static int take_format(struct collect_request *q, const char *value, struct err *err) {
    q->tar = str_eq(value, "tar");
    return q->tar || str_eq(value, "json") ? 0 : err_usage(err, "--format is json or tar, not '%.40s'", value);
}

static int take(void *arg, int id, const char *value, struct err *err) {
    struct collect_request *q = arg;

    switch (id) {
    case OPT_JOB:
        return parse_u64(value, 1, JOBS_MAX, &q->job, err);
    case OPT_FILE:
        return strv_add(&q->files, value) < 0 ? err_oom(err) : 0;
    case OPT_FORMAT:
        return take_format(q, value, err);
    case OPT_OUTPUT:
        q->output = value;
        return 0;
    case OPT_NO_DIFF:
        q->no_diff = true;
        return 0;
    default:
        return take_format(q, "json", err);
    }
}

static int read_request(const struct verb *self, int argc, char **argv, struct collect_request *q, struct err *err) {
    struct sandbox_pick_opts pick = {.need = SANDBOX_ANY};
    int r = inside_read_words(self, argc, argv, take, q, &q->words, err);

    if (r < 0)
        return r;
    if (q->words.len > 1)
        return err_usage(err, "unexpected argument '%.80s'", q->words.v[1]);
    pick.name = q->words.len ? q->words.v[0] : NULL;
    pick.need = q->files.len ? SANDBOX_RUNNING : SANDBOX_ANY;
    r = sandbox_pick(&pick, &q->pick, err);
    for (size_t i = 0; r == 0 && i < q->files.len; i++) {
        char *path = NULL;

        r = inside_path(&q->pick, q->files.v[i], &path, err);
        r = r < 0 ? r : strv_add_take(&q->paths, path) < 0 ? err_oom(err) : 0;
    }
    return r;
}

/* -- JSON --------------------------------------------------------------------------------------------------------------- */

/* JSON has characters, streams have bytes: what is not UTF-8 comes a second time without loss. */
static void add_text(struct buf *b, const char *key, const struct buf *text) {
    bool plain = strlen(buf_str(text)) == text->len && str_is_utf8(buf_str(text));

    buf_addf(b, ", \"%s\": ", key);
    buf_add_json(b, buf_str(text));
    if (plain)
        return;
    buf_addf(b, ", \"%s_base64\": \"", key);
    escape_base64(b, buf_str(text), text->len);
    buf_addc(b, '"');
}

static void add_job(struct buf *b, const struct collected *c) {
    if (c->job == 0) {
        buf_adds(b, ", \"job\": null");
        return;
    }
    buf_addf(b, ", \"job\": %d, \"rc\": ", c->job);
    if (c->ended)
        buf_addf(b, "%d", c->signal ? 128 + c->signal : c->status);
    else
        buf_adds(b, "null");
    add_text(b, "stdout", &c->streams[0]);
    add_text(b, "stderr", &c->streams[1]);
}

static void add_events(struct buf *b, const struct buf *lines) {
    const char *comma = "";

    buf_adds(b, ", \"events\": [");
    for (const char *s = buf_str(lines), *end; (end = strchr(s, '\n')); s = end + 1) {
        if (*s != '{' || end[-1] != '}') /* the end of a line that began before what was read */
            continue;
        buf_adds(b, comma);
        buf_add(b, s, (size_t)(end - s));
        comma = ",\n";
    }
    buf_addc(b, ']');
}

static void add_notes(struct buf *b, const struct strv *notes) {
    buf_adds(b, ", \"left_out\": [");
    for (size_t i = 0; i < notes->len; i++) {
        buf_adds(b, i ? ", " : "");
        buf_add_json(b, notes->v[i]);
    }
    buf_adds(b, "]}\n");
}

static void add_head(struct buf *b, const struct box *box) {
    buf_adds(b, "{\"sandbox\": ");
    buf_add_json(b, box->name);
    buf_adds(b, ", \"id\": ");
    buf_add_json(b, box->info.id);
    buf_adds(b, ", \"workspace\": ");
    buf_add_json(b, box->info.workspace);
}

static int write_json(const struct collect_request *q, struct collected *c, int out, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(COLLECT_JSON_MAX), files = BUF_INIT(2 * COLLECT_FILES_MAX);
    uint64_t left = COLLECT_FILES_MAX;
    int r = 0;

    for (size_t i = 0; r == 0 && i < q->paths.len; i++)
        r = collect_json(&q->pick, q->paths.v[i], &files, &left, &c->notes, err);
    if (r < 0)
        return r;
    add_head(&b, &q->pick.box);
    add_job(&b, c);
    if (!q->no_diff) {
        add_text(&b, "diff", &c->diff);
        buf_addf(&b, ", \"changed\": ");
        buf_add(&b, buf_str(&c->changed), c->changed.len);
    }
    add_events(&b, &c->events);
    buf_adds(&b, ", \"files\": [");
    buf_add(&b, buf_str(&files), files.len);
    buf_addc(&b, ']');
    add_notes(&b, &c->notes);
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

static int tar_summary(const struct collect_request *q, struct tarball *t, const struct collected *c, struct err *err) {
    CLEANUP(buf_done) struct buf b = BUF_INIT(COLLECT_JSON_MAX);
    struct collected head = {.job = c->job, .ended = c->ended, .status = c->status, .signal = c->signal};

    add_head(&b, &q->pick.box);
    add_job(&b, &head);
    add_notes(&b, &c->notes);
    return buf_ok(&b) ? tar_part(t, "summary.json", &b, err) : err_oom(err);
}

static int write_tar(const struct collect_request *q, struct collected *c, int out, struct err *err) {
    struct tarball t = {.fd = out, .mtime = (uint64_t)time(NULL)};
    int r = c->job ? tar_part(&t, "stdout", &c->streams[0], err) : 0;

    if (r == 0 && c->job)
        r = tar_part(&t, "stderr", &c->streams[1], err);
    if (r == 0 && !q->no_diff)
        r = tar_part(&t, "changes.patch", &c->diff, err);
    if (r == 0 && !q->no_diff)
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

static int write_result(const struct collect_request *q, struct collected *c, int out, struct err *err) {
    if (q->tar && isatty(out))
        return err_usage(err, "an archive is nothing for a terminal; use -o FILE");
    return q->tar ? write_tar(q, c, out, err) : write_json(q, c, out, err);
}

/* Beside its place until it is whole. */
static int write_output(const struct collect_request *q, struct collected *c, struct err *err) {
    CLEANUP(freep) char *temp = str_dupf("%s.XXXXXX", q->output);
    CLEANUP(closep) int fd = temp ? mkostemp(temp, O_CLOEXEC) : -1;
    int r;

    if (!temp)
        return err_oom(err);
    if (fd < 0)
        return err_sys(err, -errno, "write '%.300s'", q->output);
    r = write_result(q, c, fd, err);
    if (r == 0 && (fchmod(fd, 0666 & ~inside_umask()) < 0 || rename(temp, q->output) < 0))
        r = err_sys(err, -errno, "write '%.300s'", q->output);
    if (r < 0)
        unlink(temp);
    return r;
}

static int collect(const struct collect_request *q, struct err *err) {
    CLEANUP(collected_done) struct collected c = COLLECTED_INIT;
    int r = inside_audit(&q->pick, "collect", q->paths.len ? q->paths.v[0] : NULL, q->output, err);

    r = r < 0 ? r : collect_job(&q->pick, (int)q->job, &c, err);
    r = r < 0 ? r : collect_events(&q->pick, &c, err);
    r = r < 0 || q->no_diff ? r : collect_changes(&q->pick, &c, err);
    r = r < 0 ? r : q->output ? write_output(q, &c, err) : write_result(q, &c, STDOUT_FILENO, err);
    for (size_t i = 0; i < c.notes.len; i++)
        log_line("left out: %s", c.notes.v[i]);
    return r < 0 ? r : c.notes.len ? EXIT_LEFT_OUT : 0;
}

static int run_collect(const struct verb *self, int argc, char **argv) {
    CLEANUP(request_done) struct collect_request q = {.pick = SANDBOX_PICK_INIT};
    struct err err = {0};
    int r = read_request(self, argc, argv, &q, &err);

    r = r < 0 ? r : collect(&q, &err);
    return r < 0 ? verb_fail(self, &err) : r;
}

static const char description[] =
    "Gathers what a sandbox left, as one JSON object or one tar archive: output and exit status of a command in the background, the patch and list "
    "of what was changed in the workspace, the events of its audit log, and, with --file, files from inside (the sandbox must run then).\n\n"
    "JSON has the members sandbox, id, workspace, job, rc (null: it still runs), stdout, stderr, diff, changed, events, files (path, mode, size, "
    "base64; 64 MiB together) and left_out. An archive has summary.json, stdout, stderr, changes.patch, changed.json, events.jsonl and files/ with "
    "paths as they are inside.\n\n"
    "    bawn collect box --file build/report.html > result.json\n"
    "    bawn collect box --format tar -o result.tar";

const struct verb verb_collect = {
    .name = "collect",
    .summary = "gather output, changes, events and files of a sandbox",
    .synopsis = "[options] [SANDBOX]",
    .description = description,
    .opts = opts,
    .n_opts = ARRAY_LEN(opts),
    .run = run_collect,
};
