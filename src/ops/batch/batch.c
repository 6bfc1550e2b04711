/* SPDX-License-Identifier: Apache-2.0 */
/* A batch from its options to its result. */
#include "ops/batch/batch.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "config/load/paths.h"
#include "ops/run/run_request.h"

enum { OUTPUT_MAX = 1024 * 1024 * 1024 };

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
    return r < 0 ? r : batch_modes(b, err);
}

/* The result stays beside the logs. A folder that has nothing in it was only a name. */
static int save_result(const struct batch *b, struct err *err) {
    CLEANUP(buf_done) struct buf json = BUF_INIT(OUTPUT_MAX);
    int r;

    batch_json(b, &json);
    if (!buf_ok(&json))
        return err_oom(err);
    r = paths_publish_at(b->logs_fd, b->logs, "result.json", 0600, json.data, json.len, PUBLISH_REPLACE, err);
    if (b->opts.log_dir)
        rmdir(b->folder);
    return r;
}

int batch_perform(struct batch *b, const struct batch_watch *w, int *ret_interrupts, struct err *err) {
    int r = batch_open_logs(b, err);

    r = r < 0 ? r : batch_run(b, w, err);
    if (r < 0)
        return r;
    *ret_interrupts = r;
    return save_result(b, err);
}
