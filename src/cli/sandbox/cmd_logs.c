/* SPDX-License-Identifier: Apache-2.0 */
/* `bawn logs`. */
#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/jsonout.h"
#include "cli/sandbox/exec_options.h"
#include "cli/verb.h"
#include "ops/sandbox/job_log.h"
#include "os/fd.h"
#include "proto/termfilter.h"

enum { JSON_TEXT_MAX = 256 * 1024 * 1024, TAIL_MAX = 1000000000 };

struct logs_line {
    struct job_log_opts log;
    bool only_out, only_err, json;
    struct termfilter filters[2];
    struct buf texts[2]; /* for JSON */
};

static const struct opt opts[] = {
    {0, 'f', "follow", NULL, "go on until the job ends", NULL, OPT_TO_FLAG(struct logs_line, log.follow)},
    {0, 0, "stdout", NULL, "its standard output only", NULL, OPT_TO_FLAG(struct logs_line, only_out)},
    {0, 0, "stderr", NULL, "its standard error only", NULL, OPT_TO_FLAG(struct logs_line, only_err)},
    {0, 'n', "tail", "N", "only the last N lines of what is there", NULL, OPT_TO_NUMBER(struct logs_line, log.tail, 0, TAIL_MAX)},
    {0, 0, "keeper", NULL, "what the sandbox's own supervisor said", NULL, OPT_TO_FLAG(struct logs_line, log.keeper)},
    {0, 'C', "directory", "DIR", "without SANDBOX: that of this workspace (default: the current folder)", "@dir",
     OPT_TO_TEXT(struct logs_line, log.dir)},
    {0, 0, "json", NULL, "as JSON", NULL, OPT_TO_FLAG(struct logs_line, json)},
};

static int print_chunk(int stream, const char *data, size_t n, void *arg) {
    uint8_t shown[TERMFILTER_OUT_MAX(JOB_LOG_CHUNK)];
    struct logs_line *l = arg;

    if (!isatty(stream))
        return fd_write_all(stream, data, n);
    return fd_write_all(stream, shown, termfilter_feed(&l->filters[stream - 1], data, n, shown));
}

/* No JSON string of ours holds a NUL. */
static int add_chunk(int stream, const char *data, size_t n, void *arg) {
    struct buf *text = &((struct logs_line *)arg)->texts[stream - 1];

    for (size_t i = 0; i < n; i++)
        buf_addc(text, data[i] ? data[i] : '?');
    return buf_ok(text) ? 0 : -ENOMEM;
}

static void add_logs_json(const struct logs_line *l, const struct job_log_result *r, struct buf *out) {
    static const char *const keys[2] = {"stdout", "stderr"};
    struct jsonout j = {.to = out};

    jsonout_open(&j, NULL, '{');
    jsonout_text(&j, "sandbox", r->sandbox);
    jsonout_u64_if(&j, "job", !l->log.keeper, r->job);
    if (l->log.keeper)
        jsonout_text(&j, "keeper", buf_str(&l->texts[0]));
    for (int i = 0; i < 2 && !l->log.keeper; i++)
        if (!l->log.skip[i])
            jsonout_text(&j, keys[i], buf_str(&l->texts[i]));
    buf_adds(out, "}\n");
}

static int read_logs_line(const struct verb_call *c, struct logs_line *l, struct err *err) {
    int r = verb_parse(c, l, 2, err);

    r = r < 0 ? r : exec_operands(r, c->argv + 1, &l->log.name, &l->log.job, err);
    if (r == 0 && l->log.follow && (l->log.keeper || l->json))
        return err_usage(err, "--follow goes neither with --keeper nor with --json");
    l->log.skip[0] = l->only_err && !l->only_out;
    l->log.skip[1] = l->only_out && !l->only_err;
    l->log.output = l->json ? add_chunk : print_chunk;
    l->log.arg = l;
    return r;
}

/* Our own reader may go away (head): that is no error. */
static int run_logs(struct verb_call *c, struct err *err) {
    struct logs_line l = {.log.tail = UINT64_MAX, .texts = {BUF_INIT(JSON_TEXT_MAX), BUF_INIT(JSON_TEXT_MAX)}};
    struct job_log_result result;
    int r = read_logs_line(c, &l, err);

    termfilter_init(&l.filters[0]);
    termfilter_init(&l.filters[1]);
    r = r < 0 ? r : job_log(&l.log, &result, err);
    if (r < 0 && r != -EPIPE && !err->code)
        err_sys(err, r, "write the output");
    if (r >= 0 && l.json)
        add_logs_json(&l, &result, &c->out);
    buf_done(&l.texts[0]);
    buf_done(&l.texts[1]);
    return r < 0 && r != -EPIPE ? r : 0;
}

const struct verb verb_logs = {
    .name = "logs",
    .summary = "show what a command in the background printed",
    .synopsis = "[options] [SANDBOX] [JOB]",
    .description =
        "What a job in the background of a sandbox wrote: its standard output to standard output, its standard error to standard "
        "error, of both the last megabytes. Without JOB it is the latest one, without SANDBOX the project's own. On a terminal, "
        "sequences that would do more than print are left out.",
    VERB_OPTS(opts),
    .run = run_logs,
};
